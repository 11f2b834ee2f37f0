"""Work in several processes: identical outcomes, enforced limits, replaced workers."""

import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

from mtlrun.errors import ConfigError, DataError, UnknownNameError
from mtlrun.parallel import worker
from mtlrun.parallel.outcome import attempt
from mtlrun.parallel.pool import Pool
from mtlrun.parallel.status import DIVERGED, FAILED, OK, TIMEOUT
from mtlrun.parallel.worker import ForkServer, Worker, close_workers


@pytest.fixture(autouse=True)
def without_solvers(preload):
    """Keep solvers out of the workers: importing them takes seconds."""
    preload()


class Diverged(Exception):
    """Imitates the class of `mtlrun.engine.evaluation`, which would import
    scikit-learn; outcomes go by its name.
    """


def work(kind, value):
    if kind == "raise":
        raise ValueError(f"no {value}\nsecond line")
    if kind == "user":
        raise DataError("file wrong", "mend it")
    if kind == "diverge":
        raise Diverged("all infinite")
    if kind == "die":
        os._exit(3)
    if kind == "kill":
        os.kill(os.getpid(), value)
    if kind == "lock":
        return threading.Lock()
    if kind == "sleep":
        time.sleep(value)
    return value


UNITS = [
    ("a", ("return", 1)),
    ("b", ("raise", 2)),
    ("c", ("return", 3)),
    ("d", ("user", 4)),
    ("e", ("diverge", 5)),
]


def results(pool, units=UNITS):
    return {
        tag: (outcome.status, outcome.value, outcome.error)
        for tag, outcome in pool.run(work, iter(units))
    }


EXPECTED = {
    "a": (OK, 1, None),
    "b": (FAILED, None, "ValueError: no 2 second line"),
    "c": (OK, 3, None),
    "d": (FAILED, None, "DataError: file wrong. mend it"),
    "e": (DIVERGED, None, "Diverged: all infinite"),
}


@pytest.mark.parametrize(
    "pool", [Pool(), Pool(2), Pool(2, "threading"), Pool(seconds=60)], ids=str
)
def test_outcomes_are_the_same_in_all_backends(pool):
    assert results(pool) == EXPECTED


def test_items_are_taken_while_earlier_ones_run():
    taken = []

    def units():
        for i in range(40):
            taken.append(i)
            yield i, ("sleep", 0.05)

    run = Pool(2).run(work, units())
    next(run)
    assert len(taken) < 40
    run.close()


@pytest.mark.slow
def test_items_over_the_limit_are_stopped_and_the_rest_continues():
    outcomes = results(
        Pool(seconds=3), [("slow", ("sleep", 600)), ("fast", ("return", 1))]
    )
    assert outcomes["slow"][0] == TIMEOUT
    assert "limits.seconds: 3" in outcomes["slow"][2]
    assert outcomes["fast"] == (OK, 1, None)


@pytest.mark.slow
@pytest.mark.parametrize("pool", [Pool(2), Pool(seconds=60)], ids=str)
def test_a_worker_that_dies_does_not_lose_other_items(pool):
    units = [("dead", ("die", 0)), *((i, ("return", i)) for i in range(12))]
    outcomes = results(pool, units)
    assert outcomes["dead"][0] == FAILED
    assert "died" in outcomes["dead"][2]
    assert set(outcomes) == {"dead", *range(12)}
    assert outcomes[11] == (OK, 11, None)


def test_the_log_has_the_traceback_without_folders_of_this_machine():
    outcome = attempt(work, "raise", 1)
    assert "Traceback" in outcome.log
    assert "in work" in outcome.log
    assert attempt(work, "return", 1).log is None


def test_an_error_is_one_line_of_at_most_500_characters():
    def long():
        raise ValueError("x\n" * 500)

    assert len(attempt(long).error) == 500


def grow():
    """Report the memory of a process as grown too much."""
    worker.WORKER_MAX_GROWTH_BYTES = -1
    return os.getpid()


def watched(*_):
    return os.getpid(), any("watch" in thread.name for thread in threading.enumerate())


@pytest.mark.slow
def test_the_replacement_of_a_grown_process_ends_with_its_parent_too():
    with Pool(seconds=60).keep_workers() as pool:
        ((_, grown),) = pool.run(grow, [("a", ())])
        ((_, next_one),) = pool.run(watched, [("b", ())])
        ((_, kept),) = pool.run(watched, [("c", ())])
    assert next_one.value[0] != grown.value
    assert next_one.value[1]
    assert kept == next_one


def allocate(n_bytes):
    HELD["memory"] = b"1" * n_bytes
    return os.getpid()


