"""Comparisons of tables in memory and of tables in chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from mtlrun.chunks.compare import compare_chunks
from mtlrun.chunks.table import chunk_files
from mtlrun.comparison.compare import compare_table, refuse_output
from mtlrun.comparison.leaderboard import Leaderboard
from mtlrun.comparison.options import CompareOptions, TargetColumns, options_of
from mtlrun.comparison.result import Comparison
from mtlrun.comparison.schedule import ignore
from mtlrun.data.roles.roles import Roles
from mtlrun.errors import ConfigError, with_arguments
from mtlrun.utils.options import with_fields


@dataclass(frozen=True)
class CompareArguments(CompareOptions, Roles, TargetColumns):
    """Arguments of `compare`; their types, defaults and help stand in the bases."""

    data: Any
    _: KW_ONLY
    test: Any = None
    output: str | Path | None = None
    say: Callable[[str], None] = ignore
    finished: Callable[[Leaderboard], None] = ignore

    def __post_init__(self) -> None:
        # Lists may be iterators, which are read once.
        for options in (TargetColumns, Roles, CompareOptions):
            options.__post_init__(self)


@with_arguments
@with_fields(CompareArguments)
def compare(arguments: CompareArguments) -> Comparison:
    """Compare multi-task methods and baselines on a table.

    Parameters
    ----------
    data : DataFrame, or path of a file
        csv, Excel, parquet, ARFF, MATLAB or svmlight; see
        `mtlrun.data.reading.read.read_table`.
        A pair of paths is an ARFF file and Mulan's list of its labels. A folder, a
        pattern or a list of csv or Parquet files is read in chunks, with the options
        ``target, task, targets, weight, drop, methods, splits, smallest_gain, margin,
        seed, jobs``, and ``backend="dask", scheduler=ADDRESS`` for a cluster.
    target, task : str
        Column to predict, and column of the task of each row (ragged tasks).
    targets : str or sequence of str
        Columns to predict, each a task, on the same rows (shared tasks). Patterns such
        as ``y*`` stand for all columns that match.
    targets_last : int, optional
        Number of columns at the end of the table that are the targets.
    labels : path, optional
        Mulan's XML list of labels: the targets. Not needed if it lies in the folder of
        the table and has the same name.
    test : DataFrame or path, optional
        Test rows; by default, the rows are tested by cross-validation.
    time : str, optional
        Column of a number or a date: the last rows of each task are tested after its
        earlier ones. With ``time_blocks=True``, blocks of time over all tasks are
        tested.
    new_tasks : bool, default False
        Whether whole tasks are tested, after training on the other tasks.
    since_first : str, optional
        Column of a time; the time since the first row of the task becomes a feature.
    transform : {"log", "sqrt", "logit"}, optional
        Function of the targets on whose scale methods are fitted and compared.
        Predictions and intervals are in the units of the targets.
    task_type, positive, weight, group, drop, categorical, keep, mixed, min_rows
        Roles of the columns; see `mtlrun.data.roles.roles.Roles`.
    unseen, task_order, also_grouped_by
        Roles of the tasks and of further groups.
    methods, metric, budget, splits, repeats, folds, seed, jobs, retries, calibrate
        How methods are compared; see `mtlrun.comparison.options.CompareOptions`.
    smallest_gain, margin, family, curve
        What the verdict is about.
    racing : bool
        Whether default methods far behind are stopped after the first inner folds.
    backend, scheduler : str, optional
        Only for tables in chunks.
    output : path, optional
        Folder that keeps finished fits, in ``cells``: comparing the same table there
        again computes only what is new. Tables in chunks keep sums and fits there
        until they are compared.
    say : callable
        Called with progress messages, one line at a time.
    finished : callable
        Called after every fit with the leaderboard so far, which can be kept if the
        rest is interrupted. Not called for tables in chunks.

    Returns
    -------
    Comparison
        With DataFrames `leaderboard`, `tasks` and `coefficients`, the sentence
        `verdict`, ``predict(frame)`` and ``predict_proba(frame)`` of the best method,
        that `model` itself, ``save(folder)`` and ``plot()``.

    Raises
    ------
    DataError, ConfigError, UnknownNameError
        For data, columns, methods or a budget with which nothing can be compared; names
        the remedy.
    UserError
        If a table lies in `output` under the name of a result.

    Examples
    --------
    >>> import mtlrun
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.normal(size=(90, 5)), columns=list("abcde"))
    >>> table["school"] = np.repeat(["north", "south", "west"], 30)
    >>> table["grade"] = 2 * table.a - table.b + rng.normal(size=90)
    >>> result = mtlrun.compare(
    ...     table,
    ...     target="grade",
    ...     task="school",
    ...     methods=["GraphMTL"],
    ...     splits=3,
    ...     repeats=1,
    ...     folds=2,
    ... )
    >>> sorted(result.leaderboard["method"])
    ['GraphMTL', 'IndependentRidge', 'IndependentRidgeCV', 'PooledRidge', 'TaskMean']
    """
    return run_comparison(
        arguments.data,
        *options_of(vars(arguments)),
        test=arguments.test,
        output=arguments.output,
        say=arguments.say,
        finished=arguments.finished,
    )


def run_comparison(
    data: Any,
    columns: TargetColumns,
    roles: Roles,
    options: CompareOptions,
    *,
    test: Any = None,
    output: str | Path | None = None,
    explain: bool = True,
    say: Callable[[str], None] = ignore,
    finished: Callable[[Leaderboard], None] = ignore,
) -> Comparison:
    """Compare methods on a table in memory or in chunks; see `compare`.

    Parameters
    ----------
    data : DataFrame, or path of a file, or files of a table in chunks
    columns : TargetColumns
    roles : Roles
        All other roles of columns; `columns` names the targets.
    options : CompareOptions
    explain : bool, default True
        Whether messages describe the protocol. The report does so in any case.
    """
    chunks = chunk_files(data)
    if output is not None:
        refuse_output(Path(output), chunks or data, test)
    if not chunks:
        return compare_table(
            data,
            columns,
            roles,
            options,
            test=test,
            output=output,
            explain=explain,
            say=say,
            finished=finished,
        )
    if columns.labels or test is not None:
        raise ConfigError(
            "--labels and --test cannot be used with data in chunks",
            "Leave them out.",
        )
    folder = None
    if output is not None:
        folder = Path(output)
    return compare_chunks(chunks, columns, roles, options, say=say, output=folder)
