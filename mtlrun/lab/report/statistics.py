"""Ranks and tests of methods.

Methods are ranked within data sets or splits, with the tests of Friedman and Holm
(Demsar 2006). Paired tests compare two methods over splits, tasks or predictions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mtlrun.catalog.interfaces import METRIC_INFO
from mtlrun.engine.store import Store
from mtlrun.errors import counted
from mtlrun.lab.experiment.claims import ALL_DATA, AVERAGE_RANK, QUANTITIES, Statistics
from mtlrun.lab.report.method_results import MethodResult
from mtlrun.lab.report.run import Run, axis_of
from mtlrun.parallel.status import OK
from mtlrun.show.ranking import MIN_BLOCKS, Ranking
from mtlrun.show.report_table import Column, ReportTable, Section, show
from mtlrun.stats import (
    PairedTest,
    holm,
    paired_test,
    task_means,
)

#: Fewer methods are ranked only if the experiment asks for it.
MIN_METHODS = 3
#: Kinds of paired tests.
Kind = Literal["wilcoxon", "t", "corrected_t"]


def direction(quantity: str, run: Run | None = None) -> bool | None:
    """Return whether greater values of a quantity are better.

    Parameters
    ----------
    quantity : str
        A metric, a quantity of `QUANTITIES` such as seconds, or a quantity of an
        analysis of the run.
    run : Run, default=None

    Returns
    -------
    bool or None
        None if neither direction is better, or if it is unknown.
    """
    if run is not None:
        declared = run.experiment.quantities.get(quantity)
        if declared is not None and declared.greater_is_better is not None:
            return declared.greater_is_better
    if quantity == "speedup":
        return True
    if quantity in ("gap", "objective"):
        return None
    if quantity in QUANTITIES:
        return False
    if quantity in METRIC_INFO:
        return METRIC_INFO[quantity].greater_is_better
    return None


def greater_is_better(quantity: str, run: Run | None = None) -> bool:
    """Return the direction; a quantity of unknown direction is treated as a score."""
    return direction(quantity, run) is not False


# ---------------------------------------------------------- the section `statistics`


def rank_groups(run: Run, rows: Sequence[MethodResult]) -> list[Ranking]:
    """Return the rankings that the section `statistics` of an experiment asks for.

    Groups with a single data set or a single method cannot be ranked and are left out.
    """
    settings = run.spec.statistics
    if settings is None:
        return []
    rankings = []
    for label, datasets in group_labels(run).items():
        ranking = _rank_group(run, rows, settings, label, datasets)
        if len(ranking.values) >= MIN_BLOCKS and len(ranking.methods) >= 2:
            rankings.append(ranking)
    return rankings


def group_labels(run: Run) -> dict[str, list[str]]:
    """Return the labels of the data sets of each group.

    All data sets are one group, or those at each value of a sweep.
    """
    groups: dict[str, list[str]] = {}
    for label, dataset in run.datasets.items():
        group = ALL_DATA
        if dataset.axis and run.spec.sweep:
            group = f"{run.spec.sweep.name} {show(dataset.axis.value)}"
        groups.setdefault(group, []).append(label)
    return groups


def rank_rows(groups: Sequence[Ranking]) -> list[MethodResult]:
    """Return the average ranks as results, so that tables and claims can use them.

    A group takes the place of a data set, and its data sets take the place of tasks.
    """
    rows = []
    for group in groups:
        for method, ranks in zip(group.methods, group.ranks.T.tolist(), strict=True):
            job = {
                "trial": 0,
                "status": OK,
                "tasks": {AVERAGE_RANK: ranks},
                "counts": {},
                AVERAGE_RANK: group.average[method],
            }
            rows.append(MethodResult(group.label, method, [job]))
    return rows


def _rank_group(
    run: Run,
    rows: Sequence[MethodResult],
    settings: Statistics,
    label: str,
    datasets: list[str],
) -> Ranking:
    """Rank the methods on the data sets for which all of them have a number."""
    metric = settings.metric
    metrics_by_name: dict[str, list[str]] = {}
    for entry in run.spec.datasets:
        if entry.metrics:
            metrics_by_name[entry.name] = entry.metrics
    # Data sets without the metric are ranked by the first metric that they have.
    other_metrics = {}
    for name in run.datasets:
        metrics = metrics_by_name.get(axis_of(run, name), [metric])
        if metric not in metrics:
            other_metrics[name] = metrics[0]
    values: dict[tuple[str, str], float | None] = {}
    for row in rows:
        metric_of_row = other_metrics.get(row.dataset, metric)
        values[row.dataset, row.method] = row.value(metric_of_row)
    left_out = []
    methods = []
    for method in run.methods:
        if any(values.get((dataset, method)) is not None for dataset in datasets):
            methods.append(method)
        else:
            left_out.append(f"{method} (no {metric} on any data set)")
    complete = []
    for dataset in datasets:
        missing = [m for m in methods if values.get((dataset, m)) is None]
        if methods and not missing:
            complete.append(dataset)
        else:
            names = ", ".join(missing) or "any method"
            left_out.append(f"{dataset} (no {metric} of {names})")
    greater = greater_is_better(metric, run)
    table = []
    for dataset in complete:
        # A metric of the opposite direction is negated, so that one rule ranks all
        # rows.
        metric_of_row = other_metrics.get(dataset, metric)
        sign = 1.0
        if greater_is_better(metric_of_row, run) != greater:
            sign = -1.0
        table.append([sign * float(values[dataset, m] or 0.0) for m in methods])
    return Ranking(
        label=label,
        metric=metric,
        blocks=complete,
        methods=methods,
        values=table,
        greater=greater,
        control=settings.control,
        significance=settings.significance,
        left_out=left_out,
        own={d: other_metrics[d] for d in complete if d in other_metrics},
    )


def group_section(group: Ranking) -> Section:
    """Return a section with the ranks and tests of a group."""
    section = Section(f"Ranks and tests: {group.label}")
    section.lines.append(
        f"Ranks by {group.metric} over {len(group.blocks)} data sets (1 is best)."
    )
    if group.own:
        pairs = [f"{dataset} by {metric}" for dataset, metric in group.own.items()]
        section.lines.append(f"Ranked by their own metrics: {'; '.join(pairs)}.")
    section.lines += _friedman_lines(group)
    if group.left_out:
        section.lines.append(f"Not ranked: {'; '.join(group.left_out)}.")
    method_columns = [Column(method, "seconds") for method in group.methods]
    ranks = ReportTable([Column("dataset"), *method_columns])
    for dataset, row in zip(group.blocks, group.ranks, strict=True):
        ranks.rows.append([dataset, *map(float, row)])
    ranks.rows.append(["average rank", *group.average.values()])
    section.grids.append(ranks)
    if group.tests:
        verb = "rank"
        if len(group.tests) == 1:
            verb = "ranks"
        section.lines.append(
            f"Holm's test against {group.control} at level {group.significance:g} "
            "(two-sided, normal approximation of the average ranks): "
            f"{len(group.worse)} of {counted(len(group.tests), 'method')} "
            f"{verb} significantly worse."
        )
        table = ReportTable.of(
            "method",
            "z:seconds",
            "p:small",
            "p (Holm):small",
            "alpha (Holm):small",
            "rejected",
        )
        for method, test in group.tests:
            rejected = "yes" if test.rejected else "no"
            table.rows.append(
                [method, test.z, test.pvalue, test.adjusted, test.alpha, rejected]
            )
        section.grids.append(table)
    return section


def _friedman_lines(ranking: Ranking) -> list[str]:
    """Return Friedman's test in both forms as text; nothing for a single block."""
    test = ranking.friedman
    if test is None:
        return []
    chi2 = show(test.chi2, "seconds")
    chi2_p = show(test.chi2_pvalue, "small")
    text = f"Friedman: chi2 = {chi2}, p = {chi2_p}"
    if math.isinf(test.f):
        return [f"{text}; every block ranks the methods alike."]
    f = show(test.f, "seconds")
    f_p = show(test.f_pvalue, "small")
    return [f"{text}; Iman-Davenport: F = {f}, p = {f_p}."]


