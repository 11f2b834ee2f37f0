"""One process per cell: lock files with the owner's pid, host and start time.

A lock whose owner is gone from this host is taken over; one from another host is believed, since nothing can be known
about it from here.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows: creation of the file is still exclusive, only take-over is unguarded there
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Owner:
    """A process: `started` tells it from a later one with the same pid."""

    pid: int
    host: str
    started: str

    @classmethod
    def me(cls) -> Owner:
        """Return this process."""
        return cls(os.getpid(), socket.gethostname(), _start_of(os.getpid()) or "")

    def gone(self) -> bool:
        """Whether the process certainly does not run any more."""
        if self.host != socket.gethostname():
            return False
        started = _start_of(self.pid)
        return started is None or (bool(self.started) and started != self.started)

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
        with self._mutex():
            found = self._read(path) if path.exists() else None
            alive = not found.gone() if found is not None else path.exists() and not _older_than(path, 60)
            if alive:
                return False, found
            path.unlink(missing_ok=True)
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            with os.fdopen(handle, "w") as stream:
                json.dump(asdict(Owner.me()), stream)
        self.held.add(name)
        return True, found

    def owner(self, name: str) -> Owner | None:
        """Return the living owner of a lock, None when it is free."""
        found = self._read(self._path(name))
        return None if found is None or found.gone() else found

    def others(self) -> list[Owner]:
        """Return the living owners of locks that are not ours."""
        names = [path.stem for path in self.folder.glob("*.lock") if path.stem not in self.held]
        return [owner for name in names if (owner := self.owner(name)) is not None]

    def release(self, name: str) -> None:
        """Give up a lock of ours."""
        if name in self.held:
            self.held.discard(name)
            self._path(name).unlink(missing_ok=True)

    def release_all(self) -> None:
        """Give up all locks of ours."""
        for name in list(self.held):
            self.release(name)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.lock"

    @staticmethod
    def _read(path: Path) -> Owner | None:
        try:
            return Owner(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    @contextlib.contextmanager
    def _mutex(self) -> Iterator[None]:
        """Hold the folder for the moment of a decision; the kernel lets go when a process dies."""
        if fcntl is None:
            yield
            return
        with (self.folder / ".mutex").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield


def _older_than(path: Path, seconds: float) -> bool:
    """Whether an unreadable lock is old: its writer died between creating and filling it."""
    try:
        return time.time() - path.stat().st_mtime > seconds
    except FileNotFoundError:
        return True


def _start_of(pid: int) -> str | None:
    """Return when a process started, in any fixed unit; None when there is no such process."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else fields[19]
    listed = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip() or None
