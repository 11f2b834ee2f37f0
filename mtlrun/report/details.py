"""Every cell behind a row: what it was given, what came of it, how its solver ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtlrun.record import CELLS, Record
from mtlrun.report.folder import Run
from mtlrun.report.protocol import facts
from mtlrun.report.table import MISSING, Row
from mtlrun.report.text import Column, Grid, show

#: Characters of a log that are shown, from its end.
LOG_LENGTH = 4000
#: Characters of the name of a file: enough to find it.
KEY_LENGTH = 16


@dataclass
class CellGroup:
    """The cells of one row of the table.

    Attributes
    ----------
    anchor : str
        Name to link to.
    dataset, method, status : str
    grid : Grid
        One line per trial.
    logs : list of dict
        ``trial`` and ``text`` of the cells that left a log or an error, equal ones once.
    """

    anchor: str
    dataset: str
    method: str
    status: str
    grid: Grid
    logs: list[dict[str, Any]]


def cell_groups(run: Run, rows: Sequence[Row]) -> list[CellGroup]:
    """Return the cells of every row."""
    return [_group(run, row, f"cell-{place}") for place, row in enumerate(rows)]


def _group(run: Run, row: Row, anchor: str) -> CellGroup:
    cells = [c for c in run.planned if (c.dataset, c.method) == (row.dataset, row.method)]
    columns = [Column("trial", "count"), Column("status"), Column("seed")]
    columns += [Column(name, "number") for name in run.metrics]
    columns += [Column("seconds", "seconds"), Column("iterations", "count"), Column("converged")]
    columns += [Column("gap", "small"), Column("objective", "number"), Column("stopped by")]
    columns += [Column("parameters"), Column("chosen"), Column("file")]
    grid, logs = Grid(columns), {}
    for cell in cells:
        record = run.record(cell)
        file = f"{CELLS}/{cell.key[:KEY_LENGTH]}{'...' * (len(cell.key) > KEY_LENGTH)}"
        if record is None:
            grid.rows.append([cell.trial, MISSING, *[None] * (len(columns) - 3), None])
            continue
        grid.rows.append([cell.trial, record.status, _seed(record), *_numbers(run, record), *_inputs(record), file])
        text = (record.log or record.error or "").strip()[-LOG_LENGTH:]
        if text and text not in logs:
            logs[text] = cell.trial
    told = [{"trial": trial, "text": text} for text, trial in logs.items()]
    return CellGroup(anchor, run.title_of(row.dataset), row.method, row.status_text, grid, told)


def _seed(record: Record) -> str | None:
    seed = (record.inputs.get("split") or {}).get("seed")
    return None if seed is None else str(seed)


def _numbers(run: Run, record: Record) -> list[Any]:
    seconds, solver = record.seconds, record.solver
    flag = solver.get("converged")
    return [
        *(record.metrics.get(name) for name in run.metrics),
        seconds.get("fit", seconds.get("total")),
        solver.get("n_iter"),
        None if flag is None else "yes" if flag else "no",
        solver.get("gap"),
        solver.get("objective"),
        solver.get("message", show(solver.get("stop_crit"), "small")),
    ]


def _inputs(record: Record) -> list[Any]:
    """Return the parameters, and the chosen ones with the edges of the grid that they lie at."""
    chosen = facts(record.selection.get("chosen")) or None
    edges = record.selection.get("edges") or {}
    if chosen and edges:
        chosen += f" (at the {', '.join(f'{end} end of {name}' for name, end in edges.items())})"
    return [facts(record.params) or None, chosen]
