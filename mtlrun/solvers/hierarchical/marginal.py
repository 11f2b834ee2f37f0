"""Restricted (or plain) marginal likelihood of a hierarchical linear model.

The model is y_t = X_t w_t + e with w_t = mu + u_t, u_t ~ N(0, s2 Theta) and
e ~ N(0, s2). D is minus twice the logarithm of its likelihood. With the compressed rows
R_t, z_t of a task (`compress`)::

    V_t = I + R_t Theta R_t'
    A_t = R_t' V_t^-1 R_t,  a_t = R_t' V_t^-1 z_t
    M = sum_t A_t,  mu = M^-1 sum_t a_t,  h_t = a_t - A_t mu
    r2 = sum_t (rest_t + z_t' V_t^-1 z_t) - mu' sum_t a_t
    s2 = r2 / nu,  nu = N - rank
    D = nu (log(2 pi s2) + 1) + sum_t log|V_t| + log|M|
    dD/dTheta = sum_t A_t - sum_t h_t h_t' / s2 - sum_t A_t M^-1 A_t

For "ml" the terms of M are left out, and nu is N. A ridge prior mu_j ~ N(0, s2 kappa)
of the columns `shrunk` makes their mean one more random effect, common to all tasks.
Theta is never inverted: it may be singular.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotri, dtrtri

from mtlrun.solvers.hierarchical.compress import Block, Compressed

Array = np.ndarray

#: Of the squares of one row, and of all rows of a table with few rows, this share
#: counts as noise in any case, so that a perfect fit has a likelihood.
_FLOOR = 1e-9
_FLOOR_FEW = 1e-6
# Of targets that do not vary at all.
_TINY = 1e-200
# Eigenvalues of the pooled Gram matrix below this mark collinear columns.
_COLLINEAR = 1e-10
_ROUNDING = 4 * np.finfo(float).eps
# Attempts to factorize a matrix, each with a hundred times as much of its trace on the
# diagonal.
_ATTEMPTS = 4
# Numbers in the p x p matrices of the tasks that a Hessian holds at a time.
_CHUNK = 1 << 23
# Rows of triangular matrices that are inverted at once.
_SMALL = 8
# From this many rows on, a single triangular matrix is inverted by LAPACK's own routine
# for them, which takes a third of the time of a general inverse.
_LARGE = 64
#: With more random columns the Hessian is the average information alone, which needs no
#: sums over pairs of columns.
WIDE = 256


@dataclass(frozen=True)
class MarginalValue:
    """Everything at one Theta.

    Attributes
    ----------
    criterion : float
        Minus twice the logarithm of the likelihood.
    mu : ndarray of shape (p,)
    s2 : float
        Variance of the noise.
    Theta : ndarray of shape (p_r,) or (p_r, p_r)
        Covariance of the random columns in units of s2, a vector for a diagonal.
    kappa : float or None
        Variance of the prior of the mean in units of s2.
    G : ndarray of the shape of Theta
        Gradient; of a vector the diagonal.
    g_kappa : float
    h : ndarray of shape (T, p_r)
    total : ndarray of shape (p,)
        Sum of h_t over all columns.
    Q : list of ndarray
        Whitened rows V_t^-1/2 R_t of each block.
    basis : ndarray of shape (p, f)
        mu is `basis` times numbers of which `inverse` is the covariance in units of s2.
    inverse, projected : ndarray of shape (f, f)
        The latter with zeros for what a plain likelihood does not integrate out.
    """

    criterion: float
    mu: Array
    s2: float
    Theta: Array
    kappa: float | None
    G: Array
    g_kappa: float
    h: Array
    total: Array
    Q: list[Array]
    basis: Array
    inverse: Array
    projected: Array

    def mean_covariance(self) -> Array:
        """Return the covariance of mu given the variances, (p, p)."""
        unscaled = self.basis @ self.inverse @ self.basis.T
        return np.asarray(self.s2 * unscaled)


class Marginal:
    """D as a function of Theta and kappa.

    Parameters
    ----------
    data : Compressed
    random : ndarray of int, optional
        Columns whose coefficients differ between tasks; default: all.
    method : {"reml", "ml"}
    shrunk : ndarray of int, optional
        Columns whose mean has a ridge prior; default: none, the mean is flat.
    frame : ndarray of shape (p, f), optional
        Basis of the mean. The restricted likelihood depends on it: data with other
        weights of the same rows need the same basis. Default: from `data`.
    """

    def __init__(
        self,
        data: Compressed,
        random: Array | None = None,
        method: str = "reml",
        shrunk: Array | None = None,
        frame: Array | None = None,
    ) -> None:
        p = data.p
        self.data = data
        self.method = method
        if random is None:
            self.random = np.arange(p)
        else:
            self.random = np.asarray(random, dtype=int)
        if shrunk is None:
            self.shrunk = np.zeros(0, dtype=int)
        else:
            self.shrunk = np.asarray(shrunk, dtype=int)
        self._has_all_random = np.array_equal(self.random, np.arange(p))
        shares_rows = len(data.blocks) == 1 and len(data.blocks[0].R) == 1
        self._has_one_design = shares_rows and self._has_all_random
        if frame is None:
            frame = np.eye(p) if len(self.shrunk) else _pooled_basis(data)
        self.frame = frame
        # Only where columns are collinear is the basis more than a change of units.
        self._has_diagonal_basis = frame.shape[1] == p
        # REML takes off a degree of freedom for each coefficient without a prior.
        n_lost = 0
        if method == "reml":
            n_lost = frame.shape[1] - len(self.shrunk)
        self.nu = max(data.N - n_lost, 1.0)
        floor = _FLOOR
        if len(self.shrunk):
            floor = _FLOOR_FEW * data.N
        self._floor = data.variance * floor
        self.n_evaluations = 0

    # -------------------------------------------------------------- value and gradient

    def __call__(self, Theta: Array, kappa: float | None = None) -> MarginalValue:
        """Evaluate D.

        Parameters
        ----------
        Theta : ndarray of shape (p_r, p_r), or (p_r,) for a diagonal
        kappa : float, optional
            Needed where there are shrunk columns.
        """
        self.n_evaluations += 1
        data = self.data
        # Whitened rows V_t^-1/2 R_t and targets V_t^-1/2 z_t of each block.
        Q = []
        Z = []
        logdet = 0.0
        for block in data.blocks:
            RJ = self._of_random(block.R)
            q, v, block_logdet = whitened(block, RJ, Theta)
            Q.append(q)
            Z.append(v)
            logdet += float(block_logdet.sum())
        basis, prior = self._basis(kappa)
        QF = [self._on_basis(q, basis) for q in Q]
        SA = _pooled(data.blocks, QF, QF)
        Sa = np.zeros(basis.shape[1])
        for qf, v in zip(QF, Z, strict=True):
            if len(qf) == len(v):
                Sa = Sa + np.tensordot(qf, v, ([0, 1], [0, 1]))
            else:
                # All tasks of the block share the design.
                Sa = Sa + qf[0].T @ v.sum(axis=0)
        inverse, logdet_mean = _inverse(SA + np.diag(prior))
        b = inverse @ Sa
        mu = basis @ b
        h = np.empty((data.T, len(self.random)))
        total = np.zeros(data.p)
        # The residual squares are summed from the residuals: the formula of the module
        # docstring, a difference of two large numbers, would lose digits.
        squares = 0.0
        for block, q, v in zip(data.blocks, Q, Z, strict=True):
            residual = v - q @ mu
            squares += float(np.square(residual).sum())
            qj = self._of_random(q)
            h[block.tasks] = np.matmul(residual[:, None, :], qj)[:, 0]
            if len(q) == 1:
                total += q[0].T @ residual.sum(axis=0)
            else:
                total += np.tensordot(residual, q, ([0, 1], [0, 1]))
        prior_squares = float(prior @ np.square(b))
        r2 = data.rest.sum() + squares + prior_squares + self._floor
        s2 = max(r2, _TINY) / self.nu
        # "reml" integrates over all numbers of the mean, "ml" over those with a prior.
        # The covariance of these is `projected`.
        projected = inverse
        if self.method != "reml":
            projected = np.zeros_like(inverse)
            logdet_mean = 0.0
            has_prior = prior > 0
            if has_prior.any():
                M = SA + np.diag(prior)
                selection = np.ix_(has_prior, has_prior)
                projected[selection], logdet_mean = _inverse(M[selection])
        noise_term = self.nu * (np.log(2 * np.pi * s2) + 1.0)
        D = noise_term + logdet + logdet_mean
        is_diagonal = Theta.ndim == 1
        G, g_kappa = self._gradient(
            Q,
            QF,
            projected,
            h=h,
            total=total,
            s2=s2,
            is_diagonal=is_diagonal,
        )
        return MarginalValue(
            criterion=float(D),
            mu=mu,
            s2=float(s2),
            Theta=Theta,
            kappa=kappa,
            G=G,
            g_kappa=g_kappa,
            h=h,
            total=total,
            Q=Q,
            basis=basis,
            inverse=inverse,
            projected=projected,
        )

    def _of_random(self, A: Array) -> Array:
        """Return the random columns of (m, k, p)."""
        if self._has_all_random:
            return A
        return np.ascontiguousarray(A[:, :, self.random])

    def _on_basis(self, A: Array, basis: Array) -> Array:
        """Return ``A @ basis`` for (m, k, p) and a basis of the mean."""
        if self._has_diagonal_basis:
            return A * np.diagonal(basis)
        return A @ basis

    def _basis(self, kappa: float | None) -> tuple[Array, Array]:
        """Return the basis (p, f) of mu, and the precisions (f,) of its numbers.

        The numbers have the variance s2 / precision; a precision of 0 is a flat prior.
        """
        prior = np.zeros(self.frame.shape[1])
        if not len(self.shrunk):
            return self.frame, prior
        if kappa is None:
            raise ValueError("a mean with a prior needs its variance kappa")
        scale = np.ones(self.data.p)
        scale[self.shrunk] = np.sqrt(kappa)
        prior[self.shrunk] = 1.0
        return np.diag(scale), prior

    def _gradient(
        self,
        Q: list[Array],
        QF: list[Array],
        projected: Array,
        h: Array,
        total: Array,
        s2: float,
        is_diagonal: bool,
    ) -> tuple[Array, float]:
        """Return the derivatives of D in Theta (or its diagonal) and in kappa."""
        p = len(self.random)
        if is_diagonal:
            G = -np.square(h).sum(axis=0) / s2
        else:
            G = -(h.T @ h) / s2
        has_projection = bool(projected.any())
        trace: float | None = None
        for block, q, qf in zip(self.data.blocks, Q, QF, strict=True):
            qj = self._of_random(q)
            left = qj
            if has_projection:
                of_mean = qf @ projected @ qf.transpose(0, 2, 1)
                explained = of_mean @ qj
                left = qj - explained
                if self._has_one_design:
                    # The trace of `_common` of tasks that share their rows Q. With the
                    # basis F of the mean it is that of T Q'Q - T^2 Q'QF P F'Q'Q.
                    columns = q[0][:, self.shrunk]
                    squares = np.square(columns).sum()
                    mean_part = np.sum(columns * explained[0][:, self.shrunk])
                    trace = float(block.copies * squares - block.copies**2 * mean_part)
            # The rows of all tasks of the block, below each other. With -1 for their
            # number, reshape would refuse p = 0.
            n_rows = qj.shape[0] * qj.shape[1]
            flat = qj.reshape(n_rows, p)
            flat_left = left.reshape(n_rows, p)
            if is_diagonal:
                block_G = np.einsum("ij,ij->j", flat, flat_left)
            else:
                block_G = flat.T @ flat_left
            G = G + block.copies * block_G
        if not is_diagonal:
            # Symmetric but for rounding.
            G = (G + G.T) / 2
        if not len(self.shrunk):
            return G, 0.0
        sums = total[self.shrunk]
        if trace is None:
            trace = float(np.trace(self._common(Q, QF, projected)))
        return G, float(trace - sums @ sums / s2)

    def _common(self, Q: list[Array], QF: list[Array], projected: Array) -> Array:
        """Return X' P X of the shrunk columns."""
        A = _pooled(self.data.blocks, Q, Q)
        AF = _pooled(self.data.blocks, Q, QF)
        product = A - AF @ projected @ AF.T
        selection = np.ix_(self.shrunk, self.shrunk)
        return np.asarray(product[selection])

    # -------------------------------------------------------------- second derivatives

    def hessian(self, value: MarginalValue, indicator: Array) -> tuple[Array, Array]:
        """Return the exact and the expected Hessian of D as a function of variances.

        The variance s2 of the noise is profiled out in both.

        Parameters
        ----------
        value : MarginalValue
            At a diagonal Theta.
        indicator : ndarray of shape (p_r, g)
            The diagonal of Theta is `indicator` times the variances of g groups of
            columns. With shrunk columns, kappa is one more variance.
        """
        s2 = value.s2
        h = value.h
        g = indicator.shape[1]
        has_kappa = len(self.shrunk) > 0
        is_wide = len(self.random) > WIDE and g > 2
        sums = _Sums(self, value, indicator, is_wide)
        quadratic = sums.quadratic()
        # The derivatives of D are traces minus these slopes.
        slopes = indicator.T @ np.square(h).sum(axis=0)
        gradient = indicator.T @ value.G
        if has_kappa:
            common_square = np.square(value.total[self.shrunk]).sum()
            slopes = np.append(slopes, [common_square])
            gradient = np.append(gradient, [value.g_kappa])
        slopes = slopes / s2
        traces = gradient + slopes
        # Profiling s2 out subtracts an outer product, of slopes or their expectations.
        observed_profile = np.outer(slopes, slopes) / self.nu
        expected_profile = np.outer(traces, traces) / self.nu
        if is_wide:
            # In the average of both Hessians the sums over pairs of columns cancel.
            average = quadratic / s2 - 0.5 * (observed_profile + expected_profile)
            return average, average
        info = sums.information()
        exact = 2 * quadratic / s2 - info - observed_profile
        return exact, info - expected_profile

    @property
    def has_full_rank(self) -> bool:
        """Whether no column is a combination of others."""
        return self.frame.shape[1] == self.data.p

    @property
    def scale(self) -> Array:
        """Variance of each random coefficient as one mean task estimates it, (p_r,).

        It is in units of s2, and ignores other columns.
        """
        return self._scales[self.random]

    @property
    def middle(self) -> float:
        """The median scale of all columns: the start of the variance kappa."""
        return float(np.median(self._scales))

    @cached_property
    def _scales(self) -> Array:
        squares: Any = 0
        for block in self.data.blocks:
            squares = squares + block.copies * np.square(block.R).sum(axis=(0, 1))
        mean = np.asarray(squares) / self.data.T
        # A column of rare entries has few squares: its scale stays finite.
        smallest = 1e-3 * max(float(np.median(mean)), 1e-12)
        return np.asarray(1.0 / np.maximum(mean, smallest))


