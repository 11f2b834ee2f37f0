"""The table for people: mean and deviation in one cell, columns without any content left out."""

from __future__ import annotations

from typing import Any

from mtlrun.report.checks import as_list
from mtlrun.report.folder import Run
from mtlrun.report.table import COUNTS, Row, range_text
from mtlrun.report.text import Column, Grid, number, show


def reading_grid(run: Run, rows: list[Row], *, with_dataset: bool = True) -> Grid:
    """Return the table of an experiment.

    Parameters
    ----------
    run : Run
    rows : list of Row
    with_dataset : bool
        Whether the name of the data set is a column.
    """
    if run.measures:
        return _measured(run, rows, with_dataset)
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


def _measured(run: Run, rows: list[Row], with_dataset: bool) -> Grid:
    """Return the table of measurements: a column per quantity, the published number beside those that have one."""
    inspect = run.info.get("kind") == "inspect"
    printed = _published_numbers(run) if inspect else {}
    named = not (inspect and len(run.methods) == 1)
    repeated = any(row.planned > 1 for row in rows)
    told = not inspect or any(row.status != "ok" for row in rows)
    columns = [Column("dataset")] * with_dataset + [Column("method")] * named
    for name in run.metrics:
        columns += [Column(name, "number")]
        columns += [Column(f"{name} (published)", "number")] * any(key[2] == name for key in printed)
    columns += [Column("n", "count")] * repeated + [Column("status")] * told
    grid = Grid(columns)
    for row in rows:
        values: list[Any] = [run.title_of(row.dataset)] * with_dataset + [row.method] * named
        for name in run.metrics:
            known = row.value(name) is not None
            values.append(number_text(row, name) if known else limit_text(run, row))
            if any(key[2] == name for key in printed):
                values.append(printed.get((row.dataset, row.method, name)))
        grid.rows.append(values + [row.n] * repeated + [row.status_text] * told)
    return grid


def _published_numbers(run: Run) -> dict[tuple[str, str, str], float]:
    """Return the paper's numbers by data set, method and quantity."""
    labels = {str(facts.get("id", label)): label for label, facts in reversed(run.datasets.items())}
    found = {}
    for entry in as_list(run.config.get("reference")):
        if entry.get("task") is None and (entry.get("source") or "paper") == "paper":
            name = str(entry["dataset"])
            label = name if name in run.datasets else labels.get(name, name)
            found[label, str(entry["method"]), str(entry["quantity"])] = entry["value"]
    return found


def number_text(row: Row, quantity: str) -> str:
    """Write what a measure returned: four digits or an integer, with the standard deviation over several repeats."""
    value, spread = row.value(quantity), row.std(quantity)
    text = show(value, "number")
    return f"{text} ± {number(spread, 2)}" if spread else text


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
    names = {COUNTS[0]: "one class only in the training part"}
    names.update({f"undefined_{m}": f"{m} undefined" for m in run.metrics})
    told = [f"{text}: {range_text(counts[name])}" for name, text in names.items() if any(counts.get(name, ()))]
    if not told:
        return None
    return f"of {range_text(counts.get('n_tasks', []))} tasks, per split: {'; '.join(told)}"
