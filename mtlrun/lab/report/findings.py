"""Claims and their verdicts in words: counts, findings, and tables of claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mtlrun.errors import counted
from mtlrun.lab.experiment.claims import UNTESTED, VERDICTS, Verdict, verdict_label
from mtlrun.lab.report.claims import CheckResult, ClaimVerdict, bounds_text, number_text
from mtlrun.lab.report.run import PUBLISHED, Run, axis_of, title_of
from mtlrun.show.quantities import spoken
from mtlrun.show.report_table import ReportTable

#: Columns of the table of claims.
CLAIM_COLUMNS = ("claim", "threshold", "ours", "verdict", "data")
#: Greatest number of bounds of one claim that are quoted with their numbers. Beyond it,
#: only the comparisons that hold are counted.
MAX_QUOTED_BOUNDS = 3
#: Greatest number of data sets that are named.
MAX_NAMED_DATASETS = 3
#: Number of claims in the first lines of a report.
MAX_FINDINGS = 3
#: Words before a number that is a bound, by `CheckResult.bound`.
_BOUND_WORDS = {"lower": "at least ", "upper": "at most "}
#: Sources of claims, as in `mtlrun.lab.experiment.claims.CLAIM_SOURCES`.
PAPER = "paper"
OURS = "ours"
AUDIT = "audit"
OTHER_DATA = "other data"


# ------------------------------------------------------------ tables of claims


def claim_row(runs: Sequence[Run], claim: ClaimVerdict) -> list[str]:
    """Return the entries of a claim, which some runs test, in `CLAIM_COLUMNS`."""
    threshold, ours = numbers_of(claim)
    verdict = verdict_label(claim.verdict)
    return [claim.text, threshold, ours, verdict, data_of(runs, claim)]


def claim_table(run: Run, claims: Sequence[ClaimVerdict]) -> ReportTable:
    """Return the claims of a run, a row each."""
    table = ReportTable.of("id", *CLAIM_COLUMNS)
    for claim in claims:
        table.rows.append([claim.id, *claim_row([run], claim)])
    return table


def data_of(runs: Sequence[Run], claim: ClaimVerdict) -> str:
    """Return the data sets on which a claim was tested, or why it was not tested."""
    if claim.verdict in (*UNTESTED, Verdict.ARITHMETIC):
        return claim.why
    titles: dict[str, None] = {}
    for result in _with_number(claim.results):
        # The data set of a comparison is in the run that made it.
        run = next((run for run in runs if result.dataset in run.datasets), runs[0])
        titles[title_of(run, axis_of(run, result.dataset))] = None
    if set(titles) == {PUBLISHED}:
        return "stored numbers"
    if not titles:
        return "-"
    if len(titles) > MAX_NAMED_DATASETS:
        return f"{len(titles)} data sets"
    listing = ", ".join(titles)
    # A title such as "SARCOS, partial" has a comma of its own.
    if listing.count(",") >= len(titles):
        return "; ".join(titles)
    return listing


# ------------------------------------------------------------ numbers of a claim


def _with_number(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the comparisons that could be computed, decided or not."""
    return [result for result in results if result.found is not None]


def numbers_of(claim: ClaimVerdict) -> tuple[str, str]:
    """Return the claimed bounds and our numbers as text, a part for each bound.

    Returns
    -------
    threshold : str
        ``-`` if the claim has no bounds, ``as claimed`` if there are too many to quote.
    ours : str
        ``-`` if no comparison could be made.
    """
    # Comparisons with the same bound on the same quantity share a part of the text.
    groups: dict[tuple[str, str, str], list[CheckResult]] = {}
    for result in claim.results:
        check = result.check
        if check:
            key = (check.kind, check.quantity or "", bounds_text(check))
            groups.setdefault(key, []).append(result)
    computed: dict[tuple[str, str, str], list[CheckResult]] = {}
    for bound_key, group in groups.items():
        with_number = _with_number(group)
        if with_number:
            computed[bound_key] = with_number
    if not computed:
        bounds = dict.fromkeys(bound for _, _, bound in groups if bound)
        return "; ".join(bounds) or "-", "-"
    has_order = any(kind == "order" for kind, _, _ in computed)
    if len(computed) > MAX_QUOTED_BOUNDS or has_order:
        comparisons = _with_number(claim.results)
        n_holding = sum(result.holds is True for result in comparisons)
        return (
            "as claimed",
            f"{n_holding} of {counted(len(comparisons), 'comparison')} as claimed",
        )
    thresholds = []
    previous_name = ""
    for kind, quantity, bound in computed:
        # The name of a number that the claim alone does not name.
        name = ""
        if kind == "paired":
            name = "p "
        elif kind == "rejections":
            name = "methods significantly worse "
        elif kind in ("difference", "value"):
            name = f"{spoken(quantity)} "
        threshold = bound
        # The name of a number is not repeated for its second bound.
        if name != previous_name:
            threshold = f"{name}{bound}"
        thresholds.append(threshold)
        previous_name = name
    ranges = [_range_text(group) for group in computed.values()]
    if len(set(ranges)) == 1:
        ranges = ranges[:1]
    return "; ".join(dict.fromkeys(thresholds)), "; ".join(ranges)


