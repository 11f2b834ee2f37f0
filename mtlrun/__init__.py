"""Multi-task learning: estimators, certified solvers and reproducible experiments."""

from __future__ import annotations

from importlib import import_module

# `typing` is not imported at run time: importing it takes a noticeable part of the time
# before the command line can handle Ctrl-C. Type checkers take this constant for true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtlrun.api import compare
    from mtlrun.data.roles.check import check_table
    from mtlrun.lab.report.frames import load_results
    from mtlrun.lab.results import load_run, reproduce
    from mtlrun.model.files import load_model
    from mtlrun.model.task_lines import plot_task

__version__ = "0.2.0"
__all__ = [
    "__version__",
    "check_table",
    "compare",
    "load_model",
    "load_results",
    "load_run",
    "plot_task",
    "reproduce",
]

_HOMES = {
    "check_table": "mtlrun.data.roles.check",
    "compare": "mtlrun.api",
    "load_model": "mtlrun.model.files",
    "load_results": "mtlrun.lab.report.frames",
    "load_run": "mtlrun.lab.results",
    "plot_task": "mtlrun.model.task_lines",
    "reproduce": "mtlrun.lab.results",
}


def __getattr__(name: str) -> Any:
    # Imported on demand: the command line starts without numpy.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
