"""Smooth hierarchical models: curves with partial pooling, and nothing to tune."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mtlrun.errors import listed
from mtlrun.estimators.base import (
    ClassifierMTL,
    RegressorMTL,
    rows_by_code,
)
from mtlrun.estimators.hierarchical_labels import LOGISTIC_VARIANCE
from mtlrun.estimators.inputs import weighted_rows
from mtlrun.estimators.metadata import MethodMetadata
from mtlrun.estimators.params import Count, NonNegative, Positive, TaskColumn, Unseen
from mtlrun.estimators.smooth_base import (
    CommonParts,
    FlatRows,
    LevelColumns,
    PartTest,
    Seed,
    SmoothModel,
    TargetParts,
    TaskParts,
)
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import Array, TaskData
from mtlrun.solvers.hierarchical.label_posterior import (
    TaskNodes,
    averaged_odds,
    log_odds_of_mean,
    normal_averaged_odds,
)
from mtlrun.solvers.hierarchical.smooth import (
    fit_smooth,
    smooth_prior,
    standardized,
)
from mtlrun.solvers.hierarchical.smooth_blocks import (
    BlockList,
    SmoothData,
)
from mtlrun.solvers.hierarchical.smooth_fit import Criterion, VariancePrior
from mtlrun.solvers.hierarchical.smooth_labels import LabelMarginal, label_prior
from mtlrun.solvers.hierarchical.smooth_levels import LevelMarginal, fit_smooth_labels
from mtlrun.solvers.hierarchical.smooth_marginal import SmoothMarginal
from mtlrun.solvers.hierarchical.smooth_parts import (
    COMMON_PARTS,
    TASK_PARTS,
    SmoothDesign,
    SmoothRows,
    content_keys,
)
from mtlrun.solvers.hierarchical.smooth_targets import (
    FOREST,
    RIDGE,
    TARGET_PARTS,
    TARGETS,
    SeparateFits,
    SmoothTargets,
    TargetData,
    fit_targets,
)
from mtlrun.utils.processes import limited_threads

#: Why numbers of the second version differ from the first.
TARGETS_CHANGE = (
    "Targets on the same rows are each fitted alone, and mixed with their principal "
    "components and a forest."
)
#: Reason for new numbers where targets share their rows.
RIDGE_CHANGE = (
    "Targets on the same rows are also mixed with a ridge regression, and trees of the "
    "forest have leaves of one row."
)
#: Reason for new numbers of `SmoothMTL`.
MIXTURE_CHANGE = (
    f"{RIDGE_CHANGE} The errors of all targets together choose half of the mixture."
)
#: Reason for new numbers of models of labels.
LEVELS_CHANGE = (
    "Levels of tasks are integrated by adaptive quadrature where Laplace's approximation "
    "is wrong."
)
#: Reason for new numbers of all models of numbers.
DEVIATIONS_CHANGE = (
    "Standard deviations of new targets allow for weights that are estimated and for "
    "variances that were estimated as zero."
)

#: Reason for new numbers where targets share their rows.
FOREST_CHANGE = "The trees of a forest share one generator of random numbers."


class _SmoothRegressor(RegressorMTL, SmoothModel):
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

    # What predictions of targets on the same rows are mixed. Without any, such targets
    # are tasks like others.
    target_parts = TARGET_PARTS
    # Whether targets on the same rows share a forest and the choice of mixtures.
    _is_joint = True

    def _fit_data(self, data: TaskData) -> SolverResult:
        if data.shared and data.n_tasks > 1 and len(self.target_parts):
            return self._fit_targets(data)
        # The model of targets on the same rows: these tasks have their own rows.
        self._targets: SmoothTargets | None = None
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
        self.noise_variance_: Any = self._posterior.s2 * self._unit**2
        # Leave-one-out predictions in the shape of y, NaN without a weight.
        values = self._center + self._unit * fit.leave_one_out
        loo: Array = np.full(data.targets.shape, np.nan)
        if data.shared:
            loo[flat.row, flat.code] = values
        else:
            loo[flat.row] = values
            loo = data.unsort(loo)
        if self._layout != "shared" and loo.ndim == 2:
            loo = loo[:, 0]
        self.loo_ = loo
        return self._result(fit)

    @property
    def _design(self) -> SmoothDesign:
        if self._targets is not None:
            return self._targets.design
        return super()._design

    def _noise_variance(self) -> Any:
        return self.noise_variance_

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

    # ---------------------------------------------------------------- targets

    def _fit_targets(self, data: TaskData) -> SolverResult:
        """Fit targets on the same rows, each alone and by their components."""
        weights = data.full_weights()
        total = weights.sum(axis=1)
        used = np.flatnonzero(total > 0)
        rows = self._read_training(data, total)
        # Parts that tasks share elsewhere are separate for each target here.
        common_parts = tuple(self.common_parts) or COMMON_PARTS
        options = self._options()
        key = ("separate targets", common_parts, self.n_centers, options)
        separate: SeparateFits | None = data.decompositions.get(key)
        if separate is None:
            targets = np.where(weights > 0, data.targets, np.nan)
            design = self._make_design(
                rows,
                total,
                common_parts=common_parts,
                task_parts=(),
                factors=self._factors(rows, None),
            )
            training = TargetData(design, rows.take(used), targets[used], weights[used])
            separate = SeparateFits(training, options)
            if data.shares_decompositions:
                data.decompositions[key] = separate
        self._training_targets = separate.data
        with limited_threads(1, "blas"):
            fit = fit_targets(separate, self.target_parts, is_joint=self._is_joint)
        self._targets = fit.model
        self.noise_variance_ = fit.model.targets.noise * fit.model.calibration
        self.loo_ = np.full(data.targets.shape, np.nan)
        self.loo_[used] = fit.leave_one_out
        self.mixture_ = dict(zip(fit.model.names, fit.model.mixture, strict=True))
        # Set the variances of the parts, an array over the targets for each.
        alone = fit.model.targets
        values = alone.theta * alone.noise[:, None]
        self.variances_ = dict(zip(fit.model.design.names, values.T, strict=True))
        expected = alone.part_variances(self._training_targets.features())
        expected = np.column_stack([expected, alone.noise])
        shares = expected / np.maximum(expected.sum(axis=1, keepdims=True), 1e-300)
        names = [*fit.model.design.names, "noise"]
        self.variance_shares_ = dict(zip(names, shares.T, strict=True))
        fits = fit.fits
        start = sum(outputs.start for outputs in fits)
        objective = sum(outputs.objective for outputs in fits)
        largest_gap = max(outputs.gap for outputs in fits)
        converged = all(outputs.converged for outputs in fits)
        return SolverResult(
            parts=np.zeros((1, 0, 0)),
            intercept=np.zeros(0),
            converged=converged,
            n_iter=sum(outputs.n_evaluations for outputs in fits),
            objective=[start, objective],
            gap=largest_gap,
            stop_crit=largest_gap,
        )

    def part_tests(self) -> list[PartTest]:
        check_is_fitted(self)
        model = self._targets
        if model is None:
            return super().part_tests()
        tests = []
        with limited_threads(1, "blas"):
            for j, task in enumerate(self.tasks_.tolist()):
                data = self._training_targets.output(j)[0]
                shares = {
                    part: float(share[j])
                    for part, share in self.variance_shares_.items()
                }
                tests += self._tests_of(data, model.targets.theta[j], shares, task)
        return tests

    part_tests.__doc__ = SmoothModel.part_tests.__doc__

    def _training_rows(self) -> tuple[Array, Array]:
        if self._targets is None:
            return super()._training_rows()
        z = self._training_targets.rows.z
        return z, content_keys(z, None, int(self.random_state))

    def _averages(
        self, rows: SmoothRows, task: int, n_averaged: int
    ) -> tuple[Array, Array]:
        model = self._targets
        if model is None:
            return super()._averages(rows, task, n_averaged)
        if task < 0:
            raise ValueError(
                "task is None, but targets on the same rows share no function; "
                "name one of the targets: "
                f"{listed([str(name) for name in self.tasks_])}"
            )
        mean = model.mean(rows)[:, task].reshape(-1, n_averaged).mean(axis=1)
        variance = model.variance(rows, has_noise=False, n_averaged=n_averaged)
        return mean, np.sqrt(variance[:, task])

    def _scores_of_tasks(self, X: Any) -> Array:
        if self._targets is None:
            return super()._scores_of_tasks(X)
        return self._targets.mean(self._rows(X))

    def _scores_of_rows(self, X: Any, codes: Array) -> Array:
        rows = self._rows(X)
        if self._targets is not None:
            return self._pick(self._targets.mean(rows), codes)
        # One product for the rows of all tasks is faster than one per task.
        mean = self._posterior.common_mean(rows)
        for index in rows_by_code(codes):
            task = int(codes[index[0]])
            mean[index] += self._posterior.own_mean(rows.take(index), task)
        return np.asarray(self._center + self._unit * mean)

    @staticmethod
    def _pick(values: Array, codes: Array) -> Array:
        """Return one column per row; code -1 is the mean of all targets."""
        picked = values[np.arange(len(codes)), codes]
        return np.where(codes < 0, values.mean(axis=1), picked)

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
            included. For a task without training rows (``unseen="mean"``) it has the
            variance between tasks in it. New targets have a t distribution: the
            standard deviation is larger where few tasks or rows determine the
            variances.

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
        if self._targets is not None:
            mean = self._targets.mean(rows)
            variance = self._targets.variance(rows)
            if codes is None:
                return mean, np.sqrt(variance)
            picked = self._pick(variance, codes)
            # An unknown target is one of the others, as far as anybody knows.
            is_unknown = codes < 0
            picked[is_unknown] += mean[is_unknown].var(axis=1)
            return self._pick(mean, codes), np.sqrt(picked)
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
        mean, variance = self._posterior.target_variance(rows, task)
        return self._center + self._unit * mean, self._unit * np.sqrt(variance)


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

    Several targets on the same rows (2-D `y`) are mixed from up to four predictions,
    `target_parts`, with weights per target that minimize leave-one-out and out-of-bag
    errors of the target plus the mean over all targets. `task_parts` is not used.
    `predict` then has standard deviations that are scaled by the leave-one-out errors.

    Parameters
    ----------
    common_parts : tuple of str, default ("linear", "additive", "wide", "narrow")
        Parts that all tasks share: a linear function; one curve per column (at most 40
        columns); functions of all columns together, that vary slowly or fast.
    task_parts : tuple of str, default ("level", "slopes", "smooth", "additive")
        Parts that every task has for itself: a level; slopes; a function of all columns
        together; one curve per column.
    target_parts : tuple of str, default ("targets", "components", "forest", "ridge")
        Predictions that are mixed where targets have the same rows: every target alone;
        principal components of the standardized targets, each fitted alone; one random
        forest for all targets; a ridge regression per target. Empty: targets are tasks
        like others.

    Attributes
    ----------
    mixture_ : dict of str to ndarray of shape (n_tasks,)
        Weights of the predictions of `target_parts` for every target; they sum to one.
        Only for targets on the same rows. `variances_`, `variance_shares_` and
        `noise_variance_` then hold an array with a value per target.

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

    metadata = MethodMetadata(
        cite=("rasmussen2006", "gilmour1995"),
        complexity=(
            "N m^2 + sum of n_t^3 per evaluation of 15 to 50, "
            "m = 10 d + 2 n_centers features at most"
        ),
        default_grid={"prior_rate": (0.5, 1.0, 2.0)},
        search=lambda scale: {},
        changes=(TARGETS_CHANGE, MIXTURE_CHANGE, DEVIATIONS_CHANGE, FOREST_CHANGE),
    )

    def __init__(
        self,
        common_parts: CommonParts = COMMON_PARTS,
        task_parts: TaskParts = TASK_PARTS,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        n_centers: Count = 150,
        prior_rate: NonNegative = 1.0,
        max_rows: Count = 4000,
        tol: Positive = 1e-6,
        max_iter: Count = 100,
        random_state: Seed = 0,
        levels: LevelColumns = (),
        target_parts: TargetParts = TARGET_PARTS,
    ) -> None:
        self.common_parts = common_parts
        self.task_parts = task_parts
        self.task_column = task_column
        self.unseen = unseen
        self.n_centers = n_centers
        self.prior_rate = prior_rate
        self.max_rows = max_rows
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.levels = levels
        self.target_parts = target_parts


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

    metadata = replace(
        SmoothMTL.metadata, multitask=False, changes=(DEVIATIONS_CHANGE,)
    )

    task_parts = ("level",)
    target_parts = ()

    def __init__(
        self,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        n_centers: Count = 150,
        prior_rate: NonNegative = 1.0,
        max_rows: Count = 4000,
        tol: Positive = 1e-6,
        max_iter: Count = 100,
        random_state: Seed = 0,
        levels: LevelColumns = (),
    ) -> None:
        self.task_column = task_column
        self.unseen = unseen
        self.n_centers = n_centers
        self.prior_rate = prior_rate
        self.max_rows = max_rows
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.levels = levels


class SmoothIndependent(_SmoothRegressor):
    """Smooth regression of each task by itself, with common variances.

    `SmoothMTL` without a common function, as a baseline: what curves gain without a
    common one::

        -2 log p(y | variances) + 2 prior_rate sum over curved parts of sd / sd(e),
            where y = mu + h_t(x) + e,  e ~ N(0, s2 / weight)

    Several targets on the same rows (2-D `y`) have variances of their own: every target
    is fitted alone, with the functions that all tasks share in `SmoothMTL`, and mixed
    with its random forest and its ridge regression.

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

    metadata = replace(
        SmoothMTL.metadata,
        multitask=False,
        changes=(TARGETS_CHANGE, RIDGE_CHANGE, DEVIATIONS_CHANGE, FOREST_CHANGE),
    )

    common_parts = ()
    target_parts = (TARGETS, FOREST, RIDGE)
    _is_joint = False

    def __init__(
        self,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        n_centers: Count = 150,
        prior_rate: NonNegative = 1.0,
        max_rows: Count = 4000,
        tol: Positive = 1e-6,
        max_iter: Count = 100,
        random_state: Seed = 0,
        levels: LevelColumns = (),
    ) -> None:
        self.task_column = task_column
        self.unseen = unseen
        self.n_centers = n_centers
        self.prior_rate = prior_rate
        self.max_rows = max_rows
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.levels = levels


