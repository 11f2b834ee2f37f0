"""Files and folders that are being written, and what killed processes leave of them.

A temporary file lies next to the file that it will replace, and is called
``.<host>-<pid>-<token>-<random>.tmp``. Its process holds a lock on it. The next process
that writes into the folder removes the files of processes that have ended: the process
does not exist on this host, and nobody holds the lock. Containers may share a folder
and have the same host name, but do not see each other's processes; the lock shows that
they are alive. The token is drawn by each process: a file with its pid and another
token belongs to an earlier process, or to a container. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

#: End of the names of temporary files.
TEMPORARY = ".tmp"
#: Characters of the name of a host in the name of a file.
MAX_HOST_LENGTH = 64
#: Random text of this process. It starts with a letter, which no pid does.
PROCESS_TOKEN = f"t{secrets.token_hex(6)}"
#: Earlier versions wrote no token.
_NAME = re.compile(
    r"\.(?P<host>.+)-(?P<pid>\d+)-(?:(?P<token>t[0-9a-f]{12})-)?[^-]*\.tmp", re.DOTALL
)


def host_name() -> str:
    """Return the name of this host, cut so that it fits into the name of a file."""
    return socket.gethostname()[:MAX_HOST_LENGTH]


@contextlib.contextmanager
def temporary_file(folder: Path) -> Iterator[Path]:
    """Yield a new empty file in a folder, which the block renames.

    It is deleted if the block raises. It has the permissions of the umask; `tempfile` would make it private.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    while True:
        path = folder / f"{_prefix()}{secrets.token_hex(4)}{TEMPORARY}"
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            break
    try:
        with _held(descriptor):
            yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """Yield a new private folder in a folder, which is deleted at the end.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    path = Path(tempfile.mkdtemp(dir=folder, prefix=_prefix(), suffix=TEMPORARY))
    try:
        if fcntl is None:
            yield path
            return
        with _held(os.open(path, os.O_RDONLY)):
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _prefix() -> str:
    return f".{host_name()}-{os.getpid()}-{PROCESS_TOKEN}-"


@contextlib.contextmanager
def _held(descriptor: int) -> Iterator[None]:
    """Lock a file that was opened, and close it at the end."""
    try:
        if fcntl is not None:
            # Not every file system has locks.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def tidy_folders(*folders: Path) -> None:
    """Remove the temporary files that killed processes left in folders, as far as
    that is possible.
    """
    with contextlib.suppress(OSError):
        for folder in set(folders):
            tidy(folder.glob(f".*{TEMPORARY}"))


def tidy(paths: Iterable[Path]) -> None:
    """Remove temporary files and folders whose processes have ended."""
    for path in list(paths):
        if not is_leftover(path):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_leftover(path: Path) -> bool:
    """Return whether a path is a temporary file whose process has ended.

    False for other files, and for those of other hosts.
    """
    match = _NAME.fullmatch(path.name)
    if match is None or match["host"] != host_name() or os.name != "posix":
        return False
    pid = int(match["pid"])
    if pid == os.getpid():
        is_running = match["token"] in (None, PROCESS_TOKEN)
    else:
        is_running = _runs_here(pid)
    return not is_running and not _is_held(path)


def _runs_here(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        pass
    return True


def _is_held(path: Path) -> bool:
    """Return whether a process, perhaps in another container, holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no locks on this file system
        return False
    finally:
        os.close(descriptor)
    return False
