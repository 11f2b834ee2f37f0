"""Robust MTL: objective, parts, ranges of lam, solvers, layouts, losses."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mtlrun.estimators.base import DegenerateModelWarning
from mtlrun.estimators.penalized import TraceNormMTL
from mtlrun.estimators.robust import (
    DivideAndConquerRMTL,
    RobustMTL,
    RobustMTLClassifier,
)


def problem(n=40, d=8, T=9, seed=0, labels=False):
    """Return data of rank two whose last task is an outlier."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.3
    W = rng.normal(size=(d, 2)) @ rng.normal(size=(2, T))
    W[:, -1] = 4 * rng.normal(size=d)
    Y = X @ W + 1 + 0.5 * rng.normal(size=(n, T))
    return X, np.where(np.median(Y, axis=0) < Y, 1, -1) if labels else Y


def objective(model, X, Y):
    """Compute the documented objective."""
    Z = X @ model.coef_.T + model.intercept_
    name = getattr(model, "loss", "squared")
    if name == "logistic":
        loss = np.logaddexp(0, -Y * Z).sum()
    elif name == "squared_hinge":
        loss = np.sum(np.maximum(0, 1 - Y * Z) ** 2)
    else:
        loss = np.sum((Y - Z) ** 2)
    columns = np.linalg.norm(model.outlier_, axis=1).sum()
    return (
        np.linalg.norm(model.low_rank_, "nuc") + model.lam * columns + model.beta * loss
    )


MODELS = [RobustMTL(0.6, 0.3)] + [
    RobustMTLClassifier(0.6, 0.3, loss=loss)
    for loss in ("squared", "squared_hinge", "logistic")
]
SOLVERS = ["admm", "fista", "apg"]


@pytest.mark.every(2)
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("intercept", [True, False])
def test_all_solvers_reach_the_optimum_of_the_documented_objective(
    model, solver, intercept
):
    X, Y = problem(labels="Classifier" in str(model))
    best = (
        clone(model)
        .set_params(fit_intercept=intercept, tol=1e-7, max_iter=100000)
        .fit(X, Y)
    )
    fitted = (
        clone(model)
        .set_params(fit_intercept=intercept, solver=solver, tol=1e-4, max_iter=100000)
        .fit(X, Y)
    )
    for one in (best, fitted):
        assert_allclose(one.low_rank_ + one.outlier_, one.coef_)
        assert one.low_rank_.shape == one.outlier_.shape == (9, 8)
        assert one.objective_[-1] == pytest.approx(objective(one, X, Y), rel=1e-9)
        assert one.converged_
        assert one.gap_ <= one.tol
    assert fitted.objective_[-1] == pytest.approx(best.objective_[-1], rel=1.1e-4)
    assert np.any(fitted.intercept_) == intercept


def test_the_outlier_task_is_detected():
    X, Y = problem()
    model = RobustMTL(0.6, 0.3, tol=1e-8).fit(X, Y)
    norms = np.linalg.norm(model.outlier_, axis=1)
    assert norms.argmax() == 8
    assert norms[8] > 3 * norms[:8].max()


# ---------------------------------------------------------------- ranges of lam


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("lam", [1.0, 1.7])
def test_from_one_on_the_outlier_part_is_zero_and_the_model_is_the_trace_norm(
    lam, solver
):
    X, Y = problem()
    with pytest.warns(
        DegenerateModelWarning, match=r"lam=1.*: outlier_ is zero.*0.333 < lam < 1"
    ):
        model = RobustMTL(lam, 0.5, solver=solver, tol=1e-6, max_iter=100000).fit(X, Y)
    trace = TraceNormMTL(1.0, tol=1e-8).fit(X, Y)
    assert model.objective_[-1] == pytest.approx(trace.objective_[-1], rel=2e-6)
    assert_allclose(model.coef_, trace.coef_, atol=1e-2)
    if solver == "admm":
        assert not model.outlier_.any()


@pytest.mark.parametrize("lam", [0.2, 1 / 3])
def test_up_to_one_over_root_m_the_low_rank_part_is_zero_and_tasks_are_separate(lam):
    X, Y = problem()
    with pytest.warns(DegenerateModelWarning, match="low_rank_ is zero"):
        model = RobustMTL(lam, 0.5, tol=1e-9).fit(X, Y)
    assert not model.low_rank_.any()
    with pytest.warns(DegenerateModelWarning, match="no second part"):
        alone = RobustMTL(lam, 0.5, tol=1e-9).fit(X, Y[:, 3])
    assert_allclose(model.coef_[3], alone.coef_[0], atol=1e-3)


def test_between_these_limits_there_is_no_warning():
    X, Y = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models = [RobustMTL(lam).fit(X, Y) for lam in (0.34, 0.99)]
    assert all(model.converged_ for model in models)


