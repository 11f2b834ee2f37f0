"""Hierarchical logistic models against lme4 on real tables; glmer.csv has its numbers
and how to recompute them.
"""

import os
from pathlib import Path

import pandas as pd
import pytest

from mtlrun.estimators import HierarchicalMTLClassifier

pytestmark = pytest.mark.data
ORACLE = pd.read_csv(
    Path(__file__).with_name("glmer.csv"), comment="#", keep_default_na=False
)
# glmer stops slightly above the minimum.
ABOVE, BELOW = 1e-4, 0.05


def column(frame, name):
    """Return a column, restricted to the rows where another has a value if given."""
    name, equals, value = name.partition("=")
    return (frame[name].astype(str) == value if equals else frame[name]).to_numpy(float)


def read(row):
    path = (
        Path(os.environ.get("MTLRUN_DATA") or "absent")
        / "grouped"
        / f"{row.table}.csv.gz"
    )
    if not path.is_file():
        pytest.skip(f"MTLRUN_DATA does not hold grouped/{row.table}.csv.gz")
    frame = pd.read_csv(path)
    names = row.columns.split(";")
    X = pd.DataFrame({name: column(frame, name) for name in names})
    random = [name for name in row.random.split(";") if name]
    return X, column(frame, row.target), frame[row.task].to_numpy(), random or "all"


@pytest.mark.parametrize(
    "row",
    list(ORACLE.itertuples(index=False)),
    ids=lambda row: f"{row.table}-{row.covariance}",
)
def test_the_laplace_likelihood_is_at_least_that_of_glmer(row):
    X, y, ids, random = read(row)
    model = HierarchicalMTLClassifier(row.covariance, slopes=random, ridge=0.0).fit(
        X, y, task_id=ids
    )
    ours = -2 * model.log_likelihood_
    assert ours <= row.deviance + ABOVE
    assert ours >= row.deviance - BELOW
    assert model.converged_
