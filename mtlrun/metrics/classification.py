"""Metrics of predicted labels and of predicted log-odds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mtlrun.metrics.inputs import (
    Array,
    as_binary,
    binary_and_scores,
    labels_of_classes,
    per_task,
    weighted_mean,
)


def log_loss_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """Mean of log(1 + exp(-y f)) with y in -1/+1, where the scores f are log-odds."""

    def log_loss(y: Array, score: Array, weight: Array) -> float:
        negated_margin = np.where(y > 0, -score, score)
        # log(1 + exp(x)), which would overflow for a large x
        losses = np.logaddexp(0.0, negated_margin)
        return weighted_mean(losses, weight)

    labels, scores = binary_and_scores(targets, scores)
    return per_task(log_loss, labels, scores, **layout)


def accuracy_per_task(targets: Any, labels: Any, **layout: Any) -> Array:
    """Share of rows whose label is right, for any number of classes."""

    def accuracy(y: Array, label: Array, weight: Array) -> float:
        return weighted_mean(y == label, weight)

    targets, labels = labels_of_classes(targets, labels)
    return per_task(accuracy, targets, labels, **layout)


def balanced_accuracy_per_task(targets: Any, labels: Any, **layout: Any) -> Array:
    """Mean over the classes present of the share of their rows that is right."""

    def mean_recall(y: Array, label: Array, weight: Array) -> float:
        recalls = []
        # Only classes with rows: the recall of the others is 0 / 0.
        for class_label in np.unique(y):
            rows = y == class_label
            recalls.append(weighted_mean(label[rows] == class_label, weight[rows]))
        return float(np.mean(recalls))

    targets, labels = labels_of_classes(targets, labels)
    return per_task(mean_recall, targets, labels, **layout)


def f1_per_task(targets: Any, labels: Any, **layout: Any) -> Array:
    """F1 of the positive class.

    NaN for a task with no positive label in either truth or prediction.
    """

    def f1(y: Array, label: Array, weight: Array) -> float:
        is_positive = y > 0
        is_predicted = label > 0
        size = weight @ is_positive + weight @ is_predicted
        if size > 0:
            hits = weight @ (is_positive & is_predicted)
            return float(2.0 * hits / size)
        return np.nan

    true_labels = as_binary(targets, "targets")
    predicted_labels = as_binary(labels, "predictions")
    return per_task(f1, true_labels, predicted_labels, **layout)


def labels_from_scores(scores: ArrayLike, *, negative: int = -1) -> Array:
    """Return 1 where the score is > 0 and `negative` (-1 or 0) elsewhere."""
    return np.where(np.asarray(scores) > 0, 1, negative)
