"""The methods that `mtlrun compare` tries, and the values it searches for their parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from mtlrun.comparison.verdict import (
    CARRIED,
    FAMILIES,
    INDEPENDENT,
    MULTITASK,
    NATIVE,
    POOLED,
    TRIVIAL,
    USER_DEFINED,
    VERDICT_FAMILIES,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import GROUP, ORDER, TIME
from mtlrun.engine.job import TABLE_WITH_ELAPSED, TABLE_WITH_LEVELS, with_params
from mtlrun.engine.methods import class_path, parameter_names
from mtlrun.errors import ConfigError, UnknownNameError, suggest
from mtlrun.estimators.inputs import takes_groups
from mtlrun.estimators.metadata import MethodMetadata, Scale
from mtlrun.estimators.registry import METHODS, build, load_class
from mtlrun.solvers.hierarchical.smooth_parts import MAX_CROSSED_LEVELS

TABULAR = "mtlrun.estimators.baselines"
TUNED = "mtlrun.estimators.tuned"
SCALED = f"{TABULAR}:ScaledTargets"
INNER = "estimator__"
#: Parameters are chosen with this tolerance, the last fit has the other one: rankings need no exact solution.
SEARCH_TOL, FIT_TOL = 1e-3, 1e-4
#: Logistic losses take many more iterations: relative gap of searches and of the last fit. LIBLINEAR's own tolerance.
SEARCH_LABELS, FIT_LABELS, SVC_TOL = 3e-3, 1e-3, 0.1
#: Of boosted trees, whose number of leaves is searched; 20 rows in a leaf, scikit-learn's default, would leave tasks of
#: less than 40 rows without a split.
BOOSTING = {"max_iter": 40, "learning_rate": 0.15, "min_samples_leaf": 5}
#: Histogram trees take so many tasks as categories; beyond, the position of the task is a number.
MAX_CATEGORIES = 255
#: Labels of the baselines that are made of trees.
TREES = (
    "GradientBoosting+Task",
    "IndependentGradientBoosting",
    "MultiOutputExtraTrees",
    "MultiOutputRandomForest",
)
#: Kernel ridge for all targets on the same rows.
KERNEL_RIDGE = "KernelRidge"
#: With fewer training rows per task than this, kernel ridge is the nonlinear model of single tasks, in place of boosted
#: trees: better on 16 of 23 tables, in a twentieth of the time (docs/benchmarks.md).
FEW_ROWS = 32
#: From so many training rows on, the first fold tells which number of leaves is better (benchmarks/compare_trees.py).
HALVING_ROWS = 2000
#: Share of the columns that each split of boosted trees may use on wide tables, and the
#: number of columns per row of the table from which on a table is wide.
WIDE_TABLE_FEATURES = 0.33
WIDE_TABLE_RATIO = 0.5
#: Its strengths, and widths of the Gaussian kernel as gamma times the number of columns.
#: A fit takes memory of rows^2.
KERNEL_ALPHAS = [0.1, 1.0]
KERNEL_WIDTHS = [0.3, 1.5]
MAX_KERNEL_ROWS = 5000
#: With more rows than this a tree of a forest is grown on so many of them.
MAX_TREE_ROWS = 20000

#: The hierarchical model with curves, and its baselines: one function for all tasks,
#: and a function per task. Targets on the same rows have the second baseline alone.
SMOOTH = "SmoothMTL"
SMOOTH_BASELINES = ("SmoothPooled", "SmoothIndependent")
#: How smooth models are fitted for inner scores, which decide between methods and need
#: no exact solution: with fewer centers, and variances from fewer rows.
SMOOTH_SEARCH: dict[str, Any] = {"tol": 0.1, "n_centers": 50, "max_rows": 2000}

#: Targets on the same rows for which smooth models are tried by default, at most.
MAX_SMOOTH_TARGETS = 32

#: Linear baselines that are part of every comparison.
N_ALWAYS = 4

_WIDE = (0.001, 0.01, 0.1, 1.0, 10.0)
_FINE = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Candidate:
    """One row of the leaderboard.

    Attributes
    ----------
    label : str
    family : str
        One of `mtlrun.comparison.verdict.FAMILIES`.
    estimator : str
    params, select_with : dict
    grid : dict of str to list
        Empty when nothing is searched.
    halving : bool
        Whether after every fold of the search only the better half of the values goes on.
    note : str
        What the facts of a comparison say about the method.
    features : str
        Feature step, in place of that of all methods; empty for that one.
    """

    label: str
    family: str
    estimator: str
    params: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    select_with: dict[str, Any] = field(default_factory=dict)
    halving: bool = False
    note: str = ""
    features: str = ""

    @property
    def is_scored(self) -> bool:
        """Whether it has an inner score without a grid, because it competes."""
        return not self.grid and self.family in VERDICT_FAMILIES


def default_candidates(dataset: Dataset, train: float) -> list[Candidate]:
    """Return the methods tried by default, in the order in which they are computed.

    Baselines that every verdict needs and cheap methods come first. Within a family the
    list runs from simple to complex: of methods with about the same inner score, the
    first one is selected.

    Parameters
    ----------
    dataset : Dataset
        Binary or regression.
    train : float
        Part of the rows that is trained on.
    """
    scale = _scale(dataset, train)
    linear, trees = _linear(dataset, scale), _nonlinear(dataset, scale)
    hierarchical = dataset.task_type == "regression" or dataset.task_id is not None
    simple = ["HierarchicalMTL"] if hierarchical else []
    simple += ["GraphMTL", "JointFeatureMTL", "TraceNormMTL"]
    smooth: list[str] = []
    if _can_be_smooth(dataset):
        # The baselines come first: a budget that ends in between must not credit
        # curves to sharing.
        smooth = [*smooth_baselines(dataset), SMOOTH]
    two_parts = ["SparseLowRankMTL", "RobustMTL", "DirtyMTL"]
    slow = ["ClusteredMTL", "RobustFeatureMTL"]
    if dataset.task_type == "regression":
        slow.append("MTRL")

    def registered_all(names: Sequence[str]) -> list[Candidate]:
        labels = [_for_labels(name, dataset) for name in names]
        return [_registered(label, dataset, train) for label in labels]

    return [
        *linear[:N_ALWAYS],
        *last_values(dataset),
        *linear[N_ALWAYS:],
        *registered_all(simple),
        *(tree for tree in trees if tree.family == NATIVE),
        *(tree for tree in trees if tree.label == KERNEL_RIDGE),
        *registered_all(smooth),
        *registered_all(two_parts),
        *trees[:2],
        *registered_all(slow),
    ]


def last_values(dataset: Dataset) -> list[Candidate]:
    """Return the baselines of next rows: the last value of a task, with and without drift.

    Labels have no drift.
    """
    if not dataset.source.keys() & {ORDER, TIME}:
        return []
    path = f"{TABULAR}:LastValue"
    carried = Candidate("LastValue", CARRIED, path, features=TABLE_WITH_ELAPSED)
    if dataset.task_type != "regression":
        return [carried]
    params = {"drift": True}
    return [carried, replace(carried, label="LastValue+Drift", params=params)]


def core(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return what is computed first, on all splits: the baselines of every comparison, and a multi-task method."""
    joint = [c for c in candidates if c.family == MULTITASK][:1]
    families = (TRIVIAL, INDEPENDENT, POOLED, CARRIED)
    baselines = [c for c in candidates if c.family in families]
    n_first = N_ALWAYS + sum(c.family == CARRIED for c in candidates)
    return baselines[:n_first] + joint


