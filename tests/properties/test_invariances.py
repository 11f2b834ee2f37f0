"""Models do not depend on the order and names of rows, tasks and columns, nor on units.

Every registered method is tested with its defaults, and with each value of each
parameter with named choices (losses, priors, variants, solvers). A new method needs no
entry here. `EXCEPTIONS` lists invariances that the mathematics of a method rules out,
with the reason; `STRENGTHS` states how strengths scale with the unit of y.
"""

import functools
import warnings
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from mtlrun.catalog.registry import METHODS, build

pytestmark = pytest.mark.usefixtures("few_trees")

# Multiplying by a power of two is exact, so solvers without absolute constants repeat
# every step.
UNIT = 2.0**-30
ZERO = 1e5
OFFSET = np.array([2000.0, -300.0, 0.5])

#: Power of the unit of y by which a strength is multiplied. Other strengths do not
#: change: the squared loss and a squared norm both have the square of the unit. A norm
#: of the coefficients needs one more factor.
STRENGTHS = {
    "IndependentLasso": {"alpha": 1},
    "PooledLasso": {"alpha": 1},
    "SparseMTL": {"alpha": 1},
    "JointFeatureMTL": {"alpha": 1},
    "TraceNormMTL": {"alpha": 1},
    "DirtyMTL": {"alpha": 1},
    "RobustFeatureMTL": {"alpha": 1},
    "SparseLowRankMTL": {"alpha": 1},
    "GraphMTL": {"sparsity": 1},
    "TemporalGroupLasso": {"alpha": 1},
    "FusedMTL": {"alpha": 1, "fusion": 1, "sparsity": 1},
    # The strength multiplies the loss.
    "RobustMTL": {"beta": -1},
    "DivideAndConquerRMTL": {"base__beta": -1},
    # Added to the squares of singular values of the coefficients
    "MTFL": {"eps": 2},
    "MTRL": {"eps": 2},
    # Each precision matrix has the inverse unit, as do the limits of its box.
    "FETR": {"rho": 2, "lower": -1, "upper": -1},
    "MTFRL": {"rho": 2, "lower": -1, "upper": -1, "fudge": 1},
}

#: Parameters of all cases, for methods that have them
PRECISE = {
    "tol": 1e-9,
    "max_iter": 5000,
    "base__tol": 1e-9,
    "base__max_iter": 5000,
}
KERNELS = {"tol": 1e-5, "max_iter": 300, "kernels": ["linear", "gaussian(2)"]}
SETTINGS = {
    # With these, neither part is zero, and blocks differ.
    "RobustMTL": {"lam": 0.8, "beta": 0.1},
    "RobustMTLClassifier": {"lam": 0.8},
    "DivideAndConquerRMTL": {"n_blocks": 2, "base__lam": 0.8, "base__beta": 0.1},
    "DivideAndConquerRMTLClassifier": {"n_blocks": 2, "base__lam": 0.8},
    "GroupMKLClassifier": KERNELS,
    "IndependentMKLClassifier": KERNELS,
    "SharedMKLClassifier": KERNELS,
    "MTNetwork": {"hidden": (4,), "max_iter": 3},
    "PooledSVC": {"tol": 1e-5, "max_iter": 20_000},
    # It converges slowly; models agree after the same number of rounds.
    "CoClus": {"tol": 1e-6, "max_iter": 300},
    "MTFRL": {"tol": 1e-6, "max_iter": 50},
}
#: Values that converge slowly and are compared with fewer digits
SLOW = {
    ("variant", "paper"): {"tol": 1e-5},
    ("variant", "backtracking"): {"tol": 1e-6},
    ("variant", "accelerated"): {"tol": 1e-7},
    ("variant", "balanced"): {"tol": 1e-7},
    ("w_solver", "gradient"): {"tol": 1e-6},
    ("solver", "subspace"): {"tol": 1e-6},
}
#: Parameters that do not change the model
NO_MODELS = {"unseen", "class_weight", "gram"}
#: Methods with a solver that does not solve the problem
REFUSED = {
    ("SparseMTLClassifier", "cd"),
    ("JointFeatureMTLClassifier", "cd"),
    ("TraceNormMTL", "cd"),
    ("TraceNormMTLClassifier", "cd"),
}
#: Other parameters that a value needs, if the method has them
PARTNERS = {
    ("solver", "cd"): {"layout": "shared"},
    ("solver", "subspace"): {"layout": "shared"},
    ("w_solver", "eigen"): {"layout": "shared"},
    ("w_solver", "sylvester"): {"layout": "shared"},
    ("variant", "paper"): {"solver": "ladm"},
    ("variant", "accelerated"): {"solver": "ladm"},
    ("variant", "balanced"): {"solver": "ladm"},
    ("variant", "sequential"): {"solver": "ladm"},
    ("variant", "paper-past-zero"): {"solver": "ladm"},
    ("variant", "backtracking"): {"solver": "apg", "form": "paper"},
    ("stop", "paper"): {"solver": "apg"},
    ("form", "paper"): {"solver": "apg"},
    ("intercepts", "shrunken"): {"loss": "squared"},
}


