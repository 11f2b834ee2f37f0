"""The settings of an experiment: its data sets, and for a sweep each of them at every value of the axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mtlrun.experiments.measures.lookup import measure_parameters
from mtlrun.experiments.methods import complete, has_parameter, with_params
from mtlrun.experiments.schema import PUBLISHED, DatasetSpec, ExperimentSpec, Method, Split, Sweep
from mtlrun.report.text import show


@dataclass(frozen=True)
class Setting:
    """What the methods are compared on: one table of the report.

    Attributes
    ----------
    index : int
        Of the data set in the file.
    name : str
        Label in tables: that of the data set, with the value of the axis for a sweep.
    dataset : DatasetSpec or None
        None for measures of published numbers.
    split : Split or None
        None for measurements.
    trials : int
        Splits, or repeats of a measurement.
    methods : tuple of Method
    axis : dict
        ``{"of": label of the data set, "value": value of the axis}``; empty without a sweep.
    """

    index: int
    name: str
    dataset: DatasetSpec | None
    split: Split | None
    trials: int
    methods: tuple[Method, ...]
    axis: dict[str, Any]


def settings(spec: ExperimentSpec) -> list[Setting]:
    """Return the settings in the order of the tables."""
    datasets: list[DatasetSpec | None] = list(spec.datasets) or [None]
    if spec.sweep is None:
        return [
            Setting(i, d.name if d else PUBLISHED, d, spec.split, spec.n_trials, tuple(spec.methods), {})
            for i, d in enumerate(datasets)
        ]
    return [_setting(spec, spec.sweep, i, d, v) for i, d in enumerate(datasets) for v in spec.sweep.values]


def _setting(spec: ExperimentSpec, sweep: Sweep, index: int, dataset: DatasetSpec | None, value: Any) -> Setting:
    changed = dataset
    if sweep.option is not None and dataset is not None:
        changed = DatasetSpec.model_validate({**dataset.model_dump(), sweep.option: value})
    split = spec.split
    if split is not None and sweep.split is not None:
        split = split.model_copy(update={sweep.split: value})
    methods = tuple(_changed(method, sweep.params or [], value) for method in spec.methods)
    place = dataset.name if dataset else PUBLISHED
    name = f"{place} ({sweep.name} {show(value)})"
    return Setting(index, name, changed, split, spec.n_trials, methods, {"of": place, "value": value})


def _changed(method: Method, names: list[str], value: Any) -> Method:
    """Return a method with the value in those of the parameters that it has."""
    if method.measure:
        known = measure_parameters(method.measure)
        changes = {name: value for name in names if known is None or name in known}
        return method.model_copy(update={"params": {**method.params, **changes}})
    given = complete(method.estimator, method.params)
    changes = {name: value for name in names if has_parameter(method.estimator, given, name)}
    return method.model_copy(update={"params": with_params(given, changes)}) if changes else method
