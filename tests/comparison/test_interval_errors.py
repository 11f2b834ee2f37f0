"""Errors on held-out rows, from which prediction intervals are made."""

import numpy as np
import pytest

from mtlrun.comparison.evaluation import NMSE, Evaluation
from mtlrun.comparison.gain import RowIndex
from mtlrun.comparison.interval_errors import errors_of_folds, interval_facts
from mtlrun.data.dataset import Dataset
from mtlrun.model.intervals import Errors


def test_rows_of_tasks_without_training_rows_do_not_calibrate_known_tasks():
    # Task 2 has all its rows in the second fold, so no model has seen it there.
    task_id = np.array([0, 0, 1, 1, 0, 1, 2, 2])
    y = np.arange(8.0)
    rows = [np.array([0, 2]), np.array([1, 3, 6, 7])]
    new = [task_id[part] == 2 for part in rows]
    evaluation = Evaluation(
        y=y,
        row_index=RowIndex(3, task_id),
        rows=rows,
        new=new,
        n_folds=2,
        n_repeats=1,
        measure=NMSE,
        smallest=0.01,
    )
    predicted = {0: np.array([0.5, 1.5]), 1: np.array([1.0, 4.0, -50.0, 50.0])}
    errors = errors_of_folds(evaluation, predicted)
    np.testing.assert_array_equal(errors.values, [-0.5, 0.5, 0.0, -1.0])
    np.testing.assert_array_equal(errors.tasks, [0, 1, 0, 1])
    np.testing.assert_array_equal(errors.folds, [0, 0, 1, 1])


@pytest.mark.parametrize("n_rows", [15, 30])
def test_the_coverage_of_tasks_is_printed_and_stored(n_rows):
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(8), n_rows)
    values = rng.normal(size=8 * n_rows)
    y = np.zeros(8 * n_rows)
    dataset = Dataset(
        X=y[:, None], y=y, task_type="regression", task_id=tasks, tasks=list("abcdefgh")
    )
    errors = Errors(values, y, tasks, np.arange(8 * n_rows) % 5)
    facts, lines = interval_facts({"known": errors, "new": errors}, dataset)
    assert ("coverage_by_task" in facts) == (n_rows >= 20)
    assert ("worst task" in lines[0]) == (n_rows >= 20)
    assert "worst task" not in lines[1]
    if n_rows >= 20:
        by_task = facts["coverage_by_task"]
        assert by_task["worst"] < facts["coverage"]["known"] < by_task["best"]
        assert f"worst task {by_task['worst']:.1%}" in lines[0]
        assert f"{by_task['n_outside']} of 8 outside" in lines[0]
