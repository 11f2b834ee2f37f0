"""Commands fit single-task classes separately to each task."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from mtlrun.data.sets.load import load_dataset
from mtlrun.data.splits import random_split
from mtlrun.estimators.baselines import PerTask, for_tasks
from mtlrun.metrics import mse_per_task
from mtlrun.utils.io import derive_seed

BOOSTED = "sklearn.ensemble:HistGradientBoostingRegressor"
#: Fast classes for nonlinear targets that take a single one.
KERNEL = "sklearn.svm:SVR"
BAYES = "sklearn.naive_bayes:GaussianNB"
#: Fits all columns of a 2-D y together and declares neither regressor nor classifier.
JOINT = """
import numpy as np
from sklearn.base import BaseEstimator


class Joint(BaseEstimator):
    def fit(self, X, y):
        assert y.ndim == 2
        self.coef_ = np.linalg.lstsq(X, y, rcond=None)[0]
        return self

    def predict(self, X):
        return X @ self.coef_


class Unfinished(BaseEstimator):
    def __init__(self, base):
        self.base = base

    def fit(self, X, y):
        return self
"""
SPLIT = "split: {kind: random, train: 0.5}\nmetrics: [METRIC]\nseed: 3\n"
TRAIN = "schema: 1\nkind: train\nid: train/one\ndataset: DATA\nmethod: METHOD\n" + SPLIT
RUN = (
    "schema: 1\nkind: evaluate\nid: made/one\ntitle: One\ndatasets: [DATA]\nmethods: [METHOD]\n"
    + SPLIT
)
REGRESSION = "{id: simulated-fetr, n: 60, d: 4, m: 3}"
SHARED = "{id: simulated-rmtl, n: 60, d: 4, m: 3, rank: 2}"
CARD = """\
schema: 1
id: plants
title: Plants
task_type: regression
design: ragged
reader: {name: csv, options: {target: height, task: garden}}
folder: plants
files: [{name: plants.csv, sha256: unknown}]
licence: CC0
citation: none
"""
METHOD = f"{{estimator: '{BOOSTED}', params: {{min_samples_leaf: 3, max_iter: 20}}}}"


def filled(text, data, method, metric):
    if text is RUN:
        method = method.replace("{", "{label: M, ", 1)
        text = text.replace("train: 0.5", "train: 0.5, trials: 1")
        text += "timing: {repeats: 1, threads: 1, warmup: false}\n"
    return (
        text.replace("DATA", data).replace("METHOD", method).replace("METRIC", metric)
    )


def records(folder):
    return [
        json.loads(path.read_text())["record"]
        for path in (folder / "out/cells").glob("*.json")
    ]


@pytest.fixture
def numbers(mtlrun, tmp_path):
    """Train and reproduce one method; return the scores per task of both."""

    def run(data, method, metric):
        (tmp_path / "train.yaml").write_text(filled(TRAIN, data, method, metric))
        (tmp_path / "run.yaml").write_text(filled(RUN, data, method, metric))
        for words in (
            ("validate", "train.yaml", "run.yaml"),
            ("train", "train.yaml"),
            ("reproduce", "run.yaml"),
        ):
            options = () if words[0] == "validate" else ("-o", "out")
            result = mtlrun(*words, *options, "--data-dir", str(tmp_path / "data"))
            assert result.exit_code == 0, result.output
        trained = json.loads((tmp_path / "out/train/one/metrics.json").read_text())
        (record,) = [
            record
            for record in records(tmp_path)
            if record["inputs"]["scoring"].get("timing")
        ]
        assert record["status"] == "ok"
        return trained["per_task"][metric], record["per_task"][metric]

    return run


def test_regression_of_shared_targets_equals_one_model_per_task(numbers):
    trained, reproduced = numbers(REGRESSION, METHOD, "mse")
    data = load_dataset("simulated-fetr", n=60, d=4, m=3)
    rows, test = random_split(60, 0.5, derive_seed(3, "simulated-fetr", 0))
    seed = derive_seed(3, "simulated-fetr", 0, "estimator")
    base = HistGradientBoostingRegressor(
        min_samples_leaf=3, max_iter=20, random_state=seed
    )
    alone = [
        clone(base).fit(data.X[rows], data.y[rows, t]).predict(data.X[test])
        for t in range(3)
    ]
    assert_allclose(trained, mse_per_task(data.y[test], np.column_stack(alone)))
    assert_allclose(reproduced, trained)


def test_train_and_reproduce_agree_on_labels(numbers):
    method = "{estimator: 'sklearn.linear_model:LogisticRegression', params: {C: 0.5}}"
    trained, reproduced = numbers(SHARED, method, "auc")
    assert_allclose(reproduced, trained)
    assert np.mean(trained) > 0.5


def test_train_and_reproduce_agree_on_ragged_tasks(numbers, tmp_path):
    for name in ("cards", "plants"):
        (tmp_path / "data" / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"sun": rng.normal(size=80), "garden": np.repeat(list("abcd"), 20)}
    )
    frame["height"] = frame.sun * np.repeat(
        [1.0, -1.0, 1.0, -1.0], 20
    ) + 0.1 * rng.normal(size=80)
    frame.to_csv(tmp_path / "data/plants/plants.csv", index=False)
    (tmp_path / "data/cards/plants.yaml").write_text(CARD)
    trained, reproduced = numbers("plants", METHOD, "r2")
    assert_allclose(reproduced, trained)
    assert len(trained) == 4
    assert (
        min(trained) > 0.3
    )  # One model for all rows would score about 0, because the slopes are opposite.


def test_a_class_without_tags_gets_complete_shared_targets_unchanged(numbers, tmp_path):
    (tmp_path / "joint.py").write_text(JOINT)
    trained, reproduced = numbers(REGRESSION, "{estimator: 'joint:Joint'}", "mse")
    assert_allclose(reproduced, trained)


@pytest.mark.parametrize("data", [REGRESSION, SHARED], ids=["regression", "labels"])
def test_a_search_refits_ensembles_for_every_candidate(mtlrun, tmp_path, data):
    """Refitting a forest with `warm_start` keeps its old trees."""
    method = "{estimator: 'sklearn.ensemble:RandomForestRegressor', params: {n_estimators: 5}, grid: {max_depth: [1, 8]}}"
    (tmp_path / "run.yaml").write_text(
        filled(RUN, data, method, "mse") + "selection: {folds: 2}\n"
    )
    assert mtlrun("reproduce", "run.yaml", "-o", "out").exit_code == 0
    (first, second) = next(
        r["selection"]["means"] for r in records(tmp_path) if r["family"] == "fit"
    )
    assert first != second


@pytest.fixture
def table(tmp_path):
    """Return targets that no linear model predicts, so that the class is selected, as
    columns and as rows of schools.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    frame["y"] = frame.a**2 + 0.1 * rng.normal(size=300)
    frame["z"] = -(frame.b**2)
    frame["school"] = np.repeat(["north", "south", "west"], 100)
    frame["passed"] = np.where(frame.a**2 > 0.5, "yes", "no")
    frame.to_csv(tmp_path / "s.csv", index=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "method"),
    [
        (("-t", "y", "--task", "school", "--drop", "z,passed"), KERNEL),
        (("--targets", "y,z", "--drop", "school,passed"), KERNEL),
        (
            ("-t", "passed", "--task", "school", "--drop", "y,z", "--calibrate"),
            BAYES,
        ),
    ],
    ids=["ragged", "shared", "probabilities"],
)
def test_compare_fits_such_a_class_to_each_task_separately(
    mtlrun, table, tmp_path, columns, method
):
    result = mtlrun(
        "compare",
        "s.csv",
        *columns,
        "--methods",
        method,
        "--splits",
        "2",
        "--repeats",
        "1",
        "--folds",
        "2",
        "-o",
        "out",
    )
    assert result.exit_code == 0, result.output
    folder = tmp_path / "out/compare/s"
    methods = {
        m["method"]: m
        for m in json.loads((folder / "leaderboard.json").read_text())["methods"]
    }
    entry = methods[method.partition(":")[2]]
    assert entry["score"] is not None
    assert entry["kind"] == "own"  # Its win must not count for multi-task learning
    result = mtlrun(
        "train",
        str(folder / "chosen.yaml"),
        "--data-dir",
        str(folder / "data"),
        "-o",
        "out",
    )
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_a_class_with_several_outputs_has_coefficients(mtlrun, table, tmp_path):
    frame = pd.read_csv(tmp_path / "s.csv")
    frame.assign(y=frame.a - frame.b, z=frame.a + frame.b).to_csv(
        tmp_path / "s.csv", index=False
    )  # A linear model
    words = (
        "--targets",
        "y,z",
        "--drop",
        "school,passed",
        "--methods",
        f"{KERNEL},sklearn.linear_model:Ridge",
    )
    result = mtlrun(
        "compare", "s.csv", *words, "--splits", "2", "--repeats", "1", "-o", "out"
    )
    assert result.exit_code == 0, result.output
    assert list(pd.read_csv(tmp_path / "out/compare/s/coefficients.csv")["task"]) == [
        "y",
        "z",
    ]