def named_candidates(
    names: Sequence[str],
    dataset: Dataset,
    train: float,
    families: Mapping[str, str] | None = None,
) -> list[Candidate]:
    """Return the methods of these names, with the baselines that every verdict needs in front.

    Parameters
    ----------
    names : sequence of str
        Labels of the default methods, ``default`` for all of them, names of the registry, or ``package.module:Class``.
        `SmoothMTL` has its baselines in front.
    dataset, train
        As of `default_candidates`.
    families : mapping, optional
        Name of a class -> its family; other classes are the user's own, and take no part in the verdict.

    Raises
    ------
    UserError
        For any other name, and for a class that does not exist or has no `fit`.
    """
    families = dict(families or {})
    standard = {
        candidate.label: candidate for candidate in default_candidates(dataset, train)
    }
    n_first = N_ALWAYS + len(last_values(dataset))
    found = dict(list(standard.items())[:n_first])
    for name in names or ["default"]:
        model = _for_labels(name, dataset)
        if model.removesuffix("Classifier") == SMOOTH:
            # Without them the verdict would credit curves, and further groups, to sharing.
            for baseline in smooth_baselines(dataset):
                label = _for_labels(baseline, dataset)
                found[label] = _registered(label, dataset, train)
        if name == "default":
            found |= standard
        elif model in standard or name in standard:
            candidate = standard.get(name) or standard[model]
            found[candidate.label] = candidate
        elif model in METHODS and not METHODS[model].foreign:
            found[model] = _registered(model, dataset, train)
        elif model in METHODS:
            grid = grid_of(model, _scale(dataset, train))
            candidate = Candidate(
                model, families.pop(model, USER_DEFINED), model, grid=grid
            )
            found[model] = _wrapped(_keeping_groups(candidate, dataset), dataset)
        elif ":" in name:
            short = name.partition(":")[2]
            label = (
                name
                if short in found.keys() | standard.keys() | METHODS.keys()
                else short
            )
            _check_class(name)
            candidate = Candidate(
                label, families.pop(name, USER_DEFINED), class_path(name)
            )
            found[label] = _wrapped(_keeping_groups(candidate, dataset), dataset)
        else:
            _refuse(name, standard)
    if families:
        name = next(iter(families))
        raise ConfigError(
            f"--family names {name!r}, which is not among the --methods",
            f"Add --methods default,{name}.",
        )
    return list(found.values())


