"""Figures of a run as plain data.

They show sweeps, curves, matrices, regularization paths, ranks, and published numbers
next to ours. `mtlrun.show.figure_drawing` draws them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from mtlrun.catalog.analysis import Curve, Matrix
from mtlrun.engine.record import Record
from mtlrun.errors import UserError
from mtlrun.lab.experiment.claims import Sweep, Verdict
from mtlrun.lab.report.claims import JudgedRun
from mtlrun.lab.report.method_results import MethodResult, method_results
from mtlrun.lab.report.printed import (
    PrintedNumber,
    printed_axes,
    sweep_quantities,
    sweep_settings,
    transposed,
)
from mtlrun.lab.report.run import (
    Run,
    axis_of,
    first_results,
    has_data,
    read_run,
    results_of,
    title_of,
)
from mtlrun.lab.report.statistics import rank_groups, rank_methods
from mtlrun.show.figures import (
    Dumbbell,
    DumbbellPanel,
    Figure,
    HeatMap,
    Line,
    Panel,
    PublishedPair,
    RankDiagram,
    file_name,
    path_panel,
)
from mtlrun.show.quantities import spoken
from mtlrun.show.ranking import Ranking
from mtlrun.show.report_table import Column, ReportTable, Section
from mtlrun.stats import std
from mtlrun.utils.io import as_list, read_fields
from mtlrun.utils.outputs import write_output

#: Subfolder of the figures in the folder of a run.
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
#: An axis of numbers of an analysis is logarithmic if they span this factor.
LOG_SPAN = 100
#: Start of the file names of figures with published numbers and ours.
DUMBBELL = "published-and-ours"
#: Value of a mark on the axis of a sweep that depends on the number of tasks.
ROOT = "1/sqrt(tasks)"


# ---------------------------------------------------------- published numbers and ours


def dumbbells(judged: JudgedRun, tables: Sequence[Section]) -> list[Dumbbell]:
    """Return one figure per table with published numbers that were computed here.

    Each panel lists the methods, so that it shows which of them are best in the paper
    and here. The other axis of the table makes the panels.
    """
    by_columns = printed_axes(judged)[1] == "method"
    figures = []
    for table in tables:
        grid = table.grids[0]
        if not by_columns:
            grid = transposed(grid, "")
        labels = [column.name for column in grid.columns[1:]]
        panels = []
        for head, *cells in grid.rows:
            panel = _pairs_panel(judged.run, str(head), labels, cells)
            if panel is not None:
                panels.append(panel)
        if panels:
            words = re.findall(r"\w+", table.title)
            title = table.title or judged.run.spec.title
            figures.append(Dumbbell(file_name(DUMBBELL, *words), title, panels))
    return figures


def _pairs_panel(
    run: Run,
    title: str,
    labels: Sequence[str],
    cells: Sequence[PrintedNumber | None],
) -> DumbbellPanel | None:
    """Return the published numbers of a row or column, each with ours.

    None if none of them was computed.
    """
    pairs = []
    quantities = []
    for label, cell in zip(labels, cells, strict=True):
        if cell is None or cell.published is None:
            continue
        scale = 1
        if _is_percent(run, cell.quantity):
            scale = 100
        ours = None
        if cell.value is not None:
            ours = scale * cell.value
        pair = PublishedPair(
            label,
            scale * cell.published,
            ours,
            scale * (cell.std or 0.0),
            agrees=cell.verdict == Verdict.WITHIN,
        )
        pairs.append(pair)
        quantities.append(cell.quantity)
    if all(pair.ours is None for pair in pairs):
        return None
    axis = spoken(quantities[0])
    if _is_percent(run, quantities[0]):
        axis += " (%)"
    return DumbbellPanel(title, axis, pairs)


def _is_percent(run: Run, quantity: str) -> bool:
    """Return whether the tables show a quantity in percent."""
    layout = run.spec.table
    return bool(layout and layout.percent) and quantity in run.spec.metrics


# ------------------------------------------------------------------------ sweeps


def sweep_figures(run: Run, rows: Sequence[MethodResult]) -> list[Figure]:
    """Return one figure per data set of a sweep; none for other experiments."""
    figures: list[Figure] = []
    sweep = run.spec.sweep
    if sweep is None:
        return figures
    for dataset, settings in sweep_settings(run).items():
        panels = []
        for quantity in sweep_quantities(run):
            panel = _sweep_panel(run, sweep, rows, dataset, quantity)
            if any(curve.y for curve in panel.curves):
                panels.append(panel)
        if panels:
            figures.append(
                Figure(
                    file_name(dataset),
                    title_of(run, dataset),
                    panels,
                    axis=sweep.name,
                    values=[value for _, value in settings],
                    log=sweep.scale == "log",
                )
            )
    return figures


def _sweep_panel(
    run: Run,
    sweep: Sweep,
    rows: Sequence[MethodResult],
    dataset: str,
    quantity: str,
) -> Panel:
    """Return the curves of all methods, above the published ones."""
    table = {(row.dataset, row.method): row for row in rows}
    curves = []
    values: list[float] = []
    for index, method in enumerate(run.methods):
        curve = Line(method, place=index)
        for label, axis_value in sweep_settings(run)[dataset]:
            row = table.get((label, method))
            if row is None:
                continue
            value = row.value(quantity)
            if value is None:
                continue
            spread = 0.0
            if quantity not in row.medians:
                spread = row.std(quantity) or 0.0
            curve.x.append(axis_value)
            curve.y.append(value)
            curve.spread.append(spread)
        curves.append(curve)
        values += curve.y
    is_log = False
    if values and min(values) > 0:
        is_log = quantity in LOG_QUANTITIES
        if run.spec.is_analysis:
            spans_much = max(values) >= LOG_SPAN * min(values)
            is_log |= spans_much or quantity.startswith("seconds")
    is_x_log = sweep.scale == "log"
    published = published_curves(run, dataset, quantity)
    all_curves = [curve.drawable(is_x_log, is_log) for curve in published]
    all_curves += curves
    name = spoken(quantity)
    if _is_percent(run, quantity):
        name += " (%)"
        for curve in all_curves:
            curve.y = [100 * share for share in curve.y]
            curve.spread = [100 * share for share in curve.spread]
    marks = {}
    for text, position in sweep.marks.items():
        if position != ROOT:
            marks[text] = float(position)
            continue
        n_tasks = _n_tasks(run, dataset)
        if n_tasks:
            marks[text] = n_tasks**-0.5
    return Panel(name, is_log, all_curves, marks=marks)


def _n_tasks(run: Run, dataset: str) -> int | None:
    """Return the number of tasks of the first finished cell, or of the data card."""
    for label, _ in sweep_settings(run)[dataset]:
        for method in run.methods:
            for record in results_of(run, label, method):
                n_tasks = record.counts.get("n_tasks")
                if n_tasks:
                    return int(n_tasks)
        n_tasks = run.datasets[label].statistics.get("tasks")
        if n_tasks:
            return int(n_tasks)
    return None


# ---------------------------------------------------- curves and matrices of analyses

#: Curves of the first finished repeat and of further ones, as an analysis returned
#: them.
_StoredCurves = Mapping[str, Sequence[Mapping[str, Curve]]]


def trace_figures(run: Run) -> list[Figure]:
    """Return one figure per data set with stored curves, one panel per name of a curve.

    The curve of a method shows its first finished repeat. If all repeats have the same
    x, a band shows the range of their values. Published curves lie underneath.
    "objective, primal" is a variant of "objective": its panel shows the "objective" of
    methods without the variant.
    """
    figures = []
    for dataset in run.datasets:
        stored: dict[str, list[dict[str, Curve]]] = {}
        for method in run.methods:
            records = results_of(run, dataset, method)
            stored[method] = []
            for record in records:
                curves = record.result.get("curves") or {}
                stored[method].append(
                    {name: read_fields(Curve, curve) for name, curve in curves.items()}
                )
        names: dict[str, None] = {}
        for repeats in stored.values():
            for curves in repeats:
                names |= dict.fromkeys(curves)
        panels = []
        for name in names:
            panel = _trace_panel(run, dataset, name, stored)
            if len(names) > 1:
                panel.title = name
            panels.append(panel)
        if panels:
            title = run.spec.title
            if has_data(run, dataset):
                title = title_of(run, dataset)
            figures.append(Figure(file_name(dataset), title, panels))
    return figures


def _trace_panel(run: Run, dataset: str, name: str, stored: _StoredCurves) -> Panel:
    """Return the panel of one name.

    The first curve that has it determines labels and scales. A method has the curve of
    its first repeat, with the range of all repeats as a band.
    """
    plain_name = name.split(", ")[0]
    repeats_by_method: dict[str, list[Curve]] = {}
    for method, repeats in stored.items():
        repeats_by_method[method] = []
        for curves in repeats:
            curve = curves.get(name) or curves.get(plain_name)
            if curve:
                repeats_by_method[method].append(curve)
    first = next(c for curves in repeats_by_method.values() for c in curves)
    log_axes = first.log
    is_x_log = "x" in log_axes
    is_y_log = "y" in log_axes
    lines = published_curves(run, dataset, name)
    for index, method in enumerate(run.methods):
        line = Line(method, place=index)
        lines.append(line)
        method_curves = repeats_by_method[method]
        for curve in method_curves[:1]:
            line.x = as_list(curve.x)
            line.y = as_list(curve.y)
        has_same_x = all(as_list(curve.x) == line.x for curve in method_curves)
        if len(method_curves) > 1 and has_same_x:
            for values in zip(*(curve.y for curve in method_curves), strict=True):
                present = [value for value in values if value is not None]
                line.low.append(min(present, default=float("nan")))
                line.high.append(max(present, default=float("nan")))
    marks: dict[str, float] = {}
    for stored_curves in repeats_by_method.values():
        for curve in stored_curves[:1]:
            for text, x in curve.marks.items():
                marks[str(text)] = float(x)
    return Panel(
        first.y_label or name,
        is_y_log,
        [line.drawable(is_x_log, is_y_log) for line in lines],
        axis=first.x_label,
        x_log=is_x_log,
        marks=marks,
    )


def published_curves(run: Run, dataset: str, name: str) -> list[Line]:
    """Return the published curves of a quantity.

    Parameters
    ----------
    run : Run
    dataset : str
        Label or id of the data set, or its label in a sweep.
    name : str
        Quantity.
    """
    names = [dataset]
    for label, stored in run.datasets.items():
        if dataset in (label, axis_of(run, label)):
            names.append(stored.id)
    indices = {method: index for index, method in enumerate(run.methods)}
    curves = []
    for curve in run.experiment.published.curves:
        if curve.dataset not in names or curve.name != name:
            continue
        index = indices.setdefault(curve.method, len(indices))
        title = f"{curve.method} (published)"
        curves.append(Line(title, curve.x, curve.y, place=index, published=True))
    return curves


def published_line(run: Run) -> str | None:
    """Return a sentence on the source of published curves; None without any."""
    published = run.experiment.published.curves
    if not published:
        return None
    text = "Pale dashed curves are the published ones"
    sources: dict[str, None] = {}
    for curve in published:
        if curve.source:
            sources[str(curve.source)] = None
    if sources:
        text += f": {'; '.join(sources)}"
    return f"{text}."


def matrix_figures(run: Run) -> list[Figure]:
    """Return one figure per data set and method with stored matrices.

    The matrices come from the first finished repeat, one heat map for each.
    """
    figures = []
    for dataset, method, stored in first_results(run, "matrices"):
        maps = []
        for title, matrix in stored.items():
            stored_map = read_fields(Matrix, matrix)
            maps.append(
                HeatMap(
                    title,
                    stored_map.values,
                    list(map(str, stored_map.rows)),
                    list(map(str, stored_map.columns)),
                    stored_map.centre,
                )
            )
        name = file_name(dataset, method, "matrices")
        figures.append(Figure(name, _title(run, dataset, method), maps))
    return figures


def matrix_sections(run: Run) -> list[Section]:
    """Return the small matrices of the figures as tables.

    They serve readers who cannot see or enlarge the colors.
    """
    sections = []
    for figure in matrix_figures(run):
        for panel in figure.panels:
            if not isinstance(panel, HeatMap) or not panel.has_numbers:
                continue
            columns = [Column(name, "gain") for name in panel.columns]
            table = ReportTable([Column(""), *columns])
            for name, values in zip(panel.rows, panel.values, strict=True):
                table.rows.append([name, *values])
            title = f"Numbers of the figure: {figure.title}, {panel.title}"
            sections.append(Section(title, grids=[table]))
    return sections


def _title(run: Run, dataset: str, method: str) -> str:
    """Return the title of a figure of an analysis: its data, if any, and its method."""
    if has_data(run, dataset):
        return f"{title_of(run, dataset)}: {method}"
    return f"{method[:1].upper()}{method[1:]}"


# --------------------------------------------------- parameter searches and ranks


def path_figures(run: Run) -> list[Figure]:
    """Return one figure per data set with parameter searches, one panel per parameter.

    The best candidate with a value determines its score: the mean over the splits, with
    their standard deviation.
    """
    figures = []
    for dataset in run.datasets:
        searches: dict[str, list[Record]] = {}
        for method in run.methods:
            searches[method] = []
            for record in results_of(run, dataset, method):
                key = str(record.selection.key)
                if key in run.selections:
                    searches[method].append(run.selections[key])
        parameters: dict[str, None] = {}
        for records in searches.values():
            for record in records:
                parameters |= dict.fromkeys(record.selection.grid or {})
        panels = []
        for parameter in parameters:
            panel = _path_panel(run, parameter, searches)
            if any(len(curve.x) > 1 for curve in panel.curves):
                panels.append(panel)
        if panels:
            name = file_name(dataset, "path")
            figures.append(Figure(name, title_of(run, dataset), panels))
    return figures


def _path_panel(
    run: Run, parameter: str, searches: Mapping[str, Sequence[Record]]
) -> Panel:
    metric = "score"
    for records in searches.values():
        if records:
            metric = str(records[0].selection.metric)
            break
    curves = []
    for index, method in enumerate(run.methods):
        scores_by_value: dict[float, list[float]] = {}
        for record in searches[method]:
            for value, score in record.selection.best_scores(parameter).items():
                scores_by_value.setdefault(value, []).append(score)
        curve = Line(method, place=index)
        for value, scores in sorted(scores_by_value.items()):
            curve.x.append(value)
            curve.y.append(fmean(scores))
            curve.spread.append(std(scores) or 0.0)
        curves.append(curve)
    return path_panel(f"{spoken(metric)} (validation)", parameter, curves)


def rank_diagrams(run: Run, rows: list[MethodResult]) -> list[RankDiagram]:
    """Return the average ranks of each group of data sets as a diagram.

    An experiment without groups has one diagram of its comparison of methods.
    """
    rankings = [group for group in rank_groups(run, rows) if len(group.methods) > 2]
    if not rankings:
        ranking = rank_methods(run, rows)
        if ranking is not None and ranking.friedman is not None:
            rankings = [ranking]
    return [RankDiagram(file_name(ranking.label), [ranking]) for ranking in rankings]


def measured_ranks(run: Run) -> list[RankDiagram]:
    """Return one figure per data set and method with stored rankings.

    The rankings come from the first finished repeat, one diagram for each.
    """
    figures = []
    for dataset, method, stored in first_results(run, "rankings"):
        rankings = []
        for entry in stored:
            # In records, the metric is called quantity.
            rankings.append(
                read_fields(Ranking, {**entry, "metric": entry["quantity"]})
            )
        name = file_name(dataset, method, "ranks")
        heading = _title(run, dataset, method)
        figures.append(RankDiagram(name, rankings, heading))
    return figures


# ------------------------------------------------------------ the command `mtlrun plot`

Figures = Sequence[Figure | RankDiagram]


#: Kinds of figures by the names of the option --kind, with the results that they need.
KINDS = {
    "trace": "curves of measurements (kind: trace)",
    "scaling": "the axis of a sweep (section: sweep)",
    "heatmap": "matrices of measurements",
    "cd-diagram": (
        "three methods with a number on each of at least two data sets or splits, or "
        "rankings of measurements"
    ),
    "path": "a parameter search over at least two values of a parameter",
}


def figures_of(kind: str, run: Run, rows: list[MethodResult]) -> Figures:
    """Return the figures of one of `KINDS`; none if the run has no such results."""
    match kind:
        case "trace":
            return trace_figures(run)
        case "scaling":
            return sweep_figures(run, rows)
        case "heatmap":
            return matrix_figures(run)
        case "cd-diagram":
            return [*rank_diagrams(run, rows), *measured_ranks(run)]
    return path_figures(run)


def plot(folder: Path, kind: str, out: Path) -> list[Path]:
    """Draw figures of a run into files.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    kind : str
        One of `KINDS`.
    out : Path
        Its suffix determines the format. The names of several figures are inserted
        before it.

    Returns
    -------
    list of Path
        Files of the figures.

    Raises
    ------
    UnknownNameError
        If there is no such kind.
    UserError
        If the run has no results for this kind, or if the format is unknown.
    """
    # Matplotlib takes long to import.
    from mtlrun.show.drawing import check_drawing, write_drawing

    check_drawing("kind of figure", kind, KINDS, out)
    run = read_run(folder)
    rows = method_results(run)
    figures = figures_of(kind, run, rows)
    if not figures:
        remedy = f"It needs {KINDS[kind]}."
        other_kinds = _fitting_kinds(run, rows)
        if other_kinds:
            names = ", ".join(other_kinds)
            remedy += f" This run has something for --kind {names}."
        raise UserError(f"{folder}: nothing to draw for --kind {kind}", remedy)
    paths = []
    for figure in figures:
        path = out
        if len(figures) > 1:
            path = out.with_name(f"{out.stem}-{figure.name}{out.suffix}")
        write_drawing(figure, path, write_output)
        paths.append(path)
    return paths


def fitting_kinds(folder: Path) -> list[str]:
    """Return the kinds of figures for which a run has results."""
    run = read_run(folder)
    return _fitting_kinds(run, method_results(run))


def _fitting_kinds(run: Run, rows: list[MethodResult]) -> list[str]:
    return [kind for kind in KINDS if figures_of(kind, run, rows)]
