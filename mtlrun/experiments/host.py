"""What the interpreter and the machine are that a number was computed with."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl")


@lru_cache(maxsize=1)
def host_facts() -> dict[str, Any]:
    """Return facts about the running interpreter and machine, kept in every record."""
    from threadpoolctl import threadpool_info

    for library in ("numpy", "scipy.linalg"):  # only what is loaded is listed
        importlib.import_module(library)
    pools = [{k: pool.get(k) for k in ("user_api", "internal_api", "version")} for pool in threadpool_info()]
    return {
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in PACKAGES},
        "blas": sorted({f"{p['internal_api']} {p['version'] or ''}".strip() for p in pools if p["user_api"] == "blas"}),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": _cores(),
        "ram_gb": _ram_gb(),
    }


def version_of(package: str) -> str | None:
    """Return the installed version of a package, None without one."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
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
