"""CMTL, FlexClus, Whom, CoClus, MeTaG: planted structure is recovered, limits are known
models, gaps close.
"""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from all_cases import all_cases
from numpy.testing import assert_allclose
from sklearn.base import clone

from mtlrun.estimators.clustered import CMTL, CoClus, FlexClus, MeTaG, Whom
from mtlrun.estimators.independent import IndependentRidge, PooledRidge
from mtlrun.problem.losses import LOSSES
from mtlrun.solvers.clustered import merge_tasks, move_tasks

CONVEX = [
    CMTL(),
    CMTL(loss="logistic"),
    FlexClus(),
    FlexClus(loss="squared_hinge"),
    Whom(),
    Whom(loss="squared"),
    MeTaG(),
]


def planted(W, n=40, noise=0.3, seed=0):
    """Return X, labels and ids of tasks whose labels are the signs of X w_t + noise."""
    rng = np.random.default_rng(seed)
    d, T = W.shape
    X = rng.normal(size=(n * T, d))
    ids = np.repeat(np.arange(T), n)
    z = np.einsum("ij,ij->i", X, W.T[ids])
    return X, np.sign(z + noise * rng.normal(size=n * T)), ids


def clusters(seed=1, d=8):
    """Return six tasks in two clusters of three."""
    centres = np.random.default_rng(seed).normal(size=(d, 2))
    return centres[:, [0, 0, 0, 1, 1, 1]]


def distances(coef):
    unit = coef / np.linalg.norm(coef, axis=1, keepdims=True)
    return np.linalg.norm(unit[:, None] - unit[None], axis=2)


def found_clusters(model):
    """Return the largest distance within two clusters and the smallest between."""
    D = distances(model.coef_)
    return max(D[:3, :3].max(), D[3:, 3:].max()), D[:3, 3:].min()


def signed(y):
    return np.where(y > 0, 1.0, -1.0)


@pytest.mark.parametrize("model", CONVEX, ids=repr)
def test_convex_models_are_certified(model):
    X, y, ids = planted(clusters())
    model.fit(X, y, task_id=ids)
    assert model.converged_
    assert 0 <= model.gap_ <= 1e-4
    assert np.all(np.diff(model.objective_) <= 1e-9 * abs(model.objective_[0]))


# ---------------------------------------------------------------- planted structure


@pytest.mark.parametrize(
    ("model", "W", "n"),
    [
        (CMTL(10.0, 2, within=100.0), clusters(), 30),
        (MeTaG(8.0), clusters()[:, :1] * np.array([1, 1, 1, -1, -1, -1]), 100),
    ],
    ids=["CMTL", "MeTaG"],
)
def test_clusters_of_tasks_are_recovered(model, W, n):
    X, y, ids = planted(W, n=n)
    within, between = found_clusters(model.fit(X, y, task_id=ids))
    assert within < 0.25
    assert between > 0.8
    alone = IndependentRidge(1.0).fit(X, signed(y), task_id=ids)
    assert within < 0.4 * found_clusters(alone)[0]
    X_test, y_test, ids_test = planted(W, n=300, seed=9)
    accuracy = np.mean(np.sign(alone.predict(X_test, task_id=ids_test)) == y_test)
    assert model.score(X_test, y_test, task_id=ids_test) > accuracy


def test_clusters_may_differ_by_feature():
    """In the first of two features tasks 0-2 agree, in the second tasks 0 and 3."""
    W = np.array(
        [[2.0, 2.0, 2.0, -2.0, -2.0, -2.0], [1.5, -1.5, -1.5, 1.5, -1.5, -1.5]]
    )
    X, y, ids = planted(W, n=150, noise=0.5)
    model = FlexClus(3.0, ridge=1e-3, own=1e3).fit(X, y, task_id=ids)
    first, second = model.shared_.T
    assert max(np.ptp(first[:3]), np.ptp(first[3:])) < 0.05 * (
        first[:3].mean() - first[3:].mean()
    )
    assert max(np.ptp(second[[0, 3]]), np.ptp(second[[1, 2, 4, 5]])) < 0.05 * (
        second[0] - second[1]
    )
    assert np.abs(model.own_).max() < 1e-2


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_tasks_that_share_a_subspace_are_grouped(loss):
    rng = np.random.default_rng(2)
    bases = [rng.normal(size=(16, 2)) for _ in range(2)]
    W = np.hstack([basis @ rng.normal(size=(2, 4)) for basis in bases])
    X, y, ids = planted(W, n=60, noise=0.1)
    model = Whom(1.0, 2, loss=loss).fit(X, y, task_id=ids)
    assert model.groups_ == [[0, 1, 2, 3], [4, 5, 6, 7]]
    single = Whom(1.0, 1, loss=loss).fit(X, y, task_id=ids)
    assert model.objective_[-1] < single.objective_[-1]


