"""A run under one reading of the paper: its numbers beside the printed ones, and its claims over all readings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from mtlrun.errors import counted
from mtlrun.lab.report.cells import MethodResult, Run, method_results
from mtlrun.lab.report.checks import (
    HOLDING,
    REFERENCE_SOURCES,
    Claim,
    Reference,
    Tolerance,
    Verdict,
    said,
)
from mtlrun.lab.report.claims import ClaimVerdict, Evidence, judge
from mtlrun.lab.report.statistics import rank_groups
from mtlrun.tables.report_table import Column, ReportTable, Section
from mtlrun.utils.io import as_list

TOLERANCE_RULE = (
    "A number is within tolerance if it differs from the printed one by at most the largest of: the absolute "
    "tolerance; the given share of the error rate (1 - the printed value); the relative tolerance times the printed "
    "value; half a unit of the last printed digit; and, if both sides have at least two splits, the given number of "
    "standard errors of the difference."
)


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

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of report.json."""
        return {
            "dataset": self.dataset,
            "method": self.method,
            "quantity": self.quantity,
            "source": self.source,
            "value": self.value,
            "ours": self.ours,
            "std": self.std,
            "n": self.n,
            "difference": self.difference,
            "tolerance": self.tolerance,
            "verdict": self.verdict,
            "why": self.why,
        }


def compare_references(evidence: Evidence) -> list[ReferenceVerdict]:
    """Compare every reference number that concerns the profile of a run."""
    run, table = evidence.run, evidence.table
    tolerances = [
        Tolerance.model_validate(entry)
        for entry in as_list(run.config.get("tolerance"))
    ]
    results = []
    for entry in map(Reference.model_validate, as_list(run.config.get("reference"))):
        if entry.profile and run.profile not in entry.profile:
            continue
        label = (
            entry.dataset
            if (entry.dataset, entry.method) in table
            else run.label_of(entry.dataset)
        )
        row = None if label is None else table.get((label, entry.method))
        name, without = entry.dataset, "method not in this run"
        if entry.task is not None:
            name, row, without = (
                f"{label or name}, {entry.task}",
                row and row.of_task(entry.task),
                f"no task {entry.task!r} known",
            )
        if label is None:
            without = (
                f"data set not in this run (profile {run.profile}: {run.names_of_data})"
            )
        results.append(_compare(entry, name, row, without, tolerances))
    return results


def _compare(
    entry: Reference,
    name: str,
    row: MethodResult | None,
    without: str,
    tolerances: Sequence[Tolerance],
) -> ReferenceVerdict:
    quantity, value, source = (
        entry.quantity,
        entry.value,
        entry.source or REFERENCE_SOURCES[0],
    )
    ours = row.value(quantity) if row else None
    if row is None or ours is None:
        without = f"no {quantity} ({row.status_text})" if row else without
        return ReferenceVerdict(
            name, entry.method, quantity, source, value, why=without
        )
    std = None if quantity in row.medians else row.std(quantity)
    n = len(row.samples.get(quantity, ())) or row.n
    tolerance, rule = tolerance_of(entry, tolerances, std, n)
    difference = ours - value
    # Ten digits: what is exactly at the limit on paper must not fall outside through binary rounding.
    same = float(f"{abs(difference):.10g}") <= float(f"{tolerance:.10g}")
    verdict = Verdict.WITHIN if same else Verdict.OUTSIDE
    return ReferenceVerdict(
        row.dataset,
        row.method,
        quantity,
        source,
        value,
        ours,
        std,
        n,
        difference,
        tolerance,
        verdict,
        rule,
    )


