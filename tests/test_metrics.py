"""Metrics equal scikit-learn's in every layout, and are NaN where undefined."""

import re

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as reference
from all_cases import all_cases
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB

from mtlrun import metrics as m
from mtlrun.errors import UnknownNameError
from mtlrun.estimators import IndependentRidge


@st.composite
def binary_problem(draw):
    """Return labels of both classes, scores with many ties, positive weights."""
    n = draw(st.integers(2, 40))
    y = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n)))
    y[:2] = -1, 1
    score = np.array(
        draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), dtype=float
    )
    weight = np.array(
        draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.5]), min_size=n, max_size=n))
    )
    return y, score, weight


@given(binary_problem())
def test_binary_metrics_equal_scikit_learn(problem):
    y, score, weight = problem
    label = m.labels_from_scores(score)
    probability = 1 / (1 + np.exp(-score))
    for w in (None, weight):
        pairs = [
            (
                m.auc_per_task(y, score, weights=w),
                reference.roc_auc_score(y, score, sample_weight=w),
            ),
            (
                m.average_precision_per_task(y, score, weights=w),
                reference.average_precision_score(y, score, sample_weight=w),
            ),
            (
                m.log_loss_per_task(y, score, weights=w),
                reference.log_loss(y, probability, sample_weight=w),
            ),
            (
                m.accuracy_per_task(y, label, weights=w),
                reference.accuracy_score(y, label, sample_weight=w),
            ),
            (
                m.balanced_accuracy_per_task(y, label, weights=w),
                reference.balanced_accuracy_score(y, label, sample_weight=w),
            ),
            (
                m.f1_per_task(y, label, weights=w),
                reference.f1_score(y, label, sample_weight=w),
            ),
        ]
        for ours, theirs in pairs:
            assert ours.shape == (1,)
            assert ours[0] == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_other_averages_of_the_auc_equal_scikit_learn(weighted):
    rng = np.random.default_rng(0)
    Y = (rng.random((50, 6)) < [0.5, 0.3, 0.4, 0.25, 0.5, 0.1]).astype(float)
    Y[:2] = (
        [1, 0, 1, 0, 1, 0],
        [0, 1, 0, 1, 0, 1],
    )  # Every row has both classes, which scikit-learn requires.
    Y[2:, 0] = np.where(Y[2:, 1:].any(axis=1), Y[2:, 0], 1.0)
    Y[2:, 1] = np.where(Y[2:].all(axis=1), 0.0, Y[2:, 1])
    S, w = (
        rng.integers(-3, 4, Y.shape).astype(float),
        rng.uniform(0.5, 2.0, 50) if weighted else None,
    )
    for name, function in (
        ("micro", m.auc_micro_per_task),
        ("samples", m.auc_samples_per_task),
    ):
        assert function(Y, S, weights=w).shape == (6,)
        np.testing.assert_allclose(
            function(Y, S, weights=w),
            reference.roc_auc_score(Y, S, average=name, sample_weight=w),
            atol=1e-12,
        )
    frequent, auc = m.auc_frequent_per_task(Y, S), m.auc_per_task(Y, S)
    assert np.isnan(frequent).tolist() == (Y.sum(axis=0) < m.FREQUENT).tolist()
    assert np.isnan(frequent).any()
    assert not np.isnan(frequent).all()
    np.testing.assert_array_equal(
        frequent[~np.isnan(frequent)], auc[~np.isnan(frequent)]
    )


@pytest.mark.parametrize(("n_positive", "n_negative"), [(10, 9), (9, 10), (10, 10)])
def test_a_frequent_task_has_ten_rows_of_each_class(n_positive, n_negative):
    y = np.repeat([1.0, -1.0], [n_positive, n_negative])
    is_frequent = not np.isnan(m.auc_frequent_per_task(y, -np.arange(len(y)))[0])
    assert is_frequent == (n_positive == n_negative)


