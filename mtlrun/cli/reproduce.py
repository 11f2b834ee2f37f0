"""``mtlrun reproduce``: compute what is missing of an experiment, then print and write its report."""

from __future__ import annotations

import shlex
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import open_page, say
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.cli.report import ALL, REPORT, check_format
from mtlrun.errors import UserError, counted
from mtlrun.utils.io import writing

if TYPE_CHECKING:
    from mtlrun.report.summary import Overview, RunReport
    from mtlrun.runs.plan import Plan, PlannedCell
    from mtlrun.runs.results import Batch
    from mtlrun.runs.run import RunSummary
    from mtlrun.runs.spec import Experiment


@dataclass(frozen=True)
class Request:
    """What `mtlrun reproduce` was asked for: its options."""

    profile: str | None
    reading: str | None
    seed: int | None
    only: list[str] | None
    data_dir: Path | None
    jobs: int | None
    backend: str | None
    scheduler: str | None
    force: bool
    dry_run: bool
    fail_fast: bool
    retries: int
    yes: bool
    output_dir: Path
    form: str | None
    check: bool
    show: bool
    quiet: bool
    debug: bool

    @property
    def words(self) -> list[str]:
        """The options that another profile can be run with, too, as words of a command line."""
        given = {"--reading": self.reading, "--seed": self.seed, "--jobs": self.jobs}
        if self.output_dir != OUTPUT_DEFAULT:
            given["--output"] = str(self.output_dir)
        return [word for name, value in given.items() if value is not None for word in (name, str(value))]

    def compute(self, made: Plan) -> RunSummary:
        """Run a plan, with progress."""
        from mtlrun.runs.pool import make_progress
        from mtlrun.runs.run import NO_ROOM, run

        with writing(made.folder, NO_ROOM):
            return run(
                made,
                jobs=self.jobs,
                backend=self.backend,
                scheduler=self.scheduler,
                force=self.force,
                fail_fast=self.fail_fast,
                retries=self.retries,
                progress=make_progress(quiet=self.quiet),
            )


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Experiment: <paper>/<artefact>, a short name such as table2, or a YAML file; `all` runs every "
            "artefact of every paper.",
            autocompletion=options.targets_and_all,
        ),
    ],
    profile: options.Profile = None,
    overrides: options.Overrides = None,
    reading: options.Reading = None,
    seed: options.Seed = None,
    only: options.Only = None,
    data_dir: options.DataDir = None,
    jobs: options.AnyJobs = None,
    backend: options.Backend = None,
    scheduler: options.Scheduler = None,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    fail_fast: options.FailFast = False,
    retries: options.Retries = 0,
    yes: options.Yes = False,
    output_dir: options.Output = OUTPUT_DEFAULT,
    form: options.Format = None,
    check: options.Check = False,
    show: options.Open = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Reproduce a published table or figure and compare it with the paper.

    Only missing cells are computed, so an interrupted run continues where it stopped when the command is repeated.
    The table is printed; table, report and figures are written to DIR/<paper>/<artefact>/<profile>.
    """
    asked = locals()
    request = Request(**{name: asked[name] for name in Request.__dataclass_fields__})
    if target == ALL:
        if overrides:
            raise UserError("--set needs a single experiment", "Name the experiment in place of `all`.")
        if reading not in (None, ALL):
            raise UserError("--reading NAME needs a single experiment", "Name the experiment, or give --reading all.")
        raise typer.Exit(reproduce_all(request))
    from mtlrun.cli.console import ensure_data, missing_data
    from mtlrun.runs.load import load_experiment
    from mtlrun.runs.plan import check_reading, plan

    check_format(form)
    experiment = load_experiment(target, profile=profile, overrides=overrides or (), seed=seed, data_dir=data_dir)
    check_reading(experiment, reading)
    if not quiet:
        _say_experiment(experiment)
    if dry_run and (missing := missing_data(experiment, data_dir)):
        names = ", ".join(card.id for card, *_ in missing)
        say(f"to be downloaded first: {names}; then all cells would be computed")
        return
    ensure_data(experiment, data_dir, yes=yes, options=request.words)
    made = plan(experiment, data_dir=data_dir, only=only, reading=reading, output=output_dir)
    if dry_run:
        _say_plan(made, force)
        return
    code = _conclude(made, request)
    if show:
        open_page(made.folder / REPORT)
    raise typer.Exit(code)


def _say_experiment(experiment: Experiment) -> None:
    """Print what will be run, on stderr: stdout is for results."""
    from mtlrun.runs.plan import settings

    spec = experiment.spec
    trials = sorted({place.trials for place in settings(spec)})
    sizes = {
        "data set": [len(spec.datasets)] if spec.datasets else [],
        "value": [len(spec.sweep.values)] if spec.sweep else [],
        "method": [len(spec.methods)],
        "repeat" if spec.measures else "split": trials,
    }
    shown = [f"{'/'.join(map(str, n))} {name}{'s' * (n[-1] > 1)}" for name, n in sizes.items() if n]
    data = ", ".join(d.name for d in spec.datasets) or "published numbers"
    say(f"{experiment.id}: {spec.title}", error=True)
    say(f"profile {experiment.profile}: {' x '.join(shown)}; data: {data}", error=True)


def _say_plan(made: Plan, force: bool) -> None:
    """Print what would be computed and why."""
    from mtlrun.runs.plan import rerun_reasons, survey
    from mtlrun.runs.run import todo, work_text

    store = made.store()
    cells, folds = todo(made, store, force=force)
    if not cells:
        say(f"all {counted(len(made.wanted), 'cell')} up to date")
        return
    for line in rerun_reasons(made, survey(made, store)):
        say(line)
    keys = {cell.key for cell in (*cells, *folds)}
    grouped: dict[str, list[PlannedCell]] = defaultdict(list)
    for row in made.wanted:
        if row.cell.key in keys:
            grouped[f"{row.dataset}/{row.method}"].append(row)
    for name, rows in grouped.items():
        searches = keys.intersection(fold.key for row in rows for fold in row.cell.folds)
        more = f" and {counted(len(searches), 'search fold')}" if searches else ""
        say(f"would compute {name}: {counted(len(rows), 'cell')}{more}")
    say(f"{work_text(len(cells), len(folds), len(made.wanted))}; nothing was run")


def _conclude(plan: Plan, request: Request) -> int:
    """Compute what is missing, print the report, write it unless it stands there, and return the exit code."""
    from mtlrun.cli.report import print_report, say_problems
    from mtlrun.report.writers import is_written
    from mtlrun.runs.results import load_run, write_results

    summary = request.compute(plan)
    made = load_run(plan.folder) if summary.unchanged else write_results(plan)
    if summary.unchanged and not is_written(made, plan.folder):
        write_results(plan)
    print_report(made, request.form, plan.folder)
    if summary.interrupted:
        left = counted(summary.n_left, "cell")
        say(f"interrupted with {left} left; finished cells are kept: run the same command to continue", error=True)
    good = summary.interrupted or not request.check or say_problems(made.check_problems)
    return summary.exit_code if good else 1


# ---------------------------------------------------------------------- all artefacts


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
        more = f" and {counted(folds, 'search fold')}" if folds else ""
        more += f"; {shared} shared with artefacts above" if shared else ""
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
