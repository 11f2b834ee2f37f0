"""Constructor parameters, their rules and their documentation.

The type hint of a parameter is the rule that `fit` checks: ``alpha: NonNegative = 1.0``
in an `__init__` is a parameter `alpha` that must be a float of at least 0. Subclasses
inherit rules and documentation. Classes for users write their `__init__` out; base
classes declare the parameters that they read as annotated class attributes.
"""

from __future__ import annotations

import builtins
import inspect
import math
import numbers
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)
from weakref import WeakKeyDictionary

from mtlrun.errors import suggest

Alternative = tuple[Any, ...]


@dataclass(frozen=True)
class Rule:
    """The values allowed for a parameter: one or several alternatives, joined with
    ``|``.

    Attributes
    ----------
    parts : tuple of tuples
        Alternatives as ``(kind, *arguments)``, for instance ``("integer", 1)``.
    """

    parts: tuple[Alternative, ...]

    def __or__(self, other: Rule) -> Rule:
        return Rule(self.parts + other.parts)

    @property
    def text(self) -> str:
        """The allowed values, in words."""
        allowed = (part for part in self.parts if part[0] != "removed")
        return " or ".join(_text(part) for part in allowed)

    @property
    def names(self) -> tuple[str, ...]:
        """Strings that are allowed."""
        return tuple(
            name for kind, *names in self.parts if kind == "choice" for name in names
        )

    @property
    def removed(self) -> dict[str, str]:
        """Strings that were allowed once, each with the reason and the remedy."""
        return {part[1]: part[2] for part in self.parts if part[0] == "removed"}

    @property
    def plain(self) -> list[list[Any]] | None:
        """The rule as plain data, of which `rule_of` makes it again; None where only
        the class itself can check it.
        """
        simple = all(
            isinstance(value, str | int | float | None)
            for part in self.parts
            for value in part
        )
        if simple:
            return [list(part) for part in self.parts]
        return None

    def accepts(self, value: Any) -> bool:
        """Return whether a value is allowed."""
        return any(_accepts(part, value) for part in self.parts)

    def hint(self, value: Any) -> str:
        """Return what to write instead of a value that is not allowed.

        Empty for values other than strings, and for strings that resemble no choice.
        """
        if not isinstance(value, str):
            return ""
        if value in self.removed:
            return self.removed[value]
        for near in suggest(value, self.names, n=1):
            return f"did you mean {near!r}?"
        return ""


def rule_of(plain: list[list[Any]]) -> Rule:
    """Return the rule of which `plain` is the attribute of that name."""
    return Rule(tuple(tuple(part) for part in plain))


def real(
    low: float | None = None, high: float | None = None, closed: str = "left"
) -> Rule:
    """Return the rule of a number in an interval; `closed` is one of left, right,
    both, neither.
    """
    return Rule((("real", low, high, closed),))


def integer(low: int | None = None) -> Rule:
    """Return the rule of an integer, of at least `low`; a bool is none."""
    return Rule((("integer", low),))


def choice(*names: str) -> Rule:
    """Return the rule of one of some strings."""
    return Rule((("choice", *names),))


def instance(text: str, *types: type) -> Rule:
    """Return the rule of an instance of some types; `text` is for messages: "a
    dict".
    """
    # Built-in types are kept by name, so that `Rule.plain` can store the rule.
    types_or_names: list[type | str] = []
    for cls in types:
        if cls.__module__ == "builtins":
            types_or_names.append(cls.__name__)
        else:
            types_or_names.append(cls)
    return Rule((("instance", text, *types_or_names),))


def satisfies(text: str, test: Callable[[Any], bool]) -> Rule:
    """Return the rule of values that pass a test."""
    return Rule((("test", text, test),))


def removed(name: str, hint: str) -> Rule:
    """Return the rule that refuses a string which was allowed once.

    `hint` gives the reason and the remedy.
    """
    return Rule((("removed", name, hint),))


def _text(part: Alternative) -> str:
    match part:
        case ("real", low, high, closed):
            left = "("
            if closed in ("left", "both"):
                left = "["
            right = ")"
            if closed in ("right", "both"):
                right = "]"
            if low is None:
                low = "-inf"
            if high is None:
                high = "inf"
            return f"a float in {left}{low}, {high}{right}"
        case ("integer", low):
            if low is None:
                return "an int"
            return f"an int in [{low}, inf)"
        case ("choice", *names):
            return "one of " + ", ".join(map(repr, names))
        case (kind, *rest):
            if rest:
                return str(rest[0])
            return {"none": "None", "bool": "a bool"}[kind]
    raise TypeError(f"no rule: {part!r}")


