"""Every registered method on the same data in several forms: dense, sparse, frames, id
types.

A new method is covered as soon as it is in the registry: by all forms until its
solutions are stored, then by some. All forms contain exactly the same numbers (binary
X, integer targets), so that all dense forms must give the same predictions to the last
digits.
"""

import pickle
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mtlrun.catalog.registry import METHODS
from mtlrun.estimators.base import DegenerateModelWarning

pytestmark = pytest.mark.usefixtures("few_trees")

LAYOUTS = ["shared", "ragged"]
every_method = pytest.mark.cover(name=METHODS)


def read_only(array):
    array = array.copy()
    array.setflags(write=False)
    return array


def strided(array):
    """Return the array as every other row and column of a larger one."""
    wide = np.full(tuple(2 * size for size in array.shape), np.nan)
    view = wide[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def mapped(array):
    """Return the array as a read-only memory-mapped file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "array.npy"
        np.save(path, array)
        # POSIX keeps the mapping of a deleted file.
        return np.load(path, mmap_mode="r")


def in_frames(X, y, task_id=None):
    """Return frames with arbitrary row labels."""
    labels = np.arange(len(X))[::-1]
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])], index=labels)
    y = (
        pd.Series(y, index=labels + 5)
        if y.ndim == 1
        else pd.DataFrame(y, index=labels + 5)
    )
    return {"X": frame, "y": y} | (
        {} if task_id is None else {"task_id": pd.Series(task_id, index=labels - 5)}
    )


def in_polars(X, y, task_id=None):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame({f"f{j}": column for j, column in enumerate(X.T)})
    y = (
        polars.Series(y)
        if y.ndim == 1
        else polars.DataFrame(y, schema=[str(t) for t in range(y.shape[1])])
    )
    return {"X": frame, "y": y} | (
        {} if task_id is None else {"task_id": polars.Series(task_id)}
    )


def each(change, **others):
    """Convert X, y and ids, together or separately."""
    return lambda **data: {
        key: others.get(key, change)(value) for key, value in data.items()
    }


def keep(value):
    return value


DENSE = {
    "float32": each(lambda a: a.astype(np.float32), task_id=keep),
    "int": each(lambda a: a.astype(int)),
    "int8": each(lambda a: a.astype(np.int8)),
    "bool": each(keep, X=lambda a: a.astype(bool)),
    "big-endian": each(lambda a: a.astype(">f8"), task_id=keep),
    "objects": each(keep, X=lambda a: a.astype(object)),
    "Fortran order": each(np.asfortranarray),
    "strided": each(strided, task_id=keep),
    "reversed": each(lambda a: a[::-1].copy()[::-1]),
    "read-only": each(read_only),
    "mapped": each(mapped),
    "lists": each(lambda a: a.tolist()),
    "pandas": in_frames,
    "polars": in_polars,
}


@pytest.mark.cover(name=METHODS, layout=LAYOUTS, form=DENSE)
def test_dense_forms_of_the_same_numbers_give_the_same_model(
    matrix, name, layout, form
):
    data = DENSE[form](**matrix.arrange(name, layout, *matrix.problem()))
    before = matrix.digest(*data.values())
    model = matrix.fit(matrix.make(name), data)
    assert_allclose(
        matrix.scores(model, data), matrix.plain(name, layout), rtol=1e-9, atol=1e-9
    )
    assert matrix.digest(*data.values()) == before


def explicit_zeros(X):
    dense = sp.csr_array(np.ones(X.shape))
    dense.data[:] = X.ravel()
    return dense


def unsorted(X):
    """Sort the indices of every row in descending order."""
    X = sp.csr_array(X)
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[a:b] = X.indices[a:b][::-1]
        X.data[a:b] = X.data[a:b][::-1]
    X.has_sorted_indices = X.has_canonical_format = False
    return X


def duplicated(X, kind=sp.coo_array):
    """Store each 1 as 0.25 + 0.75."""
    X = sp.coo_array(X)
    again = [np.concatenate([a, a]) for a in (X.row, X.col)]
    return kind(
        (np.concatenate([0.25 * X.data, 0.75 * X.data]), tuple(again)), shape=X.shape
    )


def csr_duplicated(X):
    rows, columns = np.nonzero(X)
    starts = np.concatenate([[0], np.cumsum(2 * np.bincount(rows, minlength=len(X)))])
    values, columns = np.tile([0.25, 0.75], len(rows)), np.repeat(columns, 2)
    return sp.csr_array(
        (values, columns.astype(np.int32), starts.astype(np.int32)), shape=X.shape
    )


def long_indices(X):
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def frozen(X):
    X = sp.csr_array(X)
    for part in (X.data, X.indices, X.indptr):
        part.setflags(write=False)
    return X


SPARSE = {
    "CSC": sp.csc_array,
    "COO": sp.coo_array,
    "LIL": sp.lil_array,
    "CSR matrix": sp.csr_matrix,
    "float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "bool": lambda X: sp.csr_array(X.astype(bool)),
    "explicit zeros": explicit_zeros,
    "unsorted": unsorted,
    "COO with duplicates": duplicated,
    "CSR with duplicates": csr_duplicated,
    "64-bit indices": long_indices,
    "read-only": frozen,
}


@pytest.mark.cover(name=METHODS, layout=LAYOUTS, form=SPARSE)
def test_sparse_forms_of_the_same_numbers_give_the_same_model(
    matrix, name, layout, form
):
    data = matrix.arrange(name, layout, *matrix.problem())
    data["X"] = SPARSE[form](data["X"])
    before = matrix.digest(*data.values())
    model = matrix.fit(matrix.make(name), data)
    assert_allclose(
        matrix.scores(model, data),
        matrix.plain(name, layout, sparse=True),
        rtol=1e-6,
        atol=1e-6,
    )
    assert matrix.digest(*data.values()) == before


@pytest.mark.cover(name=METHODS, layout=LAYOUTS)
def test_sparse_and_dense_designs_give_the_same_model(matrix, name, layout):
    # Another arithmetic on the way to the same optimum: equal up to the default
    # tolerance.
    assert_allclose(
        matrix.plain(name, layout, sparse=True),
        matrix.plain(name, layout),
        rtol=0.02,
        atol=0.02,
    )


IDS = {
    "strings": np.array(["a", "b", "c"]),
    "objects": np.array(["a", "b", "c"], dtype=object),
    "fractions": np.array([-0.5, 0.25, 2.5]),
    "whole floats": np.array([-3.0, 0.0, 7.0]),
    "numbers as objects": np.array([4, 5, 6], dtype=object),
    "dates": np.array(
        ["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[D]"
    ),
    "small integers": np.array([1, 2, 250], dtype=np.uint8),
}


@pytest.mark.cover(name=METHODS, kind=IDS)
def test_task_ids_may_have_any_sortable_type(matrix, name, kind):
    data = matrix.arrange(name, "ragged", *matrix.problem())
    data["task_id"] = IDS[kind][data["task_id"]]
    model = matrix.fit(matrix.make(name), data)
    assert_array_equal(model.tasks_, IDS[kind].astype(model.tasks_.dtype))
    assert_allclose(
        matrix.scores(model, data), matrix.plain(name, "ragged"), rtol=1e-9, atol=1e-9
    )


@every_method
def test_a_category_and_a_frame_column_may_be_ids(matrix, name):
    data = matrix.arrange(name, "ragged", *matrix.problem())
    labels = np.array(["u", "v", "w"])[data["task_id"]]
    category = data | {"task_id": pd.Series(labels, dtype="category")}
    actual = matrix.scores(matrix.fit(matrix.make(name), category), category)
    assert_allclose(actual, matrix.plain(name, "ragged"), rtol=1e-9, atol=1e-9)
    column = {
        "X": pd.DataFrame(data["X"]).add_prefix("f").assign(task=labels),
        "y": data["y"],
    }
    model = matrix.fit(matrix.make(name).set_params(task_column="task"), column)
    assert_allclose(
        matrix.scores(model, column), matrix.plain(name, "ragged"), rtol=1e-9, atol=1e-9
    )


@pytest.mark.cover(name=METHODS, layout=LAYOUTS)
def test_names_pickles_clones_and_refits_are_consistent(matrix, name, layout):
    data = in_frames(**matrix.arrange(name, layout, *matrix.problem()))
    model = matrix.fit(matrix.make(name), data)
    assert model.feature_names_in_.tolist() == ["f0", "f1", "f2", "f3", "f4"]
    again = data | {"X": data["X"].rename(columns={"f1": "other"})}
    with pytest.raises(ValueError, match="names should match"):
        matrix.scores(model, again)
    assert_array_equal(
        matrix.scores(pickle.loads(pickle.dumps(model)), data),
        matrix.scores(model, data),
    )
    assert_array_equal(
        matrix.scores(matrix.fit(clone(model), data), data), matrix.scores(model, data)
    )
    # A second fit forgets shapes, tasks and names of the first.
    small = matrix.arrange(name, LAYOUTS[layout == "shared"], *matrix.problem(20, 3, 2))
    matrix.fit(model, small)
    assert not hasattr(model, "feature_names_in_")
    assert_array_equal(
        matrix.scores(model, small),
        matrix.scores(matrix.fit(matrix.make(name), small), small),
    )


@every_method
def test_searches_and_pipelines_support_the_task_column(matrix, name):
    data = matrix.arrange(name, "ragged", *matrix.problem(60))
    X = np.column_stack([data["task_id"], data["X"]])
    scaled = ColumnTransformer(
        [("task", "passthrough", [0])], remainder=StandardScaler()
    )
    model = make_pipeline(scaled, matrix.make(name).set_params(task_column=0))
    key, values = next(iter(METHODS[name].default_grid.items()))
    grid = {f"{model.steps[-1][0]}__{key}": values[1:3]}
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateModelWarning)
        search = GridSearchCV(
            model, grid, cv=list(folds.split(X, data["task_id"])), error_score="raise"
        )
        search.fit(X, data["y"])
    assert search.best_params_[next(iter(grid))] in values
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(X).shape == data["y"].shape
