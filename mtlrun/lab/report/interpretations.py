"""Interpretations of a paper: published numbers and claims under each of them.

Where a paper leaves choices open, an experiment has several interpretations. In files
an interpretation is called a reading.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from mtlrun.errors import counted
from mtlrun.lab.experiment.claims import (
    HOLDING,
    REFERENCE_SOURCES,
    Claim,
    Reference,
    Tolerance,
    Verdict,
    verdict_label,
)
from mtlrun.lab.report.claims import ClaimVerdict, Evidence, judge
from mtlrun.lab.report.method_results import method_results
from mtlrun.lab.report.run import Run, data_names, label_of
from mtlrun.lab.report.statistics import rank_groups
from mtlrun.show.report_table import Column, ReportTable, Section
from mtlrun.utils.io import as_list

#: Explanation of `tolerance_of` in reports.
TOLERANCE_RULE = (
    "A number is within tolerance if it differs from the printed one by at most the "
    "largest of: the absolute tolerance; the given share of the error rate (1 - the "
    "printed value); the relative tolerance times the printed value; half a unit of the "
    "last printed digit; and, if both sides have at least two splits, the given number "
    "of standard errors of the difference."
)


@dataclass(frozen=True)
class ReferenceVerdict:
    """Published number next to the computed one.

    Attributes
    ----------
    dataset, method, quantity, source : str
    value : float
        Published number.
    ours, std : float or None
        Computed number and its standard deviation over splits.
    n : int
        Number of splits of the computed number.
    difference : float or None
        Computed minus published number.
    tolerance : float or None
        Largest absolute difference within tolerance.
    verdict : Verdict
    why : str or None
        Reason why the number was not computed, else the rule that set the tolerance.
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
    """Compare the published numbers of an experiment with the numbers of a run.

    Numbers that concern other profiles are left out.
    """
    run = evidence.run
    tolerances = []
    for entry in as_list(run.config.get("tolerance")):
        tolerances.append(Tolerance.model_validate(entry))
    verdicts = []
    for entry in as_list(run.config.get("reference")):
        reference = Reference.model_validate(entry)
        if not reference.profile or run.profile in reference.profile:
            verdicts.append(_compare_reference(reference, evidence, tolerances))
    return verdicts


def _compare_reference(
    reference: Reference, evidence: Evidence, tolerances: Sequence[Tolerance]
) -> ReferenceVerdict:
    """Find the computed number for a published one, and compare the two."""
    run = evidence.run
    label: str | None = reference.dataset
    if (label, reference.method) not in evidence.table:
        label = label_of(run, reference.dataset)
    row = None
    if label is not None:
        row = evidence.table.get((label, reference.method))
    name = reference.dataset
    reason = "method not in this run"
    if reference.task is not None:
        name = f"{label or name}, {reference.task}"
        row = row and row.of_task(reference.task)
        reason = f"no task {reference.task!r} known"
    if label is None:
        datasets = data_names(run)
        reason = f"data set not in this run (profile {run.profile}: {datasets})"
    quantity = reference.quantity
    source = reference.source or REFERENCE_SOURCES[0]
    ours = None
    if row is not None:
        ours = row.value(quantity)
        reason = f"no {quantity} ({row.status_text})"
    if row is None or ours is None:
        return ReferenceVerdict(
            dataset=name,
            method=reference.method,
            quantity=quantity,
            source=source,
            value=reference.value,
            why=reason,
        )
    std = None
    if quantity not in row.medians:
        std = row.std(quantity)
    n = len(row.samples.get(quantity, ())) or row.n
    tolerance, rule = tolerance_of(reference, tolerances, std, n)
    difference = ours - reference.value
    # With all digits, binary rounding could push a difference that equals the limit in
    # decimal numbers out of tolerance.
    verdict = Verdict.OUTSIDE
    if float(f"{abs(difference):.10g}") <= float(f"{tolerance:.10g}"):
        verdict = Verdict.WITHIN
    return ReferenceVerdict(
        dataset=row.dataset,
        method=row.method,
        quantity=quantity,
        source=source,
        value=reference.value,
        ours=ours,
        std=std,
        n=n,
        difference=difference,
        tolerance=tolerance,
        verdict=verdict,
        why=rule,
    )


