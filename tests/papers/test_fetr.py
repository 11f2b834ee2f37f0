"""Measures of relationship learning: what they return, what they refuse, and the audit of the printed table."""

import numpy as np
import pytest

from mtlrun.data.dataset import Dataset
from mtlrun.data.load import load_dataset
from mtlrun.errors import ConfigError
from mtlrun.estimators.relationship import FETR
from mtlrun.papers.fetr import (
    audit_table,
    fetr_covariances,
    training_data,
    w_step_seconds,
)
from mtlrun.papers.fetr_convergence import fetr_convergence

SMALL = load_dataset("simulated-fetr", n=60, d=6, m=7)
RAGGED = Dataset(X=np.eye(4), y=np.arange(4.0), task_type="regression", task_id=np.array([0, 0, 1, 1]), id="r")


def named(measure, found):
    """Check that the quantities are declared and everything is plain data."""
    assert set(found.values) <= set(measure.declaration.quantities)
    assert all(type(v) is float for v in found.values.values())
    for curve in found.curves.values():
        assert len(curve.x) == len(curve.y)
        assert type(curve.y[0]) is float
    return found


# ---------------------------------------------------------------- W-step


@pytest.mark.parametrize("solver", ["closed", "gradient", "cg", "sylvester", "eigen"])
def test_every_solver_comes_to_the_residual(solver):
    found = named(w_step_seconds, w_step_seconds(SMALL, seed=1, solver=solver, tol=1e-6))
    assert found.values["residual"] <= 1e-6
    assert found.values["seconds"] > 0
    assert (found.values["iterations"] > 1) == (solver in ("gradient", "cg"))
    assert np.isnan(found.values["matrix_gb"]) == (solver != "closed")


def test_the_seed_draws_the_precision_matrices():
    first, again, other = (w_step_seconds(SMALL, seed=s, solver="cg").values["residual"] for s in (1, 1, 2))
    assert first == again != other


def test_a_closed_form_that_is_too_large_is_named_with_its_size_and_not_tried():
    found = named(w_step_seconds, w_step_seconds(SMALL, seed=0, solver="closed", max_gb=1e-6))
    assert np.isnan(found.values["seconds"])
    assert found.values["matrix_gb"] == pytest.approx(8 * 42**2 / 1e9)
    assert "needs a matrix of 1.41e-05 GB, more than the 1e-06 GB allowed" in found.lines[0]


def test_an_unknown_solver_is_refused():
    with pytest.raises(ValueError, match="one of closed, gradient, cg, sylvester, eigen, got 'newton'"):
        w_step_seconds(SMALL, seed=0, solver="newton")


@pytest.mark.parametrize("measure", [w_step_seconds, fetr_convergence, fetr_covariances])
@pytest.mark.parametrize("dataset", [None, RAGGED])
def test_other_data_are_refused(measure, dataset):
    with pytest.raises(ValueError, match="whose tasks share their rows"):
        measure(dataset, seed=0)


# ---------------------------------------------------------------- convergence


@pytest.mark.parametrize("algorithm", ["coordinate", "extrapolated", "flip-flop"])
def test_algorithms_are_followed_to_their_end(algorithm):
    found = named(fetr_convergence, fetr_convergence(SMALL, seed=0, algorithm=algorithm, rho=0.1, seconds=2.0))
    curve = found.curves["excess"]
    assert curve.x == sorted(curve.x)
    assert min(curve.y) >= 1e-15
    assert found.values["seconds_to_1e-6"] == found.values["seconds_at_least"] <= found.values["seconds_run"]
    assert found.values["iterations_to_1e-6"] <= found.values["iterations"]
    if algorithm != "flip-flop":  # the best objective is that of coordinate minimisation
        assert abs(found.values["final_excess"]) < 1e-6


