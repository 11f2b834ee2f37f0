"""Sentences and tables that measurements return, as sections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mtlrun.report.folder import Run
from mtlrun.report.text import Column, Grid, Section


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
                sections.append(Section(f"{title}: {name}", grids=[_grid(table["columns"], table["rows"])]))
    return sections


def _grid(columns: Sequence[Any], rows: Sequence[Sequence[Any]]) -> Grid:
    """Return a stored table; a column without any text is one of numbers."""
    kinds = ["text" if any(isinstance(row[i], str) for row in rows) else "number" for i in range(len(columns))]
    return Grid([Column(str(c), k) for c, k in zip(columns, kinds, strict=True)], [list(row) for row in rows])
