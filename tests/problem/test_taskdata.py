"""TaskData: layouts, errors, views, order."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtlrun.problem.taskdata import TaskData


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def ragged_arrays(rng, sizes=(3, 5, 2), d=4):
    Xs = [rng.normal(size=(n, d)) for n in sizes]
    ys = [rng.normal(size=n) for n in sizes]
    return Xs, ys


# ---------------------------------------------------------------------- constructors


def test_from_list_keeps_the_tasks(rng):
    Xs, ys = ragged_arrays(rng)
    data = TaskData.from_list(Xs, ys, tasks=["b", "a", "c"])
    assert (data.n_tasks, data.n_features, data.n_rows) == (3, 4, 10)
    assert not data.shared
    assert not data.masked
    assert not data.sparse
    assert data.tasks.tolist() == ["b", "a", "c"]
    assert data.sizes.tolist() == [3, 5, 2]
    for t, (X, y) in enumerate(zip(Xs, ys, strict=True)):
        np.testing.assert_array_equal(data.task(t)[0], X)
        np.testing.assert_array_equal(data.task(t)[1], y)
        assert data.task(t)[2] is None


def test_labels_keep_their_types(rng):
    Xs, ys = ragged_arrays(rng)
    assert TaskData.from_list(Xs, ys, tasks=["a", 1, (2, 3)]).tasks.tolist() == [
        "a",
        1,
        (2, 3),
    ]


def test_from_list_makes_all_tasks_sparse_if_one_is(rng):
    Xs, ys = ragged_arrays(rng)
    data = TaskData.from_list([Xs[0], sp.csc_matrix(Xs[1]), Xs[2]], ys)
    assert data.sparse
    np.testing.assert_array_equal(data.X.toarray(), np.concatenate(Xs))
    np.testing.assert_array_equal(data.task(1)[0].toarray(), Xs[1])


def test_from_list_may_have_weights_of_some_tasks(rng):
    Xs, ys = ragged_arrays(rng)
    data = TaskData.from_list(Xs, ys, weights=[None, np.arange(1, 6), None])
    assert data.weights.tolist() == [1, 1, 1, 1, 2, 3, 4, 5, 1, 1]
    assert data.task(1)[2].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "labels",
    [
        [3, 1, 3, 2, 1, 3],
        ["c", "a", "c", "b", "a", "c"],
        [(1, 2), (0, 1), (1, 2), (1, 1), (0, 1), (1, 2)],
    ],
)
def test_from_stacked_sorts_stably_and_can_be_undone(rng, labels):
    X, y = rng.normal(size=(6, 2)), np.arange(6.0)
    data = TaskData.from_stacked(X, y, labels, weights=y + 1)
    assert data.y.tolist() == [1, 4, 3, 0, 2, 5]
    assert data.weights.tolist() == [2, 5, 4, 1, 3, 6]
    assert data.order.tolist() == [1, 4, 3, 0, 2, 5]
    assert data.tasks.tolist() == sorted(set(labels))
    np.testing.assert_array_equal(data.unsort(data.y), y)
    np.testing.assert_array_equal(data.X, X[data.order])


def test_from_stacked_keeps_sorted_rows_as_views(rng):
    X, y, w = rng.normal(size=(5, 2)), rng.normal(size=5), np.ones(5)
    data = TaskData.from_stacked(X, y, [0, 0, 1, 1, 1], weights=w)
    assert data.order is None
    assert np.shares_memory(data.X, X)
    assert np.shares_memory(data.y, y)
    assert np.shares_memory(data.weights, w)
    assert np.shares_memory(data.task(1)[0], X)
    assert data.unsort(data.y) is data.y


def test_from_matrix_shares_one_design(rng):
    X, Y = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    data = TaskData.from_matrix(X, Y, tasks=["u", "v"])
    assert data.shared
    assert data.X is X
    assert data.Y is Y
    assert data.sizes.tolist() == [6, 6]
    assert data.effective_weights() is None
    X1, y1, w1 = data.task(1)
    assert X1 is X
    assert np.shares_memory(y1, Y)
    assert w1 is None


def test_missing_targets_become_zero_weights(rng):
    X, Y = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    Y[1, 0] = Y[2, 1] = np.nan
    kept = Y.copy()
    data = TaskData.from_matrix(X, Y, weights=[1, 2, 3, 4])
    assert data.masked
    assert data.weights.tolist() == [[1, 1], [0, 2], [3, 0], [4, 4]]
    assert data.Y[1, 0] == 0
    assert data.Y[2, 1] == 0
    assert data.sizes.tolist() == [3, 3]
    np.testing.assert_array_equal(Y, kept)
    X0, y0, w0 = data.task(0)
    np.testing.assert_array_equal(X0, X[[0, 2, 3]])
    np.testing.assert_array_equal(y0, Y[[0, 2, 3], 0])
    assert w0.tolist() == [1, 3, 4]


def test_a_task_of_masked_data_without_weights_has_none(rng):
    Y = np.array([[1.0, np.nan], [2.0, 3.0]])
    data = TaskData.from_matrix(rng.normal(size=(2, 1)), Y)
    assert data.task(1)[2] is None
    assert data.task(-1)[1].tolist() == [3.0]
    with pytest.raises(IndexError):
        data.task(2)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool, object])
def test_numbers_become_float64(dtype):
    X = np.array([[1, 0], [0, 1], [1, 1]]).astype(dtype)
    data = TaskData.from_stacked(X, np.array([1, 0, 1]).astype(dtype), [0, 0, 0])
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert data.X.tolist() == [[1, 0], [0, 1], [1, 1]]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_sparse_numbers_become_float64(dtype):
    X = sp.csr_array(np.eye(3).astype(dtype))
    data = TaskData.from_matrix(X, np.ones((3, 1)))
    assert data.X.dtype == np.float64
    assert X.dtype == dtype


@pytest.mark.parametrize(
    "form", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_matrix, sp.dok_array]
)
def test_any_sparse_form_becomes_csr(rng, form):
    X = rng.normal(size=(5, 4)) * (rng.random((5, 4)) < 0.5)
    data = TaskData.from_stacked(form(X), np.zeros(5), [1, 0, 1, 0, 1])
    assert data.sparse
    assert data.X.format == "csr"
    np.testing.assert_array_equal(data.X.toarray(), X[[1, 3, 0, 2, 4]])


def test_sparse_input_keeps_explicit_zeros_adds_duplicates_and_is_unchanged():
    X = sp.csr_array(
        (np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 2, 3])),
        shape=(2, 2),
    )
    values, indices = X.data.copy(), X.indices.copy()
    data = TaskData.from_matrix(X, np.zeros((2, 1)))
    np.testing.assert_array_equal(data.X.toarray(), [[0, 3], [0, 0]])
    assert data.X.nnz == 2
    np.testing.assert_array_equal(X.data, values)
    np.testing.assert_array_equal(X.indices, indices)
    canonical = sp.csr_array(np.eye(3))
    assert np.shares_memory(
        TaskData.from_matrix(canonical, np.eye(3)).X.data, canonical.data
    )


# ---------------------------------------------------------------------- errors

X3, Y3 = np.ones((3, 2)), np.ones((3, 2))


def test_invalid_input_is_rejected_by_name():
    for build, message in [
        (lambda: TaskData.from_matrix(np.ones(3), Y3), "X must have 2 dimension"),
        (
            lambda: TaskData.from_matrix(sp.coo_array(np.ones(3)), Y3),
            "X must have two dim",
        ),
        (lambda: TaskData.from_matrix(np.ones((3, 0)), Y3), "X has no features"),
        (lambda: TaskData.from_matrix([[1.0, np.nan]], [[1.0]]), "X contains NaN"),
        (
            lambda: TaskData.from_matrix(sp.csr_array([[1.0, np.inf]]), [[1.0]]),
            "X contains NaN or infinite",
        ),
        (lambda: TaskData.from_matrix([["a", "b"]], [[1.0]]), "X must be numeric"),
        (
            lambda: TaskData.from_matrix(np.array([[object()]]), [[1.0]]),
            "X must be numeric",
        ),
        (lambda: TaskData.from_matrix(X3 * 1j, Y3), "X must be numeric"),
        (lambda: TaskData.from_matrix(X3, np.ones(3)), "Y must have 2 dimension"),
        (lambda: TaskData.from_matrix(X3, sp.csr_array(Y3)), "Y must be dense"),
        (lambda: TaskData.from_matrix(X3, np.ones((2, 2))), "Y has 2 rows but X has 3"),
        (lambda: TaskData.from_matrix(X3, Y3 * np.inf), "Y contains"),
        (
            lambda: TaskData.from_matrix(X3, Y3, weights=np.ones(2)),
            r"weights must have shape \(3,\) or \(3, 2\)",
        ),
        (
            lambda: TaskData.from_matrix(X3, Y3, weights=-np.ones(3)),
            "weights must not be negative",
        ),
        (
            lambda: TaskData.from_matrix(X3, Y3, weights=[1, 1, np.nan]),
            "weights contains NaN",
        ),
        (
            lambda: TaskData.from_matrix(X3, Y3, weights=np.zeros(3)),
            "no row of positive weight",
        ),
        (
            lambda: TaskData.from_matrix(X3, [[1, np.nan]] * 3, tasks=["p", "q"]),
            "task 'q' has no rows",
        ),
        (
            lambda: TaskData.from_matrix(np.ones((0, 2)), np.ones((0, 1))),
            "X has no rows",
        ),
        (lambda: TaskData.from_matrix(X3, Y3, tasks=["p"]), "tasks has 1 labels for 2"),
        (lambda: TaskData.from_matrix(X3, Y3, tasks=["p", "p"]), "tasks has repeated"),
        (
            lambda: TaskData.from_stacked(X3, np.ones(2), [0, 0, 0]),
            "y has 2 entries but X has 3",
        ),
        (lambda: TaskData.from_stacked(X3, Y3, [0, 0, 0]), "y must have 1 dimension"),
        (
            lambda: TaskData.from_stacked(X3, [1, 2, np.nan], [0, 0, 0]),
            "y contains NaN",
        ),
        (
            lambda: TaskData.from_stacked(X3, np.ones(3), [0, 0]),
            "task_id has 2 entries",
        ),
        (
            lambda: TaskData.from_stacked(X3, np.ones(3), [[0], [0], [0]]),
            "task_id must have 1",
        ),
        (
            lambda: TaskData.from_stacked(X3, np.ones(3), ["a", 1, "a"]),
            "cannot be sorted",
        ),
        (
            lambda: TaskData.from_stacked(X3, np.ones(3), [0, np.nan, 1]),
            "task_id contains missing",
        ),
        (
            lambda: TaskData.from_stacked(
                X3, np.ones(3), np.array(["a", None, "b"], dtype=object)
            ),
            "cannot be sorted",
        ),
        (
            lambda: TaskData.from_stacked(X3, np.ones(3), [0, 0, 1], weights=[0, 0, 1]),
            "task .*0.* has no row of pos",
        ),
        (lambda: TaskData.from_list([], []), "at least one"),
        (lambda: TaskData.from_list([X3], []), "one entry per task"),
        (
            lambda: TaskData.from_list([X3, np.ones((0, 2))], [np.ones(3), np.ones(0)]),
            "task .*1.* has no rows",
        ),
        (
            lambda: TaskData.from_list([X3, np.ones((3, 4))], [np.ones(3)] * 2),
            r"Xs\[1\] has shape",
        ),
        (
            lambda: TaskData.from_list([X3], [np.ones(2)]),
            r"Xs\[0\] has shape .* ys\[0\]",
        ),
        (
            lambda: TaskData.from_list([X3], [np.ones(3)], weights=[]),
            "one entry per task",
        ),
        (
            lambda: TaskData.from_list([X3], [np.ones(3)], weights=[np.ones(2)]),
            r"weights\[0\] must have shape",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            build()


def test_huge_values_are_finite():
    data = TaskData.from_matrix(np.full((3, 1), 1e308), np.full((3, 1), -1e308))
    assert data.X.max() == 1e308


def test_layouts_name_their_targets(rng):
    shared = TaskData.from_matrix(X3, Y3)
    ragged = TaskData.from_stacked(X3, np.ones(3), [0, 0, 0])
    with pytest.raises(AttributeError, match="not y"):
        _ = shared.y
    with pytest.raises(AttributeError, match="not Y"):
        _ = ragged.Y


# --------------------------------------------------------------------- fields and parts


def test_sums_by_task_can_be_spread(rng):
    Xs, ys = ragged_arrays(rng)
    data = TaskData.from_list(Xs, ys)
    np.testing.assert_allclose(data.sum_by_task(data.y), [y.sum() for y in ys])
    assert (
        data.spread(np.array([1.0, 2.0, 3.0])).tolist() == [1] * 3 + [2] * 5 + [3] * 2
    )
    shared = TaskData.from_matrix(X3, np.arange(6.0).reshape(3, 2))
    assert shared.sum_by_task(shared.Y).tolist() == [6, 9]
    assert shared.spread(np.array([1.0, 2.0])).tolist() == [[1, 2]] * 3


def test_effective_weights_have_the_shape_of_the_field():
    data = TaskData.from_matrix(X3, Y3, weights=[1, 2, 3])
    assert data.weights.shape == (3,)
    assert data.effective_weights().tolist() == [[1, 1], [2, 2], [3, 3]]


@pytest.mark.parametrize("indices", [[1, 2], [2, 0], [1]])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_subset_of_ragged_tasks_keeps_its_rows(rng, indices, sparse):
    Xs, ys = ragged_arrays(rng)
    data = TaskData.from_list(
        [sp.csr_array(X) if sparse else X for X in Xs], ys, weights=[y**2 for y in ys]
    )
    part = data.subset_tasks(indices)
    assert part.tasks.tolist() == indices
    for k, t in enumerate(indices):
        X, y, w = part.task(k)
        np.testing.assert_array_equal(X.toarray() if sparse else X, Xs[t])
        np.testing.assert_array_equal(y, ys[t])
        np.testing.assert_array_equal(w, ys[t] ** 2)


def test_a_subset_of_shared_tasks_keeps_the_design(rng):
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(5, 4))
    Y[0, 3] = np.nan
    data = TaskData.from_matrix(X, Y)
    part = data.subset_tasks([2, 0])
    assert part.X is data.X
    np.testing.assert_array_equal(part.Y, Y[:, [2, 0]])
    assert not part.masked
    assert part.weights is None
    masked = data.subset_tasks([3, 1])
    assert masked.masked
    assert masked.weights[:, 0].tolist() == [0, 1, 1, 1, 1]


def test_rows_are_selected(rng):
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    Y[0, 1] = np.nan
    data = TaskData.from_matrix(X, Y, weights=np.arange(1.0, 6.0))
    part = data.select_rows([0, 3])
    np.testing.assert_array_equal(part.X, X[[0, 3]])
    assert part.weights.tolist() == [[1, 0], [4, 4]]
    full = data.select_rows([1, 2])
    assert not full.masked
    np.testing.assert_array_equal(full.Y, Y[1:3])
    with pytest.raises(ValueError, match="no rows"):
        data.select_rows([0])
    assert data.select_rows([0], complete=False).observed.tolist() == [[True, False]]
    ragged = TaskData.from_stacked(
        X, np.arange(5.0), ["b", "a", "c", "b", "c"], weights=np.arange(1.0, 6.0)
    )
    part = ragged.select_rows([4, 2])  # Rows of `ragged.X`, which is sorted by task
    assert (part.tasks.tolist(), part.y.tolist(), part.weights.tolist()) == (
        ["b", "c"],
        [3.0, 4.0],
        [4.0, 5.0],
    )
    assert part.offsets.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(part.X, X[[3, 4]])