def tolerance_of(
    entry: Reference, tolerances: Sequence[Tolerance], std: float | None, n: int
) -> tuple[float, str]:
    """Return the largest absolute difference that counts as the same, and which rule gave it.

    The largest of: absolute; error_rate times (1 - the printed value); relative times the printed value; half a unit
    of the last printed digit; and, with at least two splits on both sides and both deviations known, sigmas standard
    errors of the difference.

    Parameters
    ----------
    entry : Reference
        The reference number; its own `absolute`, `error_rate`, `relative`, `sigmas` win over the experiment's.
    tolerances : sequence of Tolerance
        Rules of the experiment; the first that names the quantity, else the first without a quantity.
    std : float or None
        Ours.
    n : int
        Splits behind ours.
    """
    rule = next((t for t in tolerances if t.quantity == entry.quantity), None)
    rule = rule or next((t for t in tolerances if not t.quantity), Tolerance())
    absolute = _first_given(entry.absolute, rule.absolute)
    rate = _first_given(entry.error_rate, rule.error_rate)
    relative = _first_given(entry.relative, rule.relative)
    sigmas = _first_given(entry.sigmas, rule.sigmas)
    digits = _decimals(entry.value) if entry.decimals is None else entry.decimals
    candidates = [
        (0.5 * 10.0**-digits, "printed digits"),
        (absolute or 0.0, "absolute"),
    ]
    candidates.append(
        ((rate or 0.0) * abs(1 - entry.value), f"{rate or 0:.0%} of the error rate")
    )
    candidates.append(
        ((relative or 0.0) * abs(entry.value), f"{relative or 0:.0%} of the value")
    )
    theirs, n_theirs = entry.std, entry.n or n
    if (
        sigmas is not None
        and std is not None
        and theirs is not None
        and min(n, n_theirs) >= 2
    ):
        error = math.sqrt(theirs**2 / n_theirs + std**2 / n)
        candidates.append((sigmas * error, f"{sigmas:g} standard errors"))
    return max(candidates, key=lambda pair: pair[0])


def _first_given(value: float | None, default: float | None) -> float | None:
    return default if value is None else value


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
    lines = [TOLERANCE_RULE, *constant_lines(compared)] if compared else []
    waiting = [
        f"{counted(count, 'number')} not run: {why}." for why, count in reasons.items()
    ]
    return Section(
        "Printed numbers and ours",
        [*lines, *waiting],
        [reference_grid(compared)] if compared else [],
    )


def reference_grid(references: Sequence[ReferenceVerdict]) -> ReportTable:
    """Return the printed numbers beside ours."""
    columns = (
        "printed:seconds",
        "ours:seconds",
        "n:count",
        "difference:seconds",
        "tolerance:seconds",
    )
    grid = ReportTable.of(
        "dataset", "method", "quantity", "source", *columns, "verdict", "rule or reason"
    )
    for r in references:
        # Five significant digits: printed numbers keep all of theirs.
        value, ours, difference, tolerance = (
            None if v is None else f"{v:.5g}"
            for v in (r.value, r.ours, r.difference, r.tolerance)
        )
        numbers = (value, ours, r.n, difference, tolerance)
        grid.rows.append(
            [r.dataset, r.method, r.quantity, r.source, *numbers, r.verdict, r.why]
        )
    return grid


def constant_lines(references: Sequence[ReferenceVerdict]) -> list[str]:
    """Say how many numbers a constant would bring inside: the mean of what is printed for a data set and quantity.

    Where it is most of them, being within tolerance says little.
    """
    columns: dict[tuple[str, str], list[ReferenceVerdict]] = {}
    for r in references:
        columns.setdefault((r.dataset, r.quantity), []).append(r)
    several = [
        (r, fmean(x.value for x in group))
        for group in columns.values()
        if len(group) > 1
        for r in group
    ]
    if not several:
        return []
    hits = sum(abs(r.value - constant) <= (r.tolerance or 0) for r, constant in several)
    ours = sum(r.verdict == Verdict.WITHIN for r, _ in several)
    return [
        f"A constant, the mean of what is printed for a data set and quantity, would be within tolerance for {hits} "
        f"of {len(several)} numbers; ours are for {ours}."
    ]


# ---------------------------------------------------------------------- readings


class JudgedRun(Evidence):
    """A run under one reading, with what its numbers say."""

    @cached_property
    def claims(self) -> list[ClaimVerdict]:
        """The claims, each under this reading alone."""
        return [
            judge(Claim.model_validate(claim), self)
            for claim in as_list(self.run.config.get("claims"))
        ]

    @cached_property
    def references(self) -> list[ReferenceVerdict]:
        """The printed numbers, with ours."""
        return compare_references(self)

    @property
    def name(self) -> str:
        """Name of the reading."""
        return self.run.reading

    @property
    def about(self) -> dict[str, Any]:
        """What the experiment says of the reading; {} without readings."""
        return dict((self.run.info.get("readings") or {}).get(self.run.reading) or {})


