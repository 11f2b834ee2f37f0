"""Base classes of multi-task models.

`BaseMTL.fit` reads (X, y, task ids) into a `TaskData`, calls `_fit_data` of the
subclass, which solves the problem, and sets the fitted attributes from the
`SolverResult`. A model combines `BaseMTL` with `RegressorMTL` or `ClassifierMTL`, which
read y, predict and score.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Self

import joblib
import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from mtlrun.data.dataset import check_fitted
from mtlrun.data.reading.frames import (
    column_names,
    drop_column,
    ordered_columns,
    take_column,
)
from mtlrun.data.roles.weights import warn_of_scale
from mtlrun.estimators.inputs import (
    TaskLayout,
    check_targets,
    check_task_id,
    check_weights,
    class_weights,
    drop_unweighted,
    encode_labels,
    is_float_array,
    refuse_list_of_arrays,
    warn_of_row_order,
)
from mtlrun.estimators.params import (
    ClassWeight,
    Declared,
    TaskColumn,
    Unseen,
    check_params,
)
from mtlrun.metrics.classification import accuracy_per_task
from mtlrun.metrics.regression import r2_per_task
from mtlrun.problem import memory
from mtlrun.problem.quadratic import BADLY_SCALED
from mtlrun.problem.result import SolverResult
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import Array, TaskData
from mtlrun.utils.processes import one_thread_if_small

# Bytes from which on an array in single precision is read in blocks (`_fit_in_blocks`).
_LARGE = 32 << 20
# Numbers in such a block, which is converted to double precision.
_BLOCK = 1 << 21
# Copies of the sums of products that a fit makes.
_COPIES = 4
#: Solvers that may be given d + 1 rows with the same sums of products in place of all
#: rows. The others run the algorithm of a paper on the rows themselves.
EQUAL_SOLVERS = ("auto", "admm", "fista", "cd")

#: Methods that determine how a class reads rows.
_READERS = ("fit", "_prepare", "_read_X", "_read_design", "_task_data", "_scores")
#: Numbers in a block of dense rows that are predicted at once.
_BLOCK_NUMBERS = 1 << 16


class DegenerateModelWarning(UserWarning):
    """A parameter makes a part of the model zero, whatever the data are."""


def usual_bytes(
    data: TaskData, coefficients: float = 4, fields: float = 6, designs: float = 3
) -> float:
    """Return the bytes of the arrays of a typical fit.

    Parameters
    ----------
    data : TaskData
    coefficients : float, default 4
        Number of arrays of shape (d, T).
    fields : float, default 6
        Number of arrays of the shape of the targets.
    designs : float, default 3
        Number of copies of a dense design; sparse designs do not count.
    """
    if data.sparse:
        design = 0
    else:
        design = data.X.shape[0] * data.X.shape[1]
    return 8.0 * (
        coefficients * data.n_features * data.n_tasks
        + fields * data.targets.size
        + designs * design
    )


def _suitable_threads(data: TaskData) -> Any:
    """Return a context in which BLAS has one thread if the data are small."""
    return one_thread_if_small(max(data.n_features, data.n_tasks), data.n_rows)


def content_key(data: TaskData, *extras: Any) -> str:
    """Return a digest of `extras` and of the data, without the names of the tasks."""
    return str(joblib.hash([data.digest, *extras], hash_name="sha1"))


def rows_by_code(codes: Array) -> list[Array]:
    """Return the positions of the rows of each code, by increasing code."""
    order = np.argsort(codes, kind="stable")
    if len(codes):
        return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return []


def scores_by_code(X: Any, codes: Array, coef: Array, intercept: Array) -> Array:
    """Return one score per row, with the coefficients and intercept of its code.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    codes : ndarray of shape (n,)
        Positions in `coef` and `intercept`.
    coef : ndarray of shape (n_models, d)
    intercept : ndarray of shape (n_models,)
    """
    scores = np.empty(X.shape[0])
    if isinstance(X, np.ndarray):
        # Blocks, so that the coefficients of all rows need little memory.
        size = max(1, _BLOCK_NUMBERS // max(1, X.shape[1]))
        for begin in range(0, len(X), size):
            block = slice(begin, begin + size)
            code = codes[block]
            products = np.einsum("ij,ij->i", X[block], coef[code])
            scores[block] = products + intercept[code]
        return scores
    for rows in rows_by_code(codes):
        code = codes[rows[0]]
        scores[rows] = X[rows] @ coef[code] + intercept[code]
    return scores


class BaseMTL(TaskLayout, Declared, BaseEstimator, ABC):
    """Base of all multi-task models: it reads the data, and a subclass adds its
    parameters and `_fit_data`.

    Three layouts of the data are accepted: a 1-D `y` without task ids is one task; a
    1-D `y` with a task id per row is a *ragged* problem (ids from the keyword
    `task_id`, or from the column `task_column` of X, which then is not a feature); a
    2-D `y` is a *shared* design with one column per task, where NaN marks a missing
    target.

    Parameters
    ----------
    task_column : int or str, default None
        Column of X that holds the task ids: its position, or its name in a DataFrame.
        It is not a feature.
    unseen : {"error", "mean"}, default "error"
        How `predict` treats a task without training data: raise an error, or average
        the models of all tasks.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
        Coefficients.
    intercept_ : ndarray of shape (n_tasks,)
        Intercepts, zeros where none were fitted.
    tasks_ : ndarray of shape (n_tasks,)
        Sorted task ids, or the names or positions of the columns of a 2-D `y`.
    objective_ : list of float
        Values of the objective along the iterations; the last one belongs to `coef_`.
    gap_ : float or None
        Relative duality gap of the solution; None where the solver has no certificate.
    stop_crit_ : float or None
        Last value of the stopping criterion, which is `gap_` unless noted otherwise.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the stopping criterion was met.
    n_features_in_ : int
        Number of features, without the task column.
    """

    #: Remedy if a fit would take too much memory.
    _remedy: ClassVar[str] = (
        "Use fewer features (select some of them), fewer tasks or fewer rows."
    )
    #: Whether a regressor's `_fit_data` uses the rows through sums of products alone
    #: (`fit_statistics`).
    _by_sums: ClassVar[bool] = False
    #: Attributes that hold the parts of `coef_`, in the order of the penalties.
    _part_names: ClassVar[tuple[str, ...]] = ()
    #: Whether weights are numbers of rows; others cause a warning.
    _counts_rows = False

    _: KW_ONLY
    task_column: TaskColumn = None
    unseen: Unseen = "error"

    @abstractmethod
    def _fit_data(self, data: TaskData) -> SolverResult:
        """Solve the problem. The data have been checked, and labels are -1 and +1."""

    def _bytes(self, data: TaskData) -> float:
        """Return an upper estimate of the bytes of a fit, without the data."""
        return usual_bytes(data)

    @abstractmethod
    def _read_y(self, y: Any, n_rows: int) -> Array:
        """Return the targets of `fit` as floats."""

    def fit(
        self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            With `task_column` set, one more column that holds the task ids.
        y : array-like of shape (n_samples,) or (n_samples, n_tasks)
            Two dimensions mean that all tasks share X; NaN there marks a missing
            target.
        task_id : array-like of shape (n_samples,), optional
            The task of each row, for a 1-D `y`.
        sample_weight : array-like of shape (n_samples,) or (n_samples, n_tasks), optional
            Multiplies the loss of each entry; two dimensions only with a 2-D `y`. Rows
            and entries of weight 0 are left out, a weight of k counts as k equal rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a parameter out of range, a list of arrays, task ids with a 2-D `y`,
            missing or infinite values.
        MemoryLimitError
            If the fit would not fit into memory; also a ValueError.
        """
        X, y, task_id, sample_weight = self._ignore_unweighted(
            X, y, task_id, sample_weight
        )
        if self._fit_in_blocks(X, y, task_id, sample_weight):
            return self
        data = self._prepare(X, y, task_id=task_id, sample_weight=sample_weight)
        self._require_memory(data)
        with _suitable_threads(data):
            result = self._fit_data(data)
        self._publish(result)
        return self

    def _reads_like_base(self) -> bool:
        """Whether rows that another model has read serve this one, too."""
        cls = type(self)
        has_same_readers = all(
            getattr(cls, name) is getattr(BaseMTL, name) for name in _READERS
        )
        return self.task_column is None and has_same_readers

    def _require_memory(self, data: TaskData) -> None:
        """Raise a `MemoryLimitError` if the fit would not fit into memory."""
        sizes = (
            f"{data.n_rows} rows, {data.n_features} features and {data.n_tasks} tasks"
        )
        memory.require(
            self._bytes(data), f"{type(self).__name__} on {sizes}", self._remedy
        )

    def _prepare(self, X: Any, y: Any, *, task_id: Any, sample_weight: Any) -> TaskData:
        """Check the parameters, and read the data.

        Sets `tasks_`, `n_features_in_` and, for classifiers, `classes_`.
        """
        check_params(self, self._rules)
        return self._read_rows(X, y, task_id, sample_weight, reset=True)

    def _read_rows(
        self, X: Any, y: Any, task_id: Any, sample_weight: Any, *, reset: bool
    ) -> TaskData:
        """Check the data of `fit` or `partial_fit`, and return them as a `TaskData`.

        Parameters
        ----------
        X, y, task_id, sample_weight
            As in `fit`.
        reset : bool
            Whether the number and names of the features are set, not compared.
        """
        X, y, task_id, sample_weight = self._ignore_unweighted(
            X, y, task_id, sample_weight
        )
        names = column_names(y)
        warn_of_row_order(X, y=y, sample_weight=sample_weight)
        X, ids = self._read_X(X, task_id, reset=reset)
        if names is not None:
            sample_weight = ordered_columns(sample_weight, names)
        y = self._read_y(y, X.shape[0])
        weights = check_weights(sample_weight, y.shape)
        if weights is not None and weights.ndim == 2:
            # An entry of weight 0 is a missing target.
            y = np.where(weights > 0, y, np.nan)
        weights = self._all_weights(y, ids, weights)
        return self._task_data(X, y, ids, weights, names)

    def _ignore_unweighted(
        self, X: Any, y: Any, task_id: Any, sample_weight: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Return the arguments of `fit` so that rows of weight 0 have no influence.

        They are left out here. A subclass may keep them if it needs all positions.
        """
        return drop_unweighted(
            X, y, task_id, sample_weight, task_column=self.task_column
        )

    def _all_weights(
        self, y: Array, ids: Array | None, weights: Array | None
    ) -> Array | None:
        """Return the weights of the rows or entries; a classifier may weight its
        classes.
        """
        if self._counts_rows:
            warn_of_scale(weights, type(self).__name__)
        return weights

    def _read_X(self, X: Any, task_id: Any, *, reset: bool) -> tuple[Any, Array | None]:
        """Return X as the model needs it, without the task column, and the task ids."""
        refuse_list_of_arrays(X)
        warn_of_row_order(X, task_id=task_id)
        if self.task_column is not None:
            if task_id is not None:
                raise ValueError(
                    "give the tasks either as task_id or in the column "
                    f"task_column={self.task_column!r}"
                )
            task_id, position = take_column(X, self.task_column)
            X = drop_column(X, position)
        X = self._read_design(X, reset=reset)
        return X, None if task_id is None else check_task_id(task_id, X.shape[0])

    def _read_design(self, X: Any, *, reset: bool) -> Any:
        """Return X as float64, dense or CSR."""
        if reset and is_float_array(X) and X.ndim == 2:
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
            self.n_features_in_ = X.shape[1]
            if hasattr(self, "feature_names_in_"):
                # Names of an earlier fit to a data frame.
                del self.feature_names_in_
        else:
            X = validate_data(
                self, X, accept_sparse="csr", dtype=np.float64, reset=reset
            )
        check_fitted(X, "X")
        return X

    def _task_data(
        self,
        X: Any,
        y: Array,
        ids: Array | None,
        weights: Array | None,
        names: list[Any] | None,
    ) -> TaskData:
        """Return the data as a `TaskData`, and set `tasks_` and the layout."""
        self._layout = self._layout_of(y, ids)
        if ids is not None:
            data = TaskData.from_stacked(X, y, ids, weights=weights)
        elif self._layout == "single":
            data = TaskData.from_matrix(X, y[:, np.newaxis], weights=weights)
        else:
            data = TaskData.from_matrix(X, y, weights=weights, tasks=names)
        self.tasks_ = np.asarray(data.tasks)
        return data

    @property
    def task_similarity_(self) -> Array:
        """Similarities of the tasks (n_tasks, n_tasks), for models that learn them or
        take a graph.

        See `mtlrun.estimators.base.task_similarity` for the formulas; other models have
        no such attribute.
        """
        return task_similarity(self)

    def _publish(self, result: SolverResult) -> None:
        """Set the fitted attributes."""
        self.coef_ = np.ascontiguousarray(result.W.T)
        self.intercept_ = np.asarray(result.intercept, dtype=np.float64)
        for name, part in zip(self._part_names, result.parts, strict=False):
            setattr(self, name, np.ascontiguousarray(part.T))
        self._publish_run(result)

    def _publish_run(self, result: SolverResult) -> None:
        """Set the attributes of the solver's run, and warn where it did not converge."""
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.objective_ = list(result.objective)
        self.gap_ = result.gap
        if result.stop_crit is None:
            self.stop_crit_ = result.gap
        else:
            self.stop_crit_ = result.stop_crit
        if not result.converged:
            warnings.warn(
                self._convergence_message(result), ConvergenceWarning, stacklevel=4
            )

    def _knob(self) -> str:
        """Return the name of the parameter that bounds the stopping criterion."""
        return "tol"

    def _convergence_message(self, result: SolverResult) -> str:
        reached = ""
        knob = self._knob()
        if self.stop_crit_ is not None:
            reached = (
                f": stopping criterion {self.stop_crit_:.2g} against "
                f"{knob}={getattr(self, knob):g}"
            )
        why = ""
        if result.message:
            why = f" ({result.message})"
        remedy = f"Increase max_iter, or accept a larger {knob}."
        if result.info.get(BADLY_SCALED):
            remedy = (
                "Scale the columns of X, for instance with "
                "sklearn.preprocessing.StandardScaler, and center y."
            )
        return (
            f"{type(self).__name__} did not converge{reached} after {result.n_iter} "
            f"iterations{why}. {remedy}"
        )

    def _scores(self, X: Any, task_id: Any) -> Array:
        """Return X w_t + b_t: (n, T) for a shared design without ids, (n,)
        otherwise.
        """
        check_is_fitted(self)
        X, ids = self._read_X(X, task_id, reset=False)
        codes = self._task_of_rows(ids)
        if codes is None:
            return self._of_all_tasks(self._scores_of_tasks(X))
        return self._scores_of_rows(X, codes)

    def _scores_of_tasks(self, X: Any) -> Array:
        """Return the scores of all rows by the models of all tasks, (n, T)."""
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def _scores_of_rows(self, X: Any, codes: Array) -> Array:
        """Return one score per row, with the model of its task.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        codes : ndarray of shape (n,)
            Positions of the tasks; -1 stands for the mean of all tasks.
        """
        # Code -1 selects the last row, which has the means.
        coef = np.vstack([self.coef_, self.coef_.mean(axis=0)])
        intercept = np.append(self.intercept_, self.intercept_.mean())
        return scores_by_code(X, codes, coef, intercept)

    # --------------------------------------------------------- fits from sums over rows

    @available_if(lambda self: self._by_sums and is_regressor(self))
    def fit_statistics(self, statistics: TaskStatistics) -> Self:
        """Fit the model to statistics of the rows, with the same solution as `fit` on
        the rows.

        Parameters
        ----------
        statistics : TaskStatistics

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a parameter out of range, or a task without rows.
        MemoryLimitError
            If the fit would not fit into memory.
        """
        check_params(self, self._rules)
        if statistics.shared:
            self._layout = "shared"
        else:
            self._layout = "ragged"
        self.n_features_in_ = statistics.n_features
        if statistics.features:
            self.feature_names_in_ = np.asarray(statistics.features, dtype=object)
        self._last_parts: Array | None = None
        self._fit_sums(statistics)
        return self

    @available_if(lambda self: self._by_sums and is_regressor(self))
    def partial_fit(
        self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None
    ) -> Self:
        """Add rows to the rows of earlier calls, and fit the model to all of them.

        Only sums of products are stored (`statistics_`), not the rows; a later call may
        add tasks. A convex model starts from the previous solution. Arguments and
        errors are those of `fit`; the rows must have the same layout as earlier ones.
        """
        check_params(self, self._rules)
        before: TaskStatistics | None = getattr(self, "statistics_", None)
        read, statistics = self._added(before, X, y, task_id, sample_weight)
        self.__dict__.update(read.__dict__)
        self._last_parts = self._fit_sums(statistics)
        self.statistics_ = statistics
        return self

    def _added(
        self,
        before: TaskStatistics | None,
        X: Any,
        y: Any,
        task_id: Any,
        sample_weight: Any,
    ) -> tuple[Self, TaskStatistics]:
        """Add rows to statistics.

        Returns
        -------
        model : BaseMTL
            Copy of this model that has read the rows, with `tasks_` and the layout set.
        statistics : TaskStatistics
            Statistics of the rows before and the new rows.
        """
        # Rows that are refused must not change this model.
        read = copy(self)
        if before is not None and before.shared:
            y = ordered_columns(y, before.tasks.tolist())
        data = read._read_rows(X, y, task_id, sample_weight, reset=before is None)
        if before is not None and read._layout != self._layout:
            raise ValueError(
                f"the rows before had a {self._layout} layout of tasks, these have a "
                f"{read._layout} one"
            )
        rows = TaskStatistics.of_data(data, like=before)
        return read, rows if before is None else before + rows

    def _fit_in_blocks(self, X: Any, y: Any, task_id: Any, sample_weight: Any) -> bool:
        """Fit a large array in single precision from sums over blocks of its rows.

        Other fits copy all rows to double precision, and this one copies a block only.

        Returns
        -------
        bool
            Whether the model was fitted. It is not if it needs the rows themselves, or
            if the sums would not be smaller than the rows.
        """
        single = (
            isinstance(X, np.ndarray)
            and X.ndim == 2
            and X.dtype == np.float32
            and X.nbytes >= _LARGE
        )
        can_use_sums = getattr(self, "solver", "auto") in EQUAL_SOLVERS and not getattr(
            self, "warm_start", False
        )
        # Shrunken intercepts are estimated from the rows.
        can_use_sums = can_use_sums and getattr(self, "intercepts", "free") == "free"
        if not (
            single
            and can_use_sums
            and self._by_sums
            and is_regressor(self)
            and self.task_column is None
        ):
            return False
        n, d = X.shape
        y = np.asarray(y)
        if task_id is not None:
            designs = np.unique(task_id).size
        else:
            designs = 1
            if y.ndim == 2:
                designs = y.shape[1]
        if (
            n < 2 * d * designs
            or not memory.fits(_COPIES * 8.0 * designs * d * d)
            or len(y) != n
        ):
            return False
        check_params(self, self._rules)
        model = self
        statistics = None
        size = max(1, _BLOCK // d)
        for begin in range(0, n, size):
            part = slice(begin, begin + size)
            ids = None
            if task_id is not None:
                ids = np.asarray(task_id)[part]
            weights = None
            if sample_weight is not None:
                weights = np.asarray(sample_weight)[part]
            model, statistics = model._added(statistics, X[part], y[part], ids, weights)
        assert statistics is not None
        self.__dict__.update(model.__dict__)
        self._fit_sums(statistics)
        return True

    def _fit_sums(self, statistics: TaskStatistics) -> Array:
        """Fit the model to statistics, and return the parts of its coefficients.

        The statistics are turned into d + 1 rows per design with the same squared loss.
        Intercepts are fitted by centering these rows, so the inner model has none.
        """
        intercept: bool = self.fit_intercept
        data, x_mean, y_mean = statistics.sufficient_statistics(centred=intercept)
        self.tasks_ = data.tasks
        self._require_memory(data)
        inner = copy(self)
        inner.fit_intercept = False
        start = getattr(self, "_last_parts", None)
        with _suitable_threads(data):
            if (
                start is not None
                and start.shape[1:] == (data.n_features, data.n_tasks)
                and hasattr(inner, "_solve")
            ):
                result = inner._solve(data, start=start)
            else:
                result = inner._fit_data(data)
        parameters = self._rules
        self.__dict__.update(
            {
                name: value
                for name, value in inner.__dict__.items()
                if name not in parameters
            }
        )
        if intercept:
            result.intercept = y_mean - (x_mean.T * result.W).sum(axis=0)
        self._publish(result)
        return result.parts

    def __getstate__(self) -> Any:
        # A pickled model does not carry the state of a warm start.
        return {
            key: value
            for key, value in super().__getstate__().items()
            if key != "warm_start_"
        }

    def __setstate__(self, state: Any) -> None:
        """Restore a model; raise a ValueError if it has an option that was removed."""
        for name, rule in self._rules.items():
            value = state.get(name)
            if isinstance(value, str) and value in rule.removed:
                raise ValueError(f"{name}={value!r}: {rule.removed[value]}")
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags


class RegressorMTL(RegressorMixin, TaskLayout, Declared):
    """Prediction and score of regressors; labels -1/+1 count as numbers, and
    predictions are then scores.
    """

    def _read_y(self, y: Any, n_rows: int) -> Array:
        return check_targets(y, n_rows, labels=False)

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Predict targets.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, as in `fit`
        task_id : array-like of shape (n_samples,), optional
            Required after a fit with task ids; after a fit on a 2-D `y` it picks one
            column per row.

        Returns
        -------
        ndarray of shape (n_samples, n_tasks) for a shared design without task ids, else
        (n_samples,)

        Raises
        ------
        ValueError
            If task ids are missing, or unknown while ``unseen="error"``.
        """
        return self._scores(X, task_id)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, task_id: Any = None
    ) -> float:
        """Return the coefficient of determination: over all rows for a 1-D `y`, else
        the mean over the tasks.

        Missing targets (NaN in a 2-D `y`) and tasks whose targets do not vary are left
        out. So are rows of tasks that the model has not seen, with a warning; the score
        is NaN if no row is left.
        """
        return self._score(r2_per_task, X, y, sample_weight, task_id)


class _TaskLabels(np.ndarray):
    """Labels of each task, (n_tasks, 2); positions (n, n_tasks) as an index give
    labels.

    scikit-learn indexes `classes_` in both ways, for classifiers of several targets.
    """

    def __getitem__(self, index: Any) -> Any:
        plain = self.view(np.ndarray)
        if isinstance(index, np.ndarray) and index.dtype.kind in "iu":
            shape = np.shape(index)
        else:
            shape = ()
        if shape[1:] == (len(plain),):
            return plain[np.arange(len(plain)), index]
        return plain[index]


class ClassifierMTL(ClassifierMixin, TaskLayout, Declared):
    """Prediction and score of classifiers of two classes, the same two for all tasks.

    Attributes
    ----------
    classes_ : ndarray of shape (2,), or (n_tasks, 2) for a 2-D `y`
        The two labels, sorted; a positive score means the second. For a 2-D `y` a row
        of labels per column, as in scikit-learn; all rows are the same.
    """

    def _read_y(self, y: Any, n_rows: int) -> Array:
        labels, signed = encode_labels(check_targets(y, n_rows, labels=True))
        if signed.ndim == 1:
            self._classes = labels
        else:
            self._classes = np.tile(labels, (signed.shape[1], 1))
        return signed

    @property
    def classes_(self) -> Array:
        """The two labels, of a 2-D `y` for every column."""
        if self._classes.ndim == 1:
            return self._classes
        return self._classes.view(_TaskLabels)

    def _labels(self) -> Array:
        """Return the two labels of all tasks."""
        return np.asarray(
            self._classes[0] if self._classes.ndim == 2 else self._classes
        )

    def decision_function(self, X: Any, *, task_id: Any = None) -> Array:
        """Return the scores X w_t + b_t; positive scores mean the second label.
        Arguments and shape are those of `predict`.
        """
        return self._scores(X, task_id)

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Predict class labels.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, as in `fit`
        task_id : array-like of shape (n_samples,), optional
            Required after a fit with task ids; after a fit on a 2-D `y` it picks one
            column per row.

        Returns
        -------
        ndarray of shape (n_samples, n_tasks) for a shared design without task ids, else
        (n_samples,)

        Raises
        ------
        ValueError
            If task ids are missing, or unknown while ``unseen="error"``.
        """
        positive = (self.decision_function(X, task_id=task_id) > 0).astype(np.intp)
        labels = self._labels()
        return labels[np.minimum(positive, len(labels) - 1)]

    @available_if(lambda self: self._is_logistic)
    def predict_proba(self, X: Any, *, task_id: Any = None) -> Array:
        """Return probabilities (logistic loss only): (n, T) of the second label for
        a shared design, else (n, 2).
        """
        positive = expit(self.decision_function(X, task_id=task_id))
        if positive.ndim == 2:
            return positive
        return np.column_stack([1 - positive, positive])

    @property
    def _is_logistic(self) -> bool:
        return getattr(self, "loss", None) == "logistic"

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, task_id: Any = None
    ) -> float:
        """Return the accuracy: over all rows for a 1-D `y`, else the mean over the
        tasks.

        Missing labels (NaN in a 2-D `y`) are left out. So are rows of tasks that the
        model has not seen, with a warning; the score is NaN if no row is left.
        """
        return self._score(accuracy_per_task, X, y, sample_weight, task_id)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags


class WeightedClassifierMTL(ClassifierMTL):
    """A classifier whose classes may be weighted.

    Parameters
    ----------
    class_weight : dict or "balanced", default None
        Weights of the classes, by label, that multiply the sample weights. "balanced"
        gives both classes of a task the same total weight in training, half the weight
        of the task; a task of one class keeps its weights. A label that a dict does not
        name has weight 1. A dict may name a label that does not occur only if it names
        all labels that do.
    """

    _: KW_ONLY
    class_weight: ClassWeight = None

    def _all_weights(
        self, y: Array, ids: Array | None, weights: Array | None
    ) -> Array | None:
        if self.class_weight is None:
            return weights
        label_weights = None
        if isinstance(self.class_weight, dict):
            labels = self._labels().tolist()
            unknown = [label for label in self.class_weight if label not in labels]
            if unknown and not set(labels) <= set(self.class_weight):
                raise ValueError(
                    f"class_weight names {unknown}, but the labels are {labels}"
                )
            label_weights = [
                float(self.class_weight.get(label, 1.0)) for label in labels
            ]
        return class_weights(y, ids, weights, label_weights)


def task_similarity(model: Any) -> Array:
    """Return the similarities of the tasks of a fitted model, in the order of `tasks_`.

    ============================================  ==========================================================
    model                                         similarity of tasks s and t
    ============================================  ==========================================================
    with a task covariance Omega (FETR, MTFRL,    Omega_st / sqrt(Omega_ss Omega_tt): the learned correlation
    MTRL)
    with clusters (ClusteredMTL)                  M_st / sqrt(M_ss M_tt), M the relaxed matrix of clusters
    with groups (Whom)                            1 in one group, else 0
    with a graph of tasks (GraphMTL)              the correlation under the covariance (alpha L + ridge I)^-1
                                                  that the penalty stands for; given with the graph, not learned
    with kernel weights theta (multi-task MKL)    theta_s . theta_t / (|theta_s| |theta_t|)
    ============================================  ==========================================================

    The diagonal is 1. A task whose row is zero, with all its coefficients zero for
    instance, is similar to no other.

    Raises
    ------
    AttributeError
        If the model is not fitted, or says nothing about the tasks' similarity.
    """
    if hasattr(model, "task_covariance_"):
        return _correlation(model.task_covariance_)
    if hasattr(model, "theta_"):
        return _correlation(np.asarray(model.theta_) @ np.asarray(model.theta_).T)
    if hasattr(model, "groups_"):
        group = np.empty(len(model.tasks_), dtype=int)
        for number, members in enumerate(model.groups_):
            group[members] = number
        return np.equal.outer(group, group).astype(float)
    if hasattr(model, "task_relation") and hasattr(model, "coef_"):
        return _correlation(model.task_relation())
    raise AttributeError(
        f"this {type(model).__name__} is not fitted yet, or has no similarity of tasks"
    )


def _correlation(covariance: Array) -> Array:
    """Return a matrix scaled to a diagonal of ones; rows of tasks without a variance
    become rows of the identity.
    """
    covariance = np.asarray(covariance, dtype=float)
    scale = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    scale[scale <= 1e-12 * max(scale.max(), 1e-300)] = np.inf
    correlation = covariance / np.outer(scale, scale)
    np.fill_diagonal(correlation, 1.0)
    return correlation
