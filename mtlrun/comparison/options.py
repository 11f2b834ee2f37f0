"""Options of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlrun.comparison.candidates import read_families
from mtlrun.data.frames import several
from mtlrun.data.roles import Roles
from mtlrun.engine.pool import Pool
from mtlrun.errors import ConfigError
from mtlrun.utils.sizes import FOLDS as MAX_FOLDS
from mtlrun.utils.sizes import PLANNED, allow

#: Default number of folds of the comparison.
SPLITS = 5
#: Default number of times that these folds are drawn.
REPEATS = 2
#: Default number of folds of the search inside the training rows. The same folds decide
#: between the methods of a strategy. With fewer folds, the poor selection of a baseline
#: would count as a gain of multi-task learning.
FOLDS = 5

#: Smallest values of options.
_MINIMUM = {"splits": 2, "repeats": 1, "folds": 2, "seed": 0, "retries": 0}
#: Options that take one name or several.
_LISTS = (
    "drop",
    "categorical",
    "keep",
    "task_order",
    "also_grouped_by",
    "methods",
    "family",
)


@dataclass(frozen=True, kw_only=True)
class TargetColumns:
    """Columns to predict, and the column of the tasks; see `mtlrun.compare`."""

    target: str | None = None
    task: str | None = None
    targets: str | Sequence[str] = ()
    targets_last: int | None = None
    labels: str | Path | None = None


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of `mtlrun.compare` except the table and the columns to predict.

    Attributes
    ----------
    task_type : {"binary", "regression", "multiclass"} or None
        Default: inferred from the targets.
    positive : str or None
        Label that means +1. Default: the larger, or alphabetically later one.
    weight : str or None
        Column of row weights.
    group : str or None
        Column of groups whose rows stay in the same fold.
    time : str or None
        Column of a number or a date: the last rows of each task are tested after its
        earlier ones.
    time_blocks : bool
        Whether `time` cuts blocks over all tasks instead, each tested after training on
        all rows before it.
    new_tasks : bool
        Whether whole tasks are tested, after training on the other tasks.
    since_first : str or None
        Column of a number or a date: the time since the first row of the task becomes a
        feature.
    transform : {"log", "sqrt", "logit"} or None
        Function of the targets on whose scale methods are fitted and compared.
        Predictions are in the units of the targets, and medians.
    drop : sequence of str
        Columns that are ignored.
    categorical : sequence of str
        Columns that are categories although they hold numbers.
    keep : sequence of str
        Columns that stay features although they look like identifiers; ``*`` for all.
    mixed : {"error", "categories"}
        Whether columns that mix numbers and words are refused or become categories.
    min_rows : int or None
        Tasks with fewer rows are left out. Default: all tasks are kept.
    unseen : {"error", "mean"}
        Whether tasks without training rows are refused, or predicted with the mean of
        all task models.
    task_order : sequence of str
        Tasks that come first, in this order, for methods that chain the tasks.
    also_grouped_by : sequence of str
        Columns of further groups, for methods that can use them. They are not features.
    methods : sequence of str
        Names of methods or classes. Default: the methods for such a table.
    metric : str or None
        Default: AUC for labels, RMSE for one target in many tasks, normalized MSE for
        several targets.
    budget : float or None
        Minutes that the comparison may take.
    splits : int
        Folds that are tested in turn.
    repeats : int
        Number of times that these folds are drawn.
    folds : int
        Folds of the search for parameters and of the selection of methods.
    seed : int
    jobs : int
        Processes; -1 for all cores.
    retries : int
        Number of times that a failed fit is repeated.
    calibrate : bool
        Whether the saved classifier predicts probabilities.
    smallest_gain : float or None
        Smallest gain of interest. Default: 0.01 (1% of the error), or 0.005 of the AUC.
    family : sequence of str
        Families of classes, such as ``multi-task=package.module:Class``; other classes
        do not count in the verdict.
    curve : bool
        Whether the comparison is repeated with fewer training rows.
    racing : bool
        Whether methods of the default list are stopped in a training part when they
        are far behind the best one after the first inner folds. Methods that are named
        in `methods` are never stopped.
    backend : str or None
        Only for tables in chunks: ``"dask"``.
    scheduler : str or None
        Address of the Dask scheduler.

    Raises
    ------
    ConfigError
        If a value is impossible; names the option.
    """

    task_type: str | None = None
    positive: str | None = None
    weight: str | None = None
    group: str | None = None
    time: str | None = None
    time_blocks: bool = False
    new_tasks: bool = False
    since_first: str | None = None
    transform: str | None = None
    drop: str | Sequence[str] = ()
    categorical: str | Sequence[str] = ()
    keep: str | Sequence[str] = ()
    mixed: str = "error"
    min_rows: int | None = None
    unseen: str = "error"
    task_order: str | Sequence[str] = ()
    also_grouped_by: str | Sequence[str] = ()
    methods: str | Sequence[str] = ()
    metric: str | None = None
    budget: float | None = None
    splits: int = SPLITS
    repeats: int = REPEATS
    folds: int = FOLDS
    seed: int = 0
    jobs: int = 1
    retries: int = 0
    calibrate: bool = False
    smallest_gain: float | None = None
    family: str | Sequence[str] = ()
    curve: bool = False
    racing: bool = True
    backend: str | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        # The options are frozen, but lists may be given as a single name.
        for name in _LISTS:
            object.__setattr__(self, name, several(getattr(self, name) or ()))
        for name, minimum in _MINIMUM.items():
            value = getattr(self, name)
            if not value >= minimum:
                raise ConfigError(
                    f"--{name} must be at least {minimum}, not {value:g}",
                    f"Give {minimum} or more.",
                )
        remedy = "Choose a smaller number."
        allow("splits", self.splits, MAX_FOLDS, "folds", remedy)
        allow("folds", self.folds, MAX_FOLDS, "folds", remedy)
        n_splits = self.splits * self.repeats
        allow("repeats", n_splits, PLANNED, "splits", "Choose smaller numbers.")
        # The comparison is written so that NaN is refused, too.
        if self.budget is not None and not self.budget > 0:
            raise ConfigError(
                f"--budget must be more than 0 minutes, not {self.budget:g}",
                "Give minutes.",
            )
        if self.smallest_gain is not None and not 0 <= self.smallest_gain < 1:
            raise ConfigError(
                "--smallest-gain takes a fraction from 0 to below 1, not "
                f"{self.smallest_gain:g}",
                "For 7% write 0.07.",
            )
        read_families(self.family)
        # Refuses an impossible number of processes.
        Pool(self.jobs)

    def roles(self, targets: Sequence[str], task: str | None) -> Roles:
        """Return the roles of the columns of the table."""
        return Roles(
            targets=tuple(targets),
            task=task,
            task_type=self.task_type,
            positive=self.positive,
            weight=self.weight,
            group=self.group,
            time=self.time,
            time_blocks=self.time_blocks,
            new_tasks=self.new_tasks,
            since_first=self.since_first,
            transform=self.transform,
            drop=tuple(self.drop),
            categorical=tuple(self.categorical),
            min_rows=self.min_rows,
            unseen="mean" if self.new_tasks else self.unseen,
            task_order=tuple(self.task_order),
            keep=tuple(self.keep),
            mixed=self.mixed,
            also_grouped_by=tuple(self.also_grouped_by),
        )

    def protocol_options(self) -> dict[str, Any]:
        """Return the options on which the numbers depend, as in ``compare.json``."""
        return {
            "methods": list(self.methods),
            "metric": self.metric,
            "budget": self.budget,
            "splits": self.splits,
            "repeats": self.repeats,
            "folds": self.folds,
            "seed": self.seed,
            "calibrate": self.calibrate,
            "smallest_gain": self.smallest_gain,
            "family": list(self.family),
            "curve": self.curve,
            "racing": self.racing,
        }