@pytest.mark.slow
def test_several_starts_give_the_best_partition():
    rng = np.random.default_rng(2)
    W, X = rng.normal(size=(6, 6)), rng.normal(size=(24, 6))
    Y = np.where(X @ W + rng.normal(size=(24, 6)) > 0, 1, -1)
    pairs = [
        [0, *rest] for k in range(5) for rest in itertools.combinations(range(1, 6), k)
    ]
    values = {}
    for group in pairs:
        V, b = cp.Variable((6, 6)), cp.Variable((1, 6))
        others = [t for t in range(6) if t not in group]
        norms = sum(cp.square(cp.normNuc(V[:, g])) for g in (group, others))
        loss = 0.5 * cp.sum_squares(1 - cp.multiply(Y, X @ V + np.ones((24, 1)) @ b))
        values[str(sorted([group, others]))] = cp.Problem(
            cp.Minimize(loss + norms)
        ).solve(solver="SCS", eps=1e-6)
    single, five = (
        Whom(1.0, 2, loss="squared", n_init=n, tol=1e-6).fit(X, Y) for n in (1, 5)
    )
    best = min(values.values())
    assert str(five.groups_) == min(values, key=values.get)
    assert five.objective_[-1] == pytest.approx(best, rel=1e-4)
    assert single.objective_[-1] == pytest.approx(values[str(single.groups_)], rel=1e-4)
    assert single.objective_[-1] > 1.01 * best


def test_moves_repair_groups():
    rng = np.random.default_rng(3)
    W = np.hstack(
        [rng.normal(size=(12, 1)) @ rng.normal(size=(1, 4)) for _ in range(3)]
    )
    right = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert merge_tasks(W, 3) == right
    assert move_tasks(W, [[0, 1, 2, 4], [3, 5, 6, 7], [8, 9, 10, 11]]) == right


@pytest.mark.parametrize("seed", range(5))
def test_parallel_tasks_cost_the_same_in_any_group(seed):
    """Groups have rank one; ||W_g||_*^2 is a sum over tasks, so no move reduces it."""
    rng = np.random.default_rng(seed)
    W = np.outer(rng.normal(size=30), rng.normal(size=8))
    groups = [[0, 3, 4], [1, 6], [2, 5, 7]]
    assert move_tasks(W, groups) == groups


@pytest.mark.slow
def test_a_common_model_and_a_low_rank_part_are_separated():
    rng = np.random.default_rng(4)
    common, part = (
        rng.normal(size=(10, 1)),
        1.5 * rng.normal(size=(10, 1)) @ rng.choice([-1.0, 1.0], size=(1, 8)),
    )
    X, y, ids = planted(common + part, n=80)
    model = CoClus(1e4, 1e4, 1).fit(X, y, task_id=ids)
    assert np.ptp(model.shared_, axis=0).max() < 0.05 * np.abs(model.shared_).max()
    singular = np.linalg.svd(model.own_, compute_uv=False)
    assert singular[1] < 0.1 * singular[0]
    truth = (common + part).T
    assert distances(np.vstack([model.coef_[3], truth[3]]))[0, 1] < 0.3
    assert np.all(np.diff(model.objective_) <= 1e-9 * model.objective_[0])
    assert model.gap_ is None
    assert model.stop_crit_ <= 1e-4


# ---------------------------------------------------------------- limits


@pytest.fixture(scope="module")
def data():
    return planted(clusters(), n=40)


def test_equal_penalties_are_ridge_regression_of_each_task(data):
    X, y, ids = data
    alone = IndependentRidge(2 * 3.0 * 0.5).fit(X, signed(y), task_id=ids)
    options = {"tol": 1e-9}
    models = [
        CMTL(3.0, 2, mean=0.5, between=0.5, within=0.5, **options),
        Whom(1.5, 6, loss="squared", **options),
        FlexClus(
            0.0, ridge=3.0, own=3.0, **options
        ),  # Two equal halves: 1/(1/3 + 1/3) of ridge.
    ]
    for model in models:
        assert_allclose(model.fit(X, y, task_id=ids).coef_, alone.coef_, atol=1e-4)


