"""Weights and groups in baselines, wrappers and models with built-in tuning."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneGroupOut, StratifiedKFold

from mtlrun.catalog.registry import build
from mtlrun.data.groups import group_folds
from mtlrun.data.roles.weights import WeightScaleWarning
from mtlrun.estimators import (
    HierarchicalMTL,
    HierarchicalMTLClassifier,
    IndependentRidge,
    SmoothIndependentClassifier,
    TraceNormMTLClassifierCV,
    TraceNormMTLCV,
)
from mtlrun.estimators.baselines import (
    CalibratedTasks,
    LastValue,
    PerTask,
    ScaledTargets,
    TaskFeature,
    TaskMean,
    predict_scores,
    scaled_targets,
)
from mtlrun.estimators.tuned import TunedKernelRidge, TunedLogistic, TunedRidge

pytestmark = pytest.mark.usefixtures("few_trees")

PLAIN = {
    "TaskMean": TaskMean(),
    "PerTask": PerTask(Ridge()),
    "TaskFeature": TaskFeature(Ridge()),
    "ScaledTargets": ScaledTargets(IndependentRidge()),
    "ScaledTargets per task": ScaledTargets(Ridge()),
}
TUNED = {
    "TunedRidge": ScaledTargets(PerTask(TunedRidge())),
    "TunedKernelRidge": ScaledTargets(PerTask(TunedKernelRidge())),
    "TraceNormMTLCV": ScaledTargets(TraceNormMTLCV(alphas=5, cv=3)),
}
LABELS = {
    "PerTask": PerTask(LogisticRegression()),
    "TunedLogistic": PerTask(TunedLogistic()),
    "TraceNormMTLClassifierCV": TraceNormMTLClassifierCV(alphas=5, cv=3),
    "CalibratedTasks": CalibratedTasks(PerTask(LogisticRegression())),
}


def rows(labels=False, n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    tasks = np.array(["p", "q", "r"])[np.arange(n) % 3]
    y = X[:, 0] + (tasks == "q") * X[:, 1] + rng.normal(size=n)
    weights = rng.integers(0, 4, size=n).astype(float)
    return X, np.where(y > 0, 1.0, -1.0) if labels else y, tasks, weights


def repeats(n=240, n_groups=24, seed=0):
    """Return rows that hardly differ within a group, and unrelated targets."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), n // n_groups)
    X = rng.normal(size=(n_groups, 8))[groups] + 0.01 * rng.normal(size=(n, 8))
    y = rng.normal(size=n_groups)[groups] + 0.01 * rng.normal(size=n)
    return X, y, np.array(["p", "q"])[groups % 2], groups


@pytest.mark.parametrize("name", [*PLAIN, *TUNED, *LABELS])
def test_a_row_of_weight_0_equals_an_absent_row(name):
    is_classifier = name in LABELS
    model = {**PLAIN, **TUNED, **LABELS}[name]
    X, y, tasks, weights = rows(is_classifier)
    absurd = np.where(weights > 0, y, y if is_classifier else 1e6)
    used = weights > 0
    first = model.fit(
        X[used], y[used], task_id=tasks[used], sample_weight=weights[used]
    )
    expected = predict_scores(first, X, tasks)
    second = model.fit(X, absurd, task_id=tasks, sample_weight=weights)
    assert np.array_equal(predict_scores(second, X, tasks), expected)


@pytest.mark.parametrize("layout", ["task_id", "column", "sparse"])
@pytest.mark.parametrize("name", ["GraphSVC", "MultiTaskKernelSVC"])
def test_a_row_of_weight_0_may_contain_anything_and_has_a_dual_variable_of_0(
    name, layout
):
    X, y, tasks, weights = rows(labels=True)
    ids = np.unique(tasks, return_inverse=True)[1]
    unused = weights == 0
    absurd = np.where(unused[:, None], np.nan, X)
    labels = np.where(unused, 7.0, y)
    arguments = {"task_id": ids}
    model = build(name)
    if layout == "column":
        arguments = {}
        model.set_params(task_column=3)
        X, absurd = (np.column_stack([values, ids]) for values in (X, absurd))
    if layout == "sparse":
        X, absurd = map(csr_matrix, (X, absurd))
    model.fit(X, y, sample_weight=weights, **arguments)
    expected = model.dual_coef_
    model.fit(absurd, labels, sample_weight=weights, **arguments)
    assert model.dual_coef_.shape == y.shape
    assert np.array_equal(model.dual_coef_, expected)
    assert not model.dual_coef_[unused].any()
    weights[ids == 2] = 0
    with pytest.raises(ValueError, match="of positive weight"):
        model.fit(X, y, sample_weight=weights, **arguments)


