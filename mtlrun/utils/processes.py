"""Locks on files, and threads of the libraries below (BLAS, OpenMP)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

from mtlrun.utils.io import (
    make_folder,
    open_regular,
    read_text_file,
    require_regular,
)

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

#: Errors of file systems that do not support locks.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
#: Seconds to wait for a lock of another user, who may never release it.
FOREIGN_LOCK_TIMEOUT_S = 30.0
#: Seconds to wait for a lock whose process cannot be seen: in another container, on
#: another host, or on a system without ``/proc/locks``.
UNSEEN_LOCK_TIMEOUT_S = 600.0
#: Seconds between two attempts to take a lock.
LOCK_POLL_S = 0.1


@contextlib.contextmanager
def exclusive_lock(
    path: Path, wait: Callable[[], None] = lambda: None
) -> Iterator[str | None]:
    """Hold a lock on a file, which is made and stays, or on a folder; the kernel
    releases the locks of dead processes.

    Another process of this user is waited for without limit. Whoever can read a file
    can also lock it, so other users are waited for only for a while.

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
    TimeoutError
        If another user, or a process that cannot be seen, does not release the lock;
        says who holds it.
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
            _wait_for_lock(held, path)  # Ctrl-C ends the waiting
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            refused = error.strerror
        yield refused
    finally:
        os.close(held)


@dataclass(frozen=True)
class LockHolder:
    """Process that holds a lock, and its user."""

    pid: int
    uid: int

    def __str__(self) -> str:
        import pwd

        try:
            user = pwd.getpwuid(self.uid).pw_name
        except KeyError:
            user = str(self.uid)
        return f"process {self.pid} of user {user}"


def lock_holder(inode: int) -> LockHolder | None:
    """Return the process that holds the lock on a file, None if it cannot be seen.

    Parameters
    ----------
    inode : int
        Number of the file.
    """
    # 1: FLOCK  ADVISORY  WRITE 4711 fe:01:393229 0 EOF
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in read_text_file("/proc/locks").split("\n"):
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
                pid = int(words[4])
                status = read_text_file(f"/proc/{pid}/status")
                real_uid = status.partition("\nUid:")[2].split()[0]
                return LockHolder(pid, int(real_uid))
    return None


def _wait_for_lock(descriptor: int, path: Path) -> None:
    """Take a lock that another process holds; see `exclusive_lock`."""
    inode = os.fstat(descriptor).st_ino
    waited = 0.0
    while True:
        holder = lock_holder(inode)
        if holder is None:
            limit = UNSEEN_LOCK_TIMEOUT_S
            name = "a process that cannot be seen"
        else:
            limit = FOREIGN_LOCK_TIMEOUT_S
            name = str(holder)
        is_own = holder is not None and holder.uid == os.getuid()
        if not is_own and waited >= limit:
            message = f"{name} holds the lock on {path} for more than {limit:g} s"
            raise TimeoutError(errno.ETIMEDOUT, message, str(path))
        start = time.monotonic()
        time.sleep(LOCK_POLL_S)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if not is_own:
            waited += time.monotonic() - start


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
            lock = exclusive_lock(
                _private_folder() / "timing.lock",
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


def _private_folder() -> Path:
    """Return a folder of the user that nobody else can open.

    The folder for temporary files belongs to all users, and another one may have made
    a folder of this name in it. Then it is a folder in the user's cache.

    Raises
    ------
    OSError
        If neither can be used.
    """
    import platformdirs

    runtime = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = Path(runtime, f"mtlrun-{os.getuid()}")
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True, mode=0o700)
        if _is_private(folder):
            return folder
    folder = platformdirs.user_cache_path("mtlrun") / "locks"
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True, mode=0o700)
    if not _is_private(folder):
        message = "belongs to another user, or others can open it"
        raise PermissionError(errno.EACCES, message, str(folder))
    return folder


def _is_private(folder: Path) -> bool:
    """Return whether a path is a folder of this user that nobody else can open."""
    status = folder.lstat()
    is_closed = not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and is_closed


# ---------------------------------------------------------------------- threads

#: Products of matrices of at most this many columns, one after the other, are slower
#: with threads: starting them takes longer than the product, and on a busy machine they
#: wait for each other.
SMALL = 256
#: The rows times the squared columns of a matrix for which that holds: its product with
#: itself takes about 50 ms on one core.
SMALL_PRODUCT = 1e9


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


def one_thread_if_small(columns: int, rows: int = 0) -> Any:
    """Return a context in which BLAS has one thread where that is faster for matrices
    of this size.

    Parameters
    ----------
    columns : int
        With more than `SMALL` nothing is limited.
    rows : int, default 0
        With more than `SMALL_PRODUCT / columns**2` nothing is limited.
    """
    if columns <= SMALL and rows * columns**2 <= SMALL_PRODUCT:
        return limited_threads(1, "blas")
    return nullcontext()
