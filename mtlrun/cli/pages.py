"""Writing the files of reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

HTML = "html"


def writing(place: Path, write: Callable[[], object]) -> None:
    """Do something that writes files; what the disk refuses is told with a remedy."""
    from mtlrun.utils.io import writing as disk

    with disk(place, "Print it instead: --format md (or json, csv, tex), or give another --out."):
        write()
