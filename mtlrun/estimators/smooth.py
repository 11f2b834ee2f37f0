"""Smooth hierarchical models: curves with partial pooling, and nothing to tune."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from mtlrun.data.frames import column_names, take_column
from mtlrun.data.weights import warn_of_scale
from mtlrun.estimators.base import (
    BaseMTL,
    ClassifierMTL,
    RegressorMTL,
    rows_by_code,
)
from mtlrun.estimators.hierarchical_labels import LOGISTIC_VARIANCE
from mtlrun.estimators.inputs import weighted_rows
from mtlrun.estimators.metadata import MethodMetadata
from mtlrun.estimators.params import Count, NonNegative, Positive, satisfies
from mtlrun.estimators.smooth_results import (
    PartialDependence,
    PartTest,
    format_part_test,
)
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData, dense, is_sparse
from mtlrun.solvers.hierarchical.smooth import (
    SmoothFit,
    SmoothOptions,
    estimation_rows,
    fit_smooth,
    part_statistic,
    smooth_prior,
    standardized,
)
from mtlrun.solvers.hierarchical.smooth_blocks import (
    MAX_EXACT_ROWS,
    MAX_KEPT_BYTES,
    BlockList,
    SmoothData,
)
from mtlrun.solvers.hierarchical.smooth_fit import Criterion, VariancePrior
from mtlrun.solvers.hierarchical.smooth_labels import (
    LabelMarginal,
    fit_smooth_labels,
    label_prior,
)
from mtlrun.solvers.hierarchical.smooth_marginal import SmoothMarginal
from mtlrun.solvers.hierarchical.smooth_parts import (
    COMMON_PARTS,
    MAX_ADDITIVE_COLUMNS,
    MAX_CROSSED_LEVELS,
    N_KNOTS,
    TASK_PARTS,
    LevelFactor,
    SmoothDesign,
    SmoothRows,
    Standardizer,
    content_keys,
    make_design,
)
from mtlrun.solvers.hierarchical.smooth_posterior import SmoothPosterior
from mtlrun.utils.processes import limited_threads

Array = np.ndarray[Any, np.dtype[Any]]


def _is_subset_of(names: tuple[str, ...]) -> Any:
    """Return the rule of a tuple or list of some of these names."""
    text = f"a tuple of some of {', '.join(map(repr, names))}, each at most once"

    def accepts(value: Any) -> bool:
        is_list = isinstance(value, tuple | list)
        return is_list and set(value) <= set(names) and len(set(value)) == len(value)

    return satisfies(text, accepts)


def _is_column_list(value: Any) -> bool:
    is_list = isinstance(value, tuple | list)
    return is_list and all(isinstance(name, str | int | np.integer) for name in value)


CommonParts = Annotated[Any, _is_subset_of(COMMON_PARTS)]
TaskParts = Annotated[Any, _is_subset_of(TASK_PARTS)]
LevelColumns = Annotated[
    Any, satisfies("a tuple of columns (names or positions)", _is_column_list)
]
Seed = Annotated[
    Any,
    satisfies(
        "an int in [0, inf)",
        lambda value: (
            isinstance(value, int | np.integer)
            and not isinstance(value, bool)
            and value >= 0
        ),
    ),
]


#: Rows that a partial dependence averages over, and values of its column.
N_BACKGROUND_ROWS = 50
N_GRID_VALUES = 30


@dataclass(frozen=True)
class FlatRows:
    """Every observed target with positive weight as a row, sorted by task.

    Attributes
    ----------
    row : ndarray of int, shape (N,)
        Row of the design.
    code : ndarray of int, shape (N,)
        Position of the task.
    target, weight : ndarray of shape (N,)
    """

    row: Array
    code: Array
    target: Array
    weight: Array

    @classmethod
    def of(cls, data: TaskData) -> FlatRows:
        """Return the rows of any layout."""
        weights = data.full_weights()
        if data.shared:
            observed = weights > 0
            code, row = np.nonzero(observed.T)
            return cls(row, code, data.targets[row, code], weights[row, code])
        code = np.repeat(np.arange(data.n_tasks), data.sizes)
        row = np.flatnonzero(weights > 0)
        return cls(row, code[row], data.targets[row], weights[row])


class _SmoothModel(BaseMTL):
    """What smooth hierarchical models share.

    Parameters
    ----------
    n_centers : int, default 150
        Rows at which kernels of several columns are exact for the common parts.
    prior_rate : float, default 1.0
        Rate of an exponential prior of the standard deviation of every curved part,
        relative to the noise. It keeps tables of less than a hundred rows from fitting
        curves to noise; 0 is plain restricted likelihood.
    max_rows : int, default 4000
        With more rows the variances are estimated from whole tasks with about so many
        rows, chosen by their content and `random_state`; the functions are estimated
        from all rows.
    tol : float, default 1e-6
        The solver stops when a further step is predicted to lower minus twice the
        log-likelihood by less.
    max_iter : int, default 100
        Newton steps at most, of every start.
    random_state : int, default 0
        Chooses the centers, and the tasks that the variances are estimated from.
    levels : tuple of columns, default ()
        Columns of X, by name or position, that hold further groups: each gets a level
        per group with one variance. A column is nested if every group occurs in one
        task only, otherwise crossed with the tasks (at most 2,000 groups). They are no
        features. A group without training rows has level zero, with its variance.
    unseen : {"error", "mean"}, default "error"
        What `predict` does for a task without training data: raise an error, or predict
        the common function.

    Attributes
    ----------
    variances_ : dict of str to float
        Variance of every part at a standardized row, in squared units of the targets.
        Parts that all tasks share have the names of `common_parts`; those of single
        tasks are ``task level`` and so on; further groups are ``levels of COLUMN``.
        Zero: the part is not needed, as far as the rows can tell.
    variance_shares_ : dict of str to float
        Expected share of every part, and of the ``noise``, in the variance of the
        targets.
    objective_ : list of float
        Minus twice the restricted log-likelihood and log prior along the accepted
        steps; it never rises.
    gap_ : float
        By how much a further step, or a part that is zero, would lower the last value,
        as its quadratic model says. Equal to `stop_crit_`.
    n_iter_ : int
        Evaluations of the likelihood.

    Notes
    -----
    A weight is a precision: the noise of a row has variance s2 / weight. A constant
    factor on all weights changes nothing. A model keeps its standardized rows, which
    its functions are made of.

    Curves interpolate; they do not extrapolate. Beyond the range of the training rows
    they return to the linear parts.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning",
    MIT Press, 2006. A. R. Gilmour, R. Thompson and B. R. Cullis, "Average information
    REML", Biometrics, 1995.
    """

    _without = ("coef_", "intercept_")
    _remedy: ClassVar[str] = "Use fewer rows, fewer centers (n_centers) or fewer parts."

    _: KW_ONLY
    n_centers: Count = 150
    prior_rate: NonNegative = 1.0
    max_rows: Count = 4000
    tol: Positive = 1e-6
    max_iter: Count = 100
    random_state: Seed = 0
    levels: LevelColumns = ()

    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of common parts and of parts of a task."""
        raise NotImplementedError

    # ---------------------------------------------------------------- reading

    def _read_X(self, X: Any, task_id: Any, *, reset: bool) -> tuple[Any, Array | None]:
        """Return X with codes in the columns `levels`, and the task ids."""
        if len(self.levels):
            X = self._with_codes(X, reset)
        elif reset:
            self._level_groups: list[dict[Any, int]] = []
            self._level_positions = np.zeros(0, dtype=int)
        X, ids = super()._read_X(X, task_id, reset=reset)
        return X, ids

    def _with_codes(self, X: Any, reset: bool) -> Any:
        """Return a copy of X with codes of groups; -1 is an unknown group."""
        if is_sparse(X):
            X = X.toarray()
        groups: list[dict[Any, int]] = [] if reset else self._level_groups
        columns = {}
        for number, name in enumerate(self.levels):
            names = column_names(X)
            if isinstance(name, str) and (names is None or name not in names):
                shown = "no names" if names is None else ", ".join(map(str, names[:10]))
                raise ValueError(
                    f"levels: X has no column {name!r}; its columns have {shown}"
                )
            values, position = take_column(X, name)
            values = np.asarray(values)
            is_missing = np.array([value is None or value != value for value in values])
            if is_missing.any():
                raise ValueError(
                    f"levels: column {name!r} has no value in {is_missing.sum()} rows, "
                    f"the first is row {is_missing.argmax()}; "
                    "give these rows a group of their own"
                )
            if reset:
                distinct = np.unique(values).tolist()
                groups.append({group: code for code, group in enumerate(distinct)})
            known = groups[number]
            found = [known.get(value, -1) for value in values.tolist()]
            columns[position] = np.array(found, dtype=float)
        if len(columns) < len(self.levels):
            raise ValueError(f"levels names a column twice: {tuple(self.levels)}")
        task_position = None
        if self.task_column is not None:
            task_position = take_column(X, self.task_column)[1]
        if task_position in columns:
            raise ValueError(
                f"levels names the task column {self.task_column!r}; "
                "tasks have levels anyway"
            )
        if reset:
            self._level_groups = groups
            positions = np.fromiter(columns, dtype=int)
            if task_position is not None:
                # The task column is taken out of X.
                positions = positions - (positions > task_position)
            self._level_positions = positions
        names = column_names(X)
        if names is None:
            X = np.array(X, dtype=object)
            for position, codes in columns.items():
                X[:, position] = codes
            return X
        frame = pd.DataFrame({name: np.asarray(X[name]) for name in names})
        for position, codes in columns.items():
            frame.isetitem(position, codes)
        return frame

    def _rows(self, X: Any) -> SmoothRows:
        """Return rows as the parts see them."""
        X = dense(X)
        levels = X[:, self._level_positions].astype(int)
        return SmoothRows(self._standardizer.transform(X), levels)

    def _factors(self, rows: SmoothRows, code: Array) -> tuple[LevelFactor, ...]:
        """Return the further grouping factors, nested in the tasks or crossed."""
        names = getattr(self, "feature_names_in_", None)
        factors = []
        for number, position in enumerate(self._level_positions):
            name = str(names[position]) if names is not None else str(position)
            groups = rows.levels[:, number]
            pairs = np.unique(np.column_stack([groups, code]), axis=0)
            n_levels = len(self._level_groups[number])
            is_nested = len(pairs) == len(np.unique(groups))
            if not is_nested and n_levels > MAX_CROSSED_LEVELS:
                raise ValueError(
                    f"levels: column {name!r} has {n_levels} groups that are crossed "
                    f"with the tasks, at most {MAX_CROSSED_LEVELS} are possible. Make "
                    "it the task column and the tasks the levels, merge rare groups, "
                    "or leave it out"
                )
            factors.append(LevelFactor(name, is_nested, n_levels))
        return tuple(factors)

    def _task_rows(self, data: TaskData, flat: FlatRows) -> SmoothData:
        """Return the rows as the solver needs them; sets how new rows are read."""
        X = dense(data.X)
        total = np.bincount(flat.row, flat.weight, len(X))
        features = X.copy()
        # Codes of groups are no features: constant columns are left out.
        features[:, self._level_positions] = 0.0
        self._standardizer = Standardizer.fit(features, total)
        every = self._rows(X)
        used = np.flatnonzero(total > 0)
        rows = every.take(flat.row)
        common_parts, task_parts = self._parts()
        design = make_design(
            every.take(used),
            total[used],
            common_parts=tuple(common_parts),
            task_parts=tuple(task_parts),
            factors=self._factors(rows, flat.code),
            n_centers=self.n_centers,
            seed=int(self.random_state),
        )
        return SmoothData(design, rows, flat.code, flat.target, 1 / flat.weight)

    def _options(self) -> SmoothOptions:
        return SmoothOptions(
            prior_rate=self.prior_rate,
            max_rows=self.max_rows,
            tol=self.tol,
            max_iter=self.max_iter,
            seed=int(self.random_state),
        )

    def _bytes(self, data: TaskData) -> float:
        p = data.n_features
        m = p + N_KNOTS * min(p, MAX_ADDITIVE_COLUMNS) + 2 * self.n_centers
        sizes = np.minimum(data.sizes, MAX_EXACT_ROWS).astype(float)
        blocks = 8.0 * float(data.sizes @ (2 * m + 5 * sizes))
        return 8.0 * (3 * data.targets.size * p + 8 * m * m) + 3 * min(
            blocks, float(MAX_KEPT_BYTES)
        )

    # ---------------------------------------------------------------- results

    def _publish(self, result: SolverResult) -> None:
        """Set the fitted attributes; warn when the solver did not converge."""
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.objective_ = list(result.objective)
        self.gap_ = result.gap
        self.stop_crit_ = result.stop_crit
        if not result.converged:
            message = self._convergence_message(result)
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def _result(self, fit: SmoothFit) -> SolverResult:
        """Return the path and the certificate of a fit."""
        variances = fit.variances
        return SolverResult(
            parts=np.zeros((1, 0, 0)),
            intercept=np.zeros(0),
            converged=variances.converged,
            n_iter=fit.n_evaluations,
            objective=list(variances.path),
            gap=variances.predicted_reduction,
            stop_crit=variances.predicted_reduction,
        )

    @property
    def _design(self) -> SmoothDesign:
        return self._posterior.data.design

    def _publish_fit(self, fit: SmoothFit, noise: float) -> None:
        """Set the posterior, and the variances in squared units of the targets.

        `noise` is the mean variance of the noise, in the units of the solver.
        """
        posterior = fit.posterior
        self._posterior: SmoothPosterior = posterior
        names = self._design.names
        unit = self._unit**2
        values = posterior.s2 * posterior.theta * unit
        self.variances_ = dict(zip(names, values.tolist(), strict=True))
        expected = np.append(posterior.part_variances(), noise)
        shares = expected / max(expected.sum(), 1e-300)
        self.variance_shares_ = dict(
            zip([*names, "noise"], shares.tolist(), strict=True)
        )

    def _criterion(self, data: SmoothData) -> Criterion:
        """Return minus twice the log-likelihood of rows."""
        raise NotImplementedError

    def _prior(self, data: SmoothData) -> VariancePrior:
        """Return the prior of the variances."""
        raise NotImplementedError

    def part_tests(self) -> list[PartTest]:
        """Test for every part whether its variance is zero, by likelihood ratios.

        The model is fitted again without each part, on the rows that the variances were
        estimated from.

        Returns
        -------
        list of PartTest
            In the order of `variances_`.
        """
        check_is_fitted(self, "_posterior")
        options = self._options()
        index = estimation_rows(self._training, options)
        subset = self._training
        if len(index) < len(subset.codes):
            subset = subset.take(index)
        theta = self._posterior.theta
        tests = []
        with limited_threads(1, "blas"):
            criterion = self._criterion(subset)
            for position, part in enumerate(self.variances_):
                statistic = part_statistic(
                    criterion, self._prior(subset), theta, position, options
                )
                p_value = 1.0
                if theta[position] > 0:
                    p_value = 0.5 * float(chi2.sf(statistic, 1))
                share = self.variance_shares_[part]
                sentence = format_part_test(part, statistic, p_value, share)
                tests.append(PartTest(part, statistic, p_value, share, sentence))
        return tests

    def partial_dependence(
        self,
        column: int | str,
        *,
        task: Any = None,
        values: Any = None,
        n_rows: int = N_BACKGROUND_ROWS,
    ) -> PartialDependence:
        """Return how the function depends on one column, with its standard deviation.

        The function is averaged over rows of training in which the column takes each of
        the values.

        Parameters
        ----------
        column : int or str
            Position or name of a column of X, the task column left out.
        task : object, optional
            A task of `tasks_`; default: the function that all tasks share.
        values : array-like of shape (n_values,), optional
            Default: 30 values between the quantiles 0.02 and 0.98 of the column in
            training.
        n_rows : int, default 50
            Rows to average over, chosen by their content; the same for all tasks.

        Returns
        -------
        PartialDependence

        Raises
        ------
        ValueError
            For an unknown column or task, a column of groups, or one that is constant
            in training.
        """
        check_is_fitted(self, "_posterior")
        position, name = self._column(column)
        place = np.flatnonzero(self._standardizer.columns == position)
        if not len(place):
            raise ValueError(
                f"column {name!r} is constant in training, or holds groups; "
                "choose one that varies"
            )
        j = int(place[0])
        center = self._standardizer.mean[j]
        unit = self._standardizer.std[j]
        data = self._training
        if values is None:
            low, high = center + unit * np.quantile(data.rows.z[:, j], [0.02, 0.98])
            values = np.linspace(low, high, N_GRID_VALUES)
        values = check_array(values, ensure_2d=False, dtype=np.float64)
        keys = content_keys(data.rows.z, data.target, int(self.random_state))
        background = data.rows.take(np.argsort(keys, kind="stable")[:n_rows])
        z = np.tile(background.z, (len(values), 1))
        z[:, j] = np.repeat((values - center) / unit, len(background))
        levels = np.full((len(z), background.levels.shape[1]), -1)
        code = -1
        if task is not None:
            matches = np.flatnonzero(self.tasks_ == task)
            if not len(matches):
                raise ValueError(
                    f"task={task!r} is not a task of the model; see tasks_"
                )
            code = int(matches[0])
        mean, variance = self._posterior.moments(
            SmoothRows(z, levels),
            code,
            n_averaged=len(background),
            is_common=task is None,
        )
        return PartialDependence(
            column=name,
            task=task,
            values=values,
            mean=self._center + self._unit * mean,
            std=self._unit * np.sqrt(variance),
        )

    def _column(self, column: int | str) -> tuple[int, str]:
        """Return position and name of a column.

        Raises
        ------
        ValueError
            If there is no such column.
        """
        n_columns = self.n_features_in_
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        if isinstance(column, str) and column in names:
            return names.index(column), column
        if not isinstance(column, str) and -n_columns <= int(column) < n_columns:
            position = int(column) % n_columns
            return position, names[position] if names else str(position)
        known = ", ".join(names[:10]) if names else f"positions 0 to {n_columns - 1}"
        raise ValueError(f"there is no column {column!r}; the model has {known}")

    # ---------------------------------------------------------------- prediction

    def _scores_of_tasks(self, X: Any) -> Array:
        """Return the predictions of all rows for all tasks, (n, T)."""
        rows = self._rows(X)
        columns = [self._task_scores(rows, t) for t in range(len(self.tasks_))]
        return np.column_stack(columns)

    def _scores_of_rows(self, X: Any, codes: Array) -> Array:
        """Return one prediction per row; code -1 is a task without training rows."""
        rows = self._rows(X)
        scores = np.empty(len(codes))
        for index in rows_by_code(codes):
            scores[index] = self._task_scores(rows.take(index), int(codes[index[0]]))
        return scores

    def _task_scores(self, rows: SmoothRows, task: int) -> Array:
        """Return the predictions of rows of one task."""
        mean = self._posterior.mean(rows, task)
        return np.asarray(self._center + self._unit * mean)