def test_other_averages_of_the_auc_work_in_other_layouts():
    rng = np.random.default_rng(1)
    y, s = np.sign(rng.normal(size=60)), rng.normal(size=60)
    task = np.repeat([2, 0, 1], 20)
    np.testing.assert_allclose(
        m.auc_micro_per_task(y, s, task_id=task), [reference.roc_auc_score(y, s)] * 3
    )
    assert np.isnan(m.auc_samples_per_task(y, s, task_id=task)).tolist() == [True] * 3
    Y, S = y.reshape(20, 3).copy(), s.reshape(20, 3)
    Y[:, 1] = np.nan
    micro, samples = m.auc_micro_per_task(Y, S), m.auc_samples_per_task(Y, S)
    assert (
        np.isnan(micro).tolist() == np.isnan(samples).tolist() == [False, True, False]
    )
    assert (
        micro[0]
        == micro[2]
        == reference.roc_auc_score(Y[:, [0, 2]].ravel(), S[:, [0, 2]].ravel())
    )


@given(binary_problem(), st.integers(1, 3))
def test_integer_weights_are_repetitions(problem, times):
    y, score, weight = problem
    repeats = (weight * 2).astype(int) * times
    for metric in m.METRICS.values():
        prediction = m.labels_from_scores(score) if metric.needs == "label" else score
        weighted = metric(y, prediction, weights=repeats)
        repeated = metric(np.repeat(y, repeats), np.repeat(prediction, repeats))
        np.testing.assert_allclose(weighted, repeated, rtol=1e-10)


def test_regression_metrics_equal_scikit_learn():
    rng = np.random.default_rng(0)
    Y, Z = rng.standard_normal((2, 30, 4))
    w = rng.uniform(0.1, 2, 30)
    raw = {"multioutput": "raw_values", "sample_weight": w}
    np.testing.assert_allclose(
        m.mse_per_task(Y, Z, weights=w), reference.mean_squared_error(Y, Z, **raw)
    )
    np.testing.assert_allclose(
        m.rmse_per_task(Y, Z, weights=w), reference.root_mean_squared_error(Y, Z, **raw)
    )
    np.testing.assert_allclose(
        m.r2_per_task(Y, Z, weights=w), reference.r2_score(Y, Z, **raw)
    )
    np.testing.assert_allclose(m.nmse_per_task(Y, Z), ((Y - Z) ** 2).mean(0) / Y.var(0))
    np.testing.assert_allclose(
        m.nmse_per_task(Y, Z, variance=[1, 2, 4, 8]),
        ((Y - Z) ** 2).mean(0) / [1, 2, 4, 8],
    )


def test_the_auc_works_with_hundreds_of_columns():
    rng = np.random.default_rng(1)
    Y = np.where(rng.random((200, 300)) < 0.2, 1, 0)
    S = rng.integers(0, 20, Y.shape) / 7.0
    np.testing.assert_allclose(
        m.auc_per_task(Y, S), reference.roc_auc_score(Y, S, average=None), rtol=1e-13
    )


def test_all_layouts_agree():
    rng = np.random.default_rng(2)
    n, T = 12, 3
    Y, S = rng.standard_normal((2, n, T))
    W = rng.uniform(1, 2, (n, T))
    expected = m.mse_per_task(Y, S, weights=W)
    flat = {"offsets": [0, n, 2 * n, 3 * n], "weights": W.T.ravel()}
    np.testing.assert_allclose(
        m.mse_per_task(Y.T.ravel(), S.T.ravel(), **flat), expected
    )
    np.testing.assert_allclose(
        m.mse_per_task(list(Y.T), list(S.T), weights=list(W.T)), expected
    )
    ids = np.tile(["a", "b", "c"], n)
    rows = {"task_id": ids, "weights": W.ravel()}
    np.testing.assert_allclose(m.mse_per_task(Y.ravel(), S.ravel(), **rows), expected)
    ordered = m.mse_per_task(
        Y.ravel(), S.ravel(), tasks=["c", "none", "a", "b"], **rows
    )
    np.testing.assert_allclose(ordered, [expected[2], np.nan, expected[0], expected[1]])
    assert m.mse_per_task(
        [np.ones(2), np.ones(3)], [np.zeros(2), np.full(3, 3.0)]
    ).tolist() == [1.0, 4.0]


def test_masked_and_weightless_entries_do_not_count():
    Y = np.array([[1.0, np.nan], [2.0, 5.0], [9.0, 7.0]])
    P = np.array([[1.5, 100.0], [2.0, 5.0], [0.0, 8.0]])
    np.testing.assert_allclose(m.mse_per_task(Y, P, weights=[1, 1, 0]), [0.125, 0.0])
    np.testing.assert_allclose(m.mse_per_task(Y, P), [(0.25 + 81) / 3, 0.5])


