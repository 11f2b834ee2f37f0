"""Input that can be used as it is but is probably not meant is announced."""

import numpy as np
import pandas as pd
import pytest

from mtlrun.estimators import (
    HierarchicalMTL,
    IndependentRidge,
    PooledRidge,
    SmoothMTL,
    TaskMean,
)
from mtlrun.estimators.inputs import UnlikelyInputWarning

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(30, 2)), columns=["a", "b"])
TASK = pd.Series(np.repeat(["north", "south", "west"], 10))
Y = X["a"] + RNG.normal(size=30)
ORDER = RNG.permutation(30)
MODELS = [HierarchicalMTL("intercept"), SmoothMTL(), IndependentRidge(), TaskMean()]

every_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)


@pytest.fixture(autouse=True)
def _no_other_warning(recwarn):
    yield
    assert not [w for w in recwarn if w.category is UnlikelyInputWarning]


@every_model
@pytest.mark.parametrize("shuffled", ["y", "task_id", "sample_weight"])
def test_rows_in_another_order_than_their_labels_are_announced_in_fit(model, shuffled):
    arguments = {"y": Y, "task_id": TASK, "sample_weight": pd.Series(np.ones(30))}
    arguments[shuffled] = arguments[shuffled].iloc[ORDER]
    with pytest.warns(UnlikelyInputWarning, match=rf"{shuffled}\.loc\[X\.index\]"):
        model.fit(X, **arguments)


@every_model
def test_rows_in_another_order_than_their_labels_are_announced_in_predict(model):
    model.fit(X, Y, task_id=TASK)
    with pytest.warns(UnlikelyInputWarning, match="task_id"):
        model.predict(X, task_id=TASK.iloc[ORDER])


def test_rows_in_another_order_than_their_labels_are_announced_in_score():
    model = HierarchicalMTL("intercept").fit(X, Y, task_id=TASK)
    with pytest.warns(UnlikelyInputWarning, match="y"):
        model.score(X, Y.iloc[ORDER], task_id=TASK)


def test_rows_that_are_shifted_on_purpose_are_not_announced():
    model = HierarchicalMTL("intercept")
    model.fit(X[:29], Y[1:], task_id=TASK[1:])


def test_equal_labels_numbered_rows_and_arrays_are_not_announced():
    model = HierarchicalMTL("intercept")
    rows = ORDER[:20]
    model.fit(X.iloc[rows], Y.iloc[rows], task_id=TASK.iloc[rows])
    numbered = X.iloc[rows].reset_index(drop=True)
    model.fit(numbered, Y.iloc[rows], task_id=TASK.iloc[rows].to_numpy())
    model.fit(X.iloc[rows], Y.iloc[rows].to_numpy(), task_id=list(TASK.iloc[rows]))
    labeled = Y.iloc[rows].set_axis([f"row {k}" for k in range(20)])
    model.fit(X.iloc[rows], labeled, task_id=TASK.iloc[rows])
    model.predict(X, task_id=TASK)


@pytest.mark.parametrize("model", [HierarchicalMTL("intercept"), PooledRidge()])
def test_task_ids_that_look_like_encoded_targets_are_announced(model):
    encoded = Y.groupby(TASK).transform("mean")
    with pytest.warns(UnlikelyInputWarning, match="target encoder"):
        model.fit(X, Y, task_id=encoded)
    model.fit(X, Y, task_id=encoded.astype(str))
    for names in (encoded.rank(method="dense"), encoded.round(1)):
        model.fit(X, Y, task_id=names)


def test_an_array_with_a_dimension_of_tasks_is_rejected_with_the_call_to_make():
    cube = X.to_numpy().reshape(3, 10, 2)
    targets = Y.to_numpy().reshape(3, 10)
    with pytest.raises(ValueError, match=r"X\.reshape\(-1, X\.shape\[2\]\)"):
        HierarchicalMTL("intercept").fit(cube, targets)
    model = HierarchicalMTL("intercept").fit(
        cube.reshape(-1, cube.shape[2]),
        targets.ravel(),
        task_id=np.repeat(np.arange(cube.shape[0]), cube.shape[1]),
    )
    assert model.coef_.shape == (3, 2)


def test_a_row_without_cells_is_rejected():
    blank = X.copy()
    blank.loc[4] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        HierarchicalMTL("intercept").fit(blank, Y, task_id=TASK)