def test_strong_penalties_give_one_model_for_all_tasks():
    X, y, _ = planted(clusters(), n=40)
    Y = np.column_stack([y, np.roll(y, 1), np.sign(X[:, 0])])
    pooled = PooledRidge(2 * 3 * 0.5, fit_intercept=True).fit(X, Y)
    strong = CMTL(1.0, 1, mean=0.5, between=1.0, within=1e6, tol=1e-8).fit(X, Y)
    assert_allclose(strong.coef_, pooled.coef_, atol=1e-4)
    clustered = FlexClus(1e3, ridge=0.5, own=1e6, tol=1e-8).fit(X, Y)
    assert_allclose(clustered.coef_, pooled.coef_, atol=1e-4)
    least_squares = PooledRidge(0.0).fit(X, Y)
    assert_allclose(
        MeTaG(1e4, tol=1e-9).fit(X, Y).coef_, least_squares.coef_, atol=1e-5
    )


def test_without_penalties_the_model_is_least_squares_of_each_task(data):
    X, y, ids = data
    alone = IndependentRidge(0.0).fit(X, signed(y), task_id=ids)
    assert_allclose(MeTaG(0.0).fit(X, y, task_id=ids).coef_, alone.coef_, atol=1e-8)
    assert_allclose(
        CoClus(0.0, 1.0, 1, tol=1e-8).fit(X, y, task_id=ids).coef_,
        alone.coef_,
        atol=1e-4,
    )
    assert_allclose(
        CoClus(1.0, 0.0, 1, tol=1e-8).fit(X, y, task_id=ids).coef_,
        alone.coef_,
        atol=1e-4,
    )


def test_levels_with_the_same_seminorm_are_one_level(data):
    """MeTaG with H = 3 levels of strengths 4, 2, 1 equals H = 1 with strength 1."""
    X, y, ids = planted(clusters(d=3), n=15)
    levels = [cp.Variable((3, 6)) for _ in range(3)]
    b, W = cp.Variable(6), sum(levels)
    value = 0.5 * sum(
        cp.sum_squares(y[ids == t] - X[ids == t] @ W[:, t] - b[t]) for t in range(6)
    )
    for level, strength in zip(levels, (4.0, 2.0, 1.0), strict=True):
        value += strength * sum(
            cp.norm(level[:, s] - level[:, t]) for s in range(6) for t in range(s)
        )
    oracle = cp.Problem(cp.Minimize(value))
    oracle.solve(solver="CLARABEL")
    model = MeTaG(1.0, tol=1e-8, max_iter=50000).fit(X, y, task_id=ids)
    assert model.objective_[-1] == pytest.approx(oracle.value, rel=1e-6)
    assert_allclose(model.coef_, W.value.T, atol=1e-3)


def test_metag_accepts_more_features_than_rows_and_weights():
    rng = np.random.default_rng(5)
    X, ids = rng.normal(size=(40, 30)), np.repeat(np.arange(4), 10)
    y = np.sign(X[:, 0] + 0.1 * rng.normal(size=40))
    model = MeTaG(0.5).fit(X, y, task_id=ids)
    assert model.gap_ <= 1e-4
    weights = rng.integers(1, 3, size=40)
    weighted = MeTaG(0.5, tol=1e-7).fit(X, y, task_id=ids, sample_weight=weights)
    rows = np.repeat(np.arange(40), weights)
    repeated = MeTaG(0.5, tol=1e-7).fit(X[rows], y[rows], task_id=ids[rows])
    assert weighted.objective_[-1] == pytest.approx(repeated.objective_[-1], rel=1e-6)


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize("model", [CMTL, Whom, CoClus])
def test_more_clusters_than_tasks_are_rejected(model, data):
    X, y, ids = data
    with pytest.raises(ValueError, match=r"n_task_clusters=7.*6.*6"):
        model(n_task_clusters=7).fit(X, y, task_id=ids)
    assert model().fit(X, y, task_id=ids).n_task_clusters_ == 3


