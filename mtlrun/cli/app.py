"""The program ``mtlrun``: its commands, and the messages of commands that fail."""

from __future__ import annotations

import _thread
import errno
import importlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from mtlrun.cli.console import complain, show_warning
from mtlrun.cli.options import Command, Group, option
from mtlrun.errors import MEMORY_REMEDY, MtlrunError, UserError, suggest
from mtlrun.utils.plugins import pathless

#: Panels of ``mtlrun --help`` with their commands, and an example of each command. The
#: module of a command holds a function of the same name, or a group of commands, a
#: Typer called `app`.
COMMANDS = {
    "Experiments": {
        "reproduce": "mtlrun reproduce dcrmtl/table2 --profile demo",
        "status": "mtlrun status dcrmtl/table2 --profile full",
        "verify": "mtlrun verify dcrmtl/table2 --profile demo --sample 5",
        "report": "mtlrun report dcrmtl/table2 --profile demo --format html",
        "plot": "mtlrun plot fetr/fig2a --kind scaling --out seconds.svg",
        "show": "mtlrun show dcrmtl/table2",
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
#: Modules of the commands whose module has another name.
MODULES = {
    "show": "inspect",
    "status": "inspect",
    "validate": "inspect",
    "list": "inspect",
    "env": "inspect",
    "init": "train",
}
#: Functions of the commands whose names Python uses itself.
FUNCTIONS = {"list": "list_"}
EPILOG = (
    "A result is one fit of one method on one split, the unit that is computed, "
    "kept and counted. "
    "Exit codes: 0 success; 1 a result failed, or --check found a deviation; "
    "2 wrong usage, configuration or data; 130 interrupted."
)


class Guarded(Group):
    """Group of all commands; turns exceptions into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command.

        Errors of the user end with exit code 2, an interrupt with 130 and unexpected
        errors with 1. With ``--debug`` exceptions are raised with their traceback.
        """
        try:
            if ctx.obj is not None:
                # From here on signals raise exceptions.
                ctx.obj()
            return super().invoke(ctx)
        except typer.Exit:
            # The command has printed its own message.
            raise
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(130) from None
        except MtlrunError as error:
            if _is_debugging(ctx):
                raise
            message = error.message if isinstance(error, UserError) else str(error)
            complain(message, getattr(error, "remedy", None))
            raise typer.Exit(error.exit_code) from None
        except Exception as error:
            # Some modules turn an interrupt during their import into another error.
            if _interrupts and not _is_debugging(ctx):
                complain("interrupted")
                raise typer.Exit(130) from None
            explanation = usage_error(error)
            if explanation is None:
                # Typer handles its own exceptions: usage, exit, abort. A closed pipe
                # is not an error.
                is_handled_by_typer = isinstance(error, typer.Abort | BrokenPipeError)
                is_handled_by_typer |= hasattr(error, "exit_code")
                if is_handled_by_typer or _is_debugging(ctx):
                    raise
                explanation = system_error(error)
            if explanation is None:
                complain(
                    f"{type(error).__name__}: {error}",
                    "This is a bug; run with --debug to see where it happened.",
                )
                raise typer.Exit(1) from None
            complain(*explanation)
            raise typer.Exit(2) from None


def _is_debugging(ctx: Any) -> bool:
    """Return whether --debug was given, which is known once the command was parsed."""
    return bool(ctx.meta.get("debug"))


def system_error(error: Exception) -> tuple[str, str] | None:
    """Explain an error of the machine: disk, memory, paths or encoding.

    Returns
    -------
    (message, remedy) : tuple of str, or None
        None for any other exception.
    """
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return (
            f"cannot write: {error.strerror}",
            "Free some space, or choose another place for the output.",
        )
    if isinstance(error, MemoryError):
        return (
            "there is not enough memory for this",
            MEMORY_REMEDY,
        )
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        # Any access to a path can fail: a name of more than 255 bytes, a loop of links,
        # a folder without permission.
        return (
            f"{error.filename!s:.200}: {error.strerror}",
            "Check the path and its permissions.",
        )
    if isinstance(error, UnicodeEncodeError):
        return (
            f"{error.object!s:.200}: cannot be written in the encoding "
            f"{error.encoding} of this system",
            "Set the environment variable PYTHONUTF8=1.",
        )
    if isinstance(error, FileNotFoundError) and not _has_current_folder():
        return (
            "the current folder was removed",
            "Change to another folder, and run the command there.",
        )
    return None


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
        Called before the command starts. Until then signals end the process silently.
    """
    # Worker processes inherit the environment.
    os.environ.update(pathless())
    warnings.showwarning = show_warning
    for stream in (sys.stdout, sys.stderr):
        # A console that lacks a character of a name shows its escape sequence.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def let_signals_raise() -> None:
        if restore_signals is not None:
            restore_signals()
        _let_signals_interrupt()

    try:
        build_app()(prog_name="mtlrun", obj=let_signals_raise)
    except OSError as error:
        # Help texts are printed before a command starts.
        if error.errno != errno.ENOSPC:
            raise
        complain(f"cannot write: {error.strerror}")
        sys.exit(2)


#: Numbers of the signals that have interrupted the command.
_interrupts: list[int] = []


def _let_signals_interrupt() -> None:
    """Let Ctrl-C, SIGTERM and SIGHUP raise `KeyboardInterrupt`.

    Signals that are ignored, as under `nohup`, stay ignored.
    """
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
        # Windows has no SIGHUP.
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == default:
            signal.signal(number, interrupt)
    sys.unraisablehook = _repeat_interrupt


def _repeat_interrupt(unraisable: sys.UnraisableHookArgs) -> None:
    """Repeat an interrupt that Python dropped.

    An interrupt that arrives in a callback, of a weak reference for instance, cannot be
    raised: Python prints a traceback and continues.
    """
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    timer = threading.Timer(0.01, _thread.interrupt_main)
    timer.daemon = True
    timer.start()


def build_app() -> typer.Typer:
    """Create the application with all commands."""
    app = typer.Typer(
        cls=Guarded,
        name="mtlrun",
        help=(
            "Multi-task learning: reproduce published tables, compare methods on "
            "your own data, train models."
        ),
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_root)
    for panel, names in COMMANDS.items():
        for name, example in names.items():
            module = importlib.import_module(f"mtlrun.cli.{MODULES.get(name, name)}")
            group = getattr(module, "app", None)
            if isinstance(group, typer.Typer):
                app.add_typer(group, name=name, rich_help_panel=panel)
                continue
            command = getattr(module, FUNCTIONS.get(name, name))
            # Typer keeps the line breaks of a docstring, which need not fit the
            # terminal.
            paragraphs = (command.__doc__ or "").split("\n\n")
            help_text = "\n\n".join(" ".join(text.split()) for text in paragraphs)
            register = app.command(
                name,
                cls=Command,
                help=help_text,
                rich_help_panel=panel,
                epilog=f"Example: {example}",
            )
            register(command)
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


# ------------------------------------------------------------ wrong command lines

#: Remedy for options that do not exist or lack a value.
_HELP = "See all options: {} --help"


def usage_error(error: Any) -> tuple[str, str] | None:
    """Explain an error in the command line in plain words.

    Parameters
    ----------
    error : Exception
        Exception of Typer, whose own message uses terms of the library, or any other.

    Returns
    -------
    (message, remedy) : tuple of str, or None
        None for exceptions other than usage errors of Typer.
    """
    kind = type(error).__name__
    if kind == "BadOptionUsage":
        return f"{error.option_name} needs a value", _HELP.format("the command with")
    context = getattr(error, "ctx", None)
    if context is None or not hasattr(error, "format_message"):
        return None
    if kind == "NoArgsIsHelpError":
        return None
    command = context.command_path
    if kind == "NoSuchOption":
        message = f"{command} has no option {error.option_name}"
        return message, _other_option(error, command)
    param = getattr(error, "param", None)
    if param is not None:
        return _explain_parameter(error, param, command)
    # The error concerns no single parameter: there are extra arguments, for instance.
    text, _, suggestion = str(error.format_message()).partition(" Did you mean ")
    text = text.replace("Got unexpected extra argument(s)", "takes no further argument")
    text = text.rstrip(".")
    message = f"{command}: {text[:1].lower()}{text[1:]}"
    if suggestion:
        return message, f"Did you mean {suggestion}"
    return message, _HELP.format(command)


def _explain_parameter(error: Any, param: Any, command: str) -> tuple[str, str]:
    """Explain a missing or wrong value of a parameter."""
    name = _name(param)
    help_text = " ".join(str(getattr(param, "help", None) or "").split())
    if help_text and param.param_type_name == "option":
        option_name = f"{name} {param.metavar or ''}".strip()
        help_text = f"{option_name}: {help_text}"
    source = error.ctx.get_parameter_source(param.name)
    if getattr(source, "name", "") == "ENVIRONMENT" and param.envvar:
        # The value was not typed: name the variable that it comes from.
        is_single = isinstance(param.envvar, str)
        variable = param.envvar if is_single else param.envvar[0]
        name = f"{variable} ({name})"
    remedy = help_text or _HELP.format(command)
    if type(error).__name__ == "MissingParameter":
        return f"{command} needs {name}", remedy
    from pydantic import ValidationError

    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return f"{name}: {error.message}", remedy
    from mtlrun.utils.yaml import reworded

    finding = cause.errors(include_url=False)[0]
    text = reworded(finding).rstrip(".")
    value, is_choice, choices = text.partition(" is not one of ")
    if is_choice:
        text = f"must be one of {choices}, not {value}"
    return f"{name} {text}", _explain_percentage(finding) or remedy


def _name(param: Any) -> str:
    """Return a parameter as it is typed: its longest option, or its name in the
    usage.
    """
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name).strip("[].").upper()


def _other_option(error: Any, command: str) -> str:
    """Return a remedy for an unknown option.

    It names the commands that have this option, or else the most similar options. A
    command of the same name in a group, as ``mtlrun data list`` for ``mtlrun list``, is
    named alone.
    """
    option = error.option_name
    commands = []
    commands_of_groups = []
    root = error.ctx.find_root()
    for name, command_of_root in getattr(root.command, "commands", {}).items():
        if any(option in param.opts for param in command_of_root.params):
            commands.append(f"mtlrun {name}")
        members = getattr(command_of_root, "commands", {})
        for member, member_command in members.items():
            if any(option in param.opts for param in member_command.params):
                commands_of_groups.append(f"mtlrun {name} {member}")
    with_option = commands + commands_of_groups
    same_name = f" {error.ctx.command.name}"
    with_same_name = [name for name in with_option if name.endswith(same_name)]
    with_option = with_same_name or with_option
    if with_option:
        verb = "has" if len(with_option) == 1 else "have"
        return f"{', '.join(with_option)} {verb} it."
    options = [name for param in error.ctx.command.params for name in param.opts]
    similar = suggest(option, options)
    if similar:
        return f"Did you mean {' or '.join(similar)}?"
    return _HELP.format(command)


def _explain_percentage(finding: Any) -> str:
    """Return how to write a percentage that was given for a number; empty for
    others.
    """
    text = str(finding.get("input", ""))
    if not str(finding["type"]).startswith("float") or not text.endswith("%"):
        return ""
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        return ""
    return f"Write it as a share: {share:g}"


app = build_app()
