"""Hierarchical models against lme4 on real tables: its numbers, and how they were made, are in lme4.csv."""

import os
from pathlib import Path

import pandas as pd
import pytest

from mtlrun.estimators import HierarchicalMTL, HierarchicalMTLClassifier

pytestmark = pytest.mark.data
ORACLE = pd.read_csv(Path(__file__).with_name("lme4.csv"), comment="#", keep_default_na=False)
LABELS = ("Contraception", "toenail")
# lme4 ends a little above the minimum that it looks for; where it is further above than this ours has found more.
REML, LAPLACE = 1e-5, 1e-4


def column(frame, name):
    """Return a column, or where one has a value."""
    name, equals, value = name.partition("=")
    return (frame[name].astype(str) == value if equals else frame[name]).to_numpy(float)


def read(row):
    path = Path(os.environ.get("MTLRUN_DATA") or "absent") / "grouped" / f"{row.table}.csv.gz"
    if not path.is_file():
        pytest.skip(f"MTLRUN_DATA does not hold grouped/{row.table}.csv.gz")
    frame = pd.read_csv(path)
    names = row.columns.split(";")
    X = pd.DataFrame({name: column(frame, name) for name in names})
    random = [name for name in row.random.split(";") if name]
    return X, column(frame, row.target), frame[row.task].to_numpy(), random or "all"


def rows(tables):
    chosen = ORACLE[ORACLE.table.isin(tables)]
    return [pytest.param(row, id=f"{row.table}-{row.covariance}") for row in chosen.itertuples()]


@pytest.mark.parametrize("row", rows(set(ORACLE.table) - set(LABELS)))
def test_the_restricted_likelihood_is_at_least_that_of_lmer(row):
    X, y, ids, random = read(row)
    model = HierarchicalMTL(row.covariance, slopes=random, mean="flat").fit(X, y, task_id=ids)
    ours = -2 * model.log_likelihood_
    assert ours <= row.deviance + REML
    assert ours >= row.deviance - 0.01
    assert model.converged_


@pytest.mark.parametrize("row", rows(LABELS))
def test_the_laplace_likelihood_is_at_least_that_of_glmer(row):
    X, y, ids, random = read(row)
    model = HierarchicalMTLClassifier(row.covariance, slopes=random, ridge=0.0).fit(X, y, task_id=ids)
    ours = -2 * model.log_likelihood_
    assert ours <= row.deviance + LAPLACE
    assert ours >= row.deviance - 0.05
    assert model.converged_