def test_a_process_is_replaced_after_growing_by_a_gigabyte(monkeypatch):
    monkeypatch.setattr("mtlrun.parallel.worker.WORKER_MAX_GROWTH_BYTES", 1 << 25)
    requests = io.BytesIO()
    for n_bytes in (1, 1 << 24, 1 << 26):
        worker.send(requests, worker.dumps((attempt, (allocate, n_bytes))))
    requests.seek(0)
    replies = io.BytesIO()
    worker.serve(requests, replies)
    replies.seek(0)
    assert pickle.loads(worker.receive(replies)) == os.getpid()
    has_grown = [pickle.loads(worker.receive(replies))[1] for _ in range(3)]
    HELD.clear()
    assert has_grown == [False, False, sys.platform == "linux"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_jobs": 0}, "--jobs must be at least 1"),
        ({"scheduler": "tcp://x"}, "--scheduler needs --backend dask"),
        ({"backend": "dask", "seconds": 1.0}, "limits.seconds does not work"),
    ],
)
def test_contradictory_options_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        Pool(**options)


def test_an_unknown_backend_is_refused_with_the_names_of_all():
    with pytest.raises(UnknownNameError) as refusal:
        Pool(2, "loky")
    assert refusal.value.exit_code == 2


def test_dask_without_its_package_is_a_user_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[distributed\]'"):
        list(Pool(2, "dask").run(work, iter(UNITS)))


def test_a_process_that_starts_too_slowly_ends_at_the_deadline_of_the_pool(
    monkeypatch, preload, tmp_path
):
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.syspath_prepend(tmp_path)
    preload("slow_module")
    started = time.monotonic()
    with Pool(1, deadline=started + 1, stop_at_deadline=True).keep_workers() as pool:
        assert results(pool, [("a", ("return", 1))])["a"][0] == TIMEOUT
        assert results(pool, [("b", ("return", 2))])["b"][0] == TIMEOUT
    assert time.monotonic() - started < 60


HELD = {"here": "nothing"}


def held(*_):
    return HELD.get("here"), os.getppid()


def values(pool, function, n_items):
    return [
        outcome.value
        for _, outcome in pool.run(function, [(i, ()) for i in range(n_items)])
    ]


linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are forked on Linux"
)


@pytest.mark.slow
@linux_only
def test_processes_are_forked_from_a_server_without_state_of_the_program(
    monkeypatch,
):
    monkeypatch.setitem(HELD, "here", "something")
    with Pool(2).keep_workers() as pool:
        assert results(pool) == EXPECTED
        before = set(values(pool, held, 4))
        results(pool, [(i, ("die", 0)) for i in range(4)])
        after = set(values(pool, held, 4))
    ((state, server_pid),) = before
    assert after == before
    assert state == "nothing"
    assert server_pid != os.getpid()


@pytest.mark.slow
@linux_only
def test_work_continues_after_the_fork_server_dies():
    with Pool(2).keep_workers() as pool:
        ((_, server_pid),) = set(values(pool, held, 2))
        os.kill(server_pid, signal.SIGKILL)
        # Processes forked by the server end within seconds.
        time.sleep(2 * worker.PARENT_CHECK_S)
        outcomes = [
            outcome for _, outcome in pool.run(held, [(i, ()) for i in range(8)])
        ]
    statuses = [outcome.status for outcome in outcomes]
    assert statuses.count(OK) >= 6
    assert set(statuses) <= {OK, FAILED}


@pytest.mark.slow
def test_no_process_remains_after_a_pool_ends():
    with Pool(2).keep_workers() as pool:
        running = {os.getppid, os.getpid}
        pids = {pid for function in running for pid in values(pool, function, 4)}
    pids.discard(os.getpid())
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_a_separate_process_gives_the_same_results_as_a_forked_one():
    units = [*UNITS, ("dead", ("die", 0)), ("last", ("return", 6))]
    separate = Worker()
    try:
        outcomes = results(Pool(seconds=60, workers=(separate,)), units)
    finally:
        close_workers([separate])
    assert "exit code 3" in outcomes.pop("dead")[2]
    assert outcomes.pop("last") == (OK, 6, None)
    assert outcomes == EXPECTED


@pytest.mark.parametrize("server", [None, "forks"])
def test_printed_output_of_a_job_is_not_taken_for_its_result(server):
    separate = Worker(server and ForkServer())
    try:
        assert separate.call(attempt, print, "words").status == OK
        assert separate.call(attempt, abs, -1).value == 1
    finally:
        close_workers([separate])


def test_a_signal_that_ends_a_worker_is_named():
    units = [("dead", ("kill", signal.SIGKILL.value))]
    assert "SIGKILL" in results(Pool(seconds=60), units)["dead"][2]


def test_a_value_that_cannot_be_sent_fails_only_its_item():
    pool = Pool(seconds=60)
    outcomes = dict(pool.run(work, [("lock", ("lock", 0)), ("next", ("return", 1))]))
    assert outcomes["lock"].status == FAILED
    assert "pickle" in outcomes["lock"].error
    assert outcomes["next"].value == 1


SCRIPT = """
from mtlrun.parallel.pool import Pool
def double(value):
    return 2 * value
print([outcome.value for _, outcome in Pool(seconds=60).run(double, [(1, (21,))])])
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_may_define_the_function_that_processes_run(
    tmp_path,
):
    (tmp_path / "script.py").write_text(SCRIPT)
    run = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "[42]\n"
    assert run.stderr == ""
