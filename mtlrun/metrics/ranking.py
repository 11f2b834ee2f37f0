"""Metrics of real scores that compare only their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from mtlrun.metrics.inputs import Array, average, binary_and_scores, per_task

#: Rows of each class that a task needs for `auc_frequent_per_task`.
FREQUENT = 10


def auc_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """Area under the ROC curve, ties counted one half; NaN for a task of one class.

    Parameters
    ----------
    targets, scores : 2-D arrays, flat arrays or lists of arrays
        Binary labels and real scores, see the layouts of `mtlrun.metrics`.
    **layout
        `offsets`, `task_id`, `tasks`, `weights`.

    Returns
    -------
    ndarray of shape (n_tasks,)

    Raises
    ------
    ValueError
        If shapes differ or a score is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.metrics import auc_per_task, average
    >>> Y = np.array([[1, -1], [-1, -1], [1, -1]])
    >>> scores = np.array([[0.9, 0.1], [0.2, 0.3], [0.1, 0.2]])
    >>> auc = auc_per_task(Y, scores)
    >>> auc.tolist()
    [0.5, nan]
    >>> average(auc)
    (0.5, 1)
    """
    labels, scores = binary_and_scores(targets, scores)
    return per_task(_auc, labels, scores, **layout)


def auc_frequent_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """AUC of the tasks with at least ten rows of each class.

    NaN for the others, whose AUC is mostly chance.
    """

    def auc_of_frequent(y: Array, score: Array, weight: Array) -> float:
        is_positive = y > 0
        positive_weight = weight[is_positive].sum()
        negative_weight = weight[~is_positive].sum()
        if min(positive_weight, negative_weight) >= FREQUENT:
            return _auc(y, score, weight)
        return np.nan

    labels, scores = binary_and_scores(targets, scores)
    return per_task(auc_of_frequent, labels, scores, **layout)


def auc_micro_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """AUC of all rows of all tasks together (micro average), for each task with rows.

    Scores are compared across tasks, so that frequent labels count more, and the level
    of a task's scores counts.
    """
    pieces: list[tuple[Array, Array, Array]] = []

    # `per_task` has dropped the rows that do not count when it calls this.
    def keep(y: Array, score: Array, weight: Array) -> float:
        pieces.append((y, score, weight))
        return 0.0

    labels, scores = binary_and_scores(targets, scores)
    is_empty = np.isnan(per_task(keep, labels, scores, **layout))
    pooled_auc = np.nan
    if pieces:
        y, score, weight = map(np.concatenate, zip(*pieces, strict=True))
        pooled_auc = _auc(y, score, weight)
    return np.where(is_empty, np.nan, pooled_auc)


def auc_samples_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """Mean over the rows of the AUC of a row's scores, the same for each task.

    The AUC of a row says how its positive tasks are ranked. Rows of one class do not
    count. NaN where each row belongs to one task, or each entry has its own weight.
    """
    labels, scores = binary_and_scores(targets, scores)
    weights = layout.get("weights")
    has_weighted_entries = weights is not None and np.ndim(weights) > 1
    if np.ndim(labels) != 2 or has_weighted_entries:
        return per_task(lambda *_: np.nan, labels, scores, **layout)
    # With rows and columns exchanged, each row is a task.
    auc_per_row = auc_per_task(labels.T, scores.T)
    if weights is None:
        mean, _ = average(auc_per_row)
    else:
        mean, _ = average(auc_per_row, weights, "sample")
    has_no_label = np.isnan(labels).all(axis=0)
    return np.where(has_no_label, np.nan, mean)


def average_precision_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """Average precision, the area under the step-wise precision-recall curve.

    NaN for a task without positives.
    """

    def average_precision(y: Array, score: Array, weight: Array) -> float:
        is_positive = y > 0
        if not is_positive.any():
            return np.nan
        order = np.argsort(-score, kind="stable")
        hits = np.cumsum((weight * is_positive)[order])
        retrieved = np.cumsum(weight[order])
        # Rows with the same score are retrieved together.
        is_last_of_score = np.append(np.diff(score[order]) != 0, True)
        hits = hits[is_last_of_score]
        retrieved = retrieved[is_last_of_score]
        precision = hits / retrieved
        new_hits = np.diff(hits, prepend=0.0)
        return float(new_hits @ precision / hits[-1])

    labels, scores = binary_and_scores(targets, scores)
    return per_task(average_precision, labels, scores, **layout)


def _auc(y: Array, score: Array, weight: Array) -> float:
    """Return the AUC of one task, whose arrays have the same length >= 1."""
    # Two sorts and two searches are several times faster than ranking all rows, since
    # np.sort is vectorized.
    is_positive = y > 0
    positives = score[is_positive]
    negatives = score[~is_positive]
    if not positives.size or not negatives.size:
        return np.nan
    # The number of negatives below and up to a positive differ by its ties. Their sum
    # counts each negative that it beats twice, and each tie once.
    if np.ptp(weight) == 0:
        positives = np.sort(positives)
        negatives = np.sort(negatives)
        n_below = np.searchsorted(negatives, positives, "left").sum()
        n_up_to = np.searchsorted(negatives, positives, "right").sum()
        n_pairs = 2.0 * positives.size * negatives.size
        return float(n_below + n_up_to) / n_pairs
    order = np.argsort(negatives, kind="stable")
    negatives = negatives[order]
    sorted_weights = weight[~is_positive][order]
    cumulated = np.concatenate([[0.0], np.cumsum(sorted_weights)])
    weight_below = cumulated[np.searchsorted(negatives, positives, "left")]
    weight_up_to = cumulated[np.searchsorted(negatives, positives, "right")]
    positive_weights = weight[is_positive]
    wins = positive_weights @ (weight_below + weight_up_to)
    return float(wins / (2.0 * positive_weights.sum() * cumulated[-1]))
