"""``mtlrun env``: versions, machine and folders, for bug reports."""

from __future__ import annotations

import importlib
import os

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say_columns, say_json

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def env(
    ctx: typer.Context, data_dir: options.DataDir = None, as_json: options.Json = False, debug: options.Debug = False
) -> None:
    """Show versions, BLAS, processor, threads, folders and defaults with their origin, for example for a bug report."""
    from mtlrun.data.files import data_directory
    from mtlrun.record import host_facts, source_facts
    from mtlrun.utils.io import configs_dir, datasets_dir
    from mtlrun.utils.plugins import DATASETS_GROUP, METHODS_GROUP, plugins

    for name in ("numpy", "scipy.linalg"):
        importlib.import_module(name)  # a BLAS can be asked for its kind only once it is loaded
    source, host = source_facts(), host_facts()
    found = [plugin for group in (METHODS_GROUP, DATASETS_GROUP) for plugin in plugins(group)]
    commit = f"{source['commit'][:12]}{' (changed)' if source['dirty'] else ''}" if source["commit"] else None
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
        "plug-ins": ", ".join(f"{plugin.name} ({plugin.source})" for plugin in found) or None,
    }
    built_in = {"jobs": 1, "output": options.OUTPUT_DEFAULT, "profile": "quick", "data-dir": data_directory(data_dir)}
    chosen = {key: {"value": value, "origin": "built in"} for key, value in built_in.items()}
    for key, variable in options.VARIABLES.items():
        if os.environ.get(variable):
            chosen[key] = {"value": os.environ[variable], "origin": variable}
    asked = ctx.get_parameter_source("data_dir")
    if asked is not None and asked.name == "COMMANDLINE":
        chosen["data-dir"] = {"value": data_directory(data_dir), "origin": "--data-dir"}
    if as_json:
        say_json({**rows, "defaults": chosen})
        return
    rows["data directory"] = chosen["data-dir"]["value"]
    rows |= {f"--{key}": f"{default['value']} ({default['origin']})" for key, default in chosen.items()}
    say_columns([(name, "-" if value is None else str(value)) for name, value in rows.items()])
