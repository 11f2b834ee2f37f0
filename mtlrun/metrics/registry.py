"""All metrics by name, each with what it needs and its direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from mtlrun.errors import UnknownNameError
from mtlrun.metrics.classification import (
    accuracy_per_task,
    balanced_accuracy_per_task,
    f1_per_task,
    log_loss_per_task,
)
from mtlrun.metrics.inputs import Array
from mtlrun.metrics.ranking import (
    auc_frequent_per_task,
    auc_micro_per_task,
    auc_per_task,
    auc_samples_per_task,
    average_precision_per_task,
)
from mtlrun.metrics.regression import (
    explained_variance_per_task,
    mse_per_task,
    nmse_per_task,
    r2_per_task,
    rmse_per_task,
)


@dataclass(frozen=True)
class Metric:
    """A metric with its function.

    Attributes
    ----------
    name : str
    function : callable
        ``function(targets, predictions, **layout) -> (n_tasks,)``.
    greater_is_better : bool
    needs : {"score", "label", "value"}
        Real scores whose sign separates the classes, predicted labels, or predicted
        values of a regression.
    task_variance : bool
        Whether the function takes `variance`, computed from all rows of each task,
        training and test.
    shrinks_variance : bool
        Whether these variances are shrunken (`mtlrun.engine.evaluation`), as in gains.
    shrunken : str
        Name of the metric that takes its place where tasks have rows of their own.
        There, a task may have two test rows only, with a variance of almost 0.
    """

    name: str
    function: Callable[..., Array]
    greater_is_better: bool
    needs: Literal["score", "label", "value"]
    task_variance: bool = False
    shrinks_variance: bool = False
    shrunken: str = ""

    def __call__(self, targets: Any, predictions: Any, **layout: Any) -> Array:
        """Return the metric per task."""
        return self.function(targets, predictions, **layout)


_ALL_METRICS = (
    Metric("auc", auc_per_task, True, "score"),
    Metric("auc_frequent", auc_frequent_per_task, True, "score"),
    Metric("auc_micro", auc_micro_per_task, True, "score"),
    Metric("auc_samples", auc_samples_per_task, True, "score"),
    Metric("average_precision", average_precision_per_task, True, "score"),
    Metric("log_loss", log_loss_per_task, False, "score"),
    Metric("accuracy", accuracy_per_task, True, "label"),
    Metric("balanced_accuracy", balanced_accuracy_per_task, True, "label"),
    Metric("f1", f1_per_task, True, "label"),
    Metric("mse", mse_per_task, False, "value"),
    Metric("rmse", rmse_per_task, False, "value"),
    Metric("nmse", nmse_per_task, False, "value", shrunken="nmse_shrunken"),
    Metric(
        "nmse_all",
        nmse_per_task,
        False,
        "value",
        task_variance=True,
        shrunken="nmse_shrunken",
    ),
    Metric(
        "nmse_shrunken",
        nmse_per_task,
        False,
        "value",
        task_variance=True,
        shrinks_variance=True,
    ),
    Metric("r2", r2_per_task, True, "value", shrunken="r2_shrunken"),
    Metric(
        "r2_shrunken",
        r2_per_task,
        True,
        "value",
        task_variance=True,
        shrinks_variance=True,
    ),
    Metric("explained_variance", explained_variance_per_task, True, "value"),
)
#: All metrics by name. `mtlrun.catalog.interfaces` lists the kinds of predictions that
#: they need, without importing anything.
METRICS = {metric.name: metric for metric in _ALL_METRICS}


def get_metric(name: str) -> Metric:
    """Return the metric of that name.

    Raises
    ------
    UnknownNameError
        With the nearest names.
    """
    if name not in METRICS:
        raise UnknownNameError("metric", name, METRICS)
    return METRICS[name]
