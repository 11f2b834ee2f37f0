"""Methods that `mtlrun compare` tries, and the parameter grids of their searches.

A method of the comparison is a `Candidate`. `default_candidates` lists the methods that
are tried by default, and `named_candidates` the methods that the user names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from mtlrun.catalog.methods import class_path, parameter_names
from mtlrun.catalog.registry import BASELINES, METHODS, build, load_class
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
from mtlrun.errors import ConfigError, UnknownNameError, suggest
from mtlrun.estimators.compare_baselines import (
    FOREST,
    FOREST_FEATURES,
    LOGISTIC_ITERATIONS,
    MAX_CATEGORIES,
    TASK_CATEGORY,
    TREES,
)
from mtlrun.estimators.inputs import takes_groups
from mtlrun.estimators.metadata import MethodMetadata, Scale
from mtlrun.solvers.hierarchical.smooth_parts import MAX_CROSSED_LEVELS

BASELINES_MODULE = "mtlrun.estimators.baselines"
TUNED_MODULE = "mtlrun.estimators.tuned"
SCALED = f"{BASELINES_MODULE}:ScaledTargets"
PER_TASK = f"{BASELINES_MODULE}:PerTask"
#: Prefix of the parameters of an inner estimator.
INNER = "estimator__"

#: Tolerances of searches and of the last fit. Searches only rank parameters, which
#: needs no exact solution.
SEARCH_TOL = 1e-3
FIT_TOL = 1e-4
#: The same for logistic losses, which take many more iterations: relative gaps.
SEARCH_TOL_LABELS = 3e-3
FIT_TOL_LABELS = 1e-3
#: Tolerance of LIBLINEAR in searches.
SEARCH_TOL_SVC = 0.1

#: Labels of the baselines that are made of trees.
POOLED_TREES = "GradientBoosting+Task"
SINGLE_TREES = "IndependentGradientBoosting"
FORESTS = ("MultiOutputExtraTrees", "MultiOutputRandomForest")
#: From this number of training rows on, the first fold of a search shows which number
#: of leaves is better (benchmarks/compare_trees.py).
HALVING_ROWS = 2000
#: A table is wide if it has more columns than this share of its rows. Then each split
#: of boosted trees of single tasks uses a share of the columns.
WIDE_TABLE_RATIO = 0.5
WIDE_TABLE_FEATURES = 0.33
#: With more rows than this, each tree of a forest uses a sample of this many rows.
MAX_TREE_ROWS = 20000

#: Kernel ridge for all targets on the same rows, and for each task.
KERNEL_RIDGE = "KernelRidge"
SINGLE_KERNEL_RIDGE = "IndependentKernelRidge"
#: With fewer training rows per task than this, kernel ridge replaces boosted trees as
#: the nonlinear model of single tasks. It is better on 16 of 23 tables, in a twentieth
#: of the time (docs/benchmarks.md).
FEW_ROWS = 32
#: Strengths of kernel ridge, and widths of its Gaussian kernel: gamma times the number
#: of columns.
KERNEL_ALPHAS = [0.1, 1.0]
KERNEL_WIDTHS = [0.3, 1.5]
#: The memory of a fit grows with the square of the number of rows.
MAX_KERNEL_ROWS = 5000

#: The hierarchical model with curves, and its baselines: one function for all tasks,
#: and a function per task. Targets on the same rows have the second baseline alone.
SMOOTH = "SmoothMTL"
SMOOTH_BASELINES = ("SmoothPooled", "SmoothIndependent")
#: How smooth models are fitted for inner scores, which decide between methods and need
#: no exact solution: with fewer centers, and variances from fewer rows.
SMOOTH_SEARCH: dict[str, Any] = {"tol": 0.1, "n_centers": 50, "max_rows": 2000}

_TIME = "the times of the rows (--time)"
_COMPLETE_ROWS = "several targets on the same rows, without gaps"
#: Baseline -> what it needs; all others take any table.
_NEEDS = {
    "LastValue": _TIME,
    "LastValue+Drift": f"{_TIME} and targets that are numbers",
    "IndependentRidgeCV": "targets that are numbers",
    "IndependentLogisticCV": "targets that are labels",
    "PooledRidge+Task": "targets that are numbers, and a task of each row (--task)",
    "PooledLogistic+Task": "targets that are labels, and a task of each row (--task)",
    **dict.fromkeys((KERNEL_RIDGE, *FORESTS), _COMPLETE_ROWS),
}

#: Largest number of targets on the same rows with smooth models by default.
MAX_SMOOTH_TARGETS = 32

#: Number of baselines that each comparison has: the mean of the task, and three linear
#: ones.
N_ALWAYS = 4

#: Regularization strengths per row of a task. One strength for all tasks is searched on
#: the coarse grid. Ridge regression for each task has a fast search, on the fine one.
COARSE_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
FINE_STRENGTHS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Candidate:
    """Method of a comparison: one row of the leaderboard.

    Attributes
    ----------
    label : str
    family : str
        One of `mtlrun.comparison.verdict.FAMILIES`.
    estimator : str
        Name in the registry, or ``package.module:Class``.
    params : dict
        Parameters of the estimator.
    grid : dict of str to list
        Values to search. Empty if nothing is searched.
    select_with : dict
        Parameters that differ in the search, such as a larger tolerance.
    halving : bool
        Whether only the better half of the values goes on after each fold of the
        search.
    note : str
        Remark about the method among the facts of the comparison.
    features : str
        Feature step of this method. Empty for the step that all methods have.
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
        """Whether it needs an inner score although it has no grid.

        Inner scores decide which method of a family a strategy selects.
        """
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
    is_regression = dataset.task_type == "regression"
    simple = ["GraphMTL", "JointFeatureMTL", "TraceNormMTL"]
    if is_regression or dataset.task_id is not None:
        simple.insert(0, "HierarchicalMTL")
    smooth: list[str] = []
    # Smooth models need dense rows. Each target on the same rows is fitted several times.
    has_few_targets = is_regression and dataset.n_tasks <= MAX_SMOOTH_TARGETS
    can_be_smooth = dataset.task_id is not None or has_few_targets
    if can_be_smooth and not sparse.issparse(dataset.X):
        # The baselines come first: a budget that ends in between must not credit
        # curves to sharing.
        smooth = [*smooth_baselines(dataset), SMOOTH]
    two_parts = ["SparseLowRankMTL", "RobustMTL", "DirtyMTL"]
    slow = ["ClusteredMTL", "RobustFeatureMTL"]
    if is_regression:
        slow.append("MTRL")

    def registered_all(names: Sequence[str]) -> list[Candidate]:
        labels = [_for_labels(name, dataset) for name in names]
        return [_registered(label, dataset, train) for label in labels]

    return [
        *_baselines(dataset, train),
        *registered_all(simple),
        *_multi_output(dataset),
        *registered_all(smooth),
        *registered_all(two_parts),
        *_nonlinear(dataset, _scale(dataset, train)),
        *registered_all(slow),
    ]


