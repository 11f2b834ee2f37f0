"""Options that several commands share, written once, and the values that the shell completes them with."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mtlrun.errors import UserError
from mtlrun.utils.text import present_name

WHAT = "What to run"
HOW = "How to run it"
OUT = "Output"
OUTPUT_DEFAULT = Path("results") / "runs"
#: Variables of the environment in the place of options that are not given.
VARIABLES = {
    "jobs": "MTLRUN_JOBS",
    "output": "MTLRUN_OUTPUT",
    "data-dir": "MTLRUN_DATA",
    "profile": "MTLRUN_PROFILE",
}


def data_dir_option(data_dir: Path | None) -> str:
    """Return the --data-dir of this command as a part of one that is printed, empty where none was given."""
    return "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"


def _keep_debug(ctx: typer.Context, value: bool) -> bool:
    """Keep --debug where the group of all commands finds it: an error then shows its traceback."""
    ctx.meta["debug"] = value
    return value


def option(
    panel: str | None, metavar: str | None, help: str, *names: str, **settings: Any
) -> Any:
    """Return a command-line option of a panel of the help; without names it is called like its parameter.

    `metavar` is what it takes, None for a plain flag.
    """
    return typer.Option(
        *names, metavar=metavar or "", help=help, rich_help_panel=panel, **settings
    )


class _InWords:
    """Help without types of Python, and without braces around what must be given."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.metavar = ""  # it would say that it takes a truth value
        return option

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; an argument shows its choices, if it has any, and no type."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            show = getattr(param, "display_type", None)
            if (
                param.param_type_name == "argument"
                and show is not None
                and str(show(ctx)).startswith("<")
            ):
                param.display_type = lambda ctx: None
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        pieces = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.translate({ord("{"): None, ord("}"): None}) for piece in pieces]


class Command(_InWords, TyperCommand):
    """A command whose help is in words; options add up or are refused when repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises
        ------
        UserError
            If an option that takes one value is given twice: the last one would win
            without a word.
        """
        args = [present_name(word) for word in args]
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(list(args))
            seen: set[str] = set()
            for param in order:
                adds_up = any(getattr(param, name, 0) for name in ("multiple", "count"))
                is_flag = getattr(param, "is_flag", False)
                is_option = param.param_type_name == "option"
                is_single = is_option and not adds_up and not is_flag
                if is_single and param.name in seen:
                    name = max(param.opts, key=len)
                    raise UserError(
                        f"{name} is given twice, and takes one value",
                        f"Leave one of them out. See {ctx.command_path} --help",
                    )
                seen.add(str(param.name))
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


class Group(_InWords, TyperGroup):
    """A group of commands whose help is in words."""


def file_or_folder(
    output: Path, out: Path | None, endings: Iterable[str]
) -> tuple[Path, Path | None]:
    """Return folder of the results and file to write: ``-o FILE.svg`` means the file, ``-o DIR`` the folder."""
    if out is None and output.suffix.lower() in endings:
        return Path(os.environ.get(VARIABLES["output"]) or OUTPUT_DEFAULT), output
    return _refuse_file(output), out


def _refuse_file(folder: Path) -> Path:
    from mtlrun.engine.store import refuse_file

    return refuse_file(folder)


# ---------------------------------------------------------------------- completion
# Called at every press of TAB: nothing here imports NumPy, and nothing may fail.

Found = Iterable[tuple[str, str]]
#: Profiles of an experiment that cannot be read, or is not named yet.
PROFILES = {
    "smoke": "seconds",
    "demo": "no download",
    "quick": "minutes",
    "full": "the paper's protocol",
}


