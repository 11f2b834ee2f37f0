"""Numbers of the pictures of a comparison, from arrays made by hand."""

import math
import re

import numpy as np
import pytest

from mtlrun.comparison.evaluation import ERROR_RATE, Evaluation
from mtlrun.comparison.gain import RowIndex
from mtlrun.comparison.gallery import (
    MAX_PANELS,
    MAX_POINTS,
    MAX_TASK_LINES,
    ComparisonPictures,
)
from mtlrun.comparison.predictions import HeldOutPredictions, held_out_predictions
from mtlrun.comparison.verdict import MULTITASK, Strategy
from mtlrun.show.pictures import (
    MAX_SHRINKAGE_ROWS,
    N_EXTREMES,
    Interval,
    ListPicture,
    Shrinkage,
    ShrinkagePicture,
)
from mtlrun.show.quantities import NMSE


def gain_of(task, value, half=0.1):
    return Interval(f"task {task}", value, value - half, value + half)


def pictures(n_tasks, **numbers):
    """Return pictures of tasks that gain less and less, and have more and more rows."""
    defaults = {
        "title": "grades",
        "measure": NMSE,
        "metric": "nmse",
        "smallest": 0.01,
        "gains": [],
        "baseline": "separate",
        "task_gains": [gain_of(t, 0.5 - t / n_tasks) for t in range(n_tasks)],
        "tasks": [f"task {t}" for t in range(n_tasks)],
        "sizes": [10 + t for t in range(n_tasks)],
        "methods": ["A", "B"],
        "reference": "R",
        "method_gains": [],
        "matrix": [[t / 100, -t / 100] for t in range(n_tasks)],
    }
    return ComparisonPictures(**{**defaults, **numbers})


def held_out(tasks, observed, **predicted):
    tasks = np.asarray(tasks)
    predicted = {name.replace("_", "-"): values for name, values in predicted.items()}
    return HeldOutPredictions(np.arange(len(tasks)), tasks, observed, predicted)


def test_an_interval_that_touches_zero_has_a_clearness_of_one():
    assert gain_of(0, 0.1).clearness == pytest.approx(1.0)
    assert gain_of(0, -0.3).clearness == pytest.approx(-3.0)


def test_tasks_without_a_gain_leave_the_sizes_of_the_others_in_place():
    gains = [None, gain_of(1, 0.2), gain_of(2, 0.1)]
    picture = pictures(3, task_gains=gains).gains_by_rows()
    assert picture.sizes == [11, 12]


def test_tasks_with_less_error_are_counted_whether_or_not_it_is_clear():
    gains = [gain_of(0, 0.3), gain_of(1, 0.01), gain_of(2, 0.0), gain_of(3, -0.02)]
    gallery = pictures(4, task_gains=gains)
    (sentence,) = gallery.task_sentences()
    assert sentence.startswith("2 of 4 tasks")
    assert "2 of 4" in gallery.gains_by_rows().alt


def test_rows_of_the_heat_map_are_those_of_the_named_tasks():
    picture = pictures(5).heat_map(["task 3", "task 1"])
    assert picture.tasks == ["task 3", "task 1"]
    assert picture.values == [[0.03, -0.03], [0.01, -0.01]]


def test_without_gains_the_heat_map_has_the_largest_tasks():
    n_tasks = MAX_TASK_LINES + 5
    picture = pictures(n_tasks, task_gains=[None] * n_tasks).heat_map()
    assert picture.tasks[0] == f"task {n_tasks - 1}"
    assert picture.tasks[-1] == "task 5"


def test_a_gain_of_zero_is_no_gain_of_a_method():
    values = [[0.0, 0.1], [0.2, 0.1], [math.nan, 0.1]]
    picture = pictures(3, matrix=values).heat_map()
    assert "A 1, B 3" in picture.alt


def arrows_of(n_tasks):
    arrows = [Shrinkage(f"task {t}", float(t), t + t / 10) for t in range(n_tasks)]
    return ShrinkagePicture("Means", "grade", arrows, "Estimates.")


def test_each_task_has_a_row_from_the_largest_estimate_down():
    rows = arrows_of(MAX_SHRINKAGE_ROWS).rows
    assert [row.name for row in rows] == [
        f"task {t}" for t in reversed(range(MAX_SHRINKAGE_ROWS))
    ]


def test_the_largest_changes_in_words_are_those_up_and_down():
    arrows = [Shrinkage("up", 1.0, 2.0), Shrinkage("down", 9.0, 3.0)]
    arrows += [Shrinkage(f"same {k}", 5.0, 5.0) for k in range(20)]
    picture = ShrinkagePicture("Means", "grade", arrows, "Estimates.")
    assert picture.alt.index("down 9 to 3") < picture.alt.index("up 1 to 2")


