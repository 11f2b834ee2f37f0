"""Baselines without multi-task learning: ridge, lasso, logistic regression and SVM,
per task or pooled.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgWarning
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.svm import LinearSVC

from mtlrun.estimators.base import BaseMTL, ClassifierMTL, RegressorMTL, usual_bytes
from mtlrun.estimators.metadata import POWERS, STRENGTHS, MethodMetadata
from mtlrun.estimators.params import Count, NonNegative, Positive, TaskColumn, Unseen
from mtlrun.estimators.shared_products import has_shared_products, shared_products
from mtlrun.penalties.norms import L1, SquaredFrobenius
from mtlrun.problem.losses import (
    HingeLoss,
    LogisticLoss,
    Loss,
    SquaredLoss,
    is_graded,
)
from mtlrun.problem.objective import centre, duality_gap, is_far_from_zero
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import GRAM_COPIES, Gram, gram_bytes
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import Array, TaskData, quotient, stack_designs
from mtlrun.solvers.convex.cd import descend
from mtlrun.solvers.convex.ridge import ridge_bytes, solve_ridge

_WIDE = (0.001, 0.01, 0.1, 1.0, 10.0)
#: Beyond its ends a hinge loss without intercept hardly changes: it is the difference
#: of the means, or separates.
_MARGINS = (0.01, 0.1, 0.3, 1.0, 10.0)
_SPARSE = (0.001, 0.005, 0.02, 0.1, 0.3)


# Largest relative duality gap of a logistic regression that has converged.
_NEAR = 1e-3
# Products of columns keep enough digits of targets up to this mean square.
_HUGE = 1e8
# Up to this many columns, a Lasso is solved from products of columns.
_SMALL = 128
# Bytes of the objects that belong to the solution of one task.
_PER_TASK = 1000
# Products of the columns of all tasks are kept while they take no more bytes than this.
_PRODUCTS = 64 << 20


class TaskFit(NamedTuple):
    """Solution of one single-task problem."""

    coef: Array
    intercept: float
    n_iter: int
    converged: bool


class SolvedTasks(NamedTuple):
    """Solutions of some tasks: which (T,), coefficients (d, T), intercepts (T,),
    most iterations, success of all.
    """

    tasks: Array
    W: Array
    b: Array
    n_iter: int
    converged: bool


class _SingleTask(BaseMTL):
    """Common part of the two ways of using a single-task model.

    Attributes
    ----------
    objective_ : list of one float
        Sum of the objectives of all tasks.
    """

    @abstractmethod
    def _fit_one(self, X: Any, y: Array, weights: Array | None) -> TaskFit:
        """Solve one problem."""

    def _largest(self, data: TaskData) -> int:
        """Return the rows of the largest problem."""
        if data.shared:
            return data.n_rows
        return int(data.sizes.max())

    def _bytes(self, data: TaskData) -> float:
        entries = self._largest(data) * (
            2.0 * data.X.nnz / data.n_rows if data.sparse else data.n_features
        )
        # predictions of ragged tasks are made from products, entry by entry
        designs = 1
        if data.shared:
            designs = 0
        return (
            usual_bytes(data, coefficients=6, designs=designs)
            + 8.0 * 4 * entries
            + _PER_TASK * data.n_tasks
        )

    @abstractmethod
    def _terms(self) -> tuple[Loss, Penalty]:
        """Return loss and penalty of the objective."""

    def _result(
        self,
        data: TaskData,
        W: Array,
        b: Array,
        penalised: Array,
        n_iter: int,
        converged: bool,
    ) -> SolverResult:
        loss, penalty = self._terms()
        value = loss.value(
            TaskOperator(data).forward(W, b), data.targets, data.effective_weights()
        )
        return SolverResult(
            W[np.newaxis],
            b,
            converged,
            n_iter,
            objective=[value + penalty.value(penalised)],
        )


class _Independent(_SingleTask):
    """One model per task."""

    _by_sums = True

    def _bytes(self, data: TaskData) -> float:
        return super()._bytes(data) + (
            (GRAM_COPIES + 1) * gram_bytes(data) if has_products(data) else 0
        )

    def _fit_together(self, data: TaskData) -> SolvedTasks | None:
        """Solve the problems of tasks for which that can be done at once; None where
        there are none.
        """
        return None

    def _fit_data(self, data: TaskData) -> SolverResult:
        solved = self._fit_together(data)
        if solved is None:
            d = data.n_features
            T = data.n_tasks
            solved = SolvedTasks(
                np.zeros(T, dtype=bool), np.empty((d, T)), np.empty(T), 0, True
            )
        n_iter = solved.n_iter
        converged = solved.converged
        for t in np.flatnonzero(~solved.tasks):
            fit = self._fit_one(*data.task(int(t)))
            solved.W[:, t], solved.b[t] = fit.coef, fit.intercept
            n_iter = max(n_iter, fit.n_iter)
            converged = converged and fit.converged
        return self._result(data, solved.W, solved.b, solved.W, n_iter, converged)


class _Pooled(_SingleTask):
    """One model for the rows of all tasks; the penalty is counted once."""

    def _largest(self, data: TaskData) -> int:
        return data.n_rows

    def _fit_data(self, data: TaskData) -> SolverResult:
        fit = self._fit_one(*pool(data, labels=self._terms()[0].labels))
        W = np.repeat(fit.coef[:, np.newaxis], data.n_tasks, axis=1)
        b = np.full(data.n_tasks, fit.intercept)
        return self._result(
            data, W, b, fit.coef[:, np.newaxis], fit.n_iter, fit.converged
        )


class _Ridge(RegressorMTL, _SingleTask):
    """Squared loss, squared penalty, closed form.

    Parameters
    ----------
    alpha : float, default 1.0
        Regularization strength; 0 gives the least-squares solution of least norm.
    fit_intercept : bool, default True
        Whether to fit intercepts, which are not penalized.

    Notes
    -----
    A shared design without missing targets is factorized once for all tasks. Where the
    Gram matrix would take too much memory (more than about 9000 rows and features),
    conjugate gradients with the features alone take its place.

    References
    ----------
    A. E. Hoerl and R. W. Kennard, "Ridge regression: biased estimation for
    nonorthogonal problems", Technometrics, 1970.
    """

    metadata = MethodMetadata(
        cite=("hoerl1970",),
        elsewhere={"scikit-learn `Ridge(a)`": "alpha = a"},
        complexity=(
            "one Cholesky factorization of min(n, d) per task, one for all tasks of a "
            "shared design"
        ),
        default_grid={"alpha": STRENGTHS},
        search=lambda scale: {"alpha": scale.times(_WIDE)},
        multitask=False,
    )

    alpha: NonNegative = 1.0
    _: KW_ONLY
    fit_intercept: bool = True

    def _fit_one(self, X: Any, y: Array, weights: Array | None) -> TaskFit:
        data = TaskData(X, y[:, np.newaxis], np.zeros(1), weights=weights)
        result = solve_ridge(data, self.alpha, fit_intercept=self.fit_intercept)
        return TaskFit(result.W[:, 0], result.b[0], result.n_iter, result.converged)

    def _bytes(self, data: TaskData) -> float:
        rows = self._largest(data)
        tasks = data.n_tasks if data.shared else 1
        products = 6 * 8 * (rows + data.n_features) * tasks
        return (
            super()._bytes(data)
            + ridge_bytes(rows, data.n_features, data.sparse)
            + products
        )

    def _convergence_message(self, result: SolverResult) -> str:
        return (
            f"{type(self).__name__} did not converge after {result.n_iter} iterations "
            "of conjugate gradients. Scale the features, or take a larger alpha."
        )

    def _terms(self) -> tuple[Loss, Penalty]:
        return SquaredLoss(), SquaredFrobenius(self.alpha)


class IndependentRidge(_Ridge, _Independent):
    """Ridge regression, separate per task.

    Minimizes::

        sum_t (1/2 ||y_t - X_t w_t - b_t||^2 + alpha/2 ||w_t||^2)

    which is scikit-learn's Ridge with the same `alpha` for every task.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import IndependentRidge
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Y = np.column_stack([2 * X[:, 0], 1 - X[:, 0]])
    >>> model = IndependentRidge(alpha=0).fit(X, Y)
    >>> model.coef_.round(6).tolist(), model.intercept_.round(6).tolist()
    ([[2.0], [-1.0]], [0.0, 1.0])
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fit_intercept: bool = True,
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.fit_intercept = fit_intercept

    def _fit_together(self, data: TaskData) -> SolvedTasks | None:
        if data.uniform:
            result = solve_ridge(data, self.alpha, fit_intercept=self.fit_intercept)
            return SolvedTasks(
                np.ones(data.n_tasks, dtype=bool),
                result.W,
                result.b,
                result.n_iter,
                result.converged,
            )
        if self.alpha == 0 or not has_products(data):
            return None
        form = products(data, self.fit_intercept)
        d = data.n_features
        tasks = data.sizes >= d  # products of rows are smaller for the others
        W = np.zeros((d, data.n_tasks))
        cross = form.cross.T[tasks, :, np.newaxis]
        W[:, tasks] = np.linalg.solve(form.gram[tasks] + self.alpha * np.eye(d), cross)[
            :, :, 0
        ].T
        return SolvedTasks(tasks, W, form.intercept(W), 1, True)


