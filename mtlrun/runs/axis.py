"""The settings of an experiment: its data sets, and for a sweep each of them at every value of the axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mtlrun.report.grid import show
from mtlrun.runs.cell import with_params
from mtlrun.runs.methods import complete, has_parameter, measure_parameters
from mtlrun.runs.spec import PUBLISHED, DatasetSpec, FeatureStep, Method, Spec, Split, Sweep


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
    metrics : list of str
    features : FeatureStep
        Step that is learned on the training rows (on all rows, for measurements).
    methods : tuple of Method
    axis : dict
        ``{"of": label of the data set, "value": value of the axis}``; empty without a sweep.
    """

    index: int
    name: str
    dataset: DatasetSpec | None
    split: Split | None
    trials: int
    metrics: list[str]
    features: FeatureStep
    methods: tuple[Method, ...]
    axis: dict[str, Any]


def settings(spec: Spec) -> list[Setting]:
    """Return the settings in the order of the tables."""
    datasets: list[DatasetSpec | None] = list(spec.datasets) or [None]
    places = [_place(spec, i, dataset) for i, dataset in enumerate(datasets)]
    if spec.sweep is None:
        return places
    return [_at(place, spec.sweep, value) for place in places for value in spec.sweep.values]


def _place(spec: Spec, index: int, dataset: DatasetSpec | None) -> Setting:
    """Return a data set with its split, metrics and features: its own, else those of the experiment."""
    split = (dataset.split if dataset else None) or spec.split
    return Setting(
        index,
        dataset.name if dataset else PUBLISHED,
        dataset,
        split,
        split.n_trials if split else spec.repeats,
        (dataset.metrics if dataset else None) or spec.metrics,
        (dataset.features if dataset else None) or spec.features,
        tuple(method for method in spec.methods if dataset is None or method.takes(dataset)),
        {},
    )


def _at(place: Setting, sweep: Sweep, value: Any) -> Setting:
    """Return a setting at one value of the axis."""
    dataset, split = place.dataset, place.split
    if sweep.option is not None and dataset is not None:
        dataset = DatasetSpec.model_validate({**dataset.model_dump(), sweep.option: value})
    if sweep.split is not None and split is not None:
        split = split.model_copy(update={sweep.split: value})
    return replace(
        place,
        name=f"{place.name} ({sweep.name} {show(value)})",
        dataset=dataset,
        split=split,
        methods=tuple(_changed(method, sweep.params or [], value) for method in place.methods),
        axis={"of": place.name, "value": value},
    )


def _changed(method: Method, names: list[str], value: Any) -> Method:
    """Return a method with the value in those of the parameters that it has."""
    if method.measure:
        known = measure_parameters(method.measure)
        changes = {name: value for name in names if known is None or name in known}
        return method.model_copy(update={"params": {**method.params, **changes}})
    given = complete(method.estimator, method.params)
    changes = {name: value for name in names if has_parameter(method.estimator, given, name)}
    return method.model_copy(update={"params": with_params(given, changes)}) if changes else method
