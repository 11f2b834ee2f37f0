"""What a comparison is asked for, and what goes with the data where nothing is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtlrun.data.dataset import Dataset
from mtlrun.data.roles import Roles
from mtlrun.errors import ConfigError, suggest
from mtlrun.metrics import METRICS, get_metric
from mtlrun.runs.pool import Pool

#: Numbers in X times tasks up to which there are five splits, and up to which there are three; beyond, two.
MANY_SPLITS, SOME_SPLITS = 1_000_000, 5_000_000
FOLDS = 3


@dataclass(frozen=True)
class Settings:
    """What `compare` is asked for beside the parts of the columns.

    Attributes
    ----------
    methods : tuple of str
        Empty: the default methods.
    metric : str or None
        Default: AUC for labels, RMSE for one target in many tasks, normalised MSE for several targets.
    budget : float or None
        Minutes.
    splits, folds : int or None
        Repeated splits (default by the size of the data) and folds of the search.
    train : float
        Part of the rows of every task to train on.
    seed, jobs : int
    calibrate : bool
        Whether the saved classifier gives probabilities.
    """

    methods: tuple[str, ...] = ()
    metric: str | None = None
    budget: float | None = None
    splits: int | None = None
    folds: int = FOLDS
    train: float = 0.7
    seed: int = 0
    jobs: int = 1
    calibrate: bool = False


def read_settings(options: dict[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Return the settings, and the options that are parts of columns.

    Raises
    ------
    TypeError
        For an unknown option; names the nearest.
    ConfigError
        For a value that none can have.
    """
    own = set(Settings.__dataclass_fields__)
    parts = set(Roles.__dataclass_fields__) - {"targets", "task", *own}
    for name in options:
        if name not in own | parts:
            near = suggest(name, own | parts)
            raise TypeError(f"compare has no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    chosen = {name: value for name, value in options.items() if name in own and value is not None}
    if "methods" in chosen:
        chosen["methods"] = several(chosen["methods"])
    settings = Settings(**chosen)
    for name, low in (("splits", 1), ("folds", 2), ("budget", 0), ("seed", 0)):
        value = getattr(settings, name)
        if value is not None and (not value >= low or (name == "budget" and value == 0)):  # also NaN
            least = "more than 0 minutes" if name == "budget" else f"at least {low}"
            raise ConfigError(f"{name} must be {least}, not {value:g}")
    Pool(settings.jobs)  # refuses a number of processes that is none
    if not 0 < settings.train < 1:
        raise ConfigError(f"train must be a part between 0 and 1, not {settings.train:g}")
    given = {name: value for name, value in options.items() if name in parts and value is not None}
    for name in ("drop", "categorical"):
        if name in given:
            given[name] = several(given[name])
    return settings, given


def several(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return names that may be given as one text."""
    return (names,) if isinstance(names, str) else tuple(names)


def roles_of(names: tuple[str, ...], task: str | None, settings: Settings, given: dict[str, Any]) -> Roles:
    """Return the parts of the columns; how rows are split is one of them only where a column says it."""
    shared: dict[str, Any] = {}
    if given.get("group") or given.get("time"):
        shared["train"] = settings.train
    if given.get("group"):
        shared |= {"seed": settings.seed, "splits": settings.splits or 3}
    return Roles(targets=names, task=task, **shared, **given)


def metric_of(name: str | None, dataset: Dataset) -> str:
    """Return the metric that is asked for, or that goes with the targets.

    Raises
    ------
    ConfigError
        If it does not go with them.
    """
    regression = dataset.task_type == "regression"
    if name is None:
        return "auc" if not regression else "nmse" if dataset.task_id is None else "rmse"
    if (get_metric(name).needs == "value") != regression:
        fit = ", ".join(m.name for m in METRICS.values() if (m.needs == "value") == regression)
        kind = "numbers" if regression else "labels"
        raise ConfigError(f"the metric {name!r} does not go with targets that are {kind}", f"Use one of: {fit}.")
    return name


def split_of(dataset: Dataset, settings: Settings) -> dict[str, Any]:
    """Return how rows are parted, as a training file says it."""
    if dataset.splits:
        return {"kind": "published", "name": next(iter(dataset.splits))}
    return {"kind": "random", "train": settings.train}


def n_splits_of(dataset: Dataset, settings: Settings) -> int:
    """Return how many splits there are; by the size of the data, if nothing is said."""
    if dataset.splits:
        return len(next(iter(dataset.splits.values())))
    if settings.splits is not None:
        return settings.splits
    size = dataset.n_samples * dataset.n_features * (dataset.n_tasks if dataset.task_id is None else 1)
    return 5 if size <= MANY_SPLITS else 3 if size <= SOME_SPLITS else 2
