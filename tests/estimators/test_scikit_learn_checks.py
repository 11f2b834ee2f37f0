"""scikit-learn's own checks for the registered methods and for variants.

The only exception: weights of smooth regressors are precisions, not numbers of rows.
"""

import importlib.util

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import estimator_checks_generator

from mtlrun.catalog.registry import METHODS, build
from mtlrun.estimators.baselines import PerTask
from mtlrun.estimators.graph import GraphMTL
from mtlrun.estimators.hierarchical import HierarchicalMTL
from mtlrun.estimators.hierarchical_labels import HierarchicalMTLClassifier
from mtlrun.estimators.mkl import GroupMKLClassifier
from mtlrun.estimators.network import MTNetwork
from mtlrun.estimators.penalized import SparseMTL, TraceNormMTLClassifier
from mtlrun.estimators.relationship import FETR, MTFL, MTRL
from mtlrun.estimators.robust import RobustMTL, RobustMTLClassifier
from mtlrun.estimators.svm import GraphSVC, MultiTaskKernelSVC

pytestmark = pytest.mark.usefixtures("few_trees")

TORCH = importlib.util.find_spec("torch") is not None
# Coordinate descent, L-BFGS and LIBSVM reach the optimum on another path for repeated
# rows than for weighted ones, and one check compares predictions to seven digits.
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
    "SmoothMTLClassifier": {"tol": 1e-15},
    "SmoothPooledClassifier": {"tol": 1e-15},
    "SmoothIndependentClassifier": {"tol": 1e-15},
}
#: Their weights are precisions, not numbers of rows: a constant factor changes nothing.
PRECISIONS = ("SmoothMTL", "SmoothPooled", "SmoothIndependent")
WEIGHTS_ARE_COUNTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
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


def checks_of(estimator):
    """Return the checks of an estimator, with the numbers and models that they need."""
    generator = estimator_checks_generator(estimator, mark=None)
    return [
        (number, model, check)
        for number, (model, check) in enumerate(generator)
        if type(model).__name__ not in PRECISIONS
        or check.func.__name__ not in WEIGHTS_ARE_COUNTS
    ]


def pytest_generate_tests(metafunc):
    """Run each check with an estimator, and each estimator with a check.

    All checks with ``--all-pairs``, and of new methods.
    """
    if "check" not in metafunc.fixturenames:
        return
    has_all = metafunc.config.getoption("all_pairs")
    settled = metafunc.config.settled_methods
    models = [
        build({"estimator": name, "params": SETTINGS.get(name, {})})
        for name in REGISTERED
    ]
    cases = []
    checked = set()
    for position, estimator in enumerate([*models, *VARIANTS]):
        checks = checks_of(estimator)
        name = type(estimator).__name__
        if not has_all and (position >= len(models) or name in settled):
            unchecked = [
                row for row in checks if row[2].func.__name__ not in checked
            ] or checks
            checks = [unchecked[position % len(unchecked)]]
        for number, model, check in checks:
            checked.add(check.func.__name__)
            case = f"{model}-{check.func.__name__}{position}-{number}"
            cases.append(pytest.param(model, check, id=case))
    metafunc.parametrize(("estimator", "check"), cases)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def test_no_method_is_left_out():
    if not TORCH:
        pytest.skip("PyTorch is not installed (extra nn): MTNetwork is not checked")
    assert set(REGISTERED) == set(METHODS)
