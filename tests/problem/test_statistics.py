"""Sufficient statistics are added, subtracted, scaled and stored like rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mtlrun.errors import DataError
from mtlrun.problem.statistics import TaskStatistics

LAYOUTS = ("shared", "masked", "ragged", "cell-weighted", "sparse")


def rows(layout, n=90, seed=0):
    """Return X, y, task ids and weights of a layout, with values far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + np.array([1000, 0, -30, 0])
    Y = X @ rng.normal(size=(4, 3)) + rng.normal(size=(n, 3)) + [0, 1e4, 5]
    w = rng.random(n) + 0.1
    if layout == "masked":
        return X, np.where(rng.random(Y.shape) < 0.2, np.nan, Y), None, w
    if layout == "ragged":
        t = np.arange(n) % 3
        return X, Y[np.arange(n), t], np.array(["north", "south", "west"])[t], w
    if layout == "cell-weighted":
        return X, Y, None, rng.random(Y.shape) + 0.1
    return (sp.csr_array(X) if layout == "sparse" else X), Y, None, w


def some(data, chosen):
    return [None if a is None else a[chosen] for a in data]


def check_equal(a, b):
    """Compare the squared loss of both, centered and not."""
    assert a.tasks.tolist() == b.tasks.tolist()
    assert a.n_rows.tolist() == b.n_rows.tolist()
    W = np.random.default_rng(1).normal(size=(a.n_features, a.n_tasks))
    for centred in (True, False):
        losses = []
        for stats in (a, b):
            data, x_mean, y_mean = stats.sufficient_statistics(centred=centred)
            tasks = [data.task(t) for t in range(data.n_tasks)]
            losses.append(
                [
                    np.sum((y - X @ w) ** 2)
                    for (X, y, _), w in zip(tasks, W.T, strict=True)
                ]
            )
            losses[-1] += [*x_mean.ravel(), *y_mean] if centred else []
        assert_allclose(losses[0], losses[1], rtol=1e-9 if centred else 1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_loss_equals_that_of_the_rows(layout):
    X, y, ids, w = rows(layout)
    stats = TaskStatistics.of(X, y, ids, w)
    data, x_mean, y_mean = stats.sufficient_statistics(centred=True)
    dense = X.toarray() if layout == "sparse" else X
    W = np.random.default_rng(1).normal(size=(4, 3))
    designs, targets, _ = zip(*(data.task(t) for t in range(3)), strict=True)
    for t, task in enumerate(stats.tasks):
        column = y if ids is not None else y[:, t]
        mine = ids == task if ids is not None else ~np.isnan(column)
        weights = (w if w.ndim == 1 else w[:, t])[mine]
        A, b = dense[mine], column[mine]
        assert_allclose(
            np.broadcast_to(x_mean, (3, 4))[t],
            np.average(A, axis=0, weights=weights),
            rtol=1e-12,
        )
        assert_allclose(y_mean[t], np.average(b, weights=weights), rtol=1e-12)
        best = b - A @ W[:, t]
        best = np.sum(weights * (best - np.average(best, weights=weights)) ** 2)
        assert_allclose(
            np.sum((targets[t] - designs[t] @ W[:, t]) ** 2), best, rtol=1e-9
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_statistics_are_additive_and_folds_are_subtracted(layout):
    data = rows(layout)
    n = len(data[1])
    total = TaskStatistics.of(*data)
    parts = np.array_split(np.random.default_rng(2).permutation(n), 3)
    chunks = [TaskStatistics.of(*some(data, part)) for part in parts]
    check_equal(chunks[0] + chunks[1] + chunks[2], total)
    like = TaskStatistics.of(*some(data, parts[2]), like=chunks[0])
    check_equal(chunks[0] + chunks[1] + like, total)
    check_equal(total - chunks[1], chunks[0] + chunks[2])
    with pytest.raises(ValueError, match="not there"):
        chunks[0] - total


def test_tasks_may_be_added_later():
    X, y, ids, w = rows("ragged")
    first = ids != "north"
    a, b = (TaskStatistics.of(*some((X, y, ids, w), part)) for part in (first, ~first))
    check_equal(a + b, TaskStatistics.of(X, y, ids, w))
    check_equal(b + a, TaskStatistics.of(X, y, ids, w))
    with pytest.raises(ValueError, match="1 tasks: north"):
        (a + b - b).sufficient_statistics(centred=True)


def test_complete_and_incomplete_chunks_add_up():
    X, Y, _, w = rows("masked")
    full = ~np.isnan(Y).any(axis=1)
    a, b = (TaskStatistics.of(*some((X, Y, None, w), part)) for part in (full, ~full))
    check_equal(a + b, TaskStatistics.of(X, Y, None, w))


def test_features_are_scaled():
    X, Y, _, w = rows("shared")
    stats = TaskStatistics.of(X, Y, None, w)
    assert_allclose(stats.mean, np.average(X, axis=0, weights=w), rtol=1e-12)
    assert_allclose(
        stats.std**2, np.average((X - stats.mean) ** 2, axis=0, weights=w), rtol=1e-9
    )
    check_equal(
        stats.scaled(1 / stats.std), TaskStatistics.of(X / stats.std, Y, None, w)
    )


@pytest.mark.parametrize("layout", ["shared", "ragged"])
def test_statistics_are_stored_without_pickle(layout, tmp_path):
    stats = TaskStatistics.of(*rows(layout), features=["a", "b", "c", "d"])
    again = TaskStatistics.load(stats.save(tmp_path / "s.npz"))
    check_equal(again, stats)
    assert again.features == ("a", "b", "c", "d")


def test_other_files_are_rejected(tmp_path):
    stored = TaskStatistics.of(*rows("shared")).save(tmp_path / "s.npz")
    (tmp_path / "x.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "y.npz", a=1)
    np.savez(tmp_path / "about.npz", **{**np.load(stored), "about": "[1, 2]"})
    (tmp_path / "empty.npz").touch()
    np.save(tmp_path / "array.npy", np.ones(3))
    for name in ("x.npz", "y.npz", "z.npz", "about.npz", "empty.npz", "array.npy"):
        with pytest.raises(DataError, match=name):
            TaskStatistics.load(tmp_path / name)


def test_statistics_of_other_data_cannot_be_added():
    shared, ragged = (
        TaskStatistics.of(*rows(layout)) for layout in ("shared", "ragged")
    )
    X, Y, _, w = rows("shared")
    named = TaskStatistics.of(X, Y, None, w, features=["a", "b", "c", "d"])
    for other in (
        ragged,
        TaskStatistics.of(X[:, :3], Y),
        TaskStatistics.of(X, Y[:, :2]),
        named,
    ):
        with pytest.raises(ValueError, match="cannot be combined"):
            shared + other
