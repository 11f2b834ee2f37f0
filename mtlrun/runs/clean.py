"""Delete runs: the files that mtlrun writes into their folders, the cells that nobody else names, and nothing else."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from mtlrun.errors import DataError, UserError
from mtlrun.record import CELLS, PACKED, PREDICTIONS, Records
from mtlrun.report.figures import FIGURES
from mtlrun.report.stored import COMPARED, PROVENANCE, RUN_FILE, read_json, read_sound
from mtlrun.report.summary import COMPARE, run_folders
from mtlrun.report.writers import FILES, PAGE
from mtlrun.runs.locks import Locks
from mtlrun.runs.plan import RESOLVED_FILE, SCHEMA
from mtlrun.utils.io import TEMPORARY, writer_of

#: The file that describes a model, as `mtlrun.models` names it, which takes seconds to import.
FACTS = "model.json"
#: Ends of the names of the files of a cell.
_ENDS = (".json", ".npz", ".lock")
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


def refuse_busy(output: Path) -> None:
    """Refuse to delete anything of an output folder while a process computes there.

    Raises
    ------
    UserError
        If a process holds a lock there.
    """
    locks = Locks(output / CELLS)
    for name in sorted(locks.names()):
        if (owner := locks.owner(name)) is not None:
            raise UserError(f"nothing was deleted: {owner} is computing in {output}", "Wait for it or stop it.")


def delete_runs(folders: Iterable[Path], output: Path) -> list[Path]:
    """Delete the files of runs, then their cells that no other run, model or comparison names.

    Returns
    -------
    list of Path
        Folders that stay, because other files lie in them.

    Raises
    ------
    UserError
        If a process computes there.
    OSError
        If a file cannot be deleted.
    """
    cells = output / CELLS
    with contextlib.ExitStack() as stack:
        if cells.is_dir():
            stack.enter_context(Locks(cells).mutex())  # nobody takes a lock from here on
            refuse_busy(output)
        kept, gone = [], set()
        for folder in folders:
            gone |= _named_by(folder, output)
            _delete_files(folder)
            if folder.exists():
                kept.append(folder)
        still = {key for folder in run_folders(output) for key in _named_by(folder, output)}
        models = {str(read_sound(path).get("cell")) for path in output.rglob(FACTS)}
        still |= _with_folds(models, output)
        still |= _with_folds(_planned(output / COMPARED), output)  # of a comparison whose folder is the output
        if run_folders(output) or any(output.rglob(FACTS)) or (output / COMPARE).exists():
            unused = gone - still
        else:  # nothing is left that could need a cell
            unused = {path.stem for path in cells.glob("*") if _is_key(path.stem)}
        for key in unused:
            for end in _ENDS:
                (cells / f"{key}{end}").unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        if all(path.name == ".mutex" for path in cells.iterdir()):
            (cells / ".mutex").unlink(missing_ok=True)
            cells.rmdir()
    return kept


def cells_of(folder: Path, output: Path) -> int:
    """Return how many cells of a run are there."""
    records = Records(output, folder)
    return sum(records.has(key) for key in set(_planned(folder / RUN_FILE)))


def _named_by(folder: Path, output: Path) -> set[str]:
    """Return the keys that the plan of a run names, and those of the folds of their searches."""
    return _with_folds(_planned(folder / RUN_FILE), output)


def _planned(file: Path) -> set[str]:
    cells = read_sound(file).get("cells")
    entries = [entry for entry in cells if isinstance(entry, dict)] if isinstance(cells, list) else []
    return {str(entry[name]) for entry in entries for name in ("key", "was") if entry.get(name)}


def _with_folds(keys: set[str], output: Path) -> set[str]:
    records = Records(output)
    found = set(keys)
    for key in keys:
        record = records.load(key) if _is_key(key) else None
        if record is not None:
            found |= {str(fold) for fold in (record.inputs.get("search") or {}).get("keys") or ()}
    return {key for key in found if _is_key(key)}


def _is_key(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


def _delete_files(folder: Path) -> None:
    for path in [*_files(folder), folder / RUN_FILE]:  # last: without it the rest would never be found again
        path.unlink(missing_ok=True)
    for place in (folder / CELLS, folder / FIGURES, folder):
        with contextlib.suppress(OSError):
            place.rmdir()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a run that mtlrun wrote, `run.json` apart; links are not followed."""
    names = {RESOLVED_FILE, PROVENANCE, f"{PROVENANCE}.damaged", PACKED, PREDICTIONS, PAGE, *FILES}
    figures = _figures(folder)
    for place, ours in ((folder, names), (folder / FIGURES, figures)):
        if place.is_symlink() or not place.is_dir():
            continue
        for path in sorted(place.iterdir()):
            if path.is_symlink() or not path.is_file():
                continue
            if path.name in ours or (path.suffix == TEMPORARY and writer_of(path) is not None):
                yield path


def _figures(folder: Path) -> set[str]:
    """Return the names of the figures that the report shows."""
    try:
        return set(_FIGURE.findall((folder / "report.md").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return set()