def completer(
    find: Callable[[typer.Context], Found],
) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Return a callback of Typer: the values, with help, that begin like the word; after a comma, the last part."""

    @functools.wraps(find)
    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        before, comma, word = incomplete.rpartition(",")
        try:
            found = dict(find(ctx))
        except (
            Exception
        ):  # a damaged file or an option half written: there is nothing to offer
            return []
        return [
            (f"{before}{comma}{value}", about)
            for value, about in found.items()
            if value.startswith(word)
        ]

    # Typer looks at the annotations of the callback; those of the wrapped function are others.
    del complete.__wrapped__
    complete.__annotations__ = {"ctx": typer.Context, "incomplete": str, "return": list}
    return complete


def _files(ending: str) -> Found:
    return [(str(path), "file") for path in sorted(Path().glob(f"*{ending}"))]


def _experiments(*kinds: str) -> Found:
    """Return experiments by id and, where that is enough, by the last part of it."""
    from mtlrun.lab.catalogue import catalogue

    entries = [
        entry for entry in catalogue() if (entry.kind == "train") == ("train" in kinds)
    ]
    bare = [entry.artefact for entry in entries]
    for entry in entries:
        if entry.kind != "train" and (
            bare.count(entry.artefact) == 1 or entry.artefact in entry.default_for
        ):
            yield entry.artefact, entry.title
        yield entry.id, entry.title
    yield from _files(".yaml")


def _methods() -> Found:
    from mtlrun.estimators.registry import METHODS

    return [(name, info.summary) for name, info in METHODS.items()]


#: What is offered for arguments and options.
targets = completer(lambda ctx: _experiments())
targets_and_all = completer(
    lambda ctx: [("all", "every artefact of every paper"), *_experiments()]
)
trainings = completer(lambda ctx: _experiments("train"))
methods = completer(lambda ctx: _methods())
names = completer(
    lambda ctx: _methods() if ctx.params.get("kind") == "methods" else []
)  # of `list methods`


@completer
def datasets(ctx: typer.Context) -> Found:
    """Data sets: shipped, of other packages, and of the user's data directory."""
    from mtlrun.data.cards import card_paths
    from mtlrun.data.files import data_directory

    return [(id, "") for id in card_paths(data_directory(ctx.params.get("data_dir")))]


@completer
def metrics(ctx: typer.Context) -> Found:
    """Metrics."""
    from mtlrun.engine.interfaces import METRIC_FACTS

    return [
        (name, "greater" if m.greater_is_better else "smaller")
        for name, m in METRIC_FACTS.items()
    ]


@completer
def profiles(ctx: typer.Context) -> Found:
    """Profiles of the experiment."""
    own = [name for layer in _layers(ctx) for name in layer.get("profiles") or ()]
    return [
        (name, PROFILES.get(name, "")) for name in ([*own, "full"] if own else PROFILES)
    ]


@completer
def interpretations(ctx: typer.Context) -> Found:
    """Interpretations of the experiment."""
    own = {
        name: about
        for layer in _layers(ctx)
        for name, about in (layer.get("readings") or {}).items()
    }
    return [
        *((name, str((about or {}).get("why", ""))) for name, about in own.items()),
        ("all", "all of them"),
    ]


def _layers(ctx: typer.Context) -> list[dict[str, Any]]:
    """Return the content of the file of the experiment and of those that it extends."""
    import yaml

    from mtlrun.lab.catalogue import find
    from mtlrun.utils.io import read_text_file

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    found: list[dict[str, Any]] = []
    # Where the word to complete is the value of an option, the parser has stopped and left the arguments as they are.
    name, folder = ctx.params.get("target") or next(iter(ctx.args), None), Path()
    while name and name != "all" and len(found) < len(PROFILES):
        beside = folder / name
        path = beside if beside.is_file() else find(name)
        found.append(yaml.load(read_text_file(path), Loader=loader))
        name, folder = found[-1].get("extends"), path.parent
    return found


