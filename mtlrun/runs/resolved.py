"""The resolved experiment as YAML, with the origin of every value as a comment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from mtlrun.runs.load import Experiment
from mtlrun.utils.yaml import KeyPath

_COLUMN = 72
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*")
_RESERVED = {"null", "true", "false", "yes", "no", "on", "off"}


def resolved_yaml(experiment: Experiment) -> str:
    """Return YAML text that reads back as `experiment.config`; lines end with where their value came from."""
    head = [
        f"# {experiment.source} with profile {experiment.profile}"
        + (f" and {', '.join(experiment.overrides)}" if experiment.overrides else ""),
        "# A comment says where the value came from: a line of that file, a profile, --set, --seed, or default.",
    ]
    return "\n".join([*head, *_lines(experiment.config, (), "", experiment)]) + "\n"


def _lines(value: Any, path: KeyPath, indent: str, experiment: Experiment) -> Iterator[str]:
    for key, item in value.items():
        here = (*path, key)
        name = f"{indent}{_scalar(key)}:"
        if _is_leaf(item):
            yield _commented(f"{name} {_flow(item)}", experiment.origin(here))
        elif isinstance(item, dict):
            yield name
            yield from _lines(item, here, indent + "  ", experiment)
        else:
            yield name
            for i, entry in enumerate(item):
                yield from _entry(entry, (*here, i), indent + "  ", experiment)


def _entry(entry: Any, path: KeyPath, indent: str, experiment: Experiment) -> Iterator[str]:
    if not isinstance(entry, dict) or not entry:
        yield _commented(f"{indent}- {_flow(entry)}", experiment.origin(path))
        return
    lines = list(_lines(entry, path, indent + "  ", experiment))
    yield f"{indent}- {lines[0].lstrip()}"
    yield from lines[1:]


def _is_leaf(value: Any) -> bool:
    if isinstance(value, dict):
        return not value
    return not isinstance(value, list) or all(not isinstance(v, dict | list) and not _is_text(v) for v in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 40


def _flow(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_flow(v) for v in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """Write a scalar: JSON is YAML, and simple words need no quotes."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    if isinstance(value, float) and "e" in repr(value):
        mantissa, _, exponent = repr(value).partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"  # YAML 1.1 readers need the point
    return json.dumps(value, ensure_ascii=False)


def _commented(line: str, origin: str) -> str:
    return f"{line:<{_COLUMN}}  # {origin}"