# ---------------------------------------------------------------- layouts and weights


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_ragged_masked_sparse_and_weighted_data_are_fitted(model):
    X, Y = problem(24, 4, 5, labels="Classifier" in str(model))
    precise = clone(model).set_params(tol=1e-9, max_iter=100000)
    w = np.random.default_rng(1).integers(0, 3, size=24)
    rows = np.repeat(np.arange(24), w)
    expected = precise.fit(X[rows], Y[rows])
    value, coef = expected.objective_[-1], expected.coef_
    cases = [
        ((X, Y), {"sample_weight": w}),
        ((sp.csr_matrix(X), Y), {"sample_weight": w}),
        ((X, np.where(w[:, None] > 0, Y, np.nan)), {"sample_weight": w}),
        (
            (np.vstack([X] * 5), Y.T.ravel()),
            {"task_id": np.repeat(np.arange(5), 24), "sample_weight": np.tile(w, 5)},
        ),
    ]
    for data, options in cases:
        fitted = precise.fit(*data, **options)
        assert fitted.objective_[-1] == pytest.approx(value, rel=1e-7)
        assert_allclose(fitted.coef_, coef, atol=5e-3)


def test_the_order_of_tasks_does_not_matter():
    X, Y = problem()
    order = np.random.default_rng(0).permutation(9)
    first = RobustMTL(0.6, 0.3, tol=1e-9).fit(X, Y)
    second = RobustMTL(0.6, 0.3, tol=1e-9).fit(X, Y[:, order])
    assert_allclose(second.coef_, first.coef_[order], atol=1e-3)


@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_tasks_of_a_single_class_are_fitted(loss):
    X, Y = problem(labels=True)
    Y[:, 2] = 1
    model = RobustMTLClassifier(0.6, 1.0, loss=loss).fit(X, Y)
    assert model.converged_
    assert (model.predict(X)[:, 2] == 1).all()


def test_the_squared_classifier_is_the_regressor_on_signs():
    X, Y = problem(labels=True)
    scores = RobustMTL(0.6, 0.3).fit(X, Y.astype(float)).predict(X)
    model = RobustMTLClassifier(0.6, 0.3).fit(X, np.where(Y > 0, "yes", "no"))
    assert_array_equal(model.decision_function(X), scores)
    assert_array_equal(model.predict(X) == "yes", scores > 0)


# ----------------------------------------------- the paper's solvers and stopping rules


def test_apg_as_printed_stops_by_its_own_rule():
    X, Y = problem()
    model = RobustMTL(0.6, 0.3, solver="apg", variant="paper", fit_intercept=False).fit(
        X, Y
    )
    assert model.converged_
    assert model.stop_crit_ <= model.eps
    best = RobustMTL(0.6, 0.3, tol=1e-7, fit_intercept=False).fit(X, Y)
    assert 0 < model.objective_[-1] / best.objective_[-1] - 1 < 1e-2
    certified = RobustMTL(
        0.6,
        0.3,
        solver="apg",
        variant="paper",
        stop="gap",
        fit_intercept=False,
        max_iter=100000,
    )
    assert certified.fit(X, Y).gap_ <= 1e-4


@pytest.mark.every(2)
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("shape", [(40, 8), (15, 30)])
def test_ladm_corrected_solves_the_same_problem(model, shape):
    X, Y = problem(*shape, labels="Classifier" in str(model))
    best = clone(model).set_params(tol=1e-7, max_iter=100000).fit(X, Y)
    ladm = clone(model).set_params(solver="ladm", eps=1e-6, max_iter=100000).fit(X, Y)
    assert ladm.converged_
    assert ladm.stop_crit_ <= 1e-6
    assert ladm.objective_[-1] == pytest.approx(objective(ladm, X, Y), rel=1e-6)
    assert ladm.objective_[-1] == pytest.approx(best.objective_[-1], rel=1e-3)
    assert ladm.gap_ < 1e-2
    certified = clone(ladm).set_params(stop="gap", tol=1e-4).fit(X, Y)
    assert certified.gap_ <= 1e-4
    assert certified.objective_[-1] == pytest.approx(best.objective_[-1], rel=2e-4)
    fast = (
        clone(model)
        .set_params(solver="ladm", variant="accelerated", tol=1e-4)
        .fit(X, Y)
    )
    assert fast.stop_crit_ == fast.gap_ <= 1e-4
    assert fast.objective_[-1] == pytest.approx(best.objective_[-1], rel=2e-4)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_ladm_with_sequential_parts_solves_the_same_problem(model):
    X, Y = problem(labels="Classifier" in str(model))
    model = clone(model).set_params(fit_intercept=False)
    best = clone(model).set_params(tol=1e-7, max_iter=100000).fit(X, Y)
    ladm = (
        clone(model)
        .set_params(solver="ladm", variant="sequential", eps=1e-6, max_iter=100000)
        .fit(X, Y)
    )
    assert ladm.converged_
    assert ladm.objective_[-1] == pytest.approx(best.objective_[-1], rel=1e-3)