def _baselines(dataset: Dataset, train: float) -> list[Candidate]:
    """Return the trivial and linear baselines; every verdict needs the first ones."""
    linear = _linear(dataset, _scale(dataset, train))
    return [*linear[:N_ALWAYS], *last_values(dataset), *linear[N_ALWAYS:]]


def last_values(dataset: Dataset) -> list[Candidate]:
    """Return the baselines of next rows: the last value, with and without drift.

    Labels have no drift.

    Raises
    ------
    DataError
        If the times can be ranked, but not counted.
    """
    if not dataset.source.keys() & {ORDER, TIME}:
        return []
    if dataset.clock is not None:
        dataset.clock.refuse_ambiguous()
    carried = Candidate(
        "LastValue",
        CARRIED,
        f"{BASELINES_MODULE}:LastValue",
        features=TABLE_WITH_ELAPSED,
    )
    if dataset.task_type != "regression":
        return [carried]
    params = {"drift": True}
    return [carried, replace(carried, label="LastValue+Drift", params=params)]


def core(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the methods that are computed first, on all splits.

    These are the baselines that each comparison has, and the first multi-task method.
    """
    families = (TRIVIAL, INDEPENDENT, POOLED, CARRIED)
    baselines = [c for c in candidates if c.family in families]
    n_carried = sum(c.family == CARRIED for c in candidates)
    multitask = [c for c in candidates if c.family == MULTITASK]
    return baselines[: N_ALWAYS + n_carried] + multitask[:1]


def raced_labels(
    candidates: Sequence[Candidate],
    names: Sequence[str],
    dataset: Dataset,
    train: float,
) -> list[str]:
    """Return the methods that may be stopped.

    They are the default methods that take part in the verdict, apart from baselines and
    from methods that the user named.

    Parameters
    ----------
    candidates : sequence of Candidate
        All methods of the comparison.
    names : sequence of str
        Methods of ``--methods``; empty for the default methods.
    dataset, train
        As of `default_candidates`.
    """
    named = {name.removesuffix("Classifier") for name in names}
    baselines = {candidate.label for candidate in core(candidates)}
    labels = []
    for candidate in candidates:
        label = candidate.label
        is_named = label.removesuffix("Classifier") in named
        is_in_verdict = candidate.family in VERDICT_FAMILIES
        if is_in_verdict and not is_named and label not in baselines:
            labels.append(label)
    if not labels:
        return []
    defaults = {candidate.label for candidate in default_candidates(dataset, train)}
    return [label for label in labels if label in defaults]


def named_candidates(
    names: Sequence[str],
    dataset: Dataset,
    train: float,
    families: Mapping[str, str] | None = None,
) -> list[Candidate]:
    """Return the methods of these names, after the baselines that every verdict needs.

    Parameters
    ----------
    names : sequence of str
        Labels of the default methods, ``default`` for all of them, names of the
        registry, or ``package.module:Class``. `SmoothMTL` brings its baselines.
    dataset, train
        As of `default_candidates`.
    families : mapping, optional
        Name of a class -> its family. Classes without one are the user's own, and take
        no part in the verdict.

    Raises
    ------
    UserError
        For any other name, and for a class that does not exist or has no `fit`.
    """
    unassigned = dict(families or {})
    standard = {c.label: c for c in _baselines(dataset, train)}
    names_baselines_only = bool(names) and standard.keys() >= set(names)
    if not names_baselines_only:
        # Making the other methods imports them all.
        standard = {c.label: c for c in default_candidates(dataset, train)}
    n_first = N_ALWAYS + len(last_values(dataset))
    selected = dict(list(standard.items())[:n_first])
    # Leaderboards have a plus sign that the class of a baseline lacks.
    labels_of_classes = {label.replace("+", ""): label for label in BASELINES}
    for written_name in names or ["default"]:
        name = labels_of_classes.get(written_name, written_name)
        if name == "default":
            selected |= standard
            continue
        model = _for_labels(name, dataset)
        if model.removesuffix("Classifier") == SMOOTH:
            # Without its baselines, the verdict would credit curves and further groups
            # to sharing.
            for baseline in smooth_baselines(dataset):
                label = _for_labels(baseline, dataset)
                selected[label] = _registered(label, dataset, train)
        if name in standard:
            candidate = standard[name]
        elif model in standard:
            candidate = standard[model]
        elif name == SINGLE_KERNEL_RIDGE:
            candidate = _single_kernel_ridge(dataset)
        elif name == SINGLE_TREES:
            candidate = _single_trees(dataset, _scale(dataset, train))
        elif name == KERNEL_RIDGE and _has_complete_rows(dataset):
            candidate = _scaled(_kernel_ridge(dataset), dataset)
        elif name in BASELINES:
            raise ConfigError(
                f"{name} cannot be used with these data: it needs {_NEEDS[name]}",
                "Leave it out of --methods.",
            )
        elif model in METHODS and not METHODS[model].foreign:
            candidate = _registered(model, dataset, train)
        elif model in METHODS:
            family = unassigned.pop(model, USER_DEFINED)
            grid = grid_of(model, _scale(dataset, train))
            candidate = Candidate(model, family, model, grid=grid)
            candidate = _scaled(_keeping_groups(candidate, dataset), dataset)
        elif ":" in name:
            label = name.partition(":")[2]
            if label in selected.keys() | standard.keys() | METHODS.keys():
                label = name
            # Refuse a class that cannot be created without parameters.
            # Its error names what is missing, without importing anything.
            class_path(name)
            try:
                build(name)
            except TypeError as error:
                raise ConfigError(
                    f"{name!r} cannot be created without parameters: {error}",
                    "Use a training file or an experiment, which set parameters: method: "
                    "{estimator: ..., params: ...}.",
                ) from None
            family = unassigned.pop(name, USER_DEFINED)
            candidate = Candidate(label, family, class_path(name))
            candidate = _scaled(_keeping_groups(candidate, dataset), dataset)
        else:
            raise _unknown_method(name, standard)
        selected[candidate.label] = candidate
    if unassigned:
        name = next(iter(unassigned))
        raise ConfigError(
            f"--family names {name!r}, which is not among the --methods",
            f"Add --methods default,{name}.",
        )
    return list(selected.values())


def _keeping_groups(candidate: Candidate, dataset: Dataset) -> Candidate:
    """Return a foreign method without splits of rows that would divide groups.

    Its early stopping is turned off. A choice of parameters by its own cross-validation
    cannot be turned off; the note of the candidate says so.
    """
    if GROUP not in dataset.source or takes_groups(load_class(candidate.estimator)):
        return candidate
    names = parameter_names(candidate.estimator) or ()
    label = candidate.label
    if "early_stopping" in names:
        return replace(
            candidate,
            params={**candidate.params, "early_stopping": False},
            note=f"{label}: early stopping is off, it would divide groups",
        )
    if "cv" in names:
        note = f"{label}: its own cross-validation does not keep groups together"
        return replace(candidate, note=note)
    return candidate


def read_families(texts: Sequence[str]) -> dict[str, str]:
    """Return the families of classes from ``FAMILY=package.module:Class``.

    Raises
    ------
    ConfigError
        For anything else.
    """
    families = {}
    for text in texts:
        family, equals, name = text.partition("=")
        if not equals or family not in FAMILIES or not name:
            raise ConfigError(
                f"--family {text!r} does not assign a family to a class",
                "Write FAMILY=package.module:Class, with one of: "
                f"{', '.join(FAMILIES)}.",
            )
        families[name] = family
    return families


def _unknown_method(name: str, standard: Mapping[str, Candidate]) -> UnknownNameError:
    """Return the error for an unknown name, with similar names of methods."""
    names = dict.fromkeys([*standard, *METHODS, *BASELINES, "default"])
    similar = suggest(name, names)
    if not similar:
        # Names with a common word of at least four letters.
        words = re.findall("[A-Z][a-z]{3,}", name)
        for other in names:
            if any(word in other for word in words):
                similar.append(other)
        similar = similar[:4]
    hint = ""
    if similar:
        hint = f"Did you mean {' or '.join(map(repr, similar))}? "
    error = UnknownNameError("method", name, names)
    error.remedy = (
        f"{hint}All methods: mtlrun list methods. Compared by default: "
        f"{', '.join(standard)}."
    )
    return error


def _for_labels(name: str, dataset: Dataset) -> str:
    """Return the name of the classifier of a model if labels are predicted.

    The name itself if there is no such classifier.
    """
    classifier = f"{name}Classifier"
    if dataset.task_type == "binary" and classifier in METHODS:
        return classifier
    return name


def _scale(dataset: Dataset, train: float) -> Scale:
    """Return the number of tasks and of training targets per task."""
    n_targets = float(dataset.y.size)
    if dataset.task_id is None:
        # Some targets may be missing.
        n_targets = float((dataset.y == dataset.y).sum())
    return Scale(max(train * n_targets / dataset.n_tasks, 1.0), dataset.n_tasks)


def _linear(dataset: Dataset, scale: Scale) -> list[Candidate]:
    """Return the trivial baseline and the linear baselines.

    Each comparison has the first `N_ALWAYS` of them.
    """
    is_binary = dataset.task_type == "binary"
    dense = "Ridge"
    sparse = "Lasso"
    fast: dict[str, Any] = {}
    sparse_fast: dict[str, Any] = {}
    if is_binary:
        dense = "Logistic"
        sparse = "SVC"
        fast = {"tol": SEARCH_TOL}
        sparse_fast = {"tol": SEARCH_TOL_SVC}
    candidates = [
        Candidate("TaskMean", TRIVIAL, f"{BASELINES_MODULE}:TaskMean"),
        _linear_candidate(f"Independent{dense}", INDEPENDENT, scale, fast),
        _linear_candidate(f"Pooled{dense}", POOLED, scale, fast),
        _tuned_per_task(f"Independent{dense}CV", dataset, scale),
    ]
    if dataset.task_id is not None:
        # Tasks that share their rows would differ by their intercepts alone, which the
        # pooled model already has.
        if is_binary:
            estimator: dict[str, Any] = {
                "estimator": "sklearn.linear_model:LogisticRegression",
                "params": {"max_iter": LOGISTIC_ITERATIONS},
            }
            grid = {"C": scale.inverse(COARSE_STRENGTHS)[::-1]}
        else:
            estimator = {"estimator": "sklearn.linear_model:Ridge"}
            grid = {"alpha": scale.times(COARSE_STRENGTHS)}
        label = f"Pooled{dense}+Task"
        candidates.append(_with_task_feature(label, estimator, grid, "one-hot"))
    candidates.append(
        _linear_candidate(f"Independent{sparse}", INDEPENDENT, scale, sparse_fast)
    )
    return [_scaled(candidate, dataset) for candidate in candidates]


def _linear_candidate(
    name: str, family: str, scale: Scale, select_with: dict[str, Any]
) -> Candidate:
    """Return a linear method of the registry with the grid of its class."""
    grid = grid_of(name, scale)
    return Candidate(name, family, name, grid=grid, select_with=select_with)


def _tuned_per_task(label: str, dataset: Dataset, scale: Scale) -> Candidate:
    """Return a linear model with a strength of its own for each task."""
    path = f"{TUNED_MODULE}:TunedRidge"
    params = {"alphas": scale.times(FINE_STRENGTHS)}
    if dataset.task_type == "binary":
        path = f"{TUNED_MODULE}:TunedLogistic"
        params = {"alphas": scale.times(COARSE_STRENGTHS)}
    elif dataset.task_id is None:
        # It takes all targets on the same rows at once.
        return Candidate(label, INDEPENDENT, path, params)
    inner = {"estimator": {"estimator": path, "params": params}}
    return Candidate(label, INDEPENDENT, PER_TASK, inner)


def _nonlinear(dataset: Dataset, scale: Scale) -> list[Candidate]:
    """Return a nonlinear pooled model and a nonlinear model of single tasks.

    These are boosted trees, with the task as a category if they are pooled. Single
    tasks with few rows have kernel ridge instead.
    """
    params: dict[str, Any] = dict(TREES)
    if dataset.n_tasks <= MAX_CATEGORIES:
        params |= TASK_CATEGORY
    pooled = _with_task_feature(
        POOLED_TREES,
        {"estimator": _boosting(dataset), "params": params},
        {"max_leaf_nodes": [4, 16]},
        "number",
    )
    if scale.rows < FEW_ROWS:
        single = _single_kernel_ridge(dataset)
    else:
        single = _single_trees(dataset, scale)
    return [_scaled(_halved(pooled, dataset, scale), dataset), single]


def _boosting(dataset: Dataset) -> str:
    """Return the class of boosted trees for the targets of a data set."""
    kind = "Classifier" if dataset.task_type == "binary" else "Regressor"
    return f"sklearn.ensemble:HistGradientBoosting{kind}"


def _halved(candidate: Candidate, dataset: Dataset, scale: Scale) -> Candidate:
    """Return boosted trees whose search is halved if there are many rows."""
    n_rows = scale.rows
    if dataset.task_id is not None:
        n_rows *= dataset.n_tasks
    return replace(candidate, halving=n_rows >= HALVING_ROWS)


def _single_kernel_ridge(dataset: Dataset) -> Candidate:
    """Return kernel ridge for each task."""
    inner = {"estimator": {"estimator": f"{TUNED_MODULE}:TunedKernelRidge"}}
    candidate = Candidate(SINGLE_KERNEL_RIDGE, INDEPENDENT, PER_TASK, inner)
    return _scaled(candidate, dataset)


def _single_trees(dataset: Dataset, scale: Scale) -> Candidate:
    """Return boosted trees for each task."""
    params: dict[str, Any] = dict(TREES)
    if dataset.n_features > WIDE_TABLE_RATIO * dataset.n_samples:
        params["max_features"] = WIDE_TABLE_FEATURES
    candidate = Candidate(
        SINGLE_TREES,
        INDEPENDENT,
        PER_TASK,
        {"estimator": {"estimator": _boosting(dataset), "params": params}},
        {f"{INNER}max_leaf_nodes": [3, 8]},
    )
    return _scaled(_halved(candidate, dataset, scale), dataset)


def _has_complete_rows(dataset: Dataset) -> bool:
    """Whether each row has the targets of all tasks."""
    return dataset.task_id is None and not (dataset.y != dataset.y).any()


def _multi_output(dataset: Dataset) -> list[Candidate]:
    """Return the nonlinear models that take all targets on the same rows at once.

    They need targets without missing values.
    """
    if not _has_complete_rows(dataset):
        return []
    params: dict[str, Any] = dict(FOREST)
    if dataset.n_samples > MAX_TREE_ROWS:
        params |= {"max_samples": MAX_TREE_ROWS, "bootstrap": True}
    # Labels -1 and +1 are numbers here: the trees and the order of their scores are the
    # same as for a classifier.
    is_binary = dataset.task_type == "binary"
    params["max_features"] = "sqrt" if is_binary else FOREST_FEATURES
    candidates = []
    for label in FORESTS:
        name = label.removeprefix("MultiOutput")
        estimator = f"sklearn.ensemble:{name}Regressor"
        candidates.append(Candidate(label, NATIVE, estimator, dict(params)))
    if dataset.n_samples <= MAX_KERNEL_ROWS:
        candidates.append(_kernel_ridge(dataset))
    return [_scaled(candidate, dataset) for candidate in candidates]


def _kernel_ridge(dataset: Dataset) -> Candidate:
    """Return kernel ridge with one strength and one width for all targets."""
    gammas = [width / dataset.n_features for width in KERNEL_WIDTHS]
    return Candidate(
        KERNEL_RIDGE,
        INDEPENDENT,
        "sklearn.kernel_ridge:KernelRidge",
        params={"kernel": "rbf"},
        grid={"alpha": list(KERNEL_ALPHAS), "gamma": gammas},
        halving=True,
    )


def _with_task_feature(
    label: str, estimator: dict[str, Any], grid: dict[str, list[Any]], encoding: str
) -> Candidate:
    """Return one model for all tasks that has the task as a feature.

    Parameters
    ----------
    label : str
    estimator : dict
        ``estimator`` and ``params`` of the model.
    grid : dict of str to list
        Parameters of the model to search.
    encoding : {"one-hot", "number"}
        Encoding of the task.
    """
    return Candidate(
        label,
        POOLED,
        f"{BASELINES_MODULE}:TaskFeature",
        {"estimator": estimator, "encoding": encoding},
        _inner_names(grid),
    )


def _inner_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of a model as parameters of an estimator that wraps it."""
    return {f"{INNER}{name}": value for name, value in values.items()}


def smooth_baselines(dataset: Dataset) -> tuple[str, ...]:
    """Return the baselines of `SmoothMTL`, so that the verdict credits sharing alone.

    Targets on the same rows have different units, so one function for all of them is
    not among their baselines.
    """
    is_shared = dataset.task_id is None and dataset.task_type == "regression"
    return SMOOTH_BASELINES[1:] if is_shared else SMOOTH_BASELINES


def is_smooth(label: str) -> bool:
    """Whether a method is a smooth model or one of its baselines."""
    return label.removesuffix("Classifier") in (SMOOTH, *SMOOTH_BASELINES)


def _registered(name: str, dataset: Dataset, train: float) -> Candidate:
    """Return a method of the registry, adapted to a data set."""
    if is_smooth(name):
        family = family_of(name)
        candidate = Candidate(name, family, name, select_with=dict(SMOOTH_SEARCH))
        return _scaled(candidate, dataset)
    search_tol = SEARCH_TOL
    fit_tol = FIT_TOL
    if dataset.task_type != "regression":
        search_tol = SEARCH_TOL_LABELS
        fit_tol = FIT_TOL_LABELS
    candidate = registered(name, _scale(dataset, train), search_tol, fit_tol)
    if not candidate.grid:
        candidate = replace(candidate, select_with={})
    has_option = "intercepts" in METHODS[name].parameters
    is_ragged = dataset.task_id is not None and dataset.task_type == "regression"
    if has_option and is_ragged and not sparse.issparse(dataset.X):
        params = {**candidate.params, "intercepts": "shrunken"}
        candidate = replace(candidate, params=params)
    if "prior" in candidate.grid:
        # The search takes up to six times as long as a fit with the normal prior, and
        # its median gain on twelve grouped tables is 0 (docs/benchmarks.md).
        candidate = replace(candidate, grid={})
    return _scaled(candidate, dataset)


def registered(name: str, scale: Scale, search_tol: float, fit_tol: float) -> Candidate:
    """Return a method of the registry with its grid.

    Parameters
    ----------
    name : str
    scale : Scale
        Size of the data, on which the grid depends.
    search_tol, fit_tol : float
        Tolerances of the search and of the last fit, for multi-task methods.
    """
    info = METHODS[name]
    params = dict(info.default_params)
    fast = dict(info.fast)
    if info.multitask and "tol" in info.parameters:
        params["tol"] = fit_tol
        fast["tol"] = search_tol
    return Candidate(
        name,
        family_of(name),
        name,
        params=params,
        grid=grid_of(name, scale),
        select_with=fast,
    )


def family_of(name: str) -> str:
    """Return the family of a method of the registry."""
    if METHODS[name].multitask:
        return MULTITASK
    if "Pooled" in name:
        return POOLED
    return INDEPENDENT


def _model_name(candidate: Candidate) -> str:
    """Return the estimator of a method without the wrapper that scales targets."""
    if candidate.estimator == SCALED:
        name: str = candidate.params["estimator"]["estimator"]
        return name
    return candidate.estimator


def has_coefficients(candidate: Candidate) -> bool:
    """Whether the fitted method has coefficients, as far as its class tells."""
    without = getattr(load_class(_model_name(candidate)), "_without", ())
    return "coef_" not in without


def grid_of(name: str, scale: Scale) -> dict[str, list[Any]]:
    """Return the grid of a method: by the scale of the data, or its default grid."""
    metadata = getattr(load_class(name), "metadata", None)
    if not isinstance(metadata, MethodMetadata):
        return {}
    if metadata.search:
        return metadata.search(scale)
    return {name: list(values) for name, values in metadata.default_grid.items()}


def _scaled(candidate: Candidate, dataset: Dataset) -> Candidate:
    """Return the method on scaled targets, for numbers.

    One regularization strength suits all tasks only if their targets have equal
    variances.
    """
    if dataset.task_type != "regression" or candidate.family == TRIVIAL:
        return candidate
    inner = {"estimator": candidate.estimator, "params": candidate.params}
    return replace(
        candidate,
        estimator=SCALED,
        params={"estimator": inner},
        grid=_inner_names(candidate.grid),
        select_with=_inner_names(candidate.select_with),
    )


def _with_model_param(candidate: Candidate, name: str, value: Any) -> Candidate:
    """Return the method with a parameter of its model, which may be wrapped."""
    if candidate.estimator == SCALED:
        name = f"{INNER}{name}"
    return replace(candidate, params=with_params(candidate.params, {name: value}))


def with_unseen(candidate: Candidate, unseen: str) -> Candidate:
    """Return the method with its rule for tasks that have no training rows.

    A method without such a rule is returned unchanged.
    """
    if unseen == "error":
        return candidate
    names = parameter_names(_model_name(candidate)) or ()
    if "unseen" not in names:
        return candidate
    return _with_model_param(candidate, "unseen", unseen)


def with_levels(candidate: Candidate, dataset: Dataset) -> Candidate:
    """Return the method with the further groups of a table, if it can use them.

    The baseline that fits each task by itself uses groups that are nested in the tasks
    only: a group that occurs in several tasks would share between them.
    """
    if not dataset.levels or not is_smooth(_model_name(candidate)):
        return candidate
    is_single = candidate.family == INDEPENDENT
    if is_single and len(nested_levels(dataset)) < len(dataset.levels):
        return candidate
    # The groups are the last columns of the features.
    positions = list(range(-len(dataset.levels), 0))
    candidate = _with_model_param(candidate, "levels", positions)
    return replace(candidate, features=TABLE_WITH_LEVELS)


def nested_levels(dataset: Dataset) -> list[str]:
    """Return the columns of further groups that are nested in the tasks.

    Each group of such a column has rows of one task only.
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
    """Return the method with selected parameters, and without a search."""
    return replace(
        candidate,
        params=with_params(candidate.params, chosen),
        grid={},
        select_with={},
        halving=False,
    )


def calibrated(candidate: Candidate) -> Candidate:
    """Return the method with probabilities, calibrated by scores of held-out rows."""
    inner = {"estimator": candidate.estimator, "params": candidate.params}
    return Candidate(
        candidate.label,
        candidate.family,
        f"{BASELINES_MODULE}:CalibratedTasks",
        {"estimator": inner},
        features=candidate.features,
    )
