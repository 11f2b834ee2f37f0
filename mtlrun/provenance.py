"""What a number was computed with: versions, sources, machine, times. Names no host, user or absolute path."""

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
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from mtlrun.utils.io import checkout_dir

#: Of a scheduler.
_ADDRESS = re.compile(r"([a-z]+://)[^\s,]+")
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl")


@lru_cache(maxsize=1)
def host_facts() -> dict[str, Any]:
    """Return facts about the running interpreter and machine, kept in every record."""
    for name in ("numpy", "scipy.linalg"):  # only loaded libraries are listed
        importlib.import_module(name)
    listed = importlib.import_module("threadpoolctl").threadpool_info()
    pools = [{k: pool.get(k) for k in ("user_api", "internal_api", "version")} for pool in listed]
    return {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "blas": sorted({f"{p['internal_api']} {p['version'] or ''}".strip() for p in pools if p["user_api"] == "blas"}),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": _cores(),
        "ram_gb": _ram_gb(),
    }


def source_facts() -> dict[str, Any]:
    """Return the version of mtlrun and, in a checkout, the commit and whether files differ from it."""
    facts: dict[str, Any] = {"mtlrun": _version("mtlrun"), "commit": None, "dirty": None}
    root = checkout_dir()
    if root is None or not (root / ".git").exists():
        return facts
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    return {**facts, "commit": commit, "dirty": None if changes is None else bool(changes)}


@lru_cache(maxsize=1)
def made_by() -> dict[str, Any]:
    """Return what made the numbers of this process: `source_facts`, and a digest of the sources of the package."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return {**source_facts(), "package": digest.hexdigest()[:16]}


def commits_since(commit: str) -> int | None:
    """Return how many commits of this checkout are newer than one, None where that cannot be told."""
    root = checkout_dir()
    count = None if root is None else _git(root, "rev-list", "--count", f"{commit}..HEAD")
    return int(count) if count else None


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def command_line() -> list[str]:
    """Return the words of the command, without addresses and folders of the user: see `private_path`."""
    return [Path(sys.argv[0]).name, *map(_without_folders, sys.argv[1:])] if sys.argv else []


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
    return "".join(part if part in ("=", ",", "") else private_path(part) for part in parts)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20, check=True)
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
            return subprocess.run(words, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    return platform.processor() or platform.machine()


def _cores() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _ram_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
