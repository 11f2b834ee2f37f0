"""Restricted (or plain) marginal likelihood of y_t = X_t w_t + e, w_t = mu + u_t, u_t ~ N(0, s2 Theta), e ~ N(0, s2).

Minus twice its logarithm, D, with its derivatives. With R_t, z_t the compressed rows of
a task (`compress`)::

    V_t = I + R_t Theta R_t',  A_t = R_t' V_t^-1 R_t,  a_t = R_t' V_t^-1 z_t,  M = sum_t A_t,  mu = M^-1 sum_t a_t
    h_t = a_t - A_t mu,  r2 = sum_t (rest_t + z_t' V_t^-1 z_t) - mu' sum_t a_t,  s2 = r2 / nu,  nu = N - rank
    D = nu (log(2 pi s2) + 1) + sum_t log|V_t| + log|M|
    dD/dTheta = sum_t A_t - sum_t h_t h_t' / s2 - sum_t A_t M^-1 A_t

For "ml" the terms of M are left out and nu is N. A ridge prior mu_j ~ N(0, s2 kappa) of
the columns `shrunk` makes their mean one more random effect, common to all tasks. No
inverse of Theta occurs: it may be singular.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mtlrun.solvers.hierarchical.compress import Block, Compressed

Array = np.ndarray[Any, np.dtype[Any]]

#: Of the squares of one row, and of all rows of a table with few rows, this share
#: counts as noise whatever the rows say: a perfect fit has a likelihood.
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
        return np.asarray(self.s2 * (self.basis @ self.inverse @ self.basis.T))


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
    """

    def __init__(
        self,
        data: Compressed,
        random: Array | None = None,
        method: str = "reml",
        shrunk: Array | None = None,
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
        if len(self.shrunk):
            self._frame = np.eye(p)
        else:
            self._frame = _pooled_basis(data)
        flat = self._frame.shape[1] - len(self.shrunk)
        self.nu = max(data.N - (flat if method == "reml" else 0), 1.0)
        self._floor = data.variance * (
            _FLOOR_FEW * data.N if len(self.shrunk) else _FLOOR
        )
        self.n_evaluations = 0

    # ------------------------------------------------------------------ value and gradient

    def __call__(self, Theta: Array, kappa: float | None = None) -> MarginalValue:
        """Evaluate D.

        Parameters
        ----------
        Theta : ndarray of shape (p_r, p_r), or (p_r,) for a diagonal
        kappa : float, optional
            Needed where there are shrunk columns.
        """
        self.n_evaluations += 1
        T = self.data.T
        data = self.data
        whitened_blocks = [
            whitened(block, self._of_random(block.R), Theta) for block in data.blocks
        ]
        logdet = sum(float(part[2].sum()) for part in whitened_blocks)
        Q = [part[0] for part in whitened_blocks]
        basis, prior = self._basis(kappa)
        QF = [q @ basis for q in Q]
        SA = _pooled(data.blocks, QF, QF)
        Sa = np.zeros(basis.shape[1])
        for qf, (_, v, _) in zip(QF, whitened_blocks, strict=True):
            if len(qf) == len(v):
                Sa = Sa + np.tensordot(qf, v, ([0, 1], [0, 1]))
            else:
                # All tasks of the block share the design.
                Sa = Sa + qf[0].T @ v.sum(axis=0)
        inverse, logdet_mean = _inverse(SA + np.diag(prior))
        b = inverse @ Sa
        mu = basis @ b
        h = np.empty((T, len(self.random)))
        total = np.zeros(data.p)
        squares = 0.0
        for block, (q, v, _) in zip(data.blocks, whitened_blocks, strict=True):
            residual = v - q @ mu
            squares += float(np.square(residual).sum())
            h[block.tasks] = np.matmul(residual[:, None, :], self._of_random(q))[:, 0]
            total += (
                q[0].T @ residual.sum(axis=0)
                if len(q) == 1
                else np.tensordot(residual, q, ([0, 1], [0, 1]))
            )
        r2 = data.rest.sum() + squares + float(prior @ np.square(b)) + self._floor
        s2 = max(r2, _TINY) / self.nu
        projected, added = self._integrated(inverse, SA, prior, logdet_mean)
        D = self.nu * (np.log(2 * np.pi * s2) + 1.0) + logdet + added
        G, g_kappa = self._gradient(Q, QF, projected, h, total, s2, Theta.ndim == 1)
        return MarginalValue(
            float(D),
            mu,
            float(s2),
            Theta,
            kappa,
            G,
            g_kappa,
            h,
            total,
            Q,
            basis,
            inverse,
            projected,
        )

    def _of_random(self, A: Array) -> Array:
        """Return the random columns of (m, k, p)."""
        if self._has_all_random:
            return A
        return np.ascontiguousarray(A[:, :, self.random])

    def _basis(self, kappa: float | None) -> tuple[Array, Array]:
        """Return the columns in which mu is a number of variance s2 / prior; a prior of 0 is flat."""
        prior = np.zeros(self._frame.shape[1])
        if not len(self.shrunk):
            return self._frame, prior
        if kappa is None:
            raise ValueError("a mean with a prior needs its variance kappa")
        scale = np.ones(self.data.p)
        scale[self.shrunk] = np.sqrt(kappa)
        prior[self.shrunk] = 1.0
        return np.diag(scale), prior

    def _integrated(
        self, inverse: Array, SA: Array, prior: Array, logdet: float
    ) -> tuple[Array, float]:
        """Return the covariance of the coefficients integrated out, and their contribution to D."""
        if self.method == "reml":
            return inverse, logdet
        projected = np.zeros_like(inverse)
        has_prior = prior > 0
        if not has_prior.any():
            return projected, 0.0
        part, logdet = _inverse((SA + np.diag(prior))[np.ix_(has_prior, has_prior)])
        projected[np.ix_(has_prior, has_prior)] = part
        return projected, logdet

    def _gradient(
        self,
        Q: list[Array],
        QF: list[Array],
        projected: Array,
        h: Array,
        total: Array,
        s2: float,
        diagonal: bool,
    ) -> tuple[Array, float]:
        p = len(self.random)
        if diagonal:
            G = -np.square(h).sum(axis=0) / s2
        else:
            G = -(h.T @ h) / s2
        some = bool(projected.any())
        for block, q, qf in zip(self.data.blocks, Q, QF, strict=True):
            qj = self._of_random(q)
            if some:
                left = qj - (qf @ projected @ qf.transpose(0, 2, 1)) @ qj
            else:
                left = qj
            flat, flat_left = (
                a.reshape(a.shape[0] * a.shape[1], p) for a in (qj, left)
            )
            G = G + block.copies * (
                np.einsum("ij,ij->j", flat, flat_left)
                if diagonal
                else flat.T @ flat_left
            )
        if not diagonal:
            G = (G + G.T) / 2
        if not len(self.shrunk):
            return G, 0.0
        seen = total[self.shrunk]
        return G, float(np.trace(self._common(Q, QF, projected)) - seen @ seen / s2)

    def _common(self, Q: list[Array], QF: list[Array], projected: Array) -> Array:
        """Return X' P X of the shrunk columns."""
        A = _pooled(self.data.blocks, Q, Q)
        AF = _pooled(self.data.blocks, Q, QF)
        return np.asarray((A - AF @ projected @ AF.T)[np.ix_(self.shrunk, self.shrunk)])

    # ------------------------------------------------------------------ second derivatives

    def hessian(self, value: MarginalValue, indicator: Array) -> tuple[Array, Array]:
        """Return the exact and the expected Hessian of D, s2 profiled in both.

        Parameters
        ----------
        value : Value
            At a diagonal Theta.
        indicator : ndarray of shape (p_r, g)
            Its diagonal is indicator times the variances of g groups of columns. With
            shrunk columns kappa is one more.
        """
        s2 = value.s2
        h = value.h
        g = indicator.shape[1]
        extra = len(self.shrunk) > 0
        size = g + extra
        wide = len(self.random) > WIDE and g > 2
        sums = _Sums(self, value, indicator, wide)
        quadratic = sums.quadratic()
        slopes = (
            np.append(
                indicator.T @ np.square(h).sum(axis=0),
                [np.square(value.total[self.shrunk]).sum()] * extra,
            )
            / s2
        )
        traces = np.append(indicator.T @ value.G, [value.g_kappa] * extra) + slopes
        seen = np.outer(slopes, slopes) / self.nu
        mean = np.outer(traces, traces) / self.nu
        if wide:
            average = quadratic / s2 - 0.5 * (seen + mean)
            return average, average
        info = sums.information()
        assert info.shape == (size, size)
        return 2 * quadratic / s2 - info - seen, info - mean

    @property
    def has_full_rank(self) -> bool:
        """Whether no column is a combination of others."""
        return self._frame.shape[1] == self.data.p

    @property
    def scale(self) -> Array:
        """A variance of each random column that one task would just notice, (p_r,)."""
        return self._scales[self.random]

    @property
    def middle(self) -> float:
        """The median scale of all columns: where the variance kappa of their mean starts."""
        return float(np.median(self._scales))

    @cached_property
    def _scales(self) -> Array:
        total = sum(
            block.copies * np.square(block.R).sum(axis=(0, 1))
            for block in self.data.blocks
        )
        mean = np.asarray(total) / self.data.T
        return np.asarray(
            1.0 / np.maximum(mean, 1e-3 * max(float(np.median(mean)), 1e-12))
        )


class _Sums:
    """Sums over tasks that the Hessian needs, in chunks of tasks."""

    def __init__(
        self, marginal: Marginal, value: MarginalValue, indicator: Array, wide: bool
    ) -> None:
        self.m = marginal
        self.v = value
        self.indicator = indicator
        f = value.basis.shape[1]
        p = len(marginal.random)
        self.weighted = np.zeros((p, p))
        self.squares = np.zeros((p, p))
        self.second = np.zeros((p, p))
        self.cross = np.zeros((p, f))
        self.third = np.zeros((0 if wide else indicator.shape[1], f, f))
        self.some = bool(value.projected.any())
        self.wide = wide
        self.common: dict[str, Array] = {}
        if len(marginal.shrunk):
            self._start_common()
        for copies, h, q in self._chunks():
            self._add(copies, h, q)

    def _chunks(self) -> Iterator[tuple[float, Array, Array]]:
        """Yield tasks per design, h and whitened rows of some tasks."""
        for block, q in zip(self.m.data.blocks, self.v.Q, strict=True):
            h = self.v.h[block.tasks]
            if len(q) == 1:
                yield block.copies, h, q
                continue
            step = max(1, _CHUNK // (q.shape[2] ** 2))
            for i in range(0, len(q), step):
                yield 1.0, h[i : i + step], q[i : i + step]

    def _add(self, copies: float, h: Array, q: Array) -> None:
        qj = self.m._of_random(q)
        qf = q @ self.v.basis
        A = qj.transpose(0, 2, 1) @ qj
        AF = qj.transpose(0, 2, 1) @ qf
        if len(q) == 1:
            self.weighted += A[0] * (h.T @ h)
            self.cross += h.sum(axis=0)[:, None] * AF[0]
        else:
            self.weighted += np.einsum("tj,tjk,tk->jk", h, A, h, optimize=True)
            self.cross += np.einsum("tj,tjf->jf", h, AF)
        if self.wide:
            return
        self.squares += copies * np.square(A).sum(axis=0)
        if self.some:
            AB = AF @ self.v.projected
            self.second += copies * (A * (AB @ AF.transpose(0, 2, 1))).sum(axis=0)
            for g in range(self.indicator.shape[1]):
                rows = AF[:, self.indicator[:, g] > 0].reshape(-1, AF.shape[2])
                self.third[g] += copies * (rows.T @ rows)
        if self.common:
            self._add_common(copies, h, q, qj)

    def quadratic(self) -> Array:
        """Return y' P V_j P V_k P y."""
        indicator = self.indicator
        v = self.v
        inner = (
            indicator.T
            @ (self.weighted - self.cross @ v.inverse @ self.cross.T)
            @ indicator
        )
        if not self.common:
            return np.asarray(inner)
        c = v.total[self.m.shrunk]
        return _bordered(
            inner, self.common["seen"] @ indicator, float(c @ self.common["exact"] @ c)
        )

    def information(self) -> Array:
        """Return tr(P V_j P V_k)."""
        info = self.indicator.T @ (self.squares - 2 * self.second) @ self.indicator
        if self.some:
            inner = self.v.projected @ self.third
            info = info + np.tensordot(
                inner, inner.transpose(0, 2, 1), ([1, 2], [1, 2])
            )
        if not self.common:
            return np.asarray(info)
        return _bordered(
            info,
            self.common["border"] @ self.indicator,
            float(np.square(self.common["P"]).sum()),
        )

    # The prior of the mean is a random effect of all tasks together, with the columns
    # X_S.

    def _start_common(self) -> None:
        m = self.m
        v = self.v
        QF = [q @ v.basis for q in v.Q]
        AF = _pooled(m.data.blocks, v.Q, QF)[m.shrunk]
        p = len(m.random)
        self.common = {
            "P": m._common(v.Q, QF, v.projected),
            "exact": m._common(v.Q, QF, v.inverse),
            "left": AF @ v.projected,
            "left_exact": AF @ v.inverse,
            "border": np.zeros(p),
            "seen": np.zeros(p),
        }

    def _add_common(self, copies: float, h: Array, q: Array, qj: Array) -> None:
        A = q[:, :, self.m.shrunk].transpose(0, 2, 1) @ qj
        AF = (q @ self.v.basis).transpose(0, 2, 1) @ qj
        self.common["border"] += copies * np.square(A - self.common["left"] @ AF).sum(
            axis=(0, 1)
        )
        c = self.v.total[self.m.shrunk]
        inner = c @ (A - self.common["left_exact"] @ AF)  # (m, p_r)
        self.common["seen"] += (np.broadcast_to(inner, h.shape) * h).sum(axis=0)


def _bordered(inner: Array, border: Array, corner: float) -> Array:
    return np.block([[inner, border[:, None]], [border[None, :], np.array([[corner]])]])


def whitened(
    block: Block,
    RJ: Array,
    Theta: Array,
    invert: Callable[[Array], Array] = np.linalg.inv,
) -> tuple[Array, Array, Array]:
    """Return V^-1/2 R (m, k, p), V^-1/2 z (m, k) and log|V| of each task of a block, (m,)."""
    k = RJ.shape[1]
    V = (RJ * Theta if Theta.ndim == 1 else RJ @ Theta) @ RJ.transpose(0, 2, 1)
    C = cholesky_of_one_plus(V)
    inverse = invert(C)
    logdet = np.broadcast_to(
        2.0 * np.log(C[:, np.arange(k), np.arange(k)]).sum(axis=1), len(block.z)
    )
    if len(inverse) == 1:
        z = block.z @ inverse[0].T
    else:
        z = np.matmul(inverse, block.z[:, :, None])[:, :, 0]
    return inverse @ block.R, z, logdet


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
    """Return the inverses of lower triangular matrices (m, k, k), twice as fast as numpy.

    Their rounding differs. A normal fit must not use them: the priors that start from
    it would stop elsewhere.
    """
    k = C.shape[1]
    if k <= _SMALL:
        return np.linalg.inv(C)
    h = k // 2
    inverse = np.zeros_like(C)
    inverse[:, :h, :h] = inverse_by_halves(C[:, :h, :h])
    inverse[:, h:, h:] = inverse_by_halves(C[:, h:, h:])
    inverse[:, h:, :h] = -inverse[:, h:, h:] @ (C[:, h:, :h] @ inverse[:, :h, :h])
    return inverse


def _pooled(blocks: list[Block], A: list[Array], B: list[Array]) -> Array:
    """Return the sum of A_t' B_t over all tasks."""
    return np.asarray(
        sum(
            block.copies * (a.reshape(-1, a.shape[2]).T @ b.reshape(-1, b.shape[2]))
            for block, a, b in zip(blocks, A, B, strict=True)
        )
    )


def _pooled_basis(data: Compressed) -> Array:
    """Return a basis of the columns of all rows together, so that collinear columns have one mean; (p, rank)."""
    S = data.moments() * data.N
    unit = np.sqrt(np.where(np.diag(S) > 0, np.diag(S), 1.0))
    values, vectors = np.linalg.eigh(S / np.outer(unit, unit))
    kept = values > _COLLINEAR * len(S)
    if kept.all():
        return np.eye(len(S))
    return (vectors / unit[:, None])[:, kept]


def _inverse(M: Array) -> tuple[Array, float]:
    """Return the inverse and log|M| of a positive definite matrix, by a Cholesky factor of its correlations."""
    if not len(M):
        return M, 0.0
    unit = 1.0 / np.sqrt(np.diag(M))
    C = np.linalg.cholesky(M * np.outer(unit, unit))
    half = np.linalg.inv(C) * unit
    return half.T @ half, float(2 * np.log(np.diag(C)).sum() - 2 * np.log(unit).sum())
