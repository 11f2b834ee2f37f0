"""The methods that `mtlrun compare` tries, and the values it searches for their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mtlrun.data.dataset import Dataset
from mtlrun.errors import ConfigError, UnknownNameError, suggest
from mtlrun.estimators.baselines import PerTask, for_tasks
from mtlrun.estimators.facts import Facts, Scale
from mtlrun.estimators.registry import METHODS, build, load_class
from mtlrun.runs.cell import with_params
from mtlrun.runs.methods import class_path, parameter_names

#: What a method is: the trivial answer, tasks alone, tasks as one, the task as a feature, or several tasks jointly.
TRIVIAL, INDEPENDENT, POOLED, FEATURE, MULTITASK = "trivial", "independent", "pooled", "task as feature", "multi-task"
TABULAR = "mtlrun.estimators.baselines"
SCALED = f"{TABULAR}:ScaledTargets"
INNER = "estimator__"
#: Parameters are chosen with this tolerance, the last fit has the other one: rankings need no exact solution.
SEARCH_TOL, FIT_TOL = 1e-3, 1e-4
#: With more tasks than this the position of the task is the feature of a forest, not one column per task.
MAX_ONE_HOT = 50
#: Labels of the baselines that are made of trees.
TREES = ("GradientBoosting+Task", "RandomForest+Task")
#: With more rows than this a tree of a forest is grown on so many of them, and trees are not tuned.
MAX_TREE_ROWS = 20000

_WIDE = (0.001, 0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Candidate:
    """One row of the leaderboard.

    Attributes
    ----------
    label : str
    family : str
        One of the constants above.
    estimator : str
    params, select_with : dict
    grid : dict of str to list
        Empty when nothing is searched.
    """

    label: str
    family: str
    estimator: str
    params: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    select_with: dict[str, Any] = field(default_factory=dict)

    @property
    def n_candidates(self) -> int:
        """Combinations of the grid."""
        count = 1
        for values in self.grid.values():
            count *= len(values)
        return count

    @property
    def method(self) -> dict[str, Any]:
        """What a training file says of it."""
        given = {name: getattr(self, name) for name in ("params", "grid", "select_with")}
        return {"estimator": self.estimator, **{name: value for name, value in given.items() if value}}

    def options(self) -> list[Candidate]:
        """Return the method with its whole grid, with a third of it and with one combination, as far as they differ."""
        found = [self, self.shrunk(max(self.n_candidates // 3, 2)), self.shrunk(1)]
        return list({(o.n_candidates, bool(o.grid)): o for o in reversed(found)}.values())[::-1]

    def shrunk(self, most: int) -> Candidate:
        """Return the method with at most so many combinations: values are thinned out, the middle ones stay last."""
        grid = {name: list(values) for name, values in self.grid.items()}
        small = replace(self, grid=grid)
        while small.n_candidates > max(most, 1):
            name = max(grid, key=lambda key: len(grid[key]))
            values = grid[name]
            grid[name] = values[::2] if len(values) > 3 else [values[len(values) // 2]]
            small = replace(self, grid=grid)
        if small.n_candidates > 1:
            return small
        # One combination is no search: it becomes the parameters.
        return replace(
            self, params=with_params(self.params, {k: v[0] for k, v in grid.items()}), grid={}, select_with={}
        )


def default_candidates(dataset: Dataset, train: float) -> list[Candidate]:
    """Return the methods tried by default, the cheapest first within baselines and within multi-task models.

    Parameters
    ----------
    dataset : Dataset
        Binary or regression.
    train : float
        Part of the rows that is trained on.
    """
    found = _baselines(dataset, _scale(dataset, train))
    for name in ("JointFeatureMTL", "GraphMTL", "TraceNormMTL", "RobustMTL", "RobustFeatureMTL", "SparseLowRankMTL"):
        found.append(_registered(_twin(name, dataset), dataset, train))
    for name in ("DirtyMTL", "ClusteredMTL", "ConvexASO"):
        found.append(_registered(_twin(name, dataset), dataset, train))
    if dataset.task_type == "regression":
        found.append(_registered("MTRL", dataset, train))
    return found


def named_candidates(names: Sequence[str], dataset: Dataset, train: float) -> list[Candidate]:
    """Return the methods of these names, with the trivial and an independent baseline always in front.

    Parameters
    ----------
    names : sequence of str
        Labels of the default methods, ``default`` for all of them, names of the registry, or ``package.module:Class``.

    Raises
    ------
    UserError
        For any other name, and for a class that does not exist or has no `fit`.
    """
    standard = {candidate.label: candidate for candidate in default_candidates(dataset, train)}
    first = [c for c in standard.values() if c.family in (TRIVIAL, INDEPENDENT)][:2]
    found = {candidate.label: candidate for candidate in first}
    for name in names:
        twin = _twin(name, dataset)
        if name == "default":
            found |= standard
        elif twin in standard or name in standard:
            candidate = standard.get(name) or standard[twin]
            found[candidate.label] = candidate
        elif twin in METHODS and not METHODS[twin].foreign:
            found[twin] = _registered(twin, dataset, train)
        elif twin in METHODS:
            grid = _grid(twin, _scale(dataset, train))
            found[twin] = _wrapped(Candidate(twin, _family(twin, dataset), twin, grid=grid), dataset)
        elif ":" in name:
            short = name.partition(":")[2]
            label = name if short in found.keys() | standard.keys() | METHODS.keys() else short
            found[label] = _wrapped(Candidate(label, _family(name, dataset), class_path(name)), dataset)
        else:
            _refuse(name, standard)
    return list(found.values())


def _refuse(name: str, standard: dict[str, Candidate]) -> None:
    known = dict.fromkeys([*standard, *METHODS, "default"])
    if suggest(name, known):
        raise UnknownNameError("method", name, known)
    remedy = f"See `mtlrun list methods`. Compared by default: {', '.join(standard)}."
    raise ConfigError(f"unknown method {name!r}", remedy)


def _family(name: str, dataset: Dataset) -> str:
    """Return the kind of a class from outside the registry: does it see all tasks, or is it fitted to every one alone?

    Raises
    ------
    ConfigError
        If the class cannot be made.
    """
    class_path(name)  # names what is missing without importing anything
    try:
        estimator = build(name)
    except TypeError as error:
        remedy = "Use a training file or an experiment, which set parameters: method: {estimator: ..., params: ...}."
        raise ConfigError(f"{name!r} cannot be created without parameters: {error}", remedy) from None
    return INDEPENDENT if isinstance(for_tasks(estimator, dataset.y, dataset.task_id), PerTask) else MULTITASK


def _twin(name: str, dataset: Dataset) -> str:
    """Return the classifier of a model where labels are predicted and there is one."""
    return f"{name}Classifier" if dataset.task_type == "binary" and f"{name}Classifier" in METHODS else name


def _scale(dataset: Dataset, train: float) -> Scale:
    entries = dataset.y.size if dataset.task_id is not None else float((dataset.y == dataset.y).sum())
    return Scale(max(train * entries / dataset.n_tasks, 1.0), dataset.n_tasks)


def _baselines(dataset: Dataset, scale: Scale) -> list[Candidate]:
    binary = dataset.task_type == "binary"
    ridge, sparse = ("Logistic", "SVC") if binary else ("Ridge", "Lasso")
    linear = (
        {"estimator": "sklearn.linear_model:LogisticRegression", "params": {"max_iter": 300}}
        if binary
        else {"estimator": "sklearn.linear_model:Ridge"}
    )
    linear_grid = {"C": scale.inverse(_WIDE)[::-1]} if binary else {"alpha": scale.times(_WIDE)}
    kind = "Classifier" if binary else "Regressor"
    forest = {"n_estimators": 100, "max_features": "sqrt" if binary else 0.33, "random_state": 0}
    leaves: dict[str, list[Any]] = {"min_samples_leaf": [2, 10]}
    boosted: dict[str, list[Any]] = {"max_leaf_nodes": [4, 16]}
    if dataset.n_samples > MAX_TREE_ROWS:  # a search of trees would take most of the time
        forest |= {"max_samples": MAX_TREE_ROWS, "min_samples_leaf": 5}
        leaves = boosted = {}
    trees = "one-hot" if dataset.n_tasks <= MAX_ONE_HOT else "number"
    found = [
        Candidate("TaskMean", TRIVIAL, f"{TABULAR}:TaskMean"),
        *(
            Candidate(name, family, name, {}, _grid(name, scale))
            for name, family in (
                (f"Independent{ridge}", INDEPENDENT),
                (f"Independent{sparse}", INDEPENDENT),
                (f"Pooled{ridge}", POOLED),
            )
        ),
        _feature(f"Pooled{ridge}+Task", linear, linear_grid, "one-hot"),
        _feature(
            TREES[0],
            {
                "estimator": f"sklearn.ensemble:HistGradientBoosting{kind}",
                "params": {"max_iter": 100, "early_stopping": False, "random_state": 0},
            },
            boosted,
            trees,
        ),
        _feature(
            TREES[1],
            {"estimator": f"sklearn.ensemble:RandomForest{kind}", "params": forest},
            leaves,
            trees,
        ),
    ]
    return [_wrapped(candidate, dataset) for candidate in found]


def _feature(label: str, inner: dict[str, Any], grid: dict[str, list[Any]], encoding: str) -> Candidate:
    params = {"estimator": inner, "encoding": encoding}
    return Candidate(label, FEATURE, f"{TABULAR}:TaskFeature", params, {INNER + k: v for k, v in grid.items()})


def _registered(name: str, dataset: Dataset, train: float) -> Candidate:
    info = METHODS[name]
    family = MULTITASK if info.multitask else POOLED if name.startswith("Pooled") else INDEPENDENT
    known = parameter_names(name) or ()
    tolerances = "tol" in known and info.multitask
    params = {**info.default_params, **({"tol": FIT_TOL} if tolerances else {})}
    select_with = {**info.fast, **({"tol": SEARCH_TOL} if tolerances else {})}
    grid = _grid(name, _scale(dataset, train))
    return _wrapped(Candidate(name, family, name, params, grid, select_with if grid else {}), dataset)


def _grid(name: str, scale: Scale) -> dict[str, list[Any]]:
    """Return the values searched: those of the class for the scale of the data, if it has some, else its defaults."""
    facts = getattr(load_class(name), "facts", None)
    if not isinstance(facts, Facts):
        return {}
    return facts.search(scale) if facts.search else {name: list(values) for name, values in facts.grid.items()}


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
        select_with={INNER + name: value for name, value in candidate.select_with.items()},
    )


def with_unseen(candidate: Candidate, unseen: str) -> Candidate:
    """Return the method with its rule for tasks that have no training rows, where it has one."""
    wrapped = candidate.estimator == SCALED
    name = candidate.params["estimator"]["estimator"] if wrapped else candidate.estimator
    if unseen == "error" or "unseen" not in (parameter_names(name) or ()):
        return candidate
    return replace(candidate, params=with_params(candidate.params, {f"{INNER if wrapped else ''}unseen": unseen}))


def chosen_candidate(candidate: Candidate, chosen: dict[str, Any]) -> Candidate:
    """Return the method with parameters that were found, and no search."""
    return replace(candidate, params=with_params(candidate.params, chosen), grid={}, select_with={})


def calibrated(candidate: Candidate) -> Candidate:
    """Return the method with probabilities: its scores on held-out rows, calibrated."""
    inner = {"estimator": candidate.estimator, "params": candidate.params}
    return Candidate(
        candidate.label, candidate.family, "mtlrun.estimators.baselines:CalibratedTasks", {"estimator": inner}
    )
