"""What a report says in words: what became of the claims, and how the numbers came about.

The second part has protocol, searches, data, solvers, timing, machines, failures, cost.
"""

from __future__ import annotations

import math
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mtlrun.engine.packed import n_candidates, n_fits
from mtlrun.engine.record import CELLS, Record, ResultKey
from mtlrun.engine.stored import KEY_LENGTH
from mtlrun.errors import counted
from mtlrun.lab.report.cells import (
    MISSING,
    PUBLISHED,
    MethodResult,
    Run,
    mark_simulated,
)
from mtlrun.lab.report.checks import HOLDING, VERDICTS, Verdict, said
from mtlrun.lab.report.claim_texts import bounds_text, number_text
from mtlrun.lab.report.claims import CheckResult, ClaimVerdict
from mtlrun.lab.stored import made_and_verified
from mtlrun.tables.quantities import spoken
from mtlrun.tables.report_table import (
    Column,
    ReportTable,
    Section,
    plain,
    show,
    significant,
)
from mtlrun.utils.io import as_list

#: Sections of an experiment file that the protocol quotes, with the word before each.
SECTIONS = {
    "features": "Features",
    "selection": "Parameter search",
    "timing": "Timing",
    "limits": "Limits",
    "sweep": "Sweep",
    "statistics": "Tests",
}
#: What a data set may have instead of the experiment.
OWN = ("split", "metrics", "features")
EDGE_NOTE = {"low": "minimum", "high": "maximum"}
#: Characters that are shown of an error, of a log (from its end), and of the name of a file: enough to find it.
ERROR_LENGTH, LOG_LENGTH = 200, 4000


def run_sections(
    run: Run, rows: Sequence[MethodResult], others: Sequence[Run] = ()
) -> list[Section]:
    """Return all sections of this module, in the order of the report; `others`: the run under other readings."""
    return [
        protocol_section(run),
        search_section(run),
        data_section(run),
        solver_section(run, rows),
        timing_section(run),
        environment_section(run),
        Section(
            "Deviations", [str(line) for line in as_list(run.config.get("deviations"))]
        ),
        failures_section(run, others),
        missing_section(run, others),
        cost_section(run),
        rerun_section(run),
    ]


# ---------------------------------------------------------------- protocol


def protocol_section(run: Run) -> Section:
    """Return splits, metrics, seeds and the methods with their parameters and grids."""
    config = run.config
    section = Section("Protocol")
    seed = f"base seed {config.get('seed', run.info.get('seed', 0))}"
    if run.measures:
        section.lines.append(
            f"Repeats: {config.get('repeats', 1)}, each with its own seed; {seed}."
        )
        section.lines += [
            f"{name}: {run.quantities.get(name, {}).get('text', 'quantity')}."
            for name in run.metrics
        ]
    else:
        section.lines.append(f"Split: {facts(config.get('split'))}; {seed}.")
    if run.metrics and not run.measures:
        over = "rows" if config.get("average") == "sample" else "tasks"
        section.lines.append(
            f"Metrics: {', '.join(run.metrics)}, averaged over the {over} of the test part (tasks for which a metric "
            "is undefined are left out and counted); then mean ± standard deviation over the splits."
        )
    section.lines += [
        f"{title}: {facts(config[name])}."
        for name, title in SECTIONS.items()
        if config.get(name)
    ]
    for entry in as_list(config.get("datasets")):
        own = {
            k: entry[k]
            for k in OWN
            if isinstance(entry, Mapping) and entry.get(k) is not None
        }
        if own:
            section.lines.append(
                f"Different for {entry.get('label') or entry['id']}: {facts(own)}."
            )
    if run.info.get("overrides"):
        section.lines.append(
            f"Overrides: {', '.join(map(str, run.info['overrides']))}."
        )
    methods = as_list(config.get("methods"))
    if run.measures:
        rows = [
            [_named(m, "label"), _named(m, "measure"), facts(m.get("params"))]
            for m in methods
        ]
        section.grids.append(
            ReportTable.of("method", "measure", "parameters", rows=rows)
        )
    else:
        rows = [
            [
                _named(m, "label"),
                _named(m, "estimator"),
                facts(m.get("params")),
                grid_text(m.get("grid")),
                facts(m.get("select_with")),
            ]
            for m in methods
        ]
        section.grids.append(
            ReportTable.of(
                "method", "estimator", "parameters", "grid", "searched with", rows=rows
            )
        )
    return section


