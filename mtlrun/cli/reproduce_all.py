"""``mtlrun reproduce all``: every artefact of every paper, one after the other, and a summary of all."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mtlrun.cli.console import say
from mtlrun.cli.options import debugging
from mtlrun.errors import UserError, counted

if TYPE_CHECKING:
    from mtlrun.report.summary import Overview
    from mtlrun.runs.artefacts import Everything
    from mtlrun.runs.plan import Plan
    from mtlrun.runs.spec import Experiment


@dataclass
class Options:
    """What `mtlrun reproduce all` was asked for; the fields are those of `mtlrun reproduce`."""

    profile: str | None
    seed: int | None
    only: list[str] | None
    data_dir: Path | None
    jobs: int | None
    backend: str | None
    scheduler: str | None
    force: bool
    fail_fast: bool
    yes: bool
    output_dir: Path
    form: str | None
    check: bool
    quiet: bool


@dataclass
class Outcome:
    """What became of the artefacts: those not made with the reason, whether a cell failed, whether it was stopped."""

    lost: dict[str, str] = field(default_factory=dict)
    failed: bool = False
    interrupted: bool = False


def reproduce_all(options: Options, *, dry_run: bool) -> int:
    """Compute what is missing of every artefact, write all reports and the summary, and return the exit code.

    One artefact's failure does not stop the others. Codes: 130 interrupted, 2 an artefact could not be started (data,
    configuration), 1 a cell failed or --check refused something, 0 else.
    """
    from mtlrun.cli.summary import check_summary_format, print_summary, say_checks
    from mtlrun.runs.artefacts import gather

    check_summary_format(options.form)
    everything = gather(
        profile=options.profile,
        seed=options.seed,
        data_dir=options.data_dir,
        only=options.only,
        output=options.output_dir,
        prepare=lambda experiment: _prepare(experiment, options, dry_run),
    )
    if dry_run:
        _say_plans(everything, options.force)
        return 0
    outcome = _compute_all(everything, options)
    overview = _overview(everything, outcome, options)
    print_summary(overview, options.output_dir, options.form)
    for name, error in everything.refused.items():
        say(f"error: {name}: {error}", error=True)
    good = say_checks(overview) if options.check else True
    if outcome.interrupted:
        say("interrupted; finished cells are kept: run the same command again", error=True)
        return 130
    return 2 if everything.refused else 1 if outcome.failed or not good else 0


def _prepare(experiment: Experiment, options: Options, dry_run: bool) -> None:
    """See that the data of an experiment are here.

    Raises
    ------
    UserError
        If they are not.
    """
    from mtlrun.cli.fetching import ensure_data, missing_data

    if not dry_run:
        ensure_data(experiment, options.data_dir, yes=options.yes)
    elif missing := missing_data(experiment, options.data_dir):
        raise UserError(f"to download first: {', '.join(card.id for card, *_ in missing)}")


def _say_plans(everything: Everything, force: bool) -> None:
    """Print what would be computed, artefact by artefact."""
    from mtlrun.runs.artefacts import to_compute

    counts = to_compute(everything.plans, force=force)
    width = max((len(made.experiment.id) for made in everything.plans), default=0)
    for made, (cells, folds, shared) in zip(everything.plans, counts, strict=True):
        more = f" and {counted(folds, 'fold')} of searches" * bool(folds)
        more += f"; {shared} shared with artefacts above" * bool(shared)
        of = f"{cells} of {len(made.wanted)} cells{more}"
        say(f"{made.experiment.id:{width}}  {made.experiment.profile}  {of if cells or shared else 'up to date'}")
    for name, why in everything.left_out.items():
        say(f"{name:{width}}  left out: {why}")
    cells, folds, _ = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0, 0)
    n, total = len(everything.plans), sum(len(made.wanted) for made in everything.plans)
    told = counted(folds, "fold")
    say(f"{counted(n, 'artefact')}: {cells} of {total} cells and {told} to compute; nothing was run")


def _compute_all(everything: Everything, options: Options) -> Outcome:
    """Run every plan and write its report; what stops one of them does not stop the next."""
    outcome = Outcome()
    n = len(everything.plans)
    for place, made in enumerate(everything.plans):
        name = made.experiment.id
        if outcome.interrupted or (outcome.failed and options.fail_fast):
            outcome.lost[name] = "interrupted before it" if outcome.interrupted else "stopped by --fail-fast before it"
            continue
        if not options.quiet:
            say(f"== {place + 1}/{n} {name}, profile {made.experiment.profile}", error=True)
        try:
            _one(made, options, outcome)
        except KeyboardInterrupt:
            outcome.interrupted = True
        except UserError as error:
            everything.refused[name] = error
            say(f"error: {name}: {error}", error=True)
        except Exception as error:  # a mistake of ours in one artefact must not cost the others
            if debugging():
                raise
            outcome.failed = True
            outcome.lost[name] = f"{type(error).__name__}: {error}"
            say(f"error: {name}: {outcome.lost[name]} (unexpected; --debug shows where)", error=True)
    return outcome


def _one(made: Plan, options: Options, outcome: Outcome) -> None:
    """Run one plan, write its report and its page, and say in lines what it found."""
    from mtlrun.cli.running import compute
    from mtlrun.cli.summary import write_run
    from mtlrun.report.build import build_report
    from mtlrun.report.summary import RunReport

    summary = compute(
        made, options.jobs, options.backend, options.scheduler, options.force, options.fail_fast, options.quiet
    )
    outcome.interrupted = summary.interrupted
    outcome.failed = outcome.failed or bool(summary.n_failed)
    entry = RunReport(made.folder.relative_to(options.output_dir).as_posix(), build_report(made.folder))
    write_run(entry, options.output_dir)
    if not options.quiet:
        for line in entry.report.summary:
            say(line, error=True)


def _overview(everything: Everything, outcome: Outcome, options: Options) -> Overview:
    """Return the summary of what was asked for; runs of other artefacts in the folder are no part of it."""
    from mtlrun.report.summary import read_overview

    overview = read_overview(options.output_dir, options.profile)
    asked = {made.folder.relative_to(options.output_dir).as_posix() for made in everything.plans}
    overview.entries = [entry for entry in overview.entries if entry.place in asked]
    have = {entry.id for entry in overview.entries}
    told = {**everything.left_out, **outcome.lost}
    overview.left_out = {name: why for name, why in told.items() if name not in have}
    overview.command = shlex.join(["mtlrun", "reproduce", "all", *_words(options)])
    return overview


def _words(options: Options) -> Sequence[str]:
    words = ["--profile", options.profile] if options.profile else []
    words += ["--seed", str(options.seed)] if options.seed is not None else []
    return [*words, *(word for text in options.only or () for word in ("--only", text))]
