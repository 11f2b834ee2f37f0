"""Small jobs are passed to processes in batches; records equal those of single jobs."""

import pytest

from mtlrun.engine.run import BATCH_SECONDS, Runner
from mtlrun.parallel.pool import Pool


@pytest.fixture
def many(lab):
    """Return an experiment of twelve small jobs, each with two folds of a search."""
    return lab.tiny.replace("trials: 2", "trials: 12").partition("  - label: weak")[0]


def handed(monkeypatch):
    """Return how many jobs processes receive at once."""
    sizes, at_once = [], Runner._batch_size
    monkeypatch.setattr(
        Runner, "_batch_size", lambda *given: sizes.append(at_once(*given)) or sizes[-1]
    )
    return sizes


@pytest.mark.slow
@pytest.mark.every(3)
def test_small_jobs_run_in_batches_and_give_the_same_records(lab, many, monkeypatch):
    alone = lab.run(many)
    assert alone.n_ok == 12
    expected = {
        key: (record.metrics, record.selection.chosen)
        for key, record in lab.records().items()
    }
    sizes = handed(monkeypatch)
    lab.output = lab.root / "others"
    assert lab.run(many, n_jobs=2).n_ok == 12
    assert max(sizes) > 1
    actual = {
        key: (record.metrics, record.selection.chosen)
        for key, record in lab.records().items()
    }
    assert actual == expected


def test_large_jobs_and_jobs_with_limits_run_alone(lab, many):
    runner = Runner(lab.plan(many))
    for seconds, pool, size in (
        (BATCH_SECONDS, Pool(2), 1),
        (1e-3, Pool(2, seconds=9.0), 1),
        (1e-3, Pool(1), 1),
    ):
        runner.last_seconds = seconds
        assert runner._batch_size(12, pool) == size
    runner.last_seconds = 1e-3
    with Pool(2).keep_workers() as pool:
        assert runner._batch_size(12, pool) == 3  # Two batches per process


@pytest.mark.slow
def test_a_job_that_kills_its_process_affects_no_other(lab, many, monkeypatch):
    lab.models.write_text(
        lab.models.read_text().replace(
            "if self.alpha < 0:", "if self.alpha == 7:\n            os._exit(3)"
        )
    )
    text = many.replace("trials: 12", "trials: 4").replace(
        "grid: {alpha: [0.1, 10]}", "params: {alpha: 0.5}"
    )
    sizes = iter([5])
    monkeypatch.setattr(Runner, "_batch_size", lambda *_: next(sizes, 1))
    summary = lab.run(
        text
        + '  - {label: deadly, estimator: "lab.models:Ridge", params: {alpha: 7}}\n',
        n_jobs=2,
    )
    assert (summary.n_ok, summary.n_failed) == (4, 4)
    assert all("died" in failure.error for failure in summary.failures)