def _named(method: Mapping[str, Any], key: str) -> str:
    """Return a name from `run.json`, "-" if a file from elsewhere lacks it."""
    return str(method.get(key) or "-")


def rerun_section(run: Run) -> Section:
    """Return one command for everything and one per method."""
    command = run.info.get("command")
    section = Section("How to rerun")
    if not command:
        return section
    section.lines.append(
        f"Everything: `{command}` (finished cells are reused; --force recomputes them)."
    )
    grid = ReportTable.of("method", "command")
    for method in run.methods:
        pattern = re.sub(
            r"[,*?\[]", "?", method
        )  # what means something in patterns becomes any character
        grid.rows.append(
            [method, f"{command} --only {shlex.quote(f'method={pattern}')}"]
        )
    section.grids.append(grid)
    return section


# ---------------------------------------------------------------- parameter searches


def search_section(run: Run) -> Section:
    """Return what the parameter search chose, what it cost, and where it ended at the edge of a grid."""
    section = Section("Parameter search")
    grid = ReportTable.of(
        "dataset",
        "method",
        "candidates:count",
        "fits:count",
        "chosen (times)",
        "at an end of its grid",
    )
    for (dataset, method), records in _searched(run).items():
        searches = [
            run.selections[k]
            for r in records
            if (k := str(r.selection["key"])) in run.selections
        ]
        chosen = _by_count(Counter(facts(r.selection.get("chosen")) for r in records))
        fits = sum(n_fits(search.selection) for search in searches)
        texts = [
            text if count == len(records) else f"{text} ({count})"
            for text, count in chosen
        ]
        sizes = [n_candidates(search.selection) for search in searches]
        row = [
            max(sizes, default=None),
            fits or None,
            "; ".join(texts),
            _edge_text(records),
        ]
        grid.rows.append([dataset, method, *row])
    if not grid.rows:
        return section
    validated = (run.config.get("selection") or {}).get("on") == "validation"
    how = (
        "on the validation part"
        if validated
        else "by cross-validation inside the training part"
    )
    section.lines.append(
        f"Parameters are chosen {how} of each split; methods with the same objective share one search."
    )
    edges_seen = sum(row[-1] is not None for row in grid.rows)
    if edges_seen:
        section.lines.append(
            f"In {edges_seen} of {counted(len(grid.rows), 'row')} the best value was at an end of the grid at least "
            "once, so a better one may lie outside: widen the grid."
        )
    section.grids.append(grid)
    return section


def edge_hits(run: Run) -> list[str]:
    """Return the rows whose parameter search ended at an edge of its grid, with the edges and how often."""
    found = {key: _edge_text(records) for key, records in _searched(run).items()}
    return [
        f"{dataset} / {method}: {edges}"
        for (dataset, method), edges in found.items()
        if edges
    ]


def _searched(run: Run) -> dict[tuple[str, str], list[Record]]:
    """Return the records with parameters chosen by a search, failed ones included, by data set and method."""
    found: dict[tuple[str, str], list[Record]] = {}
    for cell in run.planned:
        record = run.cells.get(cell.key)
        if record is not None and record.selection.get("key"):
            found.setdefault((cell.dataset, cell.method), []).append(record)
    return found


