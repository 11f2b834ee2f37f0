"""What the paper claims and prints, and what the numbers of a run say about it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any

from mtlrun.errors import counted
from mtlrun.report.checks import ALL_DATA, AVERAGE_RANK, CHOICES, PREDICTION, REFERENCE_SOURCES, Verdict, as_list
from mtlrun.report.grid import Column, Grid, Section, show, significant
from mtlrun.report.run import Row, Run
from mtlrun.report.statistics import Ranking, paired, paired_predictions, rank_rows

TOLERANCE_RULE = (
    "A number is within tolerance if it differs from the printed one by at most the largest of: the absolute "
    "tolerance; the relative tolerance times the printed value; half a unit of the last printed digit; and, if both "
    "sides have at least two splits, the given number of standard errors of the difference."
)
#: How the number of a check is written.
_NUMBER = {"ratio": "seconds", "difference": "score", "value": "score", "paired": "small"}


@dataclass(frozen=True)
class Evidence:
    """What claims and reference numbers are judged on.

    Attributes
    ----------
    run : Run
    rows : sequence of Row
    groups : sequence of Ranking
        Those of the section `statistics`.
    """

    run: Run
    rows: Sequence[Row]
    groups: Sequence[Ranking] = ()

    @cached_property
    def table(self) -> dict[tuple[str, str], Row]:
        """Rows by data set and method; the average ranks have the groups of data sets in the place of data sets."""
        return {(r.dataset, r.method): r for r in (*self.rows, *rank_rows(self.groups))}


# ---------------------------------------------------------------- claims


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
    verdict : Verdict
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
    expect: str = Verdict.CONFIRMED
    findings: list[Finding] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Whether `--check` is content: nothing here speaks against the claim, or that was expected."""
        return self.verdict == self.expect or not any(f.holds is False for f in self.findings)

    @property
    def tested(self) -> int:
        """Comparisons that could be made."""
        return sum(f.holds is not None for f in self.findings)


def judge_claims(evidence: Evidence) -> list[ClaimVerdict]:
    """Judge every claim of an experiment."""
    return [judge(claim, evidence) for claim in as_list(evidence.run.config.get("claims"))]


def judge(claim: Mapping[str, Any], evidence: Evidence) -> ClaimVerdict:
    """Judge one claim.

    Confirmed when every comparison holds, not confirmed when none does, partly when some do (or the others cannot be
    tested), not testable here when there is nothing to compare.
    """
    reason = claim.get("not_testable")
    checks = [] if reason else as_list(claim.get("checks"))
    findings = [finding for check in checks for finding in evaluate(check, evidence)]
    good = [f for f in findings if f.holds]
    if all(f.holds is None for f in findings):
        verdict = Verdict.NOT_TESTABLE
        why = reason or "; ".join(dict.fromkeys(f.why for f in findings if f.why)) or "the claim has no checks"
    else:
        complete = len(good) == len(findings)
        verdict = Verdict.CONFIRMED if complete else Verdict.PARTLY if good else Verdict.NOT_CONFIRMED
        why = _summary(findings)
    expect = claim.get("expect") or Verdict.CONFIRMED
    return ClaimVerdict(str(claim["id"]), str(claim["text"]), claim.get("where"), verdict, why, expect, findings)


def _summary(findings: Sequence[Finding]) -> str:
    """Say in one line what was found; a single comparison is quoted."""
    if len(findings) == 1:
        return findings[0].text
    good, bad = ([f for f in findings if f.holds is holds] for holds in (True, False))
    parts = [f"{len(good)} of {len(good) + len(bad)} comparisons hold"]
    if bad:
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        parts.append("contradicted by " + "; ".join(f.text for f in bad[:3]) + more)
    reasons = dict.fromkeys(f.why for f in findings if f.why)
    if reasons:
        parts.append("not tested, because " + "; ".join(map(str, reasons)))
    return "; ".join(parts)


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


# ---------------------------------------------------------------- checks


def evaluate(check: Mapping[str, Any], evidence: Evidence) -> list[Finding]:
    """Evaluate one check on every data set (or group of them), pair of methods and task that it names."""
    ranked = check["kind"] == "rejections" or check.get("quantity") == AVERAGE_RANK
    table = evidence.table
    findings = []
    for place, why in _groups(check, evidence) if ranked else _datasets(check, evidence.run):
        if why is not None:
            findings.append(Finding(_title(check, place), None, why=why))
        elif check["kind"] == "rejections":
            findings.append(_rejections(check, next(g for g in evidence.groups if g.label == place)))
        elif check.get("unit") == PREDICTION:
            findings += [_on_predictions(check, evidence.run, place, methods) for methods in _method_tuples(check)]
        else:
            for methods, task in product(_method_tuples(check), as_list(check.get("task")) or [None]):
                findings.append(_on_methods(check, place, methods, task, [table.get((place, m)) for m in methods]))
    return findings


