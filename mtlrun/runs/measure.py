"""What a measurement does: call a measure on a data set, check and record what it returns."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import replace
from typing import Any

from threadpoolctl import threadpool_limits

from mtlrun.data.dataset import Dataset
from mtlrun.papers.measure import Declaration, Measurement, measure_path
from mtlrun.record import NOT_CONVERGED, OK, Record, host_facts
from mtlrun.runs.cell import Cell
from mtlrun.runs.fit import NOT_CONVERGED_MARK, UNTIMED, make_step, noted_warnings
from mtlrun.utils.plugins import import_named


def measure_cell(cell: Cell, data: Dataset | None) -> Record:
    """Compute a measurement.

    Parameters
    ----------
    cell : Cell
        Of the family ``measure``.
    data : Dataset or None
        None for measures of published numbers; a feature step is learned on all its rows.

    Raises
    ------
    TypeError, ValueError
        If the measure returns no `Measurement`, or a quantity that is not its own.
    Exception
        Whatever the measure raises.
    """
    started = time.perf_counter()
    if data is not None and cell.features is not None:
        data = replace(data, X=make_step(cell.features, data).fit_transform(data.X), features=[])
    module, _, name = measure_path(cell.method.measure).partition(":")
    measure = getattr(import_named(module), name)
    threads = (cell.scoring.timing or UNTIMED).threads
    with threadpool_limits(limits=threads), noted_warnings() as texts:
        found = measure(data, seed=cell.split.seed, **cell.method.params)
    _check(found, cell.method.measure, getattr(measure, "declaration", None))
    converged = found.solver.get("converged", not any(text.startswith(NOT_CONVERGED_MARK) for text in texts))
    return cell.record(
        status=OK if converged else NOT_CONVERGED,
        log="\n".join(dict.fromkeys(text.removeprefix(NOT_CONVERGED_MARK) for text in texts)) or None,
        params=dict(cell.method.params),
        metrics={name: float(value) for name, value in found.values.items()},
        per_task=found.per_task,
        counts={}
        if data is None
        else {"n_tasks": data.n_tasks, "n_samples": data.n_samples, "n_features": data.n_features},
        seconds={"total": time.perf_counter() - started},
        solver=found.solver,
        environment={"threads": threads, **host_facts()},
        result={**_result(found), **({} if data is None or not found.per_task else {"tasks": list(data.tasks)})},
    )


def _check(found: Any, path: str, declaration: Declaration | None) -> None:
    """Refuse what is no measurement, and quantities that the measure does not declare."""
    if not isinstance(found, Measurement):
        raise TypeError(f"{path} returned a {type(found).__name__}, not a Measurement")
    unknown = [name for name in found.values if declaration and name not in declaration.quantities]
    if unknown:
        raise ValueError(f"{path} returned quantities that it does not declare: {', '.join(unknown)}")


def _result(found: Measurement) -> dict[str, Any]:
    """Return curves, matrices, rankings, lines and tables as plain data, without those that are empty."""
    plain: dict[str, Any] = {
        "curves": {name: dataclasses.asdict(curve) for name, curve in found.curves.items()},
        "matrices": {name: dataclasses.asdict(matrix) for name, matrix in found.matrices.items()},
        "rankings": [dataclasses.asdict(scores) for scores in found.rankings],
        "lines": list(found.lines),
        "tables": dict(found.tables),
    }
    return {name: part for name, part in plain.items() if part}