def _edge_text(records: Sequence[Record]) -> str | None:
    found = (pair for r in records for pair in (r.selection.get("edges") or {}).items())
    edges = Counter(
        f"{parameter} hit its {EDGE_NOTE.get(end, end)}" for parameter, end in found
    )
    of = counted(len(records), "split")
    return (
        "; ".join(f"{value} in {count} of {of}" for value, count in _by_count(edges))
        or None
    )


def _by_count(counter: Counter[Any]) -> Sequence[tuple[Any, int]]:
    return sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))


# ---------------------------------------------------------------- data


def data_section(run: Run) -> Section:
    """Return origin, size and hashes of the data."""
    section = Section("Data")
    sizes = ReportTable.of(
        "dataset", "title", "options", "statistics", "used", "licence", "fingerprint"
    )
    files = ReportTable.of("dataset", "file", "sha256 of the content")
    seen: set[tuple[str, str]] = set()
    for label, info in run.datasets.items():
        here = (run.axis_of(label), str(info.get("fingerprint")))
        if (
            not info or here in seen
        ):  # the same data at another value of the axis of a sweep
            continue
        seen.add(here)
        options = info.get("options") or {}
        # The statistics on a card hold for the data set as it is, not for a sample or another size.
        about = facts(info.get("statistics")) if set(options) <= {"variant"} else None
        fingerprint = str(info.get("fingerprint") or "")[:16] or None
        title = mark_simulated(str(info.get("title", label)), info)
        row = [
            label,
            title,
            facts(options) or None,
            about,
            _used(run, label),
            info.get("licence"),
            fingerprint,
        ]
        sizes.rows.append(row)
        files.rows += [
            [label, name, digest]
            for name, digest in sorted((info.get("files") or {}).items())
        ]
        for name in ("notes", "citation"):
            line = (
                f"{run.axis_of(label)}: {' '.join(str(info.get(name) or '').split())}"
            )
            if info.get(name) and line not in section.lines:
                section.lines.append(line)
    section.grids += [g for g in (sizes, files) if g.rows]
    return section


def _used(run: Run, label: str) -> str | None:
    """Say how many rows and tasks the first finished cell of a data set had."""
    for cell in run.planned:
        record = run.cells.get(cell.key)
        if (
            cell.dataset == label
            and record is not None
            and {"n_train", "n_test", "n_tasks"} <= set(record.counts)
        ):
            counts = record.counts
            return f"{counts['n_train']} + {counted(counts['n_test'], 'row')}, {counted(counts['n_tasks'], 'task')}"
    return None


# ---------------------------------------------------------------- solvers and seconds


def solver_section(run: Run, rows: Sequence[MethodResult]) -> Section:
    """Return iterations, convergence and certificates, row by row."""
    head = (
        "dataset",
        "method",
        "iterations:count",
        "converged",
        "largest gap:small",
        "objective:score",
        "stopped by",
    )
    # Which parts a robust model has says whether anything was shared, or divided, at all.
    has_parts = any(row.value("rank") is not None for row in rows)
    parts = ("rank of L", "outlier tasks") if has_parts else ()
    section = Section("Solvers", grids=[ReportTable.of(*head, *parts)])
    for row in rows:
        records = run.results_of(row.dataset, row.method)
        flags = [
            r.solver["converged"]
            for r in records
            if r.solver.get("converged") is not None
        ]
        steps, gaps = (list(row.by_trial(name).values()) for name in ("n_iter", "gap"))
        if not (flags or steps or gaps):
            continue
        messages = Counter(
            str(r.solver["message"]) for r in records if r.solver.get("message")
        )
        iterations = statistics.median(steps) if steps else None
        converged = f"{sum(map(bool, flags))}/{len(flags)}" if flags else None
        stopped = max(messages, key=lambda m: (messages[m], m), default=None)
        found = [
            iterations,
            converged,
            max(gaps, default=None),
            row.value("objective"),
            stopped,
        ]
        if has_parts:
            found += [_list_counts(row, "rank"), _list_counts(row, "n_outliers")]
        section.grids[0].rows.append([row.dataset, row.method, *found])
    bad = [
        f"{row.method} on {row.dataset}"
        for row in rows
        if row.status == "not_converged"
    ]
    if bad:
        line = f"Did not converge within the allowed iterations (the numbers are kept): {', '.join(bad)}."
        section.lines.append(line)
    return section


