"""Scorers for searches and cross-validation of scikit-learn."""

from __future__ import annotations

import copy
import sys
import warnings
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import sklearn
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest

from mtlrun.data.reading.frames import ordered_columns, plain_ids, take, take_column
from mtlrun.metrics.inputs import Array, average, per_task
from mtlrun.metrics.registry import Metric, get_metric
from mtlrun.metrics.regression import total_weight

#: Probabilities of 0 and 1, whose log-odds are infinite, are moved by this much.
MIN_PROBABILITY = 1e-12
#: Wrappers inside each other that are searched for a multi-task model. Estimators may
#: refer to each other in a circle.
MAX_WRAPPER_DEPTH = 6

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
    # The warning names the nearest line outside this package: the user's, or a line of
    # scikit-learn that called the scorer.
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None:
        module_name: str = frame.f_globals["__name__"]
        if not module_name.startswith("mtlrun."):
            break
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
) -> TaskScorer:
    """Return a scorer for scikit-learn: a metric per task, averaged over the tasks.

    Searches and cross-validation take it as ``scoring``. It takes `task_id` as metadata
    (with ``enable_metadata_routing=True`` it needs no request), or the ids from a
    column of X. Metrics of which lower values are better are negated. Targets of a 2-D
    `y` may be NaN.

    It also takes `sample_weight` as metadata. As with the scorers of scikit-learn,
    weights that are routed must be requested or declined:
    ``task_scorer("rmse").set_score_request(sample_weight=True)``, or ``False``.

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
    return TaskScorer(get_metric(metric), task_column, how)


class TaskScorer:
    """The scorer of one metric; `task_scorer` makes it."""

    def __init__(
        self,
        metric: Metric,
        task_column: int | str | None,
        how: Literal["task", "sample"],
    ) -> None:
        self.metric = metric
        self.task_column = task_column
        self.how = how
        self._requests: dict[str, bool | str | None] = {
            "task_id": True,
            "sample_weight": None,
        }

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        task_id: Any = None,
        sample_weight: Any = None,
    ) -> float:
        requested = self._requests["sample_weight"] not in (None, False)
        routes_metadata = sklearn.get_config()["enable_metadata_routing"]
        if sample_weight is None and requested and not routes_metadata:
            raise RuntimeError(
                f"{self!r} requests sample_weight, which scikit-learn passes on only "
                "with sklearn.set_config(enable_metadata_routing=True)."
            )
        # A search predicts with its best estimator, but takes no task_id itself.
        while hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        model, steps_before = _model_inside(estimator)
        if getattr(model, "_layout", "") == "shared":
            # Columns of a frame may come in another order than in `fit`.
            y = ordered_columns(y, model.tasks_.tolist())
        y = np.asarray(y)
        ids = task_id
        column = getattr(model, "task_column", None)
        if ids is None and self.task_column is not None:
            ids = take_column(X, self.task_column)[0]
        elif ids is None and column is not None:
            # The model finds its column in the rows that the steps before it return.
            transformed = X
            for steps in steps_before:
                transformed = steps.transform(transformed)
            ids = take_column(transformed, column)[0]
        # Estimators of other packages say nothing about tasks: there may be several.
        has_several_tasks = not hasattr(model, "task_column")
        if hasattr(model, "tasks_"):
            has_several_tasks = len(model.tasks_) > 1
        is_ragged = getattr(model, "_layout", "ragged") == "ragged"
        if ids is None and y.ndim == 1 and has_several_tasks and is_ragged:
            raise ValueError(
                "task_scorer cannot tell the tasks of the rows: "
                f"{type(estimator).__name__} has no task_column, and no task_id came "
                "with the rows. Give task_scorer(..., task_column=...), or pass "
                "task_id as metadata."
            )
        seen = None
        rejects_new_tasks = getattr(model, "unseen", "error") != "mean"
        if ids is not None and hasattr(model, "tasks_") and rejects_new_tasks:
            seen = seen_rows(ids, model.tasks_)
        if seen is not None:
            if not len(seen):
                return np.nan
            X = take(X, seen)
            ids = np.asarray(ids)[seen]
            y = y[seen]
            if sample_weight is not None:
                sample_weight = np.asarray(sample_weight)[seen]
        # Ids from a column are in X: the estimator takes them from there.
        routed = {}
        if task_id is not None:
            routed = {"task_id": ids}
        predicted = self._predicted(estimator, X, routed)
        classes = getattr(estimator, "classes_", None)
        if self.metric.needs != "value" and classes is not None:
            # Code two classes as -1 and +1.
            if np.ndim(classes) == 2:
                # A row of classes per task, all the same
                classes = classes[0]
            if self.metric.needs == "label":
                predicted = _signs(predicted, classes)
            y = _signs(y, classes)
        return self._score(y, predicted, ids, sample_weight)

    def _score(self, y: Array, predicted: Array, ids: Any, sample_weight: Any) -> float:
        """Return the average of the metric; greater is better."""
        layout = {}
        if ids is not None:
            layout = {"task_id": ids}
        values = self.metric(y, predicted, weights=sample_weight, **layout)
        sizes = None
        if self.how == "sample":
            sizes = per_task(
                total_weight,
                y,
                predicted,
                weights=sample_weight,
                **layout,
            )
        value, _ = average(values, sizes, self.how)
        if self.metric.greater_is_better:
            return value
        return -value

    def _predicted(self, estimator: Any, X: Any, routed: dict[str, Any]) -> Array:
        needs_scores = self.metric.needs == "score"
        if not needs_scores or not hasattr(estimator, "classes_"):
            return np.asarray(estimator.predict(X, **routed))
        if hasattr(estimator, "decision_function"):
            return np.asarray(estimator.decision_function(X, **routed))
        probabilities = np.asarray(estimator.predict_proba(X, **routed))
        positive = probabilities[:, -1]
        positive = np.clip(positive, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        odds = positive / (1 - positive)
        return np.log(odds)

    def __repr__(self) -> str:
        arguments = [repr(self.metric.name)]
        if self.task_column is not None:
            arguments.append(f"task_column={self.task_column!r}")
        if self.how != "task":
            arguments.append(f"how={self.how!r}")
        return f"task_scorer({', '.join(arguments)})"

    def __sklearn_clone__(self) -> Self:
        """Return a copy with the same requests."""
        return copy.deepcopy(self)

    def set_score_request(
        self,
        *,
        task_id: bool | str | None = UNCHANGED,
        sample_weight: bool | str | None = UNCHANGED,
    ) -> Self:
        """Say which metadata scikit-learn passes to this scorer.

        Requests have an effect with ``enable_metadata_routing=True``; scikit-learn's
        user guide on metadata routing describes them.

        Parameters
        ----------
        task_id, sample_weight : bool, str or None
            True passes it if it is there, False does not, None raises an error if it is
            there, and a text is the name under which the user passes it. Default: no
            change; at first `task_id` is requested, and `sample_weight` is None.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a text is not an identifier.
        """
        changes = {"task_id": task_id, "sample_weight": sample_weight}
        request = MetadataRequest(owner=self)
        for name, alias in changes.items():
            if alias != UNCHANGED:
                request.score.add_request(param=name, alias=alias)
        self._requests |= request.score.requests
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the requests of `set_score_request`, as scikit-learn asks for them."""
        request = MetadataRequest(owner=self)
        for name, alias in self._requests.items():
            request.score.add_request(param=name, alias=alias)
        return request


def _model_inside(
    estimator: Any, depth: int = MAX_WRAPPER_DEPTH
) -> tuple[Any, list[Any]]:
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
    names = sorted(attributes, key=lambda name: not name.endswith("_"))
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


def _signs(labels: Array, classes: Array) -> Array:
    """Return -1 and +1 for the two classes; missing labels stay NaN."""
    if len(classes) > 2:
        return labels
    signs = np.where(labels == classes[-1], 1.0, -1.0)
    return np.where(pd.isna(labels), np.nan, signs)
