"""``report`` rebuilds reports, ``status`` lists unused ones, ``env`` lists versions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mtlrun import __version__

OUTPUT = Path("results/runs")


@pytest.fixture
def two_runs(mtlrun, write_experiment, tmp_path):
    """Write runs of two profiles and an unrelated file."""
    write_experiment()
    for profile in ("full", "demo"):
        assert mtlrun("reproduce", "table.yaml", "--profile", profile).exit_code == 0
    (tmp_path / OUTPUT / "notes.txt").write_text("mine")
    return tmp_path / OUTPUT / "made" / "table1"


def test_reports_are_found_by_name_and_by_folder(mtlrun, two_runs):
    by_name = mtlrun("report", "table.yaml", "--profile", "demo", "--format", "csv")
    by_folder = mtlrun("report", str(two_runs / "demo"), "--format", "csv")
    assert by_name.exit_code == by_folder.exit_code == 0
    assert (
        by_name.stdout
        == by_folder.stdout
        == (two_runs / "demo" / "table.csv").read_text()
    )


def test_report_without_runs_is_an_error(mtlrun, write_experiment, tmp_path, lacking):
    write_experiment()
    result = mtlrun("report", "table.yaml")
    assert result.exit_code == 2
    assert not lacking(result.stderr, "results/runs/made/table1/full", "run.json")
    (tmp_path / "empty").mkdir()
    assert not lacking(mtlrun("report", "empty").stderr, "empty", "run.json")
    assert "'nonsense'" in mtlrun("report", "nonsense").stderr


def test_the_summary_includes_comparisons(mtlrun, tmp_path):
    """The summary skips damaged comparisons and gives the reason."""
    for name, content in {
        "mine": {"title": "On mine", "verdict": "It helped."},
        "old": {},
        "torn": None,
    }.items():
        folder = tmp_path / OUTPUT / "compare" / name
        folder.mkdir(parents=True)
        (folder / "leaderboard.json").write_text(
            "{" if content is None else json.dumps(content)
        )
        (folder / "leaderboard.html").touch()
    result = mtlrun("report", "all")
    assert result.exit_code == 0, result.output
    assert ["compare/mine", "On mine", "It helped."] in [
        re.split(r"\s{2,}", s) for s in result.stdout.splitlines()
    ]
    assert "compare/torn/leaderboard.json" in result.stdout
    assert (
        "[compare/mine](compare/mine/leaderboard.md) | On mine"
        in (tmp_path / OUTPUT / "index.md").read_text()
    )
    assert (
        'href="compare/mine/leaderboard.html"'
        in (tmp_path / OUTPUT / "index.html").read_text()
    )


def test_a_report_file_needs_a_format_and_a_writable_folder(
    mtlrun, two_runs, tmp_path, lacking
):
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
    values = dict(
        re.split(r"\s{2,}", line, maxsplit=1) for line in result.stdout.splitlines()
    )
    assert values["mtlrun"] == __version__
    assert values["data directory"] == "here"
    assert {
        "numpy",
        "scipy",
        "scikit-learn",
        "blas",
        "cpu",
        "cores",
        "OMP_NUM_THREADS",
    } <= set(values)


def test_status_names_jobs_that_no_experiment_needs(mtlrun, two_runs, tmp_path):
    assert "may be deleted" not in mtlrun("status", "table.yaml").stdout
    cells = tmp_path / OUTPUT / "cells"
    some = next(path for path in cells.glob("*.json"))
    (cells / f"{'0' * 64}.json").write_text(some.read_text())
    assert (
        f"needs 1 result of {OUTPUT}: they may be deleted"
        in mtlrun("status", "table.yaml").stdout
    )
    for folder in ("full", "demo"):
        (two_runs / folder / "run.json").unlink()
    assert "they may be deleted" in mtlrun("status", "table.yaml").stdout