def _list_counts(row: MethodResult, quantity: str) -> str | None:
    """List a whole number of every split, as ``0, 0, 3``; None where there is none."""
    values = row.by_trial(quantity).values()
    return ", ".join(f"{value:.0f}" for value in values) or None


def timing_section(run: Run) -> Section:
    """Return the conditions under which seconds were measured."""
    section = Section("Timing")
    records = [
        run.cells[key]
        for key in sorted(run.cells)
        if run.cells[key].seconds.get("fit") is not None
    ]
    if not records:
        return section
    section.lines.append(
        "Seconds are the median over the splits of the median over the repeats of one fit at the chosen parameters; "
        "speed-ups compare medians over the splits that both methods finished. "
        "Compare ratios, not seconds, with other machines."
    )
    section.lines.append(
        "Each method stops by its own rule (the paper's where the protocol says so): seconds are not at equal "
        "accuracy. The largest certified gap of each stands under Solvers; a method without one certifies nothing, and "
        "divide and conquer does not solve the whole problem."
    )
    columns = ["threads", "repeats", "warmup", "serial", "cpu", "blas"]
    kinds = Counter(
        tuple(_listed(r.environment.get(c)) for c in columns) for r in records
    )
    rows = [[*kind, count] for kind, count in _by_count(kinds)]
    section.grids.append(ReportTable.of(*columns, "cells:count", rows=rows))
    if (
        len({(r.environment.get("cpu"), r.environment.get("threads")) for r in records})
        > 1
    ):
        section.lines.append(
            "Warning: cells were timed under different conditions; their seconds are not comparable."
        )
    return section


def environment_section(run: Run) -> Section:
    """Return versions and machines, one line per invocation that computed something."""
    section = Section(
        "Environment",
        made_and_verified(
            (record.made_by.get("commit") for record in run.cells.values()),
            run.verified,
        ),
    )
    columns = [
        "mtlrun",
        "commit",
        "python",
        "blas",
        "os",
        "cpu",
        "cores",
        "ram_gb",
        "jobs",
        "n_computed",
        "started",
    ]
    grid = ReportTable.of(*columns)
    for entry in run.provenance:
        commit = entry.get("commit")
        named = (
            f"{str(commit)[:12]}{' (changed)' if entry.get('dirty') else ''}"
            if commit
            else None
        )
        grid.rows.append([_listed({**entry, "commit": named}.get(c)) for c in columns])
    if grid.rows:
        section.grids.append(grid)
        packages = run.provenance[-1].get("packages")
        if isinstance(packages, dict):
            section.lines.append(
                "Packages: "
                + ", ".join(f"{k} {v}" for k, v in sorted(packages.items()) if v)
                + "."
            )
    return section


# ---------------------------------------------------------------- failures and cost


def failures_section(run: Run, others: Sequence[Run] = ()) -> Section:
    """Return every failed or unreadable cell, the splits with the same error together, and a file that has all of it.

    `others`: the run under other readings, with its own cells.
    """
    lines = [
        f"{name}: the file of the cell cannot be read; the next run computes it again."
        for name in run.unreadable
    ]
    lines += [
        f"{name}: its test scores are missing or damaged, so no test uses them; the next run computes them again."
        for name in run.unsound
    ]
    found: dict[tuple[str, ...], list[ResultKey]] = {}
    for one in (run, *others):
        for cell in one.failed:
            record = one.cells[cell.key]
            error = (
                (record.error or "no message").strip().splitlines()[0][:ERROR_LENGTH]
            )
            found.setdefault(
                (record.status, cell.reading, cell.dataset, cell.method, error), []
            ).append(cell)
    for (status, reading, dataset, method, error), cells in found.items():
        trials = f"{'trials' if len(cells) > 1 else 'trial'} {', '.join(str(cell.trial) for cell in cells)}"
        where = f"{dataset} / {method} / {trials}{f' [{reading}]' if reading else ''}"
        lines.append(
            f"{status}: {where}: {error} [{CELLS}/{cells[0].key[:KEY_LENGTH]}...]"
        )
    return Section("Failures", lines)


