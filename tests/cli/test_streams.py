"""Closed or full streams cause no traceback, and the exit code states what happened."""

import subprocess
import sys
from pathlib import Path

import pytest

MTLRUN = f"{sys.executable} -m mtlrun"


def run(command):
    return subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
def test_a_closed_stdout_or_stderr_is_silent():
    closed = run(f"{MTLRUN} list methods >&-")
    assert closed.returncode == 0
    assert "error" not in closed.stderr
    failed = run(f"{MTLRUN} compare no-such-file.csv 2>&-")
    assert (failed.returncode, failed.stdout) == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_reported():
    full = run(f"PYTHONUNBUFFERED=1 {MTLRUN} list methods >/dev/full")
    assert full.returncode == 2, full.stderr
    assert "No space left on device" in full.stderr
    assert "Traceback" not in full.stderr
