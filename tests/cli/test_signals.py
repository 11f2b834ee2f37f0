"""A command that is told to end, or killed: its workers end with it, and what it held is free again."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")

#: A method that writes the number of its process to a file and waits.
METHODS = '''
"""A method that takes long."""

import os
import time
from pathlib import Path

from mtlrun.estimators.independent import IndependentRidge


class Slow(IndependentRidge):
    """Tells its process, then waits."""

    def fit(self, X, y, *, task_id=None, sample_weight=None):
        """Wait."""
        Path(f"{os.getpid()}.worker").write_text("")
        time.sleep(600)
        return super().fit(X, y, task_id=task_id, sample_weight=sample_weight)
'''
PATIENCE = 240


@pytest.fixture
def start(write_experiment, tmp_path, environment):
    """Start an experiment of four cells, of which two are finished when their workers are in the other two."""
    started = []

    def begin(*words, extra="", timing="keep: [predictions]"):
        write_experiment("Slow", timing=timing, extra=extra)
        (tmp_path / "made_methods.py").write_text(METHODS)
        command = [sys.executable, "-m", "mtlrun", "reproduce", "table.yaml", *words]
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def workers(folder):
    return [int(path.stem) for path in folder.glob("*.worker")]


def group_lives(process):
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


HOW = {
    "serial": ((), ""),
    "parallel": (("-j", "2"), ""),
    "limited": (("-j", "2"), "limits: {seconds: 600}\n"),
}


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGTERM, "serial"),
        (signal.SIGTERM, "parallel"),
        (signal.SIGTERM, "limited"),
        (signal.SIGHUP, "parallel"),
    ],
)
def test_a_signal_to_the_command_alone_ends_it_like_ctrl_c(start, tmp_path, number, how):
    words, extra = HOW[how]
    process = start(*words, extra=extra)
    wait_for(lambda: len(workers(tmp_path)) == (2 if words else 1) and len(list(tmp_path.rglob("cells/*.json"))) == 4)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err.decode()
    assert b"PARTIAL RUN: 4 of 6 cells done, 2 not computed yet." in out
    assert b"Traceback" not in err
    assert not list(tmp_path.rglob("*.lock"))
    wait_for(lambda: not group_lives(process))


@pytest.mark.parametrize("how", ["parallel", "limited"])
def test_workers_end_when_the_command_alone_is_killed(start, tmp_path, how):
    words, extra = HOW[how]
    process = start(*words, extra=extra)
    wait_for(lambda: len(workers(tmp_path)) == 2)
    process.kill()
    process.wait()
    wait_for(lambda: not group_lives(process))
    # What it left is taken over at the next start.
    table = tmp_path / "table.yaml"
    table.write_text("".join(line for line in table.open() if "Slow" not in line))
    again = subprocess.run(process.args, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert not list(tmp_path.rglob("*.lock"))


def test_a_signal_that_is_ignored_stays_ignored(start, tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        process = start()
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_for(lambda: workers(tmp_path))
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 130
