"""Ranks and tests: average ranks, Friedman's and Holm's tests (Demsar 2006), paired tests over splits or tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mtlrun.engine.averages import task_means
from mtlrun.engine.interfaces import METRIC_INFO
from mtlrun.engine.record import OK, Records
from mtlrun.errors import counted
from mtlrun.lab.report.cells import MethodResult, Run
from mtlrun.lab.report.checks import ALL_DATA, AVERAGE_RANK, QUANTITIES, Statistics
from mtlrun.stats import (
    PairedTest,
    holm,
    paired_test,
)
from mtlrun.tables.ranking import MIN_BLOCKS, Ranking
from mtlrun.tables.report_table import Column, ReportTable, Section, show
from mtlrun.utils.io import as_list

#: Fewer methods are not ranked, unless the experiment asks for it.
MIN_METHODS = 3
#: Kinds of paired tests.
Kind = Literal["wilcoxon", "t", "corrected_t"]


def direction(quantity: str, run: Run | None = None) -> bool | None:
    """Whether greater values are better; None where neither is, or it is not known.

    Parameters
    ----------
    quantity : str
        A metric, a quantity of `QUANTITIES` such as seconds, or one that the measures of a run return.
    run : Run, optional
    """
    greater = (
        run.quantities.get(quantity, {}).get("greater_is_better")
        if run is not None
        else None
    )
    if greater is not None:
        return bool(greater)
    if quantity in QUANTITIES:
        return {"speedup": True, "gap": None, "objective": None}.get(quantity, False)
    return METRIC_INFO[quantity].greater_is_better if quantity in METRIC_INFO else None


def greater_is_better(quantity: str, run: Run | None = None) -> bool:
    """Tell the direction; a quantity of unknown direction is taken as a score."""
    return direction(quantity, run) is not False


# ---------------------------------------------------------------- the section `statistics`


def rank_groups(run: Run, rows: Sequence[MethodResult]) -> list[Ranking]:
    """Return the groups of data sets of an experiment with the section `statistics`, those that can be ranked."""
    if not run.config.get("statistics"):
        return []
    wanted = Statistics.model_validate(run.config["statistics"])
    groups = [
        _group(run, rows, wanted, label, names)
        for label, names in group_labels(run).items()
    ]
    return [g for g in groups if len(g.values) >= MIN_BLOCKS and len(g.methods) >= 2]


def group_labels(run: Run) -> dict[str, list[str]]:
    """Return the labels of the data sets by group: all of them, or one group per value of the axis of a sweep."""
    found: dict[str, list[str]] = {}
    for label, facts in run.datasets.items():
        axis = facts.get("axis")
        found.setdefault(
            f"{run.sweep.get('name')} {show(axis['value'])}" if axis else ALL_DATA, []
        ).append(label)
    return found


def rank_rows(groups: Sequence[Ranking]) -> list[MethodResult]:
    """Return rows of the quantity `average_rank`: the groups are their data sets, and data sets their tasks."""
    rows = []
    for group in groups:
        for method, ranks in zip(group.methods, group.ranks.T.tolist(), strict=True):
            cell = {
                "trial": 0,
                "status": OK,
                "tasks": {AVERAGE_RANK: ranks},
                "counts": {},
            }
            cells = pd.DataFrame([{**cell, AVERAGE_RANK: group.average[method]}])
            rows.append(MethodResult(group.label, method, cells))
    return rows


def _group(
    run: Run,
    rows: Sequence[MethodResult],
    wanted: Statistics,
    label: str,
    names: list[str],
) -> Ranking:
    metric = wanted.metric
    own = _own_metrics(run, metric)
    table = {(r.dataset, r.method): r.value(own.get(r.dataset, metric)) for r in rows}
    measured = [
        m for m in run.methods if any(table.get((d, m)) is not None for d in names)
    ]
    whole = [
        d
        for d in names
        if measured and all(table.get((d, m)) is not None for m in measured)
    ]
    left_out = [
        f"{m} (no {metric} on any data set)" for m in run.methods if m not in measured
    ]
    for name in names:
        if name not in whole:
            lacking = [m for m in measured if table.get((name, m)) is None]
            left_out.append(
                f"{name} (no {metric} of {', '.join(lacking) or 'any method'})"
            )
    better = greater_is_better(metric, run)
    signs = {
        d: 1.0 if greater_is_better(own.get(d, metric), run) == better else -1.0
        for d in whole
    }
    values = [[signs[d] * float(table[d, m] or 0.0) for m in measured] for d in whole]
    by_own = {d: own[d] for d in whole if d in own}
    control, level = wanted.control, wanted.significance
    return Ranking(
        label, metric, whole, measured, values, better, control, level, left_out, by_own
    )


def _own_metrics(run: Run, metric: str) -> dict[str, str]:
    """Return the first metric of the data sets that have metrics of their own without `metric`, by label."""
    entries = [
        entry
        for entry in as_list(run.config.get("datasets"))
        if isinstance(entry, dict)
    ]
    own = {
        str(e.get("label") or e.get("id")): as_list(e.get("metrics"))
        for e in entries
        if e.get("metrics")
    }
    found = {}
    for label in run.datasets:
        metrics = own.get(run.axis_of(label), [metric])
        if metric not in metrics:
            found[label] = str(metrics[0])
    return found


def group_section(group: Ranking) -> Section:
    """Return the ranks and the tests of a group."""
    section = Section(f"Ranks and tests: {group.label}")
    section.lines.append(
        f"Ranks by {group.metric} over {len(group.blocks)} data sets (1 is best)."
    )
    if group.own:
        named = "; ".join(
            f"{dataset} by {metric}" for dataset, metric in group.own.items()
        )
        section.lines.append(f"Ranked by their own metrics: {named}.")
    section.lines += _friedman_lines(group)
    if group.left_out:
        section.lines.append(f"Not ranked: {'; '.join(group.left_out)}.")
    ranks = ReportTable(
        [Column("dataset"), *(Column(m, "seconds") for m in group.methods)]
    )
    ranks.rows = [
        [d, *map(float, row)] for d, row in zip(group.blocks, group.ranks, strict=True)
    ]
    ranks.rows.append(["average rank", *group.average.values()])
    section.grids.append(ranks)
    if group.tests:
        section.lines.append(
            f"Holm's test against {group.control} at level {group.significance:g} (two-sided, normal approximation of "
            f"the average ranks): {len(group.worse)} of {counted(len(group.tests), 'method')} "
            f"{'ranks' if len(group.tests) == 1 else 'rank'} significantly worse."
        )
        found = [
            [m, t.z, t.pvalue, t.adjusted, t.alpha, "yes" if t.rejected else "no"]
            for m, t in group.tests
        ]
        columns = (
            "method",
            "z:seconds",
            "p:small",
            "p (Holm):small",
            "alpha (Holm):small",
            "rejected",
        )
        section.grids.append(ReportTable.of(*columns, rows=found))
    return section


def _friedman_lines(ranking: Ranking) -> list[str]:
    """Write Friedman's test in both forms; nothing for a single block."""
    test = ranking.friedman
    if test is None:
        return []
    text = f"Friedman: chi2 = {show(test.chi2, 'seconds')}, p = {show(test.chi2_pvalue, 'small')}"
    if math.isinf(test.f):
        return [f"{text}; every block ranks the methods alike."]
    return [
        f"{text}; Iman-Davenport: F = {show(test.f, 'seconds')}, p = {show(test.f_pvalue, 'small')}."
    ]


