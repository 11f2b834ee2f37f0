"""Numbers of the paper (or of a stored run) beside ours, with a tolerance and a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtlrun.report.checks import REFERENCE_SOURCES, as_list
from mtlrun.report.folder import Run
from mtlrun.report.table import Row
from mtlrun.report.text import Column, Grid

WITHIN = "within"
OUTSIDE = "outside"
NOT_RUN = "not run"
TOLERANCE_RULE = (
    "A number is within tolerance when it differs by at most the largest of: the absolute tolerance, the relative "
    "tolerance times the printed value, half a unit of the last printed digit and, with at least two splits on both "
    "sides, the stated number of standard errors of the difference."
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
    verdict : {"within", "outside", "not run"}
    why : str or None
        Why it was not run; else what set the tolerance.
    """

    dataset: str
    method: str
    quantity: str
    source: str
    value: float
    ours: float | None
    std: float | None
    n: int
    difference: float | None
    tolerance: float | None
    verdict: str
    why: str | None


def compare_references(run: Run, rows: Sequence[Row]) -> list[ReferenceVerdict]:
    """Compare every reference number that concerns the profile of the run.

    Parameters
    ----------
    run : Run
    rows : sequence of Row
        Those of the table, and those of groups of data sets (`ranking.rank_rows`).
    """
    table = {(r.dataset, r.method): r for r in rows}
    labels = {str(facts.get("id", label)): label for label, facts in reversed(run.datasets.items())}
    tolerances = as_list(run.config.get("tolerance"))
    results = []
    for entry in as_list(run.config.get("reference")):
        profiles = as_list(entry.get("profile"))
        if profiles and run.profile not in profiles:
            continue
        known = entry["dataset"] in run.datasets or (entry["dataset"], entry["method"]) in table
        label = entry["dataset"] if known else labels.get(entry["dataset"])
        row = table.get((label, entry["method"])) if label is not None else None
        task = entry.get("task")
        if task is None:
            results.append(_compare(entry, row, label, tolerances, run))
        else:
            named = {**entry, "dataset": f"{label or entry['dataset']}, {task}"}
            alone = row and row.of_task(task)
            results.append(_compare(named, alone, label, tolerances, run, f"no task {task!r} known"))
    return results


def reference_grid(references: Sequence[ReferenceVerdict], *, why: bool = True) -> Grid:
    """Return the printed numbers beside ours."""
    columns = [Column("dataset"), Column("method"), Column("quantity"), Column("source"), Column("printed", "seconds")]
    columns += [Column("ours", "seconds"), Column("n", "count"), Column("difference", "seconds")]
    columns += [Column("tolerance", "seconds"), Column("verdict")] + [Column("rule or reason")] * why
    grid = Grid(columns)
    for r in references:
        values: list[Any] = [r.dataset, r.method, r.quantity, r.source, _number(r.value), _number(r.ours), r.n]
        values += [_number(r.difference), _number(r.tolerance), r.verdict]
        grid.rows.append(values + [r.why] * why)
    return grid


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


def _compare(
    entry: Mapping[str, Any],
    row: Row | None,
    label: str | None,
    tolerances: Sequence[Mapping[str, Any]],
    run: Run,
    without: str = "method not in this run",
) -> ReferenceVerdict:
    quantity, value = str(entry["quantity"]), float(entry["value"])
    source = entry.get("source") or REFERENCE_SOURCES[0]
    ours = row.value(quantity) if row else None
    if row is None or ours is None:
        if label is None:
            why = f"data set not in this run (profile {run.profile}: {run.names_of_data})"
        else:
            why = without if row is None else f"no {quantity} ({row.status_text})"
        return ReferenceVerdict(
            entry["dataset"], entry["method"], quantity, source, value, None, None, 0, None, None, NOT_RUN, why
        )
    std = None if quantity in row.medians else row.std(quantity)
    n = len(row.samples.get(quantity, ())) or row.n
    tolerance, rule = tolerance_of(entry, tolerances, std, n)
    difference = ours - value
    # Ten digits: what is exactly at the limit on paper must not fall outside through binary rounding.
    verdict = WITHIN if float(f"{abs(difference):.10g}") <= float(f"{tolerance:.10g}") else OUTSIDE
    return ReferenceVerdict(
        row.dataset, row.method, quantity, source, value, ours, std, n, difference, tolerance, verdict, rule
    )


def _decimals(value: float) -> int:
    """Count the decimals of a number as written; trailing zeros are lost, hence the field `decimals`."""
    text = repr(value)
    if "e" in text:
        return max(0, -int(text.split("e")[1]))
    return len(text.split(".")[1].rstrip("0")) if "." in text else 0


def _number(value: float | None) -> str | None:
    """Five significant digits: printed numbers keep all of theirs."""
    return None if value is None else f"{value:.5g}"
