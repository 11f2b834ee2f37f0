"""Base class of smooth hierarchical models: reading, parts, tests and curves."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from scipy.stats import chi2, norm
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from mtlrun.data.reading.frames import column_names, take_column
from mtlrun.estimators.base import (
    BaseMTL,
    rows_by_code,
)
from mtlrun.estimators.inputs import column_position
from mtlrun.estimators.params import Count, NonNegative, Positive, satisfies
from mtlrun.estimators.summary import LEVEL, SummaryTable
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import Array, TaskData, dense, is_sparse
from mtlrun.solvers.hierarchical.smooth import (
    SmoothFit,
    SmoothOptions,
    estimation_rows,
    part_statistic,
)
from mtlrun.solvers.hierarchical.smooth_blocks import (
    MAX_EXACT_ROWS,
    MAX_KEPT_BYTES,
    SmoothData,
)
from mtlrun.solvers.hierarchical.smooth_fit import Criterion, VariancePrior
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
from mtlrun.solvers.hierarchical.smooth_targets import (
    TARGET_PARTS,
)
from mtlrun.utils.processes import limited_threads


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
TargetParts = Annotated[Any, _is_subset_of(TARGET_PARTS)]
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


class SmoothModel(BaseMTL):
    """Base class of smooth hierarchical models.

    Parameters
    ----------
    n_centers : int, default 150
        Rows at which kernels of several columns are exact for the common parts. With
        more distinct rows predictions can depend on `random_state`: see
        `center_error_`.
    prior_rate : float, default 1.0
        Rate of an exponential prior of the standard deviation of each curved part,
        relative to the noise. It keeps tables of less than a hundred rows from fitting
        curves to noise; 0 is plain restricted likelihood.
    max_rows : int, default 4000
        With more rows the variances are estimated from whole tasks with about this many
        rows, chosen by their content and `random_state`; the functions are estimated
        from all rows.
    tol : float, default 1e-6
        The solver stops when a further step is predicted to lower minus twice the
        log-likelihood by less.
    max_iter : int, default 100
        Newton steps at most, of each start.
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
        Variance of each part at a standardized row, in squared units of the targets.
        Parts that all tasks share have the names of `common_parts`; parts of single
        tasks are ``task level`` and so on; further groups are ``levels of COLUMN``.
        Zero: the part is not needed, as far as the rows can tell.
    variance_shares_ : dict of str to float
        Expected share of each part, and of the ``noise``, in the variance of the
        targets.
    center_error_ : float, or ndarray of shape (n_tasks,) for targets on the same rows
        Prior variance of the common functions of several columns (``wide`` and
        ``narrow``) that the centers do not represent, mean over the training rows, in
        units of the variance of the noise. About zero if all distinct rows are centers.
        Above 0.1 `notes` advises more centers (`n_centers`): another `random_state`
        would then change predictions.
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
    _remedy = "Use fewer rows, fewer centers (n_centers) or fewer parts."
    # Names of common parts and of parts of a task; parameters of some models.
    common_parts = COMMON_PARTS
    task_parts = TASK_PARTS

    _: KW_ONLY
    n_centers: Count = 150
    prior_rate: NonNegative = 1.0
    max_rows: Count = 4000
    tol: Positive = 1e-6
    max_iter: Count = 100
    random_state: Seed = 0
    levels: LevelColumns = ()

    # ---------------------------------------------------------------- reading

    def _reads_like_base(self) -> bool:
        # `fit` only adds the rows of weight 0 to `loo_`.
        return self.task_column is None and not len(self.levels)

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
                names_text = "no names"
                if names is not None:
                    names_text = ", ".join(map(str, names[:10]))
                raise ValueError(
                    f"levels: X has no column {name!r}; its columns have {names_text}"
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
            code_by_group = groups[number]
            row_codes = [code_by_group.get(value, -1) for value in values.tolist()]
            columns[position] = np.array(row_codes, dtype=float)
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

    def _factors(self, rows: SmoothRows, code: Array | None) -> tuple[LevelFactor, ...]:
        """Return the further grouping factors, nested in the tasks or crossed.

        Tasks that share their rows (`code` is None) cross every factor.
        """
        names = getattr(self, "feature_names_in_", None)
        factors = []
        for number, position in enumerate(self._level_positions):
            name = str(names[position]) if names is not None else str(position)
            groups = rows.levels[:, number]
            n_levels = len(self._level_groups[number])
            is_nested = False
            if code is not None:
                pairs = np.unique(np.column_stack([groups, code]), axis=0)
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
        total = np.bincount(flat.row, flat.weight, data.X.shape[0])
        training_rows = self._read_training(data, total)
        rows = training_rows.take(flat.row)
        design = self._make_design(
            training_rows,
            total,
            common_parts=self.common_parts,
            task_parts=self.task_parts,
            factors=self._factors(rows, flat.code),
        )
        return SmoothData(design, rows, flat.code, flat.target, 1 / flat.weight)

    def _read_training(self, data: TaskData, weights: Array) -> SmoothRows:
        """Return the rows of training; sets how new rows are read."""
        features = dense(data.X).copy()
        # Codes of groups are not features: constant columns are left out.
        features[:, self._level_positions] = 0.0
        self._standardizer = Standardizer.fit(features, weights)
        return self._rows(data.X)

    def _make_design(
        self,
        rows: SmoothRows,
        weights: Array,
        *,
        common_parts: tuple[str, ...],
        task_parts: tuple[str, ...],
        factors: tuple[LevelFactor, ...],
    ) -> SmoothDesign:
        """Return the parts of the model, made from rows with weights."""
        used = np.flatnonzero(weights > 0)
        return make_design(
            rows.take(used),
            weights[used],
            common_parts=tuple(common_parts),
            task_parts=tuple(task_parts),
            factors=factors,
            n_centers=self.n_centers,
            seed=int(self.random_state),
        )

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
        self._publish_run(result)

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
        expected = np.append(fit.part_variances, noise)
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

    def _noise_variance(self) -> Any:
        """Return the variance of the noise, in the units of `variances_`."""
        raise NotImplementedError

    @property
    def center_error_(self) -> Any:
        """Variance that the centers miss, in units of the noise."""
        check_is_fitted(self)
        rows = self._rows_for_centers()
        missed: Any = np.zeros(np.shape(self._noise_variance()))
        for part in self._design.common:
            if np.any(self.variances_[part.name]):
                share = part.missed_variance(rows)
                variance = np.asarray(self.variances_[part.name])
                missed = missed + share * variance
        noise = np.maximum(self._noise_variance(), 1e-300)
        error = missed / noise
        if np.ndim(error):
            return error
        return float(error)

    def _rows_for_centers(self) -> SmoothRows:
        """Return the training rows as the parts with centers see them."""
        z, _ = self._training_rows()
        # These parts do not see further groups.
        no_groups = np.zeros((len(z), 0), dtype=int)
        return SmoothRows(z, no_groups)

    def summary(self) -> pd.DataFrame:
        """Return standard deviations of the parts, R2 and convergence in a frame.

        Lines and formulas are those of `mtlrun.estimators.summary`; F is the variance
        of the parts that all tasks share. Numbers of targets on the same rows are
        means over the targets. These and labels have no intervals.

        Returns
        -------
        DataFrame
            Index (section, name); columns estimate, std_error, df, low, high, share.
        """
        check_is_fitted(self)
        names = list(self.variances_)
        log_errors = np.full(len(names), np.nan)
        noise_error = np.nan
        posterior = getattr(self, "_posterior", None)
        if posterior is not None and posterior.uncertainty is not None:
            theta = np.where(posterior.theta > 0, posterior.theta, np.nan)
            covariance = posterior.uncertainty.covariance
            errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
            # The logarithm of a root has half the relative error.
            log_errors = 0.5 * errors / theta
            nu = posterior.uncertainty.nu
            noise_error = float(1 / np.sqrt(2 * nu))
        shares = {}
        for name, share in self.variance_shares_.items():
            shares[name] = float(np.mean(share))
        table = SummaryTable(self)
        quantile = float(norm.ppf(0.5 + LEVEL / 2))
        factors = np.exp(quantile * np.append(log_errors, noise_error)).tolist()
        variances = [self.variances_[name] for name in names]
        variances.append(self._noise_variance())
        for name, variance, factor in zip(
            [*names, "noise"], variances, factors, strict=True
        ):
            std = float(np.sqrt(np.mean(variance)))
            table.add_std(name, std, std / factor, std * factor, shares[name])
        return table.finished(
            sum(shares[name] for name in names if name in self.common_parts),
            shares["noise"],
            len(self._training_rows()[0]),
        )

    def notes(self) -> list[str]:
        """Return sentences about what limits the fit; none if nothing is known.

        The only one so far: predictions depend on the choice of the centers (see
        `center_error_`).
        """
        error = float(np.max(self.center_error_))
        if error <= MAX_CENTER_ERROR:
            return []
        distinct = np.unique(self._rows_for_centers().clipped, axis=0)
        # The parameter `n_centers` may have been set anew since the fit.
        n_centers = max(part.n_centers for part in self._design.common)
        return [format_center_note(n_centers, error, len(distinct))]

    def part_tests(self) -> list[PartTest]:
        """Test for every part whether its variance is zero, by likelihood ratios.

        The model is fitted again without each part, on the rows that the variances were
        estimated from.

        Returns
        -------
        list of PartTest
            In the order of `variances_`; after a fit on several targets first all tests
            of the first target, then of the second, and so on, each fitted alone.
        """
        check_is_fitted(self)
        data = self._training
        index = estimation_rows(data, self._options())
        if len(index) < len(data.codes):
            data = data.take(index)
        with limited_threads(1, "blas"):
            return self._tests_of(data, self._posterior.theta, self.variance_shares_)

    def _tests_of(
        self, data: SmoothData, theta: Array, shares: dict[str, float], task: Any = None
    ) -> list[PartTest]:
        """Return the tests of all parts on rows, at the estimated variances."""
        criterion = self._criterion(data)
        prior = self._prior(data)
        tests = []
        for position, part in enumerate(data.design.names):
            statistic = part_statistic(
                criterion, prior, theta, position, self._options()
            )
            p_value = 1.0
            if theta[position] > 0:
                p_value = 0.5 * float(chi2.sf(statistic, 1))
            share = shares[part]
            sentence = format_part_test(
                part,
                statistic,
                p_value,
                share,
                function="the common function" if task is None else "its function",
            )
            tests.append(PartTest(part, statistic, p_value, share, sentence, task))
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
            A task of `tasks_`; default: the function that all tasks share. Required
            after a fit on several targets, which share none.
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
            For an unknown column or task, a column of groups, or a column that is
            constant in training.
        """
        check_is_fitted(self)
        position = column_position(self, column, "column")
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        name = str(names[position])
        matches = np.flatnonzero(self._standardizer.columns == position)
        if not len(matches):
            raise ValueError(
                f"column {name!r} is constant in training, or holds groups; "
                "choose one that varies"
            )
        j = int(matches[0])
        center = self._standardizer.mean[j]
        unit = self._standardizer.std[j]
        z, keys = self._training_rows()
        if values is None:
            low, high = center + unit * np.quantile(z[:, j], [0.02, 0.98])
            values = np.linspace(low, high, N_GRID_VALUES)
        values = check_array(values, ensure_2d=False, dtype=np.float64)
        background = z[np.argsort(keys, kind="stable")[:n_rows]]
        changed = np.tile(background, (len(values), 1))
        changed[:, j] = np.repeat((values - center) / unit, len(background))
        levels = np.full((len(changed), len(self._level_positions)), -1)
        code = -1
        if task is not None:
            tasks = np.flatnonzero(self.tasks_ == task)
            if not len(tasks):
                raise ValueError(
                    f"task={task!r} is not a task of the model; see tasks_"
                )
            code = int(tasks[0])
        mean, std = self._averages(SmoothRows(changed, levels), code, len(background))
        return PartialDependence(
            column=name, task=task, values=values, mean=mean, std=std
        )

    def _training_rows(self) -> tuple[Array, Array]:
        """Return the standardized rows of training and keys that put them in order."""
        data = self._training
        keys = content_keys(data.rows.z, data.target, int(self.random_state))
        return data.rows.z, keys

    def _averages(
        self, rows: SmoothRows, task: int, n_averaged: int
    ) -> tuple[Array, Array]:
        """Return averages of a function over consecutive rows, and their deviations.

        Task -1 stands for the common function.
        """
        mean, variance = self._posterior.moments(
            rows, task, n_averaged=n_averaged, is_common=task < 0
        )
        return self._center + self._unit * mean, self._unit * np.sqrt(variance)

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


#: Variance that the centers miss, in units of the noise, beyond which a note says so. Of
#: twelve tables only one has more, whose test error changes by up to 16% (mean of two
#: splits) with another seed, and of six further tables four.
MAX_CENTER_ERROR = 0.1


#: Meaning of a part that is needed; {function} stands for the common function.
PART_STATEMENTS = {
    "linear": "{function} has a linear part",
    "additive": "{function} has curves of single columns",
    "wide": "{function} varies slowly with several columns together",
    "narrow": "{function} varies fast with several columns together",
    "task level": "tasks differ in their level",
    "task slopes": "tasks differ in their slopes",
    "task smooth": "tasks differ in a smooth function of all columns together",
    "task additive": "tasks differ in their curves of single columns",
}


@dataclass(frozen=True)
class PartTest:
    """A likelihood-ratio test of the hypothesis that the variance of a part is zero.

    Attributes
    ----------
    part : str
        Its name in `variances_`.
    statistic : float
        By how much minus twice the log-likelihood rises without the part, all other
        variances estimated again.
    p_value : float
        Under half a chi-square of one degree of freedom; 1 for a variance of zero. The
        prior of curves makes it rather too large.
    share : float
        Expected share of the part in the variance of the targets.
    sentence : str
    task : object
        The target that was tested, None for a model of tasks with rows of their own.
    """

    part: str
    statistic: float
    p_value: float
    share: float
    sentence: str
    task: Any = None


@dataclass(frozen=True)
class PartialDependence:
    """How the function depends on one column, averaged over rows of training.

    Attributes
    ----------
    column : str
    task : object
        The task, None for the function that all tasks share.
    values : ndarray of shape (n_values,)
        Values of the column.
    mean : ndarray of shape (n_values,)
        In units of the targets; log-odds of labels.
    std : ndarray of shape (n_values,)
        Posterior standard deviation, without noise.
    """

    column: str
    task: Any
    values: Array
    mean: Array
    std: Array

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of pointwise intervals of this probability."""
        width = float(norm.ppf(0.5 + level / 2)) * self.std
        return self.mean - width, self.mean + width


def format_part_test(
    part: str, statistic: float, p_value: float, share: float, function: str
) -> str:
    """Return a sentence about the test of a part.

    A p-value of 1 is a variance of zero.
    """
    if part in PART_STATEMENTS:
        statement = PART_STATEMENTS[part].format(function=function)
    else:
        column = part.partition("levels of ")[2]
        statement = f"groups of {column} differ in their level"
    if p_value == 1:
        return f"There is no sign that {statement}: the variance of this part is zero."
    p_text = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
    start = statement[0].upper() + statement[1:]
    if p_value > 0.05:
        start = f"It is not clear whether {statement}"
    return (
        f"{start} ({p_text}): without this part minus twice the log-likelihood "
        f"rises by {statistic:.1f}. It explains {share:.0%} of the variance."
    )


def format_center_note(n_centers: int, error: float, n_distinct: int) -> str:
    """Return a sentence about functions of several columns that the centers miss."""
    return (
        f"Predictions depend on which {n_centers} rows are centers (random_state): the "
        "centers miss functions of several columns, with "
        f"{error:.2g} times the variance of the noise. A larger n_centers helps; with "
        f"n_centers={n_distinct} every row is a center."
    )
