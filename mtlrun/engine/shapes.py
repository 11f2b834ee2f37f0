"""Shapes: what the values of JSON files of results must be.

These files come from other people and from earlier versions, so each is checked once,
where it is read. The rest of the code then relies on the types. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mtlrun.utils.io import is_json_number
from mtlrun.utils.sizes import LARGEST


class ShapeError(ValueError):
    """A value that a file must not have.

    Parameters
    ----------
    path : str
        Keys and positions that lead to the value, such as ``cells.0.key``.
    message : str
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


#: Checks the value at a path; raises `ShapeError`.
Shape = Callable[[object, str], None]


def text(value: object, path: str) -> None:
    """Refuse what is not a text."""
    if not isinstance(value, str):
        raise ShapeError(path, "a text is expected")


def integer(value: object, path: str) -> None:
    """Refuse what is not an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ShapeError(path, "an integer is expected")


def count(value: object, path: str) -> None:
    """Refuse what is not an integer from 0 on."""
    integer(value, path)
    if not isinstance(value, int) or value < 0:
        raise ShapeError(path, "an integer from 0 on is expected")


def boolean(value: object, path: str) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool):
        raise ShapeError(path, "true or false is expected")


def number(value: object, path: str) -> None:
    """Refuse what is not a number of at most `LARGEST`."""
    if not is_json_number(value) or not abs(value) <= LARGEST:  # type: ignore[arg-type]
        raise ShapeError(path, "a number is expected")


def mapping(value: object, path: str) -> None:
    """Refuse what is not a JSON object."""
    if not isinstance(value, dict):
        raise ShapeError(path, "a JSON object is expected")


def optional(shape: Shape) -> Shape:
    """Return the shape of values that may also be null."""

    def check(value: object, path: str) -> None:
        if value is not None:
            shape(value, path)

    return check


def list_of(shape: Shape) -> Shape:
    """Return the shape of a list of such values."""

    def check(value: object, path: str) -> None:
        if not isinstance(value, list):
            raise ShapeError(path, "a list is expected")
        for index, item in enumerate(value):
            shape(item, f"{path}.{index}")

    return check


def map_of(shape: Shape) -> Shape:
    """Return the shape of a JSON object with such values."""

    def check(value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise ShapeError(path, "a JSON object is expected")
        for key, item in value.items():
            shape(item, f"{path}.{key}")

    return check


def either(first: Shape, second: Shape) -> Shape:
    """Return the shape of values that have one of two shapes."""

    def check(value: object, path: str) -> None:
        try:
            first(value, path)
        except ShapeError:
            second(value, path)

    return check


def one_of(*texts: str) -> Shape:
    """Return the shape of one of some texts."""

    def check(value: object, path: str) -> None:
        if value not in texts:
            raise ShapeError(path, f"one of {', '.join(texts)} is expected")

    return check


def matching(pattern: re.Pattern[str]) -> Shape:
    """Return the shape of texts that match a pattern completely."""

    def check(value: object, path: str) -> None:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ShapeError(path, "this text is not possible here")

    return check


@dataclass(frozen=True)
class Fields:
    """Shape of a JSON object whose keys are known; others are ignored.

    Attributes
    ----------
    required : mapping of str to Shape
    optional : mapping of str to Shape
        These keys may be missing, or null.
    """

    required: Mapping[str, Shape]
    optional: Mapping[str, Shape]

    def __call__(self, value: object, path: str) -> None:
        """Check a value."""
        if not isinstance(value, dict):
            raise ShapeError(path, "a JSON object is expected")
        for key, shape in self.required.items():
            key_path = f"{path}.{key}".lstrip(".")
            if key not in value:
                raise ShapeError(key_path, "is missing")
            shape(value[key], key_path)
        for key, shape in self.optional.items():
            if value.get(key) is not None:
                shape(value[key], f"{path}.{key}".lstrip("."))


def anything(value: object, path: str) -> None:
    """Accept any value."""
