"""Estimators of multi-task MKL: layouts, limits, the printed variant, bad input."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.svm import SVC

from mtlrun.data.splits import TaskStratifiedKFold
from mtlrun.estimators.mkl import (
    GroupMKLClassifier,
    IndependentMKLClassifier,
    SharedMKLClassifier,
)
from mtlrun.model.files import import_skops
from mtlrun.solvers.mkl.kernels import (
    GaussianKernel,
    LinearKernel,
    PolynomialKernel,
    PrecomputedKernel,
)

SOME = ["linear", "polynomial(2)", "gaussian(1)"]


@pytest.fixture
def ragged():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(180, 3))
    ids = np.repeat(["u", "v", "w"], 60)[rng.permutation(180)]
    y = np.where(
        ids == "w",
        np.sign(X[:, 0] ** 2 - X[:, 1] ** 2),
        np.sign(X[:, 0] + 0.3 * rng.normal(size=180)),
    )
    return X, np.where(y > 0, "yes", "no"), ids


def test_tasks_select_their_informative_kernel(ragged):
    X, y, ids = ragged
    model = GroupMKLClassifier(C=1.0, lam=0.5, kernels=SOME[:2]).fit(X, y, task_id=ids)
    assert model.tasks_.tolist() == ["u", "v", "w"]
    assert model.theta_.shape == (3, 2)
    assert model.theta_.argmax(axis=1).tolist() == [0, 0, 1]
    assert model.gap_ <= 1e-3
    assert model.converged_
    assert model.cycle_ == []
    assert model.score(X, y, task_id=ids) > 0.9
    assert set(model.predict(X, task_id=ids)) == {"no", "yes"}


def test_scores_match_libsvm_with_the_learned_kernel(ragged):
    X, y, ids = ragged
    model = GroupMKLClassifier(lam=0.5, kernels=SOME, tol=1e-5).fit(X, y, task_id=ids)
    kernels = [LinearKernel(), PolynomialKernel(), GaussianKernel()]
    for t, name in enumerate(model.tasks_):
        A, labels = X[ids == name], y[ids == name]
        K = sum(
            weight * kernel(A)
            for weight, kernel in zip(model.theta_[t], kernels, strict=True)
        )
        svc = SVC(kernel="precomputed", tol=1e-7).fit(K, labels)
        actual = model.decision_function(A, task_id=ids[ids == name])
        assert_allclose(actual, svc.decision_function(K), atol=5e-3)


def test_the_limits_have_separate_estimators(ragged):
    X, y, ids = ragged
    options = {"kernels": SOME, "tol": 1e-4}
    alone = IndependentMKLClassifier(**options).fit(X, y, task_id=ids)
    assert_allclose(
        alone.theta_,
        GroupMKLClassifier(lam=0.0, **options).fit(X, y, task_id=ids).theta_,
    )
    shared = SharedMKLClassifier(**options).fit(X, y, task_id=ids)
    assert np.ptp(shared.theta_, axis=0).max() == 0
    strong = GroupMKLClassifier(lam=1e4, **options).fit(X, y, task_id=ids)
    assert strong.objective_[-1] == pytest.approx(shared.objective_[-1], rel=1e-3)


def test_layouts_agree(ragged):
    X, y, _ = ragged
    Y = np.column_stack([y, np.where(X[:, 1] > 0, "yes", "no")])
    shared = GroupMKLClassifier(kernels=SOME).fit(X, Y)
    stacked = GroupMKLClassifier(kernels=SOME).fit(
        np.vstack([X, X]), Y.T.ravel(), task_id=np.repeat([0, 1], 180)
    )
    assert shared.decision_function(X).shape == (180, 2)
    assert_allclose(shared.theta_, stacked.theta_, atol=2e-2)
    assert_allclose(
        shared.decision_function(X)[:, 1],
        stacked.decision_function(X, task_id=np.ones(180)),
        atol=0.02,
    )
    assert_allclose(
        shared.decision_function(X[:5], task_id=[1, 0, 1, 0, 1])[::2],
        shared.decision_function(X[:5])[::2, 1],
    )
    sparse = GroupMKLClassifier(kernels=SOME).fit(sp.csr_array(X), Y)
    assert_allclose(
        sparse.decision_function(sp.csr_array(X)),
        shared.decision_function(X),
        atol=2e-2,
    )


def test_missing_labels_and_weights_of_zero_are_left_out(ragged):
    X, y, _ = ragged
    Y = np.column_stack([np.where(y == "yes", 1.0, 0.0), X[:, 1] > 0])
    Y[:60, 1] = np.nan
    masked = GroupMKLClassifier(kernels=SOME).fit(X, Y)
    W = np.ones(Y.shape)
    W[:60, 1] = 0
    weighted = GroupMKLClassifier(kernels=SOME).fit(
        X, np.nan_to_num(Y), sample_weight=W
    )
    assert_allclose(
        masked.decision_function(X), weighted.decision_function(X), atol=1e-8
    )


def test_the_order_of_rows_does_not_matter(ragged):
    X, y, ids = ragged
    order = np.random.default_rng(1).permutation(180)
    model = GroupMKLClassifier(kernels=SOME).fit(X, y, task_id=ids)
    again = GroupMKLClassifier(kernels=SOME).fit(X[order], y[order], task_id=ids[order])
    assert_allclose(again.theta_, model.theta_, atol=1e-12)


def test_an_unseen_task_gets_the_mean_score(ragged):
    X, y, ids = ragged
    model = GroupMKLClassifier(kernels=SOME, unseen="mean").fit(X, y, task_id=ids)
    mean = np.mean(
        [model.decision_function(X[:4], task_id=[name] * 4) for name in "uvw"], axis=0
    )
    assert_allclose(model.decision_function(X[:4], task_id=["x"] * 4), mean)


def test_a_task_with_one_class_predicts_it(ragged):
    X, y, ids = ragged
    y = np.where(ids == "v", "no", y)
    model = GroupMKLClassifier(kernels=SOME).fit(X, y, task_id=ids)
    assert set(model.predict(X[ids == "v"], task_id=ids[ids == "v"])) == {"no"}


def test_the_printed_variant_reports_cycling(ragged):
    X, y, ids = ragged
    model = GroupMKLClassifier(lam=0.5, kernels=SOME, variant="paper")
    with pytest.warns(
        ConvergenceWarning, match=r"cycles with period \d+.*variant='corrected'"
    ):
        model.fit(X, y, task_id=ids)
    assert len(model.cycle_) >= 2
    assert not model.converged_
    assert model.gap_ > 1e-3


def test_a_warm_start_keeps_matrices_and_solution(ragged):
    X, y, ids = ragged
    model = GroupMKLClassifier(lam=0.5, kernels=SOME, warm_start=True).fit(
        X, y, task_id=ids
    )
    grams = model.warm_start_.tasks.grams
    model.set_params(lam=0.6).fit(X, y, task_id=ids)
    assert model.warm_start_.tasks.grams is grams
    cold = GroupMKLClassifier(lam=0.6, kernels=SOME).fit(X, y, task_id=ids)
    assert model.n_svm_fits_ < cold.n_svm_fits_
    assert model.objective_[-1] == pytest.approx(cold.objective_[-1], rel=1e-3)
    for rows in (X, X[:50], X + 0.5):
        expected = cold.decision_function(rows, task_id=ids[: len(rows)])
        assert_allclose(
            model.decision_function(rows, task_id=ids[: len(rows)]), expected, atol=0.02
        )
        model.set_params(warm_start=False)  # Predicts from the support vectors
        expected = model.decision_function(rows, task_id=ids[: len(rows)])
        model.set_params(warm_start=True)
        assert_allclose(
            model.decision_function(rows, task_id=ids[: len(rows)]), expected, atol=1e-9
        )
    other = model.set_params(kernels=["linear"]).fit(X, y, task_id=ids)
    assert other.theta_.shape == (3, 1)
    assert "warm_start_" not in pickle.loads(pickle.dumps(model)).__dict__


def test_a_model_of_named_kernels_is_saved_without_kernel_objects(ragged):
    X, y, ids = ragged
    # As mtlrun imports it: otherwise it imports torch, which takes seconds.
    skops = import_skops()
    for kernels in (None, SOME):
        model = GroupMKLClassifier(kernels=kernels).fit(X, y, task_id=ids)
        archive = skops.io.dumps(model)
        untrusted = skops.io.get_untrusted_types(data=archive)
        assert untrusted == ["mtlrun.estimators.mkl.GroupMKLClassifier"]
        again = skops.io.loads(archive, trusted=untrusted)
        assert_allclose(
            again.decision_function(X, task_id=ids),
            model.decision_function(X, task_id=ids),
        )


def test_changing_the_kernels_after_fit_does_not_change_predictions(ragged):
    X, y, ids = ragged
    model = GroupMKLClassifier(kernels=SOME).fit(X, y, task_id=ids)
    before = model.decision_function(X, task_id=ids)
    model.set_params(kernels=["linear"])
    assert_allclose(model.decision_function(X, task_id=ids), before)
    assert len(model.kernels_) == 3


@pytest.mark.parametrize(("lam", "seed"), [(0.0, 3), (0.1, 2), (np.inf, 0)])
def test_weights_stay_in_the_simplex_ball_if_the_cost_binds_every_row(lam, seed):
    rng = np.random.default_rng(seed)
    rows = np.arange(120)
    X = rng.normal(size=(120, 3)) + (rows % 3 == 0)[:, None]
    y = np.where(rng.random(120) < 0.1, 1, -1)
    y[:8] = np.repeat([1, -1], 4)
    model = GroupMKLClassifier(
        lam=lam, class_weight="balanced", warm_start=True, max_iter=50
    )
    for C in 2.0 ** np.arange(-16, -1):
        model.set_params(C=C).fit(X, y, task_id=rows % 4)
        assert model.theta_.min() >= 0
        assert model.theta_.sum(axis=1).max() <= 1 + 1e-9
        assert -1e-12 <= model.gap_ <= model.tol


def test_a_small_cache_changes_nothing(ragged):
    X, y, ids = ragged
    small = GroupMKLClassifier(kernels=SOME, cache_size=0.0).fit(X, y, task_id=ids)
    assert_allclose(
        small.theta_, GroupMKLClassifier(kernels=SOME).fit(X, y, task_id=ids).theta_
    )


def test_precomputed_kernels_work_in_a_grid_search(ragged):
    X, y, _ = ragged
    items = np.arange(180.0)[:, None]
    kernels = [
        PrecomputedKernel(matrix=LinearKernel()(X)),
        PrecomputedKernel(matrix=GaussianKernel()(X)),
    ]
    model = GroupMKLClassifier(kernels=kernels)
    assert clone(model).kernels[0] is kernels[0]
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=KFold(3)).fit(items, y)
    direct = GroupMKLClassifier(
        C=search.best_params_["C"], kernels=["linear", "gaussian(1)"]
    ).fit(X, y)
    assert_allclose(
        search.decision_function(items), direct.decision_function(X), atol=0.02
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0.0}, r"C must be a float in \(0, inf\)"),
        ({"lam": -1.0}, r"lam must be a float in \[0, inf\]"),
        ({"variant": "papre"}, "did you mean 'paper'"),
        ({"kernels": ["lineal"]}, "did you mean 'linear'"),
        ({"kernels": []}, "kernels is empty"),
        ({"max_iter": 0}, "max_iter must be an int"),
    ],
)
def test_invalid_parameters_are_rejected(params, message):
    with pytest.raises(ValueError, match=message):
        GroupMKLClassifier(**params).fit([[0.0], [1.0]], [0, 1])


def test_a_precomputed_kernel_with_the_wrong_size_is_rejected(ragged):
    _, y, _ = ragged
    model = GroupMKLClassifier(kernels=[PrecomputedKernel(matrix=np.eye(100))])
    with pytest.raises(
        ValueError,
        match=(
            r"has 100 items, but column 0 of X holds \d+; it must hold positions "
            r"0\.\.99"
        ),
    ):
        model.fit(np.arange(180.0)[:, None], y)


def test_fewer_samples_than_folds_are_rejected():
    with pytest.raises(ValueError, match="there are 4"):
        next(
            TaskStratifiedKFold(5).split(
                np.zeros((4, 1)), [0, 1] * 2, task_id=[0, 0, 1, 1]
            )
        )
