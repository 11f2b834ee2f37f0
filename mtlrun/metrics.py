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
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import MetadataRequest

from mtlrun.data.frames import ordered_columns, plain_ids, take_column
from mtlrun.errors import UnknownNameError, listed
from mtlrun.utils.rows import take

Array = np.ndarray
Kernel = Callable[[Array, Array, Array], float]
#: Rows of each class that a task needs for `auc_frequent_per_task`.
FREQUENT = 10
#: Larger weights are divided by the largest one.
LARGE_WEIGHT = 1e100


# --- one task: y, predictions and weights are 1-D, finite and of the same length >= 1 ---


def _auc(y: Array, score: Array, weight: Array) -> float:
    # Two sorts and two searches are several times faster than ranking all rows, since
    # np.sort is vectorized.
    positive = y > 0
    pos = score[positive]
    neg = score[~positive]
    if not pos.size or not neg.size:
        return np.nan
    if np.ptp(weight) == 0:
        pos = np.sort(pos)
        neg = np.sort(neg)
        wins = (
            np.searchsorted(neg, pos, "left").sum()
            + np.searchsorted(neg, pos, "right").sum()
        )
        return float(wins) / (2.0 * pos.size * neg.size)
    order = np.argsort(neg, kind="stable")
    cumulated = np.concatenate([[0.0], np.cumsum(weight[~positive][order])])
    neg = neg[order]
    w_pos = weight[positive]
    wins = w_pos @ (
        cumulated[np.searchsorted(neg, pos, "left")]
        + cumulated[np.searchsorted(neg, pos, "right")]
    )
    return float(wins / (2.0 * w_pos.sum() * cumulated[-1]))


def _auc_of_frequent(y: Array, score: Array, weight: Array) -> float:
    positive = y > 0
    enough = min(weight[positive].sum(), weight[~positive].sum()) >= FREQUENT
    if enough:
        return _auc(y, score, weight)
    return np.nan


def _average_precision(y: Array, score: Array, weight: Array) -> float:
    positive = y > 0
    if not positive.any():
        return np.nan
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum((weight * positive)[order])
    retrieved = np.cumsum(weight[order])
    # Rows with the same score are retrieved together.
    last = np.append(np.diff(score[order]) != 0, True)
    hits = hits[last]
    retrieved = retrieved[last]
    return float(np.diff(hits, prepend=0.0) @ (hits / retrieved) / hits[-1])


def _mean(values: Array, weight: Array) -> float:
    return float(weight @ values / weight.sum())


def _log_loss(y: Array, score: Array, weight: Array) -> float:
    return _mean(np.logaddexp(0.0, np.where(y > 0, -score, score)), weight)


def _accuracy(y: Array, label: Array, weight: Array) -> float:
    return _mean(y == label, weight)


def _balanced_accuracy(y: Array, label: Array, weight: Array) -> float:
    recalls = []
    for c in np.unique(y):
        rows = y == c
        recalls.append(_mean(label[rows] == c, weight[rows]))
    return float(np.mean(recalls))


def _f1(y: Array, label: Array, weight: Array) -> float:
    positive = y > 0
    is_predicted = label > 0
    size = weight @ positive + weight @ is_predicted
    if size > 0:
        return float(2.0 * (weight @ (positive & is_predicted)) / size)
    return np.nan


def _mse(y: Array, value: Array, weight: Array) -> float:
    return _mean((y - value) ** 2, weight)


def _variance(y: Array, weight: Array) -> float:
    if np.ptp(y) == 0:
        return 0.0
    return _mean((y - _mean(y, weight)) ** 2, weight)


def _nmse(y: Array, value: Array, weight: Array) -> float:
    variance = _variance(y, weight)
    if variance > 0:
        return _mse(y, value, weight) / variance
    return np.nan


def _undefined(y: Array, value: Array, weight: Array) -> float:
    return np.nan


def _total_weight(y: Array, value: Array, weight: Array) -> float:
    return float(weight.sum())


def _target_mean(y: Array, value: Array, weight: Array) -> float:
    return float(np.average(y, weights=weight))


def _target_variance(y: Array, value: Array, weight: Array) -> float:
    return _variance(y, weight)


# --- all tasks ---