def _range_text(results: Sequence[CheckResult]) -> str:
    """Return the range of the numbers of a check, which all `results` have."""
    check = results[0].check
    assert check is not None  # `numbers_of` groups the results by their checks
    values = [result.found for result in results if result.found is not None]
    low = number_text(check, min(values), 3)
    high = number_text(check, max(values), 3)
    word = ""
    for result in results:
        if result.bound:
            word = _BOUND_WORDS[result.bound]
            break
    if low == high:
        return f"{word}{high}"
    for unit in (" times", " points"):
        low = low.removesuffix(unit)
    return f"{word}{low} to {high}"


# ------------------------------------------------------------ sentences


def counts_text(claims: Iterable[ClaimVerdict]) -> str:
    """Return how many claims hold: ``3 hold, 2 do not hold, 1 is undecided``."""
    counts = Counter(Verdict(claim.verdict).singular for claim in claims)
    # Several verdicts have the same words: holding mostly, and holding partly.
    plurals = {verdict.singular: verdict.plural for verdict in VERDICTS}
    texts = []
    for singular, plural in plurals.items():
        count = counts[singular]
        if count == 1:
            texts.append(f"1 {singular}")
        elif count:
            texts.append(f"{count} {plural}")
    return ", ".join(texts)


def finding(claim: ClaimVerdict, short_text: str = "") -> str:
    """Return a claim with its verdict and numbers in a sentence.

    Parameters
    ----------
    claim : ClaimVerdict
    short_text : str, default=""
        Text that replaces the claim's own. It includes the number of the paper, so only
        ours is added, if it can be understood by itself.
    """
    text = (short_text or claim.text).rstrip(".")
    numbers = _numbers_text(claim, with_claimed=not short_text)
    sentence = f"{text}: {verdict_label(claim.verdict)}{numbers}"
    if claim.verdict != Verdict.UNDECIDED or short_text:
        return sentence
    for result in claim.results:
        if result.undecided and result.why:
            return f"{sentence}, because {result.why}"
    return sentence


def _numbers_text(claim: ClaimVerdict, *, with_claimed: bool) -> str:
    """Return the numbers of a claim in parentheses, or "" without any."""
    threshold, ours = numbers_of(claim)
    # Semicolons separate claims in a sentence, so the parts of one get commas.
    threshold = threshold.replace("; ", ", ")
    ours = ours.replace("; ", ", ")
    if ours == "-":
        return ""
    if threshold == "as claimed":
        return f" ({ours})"
    if with_claimed:
        author = "paper"
        if claim.source == OURS:
            author = "claimed"
        return f" ({author}: {threshold}; ours: {ours})"
    # Factors, points and counts can be understood without the threshold.
    has_unit = "times" in ours or "points" in ours
    if has_unit or ours.replace(",", "").isdigit():
        return f" ({ours} in our runs)"
    return ""


def findings(claims: Sequence[ClaimVerdict]) -> list[str]:
    """Return sentences on the first `MAX_FINDINGS` claims, and a count of the rest.

    Claims that were decided come first.
    """
    decided = []
    undecided = []
    untested = []
    for claim in claims:
        if claim.verdict in UNTESTED:
            untested.append(claim)
        elif claim.verdict in (Verdict.DEPENDS, Verdict.UNDECIDED):
            undecided.append(claim)
        else:
            decided.append(claim)
    tested = [*decided, *undecided]
    lines = [f"{finding(claim)}." for claim in tested[:MAX_FINDINGS]]
    rest = [*tested[MAX_FINDINGS:], *untested]
    if tested and rest:
        count = counted(len(rest), "further claim")
        lines.append(f"{count}: {counts_text(rest)}.")
    return lines
