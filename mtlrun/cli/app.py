"""The program ``mtlrun``: its commands, and what happens when one of them fails or its command line is wrong."""

from __future__ import annotations

import _thread
import errno
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any

import typer

from mtlrun.cli.console import complain
from mtlrun.cli.options import Command, Group, option
from mtlrun.errors import MtlrunError, UserError, suggest
from mtlrun.utils.plugins import pathless

#: Panels of ``mtlrun --help`` and their commands, each with an example. The module of a command holds a function of its
#: name, or a Typer called `app` (a group).
COMMANDS = {
    "Experiments": {
        "reproduce": "mtlrun reproduce table2 --profile demo",
        "status": "mtlrun status table2 --profile full",
        "verify": "mtlrun verify table2 --profile demo --sample 5",
        "report": "mtlrun report table2 --profile demo --format html",
        "plot": "mtlrun plot fetr/fig2a --kind scaling --out seconds.svg",
        "show": "mtlrun show table2",
        "validate": "mtlrun validate experiment.yaml",
        "list": "mtlrun list methods GraphMTL",
    },
    "Your own data": {
        "compare": "mtlrun compare grades.csv --target grade --task school",
        "init": "mtlrun init school --method TraceNormMTL",
        "train": "mtlrun train school.yaml",
        "predict": "mtlrun predict results/runs/train/school new_rows.csv",
    },
    "Data sets and system": {"data": "", "env": "mtlrun env"},
}
#: Modules that are not called like their command, and functions whose names Python has taken.
MODULES = {
    **dict.fromkeys(("verify", "report"), "reproduce"),
    **dict.fromkeys(("show", "status", "validate", "list", "env"), "inspect"),
    "init": "train",
}
FUNCTIONS = {"list": "list_"}
EPILOG = (
    "A cell is one fit of one method on one split, the unit that is computed, kept and counted. "
    "Exit codes: 0 success; 1 a cell failed, or --check found a deviation; 2 wrong usage, configuration or data; "
    "130 interrupted."
)


class Guarded(Group):
    """The group of all commands; turns what they raise into one message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; user errors end with 2, an interrupt with 130, anything unexpected with 1."""
        try:
            if ctx.obj is not None:
                ctx.obj()  # from here on signals raise exceptions
            return super().invoke(ctx)
        except typer.Exit:  # the command has said all
            raise
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(130) from None
        except MtlrunError as error:
            if ctx.meta.get("debug"):
                raise
            complain(
                error.message if isinstance(error, UserError) else str(error),
                getattr(error, "remedy", None),
            )
            raise typer.Exit(error.exit_code) from None
        except Exception as error:
            # Some modules turn an interrupt while they are imported into another error.
            if _interrupts and not ctx.meta.get("debug"):
                complain("interrupted")
                raise typer.Exit(130) from None
            if (wrong := usage_error(error)) is not None:
                complain(*wrong)
                raise typer.Exit(2) from None
            # Typer handles its own exceptions (usage, exit, abort); a closed pipe is no error.
            if (
                ctx.meta.get("debug")
                or isinstance(error, typer.Abort | BrokenPipeError)
                or hasattr(error, "exit_code")
            ):
                raise
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                complain(
                    f"cannot write: {error.strerror}",
                    "Free some space, or choose another place for the output.",
                )
                raise typer.Exit(2) from None
            if isinstance(error, MemoryError):
                complain(
                    "there is not enough memory for this",
                    "Take part of the rows, or a machine with more memory.",
                )
                raise typer.Exit(2) from None
            if (
                isinstance(error, OSError)
                and error.filename is not None
                and error.strerror
            ):
                # A name of more than 255 bytes, a loop of links, a folder without permission: whatever is looked at.
                complain(
                    f"{error.filename!s:.200}: {error.strerror}",
                    "Check the path and its permissions.",
                )
                raise typer.Exit(2) from None
            if isinstance(error, UnicodeEncodeError):
                complain(
                    f"{error.object!s:.200}: cannot be written in the encoding "
                    f"{error.encoding} of this system",
                    "Set the environment variable PYTHONUTF8=1.",
                )
                raise typer.Exit(2) from None
            if isinstance(error, FileNotFoundError) and not _has_current_folder():
                complain(
                    "the current folder was removed",
                    "Change to another folder, and run the command there.",
                )
                raise typer.Exit(2) from None
            complain(
                f"{type(error).__name__}: {error}",
                "This is a bug; run with --debug to see where it happened.",
            )
            raise typer.Exit(1) from None


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def main(restore_signals: Callable[[], None] | None = None) -> None:
    """Parse the command line and run its command.

    Parameters
    ----------
    restore_signals : callable, optional
        Called before the command begins. Until then signals end the process silently.
    """
    os.environ.update(pathless())  # of workers, whatever starts them
    for stream in (sys.stdout, sys.stderr):
        # A console that lacks a character of a name gets its escape, not a crash.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def let_signals_raise() -> None:
        if restore_signals is not None:
            restore_signals()
        _let_signals_interrupt()

    try:
        build_app()(prog_name="mtlrun", obj=let_signals_raise)
    except OSError as error:  # of the help texts, which are printed before a command
        if error.errno != errno.ENOSPC:
            raise
        complain(f"cannot write: {error.strerror}")
        sys.exit(2)


#: Signals that have interrupted the command.
_interrupts: list[int] = []


