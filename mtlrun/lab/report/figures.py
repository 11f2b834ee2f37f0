"""The figures of a run as plain data: sweeps, curves, matrices, regularisation paths, ranks. `drawing` draws them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import fmean, median
from typing import Any, Literal

from mtlrun.engine.record import Record, candidates
from mtlrun.lab.report.cells import MethodResult, Run, std
from mtlrun.lab.report.checks import Verdict, spoken
from mtlrun.lab.report.interpretations import ReferenceVerdict
from mtlrun.lab.report.printed import sweep_quantities, sweep_settings
from mtlrun.lab.report.statistics import (
    Ranking,
    greater_is_better,
    rank_groups,
    rank_methods,
)
from mtlrun.tables.report_table import show
from mtlrun.utils.io import as_list

#: Where figures lie in the folder of a run.
FIGURES = "figures"
#: Bytes of the name of a file, its ending left out.
LONGEST_NAME = 200
#: Quantities whose values span orders of magnitude.
LOG_QUANTITIES = (
    "seconds",
    "seconds_parallel",
    "seconds_predict",
    "speedup",
    "n_iter",
    "gap",
)
#: Spans from which on an axis is logarithmic: of what measures return, of the values of a parameter.
LOG_SPAN, LOG_SPAN_PARAMETER = 100, 50
#: Name of the figure of printed numbers against ours, and the points that it needs.
PRINTED, FEWEST_POINTS = "printed-against-ours", 3
#: A mark of the axis of a sweep that depends on the data.
ROOT = "1/sqrt(tasks)"


@dataclass
class Line:
    """One method in a panel.

    Attributes
    ----------
    label : str
    x : list
        Numbers, or values of the axis of a sweep.
    y : list of float
    spread : list of float
        Half length of the error bars; empty for none.
    low, high : list of float
        Band around the curve; empty for none.
    place : int or None
        Number of the colour and marker; None: the place of the curve in its panel.
    published : bool
        Read from the paper and not computed here: drawn thin, pale and dashed.
    points : {"", "filled", "hollow"}
        Draw points of this kind without a line.
    smooth : bool
        A function at many values: drawn as a line without markers.
    background : bool
        One of many curves behind the others: drawn thin and gray, without markers.
    """

    label: str
    x: list[Any] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    place: int | None = None
    published: bool = False
    points: Literal["", "filled", "hollow"] = ""
    smooth: bool = False
    background: bool = False

    def drawable(self, x_log: bool, y_log: bool) -> Line:
        """Return the curve without the points that the axes cannot show: gaps, and nothing positive on a log axis."""

        def shown(value: object, log: bool) -> bool:
            if not isinstance(value, int | float):
                return value is not None
            # NaN is the only number that does not equal itself.
            return value == value and (not log or value > 0)

        keep = [
            i
            for i, (x, y) in enumerate(zip(self.x, self.y, strict=True))
            if shown(x, x_log) and shown(y, y_log)
        ]

        def kept(values: list[Any]) -> list[Any]:
            # Intervals are empty where a curve has none.
            return [values[i] for i in keep] if values else values

        return replace(
            self,
            x=kept(self.x),
            y=kept(self.y),
            spread=kept(self.spread),
            low=kept(self.low),
            high=kept(self.high),
        )


@dataclass
class Panel:
    """Curves over one pair of axes.

    Attributes
    ----------
    quantity : str
        Label of the vertical axis.
    log : bool
        Whether that axis is logarithmic.
    curves : list of Line
        In the order of the methods, empty ones included, so that a method has one colour in all panels.
    axis : str or None
        Label of the horizontal axis; None: that of the figure.
    x_log : bool or None
        Whether the horizontal axis is logarithmic; None: as the figure says.
    marks : dict of str to float
        Vertical lines with their text.
    title : str
    diagonal : bool
        Whether both axes show the same quantity: the line of equal values is drawn.
    limits : tuple of float or None
        Ends of the vertical axis; None: those of the curves.
    """

    quantity: str
    log: bool
    curves: list[Line]
    axis: str | None = None
    x_log: bool | None = None
    marks: dict[str, float] = field(default_factory=dict)
    title: str = ""
    diagonal: bool = False
    limits: tuple[float, float] | None = None


@dataclass
class HeatMap:
    """A matrix as colours.

    Attributes
    ----------
    title : str
    values : list of list of float
    rows, columns : list of str
    centre : float or None
        Value in the middle of a diverging colour map; None: a sequential one.
    """

    title: str
    values: list[list[float]]
    rows: list[str]
    columns: list[str]
    centre: float | None = None

    @property
    def quantity(self) -> str:
        """What the panel shows."""
        return self.title


@dataclass
class Figure:
    """Panels of one data set, in one file.

    Attributes
    ----------
    name : str
        Of the file, without its ending.
    title : str
    panels : sequence of Panel and HeatMap
    axis : str
        Label of the horizontal axes of panels that have none of their own.
    values : list
        Values of that axis, in order; empty when its values are those of the curves.
    log : bool
        Whether that axis is logarithmic.
    """

    name: str
    title: str
    panels: Sequence[Panel | HeatMap]
    axis: str = ""
    values: list[Any] = field(default_factory=list)
    log: bool = False

    @property
    def caption(self) -> str:
        """What the figure shows, in one line."""
        shown = ", ".join(dict.fromkeys(panel.quantity for panel in self.panels))
        axes = dict.fromkeys(
            p.axis or self.axis for p in self.panels if isinstance(p, Panel)
        )
        parts = [f"{self.title}: {shown}"]
        if axes:
            parts[0] += f" against {', '.join(axes)}"
        if any(
            c.points == "hollow"
            for p in self.panels
            if isinstance(p, Panel)
            for c in p.curves
        ):
            parts.append("hollow: out of tolerance")
        if any(isinstance(panel, Panel) and panel.diagonal for panel in self.panels):
            parts.append("dotted: equal numbers")
        return "; ".join(parts)


@dataclass
class RankDiagram:
    """Critical-difference diagrams: average ranks, and bars over methods that Nemenyi's test does not tell apart.

    Attributes
    ----------
    name : str
    rankings : list of Ranking
        A diagram for each, from the top.
    heading : str
        What stands above several diagrams.
    """

    name: str
    rankings: list[Ranking]
    heading: str = ""

    @property
    def title(self) -> str:
        """What is ranked, and over what."""
        return self.heading or self.title_of(self.rankings[0])

    @staticmethod
    def title_of(ranking: Ranking) -> str:
        """What is ranked in one of the diagrams, and over what."""
        return f"{spoken(ranking.metric)}, {ranking.label}"

    @property
    def caption(self) -> str:
        """What the figure shows, in one line."""
        return f"Average ranks by {self.title} (1 is best); bars: not separated by Nemenyi's test at 0.05"


#: What is that many times as far from zero as the median does not stretch the axis of a forest.
_FAR = 8
#: Intervals are cut where they reach that many times as far as the numbers.
_LONG = 3


@dataclass
class Forest:
    """Numbers with intervals below each other, and a line at zero.

    Attributes
    ----------
    name, title : str
    axis : str
        Label of the horizontal axis.
    entries : list of (str, float, float, float)
        Name, number, and the ends of its interval; from the top.
    pale : set of str
        Names that are drawn in grey and do not stretch the axis.
    """

    name: str
    title: str
    axis: str
    entries: list[tuple[str, float, float, float]]
    pale: set[str] = field(default_factory=set)

    @property
    def caption(self) -> str:
        """What the figure shows, in one line."""
        first, last = self.limits
        cut = any(low < first or high > last for _, _, low, high in self.entries)
        return f"{self.title}: {self.axis}{'; triangle: continues beyond the axis' if cut else ''}"

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the axis: zero, and the intervals of all that are not pale, as far as these are not very long.

        Numbers far from all others do not stretch it either.
        """
        shown = [
            entry for entry in self.entries if entry[0] not in self.pale
        ] or self.entries
        usual = median(abs(value) for _, value, _, _ in shown)
        shown = [entry for entry in shown if abs(entry[1]) <= _FAR * usual]
        numbers = [0.0, *(value for _, value, _, _ in shown)]
        reach = (
            max(numbers) - min(numbers)
            or max(high - low for _, _, low, high in shown)
            or 1.0
        )
        low = max(
            min(0.0, *(low for _, _, low, _ in shown)), min(numbers) - _LONG * reach
        )
        high = min(
            max(0.0, *(high for _, _, _, high in shown)), max(numbers) + _LONG * reach
        )
        margin = 0.05 * (high - low) or 1.0
        return low - margin, high + margin