class _SmoothRegressor(RegressorMTL, _SmoothModel):
    """Smooth models of numbers.

    Attributes
    ----------
    noise_variance_ : float
        Variance of the noise of a row of average weight.
    loo_ : ndarray of shape (n_samples,) or (n_samples, n_tasks)
        Leave-one-out predictions of the training targets at the estimated variances, in
        the order of `fit`: an honest error before any test. NaN for missing targets and
        rows of weight 0.
    """

    def _fit_data(self, data: TaskData) -> SolverResult:
        flat = FlatRows.of(data)
        # A constant factor on all weights changes nothing.
        flat = replace(flat, weight=flat.weight / flat.weight.mean())
        rows, self._center, self._unit = standardized(self._task_rows(data, flat))
        # Products of these sizes are faster in one thread.
        with limited_threads(1, "blas"):
            fit = fit_smooth(rows, self._options())
            self._training = rows
            noise = fit.posterior.s2 * float(rows.noise.mean())
            self._publish_fit(fit, noise)
        self.noise_variance_ = self._posterior.s2 * self._unit**2
        self.loo_ = self._leave_one_out(data, flat, fit)
        return self._result(fit)

    def _criterion(self, data: SmoothData) -> Criterion:
        return SmoothMarginal(BlockList(data))

    def _prior(self, data: SmoothData) -> VariancePrior:
        return smooth_prior(data, self._options())

    def fit(
        self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None
    ) -> Self:
        """Fit the model; parameters and errors as of other models."""
        super().fit(X, y, task_id=task_id, sample_weight=sample_weight)
        rows = weighted_rows(sample_weight, X)
        if rows is not None:
            # Rows of weight 0 were left out: they have no leave-one-out prediction.
            loo: Array = np.full((len(sample_weight), *self.loo_.shape[1:]), np.nan)
            loo[rows] = self.loo_
            self.loo_ = loo
        return self

    def _leave_one_out(self, data: TaskData, flat: FlatRows, fit: SmoothFit) -> Array:
        """Return leave-one-out predictions in the shape of y, NaN without a weight."""
        values = self._center + self._unit * fit.leave_one_out
        loo: Array = np.full(data.targets.shape, np.nan)
        if data.shared:
            loo[flat.row, flat.code] = values
        else:
            loo[flat.row] = values
            loo = data.unsort(loo)
        if self._layout != "shared" and loo.ndim == 2:
            loo = loo[:, 0]
        return loo

    def predict(self, X: Any, *, task_id: Any = None, return_std: bool = False) -> Any:
        """Predict targets, and on request how far new targets may lie from that.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, as in `fit`
        task_id : array-like of shape (n_samples,), optional
            Required after a fit with task ids; after a fit on a 2-D `y` it picks one
            column per row.
        return_std : bool, default False
            Also return the standard deviation of a new target of average weight, noise
            included, given the variances. For a task without training rows
            (``unseen="mean"``) it has the variance between tasks in it.

        Returns
        -------
        y : ndarray of shape (n_samples,), or (n_samples, n_tasks) after a 2-D `y`
        std : ndarray of the same shape
            Only with `return_std`.

        Raises
        ------
        ValueError
            If task ids are missing, or unknown while ``unseen="error"``.
        """
        if not return_std:
            return super().predict(X, task_id=task_id)
        check_is_fitted(self)
        X, ids = self._read_X(X, task_id, reset=False)
        rows = self._rows(X)
        codes = self._task_of_rows(ids)
        if codes is None:
            columns = [self._task_moments(rows, t) for t in range(len(self.tasks_))]
            mean = np.column_stack([column[0] for column in columns])
            std = np.column_stack([column[1] for column in columns])
            return self._of_all_tasks(mean), self._of_all_tasks(std)
        means = np.empty(len(rows))
        deviations = np.empty(len(rows))
        for index in rows_by_code(codes):
            task = int(codes[index[0]])
            moments = self._task_moments(rows.take(index), task)
            means[index], deviations[index] = moments
        return means, deviations

    def _task_moments(self, rows: SmoothRows, task: int) -> tuple[Array, Array]:
        """Return predictions and standard deviations of new targets of one task."""
        mean, variance = self._posterior.moments(rows, task)
        std = np.sqrt(variance + self._posterior.s2)
        return self._center + self._unit * mean, self._unit * std


