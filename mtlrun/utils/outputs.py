"""Files that the user named: regular ones appear whole or not at all, all others are written as they are.

Files inside the folders of results are written by `mtlrun.utils.io.write_atomic`, which replaces links: a folder may
come from others, and no link in it may lead out of it. A file that was named on the command line is the user's will.
Standard library only.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from mtlrun.errors import UserError
from mtlrun.utils.io import write_atomic
from mtlrun.utils.processes import tidy_folders

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,6})")
_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
#: What mtlrun reads of the folders of runs, comparisons and models: never written at the user's request.
RESULTS = frozenset(
    {"run.json", "provenance.json", "compare.json", "model.json", "metrics.json", "config.json", "unfinished.json"}
    | {"cells.jsonl.gz", "model.skops", "coefficients.npz"}
)


def write_output(path: Path, data: str | bytes, *, inputs: Iterable[Path] = ()) -> None:
    """Write a file that the user named.

    A regular file is replaced, whole or not at all, and keeps its permissions; a link stays and its target is written;
    devices, named pipes and descriptors (``/dev/fd/3``) are written to.

    Parameters
    ----------
    path : Path
    data : str or bytes
    inputs : iterable of Path
        Files that the command reads; none of them is overwritten.

    Raises
    ------
    UserError
        If the file is one of the inputs, or one from which mtlrun reads results.
    OSError
        If it cannot be written.
    """
    refuse_inputs(path, inputs)
    content = data.encode() if isinstance(data, str) else data
    number = _descriptor(path)
    if number is not None:  # where the shell has put it, after what is there already
        sys.stdout.flush()
        with os.fdopen(os.dup(number), "wb") as stream:
            stream.write(content)
        return
    if os.path.exists(path) and not os.path.isfile(path):
        with path.open("wb") as stream:
            stream.write(content)
        return
    place = Path(os.path.realpath(path))
    write_atomic(place, content, mode=stat.S_IMODE(place.stat().st_mode) if place.exists() else None)
    tidy_folders(place.parent)


def refuse_inputs(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over a file that is read, under whatever name; see `write_output`."""
    remedy = "Choose another file."
    for one in inputs:
        if _same(path, one):
            raise UserError(f"{path} is read by this command and would be overwritten", remedy)
    place = Path(os.path.realpath(path))  # under its own name: a link may be called otherwise
    if (place.name in RESULTS or place.parent.name == "cells") and place.is_file():
        raise UserError(f"{path} holds results that mtlrun reads, and would be overwritten", remedy)


def check_ending(path: Path, known: Sequence[str], remedy: str) -> None:
    """Refuse a file whose ending says another format than the one that is written; devices and ``-`` have none.

    Parameters
    ----------
    path : Path
    known : sequence of str
        Endings of the format, with their dots.
    remedy : str

    Raises
    ------
    UserError
    """
    other = os.path.exists(path) and not os.path.isfile(path)
    if other or str(path) == "-" or _descriptor(path) is not None:
        return
    if path.suffix.lower() not in ("", *known):
        raise UserError(f"{path}: the format of {path.suffix} is not written here, but {' or '.join(known)}", remedy)


def _descriptor(path: Path) -> int | None:
    found = _DESCRIPTOR.fullmatch(str(path))
    return int(found[1]) if found else _STREAMS.get(str(path))


def _same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return False
