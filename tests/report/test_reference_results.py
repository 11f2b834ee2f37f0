"""Committed reference runs: their reports follow from their cells, to the byte."""

from pathlib import Path

import pytest

from mtlrun.report.build import build_report
from mtlrun.report.writers import FILES

RESULTS = Path(__file__).parents[2] / "results"
RUNS = sorted(path.parent for path in RESULTS.glob("*/*/*/run.json") if "runs" not in path.relative_to(RESULTS).parts)


def test_there_are_reference_runs():
    assert RUNS


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.relative_to(RESULTS).as_posix())
def test_reports_are_rebuilt_from_their_cells(folder):
    report = build_report(folder)
    for name, writer in FILES.items():
        assert writer(report) == (folder / name).read_text("utf-8"), name
