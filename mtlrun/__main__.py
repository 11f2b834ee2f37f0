"""``python -m mtlrun``, and the entry point of ``mtlrun``."""

# `signal` needs `enum`, whose import takes longer than everything before it, and an
# interrupt meanwhile would print a traceback. Its functions come from this module,
# which is part of the interpreter (CPython 3.11 to 3.14).
import _signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

#: Handlers of the signals that `_leave` handles for the time being, by signal number.
_replaced: "dict[int, Any]" = {}


def _leave(number: int, frame: "FrameType | None") -> None:
    """End the process at once: it has not started yet, or everything is done."""
    os._exit(130)


def _leave_on_signals() -> None:
    """Let signals end the process without a word; ignored ones (`nohup`) stay
    ignored.
    """
    defaults = {
        "SIGINT": _signal.default_int_handler,
        "SIGTERM": _signal.SIG_DFL,
        "SIGHUP": _signal.SIG_DFL,
    }
    for name, default in defaults.items():
        number = getattr(_signal, name, None)  # Windows has no SIGHUP
        if number is not None and _signal.getsignal(number) == default:
            _replaced[number] = _signal.signal(number, _leave)


def _restore_signals() -> None:
    """Give the signals back the handlers that they had before `_leave_on_signals`."""
    while _replaced:
        _signal.signal(*_replaced.popitem())


def _is_program() -> bool:
    """Whether this process was started as ``mtlrun``, and is not one of its workers.

    Workers import the main module again, and have imported `multiprocessing` before.
    """
    name = os.path.basename(sys.argv[0]).partition(".")[0]
    started = __name__ == "__main__" or name.removesuffix("-script") == "mtlrun"
    return started and "multiprocessing" not in sys.modules


if _is_program():
    _leave_on_signals()


def _working_folder() -> str | None:
    """Return the current folder, None if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


# Python puts the current folder in front of all that is installed; only what is named
# there is to be imported from it. mtlrun itself may lie there, in a checkout that is
# not installed.
_PACKAGE_PARENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if (
    not sys.flags.safe_path
    and _working_folder() != _PACKAGE_PARENT
    and sys.path[0] == _working_folder()
):
    del sys.path[0]


def _open_standard_streams() -> None:
    """Connect standard streams that the caller closed (``<&-``, ``>&-``) to nothing.

    Otherwise the next files to be opened would get their numbers, and messages of
    libraries would be written into them.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, which is this one.
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
            os.set_inheritable(number, True)
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def main() -> None:
    """Run the program.

    A signal that arrives before the command begins, or after it has ended, ends the
    process with 130 and without a word.
    """
    import atexit
    import gc

    _leave_on_signals()
    _open_standard_streams()
    # The first function to be registered runs last. Python then takes itself apart,
    # which takes a moment: the command is over, and its exit code stays what it is.
    atexit.register(_ignore_interrupts)
    # Modules and records are many objects that stay; to look through all of them again
    # and again took a third of the time of reading a run.
    gc.set_threshold(50_000, 20, 50)
    from mtlrun.cli.app import main as run

    try:
        run(_restore_signals)
    finally:
        _leave_on_signals()


def _ignore_interrupts() -> None:
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)


if __name__ == "__main__":
    main()
