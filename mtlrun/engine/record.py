"""The record of a job: what went in, what came out, with what, and how records lie on disk. Standard library only.

A record is one line, ``{"sha256": "<digest of the rest>", "record": {...}}``. It lies in ``<output>/cells/<key>.json``,
which all experiments of an output folder share. `mtlrun.engine.packed` has the file that holds all records of one run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import importlib
import importlib.metadata
import itertools
import json
import os
import platform
import re
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from mtlrun.engine.packed import PACKED, Packed
from mtlrun.engine.packed import unpack as unpack_columns
from mtlrun.utils.io import (
    canonical_json,
    checkout_dir,
    open_regular,
    read_file,
    read_text_file,
)
from mtlrun.utils.sizes import RECORD_BYTES, RECORD_TIMES, RECORDS, allow

#: Statuses of a job. Only the first two count as done; all others are tried again.
OK = "ok"
NOT_CONVERGED = "not_converged"
FAILED = "failed"
TIMEOUT = "timeout"
DIVERGED = "diverged"
DONE = (OK, NOT_CONVERGED)

#: Earlier ones: records whose keys were made of other things, such as digests of the code.
PROTOCOL = 3
CELLS = "cells"
#: Up to 0.2 the records of a run lay in this file as lines, and the test scores of those
#: that keep them in another one. Both are still read, and `compact_run` replaces them.
EARLIER_PACKED = "cells.jsonl.gz"
PREDICTIONS = "predictions.npz"
#: In the result of a record that keeps its test scores: the name of their file, and the digest of the array.
SCORES, SCORES_DIGEST = "predictions", "predictions_sha256"

#: Keys of jobs: never the name of a file elsewhere.
KEY = re.compile(r"[^./\\:\0][^/\\:\0]{0,199}")

_REMEDY = "No run has so many: take the file from where it was made."
_HEAD, _MIDDLE = '{"sha256":"', '","record":'


class JobKind(StrEnum):
    """What a job computes; the values stand in records.

    A fit trains a method on the training rows of a split and scores the test rows. A
    fold scores all candidates of a search on one fold inside the training rows. An
    analysis calls a function.
    """

    FIT = "fit"
    FOLD = "fold"
    ANALYSIS = "measure"


@dataclass(frozen=True)
class ResultKey:
    """Where a number stands in the table of an experiment, and the job that it comes from; several may share a job.

    Attributes
    ----------
    reading : str
        Name of a reading other than the main one, else "".
    dataset : str
        Label; in a sweep that of the data set with the value of the axis.
    value : object
        Of the axis of a sweep, else None.
    method : str
        Label.
    trial : int
        Number of the split or repeat, from 0.
    key : str
        Of the job.
    """

    reading: str
    dataset: str
    value: Any
    method: str
    trial: int
    key: str

    @property
    def name(self) -> str:
        """Name for people: ``enron/APG-RMTL/trial 0``; that of another reading than the main one ends with it."""
        name = f"{self.dataset}/{self.method}/trial {self.trial}"
        return f"{name} [{self.reading}]" if self.reading else name

    @classmethod
    def read(cls, entry: Any) -> ResultKey:
        """Return the place that an entry of ``run.json`` has written down.

        Raises
        ------
        ValueError
            If it has not.
        """
        if not isinstance(entry, dict):
            raise ValueError("a JSON object is expected")
        given: dict[str, Any] = {"reading": "", "value": None, "trial": 0, **entry}
        found: dict[str, Any] = {
            f.name: given.get(f.name) for f in dataclasses.fields(ResultKey)
        }
        place = cls(**found)
        for name in ("key", "dataset", "method", "reading"):
            if not isinstance(getattr(place, name), str):
                raise ValueError(f"{name} is no text")
        if type(place.trial) is not int:
            raise ValueError("trial is no integer")
        if not KEY.fullmatch(place.key):
            raise ValueError(f"{place.key!r} is no key of a cell")
        return place


@dataclass
class Record:
    """One job: what went in, what came out.

    Attributes
    ----------
    key : str
        sha256 of `inputs` and `versions`, see `mtlrun.engine.job.Job`.
    family : {"fit", "fold", "measure"}
    inputs : dict
        Everything that changes the number, beside the versions.
    versions : dict of str to int or str
        Of the method or measure, the reader of its data and the protocol, of packages that it names; digests of modules
        of the user's own.
    made_by : dict
        ``commit, dirty`` (in a checkout, else None), ``mtlrun`` (version) and ``package`` (digest of its sources).
    status : {"ok", "not_converged", "failed", "timeout", "diverged"}
    error : str or None
        At most 200 characters; the full text is in `log`.
    log : str or None
        Traceback or messages.
    params : dict
        Hyper-parameters that were used, chosen ones included.
    selection : dict
        Of a fit: the search that chose the parameters (`mtlrun.engine.job`). Of a fold: the score of every
        candidate.
    metrics : dict of str to float or None
        Averages over tasks; None stands for NaN.
    per_task : dict of str to list of float or None
    counts : dict of str to int
        ``n_tasks, n_train, n_test, one_class_train, undefined_<metric>`` ...
    seconds : dict
        ``fit`` (median), ``fit_all`` (list), ``predict``, ``search`` (all folds), ``total``, and the method's own.
    solver : dict
        ``n_iter, converged, gap, objective, message`` as far as known.
    environment : dict
        Threads, host facts and versions of packages, which are not part of the key.
    result : dict
        Of a measure: ``curves, matrices, rankings, lines, tables``; of a fit: ``tasks`` (names), and where the
        experiment keeps the test scores ``predictions`` (name of their file) and ``predictions_sha256`` (digest of the
        array).
    protocol : int
    """

    key: str
    family: str
    inputs: dict[str, Any]
    versions: dict[str, int | str] = field(default_factory=dict)
    made_by: dict[str, Any] = field(default_factory=dict)
    status: str = OK
    error: str | None = None
    log: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    selection: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    per_task: dict[str, list[float | None]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, Any] = field(default_factory=dict)
    solver: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    protocol: int = PROTOCOL

    @property
    def done(self) -> bool:
        """Whether the job need not be computed again."""
        return self.status in DONE

    def line(self) -> str:
        """Return the record as one line with the digest of its content; NaN becomes null."""
        text = self._text()
        return f"{_HEAD}{hashlib.sha256(text.encode()).hexdigest()}{_MIDDLE}{text}}}\n"

    def content(self) -> dict[str, Any]:
        """Return the fields as JSON holds them, keys sorted; NaN becomes null."""
        content: dict[str, Any] = json.loads(self._text())
        return content

    def _text(self) -> str:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return canonical_json(fields)

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Record:
        """Return the record with these fields; those of later versions are ignored.

        Raises
        ------
        ValueError
            If a field is missing.
        """
        names = {f.name for f in dataclasses.fields(cls)}
        try:
            return cls(**{k: v for k, v in content.items() if k in names})
        except TypeError as error:
            raise ValueError(f"not a record: {error}") from None

    @classmethod
    def from_line(cls, line: str) -> Record:
        """Read a record; fields of later versions are ignored.

        Raises
        ------
        ValueError
            If the line is not a record, or not what was written.
        """
        start = len(_HEAD) + 64
        text = line.rstrip("\n")[start + len(_MIDDLE) : -1]
        digest = line[len(_HEAD) : start]
        if not line.startswith(_HEAD) or line[start : start + len(_MIDDLE)] != _MIDDLE:
            raise ValueError("not a record")
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            raise ValueError("the content does not match its digest")
        try:
            return cls.from_content(json.loads(text))
        except (AttributeError, RecursionError) as error:
            raise ValueError(f"not a record: {error}") from None


class Records:
    """Reads the records of a run.

    Parameters
    ----------
    output : Path
        Folder of all runs, with the shared ``cells/``.
    folder : Path, optional
        Folder of the run, which may hold its records packed.
    """

    def __init__(self, output: Path, folder: Path | None = None) -> None:
        self.cells_folder = Path(output) / CELLS
        self.folder = None if folder is None else Path(folder)
        #: The file of scores that was read last.
        self._open: tuple[Any, Any] | None = None

    @classmethod
    def of_run(cls, folder: Path) -> Records:
        """Return those of ``<output>/<paper>/<artefact>/<profile>``."""
        parents = Path(folder).absolute().parents
        return cls(parents[min(2, len(parents) - 1)], folder)

    def path(self, key: str) -> Path:
        """Return the file of a job."""
        return self.cells_folder / f"{key}.json"

    def read(self, key: str) -> Record | None:
        """Return a record, None when there is none.

        Raises
        ------
        ValueError
            If its file is damaged; names it.
        """
        try:
            line = read_text_file(self.path(key))
        except FileNotFoundError:
            return self._read_packed(key)
        except (OSError, ValueError) as error:
            raise ValueError(f"{CELLS}/{key}.json is damaged: {error}") from None
        return _checked(line, key, f"{CELLS}/{key}.json")

    def load(self, key: str) -> Record | None:
        """Return a record, None when there is none or it is damaged."""
        try:
            return self.read(key)
        except ValueError:
            return None

    def has(self, key: str) -> bool:
        """Whether there is a record, damaged or not; those of a damaged pack are not known."""
        return self.path(key).is_file() or key in self.packed.records

    @cached_property
    def packed_choices(self) -> dict[str, dict[str, Any]]:
        """What the searches of the packed records found, by the key of the search."""
        records = (self.load(key) for key in self.packed.records)
        found = (
            record.selection for record in records if record is not None and record.done
        )
        return {
            selection["key"]: selection
            for selection in found
            if selection and selection.get("chosen") is not None
        }

    @property
    def packed(self) -> Packed:
        """What the folder of the run holds packed; nothing if that file is damaged."""
        return self._unpacked[0]

    @property
    def damage(self) -> str | None:
        """What is wrong with the packed file; its records are needed only where ``cells/`` has none."""
        return self._unpacked[1]

    @property
    def pack_name(self) -> str:
        """Name of the file in which the folder of the run holds its records."""
        return PACKED if self._has_pack else EARLIER_PACKED

    @cached_property
    def _has_pack(self) -> bool:
        if self.folder is None:
            return False
        is_earlier = (self.folder / EARLIER_PACKED).is_file()
        return (self.folder / PACKED).is_file() or not is_earlier

    @cached_property
    def _unpacked(self) -> tuple[Packed, str | None]:
        """Content of the packed file, and what is wrong with it."""
        if self.folder is None:
            return Packed(), None
        try:
            if self._has_pack:
                return unpack_columns(self.folder / PACKED), None
            return Packed(unpack(self.folder / EARLIER_PACKED)), None
        except ValueError as error:
            return Packed(), str(error)

    def scores(self, record: Record) -> Any | None:
        """Return the test scores of a record as they are stored, None where it keeps none.

        Returns
        -------
        ndarray of shape (n_test,) or (n_test, n_tasks), or None
            float64; float32 of records made before scores had digests.

        Raises
        ------
        ValueError
            If they are missing, damaged, or those of another record.
        """
        from mtlrun.utils.arrays import array_digest

        if SCORES not in record.result:
            return None
        why = "no file has them"
        for path, name in self.scores_files(record.key):
            try:
                found = self._array(path, name)
                if record.result.get(SCORES_DIGEST) in (None, array_digest(found)):
                    return found
                why = f"{path.parent.name}/{path.name} does not hold those of this cell"
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as error:
                why = str(error)
        raise ValueError(f"{CELLS}/{record.key}.npz is missing or damaged: {why}")

    def read_scores(self, record: Record) -> Any | None:
        """Return the test scores of a record in double precision, None where it keeps none or they are damaged."""
        try:
            found = self.scores(record)
        except ValueError:
            return None
        return None if found is None else found.astype(float)

    def _array(self, path: Path, name: str) -> Any:
        """Return an array of a file; the one that holds the scores of a whole run is opened once."""
        from mtlrun.utils.arrays import NpzArchive

        state = path.stat()
        stamp = (path, state.st_ino, state.st_mtime_ns, state.st_size)
        if self._open is None or self._open[0] != stamp:
            self._open = (stamp, NpzArchive(path, f"{path.parent.name}/{path.name}"))
        return self._open[1].array(name)

    def scores_files(self, key: str) -> list[tuple[Path, str]]:
        """Return the files that may hold the test scores of a job, each with the name of the array in it."""
        packed = [] if self.folder is None else [(self.folder / PREDICTIONS, key)]
        return [(self.cells_folder / f"{key}.npz", "scores"), *packed]

    def _read_packed(self, key: str) -> Record | None:
        if self.damage is not None:
            raise ValueError(self.damage)
        content = self.packed.records.get(key)
        if content is None:
            return None
        name = f"the cell {key[:16]}... in {self.pack_name}"
        if isinstance(content, str):
            return _checked(content, key, name)
        try:
            return Record.from_content(content)
        except ValueError as error:
            raise ValueError(f"{name} is damaged: {error}") from None


def _checked(line: str, key: str, name: str) -> Record:
    try:
        record = Record.from_line(line)
    except ValueError as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    if record.key != key:
        raise ValueError(f"{name} is damaged: it holds the cell {record.key[:16]}...")
    return record


def candidates(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of a grid, the last parameter varying fastest."""
    return [
        dict(zip(grid, values, strict=True))
        for values in itertools.product(*grid.values())
    ]


