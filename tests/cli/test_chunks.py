"""Folders of files on the command line: train, predict, compare, and rejected files."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mtlrun.api import run_comparison
from mtlrun.cli.app import app
from mtlrun.comparison.options import CompareOptions, TargetColumns
from mtlrun.data.roles.roles import Roles

TRAINING = """\
schema: 1
id: own/shops
kind: train
data: {files: rows, target: y, task: store}
method: {estimator: TraceNormMTL, grid: {alpha: [1, 10, 100]}}
folds: 4
"""


def write_rows(folder, n_features=3):
    """Write a folder of three CSV files and a training file, and return the rows."""
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(600, n_features)) + 5, rng.integers(4, size=600)
    frame = pd.DataFrame(X, columns=list("abcdefghijklmnopqrstu")[:n_features])
    W = rng.normal(size=(4, n_features))
    frame["y"] = (X * W[task]).sum(axis=1) + rng.normal(size=600)
    frame["store"] = [f"s{t}" for t in task]
    (folder / "rows").mkdir()
    for k in range(3):
        frame[200 * k : 200 * (k + 1)].to_csv(
            folder / "rows" / f"part{k}.csv", index=False
        )
    (folder / "shops.yaml").write_text(TRAINING)
    return frame


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path)


def test_train_and_predict_read_a_folder_of_files(mtlrun, rows, tmp_path):
    result = mtlrun("train", "shops.yaml", "-o", "out")
    assert result.exit_code == 0, result.output
    assert "chosen: alpha=" in result.stdout
    assert "3 of 3 files" in result.stderr
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


def stored(rows, folder, suffix):
    """Write rows into three files of a folder."""
    folder.mkdir()
    for k in range(3):
        part = rows[200 * k : 200 * (k + 1)]
        if suffix == "csv":
            part.to_csv(folder / f"part{k}.csv", index=False)
        else:
            part.to_parquet(folder / f"part{k}.parquet", index=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return the folder of a model of a folder of files."""
    folder = tmp_path_factory.mktemp("trained")
    write_rows(folder)
    words = ["train", str(folder / "shops.yaml"), "-o", str(folder / "out"), "-q"]
    assert CliRunner().invoke(app, words).exit_code == 0
    return folder / "out"


@pytest.fixture
def trained(mtlrun, model, tmp_path):
    """Return the command line, in a folder with a model of a folder of files."""
    shutil.copytree(model, tmp_path / "out")
    return mtlrun


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_folder_is_predicted_in_parts_like_its_files(trained, rows, tmp_path, suffix):
    rows = rows.assign(visit=[f"v{k}" for k in range(600)])
    stored(rows, tmp_path / "new", suffix)
    result = trained("predict", "out/own/shops", "new")
    assert result.exit_code == 0, result.output
    parts = sorted((tmp_path / "new-predictions").glob("*.csv"))
    assert [part.name for part in parts] == ["part0.csv", "part1.csv", "part2.csv"]
    tables = [pd.read_csv(part) for part in parts]
    for k, table in enumerate(tables):
        trained("predict", "out/own/shops", f"new/part{k}.{suffix}", "-o", "one.csv")
        pd.testing.assert_frame_equal(table, pd.read_csv("one.csv"))
        assert table.visit.tolist() == rows.visit[200 * k : 200 * (k + 1)].tolist()
    # A single file holds the same rows.
    pattern = f"new/*.{suffix}"
    result = trained("predict", "out/own/shops", pattern, "-o", "all.csv")
    assert result.exit_code == 0, result.output
    together = pd.concat(tables, ignore_index=True)
    pd.testing.assert_frame_equal(pd.read_csv("all.csv"), together)


@pytest.mark.slow
def test_hierarchical_models_are_compared_by_default_for_few_features(mtlrun, tmp_path):
    write_rows(tmp_path, n_features=20)
    roles = ("--target", "y", "--task", "store", "--splits", "3", "--explain")
    result = mtlrun("compare", "rows", *roles, "-o", "few")
    assert "HierarchicalMTL" in result.stdout
    shutil.rmtree("rows")
    write_rows(tmp_path, n_features=21)
    result = mtlrun("compare", "rows", *roles, "-o", "many")
    assert "HierarchicalMTL" not in result.stdout


def test_rows_of_unknown_tasks_in_a_folder_are_empty_and_counted(
    trained, rows, tmp_path
):
    rows.loc[[5, 300], "store"] = "s9"
    stored(rows, tmp_path / "new", "csv")
    result = trained("predict", "out/own/shops", "new", "-o", "all.csv")
    assert result.exit_code == 0, result.output
    assert "2 rows of 1 task" in result.stderr
    table = pd.read_csv("all.csv")
    assert np.flatnonzero(table.prediction.isna()).tolist() == [5, 300]
    stored(rows.assign(store="s9"), tmp_path / "unknown", "csv")
    result = trained("predict", "out/own/shops", "unknown")
    assert result.exit_code == 2


