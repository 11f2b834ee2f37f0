"""Finished cells on disk: their schema, canonical JSON and atomic files. Standard library only."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mtlrun.core.errors import UserError

#: Since 2 a file carries a digest of its content; one of schema 1 is believed without.
SCHEMA = 2

#: Statuses of a cell. Only the first two count as done; all others are tried again.
OK = "ok"
NOT_CONVERGED = "not_converged"
FAILED = "failed"
TIMEOUT = "timeout"
DIVERGED = "diverged"
DONE = (OK, NOT_CONVERGED)

DIGEST = "digest"
#: End of the names of files that are being written.
TEMPORARY = ".tmp"


@dataclass
class CellRecord:
    """One cell: what went in, what came out.

    Attributes
    ----------
    key : str
        sha256 of `inputs` in canonical JSON.
    kind : {"selection", "evaluation", "measurement"}
    experiment, profile, dataset, method : str
        Names for people; only `inputs` decides the key.
    split : dict
        ``{"kind", "train", "trial", "seed"}`` or what the split kind needs.
    inputs : dict
        Everything that changes the number.
    status : str
        One of ok, not_converged, failed, timeout, diverged.
    error : str or None
        At most 200 characters; the full text is in `log`.
    log : str or None
        Traceback or messages.
    params : dict
        Hyper-parameters that were used (chosen ones included).
    selection : dict
        Facts of the search: scores per candidate, edge hits, key of the selection cell.
    metrics : dict of str to float or None
        Averages over tasks; None stands for NaN.
    per_task : dict of str to list of float or None
    counts : dict of str to int
        ``n_tasks, n_train, n_test, one_class_train, undefined_<metric>`` ...
    seconds : dict
        ``fit`` (median), ``fit_all`` (list), ``predict``, and what the method reports.
    solver : dict
        ``n_iter, converged, gap, objective, message`` as far as known.
    environment : dict
        Threads, host facts and versions that do not enter the key.
    result : dict
        What a measurement returns beside numbers: ``curves, matrices, lines, tables``; of an evaluation ``tasks``
        (names) and ``predictions`` (file of the test scores) where the experiment asks for them.
    """

    key: str
    kind: str
    experiment: str
    profile: str
    dataset: str
    method: str
    split: dict[str, Any]
    inputs: dict[str, Any]
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
    schema: int = SCHEMA

    @property
    def done(self) -> bool:
        """Whether the cell need not be computed again."""
        return self.status in DONE

    def to_json(self) -> str:
        """Return the record as indented JSON with sorted keys and a digest of its content; NaN becomes null."""
        content = jsonable(dataclasses.asdict(replace(self, schema=SCHEMA)))
        return json.dumps(sealed(content), indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> CellRecord:
        """Read a record; fields of later versions are ignored.

        Raises
        ------
        ValueError
            If the text is no JSON object, lacks a field, or is not what was written.
        """
        raw = json.loads(text)
        if not isinstance(raw, dict):
            raise ValueError("a cell record must be a JSON object")
        if raw.get("schema") != 1 or DIGEST in raw:
            raw = unsealed(raw)
        known = {f.name for f in dataclasses.fields(cls)}
        try:
            return cls(**{k: v for k, v in raw.items() if k in known})
        except TypeError as error:
            raise ValueError(f"not a cell record: {error}") from None


def jsonable(value: Any) -> Any:
    """Turn numpy scalars and arrays, tuples, sets and NaN into what JSON holds (NaN and infinities become None)."""
    if isinstance(value, dict):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    if isinstance(value, set | frozenset):
        return sorted(jsonable(v) for v in value)
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no blanks, the same on every machine."""
    return json.dumps(jsonable(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def sha256_json(value: Any) -> str:
    """Return the sha256 of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a digest of it under `DIGEST`: a file that is damaged later is then known as such."""
    return {**content, DIGEST: sha256_json(content)}


def unsealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return what `sealed` was given.

    Raises
    ------
    ValueError
        If there is no digest, or not that of the content.
    """
    rest = {name: value for name, value in content.items() if name != DIGEST}
    if content.get(DIGEST) != sha256_json(rest):
        raise ValueError("the content does not match its digest")
    return rest


def write_atomic(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Write a whole file or nothing: a temporary file in the same folder, flushed, then renamed.

    A process that is killed in between leaves ``.<host>-<pid>-<random>.tmp`` behind (`writer_of`).

    Parameters
    ----------
    path : Path
    data : str or bytes
    durable : bool, default True
        Wait until the disk has it: a loss of power then leaves the old file or the new one.

    Raises
    ------
    OSError
        If the folder cannot be written or the disk is full; no temporary file stays behind.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, made = tempfile.mkstemp(**temporary(path.parent))
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.chmod(made, 0o644)
        os.replace(made, path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def writing(place: Path | str, remedy: str) -> Iterator[None]:
    """Say what the disk refuses while results are written; errors of files that are read are told by their readers.

    Parameters
    ----------
    place : Path or str
        The file or folder that is written.
    remedy : str

    Raises
    ------
    UserError
        Names the place and the reason, in place of an OSError.
    """
    try:
        yield
    except BrokenPipeError:  # somebody who listened has gone: no disk
        raise
    except OSError as error:
        raise unwritable(place, error, remedy) from error


def unwritable(place: Path | str, error: OSError, remedy: str) -> UserError:
    """Return what `writing` raises."""
    return UserError(f"cannot write {place}: {error.strerror or error}", remedy)


def temporary(folder: Path) -> dict[str, Any]:
    """Return the arguments with which `tempfile` makes a name in a folder that tells host and pid (`writer_of`)."""
    return {"dir": folder, "prefix": f".{socket.gethostname()}-{os.getpid()}-", "suffix": TEMPORARY}


def writer_of(path: Path) -> tuple[str, int] | None:
    """Return host and pid of the process that made a temporary file or folder, None for any other one."""
    host, _, rest = path.name[1:].rpartition("-")[0].rpartition("-")
    return (host, int(rest)) if host and rest.isdecimal() and path.name[0] == "." else None
