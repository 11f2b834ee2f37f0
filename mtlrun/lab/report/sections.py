"""Sections of a report on how its numbers came about.

They describe protocol, parameter searches, data, solvers, timing, machines, failures
and cost. `mtlrun.lab.report.findings` has what became of the claims.
"""

from __future__ import annotations

import math
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from mtlrun.engine.record import CELLS, Record, ResultKey
from mtlrun.engine.stored import KEY_LENGTH
from mtlrun.errors import counted
from mtlrun.lab.experiment.spec import plain_split
from mtlrun.lab.report.method_results import MethodResult
from mtlrun.lab.report.run import (
    MISSING,
    Run,
    axis_of,
    jobs_of,
    jobs_with_outcome,
    results_of,
)
from mtlrun.lab.stored import (
    Quantity,
    made_and_verified,
)
from mtlrun.parallel.status import FAILED
from mtlrun.show.report_table import (
    Column,
    ReportTable,
    Section,
    plain,
    show,
    significant,
)
from mtlrun.utils.io import as_list, is_json_number

#: Names of the ends of a grid.
GRID_ENDS = {"low": "minimum", "high": "maximum"}
#: Number of characters of an error message that are shown.
MAX_ERROR_LENGTH = 200
#: Number of characters of a log that are shown, from its end.
MAX_LOG_LENGTH = 4000
#: Number of characters of a fingerprint that are shown.
FINGERPRINT_LENGTH = 16
#: Number of characters of a commit that are shown.
COMMIT_LENGTH = 12
#: Recorded conditions of timed fits.
TIMING_CONDITIONS = ("threads", "repeats", "warmup", "serial", "cpu", "blas")
#: Columns of the table of invocations.
PROVENANCE_COLUMNS = (
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
)


def run_sections(
    run: Run, rows: Sequence[MethodResult], others: Sequence[Run] = ()
) -> list[Section]:
    """Return all sections of this module, in the order of the report.

    Parameters
    ----------
    run : Run
    rows : sequence of MethodResult
    others : sequence of Run
        Run under other interpretations, each with the jobs that only it has.
    """
    return [
        protocol_section(run),
        search_section(run),
        data_section(run),
        solver_section(run, rows),
        timing_section(run),
        environment_section(run),
        Section("Deviations", run.spec.deviations),
        failures_section(run, others),
        missing_section(run, others),
        cost_section(run),
        rerun_section(run),
    ]


# ------------------------------------------------------------ protocol


def protocol_section(run: Run) -> Section:
    """Return splits, metrics, seeds, and the methods with their parameters and
    grids.
    """
    spec = run.spec
    section = Section("Protocol")
    seed = f"base seed {spec.seed}"
    if spec.is_analysis:
        section.lines.append(
            f"Repeats: {spec.repeats}, each with its own seed; {seed}."
        )
        for name in spec.metrics:
            quantity = run.experiment.quantities.get(name, Quantity())
            section.lines.append(f"{name}: {quantity.text or 'quantity'}.")
        table = ReportTable.of("method", "measure", "parameters")
        for method in spec.methods:
            params = format_mapping(method.params)
            table.rows.append([method.label, method.measure or "-", params])
    else:
        split = ""
        if spec.split is not None:
            split = format_mapping(plain_split(spec, spec.split))
        section.lines.append(f"Split: {split}; {seed}.")
        unit = "tasks"
        if spec.average == "sample":
            unit = "rows"
        section.lines.append(
            f"Metrics: {', '.join(spec.metrics)}, averaged over the {unit} of the test "
            "part (tasks for which a metric is undefined are left out and counted); "
            "then mean ± standard deviation over the splits."
        )
        table = ReportTable.of(
            "method", "estimator", "parameters", "grid", "searched with"
        )
        for method in spec.methods:
            table.rows.append(
                [
                    method.label,
                    method.estimator or "-",
                    format_mapping(method.params),
                    format_grid(method.grid),
                    format_mapping(method.select_with),
                ]
            )
    section.grids.append(table)
    quoted = {
        "Features": spec.features,
        "Parameter search": spec.selection,
        "Timing": spec.timing,
        "Limits": spec.limits,
        "Sweep": spec.sweep,
        "Tests": spec.statistics,
    }
    for title, quoted_section in quoted.items():
        if quoted_section is not None:
            text = format_mapping(quoted_section.model_dump(exclude_unset=True))
            if text:
                section.lines.append(f"{title}: {text}.")
    for dataset in spec.datasets:
        settings = format_mapping(dataset.sections)
        if settings:
            section.lines.append(f"Different for {dataset.name}: {settings}.")
    if run.experiment.overrides:
        overrides = ", ".join(map(str, run.experiment.overrides))
        section.lines.append(f"Overrides: {overrides}.")
    return section


