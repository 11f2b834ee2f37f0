"""Options that several commands share, written once."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

WHAT = "What to run"
HOW = "How to run it"
OUT = "Output"
OUTPUT_DEFAULT = Path("results") / "runs"

#: Set by --debug: an error then shows its traceback.
_debug = False


def data_dir_option(data_dir: Path | None) -> str:
    """Return the --data-dir of this command as a part of one that is printed, empty where none was given."""
    return "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"


def debugging() -> bool:
    """Whether --debug was given."""
    return _debug


def set_debugging(value: bool) -> None:
    """Remember --debug for the rest of the command."""
    global _debug
    _debug = _debug or value


def reset_debugging() -> None:
    """Forget --debug: one process may run several commands, for instance in tests."""
    global _debug
    _debug = False


def option(panel: str, *names: str, **settings: Any) -> Any:
    """Return a command-line option that is listed in a panel of the help."""
    return typer.Option(*names, rich_help_panel=panel, **settings)


def _refuse_file(folder: Path) -> Path:
    from mtlrun.runs.store import refuse_file

    return refuse_file(folder)


Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="Experiment: <paper>/<artefact>, a short name such as table2, or a YAML file."
    ),
]
Profile = Annotated[
    str | None,
    option(
        WHAT,
        "--profile",
        metavar="NAME",
        help="Size of the run: smoke (seconds), demo (needs no download), quick (minutes) or full (the paper's "
        "protocol). Default: quick.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    option(
        WHAT,
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, for example split.trials=3. Takes precedence over file and profile. Repeatable.",
    ),
]
Open = Annotated[bool, option(OUT, "--open", help="Show the report in the browser.")]
Reading = Annotated[
    str | None,
    option(
        WHAT,
        "--reading",
        metavar="NAME|all",
        help="Reading of what the paper leaves open, or all of them. Default: the main one.",
    ),
]
Seed = Annotated[
    int | None,
    option(WHAT, "--seed", metavar="N", min=0, help="Seed of the random splits; takes precedence over the file."),
]
Only = Annotated[
    list[str] | None,
    option(
        WHAT,
        "--only",
        metavar="KEY=VALUE,...",
        help="Compute only a part: method=..., dataset=... or trial=...; * matches any text. Repeatable.",
    ),
]
DataDir = Annotated[
    Path | None,
    option(
        WHAT,
        "--data-dir",
        metavar="DIR",
        help="Folder of the data sets. Default: $MTLRUN_DATA, otherwise the user's cache folder.",
    ),
]
_JOBS = option(
    HOW,
    "--jobs",
    "-j",
    metavar="N",
    help="Number of parallel processes, -1 for all cores. Results do not depend on it; timed fits run one by one.",
)
Jobs = Annotated[int, _JOBS]
#: None: one process, or all workers of a Dask cluster.
AnyJobs = Annotated[int | None, _JOBS]
Backend = Annotated[
    str | None,
    option(HOW, "--backend", metavar="NAME", help="How to run in parallel: loky (processes), threading or dask."),
]
Scheduler = Annotated[
    str | None,
    option(
        HOW, "--scheduler", metavar="ADDRESS", help="Dask scheduler to use with --backend dask, as tcp://host:port."
    ),
]
Force = Annotated[bool, option(HOW, "--force", "-f", help="Recompute everything, including finished cells.")]
DryRun = Annotated[bool, option(HOW, "--dry-run", "-n", help="Show what would be computed and why, then stop.")]
FailFast = Annotated[bool, option(HOW, "--fail-fast", help="Stop at the first cell that fails.")]
Yes = Annotated[bool, option(HOW, "--yes", "-y", help="Answer yes to all questions (downloads, deletions).")]
Output = Annotated[
    Path,
    option(
        OUT,
        "--output",
        "-o",
        metavar="DIR",
        callback=_refuse_file,
        help="Root folder of the results; every run has a subfolder of its own.",
    ),
]
Check = Annotated[
    bool,
    option(OUT, "--check", help="Exit with code 1 if a number is out of tolerance or a claim is contradicted."),
]
Format = Annotated[
    str | None,
    option(
        OUT,
        "--format",
        metavar="FORMAT",
        help="Print the full report as md, json, csv or tex instead of the table; html writes report.html.",
    ),
]
Quiet = Annotated[bool, option(OUT, "--quiet", "-q", help="Print only results and errors, no plan and no progress.")]
Debug = Annotated[
    bool,
    option(
        OUT, "--debug", callback=set_debugging, expose_value=True, help="Show the full traceback if an error occurs."
    ),
]
