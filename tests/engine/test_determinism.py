"""The same seed gives the same numbers, whatever the processes and the order."""

import functools

import numpy as np
import pytest

from mtlrun.engine.run import run
from mtlrun.utils.io import stored_fields

METHODS = {
    "ridge": "  - {label: ridge, estimator: IndependentRidge, grid: {alpha: [0.1, 10]}}\n",
    "noisy": '  - {label: noisy, estimator: "lab.models:Noisy"}\n',
    "sparse": "  - {label: sparse, estimator: SparseMTL, params: {alpha: 0.1}}\n",
    "robust": "  - {label: robust, estimator: RobustMTL, params: {lam: 0.7}}\n",
}
HEAD = """\
schema: 1
id: lab/same
title: The same numbers
kind: evaluate
datasets: [DATA]
split: {kind: random, train: 0.5, trials: 2}
metrics: [auc]
selection: {folds: 2}
keep: [predictions]
methods:
"""


def text(lab, *methods, more=""):
    return HEAD.replace(
        "DATA", ", ".join([lab.data, *([more] if more else [])])
    ) + "".join(map(METHODS.get, methods))


def numbers(lab, text):
    """Return all fields of each job except times and machine."""
    run_plan, results = lab.plan(text), {}
    store = run_plan.store()
    for row in run_plan.rows:
        for job in (row.job, *row.job.folds):
            record, scores = store.load(job.key), store.cells_folder / f"{job.key}.npz"
            if record is not None:
                searched = {
                    name: value
                    for name, value in stored_fields(record.selection).items()
                    if name != "seconds"
                }
                results[job.kind, job.fold, row.dataset, row.method, row.trial] = (
                    record.key,
                    record.status,
                    record.metrics,
                    record.per_task,
                    record.params,
                    record.solver,
                    searched,
                    scores.read_bytes() if scores.exists() else None,
                )
    return results


@functools.cache
def computed_once():
    """Return the results of `plain`, computed by the first test that needs them."""
    return {}


@pytest.fixture
def plain(lab):
    """Return the numbers of a single process that computes one job after another."""
    results = computed_once()
    if not results:
        lab.run(text(lab, *METHODS))
        results |= numbers(lab, text(lab, *METHODS))
        assert len(results) == 4 + 8
        lab.output = lab.root / "other"
    return results


@pytest.mark.slow
def test_processes_and_threads_do_not_change_a_bit(lab, plain):
    for name, options in {
        "processes": {"n_jobs": 2},
        "threads": {"n_jobs": 2, "backend": "threading"},
    }.items():
        lab.output = lab.root / name
        lab.run(text(lab, *METHODS), **options)
        assert numbers(lab, text(lab, *METHODS)) == plain


def test_interrupted_and_resumed_runs_have_the_same_numbers(lab, plain):
    rng = np.random.default_rng(0)
    lab.run(text(lab, *METHODS))
    for _ in range(4):
        for path in (lab.output / "cells").glob("*.json"):
            if rng.random() < 0.5:
                path.unlink()
        run(lab.plan(text(lab, *METHODS), only=[f"trial={rng.integers(2)}"]))
    run(lab.plan(text(lab, *METHODS)))
    resumed = numbers(
        lab, text(lab, *METHODS)
    )  # Without folds that were lost after all jobs that need them had finished
    assert resumed.items() <= plain.items()
    assert {name for name in resumed if name[0] == "fit"} == {
        name for name in plain if name[0] == "fit"
    }


def test_additional_methods_and_another_order_of_data_sets_do_not_change_numbers(
    lab, plain
):
    lab.run(text(lab, "noisy"))
    few = numbers(lab, text(lab, "noisy"))
    assert few
    assert few.items() <= plain.items()
    lab.output = lab.root / "more"
    extended = text(
        lab,
        *reversed(METHODS),
        more="{id: simulated-rmtl, n: 50, d: 8, m: 4, label: second}",
    )
    lab.run(extended)
    other = numbers(lab, extended)
    assert plain.items() <= other.items()
    assert len(other) == 2 * len(plain)


def test_another_seed_gives_other_numbers(lab, plain):
    lab.run(text(lab, *METHODS) + "seed: 1\n")
    other = numbers(lab, text(lab, *METHODS) + "seed: 1\n")
    assert all(other[name][2] != plain[name][2] for name in plain if name[0] == "fit")