def file_name(*parts: str) -> str:
    """Return the name of a figure's file: letters, digits, ``-`` and ``_``; a long one ends with a digest."""
    name = "-".join(
        "".join(c if c.isalnum() or c in "-_" else "-" for c in part) for part in parts
    )
    if len(name.encode()) <= LONGEST_NAME:
        return name
    return f"{name[:40]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def are_numbers(values: Iterable[Any]) -> bool:
    """Tell whether all values are numbers."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def run_figures(
    run: Run, rows: Sequence[MethodResult], references: Sequence[ReferenceVerdict]
) -> list[Figure | RankDiagram]:
    """Return the figures of the report of a run."""
    found = [
        *printed_figures(run, references),
        *sweep_figures(run, rows),
        *trace_figures(run),
        *matrix_figures(run),
    ]
    return [*found, *measured_ranks(run)]


# ---------------------------------------------------------------- printed against ours


def printed_figures(run: Run, references: Sequence[ReferenceVerdict]) -> list[Figure]:
    """Return our numbers over the printed ones: a panel per quantity and value of a sweep, a colour per method.

    Numbers out of tolerance are hollow. A panel has at least `FEWEST_POINTS`.
    """
    groups: dict[tuple[str, str], list[ReferenceVerdict]] = {}
    for reference in references:
        if reference.ours is not None:
            axis = run.datasets.get(reference.dataset, {}).get("axis")
            block = (
                f"{run.sweep.get('name', 'value')} {show(axis['value'])}"
                if axis
                else ""
            )
            groups.setdefault((reference.quantity, block), []).append(reference)
    panels = [
        _printed_panel(run, *names, group)
        for names, group in groups.items()
        if len(group) >= FEWEST_POINTS
    ]
    return (
        [Figure(PRINTED, "Printed against ours", panels, "printed")] if panels else []
    )


def _printed_panel(
    run: Run, quantity: str, block: str, references: Sequence[ReferenceVerdict]
) -> Panel:
    curves = []
    kinds: dict[Literal["filled", "hollow"], Verdict] = {
        "filled": Verdict.WITHIN,
        "hollow": Verdict.OUTSIDE,
    }
    for place, method in enumerate(run.methods):
        for kind, verdict in kinds.items():
            found = [
                r for r in references if (r.method, r.verdict) == (method, verdict)
            ]
            curve = Line(
                method,
                [r.value for r in found],
                [r.ours or 0.0 for r in found],
                place=place,
                points=kind,
            )
            curve.spread = [r.std or 0.0 for r in found]
            curves.append(curve)
    name = _in_percent(run, quantity, curves)
    values = [value for curve in curves for value in (*curve.x, *curve.y)]
    log = min(values) > 0 and max(values) >= LOG_SPAN_PARAMETER * min(values)
    return Panel(f"{name}, ours", log, curves, x_log=log, title=block, diagonal=True)


def _in_percent(
    run: Run, quantity: str, curves: Sequence[Line], *, x: bool = True
) -> str:
    """Return the name of a quantity, and put its curves into per cent where the tables are (both axes with `x`)."""
    if not ((run.config.get("table") or {}).get("percent") and quantity in run.metrics):
        return spoken(quantity)
    for curve in curves:
        if x:
            curve.x = [100 * value for value in curve.x]
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
    name = _in_percent(run, quantity, below + curves, x=False)
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
        figures.append(
            Figure(
                file_name(dataset, method, "matrices"),
                f"{run.title_of(dataset)}: {method}",
                maps,
            )
        )
    return figures


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


def best_scores(search: Mapping[str, Any], name: str) -> dict[float, float]:
    """Return by value of a parameter of a search the score of the best candidate that has it."""
    better = max if greater_is_better(search["metric"]) else min
    found: dict[float, list[float]] = {}
    for params, score in zip(candidates(search["grid"]), search["means"], strict=True):
        value: Any = params.get(name)
        if score is not None and are_numbers([value]):
            found.setdefault(value, []).append(score)
    return {value: better(found[value]) for value in sorted(found)}


def path_panel(quantity: str, name: str, curves: list[Line]) -> Panel:
    """Return a panel of scores along a parameter, whose axis is logarithmic if its values span much."""
    values = sorted({x for curve in curves for x in curve.x})
    log = (
        bool(values)
        and values[0] > 0
        and (values[-1] >= LOG_SPAN_PARAMETER * values[0] or _geometric(values))
    )
    return Panel(quantity, False, curves, axis=name.rpartition("__")[2], x_log=log)


def _geometric(values: Sequence[float]) -> bool:
    """Whether sorted positive values lie more evenly on a logarithmic axis than on a linear one."""
    ratios = [b / a for a, b in pairwise(values)]
    steps = [b - a for a, b in pairwise(values)]
    return len(values) > 2 and max(ratios) / min(ratios) < max(steps) / min(steps)


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
        heading = f"{run.title_of(dataset)}: {method}"
        figures.append(
            RankDiagram(file_name(dataset, method, "ranks"), rankings, heading)
        )
    return figures