@all_cases(
    ("model", "message"),
    [
        (CMTL(within=0.5), "between <= within"),
        (CMTL(alpha=-1.0), r"alpha must be a float in \[0, inf\)"),
        (CMTL(n_task_clusters=0), "n_task_clusters must be an int"),
        (FlexClus(own=0.0), r"own must be a float in \(0, inf\)"),
        (Whom(loss="hinge"), "loss must be one of"),
        (CoClus(low_rank=-1.0), "low_rank must be a float"),
        (MeTaG(tol=0.0), r"tol must be a float in \(0, inf\)"),
    ],
)
def test_invalid_parameters_are_rejected(model, message, data):
    X, y, ids = data
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, task_id=ids)


@pytest.mark.parametrize(
    ("part", "clusters"),
    [(0.01, 1), (0.25, 1), (0.3, 2), (0.5, 3), (0.99, 6), (2, 2), (None, 3)],
)
def test_clusters_may_be_given_as_a_fraction_of_the_tasks(part, clusters):
    X, y, ids = planted(np.eye(6), n=5)
    assert (
        CMTL(n_task_clusters=part).fit(X, y, task_id=ids).n_task_clusters_ == clusters
    )


@pytest.mark.parametrize("model", [CMTL, Whom, CoClus])
def test_a_fraction_of_the_tasks_is_below_one(model):
    with pytest.raises(
        ValueError,
        match=r"n_task_clusters.*\[1.*\(0.*1\)",
    ):
        model(n_task_clusters=1.5).fit(*planted(np.eye(2))[:2])


@pytest.mark.parametrize("d", [4, 60])
def test_metag_with_a_ridge_matches_a_general_solver(d):
    W = np.random.default_rng(0).normal(size=(d, 3))
    X, y, ids = planted(W, n=12)
    model = MeTaG(alpha=0.7, ridge=0.4, tol=1e-7).fit(X, y, task_id=ids)
    w, b = cp.Variable((d, 3)), cp.Variable(3)
    loss = sum(
        0.5 * cp.sum_squares(y[ids == t] - X[ids == t] @ w[:, t] - b[t])
        for t in range(3)
    )
    pairs = sum(cp.norm(w[:, s] - w[:, t]) for s in range(3) for t in range(s))
    value = cp.Problem(cp.Minimize(loss + 0.7 * pairs + 0.2 * cp.sum_squares(w))).solve(
        solver="CLARABEL"
    )
    assert model.objective_[-1] == pytest.approx(value, rel=1e-5)
    assert model.gap_ <= 1e-7
    assert_allclose(model.coef_.T, w.value, atol=1e-3)


def test_metag_with_only_a_ridge_is_ridge_regression_of_each_task():
    X, y, ids = planted(np.eye(6))
    model = MeTaG(alpha=0.0, ridge=2.0).fit(X, y, task_id=ids)
    assert_allclose(
        model.coef_, IndependentRidge(alpha=2.0).fit(X, y, task_id=ids).coef_, atol=1e-8
    )
    assert model.gap_ < 1e-10


@pytest.mark.parametrize(("d", "ridge"), [(4, 0.0), (4, 3.0), (40, 3.0), (60, 3.0)])
def test_from_a_finite_strength_on_metag_gives_one_model_at_once(d, ridge):
    X, y, ids = planted(np.random.default_rng(0).normal(size=(d, 3)), n=12)
    y[ids == 2] *= -1
    least = _least_strength_of_equal_tasks(X, y, ids, ridge)
    equal = MeTaG(alpha=1.001 * least, ridge=ridge, tol=1e-9).fit(X, y, task_id=ids)
    assert equal.n_iter_ == 1
    assert equal.gap_ <= 1e-9
    assert np.ptp(equal.coef_, axis=0).max() < 1e-8
    below = MeTaG(alpha=0.5 * least, ridge=ridge, tol=1e-9, max_iter=20000).fit(
        X, y, task_id=ids
    )
    assert below.n_iter_ > 1
    assert np.ptp(below.coef_, axis=0).max() > 1e-6


def _least_strength_of_equal_tasks(X, y, ids, ridge):
    """Flows between equal tasks are differences of gradients over their number."""
    T = ids.max() + 1
    X, y = (
        np.concatenate(
            [values[ids == t] - values[ids == t].mean(axis=0) for t in range(T)]
        )
        for values in (X, y)
    )
    gram = X.T @ X + T * ridge * np.eye(X.shape[1])
    w = np.linalg.lstsq(gram, X.T @ y, rcond=1e-12)[0]
    slopes = np.array(
        [X[ids == t].T @ (y[ids == t] - X[ids == t] @ w) for t in range(T)]
    )
    return max(np.linalg.norm(a - b) for a, b in itertools.combinations(slopes, 2)) / T


