"""From the arguments of `fit` and `predict` to arrays: layouts, task ids, targets,
labels and weights.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.utils import (
    assert_all_finite,
    check_array,
    check_consistent_length,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mtlrun.data.dataset import check_fitted
from mtlrun.data.reading.frames import (
    ordered_columns,
    plain_ids,
    plain_values,
    take,
    take_column,
)
from mtlrun.data.reading.odd_columns import NAME_DECIMALS
from mtlrun.metrics.inputs import average
from mtlrun.metrics.scorer import seen_rows
from mtlrun.problem.taskdata import Array, TaskData, as_weights
from mtlrun.utils.sizes import LARGEST_Y, SMALLEST_FITTED

Metric = Callable[..., Array]


class UnlikelyInputWarning(UserWarning):
    """Input that can be used as it is, but is probably not what was meant."""


class TaskLayout:
    """The tasks of a fitted model, and how `fit` received them.

    Three layouts: *single*, a 1-D `y` without task ids; *ragged*, a 1-D `y` with a task
    id per row; *shared*, a 2-D `y` with one column per task on the same rows of X.
    """

    # Task ids are data like X and y: scikit-learn routes them without a request.
    __metadata_request__fit: ClassVar = {"task_id": True}
    __metadata_request__predict: ClassVar = {"task_id": True}
    __metadata_request__score: ClassVar = {"task_id": True}
    __metadata_request__decision_function: ClassVar = {"task_id": True}
    __metadata_request__predict_proba: ClassVar = {"task_id": True}

    tasks_: Array
    predict: Any
    _layout: str

    def _layout_of(self, y: Array, ids: Array | None) -> str:
        """Return the layout of the arguments of `fit`.

        Raises
        ------
        ValueError
            For task ids with a 2-D `y`.
        """
        warn_of_decimal_ids(ids)
        if y.ndim != 2:
            if ids is None:
                return "single"
            return "ragged"
        if ids is None:
            return "shared"
        raise ValueError(
            "task ids together with a 2-D y: a 2-D y already has one column per task, "
            "on the same rows of X. Pass a 1-D y with task ids, or a 2-D y without "
            "them."
        )

    def _task_of_rows(self, ids: Array | None) -> Array | None:
        """Return the position in `tasks_` of each row's task, -1 for an unknown one;
        None stands for all tasks.

        Raises
        ------
        ValueError
            If ids are missing, were not expected, or are unknown while
            ``unseen="error"``.
        """
        if ids is None:
            if self._layout == "ragged" and len(self.tasks_) > 1:
                raise ValueError(
                    f"task_id is required: the model was fitted on {len(self.tasks_)} "
                    "tasks"
                )
            return None
        if self._layout == "single":
            raise ValueError(
                "task_id was given, but the model was fitted on one task without ids"
            )
        return task_codes(ids, self.tasks_, getattr(self, "unseen", "error"))

    def _score(
        self, metric: Metric, X: Any, y: Any, weights: Any, task_id: Any
    ) -> float:
        """Return the mean of a metric over the tasks, the rows of a 1-D `y` being
        one; NaN where no row is known.
        """
        check_is_fitted(self)
        ids = ids_of_rows(X, task_id, getattr(self, "task_column", None))
        if ids is not None and getattr(self, "unseen", "error") != "mean":
            # Rows of tasks that the model has not seen are left out, with a warning.
            seen = seen_rows(ids, self.tasks_)
            if seen is not None:
                parts = (take(part, seen) for part in (X, y, weights, task_id))
                X, y, weights, task_id = parts
        if not len(y):
            return np.nan
        warn_of_row_order(X, y=y, sample_weight=weights)
        predicted = self.predict(X, task_id=task_id)
        if predicted.ndim == 2:
            y, weights = (
                ordered_columns(part, self.tasks_.tolist()) for part in (y, weights)
            )
        y = check_targets(y, len(predicted), labels=is_classifier(self))
        return average(metric(y, predicted, weights=check_weights(weights, y.shape)))[0]

    def _of_all_tasks(self, scores: Array) -> Array:
        """Return scores (n_samples, n_tasks) of all tasks in the shape that
        `predict` promises.
        """
        if self._layout == "shared":
            return scores
        return scores[:, 0]


class KeepsGroups:
    """Mixin of estimators whose `fit` takes `groups`: rows that inner splits keep
    together.

    scikit-learn does not route groups to them without a request, since what it calls
    groups is often meant for the splitter alone.
    """

    __metadata_request__fit: ClassVar = {"groups": False}


def takes_groups(estimator: Any) -> bool:
    """Return whether `fit` of an estimator has a parameter `groups`."""
    return "groups" in parameters_of(getattr(estimator.fit, "__func__", estimator.fit))


@cache
def parameters_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the parameters of a function, cached: a search asks for
    them very often.
    """
    return frozenset(inspect.signature(function).parameters)