def unpack(path: Path) -> dict[str, str]:
    """Return the lines of ``cells.jsonl.gz`` by key, {} where there is no file. Versions up to 0.2 wrote it.

    Raises
    ------
    ValueError
        If it is no such file.
    """
    try:
        size = path.stat().st_size
        if not size:  # gzip takes it for a file without members
            raise EOFError("it is empty")
        most = max(RECORD_BYTES, RECORD_TIMES * size)
        with open_regular(path) as file, gzip.open(file, "rb") as stream:
            content = stream.read(most + 1)
        allow(path.name, len(content), most, f"bytes out of {size:,}", _REMEDY)
        allow(path.name, content.count(b"\n"), RECORDS, "records", _REMEDY)
        lines = content.decode().split("\n")  # splitlines would cut names with U+2028
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"{path.name} is damaged: {error}") from None
    return {
        key: text for key, _, text in (line.partition(" ") for line in lines if line)
    }


# ---------------------------------------------------------------------- what a number was computed with
# Names no host, user or absolute path.

#: Of a scheduler.
_ADDRESS = re.compile(r"([a-z]+://)[^\s,]+")
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl")


@lru_cache(maxsize=1)
def host_facts() -> dict[str, Any]:
    """Return facts about the running interpreter and machine, kept in every record."""
    for name in ("numpy", "scipy.linalg"):  # only loaded libraries are listed
        importlib.import_module(name)
    listed = importlib.import_module("threadpoolctl").threadpool_info()
    pools = [
        {k: pool.get(k) for k in ("user_api", "internal_api", "version")}
        for pool in listed
    ]
    return {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "blas": sorted(
            {
                f"{p['internal_api']} {p['version'] or ''}".strip()
                for p in pools
                if p["user_api"] == "blas"
            }
        ),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": _cores(),
        "ram_gb": _ram_gb(),
    }


