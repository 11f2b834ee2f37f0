"""Joint feature selection and the Lasso on a shared design, against scikit-learn at an
equal duality gap.

Both minimize 1/2 ||Y - XW - b||^2 + alpha times row norms (or entries); scikit-learn
divides by the rows. Its tolerance is a gap relative to ||Y||^2, ours is relative to the
objective; both are set to the same gap. For the Lasso, the faster variant with or
without a Gram matrix counts. Times are the best of three, side by side in one process.
"""

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import Lasso, MultiTaskLasso

from mtlrun.estimators.penalized import JointFeatureMTL, SparseMTL
from mtlrun.penalties.norms import L1, L21
from mtlrun.problem.losses import SquaredLoss
from mtlrun.problem.objective import duality_gap
from mtlrun.problem.taskdata import TaskData

TOL = 1e-6
SHARES = (0.5, 0.1, 0.02)


class Shape(NamedTuple):
    """Rows, features, tasks, relevant features, share of entries that are not zero."""

    n: int
    d: int
    tasks: int
    relevant: int
    density: float = 1.0


SHAPES = {
    "n > d": Shape(2000, 500, 20, 30),
    "n >> d": Shape(50_000, 100, 20, 20),
    "d > n": Shape(300, 5000, 20, 30),
    "sparse": Shape(5000, 10_000, 20, 50, 0.01),
}


def main() -> None:
    """Print seconds, gaps and ratios for every shape, model and strength."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    warm_up()
    print(
        f"{'shape':8} {'model':16} {'alpha':>14}  {'ours':>9} {'gap':>8} {'used':>5}  {'sklearn':>9} {'gap':>8}  ratio"
    )
    for name, shape in SHAPES.items():
        X, Y = make(shape)
        for ours, penalty in ((JointFeatureMTL, L21), (SparseMTL, L1)):
            largest = ours().alpha_max(X, Y)
            for share in SHARES:
                print(f"{name:8} {ours.__name__:16} {share:5.2f} of max.  ", end="")
                print(duel(X, Y, ours, penalty(share * largest), repeats), flush=True)


def duel(X: Any, Y: np.ndarray, ours: Any, penalty: L1 | L21, repeats: int) -> str:
    """Return the numbers of one line."""
    seconds, model = best(
        ours(alpha=penalty.alpha, tol=TOL, max_iter=100_000), X, Y, repeats
    )
    theirs, other = fastest(X, Y, penalty, model.objective_[-1], repeats)
    used = int(model.coef_.any(axis=0).sum())
    return (
        f"{seconds:7.4f} s {gap(X, Y, penalty, model):8.1e} {used:5d}  "
        f"{theirs:7.4f} s {gap(X, Y, penalty, other):8.1e}  {seconds / theirs:5.2f}"
    )


def make(shape: Shape) -> tuple[Any, np.ndarray]:
    """Return a design of correlated (sparse: independent) features, and targets of
    which noise is a fifth.
    """
    rng = np.random.default_rng(0)
    if shape.density < 1:
        X = sp.random_array(
            (shape.n, shape.d),
            density=shape.density,
            rng=rng,
            format="csr",
            data_sampler=rng.standard_normal,
        )
    else:
        X = rng.standard_normal((shape.n, shape.d))
        for j in range(1, shape.d):
            X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    W = np.zeros((shape.d, shape.tasks))
    W[rng.choice(shape.d, shape.relevant, replace=False)] = rng.standard_normal(
        (shape.relevant, shape.tasks)
    )
    signal = X @ W
    return X, signal + 0.5 * signal.std() * rng.standard_normal(signal.shape)


def fastest(
    X: Any, Y: np.ndarray, penalty: L1 | L21, value: float, repeats: int
) -> tuple[float, Any]:
    """Return seconds and model of scikit-learn's fastest way to a gap of TOL times
    our objective.
    """
    alpha, energy = (
        penalty.alpha / X.shape[0],
        np.square(Y - Y.mean(axis=0)).sum(axis=0),
    )
    if isinstance(penalty, L21):
        ways = [MultiTaskLasso(alpha, tol=TOL * value / energy.sum(), max_iter=100_000)]
    else:  # one problem per task, each with its share of the gap
        tol = TOL * value / len(energy) / energy.mean()
        grams = (False,) if sp.issparse(X) else (False, True)
        ways = [
            Lasso(alpha, tol=tol, precompute=gram, max_iter=100_000) for gram in grams
        ]
    return min((best(way, X, Y, repeats) for way in ways), key=lambda found: found[0])


def best(model: Any, X: Any, Y: np.ndarray, repeats: int) -> tuple[float, Any]:
    """Return the shortest time of some fits, and the model."""
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        model.fit(X, Y)
        seconds.append(time.perf_counter() - begun)
    return min(seconds), model


def gap(X: Any, Y: np.ndarray, penalty: Any, model: Any) -> float:
    """Return the relative duality gap of a fitted model, by the same code for both
    sides.
    """
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
    return duality_gap(
        TaskData.from_matrix(X, Y),
        SquaredLoss(1.0),
        [penalty],
        [coef.T],
        model.intercept_,
    ).relative


def warm_up() -> None:
    """Compile or load the compiled code."""
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((20, 300)), rng.standard_normal((20, 2))
    for design in (X, X[:, :5], sp.csr_array(np.where(X > 1, X, 0.0))):
        for model in (JointFeatureMTL, SparseMTL):
            for alpha in (0.1, 1.0):
                model(alpha=alpha, max_iter=50).fit(design, Y)


if __name__ == "__main__":
    main()
