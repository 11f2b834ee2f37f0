"""Options that several commands share, and their completion in the shell."""

from __future__ import annotations

import functools
import inspect
import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from mtlrun.errors import UserError
from mtlrun.utils.options import RUN as HOW
from mtlrun.utils.options import OptionHelp, typed_fields

#: Panels of options in the help of a command.
WHAT = "What to run"
OUT = "Output"
OUTPUT_DEFAULT = Path("results") / "runs"
#: Environment variables that are read for options that are not given.
JOBS_VARIABLE = "MTLRUN_JOBS"
OUTPUT_VARIABLE = "MTLRUN_OUTPUT"
DATA_VARIABLE = "MTLRUN_DATA"
PROFILE_VARIABLE = "MTLRUN_PROFILE"
VARIABLES = {
    "jobs": JOBS_VARIABLE,
    "output": OUTPUT_VARIABLE,
    "data-dir": DATA_VARIABLE,
    "profile": PROFILE_VARIABLE,
}


def data_dir_option(data_dir: Path | None) -> str:
    """Return the option --data-dir as text to append to a command that is printed.

    The text is empty if the option was not given.
    """
    if data_dir is None:
        return ""
    return f" --data-dir {shlex.quote(str(data_dir))}"


def _keep_debug(ctx: typer.Context, value: bool) -> bool:
    """Store --debug for the group of all commands, which then shows tracebacks."""
    ctx.meta["debug"] = value
    return value


def option(
    panel: str | None, metavar: str | None, help: str, *names: str, **settings: Any
) -> Any:
    """Create a command-line option.

    Parameters
    ----------
    panel : str or None
        Panel of the help.
    metavar : str or None
        Placeholder of the value in the help; None for a flag.
    help : str
    *names : str
        Such as ``--jobs`` and ``-j``; by default the name of the parameter.
    **settings
        Further arguments of `typer.Option`.
    """
    return typer.Option(
        *names, metavar=metavar or "", help=help, rich_help_panel=panel, **settings
    )


class _PlainHelp:
    """Mixin: help without Python types, and without braces around required values."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            # The default is the name of the type, "BOOLEAN".
            option.metavar = ""
            panels = {getattr(param, "rich_help_panel", None) for param in self.params}  # type: ignore[attr-defined]
            if OUT in panels:
                option.rich_help_panel = OUT
        return option

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; arguments show their choices, but no type."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            display_type = getattr(param, "display_type", None)
            if param.param_type_name != "argument" or display_type is None:
                continue
            # Types are written as "<text>", choices without the brackets.
            if str(display_type(ctx)).startswith("<"):
                param.display_type = lambda ctx: None
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, without braces."""
        pieces = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


class Command(_PlainHelp, TyperCommand):
    """Command with plain help; it refuses to repeat an option that takes one value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises
        ------
        UserError
            If an option that takes one value is given twice. Typer would silently use
            the last value.
        """
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(list(args))
            seen: set[str] = set()
            for param in order:
                takes_one_value = param.param_type_name == "option" and not any(
                    getattr(param, name, 0) for name in ("is_flag", "multiple", "count")
                )
                if takes_one_value and param.name in seen:
                    name = max(param.opts, key=len)
                    raise UserError(
                        f"{name} is given twice, and takes one value",
                        f"Leave one of them out. See {ctx.command_path} --help",
                    )
                seen.add(str(param.name))
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


class Group(_PlainHelp, TyperGroup):
    """Group of commands with plain help."""


def file_or_folder(
    output: Path, out: Path | None, endings: Iterable[str]
) -> tuple[Path, Path | None]:
    """Interpret the option --output of commands that may write one file.

    Parameters
    ----------
    output : Path
        Value of --output: a folder of results, or a file with one of the `endings`.
    out : Path or None
        Value of --out: the file to write.
    endings : iterable of str

    Returns
    -------
    folder : Path
        Folder of the results.
    file : Path or None
        File to write.

    Raises
    ------
    UserError
        If `output` is neither a folder nor such a file.
    """
    if out is None and output.suffix.lower() in endings:
        return Path(os.environ.get(OUTPUT_VARIABLE) or OUTPUT_DEFAULT), output
    if out is None and output.suffix and not output.exists():
        raise UserError(
            f"{output}: no such folder, and unknown format {output.suffix!r}",
            f"End the name of a file with one of {', '.join(endings)}.",
        )
    return _refuse_file(output), out


