"""What a number was computed with: versions, sources, machine, times. Names no host, user or absolute path."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mtlrun.core.records import jsonable, write_atomic
from mtlrun.core.resources import checkout_dir
from mtlrun.experiments.host import version_of
from mtlrun.experiments.locks import Locks
from mtlrun.experiments.store import CELLS

SCHEMA = 1
FILE = "provenance.json"


def source_facts() -> dict[str, Any]:
    """Return the version of mtlrun and, in a checkout, the commit and whether files differ from it."""
    facts: dict[str, Any] = {"mtlrun": version_of("mtlrun"), "commit": None, "dirty": None}
    root = checkout_dir()
    if root is None or not (root / ".git").exists():
        return facts
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    return {**facts, "commit": commit, "dirty": None if changes is None else bool(changes)}


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def command_line() -> list[str]:
    """Return the words of the command, the program without its folder."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv else []


def append_run(folder: Path, entry: dict[str, Any]) -> None:
    """Add one invocation to the provenance file of a run folder, or replace it when it has the same `started` and pid.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    path = folder / FILE
    (folder / CELLS).mkdir(parents=True, exist_ok=True)
    with Locks(folder / CELLS).mutex():  # another process may add its entry at the same time
        runs = [run for run in _runs(path) if (run.get("started"), run.get("pid")) != (entry["started"], entry["pid"])]
        text = json.dumps(jsonable({"schema": SCHEMA, "runs": [*runs, entry]}), indent=1, sort_keys=True)
        write_atomic(path, text + "\n")


def _runs(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a provenance file; a damaged file is put aside, as `provenance.json.damaged`."""
    try:
        return [dict(run) for run in json.loads(path.read_text(encoding="utf-8"))["runs"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError):
        path.replace(path.with_name(f"{path.name}.damaged"))
        return []


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
