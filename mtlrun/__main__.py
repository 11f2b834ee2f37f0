"""``python -m mtlrun``, and the entry point of ``mtlrun``."""

import gc
import os
import signal
import sys
from types import FrameType

import mtlrun

# Python puts the current folder in front of all that is installed; only what is named there is to be imported from it.
# mtlrun itself may lie there, in a checkout that is not installed.
if (
    not sys.flags.safe_path
    and os.path.dirname(mtlrun.__path__[0]) != os.getcwd() == sys.path[0]
):
    del sys.path[0]


def main() -> None:
    """Run the program; a signal that ends it while it is still being imported ends it with 130 and without a word."""
    # Modules and records are many objects that stay; to look through all of them again and again took a third of the
    # time of reading a run.
    gc.set_threshold(10_000, 20, 50)
    ours = {}
    for name, default in (
        ("SIGINT", signal.default_int_handler),
        ("SIGTERM", signal.SIG_DFL),
        ("SIGHUP", signal.SIG_DFL),
    ):
        number = getattr(signal, name, None)  # Windows has no HUP
        if (
            number is not None and signal.getsignal(number) == default
        ):  # ignored ones (`nohup`) stay ignored
            ours[number] = signal.signal(number, _leave)
    from mtlrun.cli.app import main as run

    for number, before in ours.items():
        signal.signal(number, before)
    run()


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(130)  # nothing has been begun


if __name__ == "__main__":
    main()