def rerun_section(run: Run) -> Section:
    """Return a command for the run and one for each method."""
    command = run.experiment.command
    section = Section("How to rerun")
    if not command:
        return section
    section.lines.append(
        f"Everything: `{command}` (finished results are reused; --force recomputes them)."
    )
    table = ReportTable.of("method", "command")
    for method in run.methods:
        # In --only these characters have a meaning, but "?" matches any character.
        pattern = re.sub(r"[,*?\[]", "?", method)
        selection = shlex.quote(f"method={pattern}")
        table.rows.append([method, f"{command} --only {selection}"])
    section.grids.append(table)
    return section


# ------------------------------------------------------------ parameter searches


#: Most frequent choices of a search that are listed: with many splits nearly every split
#: may select other values, which the records have.
MAX_CHOICES = 3


def search_section(run: Run) -> Section:
    """Return the selected parameters, the cost of the searches, and grids to widen."""
    section = Section("Parameter search")
    table = ReportTable.of(
        "dataset",
        "method",
        "candidates:count",
        "fits:count",
        "chosen (times)",
        "at an end of its grid",
    )
    n_at_edge = 0
    for (dataset, method), records in _searched_records(run).items():
        edges = _edges_text(records)
        if edges is not None:
            n_at_edge += 1
        keys = [str(record.selection.key) for record in records]
        searches = [run.selections[key] for key in keys if key in run.selections]
        sizes = [search.selection.count_candidates() for search in searches]
        total_fits = sum(search.selection.count_fits() for search in searches)
        table.rows.append(
            [
                dataset,
                method,
                max(sizes, default=None),
                total_fits or None,
                selected_text(records),
                edges,
            ]
        )
    if not table.rows:
        return section
    how = "by cross-validation inside the training part"
    if run.spec.selection and run.spec.selection.on == "validation":
        how = "on the validation part"
    section.lines.append(
        f"Parameters are chosen {how} of each split; methods with the same objective "
        "share one search."
    )
    if n_at_edge:
        section.lines.append(
            f"In {n_at_edge} of {counted(len(table.rows), 'row')} the best value was at "
            "an end of the grid at least once, so a better one may lie outside: widen "
            "the grid."
        )
    section.grids.append(table)
    return section


def edge_hits(run: Run) -> list[str]:
    """Return the searches that selected a value at an end of its grid, and how
    often.
    """
    lines = []
    for (dataset, method), records in _searched_records(run).items():
        edges = _edges_text(records)
        if edges:
            lines.append(f"{dataset} / {method}: {edges}")
    return lines


def _searched_records(run: Run) -> dict[tuple[str, str], list[Record]]:
    """Return the records whose parameters a search selected, by data set and method.

    Records of failed fits are included.
    """
    records: dict[tuple[str, str], list[Record]] = {}
    for job in run.planned:
        record = run.records.get(job.key)
        if record is not None and record.selection.key:
            records.setdefault((job.dataset, job.method), []).append(record)
    return records


def selected_text(records: Sequence[Record]) -> str:
    """Return the selected parameters, with counts if not all splits have the same.

    After `MAX_CHOICES` choices, only the others are counted.
    """
    counts = Counter(format_mapping(r.selection.chosen) for r in records)
    texts = []
    for text, count in _by_count(counts)[:MAX_CHOICES]:
        if count < len(records):
            text += f" ({count})"
        texts.append(text)
    n_others = len(counts) - len(texts)
    if n_others:
        texts.append(counted(n_others, "other choice"))
    return "; ".join(texts)


