"""Published numbers joined to ours: one figure per printed table."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from mtlrun.lab.experiment.claims import Verdict
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.figures import dumbbells
from mtlrun.lab.report.formats import html_report
from mtlrun.show.drawing import draw, svg
from mtlrun.show.figures import Dumbbell, DumbbellPanel, PublishedPair

RESULTS = Path(__file__).resolve().parents[3] / "results"
PUBLISHED = {"One Norm": 0.7005, "APG-RMTL": 0.9, "LADM-DC-RMTL-10%": 0.7205}


@pytest.fixture
def compared(maker):
    """Return a run whose paper prints an AUC for each of three methods; the second
    differs from ours.
    """
    maker.config["reference"] = [
        {"dataset": "alpha", "method": method, "quantity": "auc", "value": value}
        for method, value in PUBLISHED.items()
    ]
    return maker


def figures_of(folder):
    report = build_report(folder)
    return report, dumbbells(report.main, report.tables)


@pytest.mark.parametrize("name", ["fetr/school/quick", "mtsvm/table2/quick"])
def test_each_printed_number_is_next_to_ours(name):
    report, figures = figures_of(RESULTS / name)
    numbers = [
        (pair.published, pair.ours, pair.agrees)
        for figure in figures
        for pair in figure.pairs
    ]
    printed = [
        (number.value, number.ours, number.verdict == Verdict.WITHIN)
        for number in report.references
    ]
    assert printed
    assert sorted(numbers) == sorted(printed)


def test_only_numbers_that_agree_are_discs(compared):
    _, (figure,) = figures_of(compared.fill().write())
    agreeing = {pair.label: pair.agrees for pair in figure.pairs}
    assert agreeing == {"One Norm": True, "APG-RMTL": False, "LADM-DC-RMTL-10%": True}
    assert "2 of 3 agree" in figure.caption
    assert {pair.label: pair.published for pair in figure.pairs} == PUBLISHED


def test_numbers_in_percent_are_drawn_in_percent(compared):
    _, (shares,) = figures_of(compared.fill().write())
    compared.config["table"] = {"percent": True}
    _, (figure,) = figures_of(compared.write())
    first = figure.pairs[0]
    assert first.published == pytest.approx(70.05)
    assert first.ours == pytest.approx(100 * shares.pairs[0].ours)
    assert first.std == pytest.approx(100 * shares.pairs[0].std)
    assert first.std > 0
    assert figure.panels[0].axis == "AUC (%)"


def test_a_published_number_without_ours_keeps_its_ring(compared):
    for trial in range(2):
        compared.cell("alpha", "One Norm", trial, auc=0.7)
        compared.cell("alpha", "APG-RMTL", trial, auc=0.7)
        compared.skip("alpha", "LADM-DC-RMTL-10%", trial)
    _, (figure,) = figures_of(compared.write())
    assert figure.pairs[-1] == PublishedPair("LADM-DC-RMTL-10%", 0.7205, None)
    assert "1 not computed" in figure.caption


def test_a_run_without_our_numbers_has_no_dumbbell(compared):
    assert figures_of(compared.write())[1] == []


@pytest.mark.rendered
def test_the_page_has_the_dumbbell_with_its_caption(compared):
    report, (figure,) = figures_of(compared.fill().write())
    assert f'alt="{figure.caption}"' in html_report(report)
    text = svg(figure)
    assert all(f">{method}<" in text for method in PUBLISHED)
    assert all(word in text for word in (">published<", ">ours, out of tolerance<"))


def test_names_of_neighbors_occur_once_and_do_not_overlap():
    pairs = [
        PublishedPair(f"method {i}", i, i + 0.5, 0.2, bool(i % 2)) for i in range(12)
    ]
    panels = [DumbbellPanel(name, "error", pairs) for name in "abc"]
    canvas = draw(Dumbbell("d", "Errors", panels))
    renderer = FigureCanvasAgg(canvas).get_renderer()
    canvas.draw(renderer)
    left, right, below = canvas.axes
    assert [t.get_text() for t in right.get_yticklabels()] == [""] * 12
    for axes in (left, below):
        labels = axes.get_yticklabels()
        assert [t.get_text() for t in labels] == [pair.label for pair in pairs]
        boxes = [t.get_window_extent(renderer) for t in labels]
        assert not any(a.overlaps(b) for a, b in pairwise(boxes))


def test_an_axis_over_orders_of_magnitude_is_logarithmic():
    wide = DumbbellPanel(
        "a", "rows", [PublishedPair("x", 1, 100), PublishedPair("y", 2, 3)]
    )
    narrow = DumbbellPanel("a", "rows", [PublishedPair("x", 1, 2)])
    assert (wide.log, narrow.log) == (True, False)
