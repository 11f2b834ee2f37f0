"""Sweeps: how quantities change along the axis, as a table and as the curves of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mtlrun.report.checks import QUANTITIES
from mtlrun.report.curves import published_curves
from mtlrun.report.folder import Run
from mtlrun.report.panels import Curve, Figure, Panel, drop_impossible, file_name
from mtlrun.report.reading import limit_text, mean_std, number_text
from mtlrun.report.table import Row
from mtlrun.report.text import Column, Grid, Section, show

#: Quantities whose values span orders of magnitude.
LOG_QUANTITIES = ("seconds", "seconds_parallel", "seconds_predict", "speedup", "n_iter", "gap")
#: What measures return is drawn on a logarithmic axis when it spans as much as this.
LOG_SPAN = 100
#: A mark that depends on the data.
ROOT = "1/sqrt(tasks)"


def sweep_figures(run: Run, rows: Sequence[Row]) -> list[Figure]:
    """Return one figure per data set of a sweep that has a number; none for other experiments."""
    sweep = run.config.get("sweep") or {}
    figures = []
    for dataset, values in _places(run).items():
        panels = [_panel(run, rows, dataset, quantity) for quantity in _quantities(run, rows)]
        panels = [panel for panel in panels if any(curve.y for curve in panel.curves)]
        if panels:
            title = run.title_of(dataset) if dataset in run.datasets else _marked(run, dataset)
            log = sweep.get("scale") == "log"
            figures.append(Figure(file_name(dataset), title, str(sweep.get("name", "value")), values, log, panels))
    return figures


def axis_section(run: Run, rows: Sequence[Row]) -> Section:
    """Return one table per data set and quantity of a sweep: a line per value, a column per method."""
    section = Section("Along the axis")
    sweep = run.config.get("sweep") or {}
    table = {(row.dataset, row.method): row for row in rows}
    for dataset in _places(run):
        for quantity in _quantities(run, rows):
            columns = [Column("dataset"), Column("quantity"), Column(str(sweep.get("name", "value")), "seconds")]
            grid = Grid([*columns, *(Column(method, "seconds") for method in run.methods)])
            for label, facts in _settings(run, dataset):
                found = [table.get((label, method)) for method in run.methods]
                texts = [_text(run, row, quantity) if row else None for row in found]
                if any(texts):
                    grid.rows.append([_marked(run, dataset), quantity, show(facts["axis"]["value"]), *texts])
            if grid.rows:
                section.grids.append(grid)
    if section.grids:
        what = "repeats" if run.measures else "splits, medians of seconds"
        section.lines.append(f"Mean ± standard deviation over the {what}; the table of results has all else.")
    return section


def _panel(run: Run, rows: Sequence[Row], dataset: str, quantity: str) -> Panel:
    table = {(row.dataset, row.method): row for row in rows}
    curves = []
    for place, method in enumerate(run.methods):
        curve = Curve(method, place=place)
        for label, facts in _settings(run, dataset):
            row = table.get((label, method))
            value = row.value(quantity) if row else None
            if row is not None and value is not None:
                curve.x.append(facts["axis"]["value"])
                curve.y.append(value)
                curve.spread.append(0.0 if quantity in row.medians else row.std(quantity) or 0.0)
        curves.append(curve)
    log = _log(run, quantity, [y for curve in curves for y in curve.y])
    x_log = (run.config.get("sweep") or {}).get("scale") == "log"
    below = [drop_impossible(c, x_log, log) for c in published_curves(run, dataset, quantity)]
    return Panel(quantity, log, below + curves, marks=_marks(run, dataset))


def _log(run: Run, quantity: str, values: Sequence[float]) -> bool:
    if not values or min(values) <= 0:
        return False
    return quantity in LOG_QUANTITIES or (
        run.measures and (quantity.startswith("seconds") or max(values) >= LOG_SPAN * min(values))
    )


def _marks(run: Run, dataset: str) -> dict[str, float]:
    """Return the marks of the axis, those that depend on the number of tasks with their value."""
    marks = {}
    for text, value in ((run.config.get("sweep") or {}).get("marks") or {}).items():
        if value != ROOT:
            marks[str(text)] = float(value)
        elif tasks := _tasks(run, dataset):
            marks[str(text)] = tasks**-0.5
    return marks


def _tasks(run: Run, dataset: str) -> int | None:
    """Return the number of tasks of the first finished cell, else as the card says."""
    for label, facts in _settings(run, dataset):
        counts = (r.counts.get("n_tasks") for m in run.methods for r in run.results_of(label, m))
        found = next((n for n in counts if n), (facts.get("statistics") or {}).get("tasks"))
        if found:
            return int(found)
    return None


def _text(run: Run, row: Row, quantity: str) -> str | None:
    """Write one entry of a table along the axis; what ran into the limit is told with it."""
    late = limit_text(run, row)
    if row.value(quantity) is None:
        return late
    if run.measures:
        return number_text(row, quantity) + (f" ({row.affected} of {row.planned} {late})" if late else "")
    known = quantity in QUANTITIES and quantity != "truth_error"
    return show(row.value(quantity), "seconds") if known else mean_std(row, quantity)


def _quantities(run: Run, rows: Sequence[Row]) -> list[str]:
    """Return what the experiment wants drawn: by default the metrics, and seconds when they are measured."""
    asked = (run.config.get("sweep") or {}).get("quantities")
    if asked:
        return [str(name) for name in asked]
    return [*run.metrics, *["seconds"] * bool(run.config.get("timing"))]


def _places(run: Run) -> dict[str, list[Any]]:
    """Return the data sets of a sweep with the values of the axis."""
    found: dict[str, list[Any]] = {}
    for facts in run.datasets.values():
        axis = facts.get("axis")
        if axis:
            found.setdefault(str(axis["of"]), []).append(axis["value"])
    return found


def _settings(run: Run, dataset: str) -> list[tuple[str, dict[str, Any]]]:
    return [(label, facts) for label, facts in run.datasets.items() if (facts.get("axis") or {}).get("of") == dataset]


def _marked(run: Run, dataset: str) -> str:
    """Return the label of a data set, marked when it is simulated."""
    simulated = any(facts.get("simulated") for _, facts in _settings(run, dataset))
    return f"{dataset} (simulated)" if simulated and "simulated" not in dataset.lower() else dataset
