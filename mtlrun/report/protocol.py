"""Sections on how the numbers came about: protocol, parameter search, data, deviations, how to rerun."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mtlrun.errors import counted
from mtlrun.record import Record
from mtlrun.report.checks import as_list
from mtlrun.report.folder import PlannedCell, Run, mark_simulated
from mtlrun.report.text import Column, Grid, Section, plain

#: Sections of an experiment file that the protocol quotes, with the word before each.
SECTIONS = {
    "features": "Features",
    "selection": "Parameter search",
    "timing": "Timing",
    "limits": "Limits",
    "sweep": "Axis",
    "statistics": "Tests",
}
#: What a data set may have instead of the experiment.
OWN = ("split", "metrics", "features")
EDGE_NOTE = {"low": "lowest", "high": "highest"}


def protocol_section(run: Run) -> Section:
    """Return splits, metrics, seeds and the methods with their parameters and grids."""
    config = run.config
    section = Section("Protocol")
    seed = f"base seed {config.get('seed', run.info.get('seed', 0))}"
    if run.measures:
        section.lines.append(f"Repeats: {config.get('repeats', 1)}, each with its own seed; {seed}.")
        section.lines += [f"{name}: {run.quantities.get(name, {}).get('text', 'quantity')}." for name in run.metrics]
    else:
        section.lines.append(f"Split: {facts(config.get('split'))}; {seed}.")
    if run.metrics and not run.measures:
        over = "rows" if config.get("average") == "sample" else "tasks"
        section.lines.append(
            f"Metrics: {', '.join(run.metrics)}; averaged over the {over} of the test part (tasks where a metric is "
            "undefined are left out and counted), then mean ± standard deviation over the splits."
        )
    for name, title in SECTIONS.items():
        if config.get(name):
            section.lines.append(f"{title}: {facts(config[name])}.")
    for entry in as_list(config.get("datasets")):
        own = {k: entry[k] for k in OWN if isinstance(entry, Mapping) and entry.get(k) is not None}
        if own:
            section.lines.append(f"Of {entry.get('label') or entry['id']} instead: {facts(own)}.")
    if run.info.get("overrides"):
        section.lines.append(f"Overrides: {', '.join(map(str, run.info['overrides']))}.")
    methods = as_list(config.get("methods"))
    if run.measures:
        grid = Grid([Column(c) for c in ("method", "measure", "parameters")])
        grid.rows = [[m["label"], m["measure"], facts(m.get("params"))] for m in methods]
    else:
        grid = Grid([Column(c) for c in ("method", "estimator", "parameters", "grid", "searched with")])
        for m in methods:
            row = [m["label"], m["estimator"], facts(m.get("params")), grid_text(m.get("grid"))]
            grid.rows.append([*row, facts(m.get("select_with"))])
    section.grids.append(grid)
    return section


def search_section(run: Run) -> Section:
    """Return what the parameter search chose, what it cost, and where it ended at the edge of a grid."""
    section = Section("Parameter search")
    columns = [Column("dataset"), Column("method"), Column("candidates", "count"), Column("fits", "count")]
    grid = Grid([*columns, Column("chosen (times)"), Column("at the edge")])
    edges_seen = 0
    for (dataset, method), cells in _groups(run).items():
        records = [r for c in cells if (r := run.record(c)) is not None and r.selection.get("key")]
        if not records:
            continue
        searches = [run.selections[k] for r in records if (k := str(r.selection["key"])) in run.selections]
        chosen = Counter(facts(r.selection.get("chosen")) for r in records)
        edges = _edge_text(records)
        edges_seen += edges is not None
        sizes = [len(as_list(s.selection.get("means"))) for s in searches]
        grid.rows.append(
            [
                dataset,
                method,
                max(sizes, default=None),
                sum(_fits(s) for s in searches) or None,
                "; ".join(_times(value, count, len(records)) for value, count in _by_count(chosen)),
                edges,
            ]
        )
    if not grid.rows:
        return section
    validated = (run.config.get("selection") or {}).get("on") == "validation"
    how = "on the validation part" if validated else "by cross-validation inside the training part"
    section.lines.append(f"Chosen {how} of every split; methods with the same objective share a search.")
    if edges_seen:
        section.lines.append(
            f"{edges_seen} of {len(grid.rows)} rows ended at an edge of their grid at least once: "
            "the best value may lie outside."
        )
    section.grids.append(grid)
    return section


def edge_hits(run: Run) -> list[str]:
    """Return the rows whose parameter search ended at an edge of its grid, with the edges and how often."""
    hits = []
    for (dataset, method), cells in _groups(run).items():
        edges = _edge_text([r for c in cells if (r := run.record(c)) is not None and r.selection.get("key")])
        hits += [f"{dataset} / {method}: {edges}"] if edges else []
    return hits


def _edge_text(records: Sequence[Record]) -> str | None:
    found = (pair for r in records for pair in (r.selection.get("edges") or {}).items())
    edges = Counter(f"{parameter} {EDGE_NOTE.get(end, end)}" for parameter, end in found)
    return "; ".join(f"{value} {count}/{len(records)}" for value, count in _by_count(edges)) or None


def data_section(run: Run) -> Section:
    """Return origin, size and hashes of the data."""
    section = Section("Data")
    columns = ["dataset", "title", "options", "statistics", "used", "licence", "fingerprint"]
    sizes = Grid([Column(c) for c in columns])
    files = Grid([Column("dataset"), Column("file"), Column("sha256 of the content")])
    told: set[tuple[str, str]] = set()
    for label, info in run.datasets.items():
        if not info or _known_already(label, info, told):
            continue
        options = info.get("options") or {}
        # The statistics on a card hold for the data set as it is, not for a sample or another size.
        statistics = facts(info.get("statistics")) if set(options) <= {"variant"} else None
        fingerprint = str(info.get("fingerprint") or "")[:16] or None
        title = mark_simulated(str(info.get("title", label)), info)
        row = [label, title, facts(options) or None, statistics, _used(run, label), info.get("licence"), fingerprint]
        sizes.rows.append(row)
        files.rows += [[label, name, digest] for name, digest in sorted((info.get("files") or {}).items())]
        for name in ("notes", "citation"):
            line = f"{(info.get('axis') or {}).get('of', label)}: {' '.join(str(info.get(name) or '').split())}"
            if info.get(name) and line not in section.lines:
                section.lines.append(line)
    section.grids += [g for g in (sizes, files) if g.rows]
    return section


def _known_already(label: str, info: Mapping[str, Any], told: set[tuple[str, str]]) -> bool:
    """Tell whether the same data were listed for another value of the axis of a sweep."""
    here = (str((info.get("axis") or {}).get("of", label)), str(info.get("fingerprint")))
    if here in told:
        return True
    told.add(here)
    return False


def _used(run: Run, label: str) -> str | None:
    """Say how many rows and tasks the first finished cell of a data set had."""
    for cell in run.planned:
        record = run.record(cell)
        if cell.dataset == label and record is not None and {"n_train", "n_test", "n_tasks"} <= set(record.counts):
            counts = record.counts
            return f"{counts['n_train']} + {counted(counts['n_test'], 'row')}, {counted(counts['n_tasks'], 'task')}"
    return None


def deviations_section(run: Run) -> Section:
    """Return what the paper leaves open or what is done differently."""
    return Section("Deviations", [str(line) for line in as_list(run.config.get("deviations"))])


def rerun_section(run: Run) -> Section:
    """Return one command for everything and one per method."""
    command = run.info.get("command")
    section = Section("How to rerun")
    if not command:
        return section
    section.lines.append(f"All: `{command}` (finished cells are kept; --force computes them again).")
    grid = Grid([Column("method"), Column("command")])
    grid.rows = [[m, f"{command} --only {shlex.quote(f'method={_pattern(m)}')}"] for m in run.methods]
    section.grids.append(grid)
    return section


def _pattern(label: str) -> str:
    """Return a pattern of --only for a label: characters that mean something in patterns become any character."""
    return re.sub(r"[,*?\[]", "?", label)


def facts(mapping: Any) -> str:
    """Write a mapping in one line: ``kind random, train 0.4, trials 5``; nested ones in parentheses."""
    if not isinstance(mapping, Mapping):
        return "" if mapping is None else value_text(mapping)
    return ", ".join(f"{k} {value_text(v)}" for k, v in mapping.items() if v is not None)


def value_text(value: Any) -> str:
    """Write one value of a configuration."""
    if isinstance(value, Mapping):
        return f"({facts(value)})"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(value_text(v) for v in value) + "]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(value) if isinstance(value, int | float) else str(value)


def grid_text(grid: Mapping[str, Any] | None) -> str:
    """Write a grid by its sizes and bounds: ``lam: 6 values 0.14..1``."""
    parts = []
    for name, values in (grid or {}).items():
        items = as_list(values)
        numbers = [v for v in items if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(numbers) == len(items) > 2:
            parts.append(f"{name}: {counted(len(items), 'value')} {plain(min(numbers))}..{plain(max(numbers))}")
        else:
            parts.append(f"{name}: {value_text(items) if isinstance(values, list | tuple) else values}")
    return "; ".join(parts)


def _groups(run: Run) -> dict[tuple[str, str], list[PlannedCell]]:
    groups: dict[tuple[str, str], list[PlannedCell]] = {}
    for cell in run.planned:
        groups.setdefault((cell.dataset, cell.method), []).append(cell)
    return groups


def _fits(search: Record) -> int:
    return sum(max(1, len(scores)) for scores in as_list(search.selection.get("scores")))


def _by_count(counter: Counter[str]) -> Sequence[tuple[str, int]]:
    return sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))


def _times(value: str, count: int, of: int) -> str:
    return value if count == of else f"{value} ({count})"
