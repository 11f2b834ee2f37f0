"""``mtlrun env``: versions, machine and folders, for bug reports."""

from __future__ import annotations

import importlib
import os

from mtlrun.cli import options
from mtlrun.cli.console import say_columns

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def env(data_dir: options.DataDir = None, debug: options.Debug = False) -> None:
    """Show versions, BLAS, processor, threads and folders, for example for a bug report."""
    from mtlrun.data.files import data_directory
    from mtlrun.provenance import host_facts, source_facts
    from mtlrun.utils.paths import configs_dir, datasets_dir

    for name in ("numpy", "scipy.linalg"):
        importlib.import_module(name)  # a BLAS can be asked for its kind only once it is loaded
    source, host = source_facts(), host_facts()
    commit = f"{source['commit'][:12]}{' (changed)' * bool(source['dirty'])}" if source["commit"] else None
    rows = {
        "mtlrun": source["mtlrun"],
        "commit": commit,
        "python": host["python"],
        **host["packages"],
        "blas": ", ".join(host["blas"]) or None,
        "os": host["os"],
        "cpu": host["cpu"],
        "cores": host["cores"],
        "memory (GB)": host["ram_gb"],
        **{name: os.environ.get(name) for name in THREAD_VARIABLES},
        "experiments": configs_dir(),
        "data cards": datasets_dir(),
        "data directory": data_directory(data_dir),
    }
    say_columns([(name, "-" if value is None else str(value)) for name, value in rows.items()])
