"""Roles of the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from mtlrun.utils.options import PROTOCOL, OptionHelp, check_minimums
from mtlrun.utils.text import normalized, several


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Roles of the columns of a table.

    Declared here for `mtlrun.compare`, its command, and the reader of cards (`read`).

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
    drop_rows : bool
        Whether training rows with far cells, and many repeated rows, are left out; see
        `mtlrun.check_table`.
    clip : bool
        Whether far cells of training rows become the nearest of the other numbers.
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
    targets: Annotated[
        str | Sequence[str],
        OptionHelp(
            "A,B,C",
            "Several columns to predict, one task each, on the same rows; 'y*' stands "
            "for all that match. Repeatable; names with commas in double quotes.",
        ),
    ] = ()
    task: Annotated[
        str | None, OptionHelp("COLUMN", "Column that names the task of each row.")
    ] = None
    task_type: Annotated[
        str | None,
        OptionHelp(
            "TYPE",
            "binary, regression or multiclass (one task per class). Default: inferred "
            "from the targets.",
            choices=("binary", "regression", "multiclass"),
        ),
    ] = None
    positive: Annotated[
        str | None, OptionHelp("LABEL", "Label of the positive class (+1).")
    ] = None
    weight: Annotated[
        str | None, OptionHelp("COLUMN", "Column with the weights of the rows.")
    ] = None
    drop: Annotated[
        str | Sequence[str], OptionHelp("A,B,C", "Columns to ignore. Repeatable.")
    ] = ()
    drop_rows: Annotated[
        bool,
        OptionHelp(
            None,
            "Leave out rows with cells far from all others, and many repeated rows, as "
            "mtlrun data check finds them. Test rows of --test stay.",
        ),
    ] = False
    clip: Annotated[
        bool,
        OptionHelp(
            None,
            "Replace numbers far from all others by the nearest of the others. Test rows "
            "of --test stay.",
        ),
    ] = False
    categorical: Annotated[
        str | Sequence[str],
        OptionHelp(
            "A,B,C",
            "Columns to treat as categories (one-hot encoded): numbers that are names, "
            "and mixed columns. Repeatable.",
        ),
    ] = ()
    mixed: Annotated[
        str,
        OptionHelp(
            "error|categories",
            "Columns that mix numbers and words: report them all and stop, or treat "
            "them as categories.",
            choices=("error", "categories"),
        ),
    ] = "error"
    keep: Annotated[
        str | Sequence[str],
        OptionHelp(
            "A,B,C",
            "Keep these columns as features although they look like identifiers, such "
            "as row numbers. Repeatable.",
        ),
    ] = ()
    task_order: Annotated[
        str | Sequence[str],
        OptionHelp(
            "A,B,C",
            "Order of the tasks, for methods that chain them (each task leans on its "
            "neighbors, as years do). Tasks not named come after these. Default: "
            "sorted, numbers by value. Repeatable.",
        ),
    ] = ()
    also_grouped_by: Annotated[
        str | Sequence[str],
        OptionHelp(
            "A,B,C",
            "Columns of further groups, within the tasks or across them, such as the "
            "pupil where the task is the school: SmoothMTL gives each group a level. "
            "They are not features. Repeatable.",
        ),
    ] = ()
    transform: Annotated[
        str | None,
        OptionHelp(
            "log|sqrt|logit",
            "Fit and compare on this scale of the columns to predict; predictions and "
            "intervals are in their own units.",
            choices=("log", "sqrt", "logit"),
        ),
    ] = None
    since_first: Annotated[
        str | None,
        OptionHelp(
            "COLUMN",
            "Make the time since the first row of the task a feature, by this number "
            "or date.",
        ),
    ] = None
    min_rows: Annotated[
        int | None,
        OptionHelp(
            "N",
            "Leave out tasks with fewer rows than this. Default: all tasks are kept.",
            minimum=1,
        ),
    ] = None
    group: Annotated[
        str | None,
        OptionHelp(
            "COLUMN",
            "Keep rows with the same value in the same fold, such as a pupil with "
            "several rows.",
            PROTOCOL,
        ),
    ] = None
    time: Annotated[
        str | None,
        OptionHelp(
            "COLUMN",
            "Predict the next rows of known tasks: test the last rows of each task, by "
            "this number or date, after training on its earlier rows.",
            PROTOCOL,
        ),
    ] = None
    time_blocks: Annotated[
        bool,
        OptionHelp(
            None,
            "With --time: test blocks of time over all tasks, each after training on "
            "all rows before it.",
            PROTOCOL,
        ),
    ] = False
    new_tasks: Annotated[
        bool,
        OptionHelp(
            None,
            "Predict new tasks: test whole tasks, after training on the other ones.",
            PROTOCOL,
        ),
    ] = False
    unseen: Annotated[
        str,
        OptionHelp(
            "error|mean",
            "Tasks without training rows: raise an error, or predict with the mean of "
            "all task models.",
            PROTOCOL,
            choices=("error", "mean"),
        ),
    ] = "error"

    def __post_init__(self) -> None:
        # Columns are found by normalized names, whoever wrote the option or the card.
        for name in ("task", "weight", "group", "time", "positive", "since_first"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, normalized(value))
        lists = ("targets", "drop", "categorical", "keep", "task_order")
        for name in (*lists, "also_grouped_by"):
            object.__setattr__(self, name, several(getattr(self, name)))
        check_minimums(self)
