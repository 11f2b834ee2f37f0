"""Robust MTL and divide and conquer: invalid input, minimal shapes, sparse designs."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mtlrun.estimators.base import DegenerateModelWarning
from mtlrun.estimators.robust import (
    DivideAndConquerRMTL,
    DivideAndConquerRMTLClassifier,
    RobustMTL,
    RobustMTLClassifier,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::mtlrun.estimators.base.DegenerateModelWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
SOLVERS = ["admm", "fista", "apg", "ladm"]


def problem(n=20, d=5, T=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=(d, T)) + 0.1 * rng.normal(size=(n, T))


def models(solver="auto"):
    base = RobustMTL(0.6, 0.5, solver=solver)
    return [base, DivideAndConquerRMTL(base, 2)]


@pytest.mark.cover
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"lam": -0.5}, r"lam must be a float in \(0, inf\)"),
        ({"lam": np.nan}, "lam must be"),
        ({"beta": 0.0}, r"beta must be a float in \(0, inf\)"),
        ({"beta": np.inf}, "beta must be"),
        ({"tol": -1e-4}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
    ],
)
@pytest.mark.parametrize("divide", [False, True])
def test_parameters_out_of_range_are_rejected(params, message, divide):
    base = RobustMTL(**params)
    with pytest.raises(ValueError, match=message):
        (DivideAndConquerRMTL(base, 2) if divide else base).fit(*problem())


@pytest.mark.cover(2)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(1, 4, 3), (6, 1, 3), (6, 4, 1), (1, 1, 1)])
def test_one_row_one_feature_and_one_task_are_fitted(solver, shape):
    X, Y = problem(*shape)
    for model in models(solver):
        for fit_intercept in (True, False):
            name = (
                "fit_intercept"
                if model is not None and hasattr(model, "fit_intercept")
                else "base__fit_intercept"
            )
            model.set_params(**{name: fit_intercept}).fit(X, Y)
            assert model.coef_.shape == shape[:0:-1]
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.predict(X)).all()


def test_with_more_blocks_than_tasks_each_task_is_a_block():
    X, Y = problem(T=3)
    many, three = (DivideAndConquerRMTL(RobustMTL(0.6), t).fit(X, Y) for t in (50, 3))
    assert [len(block) for block in many.blocks_] == [1, 1, 1]
    assert_allclose(many.coef_, three.coef_)


def test_constant_designs_and_targets_are_fitted():
    X, Y = problem()
    for solver in SOLVERS:
        for model in models(solver):
            assert not model.fit(np.zeros_like(X), Y).coef_.any()
            assert not model.fit(X, np.zeros_like(Y)).coef_.any()


@pytest.mark.parametrize("lam", [0.4, 1.0])
def test_every_solver_warns_about_a_degenerate_lam(lam):
    for solver in SOLVERS:
        with pytest.warns(
            DegenerateModelWarning, match=r"Both parts need 0.408 < lam < 1"
        ):
            RobustMTL(lam, solver=solver).fit(*problem())


# ---------------------------------------------------------------- sparse designs


@pytest.mark.cover(2)
@pytest.mark.parametrize("shape", [(400, 20), (20, 400)])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_a_sparse_design_is_never_densified_beyond_the_smaller_side(
    monkeypatch, shape, solver, loss
):
    n, d = shape
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random(*shape, density=0.05, random_state=rng))
    Y = np.where(rng.random((n, 6)) < 0.5, 1.0, -1.0)
    sizes = []
    for kind in (sp.csr_array, sp.csc_array):
        for name in ("toarray", "todense"):
            original = getattr(kind, name)

            def noted(self, *args, original=original, **kwargs):
                sizes.append(self.shape[0] * self.shape[1])
                return original(self, *args, **kwargs)

            monkeypatch.setattr(kind, name, noted)
    variant = "paper" if solver == "apg" else "corrected"
    base = RobustMTLClassifier(
        0.6, 0.5, loss=loss, solver=solver, variant=variant, max_iter=30
    )
    for model in (base, DivideAndConquerRMTLClassifier(base, 2)):
        model.fit(X, Y).decision_function(X)
    assert max(sizes, default=0) <= min(n, d) ** 2


@pytest.mark.parametrize("solver", ["apg", "ladm"])
def test_paths_of_the_papers_solvers_are_warm_started_too(solver):
    X, Y = problem(60, 8)
    warm, saved = RobustMTL(solver=solver, eps=1e-6, warm_start=True), 0
    for lam, beta in ((0.6, 0.3), (0.58, 0.3), (0.58, 0.33)):
        cold = RobustMTL(lam, beta, solver=solver, eps=1e-6).fit(X, Y)
        warm.set_params(lam=lam, beta=beta).fit(X, Y)
        assert warm.objective_[-1] == pytest.approx(cold.objective_[-1], rel=1e-3)
        saved += cold.n_iter_ - warm.n_iter_
    assert saved > 0
