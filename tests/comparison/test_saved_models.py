"""Models saved by `compare` have parameters of all splits and need no trusted types."""

import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import mtlrun
from mtlrun.catalog.registry import build
from mtlrun.comparison.candidates import (
    INDEPENDENT,
    Candidate,
    calibrated,
    default_candidates,
)
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.schedule import ComparisonJobs
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.fit import with_features
from mtlrun.engine.job import Features, choose_over_splits, with_params
from mtlrun.errors import UserError
from mtlrun.lab.experiment.load import load_training
from mtlrun.lab.training import train
from mtlrun.model.files import load_model, save_model, trust_options
from mtlrun.model.fitted import Model

FEW_ROWS = 12
MANY_ROWS = 45


def table(n_tasks, n_rows, seed=0):
    """Return rows of several tasks: features, a text column and two targets."""
    rng = np.random.default_rng(seed)
    n = n_tasks * n_rows
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    frame["size"] = rng.choice(["L", "S"], n)
    frame["task"] = np.repeat([f"t{k}" for k in range(n_tasks)], n_rows)
    frame["y"] = frame.a + 0.5 * rng.normal(size=n)
    frame["z"] = frame.b - frame.a + 0.5 * rng.normal(size=n)
    return frame


def ragged_case(n_rows, has_labels):
    frame = table(4, n_rows).drop(columns="z")
    if has_labels:
        frame["y"] = np.where(frame.y > 0, "yes", "no")
    return frame, Roles(targets=("y",), task="task")


def shared_case(n_rows, has_labels):
    frame = table(1, 2 * n_rows).drop(columns="task")
    if has_labels:
        frame["y"] = np.where(frame.y > 0, "yes", "no")
        frame["z"] = np.where(frame.z > 0, "up", "down")
    return frame, Roles(targets=("y", "z"))


CASES = {
    "ragged numbers": ragged_case(FEW_ROWS, False),
    "ragged labels": ragged_case(FEW_ROWS, True),
    "shared numbers": shared_case(FEW_ROWS, False),
    "shared labels": shared_case(FEW_ROWS, True),
    "many ragged numbers": ragged_case(MANY_ROWS, False),
    "many ragged labels": ragged_case(MANY_ROWS, True),
}


def methods():
    """Yield each default method with one of its cases; the cases take turns."""
    cases_by_method = defaultdict(list)
    for case, candidate in methods_of_cases():
        has_labels = "labels" in case
        cases_by_method[candidate.label, has_labels].append((case, candidate))
    for turn, cases in enumerate(cases_by_method.values()):
        case, candidate = cases[turn % len(cases)]
        yield pytest.param(case, candidate, id=f"{case}: {candidate.label}")


def methods_of_cases():
    """Yield all default methods and calibrated ones of each case."""
    for case, (frame, roles) in CASES.items():
        dataset = make_dataset(table_of_frame(frame), roles)
        for candidate in default_candidates(dataset, 0.8):
            is_boosting = "GradientBoosting" in candidate.label
            if case.startswith("many") and not is_boosting:
                continue
            yield case, candidate
            if dataset.task_type == "binary" and is_boosting:
                yield (
                    case,
                    replace(
                        calibrated(candidate), label=f"calibrated {candidate.label}"
                    ),
                )


def fitted(case, candidate):
    """Return a method fitted to all rows as `compare` fits it, and the table."""
    frame, roles = CASES[case]
    dataset = make_dataset(table_of_frame(frame), roles)
    rows = np.arange(dataset.n_samples)
    part, step = with_features(
        TrainTestData.of(dataset, rows, rows[:1]), Features("table")
    )
    chosen = {name: values[0] for name, values in candidate.grid.items()}
    params = with_params(candidate.params, chosen)
    estimator = build({"estimator": candidate.estimator, "params": params})
    is_ragged = dataset.task_id is not None
    facts = {
        "task_type": dataset.task_type,
        "design": "ragged" if is_ragged else "shared",
        "tasks": dataset.tasks,
        "targets": dataset.targets,
        "labels": dataset.labels,
        "label_types": dataset.label_types,
        "estimator": {"name": candidate.label},
        "dataset": {"id": "own-table"},
        "input": {
            "n_features": dataset.n_features,
            "names": dataset.features,
            "strings": False,
            "categories": dataset.categories,
            "task_column": roles.task,
            "table": True,
        },
    }
    return Model(part.fit(estimator), step, facts), frame


