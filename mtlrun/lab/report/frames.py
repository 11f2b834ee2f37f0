"""Results of runs, comparisons and trainings as data frames, one row per job."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mtlrun.engine.record import Record, ResultKey
from mtlrun.engine.store import Store
from mtlrun.engine.stored import (
    COMPARED,
    RUN_FILE,
    TRAINED,
    ComparedPlan,
    fields_of_file,
    read_json,
)
from mtlrun.errors import DataError, UserError, with_arguments
from mtlrun.lab.report.run import MISSING, Run, read_run, started_others
from mtlrun.lab.stored import Axis
from mtlrun.show.quantities import PARALLEL
from mtlrun.utils.io import canonical_json, is_json_number
from mtlrun.utils.outputs import write_output

#: Columns that identify a job, with its status.
IDENTITY_COLUMNS = (
    "kind",
    "experiment",
    "profile",
    "reading",
    "dataset",
    "value",
    "method",
    "trial",
    "status",
)
#: Quantities of the parts of robust models.
ROBUST_PARTS = ("rank", "n_outliers", "low_rank_error")
#: Results of solvers.
SOLVER_COLUMNS = ("n_iter", "gap", "objective", "truth_error", *ROBUST_PARTS)
#: Columns of seconds, with their keys in a record.
SECONDS_FIELDS = {
    "seconds": "fit",
    "seconds_predict": "predict",
    "seconds_search": "search",
}
#: Columns of seconds and of results of solvers, after the metrics.
COST_COLUMNS = (
    "seconds",
    PARALLEL,
    "seconds_predict",
    "seconds_search",
    *SOLVER_COLUMNS,
)
#: Entries of a row that are not columns: values of the tasks by metric, and counts.
NO_COLUMNS = ("tasks", "counts")
#: Columns at the end of the table.
LAST_COLUMNS = ("key", "folder")
#: Prefix of the columns of selected parameters.
PARAM_PREFIX = "param_"
#: Prefix of a quantity of an analysis that has the name of another column.
METRIC_PREFIX = "metric_"
#: Numeric columns that are not quantities of a report.
NO_QUANTITIES = ("trial", "value", "seconds_search")
#: Default file name of `mtlrun report --format parquet`.
PARQUET = "results.parquet"
_Row = dict[str, Any]
_Reader = Callable[[Path], Iterable[_Row]]


@with_arguments
def load_results(folder: str | Path) -> pd.DataFrame:
    """Read results into a tidy table, one row per job.

    Parameters
    ----------
    folder : path
        Folder of a run, a comparison or a training, or a folder with any number of them
        below it, such as ``results/runs``.

    Returns
    -------
    DataFrame
        The columns are ``kind`` (reproduce, compare, train), ``experiment``,
        ``profile``, ``reading`` (interpretation, empty without any), ``dataset``,
        ``value`` (of the axis of a sweep), ``method``, ``trial`` and ``status``
        (``missing``: planned, not computed); a column per metric; ``seconds`` of the
        fit, ``seconds_parallel``, ``seconds_predict``, ``seconds_search``, ``n_iter``,
        ``gap``, ``objective``, ``truth_error``, and of robust models ``rank``,
        ``n_outliers``, ``low_rank_error``; a column ``param_NAME`` per parameter that a
        search selected; ``key`` of the job and ``folder``. A job that several tables
        share occurs in each of them. Interpretations without a finished job are left
        out. Analyses have their quantities in place of metrics.

    Raises
    ------
    DataError
        If the folder contains no results, or if it is the folder of a run, comparison
        or training with damaged files.

    Warns
    -----
    UserWarning
        For a damaged folder below `folder`; it is left out.

    Examples
    --------
    >>> import mtlrun
    >>> results = mtlrun.load_results("results/runs")  # doctest: +SKIP
    >>> results.groupby(["dataset", "method"])["auc"].mean()  # doctest: +SKIP
    """
    root = Path(folder)
    rows: list[_Row] = []
    for path, read_rows in _result_folders(root):
        name = path.relative_to(root).as_posix()
        try:
            rows += [{**row, "folder": name} for row in read_rows(path)]
        except DataError as error:
            if path == root:
                raise
            warnings.warn(f"left out: {error.message}", UserWarning, stacklevel=2)
    if not rows:
        raise DataError(
            f"{root}: no results here",
            "Name the folder of a run, a comparison or a model, or one that holds some, "
            "as results/runs does.",
        )
    return frame_of(rows, ["folder"])


def tidy_frame(run: Run) -> pd.DataFrame:
    """Return the results of a run under all its interpretations, one row per job.

    The columns are as for `load_results`, without ``folder``.
    """
    return frame_of(list(_run_rows(run)), [])


def write_parquet(frame: pd.DataFrame, path: Path) -> Path:
    """Write a table of results as Parquet; the file appears complete or not at all.

    Raises
    ------
    UserError
        Without pyarrow.
    """
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, engine="pyarrow", index=False)
    except ImportError:
        raise UserError(
            "writing parquet needs pyarrow", "pip install '.[parquet]'"
        ) from None
    write_output(path, buffer.getvalue())
    return path


# ------------------------------------------------------------ folders of results


def _result_folders(root: Path) -> Iterator[tuple[Path, _Reader]]:
    """Yield the folders with results, with the function that reads their rows.

    Folders inside a folder with results belong to it.
    """
    readers: dict[str, _Reader] = {
        RUN_FILE: lambda folder: _run_rows(read_run(folder)),
        COMPARED: _comparison_rows,
        TRAINED: _training_rows,
    }
    for path, folders, files in os.walk(root):
        names = [name for name in readers if name in files]
        if names:
            yield Path(path), readers[names[0]]
            folders.clear()
        # os.walk descends into the folders that remain in this list, in its order.
        folders[:] = sorted(folder for folder in folders if folder != "cells")


def _run_rows(run: Run) -> Iterator[_Row]:
    """Yield the rows of a run under all its interpretations, each job once."""
    yield from job_rows(run, run.planned)
    for other, unshared in started_others(run):
        yield from job_rows(other, unshared)


def job_rows(run: Run, jobs: Iterable[ResultKey]) -> Iterator[_Row]:
    """Yield the rows of planned jobs of a run."""
    for job in jobs:
        axis = run.datasets[job.dataset].axis or Axis(of=job.dataset, value=None)
        yield {
            "kind": "reproduce",
            "experiment": run.spec.id,
            "profile": run.experiment.profile,
            "reading": run.experiment.reading,
            "dataset": axis.of,
            "value": axis.value,
            "method": job.method,
            "trial": job.trial,
            "key": job.key,
            **_record_entries(run.records.get(job.key)),
        }


def _comparison_rows(folder: Path) -> Iterator[_Row]:
    """Yield the rows of a comparison."""
    path = folder / COMPARED
    plan = fields_of_file(ComparedPlan, read_json(path) or {}, path)
    records = Store(folder)
    for job in plan.cells:
        try:
            record = records.read(job.key)
        except ValueError as error:
            remedy = "Compare again: only what is missing is computed."
            raise DataError(f"{folder}: {error}", remedy) from None
        yield {
            "kind": "compare",
            "experiment": f"compare/{folder.name}",
            "dataset": plan.dataset.id,
            "key": job.key,
            "method": job.method,
            "trial": job.trial,
            **_record_entries(record),
        }


def _training_rows(folder: Path) -> Iterator[_Row]:
    """Yield the row of a training."""
    # Reports of runs need no models.
    from mtlrun.model.baseline import TrainingResult

    path = folder / TRAINED
    content = read_json(path) or {}
    # Another program may have a file of this name.
    if not {"id", "metrics", "status"} <= content.keys():
        return
    result = fields_of_file(TrainingResult, content, path)
    fields: dict[str, Any] = {"key": "train", "family": "fit", "inputs": {}}
    for name in ("status", "metrics", "seconds", "solver", "selection"):
        fields[name] = content.get(name)
    record = fields_of_file(Record, fields, path)
    yield {
        "kind": "train",
        "experiment": result.id,
        "dataset": result.dataset,
        "method": result.method,
        "trial": 0,
        **_record_entries(record),
    }


# ------------------------------------------------------------ columns of a record


def _record_entries(record: Record | None) -> _Row:
    """Return status, metrics, cost and selected parameters of a record."""
    if record is None:
        return {"status": MISSING}
    entries: _Row = {"status": record.status}
    if record.done:
        entries["tasks"] = record.per_task
        entries["counts"] = record.counts
    seconds = record.seconds
    for column, field in SECONDS_FIELDS.items():
        entries[column] = getattr(seconds, field)
    entries[PARALLEL] = None
    total = seconds.fit
    blocks = seconds.blocks_sum
    slowest = seconds.blocks_max
    # With one worker per block a fit takes the seconds outside the blocks plus the
    # seconds of the slowest block.
    if total is not None and blocks is not None and slowest is not None:
        entries[PARALLEL] = float(slowest + max(0.0, total - blocks))
    for column in SOLVER_COLUMNS:
        entries[column] = record.solver.get(column)
    # A quantity of an analysis that has the name of a cost replaces the cost, because
    # the table of the paper shows the quantity.
    for name, value in record.metrics.items():
        if name in (*IDENTITY_COLUMNS, *NO_COLUMNS, *LAST_COLUMNS):
            name = f"{METRIC_PREFIX}{name}"
        entries[name] = value
    selected = record.selection.chosen
    if isinstance(selected, dict):
        for name, value in selected.items():
            entries[f"{PARAM_PREFIX}{name}"] = value
    return entries


# ------------------------------------------------------------ types of columns


def frame_of(rows: list[_Row], last_columns: Sequence[str]) -> pd.DataFrame:
    """Return a table with the columns in a fixed order, each of one type."""
    standard = {*IDENTITY_COLUMNS, *COST_COLUMNS, *NO_COLUMNS, *LAST_COLUMNS}
    metrics: list[str] = []
    params: list[str] = []
    for column in dict.fromkeys(column for row in rows for column in row):
        if column.startswith(PARAM_PREFIX):
            params.append(column)
        elif column not in standard:
            metrics.append(column)
    params.sort()
    columns = [
        *IDENTITY_COLUMNS,
        *metrics,
        *COST_COLUMNS,
        *params,
        "key",
        *last_columns,
    ]
    frame = pd.DataFrame(rows, columns=columns)
    for column in ("kind", "experiment", "profile", "reading", "dataset", "method"):
        texts = []
        for value in frame[column]:
            texts.append("" if pd.isna(value) else str(value))
        frame[column] = pd.Series(texts, dtype=object)
    for column in (*metrics, *COST_COLUMNS):
        frame[column] = pd.to_numeric(frame[column], errors="coerce").astype(float)
    for column in ("value", *params):
        frame[column] = _with_one_type(frame[column])
    return frame


def _with_one_type(values: pd.Series) -> pd.Series:
    """Return floats if all values are numbers or missing, else texts.

    Values other than texts become JSON.
    """
    if all(value is None or is_json_number(value) for value in values):
        return values.astype(float)
    texts: list[str | None] = []
    for value in values:
        is_nan = value != value
        if value is None or is_nan:
            texts.append(None)
        elif isinstance(value, str):
            texts.append(value)
        else:
            texts.append(canonical_json(value))
    return pd.Series(texts, dtype=object)
