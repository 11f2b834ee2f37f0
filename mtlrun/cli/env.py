"""``mtlrun env``: versions, machine and folders, for reports of problems."""

from __future__ import annotations

import importlib
import os

import typer

from mtlrun.cli import options

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def env(data_dir: options.DataDir = None, debug: options.Debug = False) -> None:
    """Print what numbers would be computed with: versions, BLAS, processor, threads, folders."""
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
        "ram_gb": host["ram_gb"],
        **{name: os.environ.get(name) for name in THREAD_VARIABLES},
        "experiments": configs_dir(),
        "data cards": datasets_dir(),
        "data": data_directory(data_dir),
    }
    width = max(map(len, rows))
    for name, value in rows.items():
        typer.echo(f"{name:{width}}  {'-' if value is None else value}")
