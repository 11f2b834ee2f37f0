"""Figures of a run as plain data: sweeps, curves, matrices, regularization paths, ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from mtlrun.engine.averages import std
from mtlrun.engine.record import Record
from mtlrun.lab.report.cells import MethodResult, Run
from mtlrun.lab.report.checks import Verdict
from mtlrun.lab.report.interpretations import JudgedRun
from mtlrun.lab.report.printed import (
    PrintedNumber,
    printed_axes,
    sweep_quantities,
    sweep_settings,
)
from mtlrun.lab.report.statistics import rank_groups, rank_methods
from mtlrun.tables.figures import (
    Drawing,
    Dumbbell,
    DumbbellPanel,
    Figure,
    HeatMap,
    Line,
    Panel,
    PublishedPair,
    RankDiagram,
    best_scores,
    file_name,
    path_panel,
)
from mtlrun.tables.quantities import spoken
from mtlrun.tables.ranking import Ranking
from mtlrun.tables.report_table import Column, ReportTable, Section
from mtlrun.utils.io import as_list

#: Where figures lie in the folder of a run.
FIGURES = "figures"
#: Quantities whose values span orders of magnitude.
LOG_QUANTITIES = (
    "seconds",
    "seconds_parallel",
    "seconds_predict",
    "speedup",
    "n_iter",
    "gap",
)
#: An axis of values that measures return is logarithmic if they span this factor.
LOG_SPAN = 100
#: Start of the names of the figures of published numbers and ours.
DUMBBELL = "published-and-ours"
#: A mark of the axis of a sweep that depends on the data.
ROOT = "1/sqrt(tasks)"


def run_figures(judged: JudgedRun, tables: Sequence[Section]) -> list[Drawing]:
    """Return the figures of the report of a run; `printed_tables` makes its tables."""
    run = judged.run
    return [
        *dumbbells(judged, tables),
        *sweep_figures(run, judged.rows),
        *trace_figures(run),
        *matrix_figures(run),
        *measured_ranks(run),
    ]


# ---------------------------------------------------------------- published against ours


def dumbbells(judged: JudgedRun, tables: Sequence[Section]) -> list[Dumbbell]:
    """Return a figure per printed table in which the paper has numbers that we computed.

    The methods of a table are the lines of a panel, and the other axis makes the
    panels: a panel shows which methods the paper and we put first.
    """
    by_columns = printed_axes(judged)[1] == "method"
    figures = []
    for table in tables:
        grid = table.grids[0]
        rows = [str(row[0]) for row in grid.rows]
        columns = [column.name for column in grid.columns[1:]]
        panels = []
        for i, title in enumerate(rows if by_columns else columns):
            if by_columns:
                labels = columns
                cells = grid.rows[i][1:]
            else:
                labels = rows
                cells = [row[i + 1] for row in grid.rows]
            panel = _pairs_panel(judged.run, title, labels, cells)
            if panel is not None:
                panels.append(panel)
        if panels:
            words = re.findall(r"\w+", table.title)
            title = table.title or str(judged.run.info.get("title", ""))
            figures.append(Dumbbell(file_name(DUMBBELL, *words), title, panels))
    return figures


def _pairs_panel(
    run: Run,
    title: str,
    labels: Sequence[str],
    cells: Sequence[PrintedNumber | None],
) -> DumbbellPanel | None:
    """Return the published numbers of a row or column with ours, None if none was computed."""
    pairs = []
    quantities = []
    for label, cell in zip(labels, cells, strict=True):
        if cell is None or cell.published is None:
            continue
        scale = 100 if _is_percent(run, cell.quantity) else 1
        pair = PublishedPair(
            label,
            scale * cell.published,
            None if cell.value is None else scale * cell.value,
            scale * (cell.std or 0.0),
            agrees=cell.verdict == Verdict.WITHIN,
        )
        pairs.append(pair)
        quantities.append(cell.quantity)
    if all(pair.ours is None for pair in pairs):
        return None
    unit = " (%)" if _is_percent(run, quantities[0]) else ""
    return DumbbellPanel(title, spoken(quantities[0]) + unit, pairs)


def _is_percent(run: Run, quantity: str) -> bool:
    """Whether the tables show a quantity per cent."""
    layout = run.config.get("table") or {}
    return bool(layout.get("percent")) and quantity in run.metrics


def _in_percent(run: Run, quantity: str, curves: Sequence[Line]) -> str:
    """Return the name of a quantity, and put its curves into per cent where the tables are."""
    if not _is_percent(run, quantity):
        return spoken(quantity)
    for curve in curves:
        curve.y = [100 * value for value in curve.y]
        curve.spread = [100 * value for value in curve.spread]
        curve.low = [100 * value for value in curve.low]
        curve.high = [100 * value for value in curve.high]
    return f"{spoken(quantity)} (%)"


# ---------------------------------------------------------------- sweeps


def sweep_figures(run: Run, rows: Sequence[MethodResult]) -> list[Figure]:
    """Return one figure per data set of a sweep that has a number; none for other experiments."""
    figures = []
    for dataset, settings in sweep_settings(run).items():
        panels = [
            _sweep_panel(run, rows, dataset, quantity)
            for quantity in sweep_quantities(run)
        ]
        panels = [panel for panel in panels if any(curve.y for curve in panel.curves)]
        if panels:
            values, log = (
                [value for _, value in settings],
                run.sweep.get("scale") == "log",
            )
            name = str(run.sweep.get("name", "value"))
            figures.append(
                Figure(
                    file_name(dataset), run.title_of(dataset), panels, name, values, log
                )
            )
    return figures


def _sweep_panel(
    run: Run, rows: Sequence[MethodResult], dataset: str, quantity: str
) -> Panel:
    table = {(row.dataset, row.method): row for row in rows}
    curves = []
    for place, method in enumerate(run.methods):
        curve = Line(method, place=place)
        for label, at in sweep_settings(run)[dataset]:
            row = table.get((label, method))
            value = row.value(quantity) if row else None
            if row is not None and value is not None:
                curve.x.append(at)
                curve.y.append(value)
                curve.spread.append(
                    0.0 if quantity in row.medians else row.std(quantity) or 0.0
                )
        curves.append(curve)
    log = _log(run, quantity, [y for curve in curves for y in curve.y])
    below = [
        c.drawable(run.sweep.get("scale") == "log", log)
        for c in published_curves(run, dataset, quantity)
    ]
    name = _in_percent(run, quantity, below + curves)
    return Panel(name, log, below + curves, marks=_sweep_marks(run, dataset))


def _log(run: Run, quantity: str, values: Sequence[float]) -> bool:
    if not values or min(values) <= 0:
        return False
    return quantity in LOG_QUANTITIES or (
        run.measures
        and (quantity.startswith("seconds") or max(values) >= LOG_SPAN * min(values))
    )


def _sweep_marks(run: Run, dataset: str) -> dict[str, float]:
    """Return the marks of the axis, those that depend on the number of tasks with their value."""
    marks = {}
    for text, value in (run.sweep.get("marks") or {}).items():
        if value != ROOT:
            marks[str(text)] = float(value)
        elif tasks := _tasks(run, dataset):
            marks[str(text)] = tasks**-0.5
    return marks


def _tasks(run: Run, dataset: str) -> int | None:
    """Return the number of tasks of the first finished cell, else as the card says."""
    for label, _ in sweep_settings(run)[dataset]:
        counts = (
            r.counts.get("n_tasks")
            for m in run.methods
            for r in run.results_of(label, m)
        )
        found = next(
            (n for n in counts if n),
            (run.datasets[label].get("statistics") or {}).get("tasks"),
        )
        if found:
            return int(found)
    return None


# ---------------------------------------------------------------- curves and matrices of measurements


def trace_figures(run: Run) -> list[Figure]:
    """Return one figure per data set whose records hold curves, a panel per name of a curve.

    A method's curve is that of its first finished repeat; where all repeats have the same x, the band between their
    smallest and largest values is drawn around it. Curves of the experiment's file of published ones lie underneath.
    "objective, primal" is a variant of "objective": in its panel, a method without it is drawn with its "objective".
    """
    figures = []
    for dataset in run.datasets:
        stored = {
            m: [r.result.get("curves") or {} for r in run.results_of(dataset, m)]
            for m in run.methods
        }
        names = dict.fromkeys(
            name for group in stored.values() for curves in group for name in curves
        )
        panels = [
            _trace_panel(run, dataset, name, stored, titled=len(names) > 1)
            for name in names
        ]
        if panels:
            title = (
                run.title_of(dataset)
                if run.has_data(dataset)
                else str(run.info.get("title", ""))
            )
            figures.append(Figure(file_name(dataset), title, panels))
    return figures


def _trace_panel(
    run: Run,
    dataset: str,
    name: str,
    stored: Mapping[str, Sequence[Mapping[str, Any]]],
    titled: bool,
) -> Panel:
    """Return the panel of one name: labels and scales are those of the first curve that has it."""
    plain = name.split(", ")[0]
    groups = {
        method: [
            curve
            for curves in group
            if (curve := curves.get(name) or curves.get(plain))
        ]
        for method, group in stored.items()
    }
    first = next(curve for group in groups.values() for curve in group)
    log = str(first.get("log") or "")
    curves = published_curves(run, dataset, name)
    curves += [
        _trace_curve(method, place, groups[method])
        for place, method in enumerate(run.methods)
    ]
    marks = [
        mark
        for group in groups.values()
        for c in group[:1]
        for mark in (c.get("marks") or {}).items()
    ]
    return Panel(
        str(first.get("y_label") or name),
        "y" in log,
        [curve.drawable("x" in log, "y" in log) for curve in curves],
        axis=str(first.get("x_label") or ""),
        x_log="x" in log,
        marks={str(text): float(x) for text, x in marks},
        title=name if titled else "",
    )


def _trace_curve(method: str, place: int, repeats: Sequence[Mapping[str, Any]]) -> Line:
    if not repeats:
        return Line(method, place=place)
    curve = Line(
        method, as_list(repeats[0]["x"]), as_list(repeats[0]["y"]), place=place
    )
    if len(repeats) > 1 and all(as_list(r["x"]) == curve.x for r in repeats):
        columns = [
            [v for v in values if v is not None]
            for values in zip(*(r["y"] for r in repeats), strict=True)
        ]
        curve.low = [min(column, default=float("nan")) for column in columns]
        curve.high = [max(column, default=float("nan")) for column in columns]
    return curve


def published_curves(run: Run, dataset: str, name: str) -> list[Line]:
    """Return the curves of the paper for a data set (its label, its id, or its label in a sweep) and a quantity."""
    ids = [
        str(f.get("id"))
        for label, f in run.datasets.items()
        if dataset in (label, run.axis_of(label))
    ]
    places = {method: place for place, method in enumerate(run.methods)}
    found = []
    for entry in run.published:
        if (
            str(entry.get("dataset")) in (dataset, *ids)
            and str(entry.get("name")) == name
        ):
            method = str(entry["method"])
            place = places.setdefault(method, len(places))
            label = f"{method} (published)"
            found.append(
                Line(
                    label,
                    list(entry["x"]),
                    list(entry["y"]),
                    place=place,
                    published=True,
                )
            )
    return found


def published_line(run: Run) -> str | None:
    """Say where the published curves come from; None without any."""
    sources = dict.fromkeys(
        str(entry["source"]) for entry in run.published if entry.get("source")
    )
    if not run.published:
        return None
    return f"Pale dashed curves are the published ones{': ' if sources else ''}{'; '.join(sources)}."


def matrix_figures(run: Run) -> list[Figure]:
    """Return one figure per data set and method whose first finished repeat has matrices, a heat map for each."""
    figures = []
    for dataset, method, stored in run.first_results("matrices"):
        maps = [
            HeatMap(
                name,
                m["values"],
                list(map(str, m["rows"])),
                list(map(str, m["columns"])),
                m.get("centre"),
            )
            for name, m in stored.items()
        ]
        name = file_name(dataset, method, "matrices")
        figures.append(Figure(name, _title(run, dataset, method), maps))
    return figures


def matrix_sections(run: Run) -> list[Section]:
    """Return the small matrices of the figures as tables, for readers who cannot see or enlarge the colors."""
    sections = []
    for figure in matrix_figures(run):
        for panel in figure.panels:
            if not isinstance(panel, HeatMap) or not panel.has_numbers:
                continue
            table = ReportTable(
                [Column(""), *(Column(c, "gain") for c in panel.columns)]
            )
            table.rows = [
                [head, *values]
                for head, values in zip(panel.rows, panel.values, strict=True)
            ]
            title = f"Numbers of the figure: {figure.title}, {panel.title}"
            sections.append(Section(title, grids=[table]))
    return sections


def _title(run: Run, dataset: str, method: str) -> str:
    """Return the title of a figure of an analysis: its data and its method, where there are data."""
    if run.has_data(dataset):
        return f"{run.title_of(dataset)}: {method}"
    return f"{method[:1].upper()}{method[1:]}"


# ---------------------------------------------------------------- parameter searches and ranks


def path_figures(run: Run) -> list[Figure]:
    """Return one figure per data set with parameter searches, a panel per parameter of their grids.

    The score at a value is that of the best candidate with it, averaged over the splits, with their standard deviation.
    """
    figures = []
    for dataset in run.datasets:
        searches = {}
        for method in run.methods:
            keys = [
                str(r.selection.get("key")) for r in run.results_of(dataset, method)
            ]
            searches[method] = [
                run.selections[key] for key in keys if key in run.selections
            ]
        names = dict.fromkeys(
            name
            for group in searches.values()
            for record in group
            for name in record.selection.get("grid") or {}
        )
        panels = [_path_panel(run, name, searches) for name in names]
        panels = [
            panel for panel in panels if any(len(curve.x) > 1 for curve in panel.curves)
        ]
        if panels:
            figures.append(
                Figure(file_name(dataset, "path"), run.title_of(dataset), panels)
            )
    return figures


def _path_panel(run: Run, name: str, searches: Mapping[str, Sequence[Record]]) -> Panel:
    metric = next(
        (str(r.selection["metric"]) for group in searches.values() for r in group),
        "score",
    )
    curves = []
    for place, method in enumerate(run.methods):
        found = [best_scores(record.selection, name) for record in searches[method]]
        x = sorted({value for scores in found for value in scores})
        y = [[scores[value] for scores in found if value in scores] for value in x]
        curves.append(
            Line(
                method,
                list(x),
                list(map(fmean, y)),
                [std(scores) or 0.0 for scores in y],
                place=place,
            )
        )
    return path_panel(f"{spoken(metric)} (validation)", name, curves)


def rank_diagrams(run: Run, rows: list[MethodResult]) -> list[RankDiagram]:
    """Return the average ranks of every group of data sets, or of the comparison of an experiment without groups."""
    rankings = [group for group in rank_groups(run, rows) if len(group.methods) > 2]
    alone = None if rankings else rank_methods(run, rows)
    if alone is not None and alone.friedman is not None:
        rankings.append(alone)
    return [RankDiagram(file_name(ranking.label), [ranking]) for ranking in rankings]


def measured_ranks(run: Run) -> list[RankDiagram]:
    """Return one figure per data set and method whose first finished repeat has rankings, a diagram for each."""
    figures = []
    for dataset, method, stored in run.first_results("rankings"):
        rankings = [
            Ranking(
                one["label"],
                one["quantity"],
                one["blocks"],
                one["methods"],
                one["values"],
                one["greater"],
            )
            for one in stored
        ]
        heading = _title(run, dataset, method)
        figures.append(
            RankDiagram(file_name(dataset, method, "ranks"), rankings, heading)
        )
    return figures