class _SmoothClassifier(ClassifierMTL, SmoothModel):
    """Smooth models of labels.

    Attributes
    ----------
    integration_ : {"laplace", "quadrature"}
        How the levels of tasks are integrated out. Other parts are always integrated by
        Laplace's approximation.
    """

    #: Posteriors of the levels at nodes, where quadrature integrates them.
    _level_nodes: list[TaskNodes] | None = None
    _is_logistic = True
    _counts_rows = True

    def _fit_data(self, data: TaskData) -> SolverResult:
        flat = FlatRows.of(data)
        flat = replace(flat, target=(flat.target > 0).astype(float))
        rows = self._task_rows(data, flat)
        self._center = 0.0
        self._unit = 1.0
        with limited_threads(1, "blas"):
            fit = fit_smooth_labels(rows, self._options())
            self._training = rows
            self._level_nodes = fit.level_nodes
            self.integration_ = "laplace"
            if fit.level_nodes is not None:
                self.integration_ = "quadrature"
            self._publish_fit(fit, LOGISTIC_VARIANCE)
        return self._result(fit)

    def _noise_variance(self) -> float:
        return LOGISTIC_VARIANCE

    def _criterion(self, data: SmoothData) -> Criterion:
        if self._level_nodes is None:
            return LabelMarginal(data)
        return LevelMarginal(data, holds_nodes=False)

    def _prior(self, data: SmoothData) -> VariancePrior:
        return label_prior(data, self._options())

    def _task_scores(self, rows: SmoothRows, task: int) -> Array:
        """Return the log-odds of probabilities averaged over the posterior."""
        mean, variance = self._posterior.moments(rows, task)
        if self._level_nodes is None:
            return averaged_odds(mean, variance)
        for block in self._level_nodes:
            for position in np.flatnonzero(block.tasks == task):
                level = block.deviation[position, :, 0]
                share = block.share[position]
                others = np.maximum(variance - share @ np.square(level), 0.0)
                at_nodes = averaged_odds(mean[:, None] + level, others[:, None])
                return log_odds_of_mean(at_nodes, share)
        return normal_averaged_odds(mean, variance)


