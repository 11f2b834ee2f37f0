"""Smooth hierarchical models and their baselines among the methods of `compare`."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import mtlrun
from mtlrun.comparison.candidates import (
    core,
    default_candidates,
    has_coefficients,
    named_candidates,
)
from mtlrun.comparison.schedule import usual_seconds
from mtlrun.comparison.verdict import INDEPENDENT, MULTITASK, POOLED
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.model.files import load_model

SMOOTH = ["SmoothMTL", "SmoothPooled", "SmoothIndependent"]
FEW = {"target": "y", "task": "task", "splits": 3, "repeats": 1, "folds": 2}


def curves(is_curved, seed=0, n_tasks=12, n_rows=24):
    """Return rows of tasks with similar functions: curves or lines."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n_rows)
    x = rng.uniform(-2, 2, size=len(task))
    slope = 1 + 0.3 * rng.normal(size=n_tasks)
    shape = slope[task] * x
    if is_curved:
        phase = 0.4 * rng.normal(size=n_tasks)
        shape = 2 * np.sin(2.5 * x + phase[task])
    y = shape + rng.normal(size=n_tasks)[task] + 0.3 * rng.normal(size=len(task))
    return pd.DataFrame({"x": x, "task": [f"t{t}" for t in task], "y": y})


def dataset_of(frame, **roles):
    return make_dataset(
        table_of_frame(frame), Roles(**{"targets": ("y",), "task": "task", **roles})
    )


@pytest.mark.parametrize("has_labels", [False, True])
def test_smooth_models_are_tried_with_single_task_and_pooled_baselines(has_labels):
    frame = curves(True)
    if has_labels:
        frame["y"] = frame.y > 0
    end = "Classifier" if has_labels else ""
    by_label = {c.label: c for c in default_candidates(dataset_of(frame), 0.8)}
    families = {name: by_label[f"{name}{end}"].family for name in SMOOTH}
    assert families == {
        "SmoothMTL": MULTITASK,
        "SmoothPooled": POOLED,
        "SmoothIndependent": INDEPENDENT,
    }
    for name in SMOOTH:
        candidate = by_label[f"{name}{end}"]
        assert candidate.grid == {}
        assert candidate.is_scored


def test_smooth_models_follow_linear_models_and_their_baselines():
    defaults = default_candidates(dataset_of(curves(True)), 0.8)
    joint = [c.label for c in defaults if c.family == MULTITASK]
    # The simpler of two equally good methods is listed first.
    assert joint[:2] == ["HierarchicalMTL", "GraphMTL"]
    assert joint.index("SmoothMTL") > joint.index("TraceNormMTL")
    labels = [c.label for c in defaults]
    # A budget that ends in between must not attribute curves to sharing.
    assert labels.index("SmoothMTL") > labels.index("SmoothPooled")
    assert labels.index("SmoothMTL") > labels.index("SmoothIndependent")
    assert not {c.label for c in core(defaults)} & set(SMOOTH)


def test_smooth_models_are_left_out_if_tasks_have_few_rows():
    data = dataset_of(curves(True))
    data.X = sparse.csr_matrix(data.X)
    labels = {c.label for c in default_candidates(data, 0.8)}
    assert not labels & set(SMOOTH)
    assert named_candidates(["SmoothMTL"], data, 0.8)[-1].label == "SmoothMTL"