def _edges_text(records: Sequence[Record]) -> str | None:
    """Return the parameters at an end of their grids; None if there are none."""
    counts: Counter[str] = Counter()
    for record in records:
        edges = record.selection.edges or {}
        for parameter, end in edges.items():
            counts[f"{parameter} hit its {GRID_ENDS.get(end, end)}"] += 1
    splits = counted(len(records), "split")
    texts = [f"{text} in {count} of {splits}" for text, count in _by_count(counts)]
    return "; ".join(texts) or None


def _by_count(counter: Counter[Any]) -> Sequence[tuple[Any, int]]:
    """Return values and counts, the most frequent first, equally frequent ones
    sorted.
    """
    return sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))


# ------------------------------------------------------------ data


def data_section(run: Run) -> Section:
    """Return origin, size and hashes of the data."""
    section = Section("Data")
    sizes = ReportTable.of(
        "dataset", "title", "options", "statistics", "used", "licence", "fingerprint"
    )
    files = ReportTable.of("dataset", "file", "sha256 of the content")
    listed: set[tuple[str, str]] = set()
    for label, dataset in run.datasets.items():
        name = axis_of(run, label)
        identity = (name, dataset.fingerprint)
        is_described = bool(dataset.model_fields_set)
        # In a sweep the same data may occur once for each value of the axis.
        if not is_described or identity in listed:
            continue
        listed.add(identity)
        # The statistics on a card describe the data set itself, not a sample or another
        # size.
        statistics_text = None
        if set(dataset.options) <= {"variant"}:
            statistics_text = format_mapping(dataset.statistics)
        sizes.rows.append(
            [
                label,
                dataset.marked(dataset.title or label),
                format_mapping(dataset.options) or None,
                statistics_text,
                _used_rows_text(run, label),
                dataset.licence,
                dataset.fingerprint[:FINGERPRINT_LENGTH] or None,
            ]
        )
        for file, digest in sorted(dataset.files.items()):
            files.rows.append([label, file, digest])
        for text in (dataset.notes, dataset.citation):
            line = f"{name}: {' '.join(text.split())}"
            if text and line not in section.lines:
                section.lines.append(line)
    section.grids += [table for table in (sizes, files) if table.rows]
    return section


def _used_rows_text(run: Run, label: str) -> str | None:
    """Return the numbers of rows and tasks in the first finished job of a data set."""
    for job in run.planned:
        record = run.records.get(job.key)
        if job.dataset != label or record is None:
            continue
        counts = record.counts
        if {"n_train", "n_test", "n_tasks"} <= set(counts):
            test_rows = counted(counts["n_test"], "row")
            tasks = counted(counts["n_tasks"], "task")
            return f"{counts['n_train']} + {test_rows}, {tasks}"
    return None


# ------------------------------------------------------------ solvers and seconds


def solver_section(run: Run, rows: Sequence[MethodResult]) -> Section:
    """Return iterations, convergence and duality gaps of each method and data set."""
    table = ReportTable.of(
        "dataset",
        "method",
        "iterations:count",
        "converged",
        "largest gap:small",
        "objective:score",
        "stopped by",
    )
    # The parts of a robust model show whether tasks were shared, or separated, at all.
    has_parts = any(row.value("rank") is not None for row in rows)
    if has_parts:
        table.columns += [Column("rank of L"), Column("outlier tasks")]
    for row in rows:
        flags: list[bool] = []
        messages: Counter[str] = Counter()
        for record in results_of(run, row.dataset, row.method):
            solver = record.solver_outcome
            if solver.converged is not None:
                flags.append(bool(solver.converged))
            if solver.message:
                messages[str(solver.message)] += 1
        steps = list(row.by_trial("n_iter").values())
        gaps = list(row.by_trial("gap").values())
        # Methods that report nothing have no line.
        if not (flags or steps or gaps):
            continue
        converged = None
        if flags:
            converged = f"{sum(flags)}/{len(flags)}"
        median_steps = None
        if steps:
            median_steps = statistics.median(steps)
        entries = [
            row.dataset,
            row.method,
            median_steps,
            converged,
            max(gaps, default=None),
            row.value("objective"),
            # Of equally frequent messages, the last one in the alphabet.
            max(messages, key=lambda text: (messages[text], text), default=None),
        ]
        if has_parts:
            entries += [_list_counts(row, "rank"), _list_counts(row, "n_outliers")]
        table.rows.append(entries)
    section = Section("Solvers", grids=[table])
    unconverged = []
    for row in rows:
        if row.status == "not_converged":
            unconverged.append(f"{row.method} on {row.dataset}")
    if unconverged:
        section.lines.append(
            "Did not converge within the allowed iterations (the numbers are kept): "
            f"{', '.join(unconverged)}."
        )
    return section


