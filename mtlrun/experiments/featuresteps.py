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


def cell_part(inputs: Mapping[str, Any], dataset: Dataset, train: np.ndarray, test: np.ndarray) -> Part:
    """Return rows of a data set as a part, with the feature step of a cell, if it has one."""
    name = inputs.get("features")
    return with_features(Part.of(dataset, train, test), {"kind": name} if name else None)[0]


def with_all_rows(inputs: Mapping[str, Any], dataset: Dataset) -> Dataset:
    """Return the data set of a measurement with its feature step, if it has one, learned on all rows."""
    if not inputs.get("features"):
        return dataset
    X = _step({"kind": inputs["features"]}, dataset).fit_transform(dataset.X)
    return replace(dataset, X=X, features=[])


def with_features(part: Part, features: Mapping[str, Any] | None) -> tuple[Part, Any]:
    """Return the part with the feature step ``{"kind": ..., option: ...}`` applied, learned on its training rows.

    Returns
    -------
    part : Part
    step : object
        Fitted; None where there is none.
    """
    if features is None:
        return part, None
    step = _step(features, part.train)
    train = replace(part.train, X=step.fit_transform(part.train.X), features=[])
    return replace(part, train=train, test=replace(part.test, X=step.transform(part.test.X), features=[])), step


def _step(features: Mapping[str, Any], dataset: Dataset) -> Any:
    kind = features["kind"]
    sparse = not isinstance(dataset.X, np.ndarray)
    if kind == "table":
        return TableFeatures({dataset.features.index(name): words for name, words in dataset.categories.items()})
    if kind == "standardize":
        return StandardScaler(with_mean=not sparse)
    if kind == "max-abs":
        return MaxAbsScaler()
    options = {name: value for name, value in features.items() if name != "kind"}
    return WeightedDegree(degree=1) if kind == "one-hot" else WeightedDegree(**options)