@all_cases(
    ("function", "y", "prediction"),
    [
        (m.auc_per_task, [1, 1], [0.3, 0.4]),
        (m.auc_per_task, [-1, -1], [0.3, 0.4]),
        (m.average_precision_per_task, [0, 0], [0.3, 0.4]),
        (m.f1_per_task, [-1, -1], [-1, -1]),
        (m.nmse_per_task, [0.1, 0.1, 0.1], [1.0, 2.0, 3.0]),
        (m.r2_per_task, [2.0], [1.0]),
        (m.accuracy_per_task, [], []),
    ],
)
def test_undefined_metrics_are_nan(function, y, prediction):
    assert np.isnan(function(np.array(y), np.array(prediction))).tolist() == [True]


def test_nmse_with_zero_given_variance_is_nan():
    assert np.isnan(
        m.nmse_per_task(np.ones((2, 2)), np.zeros((2, 2)), variance=[1.0, 0.0])
    ).tolist() == [False, True]


def test_explained_variance_by_rows_pools_the_rows():
    rng = np.random.default_rng(0)
    task = rng.integers(0, 4, size=60)
    y, p, w = (
        rng.normal(size=60) + 3 * task,
        rng.normal(size=60) + 3 * task,
        rng.uniform(0.5, 2, size=60),
    )
    for weights in (None, w):
        values = m.explained_variance_per_task(
            y, p, task_id=task, tasks=range(5), weights=weights
        )
        sizes = np.bincount(task, weights=weights, minlength=5)
        assert np.isnan(values[4])  # A task without rows
        mean, _ = m.average(values, sizes, how="sample")
        assert mean == pytest.approx(reference.r2_score(y, p, sample_weight=weights))
    assert np.isnan(
        m.explained_variance_per_task([], [], task_id=[], tasks=range(2))
    ).all()


def test_accuracy_accepts_any_labels():
    y = np.array(["cat", "dog", "cow", "dog"])
    guess = np.array(["cat", "cow", "cow", "dog"])
    assert m.accuracy_per_task(y, guess).tolist() == [0.75]
    assert m.balanced_accuracy_per_task(y, guess)[0] == pytest.approx((1 + 0.5 + 1) / 3)


def test_invalid_input_is_rejected():
    for arguments, layout, text in [
        (([1, 2], [1, 2, 3]), {}, "targets have shape (2,) but predictions (3,)"),
        (([1.0], [np.nan]), {}, "predictions of task 0 are not finite"),
        (
            ([1.0, 2.0], [1.0, 2.0]),
            {"offsets": [0, 1]},
            "offsets must rise from 0 to 2",
        ),
        (([1.0, 2.0], [1.0, 2.0]), {"task_id": [1]}, "task_id must have shape (2,)"),
        (
            ([1.0, 2.0], [1.0, 2.0]),
            {"task_id": [1, 2], "tasks": [1]},
            "not among `tasks`: [2]",
        ),
        (([1.0, 2.0], [1.0, 2.0]), {"weights": [1.0]}, "weights must have shape (2,)"),
        ((np.ones((1, 1, 1)), np.ones((1, 1, 1))), {}, "1 or 2 dimensions, got 3"),
        (([np.ones(2)], [np.ones(2), np.ones(2)]), {}, "same number of tasks"),
    ]:
        with pytest.raises(ValueError, match=re.escape(text)):
            m.mse_per_task(*arguments, **layout)


def test_averages_ignore_undefined_tasks():
    assert m.average([1.0, np.nan, 3.0]) == (2.0, 1)
    assert m.average([1.0, np.nan, 3.0], [1, 5, 3], how="sample") == (2.5, 1)
    # Weights of rows may be small.
    assert m.average([1.0, 3.0], [0.25, 0.25], how="sample") == (2.0, 0)
    mean, undefined = m.average([np.nan, np.nan])
    assert np.isnan(mean)
    assert undefined == 2
    with pytest.raises(ValueError, match="needs the sizes"):
        m.average([1.0], how="sample")
    with pytest.raises(ValueError, match="shape"):
        m.average([1.0, 2.0], [1.0], how="sample")
    with pytest.raises(ValueError, match="'task' or 'sample'"):
        m.average([1.0], how="macro")


def test_labels_are_computed_from_scores():
    assert m.labels_from_scores(np.array([0.0, 0.1, -1.0])).tolist() == [-1, 1, -1]
    assert m.labels_from_scores(np.array([[0.0, 0.1]]), negative=0).tolist() == [[0, 1]]