def _let_signals_interrupt() -> None:
    """Let Ctrl-C, TERM and HUP raise `KeyboardInterrupt`; ignored signals (`nohup`) stay ignored."""
    terminals = [
        stream.fileno() for stream in (sys.stdout, sys.stderr) if stream.isatty()
    ]

    def interrupt(number: int, frame: object) -> None:
        _interrupts.append(number)
        # After SIGHUP the terminal is gone, and printing to it would fail.
        if number not in (signal.SIGINT, signal.SIGTERM):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for terminal in terminals:
                os.dup2(nowhere, terminal)
        raise KeyboardInterrupt

    defaults = {
        "SIGINT": signal.default_int_handler,
        "SIGTERM": signal.SIG_DFL,
        "SIGHUP": signal.SIG_DFL,
    }
    for name, default in defaults.items():
        number = getattr(signal, name, None)  # Windows has no HUP
        if number is not None and signal.getsignal(number) == default:
            signal.signal(number, interrupt)
    sys.unraisablehook = _repeat_interrupt


def _repeat_interrupt(unraisable: sys.UnraisableHookArgs) -> None:
    """Send an interrupt again that Python dropped.

    One that arrives in a callback, of a weak reference for instance, cannot be raised:
    Python would print a traceback, and go on.
    """
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    timer = threading.Timer(0.01, _thread.interrupt_main)
    timer.daemon = True
    timer.start()


def build_app() -> typer.Typer:
    """Return the application with all commands mounted."""
    app = typer.Typer(
        cls=Guarded,
        name="mtlrun",
        help="Multi-task learning: reproduce published tables, compare methods on your own data, train models.",
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_root)
    for panel, names in COMMANDS.items():
        for name, example in names.items():
            _mount(app, name, panel, example)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from mtlrun import __version__

        typer.echo(f"mtlrun {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        option(
            None,
            None,
            "Print the version and exit.",
            "--version",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Accept the options that precede the command."""


def _mount(app: typer.Typer, name: str, panel: str, example: str) -> None:
    module = importlib.import_module(f"mtlrun.cli.{MODULES.get(name, name)}")
    group = getattr(module, "app", None)
    if isinstance(group, typer.Typer):
        app.add_typer(group, name=name, rich_help_panel=panel)
    else:
        command = getattr(module, FUNCTIONS.get(name, name))
        # Typer keeps the line breaks of a docstring, which do not fit the width of the terminal.
        paragraphs = [
            " ".join(part.split()) for part in (command.__doc__ or "").split("\n\n")
        ]
        about = "\n\n".join(paragraphs)
        app.command(
            name,
            cls=Command,
            help=about,
            rich_help_panel=panel,
            epilog=f"Example: {example}",
        )(command)


# ---------------------------------------------------------------------- wrong command lines

#: What an option that is not there, or lacks its value, is answered with.
_HELP = "See all options: {} --help"


def usage_error(error: Any) -> tuple[str, str] | None:
    """Return what is wrong and the remedy for an error of Typer; None for any other exception.

    Parameters
    ----------
    error : Exception
        Of Typer: it has a context and knows how to say what is wrong, in words that the terminal's user may not know.
    """
    kind, context = type(error).__name__, getattr(error, "ctx", None)
    if kind == "BadOptionUsage":
        return f"{error.option_name} needs a value", _HELP.format("the command with")
    if (
        context is None
        or kind == "NoArgsIsHelpError"
        or not hasattr(error, "format_message")
    ):
        return None
    command, param = context.command_path, getattr(error, "param", None)
    if kind == "NoSuchOption":
        return f"{command} has no option {error.option_name}", _other_option(
            error, command
        )
    if param is None:
        text, _, near = str(error.format_message()).partition(" Did you mean ")
        text = text.replace(
            "Got unexpected extra argument(s)", "takes no further argument"
        ).rstrip(".")
        return (
            f"{command}: {text[:1].lower()}{text[1:]}",
            f"Did you mean {near}" if near else _HELP.format(command),
        )
    name = _name(param)
    source = getattr(context.get_parameter_source(param.name), "name", "")
    if source == "ENVIRONMENT" and param.envvar:  # nobody typed the option
        name = f"{param.envvar if isinstance(param.envvar, str) else param.envvar[0]} ({name})"
    about = " ".join(str(getattr(param, "help", None) or "").split())
    if about and param.param_type_name == "option":
        about = f"{_name(param)} {param.metavar or ''}".strip() + f": {about}"
    if kind == "MissingParameter":
        return f"{command} needs {name}", about or _HELP.format(command)
    from pydantic import ValidationError

    cause = error.__cause__
    if isinstance(cause, ValidationError):
        from mtlrun.utils.yaml import reworded

        finding = cause.errors(include_url=False)[0]
        value, choice, choices = (
            reworded(finding).rstrip(".").partition(" is not one of ")
        )
        wrong = f"must be one of {choices}, not {value}" if choice else value
        return f"{name} {wrong}", _share(finding) or about or _HELP.format(command)
    return f"{name}: {error.message}", about or _HELP.format(command)


def _name(param: Any) -> str:
    """Return how a parameter is typed: its longest option, or its place in the usage line."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name).strip("[].").upper()


def _other_option(error: Any, command: str) -> str:
    """Return the options that come close, or else the commands that have this one."""
    commands = getattr(error.ctx.find_root().command, "commands", {})
    have = [
        name
        for name, one in commands.items()
        if any(error.option_name in p.opts for p in one.params)
    ]
    if have:
        return f"{', '.join(f'mtlrun {name}' for name in have)} {'has' if len(have) == 1 else 'have'} it."
    near = suggest(
        error.option_name,
        [name for param in error.ctx.command.params for name in param.opts],
    )
    return f"Did you mean {' or '.join(near)}?" if near else _HELP.format(command)


def _share(finding: Any) -> str:
    """Say how a percentage is written, where one was given for a number."""
    text = str(finding.get("input", ""))
    if not str(finding["type"]).startswith("float") or not text.endswith("%"):
        return ""
    try:
        return f"Write it as a share: {float(text[:-1]) / 100:g}"
    except ValueError:
        return ""


app = build_app()
