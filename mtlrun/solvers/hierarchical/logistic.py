"""Hierarchical logistic models: Laplace's marginal likelihood and covariances.

The labels of task t are Bernoulli with log-odds eta_t = X_t (mu + u_t), u_t = S v_t,
v_t ~ N(0, I), where S is the root of Theta and zero outside of the random columns. At
the mode of v_t, with p the probabilities, W = p (1 - p), E = X S and M = I + E'WE::

    D = sum_t [-2 log p(y_t | eta_t) + v_t'v_t + log|M|]
        + sum_j [c_j mu_j^2 + d_j Theta_jj]
    h = X'(y - p),   P = W - W E M^-1 E'W,   B = X'PX,   s_i = e_i'M^-1 e_i
    g = W (1 - 2p) s,   r = X'(g - W E M^-1 E'g)
    dD/dTheta = sum_t [B - h h' + (h r' + r h') / 2] + diag(d)
    dD/dmu = sum_t [r - 2 h] + 2 c mu

The prices c and d are priors: mu_j is normal with the variance 1 / c_j, and the root of
Theta_jj half-normal with the scale 1 / sqrt(d_j). With prices of 0 this is the
criterion that glmer of lme4 minimizes. No inverse of Theta occurs, so that a variance
may be zero. An evaluation costs N k^2, k the lesser of rows and columns, for each of a
few Newton steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import t as student_t

from mtlrun.problem.taskdata import Array, TaskData, dense
from mtlrun.solvers.hierarchical import covariance
from mtlrun.solvers.hierarchical.compress import (
    Columns,
    by_length,
    can_differ,
    varies_within,
)
from mtlrun.solvers.hierarchical.covariance import (
    CovarianceModel,
    FactorCovariance,
    Fit,
    FullCovariance,
    GroupedVariances,
    Structure,
)
from mtlrun.solvers.hierarchical.label_posterior import (
    LabelPosterior,
    TaskRoots,
    leave_one_out_losses,
    log_probability,
    root_of,
    row_variances,
)
from mtlrun.solvers.hierarchical.marginal import as_matrix
from mtlrun.solvers.hierarchical.separation import separating_columns

#: Numbers in the padded rows of tasks that are worked on at a time.
_BATCH = 1 << 21
#: Standard deviation, in log-odds, of a prior that says nothing.
VAGUE = 100.0
#: Prices of the mean and of the variance of the level, as shares of the prices of
#: slopes. Classes may be rare, which is a matter of the mean; and levels of tasks
#: differ by more than slopes per standard deviation do.
LEVEL_MEAN_SHARE = 0.02
LEVEL_VARIANCE_SHARE = 0.2
#: Newton steps for the modes (or for a model without tasks) and halvings of each; a
#: mode is found when a step would gain less.
_STEPS = 100
_HALVINGS = 40
_MODE = 1e-16


@dataclass(frozen=True)
class Prices:
    """Prices of squares, which stand for priors.

    Attributes
    ----------
    mean : ndarray of shape (p,)
        Of the squares of mu.
    variance : ndarray of shape (p,)
        Of the diagonal of Theta.
    """

    mean: Array
    variance: Array

    @classmethod
    def equal(cls, price: float, p: int) -> Prices:
        """Return one price for everything."""
        return cls(np.full(p, float(price)), np.full(p, float(price)))

    @classmethod
    def weak(cls, ridge: float, p: int, intercept: bool) -> Prices:
        """Return prices of `ridge` for slopes, and lower ones for the level."""
        prices = cls.equal(ridge, p)
        if intercept:
            prices.mean[0] *= LEVEL_MEAN_SHARE
            prices.variance[0] *= LEVEL_VARIANCE_SHARE
        return prices


@dataclass(frozen=True)
class PaddedRows:
    """Rows of tasks of about the same number of rows; rows of weight zero pad.

    Attributes
    ----------
    tasks : ndarray of int, shape (m,)
        Positions of the tasks.
    X : ndarray of shape (m, n, p), or (1, n, p) where the tasks share their rows
        Standardized, with the intercept (if any) as first column.
    y : ndarray of shape (m, n)
        0 or 1.
    w : ndarray of shape (m, n)
        Weights.
    """

    tasks: Array
    X: Array
    y: Array
    w: Array


@dataclass(frozen=True)
class LaplaceValue:
    """The criterion at one point.

    Attributes
    ----------
    criterion : float
        D.
    likelihood : float
        D without the ridge: minus twice the logarithm of the likelihood.
    mu : ndarray of shape (p,)
    Theta : ndarray of shape (q, q), or (q,) for a diagonal
    v : ndarray of shape (T, q)
        Modes in units of the root of Theta.
    G : ndarray of shape (q, q)
        dD/dTheta, symmetric.
    g_mu : ndarray of shape (p,)
    information : ndarray of shape (p, p)
        Half the expected second derivative of D in mu; its inverse is the covariance of
        mu.
    squares : ndarray of shape (q, q)
        Expected second derivative of D in the diagonal of Theta.
    """

    criterion: float
    likelihood: float
    mu: Array
    Theta: Array
    v: Array
    G: Array
    g_mu: Array
    information: Array
    squares: Array


class Laplace:
    """The criterion D of rows of tasks.

    Parameters
    ----------
    blocks : list of Rows
    T : int
        Number of tasks; those without rows are nothing.
    random : ndarray of int, shape (q,)
        Columns whose coefficients differ between tasks.
    prices : Prices

    Attributes
    ----------
    n_evaluations : int
        Calls until now.
    """

    def __init__(
        self,
        blocks: list[PaddedRows],
        T: int,
        random: Array,
        prices: Prices,
    ) -> None:
        self.blocks = blocks
        self.T = T
        self.random = random
        self.p = blocks[0].X.shape[2]
        self.prices = prices
        is_full = np.array_equal(random, np.arange(self.p))
        self._Z = [block.X for block in blocks]
        if not is_full:
            self._Z = [np.ascontiguousarray(X[:, :, random]) for X in self._Z]
        self.n_evaluations = 0

    def with_random(self, random: Array) -> Laplace:
        """Return the criterion of the same rows with other random columns."""
        return Laplace(self.blocks, self.T, random, self.prices)

    def moments(self) -> Array:
        """Return the weighted mean of x x' over all rows, (p, p)."""
        products = (
            np.einsum("mnp,mnq->pq", block.X, block.w[:, :, None] * block.X)
            for block in self.blocks
        )
        total_weight = sum(block.w.sum() for block in self.blocks)
        return np.asarray(sum(products) / total_weight)

    def single_class(self) -> Array:
        """Return whether the labels of a task are all the same, (T,)."""
        has_both = np.zeros(self.T, dtype=bool)
        for block in self.blocks:
            ones = (block.w * block.y).sum(axis=1)
            zeros = (block.w * (1 - block.y)).sum(axis=1)
            has_both[block.tasks] = (ones > 0) & (zeros > 0)
        return ~has_both

    def __call__(self, mu: Array, Theta: Array, W: Array | None = None) -> LaplaceValue:
        """Return D and its gradient. The modes are searched from coefficients `W` (T, p).

        Rows of large weights determine these, whatever mu and Theta are.
        """
        self.n_evaluations += 1
        q = len(self.random)
        S = root(Theta)
        modes = np.zeros((self.T, q))
        if W is not None:
            modes = (W - mu)[:, self.random] @ np.linalg.pinv(S, hermitian=True)
        price_of_mean = self.prices.mean
        price_of_variance = self.prices.variance[self.random]
        likelihood = 0.0
        G = np.diag(price_of_variance)
        squares = np.zeros((q, q))
        g_mu = 2 * price_of_mean * mu
        information = np.diag(price_of_mean)
        for index, block in enumerate(self.blocks):
            part = self.task_sums(index, mu, S, modes)
            modes[block.tasks] = part.v
            likelihood += part.D
            h = part.h[:, self.random]
            B = part.B[:, self.random][:, :, self.random]
            crossed = h.T @ part.r[:, self.random]
            G += B.sum(axis=0) - h.T @ h + 0.5 * (crossed + crossed.T)
            squares += np.square(B).sum(axis=0)
            g_mu = g_mu + (part.r - 2 * part.h).sum(axis=0)
            information += part.B.sum(axis=0)
        variances = np.square(S).sum(axis=1)
        penalty = price_of_mean @ np.square(mu) + price_of_variance @ variances
        criterion = likelihood + float(penalty)
        return LaplaceValue(
            criterion, likelihood, mu, Theta, modes, G, g_mu, information, squares
        )

    def covariance(self, Theta: Array) -> Array:
        """Return Theta, or its diagonal, as the covariance of all columns, (p, p)."""
        full = np.zeros((self.p, self.p))
        full[np.ix_(self.random, self.random)] = as_matrix(Theta)
        return full

    def alone(self, value: LaplaceValue) -> Array:
        """Return the coefficients of each task without the others, (T, p).

        They are NaN for tasks whose rows do not suffice. Each coefficient has a
        separate prior about the mean, which is so wide that it matters only if the rows
        do not determine the coefficient.
        """
        free = self.with_random(np.arange(self.p))
        W = self.coefficients(value)
        vague = free(value.mu, np.full(self.p, VAGUE**2), W)
        std = free.predict_std(vague, np.eye(self.p))
        is_identified: Array = np.less(std, 0.1 * VAGUE)
        has_all = is_identified.all(axis=1, keepdims=True)
        return np.where(has_all, free.coefficients(vague), np.nan)

    def coefficients(self, value: LaplaceValue) -> Array:
        """Return the modes of the coefficients, (T, p)."""
        W = np.repeat(value.mu[None], self.T, axis=0)
        W[:, self.random] += value.v @ root(value.Theta)
        return W

    def predict_std(self, value: LaplaceValue, L: Array) -> Array:
        """Return the standard deviations of L w_t, (T, len(L)), given the variances."""
        S = root(value.Theta)
        full = self.covariance(value.Theta)
        mean = np.linalg.pinv(value.information, hermitian=True)
        # Tasks without rows have the covariance of a new task.
        new_variances = np.diag(L @ (full + mean) @ L.T)
        out = np.sqrt(np.maximum(np.tile(new_variances, (self.T, 1)), 0.0))
        for index, block in enumerate(self.blocks):
            B = self.task_sums(index, value.mu, S, value.v).B
            left = np.eye(self.p) - full @ B
            of_mean = left @ mean @ left.transpose(0, 2, 1)
            covariances = full - full @ B @ full + of_mean
            variances = np.einsum("kp,mpr,kr->mk", L, covariances, L)
            out[block.tasks] = np.sqrt(np.maximum(variances, 0.0))
        return out

    def posterior(self, value: LaplaceValue) -> LabelPosterior:
        """Return the covariances of the coefficients of all tasks."""
        S = root(value.Theta)
        roots = []
        for index, block in enumerate(self.blocks):
            part = self.task_sums(index, value.mu, S, value.v, rooted=True)
            roots.append(TaskRoots(block.tasks, part.F))
        return self._covariances(value, roots)

    def task_sums(
        self, index: int, mu: Array, S: Array, v: Array, rooted: bool = False
    ) -> TaskSums:
        """Return the contributions of a block; the modes are searched from v (T, q).

        With `rooted`, they include roots F of B.
        """
        block = self.blocks[index]
        X = block.X
        # Z v = E a with v = basis a. Where a block has fewer rows n than columns q, the
        # rows determine only n directions of v, and the mode of v has no other
        # components. Elsewhere v is a.
        E = self._Z[index] @ S
        basis = None
        start = v[block.tasks]
        if E.shape[1] < E.shape[2]:
            basis, R = np.linalg.qr(E.transpose(0, 2, 1))
            E = R.transpose(0, 2, 1)
            start = _sums(basis, start)
        a, eta, log_p, residual, W, M = find_modes(block, E, X @ mu, start)
        _, logdets = np.linalg.slogdet(M)
        D = float(-2 * log_p.sum() + np.square(a).sum() + logdets.sum())
        identities = np.broadcast_to(np.eye(M.shape[1]), M.shape)
        inverse = np.linalg.solve(M, identities)
        EM = E @ inverse
        moved = W * (1 - 2 * expit(eta)) * (EM * E).sum(axis=2)
        r = _sums(X, moved - W * _times(EM, _sums(E, moved)))
        XWX = X.transpose(0, 2, 1) @ (W[:, :, None] * X)
        if basis is None:
            XWE = XWX[:, :, self.random] @ S
        else:
            XWE = X.transpose(0, 2, 1) @ (W[:, :, None] * E)
        B = XWX - XWE @ inverse @ XWE.transpose(0, 2, 1)
        F = np.zeros((len(B), 0, B.shape[2]))
        if rooted and X.shape[1] < X.shape[2]:
            # B = X'P X: the root of P has fewer rows than the root of B.
            WE = W[:, :, None] * E
            diagonals = W[:, :, None] * np.eye(W.shape[1])
            P = diagonals - WE @ inverse @ WE.transpose(0, 2, 1)
            F = root_of(P) @ X
        elif rooted:
            F = root_of(B)
        modes = a
        if basis is not None:
            modes = _times(basis, a)
        return TaskSums(modes, D, _sums(X, residual), r, B, eta, F)

    def _covariances(
        self,
        value: LaplaceValue,
        roots: list[TaskRoots],
    ) -> LabelPosterior:
        mean = np.linalg.pinv(value.information, hermitian=True)
        return LabelPosterior(self.covariance(value.Theta), mean, roots)

    def leave_one_out(self, value: LaplaceValue) -> Array:
        """Return weighted sums of leave-one-out log losses by task, (T,)."""
        S = root(value.Theta)
        common = self._covariances(value, [])
        sums = np.zeros(self.T)
        for index, block in enumerate(self.blocks):
            part = self.task_sums(index, value.mu, S, value.v, rooted=True)
            variance = row_variances(block.X, part.F, common)
            losses = leave_one_out_losses(part.eta, variance, block.y, block.w)
            sums[block.tasks] = (block.w * losses).sum(axis=1)
        return sums

    def separating_columns(self, intercept: bool) -> list[int]:
        """Return the columns of a direction that separates the classes."""
        rows = []
        labels = []
        for block in self.blocks:
            has_weight = np.broadcast_to(block.w > 0, block.y.shape)
            X = np.broadcast_to(block.X, (*block.y.shape, self.p))
            rows.append(X[has_weight])
            labels.append(block.y[has_weight])
        X = np.concatenate(rows)
        y = np.concatenate(labels)
        return separating_columns(X, y, intercept)

    def can_differ(self, intercept: bool) -> Array:
        """Return the columns whose coefficients may differ between tasks, (p,)."""
        varies = np.zeros((self.T, self.p), dtype=bool)
        for block in self.blocks:
            has_weight = block.w[:, :, None] > 0
            varies[block.tasks] = varies_within(block.X * has_weight, intercept)
        return can_differ(varies)


