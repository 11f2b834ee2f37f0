"""Models with one norm: scikit-learn, certificates, invariances, warm starts."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from all_cases import all_cases
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression, MultiTaskLasso

from mtlrun.estimators.penalized import (
    JointFeatureMTL,
    JointFeatureMTLClassifier,
    SparseMTL,
    SparseMTLClassifier,
    TraceNormMTL,
    TraceNormMTLClassifier,
)
from mtlrun.problem.rotation import prepare

REGRESSORS = [SparseMTL, JointFeatureMTL, TraceNormMTL]
CLASSIFIERS = [SparseMTLClassifier, JointFeatureMTLClassifier, TraceNormMTLClassifier]
LOSSES = ["logistic", "squared_hinge", "squared"]


def problem(n=40, d=6, T=3, seed=0, labels=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.5
    X[rng.uniform(size=X.shape) < 0.2] = 0
    Y = (
        X @ (rng.normal(size=(d, 2)) @ rng.normal(size=(2, T)))
        + 1
        + rng.normal(size=(n, T))
    )
    return X, np.where(np.median(Y, axis=0) < Y, 1, -1) if labels else Y


def stacked(X, Y):
    """Return the ragged form of a shared problem."""
    n, T = Y.shape
    return np.vstack([X] * T), Y.T.ravel(), np.repeat(np.arange(T), n)


# ---------------------------------------------------------------- oracles


@pytest.mark.cover(2)
@pytest.mark.parametrize("solver", ["admm", "fista"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(40, 6), (15, 25)])
def test_row_norms_match_scikit_learns_multi_task_lasso(shape, intercept, solver):
    X, Y = problem(*shape)
    oracle = MultiTaskLasso(
        4.0 / len(X), fit_intercept=intercept, tol=1e-12, max_iter=100000
    ).fit(X, Y)
    model = JointFeatureMTL(
        4.0, fit_intercept=intercept, solver=solver, tol=1e-11, max_iter=100000
    ).fit(X, Y)
    assert_allclose(model.coef_, oracle.coef_, atol=2e-4)
    assert_allclose(model.predict(X), oracle.predict(X), atol=2e-4)


@pytest.mark.parametrize("solver", ["admm", "fista"])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_l1_model_is_scikit_learns_lasso_for_tasks_of_different_sizes(
    intercept, solver
):
    X, Y = problem()
    rows = np.array([40, 25, 10])
    task = np.repeat([0, 1, 2], rows)
    model = SparseMTL(
        3.0, fit_intercept=intercept, solver=solver, tol=1e-11, max_iter=100000
    ).fit(
        np.vstack([X[:n] for n in rows]),
        np.concatenate([Y[:n, t] for t, n in enumerate(rows)]),
        task_id=task,
    )
    for t, n in enumerate(rows):
        oracle = Lasso(
            3.0 / n, fit_intercept=intercept, tol=1e-12, max_iter=100000
        ).fit(X[:n], Y[:n, t])
        assert_allclose(model.coef_[t], oracle.coef_, atol=2e-4)


def test_the_l1_logistic_model_matches_scikit_learn():
    X, Y = problem(labels=True)
    model = SparseMTLClassifier(
        2.0, tol=1e-10, fit_intercept=False, max_iter=50000
    ).fit(X, Y)
    for t in range(3):
        oracle = LogisticRegression(
            l1_ratio=1, C=0.5, solver="liblinear", fit_intercept=False, tol=1e-10
        )
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # The name of an l1 penalty changes between versions.
            if (
                "penalty" in LogisticRegression().get_params()
                and LogisticRegression().penalty == "l2"
            ):
                oracle.set_params(penalty="l1")
            oracle.fit(X, Y[:, t])
        assert_allclose(model.coef_[t], oracle.coef_[0], atol=1e-3)


def test_the_trace_norm_of_a_single_task_is_the_length_of_its_vector():
    """With one task, trace norm and column norm agree; the solution solves a ridge
    problem with alpha / ||w||.
    """
    X, Y = problem()
    w = (
        TraceNormMTL(5.0, fit_intercept=False, tol=1e-12, max_iter=50000)
        .fit(X, Y[:, 0])
        .coef_[0]
    )
    gradient = X.T @ (X @ w - Y[:, 0]) + 5.0 * w / np.linalg.norm(w)
    assert_allclose(gradient, 0, atol=1e-3)


@pytest.mark.parametrize("cls", REGRESSORS)
def test_block_diagonal_stacking_turns_ragged_tasks_into_a_shared_design(cls):
    """With block-diagonal features, the ragged l1 problem is that of one task."""
    X, Y = problem(T=2)
    ragged = cls(2.0, fit_intercept=False, tol=1e-10, max_iter=50000).fit(
        *stacked(X, Y)[:2], task_id=stacked(X, Y)[2]
    )
    shared = cls(2.0, fit_intercept=False, tol=1e-10, max_iter=50000).fit(X, Y)
    assert_allclose(ragged.coef_, shared.coef_, atol=1e-3)
    if cls is SparseMTL:
        block = np.block([[X, np.zeros_like(X)], [np.zeros_like(X), X]])
        one = cls(2.0, fit_intercept=False, tol=1e-10, max_iter=50000).fit(
            block, Y.T.ravel()
        )
        assert_allclose(one.coef_.reshape(2, -1), ragged.coef_, atol=1e-3)


# ------------------------------------------------------------ objective and certificate


def objective(model, X, Y):
    Z = X @ model.coef_.T + model.intercept_
    if hasattr(model, "loss") and model.loss == "logistic":
        loss = np.logaddexp(0, -Y * Z).sum()
    elif hasattr(model, "loss") and model.loss == "squared_hinge":
        loss = 0.5 * np.sum(np.maximum(0, 1 - Y * Z) ** 2)
    else:
        loss = 0.5 * np.sum((Y - Z) ** 2)
    norms = {
        "Sparse": lambda W: np.abs(W).sum(),
        "JointF": lambda W: np.linalg.norm(W, axis=0).sum(),
        "TraceN": lambda W: np.linalg.norm(W, "nuc"),
    }
    return loss + model.alpha * norms[type(model).__name__[:6]](model.coef_)


MODELS = [cls(2.0) for cls in REGRESSORS] + [
    cls(1.0, loss=loss) for cls in CLASSIFIERS for loss in LOSSES
]


@pytest.mark.cover
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("solver", ["admm", "fista"])
def test_the_objective_is_the_documented_one_and_the_gap_certifies_it(model, solver):
    X, Y = problem(labels="Classifier" in str(model))
    rough = clone(model).set_params(solver=solver, tol=1e-3).fit(X, Y)
    fine = clone(model).set_params(solver=solver, tol=1e-8, max_iter=50000).fit(X, Y)
    for fitted in (rough, fine):
        assert fitted.converged_
        assert fitted.objective_[-1] == pytest.approx(objective(fitted, X, Y), rel=1e-9)
        assert 0 <= fitted.gap_ + 1e-12 <= fitted.tol + 1e-12
        assert fitted.stop_crit_ == fitted.gap_
    excess = (rough.objective_[-1] - fine.objective_[-1]) / max(1, rough.objective_[-1])
    assert -1e-7 <= excess <= rough.gap_ + 1e-7


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_alpha_max_is_the_smallest_strength_with_zero_coefficients(model):
    X, Y = problem(labels="Classifier" in str(model))
    edge = model.alpha_max(X, Y)
    assert not hasattr(model, "coef_")
    precise = clone(model).set_params(tol=1e-9, max_iter=50000)
    assert not np.any(
        np.abs(precise.set_params(alpha=1.001 * edge).fit(X, Y).coef_) > 1e-6
    )
    assert np.any(precise.set_params(alpha=0.98 * edge).fit(X, Y).coef_)
    ragged = stacked(X, Y)
    assert model.alpha_max(*ragged[:2], task_id=ragged[2]) == pytest.approx(edge)


# ---------------------------------------------------------------- invariances


@pytest.mark.every(3)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_weights_are_repetitions_and_layouts_agree(model):
    X, Y = problem(labels="Classifier" in str(model))
    w = np.random.default_rng(1).integers(0, 4, size=len(X))
    rows = np.repeat(np.arange(len(X)), w)
    precise = clone(model).set_params(tol=1e-9, max_iter=50000)
    expected = precise.fit(X[rows], Y[rows]).coef_
    tolerance = {"atol": 2e-3}
    assert_allclose(precise.fit(X, Y, sample_weight=w).coef_, expected, **tolerance)
    assert_allclose(
        precise.fit(sp.csr_matrix(X), Y, sample_weight=w).coef_, expected, **tolerance
    )
    masked = np.where(w[:, None] > 0, Y, np.nan)
    assert_allclose(
        precise.fit(X, masked, sample_weight=w).coef_, expected, **tolerance
    )
    order = np.random.default_rng(2).permutation(3 * len(X))
    Xs, ys, ids = (a[order] for a in stacked(X, Y))
    names = np.array(["c", "a", "b"])[ids]
    ragged = precise.fit(Xs, ys, task_id=names, sample_weight=np.tile(w, 3)[order])
    assert_allclose(ragged.coef_[[2, 0, 1]], expected, **tolerance)


@pytest.mark.cover
@pytest.mark.parametrize("cls", CLASSIFIERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_tasks_of_a_single_class_are_fitted(cls, loss):
    X, Y = problem(labels=True)
    Y[:, 1] = -1
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # A logistic intercept of a single class has no optimum.
        model = cls(1.0, loss=loss, max_iter=2000).fit(X, Y)
    assert (model.predict(X)[:, 1] == -1).all()
    assert model.score(X, Y) > 0.8


# ---------------------------------------------------------------- warm starts


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "model",
    [TraceNormMTL(), JointFeatureMTL(), TraceNormMTLClassifier(loss="squared_hinge")],
    ids=str,
)
@pytest.mark.parametrize("solver", ["admm", "fista"])
def test_a_path_with_warm_starts_gives_the_same_models_in_fewer_iterations(
    model, solver
):
    X, Y = problem(n=60, d=20, labels="Classifier" in str(model))
    path = [8.0, 4.0, 2.0, 1.0, 0.5]
    cold = [
        clone(model)
        .set_params(alpha=a, solver=solver, tol=1e-6, max_iter=50000)
        .fit(X, Y)
        for a in path
    ]
    warm = clone(model).set_params(
        solver=solver, tol=1e-6, max_iter=50000, warm_start=True
    )
    iterations = []
    for alpha, expected in zip(path, cold, strict=True):
        warm.set_params(alpha=alpha).fit(X.copy(), Y.copy())
        iterations.append(warm.n_iter_)
        assert warm.objective_[-1] == pytest.approx(expected.objective_[-1], rel=2e-6)
    assert sum(iterations) < sum(m.n_iter_ for m in cold)
    assert warm.fit(X, Y).n_iter_ <= 2


def test_the_decomposition_is_reused_only_for_the_same_content(watch_calls):
    X, Y = problem()
    calls = []

    def count(arguments):
        # With a decomposition as an argument there is nothing to prepare.
        if arguments["rotation"] is None:
            calls.append(1)

    watch_calls(prepare, count)
    model = TraceNormMTL(2.0, warm_start=True).fit(X, Y)
    model.set_params(alpha=1.0).fit(X.copy(), Y)
    assert len(calls) == 1
    X[0, 0] += 1  # In place: content counts, not identity.
    changed = model.fit(X, Y).coef_
    assert len(calls) == 2
    model.fit(X, Y, sample_weight=np.arange(40.0))
    model.set_params(fit_intercept=False).fit(X, Y, sample_weight=np.arange(40.0))
    assert len(calls) == 4
    labels = np.where(Y > 0, 1, -1)
    classifier = TraceNormMTLClassifier(loss="squared", solver="admm", warm_start=True)
    for loss in ("squared", "logistic"):
        # The squared loss decomposes weighted rows, other losses do not.
        classifier.set_params(loss=loss)
        classifier.fit(X, labels, sample_weight=np.arange(40.0))
    assert len(calls) == 6
    assert_allclose(changed, TraceNormMTL(1.0).fit(X, Y).coef_, atol=1e-2)


def test_warm_start_data_are_not_saved():
    X, Y = problem()
    model = TraceNormMTL(warm_start=True).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert "warm_start_" not in vars(again)
    assert_allclose(again.predict(X), model.predict(X))
    assert "warm_start_" not in vars(TraceNormMTL().fit(X, Y))


# ----------------------------------------------------------- convergence and parameters


@pytest.mark.parametrize("solver", ["admm", "fista"])
def test_stopping_early_warns_with_criterion_tolerance_iterations_and_parameter(solver):
    X, Y = problem()
    message = (
        r"TraceNormMTL did not converge: stopping criterion .* against tol=1e-12 after "
        r"3 iterations.*max_iter"
    )
    with pytest.warns(ConvergenceWarning, match=message):
        model = TraceNormMTL(0.1, solver=solver, tol=1e-12, max_iter=3).fit(X, Y)
    assert model.converged_ is False
    assert model.n_iter_ == 3


@all_cases(
    ("params", "message"),
    [
        ({"alpha": -1}, r"alpha must be a float in \[0, inf\), got -1"),
        ({"alpha": np.nan}, "alpha must be"),
        ({"tol": "small"}, "tol must be"),
        ({"max_iter": 0}, r"max_iter must be an int in \[1, inf\), got 0"),
        ({"solver": "fist"}, "did you mean 'fista'"),
        ({"fit_intercept": "yes"}, "fit_intercept must be a bool"),
        (
            {"loss": "hinge"},
            "loss must be one of 'logistic', 'squared_hinge', 'squared', got 'hinge'",
        ),
    ],
)
def test_invalid_parameters_are_reported(params, message):
    X, Y = problem(labels=True)
    with pytest.raises(ValueError, match=message):
        SparseMTLClassifier(**params).fit(X, Y)


@pytest.mark.cover(2)
@pytest.mark.parametrize("cls", REGRESSORS + CLASSIFIERS)
@pytest.mark.parametrize("solver", ["admm", "fista"])
@pytest.mark.parametrize("rows", [1, 2])
def test_very_few_rows_and_a_single_feature_are_fitted(cls, solver, rows):
    X = np.array([[1.0], [3.0]])[:rows]
    Y = np.array([[1, -1], [-1, 1]])[:rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = cls(0.1, solver=solver, max_iter=500).fit(X, Y)
    assert np.isfinite(model.predict(X)).all()
