"""Published numbers in files below the folder of the experiments: what measures are taken of, and curves of reports."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from mtlrun.errors import ConfigError
from mtlrun.papers.measure import published_path
from mtlrun.utils.yaml import load_text

#: Parameter of measures that names a file of published numbers; the content of the file is part of the key.
PUBLISHED = "published"
_NEEDS = ("dataset", "method", "name", "x", "y")
_MAY = ("source",)


def published_hash(params: Mapping[str, Any]) -> dict[str, str]:
    """Return ``{name: sha256}`` of the file that the parameter `published` of a measure names, {} without it."""
    name = params.get(PUBLISHED)
    if not isinstance(name, str):
        return {}
    return {name: hashlib.sha256(published_path(name).read_bytes()).hexdigest()}


def read_curves(name: str) -> dict[str, Any]:
    """Read published curves.

    Parameters
    ----------
    name : str
        File below the folder of the experiments, ``mtsvm/published/curves.yaml``.

    Returns
    -------
    dict
        ``{"file": name, "curves": [{"dataset", "method", "name", "x", "y", "source"}, ...]}``: `name` is that of a
        curve or of a quantity, `x` and `y` are lists of numbers of one length.

    Raises
    ------
    ConfigError
        If the file is missing or no list of curves.
    """
    data = load_text(published_path(name).read_text(encoding="utf-8"), f"configs/{name}").data
    curves = data.get("curves") if isinstance(data, dict) else None
    if not isinstance(curves, list):
        raise ConfigError(f"configs/{name}: must be a mapping with a list 'curves'")
    for i, curve in enumerate(curves):
        problem = _problem(curve)
        if problem:
            raise ConfigError(f"configs/{name}: curves[{i}]: {problem}")
    return {"file": name, "curves": curves}


def _problem(curve: Any) -> str | None:
    if not isinstance(curve, dict):
        return "must be a mapping"
    lacking = [name for name in _NEEDS if name not in curve]
    unknown = [str(name) for name in curve if name not in (*_NEEDS, *_MAY)]
    if lacking or unknown:
        known = f"; known: {', '.join((*_NEEDS, *_MAY))}"
        return f"missing key {lacking[0]!r}" if lacking else f"unknown key {unknown[0]!r}{known}"
    for name in ("x", "y"):
        numbers = isinstance(curve[name], list) and all(
            isinstance(v, int | float) and not isinstance(v, bool) for v in curve[name]
        )
        if not numbers:
            return f"{name!r} must be a list of numbers"
    return None if len(curve["x"]) == len(curve["y"]) else "'x' and 'y' must be of one length"
