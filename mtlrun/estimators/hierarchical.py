"""Hierarchical (mixed effects, partial pooling) regression: coefficients of tasks
are draws around a common mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from scipy.stats import chi2
from sklearn.utils.validation import check_is_fitted

from mtlrun.estimators.base import (
    BaseMTL,
    RegressorMTL,
    rows_by_code,
    scores_by_code,
)
from mtlrun.estimators.counted_weights import (
    check_total_weight,
    warn_of_constants,
    with_counted_weights,
)
from mtlrun.estimators.heterogeneity import CheckedRows, HeterogeneityTest, adjusted
from mtlrun.estimators.inputs import column_position
from mtlrun.estimators.metadata import MethodMetadata
from mtlrun.estimators.params import (
    Count,
    Positive,
    TaskColumn,
    Unseen,
    choice,
    removed,
    satisfies,
)
from mtlrun.estimators.summary import LEVEL, SummaryTable
from mtlrun.problem.result import SolverResult
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import Array, TaskData, dense
from mtlrun.solvers.hierarchical.compress import (
    Columns,
    Compressed,
    of_data,
    of_statistics,
)
from mtlrun.solvers.hierarchical.fit import (
    ROWS_PER_MEAN,
    HierarchicalProblem,
    OwnNoise,
    automatic_noise,
    fit_covariance,
    own_noise,
    refitted,
)
from mtlrun.solvers.hierarchical.mixtures import clusters
from mtlrun.solvers.hierarchical.posterior import (
    Shares,
    containment_df,
    variance_shares,
)
from mtlrun.solvers.hierarchical.profile import VarianceInterval, variance_interval
from mtlrun.solvers.hierarchical.row_checks import check_rows, corrected
from mtlrun.utils.processes import one_thread_if_small

# A column varies within a task where more than this share of it is left without its
# mean.
_WITHIN = 1e-9


def _is_column_list(value: Any) -> bool:
    if not hasattr(value, "__len__") or isinstance(value, str | bytes | dict | set):
        return False
    return all(isinstance(v, str | int | np.integer | np.bool_) for v in value)


PRIORS = choice("normal", "clusters") | removed(
    "student",
    "Student's prior was removed, because it rarely predicted better: use "
    "prior='normal'",
)
CovarianceName = Literal["auto", "intercept", "scalar", "diagonal", "factor", "full"]
#: Slopes whose standard deviations have intervals in a summary. Each takes several fits.
MAX_INTERVALS = 8
#: A list of columns.
COLUMNS = satisfies(
    "a list of columns (names or positions), or a boolean mask of all columns",
    _is_column_list,
)


@dataclass(frozen=True)
class Estimates:
    """Coefficients fitted per task and pooled, in the units of the columns, the level
    at their mean first.

    Attributes
    ----------
    names : list of str
    alone : ndarray of shape (n_tasks, k)
        Least squares, columns that do not vary within the task having the mean
        coefficient; NaN there, and for tasks with fewer rows than coefficients.
    pooled, std : ndarray of shape (n_tasks, k)
        Posterior means and standard deviations.
    mean : ndarray of shape (k,)
        Of all tasks.
    mean_std : ndarray of shape (k,)
        Its standard errors.
    mean_df : ndarray of shape (k,) or None
        Degrees of freedom of these; None for labels.
    """

    names: list[str]
    alone: Array
    pooled: Array
    std: Array
    mean: Array
    mean_std: Array
    mean_df: Array | None = None


#: Shared by the models of a search while their rows live: the rows, compressed with and
#: without intercept, and the models with a normal prior, by their settings.
_Known = tuple[Compressed, Columns, dict[Any, OwnNoise]]
_compressed: WeakKeyDictionary[TaskData, dict[bool, _Known]] = WeakKeyDictionary()


class CommonMean:
    """Common part of hierarchical models: columns whose coefficients may differ; the
    mean as the model of new tasks.
    """

    covariance: str
    slopes: Any
    fit_intercept: bool
    n_features_in_: int
    coef_: Array
    intercept_: Array
    mean_coef_: Array
    mean_intercept_: float
    _counts_rows = True

    @staticmethod
    def _result(fit: Any, coef: Array, intercept: Array) -> SolverResult:
        """Return coefficients of shape (n_features, n_tasks) with the path of the
        fit that found them.
        """
        return SolverResult(
            parts=coef[np.newaxis],
            intercept=intercept,
            converged=fit.converged,
            n_iter=max(fit.n_evaluations, 1),
            objective=list(fit.path),
            gap=fit.predicted_reduction,
            stop_crit=fit.predicted_reduction,
        )

    def _random(self, p: int) -> Array:
        """Return the positions of the standardized columns whose coefficients may
        differ.
        """
        first = int(self.fit_intercept)
        if not first and self.covariance == "intercept":
            raise ValueError(
                "covariance='intercept' needs fit_intercept=True: there are no "
                "intercepts to differ"
            )
        if isinstance(self.slopes, str):
            return np.arange(p)
        return np.array(
            [0] * first
            + sorted({j + first for j in self._positions(self.slopes, "slopes")}),
            dtype=int,
        )

    def _positions(self, columns: Any, parameter: str) -> list[int]:
        """Return the positions of features, each once.

        Parameters
        ----------
        columns : list-like of str, int or bool
        parameter : str
            The original argument, for messages.

        Raises
        ------
        ValueError
            If there is no such feature, or a mask has another length or is mixed with
            positions.
        """
        values = list(columns)
        flags = [isinstance(value, bool | np.bool_) for value in values]
        if not any(flags):
            positions = [column_position(self, value, parameter) for value in values]
            return list(dict.fromkeys(positions))
        d = self.n_features_in_
        if not all(flags):
            raise ValueError(
                f"{parameter} mixes booleans with names or positions; give one of them"
            )
        if len(values) != d:
            raise ValueError(
                f"{parameter} is a boolean mask of {len(values)} columns, but X has {d}"
            )
        return [j for j, is_selected in enumerate(values) if is_selected]

    def _tested_columns(self, tested: Any) -> Array:
        """Return the standardized columns that a test names."""
        is_single = isinstance(tested, str) or not hasattr(tested, "__len__")
        columns = [tested] if is_single else tested
        if is_single and isinstance(tested, bool | np.bool_):
            column_position(self, tested, "tested")
        positions = np.array(self._positions(columns, "tested"), dtype=int)
        return positions + int(self.fit_intercept)

    def _scores_of_rows(self, X: Any, codes: Array) -> Array:
        """Return one score per row; a task without training rows has the mean of the
        coefficients.
        """
        coef = np.vstack([self.coef_, self.mean_coef_])
        return scores_by_code(
            X, codes, coef, np.append(self.intercept_, self.mean_intercept_)
        )

    def _publish_common(
        self, columns: Columns, mu: Array, spread: Array, Sigma: Array, shares: Shares
    ) -> None:
        """Set the mean of the coefficients, its deviations and their covariance, in
        the units of the data.
        """
        L = columns.back()
        units = columns.units
        mean = L @ mu
        self.mean_coef_ = mean[1:]
        self.mean_intercept_ = float(mean[0] + columns.center)
        self.mean_coef_std_ = np.sqrt(np.maximum(np.diag(L @ spread @ L.T), 0.0))[1:]
        self.covariance_ = Sigma * np.outer(units, units)
        self.variance_shares_ = {
            "mean": shares.mean,
            "tasks": shares.tasks,
            "noise": shares.noise,
        }
        self.heterogeneity_ = shares.columns

    def _names(self, columns: Array) -> list[str]:
        """Return the names of standardized columns, positions where features have no
        names.
        """
        first = int(self.fit_intercept)
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        names_of_columns = []
        for j in columns:
            if j < first:
                names_of_columns.append("level")
            else:
                names_of_columns.append(str(names[j - first]))
        return names_of_columns


def by_task(
    model: Any,
    X: Any,
    task_id: Any,
    predicted: Array,
    function: Callable[[Array, Array, int], Array],
) -> Array:
    """Return a function of the rows of each task, in the shape of the predictions.

    Its arguments are standardized rows (n, p), predictions (n,) for them, and the
    position of the task in `tasks_`, -1 for a task without training rows.
    """
    X, ids = model._read_X(X, task_id, reset=False)
    A = model._columns.apply(dense(X))
    codes = model._task_of_rows(ids)
    values = np.empty(predicted.shape)
    if codes is None:
        columns = values.reshape(len(A), -1)
        predicted_by_task = predicted.reshape(len(A), -1)
        for t in range(len(model.tasks_)):
            columns[:, t] = function(A, predicted_by_task[:, t], t)
        return values
    for rows in rows_by_code(codes):
        t = int(codes[rows[0]])
        values[rows] = function(A[rows], predicted[rows], t)
    return values


class HierarchicalMTL(CommonMean, RegressorMTL, BaseMTL):
    """Hierarchical regression: mixed effects with partial pooling of intercepts and
    slopes, variances by REML.

    The coefficients of a task, intercept included, are a draw around a mean mu that all
    tasks share. Minimizes over the covariance Sigma between tasks and the variance s2
    of the noise, with mu integrated out (REML)::

        -2 log p(y | Sigma, s2), where y_t = X_t w_t + e_t, w_t ~ N(mu, Sigma), e_t ~ N(0, s2)

    The variances say how strongly the tasks are pooled, so there is no strength to
    choose. `coef_` is the posterior mean (the best linear unbiased prediction). Columns
    are standardized inside. A variance of zero is an answer, not an error: the tasks do
    not differ there, as far as the rows can tell. Slopes of columns that vary within
    fewer than three tasks have no variance by design: no task shows its slope, which
    would only let the variance of levels depend on the column.

    In lme4 this is ``y ~ x + (x | task)``, or ``(x || task)`` with a diagonal
    covariance. It is meant for ragged tasks; for many targets on the same rows it
    offers little benefit, and on wide tables of them other methods are better.

    A row of weight k in `sample_weight` counts as k rows: the noise, the variances
    between tasks and standard errors are estimated as if there were that many. Weights
    that do not count rows (survey or precision weights) should have mean 1; a mean
    outside 0.1 to 10 causes a `WeightScaleWarning`.

    Parameters
    ----------
    covariance : {"auto", "intercept", "scalar", "diagonal", "factor", "full"}, default "auto"
        Form of Sigma on standardized columns: a variance of the intercepts alone; also
        one variance for all slopes; a variance per column; also a few directions; or
        any. "auto" takes the best of the first three by AIC and adds directions while
        each pays, with at least ten targets per parameter.
    prior : {"normal", "clusters"}, default "normal"
        "clusters" allows a few groups of tasks. Their fit starts from the normal one,
        and maximizes the plain likelihood. Their number is chosen by BIC, with at least
        three tasks per cluster and three rows per mean of a cluster and column; where
        one cluster is best, the prior is normal.
    slopes : "all", list of columns or boolean mask, default "all"
        Columns (names or positions, or a mask of the length n_features) whose
        coefficients may differ between tasks; coefficients of others are one number.
    mean : {"auto", "flat", "ridge"}, default "auto"
        Prior of mu: none, or a ridge whose strength is an additional variance of the
        likelihood. "auto" uses the ridge if there are fewer than three rows per column.
    method : {"reml", "ml"}, default "reml"
        Restricted or plain maximum likelihood.
    noise : {"common", "task", "auto"}, default "common"
        Whether all tasks have noise variance s2, or each its own, s2 v_t. Then 1 / v_t
        is drawn from a chi-square with r degrees of freedom, divided by r, and r is
        estimated (`noise_degrees_`). "auto" decides by AIC: each task has its own noise
        if that lowers minus twice the log-likelihood by more than 2. Tasks that share
        their rows keep a common noise unless "task" is given. `mtlrun train` and
        `compare` use "auto".
    fit_intercept : bool, default True
        Whether there are intercepts. Without, columns are not centered.
    tol : float, default 1e-8
        The solver stops when another step is predicted to lower minus twice the
        log-likelihood by less than this.
    max_iter : int, default 100
        Maximum number of Newton steps; L-BFGS, for covariances that are not diagonal,
        may take ten times as many.

    Attributes
    ----------
    mean_coef_ : ndarray of shape (n_features,)
        Mean of the coefficients, which is also the model of a task never seen.
    mean_intercept_ : float
    mean_coef_std_ : ndarray of shape (n_features,)
        Standard errors of `mean_coef_`, given the variances.
    mean_coef_df_ : ndarray of shape (n_features,)
        Degrees of freedom of these, by containment, for t intervals: the number of
        tasks within which a column varies, less one, if its slopes may differ; the
        number of tasks less one and less the number of such columns, if it varies only
        between tasks; else the rows less the coefficients that they determine.
    coef_std_ : ndarray of shape (n_tasks, n_features)
        Posterior standard deviations of `coef_`, computed on demand, as are
        `intercept_std_` (n_tasks,).
    covariance_ : ndarray of shape (1 + n_features, 1 + n_features)
        Sigma in the units of the columns: the level of a task at the mean of all
        columns first, then its slopes. Without intercepts (n_features, n_features).
    noise_variance_ : float
        s2; with ``noise="task"`` the mean for a task without rows.
    noise_variances_ : ndarray of shape (n_tasks,)
        Variance of the noise of each task, of their own the means given the rows.
    noise_degrees_ : float
        r, infinite where the noise is common.
    variance_shares_ : dict
        Shares of the variance of the targets: of the ``mean`` model, the differences of
        ``tasks``, and ``noise``.
    heterogeneity_ : ndarray of shape (1 + n_features,)
        Contributions of the differences in level and in each slope to
        ``variance_shares_["tasks"]``.
    log_likelihood_ : float
        Restricted unless ``method="ml"`` or the prior is not normal; as lme4 computes
        it, in the units of the columns.
    structure_ : str
        The covariance that was fitted; ``diagonal+2`` is a diagonal plus two
        directions, ``none`` is a single task.
    labels_ : ndarray of int, shape (n_tasks,)
        With ``prior="clusters"``: the most likely cluster of each task. Zeros for the
        normal prior.
    objective_ : list of float
        Minus twice the log-likelihood, of standardized columns, along the iterations of
        the covariance and the prior chosen. With noises of their own the log density of
        these is in it.
    gap_ : float
        By how much a further step would lower the last value: gradient and distance to
        the boundary of zero variances in one number. With clusters it is the fall of
        the last step of EM. Equal to `stop_crit_`.
    converged_ : bool
        Whether `gap_` is below `tol`; below 0.01 where clusters were found.

    Notes
    -----
    A model keeps the sums of its rows (at most n_features + 1 compressed rows per task)
    for intervals and tests.

    References
    ----------
    N. M. Laird and J. H. Ware, "Random-effects models for longitudinal data",
    Biometrics, 1982. D. M. Bates and coauthors, "Fitting linear mixed-effects models
    using lme4", Journal of Statistical Software, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import HierarchicalMTL
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(np.arange(20), 10)
    >>> X = rng.normal(size=(200, 2))
    >>> y = 3 + rng.normal(size=20)[task] + X @ [1.0, -1.0] + 0.5 * rng.normal(size=200)
    >>> model = HierarchicalMTL(unseen="mean").fit(X, y, task_id=task)
    >>> model.structure_, round(model.variance_shares_["tasks"], 1)
    ('intercept', 0.4)
    >>> mean, std = model.predict([[0.0, 0.0]], task_id=[99], return_std=True)
    """

    metadata = MethodMetadata(
        cite=("laird1982", "bates2015"),
        complexity=(
            "T k^2 (k + d), k = min(n, d), per evaluation of 5 to 15; d + 1 rows per "
            "task are enough"
        ),
        default_grid={"prior": ("normal", "clusters")},
        default_params={"noise": "auto"},
        changes=(
            "Priors: clusters go on from the best of short starts, Student from the "
            "next thinner tails.",
            "Student's prior is fitted by BFGS and comes nearer to its optimum.",
            "Slopes differ only for columns that vary within three tasks; units of "
            "targets and the order of tasks no longer change Student's prior and "
            "clusters.",
            "Variances are by REML for any number of tasks, standard deviations for "
            "new tasks use Student's quantiles, and the noise may differ by task.",
            "Noise by task is fitted right where columns are collinear, such as the "
            "indicators of all categories.",
        ),
    )
    _by_sums = True
    _rows: TaskData | None
    _checks: CheckedRows | None

    def __init__(
        self,
        covariance: CovarianceName = "auto",
        prior: Annotated[str, PRIORS] = "normal",
        slopes: Annotated[Any, choice("all") | COLUMNS] = "all",
        mean: Literal["auto", "flat", "ridge"] = "auto",
        method: Literal["reml", "ml"] = "reml",
        noise: Literal["common", "task", "auto"] = "common",
        fit_intercept: bool = True,
        tol: Positive = 1e-8,
        max_iter: Count = 100,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
    ) -> None:
        self.covariance = covariance
        self.prior = prior
        self.slopes = slopes
        self.mean = mean
        self.method = method
        self.noise = noise
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen

    # ---------------------------------------------------------------- fit

    def _bytes(self, data: TaskData) -> float:
        p = data.n_features + 1
        if data.uniform and self.noise != "task":
            sizes = data.sizes[:1]
        else:
            sizes = data.sizes
        rows = float(np.minimum(sizes, p).sum())
        if self.prior != "normal":
            pairs = data.n_tasks * p * p
        else:
            pairs = min(data.n_tasks * p * p, 1 << 23)
        dense = data.n_rows * p if data.sparse else 0
        return 8.0 * (
            2 * dense + 10 * rows * p + 6 * data.targets.size + 6 * pairs + 8 * p * p
        )

    def _fit_data(self, data: TaskData) -> SolverResult:
        data = with_counted_weights(data)
        fits = _compressed.setdefault(data, {})
        if self.fit_intercept not in fits:
            with one_thread_if_small(data.n_features):
                fits[self.fit_intercept] = *of_data(data, self.fit_intercept), {}
        warn_of_constants(data, fits[self.fit_intercept][1])
        self._rows = None
        self._checks = None
        if data.offsets is not None and self.fit_intercept:
            self._rows = data
        return self._fit_compressed(*fits[self.fit_intercept])

    def __getstate__(self) -> Any:
        """Return the model without its training rows, which only tests look at."""
        return {**super().__getstate__(), "_rows": None, "_checks": None}

    def _fit_sums(self, statistics: TaskStatistics) -> Array:
        self._rows = None
        self.tasks_ = np.asarray(statistics.tasks)
        with np.errstate(over="ignore"):
            check_total_weight(float(np.sum(statistics.weight)))
        result = self._fit_compressed(
            *of_statistics(statistics, self.fit_intercept), {}
        )
        self._publish(result)
        return result.parts

    def _fit_compressed(
        self, data: Compressed, columns: Columns, fits: dict[Any, OwnNoise]
    ) -> SolverResult:
        self._columns = columns
        self.labels_ = np.zeros(data.T, dtype=int)
        with one_thread_if_small(data.p):
            noise = self._normal(data, fits)
            result = noise.result
            self.structure_ = result.name
            self.noise_degrees_ = noise.degrees
            criterion = result.criterion
            is_flat = not len(result.m.shrunk) and result.m.has_full_rank
            if self.method == "reml" and is_flat:
                # The restricted likelihood of columns that are not standardized.
                criterion += 2.0 * float(np.log(self._columns.scale).sum())
            self.log_likelihood_ = -0.5 * criterion
            mixture = None
            if self.prior == "clusters" and len(result.m.random):
                mixture = clusters(result)
            if mixture is None:
                self._posterior = result.posterior()
            else:
                self._posterior = mixture.posterior
                self.labels_ = mixture.labels
                self.log_likelihood_ = -0.5 * mixture.criterion
            if np.isfinite(noise.degrees):
                self.log_likelihood_ -= 0.5 * float(data.n @ np.log(noise.v))
                self._posterior = replace(
                    self._posterior,
                    v=noise.v,
                    v_rows=noise.mean,
                    v_new=noise.of_new_task,
                )
            noise_df = self._posterior.residual_df()
            df = containment_df(
                data, self._problem(data).random, self.fit_intercept, noise_df
            )
            self._posterior = replace(self._posterior, df=df, noise_df=noise_df)
        self._publish_variances()
        coef, intercept = self._original()
        if mixture is None:
            return self._result(noise, coef.T, intercept)
        # A separate noise per task adds the same to the criterion for every prior of
        # the coefficients.
        of_noise = noise.path[-1] - result.criterion
        fit = replace(
            mixture,
            path=[value + of_noise for value in mixture.path],
            n_evaluations=mixture.n_evaluations + noise.n_evaluations,
        )
        return self._result(fit, coef.T, intercept)

    def _normal(self, data: Compressed, fits: dict[Any, OwnNoise]) -> OwnNoise:
        """Return the model with a normal prior, from which those with other priors
        start.
        """
        problem = self._problem(data)
        plain = [
            getattr(problem, f.name)
            for f in fields(problem)
            if f.name not in ("data", "random")
        ]
        settings = (self.covariance, self.noise, problem.random.tobytes(), *plain)
        if settings not in fits:
            result = fit_covariance(problem, self.covariance)
            # Weighting the rows that tasks share would give each task a copy of them.
            shares_rows = any(len(block.R) < len(block.tasks) for block in data.blocks)
            match self.noise:
                case "task" if data.T > 1:
                    fits[settings] = own_noise(problem, result)
                case "auto" if data.T > 1 and not shares_rows:
                    fits[settings] = automatic_noise(problem, result)
                case _:
                    fits[settings] = OwnNoise.none(result)
        return fits[settings]

    def _original(self) -> tuple[Array, Array]:
        """Return coefficients and intercepts of the tasks in the units of the data."""
        original = self._posterior.W @ self._columns.back().T
        return original[:, 1:], original[:, 0] + self._columns.center

    def with_columns_of(self, factors: Array) -> Self:
        """Return this model, fitted to columns that had been multiplied by factors
        (n_features,), as one of these.
        """
        model = copy(self)
        columns = self._columns
        model._columns = replace(
            columns, mean=columns.mean / factors, scale=columns.scale / factors
        )
        model.coef_, model.intercept_ = model._original()
        model._publish_variances()
        return model

    def _problem(self, data: Compressed) -> HierarchicalProblem:
        few = data.rows < ROWS_PER_MEAN * data.p
        shrink = self.mean == "ridge" or (self.mean == "auto" and few)
        # Rows for tests have columns of common curves after those of the model.
        random = self._random(len(self._columns.scale) + int(self.fit_intercept))
        random = random[data.can_differ(self.fit_intercept)[random]]
        return HierarchicalProblem(
            data,
            random,
            self.fit_intercept,
            self.method,
            shrink,
            self.tol,
            self.max_iter,
        )

    def _df(self) -> Array:
        """Return the degrees of freedom of the mean coefficients, level first."""
        assert self._posterior.df is not None
        return self._posterior.df

    def _publish_variances(self) -> None:
        posterior = self._posterior
        noises = self._posterior.noises()
        self.noise_variances_ = noises[:-1]
        self.noise_variance_ = float(noises[-1])
        shares = variance_shares(posterior, self._columns.intercept)
        self._publish_common(
            self._columns,
            posterior.mu,
            posterior.mean_covariance,
            posterior.Sigma,
            shares,
        )
        self.mean_coef_df_ = self._df()[int(self._columns.intercept) :]

    @property
    def coef_std_(self) -> Array:
        return self._deviations()[:, 1:]

    @property
    def intercept_std_(self) -> Array:
        """Posterior standard deviations of `intercept_`, (n_tasks,)."""
        return self._deviations()[:, 0]

    def _deviations(self) -> Array:
        if not hasattr(self, "_posterior"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return self._posterior.predict_std(self._columns.back())

    def estimates(self) -> Estimates:
        """Return the coefficients fitted per task and pooled, for a plot of their
        shrinkage.
        """
        check_is_fitted(self, "_posterior")
        posterior = self._posterior
        columns = self._columns
        units = columns.units
        level = np.zeros(posterior.data.p)
        level[: int(columns.intercept)] = columns.center
        alone = np.array(
            [
                _alone(*posterior.data.task(t), posterior.mu, columns.intercept)
                for t in range(len(posterior.W))
            ]
        )
        std = posterior.predict_std(np.diag(units))
        errors = np.sqrt(np.maximum(np.diag(posterior.mean_covariance), 0.0)) * units
        names = self._names(np.arange(posterior.data.p))
        means = posterior.mu * units + level
        return Estimates(
            names,
            alone * units + level,
            posterior.W * units + level,
            std,
            means,
            errors,
            self._df(),
        )

    def summary(self) -> pd.DataFrame:
        """Return estimates, standard deviations, R2 and convergence in a frame.

        Lines and formulas are those of `mtlrun.estimators.summary`. Standard deviations
        have profile-likelihood intervals (`variance_interval`) if the prior is normal
        and the noise common: the level, and the eight slopes with the largest shares.

        Returns
        -------
        DataFrame
            Index (section, name); columns estimate, std_error, df, low, high, share.
        """
        check_is_fitted(self, "_posterior")
        data = self._posterior.data
        names = self._names(np.arange(data.p))
        limits = np.full((data.p, 2), np.nan)
        noise_limits = (np.nan, np.nan)
        tasks_limits = (np.nan, np.nan)
        noise_std = float(np.sqrt(self.noise_variance_))
        if self.prior == "normal" and not np.isfinite(self.noise_degrees_):
            first = int(self.fit_intercept)
            by_share = first + np.argsort(-self.heterogeneity_[first:], kind="stable")
            shown = [*range(first), *by_share[:MAX_INTERVALS].tolist()]
            for j in shown:
                if self.covariance_[j, j] == 0:
                    continue
                column = j - first
                interval = self.variance_interval("level" if column < 0 else column)
                limits[j] = np.sqrt([interval.low, interval.high])
            if np.any(np.diag(self.covariance_) > 0):
                tasks = self.variance_interval()
                tasks_limits = (tasks.share_low, tasks.share_high)
            df = self._posterior.residual_df()
            quantiles = chi2.ppf([0.5 + LEVEL / 2, 0.5 - LEVEL / 2], df)
            noise_limits = tuple(noise_std * np.sqrt(df / quantiles))
        table = SummaryTable(self)
        table.add_coefficients(names, self._df(), limits)
        shares = self.variance_shares_
        table.add_std("noise", noise_std, *noise_limits, shares["noise"])
        return table.finished(
            shares["mean"],
            shares["noise"],
            data.N,
            self.log_likelihood_,
            *tasks_limits,
        )

    def variance_interval(
        self, column: str | int | None = None, *, level: float = 0.95
    ) -> VarianceInterval:
        """Return a profile-likelihood interval of the differences between tasks.

        The other variances, the mean and the noise are fitted anew at each value.

        Parameters
        ----------
        column : "level", name or position of a column, optional
            Coefficient whose variance is meant; default: all differences together.
        level : float, default 0.95
            Probability of the interval.

        Returns
        -------
        VarianceInterval
            All zeros for a coefficient without a variance in the fitted structure.

        Raises
        ------
        ValueError
            For an unknown column, a level outside 0 to 1, or a prior that is not
            normal.
        """
        check_is_fitted(self, "_posterior")
        if self.prior != "normal":
            raise ValueError("variance_interval needs prior='normal'")
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, not {level}")
        first = int(self.fit_intercept)
        coefficient = None
        name = "tasks"
        if column is not None:
            coefficient = 0
            if not first or column != "level":
                coefficient = column_position(self, column, "column") + first
            name = self._names(np.array([coefficient]))[0]
        posterior = self._posterior
        weights = posterior.target_moments()
        if coefficient is not None:
            # The variance of the coefficient itself, in the units of the data.
            weights = np.zeros((posterior.data.p, posterior.data.p))
            weights[coefficient, coefficient] = self._columns.units[coefficient] ** 2
        with one_thread_if_small(posterior.data.p):
            problem = self._problem(posterior.data)
            result = refitted(problem, self.structure_)
            return variance_interval(
                result,
                posterior,
                name,
                weights=weights,
                coefficient=coefficient,
                intercept=self.fit_intercept,
                level=level,
            )

    # ---------------------------------------------------------------- prediction

    def predict(self, X: Any, *, task_id: Any = None, return_std: bool = False) -> Any:
        """Predict targets, and on request how far new targets may lie from that.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, as in `fit`
        task_id : array-like of shape (n_samples,), optional
            Required after a fit with task ids; after a fit on a 2-D `y` it picks one
            column per row.
        return_std : bool, default False
            Also return the standard deviation of a new target, noise included. For a
            task without training rows (``unseen="mean"``) it includes the variance
            between tasks, and is widened by Student's quantiles, because few tasks say
            little about that variance: the prediction plus or minus 1.96 standard
            deviations is a 95% interval. With two or three tasks this interval is four
            and almost two times as wide as with known variances.

        Returns
        -------
        y : ndarray of shape (n_samples, n_tasks) for a shared design without task ids, else (n_samples,)
        std : ndarray of the same shape
            Only with `return_std`.

        Raises
        ------
        ValueError
            If task ids are missing, or unknown while ``unseen="error"``.
        """
        y = super().predict(X, task_id=task_id)
        if not return_std:
            return y
        std = by_task(
            self, X, task_id, y, lambda A, _, t: self._posterior.target_std(A, t)
        )
        return y, std

    # ---------------------------------------------------------------- tests

    def test(
        self,
        tested: str | int | Sequence[str | int] = "all",
        *,
        method: Literal["auto", "score", "f", "lrt", "bootstrap"] = "auto",
        each: bool = False,
        draws: int | None = None,
        random_state: int = 0,
    ) -> Any:
        """Test whether tasks differ at all, beyond their level, or in the slopes of
        some columns.

        The tests assume independent normal rows, equal noise in all tasks and linear
        effects. These are checked (`mtlrun.solvers.hierarchical.row_checks`). Where
        they fail, the rows are corrected for their lag-one correlation along the table
        or a column, curves that the tasks share are added, and score tests keep the
        residual squares of each task. `HeterogeneityTest.assumes` says what is assumed
        then. A model that was saved, or fitted to sums, has no rows: only its noise is
        checked.

        Parameters
        ----------
        tested : {"all", "slopes"}, column, list of columns or mask, default "all"
            Level and slopes together; slopes, while levels may differ; or columns by
            name or position, while level and other slopes may differ.
        method : {"auto", "score", "f", "lrt", "bootstrap"}, default "auto"
            Monte Carlo score test, exact if the assumptions hold; F test, which needs
            tasks with more rows than columns; restricted likelihood ratio of one
            variance, against half a chi-square; or that, or one of several variances,
            against simulated tables. "auto" is the score test of "all" and "slopes",
            and of single columns where noise differs between tasks, else "lrt".
        each : bool, default False
            Test each slope of `tested` separately, with p-values adjusted by Holm for
            all slopes that may differ.
        draws : int, optional
            Of the score test (default 999) and the bootstrap (199).
        random_state : int, default 0

        Returns
        -------
        HeterogeneityTest, or a list of them for ``each=True``

        Raises
        ------
        ValueError
            For an unknown column, or "lrt" of several variances.
        """
        check_is_fitted(self, "_posterior")
        first = int(self.fit_intercept)
        with one_thread_if_small(self._posterior.data.p):
            data = self._posterior.data
            if self._rows is None:
                rows = CheckedRows.of(self._problem(data), None)
            else:
                if self._checks is None:
                    # Rows are corrected where the assumptions of the tests fail.
                    random = self._problem(data).random
                    checks = check_rows(self._rows, self._columns, random)
                    data = corrected(self._rows, self._columns, checks, data)
                    self._checks = CheckedRows.of(self._problem(data), checks)
                rows = self._checks
        problem = rows.problem
        plain = isinstance(tested, str) and tested in ("all", "slopes")
        if method == "auto":
            how = "lrt"
            if (plain and not each) or rows.noise_differs:
                how = "score"
        else:
            how = method
        assumes = rows.assumes(how, self._names)
        slopes = problem.random[problem.random >= first]
        if plain:
            if tested == "all" and not each:
                columns = problem.random
            else:
                columns = slopes
        else:
            columns = self._tested_columns(tested)
        with one_thread_if_small(problem.data.p):
            if each:
                outcomes = rows.test_each(columns, how, draws, random_state)
                names = self._names(columns)
                return adjusted(outcomes, names, how, len(slopes), assumes)
            if plain and tested == "slopes":
                untested = np.arange(first)
            else:
                untested = np.setdiff1d(problem.random, columns)
            name = tested
            if not plain:
                name = ", ".join(self._names(columns))
            outcome = rows.test(columns, untested, how, draws, random_state)
        untestable = ""
        if plain and tested == "all":
            untestable = rows.untestable(self._names)
        return HeterogeneityTest(str(name), how, *outcome, assumes, untestable)


def _alone(R: Array, z: Array, mu: Array, intercept: bool) -> Array:
    """Return least squares of one task, NaN for coefficients that its rows do not
    identify.
    """
    coef = np.full(len(mu), np.nan)
    inside = R
    if intercept:
        level = R[:, :1] / np.linalg.norm(R[:, 0])
        inside = R - level @ (level.T @ R)
    varies = np.linalg.norm(inside, axis=0) > _WITHIN * np.maximum(
        np.linalg.norm(R, axis=0), 1e-300
    )
    varies[: int(intercept)] = True
    solution, _, rank, _ = np.linalg.lstsq(
        R[:, varies], z - R[:, ~varies] @ mu[~varies], rcond=_WITHIN
    )
    if rank < varies.sum():
        # Columns of the same category sum to one. A coefficient is identified if its
        # unit vector lies in the row space.
        _, _, Vt = np.linalg.svd(R[:, varies], full_matrices=False)
        is_identified = np.sum(Vt[:rank] ** 2, axis=0) > 1 - _WITHIN
        solution[~is_identified] = np.nan
    coef[varies] = solution
    return coef
