"""Gram-based singular value functions against the full SVD."""

import numpy as np
import pytest

from mtlrun.penalties.norms import small_gram, spectral_norm, svt, svt_full, trace_norm


def with_spectrum(shape, sigma, seed=0):
    """Return a random matrix with the given singular values."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(shape[0], len(sigma))))[0]
    V = np.linalg.qr(rng.normal(size=(shape[1], len(sigma))))[0]
    return (U * sigma) @ V.T


MATRICES = {
    "square": np.random.default_rng(1).normal(size=(20, 20)),
    "tall": np.random.default_rng(2).normal(size=(60, 7)),
    "wide": np.random.default_rng(3).normal(size=(6, 50)),
    "column": np.random.default_rng(4).normal(size=(9, 1)),
    "rank-deficient": with_spectrum((30, 20), np.array([5.0, 3.0, 1.0])),
    "repeated": with_spectrum((15, 25), np.array([4.0, 2.0, 2.0, 2.0, 1.0])),
    "ill-conditioned": with_spectrum((40, 30), np.logspace(3, -9, 30)),
    "huge": 1e120 * with_spectrum((10, 8), np.linspace(1, 2, 8)),
    "tiny": 1e-120 * with_spectrum((10, 8), np.linspace(1, 2, 8)),
    "zero": np.zeros((5, 4)),
}


@pytest.mark.cover(
    2,
    name=MATRICES,
    ratio=[0.0, 1e-12, 1e-7, 2e-5, 1e-3, 0.1, 0.5, 0.9999, 1.0001, 10.0],
)
def test_gram_svt_agrees_with_the_svd(name, ratio):
    Z = MATRICES[name]
    top = np.linalg.norm(Z, 2)
    fast, kept = svt(Z, ratio * top)
    full, sigma = svt_full(Z, ratio * top)
    np.testing.assert_allclose(fast, full, rtol=0, atol=2e-11 * top)
    assert kept.sum() == pytest.approx(sigma.sum(), rel=1e-9, abs=1e-10 * top)
    assert np.all(np.diff(kept) <= 0)
    assert np.all(kept >= 0)


@pytest.mark.parametrize("offset", [-1e-6, -1e-10, 0.0, 1e-10, 1e-6])
def test_svt_works_at_a_singular_value(offset):
    Z = with_spectrum((25, 18), np.array([10.0, 6.0, 2.0, 0.5]))
    threshold = 2.0 * (1.0 + offset)
    np.testing.assert_allclose(
        svt(Z, threshold)[0], svt_full(Z, threshold)[0], atol=1e-12
    )


def test_svt_returns_the_singular_values_of_its_matrix():
    matrix, sigma = svt(MATRICES["tall"], 5.0)
    np.testing.assert_allclose(
        np.linalg.svd(matrix, compute_uv=False)[: len(sigma)], sigma, rtol=1e-12
    )
    assert trace_norm(matrix) == pytest.approx(sigma.sum())


def test_svt_does_not_change_its_argument():
    Z = MATRICES["square"].copy()
    for threshold in (0.0, 1.0, 1e9):
        out, _ = svt(Z, threshold)
        out += 1.0
    np.testing.assert_array_equal(Z, MATRICES["square"])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_values_are_rejected(bad):
    with pytest.raises(ValueError, match=r"NaN|inf"):
        svt(np.array([[bad, 1.0], [0.0, 1.0]]), 0.5)
    with pytest.raises(ValueError, match=r"NaN|inf"):
        spectral_norm(np.array([[bad, 1.0], [0.0, 1.0]]))


def test_norms_match_numpy():
    for name in MATRICES:
        Z = MATRICES[name]
        assert spectral_norm(Z) == pytest.approx(np.linalg.norm(Z, 2), rel=1e-12)
        assert trace_norm(Z) == pytest.approx(np.linalg.norm(Z, "nuc"), rel=1e-12)


def test_the_spectral_norm_of_an_empty_matrix_is_zero():
    assert spectral_norm(np.zeros((0, 3))) == 0.0


def test_small_gram_uses_the_smaller_side():
    assert small_gram(np.ones((5, 2))).shape == (2, 2)
    assert small_gram(np.ones((2, 5))).shape == (2, 2)
