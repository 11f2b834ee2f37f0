"""Multi-task learning: estimators, certified solvers and reproducible experiments."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtlrun.runs.compare import compare

__version__ = "0.1.0"
__all__ = ["__version__", "compare"]


def __getattr__(name: str) -> Any:
    # Imported on demand: the command line starts without numpy.
    if name == "compare":
        return import_module("mtlrun.runs.compare").compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
