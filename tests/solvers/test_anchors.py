"""Published and precomputed optima on the real Enron, Delicious and School data."""

import os
from pathlib import Path

import numpy as np
import pytest

from mtlrun.penalties.norms import L12, TraceNorm
from mtlrun.problem.losses import SquaredHingeLoss, SquaredLoss
from mtlrun.problem.rotation import prepare
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.admm import solve_admm, solve_split
from mtlrun.solvers.robust import solve_apg

pytestmark = pytest.mark.data

# 40% of the rows, labels -1/+1, X unscaled, no intercept; ||L||_* + lam ||E||_{1,2} +
# beta * sum of losses.
ENRON = {
    (1.0, 0.01): 75.2555,
    (1.0, 0.1): 226.7194,
    (0.5, 0.01): 65.81924,
    (0.5, 0.1): 175.69880,
    (0.3, 0.01): 57.70312,
    (0.3, 0.1): 145.38159,
}
ENRON_HINGE = {
    (0.5, 0.01): 58.04646,
    (0.5, 0.1): 111.45491,
    (0.3, 0.01): 47.35707,
    (0.3, 0.1): 84.35946,
}
SCHOOL = {(500.0, 300.0): (1544432.30783, 2), (500.0, 100.0): (1518668.19732, None)}


def load(name):
    folder = os.environ.get("MTLRUN_DATA")
    if not folder or not (Path(folder) / name).is_dir():
        pytest.skip(f"needs {name} below MTLRUN_DATA")
    from mtlrun.data.sets.load import load_dataset

    return load_dataset(name)


def forty_percent(name):
    dataset = load(name)
    n = len(dataset.y)
    rows = np.random.default_rng(0).permutation(n)[: int(0.4 * n)]
    return TaskData.from_matrix(dataset.X[rows], dataset.y[rows])


@pytest.fixture(scope="module")
def enron():
    data = forty_percent("enron")
    return data, prepare(data)


@pytest.fixture(scope="module")
def school():
    dataset = load("school")
    X = np.asarray(dataset.X, dtype=float)
    if X.shape[1] == 27:  # The constant column belongs to these optima.
        X = np.column_stack([X, np.ones(len(X))])
    return TaskData.from_stacked(X, dataset.y, dataset.task_id)


@pytest.mark.parametrize(("lam", "beta"), ENRON)
def test_enron_reaches_the_known_optima(enron, lam, beta):
    data, rotation = enron
    penalties = [TraceNorm(1.0), L12(lam)]
    result = solve_admm(data, SquaredLoss(2 * beta), penalties, rotation=rotation)
    assert result.converged
    assert result.objective[-1] == pytest.approx(ENRON[lam, beta], rel=1e-4)
    assert result.n_iter <= 400


@pytest.mark.every(2)
@pytest.mark.parametrize(("lam", "beta"), [(0.5, 0.01), (0.5, 0.1)])
def test_enron_with_the_squared_hinge_reaches_the_known_optimum(enron, lam, beta):
    data, rotation = enron
    result = solve_split(
        data, SquaredHingeLoss(2 * beta), [TraceNorm(1.0), L12(lam)], rotation=rotation
    )
    assert result.converged
    assert result.objective[-1] == pytest.approx(ENRON_HINGE[lam, beta], rel=1e-4)


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize(("lam", "beta"), [(0.3, 0.1), (0.3, 0.01)])
def test_enron_with_the_squared_hinge_and_small_lam_reaches_the_known_optimum(
    enron, lam, beta
):
    data, rotation = enron
    result = solve_split(
        data, SquaredHingeLoss(2 * beta), [TraceNorm(1.0), L12(lam)], rotation=rotation
    )
    assert result.objective[-1] == pytest.approx(ENRON_HINGE[lam, beta], rel=1e-4)


def test_apg_stops_by_the_rule_of_the_paper(enron):
    data, _ = enron
    result = solve_apg(data, SquaredLoss(0.02), [TraceNorm(1.0), L12(1.0)])
    assert result.info["rule"] == "26"
    assert result.n_iter == 440
    assert result.objective[-1] == pytest.approx(75.350, abs=2e-3)


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("lam", "beta", "expected"), [(0.5, 0.1, 269673.9219), (1.0, 0.01, 27267.77)]
)
def test_delicious_reaches_the_known_optima(lam, beta, expected):
    data = forty_percent("delicious")
    result = solve_admm(data, SquaredLoss(2 * beta), [TraceNorm(1.0), L12(lam)])
    assert result.converged
    assert result.objective[-1] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("r1", "r2"), SCHOOL)
def test_school_reaches_the_known_optima(school, r1, r2):
    penalties = [TraceNorm(r1), L12(r2)]
    result = solve_admm(school, SquaredLoss(2.0), penalties)
    best, outliers = SCHOOL[r1, r2]
    assert school.X.shape == (15362, 28)
    assert result.objective[-1] == pytest.approx(best, rel=1e-4)
    assert result.n_iter <= 200
    precise = solve_admm(school, SquaredLoss(2.0), penalties, start=result, tol=1e-8)
    assert precise.objective[-1] == pytest.approx(best, rel=1e-7)
    if outliers is not None:
        assert np.count_nonzero(np.linalg.norm(precise.parts[1], axis=0)) == outliers
