"""The sparsity from which all coefficients of a graph model are zero."""

import numpy as np
import pytest
from sklearn.base import clone

from mtlrun.estimators.graph import GraphMTL, GraphMTLClassifier


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize(
    "model",
    [GraphMTL(alpha=2.0), GraphMTLClassifier(alpha=2.0), GraphMTL(fit_intercept=False)],
)
def test_the_advertised_sparsity_of_graphs_gives_zero_coefficients(model, ragged):
    model, rng = clone(model), np.random.default_rng(0)
    X = rng.normal(size=(40, 4)) + 0.5
    y = X @ rng.normal(size=(4, 3)) + rng.normal(size=(40, 3))
    y = np.where(y > np.median(y), 1.0, 0.0) if hasattr(model, "loss") else y
    extra = {}
    if ragged:
        y, extra = y[:, 0], {"task_id": np.arange(40) % 3}
    largest = model.sparsity_max(X, y, **extra)
    assert not hasattr(model, "coef_")
    assert (
        not model.set_params(sparsity=1.001 * largest, tol=1e-9)
        .fit(X, y, **extra)
        .coef_.any()
    )
    assert model.set_params(sparsity=0.98 * largest).fit(X, y, **extra).coef_.any()