@pytest.mark.parametrize("model", [TunedRidge(), TunedKernelRidge(), TunedLogistic()])
def test_models_with_built_in_tuning_do_not_count_rows_of_weight_0(model):
    X, y, _, weights = rows(labels=True)
    X[weights == 0] = 1e6
    used = weights > 0
    model.fit(X[used], y[used], sample_weight=weights[used])
    expected = predict_scores(model, X, None)
    model.fit(X, y, sample_weight=weights)
    assert np.array_equal(predict_scores(model, X, None), expected)


@pytest.mark.parametrize("name", PLAIN)
def test_a_weight_of_k_equals_k_rows(name):
    X, y, tasks, weights = rows()
    again = np.repeat(np.arange(len(y)), weights.astype(int))
    model = PLAIN[name]
    expected = model.fit(X[again], y[again], task_id=tasks[again]).predict(
        X, task_id=tasks
    )
    fitted = model.fit(X, y, task_id=tasks, sample_weight=weights)
    assert fitted.predict(X, task_id=tasks) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", PLAIN)
def test_weights_of_entries_belong_to_the_columns_of_their_names(name):
    X, y, _, weights = rows()
    Y = pd.DataFrame({"flow": y, "area": X[:, 1], "depth": X[:, 2] + y})
    W = pd.DataFrame({"flow": weights, "area": weights[::-1], "depth": y**2})
    model = PLAIN[name]
    expected = model.fit(X, Y.to_numpy(), sample_weight=W.to_numpy()).predict(X)
    model.fit(X, Y, sample_weight=W[["depth", "flow", "area"]])
    assert model.predict(X) == pytest.approx(expected, abs=1e-9)


def test_last_values_at_the_same_time_are_averaged_by_their_weights():
    times = np.array([[0.0], [1.0], [1.0]])
    model = LastValue(drift=True)
    model.fit(times, [1.0, 2.0, 4.0], sample_weight=[1, 1, 3])
    assert model.predict([[1.0], [2.0]]).tolist() == [3.5, 6.0]


