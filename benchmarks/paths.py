"""Paths of strengths and single fits of Lassos: mtlrun against its peers.

``python benchmarks/paths.py --data DIR`` prints processor seconds and the ratio of each
peer to mtlrun, on tables of DIR/mulan-small:

* cross-validation with 50 strengths and 5 folds, and the fit with the selected one,
  against scikit-learn and, if it is installed, adelie, each with its default tolerance;
* a single fit to a certified relative duality gap of 1e-6, against scikit-learn with
  the Gram matrix where it can use one. Each solver runs with the loosest power of ten
  as its tolerance that reaches the gap;
* with ``--synthetic``, a fit on 2,000 rows, 10,000 features and 20 tasks, against skglm
  if it is installed.

Calls alternate in one process, after one that does not count. A ratio is the median
over the rounds; above 1, mtlrun is faster. Set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import arff
from sklearn.linear_model import Lasso, LassoCV, MultiTaskLasso, MultiTaskLassoCV
from sklearn.model_selection import KFold

from mtlrun.estimators import (
    JointFeatureMTL,
    JointFeatureMTLCV,
    SparseMTL,
    SparseMTLCV,
)
from mtlrun.penalties.norms import L1, L21
from mtlrun.problem.losses import SquaredLoss
from mtlrun.problem.objective import duality_gap
from mtlrun.problem.taskdata import TaskData

N_TARGETS = {"enb": 2, "jura": 3, "edm": 2}
FOLDS = KFold(5, shuffle=True, random_state=0)
N_STRENGTHS = 50
GAP = 1e-6
Array = np.ndarray
Calls = dict[str, Callable[[], Any]]


def main() -> None:
    """Print all lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--synthetic", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in N_TARGETS:
        file = options.data / "mulan-small" / f"{name}.arff.gz"
        if not file.is_file():
            print(f"{file} is missing; give its folder with --data")
            continue
        X, Y = read_table(file, N_TARGETS[name])
        for rows in (True, False):
            norm = "L21" if rows else "L1"
            report(f"path {name} {norm}", path_calls(X, Y, rows), options.rounds)
            for share in (0.1, 0.01):
                calls = fit_calls(X, Y, rows, share)
                report(f"fit {name} {norm} {share}", calls, 4 * options.rounds)
    if options.synthetic:
        X, Y = simulate()
        report("fit synthetic L21 0.1", wide_calls(X, Y), options.rounds)


def report(title: str, calls: Calls, rounds: int) -> None:
    """Print the seconds of alternating calls and their ratios to the first one."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            seconds[name].append(time.process_time() - start)
    ours = next(iter(seconds.values()))
    for name, times in seconds.items():
        ratios = [b / a for a, b in zip(ours, times, strict=True)]
        print(
            f"{title:22s} {name:16s} {1e3 * statistics.median(times):9.2f} ms "
            f"{statistics.median(ratios):7.2f}",
            flush=True,
        )


def read_table(file: Path, n_targets: int) -> tuple[Array, Array]:
    """Return standardized features and targets without rows that miss a value."""
    with gzip.open(file, "rt") as lines:
        table, _ = arff.loadarff(lines)
    columns = []
    for name in table.dtype.names:
        values = table[name]
        if values.dtype.kind == "S":
            values = np.unique(values, return_inverse=True)[1]
        columns.append(values.astype(float))
    values = np.column_stack(columns)
    values = values[~np.isnan(values).any(axis=1)]
    values = values[:, values.std(axis=0) > 1e-12]
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    return values[:, :-n_targets].copy(), values[:, -n_targets:].copy()


def simulate() -> tuple[Array, Array]:
    """Return correlated features, of which 30 are relevant, and centered targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 10_000))
    for j in range(1, X.shape[1]):
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    W = np.zeros((X.shape[1], 20))
    W[rng.choice(X.shape[1], 30, replace=False)] = rng.standard_normal((30, 20))
    signal = X @ W
    Y = signal + 0.5 * signal.std() * rng.standard_normal(signal.shape)
    return X - X.mean(axis=0), Y - Y.mean(axis=0)