class SmoothMTL(_SmoothRegressor):
    """Smooth hierarchical regression: partially pooled levels, slopes and curves.

    The function of task t is a common one and one of its own, both sums of Gaussian
    processes (parts) on standardized columns. Each part has one variance; all variances
    minimize minus twice the restricted log-likelihood and a weak prior, so there is no
    strength to choose::

        -2 log p(y | variances) + 2 prior_rate sum over curved parts of sd / sd(e),
            where y = mu + f(x) + h_t(x) + e,  e ~ N(0, s2 / weight)

    A variance of zero is a result, not an error: the part is not needed, as far as the
    rows can tell. With ``common_parts=("linear",)`` and ``task_parts=("level",
    "slopes")`` this is a linear mixed model, ``HierarchicalMTL(covariance="scalar",
    mean="ridge")``. With `levels` it has further grouping factors, nested or crossed.

    Made for tasks that have rows of their own. Targets with several columns are
    accepted: every column is a task with the same rows.

    Parameters
    ----------
    common_parts : tuple of str, default ("linear", "additive", "wide", "narrow")
        Parts that all tasks share: a linear function; one curve per column (at most 40
        columns); functions of all columns together, that vary slowly or fast.
    task_parts : tuple of str, default ("level", "slopes", "smooth", "additive")
        Parts that every task has for itself: a level; slopes; a function of all columns
        together; one curve per column.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import SmoothMTL
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(np.arange(20), 15)
    >>> X = rng.uniform(-2, 2, size=(300, 2))
    >>> y = np.sin(2 * X[:, 0]) + rng.normal(size=20)[task] + 0.3 * rng.normal(size=300)
    >>> model = SmoothMTL(unseen="mean").fit(X, y, task_id=task)
    >>> round(model.variances_["task level"], 1)
    1.0
    >>> mean, std = model.predict([[0.8, 0.0]], task_id=[99], return_std=True)
    """

    metadata: ClassVar = MethodMetadata(
        cite=("rasmussen2006", "gilmour1995"),
        complexity=(
            "N m^2 + sum of n_t^3 per evaluation of 15 to 50, "
            "m = 10 d + 2 n_centers features at most"
        ),
        default_grid={"prior_rate": (0.5, 1.0, 2.0)},
        search=lambda scale: {},
    )

    common_parts: CommonParts = COMMON_PARTS
    task_parts: TaskParts = TASK_PARTS

    _: KW_ONLY

    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.common_parts, self.task_parts


