"""What each metric is called and needs, readable without NumPy: the table behind `mtlrun.metrics.METRICS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MetricFacts:
    """How a metric is used.

    Attributes
    ----------
    greater_is_better : bool
    needs : {"score", "label", "value"}
        Real scores whose sign separates the classes, predicted labels, or predicted values of a regression.
    task_variance : bool
        Whether the function takes `variance`, that of all rows of every task, training and test.
    """

    greater_is_better: bool
    needs: Literal["score", "label", "value"]
    task_variance: bool = False


METRIC_FACTS = {
    "auc": MetricFacts(True, "score"),
    "average_precision": MetricFacts(True, "score"),
    "log_loss": MetricFacts(False, "score"),
    "accuracy": MetricFacts(True, "label"),
    "balanced_accuracy": MetricFacts(True, "label"),
    "f1": MetricFacts(True, "label"),
    "mse": MetricFacts(False, "value"),
    "rmse": MetricFacts(False, "value"),
    "nmse": MetricFacts(False, "value"),
    "nmse_all": MetricFacts(False, "value", task_variance=True),
    "r2": MetricFacts(True, "value"),
    "explained_variance": MetricFacts(True, "value"),
}
