"""Analyses of relationship learning: results, errors, audit of the printed table."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.linear_model import LinearRegression

from mtlrun.catalog.analysis import Printed
from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import ConfigError
from mtlrun.estimators.relationship import FETR
from mtlrun.papers.fetr.audit import audit_table
from mtlrun.papers.fetr.covariances import block_ratio, fetr_covariances
from mtlrun.papers.fetr.curves import (
    ESTIMATORS,
    LearningCurves,
    distance_beyond_rounding,
    learning_curve,
    least_errors,
)
from mtlrun.papers.fetr.data import training_data
from mtlrun.papers.fetr.seconds import fetr_convergence, w_step_seconds

SMALL = load_dataset("simulated-fetr", n=60, d=6, m=7)
RAGGED = Dataset(
    X=np.eye(4),
    y=np.arange(4.0),
    task_type="regression",
    task_id=np.array([0, 0, 1, 1]),
    id="r",
)


def named(measure, result):
    """Check that the quantities are declared and everything is plain data."""
    assert set(result.values) <= set(measure.declaration.quantities)
    assert all(type(v) is float for v in result.values.values())
    for curve in result.curves.values():
        assert len(curve.x) == len(curve.y)
        assert type(curve.y[0]) is float
    return result


# ---------------------------------------------------------------- W-step


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["closed", "gradient", "cg", "sylvester", "eigen"])
def test_every_solver_reaches_the_residual(solver):
    result = named(
        w_step_seconds, w_step_seconds(SMALL, seed=1, solver=solver, tol=1e-6)
    )
    assert result.values["residual"] <= 1e-6
    assert result.values["seconds"] > 0
    assert (result.values["iterations"] > 1) == (solver in ("gradient", "cg"))
    assert np.isnan(result.values["matrix_gb"]) == (solver != "closed")


def test_the_seed_draws_the_precision_matrices():
    first, again, other = (
        w_step_seconds(SMALL, seed=s, solver="cg").values["residual"] for s in (1, 1, 2)
    )
    assert first == again != other


def test_a_closed_form_that_is_too_large_is_reported_with_its_size_and_not_tried():
    result = named(
        w_step_seconds, w_step_seconds(SMALL, seed=0, solver="closed", max_gb=1e-6)
    )
    assert np.isnan(result.values["seconds"])
    assert result.values["matrix_gb"] == pytest.approx(8 * 42**2 / 1e9)
    assert "of 1.41e-05 GB" in result.lines[0]


def test_an_unknown_solver_is_rejected():
    with pytest.raises(ValueError, match="'newton'"):
        w_step_seconds(SMALL, seed=0, solver="newton")


@pytest.mark.parametrize(
    "measure", [w_step_seconds, fetr_convergence, fetr_covariances, learning_curve]
)
def test_other_data_are_rejected(measure):
    with pytest.raises(ValueError, match="share their rows"):
        measure(RAGGED, seed=0)


# ---------------------------------------------------------------- convergence


@pytest.mark.parametrize("algorithm", ["coordinate", "extrapolated", "flip-flop"])
def test_algorithms_run_until_convergence(algorithm):
    result = named(
        fetr_convergence,
        fetr_convergence(SMALL, seed=0, algorithm=algorithm, rho=0.1, seconds=2.0),
    )
    curve = result.curves["excess"]
    assert curve.x == sorted(curve.x)
    assert min(curve.y) >= 1e-15
    assert (
        result.values["seconds_to_1e-6"]
        == result.values["seconds_at_least"]
        <= result.values["seconds_run"]
    )
    assert result.values["iterations_to_1e-6"] <= result.values["iterations"]
    if algorithm != "flip-flop":  # Coordinate minimization reaches the best objective.
        assert abs(result.values["final_excess"]) < 1e-6


@pytest.mark.parametrize(
    "algorithm", ["projected-gradient", "projected-gradient-exact"]
)
def test_runs_that_do_not_reach_the_objective_count_with_all_their_seconds(algorithm):
    result = named(
        fetr_convergence,
        fetr_convergence(
            SMALL, seed=0, algorithm=algorithm, seconds=0.05, patience=0.0
        ),
    )
    assert np.isnan(result.values["seconds_to_1e-6"])
    assert np.isnan(result.values["iterations_to_1e-6"])
    assert result.values["seconds_at_least"] == result.values["seconds_run"] > 0.05
    assert len(result.curves["excess"].x) <= 300


def test_runs_that_end_elsewhere_have_no_seconds_to_the_best_objective():
    result = fetr_convergence(
        SMALL, seed=0, algorithm="flip-flop", rho=0.1, fudge=1.0, seconds=30.0
    )
    assert result.values["final_excess"] > 1e-6
    assert np.isnan(result.values["seconds_at_least"])


def test_an_unknown_algorithm_is_rejected():
    with pytest.raises(ValueError, match=r"algorithm.*'newton'"):
        fetr_convergence(SMALL, seed=0, algorithm="newton")


def test_the_fudge_factor_moves_flip_flop_away_from_the_best_objective():
    ends = [
        fetr_convergence(
            SMALL, seed=0, algorithm="flip-flop", rho=0.1, fudge=fudge, seconds=1.0
        ).values["final_excess"]
        for fudge in (1e-3, 0.1, 1.0)
    ]
    assert abs(ends[0]) < ends[1] < ends[2]


# ---------------------------------------------------------------- learning curves


@pytest.fixture(scope="module")
def gaussian():
    """Return rows of a linear model with unit noise, for which the error of least
    squares on n rows is known.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10600, 10))
    Y = X @ rng.normal(size=(10, 2)) + rng.normal(size=(10600, 2))
    rows = np.arange(10600)
    splits = {"fixed": [(rows[:600], rows[600:])]}
    return Dataset(
        X=X,
        y=Y,
        task_type="regression",
        tasks=["torque1", "b"],
        id="sarcos",
        splits=splits,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "grid", "work"),
    [
        ("STL", {"alpha": [1e-3, 1e3]}, {"partitions": 2}),
        ("FETR", {"rho": [1e-3]}, {"partitions": 1, "groups": 5}),
    ],
)
def test_the_extrapolated_error_matches_a_fit_to_more_rows(
    gaussian, method, grid, work
):
    params = {"method": method, "grid": grid, "rows": 10**6, "repeats": 2, **work}
    result = named(learning_curve, learning_curve(gaussian, seed=0, **params))
    train, test = gaussian.splits["fixed"][0]
    noise = least_errors(
        gaussian.X[test], gaussian.y[test]
    )  # With 10,000 rows: nearly the variance of the noise.
    half = np.array(result.per_task["half_width"])
    assert np.all(np.abs(np.array(result.per_task["extrapolated"]) - noise) < half)
    assert np.all((half > 0.001) & (half < 0.05))
    model = ESTIMATORS[method](
        **({"alpha": 1e-3} if method == "STL" else {"rho": 1e-3})
    )
    errors = np.mean(
        (
            model.fit(gaussian.X[train], gaussian.y[train]).predict(gaussian.X[test])
            - gaussian.y[test]
        )
        ** 2,
        0,
    )
    np.testing.assert_allclose(result.per_task["mse"], errors, rtol=1e-3)
    assert result.per_task["bound"] == list(noise)
    # Averaged over training rows it is sigma^2 (1 + 1/n) (1 + d / (n - d - 2)), which
    # gives a slope of about 11.
    assert 6 < result.values["slope"] < 16
    assert f"{'alpha' if method == 'STL' else 'rho'} 0.001" in result.lines[0]
    assert np.isnan(result.per_task["distance"][0]) == (
        result.per_task["distance"][1] is not None
    )


