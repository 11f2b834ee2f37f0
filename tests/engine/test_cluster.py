"""A Dask cluster of real processes, some of them killed, gives the numbers of a serial
run and loses nothing.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config

from mtlrun.chunks.sums import Sums, add_up, rows_of, sums_of
from mtlrun.chunks.table import ChunkedTable, chunk_files
from mtlrun.data import load_dataset
from mtlrun.engine.run import run
from mtlrun.errors import ConfigError
from mtlrun.estimators import DivideAndConquerRMTL, RobustMTL
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan
from mtlrun.parallel.pool import Pool
from mtlrun.parallel.status import FAILED, OK

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

WORK = '''
import os, time

def work(value):
    """Return, or take the whole process along."""
    if value == "die":
        os._exit(3)
    time.sleep(0.05)
    return value


def spans():
    """Return begin and end of a piece of work."""
    begin = time.time()
    time.sleep(0.2)
    return begin, time.time()
'''


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Start a scheduler and two workers that restart; yield the address."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "errands.py").write_text(WORK)
    scheduler_file = folder / "scheduler.json"
    paths = os.pathsep.join([str(folder), *(p for p in sys.path if p)])
    # An item may lose one worker; losing a second one is an error.
    settings = {
        "PYTHONPATH": paths,
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    }
    # Workers are forked from a process that has imported Dask.
    settings["DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"] = "forkserver"
    started = []

    def start(module, *arguments):
        command = [
            sys.executable,
            "-m",
            f"distributed.cli.{module}",
            *arguments,
            "--no-dashboard",
        ]
        with (folder / f"log{len(started)}").open("w") as log:
            started.append(
                subprocess.Popen(
                    command,
                    cwd=folder,
                    env={**os.environ, **settings},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    try:
        start(
            "dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--scheduler-file",
            str(scheduler_file),
        )
        patience = time.time() + 120
        while not scheduler_file.exists() and time.time() < patience:
            time.sleep(0.05)
        address = json.loads(scheduler_file.read_text())["address"]
        start(
            "dask_worker",
            address,
            "--nworkers",
            "2",
            "--nthreads",
            "1",
            "--memory-limit",
            "0",
        )
        sys.path.insert(0, str(folder))
        with distributed.Client(address) as client:
            client.wait_for_workers(2, timeout=120)
        yield address
    finally:
        sys.path.remove(str(folder))
        # The workers of the nannies end as well; a graceful stop hangs if a worker is
        # just starting.
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


EXPERIMENT = """\
schema: 1
id: made/blocks
title: Divide and conquer
kind: evaluate
datasets: [{id: simulated-rmtl, n: 80, d: 20, m: 12}]
split: {kind: random, train: 0.5, trials: 3}
metrics: [auc]
selection: {folds: 2}
keep: [predictions]
methods:
  - label: blocks
    estimator: DivideAndConquerRMTL
    params: {n_blocks: 3, base: {estimator: RobustMTL, params: {fit_intercept: false}}}
    grid: {base__beta: [0.1, 1]}
  - label: whole
    estimator: RobustMTL
    params: {beta: 0.1}