def missing_section(run: Run, others: Sequence[Run] = ()) -> Section:
    """Return how many cells of each data set are still to be computed, and of which methods."""
    section = Section(
        "Not computed yet", grids=[ReportTable.of("data set", "cells", "methods")]
    )
    for one in (run, *others):
        lacking: dict[str, list[str]] = {}
        for cell in one.missing:
            lacking.setdefault(cell.dataset, []).append(cell.method)
        for dataset, methods in lacking.items():
            every = {*methods} == {
                cell.method for cell in one.planned if cell.dataset == dataset
            }
            names = "all" if every else ", ".join(dict.fromkeys(methods))
            marked = (
                dataset if one is run else f"interpretation {one.reading}: {dataset}"
            )
            section.grids[0].rows.append([marked, len(methods), names])
    return section


def cost_section(run: Run) -> Section:
    """Return the seconds spent, as far as they were recorded."""
    section = Section("Cost")
    fits = math.fsum(
        v
        for r in run.cells.values()
        for v in as_list(r.seconds.get("fit_all")) or as_list(r.seconds.get("fit"))
    )
    evaluation = math.fsum(map(_total_seconds, run.cells.values()))
    searches = math.fsum(map(_search_seconds, run.selections.values()))
    if fits:
        cells = counted(len(run.cells), "cell")
        section.lines.append(
            f"{cells} took {significant(evaluation)} s, timed fits {significant(fits)} s of it."
        )
    if searches:
        n = counted(len(run.selections), "parameter search", "parameter searches")
        section.lines.append(f"{n} took {significant(searches)} s.")
    walls = [w for entry in run.provenance if (w := _wall(entry)) is not None]
    if walls:
        count = counted(len(walls), "invocation")
        section.lines.append(
            f"Wall clock of {count}: {significant(math.fsum(walls))} s."
        )
    return section


def computing_seconds(*runs: Run) -> float:
    """Return the seconds that cells and parameter searches took; what several methods or runs share counts once."""
    spent: dict[str, float] = {}
    for run in runs:
        spent |= {key: _total_seconds(record) for key, record in run.cells.items()}
        spent |= {
            f"search {key}": _search_seconds(record)
            for key, record in run.selections.items()
        }
    return math.fsum(spent.values())


def _search_seconds(record: Record) -> float:
    return float(record.selection.get("seconds") or 0)


def _total_seconds(record: Record) -> float:
    return float(record.seconds.get("total", record.seconds.get("fit")) or 0)


def _wall(entry: Mapping[str, Any]) -> float | None:
    """Seconds from start to end of an invocation, None when it was cut off."""
    try:
        start, end = (
            datetime.fromisoformat(str(entry[name])) for name in ("started", "finished")
        )
        return (end - start).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None


# ---------------------------------------------------------------- every cell


