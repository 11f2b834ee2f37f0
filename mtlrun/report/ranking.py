"""The section `statistics` of an experiment: ranks, Friedman's test, Holm's test against a control (Demsar 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mtlrun.report.checks import ALL_DATA, AVERAGE_RANK, as_list
from mtlrun.report.comparison import friedman_text, greater_is_better
from mtlrun.report.folder import Run
from mtlrun.report.table import Row
from mtlrun.report.text import Column, Grid, Section, show
from mtlrun.stats import FriedmanTest, control_pvalues, friedman, holm, rank_table

SIGNIFICANCE = 0.05
MIN_DATA, MIN_METHODS = 2, 2


@dataclass(frozen=True)
class Group:
    """Data sets over which methods are ranked: all of them, or all at one value of the axis of a sweep.

    Attributes
    ----------
    label : str
        ``all data sets`` or ``<axis> <value>``.
    metric : str
    settings : list of str
        Labels of the data sets that are ranked.
    methods : list of str
    values : list of list of float
        A row per data set, a column per method.
    better : bool
        Whether greater values are better.
    control : str or None
        Method that the others are compared with.
    significance : float
    left_out : list of str
        Why data sets or methods are not ranked.
    own : dict of str to str
        Data sets that do not have `metric` -> the first of their own metrics, by which they are ranked.
    """

    label: str
    metric: str
    settings: list[str]
    methods: list[str]
    values: list[list[float]]
    better: bool
    control: str | None
    significance: float
    left_out: list[str]
    own: dict[str, str] = field(default_factory=dict)

    @cached_property
    def ranks(self) -> np.ndarray:
        """Ranks of shape (data sets, methods): 1 is best, ties share the mean of their ranks."""
        return rank_table(self.values, greater_is_better=self.better)

    @cached_property
    def average(self) -> dict[str, float]:
        """Average rank of every method."""
        return dict(zip(self.methods, map(float, self.ranks.mean(axis=0)), strict=True))

    @property
    def friedman(self) -> FriedmanTest:
        """Friedman's test."""
        return friedman(self.values)

    @cached_property
    def tests(self) -> list[HolmTest]:
        """Every method against the control, smallest p-value first; empty without a control."""
        if self.control not in self.methods:
            return []
        at = self.methods.index(self.control)
        raw = control_pvalues(self.values, at, greater_is_better=self.better)
        adjusted = holm(raw)
        n, k = len(self.values), len(self.methods)
        error = (k * (k + 1) / (6.0 * n)) ** 0.5
        order = sorted((i for i in range(k) if i != at), key=lambda i: (raw[i], i))
        found = []
        for place, i in enumerate(order):
            z = (self.average[self.methods[i]] - self.average[self.control]) / error
            alpha = self.significance / (len(order) - place)
            rejected = bool(adjusted[i] <= self.significance)
            found.append(HolmTest(self.methods[i], z, float(raw[i]), float(adjusted[i]), alpha, rejected))
        return found

    @property
    def rejections(self) -> int:
        """How many methods rank significantly worse than the control."""
        return sum(test.rejected and test.z > 0 for test in self.tests)


@dataclass(frozen=True)
class HolmTest:
    """A method against the control: z = (R - R_control) / sqrt(k (k + 1) / (6 n)) and its two-sided normal p-value.

    Attributes
    ----------
    method : str
    z, pvalue : float
    adjusted : float
        Holm's adjusted p-value.
    alpha : float
        Level that the p-value itself is compared with in Holm's steps.
    rejected : bool
    """

    method: str
    z: float
    pvalue: float
    adjusted: float
    alpha: float
    rejected: bool


def rank_groups(run: Run, rows: Sequence[Row]) -> list[Group]:
    """Return the groups of data sets of an experiment with the section `statistics`, those that can be ranked."""
    wanted = run.config.get("statistics") or {}
    if not wanted:
        return []
    metric = str(wanted.get("metric") or run.metrics[0])
    groups = [_group(run, rows, wanted, metric, label, names) for label, names in group_labels(run).items()]
    return [g for g in groups if len(g.values) >= MIN_DATA and len(g.methods) >= MIN_METHODS]


