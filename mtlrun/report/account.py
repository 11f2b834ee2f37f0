"""Sections that account for the run: solvers, timing, environment, failures, cost."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mtlrun.errors import counted
from mtlrun.record import Record
from mtlrun.report.checks import as_list
from mtlrun.report.folder import Run
from mtlrun.report.protocol import value_text
from mtlrun.report.table import Row
from mtlrun.report.text import Column, Grid, Section, show, significant

ERROR_LENGTH = 200


def solver_section(run: Run, rows: Sequence[Row]) -> Section:
    """Return iterations, convergence and certificates, row by row."""
    columns = [Column("dataset"), Column("method"), Column("iterations", "count"), Column("converged")]
    columns += [Column("largest gap", "small"), Column("objective", "score"), Column("stopped by")]
    grid = Grid(columns)
    for row in rows:
        records = run.results_of(row.dataset, row.method)
        flags = [r.solver["converged"] for r in records if r.solver.get("converged") is not None]
        steps, gaps = (list(row.samples.get(name, {}).values()) for name in ("n_iter", "gap"))
        if not (flags or steps or gaps):
            continue
        messages = Counter(str(r.solver["message"]) for r in records if r.solver.get("message"))
        grid.rows.append(
            [
                row.dataset,
                row.method,
                statistics.median(steps) if steps else None,
                f"{sum(map(bool, flags))}/{len(flags)}" if flags else None,
                max(gaps) if gaps else None,
                row.value("objective"),
                max(messages, key=lambda m: (messages[m], m)) if messages else None,
            ]
        )
    section = Section("Solvers", grids=[grid] if grid.rows else [])
    bad = [f"{row.method} on {row.dataset}" for row in rows if row.status == "not_converged"]
    if bad:
        section.lines.append(f"Not converged within the iterations allowed (the numbers are kept): {', '.join(bad)}.")
    return section


def timing_section(run: Run) -> Section:
    """Return the conditions under which seconds were measured."""
    section = Section("Timing")
    records = [run.cells[key] for key in sorted(run.cells) if run.cells[key].seconds.get("fit") is not None]
    if not records:
        return section
    section.lines.append(
        "Seconds are the median over the splits of the median over the repeats of one fit at the chosen parameters; "
        "speed-ups compare medians over the splits that both methods finished. "
        "Compare ratios, not seconds, with other machines."
    )
    section.lines.append(accuracy_line(run))
    columns = ["threads", "repeats", "warmup", "serial", "cpu", "blas"]
    kinds = Counter(tuple(_text(r.environment.get(c)) for c in columns) for r in records)
    grid = Grid([*map(Column, columns), Column("cells", "count")])
    grid.rows = [[*kind, count] for kind, count in sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0]))]
    section.grids.append(grid)
    if len({(r.environment.get("cpu"), r.environment.get("threads")) for r in records}) > 1:
        section.lines.append("Warning: cells were timed under different conditions; their seconds do not compare.")
    return section


def accuracy_line(run: Run) -> str:
    """Say how accurate the fits were whose seconds are compared: the largest certified gap of every method."""
    known, blocks, none = [], [], []
    for method in run.methods:
        records = [r for c in run.planned if c.method == method and (r := run.record(c)) is not None and r.done]
        gaps = [r.solver["gap"] for r in records if r.solver.get("gap") is not None]
        if any(r.seconds.get("blocks_sum") is not None for r in records):
            blocks.append(method)
        elif gaps:
            known.append(f"{method} {show(max(gaps), 'small')}")
        elif records:
            none.append(method)
    parts = [f"Largest certified relative duality gap: {', '.join(known)}."] * bool(known)
    parts += [f"No gap: {', '.join(blocks)} (divide and conquer solves other problems than the whole)."] * bool(blocks)
    parts += [f"No certificate: {', '.join(none)}."] * bool(none)
    text = (
        "Every method stops by its own rule, the papers' where the protocol says so: seconds are not at equal accuracy."
    )
    return " ".join([text, *parts])


def environment_section(run: Run) -> Section:
    """Return versions and machines, one line per invocation that computed something."""
    section = Section("Environment")
    columns = ["mtlrun", "commit", "python", "blas", "os", "cpu", "cores", "ram_gb", "jobs", "n_computed", "started"]
    grid = Grid([Column(c) for c in columns])
    for entry in run.provenance:
        values = {**entry, "commit": _commit(entry)}
        grid.rows.append([_text(values.get(c)) for c in columns])
    if grid.rows:
        section.grids.append(grid)
        packages = run.provenance[-1].get("packages")
        if isinstance(packages, dict):
            section.lines.append("Packages: " + ", ".join(f"{k} {v}" for k, v in sorted(packages.items()) if v) + ".")
    return section


def failures_section(run: Run) -> Section:
    """Return every failed, unreadable or missing cell."""
    section = Section("Failures")
    failed = Grid([Column("cell"), Column("status"), Column("error"), Column("file")])
    for cell in run.failed:
        record = run.cells[cell.key]
        error = " ".join((record.error or "").split())[:ERROR_LENGTH] or None
        failed.rows.append([cell.name, record.status, error, f"cells/{cell.key}.json"])
    if failed.rows:
        section.grids.append(failed)
    section.lines += [
        f"{name}: the file of the cell cannot be read; it is computed again next time." for name in run.unreadable
    ]
    missing = Counter((c.dataset, c.method) for c in run.missing)
    section.lines += [
        f"{dataset} / {method}: {count} cell{'s' * (count > 1)} not computed yet."
        for (dataset, method), count in missing.items()
    ]
    return section


def cost_section(run: Run) -> Section:
    """Return the seconds spent, as far as they were recorded."""
    section = Section("Cost")
    cells = [run.cells[key] for key in sorted(run.cells)]
    fits = math.fsum(v for r in cells for v in as_list(r.seconds.get("fit_all")) or as_list(r.seconds.get("fit")))
    evaluation, searches = math.fsum(map(_total_seconds, cells)), _search_seconds(run)
    if fits:
        section.lines.append(
            f"{counted(len(cells), 'cell')}: {significant(evaluation)} s, of it timed fits {significant(fits)} s."
        )
    if searches:
        n = counted(len(run.selections), "parameter search", "parameter searches")
        section.lines.append(f"{n}: {significant(searches)} s.")
    walls = [w for entry in run.provenance if (w := _wall(entry)) is not None]
    if walls:
        count = f"{len(walls)} invocation{'s' * (len(walls) > 1)}"
        section.lines.append(f"Wall clock of {count}: {significant(math.fsum(walls))} s.")
    return section


def computing_seconds(*runs: Run) -> float:
    """Return the seconds that cells and parameter searches took; what several methods or runs share counts once."""
    spent: dict[str, float] = {}
    for run in runs:
        spent |= {key: _total_seconds(record) for key, record in run.cells.items()}
        for key, record in run.selections.items():
            spent[f"search {key}"] = float(record.selection.get("seconds") or 0)
    return math.fsum(spent[key] for key in sorted(spent))


def _search_seconds(run: Run) -> float:
    found = (run.selections[key].selection.get("seconds") for key in sorted(run.selections))
    return math.fsum(float(seconds) for seconds in found if seconds is not None)


def _total_seconds(record: Record) -> float:
    value = record.seconds.get("total", record.seconds.get("fit"))
    return float(value) if value is not None else 0.0


def _commit(entry: dict[str, Any]) -> str | None:
    commit = entry.get("commit")
    return f"{str(commit)[:12]}{' (changed)' if entry.get('dirty') else ''}" if commit else None


def _wall(entry: dict[str, Any]) -> float | None:
    """Seconds from start to end of an invocation, None when it was cut off."""
    try:
        start, end = (datetime.fromisoformat(str(entry[name])) for name in ("started", "finished"))
        return (end - start).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "; ".join(map(value_text, value)) or "-"
    return "-" if value is None else value_text(value)
