"""Scenarios of an experiment: the data sets, or the points of a sweep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mtlrun.catalog.methods import analysis_parameters, complete, has_parameter
from mtlrun.engine.job import with_params
from mtlrun.lab.experiment.spec import (
    PUBLISHED,
    DatasetSpec,
    FeatureStep,
    MethodSpec,
    Spec,
    SplitSpec,
    Sweep,
)
from mtlrun.show.report_table import show


@dataclass(frozen=True)
class Scenario:
    """Data and protocol on which methods are compared: one table of the report.

    Attributes
    ----------
    index : int
        Position of the data set in the file.
    name : str
        Label in tables: the label of the data set, in a sweep with the value of the
        axis.
    dataset : DatasetSpec or None
        None for analyses of published numbers.
    split : SplitSpec or None
        None for analyses.
    trials : int
        Number of splits, or of repeats of an analysis.
    metrics : list of str
    features : FeatureStep
        Step that is learned on the training rows (on all rows, for analyses).
    methods : tuple of MethodSpec
    axis : dict
        ``{"of": label of the data set, "value": value of the axis}``; empty without a
        sweep.
    """

    index: int
    name: str
    dataset: DatasetSpec | None
    split: SplitSpec | None
    trials: int
    metrics: list[str]
    features: FeatureStep
    methods: tuple[MethodSpec, ...]
    axis: dict[str, Any]


def scenarios(spec: Spec) -> list[Scenario]:
    """Return the scenarios of an experiment in the order of its tables.

    There is one for each data set. In a sweep, there is one for each data set and value
    of the axis.
    """
    scenarios_in_order = []
    for scenario in _datasets(spec):
        if spec.sweep is None:
            scenarios_in_order.append(scenario)
            continue
        left_out = spec.sweep.leave_out.get(scenario.name, [])
        for value in spec.sweep.values:
            if value not in left_out:
                scenarios_in_order.append(_at_value(scenario, spec.sweep, value))
    return scenarios_in_order


def _datasets(spec: Spec) -> list[Scenario]:
    """Return a scenario for each data set; without data sets, for published numbers.

    Sections of a data set take precedence over the experiment's.
    """
    scenarios_of_datasets = []
    for index, dataset in enumerate(spec.datasets or [None]):
        name = PUBLISHED
        split = spec.split
        metrics = spec.metrics
        features = spec.features
        methods = spec.methods
        if dataset is not None:
            name = dataset.name
            split = dataset.split or split
            metrics = dataset.metrics or metrics
            features = dataset.features or features
            methods = [method for method in methods if method.applies_to(dataset)]
        trials = spec.repeats
        if split is not None:
            trials = split.n_trials
        scenario = Scenario(
            index=index,
            name=name,
            dataset=dataset,
            split=split,
            trials=trials,
            metrics=metrics,
            features=features,
            methods=tuple(methods),
            axis={},
        )
        scenarios_of_datasets.append(scenario)
    return scenarios_of_datasets


def _at_value(scenario: Scenario, sweep: Sweep, value: object) -> Scenario:
    """Return a scenario at one value of the axis of a sweep.

    Methods take the value for the parameters of the axis that they have.
    """
    dataset = scenario.dataset
    if dataset is not None and sweep.option is not None:
        fields = {**dataset.model_dump(), sweep.option: value}
        dataset = DatasetSpec.model_validate(fields)
    split = scenario.split
    if split is not None and sweep.split is not None:
        split = split.model_copy(update={sweep.split: value})
    names = sweep.params or []
    methods = []
    for method in scenario.methods:
        params = method.params
        if method.measure:
            valid_names = analysis_parameters(method.measure)
            # None means that the analysis accepts any parameter.
            values = {
                n: value for n in names if valid_names is None or n in valid_names
            }
            params = {**params, **values}
        else:
            complete_params = complete(method.estimator, params)
            values = {}
            for name in names:
                if has_parameter(method.estimator, complete_params, name):
                    values[name] = value
            if values:
                # ``base__alpha`` may belong to an estimator that is a default.
                params = with_params(complete_params, values)
        methods.append(method.model_copy(update={"params": params}))
    return replace(
        scenario,
        name=f"{scenario.name} ({sweep.name} {show(value)})",
        dataset=dataset,
        split=split,
        methods=tuple(methods),
        axis={"of": scenario.name, "value": value},
    )
