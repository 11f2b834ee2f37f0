"""Options of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from mtlrun.data.roles.roles import Roles
from mtlrun.errors import ConfigError
from mtlrun.parallel.pool import Pool
from mtlrun.utils.options import PROTOCOL, RUN, OptionHelp, check_minimums, part_of
from mtlrun.utils.sizes import FOLDS as MAX_FOLDS
from mtlrun.utils.sizes import PLANNED, allow
from mtlrun.utils.text import several

#: Default number of folds of the comparison.
SPLITS = 5


@dataclass(frozen=True, kw_only=True)
class TargetColumns:
    """Columns to predict, named in one of four ways; see `mtlrun.compare`."""

    target: Annotated[
        str | None, OptionHelp("COLUMN", "Column to predict.", short="-t")
    ] = None
    targets: str | Sequence[str] = ()
    targets_last: Annotated[
        int | None,
        OptionHelp("N", "The last N columns are the columns to predict.", minimum=1),
    ] = None
    labels: Annotated[
        str | Path | None,
        OptionHelp(
            "FILE.xml", "List of labels in Mulan's format: the columns to predict."
        ),
    ] = None

    def __post_init__(self) -> None:
        # Names may come in an index or array, which has no truth value.
        object.__setattr__(self, "targets", several(self.targets))
        check_minimums(self)


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

    methods: Annotated[
        str | Sequence[str],
        OptionHelp(
            "A,B,C",
            "Methods to compare: names from `mtlrun list methods`, "
            "package.module:Class, or default. Always included: TaskMean (the mean of "
            "every task), IndependentRidge and IndependentRidgeCV (a model per task) "
            "and PooledRidge (one for all), or the same for labels. Repeatable.",
            PROTOCOL,
        ),
    ] = ()
    family: Annotated[
        str | Sequence[str],
        OptionHelp(
            "FAMILY=CLASS",
            "Let a class of your own of --methods compete in the verdict, as one of "
            "trivial, independent, pooled or multi-task: "
            "multi-task=mine:Class. Without it the class is only listed.",
            PROTOCOL,
        ),
    ] = ()
    metric: Annotated[
        str | None,
        OptionHelp(
            "NAME",
            "Score to compare by. Default: auc or log_loss for labels, rmse or nmse for "
            "numbers.",
            PROTOCOL,
        ),
    ] = None
    budget: Annotated[
        float | None,
        OptionHelp(
            "MINUTES",
            "Time limit: cheap methods come first, and what is finished by then is "
            "compared.",
            PROTOCOL,
        ),
    ] = None
    splits: Annotated[
        int, OptionHelp("K", "Folds of the cross-validation.", PROTOCOL, minimum=2)
    ] = SPLITS
    repeats: Annotated[
        int,
        OptionHelp(
            "R",
            "How often the folds are drawn. More than once hardly changes the verdict: "
            "the noise is the one of the tested rows.",
            PROTOCOL,
            minimum=1,
        ),
    ] = 1
    # With fewer inner folds, the poor selection of a baseline would count as a gain of
    # multi-task learning.
    folds: Annotated[
        int, OptionHelp("N", "Folds of the parameter search.", PROTOCOL, minimum=2)
    ] = 5
    smallest_gain: Annotated[
        float | None,
        OptionHelp(
            "GAIN",
            "Smallest gain of interest: a share of the error, or points of AUC. "
            "Default: 0.01, or 0.005 of AUC.",
            PROTOCOL,
        ),
    ] = None
    margin: Annotated[
        float | None,
        OptionHelp(
            "LOSS",
            "Accepted loss: multi-task learning is safe if it has at most this much "
            "more error than each alternative. Default: 0.02, or 0.01 of AUC.",
            PROTOCOL,
        ),
    ] = None
    curve: Annotated[
        bool,
        OptionHelp(
            None,
            "Repeat the comparison with 10, 20 and 50% of the training rows of each "
            "task.",
            PROTOCOL,
        ),
    ] = False
    racing: Annotated[
        bool,
        OptionHelp(
            None,
            "Stop default methods that are far behind after the first folds of the "
            "parameter search. Methods that --methods names are never stopped.",
            PROTOCOL,
        ),
    ] = True
    calibrate: Annotated[
        bool,
        OptionHelp(None, "Make the saved classifier predict probabilities.", PROTOCOL),
    ] = False
    seed: Annotated[int, OptionHelp("N", "Seed of the folds.", PROTOCOL, minimum=0)] = 0
    retries: Annotated[
        int,
        OptionHelp("N", "How often to retry a fit that fails.", RUN, minimum=0),
    ] = 0
    # The command line has these options in other commands, too.
    jobs: int = 1
    backend: str | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        # The options are frozen, but lists may be given as a single name.
        object.__setattr__(self, "methods", several(self.methods))
        object.__setattr__(self, "family", several(self.family))
        check_minimums(self)
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


def options_of(
    values: Mapping[str, Any],
) -> tuple[TargetColumns, Roles, CompareOptions]:
    """Return the options of a comparison from the values of all their fields.

    The targets are in `TargetColumns` alone: their names may be patterns.
    """
    return (
        part_of(values, TargetColumns),
        replace(part_of(values, Roles), targets=()),
        part_of(values, CompareOptions),
    )