def path_calls(X: Array, Y: Array, rows: bool) -> Calls:
    """Return the cross-validations to compare."""
    by_column = np.asfortranarray(X)
    model = JointFeatureMTLCV if rows else SparseMTLCV
    calls: Calls = {"mtlrun": lambda: model(cv=FOLDS, scoring="mse").fit(X, Y)}
    if rows:
        calls["scikit-learn"] = lambda: MultiTaskLassoCV(
            alphas=N_STRENGTHS, cv=FOLDS
        ).fit(by_column, Y)
    else:
        calls["scikit-learn"] = lambda: [
            LassoCV(alphas=N_STRENGTHS, cv=FOLDS).fit(by_column, y) for y in Y.T
        ]
    if find_spec("adelie"):
        import adelie

        def validate(family: Any) -> Any:
            return adelie.cv_grpnet(
                by_column,
                family,
                lmda_path_size=N_STRENGTHS,
                min_ratio=1e-3,
                n_folds=5,
                progress_bar=False,
                early_exit=False,
            )

        if rows:
            calls["adelie"] = lambda: validate(adelie.glm.multigaussian(Y))
        else:
            calls["adelie"] = lambda: [
                validate(adelie.glm.gaussian(y.copy())) for y in Y.T
            ]
    return calls


def fit_calls(X: Array, Y: Array, rows: bool, share: float) -> Calls:
    """Return single fits of each solver that reach the gap."""
    by_column = np.asfortranarray(X)
    model = JointFeatureMTL if rows else SparseMTL
    alpha = share * model().alpha_max(X, Y)

    def ours(tol: float) -> list[Any]:
        return [model(alpha, tol=tol, max_iter=100_000).fit(X, Y)]

    def theirs(tol: float) -> list[Any]:
        options = {"tol": tol, "max_iter": 100_000}
        if rows:
            return [MultiTaskLasso(alpha / len(X), **options).fit(by_column, Y)]
        return [
            Lasso(alpha / len(X), precompute=True, **options).fit(by_column, y)
            for y in Y.T
        ]

    norm = L21 if rows else L1
    return {
        "mtlrun": at_gap(ours, X, Y, norm(alpha)),
        "scikit-learn": at_gap(theirs, X, Y, norm(alpha)),
    }


def wide_calls(X: Array, Y: Array) -> Calls:
    """Return the fits of the synthetic table."""
    alpha = 0.1 * JointFeatureMTL().alpha_max(X, Y)
    by_column = np.asfortranarray(X)
    calls = {
        "mtlrun": at_gap(
            lambda tol: [JointFeatureMTL(alpha, tol=tol).fit(X, Y)], X, Y, L21(alpha)
        )
    }
    if find_spec("skglm"):
        import skglm

        calls["skglm"] = at_gap(
            lambda tol: [
                skglm.MultiTaskLasso(alpha / len(X), tol=tol).fit(by_column, Y)
            ],
            X,
            Y,
            L21(alpha),
        )
    return calls


def at_gap(
    fit: Callable[[float], list[Any]], X: Array, Y: Array, penalty: L1 | L21
) -> Callable[[], list[Any]]:
    """Return a fit with the loosest tolerance that reaches the gap."""
    data = TaskData.from_matrix(X, Y)
    for exponent in range(1, 15):
        tol = 10.0**-exponent
        models = fit(tol)
        W = np.vstack([model.coef_ for model in models]).T
        b = np.hstack([model.intercept_ for model in models])
        if duality_gap(data, SquaredLoss(), [penalty], [W], b).relative <= GAP:
            return lambda: fit(tol)
    raise RuntimeError("no tolerance reaches the gap")


if __name__ == "__main__":
    main()
