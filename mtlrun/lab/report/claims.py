"""Verdicts on the claims of a paper, from the numbers of a run.

A claim has checks. A check makes comparisons: one for each data set, pair of methods
and task that it names. The verdict on the claim follows from its comparisons
(`verdict_of`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from statistics import fmean
from typing import Any

from mtlrun.catalog.interfaces import METRIC_INFO
from mtlrun.errors import counted, listed
from mtlrun.lab.experiment.claims import (
    ALL_DATA,
    PREDICTION,
    SHARE_DIFFERENCES,
    SHARES,
    UNTESTED,
    Check,
    Claim,
    Stopped,
    Verdict,
    verdict_label,
)
from mtlrun.lab.report.method_results import MethodResult, method_results
from mtlrun.lab.report.references import ReferenceVerdict, compare_references
from mtlrun.lab.report.run import Run, data_names
from mtlrun.lab.report.statistics import (
    greater_is_better,
    paired,
    paired_predictions,
    rank_groups,
    rank_rows,
)
from mtlrun.lab.stored import StoredInterpretation
from mtlrun.parallel.status import DONE, NOT_CONVERGED
from mtlrun.show.quantities import PARALLEL, spoken
from mtlrun.show.ranking import Ranking
from mtlrun.show.report_table import ReportTable, Section, number, show, significant
from mtlrun.stats import standard_error_factor, std

#: Smallest share of comparisons that hold for a claim to hold mostly.
MOSTLY = 0.8
#: Standard errors count as larger by this part. If one split alone makes the
#: difference, the standard error is the same number, and rounding must not decide.
ROUNDING = 1e-9
#: Quantities that measure convergence; a fit that did not converge still has a valid
#: one.
ACCURACY = ("gap",)
#: Smallest effect on the logarithm of a ratio of seconds over fewer than
#: `MIN_TIMED_SPLITS` splits: seconds of the same fit differ by up to a third.
TIMED_EFFECT = 0.3
MIN_TIMED_SPLITS = 3
#: Smallest share of the remaining change of a fit that did not converge by which its
#: number must differ from the bound.
CONVERGED_SHARE = 0.1
#: Quantities that grow during a fit; if it was stopped, they are lower bounds.
SECONDS = ("seconds", PARALLEL)
#: Bound of a number of a stopped run if the check does not say on which side the true
#: number lies.
_NO_BOUND = "none"
#: Suffix of the quantity that a stopped run has instead of the quantity it did not
#: reach.
_AT_LEAST = "_at_least"
#: Number of comparisons that a summary quotes.
MAX_QUOTED = 3


@dataclass
class JudgedRun:
    """Run under one interpretation, with its claims and published numbers judged.

    Attributes
    ----------
    run : Run
    rows : list of MethodResult
        Results of each method on each data set.
    groups : list of Ranking
        Rankings that the section `statistics` of the experiment asks for.
    name : str
        Name of the interpretation.
    about : StoredInterpretation or None
        Entry of the interpretation in the experiment; None without any.
    """

    run: Run
    rows: list[MethodResult]
    groups: list[Ranking] = field(default_factory=list)
    name: str = field(init=False)
    about: StoredInterpretation | None = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.run.experiment.reading
        self.about = self.run.experiment.readings.get(self.name)

    @classmethod
    def of(cls, run: Run) -> JudgedRun:
        """Return a run with its results and rankings."""
        rows = method_results(run)
        return cls(run, rows, rank_groups(run, rows))

    @cached_property
    def table(self) -> dict[tuple[str, str], MethodResult]:
        """Results by data set and method.

        Average ranks are included, with the group of data sets in place of the data
        set.
        """
        rows = [*self.rows, *rank_rows(self.groups)]
        return {(row.dataset, row.method): row for row in rows}

    @cached_property
    def claims(self) -> list[ClaimVerdict]:
        """Verdicts on the claims under this interpretation alone."""
        return [judge(claim, self) for claim in self.run.spec.claims]

    @cached_property
    def references(self) -> list[ReferenceVerdict]:
        """Published numbers next to ours."""
        return compare_references(self.run, self.table)


# ------------------------------------------------------------------------ claims


@dataclass(frozen=True)
class CheckResult:
    """Outcome of one comparison of a check.

    Attributes
    ----------
    text : str
        Compared quantities, with the computed number and the claimed bound.
    holds : bool or None
        None if the comparison cannot be made here, or if it is undecided.
    found : float or None
        Computed number; None if the comparison cannot be made.
    why : str or None
        Reason why the comparison cannot be made or is undecided.
    undecided : bool
        Whether the difference is too small, a bound is on the wrong side, fits did not
        converge, or a finished run lacks the number.
    check : Check or None
    dataset : str
        Data set, or group of data sets.
    bound : {"lower", "upper"} or None
        Whether the computed number is a lower or upper bound of the true one, because a
        run was stopped before its end.
    title : str
        Compared quantities, methods and data, without the numbers.
    """

    text: str
    holds: bool | None
    found: float | None = None
    why: str | None = None
    undecided: bool = False
    check: Check | None = None
    dataset: str = ""
    bound: str | None = None
    title: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of report.json."""
        return {
            "text": self.text,
            "holds": self.holds,
            "found": self.found,
            "why": self.why,
            "undecided": self.undecided,
            "check": self.check,
            "dataset": self.dataset,
            "bound": self.bound,
        }

    @property
    def is_tested(self) -> bool:
        """Whether the comparison could be made, decided or not."""
        return self.holds is not None or self.undecided

    @property
    def answer(self) -> str:
        """Outcome in one or two words."""
        if self.holds is not None:
            return "yes" if self.holds else "no"
        if self.undecided:
            return "undecided"
        return "not tested"


