"""The report on terminals and pipes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mtlrun.engine.record import SearchResult
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.findings import findings
from mtlrun.lab.report.formats import markdown
from mtlrun.lab.report.terminal import print_report

DC = "LADM-DC-RMTL-10%"


def printed(maker, width: int = 80, **options) -> str:
    stream = io.StringIO()
    print_report(
        Console(file=stream, width=width, **options), build_report(maker.write())
    )
    return stream.getvalue()


@pytest.mark.parametrize("width", [60, 80])
def test_names_are_complete_and_lines_fit(maker, width):
    maker.fill()
    seconds = maker.records["alpha", DC, 0].seconds
    seconds.blocks_sum, seconds.blocks_max = 0.4, 0.1
    text = printed(maker, width)
    # In a pipe a sentence is one line, for searching and counting; only tables fit the
    # width.
    sentences = ("alpha: only ", "±: ", "The best number", "To finish it")
    assert all(
        len(line) <= width
        for line in text.splitlines()
        if not line.startswith(sentences)
    )
    for method in maker.info["methods"]:
        assert any(line.strip().startswith(method) for line in text.splitlines())
    assert "…" not in text


def test_everything_is_shown_at_80_columns(maker):
    maker.fill()
    seconds = maker.records["alpha", DC, 0].seconds
    seconds.blocks_sum, seconds.blocks_max = 0.4, 0.1
    rows = [
        line.split()
        for line in printed(maker, 80).splitlines()
        if line.lstrip().startswith(DC)
    ]
    values = [value for row in rows for value in row[1:]]
    assert values == ["0.7205", "±", "0.0007", "0.500", "0.200", "4.00x"]


def test_two_metrics_with_speedups_fit_into_80_columns(maker):
    maker.config["metrics"] = ["auc", "accuracy"]
    maker.fill()
    for record in maker.records.values():
        record.metrics["accuracy"] = record.metrics["auc"]
    rows = [
        line.split()
        for line in printed(maker, 80).splitlines()
        if line.lstrip().startswith(DC)
    ]
    values = [value for row in rows for value in row[1:]]
    assert values == [*["0.7205", "±", "0.0007"] * 2, "0.500", "4.00x"]


def test_output_outside_a_terminal_is_plain(maker):
    maker.fill()
    text = printed(maker)
    assert "\x1b" not in text
    assert "\r" not in text


def test_output_on_a_terminal_is_colored(maker):
    assert "\x1b[" in printed(
        maker.fill(), force_terminal=True, color_system="standard"
    )


def test_failures_are_repeated_with_their_first_line(maker):
    maker.fill()
    maker.fail("alpha", DC, 1, error="ValueError: first\nand then")
    text = printed(maker)
    assert "failed: alpha / LADM-DC-RMTL-10% / trial 1: ValueError: first" in text
    assert "and then" not in text


def test_equal_failures_are_merged(maker):
    maker.fill()
    for trial in range(2):
        maker.fail("alpha", DC, trial)
    lines = [line for line in printed(maker).splitlines() if line.startswith("failed:")]
    assert lines == [
        f"failed: alpha / {DC} / trials 0, 1: ValueError: no [cells/alpha-LADM-DC-RM...]"
    ]


def test_many_failures_are_truncated(maker):
    maker.fill(tuple("abcdefghijkl"))
    for dataset in "abcdefghijkl":
        maker.fail(dataset, DC, 1)
    text = printed(maker)
    assert text.count("ValueError: no") == 10
    assert "... and 2 more failures, see report.md" in text


def test_claims_and_references_are_shown(maker):
    check = {
        "kind": "ratio",
        "quantity": "seconds",
        "of": "APG-RMTL",
        "over": DC,
        "at_least": 6,
    }
    maker.config["claims"] = [
        {"id": "made-1", "text": "DC [fast] is faster", "checks": [check]}
    ]
    maker.config["reference"] = [
        {"dataset": "alpha", "method": "APG-RMTL", "quantity": "auc", "value": 0.71},
        {"dataset": "gamma", "method": "APG-RMTL", "quantity": "auc", "value": 0.71},
    ]
    text = printed(maker.fill(), 200)
    assert (
        "does not hold: made-1: DC [fast] is faster. Found: seconds of APG-RMTL" in text
    )
    assert "2 printed numbers: 1 within tolerance, 1 not run." in text
    lines = [line.split() for line in text.splitlines()]
    ours = next(i for i, line in enumerate(lines) if line[:2] == ["APG-RMTL", "0.7105"])
    assert lines[ours + 1][:2] == ["printed", "0.71"]


def test_grid_edges_are_reported(maker):
    maker.fill()
    for method in maker.info["methods"]:
        maker.records["alpha", method, 1].selection = SearchResult(
            key="none", edges={"alpha": "high"}
        )
    text = printed(maker)
    assert (
        f"end of the grid: alpha / {DC}: alpha hit its maximum in 1 of 1 split" in text
    )


def test_printed_numbers_without_a_result_are_counted_with_their_reason(
    maker,
):
    maker.measure("audit", ["findings"])
    maker.measurement("alpha", "DCD", metrics={"findings": 1})
    entry = {"method": "DCD", "quantity": "findings", "value": 1}
    maker.config["reference"] = [
        {"dataset": d, **entry} for d in ("gamma", "gamma", "delta", "alpha")
    ]
    text = printed(maker)
    assert "4 printed numbers: 1 within tolerance, 3 not run." in text
    rows = [line.split() for line in text.splitlines()]
    assert rows[rows.index(["DCD", "1"]) + 1] == ["printed", "1"]
    assert "3 numbers not run: data set not in this run" in markdown(
        build_report(maker.write())
    )


def test_the_outcome_comes_first_and_warnings_last(maker):
    check = {
        "kind": "ratio",
        "quantity": "seconds",
        "of": "APG-RMTL",
        "over": DC,
        "at_least": 6,
    }
    maker.config["claims"] = [
        {"id": "made-1", "text": "It is faster", "checks": [check]},
        *(
            {
                "id": f"made-{i}",
                "text": "It is so",
                "not_testable": "the figures are lost",
            }
            for i in (2, 3)
        ),
    ]
    maker.fill()
    maker.records["alpha", DC, 1].selection = SearchResult(
        key="none", edges={"alpha": "high"}
    )
    lines = printed(maker, 200).splitlines()
    assert [line for line in lines if line.startswith("not testable")] == [
        "not testable: 2 claims: made-2, made-3 (the figures are lost)."
    ]
    outcome = lines.index("3 claims of the paper: 1 does not hold, 2 are not testable.")
    assert lines[outcome + 1] == "6 of 6 results done."
    verdict = next(
        i for i, line in enumerate(lines) if line.startswith("does not hold: made-1")
    )
    table = next(i for i, line in enumerate(lines) if line.startswith("APG-RMTL"))
    edge = next(i for i, line in enumerate(lines) if line.startswith("end of the grid"))
    short = lines.index("In short")
    assert outcome < table < verdict < edge < short


@pytest.mark.parametrize("width", [60, 200])
def test_the_last_lines_say_what_was_computed_claimed_and_found(maker, width):
    check = {"kind": "ratio", "quantity": "seconds", "of": "APG-RMTL", "over": DC}
    maker.config["claims"] = [
        {
            "id": f"made-{i}",
            "text": "It is faster",
            "checks": [{**check, "at_least": 6}],
        }
        for i in range(9)
    ]
    lines = printed(maker.fill(), width).splitlines()
    last = lines[lines.index("In short") :]
    assert len(last) <= 1 + 10
    assert last[1].startswith("computed: made/table1 on alpha, 6 of 6 results")
    assert last[3] == "does not hold: It is faster (ours: 4.00 times)"
    assert last[-2] == "3 further claims: 3 do not hold"


def test_a_long_claim_is_cut_before_its_numbers(maker):
    check = {"kind": "ratio", "quantity": "seconds", "of": "APG-RMTL", "over": DC}
    claim = {
        "id": "c",
        "text": "It is faster " * 9,
        "checks": [{**check, "at_least": 6}],
    }
    maker.config["claims"] = [claim]
    (line,) = [line for line in printed(maker.fill()).splitlines() if "..." in line]
    assert line.startswith("does not hold: ")
    assert line.endswith("... (ours: 4.00 times)")
    assert len(line) <= 80


def test_the_last_lines_tell_the_data_of_the_paper_from_others(maker):
    check = {"kind": "ratio", "quantity": "seconds", "of": "APG-RMTL", "over": DC}
    claim = {"id": "c", "text": "It is faster", "checks": [{**check, "at_least": 6}]}
    headers = []
    for source in ("paper", "other data"):
        maker.config["claims"] = [{**claim, "source": source}]
        lines = printed(maker.fill()).splitlines()
        headers.append(lines[lines.index("In short") + 2])
    assert ["other than" in header for header in headers] == [False, True]


def test_claims_without_a_comparison_are_not_further_ones(maker):
    claim = {"id": "c", "text": "It is so", "not_testable": "the figures are lost"}
    maker.config["claims"] = [claim]
    lines = printed(maker.fill()).splitlines()
    assert any(line.endswith("1 is not testable") for line in lines)


def test_additional_claims_are_counted_with_those_not_tested(maker):
    check = {"kind": "ratio", "quantity": "seconds", "of": "APG-RMTL", "over": DC}
    bounds = [*({"at_least": 6} for _ in range(4)), {"at_least": 2}]
    maker.config["claims"] = [
        *(
            {"id": f"made-{i}", "text": "It is so", "checks": [check | b]}
            for i, b in enumerate(bounds)
        ),
        {"id": "lost", "text": "It is so", "not_testable": "the figures are lost"},
    ]
    report = build_report(maker.fill().write())
    assert (
        findings(report.claims)[-1]
        == "3 further claims: 1 holds, 1 does not hold, 1 is not testable."
    )
    # Without a decision there is nothing to add claims to.
    assert findings(report.claims[-1:]) == []


@pytest.mark.parametrize(
    ("exact", "ours"), [(8.0, "4 times"), (None, "at least 4 times")]
)
def test_a_quantity_of_stopped_runs_is_a_bound(maker, exact, ours):
    maker.measure("trace", ["seconds_to_1e-6", "seconds_at_least"])
    maker.measurement(
        "alpha", "DCD", metrics={"seconds_to_1e-6": 2.0, "seconds_at_least": 2.0}
    )
    maker.measurement(
        "alpha", "MTK", metrics={"seconds_to_1e-6": exact, "seconds_at_least": 8.0}
    )
    check = {
        "kind": "ratio",
        "quantity": "seconds_at_least",
        "of": "MTK",
        "over": "DCD",
        "at_least": 2,
    }
    maker.config["claims"] = [
        {"id": "made-1", "text": "It is faster", "checks": [check]}
    ]
    report = build_report(maker.write())
    assert report.claims[0].verdict == "confirmed"
    assert findings(report.claims)[0].endswith(
        f"ours: {ours}).".replace("4 times", "4.00 times")
    )


def test_long_verdicts_are_wrapped_on_a_terminal(maker):
    check = {
        "kind": "ratio",
        "quantity": "seconds",
        "of": "APG-RMTL",
        "over": DC,
        "at_least": 6,
    }
    maker.config["claims"] = [
        {
            "id": "made-1",
            "text": "DC is much faster than anything else " * 3,
            "checks": [check],
        }
    ]
    lines = printed(
        maker.fill(), 80, force_terminal=True, color_system=None
    ).splitlines()
    assert any(line.startswith("does not hold: made-1: DC is") for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_a_scaling_is_a_table_along_its_axis(maker):
    maker.measure(
        "scaling", ["seconds"], sweep={"name": "n", "option": "n", "values": [10, 100]}
    )
    maker.info["datasets"] = {
        f"alpha (n {n})": {"axis": {"of": "alpha", "value": n}} for n in (10, 100)
    }
    for n in (10, 100):
        for method in ("DCD", "MTK"):
            maker.measurement(f"alpha (n {n})", method, metrics={"seconds": n / 4})
    lines = [line.split() for line in printed(maker).splitlines()]
    assert ["seconds", "to", "fit,", "alpha"] in lines
    assert ["n", "DCD", "MTK"] in lines
    assert ["100", "25", "25"] in lines


def test_results_of_audits_are_printed(maker):
    maker.measure("audit", ["findings"])
    maker.measurement(
        "alpha",
        "DCD",
        metrics={"findings": 1},
        result={"lines": ["[Table 2] does not follow."]},
    )
    assert "[Table 2] does not follow." in printed(maker)


def test_many_quantities_are_listed_in_lines(maker):
    names = [f"a_rather_long_quantity_{i}" for i in range(9)]
    maker.measure("trace", names)
    maker.info["methods"] = [f"Method number {i}" for i in range(5)]
    for index, method in enumerate(maker.info["methods"]):
        maker.measurement(
            "alpha",
            method,
            metrics={name: index + i / 4 for i, name in enumerate(names)},
        )
    text = printed(maker)
    lines = [
        line for line in text.splitlines() if ": made " not in line
    ]  # A sentence is one line.
    assert all(len(line) <= 80 for line in lines)
    rows = [
        line.split()
        for line in text.splitlines()
        if line.startswith("a rather long quantity 3 ")
    ]
    assert [value for row in rows for value in row[5:]] == [
        "0.75",
        "1.75",
        "2.75",
        "3.75",
        "4.75",
    ]
    assert sum(line.count("Method number") for line in lines) == 5