def row_cells(run: Run, row: MethodResult) -> tuple[ReportTable, dict[str, int]]:
    """Return the cells of a row: what they were given, what came of them, how their solvers ended.

    Returns
    -------
    grid : ReportTable
        A line per trial.
    logs : dict of str to int
        Log or error -> the first trial that left it.
    """
    solved = (
        "seconds:seconds",
        "iterations:count",
        "converged",
        "gap:small",
        "objective:number",
        "stopped by",
    )
    metrics = [Column(name, "number") for name in run.metrics]
    grid = ReportTable.of(
        "trial:count",
        "status",
        "seed",
        *metrics,
        *solved,
        "parameters",
        "chosen",
        "file",
    )
    logs: dict[str, int] = {}
    for cell in run.cells_of(row.dataset, row.method):
        record = run.cells.get(cell.key)
        if record is None:
            grid.rows.append([cell.trial, MISSING, *[None] * (len(grid.columns) - 2)])
            continue
        file = (
            f"{CELLS}/{cell.key}"
            if len(cell.key) <= KEY_LENGTH
            else f"{CELLS}/{cell.key[:KEY_LENGTH]}..."
        )
        grid.rows.append([cell.trial, record.status, *_cell_facts(run, record), file])
        text = (record.log or record.error or "").strip()[-LOG_LENGTH:]
        if text:
            logs.setdefault(text, cell.trial)
    return grid, logs


def _cell_facts(run: Run, record: Record) -> list[Any]:
    """Return seed, numbers, how the solver ended, and the parameters with the edges of the grid that they lie at."""
    seed, flag, solver = (
        (record.inputs.get("split") or {}).get("seed"),
        record.solver.get("converged"),
        record.solver,
    )
    chosen, edges = (
        facts(record.selection.get("chosen")) or None,
        record.selection.get("edges") or {},
    )
    if chosen and edges:
        chosen += f" (at the {', '.join(f'{end} end of {name}' for name, end in edges.items())})"
    return [
        None if seed is None else str(seed),
        *(record.metrics.get(name) for name in run.metrics),
        record.seconds.get("fit", record.seconds.get("total")),
        solver.get("n_iter"),
        None if flag is None else "yes" if flag else "no",
        solver.get("gap"),
        solver.get("objective"),
        solver.get("message", show(solver.get("stop_crit"), "small")),
        facts(record.params) or None,
        chosen,
    ]


# ---------------------------------------------------------------- configurations as text


def facts(mapping: object) -> str:
    """Write a mapping in one line: ``random, train 0.4, trials 5`` (`kind` has no key); nested ones in parentheses."""
    if not isinstance(mapping, Mapping):
        return "" if mapping is None else value_text(mapping)
    named = {k: value_text(v) for k, v in mapping.items() if v is not None}
    return ", ".join(
        text if k == "kind" else f"{k} {text}" for k, text in named.items()
    )


def value_text(value: object) -> str:
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
        numbers = [
            v for v in items if isinstance(v, int | float) and not isinstance(v, bool)
        ]
        if len(numbers) == len(items) > 2:
            parts.append(
                f"{name}: {counted(len(items), 'value')} {plain(min(numbers))}..{plain(max(numbers))}"
            )
        else:
            parts.append(
                f"{name}: {value_text(items) if isinstance(values, list | tuple) else values}"
            )
    return "; ".join(parts)


def _listed(value: object) -> str:
    if isinstance(value, list | tuple):
        return "; ".join(map(value_text, value)) or "-"
    return "-" if value is None else value_text(value)


# ---------------------------------------------------------------------- claims in words

#: Columns of the table of claims.
COLUMNS = ("claim", "threshold", "ours", "verdict", "data")
#: Numbers of one claim that are told one by one; beyond, only how many comparisons hold. Data sets that are named.
MOST_NUMBERS, MOST_DATA = 3, 3
#: Claims that the first lines of a report tell.
MOST_FINDINGS = 3
#: How a number is told that is a bound, by `CheckResult.bound`.
_BOUND_WORDS = {"lower": "at least ", "upper": "at most "}
#: Source of claims that are not those of a paper, and of audits of its numbers and files.
OURS = "ours"
AUDIT = "audit"
#: Source of claims of a paper that are asked of data which it does not have.
OTHER_DATA = "other data"


#: Parts of a paper in the order in which claims about them are counted; tables and
#: figures follow under their own names, then what only the text says.
THEORY, ALGORITHMS, TEXT = "theory", "algorithms", "text"