def _datasets(check: Mapping[str, Any], run: Run) -> Iterator[tuple[str, str | None]]:
    """Yield the labels of the data sets to look at, or a name with the reason why it cannot be looked at."""
    ran = run.datasets
    profile = f"profile {run.profile}" if run.profile else "this run"
    named = as_list(check.get("dataset"))
    found = False
    for name in named or as_list(run.info.get("paper_datasets")) or list(ran):
        labels = [label for label, facts in ran.items() if name in (label, facts.get("id"))]
        found = found or bool(labels)
        yield from ((label, None) for label in labels)
        if not labels and named:
            yield name, f"data set {name} is not in this run ({profile}: {run.names_of_data})"
    if not named and not found:
        simulated = " (simulated)" if ran and all(f.get("simulated") for f in ran.values()) else ""
        why = f"none of the paper's data sets is in this run ({profile}: {run.names_of_data}{simulated})"
        yield "the paper's data", why


def _groups(check: Mapping[str, Any], evidence: Evidence) -> Iterator[tuple[str, str | None]]:
    """Yield the labels of the groups of data sets to look at, or a name with the reason why it cannot be looked at."""
    ranked = [g.label for g in evidence.groups]
    place, why = next(_datasets({}, evidence.run), ("", None))
    for name in as_list(check.get("dataset")) or ranked or [ALL_DATA]:
        if why is not None:
            yield place, why
            return
        yield name, None if name in ranked else f"{name}: fewer than two data sets with a number of every method"


def _method_tuples(check: Mapping[str, Any]) -> list[tuple[str, ...]]:
    if check["kind"] == "order":
        return list(pairwise(check["methods"]))
    if check["kind"] == "value":
        return [(m,) for m in as_list(check["of"])]
    return list(product(as_list(check["of"]), as_list(check["over"])))


def _on_methods(
    check: Mapping[str, Any], dataset: str, methods: tuple[str, ...], task: str | None, group: Sequence[Row | None]
) -> Finding:
    """Compare the rows of one or two methods, or the values of one task in them."""
    where, quantity = dataset, check["quantity"]
    if task is not None:
        where = f"{dataset}, {task}"
        if any(row is not None and task not in row.task_names for row in group):
            return Finding(_title(check, where, methods), None, why=f"no task {task!r} is known in {dataset}")
        group = [row and row.of_task(task) for row in group]
    rows = []
    for method, row in zip(methods, group, strict=True):
        if row is None or row.value(quantity) is None:
            lacking = f"{method} was not run on {where}"
            if row is not None:
                lacking = f"no {quantity} of {method} on {where} ({row.status_text})"
            return Finding(_title(check, where, methods), None, why=lacking)
        rows.append(row)
    return _compared(check, _title(check, where, methods), where, rows)


def _compared(check: Mapping[str, Any], title: str, where: str, rows: Sequence[Row]) -> Finding:
    """Compare rows that have a number each."""
    kind, quantity = check["kind"], check["quantity"]
    values = [r.value(quantity) or 0.0 for r in rows]
    short = next((f", from {r.n} of {r.planned} splits" for r in rows if r.n < r.planned), "")
    if kind == "order":
        increasing = (check.get("direction") or CHOICES["direction"][0]) == "increasing"
        holds = values[0] < values[1] if increasing else values[0] > values[1]
        sign = ("" if holds else "not ") + ("<" if increasing else ">")
        text = f"{title}: {significant(values[0], 4)} {sign} {significant(values[1], 4)}{short}"
        return Finding(text, holds, values[1] - values[0])
    if kind == "paired":
        unit, test = check.get("unit") or CHOICES["unit"][0], check.get("test") or CHOICES["test"][0]
        result = paired(rows[0], rows[1], quantity, unit, test)
        if result is None or result.pvalue is None:
            return Finding(title, None, why="a single split gives no p-value")
        found = result.pvalue
    elif kind == "ratio":
        if values[1] == 0:
            return Finding(title, None, why=f"{quantity} of {rows[1].method} on {where} is 0")
        found = values[0] / values[1]
    else:
        found = values[0] - values[1] if kind == "difference" else values[0]
    return Finding(f"{title}: {show(found, _NUMBER[kind])} ({_bounds(check)}){short}", _within(check, found), found)


