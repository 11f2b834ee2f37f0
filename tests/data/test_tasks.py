from __future__ import annotations

import re

import numpy as np
import pytest

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import paper_partition
from mtlrun.data.tasks import make_tasks
from mtlrun.errors import DataError, UnknownNameError, UserError


def multiclass(counts=(5, 3, 4), seed=0) -> Dataset:
    """Return rows whose only feature is their number, with shuffled classes."""
    y = np.random.default_rng(seed).permutation(
        np.repeat(np.arange(len(counts)), counts)
    )
    X = np.arange(len(y), dtype=float)[:, None]
    tasks = [chr(97 + k) for k in range(len(counts))]
    half = len(y) // 2
    splits = {"half": [(np.arange(half), np.arange(half, len(y)))]}
    return Dataset(
        X=X, y=y, task_type="multiclass", tasks=tasks, features=["row"], splits=splits
    )


def test_one_vs_one_is_ragged_with_the_rows_of_two_classes():
    data = multiclass()
    tasks = make_tasks(data, "one-vs-one")
    assert tasks.tasks == ["a/b", "a/c", "b/c"]
    assert tasks.task_type == "binary"
    assert np.bincount(tasks.task_id).tolist() == [8, 9, 7]
    for t, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = tasks.source["row"][tasks.task_id == t]
        np.testing.assert_array_equal(rows, np.flatnonzero(np.isin(data.y, (a, b))))
        np.testing.assert_array_equal(
            tasks.y[tasks.task_id == t], np.where(data.y[rows] == a, 1, -1)
        )
    np.testing.assert_array_equal(tasks.X[:, 0], tasks.source["row"])
    np.testing.assert_array_equal(tasks.source["label"], data.y[tasks.source["row"]])
    assert tasks.features == ["row"]


def test_pairs_determine_the_sign_and_the_order():
    data = multiclass()
    tasks = make_tasks(data, {"pairs": [("c", "a"), ("b", "c")]})
    assert tasks.tasks == ["c/a", "b/c"]
    first = tasks.task_id == 0
    np.testing.assert_array_equal(
        tasks.y[first], np.where(data.y[tasks.source["row"][first]] == 2, 1, -1)
    )


def test_one_vs_rest_shares_the_rows():
    data = multiclass()
    tasks = make_tasks(data, "one-vs-rest")
    assert tasks.shared
    assert tasks.y.shape == (12, 3)
    assert (tasks.y.sum(axis=1) == -1).all()
    np.testing.assert_array_equal(tasks.y.argmax(axis=1), data.y)
    assert tasks.taskdata().n_tasks == 3


def test_selected_classes_keep_their_order():
    data = multiclass()
    tasks = make_tasks(data, {"classes": ["c", "a"]})
    assert tasks.task_type == "multiclass"
    assert tasks.tasks == ["c", "a"]
    kept = data.y != 1
    np.testing.assert_array_equal(tasks.y, np.where(data.y[kept] == 2, 0, 1))
    np.testing.assert_array_equal(tasks.X, data.X[kept])


def test_published_splits_follow_their_rows():
    data = multiclass()
    tasks = make_tasks(data, "one-vs-one")
    ((train, test),) = tasks.splits["half"]
    assert sorted([*train, *test]) == list(range(tasks.n_samples))
    assert set(tasks.source["row"][train]) <= set(range(6))
    assert set(tasks.source["row"][test]) <= set(range(6, 12))


def test_without_options_nothing_changes():
    data = multiclass()
    assert make_tasks(data, None) is data


def test_per_class_limits_each_class_and_keeps_small_classes_complete():
    data = multiclass((50, 3, 20))
    tasks = make_tasks(data, {"per_class": 10})
    assert np.bincount(tasks.y).tolist() == [10, 3, 10]
    again = make_tasks(data, {"per_class": 10})
    np.testing.assert_array_equal(tasks.X, again.X)
    other = make_tasks(data, {"per_class": 10, "seed": 1})
    assert not np.array_equal(tasks.X, other.X)


def test_a_class_draws_the_same_rows_regardless_of_other_classes():
    data = multiclass((50, 40, 30))
    all_three = make_tasks(data, {"per_class": 5})
    two = make_tasks(data, {"per_class": 5, "classes": ["b", "c"]})
    np.testing.assert_array_equal(all_three.X[all_three.y > 0], two.X)


def test_per_task_limits_each_task():
    tasks = make_tasks(multiclass((30, 20, 25)), {"make": "one-vs-one", "per_task": 12})
    assert np.bincount(tasks.task_id).tolist() == [12, 12, 12]
    rows = tasks.source["row"].reshape(3, 12)
    assert all(len(set(r)) == 12 for r in rows)


def test_subset_keeps_the_sources():
    tasks = make_tasks(multiclass(), "one-vs-one")
    part = tasks.subset(np.array([3, 5]))
    np.testing.assert_array_equal(part.source["row"], tasks.source["row"][[3, 5]])


