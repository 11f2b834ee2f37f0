"""Duality gaps bound the distance from the optimum: never negative, zero at the
optimum, consistent with cvxpy.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.penalties.norms import L1, L12, L21, SquaredFrobenius, TraceNorm
from mtlrun.problem.losses import HingeLoss, LogisticLoss, SquaredHingeLoss, SquaredLoss
from mtlrun.problem.objective import dual_value, duality_gap, primal_value
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.taskdata import TaskData

SMOOTH = [SquaredLoss, LogisticLoss, SquaredHingeLoss]
MODELS = {
    "l1": lambda s: [L1(0.5 * s)],
    "rows": lambda s: [L21(s)],
    "columns": lambda s: [L12(s)],
    "trace": lambda s: [TraceNorm(s)],
    "ridge": lambda s: [SquaredFrobenius(s)],
    "low rank + columns": lambda s: [TraceNorm(s), L12(0.7 * s)],
    "rows + columns": lambda s: [L21(s), L12(0.9 * s)],
    "sparse + low rank + ridge": lambda s: [
        L1(0.4 * s),
        TraceNorm(s),
        SquaredFrobenius(3 * s),
    ],
}


def problem(seed, layout="ragged", n=9, d=3, T=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * T, d)) + 0.3
    y = rng.choice([-1.0, 1.0], n * T)
    w = rng.uniform(0.0, 2.0, n * T)
    w[::n] = 1.0
    if layout == "ragged":
        ids = np.repeat(np.arange(T), [n - 2, n, n + 2])
        return TaskData.from_stacked(X, y, ids, weights=w)
    Y = y.reshape(n, T)
    if layout == "masked":
        Y = np.where(w.reshape(n, T) < 0.4, np.nan, Y)
        Y[:2] = [[1.0] * T, [-1.0] * T]
        return TaskData.from_matrix(X[:n], Y)
    return TaskData.from_matrix(X[:n], Y)


def solve(data, loss, penalties, intercept, steps=3000):
    """Run accelerated proximal gradient with restarts, independent of the package."""
    operator, w = TaskOperator(data), data.effective_weights()
    total = data.sum_by_task(
        np.ones_like(data.targets) if w is None else w
    ).max()  # The curvature of the intercepts
    L = (
        len(penalties)
        * loss.curvature
        * (operator.norm(data.weights) ** 2 + (total if intercept else 0.0))
    )
    parts = np.zeros((len(penalties), data.n_features, data.n_tasks))
    b = np.zeros(data.n_tasks)
    look, look_b, t = parts, b, 1.0
    for _ in range(steps):
        gradient = loss.gradient(
            operator.forward(look.sum(axis=0), look_b), data.targets, w
        )
        G = operator.adjoint(gradient)
        new = np.stack(
            [p.prox(V - G / L, 1.0 / L) for p, V in zip(penalties, look, strict=True)]
        )
        new_b = look_b - data.sum_by_task(gradient) / L if intercept else b
        if np.vdot(look - new, new - parts) + np.vdot(look_b - new_b, new_b - b) > 0:
            t = 1.0
        t_new = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        factor = (t - 1.0) / t_new
        look, look_b = new + factor * (new - parts), new_b + factor * (new_b - b)
        step = max(np.abs(new - parts).max(), np.abs(new_b - b).max())
        parts, b, t = new, new_b, t_new
        if step < 1e-11:
            break
    return parts, (b if intercept else None)


@pytest.mark.every(3)
@pytest.mark.parametrize("layout", ["ragged", "shared", "masked"])
@pytest.mark.parametrize("model", MODELS)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.floats(1e-3, 1e2),
    strength=st.floats(1e-2, 10),
    free=st.booleans(),
)
def test_the_gap_is_never_negative(layout, model, seed, size, strength, free):
    data, rng = problem(seed % 50, layout), np.random.default_rng(seed)
    penalties = MODELS[model](strength)
    parts = size * rng.normal(size=(len(penalties), 3, 3))
    b = size * rng.normal(size=3) if free else None
    for loss_class in (*SMOOTH, HingeLoss):
        gap = duality_gap(data, loss_class(0.7), penalties, parts, b)
        assert np.isfinite(gap.dual)
        assert gap.dual >= 0
        assert gap.relative >= -1e-12


@pytest.mark.every(3)
@pytest.mark.parametrize("loss_class", SMOOTH)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_the_gap_vanishes_at_the_optimum_and_bounds_every_iterate(
    loss_class, intercept, model
):
    data, loss, penalties = problem(7), loss_class(1.3), MODELS[model](0.8)
    parts, b = solve(data, loss, penalties, intercept)
    best = duality_gap(data, loss, penalties, parts, b)
    assert best.relative < 1e-9
    early, early_b = solve(data, loss, penalties, intercept, steps=5)
    gap = duality_gap(data, loss, penalties, early, early_b)
    assert gap.dual <= best.primal + 1e-9
    assert gap.primal >= best.dual - 1e-9


@pytest.mark.parametrize("layout", ["shared", "masked"])
def test_the_gap_vanishes_in_the_other_layouts(layout):
    data, penalties = problem(3, layout), MODELS["low rank + columns"](0.8)
    for loss_class in SMOOTH:
        parts, b = solve(data, loss_class(), penalties, intercept=True)
        assert duality_gap(data, loss_class(), penalties, parts, b).relative < 1e-9


def cvxpy_optimum(data, loss, penalties, intercept):
    """Solve the problem as a conic program, from the formulas of the docstrings."""
    cp = pytest.importorskip("cvxpy")
    d, T = data.n_features, data.n_tasks
    parts = [cp.Variable((d, T)) for _ in penalties]
    b = cp.Variable(T) if intercept else np.zeros(T)
    W, terms = sum(parts), []
    for t in range(T):
        X, y, w = data.task(t)
        w = np.ones(len(y)) if w is None else w
        z = X @ W[:, t] + b[t]
        if isinstance(loss, SquaredLoss):
            values = cp.square(z - y) / 2
        elif isinstance(loss, LogisticLoss):
            values = cp.logistic(-cp.multiply(y, z))
        elif isinstance(loss, SquaredHingeLoss):
            values = cp.square(cp.pos(1 - cp.multiply(y, z))) / 2
        else:
            values = cp.pos(1 - cp.multiply(y, z))
        terms.append(loss.scale * (w @ values))
    forms = {
        L1: lambda V: cp.sum(cp.abs(V)),
        L21: lambda V: cp.sum(cp.norm(V, 2, axis=1)),
        L12: lambda V: cp.sum(cp.norm(V, 2, axis=0)),
        TraceNorm: cp.normNuc,
        SquaredFrobenius: lambda V: cp.sum_squares(V) / 2,
    }
    terms += [
        p.alpha * forms[type(p)](V) for p, V in zip(penalties, parts, strict=True)
    ]
    program = cp.Problem(cp.Minimize(sum(terms)))
    program.solve(solver="CLARABEL")
    solution = np.stack([V.value for V in parts])
    return program.value, solution, b.value if intercept else None


@pytest.mark.parametrize(
    ("loss", "model", "intercept"),
    [
        (SquaredLoss(1.4), "low rank + columns", False),
        (LogisticLoss(0.6), "rows + columns", True),
        (SquaredHingeLoss(0.8), "sparse + low rank + ridge", True),
        (SquaredLoss(0.5), "l1", True),
    ],
)
def test_the_optimum_agrees_with_a_conic_solver(loss, model, intercept):
    data, penalties = problem(11), MODELS[model](0.7)
    optimum, solution, b = cvxpy_optimum(data, loss, penalties, intercept)
    assert primal_value(data, loss, penalties, solution, b) == pytest.approx(
        optimum, rel=1e-6
    )
    parts, own_b = solve(data, loss, penalties, intercept)
    gap = duality_gap(data, loss, penalties, parts, own_b)
    assert gap.primal == pytest.approx(optimum, rel=1e-6)
    assert gap.dual == pytest.approx(optimum, rel=1e-6)


def test_the_hinge_optimum_is_certified_with_its_dual_point():
    """The hinge is not differentiable at the margin, so the dual point comes from the
    solver, here cvxpy.
    """
    cp = pytest.importorskip("cvxpy")
    data, loss, penalties = (
        problem(5, "shared"),
        HingeLoss(0.9),
        [SquaredFrobenius(0.5)],
    )
    optimum = cvxpy_optimum(data, loss, penalties, intercept=True)[0]
    a = cp.Variable(data.Y.shape)  # theta = y a with a in [0, scale]
    theta = cp.multiply(data.Y, a)
    dual = cp.sum(a) - cp.sum_squares(data.X.T @ theta) / (2 * penalties[0].alpha)
    cp.Problem(
        cp.Maximize(dual), [a >= 0, a <= loss.scale, cp.sum(theta, axis=0) == 0]
    ).solve(solver="CLARABEL")
    point = data.Y * np.clip(a.value, 0, loss.scale)
    assert dual_value(point, data, loss, penalties, intercept=True) == pytest.approx(
        optimum, rel=1e-6
    )
