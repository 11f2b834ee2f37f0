"""Curves that measurements return, as figures, with the published ones underneath."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mtlrun.record import Record
from mtlrun.report.checks import as_list
from mtlrun.report.folder import Run
from mtlrun.report.panels import Curve, Figure, Panel, drop_impossible, file_name


def trace_figures(run: Run) -> list[Figure]:
    """Return one figure per data set whose records hold curves, a panel per name of a curve.

    A method's curve is that of its first finished repeat; where all repeats have the same x, the band between their
    smallest and largest values is drawn around it. Curves of the experiment's file of published ones lie underneath.
    """
    figures = []
    for dataset in run.datasets:
        records = {m: run.results_of(dataset, m) for m in run.methods}
        names = dict.fromkeys(n for group in records.values() for r in group for n in r.result.get("curves") or {})
        panels = [_panel(run, dataset, name, records) for name in names]
        if panels:
            title = run.title_of(dataset) if run.has_data(dataset) else str(run.info.get("title", ""))
            figures.append(Figure(file_name(dataset), title, "", [], False, panels))
    return figures


def published_curves(run: Run, dataset: str, name: str) -> list[Curve]:
    """Return the curves of the paper for a data set (its label, its id, or its label in a sweep) and a quantity."""
    facts = [f for label, f in run.datasets.items() if dataset in (label, (f.get("axis") or {}).get("of"))]
    known = {dataset, *(str(f.get("id")) for f in facts)}
    places = {method: place for place, method in enumerate(run.methods)}
    found = []
    for entry in run.published:
        if str(entry.get("dataset")) in known and str(entry.get("name")) == name:
            method = str(entry["method"])
            place = places.setdefault(method, len(places))
            label = f"{method} (published)"
            found.append(Curve(label, list(entry["x"]), list(entry["y"]), place=place, published=True))
    return found


def published_line(run: Run) -> str | None:
    """Say where the published curves come from; None without any."""
    sources = dict.fromkeys(str(entry["source"]) for entry in run.published if entry.get("source"))
    if not run.published:
        return None
    return f"Pale dashed curves are published ones{': ' if sources else ''}{'; '.join(sources)}."


def _panel(run: Run, dataset: str, name: str, records: Mapping[str, Sequence[Record]]) -> Panel:
    """Return the panel of one name: labels and scales are those of the first curve that has it."""
    groups = {
        m: [r.result["curves"][name] for r in group if name in (r.result.get("curves") or {})]
        for m, group in records.items()
    }
    first = next(curve for group in groups.values() for curve in group)
    log = str(first.get("log") or "")
    curves = published_curves(run, dataset, name)
    curves += [_curve(method, place, groups[method]) for place, method in enumerate(run.methods)]
    marks = {str(text): float(x) for group in groups.values() for c in group[:1] for text, x in as_marks(c).items()}
    return Panel(
        str(first.get("y_label") or name),
        "y" in log,
        [drop_impossible(curve, "x" in log, "y" in log) for curve in curves],
        axis=str(first.get("x_label") or ""),
        x_log="x" in log,
        marks=marks,
        title=name if len(set(_names(records))) > 1 else "",
    )


def _names(records: Mapping[str, Sequence[Record]]) -> list[str]:
    return [name for group in records.values() for r in group for name in r.result.get("curves") or {}]


def as_marks(curve: Mapping[str, Any]) -> dict[str, float]:
    """Return the marks of a stored curve."""
    return dict(curve.get("marks") or {})


def _curve(method: str, place: int, repeats: Sequence[Mapping[str, Any]]) -> Curve:
    if not repeats:
        return Curve(method, place=place)
    first = repeats[0]
    curve = Curve(method, as_list(first["x"]), as_list(first["y"]), place=place)
    same = all(as_list(r["x"]) == curve.x for r in repeats)
    if len(repeats) > 1 and same:
        columns = [[v for v in values if v is not None] for values in zip(*(r["y"] for r in repeats), strict=True)]
        curve.low = [min(column, default=float("nan")) for column in columns]
        curve.high = [max(column, default=float("nan")) for column in columns]
    return curve
