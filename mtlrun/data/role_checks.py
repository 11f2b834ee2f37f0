"""Checks of the roles of columns: what exists, and what goes together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlrun.data.dataset import TASK_TYPES
from mtlrun.data.table import Table
from mtlrun.data.transforms import transform_named
from mtlrun.errors import DataError, UnknownNameError

if TYPE_CHECKING:
    from mtlrun.data.roles import Roles

#: Ways to treat tasks that occur only in the test rows.
UNSEEN = ("error", "mean")
#: Ways to treat columns that mix numbers and words.
MIXED = ("error", "categories")


def check_roles(table: Table, roles: Roles) -> None:
    """Refuse columns that do not exist, and roles that contradict each other.

    Raises
    ------
    UnknownNameError
        For a column, or a value of an option, that does not exist.
    DataError
        For two roles of one column, and for designs that exclude each other.
    """
    single = [
        name for name in (roles.task, roles.weight, roles.group, roles.time) if name
    ]
    if roles.since_first and roles.since_first not in table.columns:
        wrong = f"{table.name} has no column {roles.since_first!r}"
        raise UnknownNameError("column", roles.since_first, table.columns, wrong)
    kept = [name for name in roles.keep if name != "*"]
    lists = (*roles.drop, *roles.categorical, *kept, *roles.also_grouped_by)
    for name in (*roles.targets, *single, *lists):
        if name not in table.columns:
            wrong = f"{table.name} has no column {name!r}"
            if "," in name and (name,) == roles.targets:
                raise DataError(
                    wrong, f"For several columns to predict: --targets {name}"
                )
            raise UnknownNameError("column", name, table.columns, wrong)
    named = [*roles.targets, *single]
    twice = [name for name in named if named.count(name) > 1]
    if twice and set(twice) != {roles.task} & {roles.group}:
        raise DataError(
            f"column {twice[0]!r} is given two roles", "Give every column one role."
        )
    for option, column in (
        ("--time", roles.time),
        ("--since-first", roles.since_first),
    ):
        if column is not None and column in roles.categorical:
            raise DataError(
                f"column {column!r} is given to {option} and to --categorical",
                "Times are no categories: leave it out of one of the two.",
            )
    # Rows of a group that stay together are still rows of the same level.
    without_group = [*roles.targets, roles.task, roles.weight, roles.time]
    for name in roles.also_grouped_by:
        if name in without_group:
            raise DataError(
                f"column {name!r} is given two roles",
                "Leave it out of --also-grouped-by: a task has a level anyway.",
            )
        if name in (*roles.drop, *roles.categorical, *kept):
            raise DataError(
                f"column {name!r} is given to --also-grouped-by, so it is no feature",
                "Leave it out of --drop, --categorical and --keep.",
            )
    if roles.task and len(roles.targets) > 1:
        raise DataError(
            "a task column requires a single target",
            "Name the task column (ragged) or several targets (shared), not both.",
        )
    if roles.task_order and not (
        roles.task or (table.default_task and not roles.targets)
    ):
        raise DataError(
            "an order of tasks needs a column of tasks",
            "Name several targets in their order instead.",
        )
    _check_design(table, roles)
    if roles.transform is not None:
        transform_named(roles.transform)
    if roles.task_type not in (None, *TASK_TYPES):
        raise UnknownNameError("task type", str(roles.task_type), TASK_TYPES)
    if roles.positive is not None and roles.task_type not in (None, "binary"):
        text = f"a positive label requires binary targets, not {roles.task_type}"
        raise DataError(text, "Remove --positive or --task-type.")
    if roles.mixed not in MIXED:
        raise UnknownNameError("value of --mixed", roles.mixed, MIXED)
    if roles.unseen not in UNSEEN:
        raise UnknownNameError("value of --unseen", roles.unseen, UNSEEN)


def _check_design(table: Table, roles: Roles) -> None:
    """Refuse designs that contradict each other."""
    if roles.group and roles.time:
        raise DataError(
            "rows cannot be split by group and by time at once",
            "Choose --group or --time.",
        )
    if roles.time_blocks and not roles.time:
        raise DataError(
            "--time-blocks needs a column of times",
            "Name it with --time COLUMN.",
        )
    if not roles.new_tasks:
        return
    has_tasks = roles.task or (table.default_task and not roles.targets)
    if not has_tasks:
        raise DataError(
            "--new-tasks needs a column of tasks: columns to predict are no tasks that "
            "new rows could add",
            "Name the column with --task, or leave out --new-tasks.",
        )
    for option, column in (("--time", roles.time), ("--group", roles.group)):
        if column:
            raise DataError(
                f"{option} and --new-tasks ask different questions",
                f"Run two comparisons: one with {option}, one with --new-tasks.",
            )


def check_single_labels(roles: Roles) -> None:
    """Raise an error if tasks with several classes would be left out.

    They are columns of one design.
    """
    if roles.new_tasks:
        raise DataError(
            "tasks with more than two labels cannot be left out as a whole",
            "Say --positive LABEL for one label against the others.",
        )
