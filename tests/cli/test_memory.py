"""Methods that would not fit into memory, on the command line: a row with the reason, never the end of the run."""

import json

import numpy as np
import pandas as pd


def table(folder):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    frame["school"], frame["grade"] = np.repeat(["x", "y", "z"], 20), frame.a + rng.normal(size=60)
    frame.to_csv(folder / "grades.csv", index=False)
    return ("compare", "grades.csv", "--target", "grade", "--task-column", "school", "--splits", "2")


def test_a_method_that_does_not_fit_is_a_row_with_the_reason(mtlrun, tmp_path, monkeypatch):
    monkeypatch.setattr("mtlrun.estimators.convex.ConvexMTL._bytes", lambda self, data: 1e15)
    result = mtlrun(*table(tmp_path), "--methods", "JointFeatureMTL", "-o", "out")
    assert result.exit_code == 0, result.output
    board = json.loads((tmp_path / "out" / "compare" / "grades" / "leaderboard.json").read_text())
    rows = {row["method"]: row for row in board["methods"]}
    assert rows["JointFeatureMTL"]["score"] is None
    assert "3 features and 3 tasks needs 1e+06 GB" in rows["JointFeatureMTL"]["errors"][0]
    assert rows["IndependentRidge"]["score"] is not None


def test_where_nothing_fits_the_message_has_sizes_and_remedy(mtlrun, tmp_path, monkeypatch):
    monkeypatch.setattr("mtlrun.estimators.base.BaseMTL._bytes", lambda self, data: 1e15)
    for name in ("Independent", "Pooled"):
        monkeypatch.setattr(f"mtlrun.estimators.single.{name}._bytes", lambda self, data: 1e15)
    monkeypatch.setattr("mtlrun.estimators.independent.IndependentRidge._bytes", lambda self, data: 1e15)
    monkeypatch.setattr("mtlrun.estimators.tabular.TaskMean.fit", lambda *args, **kwargs: 1 / 0)
    result = mtlrun(*table(tmp_path), "--methods", "IndependentRidge")
    assert result.exit_code == 2
    assert "3 features and 3 tasks" in result.output
    assert "Traceback" not in result.output
