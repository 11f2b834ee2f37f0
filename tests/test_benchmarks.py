"""Names that the benchmarks import from the package exist."""

import runpy
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


def test_a_benchmark_can_be_imported():
    for path in sorted(FOLDER.glob("*.py")):
        assert "main" in runpy.run_path(str(path), run_name=path.stem)


def test_the_closed_form_ridge_has_no_gradient():
    module = runpy.run_path(str(FOLDER / "compare_verdict.py"), run_name="benchmark")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 9, 3))
    y = rng.normal(size=(5, 9))
    alpha = 2.0
    coef = module["ridge"]("multi-task", X, y, alpha)
    residuals = np.einsum("tni,ti->tn", X, coef) - y
    gradient = np.einsum("tni,tn->ti", X, residuals)
    gradient += alpha * (coef - coef.mean(axis=0))
    np.testing.assert_allclose(gradient, 0, atol=1e-4)
    alone = module["ridge"]("independent", X, y, 1e-9)
    least_squares = np.linalg.lstsq(X[0], y[0], rcond=None)[0]
    np.testing.assert_allclose(alone[0], least_squares, atol=1e-6)


def test_a_peer_that_is_not_installed_is_reported():
    peers = runpy.run_path(str(FOLDER / "peers.py"), run_name="peers")
    peers["METHODS"]["absent"] = ("no_such_package", print)
    records = peers["measure"]("simulated mixed", FOLDER, ["absent"], 1)
    assert [record["problem"] for record in records] == ["not installed"]
    assert peers["summary"](records).splitlines()[2].startswith("| absent | not inst")


def test_the_process_of_a_peer_never_sees_the_test_targets(tmp_path):
    peers = runpy.run_path(str(FOLDER / "peers.py"), run_name="peers")
    data = peers["small_split"]()
    peers["write_split"](tmp_path, 0, data)
    back = peers["read_split"](tmp_path, 0)
    np.testing.assert_allclose(back.X_test, data.X_test, rtol=1e-12)
    np.testing.assert_allclose(back.y_train, data.y_train, rtol=1e-12)
    assert np.isnan(back.y_test).all()
    assert "y" not in (tmp_path / "test-0.csv").read_text().splitlines()[0].split(",")


@pytest.mark.slow
def test_the_process_of_a_peer_returns_its_errors_and_costs():
    peers = runpy.run_path(str(FOLDER / "peers.py"), run_name="peers")
    method = "HierarchicalMTL"
    [record] = peers["measure"]("simulated mixed", FOLDER, [method], 1)
    module = peers["smooth"]
    table = module.read_table("simulated mixed", FOLDER)
    data = module.make_split(table, "half", 0)
    predicted = peers["METHODS"][method][1](data)
    rmse = np.sqrt(np.mean(np.square(predicted - data.y_test)))
    np.testing.assert_allclose(record["rmse"], [rmse], rtol=1e-9)
    assert record["cpu_seconds"][0] > 0
