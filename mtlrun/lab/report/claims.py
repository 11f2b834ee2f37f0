"""What the paper claims and prints, and what the numbers of a run say about it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any

from mtlrun.engine.averages import std
from mtlrun.engine.interfaces import METRIC_INFO
from mtlrun.engine.record import DONE, NOT_CONVERGED
from mtlrun.errors import counted, listed
from mtlrun.lab.report.cells import MethodResult, Run
from mtlrun.lab.report.checks import (
    ALL_DATA,
    PREDICTION,
    SHARE_DIFFERENCES,
    SHARES,
    Check,
    Claim,
    Stopped,
    Verdict,
    said,
)
from mtlrun.lab.report.statistics import (
    greater_is_better,
    paired,
    paired_predictions,
    rank_rows,
)
from mtlrun.tables.quantities import PARALLEL, spoken
from mtlrun.tables.ranking import Ranking
from mtlrun.tables.report_table import ReportTable, Section, number, show, significant
from mtlrun.utils.io import as_list

#: Share of the comparisons from which on a claim holds mostly.
MOSTLY = 0.8
#: Quantities that say how well a fit converged: they need not have converged.
ACCURACY = ("gap",)
#: Quantities that grow while a fit goes on: of one that was stopped, they are a bound.
SECONDS = ("seconds", PARALLEL)
# What a number of a run that was stopped is, where a check says nothing of it.
_NO_BOUND = "none"
# How the quantity ends that a run which was stopped has in the place of one it did not come to.
_AT_LEAST = "_at_least"
#: From here on whole numbers have commas.
THOUSAND = 10_000


@dataclass(frozen=True)
class Evidence:
    """What claims and reference numbers are judged on.

    Attributes
    ----------
    run : Run
    rows : list of MethodResult
        The table.
    groups : list of Ranking
        Those of the section `statistics`.
    """

    run: Run
    rows: list[MethodResult]
    groups: list[Ranking] = field(default_factory=list)

    @cached_property
    def table(self) -> dict[tuple[str, str], MethodResult]:
        """Rows by data set and method; the average ranks have the groups of data sets in the place of data sets."""
        return {(r.dataset, r.method): r for r in (*self.rows, *rank_rows(self.groups))}


# ---------------------------------------------------------------- claims


@dataclass(frozen=True)
class CheckResult:
    """One comparison of one check on one data set.

    Attributes
    ----------
    text : str
        What was compared, with the number found and the bound.
    holds : bool or None
        None when it cannot be tested here, or was tested and is undecided.
    found : float or None
        The number found; None when it cannot be tested.
    why : str or None
        Why it cannot be tested or is undecided.
    undecided : bool
        The difference is too small, a bound is on the wrong side, fits did not converge, or a finished run has no such
        number.
    check : Check or None
    dataset : str
        Where it was evaluated.
    bound : {"lower", "upper"} or None
        What the number found is where a run was stopped before its end: the true number lies above or below it.
    """

    text: str
    holds: bool | None
    found: float | None = None
    why: str | None = None
    undecided: bool = False
    check: Check | None = None
    dataset: str = ""
    bound: str | None = None

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
    def answer(self) -> str:
        """Whether it holds, in a word."""
        if self.holds is None:
            return "undecided" if self.undecided else "not tested"
        return "yes" if self.holds else "no"


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
    results : list of CheckResult
        Under the main reading.
    readings : dict of str to Verdict
        Verdict under every reading; {} without readings.
    compared_only : tuple of str
        Readings that decide nothing.
    source : str
        One of `mtlrun.lab.report.checks.CLAIM_SOURCES`.
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
        """Where the paper makes the claim, and whether it is tested on other data or is our own."""
        added = {
            "other data": "tested on other data",
            "audit": "audit",
            "ours": "our own claim",
        }
        return ", ".join(filter(None, [self.where, added.get(self.source)]))

    @property
    def accepted(self) -> bool:
        """Whether `--check` is content: nothing here speaks against the claim, or that was expected."""
        return self.verdict == self.expect or not any(
            f.holds is False for f in self.results
        )

    @property
    def tested(self) -> int:
        """Comparisons that could be made."""
        return sum(f.holds is not None or f.undecided for f in self.results)

    @property
    def holding(self) -> str:
        """Under how many readings it holds: ``holds under 2, does not hold under 1 of 3 interpretations``.

        "" with a single one. Readings that decide nothing are counted, and named where they differ from most.
        """
        judged = {
            name: Verdict(word).one
            for name, word in self.readings.items()
            if word != Verdict.NOT_TESTABLE
        }
        if len(judged) < 2:
            return ""
        counts = Counter(judged.values()).most_common()
        told = ", ".join(f"{word} under {count}" for word, count in counts)
        apart = [
            name
            for name in self.compared_only
            if judged.get(name, counts[0][0]) != counts[0][0]
        ]
        note = f" ({listed(apart)} for comparison only)" if apart else ""
        return f"{told} of {len(judged)} interpretations{note}"

    @property
    def found(self) -> str:
        """What was found, in sentences; `why` is that of the main reading, where there are several."""
        start, holding = (
            ("Under the main interpretation", f" It {self.holding}.")
            if self.holding
            else ("Found", "")
        )
        return f"{start}: {self.why.rstrip('.')}.{holding}"

    @property
    def under_readings(self) -> str:
        """Its verdict under every reading."""
        apart = dict.fromkeys(self.compared_only, " (not counted)")
        return "; ".join(
            f"{name}: {said(verdict)}{apart.get(name, '')}"
            for name, verdict in self.readings.items()
        )


def judge(claim: Claim, evidence: Evidence) -> ClaimVerdict:
    """Judge one claim under one reading (`verdict_of`)."""
    checks = [] if claim.not_testable else claim.checks
    results = [result for check in checks for result in evaluate(check, evidence)]
    verdict = verdict_of(results, conjunction=claim.all, usually=claim.usually)
    why = _summary(results)
    if verdict == Verdict.NOT_TESTABLE:
        reasons = dict.fromkeys(result.why for result in results if result.why)
        why = claim.not_testable or "; ".join(reasons) or "the claim has no checks"
    expect = claim.expect.verdict if claim.expect else Verdict.CONFIRMED
    return ClaimVerdict(
        claim.id,
        claim.text,
        claim.where,
        verdict,
        why,
        expect,
        results,
        source=claim.source,
    )


def verdict_of(
    results: Sequence[CheckResult], *, conjunction: bool = False, usually: bool = False
) -> Verdict:
    """Return the verdict on a claim from its comparisons.

    Confirmed when all of them hold; mostly from 80% on, and partly above one half, of those that could be made (of all
    of them for mostly). Undecided when the undecided ones could still carry it over one half; else not confirmed. A
    `conjunction` is not confirmed as soon as one comparison fails, and undecided as long as one is undecided or could
    not be made. A statement on what is `usually` so is confirmed above one half.
    """
    good = sum(f.holds is True for f in results)
    bad = sum(f.holds is False for f in results)
    open_ = sum(f.undecided for f in results)
    made = good + bad + open_
    if not made:
        return Verdict.NOT_TESTABLE
    if good == len(results):
        return Verdict.CONFIRMED
    if conjunction:
        return Verdict.NOT_CONFIRMED if bad else Verdict.UNDECIDED
    if usually and good > made / 2:
        return Verdict.CONFIRMED
    if good >= MOSTLY * len(results):
        return Verdict.MOSTLY
    if good > made / 2:
        return Verdict.PARTLY
    return Verdict.UNDECIDED if good + open_ > made / 2 else Verdict.NOT_CONFIRMED


def _summary(results: Sequence[CheckResult]) -> str:
    """Say in one line what was found; a single comparison is quoted."""
    if len(results) == 1:
        (one,) = results
        return _with_reason(one)
    good, bad = ([f for f in results if f.holds is holds] for holds in (True, False))
    undecided = [f for f in results if f.undecided]
    parts = [f"{len(good)} of {len(good) + len(bad) + len(undecided)} comparisons hold"]
    for name, some in (("contradicted by", bad), ("undecided:", undecided)):
        if some:
            more = f" and {len(some) - 3} more" if len(some) > 3 else ""
            parts.append(f"{name} {'; '.join(map(_with_reason, some[:3]))}{more}")
    reasons = dict.fromkeys(f.why for f in results if f.why and not f.undecided)
    if reasons:
        parts.append("not tested, because " + "; ".join(map(str, reasons)))
    return "; ".join(parts)


def _with_reason(result: CheckResult) -> str:
    """Return what was compared, and why that decides nothing."""
    if not result.undecided:
        return result.text
    return (
        f"{result.text}, but {result.why}"
        if result.found is not None
        else f"{result.text}: {result.why}"
    )


def tests_section(run: Run, claims: Sequence[ClaimVerdict]) -> Section:
    """Return every comparison behind the claims of an experiment of the kind ``test``, a line each; else nothing."""
    section = Section("Tests")
    if run.info.get("kind") != "test":
        return section
    grid = ReportTable.of("claim", "comparison", "found:small", "holds")
    for claim in claims:
        for result in claim.results:
            text = result.text if result.why is None else f"{result.text}: {result.why}"
            grid.rows.append([claim.id, text, result.found, result.answer])
    section.grids.append(grid)
    return section


# ---------------------------------------------------------------- checks


def evaluate(check: Check, evidence: Evidence) -> list[CheckResult]:
    """Evaluate one check on every data set (or group of them), pair of methods and task that it names."""
    results = []
    for place, why in (
        _groups(check, evidence)
        if check.ranked
        else _datasets(check.dataset, evidence.run)
    ):
        if why is not None:
            found = [CheckResult(_title(check, place), None, why=why)]
        elif check.kind == "rejections":
            found = [
                _rejections(check, next(g for g in evidence.groups if g.label == place))
            ]
        elif check.unit == PREDICTION:
            found = [
                _on_predictions(check, evidence.run, place, methods)
                for methods in _method_tuples(check)
            ]
        else:
            tasks: Sequence[str | None] = check.task or [None]
            asked = product(_method_tuples(check), tasks)
            found = [
                _on_methods(check, place, methods, task, evidence)
                for methods, task in asked
            ]
        results += [replace(one, check=check, dataset=place) for one in found]
    return results


def _datasets(named: Sequence[str], run: Run) -> Iterator[tuple[str, str | None]]:
    """Yield the labels of the data sets to look at, or a name with the reason why it cannot be looked at."""
    ran = run.datasets
    profile = f"profile {run.profile}" if run.profile else "this run"
    found = False
    for name in named or as_list(run.info.get("paper_datasets")) or list(ran):
        labels = [
            label for label, facts in ran.items() if name in (label, facts.get("id"))
        ]
        found = found or bool(labels)
        yield from ((label, None) for label in labels)
        if not labels and named:
            yield (
                name,
                f"data set {name} is not in this run ({profile}: {run.names_of_data})",
            )
    if not named and not found:
        simulated = (
            " (simulated)"
            if ran and all(f.get("simulated") for f in ran.values())
            else ""
        )
        why = f"none of the paper's data sets is in this run ({profile}: {run.names_of_data}{simulated})"
        yield "the paper's data", why


def _groups(check: Check, evidence: Evidence) -> Iterator[tuple[str, str | None]]:
    """Yield the labels of the groups of data sets to look at, or a name with the reason why it cannot be looked at."""
    ranked = [g.label for g in evidence.groups]
    place, why = next(_datasets([], evidence.run), ("", None))
    for name in check.dataset or ranked or [ALL_DATA]:
        if why is not None:
            yield place, why
            return
        yield (
            name,
            None
            if name in ranked
            else f"{name}: fewer than two data sets with a number of every method",
        )


def _method_tuples(check: Check) -> list[tuple[str, ...]]:
    if check.kind == "order":
        return list(pairwise(check.methods))
    return (
        [(m,) for m in check.of]
        if check.kind == "value"
        else list(product(check.of, check.over))
    )


def _bound(
    check: Check, group: Sequence[MethodResult | None], evidence: Evidence
) -> str | None:
    """Return what the number of a check on some rows is: a bound where it says so and, with `stopped`, one of them was.

    `_NO_BOUND`: one was stopped, and the check does not say on which side the true number lies.
    """
    if check.stopped is None:
        return check.bound
    late = any(
        row is not None and _was_stopped(check.stopped, row, evidence) for row in group
    )
    return check.bound or _NO_BOUND if late else None


def _bound_of_unconverged(
    check: Check, group: Sequence[MethodResult | None]
) -> str | None:
    """Return which bound a ratio of seconds is where one of its two methods did not converge.

    A method that was stopped before it converged would have taken longer. If it is the
    slower one of the claim, the ratio is a lower bound of the speed-up.
    """
    if check.kind != "ratio" or check.quantity not in SECONDS:
        return None
    first, second = (row is not None and row.status == NOT_CONVERGED for row in group)
    if first == second:
        return None
    return "lower" if first else "upper"


def _bound_by_name(
    check: Check, group: Sequence[MethodResult | None], run: Run
) -> str | None:
    """Say how a number is told whose quantity is called ``seconds_at_least``; it decides as any other.

    That is another quantity of the same unit, ``seconds_to_1e-6``, where a run has it, and else what the run had used
    when it was stopped.
    """
    quantity = str(check.quantity)
    stem = quantity.removesuffix(_AT_LEAST)
    exact = next((name for name in run.metrics if name.startswith(f"{stem}_to_")), None)
    if (
        stem == quantity
        or exact is None
        or check.kind not in ("ratio", "difference", "value")
    ):
        return None
    late = [
        row is not None and len(row.by_trial(exact)) < len(row.by_trial(quantity))
        for row in group
    ]
    if not any(late):
        return None
    first, *others = late
    if any(others):  # the second number is taken off the first one, or divides it
        return _NO_BOUND if first else "upper"
    return "lower"


def _was_stopped(stopped: Stopped, row: MethodResult, evidence: Evidence) -> bool:
    """Whether a row reached the limit that it was given, or fell short of another method."""
    value = row.value(stopped.quantity)
    if value is None:
        return False
    if stopped.below is not None:
        other = evidence.table.get((row.dataset, stopped.below))
        whole = None if other is None else other.value(stopped.quantity)
        return whole is not None and value < whole
    methods = {
        m.get("label"): m.get("params") or {}
        for m in as_list(evidence.run.config.get("methods"))
    }
    return bool(value >= methods[row.method][stopped.at_least])


def _on_methods(
    check: Check,
    dataset: str,
    methods: tuple[str, ...],
    task: str | None,
    evidence: Evidence,
) -> CheckResult:
    """Compare the rows of one or two methods, or the values of one task in them."""
    group, where, quantity = (
        [evidence.table.get((dataset, m)) for m in methods],
        dataset,
        str(check.quantity),
    )
    bound = _bound(check, group, evidence) or _bound_of_unconverged(check, group)
    told = bound or _bound_by_name(check, group, evidence.run)
    told = None if told == _NO_BOUND else told
    if task is not None:
        where = f"{dataset}, {task}"
        if any(row is not None and task not in row.task_names for row in group):
            why = f"no task {task!r} is known in {dataset}"
            return CheckResult(_title(check, where, methods), None, why=why, bound=told)
        group = [row and row.of_task(task) for row in group]
    rows = []
    for method, row in zip(methods, group, strict=True):
        if row is None or row.value(quantity) is None:
            finished = row is not None and row.status in DONE
            if row is None:
                lacking = f"{method} was not run on {where}"
            elif finished:
                lacking = f"{method} on {where} has no {quantity}: it did not get there, or it is not defined"
            else:
                lacking = f"no {quantity} of {method} on {where} ({row.status_text})"
            return CheckResult(
                _title(check, where, methods),
                None,
                why=lacking,
                undecided=finished,
                bound=told,
            )
        rows.append(row)
    effect = check.effect
    if (
        check.ranked and len(rows) > 1
    ):  # differences of average ranks count beyond their standard error
        effect = max(
            effect or 0.0,
            next(g.standard_error for g in evidence.groups if g.label == dataset),
        )
    greater = greater_is_better(quantity, evidence.run)
    result = _compared(
        check, _title(check, where, methods), where, rows, greater, effect, bound
    )
    return replace(result, bound=told)


def _compared(
    check: Check,
    title: str,
    where: str,
    rows: Sequence[MethodResult],
    greater: bool,
    effect: float | None,
    bound: str | None,
) -> CheckResult:
    """Compare rows that have a number each.

    `greater` says whether greater numbers are better, `effect` is the smallest difference that counts (None:
    `smallest_effect`), `bound` what the number is where it is not the true one.
    """
    kind, quantity = check.kind, str(check.quantity)
    values = [r.value(quantity) or 0.0 for r in rows]
    short = next(
        (f", from {r.n} of {r.planned} splits" for r in rows if r.n < r.planned), ""
    )
    pairs, worse = None, False
    if kind == "paired":
        result = paired(rows[0], rows[1], quantity, check.unit, check.test, check.ties)
        if result is None or result.pvalue is None:
            return CheckResult(title, None, why="a single split gives no p-value")
        found, effect = result.pvalue, 0.0
        pairs = result.n if check.test == "wilcoxon" else None
        worse = result.mean_difference != 0 and (result.mean_difference > 0) != greater
    elif kind == "ratio":
        if values[1] == 0:
            return CheckResult(
                title, None, why=f"{quantity} of {rows[1].method} on {where} is 0"
            )
        found = values[0] / values[1]
        effect = found * (
            smallest_effect(quantity, rows, math.log) if effect is None else effect
        )
    else:
        found = values[0] - sum(values[1:])
        effect = smallest_effect(quantity, rows) if effect is None else effect
    if kind == "order":
        increasing = check.direction == "increasing"
        margin = -found if increasing else found
        sign = ("" if margin > 0 else "not ") + ("<" if increasing else ">")
        text = f"{title}: {significant(values[0], 4)} {sign} {significant(values[1], 4)}{short}"
        found, holds = values[1] - values[0], margin > 0
    else:
        margin = _margin(check, found)
        text, holds = (
            f"{title}: {number_text(check, found, 4)} ({_claimed(check)}){short}",
            margin >= 0,
        )
        if (
            holds and worse and check.at_most is not None
        ):  # a significant difference, but against the claim
            text, holds = f"{text}, but {rows[0].method} is the worse one", False
    unsettled = _unsettled(check, rows, found, margin, effect, holds, pairs, bound)
    return CheckResult(
        text, None if unsettled else holds, found, unsettled, undecided=bool(unsettled)
    )


def smallest_effect(
    quantity: str, rows: Sequence[MethodResult], of: Callable[[float], float] = float
) -> float:
    """Return one standard error: the smallest difference that counts where a check does not say another.

    It is that of the differences (of logarithms, for ratios) between the rows over the splits that all of them have;
    with a single split, over its tasks, and of average ranks over the data sets. 0 where none can be had.
    """
    samples = [row.by_trial(quantity) for row in rows]
    trials = [t for t in samples[0] if all(t in values for values in samples)]
    pairs: list[list[float | None]] = [
        [values[t] for values in samples] for t in trials
    ]
    if len(pairs) == 1 and rows[0].task is None:
        tasks = [row.tasks(quantity).get(trials[0], []) for row in rows]
        pairs = [list(values) for values in zip(*tasks, strict=False)]
    numbers = [
        [of(v) for v in pair if v is not None and (of is float or v > 0)]
        for pair in pairs
    ]
    differences = [
        pair[0] - sum(pair[1:]) for pair in numbers if len(pair) == len(rows)
    ]
    spread = std(differences)
    return 0.0 if spread is None else spread / math.sqrt(len(differences))


def _unsettled(
    check: Check,
    rows: Sequence[MethodResult],
    found: float,
    margin: float,
    effect: float,
    holds: bool,
    pairs: int | None,
    bound: str | None,
) -> str | None:
    """Say why a comparison, or a signed-rank test of so many pairs, is undecided; None when it decides."""
    quantity, (low, high) = check.quantity, check.bounds
    if pairs is not None and (least := 2.0 ** (1 - pairs)) >= (
        high if check.at_least is None else low
    ):
        return f"{pairs} pairs give no p-value below {show(least, 'small')}"
    is_bound = bound is not None and bound == _bound_of_unconverged(check, rows)
    for row in [] if is_bound else rows:
        if (
            row.status == NOT_CONVERGED
            and quantity not in ACCURACY
            and abs(margin) <= _remaining_change(check, row)
        ):
            return f"{row.affected} of {counted(row.planned, 'fit')} of {row.method} did not converge"
    if abs(margin) < effect:
        return f"{_distance(check, margin)}, less than the {_size(check, effect)} that we count as a difference"
    if bound == _NO_BOUND:
        return "a run was stopped"
    if (
        bound is not None and check.about is not None
    ):  # beyond the size on its own side it contradicts it
        beyond = found > high if bound == "lower" else found < low
        return (
            None
            if beyond
            else f"{quantity} is a bound, which can only lie beyond a size"
        )
    # A lower bound can show that something is large enough, an upper one that it is small enough.
    if bound is not None and (holds == (check.at_least is not None)) != (
        bound == "lower"
    ):
        return f"{quantity} is a bound, which can decide the other side only"
    return None


def _remaining_change(check: Check, row: MethodResult) -> float:
    """Return how far the number of a row that did not converge can still move.

    As the check says, or for objectives by the certified gap; else without a limit.
    """
    if check.drift is not None:
        return check.drift
    gap = row.value("gap")
    if check.quantity != "objective" or gap is None:
        return math.inf
    return gap * abs(row.value("objective") or 0.0)


def _on_predictions(
    check: Check, run: Run, dataset: str, methods: tuple[str, ...]
) -> CheckResult:
    """Test the kept scores split by split; the split that speaks most against the bound decides."""
    title = _title(check, dataset, methods)
    tests = paired_predictions(
        run, dataset, methods[0], methods[1], check.test, check.ties
    )
    values = [t.pvalue for t in tests if t.pvalue is not None]
    if not values:
        return CheckResult(
            title,
            None,
            why=f"no predictions of {' and '.join(methods)} on {dataset} were kept",
        )
    extreme, word = (max, "largest") if check.at_least is None else (min, "smallest")
    found = extreme(values)
    splits = f"{counted(len(values), 'split')} of up to {counted(max(t.n for t in tests), 'pair')}"
    text = f"{title}: {word} p-value {show(found, 'small')} of {splits} ({_claimed(check)})"
    return CheckResult(text, all(_margin(check, value) >= 0 for value in values), found)


def _rejections(check: Check, group: Ranking) -> CheckResult:
    title = _title(check, f"{group.label} ({len(group.blocks)} data sets)")
    ranking = replace(group, control=check.control)
    if not ranking.tests:
        return CheckResult(title, None, why=f"{check.control} has no rank")
    among = [name for name, _ in ranking.tests if name in check.over or not check.over]
    found = len(set(ranking.worse) & set(among))
    return CheckResult(
        f"{title}: {found} of {len(among)} ({_claimed(check)})",
        _margin(check, found) >= 0,
        float(found),
    )


def _margin(check: Check, found: float) -> float:
    """Return how far a number is inside its bounds, negative outside."""
    low, high = check.bounds
    return min(found - low, high - found)


def _distance(check: Check, margin: float) -> str:
    """Say how far a number lies on which side of what is claimed."""
    distance = _size(check, abs(margin))
    if check.kind == "order":
        return f"they differ by {distance}"
    return f"it {'misses' if margin < 0 else 'keeps'} the claimed bound by {distance}"


def _size(check: Check, value: float) -> str:
    return f"{100 * value:.2g} points" if _points(check) else show(value, "small")


def _claimed(check: Check) -> str:
    low, high = check.bounds
    return f"claimed: {bounds_text(check)}{'' if check.about is None else f', so {low:g} to {high:g}'}"


def bounds_text(check: Check) -> str:
    """Say what a check asks for, as people do: ``at least 77 times``, ``faster``, ``at most 1.22 points lower``."""
    low, high = check.at_least, check.at_most
    if check.about is not None:
        return f"about {number_text(check, check.about)}"
    if low is not None and low == high:
        return number_text(check, low)
    parts = [
        (word, bound)
        for word, bound in (("at least", low), ("at most", high))
        if bound is not None
    ]
    return " and ".join(_in_words(check, word, bound) for word, bound in parts)


def _in_words(check: Check, word: str, value: float) -> str:
    least, quantity = word == "at least", str(check.quantity)
    if check.kind == "ratio" and value == 1:
        if (
            quantity.startswith("seconds")
            or quantity == "speedup"
            or check.bounds[0] > 1
        ):
            return "faster" if least else "not faster"
        return f"{spoken(quantity)} not {'lower' if least else 'higher'}"
    if check.kind != "difference":
        return f"{word} {number_text(check, value)}"
    if value == 0:
        return "not lower" if least else "not higher"
    if value < 0:
        return (
            f"{'at most' if least else 'at least'} {number_text(check, -value)} lower"
        )
    return f"{word} {number_text(check, value)} higher"


def _points(check: Check) -> bool:
    """Whether a number is the difference of two shares, to be told in points per cent."""
    quantity = str(check.quantity)
    facts = METRIC_INFO.get(quantity)
    share = quantity in SHARES or (facts is not None and facts.greater_is_better)
    return (check.kind == "difference" and share) or quantity in SHARE_DIFFERENCES


def number_text(check: Check, value: float, digits: int = 0) -> str:
    """Write a number as that of a check: as it is given, or one of ours with so many digits."""
    if check.kind == "ratio":
        return f"{significant(value, digits) if digits else f'{value:g}'} times"
    if _points(check):
        return f"{100 * value:{'.2f' if digits else '.3g'}} points"
    if value >= THOUSAND and value == int(value):
        return f"{value:,.0f}"
    if not digits or check.kind == "rejections":
        return f"{value:g}"
    return show(value, "small") if check.kind == "paired" else number(value, digits)


def _title(check: Check, dataset: str, methods: tuple[str, ...] = ()) -> str:
    """Say what a check compares."""
    kind = check.kind
    if kind == "rejections":
        among = f" among {', '.join(check.over)}" if check.over else ""
        return f"methods{among} that rank significantly worse than {check.control} on {dataset}"
    names = methods or [
        ", ".join(names) for names in (check.of, check.over, check.methods) if names
    ]
    joined = {
        "ratio": " / ",
        "difference": " minus ",
        "paired": " against ",
        "order": ", ",
    }.get(kind, "")
    prefix, unit = (
        ("p-value of ", f" by {check.unit}") if kind == "paired" else ("", "")
    )
    return f"{prefix}{check.quantity or 'predictions'} of {joined.join(names)}{unit} on {dataset}"