def check_columns(estimator: Any, X: Any, *, reset: bool) -> None:
    """Remember number and names of the columns in `fit`, and compare them later.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_`, and `feature_names_in_` if all names are strings.
    X : array, sparse matrix or data frame
    reset : bool
        True in `fit`.

    Raises
    ------
    ValueError
        If number or names differ from those in `fit`.
    """
    has_no_names = type(X) is np.ndarray and not hasattr(estimator, "feature_names_in_")
    if has_no_names and X.ndim == 2:
        # The same as below, in a fiftieth of the time: scikit-learn asks narwhals
        # whether the array is a data frame with names (as of 1.9). Models of one task
        # are fitted by the thousand.
        if reset:
            estimator.n_features_in_ = X.shape[1]
            return
        if X.shape[1] == getattr(estimator, "n_features_in_", None):
            return
    validate_data(estimator, X, reset=reset, skip_check_array=True)


def column_position(model: Any, column: Any, parameter: str) -> int:
    """Return the position of a feature of a fitted model, given by name or position.

    Raises
    ------
    ValueError
        If the model has no such feature; the message names the parameter.
    """
    d = model.n_features_in_
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if isinstance(column, bool | np.bool_):
        raise ValueError(
            f"{parameter}: {column} is no column; give its name or position"
        )
    if isinstance(column, str) and column in names:
        return names.index(column)
    if not isinstance(column, str) and -d <= int(column) < d:
        return int(column) % d
    choices = f"positions 0 to {d - 1}"
    if names:
        choices = ", ".join(names[:10])
    raise ValueError(f"{parameter}: there is no column {column!r}; it has {choices}")


def ids_of_rows(X: Any, task_id: Any, task_column: int | str | None) -> Any:
    """Return the task ids, from the task column where they are not given."""
    if task_id is None and task_column is not None:
        return take_column(X, task_column)[0]
    return task_id


def refuse_list_of_arrays(X: Any) -> None:
    """Refuse one array per task: cross-validation would silently split tasks instead of
    rows.

    Raises
    ------
    ValueError
        With the call to make instead.
    """
    if getattr(X, "ndim", 2) == 3:
        raise ValueError(
            f"X has three dimensions, {tuple(X.shape)}. If the first one is the task, "
            "stack the rows and say which row belongs to which task: "
            "fit(X.reshape(-1, X.shape[2]), y.ravel(), "
            "task_id=np.repeat(np.arange(X.shape[0]), X.shape[1]))"
        )
    if isinstance(X, list | tuple) and len(X) and getattr(X[0], "ndim", 0) >= 2:
        raise ValueError(
            f"X is a list of {len(X)} arrays, one per task; stack them and say which "
            "row belongs to which task: fit(np.vstack(Xs), np.concatenate(ys), "
            "task_id=np.repeat(np.arange(len(Xs)), [len(y) for y in ys])). For one X "
            "that all tasks share pass a 2-D y with one column per task."
        )


def warn_of_row_order(X: Any, **others: Any) -> None:
    """Warn if the index of another argument has the labels of X in another order.

    Rows are matched by position, as in scikit-learn.

    Parameters
    ----------
    X : array-like
    **others : array-like or None
        Further arguments with a row per row of X, by name.
    """
    rows = _row_labels(X)
    if rows is None:
        return
    for name, argument in others.items():
        labels = _row_labels(argument)
        if labels is None or len(rows) != len(labels) or rows.nlevels != labels.nlevels:
            continue
        # Rows shifted on purpose, as for lags, share some labels only.
        if not rows.equals(labels) and labels.isin(rows).all():
            warnings.warn(
                f"the index of {name} has the labels of the rows of X in another order. "
                "Rows are matched by position, whatever their labels. If labels "
                f"should count, pass {name}.loc[X.index]; if not, pass "
                f"{name}.to_numpy().",
                UnlikelyInputWarning,
                stacklevel=4,
            )


def _row_labels(argument: Any) -> pd.Index | None:
    if isinstance(argument, pd.DataFrame | pd.Series):
        return argument.index
    return None


def warn_of_decimal_ids(ids: Array | None) -> None:
    """Warn if task ids are numbers with many decimals, as means of a target are."""
    if ids is None or ids.dtype.kind != "f":
        return
    has_many = np.round(ids, NAME_DECIMALS) != ids
    if not has_many.any():
        return
    warnings.warn(
        f"task ids are numbers with many decimals, such as {ids[has_many][0]:.8g}. A "
        "target encoder turns task names into such numbers, and equal ones become one "
        "task. Pass the names, or task_id.astype(str) if the numbers are names.",
        UnlikelyInputWarning,
        stacklevel=4,
    )


