"""Hierarchical (mixed effects, partial pooling) classification: logistic models
around a common mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mtlrun.estimators.base import BaseMTL, ClassifierMTL
from mtlrun.estimators.counted_weights import warn_of_constants, with_counted_weights
from mtlrun.estimators.heterogeneity import (
    HeterogeneityTest,
    adjusted,
    assumptions_of_labels,
)
from mtlrun.estimators.hierarchical import (
    COLUMNS,
    CommonMean,
    CovarianceName,
    Estimates,
    by_task,
)
from mtlrun.estimators.metadata import MethodMetadata
from mtlrun.estimators.params import (
    Count,
    NonNegative,
    Positive,
    TaskColumn,
    Unseen,
    choice,
)
from mtlrun.estimators.summary import SummaryTable
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import Array, TaskData, dense
from mtlrun.solvers.hierarchical.compress import Columns, standardized
from mtlrun.solvers.hierarchical.inference import (
    SignificanceTest,
    test_of_tasks,
    tests_of_columns,
)
from mtlrun.solvers.hierarchical.logistic import (
    Laplace,
    LaplaceFit,
    LogisticProblem,
    Prices,
    rows_of,
)
from mtlrun.solvers.hierarchical.posterior import shares
from mtlrun.solvers.hierarchical.quadrature import Quadrature, fit_labels
from mtlrun.solvers.hierarchical.row_checks import check_rows
from mtlrun.utils.processes import one_thread_if_small

#: Variance of the standard logistic distribution, the noise of a score whose sign is
#: the label.
LOGISTIC_VARIANCE = np.pi**2 / 3
#: Means and standard deviations of standardized coefficients beyond this have no end
#: when there is no prior.
BOUND = 30.0
#: Price of squares in tests of variances, at most.
TEST_RIDGE = 0.01


class HierarchicalMTLClassifier(CommonMean, ClassifierMTL, BaseMTL):
    """Hierarchical logistic regression: mixed effects with partial pooling of
    intercepts and slopes.

    The coefficients of a task, intercept included, are a draw around a mean that all
    tasks share. Mean and variances minimize, with the differences of the tasks
    integrated out::

        -2 log p(y | mu, Sigma) + ridge R(mu, Sigma),
            where log-odds of y_t = X_t w_t, w_t ~ N(mu, Sigma)
        R = mu_0^2 / 50 + Sigma_00 / 5 + sum_j (mu_j^2 + Sigma_jj)

    with 0 the level of a task at the mean of all columns, and j the slopes of
    standardized columns. R stands for weak priors: the mean of a slope is normal with
    standard deviation 1 / sqrt(ridge), the standard deviation of a slope between tasks
    is half-normal with this scale, and both are wider for the level, by factors of 7
    and 2.2. They keep coefficients finite where rows separate the classes,
    and where the labels of many tasks are of one class.

    The integral is Laplace's approximation where that suffices, as in ``glmer`` of lme4
    by default (``ridge=0`` is its criterion). With few rows per task, or many tasks of
    one class, Laplace's criterion can have several minima, with standard deviations
    that are too small or far too large. So a level, or a level and one slope, is then
    integrated by adaptive Gauss-Hermite quadrature, with 51 nodes or 13 by 13 per task
    (as ``glmer`` with ``nAGQ``, which integrates levels only). It is used where a step
    from the optimum by Laplace's approximation would lower the criterion by quadrature
    by more than 0.02, or where that is lower at another standard deviation, and it
    starts from several standard deviations. The price of Sigma_00 is then 1 / 20. With
    more slopes Laplace's approximation remains. "auto" then chooses between the level,
    the level with one slope, and these.

    `coef_` is the mode of the posterior, or its mean if the coefficients are integrated
    by quadrature. `decision_function` and `predict_proba` average over the posterior,
    for known and new tasks, by the same quadrature. A variance of zero is a valid estimate, not an error:
    the rows give no sign that tasks differ there. Slopes of columns that vary within
    fewer than three tasks have no variance.

    In lme4 this is ``glmer(y ~ x + (x || task), family = binomial)`` with a diagonal
    covariance. It is meant for ragged tasks.

    A row of weight k in `sample_weight` counts as k rows, also in the variances.
    Weights that do not count rows should have mean 1; a mean outside 0.1 to 10 causes a
    `WeightScaleWarning`.

    Parameters
    ----------
    covariance : {"auto", "intercept", "scalar", "diagonal", "factor", "full"}, default "auto"
        Form of Sigma on standardized columns: a variance of the intercepts alone; also
        one variance for all slopes; a variance per column; also a few directions; or
        any. "auto" grows it, each form from the one before, with information of at
        least ten labels per parameter. It takes the best by AIC of the forms that
        predict left-out rows clearly better than the first form, intercepts alone:
        their approximate leave-one-out log loss on the training rows is lower by a
        t-test on the tasks.
    slopes : "all", list of columns or boolean mask, default "all"
        Columns (names or positions, or a mask of the length n_features) whose
        coefficients may differ between tasks; coefficients of others are one number.
    ridge : float, default 1.0
        Strength of the priors, as above. 0 switches them off, for likelihoods that can
        be compared with glmer's; where classes are separated there is then no
        finite optimum, and a ConvergenceWarning names the columns.
    fit_intercept : bool, default True
        Whether there are intercepts. Without, columns are not centered.
    tol : float, default 1e-6
        The solver stops when another step is predicted to lower minus twice the
        log-likelihood by less than this.
    max_iter : int, default 200
        Iterations of L-BFGS, in every run.

    Attributes
    ----------
    mean_coef_ : ndarray of shape (n_features,)
        Mean of the coefficients, which is also the model of a task never seen.
    mean_intercept_ : float
    mean_coef_std_ : ndarray of shape (n_features,)
        Standard errors of `mean_coef_`, given the variances.
    coef_std_ : ndarray of shape (n_tasks, n_features)
        Posterior standard deviations of `coef_`, given the variances.
    intercept_std_ : ndarray of shape (n_tasks,)
    covariance_ : ndarray of shape (1 + n_features, 1 + n_features)
        Sigma in the units of the columns: the level of a task at the mean of all
        columns first, then its slopes. Without intercepts (n_features, n_features).
    variance_shares_ : dict
        Shares of the variance of the score behind the labels, log-odds and logistic
        noise of variance pi^2/3: of the ``mean`` model, the differences of ``tasks``,
        and ``noise``.
    heterogeneity_ : ndarray of shape (1 + n_features,)
        Contributions of the differences in level and in each slope to
        ``variance_shares_["tasks"]``.
    log_likelihood_ : float
        By Laplace's approximation or quadrature, without the priors.
    integration_ : {"laplace", "quadrature"}
        How the differences of tasks are integrated out.
    structure_ : str
        The covariance that was fitted; ``diagonal+2`` is a diagonal plus two
        directions, ``none`` is a single task.
    single_class_ : ndarray of bool, shape (n_tasks,)
        Tasks whose labels were all of one class. They are fitted like the others: the
        mean keeps them finite.
    objective_ : list of float
        Minus twice the log-likelihood, with the prices of the priors, along the
        iterations of the covariance chosen; it never rises.
    gap_ : float
        By how much a further step would lower the last value, gradient and distance to
        the boundary of zero variances in one number. Equal to `stop_crit_`.

    References
    ----------
    N. E. Breslow and D. G. Clayton, "Approximate inference in generalized linear mixed
    models", Journal of the American Statistical Association, 1993. D. M. Bates and
    coauthors, "Fitting linear mixed-effects models using lme4", Journal of Statistical
    Software, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import HierarchicalMTLClassifier
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(np.arange(30), 20)
    >>> X = rng.normal(size=(600, 2))
    >>> score = 2 * rng.normal(size=30)[task] + X @ [1.0, -1.0]
    >>> y = np.where(score + rng.logistic(size=600) > 0, "yes", "no")
    >>> model = HierarchicalMTLClassifier(unseen="mean").fit(X, y, task_id=task)
    >>> model.structure_, round(model.variance_shares_["tasks"], 1)
    ('intercept', 0.4)
    >>> model.predict([[3.0, 0.0]], task_id=[99]).tolist()
    ['yes']
    """

    metadata = MethodMetadata(
        cite=("breslow1993", "bates2015"),
        complexity=(
            "N d^2 per Newton step of the tasks, 2 to 5 of them per evaluation of 20 "
            "to 100"
        ),
        default_grid={"covariance": ("auto", "intercept", "scalar", "diagonal")},
        search=lambda scale: {},
        losses=("logistic",),
        changes=(
            "A variance of zero up to rounding is no parameter when structures are "
            "compared.",
            "Weak priors on means and standard deviations; probabilities are averaged "
            "over the posterior; a covariance has to predict left-out rows better than "
            "intercepts alone.",
            "Levels, or levels and one slope, are integrated by adaptive quadrature "
            "where Laplace's approximation is wrong.",
        ),
    )

    _is_logistic = True

    def __init__(
        self,
        covariance: CovarianceName = "auto",
        slopes: Annotated[Any, choice("all") | COLUMNS] = "all",
        ridge: NonNegative = 1.0,
        fit_intercept: bool = True,
        tol: Positive = 1e-6,
        max_iter: Count = 200,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
    ) -> None:
        self.covariance = covariance
        self.slopes = slopes
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen

    def _bytes(self, data: TaskData) -> float:
        p = data.n_features + 1
        # Tasks of different sizes are padded, and the random columns stored once more.
        rows = float(data.n_rows)
        if not data.uniform:
            rows = 4 * float(data.sizes.sum())
        return 8.0 * (
            rows * p + (1 << 23) + 12 * data.targets.size + 8 * data.n_tasks * p * p
        )

    def _fit_data(self, data: TaskData) -> SolverResult:
        data = with_counted_weights(data)
        columns = standardized(data, self.fit_intercept)
        warn_of_constants(data, columns)
        with one_thread_if_small(data.n_features):
            problem = self._problem(data, columns, self.ridge)
            model = fit_labels(problem, self.covariance)
            if self.ridge == 0:
                self._warn_of_separation(model)
        self.single_class_ = problem.m.single_class()
        self._n_rows = float(data.full_weights().sum())
        self._publish_fit(model, columns)
        original = model.m.coefficients(model.fit.value) @ columns.back().T
        return self._result(model.fit, original[:, 1:].T, original[:, 0])

    def _problem(
        self, data: TaskData, columns: Columns, ridge: float
    ) -> LogisticProblem:
        p = data.n_features + int(self.fit_intercept)
        random = self._random(p)
        prices = Prices.weak(ridge, p, self.fit_intercept)
        m = Laplace(rows_of(data, columns), data.n_tasks, random, prices)
        can_differ = m.can_differ(self.fit_intercept)[random]
        m = m.with_random(random[can_differ])
        return LogisticProblem(m, self.fit_intercept, self.tol, self.max_iter)

    def _warn_of_separation(self, model: LaplaceFit) -> None:
        """Warn of means and standard deviations without a finite optimum."""
        m = model.m
        value = model.fit.value
        endless = m.separating_columns(self.fit_intercept)
        if endless:
            names = ", ".join(self._names(np.array(endless)))
            warnings.warn(
                f"ridge=0, and the classes are separated by: {names}. The coefficients "
                "have no finite optimum; those of the model are where the search "
                "stopped. Use ridge > 0 (default 1.0), or leave these columns out.",
                ConvergenceWarning,
                stacklevel=4,
            )
        std = np.sqrt(np.diag(m.covariance(value.Theta)))
        unbounded = np.flatnonzero((std > BOUND) | (np.abs(value.mu) > BOUND))
        if unbounded.size and not endless:
            names = ", ".join(self._names(unbounded))
            warnings.warn(
                f"ridge=0, and within tasks the classes are separated by: {names}. "
                "Mean or standard deviation of the coefficients have no finite "
                "optimum. Use ridge > 0 (default 1.0), or leave these columns out.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _publish_fit(self, model: LaplaceFit, columns: Columns) -> None:
        """Set the variances, the mean, and standard deviations, in the units of the
        data.
        """
        m = model.m
        value = model.fit.value
        L = columns.back()
        units = columns.units
        self.structure_ = model.name
        self.integration_ = "laplace"
        if isinstance(m, Quadrature):
            self.integration_ = "quadrature"
        self.log_likelihood_ = -0.5 * value.likelihood
        self._columns = columns
        self._posterior = m.posterior(value)
        spread = np.linalg.pinv(value.information, hermitian=True)
        Sigma = m.covariance(value.Theta)
        variance_shares = shares(
            m.moments(), value.mu, Sigma, LOGISTIC_VARIANCE, columns.intercept
        )
        self._publish_common(columns, value.mu, spread, Sigma, variance_shares)
        # Both in one call: intercepts and coefficients, and the columns by themselves.
        rows = np.vstack([L, np.diag(units)])
        std = m.predict_std(value, rows)
        n_coefficients = len(L)
        # Rounding may make a variance of zero negative.
        variance_of_mean = np.maximum(np.diag(spread), 0.0)
        self.intercept_std_ = std[:, 0]
        self.coef_std_ = std[:, 1:n_coefficients]
        self._estimates = Estimates(
            names=self._names(np.arange(len(units))),
            alone=m.alone(value) * units,
            pooled=m.coefficients(value) * units,
            std=std[:, n_coefficients:],
            mean=value.mu * units,
            mean_std=np.sqrt(variance_of_mean) * units,
        )

    def decision_function(self, X: Any, *, task_id: Any = None) -> Array:
        """Return the log-odds of probabilities averaged over the posterior.

        With log-odds ``X w_t`` of mean m and variance v they are
        ``m / sqrt(1 + pi v / 8)``, an approximation, after a fit by Laplace's
        approximation. After a fit by quadrature they are averages over its nodes. The variance has the uncertainty
        of the coefficients of a task and of their mean in it; for a task without
        training rows (``unseen="mean"``) also the covariance between tasks. Positive
        ones mean the second label, and `predict_proba` turns them into probabilities.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, as in `fit`
        task_id : array-like of shape (n_samples,), optional
            As in `predict`.

        Returns
        -------
        ndarray
            (n_samples, n_tasks) for a shared design without task ids, else
            (n_samples,).
        """
        odds = self._scores(X, task_id)
        return by_task(self, X, task_id, odds, self._posterior.averaged_odds)

    def test(
        self,
        X: Any,
        y: Any,
        tested: str | int | Sequence[str | int] = "all",
        *,
        task_id: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """Test whether tasks differ at all, beyond their level, or in the slopes of
        some columns.

        Likelihood ratios, against the mixtures of chi-squares of variances that may be
        zero. Up to two random columns are integrated by quadrature where Laplace's
        approximation is wrong. With more of them and few rows per task the tests reject
        rather too rarely. A model keeps no rows, so they are given again; it need not
        be fitted. The priors are weaker here, ``ridge`` being 0.01 at most, as
        they would cost power. A column that varies within fewer than three tasks has no
        p-value (NaN).

        The tests assume independent rows and log-odds that are linear in the columns.
        Linear regressions of the labels check this
        (`mtlrun.solvers.hierarchical.row_checks`). Curves that the tasks share are
        added where they matter. Where rows of a task are correlated with the next one,
        there is no p-value, and `HeterogeneityTest.untestable` says so.

        Parameters
        ----------
        X, y, task_id, sample_weight : as in `fit`
        tested : {"all", "slopes"}, column, list of columns or mask, default "all"
            Level and slopes together; slopes, while levels may differ; or the slopes of
            columns by name or position, one by one, while level and other slopes may
            differ.

        Returns
        -------
        HeterogeneityTest, or a list of them for a list of columns
            Their p-values are adjusted by Holm for all slopes that may differ.

        Raises
        ------
        ValueError
            For an unknown column, one whose slopes may not differ, or rows that `fit`
            would refuse.
        """
        model = clone(self)
        data = model._prepare(X, y, task_id=task_id, sample_weight=sample_weight)
        data = with_counted_weights(data)
        # A prior on the variances that are tested would cost power.
        ridge = min(self.ridge, TEST_RIDGE)
        with one_thread_if_small(data.n_features):
            columns = standardized(data, self.fit_intercept)
            problem = model._problem(data, columns, ridge)
            checks = None
            if data.offsets is not None and self.fit_intercept:
                random = problem.m.random
                checks = check_rows(data, columns, random)
                with_curves = replace(
                    data, X=np.column_stack([dense(data.X), checks.basis])
                )
                columns = standardized(with_curves, self.fit_intercept)
                problem = model._problem(with_curves, columns, ridge)
                problem = replace(problem, m=problem.m.with_random(random))
            assumes, untestable = assumptions_of_labels(checks, model._names)
            if isinstance(tested, str) and tested in ("all", "slopes"):
                outcome = SignificanceTest(np.nan, np.nan)
                if not untestable:
                    outcome = test_of_tasks(problem, tested)
                return HeterogeneityTest(tested, "lrt", *outcome, assumes, untestable)
            several = not isinstance(tested, str) and hasattr(tested, "__len__")
            tested_columns = model._tested_columns(tested)
            may_differ = model._random(data.n_features + int(self.fit_intercept))
            fixed = np.setdiff1d(tested_columns, may_differ)
            if len(fixed):
                listing = ", ".join(model._names(fixed))
                raise ValueError(
                    f"tested: slopes of {listing} may not differ; they are not among "
                    f"slopes={self.slopes}"
                )
            outcomes = [SignificanceTest(np.nan, np.nan)] * len(tested_columns)
            if not untestable:
                outcomes = tests_of_columns(problem, tested_columns)
        first = int(self.fit_intercept)
        family = int((problem.m.random >= first).sum())
        names = model._names(tested_columns)
        tests = adjusted(outcomes, names, "lrt", family, assumes, untestable)
        if several:
            return tests
        return tests[0]

    def estimates(self) -> Estimates:
        """Return the coefficients fitted per task and pooled, for a plot of their
        shrinkage.
        """
        check_is_fitted(self, "_estimates")
        return self._estimates

    def summary(self) -> pd.DataFrame:
        """Return estimates, standard deviations, R2 and convergence in a frame.

        Lines and formulas are those of `mtlrun.estimators.summary`, in log-odds.
        Standard deviations have no intervals: a model of labels keeps no rows.

        Returns
        -------
        DataFrame
            Index (section, name); columns estimate, std_error, df, low, high, share.
        """
        check_is_fitted(self, "_posterior")
        p = len(self.covariance_)
        shares_of_variance = self.variance_shares_
        table = SummaryTable(self)
        table.add_coefficients(
            self._names(np.arange(p)), np.full(p, np.inf), np.full((p, 2), np.nan)
        )
        noise_std = float(np.sqrt(LOGISTIC_VARIANCE))
        table.add_std("noise", noise_std, np.nan, np.nan, shares_of_variance["noise"])
        return table.finished(
            shares_of_variance["mean"],
            shares_of_variance["noise"],
            self._n_rows,
            self.log_likelihood_,
        )