def words(*choices: str) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Return a callback that offers some words."""
    return completer(lambda ctx: [(choice, "") for choice in choices])


# ---------------------------------------------------------------------- options that commands share

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="Experiment: <paper>/<artefact> (an artefact is a table, a figure or a claim of a paper), a short name "
        "such as table2, or a YAML file.",
        autocompletion=targets,
    ),
]
#: Of commands that read finished runs.
Runs = Annotated[
    str,
    typer.Argument(
        metavar="TARGET|FOLDER",
        help="Experiment, folder of a run, or folder of many runs (`all`: DIR of --output).",
        autocompletion=targets_and_all,
    ),
]
Profile = Annotated[
    str | None,
    option(
        WHAT,
        "NAME",
        "Size of the run: smoke (seconds), demo (needs no download), quick (minutes) or full (the paper's protocol); "
        "some have others, such as real (the real data sets at hand), see mtlrun show. Default: quick.",
        autocompletion=profiles,
        envvar=VARIABLES["profile"],
    ),
]
Overrides = Annotated[
    list[str] | None,
    option(
        WHAT,
        "KEY=VALUE",
        "Change a setting, for example split.trials=3. Takes precedence over file and profile. Repeatable.",
        "--set",
    ),
]
Interpretation = Annotated[
    str | None,
    option(
        WHAT,
        "NAME|all",
        "Interpretation of the paper: how to fill in what it leaves open; or all of them. Default: the main one. "
        "mtlrun show lists them.",
        autocompletion=interpretations,
    ),
]
Seed = Annotated[
    int | None,
    option(
        WHAT, "N", "Seed of the random splits; takes precedence over the file.", min=0
    ),
]
Only = Annotated[
    list[str] | None,
    option(
        WHAT,
        "KEY=VALUE,...",
        "Compute only a part: method=..., dataset=... or trial=...; * matches any text. Repeatable.",
    ),
]
DataDir = Annotated[
    Path | None,
    option(
        WHAT,
        "DIR",
        "Folder of the data sets. Default: the user's cache folder.",
        envvar=VARIABLES["data-dir"],
    ),
]
_JOBS = option(
    HOW,
    "N",
    "Number of parallel processes, -1 for all cores. Results do not depend on it; timed fits run one by one.",
    "--jobs",
    "-j",
    envvar=VARIABLES["jobs"],
)
Jobs = Annotated[int, _JOBS]
#: None: one process, or all workers of a Dask cluster.
AnyJobs = Annotated[int | None, _JOBS]
Backend = Annotated[
    str | None,
    option(
        HOW,
        "NAME",
        "How to run in parallel: processes, threading or dask.",
        autocompletion=words("processes", "threading", "dask"),
    ),
]
Scheduler = Annotated[
    str | None,
    option(
        HOW, "ADDRESS", "Dask scheduler to use with --backend dask, as tcp://host:port."
    ),
]
Force = Annotated[
    bool,
    option(
        HOW, None, "Recompute everything, including finished cells.", "--force", "-f"
    ),
]
DryRun = Annotated[
    bool,
    option(
        HOW, None, "Show what would be computed and why, then stop.", "--dry-run", "-n"
    ),
]
FailFast = Annotated[
    bool, option(HOW, None, "Stop at the first cell that fails.", "--fail-fast")
]
Retries = Annotated[
    int, option(HOW, "N", "How often to retry a cell that fails.", min=0)
]
Yes = Annotated[
    bool,
    option(
        HOW, None, "Answer yes to all questions (downloads, deletions).", "--yes", "-y"
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE",
        help="Allow this type from outside mtlrun and scikit-learn in the model; its code is run. Repeatable.",
    ),
]
_ROOT = "Root folder of the results; every run has a subfolder of its own. Default: "
Output = Annotated[
    Path,
    option(
        OUT,
        "DIR",
        f"{_ROOT}results/runs.",
        "--output",
        "-o",
        callback=_refuse_file,
        show_default=False,
        envvar=VARIABLES["output"],
    ),
]
#: Of commands that read a run and may write one file: see `file_or_folder`.
OutputOrFile = Annotated[
    Path,
    option(
        OUT,
        "DIR|FILE",
        f"{_ROOT}results/runs. With the ending of a format: the file to write, as --out.",
        "--output",
        "-o",
        show_default=False,
        envvar=VARIABLES["output"],
    ),
]
Out = Annotated[Path | None, option(OUT, "FILE", "File to write, and nothing else.")]
Check = Annotated[
    bool,
    option(
        OUT,
        None,
        "Exit with code 1 if a number is out of tolerance or a claim is contradicted.",
        "--check",
    ),
]
Format = Annotated[
    str | None,
    option(
        OUT,
        "FORMAT",
        "Print the full report as md, json, csv or tex instead of the table; html writes report.html, parquet every "
        "cell to results.parquet.",
        "--format",
        autocompletion=words("md", "json", "csv", "tex", "html", "parquet"),
    ),
]
Open = Annotated[bool, option(OUT, None, "Show the report in the browser.", "--open")]
Json = Annotated[bool, option(OUT, None, "Print JSON, for other programs.", "--json")]
Quiet = Annotated[
    bool,
    option(
        OUT,
        None,
        "Print only results and errors, no plan and no progress.",
        "--quiet",
        "-q",
    ),
]
Debug = Annotated[
    bool,
    option(
        OUT,
        None,
        "Show the full traceback if an error occurs.",
        "--debug",
        callback=_keep_debug,
    ),
]
