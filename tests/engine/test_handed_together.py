"""Small jobs are passed to processes in batches; records equal those of single jobs."""

import contextlib
from dataclasses import replace

import pytest

from mtlrun.engine.run import BATCH_SECONDS, Runner
from mtlrun.parallel.outcome import attempt
from mtlrun.parallel.pool import Pool
from mtlrun.parallel.worker import Worker


@pytest.fixture
def many(lab):
    """Return an experiment of twelve small jobs, each with two folds of a search."""
    return lab.tiny.replace("trials: 2", "trials: 12").partition("  - label: weak")[0]


def counting(sizes, pool=Pool):
    """Return a kind of pool that notes how many jobs its processes receive at once."""

    class Counting(pool):
        def run(self, function, items):
            def noted():
                for keys, arguments in items:
                    sizes.append(len(keys))
                    yield keys, arguments

            return super().run(function, noted())

    return Counting


class InThisProcess(Pool):
    """A pool whose jobs run in this process, as if it had two others."""

    def run(self, function, items):
        for keys, arguments in items:
            yield keys, attempt(function, *arguments)

    @contextlib.contextmanager
    def keep_workers(self, max_workers=None):
        yield replace(self, workers=(Worker(), Worker()))


@pytest.mark.parametrize(
    ("options", "last_seconds", "size"),
    [
        # The 24 folds are two batches per process.
        ({"n_jobs": 2}, 1e-3, 6),
        ({"n_jobs": 2}, BATCH_SECONDS, 1),
        ({"n_jobs": 2, "seconds": 9.0}, 1e-3, 1),
        ({"n_jobs": 1}, 1e-3, 1),
    ],
)
def test_large_jobs_and_jobs_with_limits_run_alone(
    lab, many, options, last_seconds, size
):
    sizes = []
    plan = lab.plan(many)
    pool = counting(sizes, InThisProcess)(**options)
    runner = Runner(plan, pool)
    runner.last_seconds = last_seconds
    with pool.keep_workers() as with_workers:
        runner.compute_fits([row.job for row in plan.rows], with_workers)
    assert sizes[0] == size


@pytest.mark.slow
def test_a_job_that_kills_its_process_affects_no_other(lab, many):
    lab.models.write_text(
        lab.models.read_text().replace(
            "if self.alpha < 0:", "if self.alpha == 7:\n            os._exit(3)"
        )
    )
    text = many.replace("trials: 12", "trials: 5").replace(
        "grid: {alpha: [0.1, 10]}", "params: {alpha: 0.5}"
    )
    text += '  - {label: deadly, estimator: "lab.models:Ridge", params: {alpha: 7}}\n'
    sizes = []
    runner = Runner(lab.plan(text), counting(sizes)(2))
    # The jobs are expected to be small.
    runner.last_seconds = 1e-3
    summary = runner.run()
    # The second batch has two jobs of the first method and one that kills its process.
    assert sizes[:2] == [3, 3]
    assert (summary.n_ok, summary.n_failed) == (5, 5)
    assert all("died" in failure.error for failure in summary.failures)
