"""Scores of a trained model are reported next to those of the mean of each task."""

from __future__ import annotations

import numpy as np
import pytest
from all_cases import all_cases
from sklearn.metrics import accuracy_score, mean_squared_error, r2_score

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import WEIGHT
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.job import Scoring
from mtlrun.engine.record import SearchResult
from mtlrun.model.baseline import (
    BETTER,
    EQUAL,
    WORSE,
    TrainingResult,
    baseline_scores,
    baseline_warnings,
    compare_with_baseline,
    score_table,
    search_panels,
    task_table,
)
from mtlrun.model.train import training_page
from mtlrun.utils.io import read_fields

TRAIN, TEST = np.arange(0, 24, 2), np.arange(1, 24, 2)
RESULT = {
    "id": "train/made",
    "method": "package.module:Model",
    "dataset": "own-made",
    "params": {},
    "selection": {
        "metric": "nmse",
        "score": 1.05,
        "chosen": {"alpha": 10.0},
        "edges": {},
        "grid": {"alpha": [1.0, 10.0, 100.0], "loss": ["squared"]},
        "means": [1.2, 1.05, 1.1],
    },
    "metrics": {"rmse": 2.0, "r2": 0.3},
    "baseline": {
        "metrics": {"rmse": 1.5, "r2": -0.1},
        "per_task": {"rmse": [1.0, 2.0], "r2": [-0.1, -0.1]},
    },
    "counts": {"n_tasks": 2, "undefined_rmse": 0, "undefined_r2": 0},
    "per_task": {"rmse": [0.5, 2.5], "r2": [0.2, 0.4]},
    "seconds": {"fit": 0.5},
}
TESTED = [("north", np.arange(3.0), np.ones(3)), ("south", np.arange(4.0), np.ones(4))]


def scores_of(metrics, **fields):
    dataset = Dataset(X=np.zeros((24, 1)), id="made", **fields)
    part = TrainTestData.of(dataset, TRAIN, TEST)
    return part, baseline_scores(part, Scoring(metrics=metrics))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_the_baseline_of_numbers_is_the_training_mean_of_each_task(rng):
    y = rng.normal(size=24) + np.repeat([5.0, -5.0], 12)
    task = np.repeat([0, 1], 12)
    _, scores = scores_of(("mse", "r2"), y=y, task_id=task, task_type="regression")
    for t in (0, 1):
        truth = y[TEST][task[TEST] == t]
        mean = np.full(len(truth), y[TRAIN][task[TRAIN] == t].mean())
        per_task = scores["per_task"]
        assert per_task["mse"][t] == pytest.approx(mean_squared_error(truth, mean))
        assert per_task["r2"][t] == pytest.approx(r2_score(truth, mean))
    assert scores["metrics"]["mse"] == pytest.approx(np.mean(scores["per_task"]["mse"]))


def test_the_baseline_is_the_weighted_mean(rng):
    y = rng.normal(size=24)
    weights = rng.uniform(1, 9, size=24)
    _, scores = scores_of(
        ("mse",), y=y, task_type="regression", source={WEIGHT: weights}
    )
    mean = np.average(y[TRAIN], weights=weights[TRAIN])
    expected = np.average((y[TEST] - mean) ** 2, weights=weights[TEST])
    assert scores["metrics"]["mse"] == pytest.approx(expected)


def test_missing_values_of_several_targets_are_left_out_of_the_mean(rng):
    y = rng.normal(size=(24, 2))
    y[TRAIN[:8], 1] = np.nan
    _, scores = scores_of(("mse",), y=y, task_type="regression")
    mean = y[TRAIN[8:], 1].mean()
    expected = np.mean((y[TEST, 1] - mean) ** 2)
    assert scores["per_task"]["mse"][1] == pytest.approx(expected)


def test_a_single_task_has_one_mean(rng):
    y = rng.normal(size=24)
    _, scores = scores_of(("mse",), y=y, task_type="regression")
    expected = np.mean((y[TEST] - y[TRAIN].mean()) ** 2)
    assert scores["metrics"]["mse"] == pytest.approx(expected)


