"""Real tables: criteria of lme4, computed separately, are reached or improved."""

import os
import runpy
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical.compress import of_data
from mtlrun.solvers.hierarchical.fit import HierarchicalProblem, fit_covariance

pytestmark = pytest.mark.data
LME4 = pd.read_csv(Path(__file__).with_name("lme4.csv"), comment="#")
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "hierarchical.py"


@lru_cache
def problems():
    if not (Path(os.environ.get("MTLRUN_DATA") or "absent") / "grouped").is_dir():
        pytest.skip("MTLRUN_DATA does not hold grouped/")
    by_table = {}
    for name, X, y, ids in runpy.run_path(str(BENCHMARK), run_name="benchmark")[
        "tables"
    ]():
        data = of_data(TaskData.from_stacked(X, y, ids))[0]
        by_table[name] = HierarchicalProblem(data, np.arange(data.p))
    return by_table


@pytest.mark.parametrize(
    "row", LME4.itertuples(index=False), ids=lambda row: f"{row.table}-{row.covariance}"
)
def test_the_optimum_is_not_above_that_of_lme4(row):
    result = fit_covariance(problems()[row.table], row.covariance)
    assert result.criterion <= row.criterion + 1e-5
    assert result.criterion >= row.criterion - 1e-3  # The same likelihood
    assert result.fit.converged
    assert (np.diff(result.fit.path) < 0).all()
    if row.covariance != "full":
        assert result.fit.n_evaluations <= 15