def _list_counts(row: MethodResult, quantity: str) -> str | None:
    """List a count of the splits, as ``0, 0, 3``; None without any."""
    values = row.by_trial(quantity).values()
    return ", ".join(f"{value:.0f}" for value in values) or None


def timing_section(run: Run) -> Section:
    """Return the conditions under which seconds were measured."""
    section = Section("Timing")
    records = []
    for key in sorted(run.records):
        if run.records[key].seconds.fit is not None:
            records.append(run.records[key])
    if not records:
        return section
    section.lines += [
        "Seconds are the median over the splits of the median over the repeats of one "
        "fit at the chosen parameters; speed-ups compare medians over the splits that "
        "both methods finished. Compare ratios, not seconds, with other machines.",
        "Each method stops by its own rule (the paper's where the protocol says so): "
        "seconds are not at equal accuracy. The largest certified gap of each stands "
        "under Solvers; a method without one certifies nothing, and divide and conquer "
        "does not solve the whole problem.",
    ]
    conditions: Counter[tuple[str, ...]] = Counter()
    processors = set()
    for record in records:
        environment = record.environment
        entries = [format_entry(environment.get(name)) for name in TIMING_CONDITIONS]
        conditions[tuple(entries)] += 1
        processors.add((environment.get("cpu"), environment.get("threads")))
    table = ReportTable.of(*TIMING_CONDITIONS, "results:count")
    table.rows = [[*entries, count] for entries, count in _by_count(conditions)]
    section.grids.append(table)
    if len(processors) > 1:
        section.lines.append(
            "Warning: results were timed under different conditions; their seconds are "
            "not comparable."
        )
    return section


def environment_section(run: Run) -> Section:
    """Return versions and machines, a row for each invocation that computed
    something.
    """
    commits = [record.made_by.get("commit") for record in run.records.values()]
    section = Section("Environment", made_and_verified(commits, run.verified))
    if not run.provenance:
        return section
    table = ReportTable.of(*PROVENANCE_COLUMNS)
    for invocation in run.provenance:
        commit = None
        if invocation.commit:
            commit = str(invocation.commit)[:COMMIT_LENGTH]
            if invocation.dirty:
                commit += " (changed)"
        entries = {**invocation.model_dump(), "commit": commit}
        table.rows.append([format_entry(entries[c]) for c in PROVENANCE_COLUMNS])
    section.grids.append(table)
    packages = run.provenance[-1].packages
    if packages is not None:
        versions = []
        for name, version in sorted(packages.items()):
            if version:
                versions.append(f"{name} {version}")
        section.lines.append(f"Packages: {', '.join(versions)}.")
    return section


# ------------------------------------------------------------ failures


