"""Store the records of jobs on disk.

Each record is a file, which is written completely or not at all. All experiments of an
output folder share them. The records of a finished run are also packed into one file in
its folder. Damage is detected when a record is read; its job is then computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from mtlrun.engine.packed import (
    PACKED,
    PLAN_FIELDS,
    Packed,
    pack,
    unpack,
)
from mtlrun.engine.record import (
    CELLS,
    SCORES,
    SCORES_DIGEST,
    JobKind,
    Record,
    SearchResult,
    name_candidates,
)
from mtlrun.engine.stored import PROVENANCE
from mtlrun.errors import UserError
from mtlrun.parallel.status import TIMEOUT
from mtlrun.utils.arrays import NpzArchive, array_digest, npz
from mtlrun.utils.io import (
    MAX_FOLDER_DEPTH,
    jsonable,
    make_folder,
    read_file,
    read_text_file,
    refuse_links,
    write_atomic,
)
from mtlrun.utils.processes import is_locked

#: Number of bytes written to test a folder: enough to detect a full disk.
TEST_FILE_BYTES = 1 << 14
#: Bytes of the name of a lock, without its ending.
MAX_LOCK_BYTES = 200
#: Bytes of the path of a folder of results. Systems allow 4096, which must include the
#: names of the files in it.
MAX_FOLDER_BYTES = 3000
#: Results of jobs that took at most this long may be lost in a power failure. Waiting
#: for the disk would take longer than computing them again.
MAX_LOST_SECONDS = 1.0


class Store:
    """Records of a run, in the output folder.

    Parameters
    ----------
    output : Path
        Folder of all runs. Records are files in ``<output>/cells``, which is created
        with the first one.
    folder : Path, optional
        Folder of the run, which may contain packed records. Needed to write.
    checks_scores : bool, default False
        Whether a record with damaged test scores counts as damaged, so that its job is
        computed again.
    """

    def __init__(
        self, output: Path, folder: Path | None = None, *, checks_scores: bool = False
    ) -> None:
        self.cells_folder = Path(output) / CELLS
        self.folder = None if folder is None else Path(folder)
        self.checks_scores = checks_scores
        #: Key of a job -> state of its files when its test scores were last checked.
        self._checked_scores: dict[str, tuple[Any, Any]] = {}

    @classmethod
    def of_run(cls, folder: Path) -> Store:
        """Return the records of a run folder, ``<output>/<paper>/<item>/<profile>``."""
        parents = Path(folder).absolute().parents
        output = parents[min(2, len(parents) - 1)]
        return cls(output, folder)

    @property
    def run_folder(self) -> Path:
        """Folder of the run, which a store that is written to has."""
        assert self.folder is not None
        return self.folder

    def path(self, key: str) -> Path:
        """Return the file of the record with a key."""
        return self.cells_folder / f"{key}.json"

    def scores_path(self, key: str) -> Path:
        """Return the file of the test scores of the record with a key."""
        return self.cells_folder / f"{key}.npz"

    def read(self, key: str) -> Record | None:
        """Return the record with a key; None if there is none.

        Raises
        ------
        ValueError
            If its file is damaged, or, with `checks_scores`, the file of its test
            scores. The message names the file.
        """
        record = self._read(key)
        if record is None or not self.checks_scores or SCORES not in record.result:
            return record
        # Files are replaced, not overwritten: the inode changes even if the clock does
        # not advance.
        file = None
        with contextlib.suppress(FileNotFoundError):
            status = self.scores_path(key).stat()
            file = (status.st_ino, status.st_mtime_ns)
        state = (record.result.get(SCORES_DIGEST), file)
        # Reading the scores takes time, so unchanged files are checked only once.
        if self._checked_scores.get(key) != state:
            self.scores(record)
            self._checked_scores[key] = state
        return record

    def _read(self, key: str) -> Record | None:
        """Return a record from its file, or else from the packed records of the run."""
        name = f"{CELLS}/{key}.json"
        try:
            record = Record.from_line(read_text_file(self.path(key)))
        except FileNotFoundError:
            record = None
        except (OSError, ValueError) as error:
            raise ValueError(f"{name} is damaged: {error}") from None
        if record is not None:
            if record.key != key:
                result = f"{record.key[:16]}..."
                raise ValueError(f"{name} is damaged: it holds the result {result}")
            return record
        if self.packed.damage is not None:
            raise ValueError(self.packed.damage)
        content = self.packed.records.get(key)
        if content is None:
            return None
        try:
            return Record.from_content(content)
        except ValueError as error:
            name = f"the result {key[:16]}... in {PACKED}"
            raise ValueError(f"{name} is damaged: {error}") from None

    def load(self, key: str) -> Record | None:
        """Return the record with a key; None if there is none or it is damaged."""
        try:
            return self.read(key)
        except ValueError:
            return None

    def has(self, key: str) -> bool:
        """Whether there is a record with a key, even if it is damaged.

        A damaged file of packed records counts as empty.
        """
        return self.path(key).is_file() or key in self.packed.records

    @cached_property
    def packed(self) -> Packed:
        """Packed records of the run; empty if their file is missing or damaged.

        They are needed only if the folder ``cells`` does not have them.
        """
        if self.folder is None or not os.path.exists(self.folder / PACKED):
            return Packed()
        try:
            return unpack(self.folder / PACKED)
        except ValueError as error:
            return Packed(damage=str(error))

    @cached_property
    def packed_choices(self) -> dict[str, SearchResult]:
        """Results of the searches of packed records, by the key of the search."""
        choices = {}
        for key in self.packed.records:
            record = self.load(key)
            if record is None or not record.done:
                continue
            selection = record.selection
            if selection.chosen is not None and selection.key is not None:
                choices[selection.key] = selection
        return choices

    def scores(self, record: Record) -> Any | None:
        """Return the test scores of a record; None if it does not store them.

        Returns
        -------
        ndarray of shape (n_test,) or (n_test, n_tasks), or None

        Raises
        ------
        ValueError
            If they are missing, damaged, or belong to another record.
        """
        if SCORES not in record.result:
            return None
        path = self.scores_path(record.key)
        file_name = f"{CELLS}/{path.name}"
        try:
            with NpzArchive(path, file_name) as stored:
                scores = stored.array("scores")
        except (FileNotFoundError, NotADirectoryError):
            cause = "no file has them"
        except (OSError, ValueError) as error:
            cause = str(error)
        else:
            if record.result.get(SCORES_DIGEST) == array_digest(scores):
                return scores
            cause = f"{file_name} contains the scores of another result"
        raise ValueError(f"{file_name} is missing or damaged: {cause}")

    def read_scores(self, record: Record) -> Any | None:
        """Return the test scores of a record in double precision.

        None if the record does not store them, or they are damaged.
        """
        try:
            scores = self.scores(record)
        except ValueError:
            return None
        return None if scores is None else scores.astype(float)

    @cached_property
    def lock(self) -> Path:
        """File that a process locks while it computes this run."""
        parts = Path(os.path.realpath(self.run_folder)).parts[-3:]
        name = "-".join(parts)
        # The names of three folders may be too long for the name of one file.
        if len(os.fsencode(name)) > MAX_LOCK_BYTES:
            digest = hashlib.sha256(os.fsencode(name)).hexdigest()
            name = f"{name[: MAX_LOCK_BYTES // 8]}-{digest[:32]}"
        return self.cells_folder / f"{name}.lock"

    def open(self) -> None:
        """Make the folder of the records, before anything is written.

        Raises
        ------
        OSError
            If it cannot be made.
        UserError
            If a folder of the run is a link, see `mtlrun.utils.io.refuse_links`.
        """
        output = self.cells_folder.parent
        refuse_links(output, self.run_folder)
        make_folder(self.cells_folder, output)

    def shared(self) -> bool:
        """Whether another process computes a run in this output folder at present."""
        other_locks = set(self.cells_folder.glob("*.lock")) - {self.lock}
        return any(map(is_locked, other_locks))

    def save(self, record: Record) -> None:
        """Write a record.

        Records of short jobs do not wait until they are safely on the disk. If a power
        failure damages them, this is detected, and the job is computed again.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        content = record.line()
        write_atomic(self.path(record.key), content, durable=_must_last(record))

    def save_scores(self, record: Record, scores: Any) -> None:
        """Write the test scores of a job, and add their file and digest to its record.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        file_name = self.copy_scores(record.key, scores, durable=_must_last(record))
        record.result[SCORES] = file_name
        record.result[SCORES_DIGEST] = array_digest(scores)

    def copy_scores(self, key: str, scores: Any, *, durable: bool = True) -> str:
        """Write the test scores of a job, and leave its record as it is.

        Parameters
        ----------
        key : str
            Key of the record.
        scores : ndarray
        durable : bool, default True
            Wait until the file is safely on the disk.

        Returns
        -------
        str
            Name of the file.
        """
        path = self.scores_path(key)
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
        into: Path | None = None,
    ) -> None:
        """Write the records of a run into ``cells.json.xz``.

        Parameters
        ----------
        keys : iterable of str
            Keys without a record are ignored.
        paired : iterable of dict
            Results of paired tests on test scores, which the file does not contain.
        plan : mapping, optional
            Content of ``run.json``, whose plan moves to the file. Default: keep the
            plan that the file has.
        with_curves : bool, default True
            Keep the curves of searches, see `mtlrun.engine.packed.compact`.
        task_digits : int, optional
            Significant digits of the scores of single tasks; default: all.
        into : Path, optional
            Folder of the file; default: the folder of the run.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        records = []
        searches = []
        for key in dict.fromkeys(keys):
            record = self.load(key)
            if record is None:
                continue
            records.append(record)
            if record.selection.is_search:
                searches.append(record.selection)
        if not records:
            return
        name_candidates(searches)
        packed_plan = self.packed.plan
        if plan is not None:
            packed_plan = {name: plan[name] for name in PLAN_FIELDS if name in plan}
        content = pack(
            records,
            plan=packed_plan,
            paired=paired,
            with_curves=with_curves,
            task_digits=task_digits,
        )
        write_new((into or self.run_folder) / PACKED, content)

    def add_provenance(self, entries: Iterable[dict[str, Any]]) -> None:
        """Add invocations to the provenance of the run, which must be locked.

        An entry with the same start time and process id is replaced.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        path = self.run_folder / PROVENANCE
        earlier = []
        try:
            with contextlib.suppress(FileNotFoundError):
                stored = json.loads(read_text_file(path))
                earlier = [dict(run) for run in stored["runs"]]
        except (ValueError, KeyError, TypeError):
            # A damaged file is kept under another name, and counts as empty.
            path.replace(path.with_name(f"{path.name}.damaged"))
        # By start time and process id.
        runs = {}
        for run in [*earlier, *entries]:
            runs[str(run.get("started")), run.get("pid")] = run
        in_order = [runs[invocation] for invocation in sorted(runs, key=itemgetter(0))]
        content = jsonable({"schema": 1, "runs": in_order})
        write_atomic(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


def _must_last(record: Record) -> bool:
    """Whether a record has to survive a power failure."""
    total_seconds = record.seconds.total
    return total_seconds is None or total_seconds > MAX_LOST_SECONDS


def is_settled(record: Record, limit: float | None) -> bool:
    """Whether a job need not be computed again.

    This holds for jobs that are done. It also holds for an analysis that was stopped at
    a time limit, unless the present limit is higher: its result is that it takes
    longer.

    Parameters
    ----------
    record : Record
    limit : float or None
        Present time limit in seconds; None: no limit.
    """
    if record.done or limit is None:
        return record.done
    was_stopped = record.family == JobKind.ANALYSIS and record.status == TIMEOUT
    return was_stopped and (record.seconds.limit or 0) >= limit


def write_new(path: Path, content: bytes) -> None:
    """Write a file, unless a regular file with the same content exists."""
    try:
        is_same = read_file(path) == content
    except OSError:
        is_same = False
    if not is_same:
        write_atomic(path, content)


def refuse_file(folder: Path) -> Path:
    """Return a folder that exists or can be created.

    Raises
    ------
    UserError
        If a file or a broken link is in its way, or if its path leaves no room for the
        names of files in it. The message names the obstacle.
    """
    is_too_long = len(os.fsencode(folder)) > MAX_FOLDER_BYTES
    if is_too_long or len(folder.parts) > MAX_FOLDER_DEPTH:
        raise UserError(
            f"{folder!s:.200}...: too long or too deep for a folder of results",
            "Choose another --output.",
        )
    existing = _nearest_existing(folder)
    for path in (folder, *folder.parents):
        if path.is_symlink() and not path.exists():
            raise UserError(
                f"{path} is a link that leads nowhere, or to itself",
                "Choose another --output.",
            )
    if not existing.is_dir():
        raise UserError(
            f"{existing} is a file, but results need a folder",
            "Choose another --output.",
        )
    return folder


def check_folder(folder: Path, root: Path | None = None) -> None:
    """Check that a folder can be created and written, before hours of work are spent.

    Writes a temporary file.

    Parameters
    ----------
    folder : Path
    root : Path, optional
        Folder that the user named, see `mtlrun.utils.io.refuse_links`. Default:
        `folder`.

    Raises
    ------
    UserError
        If it cannot be written, or is a link inside `root`; the message names the file
        or folder in the way.
    """
    refuse_links(root or folder, folder)
    existing = _nearest_existing(refuse_file(folder))
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(bytes(TEST_FILE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        text = f"cannot write results into {existing}: {error.strerror or error}"
        raise UserError(text, "Choose another --output.") from None


def _nearest_existing(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    for path in (folder, *folder.parents):
        if path.exists():
            return path
    return Path(".")
