"""Two lines before anything is tuned: how the tasks differ, and what multi-task learning gained on such tables.

The first says how much of the variance the tasks explain, and in which columns they differ; the second goes by the
tables of the atlas that are most alike.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from mtlrun.comparison.atlas import read_lines
from mtlrun.data.dataset import Dataset
from mtlrun.data.names import distinct
from mtlrun.data.splits import WEIGHT
from mtlrun.errors import ConfigError, MtlrunError
from mtlrun.estimators.hierarchical import HeterogeneityTest, HierarchicalMTL
from mtlrun.estimators.hierarchical_labels import HierarchicalMTLClassifier
from mtlrun.features.table import TableFeatures

#: Tests are at this level. Slopes that are tested, at most, those of the largest variance first; and named.
LEVEL, TESTED, NAMED = 0.05, 40, 5
#: Columns and entries of a table, at most, for which the line is worth its seconds; and for labels, where every
#: evaluation passes over the rows, of rows times the squares of columns.
MOST_COLUMNS, MOST_ENTRIES, MOST_PRODUCTS = 100, 20_000_000, 20_000_000


def differences(dataset: Dataset) -> str | None:
    """Return how tasks of their own rows differ, in words; None where that is not asked or cannot be told.

    A hierarchical model is fitted to all rows. For numbers exact score tests tell whether tasks differ at all, and
    beyond their level, and restricted likelihood ratios in which slopes. For labels these are likelihood ratios, too.
    Those of slopes are adjusted by Holm.
    """
    if (
        dataset.task_type not in ("regression", "binary")
        or dataset.task_id is None
        or dataset.n_tasks < 2
    ):
        return None
    if (
        sparse.issparse(dataset.X)
        or dataset.X.size > MOST_ENTRIES
        or dataset.n_features > MOST_COLUMNS
    ):
        return None
    step = TableFeatures(
        {
            dataset.features.index(name): words
            for name, words in dataset.categories.items()
        }
    )
    with config_context(transform_output="default"):
        step.fit(dataset.X, sample_weight=dataset.source.get(WEIGHT))
        X = step.transform(dataset.X)
    labels = dataset.task_type == "binary"
    if X.shape[1] > MOST_COLUMNS or (labels and X.size * X.shape[1] > MOST_PRODUCTS):
        return None
    names = distinct(
        step.get_feature_names_out(
            np.asarray(dataset.features, dtype=object) if dataset.features else None
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return _text((_of_labels if labels else _of_numbers)(X, dataset), names)
        except (
            MtlrunError,
            ValueError,
            np.linalg.LinAlgError,
        ):  # the methods themselves will say what is wrong
            return None


@dataclass(frozen=True)
class _Fitted:
    """What is said of a model, and its tests: of all, of slopes, and of some slopes one by one."""

    of: str
    shares: dict[str, float]
    columns: np.ndarray
    test: Callable[[str], HeterogeneityTest]
    tests: Callable[[Sequence[int]], list[HeterogeneityTest]]


def _of_numbers(X: np.ndarray, dataset: Dataset) -> _Fitted:
    model = HierarchicalMTL("diagonal").fit(X, dataset.y, **_rows(dataset))
    tests = partial(model.test, method="lrt", each=True)
    return _Fitted(
        "the variance", model.variance_shares_, model.heterogeneity_, model.test, tests
    )


def _of_labels(X: np.ndarray, dataset: Dataset) -> _Fitted:
    rows = _rows(dataset)
    model = HierarchicalMTLClassifier("diagonal").fit(X, dataset.y, **rows)
    test = partial(model.test, X, dataset.y, **rows)
    return _Fitted(
        "the variance behind the labels",
        model.variance_shares_,
        model.heterogeneity_,
        test,
        test,
    )


def _rows(dataset: Dataset) -> dict[str, Any]:
    """Return tasks and weights of the rows."""
    weights = (
        {}
        if WEIGHT not in dataset.source
        else {"sample_weight": dataset.source[WEIGHT]}
    )
    return {"task_id": dataset.task_id, **weights}


def _text(fitted: _Fitted, names: list[str]) -> str | None:
    every = fitted.test("all")
    if not np.isfinite(every.p_value):
        return None
    if every.p_value > LEVEL:
        how = "exact score test" if every.method == "score" else "likelihood ratio test"
        return f"no sign that the tasks differ ({how}, p = {every.p_value:.2g})"
    tasks, mean = fitted.shares["tasks"], fitted.shares["mean"]
    text = (
        f"tasks explain {tasks:.0%} of {fitted.of} beyond the common model's {mean:.0%}"
    )
    if fitted.test("slopes").p_value > LEVEL:
        return f"{text}; they differ in level only"
    return f"{text}; {_slopes(fitted, names)}"


def _slopes(fitted: _Fitted, names: list[str]) -> str:
    share = fitted.columns[1:]
    order = [int(j) for j in np.argsort(-share, kind="stable") if share[j] > 0][:TESTED]
    found = fitted.tests(order) if order else []
    sure = [j for j, test in zip(order, found, strict=True) if test.p_value <= LEVEL]
    if not sure:
        return "slopes differ, in no single column for sure"
    listed = ", ".join(f"{names[j]} ({share[j]:.0%})" for j in sure[:NAMED])
    more = f" and {len(sure) - NAMED} more" if len(sure) > NAMED else ""
    return f"slopes differ in {listed}{more}"


# ---------------------------------------------------------------------- tables like this one

#: So many tables are named; with fewer than the second, nothing is said.
NEAREST, FEWEST = 5, 3
#: What makes tables alike, as logarithms: all of it is known without a fit.
SIZES = ("rows_per_task", "tasks", "features")


def tables_like(dataset: Dataset, train: float) -> str | None:
    """Return what multi-task learning gained on real tables of the same layout and nearest size.

    Of every table of the atlas, the number of training rows per task that is nearest
    counts. Its gain is the smaller of those over separate and over pooled models, as a
    mean over the seeds.

    Parameters
    ----------
    dataset : Dataset
    train : float
        Part of the rows that is trained on.

    Returns
    -------
    str or None
        None where the atlas has no such tables.
    """
    if dataset.task_id is not None:
        kind = "groups"
    else:
        kind = "targets" if dataset.task_type == "regression" else "labels"
    try:
        lines, day = read_lines()
    except ConfigError:  # the shipped file is not there
        return None
    known = float((dataset.y == dataset.y).sum()) * train / dataset.n_tasks
    mine = np.log([max(known, 1.0), dataset.n_tasks, max(dataset.n_features, 1)])
    gains: dict[tuple[str, str], list[float]] = {}
    distances: dict[tuple[str, str], float] = {}
    for line in lines:
        if line["kind"] == kind:
            place = line["table"], line["rows"]
            # Multi-task learning has to beat both alternatives, as in the verdict.
            over_both = float(line["over_independent"]), float(line["over_pooled"])
            gains.setdefault(place, []).append(min(over_both))
            distances[place] = float(
                np.linalg.norm(np.log([float(line[name]) for name in SIZES]) - mine)
            )
    found: dict[str, float] = {}
    for place in sorted(distances, key=lambda place: (distances[place], place)):
        found.setdefault(place[0], math.fsum(gains[place]) / len(gains[place]))
    chosen = dict(list(found.items())[:NEAREST])
    if len(chosen) < FEWEST:
        return None
    helped = sum(value > 0 for value in chosen.values())
    low, high = (
        f"{100 * end:.0f}" for end in (min(chosen.values()), max(chosen.values()))
    )
    return (
        f"tables like yours in the atlas of {day}: multi-task learning helped in {helped} of {len(chosen)} "
        f"(gain {low} to {high}%): {', '.join(chosen)}"
    )
