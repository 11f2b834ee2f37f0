"""Finished cells on disk: one file each, written whole or not at all, shared by all experiments of an output folder."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import tempfile
from collections.abc import Callable, Iterable
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import IO, Any

from mtlrun.errors import UserError
from mtlrun.record import MEASURE, PACKED, PREDICTIONS, SCORES, SCORES_DIGEST, TIMEOUT, Record, Records, pack
from mtlrun.report.stored import PROVENANCE
from mtlrun.utils.arrays import array_digest, npz
from mtlrun.utils.io import TEMPORARY, jsonable, write_atomic
from mtlrun.utils.processes import NO_LOCKS, exclusive_lock, file_system, tidy

#: Bytes written as a trial: enough to detect a full disk.
TRIAL = 1 << 14
#: Identity of a file: another one after every writing, whatever the clock says.
Stamp = tuple[int, int]


#: Seconds of computing that need not survive a loss of power.
MOMENT = 1.0


class Store(Records):
    """The cells of an output folder, and those that the folder of a run holds packed.

    Parameters
    ----------
    output : Path
        Cells lie in ``<output>/cells``, which is made when the first one is written.
    folder : Path
        Folder of the run.
    """

    def __init__(self, output: Path, folder: Path) -> None:
        super().__init__(output, folder)
        self.run_folder = Path(folder)
        #: Cells whose scores were looked at, with their digest and the identities of the files.
        self._sound: dict[str, tuple[Any, ...]] = {}

    @cached_property
    def locks(self) -> Locks:
        """Locks of the cells."""
        self.cells.mkdir(parents=True, exist_ok=True)
        return Locks(self.cells)

    def read(self, key: str) -> Record | None:
        """Return a record, None when there is none.

        Raises
        ------
        ValueError
            If its file, or that of its test scores, is damaged: the cell is then computed again.
        """
        record = super().read(key)
        if record is not None and SCORES in record.result:
            state = (record.result.get(SCORES_DIGEST), *(_stamp(path) for path, _ in self.scores_files(key)))
            if self._sound.get(key) != state:
                self.scores(record)
                self._sound[key] = state
        return record

    def save(self, record: Record) -> None:
        """Write a record.

        What took a moment is not waited for until the disk has it: after a loss of power it is found damaged, and
        computed again.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        write_atomic(self.path(record.key), record.line(), durable=_durable(record))

    def stamp(self, key: str) -> Stamp | None:
        """Return the identity of the file of a cell, None where there is none."""
        return _stamp(self.path(key))

    def stamps(self) -> dict[str, Stamp | None]:
        """Return the identities of the files of all cells."""
        return {path.stem: _stamp(path) for path in self.cells.glob("*.json")}

    def save_scores(self, record: Record, scores: Any) -> None:
        """Write the test scores of a cell, as the array `scores`, and note their file and digest in its record.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        record.result[SCORES] = self.copy_scores(record.key, scores, durable=_durable(record))
        record.result[SCORES_DIGEST] = array_digest(scores)

    def copy_scores(self, key: str, scores: Any, *, durable: bool = True) -> str:
        """Write test scores of which the record knows already, and return the name of the file."""
        path = self.cells / f"{key}.npz"
        write_atomic(path, npz({"scores": scores}), durable=durable)
        return path.name

    def tidy(self, keep: Iterable[str]) -> None:
        """Remove what processes left that were killed: temporary files and locks.

        Parameters
        ----------
        keep : iterable of str
            Keys whose locks stay, because they will be taken over.
        """
        with contextlib.suppress(OSError):  # a finished run may lie where nothing can be written
            for folder in (self.cells, self.run_folder):
                tidy(folder.glob(f".*{TEMPORARY}"))
            for name in {path.stem for path in self.cells.glob("*.lock")} - set(keep):
                if self.locks.acquire(name)[0]:
                    self.locks.release(name)

    def pack(self, keys: Iterable[str]) -> None:
        """Write the records of a run into its folder, as ``cells.jsonl.gz``, and the test scores that they keep.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        lines, kept = {}, {}
        for key in keys:
            record = self.load(key)
            if record is not None:
                lines[key] = record.line()
                if SCORES in record.result:
                    kept[key] = self.scores(record)
        if lines:
            write_new(self.run_folder / PACKED, pack(lines.items()))
        if kept:
            write_new(self.run_folder / PREDICTIONS, npz(kept))

    def add_provenance(self, entries: Iterable[dict[str, Any]]) -> None:
        """Add invocations to the provenance of the run; one with the same `started` and pid is replaced.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        path = self.run_folder / PROVENANCE
        with self.locks.mutex():  # another process may add its entry at the same time
            runs = {(str(run.get("started")), run.get("pid")): run for run in [*_runs(path), *entries]}
            content = {"schema": 1, "runs": [runs[place] for place in sorted(runs, key=lambda place: place[0])]}
            write_atomic(path, json.dumps(jsonable(content), indent=1, sort_keys=True) + "\n")


def _durable(record: Record) -> bool:
    return record.seconds.get("total", math.inf) > MOMENT


def settled(record: Record, seconds: float | None) -> bool:
    """Whether a cell need not be computed again.

    That is so when it is done, and for a measurement that was stopped at a limit no lower than today's: its result is
    that it takes longer.
    """
    if record.done or seconds is None:
        return record.done
    stopped = record.family == MEASURE and record.status == TIMEOUT
    return stopped and record.seconds.get("limit", 0) >= seconds


def write_new(path: Path, content: bytes) -> None:
    """Write a file where it differs from what is there."""
    if not path.exists() or path.read_bytes() != content:
        write_atomic(path, content)


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _runs(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a provenance file; a damaged file is put aside, as `provenance.json.damaged`."""
    try:
        return [dict(run) for run in json.loads(path.read_text(encoding="utf-8"))["runs"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError):
        path.replace(path.with_name(f"{path.name}.damaged"))
        return []


def refuse_file(folder: Path) -> Path:
    """Return a folder that is there or can be made.

    Raises
    ------
    UserError
        If a file is in its way; names it.
    """
    place = _nearest(folder)
    if not place.is_dir():
        raise UserError(f"{place} is a file, but results need a folder", "Choose another --output.")
    return folder


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be created or written, before hours of work are spent; tries it.

    Raises
    ------
    UserError
        Names the file or folder in the way.
    """
    place = _nearest(refuse_file(folder))
    try:
        with tempfile.TemporaryFile(dir=place) as trial:
            trial.write(bytes(TRIAL))
            trial.flush()
            os.fsync(trial.fileno())
    except OSError as error:
        text = f"cannot write results into {place}: {error.strerror or error}"
        raise UserError(text, "Choose another --output.") from None


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest of its parents that exists."""
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("."))


# ---------------------------------------------------------------------- locks
# A cell is locked by a file that names the process, with `flock`: the kernel lets go of it when the process ends,
# however it ends. Where the system or the file system has no such locks, nothing is locked and it is said
# (`Locks.unguarded`).

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
        if owner:  # ext4 writes a file that was emptied to the disk when it is closed, which takes milliseconds
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
        """Hold the folder for the moment of a decision, as `exclusive_lock` does."""
        return exclusive_lock(self.folder / ".mutex")

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