def group_of(claim: ClaimVerdict) -> str:
    """Return the part of the paper that a claim is about: a table that refutes a
    statement is one part, however many claims are read off it."""
    where = (claim.where or "").lower()
    if re.search(r"theorem|lemma|proposition|\(theory\)", where):
        return THEORY
    if "algorithm" in where:
        return ALGORITHMS
    found = re.search(r"\b(table|figure)s? (\w+)", where)
    if found is None:
        return TEXT
    return f"{found[1].capitalize()} {found[2].upper()}"


def claims_by_group(claims: Iterable[ClaimVerdict]) -> dict[str, list[ClaimVerdict]]:
    """Return claims by the part of the paper: theory, algorithms, tables and figures,
    text."""
    groups: dict[str, list[ClaimVerdict]] = {}
    for claim in claims:
        groups.setdefault(group_of(claim), []).append(claim)

    def place(name: str) -> tuple[int, str]:
        first = (THEORY, ALGORITHMS)
        if name in first:
            return first.index(name), name
        return (3 if name == TEXT else 2), name

    return {name: groups[name] for name in sorted(groups, key=place)}


def groups_text(claims: Iterable[ClaimVerdict]) -> str:
    """Say of every part of the paper how many of its claims hold, of those tested."""
    parts = []
    for name, group in claims_by_group(claims).items():
        tested = [c for c in group if c.verdict != Verdict.NOT_TESTABLE]
        holding = sum(claim.verdict in HOLDING for claim in tested)
        if tested:
            parts.append(f"{name} {holding} of {len(tested)}")
    return ", ".join(parts)


def groups_grid(claims: Iterable[ClaimVerdict]) -> ReportTable:
    """Return how many claims of every part of the paper have which verdict."""
    words = list(dict.fromkeys(verdict.said for verdict in VERDICTS))
    grid = ReportTable.of(
        "part of the paper", "claims:count", *(f"{w}:count" for w in words)
    )
    for name, group in claims_by_group(claims).items():
        counts = Counter(said(claim.verdict) for claim in group)
        grid.rows.append([name, len(group), *(counts[word] or None for word in words)])
    return grid


def claim_row(run: Run, claim: ClaimVerdict) -> list[str]:
    """Return the columns `COLUMNS` of a claim."""
    printed, ours = numbers_of(claim)
    return [claim.text, printed, ours, said(claim.verdict), data_of(run, claim)]


def claims_grid(run: Run, claims: Sequence[ClaimVerdict]) -> ReportTable:
    """Return the table of the claims of a run, a line each."""
    return ReportTable.of(
        "id", *COLUMNS, rows=([claim.id, *claim_row(run, claim)] for claim in claims)
    )


def rank_of(claim: ClaimVerdict) -> int:
    """Return the place of a claim in a list that begins with those that hold; the undecided ones come last."""
    return [verdict.one for verdict in VERDICTS].index(Verdict(claim.verdict).one)


def numbers_of(claim: ClaimVerdict) -> tuple[str, str]:
    """Return what the paper says and what we find, as far as these are numbers: a part for every bound."""
    groups: dict[tuple[str, str, str], list[CheckResult]] = {}
    for result in claim.results:
        if check := result.check:
            groups.setdefault(
                (check.kind, check.quantity or "", bounds_text(check)), []
            ).append(result)
    known = {
        key: found
        for key, group in groups.items()
        if (found := [r for r in group if r.found is not None])
    }
    if not known:
        return "; ".join(
            dict.fromkeys(claimed for *_, claimed in groups if claimed)
        ) or "-", "-"
    if len(known) > MOST_NUMBERS or any(kind == "order" for kind, *_ in known):
        told = [r for r in claim.results if r.found is not None]
        holding = sum(r.holds is True for r in told)
        return (
            "as claimed",
            f"{holding} of {counted(len(told), 'comparison')} as claimed",
        )
    before, printed = "", []
    for kind, quantity, claimed in known:
        what = _what(kind, quantity)
        printed.append(claimed if what == before else f"{what}{claimed}")
        before = what
    ours = [_range(found) for found in known.values()]
    return "; ".join(dict.fromkeys(printed)), "; ".join(
        dict.fromkeys(ours) if len(set(ours)) == 1 else ours
    )