def _keeping_groups(candidate: Candidate, dataset: Dataset) -> Candidate:
    """Return a method of others without splits of rows that would divide groups.

    Their early stopping is turned off. A choice of parameters by their own
    cross-validation cannot be turned off; the note of the candidate says so.
    """
    names = parameter_names(candidate.estimator) or ()
    if GROUP not in dataset.source or takes_groups(load_class(candidate.estimator)):
        return candidate
    if "early_stopping" in names:
        return replace(
            candidate,
            params={**candidate.params, "early_stopping": False},
            note=f"{candidate.label}: early stopping is off, it would divide groups",
        )
    if "cv" in names:
        note = (
            f"{candidate.label}: its own cross-validation does not keep groups together"
        )
        return replace(candidate, note=note)
    return candidate


def read_families(texts: Sequence[str]) -> dict[str, str]:
    """Return the families of classes from texts such as ``multi-task=package.module:Class``.

    Raises
    ------
    ConfigError
        For anything else.
    """
    found = {}
    for text in texts:
        family, equals, name = text.partition("=")
        if not equals or family not in FAMILIES or not name:
            remedy = f"Write FAMILY=package.module:Class, with one of: {', '.join(FAMILIES)}."
            raise ConfigError(
                f"--family {text!r} does not assign a family to a class", remedy
            )
        found[name] = family
    return found


def _refuse(name: str, standard: dict[str, Candidate]) -> None:
    known = dict.fromkeys([*standard, *METHODS, "default"])
    parts = [part for part in re.findall("[A-Z][a-z]+", name) if len(part) > 3]
    near = (
        suggest(name, known)
        or [other for other in known if any(part in other for part in parts)][:4]
    )
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    error = UnknownNameError("method", name, known)
    error.remedy = f"{hint}All methods: mtlrun list methods. Compared by default: {', '.join(standard)}."
    raise error


def _check_class(name: str) -> None:
    """Refuse a class that cannot be made."""
    class_path(name)  # names what is missing without importing anything
    try:
        build(name)
    except TypeError as error:
        remedy = "Use a training file or an experiment, which set parameters: method: {estimator: ..., params: ...}."
        raise ConfigError(
            f"{name!r} cannot be created without parameters: {error}", remedy
        ) from None


def _for_labels(name: str, dataset: Dataset) -> str:
    """Return the classifier of a model where labels are predicted and there is one."""
    return (
        f"{name}Classifier"
        if dataset.task_type == "binary" and f"{name}Classifier" in METHODS
        else name
    )


def _scale(dataset: Dataset, train: float) -> Scale:
    entries = (
        dataset.y.size
        if dataset.task_id is not None
        else float((dataset.y == dataset.y).sum())
    )
    return Scale(max(train * entries / dataset.n_tasks, 1.0), dataset.n_tasks)


