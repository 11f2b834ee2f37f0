"""What became of the claims, in words: what the paper says, what we find, and a verdict, for people in a hurry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mtlrun.errors import counted
from mtlrun.interfaces import METRIC_FACTS
from mtlrun.report.cells import MethodResult
from mtlrun.report.checks import Verdict, spoken
from mtlrun.report.claims import CheckResult, ClaimVerdict
from mtlrun.report.grid import Grid, number, show, significant
from mtlrun.report.run import Run

#: Columns of the table of claims.
COLUMNS = ("claim", "printed", "ours", "verdict", "data")
#: Numbers of one claim that are told one by one; beyond, only how many comparisons hold. Data sets that are named.
MOST_NUMBERS, MOST_DATA = 3, 3
#: From here on whole numbers have commas.
THOUSAND = 10_000
#: Claims that the first lines of a report tell.
MOST_FINDINGS = 3
#: What the verdicts come to.
HOLD, PART, FAIL = "holds", "holds in part", "does not hold"
DEPENDS, UNDECIDED, UNTESTED = "depends on the interpretation", "is undecided", "was not tested here"
_PLURAL = {
    HOLD: "hold",
    PART: "hold in part",
    FAIL: "do not hold",
    DEPENDS: "depend on the interpretation",
    UNDECIDED: "are undecided",
    UNTESTED: "were not tested here",
}
GROUPS = {
    Verdict.CONFIRMED: HOLD,
    Verdict.MOSTLY: HOLD,
    Verdict.PARTLY: PART,
    Verdict.NOT_CONFIRMED: FAIL,
    Verdict.DEPENDS: DEPENDS,
    Verdict.UNDECIDED: UNDECIDED,
    Verdict.NOT_TESTABLE: UNTESTED,
}
#: Those that come to a decision.
DECIDED = (HOLD, PART, FAIL)
#: How a number is told that is a bound, by `CheckResult.bound`.
_BOUND_WORDS = {"lower": "at least ", "upper": "at most "}
#: Source of claims that are not those of a paper.
OURS = "ours"
#: The table of published numbers is not a data set.
PUBLISHED = "published"


def claim_row(run: Run, claim: ClaimVerdict) -> list[str]:
    """Return the columns `COLUMNS` of a claim."""
    printed, ours = numbers_of(claim)
    return [claim.text, printed, ours, _verdict(claim).said, data_of(run, claim)]


def claims_grid(run: Run, claims: Sequence[ClaimVerdict]) -> Grid:
    """Return the table of the claims of a run, a line each."""
    return Grid.of("id", *COLUMNS, rows=([claim.id, *claim_row(run, claim)] for claim in claims))


def rank_of(claim: ClaimVerdict) -> int:
    """Return the place of a claim in a list that begins with those that hold; the undecided ones come last."""
    return list(_PLURAL).index(GROUPS[_verdict(claim)])


def numbers_of(claim: ClaimVerdict) -> tuple[str, str]:
    """Return what the paper says and what we find, as far as these are numbers: a part for every bound."""
    groups: dict[tuple[str, str, str], list[CheckResult]] = {}
    for result in claim.results:
        check = result.check
        groups.setdefault((check.get("kind", ""), check.get("quantity") or "", _claimed(check)), []).append(result)
    known = {key: found for key, group in groups.items() if (found := [r for r in group if r.found is not None])}
    if not known:
        return "; ".join(dict.fromkeys(claimed for *_, claimed in groups if claimed)) or "-", "-"
    if len(known) > MOST_NUMBERS or any(kind == "order" for kind, *_ in known):
        told = [r for r in claim.results if r.found is not None]
        holding = sum(r.holds is True for r in told)
        return "as claimed", f"{holding} of {counted(len(told), 'comparison')} as claimed"
    printed = [f"{_what(kind, quantity)}{claimed}" for kind, quantity, claimed in known]
    ours = [_range(found) for found in known.values()]
    return "; ".join(dict.fromkeys(printed)), "; ".join(ours)


def data_of(run: Run, claim: ClaimVerdict) -> str:
    """Name the data sets that a claim was tested on; one that was not tested says why."""
    if claim.verdict == Verdict.NOT_TESTABLE:
        return claim.why
    names = dict.fromkeys(run.title_of(run.axis_of(r.dataset)) for r in claim.results if r.found is not None)
    if set(names) == {PUBLISHED}:
        return "the printed numbers"
    if not names:
        return "-"
    return ", ".join(names) if len(names) <= MOST_DATA else f"{len(names)} data sets"


def counts_text(claims: Iterable[ClaimVerdict]) -> str:
    """Say how many claims hold: ``3 hold, 2 do not hold, 1 is undecided``."""
    found = Counter(GROUPS[_verdict(claim)] for claim in claims)
    return ", ".join(f"{n} {name if n == 1 else _PLURAL[name]}" for name in _PLURAL if (n := found[name]))


def finding(claim: ClaimVerdict, text: str = "") -> str:
    """Return a claim with its verdict and both numbers in a sentence, or its short `text`, which has the paper's."""
    printed, ours = (part.replace("; ", ", ") for part in numbers_of(claim))
    if ours == "-":
        numbers = ""
    elif printed == "as claimed":
        numbers = f" ({ours})"
    else:
        plain = any(word in ours for word in ("times", "points")) or ours.replace(",", "").isdigit()
        whose = "claimed" if claim.source == OURS else "paper"
        numbers = f" ({whose}: {printed}; ours: {ours})" if not text else f" (we find {ours})" if plain else ""
    return f"{(text or claim.text).rstrip('.')}: {_verdict(claim).said}{numbers}"


