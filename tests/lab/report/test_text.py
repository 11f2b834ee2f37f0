"""Number formats and escaping."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from all_cases import all_cases
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.lab.experiment.claims import Check, Verdict
from mtlrun.lab.report.claims import CheckResult, ClaimVerdict
from mtlrun.lab.report.findings import data_of, finding, numbers_of
from mtlrun.show.report_table import (
    Column,
    ReportTable,
    escape_tex,
    markdown_grid,
    rounded,
    show,
    significant,
)


@all_cases(
    ("value", "text"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (9.999, "10.0"),
        (123.4, "123"),
        (1234.5, "1234"),
        (1e-9, "1.00e-09"),
        (2e7, "2.00e+07"),
    ],
)
def test_significant_digits_are_rounded(value, text):
    assert significant(value) == text


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_three_digits_are_kept(value):
    assert float(significant(value)) == pytest.approx(value, rel=5.1e-3)


def test_values_are_formatted():
    for value, kind, text in [
        (None, "score", "-"),
        (float("nan"), "score", "-"),
        (float("inf"), "small", "inf"),
        (0.71234, "score", "0.7123"),
        (2.5, "ratio", "2.50x"),
        (3.0, "count", "3"),
        (0.0421, "small", "0.042"),
        (0.5, "text", "0.5"),
        (True, "text", "True"),
    ]:
        assert show(value, kind) == text


def test_values_are_rounded_below_the_noise():
    assert rounded({"a": [0.1 + 0.2, float("nan"), 3], 1: "x"}) == {
        "a": [0.3, None, 3],
        "1": "x",
    }


@given(st.text(alphabet="ab|\n\t ", max_size=8), st.text(alphabet="xy|", max_size=5))
def test_markdown_rows_have_as_many_cells_as_columns(first, second):
    grid = ReportTable([Column("a"), Column("b")], [[first, second]])
    lines = markdown_grid(grid).splitlines()
    assert len(lines) == 3
    assert [line.replace("\\|", "").count("|") for line in lines] == [3, 3, 3]


def test_tex_escapes_every_special_character():
    assert escape_tex("10% & $5_x {a} ~^\\#") == (
        r"10\% \& \$5\_x \{a\} \textasciitilde{}\textasciicircum{}\textbackslash{}\#"
    )


@all_cases(
    ("check", "found", "printed", "ours"),
    [
        (
            {"kind": "ratio", "quantity": "seconds", "at_least": 1},
            (2, 3.5),
            "faster",
            "2.00 to 3.50 times",
        ),
        (
            {"kind": "ratio", "quantity": "seconds", "at_least": 77},
            (24.5,),
            "at least 77 times",
            "24.5 times",
        ),
        (
            {"kind": "ratio", "quantity": "mse", "at_most": 1},
            (0.2, 0.5),
            "MSE not higher",
            "0.200 to 0.500 times",
        ),
        (
            {"kind": "ratio", "quantity": "seconds", "at_least": 1000},
            (0.00081, 1390.2),
            "at least 1,000 times",
            "0.000810 to 1,390 times",
        ),
        (
            {"kind": "difference", "quantity": "auc", "at_least": 0},
            (0.01,),
            "AUC not lower",
            "1.00 points",
        ),
        (
            {"kind": "difference", "quantity": "auc", "at_least": -0.0122},
            (-0.0214, -0.0101),
            "AUC at most 1.22 points lower",
            "-2.14 to -1.01 points",
        ),
        (
            {"kind": "difference", "quantity": "accuracy", "at_least": 0.005},
            (0.02,),
            "accuracy at least 0.5 points higher",
            "2.00 points",
        ),
        (
            {"kind": "value", "quantity": "times_paper", "at_most": 1},
            (0.25,),
            "seconds over those of DCD as printed at most 1",
            "0.25",
        ),
    ],
)
def test_bounds_are_written_in_words(check, found, printed, ours):
    methods = (
        {"of": ["A"]} if check["kind"] == "value" else {"of": ["A"], "over": ["B"]}
    )
    results = [
        CheckResult("", True, value, check=Check(**methods, **check)) for value in found
    ]
    claim = ClaimVerdict("c", "It is so.", None, Verdict.CONFIRMED, "", results=results)
    assert numbers_of(claim) == (printed, ours)


def test_labels_with_commas_are_separated():
    run = SimpleNamespace(datasets={})
    results = [
        SimpleNamespace(dataset=name, found=1.0)
        for name in ("SARCOS, partial", "simulated")
    ]
    claim = SimpleNamespace(verdict=Verdict.CONFIRMED, results=results)
    assert data_of([run], claim) == "SARCOS, partial; simulated"


def test_a_finding_keeps_the_digits_of_a_small_factor():
    check = Check(kind="ratio", quantity="seconds", of=["A"], over=["B"], at_least=1)
    results = [CheckResult("", False, 0.00081, check=check)]
    claim = ClaimVerdict(
        "c", "It is so.", None, Verdict.NOT_CONFIRMED, "", results=results
    )
    assert "(0.000810 times in" in finding(claim, "it is faster")