def test_metrics_are_registered():
    assert m.get_metric("auc").function is m.auc_per_task
    assert all(name == metric.name for name, metric in m.METRICS.items())
    with pytest.raises(UnknownNameError, match="Did you mean 'auc'"):
        m.get_metric("aucc")


def test_metrics_have_a_direction():
    for metric in m.METRICS.values():
        y = np.tile([1.0, 1.0, -1.0, -1.0, 1.0], 6)
        Y = np.column_stack([y, -y])
        good, bad = metric(Y, Y)[0], metric(Y, -Y)[0]
        assert (good > bad) == metric.greater_is_better


@pytest.mark.parametrize("name", ["mse", "rmse", "nmse_all"])
def test_squared_errors_computed_at_once_equal_those_of_each_task(name):
    rng = np.random.default_rng(0)
    y, p, ids = rng.normal(size=60), rng.normal(size=60), rng.integers(0, 7, size=60)
    ids[ids == 4] = 5  # A task without rows
    metric, sizes = m.METRICS[name], np.bincount(ids, minlength=7)
    options = {"variance": np.ones(7)} if metric.task_variance else {}
    actual = metric(y, p, task_id=ids, tasks=range(7), **options)
    named = metric(
        y, p, task_id=ids, tasks=list(range(7)), weights=np.ones(60), **options
    )
    np.testing.assert_array_equal(actual, named)
    alone = [
        float(
            metric(y[ids == t], p[ids == t], **({"variance": 1.0} if options else {}))[
                0
            ]
        )
        for t in range(7)
        if t != 4
    ]
    np.testing.assert_allclose(actual[sizes > 0], alone, rtol=1e-14)
    assert np.isnan(actual[4])


SCORED = [
    m.auc_per_task,
    m.auc_frequent_per_task,
    m.auc_micro_per_task,
    m.auc_samples_per_task,
    m.average_precision_per_task,
    m.log_loss_per_task,
]
LABELLED = [m.accuracy_per_task, m.balanced_accuracy_per_task]
VALUED = [
    m.mse_per_task,
    m.rmse_per_task,
    m.nmse_per_task,
    m.r2_per_task,
    m.explained_variance_per_task,
]


def small_problem():
    rng = np.random.default_rng(3)
    return rng.integers(0, 100, (40, 3)), rng.integers(0, 100, (40, 3))


@pytest.mark.cover
@pytest.mark.parametrize("function", [*VALUED, *LABELLED])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64", "float16", object])
def test_numbers_of_any_type_score_like_floats(function, dtype):
    y, p = small_problem()
    expected = function(y.astype(float), p.astype(float))
    np.testing.assert_allclose(function(y.astype(dtype), p.astype(dtype)), expected)
    flat = function(y.T.ravel().astype(dtype), p.T.ravel().astype(dtype))
    np.testing.assert_allclose(
        flat, function(y.T.ravel().astype(float), p.T.ravel().astype(float))
    )
    lists = function(list(y.T.astype(dtype)), list(p.T.astype(dtype)))
    np.testing.assert_allclose(lists, function(list(1.0 * y.T), list(1.0 * p.T)))


@pytest.mark.parametrize("function", VALUED)
def test_missing_values_of_nullable_columns_are_masked(function):
    y, p = small_problem()
    task_id = np.arange(40) % 2
    target = y[:, 0].astype(float)
    target[:5] = np.nan
    nullable = pd.Series(target).astype("Int64")
    expected = function(target, 1.0 * p[:, 0], task_id=task_id)
    actual = function(nullable, pd.Series(p[:, 0]).astype("UInt8"), task_id=task_id)
    np.testing.assert_allclose(actual, expected)


@all_cases("function", [*SCORED, m.f1_per_task])
def test_binary_labels_are_signs_zeros_and_ones_or_booleans(function):
    y, p = small_problem()
    is_positive = y > 60
    scores = (p - 50) / 25
    if function is m.f1_per_task:
        scores = scores > 0
    expected = function(np.where(is_positive, 1, -1), scores)
    for labels in (
        is_positive,
        is_positive.astype(object),
        is_positive.astype(np.uint8),
        is_positive.astype(float),
        np.where(is_positive, 1, -1).astype(np.int8),
    ):
        np.testing.assert_allclose(function(labels, scores), expected)


