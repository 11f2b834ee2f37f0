"""Matrices that measurements return, as heat maps."""

from __future__ import annotations

from typing import Any

from mtlrun.report.folder import Run
from mtlrun.report.panels import Figure, HeatMap, file_name


def matrix_figures(run: Run) -> list[Figure]:
    """Return one figure per data set and method whose first finished repeat has matrices, a heat map for each."""
    figures = []
    for dataset in run.datasets:
        for method in run.methods:
            found = (r.result["matrices"] for r in run.results_of(dataset, method) if r.result.get("matrices"))
            stored: dict[str, Any] = next(found, {})
            maps = [
                HeatMap(name, m["values"], list(map(str, m["rows"])), list(map(str, m["columns"])), m.get("centre"))
                for name, m in stored.items()
            ]
            if maps:
                title = f"{run.title_of(dataset)}: {method}"
                figures.append(Figure(file_name(dataset, method, "matrices"), title, "", [], False, maps))
    return figures