# ---------------------------------------------------------------- all other experiments


def rank_methods(run: Run, rows: Sequence[MethodResult]) -> Ranking | None:
    """Rank the methods by the main metric, within data sets, or within splits when there is one data set only.

    Methods without a number in every block are left out. None with fewer than three methods left.
    """
    if not run.metrics or run.measures or run.config.get("statistics"):
        return (
            None  # measurements are not ranked, and `statistics` has its own sections
        )
    metric = run.metrics[0]
    known = {r.dataset for r in rows if r.value(metric) is not None}
    datasets = [d for d in run.datasets if d in known]
    values: list[tuple[Any, str, float | None]]
    if len(datasets) > 1:
        values = [(r.dataset, r.method, r.value(metric)) for r in rows]
        blocks: list[Any] = datasets
        label = f"{len(datasets)} {'settings' if run.sweep else 'data sets'}"
    else:
        values = [
            (t, r.method, v)
            for r in rows
            if r.dataset in known
            for t, v in r.by_trial(metric).items()
        ]
        blocks = sorted({trial for trial, _, _ in values})
        label = f"{counted(len(blocks), 'split')} of {datasets[0] if datasets else 'nothing'}"
    table = pd.DataFrame(values, columns=["block", "method", "value"]).pivot(
        columns="method", index="block", values="value"
    )
    table = (
        table.reindex(index=blocks, columns=run.methods).astype(float).dropna(axis=1)
    )
    if table.shape[1] < MIN_METHODS or not blocks:
        return None
    return Ranking(
        label,
        metric,
        list(map(str, blocks)),
        list(table),
        table.values.tolist(),
        greater_is_better(metric),
    )


def comparison_section(run: Run, rows: Sequence[MethodResult]) -> Section:
    """Return average ranks and paired tests against the baseline (else the best method), data set by data set."""
    section = Section("Comparison of methods")
    ranking = rank_methods(run, rows)
    if ranking is None:
        return section
    order = sorted(ranking.average.items(), key=lambda pair: pair[1])
    section.lines.append(
        f"Average ranks by {ranking.metric} over {ranking.label} (1 is best). "
        "The splits of a data set share rows, so tests over splits are optimistic."
    )
    section.lines += _friedman_lines(ranking)
    section.grids.append(ReportTable.of("method", "average rank:seconds", rows=order))
    control = run.baseline if run.baseline in ranking.methods else order[0][0]
    grid = _pairwise_grid(run, rows, ranking.metric, control)
    if grid.rows:
        section.lines.append(
            f"Two-sided Wilcoxon signed-rank tests of {ranking.metric} against {control}, corrected by Holm's method "
            "within each data set and unit; wins are wins-losses-ties."
        )
        section.grids.append(grid)
    return section


