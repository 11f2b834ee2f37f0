"""Reports of committed reference runs can be rebuilt from their jobs, three of them
byte for byte.
"""

from pathlib import Path

import pytest

from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import FILES, FORMATS

RESULTS = Path(__file__).parents[3] / "results"
#: A table with six interpretations, an axis with matrices, and analyses: everything
#: that a report can contain.
PINNED = ["dcrmtl/table2/real", "fetr/fig3/quick", "mtmkl/table2/quick"]


def test_reference_runs_exist(committed_runs):
    assert {RESULTS / name for name in PINNED} < set(committed_runs)


def test_reports_can_be_rebuilt_from_their_jobs(committed_run):
    report = build_report(committed_run)
    texts = {name: writer(report) for name, writer in FORMATS.items() if name != "html"}
    assert all(texts.values())
    assert texts["csv"] == (committed_run / "table.csv").read_text("utf-8"), (
        "the numbers are those of the cells"
    )


@pytest.mark.rendered
@pytest.mark.slow
@pytest.mark.parametrize("name", PINNED)
def test_some_reports_are_rebuilt_byte_for_byte(name):
    report = build_report(RESULTS / name)
    for file, writer in FILES.items():
        assert writer(report) == (RESULTS / name / file).read_text("utf-8"), file
