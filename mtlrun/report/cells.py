"""Results as one tidy table, a row per cell of runs, comparisons and trainings, and what the cells of a method say."""

from __future__ import annotations

import io
import math
import os
import statistics
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from mtlrun.errors import DataError, UserError
from mtlrun.record import DIVERGED, DONE, FAILED, NOT_CONVERGED, OK, TIMEOUT, Place, Record, Records
from mtlrun.report.checks import MEDIAN_QUANTITIES, PARALLEL
from mtlrun.report.run import MISSING, Run, read_run, std
from mtlrun.report.stored import COMPARED, RUN_FILE, read_json
from mtlrun.utils.io import canonical_json
from mtlrun.utils.outputs import write_output

#: Results of a training, in its folder.
TRAINED = "metrics.json"
#: Columns that say what a row is, and what the solver said; metrics and chosen parameters (`param_...`) stand beside.
HEAD = ("kind", "experiment", "profile", "reading", "dataset", "value", "method", "trial", "status")
COST = ("seconds", PARALLEL, "seconds_predict", "seconds_search", "n_iter", "gap", "objective", "truth_error")
OBJECTS = ("place", "tasks", "counts")
#: Status of a method that has not all of its cells.
PARTIAL = "partial"
#: A method takes the worst status of its cells.
WORST_FIRST = (FAILED, DIVERGED, TIMEOUT, MISSING, NOT_CONVERGED, OK)
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
        computed); a column per metric; ``seconds`` of the fit, ``seconds_parallel``, ``seconds_predict``,
        ``seconds_search``, ``n_iter``, ``gap``, ``objective``, ``truth_error``; a column ``param_NAME`` per parameter
        that a search chose; ``key`` of the cell and ``folder``. A cell that several tables share stands in each of
        them; readings that were not begun are left out. Measurements have their quantities in place of metrics.

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
        raise UserError("writing parquet needs pyarrow", "pip install '.[parquet]'") from None
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


def cells_frame(run: Run, *, readings: bool = False) -> pd.DataFrame:
    """Return the cells of a run, one row each.

    Parameters
    ----------
    run : Run
    readings : bool, default False
        Whether the cells that only other readings have are added, as far as those were begun.

    Returns
    -------
    DataFrame
        As of `load_results`, but for ``folder``, with ``place`` (the label of the data set, in a sweep with the value),
        ``tasks`` (per metric the values of the tasks) and ``counts`` of what is finished.
    """
    rows = list(_places(run, run.planned))
    for other in run.others if readings else ():
        if run.has_results(other):
            rows += _places(other, run.unshared_cells(other))
    return _frame(rows, OBJECTS)


def _places(run: Run, planned: Iterable[Place]) -> Iterator[_Row]:
    head = {"kind": "reproduce", "experiment": run.info.get("id"), "profile": run.profile, "reading": run.reading}
    datasets = run.datasets
    for cell in planned:
        axis = datasets[cell.dataset].get("axis") or {}
        place = {"dataset": axis.get("of", cell.dataset), "value": axis.get("value"), "method": cell.method}
        row = {**head, **place, "place": cell.dataset, "trial": cell.trial, "key": cell.key}
        yield {**row, **_numbers(run.cells.get(cell.key))}


def tidy_frame(run: Run) -> pd.DataFrame:
    """Return the cells of a run, those of the readings that were begun included, as of `load_results`."""
    return cells_frame(run, readings=True).drop(columns=[*OBJECTS])


def _of_run(folder: Path) -> Iterator[_Row]:
    frame = tidy_frame(read_run(folder))
    return iter(frame.astype(object).where(frame.notna(), None).to_dict("records"))


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
    cost |= {PARALLEL: _parallel_seconds(record.seconds)}
    cost |= {name: record.solver.get(name) for name in ("n_iter", "gap", "objective", "truth_error")}
    search = record.selection.get("chosen")
    chosen = {f"param_{name}": value for name, value in search.items()} if isinstance(search, dict) else {}
    # A measure may return a quantity of the name of a column: the number is what the table is about.
    metrics = {_column(name): value for name, value in record.metrics.items()}
    found = {"tasks": record.per_task, "counts": record.counts} if record.done else {}
    return {"status": record.status, **found, **cost, **metrics, **chosen}


