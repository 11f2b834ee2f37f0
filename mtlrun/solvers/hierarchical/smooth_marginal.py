"""Restricted marginal likelihood of a smooth hierarchical model.

The model of the targets y of N rows, A (N, m) the features of the common parts::

    y = mu 1 + A u + g + e,   u_j ~ N(0, s2 theta_j),   e ~ N(0, s2 W^-1),
    g = sum over own parts k of g_k,   g_k ~ N(0, s2 theta_k K_k),
    K_k block diagonal over tasks

    V = B + A S^2 A',   B = W^-1 + sum_k theta_k K_k,
    S the roots of theta_j of the features

Minus twice the logarithm of the restricted likelihood, up to a constant, with s2
profiled out and nu = N - 1::

    G = [A 1 y]' B^-1 [A 1 y],  M = I + S G_AA S = L L',
    R = L^-1 S G_A,  H = G_[1 y] - R'R
    f = 1'V^-1 1 = H_11,  mu = H_1y / f,  nu s2 = H_yy - H_1y^2 / f
    D = nu log s2 + log|B| + log|M| + log f

With P = V^-1 - V^-1 1 1'V^-1 / f, a = P y and V_i the derivative of V in theta_i::

    q_i = a'V_i a / s2
    dD/dtheta_i = tr(P V_i) - q_i
    second derivative = 2 a'V_i P V_j a / s2 - tr(P V_i P V_j) - q_i q_j / nu
    expected one = tr(P V_i P V_j) - tr(P V_i) tr(P V_j) / nu

P = B^-1 - U U' with U = B^-1 [A 1] times small matrices, so nothing of size N x N is
formed: an evaluation costs N m^2 and the cubes of the sizes of the tasks.

Labels use the same formulas with the noise known, s2 = 1, and with a normal prior of
the mean, whose precision is added to f (`smooth_labels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dtrtri

from mtlrun.solvers.hierarchical.smooth_blocks import BlockList, product_without_zeros

Array = np.ndarray

#: Variance of the noise of standardized targets below which the criterion levels off: a
#: perfect fit has no likelihood. It enters as the root of a sum of squares, so that it
#: changes nothing where the noise is larger.
NOISE_FLOOR = 1e-7
#: Eigenvalues of S G_AA S below this are left out of second derivatives of own parts.
MIN_INFORMATION = 1e-4
#: Smallest share of the information about a common part in the other directions, where
#: they stand for all.
SPANNED_SHARE = 0.999


@dataclass(frozen=True)
class SmoothSolution:
    """The criterion at one theta, and what the other quantities are made of.

    Attributes
    ----------
    theta : ndarray of shape (J + K,)
        Variances in units of s2, common parts first.
    criterion : float
        D.
    mu, s2, f : float
    rest : float
        H_yy - H_1y^2 / f, which is nu s2 but for the smallest noise.
    groups : ndarray of int, shape (m,)
        Part of each feature that the solution uses.
    G : ndarray of shape (m + 2, m + 2)
    U : ndarray of shape (m + 2, r)
        Coefficients of B^-1 [A 1 y] for U, B^-1 - U U' = P; r is 1 plus the number of
        features whose variance is not zero.
    a : ndarray of shape (m + 2,)
        Coefficients of B^-1 [A 1 y] for a = P y.
    logdet : float
        log|V| + log f.
    """

    theta: Array
    criterion: float
    mu: float
    s2: float
    rest: float
    f: float
    groups: Array
    G: Array
    U: Array
    a: Array
    logdet: float

    @property
    def m(self) -> int:
        """Number of features."""
        return len(self.groups)


@dataclass(frozen=True)
class SmoothValue(SmoothSolution):
    """The criterion at one theta with its gradient.

    Attributes
    ----------
    gradient : ndarray of shape (J + K,)
        NaN for parts whose features the solution does not use.
    traces, squares : ndarray of shape (J + K,)
        tr(P V_i), and a'V_i a / s2.
    GU : ndarray of shape (m, r)
        First m rows of G U.
    """

    gradient: Array
    traces: Array
    squares: Array
    GU: Array


class SmoothMarginal:
    """D as a function of theta.

    Parameters
    ----------
    blocks : BlockList
    knows_noise : bool
        Whether s2 is 1 instead of profiled out.
    mean_precision : float
        Precision of the normal prior of mu in units of 1 / s2; 0 is a flat prior.

    Attributes
    ----------
    n_evaluations : int
    """

    is_curvature_exact = True
    max_growth: float | None = None

    def __init__(
        self,
        blocks: BlockList,
        *,
        knows_noise: bool = False,
        mean_precision: float = 0.0,
    ) -> None:
        self.blocks = blocks
        self.knows_noise = knows_noise
        self.mean_precision = mean_precision
        design = blocks.data.design
        self.groups = design.groups
        self.n_common = len(design.common)
        self.n_own = len(design.own)
        self.n_rows = len(blocks.data.codes)
        self.nu = max(self.n_rows - 1, 1)
        self.n_evaluations = 0
        # Columns of [A 1 y], and own parts, that the last evaluation used.
        self._columns = np.arange(len(self.groups) + 2)
        self._is_own_used = np.ones(self.n_own, dtype=bool)

    def __call__(self, theta: Array) -> SmoothValue:
        """Evaluate D and its gradient at theta (J + K,)."""
        return self.differentiate(self.solve(theta))

    def differentiate(self, solution: SmoothSolution) -> SmoothValue:
        """Return D with its gradient at the theta evaluated last."""
        # The first m rows of G U.
        GU = product_without_zeros(solution.G[:-2], solution.U)
        m = solution.m
        groups = solution.groups
        # The diagonal of A' P A, and A' a.
        diagonal = np.diag(solution.G)[:m] - np.square(GU).sum(axis=1)
        products = solution.G[:m] @ solution.a
        # tr(P V_i) and a'V_i a. Sums of no features are integers.
        traces = np.bincount(groups, diagonal, self.n_common).astype(float)
        squares = np.bincount(groups, np.square(products), self.n_common).astype(float)
        is_left_out = np.zeros(self.n_common, dtype=bool)
        is_left_out[self.groups] = True
        is_left_out[groups] = False
        traces[is_left_out] = np.nan
        if self.n_own:
            block_sums = (
                block.own_sums(solution.U, solution.a) for block in self._factorized()
            )
            sums = reduce(add, block_sums)
            traces = np.concatenate([traces, sums.traces])
            squares = np.concatenate([squares, sums.squares])
        squares = squares * self._precision(solution)
        return SmoothValue(
            **vars(solution),
            gradient=traces - squares,
            traces=traces,
            squares=squares,
            GU=GU,
        )

    def _precision(self, solution: SmoothSolution) -> float:
        """Return the derivative of nu log s2 in nu s2, about 1 / s2."""
        if self.knows_noise:
            return 1.0
        return solution.rest / (self.nu * solution.s2**2)

    def solve(
        self,
        theta: Array,
        needs_gradient: Array | None = None,
    ) -> SmoothSolution:
        """Evaluate D at theta (J + K,), without its gradient.

        Parameters
        ----------
        theta : ndarray of shape (J + K,)
        needs_gradient : ndarray of bool, shape (J + K,), optional
            Parts whose derivatives are of interest although their variance is zero;
            the features of the others are left out, which changes nothing else.
            Default: all.
        """
        self.n_evaluations += 1
        is_used = np.ones(len(theta), dtype=bool)
        if needs_gradient is not None:
            is_used = (theta > 0) | needs_gradient
        columns = np.flatnonzero(is_used[self.groups])
        groups = self.groups[columns]
        m = len(groups)
        # The column of ones and the target follow the common features.
        ones_and_target = len(self.groups) + np.arange(2)
        columns = np.append(columns, ones_and_target)
        self._columns = columns
        own_theta = theta[self.n_common :]
        self._is_own_used = is_used[self.n_common :]
        G = np.zeros((m + 2, m + 2))
        logdet = 0.0
        for block in self.blocks:
            block_logdet, products = block.factorize(
                own_theta,
                columns,
                self._is_own_used,
            )
            logdet += block_logdet
            G += products

        # Features of parts whose variance is zero have no share in V.
        roots = np.sqrt(theta[: self.n_common])
        scale = roots[groups]
        active = np.flatnonzero(scale > 0)
        # T = L^-1 S for the active features, with M = L L'.
        T = np.zeros((0, 0))
        if len(active):
            s = scale[active]
            M = s[:, None] * G[np.ix_(active, active)] * s
            M[np.diag_indices(len(active))] += 1.0
            L = cholesky(M, lower=True)
            inverse, _ = dtrtri(L, lower=True)
            logdet += float(2 * np.log(np.diag(L)).sum())
            T = inverse * s
        R = T @ G[active, m:]
        # [1 y]' V^-1 [1 y], from which the mean and the residual squares follow.
        H = G[m:, m:] - R.T @ R
        f = float(H[0, 0] + self.mean_precision)
        mu = float(H[0, 1] / f)
        explained_by_mean = H[0, 1] ** 2 / f
        rest = max(float(H[1, 1] - explained_by_mean), 0.0)
        s2 = 1.0
        fit = rest
        if not self.knows_noise:
            floor = NOISE_FLOOR * self.n_rows
            s2 = float(np.hypot(rest, floor)) / self.nu
            fit = self.nu * np.log(s2)
        logdet += np.log(f)

        # Coefficients of B^-1 [A 1 y]: first V^-1 = B^-1 - U U', then the mean.
        ones = np.zeros(m + 2)
        ones[active] = -T.T @ R[:, 0]
        ones[m] = 1.0
        a = np.zeros(m + 2)
        a[active] = -T.T @ R[:, 1]
        a[m + 1] = 1.0
        a = a - mu * ones
        U = np.zeros((m + 2, len(active) + 1))
        U[active, :-1] = T.T
        U[:, -1] = ones / np.sqrt(f)

        return SmoothSolution(
            theta=theta,
            criterion=float(fit + logdet),
            mu=mu,
            s2=s2,
            rest=rest,
            f=f,
            groups=groups,
            G=G,
            U=U,
            a=a,
            logdet=float(logdet),
        )

    def _factorized(self) -> Any:
        """Return the blocks as the evaluation before left them."""
        if not self.blocks.is_kept:
            raise MemoryError("derivatives need blocks that fit into memory")
        return self.blocks

    # ------------------------------------------------------------------ second order

    def curvature(
        self,
        value: SmoothValue,
        parts: Array | None = None,
    ) -> tuple[Array, Array]:
        """Return expected and exact second derivatives at the theta evaluated last.

        The traces of own parts leave out directions of the common features about which
        the rows have less than `MIN_INFORMATION` times the information of the prior.

        Parameters
        ----------
        value : SmoothValue
        parts : ndarray of int, optional
            Positions of some parts; default: all.
        """
        n_parts = self.n_common + self.n_own
        chosen = parts
        if chosen is None:
            chosen = np.arange(n_parts)
        common_parts = chosen[chosen < self.n_common]
        own_parts = chosen[chosen >= self.n_common] - self.n_common
        G = value.G
        a = value.a
        is_chosen = np.zeros(self.n_common, dtype=bool)
        is_chosen[common_parts] = True
        columns = np.flatnonzero(is_chosen[value.groups])
        # A'P A for the features of these parts; P A = B^-1 [A 1 y] projection.
        GU = value.GU[columns]
        C = G[np.ix_(columns, columns)] - GU @ GU.T
        is_in_part = value.groups[columns, None] == common_parts
        indicator = is_in_part.astype(float)
        products = G[columns] @ a
        weighted = products[:, None] * indicator

        shape = (len(chosen), len(chosen))
        traces = np.zeros(shape)
        quadratic = np.zeros(shape)
        common = slice(0, len(common_parts))
        unshared = slice(len(common_parts), None)
        traces[common, common] = indicator.T @ np.square(C) @ indicator
        quadratic[common, common] = weighted.T @ C @ weighted
        if len(own_parts):
            U, spans = self._informative(value)
            is_spanned = np.isfinite(spans[0, columns])
            unspanned_columns = columns[~is_spanned]
            unspanned = -value.U @ GU[~is_spanned].T
            unspanned[unspanned_columns, np.arange(len(unspanned_columns))] += 1.0
            block_sums = (
                block.curvature_sums(U, unspanned, a, own_parts)
                for block in self._factorized()
            )
            sums = reduce(add, block_sums)
            # Traces of (P A)'K_k P A over the features of each of these parts.
            images = sums.common @ indicator[~is_spanned]
            flat = sums.inner.reshape(len(own_parts), -1)
            spans = spans[:, columns]
            for j, is_feature in enumerate((indicator > 0).T):
                part_spans = spans[:, is_feature & is_spanned]
                images[:, j] += flat @ (part_spans @ part_spans.T).ravel()
            transposed = sums.inner.transpose(0, 2, 1).reshape(len(own_parts), -1)
            traces[unshared, unshared] = sums.pairs + flat @ transposed.T
            traces[unshared, common] = images
            traces[common, unshared] = images.T
            # The images are [A 1]' B^-1 K_k a; U has no coefficients of y.
            inside = value.U[:-1].T @ sums.images
            quadratic[unshared, unshared] = sums.products - inside.T @ inside
            projected = sums.images[columns] - GU @ inside
            quadratic[unshared, common] = projected.T @ weighted
            quadratic[common, unshared] = quadratic[unshared, common].T
        quadratic = quadratic * self._precision(value)
        if self.knows_noise:
            return traces, 2 * quadratic - traces
        # The variance of the noise is profiled out.
        mean = value.traces[chosen]
        seen = value.squares[chosen]
        expected_profile = np.outer(mean, mean) / self.nu
        exact_profile = np.outer(seen, seen) / self.nu
        expected = traces - expected_profile
        exact = 2 * quadratic - traces - exact_profile
        return expected, exact

    def curvature_diagonal(self, value: SmoothValue, parts: Array) -> Array:
        """Return expected second derivatives of single parts at the last theta.

        Parameters
        ----------
        value : SmoothValue
        parts : ndarray of int
            Positions of parts; the result is zero for the others.
        """
        diagonal = np.zeros(self.n_common + self.n_own)
        is_common = parts < self.n_common
        # The products of common and own parts cost most, and are not needed.
        for kind in (parts[is_common], parts[~is_common]):
            if len(kind):
                expected, _ = self.curvature(value, kind)
                diagonal[kind] = np.diag(expected)
        return diagonal

    def _informative(self, value: SmoothValue) -> tuple[Array, Array]:
        """Return columns of U about whose directions the rows say something.

        Returns
        -------
        U : ndarray of shape (m + 2, r)
        spans : ndarray of shape (r, m)
            Coefficients of these columns for P A; NaN for the features of parts that
            they do not span, such as those without variance.
        """
        m = value.m
        roots = np.sqrt(value.theta[: self.n_common])
        scale = roots[value.groups]
        active = np.flatnonzero(scale > 0)
        s = scale[active]
        inner = s[:, None] * value.G[np.ix_(active, active)] * s
        eigenvalues, vectors = np.linalg.eigh(inner)
        kept = eigenvalues > MIN_INFORMATION
        eigenvalues = eigenvalues[kept]
        vectors = vectors[:, kept]
        U = np.zeros((m + 2, len(eigenvalues) + 1))
        size = np.sqrt(1 + eigenvalues)
        U[active, :-1] = s[:, None] * vectors / size
        U[:, -1] = value.U[:, -1]

        # V^-1 A S = B^-1 A S M^-1; M and S G_AA S have the same eigenvectors.
        spans = np.full((U.shape[1], m), np.nan)
        spans[:-1, active] = (vectors / size).T / s
        spans[-1, active] = -value.GU[active, -1]
        groups = value.groups[active]
        seen = np.square(vectors) @ eigenvalues
        seen_by_part = np.bincount(groups, seen, self.n_common)
        total_by_part = np.bincount(groups, np.diag(inner), self.n_common)
        is_spanned = seen_by_part >= SPANNED_SHARE * total_by_part
        spans[:, ~is_spanned[value.groups]] = np.nan
        return U, spans

    # ------------------------------------------------------------------ rows

    def weights_of_rows(self, value: SmoothSolution) -> tuple[Array, Array]:
        """Return a = P y, and the diagonal of P, for all rows."""
        a = np.empty(self.n_rows)
        diagonal = np.empty(self.n_rows)
        for block in self.blocks:
            self._factorize_again(block, value)
            positions = block.positions
            a[positions] = block.applied(value.a)
            u = block.applied(value.U)
            removed = np.square(u).sum(axis=1)
            diagonal[positions] = block.inverse_diagonal() - removed
        return a, diagonal

    def rows_of(self, solution: SmoothSolution) -> Array:
        """Return a = P y for all rows."""
        a = np.empty(self.n_rows)
        for block in self.blocks:
            self._factorize_again(block, solution)
            a[block.positions] = block.applied(solution.a)
        return a

    def _factorize_again(self, block: Any, solution: SmoothSolution) -> None:
        """Factorize a block that was made again after the last evaluation."""
        if not self.blocks.is_kept:
            own_theta = solution.theta[self.n_common :]
            block.factorize(own_theta, self._columns, self._is_own_used)

    def apply_projection(self, value: SmoothValue, values: Array) -> Array:
        """Return P values, for values of all rows."""
        inside = np.zeros(value.m + 2)
        for block in self._factorized():
            inside += block.image(values[block.positions])
        coefficients = value.U @ (value.U.T @ inside)
        out = np.empty(self.n_rows)
        for block in self._factorized():
            solved = block.solve(values[block.positions])
            out[block.positions] = solved - block.applied(coefficients)
        return out

    def bilinear(self, left: Array, right: Array) -> Array:
        """Return left' V_i right for all parts and values of all rows."""
        left_sums = np.zeros(len(self.groups))
        right_sums = np.zeros(len(self.groups))
        unshared = np.zeros(self.n_own)
        for block in self._factorized():
            x = left[block.positions]
            y = right[block.positions]
            features = block.common_features
            left_sums += features.T @ x
            right_sums += features.T @ y
            unshared += block.own_bilinear(x, y)
        common = np.bincount(self.groups, left_sums * right_sums, self.n_common)
        return np.concatenate([common, unshared])

    def spread(self, value: SmoothSolution) -> Array:
        """Return the covariance of (u, mu) given y and theta, in units of s2.

        `value` must use the features of all parts.
        """
        m = value.m
        roots = np.sqrt(value.theta[: self.n_common])
        # In units of prior standard deviations the precision is I + S A'B^-1 A S.
        scale = np.append(roots[value.groups], 1.0)
        G = value.G[: m + 1, : m + 1]
        precision = scale[:, None] * G * scale
        features = np.arange(m)
        precision[features, features] += 1.0
        precision[m, m] = value.G[m, m] + self.mean_precision
        covariance = np.linalg.inv(precision)
        return np.asarray(scale[:, None] * covariance * scale)
