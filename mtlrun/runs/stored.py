"""Printed reports of runs that did not change, so that an up-to-date run answers without building its report again."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from mtlrun.record import PACKED
from mtlrun.runs.code import code_of
from mtlrun.runs.plan import RUN_FILE, Plan
from mtlrun.runs.store import PROVENANCE, Store
from mtlrun.utils.io import sha256_json, write_atomic

#: Reports that are kept, the newest ones.
MOST = 100
#: Modules that make the report and print it.
_REPORT = ("mtlrun.report.build", "mtlrun.report.terminal", "mtlrun.report.writers")


class StoredReport:
    """The printed report of a run, in the user's cache folder, under everything that it depends on.

    Parameters
    ----------
    plan : Plan
    store : Store
    style : str
        Of the terminal: width and colours.
    """

    def __init__(self, plan: Plan, store: Store, style: str) -> None:
        import platformdirs

        keys = {row.cell.key for row in plan.rows}
        files = [plan.folder / name for name in (RUN_FILE, PROVENANCE, PACKED)]
        facts = {
            "folder": str(plan.folder),
            "style": style,
            "files": [_digest(path) for path in files],
            "cells": {key: store.stamp(key) for key in keys},
            "code": code_of(_REPORT),
        }
        self.path = Path(platformdirs.user_cache_dir("mtlrun")) / "reports" / f"{sha256_json(facts)}.txt"

    def read(self) -> str | None:
        """Return the text, None when there is none."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return self.path.read_text(encoding="utf-8")
        return None

    def write(self, text: str) -> None:
        """Keep a text, where the folder can be written; drop the oldest ones."""
        with contextlib.suppress(OSError):
            write_atomic(self.path, text, durable=False)
            kept = sorted(self.path.parent.glob("*.txt"), key=lambda path: path.stat().st_mtime_ns)
            for path in kept[:-MOST]:
                path.unlink(missing_ok=True)


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