@dataclass(frozen=True)
class Case:
    """A method with parameters, and the layout of its data."""

    method: str
    params: tuple = ()
    layout: str = "ragged"

    def __str__(self):
        words = [f"{key}={value}" for key, value in self.params]
        return " ".join([self.method, *words, self.layout])


@dataclass(frozen=True)
class Data:
    """Training rows, and new rows to predict."""

    X: np.ndarray
    y: np.ndarray
    tasks: np.ndarray | None
    new_X: np.ndarray
    new_tasks: np.ndarray | None
    weights: np.ndarray | None = None


def listed_values(rule):
    """Return the values listed in the rule of a parameter."""
    values = []
    for kind, *arguments in rule or []:
        if kind == "choice":
            values += arguments
    return values


def cases():
    """Return every method with its defaults, and each listed value of a parameter."""
    everything = []
    for name, info in METHODS.items():
        everything += [Case(name), Case(name, layout="shared")]
        for parameter, declared in info.parameters.items():
            for value in listed_values(declared["rule"]):
                is_usual = parameter in NO_MODELS or value == declared["default"]
                if not is_usual and (name, value) not in REFUSED:
                    everything.append(case_of(info, parameter, value))
    return everything


def case_of(info, parameter, value):
    params = [(parameter, value)]
    partners = dict(PARTNERS.get((parameter, value), {}))
    layout = partners.pop("layout", "ragged")
    for partner, choice in partners.items():
        rule = info.parameters.get(partner, {}).get("rule")
        if choice in listed_values(rule):
            params.append((partner, choice))
    return Case(info.name, tuple(params), layout)


