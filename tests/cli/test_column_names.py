"""Tables whose column names coincide with names that mtlrun uses in its files."""

import json

import numpy as np
import pandas as pd
import pytest

TAKEN = [
    "intercept",
    "task",
    "row",
    "index",
    "target",
    "prediction",
    "task_id",
    "y",
    "intercept (2)",
    "club=chess",
]


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, len(TAKEN))), columns=TAKEN)
    table["club"] = rng.choice(["chess", "choir"], 60)
    table["school"] = np.repeat(["north", "south", "west"], 20)
    table["grade"] = table.intercept - table.task + 0.1 * rng.normal(size=60)
    return table


def use(mtlrun, folder, *columns, train=False):
    """Compare, predict and train a method; return the folder of the comparison."""
    compare = (
        "compare",
        "s.csv",
        *columns,
        "--methods",
        "PooledRidge",
        "--splits",
        "2",
        "--repeats",
        "1",
        "--folds",
        "2",
    )
    commands = [
        (*compare, "-o", "out"),
        ("predict", "out/compare/s/model", "s.csv", "--output", "new.csv"),
    ]
    if train:
        commands.append(
            (
                "train",
                "out/compare/s/chosen.yaml",
                "--data-dir",
                "out/compare/s/data",
                "-o",
                "out",
            )
        )
    for words in commands:
        result = mtlrun(*words)
        assert result.exit_code == 0, result.output
    return folder / "out/compare/s"


@pytest.mark.slow
def test_features_may_have_any_name(mtlrun, tmp_path, frame):
    frame.to_csv(tmp_path / "s.csv", index=False)
    folder = use(mtlrun, tmp_path, "-t", "grade", "--task", "school", train=True)
    header = (folder / "coefficients.csv").read_text().splitlines()[0].split(",")
    assert header[:2] == ["task", "intercept"]
    assert len(set(header)) == len(header) == 2 + len(TAKEN) + 2
    table = pd.read_csv(folder / "coefficients.csv")
    stored = np.load(folder / "model" / "coefficients.npz")
    assert stored["features"].tolist()[:2] == ["intercept", "task"]
    np.testing.assert_allclose(table.iloc[:, 2:], stored["coef"], rtol=1e-6)
    np.testing.assert_allclose(table["intercept"], stored["intercept"], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize("task", ["intercept", "task", "row", "index"])
def test_the_task_column_may_have_any_name(mtlrun, tmp_path, frame, task):
    frame[task] = frame.pop("school")
    frame.to_csv(tmp_path / "s.csv", index=False)
    use(mtlrun, tmp_path, "-t", "grade", "--task", task)
    assert set(pd.read_csv(tmp_path / "new.csv")["task"]) == {"north", "south", "west"}


@pytest.mark.slow
def test_several_targets_may_have_any_names(mtlrun, tmp_path, frame):
    frame.to_csv(tmp_path / "s.csv", index=False)
    folder = use(
        mtlrun,
        tmp_path,
        "--targets",
        "intercept,task,row,index",
        "--drop",
        "school",
        train=True,
    )
    assert json.loads((folder / "model/model.json").read_text())["tasks"] == [
        "intercept",
        "task",
        "row",
        "index",
    ]
    header = (tmp_path / "new.csv").read_text().splitlines()[0].split(",")
    assert header[:1] == ["row"]
    # A prediction and the limits of its interval for each of the four targets.
    assert len(set(header)) == len(header) == 1 + 3 * 4 + 3


@pytest.mark.slow
def test_a_single_target_may_have_any_name(mtlrun, tmp_path, frame):
    for name in ("intercept", "prediction"):
        frame.to_csv(tmp_path / "s.csv", index=False)
        use(mtlrun, tmp_path, "-t", name, "--task", "school")
        assert len(pd.read_csv(tmp_path / "new.csv")) == len(frame)
        (tmp_path / "out").rename(tmp_path / name)