def _refuse_file(folder: Path) -> Path:
    from mtlrun.engine.store import refuse_file

    return refuse_file(folder)


# --------------------------------------------------------------------- completion
# The shell runs these functions at each press of TAB: they must not fail, and must not
# import NumPy, which takes too long.

#: Values with their help.
Completions = Iterable[tuple[str, str]]
#: Profiles to offer if the experiment cannot be read, or is not named yet.
PROFILES = {
    "smoke": "seconds",
    "demo": "no download",
    "quick": "minutes",
    "full": "the paper's protocol",
}


def completer(
    find: Callable[[typer.Context], Completions],
) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Create a completion callback of Typer from a function that returns all values.

    The callback offers the values that start with the incomplete word. In a list with
    commas it completes the last entry.
    """

    @functools.wraps(find)
    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        before, comma, word = incomplete.rpartition(",")
        try:
            values = dict(find(ctx))
        except Exception:
            # Nothing can be offered for a damaged file or a half-written option.
            return []
        matches = []
        for value, help_text in values.items():
            if value.startswith(word):
                matches.append((f"{before}{comma}{value}", help_text))
        return matches

    # Typer reads the annotations of the callback, but follows `__wrapped__` to `find`,
    # whose annotations differ.
    del complete.__wrapped__
    complete.__annotations__ = {"ctx": typer.Context, "incomplete": str, "return": list}
    return complete


def words(*choices: str) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Create a completion callback that offers these words."""
    completions = [(choice, "") for choice in choices]
    return completer(lambda ctx: completions)


def _yaml_files() -> Completions:
    return [(str(path), "file") for path in sorted(Path().glob("*.yaml"))]


def _experiments() -> Completions:
    """Yield paper items by id and by their short name where it is unambiguous."""
    from mtlrun.lab.experiment.catalogue import catalogue

    entries = [entry for entry in catalogue() if entry.kind != "train"]
    names = [entry.artefact for entry in entries]
    for entry in entries:
        is_unique = names.count(entry.artefact) == 1
        if is_unique or entry.artefact in entry.default_for:
            yield entry.artefact, entry.title
        yield entry.id, entry.title
    yield from _yaml_files()


def _methods() -> Completions:
    from mtlrun.catalog.registry import BASELINES, METHODS

    return [(name, info.summary) for name, info in (METHODS | BASELINES).items()]


@completer
def targets(ctx: typer.Context) -> Completions:
    """Complete paper items."""
    return _experiments()


@completer
def targets_and_all(ctx: typer.Context) -> Completions:
    """Complete paper items and the word for all of them."""
    return [("all", "every artifact of every paper"), *_experiments()]


@completer
def trainings(ctx: typer.Context) -> Completions:
    """Complete experiments that train a model."""
    from mtlrun.lab.experiment.catalogue import catalogue

    for entry in catalogue():
        if entry.kind == "train":
            yield entry.id, entry.title
    yield from _yaml_files()


@completer
def methods(ctx: typer.Context) -> Completions:
    """Complete methods."""
    return _methods()


@completer
def names(ctx: typer.Context) -> Completions:
    """Complete the second argument of `mtlrun list`."""
    if ctx.params.get("kind") == "methods":
        return _methods()
    return []


@completer
def datasets(ctx: typer.Context) -> Completions:
    """Complete data sets: shipped, of other packages, and of the user's data
    directory.
    """
    from mtlrun.data.sets.cards import card_paths
    from mtlrun.data.sets.files import data_directory

    folder = data_directory(ctx.params.get("data_dir"))
    return [(name, "") for name in card_paths(folder)]