def check_task_id(task_id: Any, n_rows: int) -> Array:
    """Return task ids as a 1-D array; whole numbers stored as floats (a column of X)
    become integers.

    Raises
    ------
    ValueError
        If there is not one id per row, or an id is missing.
    """
    ids = plain_ids(task_id)
    if ids.ndim != 1 or len(ids) != n_rows:
        raise ValueError(
            f"task_id must have one entry per row of X ({n_rows}), got an array of "
            f"shape {ids.shape}"
        )
    ids, missing = plain_values(ids, "task_id")
    if missing.any():
        raise ValueError(
            f"task_id is missing for {missing.sum()} rows, the first is row "
            f"{missing.argmax()}"
        )
    if ids.dtype.kind == "f" and np.array_equal(ids, np.rint(ids)):
        return ids.astype(np.int64)
    return ids


def check_targets(y: Any, n_rows: int, *, labels: bool) -> Array:
    """Return targets as a float (n,) or (n, T) array; NaN (a missing target) is allowed
    in two dimensions only.

    Parameters
    ----------
    y : array-like
    n_rows : int
        Rows of X.
    labels : bool
        Keep the type of the entries: they are class labels.
    """
    if y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None."
        )
    if not labels and is_float_array(y):
        assert_all_finite(y, allow_nan=True, input_name="y")
    else:
        if not sp.issparse(y):
            y = plain_values(np.asarray(y), "y")[0]
        y = check_array(
            y,
            dtype=None if labels else np.float64,
            ensure_2d=False,
            ensure_all_finite="allow-nan",
            input_name="y",
        )
    if not labels:
        check_fitted(y, "y")
    if y.ndim == 1:
        assert_all_finite(y, input_name="y")
    check_consistent_length(np.empty(n_rows), y)
    return y


def is_float_array(values: Any) -> bool:
    """Whether scikit-learn's checks would return an array as it is if it is finite.

    Their search for other kinds of tables takes a tenth of a small fit.
    """
    is_array = type(values) is np.ndarray and values.dtype == np.float64
    return is_array and values.ndim in (1, 2) and values.size > 0


def encode_labels(y: Array) -> tuple[Array, Array]:
    """Turn two classes into -1 and +1; missing labels (NaN) stay NaN.

    The second of the sorted classes is +1. With one class only, a positive number is
    +1, zero and negative numbers are -1, any other label is +1.

    Returns
    -------
    classes : ndarray of shape (1,) or (2,)
    signed : float ndarray of the shape of y

    Raises
    ------
    ValueError
        For more than two classes, continuous targets or no label at all.
    """
    observed = y == y  # NaN is not equal to itself
    labels = y[observed]
    if not labels.size:
        raise ValueError("y has no observed label: at least one class is needed")
    check_classification_targets(labels)
    classes = np.unique(labels)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"multiclass: {len(classes)} classes; give one column of labels per class "
            "(one task each), or wrap the estimator in "
            "sklearn.multiclass.OneVsRestClassifier."
        )
    signed = np.where(observed, signs(y, classes), np.nan)
    return classes, signed


def signs(labels: Array, classes: Array) -> Array:
    """Return +1 for the last of the sorted classes and -1 for others; the only one
    is -1 if it is 0 or negative.
    """
    if len(classes) == 1 and classes.dtype.kind in "iufb" and classes[0] <= 0:
        return np.full(labels.shape, -1.0)
    return np.where(labels == classes[-1], 1.0, -1.0)


def check_weights(sample_weight: Any, shape: tuple[int, ...]) -> Array | None:
    """Return weights of shape (n,), or (n, T) for a shared design, as floats.

    Raises
    ------
    ValueError
        If the shape is another, a weight is negative, NaN or infinite, all are 0, or
        the largest is so large or so small that products with it lose all precision.
    """
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight)
    if weights.ndim == 0:
        weights = np.full(shape[0], float(weights))
    weights = as_weights(
        weights, list(dict.fromkeys([shape[:1], shape])), "sample_weight"
    )
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere: no row counts")
    largest = float(weights.max())
    if not SMALLEST_FITTED <= largest <= LARGEST_Y:
        raise ValueError(
            f"the largest sample_weight is {largest:.4g}, outside of "
            f"{SMALLEST_FITTED:g} to {LARGEST_Y:g}, where the solvers calculate. Pass "
            "sample_weight / np.max(sample_weight), or weights with mean 1."
        )
    return weights


