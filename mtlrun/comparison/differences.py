"""Two lines about a table before anything is tuned.

`differences` says how much of the variance the tasks explain, and in which columns they
differ. `tables_like` says what multi-task learning gained on the tables of the atlas
that are most alike.
"""

from __future__ import annotations

import csv
import math
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from mtlrun.comparison.verdict import SMALLEST
from mtlrun.data.dataset import Dataset
from mtlrun.data.reading.names import distinct
from mtlrun.data.splits import ORDER, TIME, WEIGHT
from mtlrun.errors import ConfigError, MtlrunError
from mtlrun.estimators.hierarchical import HeterogeneityTest, HierarchicalMTL
from mtlrun.estimators.hierarchical_labels import HierarchicalMTLClassifier
from mtlrun.features.table import TableFeatures
from mtlrun.solvers.hierarchical.profile import VarianceInterval
from mtlrun.utils.io import published_path, read_text_file

#: Level of the tests.
LEVEL = 0.05
#: Number of slopes that are tested, by decreasing variance, and that are named.
MAX_TESTED = 40
MAX_NAMED = 5
#: Of more tasks, the share that they explain is known well: its interval takes several
#: fits and would say little.
MAX_TASKS_WITH_INTERVAL = 50
#: Columns and entries of a table for which the line is worth its seconds.
MAX_COLUMNS = 100
MAX_ENTRIES = 20_000_000
#: Rows times squared columns of a table with labels, where each evaluation of the
#: likelihood passes over the rows.
MAX_PRODUCTS = 20_000_000


def differences(dataset: Dataset) -> str | None:
    """Return in words how tasks differ that have their own rows.

    A hierarchical model is fitted to all rows. For numbers, score tests tell whether
    tasks differ at all, and beyond their level; restricted likelihood ratios tell in
    which slopes, or score tests where the noise differs between tasks. For labels, all
    tests are likelihood ratios. The p-values of slopes are adjusted by Holm's method.
    The line ends with what the tests assume, after checks of the rows.

    Parameters
    ----------
    dataset : Dataset

    Returns
    -------
    str or None
        None for tasks that share their rows, sparse or large tables, more than two
        classes, and if the model cannot be fitted.
    """
    if dataset.task_type not in ("regression", "binary"):
        return None
    if dataset.task_id is None or dataset.n_tasks < 2:
        return None
    if sparse.issparse(dataset.X) or dataset.X.size > MAX_ENTRIES:
        return None
    if dataset.n_features > MAX_COLUMNS:
        return None
    categories = {}
    for name, words in dataset.categories.items():
        categories[dataset.features.index(name)] = words
    step = TableFeatures(categories)
    with config_context(transform_output="default"):
        step.fit(dataset.X, sample_weight=dataset.source.get(WEIGHT))
        X = step.transform(dataset.X)
    features = None
    if dataset.features:
        features = np.asarray(dataset.features, dtype=object)
    names = distinct(step.get_feature_names_out(features))
    n_columns = X.shape[1]
    has_labels = dataset.task_type == "binary"
    if n_columns > MAX_COLUMNS:
        return None
    if has_labels and X.size * n_columns > MAX_PRODUCTS:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            # The rows are in the order of time, where a column has that role.
            source = dataset.source
            time = source.get(ORDER, source.get(TIME, np.zeros(len(X))))
            order = np.argsort(time, kind="stable")
            rows = {"task_id": dataset.task_id[order]}
            if WEIGHT in source:
                rows["sample_weight"] = source[WEIGHT][order]
            table = pd.DataFrame(X[order], columns=names)
            y = dataset.y[order]
            if has_labels:
                return _text(_fit_labels(table, y, rows), names)
            model = HierarchicalMTL("diagonal").fit(table, y, **rows)
            interval = None
            if len(model.tasks_) <= MAX_TASKS_WITH_INTERVAL:
                interval = model.variance_interval
            fitted = _Fitted(
                variance="the variance",
                shares=model.variance_shares_,
                columns=model.heterogeneity_,
                interval=interval,
                test=model.test,
                test_each=partial(model.test, each=True),
            )
            return _text(fitted, names)
        except (MtlrunError, ValueError, np.linalg.LinAlgError):
            # The methods of the comparison will report what is wrong with the table.
            return None