def example(kind, layout):
    """Return 60 rows of 5 tasks with 3 features."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    W = np.array([[1.0], [-0.5], [0.0]]) + 0.6 * rng.normal(size=(3, 5))
    Y = X @ W + 0.7 * rng.normal(size=(60, 5)) + np.linspace(-0.6, 0.9, 5)
    if kind == "classifier":
        Y = np.where(Y > 0, 1.0, -1.0)
    new_X = rng.normal(size=(20, 3))
    if layout == "shared":
        return Data(X, Y, None, new_X, None)
    tasks = np.arange(60) % 5
    names = np.array(["a", "b", "c", "d", "e"])
    y = Y[np.arange(60), tasks]
    return Data(X, y, names[tasks], new_X, names[np.arange(20) % 5])


def fitted(case, data, unit=1.0, **more):
    defaults = build(case.method).get_params()
    params = {key: value for key, value in PRECISE.items() if key in defaults}
    params |= SETTINGS.get(case.method, {})
    for choice in case.params:
        slow = SLOW.get(choice, {})
        params |= {key: value for key, value in slow.items() if key in defaults}
    params |= dict(case.params)
    params |= more
    model = build({"estimator": case.method, "params": params})
    strengths = STRENGTHS.get(case.method, {})
    for name, power in strengths.items():
        model.set_params(**{name: model.get_params()[name] * unit**power})
    arguments = {}
    if data.tasks is not None:
        arguments["task_id"] = data.tasks
    if data.weights is not None:
        arguments["sample_weight"] = data.weights
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data.X, data.y, **arguments)


def predicted(model, data):
    arguments = {} if data.new_tasks is None else {"task_id": data.new_tasks}
    predict = getattr(model, "decision_function", None) or model.predict
    return np.asarray(predict(data.new_X, **arguments))


# ---------------------------------------------------------------- transformations


@dataclass(frozen=True)
class Change:
    """Other data for the same model, and the predictions for them."""

    data: Data
    back: object = staticmethod(lambda scores: scores)
    before: Data | None = None
    unit: float = 1.0


def rows_in_another_order(data):
    order = np.random.default_rng(0).permutation(60)
    tasks = None if data.tasks is None else data.tasks[order]
    return Change(replace(data, X=data.X[order], y=data.y[order], tasks=tasks))


def columns_in_another_order(data):
    order = [2, 0, 1]
    return Change(replace(data, X=data.X[:, order], new_X=data.new_X[:, order]))


def tasks_in_another_order(data):
    """Give ragged tasks names that sort in another order; permute the columns of y."""
    order = np.array([3, 2, 0, 4, 1])
    if data.tasks is None:
        moved = replace(data, y=data.y[:, order])
        return Change(moved, back=lambda scores: scores[:, np.argsort(order)])
    names = dict(zip("abcde", ["n", "zz", "m", "k", "y"], strict=True))
    tasks = np.array([names[task] for task in data.tasks])
    new_tasks = np.array([names[task] for task in data.new_tasks])
    return Change(replace(data, tasks=tasks, new_tasks=new_tasks))


def tasks_with_other_names(data):
    if data.tasks is None:
        return Change(data)
    names = dict(zip("abcde", [10, 11, 12, 13, 14], strict=True))
    tasks = np.array([names[task] for task in data.tasks])
    new_tasks = np.array([names[task] for task in data.new_tasks])
    return Change(replace(data, tasks=tasks, new_tasks=new_tasks))


def weights_for_repeated_rows(data):
    """Repeat rows up to three times; drop a row of weight 0."""
    repeats = np.random.default_rng(1).integers(0, 4, 60)
    repeated = np.repeat(np.arange(60), repeats)
    tasks = None if data.tasks is None else data.tasks[repeated]
    rows = replace(data, X=data.X[repeated], y=data.y[repeated], tasks=tasks)
    return Change(replace(data, weights=repeats.astype(float)), before=rows)


def another_unit_of_y(data):
    moved = replace(data, y=UNIT * data.y)
    return Change(moved, back=lambda scores: scores / UNIT, unit=UNIT)


def another_zero_of_y(data):
    moved = replace(data, y=data.y + ZERO)
    return Change(moved, back=lambda scores: scores - ZERO)


def another_zero_of_X(data):
    return Change(replace(data, X=data.X + OFFSET, new_X=data.new_X + OFFSET))


ORDERS = [
    rows_in_another_order,
    columns_in_another_order,
    tasks_in_another_order,
    tasks_with_other_names,
]


DOT_PRODUCTS = "kernels and penalties of dot products depend on where zero is"
ORDERED = "the order of the tasks, that of their names, is part of the model"
POSITIONS = "tasks are dealt to blocks by their positions, as in the paper"
PUBLISHED_GAP = (
    "the published algorithms stop at gaps relative to max(1, |P|, |D|), at which their "
    "stored runs are compared"
)
PAST_ZERO = ("variant", "paper-past-zero")
PRINTED = "constants of the printed algorithm and of its stopping rule have units"
CONSTRAINED = "as printed, targets are met exactly, whatever their weights"
BATCHES = "a network is trained on random batches of rows, from random weights"
PRECISIONS = (
    "weights are precisions: a constant factor changes nothing, but more rows say more"
)
#: (method, parameter and value or None, transformation) -> reason why the model
#: changes.
EXCEPTIONS = {
    ("IndependentSVC", None, another_zero_of_X): DOT_PRODUCTS,
    ("PooledSVC", None, another_zero_of_X): DOT_PRODUCTS,
    ("IndependentMKLClassifier", None, another_zero_of_X): DOT_PRODUCTS,
    ("GroupMKLClassifier", None, another_zero_of_X): DOT_PRODUCTS,
    ("SharedMKLClassifier", None, another_zero_of_X): DOT_PRODUCTS,
    ("GraphSVC", None, another_zero_of_X): DOT_PRODUCTS,
    ("MultiTaskKernelSVC", None, another_zero_of_X): DOT_PRODUCTS,
    ("TemporalGroupLasso", None, tasks_in_another_order): ORDERED,
    ("TemporalGroupLassoClassifier", None, tasks_in_another_order): ORDERED,
    ("FusedMTL", None, tasks_in_another_order): ORDERED,
    ("FusedMTLClassifier", None, tasks_in_another_order): ORDERED,
    ("RobustMTL", PAST_ZERO, weights_for_repeated_rows): CONSTRAINED,
    ("RobustMTLClassifier", PAST_ZERO, weights_for_repeated_rows): CONSTRAINED,
    ("RobustMTL", PAST_ZERO, another_unit_of_y): PRINTED,
    ("RobustMTL", ("stop", "paper"), another_unit_of_y): PRINTED,
    ("RobustMTL", ("solver", "apg"), another_unit_of_y): PUBLISHED_GAP,
    ("RobustMTL", ("solver", "ladm"), another_unit_of_y): PUBLISHED_GAP,
    ("DivideAndConquerRMTL", None, tasks_in_another_order): POSITIONS,
    ("DivideAndConquerRMTLClassifier", None, tasks_in_another_order): POSITIONS,
    ("SmoothMTL", None, weights_for_repeated_rows): PRECISIONS,
    ("SmoothPooled", None, weights_for_repeated_rows): PRECISIONS,
    ("SmoothIndependent", None, weights_for_repeated_rows): PRECISIONS,
}
for change in (
    *ORDERS,
    weights_for_repeated_rows,
    another_zero_of_X,
    another_unit_of_y,
    another_zero_of_y,
):
    EXCEPTIONS["MTNetwork", None, change] = BATCHES


def reason_of(case, change):
    """Return why a transformation may change the model of a case, or None."""
    for choice in (None, *case.params):
        reason = EXCEPTIONS.get((case.method, choice, change))
        if reason is not None:
            return reason
    return None


def groups_of(case, is_settled):
    """Return the transformations applied one by one, or combined to save time.

    Settled methods get all transformations at once, and weights in the shared layout
    or with listed values. The unit of y comes last: the new zero would swallow small
    numbers. After a failure, apply the transformations one by one to find the cause.
    """
    is_regressor = METHODS[case.method].kind == "regressor"
    zeros = [another_zero_of_X]
    groups = [[weights_for_repeated_rows]]
    if is_regressor:
        zeros.append(another_zero_of_y)
    if is_settled:
        units = [another_unit_of_y] if is_regressor else []
        combined = [*ORDERS[:3], *zeros, *units]
        if case.params:
            return [*groups, combined]
        return groups if case.layout == "shared" else [combined]
    if is_regressor:
        groups.append([another_unit_of_y])
    if case.params:
        # Two changes of names in a row would equal one.
        return [*groups, ORDERS[:3], zeros]
    return [*groups, *([change] for change in [*ORDERS, *zeros])]


#: Of the trials of settled methods, one in so many runs without ``--all-pairs``.
SETTLED_PER_RUN = 3


def trials(settled_methods):
    """Return each case with its transformations.

    For settled methods, a listed value of a parameter is tried with the first two
    methods that have it, and its groups of transformations take turns.
    """
    everything = []
    n_settled = 0
    n_methods = Counter()
    for case in cases():
        groups = groups_of(case, case.method in settled_methods)
        if case.method in settled_methods and case.params:
            n_methods[case.params] += 1
            if n_methods[case.params] > 2:
                continue
            groups = [groups[n_methods[case.params] % len(groups)]]
        for group in groups:
            changes = [change for change in group if reason_of(case, change) is None]
            is_settled = case.method in settled_methods
            if changes and (not is_settled or n_settled % SETTLED_PER_RUN == 0):
                name = "+".join(change.__name__ for change in changes)
                everything.append(pytest.param(case, changes, id=f"{case}-{name}"))
            n_settled += is_settled and bool(changes)
    return everything


def pytest_generate_tests(metafunc):
    if "changes" in metafunc.fixturenames:
        has_all = metafunc.config.getoption("all_pairs")
        settled = set() if has_all else metafunc.config.settled_methods
        metafunc.parametrize(("case", "changes"), trials(settled))


@functools.cache
def usual(case):
    """Return the model of a case and its predictions."""
    data = example(METHODS[case.method].kind, case.layout)
    model = fitted(case, data)
    return model, predicted(model, data)


def reference(case, rows):
    """Return the model of the rows before the change, and its predictions."""
    if rows is None:
        return usual(case)
    model = fitted(case, rows)
    return model, predicted(model, rows)


def test_a_model_does_not_depend_on(case, changes):
    data = example(METHODS[case.method].kind, case.layout)
    before = None
    back = []
    unit = 1.0
    for change in changes:
        changed = change(data)
        data = changed.data
        back.append(changed.back)
        unit *= changed.unit
        if changed.before is not None:
            before = changed.before
    model, expected = reference(case, before)
    other = fitted(case, data, unit)
    scores = predicted(other, data)
    for undo in reversed(back):
        scores = undo(scores)
    spread = np.std(expected) or 1.0
    np.testing.assert_allclose(scores / spread, expected / spread, rtol=0, atol=1e-3)
    assert getattr(other, "converged_", True) == getattr(model, "converged_", True)


def test_each_transformation_is_applied_to_a_new_method():
    tried = [
        trial for trial in trials(set(METHODS) - {"FusedMTL"}) if is_of_fused(trial)
    ]
    defaults = [trial.values[1] for trial in tried if not trial.values[0].params]
    assert {len(changes) for changes in defaults} == {1}
    assert {change for (change,) in defaults} >= {another_unit_of_y, another_zero_of_y}


def is_of_fused(trial):
    return trial.values[0].method == "FusedMTL"


CERTIFIED = ["SparseMTL", "JointFeatureMTL", "TraceNormMTL", "RobustMTL", "DirtyMTL"]
CERTIFIED += ["GraphMTL", "FusedMTL", "TemporalGroupLasso", "ClusteredMTL", "MTRL"]


@pytest.mark.cover
@pytest.mark.parametrize("layout", ["ragged", "shared"])
@pytest.mark.parametrize("method", CERTIFIED)
def test_the_gap_of_an_unfinished_run_has_no_unit(method, layout):
    """Gaps of small targets were once too small: they were divided by at least 1."""
    case, data = (
        Case(method, (("solver", "fista"),), layout),
        example("regressor", layout),
    )
    usual_run = fitted(case, data, max_iter=3)
    small_run = fitted(case, replace(data, y=UNIT * data.y), UNIT, max_iter=3)
    assert usual_run.gap_ > 1e-6
    assert small_run.gap_ == pytest.approx(usual_run.gap_, rel=1e-6)
    assert not small_run.converged_
    assert not usual_run.converged_


@pytest.mark.parametrize("offset", [2e3, 1e6])
@pytest.mark.parametrize("method", ["IndependentLogistic", "PooledLogistic"])
def test_logistic_regressions_on_years_and_on_ages_agree(method, offset):
    data = example("classifier", "ragged")
    moved = replace(data, X=data.X + offset, new_X=data.new_X + offset)
    expected = predicted(fitted(Case(method), data), data)
    model = fitted(Case(method), moved)
    assert model.converged_
    np.testing.assert_allclose(predicted(model, moved), expected, atol=1e-3)


def test_a_logistic_regression_without_certificate_has_not_converged(monkeypatch):
    data = example("classifier", "ragged")
    fit = LogisticRegression.fit

    def fit_wrongly(model, *arguments, **options):
        fit(model, *arguments, **options)
        model.coef_ += 1.0

    monkeypatch.setattr(LogisticRegression, "fit", fit_wrongly)
    assert not fitted(Case("IndependentLogistic"), data).converged_
