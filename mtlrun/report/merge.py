"""Cells of another machine, taken into the folder of a run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from mtlrun.core.errors import DataError
from mtlrun.core.records import CellRecord, write_atomic
from mtlrun.report.folder import CELLS, PROVENANCE, read_json, read_run


@dataclass
class Merged:
    """What became of the cells of another folder.

    Attributes
    ----------
    copied : int
        Taken: finished there, and not here.
    known : int
        Finished here already.
    foreign : int
        Of no cell of the plan here.
    unfinished : int
        Failed there, or unreadable.
    """

    copied: int = 0
    known: int = 0
    foreign: int = 0
    unfinished: int = 0

    def __str__(self) -> str:
        told = {
            "finished here already": self.known,
            "of other experiments, settings or versions": self.foreign,
            "not finished there": self.unfinished,
        }
        rest = [f"{count} {what}" for what, count in told.items() if count]
        return f"{self.copied} cell{'s' * (self.copied != 1)} taken" + f" ({', '.join(rest)})" * bool(rest)


def merge(folder: Path, other: Path) -> Merged:
    """Copy the finished cells of another run folder that the plan of a run lacks, and note where they were computed.

    Parameters
    ----------
    folder : Path
        Of the run: its plan decides what is taken. A key says everything that a number depends on: cells of one key are
        the same cell, whichever machine computed them.
    other : Path
        A run folder; only its ``cells/`` and ``provenance.json`` are read.

    Raises
    ------
    DataError
        If one of the folders is not one of a run.
    OSError
        If the folder cannot be written.
    """
    run = read_run(folder)
    if not (Path(other) / CELLS).is_dir():
        raise DataError(f"{other}: no {CELLS}/ here, so this is not the folder of a run", "Give the folder of a run.")
    here = {key: record for key, record in {**run.selections, **run.cells}.items() if record.done}
    found = {path.stem: _record(path) for path in sorted((Path(other) / CELLS).glob("*.json"))}
    wanted = {cell.key for cell in run.planned}
    wanted |= {str(r.selection["key"]) for k, r in found.items() if r and k in wanted and r.selection.get("key")}
    merged = Merged()
    for key, record in found.items():
        if record is None or not record.done:
            merged.unfinished += 1
        elif key not in wanted:
            merged.foreign += 1
        elif key in here:
            merged.known += 1
        else:
            _copy(Path(other), Path(folder), key)
            merged.copied += 1
    if merged.copied:
        _merge_provenance(Path(folder), Path(other))
    return merged


def _copy(source: Path, target: Path, key: str) -> None:
    """Copy a cell, the scores kept beside it first."""
    for name in (f"{key}.npz", f"{key}.json"):
        if (source / CELLS / name).is_file():
            write_atomic(target / CELLS / name, (source / CELLS / name).read_bytes())


def _merge_provenance(folder: Path, other: Path) -> None:
    entries = []
    for place in (folder, other):
        entries += [e for e in (read_json(place / PROVENANCE) or {}).get("runs") or [] if e not in entries]
    entries.sort(key=lambda entry: str(entry.get("started", "")))
    text = json.dumps({"schema": 1, "runs": entries}, indent=1, sort_keys=True, ensure_ascii=False)
    write_atomic(folder / PROVENANCE, text + "\n")


def _record(path: Path) -> CellRecord | None:
    try:
        return CellRecord.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