def auc_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """Area under the ROC curve, ties counted one half; NaN for a task of one class.

    Parameters
    ----------
    targets, scores : field, flat arrays or lists
        Binary labels and real scores, see the module's layouts.
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
    return _per_task(_auc, *_scored(targets, scores), **layout)


def auc_frequent_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """AUC of the tasks with at least ten rows of each class.

    NaN for the others, whose AUC is mostly chance.
    """
    return _per_task(_auc_of_frequent, *_scored(targets, scores), **layout)


def auc_micro_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """AUC of all rows of all tasks together (micro average), for each task with rows.

    Scores are compared across tasks, so that frequent labels count more, and the level
    of a task's scores counts.
    """
    pieces: list[tuple[Array, Array, Array]] = []

    def keep(y: Array, score: Array, weight: Array) -> float:
        pieces.append((y, score, weight))
        return 0.0

    empty = np.isnan(_per_task(keep, *_scored(targets, scores), **layout))
    pooled = np.nan
    if pieces:
        y, score, weight = map(np.concatenate, zip(*pieces, strict=True))
        pooled = _auc(y, score, weight)
    return np.where(empty, np.nan, pooled)


def auc_samples_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """Mean over the rows of the AUC of a row's scores, the same for each task.

    The AUC of a row says how its positive tasks are ranked. Rows of one class do not
    count. NaN where each row belongs to one task, or each entry has its own weight.
    """
    Y, S = _scored(targets, scores)
    weights = layout.get("weights")
    has_weighted_entries = weights is not None and np.ndim(weights) > 1
    if np.ndim(Y) != 2 or has_weighted_entries:
        return _per_task(_undefined, Y, S, **layout)
    auc_per_row = auc_per_task(Y.T, S.T)
    if weights is None:
        mean, _ = average(auc_per_row)
    else:
        mean, _ = average(auc_per_row, weights, "sample")
    return np.where(np.isnan(Y).all(axis=0), np.nan, mean)


def average_precision_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """Average precision, the area under the step-wise precision-recall curve.

    NaN for a task without positives.
    """
    return _per_task(_average_precision, *_scored(targets, scores), **layout)


def log_loss_per_task(targets: Any, scores: Any, **layout: Any) -> Array:
    """Mean of log(1 + exp(-y f)) with y in -1/+1, where the scores f are log-odds."""
    return _per_task(_log_loss, *_scored(targets, scores), **layout)


def accuracy_per_task(targets: Any, labels: Any, **layout: Any) -> Array:
    """Share of rows whose label is right, for any number of classes."""
    return _per_task(_accuracy, *_labelled(targets, labels), **layout)


def balanced_accuracy_per_task(targets: Any, labels: Any, **layout: Any) -> Array:
    """Mean over the classes present of the share of their rows that is right."""
    return _per_task(_balanced_accuracy, *_labelled(targets, labels), **layout)


def f1_per_task(targets: Any, labels: Any, **layout: Any) -> Array:
    """F1 of the positive class.

    NaN for a task with no positive label in either truth or prediction.
    """
    true_labels = _binary(targets, "targets")
    predicted_labels = _binary(labels, "predictions")
    return _per_task(_f1, true_labels, predicted_labels, **layout)


def mse_per_task(targets: Any, values: Any, **layout: Any) -> Array:
    """Mean squared error."""
    targets = _as_floats(targets, "targets")
    values = _as_floats(values, "predictions")
    is_flat = (
        isinstance(targets, np.ndarray)
        and isinstance(values, np.ndarray)
        and targets.ndim == 1
        and targets.shape == values.shape
    )
    if is_flat and layout.get("weights") is None:
        errors = (targets - values) ** 2
        if np.isfinite(errors).all():
            # The means of all tasks at once are faster than a loop over tasks.
            codes, n_tasks = _codes(
                len(errors),
                layout.get("offsets"),
                layout.get("task_id"),
                layout.get("tasks"),
            )
            sizes = np.bincount(codes, minlength=n_tasks)
            sums = np.bincount(codes, errors, n_tasks)
            return np.divide(sums, sizes, out=np.full(n_tasks, np.nan), where=sizes > 0)
    return _per_task(_mse, targets, values, **layout)


def rmse_per_task(targets: Any, values: Any, **layout: Any) -> Array:
    """Square root of the mean squared error."""
    return np.sqrt(mse_per_task(targets, values, **layout))


def nmse_per_task(
    targets: Any, values: Any, *, variance: ArrayLike | None = None, **layout: Any
) -> Array:
    """Mean squared error over the variance of the task; NaN where the variance is 0.

    Parameters
    ----------
    variance : array-like of shape (n_tasks,) or scalar, optional
        For instance the variance in the training part. Default: the population variance
        of the targets.

    Examples
    --------
    >>> from mtlrun.metrics import nmse_per_task
    >>> y = [1.0, 3.0, 0.0, 4.0]
    >>> nmse_per_task(y, [2.0, 2.0, 1.0, 3.0], task_id=["a", "a", "b", "b"]).tolist()
    [1.0, 0.25]
    """
    targets = _as_floats(targets, "targets")
    values = _as_floats(values, "predictions")
    if variance is None:
        return _per_task(_nmse, targets, values, **layout)
    mse = mse_per_task(targets, values, **layout)
    variances = np.broadcast_to(np.asarray(variance, dtype=float), mse.shape)
    return np.divide(
        mse, variances, out=np.full(mse.shape, np.nan), where=variances > 0
    )


def r2_per_task(targets: Any, values: Any, **layout: Any) -> Array:
    """Coefficient of determination, 1 - NMSE; NaN for a task with constant targets."""
    return 1.0 - nmse_per_task(targets, values, **layout)


def explained_variance_per_task(targets: Any, values: Any, **layout: Any) -> Array:
    """1 - MSE over the variance of the targets of all tasks together.

    Averaged by rows (``how="sample"``) it is 1 - MSE / variance of the pooled rows, as
    results on the School data are reported.
    """
    targets = _as_floats(targets, "targets")
    values = _as_floats(values, "predictions")
    sizes = _per_task(_total_weight, targets, values, **layout)
    means = _per_task(_target_mean, targets, values, **layout)
    variances = _per_task(_target_variance, targets, values, **layout)
    # The size of a task without rows is NaN.
    has_rows = sizes > 0
    if not has_rows.any():
        return sizes
    between = _variance(means[has_rows], sizes[has_rows])
    within = float(np.average(variances[has_rows], weights=sizes[has_rows]))
    return 1.0 - nmse_per_task(targets, values, variance=between + within, **layout)


def average(
    values: ArrayLike,
    sizes: ArrayLike | None = None,
    how: Literal["task", "sample"] = "task",
) -> tuple[float, int]:
    """Average over the tasks for which the metric is defined.

    Parameters
    ----------
    values : array-like of shape (n_tasks,)
    sizes : array-like of shape (n_tasks,), optional
        Rows per task, or their weights; needed by ``how="sample"``.
    how : {"task", "sample"}
        Every task counts the same, or as much as it has rows.

    Returns
    -------
    mean : float
        NaN when no task is defined.
    n_undefined : int
        Number of tasks left out.
    """
    array = np.asarray(values, dtype=float)
    defined = ~np.isnan(array)
    if how not in ("task", "sample"):
        raise ValueError(f"how must be 'task' or 'sample', got {how!r}")
    if how == "sample" and sizes is None:
        raise ValueError("how='sample' needs the sizes of the tasks")
    if how == "task":
        weight = np.ones(array.shape)
    else:
        weight = np.asarray(sizes, dtype=float)
    if weight.shape != array.shape:
        raise ValueError(f"sizes must have shape {array.shape}, got {weight.shape}")
    total = weight[defined].sum()
    if total > 0:
        mean = float(weight[defined] @ array[defined] / total)
    else:
        mean = np.nan
    return mean, int((~defined).sum())


def labels_from_scores(scores: ArrayLike, *, negative: int = -1) -> Array:
    """Return 1 where the score is > 0 and `negative` (-1 or 0) elsewhere."""
    return np.where(np.asarray(scores) > 0, 1, negative)


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
        Whether these variances are shrunken (`mtlrun.engine.averages`), as in gains.
    """

    name: str
    function: Callable[..., Array]
    greater_is_better: bool
    needs: Literal["score", "label", "value"]
    task_variance: bool = False
    shrinks_variance: bool = False

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
    Metric("nmse", nmse_per_task, False, "value"),
    Metric("nmse_all", nmse_per_task, False, "value", task_variance=True),
    Metric(
        "nmse_shrunken",
        nmse_per_task,
        False,
        "value",
        task_variance=True,
        shrinks_variance=True,
    ),
    Metric("r2", r2_per_task, True, "value"),
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
#: All metrics by name. `mtlrun.engine.interfaces` lists the kinds of predictions that
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


