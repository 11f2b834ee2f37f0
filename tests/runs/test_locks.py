"""Locks of cells: one owner at a time, and none once it has ended."""

import os
import subprocess
import sys
import threading
import time

from mtlrun.runs.store import Locks
from mtlrun.utils.processes import exclusive_lock

ME = f"process {os.getpid()} on "


def test_a_lock_is_taken_once_and_given_up(tmp_path):
    mine, other = Locks(tmp_path), Locks(tmp_path)
    assert mine.acquire("a") == (True, "")
    taken, owner = other.acquire("a")
    assert (taken, owner.startswith(ME)) == (False, True)
    other.release("a")  # not theirs: nothing happens
    assert other.owner("a") == owner
    mine.release("a")
    assert mine.owner("a") is None
    assert other.acquire("a") == (True, "")


def test_release_all(tmp_path):
    mine = Locks(tmp_path)
    for name in "abc":
        mine.acquire(name)
    mine.release_all()
    assert not list(tmp_path.glob("*.lock"))


def test_others_are_those_that_work_here(tmp_path):
    mine, other = Locks(tmp_path), Locks(tmp_path)
    mine.acquire_presence()
    mine.acquire("a")
    assert not mine.others()
    other.acquire_presence()
    assert mine.others()
    other.release_all()
    assert not mine.others()


KILLED = """
import sys
from pathlib import Path
from mtlrun.runs.store import Locks
from mtlrun.utils.processes import exclusive_lock
locks = Locks(Path(sys.argv[1]))
locks.acquire("a")
print("taken", flush=True)
sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free_and_names_it(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdout.readline()
    assert Locks(tmp_path).acquire("a")[0] is False
    process.kill()
    process.communicate()
    assert (tmp_path / "a.lock").exists()
    assert Locks(tmp_path).owner("a") is None
    taken, owner = Locks(tmp_path).acquire("a")
    assert (taken, owner.startswith(f"process {process.pid} on ")) == (True, True)


CONTEST = """
import sys, time
from pathlib import Path
from mtlrun.runs.store import Locks
from mtlrun.utils.processes import exclusive_lock
folder, start = Path(sys.argv[1]), float(sys.argv[2])
locks = Locks(folder)
while time.time() < start:
    pass
taken = []
for i in range(60):
    if locks.acquire(f"cell{i}")[0]:
        taken.append(i)
        if i % 2:  # given up at once: the others may have it then, or find it removed while they open it
            locks.release(f"cell{i}")
print(sum(i % 2 == 0 for i in taken), flush=True)
sys.stdin.read()
"""


def test_many_processes_share_out_locks_without_a_double(tmp_path):
    for i in range(60):
        (tmp_path / f"cell{i}.lock").write_text("process 1 on elsewhere")
    words = [sys.executable, "-c", CONTEST, str(tmp_path), str(time.time() + 1)]
    contestants = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    taken = [int(c.stdout.readline()) for c in contestants]
    assert len(list(tmp_path.glob("*.lock"))) == 30
    for c in contestants:
        c.communicate()
    assert sum(taken) == 30


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
