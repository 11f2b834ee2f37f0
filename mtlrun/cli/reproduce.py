"""``mtlrun reproduce``: compute the missing jobs of an experiment, and report it."""

from __future__ import annotations

import shlex
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlrun.cli import options
from mtlrun.cli.console import (
    ensure_data,
    missing_data,
    open_page,
    say,
    terminal_properties,
)
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.cli.report import (
    ALL,
    REPORT,
    all_problems,
    check_format,
    print_report,
    print_summary,
    print_text,
    report_problems,
    report_text,
)
from mtlrun.errors import UserError, counted
from mtlrun.utils import io

if TYPE_CHECKING:
    from mtlrun.engine.plan import PlannedJob
    from mtlrun.engine.run import RunSummary
    from mtlrun.lab.batch import Batch
    from mtlrun.lab.experiment.spec import Experiment
    from mtlrun.lab.plan import Plan
    from mtlrun.lab.report.build import Report
    from mtlrun.lab.report.summary import RunReport

#: Profile of `mtlrun reproduce all` if none is given.
DEFAULT_PROFILE = "quick"


@dataclass(frozen=True)
class Request:
    """Options of `mtlrun reproduce`; see the help of the command."""

    profile: options.Profile = None
    overrides: options.Overrides = None
    interpretation: options.Interpretation = None
    seed: options.Seed = None
    only: options.Only = None
    data_dir: options.DataDir = None
    jobs: options.AnyJobs = None
    backend: options.Backend = None
    scheduler: options.Scheduler = None
    force: options.Force = False
    dry_run: options.DryRun = False
    fail_fast: options.FailFast = False
    retries: options.Retries = 0
    yes: options.Yes = False
    output_dir: options.Output = OUTPUT_DEFAULT
    form: options.Format = None
    check: options.Check = False
    show: options.Open = False
    quiet: options.Quiet = False
    debug: options.Debug = False

    @property
    def transferable(self) -> list[str]:
        """Options that also apply to another profile, as arguments of the command."""
        values = {
            "--interpretation": self.interpretation,
            "--seed": self.seed,
            "--jobs": self.jobs,
        }
        if self.output_dir != OUTPUT_DEFAULT:
            values["--output"] = str(self.output_dir)
        arguments: list[str] = []
        for name, value in values.items():
            if value is not None:
                arguments += [name, str(value)]
        return arguments

    def compute(self, run_plan: Plan) -> RunSummary:
        """Run the jobs of a plan that are missing, and show the progress."""
        from mtlrun.engine.run import CANNOT_WRITE_REMEDY, run
        from mtlrun.parallel.progress import make_progress

        with io.writing(run_plan.folder, CANNOT_WRITE_REMEDY):
            return run(
                run_plan,
                n_jobs=self.jobs,
                backend=self.backend,
                scheduler=self.scheduler,
                force=self.force,
                fail_fast=self.fail_fast,
                retries=self.retries,
                progress=make_progress(quiet=self.quiet),
            )


@options.with_fields(Request)
def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help=(
                "Experiment: <paper>/<artifact>, the artifact alone if only one paper "
                "has it, or a YAML file; `all` runs every artifact of every paper."
            ),
            autocompletion=options.targets_and_all,
        ),
    ],
    **values: Any,
) -> None:
    """Reproduce a published table or figure and compare it with the paper.

    Only missing results are computed, so an interrupted run continues where it stopped
    when the command is repeated. The table is printed; table, report and figures are
    written to DIR/<paper>/<artefact>/<profile>.
    """
    request = Request(**values)
    if target == ALL:
        if request.overrides:
            raise UserError(
                "--set needs a single experiment",
                "Name the experiment in place of `all`.",
            )
        if request.interpretation not in (None, ALL):
            raise UserError(
                "--interpretation NAME needs a single experiment",
                "Name the experiment, or give --interpretation all.",
            )
        raise typer.Exit(reproduce_all(request))
    raise typer.Exit(_reproduce_one(target, request))


