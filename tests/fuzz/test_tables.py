"""The same table in another container is the same table, and models take new rows from any of them, or refuse them."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from containers import CONTAINERS, GAPS, WORDS, tables
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mtlrun.data.dataset import Dataset
from mtlrun.data.roles import Roles, make_dataset
from mtlrun.data.table import Table, read_table
from mtlrun.errors import DataError, UserError
from mtlrun.estimators import IndependentRidge
from mtlrun.features.table import TableFeatures
from mtlrun.fitted import Model
from mtlrun.models import load_model, save_model

ROLES = Roles(("y",), "task", categorical=("word",), min_rows=1)
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
pytest.importorskip("polars")
pytest.importorskip("pyarrow")
pytest.importorskip("openpyxl")


def quiet(examples: int) -> settings:
    """Return settings for so many tables; fewer than 1000 are the same in every run."""
    return settings(max_examples=examples, derandomize=examples < 1000, phases=[Phase.generate, Phase.shrink], **QUIET)


def written(frame: pd.DataFrame, container: str, folder: Path) -> Table:
    """Write a table into a container and read it."""
    return read_table(CONTAINERS[container](frame, folder / f"t{container}"))


def fitted(table: Table) -> tuple[Model, Dataset]:
    """Fit a model to a table, and return it with what the table became."""
    data = make_dataset(table, ROLES)
    step = TableFeatures({data.features.index(name): words for name, words in data.categories.items()}).fit(data.X)
    model = IndependentRidge(unseen="mean").fit(step.transform(data.X), data.y, task_id=data.task_id)
    read = {"n_features": data.n_features, "names": data.features, "strings": False, "task_column": "task"}
    facts: dict[str, Any] = {
        "task_type": "regression",
        "design": "ragged",
        "tasks": data.tasks,
        "input": {**read, "table": True, "categories": data.categories},
        "targets": data.targets,
        "labels": data.labels,
        "estimator": {"name": "IndependentRidge"},
        "dataset": {"id": "t"},
    }
    return Model(model, step, facts), data


def by_name(data: Dataset) -> dict[str, Any]:
    """Return everything that a data set says of its rows, whatever the order of its features."""
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    return {"tasks": data.tasks, "task_id": data.task_id, "y": data.y, "categories": data.categories} | {
        name: X[:, j] for j, name in enumerate(data.features)
    }


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_keeps_a_table(container: str, fuzz_examples: int) -> None:
    @quiet(fuzz_examples)
    @given(tables())
    def try_one(frame: pd.DataFrame) -> None:
        with tempfile.TemporaryDirectory() as folder:
            table = written(frame, container, Path(folder))
            if table.sparse is not None and frame.gaps.isna().any():  # sparse rows have no gaps
                with pytest.raises(DataError):
                    make_dataset(table, ROLES)
                return
            found = by_name(make_dataset(table, ROLES))
        expected = by_name(make_dataset(read_table(frame), ROLES))
        assert set(found) == set(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"{container}: {name}")

    try_one()


def test_new_rows_are_read_by_the_names_of_the_training_rows(fuzz_examples: int) -> None:
    """Trained from one container and predicted from another: the same numbers, or refused by an error."""
    taken = 0

    @quiet(fuzz_examples)
    @given(tables(WORDS | st.sampled_from(GAPS)), st.data())
    def try_one(frame: pd.DataFrame, data: st.DataObject) -> None:
        nonlocal taken
        first, second = (data.draw(st.sampled_from(list(CONTAINERS))) for _ in range(2))
        rows = data.draw(st.lists(st.integers(0, len(frame) - 1), min_size=1, max_size=5, unique=True))
        new = frame.iloc[rows].reset_index(drop=True)[data.draw(st.permutations(list(frame.columns)))].drop(columns="y")
        with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # a word that the model does not know would be said
            folder = Path(name)
            try:
                model, known = fitted(written(frame, first, folder))
            except UserError:  # a task that is called NA in a csv file
                return
            expected = model.answers(known.X, known.task_id)[rows]
            save_model(folder / "model", model)
            for reader in (model, load_model(folder / "model")):
                for container in (second, ".frame"):
                    try:
                        table = read_table(CONTAINERS[container](new, folder / f"n{container}"), like=reader.schema)
                        found = reader.answers(*reader.read(table))
                    except (UserError, ValueError):  # ValueError: a gap in a row for a model of sparse rows
                        continue
                    np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=f"{first} then {container}")
                    taken += 1

    try_one()
    assert taken > fuzz_examples, "too few tables are predicted"
