"""Lassos for many strengths: closed forms, certificates, and how much work they are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import MultiTaskLasso
from sklearn.model_selection import KFold

from mtlrun.estimators import JointFeatureMTLCV, SparseMTLCV
from mtlrun.penalties.norms import L1, L21, TraceNorm
from mtlrun.problem.losses import SquaredLoss
from mtlrun.problem.objective import duality_gap
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.cd import descend
from mtlrun.solvers.convex.lasso import solve_lasso_path

LOSS = SquaredLoss(0.7)
ALPHAS = np.geomspace(200.0, 0.5, 20)
FOLDS = KFold(5, shuffle=True, random_state=0)


def make(n=120, d=8, T=3, seed=0):
    """Return correlated features and targets far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=(n, 1)) + 3.0
    W = np.zeros((d, T))
    W[:3] = rng.normal(size=(3, T))
    return X, X @ W + 5.0 + rng.normal(size=(n, T))


@pytest.fixture
def count_descents(watch_calls):
    """Return a list that grows with each descent on products."""
    calls = []
    watch_calls(descend, calls.append)
    return calls


@pytest.fixture
def no_decompositions(monkeypatch):
    """Refuse eigendecompositions and singular values."""
    for name in ("eigh", "svd", "qr"):
        monkeypatch.setattr(np.linalg, name, None)


@pytest.mark.parametrize("by_task", [False, True])
def test_orthogonal_columns_give_the_closed_form(by_task):
    cross = np.array([[3.0, -1.0, 0.2], [4.0, 1.0, 0.1]])
    energy = np.array([20.0, 30.0])
    alphas = [2.0, 0.5]
    sizes = np.abs(cross) if by_task else np.linalg.norm(cross, axis=0)
    descent = descend(
        2.0 * np.eye(3), cross, energy, alphas, max_epochs=10, by_task=by_task
    )
    for alpha, coef in zip(alphas, descent.coef, strict=True):
        expected = cross * np.maximum(1.0 - alpha / sizes, 0.0) / 2.0
        assert_allclose(coef, expected, atol=1e-14)
    assert_allclose(descent.primal, descent.dual)
    assert (descent.epochs <= 2).all()


@pytest.mark.parametrize("source", ["rows", "weighted rows", "sums"])
@pytest.mark.parametrize("penalty", [L1(1.0), L21(1.0)], ids=["entries", "rows"])
def test_all_strengths_have_the_certified_gap(penalty, source):
    X, Y = make()
    weights = None
    if source == "weighted rows":
        weights = np.random.default_rng(1).uniform(0.1, 3.0, len(X))
    data = TaskData.from_matrix(X, Y, weights=weights)
    given = TaskStatistics.of_data(data) if source == "sums" else data
    path = solve_lasso_path(given, LOSS, penalty, ALPHAS, fit_intercept=True, tol=1e-6)
    parts = zip(ALPHAS, path.coef, path.intercept, path.gap, strict=True)
    for alpha, coef, intercept, gap in parts:
        norm = type(penalty)(alpha)
        from_rows = duality_gap(data, LOSS, [norm], [coef.T], intercept).relative
        assert from_rows <= 1.001e-6
        assert from_rows <= gap + 1e-9


def test_a_path_agrees_with_scikit_learn():
    X, Y = make()
    data = TaskData.from_matrix(X, Y)
    path = solve_lasso_path(
        data, SquaredLoss(), L21(1.0), ALPHAS, fit_intercept=True, tol=1e-10
    )
    for alpha, coef in zip(ALPHAS, path.coef, strict=True):
        other = MultiTaskLasso(alpha / len(X), tol=1e-12, max_iter=100_000).fit(X, Y)
        assert_allclose(coef, other.coef_, atol=1e-4)


def test_constant_columns_keep_zero_coefficients():
    X, Y = make()
    X[:, 3] = 1e3 / 7
    statistics = TaskStatistics.of(X, Y)
    path = solve_lasso_path(statistics, LOSS, L1(1.0), ALPHAS, fit_intercept=True)
    assert not path.coef[:, :, 3].any()
    assert path.coef[-1].any()


@pytest.mark.parametrize(
    "problem",
    ["graded", "many features", "other norm", "slow", "exact", "tasks apart"],
)
def test_other_problems_are_left_to_single_fits(problem):
    X, Y = make()
    penalty = L21(1.0)
    options = {"tol": 1e-4}
    if problem == "graded":
        X[:, 0] *= 1e9
    if problem == "many features":
        X = np.random.default_rng(0).normal(size=(120, 129))
    if problem == "other norm":
        penalty = TraceNorm(1.0)
    if problem == "slow":
        options["max_iter"] = 1
    if problem == "exact":
        options["tol"] = 0.0
    data = TaskStatistics.of(X, Y)
    if problem == "tasks apart":
        data = TaskStatistics.of(X, Y[:, 0], np.arange(len(X)) % 3)
    path = solve_lasso_path(
        data, SquaredLoss(), penalty, ALPHAS, fit_intercept=True, **options
    )
    assert path is None


@pytest.mark.parametrize("model", [JointFeatureMTLCV, SparseMTLCV])
def test_each_fold_is_one_descent_without_decompositions(
    model, count_descents, no_decompositions
):
    X, Y = make()
    fitted = model(cv=FOLDS).fit(X, Y)
    # Five folds with all strengths, and the fit with the selected one.
    assert len(count_descents) == 6
    assert fitted.scores_path_.shape == (50, 5)


def test_scores_are_those_of_separate_fits_of_scikit_learn():
    X, Y = make()
    model = JointFeatureMTLCV(cv=FOLDS, scoring="mse", alphas=8, tol=1e-8).fit(X, Y)
    train, test = next(FOLDS.split(X))
    for alpha, score in zip(model.alphas_, model.scores_path_[:, 0], strict=True):
        other = MultiTaskLasso(alpha / len(train), tol=1e-10, max_iter=100_000)
        errors = other.fit(X[train], Y[train]).predict(X[test]) - Y[test]
        assert score == pytest.approx(np.square(errors).mean(), rel=1e-5)