def failures_section(run: Run, others: Sequence[Run] = ()) -> Section:
    """Return failed and unreadable jobs, each with the file that has all details.

    Splits with the same error share a line. See `run_sections` for `others`.
    """
    section = Section("Failures")
    for name in run.unreadable:
        section.lines.append(
            f"{name}: the file of the result cannot be read; the next run computes it "
            "again."
        )
    for name in run.unsound:
        section.lines.append(
            f"{name}: its test scores are missing or damaged, so no test uses them; the "
            "next run computes them again."
        )
    by_error: dict[tuple[str, ...], list[ResultKey]] = {}
    for one_run in (run, *others):
        for job in jobs_with_outcome(one_run, FAILED):
            record = one_run.records[job.key]
            message = (record.error or "").strip() or "no message"
            error = message.splitlines()[0][:MAX_ERROR_LENGTH]
            key = (record.status, job.reading, job.dataset, job.method, error)
            by_error.setdefault(key, []).append(job)
    for (status, reading, dataset, method, error), jobs in by_error.items():
        word = "trial"
        if len(jobs) > 1:
            word = "trials"
        trials = ", ".join(str(job.trial) for job in jobs)
        location = f"{dataset} / {method} / {word} {trials}"
        if reading:
            location += f" [{reading}]"
        file = f"{CELLS}/{jobs[0].key[:KEY_LENGTH]}..."
        section.lines.append(f"{status}: {location}: {error} [{file}]")
    return section


def missing_section(run: Run, others: Sequence[Run] = ()) -> Section:
    """Return the number of jobs still to be computed, by data set and method.

    See `run_sections` for `others`.
    """
    table = ReportTable.of("data set", "results", "methods")
    for one_run in (run, *others):
        missing: dict[str, list[str]] = {}
        for job in jobs_with_outcome(one_run, MISSING):
            missing.setdefault(job.dataset, []).append(job.method)
        planned: dict[str, set[str]] = {}
        for job in one_run.planned:
            planned.setdefault(job.dataset, set()).add(job.method)
        for dataset, methods in missing.items():
            names = ", ".join(dict.fromkeys(methods))
            if set(methods) == planned[dataset]:
                names = "all"
            label = dataset
            if one_run is not run:
                label = f"interpretation {one_run.experiment.reading}: {dataset}"
            table.rows.append([label, len(methods), names])
    return Section("Not computed yet", grids=[table])


# ------------------------------------------------------------ cost


def cost_section(run: Run) -> Section:
    """Return the seconds spent, as far as they were recorded."""
    section = Section("Cost")
    fit_times: list[float] = []
    for record in run.records.values():
        fit_times += record.seconds.fit_all or as_list(record.seconds.fit)
    fit_seconds = math.fsum(fit_times)
    if fit_seconds:
        results = counted(len(run.records), "result")
        total = significant(math.fsum(map(_total_seconds, run.records.values())))
        section.lines.append(
            f"{results} took {total} s, timed fits {significant(fit_seconds)} s of it."
        )
    search_seconds = math.fsum(
        record.selection.seconds or 0.0 for record in run.selections.values()
    )
    if search_seconds:
        n = len(run.selections)
        searches = counted(n, "parameter search", "parameter searches")
        section.lines.append(f"{searches} took {significant(search_seconds)} s.")
    wall_times = []
    for invocation in run.provenance:
        # A command that was killed has no end.
        with suppress(ValueError, TypeError):
            start = datetime.fromisoformat(str(invocation.started))
            end = datetime.fromisoformat(str(invocation.finished))
            wall_times.append((end - start).total_seconds())
    if wall_times:
        invocations = counted(len(wall_times), "invocation")
        total = significant(math.fsum(wall_times))
        section.lines.append(f"Wall clock of {invocations}: {total} s.")
    return section


def computing_seconds(runs: Iterable[Run]) -> float:
    """Return the seconds that the jobs and parameter searches of some runs took.

    Jobs that several methods or runs share count once.
    """
    seconds: dict[str, float] = {}
    for run in runs:
        for key, record in run.records.items():
            seconds[key] = _total_seconds(record)
        for key, record in run.selections.items():
            seconds[f"search {key}"] = record.selection.seconds or 0.0
    return math.fsum(seconds.values())


def _total_seconds(record: Record) -> float:
    seconds = record.seconds
    if seconds.total is None:
        return seconds.fit or 0.0
    return seconds.total


# ------------------------------------------------------------ every job


