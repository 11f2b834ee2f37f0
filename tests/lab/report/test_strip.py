"""The strip of verdicts: one square per claim of a paper."""

from __future__ import annotations

import re

import pytest

from mtlrun.lab.experiment.claims import VERDICTS
from mtlrun.lab.report.summary import (
    distinct_claims,
    read_overview,
    render_overview,
    squares_of_verdicts,
    verdict_strip,
)
from mtlrun.show.drawing import svg
from mtlrun.show.figure_drawing import SQUARE_COLORS, SQUARE_SIGNS
from mtlrun.show.figures import SQUARES, Strip, StripRow


@pytest.fixture
def judged(maker):
    """Return results with a claim that holds, one that fails, one without data."""
    better = {"kind": "order", "quantity": "auc", "methods": ["APG-RMTL", "One Norm"]}
    worse = {**better, "methods": better["methods"][::-1]}
    absent = {**better, "methods": ["LADM-DC-RMTL-10%", "One Norm"]}
    checks = {"second-fails": worse, "first-holds": better, "third-absent": absent}
    maker.config["claims"] = [
        {"id": name, "text": name, "checks": [check]} for name, check in checks.items()
    ]
    for trial in range(2):
        maker.cell("alpha", "One Norm", trial, auc=0.60 + 0.001 * trial)
        maker.cell("alpha", "APG-RMTL", trial, auc=0.75 + 0.001 * trial)
    return maker.write().parents[2]


def test_each_claim_is_a_square_with_its_verdict(judged):
    overview = read_overview(judged)
    strip = verdict_strip(overview)
    squares = {name: kind for row in strip.rows for kind, name in row.squares}
    verdicts = {
        claim.id: claim.verdict for _, claim in distinct_claims(overview.entries)
    }
    kinds = {"confirmed": "holds", "not confirmed": "fails"}
    assert set(squares) == set(verdicts)
    assert squares == {
        name: kinds.get(verdict, "unrun") for name, verdict in verdicts.items()
    }
    assert set(squares.values()) == {"holds", "fails", "unrun"}


def test_a_square_has_the_text_of_its_verdict():
    words = {verdict: SQUARES[kind] for verdict, kind in squares_of_verdicts().items()}
    assert words == {verdict: verdict.label for verdict in VERDICTS}


def test_the_index_begins_with_the_strip_and_its_counts(judged):
    page = render_overview(read_overview(judged), "html", judged)
    (alt,) = re.findall(r'<img alt="([^"]+)"', page)
    assert "holds: 1" in alt
    assert "does not hold: 1" in alt
    assert page.index("<img alt") < page.index('<section id="s-')


def test_papers_without_a_title_are_left_out(judged):
    overview = read_overview(judged)
    assert verdict_strip(overview, {}) is None
    assert verdict_strip(overview, {"made": "Ours"}).rows[0].title == "Ours"


@pytest.mark.rendered
def test_squares_are_ordered_by_verdict_and_name_the_claim():
    squares = [("fails", "a"), ("holds", "b"), ("untested", "c"), ("holds", "d")]
    text = svg(Strip("s", "Claims", [StripRow("Paper", squares)]))
    drawn = re.findall(rf'id="((?:{"|".join(SQUARES)})-\w+)"', text)
    assert drawn == ["holds-b", "holds-d", "fails-a", "untested-c"]
    assert ">undecided<" not in text, "the legend names only what is there"


def test_symbols_of_squares_differ_without_color():
    assert set(SQUARE_COLORS) == set(SQUARES)
    signs = [str(SQUARE_SIGNS.get(kind)) for kind in SQUARES]
    assert len(set(signs)) == len(SQUARES)


def luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_symbols_are_readable_on_their_squares():
    for kind in SQUARES:
        fill, ink = map(luminance, SQUARE_COLORS[kind])
        assert (max(fill, ink) + 0.05) / (min(fill, ink) + 0.05) >= 4.5
