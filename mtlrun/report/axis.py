"""Sweeps: how quantities change along the axis, as a table and as the curves of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mtlrun.report.checks import MEDIAN_QUANTITIES, QUANTITIES
from mtlrun.report.folder import Run
from mtlrun.report.table import Row, mean_std
from mtlrun.report.text import Column, Grid, Section, show

#: Quantities whose values span orders of magnitude.
LOG_QUANTITIES = ("seconds", "seconds_parallel", "seconds_predict", "speedup", "n_iter", "gap")


@dataclass
class Curve:
    """One method: its values along the axis.

    Attributes
    ----------
    label : str
    x : list
        Values of the axis at which the method has a number.
    y : list of float
    spread : list of float
        Standard deviation over the splits, 0 where unknown and for medians.
    """

    label: str
    x: list[Any] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)


@dataclass
class Panel:
    """One quantity of one data set.

    Attributes
    ----------
    quantity : str
        Label of the vertical axis.
    log : bool
        Whether that axis is logarithmic.
    curves : list of Curve
        In the order of the methods, empty ones included, so that a method has one colour in all panels.
    """

    quantity: str
    log: bool
    curves: list[Curve]


@dataclass
class Figure:
    """The panels of one data set.

    Attributes
    ----------
    name : str
        Of the file, without its ending.
    title, axis : str
        `axis` is the label of the horizontal axes.
    values : list
        All values of the axis.
    log : bool
        Whether the horizontal axes are logarithmic.
    panels : list of Panel
    """

    name: str
    title: str
    axis: str
    values: list[Any]
    log: bool
    panels: list[Panel]


def sweep_figures(run: Run, rows: Sequence[Row]) -> list[Figure]:
    """Return one figure per data set of a sweep that has a number; none for other experiments."""
    sweep = run.config.get("sweep") or {}
    figures = []
    for dataset, values in _places(run).items():
        panels = [_panel(run, rows, dataset, quantity) for quantity in _quantities(run, rows)]
        panels = [panel for panel in panels if any(curve.y for curve in panel.curves)]
        if panels:
            name = "".join(c if c.isalnum() or c in "-_" else "-" for c in dataset)
            title = run.title_of(dataset) if dataset in run.datasets else _marked(run, dataset)
            log = sweep.get("scale") == "log"
            figures.append(Figure(name, title, str(sweep.get("name", "value")), values, log, panels))
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
                texts = [_text(row, quantity) if row else None for row in found]
                if any(texts):
                    grid.rows.append([_marked(run, dataset), quantity, show(facts["axis"]["value"]), *texts])
            if grid.rows:
                section.grids.append(grid)
    if section.grids:
        section.lines.append(
            "Mean ± standard deviation over the splits, medians of seconds; the table of results has all else."
        )
    return section


def _panel(run: Run, rows: Sequence[Row], dataset: str, quantity: str) -> Panel:
    table = {(row.dataset, row.method): row for row in rows}
    curves = []
    for method in run.methods:
        curve = Curve(method)
        for label, facts in _settings(run, dataset):
            row = table.get((label, method))
            value = row.value(quantity) if row else None
            if row is not None and value is not None:
                curve.x.append(facts["axis"]["value"])
                curve.y.append(value)
                curve.spread.append(0.0 if quantity in MEDIAN_QUANTITIES else row.std(quantity) or 0.0)
        curves.append(curve)
    log = quantity in LOG_QUANTITIES and all(y > 0 for curve in curves for y in curve.y)
    return Panel(quantity, log, curves)


def _text(row: Row, quantity: str) -> str | None:
    if row.value(quantity) is None:
        return None
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
