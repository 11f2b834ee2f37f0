"""Work spread over processes: same outcomes everywhere, limits kept, dead workers survived."""

import os
import sys
import threading
import time

import pytest
from joblib.externals.loky import process_executor

from mtlrun.engine.outcome import attempt
from mtlrun.engine.pool import Pool
from mtlrun.engine.record import DIVERGED, FAILED, OK, TIMEOUT
from mtlrun.engine.worker import end_with
from mtlrun.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def workers_that_prepare_for_nothing(monkeypatch):
    """What is worked on here needs no solver: importing them takes seconds."""
    monkeypatch.setattr("mtlrun.engine.worker._prepare", prepare)


def prepare(parent):
    end_with(parent)  # and this module has been imported


class Diverged(Exception):
    """As that of `mtlrun.engine.evaluation`, which comes with all of scikit-learn: outcomes go by its name."""


def work(kind, value):
    if kind == "raise":
        raise ValueError(f"no {value}\nsecond line")
    if kind == "user":
        raise DataError("file wrong", "mend it")
    if kind == "diverge":
        raise Diverged("all infinite")
    if kind == "die":
        os._exit(3)
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
def test_outcomes_are_the_same_everywhere(pool):
    assert results(pool) == EXPECTED


def test_units_are_taken_while_earlier_ones_run():
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
def test_work_over_the_limit_is_stopped_and_the_rest_goes_on():
    found = results(
        Pool(seconds=3), [("slow", ("sleep", 600)), ("fast", ("return", 1))]
    )
    assert found["slow"][0] == TIMEOUT
    assert "limits.seconds: 3" in found["slow"][2]
    assert found["fast"] == (OK, 1, None)


@pytest.mark.slow
@pytest.mark.parametrize("pool", [Pool(2), Pool(seconds=60)], ids=str)
def test_a_worker_that_dies_takes_no_other_work_with_it_for_good(pool):
    units = [("dead", ("die", 0)), *((i, ("return", i)) for i in range(12))]
    found = results(pool, units)
    assert found["dead"][0] == FAILED
    assert "died" in found["dead"][2]
    assert set(found) == {"dead", *range(12)}
    assert found[11] == (OK, 11, None)


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
    """Make the process one that has taken too much memory by the end of its next piece of work."""
    (
        process_executor._MEMORY_LEAK_CHECK_DELAY,
        process_executor._MAX_MEMORY_LEAK_SIZE,
    ) = 0, -(2**60)
    return os.getpid()


def watched(*_):
    return os.getpid(), any("watch" in thread.name for thread in threading.enumerate())


@pytest.mark.slow
@pytest.mark.skipif(
    not process_executor._USE_PSUTIL, reason="processes are not replaced without psutil"
)
@pytest.mark.filterwarnings("error::UserWarning")
def test_a_process_that_replaces_one_that_has_grown_ends_with_its_parent_too():
    with Pool(seconds=60).keep_workers() as pool:
        ((_, first),) = pool.run(grow, [("a", ())])
        found = [dict(pool.run(watched, [("b", ())]))["b"].value for _ in range(3)]
    assert len({first.value, *(process for process, _ in found)}) > 1
    assert all(ends for _, ends in found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_jobs": 0}, "--jobs must be at least 1"),
        ({"scheduler": "tcp://x"}, "--scheduler needs --backend dask"),
        ({"backend": "dask", "seconds": 1.0}, "limits.seconds does not work"),
    ],
)
def test_contradictions(options, message):
    with pytest.raises(ConfigError, match=message):
        Pool(**options)


def test_dask_without_its_package_is_a_user_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[distributed\]'"):
        list(Pool(2, "dask").run(work, iter(UNITS)))


def test_a_process_that_starts_too_slowly_ends_with_the_time_of_the_pool(monkeypatch):
    monkeypatch.setattr(
        "mtlrun.engine.worker._prepare", time.sleep
    )  # as many seconds as its argument, a process id, says
    started = time.monotonic()
    with Pool(1, deadline=started + 1, stop_at_deadline=True).keep_workers() as pool:
        assert results(pool, [("a", ("return", 1))])["a"][0] == TIMEOUT
        assert results(pool, [("b", ("return", 2))])["b"][0] == TIMEOUT
    assert time.monotonic() - started < 60


HELD = {"here": "nothing"}


def held(*_):
    return HELD["here"], os.getppid()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux")
def test_processes_that_are_kept_are_copies_and_those_that_replace_them_are_not(
    monkeypatch,
):
    monkeypatch.setitem(HELD, "here", "something")
    monkeypatch.setattr(
        "threading.active_count", lambda: 1
    )  # those of other tests may not have ended
    with Pool(2).keep_workers() as pool:
        assert results(pool) == EXPECTED
        copies = [
            outcome.value for _, outcome in pool.run(held, [(i, ()) for i in range(4)])
        ]
        assert copies == [("something", os.getpid())] * 4
        results(pool, [(i, ("die", 0)) for i in range(4)])
        assert "nothing" in [
            outcome.value[0]
            for _, outcome in pool.run(held, [(i, ()) for i in range(4)])
        ]


def test_with_other_threads_processes_are_not_copies(monkeypatch):
    monkeypatch.setitem(HELD, "here", "something")
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with Pool(2).keep_workers() as pool:
            assert {outcome.value[0] for _, outcome in pool.run(held, [(1, ())])} == {
                "nothing"
            }
    finally:
        done.set()
        thread.join()
