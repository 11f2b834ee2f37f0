"""Cells of another machine, taken into the store of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mtlrun.errors import DataError, counted
from mtlrun.record import CELLS, PACKED, Record, Records
from mtlrun.report.grid import show
from mtlrun.report.run import Run, checked, read_run
from mtlrun.report.stored import read_json
from mtlrun.runs.store import PROVENANCE, Store
from mtlrun.runs.survey import explain

#: Numbers of one cell from two machines may differ by this much, relatively.
SAME = 1e-6


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
        counts = {
            "already finished here": self.known,
            "of other experiments, settings or versions": self.foreign,
            "not finished there": self.unfinished,
        }
        rest = [f"{count} {what}" for what, count in counts.items() if count]
        return f"{counted(self.copied, 'cell')} copied" + f" ({', '.join(rest)})" * bool(rest)


def merge(folder: Path, other: Path) -> Merged:
    """Copy the finished cells of another folder that the plan of a run lacks, and note where they were computed.

    Parameters
    ----------
    folder : Path
        Of the run: its plan decides what is taken. A key says everything that a number depends on: cells of one key are
        the same cell, whichever machine computed them.
    other : Path
        The folder of a run, with its ``cells.jsonl.gz`` or the ``cells/`` of its output folder, or a folder of runs.

    Raises
    ------
    DataError
        If one of the folders is not one of a run.
    OSError
        If the folder cannot be written.
    """
    run = read_run(folder)
    theirs, stored = _records(Path(other))
    here = {key: record for key, record in run.cells.items() if record.done}
    wanted = {cell.key for cell in run.all_planned}
    output = Records.of_run(folder).cells.parent
    store = Store(output, folder)
    merged = Merged()
    for key, record in theirs.items():
        if record is None or not record.done:
            merged.unfinished += 1
        elif key not in wanted:
            merged.foreign += 1
        elif key in here:
            merged.known += 1
            merged.conflicts += _other_numbers(_name(run, key), here[key], record)
        else:
            if (scores := stored.scores(record)) is not None:
                store.copy_scores(key, scores)
            store.save(record)
            merged.copied += 1
    merged.conflicts += _other_ways(run, Path(other), theirs)
    if merged.copied:
        store.pack(wanted)
        store.add_provenance((read_json(Path(other) / PROVENANCE) or {}).get("runs") or [])
    return merged


def _records(other: Path) -> tuple[dict[str, Record | None], Records]:
    """Return the records of another folder by key, None for those that cannot be read."""
    stored = Records.of_run(other) if (other / "run.json").is_file() else Records(other)
    if not (other / PACKED).is_file() and not stored.cells.is_dir():
        raise DataError(
            f"{other} is not the folder of a run: there is no {PACKED} and no {CELLS}/ in it",
            "Give <output>/<paper>/<artefact>/<profile>.",
        )
    keys: Iterable[str]
    if (other / "run.json").is_file():
        keys = dict.fromkeys(cell.key for cell in read_run(other).all_planned)
        keys = [key for key in keys if stored.has(key)]
    else:
        keys = sorted(path.stem for path in stored.cells.glob("*.json") if not path.is_symlink())
    found: dict[str, Record | None] = {}
    for key in keys:
        try:
            record = stored.read(key)
            if record is not None:
                stored.scores(record)  # raises where they are damaged
            found[key] = None if record is None else checked(record)
        except ValueError:
            found[key] = None
    return found, stored


def _other_numbers(name: str, ours: Record, theirs: Record) -> list[str]:
    """Name the metrics in which two records of one cell differ; seconds always do."""
    differences = []
    for metric in sorted({*ours.metrics, *theirs.metrics}):
        a, b = ours.metrics.get(metric), theirs.metrics.get(metric)
        same = a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=SAME, abs_tol=SAME))
        if not same and "second" not in metric:
            differences.append(f"{metric} is {show(a, 'number')} here and {show(b, 'number')} there")
    return [f"{name}: {', '.join(differences)}; the one here is kept"] if differences else []


def _other_ways(run: Run, other: Path, theirs: dict[str, Record | None]) -> list[str]:
    """Say how cells that the plan has under another key were computed."""
    if not (other / "run.json").is_file():
        return []
    there = read_run(other)
    if there.info.get("id") != run.info.get("id"):
        return []
    here = {(cell.dataset, cell.method, cell.trial): cell for cell in run.planned}
    lines = []
    for cell in there.planned:
        mine, record = here.get((cell.dataset, cell.method, cell.trial)), theirs.get(cell.key)
        if mine is None or mine.key == cell.key or record is None or not record.done:
            continue
        known = run.cells.get(mine.key)
        why = "" if known is None else explain(record, known)
        lines.append(f"{cell.name}: not copied, computed differently there: {why or 'other settings or version'}")
    return lines


def _name(run: Run, key: str) -> str:
    return next((cell.name for cell in run.all_planned if cell.key == key), key[:16])