@pytest.mark.slow
@pytest.mark.every(4)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("case", "candidate"), list(methods()))
def test_every_default_method_loads_without_trust_and_predicts_the_same(
    tmp_path, case, candidate
):
    model, frame = fitted(case, candidate)
    save_model(tmp_path, model)
    assert trust_options(tmp_path) == ""
    loaded = load_model(tmp_path)
    predicted = loaded.predict(frame)
    np.testing.assert_array_equal(predicted, model.predict(frame))
    if case.endswith("numbers"):
        assert not hasattr(loaded, "decision_function")
        return
    scores = loaded.decision_function(frame)
    np.testing.assert_array_equal(scores, model.decision_function(frame))
    assert scores.shape == predicted.shape
    # Labels are sorted, so "yes" and "up" have scores above 0.
    is_second = np.isin(predicted, ["yes", "up"])
    assert ((scores > 0) == is_second)[scores != 0].all()
    if hasattr(loaded, "predict_proba"):
        assert np.isfinite(loaded.predict_proba(frame)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("positive", "is_ragged"), [("yes", True), ("no", True), ("no", False)]
)
def test_scores_and_probabilities_belong_to_their_labels_whichever_is_positive(
    tmp_path, positive, is_ragged
):
    frame, _ = ragged_case(MANY_ROWS, True)
    frame = frame[frame.task.isin(["t0", "t1"])].groupby("task").head(25)
    roles = {"target": "y", "task": "task"}
    if not is_ragged:
        frame = frame.drop(columns="task").assign(z=np.where(frame.b > 0, "yes", "no"))
        roles = {"targets": ["y", "z"]}
    result = mtlrun.compare(
        frame,
        methods=["IndependentLogistic"],
        positive=positive,
        calibrate=True,
        splits=2,
        repeats=1,
        folds=2,
        **roles,
    )
    model = load_model(result.save(tmp_path))
    classes = model.classes_ if is_ragged else model.classes_[0]
    probabilities = model.predict_proba(frame)
    if not is_ragged:
        probabilities = probabilities[0]
    scores = model.decision_function(frame).reshape(len(frame), -1)[:, 0]
    assert roc_auc_score(frame.y == classes[1], scores) > 0.8
    assert roc_auc_score(frame.y == classes[1], probabilities[:, 1]) > 0.8
    # `Comparison` has the columns of `mtlrun predict`: scores of the positive label.
    column = result.decision_function(frame).iloc[:, 0]
    assert column.name == (f"{positive}:score" if is_ragged else f"y={positive}:score")
    assert roc_auc_score(frame.y == positive, column) > 0.8
    name = "yes" if is_ragged else "y=yes"
    assert roc_auc_score(frame.y == "yes", result.predict_proba(frame)[name]) > 0.8


def test_scores_are_rejected_for_numbers():
    frame, roles = CASES["ragged numbers"]
    options = {"methods": ["PooledRidge"], "splits": 2, "repeats": 1, "folds": 2}
    result = mtlrun.compare(frame, target="y", task=roles.task, **options)
    with pytest.raises(UserError):
        result.decision_function(frame)


# --- parameters from all splits ---


def test_parameters_minimize_the_sum_of_losses_over_all_splits():
    grid = {"alpha": [1.0, 2.0, 3.0]}
    # The first split and most other splits prefer 1; the sum prefers 2.
    losses = [[0.9, 1.0, 1.1], [0.9, 1.0, 1.1], [9.0, 1.0, 1.1]]
    assert choose_over_splits(grid, losses) == {"alpha": 2.0}


