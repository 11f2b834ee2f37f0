"""What a measurement cell does: call a measure on a data set, and check and record what it returns."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from threadpoolctl import threadpool_limits

from mtlrun.core.ownmodules import import_named
from mtlrun.core.records import NOT_CONVERGED, OK
from mtlrun.data.dataset import Dataset
from mtlrun.experiments.featuresteps import with_all_rows
from mtlrun.experiments.host import host_facts
from mtlrun.experiments.measures.measurement import Measurement
from mtlrun.experiments.measures.registry import MEASURES
from mtlrun.experiments.trial import NOT_CONVERGED_MARK, load_data, noted_warnings


def take(inputs: Mapping[str, Any], data_dir: str | None, serial: bool) -> dict[str, Any]:
    """Compute one measurement cell.

    Parameters
    ----------
    inputs : mapping
        Of the cell.
    data_dir : str or None
    serial : bool
        Whether nothing else of this run computes at the same time; only recorded.

    Returns
    -------
    dict
        Fields of a `CellRecord`: status, metrics, per_task, counts, seconds, solver, result, environment, log.

    Raises
    ------
    DataError
        If the files are not those of the plan any more.
    TypeError, ValueError
        If the measure returns no `Measurement`, or a quantity that is not its own.
    Exception
        Whatever the measure raises.
    """
    started = time.perf_counter()
    dataset = with_all_rows(inputs, load_data(inputs, data_dir)) if inputs["dataset"]["id"] else None
    path, params = inputs["measure"]["measure"], inputs["measure"]["params"]
    module, _, name = path.partition(":")
    measure = getattr(import_named(module), name)
    threads = (inputs["timing"] or {"threads": 1})["threads"]
    with threadpool_limits(limits=threads), noted_warnings() as texts:
        found = measure(dataset, seed=inputs["split"]["seed"], **params)
    _check(found, path)
    converged = found.solver.get("converged", not any(text.startswith(NOT_CONVERGED_MARK) for text in texts))
    return {
        "status": OK if converged else NOT_CONVERGED,
        "metrics": {name: float(value) for name, value in found.values.items()},
        "per_task": found.per_task,
        "counts": _counts(dataset),
        "seconds": {"total": time.perf_counter() - started},
        "solver": found.solver,
        "result": _result(found),
        "environment": {"threads": threads, "serial": serial, **host_facts()},
        "log": "\n".join(dict.fromkeys(text.removeprefix(NOT_CONVERGED_MARK) for text in texts)) or None,
    }


def _check(found: Any, path: str) -> None:
    """Refuse what is no measurement, and quantities that the registry does not know for the measure."""
    if not isinstance(found, Measurement):
        raise TypeError(f"{path} returned a {type(found).__name__}, not a Measurement")
    info = next((info for info in MEASURES.values() if info.path == path), None)
    unknown = [] if info is None else [name for name in found.values if name not in info.quantities]
    if unknown:
        raise ValueError(f"{path} returned quantities that its registry entry lacks: {', '.join(unknown)}")


def _counts(dataset: Dataset | None) -> dict[str, int]:
    if dataset is None:
        return {}
    return {"n_tasks": dataset.n_tasks, "n_samples": dataset.n_samples, "n_features": dataset.n_features}


def _result(found: Measurement) -> dict[str, Any]:
    """Return curves, matrices, lines and tables as plain data, without those that are empty."""
    plain: dict[str, Any] = {
        "curves": {name: dataclasses.asdict(curve) for name, curve in found.curves.items()},
        "matrices": {name: dataclasses.asdict(matrix) for name, matrix in found.matrices.items()},
        "lines": list(found.lines),
        "tables": dict(found.tables),
    }
    return {name: part for name, part in plain.items() if part}