def job_table(run: Run, row: MethodResult) -> tuple[ReportTable, dict[str, int]]:
    """Return the jobs of a method on a data set.

    Returns
    -------
    table : ReportTable
        A row for each trial: inputs, metrics, how the solver ended, and the file.
    logs : dict of str to int
        Log or error message -> first trial with it.
    """
    metrics = [Column(name, "number") for name in run.spec.metrics]
    table = ReportTable.of(
        "trial:count",
        "status",
        "seed",
        *metrics,
        "seconds:seconds",
        "iterations:count",
        "converged",
        "gap:small",
        "objective:number",
        "stopped by",
        "parameters",
        "chosen",
        "file",
    )
    logs: dict[str, int] = {}
    for job in jobs_of(run, row.dataset, row.method):
        record = run.records.get(job.key)
        if record is None:
            n_empty = len(table.columns) - 2
            table.rows.append([job.trial, MISSING, *[None] * n_empty])
            continue
        file = f"{CELLS}/{job.key}"
        if len(job.key) > KEY_LENGTH:
            file = f"{CELLS}/{job.key[:KEY_LENGTH]}..."
        entries = _record_entries(run, record)
        table.rows.append([job.trial, record.status, *entries, file])
        log = (record.log or record.error or "").strip()[-MAX_LOG_LENGTH:]
        if log:
            logs.setdefault(log, job.trial)
    return table, logs


def _record_entries(run: Run, record: Record) -> list[Any]:
    """Return the entries of `job_table` between the status and the file."""
    solver = record.solver_outcome
    metrics = [record.metrics.get(name) for name in run.spec.metrics]
    seed = (record.inputs.get("split") or {}).get("seed")
    seed_text = None
    if seed is not None:
        seed_text = str(seed)
    converged = None
    if solver.converged is not None:
        converged = "yes" if solver.converged else "no"
    selected = format_mapping(record.selection.chosen) or None
    edges = record.selection.edges
    if selected and edges:
        ends = ", ".join(f"{end} end of {name}" for name, end in edges.items())
        selected += f" (at the {ends})"
    return [
        seed_text,
        *metrics,
        record.seconds.total if record.seconds.fit is None else record.seconds.fit,
        solver.n_iter,
        converged,
        solver.gap,
        solver.objective,
        solver.message or show(solver.stop_crit, "small"),
        format_mapping(record.params) or None,
        selected,
    ]


def format_mapping(mapping: object) -> str:
    """Format a mapping in one line, for example ``random, train 0.4, trials 5``.

    The key `kind` is left out, and so are values that are None. Nested mappings are in
    parentheses. Anything but a mapping is formatted by `format_value`, and None is
    empty.
    """
    if mapping is None:
        return ""
    if not isinstance(mapping, Mapping):
        return format_value(mapping)
    parts = []
    for key, value in mapping.items():
        if value is None:
            continue
        text = format_value(value)
        if key != "kind":
            text = f"{key} {text}"
        parts.append(text)
    return ", ".join(parts)


def format_value(value: object) -> str:
    """Format one value of a configuration."""
    if isinstance(value, Mapping):
        return f"({format_mapping(value)})"
    if isinstance(value, list | tuple):
        texts = [format_value(item) for item in value]
        return f"[{', '.join(texts)}]"
    # A bool is an int, too, so it comes first.
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return plain(value)
    return str(value)


def format_grid(grid: Mapping[str, Any] | None) -> str:
    """Format a grid of parameters, for example ``lam: 6 values 0.14..1``.

    More than two numbers are given by their count and range, other values one by one.
    """
    parts = []
    for name, values in (grid or {}).items():
        items = as_list(values)
        if len(items) > 2 and all(map(is_json_number, items)):
            count = counted(len(items), "value")
            text = f"{count} {plain(min(items))}..{plain(max(items))}"
        elif isinstance(values, list | tuple):
            text = format_value(items)
        else:
            text = str(values)
        parts.append(f"{name}: {text}")
    return "; ".join(parts)


def format_entry(value: object) -> str:
    """Format an entry of a table: lists with semicolons, ``-`` if empty or None."""
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return "; ".join(map(format_value, value)) or "-"
    return format_value(value)
