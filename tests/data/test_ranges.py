"""Numbers whose squares leave the range of floats are rejected in every format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from all_cases import all_cases
from scipy import sparse

from mtlrun.data import load_dataset
from mtlrun.data.dataset import LARGEST, SMALLEST, Dataset, check_large, check_read
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import Schema, read_rows
from mtlrun.errors import DataError


def _set(X, y=None, **given):
    X = X if sparse.issparse(X) else np.asarray(X, dtype=float)
    y = np.arange(X.shape[0], dtype=float) if y is None else np.asarray(y, dtype=float)
    return Dataset(
        X=X,
        y=y,
        task_type="regression",
        **{"tasks": ["t"] if y.ndim == 1 else [], **given},
    )


@all_cases("value", [0.0, LARGEST, -LARGEST, SMALLEST, -SMALLEST, np.nan])
def test_numbers_whose_squares_are_finite_are_accepted(value):
    X = np.array([[1.0, value], [2.0, value]])
    check_read(_set(X), "a set")
    check_read(_set(X, np.where(np.isnan(X), np.nan, X)), "a set")
    check_read(_set(np.full((2, 2), value)), "a set")
    check_read(_set(sparse.csr_matrix(np.nan_to_num(X))), "a set")


@pytest.mark.cover
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, sparse.csc_array])
@pytest.mark.parametrize(
    ("value", "words"), [(1e200, "contains 1e+200"), (-3e151, "contains -3e+151")]
)
def test_a_large_feature_is_reported_with_row_and_value(make, value, words):
    X = np.array([[1.0, 2.0, 0.0], [0.0, 1e149, value]])
    with pytest.raises(DataError, match="divide it by a power of ten") as caught:
        check_read(_set(make(X), features=["a", "b", "c"]), "set s")
    assert f"set s: row 2: the feature 'c' {words}" in str(caught.value)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_a_column_of_tiny_numbers_is_reported_and_single_ones_are_accepted(
    make, lacking
):
    X = np.array([[1.0, 1e-200], [0.5, -3e-190], [0.0, 0.0]])
    with pytest.raises(DataError, match="power of ten") as caught:
        check_read(_set(make(X)), "set s")
    assert not lacking(caught.value, "feature 2", "3e-190")
    X[2, 1] = 1e-3
    check_read(_set(make(X)), "set s")


def test_a_missing_value_beside_a_tiny_number_does_not_hide_it():
    with pytest.raises(DataError, match="feature 1 is 1e-200"):
        check_read(_set([[np.nan], [1e-200]]), "set s")


def test_targets_and_weights_are_checked_too():
    X = np.ones((3, 1))
    with pytest.raises(DataError, match=r"row 3: the target contains 1e\+160"):
        check_read(_set(X, [1, 2, 1e160]), "set s")
    shared = np.array([[1, 1e-160], [2, np.nan], [3, 2e-160]])
    with pytest.raises(DataError, match="the target 'gas' is 2e-160"):
        check_read(_set(X, shared, tasks=["oil", "gas"]), "set s")
    with pytest.raises(DataError, match=r"row 1: the weight contains 1e\+200"):
        check_read(_set(X, source={"weight": np.array([1e200, 1, 1])}), "set s")


def test_sequences_and_empty_matrices_are_not_checked():
    check_read(
        Dataset(X=np.array([b"ACGT"] * 2), y=np.array([1.0, -1.0]), task_type="binary"),
        "set s",
    )
    check_large(sparse.csr_matrix((3, 4)), "set s")
    check_large(np.full((2, 1), np.nan), "set s")


def _file(folder: Path, **changed) -> Path:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.normal(size=12), "b": rng.normal(size=12), "task": ["s", "t"] * 6}
    )
    table["y"] = table.a + table.b
    for name, (row, value) in changed.items():
        table.loc[row, name] = value
    path = folder / "table.csv"
    table.to_csv(path, index=False)
    return path


def test_errors_about_a_table_name_file_line_and_column(tmp_path):
    roles = Roles(targets=("y",), task="task")
    with pytest.raises(
        DataError, match=r"table\.csv:7: the feature 'b' contains 1e\+200"
    ):
        make_dataset(read_table(_file(tmp_path, b=(5, 1e200))), roles)
    # Dropped rows do not shift the line number.
    path = _file(tmp_path, y=(2, np.nan), a=(9, -1e200))
    with pytest.raises(
        DataError, match=r"table\.csv:11: the feature 'a' contains -1e\+200"
    ):
        make_dataset(read_table(path), roles)
    with pytest.raises(DataError, match=r"table\.csv:3: the target contains 1e\+155"):
        make_dataset(read_table(_file(tmp_path, y=(1, 1e155))), roles)
    frame = pd.read_csv(_file(tmp_path)).assign(a=lambda t: t.a * 1e-200)
    with pytest.raises(DataError, match="'a'"):
        make_dataset(table_of_frame(frame), roles)


def test_new_rows_are_rejected_only_for_large_numbers(tmp_path):
    wanted = Schema(2, ("a", "b"), task_column="task")
    for table in (False, True):
        with pytest.raises(
            DataError, match=r"table\.csv:6: the feature 'a' contains 1e\+200"
        ):
            read_rows(
                _file(tmp_path, a=(4, 1e200)),
                Schema(2, ("a", "b"), task_column="task", table=table),
            )
    small = read_rows(
        _file(tmp_path, **{name: (slice(None), 1e-200) for name in "ab"}), wanted
    )
    assert (small.X == 1e-200).all()


def test_data_sets_loaded_by_name_are_checked():
    with pytest.raises(DataError, match=r"simulated-rmtl: row 1: .*'task 0'"):
        load_dataset("simulated-rmtl", n=10, d=3, m=2, noise=1e200, kind="value")


@pytest.mark.parametrize(
    ("transform", "refused", "accepted"),
    [
        ("log", [0.0, -1.0], [1e-300, 2.0]),
        ("sqrt", [-1e-300], [0.0, 2.0]),
        ("logit", [0.0, 1.0, -1.0, 2.0], [1e-300, 0.5, 1 - 1e-15]),
    ],
)
def test_targets_without_a_value_on_the_new_scale_are_refused_with_their_row(
    transform, refused, accepted
):
    roles = Roles(targets="y", task="task", transform=transform)
    columns = {"task": ["a", "b"] * 3, "x": np.arange(6.0)}
    for value in accepted:
        y = [value, 0.25, 0.5, 0.75, 0.125, 0.25]
        make_dataset(table_of_frame(pd.DataFrame({**columns, "y": y})), roles)
    for value in refused:
        y = [0.25, value, 0.5, 0.75, 0.125, 0.25]
        table = table_of_frame(pd.DataFrame({**columns, "y": y}))
        with pytest.raises(DataError, match="row 2") as caught:
            make_dataset(table, roles)
        assert f"--transform {transform}" in caught.value.remedy