def test_the_slope_of_the_learning_curve_is_relative_to_its_limit(gaussian):
    # Noise of variance 100: the slope in units of the error is 100 times as large.
    noisy = replace(gaussian, X=gaussian.X[:700], y=10 * gaussian.y[:700])
    rows = np.arange(700)
    noisy.splits = {"fixed": [(rows[:600], rows[600:])]}
    result = learning_curve(
        noisy,
        seed=0,
        method="STL",
        grid={"alpha": [1e-3]},
        rows=10**6,
        repeats=2,
        partitions=2,
        groups=4,
    )
    curve = result.curves["error"]
    slope, limit = np.polyfit(1 / np.array(curve.x), curve.y, 1)
    assert limit == pytest.approx(1, abs=0.02)
    assert result.values["slope"] == pytest.approx(slope, rel=0.25)


@pytest.mark.parametrize(
    ("printed", "inside"),
    [("1.05", True), ("1.06", False), ("1.1", True), ("0.8", False)],
)
def test_a_printed_number_is_inside_the_interval_or_not(printed, inside):
    distance = distance_beyond_rounding(
        Printed({}, "STL", Decimal(printed)), extrapolated=1.0, half=0.05
    )
    assert (distance <= 1 + 1e-9) == inside


def test_the_interval_of_an_extrapolated_error_is_that_of_the_jackknife():
    rng = np.random.default_rng(0)
    limits = rng.uniform(1, 2, size=(2, 5, 3))
    slopes = rng.uniform(0, 1, size=(2, 5, 3))
    errors, half_widths = LearningCurves(limits, slopes).extrapolate(100)
    by_group = limits + slopes / 100
    np.testing.assert_allclose(errors, by_group.mean(axis=(0, 1)))
    # (g - 1) / g times the squared deviations of g groups, averaged over partitions.
    variances = 4 / 5 * 5 * by_group.var(axis=1).mean(axis=0)
    quantile = student.ppf(0.975, 4)
    np.testing.assert_allclose(half_widths, quantile * np.sqrt(variances))


