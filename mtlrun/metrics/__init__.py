"""Metrics per task and their averages.

Each ``*_per_task`` function takes targets and predictions in one of these layouts and
returns one value per task, of shape (n_tasks,). It is NaN where the metric is undefined
for a task (no rows, labels of one class, no variance):

* shared: 2-D arrays (n, T), a column per task; an entry whose target is NaN is masked;
* flat: 1-D arrays (N,) with either `offsets` (T+1,) into rows sorted by task, or
  `task_id` (N,) in any order, whose tasks come out in sorted order or in the order of
  `tasks`; with neither, all rows are one task;
* lists of T arrays.

Rows whose target is NaN or whose weight is 0 do not count. Predictions must be finite:
a diverged model is an error, not an undefined value. Numbers of any type, booleans and
nullable columns of pandas are converted to float64 first. Binary labels are -1/+1, 0/1
or booleans; any others, such as 1/2, are refused.

Importing the package does not import NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "FREQUENT": "ranking",
    "LARGE_WEIGHT": "inputs",
    "METRICS": "registry",
    "Metric": "registry",
    "accuracy_per_task": "classification",
    "auc_frequent_per_task": "ranking",
    "auc_micro_per_task": "ranking",
    "auc_per_task": "ranking",
    "auc_samples_per_task": "ranking",
    "average": "inputs",
    "average_precision_per_task": "ranking",
    "balanced_accuracy_per_task": "classification",
    "explained_variance_per_task": "regression",
    "f1_per_task": "classification",
    "get_metric": "registry",
    "labels_from_scores": "classification",
    "log_loss_per_task": "classification",
    "mse_per_task": "regression",
    "nmse_per_task": "regression",
    "r2_per_task": "regression",
    "rmse_per_task": "regression",
    "seen_rows": "scorer",
    "task_scorer": "scorer",
}
__all__ = list(_HOMES)

if TYPE_CHECKING:
    from mtlrun.metrics.classification import accuracy_per_task as accuracy_per_task
    from mtlrun.metrics.classification import (
        balanced_accuracy_per_task as balanced_accuracy_per_task,
    )
    from mtlrun.metrics.classification import f1_per_task as f1_per_task
    from mtlrun.metrics.classification import labels_from_scores as labels_from_scores
    from mtlrun.metrics.classification import log_loss_per_task as log_loss_per_task
    from mtlrun.metrics.inputs import LARGE_WEIGHT as LARGE_WEIGHT
    from mtlrun.metrics.inputs import average as average
    from mtlrun.metrics.ranking import FREQUENT as FREQUENT
    from mtlrun.metrics.ranking import auc_frequent_per_task as auc_frequent_per_task
    from mtlrun.metrics.ranking import auc_micro_per_task as auc_micro_per_task
    from mtlrun.metrics.ranking import auc_per_task as auc_per_task
    from mtlrun.metrics.ranking import auc_samples_per_task as auc_samples_per_task
    from mtlrun.metrics.ranking import (
        average_precision_per_task as average_precision_per_task,
    )
    from mtlrun.metrics.registry import METRICS as METRICS
    from mtlrun.metrics.registry import Metric as Metric
    from mtlrun.metrics.registry import get_metric as get_metric
    from mtlrun.metrics.regression import (
        explained_variance_per_task as explained_variance_per_task,
    )
    from mtlrun.metrics.regression import mse_per_task as mse_per_task
    from mtlrun.metrics.regression import nmse_per_task as nmse_per_task
    from mtlrun.metrics.regression import r2_per_task as r2_per_task
    from mtlrun.metrics.regression import rmse_per_task as rmse_per_task
    from mtlrun.metrics.scorer import seen_rows as seen_rows
    from mtlrun.metrics.scorer import task_scorer as task_scorer
else:
    # With this function in sight, type checkers would accept any name.
    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

    def __dir__() -> list[str]:
        return sorted([*globals(), *_HOMES])
