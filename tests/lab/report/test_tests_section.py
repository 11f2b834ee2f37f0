"""Experiments of the kind test have one line per comparison."""

from mtlrun.lab.report.build import build_report


def sections(maker):
    check = {
        "kind": "paired",
        "quantity": "auc",
        "of": ["One Norm", "LADM-DC-RMTL-10%"],
        "over": "APG-RMTL",
    }
    bounds = {"unit": "trial", "dataset": ["alpha", "gamma"], "at_least": 0.3}
    maker.config["claims"] = [
        {"id": "c1", "text": "No difference.", "checks": [{**check, **bounds}]}
    ]
    report = build_report(maker.fill().write())
    return {section.title: section for section in report.sections}


def test_every_comparison_has_a_line(maker):
    maker.info["kind"] = "test"
    (grid,) = sections(maker)["Tests"].grids
    assert [row[2:] for row in grid.rows] == [
        [0.5, "undecided"],
        [0.5, "undecided"],
        [None, "not tested"],
    ]
    comparison = "p-value of auc of One Norm against APG-RMTL by trial on alpha: 0.5 (claimed: at least 0.3)"
    assert grid.rows[0][1] == f"{comparison}: 2 pairs give no p-value below 0.5"
    assert "gamma is not in this run" in grid.rows[2][1]


def test_other_kinds_have_no_such_section(maker):
    assert "Tests" not in sections(maker)
