"""How a cell is computed: its parts as picklable calls, and how their outcomes make a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtlrun.core.records import FAILED, OK, TIMEOUT, CellRecord
from mtlrun.experiments.cells import SELECTION, Cell
from mtlrun.experiments.plan import Plan
from mtlrun.experiments.pool import Outcome
from mtlrun.experiments.store import Store

#: Numbers of a finished cell that are shown; measures may return many.
SHOWN = 6


@dataclass
class Work:
    """One cell in flight: the arguments of its parts, what became of them, and how they make a record."""

    arguments: list[tuple[Any, ...]]
    finish: Callable[[list[Outcome]], CellRecord]
    outcomes: dict[int, Outcome] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """A kind of cell: the function that computes a part of it, how its work is made, whether it may be timed."""

    function: Callable[..., dict[str, Any]]
    make: Callable[[Plan, Store, Cell, bool], Work]
    timed: bool = True


def _fit_fold(*arguments: Any) -> dict[str, Any]:
    """Compute one fold of a selection; the import is here because a finished run needs none of it."""
    from mtlrun.experiments.selection import fit_fold

    return fit_fold(*arguments)


def _evaluate(*arguments: Any) -> dict[str, Any]:
    """Compute an evaluation."""
    from mtlrun.experiments.evaluate import evaluate

    return evaluate(*arguments)


def _measure(*arguments: Any) -> dict[str, Any]:
    """Take a measurement."""
    from mtlrun.experiments.measuring import take

    return take(*arguments)


def _selection_work(plan: Plan, store: Store, cell: Cell, serial: bool) -> Work:
    data_dir = _text(plan.data_dir)
    folds = range(cell.inputs["search"]["folds"])

    def finish(outcomes: list[Outcome]) -> CellRecord:
        from mtlrun.experiments.selection import combine

        record = new_record(plan, cell)
        bad = next((outcome for outcome in outcomes if outcome.status != OK), None)
        if bad is not None:
            record.status, record.error, record.log = bad.status, bad.error, bad.log
            return record
        results = [outcome.value for outcome in outcomes]
        record.selection = combine(cell.inputs, results)
        record.seconds = {"folds": [r["seconds"] for r in results], "total": sum(r["seconds"] for r in results)}
        if record.selection["chosen"] is None:
            errors = [text for candidate in record.selection["candidates"] for text in candidate["errors"]]
            why = errors[0] if errors else "the metric is undefined in every fold"
            record.status, record.error = FAILED, f"no candidate has a score: {why}"
            record.log = "\n".join(errors) or None
        return record

    return Work([(dict(cell.inputs), data_dir, fold) for fold in folds], finish)


def without_selection(plan: Plan, store: Store, cell: Cell) -> CellRecord | None:
    """Return the record of an evaluation that cannot start because its selection failed, else None."""
    if cell.needs is None:
        return None
    searched = store.load(cell.needs)
    if searched is not None and searched.done:
        return None
    why = searched.error if searched else "its record cannot be read"
    record = new_record(plan, cell)
    record.status, record.error = FAILED, f"selection: {why}"
    record.log = searched.log if searched else None
    record.selection = {"key": cell.needs}
    return record


def _evaluation_work(plan: Plan, store: Store, cell: Cell, serial: bool) -> Work:
    facts: dict[str, Any] = {}
    searched = store.load(cell.needs) if cell.needs else None
    if searched is not None:
        facts = {name: searched.selection[name] for name in ("chosen", "score", "metric", "ties", "edges")}
        facts["key"] = cell.needs

    def finish(outcomes: list[Outcome]) -> CellRecord:
        scores = (outcomes[0].value or {}).pop("scores", None)
        record = _recorded(plan, cell, outcomes[0])
        record.selection = facts
        if scores is not None:  # written before the record: a finished cell has them
            record.result["predictions"] = store.save_scores(cell.key, scores)
        return record

    return Work([(dict(cell.inputs), _text(plan.data_dir), facts.get("chosen") or {}, serial)], finish)


def _measurement_work(plan: Plan, store: Store, cell: Cell, serial: bool) -> Work:
    def finish(outcomes: list[Outcome]) -> CellRecord:
        record = _recorded(plan, cell, outcomes[0])
        record.params = dict(cell.inputs["measure"]["params"])
        return record

    return Work([(dict(cell.inputs), _text(plan.data_dir), serial)], finish)


def _recorded(plan: Plan, cell: Cell, outcome: Outcome) -> CellRecord:
    """Return the record of a cell of one part; what was stopped has the limit in its seconds."""
    record = new_record(plan, cell)
    record.status, record.error, record.log = outcome.status, outcome.error, outcome.log
    limits = plan.experiment.spec.limits
    if outcome.status == TIMEOUT and limits is not None:
        record.seconds = {"limit": limits.seconds}
    for name, value in (outcome.value or {}).items():
        setattr(record, name, value)
    return record


def new_record(plan: Plan, cell: Cell) -> CellRecord:
    """Return the record of a cell before anything is known about it."""
    return CellRecord(
        key=cell.key,
        kind=cell.kind,
        experiment=plan.experiment.id,
        profile=plan.experiment.profile,
        dataset=cell.dataset,
        method=cell.method,
        split=dict(cell.inputs["split"]),
        inputs=dict(cell.inputs),
    )


def note(record: CellRecord) -> str:
    """Return what is worth saying about a finished cell."""
    if not record.done:
        return record.error or ""
    if record.kind == SELECTION:
        return ", ".join(f"{name}={value}" for name, value in record.selection["chosen"].items())
    shown = [f"{name} {value:.4g}" for name, value in record.metrics.items() if value is not None and value == value]
    if record.seconds.get("fit") is not None:
        shown.append(f"fit {record.seconds['fit']:.3g} s")
    more = ["..."] * (len(shown) > SHOWN)
    return ", ".join(shown[:SHOWN] + more)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


SELECTIONS = Phase(_fit_fold, _selection_work, timed=False)
EVALUATIONS = Phase(_evaluate, _evaluation_work)
MEASUREMENTS = Phase(_measure, _measurement_work)