@dataclass(frozen=True)
class _Fitted:
    """A fitted hierarchical model, with its tests.

    Attributes
    ----------
    variance : str
        Name of the variance that the shares divide.
    shares : dict of str to float
        Shares of the variance of the common mean and of the tasks.
    columns : ndarray of shape (1 + n_columns,)
        Shares of the level and of each slope.
    interval : callable or None
        Returns the interval of the share of the tasks; None for labels and many tasks.
    test : callable
        Tests all differences ("all"), or differences of slopes ("slopes").
    test_each : callable
        Tests some slopes, by their positions, one by one.
    """

    variance: str
    shares: dict[str, float]
    columns: np.ndarray
    interval: Callable[[], VarianceInterval] | None
    test: Callable[[str], HeterogeneityTest]
    test_each: Callable[[Sequence[int]], list[HeterogeneityTest]]


def _fit_labels(X: pd.DataFrame, y: np.ndarray, rows: dict[str, Any]) -> _Fitted:
    model = HierarchicalMTLClassifier("diagonal").fit(X, y, **rows)
    test_each = partial(model.test, X, y, **rows)
    # The line asks for the test of all slopes again.
    test = cache(test_each)
    level = HierarchicalMTLClassifier("intercept").fit(X, y, **rows)
    # Quadrature integrates levels, but not many slopes: where Laplace's approximation
    # is wrong, shares of models whose slopes differ are wrong, too.
    needs_quadrature = level.integration_ != model.integration_
    if needs_quadrature and test("slopes").p_value > LEVEL:
        model = level
    return _Fitted(
        variance="the variance behind the labels",
        shares=model.variance_shares_,
        columns=model.heterogeneity_,
        interval=None,
        test=test,
        test_each=test_each,
    )


def _text(fitted: _Fitted, names: list[str]) -> str | None:
    overall = fitted.test("all")
    if not np.isfinite(overall.p_value):
        return overall.untestable or None
    assumption = f"the tests assume {overall.assumes}"
    if overall.p_value > LEVEL:
        if overall.untestable:
            return overall.untestable
        method = "likelihood ratio"
        if overall.method == "score":
            method = "score"
        return (
            f"no sign that the tasks differ ({method} test, p = {overall.p_value:.2g}); "
            f"{assumption}"
        )
    tasks = fitted.shares["tasks"]
    mean = fitted.shares["mean"]
    text = (
        f"tasks explain {tasks:.0%} of {fitted.variance} beyond the common model's "
        f"{mean:.0%}"
    )
    if fitted.interval is not None:
        interval = fitted.interval()
        low = interval.share_low
        high = interval.share_high
        text += f"; 95% interval of the share of tasks {low:.0%} to {high:.0%}"
    if fitted.test("slopes").p_value > LEVEL:
        return f"{text}; they differ in level only; {assumption}"
    shares = fitted.columns[1:]
    by_share = np.argsort(-shares, kind="stable").tolist()
    candidates = [j for j in by_share if shares[j] > 0][:MAX_TESTED]
    tests: list[HeterogeneityTest] = []
    if candidates:
        tests = fitted.test_each(candidates)
    significant = []
    for j, test in zip(candidates, tests, strict=True):
        if test.p_value <= LEVEL:
            significant.append(f"{names[j]} ({shares[j]:.0%})")
    slopes = "slopes differ, in no single column for sure"
    if significant:
        slopes = f"slopes differ in {', '.join(significant[:MAX_NAMED])}"
    if len(significant) > MAX_NAMED:
        slopes += f" and {len(significant) - MAX_NAMED} more"
    return f"{text}; {slopes}; {assumption}"


# --------------------------------------------------------------- tables like this one

#: Number of tables that are named.
N_NEAREST = 5
#: With fewer tables of the same layout, there is no line.
MIN_TABLES = 3
#: Sizes of a table, which need no fit. Tables are alike if their logarithms are near.
SIZES = ("rows_per_task", "tasks", "features")