def _accepts(part: Alternative, value: Any) -> bool:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    match part:
        case ("real", low, high, closed):
            low = -math.inf if low is None else low
            high = math.inf if high is None else high
            at_end = (value == low and closed in ("left", "both")) or (
                value == high and closed in ("right", "both")
            )
            return number and (at_end or bool(low < value < high))
        case ("integer", low):
            return (
                number
                and isinstance(value, numbers.Integral)
                and (low is None or int(value) >= low)
            )
        case ("bool",):
            return type(value).__name__ in ("bool", "bool_")  # of numpy too
        case ("choice", *names):
            return isinstance(value, str) and value in names
        case ("none",):
            return value is None
        case ("removed", *_):
            return False
        case ("instance", _, *types):
            for cls in types:
                if isinstance(cls, str):
                    cls = getattr(builtins, cls)
                if isinstance(value, cls):
                    return True
            return False
        case ("test", _, test):
            return bool(test(value))
    raise TypeError(f"no rule: {part!r}")


BOOLEAN = Rule((("bool",),))
NONE = Rule((("none",),))

NonNegative = Annotated[float, real(0)]
Positive = Annotated[float, real(0, closed="neither")]
Count = Annotated[int, integer(1)]
#: Name or position of the column of X that holds the task of each row.
TaskColumn = int | str | None
#: What becomes of rows of tasks that `fit` has not seen.
Unseen = Literal["error", "mean"]
#: Weights of the two classes of a classifier.
ClassWeight = Annotated[
    Any, choice("balanced") | instance("a dict of weights by label", dict) | NONE
]

_HINTS = {
    bool: BOOLEAN,
    int: integer(),
    float: real(closed="neither"),
    str: instance("a str", str),
    None: NONE,
    NoneType: NONE,
}


def hint_rule(hint: Any) -> Rule | None:
    """Return the rule that a type hint stands for, None for a hint that allows
    anything.

    ``Annotated[float, real(0)]`` carries its rule, ``Literal["a", "b"]`` is a choice;
    bool, int, float, str and None are what they say, other classes stand for their
    instances.
    """
    kind = get_origin(hint)
    args = get_args(hint)
    if kind is Annotated:
        return next((extra for extra in args[1:] if isinstance(extra, Rule)), None)
    if kind is Literal:
        return choice(*args)
    if kind in (Union, UnionType):
        rules = [hint_rule(part) for part in args]
        usable = [rule for rule in rules if rule is not None]
        if len(usable) == len(rules):
            return Rule(tuple(part for rule in usable for part in rule.parts))
        return None
    if hint in _HINTS:
        return _HINTS[hint]
    if isinstance(hint, type) and hint is not Any:
        return instance(f"a {hint.__name__}", hint)
    return None


#: Types whose values stay as they were checked.
_IMMUTABLE = (bool, int, float, str, type(None))
#: The last value that each parameter of a class accepted: the fits of a search share
#: most values, which are checked once.
_accepted_values: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()


def check_params(estimator: Any, rules: Mapping[str, Rule]) -> None:
    """Check the parameters of an estimator.

    Raises
    ------
    ValueError
        ``alpha must be a float in [0, inf), got -1``, with the hint of the rule.
    """
    accepted = _accepted_values.setdefault(type(estimator), {})
    for name, rule in rules.items():
        value = getattr(estimator, name)
        if name in accepted and accepted[name] is value:
            continue
        if rule.accepts(value):
            if isinstance(value, _IMMUTABLE):
                accepted[name] = value
            continue
        parts = [f"{name} must be {rule.text}, got {value!r}", rule.hint(value)]
        raise ValueError("; ".join(filter(None, parts)))


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class NamedParameters:
    """Estimators whose parameters are looked up once for a class, not in every
    `get_params`.
    """

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        return super()._get_param_names()  # type: ignore[misc]


class Declared(NamedParameters):
    """Base of classes whose type hints of parameters are checked by `fit`.

    A class whose `__init__` is not written out, in the class or a base class, gets one
    as a dataclass: its parameters are the annotated class attributes in the order of
    their declaration, base classes first; those after ``_: KW_ONLY`` must be passed by
    name. The sections Parameters, Attributes, Notes and References of the docstring are
    completed from the base classes.
    """

    _rules: ClassVar[dict[str, Rule]] = {}
    #: Documented attributes of base classes that this class does not have.
    _without: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        owner = _owner_of_init(cls)
        if not _has_written_init(owner):
            # Raise a TypeError if a generated `__init__` would leave out parameters
            # of a base class.
            for base in cls.__mro__[1:]:
                if issubclass(base, Declared) and _has_written_init(base):
                    raise TypeError(
                        f"{cls.__name__} needs an __init__ of its own, because "
                        f"{base.__name__} has one. Write it out, with all parameters"
                    )
            dataclass(cls, eq=False, repr=False)
        elif owner is not cls and owner.__module__.startswith("mtlrun."):
            # Methods of mtlrun had generated constructors once, so that such a subclass
            # would lose its parameters without a word.
            # Raise a TypeError if a class declares parameters that its inherited
            # `__init__` ignores.
            for name, hint in inspect.get_annotations(cls).items():
                if name in vars(cls) and "ClassVar" not in str(hint):
                    raise TypeError(
                        f"{cls.__name__}.{name} would be no parameter, because a base class of "
                        f"{cls.__name__} has an __init__. Write __init__ out, with all "
                        "parameters, or annotate a constant as ClassVar"
                    )
        if "_rules" not in vars(cls):
            cls._rules = _rules_of(cls)
        if cls.__doc__ and not cls.__name__.startswith("_"):
            cls.__doc__ = complete_docstring(cls)


