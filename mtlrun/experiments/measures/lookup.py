"""Measures by their names: where they are, what they take and what they return. Loads no measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mtlrun.core.errors import ConfigError, UnknownNameError
from mtlrun.core.resources import configs_dir
from mtlrun.experiments.measures.registry import MEASURES, Quantity
from mtlrun.runs.sources import function

#: Parameter of measures that names a file of published numbers; the content of the file is part of the key.
PUBLISHED = "published"
#: Given by the runner, not by the file.
_RESERVED = ("seed",)


def measure_path(name: str) -> str:
    """Return ``package.module:function`` of a registered measure or of a function path, which must exist.

    Raises
    ------
    UserError
        If there is no such measure, module or function.
    """
    if ":" not in name and name not in MEASURES:
        raise UnknownNameError("measure", name, MEASURES)
    path = name if ":" in name else MEASURES[name].path
    function(path)
    return path


def measure_parameters(name: str) -> tuple[str, ...] | None:
    """Return what a measure can be given in `params`; None when any name may be right.

    Raises
    ------
    UserError
        If there is no such measure, module or function.
    """
    found = function(measure_path(name))
    return None if found.open else tuple(n for n in found.names if n not in _RESERVED)


def quantities_of(names: Iterable[str]) -> dict[str, Quantity] | None:
    """Return what some measures can return; None when one of them is a function that no registry describes."""
    found: dict[str, Quantity] = {}
    for name in names:
        if name not in MEASURES:
            return None
        found |= MEASURES[name].quantities
    return found


def needs_data(name: str) -> bool:
    """Whether a measure is taken of a data set; functions outside the registry say so by being given one."""
    return name in MEASURES and MEASURES[name].needs_data


def published_path(name: str) -> Path:
    """Return a file of published numbers, named from the folder of the experiments on.

    Raises
    ------
    ConfigError
        If there is no such file.
    """
    path = configs_dir() / name
    if not path.is_file():
        raise ConfigError(f"no file of published numbers {name!r}", "It is named below configs/, with its ending.")
    return path


def published_hash(params: Mapping[str, Any]) -> dict[str, str]:
    """Return ``{name: sha256}`` of the file that the parameter `published` names, {} without it."""
    import hashlib

    name = params.get(PUBLISHED)
    if not isinstance(name, str):
        return {}
    return {name: hashlib.sha256(published_path(name).read_bytes()).hexdigest()}
