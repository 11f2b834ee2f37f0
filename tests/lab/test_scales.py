"""Columns with very different scales are reported before a run."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan, scale_ratio, scale_warnings

CARD = (
    "{schema: 1, id: mine, title: Mine, task_type: binary, design: shared, "
    "folder: mine, licence: mine, citation: mine, "
    "reader: {name: table, options: {data: a.csv, targets: 'v_*'}}, "
    "files: [{name: a.csv, sha256: null}]}"
)
EXPERIMENT = """\
schema: 1
id: mine/table
title: Mine
kind: evaluate
datasets: [mine]
split: {kind: random, train: 0.5, trials: 1}
metrics: [auc]
methods: [{label: ridge, estimator: IndependentRidge}]
"""


@pytest.fixture
def warnings_of(tmp_path):
    """Return the warnings for an experiment on a table with columns of these scales."""
    (tmp_path / "data" / "cards").mkdir(parents=True)
    (tmp_path / "data" / "mine").mkdir()
    (tmp_path / "data" / "cards" / "mine.yaml").write_text(CARD)

    def run(scales, more=""):
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.normal(size=(40, len(scales))) * scales)
        table.columns = [f"x_{k}" for k in range(len(scales))]
        for k in range(2):
            table[f"v_{k}"] = rng.integers(0, 2, 40)
        table.to_csv(tmp_path / "data" / "mine" / "a.csv", index=False)
        path = tmp_path / "mine.yaml"
        path.write_text(EXPERIMENT + more)
        data = tmp_path / "data"
        experiment = load_experiment(path, data_dir=data)
        run_plan = plan(experiment, data_dir=data, output=tmp_path / "runs")
        return scale_warnings(run_plan)

    return run


def test_columns_with_very_different_scales_are_reported_with_the_remedy(warnings_of):
    (line,) = warnings_of([1.0, 1e6])
    assert "mine" in line
    assert "features: standardize" in line


def test_standardized_columns_are_not_reported(warnings_of):
    assert warnings_of([1.0, 1e6], "features: standardize\n") == []


def test_columns_with_similar_scales_are_not_reported(warnings_of):
    assert warnings_of([1.0, 100.0]) == []


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_constant_columns_do_not_count(container):
    X = np.column_stack([[0.0, 2.0, 4.0], [0.0, 0.2, 0.4], [0.1, 0.1, 0.1]])
    assert scale_ratio(container(X)) == pytest.approx(10)
    assert scale_ratio(container(X[:, 2:])) == 1
