"""``mtlrun reproduce``, ``report``, ``plot`` and ``verify``.

They compute what is missing of experiments, report what is stored (a run, many runs, a figure), and see whether the
present code still computes the same.
"""

from __future__ import annotations

import contextlib
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import (
    complain,
    ensure_data,
    missing_data,
    open_page,
    output,
    say,
    writing,
)
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import UnknownNameError, UserError, counted, listed
from mtlrun.utils import io

if TYPE_CHECKING:
    from mtlrun.engine.plan import PlannedJob
    from mtlrun.engine.run import RunSummary
    from mtlrun.lab.plan import Plan
    from mtlrun.lab.report.build import Report
    from mtlrun.lab.report.summary import Overview, RunReport
    from mtlrun.lab.results import Batch
    from mtlrun.lab.spec import Experiment
    from mtlrun.lab.verify import Trial

#: In place of an experiment: all of them.
ALL = "all"
HTML, PARQUET = "html", "parquet"
#: Format that a file has by its ending.
ENDINGS = {f".{form}": form for form in (HTML, "md", "json", "csv", "tex", PARQUET)}
#: The report for people, in the folder of the run, and what else lies there.
REPORT = "report.html"
ALSO = "also report.md, table.csv"
#: The page of a comparison, in its folder.
BOARD = "leaderboard.html"


