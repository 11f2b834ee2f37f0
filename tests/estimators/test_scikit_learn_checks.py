"""scikit-learn's own checks for the registered methods and for variants, with no expected failure."""

import importlib.util

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import estimator_checks_generator

from mtlrun.estimators.baselines import PerTask
from mtlrun.estimators.graph import GraphMTL
from mtlrun.estimators.hierarchical import HierarchicalMTL
from mtlrun.estimators.hierarchical_labels import HierarchicalMTLClassifier
from mtlrun.estimators.mkl import GroupMKLClassifier
from mtlrun.estimators.network import MTNetwork
from mtlrun.estimators.penalized import SparseMTL, TraceNormMTLClassifier
from mtlrun.estimators.registry import METHODS, build
from mtlrun.estimators.relationship import FETR, MTFL, MTRL
from mtlrun.estimators.robust import RobustMTL, RobustMTLClassifier
from mtlrun.estimators.svm import GraphSVC, MultiTaskKernelSVC

TORCH = importlib.util.find_spec("torch") is not None
# Coordinate descent, L-BFGS and LIBSVM take another path over repeated rows than over weighted ones, and one of the
# checks compares predictions to seven digits.
TIGHT = {"tol": 1e-10, "max_iter": 100_000}
SMALL_NETWORK = {"hidden": (8,), "max_iter": 15, "learning_rate": 0.03}
SETTINGS = {
    "IndependentLogistic": TIGHT,
    "PooledLogistic": TIGHT,
    "IndependentSVC": TIGHT,
    "PooledSVC": TIGHT,
    "MultiTaskKernelSVC": {"tol": 1e-8, "max_iter": 100_000},
    "GroupMKLClassifier": {"kernels": ["linear", "gaussian(2)"]},
    "IndependentMKLClassifier": {"kernels": ["linear", "gaussian(2)"]},
    "MTNetwork": SMALL_NETWORK,
    # Near the minimum a criterion changes less than the coefficients.
    "HierarchicalMTL": {"tol": 1e-15},
    "HierarchicalMTLClassifier": {"tol": 1e-15},
}
REGISTERED = [name for name, info in METHODS.items() if info.extra != "nn" or TORCH]

VARIANTS = [
    SparseMTL(solver="fista"),
    TraceNormMTLClassifier(loss="squared_hinge"),
    RobustMTL(solver="apg", variant="paper"),
    RobustMTL(solver="ladm", eps=1e-10, max_iter=100_000),
    RobustMTLClassifier(loss="squared_hinge"),
    GraphMTL(sparsity=0.1),
    GraphSVC(loss="logistic", fit_intercept=True),
    GraphSVC(loss="squared_hinge"),
    GraphSVC(solver="dcd", tol=1e-15),
    MultiTaskKernelSVC(tol=1e-8, max_iter=100_000, gram="on_the_fly"),
    GroupMKLClassifier(),
    FETR(accelerate=False),
    HierarchicalMTL("full", mean="ridge"),
    HierarchicalMTL("diagonal", prior="student"),
    HierarchicalMTL(prior="clusters", method="ml"),
    HierarchicalMTLClassifier("full", ridge=1.0, tol=1e-15),
    HierarchicalMTLClassifier("scalar", fit_intercept=False, tol=1e-15),
    FETR(w_solver="cg"),
    MTFL(variant="paper"),
    MTRL(variant="paper"),
    MTRL(solver="fista"),
    *(
        [MTNetwork(variant, **SMALL_NETWORK) for variant in ("stn", "mtn-fetr")]
        if TORCH
        else []
    ),
    PerTask(Ridge()),
    PerTask(LogisticRegression()),
]


#: Representatives go through all checks, the others through one in so many, with --all-pairs through all.
PART = 12


def pytest_generate_tests(metafunc):
    if "check" not in metafunc.fixturenames:
        return
    estimators = [
        build({"estimator": name, "params": SETTINGS.get(name, {})})
        for name in REGISTERED
    ] + VARIANTS
    every, pairs = metafunc.config.getoption("all_pairs"), []
    full = {*metafunc.config.representatives, "PerTask"}
    for k, estimator in enumerate(estimators):
        name = type(estimator).__name__
        checks = list(estimator_checks_generator(estimator, mark=None))
        in_full = every or name in full
        if name != "PerTask":  # of the variants only a part
            full.discard(name)
        pairs += [
            pytest.param(
                estimator, check, id=f"{estimator}-{check.func.__name__}{k}-{j}"
            )
            for j, (estimator, check) in enumerate(checks)
            if in_full or j % PART == k % PART
        ]
    metafunc.parametrize(("estimator", "check"), pairs)


@pytest.mark.every(2)
@pytest.mark.methods
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_no_method_is_left_out():
    if not TORCH:
        pytest.skip("PyTorch is not installed (extra nn): MTNetwork is not checked")
    assert set(REGISTERED) == set(METHODS)