def _reproduce_one(target: str, request: Request) -> int:
    """Reproduce one experiment; return the exit code."""
    from mtlrun.lab.experiment.load import load_experiment
    from mtlrun.lab.plan import check_interpretation, plan, scale_warnings

    check_format(request.form)
    experiment = load_experiment(
        target,
        profile=request.profile,
        overrides=request.overrides or (),
        seed=request.seed,
        data_dir=request.data_dir,
    )
    for text in experiment.warnings:
        say(f"warning: {text}", error=True)
    check_interpretation(experiment, request.interpretation)
    if not request.quiet:
        # Print the size of an experiment to stderr; stdout is for results.
        from mtlrun.lab.plan import scenarios

        spec = experiment.spec
        sizes: dict[str, list[int]] = {}
        if spec.datasets:
            sizes["data set"] = [len(spec.datasets)]
        if spec.sweep:
            sizes["value"] = [len(spec.sweep.values)]
        sizes["method"] = [len(spec.methods)]
        # The number of splits may differ between data sets.
        trials = sorted({scenario.trials for scenario in scenarios(spec)})
        sizes["repeat" if spec.is_analysis else "split"] = trials
        parts = []
        for name, numbers in sizes.items():
            if numbers:
                plural = "s" if numbers[-1] > 1 else ""
                parts.append(f"{'/'.join(map(str, numbers))} {name}{plural}")
        data = (
            ", ".join(dataset.name for dataset in spec.datasets) or "published numbers"
        )
        say(f"{experiment.id}: {spec.title}", error=True)
        say(
            f"profile {experiment.profile}: {' x '.join(parts)}; data: {data}",
            error=True,
        )
    if request.dry_run:
        missing = missing_data(experiment, request.data_dir)
        if missing:
            names = ", ".join(card.id for card, *_ in missing)
            say(f"to be downloaded first: {names}; then all results would be computed")
            return 0
    ensure_data(
        experiment, request.data_dir, yes=request.yes, options=request.transferable
    )
    run_plan = plan(
        experiment,
        data_dir=request.data_dir,
        only=request.only,
        interpretation=request.interpretation,
        output=request.output_dir,
    )
    if request.dry_run:
        _print_plan(run_plan, request.force)
        return 0
    for text in scale_warnings(run_plan):
        say(f"warning: {text}", error=True)
    exit_code = _compute_and_report(run_plan, request)
    if request.show:
        open_page(run_plan.folder / REPORT)
    return exit_code


def _print_plan(run_plan: Plan, force: bool) -> None:
    """Print what would be computed and why."""
    from mtlrun.engine.plan import job_states, rerun_reasons
    from mtlrun.engine.run import describe_work, missing_jobs

    store = run_plan.store()
    jobs, folds = missing_jobs(run_plan, store, force=force)
    if not jobs:
        say(f"all {counted(len(run_plan.wanted), 'result')} up to date")
        return
    for line in rerun_reasons(run_plan, job_states(run_plan, store)):
        say(line)
    keys = {job.key for job in (*jobs, *folds)}
    groups: dict[str, list[PlannedJob]] = defaultdict(list)
    for row in run_plan.wanted:
        if row.job.key in keys:
            groups[f"{row.dataset}/{row.method}"].append(row)
    for name, rows in groups.items():
        text = f"would compute {name}: {counted(len(rows), 'result')}"
        missing_folds: set[str] = set()
        for row in rows:
            missing_folds.update(fold.key for fold in row.job.folds)
        # Cells may share folds of their searches.
        missing_folds &= keys
        if missing_folds:
            text += f" and {counted(len(missing_folds), 'search fold')}"
        say(text)
    work = describe_work(len(jobs), len(folds), len(run_plan.wanted))
    say(f"{work}; nothing was run")


def _compute_and_report(run_plan: Plan, request: Request) -> int:
    """Compute what is missing, print and write the report; return the exit code."""
    summary = request.compute(run_plan)
    if summary.unchanged and request.form is None and not request.check:
        # Print the report of a run in which nothing had to be computed.
        from mtlrun.lab.terminal_text import keep_text, kept_text, report_state

        folder = run_plan.folder
        terminal = terminal_properties()
        state = report_state(run_plan, terminal)
        text = kept_text(folder, state)
        if text is None:
            text = report_text(_written_report(run_plan, unchanged=True))
            # Another process may have changed the files meanwhile.
            if report_state(run_plan, terminal) == state:
                keep_text(folder, state, text)
        print_text(text, folder)
        return summary.exit_code
    from mtlrun.lab.report.build import check_problems

    run_report = _written_report(run_plan, unchanged=summary.unchanged)
    print_report(run_report, request.form, run_plan.folder)
    if summary.interrupted:
        remaining = counted(summary.n_left, "result")
        say(
            f"interrupted with {remaining} left; finished results are kept: "
            "run the same command to continue",
            error=True,
        )
        return summary.exit_code
    if request.check and not report_problems(check_problems(run_report)):
        return 1
    return summary.exit_code


def _written_report(run_plan: Plan, *, unchanged: bool) -> Report:
    """Return the report of a run, and write it unless its files are up to date.

    Parameters
    ----------
    run_plan : Plan
    unchanged : bool
        Whether nothing was computed, so that the files may be up to date.
    """
    from mtlrun.lab.report.formats import is_written
    from mtlrun.lab.results import load_run, write_results

    if not unchanged:
        return write_results(run_plan)
    run_report = load_run(run_plan.folder)
    if not is_written(run_report, run_plan.folder):
        write_results(run_plan)
    return run_report


# --------------------------------------------------------------- all paper items


@dataclass
class _Outcome:
    """Outcome of many runs.

    Attributes
    ----------
    entries : list of RunReport
    unfinished : dict of str to str
        Reasons why paper items were not finished, by their ids.
    failed : bool
        Whether a result failed.
    interrupted : bool
    """

    entries: list[RunReport] = field(default_factory=list)
    unfinished: dict[str, str] = field(default_factory=dict)
    failed: bool = False
    interrupted: bool = False


