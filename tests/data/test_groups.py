"""Folds and splits that keep groups together."""

import numpy as np
import pytest

from mtlrun.data.dataset import Dataset
from mtlrun.data.groups import group_folds, group_split, strata_of
from mtlrun.data.splits import GROUP, fewer_rows, fold_rows, split_rows, time_folds
from mtlrun.errors import DataError


def patients(n_clinics=10, seed=0):
    """Return five patients in each clinic with six visits each."""
    clinic = np.repeat(np.arange(n_clinics), 30)
    patient = np.repeat(np.arange(5 * n_clinics), 6)
    y = np.random.default_rng(seed).normal(size=len(clinic))
    return clinic, patient, y


def days(n=240, seed=0):
    """Return rows of four shops on thirty days on which all were open."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, n), rng.integers(0, 30, n), rng.normal(size=n)


def folds_of(tasks, groups, y, n_folds=5, seed=0, labels=False):
    strata = strata_of(y, tasks, labels=labels)
    return list(group_folds(groups, strata, y, n_folds, seed))


def dataset(tasks, groups, y):
    return Dataset(
        X=np.zeros((len(y), 1)),
        y=y,
        task_type="regression",
        task_id=tasks,
        source={GROUP: groups},
    )


@pytest.mark.parametrize("table", [patients, days])
def test_rows_of_a_group_are_in_one_fold_and_every_row_is_tested_once(table):
    tasks, groups, y = table()
    folds = folds_of(tasks, groups, y)
    for train, test in folds:
        assert not set(groups[train]) & set(groups[test])
    tested = np.concatenate([test for _, test in folds])
    assert sorted(tested) == list(range(len(y)))


@pytest.mark.parametrize("seed", range(5))
def test_every_fold_has_a_patient_of_every_clinic(seed):
    tasks, groups, y = patients()
    for _, test in folds_of(tasks, groups, y, seed=seed):
        assert np.bincount(tasks[test]).tolist() == [6] * 10


def test_folds_of_groups_that_cross_tasks_are_balanced():
    tasks, groups, y = days()
    for _, test in folds_of(tasks, groups, y):
        assert 38 <= len(test) <= 58
        assert np.bincount(tasks[test], minlength=4).min() >= 5


def test_folds_have_both_labels_of_every_task_if_groups_allow_it():
    tasks, groups, _ = patients()
    y = np.where(groups % 5 < 2, 1.0, -1.0)
    for train, _ in folds_of(tasks, groups, y, n_folds=2, labels=True):
        for task in range(10):
            assert len(np.unique(y[train][tasks[train] == task])) == 2


@pytest.mark.parametrize("table", [patients, days])
def test_folds_depend_on_the_seed_but_not_on_the_order_or_names_of_rows(table):
    tasks, groups, y = table()
    order = np.random.default_rng(1).permutation(len(y))
    renamed = np.array([f"g{997 * g % 1009}" for g in groups])
    other_tasks = np.array([f"t{(7 * t + 3) % 11}" for t in tasks])
    folds = [set(test) for _, test in folds_of(tasks, groups, y)]
    shuffled = folds_of(other_tasks[order], renamed[order], y[order])
    assert [set(order[test]) for _, test in shuffled] == folds
    assert [set(test) for _, test in folds_of(tasks, groups, y, seed=1)] != folds


def test_groups_of_different_sizes_are_reassigned_by_each_seed():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), np.arange(10, 50))
    y = rng.normal(size=len(groups))
    tasks = np.zeros(len(groups), dtype=int)
    folds = {
        frozenset(folds_of(tasks, groups, y, seed=seed)[0][1]) for seed in range(5)
    }
    assert len(folds) == 5
    sizes = [len(test) for _, test in folds_of(tasks, groups, y)]
    assert max(sizes) < 1.2 * min(sizes)


def test_few_groups_give_few_folds_and_a_single_group_is_rejected():
    y = np.arange(6.0)
    groups = np.array([0, 0, 1, 1, 2, 2])
    assert len(folds_of(None, groups, y)) == 3
    with pytest.raises(DataError) as error:
        folds_of(None, np.zeros(6), y)
    assert "two groups" in error.value.remedy


def test_a_random_split_keeps_groups_together_and_leaves_training_rows_in_every_task():
    tasks, groups, y = patients()
    for seed in range(3):
        train, _, test = split_rows(
            dataset(tasks, groups, y), "random", trial=0, seed=seed, train=0.6
        )
        assert not set(groups[train]) & set(groups[test])
        assert len(train) == 180
        assert set(tasks[train]) == set(tasks)


def test_a_task_with_a_single_group_is_only_in_training():
    groups = np.repeat(np.arange(6), 5)
    tasks = np.where(groups == 3, 1, 0)
    y = np.random.default_rng(0).normal(size=30)
    for seed in range(5):
        strata = strata_of(y, tasks, labels=False)
        train, test = group_split(groups, strata, y, 0.5, seed)
        assert 3 in groups[train]
        assert len(test) > 0


def test_validation_rows_are_separate_groups():
    tasks, groups, y = patients()
    parts = split_rows(
        dataset(tasks, groups, y), "random", trial=0, seed=0, train=0.4, validation=0.2
    )
    seen = [set(groups[rows]) for rows in parts]
    assert [len(rows) for rows in parts] == [120, 60, 120]
    assert not (seen[0] & seen[1])
    assert not (seen[0] & seen[2])
    assert not (seen[1] & seen[2])


def test_a_subset_of_the_rows_of_a_task_comes_from_all_its_groups():
    tasks, groups, y = patients()
    data = dataset(tasks, groups, y)
    some = fewer_rows(data, np.arange(len(y)), 0.2, seed=0)
    fewer = fewer_rows(data, np.arange(len(y)), 0.5, seed=0)
    assert np.bincount(tasks[some]).tolist() == [6] * 10
    assert len(np.unique(groups[some])) == 50
    assert set(some) < set(fewer)


def test_a_balanced_split_cannot_keep_groups_together():
    with pytest.raises(DataError) as error:
        split_rows(dataset(*patients()), "balanced", trial=0, seed=0, train=0.5)
    assert "kfold" in error.value.remedy


def test_folds_of_a_data_set_with_groups_distribute_each_task_over_all_folds():
    tasks, groups, y = patients()
    for _, test in fold_rows(dataset(tasks, groups, y), 5, 0):
        assert set(tasks[test]) == set(tasks)


def test_the_validation_fraction_refers_to_all_rows():
    n = 200
    rng = np.random.default_rng(0)
    data = Dataset(
        X=rng.normal(size=(n, 2)),
        y=rng.normal(size=n),
        task_type="regression",
        task_id=np.arange(n) % 2,
        tasks=["a", "b"],
        source={GROUP: np.arange(n)},
    )
    parts = split_rows(data, "random", trial=0, seed=1, train=0.5, validation=0.2)
    assert [len(part) for part in parts] == pytest.approx([100, 40, 60], abs=3)


def test_folds_in_time_are_tested_from_a_quantile_of_the_times_on():
    folds = [(a.tolist(), b.tolist()) for a, b in time_folds(np.arange(7), 3)]
    assert folds == [([0, 1], [2]), ([0, 1, 2], [3, 4]), ([0, 1, 2, 3, 4], [5, 6])]