def test_only_losses_whose_interval_is_below_zero_are_called_clear():
    gains = [gain_of(0, 0.2), gain_of(1, -0.2), gain_of(2, -0.05), gain_of(3, 0.05)]
    picture = ListPicture("Gains", "gain", NMSE, gains, 0.01)
    clear_gains, clear_losses = picture.alt.split(".")[1:3]
    assert re.findall("task .", clear_gains) == ["task 0"]
    assert re.findall("task .", clear_losses) == ["task 1"]


def test_of_many_tasks_the_extremes_have_rows_and_the_caption_counts_all():
    picture = arrows_of(200)
    highest = [f"task {t}" for t in range(199, 199 - N_EXTREMES, -1)]
    lowest = [f"task {t}" for t in reversed(range(N_EXTREMES))]
    assert [row.name for row in picture.rows] == highest + lowest
    assert "200 tasks" in picture.caption


def test_the_heat_map_leaves_the_trivial_method_out_and_scales_by_multi_task_methods():
    picture = pictures(
        2, methods=["GraphMTL", "TaskMean"], matrix=[[0.1, -5.0], [0.2, -4.0]]
    ).heat_map()
    assert picture.methods == ["GraphMTL"]
    assert picture.values == [[0.1], [0.2]]
    assert picture.scaled_by == ["GraphMTL"]


def test_panels_show_clear_gains_and_losses_and_the_largest_of_the_other_tasks():
    n_tasks = 20
    # The last task has no tested rows.
    tasks = np.repeat(np.arange(n_tasks - 1), 10)
    values = np.random.default_rng(0).normal(size=len(tasks))
    rows = held_out(tasks, values, multi_task=values)
    picture = pictures(n_tasks, held_out=rows).predictions()
    names = {panel.name for panel in picture.panels}
    # Tasks 0 to 3 have the largest gains and 15 to 18 the smallest ones. Of the others,
    # the last ones have the most rows.
    shown = [0, 1, 2, 3, 11, 12, 13, 14, 15, 16, 17, 18]
    assert names == {f"task {t}" for t in shown}
    assert f"{MAX_PANELS} of {n_tasks - 1} tasks" in picture.caption


def test_a_large_panel_has_points_of_rows_that_are_evenly_spaced():
    n = 3 * MAX_POINTS
    observed = np.arange(n, dtype=float)
    rows = held_out(np.zeros(n, dtype=int), observed, multi_task=2 * observed)
    (panel,) = pictures(1, held_out=rows).predictions().panels
    assert panel.y == observed[::3].tolist()
    assert panel.x == (2 * observed[::3]).tolist()


def test_the_spread_of_targets_on_the_same_rows_is_a_share_of_the_observed_one():
    observed = np.array([0.0, 4.0, 0.0, 4.0])
    rows = held_out(
        np.zeros(4, dtype=int),
        observed,
        separate=observed / 2,
        multi_task=observed / 4,
    )
    picture = pictures(1, held_out=rows, has_shared_rows=True).shrinkage()
    (arrow,) = picture.arrows
    assert (arrow.separate, arrow.multitask) == (0.5, 0.25)


def test_the_distance_from_the_diagonal_is_a_mean_over_the_rows():
    # Nine rows of probability 0.25 without a positive one, one row of 0.75 that is.
    scores = np.log([1 / 3] * 9 + [3.0])
    observed = np.array([-1.0] * 9 + [1.0])
    rows = held_out(np.zeros(10, dtype=int), observed, multi_task=scores)
    numbers = {"held_out": rows, "has_labels": True, "measure": ERROR_RATE}
    picture = pictures(1, **numbers).calibration()
    (points,) = picture.curves.values()
    np.testing.assert_allclose(points, [(0.25, 0.0, 9), (0.75, 1.0, 1)])
    assert re.search(r"multi-task 0\.250", picture.alt)


def test_a_row_of_a_new_task_has_the_prediction_of_the_split_that_knows_its_task():
    evaluation = Evaluation(
        y=np.array([1.0, 2.0]),
        row_index=RowIndex(2, np.array([0, 1])),
        rows=[np.array([0, 1]), np.array([1])],
        new=[np.array([False, True]), np.array([False])],
        n_folds=2,
        n_repeats=1,
        measure=NMSE,
        smallest=0.01,
    )
    scores = {0: np.array([10.0, 11.0]), 1: np.array([21.0])}
    strategy = Strategy({0: "A", 1: "A"}, {})
    rows = held_out_predictions(
        evaluation, {MULTITASK: strategy}, lambda _, split: scores[split]
    )
    assert rows.predicted["multi-task"].tolist() == [10.0, 21.0]
