"""The FETR experiments on the real data against plain numpy, one split each."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat

from mtlrun.catalog.analysis import read_printed
from mtlrun.data.sets.load import load_dataset
from mtlrun.data.splits import TaskShuffleSplit
from mtlrun.engine.run import run
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan
from mtlrun.papers.fetr.curves import learning_curve, printed_errors
from mtlrun.utils.io import configs_dir, derive_seed

pytestmark = pytest.mark.data


def file(name):
    """Return the content of a data file, which may be compressed."""
    path = Path(os.environ.get("MTLRUN_DATA", "")) / name
    if path.exists():
        return path.read_bytes()
    packed = path.with_name(f"{path.name}.gz")
    if not packed.exists():
        pytest.skip(f"MTLRUN_DATA does not hold {name}")
    return gzip.decompress(packed.read_bytes())


def matrix(name, tmp_path):
    (tmp_path / "m.mat").write_bytes(file(name))
    return loadmat(tmp_path / "m.mat")


def record(experiment, method, tmp_path):
    """Return the first split of a method under the main interpretation."""
    run_plan = plan(
        load_experiment(experiment, profile="quick"),
        output=tmp_path,
        only=[f"method={method},trial=0"],
    )
    assert not run(run_plan).failures
    return run_plan.store().read(
        next(row.job.key for row in run_plan.rows if row.method == method)
    )


@pytest.fixture(scope="module")
def sarcos(tmp_path_factory):
    """Return uniformly drawn training rows outside the test file, and the test rows."""
    tests = matrix("sarcos/sarcos_inv_test.mat", tmp_path_factory.mktemp("sarcos"))[
        "sarcos_inv_test"
    ]
    table = np.loadtxt(
        file("sarcos/sarcos_train_partial.csv").decode().splitlines(),
        delimiter=",",
        skiprows=1,
    )[:, 1:]
    uniform = (table[:, 28] == 0) & (table[:, 29].astype(int) & 8 > 0)
    assert uniform.sum() == 1345
    return table[uniform, :28], tests


def least_squares(train, test):
    """Return the test errors of least squares with intercept."""
    A, B = (
        np.column_stack([np.ones(len(rows)), rows[:, :21]]) for rows in (train, test)
    )
    return np.mean(
        (B @ np.linalg.lstsq(A, train[:, 21:], rcond=None)[0] - test[:, 21:]) ** 2,
        axis=0,
    )


def test_least_squares_on_sarcos_matches_the_bound_of_the_audit(sarcos):
    train, tests = sarcos
    errors = least_squares(train, tests)
    np.testing.assert_allclose(
        errors, [32.03, 23.64, 9.33, 10.07, 0.137, 0.844, 0.443], rtol=2e-3
    )
    bound = read_printed(configs_dir() / "fetr" / "bound.csv", "bound.csv")
    np.testing.assert_allclose(
        [float(n.value) for n in bound], least_squares(tests, tests), rtol=1e-5
    )


def test_stl_on_sarcos_is_nearly_least_squares(sarcos, tmp_path):
    train, tests = sarcos
    result = record("fetr/table1", "STL", tmp_path)
    np.testing.assert_allclose(
        result.per_task["mse"], least_squares(train, tests), rtol=2e-3
    )


@pytest.mark.slow
def test_the_learning_curve_of_least_squares_on_sarcos_is_reproduced(sarcos):
    """Means over many random subsets of four sizes, fitted by sigma^2 (1 + c/n)."""
    train, tests = sarcos
    rng = np.random.default_rng(7)
    sizes = np.array([400, 600, 900, 1200])
    errors = [
        np.mean(
            [least_squares(train[rng.permutation(1345)[:n]], tests) for _ in range(30)],
            axis=0,
        )
        for n in sizes
    ]
    sigma, slope = np.linalg.lstsq(
        np.column_stack([np.ones(4), 1 / sizes]), np.array(errors), rcond=None
    )[0]
    at_print = sigma + slope / 44484
    np.testing.assert_allclose(
        at_print, [31.2, 22.9, 9.10, 9.85, 0.134, 0.826, 0.434], rtol=0.01
    )

    data = load_dataset("sarcos", variant="unbiased")
    result = learning_curve(
        data, seed=0, grid={"alpha": [1e-3]}, repeats=2, partitions=4
    )
    half = np.array(result.per_task["half_width"])
    assert np.all(
        np.abs(np.array(result.per_task["extrapolated"]) - at_print) < 0.5 * half
    )
    printed = np.array(
        [
            float(number.value)
            for number in printed_errors("fetr/table1.csv", data, "STL")
        ]
    )
    assert np.all((np.abs(printed - at_print) < half)[:3])


def leave_one_out_ridge(X, y, alphas):
    """Return the ridge solution with the smallest leave-one-out error."""
    mean, level = X.mean(axis=0), y.mean()
    A, b = X - mean, y - level
    best = (np.inf, None)
    for alpha in alphas:
        inverse = np.linalg.inv(A.T @ A + alpha * np.eye(A.shape[1]))
        hat = A @ inverse @ A.T + 1 / len(y)
        error = np.mean(((b - (hat - 1 / len(y)) @ b) / (1 - np.diag(hat))) ** 2)
        if error < best[0]:
            best = (error, inverse @ A.T @ b)
    return best[1], level - mean @ best[1]


@pytest.mark.slow
def test_stl_on_school_trained_on_two_tenths_is_reproduced(tmp_path):
    content = matrix("school/school.mat", tmp_path)
    schools = [
        (X.astype(float)[:, :27], y.ravel().astype(float))
        for X, y in zip(content["X"][0], content["Y"][0], strict=True)
    ]
    student = np.repeat(np.arange(139), [len(y) for _, y in schools])
    splitter = TaskShuffleSplit(
        1, train_size=0.2, random_state=derive_seed(0, "school", 0)
    )
    train, test = next(splitter.split(np.zeros((15362, 1)), groups=student))
    X, y = np.vstack([X for X, _ in schools]), np.concatenate([y for _, y in schools])
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    task_errors = []
    for t in range(139):
        task_train, task_test = train[student[train] == t], test[student[test] == t]
        w, b = leave_one_out_ridge(
            X[task_train], y[task_train], [10.0**k for k in range(-5, 3)]
        )
        task_errors.append(
            np.mean((X[task_test] @ w + b - y[task_test]) ** 2)
            / np.var(y[student == t])
        )
    result = record("fetr/school", "STL", tmp_path)
    assert result.counts["n_train"] == len(train) < 0.2 * 15362
    assert result.metrics["nmse_all"] == pytest.approx(np.mean(task_errors), rel=1e-3)
    assert 0.94 < np.mean(task_errors) < 1.03  # As published: 0.988