def findings(claims: Sequence[ClaimVerdict]) -> list[str]:
    """Return what was found, in at most `MOST_FINDINGS` sentences with numbers and one on the rest.

    First the claims that were decided.
    """
    told = [claim for claim in claims if claim.verdict != Verdict.NOT_TESTABLE]
    told.sort(key=lambda claim: GROUPS[_verdict(claim)] not in DECIDED)
    lines = [f"{finding(claim)}." for claim in told[:MOST_FINDINGS]]
    rest = [*told[MOST_FINDINGS:], *(claim for claim in claims if claim not in told)]
    if told and rest:
        lines.append(_rest_text(rest))
    return lines


def _rest_text(claims: Sequence[ClaimVerdict]) -> str:
    """Say what became of further claims."""
    groups, many = {GROUPS[_verdict(claim)] for claim in claims}, counted(len(claims), "further claim")
    if len(groups) > 1:
        return f"Of {many} {counts_text(claims)}."
    (group,) = groups
    return f"{many} {_PLURAL[group] if len(claims) > 1 else group}."


def spread_lines(run: Run, rows: Sequence[MethodResult]) -> list[str]:
    """Return, for a run without claims, how far its first quantity reaches, and where its ends are."""
    if not run.metrics or run.measures:
        return []
    quantity = run.metrics[0]
    found = [(value, row) for row in rows if (value := row.value(quantity)) is not None]
    if len({value for value, _ in found}) < 2:
        return []
    ends = [bound(found, key=lambda pair: pair[0]) for bound in (min, max)]
    texts = [f"{number(value, 3)} ({row.method}, {run.title_of(row.dataset)})" for value, row in ends]
    return [f"{spoken(quantity)} ranges from {' to '.join(texts)}."]


def _verdict(claim: ClaimVerdict) -> Verdict:
    return next(verdict for verdict in GROUPS if verdict == claim.verdict)


def _what(kind: str, quantity: str) -> str:
    """Name the number where the claim alone does not: a p-value, a ratio of errors."""
    if kind == "paired":
        return "p "
    if kind == "difference":
        return f"difference in {spoken(quantity)} "
    return f"{spoken(quantity)} " if kind == "value" else ""


def _points(check: Mapping[str, Any]) -> bool:
    """Whether a number is the difference of two shares, to be told in points per cent."""
    facts = METRIC_FACTS.get(str(check.get("quantity")))
    return check.get("kind") == "difference" and facts is not None and facts.greater_is_better


def _times(check: Mapping[str, Any]) -> bool:
    """Whether a ratio is a factor that people call so many times; others are a share."""
    quantity = str(check.get("quantity"))
    return quantity.startswith("seconds") or quantity == "speedup" or check.get("at_least", 0) > 1


def _claimed(check: Mapping[str, Any]) -> str:
    """Say what a check asks for: ``at least 77 times``."""
    if "about" in check:
        return f"about {_number(check, check['about'], plain=True)}"
    low, high = check.get("at_least"), check.get("at_most")
    if low is not None and low == high:
        return _number(check, low)
    parts = [(word, bound) for word, bound in (("at least", low), ("at most", high)) if bound is not None]
    return " and ".join(f"{word} {_number(check, bound, plain=True)}" for word, bound in parts)


def _range(found: Sequence[CheckResult]) -> str:
    values = [r.found for r in found if r.found is not None]
    check, low, high = found[0].check, min(values), max(values)
    first, last = _number(check, low), _number(check, high)
    word = next((_BOUND_WORDS[r.bound] for r in found if r.bound), "")
    if first == last:
        return f"{word}{last}"
    for unit in (" times", " points"):
        first = first.removesuffix(unit)
    return f"{word}{first} to {last.removeprefix('a ratio of ')}"


def _number(check: Mapping[str, Any], value: float, *, plain: bool = False) -> str:
    kind, text = check.get("kind"), f"{value:g}" if plain else significant(value, 3)
    if kind == "ratio":
        return f"{text} times" if _times(check) else f"a ratio of {text}"
    if _points(check):
        return f"{100 * value:.3g} points" if plain else f"{100 * value:.2f} points"
    if value >= THOUSAND and value == int(value):
        return f"{value:,.0f}"
    if plain or kind == "rejections":
        return f"{value:g}"
    return show(value, "small") if kind == "paired" else number(value, 3)
