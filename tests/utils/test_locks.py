"""Locks of runs and folders have one owner at a time and are free after its end."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mtlrun.utils import processes
from mtlrun.utils.processes import LockHolder, exclusive_lock, is_locked, lock_holder

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
    path, messages = tmp_path / "a.lock", []
    assert is_locked(path)
    holder.kill()
    holder.communicate()
    assert path.exists()
    assert not is_locked(path)
    with exclusive_lock(path, lambda: messages.append("waiting")):
        assert is_locked(path)
    assert messages == []


def test_a_waiting_process_reports_it_and_continues_when_the_owner_ends(
    tmp_path, holder
):
    with exclusive_lock(tmp_path / "a.lock", holder.terminate) as refused:
        assert refused is None
        holder.wait()
    assert not is_locked(tmp_path / "a.lock")
    assert not is_locked(tmp_path / "never.lock")


def test_only_one_of_many_owners_holds_the_lock_at_a_time(tmp_path):
    inside = []

    def enter(number):
        with exclusive_lock(tmp_path / "a.lock"):
            inside.append(number)
            assert len(inside) == 1
            inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(enter, range(200)))


def test_a_folder_has_one_owner_at_a_time_and_the_lock_leaves_no_file(tmp_path):
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


def test_errors_unrelated_to_locks_are_raised_and_no_file_stays_open(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    with pytest.raises(FileNotFoundError), exclusive_lock(tmp_path / "none/a.lock"):
        pass
    with pytest.raises(ZeroDivisionError), exclusive_lock(tmp_path / "a.lock"):
        _ = 1 / 0
    assert not is_locked(tmp_path / "a.lock")
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before


linux = pytest.mark.skipif(
    not os.path.exists("/proc/locks"), reason="needs /proc/locks"
)


@linux
def test_the_holder_of_a_lock_is_known(tmp_path, holder):
    inode = os.stat(tmp_path / "a.lock").st_ino
    assert lock_holder(inode) == LockHolder(holder.pid, os.getuid())
    holder.kill()
    holder.communicate()
    assert lock_holder(inode) is None


@pytest.fixture
def set_timeouts(monkeypatch):
    """Return a function that sets the seconds to wait for locks of others."""

    def change(foreign, unseen):
        seconds = {"FOREIGN_LOCK_TIMEOUT_S": foreign, "UNSEEN_LOCK_TIMEOUT_S": unseen}
        for name, value in seconds.items():
            monkeypatch.setattr(processes, name, value)

    return change


@pytest.mark.parametrize("uid", [os.getuid() + 1, None])
def test_a_lock_of_another_user_is_waited_for_only_for_a_while(
    tmp_path, holder, monkeypatch, set_timeouts, uid
):
    foreign = None if uid is None else LockHolder(4711, uid)
    monkeypatch.setattr(processes, "lock_holder", lambda inode: foreign)
    set_timeouts(foreign=0.3, unseen=0.3)
    holder_name = "cannot be seen" if uid is None else "4711"
    with (
        pytest.raises(TimeoutError, match=holder_name),
        exclusive_lock(tmp_path / "a.lock"),
    ):
        pass


@linux
def test_a_lock_of_the_same_user_is_waited_for_without_limit(
    tmp_path, holder, set_timeouts
):
    # A holder cannot be seen in the moment in which it ends.
    set_timeouts(foreign=0.0, unseen=60.0)
    threading.Timer(0.5, holder.terminate).start()
    with exclusive_lock(tmp_path / "a.lock") as refused:
        assert refused is None