def test_errors_are_located():
    for tasks, text in [
        ("one-one", "unknown way to make tasks 'one-one'\nDid you mean 'one-vs-one'?"),
        (
            {"mak": "one-vs-one"},
            "unknown key of the option tasks 'mak'\nDid you mean 'make'?",
        ),
        ({"classes": ["a", "d"]}, "unknown class of the data set 'd'\nKnown: a, b, c."),
        ({"pairs": [["a", "z"]]}, "unknown class of the data set 'z'\nKnown: a, b, c."),
        (
            {"pairs": [["a", "b", "c"]]},
            "['a', 'b', 'c'] is not a pair of two of the classes a, b, c",
        ),
        (
            {"pairs": [["a", "b"], ["c", "c"]]},
            "['c', 'c'] is not a pair of two of the classes a, b, c",
        ),
        ({"classes": ["a"]}, "two or more different classes are needed, got a"),
        ({"per_class": 0}, "per_class must be an integer of at least 1, not 0"),
        (
            {"make": "one-vs-one", "per_task": 0},
            "per_task must be an integer of at least 1, not 0",
        ),
        (
            {"per_task": 3},
            "the option tasks has per_task, but makes no one-vs-one tasks\n"
            "Remove per_task or make.",
        ),
        (
            {"make": "one-vs-rest", "pairs": [["a", "b"]]},
            "the option tasks has pairs, but makes no one-vs-one tasks\n"
            "Remove pairs or make.",
        ),
    ]:
        with pytest.raises(UserError) as caught:
            make_tasks(multiclass(), tasks)
        assert str(caught.value) == text


def test_only_classes_become_tasks():
    with pytest.raises(DataError, match="binary"):
        make_tasks(make_tasks(multiclass(), "one-vs-rest"), "one-vs-rest")
    with pytest.raises(UnknownNameError):
        make_tasks(multiclass(), {"pairs": [("a", "q")]})


@pytest.mark.parametrize(
    ("counts", "fraction", "size"),
    [
        (
            [340, 300, 300, 60],
            0.1,
            6,
        ),  # 10% of the class of 60, not 10% of 1000 rows divided by 4 classes
        ([730, 100], 0.1, 10),
        ([2205, 2097, 826, 328], 0.1, 32),  # The class sizes of robot and vehicle
        ([2205, 2097, 826, 328], 0.2, 65),
        ([2205, 2097, 826, 328], 0.5, 164),
        ([212, 217, 218, 199], 0.1, 19),
    ],
)
def test_all_classes_have_as_many_training_rows_as_the_smallest(counts, fraction, size):
    tasks = make_tasks(multiclass(counts), "one-vs-rest")
    train, validation, test = paper_partition(tasks, fraction, 0)
    labels = tasks.source["label"]
    assert np.bincount(labels[train]).tolist() == [size] * len(counts)
    rest = np.bincount(labels[test]) - np.bincount(labels[validation])
    assert set(rest) <= {0, 1}
    assert sorted([*train, *validation, *test]) == list(range(sum(counts)))


def test_examples_stay_on_one_side_in_all_tasks():
    tasks = make_tasks(multiclass((20, 30, 40)), "one-vs-one")
    parts = paper_partition(tasks, 0.2, seed=3)
    rows = [set(tasks.source["row"][part]) for part in parts]
    assert sorted(np.concatenate(parts)) == list(range(tasks.n_samples))
    assert not rows[0] & rows[1]
    assert not rows[0] & rows[2]
    assert not rows[1] & rows[2]
    assert len(rows[0]) == 3 * 4
    again = paper_partition(tasks, 0.2, seed=3)
    np.testing.assert_array_equal(parts[0], again[0])


def ragged(sizes=(10, 21, 30)) -> Dataset:
    n = sum(sizes)
    ids = np.repeat(np.arange(len(sizes)), sizes)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    return Dataset(
        X=np.arange(n, dtype=float)[:, None],
        y=y,
        task_type="binary",
        task_id=ids,
        id="mine",
    )


def test_the_papers_split_of_ragged_tasks_halves_the_rest_of_each_task():
    data = ragged()
    train, validation, test = paper_partition(data, 0.2, seed=1)
    assert sorted([*train, *validation, *test]) == list(range(61))
    counts = [
        np.bincount(data.task_id[part]).tolist() for part in (train, validation, test)
    ]
    assert counts == [[2, 4, 6], [4, 8, 12], [4, 9, 12]]
    assert not np.array_equal(train, paper_partition(data, 0.2, seed=2)[0])


@pytest.mark.parametrize(
    ("data", "fraction", "text"),
    [
        (
            ragged((3, 30)),
            0.2,
            "a training part of 0.2 leaves label or task 0 (3 rows) an empty part",
        ),
        (
            ragged(),
            1.0,
            "the training fraction must lie strictly between 0 and 1, not 1.0",
        ),
        (
            Dataset(
                X=np.zeros((4, 1)), y=np.ones((4, 2)), task_type="binary", id="mine"
            ),
            0.5,
            "share their rows",
        ),
    ],
)
def test_invalid_arguments_of_the_papers_split_are_rejected(data, fraction, text):
    with pytest.raises(DataError, match=re.escape(text)):
        paper_partition(data, fraction, 0)
