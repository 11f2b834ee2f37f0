"""Results as one tidy table: a row per cell of runs, comparisons and trainings, wherever they lie below a folder."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from mtlrun.errors import DataError, UserError
from mtlrun.record import Record, Records
from mtlrun.report.run import MISSING, Run, read_run
from mtlrun.report.stored import COMPARED, RUN_FILE, read_json
from mtlrun.utils.io import canonical_json
from mtlrun.utils.outputs import write_output

#: Results of a training, in its folder.
TRAINED = "metrics.json"
#: Columns that say what a row is, and what the solver said; metrics and chosen parameters (`param_...`) stand beside.
HEAD = ("kind", "experiment", "profile", "reading", "dataset", "value", "method", "trial", "status")
COST = ("seconds", "seconds_predict", "seconds_search", "n_iter", "gap")
PARQUET = "results.parquet"
_Row = dict[str, Any]


def load_results(folder: str | Path) -> pd.DataFrame:
    """Read results into a tidy table, one row per cell.

    Parameters
    ----------
    folder : path
        Folder of a run, of a comparison, of a training, or one with any number of them below it, such as
        ``results/runs``.

    Returns
    -------
    DataFrame
        ``kind`` (reproduce, compare, train), ``experiment``, ``profile``, ``reading`` (empty without readings),
        ``dataset``, ``value`` (of the axis of a sweep), ``method``, ``trial``, ``status`` (``missing``: planned, not
        computed); a column per metric; ``seconds`` of the fit, ``seconds_predict``, ``seconds_search``, ``n_iter``,
        ``gap``; a column ``param_NAME`` per parameter that a search chose; ``key`` of the cell and ``folder``. A cell
        that several tables share stands in each of them; readings that were not begun are left out. Measurements
        have their quantities in place of metrics.

    Raises
    ------
    DataError
        If there are no results in the folder, or the files of a folder that was named itself are damaged.

    Warns
    -----
    UserWarning
        For a damaged folder below the one that was named; it is left out.

    Examples
    --------
    >>> import mtlrun
    >>> results = mtlrun.load_results("results/runs")  # doctest: +SKIP
    >>> results.groupby(["dataset", "method"])["auc"].mean()  # doctest: +SKIP
    """
    root = Path(folder)
    rows: list[_Row] = []
    for place, read in _found(root):
        try:
            shown = place.relative_to(root).as_posix()
            rows += [{**row, "folder": shown} for row in read(place)]
        except DataError as error:
            if place == root:
                raise
            warnings.warn(f"left out: {error.message}", UserWarning, stacklevel=2)
    if not rows:
        remedy = "Name the folder of a run, a comparison or a model, or one that holds some, as results/runs does."
        raise DataError(f"{root}: no results here", remedy)
    return _frame(rows)


def write_parquet(frame: pd.DataFrame, path: Path) -> Path:
    """Write a table of results as Parquet; the file appears whole or not at all.

    Raises
    ------
    UserError
        Without pyarrow.
    """
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, engine="pyarrow", index=False)
    except ImportError:
        raise UserError("writing parquet needs pyarrow", "pip install 'mtlrun[parquet]'") from None
    write_output(path, buffer.getvalue())
    return path


def _found(root: Path) -> Iterator[tuple[Path, Callable[[Path], Iterable[_Row]]]]:
    """Yield the folders with results and what reads them; what lies inside one of them belongs to it."""
    readers = {RUN_FILE: _of_run, COMPARED: _of_comparison, TRAINED: _of_training}
    for place, folders, files in os.walk(root):
        name = next((name for name in readers if name in files), None)
        if name is not None:
            yield Path(place), readers[name]
        folders[:] = sorted(folder for folder in folders if folder != "cells") if name is None else []


def frame_of_run(run: Run) -> pd.DataFrame:
    """Return the table of a run that was read; see `load_results`."""
    return _frame(list(_rows(run)))


def _of_run(folder: Path) -> Iterator[_Row]:
    return _rows(read_run(folder))


def _rows(run: Run) -> Iterator[_Row]:
    yield from _of_reading(run, run.planned)
    for other in run.others:
        if run.begun(other):
            yield from _of_reading(other, run.own(other))


def _of_reading(run: Run, planned: Iterable[Any]) -> Iterator[_Row]:
    head = {"kind": "reproduce", "experiment": run.info.get("id"), "profile": run.profile, "reading": run.reading}
    datasets = run.datasets
    for cell in planned:
        axis = datasets[cell.dataset].get("axis") or {}
        place = {"dataset": axis.get("of", cell.dataset), "value": axis.get("value"), "method": cell.method}
        yield {**head, **place, "trial": cell.trial, "key": cell.key, **_numbers(run.cells.get(cell.key))}


def _of_comparison(folder: Path) -> Iterator[_Row]:
    about = read_json(folder / COMPARED) or {}
    records, data = Records(folder), about.get("dataset") or {}
    for cell in about.get("cells") or ():
        key = str(cell.get("key"))
        try:
            record = records.read(key)
        except ValueError as error:
            raise DataError(f"{folder}: {error}", "Compare again: only what is missing is computed.") from None
        head = {"kind": "compare", "experiment": f"compare/{folder.name}", "dataset": data.get("id"), "key": key}
        yield {**head, "method": cell.get("method"), "trial": cell.get("trial"), **_numbers(record)}


def _of_training(folder: Path) -> Iterator[_Row]:
    found = read_json(folder / TRAINED) or {}
    if not {"id", "metrics", "status"} <= found.keys():
        return  # another program's file of this name
    record = Record("", "fit", {}, status=str(found["status"]), metrics=found["metrics"])
    record.seconds, record.solver, record.selection = (found.get(n) or {} for n in ("seconds", "solver", "selection"))
    head = {"kind": "train", "experiment": found["id"], "dataset": found.get("dataset"), "method": found.get("method")}
    yield {**head, "trial": 0, **_numbers(record)}


def _numbers(record: Record | None) -> _Row:
    """Return status, metrics, cost and chosen parameters of a record."""
    if record is None:
        return {"status": MISSING}
    names = {"seconds": "fit", "seconds_predict": "predict", "seconds_search": "search"}
    cost = {name: record.seconds.get(key) for name, key in names.items()}
    cost |= {name: record.solver.get(name) for name in ("n_iter", "gap")}
    chosen = {f"param_{name}": value for name, value in (record.selection.get("chosen") or {}).items()}
    # A measure may return a quantity of the name of a column: the number is what the table is about.
    metrics = {f"metric_{name}" if name in HEAD else name: value for name, value in record.metrics.items()}
    return {"status": record.status, **cost, **metrics, **chosen}


def _frame(rows: list[_Row]) -> pd.DataFrame:
    """Return a table with the columns in a fixed order, each of one type."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    own = [name for name in names if name not in (*HEAD, *COST, "key", "folder")]
    metrics = [name for name in own if not name.startswith("param_")]
    params = sorted(name for name in own if name.startswith("param_"))
    frame = pd.DataFrame(rows, columns=[*HEAD, *metrics, *COST, *params, "key", "folder"])
    for name in ("kind", "experiment", "profile", "reading", "dataset", "method"):
        frame[name] = pd.Series(["" if pd.isna(value) else str(value) for value in frame[name]], dtype=object)
    for name in (*metrics, *COST):
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    for name in ("value", *params):
        frame[name] = _column(frame[name])
    return frame


def _column(values: pd.Series) -> pd.Series:
    """Return numbers where all values are, else texts; what is neither becomes JSON."""
    numbers = [v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in values]
    if all(numbers):
        return values.astype(float)
    texts = [v if isinstance(v, str) else canonical_json(v) for v in values]
    return pd.Series([None if v is None or v != v else t for v, t in zip(values, texts, strict=True)], dtype=object)