def _pairwise_grid(
    run: Run, rows: Sequence[MethodResult], metric: str, control: str
) -> ReportTable:
    grid = ReportTable.of(
        "dataset",
        "method",
        "unit",
        "difference:score",
        "wins",
        "pairs:count",
        "p:small",
        "p (Holm):small",
    )
    for dataset in run.datasets:
        group = [r for r in rows if r.dataset == dataset]
        base = next((r for r in group if r.method == control), None)
        if base is None:
            continue
        for unit in ("trial", "task"):
            others = [r for r in group if r is not base]
            tests = [
                (row, test)
                for row in others
                if (test := paired(row, base, metric, unit))
            ]
            known = [
                (row, test, test.pvalue)
                for row, test in tests
                if test.pvalue is not None
            ]
            for (row, test, pvalue), adjusted in zip(
                known, holm([p for *_, p in known]), strict=True
            ):
                wins = f"{test.wins}-{test.losses}-{test.ties}"
                line = [
                    dataset,
                    row.method,
                    unit,
                    test.mean_difference,
                    wins,
                    test.n,
                    pvalue,
                    float(adjusted),
                ]
                grid.rows.append(line)
    return grid


# ---------------------------------------------------------------- paired tests


def paired(
    a: MethodResult,
    b: MethodResult,
    quantity: str,
    unit: str = "trial",
    test: Kind = "wilcoxon",
    ties: float = 0.0,
) -> PairedTest | None:
    """Test a against b on the splits, or the tasks, that both have.

    Parameters
    ----------
    a, b : MethodResult
        Same data set.
    quantity : str
        Metric, or for unit "trial" any quantity.
    unit : {"trial", "task"}
        Values of a task are averaged over the splits first.
    test : {"wilcoxon", "t", "corrected_t"}
    ties : float, default 0.0
        Values that differ by at most that are equal.

    Returns
    -------
    PairedTest or None
        None with a single split, which carries no evidence about the spread between splits.
    """
    left, right = a.by_trial(quantity), b.by_trial(quantity)
    trials = [t for t in left if t in right]
    if len(trials) < MIN_BLOCKS:
        return None
    if unit == "task":
        means = [
            task_means([r.tasks(quantity).get(t, []) for t in trials]) for r in (a, b)
        ]
        if len(means[0]) != len(means[1]):
            return None
        pairs = [
            (x, y)
            for x, y in zip(*means, strict=True)
            if x is not None and y is not None
        ]
    else:
        pairs = [(left[t], right[t]) for t in trials]
    train, held_out = (fmean(a.counts(name) or [1]) for name in ("n_train", "n_test"))
    first, second = ([pair[i] for pair in pairs] for i in (0, 1))
    return paired_test(
        first, _tied(first, second, ties), test, test_over_train=held_out / train
    )


def _tied(a: ArrayLike, b: ArrayLike, ties: float) -> np.ndarray:
    """Return b, with the values of a where they differ by at most `ties`."""
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return np.where(np.abs(first - second) <= ties, first, second)


def paired_predictions(
    run: Run, dataset: str, a: str, b: str, test: Kind = "wilcoxon", ties: float = 0.0
) -> list[PairedTest]:
    """Test the kept test scores of method a against those of b, every split by itself.

    Parameters
    ----------
    run : Run
    dataset, a, b : str
        Labels.
    test : {"wilcoxon", "t"}
    ties : float, default 0.0
        Scores that differ by at most that are equal: what a solver's tolerance leaves open decides nothing.

    Returns
    -------
    list of PairedTest
        One per split of which both have scores of one shape, or of which the packed records have this test; a pair
        is one score of one test row (and task).
    """
    planned = [
        c
        for c in run.planned
        if c.dataset == dataset and c.method in (a, b) and c.key in run.cells
    ]
    records = {(c.method, c.trial): run.cells[c.key] for c in planned}
    tests = []
    stored = Records.of_run(run.folder)
    for trial in sorted({trial for _, trial in records}):
        if (a, trial) not in records or (b, trial) not in records:
            continue
        of = records[a, trial]
        over = records[b, trial]
        key = (of.key, over.key, test, float(ties))
        first = stored.read_scores(of)
        second = stored.read_scores(over)
        if first is not None and second is not None and first.shape == second.shape:
            equalized = _tied(first, second, ties)
            # Whoever packs the records keeps the test in place of the scores.
            run.paired[key] = paired_test(first.ravel(), equalized.ravel(), test)
        if key in run.paired:
            tests.append(run.paired[key])
    return tests
