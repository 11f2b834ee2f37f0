"""One line before anything is tuned: how much of the variance the tasks explain, and in which columns they differ."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import WEIGHT
from mtlrun.errors import MtlrunError
from mtlrun.estimators.hierarchical import HierarchicalMTL
from mtlrun.features.table import TableFeatures
from mtlrun.predictions import distinct

#: Tests are at this level. Slopes that are tested, at most, those of the largest variance first; and named.
LEVEL, TESTED, NAMED = 0.05, 40, 5
#: Columns and entries of a table, at most, for which the line is worth its seconds.
MOST_COLUMNS, MOST_ENTRIES = 100, 20_000_000


def differences(dataset: Dataset) -> str | None:
    """Return how tasks of their own rows differ, in words; None where that is not asked or cannot be told.

    A hierarchical model is fitted to all rows. Whether tasks differ at all, and beyond their level, is told by exact
    score tests; in which slopes by restricted likelihood ratios, adjusted by Holm.
    """
    if dataset.task_type != "regression" or dataset.task_id is None or dataset.n_tasks < 2:
        return None
    if sparse.issparse(dataset.X) or dataset.X.size > MOST_ENTRIES or dataset.n_features > MOST_COLUMNS:
        return None
    step = TableFeatures({dataset.features.index(name): words for name, words in dataset.categories.items()})
    X = step.fit_transform(dataset.X)
    if X.shape[1] > MOST_COLUMNS:
        return None
    names = distinct(
        step.get_feature_names_out(np.asarray(dataset.features, dtype=object) if dataset.features else None)
    )
    weights = {} if WEIGHT not in dataset.source else {"sample_weight": dataset.source[WEIGHT]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model = HierarchicalMTL("diagonal").fit(X, dataset.y, task_id=dataset.task_id, **weights)
            return _text(model, names)
        except (MtlrunError, ValueError, np.linalg.LinAlgError):  # the methods themselves will say what is wrong
            return None


def _text(model: HierarchicalMTL, names: list[str]) -> str | None:
    every = model.test().p_value
    if not np.isfinite(every):
        return None
    if every > LEVEL:
        return f"no sign that the tasks differ (exact score test, p = {every:.2g})"
    shares = model.variance_shares_
    text = f"tasks explain {shares['tasks']:.0%} of the variance beyond the common model's {shares['mean']:.0%}"
    if model.test("slopes").p_value > LEVEL:
        return f"{text}; they differ in level only"
    return f"{text}; {_slopes(model, names)}"


def _slopes(model: HierarchicalMTL, names: list[str]) -> str:
    share = model.heterogeneity_[1:]
    order = [j for j in np.argsort(-share, kind="stable") if share[j] > 0][:TESTED]
    found = model.test([int(j) for j in order], method="lrt", each=True)
    sure = [j for j, test in zip(order, found, strict=True) if test.p_value <= LEVEL]
    if not sure:
        return "slopes differ, in no single column for sure"
    listed = ", ".join(f"{names[j]} ({share[j]:.0%})" for j in sure[:NAMED])
    more = f" and {len(sure) - NAMED} more" if len(sure) > NAMED else ""
    return f"slopes differ in {listed}{more}"
