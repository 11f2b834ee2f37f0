"""`converged_` means that the certified gap is within `tol`, wherever X lies."""

import warnings

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from mtlrun.catalog.registry import METHODS, build
from mtlrun.estimators.svm import MultiTaskKernelSVC
from mtlrun.problem.objective import relative_gap

#: Offset and scale of the columns
PLACES = {
    "offset 1e3": (1e3, 1.0),
    "offset 1e6": (1e6, 1.0),
    "scale 1e-6": (0.0, 1e-6),
    "scale 1e6": (0.0, 1e6),
}


def has_certificate(name):
    """Return whether a method reports a gap that its `tol` bounds."""
    # Networks need PyTorch; searches, kernels and smooth models take long, and have
    # tests of their own.
    if any(word in name for word in ("CV", "MKL", "Network", "Smooth")):
        return False
    params = build(name).get_params()
    return "tol" in params and "max_iter" in params


CERTIFIED = [name for name in METHODS if has_certificate(name)]


def rows(offset, scale, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(60, 4))
    target = Z @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.normal(size=60)
    return scale * (Z + offset), target, np.repeat(np.arange(3), 20)


@pytest.mark.cover(name=CERTIFIED, place=PLACES)
def test_a_converged_fit_has_a_gap_within_its_tolerance(name, place):
    X, y, ids = rows(*PLACES[place])
    model = build(name).set_params(max_iter=300)
    if is_classifier(model):
        y = np.where(y > 0, 1, -1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, task_id=ids)
    gap = model.gap_
    if gap is None:
        return
    assert gap >= 0
    if model.converged_:
        assert gap <= model.tol
    else:
        assert any(issubclass(w.category, ConvergenceWarning) for w in caught)


@pytest.mark.every(3)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_kernel_svm_is_certified_or_warns(seed, offset, fit_intercept):
    X, y, ids = rows(offset, 1.0, seed)
    labels = np.where(y > 0, 1, -1)
    model = MultiTaskKernelSVC(fit_intercept=fit_intercept, max_iter=20_000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, labels, task_id=ids)
    assert model.gap_ >= 0
    assert model.converged_ == (model.gap_ <= model.tol)
    has_warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert has_warned != model.converged_
    if offset == 0:
        assert model.converged_


def test_features_at_a_moderate_offset_are_solved():
    X, y, ids = rows(100.0, 1.0)
    model = MultiTaskKernelSVC(tol=1e-6).fit(X, np.where(y > 0, 1, -1), task_id=ids)
    assert model.converged_
    assert model.gap_ <= 1e-6


def test_a_gap_below_zero_is_rounding():
    assert relative_gap(1.0, 1.0 + 1e-16 * 2, null=1.0) == 0.0
    assert relative_gap(1.0, 0.5, null=1.0, gap=-1e-17) == 0.0
