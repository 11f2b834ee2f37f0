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
    """Count the decomposed stacks of a Gram matrix per task."""
    eigh = np.linalg.eigh
    decomposed = []

    def counted(grams):
        if grams.ndim == 3:
            decomposed.append(grams)
        return eigh(grams)

    monkeypatch.setattr(np.linalg, "eigh", counted)
    return decomposed


def ragged_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    task_id = np.repeat(np.arange(3), 30)
    return X, X[:, 0] + 0.1 * rng.normal(size=90), task_id


def test_methods_share_one_decomposition_of_their_rows(n_decompositions):
    X, y, task_id = ragged_rows()
    rows = TaskRows(X, y, task_id)
    methods = (JointFeatureMTL, TraceNormMTL, SparseLowRankMTL, ClusteredMTL)
    together = [rows.fit(method()) for method in methods]
    assert len(n_decompositions) == 1
    for method, fitted in zip(methods, together, strict=True):
        n_decompositions.clear()
        alone = method().fit(X, y, task_id=task_id)
        assert np.array_equal(fitted.coef_, alone.coef_)
        assert len(n_decompositions) == 1


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


def test_a_decomposition_is_kept_only_on_request():
    X, y, task_id = ragged_rows()
    data = TaskData.from_stacked(X, y, task_id)
    first, second = (rotation.prepare(data, True) for _ in range(2))
    assert first is not second
    data.share_decompositions()
    kept = rotation.prepare(data, True)
    assert kept is not first
    assert kept is not second
    assert rotation.prepare(data, True) is kept
    assert rotation.prepare(data, False) is not kept
    assert rotation.prepare(data, True) is kept


def test_bases_larger_than_the_rows_are_not_kept():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(20, 5))
    Y[0, 0] = np.nan
    data = TaskData.from_matrix(rng.normal(size=(20, 8)), Y)
    data.share_decompositions()
    assert rotation.prepare(data, True) is not rotation.prepare(data, True)