def group_labels(run: Run) -> dict[str, list[str]]:
    """Return the labels of the data sets by group."""
    found: dict[str, list[str]] = {}
    name = (run.config.get("sweep") or {}).get("name")
    for label, facts in run.datasets.items():
        axis = facts.get("axis")
        found.setdefault(f"{name} {show(axis['value'])}" if axis else ALL_DATA, []).append(label)
    return found


def rank_rows(groups: Sequence[Group]) -> list[Row]:
    """Return rows of the quantity `average_rank`: the groups are their data sets."""
    rows = []
    for group in groups:
        n = len(group.settings)
        for method, rank in group.average.items():
            rows.append(Row(group.label, method, "ok", n, n, n, samples={AVERAGE_RANK: {0: rank}}))
    return rows


def statistics_sections(groups: Sequence[Group]) -> list[Section]:
    """Return the ranks and the tests, a section per group."""
    return [_section(group) for group in groups]


def _group(run: Run, rows: Sequence[Row], wanted: dict[str, Any], metric: str, label: str, names: list[str]) -> Group:
    own = _own_metrics(run, metric)
    table = {(r.dataset, r.method): r.value(own.get(r.dataset, metric)) for r in rows}
    measured = [m for m in run.methods if any(table.get((d, m)) is not None for d in names)]
    whole = [d for d in names if measured and all(table.get((d, m)) is not None for m in measured)]
    left_out = [f"{m} (no {metric} on any data set)" for m in run.methods if m not in measured]
    for name in names:
        if name not in whole:
            lacking = [m for m in measured if table.get((name, m)) is None]
            left_out.append(f"{name} (no {metric} of {', '.join(lacking) or 'any method'})")
    better = greater_is_better(metric, run)
    signs = {d: 1.0 if greater_is_better(own.get(d, metric), run) == better else -1.0 for d in whole}
    values = [[signs[d] * float(table[d, m] or 0.0) for m in measured] for d in whole]
    control, level = wanted.get("control"), float(wanted.get("significance") or SIGNIFICANCE)
    by_own = {d: own[d] for d in whole if d in own}
    return Group(label, metric, whole, measured, values, better, control, level, left_out, by_own)


def _own_metrics(run: Run, metric: str) -> dict[str, str]:
    """Return the first metric of the data sets that have metrics of their own without `metric`, by label."""
    entries = [entry for entry in as_list(run.config.get("datasets")) if isinstance(entry, dict)]
    own = {str(e.get("label") or e.get("id")): as_list(e.get("metrics")) for e in entries if e.get("metrics")}
    found = {}
    for label, facts in run.datasets.items():
        metrics = own.get(str((facts.get("axis") or {}).get("of", label)), [metric])
        if metric not in metrics:
            found[label] = str(metrics[0])
    return found


def _section(group: Group) -> Section:
    section = Section(f"Ranks and tests: {group.label}")
    section.lines.append(f"Ranks by {group.metric} over {len(group.settings)} data sets (1 is best).")
    if group.own:
        named = "; ".join(f"{dataset} by {metric}" for dataset, metric in group.own.items())
        section.lines.append(f"Ranked by metrics of their own: {named}.")
    section.lines.append(friedman_text(group.friedman))
    if group.left_out:
        section.lines.append(f"Not ranked: {'; '.join(group.left_out)}.")
    ranks = Grid([Column("dataset"), *(Column(m, "seconds") for m in group.methods)])
    ranks.rows = [[d, *map(float, row)] for d, row in zip(group.settings, group.ranks, strict=True)]
    ranks.rows.append(["average rank", *group.average.values()])
    section.grids.append(ranks)
    if group.tests:
        section.lines.append(
            f"Holm's test against {group.control} at {group.significance:g} (two-sided, normal approximation of the "
            f"average ranks): {group.rejections} of {len(group.tests)} methods rank significantly worse."
        )
        columns = [Column("method"), Column("z", "seconds"), Column("p", "small"), Column("p (Holm)", "small")]
        grid = Grid([*columns, Column("alpha (Holm)", "small"), Column("rejected")])
        grid.rows = [[t.method, t.z, t.pvalue, t.adjusted, t.alpha, "yes" if t.rejected else "no"] for t in group.tests]
        section.grids.append(grid)
    return section
