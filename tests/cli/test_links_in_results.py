"""Links among the folders of results and data, which may come from others, are refused
before anything is written through them.
"""

import shutil
from pathlib import Path

import pandas as pd
import pytest

RUNS = Path("results/runs")
RUN = "made/table1/full"
TRAINING = """\
schema: 1
kind: train
id: made/small
dataset: {id: simulated-fetr, n: 40, d: 5, m: 3}
method: {estimator: IndependentRidge, params: {alpha: 2.0}}
split: {kind: random, train: 0.5}
metrics: [mse]
"""
#: Folders of a run, below the folder of results.
FOLDERS = ["cells", "made", "made/table1", RUN, f"{RUN}/figures"]


@pytest.fixture
def outside(tmp_path):
    """A folder that links lead to, with a file that no command may touch."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious.json").write_text("mine")
    return folder


def refused(result, link, outside):
    """Check that a command has named a link, and written nothing behind it."""
    assert result.exit_code == 2, result.output
    assert f"error: {link} is a link" in result.stderr
    assert [path.name for path in outside.rglob("*")] == ["precious.json"]
    assert (outside / "precious.json").read_text() == "mine"


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("is_repeated", [False, True])
def test_reproduce_writes_through_no_link(
    mtlrun, write_experiment, outside, name, is_repeated
):
    write_experiment()
    options = []
    if is_repeated:
        assert mtlrun("reproduce", "table.yaml").exit_code == 0
        shutil.rmtree(RUNS / name, ignore_errors=True)
        options = ["--force"]
    link = RUNS / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    refused(mtlrun("reproduce", "table.yaml", *options), link, outside)


def test_a_run_that_is_up_to_date_tidies_nothing_behind_a_link(
    mtlrun, write_experiment, outside
):
    write_experiment()
    assert mtlrun("reproduce", "table.yaml").exit_code == 0
    shutil.copytree(RUNS / "made", outside / "made")
    shutil.rmtree(RUNS / "made")
    (RUNS / "made").symlink_to(outside / "made")
    before = {path: path.stat().st_mtime_ns for path in outside.rglob("*")}
    result = mtlrun("reproduce", "table.yaml")
    assert result.exit_code == 2
    assert {path: path.stat().st_mtime_ns for path in outside.rglob("*")} == before


@pytest.mark.parametrize("command", ["report", "verify"])
@pytest.mark.parametrize("target", ["table.yaml", str(RUNS)])
def test_report_and_verify_write_through_no_link(
    mtlrun, write_experiment, outside, command, target
):
    write_experiment()
    assert mtlrun("reproduce", "table.yaml").exit_code == 0
    shutil.move(RUNS / "made", outside.parent / "theirs")
    (RUNS / "made").symlink_to(outside.parent / "theirs")
    files = [path for path in (outside.parent / "theirs").rglob("*") if path.is_file()]
    before = {path: path.stat().st_mtime_ns for path in files}
    result = mtlrun(command, target)
    assert f"{RUNS / 'made'} is a link" in result.stderr, result.output
    assert {path: path.stat().st_mtime_ns for path in files} == before


@pytest.mark.parametrize("name", ["made", "made/small", "cells"])
def test_train_writes_through_no_link(mtlrun, tmp_path, outside, name):
    (tmp_path / "small.yaml").write_text(TRAINING)
    link = RUNS / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    refused(mtlrun("train", "small.yaml"), link, outside)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["", "grades", "grades/cells", "grades/model", "grades/data"]
)
def test_compare_writes_through_no_link(mtlrun, outside, name):
    rows = {"a": [1.0, 2.0, 3.5, 4.0] * 6, "y": [1.0, 2.0, 2.5, 4.5] * 6}
    table = pd.DataFrame({**rows, "school": list("xy") * 12})
    table.to_csv("grades.csv", index=False)
    link = RUNS / "compare" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    options = ["--target", "y", "--task", "school", "--methods", "PooledRidge"]
    options += ["--splits", "2", "--repeats", "1", "--quiet"]
    refused(mtlrun("compare", "grades.csv", *options), link, outside)


def test_a_link_that_the_user_names_is_followed(mtlrun, write_experiment, outside):
    write_experiment()
    Path("named").symlink_to(outside)
    options = ["--output", "named"]
    assert mtlrun("reproduce", "table.yaml", *options).exit_code == 0
    assert (outside / RUN / "report.md").is_file()
    assert mtlrun("report", f"named/{RUN}").exit_code == 0
