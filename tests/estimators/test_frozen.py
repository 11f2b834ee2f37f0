"""Every registered method reproduces its stored solution on small data.

Dense and sparse X contain the same numbers and must give the same solution. The methods
run to a tolerance at which any order of steps gives the same digits. A change needs a
raised version (`MethodMetadata.changes`); then ``python
tests/estimators/test_frozen.py --write`` stores the solutions of that version, and of
new cases.
"""

import functools
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from mtlrun.catalog.methods import class_paths, resolved, versions_of
from mtlrun.catalog.registry import METHODS, build

STORED = Path(__file__).with_name("frozen.json")

#: Parameters of all methods that have them
TIGHT = {"tol": 1e-11, "max_iter": 20_000, "base__tol": 1e-11, "base__max_iter": 20_000}
#: Values where the defaults do not suit three tasks, or where a method cannot reach a
#: tight tolerance
SETTINGS = {
    "DivideAndConquerRMTL": {"n_blocks": 2},
    "DivideAndConquerRMTLClassifier": {"n_blocks": 2},
    "MTNetwork": {"hidden": (4,), "max_iter": 3},
    # LIBSVM's tolerance limits the gap.
    "GroupMKLClassifier": {"tol": 1e-6, "max_iter": 200},
    "IndependentMKLClassifier": {"tol": 1e-6, "max_iter": 200},
    "SharedMKLClassifier": {"tol": 1e-6, "max_iter": 200},
}
#: Tolerances above 1e-6 for coefficients, relative to the largest one
LOOSER = {
    "GroupMKLClassifier": 2e-3,
    "IndependentMKLClassifier": 2e-3,
    "SharedMKLClassifier": 2e-3,
    # A gap of 4e-11, from rounding of the likelihood, allows this difference.
    "SmoothMTLClassifier": 1e-5,
}

#: Parameters other than the defaults, on ragged data with sample weights
VARIANTS = [
    ("IndependentRidge", {"fit_intercept": False}),
    ("SparseMTL", {"solver": "fista"}),
    ("SparseMTL", {"solver": "admm"}),
    ("SparseMTL", {"fit_intercept": False}),
    ("JointFeatureMTL", {"solver": "fista"}),
    ("JointFeatureMTL", {"solver": "admm"}),
    ("TraceNormMTL", {"solver": "fista"}),
    ("TraceNormMTL", {"solver": "admm"}),
    ("TraceNormMTL", {"fit_intercept": False}),
    ("TraceNormMTLClassifier", {"loss": "squared_hinge"}),
    ("TraceNormMTLClassifier", {"loss": "squared"}),
    ("RobustMTL", {"lam": 0.8, "beta": 0.1}),
    ("RobustMTL", {"solver": "fista"}),
    ("RobustMTL", {"solver": "apg"}),
    ("RobustMTL", {"solver": "ladm", "fit_intercept": False}),
    ("RobustMTL", {"variant": "paper", "solver": "apg"}),
    ("RobustMTLClassifier", {"loss": "logistic"}),
    ("DivideAndConquerRMTL", {"n_blocks": 3, "projection": "best"}),
    (
        "DivideAndConquerRMTL",
        {"n_blocks": 2, "projection": "none", "partition": "contiguous"},
    ),
    ("DivideAndConquerRMTL", {"n_blocks": 2, "partition": "clustered"}),
    ("GraphSVC", {"loss": "squared_hinge"}),
    ("GraphSVC", {"loss": "logistic", "fit_intercept": True}),
    ("GraphSVC", {"solver": "dcd"}),
    ("GraphSVC", {"variant": "corrected"}),
    ("GraphSVC", {"graph": [[0, 1, 0], [1, 0, 2], [0, 2, 0]], "coupling": 0.5}),
    ("MultiTaskKernelSVC", {"gram": "on_the_fly"}),
    ("FETR", {"w_solver": "cg"}),
    ("FETR", {"accelerate": False, "max_iter": 20}),
    ("FETR", {"fit_intercept": False}),
    ("HierarchicalMTL", {"covariance": "diagonal", "method": "ml"}),
    ("HierarchicalMTL", {"covariance": "full"}),
    ("HierarchicalMTL", {"covariance": "scalar", "mean": "ridge"}),
    (
        "HierarchicalMTL",
        {"covariance": "scalar", "fit_intercept": False},
    ),
    ("HierarchicalMTL", {"covariance": "scalar", "noise": "task"}),
    ("HierarchicalMTLClassifier", {"covariance": "scalar"}),
    ("HierarchicalMTLClassifier", {"covariance": "full", "ridge": 1.0}),
    ("HierarchicalMTLClassifier", {"covariance": "diagonal", "fit_intercept": False}),
    ("SmoothMTL", {"common_parts": ("linear",), "task_parts": ("level", "slopes")}),
    ("SmoothMTL", {"prior_rate": 0.0, "n_centers": 20}),
    ("SmoothMTL", {"max_rows": 20}),
    ("SmoothMTLClassifier", {"common_parts": (), "task_parts": ("level", "smooth")}),
    ("MTFL", {"variant": "paper", "max_iter": 100}),
    ("MTRL", {"variant": "paper"}),
    ("MTRL", {"solver": "fista"}),
    ("MTNetwork", {"variant": "stn"}),
    ("MTNetwork", {"variant": "mtn-fetr"}),
    ("DirtyMTL", {"solver": "fista"}),
    ("SparseLowRankMTL", {"solver": "fista"}),
    ("RobustFeatureMTL", {"solver": "fista"}),
    ("GraphMTL", {"graph": "chain"}),
    ("GraphMTL", {"graph": [[0, 1, 0], [1, 0, 2], [0, 2, 0]], "sparsity": 0.5}),
    ("GraphMTL", {"solver": "fista"}),
    ("TemporalGroupLasso", {"ridge": 0.5}),
    ("TemporalGroupLasso", {"solver": "fista"}),
    ("FusedMTL", {"sparsity": 0.5}),
    ("FusedMTL", {"solver": "fista"}),
    ("ClusteredMTL", {"solver": "fista"}),
    ("ConvexASO", {"solver": "fista"}),
    ("GroupMKLClassifier", {"kernels": ["linear", "gaussian(2)"]}),
    ("GroupMKLClassifier", {"variant": "paper", "kernels": ["linear", "gaussian(2)"]}),
    ("IndependentMKLClassifier", {"kernels": ["linear", "gaussian(2)"]}),
    ("SharedMKLClassifier", {"kernels": ["linear", "gaussian(2)"]}),
    ("CMTL", {"n_task_clusters": 1}),
    ("CMTL", {"loss": "logistic"}),
    ("Whom", {"n_task_clusters": 1}),
    ("FlexClus", {"loss": "logistic"}),
    ("CoClus", {"n_task_clusters": 1}),
    ("MeTaG", {"ridge": 0.5}),
]

