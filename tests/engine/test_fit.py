"""Inputs of fits and searches, and their records: rows, features, parameters."""

import gc
import time
import warnings
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from mtlrun.catalog.methods import Method
from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.simulate import simulate_rmtl
from mtlrun.data.splits import WEIGHT, fold_rows, split_rows
from mtlrun.engine import fit
from mtlrun.engine.environment import host_info
from mtlrun.engine.fit import (
    fit_job,
    run_analysis,
    score_candidates,
    train_test_data,
)
from mtlrun.engine.job import DatasetRef, Features, Job, Scoring, Search, Split, Timing
from mtlrun.engine.record import Seconds
from mtlrun.utils.io import stored_fields

SPIES = '''
"""Estimators that tell what they saw, and say what the tests want."""

import gc
import os
import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info


class Spy(BaseEstimator):
    """Ridge regression."""

    threads = set()

    def __init__(self, alpha=1.0, facts=None, base=None, random_state=None):
        self.alpha, self.facts, self.base, self.random_state = alpha, facts, base, random_state

    def fit(self, X, y):
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        self.coef_ = np.linalg.solve(X.T @ X + self.alpha * np.eye(X.shape[1]), X.T @ y).T
        Spy.threads = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        self.collecting_ = gc.isenabled()
        for name, value in (self.facts or {}).items():
            setattr(self, name, value)
        return self

    def predict(self, X):
        return X @ self.coef_.T


class Talking(Spy):
    """Warns in every fit, with the number of the fit in this process."""

    fits = 0

    def fit(self, X, y):
        Talking.fits += 1
        warnings.warn(f"fit {Talking.fits}", ConvergenceWarning)
        warnings.warn("always the same", UserWarning)
        warnings.warn("always the same", RuntimeWarning)
        return super().fit(X, y)


class Slow(Spy):
    """The clock of the tests shows the next of these seconds when it is fitted."""

    clock = [0.0]
    takes = []

    def fit(self, X, y):
        self.took_ = Slow.takes.pop(0)
        warnings.warn(f"took {self.took_}", UserWarning)
        Slow.clock[0] += self.took_
        return super().fit(X, y)

    def predict(self, X):
        Slow.clock[0] += 0.25
        return super().predict(X)


class Path(Spy):
    """Can start from the solution for other parameters."""

    def __init__(self, alpha=1.0, warm_start=False):
        super().__init__(alpha)
        self.warm_start = warm_start
'''


LOOK = """
from mtlrun.catalog.analysis import AnalysisResult, analysis


@analysis({"spread": "standard deviation of the first feature"})
def spread(dataset, *, seed):
    return AnalysisResult({"spread": float(dataset.X[:, 0].std())})
"""


@pytest.fixture
def spies(lab):
    (lab.root / "lab" / "spies.py").write_text(SPIES)
    import lab.spies

    return lab.spies


