"""The page of a comparison shows the coefficients of each task, with intervals if
available.
"""

import numpy as np
import pandas as pd
import pytest

import mtlrun


@pytest.fixture(scope="module")
def table():
    """Return schools that differ slightly, so that a hierarchical model wins."""
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(15), 10)
    X = pd.DataFrame(rng.normal(size=(150, 2)), columns=["hours", "age"])
    slopes, levels = 1 + 0.5 * rng.normal(size=15), 0.7 * rng.normal(size=15)
    grade = X.hours * slopes[school] + levels[school] + rng.normal(size=150)
    return X.assign(school=[f"school {k}" for k in school], grade=grade)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "intervals"), [("HierarchicalMTL", True), ("GraphMTL", False)]
)
def test_coefficients_are_on_the_page(table, method, intervals):
    result = mtlrun.compare(
        table,
        target="grade",
        task="school",
        methods=[method],
        splits=3,
        repeats=1,
        folds=2,
    )
    assert (result.saved == "HierarchicalMTL") == intervals
    section = (
        result.page()
        .partition(f"<h2>Coefficients of {result.coefficients_of}</h2>")[2]
        .partition("</section>")[0]
    )
    assert all(name in section for name in ("school 0", "school 14", "hours"))
    assert ("95% interval" in section) == intervals
    assert (" to " in section.partition("<tbody>")[2]) == intervals
