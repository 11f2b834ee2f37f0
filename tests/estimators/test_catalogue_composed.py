"""All models with a composed penalty: objectives, gaps, layouts, weights, paths."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mtlrun.estimators.graph import GraphMTL, GraphMTLClassifier
from mtlrun.estimators.mixtures import (
    DirtyMTL,
    DirtyMTLClassifier,
    RobustFeatureMTL,
    RobustFeatureMTLClassifier,
    SparseLowRankMTL,
    SparseLowRankMTLClassifier,
)
from mtlrun.estimators.relaxations import (
    ClusteredMTL,
    ClusteredMTLClassifier,
    ConvexASO,
    ConvexASOClassifier,
)
from mtlrun.estimators.temporal import (
    FusedMTL,
    FusedMTLClassifier,
    TemporalGroupLasso,
    TemporalGroupLassoClassifier,
)

LOSSES = ["logistic", "squared_hinge", "squared"]
PAIRS = [
    (RobustFeatureMTL, RobustFeatureMTLClassifier, {"alpha": 2.0, "lam": 0.8}),
    (SparseLowRankMTL, SparseLowRankMTLClassifier, {"alpha": 2.0, "lam": 0.5}),
    (DirtyMTL, DirtyMTLClassifier, {"alpha": 2.0, "lam": 0.6}),
    (GraphMTL, GraphMTLClassifier, {"alpha": 2.0, "ridge": 0.5}),
    (
        GraphMTL,
        GraphMTLClassifier,
        {"alpha": 2.0, "ridge": 0.5, "sparsity": 1.0, "graph": "chain"},
    ),
    (
        TemporalGroupLasso,
        TemporalGroupLassoClassifier,
        {"alpha": 2.0, "smoothness": 3.0},
    ),
    (FusedMTL, FusedMTLClassifier, {"alpha": 1.0, "fusion": 2.0, "sparsity": 0.5}),
    (ClusteredMTL, ClusteredMTLClassifier, {"alpha": 2.0, "eta": 0.3, "n_clusters": 2}),
    (ConvexASO, ConvexASOClassifier, {"alpha": 2.0, "eta": 0.3, "n_components": 1}),
]
REGRESSORS = [regressor(**params) for regressor, _, params in PAIRS]
CLASSIFIERS = [
    classifier(**params, loss=loss)
    for i, (_, classifier, params) in enumerate(PAIRS)
    for loss in (LOSSES[i % 3],)
]
MODELS = REGRESSORS + CLASSIFIERS


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


def data_for(model, **options):
    return problem(labels="Classifier" in type(model).__name__, **options)


def fine(model, **params):
    return clone(model).set_params(**({"tol": 1e-9, "max_iter": 50000} | params))


# ------------------------------------------------------------ objective and certificate


def penalty(model):
    """Penalties of the docstrings in plain NumPy; W has one row per task."""
    W, p = model.coef_, model.get_params()
    d = np.diff(W, axis=0)
    rows = np.linalg.norm(W, axis=0).sum()
    name = type(model).__name__.removesuffix("Classifier")
    if name in ("RobustFeatureMTL", "SparseLowRankMTL", "DirtyMTL"):
        P, Q = model.shared_, model.own_
        assert_allclose(P + Q, W, atol=1e-12)
        shared = {
            "R": lambda: np.linalg.norm(P, axis=0).sum(),
            "S": lambda: np.linalg.norm(P, "nuc"),
            "D": lambda: np.abs(P).max(axis=0).sum(),
        }[name[0]]()
        task_part = (
            np.linalg.norm(Q, axis=1).sum() if name[0] == "R" else np.abs(Q).sum()
        )
        return p["alpha"] * (shared + p["lam"] * task_part)
    if name == "GraphMTL":
        coupling = (
            np.sum(d**2) if p["graph"] == "chain" else np.sum((W - W.mean(axis=0)) ** 2)
        )
        return (
            0.5 * p["alpha"] * coupling
            + 0.5 * p["ridge"] * np.sum(W**2)
            + p["sparsity"] * np.abs(W).sum()
        )
    if name == "TemporalGroupLasso":
        return (
            p["alpha"] * rows
            + 0.5 * p["smoothness"] * np.sum(d**2)
            + 0.5 * p["ridge"] * np.sum(W**2)
        )
    if name == "FusedMTL":
        return (
            p["alpha"] * rows
            + p["fusion"] * np.abs(d).sum()
            + p["sparsity"] * np.abs(W).sum()
        )
    sigma = np.linalg.svd(W, compute_uv=False)
    k = p.get("n_clusters") or p["n_components"]
    _, shared = model.shared_subspace()
    # Directions that tasks do not share have weight zero.
    q = np.zeros(len(sigma))
    q[: len(shared)] = shared
    assert q.sum() <= k + 1e-9
    return p["alpha"] * p["eta"] * (1 + p["eta"]) * np.sum(sigma**2 / (p["eta"] + q))


def objective(model, X, Y):
    Z = X @ model.coef_.T + model.intercept_
    loss = getattr(model, "loss", "squared")
    if loss == "logistic":
        value = np.logaddexp(0, -Y * Z).sum()
    else:
        value = 0.5 * np.sum(
            (np.maximum(0, 1 - Y * Z) if loss == "squared_hinge" else Y - Z) ** 2
        )
    return value + penalty(model)


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_objective_is_the_documented_one_and_the_gap_certifies_it(model):
    X, Y = data_for(model)
    best = []
    for solver in ("admm", "fista"):
        rough = fine(model, solver=solver, tol=1e-3).fit(X, Y)
        tight = fine(model, solver=solver, tol=1e-8).fit(X, Y)
        for fitted in (rough, tight):
            assert fitted.converged_
            assert fitted.objective_[-1] == pytest.approx(
                objective(fitted, X, Y), rel=1e-8
            )
            assert -1e-9 <= fitted.gap_ <= fitted.tol
            assert fitted.stop_crit_ == fitted.gap_
        excess = (rough.objective_[-1] - tight.objective_[-1]) / max(
            1, rough.objective_[-1]
        )
        assert -1e-7 <= excess <= rough.gap_ + 1e-7
        best.append(tight.objective_[-1])
    assert best[0] == pytest.approx(best[1], rel=1e-7)


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_no_small_step_improves_the_solution(model):
    X, Y = data_for(model)
    fitted = fine(model).fit(X, Y)
    lowest, rng = objective(fitted, X, Y), np.random.default_rng(0)
    for size in (1e-1, 1e-3):
        for _ in range(10):
            moved = clone(fitted)
            moved.intercept_ = fitted.intercept_ + size * rng.normal(size=3)
            step = size * rng.normal(size=fitted.coef_.shape)
            moved.coef_ = fitted.coef_ + step
            if hasattr(fitted, "shared_"):
                share = rng.uniform()
                moved.shared_, moved.own_ = (
                    fitted.shared_ + share * step,
                    fitted.own_ + (1 - share) * step,
                )
            assert objective(moved, X, Y) >= lowest - 1e-7 * (1 + lowest)


# --------------------------------------------------------- layouts, weights, prediction


@pytest.mark.every(3)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_weights_are_repetitions_and_layouts_agree(model):
    X, Y = data_for(model)
    w = np.random.default_rng(1).integers(0, 4, size=len(X))
    rows = np.repeat(np.arange(len(X)), w)
    precise = fine(model)
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
    Xs, ys, ids = (
        a[order]
        for a in (np.vstack([X] * 3), Y.T.ravel(), np.repeat([7, 8, 9], len(X)))
    )
    ragged = precise.fit(Xs, ys, task_id=ids, sample_weight=np.tile(w, 3)[order])
    assert_allclose(ragged.coef_, expected, **tolerance)
    assert ragged.tasks_.tolist() == [7, 8, 9]
    assert ragged.predict(Xs[:5], task_id=ids[:5]).shape == (5,)


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_tasks_of_different_lengths_work_with_a_task_column(model):
    X, Y = data_for(model)
    sizes = [40, 17, 4]  # The last task has fewer rows than features.
    columns = np.column_stack(
        [np.repeat([0, 1, 2], sizes), np.vstack([X[:n] for n in sizes])]
    )
    y = np.concatenate([Y[:n, t] for t, n in enumerate(sizes)])
    fitted = clone(model).set_params(task_column=0).fit(columns, y)
    assert fitted.n_features_in_ == 6
    assert fitted.converged_
    assert fitted.predict(columns).shape == y.shape
    assert fitted.score(columns, y) > 0.3


def test_classifiers_predict_classes_and_probabilities():
    X, Y = problem(labels=True)
    for model in CLASSIFIERS:
        fitted = clone(model).fit(X, np.where(Y > 0, "yes", "no"))
        assert fitted.classes_.tolist() == [["no", "yes"]] * Y.shape[1]
        assert fitted.score(X, np.where(Y > 0, "yes", "no")) > 0.75
        assert hasattr(fitted, "predict_proba") == (model.loss == "logistic")


@pytest.mark.cover
@pytest.mark.parametrize("model", REGRESSORS, ids=str)
@pytest.mark.parametrize("intercept", [True, False])
def test_intercepts_are_not_penalized(model, intercept):
    X, Y = problem()
    fitted = fine(model, fit_intercept=intercept, tol=1e-8).fit(X, Y)
    if not intercept:
        assert not fitted.intercept_.any()
        return
    moved = fine(model, tol=1e-8).fit(X + 3.0, Y + np.array([100.0, 0.0, -100.0]))
    assert_allclose(moved.coef_, fitted.coef_, atol=1e-3)
    assert_allclose((Y - fitted.predict(X)).sum(axis=0), 0, atol=1e-3)


# ---------------------------------------------------------------- paths


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize(
    "model", [m for m in REGRESSORS + CLASSIFIERS if hasattr(m, "alpha_max")], ids=str
)
def test_alpha_max_is_the_smallest_strength_with_zero_coefficients(model):
    X, Y = data_for(model)
    edge = model.alpha_max(X, Y)
    assert not hasattr(model, "coef_")
    precise = fine(model)
    assert not np.any(
        np.abs(precise.set_params(alpha=1.001 * edge).fit(X, Y).coef_) > 1e-6
    )
    assert np.any(np.abs(precise.set_params(alpha=0.97 * edge).fit(X, Y).coef_) > 1e-6)


@pytest.mark.every(3)
@pytest.mark.parametrize("model", [*REGRESSORS, *CLASSIFIERS[::3]], ids=str)
def test_a_path_with_warm_starts_gives_the_same_models_in_fewer_iterations(model):
    X, Y = data_for(model, n=60, d=12)
    # FISTA: a warm ADMM keeps old multipliers, which help on most but not all paths.
    cold, warm, iterations = (
        [],
        fine(model, solver="fista", tol=1e-6, warm_start=True),
        [],
    )
    for alpha in (4.0, 3.8, 3.6, 3.4):
        cold.append(fine(model, solver="fista", tol=1e-6, alpha=alpha).fit(X, Y))
        warm.set_params(alpha=alpha).fit(X.copy(), Y.copy())
        iterations.append(warm.n_iter_)
        assert warm.objective_[-1] == pytest.approx(cold[-1].objective_[-1], rel=2e-6)
    assert sum(iterations) <= sum(m.n_iter_ for m in cold)
    admm = fine(model, solver="admm", tol=1e-6, alpha=3.6, warm_start=True).fit(X, Y)
    assert admm.set_params(alpha=3.4).fit(X, Y).objective_[-1] == pytest.approx(
        cold[-1].objective_[-1], rel=2e-6
    )
    assert admm.fit(X, Y).n_iter_ <= 20


# ---------------------------------------------------------------- corners


@pytest.mark.every(3)
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("rows", [1, 2])
def test_very_few_rows_one_feature_and_a_constant_feature_are_fitted(model, rows):
    Y = np.array([[1, -1], [-1, 1]])[:rows]
    for X in (
        np.array([[1.0], [3.0]]),
        np.array([[1.0, 0.0], [3.0, 0.0]]),
        np.zeros((2, 2)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(model).set_params(max_iter=300).fit(X[:rows], Y)
        assert np.isfinite(fitted.predict(X[:rows])).all()


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_tasks_of_a_single_class_are_fitted(model):
    X, Y = problem(labels=True)
    Y[:, 1] = -1
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # A logistic intercept of a single class has no optimum.
        fitted = clone(model).set_params(max_iter=1000).fit(X, Y)
    assert (fitted.predict(X)[:, 1] == -1).all()


def test_invalid_parameters_are_reported():
    for model, message in [
        (DirtyMTL(lam=0), r"lam must be a float in \(0, inf\), got 0"),
        (RobustFeatureMTL(alpha=-1), "alpha must be"),
        (GraphMTL(ridge=0), r"ridge must be a float in \(0, inf\), got 0"),
        (GraphMTL(graph="cahin"), "did you mean 'chain'"),
        (GraphMTL(graph=3), "'mean', 'chain' or a similarity matrix, got 3"),
        (
            GraphMTL(graph=np.eye(2)),
            r"one row and one column per task, \(3, 3\), got \(2, 2\)",
        ),
        (TemporalGroupLasso(smoothness=-1), "smoothness must be"),
        (TemporalGroupLasso(alpha=0), "alpha and ridge are both 0"),
        (FusedMTL(alpha=0), "alpha and sparsity are both 0"),
        (ClusteredMTL(eta=0), r"eta must be a float in \(0, inf\)"),
        (ClusteredMTL(n_clusters=0), r"n_clusters must be an int in \[1, inf\)"),
        (ConvexASO(n_components=1.5), "n_components must be an int"),
        (ConvexASOClassifier(loss="hinge"), "loss must be one of"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.fit(*data_for(model))