def _on_predictions(check: Mapping[str, Any], run: Run, dataset: str, methods: tuple[str, ...]) -> Finding:
    """Test the kept scores split by split; the split that speaks most against the bound decides."""
    title = _title(check, dataset, methods)
    tests = paired_predictions(run, dataset, methods[0], methods[1], check.get("test") or CHOICES["test"][0])
    values = [t.pvalue for t in tests if t.pvalue is not None]
    if not values:
        return Finding(title, None, why=f"no predictions of {' and '.join(methods)} on {dataset} were kept")
    extreme, word = (min, "smallest") if check.get("at_least") is not None else (max, "largest")
    found = extreme(values)
    splits = f"{counted(len(values), 'split')} of up to {counted(max(t.n for t in tests), 'pair')}"
    text = f"{title}: {word} p-value {show(found, 'small')} of {splits} ({_bounds(check)})"
    return Finding(text, all(_within(check, value) for value in values), found)


def _rejections(check: Mapping[str, Any], group: Ranking) -> Finding:
    control = str(check["control"])
    title = _title(check, f"{group.label} ({len(group.blocks)} data sets)")
    ranking = replace(group, control=control)
    if not ranking.tests:
        return Finding(title, None, why=f"{control} has no rank")
    found, tests = ranking.rejections, ranking.tests
    return Finding(f"{title}: {found} of {len(tests)} ({_bounds(check)})", _within(check, found), float(found))


def _within(check: Mapping[str, Any], found: float) -> bool:
    low, high = check.get("at_least"), check.get("at_most")
    return (low is None or found >= low) and (high is None or found <= high)


def _bounds(check: Mapping[str, Any]) -> str:
    names = {"at_least": "at least", "at_most": "at most"}
    return "claimed: " + " and ".join(
        f"{text} {check[key]:g}" for key, text in names.items() if check.get(key) is not None
    )


def _title(check: Mapping[str, Any], dataset: str, methods: tuple[str, ...] = ()) -> str:
    """Say what a check compares."""
    kind = check["kind"]
    if kind == "rejections":
        return f"methods that rank significantly worse than {check['control']} on {dataset}"
    quantity = check.get("quantity") or "predictions"
    names = methods or tuple(", ".join(as_list(check.get(k))) for k in ("of", "over", "methods") if check.get(k))
    joined = {"ratio": " / ", "difference": " minus ", "paired": " against ", "order": ", "}.get(kind, "")
    prefix = "p-value of " if kind == "paired" else ""
    unit = f" by {check.get('unit') or CHOICES['unit'][0]}" if kind == "paired" else ""
    return f"{prefix}{quantity} of {joined.join(names)}{unit} on {dataset}"


# ---------------------------------------------------------------- reference numbers


@dataclass(frozen=True)
class ReferenceVerdict:
    """One printed number and ours.

    Attributes
    ----------
    dataset, method, quantity, source : str
    value : float
        As printed.
    ours, std : float or None
    n : int
        Splits behind ours.
    difference : float or None
        Ours minus the printed one.
    tolerance : float or None
        Largest absolute difference that counts as the same.
    verdict : Verdict
    why : str or None
        Why it was not run; else what set the tolerance.
    """

    dataset: str
    method: str
    quantity: str
    source: str
    value: float
    ours: float | None = None
    std: float | None = None
    n: int = 0
    difference: float | None = None
    tolerance: float | None = None
    verdict: str = Verdict.NOT_RUN
    why: str | None = None


def compare_references(evidence: Evidence) -> list[ReferenceVerdict]:
    """Compare every reference number that concerns the profile of a run."""
    run, table = evidence.run, evidence.table
    results = []
    for entry in as_list(run.config.get("reference")):
        profiles = as_list(entry.get("profile"))
        if profiles and run.profile not in profiles:
            continue
        name, method, task = entry["dataset"], entry["method"], entry.get("task")
        label = name if (name, method) in table else run.label_of(name)
        row = table.get((label, method)) if label is not None else None
        without = "method not in this run"
        if task is not None:
            name, row, without = f"{label or name}, {task}", row and row.of_task(task), f"no task {task!r} known"
        if label is None:
            without = f"data set not in this run (profile {run.profile}: {run.names_of_data})"
        results.append(_compare({**entry, "dataset": name}, row, without, as_list(run.config.get("tolerance"))))
    return results


