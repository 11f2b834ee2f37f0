"""What is done to the features before a fit, learned on the training rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from mtlrun.data.dataset import Dataset
from mtlrun.experiments.trial import Part
from mtlrun.features import WeightedDegree
from mtlrun.features.table import TableFeatures
from mtlrun.runs.trainspec import FeatureStep


def cell_part(inputs: Mapping[str, Any], dataset: Dataset, train: np.ndarray, test: np.ndarray) -> Part:
    """Return rows of a data set as a part, with the feature step of a cell, if it has one."""
    name = inputs.get("features")
    return with_features(Part.of(dataset, train, test), FeatureStep(kind=name) if name else None)[0]


def with_all_rows(inputs: Mapping[str, Any], dataset: Dataset) -> Dataset:
    """Return the data set of a measurement with its feature step, if it has one, learned on all rows."""
    if not inputs.get("features"):
        return dataset
    X = _step(FeatureStep(kind=inputs["features"]), dataset).fit_transform(dataset.X)
    return replace(dataset, X=X, features=[])


def with_features(part: Part, features: FeatureStep | None) -> tuple[Part, Any]:
    """Return the part with the feature step applied, learned on its training rows, and the step."""
    if features is None:
        return part, None
    step = _step(features, part.train)
    train = replace(part.train, X=step.fit_transform(part.train.X), features=[])
    return replace(part, train=train, test=replace(part.test, X=step.transform(part.test.X), features=[])), step


def _step(features: FeatureStep, dataset: Dataset) -> Any:
    sparse = not isinstance(dataset.X, np.ndarray)
    if features.kind == "table":
        return TableFeatures({dataset.features.index(name): words for name, words in dataset.categories.items()})
    if features.kind == "standardize":
        return StandardScaler(with_mean=not sparse)
    if features.kind == "max-abs":
        return MaxAbsScaler()
    options = features.model_dump(exclude={"kind"}, exclude_none=True)
    return WeightedDegree(degree=1) if features.kind == "one-hot" else WeightedDegree(**options)
