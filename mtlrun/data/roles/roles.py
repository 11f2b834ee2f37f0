"""Roles of the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from mtlrun.data.reading.frames import several
from mtlrun.data.reading.names import normalized


@dataclass(frozen=True)
class Roles:
    """Roles of the columns of a table.

    This is the only definition of their types and defaults: `mtlrun.compare` and its
    command fill a `Roles`, and the reader of cards (`read`) takes its fields as options.

    Attributes
    ----------
    targets : tuple of str
        Columns to predict; several columns are the tasks of a shared design. Empty: the
        targets of the file format.
    task : str or None
        Column that names the task of each row (one target only).
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
    drop : tuple of str
        Columns that are ignored.
    categorical : tuple of str
        Columns that are categories although they hold numbers.
    min_rows : int or None
        Tasks with fewer rows are left out. Default: all tasks are kept.
    unseen : {"error", "mean"}
        Whether tasks without training rows are refused, or predicted with the mean of
        all task models.
    task_order : tuple of str
        Tasks that come first, in this order, for methods that chain the tasks; the
        others follow sorted.
    keep : tuple of str
        Columns that stay features although they look like identifiers; ``*`` for all.
    mixed : {"error", "categories"}
        Whether columns that mix numbers and words are refused or become categories.
    also_grouped_by : tuple of str
        Columns of further groups, nested in the tasks or crossed with them, for methods
        that can use them. They are not features.
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
    """

    # A single name stands for a list of one name; the attributes are always tuples.
    targets: str | Sequence[str] = ()
    task: str | None = None
    _: KW_ONLY
    task_type: str | None = None
    positive: str | None = None
    weight: str | None = None
    group: str | None = None
    time: str | None = None
    drop: str | Sequence[str] = ()
    categorical: str | Sequence[str] = ()
    min_rows: int | None = None
    unseen: str = "error"
    task_order: str | Sequence[str] = ()
    keep: str | Sequence[str] = ()
    mixed: str = "error"
    also_grouped_by: str | Sequence[str] = ()
    time_blocks: bool = False
    new_tasks: bool = False
    since_first: str | None = None
    transform: str | None = None

    def __post_init__(self) -> None:
        # Columns are found by normalized names, whoever wrote the option or the card.
        for name in ("task", "weight", "group", "time", "positive", "since_first"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, normalized(value))
        lists = ("targets", "drop", "categorical", "keep", "task_order")
        for name in (*lists, "also_grouped_by"):
            object.__setattr__(self, name, several(getattr(self, name)))
