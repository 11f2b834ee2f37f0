"""Reports of committed reference runs can be rebuilt from their jobs."""

from pathlib import Path

import pytest

from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import FILES, FORMATS

RESULTS = Path(__file__).parents[3] / "results"
#: A table with six interpretations, an axis with matrices, and analyses: everything
#: that a report can contain.
PINNED = ["dcrmtl/table2/real", "mtmkl/table2/quick", "fetr/fig3/quick"]


def test_reference_runs_exist(committed_runs):
    assert {RESULTS / name for name in PINNED} < set(committed_runs)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) for name in PINNED[:-1]] + PINNED[-1:],
)
def test_reports_are_rebuilt_byte_for_byte_and_in_all_formats(name):
    """`tests/test_results_pages.py` compares the files of all runs."""
    folder = RESULTS / name
    report = build_report(folder)
    texts = {file: writer(report) for file, writer in FILES.items()}
    assert texts == {file: (folder / file).read_text("utf-8") for file in texts}
    assert all(writer(report) for form, writer in FORMATS.items() if form != "html")
