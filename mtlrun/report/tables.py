"""The tables of a run: results for people and for machines, along the axis of a sweep, and those of measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mtlrun.report.checks import PARALLEL, as_list
from mtlrun.report.grid import Column, Grid, Section, number, show
from mtlrun.report.run import Row, Run

#: Counted cell by cell: tasks whose training part has one class only.
ONE_CLASS = "one_class_train"
#: Columns with the values of all rows.
Columns = list[tuple[Column, list[Any]]]


# ---------------------------------------------------------------- results


def result_grid(run: Run, rows: list[Row]) -> Grid:
    """Return the machine-readable table: the documented columns first, further facts after `status`."""
    kind = "number" if run.measures else "score"
    columns: Columns = [(Column("dataset"), [row.dataset for row in rows])]
    columns.append((Column("method"), [row.method for row in rows]))
    for m in run.metrics:
        columns.append((Column(f"{m}_mean", kind), [row.value(m) for row in rows]))
        columns.append((Column(f"{m}_std", kind), [row.std(m) for row in rows]))
    if not run.measures:
        columns.append((Column("seconds_median", "seconds"), [row.value("seconds") for row in rows]))
        columns.append((Column("speedup", "ratio"), [row.speedup for row in rows]))
    columns.append((Column("n", "count"), [row.n for row in rows]))
    columns.append((Column("status"), [row.status for row in rows]))
    columns.append((Column("planned", "count"), [row.planned for row in rows]))
    if not run.measures:
        for name in (ONE_CLASS, *(f"undefined_{m}" for m in run.metrics)):
            columns.append((Column(name), [range_text(row.counts.get(name)) for row in rows]))
        parallel = [row.value(PARALLEL) if PARALLEL in row.samples else None for row in rows]
        columns += [(Column("seconds_parallel_median", "seconds"), parallel)] * _any(parallel)
    return _joined(columns)


def measured_grid(run: Run, rows: list[Row], *, with_dataset: bool = True) -> Grid:
    """Return measurements that make no matrix, for people: a column per quantity.

    Parameters
    ----------
    run : Run
    rows : list of Row
    with_dataset : bool
        Whether the name of the data set is a column.
    """
    columns: Columns = [(Column("dataset"), [run.title_of(row.dataset) for row in rows])] * with_dataset
    columns.append((Column("method"), [row.method for row in rows]))
    for name in run.metrics:
        columns.append((Column(name, "number"), [number_text(row, name) or limit_text(run, row) for row in rows]))
    columns += [(Column("n", "count"), [row.n for row in rows])] * any(row.planned > 1 for row in rows)
    columns.append((Column("status"), [row.status_text for row in rows]))
    return _joined(columns)


def _joined(columns: Columns) -> Grid:
    return Grid([column for column, _ in columns], [list(row) for row in zip(*(v for _, v in columns), strict=True)])


def _any(values: Sequence[Any]) -> bool:
    return any(value is not None for value in values)


def number_text(row: Row, quantity: str) -> str | None:
    """Write what a measure returned: four digits or an integer, with the standard deviation over several repeats."""
    value, spread = row.value(quantity), row.std(quantity)
    if value is None:
        return None
    return f"{show(value, 'number')} ± {number(spread, 2)}" if spread else show(value, "number")


def limit_text(run: Run, row: Row) -> str | None:
    """Write ``> 120 s`` for a row with cells that ran into the limit, None for others."""
    seconds = (run.config.get("limits") or {}).get("seconds")
    if not row.timeouts:
        return None
    return f"> {number(float(seconds))} s" if seconds else "timeout"


def mean_std(row: Row, quantity: str) -> str:
    """Write ``mean ± std``, only the mean with one split, a dash without any."""
    value, spread = row.value(quantity), row.std(quantity)
    text = show(value, "score")
    if spread is None:
        return text
    # The same decimals as the mean, where that has a fixed number of them.
    return f"{text} ± {show(spread, 'score') if 'e' in text else format(spread, '.4f')}"


def result_notes(run: Run, rows: list[Row]) -> list[str]:
    """Say for every data set what `task_note` says."""
    notes = ((d, task_note(run, [row for row in rows if row.dataset == d])) for d in run.datasets)
    return [f"{dataset}: {note}." for dataset, note in notes if note]


def task_note(run: Run, rows: list[Row]) -> str | None:
    """Say for the rows of a data set how many tasks had one class only in training or no defined metric.

    None when there was no such task.
    """
    counts: dict[str, list[int]] = {}
    for row in rows:
        for name, values in row.counts.items():
            counts.setdefault(name, []).extend(values)
    names = {ONE_CLASS: "have only one class in the training part"}
    names.update({f"undefined_{m}": f"have no defined {m}" for m in run.metrics})
    told = [f"{range_text(counts[name])} {text}" for name, text in names.items() if any(counts.get(name, ()))]
    if not told:
        return None
    return f"in each split, of {range_text(counts.get('n_tasks'))} tasks {' and '.join(told)}"


def range_text(values: Sequence[int] | None) -> str | None:
    """Write the smallest and the largest of counts, one number when they are equal; None without any."""
    if not values:
        return None
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"


# ---------------------------------------------------------------- sweeps


def sweep_settings(run: Run) -> dict[str, list[tuple[str, Any]]]:
    """Return, by data set of a sweep, its label at every value of the axis and the value."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for label, facts in run.datasets.items():
        if facts.get("axis"):
            found.setdefault(run.axis_of(label), []).append((label, facts["axis"]["value"]))
    return found


def sweep_quantities(run: Run) -> list[str]:
    """Return what the experiment wants shown along the axis: by default the metrics, and measured seconds."""
    asked = as_list(run.sweep.get("quantities"))
    return list(map(str, asked)) or [*run.metrics, *["seconds"] * bool(run.config.get("timing"))]


def sweep_title(run: Run, dataset: str) -> str:
    """Label of a data set of a sweep, marked when it is simulated."""
    simulated = any(run.datasets[label].get("simulated") for label, _ in sweep_settings(run)[dataset])
    return f"{dataset} (simulated)" if simulated and "simulated" not in dataset.lower() else dataset


# ---------------------------------------------------------------- measurements


def measurement_sections(run: Run) -> list[Section]:
    """Return what the first finished repeat of every method says on every data set: its sentences, then its tables."""
    sections = []
    for dataset in run.datasets:
        for method in run.methods:
            told = next((r.result for r in run.results_of(dataset, method) if r.result), {})
            title = f"{method} on {run.title_of(dataset)}" if run.has_data(dataset) else method
            lines = [str(line) for line in told.get("lines") or ()]
            if lines:
                sections.append(Section(title, [f"* {line}" for line in lines]))
            for name, table in (told.get("tables") or {}).items():
                sections.append(Section(f"{title}: {name}", grids=[_stored_grid(table["columns"], table["rows"])]))
    return sections


def _stored_grid(columns: Sequence[Any], rows: Sequence[Sequence[Any]]) -> Grid:
    """Return a stored table; a column without any text is one of numbers."""
    kinds = ["text" if any(isinstance(row[i], str) for row in rows) else "number" for i in range(len(columns))]
    return Grid([Column(str(c), k) for c, k in zip(columns, kinds, strict=True)], [list(row) for row in rows])
