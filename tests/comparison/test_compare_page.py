"""The page of a comparison shows the coefficients of each task with intervals."""

import functools
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.comparison.result import coefficient_table


@pytest.fixture(scope="module")
def table():
    """Return schools that differ slightly, so that a hierarchical model wins."""
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(15), 10)
    X = pd.DataFrame(rng.normal(size=(150, 2)), columns=["hours", "age"])
    slopes, levels = 1 + 0.5 * rng.normal(size=15), 0.7 * rng.normal(size=15)
    grade = X.hours * slopes[school] + levels[school] + rng.normal(size=150)
    return X.assign(school=[f"school {k}" for k in school], grade=grade)


def test_coefficients_of_one_model_for_all_tasks_are_one_row():
    columns = {"intercept": [1.0, 1.0, 1.0], "hours": [0.25, 0.25, 0.25]}
    common = pd.DataFrame(columns, index=["a", "b", "c"])
    assert coefficient_table(common).texts() == [["all tasks", "1.000", "0.2500"]]
    different = common.assign(hours=[0.25, 0.25, 12.0])
    texts = coefficient_table(different).texts()
    assert [row[0] for row in texts] == ["a", "b", "c"]
    assert [row[2] for row in texts] == ["0.25", "0.25", "12.00"]


@pytest.fixture(scope="module")
def compared(table):
    """Return a function that compares a method with the baselines once."""
    options = {
        "target": "grade",
        "task": "school",
        "splits": 3,
        "repeats": 1,
        "folds": 2,
    }

    @functools.cache
    def compare(method):
        return mtlrun.compare(table, methods=[method], **options)

    return compare


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "intervals"), [("HierarchicalMTL", True), ("GraphMTL", False)]
)
def test_coefficients_are_on_the_page(compared, method, intervals):
    result = compared(method)
    assert (result.saved == "HierarchicalMTL") == intervals
    section = (
        result.page()
        .partition(f"<h2>Coefficients of {result.coefficients_of}</h2>")[2]
        .partition("</details>")[0]
    )
    assert all(name in section for name in ("school 0", "school 14", "hours"))
    assert ("95% interval" in section) == intervals
    assert (" to " in section.partition("<tbody>")[2]) == intervals


@pytest.mark.slow
@pytest.mark.rendered
def test_each_picture_of_a_page_is_drawn_once(table, monkeypatch):
    from matplotlib.backends.backend_svg import RendererSVG

    drawn = []
    finalize = RendererSVG.finalize

    def counted(self):
        drawn.append(self)
        finalize(self)

    monkeypatch.setattr(RendererSVG, "finalize", counted)
    few = table.head(60)
    options = {"methods": ["PooledRidge"], "splits": 2, "repeats": 1, "folds": 2}
    result = mtlrun.compare(few, target="grade", task="school", **options)
    assert not drawn
    page = result.page()
    assert len(drawn) == page.count("<svg") > 1


class Visible(HTMLParser):
    """Collects the headings and pictures that are not folded."""

    def __init__(self, page):
        super().__init__()
        self.depth = 0
        self.is_heading = False
        self.headings = []
        self.n_pictures = 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.depth += tag == "details"
        self.is_heading = tag == "h2" and not self.depth
        self.n_pictures += tag == "svg" and not self.depth

    def handle_endtag(self, tag):
        self.depth -= tag == "details"
        self.is_heading = False

    def handle_data(self, data):
        if self.is_heading:
            self.headings.append(data)


@pytest.mark.slow
def test_verdict_leaderboard_tasks_and_predictions_are_visible_and_the_rest_is_folded(
    compared,
):
    result = compared("HierarchicalMTL")
    page = Visible(result.page())
    assert page.headings == [
        "Leaderboard",
        "Gain of multi-task learning",
        "Gain of each method over IndependentRidge",
        "Gain of each task over separate models",
        "Observed against predicted",
    ]
    assert page.n_pictures == 3 + 12
    assert "<h2>More pictures</h2>" in result.page()