def tolerance_of(
    entry: Reference, tolerances: Sequence[Tolerance], std: float | None, n: int
) -> tuple[float, str]:
    """Return the tolerance of a published number, and the rule that set it.

    The tolerance is the largest of: absolute; error_rate times (1 - the published
    value); relative times the published value; half a unit of the last published digit;
    and sigmas standard errors of the difference, if both sides have at least two splits
    and a standard deviation.

    Parameters
    ----------
    entry : Reference
        Published number. Its own `absolute`, `error_rate`, `relative` and `sigmas` take
        precedence over the rules of the experiment.
    tolerances : sequence of Tolerance
        Rules of the experiment. The first rule for the quantity counts, else the first
        rule without a quantity.
    std : float or None
        Standard deviation of the computed number.
    n : int
        Number of splits of the computed number.

    Returns
    -------
    tolerance : float
    rule : str
    """
    rule = _find_rule(tolerances, entry.quantity)
    absolute = _coalesce(entry.absolute, rule.absolute) or 0.0
    error_rate = _coalesce(entry.error_rate, rule.error_rate) or 0.0
    relative = _coalesce(entry.relative, rule.relative) or 0.0
    sigmas = _coalesce(entry.sigmas, rule.sigmas)
    n_decimals = entry.decimals
    if n_decimals is None:
        n_decimals = _count_decimals(entry.value)
    candidates = [
        (0.5 * 10.0**-n_decimals, "printed digits"),
        (absolute, "absolute"),
        (error_rate * abs(1 - entry.value), f"{error_rate:.0%} of the error rate"),
        (relative * abs(entry.value), f"{relative:.0%} of the value"),
    ]
    n_published = entry.n or n
    published_std = entry.std
    if (
        sigmas is not None
        and std is not None
        and published_std is not None
        and min(n, n_published) >= 2
    ):
        error = math.sqrt(published_std**2 / n_published + std**2 / n)
        candidates.append((sigmas * error, f"{sigmas:g} standard errors"))
    return max(candidates, key=lambda candidate: candidate[0])


def _find_rule(tolerances: Sequence[Tolerance], quantity: str) -> Tolerance:
    for rule in tolerances:
        if rule.quantity == quantity:
            return rule
    for rule in tolerances:
        if not rule.quantity:
            return rule
    return Tolerance()


def _coalesce(value: float | None, default: float | None) -> float | None:
    if value is None:
        return default
    return value


def _count_decimals(value: float) -> int:
    """Count the decimals of a number.

    A float has lost its trailing zeros, which is why references have a field
    `decimals`.
    """
    text = repr(value)
    if "e" in text:
        exponent = int(text.split("e")[1])
        return max(0, -exponent)
    if "." not in text:
        return 0
    return len(text.split(".")[1].rstrip("0"))


def reference_section(references: Sequence[ReferenceVerdict]) -> Section:
    """Return a table of published numbers and ours.

    Numbers that were not computed are counted, with the reason.
    """
    compared = [reference for reference in references if reference.ours is not None]
    section = Section("Printed numbers and ours")
    if compared:
        section.lines = [TOLERANCE_RULE, *constant_lines(compared)]
        section.grids = [reference_grid(compared)]
    reasons = Counter(str(r.why) for r in references if r.ours is None)
    for reason, count in reasons.items():
        section.lines.append(f"{counted(count, 'number')} not run: {reason}.")
    return section


def reference_grid(references: Sequence[ReferenceVerdict]) -> ReportTable:
    """Return a table of published numbers and ours."""
    table = ReportTable.of(
        "dataset",
        "method",
        "quantity",
        "source",
        "printed:seconds",
        "ours:seconds",
        "n:count",
        "difference:seconds",
        "tolerance:seconds",
        "verdict",
        "rule or reason",
    )
    for reference in references:
        table.rows.append(
            [
                reference.dataset,
                reference.method,
                reference.quantity,
                reference.source,
                _five_digits(reference.value),
                _five_digits(reference.ours),
                reference.n,
                _five_digits(reference.difference),
                _five_digits(reference.tolerance),
                reference.verdict,
                reference.why,
            ]
        )
    return table


def _five_digits(value: float | None) -> str | None:
    """Format a number with five digits, which no published number exceeds."""
    if value is None:
        return None
    return f"{value:.5g}"


def constant_lines(references: Sequence[ReferenceVerdict]) -> list[str]:
    """Return a sentence on how many numbers a constant would have within tolerance.

    The constant is the mean of the published numbers of a data set and quantity. If it
    has most numbers within tolerance, agreement with the paper says little.
    """
    groups: dict[tuple[str, str], list[ReferenceVerdict]] = {}
    for reference in references:
        key = (reference.dataset, reference.quantity)
        groups.setdefault(key, []).append(reference)
    n_numbers = 0
    n_constant = 0
    n_ours = 0
    for group in groups.values():
        if len(group) < 2:
            continue
        constant = fmean(reference.value for reference in group)
        for reference in group:
            n_numbers += 1
            distance = abs(reference.value - constant)
            n_constant += distance <= (reference.tolerance or 0)
            n_ours += reference.verdict == Verdict.WITHIN
    if not n_numbers:
        return []
    return [
        "A constant, the mean of what is printed for a data set and quantity, would be "
        f"within tolerance for {n_constant} of {n_numbers} numbers; ours are for {n_ours}."
    ]


# --------------------------------------------------------------- interpretations