@dataclass(frozen=True)
class ClaimVerdict:
    """Claim with its verdict.

    Attributes
    ----------
    id, text : str
    where : str or None
        Table or figure of the paper.
    verdict : Verdict
    why : str
        Reason in one line.
    expect : str
        Verdict that the experiment expects.
    results : list of CheckResult
        Comparisons under the main interpretation.
    readings : dict of str to Verdict
        Verdict under each interpretation; empty without interpretations.
    compared_only : tuple of str
        Interpretations that do not count for the verdict.
    source : str
        One of `mtlrun.lab.experiment.claims.CLAIM_SOURCES`.
    claim : Claim or None
        Entry of the experiment.
    by_reading : dict of str to ClaimVerdict
        Claim under each interpretation; empty without interpretations.
    """

    id: str
    text: str
    where: str | None
    verdict: str
    why: str
    expect: str = Verdict.CONFIRMED
    results: list[CheckResult] = field(default_factory=list)
    readings: dict[str, str] = field(default_factory=dict)
    compared_only: tuple[str, ...] = ()
    source: str = "paper"
    claim: Claim | None = None
    by_reading: dict[str, ClaimVerdict] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of report.json."""
        return {
            "id": self.id,
            "text": self.text,
            "where": self.where,
            "verdict": self.verdict,
            "why": self.why,
            "expect": self.expect,
            "results": [result.to_dict() for result in self.results],
            "readings": self.readings,
            "compared_only": self.compared_only,
            "source": self.source,
            "accepted": self.accepted,
        }

    @property
    def place(self) -> str:
        """Table or figure of the claim, and its source if it is not the paper."""
        notes = {
            "other data": "tested on other data",
            "audit": "audit",
            "ours": "our own claim",
        }
        parts = [self.where, notes.get(self.source)]
        return ", ".join(filter(None, parts))

    @property
    def accepted(self) -> bool:
        """Whether `--check` accepts the verdict: it is expected, or nothing
        contradicts.
        """
        if self.verdict == self.expect:
            return True
        return all(result.holds is not False for result in self.results)

    @property
    def tested(self) -> int:
        """Number of comparisons that could be made."""
        return sum(result.is_tested for result in self.results)

    @property
    def holding(self) -> str:
        """Number of interpretations with each verdict, as text.

        For example ``holds under 2, does not hold under 1 of 3 interpretations``; empty
        with fewer than two. Interpretations that do not count for the verdict are
        included, and named if they differ from the most common verdict.
        """
        words = {}
        for name, verdict in self.readings.items():
            if verdict not in UNTESTED:
                words[name] = Verdict(verdict).singular
        if len(words) < 2:
            return ""
        counts = Counter(words.values()).most_common()
        most_common = counts[0][0]
        parts = [f"{word} under {count}" for word, count in counts]
        text = f"{', '.join(parts)} of {len(words)} interpretations"
        deviating = []
        for name in self.compared_only:
            if words.get(name, most_common) != most_common:
                deviating.append(name)
        if deviating:
            text += f" ({listed(deviating)} for comparison only)"
        return text

    @property
    def found(self) -> str:
        """Outcome in sentences, with the reason under the main interpretation."""
        reason = self.why.rstrip(".")
        if self.holding:
            return f"Under the main interpretation: {reason}. It {self.holding}."
        return f"Found: {reason}."

    @property
    def under_readings(self) -> str:
        """Verdict under each interpretation, as text."""
        parts = []
        for name, verdict in self.readings.items():
            part = f"{name}: {verdict_label(verdict)}"
            if name in self.compared_only:
                part += " (not counted)"
            parts.append(part)
        return "; ".join(parts)


def judge(claim: Claim, judged: JudgedRun) -> ClaimVerdict:
    """Judge a claim under one interpretation."""
    results: list[CheckResult] = []
    if not (claim.not_testable or claim.arithmetic):
        for check in claim.checks:
            results += evaluate(check, judged)
    return judge_results(claim, results)


def judge_results(claim: Claim, results: list[CheckResult]) -> ClaimVerdict:
    """Return the verdict on a claim from its comparisons."""
    verdict = verdict_of(results, conjunction=claim.all, usually=claim.usually)
    reason = _summary(results)
    if verdict == Verdict.UNTESTED:
        reasons = dict.fromkeys(result.why for result in results if result.why)
        reason = "; ".join(reasons) or "the claim has no checks"
        if claim.without_test is not None:
            verdict, reason = claim.without_test
    expected: str = Verdict.CONFIRMED
    if claim.expect:
        expected = claim.expect.verdict
    return ClaimVerdict(
        id=claim.id,
        text=claim.text,
        where=claim.where,
        verdict=verdict,
        why=reason,
        expect=expected,
        results=results,
        source=claim.source,
        claim=claim,
    )


def verdict_of(
    results: Sequence[CheckResult], *, conjunction: bool = False, usually: bool = False
) -> Verdict:
    """Return the verdict on a claim from its comparisons.

    A claim is confirmed if all comparisons hold, and mostly confirmed if 80% of them
    do. Comparisons that cannot be made count here, but not below: the claim is partly
    confirmed if more than half of the others hold, undecided if the undecided ones
    could still bring it above one half, and otherwise not confirmed.

    Parameters
    ----------
    results : sequence of CheckResult
    conjunction : bool, default=False
        Whether a single comparison that fails refutes the claim. It is then undecided
        while a comparison is undecided or cannot be made.
    usually : bool, default=False
        Whether the claim says that something is usually so: it is then confirmed if
        more than half of the comparisons hold.
    """
    n_holding = 0
    n_failing = 0
    n_undecided = 0
    for result in results:
        n_holding += result.holds is True
        n_failing += result.holds is False
        n_undecided += result.undecided
    n_made = n_holding + n_failing + n_undecided
    if not n_made:
        return Verdict.UNTESTED
    if n_holding == len(results):
        return Verdict.CONFIRMED
    if conjunction and n_failing:
        return Verdict.NOT_CONFIRMED
    if conjunction:
        return Verdict.UNDECIDED
    if usually and n_holding > n_made / 2:
        return Verdict.CONFIRMED
    if n_holding >= MOSTLY * len(results):
        return Verdict.MOSTLY
    if n_holding > n_made / 2:
        return Verdict.PARTLY
    if n_holding + n_undecided > n_made / 2:
        return Verdict.UNDECIDED
    return Verdict.NOT_CONFIRMED


def _summary(results: Sequence[CheckResult]) -> str:
    """Return the outcome in one line; a single comparison is quoted."""
    if len(results) == 1:
        return _with_reason(results[0])
    n_holding = sum(result.holds is True for result in results)
    failing = [result for result in results if result.holds is False]
    undecided = [result for result in results if result.undecided]
    n_made = n_holding + len(failing) + len(undecided)
    parts = [f"{n_holding} of {n_made} comparisons hold"]
    for introduction, group in (
        ("contradicted by", failing),
        ("undecided:", undecided),
    ):
        if group:
            quotes = "; ".join(map(_with_reason, group[:MAX_QUOTED]))
            if len(group) > MAX_QUOTED:
                quotes += f" and {len(group) - MAX_QUOTED} more"
            parts.append(f"{introduction} {quotes}")
    reasons: dict[str, None] = {}
    for result in results:
        if result.why and not result.undecided:
            reasons[str(result.why)] = None
    if reasons:
        parts.append(f"not tested, because {'; '.join(reasons)}")
    return "; ".join(parts)


def _with_reason(result: CheckResult) -> str:
    """Return the text of a comparison, with the reason if it is undecided."""
    if not result.undecided:
        return result.text
    if result.found is None:
        return f"{result.text}: {result.why}"
    return f"{result.text}, but {result.why}"


def tests_section(run: Run, claims: Sequence[ClaimVerdict]) -> Section:
    """Return all comparisons of an experiment of the kind ``test``, one per line.

    The section is empty for other experiments.
    """
    section = Section("Tests")
    if run.spec.kind != "test":
        return section
    table = ReportTable.of("claim", "comparison", "found:small", "holds")
    for claim in claims:
        for result in claim.results:
            text = result.text
            if result.why is not None:
                text += f": {result.why}"
            table.rows.append([claim.id, text, result.found, result.answer])
    section.grids.append(table)
    return section


# ------------------------------------------------------------------------ checks


def evaluate(check: Check, judged: JudgedRun) -> list[CheckResult]:
    """Make all comparisons of a check.

    There is one for each data set (or group of data sets), pair of methods and task
    that the check names.
    """
    labels = _datasets(check.dataset, judged.run)
    if check.ranked:
        labels = _groups(check, judged)
    results = []
    for label, reason in labels:
        if reason is None:
            outcomes = _evaluate_on(check, label, judged)
        else:
            title = check_title(check, label)
            outcomes = [CheckResult(title, None, why=reason, title=title)]
        for outcome in outcomes:
            results.append(replace(outcome, check=check, dataset=label))
    return results


def _evaluate_on(check: Check, label: str, judged: JudgedRun) -> list[CheckResult]:
    """Make the comparisons of a check on one data set or group."""
    if check.kind == "rejections":
        return [_rejections(check, _find_group(judged, label))]
    results = []
    tuples: list[tuple[str, ...]]
    if check.kind == "order":
        tuples = list(pairwise(check.methods))
    elif check.kind == "value":
        tuples = [(method,) for method in check.of]
    else:
        tuples = list(product(check.of, check.over))
    if check.unit == PREDICTION:
        for methods in tuples:
            results.append(_on_predictions(check, judged.run, label, methods))
        return results
    tasks: Sequence[str | None] = check.task or [None]
    for methods, task in product(tuples, tasks):
        results.append(_on_methods(check, label, methods, task, judged))
    return results


def _find_group(judged: JudgedRun, label: str) -> Ranking:
    return next(group for group in judged.groups if group.label == label)


def _datasets(named: Sequence[str], run: Run) -> Iterator[tuple[str, str | None]]:
    """Yield the labels of data sets, each with None.

    If a data set cannot be used, its name is yielded with the reason. Without names the
    data sets of the paper count, else all of them.
    """
    profile = "this run"
    if run.experiment.profile:
        profile = f"profile {run.experiment.profile}"
    content = f"{profile}: {data_names(run)}"
    names = named or run.experiment.paper_datasets or list(run.datasets)
    is_any_present = False
    for name in names:
        labels = []
        for label, dataset in run.datasets.items():
            if name in (label, dataset.id):
                labels.append(label)
        for label in labels:
            is_any_present = True
            yield label, None
        if not labels and named:
            yield name, f"data set {name} is not in this run ({content})"
    if not named and not is_any_present:
        datasets = run.datasets.values()
        if datasets and all(dataset.simulated for dataset in datasets):
            content += " (simulated)"
        reason = f"none of the paper's data sets is in this run ({content})"
        yield "the paper's data", reason


def _groups(check: Check, judged: JudgedRun) -> Iterator[tuple[str, str | None]]:
    """Yield the labels of groups of data sets, each with None.

    If a group cannot be used, its label is yielded with the reason.
    """
    label, reason = next(_datasets([], judged.run), ("", None))
    if reason is not None:
        yield label, reason
        return
    ranked = [group.label for group in judged.groups]
    for name in check.dataset or ranked or [ALL_DATA]:
        if name in ranked:
            yield name, None
        else:
            yield (
                name,
                f"{name}: fewer than two data sets with a number of every method",
            )


def _bound(
    check: Check, rows: Sequence[MethodResult | None], judged: JudgedRun
) -> str | None:
    """Return whether the number of a check is a bound of the true one.

    It is if the check says so. A check with a rule for stopped runs says so only if a
    run was stopped; without a side the bound is then `_NO_BOUND`.
    """
    if check.stopped is None:
        return check.bound
    for row in rows:
        if row is not None and _was_stopped(check.stopped, row, judged):
            return check.bound or _NO_BOUND
    return None


def _bound_of_unconverged(
    check: Check, rows: Sequence[MethodResult | None]
) -> str | None:
    """Return the bound of a ratio of seconds of which one method did not converge.

    A method that was stopped before it converged would have taken longer. If it is the
    slower one of the claim, the ratio is a lower bound of the speed-up.
    """
    if check.kind != "ratio" or check.quantity not in SECONDS:
        return None
    first, second = [row is not None and row.status == NOT_CONVERGED for row in rows]
    if first and not second:
        return "lower"
    if second and not first:
        return "upper"
    return None


def _bound_by_name(
    check: Check, rows: Sequence[MethodResult | None], run: Run
) -> str | None:
    """Return the bound of a quantity such as ``seconds_at_least``, for its text only.

    It equals another quantity of the same unit, such as ``seconds_to_1e-6``, where a
    run reached that tolerance. Where a run was stopped before, it is the time until
    then.
    """
    quantity = str(check.quantity)
    if not quantity.endswith(_AT_LEAST):
        return None
    if check.kind not in ("ratio", "difference", "value"):
        return None
    stem = quantity.removesuffix(_AT_LEAST)
    exact_names = [name for name in run.spec.metrics if name.startswith(f"{stem}_to_")]
    if not exact_names:
        return None
    exact = exact_names[0]
    is_late = []
    for row in rows:
        if row is None:
            is_late.append(False)
        else:
            is_late.append(len(row.by_trial(exact)) < len(row.by_trial(quantity)))
    is_first_late = is_late[0]
    # The second number is subtracted from the first, or divides it.
    is_second_late = any(is_late[1:])
    if is_first_late and is_second_late:
        return _NO_BOUND
    if is_second_late:
        return "upper"
    if is_first_late:
        return "lower"
    return None


def _was_stopped(stopped: Stopped, row: MethodResult, judged: JudgedRun) -> bool:
    """Return whether a run reached its limit, or fell short of another method."""
    value = row.value(stopped.quantity)
    if value is None:
        return False
    if stopped.below is not None:
        other = judged.table.get((row.dataset, stopped.below))
        if other is None:
            return False
        complete = other.value(stopped.quantity)
        return complete is not None and value < complete
    parameters = {}
    for method in judged.run.spec.methods:
        parameters[method.label] = method.params
    return bool(value >= parameters[row.method][str(stopped.at_least)])


def _on_methods(
    check: Check,
    dataset: str,
    methods: tuple[str, ...],
    task: str | None,
    judged: JudgedRun,
) -> CheckResult:
    """Compare the results of one or two methods, or the values of one of their
    tasks.
    """
    quantity = str(check.quantity)
    rows = [judged.table.get((dataset, method)) for method in methods]
    bound = _bound(check, rows, judged) or _bound_of_unconverged(check, rows)
    shown_bound = bound or _bound_by_name(check, rows, judged.run)
    if shown_bound == _NO_BOUND:
        shown_bound = None
    name = dataset
    if task is not None:
        name = f"{dataset}, {task}"
        if any(row is not None and row.of_task(task) is None for row in rows):
            title = check_title(check, name, methods)
            return CheckResult(
                title,
                None,
                why=f"no task {task!r} is known in {dataset}",
                bound=shown_bound,
                title=title,
            )
        rows = [row and row.of_task(task) for row in rows]
    title = check_title(check, name, methods)
    complete: list[MethodResult] = []
    for method, row in zip(methods, rows, strict=True):
        if row is None or row.value(quantity) is None:
            is_finished = row is not None and row.status in DONE
            if row is None:
                reason = f"{method} was not run on {name}"
            elif is_finished:
                reason = (
                    f"{method} on {name} has no {quantity}: it did not get there, "
                    "or it is not defined"
                )
            else:
                reason = f"no {quantity} of {method} on {name} ({row.status_text})"
            return CheckResult(
                title,
                None,
                why=reason,
                undecided=is_finished,
                bound=shown_bound,
                title=title,
            )
        complete.append(row)
    effect = check.effect
    if check.ranked and len(complete) > 1:
        # Differences of average ranks count beyond two standard errors, which follow
        # from the numbers of methods and data sets.
        standard_error = _find_group(judged, dataset).standard_error
        effect = max(effect or 0.0, standard_error_factor() * standard_error)
    greater = greater_is_better(quantity, judged.run)
    result = _compare(check, title, name, complete, greater, effect, bound)
    return replace(result, bound=shown_bound, title=title)


def _compare(
    check: Check,
    title: str,
    name: str,
    rows: Sequence[MethodResult],
    greater: bool,
    effect: float | None,
    bound: str | None,
) -> CheckResult:
    """Compare results that have a number each.

    Parameters
    ----------
    check : Check
    title : str
        What the check compares.
    name : str
        Data set, or data set and task.
    rows : sequence of MethodResult
    greater : bool
        Whether greater numbers are better.
    effect : float or None
        Smallest difference that counts; None for `smallest_effect`.
    bound : str or None
        Whether the number is a bound of the true one.
    """
    if check.kind == "paired":
        # Compare the p-value of a paired test with the claimed bounds.
        result = paired(
            rows[0], rows[1], str(check.quantity), check.unit, check.test, check.ties
        )
        if result is None or result.pvalue is None:
            return CheckResult(title, None, why="a single split gives no p-value")
        n_pairs = None
        if check.test == "wilcoxon":
            n_pairs = result.n
        is_worse = (
            result.mean_difference != 0 and (result.mean_difference > 0) != greater
        )
        worse = None
        if is_worse and check.at_most is not None:
            worse = rows[0].method
        return _decide(
            check, title, rows, result.pvalue, 0.0, bound, n_pairs=n_pairs, worse=worse
        )
    if check.kind == "order":
        return _compare_order(check, title, rows, effect, bound)
    if check.interval:
        return _compare_interval(check, title, name, rows[0])
    quantity = str(check.quantity)
    values = [row.value(quantity) or 0.0 for row in rows]
    if check.kind == "ratio":
        if values[1] == 0:
            reason = f"{quantity} of {rows[1].method} on {name} is 0"
            return CheckResult(title, None, why=reason)
        value = values[0] / values[1]
        if effect is None and check.is_size and is_time(quantity):
            # A size is rounded by more than seconds differ.
            effect = 0.0
        elif effect is None:
            effect = smallest_effect(quantity, rows, math.log)
        # The effect on the logarithm becomes one on the ratio itself, in the direction
        # of the nearest bound.
        low, high = check.bounds
        is_above_low = value >= low and value - low <= abs(high - value)
        if is_above_low or value > high:
            effect = -value * math.expm1(-effect)
        else:
            effect = value * math.expm1(effect)
    else:
        value = values[0] - sum(values[1:])
        if effect is None:
            effect = smallest_effect(quantity, rows)
    return _decide(check, title, rows, value, effect, bound)


def _compare_interval(
    check: Check, title: str, name: str, row: MethodResult
) -> CheckResult:
    """Compare a number that has an interval with the claimed bounds.

    The claim holds if the bounds contain the whole interval, and fails if they contain
    no part of it. Otherwise the measurement is too imprecise to decide.
    """
    value = row.value(str(check.quantity)) or 0.0
    ends = [row.value(end) for end in check.interval]
    low_end, high_end = ends
    if low_end is None or high_end is None:
        reason = f"{check.quantity} of {row.method} on {name} has no interval"
        return CheckResult(title, None, value, reason, undecided=True)
    text = (
        f"{title}: {number_text(check, value, 4)}, interval "
        f"{number_text(check, low_end, 4)} to {number_text(check, high_end, 4)} "
        f"({claimed_text(check)})"
    )
    text += _missing_splits([row])
    low, high = check.bounds
    if low <= low_end and high_end <= high:
        return CheckResult(text, True, value)
    if high_end < low or high < low_end:
        return CheckResult(text, False, value)
    reason = "the interval contains the claimed bound"
    return CheckResult(text, None, value, reason, undecided=True)


def _decide(
    check: Check,
    title: str,
    rows: Sequence[MethodResult],
    value: float,
    effect: float,
    bound: str | None,
    *,
    n_pairs: int | None = None,
    worse: str | None = None,
) -> CheckResult:
    """Compare a number with the claimed bounds.

    `worse` names a method that is significantly worse, against the claim.
    """
    margin = _margin(check, value)
    holds = margin >= 0
    text = f"{title}: {number_text(check, value, 4)} ({claimed_text(check)})"
    text += _missing_splits(rows)
    if holds and worse is not None:
        text += f", but {worse} is the worse one"
        holds = False
    reason = _unsettled(check, rows, value, margin, effect, holds, n_pairs, bound)
    return _result(text, holds, value, reason)


def _result(text: str, holds: bool, value: float, reason: str | None) -> CheckResult:
    """Return the outcome of a comparison, which a reason makes undecided."""
    if reason:
        return CheckResult(text, None, value, reason, undecided=True)
    return CheckResult(text, holds, value)


def _compare_order(
    check: Check,
    title: str,
    rows: Sequence[MethodResult],
    effect: float | None,
    bound: str | None,
) -> CheckResult:
    """Compare two neighbors of a claimed order."""
    quantity = str(check.quantity)
    first, second = [row.value(quantity) or 0.0 for row in rows]
    if effect is None:
        effect = smallest_effect(quantity, rows)
    sign = ">"
    margin = first - second
    if check.direction == "increasing":
        sign = "<"
        margin = -margin
    holds = margin > 0
    if not holds:
        sign = f"not {sign}"
    text = f"{title}: {significant(first, 4)} {sign} {significant(second, 4)}"
    text += _missing_splits(rows)
    difference = second - first
    reason = _unsettled(check, rows, difference, margin, effect, holds, None, bound)
    return _result(text, holds, difference, reason)


def _missing_splits(rows: Sequence[MethodResult]) -> str:
    """Return a note on the first method that lacks splits; empty without any."""
    for row in rows:
        if row.n < row.planned:
            return f", from {row.n} of {row.planned} splits"
    return ""


def is_time(quantity: str) -> bool:
    """Return whether a quantity is seconds, or a ratio of them."""
    return quantity.startswith("seconds") or quantity in (*SECONDS, "speedup")


def smallest_effect(
    quantity: str, rows: Sequence[MethodResult], of: Callable[[float], float] = float
) -> float:
    """Return two standard errors of the difference, the smallest one that counts.

    They are computed from the differences over the splits that all methods have, with
    Student's factor and a correction for overlapping training parts after Nadeau and
    Bengio; with a single split over its tasks, and for average ranks over the data
    sets.

    Parameters
    ----------
    quantity : str
    rows : sequence of MethodResult
    of : callable, default=float
        Transformation of the values, such as `math.log` for ratios.

    Returns
    -------
    float
        `TIMED_EFFECT` for the logarithm of seconds over fewer than `MIN_TIMED_SPLITS`
        splits; otherwise 0 if there are too few values.
    """
    samples = [row.by_trial(quantity) for row in rows]
    trials = []
    for trial in samples[0]:
        if all(trial in values for values in samples):
            trials.append(trial)
    if of is not float and is_time(quantity) and len(trials) < MIN_TIMED_SPLITS:
        return TIMED_EFFECT
    tuples: list[list[float | None]] = []
    for trial in trials:
        tuples.append([values[trial] for values in samples])
    # What overlapping training parts add to 1/n in the variance of a mean: the test
    # rows over the training rows, or the inverse where this is smaller, since random
    # parts of a share f < 1/2 of the rows have only f of their rows in common. It is 0
    # for analyses, which draw their data anew.
    overlap = 0.0
    n_train = rows[0].counts("n_train")
    n_test = rows[0].counts("n_test")
    has_overlap = len(tuples) > 1 and not is_time(quantity)
    if has_overlap and n_train and n_test and fmean(n_test):
        ratio = fmean(n_test) / fmean(n_train)
        overlap = min(ratio, 1.0 / ratio)
    if len(tuples) == 1 and rows[0].task is None:
        tasks = [row.tasks(quantity).get(trials[0], []) for row in rows]
        tuples = [list(values) for values in zip(*tasks, strict=False)]
    differences = []
    for values in tuples:
        # Values without a logarithm are left out.
        usable = [of(v) for v in values if v is not None and (of is float or v > 0)]
        if len(usable) == len(rows):
            differences.append(usable[0] - sum(usable[1:]))
    deviation = std(differences)
    if deviation is None:
        return 0.0
    n = len(differences)
    standard_error = deviation * math.sqrt(1.0 / n + overlap)
    return (1.0 + ROUNDING) * standard_error_factor(n) * standard_error


def _unsettled(
    check: Check,
    rows: Sequence[MethodResult],
    value: float,
    margin: float,
    effect: float,
    holds: bool,
    n_pairs: int | None,
    bound: str | None,
) -> str | None:
    """Return the reason why a comparison is undecided; None if it decides.

    `n_pairs` is the number of pairs of a signed-rank test.
    """
    low, high = check.bounds
    if n_pairs is not None:
        smallest_pvalue = 2.0 ** (1 - n_pairs)
        limit = low
        if check.at_least is None:
            limit = high
        if smallest_pvalue >= limit:
            pvalue = show(smallest_pvalue, "small")
            return f"{n_pairs} pairs give no p-value below {pvalue}"
    is_bound = bound is not None and bound == _bound_of_unconverged(check, rows)
    if not is_bound and check.quantity not in ACCURACY:
        for row in rows:
            if row.status != NOT_CONVERGED:
                continue
            # The number can still change by what the check states, or for objectives
            # by the certified gap; otherwise there is no limit.
            change = math.inf
            gap = row.value("gap")
            if check.drift is not None:
                change = check.drift
            elif check.quantity == "objective" and gap is not None:
                change = gap * abs(row.value("objective") or 0.0)
            if CONVERGED_SHARE * abs(margin) <= change:
                n_fits = counted(row.planned, "fit")
                return f"{row.affected} of {n_fits} of {row.method} did not converge"
    if abs(margin) < effect:
        distance = distance_text(check, margin)
        size = size_text(check, effect)
        relation = "no more than"
        if abs(margin) < effect * (1.0 - 2.0 * ROUNDING):
            relation = "less than"
        return f"{distance}, {relation} the {size} that we count as a difference"
    if bound == _NO_BOUND:
        return "a run was stopped"
    if bound is None:
        return None
    if check.is_size:
        # A bound beyond the claimed size contradicts it, and otherwise says nothing.
        if bound == "lower":
            is_beyond = value > high
        else:
            is_beyond = value < low
        if is_beyond:
            return None
        return f"{check.quantity} is a bound, which can only lie beyond a size"
    # A lower bound can show that a number is large enough, and an upper bound that it
    # is small enough.
    shows_large = holds == (check.at_least is not None)
    if shows_large != (bound == "lower"):
        return f"{check.quantity} is a bound, which can decide the other side only"
    return None


def _on_predictions(
    check: Check, run: Run, dataset: str, methods: tuple[str, ...]
) -> CheckResult:
    """Test the stored scores of two methods on each split.

    The split that contradicts the claimed bound most decides.
    """
    title = check_title(check, dataset, methods)
    tests = paired_predictions(
        run, dataset, methods[0], methods[1], check.test, check.ties
    )
    pvalues = [test.pvalue for test in tests if test.pvalue is not None]
    if not pvalues:
        reason = f"no predictions of {' and '.join(methods)} on {dataset} were kept"
        return CheckResult(title, None, why=reason, title=title)
    if check.at_least is None:
        word = "largest"
        pvalue = max(pvalues)
    else:
        word = "smallest"
        pvalue = min(pvalues)
    n_splits = counted(len(pvalues), "split")
    n_pairs = counted(max(test.n for test in tests), "pair")
    text = (
        f"{title}: {word} p-value {show(pvalue, 'small')} of {n_splits} of up to "
        f"{n_pairs} ({claimed_text(check)})"
    )
    holds = all(_margin(check, split_pvalue) >= 0 for split_pvalue in pvalues)
    return CheckResult(text, holds, pvalue, title=title)


def _rejections(check: Check, group: Ranking) -> CheckResult:
    """Count the methods that rank significantly worse than the control."""
    title = check_title(check, f"{group.label} ({len(group.blocks)} data sets)")
    ranking = replace(group, control=check.control)
    if not ranking.tests:
        reason = f"{check.control} has no rank"
        return CheckResult(title, None, why=reason, title=title)
    methods = []
    for name, _ in ranking.tests:
        if not check.over or name in check.over:
            methods.append(name)
    n_worse = len(set(ranking.worse) & set(methods))
    return CheckResult(
        f"{title}: {n_worse} of {len(methods)} ({claimed_text(check)})",
        _margin(check, n_worse) >= 0,
        float(n_worse),
        title=title,
    )


def _margin(check: Check, value: float) -> float:
    """Return the distance of a number to its nearest bound; negative outside."""
    low, high = check.bounds
    return min(value - low, high - value)


# ------------------------------------------------------------------------ texts

#: Whole numbers and factors from here on are written with commas.
MIN_WITH_COMMAS = 1_000


def distance_text(check: Check, margin: float) -> str:
    """Return how far a number is inside or outside the claimed bound, as text."""
    distance = size_text(check, abs(margin))
    if check.kind == "order":
        return f"they differ by {distance}"
    verb = "keeps"
    if margin < 0:
        verb = "misses"
    return f"it {verb} the claimed bound by {distance}"


def size_text(check: Check, value: float) -> str:
    """Format the size of a difference."""
    if _is_in_points(check):
        return f"{100 * value:.2g} points"
    return show(value, "small")


def claimed_text(check: Check) -> str:
    """Return the claimed bounds, for the parentheses behind a computed number."""
    text = f"claimed: {bounds_text(check)}"
    if check.is_size:
        low, high = check.bounds
        text += f", so {low:.3g} to {high:.3g}"
    return text


def bounds_text(check: Check) -> str:
    """Return the claimed bounds as text.

    Examples are ``at least 77 times``, ``faster`` and ``at most 1.22 points lower``.
    """
    if check.about is not None:
        return f"about {number_text(check, check.about)}"
    if check.orders is not None:
        return f"{check.orders:g} orders of magnitude"
    low = check.at_least
    high = check.at_most
    if low is not None and low == high:
        return number_text(check, low)
    parts = []
    if low is not None:
        parts.append(_bound_text(check, low, is_lower=True))
    if high is not None:
        parts.append(_bound_text(check, high, is_lower=False))
    return " and ".join(parts)


def _bound_text(check: Check, value: float, *, is_lower: bool) -> str:
    """Return a lower or upper bound as text."""
    bound = "at most"
    opposite = "at least"
    excluded = "higher"
    if is_lower:
        bound, opposite = opposite, bound
        excluded = "lower"
    if check.kind == "ratio" and value == 1:
        quantity = str(check.quantity)
        is_speed = quantity.startswith("seconds") or quantity == "speedup"
        if is_speed or check.bounds[0] > 1:
            return "faster" if is_lower else "not faster"
        return f"{spoken(quantity)} not {excluded}"
    if check.kind != "difference":
        return f"{bound} {number_text(check, value)}"
    if value == 0:
        return f"not {excluded}"
    if value < 0:
        return f"{opposite} {number_text(check, -value)} lower"
    return f"{bound} {number_text(check, value)} higher"


def _is_in_points(check: Check) -> bool:
    """Return whether a number is a difference of shares, written in percentage
    points.
    """
    quantity = str(check.quantity)
    if quantity in SHARE_DIFFERENCES:
        return True
    if check.kind != "difference":
        return False
    if quantity in SHARES:
        return True
    return quantity in METRIC_INFO and METRIC_INFO[quantity].greater_is_better


def number_text(check: Check, value: float, digits: int = 0) -> str:
    """Format a number of a check.

    Parameters
    ----------
    check : Check
    value : float
    digits : int, default=0
        Number of significant digits of a computed number; 0 for a number of the
        experiment file, which is written as it stands there.
    """
    if check.kind == "ratio":
        factor = f"{value:g}"
        if digits:
            factor = significant(value, digits)
        if MIN_WITH_COMMAS <= value < 1e6:
            factor = f"{float(factor):,.0f}"
        return f"{factor} times"
    if _is_in_points(check):
        points = 100 * value
        # A computed difference has two decimals, however large it is.
        if digits:
            return f"{points:.2f} points"
        return f"{points:.3g} points"
    if value >= MIN_WITH_COMMAS and value == int(value):
        return f"{value:,.0f}"
    if not digits or check.kind == "rejections":
        return f"{value:g}"
    if check.kind == "paired":
        return show(value, "small")
    return number(value, digits)


def check_title(check: Check, dataset: str, methods: tuple[str, ...] = ()) -> str:
    """Return what a check compares, as text."""
    if check.kind == "rejections":
        methods_text = "methods"
        if check.over:
            methods_text += f" among {', '.join(check.over)}"
        return (
            f"{methods_text} that rank significantly worse than {check.control} "
            f"on {dataset}"
        )
    names = list(methods)
    if not names:
        groups = [check.of, check.over, check.methods]
        names = [", ".join(group) for group in groups if group]
    separators = {
        "ratio": " / ",
        "difference": " minus ",
        "paired": " against ",
        "order": ", ",
    }
    separator = separators.get(check.kind, "")
    title = f"{check.quantity or 'predictions'} of {separator.join(names)}"
    if check.kind == "paired":
        title = f"p-value of {title} by {check.unit}"
    return f"{title} on {dataset}"
