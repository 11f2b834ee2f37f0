"""Timings of multi-task MKL on pendigits at 10% (45 tasks, 10 kernels, 110 samples per
class), one core.

Usage: python benchmarks/group_mkl.py [--quick] [--data-dir DIR]

Rows: the theta-step (limit 50 ms); a whole fit at a certified relative gap of 1e-3
(limit 20 s), for several lam and C; a path of 11 values of lam from strong to weak, as
in a search, warm against cold (at least 3 times faster); the printed algorithm, with
its cycle. Seconds are processor seconds, which other programs hardly affect. Without
the data, clouds of the same sizes stand in, and the output says so.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import DataError
from mtlrun.estimators.mkl import GroupMKLClassifier
from mtlrun.solvers.mkl.mkl import Coupling

Tasks = tuple[np.ndarray, np.ndarray, np.ndarray]
PATH = 2.0 ** np.arange(10, -11, -2)


def tasks_of_pairs(
    X: np.ndarray, digits: np.ndarray, per_class: int, seed: int = 0
) -> Tasks:
    """Return rows, labels and task ids of all pairs of ten classes, `per_class` rows
    of each, features scaled.
    """
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    rng = np.random.default_rng(seed)
    rows = [
        rng.choice(np.flatnonzero(digits == c), per_class, replace=False)
        for c in range(10)
    ]
    pairs = list(combinations(range(10), 2))
    chosen = np.concatenate([np.concatenate([rows[a], rows[b]]) for a, b in pairs])
    y = np.tile(np.repeat([1.0, -1.0], per_class), len(pairs))
    return X[chosen], y, np.repeat(np.arange(len(pairs)), 2 * per_class)


def load(data_dir: str | None, per_class: int) -> Tasks:
    """Return the tasks of pendigits, or simulated clouds of the same sizes if data are
    missing.
    """
    try:
        data = load_dataset("pendigits", data_dir=data_dir)
    except DataError as error:
        print(f"simulated, not pendigits ({error})")
        rng = np.random.default_rng(0)
        digits = np.repeat(np.arange(10), 1100)
        return tasks_of_pairs(
            1.2 * rng.normal(size=(10, 16))[digits] + rng.normal(size=(11000, 16)),
            digits,
            per_class,
        )
    print("pendigits")
    return tasks_of_pairs(
        np.asarray(data.X), np.asarray(data.y).ravel().astype(int), per_class
    )


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of one call and its result."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def fits(tasks: Tasks, strengths: list[float], C: float) -> None:
    """Print one whole fit per lam, kernel matrices included."""
    X, y, ids = tasks
    for lam in strengths:
        spent, model = seconds(
            lambda lam=lam: GroupMKLClassifier(C=C, lam=lam).fit(X, y, task_id=ids)
        )
        print(
            f"fit, C={C:g}, lam={lam:g}: {spent:.2f} s, gap {model.gap_:.1e}, {model.n_iter_} iterations, "
            f"{model.n_svm_fits_} SVMs"
        )


def theta_step(tasks: Tasks, repeats: int) -> None:
    """Print the median time of one cold theta-step at random slopes."""
    T, M = len(np.unique(tasks[2])), 10
    rng = np.random.default_rng(0)
    theta, curvature = np.full((T, M), 1.0 / M), np.full((T, 1), 10.0)
    slopes = -10.0 * rng.uniform(size=(1, M)) - rng.uniform(0, 20, size=(T, M))
    for lam in (0.01, 0.1, 1.0):
        spent = [
            seconds(
                lambda lam=lam: Coupling(lam, T, M).step(theta, slopes, curvature, 1e-2)
            )[0]
        ]
        spent = [
            seconds(
                lambda lam=lam: Coupling(lam, T, M).step(theta, slopes, curvature, 1e-2)
            )[0]
            for _ in range(repeats)
        ]
        print(
            f"theta-step, {T} tasks, {M} kernels, lam={lam:g}: {1e3 * float(np.median(spent)):.1f} ms"
        )


def path(tasks: Tasks, strengths: np.ndarray, C: float) -> None:
    """Print the time of a path of lam, cold (an estimator each) and warm (one
    estimator).
    """
    cold, fits_cold, _ = walk(lambda: GroupMKLClassifier(C=C), tasks, strengths)
    model = GroupMKLClassifier(C=C, warm_start=True)
    warm, fits_warm, gap = walk(lambda: model, tasks, strengths)
    print(
        f"path of {len(strengths)} values of lam, C={C:g}: cold {cold:.2f} s ({fits_cold} SVMs), warm {warm:.2f} s "
        f"({fits_warm} SVMs), {cold / warm:.1f} times faster, largest gap {gap:.1e}"
    )


def walk(
    make: Callable[[], GroupMKLClassifier], tasks: Tasks, strengths: np.ndarray
) -> tuple[float, int, float]:
    """Return seconds, machines trained and the largest gap of fits along a path."""
    X, y, ids = tasks
    runs = [
        seconds(
            lambda v=v: (
                make().set_params(lam=float(v)).fit(X, y, task_id=ids).__dict__.copy()
            )
        )
        for v in strengths
    ]
    return (
        sum(spent for spent, _ in runs),
        sum(facts["n_svm_fits_"] for _, facts in runs),
        max(facts["gap_"] for _, facts in runs),
    )


def printed(tasks: Tasks) -> None:
    """Print what the alternating algorithm of the paper does."""
    X, y, ids = tasks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        spent, model = seconds(
            lambda: GroupMKLClassifier(lam=0.1, variant="paper").fit(X, y, task_id=ids)
        )
    values = ", ".join(f"{value:.2f}" for value in model.objective_[:8])
    cycle = ", ".join(f"{value:.2f}" for value in model.cycle_) or "none found"
    print(
        f"printed algorithm, lam=0.1: {spent:.2f} s, gap {model.gap_:.1e}, objective {values}, ...; cycle: {cycle}"
    )


def main() -> None:
    """Run all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="30 samples per class, fewer values"
    )
    parser.add_argument("--data-dir")
    arguments = parser.parse_args()
    with threadpool_limits(1):
        tasks = load(arguments.data_dir, 30 if arguments.quick else 110)
        theta_step(tasks, 5 if arguments.quick else 20)
        for C in (1.0, 100.0):
            fits(tasks, [0.1] if arguments.quick else [0.0, 0.01, 0.1, 1.0, 20.0], C)
            path(tasks, PATH[::5] if arguments.quick else PATH, C)
        printed(tasks)


if __name__ == "__main__":
    main()
