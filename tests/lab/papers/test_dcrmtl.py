"""Statistics of data sets, and encodings of labels against plain NumPy."""

import functools
import gzip
import os
import re
from pathlib import Path

import numpy as np
import pytest

from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.load import load_dataset
from mtlrun.engine.run import run
from mtlrun.lab.experiment.spec import Experiment
from mtlrun.lab.plan import plan
from mtlrun.papers.dcrmtl import (
    column_sampling,
    data_set_statistics,
    equality_constraint,
)
from mtlrun.utils.io import derive_seed


def test_a_shared_set_with_missing_values_has_statistics():
    dataset = load_dataset("simulated-rmtl", n=60, d=8, m=6, rank=2)
    dataset.y[:15, 0] = np.nan
    result = data_set_statistics(dataset, seed=0)
    assert set(result.values) <= set(data_set_statistics.declaration.quantities)
    assert result.values["missing_share"] == pytest.approx(15 / 360)
    assert result.per_task["rows"] == [45, 60, 60, 60, 60, 60]
    share = np.average(
        result.per_task["positive_share"], weights=result.per_task["rows"]
    )
    assert result.values["positive_share"] == pytest.approx(share)


def test_labels_numbers_and_classes_have_statistics():
    rows, ids = np.zeros((5, 2)), np.array([0, 0, 0, 1, 1])
    multilabel = Dataset(
        rows, np.array([1.0, -1, np.nan, 1, 1]), "binary", task_id=ids, tasks=["a", "b"]
    )
    result = data_set_statistics(multilabel, seed=0)
    assert result.per_task == {"rows": [2, 2], "positive_share": [0.5, 1]}
    assert result.values["positive_share"] == 3 / 4
    numbers = Dataset(rows, np.arange(5.0), "regression", task_id=ids, tasks=["a", "b"])
    assert data_set_statistics(numbers, seed=0).per_task == {"rows": [3, 2]}
    classes = Dataset(
        rows, np.array([0, 2, 2, 0, 2]), "multiclass", tasks=["red", "green", "blue"]
    )
    result = data_set_statistics(classes, seed=0)
    assert result.per_task == {"rows": [2, 0, 3]}
    assert "positive_share" not in result.values


def auc(y, scores):
    """Count the pairs in the right order."""
    difference = scores[y > 0][:, None] - scores[y <= 0]
    return np.mean((difference > 0) + 0.5 * (difference == 0))


@functools.cache
def enron():
    """Read the file line by line."""
    folder = Path(os.environ.get("MTLRUN_DATA", "")) / "enron"
    paths = [
        path
        for path in (folder / "enron.arff", folder / "enron.arff.gz")
        if path.exists()
    ]
    if not paths:
        pytest.skip("MTLRUN_DATA does not hold enron")
    content = paths[0].read_bytes()
    lines = (
        (gzip.decompress(content) if paths[0].suffix == ".gz" else content)
        .decode()
        .splitlines()
    )
    names = [
        line.split()[1].strip("'")
        for line in lines
        if line.lower().startswith("@attribute")
    ]
    rows = [
        line
        for line in lines[[line.strip().lower() for line in lines].index("@data") + 1 :]
        if line.strip()
    ]
    table = np.zeros((len(rows), len(names)))
    for i, row in enumerate(rows):  # {140 1,388 1}: the positions of the ones
        table[i, [int(entry.split()[0]) for entry in row.strip("{}").split(",")]] = 1.0
    labels = re.findall(r'label name="([^"]*)"', (folder / "enron.xml").read_text())
    columns = [names.index(label) for label in labels]
    return np.delete(table, columns, axis=1), table[:, columns]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("coding", "intercept"), [("0/1", False), ("-1/+1", False), ("-1/+1", True)]
)
def test_ridge_on_enron_matches_plain_numpy_for_all_encodings_of_the_labels(
    coding, intercept, tmp_path
):
    X, Y = enron()
    Y = Y if coding == "0/1" else 2 * Y - 1
    order = np.random.default_rng(derive_seed(0, "enron", 0)).permutation(len(X))
    train, test = np.split(order, [int(0.4 * len(X))])
    shift, level = (X[train].mean(0), Y[train].mean(0)) if intercept else (0.0, 0.0)
    A = X[train] - shift
    W = np.linalg.solve(A.T @ A + 10.0 * np.eye(A.shape[1]), A.T @ (Y[train] - level))
    both = [t for t in range(53) if np.ptp(Y[train, t]) and np.ptp(Y[test, t])]
    auc_by_task = {t: auc(Y[test, t], (X[test] @ W)[:, t]) for t in both}

    config = {
        "schema": 1,
        "id": "own/ridge",
        "title": "Ridge",
        "kind": "evaluate",
        "datasets": [{"id": "enron", "coding": coding}],
        "metrics": ["auc"],
        "methods": [
            {
                "label": "RidgeReg",
                "estimator": "IndependentRidge",
                "params": {"alpha": 10.0, "fit_intercept": intercept},
            }
        ],
        "split": {"kind": "random", "train": 0.4, "trials": 1},
        "seed": 0,
    }
    run_plan = plan(Experiment.of(config, "own.yaml"), output=tmp_path)
    assert run(run_plan).n_ok == 1
    record = run_plan.store().read(run_plan.rows[0].job.key)
    assert record.metrics["auc"] == pytest.approx(
        np.mean(list(auc_by_task.values())), abs=1e-9
    )
    assert [record.per_task["auc"][t] for t in both] == pytest.approx(
        list(auc_by_task.values()), abs=1e-9
    )


def with_rows(n_rows, n_features, noise):
    """Return three tasks that share their rows, linear up to noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features))
    y = X @ rng.standard_normal((n_features, 3))
    return Dataset(
        X=X, y=y + noise * rng.standard_normal(y.shape), task_type="regression"
    )


def test_the_constraint_is_feasible_with_as_many_features_as_training_rows():
    values = equality_constraint(with_rows(50, 20, noise=1.0), seed=0).values
    assert values["training_rows"] == values["design_rank"] == 20
    assert values["constraint_residual"] < 1e-12


def test_the_constraint_is_infeasible_with_more_rows_than_features():
    values = equality_constraint(with_rows(500, 20, noise=1.0), seed=0).values
    assert values["design_rank"] == 20
    assert values["constraint_residual"] > 0.1


def test_exactly_linear_targets_are_feasible_with_any_number_of_rows():
    values = equality_constraint(with_rows(500, 20, noise=0.0), seed=0).values
    assert values["constraint_residual"] < 1e-12


def test_the_constraint_needs_all_targets():
    dataset = with_rows(50, 20, noise=1.0)
    dataset.y[3, 1] = np.nan
    with pytest.raises(ValueError, match="missing targets"):
        equality_constraint(dataset, seed=0)


def test_random_columns_span_a_low_rank_matrix_unless_few_columns_hold_it():
    data = load_dataset("simulated-rmtl", n=20, d=50, m=400, rank=2)
    alike = column_sampling(data, seed=0).values
    assert alike["column_share"] < 0.1
    assert alike["successes"] == 1
    held = column_sampling(data, seed=0, holding=2).values
    assert held["successes"] < 0.3
    every = column_sampling(data, seed=0, holding=2, eps=0.1).values
    assert (every["column_share"], every["successes"]) == (1, 1)
