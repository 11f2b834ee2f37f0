"""``mtlrun show MODEL`` explains how predictions are computed."""

import re

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

from mtlrun.estimators import (
    IndependentRidge,
    JointFeatureMTL,
    TaskFeature,
    TraceNormMTLClassifier,
)
from mtlrun.estimators.baselines import LastValue, ScaledTargets, TaskMean
from mtlrun.features.table import TableFeatures
from mtlrun.model.explanation import model_lines, prediction_lines
from mtlrun.model.fitted import Model

TASK = np.repeat([0, 1], 10)
RNG = np.random.default_rng(0)
COLUMNS = np.column_stack([RNG.normal(50, 10, size=20), RNG.normal(size=20)])


def model_of(estimator, y, *, step=None, task_type="regression", **facts):
    """Return a fitted model of two shops with the columns temperature and wind."""
    features = COLUMNS if step is None else step.fit_transform(COLUMNS)
    estimator.fit(features, y, task_id=TASK)
    details = {
        "task_type": task_type,
        "design": "ragged",
        "tasks": ["east", "west"],
        "input": {"n_features": 2, "names": ["temperature", "wind"]},
        "estimator": {"name": type(estimator).__name__},
    }
    return Model(estimator, step, details | facts)


def test_a_selected_task_mean_is_explained_in_the_units_of_the_target():
    y = np.where(TASK == 0, 200.0, 100.0) + np.tile([1.0, -1.0], 10)
    first, values = prediction_lines(model_of(ScaledTargets(TaskMean()), y))
    assert "of the task" in first
    assert values.split(", ") == ["  east 200", "west 100"]


def test_the_mean_of_labels_is_the_share_of_the_positive_one():
    y = np.where(np.arange(20) % 10 < np.where(TASK == 0, 3, 8), 1.0, -1.0)
    _, values = prediction_lines(model_of(TaskMean(), y, task_type="binary"))
    assert values.split(", ") == ["  east 0.3", "west 0.8"]


def test_the_last_value_is_described_as_such():
    (line,) = prediction_lines(model_of(LastValue(), np.arange(20.0)))
    assert "last value" in line


def test_the_printed_coefficients_give_the_prediction_of_a_row():
    step = TableFeatures()
    y = 5 + TASK + 0.3 * COLUMNS[:, 0] - 2 * COLUMNS[:, 1]
    model = model_of(IndependentRidge(1e-6), y, step=step)
    first, *lines = prediction_lines(model)
    intercept, *features = [line.strip() for line in lines]
    assert "standardized" in first
    assert intercept.startswith("intercept: ")
    mean, std = COLUMNS.mean(axis=0), COLUMNS.std(axis=0)
    level = 5.5 + 0.3 * mean[0] - 2 * mean[1]
    # Levels of the two shops differ by 1.
    assert float(intercept.split()[1]) == pytest.approx(level - 0.5, rel=5e-3)
    pattern = r"(\w+) \(per (\S+)\): (\S+)"
    matches = [re.match(pattern, line).groups() for line in features]
    printed = {name: float(value) for name, _, value in matches}
    steps = {name: float(step) for name, step, _ in matches}
    assert steps["wind"] == pytest.approx(std[1], rel=5e-3)
    assert printed["temperature"] == pytest.approx(0.3 * std[0], rel=5e-3)
    assert printed["wind"] == pytest.approx(-2 * std[1], rel=5e-3)


def test_features_without_coefficients_are_not_listed():
    y = 0.3 * COLUMNS[:, 0]
    model = model_of(JointFeatureMTL(40), y)
    lines = prediction_lines(model)
    assert any(line.startswith("  temperature") for line in lines)
    assert not any(line.startswith("  wind") for line in lines)
    assert lines[-1] == "  and 1 feature with smaller coefficients"


def test_features_are_ranked_within_tasks_and_many_tasks_have_a_range_and_a_median():
    sizes = np.arange(7.0)
    # The units of the first target are much smaller than those of the others.
    coef = np.vstack([1000 * sizes[::-1], np.outer([1, 2, 3, -4], sizes)])
    estimator = IndependentRidge()
    estimator.coef_ = coef
    estimator.intercept_ = np.zeros(5)
    columns = {"n_features": 7, "names": list("abcdefg")}
    details = {
        "task_type": "regression",
        "design": "shared",
        "tasks": [f"t{k}" for k in range(5)],
        "input": columns,
        "estimator": {"name": "IndependentRidge"},
    }
    _, intercept, *lines, rest = prediction_lines(Model(estimator, None, details))
    assert "0 in every task" in intercept
    assert [line.split(":")[0].strip() for line in lines] == list("gfedc")
    for word in ("-24 (t4)", "18 (t3)", "median 6"):
        assert word in lines[0]
    assert "-20 (t4)" in lines[1]
    assert "2 features" in rest


def test_of_many_means_those_of_the_first_tasks_are_listed():
    tasks = np.arange(12)
    estimator = TaskMean().fit(np.zeros((12, 1)), 2.0 * tasks, task_id=tasks)
    details = {
        "task_type": "regression",
        "design": "ragged",
        "tasks": [f"t{k}" for k in tasks],
        "input": {"n_features": 1, "names": ["x"]},
        "estimator": {"name": "TaskMean"},
    }
    _, values = prediction_lines(Model(estimator, None, details))
    expected = [f"t{k} {2 * k}" for k in range(10)]
    assert values.strip().split(", ") == [*expected, "and 2 more"]


def test_coefficients_of_labels_are_log_odds():
    y = np.where(COLUMNS[:, 1] > 0, 1.0, -1.0)
    model = model_of(TraceNormMTLClassifier(10), y, task_type="binary")
    assert prediction_lines(model)[0].startswith("log-odds")


def test_the_scale_of_transformed_targets_is_named():
    model = model_of(TaskMean(), np.exp(COLUMNS[:, 1]), transform="log")
    assert "scale of log" in prediction_lines(model)[1]


def test_a_compared_model_starts_with_the_name_of_its_method():
    config = {"title": "IndependentRidge on shops.csv"}
    model = model_of(IndependentRidge(), COLUMNS[:, 0], config=config)
    assert model_lines(model)[0] == "IndependentRidge on shops.csv"


def test_one_linear_model_with_the_task_as_a_column_shows_its_coefficients():
    model = model_of(TaskFeature(Ridge()), COLUMNS[:, 0])
    lines = prediction_lines(model)
    assert any("intercept" in line for line in lines)
    assert any("in every task" in line for line in lines)


def test_a_forest_is_not_called_by_the_name_of_its_trees():
    forest = TaskFeature(RandomForestRegressor(n_estimators=2, random_state=0))
    lines = model_lines(model_of(forest, COLUMNS[:, 0]))
    assert lines[0] == "method: RandomForestRegressor (regression)"