def make_data(task_type="binary", ragged=False):
    """Return 60 rows of three tasks; the first feature is the row number."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(60.0), rng.normal(size=(60, 4))])
    W = rng.normal(size=(4, 3))
    Y = X[:, 1:] @ W + 0.5 * rng.normal(size=(60, 3))
    Y = np.sign(Y) if task_type == "binary" else Y
    tasks = np.arange(60) % 3 if ragged else None
    data = Dataset(
        X=X,
        y=Y[np.arange(60), tasks] if ragged else Y,
        task_type=task_type,
        task_id=tasks,
        id="made",
    )
    data.splits["own"] = [(np.arange(20, 60), np.arange(20))]
    return data


def cell_of(
    split,
    name="Spy",
    params=None,
    features=None,
    timing=None,
    metrics=("auc",),
    average="task",
    **search,
):
    method = Method(f"lab.spies:{name}", params=params or {})
    wanted = None
    if search:
        options = {
            "grid": {"alpha": [0.1, 1000.0]},
            "folds": 3,
            "metric": metrics[0],
            "seed": 11,
            "method": method,
        }
        wanted = Search(**{**options, **search})
    scoring = Scoring(metrics, average, timing=timing)
    return Job(DatasetRef("made", {}, "0"), split, method, scoring, features, wanted)


#: Splits by kind, as in jobs of experiments; all but the first two have validation
#: rows.
SPLITS = {
    "random": Split("random", 0, 5, train=0.6),
    "kfold": Split("kfold", 1, 5, folds=3),
    "validation": Split("random", 0, 5, train=0.4, validation=0.3),
    "published": Split("published", 0, 5, name="own", validation=0.25),
    "balanced": Split("balanced", 0, 5, train=0.4),
}
HELD = ["validation", "published", "balanced"]


def split_of(data, name):
    """Return training, validation and test rows."""
    return split_rows(
        data,
        **{
            key: value
            for key, value in asdict(SPLITS[name]).items()
            if value is not None
        },
    )


def numbers(rows):
    return rows.X[:, 0].astype(int).tolist()


def spoiled(data, rows):
    """Return a data set with other features and labels in some rows."""
    X, y = data.X.copy(), data.y.copy()
    X[rows], y[rows] = 1e3 - X[rows] ** 2, -y[rows]
    return replace(data, X=X, y=y)


def searched(job, data):
    return [score_candidates(fold, data).selection for fold in job.folds]


# --- rows


@pytest.mark.parametrize("name", HELD)
def test_a_search_on_validation_rows_is_scored_there_and_the_fit_on_the_test_rows(
    spies, name
):
    data = make_data(ragged=name == "balanced")
    train, validation, test = (rows.tolist() for rows in split_of(data, name))
    job = cell_of(SPLITS[name], on="validation", folds=1)
    (fold,) = job.folds
    searching, final = train_test_data(fold, data)[0], train_test_data(job, data)[0]
    assert (numbers(searching.train), numbers(searching.test)) == (train, validation)
    assert (numbers(final.train), numbers(final.test)) == (train, test)
    assert len({*train, *validation, *test}) == 60


@pytest.mark.parametrize("name", ["random", "kfold", "validation"])
def test_folds_of_a_search_are_subsets_of_the_training_rows(spies, name):
    data = make_data()
    train = split_of(data, name)[0]
    job = cell_of(SPLITS[name], on="folds")
    parts = [train_test_data(fold, data)[0] for fold in job.folds]
    inner = list(fold_rows(data.subset(train), 3, 11))
    assert [(numbers(part.train), numbers(part.test)) for part in parts] == [
        (train[fitted].tolist(), train[scored].tolist()) for fitted, scored in inner
    ]
    assert sorted(number for part in parts for number in numbers(part.test)) == sorted(
        train
    )
    others = [
        train_test_data(fold, data)[0]
        for fold in cell_of(SPLITS[name], on="folds", seed=12).folds
    ]
    assert [numbers(part.test) for part in others] != [
        numbers(part.test) for part in parts
    ]


@pytest.mark.parametrize("name", SPLITS)
def test_a_search_does_not_depend_on_the_test_rows(spies, name):
    data = make_data(ragged=name == "balanced")
    train, validation, test = split_of(data, name)
    on = "validation" if name in HELD else "folds"
    job = cell_of(
        SPLITS[name],
        features=Features("standardize"),
        on=on,
        folds=1 if name in HELD else 3,
    )
    before = searched(job, data)
    assert searched(job, spoiled(data, test)) == before
    assert searched(job, spoiled(data, validation if name in HELD else train)) != before


def test_a_fit_does_not_depend_on_test_and_validation_rows(spies):
    data = make_data()
    train, validation, test = split_of(data, "validation")
    job = cell_of(SPLITS["validation"], features=Features("standardize"))
    fitted, other = (
        fit_job(job, rows) for rows in (data, spoiled(data, np.r_[validation, test]))
    )
    np.testing.assert_array_equal(fitted.model.coef_, other.model.coef_)
    np.testing.assert_array_equal(
        fitted.step.transform(data.X[test]), fitted.part.test.X
    )
    assert fitted.record.metrics != other.record.metrics
    assert (
        fit_job(job, spoiled(data, validation)).record.metrics == fitted.record.metrics
    )
    assert not np.array_equal(
        fit_job(job, spoiled(data, train)).model.coef_, fitted.model.coef_
    )


def test_features_of_a_search_are_learned_on_the_rows_that_it_fits(spies):
    data = make_data()
    job = cell_of(SPLITS["random"], features=Features("standardize"), on="folds")
    for fold in job.folds:
        rows = train_test_data(replace(fold, features=None), data)[0]
        part, step = train_test_data(fold, data)
        np.testing.assert_allclose(step.mean_, rows.train.X.mean(axis=0))
        np.testing.assert_allclose(part.train.X.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_array_equal(part.test.X, step.transform(rows.test.X))


@pytest.mark.parametrize("ragged", [False, True])
def test_a_task_with_one_label_in_the_training_rows_has_no_auc(spies, ragged):
    data = make_data(ragged=ragged)
    train = split_of(data, "random")[0]
    if ragged:
        data.y[train[data.task_id[train] == 1]] = 1
    else:
        data.y[train, 1] = 1
    name = "IndependentRidge" if ragged else "lab.spies:Spy"
    job = cell_of(SPLITS["random"], metrics=("auc", "accuracy"))
    record = fit_job(replace(job, method=Method(name)), data).record
    assert np.isnan(record.per_task["auc"]).tolist() == [False, True, False]
    assert record.metrics["auc"] == pytest.approx(np.nanmean(record.per_task["auc"]))
    assert record.counts == {
        "n_tasks": 3,
        "n_train": 36,
        "n_test": 24,
        "one_class_train": 1,
        "undefined_auc": 1,
        "undefined_accuracy": 0,
    }
    assert record.result["tasks"] == data.tasks


# --- features


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("standardize", lambda X: (X - X.mean(axis=0)) / X.std(axis=0)),
        ("max-abs", lambda X: X / np.abs(X).max(axis=0)),
        ("min-max", lambda X: (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))),
        ("unit-rows", lambda X: X / np.linalg.norm(X, axis=1, keepdims=True)),
        ("table", lambda X: (X - X.mean(axis=0)) / X.std(axis=0)),
    ],
)
def test_features_are_scaled_with_the_training_rows(kind, expected):
    plain = train_test_data(cell_of(SPLITS["random"]), make_data())[0]
    part = train_test_data(
        cell_of(SPLITS["random"], features=Features(kind)), make_data()
    )[0]
    np.testing.assert_allclose(part.train.X, expected(plain.train.X), atol=1e-12)


def test_sparse_features_stay_sparse_when_standardized():
    data = make_data()
    data.X = sparse.csr_matrix(data.X)
    part, _ = train_test_data(
        cell_of(SPLITS["random"], features=Features("standardize")), data
    )
    assert sparse.issparse(part.train.X)
    plain = train_test_data(cell_of(SPLITS["random"]), data)[0].train.X.toarray()
    np.testing.assert_allclose(part.train.X.toarray(), plain / plain.std(axis=0))


def test_categories_of_a_table_become_columns():
    data = replace(
        make_data(),
        features=["n", "a", "b", "c", "colour"],
        categories={"colour": ["red", "blue"]},
    )
    data.X[:, 4] = np.arange(60) % 2
    part, step = train_test_data(
        cell_of(SPLITS["random"], features=Features("table")), data
    )
    assert part.train.X.shape == (36, 6)
    assert part.train.features == part.test.features == []
    numbers = replace(data, categories={})
    red = train_test_data(cell_of(SPLITS["random"]), numbers)[0].test.X[:, 4] == 0
    np.testing.assert_array_equal(part.test.X[:, 4:], np.column_stack([red, ~red]))
    assert step.transform(data.X).shape == (60, 6)


def letters():
    data = make_data()
    data.X = np.array([b"ACGT", b"ACGA", b"TTTT"] * 20)
    return data


def width(**options):
    return train_test_data(
        cell_of(SPLITS["random"], features=Features(**options)), letters()
    )[0].train.X.shape[1]


def test_sequences_become_letters_by_position_or_longer_words():
    one_hot = train_test_data(
        cell_of(SPLITS["random"], features=Features("one-hot")), letters()
    )[0].train.X
    np.testing.assert_array_equal(
        np.ravel(one_hot.sum(axis=1)), 4
    )  # One letter at each position
    assert one_hot.shape[1] == width(kind="weighted-degree", degree=1)
    assert width(kind="weighted-degree", degree=2) > one_hot.shape[1]
    assert width(kind="weighted-degree", degree=2, hash_bits=3) != width(
        kind="weighted-degree", degree=2
    )


# --- the record of a fit


def facts_of(spies, name="Spy", data=None, timing=None, chosen=None, **params):
    job = cell_of(SPLITS["random"], name, params, timing=timing, metrics=("mse",))
    return fit_job(job, data or make_data("regression"), chosen)


def test_selected_parameters_replace_those_of_the_method(spies):
    plain, chosen = (
        facts_of(spies, alpha=3.0),
        facts_of(spies, alpha=3.0, chosen={"alpha": 500.0}),
    )
    assert (plain.record.params["alpha"], plain.model.alpha) == (3.0, 3.0)
    assert (chosen.record.params["alpha"], chosen.model.alpha) == (500.0, 500.0)
    assert chosen.record.metrics["mse"] > plain.record.metrics["mse"]
    assert plain.record.inputs == chosen.record.inputs


def test_scores_are_computed_from_predictions_of_the_test_rows(spies):
    data = make_data("regression")
    data.y[:, 2] *= 10
    test = split_of(data, "random")[2]
    fitted = facts_of(spies, data=data)
    predicted = fitted.model.predict(data.X[test])
    np.testing.assert_array_equal(fitted.scores, predicted)
    np.testing.assert_allclose(
        fitted.record.per_task["mse"], ((predicted - data.y[test]) ** 2).mean(axis=0)
    )
    assert fitted.record.metrics["mse"] == pytest.approx(
        np.mean(fitted.record.per_task["mse"])
    )
    assert fitted.part.test_rows.tolist() == test.tolist()


def test_the_mean_over_samples_weights_tasks_by_their_rows(spies):
    data = make_data("regression", ragged=True)
    data = data.subset(np.flatnonzero((data.task_id > 0) | (np.arange(60) < 24)))
    job = replace(
        cell_of(SPLITS["random"], metrics=("mse",)), method=Method("IndependentRidge")
    )
    by_task = fit_job(job, data).record
    by_sample = fit_job(
        replace(job, scoring=replace(job.scoring, average="sample")), data
    ).record
    rows = np.bincount(data.task_id[split_of(data, "random")[2]])
    assert len(set(rows)) > 1
    assert by_task.metrics["mse"] == pytest.approx(np.mean(by_task.per_task["mse"]))
    assert by_sample.metrics["mse"] == pytest.approx(
        np.average(by_task.per_task["mse"], weights=rows)
    )
    assert by_sample.metrics["mse"] != by_task.metrics["mse"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, {"converged": True}),
        ({"n_iter_": 7, "gap_": 0.5}, {"converged": True, "n_iter": 7, "gap": 0.5}),
        (
            {"n_iter_": [3, 9, 4], "stop_crit_": [0.1, 0.3]},
            {"converged": True, "n_iter": 9, "stop_crit": 0.3},
        ),
        ({"objective_": [3.0, 2.0, 1.5]}, {"converged": True, "objective": 1.5}),
        ({"objective_": 4.0}, {"converged": True, "objective": 4.0}),
        ({"objective_": []}, {"converged": True}),
        ({"converged_": True}, {"converged": True}),
        ({"converged_": False}, {"converged": False}),
    ],
)
def test_the_record_contains_the_report_of_the_solver(spies, facts, expected):
    record = facts_of(spies, facts=facts).record
    assert record.solver == expected
    assert record.status == ("ok" if expected["converged"] else "not_converged")


def test_each_warning_is_kept_once_and_one_about_convergence_is_the_message(spies):
    record = facts_of(spies, "Talking").record
    assert record.status == "not_converged"
    assert (record.solver["converged"], record.solver["message"]) == (False, "fit 1")
    assert [
        line.endswith(text)
        for line, text in zip(
            record.log.splitlines(), ("fit 1", "the same"), strict=True
        )
    ] == [
        True,
        True,
    ]
    assert facts_of(spies).record.log is None


def test_warnings_are_collected_even_if_the_process_ignores_them(spies):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            record = facts_of(spies, "Talking").record
            assert record.status == "not_converged"
            assert "always the same" in record.log


def test_coefficients_are_compared_with_the_known_truth_of_a_regression(spies):
    truth = np.arange(15.0).reshape(5, 3)
    data = make_data("regression")
    with_truth = replace(data, truth={"W": truth})
    fitted = facts_of(spies, data=with_truth)
    expected = np.linalg.norm(fitted.model.coef_ - truth.T) / np.linalg.norm(truth)
    assert fitted.record.solver["truth_error"] == pytest.approx(expected)
    for other in (
        data,
        replace(data, truth={"W": truth[:, :2]}),
        replace(make_data(), truth={"W": truth}),
    ):
        assert "truth_error" not in facts_of(spies, data=other).record.solver


def test_parts_that_a_stopped_solver_leaves_over_do_not_count(spies):
    outlier = np.zeros((3, 5))
    outlier[0, 0] = 1.0
    outlier[1, 0] = 1e-9
    low_rank = np.diag([1.0, 1e-9, 0.0, 0.0, 0.0])[:3]
    facts = {"low_rank_": low_rank, "outlier_": outlier}
    solver = facts_of(spies, facts=facts).record.solver
    assert (solver["rank"], solver["n_outliers"]) == (1, 1)
    facts["outlier_"] = 1e-9 * outlier
    assert facts_of(spies, facts=facts).record.solver["n_outliers"] == 0


@pytest.mark.parametrize("estimator", ["RobustMTL", "DivideAndConquerRMTL"])
def test_records_of_robust_models_have_the_rank_of_l_and_the_outlier_tasks(estimator):
    data = simulate_rmtl(n=120, d=12, m=8, rank=2, kind="value")
    cell = replace(
        cell_of(SPLITS["random"], metrics=("mse",)), method=Method(estimator)
    )
    fitted = fit_job(cell, data)
    solver, model = fitted.record.solver, fitted.model
    assert solver["rank"] == np.linalg.matrix_rank(model.low_rank_, tol=1e-4)
    assert solver["n_outliers"] == np.sum(np.linalg.norm(model.outlier_, axis=1) > 1e-4)
    truth = data.truth["L"].T
    error = np.linalg.norm(model.low_rank_ - truth) / np.linalg.norm(truth)
    assert solver["low_rank_error"] == pytest.approx(error)


def test_records_of_other_models_have_no_rank(spies):
    assert "rank" not in facts_of(spies).record.solver


def test_without_coefficients_there_is_no_error_of_coefficients(spies):
    data = replace(make_data("regression", ragged=True), truth={"W": np.ones((5, 3))})
    job = replace(
        cell_of(SPLITS["random"], metrics=("mse",)),
        method=Method("sklearn.tree:DecisionTreeRegressor"),
    )
    assert "truth_error" not in fit_job(job, data).record.solver


def test_seconds_of_blocks_are_summed_and_the_longest_counts_for_parallel_workers(
    spies,
):
    seconds = facts_of(
        spies, facts={"block_seconds_": [0.25, 0.5, 0.125]}
    ).record.seconds
    assert (seconds.blocks_sum, seconds.blocks_max) == (0.875, 0.5)
    assert facts_of(spies).record.seconds.blocks_sum is None


# --- time


@pytest.fixture
def clock(spies, monkeypatch):
    """A clock that advances only in fits (by `Slow.takes`) and predictions (0.25 s)."""
    spies.Slow.clock[0] = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: spies.Slow.clock[0])
    return spies.Slow


@pytest.mark.parametrize(
    ("takes", "seconds", "kept"),
    [([3.0], 3.0, 3.0), ([9.0, 1.0, 4.0], 4.0, 4.0), ([2.0, 8.0, 1.0, 4.0], 3.0, 2.0)],
)
def test_the_time_of_a_fit_is_the_median_and_its_model_the_closest_repeat(
    clock, takes, seconds, kept
):
    clock.takes[:] = takes
    fitted = facts_of(
        None, "Slow", timing=Timing(repeats=len(takes), threads=1, warmup=False)
    )
    record = fitted.record
    assert (record.seconds.fit, record.seconds.fit_all) == (seconds, takes)
    assert (record.seconds.predict, record.seconds.total) == (
        0.25,
        sum(takes) + 0.25,
    )
    assert fitted.model.took_ == kept
    assert record.log == f"took {kept}"
    timing = {"repeats": len(takes), "threads": 1, "warmup": False}
    assert (timing | asdict(host_info())).items() <= record.environment.items()


def test_the_first_fit_of_a_method_on_a_data_set_is_neither_timed_nor_kept(clock):
    timing = Timing(repeats=1, threads=1, warmup=True)
    # No other test has fitted to data of this name.
    rows = replace(make_data("regression"), id="first fits")

    def timed(cold, data=rows, **params):
        """Return whether the first of two seconds belongs to the timed fit, not to a
        fit before it.
        """
        clock.takes[:] = [9.0, 2.0]
        record = facts_of(None, "Slow", data=data, timing=timing, **params).record
        assert record.log == ("took 2.0" if cold else "took 9.0")
        return record.seconds.fit_all == ([2.0] if cold else [9.0])

    assert timed(cold=True, random_state=0)
    assert timed(cold=False, random_state=0)
    assert timed(cold=False, random_state=1)  # Another seed runs the same code.
    assert timed(cold=True, alpha=2.0)
    assert timed(cold=True, data=replace(rows, id="other first fits"))
    assert timed(cold=True, data=replace(rows, X=sparse.csr_matrix(rows.X)))
    facts_of(None, "Spy", data=rows, timing=timing, alpha=3.0)
    assert timed(cold=True, alpha=3.0)  # Another estimator


def test_nested_seeds_do_not_need_another_first_fit_but_other_nested_parameters_do(
    clock,
):
    timing = Timing(repeats=1, threads=1, warmup=True)
    data = replace(make_data("regression"), id="nested seeds")
    nested = lambda **params: {"base": {"estimator": "lab.spies:Spy", "params": params}}  # noqa: E731
    clock.takes[:] = [9.0, 2.0, 1.0, 7.0, 3.0]
    seconds = [
        facts_of(
            None, "Slow", data=data, timing=timing, **nested(**params)
        ).record.seconds.fit
        for params in (
            {"random_state": 0},
            {"random_state": 1},
            {"random_state": 1, "alpha": 2.0},
        )
    ]
    assert seconds == [2.0, 1.0, 3.0]


def test_a_search_counts_the_seconds_of_all_its_candidates(clock):
    clock.takes[:] = [5.0, 3.0]
    (fold, *_) = cell_of(SPLITS["random"], "Slow", on="folds").folds
    assert score_candidates(fold, make_data()).seconds == Seconds(
        total=8.5
    )  # Two predictions


def test_untimed_jobs_are_fitted_once(clock):
    clock.takes[:] = [5.0]
    record = facts_of(None, "Slow").record
    assert (record.seconds.fit_all, clock.takes) == ([5.0], [])
    assert {
        "repeats": 1,
        "threads": 1,
        "warmup": False,
    }.items() <= record.environment.items()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_limited_during_the_fit(spies, threads):
    with threadpool_limits(limits=3 - threads):
        facts_of(spies, timing=Timing(repeats=1, threads=threads, warmup=False))
        assert (
            max(spies.Spy.threads) == threads
        )  # A library started with one thread keeps one thread.
        facts_of(spies)  # Not timed
        assert spies.Spy.threads == {1}


def test_a_search_runs_in_one_thread_and_records_the_machine(spies):
    (fold, *_) = cell_of(SPLITS["random"], on="folds").folds
    with threadpool_limits(limits=2):
        record = score_candidates(fold, make_data())
    assert spies.Spy.threads == {1}
    assert record.environment["threads"] == 1
    assert asdict(host_info()).items() <= record.environment.items()


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_collection_is_off_during_a_fit_and_restored_after_it(
    spies, collecting
):
    was = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        assert facts_of(spies).model.collecting_ is False
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if was else gc.disable)()


# --- the record of a search


def test_scores_of_a_search_equal_those_of_the_method_with_each_candidate(spies):
    data = make_data()
    job = cell_of(SPLITS["random"], on="folds", metric="accuracy")
    for number, fold in enumerate(job.folds):
        part = train_test_data(fold, data)[0]
        record = score_candidates(fold, data)
        expected = [
            part.score(model, part.predict(model), ["accuracy"], "task")[
                "accuracy"
            ].mean
            for model in (part.fit(spies.Spy(alpha)) for alpha in (0.1, 1000.0))
        ]
        assert stored_fields(record.selection) == {
            "scores": expected,
            "undefined": [0, 0],
            "errors": [None, None],
            "not_converged": [False, False],
            "warm_started": False,
        }
        assert record.key == job.folds[number].key
        assert record.status == "ok"
    raced = job.with_survivors(1, [1]).folds[-1]
    assert score_candidates(raced, data).selection.scores == [None, expected[1]]


def test_a_score_that_is_undefined_everywhere_is_none(spies):
    data = make_data()
    data.y[:] = np.where(
        np.isin(np.arange(60), split_of(data, "random")[0])[:, None], 1.0, data.y
    )
    (selection, *_) = searched(cell_of(SPLITS["random"], on="folds"), data)
    assert (selection.scores, selection.undefined) == ([None, None], [3, 3])
    assert selection.errors == [None, None]


def test_a_search_with_halving_has_the_undefined_tasks_of_its_worst_fold(spies):
    data = make_data()
    train, *_ = split_of(data, "random")
    folds = cell_of(SPLITS["random"], on="folds").folds
    tested = [train[train_test_data(fold, data)[0].test_rows] for fold in folds]
    # The two positive rows of task 0 are in different folds: only the second fold tests
    # none of them.
    data.y[:, 0] = -1.0
    data.y[[tested[0][0], tested[2][0]], 0] = 1.0
    (selection,) = searched(cell_of(SPLITS["random"], on="halving"), data)
    # The other candidate is dropped after a fold.
    assert max(selection.undefined) == 1


def test_only_several_candidates_of_the_same_model_are_warm_started(spies):
    def warm(name, grid, data=None):
        (fold, *_) = cell_of(SPLITS["random"], name, on="folds", grid=grid).folds
        return score_candidates(fold, data or make_data())

    assert warm("Path", {"alpha": [0.1, 10.0]}).selection.warm_started is True
    assert warm("Path", {"alpha": [0.1]}).selection.warm_started is False
    assert warm("Spy", {"alpha": [0.1, 10.0]}).selection.warm_started is False
    assert (
        warm("Path", {"alpha": [0.1, 10.0]}).selection.scores
        == warm("Spy", {"alpha": [0.1, 10.0]}).selection.scores
    )


@pytest.mark.parametrize(
    ("estimator", "params", "grid"),
    [
        (
            "sklearn.neural_network:MLPRegressor",
            {"max_iter": 2, "random_state": 0},
            {"alpha": [0.1, 10.0]},
        ),
        (
            "sklearn.ensemble:HistGradientBoostingRegressor",
            {"max_iter": 2},
            {"l2_regularization": [0.1, 10.0]},
        ),
        (
            "sklearn.ensemble:ExtraTreesRegressor",
            {"n_estimators": 2},
            {"max_depth": [1, 2]},
        ),
    ],
)
def test_networks_and_ensembles_start_cold(spies, estimator, params, grid):
    data = make_data("regression", ragged=True)
    job = cell_of(
        SPLITS["random"],
        metrics=("mse",),
        on="folds",
        grid=grid,
        method=Method(estimator, params=params),
    )
    assert score_candidates(job.folds[0], data).selection.warm_started is False


def test_a_failed_candidate_has_a_reason_and_the_others_are_scored(spies):
    job = cell_of(SPLITS["random"], on="folds", grid={"alpha": ["much", 1.0]})
    (selection, *_) = searched(job, make_data())
    assert selection.scores[0] is None
    assert selection.scores[1] is not None
    assert selection.errors[0]
    assert selection.errors[1] is None
    assert selection.undefined == [None, 0]


def test_candidates_that_do_not_converge_are_marked(spies):
    (selection, *_) = searched(
        cell_of(SPLITS["random"], "Talking", on="folds"), make_data()
    )
    assert selection.not_converged == [True, True]
    assert None not in selection.scores


# ------------------------------------------- data shared by the methods of a table


def parts_of(data, *names, **job):
    """Fit a job on each of these splits, and return the prepared rows."""
    return [fit_job(cell_of(SPLITS[name], **job), data).part for name in names]


def test_methods_share_prepared_rows_only_for_the_same_rows(spies):
    data = make_data()
    first, again, other = parts_of(data, "random", "random", "validation")
    assert again is first
    assert other is not first
    scaled = fit_job(cell_of(SPLITS["random"], features=Features("standardize")), data)
    assert scaled.part is not first
    assert scaled.step is not None
    (of_other_data,) = parts_of(make_data(), "random")
    assert of_other_data is not first


def limit_prepared_rows(monkeypatch, n_splits):
    """Keep the rows of this number of splits of `make_data`."""
    # X and y of 60 rows, and three times as much.
    n_bytes = n_splits * 4 * 8 * 60 * (5 + 3)
    monkeypatch.setattr(fit, "MAX_PREPARED_BYTES", n_bytes)


def test_prepared_rows_are_limited_in_bytes_and_reused_in_turns(spies, monkeypatch):
    limit_prepared_rows(monkeypatch, 2)
    data = make_data()
    names = ("random", "validation", "kfold")
    turns = [parts_of(data, *names) for _ in range(4)]
    n_prepared = len({id(part) for parts in turns for part in parts})
    # Every other visit after the first turn, instead of all 12 visits.
    assert n_prepared == 3 + 4
    # Larger than the limit: kept alone.
    limit_prepared_rows(monkeypatch, 0)
    alone, same, lost = parts_of(data, "published", "published", "random")
    assert same is alone
    assert lost is not turns[-1][0]


def test_prepared_rows_of_other_data_are_dropped_first(spies, monkeypatch):
    parts_of(make_data(), "random")
    limit_prepared_rows(monkeypatch, 2)
    data = make_data()
    first, second = parts_of(data, "random", "validation")
    again = parts_of(data, "random", "validation")
    assert again[0] is first
    assert again[1] is second


# --- analyses


def test_features_of_an_analysis_do_not_depend_on_rows_of_weight_0(lab):
    (lab.root / "lab" / "looks.py").write_text(LOOK)
    weights = np.where(np.arange(60) % 4 == 0, 0.0, 1.0)
    data = make_data("regression")
    data = replace(data, source={WEIGHT: weights})
    method = Method("", measure="lab.looks:spread")
    job = Job(
        DatasetRef("made", {}, "0"),
        Split("none", 0, 0),
        method,
        Scoring((), "task"),
        Features("standardize"),
    )
    record = run_analysis(job, data)
    assert record.counts == {"n_tasks": 3, "n_samples": 60, "n_features": 5}
    value = record.metrics["spread"]
    assert value == pytest.approx(data.X[:, 0].std() / data.X[weights > 0, 0].std())
