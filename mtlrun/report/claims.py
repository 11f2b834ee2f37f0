"""What the paper claims, and what the numbers of a run say about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any

from mtlrun.errors import counted
from mtlrun.report.checks import (
    ALL_DATA,
    AVERAGE_RANK,
    CHOICES,
    CONFIRMED,
    NOT_CONFIRMED,
    NOT_TESTABLE,
    PARTLY,
    PREDICTION,
    as_list,
)
from mtlrun.report.comparison import paired, paired_predictions
from mtlrun.report.folder import Run
from mtlrun.report.ranking import Group, rank_rows
from mtlrun.report.table import Row
from mtlrun.report.text import Column, Grid, Section, show, significant


@dataclass(frozen=True)
class Finding:
    """One comparison of one check on one data set.

    Attributes
    ----------
    text : str
        What was compared, with the number found and the bound.
    holds : bool or None
        None when it cannot be tested here.
    found : float or None
        The number found.
    why : str or None
        Why it cannot be tested.
    """

    text: str
    holds: bool | None
    found: float | None = None
    why: str | None = None


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim with its verdict.

    Attributes
    ----------
    id, text : str
    where : str or None
        Table or figure of the paper.
    verdict : str
        One of `mtlrun.report.checks.VERDICTS`.
    why : str
        The reason in one line.
    expect : str
        Verdict that the experiment expects.
    findings : list of Finding
    """

    id: str
    text: str
    where: str | None
    verdict: str
    why: str
    expect: str = CONFIRMED
    findings: list[Finding] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Whether `--check` is content: nothing here speaks against the claim, or that was expected."""
        return self.verdict == self.expect or not any(f.holds is False for f in self.findings)


def judge_claims(run: Run, rows: Sequence[Row], groups: Sequence[Group] = ()) -> list[ClaimVerdict]:
    """Judge every claim of the experiment on the rows of the table and the groups of the section `statistics`."""
    return [judge(claim, run, rows, groups) for claim in as_list(run.config.get("claims"))]


def tests_section(run: Run, claims: Sequence[ClaimVerdict]) -> Section:
    """Return every comparison behind the claims of an experiment of the kind ``test``, a line each; else nothing."""
    section = Section("Tests")
    if run.info.get("kind") != "test":
        return section
    grid = Grid([Column("claim"), Column("comparison"), Column("found", "small"), Column("holds")])
    for claim in claims:
        for finding in claim.findings:
            text = finding.text if finding.why is None else f"{finding.text}: {finding.why}"
            holds = "not tested" if finding.holds is None else "yes" if finding.holds else "no"
            grid.rows.append([claim.id, text, finding.found, holds])
    section.grids.append(grid)
    return section


def judge(claim: Mapping[str, Any], run: Run, rows: Sequence[Row], groups: Sequence[Group] = ()) -> ClaimVerdict:
    """Judge one claim.

    Confirmed when every comparison holds, not confirmed when none does, partly when some do (or the others cannot be
    tested), not testable here when there is nothing to compare.
    """
    reason = claim.get("not_testable")
    checks = [] if reason else as_list(claim.get("checks"))
    findings = [finding for check in checks for finding in evaluate(check, run, rows, groups)]
    tested = [f for f in findings if f.holds is not None]
    good = [f for f in tested if f.holds]
    if not tested:
        verdict = NOT_TESTABLE
        why = reason or "; ".join(dict.fromkeys(f.why for f in findings if f.why)) or "the claim has no checks"
    else:
        verdict = CONFIRMED if len(good) == len(findings) else PARTLY if good else NOT_CONFIRMED
        why = _summary(findings, tested, good)
    return ClaimVerdict(
        str(claim["id"]),
        str(claim["text"]),
        claim.get("where"),
        verdict,
        why,
        claim.get("expect") or CONFIRMED,
        findings,
    )


def evaluate(check: Mapping[str, Any], run: Run, rows: Sequence[Row], groups: Sequence[Group] = ()) -> list[Finding]:
    """Evaluate one check on every data set (or group of them), pair of methods and task that it names."""
    ranked = check["kind"] == "rejections" or check.get("quantity") == AVERAGE_RANK
    table = {(r.dataset, r.method): r for r in (rank_rows(groups) if ranked else rows)}
    findings = []
    for dataset, why in _groups(check, run, groups) if ranked else _datasets(check, run):
        if why is not None:
            findings.append(Finding(_title(check, dataset), None, why=why))
        elif check["kind"] == "rejections":
            findings.append(_rejections(check, next(g for g in groups if g.label == dataset)))
        else:
            for methods, task in product(_method_tuples(check), as_list(check.get("task")) or [None]):
                findings.append(_on_methods(check, run, dataset, methods, task, table))
    return findings


def _on_methods(
    check: Mapping[str, Any],
    run: Run,
    dataset: str,
    methods: tuple[str, ...],
    task: str | None,
    table: Mapping[tuple[str, str], Row],
) -> Finding:
    group = [table.get((dataset, m)) for m in methods]
    if check.get("unit") == PREDICTION:
        return _on_predictions(check, run, dataset, methods)
    where = dataset
    if task is not None:
        where = f"{dataset}, {task}"
        unknown = next((row for row in group if row is not None and task not in row.task_names), None)
        if unknown is not None:
            return Finding(_title(check, where, methods), None, why=f"no task {task!r} is known of {dataset}")
        group = [row and row.of_task(task) for row in group]
    lacking = _lacking(check["quantity"], where, methods, group)
    if lacking:
        return Finding(_title(check, where, methods), None, why=lacking)
    return _finding(check, where, [r for r in group if r is not None])


def _on_predictions(check: Mapping[str, Any], run: Run, dataset: str, methods: tuple[str, ...]) -> Finding:
    """Test the kept scores split by split; the split that speaks most against the bound decides."""
    title = _title(check, dataset, methods)
    tests = paired_predictions(run, dataset, methods[0], methods[1], check.get("test") or CHOICES["test"][0])
    values = [t.pvalue for t in tests if t.pvalue is not None]
    if not values:
        return Finding(title, None, why=f"no predictions of {' and '.join(methods)} on {dataset} were kept")
    lowest = check.get("at_least") is not None
    found = min(values) if lowest else max(values)
    holds = all(_within(check, value) for value in values)
    splits = f"{counted(len(values), 'split')} of up to {counted(max(t.n for t in tests), 'pair')}"
    text = f"{title}: {'smallest' if lowest else 'largest'} p {show(found, 'small')} of {splits} ({_bounds(check)})"
    return Finding(text, holds, found)


def _rejections(check: Mapping[str, Any], group: Group) -> Finding:
    control = str(check["control"])
    title = _title(check, f"{group.label} ({len(group.settings)} data sets)")
    tests = replace(group, control=control)
    if not tests.tests:
        return Finding(title, None, why=f"{control} has no rank")
    found = tests.rejections
    return Finding(f"{title}: {found} of {len(tests.tests)} ({_bounds(check)})", _within(check, found), float(found))


def _groups(check: Mapping[str, Any], run: Run, groups: Sequence[Group]) -> Iterator[tuple[str, str | None]]:
    """Yield the labels of the groups of data sets to look at, or a name with the reason why it cannot be looked at."""
    ranked = [g.label for g in groups]
    place, why = next(_datasets({}, run), ("", None))
    for name in as_list(check.get("dataset")) or ranked or [ALL_DATA]:
        if why is not None:
            yield place, why
            return
        yield name, None if name in ranked else f"{name}: fewer than two data sets with a number of every method"


def _datasets(check: Mapping[str, Any], run: Run) -> Iterator[tuple[str, str | None]]:
    """Yield the labels of the data sets to look at, or a name with the reason why it cannot be looked at."""
    ran = run.datasets
    profile = f"profile {run.profile}" if run.profile else "this run"
    have = run.names_of_data
    named = as_list(check.get("dataset"))
    wanted = named or as_list(run.info.get("paper_datasets")) or list(ran)
    found = False
    for name in wanted:
        labels = [label for label, facts in ran.items() if name in (label, facts.get("id"))]
        found = found or bool(labels)
        yield from ((label, None) for label in labels)
        if not labels and named:
            yield name, f"data set {name} is not in this run ({profile}: {have})"
    if not named and not found:
        simulated = " (simulated)" if ran and all(f.get("simulated") for f in ran.values()) else ""
        yield "the paper's data", f"none of the paper's data sets is in this run ({profile}: {have}{simulated})"


def _method_tuples(check: Mapping[str, Any]) -> list[tuple[str, ...]]:
    if check["kind"] == "order":
        return list(pairwise(check["methods"]))
    if check["kind"] == "value":
        return [(m,) for m in as_list(check["of"])]
    return list(product(as_list(check["of"]), as_list(check["over"])))


def _lacking(quantity: str, dataset: str, methods: tuple[str, ...], group: Sequence[Row | None]) -> str | None:
    for method, row in zip(methods, group, strict=True):
        if row is None:
            return f"{method} was not run on {dataset}"
        if row.value(quantity) is None:
            return f"no {quantity} of {method} on {dataset} ({row.status_text})"
    return None


def _finding(check: Mapping[str, Any], dataset: str, group: list[Row]) -> Finding:
    """Compare rows that have a number each."""
    title = _title(check, dataset, tuple(r.method for r in group))
    values = [r.value(check["quantity"]) or 0.0 for r in group]
    short = next((f", from {r.n} of {r.planned} splits" for r in group if r.n < r.planned), "")
    kind = check["kind"]
    if kind == "order":
        increasing = (check.get("direction") or CHOICES["direction"][0]) == "increasing"
        holds = values[0] < values[1] if increasing else values[0] > values[1]
        sign = "<" if increasing else ">"
        text = f"{title}: {significant(values[0], 4)} {sign} {significant(values[1], 4)}{short}"
        return Finding(text if holds else text.replace(f" {sign} ", f" not {sign} "), holds, values[1] - values[0])
    if kind == "paired":
        unit, test = check.get("unit") or CHOICES["unit"][0], check.get("test") or CHOICES["test"][0]
        result = paired(group[0], group[1], check["quantity"], unit, test)
        if result is None or result.pvalue is None:
            return Finding(title, None, why="a single split gives no p-value")
        found = result.pvalue
    elif kind == "ratio":
        if values[1] == 0:
            return Finding(title, None, why=f"{check['quantity']} of {group[1].method} on {dataset} is 0")
        found = values[0] / values[1]
    else:
        found = values[0] - values[1] if kind == "difference" else values[0]
    return Finding(f"{title}: {show(found, _NUMBER[kind])} ({_bounds(check)}){short}", _within(check, found), found)


_NUMBER = {"ratio": "seconds", "difference": "score", "value": "score", "paired": "small"}


def _within(check: Mapping[str, Any], found: float) -> bool:
    low, high = check.get("at_least"), check.get("at_most")
    return (low is None or found >= low) and (high is None or found <= high)


def _bounds(check: Mapping[str, Any]) -> str:
    names = {"at_least": "at least", "at_most": "at most"}
    return " and ".join(f"{text} {check[key]:g}" for key, text in names.items() if check.get(key) is not None)


def _title(check: Mapping[str, Any], dataset: str, methods: tuple[str, ...] = ()) -> str:
    """Say what a check compares."""
    kind = check["kind"]
    if kind == "rejections":
        return f"methods that rank significantly worse than {check['control']} on {dataset}"
    quantity = check.get("quantity") or "predictions"
    names = methods or tuple(", ".join(as_list(check.get(k))) for k in ("of", "over", "methods") if check.get(k))
    joined = {"ratio": " / ", "difference": " - ", "paired": " against ", "order": ", "}.get(kind, "")
    prefix = "p of " if kind == "paired" else ""
    unit = f" by {check.get('unit') or CHOICES['unit'][0]}" if kind == "paired" else ""
    return f"{prefix}{quantity} of {joined.join(names)}{unit} on {dataset}"


def _summary(findings: list[Finding], tested: list[Finding], good: list[Finding]) -> str:
    """Say in one line what was found; a single comparison is quoted."""
    bad = [f for f in tested if not f.holds]
    if len(findings) == 1:
        return findings[0].text
    parts = [f"{len(good)} of {len(tested)} comparisons hold"]
    if bad:
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        parts.append("against it: " + "; ".join(f.text for f in bad[:3]) + more)
    if len(tested) < len(findings):
        reasons = dict.fromkeys(f.why for f in findings if f.why)
        parts.append("not tested: " + "; ".join(str(r) for r in reasons))
    return "; ".join(parts)
