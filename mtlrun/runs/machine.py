"""One timed cell at a time on this machine: runs in different folders would disturb each other's seconds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # not on Windows: nothing is held there, and it is said
    fcntl = None  # type: ignore[assignment]


class TimingLock:
    """The right to take seconds, of one process of this user at a time.

    Parameters
    ----------
    tell : callable
        Takes the messages: that another process is waited for, that there is no lock.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self._stream: IO[bytes] | None = None
        self._refused = False

    @property
    def held(self) -> bool:
        """Whether it is ours."""
        return self._stream is not None

    def acquire(self) -> None:
        """Wait until nobody else takes seconds. Where the system has no such lock, say so once and go on."""
        if self.held or self._refused:
            return
        try:
            stream = _open()
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.tell("waiting: another process on this machine takes seconds, and both would be wrong")
                fcntl.flock(stream, fcntl.LOCK_EX)  # the kernel lets go when a process dies; Ctrl-C ends the waiting
        except OSError as error:
            self._refused = True
            self.tell(f"timed runs in other folders of this machine are not seen: {error}")
            return
        self._stream = stream

    def release(self) -> None:
        """Let others take theirs."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _open() -> IO[bytes]:
    """Open the file that is locked; it stays empty. A link that somebody laid there is not followed."""
    if fcntl is None:
        raise OSError("this system has no fcntl")
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(), f"mtlrun-{os.getuid()}")
    folder.mkdir(exist_ok=True, mode=0o700)
    return os.fdopen(os.open(folder / "timing.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "rb")
