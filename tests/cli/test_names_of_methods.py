"""The name of a method in a leaderboard is one in Python, in lists and in options."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from mtlrun import estimators
from mtlrun.catalog.registry import BASELINES, METHODS, build, load_class
from mtlrun.chunks.compare import candidate_of
from mtlrun.comparison.candidates import (
    chosen_candidate,
    default_candidates,
    named_candidates,
)
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.errors import ConfigError
from mtlrun.estimators.baselines import ScaledTargets
from mtlrun.estimators.metadata import Scale
from mtlrun.model.files import TRUSTED

RAGGED = {"targets": ("y",), "task": "task", "drop": ("label", "z", "day")}
LABELS = {"targets": ("label",), "task": "task", "drop": ("y", "z", "day")}
SHARED = {"targets": ("y", "z"), "drop": ("task", "label", "day")}
SCENARIOS = {
    "numbers": RAGGED,
    "few rows": RAGGED,
    "labels": LABELS,
    "numbers on the same rows": SHARED,
    "labels on the same rows": {**SHARED, "task_type": "binary"},
    "next rows": {**RAGGED, "drop": ("label", "z"), "time": "day"},
    "next labels": {**LABELS, "drop": ("y", "z"), "time": "day"},
    "later blocks": {
        **RAGGED,
        "drop": ("label", "z"),
        "time": "day",
        "time_blocks": True,
    },
    "new tasks": {**RAGGED, "new_tasks": True},
}


def dataset_of(scenario, n=150):
    if scenario == "few rows":
        n = 60
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    frame["task"] = np.resize(["s1", "s2", "s3"], n)
    frame["day"] = np.arange(n)
    frame["y"] = frame.a + rng.normal(size=n)
    frame["z"] = frame.b + rng.normal(size=n)
    frame["label"] = np.where(frame.y > 0, "yes", "no")
    roles = SCENARIOS[scenario]
    if roles.get("task_type") == "binary":
        frame[["y", "z"]] = (frame[["y", "z"]] > 0).astype(int)
    return make_dataset(table_of_frame(frame), Roles(**roles))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_names_in_leaderboards_are_names_in_python_lists_and_options(scenario, mtlrun):
    dataset = dataset_of(scenario)
    listed = mtlrun("list", "methods").stdout.splitlines()
    listed_names = {line.partition(" ")[0] for line in listed}
    candidates = default_candidates(dataset, 0.8)
    assert len(candidates) > 15
    for candidate in candidates:
        label = candidate.label
        assert label in listed_names
        cls = getattr(estimators, label)
        assert cls is load_class(label)
        assert cls.__name__ in estimators.__all__
        for name in (label, cls.__name__):
            by_name = {c.label: c for c in named_candidates([name], dataset, 0.8)}
            assert by_name[label] == candidate


def test_the_description_of_a_baseline_names_its_class(mtlrun):
    for name, info in BASELINES.items():
        done = mtlrun("list", "methods", name)
        assert done.exit_code == 0
        assert info.class_path.replace(":", ".") in done.stdout


def test_names_in_leaderboards_of_chunks_are_names_of_methods():
    for label in ("TaskMean", "IndependentRidge", "PooledRidge", "IndependentRidgeCV"):
        assert label in METHODS | BASELINES
        assert candidate_of(label, Scale(10, 3)).label == label


NUMBERS_ONLY = {"IndependentRidgeCV", "PooledRidge+Task", "LastValue+Drift"}
LABELS_ONLY = {"IndependentLogisticCV", "PooledLogistic+Task"}
TIMES_ONLY = {"LastValue", "LastValue+Drift"}
SHARED_ONLY = {"KernelRidge", "MultiOutputExtraTrees", "MultiOutputRandomForest"}
RAGGED_ONLY = {"PooledRidge+Task", "PooledLogistic+Task"}


@pytest.mark.parametrize(
    ("scenario", "refused"),
    [
        ("numbers", LABELS_ONLY | TIMES_ONLY | SHARED_ONLY),
        ("few rows", LABELS_ONLY | TIMES_ONLY | SHARED_ONLY),
        ("labels", NUMBERS_ONLY | TIMES_ONLY | SHARED_ONLY),
        ("numbers on the same rows", LABELS_ONLY | TIMES_ONLY | RAGGED_ONLY),
        ("next rows", LABELS_ONLY | SHARED_ONLY),
    ],
)
def test_a_baseline_is_compared_unless_the_table_lacks_what_it_needs(scenario, refused):
    dataset = dataset_of(scenario)
    for name in BASELINES.keys() - refused:
        candidates = named_candidates([name], dataset, 0.8)
        assert name in {candidate.label for candidate in candidates}
    for name in refused:
        with pytest.raises(ConfigError, match=re.escape(name)) as caught:
            named_candidates([name], dataset, 0.8)
        assert caught.value.remedy


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario", ["numbers", "labels", "numbers on the same rows", "next rows"]
)
def test_a_baseline_in_python_predicts_as_in_a_comparison(scenario):
    dataset = dataset_of(scenario, n=60)
    rows = np.arange(dataset.n_samples)
    part = TrainTestData.of(dataset, rows, rows)
    candidates = {c.label: c for c in default_candidates(dataset, 0.8)}
    names = candidates.keys() & BASELINES.keys()
    assert len(names) >= 4
    for name in names:
        chosen = {key: values[-1] for key, values in candidates[name].grid.items()}
        candidate = chosen_candidate(candidates[name], chosen)
        compared = build({"estimator": candidate.estimator, "params": candidate.params})
        if isinstance(compared, ScaledTargets):
            compared = compared.estimator
        params = {k.rpartition("__")[2]: v for k, v in compared.get_params().items()}
        params |= {"task_type": dataset.task_type, "unseen": "error"}
        model = load_class(name)()
        model = clone(model.set_params(**{k: params[k] for k in model.get_params()}))
        expected = part.predict(part.fit(compared))
        assert_allclose(part.predict(part.fit(model)), expected, rtol=1e-8)


def test_saved_baselines_are_loaded_without_trust():
    for name in BASELINES:
        cls = load_class(name)
        assert f"{cls.__module__}.{cls.__name__}" in TRUSTED