def _is_quantity(column: str) -> bool:
    """Whether a column of numbers is a quantity of the report."""
    return column not in ("trial", "value", "seconds_search") and not column.startswith("param_")


def _column(quantity: str) -> str:
    """Return the column of a quantity."""
    return f"metric_{quantity}" if quantity in (*HEAD, *OBJECTS, "key", "folder") else quantity


def _parallel_seconds(seconds: dict[str, Any]) -> float | None:
    """Return the seconds with one worker per block: what is not done in blocks, and the slowest block.

    None for methods without blocks.
    """
    total, blocks, slowest = (seconds.get(name) for name in ("fit", "blocks_sum", "blocks_max"))
    if total is None or blocks is None or slowest is None:
        return None
    return float(slowest + max(0.0, total - blocks))


def _frame(rows: list[_Row], more: Sequence[str] = ("folder",)) -> pd.DataFrame:
    """Return a table with the columns in a fixed order, each of one type."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    own = [name for name in names if name not in (*HEAD, *COST, *OBJECTS, "key", "folder")]
    metrics = [name for name in own if not name.startswith("param_")]
    params = sorted(name for name in own if name.startswith("param_"))
    frame = pd.DataFrame(rows, columns=[*HEAD, *metrics, *COST, *params, "key", *more])
    for name in ("kind", "experiment", "profile", "reading", "dataset", "method"):
        frame[name] = pd.Series(["" if pd.isna(value) else str(value) for value in frame[name]], dtype=object)
    for name in (*metrics, *COST):
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    for name in ("value", *params):
        frame[name] = _one_type(frame[name])
    return frame


def _one_type(values: pd.Series) -> pd.Series:
    """Return numbers where all values are, else texts; what is neither becomes JSON."""
    numbers = [v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in values]
    if all(numbers):
        return values.astype(float)
    texts = [v if isinstance(v, str) else canonical_json(v) for v in values]
    return pd.Series([None if v is None or v != v else t for v, t in zip(values, texts, strict=True)], dtype=object)


# ---------------------------------------------------------------- a method on a data set


@dataclass(frozen=True)
class MethodResult:
    """What the cells of a method on a data set say together.

    Attributes
    ----------
    dataset, method : str
        Labels; in a sweep the first one has the value of the axis.
    cells : DataFrame
        Those rows of `cells_frame`.
    task_names : list of str
        Of the tasks, empty when unknown.
    medians : tuple of str
        Quantities whose number is the median and not the mean.
    base : MethodResult or None
        Of the baseline, which `speedup` is against.
    task : str or None
        Only this one is looked at.
    """

    dataset: str
    method: str
    cells: pd.DataFrame
    task_names: Sequence[str] = ()
    medians: tuple[str, ...] = MEDIAN_QUANTITIES
    base: MethodResult | None = None
    task: str | None = None

    @cached_property
    def speedup(self) -> float | None:
        """Against the baseline, on the splits that both finished."""
        return _speedup(self.base, self)

    @property
    def planned(self) -> int:
        """Cells of the plan."""
        return len(self.cells)

    @property
    def n(self) -> int:
        """Cells that gave a number."""
        return len(self.done)

    @cached_property
    def done(self) -> pd.DataFrame:
        """The finished cells."""
        return self.cells[self.cells["status"].isin(DONE)]

    @cached_property
    def statuses(self) -> Counter[str]:
        """How many cells have each status."""
        return Counter(self.cells["status"])

    @cached_property
    def worst(self) -> str:
        """Worst status of the cells."""
        return next((status for status in WORST_FIRST if status in self.statuses), FAILED)

    @property
    def status(self) -> str:
        """Worst status of the cells; ``partial`` when some and ``missing`` when all still have to be computed."""
        return PARTIAL if self.worst == MISSING and self.affected < self.planned else self.worst

    @property
    def affected(self) -> int:
        """Cells that have the status."""
        return self.statuses[self.worst]

    @property
    def status_text(self) -> str:
        """Status with the share of the cells that it concerns: ``failed 1/5``."""
        share = "" if self.status == OK or self.affected == self.planned else f" {self.affected}/{self.planned}"
        return self.status + share

    @cached_property
    def samples(self) -> dict[str, dict[int, float]]:
        """The values of the splits by quantity and trial, as far as they are defined."""
        if self.task is None:
            columns, trials = self.done.select_dtypes("number"), self.done["trial"].tolist()
            names = [name for name in columns if _is_quantity(name)]
            found = {n.removeprefix("metric_"): dict(zip(trials, columns[n].tolist(), strict=True)) for n in names}
        else:
            at, names = self.task_names.index(self.task), [name for values in self.done["tasks"] for name in values]
            by_task = {name: self.tasks(name) for name in dict.fromkeys(names)}
            found = {n: {t: v[at] for t, v in values.items() if at < len(v)} for n, values in by_task.items()}
        known = {
            n: {t: v for t, v in values.items() if v is not None and math.isfinite(v)} for n, values in found.items()
        }
        return {name: values for name, values in known.items() if values}

    def by_trial(self, quantity: str) -> dict[int, float]:
        """Return the values of the splits; with a worker per block a method without blocks takes its seconds."""
        known = self.samples.get(quantity, {})
        return known or self.samples.get("seconds", {}) if quantity == PARALLEL else known

    def value(self, quantity: str) -> float | None:
        """Return the number of the table: median for `medians`, mean for all else, None when unknown."""
        if quantity == "speedup":
            return self.speedup
        values = list(self.by_trial(quantity).values())
        if not values:
            return None
        return statistics.median(values) if quantity in self.medians else statistics.fmean(values)

    def std(self, quantity: str) -> float | None:
        """Return the standard deviation over the splits (n - 1), None below two splits."""
        return std(self.by_trial(quantity).values())

    def tasks(self, metric: str) -> dict[int, list[float | None]]:
        """Return the values of the tasks by split."""
        found = zip(self.done["trial"].tolist(), self.done["tasks"].tolist(), strict=True)
        return {trial: list(values[metric]) for trial, values in found if metric in values}

    def counts(self, name: str) -> list[int]:
        """Return the counts of a name, one per finished cell."""
        return [counts[name] for counts in self.done["counts"] if name in counts]

    def of_task(self, task: str) -> MethodResult | None:
        """Return the result on a single task: its values in place of the means; None if it is not known."""
        if task not in self.task_names:
            return None
        if task not in self._of_tasks:  # its samples are asked for again and again
            self._of_tasks[task] = replace(self, dataset=f"{self.dataset}, {task}", task=task, base=None)
        return self._of_tasks[task]

    @cached_property
    def _of_tasks(self) -> dict[str, MethodResult]:
        return {}


def method_results(run: Run) -> list[MethodResult]:
    """Return the results in the order of the experiment, failed and missing ones included."""
    found, medians = [], () if run.measures else MEDIAN_QUANTITIES
    groups = dict(iter(cells_frame(run).groupby(["place", "method"], sort=False)))
    for dataset, method in product(run.datasets, run.methods):
        if (dataset, method) in groups:
            records = (r for r in reversed(run.results_of(dataset, method)) if r.result.get("tasks"))
            named = next((r.result["tasks"] for r in records), run.datasets[dataset].get("tasks")) or ()
            names = [str(name) for name in named]
            found.append(MethodResult(dataset, method, groups[dataset, method], names, medians))
    bases = {one.dataset: one for one in found if one.method == run.baseline}
    return [replace(one, base=bases.get(one.dataset)) for one in found]


def _speedup(base: MethodResult | None, result: MethodResult) -> float | None:
    ours, theirs = result.by_trial("seconds"), base.by_trial("seconds") if base else {}
    common = [trial for trial in ours if trial in theirs]
    if not common:
        return None
    own = statistics.median(ours[t] for t in common)
    return statistics.median(theirs[t] for t in common) / own if own > 0 else None
