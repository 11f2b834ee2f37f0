"""FISTA: optima for every smooth loss and layout, both forms of the squared loss,
agreement with ADMM.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mtlrun.penalties.norms import L1, L12, L21, SquaredFrobenius, TraceNorm
from mtlrun.problem import quadratic
from mtlrun.problem.losses import HingeLoss, LogisticLoss, SquaredHingeLoss, SquaredLoss
from mtlrun.problem.objective import dual_value, primal_value
from mtlrun.problem.quadratic import Gram
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.admm import solve_admm
from mtlrun.solvers.convex.fista import (
    FieldLoss,
    QuadraticLoss,
    smooth_loss,
    solve_fista,
)

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
LOSSES = [SquaredLoss(0.7), LogisticLoss(1.5), SquaredHingeLoss(0.8)]
MODELS = {
    "rows": [L21(0.6)],
    "ridge": [SquaredFrobenius(0.8)],
    "robust": [TraceNorm(0.9), L12(0.7)],
    "sparse + low rank": [L1(0.5), TraceNorm(0.9)],
}


@pytest.mark.every(2)
@pytest.mark.cover(2, layout=LAYOUTS, loss=LOSSES, model=MODELS)
def test_the_optimum_matches_cvxpy(small, layout, loss, model):
    data, penalties = small.make(layout, labels=loss.labels), MODELS[model]
    for fit_intercept in (False, True):
        if (
            fit_intercept
            and isinstance(loss, LogisticLoss)
            and layout in ("wide", "short")
        ):
            continue  # Separable by the intercept alone: no minimizer exists.
        result = solve_fista(
            data, loss, penalties, fit_intercept=fit_intercept, tol=1e-6
        )
        value = primal_value(data, loss, penalties, result.parts, result.intercept)
        assert result.converged
        assert result.objective[-1] == pytest.approx(value, rel=1e-9)
        best = small.optimum(data, loss, penalties, fit_intercept)
        assert value == pytest.approx(best, rel=1e-5, abs=1e-6)
        assert result.gaps[-1][2] <= best + 1e-5 * max(
            1.0, best
        )  # The dual value is below the optimum.


@pytest.mark.cover
@pytest.mark.parametrize(
    "layout",
    ["shared", "sparse", "weighted", "ragged", "ragged-weighted", "cell-weighted"],
)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_both_forms_of_the_squared_loss_are_the_same_function(
    small, layout, fit_intercept
):
    data, loss, rng = small.make(layout), SquaredLoss(1.3), np.random.default_rng(0)
    field, gram = (
        FieldLoss(data, loss, fit_intercept),
        QuadraticLoss(Gram(data, fit_intercept), loss.scale),
    )
    points = [rng.normal(size=(4, 3)) for _ in range(2)]
    (f0, f1), (g0, g1) = ([form.point(W) for W in points] for form in (field, gram))
    assert field.value(f0) == pytest.approx(gram.value(g0))
    assert_allclose(field.gradient(f0).W, gram.gradient(g0).W, atol=1e-9)
    assert field.excess(f0, field.gradient(f0), f1) == pytest.approx(
        gram.excess(g0, gram.gradient(g0), g1)
    )
    expected = (
        field.value(f1) - field.value(f0) - np.vdot(field.gradient(f0).W, f1.W - f0.W)
    )
    assert field.excess(f0, field.gradient(f0), f1) == pytest.approx(expected)
    assert field.curvature >= gram.curvature * (1 - 1e-12)
    if layout != "cell-weighted":  # There only a bound is required.
        assert field.curvature == pytest.approx(gram.curvature)
    assert_allclose(field.intercept(f0), gram.intercept(g0))
    assert field.value(f0.beyond(f1, 0.3)) == pytest.approx(
        gram.value(g0.beyond(g1, 0.3))
    )
    # The Gram form excludes the unexplainable part from the scaling, so its dual is
    # never worse.
    penalties = [TraceNorm(0.5), L12(0.4)]
    assert gram.dual(g0, penalties) >= field.dual(f0, penalties) - 1e-9


@pytest.mark.parametrize("layout", ["shared", "ragged"])
def test_a_loose_gram_loss_has_lower_but_valid_dual_values(small, layout):
    data, loss, penalties = (
        small.make(layout),
        SquaredLoss(1.3),
        [TraceNorm(0.5), L12(0.4)],
    )
    best = solve_admm(data, loss, penalties, tol=1e-9).objective[-1]
    sharp, blunt = (
        QuadraticLoss(Gram(data, sharp=flag), loss.scale) for flag in (True, False)
    )
    assert blunt.form.unexplained == 0.0 < sharp.form.unexplained
    W = np.random.default_rng(0).normal(size=(4, 3))
    assert (
        blunt.dual(blunt.point(W), penalties)
        <= sharp.dual(sharp.point(W), penalties)
        <= best * (1 + 1e-8)
    )
    field = FieldLoss(data, loss)
    assert blunt.dual(blunt.point(W), penalties) == pytest.approx(
        field.dual(field.point(W), penalties)
    )
    assert blunt.curvature == pytest.approx(sharp.curvature)


def test_the_curvature_of_many_features_is_hardly_approximate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, quadratic.EXACT_SIZE + 1))
    data = TaskData.from_matrix(X, rng.normal(size=(50, 2)))
    exact = 1.3 * np.linalg.norm(X, 2) ** 2
    approximate = QuadraticLoss(Gram(data), 1.3).curvature
    assert exact <= approximate * (1 + 1e-9)
    assert approximate == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_gradients_match_finite_differences(small, loss):
    data = small.make("masked", labels=loss.labels)
    form, rng = FieldLoss(data, loss, fit_intercept=True), np.random.default_rng(1)
    W, b, dW, db = (
        rng.normal(size=(4, 3)),
        rng.normal(size=3),
        rng.normal(size=(4, 3)),
        rng.normal(size=3),
    )
    if not form.with_b:
        b, db = np.zeros(3), np.zeros(3)
    gradient, h = form.gradient(form.point(W, b)), 1e-6
    slope = (
        form.value(form.point(W + h * dW, b + h * db))
        - form.value(form.point(W - h * dW, b - h * db))
    ) / (2 * h)
    assert slope == pytest.approx(np.vdot(gradient.W, dW) + gradient.b @ db, rel=1e-6)


def test_the_cheaper_form_is_chosen():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(200, 10)), rng.normal(size=(200, 3))
    assert isinstance(
        smooth_loss(TaskData.from_matrix(X, Y), SquaredLoss()), QuadraticLoss
    )
    assert isinstance(
        smooth_loss(TaskData.from_matrix(X[:4], Y[:4]), SquaredLoss()), FieldLoss
    )
    assert isinstance(
        smooth_loss(TaskData.from_matrix(X, np.sign(Y)), LogisticLoss()), FieldLoss
    )
    sparse = sp.csr_array(sp.random(200, 10, density=0.3, random_state=rng))
    assert isinstance(
        smooth_loss(TaskData.from_matrix(sparse, Y), SquaredLoss()), QuadraticLoss
    )
    assert isinstance(
        smooth_loss(TaskData.from_matrix(sparse[:5], Y[:5]), SquaredLoss()), FieldLoss
    )


@pytest.mark.parametrize("layout", ["shared", "ragged"])
def test_both_forms_lead_to_the_same_optimum(layout):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 10))
    ids = np.repeat([0, 1, 2], 5)
    penalties, loss = MODELS["robust"], SquaredLoss(1.0)
    results = []
    # Repeated rows with smaller weights are the same problem.
    for n_copies, form in ((1, FieldLoss), (2, QuadraticLoss)):
        if layout == "shared":
            Z = np.tile(X[:5], (n_copies, 1))
            Y = np.tile(X[5:8, :5].T, (n_copies, 1))
            weights = np.full(len(Z), 1 / n_copies)
            data = TaskData.from_matrix(Z, Y, weights=weights)
        else:
            Z = np.tile(X, (n_copies, 1))
            y = np.tile(X[::-1, 0] + X[:, 1], n_copies)
            weights = np.full(len(Z), 1 / n_copies)
            data = TaskData.from_stacked(Z, y, np.tile(ids, n_copies), weights=weights)
        assert isinstance(smooth_loss(data, loss), form)
        results.append(solve_fista(data, loss, penalties, fit_intercept=True, tol=1e-8))
    assert results[0].objective[-1] == pytest.approx(results[1].objective[-1], rel=1e-7)
    assert_allclose(results[0].W, results[1].W, atol=1e-3)


@pytest.mark.every(2)
@pytest.mark.parametrize("shape", [(60, 20, 6), (15, 40, 6)])
@pytest.mark.parametrize("sparse", [False, True])
def test_fista_and_admm_agree_for_badly_scaled_features(shape, sparse):
    n, d, T = shape
    rng = np.random.default_rng(2)
    X = np.where(rng.random((n, d)) < 0.5, rng.normal(size=(n, d)), 0.0) * np.logspace(
        0, 1, d
    )
    Y = X @ rng.normal(size=(d, 2)) @ rng.normal(size=(2, T)) + rng.normal(size=(n, T))
    data = TaskData.from_matrix(sp.csr_array(X) if sparse else X, Y)
    for penalties in ([TraceNorm(50.0), L12(30.0)], [L21(20.0)]):
        fista = solve_fista(
            data, SquaredLoss(1.0), penalties, fit_intercept=True, tol=1e-6
        )
        admm = solve_admm(
            data, SquaredLoss(1.0), penalties, fit_intercept=True, tol=1e-6
        )
        assert fista.converged
        assert admm.converged
        assert fista.objective[-1] == pytest.approx(admm.objective[-1], rel=2e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_warm_starts_save_iterations(small, loss):
    data, penalties = small.make("shared", labels=loss.labels), MODELS["robust"]
    cold = solve_fista(data, loss, penalties, fit_intercept=True, tol=1e-6)
    again = solve_fista(data, loss, penalties, start=cold, fit_intercept=True, tol=1e-6)
    assert again.n_iter <= 5
    near = solve_fista(
        data,
        loss,
        [TraceNorm(0.95), L12(0.72)],
        start=cold.parts,
        fit_intercept=True,
        tol=1e-6,
    )
    from_zero = solve_fista(
        data, loss, [TraceNorm(0.95), L12(0.72)], fit_intercept=True, tol=1e-6
    )
    assert near.objective[-1] == pytest.approx(from_zero.objective[-1], rel=3e-6)
    # Unneeded parts are added to the others.
    merged = solve_fista(
        data, loss, [TraceNorm(0.9), L12(2.0)], start=cold, fit_intercept=True, tol=1e-6
    )
    assert merged.info["needed"] == [0]
    assert not merged.parts[1].any()


def test_the_dual_values_match_core(small):
    data, penalties, loss = (
        small.make("ragged", labels=True),
        MODELS["robust"],
        LogisticLoss(),
    )
    result = solve_fista(data, loss, penalties, tol=1e-9)
    z = FieldLoss(data, loss).operator.forward(result.W)
    dual = dual_value(-loss.gradient(z, data.targets), data, loss, penalties)
    assert dual <= result.objective[-1] * (1 + 1e-12)
    assert dual == pytest.approx(result.gaps[-1][2], rel=1e-6)


def test_zero_designs_callbacks_and_errors_are_handled(small):
    zeros = TaskData.from_matrix(np.zeros((5, 3)), np.ones((5, 2)))
    result = solve_fista(zeros, SquaredLoss(1.0), [TraceNorm(1.0)])
    assert result.converged
    assert not result.W.any()
    data = small.make("shared", labels=True)
    stopped = solve_fista(
        data, LogisticLoss(), MODELS["robust"], callback=lambda *a: a[0] >= 5, tol=1e-12
    )
    assert stopped.n_iter == 5
    short = solve_fista(data, LogisticLoss(), MODELS["robust"], max_iter=3, tol=1e-12)
    assert not short.converged
    with pytest.raises(ValueError, match="not smooth; use solve_split"):
        solve_fista(data, HingeLoss(), MODELS["robust"])
    with pytest.raises(ValueError, match="start has shape"):
        solve_fista(data, LogisticLoss(), MODELS["robust"], start=np.zeros((1, 4, 3)))
