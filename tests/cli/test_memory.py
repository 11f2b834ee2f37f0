"""Methods that exceed the memory get a row with the reason and never end the run."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

import mtlrun as library
from mtlrun.errors import MEMORY_REMEDY, MemoryLimitError
from mtlrun.parallel.pool import Pool
from mtlrun.problem.memory import free_bytes, require

#: A method for squares that needs too much memory for more than 50 rows
SQUARES = """
from mtlrun.estimators.independent import PooledRidge
from mtlrun.problem.memory import require

class Squares(PooledRidge):
    def fit(self, X, y, *, task_id=None, sample_weight=None):
        require(1e15 if len(X) > 50 else 0, "Squares", "Use fewer rows.")
        return super().fit(X**2, y, task_id=task_id, sample_weight=sample_weight)

    def predict(self, X, *, task_id=None):
        return super().predict(X**2, task_id=task_id)
"""


def table(folder):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    frame["school"], frame["grade"] = (
        np.repeat(["x", "y", "z"], 20),
        frame.a + rng.normal(size=60),
    )
    frame.to_csv(folder / "grades.csv", index=False)
    return (
        "compare",
        "grades.csv",
        "--target",
        "grade",
        "--task",
        "school",
        "--splits",
        "2",
    )


@pytest.fixture
def without_memory(monkeypatch):
    """Return a function after which fits of a class need a petabyte."""
    return lambda name: monkeypatch.setattr(
        f"mtlrun.estimators.{name}._bytes", lambda self, data: 1e15
    )


@pytest.mark.slow
def test_a_method_that_does_not_fit_into_memory_gets_a_row_with_the_reason(
    mtlrun, tmp_path, without_memory
):
    without_memory("convex.ConvexMTL")
    result = mtlrun(*table(tmp_path), "--methods", "JointFeatureMTL", "-o", "out")
    assert result.exit_code == 0, result.output
    board = json.loads(
        (tmp_path / "out" / "compare" / "grades" / "leaderboard.json").read_text()
    )
    rows = {row["method"]: row for row in board["methods"]}
    assert rows["JointFeatureMTL"]["score"] is None
    assert "needs 1e+06 GB" in rows["JointFeatureMTL"]["errors"][0]
    assert "Use fewer features" in rows["JointFeatureMTL"]["errors"][0]
    assert rows["IndependentRidge"]["score"] is not None


@pytest.mark.slow
def test_if_the_best_method_does_not_fit_on_all_rows_the_leaderboard_remains(
    mtlrun, tmp_path
):
    (tmp_path / "large.py").write_text(SQUARES)
    command = table(tmp_path)
    rows = pd.read_csv("grades.csv")
    rows.assign(grade=rows.a**2).to_csv("grades.csv", index=False)
    result = mtlrun(*command, "--methods", "large:Squares", "-o", "out")
    assert result.exit_code == 2
    assert "needs 1e+06 GB" in result.output
    assert "Use fewer rows." in result.output
    assert "Traceback" not in result.output
    board = json.loads(
        (tmp_path / "out" / "compare" / "grades" / "unfinished.json").read_text()
    )
    assert all(row["score"] is not None for row in board["methods"])


@pytest.mark.slow
def test_processes_share_the_available_memory(preload):
    # The workers need no solvers, whose import takes seconds.
    preload()
    pool = Pool(n_jobs=2)
    shares = [
        outcome.value for _, outcome in pool.run(granted, [(k, ()) for k in range(2)])
    ]
    assert shares == [False] * 2
    assert granted()


def granted():
    """Return whether 3/4 of the free memory is allowed."""
    try:
        require(0.75 * free_bytes(), "a matrix", "")
    except MemoryLimitError:
        return False
    return True


def test_if_nothing_fits_the_message_names_sizes_and_a_remedy(
    mtlrun, tmp_path, monkeypatch, without_memory
):
    without_memory("base.BaseMTL")
    for name in ("_Independent", "_Pooled", "IndependentRidge"):
        without_memory(f"independent.{name}")
    for name in ("baselines.TaskMean", "tuned.TunedRidge"):
        monkeypatch.setattr(
            f"mtlrun.estimators.{name}.fit", lambda *args, **kwargs: 1 / 0
        )
    result = mtlrun(*table(tmp_path), "--methods", "IndependentRidge")
    assert result.exit_code == 2
    assert "3 features and 3 tasks" in result.output
    assert "Traceback" not in result.output


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["free_bytes", "to_pandas"])
def test_a_parquet_file_that_does_not_fit_may_be_read_in_chunks(
    mtlrun, tmp_path, free_memory, monkeypatch, reason
):
    table(tmp_path)
    folder = tmp_path / "rows"
    folder.mkdir()
    pd.read_csv(tmp_path / "grades.csv").to_parquet(folder / "grades.parquet")

    class FileWithoutMemory(pyarrow.parquet.ParquetFile):
        def read(self, *args, **options):
            raise MemoryError

    with monkeypatch.context() as patch:
        if reason == "free_bytes":
            free_memory(100.0, always=True)
        else:
            patch.setattr("pyarrow.parquet.ParquetFile", FileWithoutMemory)
        result = mtlrun("compare", "rows/grades.parquet", "--target", "grade")
    free_memory(1e15)
    assert result.exit_code == 2
    assert "grades.parquet" in result.stderr
    assert MEMORY_REMEDY in result.stderr
    # The remedy works.
    options = ("--target", "grade", "--task", "school", "--methods", "GraphMTL")
    assert mtlrun("compare", "rows", *options).exit_code == 0


@pytest.mark.slow
def test_new_rows_that_do_not_fit_are_no_damage_of_the_model(
    mtlrun, tmp_path, monkeypatch
):
    table(tmp_path)
    result = library.compare(
        tmp_path / "grades.csv",
        target="grade",
        task="school",
        methods="PooledRidge",
        splits=3,
    )
    result.save(tmp_path / "out")

    def run_out_of_memory(*args, **kwargs):
        raise MemoryError

    for function in (
        "data.roles.schema.read_rows",
        "data.reading.read.read_table_file",
        "model.fitted.answers_table",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"mtlrun.{function}", run_out_of_memory)
            done = mtlrun("predict", "out/model", "grades.csv", "-o", "new.csv")
        assert done.exit_code == 2
        assert "damaged" not in done.stderr
        assert MEMORY_REMEDY in done.stderr
