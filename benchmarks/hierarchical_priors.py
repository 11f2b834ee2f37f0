"""Priors of `HierarchicalMTL`: what a search among them gains over the normal one.

For each grouped table with numeric targets at hand, at most 10 or 50 rows of each task
are drawn. Five outer folds test the normal prior and clusters; three inner folds choose
between them. A gain is the relative reduction of the error: the mean of squared errors
in units of the variance of the task.

Run with: MTLRUN_DATA=DIR python benchmarks/hierarchical_priors.py [--rows 10 50]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter, defaultdict

import numpy as np
from sklearn.model_selection import KFold

from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import UserError
from mtlrun.estimators.hierarchical import HierarchicalMTL
from mtlrun.features.table import TableFeatures

TABLES = [
    "cake",
    "egsingle",
    "exam",
    "hsb82",
    "machines",
    "milk",
    "orthodont",
    "radon",
    "school",
    "scotssec",
    "simulated-families",
    "sleepstudy",
]
PRIORS = ("normal", "clusters")
#: What is compared with the normal prior: clusters, and the better one of inner folds.
ALTERNATIVES = ("clusters", "search")


def draw(dataset: Dataset, n_rows: int) -> Dataset:
    """Return a random sample of at most `n_rows` rows of each task."""
    rng = np.random.default_rng(1)
    rows = []
    for task in range(dataset.n_tasks):
        rows.append(rng.permutation(np.flatnonzero(dataset.task_id == task))[:n_rows])
    return dataset.subset(np.sort(np.concatenate(rows)))


def losses(
    prior: str, dataset: Dataset, X: np.ndarray, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Return squared errors of test rows in units of the variance of their task."""
    model = HierarchicalMTL(prior=prior, unseen="mean")
    model.fit(X[train], dataset.y[train], task_id=dataset.task_id[train])
    predicted = model.predict(X[test], task_id=dataset.task_id[test])
    variances = np.full(dataset.n_tasks, dataset.y.var())
    for task in range(dataset.n_tasks):
        variance = dataset.y[dataset.task_id == task].var()
        if variance > 0:
            variances[task] = variance
    return (predicted - dataset.y[test]) ** 2 / variances[dataset.task_id[test]]


def gains(dataset: Dataset) -> dict[str, object]:
    """Return the gains over the normal prior in percent, and CPU seconds."""
    categories = {}
    for name, words in dataset.categories.items():
        categories[dataset.features.index(name)] = words
    X = TableFeatures(categories).fit_transform(dataset.X)
    errors: dict[str, list[np.ndarray]] = defaultdict(list)
    seconds: Counter[str] = Counter()
    n_clusters = 0
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        inner: Counter[str] = Counter()
        for first, second in KFold(3, shuffle=True, random_state=1).split(train):
            for prior in PRIORS:
                inner[prior] += losses(
                    prior, dataset, X, train[first], train[second]
                ).sum()
        for prior in PRIORS:
            started = time.process_time()
            errors[prior].append(losses(prior, dataset, X, train, test))
            seconds[prior] += time.process_time() - started
        chosen = min(inner, key=lambda prior: inner[prior])
        errors["search"].append(errors[chosen][-1])
        n_clusters += chosen == "clusters"
    means = {name: np.concatenate(parts).mean() for name, parts in errors.items()}
    result = {}
    for name in ALTERNATIVES:
        result[name] = 100 * (1 - means[name] / means["normal"])
    return result | {"folds": n_clusters} | {f"s {p}": seconds[p] for p in PRIORS}


def main() -> None:
    """Print a line per table and number of rows, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10, 50])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    collected = defaultdict(list)
    for table in TABLES:
        try:
            dataset = load_dataset(table)
        except UserError as error:
            print(f"{table}: {error}")
            continue
        for n_rows in options.rows:
            measured = gains(draw(dataset, n_rows))
            print(f"{table:20} {n_rows:3} rows ", end="")
            print("  ".join(f"{key} {value:.3g}" for key, value in measured.items()))
            for name in ALTERNATIVES:
                collected[name].append(measured[name])
    for name in ALTERNATIVES:
        values = np.asarray(collected[name], dtype=float)
        spread = np.quantile(values, [0, 0.5, 1])
        print(f"{name}: least {spread[0]:.2f}%, median {spread[1]:.2f}%, ", end="")
        print(f"most {spread[2]:.2f}%")


if __name__ == "__main__":
    main()