def test_a_class_that_needs_parameters_is_rejected_before_any_fit(
    mtlrun, table, tmp_path
):
    (tmp_path / "joint.py").write_text(JOINT)
    words = (
        "-t",
        "y",
        "--task",
        "school",
        "--drop",
        "z,passed",
        "--methods",
        "joint:Unfinished",
    )
    result = mtlrun("compare", "s.csv", *words, "-o", "out")
    assert result.exit_code == 2
    assert "joint:Unfinished" in result.stderr
    assert "split 1" not in result.stderr


def test_only_single_task_estimators_are_wrapped():
    ids, flat, shared = (
        np.array([0, 1]),
        np.array([1.0, 2.0]),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
    )
    gaps = np.array([[1.0, np.nan], [2.0, 1.0]])
    boosted = HistGradientBoostingRegressor()
    assert isinstance(for_tasks(boosted, flat, ids), PerTask)
    assert isinstance(for_tasks(boosted, shared), PerTask)
    assert for_tasks(boosted, flat) is boosted
    several = Ridge()
    assert for_tasks(several, shared) is several
    assert isinstance(for_tasks(several, gaps), PerTask)
    assert isinstance(for_tasks(LogisticRegression(), shared), PerTask)
    separate = PerTask(boosted)
    assert for_tasks(separate, flat, ids) is separate
