"""`mtlrun train` computes the same as the library called step by step."""

import json
import socket
import subprocess

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from mtlrun.data import load_dataset
from mtlrun.data.splits import random_split
from mtlrun.errors import ConfigError, UserError
from mtlrun.estimators.independent import IndependentRidge
from mtlrun.features import WeightedDegree
from mtlrun.lab.experiment.load import load_training
from mtlrun.lab.training import train
from mtlrun.metrics import auc_per_task, mse_per_task
from mtlrun.model.files import load_model
from mtlrun.utils.io import derive_seed
from mtlrun.utils.processes import is_locked

BASE = """\
schema: 1
kind: train
id: train/small
dataset: {id: simulated-fetr, n: 80, d: 5, m: 3}
method: {estimator: IndependentRidge, params: {alpha: 2.0}}
split: {kind: random, train: 0.5}
metrics: [mse, r2]
seed: 7
"""
STRINGS = "dataset={id: simulated-splice, n: 200}"


@pytest.fixture
def run(tmp_path):
    """Train the base file with changes; return the result."""
    path = tmp_path / "small.yaml"
    path.write_text(BASE, encoding="utf-8")

    def train_with(*overrides, **options):
        return train(
            load_training(path, overrides=overrides), output=tmp_path / "out", **options
        )

    return train_with


def test_a_plain_fit_has_the_right_numbers_and_files(run):
    outcome = run()
    data = load_dataset("simulated-fetr", n=80, d=5, m=3)
    rows, test = random_split(80, 0.5, derive_seed(7, "simulated-fetr", 0))
    model = IndependentRidge(alpha=2.0).fit(data.X[rows], data.y[rows])
    expected = mse_per_task(data.y[test], model.predict(data.X[test]))
    assert_allclose(outcome.result["per_task"]["mse"], expected)
    assert outcome.result["metrics"]["mse"] == pytest.approx(expected.mean())
    assert outcome.result["counts"]["n_train"] == 40
    table = pd.read_csv(outcome.folder / "predictions.csv")
    assert list(table.columns) == ["row", *data.tasks]
    assert_array_equal(table["row"], test)
    assert_allclose(table.to_numpy()[:, 1:], model.predict(data.X[test]), rtol=1e-6)
    assert_allclose(load_model(outcome.folder).scores(data.X), model.predict(data.X))
    content = json.loads((outcome.folder / "metrics.json").read_text())
    assert content["metrics"]["mse"] == pytest.approx(expected.mean())
    assert {path.name for path in outcome.folder.iterdir()} == {
        "model.skops",
        "model.json",
        "coefficients.npz",
        "metrics.json",
        "predictions.csv",
        "config.json",
        "report.html",
    }


def test_the_same_file_gives_the_same_numbers(run):
    assert run().result["per_task"] == run().result["per_task"]
    assert (
        run("seed=8", force=True).result["per_task"]
        != run(force=True).result["per_task"]
    )


def test_the_saved_model_that_is_fitted_to_all_rows_has_the_seed_of_the_file(run):
    seeds = []
    for seed in (7, 8):
        outcome = run(
            "method={estimator: 'sklearn.ensemble:RandomForestRegressor', "
            "params: {n_estimators: 2}}",
            f"seed={seed}",
            "refit=true",
            force=True,
        )
        params = load_model(outcome.folder).estimator.get_params()
        random_state = outcome.result["params"]["random_state"]
        assert params["random_state"] == random_state
        seeds.append(random_state)
    assert seeds[0] != seeds[1]


def test_a_search_selects_the_best_candidate_and_reports_grid_edges(run):
    outcome = run("method.grid.alpha=[0.001, 1000000.0]", "selection.folds=3")
    result = outcome.result["selection"]
    assert result["chosen"] == {"alpha": 0.001}
    assert result["edges"] == {"alpha": "low"}
    assert outcome.result["params"]["alpha"] == 0.001
    assert result["means"][0] < result["means"][1]
    by_hand = run("method.params.alpha=0.001", force=True)
    assert outcome.result["per_task"] == by_hand.result["per_task"]


def test_a_search_may_use_another_metric_and_other_parameters(run):
    outcome = run(
        "method.estimator=IndependentLasso",
        "method.params={alpha: 1.0, tol: 1.0e-6}",
        "method.grid.alpha=[0.01, 1.0]",
        "method.select_with={tol: 0.1}",
        "selection={folds: 2, metric: r2}",
    )
    assert outcome.result["selection"]["metric"] == "r2"
    assert outcome.result["params"]["tol"] == 1e-6


def test_a_single_task_estimator_is_fitted_task_by_task(run):
    outcome = run(
        "method={estimator: 'sklearn.svm:LinearSVR', grid: {C: [0.1, 10]}}",
        "selection.folds=2",
    )
    assert set(outcome.result["selection"]["chosen"]) == {"C"}
    assert "C" in outcome.result["params"]
    facts = load_model(outcome.folder).facts
    assert facts["estimator"]["per_task"] is True
    assert facts["estimator"]["class"] == "sklearn.svm:LinearSVR"
    assert np.load(outcome.folder / "coefficients.npz")["coef"].shape == (3, 5)