@pytest.mark.parametrize("solver", ["apg", "ladm"])
def test_the_papers_form_computes_the_same_iterates_in_another_way(solver):
    X, Y = problem()
    ours = RobustMTL(0.6, 0.3, solver=solver, stop="paper", fit_intercept=False).fit(
        X, Y
    )
    papers = clone(ours).set_params(form="paper").fit(X, Y)
    assert papers.n_iter_ == ours.n_iter_
    assert papers.coef_ == pytest.approx(ours.coef_, abs=1e-8)
    divided = DivideAndConquerRMTL(papers, n_blocks=3)
    assert divided.fit(X, Y).setup_seconds_ < divided.block_seconds_.sum()


def test_ladm_as_printed_stops_at_zero_and_ignores_beta():
    X, Y = problem()
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    assert 1e-6 * np.linalg.norm(X.T @ Y, 2) < 1
    for beta in (0.3, 30.0):
        model = RobustMTL(
            0.6, beta, solver="ladm", variant="paper", fit_intercept=False
        ).fit(X, Y)
        assert model.converged_
        assert not model.coef_.any()
        assert model.objective_[-1] == pytest.approx(beta * np.sum(Y**2))


def test_a_smaller_eps_means_more_iterations_and_a_better_objective():
    X, Y = problem()
    paper = RobustMTL(0.6, 0.3, solver="apg", variant="paper")
    rough, fine = (
        clone(paper).set_params(eps=1e-3).fit(X, Y),
        clone(paper).set_params(eps=1e-7).fit(X, Y),
    )
    assert rough.n_iter_ < fine.n_iter_
    assert rough.objective_[-1] > fine.objective_[-1]


def test_nonconvergence_by_the_papers_rule_names_eps():
    X, Y = problem()
    with pytest.warns(
        ConvergenceWarning,
        match="eps=1e-05.*2",
    ):
        RobustMTL(0.6, 0.3, solver="apg", variant="paper", max_iter=2).fit(X, Y)


def test_invalid_parameters_are_reported():
    for params, message in [
        (
            {"variant": "paper"},
            "variant='paper' needs solver='apg' or 'ladm', got solver='auto'",
        ),
        (
            {"stop": "paper", "solver": "admm"},
            "stop='paper' needs solver='apg' or 'ladm', got solver='admm'",
        ),
        (
            {"form": "paper", "solver": "admm"},
            "form='paper' needs solver='apg' or 'ladm', got solver='admm'",
        ),
        (
            {"variant": "sequential", "solver": "apg"},
            "variant='sequential' needs solver='ladm', got solver='apg'",
        ),
        (
            {"variant": "backtracking", "solver": "ladm"},
            "variant='backtracking' needs solver='apg', got solver='ladm'",
        ),
        (
            {"variant": "accelerated"},
            "variant='accelerated' needs solver='apg' or 'ladm', got solver='auto'",
        ),
        ({"lam": 0}, r"lam must be a float in \(0, inf\), got 0"),
        ({"beta": -1.0}, r"beta must be a float in \(0, inf\), got -1.0"),
        ({"solver": "lamd"}, "did you mean 'ladm'"),
        ({"eps": 0}, "eps must be"),
    ]:
        X, Y = problem()
        with pytest.raises(ValueError, match=message):
            RobustMTL(**params).fit(X, Y)


# ---------------------------------------------------------------- warm starts


@pytest.mark.parametrize("solver", ["admm", "fista"])
def test_paths_of_both_parameters_are_warm_started(solver):
    X, Y = problem(24, 4, 5)
    path = [(0.6, 0.3), (0.55, 0.3), (0.55, 0.35), (0.5, 0.4)]
    warm = RobustMTL(solver=solver, tol=1e-6, max_iter=100000, warm_start=True)
    iterations = 0
    for lam, beta in path:
        cold = RobustMTL(lam, beta, solver=solver, tol=1e-6, max_iter=100000).fit(X, Y)
        warm.set_params(lam=lam, beta=beta).fit(X, Y)
        assert warm.objective_[-1] == pytest.approx(cold.objective_[-1], rel=2e-6)
        iterations += cold.n_iter_ - warm.n_iter_
    assert iterations > 0


def test_a_path_may_cross_the_ranges_of_lam():
    X, Y = problem()
    warm = RobustMTL(beta=0.3, tol=1e-6, warm_start=True)
    for lam in (0.2, 0.6, 1.2, 0.6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateModelWarning)
            value = warm.set_params(lam=lam).fit(X, Y).objective_[-1]
            cold = RobustMTL(lam, 0.3, tol=1e-6).fit(X, Y).objective_[-1]
        assert value == pytest.approx(cold, rel=2e-6)