class SmoothPooled(_SmoothRegressor):
    """Smooth regression with one function for all tasks, and a level per task.

    `SmoothMTL` with the level as the only part of a task, as a baseline: what curves
    gain without tasks of their own::

        -2 log p(y | variances) + 2 prior_rate sum over curved parts of sd / sd(e),
            where y = mu + f(x) + b_t + e,  e ~ N(0, s2 / weight)

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import SmoothPooled
    >>> rng = np.random.default_rng(0)
    >>> task, X = np.repeat([0, 1], 50), rng.uniform(-2, 2, size=(100, 1))
    >>> y = np.sin(2 * X[:, 0]) + task + 0.1 * rng.normal(size=100)
    >>> model = SmoothPooled().fit(X, y, task_id=task)
    >>> model.predict([[0.8]], task_id=[1]).round(1).tolist()
    [2.0]
    """

    metadata: ClassVar = replace(SmoothMTL.metadata, multitask=False)

    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return COMMON_PARTS, ("level",)


class SmoothIndependent(_SmoothRegressor):
    """Smooth regression of every task by itself, with common variances.

    `SmoothMTL` without a common function, as a baseline: what curves gain without a
    common one::

        -2 log p(y | variances) + 2 prior_rate sum over curved parts of sd / sd(e),
            where y = mu + h_t(x) + e,  e ~ N(0, s2 / weight)

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import SmoothIndependent
    >>> rng = np.random.default_rng(0)
    >>> task, X = np.repeat([0, 1], 50), rng.uniform(-2, 2, size=(100, 1))
    >>> y = np.sin(2 * X[:, 0] + task) + 0.1 * rng.normal(size=100)
    >>> model = SmoothIndependent().fit(X, y, task_id=task)
    >>> model.predict([[0.8]], task_id=[0]).round(1).tolist()
    [1.0]
    """

    metadata: ClassVar = replace(SmoothMTL.metadata, multitask=False)

    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (), TASK_PARTS