@pytest.mark.parametrize(
    "name", ["TaskMean", "PerTask", "TaskFeature", "ScaledTargets"]
)
def test_an_entry_of_weight_0_is_a_missing_target_of_a_shared_design(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = X[:, :2] + rng.normal(size=(40, 2))
    weights = (rng.random((40, 2)) > 0.2).astype(float)
    gaps = np.where(weights > 0, Y, np.nan)
    model = PLAIN[name]
    expected = model.fit(X, gaps).predict(X)
    absurd = np.where(weights > 0, Y, 1e6)
    predicted = model.fit(X, absurd, sample_weight=weights).predict(X)
    assert predicted == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", PLAIN)
def test_a_task_of_weight_0_is_rejected(name):
    X, y, tasks, _ = rows()
    with pytest.raises(ValueError, match="'q'"):
        PLAIN[name].fit(X, y, task_id=tasks, sample_weight=(tasks != "q") * 1.0)


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_impossible_weights_are_rejected(weight):
    X, y, tasks, weights = rows()
    weights[:] = weight
    for model in PLAIN.values():
        with pytest.raises(ValueError, match="sample_weight"):
            model.fit(X, y, task_id=tasks, sample_weight=weights)


@pytest.mark.parametrize("factor", [1e300, 1e-200])
def test_weights_out_of_range_are_rejected_with_the_remedy(factor):
    X, y, tasks, weights = rows(labels=True)
    for model in (*PLAIN.values(), HierarchicalMTL(), HierarchicalMTLClassifier()):
        with pytest.raises(ValueError, match=r"np\.max\(sample_weight\)"):
            model.fit(X, y, task_id=tasks, sample_weight=factor * weights)


def test_scales_of_targets_match_repeated_rows_even_for_huge_weights():
    _, y, _, weights = rows()
    scaled, center, scale = scaled_targets(y, weights)
    repeated = np.repeat(y, weights.astype(int))
    assert center == pytest.approx(repeated.mean())
    assert scale == pytest.approx(repeated.std())
    assert scaled_targets(y, 1e306 * weights)[0] == pytest.approx(scaled)


@pytest.mark.parametrize(
    "model",
    [HierarchicalMTL(), HierarchicalMTLClassifier(), SmoothIndependentClassifier()],
)
def test_mixed_models_warn_about_weights_that_do_not_count_rows(model):
    X, y, tasks, weights = rows(labels=True)
    with pytest.warns(WeightScaleWarning, match="sample_weight /"):
        model.fit(X, y, task_id=tasks, sample_weight=100 * weights)


# --- groups ---


@pytest.mark.parametrize("n_groups", [3, 8, 40])
def test_the_strength_of_ridge_is_selected_by_leaving_out_groups(n_groups):
    """Errors match brute force, for groups with more or fewer rows than columns."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 5))
    groups = np.arange(40) % n_groups
    y = X @ rng.normal(size=5) + 2 * rng.normal(size=n_groups)[groups]
    weights = rng.uniform(0.5, 2, 40)
    alphas = [0.1, 1.0, 10.0, 100.0]
    errors = np.zeros(4)
    for train, test in LeaveOneGroupOut().split(X, y, groups):
        for index, alpha in enumerate(alphas):
            model = Ridge(alpha).fit(X[train], y[train], weights[train])
            errors[index] += weights[test] @ (y[test] - model.predict(X[test])) ** 2
    fitted = TunedRidge(alphas).fit(X, y, weights, groups=groups)
    assert fitted.alpha_ == alphas[np.argmin(errors)]


@pytest.mark.parametrize("seed", [5, 6, 8])
def test_the_strength_of_logistic_regression_has_the_smallest_weighted_loss(seed):
    X, labels, _, weights = rows(labels=True, seed=seed)
    weights = weights**2 + 0.1
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    alphas = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
    losses = np.zeros(len(alphas))
    for train, test in folds.split(X, labels):
        for index, alpha in enumerate(alphas):
            model = LogisticRegression(C=1 / alpha, tol=1e-8)
            model.fit(X[train], labels[train], weights[train])
            chances = model.predict_proba(X[test])
            losses[index] += log_loss(
                labels[test], chances, sample_weight=weights[test], normalize=False
            )
    fitted = TunedLogistic(alphas, tol=1e-6).fit(X, labels, weights)
    assert fitted.alpha_ == alphas[np.argmin(losses)]


@pytest.mark.parametrize("cls", [TunedRidge, TunedKernelRidge])
def test_groups_of_single_rows_equal_leaving_out_rows(cls):
    X, y, _, _ = rows()
    first = cls().fit(X, y)
    second = cls().fit(X, y, groups=np.arange(len(y)))
    assert first.alpha_ == second.alpha_
    assert first.predict(X) == pytest.approx(second.predict(X))


@pytest.mark.parametrize("cls", [TunedRidge, TunedKernelRidge])
def test_repeated_rows_need_a_strong_penalty_once_groups_are_known(cls):
    X, y, _, groups = repeats()
    alphas = [1e-4, 1e5]
    assert cls(alphas).fit(X, y).alpha_ == 1e-4
    assert cls(alphas).fit(X, y, groups=groups).alpha_ >= 1e5


def test_the_strength_of_logistic_regression_is_selected_on_other_groups():
    X, y, _, groups = repeats()
    labels = np.where(y > 0, "yes", "no")
    alphas = [1e-3, 1.0, 1e3]
    assert TunedLogistic(alphas).fit(X, labels).alpha_ <= 1.0
    assert TunedLogistic(alphas).fit(X, labels, groups=groups).alpha_ == 1e3


@pytest.mark.parametrize(
    ("model", "expected"), [(TunedRidge(), 1.0), (TunedLogistic(), 1.0)]
)
def test_a_single_group_gets_the_middle_strength(model, expected):
    X, y, _, _ = rows(labels=True)
    assert model.fit(X, y, groups=np.zeros(len(y))).alpha_ == expected


def test_the_path_is_cross_validated_on_other_groups():
    X, y, tasks, groups = repeats()
    free = TraceNormMTLCV(alphas=8, cv=4).fit(X, y, task_id=tasks)
    kept = TraceNormMTLCV(alphas=8, cv=4).fit(X, y, task_id=tasks, groups=groups)
    assert kept.alpha_ > free.alpha_
    assert kept.scores_path_.mean(axis=1).min() > free.scores_path_.mean(axis=1).min()


class SeenGroups(ClassifierMixin, BaseEstimator):
    """Scores the second column and records the groups, which are in the first."""

    parts = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.parts.append(set(X[:, 0]))
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 1]


def test_calibration_counts_a_weight_of_k_as_k_rows():
    X, y, _, weights = rows(labels=True)
    model = CalibratedTasks(SeenGroups()).fit(X, y, sample_weight=weights)
    again = np.repeat(np.arange(len(y)), weights.astype(int))
    # The scores are the second column, whatever the rows that were fitted.
    sigmoid = LogisticRegression(C=1e6).fit(X[again][:, [1]], y[again])
    assert model.slope_ == pytest.approx(sigmoid.coef_[0, 0], rel=1e-3)
    assert model.offset_ == pytest.approx(sigmoid.intercept_[0], rel=1e-3)


def test_probabilities_are_calibrated_on_rows_of_other_groups():
    X, y, _, groups = repeats()
    X[:, 0] = groups
    SeenGroups.parts.clear()
    model = CalibratedTasks(SeenGroups())
    model.fit(X, np.where(y > 0, 1.0, -1.0), groups=groups)
    *folds, last = SeenGroups.parts
    left_out = [last - part for part in folds]
    assert last == set(range(24))
    assert [len(part) for part in left_out] == [8, 8, 8]
    assert set.union(*left_out) == last


@pytest.mark.parametrize(
    "wrapper",
    [
        PerTask(TunedRidge([1e-4, 100.0])),
        ScaledTargets(TunedRidge([1e-4, 100.0])),
        ScaledTargets(PerTask(TunedRidge([1e-4, 100.0]))),
        TaskFeature(TunedRidge([1e-4, 100.0])),
        ScaledTargets(TaskFeature(TunedRidge([1e-4, 100.0]))),
    ],
)
def test_wrappers_pass_groups_on(wrapper):
    X, y, tasks, groups = repeats()

    def strengths(**more):
        model = wrapper.fit(X, y, task_id=tasks, **more)
        while hasattr(model, "estimator_"):
            model = model.estimator_
        return [
            task_model.alpha_ for task_model in getattr(model, "estimators_", [model])
        ]

    assert set(strengths()) == {1e-4}
    assert set(strengths(groups=groups)) == {100.0}


class CheckedGroups(TunedRidge):
    """Ridge regression whose first column has to contain the groups."""

    def fit(self, X, y, sample_weight=None, groups=None):
        assert np.array_equal(X[:, 0], groups)
        return super().fit(X, y, sample_weight, groups)


@pytest.mark.parametrize("wrapper", [PerTask, TaskFeature])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_row_keeps_its_group(wrapper, weighted):
    X, y, tasks, groups = repeats()
    X = np.column_stack([groups, X])
    more = {}
    if weighted:
        more["sample_weight"] = np.where(groups % 3 == 0, 0.0, 1.0)
    shuffled = np.random.default_rng(0).permutation(len(y))
    more = {name: values[shuffled] for name, values in more.items()}
    wrapper(CheckedGroups()).fit(
        X[shuffled],
        y[shuffled],
        task_id=tasks[shuffled],
        groups=groups[shuffled],
        **more,
    )


def test_each_target_of_shared_rows_keeps_the_group_of_its_row():
    X, y, _, groups = repeats()
    X = np.column_stack([groups, X])
    Y = np.column_stack([y, -y])
    Y[:7, 0] = np.nan
    TaskFeature(CheckedGroups()).fit(X, Y, groups=groups)


def test_early_stopping_of_networks_holds_out_groups():
    from mtlrun.problem.taskdata import TaskData
    from mtlrun.solvers.relationship.network import held_out_groups

    X, y, tasks, groups = repeats()
    data = TaskData.from_stacked(X, y, tasks)
    ordered = groups if data.order is None else groups[data.order]
    kept, held = held_out_groups(data, ordered, seed=0)
    assert not set(ordered[kept]) & set(ordered[held])
    assert 0 < len(held) <= 0.2 * len(y)


@pytest.mark.parametrize("model", [PerTask(TunedRidge()), TraceNormMTLCV(alphas=3)])
@pytest.mark.parametrize("wrong", ["short", "missing"])
def test_groups_that_do_not_match_the_rows_are_rejected(model, wrong):
    X, y, tasks, groups = repeats()
    names = groups.astype(object)
    if wrong == "short":
        names = names[1:]
    else:
        names[3] = None
    with pytest.raises(ValueError, match="groups"):
        model.fit(X, y, task_id=tasks, groups=names)


def test_groups_of_rows_of_weight_0_are_dropped_with_them():
    X, y, tasks, groups = repeats()
    weights = np.where(groups < 4, 0.0, 1.0)
    used = groups >= 4
    model = PerTask(TunedRidge())
    expected = model.fit(X[used], y[used], task_id=tasks[used], groups=groups[used])
    alphas = [task_model.alpha_ for task_model in expected.estimators_]
    fitted = model.fit(X, y, task_id=tasks, sample_weight=weights, groups=groups)
    assert [task_model.alpha_ for task_model in fitted.estimators_] == alphas
    assert len(list(group_folds(groups[used], np.ones((200, 1)), y[used], 30, 0))) == 20
