"""`compare` and `train` killed while they overwrite results: `predict` sees only old or
only new files, or refuses them until the command has run again.
"""

import json
import os
import shutil
import signal
from itertools import count

import numpy as np
import pandas as pd
import pytest
import yaml

from mtlrun.api import compare
from mtlrun.comparison.result import TableComparison
from mtlrun.data.reading.read import read_table
from mtlrun.lab.experiment.load import load_training
from mtlrun.lab.training import train
from mtlrun.utils.outputs import INCOMPLETE

TRAINING = """\
schema: 1
kind: train
id: made/small
dataset: {id: simulated-fetr, n: 40, d: 5, m: 3}
method: {estimator: IndependentRidge, params: {alpha: 2.0}}
split: {kind: random, train: 0.5}
metrics: [mse]
"""
UNSAVED = """\
from mtlrun.estimators.independent import PooledRidge

class Unsaved(PooledRidge):
    def fit(self, X, y, *, task_id=None, sample_weight=None):
        self.hook_ = lambda: 0
        return super().fit(X**2, y, task_id=task_id, sample_weight=sample_weight)

    def predict(self, X, *, task_id=None):
        return super().predict(X**2, task_id=task_id)
"""


class Brief(TableComparison):
    """A comparison with a short report, which is written many times."""

    def page(self):
        return f"<html>{self.verdict}</html>"


COLUMNS = ("--target", "grade", "--task", "school", "--splits", "2", "--repeats", "1")


@pytest.fixture
def grades(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc")).assign(
        school=list("xyz") * 20
    )
    table["grade"] = table.a + 0.1 * rng.normal(size=60)
    table.to_csv(tmp_path / "grades.csv", index=False)
    return table


def compared(table, method):
    """Compare methods on noise, so that TaskMean wins, which has no coefficients."""
    if method == "TaskMean":
        table = table.assign(grade=np.random.default_rng(1).normal(size=60))
    result = compare(
        table,
        target="grade",
        task="school",
        methods=[method],
        splits=2,
        repeats=1,
        folds=2,
    )
    return Brief(**vars(result))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "step"),
    [(("PooledRidge", "TaskMean"), 8), (("TaskMean", "PooledRidge"), 8)],
)
def test_a_comparison_killed_while_writing_leaves_one_consistent_result(
    mtlrun, grades, tmp_path, killed, order, step
):
    first, second = (compared(grades, method) for method in order)
    first.save(tmp_path / "first")
    (tmp_path / "first/notes.txt").write_text("mine")
    results = {result.dataset.fingerprint: result for result in (first, second)}
    assert [result.coefficients is None for result in (first, second)].count(True) == 1
    seen = []
    n_refused = 0
    for n in count(1, step):
        folder = tmp_path / str(n)
        shutil.copytree(tmp_path / "first", folder)
        dead = killed(lambda: second.save(folder), n)  # noqa: B023
        done = mtlrun(
            "predict",
            str(folder / "model"),
            "grades.csv",
            "--task-column",
            "school",
            "-o",
            "-",
        )
        if (folder / INCOMPLETE).exists():
            assert done.exit_code == 2, (n, done.output)
            assert done.stderr.startswith(f"error: {folder}: ")
            n_refused += 1
            second.save(folder)
        else:
            assert done.exit_code == 0, (n, done.output)
        seen.append(
            json.loads((folder / "model/model.json").read_text())["dataset"][
                "fingerprint"
            ]
        )
        result = results[seen[-1]]
        board = json.loads((folder / "leaderboard.json").read_text())
        assert result.verdict.endswith(board["verdict"]), n
        assert result.verdict in (folder / "leaderboard.html").read_text(), n
        chosen = yaml.safe_load((folder / "chosen.yaml").read_text())["method"][
            "estimator"
        ]
        assert chosen == result.config["method"]["estimator"]
        assert (folder / "coefficients.csv").exists() == (
            result.coefficients is not None
        ), n
        rows = read_table(next((folder / "data").glob("own-*/rows.npz")))
        np.testing.assert_allclose(
            rows.frame["grade"], result.source.table.frame["grade"]
        )
        assert (folder / "notes.txt").read_text() == "mine"
        if not dead:
            break
    assert len(set(seen)) == 2
    assert n_refused > 1
    assert n > 10