@completer
def metrics(ctx: typer.Context) -> Completions:
    """Complete metrics."""
    from mtlrun.catalog.interfaces import METRIC_INFO

    completions = []
    for name, metric in METRIC_INFO.items():
        better = "greater" if metric.greater_is_better else "smaller"
        completions.append((name, better))
    return completions


@completer
def profiles(ctx: typer.Context) -> Completions:
    """Complete the profiles of the experiment."""
    profile_names: list[str] = []
    for layer in _layers(ctx):
        profile_names += layer.get("profiles") or ()
    if profile_names:
        # Each experiment has the profile full, which its file need not list.
        profile_names.append("full")
    else:
        profile_names += PROFILES
    return [(name, PROFILES.get(name, "")) for name in profile_names]


@completer
def interpretations(ctx: typer.Context) -> Completions:
    """Complete the interpretations of the experiment."""
    completions: dict[str, str] = {}
    for layer in _layers(ctx):
        for name, interpretation in (layer.get("readings") or {}).items():
            completions[name] = str((interpretation or {}).get("why", ""))
    return [*completions.items(), ("all", "all of them")]


def _layers(ctx: typer.Context) -> list[dict[str, Any]]:
    """Return the content of the experiment's file, and of the files that it extends."""
    import yaml

    from mtlrun.lab.experiment.catalogue import find
    from mtlrun.utils.io import read_text_file

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    layers: list[dict[str, Any]] = []
    # While the value of an option is completed, the parser has stopped before the
    # arguments and left them unparsed.
    name = ctx.params.get("target") or next(iter(ctx.args), None)
    folder = Path()
    while name and name != "all" and len(layers) < MAX_LAYERS:
        neighbor = folder / name
        path = neighbor if neighbor.is_file() else find(name)
        layer = yaml.load(read_text_file(path), Loader=loader)
        layers.append(layer)
        name = layer.get("extends")
        folder = path.parent
    return layers


#: Files that are read at most for a completion, in case they extend each other.
MAX_LAYERS = 4


# -------------------------------------------------------------- shared options

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help=(
            "Experiment: <paper>/<artifact> (an artifact is a table, a figure or a "
            "claim of a paper), the artifact alone if only one paper has it, or a YAML "
            "file."
        ),
        autocompletion=targets,
    ),
]
#: Argument of commands that read finished runs.
Runs = Annotated[
    str,
    typer.Argument(
        metavar="TARGET|FOLDER",
        help=(
            "Experiment, folder of a run, or folder of many runs (`all`: DIR of "
            "--output)."
        ),
        autocompletion=targets_and_all,
    ),
]
Profile = Annotated[
    str | None,
    option(
        WHAT,
        "NAME",
        "Size of the run: smoke (seconds), demo (needs no download), quick (minutes) "
        "or full (the paper's protocol); some have others, such as real (the real "
        "data sets at hand), see mtlrun show. Default: quick.",
        autocompletion=profiles,
        envvar=PROFILE_VARIABLE,
    ),
]
Overrides = Annotated[
    list[str] | None,
    option(
        WHAT,
        "KEY=VALUE",
        "Change a setting, for example split.trials=3. Takes precedence over file and "
        "profile. Repeatable.",
        "--set",
    ),
]
Interpretation = Annotated[
    str | None,
    option(
        WHAT,
        "NAME|all",
        "Interpretation of the paper: how to fill in what it leaves open; or all of "
        "them. Default: the main one. mtlrun show lists them.",
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
        "Compute only a part: method=..., dataset=... or trial=...; * matches any "
        "text. Repeatable.",
    ),
]
DataDir = Annotated[
    Path | None,
    option(
        WHAT,
        "DIR",
        "Folder of the data sets. Default: the user's cache folder.",
        envvar=DATA_VARIABLE,
    ),
]
_JOBS = option(
    HOW,
    "N",
    "Number of parallel processes, -1 for all cores. Results do not depend on it; timed "
    "fits run one by one.",
    "--jobs",
    "-j",
    envvar=JOBS_VARIABLE,
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
        HOW, None, "Recompute everything, including finished results.", "--force", "-f"
    ),
]
DryRun = Annotated[
    bool,
    option(
        HOW, None, "Show what would be computed and why, then stop.", "--dry-run", "-n"
    ),
]
FailFast = Annotated[
    bool, option(HOW, None, "Stop at the first result that fails.", "--fail-fast")
]
Retries = Annotated[
    int, option(HOW, "N", "How often to retry a fit that fails.", min=0)
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
        help=(
            "Allow this type from outside mtlrun and scikit-learn in the model; its "
            "code is run. Repeatable."
        ),
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
        envvar=OUTPUT_VARIABLE,
    ),
]
#: Option of commands that read a run and may write one file (see `file_or_folder`).
OutputOrFile = Annotated[
    Path,
    option(
        OUT,
        "DIR|FILE",
        f"{_ROOT}results/runs. With the ending of a format: the file to write, as "
        "--out.",
        "--output",
        "-o",
        show_default=False,
        envvar=OUTPUT_VARIABLE,
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
        "Print the full report as md, json, csv or tex instead of the table; html "
        "writes report.html, parquet every result to results.parquet.",
        "--format",
        autocompletion=words("md", "json", "csv", "tex", "html", "parquet"),
    ),
]
Open = Annotated[bool, option(OUT, None, "Show the report in the browser.", "--open")]