"""


class KillOne:
    """A progress display that kills a worker with SIGKILL after some jobs."""

    def __init__(self, address, after):
        self.address, self.after, self.done, self.pid = address, after, 0, None

    def __getattr__(self, name):
        return lambda *arguments: None

    def job(self, name, status, seconds, note):
        self.done += 1
        if self.done == self.after:
            with distributed.Client(self.address, set_as_default=False) as client:
                self.pid = next(iter(client.run(os.getpid).values()))
            os.kill(self.pid, signal.SIGKILL)


def test_a_run_that_loses_a_worker_has_the_numbers_of_a_serial_run(cluster, tmp_path):
    (tmp_path / "blocks.yaml").write_text(EXPERIMENT)
    experiment = load_experiment(tmp_path / "blocks.yaml")
    plans = {
        name: plan(experiment, output=tmp_path / name) for name in ("serial", "dask")
    }
    progress = KillOne(cluster, after=3)
    summary = run(plans["dask"], backend="dask", scheduler=cluster, progress=progress)
    assert progress.pid is not None
    assert (summary.n_ok, summary.n_failed, summary.n_left) == (6, 0, 0)
    run(plans["serial"])
    stores = {name: run_plan.store() for name, run_plan in plans.items()}
    jobs = [row.job for row in plans["serial"].rows]
    for job in [*jobs, *(fold for fitted in jobs for fold in fitted.folds)]:
        serial, dask = (stores[name].load(job.key) for name in ("serial", "dask"))
        assert dask.status == OK
        assert (dask.metrics, dask.per_task, dask.params) == (
            serial.metrics,
            serial.per_task,
            serial.params,
        )
        assert replace(dask.selection, seconds=0) == replace(
            serial.selection, seconds=0
        )
        assert dask.solver == serial.solver
        if "predictions" in serial.result:
            scores = [
                (stores[name].cells_folder / f"{job.key}.npz").read_bytes()
                for name in ("serial", "dask")
            ]
            assert scores[0] == scores[1]


def test_sums_over_files_survive_the_loss_of_a_worker_to_the_last_digit(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr("mtlrun.chunks.sums.PROGRESS_SECONDS", 0.0)
    rng = np.random.default_rng(0)
    for k in range(12):
        rows = pd.DataFrame(rng.normal(size=(2000, 4)), columns=["a", "b", "c", "y"])
        rows.assign(task=rng.integers(3, size=2000)).to_csv(
            tmp_path / f"{k:02}.csv", index=False
        )
    table = ChunkedTable.of(chunk_files(tmp_path), target="y", task="task", n_folds=5)
    progress, heard = KillOne(cluster, after=2), []

    def say(text):
        heard.append(text)
        progress.job("", "", 0.0, "")

    far = add_up(rows_of, table, Pool(backend="dask", scheduler=cluster), say)
    assert progress.pid is not None
    near = Sums()
    for file in table.files:
        near.merge(sums_of(rows_of, table, [file]))
    assert far.rows == 24000
    assert far.counts == near.counts
    for key, product in near.products.items():
        np.testing.assert_array_equal(far.products[key], product)
    assert heard[-1].startswith(
        f"{12 * 15 * 15 * 8 / 1e6:.1f} MB of sums"
    )  # Files x folds, and tasks x half of 5 x 5


def finished_work(dask_scheduler):
    """Count the items that workers have reported; the scheduler runs this."""
    return sum(
        1
        for story in dask_scheduler.transition_log
        if story[1:3] == ("processing", "memory")
    )


def test_blocks_of_one_fit_run_on_the_cluster_through_joblib(cluster):
    data = load_dataset("simulated-rmtl", n=80, d=20, m=12)
    model = DivideAndConquerRMTL(RobustMTL(lam=0.7), n_blocks=4).fit(data.X, data.y)
    with distributed.Client(cluster) as client, parallel_config(backend="dask"):
        # With a single block joblib runs locally.
        client.wait_for_workers(2, timeout=120)
        before = client.run_on_scheduler(finished_work)
        far = DivideAndConquerRMTL(RobustMTL(lam=0.7), n_blocks=4).fit(data.X, data.y)
        assert client.run_on_scheduler(finished_work) >= before + 4
    np.testing.assert_array_equal(far.coef_, model.coef_)
    np.testing.assert_array_equal(far.low_rank_, model.low_rank_)


def test_workers_with_other_sources_are_rejected(cluster, monkeypatch):
    monkeypatch.setattr("mtlrun.parallel.cluster.sources", os.getpid)
    with pytest.raises(ConfigError, match="the mtlrun sources"):
        next(Pool(backend="dask", scheduler=cluster).run(len, iter([(0, ("x",))])))


def test_a_late_worker_with_other_sources_ends_the_run(cluster, tmp_path):
    from errands import work

    import mtlrun

    copy = tmp_path / "other" / "mtlrun"
    ignored = shutil.ignore_patterns("__pycache__", "_*")
    shutil.copytree(
        Path(mtlrun.__file__).parent,
        copy,
        ignore=lambda *a: ignored(*a) - {"__init__.py", "__main__.py"},
    )
    with (copy / "__init__.py").open("a") as stream:
        stream.write("# another version\n")
    paths = os.pathsep.join(
        [
            str(copy.parent),
            str(Path(sys.modules["errands"].__file__).parent),
            *filter(None, sys.path),
        ]
    )
    command = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        cluster,
        "--nthreads",
        "1",
        "--no-nanny",
    ]
    late = []

    def units():
        yield 0, (0,)
        with (
            (tmp_path / "log").open("w") as log,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            environment = {**os.environ, "PYTHONPATH": paths}
            late.append(
                subprocess.Popen(
                    [*command, "--no-dashboard"],
                    env=environment,
                    stdout=log,
                    stderr=log,
                    cwd=tmp_path,
                )
            )
            client.wait_for_workers(len(client.nthreads()) + 1, timeout=240)
        yield from ((i, (i,)) for i in range(1, 1000))

    done = []
    try:
        with pytest.raises(ConfigError, match="the mtlrun sources"):
            done.extend(Pool(backend="dask", scheduler=cluster).run(work, units()))
    finally:
        for process in late:
            process.kill()
            process.wait()
    assert late


@pytest.mark.parametrize("jobs", [1, 2])
def test_jobs_limits_the_number_of_pending_items(cluster, jobs):
    from errands import spans

    intervals = [
        outcome.value
        for _, outcome in Pool(jobs, "dask", cluster).run(
            spans, ((i, ()) for i in range(6))
        )
    ]
    overlaps = [sum(begin <= b < end for b, _ in intervals) for begin, end in intervals]
    assert max(overlaps) <= jobs


def test_jobs_is_the_size_of_the_local_cluster(monkeypatch):
    cluster_options = []

    def client(*arguments, **options):
        cluster_options.append(options)
        raise OSError("enough")

    monkeypatch.setattr(distributed, "Client", client)
    for jobs in (3, -1, None):
        with pytest.raises(ConfigError):
            list(Pool(jobs, "dask").run(len, iter([(0, ("x",))])))
    assert [options["n_workers"] for options in cluster_options] == [3, None, None]


def give_up_at_the_first(dask_scheduler):
    """Allow no item to lose a worker; the scheduler runs this."""
    dask_scheduler.allowed_failures = 0


def test_items_that_kill_their_workers_fail_and_others_finish(cluster):
    from errands import work

    with distributed.Client(cluster, set_as_default=False) as client:
        client.run_on_scheduler(give_up_at_the_first)
    units = [("dead", ("die",)), *((i, (i,)) for i in range(10))]
    outcomes = dict(Pool(backend="dask", scheduler=cluster).run(work, iter(units)))
    assert outcomes["dead"].status == FAILED
    assert "died" in outcomes["dead"].error
    assert {
        tag: outcome.value for tag, outcome in outcomes.items() if tag != "dead"
    } == {i: i for i in range(10)}


@pytest.fixture
def short_timeout(monkeypatch):
    """Give up on a scheduler soon."""
    monkeypatch.setattr("mtlrun.parallel.cluster.SCHEDULER_TIMEOUT_S", 0.2)


def test_an_unreachable_scheduler_is_an_error(short_timeout, lacking):
    with pytest.raises(ConfigError) as refused:
        next(
            Pool(backend="dask", scheduler="tcp://127.0.0.1:9").run(
                len, iter([(0, ("x",))])
            )
        )
    assert not lacking(refused.value, "--scheduler tcp://127.0.0.1:9", "dask scheduler")


def test_a_cluster_without_workers_or_with_threads_is_rejected(short_timeout):
    options = {"processes": False, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=0, **options) as empty,
        pytest.raises(ConfigError, match="has no worker"),
    ):
        next(
            Pool(backend="dask", scheduler=empty.scheduler_address).run(
                len, iter([(0, ("x",))])
            )
        )
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, **options
        ) as threaded,
        pytest.raises(ConfigError, match="runs 2 threads"),
    ):
        next(
            Pool(backend="dask", scheduler=threaded.scheduler_address).run(
                len, iter([(0, ("x",))])
            )
        )
