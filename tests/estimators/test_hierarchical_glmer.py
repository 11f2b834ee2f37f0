"""Hierarchical logistic models against lme4 on real tables; glmer.csv has its numbers
and how to recompute them.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlrun.estimators import HierarchicalMTLClassifier
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical.compress import standardized
from mtlrun.solvers.hierarchical.logistic import (
    Laplace,
    LogisticProblem,
    Prices,
    fit_logistic,
    rows_of,
)

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


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "row",
    list(ORACLE.itertuples(index=False)),
    ids=lambda row: f"{row.table}-{row.covariance}",
)
def test_the_laplace_likelihood_is_at_least_that_of_glmer(row):
    X, y, ids, random = read(row)
    data = TaskData.from_stacked(X.to_numpy(), np.where(y > 0, 1.0, -1.0), ids)
    p = X.shape[1] + 1
    if isinstance(random, str):
        positions = np.arange(p)
    else:
        positions = np.array([0, *(X.columns.get_indexer(random) + 1)])
    rows = rows_of(data, standardized(data, True))
    m = Laplace(rows, data.n_tasks, positions, Prices.weak(0.0, p, True))
    m = m.with_random(positions[m.can_differ(True)[positions]])
    fit = fit_logistic(LogisticProblem(m), row.covariance).fit
    assert fit.value.likelihood <= row.deviance + ABOVE
    assert fit.value.likelihood >= row.deviance - BELOW
    assert fit.converged


def test_the_likelihood_by_quadrature_is_that_of_glmer():
    # lme4 1.1-31 (R 4.2.2), nAGQ = 25, columns centered, bobyqa:
    # glmer(y ~ time + terbinafine + (1 | patientID), toenail, family = binomial)
    row = ORACLE[(ORACLE.table == "toenail") & (ORACLE.covariance == "intercept")]
    X, y, ids, _ = read(next(row.itertuples(index=False)))
    model = HierarchicalMTLClassifier("intercept", ridge=0.0).fit(X, y, task_id=ids)
    assert model.covariance_[0, 0] ** 0.5 == pytest.approx(4.0007000558, rel=0.005)
    assert model.mean_coef_ == pytest.approx([-0.4513011939, -0.5208409685], rel=0.005)
    assert -2 * model.log_likelihood_ == pytest.approx(1254.9997394257, abs=0.1)