# ------------------------------------------------------------ all other experiments


def rank_methods(run: Run, rows: Sequence[MethodResult]) -> Ranking | None:
    """Rank the methods by the main metric.

    The blocks are data sets, or the splits if there is only one data set. Methods that
    lack a number in some block are left out.

    Returns
    -------
    Ranking or None
        None with fewer than three methods, for analyses, and for experiments with a
        section `statistics`, which have rankings of their own.
    """
    if run.spec.is_analysis or run.spec.statistics:
        return None
    metric = run.spec.metrics[0]
    with_values = {row.dataset for row in rows if row.value(metric) is not None}
    datasets = [dataset for dataset in run.datasets if dataset in with_values]
    values: list[tuple[Any, str, float | None]] = []
    blocks: list[Any]
    if len(datasets) > 1:
        for row in rows:
            values.append((row.dataset, row.method, row.value(metric)))
        blocks = datasets
        label = f"{len(datasets)} data sets"
        if run.spec.sweep:
            label = f"{len(datasets)} settings"
    else:
        for row in rows:
            if row.dataset in with_values:
                for trial, value in row.by_trial(metric).items():
                    values.append((trial, row.method, value))
        blocks = sorted({trial for trial, _, _ in values})
        dataset = "nothing"
        if datasets:
            dataset = datasets[0]
        label = f"{counted(len(blocks), 'split')} of {dataset}"
    long_table = pd.DataFrame(values, columns=["block", "method", "value"])
    table = long_table.pivot(columns="method", index="block", values="value")
    table = table.reindex(index=blocks, columns=run.methods)
    table = table.astype(float).dropna(axis=1)
    if table.shape[1] < MIN_METHODS or not blocks:
        return None
    return Ranking(
        label=label,
        metric=metric,
        blocks=list(map(str, blocks)),
        methods=list(table),
        values=table.values.tolist(),
        greater=greater_is_better(metric),
    )