def with_sheet(table: Path, sheet: str | None) -> Path:
    """Return the path of a table, with the sheet of a workbook behind it."""
    return table if sheet is None else table.with_name(f"{table.name}#{sheet}")


#: The option --sheet in a panel of the help.
sheet_option = functools.partial(
    option,
    metavar="NAME",
    help="Sheet of a workbook. Default: the first one.",
)
Sheet = Annotated[str | None, sheet_option(None)]
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


#: Options of several commands, and completions, by the names of fields.
_SHARED = {"jobs": Jobs, "backend": Backend, "scheduler": Scheduler}
_COMPLETIONS = {"methods": methods, "metric": metrics}


def with_fields(
    *classes: type[Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of classes of options.

    A field carries its `OptionHelp`, or one of the options of this module. The command
    takes their values as ``**values``. Lists are empty if the option is not given;
    blank texts in them are left out.
    """
    parameters = {}
    lists = []
    for cls in classes:
        for field, kind, option_help in typed_fields(cls):  # type: ignore[arg-type]
            default = field.default
            types = get_args(kind)
            if isinstance(option_help, OptionInfo):
                kind = Annotated[kind, option_help]
            elif field.name in _SHARED:
                kind = _SHARED[field.name]
            elif default == ():
                lists.append(field.name)
                kind = list[str] | None
                default = None
            elif Path in types:
                kind = Path | None
            if isinstance(option_help, OptionHelp):
                names = [f"--{field.name.replace('_', '-')}"]
                if default is True:
                    names = [f"{names[0]}/--no-{names[0][2:]}"]
                if option_help.short:
                    names.append(option_help.short)
                completion = _COMPLETIONS.get(field.name)
                if option_help.choices:
                    completion = words(*option_help.choices)
                field_option = option(
                    option_help.panel,
                    option_help.metavar,
                    option_help.help,
                    *names,
                    autocompletion=completion,
                )
                kind = Annotated[kind, field_option]
            parameters[field.name] = inspect.Parameter(
                field.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=default,
                annotation=kind,
            )

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        shown = list(signature.parameters.values())
        # The last one is **values.
        shown[1:-1] = [*parameters.values(), *shown[1:-1]]

        @functools.wraps(function)
        def call(**values: Any) -> None:
            for name in lists:
                texts = values[name] or ()
                values[name] = tuple(text for text in texts if text.strip())
            function(**values)

        call.__signature__ = signature.replace(parameters=shown[:-1])  # type: ignore[attr-defined]
        return call

    return decorate
