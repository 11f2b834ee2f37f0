"""The folder of results, looked at before hours of work are spent on what cannot be written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from mtlrun.errors import UserError

#: Bytes that must find room; results have more, but a full disk is known by them.
TRIAL = 1 << 14


def refuse_file(folder: Path) -> Path:
    """Return a folder that is there or can be made.

    Raises
    ------
    UserError
        If a file is in its way; names it.
    """
    place = _nearest(folder)
    if not place.is_dir():
        raise UserError(f"{place} is a file, the results need a folder", "Choose another --output.")
    return folder


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made, because a file is in its way, or that cannot be written; tries it.

    Raises
    ------
    UserError
        Names the file or folder in the way.
    """
    place = _nearest(refuse_file(folder))
    try:
        with tempfile.TemporaryFile(dir=place) as trial:
            trial.write(bytes(TRIAL))
            trial.flush()
            os.fsync(trial.fileno())
    except OSError as error:
        text = f"{place}: results cannot be written into this folder: {error.strerror or error}"
        raise UserError(text, "Choose another --output.") from None


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest of its parents that exists."""
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("."))