@pytest.mark.slow
def test_a_training_run_killed_while_writing_leaves_one_consistent_model(
    mtlrun, tmp_path, killed
):
    (tmp_path / "small.yaml").write_text(TRAINING)
    wide, narrow = (
        load_training(tmp_path / "small.yaml", overrides=[f"method.params.alpha={a}"])
        for a in (2.0, 50.0)
    )
    train(wide, output=tmp_path / "first")
    seen = []
    n_refused = 0
    for n in count(1, 2):
        output = tmp_path / str(n)
        shutil.copytree(tmp_path / "first", output)
        folder = output / "made/small"
        dead = killed(lambda: train(narrow, output=output, force=True), n)  # noqa: B023
        done = mtlrun("predict", str(folder), "simulated-fetr", "-o", "-")
        if (folder / INCOMPLETE).exists():
            assert done.exit_code == 2, (n, done.output)
            n_refused += 1
            train(narrow, output=output, force=True)
        else:
            assert done.exit_code == 0, (n, done.output)
        facts = json.loads((folder / "model.json").read_text())
        seen.append(facts["estimator"]["params"]["alpha"])
        result = json.loads((folder / "metrics.json").read_text())
        assert result["params"]["alpha"] == seen[-1]
        assert result["metrics"] == facts["metrics"]
        assert (
            json.loads((folder / "config.json").read_text())["method"]["params"][
                "alpha"
            ]
            == seen[-1]
        )
        if not dead:
            break
    assert sorted(set(seen)) == [2.0, 50.0]
    assert n_refused > 1


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_completed_jobs_of_a_stopped_comparison_are_kept_with_earlier_results(
    mtlrun, grades, tmp_path, write_experiment, begin, until, stop
):
    folder = tmp_path / "results/runs/compare/grades"
    assert (
        mtlrun(
            "compare", "grades.csv", *COLUMNS, "--methods", "PooledRidge", "-q"
        ).exit_code
        == 0
    )
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write_experiment()  # Uses the module of methods
    process = begin(
        "compare",
        "grades.csv",
        *COLUMNS,
        "--methods",
        "PooledRidge,made_methods:Slow",
        "-q",
    )
    until((tmp_path / "begun").exists)
    process.send_signal(stop)
    _, err = process.communicate()
    assert process.returncode == (130 if stop == signal.SIGINT else -stop)
    assert "Traceback" not in err
    assert ("unfinished.md" in err) == (stop == signal.SIGINT)
    assert {path: path.read_bytes() for path in before} == before
    content = json.loads((folder / "unfinished.json").read_text())
    scored = {m["method"] for m in content["methods"] if m["score"] is not None}
    baselines = {"PooledRidge", "IndependentRidge", "IndependentRidgeCV", "TaskMean"}
    if stop == signal.SIGINT:
        assert scored == baselines
    # A process that is killed leaves the leaderboard that was written last.
    assert scored
    assert scored <= baselines
    assert content["title"].startswith("Unfinished")
    assert "TaskMean" in (folder / "unfinished.md").read_text()
    done = mtlrun("compare", "grades.csv", *COLUMNS, "--methods", "PooledRidge", "-q")
    assert done.exit_code == 0
    assert "finished so far" not in done.stderr
    assert {path for path in folder.rglob("*") if path.is_file()} == set(before)


@pytest.mark.slow
def test_the_leaderboard_is_printed_and_kept_if_the_model_cannot_be_saved(
    mtlrun, grades, tmp_path
):
    (tmp_path / "made_methods.py").write_text(UNSAVED)
    grades.assign(grade=grades.a**2).to_csv(
        tmp_path / "grades.csv", index=False
    )  # Only this class can be fitted
    done = mtlrun(
        "compare", "grades.csv", *COLUMNS, "--methods", "made_methods:Unsaved", "-q"
    )
    assert done.exit_code == 2, done.output
    assert "without pickle" in done.stderr
    first_row = done.stdout.splitlines()[5]
    assert "Unsaved" in first_row
    folder = tmp_path / "results/runs/compare/grades"
    assert sorted(path.name for path in folder.iterdir()) == [
        "cells",
        "unfinished.json",
        "unfinished.md",
    ]
    assert "Unsaved" in (folder / "unfinished.md").read_text()


@pytest.mark.skipif(
    not os.path.isdir("/proc/self"), reason="no folder here in which nobody can write"
)
@pytest.mark.parametrize("command", ["compare", "train"])
def test_an_unwritable_output_is_rejected_before_any_fit(
    mtlrun, grades, tmp_path, command, lacking
):
    (tmp_path / "small.yaml").write_text(TRAINING)
    words = ("grades.csv", *COLUMNS) if command == "compare" else ("small.yaml",)
    done = mtlrun(command, *words, "-o", "/proc")
    assert done.exit_code == 2
    assert not lacking(done.stderr, "error: ", "/proc: ", "--output")
    assert "split" not in done.stderr
    assert "fitting" not in done.stderr
