"""Columns of any scale: converged models are near the optimum, and others warn.

In the limit, a column of huge scale is not penalized and one of tiny scale is absent:
the optimum is that of the other columns with the huge ones projected out, which is well
conditioned. These tests use no Gram matrix.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from mtlrun.catalog.registry import METHODS, build
from mtlrun.estimators import HierarchicalMTL, HierarchicalMTLClassifier
from mtlrun.estimators.base import DegenerateModelWarning
from mtlrun.penalties.norms import L1, L12, L21, SquaredFrobenius, TraceNorm
from mtlrun.problem.losses import is_graded, right_singular
from mtlrun.problem.statistics import TaskStatistics

pytestmark = pytest.mark.usefixtures("few_trees")

N, D, T = 60, 6, 4
#: Estimator, parameters, penalties and factor of the squared loss
MODELS = {
    "trace norm": ("TraceNormMTL", {}, [TraceNorm(1.0)], 1.0),
    "trace norm, fista": ("TraceNormMTL", {"solver": "fista"}, [TraceNorm(1.0)], 1.0),
    "L21": ("JointFeatureMTL", {}, [L21(1.0)], 1.0),
    "L21, admm": ("JointFeatureMTL", {"solver": "admm"}, [L21(1.0)], 1.0),
    "L1": ("SparseMTL", {}, [L1(1.0)], 1.0),
    "robust": ("RobustMTL", {"lam": 0.7}, [TraceNorm(1.0), L12(0.7)], 2.0),
    "robust, apg": (
        "RobustMTL",
        {"lam": 0.7, "solver": "apg", "stop": "gap"},
        [TraceNorm(1.0), L12(0.7)],
        2.0,
    ),
    "robust, ladm": (
        "RobustMTL",
        {"lam": 0.7, "solver": "ladm"},
        [TraceNorm(1.0), L12(0.7)],
        2.0,
    ),
    "ridge": ("IndependentRidge", {}, [SquaredFrobenius(1.0)], 1.0),
}
#: Weak strengths, for solutions near least squares
WEAK = {
    "alpha": 1e-6,
    "beta": 1e3,
    "eta": 1e-6,
    "rho": 1e-6,
    "sparsity": 1e-6,
    "ridge": 1e-6,
    "gamma": 1e-6,
}
#: Powers of ten of the columns, and the value of one cell
SCALES = {
    "plain": ([0] * D, None),
    "a feature of sd 1e9": ([9, 0, 0, 0, 0, 0], None),
    "a feature of sd 1e14": ([14, 0, 0, 0, 0, 0], None),
    "mixed": ([12, 0, 9, 5, 0, 3], None),
    "all 1e9": ([9] * D, None),
    "a cell of 1e9": ([0] * D, 1e9),
    "a cell of 1e14": ([0] * D, 1e14),
}
#: With these parameters their penalties are not weak.
STRONG = {"MTRL", "FusedMTL", "TemporalGroupLasso", "MTNetwork"}


def _made(powers, cell=None, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(powers)))
    Y = X @ rng.normal(size=(len(powers), T)) + 0.3 * rng.normal(size=(n, T))
    X = X * 10.0 ** np.array(powers, dtype=float)
    if cell is not None:
        X[3, 0] = cell
    return X, Y


def _fitted(name, params, X, Y, layout="shared"):
    """Return a fitted model and its predictions (n, T); it warns if not converged."""
    model = build({"estimator": name, "params": params})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if layout == "ragged":
            ids = np.repeat(np.arange(T), len(X))
            model.fit(np.vstack([X] * T), Y.T.ravel(), task_id=ids)
        else:
            model.fit(sp.csr_array(X) if layout == "sparse" else X, Y)
    warned = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    assert model.converged_ is not warned
    return model


def _orthonormal(X):
    """Return an orthonormal basis of the columns, whatever their scales."""
    sizes = np.linalg.norm(X, axis=0)
    return np.linalg.qr(X / np.where(sizes > 0, sizes, 1.0))[0]


def _squares_left(X, Y):
    """Return the residual sum of squares of a regression with a constant."""
    Q = _orthonormal(np.column_stack([np.ones(len(X)), X - X.mean(axis=0)]))
    return np.sum(np.square(Y - Q @ (Q.T @ Y)))


def _least(powers, X, Y, name, params, penalties, scale):
    """Return the smallest objective: a model of the other columns, fitted to the
    residuals of the huge ones.
    """
    powers = np.array(powers)
    huge = X[:, powers > 0] - X[:, powers > 0].mean(axis=0)
    Q = _orthonormal(np.column_stack([np.ones(len(X)), huge]))
    rest, left = X[:, powers == 0], Y - Q @ (Q.T @ Y)
    if not rest.shape[1]:
        return 0.5 * scale * np.sum(left**2)
    rest = rest - Q @ (Q.T @ rest)
    precise = (
        {"solver": "admm", "tol": 1e-9} if "solver" in build(name).get_params() else {}
    )
    plain = {
        key: value for key, value in params.items() if key not in ("solver", "stop")
    }
    model = build(
        {"estimator": name, "params": plain | precise | {"fit_intercept": False}}
    ).fit(rest, left)
    return _objective(
        left - rest @ model.coef_.T, _parts(model, len(penalties)), penalties, scale
    )


def _objective(residual, parts, penalties, scale):
    return 0.5 * scale * np.sum(residual**2) + sum(
        p.value(W) for p, W in zip(penalties, parts, strict=True)
    )


def _parts(model, n_parts):
    return [model.low_rank_.T, model.outlier_.T] if n_parts == 2 else [model.coef_.T]


@pytest.mark.every(3)
@pytest.mark.parametrize("model", MODELS)
@given(
    powers=st.lists(
        st.sampled_from([-12, -9, 0, 0, 0, 7, 9, 11, 14]), min_size=2, max_size=6
    ),
    layout=st.sampled_from(["shared", "ragged", "sparse"]),
    seed=st.integers(0, 5),
)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_converged_models_are_near_the_optimum(model, powers, layout, seed):
    name, params, penalties, scale = MODELS[model]
    X, Y = _made(powers, seed=seed)
    fitted = _fitted(
        name,
        params | {"max_iter": 400} if "solver" in build(name).get_params() else params,
        X,
        Y,
        layout,
    )
    residual = Y - Y.mean(axis=0) - (X - X.mean(axis=0)) @ fitted.coef_.T
    value = _objective(residual, _parts(fitted, len(penalties)), penalties, scale)
    assert (
        not fitted.converged_
        or value <= 1.001 * _least(powers, X, Y, name, params, penalties, scale) + 1e-3
    )


@pytest.mark.cover(
    name=[
        name
        for name, info in METHODS.items()
        if info.kind == "regressor" and name not in STRONG and "Pooled" not in name
    ],
    scales=SCALES,
)
def test_weak_penalties_lead_to_least_squares(name, scales):
    powers, cell = SCALES[scales]
    X, Y = _made(powers, cell)
    defaults = build(name).get_params()
    params = {key: value for key, value in WEAK.items() if key in defaults}
    params |= {"n_blocks": 2} if "n_blocks" in defaults else {}
    # All fits that converge take at most 1100 iterations.
    params |= {"max_iter": 1200} if (defaults.get("max_iter") or 0) > 1200 else {}
    if (name, scales) == ("FETR", "mixed"):
        with pytest.raises(ArithmeticError, match="too badly scaled"):
            _fitted(name, params, X, Y)
        return
    model = _fitted(name, params, X, Y)
    residual = np.sum((Y - model.predict(X)) ** 2)
    assert not model.converged_ or residual <= 1.02 * _squares_left(X, Y) + 0.02
    if scales == "plain" or (
        name in ("RobustMTL", "TraceNormMTL") and scales != "mixed"
    ):
        assert model.converged_


@pytest.mark.slow
@pytest.mark.cover(
    name=[
        "RobustMTLClassifier",
        "TraceNormMTLClassifier",
        "CMTL",
        "CoClus",
        "MeTaG",
        "IndependentLogistic",
    ],
    loss=["squared", "logistic"],
    scales=[name for name in SCALES if "cell" not in name],
)
def test_converged_classifiers_are_near_the_optimum(name, loss, scales):
    powers, _ = SCALES[scales]
    defaults = build(name).get_params()
    params = {"loss": loss} if "loss" in defaults else {}
    params |= {
        key: 0.1 for key in ("alpha", "shared", "low_rank", "ridge") if key in defaults
    }
    X, Y = _made(powers)
    Y = np.where(np.median(Y, axis=0) < Y, 1.0, -1.0)
    model = _fitted(
        name, params | ({"max_iter": 300} if "max_iter" in defaults else {}), X, Y
    )
    moderate = X * 10.0 ** (np.minimum(powers, 3) - np.array(powers, dtype=float))
    same = _fitted(name, params, moderate, Y)
    assert (
        not (model.converged_ and same.converged_)
        or model.objective_[-1] <= 1.01 * same.objective_[-1] + 0.01
    )
    if scales == "plain" or (
        loss == "squared" and name == "RobustMTLClassifier" and scales != "mixed"
    ):
        assert model.converged_


def test_a_single_cell_of_a_classifier_may_have_any_scale():
    X, Y = _made(*SCALES["a cell of 1e14"])
    Y = np.where(np.median(Y, axis=0) < Y, 1.0, -1.0)
    model = _fitted("RobustMTLClassifier", {"beta": 1e3}, X, Y)
    assert model.converged_
    assert np.sum((Y - model.decision_function(X)) ** 2) <= 1.01 * _squares_left(X, Y)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "name", ["SparseMTL", "JointFeatureMTL", "TraceNormMTL", "FETR", "IndependentRidge"]
)
@pytest.mark.parametrize("solver", ["auto", "fista"])
@pytest.mark.parametrize("offset", [1e6, 1e8, 1e12])
def test_targets_far_from_zero_are_fitted_without_intercept(name, solver, offset):
    X, Y = _made([0] * D)
    X, Y = np.column_stack([np.ones(N), X]), Y + offset
    defaults = build(name).get_params()
    params = {key: 1e-12 for key in ("alpha", "eta", "rho") if key in defaults} | {
        "fit_intercept": False
    }
    model = _fitted(
        name, params | ({"solver": solver} if "solver" in defaults else {}), X, Y
    )
    residual = np.sum((Y - model.predict(X)) ** 2)
    assert (
        not model.converged_
        or residual
        <= 1.05 * _squares_left(X[:, 1:], Y) + 1e-3 + (offset * 1e-15) ** 2 * Y.size
    )


@pytest.mark.parametrize("alpha", [0.0, 1e-6])
@pytest.mark.parametrize("powers", [(9, 0), (14, 7)])
def test_ridge_with_few_rows_is_accurate(alpha, powers):
    X, Y = _made([*powers, *[0] * 38], n=20)
    model = _fitted("IndependentRidge", {"alpha": alpha}, X, Y)
    assert model.converged_
    np.testing.assert_allclose(model.predict(X), Y, atol=1e-4)


@pytest.mark.parametrize("shared", [True, False])
def test_statistics_of_columns_with_mixed_scales_are_accurate(shared):
    X, Y = _made([9, 0, 0, 4, 0, 0])
    ids = None if shared else np.repeat(np.arange(T), N)
    X, Y = (X, Y) if shared else (np.vstack([X] * T), Y.T.ravel())
    statistics = TaskStatistics.of(X, Y, ids)
    for name in ("TraceNormMTL", "IndependentRidge", "RobustMTL"):
        summed, from_rows = build(name), build(name).fit(X, Y, task_id=ids)
        summed.fit_statistics(statistics)
        np.testing.assert_allclose(
            summed.predict(X, task_id=ids), from_rows.predict(X, task_id=ids), atol=0.02
        )


@pytest.mark.parametrize("shape", [(30, 6), (5, 8)])
def test_singular_values_are_accurate_at_any_scale(shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    X[:, 0] *= 1e12
    squares, V = right_singular(X, np.linalg.norm(X, axis=0))
    np.testing.assert_allclose(V.T @ V, np.eye(min(shape)), atol=1e-13)
    rest = X[:, 1:] - np.outer(
        X[:, 0], (X[:, 0] @ X[:, 1:]) / (X[:, 0] @ X[:, 0])
    )  # Residuals of the large column
    np.testing.assert_allclose(
        squares[:-1], np.sort(np.linalg.svd(rest)[1][: min(shape) - 1] ** 2), rtol=1e-9
    )


def test_noise_is_dropped_at_any_scale():
    X = np.random.default_rng(0).normal(size=(30, 5))
    X[:, 0] *= 1e12
    X[:, 4] = X[:, 2] + X[:, 3]
    assert len(right_singular(X, np.linalg.norm(X, axis=0))[0]) == 4
    squares, V = right_singular(np.zeros((4, 3)), np.zeros(3))
    assert squares.tolist() == [0.0]
    assert V.shape == (3, 1)


def test_constant_columns_do_not_count_as_small():
    expected_values = np.array([1e4, 1.0, 25.0])
    assert not is_graded(np.array([1e4, 1.0, 1e-28]), expected_values)
    assert is_graded(np.array([1e4, 1e-12, 25.0]), np.array([1e4, 1e-12, 25.0]))
    assert is_graded(np.array([[1e4, 1.0], [1e4, 1e-7]]), np.ones((2, 2))).tolist() == [
        False,
        True,
    ]


@pytest.mark.cover
@pytest.mark.parametrize("model", [HierarchicalMTL, HierarchicalMTLClassifier])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e9, 1e12])
def test_a_hierarchical_model_uses_a_feature_far_from_zero_or_reports_that_it_does_not(
    model, offset
):
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(120, 2)), np.arange(120) % 3
    y = X @ [1.0, 3.0] + 0.1 * rng.normal(size=120)
    y = np.sign(y) if model is HierarchicalMTLClassifier else y
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        moved, plain = (
            model().fit(X + np.array([0, by]), y, task_id=t).coef_[:, 1]
            for by in (offset, 0.0)
        )
    if any(issubclass(warning.category, DegenerateModelWarning) for warning in caught):
        assert offset > 1e6
        assert np.all(moved == 0)
    else:
        np.testing.assert_allclose(moved, plain, rtol=1e-4)
