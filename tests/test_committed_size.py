"""The checkout stays small: committed results are compact, and no new file is large."""

import subprocess
from pathlib import Path

import pytest

from mtlrun.engine.packed import PACKED, is_without_plan
from mtlrun.engine.stored import RUN_FILE, read_raw
from mtlrun.lab.results import compact_run

ROOT = Path(__file__).resolve().parents[1]
MAX_FILE_BYTES = 1_000_000
MAX_RESULTS_BYTES = 12 << 20
REMEDY = "run `make pages`, which compacts results/"


def tracked_files() -> list[Path]:
    """Return the files that git has or would add; skip without a checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    names = done.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def test_no_file_is_larger_than_a_megabyte():
    large = [path for path in tracked_files() if path.stat().st_size > MAX_FILE_BYTES]
    assert not large, REMEDY


def test_results_take_less_than_twelve_megabytes():
    results = [path for path in tracked_files() if ROOT / "results" in path.parents]
    assert results
    assert sum(path.stat().st_size for path in results) < MAX_RESULTS_BYTES, REMEDY


def test_committed_runs_are_compact(committed_runs):
    for folder in committed_runs:
        assert is_without_plan(read_raw(folder / RUN_FILE)), f"{folder}: {REMEDY}"
        assert (folder / PACKED).is_file(), f"{folder}: {REMEDY}"


def test_compacting_a_committed_run_again_changes_nothing(committed_runs):
    folder = min(committed_runs, key=lambda folder: (folder / PACKED).stat().st_size)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    compact_run(folder)
    after = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert after == before