def test_a_regressor_with_several_outputs_gets_them_together(run):
    outcome = run(
        "method={estimator: 'sklearn.linear_model:MultiTaskLasso', params: {alpha: "
        "0.01}}"
    )
    model = load_model(outcome.folder)
    assert type(model.estimator).__name__ == "MultiTaskLasso"
    assert model.facts["estimator"]["per_task"] is False


def test_features_are_learned_only_on_training_rows(run):
    outcome = run("features=standardize")
    data = load_dataset("simulated-fetr", n=80, d=5, m=3)
    rows, test = random_split(80, 0.5, derive_seed(7, "simulated-fetr", 0))
    scaler = StandardScaler().fit(data.X[rows])
    model = IndependentRidge(alpha=2.0).fit(
        scaler.transform(data.X[rows]), data.y[rows]
    )
    expected = mse_per_task(data.y[test], model.predict(scaler.transform(data.X[test])))
    assert_allclose(outcome.result["per_task"]["mse"], expected)
    assert_allclose(
        load_model(outcome.folder).scores(data.X),
        model.predict(scaler.transform(data.X)),
    )


def test_max_abs_keeps_a_sparse_design_sparse(run):
    outcome = run(
        "features=max-abs",
        "dataset={id: simulated-rmtl, n: 60, d: 8, m: 6, rank: 2}",
        "metrics=[auc]",
    )
    step = load_model(outcome.folder).step
    assert type(step).__name__ == "MaxAbsScaler"
    assert outcome.result["metrics"]["auc"] > 0.8


@pytest.mark.parametrize(
    ("kind", "scaled"),
    [
        (
            "min-max",
            lambda X, rows: (X - X[rows].min(axis=0)) / np.ptp(X[rows], axis=0),
        ),
        ("unit-rows", lambda X, rows: X / np.linalg.norm(X, axis=1, keepdims=True)),
    ],
)
def test_features_are_scaled_to_a_range_or_to_unit_rows(run, kind, scaled):
    outcome = run(f"features={kind}")
    data = load_dataset("simulated-fetr", n=80, d=5, m=3)
    rows, _ = random_split(80, 0.5, derive_seed(7, "simulated-fetr", 0))
    assert_allclose(
        load_model(outcome.folder).step.transform(data.X),
        scaled(data.X, rows),
        atol=1e-12,
    )


def test_strings_become_one_hot_features(run):
    changes = (
        STRINGS,
        "features=one-hot",
        "method={estimator: IndependentLogistic, params: {alpha: 1.0}}",
    )
    outcome = run(*changes, "metrics=[auc, accuracy]")
    data = load_dataset("simulated-splice", n=200)
    model = load_model(outcome.folder)
    assert isinstance(model.step, WeightedDegree)
    assert model.step.degree == 1
    assert model.facts["design"] == "ragged"
    table = pd.read_csv(outcome.folder / "predictions.csv")
    assert list(table.columns) == ["row", "task", "target", "label", "score"]
    rows = table["row"].to_numpy()
    assert_array_equal(table["task"], np.array(data.tasks)[data.task_id[rows]])
    assert_array_equal(table["target"], data.y[rows])
    assert_allclose(
        model.scores(data.X[rows], data.task_id[rows]), table["score"], rtol=1e-6
    )
    aucs = auc_per_task(table["target"], table["score"], task_id=data.task_id[rows])
    ours = np.array(outcome.result["per_task"]["auc"])
    assert np.isfinite(ours).any()
    assert_allclose(ours[np.isfinite(ours)], aucs[np.isfinite(ours)], rtol=1e-6)
    assert outcome.result["counts"]["undefined_auc"] == np.isnan(ours).sum()


def test_strings_become_weighted_degree_features(run):
    step = "features={kind: weighted-degree, degree: 3, normalize: true}"
    outcome = run(
        STRINGS, step, "method={estimator: IndependentLogistic}", "metrics=[accuracy]"
    )
    model = load_model(outcome.folder)
    assert (model.step.degree, model.step.normalize, model.step.hash_bits) == (
        3,
        True,
        None,
    )
    assert model.estimator.n_features_in_ == model.step.n_features_out_


def test_refit_changes_the_model_and_not_the_numbers(run):
    plain, again = run(), run("refit=true", force=True)
    assert plain.result["per_task"] == again.result["per_task"]
    data = load_dataset("simulated-fetr", n=80, d=5, m=3)
    full_fit = IndependentRidge(alpha=2.0).fit(data.X, data.y)
    assert_allclose(load_model(again.folder).scores(data.X), full_fit.predict(data.X))


def test_the_first_fold_of_a_kfold_split_is_tested(run):
    result = run("split={kind: kfold, folds: 4}").result["counts"]
    assert (result["n_train"], result["n_test"]) == (60, 20)


