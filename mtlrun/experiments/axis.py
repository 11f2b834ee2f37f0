"""The settings of an experiment: its data sets, and for a sweep each of them at every value of the axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mtlrun.experiments.methods import complete, has_parameter, with_params
from mtlrun.experiments.schema import DatasetSpec, ExperimentSpec, Method, Split, Sweep
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
    dataset : DatasetSpec
    split : Split
    methods : tuple of Method
    axis : dict
        ``{"of": label of the data set, "value": value of the axis}``; empty without a sweep.
    """

    index: int
    name: str
    dataset: DatasetSpec
    split: Split
    methods: tuple[Method, ...]
    axis: dict[str, Any]


def settings(spec: ExperimentSpec) -> list[Setting]:
    """Return the settings in the order of the tables."""
    if spec.sweep is None:
        return [Setting(i, d.name, d, spec.split, tuple(spec.methods), {}) for i, d in enumerate(spec.datasets)]
    return [_setting(spec, spec.sweep, i, d, v) for i, d in enumerate(spec.datasets) for v in spec.sweep.values]


def _setting(spec: ExperimentSpec, sweep: Sweep, index: int, dataset: DatasetSpec, value: Any) -> Setting:
    changed = dataset
    if sweep.option is not None:
        changed = DatasetSpec.model_validate({**dataset.model_dump(), sweep.option: value})
    split = spec.split if sweep.split is None else spec.split.model_copy(update={sweep.split: value})
    methods = tuple(_changed(method, sweep.params or [], value) for method in spec.methods)
    name = f"{dataset.name} ({sweep.name} {show(value)})"
    return Setting(index, name, changed, split, methods, {"of": dataset.name, "value": value})


def _changed(method: Method, names: list[str], value: Any) -> Method:
    """Return a method with the value in those of the parameters that it has."""
    given = complete(method.estimator, method.params)
    changes = {name: value for name in names if has_parameter(method.estimator, given, name)}
    return method.model_copy(update={"params": with_params(given, changes)}) if changes else method
