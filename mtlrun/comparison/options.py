"""Options of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlrun.comparison.candidates import read_families
from mtlrun.data.reading.frames import several
from mtlrun.errors import ConfigError
from mtlrun.parallel.pool import Pool
from mtlrun.utils.sizes import FOLDS as MAX_FOLDS
from mtlrun.utils.sizes import PLANNED, allow

#: Default number of folds of the comparison.
SPLITS = 5
#: Default number of times that these folds are drawn. More repeats hardly change a
#: verdict: the noise is the one of the tested rows.
REPEATS = 1
#: Default number of folds of the search inside the training rows. The same folds decide
#: between the methods of a strategy. With fewer folds, the poor selection of a baseline
#: would count as a gain of multi-task learning.
FOLDS = 5

#: Smallest values of options.
_MINIMUM = {"splits": 2, "repeats": 1, "folds": 2, "seed": 0, "retries": 0}
#: Options that take one name or several.
_LISTS = ("methods", "family")


@dataclass(frozen=True, kw_only=True)
class TargetColumns:
    """Columns to predict, named in one of four ways; see `mtlrun.compare`."""

    target: str | None = None
    targets: str | Sequence[str] = ()
    targets_last: int | None = None
    labels: str | Path | None = None

    def __post_init__(self) -> None:
        # Names may come in an index or array, which has no truth value.
        object.__setattr__(self, "targets", several(self.targets))


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of `mtlrun.compare` except the table and the roles of its columns.

    Attributes
    ----------
    methods : sequence of str
        Names of methods or classes. Default: the methods for such a table.
    metric : str or None
        Default: AUC for labels (log loss for several classes, and where most tasks have
        too few rows for the AUC), RMSE for one target in many tasks, normalized MSE for
        several targets.
    budget : float or None
        Minutes that the comparison may take.
    splits : int
        Folds that are tested in turn.
    repeats : int
        Number of times that these folds are drawn, as long as they differ.
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
    margin : float or None
        Loss that is accepted for a model that may be better: if multi-task learning
        has at most this much more error than each alternative, the verdict is to use
        it. Default: 0.02 (2% of the error), or 0.01 of the AUC.
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
    margin: float | None = None
    family: str | Sequence[str] = ()
    curve: bool = False
    racing: bool = True
    backend: str | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        # The options are frozen, but lists may be given as a single name.
        for name in _LISTS:
            object.__setattr__(self, name, several(getattr(self, name)))
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
        fractions = {"smallest-gain": self.smallest_gain, "margin": self.margin}
        for name, value in fractions.items():
            if value is not None and not 0 <= value < 1:
                raise ConfigError(
                    f"--{name} takes a fraction from 0 to below 1, not {value:g}",
                    "For 7% write 0.07.",
                )
        read_families(self.family)
        # Refuses an impossible number of processes.
        Pool(self.jobs)

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
            "margin": self.margin,
            "family": list(self.family),
            "curve": self.curve,
            "racing": self.racing,
        }
