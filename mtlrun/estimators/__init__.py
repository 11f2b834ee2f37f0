"""scikit-learn estimators and the registry of methods. Importing the package imports no numpy.

The classes stand in ``__init__.pyi``, which ``python -m mtlrun.estimators`` writes; a module is imported on demand.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

#: Module of each public class.
HOMES: dict[str, str] = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import \w+ as (\w+)$",
        Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}

__all__ = [*HOMES]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
