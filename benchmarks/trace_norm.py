"""Time TraceNormMTL and plain FISTA at equal accuracy.

``python benchmarks/trace_norm.py --data DIR`` prints processor seconds and the ratio of
FISTA to mtlrun on tables of DIR/mulan-small. FISTA works on X'X, restarts when the
objective rises, and knows its number of steps: checks of accuracy cost it nothing. Both
have the loosest setting (a power of ten as tolerance, a number of steps) whose
objective exceeds the optimum by at most a hundred-thousandth. A run with a tolerance
of 1e-10 stands for the optimum. Calls alternate in one process; a ratio is the median over the
rounds, and above 1 mtlrun is faster. Set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from paths import Array, read_table, report

from mtlrun.estimators import TraceNormMTL

N_TARGETS = {"enb": 2, "edm": 2, "jura": 3, "oes10": 16}
ACCURACY = 1e-5


def main() -> None:
    """Print a line per table, strength and solver."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, n_targets in N_TARGETS.items():
        file = options.data / "mulan-small" / f"{name}.arff.gz"
        X, Y = read_table(file, n_targets)
        for share in (0.3, 0.03):
            alpha = share * TraceNormMTL().alpha_max(X, Y)
            calls = {"mtlrun": ours(X, Y, alpha), "FISTA": theirs(X, Y, alpha)}
            report(f"{name} {share}", calls, options.rounds)


def objective(X: Array, Y: Array, W: Array, alpha: float) -> float:
    """Return half of the squared error and the trace norm."""
    residual = Y - X @ W
    return 0.5 * np.sum(residual**2) + alpha * np.linalg.norm(W, "nuc")


def fit(X: Array, Y: Array, alpha: float, tol: float) -> TraceNormMTL:
    """Fit our model; the columns are centered."""
    return TraceNormMTL(alpha, tol=tol, max_iter=100_000).fit(X, Y)


def limit(X: Array, Y: Array, alpha: float) -> float:
    """Return the largest objective that is accurate enough."""
    best = fit(X, Y, alpha, 1e-10).coef_.T
    return (1 + ACCURACY) * objective(X, Y, best, alpha)


def ours(X: Array, Y: Array, alpha: float) -> Callable[[], Any]:
    """Return a fit with the loosest tolerance that is accurate."""
    largest = limit(X, Y, alpha)
    for exponent in range(1, 11):
        tol = 10.0**-exponent
        W = fit(X, Y, alpha, tol).coef_.T
        if objective(X, Y, W, alpha) <= largest:
            return lambda: fit(X, Y, alpha, tol)
    raise RuntimeError("no tolerance is accurate enough")


def theirs(X: Array, Y: Array, alpha: float) -> Callable[[], Any]:
    """Return a run of FISTA with the fewest steps that are accurate, centering included."""
    largest = limit(X, Y, alpha)
    steps = 1
    while objective(X, Y, fista(X, Y, alpha, steps), alpha) > largest:
        steps = max(steps + 1, int(1.1 * steps))
    return lambda: fista(X, Y, alpha, steps)


def fista(X: Array, Y: Array, alpha: float, steps: int) -> Array:
    """Run FISTA with a restart whenever the momentum points uphill."""
    X = X - X.mean(axis=0)
    Y = Y - Y.mean(axis=0)
    gram = X.T @ X
    target = X.T @ Y
    step = 1.0 / np.linalg.eigvalsh(gram)[-1]
    W = point = np.zeros_like(target)
    momentum = 1.0
    for _ in range(steps):
        U, values, Vt = np.linalg.svd(
            point - step * (gram @ point - target), full_matrices=False
        )
        new = (U * np.maximum(values - step * alpha, 0.0)) @ Vt
        if np.sum((point - new) * (new - W)) > 0:
            momentum = 1.0
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        point = new + (momentum - 1) / following * (new - W)
        W = new
        momentum = following
    return W


if __name__ == "__main__":
    main()