class _SmoothClassifier(ClassifierMTL, _SmoothModel):
    """Smooth models of labels."""

    def _all_weights(
        self, y: Array, ids: Array | None, weights: Array | None
    ) -> Array | None:
        """Return the weights, and warn if they cannot be numbers of rows."""
        warn_of_scale(weights, type(self).__name__)
        return weights

    def _fit_data(self, data: TaskData) -> SolverResult:
        flat = FlatRows.of(data)
        flat = replace(flat, target=(flat.target > 0).astype(float))
        rows = self._task_rows(data, flat)
        self._center = 0.0
        self._unit = 1.0
        with limited_threads(1, "blas"):
            fit = fit_smooth_labels(rows, self._options())
            self._training = rows
            self._publish_fit(fit, LOGISTIC_VARIANCE)
        return self._result(fit)

    def _criterion(self, data: SmoothData) -> Criterion:
        return LabelMarginal(data)

    def _prior(self, data: SmoothData) -> VariancePrior:
        return label_prior(data, self._options())

    def _task_scores(self, rows: SmoothRows, task: int) -> Array:
        """Return the log-odds of probabilities averaged over the posterior (MacKay)."""
        mean, variance = self._posterior.moments(rows, task)
        return np.asarray(mean / np.sqrt(1 + np.pi * variance / 8))

    def _is_logistic(self) -> bool:
        return True


