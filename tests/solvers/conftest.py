"""Small problems in all layouts, and optimal values from an independent solver."""

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from mtlrun.penalties.norms import L1, L12, L21, SquaredFrobenius, TraceNorm
from mtlrun.problem.losses import HingeLoss, LogisticLoss, SquaredHingeLoss, SquaredLoss
from mtlrun.problem.taskdata import TaskData

LAYOUTS = [
    "shared",
    "wide",
    "sparse",
    "weighted",
    "ragged",
    "short",
    "ragged-weighted",
    "masked",
    "cell-weighted",
]


def make(layout, labels=False, seed=0, d=4, T=3):
    """Return tiny data of a layout: T tasks, d features, not centered."""
    rng = np.random.default_rng(seed)
    n = 3 if layout in ("wide", "short") else 9
    sizes = (
        [n - 1, n, n + 1]
        if layout in ("ragged", "short", "ragged-weighted")
        else [n] * T
    )
    Xs = [rng.normal(size=(m, d)) + 0.4 for m in sizes]
    if layout not in ("ragged", "short", "ragged-weighted"):
        Xs = [Xs[0]] * T
    W = np.outer(rng.normal(size=d), rng.normal(size=T))
    W[:, -1] += 2 * rng.normal(size=d)
    ys = [
        X @ w + 0.5 + 0.7 * rng.normal(size=len(X))
        for X, w in zip(Xs, W.T, strict=True)
    ]
    if labels:
        ys = [np.where(y >= np.median(y), 1.0, -1.0) for y in ys]
    if layout == "ragged-weighted":
        return TaskData.from_list(
            Xs, ys, weights=[rng.uniform(0.2, 3.0, len(y)) for y in ys]
        )
    if layout in ("ragged", "short"):
        return TaskData.from_list(Xs, ys)
    Y = np.stack(ys, axis=1)
    if layout == "masked":
        Y[rng.random(Y.shape) < 0.3] = np.nan
        Y[0], Y[1] = 1.0, -1.0
        return TaskData.from_matrix(Xs[0], Y)
    weights = {
        "weighted": rng.uniform(0.0, 3.0, n),
        "cell-weighted": rng.uniform(0.2, 3.0, Y.shape),
    }.get(layout)
    X = (
        sp.csr_array(np.where(np.abs(Xs[0]) < 0.5, 0.0, Xs[0]))
        if layout == "sparse"
        else Xs[0]
    )
    return TaskData.from_matrix(X, Y, weights=weights)


def optimum(data, loss, penalties, fit_intercept):
    """Return the optimal value according to cvxpy."""
    d, T = data.n_features, data.n_tasks
    parts = [cp.Variable((d, T)) for _ in penalties]
    b = cp.Variable(T)
    total = sum(_penalty(p, W) for p, W in zip(penalties, parts, strict=True))
    for t in range(T):
        X, y, w = data.task(t)
        X = X.toarray() if sp.issparse(X) else X
        z = X @ sum(W[:, t] for W in parts) + (b[t] if fit_intercept else 0.0)
        w = np.ones(len(y)) if w is None else w
        total += _loss(loss, z, y, w)
    problem = cp.Problem(cp.Minimize(total))
    for solver, options in (
        (cp.CLARABEL, {}),
        (cp.SCS, {"eps": 1e-8, "max_iters": 50000}),
    ):
        # If the first solver fails or is inaccurate, the second one is used.
        with warnings.catch_warnings(), contextlib.suppress(cp.error.SolverError):
            warnings.simplefilter("ignore", UserWarning)
            problem.solve(solver=solver, **options)
            if problem.status == "optimal":
                return problem.value
    raise AssertionError(f"cvxpy: {problem.status}")


def _penalty(p, W):
    if isinstance(p, TraceNorm):
        return p.alpha * cp.normNuc(W)
    if isinstance(p, L12):
        return p.alpha * cp.sum(cp.norm(W, 2, axis=0))
    if isinstance(p, L21):
        return p.alpha * cp.sum(cp.norm(W, 2, axis=1))
    if isinstance(p, L1):
        return p.alpha * cp.sum(cp.abs(W))
    assert isinstance(p, SquaredFrobenius)
    return 0.5 * p.alpha * cp.sum_squares(W)


def _loss(loss, z, y, w):
    if isinstance(loss, SquaredLoss):
        return 0.5 * loss.scale * cp.sum(cp.multiply(w, cp.square(y - z)))
    margin = cp.multiply(y, z)
    if isinstance(loss, LogisticLoss):
        return loss.scale * cp.sum(cp.multiply(w, cp.logistic(-margin)))
    hinge = cp.pos(1 - margin)
    if isinstance(loss, SquaredHingeLoss):
        return 0.5 * loss.scale * cp.sum(cp.multiply(w, cp.square(hinge)))
    assert isinstance(loss, HingeLoss)
    return loss.scale * cp.sum(cp.multiply(w, hinge))


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    """Limit threads, which cost more than they save for small matrices."""
    with threadpool_limits(1):
        yield


@dataclass(frozen=True)
class SmallProblems:
    """Return functions that create small problems and solve them independently."""

    make: Callable
    optimum: Callable


@pytest.fixture(scope="session")
def small():
    """Return the helpers of this file, for the test modules."""
    return SmallProblems(make=make, optimum=optimum)
