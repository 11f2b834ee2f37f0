"""Fits from sums over rows: in chunks, from several sites, or from statistics made elsewhere."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from mtlrun.data.columns import column_names
from mtlrun.estimators.inputs import check_weights
from mtlrun.estimators.params import check_params
from mtlrun.problem import memory
from mtlrun.problem.statistics import TaskStatistics

Array = np.ndarray[Any, np.dtype[Any]]

# Bytes of an array in single precision from which on it is read in blocks, values of a block in double precision, and
# copies of the sums that a fit makes.
_LARGE, _BLOCK, _COPIES = 32 << 20, 1 << 21, 4
#: Solvers to which d + 1 rows with the same sums are as good as all; the others show an algorithm as it is printed.
EQUAL_SOLVERS = ("auto", "admm", "fista", "cd")

if TYPE_CHECKING:
    from mtlrun.estimators.base import BaseMTL as _Base
else:
    _Base = object


class FromStatistics(_Base):
    """Mixin of models with the squared loss, which depends on the rows through their sums of products alone."""

    @available_if(lambda self: getattr(self, "_by_sums", False))
    def fit_statistics(self, statistics: TaskStatistics) -> Self:
        """Fit the model to statistics of the rows; the solution is that of `fit` on the rows.

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
        self._layout = "shared" if statistics.shared else "ragged"
        self.n_features_in_ = statistics.n_features
        if statistics.features:
            self.feature_names_in_ = np.asarray(statistics.features, dtype=object)
        self._start: Array | None = None
        self._fit_sums(statistics)
        return self

    @available_if(lambda self: getattr(self, "_by_sums", False))
    def partial_fit(self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to those of earlier calls, and fit the model to all of them.

        Only sums of products are kept (`statistics_`), not the rows; a later call may bring new tasks. A convex model
        starts from the solution before. Arguments and errors as of `fit`; the rows must have the layout of those
        before.
        """
        check_params(self, self._rules)
        before: TaskStatistics | None = getattr(self, "statistics_", None)
        read, whole = self._added(before, X, y, task_id, sample_weight)
        self.__dict__.update(read.__dict__)
        self._start = self._fit_sums(whole)
        self.statistics_ = whole
        return self

    def _added(
        self, before: TaskStatistics | None, X: Any, y: Any, task_id: Any, sample_weight: Any
    ) -> tuple[Self, TaskStatistics]:
        """Return the statistics with more rows, and a copy of the model that has read them."""
        read = copy(self)  # rows that are refused must change nothing
        names = column_names(y)
        X, ids = read._read_X(X, task_id, reset=before is None)
        y = read._read_y(y, X.shape[0])
        weights = read._all_weights(y, ids, check_weights(sample_weight, y.shape))
        data = read._task_data(X, y, ids, weights, names)
        if before is not None and read._layout != self._layout:
            raise ValueError(f"the rows before had a {self._layout} layout of tasks, these have a {read._layout} one")
        rows = TaskStatistics.of_data(data, like=before)
        return read, rows if before is None else before + rows

    def _fit_in_blocks(self, X: Any, y: Any, task_id: Any, sample_weight: Any) -> bool:
        """Fit a large array in single precision from sums over blocks of rows, so that it is never copied whole.

        Returns False, and does nothing, where the model needs the rows, or sums would be no smaller than they.
        """
        single = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float32 and X.nbytes >= _LARGE
        plain = getattr(self, "solver", "auto") in EQUAL_SOLVERS and not getattr(self, "warm_start", False)
        if not (single and plain and self._by_sums and self.task_column is None):
            return False
        n, d = X.shape
        y = np.asarray(y)
        designs = np.unique(task_id).size if task_id is not None else y.shape[1] if y.ndim == 2 else 1
        if n < 2 * d * designs or not memory.fits(_COPIES * 8.0 * designs * d * d) or len(y) != n:
            return False
        check_params(self, self._rules)
        model, found = self, None
        size = max(1, _BLOCK // d)
        for begin in range(0, n, size):
            part = slice(begin, begin + size)
            ids, weights = (None if a is None else np.asarray(a)[part] for a in (task_id, sample_weight))
            model, found = model._added(found, X[part], y[part], ids, weights)
        assert found is not None
        self.__dict__.update(model.__dict__)
        self._fit_sums(found)
        return True

    def _fit_sums(self, statistics: TaskStatistics) -> Array:
        """Fit the model; return the parts of its coefficients."""
        intercept: bool = self.fit_intercept
        data, x_mean, y_mean = statistics.condensed(centred=intercept)
        self.tasks_ = data.tasks
        self._require_memory(data)
        inner = copy(self)
        inner.fit_intercept = False
        start = getattr(self, "_start", None)
        if start is not None and start.shape[1:] == (data.n_features, data.n_tasks) and hasattr(inner, "_solve"):
            result = inner._solve(data, start=start)
        else:
            result = inner._fit_data(data)
        parameters = self._rules
        self.__dict__.update({name: value for name, value in inner.__dict__.items() if name not in parameters})
        if intercept:
            result.intercept = y_mean - (x_mean.T * result.W).sum(axis=0)
        self._publish(result)
        return result.parts