def _linear(dataset: Dataset, scale: Scale) -> list[Candidate]:
    """Return the trivial, independent and pooled linear baselines; the first four are part of every comparison."""
    binary = dataset.task_type == "binary"
    ridge, sparse = ("Logistic", "SVC") if binary else ("Ridge", "Lasso")
    per_task = f"{TUNED}:{'TunedLogistic' if binary else 'TunedRidge'}"
    tuned = {"alphas": scale.times(_WIDE if binary else _FINE)}
    fast = {"tol": SEARCH_TOL} if binary else {}
    found = [
        Candidate("TaskMean", TRIVIAL, f"{TABULAR}:TaskMean"),
        Candidate(
            f"Independent{ridge}",
            INDEPENDENT,
            f"Independent{ridge}",
            {},
            grid_of(f"Independent{ridge}", scale),
            fast,
        ),
        Candidate(
            f"Pooled{ridge}",
            POOLED,
            f"Pooled{ridge}",
            {},
            grid_of(f"Pooled{ridge}", scale),
            fast,
        ),
        Candidate(
            f"Independent{ridge}CV", INDEPENDENT, *_per_task(dataset, per_task, tuned)
        ),
    ]
    if (
        dataset.task_id is not None
    ):  # tasks that share their rows differ from one model by their offsets alone
        inner: dict[str, Any] = {"estimator": "sklearn.linear_model:Ridge"}
        grid = {"alpha": scale.times(_WIDE)}
        if binary:
            inner = {
                "estimator": "sklearn.linear_model:LogisticRegression",
                "params": {"max_iter": 300},
            }
            grid = {"C": scale.inverse(_WIDE)[::-1]}
        found.append(_feature(f"Pooled{ridge}+Task", inner, grid, "one-hot"))
    name = f"Independent{sparse}"
    found.append(
        Candidate(
            name,
            INDEPENDENT,
            name,
            {},
            grid_of(name, scale),
            {"tol": SVC_TOL} if binary else {},
        )
    )
    return [_wrapped(candidate, dataset) for candidate in found]


