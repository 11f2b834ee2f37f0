"""One process per cell, and one timed cell at a time on a machine.

A cell is locked by a file that names the process, with `flock`: the kernel lets go of it when the process ends, however
it ends. Where the system or the file system has no such locks, nothing is locked and it is said (`Locks.unguarded`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import IO

from mtlrun.utils.processes import NO_LOCKS, alone, file_system

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".lock"
#: Start of the name of the lock that a process holds while it may compute cells, so that nothing is deleted meanwhile.
PRESENCE = "run-"


class Locks:
    """The locks of an output folder.

    Parameters
    ----------
    folder : Path
        Where ``<name>.lock`` files lie; it must exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: dict[str, FileIO] = {}

    def acquire(self, name: str) -> tuple[bool, str]:
        """Try to take a lock, without waiting.

        Returns
        -------
        taken : bool
        owner : str
            Not taken: the process that holds it. Taken: the one that ended with it, "" if there was none.
        """
        path = self._path(name)
        while True:
            stream = path.open("a+b", buffering=0)
            taken = _take(stream)
            stream.seek(0)
            owner = stream.read().decode()
            if not taken:
                stream.close()
                return False, owner
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                    break
            stream.close()  # it was given up and removed meanwhile
        self._held[name] = stream
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        return True, owner

    def acquire_presence(self) -> None:
        """Say that this process works here, also while it holds no cell: others then know that seconds are shared."""
        with self.mutex():
            self.acquire(f"{PRESENCE}{socket.gethostname()}-{os.getpid()}-{id(self)}")

    def owner(self, name: str) -> str | None:
        """Return the process that holds a lock, None when it is free."""
        with contextlib.suppress(FileNotFoundError), self._path(name).open("rb") as stream:
            if not _take(stream, shared=True):
                return stream.read().decode()
        return None

    def others(self) -> bool:
        """Whether another process works here."""
        names = [name for name in self.names() - self._held.keys() if name.startswith(PRESENCE)]
        return any(self.owner(name) is not None for name in names)

    def names(self) -> set[str]:
        """Return the names of all locks, held or left by processes that were killed."""
        return {path.stem for path in self.folder.glob(f"*{SUFFIX}")}

    def release(self, name: str) -> None:
        """Release a lock of ours."""
        if name in self._held:
            with self._held.pop(name):
                self._path(name).unlink(missing_ok=True)

    def release_all(self) -> None:
        """Release all locks of ours."""
        with contextlib.ExitStack() as stack:  # all of them, whatever becomes of one
            for name in self._held:
                stack.callback(self.release, name)

    def mutex(self) -> contextlib.AbstractContextManager[str | None]:
        """Hold the folder for the moment of a decision, as `alone` does."""
        return alone(self.folder / ".mutex")

    def unguarded(self) -> str | None:
        """Return the file system of the folder and why nothing is locked there; None where locks work."""
        with self.mutex() as refused:
            return refused and f"{file_system(self.folder)}: {refused}"

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{SUFFIX}"


def _take(stream: IO[bytes], *, shared: bool = False) -> bool:
    """Lock an open file if nobody else has it; also true where there are no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(stream, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True


class TimingLock:
    """The right to measure seconds: runs in different folders would disturb each other.

    Parameters
    ----------
    tell : callable
        Called with messages, for example that another process is waited for.
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
        """Wait until no other process of this user measures. Without such locks, say so once and go on."""
        if self.held or self._refused:
            return
        try:
            stream = _open()
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.tell("another timed run is in progress; waiting so that timings stay valid")
                fcntl.flock(stream, fcntl.LOCK_EX)  # Ctrl-C ends the waiting
        except OSError as error:
            self._refused = True
            self.tell(f"cannot tell whether other timed runs are in progress on this machine: {error}")
            return
        self._stream = stream

    def release(self) -> None:
        """Let other processes measure."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _open() -> IO[bytes]:
    """Open the file that is locked, which stays empty; a link planted there is not followed."""
    if fcntl is None:
        raise OSError("this system has no fcntl")
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(), f"mtlrun-{os.getuid()}")
    folder.mkdir(exist_ok=True, mode=0o700)
    return os.fdopen(os.open(folder / "timing.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "rb")
