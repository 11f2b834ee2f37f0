"""scikit-learn estimators and the registry of methods. Importing the package imports no numpy."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    # Every registered method by its name, its module imported on demand.
    from mtlrun.estimators.registry import METHODS, load_class

    if name in METHODS:
        return load_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from mtlrun.estimators.registry import METHODS

    return sorted([*globals(), *METHODS])
