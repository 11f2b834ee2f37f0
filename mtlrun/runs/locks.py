"""One process per cell, and one timed cell at a time on a machine.

A cell is locked by a file with the owner's pid, host and start time.

A lock whose owner is gone from this host is taken over; one from another host is believed, since nothing can be known
about it from here. Decisions are made under `flock`; on a file system without it a lock is still made by one process
only, but two that take over the same dead lock at once may both get it (`Locks.unguarded`).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from mtlrun.utils.io import write_atomic
from mtlrun.utils.processes import alone, file_system, running, start_of

try:
    import fcntl
except ImportError:  # not on Windows: nothing is held there, and it is said
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".lock"
#: Start of the name of the lock that a process holds while it may compute cells, so that nothing is deleted meanwhile.
PRESENCE = "run-"


@dataclass(frozen=True)
class Owner:
    """A process; `started` distinguishes it from a later one with the same pid."""

    pid: int
    host: str
    started: str

    @classmethod
    def me(cls) -> Owner:
        """Return this process."""
        return cls(os.getpid(), socket.gethostname(), start_of(os.getpid()) or "")

    def gone(self) -> bool:
        """Whether the process is certainly not running any more."""
        return not running(self.host, self.pid, self.started)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Locks:
    """The locks of one run folder.

    Parameters
    ----------
    folder : Path
        Where ``<name>.lock`` files lie; it must exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: set[str] = set()

    def acquire(self, name: str) -> tuple[bool, Owner | None]:
        """Try to take a lock, without waiting.

        Returns
        -------
        taken : bool
        owner : Owner or None
            Not taken: who holds it. Taken: whose dead lock was taken over, None when there was none.
        """
        path = self._path(name)
        with self.mutex() as refused:
            found = self._read(path) if path.exists() else None
            alive = not found.gone() if found is not None else path.exists() and not _older_than(path, 60)
            if alive:
                return False, found
            path.unlink(missing_ok=True)
            try:
                self._write(path, guarded=refused is None)
            except FileExistsError:
                return False, self._read(path)
        self.held.add(name)
        return True, found

    def acquire_presence(self) -> None:
        """Say that this process works here, also while it holds no cell: `mtlrun clean` then deletes nothing."""
        name = f"{PRESENCE}{socket.gethostname()}-{os.getpid()}"
        taken, owner = self.acquire(name)
        if not taken and owner == Owner.me():  # an earlier run of this process could not remove it
            self.held.add(name)

    def owner(self, name: str) -> Owner | None:
        """Return the living owner of a lock, None when it is free."""
        found = self._read(self._path(name))
        return None if found is None or found.gone() else found

    def others(self) -> list[Owner]:
        """Return the living owners of cells that are not ours."""
        cells = [name for name in self.names() - self.held if not name.startswith(PRESENCE)]
        return [owner for name in cells if (owner := self.owner(name)) is not None]

    def names(self) -> set[str]:
        """Return the names of all locks, whoever holds them."""
        return {path.stem for path in self.folder.glob(f"*{SUFFIX}")}

    def drop_dead(self, name: str) -> bool:
        """Remove a lock whose owner is gone; return whether it was."""
        path = self._path(name)
        with self.mutex():
            found = self._read(path)
            if found is None or not found.gone():
                return False
            path.unlink(missing_ok=True)
            return True

    def release(self, name: str) -> None:
        """Release a lock of ours."""
        if name in self.held:
            self.held.discard(name)
            self._path(name).unlink(missing_ok=True)

    def release_all(self) -> None:
        """Release all locks of ours."""
        for name in list(self.held):
            self.release(name)

    def mutex(self) -> contextlib.AbstractContextManager[str | None]:
        """Hold the folder for the moment of a decision, as `alone` does."""
        return alone(self.folder / ".mutex")

    def unguarded(self) -> str | None:
        """Return the file system of the folder and why it cannot be held there; None where it can."""
        with self.mutex() as refused:
            return refused and f"{file_system(self.folder)}: {refused}"

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{SUFFIX}"

    @staticmethod
    def _write(path: Path, *, guarded: bool) -> None:
        text = json.dumps(asdict(Owner.me()))
        if guarded:  # nobody is replaced; a lock is whole or not there
            write_atomic(path, text, durable=False)
        else:
            with path.open("x") as stream:
                stream.write(text)

    @staticmethod
    def _read(path: Path) -> Owner | None:
        try:
            return Owner(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return None


def _older_than(path: Path, seconds: float) -> bool:
    """Whether an unreadable lock can be ignored: older than that, or from the future because the clock was set back."""
    try:
        return abs(time.time() - path.stat().st_mtime) > seconds
    except FileNotFoundError:
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
                fcntl.flock(stream, fcntl.LOCK_EX)  # the kernel lets go when a process dies; Ctrl-C ends the waiting
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
