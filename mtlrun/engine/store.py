"""Finished jobs on disk: one file each, written whole or not at all, shared by all experiments of an output folder."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from mtlrun.engine.packed import PACKED, PLAN_FIELDS, is_search, name_candidates, pack
from mtlrun.engine.record import (
    EARLIER_PACKED,
    PREDICTIONS,
    SCORES,
    SCORES_DIGEST,
    TIMEOUT,
    JobKind,
    Record,
    Records,
)
from mtlrun.engine.stored import PROVENANCE
from mtlrun.errors import UserError
from mtlrun.utils.arrays import array_digest, npz
from mtlrun.utils.io import (
    MAX_FOLDER_DEPTH,
    jsonable,
    read_file,
    read_text_file,
    write_atomic,
)
from mtlrun.utils.processes import is_locked

#: Bytes written as a trial: enough to detect a full disk.
TRIAL = 1 << 14
#: Bytes of the name of a lock, without its ending.
MAX_LOCK_BYTES = 200
#: Bytes of the path of a folder of results: systems allow 4096, and files below it have
#: names of their own.
MAX_FOLDER_BYTES = 3000
#: Seconds of computing that need not survive a loss of power.
MOMENT = 1.0


class Store(Records):
    """The jobs of an output folder, and those that the folder of a run holds packed.

    Parameters
    ----------
    output : Path
        Jobs lie in ``<output>/cells``, which is made when the first one is written.
    folder : Path
        Folder of the run.
    """

    def __init__(self, output: Path, folder: Path) -> None:
        super().__init__(output, folder)
        self.run_folder = Path(folder)
        #: Jobs whose scores were looked at, with their digest and the identities of the files.
        self._sound: dict[str, tuple[Any, ...]] = {}

    @cached_property
    def lock(self) -> Path:
        """The file that a process locks while it computes this run."""
        parts = Path(os.path.realpath(self.run_folder)).parts[-3:]
        name = "-".join(parts)
        # Three valid names of folders may be too long for the name of one file.
        if len(os.fsencode(name)) > MAX_LOCK_BYTES:
            digest = hashlib.sha256(os.fsencode(name)).hexdigest()
            name = f"{name[: MAX_LOCK_BYTES // 8]}-{digest[:32]}"
        return self.cells_folder / f"{name}.lock"

    def shared(self) -> bool:
        """Whether another run is computed in this output folder now."""
        return any(
            is_locked(path)
            for path in self.cells_folder.glob("*.lock")
            if path != self.lock
        )

    def read(self, key: str) -> Record | None:
        """Return a record, None when there is none.

        Raises
        ------
        ValueError
            If its file, or that of its test scores, is damaged: the job is then computed again.
        """
        record = super().read(key)
        if record is not None and SCORES in record.result:
            state = (
                record.result.get(SCORES_DIGEST),
                *(_stamp(path) for path, _ in self.scores_files(key)),
            )
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

    def save_scores(self, record: Record, scores: Any) -> None:
        """Write the test scores of a job, as the array `scores`, and note their file and digest in its record.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        record.result[SCORES] = self.copy_scores(
            record.key, scores, durable=_durable(record)
        )
        record.result[SCORES_DIGEST] = array_digest(scores)

    def copy_scores(self, key: str, scores: Any, *, durable: bool = True) -> str:
        """Write test scores of which the record knows already, and return the name of the file."""
        path = self.cells_folder / f"{key}.npz"
        write_atomic(path, npz({"scores": scores}), durable=durable)
        return path.name

    def pack(
        self,
        keys: Iterable[str],
        *,
        paired: Iterable[dict[str, Any]] = (),
        plan: Mapping[str, Any] | None = None,
        with_curves: bool = True,
        task_digits: int | None = None,
    ) -> None:
        """Write the records of a run into its folder, as ``cells.json.xz``.

        Parameters
        ----------
        keys : iterable of str
            Of the records, as far as there are any.
        paired : iterable of dict
            Paired tests on test scores that the records keep: the file has no scores.
        plan : mapping, optional
            Content of ``run.json``, of which the file then keeps the plan. Default: the
            plan stays where it is.
        with_curves : bool, default True
        task_digits : int, optional
            See `mtlrun.engine.packed.compact`.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        loaded = [self.load(key) for key in dict.fromkeys(keys)]
        records = [record for record in loaded if record is not None]
        if not records:
            return
        name_candidates(r.selection for r in records if is_search(r.selection))
        kept = self.packed.plan
        if plan is not None:
            kept = {name: plan[name] for name in PLAN_FIELDS if name in plan}
        content = pack(
            (record.content() for record in records),
            plan=kept,
            paired=paired,
            with_curves=with_curves,
            task_digits=task_digits,
        )
        write_new(self.run_folder / PACKED, content)
        for name in (EARLIER_PACKED, PREDICTIONS):
            (self.run_folder / name).unlink(missing_ok=True)

    def add_provenance(self, entries: Iterable[dict[str, Any]]) -> None:
        """Add invocations to the provenance of the run (locked); one with the same `started` and pid is replaced.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        path = self.run_folder / PROVENANCE
        runs = {
            (str(run.get("started")), run.get("pid")): run
            for run in [*_runs(path), *entries]
        }
        content = {
            "schema": 1,
            "runs": [runs[place] for place in sorted(runs, key=lambda place: place[0])],
        }
        write_atomic(
            path, json.dumps(jsonable(content), indent=1, sort_keys=True) + "\n"
        )


def _durable(record: Record) -> bool:
    return record.seconds.get("total", math.inf) > MOMENT


def settled(record: Record, seconds: float | None) -> bool:
    """Whether a job need not be computed again.

    That is so when it is done, and for a measurement that was stopped at a limit no lower than today's: its result is
    that it takes longer.
    """
    if record.done or seconds is None:
        return record.done
    stopped = record.family == JobKind.ANALYSIS and record.status == TIMEOUT
    return stopped and record.seconds.get("limit", 0) >= seconds


def write_new(path: Path, content: bytes) -> None:
    """Write a file unless a regular file with the same content is there."""
    try:
        is_same = read_file(path) == content
    except OSError:
        is_same = False
    if not is_same:
        write_atomic(path, content)


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file: another one after every writing, whatever the clock says."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _runs(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a provenance file; a damaged file is put aside, as `provenance.json.damaged`."""
    try:
        return [dict(run) for run in json.loads(read_text_file(path))["runs"]]
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
        If a file, or a link that leads nowhere, is in its way, or if its path leaves no
        room for the names of files in it; names it.
    """
    is_too_long = len(os.fsencode(folder)) > MAX_FOLDER_BYTES
    if is_too_long or len(folder.parts) > MAX_FOLDER_DEPTH:
        raise UserError(
            f"{folder!s:.200}...: too long or too deep for a folder of results",
            "Choose another --output.",
        )
    place = _nearest(folder)
    for path in (folder, *folder.parents):
        if path.is_symlink() and not path.exists():
            raise UserError(
                f"{path} is a link that leads nowhere, or to itself",
                "Choose another --output.",
            )
    if not place.is_dir():
        raise UserError(
            f"{place} is a file, but results need a folder", "Choose another --output."
        )
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
    return next(
        (place for place in (folder, *folder.parents) if place.exists()), Path(".")
    )
