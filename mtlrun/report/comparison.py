"""Comparisons of methods: paired tests over splits or tasks, average ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mtlrun.errors import counted
from mtlrun.metricfacts import METRIC_FACTS
from mtlrun.record import Records
from mtlrun.report.folder import Run
from mtlrun.report.predictions import read_scores
from mtlrun.report.table import Row, mean
from mtlrun.report.text import Column, Grid, Section, show
from mtlrun.stats import FriedmanTest, PairedTest, average_ranks, friedman, holm, paired_test

#: A test of fewer pairs cannot give a p-value worth printing.
MIN_SPLITS = 2
MIN_METHODS = 3


@dataclass(frozen=True)
class Ranking:
    """Average ranks of the methods.

    Attributes
    ----------
    metric : str
    methods : list of str
    ranks : list of float
        1 is best.
    blocks : str
        What was ranked within: ``3 data sets`` or ``5 splits of enron``.
    test : FriedmanTest or None
        None for a single block.
    values : list of list of float
        A row per block, a column per method.
    better : bool
        Whether greater values are better.
    """

    metric: str
    methods: list[str]
    ranks: list[float]
    blocks: str
    test: FriedmanTest | None
    values: list[list[float]]
    better: bool


def greater_is_better(metric: str, run: Run | None = None) -> bool:
    """Tell the direction of a metric, or of a quantity of the measures of a run; an unknown one is taken as a score."""
    told = run.quantities.get(metric, {}).get("greater_is_better") if run is not None else None
    if told is not None:
        return bool(told)
    return METRIC_FACTS[metric].greater_is_better if metric in METRIC_FACTS else True


def paired(a: Row, b: Row, quantity: str, unit: str = "trial", test: str = "wilcoxon") -> PairedTest | None:
    """Test a against b on the splits, or the tasks, that both have.

    Parameters
    ----------
    a, b : Row
        Same data set.
    quantity : str
        Metric, or for unit "trial" any quantity.
    unit : {"trial", "task"}
        Values of a task are averaged over the splits first.
    test : {"wilcoxon", "t", "corrected_t"}

    Returns
    -------
    PairedTest or None
        None with a single split, which carries no evidence about the spread between splits.
    """
    trials = [t for t in a.samples.get(quantity, {}) if t in b.samples.get(quantity, {})]
    if len(trials) < MIN_SPLITS:
        return None
    if unit == "task":
        first, second = _task_means(a, quantity, trials), _task_means(b, quantity, trials)
        if len(first) != len(second):
            return None
        pairs = [(x, y) for x, y in zip(first, second, strict=True) if x is not None and y is not None]
    else:
        pairs = [(a.samples[quantity][t], b.samples[quantity][t]) for t in trials]
    left, right = [x for x, _ in pairs], [y for _, y in pairs]
    if test == "corrected_t":
        return paired_test(left, right, "corrected_t", test_over_train=_test_over_train(a))
    return paired_test(left, right, "t" if test == "t" else "wilcoxon")


def paired_predictions(run: Run, dataset: str, a: str, b: str, test: str = "wilcoxon") -> list[PairedTest]:
    """Test the kept test scores of method a against those of b, every split by itself.

    Parameters
    ----------
    run : Run
    dataset, a, b : str
        Labels.
    test : {"wilcoxon", "t"}

    Returns
    -------
    list of PairedTest
        One per split of which both have scores of one shape; a pair is one score of one test row (and task).
    """
    keys = {(c.method, c.trial): c.key for c in run.planned if c.dataset == dataset and c.method in (a, b)}
    tests, stored = [], Records.of_run(run.folder)
    for trial in sorted({trial for _, trial in keys}):
        if (a, trial) in keys and (b, trial) in keys:
            first, second = (read_scores(stored, keys[method, trial]) for method in (a, b))
            if first is not None and second is not None and first.shape == second.shape:
                tests.append(paired_test(first.ravel(), second.ravel(), "t" if test == "t" else "wilcoxon"))
    return tests


def rank_methods(run: Run, rows: Sequence[Row]) -> Ranking | None:
    """Rank the methods by the main metric, within data sets, or within splits when there is one data set only.

    Methods without a number in every block are left out. None with fewer than three methods left.
    """
    if not run.metrics or run.measures or run.config.get("statistics"):
        return None  # measurements are not ranked, and `statistics` has its own sections
    metric = run.metrics[0]
    datasets = [d for d in run.datasets if any(r.dataset == d and r.value(metric) is not None for r in rows)]
    values: dict[str, list[float | None]]
    if len(datasets) > 1:
        cells = {(r.dataset, r.method): r.value(metric) for r in rows}
        values = {m: [cells.get((d, m)) for d in datasets] for m in run.methods}
        blocks = f"{len(datasets)} {'settings' if run.config.get('sweep') else 'data sets'}"
    else:
        trials = sorted({t for r in rows for t in r.samples.get(metric, {})})
        values = {r.method: [r.samples.get(metric, {}).get(t) for t in trials] for r in rows if r.dataset in datasets}
        blocks = f"{counted(len(trials), 'split')} of {datasets[0] if datasets else 'nothing'}"
    complete = {m: v for m, v in values.items() if v and None not in v}
    if len(complete) < MIN_METHODS:
        return None
    table = [[float(v) for v in row if v is not None] for row in zip(*complete.values(), strict=True)]
    better = greater_is_better(metric)
    ranks = [float(r) for r in average_ranks(table, greater_is_better=better)]
    test = friedman(table) if len(table) >= MIN_SPLITS else None
    return Ranking(metric, list(complete), ranks, blocks, test, table, better)


def comparison_section(run: Run, rows: Sequence[Row]) -> Section:
    """Return average ranks and paired tests against the baseline (else the best method), data set by data set."""
    section = Section("Comparison of methods")
    ranking = rank_methods(run, rows)
    if ranking is None:
        return section
    order = sorted(zip(ranking.ranks, ranking.methods, strict=True), key=lambda pair: pair[0])
    section.lines.append(
        f"Average ranks by {ranking.metric} over {ranking.blocks} (1 is best). "
        "Splits of one data set share rows: tests over them are optimistic."
    )
    if ranking.test is not None:
        section.lines.append(friedman_text(ranking.test))
    section.grids.append(Grid([Column("method"), Column("average rank", "seconds")], [[m, r] for r, m in order]))
    control = run.baseline if run.baseline in ranking.methods else order[0][1]
    grid = _pairwise_grid(run, rows, ranking.metric, control)
    if grid.rows:
        section.lines.append(
            f"Two-sided signed-rank tests of {ranking.metric} against {control}; "
            "Holm's correction within a data set and unit."
        )
        section.grids.append(grid)
    return section


def friedman_text(test: FriedmanTest) -> str:
    """Write Friedman's test in both forms."""
    text = f"Friedman: chi2 = {show(test.chi2, 'seconds')}, p = {show(test.chi2_pvalue, 'small')}"
    if math.isinf(test.f):
        return f"{text}; every block ranks the methods alike."
    return f"{text}; Iman-Davenport: F = {show(test.f, 'seconds')}, p = {show(test.f_pvalue, 'small')}."


