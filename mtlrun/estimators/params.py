"""Validation of constructor parameters from a small table: name -> rule."""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from mtlrun.errors import suggest


@dataclass(frozen=True)
class Rule:
    """What a parameter may be: a text for the message and a test. Rules are joined with ``|``.

    Attributes
    ----------
    text : str
    accepts : callable
    names : tuple of str
        Strings that are allowed.
    plain : list of list, or None
        What `rule_of` makes the rule of again, without its class; None where that is impossible.
    """

    text: str
    accepts: Callable[[Any], bool]
    names: tuple[str, ...] = ()
    plain: list[list[Any]] | None = None

    def __or__(self, other: Rule) -> Rule:
        def accepts(value: Any) -> bool:
            return self.accepts(value) or other.accepts(value)

        plain = None if self.plain is None or other.plain is None else self.plain + other.plain
        return Rule(f"{self.text} or {other.text}", accepts, self.names + other.names, plain)


def real(low: float = -math.inf, high: float = math.inf, closed: str = "left") -> Rule:
    """Return the rule of a number in an interval; `closed` is one of left, right, both, neither."""
    left, right = closed in ("left", "both"), closed in ("right", "both")

    def accepts(value: Any) -> bool:
        number: Any = value
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        return bool((low <= number if left else low < number) and (number <= high if right else number < high))

    text = f"a float in {'[' if left else '('}{low:g}, {high:g}{']' if right else ')'}"
    return Rule(text, accepts, plain=[["real", float(low), float(high), closed]])


def integer(low: int) -> Rule:
    """Return the rule of an integer of at least `low`."""

    def accepts(value: Any) -> bool:
        number: Any = value
        return isinstance(value, numbers.Integral) and not isinstance(value, bool) and bool(number >= low)

    return Rule(f"an int in [{low}, inf)", accepts, plain=[["integer", int(low)]])


def choice(*names: str) -> Rule:
    """Return the rule of one of some strings."""
    text = "one of " + ", ".join(repr(name) for name in names)
    return Rule(text, lambda value: isinstance(value, str) and value in names, names, [["choice", *names]])


#: Types that `rule_of` knows beside those of numpy.
_TYPES: dict[str, type] = {kind.__name__: kind for kind in (bool, int, float, str, tuple, list, dict)}


def _named(name: str) -> type | None:
    """Return a type by its name; one of numpy only once numpy is loaded: before that no value can be of it."""
    package, _, kind = name.rpartition(".")
    return getattr(sys.modules.get(package), kind, None) if package else _TYPES[name]


def _name(kind: type) -> str | None:
    """Return the name by which `_named` finds a type, None for other types."""
    if kind.__module__ == "numpy":
        return f"numpy.{kind.__name__}"
    return kind.__name__ if kind in _TYPES.values() else None


def instance(text: str, *types: type | str) -> Rule:
    """Return the rule of an instance of some types, given as such or by names as in ``numpy.bool_``.

    A bool is not an integer.
    """

    def accepts(value: Any) -> bool:
        kinds = [_named(kind) if isinstance(kind, str) else kind for kind in types]
        found = tuple(kind for kind in kinds if kind is not None)
        return isinstance(value, found) and (bool in found or not isinstance(value, bool))

    names = [kind if isinstance(kind, str) else _name(kind) for kind in types]
    return Rule(text, accepts, plain=None if None in names else [["instance", text, *names]])


def rule_of(plain: list[list[Any]]) -> Rule:
    """Return the rule of which `plain` is the attribute of that name."""
    return reduce(operator.or_, (_made(*part) for part in plain))


def _made(kind: str, *given: Any) -> Rule:
    if kind == "instance":
        return instance(*given)
    makers: dict[str, Callable[..., Rule]] = {"real": real, "integer": integer, "choice": choice, "none": lambda: NONE}
    return makers[kind](*given)


#: Rules that many estimators share.
BOOLEAN = instance("a bool", bool, "numpy.bool_")
NONE = Rule("None", lambda value: value is None, plain=[["none"]])


def check_params(estimator: Any, rules: Mapping[str, Rule]) -> None:
    """Check the parameters of an estimator against a table of rules.

    Raises
    ------
    ValueError
        ``alpha must be a float in [0, inf), got -1``, with the nearest choice for a misspelt one.
    """
    for name, rule in rules.items():
        value = getattr(estimator, name)
        if rule.accepts(value):
            continue
        near = suggest(value, rule.names, n=1) if isinstance(value, str) else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name} must be {rule.text}, got {value!r}{hint}")
