"""Does a data set look as its card says?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """One statistic: what was computed, what the card expects (None = says nothing), and whether they agree."""

    name: str
    found: int | float | None
    expected: int | float | None
    agrees: bool


def compare_statistics(found: Mapping[str, int | float], expected: Mapping[str, int | float]) -> list[Fact]:
    """Compare the statistics of a data set with those on its card.

    Whole numbers must be equal; other numbers must agree in the decimals that the card gives. What the card names but
    the data set has not disagrees.
    """
    names = [*found, *(name for name in expected if name not in found)]
    return [_fact(name, found.get(name), expected.get(name)) for name in names]


def _fact(name: str, found: int | float | None, expected: int | float | None) -> Fact:
    if expected is None:
        return Fact(name, found, None, True)
    if found is None:
        return Fact(name, None, expected, False)
    if isinstance(expected, int):
        return Fact(name, found, expected, found == expected)
    text = repr(expected)
    mantissa, _, exponent = text.partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    # a hair more than half a unit, for binary fractions and for tables that cut instead of rounding the last 5
    return Fact(name, found, expected, abs(found - expected) <= 0.5001 * 10.0**-decimals)