def test_the_baseline_of_labels_is_the_larger_class_with_chance_level(rng):
    y = np.where(np.arange(24) % 6 < 4, 1.0, -1.0)
    _, scores = scores_of(
        ("accuracy", "balanced_accuracy", "auc", "log_loss"), y=y, task_type="binary"
    )
    share = (y[TRAIN] == 1).mean()
    assert share > 0.5
    metrics = scores["metrics"]
    assert metrics["accuracy"] == accuracy_score(y[TEST], np.ones(12))
    assert (metrics["balanced_accuracy"], metrics["auc"]) == (0.5, 0.5)
    positive = (y[TEST] == 1).mean()
    expected = -positive * np.log(share) - (1 - positive) * np.log(1 - share)
    assert metrics["log_loss"] == pytest.approx(expected)


def test_a_task_without_training_rows_gets_the_mean_of_all_tasks(rng):
    y = rng.normal(size=24)
    task = np.zeros(24, dtype=int)
    task[TEST[-4:]] = 1
    _, scores = scores_of(
        ("mse",), y=y, task_id=task, task_type="regression", tasks=["a", "b"]
    )
    expected = np.mean((y[TEST[-4:]] - y[TRAIN].mean()) ** 2)
    assert scores["per_task"]["mse"][1] == pytest.approx(expected)


def test_more_than_two_classes_have_no_baseline():
    y = np.arange(24.0) % 3
    assert scores_of(("accuracy",), y=y, task_type="multiclass")[1] == {}


@all_cases(
    ("metric", "score", "baseline", "verdict"),
    [
        ("nmse", 1.05, 1.0, WORSE),
        ("nmse", 0.95, 1.0, BETTER),
        ("r2", 0.1, 0.0, BETTER),
        ("auc", 0.4, 0.5, WORSE),
        ("auc", 0.5, 0.5, EQUAL),
        ("auc", float("nan"), 0.5, ""),
    ],
)
def test_the_direction_of_a_metric_decides(metric, score, baseline, verdict):
    assert compare_with_baseline(metric, score, baseline) == verdict


def test_each_worse_score_is_reported_with_both_numbers():
    lines = baseline_warnings(read_fields(TrainingResult, RESULT))
    assert len(lines) == 2
    assert all("worse than the mean of the task" in line for line in lines)
    assert ("1.05" in lines[0], "(1)" in lines[0]) == (True, True)
    assert ("2" in lines[1], "(1.5)" in lines[1]) == (True, True)


def test_results_of_earlier_versions_have_only_scores_with_a_known_baseline():
    earlier = {name: value for name, value in RESULT.items() if name != "baseline"}
    earlier = read_fields(TrainingResult, earlier)
    assert len(baseline_warnings(earlier)) == 1
    rows = {row[0]: row[2:] for row in score_table(earlier).rows}
    assert rows["RMSE of the test rows"] == [None, None]
    assert rows["R² of the test rows"] == [0.0, BETTER]
    assert "verdict" not in [
        column.name for column in task_table(earlier, TESTED).columns
    ]


def test_every_score_has_its_baseline_next_to_it():
    table = score_table(read_fields(TrainingResult, RESULT))
    assert [row[1:] for row in table.rows] == [
        [1.05, 1.0, WORSE],
        [2.0, 1.5, WORSE],
        [0.3, -0.1, BETTER],
    ]
    (north, south) = task_table(read_fields(TrainingResult, RESULT), TESTED).rows
    assert north == ["north", 3, 0.5, 1.0, 0.2, -0.1, BETTER]
    assert south[-1] == WORSE


def test_the_page_marks_worse_scores_in_red():
    page = training_page(
        read_fields(TrainingResult, RESULT), {}, TESTED, None, regression=True
    )
    assert page.count('<li class="bad badge">') == 2
    assert '<li class="bad badge">cross-validated normalized MSE 1.05: worse' in page
    assert "<h1>Model on made</h1>" in page, "neither a class path nor a prefix of ours"


def test_the_selected_value_is_a_point_on_the_path():
    (panel,) = search_panels(SearchResult(**RESULT["selection"]))
    path, baseline, selected = panel.curves
    assert (path.x, path.y) == ([1.0, 10.0, 100.0], [1.2, 1.05, 1.1])
    assert (selected.x, selected.y, selected.points) == ([10.0], [1.05], "filled")
    assert set(baseline.y) == {1.0}
    assert search_panels(SearchResult()) == []