def test_several_splits_and_impossible_ones_are_rejected(run):
    with pytest.raises(ConfigError, match="evaluates one split"):
        run("split.trials=3")
    with pytest.raises(ConfigError, match="a part empty"):
        run("split.train=0.0001")


def test_leftovers_of_a_killed_process_are_removed(run, tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    stray = tmp_path / f"out/cells/.{socket.gethostname()}-{gone.pid}-x.tmp"
    stray.parent.mkdir(parents=True)
    stray.touch()
    run("method.grid.alpha=[1.0, 2.0]", "selection.folds=2")
    assert not stray.exists()
    assert not any(map(is_locked, stray.parent.glob("*.lock")))


def test_a_model_of_another_configuration_is_not_overwritten(run):
    run()
    run()  # The same configuration may run again.
    with pytest.raises(UserError, match="with other settings"):
        run("method.params.alpha=3.0")
    outcome = run("method.params.alpha=3.0", force=True)
    assert outcome.result["params"]["alpha"] == 3.0
    (outcome.folder / "model.json").write_text("damaged")
    with pytest.raises(UserError, match="cannot be read"):
        run()


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (
            ["method.params.alpha=-1"],
            "--set method.params.alpha=-1: alpha must be a float",
        ),
        (
            ["method={estimator: 'sklearn.linear_model:Ridge', params: {alpha: -1}}"],
            "sklearn.linear_model:Ridge: ",
        ),
        (
            [
                "method={estimator: 'sklearn.linear_model:Ridge', grid: {alpha: [-1]}}",
                "selection.folds=2",
            ],
            "no candidate",
        ),
        ([STRINGS], "simulated-splice are strings"),
        (
            [STRINGS, "features=standardize"],
            "standardize cannot be used with simulated-splice, whose rows are strings",
        ),
        (
            ["features=one-hot"],
            "one-hot cannot be used with simulated-fetr, whose rows are numbers",
        ),
    ],
)
def test_invalid_files_are_reported(run, overrides, text):
    with pytest.raises(ConfigError) as caught:
        run(*overrides)
    assert text in caught.value.message


def test_multiclass_sets_are_trained(tmp_path, run):
    folder = tmp_path / "data"
    (folder / "cards").mkdir(parents=True)
    (folder / "mine").mkdir()
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    X = rng.standard_normal((90, 2)) + 3 * np.eye(3)[labels][:, :2]
    names = np.array(["red", "green", "blue"])[labels]
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "colour": names}).to_csv(
        folder / "mine" / "a.csv", index=False
    )
    (folder / "cards" / "mine.yaml").write_text(
        "{schema: 1, id: mine, title: Mine, task_type: multiclass, design: shared, "
        "folder: mine, licence: m, citation: m, reader: {name: uci, options: {label: "
        "2, header: true}}, files: [{name: a.csv, sha256: unknown}]}"
    )
    path = tmp_path / "mine.yaml"
    path.write_text(
        BASE.replace("{id: simulated-fetr, n: 80, d: 5, m: 3}", "mine").replace(
            "[mse, r2]", "[accuracy]"
        )
    )

    def load(*overrides):
        return load_training(path, overrides=overrides, data_dir=folder)

    with pytest.raises(ConfigError, match=r"3.*IndependentRidge"):
        train(load(), output=tmp_path / "out", data_dir=folder)
    outcome = train(
        load("method='sklearn.linear_model:LogisticRegression'"),
        output=tmp_path / "out",
        data_dir=folder,
    )
    assert outcome.result["metrics"]["accuracy"] > 0.8
    table = pd.read_csv(outcome.folder / "predictions.csv")
    assert list(table.columns) == ["row", "target", "label"]
    assert outcome.result["metrics"]["accuracy"] == pytest.approx(
        (table["target"] == table["label"]).mean()
    )
    assert set(table["label"]) <= {"red", "green", "blue"}


def test_ragged_data_work_with_a_scikit_learn_estimator(run):
    outcome = run(
        STRINGS,
        "features=one-hot",
        "method='sklearn.linear_model:Ridge'",
        "metrics=[auc, accuracy]",
        force=True,
    )
    data = load_dataset("simulated-splice", n=200)
    train_rows = np.setdiff1d(
        np.arange(200), pd.read_csv(outcome.folder / "predictions.csv")["row"]
    )
    rows = train_rows[data.task_id[train_rows] == 2]
    features = WeightedDegree(degree=1).fit_transform(data.X)
    by_hand = Ridge().fit(features[rows], data.y[rows]).predict(features[rows])
    assert_allclose(
        load_model(outcome.folder).scores(data.X[rows], data.task_id[rows]), by_hand
    )


def test_linear_regression_is_the_limit_of_ridge(run):
    native = run("method='sklearn.linear_model:LinearRegression'").result["per_task"][
        "mse"
    ]
    ridge = run("method.params.alpha=1.0e-10", force=True).result["per_task"]["mse"]
    assert_allclose(native, ridge, rtol=1e-6)
