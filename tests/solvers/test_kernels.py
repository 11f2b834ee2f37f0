"""Kernels against scikit-learn's; normalization, names, errors."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from all_cases import all_cases
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from mtlrun.solvers.mkl.kernels import (
    GaussianKernel,
    LinearKernel,
    MeanKernel,
    PolynomialKernel,
    PrecomputedKernel,
    default_kernels,
    kernel_stack,
    make_kernel,
    make_kernels,
)

rng = np.random.default_rng(0)
X, Z = rng.normal(size=(12, 3)), rng.normal(size=(7, 3))


@pytest.mark.parametrize(
    ("kernel", "oracle"),
    [
        (LinearKernel(normalise=False), X @ Z.T),
        (PolynomialKernel(normalise=False), (X @ Z.T) ** 2),
        (
            PolynomialKernel(normalise=False, degree=3, shift=1.5),
            polynomial_kernel(X, Z, degree=3, gamma=1, coef0=1.5),
        ),
        (GaussianKernel(spread=2.0), rbf_kernel(X, Z, gamma=1 / 8)),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_values_match_scikit_learn(kernel, oracle, kind):
    assert_allclose(kernel(kind(X), kind(Z)), oracle, atol=1e-12)


@pytest.mark.cover
@pytest.mark.parametrize("kernel", default_kernels())
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_normalized_kernels_have_a_diagonal_of_one_and_are_semidefinite(kernel, kind):
    K = kernel(kind(X))
    assert_allclose(np.diag(K), 1.0, atol=1e-12)
    assert_allclose(K, K.T, atol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-10
    raw = type(kernel)(**{**vars(kernel), "normalise": False})
    scale = np.sqrt(np.outer(np.diag(raw(X)), np.diag(raw(Z))))
    assert_allclose(kernel(kind(X), kind(Z)), raw(X, Z) / scale, atol=1e-12)


def test_a_row_of_zeros_has_a_normalized_kernel_of_zero():
    K = LinearKernel()(np.vstack([X, np.zeros(3)]))
    assert np.all(K[-1] == 0)
    assert np.isfinite(K).all()


def test_the_default_set_is_that_of_the_paper():
    kernels = default_kernels()
    assert len(kernels) == 10
    assert kernels[:2] == [LinearKernel(), PolynomialKernel(degree=2)]
    assert [k.spread for k in kernels[2:]] == [1, 2, 4, 8, 16, 32, 64, 128]


def test_a_precomputed_kernel_is_looked_up_by_position():
    base = GaussianKernel()(X)
    K = PrecomputedKernel(matrix=base, column=1)
    rows = np.column_stack([np.ones(4), [3, 0, 3, 11]])
    assert_allclose(K(rows), base[np.ix_([3, 0, 3, 11], [3, 0, 3, 11])])
    assert_allclose(K(sp.csr_array(rows[:2]), rows[2:]), base[np.ix_([3, 0], [3, 11])])
    scaled = PrecomputedKernel(matrix=4 * base)
    assert_allclose(scaled(np.arange(12.0)[:, None]), base)
    assert copy.deepcopy(K) is K


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((3, 4)), r"must be square.*\(3, 4\)"),
        (np.diag([1.0, -0.5]), "smallest eigenvalue is -0.5"),
        (np.array([[1.0, 0.2], [0.0, 1.0]]), "must be symmetric"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "NaN or infinite"),
        (np.ones(3), "2 dimension"),
    ],
)
def test_an_invalid_kernel_matrix_is_rejected(matrix, message):
    with pytest.raises(ValueError, match=message):
        PrecomputedKernel(matrix=matrix)


@pytest.mark.parametrize("position", [12.0, -1.0, 0.5])
def test_positions_outside_the_matrix_are_rejected(position):
    with pytest.raises(ValueError, match=r"has 12 items, but column 0 of X holds"):
        PrecomputedKernel(matrix=np.eye(12))(np.array([[0.0], [position]]))


def test_kernels_are_created_from_names():
    names = [
        "linear",
        "polynomial",
        "polynomial(3)",
        "gaussian(0.5)",
        LinearKernel(normalise=False),
    ]
    kernels = make_kernels(names)
    assert kernels == [
        LinearKernel(),
        PolynomialKernel(degree=2),
        PolynomialKernel(degree=3),
        GaussianKernel(spread=0.5),
        LinearKernel(normalise=False),
    ]
    assert make_kernels("gaussian(1e1)") == [GaussianKernel(spread=10.0)]
    assert make_kernels(None) == default_kernels()


@all_cases(
    ("spec", "message"),
    [
        ("gausian(2)", "did you mean 'gaussian'"),
        ("linear(2)", "a kernel must be"),
        ("gaussian(-1)", "spread must be positive"),
        ("gaussian(--)", "a kernel must be"),
        ("polynomial(1.5)", "degree must be an int"),
        ("polynomial(0)", "degree must be an int of at least 1"),
        (3, "a kernel must be"),
    ],
)
def test_unknown_kernels_are_rejected(spec, message):
    with pytest.raises(ValueError, match=message):
        make_kernel(spec)


def test_an_empty_set_and_a_negative_shift_are_rejected():
    with pytest.raises(ValueError, match="kernels is empty"):
        make_kernels([])
    with pytest.raises(ValueError, match="shift must be non-negative"):
        PolynomialKernel(shift=-1.0)


def test_the_mean_is_that_of_the_normalized_kernels():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    mean = make_kernels("mean")[0]
    assert_allclose(mean(X, Z), kernel_stack(make_kernels(None), X, Z).mean(axis=0))
    assert_allclose(np.diag(mean(X)), 1.0)
    two = MeanKernel(
        kernels=(LinearKernel(normalise=False), GaussianKernel(spread=2.0))
    )
    norm = np.sqrt(np.diag((X @ X.T + GaussianKernel(spread=2.0)(X)) / 2))
    assert_allclose(
        two(X), (X @ X.T + GaussianKernel(spread=2.0)(X)) / 2 / np.outer(norm, norm)
    )
