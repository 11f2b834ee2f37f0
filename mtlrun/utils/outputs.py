"""Files that the user named: regular ones appear whole or not at all, all others are
written as they are.

Files inside the folders of results are written by `mtlrun.utils.io.write_atomic`, which
replaces links: a folder may come from others, and no link in it may lead out of it. A
file that was named on the command line is the user's will.

`publish` replaces several files of a folder. The new ones are written into a temporary
folder inside the folder. The file ``.publish`` marks the folder as incomplete while they
are moved to their places. If the process is killed in between, the mark stays, readers
refuse the folder (`is_incomplete`), and the next `publish` replaces all files. Nobody
completes what another process has left: folders come from others, and what lies in them
must not decide which files are replaced or deleted. Other files in the folder are not
touched, and the folder itself stays the same one. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mtlrun.errors import UserError
from mtlrun.utils.io import make_folder, open_regular, refuse_links, write_atomic
from mtlrun.utils.processes import exclusive_lock
from mtlrun.utils.temporary import temporary_folder, tidy_folders

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
        is_same = False
        with contextlib.suppress(OSError, ValueError):
            is_same = path.samefile(input_path)
        if is_same:
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


# ---------------------------------------------------------------- several files at once

#: Name of the mark of a folder whose files are being replaced.
INCOMPLETE = ".publish"


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
        If the files cannot be written, or a folder is in the place of one of them.
    UserError
        If a link inside `folder` stands for a folder that is written to.

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
    with temporary_folder(folder) as staging:
        yield staging
        moves: dict[Path, Path] = {}
        for source in sorted(staging.rglob("*")):
            if not source.is_dir():
                moves[source] = folder / source.relative_to(staging)
        targets = set(moves.values())
        outdated = {folder / name for name in obsolete} - targets
        # The disk has the new files before the first of them is moved.
        staged_folders = [staging]
        for path in staging.rglob("*"):
            if path.is_dir():
                staged_folders.append(path)
            elif path.is_file():
                with open_regular(path, "rb+") as stream:
                    os.fsync(stream.fileno())
        for directory in staged_folders:
            _flush_folder(directory)
        with exclusive_lock(folder):
            # All that can be in the way is refused before the first file is moved.
            for path in outdated:
                refuse_links(folder, path.parent)
            for target in targets:
                make_folder(target.parent, folder)
                if target.is_dir():
                    raise IsADirectoryError(
                        errno.EISDIR, os.strerror(errno.EISDIR), str(target)
                    )
            _mark(folder / INCOMPLETE)
            _flush_folder(folder)
            for path in outdated:
                if path.is_file() or path.is_symlink():
                    path.unlink()
            for source, target in moves.items():
                os.replace(source, target)
            for directory in {folder, *(target.parent for target in targets)}:
                _flush_folder(directory)
            mark = folder / INCOMPLETE
            if mark.is_dir():
                shutil.rmtree(mark)
            else:
                mark.unlink()
    tidy_folders(folder, *(target.parent for target in targets))


def is_incomplete(folder: Path) -> bool:
    """Return whether a process was killed while it replaced the files of a folder.

    A process that is replacing them is waited for. A mark is ignored if neither the
    owner of the folder nor this user has made it: in a folder that all may write to,
    anyone could.
    """
    mark = folder / INCOMPLETE
    try:
        owner = mark.lstat().st_uid
        owners = {folder.stat().st_uid}
    except OSError:
        return False
    if os.name == "posix":
        owners.add(os.getuid())
    if owner not in owners:
        return False
    with contextlib.suppress(OSError), exclusive_lock(folder):
        pass
    return os.path.lexists(mark)


def _mark(mark: Path) -> None:
    """Make the mark of `INCOMPLETE`, unless a killed process has left it."""
    if mark.is_symlink():
        mark.unlink()
    with contextlib.suppress(FileExistsError):
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))


def _flush_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
