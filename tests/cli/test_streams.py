"""Closed or full streams cause no traceback, and the exit code states what happened."""

import subprocess
import sys
from pathlib import Path

import pytest

from mtlrun.cli.console import show_warning

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
    assert "Traceback" not in closed.stderr
    failed = run(f"{MTLRUN} compare no-such-file.csv 2>&-")
    assert (failed.returncode, failed.stdout) == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_reported():
    full = run(f"PYTHONUNBUFFERED=1 {MTLRUN} list methods >/dev/full")
    assert full.returncode == 2, full.stderr
    assert "No space left" in full.stderr
    assert "Traceback" not in full.stderr


def test_warnings_that_differ_in_numbers_are_printed_once_without_a_path(capsys):
    for gap in ("0.0057", "6e-3"):
        show_warning(f"no end\n  after gap {gap}", UserWarning, "a.py", 1)
    assert capsys.readouterr().err == "warning: no end after gap 0.0057\n"