#: Matrices besides the coefficients whose norms are compared
PARTS = (
    "low_rank_", "outlier_", "own_", "shared_", "theta_",
    "feature_covariance_", "task_covariance_", "feature_precision_", "task_precision_",
)  # fmt: skip


def arrange(name, layout, weighted):
    """Return arguments of `fit`: 40 rows of 4 features, many zeros, and 3 tasks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4)) * (rng.random((40, 4)) < 0.7)
    W = np.array([[1, 1, 0.8], [0, 0.5, 0], [-0.7, -0.6, -1], [0, 0, 0]])
    Y = X @ W + rng.normal(size=(40, 3)) + [1, 0, -0.5]
    weights = 0.5 + rng.random((40, 3))
    ids = rng.permutation(np.repeat([0, 1, 2], [17, 13, 10]))
    if METHODS[name].kind == "classifier":
        Y = np.where(np.median(Y, axis=0) < Y, 1.0, -1.0)
    data = {"X": X, "y": Y}
    if layout == "masked":
        data["y"] = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    if layout == "ragged":
        data, weights = (
            {"X": X, "y": Y[np.arange(40), ids], "task_id": ids},
            weights[:, 0],
        )
    return data | ({"sample_weight": weights} if weighted else {})


def solve(name, params, data):
    """Return the solution as plain numbers: coefficients or predictions."""
    defaults = build(name).get_params()
    tight = {key: value for key, value in TIGHT.items() if key in defaults}
    model = build(
        {"estimator": name, "params": tight | SETTINGS.get(name, {}) | params}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(**data)
    solution = {}
    if getattr(model, "objective_", None):
        solution["objective"] = model.objective_[-1]
    if getattr(model, "gap_", None) is not None:
        solution["gap"] = model.gap_
    if hasattr(model, "coef_"):
        solution |= {"intercept": model.intercept_, "coef": model.coef_}
    else:
        rows = {key: data[key][:5] for key in ("X", "task_id") if key in data}
        solution["predicted"] = getattr(model, "decision_function", model.predict)(
            **rows
        )
    parts = [part for part in PARTS if hasattr(model, part)]
    return solution | {part: np.linalg.norm(getattr(model, part)) for part in parts}


def cases():
    """Yield cases by name: method, parameters, layout, and whether weighted."""
    case_by_name = {}
    for name, info in METHODS.items():
        for layout in info.designs:
            case_by_name[f"{name}, {layout}"] = name, {}, layout, False
            if info.extra != "nn":  # Networks do not support weights.
                case_by_name[f"{name}, {layout}, weighted"] = name, {}, layout, True
    for name, params in VARIANTS:
        words = ", ".join(f"{key}={value}" for key, value in params.items())
        case_by_name[f"{name}, {words}"] = (
            name,
            params,
            "ragged",
            METHODS[name].extra != "nn",
        )
    return case_by_name


CASES = cases()


@functools.cache
def stored_solutions():
    return json.loads(STORED.read_text())


@pytest.mark.parametrize("case", CASES)
def test_the_stored_solution_is_reproduced(case, judge):
    name, params, layout, weighted = CASES[case]
    if METHODS[name].extra == "nn":
        pytest.importorskip("torch", reason="PyTorch is not installed (extra nn)")
    solutions = stored_solutions()
    assert case in solutions, "has no stored solution: run this file with --write"
    stored = {**solutions[case]}
    versions = {"before": stored.pop("versions"), "now": versions_of_case(name, params)}
    data, problems = arrange(name, layout, weighted), []
    for X in (data["X"], sp.csr_array(data["X"])):
        solution = solve(name, params, data | {"X": X})
        assert solution.keys() == stored.keys()
        problems += differences(name, stored, solution)
    before = {"versions": versions["before"], "numbers": stored}
    judge(
        "; ".join([case, *problems]),
        before,
        {"versions": versions["now"], "numbers": {}},
        agrees=not problems,
    )


def versions_of_case(name, params):
    """Return the versions of a method and of its nested methods."""
    spec = resolved(name, params, 0)
    return {
        key: value
        for key, value in versions_of(class_paths(spec)).items()
        if key != "protocol"
    }


def differences(name, stored, actual):
    """Return differences from the stored solution beyond the fit's tolerance."""
    tolerance = SETTINGS.get(name, TIGHT).get("tol", 1e-11)
    problems = []
    for key, value in actual.items():
        if key == "gap":  # It is only a bound of an error.
            problems += [key] * (value > max(2 * stored.get("gap", 0), tolerance))
            continue
        expected = np.array(stored[key])
        part = LOOSER.get(name, 1e-6) if key != "objective" else max(tolerance, 1e-6)
        if not np.allclose(value, expected, rtol=0, atol=part * np.abs(expected).max()):
            problems.append(f"{key} differs by {np.abs(value - expected).max():.1e}")
    return problems