class SmoothMTLClassifier(_SmoothClassifier):
    """Smooth hierarchical classification: partially pooled levels, slopes and curves.

    The log-odds of task t are a common function and one of its own, both sums of
    Gaussian processes (parts) on standardized columns, as in `SmoothMTL`. Each part has
    one variance. The variances minimize minus twice the log marginal likelihood by
    Laplace's approximation, and weak priors::

        -2 log p(y | variances) + 2 prior_rate sum over curved parts of sd
            + sum over parts of variance / prior variance,
            where log-odds of y_t = mu + f(x) + h_t(x),  mu ~ N(0, 100)

    The prior variance of the standard deviation of a part is 100, that of the slopes of
    tasks 0.49. `predict_proba` averages the probabilities over the posterior;
    `decision_function` is their log-odds.

    With two or three rows per task Laplace's approximation finds variances that are too
    small.

    Parameters
    ----------
    common_parts : tuple of str, default ("linear", "additive", "wide", "narrow")
        Parts that all tasks share: a linear function; one curve per column (at most 40
        columns); functions of all columns together, that vary slowly or fast.
    task_parts : tuple of str, default ("level", "slopes", "smooth", "additive")
        Parts that every task has for itself: a level; slopes; a function of all columns
        together; one curve per column.

    Notes
    -----
    A weight multiplies the log-likelihood of a row: a weight of k counts as k rows.
    `fit` warns if the mean of the weights is below 0.1 or above 10. Divide weights that
    do not count rows by their mean.

    Curves interpolate; they do not extrapolate. Beyond the range of the training rows
    they return to the linear parts.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import SmoothMTLClassifier
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(np.arange(30), 20)
    >>> X = rng.uniform(-2, 2, size=(600, 1))
    >>> score = 3 * np.cos(2 * X[:, 0]) + rng.normal(size=30)[task]
    >>> y = np.where(score + rng.logistic(size=600) > 0, "yes", "no")
    >>> model = SmoothMTLClassifier(unseen="mean").fit(X, y, task_id=task)
    >>> model.predict([[0.0], [1.5]], task_id=[99, 99]).tolist()
    ['yes', 'no']
    """

    metadata: ClassVar = MethodMetadata(
        cite=("rasmussen2006", "breslow1993"),
        complexity=(
            "N m^2 + sum of n_t^3 per Newton step of the mode, "
            "about 5 per evaluation of 15 to 50"
        ),
        default_grid={"prior_rate": (0.5, 1.0, 2.0)},
        search=lambda scale: {},
        losses=("logistic",),
    )

    common_parts: CommonParts = COMMON_PARTS
    task_parts: TaskParts = TASK_PARTS

    _: KW_ONLY

    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.common_parts, self.task_parts


class SmoothPooledClassifier(_SmoothClassifier):
    """Smooth classification with one function for all tasks, and a level per task.

    `SmoothMTLClassifier` with the level as the only part of a task, as a baseline::

        -2 log p(y | variances) + 2 prior_rate sum over curved parts of sd
            + sum over parts of variance / prior variance,
            where log-odds of y_t = mu + f(x) + b_t,  mu ~ N(0, 100)
    """

    metadata: ClassVar = replace(SmoothMTLClassifier.metadata, multitask=False)

    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return COMMON_PARTS, ("level",)


class SmoothIndependentClassifier(_SmoothClassifier):
    """Smooth classification of every task by itself, with common variances.

    `SmoothMTLClassifier` without a common function, as a baseline::

        -2 log p(y | variances) + 2 prior_rate sum over curved parts of sd
            + sum over parts of variance / prior variance,
            where log-odds of y_t = mu + h_t(x),  mu ~ N(0, 100)
    """

    metadata: ClassVar = replace(SmoothMTLClassifier.metadata, multitask=False)

    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (), TASK_PARTS
