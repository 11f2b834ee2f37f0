"""Printed numbers next to ours."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from all_cases import all_cases

from mtlrun.lab.experiment.claims import Reference, Tolerance, Verdict
from mtlrun.lab.report.build import Report, build_report, check_problems, notes
from mtlrun.lab.report.references import (
    ReferenceVerdict,
    constant_lines,
    reference_grid,
    tolerance_of,
)


def report_with(maker, *entries: dict[str, Any], tolerance: Any = None) -> Report:
    maker.config["reference"] = list(entries)
    maker.config["tolerance"] = tolerance
    return build_report(maker.write())


def auc(value: float, **fields: Any) -> dict[str, Any]:
    return {
        "dataset": "alpha",
        "method": "APG-RMTL",
        "quantity": "auc",
        "value": value,
        **fields,
    }


def test_numbers_within_and_outside_the_tolerance_are_distinguished(maker):
    report = report_with(
        maker.fill(),
        auc(0.715),
        auc(0.75),
        tolerance={"quantity": "auc", "absolute": 0.01},
    )
    assert [r.verdict for r in report.references] == ["within", "outside"]
    assert report.references[1].difference == pytest.approx(0.7105 - 0.75)
    assert check_problems(report) == [
        "alpha / APG-RMTL: auc is 0.7105, the paper says 0.75; "
        "the difference -0.0395 exceeds the tolerance 0.01 (absolute)"
    ]


def test_a_number_at_the_limit_is_within(maker):
    maker.cell("alpha", "APG-RMTL", 0, auc=0.3)
    report = report_with(
        maker, auc(0.1, absolute=0.2, decimals=3)
    )  # 0.3 - 0.1 > 0.2 in binary
    assert report.references[0].verdict == "within"


def test_the_printed_precision_counts(maker):
    report = report_with(maker.fill(), auc(0.71), auc(0.71, decimals=4))
    assert [r.verdict for r in report.references] == ["within", "outside"]


@all_cases(
    ("entry", "std", "n", "tolerance"),
    [
        (
            auc(0.7, std=0.03, n=9, decimals=4),
            0.04,
            4,
            2 * (0.03**2 / 9 + 0.04**2 / 4) ** 0.5,
        ),
        (auc(0.7, std=0.03, decimals=4), 0.04, 4, 2 * ((0.03**2 + 0.04**2) / 4) ** 0.5),
        (
            auc(0.7, std=0.03, n=9, decimals=4),
            None,
            1,
            0.001,
        ),  # One split: only the absolute tolerance
        (auc(0.7, decimals=4), 0.04, 4, 0.001),  # No printed standard deviation
        (auc(0.7, decimals=4, absolute=0.02), 0.04, 4, 0.02),
        (auc(0.7, std=0.03, n=1, decimals=4), 0.04, 4, 0.001),  # One printed split
        (auc(0.7, decimals=4, error_rate=0.1), None, 1, 0.03),
    ],
)
def test_the_tolerance_follows_its_rules(entry, std, n, tolerance):
    rules = [{"quantity": "seconds", "absolute": 9.0}, {"absolute": 0.001, "sigmas": 2}]
    result = tolerance_of(
        Reference(**entry), [Tolerance(**rule) for rule in rules], std, n
    )
    assert result[0] == pytest.approx(tolerance)


@pytest.mark.parametrize(
    ("value", "tolerance"), [(71.0, 0.5), (0.71, 0.005), (1.5e-05, 5e-07)]
)
def test_without_rules_half_a_unit_of_the_last_digit_is_allowed(value, tolerance):
    result = tolerance_of(Reference(**auc(value)), [], None, 1)
    assert result[0] == pytest.approx(tolerance)


def test_splits_without_a_value_do_not_count(maker):
    maker.trials = 3
    for trial in range(3):
        maker.cell("alpha", "APG-RMTL", trial, auc=None if trial else 0.7)
    report = report_with(maker, auc(0.7))
    assert [r.n for r in report.references] == [1]


def test_a_constant_is_the_mean_of_what_is_printed_for_a_data_set():
    numbers = [
        ReferenceVerdict(
            "alpha",
            method,
            "auc",
            "paper",
            value,
            ours=ours,
            tolerance=0.25,
            verdict=verdict,
        )
        for method, value, ours, verdict in (
            ("A", 0.25, 0.25, Verdict.WITHIN),  # The constant, 0.5, is at the limit.
            ("B", 0.25, 0.25, Verdict.WITHIN),
            ("C", 1.0, 4.0, Verdict.OUTSIDE),
        )
    ]
    alone = replace(numbers[0], dataset="beta")
    (line,) = constant_lines([*numbers, alone])
    # The constant is within tolerance for 2 of 3 numbers, and so are ours.
    assert re.findall(r"\d+", line) == ["2", "3", "2"]


def test_the_table_has_printed_and_own_numbers_with_five_digits():
    reference = ReferenceVerdict(
        "alpha",
        "A",
        "auc",
        "paper",
        0.7,
        ours=0.7123456,
        n=3,
        difference=0.0123456,
        tolerance=0.001,
    )
    rows = reference_grid([reference, replace(reference, ours=None)]).rows
    assert [row[4:9] for row in rows] == [
        ["0.7", "0.71235", 3, "0.012346", "0.001"],
        ["0.7", None, 3, "0.012346", "0.001"],
    ]


def test_a_speedup_has_a_relative_tolerance(maker):
    entry = {
        "dataset": "alpha",
        "method": "LADM-DC-RMTL-10%",
        "quantity": "speedup",
        "value": 6.0,
    }
    report = report_with(
        maker.fill(), entry, tolerance=[{"quantity": "speedup", "relative": 0.5}]
    )
    assert (report.references[0].verdict, report.references[0].tolerance) == (
        "within",
        3.0,
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"dataset": "delicious"}, "data set not in this run (profile quick: alpha)"),
        ({"method": "Nobody"}, "method not in this run"),
        ({"method": "One Norm"}, "no auc (failed)"),
    ],
)
def test_a_missing_result_has_a_reason_and_is_no_problem(maker, change, why):
    maker.fill()
    for trial in range(2):
        maker.fail("alpha", "One Norm", trial)
    report = report_with(maker, {**auc(0.9), **change})
    assert (report.references[0].verdict, report.references[0].why) == ("not run", why)
    assert check_problems(report) == []


def test_entries_of_other_profiles_are_left_out(maker):
    report = report_with(
        maker.fill(),
        auc(0.9, profile="full"),
        auc(0.71, profile=["quick", "full"], source="stored"),
    )
    assert [(r.value, r.source) for r in report.references] == [(0.71, "stored")]


def test_numbers_of_another_source_do_not_count_as_printed(maker):
    report = report_with(maker.fill(), auc(0.71, source="stored"))
    assert len(report.references) == 1
    assert not any("printed number" in line for line in report.summary)
    assert not any("the paper's values" in line for line in notes(report))