def times_in(folder, pattern="*.csv"):
    """Return when the files of a folder were written, by their names in order."""
    paths = sorted(folder.glob(pattern))
    return {path.name: path.stat().st_mtime_ns for path in paths}


def test_an_interrupted_prediction_of_a_folder_goes_on(
    trained, rows, tmp_path, monkeypatch
):
    stored(rows, tmp_path / "new", "csv")
    folder = tmp_path / "new-predictions"
    read_csv = pd.read_csv
    n_read = 0

    def interrupted(*arguments, **options):
        nonlocal n_read
        n_read += 1
        if n_read == 3:
            raise KeyboardInterrupt
        return read_csv(*arguments, **options)

    def predicted(*options):
        """Predict, and return the files that were written."""
        before = times_in(folder)
        result = trained("predict", "out/own/shops", "new", *options)
        assert result.exit_code == 0, result.output
        return sorted(dict(times_in(folder).items() - before.items()))

    with monkeypatch.context() as patch:
        patch.setattr(pd, "read_csv", interrupted)
        result = trained("predict", "out/own/shops", "new")
    assert result.exit_code != 0
    assert "2 files of 3" in result.stderr
    assert list(times_in(folder)) == ["part0.csv", "part1.csv"]
    assert predicted() == ["part2.csv"]
    # A file that has changed since is predicted again.
    (tmp_path / "new" / "part1.csv").touch()
    assert predicted() == ["part1.csv"]
    # Other options are other predictions.
    names = ["part0.csv", "part1.csv", "part2.csv"]
    assert predicted("--task-name", "s1") == names


@pytest.mark.parametrize("n_jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_an_interrupted_comparison_of_a_folder_goes_on(mtlrun, rows, tmp_path, n_jobs):
    roles = ("--target", "y", "--task", "store", "--methods", "PooledRidge")
    command = ("compare", "rows", *roles, "--splits", "3")
    result = mtlrun(*command, "-o", "whole")
    assert result.exit_code == 0, result.output
    expected = pd.read_csv(tmp_path / "whole/compare/rows/leaderboard.csv")

    folder = tmp_path / "out/compare/rows"

    def interrupted(n_jobs):
        """Interrupt the comparison before its second pass; return what it has said."""
        options = CompareOptions(methods=("PooledRidge",), splits=3, jobs=n_jobs)
        texts = []

        def say(text):
            texts.append(text)
            if text.startswith("second pass"):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_comparison(
                tmp_path / "rows",
                TargetColumns(target="y"),
                Roles(task="store", task_type="regression"),
                options,
                output=folder,
                say=say,
            )
        assert "3 of 3 pairs" in texts[-1]
        return "\n".join(texts)

    assert "rows per second" in interrupted(int(n_jobs))
    kept = times_in(folder, "sums-*/*")
    printed = interrupted(1)
    assert "are used" in printed
    assert "rows per second" not in printed
    # Neither sums nor fits are computed again.
    assert times_in(folder, "sums-*/*") == kept
    result = mtlrun(*command, "-o", "out")
    assert result.exit_code == 0, result.output
    assert "are used" in result.stderr
    board = pd.read_csv(folder / "leaderboard.csv")
    times = ["seconds"]
    pd.testing.assert_frame_equal(
        board.drop(columns=times, errors="ignore"),
        expected.drop(columns=times, errors="ignore"),
    )
    assert not list(folder.glob("sums-*"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_large_file_is_read_in_chunks_by_itself(
    trained, rows, tmp_path, monkeypatch, suffix
):
    from mtlrun.chunks import table

    stored(rows, tmp_path / "new", suffix)
    file = f"new/part0.{suffix}"
    monkeypatch.setattr(table, "MAX_CELLS", 900)
    monkeypatch.setattr(table, "MAX_CSV_BYTES", 900)
    roles = ("--target", "y", "--task", "store", "--methods", "PooledRidge")
    result = trained("compare", file, *roles, "--splits", "3", "-o", "large")
    assert result.exit_code == 0, result.output
    assert (
        "one pass over"
        in (tmp_path / "large/compare/part0/leaderboard.html").read_text()
    )
    result = trained("predict", "large/compare/part0", file)
    assert result.exit_code == 0, result.output
    assert len(pd.read_csv("part0-predictions.csv")) == 200


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
    assert "'many' in row 201" in refused.stderr
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