@pytest.mark.parametrize("model", [MeTaG(tol=1e-7), CoClus(tol=1e-7)], ids=repr)
def test_a_warm_start_decomposes_the_same_data_once_with_the_same_result(model):
    X, y, ids = planted(clusters(), n=6)
    model = clone(model).set_params(warm_start=True)
    names = {"MeTaG": ("alpha", "ridge"), "CoClus": ("low_rank", "shared")}[
        type(model).__name__
    ]
    spaces = set()
    for values in ((20.0, 1.0), (0.5, 0.1), (0.01, 1.0), (0.0, 0.1)):
        params = dict(zip(names, values, strict=True))
        model.set_params(**params).fit(X, y, task_id=ids)
        spaces.add(id(model.warm_start_.space))
        cold = clone(model).set_params(warm_start=False).fit(X, y, task_id=ids)
        rel = 1e-6 if isinstance(model, MeTaG) else 1e-14
        assert model.objective_[-1] == pytest.approx(cold.objective_[-1], rel=rel), (
            params
        )
    assert len(spaces) == 1
    assert "warm_start_" not in vars(cold)
    model.fit(X, -y, task_id=ids)
    assert id(model.warm_start_.space) not in spaces


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_rounds_of_co_clusters_never_increase_the_objective_and_end_at_zero_slope(
    loss,
):
    X, y, ids = planted(np.random.default_rng(2).normal(size=(3, 6)), n=30, noise=4.0)
    model = CoClus(0.5, 2.0, 1, loss=loss, tol=1e-8).fit(X, y, task_id=ids)
    assert np.all(np.diff(model.objective_) <= 1e-9 * model.objective_[0])
    margins = np.einsum("ij,ij->i", X, model.coef_[ids]) + model.intercept_[ids]
    slope = LOSSES[loss]().gradient(margins, y)
    of_W = np.array([X[ids == t].T @ slope[ids == t] for t in range(6)])
    U, s, Vt = np.linalg.svd(model.own_, full_matrices=False)
    rest = (U[:, 1:] * s[1:]) @ Vt[1:]
    deviations = model.shared_ - model.shared_.mean(axis=0)
    scale = np.abs(X.T @ y).max()
    assert_allclose(of_W + 4.0 * rest, 0.0, atol=1e-2 * scale)  # Slope in Q
    assert_allclose(of_W + deviations, 0.0, atol=1e-2 * scale)  # Slope in P
    assert_allclose([slope[ids == t].sum() for t in range(6)], 0.0, atol=1e-2 * scale)


def test_coclus_with_a_ridge_is_ridge_regression_if_its_parts_are_free():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 30))  # Fewer rows than features
    y = np.where(X @ rng.normal(size=(30, 3)) > 0, 1.0, -1.0)
    free = CoClus(
        shared=0.0, low_rank=0.0, n_task_clusters=1, ridge=0.7, tol=1e-10
    ).fit(X, y)
    assert_allclose(free.coef_, IndependentRidge(alpha=1.4).fit(X, y).coef_, atol=1e-4)
    model = CoClus(
        shared=2.0, low_rank=3.0, n_task_clusters=1, ridge=0.7, tol=1e-10
    ).fit(X, y)
    deviations = model.shared_ - model.shared_.mean(axis=0)
    penalty = 2 * np.sum(deviations**2) + 3 * np.sum(
        np.linalg.svd(model.own_)[1][1:] ** 2
    )
    loss = 0.5 * np.sum((y - model.decision_function(X)) ** 2)
    assert model.objective_[-1] == pytest.approx(
        loss + penalty + 0.7 * np.sum(model.coef_**2), rel=1e-6
    )


@pytest.mark.cover
@pytest.mark.slow
@pytest.mark.parametrize("low_rank", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_converged_coclus_has_little_left_to_gain(seed, low_rank):
    """Here rounds that gain little each have lowered the objective much further."""
    X, y, ids = planted(clusters(seed, d=10), n=15, noise=1.0, seed=seed)
    tol = 1e-5
    model = CoClus(1.0, low_rank, 2, max_iter=20_000)
    loose, tight = (
        clone(model).set_params(tol=value).fit(X, y, task_id=ids)
        for value in (tol, tol / 1000)
    )
    assert loose.converged_
    assert loose.stop_crit_ <= tol
    left = loose.objective_[-1] - tight.objective_[-1]
    assert left <= 2 * tol * loose.objective_[0]
