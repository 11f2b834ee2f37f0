"""Regularisation paths: a metric over the candidates of the parameter searches, along one parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mtlrun.record import Record, candidates
from mtlrun.report.comparison import greater_is_better
from mtlrun.report.folder import Run
from mtlrun.report.panels import Curve, Figure, Panel, are_numbers, file_name
from mtlrun.report.table import mean, std

#: Values that span as much as this are set on a logarithmic axis.
LOG_SPAN = 50


def path_figures(run: Run, parameter: str | None = None) -> list[Figure]:
    """Return one figure per data set with parameter searches, a panel per parameter of their grids.

    Parameters
    ----------
    run : Run
    parameter : str, optional
        Only this one.

    Notes
    -----
    The score at a value is that of the best candidate with it, averaged over the splits, with their standard deviation.
    """
    figures = []
    for dataset in run.datasets:
        searches = {m: _searches(run, dataset, m) for m in run.methods}
        names = dict.fromkeys(
            name for group in searches.values() for record in group for name in record.selection.get("grid") or {}
        )
        panels = [_panel(run, name, searches) for name in names if parameter in (None, name)]
        panels = [panel for panel in panels if any(len(curve.x) > 1 for curve in panel.curves)]
        if panels:
            figures.append(Figure(file_name(dataset, "path"), run.title_of(dataset), "", [], False, panels))
    return figures


def _searches(run: Run, dataset: str, method: str) -> list[Record]:
    keys = [str(r.selection.get("key")) for r in run.results_of(dataset, method)]
    return [run.selections[key] for key in keys if key in run.selections]


def _panel(run: Run, name: str, searches: dict[str, list[Record]]) -> Panel:
    metric = next((str(r.selection["metric"]) for group in searches.values() for r in group), "score")
    curves = [_curve(method, place, name, searches[method], greater_is_better(metric, run))
              for place, method in enumerate(run.methods)]  # fmt: skip
    values = [x for curve in curves for x in curve.x]
    log = bool(values) and are_numbers(values) and min(values) > 0 and max(values) >= LOG_SPAN * min(values)
    return Panel(f"{metric} (validation)", False, curves, axis=name, x_log=log)


def _curve(method: str, place: int, name: str, searches: Sequence[Record], better: bool) -> Curve:
    best: dict[float, list[float]] = {}
    for record in searches:
        found: dict[float, float] = {}
        for params, score in zip(candidates(record.selection["grid"]), record.selection["means"], strict=True):
            value: Any = params.get(name)
            if are_numbers([value]) and score is not None:
                known = found.get(value, score)
                found[value] = max(known, score) if better else min(known, score)
        for value, score in found.items():
            best.setdefault(value, []).append(score)
    x = sorted(best)
    spread = [std(best[value]) or 0.0 for value in x]
    return Curve(method, list(x), [mean(best[value]) for value in x], spread, place=place)
