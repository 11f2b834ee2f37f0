"""Locks of cells: one owner, dead owners replaced, foreign hosts believed."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from mtlrun.runs import locks
from mtlrun.runs.locks import Locks, Owner, alone
from mtlrun.utils import processes


def dead_process():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    return Owner(gone.pid, Owner.me().host, "1")


def write(folder, owner):
    (folder / "a.lock").write_text(json.dumps(owner.__dict__))


def test_a_lock_is_taken_once_and_given_up(tmp_path):
    mine, other = Locks(tmp_path), Locks(tmp_path)
    assert mine.acquire("a") == (True, None)
    assert other.acquire("a") == (False, Owner.me())
    other.release("a")  # not theirs: nothing happens
    assert mine.owner("a") == Owner.me()
    mine.release("a")
    assert mine.owner("a") is None
    assert other.acquire("a")[0]


def test_release_all(tmp_path):
    mine = Locks(tmp_path)
    for name in "abc":
        mine.acquire(name)
    mine.release_all()
    assert not list(tmp_path.glob("*.lock"))


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    gone = dead_process()
    write(tmp_path, gone)
    assert Locks(tmp_path).acquire("a") == (True, gone)
    assert json.loads((tmp_path / "a.lock").read_text())["pid"] == os.getpid()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="start times are exact on Linux only")
def test_a_later_process_with_the_same_pid_is_not_the_owner(tmp_path):
    write(tmp_path, Owner(os.getpid(), Owner.me().host, "12"))
    assert Locks(tmp_path).acquire("a")[0]


def test_a_lock_from_another_host_is_believed(tmp_path):
    owner = Owner(1, "elsewhere", "1")
    write(tmp_path, owner)
    assert Locks(tmp_path).acquire("a") == (False, owner)


def test_a_half_written_lock_is_believed_for_a_while(tmp_path):
    path = tmp_path / "a.lock"
    path.write_text("{")
    assert Locks(tmp_path).acquire("a") == (False, None)
    os.utime(path, (time.time() - 100,) * 2)
    assert Locks(tmp_path).acquire("a") == (True, None)


CONTEST = """
import sys, time
from pathlib import Path
from mtlrun.runs.locks import Locks
folder, start = Path(sys.argv[1]), float(sys.argv[2])
locks = Locks(folder)
while time.time() < start:
    pass
print(sum(locks.acquire(f"cell{i}")[0] for i in range(60)))
sys.stdout.flush()
sys.stdin.read()
"""


def test_many_processes_share_out_stale_locks_without_a_double(tmp_path):
    gone = dead_process()
    for i in range(60):
        (tmp_path / f"cell{i}.lock").write_text(json.dumps(gone.__dict__))
    words = [sys.executable, "-c", CONTEST, str(tmp_path), str(time.time() + 1)]
    contestants = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    taken = [int(c.stdout.readline()) for c in contestants]
    for c in contestants:
        c.communicate()
    assert sum(taken) == 60


def test_without_proc_the_process_list_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(locks.Path, "exists", lambda self: False)
    answers = {str(os.getpid()): "Mon Jan  1 00:00:00 2024\n"}

    def listed(words, **_):
        return subprocess.CompletedProcess(words, 0, stdout=answers.get(words[-1], ""))

    monkeypatch.setattr(processes.subprocess, "run", listed)
    me = Owner.me()
    assert me.started == "Mon Jan  1 00:00:00 2024"
    assert not me.gone()
    assert Owner(999999, me.host, "x").gone()


def test_a_folder_is_held_by_one_at_a_time_and_nothing_is_left_in_it(tmp_path):
    order = []

    def second():
        with alone(tmp_path):
            order.append("second")

    other = threading.Thread(target=second)
    with alone(tmp_path):
        other.start()
        other.join(0.2)
        order.append("first")
    other.join()
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []
