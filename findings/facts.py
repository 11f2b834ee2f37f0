"""Facts that a finding states: printed, and checked against what was seen."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def fact(text: str, value: Any, expected: Any, tolerance: float = 0.0) -> None:
    """Print a fact; exit with code 1 if the value is no longer the expected one.

    Parameters
    ----------
    text : str
    value : number, text, or nested list of them
    expected : same type
    tolerance : float, default=0
        Largest absolute difference of numbers.
    """
    if tolerance:
        unchanged = np.allclose(value, expected, rtol=0, atol=tolerance)
        value = np.round(value, 4).tolist()
    else:
        unchanged = value == expected
    if not unchanged:
        print(f"CHANGED  {text}: {value}; it was {expected}")
        sys.exit(1)
    print(f"fact  {text}: {value}")


def error_of(action: Callable[[], object]) -> str:
    """Return the type of the error that the action raises, or "none"."""
    try:
        action()
    except Exception as error:
        return type(error).__name__
    return "none"


def grouped_data(n_tasks: int = 12, n_rows: int = 8, task_std: float = 1.0) -> Any:
    """Return a data frame with y = 1 + 2 x + level of the task + noise of variance 1.

    Columns: y, x, task (integers from 0). Rows of a task follow each other.
    """
    import pandas as pd

    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), n_rows)
    x = rng.normal(size=task.size)
    level = task_std * rng.normal(size=n_tasks)
    y = 1 + 2 * x + level[task] + rng.normal(size=task.size)
    return pd.DataFrame({"y": y, "x": x, "task": task})
