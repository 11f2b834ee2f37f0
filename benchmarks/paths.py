"""Cross-validation along a path: mtlrun against scikit-learn's MultiTaskLassoCV and a
grid search.

``python benchmarks/paths.py`` prints seconds (the best of five fits) and their ratio to
MultiTaskLassoCV, for 50 strengths and 3 folds on simulated data with 300 rows, 30
features and 10 tasks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LassoCV, MultiTaskLassoCV
from sklearn.model_selection import GridSearchCV, KFold

from mtlrun.data import TaskStratifiedKFold
from mtlrun.estimators import (
    JointFeatureMTL,
    JointFeatureMTLCV,
    RobustMTLCV,
    SparseMTLCV,
    TraceNormMTL,
    TraceNormMTLCV,
)
from mtlrun.metrics import task_scorer

ROWS, FEATURES, TASKS = 300, 30, 10


def seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """Return the least time of several calls, after one that does not count."""
    call()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def lasso_per_task(X: np.ndarray, y: np.ndarray, ids: np.ndarray) -> None:
    """Fit scikit-learn's LassoCV to every task."""
    for task in range(TASKS):
        LassoCV(alphas=50, cv=KFold(3)).fit(X[ids == task], y[ids == task])


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(ROWS, FEATURES)), np.zeros((FEATURES, TASKS))
    W[:8] = rng.normal(size=(8, TASKS))
    Y = X @ W + rng.normal(size=(ROWS, TASKS))
    ids = np.arange(ROWS) % TASKS
    y = Y[np.arange(ROWS), ids]
    grid = {"alpha": JointFeatureMTLCV(cv=KFold(3)).fit(X, Y).alphas_}
    folds, own = KFold(3), TaskStratifiedKFold(3, random_state=0)
    scoring = task_scorer("mse")
    calls: dict[str, Callable[[], object]] = {
        "MultiTaskLassoCV (scikit-learn)": lambda: MultiTaskLassoCV(
            alphas=50, cv=folds
        ).fit(X, Y),
        "GridSearchCV(JointFeatureMTL)": lambda: GridSearchCV(
            JointFeatureMTL(), grid, cv=folds, scoring=scoring
        ).fit(X, Y),
        "GridSearchCV(TraceNormMTL)": lambda: GridSearchCV(
            TraceNormMTL(), grid, cv=folds, scoring=scoring
        ).fit(X, Y),
        "JointFeatureMTLCV": lambda: JointFeatureMTLCV(cv=folds).fit(X, Y),
        "SparseMTLCV": lambda: SparseMTLCV(cv=folds).fit(X, Y),
        "TraceNormMTLCV": lambda: TraceNormMTLCV(cv=folds).fit(X, Y),
        "RobustMTLCV": lambda: RobustMTLCV(cv=folds).fit(X, Y),
        "LassoCV per task (scikit-learn), ragged": lambda: lasso_per_task(X, y, ids),
        "JointFeatureMTLCV, ragged": lambda: JointFeatureMTLCV(cv=own).fit(
            X, y, task_id=ids
        ),
        "TraceNormMTLCV, ragged": lambda: TraceNormMTLCV(cv=own).fit(X, y, task_id=ids),
    }
    base = 0.0
    for name, call in calls.items():
        took = seconds(call)
        base = base or took
        print(f"{name:42s} {took:8.3f} s {took / base:8.2f}", flush=True)


if __name__ == "__main__":
    main()
