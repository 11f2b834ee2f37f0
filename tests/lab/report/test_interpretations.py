"""The same run under several interpretations of its paper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtlrun.lab.report.build import build_report, is_partial
from mtlrun.lab.report.formats import html_report, markdown
from mtlrun.utils.io import DIGEST

RUN = Path(__file__).resolve().parents[3] / "results/dcrmtl/fig2/quick"
LABELS = ["One Norm", "APG-RMTL"]


@pytest.fixture
def two_readings(maker):
    """Return a function that writes a run; under the second interpretation methods are
    ordered by the given scores.
    """
    maker.info["methods"] = LABELS
    check = {"kind": "order", "quantity": "auc", "methods": LABELS}
    maker.config["claims"] = [{"id": "c", "text": "it is so", "checks": [check]}]
    maker.config["reference"] = [
        {"dataset": "alpha", "method": "One Norm", "quantity": "auc", "value": 0.71}
    ]
    maker.info["reading"] = "plain"

    def write(*scores: float | None, plausible: bool = True):
        main = {"rule": "published level", "of": ["One Norm"]}
        other = {
            "why": "Also plausible.",
            "plausible": plausible,
            "config": {"split": {"train": 0.1}},
        }
        maker.info["readings"] = {
            "plain": {"why": "As it stands.", "main": main},
            "other": other,
        }
        for trial in range(2):
            maker.cell("alpha", "One Norm", trial, auc=0.70)
            maker.cell("alpha", "APG-RMTL", trial, auc=0.75)
            for method, score in zip(LABELS, scores, strict=False):
                maker.cell("alpha", f"{method} other", trial, auc=score)
        folder = maker.write()
        plan = json.loads((folder / "run.json").read_text())
        for cell in plan["cells"]:
            if cell["method"].endswith(" other"):
                cell |= {
                    "method": cell["method"].removesuffix(" other"),
                    "reading": "other",
                }
        (folder / "run.json").write_text(json.dumps(plan))
        return build_report(folder)

    return write


def test_a_claim_that_flips_depends_on_the_interpretation(two_readings):
    report = two_readings(0.8, 0.6)
    (claim,) = report.claims
    assert claim.verdict == "depends on the reading"
    assert claim.readings == {"plain": "confirmed", "other": "not confirmed"}
    assert claim.found.endswith(
        "It holds under 1, does not hold under 1 of 2 interpretations."
    )
    assert claim.holding == "holds under 1, does not hold under 1 of 2 interpretations"
    assert [row.value("auc") for row in report.rows] == [
        0.70,
        0.75,
    ]  # The table is that of the main interpretation.
    assert [row.value("auc") for row in report.others[0].rows] == [0.8, 0.6]


def test_a_claim_that_holds_under_all_interpretations_is_confirmed(two_readings):
    (claim,) = two_readings(0.6, 0.8).claims
    assert (claim.verdict, claim.holding) == (
        "confirmed",
        "holds under 2 of 2 interpretations",
    )


def test_an_implausible_interpretation_decides_nothing(two_readings):
    (claim,) = two_readings(0.8, 0.6, plausible=False).claims
    assert claim.verdict == "confirmed"
    assert claim.readings["other"] == "not confirmed"
    assert claim.holding.endswith("(other for comparison only)")


def test_an_interpretation_without_jobs_is_pending(two_readings):
    report = two_readings()
    assert not report.others
    assert not is_partial(report)
    assert report.claims[0].verdict == "confirmed"
    assert "Not computed: other." in markdown(report)


def test_an_interpretation_with_only_shared_jobs_is_pending(two_readings):
    folder = two_readings(0.8, 0.6).run.folder
    plan = json.loads((folder / "run.json").read_text())
    shared = next(cell for cell in plan["cells"] if cell.get("reading") == "other")
    third_cell = {**shared, "method": "APG-RMTL", "key": "0" * 64, "reading": "third"}
    plan["cells"] += [{**shared, "reading": "third"}, third_cell]
    plan["readings"]["third"] = plan["readings"]["other"]
    (folder / "run.json").write_text(json.dumps(plan))
    report = build_report(folder)
    assert [other.name for other in report.others] == ["other"]
    assert not is_partial(report)


def test_a_job_of_two_other_interpretations_counts_once(two_readings):
    folder = two_readings(0.8, 0.6).run.folder
    plan = json.loads((folder / "run.json").read_text())
    shared, moved, *_ = (
        cell for cell in plan["cells"] if cell.get("reading") == "other"
    )
    planned = len(plan["cells"])
    plan["cells"].append({**shared, "reading": "third"})
    moved["reading"] = "third"
    plan["readings"]["third"] = plan["readings"]["other"]
    (folder / "run.json").write_text(json.dumps(plan))
    report = build_report(folder)
    assert [other.name for other in report.others] == ["other", "third"]
    assert report.job_counts["planned"] == planned


def test_the_report_shows_interpretations_side_by_side_and_the_level_behind_the_main_one(
    two_readings,
):
    text = markdown(two_readings(0.8, 0.6))
    assert text.count("## Interpretations side by side") == 1
    assert "by the published level of One Norm" in text
    rows = [
        [entry.strip() for entry in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    assert ["plain", "As it stands.", "main", "1.41"] in rows
    assert ["other", "Also plausible.", "decides", "12.7"] in rows


def test_failures_of_other_interpretations_are_listed(two_readings, maker):
    maker.fail("alpha", "APG-RMTL other", 1, error="ValueError: not so")
    text = markdown(two_readings(0.8))
    assert "failed: alpha / APG-RMTL / trial 1 [other]: ValueError: not so" in text


def test_pages_show_interpretations(two_readings):
    page = html_report(two_readings(0.8, 0.6))
    assert "holds under 1, does not hold under 1 of 2 interpretations" in page


def test_an_altered_plan_is_reported(two_readings, maker):
    two_readings(0.8, 0.6)
    path = maker.folder / "run.json"
    plan = json.loads(path.read_text())
    path.write_text(json.dumps({**plan, DIGEST: "0" * 64}))
    assert any(
        "run.json was modified after it was written" in line
        for line in build_report(maker.folder).summary
    )


@pytest.mark.skipif(not RUN.is_dir(), reason="needs a checkout")
def test_an_interpretation_with_the_same_jobs_shows_its_additional_quantities():
    report = build_report(RUN)
    added = [table for table in report.interpretation_tables if table.lines]
    (table,) = added
    assert "seconds" in table.title
    assert table.title not in [other.title for other in report.tables]
    assert "'one block after the other'" in table.lines[0]
