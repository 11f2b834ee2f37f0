"""How much memory a fit may take. Standard library only.

Fits that exceed the memory are refused before anything is allocated. Otherwise the
system kills the process without a message.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mtlrun.errors import MEMORY_REMEDY, MemoryLimitError

#: Eigenbases, Gram and kernel matrices up to this size are kept where that is faster
#: than doing without. The limit is the same on every machine, so that the choice of an
#: algorithm is reproducible.
KEPT = 2 << 30
#: Requests up to this size are granted without a look at the machine.
_SMALL = 256 << 20
_GROUP = Path("/sys/fs/cgroup")
_sharers = 1


def fits(need: float) -> bool:
    """Return whether `need` bytes may be kept to save time."""
    return need <= KEPT


def require(need: float, work: str, remedy: str) -> None:
    """Raise an error if something needs more memory than is free.

    Processes that share the memory have equal shares of it.

    Parameters
    ----------
    need : float
        Bytes.
    work : str
        The work that needs them, with its sizes; the message begins with it.
    remedy : str
        The remedy that the message names.

    Raises
    ------
    MemoryLimitError
    """
    if need > _SMALL and need > (allowed := free_bytes() / _sharers):
        much = f"more than the {allowed / 1e9:.3g} GB of the memory that is free"
        raise MemoryLimitError(f"{work} needs {need / 1e9:.3g} GB, {much}", remedy)


def require_table(location: str, n_rows: int, n_columns: int) -> None:
    """Raise a MemoryLimitError if a table of numbers needs more memory than is free."""
    work = f"{location}: a table of {n_rows:,} rows and {n_columns:,} columns"
    require(8 * n_rows * n_columns, work, MEMORY_REMEDY)


@contextmanager
def reading_table(location: str) -> Iterator[None]:
    """Turn a MemoryError into a MemoryLimitError that names the table."""
    try:
        yield
    except MemoryError as error:
        text = f"{location}: the table does not fit into memory"
        raise MemoryLimitError(text, MEMORY_REMEDY) from error


@contextmanager
def shared_by(processes: int) -> Iterator[None]:
    """Let `require` allow only a share of the memory while several processes work."""
    global _sharers
    before = _sharers
    _sharers = max(1, processes)
    try:
        yield
    finally:
        _sharers = before


def free_bytes() -> float:
    """Return the bytes that this process can still take.

    Free memory and the limits of the container and of the process count. It is inf if
    the system does not report them.
    """
    return min(_machine(), _container(), _process())


def resident_bytes() -> int:
    """Return the bytes of memory that this process uses; 0 where it is unknown."""
    sizes = "".join(_lines(Path("/proc/self/statm"))).split()
    if not sizes:
        return 0
    return int(sizes[1]) * os.sysconf("SC_PAGE_SIZE")


def _machine() -> float:
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


def _container() -> float:
    """Return the memory that the control group of a container still allows."""
    limit = "".join(_lines(_GROUP / "memory.max")).strip()
    if not limit.isdecimal():
        return math.inf
    for line in _lines(_GROUP / "memory.stat"):
        if line.startswith("anon "):
            return max(float(limit) - float(line.split()[1]), 0.0)
    return float(limit)


def _process() -> float:
    try:
        import resource  # not on Windows
    except ImportError:
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return math.inf
    sizes = "".join(_lines(Path("/proc/self/statm"))).split()
    taken = 0
    if sizes:
        taken = int(sizes[0]) * resource.getpagesize()
    return max(float(limit - taken), 0.0)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().split("\n")
    except OSError:
        return []
