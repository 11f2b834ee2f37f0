"""Number formats and escaping."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.report.grid import Column, Grid, escape_tex, markdown_grid, rounded, show, significant


@pytest.mark.parametrize(
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
def test_significant(value, text):
    assert significant(value) == text


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_significant_keeps_three_digits(value):
    assert float(significant(value)) == pytest.approx(value, rel=5.1e-3)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "score", "-"),
        (float("nan"), "score", "-"),
        (float("inf"), "small", "inf"),
        (0.71234, "score", "0.7123"),
        (2.5, "ratio", "2.50x"),
        (3.0, "count", "3"),
        (0.0421, "small", "0.042"),
        (0.5, "text", "0.5"),
        (True, "text", "True"),
    ],
)
def test_show(value, kind, text):
    assert show(value, kind) == text


def test_exact_rounds_below_the_noise():
    assert rounded({"a": [0.1 + 0.2, float("nan"), 3], 1: "x"}) == {"a": [0.3, None, 3], "1": "x"}


@given(st.text(alphabet="ab|\n\t ", max_size=8), st.text(alphabet="xy|", max_size=5))
def test_markdown_rows_have_as_many_cells_as_columns(first, second):
    grid = Grid([Column("a"), Column("b")], [[first, second]])
    lines = markdown_grid(grid).splitlines()
    assert len(lines) == 3
    assert [line.replace("\\|", "").count("|") for line in lines] == [3, 3, 3]


def test_tex_escapes_every_special_character():
    assert escape_tex("10% & $5_x {a} ~^\\#") == (
        r"10\% \& \$5\_x \{a\} \textasciitilde{}\textasciicircum{}\textbackslash{}\#"
    )
