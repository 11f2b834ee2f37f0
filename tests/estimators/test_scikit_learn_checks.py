"""scikit-learn's own checks for all estimators, with an empty list of expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mtlrun.estimators.catalogue import (
    JointFeatureMTL,
    JointFeatureMTLClassifier,
    SparseMTL,
    SparseMTLClassifier,
    TraceNormMTL,
    TraceNormMTLClassifier,
)
from mtlrun.estimators.divide import DivideAndConquerRMTL, DivideAndConquerRMTLClassifier
from mtlrun.estimators.independent import (
    IndependentLasso,
    IndependentLogistic,
    IndependentRidge,
    IndependentSVC,
    PooledLasso,
    PooledLogistic,
    PooledRidge,
    PooledSVC,
)
from mtlrun.estimators.robust import RobustMTL, RobustMTLClassifier

# Coordinate descent and L-BFGS take another path over repeated rows than over weighted ones, and one of the checks
# compares predictions to seven digits.
TIGHT = {"tol": 1e-10, "max_iter": 100000}

ESTIMATORS = [
    IndependentRidge(),
    PooledRidge(),
    IndependentLasso(),
    PooledLasso(),
    IndependentLogistic(**TIGHT),
    PooledLogistic(**TIGHT),
    IndependentSVC(**TIGHT),
    PooledSVC(**TIGHT),
    SparseMTL(),
    SparseMTL(solver="fista"),
    SparseMTLClassifier(),
    JointFeatureMTL(),
    JointFeatureMTLClassifier(),
    TraceNormMTL(),
    TraceNormMTLClassifier(),
    TraceNormMTLClassifier(loss="squared_hinge"),
    RobustMTL(),
    RobustMTL(solver="apg", variant="paper"),
    RobustMTL(solver="ladm", eps=1e-10, max_iter=100000),
    RobustMTLClassifier(),
    RobustMTLClassifier(loss="squared_hinge"),
    DivideAndConquerRMTL(),
    DivideAndConquerRMTLClassifier(),
]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: {})
def test_scikit_learn_check(estimator, check):
    check(estimator)
