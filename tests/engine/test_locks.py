"""Locks of runs and folders: one owner at a time, none once it has ended."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mtlrun.utils.processes import exclusive_lock, is_locked

HOLDER = """
import sys
from pathlib import Path
from mtlrun.utils.processes import exclusive_lock
with exclusive_lock(Path(sys.argv[1])):
    print("taken", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "a.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_the_lock_of_a_killed_process_is_free(tmp_path, holder):
    path, said = tmp_path / "a.lock", []
    assert is_locked(path)
    holder.kill()
    holder.communicate()
    assert path.exists()
    assert not is_locked(path)
    with exclusive_lock(path, lambda: said.append("waiting")):
        assert is_locked(path)
    assert said == []


def test_who_waits_says_so_and_goes_on_when_the_other_ends(tmp_path, holder):
    with exclusive_lock(tmp_path / "a.lock", holder.terminate) as refused:
        assert refused is None
        holder.wait()
    assert not is_locked(tmp_path / "a.lock")
    assert not is_locked(tmp_path / "never.lock")


def test_of_many_one_at_a_time(tmp_path):
    inside = []

    def enter(number):
        with exclusive_lock(tmp_path / "a.lock"):
            inside.append(number)
            assert len(inside) == 1
            inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(enter, range(200)))


def test_a_folder_is_held_by_one_at_a_time_and_nothing_is_left_in_it(tmp_path):
    order = []

    def second():
        with exclusive_lock(tmp_path):
            order.append("second")

    other = threading.Thread(target=second)
    with exclusive_lock(tmp_path):
        other.start()
        other.join(0.2)
        order.append("first")
    other.join()
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_an_error_that_is_not_about_locks_is_raised_and_nothing_stays_open(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    with pytest.raises(FileNotFoundError), exclusive_lock(tmp_path / "none/a.lock"):
        pass
    with pytest.raises(ZeroDivisionError), exclusive_lock(tmp_path / "a.lock"):
        _ = 1 / 0
    assert not is_locked(tmp_path / "a.lock")
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before
