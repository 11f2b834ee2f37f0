"""Delete runs: the files that mtlrun writes into the folder of a run, and nothing else."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from mtlrun.core.errors import DataError, UserError
from mtlrun.core.records import TEMPORARY, writer_of
from mtlrun.experiments.cells import SCHEMA
from mtlrun.experiments.locks import SUFFIX, Locks
from mtlrun.experiments.provenance import FILE as PROVENANCE
from mtlrun.experiments.runfile import RESOLVED_FILE, RUN_FILE
from mtlrun.experiments.store import CELLS
from mtlrun.report.folder import read_json
from mtlrun.report.panels import FIGURES
from mtlrun.report.site import PAGE
from mtlrun.report.writers import FILES

#: Files of a cell; their stem is its key.
_CELL = re.compile(r"[0-9a-f]{64}\.(json|npz|parts|lock)")
_FIGURE = re.compile(rf"\]\({FIGURES}/([\w.-]+\.svg)\)")


def why_no_run(folder: Path) -> str | None:
    """Say why a folder is not the folder of a run; None when it is one.

    Parameters
    ----------
    folder : Path
        ``<output>/<paper>/<artefact>/<profile>``: its ``run.json`` must be of our schema and name this place.
    """
    try:
        info = read_json(folder / RUN_FILE) or {}
    except DataError as error:
        return str(error.message)
    if info.get("schema") != SCHEMA or not isinstance(info.get("cells"), list):
        return f"{folder / RUN_FILE} is not the plan of a run"
    place = f"{info.get('id')}/{info.get('profile')}"
    if place != "/".join(folder.parts[-3:]):
        return f"{folder / RUN_FILE} is the plan of {place}, which is not this folder"
    return None


def refuse_busy(folder: Path) -> None:
    """Refuse to delete a run that a process computes.

    Raises
    ------
    UserError
        If a lock of a living process is there, or of another host, about whose processes nothing is known.
    """
    locks = Locks(folder / CELLS)
    for name in sorted(locks.names()):
        if (owner := locks.owner(name)) is not None:
            lock = folder / CELLS / f"{name}{SUFFIX}"
            raise UserError(
                f"{folder}: {owner} computes here; nothing is deleted",
                f"Wait for it or end it. If it is gone, delete {lock}",
            )


def delete_run(folder: Path) -> bool:
    """Delete the files of a run, then its folders as far as they are empty; return whether nothing is left.

    Raises
    ------
    UserError
        If a process computes there.
    OSError
        If a file cannot be deleted.
    """
    cells = folder / CELLS
    if not cells.is_dir():
        return _delete(folder)
    with Locks(cells).mutex():  # nobody takes a lock from here on
        refuse_busy(folder)
        return _delete(folder)


def _delete(folder: Path) -> bool:
    for path in [*_files(folder), folder / RUN_FILE]:  # last: without it the rest would never be found again
        path.unlink(missing_ok=True)
    for place in (folder / CELLS, folder / FIGURES, folder):
        with contextlib.suppress(OSError):
            place.rmdir()
    return not folder.exists()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a run that mtlrun wrote, `run.json` apart; links are not followed."""
    names = {RESOLVED_FILE, PROVENANCE, f"{PROVENANCE}.damaged", PAGE, *FILES}
    figures = _figures(folder)
    for place in (folder, folder / CELLS, folder / FIGURES):
        if place.is_symlink() or not place.is_dir():
            continue
        for path in sorted(place.iterdir()):
            if path.is_symlink() or not path.is_file():
                continue
            ours = {
                folder: path.name in names,
                folder / CELLS: path.name == ".mutex" or _CELL.fullmatch(path.name) is not None,
                folder / FIGURES: path.name in figures,
            }
            if ours[place] or (path.suffix == TEMPORARY and writer_of(path) is not None):
                yield path


def _figures(folder: Path) -> set[str]:
    """Return the names of the figures that the report shows."""
    try:
        return set(_FIGURE.findall((folder / "report.md").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return set()
