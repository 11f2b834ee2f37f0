"""The page of a training."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mtlrun.model.baseline import TrainingResult
from mtlrun.model.train import (
    MAX_FEATURES,
    largest_coefficients,
    prediction_figure,
    roc_figure,
    training_page,
)
from mtlrun.utils.io import read_fields

RESULT = {
    "id": "made",
    "method": "RidgeMTL",
    "dataset": "<made>",
    "params": {"alpha": 2.0},
    "selection": {},
    "metrics": {"mse": 0.25},
    "counts": {"n_tasks": 2, "undefined_mse": 0},
    "per_task": {"mse": [0.2, 0.3]},
    "seconds": {"fit": 0.5},
}


@pytest.fixture
def tested(rng):
    return [(f"task {t}", rng.normal(size=30), rng.normal(size=30)) for t in range(2)]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_scores_parameters_and_the_largest_coefficients_come_first(tested, rng):
    coef = rng.normal(size=(2, MAX_FEATURES + 5))
    coef[:, 3] = [-40, 20]
    names = [f"x{j}" for j in range(coef.shape[1])]
    page = training_page(
        read_fields(TrainingResult, RESULT),
        {"seed": 7},
        tested,
        (coef, names),
        regression=True,
    )
    words = [
        "&lt;made&gt;",
        "0.2000",
        "0.3000",
        "alpha",
        "seed",
        "task 1",
        '<img alt="Predictions of the test rows',
    ]
    assert [word for word in words if word not in page] == []
    shown = re.findall(r"<td>(x\d+)</td>", page)
    assert shown[0] == "x3"
    assert "30.0000" in page, "the mean of the absolute values"
    assert len(shown) == MAX_FEATURES


def test_few_tasks_have_separate_colors_and_many_share_one(tested, rng):
    assert [curve.label for curve in prediction_figure(tested).panels[0].curves] == [
        "task 0",
        "task 1",
    ]
    many = [(str(t), rng.normal(size=400), rng.normal(size=400)) for t in range(9)]
    figure = prediction_figure(many)
    assert [curve.label for curve in figure.panels[0].curves] == ["rows of all tasks"]
    assert len(figure.panels[0].curves[0].y) == 1200
    assert "one of 3" in figure.title


def test_the_area_under_the_roc_curve_matches_scikit_learn(rng):
    truth = np.where(rng.random(50) < 0.4, 1.0, -1.0)
    score = truth + 2 * rng.normal(size=50)
    alone = ("one class", np.ones(5), rng.normal(size=5))
    (curve,) = roc_figure([("a", truth, score), alone]).panels[0].curves
    assert np.trapezoid(curve.y, curve.x) == pytest.approx(roc_auc_score(truth, score))


def test_shared_weights_are_the_mean_and_others_are_differences_from_it():
    coef = np.array([[1.0, 5.0, 0.0], [3.0, 5.0, 0.0]])
    tested = [("north", np.zeros(2), np.zeros(2)), ("south", np.zeros(2), np.zeros(2))]
    _, (largest, differences) = largest_coefficients((coef, ["a", "b", "c"]), tested)
    assert {row["feature"]: row["shared (mean)"] for row in largest.records()} == {
        "a": 2.0,
        "b": 5.0,
        "c": 0.0,
    }
    assert differences.rows == [["north", "a -1"], ["south", "a +1"]]


def test_the_headline_compares_the_score_with_the_mean_of_the_task(tested):
    result = RESULT | {"baseline": {"metrics": {"mse": 1.0}}}
    page = training_page(
        read_fields(TrainingResult, result), {}, tested, None, regression=True
    )
    headline = re.search(r'<li class="good badge">(.*?)</li>', page)[1]
    assert "better than the mean" in headline
    assert "75% less" in headline
    # The table has the scores: they are not repeated above it.
    assert page.count("0.2500") == 1


def test_a_model_that_learned_nothing_has_a_red_headline(tested):
    result = RESULT | {"baseline": {"metrics": {"mse": 0.2}}}
    page = training_page(
        read_fields(TrainingResult, result), {}, tested, None, regression=True
    )
    (headline,) = re.findall(r'<li class="bad badge">(.*?)</li>', page)
    assert "worse than the mean" in headline
    assert "25% more" in headline
