"""Text of the last report on the terminal, kept in the cache of the user.

A run that is up to date prints this text again, and neither builds its report nor
imports what a report needs. The text is not in the folder of the run, which may come
from others: they could write a false report, or commands for the terminal. The text is
bound to everything that it was made from: the plan (and with it the text of the
experiment and the keys of its jobs), the content of all records, the files of the
folder, the sources of mtlrun, the versions of the packages that compute and print a
report, and the terminal. If any of them changes, the text is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_cache_path

from mtlrun.engine.environment import installed_version
from mtlrun.engine.stored import read_raw
from mtlrun.errors import DataError
from mtlrun.lab.plan import Plan
from mtlrun.utils.io import (
    file_json,
    read_file,
    sealed,
    sha256_json,
    sources,
    unsealed,
    write_atomic,
)

#: Packages besides mtlrun that compute and print a report.
PACKAGES = ("numpy", "pandas", "rich", "scipy")


def report_state(plan: Plan, terminal: Sequence[object]) -> str:
    """Return a digest of everything that the report on a terminal depends on.

    Parameters
    ----------
    plan : Plan
    terminal : sequence
        Properties of the terminal, such as its width.
    """
    store = plan.store()
    paths = []
    for path in plan.folder.rglob("*"):
        if path.is_file():
            paths.append(path)
    for key in {row.key for row in plan.rows}:
        paths += [store.path(key), store.scores_path(key)]
    files = {}
    for path in paths:
        try:
            digest = hashlib.sha256(read_file(path)).hexdigest()
        except OSError as error:
            digest = f"error {error.errno}"
        files[str(path.absolute())] = digest
    return sha256_json(
        {
            "folder": str(plan.folder.absolute()),
            "files": files,
            "terminal": list(terminal),
            "sources": sources(),
            "python": platform.python_version(),
            "packages": {name: installed_version(name) for name in PACKAGES},
        }
    )


def text_file(folder: Path) -> Path:
    """Return the file that keeps the text of a run."""
    name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()
    return user_cache_path("mtlrun") / "reports" / f"{name}.json"


def kept_text(folder: Path, state: str) -> str | None:
    """Return the text that was kept in this state; None if there is none."""
    try:
        content = unsealed(read_raw(text_file(folder)) or {})
    except (DataError, ValueError):
        return None
    if content.get("state") != state:
        return None
    text = content.get("text")
    return text if isinstance(text, str) else None


def keep_text(folder: Path, state: str, text: str) -> None:
    """Keep a text, unless the cache cannot be written."""
    content = sealed({"state": state, "text": text})
    with contextlib.suppress(OSError):
        write_atomic(text_file(folder), file_json(content), durable=False)
