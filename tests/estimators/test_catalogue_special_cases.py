"""Composed penalties with known solutions: scikit-learn, linear systems, cvxpy."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import ElasticNet, Lasso, MultiTaskElasticNet

from mtlrun.catalog.registry import METHODS
from mtlrun.comparison.candidates import default_candidates
from mtlrun.data.dataset import Dataset
from mtlrun.estimators.base import DegenerateModelWarning
from mtlrun.estimators.graph import GraphMTL, GraphMTLClassifier
from mtlrun.estimators.independent import IndependentRidge
from mtlrun.estimators.mixtures import (
    DirtyMTL,
    RobustFeatureMTL,
    RobustFeatureMTLClassifier,
    SparseLowRankMTL,
)
from mtlrun.estimators.penalized import JointFeatureMTL, SparseMTL, TraceNormMTL
from mtlrun.estimators.relaxations import (
    ClusteredMTL,
    ClusteredMTLClassifier,
    ConvexASO,
)
from mtlrun.estimators.temporal import (
    FusedMTL,
    TemporalGroupLasso,
    TemporalGroupLassoClassifier,
)

cp = pytest.importorskip("cvxpy")
TIGHT = {"tol": 1e-11, "max_iter": 50000}


def problem(n=30, d=5, T=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.3
    W = np.outer(rng.normal(size=d), np.ones(T)) + 0.5 * rng.normal(size=(d, T))
    return X, X @ W + 1 + rng.normal(size=(n, T))


def ragged(sizes=(25, 12, 6, 3), seed=0):
    X, Y = problem(seed=seed)
    ids = np.repeat(np.arange(4), sizes)
    return (
        np.vstack([X[:n] for n in sizes]),
        np.concatenate([Y[:n, t] for t, n in enumerate(sizes)]),
        ids,
    )


def degenerate(model, X, Y):
    with pytest.warns(DegenerateModelWarning):
        return model.set_params(**TIGHT).fit(X, Y)


# ---------------------------------------------------------------- mixtures


@pytest.mark.parametrize(
    ("mixture", "lam", "own", "simple"),
    [
        (RobustFeatureMTL, np.sqrt(5) + 0.01, False, lambda: JointFeatureMTL(6.0)),
        (RobustFeatureMTL, 0.5, True, None),
        (SparseLowRankMTL, 1.0, False, lambda: TraceNormMTL(6.0)),
        (SparseLowRankMTL, 1 / np.sqrt(20), True, lambda: SparseMTL(6.0 / np.sqrt(20))),
        (DirtyMTL, 1.0, False, None),
        (DirtyMTL, 0.25, True, lambda: SparseMTL(1.5)),
    ],
)
def test_outside_the_mixture_range_one_part_vanishes_with_a_warning(
    mixture, lam, own, simple
):
    X, Y = problem()
    model = degenerate(mixture(6.0, lam), X, Y)
    zero, rest = (model.shared_, model.own_) if own else (model.own_, model.shared_)
    assert not zero.any()
    assert rest.any()
    if simple is not None:
        assert_allclose(
            model.coef_, simple().set_params(**TIGHT).fit(X, Y).coef_, atol=1e-3
        )


@pytest.mark.parametrize(
    ("mixture", "low", "high"),
    [(RobustFeatureMTL, "0.5", "2.24"), (DirtyMTL, "0.25", "1")],
)
def test_the_warning_names_the_range(mixture, low, high):
    X, Y = problem()
    with pytest.warns(
        DegenerateModelWarning, match=rf"{low} < lam < {high} \(5 features, 4 tasks\)"
    ):
        mixture(lam=0.01).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixture(lam=0.7).fit(X, Y)


def test_the_dirty_model_of_a_single_task_is_the_lasso():
    X, Y = problem()
    oracle = Lasso(0.8 * 3.0 / 30, tol=1e-12, max_iter=100000).fit(X, Y[:, 0])
    assert_allclose(
        degenerate(DirtyMTL(3.0, 0.8), X, Y[:, 0]).coef_[0], oracle.coef_, atol=1e-4
    )


def test_robust_features_detect_the_outlier_task():
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(100, 8)), np.zeros((8, 6))
    W[:2, :5], W[3:, 5] = 1.0, 2.0
    for cls, Y in ((RobustFeatureMTL, X @ W), (RobustFeatureMTLClassifier, X @ W > 0)):
        model = cls(20.0 if cls is RobustFeatureMTL else 3.0, 0.9).fit(X, Y)
        outlying = np.linalg.norm(model.own_, axis=1)
        assert np.flatnonzero(outlying > 0.1 * outlying.max()).tolist() == [5]


# ---------------------------------------------------------------- graphs


@pytest.mark.parametrize(
    "graph", ["mean", "chain", [[0, 1, 2, 0], [1, 0, 0, 3], [2, 0, 0, 0], [0, 3, 0, 0]]]
)
def test_the_graph_model_solves_its_linear_system(graph):
    X, y, ids = ragged()
    model = GraphMTL(3.0, graph, ridge=0.7, fit_intercept=False, **TIGHT).fit(
        X, y, task_id=ids
    )
    A = {"mean": np.full((4, 4), 0.25), "chain": np.eye(4, k=1) + np.eye(4, k=-1)}.get(
        str(graph), np.array(graph)
    )
    A = A - np.diag(np.diag(A))
    M = 3.0 * (np.diag(A.sum(axis=0)) - A) + 0.7 * np.eye(4)
    system = np.kron(M, np.eye(5))
    right = np.zeros(20)
    for t in range(4):
        block = slice(5 * t, 5 * t + 5)
        system[block, block] += X[ids == t].T @ X[ids == t]
        right[block] = X[ids == t].T @ y[ids == t]
    assert_allclose(model.coef_.ravel(), np.linalg.solve(system, right), atol=1e-4)


def test_without_coupling_the_graph_model_is_ridge_regression_of_each_task():
    X, y, ids = ragged()
    model = GraphMTL(0.0, ridge=2.0, **TIGHT).fit(X, y, task_id=ids)
    oracle = IndependentRidge(2.0).fit(X, y, task_id=ids)
    assert_allclose(model.coef_, oracle.coef_, atol=1e-4)
    almost = GraphMTL(0.0, ridge=1e-9, **TIGHT).fit(*problem()).coef_
    X, Y = problem()
    Xc = X - X.mean(axis=0)
    assert_allclose(
        almost.T, np.linalg.lstsq(Xc, Y - Y.mean(axis=0), rcond=None)[0], atol=1e-4
    )


@pytest.mark.parametrize("cls", [GraphMTL, GraphMTLClassifier])
def test_strong_coupling_pools_the_tasks_of_a_component(cls):
    X, y, ids = ragged()
    y = y if cls is GraphMTL else np.where(y > y.mean(), 1, -1)
    graph = np.zeros((4, 4))
    graph[0, 1] = graph[1, 0] = graph[2, 3] = graph[3, 2] = 1.0
    model = cls(
        1e7, graph, ridge=1.0, fit_intercept=False, tol=1e-9, max_iter=50000
    ).fit(X, y, task_id=ids)
    for pair in ([0, 1], [2, 3]):
        rows = np.isin(ids, pair)
        alone = cls(0.0, ridge=2.0, fit_intercept=False, tol=1e-9, max_iter=50000).fit(
            X[rows], y[rows]
        )
        assert_allclose(model.coef_[pair], np.repeat(alone.coef_, 2, axis=0), atol=2e-3)


def test_sparse_uncoupled_tasks_are_elastic_nets():
    X, Y = problem()
    model = GraphMTL(0.0, sparsity=4.0, ridge=3.0, **TIGHT).fit(X, Y)
    for t in range(4):
        oracle = ElasticNet(
            7.0 / 30, l1_ratio=4.0 / 7.0, tol=1e-12, max_iter=100000
        ).fit(X, Y[:, t])
        assert_allclose(model.coef_[t], oracle.coef_, atol=1e-4)


def test_a_graph_in_a_data_frame_is_indexed_by_task_names():
    X, y, ids = ragged()
    names = np.array(["d", "b", "c", "a"])
    A = np.random.default_rng(1).uniform(size=(4, 4))
    A = A + A.T
    frame = pd.DataFrame(A, index=names, columns=names)
    named = GraphMTL(2.0, frame).fit(X, y, task_id=names[ids])
    assert named.tasks_.tolist() == ["a", "b", "c", "d"]
    order = [3, 1, 2, 0]
    assert_allclose(
        named.coef_[np.argsort(order)],
        GraphMTL(2.0, A).fit(X, y, task_id=ids).coef_,
        atol=1e-3,
    )


def test_isolated_and_single_tasks_are_allowed():
    X, Y = problem()
    graph = np.zeros((4, 4))
    graph[0, 1] = graph[1, 0] = 1.0
    model = GraphMTL(5.0, graph, **TIGHT).fit(X, Y)
    assert_allclose(
        model.coef_[2:], IndependentRidge(1.0).fit(X, Y[:, 2:]).coef_, atol=1e-4
    )
    for graph in ("mean", "chain"):
        single = GraphMTL(5.0, graph, **TIGHT).fit(X, Y[:, 0])
        assert_allclose(
            single.coef_, IndependentRidge(1.0).fit(X, Y[:, 0]).coef_, atol=1e-4
        )


# ---------------------------------------------------------------- ordered tasks


def test_without_smoothness_the_temporal_model_is_the_joint_feature_model():
    X, Y = problem()
    plain = TemporalGroupLasso(5.0, smoothness=0.0, **TIGHT).fit(X, Y)
    assert_allclose(
        plain.coef_, JointFeatureMTL(5.0, **TIGHT).fit(X, Y).coef_, atol=1e-4
    )
    ridge = TemporalGroupLasso(5.0, smoothness=0.0, ridge=2.0, **TIGHT).fit(X, Y)
    oracle = MultiTaskElasticNet(
        7.0 / 30, l1_ratio=5.0 / 7.0, tol=1e-12, max_iter=100000
    ).fit(X, Y)
    assert_allclose(ridge.coef_, oracle.coef_, atol=1e-4)
    free = TemporalGroupLasso(0.0, smoothness=4.0, ridge=0.5, **TIGHT).fit(X, Y)
    assert_allclose(
        free.coef_,
        GraphMTL(4.0, "chain", ridge=0.5, **TIGHT).fit(X, Y).coef_,
        atol=1e-4,
    )
    none = TemporalGroupLasso(0.0, smoothness=0.0, fit_intercept=False, **TIGHT).fit(
        X, Y
    )
    assert_allclose(none.coef_.T, np.linalg.lstsq(X, Y, rcond=None)[0], atol=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        TemporalGroupLasso(2.0, smoothness=1e7),
        FusedMTL(2.0, fusion=1e7),
        FusedMTL(0.0, fusion=1e7, sparsity=1.0),
    ],
    ids=str,
)
def test_in_the_limit_all_ordered_tasks_are_equal(model):
    X, Y = problem()
    fitted = model.set_params(fit_intercept=False, **TIGHT).fit(X, Y)
    assert_allclose(fitted.coef_, np.tile(fitted.coef_.mean(axis=0), (4, 1)), atol=1e-4)
    # One Lasso on the rows of all tasks: a row of T equal entries has l2 norm sqrt(T)
    # |w| and l1 norm T |w|.
    strength = 2.0 * np.sqrt(4) if model.alpha else 4.0
    pooled = Lasso(strength / 120, fit_intercept=False, tol=1e-12, max_iter=100000)
    assert_allclose(
        fitted.coef_[0], pooled.fit(np.vstack([X] * 4), Y.T.ravel()).coef_, atol=1e-4
    )


def test_special_cases_of_the_fused_model_match_other_models():
    X, Y = problem()
    groups = FusedMTL(5.0, fusion=0.0, **TIGHT).fit(X, Y)
    assert_allclose(
        groups.coef_, JointFeatureMTL(5.0, **TIGHT).fit(X, Y).coef_, atol=1e-4
    )
    entries = FusedMTL(0.0, fusion=0.0, sparsity=3.0, **TIGHT).fit(X, Y)
    assert_allclose(entries.coef_, SparseMTL(3.0, **TIGHT).fit(X, Y).coef_, atol=1e-4)
    single = FusedMTL(2.0, fusion=9.0, sparsity=1.0, **TIGHT).fit(X, Y[:, 0])
    assert_allclose(
        single.coef_, SparseMTL(3.0, **TIGHT).fit(X, Y[:, 0]).coef_, atol=1e-4
    )


def test_fused_tasks_have_segments_of_equal_coefficients():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    W = np.zeros((3, 10))
    W[0], W[1, 5:] = 2.0, 1.0
    model = FusedMTL(0.1, fusion=10.0, sparsity=5.0, tol=1e-8).fit(
        X, X @ W + 0.1 * rng.normal(size=(200, 10))
    )
    jumps = np.abs(np.diff(model.coef_, axis=0)) > 1e-8
    assert jumps[:, 1].tolist() == [t == 4 for t in range(9)]
    assert jumps[:, 0].sum() <= 2
    assert not model.coef_[:, 2].any()


# --------------------------------------------------------------- clusters and subspaces


@pytest.mark.parametrize(
    "model", [ClusteredMTL(2.0, 0.4, 4), ConvexASO(2.0, 0.4, 7)], ids=str
)
def test_with_as_many_clusters_as_tasks_the_model_is_ridge_regression(model):
    X, Y = problem()
    assert_allclose(
        degenerate(model, X, Y).coef_,
        IndependentRidge(2 * 2.0 * 0.4).fit(X, Y).coef_,
        atol=1e-4,
    )


def test_clusters_and_subspaces_are_two_views_of_the_same_model():
    X, y, ids = ragged()
    tasks = ClusteredMTL(2.0, 0.1, 2, **TIGHT).fit(X, y, task_id=ids)
    features = ConvexASO(2.0, 0.1, 2, **TIGHT).fit(X, y, task_id=ids)
    assert_allclose(tasks.coef_, features.coef_, atol=1e-6)
    M = tasks.task_relation()
    values = np.linalg.eigvalsh(M)
    assert M.shape == (4, 4)
    assert np.trace(M) == pytest.approx(2)
    assert values[0] > -1e-9
    assert values[-1] < 1 + 1e-9
    directions, weights = features.shared_subspace()
    assert directions.shape == (len(weights), 5)
    assert weights.sum() == pytest.approx(2)
    assert_allclose(directions @ directions.T, np.eye(len(weights)), atol=1e-9)
    # Both names have both views.
    assert_allclose(features.task_relation(), M, atol=1e-5)
    assert_allclose(tasks.shared_subspace()[1], weights, atol=1e-5)


def test_an_alias_names_its_class_and_is_not_compared_by_default():
    names = {name: info.alias_of for name, info in METHODS.items() if info.alias_of}
    assert names == {
        "ConvexASO": "ClusteredMTL",
        "ConvexASOClassifier": "ClusteredMTLClassifier",
    }
    X, Y = problem()
    for kind, y in (("regression", Y), ("binary", np.where(Y > 0, 1.0, -1.0))):
        dataset = Dataset(X, y, kind)
        compared = {c.label for c in default_candidates(dataset, 0.8)}
        assert compared & {*names.values()}
        assert not compared & names.keys()


def test_task_relation_shows_the_clusters():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(2, 10))
    W = np.repeat(centres, 3, axis=0) + 0.05 * rng.normal(size=(6, 10))
    X = rng.normal(size=(80, 10))
    for cls, Y in ((ClusteredMTL, X @ W.T), (ClusteredMTLClassifier, X @ W.T > 0)):
        M = cls(1.0, 0.05, 2).fit(X, Y).task_relation()
        assert (M[:3, :3] > 0.2).all()
        assert (M[3:, 3:] > 0.2).all()
        assert (np.abs(M[:3, 3:]) < 0.15).all()


# ---------------------------------------------------------------- comparison with cvxpy


def squares(X, y, ids, W, b):
    return (
        sum(
            cp.sum_squares(y[ids == t] - X[ids == t] @ W[:, t] - b[t]) for t in range(4)
        )
        / 2
    )


def rows(W):
    return cp.sum(cp.norm(W, 2, axis=1))


def spectral(W, k, eta, constraints, alpha):
    M = cp.Variable((4, 4), symmetric=True)
    constraints += [M >> 0, np.eye(4) - M >> 0, cp.trace(M) == k]
    return alpha * eta * (1 + eta) * cp.matrix_frac(W.T, eta * np.eye(4) + M)


ORACLES = [
    (
        RobustFeatureMTL(2.0, 0.8),
        lambda P, Q, c: 2 * rows(P) + 1.6 * cp.sum(cp.norm(Q, 2, axis=0)),
    ),
    (SparseLowRankMTL(2.0, 0.5), lambda P, Q, c: 2 * cp.normNuc(P) + cp.sum(cp.abs(Q))),
    (
        DirtyMTL(2.0, 0.5),
        lambda P, Q, c: 2 * cp.sum(cp.max(cp.abs(P), axis=1)) + cp.sum(cp.abs(Q)),
    ),
    (
        GraphMTL(2.0, "chain", sparsity=1.0, ridge=0.5),
        lambda P, Q, c: (
            cp.sum_squares(cp.diff(P, axis=1))
            + cp.sum(cp.abs(P))
            + cp.sum_squares(P) / 4
        ),
    ),
    (
        GraphMTL(2.0, ridge=0.5),
        lambda P, Q, c: cp.sum_squares(P @ (np.eye(4) - 0.25)) + cp.sum_squares(P) / 4,
    ),
    (
        TemporalGroupLasso(2.0, smoothness=3.0, ridge=0.5),
        lambda P, Q, c: (
            2 * rows(P)
            + 1.5 * cp.sum_squares(cp.diff(P, axis=1))
            + cp.sum_squares(P) / 4
        ),
    ),
    (
        TemporalGroupLassoClassifier(1.0, smoothness=1.0),
        lambda P, Q, c: rows(P) + cp.sum_squares(cp.diff(P, axis=1)) / 2,
    ),
    (
        FusedMTL(2.0, fusion=1.0, sparsity=0.5),
        lambda P, Q, c: (
            2 * rows(P) + cp.sum(cp.abs(cp.diff(P, axis=1))) + cp.sum(cp.abs(P)) / 2
        ),
    ),
    (ClusteredMTL(2.0, 0.1, 2), lambda P, Q, c: spectral(P, 2, 0.1, c, 2.0)),
]


@pytest.mark.parametrize(("model", "form"), ORACLES, ids=[str(m) for m, _ in ORACLES])
def test_the_optimum_agrees_with_a_conic_solver(model, form):
    X, y, ids = ragged()
    P, Q, b, constraints = cp.Variable((5, 4)), cp.Variable((5, 4)), cp.Variable(4), []
    W = P + Q if hasattr(model, "lam") else P
    if "Classifier" in type(model).__name__:
        y = np.where(y > np.median(y), 1.0, -1.0)
        y[np.searchsorted(ids, range(4))], y[np.searchsorted(ids, range(4)) + 1] = (
            1.0,
            -1.0,
        )
        loss = sum(
            cp.sum(cp.logistic(cp.multiply(-y[ids == t], X[ids == t] @ W[:, t] + b[t])))
            for t in range(4)
        )
    else:
        loss = squares(X, y, ids, W, b)
    program = cp.Problem(cp.Minimize(loss + form(P, Q, constraints)), constraints)
    program.solve(solver="CLARABEL")
    fitted = model.set_params(tol=1e-8, max_iter=50000).fit(X, y, task_id=ids)
    assert fitted.objective_[-1] == pytest.approx(program.value, rel=1e-6)
    assert_allclose(fitted.coef_, W.value.T, atol=5e-3)