def _owner_of_init(cls: type) -> type:
    """Return the class, itself or a base class, whose `__init__` it has."""
    return next(base for base in cls.__mro__ if "__init__" in vars(base))


def has_generated_init(cls: type) -> bool:
    """Whether `__init__` of a new class is to be generated from its annotations."""
    return not _has_written_init(_owner_of_init(cls))


def _has_written_init(cls: type) -> bool:
    """Whether a class has an `__init__` that was not generated."""
    is_generated = "__dataclass_fields__" in vars(cls)
    return cls is not object and "__init__" in vars(cls) and not is_generated


def _rules_of(cls: type) -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for base in reversed(cls.__mro__[1:]):
        rules |= vars(base).get("_rules", {})
    hints = _type_hints(cls)
    if _has_written_init(cls):
        for name, hint in _type_hints(vars(cls)["__init__"]).items():
            # A plain hint such as float does not loosen the rule of a base class.
            if name not in rules or get_origin(hint) in (Annotated, Literal):
                hints[name] = hint
    parameters = inspect.signature(cls).parameters
    for name, hint in hints.items():
        if name not in parameters:
            continue
        rule = hint_rule(hint)
        if rule is None:
            rules.pop(name, None)
        else:
            rules[name] = rule
    return rules


def _type_hints(target: Any) -> dict[str, Any]:
    """Return the type hints of a class or function, none if only type checkers can
    read one.
    """
    try:
        return dict(inspect.get_annotations(target, eval_str=True))
    except (NameError, AttributeError):
        return {}


_TITLE = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$\n", re.MULTILINE)
_ENTRY = re.compile(r"^\S.*(?:\n(?: .*)?$)*", re.MULTILINE)


def sections(docstring: str | None) -> dict[str, str]:
    """Split a docstring into its sections by title; what comes before the first one
    has the title ''.
    """
    parts = ["", *_TITLE.split(inspect.cleandoc(docstring or ""))]
    return {
        title: body.strip("\n")
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


def entries(body: str) -> dict[tuple[str, ...], str]:
    """Return the entries of a section by the names that they document."""
    documented = {}
    for match in _ENTRY.findall(body):
        entry = match.rstrip()
        # The first line may document several names: "a, b : float".
        listed = entry.split("\n")[0].split(" :")[0]
        names = tuple(name.strip("* ") for name in listed.split(","))
        documented[names] = entry
    return documented


def complete_docstring(cls: type) -> str:
    """Return the docstring of a class with what its base classes say of parameters and
    attributes it shares with them.

    Sections of Notes and References come from the nearest class that has some.
    """
    class_sections = sections(cls.__doc__)
    inherited = [
        sections(vars(base).get("__doc__"))
        for base in cls.__mro__
        if issubclass(base, Declared)
    ]
    signature = inspect.signature(cls).parameters.values()
    positional = [p.name for p in signature if p.kind is not p.KEYWORD_ONLY]
    parameters = [entries(base.get("Parameters", "")) for base in inherited]
    attributes = [entries(base.get("Attributes", "")) for base in inherited]
    parameter_names = {p.name for p in signature}
    class_sections["Parameters"] = _merged(
        parameters, lambda names: not parameter_names.isdisjoint(names), positional
    )
    without = getattr(cls, "_without", ())
    class_sections["Attributes"] = _merged(
        attributes, lambda names: set(names).isdisjoint(without), []
    )
    for title in ("Notes", "References"):
        class_sections[title] = next(
            (base[title] for base in inherited if base.get(title)), ""
        )
    order = [
        "",
        "Parameters",
        "Attributes",
        *(title for title in class_sections if title not in _ORDERED),
        *_ORDERED[3:],
    ]
    written = []
    for title in order:
        section = class_sections.get(title)
        if not section:
            continue
        # The text before the first title has the title "".
        if title:
            section = f"{title}\n{'-' * len(title)}\n{section}"
        written.append(section)
    return "\n\n".join(written) + "\n"


_ORDERED = ("", "Parameters", "Attributes", "Notes", "References", "Examples")


def _merged(
    classes: list[dict[tuple[str, ...], str]],
    wanted: Callable[[tuple[str, ...]], bool],
    first: list[str],
) -> str:
    """Join entries of several classes, the nearest one counting where several
    document the same name.
    """
    merged: dict[tuple[str, ...], str] = {}
    seen: set[str] = set()
    for documented in classes:
        for names, text in documented.items():
            if wanted(names) and seen.isdisjoint(names):
                merged[names] = text
        seen |= {name for names in documented for name in names}
    positions = {name: k for k, name in enumerate(first)}

    def lowest_position(names: tuple[str, ...]) -> int:
        return min(positions.get(name, len(first)) for name in names)

    ordered = sorted(merged, key=lowest_position)
    return "\n".join(merged[names] for names in ordered)
