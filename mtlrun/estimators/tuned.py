"""Models of one task that choose their own strength inside `fit`, linear ones and
kernel ridge; see `PerTask`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from mtlrun.data.groups import group_folds, strata_of
from mtlrun.data.reading.frames import take
from mtlrun.estimators.inputs import (
    KeepsGroups,
    check_columns,
    check_groups,
    weighted_rows,
)
from mtlrun.estimators.params import NamedParameters

Array = np.ndarray


class TunedRidge(KeepsGroups, NamedParameters, RegressorMixin, BaseEstimator):
    """Ridge regression, its strength chosen by leave-one-out cross-validation inside
    `fit`, for every target alone.

    As scikit-learn's ``RidgeCV(alpha_per_target=True)``, in a tenth of the time where a
    task has few rows. With groups of rows, one group is left out at a time. Of strengths
    with the same error, as of two rows or a single group, the middle one is taken. Rows
    of weight 0 are left out; a row of weight k counts as k rows in fits and errors, but
    is left out whole.

    Parameters
    ----------
    alphas : sequence of float

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_targets,)
    coef_, intercept_ : ndarray
    """

    def __init__(self, alphas: Any = (0.1, 1.0, 10.0)) -> None:
        self.alphas = alphas

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Choose the strengths and fit; rows of one of the `groups` are left out
        together.
        """
        check_columns(self, X, reset=True)
        X, y, w, groups = _counted(X, y, sample_weight, groups)
        X = _dense(X)
        y = np.asarray(y, float)
        columns = y.reshape(len(y), -1)
        share = w / w.sum()
        root = np.sqrt(w)[:, np.newaxis]
        means = share @ X
        centre = share @ columns
        # One decomposition serves all strengths and all targets.
        U, s, V = np.linalg.svd(root * (X - means), full_matrices=False)
        targets = root * (columns - centre)
        inner = U.T @ targets
        blocks = _blocks(groups)
        alphas = np.sort(self.alphas).astype(float)
        errors: Any = []
        for strength in alphas:
            kept = s**2 / (s**2 + strength)
            fitted = U @ (kept[:, np.newaxis] * inner)
            residuals = targets - fitted
            if blocks is None:
                # The error of a row that is left out, without another fit: its
                # residual over 1 - h. The intercept adds its share to the leverage h.
                leverage = (U**2 @ kept + share)[:, np.newaxis]
                left_out = residuals / np.maximum(1 - leverage, 1e-12)
                errors.append((left_out**2).sum(axis=0))
            else:
                basis = np.column_stack([np.sqrt(share), U])
                factors = np.append(1.0, kept)
                errors.append(_errors_of_blocks(residuals, basis, factors, blocks))
        if blocks is not None and len(blocks) == 1:
            errors = np.zeros_like(errors)  # Nothing can be held out.
        # All strengths have the same error in a task of two rows: rounding must not
        # choose.
        is_best = ~(errors > np.min(errors, axis=0) * (1 + 1e-9))
        alpha: Any = np.array([alphas[best][best.sum() // 2] for best in is_best.T])
        singular_values = s[:, np.newaxis]
        shrinkage = singular_values / (singular_values**2 + alpha)
        coef = (V.T @ (shrinkage * inner)).T
        intercept = centre - coef @ means
        self.n_features_in_ = X.shape[1]
        self.coef_ = coef
        self.intercept_ = intercept
        self.alpha_ = alpha
        if y.ndim == 1:
            self.coef_ = coef[0]
            self.intercept_ = float(intercept[0])
            self.alpha_ = float(alpha[0])
        return self

    def predict(self, X: Any) -> Array:
        """Predict targets."""
        check_is_fitted(self, "coef_")
        check_columns(self, X, reset=False)
        return np.asarray(_matrix(X) @ self.coef_.T + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.sparse = True
        return tags


class TunedKernelRidge(KeepsGroups, NamedParameters, RegressorMixin, BaseEstimator):
    """Kernel ridge regression of one task with a Gaussian kernel, tuned by
    leave-one-out cross-validation inside `fit`.

    Minimizes ``sum_i v_i (y_i - m - f(x_i))^2 + alpha |f|^2`` over the functions of the
    kernel, with m the mean target, which counts as known, and v the sample weights.
    Where no strength and width beat the mean itself, f is zero. The kernel ``exp(-|x -
    z|^2 / (2 d width^2))`` suits d standardized columns. For tasks of few rows: a fit
    takes the eigenvalues of an (n, n) matrix for every width. Labels -1 and +1 are
    numbers here. With groups of rows, one group is left out at a time, and of a single
    group f is zero.

    Parameters
    ----------
    alphas : sequence of float
    widths : sequence of float

    Attributes
    ----------
    alpha_, width_ : float
        Those chosen; `alpha_` is infinite where f is zero.
    mean_ : float
    dual_coef_ : ndarray of shape (n_samples,)
    X_fit_ : ndarray of shape (n_samples, n_features)

    References
    ----------
    R. M. Rifkin and R. A. Lippert, "Notes on regularized least squares",
    MIT-CSAIL-TR-2007-025, 2007: the errors of leave-one-out in closed form.
    """

    def __init__(
        self,
        alphas: Any = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
        widths: Any = (0.5, 1.0, 2.0),
    ) -> None:
        self.alphas = alphas
        self.widths = widths

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Choose strength and width, and fit; rows of one of the `groups` are left
        out together.
        """
        check_columns(self, X, reset=True)
        X, y, v, groups = _counted(X, y, sample_weight, groups)
        X = _dense(X)
        y = np.asarray(y, dtype=np.float64)
        self.mean_ = float(v @ y / v.sum())
        self.X_fit_ = X
        self.n_features_in_ = X.shape[1]
        blocks = _blocks(groups)
        root = np.sqrt(v)
        n = len(y)
        targets = root * (y - self.mean_)
        least = float(targets @ targets)
        self.alpha_ = np.inf
        self.width_ = 1.0
        self.dual_coef_ = np.zeros(n)
        if blocks is not None and len(blocks) == 1:
            return self
        distances = cdist(X, X, "sqeuclidean")
        for width in self.widths:
            values, U = np.linalg.eigh(
                np.outer(root, root) * self._kernel(distances, width)
            )
            inner = U.T @ targets
            for alpha in self.alphas:
                inverse = 1.0 / (np.maximum(values, 0.0) + alpha)
                dual = U @ (inverse * inner)
                if blocks is None:
                    left_out = dual / (np.square(U) @ inverse)
                else:
                    # The errors of each row of kernel ridge, each block predicted
                    # without it.
                    left_out = np.empty_like(dual)
                    for rows in blocks:
                        part = U[rows]
                        left_out[rows] = _solve((part * inverse) @ part.T, dual[rows])
                error = float(np.square(left_out).sum())
                if error < least:
                    least = error
                    self.alpha_ = float(alpha)
                    self.width_ = float(width)
                    self.dual_coef_ = root * dual
        return self

    def predict(self, X: Any) -> Array:
        """Predict targets."""
        check_is_fitted(self, "dual_coef_")
        check_columns(self, X, reset=False)
        kernel = self._kernel(cdist(_dense(X), self.X_fit_, "sqeuclidean"), self.width_)
        return np.asarray(self.mean_ + kernel @ self.dual_coef_)

    def _kernel(self, distances: Array, width: float) -> Array:
        return np.asarray(
            np.exp(-distances / (2.0 * max(self.n_features_in_, 1) * width**2))
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _counted(
    X: Any, y: Any, sample_weight: Any, groups: Any
) -> tuple[Any, Any, Array, Any]:
    """Return the arguments of `fit` without the rows of weight 0; weights are 1 by
    default.
    """
    groups = check_groups(groups, X, sample_weight)
    rows = weighted_rows(sample_weight, X)
    if rows is not None:
        X, y, sample_weight = (take(part, rows) for part in (X, y, sample_weight))
    if sample_weight is None:
        sample_weight = np.ones(len(y))
    return X, y, np.asarray(sample_weight, dtype=np.float64), groups


def _blocks(groups: Any) -> list[Array] | None:
    """Return the rows of each group, None without groups."""
    if groups is None:
        return None
    _, codes = np.unique(np.asarray(groups), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def _errors_of_blocks(
    residuals: Array, basis: Array, factors: Array, blocks: list[Array]
) -> Array:
    """Return the sum of squared errors of each target, each block predicted without it.

    With the hat matrix ``H = B diag(factors) B'`` of a linear smoother, the errors of a
    block g that was left out are ``(I - H_gg)^-1 residuals_g``. For a block of more
    rows than columns of B the matrix that is solved has the size of the latter, by
    Woodbury's formula.
    """
    total = np.zeros(residuals.shape[1])
    used = factors > 0
    basis = basis[:, used]
    factors = factors[used]
    for rows in blocks:
        part = basis[rows]
        if len(rows) <= part.shape[1]:
            matrix = np.eye(len(rows)) - (part * factors) @ part.T
            left_out = _solve(matrix, residuals[rows])
        else:
            inner = np.diag(1 / factors) - part.T @ part
            left_out = residuals[rows] + part @ _solve(inner, part.T @ residuals[rows])
        total += (left_out**2).sum(axis=0)
    return total


def _solve(matrix: Array, right: Array) -> Array:
    """Return the solution of linear equations, of least norm where they are
    singular.
    """
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(matrix, right, rcond=None)[0]


def _matrix(X: Any) -> Any:
    """Return X as numbers, CSR or dense."""
    if sp.issparse(X):
        return X.tocsr()
    return np.asarray(X, dtype=np.float64)


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


class TunedLogistic(KeepsGroups, NamedParameters, ClassifierMixin, BaseEstimator):
    """Logistic regression of one task, its strength chosen by cross-validation of the
    log loss inside `fit`.

    With `PerTask` every task gets a strength of its own. A class with fewer rows than
    folds makes fewer folds; with a single row of a class the middle strength is taken.
    Folds keep the rows of a group together, those whose training rows are of one class
    are left out, and where none is left the middle strength is taken. Rows of weight 0
    are left out.

    Parameters
    ----------
    alphas : sequence of float
        Regularization strengths, scikit-learn's ``1 / C``.
    folds : int, default 3
    tol : float, default 1e-3
        Largest entry of the gradient of the mean loss, as scikit-learn has it, in the
        last fit; the fits before it have ten times as much.

    Attributes
    ----------
    alpha_ : float
    coef_, intercept_, classes_ : ndarray
    """

    def __init__(
        self, alphas: Any = (0.1, 1.0, 10.0), *, folds: int = 3, tol: float = 1e-3
    ) -> None:
        self.alphas = alphas
        self.folds = folds
        self.tol = tol

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Choose the strength and fit; labels are of two classes.

        Rows of one of the `groups` are held out together.
        """
        check_columns(self, X, reset=True)
        X, y, shares, groups = _counted(X, y, sample_weight, groups)
        X = _matrix(X)
        y = np.asarray(y)
        self.classes_, counts = np.unique(y, return_counts=True)
        sign = np.where(y == self.classes_[1], 1.0, -1.0)
        # From the strongest: each fit is a good start for the next, weaker one.
        alphas = sorted(self.alphas, reverse=True)
        losses = np.zeros(len(alphas))
        if len(alphas) > 1:
            n_rarest = int(counts.min())
            for train, test in self._folds(sign, n_rarest, groups):
                losses += self._path(X, sign, shares, train, test, alphas)
        # Without folds there are no losses to compare: the middle strength.
        best = len(alphas) // 2
        if losses.any():
            best = int(np.argmin(losses))
        self.alpha_ = float(alphas[best])
        w = _minimizer(X, sign, shares, self.alpha_, self.tol)
        self.coef_ = w[np.newaxis, :-1]
        self.intercept_ = w[-1:]
        self.n_features_in_ = X.shape[1]
        return self

    def _folds(
        self, sign: Array, n_rarest: int, groups: Any
    ) -> Iterator[tuple[Array, Array]]:
        """Yield the (train, test) rows of folds, none where there cannot be two."""
        if groups is None:
            n_folds = min(self.folds, n_rarest)
            if n_folds > 1:
                folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
                yield from folds.split(sign, sign)
        elif len(np.unique(groups)) > 1:
            single_task = np.zeros(len(sign))
            strata = strata_of(sign, single_task, labels=True)
            for train, test in group_folds(groups, strata, sign, self.folds, seed=0):
                # Whole groups may hold all rows of a class: nothing to fit without.
                if len(np.unique(sign[train])) > 1:
                    yield train, test

    def _path(
        self,
        X: Any,
        sign: Array,
        shares: Array,
        train: Array,
        test: Array,
        alphas: list[float],
    ) -> Array:
        """Return the log loss of a fold by strength, every fit starting from the
        stronger one before.
        """
        inner = take(X, train)
        outer = take(X, test)
        w = np.zeros(X.shape[1] + 1)
        # To compare strengths, less precise fits are enough.
        tol = 10 * self.tol
        losses = []
        for alpha in alphas:
            w = _minimizer(inner, sign[train], shares[train], alpha, tol, w)
            scores = outer @ w[:-1] + w[-1]
            loss_of_rows = np.logaddexp(0.0, -sign[test] * scores)
            losses.append(float(shares[test] @ loss_of_rows))
        return np.array(losses)

    def decision_function(self, X: Any) -> Array:
        """Return log-odds of the second class."""
        check_is_fitted(self, "coef_")
        check_columns(self, X, reset=False)
        return np.asarray(_matrix(X) @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: Any) -> Array:
        """Return labels."""
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def _minimizer(
    X: Any,
    sign: Array,
    weights: Array,
    alpha: float,
    tol: float,
    start: Array | None = None,
) -> Array:
    """Return coefficients and intercept of a logistic regression, by L-BFGS.

    For models as small as these scikit-learn's LogisticRegression spends two thirds of
    its time on checks.
    """
    # Loss and gradient are divided by it, so that `tol` does not depend on the number
    # of rows or the unit of the weights.
    total = weights.sum()

    def loss(w: Array) -> tuple[float, Array]:
        coef = w[:-1]
        margins = sign * (X @ coef + w[-1])
        slopes = -weights * sign * expit(-margins)
        loss_of_rows = weights @ np.logaddexp(0.0, -margins)
        # The intercept is not penalized.
        value = loss_of_rows + 0.5 * alpha * (coef @ coef)
        gradient = np.append(X.T @ slopes + alpha * coef, slopes.sum())
        return value / total, gradient / total

    first = start
    if start is None:
        first = np.zeros(X.shape[1] + 1)
    options = {"gtol": tol, "ftol": 1e-14, "maxiter": 500}
    result = minimize(loss, first, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(result.x)