def _compare(
    entry: Mapping[str, Any], row: Row | None, without: str, tolerances: Sequence[Mapping[str, Any]]
) -> ReferenceVerdict:
    quantity, value = str(entry["quantity"]), float(entry["value"])
    source = entry.get("source") or REFERENCE_SOURCES[0]
    ours = row.value(quantity) if row else None
    if row is None or ours is None:
        why = without if row is None else f"no {quantity} ({row.status_text})"
        return ReferenceVerdict(entry["dataset"], entry["method"], quantity, source, value, why=why)
    std = None if quantity in row.medians else row.std(quantity)
    n = len(row.samples.get(quantity, ())) or row.n
    tolerance, rule = tolerance_of(entry, tolerances, std, n)
    difference = ours - value
    # Ten digits: what is exactly at the limit on paper must not fall outside through binary rounding.
    same = float(f"{abs(difference):.10g}") <= float(f"{tolerance:.10g}")
    verdict = Verdict.WITHIN if same else Verdict.OUTSIDE
    return ReferenceVerdict(
        row.dataset, row.method, quantity, source, value, ours, std, n, difference, tolerance, verdict, rule
    )


def tolerance_of(
    entry: Mapping[str, Any], tolerances: Sequence[Mapping[str, Any]], std: float | None, n: int
) -> tuple[float, str]:
    """Return the largest absolute difference that counts as the same, and which rule gave it.

    The largest of: absolute; relative times the printed value; half a unit of the last printed digit; and, with at
    least two splits on both sides and both deviations known, sigmas standard errors of the difference.

    Parameters
    ----------
    entry : mapping
        The reference number; its own `absolute`, `relative`, `sigmas` win over the experiment's.
    tolerances : sequence of mapping
        Rules of the experiment; the first that names the quantity, else the first without a quantity.
    std : float or None
        Ours.
    n : int
        Splits behind ours.
    """
    value = float(entry["value"])
    rule = next((t for t in tolerances if t.get("quantity") == entry["quantity"]), None)
    rule = rule or next((t for t in tolerances if not t.get("quantity")), {})
    rule = {**rule, **{k: entry[k] for k in ("absolute", "relative", "sigmas") if entry.get(k) is not None}}
    decimals = entry.get("decimals")
    candidates = [(0.5 * 10.0 ** -(_decimals(entry["value"]) if decimals is None else decimals), "printed digits")]
    if rule.get("absolute") is not None:
        candidates.append((float(rule["absolute"]), "absolute"))
    if rule.get("relative") is not None:
        candidates.append((float(rule["relative"]) * abs(value), f"{rule['relative']:.0%} of the value"))
    theirs, n_theirs = entry.get("std"), entry.get("n") or n
    if rule.get("sigmas") is not None and std is not None and theirs is not None and min(n, n_theirs) >= 2:
        error = math.sqrt(theirs**2 / n_theirs + std**2 / n)
        candidates.append((rule["sigmas"] * error, f"{rule['sigmas']:g} standard errors"))
    return max(candidates, key=lambda pair: pair[0])


def _decimals(value: float) -> int:
    """Count the decimals of a number as written; trailing zeros are lost, hence the field `decimals`."""
    text = repr(value)
    if "e" in text:
        return max(0, -int(text.split("e")[1]))
    return len(text.split(".")[1].rstrip("0")) if "." in text else 0


def reference_section(references: Sequence[ReferenceVerdict]) -> Section:
    """Return the printed numbers beside ours; those that were not run are only counted, with the reason."""
    compared = [r for r in references if r.ours is not None]
    reasons = Counter(str(r.why) for r in references if r.ours is None)
    waiting = [f"{counted(count, 'number')} not run: {why}." for why, count in reasons.items()]
    return Section(
        "Reference numbers", [*[TOLERANCE_RULE] * bool(compared), *waiting], [reference_grid(compared)] * bool(compared)
    )


def reference_grid(references: Sequence[ReferenceVerdict], *, why: bool = True) -> Grid:
    """Return the printed numbers beside ours."""
    columns = [Column("dataset"), Column("method"), Column("quantity"), Column("source"), Column("printed", "seconds")]
    columns += [Column("ours", "seconds"), Column("n", "count"), Column("difference", "seconds")]
    columns += [Column("tolerance", "seconds"), Column("verdict")] + [Column("rule or reason")] * why
    grid = Grid(columns)
    for r in references:
        # Five significant digits: printed numbers keep all of theirs.
        value, ours, difference, tolerance = (
            None if v is None else f"{v:.5g}" for v in (r.value, r.ours, r.difference, r.tolerance)
        )
        texts = [r.dataset, r.method, r.quantity, r.source, value, ours, r.n, difference, tolerance, r.verdict]
        grid.rows.append(texts + [r.why] * why)
    return grid
