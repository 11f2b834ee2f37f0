"""Pydantic's findings as problems with a path into the file, in our words."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ValidationError

from mtlrun.errors import suggest
from mtlrun.runs.schema import ExperimentSpec
from mtlrun.utils.yaml import KeyPath


def describe_problems(
    error: ValidationError, data: Any, model: type[BaseModel] | None = None
) -> Iterator[tuple[KeyPath, bool, str, str]]:
    """Yield (path, at_key, message, hint) for every finding of pydantic.

    Parameters
    ----------
    error : ValidationError
        From `ExperimentSpec.model_validate(data)`.
    data : dict
        What was validated: pydantic's locations are mapped onto it.
    model : type, optional
        The model it was validated with, when that is not `ExperimentSpec`.
    """
    seen = set()
    for finding in error.errors(include_url=False):
        path, rest = locate(data, finding["loc"])
        name = str(path[-1]) if path else "the file"
        if finding["type"] == "extra_forbidden":
            known = _fields_at(path[:-1], model or ExperimentSpec)
            near = suggest(name, known, 1)
            hint = f"did you mean {near[0]!r}?   " if near else ""
            text = f"unknown key {name!r}{_inside(path[:-1])}"
            yield path, True, text, f"{hint}valid keys: {', '.join(known)}"
        elif finding["type"] == "missing":
            yield path, True, f"missing key {rest[-1]!r}{_inside(path)}", ""
        elif path not in seen:  # one message per value, not one per alternative of a union
            text = _reworded(finding)
            yield path, False, f"{_titled(path)} {text}" if text.startswith("must") else text, ""
        seen.add(path)


def locate(data: Any, location: tuple[str | int, ...]) -> tuple[KeyPath, tuple[str | int, ...]]:
    """Split a pydantic location into the part that exists in the data and the rest; union tags are skipped."""
    path: list[str | int] = []
    rest: list[str | int] = []
    for step in location:
        inside = (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int) and step < len(data)
        )
        if inside:
            data = data[step]
            path.append(step)
        else:
            rest.append(step)
    return tuple(path), tuple(rest)


def _inside(path: KeyPath) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f" in {text}" if text else ""


def _titled(path: KeyPath) -> str:
    if not path:
        return "the file"
    names = [step for step in path if isinstance(step, str)]
    return f"an entry of {names[-1]!r}" if isinstance(path[-1], int) and names else repr(path[-1])


_EXPECTED = {
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}


def _reworded(finding: Any) -> str:
    text = _EXPECTED.get(finding["type"]) or str(finding["msg"]).removeprefix("Value error, ")
    text = text.replace("Input should be", "must be").replace("String should match", "must match")
    value = finding.get("input")
    if not text.startswith("must be ") or ", not " in text or isinstance(value, dict | list):
        return text
    return f"{text}, not {'null' if value is None else str(value).lower() if isinstance(value, bool) else repr(value)}"


def _fields_at(path: KeyPath, root: type[BaseModel]) -> list[str]:
    """Return the keys that the model at a path knows."""
    annotation: Any = root
    for step in path:
        annotation = _step(annotation, step)
    model = _model_in(annotation)
    return [info.alias or name for name, info in model.model_fields.items()] if model else []


def _step(annotation: Any, step: str | int) -> Any:
    model = _model_in(annotation)
    if model is not None and isinstance(step, str) and step in model.model_fields:
        return model.model_fields[step].annotation
    return annotation  # lists and mappings hold models of one kind: keep looking inside


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (Annotated, list, dict, typing.Union, types.UnionType):
        for argument in typing.get_args(annotation):
            found = _model_in(argument)
            if found is not None:
                return found
    return None
