"""Files that the user named: regular ones appear whole or not at all, all others are
written as they are.

Files inside the folders of results are written by `mtlrun.utils.io.write_atomic`, which
replaces links: a folder may come from others, and no link in it may lead out of it. A
file that was named on the command line is the user's will.

`publish` replaces several files of a folder: whenever a process is killed, all are old
or all are new. The new ones are written into a temporary folder inside the folder.
Renaming it to ``.publish`` decides; then its files take their places, which the next
`publish` or `finish` completes if the process is killed in between. Other files in the
folder are not touched, and the folder itself stays the same one. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mtlrun.errors import UserError
from mtlrun.utils.io import (
    make_folder,
    open_regular,
    read_text_file,
    temporary,
    write_atomic,
)
from mtlrun.utils.processes import exclusive_lock, tidy_folders

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,6})")
_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
#: Files that mtlrun reads in folders of runs, comparisons and models: never written at
#: the user's request.
RESULTS = frozenset(
    {
        "run.json",
        "provenance.json",
        "compare.json",
        "model.json",
        "metrics.json",
        "config.json",
        "unfinished.json",
    }
    | {"cells.json.xz", "model.skops", "coefficients.npz"}
)


def write_output(path: Path, data: str | bytes, *, inputs: Iterable[Path] = ()) -> None:
    """Write a file that the user named.

    A regular file is replaced, whole or not at all, and keeps its permissions; a link
    stays and its target is written; devices, named pipes and descriptors
    (``/dev/fd/3``) are written to.

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
    if isinstance(data, str):
        content = data.encode("utf-8", "backslashreplace")
    else:
        content = data
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
    target = Path(os.path.realpath(path))
    if target.is_symlink():  # only links in a loop are left of `realpath`
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    write_atomic(
        target,
        content,
        mode=stat.S_IMODE(target.stat().st_mode) if target.exists() else None,
    )
    tidy_folders(target.parent)


def refuse_inputs(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over a file that is read, under whatever name; see
    `write_output`.
    """
    remedy = "Choose another file."
    for input_path in inputs:
        if _same(path, input_path):
            raise UserError(
                f"{path} is read by this command and would be overwritten", remedy
            )
    target = Path(
        os.path.realpath(path)
    )  # under its own name: a link may be called otherwise
    if (target.name in RESULTS or target.parent.name == "cells") and target.is_file():
        raise UserError(
            f"{path} holds results that mtlrun reads, and would be overwritten", remedy
        )


def check_ending(path: Path, suffixes: Sequence[str], remedy: str) -> None:
    """Refuse a file whose suffix belongs to another format than the written one;
    devices and ``-`` have none.

    Parameters
    ----------
    path : Path
    suffixes : sequence of str
        Endings of the format, with their dots.
    remedy : str

    Raises
    ------
    UserError
    """
    other = os.path.exists(path) and not os.path.isfile(path)
    if other or str(path) == "-" or _descriptor(path) is not None:
        return
    if path.suffix.lower() not in ("", *suffixes):
        raise UserError(
            f"{path}: the format of {path.suffix} is not written here, but {' or '.join(suffixes)}",
            remedy,
        )


def _descriptor(path: Path) -> int | None:
    match = _DESCRIPTOR.fullmatch(str(path))
    if match:
        return int(match[1])
    return _STREAMS.get(str(path))


def _same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return False


# ---------------------------------------------------------------- several files at once

READY = ".publish"
FILES = "files"
OBSOLETE = "obsolete"


@contextlib.contextmanager
def publish(folder: Path, obsolete: Iterable[str] = ()) -> Iterator[Path]:
    """Give a new folder to write into, and move its files into `folder` at the end of
    the ``with`` block, all at once.

    Nothing is changed if the block raises. If several processes publish into one folder
    at the same time, all files come from the process that ends last.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    obsolete : iterable of str
        Files, by their paths inside the folder, that go when the new ones come, unless
        they are among these.

    Raises
    ------
    OSError
        If the files cannot be written, or a folder or a link is in the place of one of
        them.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with publish(folder) as new:
    ...     _ = (new / "a.txt").write_text("1")
    ...     sorted(path.name for path in folder.glob("*.txt"))
    []
    >>> sorted(path.name for path in folder.iterdir())
    ['a.txt']
    """
    make_folder(folder)
    staging = Path(tempfile.mkdtemp(**temporary(folder)))
    try:
        files = staging / FILES
        files.mkdir()
        yield files
        gone = [name for name in obsolete if not (files / name).exists()]
        (staging / OBSOLETE).write_text("\n".join(gone), encoding="utf-8")
        _flush(staging)
        with exclusive_lock(folder):
            _move(folder)
            targets = [target for _, target in _moves(files, folder)]
            for target in targets:
                target.parent.mkdir(parents=True, exist_ok=True)
                if (
                    target.is_dir()
                ):  # found out now: from the renaming on there is no way back
                    raise IsADirectoryError(
                        errno.EISDIR, os.strerror(errno.EISDIR), str(target)
                    )
            staging.rename(folder / READY)
            _flush_folder(folder)
            _move(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    tidy_folders(folder, *(target.parent for target in targets))


def finish(folder: Path) -> None:
    """Complete what a process that was killed had decided to publish; call it before
    the files are read.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    if (folder / READY).is_dir():
        with exclusive_lock(folder):
            _move(folder)


def _move(folder: Path) -> None:
    """Move the files of a decided publication, if there is one, to their places."""
    ready = folder / READY
    # A folder may come from elsewhere: links in it do not lead out of it.
    if not ready.is_dir() or ready.is_symlink() or (ready / FILES).is_symlink():
        return
    moves = list(_moves(ready / FILES, folder))
    if (ready / OBSOLETE).is_file():
        for name in filter(None, read_text_file(ready / OBSOLETE).split("\n")):
            path = _inside(folder, name)
            if path.is_file() or path.is_symlink():
                path.unlink()
    for source, target in moves:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(source, target)
    for directory in {folder, *(target.parent for _, target in moves)}:
        _flush_folder(directory)
    shutil.rmtree(ready)


def _moves(files: Path, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield every file below `files` with its place in the folder."""
    for source in sorted(files.rglob("*")):
        if source.is_symlink() or not source.is_dir():
            yield source, _inside(folder, str(source.relative_to(files)))


def _inside(folder: Path, name: str) -> Path:
    """Return a path in a folder, which no link leads out of."""
    path = folder / name
    between = [parent for parent in path.parents if folder in parent.parents]
    if (
        folder not in path.parents
        or ".." in Path(name).parts
        or any(parent.is_symlink() for parent in between)
    ):
        raise OSError(errno.ELOOP, "a link leads out of the folder", str(path))
    return path


def _flush(folder: Path) -> None:
    """Wait until the disk has a folder and all that is in it."""
    for path in folder.rglob("*"):
        if path.is_file():
            with open_regular(path, "rb+") as stream:
                os.fsync(stream.fileno())
    for directory in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        _flush_folder(directory)


def _flush_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
