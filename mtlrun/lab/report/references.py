"""Published numbers next to ours, and how far they may differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import fmean
from typing import Any

from mtlrun.errors import counted
from mtlrun.lab.experiment.claims import (
    REFERENCE_SOURCES,
    Reference,
    Tolerance,
    Verdict,
    rule_of,
)
from mtlrun.lab.report.method_results import MethodResult
from mtlrun.lab.report.run import Run, data_names, label_of
from mtlrun.show.report_table import ReportTable, Section

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


def compare_references(
    run: Run, results: Mapping[tuple[str, str], MethodResult]
) -> list[ReferenceVerdict]:
    """Compare the published numbers of an experiment with the numbers of a run.

    Numbers that concern other profiles are left out.

    Parameters
    ----------
    run : Run
    results : mapping of (str, str) to MethodResult
        Results by data set, or group of data sets, and method.
    """
    verdicts = []
    for reference in run.spec.reference:
        # Published tables are replaced by their numbers when an experiment is loaded.
        assert isinstance(reference, Reference)
        if not reference.profile or run.experiment.profile in reference.profile:
            verdicts.append(_compare_reference(reference, run, results))
    return verdicts


def _compare_reference(
    reference: Reference, run: Run, results: Mapping[tuple[str, str], MethodResult]
) -> ReferenceVerdict:
    """Find the computed number for a published one, and compare the two."""
    label: str | None = reference.dataset
    if (label, reference.method) not in results:
        label = label_of(run, reference.dataset)
    row = None
    if label is not None:
        row = results.get((label, reference.method))
    name = reference.dataset
    reason = "method not in this run"
    if reference.task is not None:
        name = f"{label or name}, {reference.task}"
        row = row and row.of_task(reference.task)
        reason = f"no task {reference.task!r} known"
    if label is None:
        profile = run.experiment.profile
        reason = f"data set not in this run (profile {profile}: {data_names(run)})"
    quantity = reference.quantity
    missing = ReferenceVerdict(
        dataset=name,
        method=reference.method,
        quantity=quantity,
        source=reference.source or REFERENCE_SOURCES[0],
        value=reference.value,
        why=reason,
    )
    if row is None:
        return missing
    ours = row.value(quantity)
    if ours is None:
        return replace(missing, why=f"no {quantity} ({row.status_text})")
    std = None
    if quantity not in row.medians:
        std = row.std(quantity)
    n = len(row.samples.get(quantity, ())) or row.n
    tolerance, rule = tolerance_of(reference, run.spec.tolerance, std, n)
    difference = ours - reference.value
    # With all digits, binary rounding could push a difference that equals the limit in
    # decimal numbers out of tolerance.
    verdict = Verdict.OUTSIDE
    if float(f"{abs(difference):.10g}") <= float(f"{tolerance:.10g}"):
        verdict = Verdict.WITHIN
    return replace(
        missing,
        dataset=row.dataset,
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
    rule = rule_of(tolerances, entry.quantity)
    absolute = _coalesce(entry.absolute, rule.absolute) or 0.0
    error_rate = _coalesce(entry.error_rate, rule.error_rate) or 0.0
    relative = _coalesce(entry.relative, rule.relative) or 0.0
    sigmas = _coalesce(entry.sigmas, rule.sigmas)
    n_decimals = entry.decimals
    if n_decimals is None:
        # A float has lost its trailing zeros, which is why references have `decimals`.
        text = format(Decimal(repr(entry.value)), "f")
        n_decimals = len(text.partition(".")[2].rstrip("0"))
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


def _coalesce(value: float | None, default: float | None) -> float | None:
    if value is None:
        return default
    return value


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
