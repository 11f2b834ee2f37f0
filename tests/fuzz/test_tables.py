"""A table is the same in every container, and models accept new rows from any of them
or reject them.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from containers import CONTAINERS, GAPS, KINDS, WORDS, tables
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from mtlrun.data.dataset import Dataset
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import Table
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.errors import DataError, UserError
from mtlrun.estimators import HierarchicalMTL, IndependentRidge
from mtlrun.features.table import TableFeatures
from mtlrun.model.files import load_model, save_model
from mtlrun.model.fitted import Model

#: Roles of the columns, by kind of targets
ROLES = {
    kind: Roles(
        targets=("y", "z"),
        task=None,
        task_type=task_type,
        group="group",
        categorical=("word", "task"),
    )
    if "targets" in kind
    else Roles(
        targets=("y",),
        task="task",
        task_type=task_type,
        group="group",
        categorical=("word",),
        min_rows=1,
    )
    for kind, task_type in KINDS.items()
}
#: Trained models: one for each kind of targets, and one that estimates variances from
#: the rows
TRAINED = [(kind, IndependentRidge) for kind in KINDS] + [("numbers", HierarchicalMTL)]
#: Number of groups of containers. Those of a group share their tables.
N_GROUPS = 3
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
pytest.importorskip("polars")
pytest.importorskip("pyarrow")
pytest.importorskip("openpyxl")


def quiet(examples: int) -> settings:
    """Return Hypothesis settings; fewer than 1000 tables are the same in every run."""
    return settings(
        max_examples=examples,
        derandomize=examples < 1000,
        phases=[Phase.generate, Phase.shrink],
        **QUIET,
    )


def written(frame: pd.DataFrame, container: str, folder: Path) -> Table:
    """Write a table into a container and read it."""
    return read_table(CONTAINERS[container](frame, folder / f"t{container}"))


def fitted(
    table: Table, kind: str, estimator_class: type = IndependentRidge
) -> tuple[Model, Dataset]:
    """Fit a model to a table; return it with the data set."""
    data = make_dataset(table, ROLES[kind])
    step = TableFeatures(
        {data.features.index(name): words for name, words in data.categories.items()}
    ).fit(data.X)
    every = np.arange(data.n_samples)
    ready = replace(data, X=step.transform(data.X), features=[])
    estimator = TrainTestData.of(ready, every, every[:1]).fit(
        estimator_class(unseen="mean")
    )
    read = {
        "n_features": data.n_features,
        "names": data.features,
        "strings": False,
        "task_column": ROLES[kind].task,
    }
    facts: dict[str, Any] = {
        "task_type": data.task_type,
        "design": "shared" if data.task_id is None else "ragged",
        "tasks": data.tasks,
        "input": {**read, "table": True, "categories": data.categories},
        "targets": data.targets,
        "labels": data.labels,
        "label_types": data.label_types,
        "estimator": {"name": estimator_class.__name__},
        "dataset": {"id": "t"},
    }
    return Model(estimator, step, facts), data


def by_name(data: Dataset) -> dict[str, Any]:
    """Return the content of a data set by row, whatever the order of features."""
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    what = {
        "tasks": data.tasks,
        "task_id": data.task_id,
        "y": data.y,
        "categories": data.categories,
    }
    return (
        what
        | data.labels
        | data.source
        | {name: X[:, j] for j, name in enumerate(data.features)}
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", range(N_GROUPS))
def test_every_container_keeps_a_table(first: int, fuzz_examples: int) -> None:
    containers = list(CONTAINERS)[first::N_GROUPS]

    @quiet(max(6, fuzz_examples // 4))
    @given(st.data())
    def try_one(data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(list(KINDS)))
        frame = data.draw(tables(kind=kind))
        expected = by_name(make_dataset(read_table(frame), ROLES[kind]))
        with tempfile.TemporaryDirectory() as folder:
            for container in containers:
                table = written(frame, container, Path(folder))
                check_container(container, table, frame, kind, expected)

    try_one()


def check_container(
    container: str,
    table: Table,
    frame: pd.DataFrame,
    kind: str,
    expected: dict[str, Any],
) -> None:
    """Compare a table that was read from a container with its frame."""
    # Sparse rows cannot have missing values.
    if table.sparse is not None and frame.gaps.isna().any():
        with pytest.raises(DataError):
            make_dataset(table, ROLES[kind])
        return
    try:
        actual = by_name(make_dataset(table, ROLES[kind]))
    except DataError:
        # Beside the text 1.10, the decimal mark of 1,5 is ambiguous.
        assert container == ".comma.csv"
        assert (
            frame.astype(str)[["task", "word", "group"]]
            .stack()
            .str.contains(r"\.\d")
            .any()
        )
        return
    assert set(actual) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(
            actual[name], values, err_msg=f"{container}: {name}"
        )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "estimator_class"), TRAINED)
def test_new_rows_are_matched_by_the_names_of_the_training_rows(
    kind: str, estimator_class: type, fuzz_examples: int
) -> None:
    """Rows in another container have the same predictions, or cause an error."""
    taken, examples = (
        0,
        fuzz_examples if (kind, estimator_class) == TRAINED[0] else fuzz_examples // 2,
    )

    @quiet(examples)
    @given(tables(WORDS | st.sampled_from(GAPS), kind), st.data())
    def try_one(frame: pd.DataFrame, data: st.DataObject) -> None:
        nonlocal taken
        first, second = (data.draw(st.sampled_from(list(CONTAINERS))) for _ in range(2))
        rows = data.draw(
            st.lists(
                st.integers(0, len(frame) - 1), min_size=1, max_size=5, unique=True
            )
        )
        columns = data.draw(
            st.permutations(
                [name for name in frame.columns if name not in ("y", "z", "group")]
            )
        )
        new = frame.iloc[rows].reset_index(drop=True)[columns]
        with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter(
                "error", UserWarning
            )  # A category unknown to the model would be reported.
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # Targets without noise depend on rounding.
            folder = Path(name)
            try:
                model, training_set = fitted(
                    written(frame, first, folder), kind, estimator_class
                )
            except UserError:  # A task named NA in a CSV file
                return
            if training_set.n_samples < len(
                frame
            ):  # Tasks with a single class are left out.
                return
            X, task_id = training_set.X, training_set.task_id
            if kind == "classes":  # The tasks of the rows are columns of the data set.
                table = read_table(
                    CONTAINERS[first](frame, folder / f"t{first}"), like=model.schema
                )
                X, task_id = model.read(table)
            expected = model.answers(X, task_id)[rows]
            save_model(folder / "model", model)
            for reader in (model, load_model(folder / "model")):
                for container in (second, ".frame"):
                    try:
                        table = read_table(
                            CONTAINERS[container](new, folder / f"n{container}"),
                            like=reader.schema,
                        )
                        actual = reader.answers(*reader.read(table))
                    except (
                        UserError,
                        ValueError,
                        # ValueError: a missing value in a row for a model of sparse
                        # rows.
                    ):
                        continue
                    except UserWarning as warning:
                        # ARFF files declare words such as NA, which are gaps in others.
                        words = set(re.findall(r"'([^']*)'", str(warning)))
                        if container.endswith(".arff") and words & set(GAPS):
                            continue
                        raise
                    assert actual.dtype == expected.dtype
                    compare = (
                        np.testing.assert_allclose
                        if actual.dtype.kind == "f"
                        else np.testing.assert_array_equal
                    )
                    compare(actual, expected, err_msg=f"{first} then {container}")
                    taken += 1

    try_one()
    # Each table can be taken four times; how many are depends on what is drawn.
    assert taken >= examples // 5, "too few tables are predicted"