class _Sums:
    """Sums over tasks that the Hessian needs, in chunks of tasks."""

    def __init__(
        self,
        marginal: Marginal,
        value: MarginalValue,
        indicator: Array,
        is_wide: bool,
    ) -> None:
        self.m = marginal
        self.v = value
        self.indicator = indicator
        f = value.basis.shape[1]
        p = len(marginal.random)
        # Sums over tasks of A * (h h'), of A_F with rows times h (F is the basis of the
        # mean), of A * A, and of the part of the latter that the estimated mean
        # explains.
        self.weighted = np.zeros((p, p))
        self.cross = np.zeros((p, f))
        self.squares = np.zeros((p, p))
        self.second = np.zeros((p, p))
        self.third = np.zeros((0, f, f))
        if not is_wide:
            self.third = np.zeros((indicator.shape[1], f, f))
        self.has_projection = bool(value.projected.any())
        self.is_wide = is_wide
        self.has_common = len(marginal.shrunk) > 0
        if self.has_common:
            # The prior of the mean is a random effect of all tasks together, with the
            # columns X_S.
            QF = [marginal._on_basis(q, value.basis) for q in value.Q]
            AF = _pooled(marginal.data.blocks, value.Q, QF)[marginal.shrunk]
            self.P = marginal._common(value.Q, QF, value.projected)
            self.exact = self.P
            if value.projected is not value.inverse:
                # A plain likelihood does not integrate over the mean.
                self.exact = marginal._common(value.Q, QF, value.inverse)
            self.left = AF @ value.projected
            self.left_exact = AF @ value.inverse
            self.border = np.zeros(p)
            self.h_border = np.zeros(p)
        for block, q in zip(marginal.data.blocks, value.Q, strict=True):
            h = value.h[block.tasks]
            if len(q) == 1:
                self._add(block.copies, h, q)
                continue
            step = max(1, _CHUNK // q.shape[2] ** 2)
            for i in range(0, len(q), step):
                chunk = slice(i, i + step)
                self._add(1.0, h[chunk], q[chunk])

    def _add(self, copies: float, h: Array, q: Array) -> None:
        qj = self.m._of_random(q)
        qf = self.m._on_basis(q, self.v.basis)
        A = qj.transpose(0, 2, 1) @ qj
        AF = qj.transpose(0, 2, 1) @ qf
        if len(q) == 1:
            self.weighted += A[0] * (h.T @ h)
            self.cross += h.sum(axis=0)[:, None] * AF[0]
        else:
            self.weighted += np.einsum("tj,tjk,tk->jk", h, A, h, optimize=True)
            self.cross += np.einsum("tj,tjf->jf", h, AF)
        if self.is_wide:
            return
        self.squares += copies * np.square(A).sum(axis=0)
        if self.has_projection:
            AB = AF @ self.v.projected
            of_mean = AB @ AF.transpose(0, 2, 1)
            self.second += copies * (A * of_mean).sum(axis=0)
            for g in range(self.indicator.shape[1]):
                is_in_group = self.indicator[:, g] > 0
                rows = AF[:, is_in_group].reshape(-1, AF.shape[2])
                self.third[g] += copies * (rows.T @ rows)
        if self.has_common:
            A = q[:, :, self.m.shrunk].transpose(0, 2, 1) @ qj
            mean_products = qf.transpose(0, 2, 1) @ qj
            products = A - self.left @ mean_products
            self.border += copies * np.square(products).sum(axis=(0, 1))
            c = self.v.total[self.m.shrunk]
            # Of shape (m, p_r), or (1, p_r) where the tasks share their rows.
            inner = c @ (A - self.left_exact @ mean_products)
            repeated = np.broadcast_to(inner, h.shape)
            self.h_border += (repeated * h).sum(axis=0)

    def quadratic(self) -> Array:
        """Return y' P V_j P V_k P y."""
        v = self.v
        of_mean = self.cross @ v.inverse @ self.cross.T
        products = self.weighted - of_mean
        inner = self.indicator.T @ products @ self.indicator
        if not self.has_common:
            return np.asarray(inner)
        c = v.total[self.m.shrunk]
        border = self.h_border @ self.indicator
        corner = float(c @ self.exact @ c)
        return _bordered(inner, border, corner)

    def information(self) -> Array:
        """Return tr(P V_j P V_k)."""
        pairs = self.squares - 2 * self.second
        info = self.indicator.T @ pairs @ self.indicator
        if self.has_projection:
            inner = self.v.projected @ self.third
            transposed = inner.transpose(0, 2, 1)
            info = info + np.tensordot(inner, transposed, ([1, 2], [1, 2]))
        if not self.has_common:
            return np.asarray(info)
        border = self.border @ self.indicator
        corner = float(np.square(self.P).sum())
        return _bordered(info, border, corner)

    # The prior of the mean is a random effect of all tasks together, with the columns
    # X_S.


def _bordered(inner: Array, border: Array, corner: float) -> Array:
    """Return a symmetric matrix with one more row and column."""
    top = [inner, border[:, None]]
    bottom = [border[None, :], np.array([[corner]])]
    return np.block([top, bottom])


def whitened(
    block: Block,
    RJ: Array,
    Theta: Array,
    invert: Callable[[Array], Array] = np.linalg.inv,
) -> tuple[Array, Array, Array]:
    """Whiten the tasks of a block by V = I + RJ Theta RJ'.

    Parameters
    ----------
    block : Block
    RJ : ndarray of shape (m or 1, k, p_r)
        Random columns of its rows.
    Theta : ndarray of shape (p_r,) or (p_r, p_r)
    invert : callable
        Inverts lower triangular matrices (m, k, k).

    Returns
    -------
    rows : ndarray of shape (m or 1, k, p)
        V^-1/2 R.
    targets : ndarray of shape (m, k)
        V^-1/2 z.
    logdet : ndarray of shape (m,)
        log|V|.
    """
    k = RJ.shape[1]
    if Theta.ndim == 1:
        product = RJ * Theta
    else:
        product = RJ @ Theta
    V = product @ RJ.transpose(0, 2, 1)
    C = cholesky_of_one_plus(V)
    if len(C) == 1 and k >= _LARGE:
        inverse = np.ascontiguousarray(dtrtri(C[0], lower=1)[0])[None]
    else:
        inverse = invert(C)
    diagonals = C[:, np.arange(k), np.arange(k)]
    logdets = 2.0 * np.log(diagonals).sum(axis=1)
    logdet = np.broadcast_to(logdets, len(block.z))
    if len(inverse) == 1:
        z = block.z @ inverse[0].T
    else:
        z = np.matmul(inverse, block.z[:, :, None])[:, :, 0]
    return inverse @ block.R, z, logdet


def as_matrix(Theta: Array) -> Array:
    """Return a covariance as a matrix; an array with one axis is its diagonal."""
    if Theta.ndim == 1:
        return np.diag(Theta)
    return Theta


def cholesky_of_one_plus(V: Array) -> Array:
    """Return Cholesky factors of I + V for positive semidefinite V (m, k, k).

    V is overwritten. A line search may try a Theta so large that the 1 is lost in
    rounding. Then the diagonal is increased until the matrices are positive definite.
    """
    k = V.shape[1]
    diagonal = np.arange(k)
    trace = np.trace(V, axis1=1, axis2=2)[:, None]
    share = _ROUNDING * k
    V[:, diagonal, diagonal] += 1.0 + share * trace
    for _ in range(_ATTEMPTS):
        try:
            return np.linalg.cholesky(V)
        except np.linalg.LinAlgError:
            V[:, diagonal, diagonal] += 99.0 * share * trace
            share *= 100.0
    return np.linalg.cholesky(V)


def inverse_by_halves(C: Array) -> Array:
    """Invert lower triangular matrices (m, k, k), twice as fast as NumPy.

    Their rounding differs. A normal fit must not use them: the priors that start from
    it would stop elsewhere.
    """
    k = C.shape[1]
    if k <= _SMALL:
        return np.linalg.inv(C)
    h = k // 2
    # The inverse of [[A, 0], [B, D]] is [[A^-1, 0], [-D^-1 B A^-1, D^-1]].
    upper = inverse_by_halves(C[:, :h, :h])
    lower = inverse_by_halves(C[:, h:, h:])
    inverse = np.zeros_like(C)
    inverse[:, :h, :h] = upper
    inverse[:, h:, h:] = lower
    inverse[:, h:, :h] = -lower @ (C[:, h:, :h] @ upper)
    return inverse


def _pooled(blocks: list[Block], A: list[Array], B: list[Array]) -> Array:
    """Return the sum of A_t' B_t over all tasks."""
    total: Any = 0
    for block, a, b in zip(blocks, A, B, strict=True):
        # One product of the rows of all tasks, below each other.
        rows_a = a.reshape(-1, a.shape[2])
        rows_b = b.reshape(-1, b.shape[2])
        product = rows_a.T @ rows_b
        total = total + block.copies * product
    return np.asarray(total)


def _pooled_basis(data: Compressed) -> Array:
    """Return a basis (p, rank) of the columns of all rows together.

    Without it, the means of collinear columns would not be determined.
    """
    S = data.moments() * data.N
    squares = np.diag(S)
    unit = np.sqrt(np.where(squares > 0, squares, 1.0))
    correlations = S / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(correlations)
    kept = values > _COLLINEAR * len(S)
    if kept.all():
        return np.eye(len(S))
    return (vectors / unit[:, None])[:, kept]


def _inverse(M: Array) -> tuple[Array, float]:
    """Return the inverse and log|M| of a positive definite matrix.

    The Cholesky factor of its correlations is more accurate than the factor of a matrix
    whose columns differ in units.
    """
    if not len(M):
        return M, 0.0
    unit = 1.0 / np.sqrt(np.diag(M))
    correlations = M * np.outer(unit, unit)
    C = np.linalg.cholesky(correlations)
    log_of_correlations = 2 * np.log(np.diag(C)).sum()
    logdet = log_of_correlations - 2 * np.log(unit).sum()
    if len(M) < _LARGE:
        half = np.linalg.inv(C) * unit
        return half.T @ half, float(logdet)
    # dpotri returns only the lower triangle of the inverse of C C'.
    inverse, _ = dpotri(C, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    return inverse * np.outer(unit, unit), float(logdet)