@pytest.mark.parametrize("algorithm", ["projected-gradient", "projected-gradient-exact"])
def test_what_does_not_arrive_counts_with_all_its_seconds(algorithm):
    found = named(fetr_convergence, fetr_convergence(SMALL, seed=0, algorithm=algorithm, seconds=0.05, patience=0.0))
    assert np.isnan(found.values["seconds_to_1e-6"])
    assert np.isnan(found.values["iterations_to_1e-6"])
    assert found.values["seconds_at_least"] == found.values["seconds_run"] > 0.05
    assert len(found.curves["excess"].x) <= 300


def test_an_unknown_algorithm_is_refused():
    with pytest.raises(ValueError, match=r"algorithm must be coordinate, .* got 'newton'"):
        fetr_convergence(SMALL, seed=0, algorithm="newton")


# ---------------------------------------------------------------- covariances


def test_covariances_are_those_of_the_estimator_with_the_names_of_tasks_and_features():
    found = named(fetr_covariances, fetr_covariances(SMALL, seed=0, rho=0.5))
    data = training_data(SMALL)
    model = FETR(1.0, 0.5, tol=1e-10, max_iter=5000).fit(data.X, data.Y)
    tasks, features = found.matrices["task covariance"], found.matrices["feature covariance"]
    np.testing.assert_allclose(tasks.values, model.task_covariance_)
    np.testing.assert_allclose(features.values, model.feature_covariance_)
    assert tasks.rows == tasks.columns == [str(t) for t in SMALL.tasks]
    assert features.rows == [f"x{j}" for j in range(1, 7)]
    correlation = np.array(found.matrices["task correlation"].values)
    np.testing.assert_allclose(np.diag(correlation), 1)
    assert found.values["cross_largest"] == correlation[:4, 4:].max()
    assert found.values["pair_correlation"] == correlation[4, 5]
    assert "eigenvalues of the task precision" in found.lines[0]


def test_where_the_box_decides_there_is_no_correlation():
    found = fetr_covariances(SMALL, seed=0, lower=0.999, upper=1.0, scale_targets=True)
    assert found.values["task_bounds"] == 7
    narrow = fetr_covariances(SMALL, seed=0, lower=1e-7, upper=1e-6)
    assert narrow.values["cross_largest"] == narrow.values["cross_mean"] == 0


@pytest.mark.parametrize("params", [{"first_block": 7}, {"first_block": 0}, {"pair": (5, 8)}])
def test_blocks_must_fit_the_tasks(params):
    with pytest.raises(ValueError, match="do not fit 7 tasks"):
        fetr_covariances(SMALL, seed=0, **params)


def test_training_rows_are_those_of_the_published_split_and_standardised():
    rows = np.arange(40)
    dataset = Dataset(**{**SMALL.__dict__, "splits": {"fixed": [(rows, np.arange(40, 60))]}})
    data = training_data(dataset)
    assert data.n_rows == 40
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.X.std(axis=0), 1)


# ---------------------------------------------------------------- audit


def test_the_printed_table_does_not_say_consistently_lower():
    found = named(audit_table, audit_table(None, seed=0))
    assert {k: found.values[k] for k in ("comparisons", "lower", "equal", "higher")} == {
        "comparisons": 32.0,
        "lower": 26.0,
        "equal": 5.0,
        "higher": 1.0,
    }
    assert found.values["mtn_not_lower"] == found.values["mtn_fetr_not_lower"] == 0
    assert "does not follow" in found.lines[0]
    assert found.lines[1] == "Higher: SARCOS, joint 2: 22.68 against 22.6 of MTFRL."
    table = next(iter(found.tables.values()))
    assert len(table["rows"]) == 32
    assert ["MTFRL", "SARCOS, joint 2", 22.68, 22.6, "higher"] in table["rows"]


def test_a_missing_table_is_named():
    with pytest.raises(ConfigError, match=r"no file of published numbers 'fetr/none\.csv'"):
        audit_table(None, seed=0, published="fetr/none.csv")