def judged(run: Run) -> JudgedRun:
    """Judge a run under its reading."""
    rows = method_results(run)
    return JudgedRun(run, rows, rank_groups(run, rows))


def over_readings(main: JudgedRun, others: Sequence[JudgedRun]) -> list[ClaimVerdict]:
    """Return the claims of the main reading with their verdicts under all readings.

    A claim that holds under one of the plausible readings and is not confirmed under another depends on the reading.
    """
    if not others:
        return main.claims
    decisive = {one.name for one in (main, *others) if one.about.get("plausible", True)}
    found: dict[str, dict[str, str]] = {}
    for one in (main, *others):
        for claim in one.claims:
            found.setdefault(claim.id, {})[one.name] = claim.verdict
    claims = []
    for claim in main.claims:
        under = {
            verdict for name, verdict in found[claim.id].items() if name in decisive
        }
        flips = under.intersection(HOLDING) and Verdict.NOT_CONFIRMED in under
        verdict = Verdict.DEPENDS if flips else claim.verdict
        compared_only = tuple(name for name in found[claim.id] if name not in decisive)
        claims.append(
            replace(
                claim,
                verdict=verdict,
                readings=found[claim.id],
                compared_only=compared_only,
            )
        )
    return claims


def readings_section(
    main: JudgedRun, others: Sequence[JudgedRun], claims: Sequence[ClaimVerdict]
) -> Section:
    """Return the readings with their reasons and the level of the methods that choose the main one, and the claims.

    Parameters
    ----------
    main : JudgedRun
    others : sequence of JudgedRun
        Those with at least one finished cell.
    claims : sequence of ClaimVerdict
        With their verdicts under all readings.
    """
    section = Section("Interpretations")
    about = main.about
    if not about:
        return section
    names = list(main.run.info["readings"])
    rule, of = about["main"]["rule"], as_list(about["main"].get("of"))
    section.lines.append(
        "The paper leaves choices open. An interpretation (on the command line: "
        f"--interpretation) is a way to fill them in; {len(names)} were tried."
    )
    section.lines.append(
        f"The main one, {main.name!r}, was chosen by {_RULES[rule]}{', '.join(of)}."
    )
    if about.get("because"):
        section.lines.append(str(about["because"]))
    shown = {judged.name: judged for judged in (main, *others)}
    waiting = [
        name
        for name in names
        if name not in shown and "config" in main.run.info["readings"][name]
    ]
    if waiting:
        section.lines.append(
            f"Not computed: {', '.join(waiting)}. Add --interpretation all to the command of this run."
        )
    grid, distances = ReportTable.of("interpretation", "why", "part"), []
    for name in names:
        facts = main.run.info["readings"][name]
        part = (
            "main"
            if name == main.name
            else "decides"
            if facts.get("plausible", True)
            else "for comparison only"
        )
        distance = level_distance(shown[name].references, of) if name in shown else None
        distances.append(None if distance is None else 100 * distance)
        grid.rows.append([name, facts["why"], part])
    if of:
        grid.add("mean distance from print (%):seconds", distances)
    section.grids.append(grid)
    if others and claims:
        verdicts = ReportTable.of("claim", "verdict", *map(Column, shown))
        for claim in claims:
            under = (
                said(claim.readings[name]) if name in claim.readings else None
                for name in shown
            )
            verdicts.rows.append([claim.id, said(claim.verdict), *under])
        section.grids.append(verdicts)
    return section


#: Sentences on the rules that choose the main reading.
_RULES = {
    "published level": "the published level of ",
    "authors' code": "the code of the authors",
    "convention": "convention: the paper says nothing, and this is what the field does",
}


def level_distance(
    references: Sequence[ReferenceVerdict], methods: Sequence[str]
) -> float | None:
    """Return the mean distance of some methods from their printed numbers, as a share of these; None without any."""
    of = [
        (r.difference, r.value)
        for r in references
        if r.method in methods and r.difference is not None
    ]
    found = [
        abs(difference and difference / value)
        for difference, value in of
        if value or not difference
    ]
    return fmean(found) if found else None