def root(Theta: Array) -> Array:
    """Return the symmetric root of a covariance, or of a diagonal, as a matrix."""
    if Theta.ndim == 1:
        return np.diag(np.sqrt(Theta))
    values, vectors = np.linalg.eigh(Theta)
    stds = np.sqrt(np.maximum(values, 0.0))
    return np.asarray((vectors * stds) @ vectors.T)


@dataclass(frozen=True)
class TaskSums:
    """Contributions of the tasks of a block to the sums, at their modes.

    The modes v and D; per task h and r (m, p), B (m, p, p) and eta (m, n). F (m, k, p)
    with F'F = B is empty unless it was requested.
    """

    v: Array
    D: float
    h: Array
    r: Array
    B: Array
    eta: Array
    F: Array


def find_modes(block: PaddedRows, E: Array, base: Array, a: Array) -> tuple[Array, ...]:
    """Return the modes a of all tasks, and quantities at the modes.

    Newton's steps are taken for all tasks at once, and halved for tasks that get worse.
    The quantities are eta and the logarithms of the probabilities, their derivatives
    and the weights W in eta, all (m, n), and I + E'WE (m, k, k).
    """
    eye = np.eye(E.shape[2])
    turned = E.transpose(0, 2, 1)
    eta = base + _times(E, a)
    log_p = block.w * log_probability(eta, block.y)
    for step_number in range(_STEPS + 1):
        # y - p and 1 - p without cancellation.
        wrong = expit(np.where(block.y > 0, -eta, eta))
        residual = block.w * np.where(block.y > 0, wrong, -wrong)
        W = block.w * wrong * expit(np.where(block.y > 0, eta, -eta))
        M = eye + turned @ (W[:, :, None] * E)
        slope = _sums(E, residual) - a
        step = np.linalg.solve(M, slope[:, :, None])[:, :, 0]
        size = np.ones(len(a))
        if step_number > 0:
            # A smaller part of the sums is rounding. Slopes at a start need more digits.
            size += np.abs(log_p.sum(axis=1)) + np.square(a).sum(axis=1)
        is_mode = (step * slope).sum(axis=1) < _MODE * size
        if step_number == _STEPS or is_mode.all():
            break
        a, eta, log_p, moved = _halved(block, E, base, a, step, log_p)
        if not moved:
            break
    return a, eta, log_p, residual, W, M