@dataclass(frozen=True)
class Request:
    """What `mtlrun reproduce` was asked for: its options."""

    profile: str | None
    interpretation: str | None
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
        given = {
            "--interpretation": self.interpretation,
            "--seed": self.seed,
            "--jobs": self.jobs,
        }
        if self.output_dir != OUTPUT_DEFAULT:
            given["--output"] = str(self.output_dir)
        return [
            word
            for name, value in given.items()
            if value is not None
            for word in (name, str(value))
        ]

    def compute(self, made: Plan) -> RunSummary:
        """Run a plan, with progress."""
        from mtlrun.engine.progress import make_progress
        from mtlrun.engine.run import CANNOT_WRITE_REMEDY, run

        with io.writing(made.folder, CANNOT_WRITE_REMEDY):
            return run(
                made,
                n_jobs=self.jobs,
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
    interpretation: options.Interpretation = None,
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
            raise UserError(
                "--set needs a single experiment",
                "Name the experiment in place of `all`.",
            )
        if interpretation not in (None, ALL):
            raise UserError(
                "--interpretation NAME needs a single experiment",
                "Name the experiment, or give --interpretation all.",
            )
        raise typer.Exit(reproduce_all(request))
    from mtlrun.lab.load import load_experiment
    from mtlrun.lab.plan import check_interpretation, plan

    check_format(form)
    experiment = load_experiment(
        target, profile=profile, overrides=overrides or (), seed=seed, data_dir=data_dir
    )
    for text in experiment.warnings:
        say(f"warning: {text}", error=True)
    check_interpretation(experiment, interpretation)
    if not quiet:
        _say_experiment(experiment)
    if dry_run and (missing := missing_data(experiment, data_dir)):
        names = ", ".join(card.id for card, *_ in missing)
        say(f"to be downloaded first: {names}; then all cells would be computed")
        return
    ensure_data(experiment, data_dir, yes=yes, options=request.words)
    made = plan(
        experiment,
        data_dir=data_dir,
        only=only,
        interpretation=interpretation,
        output=output_dir,
    )
    if dry_run:
        _say_plan(made, force)
        return
    code = _conclude(made, request)
    if show:
        open_page(made.folder / REPORT)
    raise typer.Exit(code)


def _say_experiment(experiment: Experiment) -> None:
    """Print what will be run, on stderr: stdout is for results."""
    from mtlrun.lab.plan import settings

    spec = experiment.spec
    trials = sorted({place.trials for place in settings(spec)})
    sizes = {
        "data set": [len(spec.datasets)] if spec.datasets else [],
        "value": [len(spec.sweep.values)] if spec.sweep else [],
        "method": [len(spec.methods)],
        "repeat" if spec.measures else "split": trials,
    }
    shown = [
        f"{'/'.join(map(str, n))} {name}{'s' * (n[-1] > 1)}"
        for name, n in sizes.items()
        if n
    ]
    data = ", ".join(d.name for d in spec.datasets) or "published numbers"
    say(f"{experiment.id}: {spec.title}", error=True)
    say(f"profile {experiment.profile}: {' x '.join(shown)}; data: {data}", error=True)


def _say_plan(made: Plan, force: bool) -> None:
    """Print what would be computed and why."""
    from mtlrun.engine.plan import job_states, rerun_reasons
    from mtlrun.engine.run import describe_work, missing_jobs

    store = made.store()
    cells, folds = missing_jobs(made, store, force=force)
    if not cells:
        say(f"all {counted(len(made.wanted), 'cell')} up to date")
        return
    for line in rerun_reasons(made, job_states(made, store)):
        say(line)
    keys = {job.key for job in (*cells, *folds)}
    grouped: dict[str, list[PlannedJob]] = defaultdict(list)
    for row in made.wanted:
        if row.job.key in keys:
            grouped[f"{row.dataset}/{row.method}"].append(row)
    for name, rows in grouped.items():
        searches = keys.intersection(fold.key for row in rows for fold in row.job.folds)
        more = f" and {counted(len(searches), 'search fold')}" if searches else ""
        say(f"would compute {name}: {counted(len(rows), 'cell')}{more}")
    say(f"{describe_work(len(cells), len(folds), len(made.wanted))}; nothing was run")


def _conclude(plan: Plan, request: Request) -> int:
    """Compute what is missing, print the report, write it unless it stands there, and return the exit code."""
    from mtlrun.lab.report.build import is_written
    from mtlrun.lab.results import load_run, write_results

    summary = request.compute(plan)
    made = load_run(plan.folder) if summary.unchanged else write_results(plan)
    if summary.unchanged and not is_written(made, plan.folder):
        write_results(plan)
    print_report(made, request.form, plan.folder)
    if summary.interrupted:
        left = counted(summary.n_left, "cell")
        say(
            f"interrupted with {left} left; finished cells are kept: run the same command to continue",
            error=True,
        )
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
    from mtlrun.lab.results import gather

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
        _say_plans(batch, request.force)
        return 0
    tally = _compute_all(batch, request)
    overview = _overview(batch, tally, request)
    print_summary(overview, request.output_dir, request.form)
    for name, error in batch.refused.items():
        say(f"error: {name}: {error.shell_text}", error=True)
    good = not request.check or say_problems(all_problems(overview))
    if tally.interrupted:
        say(
            "interrupted; finished cells are kept: run the same command to continue",
            error=True,
        )
        return 130
    return 2 if batch.refused else 1 if tally.failed or not good else 0


def _prepare(experiment: Experiment, request: Request) -> None:
    """See that the data of an experiment are here; a UserError leaves the experiment out."""

    if not request.dry_run:
        ensure_data(experiment, request.data_dir, yes=request.yes)
    elif missing := missing_data(experiment, request.data_dir):
        raise UserError(
            f"to be downloaded first: {', '.join(card.id for card, *_ in missing)}"
        )


def _say_plans(batch: Batch, force: bool) -> None:
    """Print what would be computed, artefact by artefact."""
    from mtlrun.lab.results import to_compute

    counts = to_compute(batch.plans, force=force)
    width = max((len(made.experiment.id) for made in batch.plans), default=0)
    for made, (cells, folds, shared) in zip(batch.plans, counts, strict=True):
        more = f" and {counted(folds, 'search fold')}" if folds else ""
        more += f"; {shared} shared with artefacts above" if shared else ""
        of = f"{cells} of {len(made.wanted)} cells{more}"
        say(
            f"{made.experiment.id:{width}}  {made.experiment.profile}  {of if cells or shared else 'up to date'}"
        )
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
            tally.unfinished[name] = (
                "not started: interrupted"
                if tally.interrupted
                else "not started: --fail-fast"
            )
            continue
        if not request.quiet:
            say(
                f"== {place}/{len(batch.plans)} {name}, profile {made.experiment.profile}",
                error=True,
            )
        try:
            _compute_one(made, request, tally)
        except KeyboardInterrupt:
            tally.interrupted = True
            tally.unfinished[name] = "interrupted"
        except UserError as error:
            batch.refused[name] = error
            say(f"error: {name}: {error.shell_text}", error=True)
        except Exception as error:  # a bug in one artefact must not cost the others
            if request.debug:
                raise
            tally.failed = True
            tally.unfinished[name] = f"{type(error).__name__}: {error}"
            say(
                f"error: {name}: {tally.unfinished[name]} (a bug; --debug shows where)",
                error=True,
            )
    return tally


def _compute_one(made: Plan, request: Request, tally: _Tally) -> None:
    """Run one plan, write its report and its page, and print what it found in a few lines."""
    from mtlrun.lab.report.summary import RunReport
    from mtlrun.lab.results import write_results

    summary = request.compute(made)
    tally.interrupted = summary.interrupted
    tally.failed = tally.failed or bool(summary.n_failed)
    report = write_results(made)
    tally.entries.append(
        RunReport(made.folder.relative_to(request.output_dir).as_posix(), report)
    )
    if not request.quiet:
        for line in report.summary:
            say(line, error=True)


def _overview(batch: Batch, tally: _Tally, request: Request) -> Overview:
    """Return the summary of the artefacts that were computed now."""
    from mtlrun.lab.report.summary import Overview

    words = ["--profile", request.profile] if request.profile else []
    words += (
        ["--interpretation", request.interpretation] if request.interpretation else []
    )
    words += ["--seed", str(request.seed)] if request.seed is not None else []
    words += [word for text in request.only or () for word in ("--only", text)]
    return Overview(
        sorted(tally.entries, key=lambda entry: entry.place),
        left_out={**batch.left_out, **tally.unfinished},
        profile=request.profile,
        command=shlex.join(["mtlrun", "reproduce", "all", *words]),
    )


# ---------------------------------------------------------------------- report


def report(
    target: options.Runs,
    profile: options.Profile = None,
    output_dir: options.OutputOrFile = OUTPUT_DEFAULT,
    form: options.Format = None,
    out: options.Out = None,
    merge: Annotated[
        list[Path] | None,
        options.option(
            options.WHAT,
            "DIR",
            "First copy finished cells from this run folder, for example of another machine. Repeatable.",
        ),
    ] = None,
    transpose: Annotated[
        bool,
        options.option(
            options.OUT,
            None,
            "Exchange rows and columns of the tables (--format tex).",
            "--transpose",
        ),
    ] = False,
    metric: Annotated[
        list[str] | None,
        options.option(
            options.OUT,
            "NAME",
            "Write the tables of this metric only (--format tex). Repeatable.",
        ),
    ] = None,
    check: options.Check = False,
    show: options.Open = False,
    debug: options.Debug = False,
) -> None:
    """Rebuild the report of a run, or the summary of many runs, from stored results alone.

    Neither data nor solvers are needed. The table is printed, and the report files in the folder of the run are
    written again. With --format html, report.html and an index of all runs are written.
    """
    from mtlrun.lab.report.build import build_report

    if out is not None and form is None:
        raise UserError(
            "--out needs --format",
            f"Add --format {', '.join(ENDINGS.values())}; or use -o {out}.",
        )
    output_dir, out = options.file_or_folder(output_dir, out, ENDINGS)
    form = form or (ENDINGS[out.suffix.lower()] if out is not None else None)
    if out is not None and form != ENDINGS.get(out.suffix.lower(), form):
        raise UserError(
            f"{out} has the ending of another format than --format {form}",
            "Leave out --format.",
        )
    if (transpose or metric) and form != "tex":
        raise UserError(
            "--transpose and --metric change tables for LaTeX", "Add --format tex."
        )
    root = output_dir if target == ALL else Path(target)
    if (
        form == PARQUET and root.is_dir() and not merge
    ):  # of comparisons and models, too
        _write_parquet(root, out)
        return
    if target == ALL or _holds_runs(root):
        raise typer.Exit(_report_many(root, profile, form, out, merge, check))
    check_format(form)
    folder = run_folder(target, profile, output_dir)
    for other in merge or ():
        _merge(folder, other)
    made = build_report(folder)
    # A format asked for goes to stdout or its file and nowhere else: the folder may be read-only, or of someone else.
    if form is None or merge:
        write_run(made, folder)
    if transpose or metric:
        from mtlrun.lab.report.build import latex

        _write_or_print(
            "tex",
            out,
            folder,
            "report",
            lambda: latex(made, transpose=transpose, metrics=metric or ()),
        )
    else:
        print_report(made, form, folder, out)
    if show:
        open_page(folder / REPORT)
    good = not check or say_problems(made.check_problems)
    raise typer.Exit(0 if good and not made.run.failed else 1)


def run_folder(target: str, profile: str | None, output_dir: Path) -> Path:
    """Return the folder of a run, given itself or the name of its experiment."""
    given = Path(target)
    if (given / "run.json").is_file():
        return given
    from mtlrun.lab.load import run_of

    try:
        return output_dir / run_of(target, profile=profile)
    except UnknownNameError:
        if given.is_dir():
            _refuse_other_folder(given)
        raise


def _refuse_other_folder(folder: Path) -> None:
    """Say of a folder that is not one of a run what it is, or which runs and comparisons lie below it."""
    from mtlrun.engine.stored import RUN_FILE
    from mtlrun.lab.report.cells import read_run
    from mtlrun.model.files import COMPARED, FACTS

    if (folder / COMPARED).is_file():
        raise UserError(
            f"{folder} is a comparison, not a run", f"Its report: {folder / BOARD}"
        )
    if (folder / FACTS).is_file():
        raise UserError(
            f"{folder} is a model, not a run",
            f"Its report, if it has one: {folder / REPORT}",
        )
    below = [f"mtlrun report {path.parent}" for path in _below(folder, RUN_FILE)]
    below += [
        f"the comparison {path.parent / BOARD}" for path in _below(folder, COMPARED)
    ]
    if below:
        raise UserError(
            f"{folder} is not the folder of a run, but holds some",
            f"Its reports: {listed(below)}",
        )
    read_run(folder)  # says that it is none


def _below(folder: Path, name: str) -> list[Path]:
    """Return the files of a name up to four folders below a folder."""
    return sorted(
        path for depth in range(1, 5) for path in folder.glob(f"{'*/' * depth}{name}")
    )


def print_report(
    made: Report, form: str | None, folder: Path, out: Path | None = None
) -> None:
    """Print a report as a table, or in a format exactly as it is in the file; html is written to a file."""
    from mtlrun.lab.report.build import render
    from mtlrun.lab.report.summary import print_report as print_table

    if form is None:
        print_table(output(), made)
        say(f"report: {folder / REPORT} ({ALSO})")
    elif form == HTML and out is None:
        _write_pages(made, folder)
    else:
        _write_or_print(form, out, folder, "report", lambda: render(made, form))


def say_problems(problems: Sequence[str]) -> bool:
    """List what ``--check`` found, with both numbers and the tolerance; return whether all is well."""
    for problem in problems:
        say(f"check: {problem}", error=True)
    if not problems:
        say(
            "check: all numbers are within tolerance and no claim is contradicted",
            error=True,
        )
    return not problems


def check_format(form: str | None, what: str = "format") -> None:
    """Refuse an unknown --format before anything is computed; a "format of a summary" is one of fewer."""
    if form is None:
        return
    from mtlrun.lab.report import build, summary

    known = [*(build if what == "format" else summary).FORMATS, PARQUET]
    if form not in known:
        raise UnknownNameError(what, form, known)


def write_run(made: Report, folder: Path) -> Path:
    """Write all files of a run, including its page, and return the page."""
    from mtlrun.lab.report.build import PAGE, write_report

    with writing(folder):
        write_report(made, folder)
    return folder / PAGE


def print_summary(
    overview: Overview, root: Path, form: str | None, out: Path | None = None
) -> None:
    """Print the summary of many runs and write it in all formats, or print it in one."""
    from mtlrun.lab.report.summary import (
        print_overview,
        render_overview,
        write_overview,
    )

    if form is None:
        print_overview(output(), overview)
        with writing(root):
            say(f"summary: {', '.join(map(str, write_overview(overview, root)))}")
    elif form == HTML and out is None:
        with writing(root):
            say(f"index: {write_overview(overview, root, (HTML,))[0]}")
    else:
        _write_or_print(
            form, out, root, "summary", lambda: render_overview(overview, form, root)
        )


def all_problems(overview: Overview) -> list[str]:
    """Return what ``--check`` finds in many runs."""
    return [
        f"{entry.place}: {text}"
        for entry in overview.entries
        for text in entry.report.check_problems
    ]


def _holds_runs(folder: Path) -> bool:
    """Whether a folder is one of many runs."""
    from mtlrun.lab.report.summary import COMPARE, run_folders

    return not (folder / "run.json").is_file() and bool(
        run_folders(folder) or (folder / COMPARE).is_dir()
    )


def _report_many(
    root: Path,
    profile: str | None,
    form: str | None,
    out: Path | None,
    merge: Sequence[Path] | None,
    check: bool,
) -> int:
    """Print and write the summary of the runs below a folder; return the exit code.

    Without a format all reports, all pages and the summary are written; `html` writes the pages and the index; `md` and
    `json` are printed and nothing is written.
    """
    from mtlrun.lab.report.summary import read_overview
    from mtlrun.lab.results import artefacts

    check_format(form, "format of a summary")
    if merge:
        raise UserError(
            "--merge needs a single run",
            "Name the experiment or the folder of its run.",
        )
    overview = read_overview(root, profile, known=[entry.id for entry in artefacts()])
    if not (overview.entries or overview.comparisons):
        which = f"runs with profile {profile!r}" if profile else "runs"
        raise UserError(
            f"{root}: no {which} here",
            "Create them with: mtlrun reproduce all --profile quick",
        )
    if out is None and form in (None, HTML):
        for entry in overview.entries:
            page = write_run(entry.report, root / entry.place)
            if form == HTML:
                say(f"report: {page}")
    print_summary(overview, root, form, out)
    good = not check or say_problems(all_problems(overview))
    return (
        0
        if good and not any(entry.report.run.failed for entry in overview.entries)
        else 1
    )


def _write_or_print(
    form: str, out: Path | None, folder: Path, what: str, render: Callable[[], str]
) -> None:
    """Write a report or a summary to a file, or print it exactly as it is in the file; parquet is always written."""
    from mtlrun.utils.outputs import write_output

    if form == PARQUET:
        _write_parquet(folder, out)
    elif out is None:
        typer.echo(render(), nl=False)
    else:
        with writing(out):
            write_output(out, render())
        say(f"{what}: {out}")


def _write_parquet(folder: Path, out: Path | None) -> None:
    """Write every cell of a run, or of all runs below a folder, as one table."""
    from mtlrun.lab.report import cells

    path = out or folder / cells.PARQUET
    with writing(path):
        say(f"results: {cells.write_parquet(cells.load_results(folder), path)}")


def _write_pages(made: Report, folder: Path) -> None:
    """Write the page of a run, and the index of the runs beside it."""
    from mtlrun.lab.report.summary import read_overview, results_root, write_overview

    say(f"report: {write_run(made, folder)}")
    root = results_root(made, folder)
    if root is not None:
        with writing(root):
            say(f"index: {write_overview(read_overview(root), root, (HTML,))[0]}")


def _merge(folder: Path, other: Path) -> None:
    """Copy the cells of another folder and say how many."""
    from mtlrun.lab.results import merge

    with writing(folder):
        merged = merge(
            folder,
            other,
            lambda: say(
                f"waiting for the process that is computing {folder}", error=True
            ),
        )
    say(f"{other}: {merged}", error=True)


# ---------------------------------------------------------------------- verify


def verify(
    target: options.Runs,
    profile: options.Profile = None,
    sample: Annotated[
        int | None,
        options.option(
            options.HOW, "N", "Compute N cells of every run again. Default: 20.", min=1
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        options.option(
            options.HOW,
            "S",
            "Compute as many cells again as S seconds suffice for.",
            min=0,
        ),
    ] = None,
    every: Annotated[
        bool,
        options.option(options.HOW, None, "Compute all finished cells again.", "--all"),
    ] = False,
    search: Annotated[
        bool,
        options.option(
            options.HOW, None, "Repeat the searches for parameters, too.", "--search"
        ),
    ] = False,
    data_dir: options.DataDir = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Compute finished cells of a run again and say to how many digits they agree; nothing stored is replaced.

    Cells of every data set and method are tried in turn, the cheapest first, with the parameters that their search
    chose. The result is written to verified.json beside the run, also after an interrupt, and its report shows it.
    Ends with 1 where a cell agrees to fewer digits than its method promises, with 2 where none could be tried.
    """
    from mtlrun.engine.stored import VERIFIED
    from mtlrun.lab.report.build import build_report, write_texts
    from mtlrun.lab.report.summary import run_folders
    from mtlrun.lab.verify import SAMPLE
    from mtlrun.lab.verify import verify as tried

    if sum((sample is not None, seconds is not None, every)) > 1:
        raise UserError(
            "--sample, --seconds and --all exclude each other", "Give one of them."
        )
    root = output_dir if target == ALL else Path(target)
    if target == ALL or (root.is_dir() and not (root / "run.json").is_file()):
        folders = run_folders(root)
        if not folders:
            raise UserError(
                f"{root}: no finished runs below it",
                "Give an experiment, or the folder of a run.",
            )
    else:
        folders = [run_folder(target, profile, output_dir)]
    number = sample or (None if every or seconds is not None else SAMPLE)
    trials = []
    try:
        with contextlib.closing(
            tried(
                folders,
                sample=number,
                seconds=seconds,
                search=search,
                data_dir=data_dir,
            )
        ) as results:
            for trial in results:
                trials.append(trial)
                if not trial.refused and not (quiet and trial.agrees):
                    say(_trial_text(trial))
    except KeyboardInterrupt:
        n_tried = sum(not trial.refused for trial in trials)
        kept = f"; {counted(n_tried, 'cell')} kept in {VERIFIED}" if n_tried else ""
        complain(f"interrupted{kept}")
        raise typer.Exit(130) from None
    for folder in folders:
        if any(folder in trial.names and not trial.refused for trial in trials):
            with writing(folder):
                write_texts(build_report(folder), folder)
        say(
            _verified_text(folder, [trial for trial in trials if folder in trial.names])
        )
    if trials and all(trial.refused for trial in trials):
        raise UserError(
            "no cell could be tried, so nothing was verified",
            "Where data are missing: mtlrun data add ID FILE, mtlrun data fetch ID, or --data-dir DIR.",
        )
    raise typer.Exit(
        0 if all(trial.agrees for trial in trials if not trial.refused) else 1
    )


def _trial_text(trial: Trial) -> str:
    """Say of a cell how well it agrees."""
    from mtlrun.lab.verify import ALL_DIGITS

    name = next(iter(trial.names.values()))
    if trial.error:
        return f"{name}: DOES NOT AGREE: {trial.error}"
    worst = min(trial.digits, key=lambda quantity: trial.digits[quantity], default="")
    text = (
        "equal" if trial.least == ALL_DIGITS else f"{trial.least:.1f} digits ({worst})"
    )
    ratio = "" if trial.ratio is None else f", seconds x{trial.ratio:.2f}"
    return f"{name}: {text}{ratio}" + (
        "" if trial.agrees else f": DOES NOT AGREE, its method promises {trial.asked}"
    )


def _verified_text(folder: Path, trials: list[Trial]) -> str:
    """Say of a run how many cells were tried and agree, and what could not be tried."""
    tried = [trial for trial in trials if not trial.refused]
    good = sum(trial.agrees for trial in tried)
    text = (
        f"{folder}: {good} of {counted(len(tried), 'cell')} agree"
        if tried
        else f"{folder}: no cell tried"
    )
    refused = Counter(trial.refused for trial in trials if trial.refused)
    return "; ".join(
        [text, *(f"{count} not tried: {why}" for why, count in refused.items())]
    )