def drop_unweighted(
    X: Any,
    y: Any,
    task_id: Any,
    sample_weight: Any,
    *,
    task_column: int | str | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Return the arguments of `fit` without the rows of weight 0
    (`mtlrun.data.roles.weights`).

    Rows of a shared design are dropped where all their entries have weight 0. Weights
    that are impossible, or 0 throughout, are left to `check_weights`.

    Raises
    ------
    ValueError
        If all rows of a task have weight 0.
    """
    rows = weighted_rows(sample_weight, X)
    if rows is None:
        return X, y, task_id, sample_weight
    ids = ids_of_rows(X, task_id, task_column)
    if ids is not None and len(ids) == _count_rows(X):
        ids = plain_ids(ids)
        kept = set(ids[rows].tolist())
        lost = [task for task in dict.fromkeys(ids.tolist()) if task not in kept]
        if lost:
            raise ValueError(
                f"sample_weight: task {lost[0]!r} has no row of positive weight. Leave "
                "its rows out, or give one of them a positive weight."
            )
    if sp.issparse(X):
        X = X.tocsr()
    parts = (take(part, rows) for part in (X, y, task_id, sample_weight))
    X, y, task_id, sample_weight = parts
    return X, y, task_id, sample_weight


def fill_unweighted(
    X: Any,
    y: Any,
    task_id: Any,
    sample_weight: Any,
    *,
    task_column: int | str | None = None,
) -> tuple[Any, Any]:
    """Return X and y with the first weighted row of its task in each row of weight 0.

    Models with one result per row of `fit` need these rows, but must not depend on
    their cells. Parameters and errors are the same as in `drop_unweighted`.
    """
    rows = weighted_rows(sample_weight, X)
    if rows is None:
        return X, y
    drop_unweighted(X, y, task_id, sample_weight, task_column=task_column)
    n_rows = _count_rows(X)
    ids = ids_of_rows(X, task_id, task_column)
    tasks = np.zeros(n_rows, dtype=np.int64)
    if ids is not None and len(ids) == n_rows:
        tasks = np.unique(plain_ids(ids), return_inverse=True)[1].reshape(-1)
    first = np.unique(tasks[rows], return_index=True)[1]
    source = rows[first][tasks]
    source[rows] = rows
    if sp.issparse(X):
        X = X.tocsr()
    return take(X, source), take(y, source)


def weighted_rows(sample_weight: Any, X: Any) -> Array | None:
    """Return the rows of positive weight, or None where all or none are to be kept.

    None also stands for weights that do not fit the rows of X or are not numbers.
    """
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight)
    if weights.ndim not in (1, 2) or weights.dtype.kind not in "biuf":
        return None
    if weights.ndim == 1:
        counts = weights != 0
    else:
        counts = (weights != 0).any(axis=1)
    if counts.all() or not counts.any() or len(weights) != _count_rows(X):
        return None
    return np.flatnonzero(counts)


def check_groups(groups: Any, X: Any, sample_weight: Any = None) -> Array | None:
    """Return the numbers of the groups of the rows that `drop_unweighted` keeps.

    Raises
    ------
    ValueError
        If there is not one group per row of X, or a group is missing.
    """
    if groups is None:
        return None
    warn_of_row_order(X, groups=groups)
    names = plain_ids(groups)
    n_rows = _count_rows(X)
    if names.shape != (n_rows,):
        raise ValueError(
            f"groups must have one entry per row of X ({n_rows}), got an array of "
            f"shape {names.shape}"
        )
    names, missing = plain_values(names, "groups")
    if missing.any():
        raise ValueError(
            f"groups is missing for {missing.sum()} rows, the first is row "
            f"{missing.argmax()}"
        )
    numbers = np.unique(names, return_inverse=True)[1].reshape(-1)
    rows = weighted_rows(sample_weight, X)
    if rows is None:
        return numbers
    return numbers[rows]


def _count_rows(X: Any) -> int:
    if hasattr(X, "shape"):
        return int(X.shape[0])
    return len(np.asarray(X))


def class_weights(
    y: Array,
    ids: Array | None,
    weights: Array | None,
    weights_of_classes: list[float] | None,
) -> Array:
    """Return weights, in the shape of y, multiplied by weights of the classes.

    Parameters
    ----------
    y : ndarray of shape (n,) or (n, T)
        -1 and +1, NaN where missing.
    ids : ndarray of shape (n,) or None
        Task ids.
    weights : ndarray of shape (n,) or (n, T) or None
        Sample weights.
    weights_of_classes : list of float or None
        Weights of the classes, the first of -1; None balances them: both classes of a
        task get half its weight.

    Raises
    ------
    ValueError
        If a weight is negative or not finite.
    """
    if weights is None:
        weights = np.ones(len(y))
    if weights.ndim < y.ndim:
        weights = weights[:, None]
    w = np.broadcast_to(weights, y.shape).copy()
    if weights_of_classes is not None:
        pair = [weights_of_classes[0], weights_of_classes[-1]]
        negative, positive = as_weights(pair, [(2,)], "class_weight")
        factors = np.where(y > 0, positive, negative)
        return np.asarray(w * factors)
    parts: list[Any]
    if ids is not None:
        parts = [ids == task for task in np.unique(ids)]
    elif y.ndim == 1:
        parts = [np.s_[:]]
    else:
        parts = [np.s_[:, t] for t in range(y.shape[1])]
    for part in parts:
        signs = y[part]
        negative_total, positive_total = (
            float(w[part][signs == sign].sum()) for sign in (-1.0, 1.0)
        )
        # A task of one class keeps its weights: half of them would go to no row.
        if negative_total > 0 and positive_total > 0:
            half = 0.5 * (negative_total + positive_total)
            w[part] *= half / np.where(signs > 0, positive_total, negative_total)
    return w


def balanced(data: TaskData) -> TaskData:
    """Return data of labels with weights that balance the classes of each task."""
    targets = data.targets
    if data.shared:
        if data.observed is not None:
            targets = np.where(data.observed, targets, np.nan)
        weights = class_weights(targets, None, data.weights, None)
        return TaskData.from_matrix(data.X, targets, weights=weights, tasks=data.tasks)
    task_of_row = np.repeat(np.arange(data.n_tasks), data.sizes)
    weights = class_weights(targets, task_of_row, data.weights, None)
    return replace(data, weights=weights)


def _kind_of_ids(ids: Array) -> str:
    """Return what ids are, for messages and to tell ids of different types apart."""
    if ids.dtype.kind == "b":
        return "truth values"
    if ids.dtype.kind in "iuf":
        return "numbers"
    if ids.dtype.kind == "M":
        return "dates"
    if ids.dtype.kind in "UST":
        return "texts"
    kinds_of_objects = {
        "boolean": "truth values",
        "string": "texts",
        "empty": "texts",
    }
    dtype = pd.api.types.infer_dtype(ids.ravel(), skipna=False)
    return kinds_of_objects.get(dtype, "other")


def task_codes(task_id: Array, tasks: Array, unseen: str) -> Array:
    """Return the position of each task id in `tasks`; -1 for unknown ones when `unseen`
    is "mean".

    Raises
    ------
    ValueError
        Listing the unknown tasks, when `unseen` is "error"; always, if ids and tasks
        are of different types.
    """
    kinds = [_kind_of_ids(values) for values in (task_id, tasks)]
    if (
        len(task_id)
        and kinds[0] != kinds[1]
        and ("other" not in kinds or "dates" in kinds)
    ):
        raise ValueError(
            f"task_id holds {kinds[0].replace('other', 'other ids')}, but the tasks "
            "that the model was fitted on are "
            f"{kinds[1].replace('other', 'of another type')}; pass ids of that type"
        )
    ids = task_id
    if kinds[1] == "dates":
        # As numbers of one unit: days and nanoseconds of the same date differ.
        unit = np.promote_types(task_id.dtype, tasks.dtype)
        task_id = task_id.astype(unit).astype(np.int64)
        tasks = tasks.astype(unit).astype(np.int64)
    position = {task: k for k, task in enumerate(tasks.tolist())}
    if task_id.dtype.kind not in "biuf":
        task_id = task_id.astype(object)
    # A hash table: sorting the ids would take several times longer.
    inverse, names = pd.factorize(task_id, use_na_sentinel=False)
    code_of_names = [position.get(name, -1) for name in names.tolist()]
    codes = np.array(code_of_names, dtype=np.intp)
    unknown = np.unique(names[codes < 0]).tolist()
    if unknown and kinds[1] == "dates":
        unknown = [str(day) for day in np.unique(ids[np.isin(task_id, unknown)])]
    if unknown and unseen == "error":
        listed_names = ", ".join(map(repr, unknown[:10]))
        if len(unknown) > 10:
            listed_names += ", ..."
        raise ValueError(
            f"task_id has {len(unknown)} task(s) that the model has not seen: "
            f"{listed_names}; it was fitted on {len(tasks)} "
            "tasks. With unseen='mean' they get the mean of all coefficients."
        )
    return codes[inverse]
