"""The methods of a comparison share the eigendecompositions of a training set."""

import numpy as np
import pytest

from mtlrun.catalog.methods import Method
from mtlrun.data.dataset import Dataset
from mtlrun.engine.evaluation import TaskRows
from mtlrun.engine.fit import fit_job
from mtlrun.engine.job import DatasetRef, Job, Scoring, Split, Timing
from mtlrun.estimators import (
    ClusteredMTL,
    JointFeatureMTL,
    SparseLowRankMTL,
    TraceNormMTL,
)
from mtlrun.problem import rotation
from mtlrun.problem.taskdata import TaskData


@pytest.fixture
def n_decompositions(monkeypatch):
    """Count the computed eigendecompositions."""
    decomposed = []
    for name in ("SharedRotation", "TaskRotation"):
        cls = getattr(rotation, name)

        def counted(data, fit_intercept, cls=cls):
            decomposed.append(data)
            return cls(data, fit_intercept)

        monkeypatch.setattr(rotation, name, counted)
    return decomposed


def ragged_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    task_id = np.repeat(np.arange(3), 30)
    return X, X[:, 0] + 0.1 * rng.normal(size=90), task_id


def test_methods_share_one_decomposition_of_their_rows(n_decompositions):
    X, y, task_id = ragged_rows()
    rows = TaskRows(X, y, task_id)
    for method in (JointFeatureMTL, TraceNormMTL, SparseLowRankMTL, ClusteredMTL):
        fitted = rows.fit(method())
        alone = method().fit(X, y, task_id=task_id)
        assert np.array_equal(fitted.coef_, alone.coef_)
        if method is JointFeatureMTL:
            # The fit to the current rows has computed a second one, and keeps none.
            assert len(n_decompositions) == 2
    shared = [data for data in n_decompositions if data.shares_decompositions]
    assert len(shared) == 1


def test_every_timed_fit_decomposes_its_rows(n_decompositions):
    X, y, task_id = ragged_rows()
    data = Dataset(X=X, y=y, task_type="regression", task_id=task_id, id="rows")
    data.splits["halves"] = [(np.arange(0, 90, 2), np.arange(1, 90, 2))]
    split = Split("published", 0, 0, name="halves")
    timing = Timing(repeats=3, warmup=False)
    for alpha in (0.1, 1.0):
        method = Method("TraceNormMTL", {"alpha": alpha})
        scoring = Scoring(("rmse",), "task", timing=timing)
        fit_job(Job(DatasetRef("rows", {}, "0"), split, method, scoring), data)
    assert len(n_decompositions) == 6


def test_a_decomposition_is_kept_only_on_request(n_decompositions):
    X, y, task_id = ragged_rows()
    data = TaskData.from_stacked(X, y, task_id)
    assert rotation.prepare(data, True) is not rotation.prepare(data, True)
    data.share_decompositions()
    assert rotation.prepare(data, True) is rotation.prepare(data, True)
    assert rotation.prepare(data, False) is not rotation.prepare(data, True)
    assert len(n_decompositions) == 4


def test_bases_larger_than_the_rows_are_not_kept(n_decompositions):
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(20, 5))
    Y[0, 0] = np.nan
    data = TaskData.from_matrix(rng.normal(size=(20, 8)), Y)
    data.share_decompositions()
    rotation.prepare(data, True)
    rotation.prepare(data, True)
    assert len(n_decompositions) == 2