class PooledRidge(_Ridge, _Pooled):
    """Ridge regression, one model for the rows of all tasks.

    Minimizes::

        sum_t 1/2 ||y_t - X_t w - b||^2 + alpha/2 ||w||^2

    All rows of `coef_` are equal.
    """

    metadata = replace(
        _Ridge.metadata, search=lambda scale: {"alpha": scale.times(_WIDE, 1.0)}
    )

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fit_intercept: bool = True,
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.fit_intercept = fit_intercept


class _Lasso(RegressorMTL):
    """Squared loss, l1 penalty, coordinate descent.

    Problems of up to 128 columns are solved from the products of their columns, others
    by scikit-learn, which is given these products where all tasks share their rows.

    Parameters
    ----------
    alpha : float, default 1.0
        Regularization strength; scikit-learn's Lasso has ``alpha / n_samples`` instead.
    fit_intercept : bool, default True
        Whether to fit intercepts, which are not penalized.
    tol : float, default 1e-6
        Duality gap relative to ||y||^2, as scikit-learn has it.
    max_iter : int, default 10000
        Largest number of epochs of coordinate descent per task.

    Attributes
    ----------
    n_iter_ : int
        The largest of all tasks.

    References
    ----------
    R. Tibshirani, "Regression shrinkage and selection via the lasso", Journal of the
    Royal Statistical Society B, 1996.
    """

    metadata = MethodMetadata(
        cite=("tibshirani1996",),
        elsewhere={"scikit-learn `Lasso(a)`": "alpha = n a"},
        complexity="O(N d) per epoch",
        default_grid={"alpha": STRENGTHS},
        multitask=False,
    )

    alpha: NonNegative = 1.0
    _: KW_ONLY
    fit_intercept: bool = True
    tol: NonNegative = 1e-6
    max_iter: Count = 10000

    def _fit_one(self, X: Any, y: Array, weights: Array | None) -> TaskFit:
        if self.alpha > 0 and not issparse(X) and X.shape[1] <= _SMALL:
            data = TaskData(X, y[:, np.newaxis], np.zeros(1), weights=weights)
            solved = self._from_products(data)
            if solved.tasks[0]:
                return TaskFit(
                    solved.W[:, 0], solved.b[0], solved.n_iter, solved.converged
                )
        total = X.shape[0] if weights is None else weights.sum()
        model = Lasso(
            self.alpha / total,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        return fit_sklearn(model, X, y, weights)

    def _from_products(self, data: TaskData) -> SolvedTasks:
        """Solve the problems of small tasks from the products of their columns, where
        these keep enough digits.
        """
        form = products(data, self.fit_intercept)
        squares = np.einsum("...ii->...i", form.gram)
        total = data.sum_by_task(data.full_weights())
        tasks = ~is_graded(squares, squares) & (form.energy < _HUGE * total)
        energy = form.energy[tasks]
        descent = descend(
            form.gram if form.gram.ndim == 2 else form.gram[tasks],
            form.cross.T[tasks],
            energy,
            [self.alpha],
            absolute=self.tol * energy,
            max_epochs=self.max_iter,
            by_task=True,
        )
        W = np.zeros((data.n_features, data.n_tasks))
        W[:, tasks] = descent.coef[0].T
        n_iter = int(descent.epochs[0])
        return SolvedTasks(tasks, W, form.intercept(W), n_iter, n_iter < self.max_iter)

    def _terms(self) -> tuple[Loss, Penalty]:
        return SquaredLoss(), L1(self.alpha)


class IndependentLasso(_Lasso, _Independent):
    """Lasso, separate per task, by coordinate descent.

    Minimizes::

        sum_t (1/2 ||y_t - X_t w_t - b_t||^2 + alpha ||w_t||_1)

    which is the model of `SparseMTL` with another algorithm, since the l1,1 norm does
    not couple the tasks.
    """

    metadata = replace(
        _Lasso.metadata, search=lambda scale: {"alpha": scale.times(_SPARSE)}
    )

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fit_intercept: bool = True,
        tol: NonNegative = 1e-6,
        max_iter: Count = 10000,
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def _fit_together(self, data: TaskData) -> SolvedTasks | None:
        if self.alpha == 0:
            return None
        if has_shared_products(data):
            return self._from_shared_products(data)
        if has_products(data):
            return self._from_products(data)
        return None

    def _bytes(self, data: TaskData) -> float:
        n_bytes = super()._bytes(data)
        if has_shared_products(data):
            # scikit-learn copies the products.
            n_bytes += 2 * 8.0 * data.n_features**2
        return n_bytes

    def _from_shared_products(self, data: TaskData) -> SolvedTasks | None:
        """Solve the problems of tasks that share many columns by scikit-learn, from the
        products of the columns; None where these lose too many digits.
        """
        form = shared_products(data, self.fit_intercept)
        if form is None:
            return None
        W = np.zeros((data.n_features, data.n_tasks))
        b = np.zeros(data.n_tasks)
        n_iter = 0
        converged = True
        # Coefficients of the divided rows are larger by the unit.
        alpha = self.alpha / data.n_rows / form.unit
        for t in range(data.n_tasks):
            y = data.targets[:, t]
            y_mean = 0.0
            if self.fit_intercept:
                y_mean = y.mean()
            model = Lasso(
                alpha,
                fit_intercept=False,
                precompute=form.gram,
                tol=self.tol,
                max_iter=self.max_iter,
            )
            fit = fit_sklearn(model, form.rows, y - y_mean, None)
            W[:, t] = fit.coef / form.unit
            b[t] = y_mean - form.means @ W[:, t]
            n_iter = max(n_iter, fit.n_iter)
            converged = converged and fit.converged
        is_solved = np.ones(data.n_tasks, dtype=bool)
        return SolvedTasks(is_solved, W, b, n_iter, converged)


class PooledLasso(_Lasso, _Pooled):
    """Lasso, one model for the rows of all tasks, by coordinate descent.

    Minimizes::

        sum_t 1/2 ||y_t - X_t w - b||^2 + alpha ||w||_1

    All rows of `coef_` are equal.
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fit_intercept: bool = True,
        tol: NonNegative = 1e-6,
        max_iter: Count = 10000,
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter


class _Logistic(ClassifierMTL):
    """Logistic loss, squared penalty, scikit-learn's L-BFGS.

    Parameters
    ----------
    alpha : float, default 1.0
        Positive regularization strength: scikit-learn's ``C`` is 1/alpha.
    fit_intercept : bool, default True
        Whether to fit intercepts, which are not penalized.
    tol : float, default 1e-6
        Largest entry of the gradient of the mean loss, as scikit-learn has it.
    max_iter : int, default 1000
        Largest number of iterations per task.

    Notes
    -----
    A task with one class only gets zero coefficients and the log-odds with half an
    observation of the other class as intercept; without intercept it is fitted like the
    others.

    Dense columns far from zero, such as years, are centered first. `converged_` is True
    only where the duality gap of each task confirms it. Where the gap after L-BFGS does
    not, Newton's method has another try.

    References
    ----------
    D. R. Cox, "The regression analysis of binary sequences", Journal of the Royal
    Statistical Society B, 1958.
    """

    metadata = MethodMetadata(
        cite=("cox1958",),
        elsewhere={"scikit-learn `LogisticRegression(C)`": "alpha = 1 / C"},
        complexity="O(N d) per iteration",
        default_grid={"alpha": STRENGTHS},
        search=lambda scale: {"alpha": scale.times(_WIDE)},
        losses=("logistic",),
        multitask=False,
    )

    alpha: Positive = 1.0
    _: KW_ONLY
    fit_intercept: bool = True
    tol: Positive = 1e-6
    max_iter: Count = 1000
    _is_logistic = True

    def _fit_one(self, X: Any, y: Array, weights: Array | None) -> TaskFit:
        if is_constant(y, weights):
            if self.fit_intercept:
                # The loss has no minimizer in b: use the log-odds with half an
                # observation of the other class.
                if weights is None:
                    n = len(y)
                else:
                    n = weights.sum()
                return TaskFit(
                    np.zeros(X.shape[1]), float(y[0] * np.log(2 * n + 1)), 1, True
                )
            X, y, weights = with_mirror(X, y, weights)
        data = TaskData(X, y[:, np.newaxis], np.zeros(1), weights=weights)
        if not self.fit_intercept or data.sparse or not is_far_from_zero(data):
            return self._certified(data)
        centred = centre(data, targets=False)
        fit = self._certified(centred.data)
        moved = centred.intercept(fit.coef[:, np.newaxis])
        return fit._replace(intercept=fit.intercept + float(moved[0]))

    def _certified(self, data: TaskData) -> TaskFit:
        """Solve the problem of one task, and tell by its duality gap whether it is."""
        fit = self._by("lbfgs", data)
        gap = self._gap(fit, data)
        if gap > _NEAR and data.n_features <= _SMALL:
            # L-BFGS stalls at columns of huge or mixed scales.
            other = self._by("newton-cholesky", data)
            other_gap = self._gap(other, data)
            if other_gap < gap:
                fit = other
                gap = other_gap
        return fit._replace(converged=fit.converged and gap <= _NEAR)

    def _by(self, solver: str, data: TaskData) -> TaskFit:
        model = LogisticRegression(
            C=1 / self.alpha,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            solver=solver,
        )
        with warnings.catch_warnings():
            # Newton's method falls back to L-BFGS where its linear system is singular.
            # Whether the result is good enough is decided by the duality gap.
            warnings.simplefilter("ignore", LinAlgWarning)
            return fit_sklearn(model, data.X, data.targets[:, 0], data.weights)

    def _gap(self, fit: TaskFit, data: TaskData) -> float:
        """Return the relative duality gap of the solution of one task."""
        if self.fit_intercept:
            intercept = np.array([fit.intercept])
        else:
            intercept = None
        loss, penalty = self._terms()
        coef = fit.coef[:, np.newaxis]
        return duality_gap(data, loss, [penalty], [coef], intercept).relative

    def _terms(self) -> tuple[Loss, Penalty]:
        return LogisticLoss(), SquaredFrobenius(self.alpha)


class IndependentLogistic(_Logistic, _Independent):
    """Logistic regression, separate per task, by scikit-learn's L-BFGS.

    Minimizes::

        sum_t (sum_i log(1 + exp(-y_ti (x_ti'w_t + b_t))) + alpha/2 ||w_t||^2)

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import IndependentLogistic
    >>> rng = np.random.default_rng(0)
    >>> X, town = rng.normal(size=(60, 2)), np.repeat(["A", "B", "C"], 20)
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = IndependentLogistic(alpha=1.0).fit(X, y, task_id=town)
    >>> model.classes_.tolist(), model.coef_.shape
    (['no', 'yes'], (3, 2))
    """

    def __init__(
        self,
        alpha: Positive = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fit_intercept: bool = True,
        tol: Positive = 1e-6,
        max_iter: Count = 1000,
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter


class PooledLogistic(_Logistic, _Pooled):
    """Logistic regression, one model for the rows of all tasks, by scikit-learn's
    L-BFGS.

    Minimizes::

        sum_t sum_i log(1 + exp(-y_ti (x_ti'w + b))) + alpha/2 ||w||^2

    All rows of `coef_` are equal.
    """

    metadata = replace(
        _Logistic.metadata, search=lambda scale: {"alpha": scale.times(_WIDE, 1.0)}
    )

    def __init__(
        self,
        alpha: Positive = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fit_intercept: bool = True,
        tol: Positive = 1e-6,
        max_iter: Count = 1000,
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter


class _SVC(ClassifierMTL):
    """Hinge loss, squared penalty, LIBLINEAR.

    Parameters
    ----------
    C : float, default 1.0
        Cost of margin violations; the paper's ``lam`` is 1/C.
    fit_intercept : bool, default False
        Whether to fit intercepts; the paper has none. LIBLINEAR penalizes them like
        coefficients, `objective_` is without that penalty.
    tol : float, default 1e-4
        Largest projected gradient of the dual, as LIBLINEAR has it.
    max_iter : int, default 10000
        Largest number of epochs of dual coordinate descent per task.
    random_state : int, RandomState or None, default 0
        For the order of the coordinates.

    Notes
    -----
    A task with one class only is fitted like the others (without intercept), or gets
    the score of its class everywhere (with intercept).

    References
    ----------
    R.-E. Fan, K.-W. Chang, C.-J. Hsieh, X.-R. Wang and C.-J. Lin, "LIBLINEAR: a library
    for large linear classification", Journal of Machine Learning Research, 2008.
    """

    metadata = MethodMetadata(
        cite=("fan2008",),
        complexity="O(N d) per epoch",
        default_grid={"C": POWERS},
        losses=("hinge",),
        multitask=False,
    )

    C: Positive = 1.0
    _: KW_ONLY
    fit_intercept: bool = False
    tol: Positive = 1e-4
    max_iter: Count = 10000
    random_state: Any = 0

    def _fit_one(self, X: Any, y: Array, weights: Array | None) -> TaskFit:
        if is_constant(y, weights):
            if self.fit_intercept:
                return TaskFit(np.zeros(X.shape[1]), float(y[0]), 1, True)
            X, y, weights = with_mirror(X, y, weights)
        model = LinearSVC(
            loss="hinge",
            C=self.C,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        return fit_sklearn(model, X, y, weights)

    def _terms(self) -> tuple[Loss, Penalty]:
        return HingeLoss(self.C), SquaredFrobenius(1.0)


class IndependentSVC(_SVC, _Independent):
    """Linear support vector machine, separate per task, by LIBLINEAR.

    Minimizes::

        sum_t (1/2 ||w_t||^2 + C sum_i max(0, 1 - y_ti (x_ti'w_t + b_t)))
    """

    metadata = replace(
        _SVC.metadata, search=lambda scale: {"C": scale.inverse(_MARGINS)[::-1]}
    )

    def __init__(
        self,
        C: Positive = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fit_intercept: bool = False,
        tol: Positive = 1e-4,
        max_iter: Count = 10000,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.task_column = task_column
        self.unseen = unseen
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state


class PooledSVC(_SVC, _Pooled):
    """Linear support vector machine, one model for the rows of all tasks, by LIBLINEAR.

    Minimizes::

        1/2 ||w||^2 + C sum_t sum_i max(0, 1 - y_ti (x_ti'w + b))

    All rows of `coef_` are equal.
    """

    def __init__(
        self,
        C: Positive = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fit_intercept: bool = False,
        tol: Positive = 1e-4,
        max_iter: Count = 10000,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.task_column = task_column
        self.unseen = unseen
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state


def has_products(data: TaskData) -> bool:
    """Whether products of columns are kept: for few columns, dense and not weighted,
    of each task or of rows that all tasks share.
    """
    plain = not data.sparse and data.weights is None
    plain = plain and (data.uniform or not data.shared)
    return plain and data.n_features <= _SMALL and gram_bytes(data) <= _PRODUCTS


def products(data: TaskData, fit_intercept: bool) -> Gram:
    """Return the products of the columns of each task, made once; zeros for columns
    constant within the task.
    """
    key = ("products", fit_intercept)
    if key not in data.decompositions:
        form = Gram(data, fit_intercept, sharp=False)
        varying = form.are_varying(np.einsum("...ii->...i", form.gram))
        if not varying.all():
            form.gram *= varying[..., :, np.newaxis] & varying[..., np.newaxis, :]
            form.cross *= np.atleast_2d(varying).T
        data.decompositions[key] = form
    kept: Gram = data.decompositions[key]
    return kept


def pool(data: TaskData, *, labels: bool) -> tuple[Any, Array, Array | None]:
    """Return one problem with the same loss up to a constant; a shared X appears
    once (twice for labels).
    """
    if not data.shared:
        return data.X, data.targets, data.weights
    weights = data.full_weights()
    if labels:
        positive = (weights * (data.targets > 0)).sum(axis=1)
        negative = weights.sum(axis=1) - positive
        X = stack_designs([data.X, data.X])
        return (
            X,
            np.repeat([1.0, -1.0], data.n_rows),
            np.concatenate([positive, negative]),
        )
    total = weights.sum(axis=1)
    return data.X, quotient((weights * data.targets).sum(axis=1), total), total


def is_constant(y: Array, weights: Array | None) -> bool:
    """Return whether all entries of positive weight are equal."""
    used = y if weights is None else y[weights > 0]
    return bool(np.all(used == used[0]))


def with_mirror(X: Any, y: Array, weights: Array | None) -> tuple[Any, Array, Array]:
    """Give a one-class problem without intercept a second class: half of a row
    becomes (-x, -y), of the same loss.
    """
    if weights is None:
        weights = np.ones(len(y))
    else:
        weights = weights.copy()
    row = int(np.argmax(weights))
    weights[row] /= 2
    return (
        stack_designs([X, -X[[row]]]),
        np.append(y, -y[row]),
        np.append(weights, weights[row]),
    )


def fit_sklearn(model: Any, X: Any, y: Array, weights: Array | None) -> TaskFit:
    """Fit a scikit-learn model; its iterations tell whether it converged, the warning
    comes once for all tasks.

    Its parameters are made of ours, which were checked, as were the rows: on 60 rows
    checks take a quarter of a fit.
    """
    with (
        warnings.catch_warnings(),
        config_context(assume_finite=True, skip_parameter_validation=True),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, sample_weight=weights)
    n_iter = int(np.max(model.n_iter_))
    return TaskFit(
        np.ravel(model.coef_),
        float(np.ravel(model.intercept_)[0]),
        n_iter,
        n_iter < model.max_iter,
    )
