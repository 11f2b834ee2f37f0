"""Errors on held-out rows, from which prediction intervals are made."""

from dataclasses import replace

import numpy as np
import pytest

from mtlrun.comparison.candidates import INDEPENDENT, Candidate
from mtlrun.comparison.evaluation import Evaluation
from mtlrun.comparison.gain import RowIndex
from mtlrun.comparison.predictions import (
    N_FOLDS,
    errors_of_folds,
    errors_of_refits,
    interval_facts,
)
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.schedule import ComparisonJobs
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import NEW_TASK, fold_rows
from mtlrun.engine.fit import prepare_rows
from mtlrun.engine.job import Split
from mtlrun.model.intervals import Errors
from mtlrun.show.quantities import NMSE


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


def two_tasks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=40)
    ids = np.repeat([0, 1], 20)
    return Dataset(X=X, y=y, task_type="regression", task_id=ids, id="two")


def refitted(seed, **params):
    """Return errors of a ridge regression without the rows of each fold, and its job."""
    data = two_tasks()
    protocol = Protocol(Split("kfold", folds=3), 3, 2, "rmse", seed)
    candidate = Candidate("IndependentRidge", INDEPENDENT, "IndependentRidge")
    job = ComparisonJobs(protocol, data).job(candidate, 0)
    return errors_of_refits(job, data, params, new_tasks=False), job


@pytest.mark.parametrize("seed", [0, 1])
def test_the_seed_of_a_comparison_draws_the_folds_of_its_refits(seed):
    errors, job = refitted(seed)
    folds = fold_rows(two_tasks(), N_FOLDS, job.split.seed)
    rows = np.concatenate([test for _, test in folds])
    np.testing.assert_allclose(errors.values + errors.predicted, two_tasks().y[rows])
    assert job.split.seed != refitted(seed + 1)[1].split.seed


@pytest.mark.parametrize("new_tasks", [False, True])
def test_refits_of_the_tested_folds_prepare_no_rows_again(new_tasks):
    prepared = []

    class Rows(Dataset):
        def subset(self, rows):
            prepared.append(rows)
            return super().subset(rows)

    options = vars(two_tasks())
    options |= {"task_id": np.repeat(np.arange(10), 4), "tasks": list("abcdefghij")}
    data = Rows(**options)
    if new_tasks:
        data = replace(data, source={NEW_TASK: data.task_id})
    protocol = Protocol(Split("kfold", folds=N_FOLDS), N_FOLDS, 2, "rmse", 0)
    jobs = ComparisonJobs(protocol, data)
    candidate = Candidate("IndependentRidge", INDEPENDENT, "IndependentRidge")
    for trial in range(N_FOLDS):
        job = jobs.job(candidate, trial)
        prepare_rows(job, data)
    prepared.clear()
    params = {"unseen": "mean"}
    errors = errors_of_refits(job, data, params, new_tasks=new_tasks)
    assert len(errors.values) == len(data.y)
    assert len(prepared) == 0
    # The other kind of tasks has other folds.
    errors_of_refits(job, data, params, new_tasks=not new_tasks)
    # Training and test rows of each fold
    assert len(prepared) == 2 * N_FOLDS


def test_refits_have_the_parameters_of_the_saved_model():
    errors, _ = refitted(0, alpha=1e9)
    # So strong a penalty leaves the mean of each task.
    assert all(
        np.ptp(errors.predicted[(errors.tasks == task) & (errors.folds == fold)]) < 1e-3
        for task in (0, 1)
        for fold in range(N_FOLDS)
    )


def test_the_line_about_intervals_has_their_number_of_test_targets():
    errors, _ = refitted(0)
    facts, (line,) = interval_facts({"known": errors}, two_tasks())
    share = facts["coverage"]["known"]
    assert f"{share:.1%} of 40 test targets" in line


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