def _per_task(
    dataset: Dataset, path: str, params: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return an estimator of scikit-learn with its parameters, fitted per task where it takes one target."""
    if dataset.task_id is None and path.endswith(":TunedRidge"):
        return path, params
    return f"{TABULAR}:PerTask", {"estimator": {"estimator": path, "params": params}}


def _nonlinear(dataset: Dataset, scale: Scale) -> list[Candidate]:
    """Return boosted trees with the task as a category, a model per task, and, of tasks on the same rows, forests."""
    kind = "Classifier" if dataset.task_type == "binary" else "Regressor"
    params = {**BOOSTING, "max_bins": 63, "early_stopping": False, "random_state": 0}
    alone = {
        "estimator": f"sklearn.ensemble:HistGradientBoosting{kind}",
        "params": params,
    }
    last = (
        {}
        if dataset.n_tasks > MAX_CATEGORIES
        else {"categorical_features": [0], "max_bins": 255}
    )
    task = {**alone, "params": {**params, **last}}
    leaves = f"{INNER}max_leaf_nodes"
    per_task = f"{TABULAR}:PerTask"
    if dataset.n_features > WIDE_TABLE_RATIO * dataset.n_samples:
        params["max_features"] = WIDE_TABLE_FEATURES
    single = Candidate(
        TREES[1], INDEPENDENT, per_task, {"estimator": alone}, {leaves: [3, 8]}
    )
    if scale.rows < FEW_ROWS:
        kernel = {"estimator": f"{TUNED}:TunedKernelRidge"}
        single = Candidate(
            "IndependentKernelRidge", INDEPENDENT, per_task, {"estimator": kernel}
        )
    rows = scale.rows * (1 if dataset.task_id is None else dataset.n_tasks)
    found = [_feature(TREES[0], task, {"max_leaf_nodes": [4, 16]}, "number"), single]
    found = [
        replace(candidate, halving=bool(candidate.grid) and rows >= HALVING_ROWS)
        for candidate in found
    ]
    if dataset.task_id is None and not (dataset.y != dataset.y).any():
        share: dict[str, Any] = {
            "n_estimators": 100,
            "min_samples_leaf": 3,
            "random_state": 0,
        }
        if dataset.n_samples > MAX_TREE_ROWS:
            share |= {"max_samples": MAX_TREE_ROWS, "bootstrap": True}
        # Labels -1 and +1 are numbers here: the trees and the order of their scores are those of a classifier.
        share["max_features"] = "sqrt" if kind == "Classifier" else 0.33
        found += [
            Candidate(
                label,
                NATIVE,
                f"sklearn.ensemble:{label.removeprefix('MultiOutput')}Regressor",
                dict(share),
            )
            for label in TREES[2:]
        ]
        if dataset.n_samples <= MAX_KERNEL_ROWS:
            found.append(_kernel_ridge(dataset))
    return [_wrapped(candidate, dataset) for candidate in found]


def _kernel_ridge(dataset: Dataset) -> Candidate:
    """Return kernel ridge with one strength and width for all targets of the same rows."""
    gammas = [width / dataset.n_features for width in KERNEL_WIDTHS]
    return Candidate(
        KERNEL_RIDGE,
        INDEPENDENT,
        "sklearn.kernel_ridge:KernelRidge",
        {"kernel": "rbf"},
        {"alpha": list(KERNEL_ALPHAS), "gamma": gammas},
        halving=True,
    )


def _feature(
    label: str, inner: dict[str, Any], grid: dict[str, list[Any]], encoding: str
) -> Candidate:
    params = {"estimator": inner, "encoding": encoding}
    return Candidate(
        label,
        POOLED,
        f"{TABULAR}:TaskFeature",
        params,
        {INNER + k: v for k, v in grid.items()},
    )


def _can_be_smooth(dataset: Dataset) -> bool:
    """Whether smooth models are tried by default.

    They keep dense rows. Of targets on the same rows, numbers are tried, and at most
    `MAX_SMOOTH_TARGETS`, since each is fitted several times.
    """
    if sparse.issparse(dataset.X):
        return False
    if dataset.task_id is not None:
        return True
    is_regression = dataset.task_type == "regression"
    return is_regression and dataset.n_tasks <= MAX_SMOOTH_TARGETS


def smooth_baselines(dataset: Dataset) -> tuple[str, ...]:
    """Return what `SmoothMTL` is compared with, so that sharing alone is credited.

    One function for all targets on the same rows would be no baseline: they have units
    of their own.
    """
    is_shared = dataset.task_id is None and dataset.task_type == "regression"
    return SMOOTH_BASELINES[1:] if is_shared else SMOOTH_BASELINES


def is_smooth(label: str) -> bool:
    """Whether a method is a smooth model or one of its baselines."""
    return label.removesuffix("Classifier") in (SMOOTH, *SMOOTH_BASELINES)


def _registered(name: str, dataset: Dataset, train: float) -> Candidate:
    if is_smooth(name):
        family = family_of(name)
        candidate = Candidate(name, family, name, select_with=dict(SMOOTH_SEARCH))
        return _wrapped(candidate, dataset)
    search, fit = (
        (SEARCH_TOL, FIT_TOL)
        if dataset.task_type == "regression"
        else (SEARCH_LABELS, FIT_LABELS)
    )
    found = registered(name, _scale(dataset, train), search, fit)
    if not found.grid:
        found = replace(found, select_with={})
    if _can_shrink_intercepts(name, dataset):
        found = replace(found, params={**found.params, "intercepts": "shrunken"})
    if dataset.task_id is None and "prior" in found.grid:
        # On targets of the same rows, Student's prior takes 40 to 80% of the time of
        # wide tables and predicts worse (nMSE .347 instead of .214).
        found = replace(found, grid={})
    return _wrapped(found, dataset)


def _can_shrink_intercepts(name: str, dataset: Dataset) -> bool:
    """Whether the intercepts of a method can be shrunken towards their mean."""
    has_option = "intercepts" in METHODS[name].parameters
    is_ragged = dataset.task_id is not None and dataset.task_type == "regression"
    return has_option and is_ragged and not sparse.issparse(dataset.X)


def registered(name: str, scale: Scale, search: float, fit: float) -> Candidate:
    """Return a method of the registry with the values searched; the tolerances are for multi-task methods."""
    info = METHODS[name]
    family = family_of(name)
    tolerances = "tol" in info.parameters and info.multitask
    params = {**info.default_params, **({"tol": fit} if tolerances else {})}
    fast = {**info.fast, **({"tol": search} if tolerances else {})}
    return Candidate(name, family, name, params, grid_of(name, scale), fast)


def family_of(name: str) -> str:
    """Return the family of a method of the registry."""
    if METHODS[name].multitask:
        return MULTITASK
    return POOLED if "Pooled" in name else INDEPENDENT


def has_coefficients(candidate: Candidate) -> bool:
    """Whether the fitted method has coefficients, as far as its class tells."""
    name = candidate.estimator
    if name == SCALED:
        name = candidate.params["estimator"]["estimator"]
    return "coef_" not in getattr(load_class(name), "_without", ())


def grid_of(name: str, scale: Scale) -> dict[str, list[Any]]:
    """Return the values searched: those of the class for the scale of the data, if it has some, else its defaults."""
    metadata = getattr(load_class(name), "metadata", None)
    if not isinstance(metadata, MethodMetadata):
        return {}
    return (
        metadata.search(scale)
        if metadata.search
        else {name: list(values) for name, values in metadata.default_grid.items()}
    )


def _wrapped(candidate: Candidate, dataset: Dataset) -> Candidate:
    """Return the method on scaled targets, which a regression needs for one strength to suit all tasks."""
    if dataset.task_type != "regression" or candidate.family == TRIVIAL:
        return candidate
    inner = {"estimator": candidate.estimator, "params": candidate.params}
    return replace(
        candidate,
        estimator=SCALED,
        params={"estimator": inner},
        grid={INNER + name: values for name, values in candidate.grid.items()},
        select_with={
            INNER + name: value for name, value in candidate.select_with.items()
        },
    )


def with_unseen(candidate: Candidate, unseen: str) -> Candidate:
    """Return the method with its rule for tasks that have no training rows, where it has one."""
    wrapped = candidate.estimator == SCALED
    name = (
        candidate.params["estimator"]["estimator"] if wrapped else candidate.estimator
    )
    if unseen == "error" or "unseen" not in (parameter_names(name) or ()):
        return candidate
    return replace(
        candidate,
        params=with_params(
            candidate.params, {f"{INNER if wrapped else ''}unseen": unseen}
        ),
    )


def with_levels(candidate: Candidate, dataset: Dataset) -> Candidate:
    """Return the method with the further groups of the table, where it can use them.

    The baseline that fits every task by itself does so with groups that are nested in
    the tasks alone: a group that occurs in several tasks would share between them.
    """
    if not dataset.levels or not uses_levels(candidate):
        return candidate
    is_single = candidate.family == INDEPENDENT
    if is_single and len(nested_levels(dataset)) < len(dataset.levels):
        return candidate
    name = "levels"
    if candidate.estimator == SCALED:
        name = f"{INNER}{name}"
    positions = list(range(-len(dataset.levels), 0))
    return replace(
        candidate,
        params=with_params(candidate.params, {name: positions}),
        features=TABLE_WITH_LEVELS,
    )


def uses_levels(candidate: Candidate) -> bool:
    """Whether a method can use further groups."""
    name = candidate.estimator
    if name == SCALED:
        name = candidate.params["estimator"]["estimator"]
    return is_smooth(name)


def nested_levels(dataset: Dataset) -> list[str]:
    """Return the columns of further groups that are nested in the tasks.

    Every group of such a column has rows of one task only.
    """
    task_id = dataset.task_id
    if task_id is None:
        return []
    nested = []
    for name, codes in dataset.levels.items():
        pairs = np.column_stack([codes, task_id])
        if len(np.unique(pairs, axis=0)) == len(np.unique(codes)):
            nested.append(name)
    return nested


def check_levels(dataset: Dataset, candidates: Sequence[Candidate]) -> None:
    """Refuse further groups that no method can use.

    Raises
    ------
    ConfigError
        Names the remedy.
    """
    if not dataset.levels:
        return
    if dataset.task_id is None:
        raise ConfigError(
            "--also-grouped-by needs rows that belong to tasks, and one target that "
            "is a number or has two labels",
            "Name a column of tasks with --task, or leave --also-grouped-by out.",
        )
    if not any(c.features == TABLE_WITH_LEVELS for c in candidates):
        raise ConfigError(
            "none of the methods can use the groups of --also-grouped-by",
            f"Add {SMOOTH} to --methods, or leave --also-grouped-by out. "
            "With sparse features it has to be named.",
        )
    for name in set(dataset.levels) - set(nested_levels(dataset)):
        n_levels = len(np.unique(dataset.levels[name]))
        if n_levels > MAX_CROSSED_LEVELS:
            raise ConfigError(
                f"column {name!r} has {n_levels} groups that are crossed with the "
                f"tasks; at most {MAX_CROSSED_LEVELS} are possible",
                f"Use --task {name} and give the present tasks to --also-grouped-by, "
                "merge rare groups, or leave the column out.",
            )


def chosen_candidate(candidate: Candidate, chosen: dict[str, Any]) -> Candidate:
    """Return the method with parameters that were found, and no search."""
    return replace(
        candidate,
        params=with_params(candidate.params, chosen),
        grid={},
        select_with={},
        halving=False,
    )


def calibrated(candidate: Candidate) -> Candidate:
    """Return the method with probabilities: its scores on held-out rows, calibrated."""
    inner = {"estimator": candidate.estimator, "params": candidate.params}
    return Candidate(
        candidate.label,
        candidate.family,
        "mtlrun.estimators.baselines:CalibratedTasks",
        {"estimator": inner},
        features=candidate.features,
    )