def reproduce_all(request: Request) -> int:
    """Reproduce all paper items, and write their reports and the summary.

    A failure of one item does not stop the others.

    Returns
    -------
    int
        Exit code: 130 if interrupted, 2 if an item could not be started because of its
        data or configuration, 1 if a result failed or --check found a deviation, else 0.
    """
    from mtlrun.lab.batch import gather

    request = replace(request, profile=request.profile or DEFAULT_PROFILE)
    check_format(request.form, "format of a summary")
    batch = gather(
        profile=request.profile,
        seed=request.seed,
        data_dir=request.data_dir,
        only=request.only,
        interpretation=request.interpretation,
        output=request.output_dir,
        prepare=lambda experiment: _prepare(experiment, request),
    )
    if request.dry_run:
        _print_plans(batch, request.force)
        return 0
    outcome = _compute_all(batch, request)
    # The summary of the paper items that were computed.
    from mtlrun.lab.report.summary import Overview

    command = ["mtlrun", "reproduce", "all"]
    if request.profile:
        command += ["--profile", request.profile]
    if request.interpretation:
        command += ["--interpretation", request.interpretation]
    if request.seed is not None:
        command += ["--seed", str(request.seed)]
    for text in request.only or ():
        command += ["--only", text]
    overview = Overview(
        sorted(outcome.entries, key=lambda entry: entry.path),
        left_out={**batch.left_out, **outcome.unfinished},
        profile=request.profile,
        command=shlex.join(command),
    )
    print_summary(overview, request.output_dir, request.form)
    for name, error in batch.refused.items():
        say(f"error: {name}: {error.shell_text}", error=True)
    agrees = True
    if request.check:
        agrees = report_problems(all_problems(overview))
    if outcome.interrupted:
        say(
            "interrupted; finished results are kept: run the same command to continue",
            error=True,
        )
        return 130
    if batch.refused:
        return 2
    return 1 if outcome.failed or not agrees else 0


def _prepare(experiment: Experiment, request: Request) -> None:
    """Download missing data; a `UserError` excludes the experiment from the batch."""
    if not request.dry_run:
        ensure_data(experiment, request.data_dir, yes=request.yes)
        return
    missing = missing_data(experiment, request.data_dir)
    if missing:
        names = ", ".join(card.id for card, *_ in missing)
        raise UserError(f"to be downloaded first: {names}")


def _print_plans(batch: Batch, force: bool) -> None:
    """Print what would be computed for each paper item."""
    from mtlrun.lab.batch import to_compute

    counts = to_compute(batch.plans, force=force)
    width = max((len(run_plan.experiment.id) for run_plan in batch.plans), default=0)
    for run_plan, (n_cells, n_folds, n_shared) in zip(batch.plans, counts, strict=True):
        text = "up to date"
        if n_cells or n_shared:
            text = f"{n_cells} of {len(run_plan.wanted)} results"
            if n_folds:
                text += f" and {counted(n_folds, 'search fold')}"
            if n_shared:
                text += f"; {n_shared} shared with artifacts above"
        experiment = run_plan.experiment
        say(f"{experiment.id:{width}}  {experiment.profile}  {text}")
    for name, reason in batch.left_out.items():
        say(f"{name:{width}}  left out: {reason}")
    n_cells = sum(count.n_jobs for count in counts)
    n_folds = sum(count.n_folds for count in counts)
    total = sum(len(run_plan.wanted) for run_plan in batch.plans)
    say(
        f"{counted(len(batch.plans), 'artifact')}: "
        f"{n_cells} of {counted(total, 'result')} and "
        f"{counted(n_folds, 'search fold')} to compute; nothing was run"
    )


def _compute_all(batch: Batch, request: Request) -> _Outcome:
    """Compute each plan and write its report; errors do not stop the next plan."""
    outcome = _Outcome()
    for number, run_plan in enumerate(batch.plans, start=1):
        name = run_plan.experiment.id
        if outcome.interrupted:
            outcome.unfinished[name] = "not started: interrupted"
            continue
        if outcome.failed and request.fail_fast:
            outcome.unfinished[name] = "not started: --fail-fast"
            continue
        if not request.quiet:
            progress = f"{number}/{len(batch.plans)}"
            profile = run_plan.experiment.profile
            say(f"== {progress} {name}, profile {profile}", error=True)
        try:
            # Compute the plan, write its report and print a short summary.
            from mtlrun.lab.report.summary import RunReport
            from mtlrun.lab.results import write_results

            summary = request.compute(run_plan)
            outcome.interrupted = summary.interrupted
            outcome.failed = outcome.failed or bool(summary.n_failed)
            report = write_results(run_plan)
            folder = run_plan.folder.relative_to(request.output_dir).as_posix()
            outcome.entries.append(RunReport(folder, report))
            if not request.quiet:
                for line in report.summary:
                    say(line, error=True)
        except KeyboardInterrupt:
            outcome.interrupted = True
            outcome.unfinished[name] = "interrupted"
        except UserError as error:
            batch.refused[name] = error
            say(f"error: {name}: {error.shell_text}", error=True)
        except Exception as error:
            # A bug in one paper item must not cost the results of the others.
            if request.debug:
                raise
            outcome.failed = True
            reason = f"{type(error).__name__}: {error}"
            outcome.unfinished[name] = reason
            say(f"error: {name}: {reason} (a bug; --debug shows where)", error=True)
    return outcome
