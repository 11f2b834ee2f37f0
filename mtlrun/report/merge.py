"""Cells of another machine, taken into the folder of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtlrun.core.errors import DataError, counted
from mtlrun.core.records import CellRecord, write_atomic
from mtlrun.report.folder import CELLS, PROVENANCE, Run, read_json, read_record, read_run
from mtlrun.report.text import show

#: Numbers of one cell from two machines may differ by this much, relatively.
SAME = 1e-6
SELECTION = "selection"
Explain = Callable[[Mapping[str, Any], Mapping[str, Any]], str]


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
    conflicts : list of str
        Cells that have other numbers there, and cells of the plan that were computed there in another way.
    """

    copied: int = 0
    known: int = 0
    foreign: int = 0
    unfinished: int = 0
    conflicts: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = {
            "finished here already": self.known,
            "of other experiments, settings or versions": self.foreign,
            "not finished there": self.unfinished,
        }
        rest = [f"{count} {what}" for what, count in told.items() if count]
        return f"{counted(self.copied, 'cell')} taken" + f" ({', '.join(rest)})" * bool(rest)


def merge(folder: Path, other: Path, *, explain: Explain | None = None) -> Merged:
    """Copy the finished cells of another run folder that the plan of a run lacks, and note where they were computed.

    Parameters
    ----------
    folder : Path
        Of the run: its plan decides what is taken. A key says everything that a number depends on: cells of one key are
        the same cell, whichever machine computed them.
    other : Path
        A run folder; only its ``cells/`` and ``provenance.json`` are read.
    explain : callable, optional
        Says how the inputs of two cells differ.

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
            merged.conflicts += _other_way(run, record, here.values(), explain)
        elif key in here:
            merged.known += 1
            merged.conflicts += _other_numbers(here[key], record)
        else:
            _copy(Path(other), Path(folder), key)
            merged.copied += 1
    if merged.copied:
        _merge_provenance(Path(folder), Path(other))
    return merged


def _other_numbers(ours: CellRecord, theirs: CellRecord) -> list[str]:
    """Name the metrics in which two records of one cell differ; seconds always do."""
    told = []
    for name in sorted({*ours.metrics, *theirs.metrics}):
        a, b = ours.metrics.get(name), theirs.metrics.get(name)
        same = a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=SAME, abs_tol=SAME))
        if not same and "second" not in name:
            told.append(f"{name} is {show(a, 'number')} here and {show(b, 'number')} there")
    return [f"{_name(ours)}: {', '.join(told)}; ours is kept"] if told else []


def _other_way(run: Run, theirs: CellRecord, ours: Iterable[CellRecord], explain: Explain | None) -> list[str]:
    """Say how a cell that the plan has under another key was computed."""
    trial = theirs.split.get("trial", 0)
    planned = {(cell.dataset, cell.method, cell.trial) for cell in run.planned}
    if theirs.kind == SELECTION or theirs.experiment != run.info.get("id"):
        return []
    if (theirs.dataset, theirs.method, trial) not in planned:
        return []
    like = [r for r in ours if (r.kind, r.dataset, r.method) == (theirs.kind, theirs.dataset, theirs.method)]
    if not like or explain is None:
        return [f"{_name(theirs)}: computed there with other settings or another version; not taken"]
    nearest = min(like, key=lambda record: record.split.get("trial", 0) != trial)
    why = explain(*({**record.inputs, "split": None, "selection": None} for record in (nearest, theirs)))
    return [f"{_name(theirs)}: computed there in another way, not taken: {why or 'another search or split'}"]


def _name(record: CellRecord) -> str:
    return f"{record.dataset} / {record.method} / trial {record.split.get('trial', 0)}"


def _copy(source: Path, target: Path, key: str) -> None:
    """Copy a cell, the scores kept beside it first."""
    for name in (f"{key}.npz", f"{key}.json"):
        if (source / CELLS / name).is_file() and not (source / CELLS / name).is_symlink():
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
        return None if path.is_symlink() else read_record(path)
    except (OSError, ValueError):
        return None