def comparison_section(run: Run, rows: Sequence[MethodResult]) -> Section:
    """Return average ranks, and paired tests on each data set.

    The tests compare with the baseline, or with the best method if it is not ranked.
    """
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
    control = order[0][0]
    if run.baseline in ranking.methods:
        control = run.baseline
    tests = _pairwise_table(run, rows, ranking.metric, control)
    if tests.rows:
        section.lines.append(
            f"Two-sided Wilcoxon signed-rank tests of {ranking.metric} against "
            f"{control}, corrected by Holm's method within each data set and unit; "
            "wins are wins-losses-ties."
        )
        section.grids.append(tests)
    return section


def _pairwise_table(
    run: Run, rows: Sequence[MethodResult], metric: str, control: str
) -> ReportTable:
    table = ReportTable.of(
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
        control_row = None
        others = []
        for row in rows:
            if row.dataset == dataset and row.method == control:
                control_row = row
            elif row.dataset == dataset:
                others.append(row)
        if control_row is None:
            continue
        for unit in ("trial", "task"):
            methods: list[str] = []
            tests: list[PairedTest] = []
            pvalues: list[float] = []
            for row in others:
                test = paired(row, control_row, metric, unit)
                if test is not None and test.pvalue is not None:
                    methods.append(row.method)
                    tests.append(test)
                    pvalues.append(test.pvalue)
            adjusted = map(float, holm(pvalues))
            results = zip(methods, tests, pvalues, adjusted, strict=True)
            for method, test, pvalue, adjusted_pvalue in results:
                wins = f"{test.wins}-{test.losses}-{test.ties}"
                table.rows.append(
                    [
                        dataset,
                        method,
                        unit,
                        test.mean_difference,
                        wins,
                        test.n,
                        pvalue,
                        adjusted_pvalue,
                    ]
                )
    return table


# --------------------------------------------------------------------- paired tests


def paired(
    a: MethodResult,
    b: MethodResult,
    quantity: str,
    unit: str = "trial",
    test: Kind = "wilcoxon",
    ties: float = 0.0,
) -> PairedTest | None:
    """Test method a against method b on the splits, or the tasks, that both have.

    Parameters
    ----------
    a, b : MethodResult
        Results on the same data set.
    quantity : str
        Metric; for the unit "trial" any quantity.
    unit : {"trial", "task"}
        What is paired. Values of a task are averaged over the splits first.
    test : {"wilcoxon", "t", "corrected_t"}
    ties : float, default=0.0
        Values that differ by at most this count as equal.

    Returns
    -------
    PairedTest or None
        None with a single split, which has no spread between splits.
    """
    values_a = a.by_trial(quantity)
    values_b = b.by_trial(quantity)
    trials = [trial for trial in values_a if trial in values_b]
    if len(trials) < MIN_BLOCKS:
        return None
    first: list[float] = []
    second: list[float] = []
    if unit == "task":
        means_a = _task_means(a, quantity, trials)
        means_b = _task_means(b, quantity, trials)
        if len(means_a) != len(means_b):
            return None
        for mean_a, mean_b in zip(means_a, means_b, strict=True):
            if mean_a is not None and mean_b is not None:
                first.append(mean_a)
                second.append(mean_b)
    else:
        for trial in trials:
            first.append(values_a[trial])
            second.append(values_b[trial])
    n_train = fmean(a.counts("n_train") or [1])
    n_test = fmean(a.counts("n_test") or [1])
    return paired_test(
        first, _with_ties(first, second, ties), test, test_over_train=n_test / n_train
    )


def _task_means(
    row: MethodResult, quantity: str, trials: Sequence[int]
) -> list[float | None]:
    tasks = row.tasks(quantity)
    return task_means([tasks.get(trial, []) for trial in trials])


def _with_ties(a: ArrayLike, b: ArrayLike, ties: float) -> np.ndarray:
    """Return b, with the values of a where the two differ by at most `ties`."""
    first = np.asarray(a, dtype=float)
    second = np.asarray(b, dtype=float)
    return np.where(np.abs(first - second) <= ties, first, second)


def paired_predictions(
    run: Run, dataset: str, a: str, b: str, test: Kind = "wilcoxon", ties: float = 0.0
) -> list[PairedTest]:
    """Test the stored test scores of method a against the scores of b, split by split.

    Parameters
    ----------
    run : Run
    dataset, a, b : str
        Labels.
    test : {"wilcoxon", "t"}
    ties : float, default=0.0
        Scores that differ by at most this count as equal, so that the tolerance of a
        solver does not decide the test.

    Returns
    -------
    list of PairedTest
        One per split for which both methods have scores of the same shape, or for which
        the packed records hold this test. A pair is a score of one test row and task.
    """
    records = {}
    for planned in run.planned:
        is_selected = planned.dataset == dataset and planned.method in (a, b)
        if is_selected and planned.key in run.records:
            records[planned.method, planned.trial] = run.records[planned.key]
    tests = []
    stored = Store.of_run(run.folder)
    for trial in sorted({trial for _, trial in records}):
        if (a, trial) not in records or (b, trial) not in records:
            continue
        record_a = records[a, trial]
        record_b = records[b, trial]
        key = (record_a.key, record_b.key, test, float(ties))
        first = stored.read_scores(record_a)
        second = stored.read_scores(record_b)
        if first is not None and second is not None and first.shape == second.shape:
            tied = _with_ties(first, second, ties)
            # Packing the records keeps this test in place of the scores.
            run.paired[key] = paired_test(first.ravel(), tied.ravel(), test)
        if key in run.paired:
            tests.append(run.paired[key])
    return tests
