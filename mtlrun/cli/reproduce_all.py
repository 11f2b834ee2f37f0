"""``mtlrun reproduce all``: every artefact of every paper, one after the other, with a summary."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mtlrun.cli.console import say
from mtlrun.errors import UserError, counted

if TYPE_CHECKING:
    from mtlrun.cli.reproduce import Request
    from mtlrun.report.summary import Overview, RunReport
    from mtlrun.runs.plan import Plan
    from mtlrun.runs.results import Batch
    from mtlrun.runs.spec import Experiment


#: Used when none is named.
DEFAULT_PROFILE = "quick"


@dataclass
class _Tally:
    """What came out: reports, artefacts that were not finished and why, whether a cell failed or Ctrl-C was pressed."""

    entries: list[RunReport] = field(default_factory=list)
    unfinished: dict[str, str] = field(default_factory=dict)
    failed: bool = False
    interrupted: bool = False


def reproduce_all(request: Request) -> int:
    """Compute what is missing of every artefact, write all reports and the summary, and return the exit code.

    A failure of one artefact does not stop the others. Codes: 130 interrupted, 2 an artefact could not be started
    (data, configuration), 1 a cell failed or --check found a deviation, 0 otherwise.
    """
    from mtlrun.cli.report import all_problems, check_format, print_summary, say_problems
    from mtlrun.runs.results import gather

    request = replace(request, profile=request.profile or DEFAULT_PROFILE)
    check_format(request.form, "format of a summary")
    batch = gather(
        profile=request.profile,
        seed=request.seed,
        data_dir=request.data_dir,
        only=request.only,
        reading=request.reading,
        output=request.output_dir,
        prepare=lambda experiment: _prepare(experiment, request),
    )
    if request.dry_run:
        _say_plans(batch, request.force)
        return 0
    tally = _compute_all(batch, request)
    overview = _overview(batch, tally, request)
    print_summary(overview, request.output_dir, request.form)
    for name, error in batch.refused.items():
        say(f"error: {name}: {error}", error=True)
    good = not request.check or say_problems(all_problems(overview))
    if tally.interrupted:
        say("interrupted; finished cells are kept: run the same command to continue", error=True)
        return 130
    return 2 if batch.refused else 1 if tally.failed or not good else 0


def _prepare(experiment: Experiment, request: Request) -> None:
    """See that the data of an experiment are here; a UserError leaves the experiment out."""
    from mtlrun.cli.console import ensure_data, missing_data

    if not request.dry_run:
        ensure_data(experiment, request.data_dir, yes=request.yes)
    elif missing := missing_data(experiment, request.data_dir):
        raise UserError(f"to be downloaded first: {', '.join(card.id for card, *_ in missing)}")


def _say_plans(batch: Batch, force: bool) -> None:
    """Print what would be computed, artefact by artefact."""
    from mtlrun.runs.results import to_compute

    counts = to_compute(batch.plans, force=force)
    width = max((len(made.experiment.id) for made in batch.plans), default=0)
    for made, (cells, folds, shared) in zip(batch.plans, counts, strict=True):
        more = f" and {counted(folds, 'search fold')}" * bool(folds)
        more += f"; {shared} shared with artefacts above" * bool(shared)
        of = f"{cells} of {len(made.wanted)} cells{more}"
        say(f"{made.experiment.id:{width}}  {made.experiment.profile}  {of if cells or shared else 'up to date'}")
    for name, why in batch.left_out.items():
        say(f"{name:{width}}  left out: {why}")
    cells, folds = sum(count[0] for count in counts), sum(count[1] for count in counts)
    total = sum(len(made.wanted) for made in batch.plans)
    say(
        f"{counted(len(batch.plans), 'artefact')}: {cells} of {counted(total, 'cell')} and "
        f"{counted(folds, 'search fold')} to compute; nothing was run"
    )


def _compute_all(batch: Batch, request: Request) -> _Tally:
    """Run every plan and write its report; what stops one of them does not stop the next."""
    tally = _Tally()
    for place, made in enumerate(batch.plans, start=1):
        name = made.experiment.id
        if tally.interrupted or (tally.failed and request.fail_fast):
            tally.unfinished[name] = "not started: interrupted" if tally.interrupted else "not started: --fail-fast"
            continue
        if not request.quiet:
            say(f"== {place}/{len(batch.plans)} {name}, profile {made.experiment.profile}", error=True)
        try:
            _compute_one(made, request, tally)
        except KeyboardInterrupt:
            tally.interrupted = True
            tally.unfinished[name] = "interrupted"
        except UserError as error:
            batch.refused[name] = error
            say(f"error: {name}: {error}", error=True)
        except Exception as error:  # a bug in one artefact must not cost the others
            if request.debug:
                raise
            tally.failed = True
            tally.unfinished[name] = f"{type(error).__name__}: {error}"
            say(f"error: {name}: {tally.unfinished[name]} (a bug; --debug shows where)", error=True)
    return tally


def _compute_one(made: Plan, request: Request, tally: _Tally) -> None:
    """Run one plan, write its report and its page, and print what it found in a few lines."""
    from mtlrun.report.summary import RunReport
    from mtlrun.runs.results import write_results

    summary = request.compute(made)
    tally.interrupted = summary.interrupted
    tally.failed = tally.failed or bool(summary.n_failed)
    report = write_results(made)
    tally.entries.append(RunReport(made.folder.relative_to(request.output_dir).as_posix(), report))
    if not request.quiet:
        for line in report.summary:
            say(line, error=True)


def _overview(batch: Batch, tally: _Tally, request: Request) -> Overview:
    """Return the summary of the artefacts that were computed now."""
    from mtlrun.report.summary import Overview

    words = ["--profile", request.profile] if request.profile else []
    words += ["--reading", request.reading] if request.reading else []
    words += ["--seed", str(request.seed)] if request.seed is not None else []
    words += [word for text in request.only or () for word in ("--only", text)]
    return Overview(
        sorted(tally.entries, key=lambda entry: entry.place),
        left_out={**batch.left_out, **tally.unfinished},
        profile=request.profile,
        command=shlex.join(["mtlrun", "reproduce", "all", *words]),
    )
