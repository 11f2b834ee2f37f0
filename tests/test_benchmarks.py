"""Names that the benchmarks import from the package exist."""

import runpy
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem
)
def test_a_benchmark_can_be_imported(path):
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
