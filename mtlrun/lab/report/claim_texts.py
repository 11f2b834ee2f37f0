"""Texts of checks: what they compare, what they claim, and by how much it is missed."""

from __future__ import annotations

from mtlrun.catalog.interfaces import METRIC_INFO
from mtlrun.lab.experiment.claims import SHARE_DIFFERENCES, SHARES, Check
from mtlrun.show.quantities import spoken
from mtlrun.show.report_table import number, show, significant

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
