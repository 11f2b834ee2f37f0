"""Splitters keep every task (and label) in every part, also with routing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import (
    TaskShuffleSplit,
    TaskStratifiedKFold,
    fold_rows,
    paper_partition,
    random_split,
    split_rows,
    task_partition,
)

problems = st.tuples(
    st.lists(st.integers(1, 25), min_size=1, max_size=6),
    st.integers(0, 2**16),
    st.integers(2, 5),
    st.booleans(),
)


def test_there_are_five_folds_by_default():
    assert TaskStratifiedKFold().get_n_splits() == 5


def make(sizes: list[int], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    tasks = rng.permutation(np.repeat([f"t{t}" for t in range(len(sizes))], sizes))
    return np.zeros((len(tasks), 2)), rng.integers(0, 3, len(tasks)), tasks


def test_random_split_matches_its_documentation() -> None:
    train, test = random_split(10, 0.4, 3)
    order = np.random.default_rng(3).permutation(10)
    np.testing.assert_array_equal(train, order[:4])
    np.testing.assert_array_equal(test, order[4:])
    with pytest.raises(ValueError, match=r"train=0\.05.*n=10.*\(0"):
        random_split(10, 0.05, 0)
    with pytest.raises(ValueError, match="a part empty"):
        random_split(10, 1.0, 0)


def test_a_share_of_rows_that_is_a_whole_number_is_not_rounded_down() -> None:
    # 0.29 * 100 is 28.999999999999996.
    ids = np.repeat([0, 1], 100)
    data = Dataset(
        X=np.zeros((200, 1)), y=np.zeros(200), task_type="regression", task_id=ids
    )
    parts = task_partition(data, 0.29, seed=0)
    sizes = [np.bincount(ids[part]).tolist() for part in parts]
    assert sizes == [[29, 29], [35, 35], [36, 36]]


def test_every_class_has_as_many_training_rows_as_the_smallest_one() -> None:
    labels = np.repeat([0, 1], [20, 40])
    data = Dataset(
        X=np.zeros((60, 1)),
        y=np.zeros(60),
        task_type="binary",
        task_id=np.zeros(60, dtype=int),
        source={"label": labels, "row": np.arange(60)},
    )
    train, validation, test = paper_partition(data, 0.5, seed=0)
    assert np.bincount(labels[train]).tolist() == [10, 10]
    assert np.bincount(labels[validation]).tolist() == [5, 15]
    assert np.bincount(labels[test]).tolist() == [5, 15]


@pytest.mark.filterwarnings("ignore:.*fewer rows than n_splits")
def test_rows_of_a_task_without_training_rows_are_not_tested() -> None:
    ids = np.repeat([0, 1], [12, 1])
    data = Dataset(
        X=np.zeros((13, 1)), y=np.zeros(13), task_type="regression", task_id=ids
    )
    tested = [test for _, test in fold_rows(data, 3, seed=0)]
    assert sorted(np.concatenate(tested)) == list(range(12))


@pytest.mark.filterwarnings("ignore:.*fewer rows than n_splits")
@given(problem=problems, labels=st.booleans())
def test_folds_distribute_every_stratum(
    problem: tuple[list[int], int, int, bool], labels: bool
) -> None:
    sizes, seed, k, shuffle = problem
    X, y, tasks = make([*sizes, 5], seed)
    splitter = TaskStratifiedKFold(
        k, shuffle=shuffle, labels=labels, random_state=seed if shuffle else None
    )
    parts = list(splitter.split(X, y, tasks))
    assert len(parts) == splitter.get_n_splits() == k
    fold = np.empty(len(y), dtype=int)
    for i, (train, test) in enumerate(parts):
        np.testing.assert_array_equal(
            np.sort(np.concatenate([train, test])), np.arange(len(y))
        )
        fold[test] = i
    np.testing.assert_array_equal(
        np.sort(np.concatenate([test for _, test in parts])), np.arange(len(y))
    )
    groups = [np.ones(len(y), bool)] + [tasks == t for t in np.unique(tasks)]
    if labels:
        groups += [
            (tasks == t) & (y == c) for t in np.unique(tasks) for c in np.unique(y)
        ]
    for rows in groups:
        counts = np.bincount(fold[rows], minlength=k)
        assert counts.max() - counts.min() <= 1


@given(
    problem=problems,
    labels=st.booleans(),
    train_size=st.one_of(st.floats(0.05, 0.95), st.integers(1, 30)),
)
def test_shuffle_split_takes_its_fraction_of_each_task(
    problem: tuple[list[int], int, int, bool], labels: bool, train_size: float
) -> None:
    sizes, seed, k, _ = problem
    X, y, tasks = make(sizes, seed)
    splitter = TaskShuffleSplit(
        k, train_size=train_size, labels=labels, random_state=seed
    )
    parts = list(splitter.split(X, y, task_id=tasks))
    assert len(parts) == k
    for train, test in parts:
        np.testing.assert_array_equal(
            np.sort(np.concatenate([train, test])), np.arange(len(y))
        )
        for t, n in zip(*np.unique(tasks, return_counts=True), strict=True):
            count = int((tasks[train] == t).sum())
            wanted = train_size if isinstance(train_size, int) else int(train_size * n)
            assert count == (1 if n == 1 else min(max(wanted, 1), n - 1))
            for c in np.unique(y) if labels else []:
                stratum = (tasks == t) & (y == c)
                assert (
                    abs(
                        np.isin(np.flatnonzero(stratum), train).sum()
                        - stratum.sum() * count / n
                    )
                    < 1 + 1e-9
                )


@pytest.mark.cover
@pytest.mark.parametrize("validation", [0.1, 0.3, 0.49])
@pytest.mark.parametrize("kind", ["random", "kfold", "published"])
def test_no_task_loses_its_last_row_to_validation(kind: str, validation: float) -> None:
    sizes = [2, 3, 4, 5, 30]
    ids = np.repeat(np.arange(5), sizes)
    rows = np.arange(len(ids))
    data = Dataset(
        X=np.zeros((len(ids), 1)),
        y=np.zeros(len(ids)),
        task_type="regression",
        task_id=ids,
        splits={"s": [(rows[::2], rows[1::2])]},
    )
    options: dict[str, Any] = {
        "random": {"train": 0.5},
        "kfold": {"folds": 2},
        "published": {"name": "s"},
    }[kind]
    for seed in range(5):
        without_validation = split_rows(data, kind, trial=0, seed=seed, **options)
        parts = split_rows(
            data, kind, trial=0, seed=seed, validation=validation, **options
        )
        # Validation rows are taken from the test rows of a published split, and
        # otherwise from the training rows.
        source = 0 if kind == "published" else 2
        before = np.unique(ids[without_validation[source]])
        np.testing.assert_array_equal(np.unique(ids[parts[source]]), before)
        assert sorted(np.concatenate(parts)) == rows.tolist()
        taken = np.bincount(ids[parts[1]], minlength=5)
        possible = np.bincount(ids[without_validation[source]], minlength=5) - 1
        of = possible + 1 if kind == "published" else np.array(sizes)
        wanted = np.floor(validation * of).astype(int)
        np.testing.assert_array_equal(taken, np.clip(wanted, 0, possible.clip(0)))


def test_every_row_is_equally_likely() -> None:
    tasks = np.repeat([0, 1], [5, 11])
    splitter = TaskShuffleSplit(2000, train_size=0.4, labels=True, random_state=0)
    y = np.array([0, 1] * 8)
    chosen = np.zeros(16)
    for train, _ in splitter.split(np.zeros((16, 1)), y, tasks):
        chosen[train] += 1
    np.testing.assert_allclose(
        chosen / 2000, np.repeat([2 / 5, 4 / 11], [5, 11]), atol=0.05
    )


@pytest.mark.parametrize(
    "splitter",
    [TaskStratifiedKFold(3, random_state=1), TaskShuffleSplit(3, random_state=1)],
)
def test_seeds_and_clones_give_the_same_splits(splitter: Any) -> None:
    X, y, tasks = make([10, 12], 0)
    first = [test.tolist() for _, test in splitter.split(X, y, tasks)]
    assert first == [test.tolist() for _, test in splitter.split(X, y, tasks)]
    splitter.random_state = 2
    assert first != [test.tolist() for _, test in splitter.split(X, y, tasks)]
    assert "random_state=2" in repr(splitter)


@pytest.mark.parametrize(
    "kind", ["groups", "task_id", "column", "sparse column", "named column", "polars"]
)
def test_ids_come_from_the_documented_sources(kind: str) -> None:
    _, y, _ = make([20], 0)
    ids = np.arange(20) // 5
    X: Any = np.column_stack([ids, np.zeros(20)])
    column: Any = {
        "column": 0,
        "sparse column": 0,
        "named column": "task",
        "polars": "task",
    }.get(kind)
    if kind == "sparse column":
        X = sparse.csr_matrix(X)
    if kind == "named column":
        X = pd.DataFrame(X, columns=["task", "x"])
    if kind == "polars":
        X = pytest.importorskip("polars", reason="polars is not installed").DataFrame(
            X, schema=["task", "x"]
        )
    metadata = {kind: ids} if column is None else {}
    for _, test in TaskStratifiedKFold(5, task_column=column, random_state=0).split(
        X, y, **metadata
    ):
        assert sorted(ids[test]) == [0, 1, 2, 3]


def test_without_ids_all_rows_are_one_task() -> None:
    sizes = [len(test) for _, test in TaskStratifiedKFold(4).split(np.zeros((10, 2)))]
    assert sorted(sizes) == [2, 2, 3, 3]


def test_few_rows_cause_a_warning() -> None:
    X, y, tasks = make([8, 2, 1], 0)
    with pytest.warns(UserWarning, match="2.*3.*n_splits=3"):
        list(TaskStratifiedKFold(3).split(X, y, tasks))


def test_invalid_arguments_are_rejected() -> None:
    for call, message in [
        (
            lambda X, y, t: TaskStratifiedKFold(1),
            "n_splits must be an integer of at least 2, not 1",
        ),
        (
            lambda X, y, t: TaskStratifiedKFold(2.0),
            "n_splits must be an integer of at least 2, not 2.0",
        ),
        (
            lambda X, y, t: TaskShuffleSplit(0),
            "n_splits must be an integer of at least 1, not 0",
        ),
        (lambda X, y, t: TaskShuffleSplit(train_size=1.0), "train_size must be a part"),
        (lambda X, y, t: TaskShuffleSplit(train_size=0), "train_size must be a part"),
        (
            lambda X, y, t: TaskShuffleSplit(train_size=True),
            "train_size must be a part",
        ),
        (
            lambda X, y, t: list(TaskStratifiedKFold(3).split(X[:2])),
            "3 folds need as many rows, there are 2",
        ),
        (
            lambda X, y, t: list(TaskStratifiedKFold(2).split(X, y, t[:-1])),
            "there are 12 rows but task ids of shape",
        ),
        (
            lambda X, y, t: list(TaskStratifiedKFold(2, labels=True).split(X, None, t)),
            "labels=True needs y",
        ),
        (
            lambda X, y, t: list(
                TaskStratifiedKFold(2, labels=True).split(X, y + 0.5, t)
            ),
            "one class label per row, not a target of kind 'continuous'",
        ),
        (
            lambda X, y, t: list(
                TaskShuffleSplit(2, labels=True).split(X, np.c_[y, y], t)
            ),
            "one class label per row",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call(*make([6, 6], 0))


@pytest.mark.parametrize(
    "splitter",
    [TaskStratifiedKFold(3, random_state=0), TaskShuffleSplit(3, random_state=0)],
)
def test_splitters_work_inside_scikit_learn_with_and_without_routing(
    splitter: Any,
) -> None:
    X, y, tasks = make([12, 15], 0)
    model = DummyClassifier()
    plain = cross_val_score(model, X, y, cv=splitter, groups=tasks)
    search = GridSearchCV(clone(model), {"strategy": ["prior"]}, cv=splitter).fit(
        X, y, groups=tasks
    )
    assert search.best_score_ == pytest.approx(plain.mean())
    with sklearn.config_context(enable_metadata_routing=True):
        for name in ("groups", "task_id"):
            routed = cross_val_score(model, X, y, cv=splitter, params={name: tasks})
            np.testing.assert_array_equal(routed, plain)