def data_of(run: Run, claim: ClaimVerdict) -> str:
    """Name the data sets that a claim was tested on; one that was not tested says why."""
    if claim.verdict == Verdict.NOT_TESTABLE:
        return claim.why
    names = dict.fromkeys(
        run.title_of(run.axis_of(r.dataset))
        for r in claim.results
        if r.found is not None
    )
    if set(names) == {PUBLISHED}:
        return "stored numbers"
    if not names:
        return "-"
    return ", ".join(names) if len(names) <= MOST_DATA else f"{len(names)} data sets"


def counts_text(claims: Iterable[ClaimVerdict]) -> str:
    """Say how many claims hold: ``3 hold, 2 do not hold, 1 is undecided``."""
    found, plural = (
        Counter(Verdict(claim.verdict).one for claim in claims),
        {v.one: v.many for v in VERDICTS},
    )
    return ", ".join(
        f"{n} {one if n == 1 else many}"
        for one, many in plural.items()
        if (n := found[one])
    )


def finding(claim: ClaimVerdict, text: str = "") -> str:
    """Return a claim with its verdict and both numbers in a sentence, or its short `text`, which has the paper's."""
    printed, ours = (part.replace("; ", ", ") for part in numbers_of(claim))
    if ours == "-":
        numbers = ""
    elif printed == "as claimed":
        numbers = f" ({ours})"
    else:
        plain = (
            any(word in ours for word in ("times", "points"))
            or ours.replace(",", "").isdigit()
        )
        whose = "claimed" if claim.source == OURS else "paper"
        numbers = (
            f" ({whose}: {printed}; ours: {ours})"
            if not text
            else f" (we find {ours})"
            if plain
            else ""
        )
    sentence = f"{(text or claim.text).rstrip('.')}: {said(claim.verdict)}{numbers}"
    if claim.verdict != Verdict.UNDECIDED or text:
        return sentence
    for result in claim.results:
        if result.undecided and result.why:
            return f"{sentence}, because {result.why}"
    return sentence


def findings(claims: Sequence[ClaimVerdict]) -> list[str]:
    """Return what was found, in at most `MOST_FINDINGS` sentences with numbers and one on the rest.

    First the claims that were decided.
    """
    told = [claim for claim in claims if claim.verdict != Verdict.NOT_TESTABLE]
    told.sort(key=lambda claim: claim.verdict in (Verdict.DEPENDS, Verdict.UNDECIDED))
    lines = [f"{finding(claim)}." for claim in told[:MOST_FINDINGS]]
    rest = [*told[MOST_FINDINGS:], *(claim for claim in claims if claim not in told)]
    if told and rest:
        lines.append(f"{counted(len(rest), 'further claim')}: {counts_text(rest)}.")
    return lines


def _what(kind: str, quantity: str) -> str:
    """Name the number where the claim alone does not: a p-value, a ratio of errors."""
    named = f"{spoken(quantity)} " if kind in ("difference", "value") else ""
    return {"paired": "p ", "rejections": "methods significantly worse "}.get(
        kind, named
    )


def _range(found: Sequence[CheckResult]) -> str:
    values = [r.found for r in found if r.found is not None]
    check, low, high = found[0].check, min(values), max(values)
    assert check is not None  # `numbers_of` groups the results by their checks
    first, last = number_text(check, low, 3), number_text(check, high, 3)
    word = next((_BOUND_WORDS[r.bound] for r in found if r.bound), "")
    if first == last:
        return f"{word}{last}"
    for unit in (" times", " points"):
        first = first.removesuffix(unit)
    return f"{word}{first} to {last}"
