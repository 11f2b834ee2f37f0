"""Numbers used as names keep all digits, so long numbers are never merged."""

from __future__ import annotations

import numpy as np
import pandas as pd
from all_cases import all_cases

from mtlrun.data.reading.names import number_name
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import Schema, read_rows

LONG = [1234567.0, 1234568.0, 1234567.25]


@all_cases(
    ("value", "name"),
    [
        (7.0, "7"),
        (-3.0, "-3"),
        (0.5, "0.5"),
        (-0.0, "0"),
        (1234567.0, "1234567"),
        (1e20, "1e+20"),
        (1e-7, "1e-07"),
    ],
)
def test_numbers_are_formatted_exactly(value, name):
    assert number_name(value) == number_name(np.float64(value)) == name


def test_names_of_different_numbers_differ():
    values = np.concatenate(
        [LONG, np.nextafter(LONG, 2e9), np.arange(2**53 - 3, 2**53 + 1, dtype=float)]
    )
    assert len({number_name(v) for v in values.tolist()}) == len(set(values.tolist()))


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(size=30), "code": LONG * 10, "task": LONG * 10}
    )
    return frame.assign(y=frame.a)


def test_tasks_and_categories_with_long_numbers_stay_apart():
    roles = Roles(targets=("y",), task="task", categorical=("code",))
    data = make_dataset(table_of_frame(_table()), roles)
    assert data.tasks == ["1234567", "1234567.25", "1234568"]
    assert sorted(data.categories["code"]) == sorted(data.tasks)
    assert len(np.unique(data.X[:, 1])) == 3


def test_new_rows_name_the_same_tasks(tmp_path):
    frame = _table()
    frame.to_csv(tmp_path / "new.csv", index=False)
    np.savez(
        tmp_path / "new.npz", X=frame[["a"]].to_numpy(), task_id=np.array(LONG * 10)
    )
    lines = [f"{a},{t}" for a, t in zip(frame.a, frame.task, strict=True)]
    head = "@relation r\n@attribute a numeric\n@attribute task numeric\n@data\n"
    (tmp_path / "new.arff").write_text(head + "\n".join(lines) + "\n")
    wanted = Schema(1, ("a",), task_column="task", table=True)
    assert read_rows(tmp_path / "new.csv", wanted).tasks[:3] == [
        "1234567",
        "1234568",
        "1234567.25",
    ]
    for name in ("new.npz", "new.arff"):
        tasks = read_rows(tmp_path / name, Schema(1, ("a",), task_column="task")).tasks
        assert tasks[:3] == ["1234567", "1234568", "1234567.25"]