@pytest.mark.slow
def test_other_numbers_need_a_raised_version_and_a_raised_version_other_numbers(
    judge, monkeypatch
):
    case = "TraceNormMTL, shared"
    solution = stored_solutions()[case]
    numbers = {"coef": 1.00001 * np.array(solution["coef"])}
    before = {"versions": {"TraceNormMTL": solution["versions"]["TraceNormMTL"] - 1}}
    for changes, error, remedy in (
        (numbers, AssertionError, "raise the version"),
        (numbers | before, pytest.fail.Exception, "--write"),
        (before, pytest.fail.Exception, "version back"),
    ):
        monkeypatch.setitem(stored_solutions(), case, solution | changes)
        with pytest.raises(error, match=remedy):
            test_the_stored_solution_is_reproduced(case, judge)


def rounded(numbers):
    return np.round(numbers, 10).tolist()


def write():
    """Store the solutions of new cases and of raised versions."""
    stored = json.loads(STORED.read_text())
    for case, (name, params, *how) in CASES.items():
        versions = versions_of_case(name, params)
        if stored.get(case, {}).get("versions") != versions:
            stored[case] = {
                "versions": versions,
                **solve(name, params, arrange(name, *how)),
            }
    stored = {case: stored[case] for case in CASES}
    lines = [
        f"{json.dumps(case)}: {json.dumps(solution, default=rounded)}"
        for case, solution in stored.items()
    ]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    write()