def source_facts() -> dict[str, Any]:
    """Return the version of mtlrun and, in a checkout, the commit and whether files differ from it."""
    facts: dict[str, Any] = {
        "mtlrun": _version("mtlrun"),
        "commit": None,
        "dirty": None,
    }
    root = checkout_dir()
    if root is None or not (root / ".git").exists():
        return facts
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    return {
        **facts,
        "commit": commit,
        "dirty": None if changes is None else bool(changes),
    }


@lru_cache(maxsize=1)
def made_by() -> dict[str, Any]:
    """Return what made the numbers of this process: `source_facts`, and a digest of the sources of the package."""
    return {**source_facts(), "package": sources()}


@lru_cache(maxsize=1)
def sources() -> str:
    """Return a digest of all modules of the package, as they were when a process was first asked."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(
            f"{path.relative_to(root).as_posix()}\0".encode() + read_file(path)
        )
    return digest.hexdigest()[:16]


def commits_since(commit: str) -> int | None:
    """Return how many commits of this checkout are newer than one, None where that cannot be told."""
    root = checkout_dir()
    count = (
        None if root is None else _git(root, "rev-list", "--count", f"{commit}..HEAD")
    )
    return int(count) if count else None


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def command_line() -> list[str]:
    """Return the words of the command, without addresses and folders of the user: see `private_path`."""
    return (
        [Path(sys.argv[0]).name, *map(_without_folders, sys.argv[1:])]
        if sys.argv
        else []
    )


def private_path(path: str) -> str:
    """Return a path relative to the current folder; of one elsewhere a hash of its folder, and the name."""
    place = Path(path)
    if not place.is_absolute():
        return path
    with contextlib.suppress(ValueError, OSError):
        return place.relative_to(Path.cwd()).as_posix()
    return f"{hashlib.sha256(str(place.parent).encode(errors='surrogatepass')).hexdigest()[:8]}/{place.name}"


def _without_folders(word: str) -> str:
    """Return a word of a command without folders of the user, wherever in it they stand, and without hosts."""
    if Path(word).is_absolute():
        return private_path(word)
    parts = re.split(r"([=,]|^-[a-zA-Z](?=/))", _ADDRESS.sub(r"\1...", word))
    return "".join(
        part if part in ("=", ",", "") else private_path(part) for part in parts
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            words = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(
                words, capture_output=True, text=True, timeout=10, check=True
            ).stdout.strip()
    return platform.processor() or platform.machine()


def _cores() -> int | None:
    return (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )


def _ram_gb() -> float | None:
    try:
        return round(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1
        )
    except (AttributeError, ValueError, OSError):
        return None
