"""Options declared once, as fields of dataclasses, for Python and the command line.

A field carries its help: ``task: Annotated[str | None, OptionHelp("COLUMN", ...)]``.
`mtlrun.cli.options.with_fields` makes options of the command line from it, and
`with_fields` the parameters of a function in Python. Standard library only.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from typing import (
    Annotated,
    Any,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from mtlrun.errors import ConfigError

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")

#: Panels of the help of `mtlrun compare`.
ROLES = "Roles of the columns"
PROTOCOL = "How to compare"
RUN = "How to run it"


@dataclass(frozen=True)
class OptionHelp:
    """How the command line presents a field, and its smallest value.

    Attributes
    ----------
    metavar : str or None
        Placeholder of the value in the help; None for a switch.
    help : str
    panel : str
        Panel of the help.
    choices : tuple of str
        Values that the shell completes.
    minimum : int or None
    short : str or None
        Second name, such as ``-t``.
    """

    metavar: str | None
    help: str
    panel: str = ROLES
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    short: str | None = None


@functools.cache
def typed_fields(
    cls: type[Any],
) -> tuple[tuple[Field[Any], Any, OptionHelp | None], ...]:
    """Return the fields of a class of options, their types and their help, if any.

    Evaluating the type hints takes milliseconds, so they are kept.
    """
    hints = get_type_hints(cls, include_extras=True)
    described = []
    for field in fields(cls):
        kind = hints[field.name]
        option_help = None
        if get_origin(kind) is Annotated:
            kind, option_help, *_ = get_args(kind)
        described.append((field, kind, option_help))
    return tuple(described)


def check_minimums(options: Any) -> None:
    """Refuse values of fields below their minimum.

    Raises
    ------
    ConfigError
        Names the option.
    """
    for field, _, option_help in typed_fields(type(options)):  # type: ignore[arg-type]
        value = getattr(options, field.name)
        if option_help is None or option_help.minimum is None or value is None:
            continue
        # The comparison is written so that NaN is refused, too.
        if not value >= option_help.minimum:
            option = field.name.replace("_", "-")
            raise ConfigError(
                f"--{option} must be at least {option_help.minimum}, not {value:g}",
                f"Give {option_help.minimum} or more. {option_help.help}",
            )


def part_of(values: Mapping[str, Any], cls: type[A]) -> A:
    """Create a class of options from the values of its fields among others."""
    part = {field.name: values[field.name] for field in fields(cls)}  # type: ignore[arg-type]
    return cls(**part)


def with_fields(
    arguments: Callable[P, A],
) -> Callable[[Callable[[A], R]], Callable[P, R]]:
    """Give a function of one object the parameters of the class of this object.

    Editors, `help` and type checkers show the fields of the class as parameters of the
    function.
    """
    signature = inspect.signature(arguments)
    types = get_type_hints(arguments)
    parameters = []
    for name, parameter in signature.parameters.items():
        parameters.append(parameter.replace(annotation=types[name]))

    def decorate(function: Callable[[A], R]) -> Callable[P, R]:
        result = get_type_hints(function)["return"]
        visible = signature.replace(parameters=parameters, return_annotation=result)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            # The errors of this call name the parameters, but not the class.
            signature.bind(*args, **kwargs)
            return function(arguments(*args, **kwargs))

        call.__signature__ = visible  # type: ignore[attr-defined]
        return call

    return decorate
