"""Locks on files, processes that may have ended, and threads of the libraries below
(BLAS, OpenMP).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

from mtlrun.utils.io import (
    TEMPORARY,
    host_name,
    open_regular,
    require_regular,
    writer_of,
)

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

#: Errors of file systems that do not support locks.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


@contextlib.contextmanager
def exclusive_lock(
    path: Path, wait: Callable[[], None] = lambda: None
) -> Iterator[str | None]:
    """Hold a lock on a file, which is made and stays, or on a folder; the kernel
    releases the locks of dead processes.

    Parameters
    ----------
    path : Path
    wait : callable
        Called before another process is waited for.

    Yields
    ------
    None, or why there is no lock: the system or the file system does not have them.

    Raises
    ------
    OSError
        If the file cannot be opened or is not a regular file; a link planted there is
        not followed.
    """
    if fcntl is None:
        yield "this system has no flock"
        return
    refused = None
    is_folder = path.is_dir()
    if is_folder:
        flags = os.O_RDONLY
    else:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    held = os.open(path, flags | os.O_NONBLOCK, 0o666)
    try:
        if not is_folder:
            require_regular(os.fstat(held), path)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait()
            fcntl.flock(held, fcntl.LOCK_EX)  # Ctrl-C ends the waiting
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            refused = error.strerror
        yield refused
    finally:
        os.close(held)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock on a file."""
    try:
        with open_regular(path) as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (
        OSError,
        AttributeError,
    ):  # it is gone or not ours to read, or there are no locks here
        return False
    return False


@contextlib.contextmanager
def timing_lock(tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the right to measure seconds: one process of a user does, as runs in other
    folders would disturb it, too.

    Parameters
    ----------
    tell : callable
        Called when another process is waited for, and when nothing can be locked.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder = Path(
                os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(),
                f"mtlrun-{os.getuid()}",
            )
            folder.mkdir(exist_ok=True, mode=0o700)
            lock = exclusive_lock(
                folder / "timing.lock",
                lambda: tell(
                    "another timed run is in progress; waiting so that timings stay valid"
                ),
            )
            refused: object = stack.enter_context(lock)
        except (OSError, AttributeError) as error:  # Windows has no numbers of users
            refused = error
        if refused:
            tell(
                f"cannot tell whether other timed runs are in progress on this machine: {refused}"
            )
        yield


def running(host: str, pid: int) -> bool:
    """Whether a process may still be running: on another host, or here with this
    pid.
    """
    if host != host_name() or os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    return True


def tidy_folders(*folders: Path) -> None:
    """Remove the temporary files that killed processes left in folders, as far as
    that is possible.
    """
    with contextlib.suppress(OSError):
        for folder in set(folders):
            tidy(folder.glob(f".*{TEMPORARY}"))


def tidy(paths: Iterable[Path]) -> None:
    """Remove temporary files and folders (`mtlrun.utils.io.temporary`) whose
    processes have ended.
    """
    for path in list(paths):
        writer = writer_of(path)
        if writer is None or running(*writer):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


# ---------------------------------------------------------------------- threads

#: Products of matrices of at most this many columns, one after the other, are slower
#: with threads: starting them takes longer than the product, and on a busy machine they
#: wait for each other.
SMALL = 256


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    return ThreadpoolController()


def limited_threads(limit: int, api: str | None = None) -> Any:
    """Return a context that limits the threads of the libraries that are loaded.

    Looking for libraries takes longer than a small fit; they are looked for again when
    a module was imported.

    Parameters
    ----------
    limit : int
    api : {"blas", "openmp"}, optional
        Of these libraries only.
    """
    return _controller(len(sys.modules)).limit(limits=limit, user_api=api)


def one_thread_if_small(columns: int) -> Any:
    """Return a context in which BLAS has one thread where that is faster for matrices
    of this many columns.

    Parameters
    ----------
    columns : int
        With more than `SMALL` nothing is limited.
    """
    if columns <= SMALL:
        return limited_threads(1, "blas")
    return nullcontext()
