"""What pydantic finds in a YAML file, in plain words and with its place in the file."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from mtlrun.errors import suggest
from mtlrun.utils.yaml import Document, KeyPath, YamlProblem, render

#: (path, whether the key and not the value is meant, message, hint)
Finding = tuple[KeyPath, bool, str, str]


class StrictModel(BaseModel):
    """Strict types (a quoted number is text), no unknown keys, immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


_EXPECTED = {
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}


#: What pydantic says, and how people say it.
_WORDS = {
    "Input should be": "must be",
    "String should match": "must match",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}


def _as_it_is(path: KeyPath) -> KeyPath:
    return path


def schema_findings(
    error: ValidationError, data: Any, model: type[BaseModel], shown: Callable[[KeyPath], KeyPath] = _as_it_is
) -> Iterator[Finding]:
    """Yield what pydantic found, with its paths mapped onto the data that were validated.

    Parameters
    ----------
    error : ValidationError
    data : dict
        What was validated.
    model : type
        The model it was validated with.
    shown : callable, optional
        How messages call a path, if the data were rearranged before.
    """
    seen = set()
    for finding in error.errors(include_url=False):
        path, rest = _locate(data, finding["loc"])
        if finding["type"] == "extra_forbidden":
            part = _model_at(path[:-1], data, model)
            yield unknown_key(path, [i.alias or n for n, i in part.model_fields.items()] if part else [], shown)
        elif finding["type"] == "missing":
            yield path, True, f"missing key {shown(rest[-1:])[0]!r}{inside(shown(path))}", ""
        elif path not in seen:  # one message per value, not one per alternative of a union
            text, value = reworded(finding), finding.get("input")
            hint = f"write [{value}]" if finding["type"] == "list_type" and isinstance(value, str | int | float) else ""
            yield path, False, f"{_titled(shown(path))} {text}" if text.startswith("must") else text, hint
        seen.add(path)


def rendered(found: Iterable[Finding], document: Document) -> str:
    """Write findings with their places in a document."""
    problems = [
        YamlProblem(document.key_mark(path) if at_key else document.value_mark(path), message, hint)
        for path, at_key, message, hint in found
    ]
    return render(problems, document)


def unknown_key(path: KeyPath, known: Iterable[str], shown: Callable[[KeyPath], KeyPath] = _as_it_is) -> Finding:
    """Return the finding of a key that does not exist, with the nearest one that does."""
    near = suggest(str(path[-1]), known, 1)
    hint = f"did you mean {near[0]!r}?   " if near else ""
    text = f"unknown key {str(path[-1])!r}{inside(shown(path[:-1]))}"
    return path, True, text, f"{hint}valid keys: {', '.join(known)}"


def inside(path: KeyPath) -> str:
    """Return `` in methods[0].params``, or nothing for the whole file."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f" in {text}" if text else ""


def _locate(data: Any, location: tuple[str | int, ...]) -> tuple[KeyPath, tuple[str | int, ...]]:
    """Split a pydantic location into the part that exists in the data and the rest; union tags are skipped."""
    path: list[str | int] = []
    rest: list[str | int] = []
    for step in location:
        try:
            data = data[step]
            path.append(step)
        except (KeyError, IndexError, TypeError):
            rest.append(step)
    return tuple(path), tuple(rest)


def _titled(path: KeyPath) -> str:
    if not path:
        return "the file"
    names = [step for step in path if isinstance(step, str)]
    return f"an entry of {names[-1]!r}" if isinstance(path[-1], int) and names else repr(path[-1])


def reworded(finding: Any) -> str:
    """Return what pydantic found wrong with one value, in plain words: ``must be a number, not 'ten'``."""
    text = _EXPECTED.get(finding["type"]) or str(finding["msg"]).removeprefix("Value error, ")
    for wording, words in _WORDS.items():
        text = text.replace(wording, words)
    value = finding.get("input")
    if not text.startswith("must be ") or ", not " in text or isinstance(value, dict | list):
        return text
    return f"{text}, not {'null' if value is None else str(value).lower() if isinstance(value, bool) else repr(value)}"


def _model_at(path: KeyPath, data: Any, root: type[BaseModel]) -> type[BaseModel] | None:
    """Return the model of what is at a path; of several alternatives the one that knows most of its keys."""
    models: list[type[BaseModel]] = [root]
    for step in path:
        data = data[step]
        found = [m.model_fields[str(step)].annotation for m in models if step in m.model_fields]
        models = [model for annotation in found for model in _models_in(annotation)] if found else models
    keys = set(data) if isinstance(data, dict) else set()
    return max(models, key=lambda model: len(keys & set(model.model_fields)), default=None)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models_in(part)
