"""``mtlrun report`` and ``plot``: the report of a run, the summary of many runs, or a figure, from stored results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from mtlrun.cli import options
from mtlrun.cli.console import open_page, output, say, writing
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import DataError, UnknownNameError, UserError, listed

if TYPE_CHECKING:
    from mtlrun.report.build import Report
    from mtlrun.report.summary import Overview

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
    check: options.Check = False,
    show: options.Open = False,
    debug: options.Debug = False,
) -> None:
    """Rebuild the report of a run, or the summary of many runs, from stored results alone.

    Neither data nor solvers are needed. The table is printed, and the report files in the folder of the run are
    written again. With --format html, report.html and an index of all runs are written.
    """
    from mtlrun.report.build import build_report

    if out is not None and form is None:
        raise UserError("--out needs --format", f"Add --format {', '.join(ENDINGS.values())}; or use -o {out}.")
    output_dir, out = options.file_or_folder(output_dir, out, ENDINGS)
    form = form or (ENDINGS[out.suffix.lower()] if out is not None else None)
    if out is not None and form != ENDINGS.get(out.suffix.lower(), form):
        raise UserError(f"{out} has the ending of another format than --format {form}", "Leave out --format.")
    root = output_dir if target == ALL else Path(target)
    if form == PARQUET and root.is_dir() and not merge:  # of comparisons and models, too
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
    from mtlrun.runs.load import run_of

    try:
        return output_dir / run_of(target, profile=profile)
    except UnknownNameError:
        if given.is_dir():
            _refuse_other_folder(given)
        raise


def _refuse_other_folder(folder: Path) -> NoReturn:
    """Say of a folder that is not one of a run what it is, or which runs and comparisons lie below it."""
    from mtlrun.models import COMPARED, FACTS
    from mtlrun.report.stored import RUN_FILE

    if (folder / COMPARED).is_file():
        raise UserError(f"{folder} is a comparison, not a run", f"Its report: {folder / BOARD}")
    if (folder / FACTS).is_file():
        raise UserError(f"{folder} is a model, not a run", f"Its report, if it has one: {folder / REPORT}")
    below = [f"mtlrun report {path.parent}" for path in _below(folder, RUN_FILE)]
    below += [f"the comparison {path.parent / BOARD}" for path in _below(folder, COMPARED)]
    if below:
        raise UserError(f"{folder} is not the folder of a run, but holds some", f"Its reports: {listed(below)}")
    raise DataError(
        f"{folder}: no {RUN_FILE} here, so this is not the folder of a run",
        "Run the experiment first (mtlrun reproduce TARGET), or give <output>/<paper>/<artefact>/<profile>.",
    )


def _below(folder: Path, name: str) -> list[Path]:
    """Return the files of a name up to four folders below a folder."""
    return sorted(path for depth in range(1, 5) for path in folder.glob(f"{'*/' * depth}{name}"))


def print_report(made: Report, form: str | None, folder: Path, out: Path | None = None) -> None:
    """Print a report as a table, or in a format exactly as it is in the file; html is written to a file."""
    from mtlrun.report.summary import print_report as print_table
    from mtlrun.report.writers import render

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
        say("check: all numbers are within tolerance and no claim is contradicted", error=True)
    return not problems


def check_format(form: str | None, what: str = "format") -> None:
    """Refuse an unknown --format before anything is computed; a "format of a summary" is one of fewer."""
    if form is None:
        return
    from mtlrun.report import summary, writers

    known = [*(writers if what == "format" else summary).FORMATS, PARQUET]
    if form not in known:
        raise UnknownNameError(what, form, known)


def write_run(made: Report, folder: Path) -> Path:
    """Write all files of a run, including its page, and return the page."""
    from mtlrun.report.writers import PAGE, write_report

    with writing(folder):
        write_report(made, folder)
    return folder / PAGE


def print_summary(overview: Overview, root: Path, form: str | None, out: Path | None = None) -> None:
    """Print the summary of many runs and write it in all formats, or print it in one."""
    from mtlrun.report.summary import print_overview, render_overview, write_overview

    if form is None:
        print_overview(output(), overview)
        with writing(root):
            say(f"summary: {', '.join(map(str, write_overview(overview, root)))}")
    elif form == HTML and out is None:
        with writing(root):
            say(f"index: {write_overview(overview, root, (HTML,))[0]}")
    else:
        _write_or_print(form, out, root, "summary", lambda: render_overview(overview, form, root))


def all_problems(overview: Overview) -> list[str]:
    """Return what ``--check`` finds in many runs."""
    return [f"{entry.place}: {text}" for entry in overview.entries for text in entry.report.check_problems]


def _holds_runs(folder: Path) -> bool:
    """Whether a folder is one of many runs."""
    from mtlrun.report.summary import COMPARE, run_folders

    return not (folder / "run.json").is_file() and bool(run_folders(folder) or (folder / COMPARE).is_dir())


def _report_many(
    root: Path, profile: str | None, form: str | None, out: Path | None, merge: Sequence[Path] | None, check: bool
) -> int:
    """Print and write the summary of the runs below a folder; return the exit code.

    Without a format all reports, all pages and the summary are written; `html` writes the pages and the index; `md` and
    `json` are printed and nothing is written.
    """
    from mtlrun.report.summary import read_overview
    from mtlrun.runs.results import artefacts

    check_format(form, "format of a summary")
    if merge:
        raise UserError("--merge needs a single run", "Name the experiment or the folder of its run.")
    overview = read_overview(root, profile, known=[entry.id for entry in artefacts()])
    if not (overview.entries or overview.comparisons):
        which = f"runs with profile {profile!r}" if profile else "runs"
        raise UserError(f"{root}: no {which} here", "Create them with: mtlrun reproduce all --profile quick")
    if out is None and form in (None, HTML):
        for entry in overview.entries:
            page = write_run(entry.report, root / entry.place)
            if form == HTML:
                say(f"report: {page}")
    print_summary(overview, root, form, out)
    good = not check or say_problems(all_problems(overview))
    return 0 if good and not any(entry.report.run.failed for entry in overview.entries) else 1


def _write_or_print(form: str, out: Path | None, folder: Path, what: str, render: Callable[[], str]) -> None:
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
    from mtlrun.report import cells

    path = out or folder / cells.PARQUET
    with writing(path):
        say(f"results: {cells.write_parquet(cells.load_results(folder), path)}")


def _write_pages(made: Report, folder: Path) -> None:
    """Write the page of a run, and the index of the runs beside it."""
    from mtlrun.report.summary import read_overview, results_root, write_overview

    say(f"report: {write_run(made, folder)}")
    root = results_root(made, folder)
    if root is not None:
        with writing(root):
            say(f"index: {write_overview(read_overview(root), root, (HTML,))[0]}")


def _merge(folder: Path, other: Path) -> None:
    """Copy the cells of another folder and say how many."""
    from mtlrun.runs.results import merge

    with writing(folder):
        merged = merge(folder, other)
    say(f"{other}: {merged}", error=True)


# ---------------------------------------------------------------------- plot


def plot(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET|FOLDER",
            help="Experiment, or the folder of a run, a training or a model.",
            autocompletion=options.targets,
        ),
    ],
    kind: Annotated[
        str,
        options.option(
            None,
            "KIND",
            "trace, scaling, heatmap, cd-diagram (average ranks) or path (scores along a parameter grid); of a model: "
            "tasks (their similarity), coefficients, path, or shrinkage (hierarchical models).",
            autocompletion=options.words(
                "trace", "scaling", "heatmap", "cd-diagram", "path", "tasks", "coefficients", "shrinkage"
            ),
        ),
    ],
    trust: options.Trust = None,
    profile: options.Profile = None,
    out: options.Out = None,
    output_dir: options.OutputOrFile = OUTPUT_DEFAULT,
    debug: options.Debug = False,
) -> None:
    """Draw a figure from the stored results of a run, or of a saved model.

    Where the figure shows one data set and the run has several, each one gets a file of its own, named after it.
    """
    from mtlrun.report.drawing import FORMATS, KINDS, check_drawing
    from mtlrun.report.drawing import plot as draw

    output_dir, out = options.file_or_folder(output_dir, out, FORMATS)
    if out is None:
        raise UserError("no file to draw into", f"Add --out FILE, with one of the endings {', '.join(FORMATS)}.")
    folder = Path(target)
    if (folder / "model.json").is_file():
        from mtlrun.report.modelplots import plot_model

        with writing(out, remedy="Choose another --out."):
            say(str(plot_model(folder, kind, out, trust=trust or ())))
        return
    check_drawing("kind of figure of a run", kind, KINDS, out)
    with writing(out, remedy="Choose another --out."):
        paths = draw(run_folder(target, profile, output_dir), kind, out)
    for path in paths:
        say(str(path))