# --- scorers ---


#: Lines of code that have been warned. Otherwise searches would repeat it for each fit.
_WARNED: set[tuple[str, int]] = set()


def seen_rows(task_id: ArrayLike, tasks: ArrayLike) -> Array | None:
    """Return the rows whose task is among `tasks`, or None if all are.

    Warn of the other rows, once for each calling line. A splitter that ignores tasks
    leaves some of them without training rows, and all of them if the rows are sorted by
    task.
    """
    is_seen = np.isin(plain_ids(task_id), np.asarray(tasks))
    if is_seen.all():
        return None
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(
        "mtlrun."
    ):
        frame = frame.f_back
        level += 1
    code_line = (frame.f_code.co_filename, frame.f_lineno)
    if code_line not in _WARNED:
        _WARNED.add(code_line)
        warnings.warn(
            "rows of tasks without training data are left out of the score: the "
            "splitter ignores task ids (KFold on rows sorted by task has no task on "
            "both sides). Use cv=TaskStratifiedKFold() from mtlrun.data, with "
            "task_column or with task_id as metadata.",
            UserWarning,
            stacklevel=level,
        )
    return np.flatnonzero(is_seen)


def task_scorer(
    metric: str,
    *,
    task_column: int | str | None = None,
    how: Literal["task", "sample"] = "task",
) -> Callable[..., float]:
    """Return a scorer for scikit-learn: a metric per task, averaged over the tasks.

    Searches and cross-validation take it as ``scoring``. It takes `task_id` as metadata
    (with ``enable_metadata_routing=True`` it needs no request), or the ids from a
    column of X. Metrics of which lower values are better are negated. Targets of a 2-D
    `y` may be NaN.

    Parameters
    ----------
    metric : str
        A name in `METRICS`. For scores the estimator needs `decision_function` or
        `predict_proba`.
    task_column : int or str, optional
        Column of X with the task ids. Default: the `task_column` of the estimator. The
        estimator may be inside a search or another wrapper, or the last step of a
        pipeline; then it is a column of the output of the steps before it.
    how : {"task", "sample"}, default "task"
        See `average`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from mtlrun.data import TaskStratifiedKFold
    >>> from mtlrun.estimators import TraceNormMTL
    >>> from mtlrun.metrics import task_scorer
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=(60, 2)), np.repeat([0, 1, 2], 20)])
    >>> y = X[:, 0] + 0.1 * rng.normal(size=60)
    >>> folds = TaskStratifiedKFold(3, task_column=2, random_state=0)
    >>> search = GridSearchCV(
    ...     TraceNormMTL(task_column=2),
    ...     {"alpha": [0.1, 100]},
    ...     scoring=task_scorer("rmse"),
    ...     cv=folds,
    ... )
    >>> search.fit(X, y).best_params_
    {'alpha': 0.1}
    """
    return _TaskScorer(get_metric(metric), task_column, how)