@pytest.mark.cover
@pytest.mark.parametrize("function", [*SCORED, m.f1_per_task])
@pytest.mark.parametrize("labels", [[1, 2], [-1, 0], [0, 5], [0.5, 1], ["no", "yes"]])
def test_other_binary_labels_are_rejected_by_name(function, labels):
    y = np.resize(labels, 12)
    name = labels[0] if isinstance(labels[0], str) else f"{labels[0]:g}"
    message = "texts" if isinstance(labels[0], str) else rf"got .*{name}"
    with pytest.raises(ValueError, match=message):
        function(y, np.ones(12))


@pytest.mark.parametrize("function", LABELLED)
def test_mixed_labels_are_rejected(function):
    zeros = np.resize([0, 1], 12)
    with pytest.raises(ValueError, match="same labels"):
        function(zeros, 2 * zeros - 1)
    with pytest.raises(ValueError, match="texts"):
        function(zeros, zeros.astype(str))
    classes = np.resize([-1, 0, 1], 12)
    np.testing.assert_array_equal(function(classes, classes), [1.0])
    words = np.array(["a", None, "b"], dtype=object)
    np.testing.assert_array_equal(function(words, np.array(["a", "a", "b"])), [1.0])


def test_a_scorer_accepts_labels_of_any_type():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 2)), np.repeat([0, 1], 30)])
    y = X[:, 0] + rng.normal(size=60) > 0
    scorer = m.task_scorer("auc", task_column=2)
    for labels in (y, y + 1, np.where(y, "yes", "no"), pd.array(y, dtype="boolean")):
        model = LogisticRegression().fit(X, np.asarray(labels).astype(str))
        expected = scorer(LogisticRegression().fit(X, y), X, y)
        actual = scorer(model, X, np.asarray(labels).astype(str))
        assert actual == pytest.approx(expected)
    with pytest.raises(ValueError, match="binary labels"):
        scorer(LinearRegression().fit(X, y + 1.0), X, y + 1.0)


@pytest.mark.cover
@pytest.mark.parametrize("how", ["task", "sample"])
@pytest.mark.parametrize("metric", ["rmse", "r2", "explained_variance"])
def test_a_scorer_counts_a_weight_of_k_as_k_rows(metric, how):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 2)), np.repeat([0, 1, 2], 20)])
    y = X[:, 0] + 0.3 * X[:, 2] * rng.normal(size=60)
    # The tasks differ in error and weight.
    weights = np.arange(60) % 3 + 4 * (X[:, 2] == 1)
    repeated = np.repeat(np.arange(60), weights.astype(int))
    scorer = m.task_scorer(metric, task_column=2, how=how)
    # The second model has not seen the first task, whose rows are left out.
    seen = IndependentRidge(task_column=2).fit(X[20:], y[20:])
    for model in (LinearRegression().fit(X, y), seen):
        expected = scorer(model, X[repeated], y[repeated])
        assert scorer(model, X, y, sample_weight=weights) == pytest.approx(expected)
        assert scorer(model, X, y) != pytest.approx(expected, rel=1e-3)


def test_a_scorer_ranks_by_the_probability_of_the_second_class():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 2)), np.repeat([0, 1], 30)])
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, "yes", "no")
    model = GaussianNB().fit(X, y)
    assert not hasattr(model, "decision_function")
    chance = model.predict_proba(X)[:, 1]
    tasks = [X[:, 2] == 0, X[:, 2] == 1]
    expected = np.mean(
        [roc_auc_score(y[task] == "yes", chance[task]) for task in tasks]
    )
    actual = m.task_scorer("auc", task_column=2)(model, X, y)
    assert actual == pytest.approx(expected)


@pytest.mark.parametrize("factor", [1e-300, 1e300])
def test_scores_do_not_depend_on_the_unit_of_the_weights(factor):
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    predicted = 1e6 * rng.normal(size=40)
    weights = rng.uniform(1, 2, size=40)
    expected = m.mse_per_task(y, predicted, weights=weights)
    actual = m.mse_per_task(y, predicted, weights=factor * weights)
    np.testing.assert_allclose(actual, expected)


def test_all_public_names_are_listed_and_can_be_imported():
    assert set(m.__all__) <= set(dir(m))
    for name in m.__all__:
        assert getattr(m, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'auc_of_nothing'"):
        _ = m.auc_of_nothing
