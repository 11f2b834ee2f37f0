"""The command ``mtlrun``: its commands, and what happens when one of them fails."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mtlrun.cli.console import complain
from mtlrun.cli.options import debugging, reset_debugging
from mtlrun.errors import MtlrunError, UserError

#: Panels of ``mtlrun --help`` and the modules of their commands. A module holds a function of its own name (a command)
#: or a Typer called `app` (a group).
COMMANDS = {
    "Experiments": ("reproduce", "status", "report", "plot", "show", "validate", "list", "clean"),
    "Your own data": ("compare", "init", "train", "predict"),
    "Data sets and machine": ("data", "env"),
}
#: Commands whose names Python has taken.
MODULES = {"list": "list_"}
EPILOG = "Exit codes: 0 ok, 1 a cell failed (or --check did), 2 usage, config or data error, 130 interrupted."


class Guarded(TyperGroup):
    """The group of all commands; turns what they raise into one message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; user errors end with 2, an interrupt with 130, anything unexpected with 1."""
        reset_debugging()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(130) from None
        except MtlrunError as error:
            if debugging():
                raise
            complain(error.message if isinstance(error, UserError) else str(error), getattr(error, "remedy", None))
            raise typer.Exit(error.exit_code) from None
        except Exception as error:
            # Typer's own exceptions (usage, exit, abort) are its business, a closed pipe is nobody's mistake.
            if debugging() or isinstance(error, typer.Abort | BrokenPipeError) or hasattr(error, "exit_code"):
                raise
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                complain(f"cannot be written: {error.strerror}", "Make room, or name another place for the output.")
                raise typer.Exit(2) from None
            complain(
                f"{type(error).__name__}: {error}", "This is unexpected; run with --debug to see where it happened."
            )
            raise typer.Exit(1) from None


def main() -> None:
    """Entry point of ``mtlrun`` and ``python -m mtlrun``."""
    # A shell that closed them (`>&-`) wants to hear nothing.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    _let_signals_interrupt()
    build_app()(prog_name="mtlrun")


def _let_signals_interrupt() -> None:
    """Let TERM and HUP end a command as Ctrl-C does; what is ignored (`nohup`) stays ignored."""
    terminals = [stream.fileno() for stream in (sys.stdout, sys.stderr) if stream.isatty()]

    def interrupt(number: int, frame: object) -> None:
        if number != signal.SIGTERM:  # the terminal is gone, and printing to it would fail
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for terminal in terminals:
                os.dup2(nowhere, terminal)
        raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no HUP
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, interrupt)


def build_app() -> typer.Typer:
    """Return the application with all commands mounted."""
    app = typer.Typer(
        cls=Guarded,
        name="mtlrun",
        help="Reproduce published multi-task learning tables, and train multi-task models on your own data.",
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_root)
    for panel, names in COMMANDS.items():
        for name in names:
            _mount(app, name, panel)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from mtlrun import __version__

        typer.echo(f"mtlrun {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Take the options that stand before the command."""


def _mount(app: typer.Typer, name: str, panel: str) -> None:
    module = importlib.import_module(f"mtlrun.cli.{MODULES.get(name, name)}")
    group = getattr(module, "app", None)
    if isinstance(group, typer.Typer):
        app.add_typer(group, name=name, rich_help_panel=panel)
    else:
        app.command(name, rich_help_panel=panel)(getattr(module, MODULES.get(name, name)))


app = build_app()
