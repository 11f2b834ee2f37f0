"""Results as a tidy table: one row per job of runs, comparisons and trainings, compared
with their files.
"""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import mtlrun
from mtlrun.cli.app import app
from mtlrun.errors import DataError
from mtlrun.lab.report.build import result_sections
from mtlrun.lab.report.frames import load_results


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Return a run, a comparison and a training below one folder."""
    root = tmp_path_factory.mktemp("results")
    mtlrun.reproduce(
        "table2", profile="smoke", output=root, only=["method=IndSVM,method=RidgeReg"]
    )
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    table["task"], table["y"] = np.repeat(["u", "v"], 30), table.a + rng.normal(size=60)
    result = mtlrun.compare(
        table,
        target="y",
        task="task",
        methods=["GraphMTL"],
        splits=2,
        repeats=1,
        folds=2,
        output=root / "compare/x",
    )
    result.save(root / "compare" / "x")
    (root / "mine.yaml").write_text(
        "schema: 1\nid: my/model\ntitle: Mine\nkind: train\n"
        "dataset: {id: simulated-rmtl, n: 40, d: 5, m: 3}\nselection: {folds: 2}\n"
        "method: {estimator: IndependentRidge, grid: {alpha: [1.0, 9.0]}}\n"
        "split: {kind: random, train: 0.5}\nmetrics: [auc]\n"
    )
    run = CliRunner().invoke(
        app, ["train", str(root / "mine.yaml"), "-o", str(root / "train")]
    )
    assert run.exit_code == 0, run.output
    return root


@pytest.mark.every(2, others="slow")
def test_a_tree_has_a_row_for_each_job_of_each_table(root):
    results = load_results(root)
    planned = len(
        json.loads((root / "compare" / "x" / "compare.json").read_text())["cells"]
    )
    assert planned > 6
    assert results.groupby("kind").size().to_dict() == {
        "compare": planned,
        "reproduce": 10,
        "train": 1,
    }
    assert list(results.columns[:9]) == [
        *(
            "kind",
            "experiment",
            "profile",
            "reading",
            "dataset",
            "value",
            "method",
            "trial",
            "status",
        )
    ]
    assert results.groupby("kind")["folder"].first().to_dict() == {
        "compare": "compare/x",
        "reproduce": "dcrmtl/table2/smoke",
        "train": "train/my/model",
    }


def test_numbers_equal_those_in_the_files(root):
    results = load_results(root)
    stored = json.loads((root / "train" / "my" / "model" / "metrics.json").read_text())
    row = results[results.kind == "train"].iloc[0]
    assert (row.auc, row.seconds, row.param_alpha) == (
        stored["metrics"]["auc"],
        stored["seconds"]["fit"],
        stored["selection"]["chosen"]["alpha"],
    )
    board = pd.read_csv(root / "compare" / "x" / "leaderboard.csv").set_index("method")[
        "rmse"
    ]
    means = results[results.kind == "compare"].groupby("method")["rmse"].mean()
    assert means.loc[board.index].to_numpy() == pytest.approx(board.to_numpy())
    run = mtlrun.load_run(root / "dcrmtl" / "table2" / "smoke")
    shown = {row.method: row.value("auc") for row in run.rows if row.n}
    auc = results[(results.kind == "reproduce") & (results.status == "ok")].set_index(
        "method"
    )["auc"]
    assert auc.to_dict() == pytest.approx(shown)


def test_results_not_computed_are_missing_values(root):
    results = load_results(root / "dcrmtl" / "table2" / "smoke")
    missing = results[results.status == "missing"]
    assert len(missing) == 8
    assert set(results.method) - set(missing.method) == {
        "IndSVM",
        "RidgeReg",
    }
    assert missing.auc.isna().all()


def test_parquet_preserves_the_table(root, tmp_path):
    for target, options in (
        (root, ["--out", str(tmp_path / "all.parquet")]),
        (root / "compare" / "x", []),
    ):
        result = CliRunner().invoke(
            app, ["report", str(target), "--format", "parquet", *options]
        )
        assert result.exit_code == 0, result.output
    assert len(pd.read_parquet(root / "compare" / "x" / "results.parquet")) == len(
        load_results(root / "compare" / "x")
    )
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "all.parquet"), load_results(root), check_dtype=False
    )


def test_a_damaged_folder_is_skipped_in_a_tree_and_rejected_by_name(root, tmp_path):
    bad = root / "dcrmtl" / "table9" / "smoke"
    bad.mkdir(parents=True)
    (bad / "run.json").write_text("{")
    try:
        with pytest.warns(UserWarning, match=r"table9.*run\.json"):
            assert set(load_results(root)["kind"]) == {"compare", "reproduce", "train"}
        with pytest.raises(DataError, match=r"run\.json"):
            load_results(bad)
    finally:
        (bad / "run.json").unlink()
    with pytest.raises(DataError, match="no results") as caught:
        load_results(tmp_path)
    assert "results/runs" in caught.value.remedy


def test_objects_have_a_readable_repr(root):
    report = mtlrun.load_run(root / "dcrmtl" / "table2" / "smoke")
    assert (
        repr(report)
        == "<Report dcrmtl/table2, profile smoke: 2 of 10 results done, 8 not computed yet>"
    )
    page = report._repr_html_()
    assert page.count("<table>") == len(result_sections(report))
    assert all(line.split("'")[0] in page for line in report.summary)
    assert len(report.frame()) == 10
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "a": rng.normal(size=40),
            "<b>": np.repeat(["u", "v"], 20),
            "y": rng.normal(size=40),
        }
    )
    result = mtlrun.compare(
        table,
        target="y",
        task="<b>",
        methods=["PooledRidge"],
        splits=2,
        repeats=1,
        folds=2,
    )
    assert "PooledRidge" in result._repr_html_()
    assert "<b>u" not in result._repr_html_()
