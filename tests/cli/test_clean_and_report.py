"""``clean`` asks, ``report`` rebuilds, ``env`` tells."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mtlrun.runs.locks import Locks

OUTPUT = Path("results/runs")


@pytest.fixture
def two_runs(mtlrun, write_experiment, tmp_path):
    """Runs of two profiles, and a file that is not ours."""
    write_experiment()
    for profile in ("full", "demo"):
        assert mtlrun("reproduce", "table.yaml", "--profile", profile).exit_code == 0
    (tmp_path / OUTPUT / "notes.txt").write_text("mine")
    return tmp_path / OUTPUT / "made" / "table1"


def test_clean_does_nothing_unasked(mtlrun, two_runs, lacking):
    result = mtlrun("clean", "table.yaml")
    assert result.exit_code == 2
    assert not lacking(result.stderr, "error:", "--yes")
    assert {p.name for p in two_runs.iterdir()} == {"full", "demo"}


def test_clean_one_profile(mtlrun, two_runs):
    result = mtlrun("clean", "table.yaml", "--profile", "demo", "--yes")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "deleted 1 run")
    assert {p.name for p in two_runs.iterdir()} == {"full"}


def test_clean_all_deletes_runs_only(mtlrun, two_runs, tmp_path):
    assert mtlrun("clean", "--yes").exit_code == 0
    assert [p.name for p in (tmp_path / OUTPUT).iterdir()] == ["notes.txt"]
    assert mtlrun("clean", "--yes").stdout == "nothing to delete\n"


def files_below(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", ["proj", "proj/a/b/c", "proj/made/table1/full"])
@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"schema": 1}', "a run of another program"])
def test_clean_leaves_folders_of_others_alone(mtlrun, tmp_path, place, content):
    """A file run.json does not make the folder of a run."""
    (tmp_path / place / "cells").mkdir(parents=True)
    (tmp_path / place / "run.json").write_text(content)
    (tmp_path / place / "thesis.tex").write_text("mine")
    before = files_below(tmp_path / "proj")
    result = mtlrun("clean", "-o", "proj", "--yes")
    assert (result.exit_code, result.stdout) == (0, "nothing to delete\n")
    assert files_below(tmp_path / "proj") == before


def test_clean_leaves_a_run_that_was_put_elsewhere(mtlrun, two_runs, tmp_path):
    (two_runs / "demo").rename(two_runs / "kept")
    before = files_below(two_runs / "kept")
    assert mtlrun("clean", "--yes").exit_code == 0
    assert not (two_runs / "full").exists()
    assert files_below(two_runs / "kept") == before


def test_clean_deletes_only_what_mtlrun_wrote(mtlrun, two_runs, tmp_path):
    run, elsewhere = two_runs / "full", tmp_path / "elsewhere.json"
    mine = ["thesis.tex", "cells/notes.json", "figures/drawing.svg", "more/run.json", ".hidden"]
    for name in mine:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("mine")
    elsewhere.write_text("mine")
    (run / "cells.jsonl.gz").unlink()
    (run / "cells.jsonl.gz").symlink_to(elsewhere)
    (run / f".{socket.gethostname()}-1-abc.tmp").write_text("left by a process that was killed")
    result = mtlrun("clean", "table.yaml", "--profile", "full", "--yes")
    assert result.exit_code == 0, result.stderr
    assert "full holds files that mtlrun did not write" in result.stderr
    assert files_below(run) == dict.fromkeys([*mine, "cells.jsonl.gz"], b"mine")
    assert elsewhere.read_text() == "mine"


def test_clean_deletes_nothing_while_a_run_has_begun_and_holds_no_cell_yet(mtlrun, two_runs):
    locks = Locks(two_runs.parents[1] / "cells")
    locks.acquire_presence()
    before = files_below(two_runs)
    refused = mtlrun("clean", "--yes")
    assert refused.exit_code == 2
    assert f"process {os.getpid()} on" in refused.stderr
    assert files_below(two_runs) == before
    locks.release_all()
    assert mtlrun("clean", "--yes").exit_code == 0


def test_a_run_that_is_being_computed_survives_clean(mtlrun, begin, until, write_experiment, tmp_path):
    write_experiment("Slow")
    process = begin("reproduce", "table.yaml", "--only", "method=Slow")
    until((tmp_path / "begun").exists)
    refused = mtlrun("clean", "--yes")
    process.kill()
    process.wait()
    assert refused.exit_code == 2, refused.stderr
    assert f"process {process.pid} on" in refused.stderr
    assert (tmp_path / OUTPUT / "made/table1/full/run.json").exists()


def test_clean_takes_over_what_a_killed_process_left(mtlrun, two_runs):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock = two_runs.parents[1] / "cells" / f"{'a' * 64}.lock"
    lock.write_text(f"process {gone.pid} on {socket.gethostname()}")
    assert mtlrun("clean", "--yes").exit_code == 0
    assert not two_runs.exists()


@pytest.mark.parametrize(("answer", "left"), [("n\n", 2), ("y\n", 0)])
def test_clean_asks_on_a_terminal(mtlrun, two_runs, monkeypatch, answer, left):
    monkeypatch.setattr("mtlrun.cli.console.has_terminal", lambda: True)
    result = mtlrun("clean", "table.yaml", text=answer)
    assert "Delete 2 runs?" in result.output
    assert (result.exit_code == 0) == (left == 0)
    assert (len(list(two_runs.iterdir())) if two_runs.exists() else 0) == left


def test_report_by_name_and_by_folder(mtlrun, two_runs):
    by_name = mtlrun("report", "table.yaml", "--profile", "demo", "--format", "csv")
    by_folder = mtlrun("report", str(two_runs / "demo"), "--format", "csv")
    assert by_name.exit_code == by_folder.exit_code == 0
    assert by_name.stdout == by_folder.stdout == (two_runs / "demo" / "table.csv").read_text()


def test_report_of_nothing(mtlrun, write_experiment, tmp_path, lacking):
    write_experiment()
    result = mtlrun("report", "table.yaml")
    assert result.exit_code == 2
    assert not lacking(result.stderr, "results/runs/made/table1/full", "run.json")
    (tmp_path / "empty").mkdir()
    assert not lacking(mtlrun("report", "empty").stderr, "empty", "run.json")
    assert "'nonsense'" in mtlrun("report", "nonsense").stderr


def test_a_summary_has_the_comparisons_too(mtlrun, tmp_path):
    """Of ``mtlrun compare``; one that is damaged is left out, with the reason."""
    for name, content in {"mine": {"title": "On mine", "verdict": "It helped."}, "old": {}, "torn": None}.items():
        folder = tmp_path / OUTPUT / "compare" / name
        folder.mkdir(parents=True)
        (folder / "leaderboard.json").write_text("{" if content is None else json.dumps(content))
        (folder / "leaderboard.html").touch()
    result = mtlrun("report", "all")
    assert result.exit_code == 0, result.output
    assert "comparison: compare/mine: It helped." in result.stdout
    assert "compare/torn/leaderboard.json" in result.stdout
    assert "[compare/mine](compare/mine/leaderboard.md) | On mine" in (tmp_path / OUTPUT / "index.md").read_text()
    assert 'href="compare/mine/leaderboard.html"' in (tmp_path / OUTPUT / "index.html").read_text()


def test_a_report_to_a_file_needs_a_format_and_a_place(mtlrun, two_runs, tmp_path, lacking):
    refused = mtlrun("report", "table.yaml", "--out", "report.md")
    assert refused.exit_code == 2
    assert not lacking(refused.stderr, "--out", "--format", "html", "tex")
    (tmp_path / "file").write_text("")
    refused = mtlrun("report", "all", "--format", "md", "--out", "file/summary.md")
    assert refused.exit_code == 2
    assert "file/summary.md: " in refused.stderr
    assert "--format md" in refused.stderr


def test_env_names_versions_and_folders(mtlrun):
    result = mtlrun("env", "--data-dir", "here")
    assert result.exit_code == 0
    shown = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in result.stdout.splitlines())
    assert shown["mtlrun"] == "0.1.0"
    assert shown["data directory"] == "here"
    assert {"numpy", "scipy", "scikit-learn", "blas", "cpu", "cores", "OMP_NUM_THREADS"} <= set(shown)
