"""Functions are compiled when they are called first, once, and kept on disk where that is possible."""

import subprocess
import sys

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from numba.core.caching import CacheImpl

from mtlrun.estimators.penalized import JointFeatureMTL, SparseMTL
from mtlrun.solvers.convex import cd
from mtlrun.utils.jit import compiled

BY_BLAS = """
import sys, numpy as np
from mtlrun.estimators import JointFeatureMTL, RobustMTL, TraceNormMTL, TraceNormMTLClassifier, GraphMTL, FETR
X = np.random.default_rng(0).normal(size=(30, 3)); Y = X @ np.ones((3, 4)) + X[:, :1]
for model in (TraceNormMTL(), RobustMTL(lam=0.7), GraphMTL(), FETR(), JointFeatureMTL(solver="admm")):
    model.fit(X, Y)
JointFeatureMTL().fit(X, Y[:, 0], task_id=np.arange(30) % 3)
TraceNormMTLClassifier().fit(X, np.sign(Y))
print("numba" in sys.modules)
"""


@pytest.mark.slow
def test_models_of_matrix_products_load_no_compiler():
    run = subprocess.run([sys.executable, "-c", BY_BLAS], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_every_kind_of_data_runs_the_same_code():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 200)) * (rng.random((40, 200)) < 0.3)
    Y = X[:, :3] @ rng.normal(size=(3, 4))
    for model in (JointFeatureMTL(solver="cd", max_iter=30), SparseMTL(solver="cd", max_iter=30)):
        for design in (X, sp.csr_array(X), X[:, :5].astype(np.float32), np.asfortranarray(X[:, :5])):
            model.fit(design, Y)
    assert len(cd._epochs.signatures) == 1


@compiled
def double(x):
    return 2.0 * x


@compiled
def quadruple(x):
    return double(double(x))


def test_a_place_that_cannot_be_written_only_costs_the_cache(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    assert quadruple(2.5) == 10.0
    assert double(1.0) == 2.0