class SmoothMTLClassifier(_SmoothClassifier):
    """Smooth hierarchical classification: partially pooled levels, slopes and curves.

    The log-odds of task t are a common function and one of its own, both sums of
    Gaussian processes (parts) on standardized columns, as in `SmoothMTL`. Each part has
    one variance. The variances minimize minus twice the log marginal likelihood, and
    weak priors::

        -2 log p(y | variances) + 2 prior_rate sum over curved parts of sd
            + sum over parts of variance / prior variance,
            where log-odds of y_t = mu + f(x) + h_t(x),  mu ~ N(0, 100)

    The prior variance of the standard deviation of a part is 100, but 0.49 for the
    slopes of tasks. `predict_proba` averages the probabilities over the posterior;
    `decision_function` is their log-odds.

    The likelihood is Laplace's approximation. With few rows per task, or many tasks of
    one class, it finds levels of tasks that differ too little or far too much. Where a
    check says so, the level of each task is integrated by adaptive Gauss-Hermite
    quadrature with 51 nodes, and Laplace's approximation remains for the other parts,
    at the mode of the integrated likelihood. Probabilities are then averages over the
    nodes.

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

    metadata = MethodMetadata(
        cite=("rasmussen2006", "breslow1993"),
        complexity=(
            "N m^2 + sum of n_t^3 per Newton step of the mode, "
            "about 5 per evaluation of 15 to 50"
        ),
        default_grid={"prior_rate": (0.5, 1.0, 2.0)},
        search=lambda scale: {},
        losses=("logistic",),
        changes=(LEVELS_CHANGE,),
    )

    def __init__(
        self,
        common_parts: CommonParts = COMMON_PARTS,
        task_parts: TaskParts = TASK_PARTS,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        n_centers: Count = 150,
        prior_rate: NonNegative = 1.0,
        max_rows: Count = 4000,
        tol: Positive = 1e-6,
        max_iter: Count = 100,
        random_state: Seed = 0,
        levels: LevelColumns = (),
    ) -> None:
        self.common_parts = common_parts
        self.task_parts = task_parts
        self.task_column = task_column
        self.unseen = unseen
        self.n_centers = n_centers
        self.prior_rate = prior_rate
        self.max_rows = max_rows
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.levels = levels


class SmoothPooledClassifier(_SmoothClassifier):
    """Smooth classification with one function for all tasks, and a level per task.

    `SmoothMTLClassifier` with the level as the only part of a task, as a baseline::

        -2 log p(y | variances) + 2 prior_rate sum over curved parts of sd
            + sum over parts of variance / prior variance,
            where log-odds of y_t = mu + f(x) + b_t,  mu ~ N(0, 100)
    """

    metadata = replace(SmoothMTLClassifier.metadata, multitask=False)

    task_parts = ("level",)

    def __init__(
        self,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        n_centers: Count = 150,
        prior_rate: NonNegative = 1.0,
        max_rows: Count = 4000,
        tol: Positive = 1e-6,
        max_iter: Count = 100,
        random_state: Seed = 0,
        levels: LevelColumns = (),
    ) -> None:
        self.task_column = task_column
        self.unseen = unseen
        self.n_centers = n_centers
        self.prior_rate = prior_rate
        self.max_rows = max_rows
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.levels = levels


class SmoothIndependentClassifier(_SmoothClassifier):
    """Smooth classification of each task by itself, with common variances.

    `SmoothMTLClassifier` without a common function, as a baseline::

        -2 log p(y | variances) + 2 prior_rate sum over curved parts of sd
            + sum over parts of variance / prior variance,
            where log-odds of y_t = mu + h_t(x),  mu ~ N(0, 100)
    """

    metadata = replace(SmoothMTLClassifier.metadata, multitask=False)

    common_parts = ()

    def __init__(
        self,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        n_centers: Count = 150,
        prior_rate: NonNegative = 1.0,
        max_rows: Count = 4000,
        tol: Positive = 1e-6,
        max_iter: Count = 100,
        random_state: Seed = 0,
        levels: LevelColumns = (),
    ) -> None:
        self.task_column = task_column
        self.unseen = unseen
        self.n_centers = n_centers
        self.prior_rate = prior_rate
        self.max_rows = max_rows
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.levels = levels
