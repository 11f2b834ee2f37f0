"""Random Fourier features: kernel, variance, orthogonality, use in pipelines."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from mtlrun.estimators.relationship import FETR
from mtlrun.features import FourierFeatures


def test_the_features_pass_the_checks_of_scikit_learn():
    check_estimator(FourierFeatures(5))


@pytest.mark.parametrize("orthogonal", [True, False])
def test_products_approximate_the_gaussian_kernel(orthogonal):
    X = np.random.default_rng(0).normal(size=(30, 5))
    phi = FourierFeatures(5000, gamma=0.3, orthogonal=orthogonal).fit_transform(X)
    assert phi.shape == (30, 10000)
    assert_allclose(phi @ phi.T, rbf_kernel(X, gamma=0.3), atol=0.05)
    assert_allclose(np.linalg.norm(phi, axis=1), 1)


def test_the_mean_over_seeds_is_the_kernel_and_orthogonal_features_err_less():
    X = np.random.default_rng(1).normal(size=(6, 16)) / 4
    kernel = rbf_kernel(X, gamma=1.0)
    errors = {}
    for orthogonal in (True, False):
        maps = [
            FourierFeatures(16, gamma=1.0, orthogonal=orthogonal, random_state=s)
            for s in range(80)
        ]
        products = np.array([f @ f.T for f in (m.fit_transform(X) for m in maps)])
        assert_allclose(products.mean(axis=0), kernel, atol=0.08)
        errors[orthogonal] = np.mean((products - kernel) ** 2)
    assert errors[True] < 0.8 * errors[False]


def test_blocks_are_orthogonal():
    V = FourierFeatures(7, gamma=0.5).fit(np.zeros((2, 4))).frequencies_
    for block in (V[:, :4], V[:, 4:]):
        gram = block.T @ block
        assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    assert V.shape == (4, 7)


def test_gamma_scale_matches_scikit_learn():
    X = 3 * np.random.default_rng(0).normal(size=(20, 4)) + 1
    assert FourierFeatures(2).fit(X).gamma_ == pytest.approx(1 / (4 * X.var()))
    assert FourierFeatures(2).fit(sp.csr_array(X)).gamma_ == pytest.approx(
        1 / (4 * X.var())
    )
    assert FourierFeatures(2).fit(np.ones((5, 4))).gamma_ == 0.25


def test_sparse_and_dense_agree_and_seeds_matter():
    X = np.random.default_rng(0).normal(size=(8, 3))
    phi = FourierFeatures(4).fit_transform(X)
    assert_allclose(FourierFeatures(4).fit_transform(sp.csr_array(X)), phi, atol=1e-14)
    assert_array_equal(FourierFeatures(4).fit_transform(X), phi)
    assert np.any(FourierFeatures(4, random_state=1).fit_transform(X) != phi)


def test_features_have_names():
    names = FourierFeatures(2).fit(np.zeros((2, 3))).get_feature_names_out()
    assert names.tolist() == ["cos0", "sin0", "cos1", "sin1"]


def test_with_fetr_curves_are_learned():
    X = np.random.default_rng(0).uniform(-3, 3, size=(300, 1))
    Y = np.column_stack([np.sin(X[:, 0]), -np.sin(X[:, 0])])
    linear = FETR(0.01, 1e-3).fit(X[:200], Y[:200]).score(X[200:], Y[200:])
    curved = make_pipeline(FourierFeatures(20), FETR(0.01, 1e-3)).fit(X[:200], Y[:200])
    assert curved.score(X[200:], Y[200:]) > 0.99 > linear


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_frequencies": 0}, "n_frequencies must be an int"),
        ({"gamma": 0.0}, "gamma must be"),
        ({"gamma": "auto"}, "'scale'"),
    ],
)
def test_invalid_parameters_are_reported(params, message):
    with pytest.raises(ValueError, match=message):
        FourierFeatures(**params).fit(np.zeros((2, 2)))


def test_orthogonal_frequencies_have_any_sign():
    signs = set()
    for seed in range(20):
        features = FourierFeatures(2, gamma=0.5, random_state=seed).fit(np.ones((2, 2)))
        signs.add(np.sign(features.frequencies_[0, 0]))
    assert signs == {-1.0, 1.0}
