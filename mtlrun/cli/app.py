"""The program ``mtlrun``: its commands, and what happens when one of them fails."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from typing import Annotated, Any

import typer

from mtlrun.cli.console import complain
from mtlrun.cli.options import Command, Group, option
from mtlrun.cli.usage import usage_error
from mtlrun.errors import MtlrunError, UserError
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
MODULES = {"list": "list_", "show": "look", "status": "look", "validate": "look", "plot": "report"}
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
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(130) from None
        except MtlrunError as error:
            if ctx.meta.get("debug"):
                raise
            complain(error.message if isinstance(error, UserError) else str(error), getattr(error, "remedy", None))
            raise typer.Exit(error.exit_code) from None
        except Exception as error:
            if (wrong := usage_error(error)) is not None:
                complain(*wrong)
                raise typer.Exit(2) from None
            # Typer handles its own exceptions (usage, exit, abort); a closed pipe is no error.
            if ctx.meta.get("debug") or isinstance(error, typer.Abort | BrokenPipeError) or hasattr(error, "exit_code"):
                raise
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                complain(f"cannot write: {error.strerror}", "Free some space, or choose another place for the output.")
                raise typer.Exit(2) from None
            if isinstance(error, MemoryError):
                complain("there is not enough memory for this", "Take part of the rows, or a machine with more memory.")
                raise typer.Exit(2) from None
            if isinstance(error, OSError) and error.filename is not None and error.strerror:
                # A name of more than 255 bytes, a loop of links, a folder without permission: whatever is looked at.
                complain(f"{error.filename!s:.200}: {error.strerror}", "Check the path and its permissions.")
                raise typer.Exit(2) from None
            complain(f"{type(error).__name__}: {error}", "This is a bug; run with --debug to see where it happened.")
            raise typer.Exit(1) from None


def main() -> None:
    """Entry point of ``mtlrun`` and ``python -m mtlrun``."""
    # Both are None where the shell has closed them (`>&-`).
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    os.environ.update(pathless())  # of workers, whatever starts them
    _let_signals_interrupt()
    build_app()(prog_name="mtlrun")


def _let_signals_interrupt() -> None:
    """Let TERM and HUP end a command as Ctrl-C does; ignored signals (`nohup`) stay ignored."""
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
        option(None, None, "Print the version and exit.", "--version", callback=_print_version, is_eager=True),
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
        paragraphs = [" ".join(part.split()) for part in (command.__doc__ or "").split("\n\n")]
        about = "\n\n".join(paragraphs)
        app.command(name, cls=Command, help=about, rich_help_panel=panel, epilog=f"Example: {example}")(command)


app = build_app()
