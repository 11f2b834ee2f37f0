"""The command ``mtlrun report``: the report of a run, or a summary of many runs.

Everything is read from stored results; neither data nor solvers are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import open_page, output, say, writing
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import UnknownNameError, UserError, listed
from mtlrun.utils.io import refuse_links

if TYPE_CHECKING:
    from mtlrun.lab.report.build import Report
    from mtlrun.lab.report.summary import Overview

#: Target of a command that means all experiments.
ALL = "all"
HTML = "html"
PARQUET = "parquet"
#: Formats of files by their suffixes.
ENDINGS = {f".{form}": form for form in (HTML, "md", "json", "csv", "tex", PARQUET)}
#: Page of a run, and the other files of the report in the same folder.
REPORT = "report.html"
ALSO = "also report.md, table.csv"
#: Page of a comparison.
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
            "First copy finished results from this run folder, for example of another "
            "machine. Repeatable.",
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
    """Rebuild the report of a run, or the summary of many runs, from stored results
    alone.

    Neither data nor solvers are needed. The table is printed, and the report files in
    the folder of the run are rewritten. With --format html, report.html and an index of
    all runs are written.
    """
    if out is not None and form is None:
        raise UserError(
            "--out needs --format",
            f"Add --format {', '.join(ENDINGS.values())}; or use -o {out}.",
        )
    output_dir, out = options.file_or_folder(output_dir, out, ENDINGS)
    if out is not None:
        # The suffix of a file determines the format.
        file_form = ENDINGS.get(out.suffix.lower())
        if form is None:
            form = file_form
        if file_form is not None and form != file_form:
            raise UserError(
                f"{out} has the ending of another format than --format {form}",
                "Leave out --format.",
            )
    if (transpose or metric) and form != "tex":
        raise UserError(
            "--transpose and --metric change tables for LaTeX", "Add --format tex."
        )
    root = output_dir if target == ALL else Path(target)
    if form == PARQUET and root.is_dir() and not merge:
        # Folders of comparisons and models can be written as Parquet, too.
        _write_parquet(root, out)
        return
    has_runs = target == ALL
    if not has_runs and not (root / "run.json").is_file():
        from mtlrun.lab.report.summary import COMPARE, run_folders

        has_runs = (root / COMPARE).is_dir() or bool(run_folders(root))
    if has_runs:
        raise typer.Exit(_report_many(root, profile, form, out, merge, check))
    check_format(form)
    folder = run_folder(target, profile, output_dir)
    if merge or (out is None and form in (None, HTML)):
        refuse_links(output_dir, folder)
    for other in merge or ():
        _merge(folder, other)
    from mtlrun.lab.report.build import build_report, check_problems
    from mtlrun.lab.report.formats import latex
    from mtlrun.lab.report.run import jobs_with_outcome
    from mtlrun.parallel.status import FAILED

    run_report = build_report(folder)
    # With a format nothing else is written, because the folder may be read-only or
    # belong to someone else.
    if form is None or merge:
        write_run(run_report, folder)
    if transpose or metric:
        render = partial(latex, run_report, transpose=transpose, metrics=metric or ())
        _write_or_print("tex", out, folder, "report", render)
    else:
        print_report(run_report, form, folder, out)
    if show:
        open_page(folder / REPORT)
    if check and not report_problems(check_problems(run_report)):
        raise typer.Exit(1)
    raise typer.Exit(int(bool(jobs_with_outcome(run_report.run, FAILED))))


def run_folder(target: str, profile: str | None, output_dir: Path) -> Path:
    """Return the folder of a run.

    Parameters
    ----------
    target : str
        The folder itself, or the name of the experiment.
    profile : str or None
    output_dir : Path
        Folder of all results, for the name of an experiment.

    Raises
    ------
    UserError
        If the target is another kind of folder, or no experiment.
    """
    folder = Path(target)
    if (folder / "run.json").is_file():
        return folder
    from mtlrun.lab.experiment.load import run_of

    try:
        return output_dir / run_of(target, profile=profile)
    except UnknownNameError:
        if folder.is_dir():
            _refuse_other_folder(folder)
        raise


def _refuse_other_folder(folder: Path) -> None:
    """Raise an error that says what a folder is instead of a run, or what it
    contains.
    """
    from mtlrun.engine.stored import RUN_FILE
    from mtlrun.lab.report.run import read_run
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
    reports = []
    for path in _find_below(folder, RUN_FILE):
        reports.append(f"mtlrun report {path.parent}")
    for path in _find_below(folder, COMPARED):
        reports.append(f"the comparison {path.parent / BOARD}")
    if reports:
        raise UserError(
            f"{folder} is not the folder of a run, but holds some",
            f"Its reports: {listed(reports)}",
        )
    # Raises the error of a folder without a run.
    read_run(folder)


def _find_below(folder: Path, name: str) -> list[Path]:
    """Return the files with this name, up to four levels below a folder."""
    paths: list[Path] = []
    for depth in range(1, 5):
        paths += folder.glob(f"{'*/' * depth}{name}")
    return sorted(paths)


def print_report(
    run_report: Report, form: str | None, folder: Path, out: Path | None = None
) -> None:
    """Print a report, or write it to a file.

    Parameters
    ----------
    run_report : Report
    form : str or None
        None for a table. HTML without `out` is written into the folder of the run.
    folder : Path
        Folder of the run.
    out : Path, default=None
        File to write; by default the report is printed exactly as a file would hold it.
    """
    from mtlrun.lab.report.formats import render

    if form is None:
        print_text(report_text(run_report), folder)
    elif form == HTML and out is None:
        from mtlrun.lab.report.summary import (
            read_overview,
            results_root,
            write_overview,
        )

        say(f"report: {write_run(run_report, folder)}")
        root = results_root(run_report, folder)
        if root is not None:
            with writing(root):
                index = write_overview(read_overview(root), root, (HTML,))[0]
                say(f"index: {index}")
    else:
        _write_or_print(form, out, folder, "report", lambda: render(run_report, form))


def report_text(run_report: Report) -> str:
    """Return the tables and sentences of a report as this terminal shows them."""
    from mtlrun.lab.report.terminal import print_report as print_table

    console = output()
    with console.capture() as capture:
        print_table(console, run_report)
    return capture.get()


def print_text(text: str, folder: Path) -> None:
    """Print the text of a report, and where its files are."""
    typer.echo(text, nl=False)
    say(f"report: {folder / REPORT} ({ALSO})")


def report_problems(problems: Sequence[str]) -> bool:
    """Print the outcome of ``--check``; return whether there is no problem."""
    for problem in problems:
        say(f"check: {problem}", error=True)
    if not problems:
        say(
            "check: all numbers are within tolerance and no claim is contradicted",
            error=True,
        )
    return not problems


def check_format(form: str | None, kind: str = "format") -> None:
    """Refuse an unknown --format before anything is computed.

    Parameters
    ----------
    form : str or None
    kind : {"format", "format of a summary"}
        Summaries have fewer formats than reports.

    Raises
    ------
    UnknownNameError
        If there is no such format.
    """
    if form is None:
        return
    from mtlrun.lab.report import formats, summary

    format_names = list(summary.FORMATS)
    if kind == "format":
        format_names = list(formats.FORMATS)
    names = [*format_names, PARQUET]
    if form not in names:
        raise UnknownNameError(kind, form, names)


def write_run(run_report: Report, folder: Path) -> Path:
    """Write all files of a report, including its page; return the path of the page."""
    from mtlrun.lab.report.formats import PAGE, write_report

    with writing(folder):
        write_report(run_report, folder)
    return folder / PAGE


def print_summary(
    overview: Overview, root: Path, form: str | None, out: Path | None = None
) -> None:
    """Print the summary of many runs and write it in all formats, or print one
    format.
    """
    from mtlrun.lab.report.summary import render_overview, write_overview
    from mtlrun.lab.report.terminal import print_overview

    if form is None:
        print_overview(output(), overview)
        with writing(root):
            paths = write_overview(overview, root)
            say(f"summary: {', '.join(map(str, paths))}")
    elif form == HTML and out is None:
        with writing(root):
            index = write_overview(overview, root, (HTML,))[0]
            say(f"index: {index}")
    else:
        render = partial(render_overview, overview, form, root)
        _write_or_print(form, out, root, "summary", render)


def all_problems(overview: Overview) -> list[str]:
    """Return the problems that ``--check`` finds in many runs."""
    from mtlrun.lab.report.build import check_problems

    problems = []
    for entry in overview.entries:
        for text in check_problems(entry.report):
            problems.append(f"{entry.path}: {text}")
    return problems


def _report_many(
    root: Path,
    profile: str | None,
    form: str | None,
    out: Path | None,
    merge: Sequence[Path] | None,
    check: bool,
) -> int:
    """Print and write the summary of the runs below a folder; return the exit code.

    Without a format all reports, pages and the summary are written. The format html
    writes the pages and the index; md and json are only printed.
    """
    from mtlrun.lab.batch import artefacts
    from mtlrun.lab.report.run import jobs_with_outcome
    from mtlrun.lab.report.summary import read_overview
    from mtlrun.parallel.status import FAILED

    check_format(form, "format of a summary")
    if merge:
        raise UserError(
            "--merge needs a single run",
            "Name the experiment or the folder of its run.",
        )
    expected_ids = [entry.id for entry in artefacts()]
    overview = read_overview(root, profile, expected_ids=expected_ids)
    if not (overview.entries or overview.comparisons):
        missing = "runs"
        if profile:
            missing = f"runs with profile {profile!r}"
        raise UserError(
            f"{root}: no {missing} here",
            "Create them with: mtlrun reproduce all --profile quick",
        )
    if out is None and form in (None, HTML):
        for entry in overview.entries:
            refuse_links(root, root / entry.path)
            page = write_run(entry.report, root / entry.path)
            if form == HTML:
                say(f"report: {page}")
    print_summary(overview, root, form, out)
    if check and not report_problems(all_problems(overview)):
        return 1
    for entry in overview.entries:
        if jobs_with_outcome(entry.report.run, FAILED):
            return 1
    return 0


def _write_or_print(
    form: str, out: Path | None, folder: Path, kind: str, render: Callable[[], str]
) -> None:
    """Write a report or summary to a file, or print what the file would hold.

    Parquet is always written, by default into `folder`. `kind` names the text in the
    message about the file.
    """
    from mtlrun.utils.outputs import write_output

    if form == PARQUET:
        _write_parquet(folder, out)
    elif out is None:
        typer.echo(render(), nl=False)
    else:
        with writing(out):
            write_output(out, render())
        say(f"{kind}: {out}")


def _write_parquet(folder: Path, out: Path | None) -> None:
    """Write the results of a run, or of all runs below a folder, as one table."""
    from mtlrun.lab.report import frames

    path = out or folder / frames.PARQUET
    with writing(path):
        results = frames.load_results(folder)
        say(f"results: {frames.write_parquet(results, path)}")


def _merge(folder: Path, other: Path) -> None:
    """Copy the finished results of another folder, and print how many."""
    from mtlrun.lab.merging import merge

    waiting = f"waiting for the process that is computing {folder}"
    with writing(folder):
        outcome = merge(folder, other, partial(say, waiting, error=True))
    say(f"{other}: {outcome}", error=True)
