"""Options that several commands share, written once."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from mtlrun.runs.folders import refuse_file

WHAT = "What to run"
HOW = "How to run it"
OUT = "Output"

#: Set by --debug: an error then shows its traceback.
_debug = False


def data_dir_option(data_dir: Path | None) -> str:
    """Return the --data-dir of this command as a part of one that is printed, empty where none was given."""
    return "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"


def debugging() -> bool:
    """Whether --debug was given."""
    return _debug


def set_debugging(value: bool) -> None:
    """Remember --debug for the rest of the process."""
    global _debug
    _debug = _debug or value


def reset_debugging() -> None:
    """Forget --debug: one process may run several commands, in tests for instance."""
    global _debug
    _debug = False


Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="Experiment: <paper>/<artefact>, a bare name such as table2, or the path of a YAML file."
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Size of the run: smoke, demo (no download), quick or full (the paper's protocol); default quick.",
        rich_help_panel=WHAT,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a value of the experiment, e.g. split.trials=3; repeatable; wins over file and profile.",
        rich_help_panel=WHAT,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", min=0, help="Base seed of all splits; wins over all.", rich_help_panel=WHAT),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KEY=VALUE,...",
        help="Compute a part only: method=..., dataset=..., trial=...; * stands for any text; repeatable.",
        rich_help_panel=WHAT,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Folder of the data sets; default $MTLRUN_DATA, else the cache of the platform.",
        rich_help_panel=WHAT,
    ),
]
_JOBS = typer.Option(
    "--jobs",
    "-j",
    metavar="N",
    help="Processes for the parameter search; timed fits stay serial; -1 takes all cores. Numbers do not change.",
    rich_help_panel=HOW,
)
Jobs = Annotated[int, _JOBS]
#: None: one process, or all workers of a Dask cluster.
AnyJobs = Annotated[int | None, _JOBS]
Backend = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="Backend of joblib: loky (processes), threading or dask.",
        rich_help_panel=HOW,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of a Dask scheduler (tcp://host:port); needs --backend dask.",
        rich_help_panel=HOW,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", "-f", help="Compute all cells again, finished ones too.", rich_help_panel=HOW),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", "-n", help="Say what would be computed and why, then stop.", rich_help_panel=HOW),
]
FailFast = Annotated[
    bool,
    typer.Option("--fail-fast", help="Stop at the first failed cell instead of going on.", rich_help_panel=HOW),
]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Answer yes to every question (downloads, deletions).", rich_help_panel=HOW),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        callback=refuse_file,
        help="Folder of the results; a run lies in DIR/<paper>/<artefact>/<profile>.",
        rich_help_panel=OUT,
    ),
]
OUTPUT_DEFAULT = Path("results") / "runs"
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Exit with 1 when a reference number is out of tolerance or a claim is contradicted.",
        rich_help_panel=OUT,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Print the report as md, json, csv or tex instead of the table; html is written as a file.",
        rich_help_panel=OUT,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No plan and no progress, only results and errors.", rich_help_panel=OUT),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        callback=set_debugging,
        expose_value=True,
        help="Show the full traceback of an error.",
        rich_help_panel=OUT,
    ),
]
