"""The table: one row per data set and method, from the finished cells alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mtlrun.core.records import DIVERGED, FAILED, NOT_CONVERGED, OK, TIMEOUT, CellRecord
from mtlrun.report.checks import MEDIAN_QUANTITIES
from mtlrun.report.folder import Run
from mtlrun.report.text import Column, Grid, show

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

    def value(self, quantity: str) -> float | None:
        """Return the number of the table: median for seconds and speed-ups, mean for all else, None when unknown."""
        if quantity == "speedup":
            return self.speedup
        values = list(self.samples.get(quantity, {}).values())
        if not values:
            return None
        return statistics.median(values) if quantity in MEDIAN_QUANTITIES else mean(values)

    def std(self, quantity: str) -> float | None:
        """Return the standard deviation over the splits (n - 1), None below two splits."""
        return std(self.samples.get(quantity, {}).values())

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


def reading_grid(run: Run, rows: list[Row], *, with_dataset: bool = True) -> Grid:
    """Return the table for people: mean ± std in one cell, columns without any content left out."""
    parallel = any("seconds_parallel" in row.samples for row in rows)
    timed = any("seconds" in row.samples for row in rows)
    fast = any(row.speedup is not None for row in rows)
    columns = [Column("dataset")] * with_dataset + [Column("method")]
    columns += [Column(m, "score") for m in run.metrics]
    columns += [Column("seconds", "seconds")] * timed + [Column("parallel", "seconds")] * parallel
    columns += [Column("speedup", "ratio")] * fast + [Column("n", "count"), Column("status")]
    grid = Grid(columns)
    for row in rows:
        grid.rows.append(
            [
                *[run.title_of(row.dataset)] * with_dataset,
                row.method,
                *[mean_std(row, m) for m in run.metrics],
                *[row.value("seconds")] * timed,
                *[row.value("seconds_parallel")] * parallel,
                *[row.speedup] * fast,
                row.n,
                row.status_text,
            ]
        )
    return grid


def mean_std(row: Row, quantity: str) -> str:
    """Write ``mean ± std``, only the mean with one split, a dash without any."""
    value, spread = row.value(quantity), row.std(quantity)
    text = show(value, "score")
    if spread is None:
        return text
    # The same decimals as the mean, where that has a fixed number of them.
    return f"{text} ± {show(spread, 'score') if 'e' in text else format(spread, '.4f')}"


def count_text(row: Row, name: str) -> str | None:
    """Write a count over the splits: ``4`` when it is the same in all, else ``3-5``; None when it is not known."""
    return _range_text(row.counts.get(name) or [])


def task_note(run: Run, rows: list[Row]) -> str | None:
    """Say for the rows of a data set how many tasks had one class only in training or no defined metric.

    None when there was no such task.
    """
    counts: dict[str, list[int]] = {}
    for row in rows:
        for name, values in row.counts.items():
            counts.setdefault(name, []).extend(values)
    names = {COUNTS[0]: "one class only in the training part"}
    names.update({f"undefined_{m}": f"{m} undefined" for m in run.metrics})
    told = [f"{text}: {_range_text(counts[name])}" for name, text in names.items() if any(counts.get(name, ()))]
    if not told:
        return None
    return f"of {_range_text(counts.get('n_tasks', []))} tasks, per split: {'; '.join(told)}"


def _range_text(values: list[int]) -> str | None:
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
    row = Row(dataset, method, worst, len(done), len(planned), affected)
    for trial, record in done.items():
        _collect(row, trial, record)
    return row


def _collect(row: Row, trial: int, record: CellRecord) -> None:
    """Add the numbers of one finished cell to its row."""
    numbers: dict[str, float | None] = dict(record.metrics)
    numbers["seconds"] = record.seconds.get("fit")
    numbers["seconds_parallel"] = parallel_seconds(record.seconds)
    numbers["seconds_predict"] = record.seconds.get("predict")
    numbers.update({name: record.solver.get(name) for name in ("n_iter", "gap", "objective", "truth_error")})
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
