"""Cells of another machine, taken into the store of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mtlrun.errors import DataError, counted
from mtlrun.record import CELLS, PACKED, Record, Records
from mtlrun.report.run import Run, checked, read_run
from mtlrun.report.stored import read_json
from mtlrun.runs.store import PROVENANCE, Store


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
        counts = {
            "already finished here": self.known,
            "of other experiments, settings or versions": self.foreign,
            "not finished there": self.unfinished,
        }
        rest = [f"{count} {what}" for what, count in counts.items() if count]
        copied = f"{counted(self.copied, 'cell')} copied"
        return f"{copied} ({', '.join(rest)})" if rest else copied


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
        If one of the folders is not one of a run, or is of a run with another plan. Nothing is copied then.
    OSError
        If the folder cannot be written.
    """
    run = read_run(folder)
    if (Path(other) / "run.json").is_file():
        _refuse_other_plan(run, read_run(Path(other)), Path(other))
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
        else:
            if (scores := stored.scores(record)) is not None:
                store.copy_scores(key, scores)
            store.save(record)
            merged.copied += 1
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


def _refuse_other_plan(run: Run, there: Run, other: Path) -> None:
    """Refuse a run of another experiment, or one that has a cell of ours under another key."""
    if (theirs := there.info.get("id")) != (ours := run.info.get("id")):
        raise DataError(f"{other} is a run of {theirs}, not of {ours}", "Merge runs of one experiment.")
    here = {(one.reading, cell.name): cell.key for one in (run, *run.others) for cell in one.planned}
    for reading, cell in ((one.reading, cell) for one in (there, *there.others) for cell in one.planned):
        if here.get((reading, cell.name), cell.key) != cell.key:
            raise DataError(
                f"{other} has another plan: {cell.name} was planned there with other settings or another version",
                "Run both with the same file, options and version of mtlrun.",
            )