def test_equal_sums_go_to_the_first_candidate():
    grid = {"alpha": [3.0, 1.0], "beta": [0, 5]}
    losses = [[2.0, 1.0, 1.0, 1.0], [2.0, 1.5, 1.5, 1.5]]
    assert choose_over_splits(grid, losses) == {"alpha": 3.0, "beta": 5}


def test_a_value_that_failed_in_a_split_does_not_win_by_its_smaller_sum():
    losses = [[None, 5.0], [1.0, 5.0]]
    assert choose_over_splits({"alpha": [1.0, 2.0]}, losses) == {"alpha": 2.0}


def test_halving_counts_the_splits_that_a_value_survived():
    # Two values: each split has only the loss of the survivor.
    losses = [[None, 9.0], [1.0, None], [None, 9.0]]
    assert choose_over_splits({"leaves": [4, 16]}, losses) == {"leaves": 16}
    tied = [[None, 1.0], [9.0, None]]
    assert choose_over_splits({"leaves": [4, 16]}, tied) == {"leaves": 4}
    # Four values: equally frequent survivors compete on the splits with all of them.
    four = [[1.0, 2.0, None, None], [9.0, 1.0, None, None], [None, None, 1.0, 1.0]]
    assert choose_over_splits({"leaves": [1, 2, 3, 4]}, four) == {"leaves": 2}


def test_nothing_is_selected_without_a_search():
    assert choose_over_splits({}, [[3.0], [4.0]]) == {}
    assert choose_over_splits({"alpha": [1.0]}, [[None]]) == {}


@pytest.fixture(scope="module")
def unlike_first_split():
    """Return a comparison whose first split selects other values than all together."""
    for seed in range(1, 20):  # The first one has such a table.
        frame = table(4, 25, seed)
        frame["y"] = frame.a + 3 * np.random.default_rng(seed).normal(size=len(frame))
        result = mtlrun.compare(
            frame.drop(columns="z"),
            target="y",
            task="task",
            methods=["PooledRidge"],
            splits=3,
            repeats=2,
            folds=2,
        )
        (entry,) = [e for e in result.board.entries if e.label == result.saved]
        values = [chosen.get("estimator__alpha") for chosen in entry.chosen.values()]
        if entry.grid_losses and len(set(values)) > 1:
            sums = np.sum(list(entry.grid_losses.values()), axis=0)
            grid = result.config["method"]["grid"]["estimator__alpha"]
            if values[0] != grid[int(np.argmin(sums))]:
                return frame, result, grid[int(np.argmin(sums))], values[0]
    raise AssertionError("no such table")


