"""Statistics of data sets."""

import numpy as np
import pytest

from mtlrun.data.dataset import Dataset
from mtlrun.data.load import load_dataset
from mtlrun.papers.dcrmtl import data_set_statistics


def test_statistics_of_a_shared_set_with_gaps():
    dataset = load_dataset("simulated-rmtl", n=60, d=8, m=6, rank=2)
    dataset.y[:15, 0] = np.nan
    found = data_set_statistics(dataset, seed=0)
    assert set(found.values) <= set(data_set_statistics.declaration.quantities)
    assert found.values["missing_share"] == pytest.approx(15 / 360)
    assert found.per_task["rows"] == [45, 60, 60, 60, 60, 60]
    share = np.average(found.per_task["positive_share"], weights=found.per_task["rows"])
    assert found.values["positive_share"] == pytest.approx(share)


def test_statistics_of_labels_numbers_and_classes():
    rows, ids = np.zeros((5, 2)), np.array([0, 0, 0, 1, 1])
    labels = Dataset(rows, np.array([1.0, -1, np.nan, 1, 1]), "binary", task_id=ids, tasks=["a", "b"])
    found = data_set_statistics(labels, seed=0)
    assert found.per_task == {"rows": [2, 2], "positive_share": [0.5, 1]}
    assert found.values["positive_share"] == 3 / 4
    numbers = Dataset(rows, np.arange(5.0), "regression", task_id=ids, tasks=["a", "b"])
    assert data_set_statistics(numbers, seed=0).per_task == {"rows": [3, 2]}
    classes = Dataset(rows, np.array([0, 2, 2, 0, 2]), "multiclass", tasks=["red", "green", "blue"])
    found = data_set_statistics(classes, seed=0)
    assert found.per_task == {"rows": [2, 0, 3]}
    assert "positive_share" not in found.values
    with pytest.raises(ValueError, match="data-set-statistics needs a data set"):
        data_set_statistics(None, seed=0)