def _halved(
    block: PaddedRows,
    E: Array,
    base: Array,
    a: Array,
    step: Array,
    log_p: Array,
) -> tuple[Array, Array, Array, bool]:
    """Return a after steps that are short enough for each task.

    Also return eta and log p there, and whether any task moved.
    """
    before = log_p.sum(axis=1) - 0.5 * np.square(a).sum(axis=1)
    length = np.ones(len(a))
    for _ in range(_HALVINGS):
        new = a + length[:, None] * step
        eta = base + _times(E, new)
        log_likelihood = block.w * log_probability(eta, block.y)
        log_prior = 0.5 * np.square(new).sum(axis=1)
        after = log_likelihood.sum(axis=1) - log_prior
        # A fall by rounding does not count.
        is_worse = after < before - 1e-13 * (1 + np.abs(before))
        if not is_worse.any():
            break
        length[is_worse] *= 0.5
    return new, eta, log_likelihood, bool((length > 0.5**_HALVINGS).any())


def _times(Z: Array, u: Array) -> Array:
    """Return Z_t u_t, (m, n)."""
    return np.asarray((Z @ u[:, :, None])[:, :, 0])


def _sums(Z: Array, f: Array) -> Array:
    """Return Z_t' f_t, (m, columns)."""
    return np.asarray((f[:, None, :] @ Z)[:, 0])