def test_the_saved_model_has_the_parameters_of_all_splits(tmp_path, unlike_first_split):
    frame, result, expected, first = unlike_first_split
    assert result.model.estimator.estimator.alpha == expected != first
    folder = result.save(tmp_path)
    described = json.loads((folder / "model" / "model.json").read_text())
    params = described["estimator"]["params"]["estimator"]["params"]
    assert params["alpha"] == expected
    # The scores of the first split are honest: only its own rows affect its parameters.
    metrics = json.loads((folder / "model" / "metrics.json").read_text())
    (entry,) = [e for e in result.board.entries if e.label == result.saved]
    assert metrics["selection"]["chosen"] == {"estimator__alpha": first}
    assert metrics["metrics"]["rmse"] == pytest.approx(entry.scores[0])
    # By hand: features and target are standardized.
    X = pd.get_dummies(frame[["a", "b", "c", "size"]], dtype=float).to_numpy()
    centre = X.mean(axis=0)
    scale = np.where(np.arange(5) < 3, X.std(axis=0), 1.0)
    Z = (X - centre * (np.arange(5) < 3)) / scale
    target = (frame.y - frame.y.mean()) / frame.y.std(ddof=0)
    centred = Z - Z.mean(axis=0)
    coef = np.linalg.solve(
        centred.T @ centred + expected * np.eye(5), centred.T @ target
    )
    by_hand = centred @ coef * frame.y.std(ddof=0) + frame.y.mean()
    np.testing.assert_allclose(result.predict(frame), by_hand, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_the_training_file_of_a_comparison_reproduces_its_model(
    tmp_path, unlike_first_split
):
    frame, result, expected, _ = unlike_first_split
    assert result.config["refit"] == {"estimator__alpha": expected}
    protocol = Protocol.of(result.dataset, CompareOptions())
    candidate = Candidate(
        "R", INDEPENDENT, "IndependentRidge", grid={"alpha": [1.0, 2.0]}
    )
    plain = ComparisonJobs(protocol, result.dataset).training(candidate)
    assert plain.refit is True
    folder = result.save(tmp_path)
    training = load_training(folder / "chosen.yaml", data_dir=folder / "data")
    done = train(training, output=tmp_path / "again", data_dir=folder / "data")
    again = load_model(done.folder)
    np.testing.assert_array_equal(again.predict(frame), result.predict(frame))


def test_the_coefficients_have_the_parameters_of_all_splits():
    rng = np.random.default_rng(0)
    frame = table(3, 40).drop(columns=["size", "z"])
    frame["y"] = np.where(np.abs(frame.a) > 0.7, 3.0, -3.0) + rng.normal(size=120)
    methods = ["JointFeatureMTL", "GradientBoosting+Task"]
    options = {"methods": methods, "splits": 2, "repeats": 1, "folds": 2}
    result = mtlrun.compare(frame, target="y", task="task", **options)
    assert (result.saved, result.coefficients_of) == (methods[1], methods[0])
    (entry,) = [e for e in result.board.entries if e.label == methods[0]]
    (candidate,) = [
        c for c in default_candidates(result.dataset, 1 / 2) if c.label == methods[0]
    ]
    (name,) = candidate.grid
    sums = np.sum(list(entry.grid_losses.values()), axis=0)
    expected = candidate.grid[name][int(np.argmin(sums))]
    # The first split selects another value.
    assert entry.chosen[0] != {name: expected}
    rows = np.arange(120)
    part, _ = with_features(
        TrainTestData.of(result.dataset, rows, rows), Features("table")
    )
    params = with_params(candidate.params, {name: expected})
    model = part.fit(build({"estimator": candidate.estimator, "params": params}))
    coefficients = result.coefficients.loc[frame.task]
    products = coefficients[["a", "b", "c"]].to_numpy() * frame[["a", "b", "c"]]
    np.testing.assert_allclose(
        products.sum(axis=1).to_numpy() + coefficients.intercept, part.predict(model)
    )


@pytest.mark.slow
def test_calibrated_models_have_the_parameters_of_all_splits():
    frame = table(3, 30).drop(columns="z")
    noise = 3 * np.random.default_rng(1).normal(size=len(frame))
    frame["y"] = np.where(frame.a + noise > 0, "yes", "no")
    options = {"methods": ["PooledLogistic"], "splits": 3, "repeats": 1, "folds": 2}
    result = mtlrun.compare(frame, target="y", task="task", calibrate=True, **options)
    (entry,) = [e for e in result.board.entries if e.label == result.saved]
    if not entry.chosen[0]:
        pytest.skip("the best method has no search")
    sums = np.sum(list(entry.grid_losses.values()), axis=0)
    (name,) = entry.chosen[0]
    inner = result.model.estimator.estimator
    assert result.config["refit"] == {f"estimator__{name}": inner.get_params()[name]}
    (values,) = [
        c.grid[name]
        for c in default_candidates(result.dataset, 2 / 3)
        if c.label == result.saved
    ]
    assert inner.get_params()[name] == values[int(np.argmin(sums))]