class _TaskScorer:
    """The scorer of one metric."""

    def __init__(
        self,
        metric: Metric,
        task_column: int | str | None,
        how: Literal["task", "sample"],
    ) -> None:
        self.metric = metric
        self.task_column = task_column
        self.how = how

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        task_id: Any = None,
        sample_weight: Any = None,
    ) -> float:
        # A search predicts with its best estimator, but takes no task_id itself.
        while hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        model, before = _model_inside(estimator)
        if task_id is None:
            routed = {}
        else:
            routed = {"task_id": task_id}
        if getattr(model, "_layout", "") == "shared":
            y = ordered_columns(y, model.tasks_.tolist())
        y = np.asarray(y)
        ids = task_id
        if ids is None:
            ids = self._ids_from_column(X, model, before)
        if hasattr(model, "tasks_"):
            several = len(model.tasks_) > 1
        else:
            several = not hasattr(model, "task_column")
        if (
            ids is None
            and y.ndim == 1
            and several
            and getattr(model, "_layout", "ragged") == "ragged"
        ):
            raise ValueError(
                "task_scorer cannot tell the tasks of the rows: "
                f"{type(estimator).__name__} has no task_column, and no task_id came "
                "with the rows. Give task_scorer(..., task_column=...), or pass "
                "task_id as metadata."
            )
        seen = None
        if (
            ids is not None
            and hasattr(model, "tasks_")
            and getattr(model, "unseen", "error") != "mean"
        ):
            seen = seen_rows(ids, model.tasks_)
        if seen is not None:
            if not len(seen):
                return np.nan
            X = take(X, seen)
            ids = np.asarray(ids)[seen]
            y = y[seen]
            routed = routed and {"task_id": ids}
            if sample_weight is not None:
                sample_weight = np.asarray(sample_weight)[seen]
        predicted = self._predicted(estimator, X, routed)
        classes = None
        if self.metric.needs != "value":
            classes = getattr(estimator, "classes_", None)
        if classes is not None:
            if np.ndim(classes) == 2:
                classes = classes[0]
            if self.metric.needs == "label":
                predicted = _signs(predicted, classes)
            y = _signs(y, classes)
        if ids is None:
            layout = {}
        else:
            layout = {"task_id": ids}
        values = self.metric(y, predicted, weights=sample_weight, **layout)
        sizes = None
        if self.how == "sample":
            sizes = _per_task(
                _total_weight,
                y,
                predicted,
                weights=sample_weight,
                **layout,
            )
        value = average(values, sizes, self.how)[0]
        if self.metric.greater_is_better:
            return value
        return -value

    def _ids_from_column(self, X: Any, model: Any, before: list[Any]) -> Any:
        """Return the task ids in X; None if neither self nor model has a `task_column`."""
        if self.task_column is not None:
            return take_column(X, self.task_column)[0]
        column = getattr(model, "task_column", None)
        if column is None:
            return None
        # The model finds its column in the rows that the steps before it return.
        for steps in before:
            X = steps.transform(X)
        return take_column(X, column)[0]

    def _predicted(self, estimator: Any, X: Any, routed: dict[str, Any]) -> Array:
        if self.metric.needs != "score" or not hasattr(estimator, "classes_"):
            return np.asarray(estimator.predict(X, **routed))
        if hasattr(estimator, "decision_function"):
            return np.asarray(estimator.decision_function(X, **routed))
        probabilities = np.asarray(estimator.predict_proba(X, **routed))
        # Log-odds of 0 and 1 are infinite.
        positive = np.clip(probabilities[:, -1], 1e-12, 1 - 1e-12)
        return np.log(positive / (1 - positive))

    def __repr__(self) -> str:
        return f"task_scorer({self.metric.name!r})"

    def get_metadata_routing(self) -> Any:
        """Ask scikit-learn for `task_id`."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="task_id", alias=True)
        return request


def _model_inside(estimator: Any, depth: int = 6) -> tuple[Any, list[Any]]:
    """Return the multi-task model inside wrappers, and the steps before it.

    Wrappers are pipelines, searches and other estimators. A fitted model is preferred.
    Without a multi-task model, return the estimator itself.
    """
    if _is_multitask(estimator) or depth == 0:
        return estimator, []
    if hasattr(estimator, "steps"):
        model, before = _model_inside(estimator[-1], depth - 1)
        if len(estimator.steps) > 1:
            before = [estimator[:-1], *before]
        return model, before
    attributes = getattr(estimator, "__dict__", {})
    # Fitted attributes end with an underscore. The sort keeps the order otherwise.
    names = sorted(attributes, key=_is_unfitted_name)
    for name in names:
        values = attributes[name]
        if not isinstance(values, list | tuple):
            values = [values]
        for value in values:
            candidate = value
            if isinstance(value, tuple) and value:
                # Estimators in lists come as (name, estimator).
                candidate = value[-1]
            if hasattr(candidate, "get_params") and not isinstance(candidate, type):
                model, before = _model_inside(candidate, depth - 1)
                if _is_multitask(model):
                    return model, before
    return estimator, []


def _is_multitask(estimator: Any) -> bool:
    if hasattr(estimator, "tasks_"):
        return True
    return getattr(estimator, "task_column", None) is not None


def _is_unfitted_name(name: str) -> bool:
    return not name.endswith("_")


def _signs(labels: Array, classes: Array) -> Array:
    """Return -1 and +1 for the two classes; missing labels stay NaN."""
    if len(classes) > 2:
        return labels
    signs = np.where(labels == classes[-1], 1.0, -1.0)
    return np.where(pd.isna(labels), np.nan, signs)


# --- types of targets and predictions ---


def _is_list_of_tasks(values: Any) -> bool:
    is_list = isinstance(values, list | tuple)
    return is_list and len(values) > 0 and np.ndim(values[0]) == 1


def _as_array(values: Any, name: str) -> Array:
    """Return an array of floats, or of objects if it holds texts; NaN where missing.

    Arithmetic of small integers wraps around (uint8: 3 - 5 = 254), and arithmetic of
    nullable columns gives objects.
    """
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "c":
        raise ValueError(f"{name} are complex numbers; pass real ones")
    array = array.astype(object)
    missing = np.asarray(pd.isna(array))
    present = array[~missing]
    if any(isinstance(value, str | bytes) for value in present):
        return np.where(missing, np.nan, array)
    result = np.full(array.shape, np.nan)
    try:
        result[~missing] = present.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} are neither numbers nor texts") from None
    return result


def _as_floats(values: Any, name: str) -> Any:
    """Return numbers as a float64 array, or as a list of them for a list of tasks."""
    if _is_list_of_tasks(values):
        return [_as_floats(part, name) for part in values]
    array = _as_array(values, name)
    if array.dtype.kind == "O":
        raise ValueError(f"{name} are texts; this metric needs numbers")
    return array


def _binary(labels: Any, name: str) -> Any:
    """Return binary labels as floats.

    Raises
    ------
    ValueError
        If they are anything but -1/+1, 0/1 or booleans.
    """
    values = _as_floats(labels, name)
    if isinstance(values, list):
        flat = np.concatenate(values)
    else:
        flat = values
    minus = flat == -1
    signs = minus | (flat == 1)
    if signs.all():
        return values
    zeros = flat == 0
    other = ~(zeros | signs | np.isnan(flat))
    if other.any() or (zeros.any() and minus.any()):
        kinds = np.unique(flat[~np.isnan(flat)])
        kinds_text = listed([f"{value:g}" for value in kinds])
        raise ValueError(
            f"{name} must be binary labels -1/+1, 0/1 or booleans, got {kinds_text}"
        )
    return values


def _scored(targets: Any, scores: Any) -> tuple[Any, Any]:
    """Return binary labels and their scores as floats."""
    return _binary(targets, "targets"), _as_floats(scores, "predictions")


def _labelled(targets: Any, labels: Any) -> tuple[Any, Any]:
    """Return labels of any number of classes, numbers as floats.

    Raises
    ------
    ValueError
        If only one of the two is texts, or one is coded -1/+1 and the other 0/1.
    """
    pair: list[Any] = []
    kinds: list[Array] = []
    for values, name in ((targets, "targets"), (labels, "predictions")):
        if _is_list_of_tasks(values):
            arrays = [_as_array(part, name) for part in values]
            pair.append(arrays)
            kinds.append(np.concatenate(arrays))
        else:
            pair.append(_as_array(values, name))
            kinds.append(pair[-1])
    is_text = [values.dtype.kind == "O" for values in kinds]
    if is_text[0] != is_text[1]:
        if all(map(len, kinds)):
            raise ValueError(
                "targets and predictions must both be texts or both numbers"
            )
    elif not is_text[0]:
        codings = [_coding(values) for values in kinds]
        if None not in codings and codings[0] != codings[1]:
            raise ValueError(
                "targets and predictions must have the same labels, got "
                f"{codings[0]:g}/1 and {codings[1]:g}/1"
            )
    return pair[0], pair[1]


def _coding(values: Array) -> float | None:
    """Return the negative label, -1 or 0, of values that are all that or 1."""
    for negative in (-1.0, 0.0):
        is_negative = values == negative
        if is_negative.any() and (is_negative | (values == 1) | np.isnan(values)).all():
            return negative
    return None


# --- layouts ---


def _per_task(kernel: Kernel, targets: Any, predictions: Any, **layout: Any) -> Array:
    y, p, w, bounds = _rows(targets, predictions, **layout)
    keep = w > 0
    if y.dtype.kind == "f":
        keep &= ~np.isnan(y)
    elif y.dtype.kind == "O":
        keep &= ~np.asarray(pd.isna(y))
    if not keep.all():
        bounds = np.concatenate([[0], np.cumsum(keep)])[bounds]
        y = y[keep]
        p = p[keep]
        w = w[keep]
    if p.dtype.kind == "f":
        is_finite = np.isfinite(p)
        if not is_finite.all():
            task = np.searchsorted(bounds, np.argmin(is_finite), side="right") - 1
            raise ValueError(
                f"predictions of task {task} are not finite: the model diverged"
            )
    values = []
    for start, stop in pairwise(bounds):
        value = np.nan
        if start < stop:
            value = kernel(y[start:stop], p[start:stop], w[start:stop])
        values.append(value)
    return np.array(values, dtype=float)


def _rows(
    targets: Any,
    predictions: Any,
    *,
    weights: Any = None,
    offsets: Any = None,
    task_id: Any = None,
    tasks: Any = None,
) -> tuple[Array, Array, Array, Array]:
    """Return targets, predictions and weights sorted by task, and the bounds of tasks.

    The arrays are flat; bounds have shape (n_tasks + 1,).
    """
    if _is_list_of_tasks(targets):
        if weights is None:
            weights = [np.ones(len(y)) for y in targets]
        sizes = list(map(len, targets))
        if list(map(len, predictions)) != sizes or list(map(len, weights)) != sizes:
            raise ValueError(
                "targets, predictions and weights must be lists of the same number of "
                "tasks and rows"
            )
        targets = np.concatenate(targets)
        predictions = np.concatenate(predictions)
        weights = np.concatenate(weights)
        offsets = np.cumsum([0, *sizes])
    y = np.asarray(targets)
    p = np.asarray(predictions)
    if y.shape != p.shape:
        raise ValueError(f"targets have shape {y.shape} but predictions {p.shape}")
    if y.ndim not in (1, 2):
        raise ValueError(f"targets must have 1 or 2 dimensions, got {y.ndim}")
    if weights is None:
        weights = np.ones(y.shape[: 2 - y.ndim])
    w = np.asarray(weights, dtype=float)
    if w.size and w.max() > LARGE_WEIGHT:
        # Sums of such weights times losses may overflow; only their ratios count.
        w = w / w.max()
    if y.ndim == 2:
        if w.ndim == 1:
            w = w[:, None]
        w = np.broadcast_to(w, y.shape)
        n_rows, n_tasks = y.shape
        bounds = n_rows * np.arange(n_tasks + 1)
        return y.T.reshape(-1), p.T.reshape(-1), w.T.reshape(-1), bounds
    if w.shape != y.shape:
        raise ValueError(f"weights must have shape {y.shape}, got {w.shape}")
    codes, n_tasks = _codes(len(y), offsets, task_id, tasks)
    if task_id is not None:
        order = np.argsort(codes, kind="stable")
        y = y[order]
        p = p[order]
        w = w[order]
    return y, p, w, np.cumsum([0, *np.bincount(codes, minlength=n_tasks)])


def _codes(
    n: int, offsets: Any = None, task_id: Any = None, tasks: Any = None
) -> tuple[Array, int]:
    """Return the task number of each row, and the number of tasks.

    Tasks without rows count as well.
    """
    if task_id is None:
        if offsets is None:
            bounds = np.array([0, n])
        else:
            bounds = np.asarray(offsets)
        if bounds[0] != 0 or bounds[-1] != n or (np.diff(bounds) < 0).any():
            raise ValueError(f"offsets must rise from 0 to {n}")
        n_tasks = len(bounds) - 1
        return np.repeat(np.arange(n_tasks), np.diff(bounds)), n_tasks
    ids = np.asarray(task_id)
    if ids.shape != (n,):
        raise ValueError(f"task_id must have shape ({n},), got {ids.shape}")
    are_positions = (
        isinstance(tasks, range)
        and tasks == range(len(tasks))
        and n > 0
        and ids.dtype.kind == "i"
    )
    if are_positions and ids.min() >= 0 and ids.max() < len(tasks):
        # Sorting the ids below would give the same codes, but take longer.
        return ids, len(tasks)
    names, codes = np.unique(ids, return_inverse=True)
    if tasks is None:
        return codes, len(names)
    task_list = np.asarray(tasks).tolist()
    positions = {name: i for i, name in enumerate(task_list)}
    missing = [name for name in names.tolist() if name not in positions]
    if missing:
        raise ValueError(f"task_id has tasks that are not among `tasks`: {missing[:5]}")
    position_of_code = np.array([positions[name] for name in names.tolist()], dtype=int)
    return position_of_code[codes], len(task_list)