def tables_like(dataset: Dataset, train: float) -> str | None:
    """Return what multi-task learning gained on real tables of similar size.

    Only tables of the atlas with the same layout count. Each of them was compared with
    several numbers of training rows per task, of which the nearest counts. The gain on
    a table is the smaller of its gains over separate and over pooled models, as a mean
    over the seeds.

    Parameters
    ----------
    dataset : Dataset
    train : float
        Part of the rows that is trained on.

    Returns
    -------
    str or None
        None if the atlas has too few such tables.
    """
    try:
        lines, day = read_lines(SIMILAR)
    except ConfigError:
        # This installation lacks the file.
        return None
    n_targets = float((dataset.y == dataset.y).sum())  # a missing target is NaN
    rows_per_task = n_targets * train / dataset.n_tasks
    n_features = max(dataset.n_features, 1)
    log_sizes = np.log([max(rows_per_task, 1.0), dataset.n_tasks, n_features])
    gains = _gains_by_distance(lines, _layout(dataset), log_sizes)
    nearest = dict(list(gains.items())[:N_NEAREST])
    if len(nearest) < MIN_TABLES:
        return None
    # As in the verdict, a smaller gain makes no practical difference.
    n_helped = sum(gain > SMALLEST for gain in nearest.values())
    low = f"{100 * min(nearest.values()):z.0f}"
    if low == "-100":
        # The atlas cuts losses there.
        low = "-100 or less"
    high = 100 * max(nearest.values())
    return (
        f"tables like yours in the atlas of {day}: multi-task learning gained more "
        f"than {SMALLEST:.0%} in {n_helped} of {len(nearest)} "
        f"(gain {low} to {high:z.0f}%): {', '.join(nearest)}"
    )


def _layout(dataset: Dataset) -> str:
    """Return the kind of a table, by the names of the atlas."""
    if dataset.task_id is not None:
        return "groups"
    if dataset.task_type == "regression":
        return "targets"
    return "labels"


def _gains_by_distance(
    lines: Sequence[dict[str, str]], layout: str, log_sizes: np.ndarray
) -> dict[str, float]:
    """Return the mean gain on each table of a layout, the nearest table first."""
    # A table was compared with several numbers of training rows, each with some seeds.
    gains: dict[tuple[str, str], list[float]] = defaultdict(list)
    distances: dict[tuple[str, str], float] = {}
    for line in lines:
        if line["kind"] != layout:
            continue
        key = (line["table"], line["rows"])
        # Multi-task learning has to beat both alternatives, as in the verdict.
        over_both = [line["over_independent"], line["over_pooled"]]
        # A table without one of the alternatives has an empty cell.
        gains[key].append(min(float(gain) for gain in over_both if gain))
        sizes = np.log([float(line[name]) for name in SIZES])
        distances[key] = float(np.linalg.norm(sizes - log_sizes))
    mean_gains: dict[str, float] = {}
    for key in sorted(distances, key=lambda key: (distances[key], key)):
        # Of each table, the first and so the nearest number of rows counts.
        mean_gains.setdefault(key[0], math.fsum(gains[key]) / len(gains[key]))
    return mean_gains


#: Gains of the first edition on all tables.
GAINS = "atlas/gains.csv"


#: Gains of the second edition, which a comparison shows for similar tables.
SIMILAR = "atlas/similar.csv"


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read_lines(name: str) -> tuple[list[dict[str, str]], str]:
    """Return the lines of a table of the atlas, and the day on which it was made.

    Raises
    ------
    ConfigError
        If there is no such file, or it is none of the atlas.
    """
    lines = read_text_file(published_path(name)).split("\n")
    day = _DATE.search(lines[0]) if lines else None
    if day is None:
        raise ConfigError(
            f"{name}:1: no date",
            "Make the file with scripts/atlas_tables.py or scripts/atlas_pairs.py.",
        )
    return list(csv.DictReader(lines[1:])), day.group()
