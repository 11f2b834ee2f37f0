"""``--retries`` recomputes a failed job, at most that many times."""

import json

import numpy as np
import pandas as pd
import pytest

ONE = "split: {kind: random, train: 0.5, trials: 1}"


@pytest.mark.every(2)
@pytest.mark.parametrize("method_lines", [[], ["--fail-fast"]])
@pytest.mark.parametrize(
    ("retries", "status", "fits"),
    [(0, "failed", 1), (1, "failed", 2), (2, "done", 3), (9, "done", 3)],
)
def test_a_failed_job_is_retried(
    mtlrun, write_experiment, tmp_path, retries, status, fits, method_lines
):
    write_experiment("Flaky", split=ONE)
    result = mtlrun("reproduce", "table.yaml", "--retries", str(retries), *method_lines)
    assert result.exit_code == (0 if status == "done" else 1), result.output
    assert result.stderr.count("again: ") == fits - 1
    assert len((tmp_path / "fits").read_text()) == fits
    states = json.loads(mtlrun("status", "table.yaml", "--json").stdout)
    assert {job["method"]: job["state"] for job in states["cells"]}["Flaky"] == status


@pytest.mark.slow
def test_compare_retries_failed_jobs_too(mtlrun, write_experiment, tmp_path):
    write_experiment()
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    table["task"], table["y"] = np.repeat(["u", "v"], 30), table.a + rng.normal(size=60)
    table.to_csv(tmp_path / "rows.csv", index=False)
    methods = ["--methods", "made_methods:Flaky", "--splits", "2", "--repeats", "1"]
    result = mtlrun(
        "compare",
        "rows.csv",
        "--target",
        "y",
        "--task",
        "task",
        *methods,
        "--retries",
        "2",
    )
    assert result.exit_code == 0, result.output
    assert "failed" not in result.stdout
