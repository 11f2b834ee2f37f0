"""Folders of files on the command line: train, predict, compare, and rejected files."""

import json

import numpy as np
import pandas as pd
import pytest

TRAINING = """\
schema: 1
id: own/shops
kind: train
data: {files: rows, target: y, task: store}
method: {estimator: TraceNormMTL, grid: {alpha: [1, 10, 100]}}
folds: 4
"""


@pytest.fixture
def rows(tmp_path):
    """Write a folder of three CSV files and return it with their rows."""
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(600, 3)) + 5, rng.integers(4, size=600)
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["y"] = (X * rng.normal(size=(4, 3))[task]).sum(axis=1) + rng.normal(size=600)
    frame["store"] = [f"s{t}" for t in task]
    (tmp_path / "rows").mkdir()
    for k in range(3):
        frame[200 * k : 200 * (k + 1)].to_csv(
            tmp_path / "rows" / f"part{k}.csv", index=False
        )
    (tmp_path / "shops.yaml").write_text(TRAINING)
    return frame


def test_train_and_predict_read_a_folder_of_files(mtlrun, rows, tmp_path):
    result = mtlrun("train", "shops.yaml", "-o", "out")
    assert result.exit_code == 0, result.output
    assert "chosen: alpha=" in result.stdout
    assert "600 rows of 3 of 3 files" in result.stderr
    saved = json.loads((tmp_path / "out/own/shops/metrics.json").read_text())
    assert 0.9 < saved["metrics"]["rmse"] < 1.2
    assert (
        mtlrun("predict", "out/own/shops", "rows/part0.csv", "--out", "p.csv").exit_code
        == 0
    )
    assert np.std(pd.read_csv("p.csv")["prediction"] - rows.y[:200]) < 1.1
    other = mtlrun("train", "shops.yaml", "-o", "out", "--set", "folds=3")
    assert other.exit_code == 2
    assert "--force" in other.stderr


@pytest.mark.parametrize(
    ("old", "new", "location"),
    [
        ("folds: 4", "folds: two", "bad.yaml:6:8"),
        ("task: store", "task: stor", "store"),
        ("files: rows", "files: rowz", "rowz"),
        ("TraceNormMTL", "TraceNormMTLClassifier", "Use TraceNormMTL"),
        ("{alpha:", "{alpah:", "alpha"),
    ],
)
def test_train_rejects_an_invalid_training_file(
    mtlrun, rows, tmp_path, old, new, location
):
    (tmp_path / "bad.yaml").write_text(TRAINING.replace(old, new))
    result = mtlrun("train", "bad.yaml")
    assert result.exit_code == 2
    assert location in result.stderr
    assert mtlrun("validate", "shops.yaml").exit_code == 0
    assert mtlrun("validate", "bad.yaml").exit_code == (
        2 if location.startswith("bad.yaml") else 0
    )


@pytest.mark.slow
def test_compare_reads_a_folder_of_files(mtlrun, rows, tmp_path):
    result = mtlrun(
        "compare",
        "rows",
        "--target",
        "y",
        "--task",
        "store",
        "--methods",
        "GraphMTL",
        "-o",
        "out",
    )
    assert result.exit_code == 0, result.output
    assert "PooledRidge" in result.stdout
    assert (tmp_path / "out/compare/rows/leaderboard.html").is_file()
    with (tmp_path / "rows/part1.csv").open("a") as stream:
        stream.write("1,2,many,4,s1\n")
    refused = mtlrun("compare", "rows", "--target", "y", "--task", "store", "-o", "out")
    assert refused.exit_code == 2
    assert "part1.csv: column 'c' has 'many' in row 201" in refused.stderr
    for options in (
        ["--group", "a"],
        ["--metric", "r2"],
        ["--calibrate"],
        ["--test", "rows/part0.csv"],
    ):
        assert (
            mtlrun(
                "compare", "rows", "--target", "y", "--task", "store", *options
            ).exit_code
            == 2
        )
    assert (
        mtlrun(
            "compare",
            "rows/part0.csv",
            "--target",
            "y",
            "--task",
            "store",
            "--backend",
            "dask",
        ).exit_code
        == 2
    )