def test_no_linear_model_with_an_intercept_has_smaller_errors_than_the_bound():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) + 5
    Y = rng.normal(size=(30, 2)) + 3
    residuals = Y - LinearRegression().fit(X, Y).predict(X)
    np.testing.assert_allclose(least_errors(X, Y), np.mean(residuals**2, axis=0))


@pytest.mark.parametrize(
    ("params", "message"),
    [({"method": "STN"}, "one of STL"), ({"groups": 1}, "groups must be")],
)
def test_invalid_learning_curves_are_rejected(params, message):
    with pytest.raises(ValueError, match=message):
        learning_curve(SMALL, seed=0, **params)


# ---------------------------------------------------------------- covariances


def test_covariances_are_those_of_the_estimator_with_names_of_tasks_and_features():
    result = named(fetr_covariances, fetr_covariances(SMALL, seed=0, rho=0.5))
    data = training_data(SMALL)
    model = FETR(1.0, 0.5, tol=1e-10, max_iter=5000).fit(data.X, data.Y)
    tasks, features = (
        result.matrices["task covariance"],
        result.matrices["feature covariance"],
    )
    np.testing.assert_allclose(tasks.values, model.task_covariance_)
    np.testing.assert_allclose(features.values, model.feature_covariance_)
    assert tasks.rows == tasks.columns == [str(t) for t in SMALL.tasks]
    assert features.rows == [f"x{j}" for j in range(1, 7)]
    correlation = np.array(result.matrices["task correlation"].values)
    np.testing.assert_allclose(np.diag(correlation), 1)
    assert result.values["cross_largest"] == correlation[:4, 4:].max()
    assert result.values["pair_correlation"] == correlation[4, 5]
    assert "task precision" in result.lines[0]


def test_if_the_box_is_active_there_is_no_correlation():
    result = fetr_covariances(SMALL, seed=0, lower=0.999, upper=1.0, scale_targets=True)
    assert result.values["task_bounds"] == 7
    narrow = fetr_covariances(SMALL, seed=0, lower=1e-7, upper=1e-6)
    assert narrow.values["cross_largest"] == narrow.values["cross_mean"] == 0


def test_blocks_of_features_are_compared_by_the_size_of_their_correlations():
    correlation = np.where(np.arange(14)[:, None] // 7 == np.arange(14) // 7, -0.6, 0.2)
    assert block_ratio(correlation) == pytest.approx(3)
    assert np.isnan(block_ratio(correlation[:7, :7]))
    assert np.isnan(
        fetr_covariances(SMALL, seed=0, rho=0.5).values["feature_blocks"]
    )  # Six features


def test_tasks_of_the_paper_are_required():
    few = load_dataset("simulated-fetr", n=60, d=6, m=5)
    with pytest.raises(ValueError, match="6 tasks, not 5"):
        fetr_covariances(few, seed=0)


def test_training_rows_follow_the_published_split_and_are_standardized():
    rows = np.arange(40)
    dataset = Dataset(
        **{**SMALL.__dict__, "splits": {"fixed": [(rows, np.arange(40, 60))]}}
    )
    data = training_data(dataset)
    assert data.n_rows == 40
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.X.std(axis=0), 1)


# ---------------------------------------------------------------- audit


def test_the_printed_table_does_not_show_consistently_lower_errors():
    result = named(audit_table, audit_table(None, seed=0))
    assert {
        k: result.values[k] for k in ("comparisons", "lower", "equal", "higher")
    } == {
        "comparisons": 32.0,
        "lower": 26.0,
        "equal": 5.0,
        "higher": 1.0,
    }
    assert result.values["mtn_not_lower"] == result.values["mtn_fetr_not_lower"] == 0
    assert "does not follow" in result.lines[0]
    assert result.lines[1] == "Higher: SARCOS, joint 2: 22.68 against 22.6 of MTFRL."
    table = next(iter(result.tables.values()))
    assert len(table["rows"]) == 32
    assert ["MTFRL", "SARCOS, joint 2", 22.68, 22.6, "higher", 22.5914] in table["rows"]


def test_printed_errors_near_the_bound_of_linear_models_have_no_order():
    result = audit_table(None, seed=0)
    assert result.values["near_bound"] == 9
    assert result.values["below_bound"] == 0
    assert result.values["smallest_gain"] == pytest.approx(1 - 22.68 / 22.60)
    assert (
        "FETR and MTRL on joints 1, 2, 3, 4; MTFRL on joints 1, 2, 3, 4, 5"
        in result.lines[-1]
    )


def test_a_missing_table_is_named():
    with pytest.raises(ConfigError, match=r"'fetr/none\.csv'"):
        audit_table(None, seed=0, published=["fetr/none.csv", "fetr/bound.csv"])
