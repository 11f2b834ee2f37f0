"""Where and with what a result was computed: machine, versions, commit, command line."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from mtlrun.catalog.interfaces import version_of
from mtlrun.utils.io import (
    checkout_dir,
    sources,
)

#: Address of a scheduler.
_ADDRESS = re.compile(r"([a-z]+://)[^\s,]+")


#: Packages whose versions are recorded.
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl")


@dataclass(frozen=True)
class Host:
    """Interpreter and machine, as all records have them; None is unknown."""

    python: str
    packages: dict[str, str | None]
    blas: list[str]
    os: str
    cpu: str | None
    cores: int | None
    ram_gb: float | None


@dataclass(frozen=True)
class CodeVersion:
    """Version of mtlrun and, in a checkout, its commit.

    Attributes
    ----------
    mtlrun : str or None
        Version.
    commit : str or None
        None outside a checkout.
    dirty : bool or None
        Whether files differ from the commit, other than results, which the run itself
        writes; None outside a checkout.
    """

    mtlrun: str | None
    commit: str | None
    dirty: bool | None


@lru_cache(maxsize=1)
def host_info() -> Host:
    """Return the interpreter and the machine."""
    # BLAS libraries are listed only after they have been loaded.
    for name in ("numpy", "scipy.linalg"):
        importlib.import_module(name)
    threadpoolctl = importlib.import_module("threadpoolctl")
    libraries = set()
    for pool in threadpoolctl.threadpool_info():
        if pool.get("user_api") == "blas":
            version = pool.get("version") or ""
            libraries.add(f"{pool.get('internal_api')} {version}".strip())
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        # This process may not use all of them.
        cores = len(os.sched_getaffinity(0))
    ram_gb = None
    with contextlib.suppress(AttributeError, ValueError, OSError):
        n_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        ram_gb = round(n_bytes / 2**30, 1)
    return Host(
        python=platform.python_version(),
        packages={name: installed_version(name) for name in PACKAGES},
        blas=sorted(libraries),
        os=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=_cpu_model(),
        cores=cores,
        ram_gb=ram_gb,
    )


def source_info() -> CodeVersion:
    """Return the version of mtlrun and, in a checkout, its commit."""
    commit = None
    changes = None
    root = checkout_dir()
    if root is not None and (root / ".git").exists():
        commit = _git(root, "rev-parse", "HEAD")
        changes = _git(
            root,
            "status",
            "--porcelain",
            "--untracked-files=no",
            "--",
            ".",
            ":(exclude)results",
        )
    dirty = None
    if changes is not None:
        dirty = bool(changes)
    return CodeVersion(installed_version("mtlrun"), commit, dirty)


@lru_cache(maxsize=1)
def made_by() -> dict[str, Any]:
    """Return `source_info` and the digest of the sources, for the field of records."""
    return {**asdict(source_info()), "package": sources()}


def commits_since(commit: str) -> int | None:
    """Return the number of later commits in this checkout; None if it is unknown."""
    root = checkout_dir()
    if root is None:
        return None
    count = _git(root, "rev-list", "--count", f"{commit}..HEAD")
    return int(count) if count else None


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def command_line() -> list[str]:
    """Return the arguments of the command without addresses and folders of the user.

    See `private_path`. Paths may follow ``=``, a comma or a short option, as in
    ``--set=a=/b,c=/d``.
    """
    if not sys.argv:
        return []
    program, *arguments = sys.argv
    line = [Path(program).name]
    for argument in arguments:
        parts = [argument]
        if not Path(argument).is_absolute():
            without_hosts = _ADDRESS.sub(r"\1...", argument)
            parts = re.split(r"([=,]|^-[a-zA-Z](?=/))", without_hosts)
        line.append("".join(map(private_path, parts)))
    return line


def private_path(path: str) -> str:
    """Return a path without the names of folders outside the current folder.

    A path in the current folder becomes relative to it. Other absolute paths become a
    hash of their folder and the name of the file.
    """
    absolute = Path(path)
    if not absolute.is_absolute():
        return path
    with contextlib.suppress(ValueError, OSError):
        return absolute.relative_to(Path.cwd()).as_posix()
    folder = str(absolute.parent).encode(errors="surrogatepass")
    folder_hash = hashlib.sha256(folder).hexdigest()[:8]
    return f"{folder_hash}/{absolute.name}"


def installed_version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return version_of(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(root: Path, *arguments: str) -> str | None:
    """Return the output of a git command; None if it fails."""
    try:
        process = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip()


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            process = subprocess.run(
                ["sysctl", "-n", "machdep.cpu.brand_string"],
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            )
            return process.stdout.strip()
    return platform.processor() or platform.machine()