# ---------------------------------------------------------------------- from data


def rows_of(data: TaskData, columns: Columns) -> list[PaddedRows]:
    """Return the rows of all tasks in blocks of tasks of about the same size.

    Labels above 0 become 1. Rows of weight zero and tasks without rows are left out.
    """
    X = dense(data.X)
    if data.uniform:
        return _shared(columns.apply(X), data)
    rows = []
    for t in range(data.n_tasks):
        X_t, y, w = data.task(t)
        weights = np.ones(len(y)) if w is None else np.asarray(w, dtype=float)
        X_t = dense(X_t)
        kept = weights > 0
        if not kept.all():
            X_t = X_t[kept]
            y = y[kept]
            weights = weights[kept]
        rows.append((X_t, (y > 0).astype(float), weights))
    sizes = np.array([len(y) for _, y, _ in rows])
    batches = by_length(sizes, X.shape[1] + 1, _BATCH)
    return [_padded(columns, tasks, rows, n) for tasks, n in batches]


def _padded(
    columns: Columns,
    tasks: Array,
    rows_by_task: list[tuple[Array, Array, Array]],
    n: int,
) -> PaddedRows:
    """Return the rows of some tasks, padded to n rows; padding has weight 0."""
    p = len(columns.mean) + int(columns.intercept)
    shape = (len(tasks), n)
    block = PaddedRows(tasks, np.zeros((*shape, p)), np.zeros(shape), np.zeros(shape))
    for position, t in enumerate(tasks):
        X, y, w = rows_by_task[t]
        size = len(y)
        block.X[position, :size] = columns.apply(X)
        block.y[position, :size] = y
        block.w[position, :size] = w
    return block


