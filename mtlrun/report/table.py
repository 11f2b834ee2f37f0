"""The table: one row per data set and method, from the finished cells alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from mtlrun.record import DIVERGED, FAILED, NOT_CONVERGED, OK, TIMEOUT, Record
from mtlrun.report.checks import MEDIAN_QUANTITIES
from mtlrun.report.folder import Run
from mtlrun.report.text import Column, Grid

MISSING = "missing"
PARTIAL = "partial"
#: A row takes the worst status of its cells.
WORST_FIRST = (FAILED, DIVERGED, TIMEOUT, MISSING, NOT_CONVERGED, OK)
COUNTS = ("one_class_train",)


@dataclass
class Row:
    """One method on one data set.

    Attributes
    ----------
    dataset, method : str
    status : str
        Worst status of the planned cells; ``partial`` when some and ``missing`` when all still have to be computed.
    n, planned : int
        Cells that gave a number, cells of the plan.
    affected : int
        Cells that have the status.
    samples : dict of str to dict of int to float
        Quantity -> trial -> value, defined values only.
    tasks : dict of str to dict of int to list
        Metric -> trial -> values per task (None where undefined).
    counts : dict of str to list of int
        Name -> one count per finished cell.
    speedup : float or None
        Against the baseline, on the splits that both finished.
    timeouts : int
        Cells that ran into the limit of seconds.
    task_names : list of str
        Of the tasks in `tasks`, empty when unknown.
    medians : tuple of str
        Quantities whose number is the median and not the mean.
    """

    dataset: str
    method: str
    status: str
    n: int
    planned: int
    affected: int
    samples: dict[str, dict[int, float]] = field(default_factory=dict)
    tasks: dict[str, dict[int, list[float | None]]] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)
    speedup: float | None = None
    timeouts: int = 0
    task_names: list[str] = field(default_factory=list)
    medians: tuple[str, ...] = MEDIAN_QUANTITIES

    def value(self, quantity: str) -> float | None:
        """Return the number of the table: median for `medians`, mean for all else, None when unknown."""
        if quantity == "speedup":
            return self.speedup
        values = list(self.samples.get(quantity, {}).values())
        if not values:
            return None
        return statistics.median(values) if quantity in self.medians else mean(values)

    def std(self, quantity: str) -> float | None:
        """Return the standard deviation over the splits (n - 1), None below two splits."""
        return std(self.samples.get(quantity, {}).values())

    def of_task(self, task: str) -> Row | None:
        """Return the row of a single task: its values in place of the means over the tasks; None if it is not known."""
        if task not in self.task_names:
            return None
        at = self.task_names.index(task)
        samples = {
            name: {t: v for t, values in trials.items() if at < len(values) and (v := values[at]) is not None}
            for name, trials in self.tasks.items()
        }
        return replace(self, dataset=f"{self.dataset}, {task}", samples=samples, tasks={}, speedup=None)

    @property
    def status_text(self) -> str:
        """Status with the share of the cells that it concerns: ``failed 1/5``."""
        if self.status == OK or self.affected == self.planned:
            return self.status
        return f"{self.status} {self.affected}/{self.planned}"


def mean(values: Iterable[float]) -> float:
    """Return the exactly rounded mean, the same whatever the order."""
    values = list(values)
    return math.fsum(values) / len(values)


def std(values: Iterable[float]) -> float | None:
    """Return the sample standard deviation, None below two values."""
    values = list(values)
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))


def build_rows(run: Run) -> list[Row]:
    """Return the rows in the order of the experiment, failed and missing ones included."""
    rows = []
    for dataset in run.datasets:
        group = [row for m in run.methods if (row := _row(run, dataset, m)) is not None]
        base = next((row for row in group if row.method == run.baseline), None)
        for row in group:
            row.speedup = _speedup(base, row)
        rows += group
    return rows


def result_grid(run: Run, rows: list[Row]) -> Grid:
    """Return the machine-readable table: the documented columns first, further facts after `status`."""
    if run.measures:
        return _measured_grid(run, rows)
    metrics = run.metrics
    parallel = any("seconds_parallel" in row.samples for row in rows)
    columns = [Column("dataset"), Column("method")]
    for m in metrics:
        columns += [Column(f"{m}_mean", "score"), Column(f"{m}_std", "score")]
    columns += [Column("seconds_median", "seconds"), Column("speedup", "ratio"), Column("n", "count"), Column("status")]
    columns += [Column("planned", "count"), Column("one_class_train")]
    columns += [Column(f"undefined_{m}") for m in metrics]
    columns += [Column("seconds_parallel_median", "seconds")] * parallel
    grid = Grid(columns)
    for row in rows:
        values: list[Any] = [row.dataset, row.method]
        for m in metrics:
            values += [row.value(m), row.std(m)]
        values += [row.value("seconds"), row.speedup, row.n, row.status, row.planned, count_text(row, COUNTS[0])]
        values += [count_text(row, f"undefined_{m}") for m in metrics]
        values += [row.value("seconds_parallel")] * parallel
        grid.rows.append(values)
    return grid


def _measured_grid(run: Run, rows: list[Row]) -> Grid:
    columns = [Column("dataset"), Column("method")]
    for name in run.metrics:
        columns += [Column(f"{name}_mean", "number"), Column(f"{name}_std", "number")]
    grid = Grid([*columns, Column("n", "count"), Column("status"), Column("planned", "count")])
    for row in rows:
        numbers = [value for name in run.metrics for value in (row.value(name), row.std(name))]
        grid.rows.append([row.dataset, row.method, *numbers, row.n, row.status, row.planned])
    return grid


def count_text(row: Row, name: str) -> str | None:
    """Write a count over the splits: ``4`` when it is the same in all, else ``3-5``; None when it is not known."""
    return range_text(row.counts.get(name) or [])


def range_text(values: list[int]) -> str | None:
    """Write the smallest and the largest of counts, one number when they are equal; None without any."""
    if not values:
        return None
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"


def _row(run: Run, dataset: str, method: str) -> Row | None:
    planned = [c for c in run.planned if c.dataset == dataset and c.method == method]
    if not planned:
        return None
    records = {c.trial: run.record(c) for c in planned}
    statuses = [MISSING if r is None else r.status for r in records.values()]
    worst = next((s for s in WORST_FIRST if s in statuses), FAILED)
    affected = statuses.count(worst)
    if worst == MISSING and affected < len(statuses):
        worst = PARTIAL
    done = {trial: r for trial, r in records.items() if r is not None and r.done}
    row = Row(dataset, method, worst, len(done), len(planned), affected, timeouts=statuses.count(TIMEOUT))
    row.medians = () if run.measures else MEDIAN_QUANTITIES
    row.task_names = [str(name) for name in run.datasets[dataset].get("tasks") or ()]
    for trial, record in done.items():
        _collect(row, trial, record)
    return row


def _collect(row: Row, trial: int, record: Record) -> None:
    """Add the numbers of one finished cell to its row."""
    facts = {
        "seconds": record.seconds.get("fit"),
        "seconds_parallel": parallel_seconds(record.seconds),
        "seconds_predict": record.seconds.get("predict"),
        **{name: record.solver.get(name) for name in ("n_iter", "gap", "objective", "truth_error")},
    }
    # A measure may have a quantity of one of these names: it is what the table is about.
    numbers: dict[str, Any] = {**record.metrics, **{k: v for k, v in facts.items() if k not in record.metrics}}
    row.task_names = [str(name) for name in record.result.get("tasks") or row.task_names]
    for name, value in numbers.items():
        if isinstance(value, int | float) and math.isfinite(value):
            row.samples.setdefault(name, {})[trial] = float(value)
    for name, per_task in record.per_task.items():
        row.tasks.setdefault(name, {})[trial] = list(per_task)
    for name, count in record.counts.items():
        row.counts.setdefault(name, []).append(count)


def _speedup(base: Row | None, row: Row) -> float | None:
    if base is None:
        return None
    ours, theirs = row.samples.get("seconds", {}), base.samples.get("seconds", {})
    common = [trial for trial in ours if trial in theirs]
    if not common:
        return None
    own = statistics.median(ours[t] for t in common)
    return statistics.median(theirs[t] for t in common) / own if own > 0 else None


def parallel_seconds(seconds: dict[str, Any]) -> float | None:
    """Return the seconds with one worker per block: what is not done in blocks, and the slowest block.

    None for methods without blocks.
    """
    total, blocks, slowest = (seconds.get(name) for name in ("fit", "blocks_sum", "blocks_max"))
    if total is None or blocks is None or slowest is None:
        return None
    return float(slowest + max(0.0, total - blocks))
