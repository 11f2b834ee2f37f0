"""The page of a comparison shows the coefficients of each task with intervals."""

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.comparison.coefficients import coefficient_table


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