@dataclass(frozen=True)
class JudgedRun(Evidence):
    """Run under one interpretation, with its claims and published numbers judged.

    Attributes
    ----------
    run, rows, groups
        See `Evidence`.
    claims : list of ClaimVerdict
        Verdicts on the claims under this interpretation alone.
    references : list of ReferenceVerdict
        Published numbers next to ours.
    """

    claims: list[ClaimVerdict] = field(default_factory=list)
    references: list[ReferenceVerdict] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the interpretation."""
        return self.run.reading

    @property
    def about(self) -> dict[str, Any]:
        """Entry of the interpretation in the experiment; empty without any."""
        entries = self.run.info.get("readings") or {}
        return dict(entries.get(self.run.reading) or {})


def judged(run: Run) -> JudgedRun:
    """Judge a run under its interpretation."""
    rows = method_results(run)
    evidence = Evidence(run, rows, rank_groups(run, rows))
    claims = []
    for entry in as_list(run.config.get("claims")):
        claims.append(judge(Claim.model_validate(entry), evidence))
    return JudgedRun(
        run=run,
        rows=rows,
        groups=evidence.groups,
        claims=claims,
        references=compare_references(evidence),
    )


def over_readings(main: JudgedRun, others: Sequence[JudgedRun]) -> list[ClaimVerdict]:
    """Return the claims with their verdicts under all interpretations.

    A claim that holds under one plausible interpretation and fails under another
    depends on the interpretation. Otherwise the verdict of the main interpretation
    counts.
    """
    if not others:
        return main.claims
    plausible = set()
    verdicts: dict[str, dict[str, str]] = {}
    for judged_run in (main, *others):
        if judged_run.about.get("plausible", True):
            plausible.add(judged_run.name)
        for claim in judged_run.claims:
            verdicts.setdefault(claim.id, {})[judged_run.name] = claim.verdict
    claims = []
    for claim in main.claims:
        by_name = verdicts[claim.id]
        decisive = {by_name[name] for name in by_name if name in plausible}
        verdict = claim.verdict
        if decisive & set(HOLDING) and Verdict.NOT_CONFIRMED in decisive:
            verdict = Verdict.DEPENDS
        claims.append(
            replace(
                claim,
                verdict=verdict,
                readings=by_name,
                compared_only=tuple(name for name in by_name if name not in plausible),
            )
        )
    return claims


def readings_section(
    main: JudgedRun, others: Sequence[JudgedRun], claims: Sequence[ClaimVerdict]
) -> Section:
    """Return the interpretations with their reasons, and the claims under each of them.

    Parameters
    ----------
    main : JudgedRun
    others : sequence of JudgedRun
        Interpretations with at least one finished cell.
    claims : sequence of ClaimVerdict
        Claims with their verdicts under all interpretations.
    """
    section = Section("Interpretations")
    main_entry = main.about
    if not main_entry:
        return section
    entries = main.run.info["readings"]
    by_name = {judged_run.name: judged_run for judged_run in (main, *others)}
    choice = main_entry["main"]
    level_methods = as_list(choice.get("of"))
    rule = f"{_RULES[choice['rule']]}{', '.join(level_methods)}"
    section.lines = [
        "The paper leaves choices open. An interpretation (on the command line: "
        f"--interpretation) is a way to fill them in; {len(entries)} were tried.",
        f"The main one, {main.name!r}, was chosen by {rule}.",
    ]
    if main_entry.get("because"):
        section.lines.append(str(main_entry["because"]))
    missing = []
    for name, entry in entries.items():
        if name not in by_name and "config" in entry:
            missing.append(name)
    if missing:
        section.lines.append(
            f"Not computed: {', '.join(missing)}. "
            "Add --interpretation all to the command of this run."
        )
    table = ReportTable.of("interpretation", "why", "part")
    for name, entry in entries.items():
        if name == main.name:
            part = "main"
        elif entry.get("plausible", True):
            part = "decides"
        else:
            part = "for comparison only"
        table.rows.append([name, entry["why"], part])
    if level_methods:
        distances: list[float | None] = []
        for name in entries:
            percent = None
            if name in by_name:
                distance = level_distance(by_name[name].references, level_methods)
                if distance is not None:
                    percent = 100 * distance
            distances.append(percent)
        table.add("mean distance from print (%):seconds", distances)
    section.grids.append(table)
    if others and claims:
        section.grids.append(_verdict_table(claims, list(by_name)))
    return section


def _verdict_table(claims: Sequence[ClaimVerdict], names: Sequence[str]) -> ReportTable:
    """Return the verdict on each claim under each interpretation."""
    table = ReportTable.of("claim", "verdict", *map(Column, names))
    for claim in claims:
        verdicts: list[str | None] = []
        for name in names:
            label = None
            if name in claim.readings:
                label = verdict_label(claim.readings[name])
            verdicts.append(label)
        table.rows.append([claim.id, verdict_label(claim.verdict), *verdicts])
    return table


#: Texts of the rules that select the main interpretation.
_RULES = {
    "published level": "the published level of ",
    "authors' code": "the code of the authors",
    "convention": "convention: the paper says nothing, and this is what the field does",
}


def level_distance(
    references: Sequence[ReferenceVerdict], methods: Sequence[str]
) -> float | None:
    """Return the mean relative distance of some methods from their published numbers.

    Returns
    -------
    float or None
        None without any number.
    """
    distances = []
    for reference in references:
        difference = reference.difference
        if reference.method not in methods or difference is None:
            continue
        if not difference:
            distances.append(0.0)
        elif reference.value:
            distances.append(abs(difference / reference.value))
        # A distance from a published zero has no relative size.
    if not distances:
        return None
    return fmean(distances)
