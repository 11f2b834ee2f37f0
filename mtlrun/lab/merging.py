"""Copy the finished jobs of another machine into a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mtlrun.engine.packed import PACKED, is_without_plan
from mtlrun.engine.record import CELLS, Record
from mtlrun.engine.store import Store
from mtlrun.engine.stored import PROVENANCE, RUN_FILE, read_json, read_raw
from mtlrun.errors import DataError, counted
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.run import (
    MISSING,
    Run,
    all_planned_jobs,
    cleaned_record,
    jobs_with_outcome,
    read_run,
    storable_tests,
    stored_tests,
)
from mtlrun.utils.processes import exclusive_lock


@dataclass
class Merged:
    """Counts of the jobs of another folder.

    Attributes
    ----------
    copied : int
        Jobs that were finished there, and not here.
    already_here : int
        Jobs that were finished here already.
    foreign : int
        Jobs that are not in the plan of the run here.
    unfinished : int
        Jobs that failed there, or whose records cannot be read.
    """

    copied: int = 0
    already_here: int = 0
    foreign: int = 0
    unfinished: int = 0

    def __str__(self) -> str:
        counts = {
            "already finished here": self.already_here,
            "of other experiments, settings or versions": self.foreign,
            "not finished there": self.unfinished,
        }
        others = [f"{count} {reason}" for reason, count in counts.items() if count]
        text = f"{counted(self.copied, 'result')} copied"
        if others:
            text += f" ({', '.join(others)})"
        return text


def merge(folder: Path, other: Path, wait: Callable[[], None] = lambda: None) -> Merged:
    """Copy the finished jobs of another folder that the plan of a run lacks.

    The provenance of the run says where they were computed.

    Parameters
    ----------
    folder : Path
        Folder of the run, whose plan decides which jobs are copied. A key contains
        everything that a number depends on, so jobs with the same key are the same job,
        whichever machine computed them.
    other : Path
        Folder of a run, with its packed records or the ``cells/`` of its output folder;
        or a folder of runs.
    wait : callable, optional
        Called before waiting for another process that computes the run.

    Raises
    ------
    DataError
        If one of the folders is not the folder of a run, or if the runs have different
        plans. Nothing is copied then.
    OSError
        If the folder cannot be written.
    """
    run = read_run(folder)
    other = Path(other)
    is_compact = is_without_plan(read_raw(folder / RUN_FILE) or {})
    if is_compact and jobs_with_outcome(run, MISSING):
        raise DataError(
            f"{folder} is compact: it does not say which jobs are missing",
            f"Start the run, which writes its plan: {run.experiment.command}",
        )
    # The records of another folder.
    if _is_run(other):
        _refuse_other_plan(run, read_run(other), other)
        theirs = Store.of_run(other)
    else:
        theirs = Store(other)
    has_pack = (other / PACKED).is_file()
    if not has_pack and not theirs.cells_folder.is_dir():
        raise DataError(
            f"{other} is not the folder of a run: there is no {PACKED} and no "
            f"{CELLS}/ in it",
            "Give <output>/<paper>/<artifact>/<profile>.",
        )
    planned_keys = dict.fromkeys(job.key for job in all_planned_jobs(run))
    output = Store.of_run(folder).cells_folder.parent
    store = Store(output, folder, checks_scores=True)
    merged = Merged()
    if not _is_run(other):
        for path in theirs.cells_folder.glob("*.json"):
            merged.foreign += path.stem not in planned_keys
    store.open()
    with exclusive_lock(store.lock, wait):
        for key in planned_keys:
            # A link may lead out of the folder.
            is_link = (theirs.cells_folder / f"{key}.json").is_symlink()
            if is_link or not theirs.has(key):
                continue
            record = _finished(theirs, key)
            if record is None:
                merged.unfinished += 1
            elif key in run.records and run.records[key].done:
                merged.already_here += 1
            else:
                scores = theirs.scores(record)
                if scores is not None:
                    store.copy_scores(key, scores)
                store.save(record)
                merged.copied += 1
        if merged.copied:
            # Only the packed records of the other run may have its tests.
            our_tests = build_report(folder).run.paired
            tests = {**stored_tests(theirs.packed.paired), **our_tests}
            store.pack(planned_keys, paired=storable_tests(tests))
            provenance = read_json(other / PROVENANCE) or {}
            store.add_provenance(provenance.get("runs") or [])
    return merged


def _is_run(folder: Path) -> bool:
    return (folder / RUN_FILE).is_file()


def _finished(records: Store, key: str) -> Record | None:
    """Return a finished record whose test scores, if it has some, are sound.

    None for other records.
    """
    try:
        record = records.read(key)
        if record is None or not record.done:
            return None
        # Raises an error if the scores are damaged.
        records.scores(record)
        return cleaned_record(record)
    except ValueError:
        return None


def _refuse_other_plan(run: Run, other_run: Run, other: Path) -> None:
    """Refuse a run of another experiment, or with another key of the same job."""
    our_id = run.spec.id
    their_id = other_run.spec.id
    if their_id != our_id:
        raise DataError(
            f"{other} is a run of {their_id}, not of {our_id}",
            "Merge runs of one experiment.",
        )
    our_keys = _planned_keys(run)
    for position, key in _planned_keys(other_run).items():
        # A compact run has short keys of jobs that were never computed.
        if not our_keys.get(position, key).startswith(key):
            _, name = position
            raise DataError(
                f"{other} has another plan: {name} was planned there with other "
                "settings or another version",
                "Run both with the same file, options and version of mtlrun.",
            )


def _planned_keys(run: Run) -> dict[tuple[str, str], str]:
    """Return the key of each planned job by its interpretation and name."""
    keys = {}
    for interpretation in (run, *run.others):
        for job in interpretation.planned:
            keys[interpretation.experiment.reading, job.name] = job.key
    return keys
