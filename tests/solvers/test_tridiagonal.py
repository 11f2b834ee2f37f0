"""Tridiagonal forms: shifted systems and symmetric pencils against dense algebra."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import LinAlgError

from mtlrun.solvers.relationship.wsystem import (
    CoupledSystem,
    Tridiagonal,
    reduce_pencil,
    solve_closed,
    solve_eigen,
)


def spd(n, rng):
    A = rng.normal(size=(n, n + 2))
    return A @ A.T


@pytest.mark.parametrize("n", [1, 2, 3, 40])
@pytest.mark.parametrize("order", ["C", "F"])
def test_shifted_systems_are_solved(n, order):
    rng = np.random.default_rng(n)
    A, shifts = spd(n, rng), rng.uniform(0.1, 2, size=5)
    R = np.array(rng.normal(size=(n, 5)), order=order)
    expected = np.column_stack(
        [
            np.linalg.solve(2.0 * A + s * np.eye(n), r)
            for s, r in zip(shifts, R.T, strict=True)
        ]
    )
    X = Tridiagonal.reduce(np.array(A, order="F")).solve(shifts, R, factor=2.0)
    assert X is R
    assert_allclose(X, expected, atol=1e-12 * np.abs(expected).max())


def test_a_pencil_is_reduced_to_one_matrix():
    rng = np.random.default_rng(0)
    A, B = spd(6, rng), spd(6, rng)
    before = B.copy()
    L, M = (np.tril(Z) for Z in reduce_pencil(np.array(A, order="F"), B))
    assert_allclose(L @ L.T, B)
    inverse = np.linalg.inv(L)
    assert_allclose(M, np.tril(inverse @ A @ inverse.T), atol=1e-12)
    assert_allclose(B, before, rtol=0)


def test_an_indefinite_second_matrix_is_rejected():
    with pytest.raises(LinAlgError, match="definite: pivot 2"):
        reduce_pencil(np.asfortranarray(np.eye(2)), np.diag([1.0, -1.0]))


@pytest.mark.parametrize(("d", "m"), [(1, 1), (1, 4), (4, 1), (2, 7), (7, 2), (5, 5)])
def test_either_matrix_may_be_diagonal(d, m):
    rng = np.random.default_rng(d * 10 + m)
    S2 = spd(m, rng)
    system = CoupledSystem(
        spd(d, rng), rng.normal(size=(d, m)), spd(d, rng), S2, 0.5, 1.5
    )
    expected = solve_closed(system).W
    values, vectors = np.linalg.eigh(S2)
    other = CoupledSystem(
        *(getattr(system, name) for name in SYSTEM), task_spectrum=(values, vectors)
    )
    for candidate in (system, other):
        assert_allclose(
            solve_eigen(candidate).W, expected, atol=1e-10 * np.abs(expected).max()
        )


SYSTEM = ("gram", "cross", "feature_precision", "task_precision", "eta", "rho")
