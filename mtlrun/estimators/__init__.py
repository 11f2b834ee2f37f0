"""scikit-learn estimators. Importing the package imports no numpy.

The generated module `mtlrun.estimators.declarations` lists the classes. Their modules are
imported when a class is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mtlrun.estimators import declarations

__all__ = declarations.__all__

#: Name of each public class -> its module.
HOMES: dict[str, str] = {
    name: module for module, names in declarations.CLASSES.items() for name in names
}

if TYPE_CHECKING:
    from mtlrun.estimators.declarations import *  # noqa: F403
else:
    # With this function in sight, type checkers would accept any name.
    def __getattr__(name: str) -> Any:
        # Names of leaderboards such as PooledRidge+Task have no plus in Python.
        class_name = name.replace("+", "")
        if class_name not in HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(HOMES[class_name]), class_name)


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