def targets_of(n_targets, n_rows=60):
    """Return a table of targets on the same rows: mixtures of two curves."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n_rows, 2))
    functions = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2])
    Y = functions @ rng.normal(size=(2, n_targets))
    Y += 0.3 * rng.normal(size=Y.shape)
    frame = pd.DataFrame(X, columns=["a", "b"])
    for target in range(n_targets):
        frame[f"y{target}"] = Y[:, target]
    return frame, tuple(f"y{target}" for target in range(n_targets))


def test_targets_on_the_same_rows_have_only_the_independent_baseline():
    frame, names = targets_of(3)
    data = dataset_of(frame, targets=names, task=None)
    labels = [c.label for c in default_candidates(data, 0.8)]
    assert "SmoothPooled" not in labels
    assert labels.index("SmoothIndependent") < labels.index("SmoothMTL")
    named = [c.label for c in named_candidates(["SmoothMTL"], data, 0.8)]
    assert named[-2:] == ["SmoothIndependent", "SmoothMTL"]
    label_frame = frame.assign(**{name: frame[name] > 0 for name in names})
    data = dataset_of(label_frame, targets=names, task=None)
    smooth = f"{SMOOTH[0]}Classifier"
    assert smooth not in [c.label for c in default_candidates(data, 0.8)]


def test_many_targets_are_not_tried_by_default():
    frame, names = targets_of(33)
    data = dataset_of(frame, targets=names, task=None)
    assert "SmoothMTL" not in [c.label for c in default_candidates(data, 0.8)]


@pytest.mark.slow
@pytest.mark.usefixtures("few_trees")
def test_a_model_of_targets_is_compared_and_loaded_without_trust(tmp_path):
    frame, names = targets_of(3)
    few = {"splits": 2, "repeats": 1, "folds": 2}
    result = mtlrun.compare(frame, targets=names, methods=["SmoothMTL"], **few)
    scores = {entry.label: entry.score for entry in result.board.entries}
    assert min(scores, key=scores.get) in ("SmoothMTL", "SmoothIndependent")
    assert scores["SmoothMTL"] < 0.7 * scores["IndependentRidge"]
    model = load_model(result.save(tmp_path))
    X, tasks = model.read(frame)
    half = 1.96 * model.deviations(X, tasks)
    is_inside = np.abs(model.scores(X, tasks) - frame[list(names)]) < half
    assert 0.9 < is_inside.to_numpy().mean() <= 1


def test_named_smooth_models_equal_those_of_the_default_list():
    data = dataset_of(curves(True))
    standard = {c.label: c for c in default_candidates(data, 0.8)}
    for name in SMOOTH:
        assert named_candidates([name], data, 0.8)[-1] == standard[name]


@pytest.mark.parametrize("has_labels", [False, True])
def test_a_named_smooth_model_adds_its_baselines(has_labels):
    frame = curves(True)
    if has_labels:
        frame["y"] = frame.y > 0
    end = "Classifier" if has_labels else ""
    named = named_candidates(["SmoothMTL"], dataset_of(frame), 0.8)
    expected = [f"{name}{end}" for name in (*SMOOTH[1:], SMOOTH[0])]
    assert [candidate.label for candidate in named[-3:]] == expected


def test_smooth_models_have_no_coefficients():
    by_label = {c.label: c for c in default_candidates(dataset_of(curves(True)), 0.8)}
    assert not any(has_coefficients(by_label[name]) for name in SMOOTH)
    assert has_coefficients(by_label["HierarchicalMTL"])
    assert has_coefficients(by_label["GraphMTL"])


def test_smooth_models_are_expected_to_take_longer_with_more_rows():
    seconds = []
    for n_rows in (24, 240):
        data = dataset_of(curves(True, n_rows=n_rows))
        expected_seconds = usual_seconds(default_candidates(data, 0.8), data, 3, 0.8)
        assert expected_seconds["SmoothMTL"] > expected_seconds["HierarchicalMTL"] > 0
        seconds.append(expected_seconds["SmoothMTL"])
    assert seconds[1] > 2 * seconds[0]


@pytest.fixture(scope="module")
def curved():
    methods = ["HierarchicalMTL", "GraphMTL", *SMOOTH]
    return mtlrun.compare(curves(True, n_tasks=6, n_rows=18), methods=methods, **FEW)


def test_the_smooth_model_wins_on_curved_tasks(curved):
    scores = {entry.label: entry.score for entry in curved.board.entries}
    assert min(scores, key=scores.get) == "SmoothMTL"
    assert scores["SmoothMTL"] < 0.7 * scores["HierarchicalMTL"]
    assert curved.saved == "SmoothMTL"
    assert "SmoothMTL" in str(curved.board.answer.times_selected)


def test_the_verdict_compares_curves_with_curves(curved):
    gain = curved.board.answer.gain.value
    scores = {entry.label: entry.score for entry in curved.board.entries}
    linear = min(scores["PooledRidge"], scores["IndependentRidge"])
    over_linear = 1 - (scores["SmoothMTL"] / linear) ** 2
    # Most of the gain over linear baselines is due to curvature.
    assert 0 < gain < over_linear


def test_coefficients_are_those_of_the_best_linear_method(curved):
    assert curved.coefficients_of in ("HierarchicalMTL", "GraphMTL")
    assert list(curved.coefficients.columns) == ["intercept", "x"]


@pytest.mark.slow
def test_the_saved_smooth_model_has_standard_deviations(curved, tmp_path):
    model = load_model(curved.save(tmp_path))
    frame = curves(True, n_tasks=6, n_rows=18)
    X, tasks = model.read(frame)
    half = 1.96 * model.deviations(X, tasks)
    is_inside = np.abs(model.scores(X, tasks) - frame.y) < half
    assert 0.9 < is_inside.mean() <= 1
    beyond = frame.head(1).assign(x=30.0)
    assert model.deviations(*model.read(beyond))[0] > 2 * half.mean() / 1.96


@pytest.mark.slow
def test_the_sign_of_the_gain_is_unchanged_on_linear_tasks():
    frame = curves(False, n_tasks=6, n_rows=15)
    gains = []
    for methods in (["HierarchicalMTL"], ["HierarchicalMTL", *SMOOTH]):
        result = mtlrun.compare(frame, methods=methods, **FEW)
        gains.append(result.board.answer.gain.value)
    assert np.sign(gains[0]) == np.sign(gains[1])
    assert abs(gains[1] - gains[0]) < 0.1
