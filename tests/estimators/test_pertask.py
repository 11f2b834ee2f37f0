"""PerTask equals fitting scikit-learn by hand to each task, on every layout."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from mtlrun.estimators import IndependentLogisticCV, TraceNormMTLClassifier
from mtlrun.estimators.baselines import (
    CalibratedTasks,
    LastValue,
    PerTask,
    ScaledTargets,
    TaskFeature,
    TaskMean,
    takes_task_id,
)
from mtlrun.estimators.tuned import TunedKernelRidge, TunedLogistic, TunedRidge


def _ragged(seed=0, n=60, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    ids = rng.choice(["b", "a", "c"], n)
    y = X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)
    return X, y, ids


def test_ragged_regression_is_one_fit_per_task():
    X, y, ids = _ragged()
    model = PerTask(Ridge(0.5)).fit(X, y, task_id=ids)
    assert model.tasks_.tolist() == ["a", "b", "c"]
    for t, task in enumerate(model.tasks_):
        rows = ids == task
        alone = Ridge(0.5).fit(X[rows], y[rows])
        assert_allclose(
            model.predict(X[rows], task_id=ids[rows]), alone.predict(X[rows])
        )
        assert_allclose(model.coef_[t], alone.coef_)
        assert_allclose(model.intercept_[t], alone.intercept_)
    order = np.random.default_rng(1).permutation(len(y))
    assert_allclose(
        model.predict(X[order], task_id=ids[order]),
        model.predict(X, task_id=ids)[order],
    )
    assert 0.9 < model.score(X, y, task_id=ids) <= 1


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=["None", "NaN", "NA"])
def test_object_labels_may_be_missing(missing):
    X, _, _ = _ragged()
    signs = (X[:, :2] > 0).astype(int)
    Y = signs.astype(object)
    Y[::5, 0] = missing
    model = PerTask(LogisticRegression()).fit(X, Y)
    seen = np.arange(len(X)) % 5 != 0
    assert_allclose(
        model.coef_[0], LogisticRegression().fit(X[seen], signs[seen, 0]).coef_[0]
    )
    assert_allclose(model.coef_[1], LogisticRegression().fit(X, signs[:, 1]).coef_[0])
    right = model.predict(X) == signs
    assert model.score(X, Y) == pytest.approx(
        (right[seen, 0].mean() + right[:, 1].mean()) / 2
    )


def test_polars_frames_are_split_by_task():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    X, y, ids = _ragged()
    frame = polars.DataFrame(dict(zip("pqrs", X.T, strict=True)))
    model = PerTask(Ridge()).fit(
        frame, polars.Series(y), task_id=polars.Series(ids.tolist())
    )
    assert model.estimators_[0].feature_names_in_.tolist() == list("pqrs")
    expected = PerTask(Ridge()).fit(X, y, task_id=ids).predict(X, task_id=ids)
    assert_allclose(model.predict(frame, task_id=ids), expected)
    shared = PerTask(Ridge()).fit(frame, polars.DataFrame({"u": y, "v": -y}))
    assert shared.tasks_.tolist() == ["u", "v"]


def test_a_shared_design_leaves_missing_targets_out():
    X, y, _ = _ragged()
    Y = np.column_stack([y, -y])
    Y[:20, 1] = np.nan
    model = PerTask(LinearRegression()).fit(sp.csr_matrix(X), Y)
    alone = LinearRegression().fit(sp.csr_matrix(X[20:]), -y[20:])
    assert_allclose(model.predict(sp.coo_matrix(X))[:, 1], alone.predict(X), atol=1e-10)
    picked = model.predict(sp.csr_matrix(X[:2]), task_id=[1, 0])
    assert_allclose(picked, [model.predict(X)[0, 1], model.predict(X)[1, 0]])
    assert 0.9 < model.score(X, Y) <= 1


@pytest.mark.parametrize(
    "classifier",
    [LinearSVC(), GaussianNB(), RandomForestClassifier(5, random_state=0)],
    ids=lambda c: type(c).__name__,
)
def test_scores_separate_the_labels(classifier):
    X, y, ids = _ragged()
    labels = np.where(y > 0, 1, -1)
    model = PerTask(classifier).fit(X, labels, task_id=ids)
    scores, predicted = (
        model.decision_function(X, task_id=ids),
        model.predict(X, task_id=ids),
    )
    clear = scores != 0
    assert clear.mean() > 0.8
    assert_array_equal(np.sign(scores[clear]), predicted[clear])
    assert model.score(X, labels, task_id=ids) > 0.8


def test_a_task_of_a_single_class_is_fitted_and_counted():
    X = np.arange(8.0)[:, None]
    Y = np.array([[-1, -1, 1]] * 4 + [[1, -1, 1]] * 4)
    model = PerTask(LogisticRegression()).fit(X, Y)
    assert_array_equal(model.predict(X)[:, 1:], Y[:, 1:])
    assert_array_equal(model.decision_function(X)[:, 1:], Y[:, 1:])
    assert not hasattr(model, "coef_")


def test_weights_reach_the_estimator():
    X, y, ids = _ragged()
    w = np.where(np.arange(len(y)) % 2, 1.0, 0.0)
    weighted = PerTask(LinearRegression()).fit(X, y, task_id=ids, sample_weight=w)
    halved = PerTask(LinearRegression()).fit(X[1::2], y[1::2], task_id=ids[1::2])
    assert_allclose(weighted.coef_, halved.coef_)
    both = np.column_stack([w, 1 - w])
    shared = PerTask(LinearRegression()).fit(
        X, np.column_stack([y, y]), sample_weight=both
    )
    assert_allclose(shared.coef_[1], LinearRegression().fit(X[::2], y[::2]).coef_)


def test_invalid_use_is_rejected():
    X, y, ids = _ragged()
    with pytest.raises(ValueError, match="2-D y"):
        PerTask(Ridge()).fit(X, np.column_stack([y, y]), task_id=ids)
    with pytest.raises(ValueError, match=r"task_id=np\.repeat"):
        PerTask(Ridge()).fit([X, X], [y, y])
    with pytest.raises(ValueError, match="'1'"):
        PerTask(Ridge()).fit(X, np.column_stack([y, np.full(len(y), np.nan)]))
    with pytest.raises(ValueError, match="no rows"):
        PerTask(Ridge()).fit(X[:0], y[:0], task_id=ids[:0])
    model = PerTask(Ridge()).fit(X, y, task_id=ids)
    with pytest.raises(ValueError, match=r"task_id.*3"):
        model.predict(X)
    with pytest.raises(ValueError, match="'d'"):
        model.predict(X[:1], task_id=["d"])


def test_fit_accepts_task_id():
    assert takes_task_id(PerTask(Ridge()))
    assert not takes_task_id(Ridge())


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 31.0)])
def test_tuned_ridge_is_ridge_cv_of_scikit_learn(weights):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5))
    Y = X @ rng.normal(size=(5, 3)) + [0.1, 1.0, 10.0] * rng.normal(size=(30, 3))
    alphas = [0.01, 1.0, 10.0, 1000.0]
    fitted = TunedRidge(alphas).fit(X, Y, sample_weight=weights)
    expected = RidgeCV(alphas, alpha_per_target=True).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(fitted.alpha_, expected.alpha_)
    assert len(set(fitted.alpha_)) > 1
    np.testing.assert_allclose(fitted.predict(X), expected.predict(X))
    single = TunedRidge(alphas).fit(sp.csr_matrix(X), Y[:, 2], sample_weight=weights)
    np.testing.assert_allclose(
        single.predict(sp.csr_matrix(X)), expected.predict(X)[:, 2]
    )


@pytest.mark.parametrize("alphas", [[100.0, 0.01, 1.0], [1, 10, 0.1, 100, 1]])
def test_two_rows_have_the_middle_strength_whatever_their_numbers(alphas):
    # Any strength predicts the other row by the one that is left.
    rng = np.random.default_rng(0)
    for _ in range(10):
        X, Y = rng.normal(size=(2, 3)), rng.normal(size=(2, 4))
        assert TunedRidge(alphas).fit(X, Y).alpha_.tolist() == [1.0] * 4


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_weighted", [False, True])
def test_tuned_ridge_accounts_for_the_intercept_of_each_left_out_row(seed, is_weighted):
    rng = np.random.default_rng(seed)
    n = 12
    X = rng.normal(size=(n, 3)) + 5
    y = X[:, 0] + 2 * rng.normal(size=n) + 20
    weights = rng.integers(1, 4, n).astype(float) if is_weighted else np.ones(n)
    alphas = [0.1, 1.0, 3.0, 10.0, 30.0]
    errors = np.zeros(len(alphas))
    for index, alpha in enumerate(alphas):
        for left_out in range(n):
            rest = np.arange(n) != left_out
            model = Ridge(alpha).fit(X[rest], y[rest], sample_weight=weights[rest])
            residual = y[left_out] - model.predict(X[[left_out]])[0]
            errors[index] += weights[left_out] * residual**2
    fitted = TunedRidge(alphas).fit(X, y, sample_weight=weights)
    assert fitted.alpha_ == alphas[int(np.argmin(errors))]
    best = Ridge(fitted.alpha_).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(fitted.predict(X), best.predict(X))


def test_tuned_logistic_selects_the_best_strength_and_handles_rare_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, 1.0, -1.0)
    alphas = [0.01, 1.0, 100.0]
    model = TunedLogistic(alphas, tol=1e-8).fit(X, y)
    losses = [
        -cross_val_score(
            LogisticRegression(C=1 / alpha, tol=1e-8),
            X,
            y,
            cv=StratifiedKFold(3, shuffle=True, random_state=0),
            scoring="neg_log_loss",
        ).mean()
        for alpha in alphas
    ]
    assert model.alpha_ == alphas[int(np.argmin(losses))]
    expected = LogisticRegression(C=1 / model.alpha_, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function(X), atol=1e-5
    )
    rare = TunedLogistic(alphas).fit(X, np.where(np.arange(60) == 7, 1.0, -1.0))
    assert rare.alpha_ == 1.0


FORMS = {
    "list": lambda X: X.tolist(),
    "frame": lambda X: pd.DataFrame(X, index=np.argsort(X[:, 0]), dtype="Float64"),
}


@pytest.mark.filterwarnings("ignore::mtlrun.estimators.inputs.UnlikelyInputWarning")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["ragged", "shared"])
@pytest.mark.parametrize(
    "model",
    [
        CalibratedTasks(TraceNormMTLClassifier()),
        IndependentLogisticCV(),
        LastValue(),
        ScaledTargets(Ridge()),
        TaskFeature(LogisticRegression()),
        TaskMean(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_wrappers_and_baselines_read_any_table(model, layout, form):
    X, y, ids = _ragged()
    labels = np.where(y > 0, 1.0, -1.0)
    positions = {"task_id": ids}
    named = {"task_id": pd.Series(ids, index=np.argsort(y))}
    if layout == "shared":
        labels = np.column_stack([labels, np.where(X[:, 0] > 0, 1.0, -1.0)])
        positions = {}
        named = {}
    expected = model.fit(X, labels, **positions).predict(X, **positions)
    table = FORMS[form](X)
    predicted = model.fit(table, labels, **named).predict(table, **named)
    assert_allclose(predicted, expected)


def test_scaled_targets_keep_their_names():
    X, y, _ = _ragged()
    Y = pd.DataFrame({"flow": y, "area": X[:, 0]})
    model = ScaledTargets(PerTask(Ridge())).fit(X, Y)
    assert model.tasks_.tolist() == ["flow", "area"]
    areas = model.predict(X, task_id=["area"] * len(y))
    assert_allclose(areas, model.predict(X)[:, 1])


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [3, 7]])
@pytest.mark.parametrize("wrapper", [PerTask, TaskFeature])
def test_labels_of_any_type_are_predicted_for_known_and_unknown_tasks(wrapper, labels):
    X, y, ids = _ragged()
    y = np.array(labels)[(y > 0).astype(int)]
    model = wrapper(LogisticRegression(), unseen="mean").fit(X, y, task_id=ids)
    predicted = model.predict(X, task_id=np.where(ids == "a", "new", ids))
    assert predicted.dtype == y.dtype
    assert np.mean(predicted == y) > 0.9


def test_rows_of_an_unknown_task_get_the_mean_of_all_models():
    X, ids = np.arange(8.0)[:, np.newaxis], np.repeat(["a", "b"], 4)
    model = PerTask(LinearRegression(), unseen="mean").fit(
        X, np.where(ids == "a", X[:, 0], 3 * X[:, 0]), task_id=ids
    )
    np.testing.assert_allclose(
        model.predict([[1.0], [1.0]], task_id=["b", "new"]), [3.0, 2.0]
    )
    with pytest.raises(ValueError, match="new"):
        PerTask(LinearRegression()).fit(X, X[:, 0], task_id=ids).predict(
            [[1.0]], task_id=["new"]
        )


def test_tuned_kernel_ridge_is_kernel_ridge_with_the_best_strength_and_width():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(30, 2)), rng.integers(1, 3, 30).astype(float)
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=30)
    alphas, widths, mean = [0.1, 1.0, 10.0], [0.5, 1.0], np.average(y, weights=weights)

    def by_hand(rows, alpha, width, new):
        gamma = 1 / (2 * 2 * width**2)
        model = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma)
        return (
            model.fit(X[rows], y[rows] - mean, sample_weight=weights[rows]).predict(
                X[new]
            )
            + mean
        )

    errors = {
        (alpha, width): sum(
            weights[i]
            * (y[i] - by_hand(np.delete(np.arange(30), i), alpha, width, [i])[0]) ** 2
            for i in range(30)
        )
        for alpha in alphas
        for width in widths
    }
    model = TunedKernelRidge(alphas, widths).fit(X, y, sample_weight=weights)
    assert (model.alpha_, model.width_) == min(errors, key=errors.get)
    new = rng.normal(size=(5, 2))
    gamma = 1 / (4 * model.width_**2)
    expected = KernelRidge(alpha=model.alpha_, kernel="rbf", gamma=gamma).fit(
        X, y - mean, sample_weight=weights
    )
    assert_allclose(model.predict(new), expected.predict(new) + mean, atol=1e-10)
    assert_allclose(model.predict(sp.csr_array(new)), model.predict(new))
    without = np.append(weights, 0.0)
    assert_allclose(
        TunedKernelRidge(alphas, widths)
        .fit(np.vstack([X, [[9.0, 9.0]]]), np.append(y, 99.0), without)
        .predict(new),
        model.predict(new),
    )


def test_tuned_kernel_ridge_predicts_the_mean_if_it_cannot_learn():
    X = np.ones((8, 1))
    model = TunedKernelRidge().fit(X, np.resize([1.0, -1.0], 8))
    assert model.alpha_ == np.inf
    assert_allclose(model.predict(X), 0.0)
    assert TunedKernelRidge().fit(X[:1], [3.0]).predict(X).tolist() == [3.0] * 8