def _pairwise_grid(run: Run, rows: Sequence[Row], metric: str, control: str) -> Grid:
    columns = [
        Column("dataset"),
        Column("method"),
        Column("unit"),
        Column("difference", "score"),
        Column("wins"),
        Column("pairs", "count"),
        Column("p", "small"),
        Column("p (Holm)", "small"),
    ]
    grid = Grid(columns)
    for dataset in run.datasets:
        group = [r for r in rows if r.dataset == dataset]
        base = next((r for r in group if r.method == control), None)
        for unit in ("trial", "task"):
            if base is None:
                continue
            tests = [(r.method, paired(r, base, metric, unit)) for r in group if r is not base]
            found = [(m, t, t.pvalue) for m, t in tests if t is not None and t.pvalue is not None]
            adjusted = [float(p) for p in holm([p for *_, p in found])]
            for (method, t, pvalue), corrected in zip(found, adjusted, strict=True):
                wins = f"{t.wins}-{t.losses}-{t.ties}"
                grid.rows.append([dataset, method, unit, t.mean_difference, wins, t.n, pvalue, corrected])
    return grid


def _task_means(row: Row, metric: str, trials: Sequence[int]) -> list[float | None]:
    """Average every task over the trials where it is defined."""
    lists = [row.tasks.get(metric, {}).get(t, []) for t in trials]
    if len({len(values) for values in lists}) != 1:
        return []
    means: list[float | None] = []
    for values in zip(*lists, strict=True):
        defined = [v for v in values if v is not None]
        means.append(mean(defined) if defined else None)
    return means


def _test_over_train(row: Row) -> float:
    train, test = row.counts.get("n_train") or [1], row.counts.get("n_test") or [1]
    return mean(test) / mean(train)