def _shared(A: Array, data: TaskData) -> list[PaddedRows]:
    """Return blocks of tasks that share the standardized rows A."""
    labels = np.ascontiguousarray(data.targets.T > 0).astype(float)
    step = max(1, _BATCH // A.size)
    weights = np.broadcast_to(data.row_weights(), labels.shape)
    all_tasks = np.arange(data.n_tasks)
    blocks = []
    for start in range(0, data.n_tasks, step):
        part = slice(start, start + step)
        block = PaddedRows(all_tasks[part], A[None], labels[part], weights[part])
        blocks.append(block)
    return blocks


# ---------------------------------------------------------------------- fits

#: Information that a parameter of a covariance needs: the variance of the labels,
#: summed over all rows.
INFORMATION = 10.0
#: Standard deviations in log-odds, on standardized columns, at most: where every task
#: has one class they have no end.
LARGEST = 50.0
# Runs of L-BFGS, each in units of the information where the one before ended.
_RUNS = 10
# A root of a variance below this counts as zero.
_ZERO = 1e-3
# Smallest root of a variance at the start, and when it leaves zero.
_SMALL = 0.05
# The predicted reduction below which a step that lowers nothing is rounding, and the
# share of the criterion that is.
_ROUNDING = 1e-5
_DIGITS = 1e-14


#: A fitted model; the path of its criterion never rises but by rounding.
LaplaceFit = CovarianceModel[Laplace, LaplaceValue]


@dataclass(frozen=True)
class LogisticProblem:
    """Rows and options of a fit.

    Attributes
    ----------
    m : Laplace
        Its random columns are those whose coefficients may differ.
    intercept : bool
        Whether column 0 is the intercept.
    tol, max_iter : float, int
    """

    m: Laplace
    intercept: bool = True
    tol: float = 1e-6
    max_iter: int = 200

    def grouped_variances(self, name: str) -> tuple[Laplace, GroupedVariances]:
        """Return the criterion of the structure "intercept", "scalar" or "diagonal"."""
        if name == "intercept":
            random = np.zeros(1, dtype=int)
        else:
            random = self.m.random
        structure = covariance.grouped_variances(
            name, np.ones(len(random)), (random == 0) & self.intercept
        )
        return self.m.with_random(random), structure

    def tolerance(self, criterion: float) -> float:
        """Return the predicted reduction to stop at, where D has this value."""
        # Of large weights, sums over rows have no digits for reductions as small.
        return max(self.tol, _DIGITS * abs(criterion))

    @property
    def information(self) -> float:
        """Variance of the labels, summed over all rows."""
        weight = sum(float(block.w.sum()) for block in self.m.blocks)
        ones = sum(float((block.w * block.y).sum()) for block in self.m.blocks)
        return ones * (1 - ones / weight)


def fit_logistic(problem: LogisticProblem, name: str) -> LaplaceFit:
    """Fit a model of one covariance structure.

    It is none, intercept, scalar, diagonal, factor, full or auto, which chooses.
    """
    fit = pooled(problem)
    if name == "none" or problem.m.T == 1 or not len(problem.m.random):
        return fit
    if name == "auto":
        tried = candidates(problem, fit)
        return select(tried, tried[0])
    if name in ("intercept", "scalar"):
        return grown(problem, fit, name)
    fit = grown(problem, grown(problem, fit, "scalar"), "diagonal")
    if name == "factor":
        return add_directions(problem, fit, covariance.MAX_RANK, n_forced=1)
    if name == "full":
        return full(problem, fit)
    return fit


def pooled(problem: LogisticProblem) -> LaplaceFit:
    """Fit one logistic model to the rows of all tasks, by Newton steps."""
    m = problem.m.with_random(np.zeros(0, dtype=int))
    value = m(np.zeros(m.p), np.zeros(0))
    path = [value.criterion]
    reduction = np.inf
    converged = False
    for _ in range(_STEPS):
        step, reduction = mean_step(value)
        if reduction < problem.tolerance(value.criterion):
            converged = True
            break
        better = _line_search(m, value, step)
        if better is None:
            converged = reduction < _ROUNDING
            break
        value = better
        path.append(value.criterion)
    fit = Fit(value, np.zeros(0), path, reduction, converged, m.n_evaluations, 0)
    return LaplaceFit("none", m, GroupedVariances(np.ones(0), np.zeros(0, int)), fit)


def mean_step(value: LaplaceValue) -> tuple[Array, float]:
    """Return the Newton step of mu for a covariance, and the predicted fall of D."""
    step = -0.5 * np.linalg.pinv(value.information, hermitian=True) @ value.g_mu
    return step, -0.5 * float(step @ value.g_mu)


def _line_search(m: Laplace, value: LaplaceValue, step: Array) -> LaplaceValue | None:
    """Return the first of shorter and shorter steps of mu that lowers D, or None."""
    for k in range(30):
        new = m(value.mu + 0.5**k * step, value.Theta, m.coefficients(value))
        if new.criterion < value.criterion:
            return new
    return None


def grown(problem: LogisticProblem, base: LaplaceFit, name: str) -> LaplaceFit:
    """Fit a larger diagonal covariance from a smaller one.

    Its variances start after one step of the information.
    """
    m, structure = problem.grouped_variances(name)
    theta = np.zeros(m.p)
    if len(base.m.random):
        theta[base.m.random] = np.asarray(base.fit.value.Theta)
    theta = theta[m.random]
    at = m(base.fit.value.mu, theta, base.m.coefficients(base.fit.value))
    groups = structure.groups
    g = np.bincount(groups, np.diag(at.G))
    indicator = structure.indicator()
    H = indicator.T @ at.squares @ indicator
    mean_theta = np.bincount(groups, theta) / np.bincount(groups)
    stepped = mean_theta - g / np.maximum(np.diag(H), 1e-300)
    stds = np.sqrt(np.maximum(stepped, 0.0))
    # A step can be far too long, or end at zero, where the gradient vanishes.
    present = np.sqrt(mean_theta)
    x = np.clip(stds, np.maximum(0.5 * present, _SMALL), 1.0 + present)
    return minimized(problem, m, name, structure, x, base)


def without(problem: LogisticProblem, large: LaplaceFit, column: int) -> LaplaceFit:
    """Fit the diagonal without the variance of a column, from the fit with it."""
    stay = np.flatnonzero(large.m.random != column)
    m = problem.m.with_random(large.m.random[stay])
    structure = GroupedVariances(np.ones(len(stay)), np.arange(len(stay)))
    return minimized(problem, m, "diagonal", structure, large.fit.x[stay], large)


def full(problem: LogisticProblem, base: LaplaceFit) -> LaplaceFit:
    """Fit any covariance from a diagonal one."""
    structure = FullCovariance(np.ones(len(base.m.random)))
    x = structure.from_covariance(base.fit.value.Theta)
    return minimized(problem, base.m, "full", structure, x, base)


def add_directions(
    problem: LogisticProblem,
    base: LaplaceFit,
    max_rank: int,
    n_forced: int = 0,
) -> LaplaceFit:
    """Add directions to a diagonal covariance (see `covariance.add_directions`)."""

    def fit(now: LaplaceFit, structure: FactorCovariance, x: Array) -> LaplaceFit:
        name = f"{base.name}+{structure.rank}"
        return minimized(problem, base.m, name, structure, x, now)

    def gradient(now: LaplaceFit) -> Array:
        return now.fit.value.G

    return covariance.add_directions(
        base,
        gradient,
        fit,
        max_rank=max_rank,
        n_forced=n_forced,
        initial_length=0.3,
        min_std=_SMALL,
    )


def candidates(problem: LogisticProblem, base: LaplaceFit) -> list[LaplaceFit]:
    """Grow the covariance from none: intercept, scalar, diagonal, directions.

    A structure is tried if there is `INFORMATION` per parameter.
    """
    max_parameters = problem.information / INFORMATION
    p = len(problem.m.random)
    level = problem.intercept and 0 in problem.m.random
    if level:
        sizes = {"intercept": 1, "scalar": 1 + level, "diagonal": p}
    else:
        sizes = {"scalar": 1, "diagonal": p}
    tried: list[LaplaceFit] = []
    last = base
    for name, size in sizes.items():
        if tried:
            is_larger = size > last.structure.n_parameters
            if size > max_parameters or not is_larger:
                break
        last = grown(problem, last, name)
        tried.append(last)
    best = min(tried, key=lambda fit: fit.aic)
    if best.name == "intercept":
        start = tried[min(1, len(tried) - 1)]
    else:
        start = best
    n_left = max_parameters - start.structure.n_parameters
    rank_by_tasks = problem.m.T // covariance.TASKS_PER_DIRECTION
    rank = int(min(n_left / p, p // 2, rank_by_tasks))
    if start.name in ("scalar", "diagonal") and rank > 0:
        tried.append(add_directions(problem, start, min(rank, covariance.MAX_RANK)))
    return tried


def select(tried: list[LaplaceFit], smallest: LaplaceFit) -> LaplaceFit:
    """Return the best of the candidates by AIC that predicts better than the smallest.

    The likelihood of tasks with few rows, or of one class, rises with variances that
    are far too large to predict well. A structure other than the smallest is therefore
    taken only if its leave-one-out log loss is clearly lower (see `predicts_better`).
    """
    for fit in sorted(tried, key=lambda fit: fit.aic):
        if fit.name == smallest.name or predicts_better(fit, smallest):
            return fit
    return smallest


def predicts_better(large: LaplaceFit, small: LaplaceFit) -> bool:
    """Return whether left-out rows have a clearly lower log loss under `large`.

    The differences of the tasks' losses are compared with their standard error by a
    t-test at 2.5%: leave-one-out losses keep the variances that were estimated from all
    rows, and flatter the larger model a little.
    """
    T = large.m.T
    if T < 2:
        return False
    large_losses = large.m.leave_one_out(large.fit.value)
    small_losses = small.m.leave_one_out(small.fit.value)
    differences = large_losses - small_losses
    error = np.sqrt(T) * differences.std(ddof=1)
    return bool(differences.sum() < -student_t.ppf(0.975, T - 1) * error)


# ------------------------------------------------ the minimization


class _LaplaceObjective:
    """D in (z, x): mu = center + unit z; keeps the best point."""

    def __init__(self, m: Laplace, structure: Structure, start: LaplaceValue) -> None:
        self.m = m
        self.structure = structure
        self.value = start
        self.path = [start.criterion]
        self.x = np.zeros(0)
        self.slope = np.zeros(0)
        self.rounding = 0.0

    def units(self) -> None:
        """Measure mu from where it is, in units of its information there."""
        self.center = self.value.mu
        values, vectors = np.linalg.eigh(2 * self.value.information)
        self.unit = vectors / np.sqrt(np.maximum(values, 1e-10 * values[-1]))

    def __call__(self, zx: Array) -> tuple[float, Array]:
        p = self.m.p
        mu = self.center + self.unit @ zx[:p]
        x = zx[p:]
        W = self.m.coefficients(self.value)
        value = self.m(mu, self.structure.theta(x), W)
        mu_slope = self.unit.T @ value.g_mu
        G = value.G
        if isinstance(self.structure, GroupedVariances):
            G = np.diag(G)
        x_slope = self.structure.gradient(x, G)
        slope = np.concatenate([mu_slope, x_slope])
        if value.criterion <= self.value.criterion + self.rounding or not len(self.x):
            self.value = value
            self.x = zx[p:].copy()
            self.slope = slope
            self.path.append(value.criterion)
        return value.criterion, slope

    def moved(self, x: Array) -> None:
        """Try other parameters of the structure.

        They may raise D by rounding error.
        """
        z = np.linalg.lstsq(self.unit, self.value.mu - self.center, rcond=None)[0]
        self.rounding = 1e-12 * (1 + abs(self.value.criterion))
        self(np.append(z, x))
        self.rounding = 0.0


def minimized(
    problem: LogisticProblem,
    m: Laplace,
    name: str,
    structure: Structure,
    x: Array,
    base: LaplaceFit,
) -> LaplaceFit:
    """Minimize D over mu and the parameters of a structure.

    Zero is a stationary point of each square. Where the gradient in Theta itself says
    that a variance should not be zero it is freed, and L-BFGS starts again.
    """
    before = m.n_evaluations
    p = m.p
    W = base.m.coefficients(base.fit.value)
    start = m(base.fit.value.mu, structure.theta(x), W)
    objective = _LaplaceObjective(m, structure, start)
    objective.path.clear()
    reduction = np.inf
    converged = False
    bounds = [(None, None)] * p + [(-LARGEST, LARGEST)] * structure.n_parameters
    for _ in range(_RUNS):
        tol = problem.tolerance(objective.value.criterion)
        target = np.sqrt(tol / (p + structure.n_parameters))
        objective.units()
        options = {
            "maxiter": problem.max_iter,
            "maxfun": 2 * problem.max_iter,
            "ftol": 0.0,
            "gtol": target,
            "maxcor": 20,
        }
        run = minimize(
            objective,
            np.append(np.zeros(p), x),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=options,
        )
        x = objective.x
        if not isinstance(structure, FullCovariance):
            # Small roots of variances become zero, which raises D by rounding at most.
            roots = covariance.relative_stds(structure, x)
            small = (np.abs(roots) < _ZERO) & (roots != 0)
            if small.any():
                others = x[: len(x) - len(roots)]
                objective.moved(np.append(others, np.where(small, 0.0, roots)))
            x = objective.x
        is_at_bound = np.abs(np.append(np.zeros(p), x)) >= LARGEST
        slope = np.where(is_at_bound, 0.0, objective.slope)
        reduction = 0.5 * float(slope @ run.hess_inv.matvec(slope))
        information = partial(_information, objective.value)
        moved, escape_reduction = covariance.escape_boundary(
            structure,
            x,
            objective.value,
            information,
            zero_std=_ZERO,
            restart_std=_SMALL,
            max_step=1.0,
        )
        reduction = max(reduction, escape_reduction)
        tol = problem.tolerance(objective.value.criterion)
        if reduction < tol:
            converged = True
            break
        x = moved if escape_reduction >= tol else x
    n_evaluations = m.n_evaluations - before + base.fit.n_evaluations
    # With bounds at zero, the variances above zero are the degrees of freedom.
    if isinstance(structure, GroupedVariances):
        parameters = int(np.count_nonzero(x))
    else:
        parameters = structure.n_free_parameters
    fit = Fit(
        objective.value,
        x,
        objective.path,
        reduction,
        converged,
        n_evaluations,
        parameters,
    )
    return LaplaceFit(name, m, structure, fit)


def _information(value: LaplaceValue, direction: Array) -> float:
    """Return the expected second derivative of D in s, if s d d' is added to Theta."""
    squares = np.square(direction)
    return float(squares @ value.squares @ squares)
