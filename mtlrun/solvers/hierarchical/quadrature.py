"""Logistic tasks whose coefficients are integrated out by adaptive quadrature.

Laplace's approximation (`logistic`) replaces the integral over the standardized
differences v_t ~ N(0, I) of a task by the height and the curvature at the mode. With
few rows, or labels of one class, the integrand is skewed, and the estimates are too
small or far too large. Here the integral is a sum over the nodes of adaptive
Gauss-Hermite quadrature (Liu and Pierce 1994), with L the root of M_t^-1 at the mode,
and z_k, c_k the nodes and weights for exp(-z'z / 2)::

    v_tk = mode_t + L_t z_k,   log w_tk = log(c_k) + z_k'z_k / 2 + log|L_t|
    p_t = sum_k w_tk phi(v_tk) p(y_t | X_t mu + X_t S v_tk)
    D = -2 sum_t log p_t + sum_j [c_j mu_j^2 + d_j Theta_jj]

Nodes are placed at one point and then held: D is a smooth function with an exact
gradient, and a fit ends when nodes that are placed again change nothing. With pi_tk the
share of node k in p_t, r_tk = w (y - p) and W_tk as in `logistic`::

    h = X' E r,   B = X' [E W - Cov r] X,   E v, Cov v:  moments under pi
    dD/dmu = -2 sum_t h,   dD/dS = -2 sum_t X' E[r v'],
    Cov(S v_t) = Theta - Theta B Theta   (Stein's identity)

The last line makes B what it is for a normal posterior, so that standard errors and
posterior covariances are computed as after Laplace's approximation.

One or two random columns are integrated (`MAX_COLUMNS`): a level, or a level and one
slope. `fit_labels` fits by Laplace's approximation first, and by quadrature where its
optimum is not the optimum of D.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logsumexp

from mtlrun.solvers.hierarchical import covariance
from mtlrun.solvers.hierarchical.covariance import FullCovariance, GroupedVariances
from mtlrun.solvers.hierarchical.label_posterior import (
    LabelPosterior,
    NodePosterior,
    TaskNodes,
    root_of,
)
from mtlrun.solvers.hierarchical.logistic import (
    Laplace,
    LaplaceFit,
    LaplaceValue,
    LogisticProblem,
    PaddedRows,
    Prices,
    TaskSums,
    candidates,
    find_modes,
    fit_logistic,
    grown,
    mean_step,
    minimized,
    pooled,
    root,
    select,
)
from mtlrun.solvers.hierarchical.marginal import as_matrix

Array = np.ndarray

#: Random columns that are integrated, at most.
MAX_COLUMNS = 2
#: Nodes per random column, for one and for two of them.
N_NODES = (51, 13)
#: Products of weights below this share of the largest are left out.
MIN_NODE_WEIGHT = 1e-10
#: Numbers per array that are worked on at a time.
MAX_BLOCK_SIZE = 1 << 16
#: Laplace's approximation is kept if a step of D from its optimum is predicted to lower
#: D by less: estimates then differ by about a tenth of their standard errors.
MAX_REDUCTION = 0.02
#: Difference of both criteria above which D is looked at elsewhere.
MAX_DIFFERENCE = 1.0
#: Price of the variance of the level, as a share of its price in Laplace's
#: approximation: without that one's errors it needs less of a prior.
LEVEL_PRICE_SHARE = 0.25
#: Standard deviations at which D is looked at before it is minimized.
PROFILE_STDS = (1.0, 2.0, 4.0, 8.0, 16.0)
#: Standard deviations of a second column at which D is looked at.
ADDED_STDS = (0.1, 0.5, 1.5)
#: A mean probability has the log-odds m / sqrt(1 + ATTENUATION v), nearly.
ATTENUATION = np.pi / 8
#: Placements of the nodes, at most, and the change of D by the last one.
MAX_PLACEMENTS = 12
PLACEMENT_TOL = 1e-2
#: Tolerance and steps of L-BFGS while the nodes still move.
DRAFT_TOL = 0.05
DRAFT_STEPS = 10
#: Standard deviations below this have the derivative of a variance of zero.
ZERO_STD = 1e-6


@cache
def standard_nodes(n_columns: int) -> tuple[Array, Array]:
    """Return nodes z (K, n_columns), and log(c) + z'z / 2, for exp(-z'z / 2)."""
    z, c = hermegauss(N_NODES[n_columns - 1])
    grids = np.meshgrid(*[z] * n_columns, indexing="ij")
    nodes = np.stack([grid.ravel() for grid in grids], axis=1)
    products = np.ones(1)
    for _ in range(n_columns):
        products = np.outer(products, c).ravel()
    kept = products > MIN_NODE_WEIGHT * products.max()
    nodes = nodes[kept]
    log_weights = np.log(products[kept] / np.sqrt(2 * np.pi) ** n_columns)
    return nodes, log_weights + 0.5 * np.square(nodes).sum(axis=1)


@dataclass(frozen=True)
class PlacedNodes:
    """Nodes of the tasks of a block.

    Attributes
    ----------
    v : ndarray of shape (m, K, q)
    log_weight : ndarray of shape (m, K)
        Logarithm of weight and standard normal density of v, (2 pi)^(-q / 2) included.
    """

    v: Array
    log_weight: Array

    @classmethod
    def at(cls, mode: Array, M: Array) -> PlacedNodes:
        """Place nodes at modes (m, q) with second derivatives M (m, q, q)."""
        z, log_weights = standard_nodes(mode.shape[1])
        # L L' = M^-1 for the inverse of the transposed Cholesky factor of M.
        factor = np.linalg.cholesky(M)
        L = np.linalg.inv(factor).transpose(0, 2, 1)
        v = mode[:, None, :] + z @ L.transpose(0, 2, 1)
        diagonal = np.diagonal(factor, axis1=1, axis2=2)
        log_determinant = -np.log(diagonal).sum(axis=1)
        density = -0.5 * np.square(v).sum(axis=2)
        return cls(v, log_weights + log_determinant[:, None] + density)


@dataclass(frozen=True)
class NodeSums:
    """Quantities of the tasks of a block at their nodes.

    Attributes
    ----------
    log_p : ndarray of shape (m,)
        log p_t.
    share : ndarray of shape (m, K)
        pi.
    log_label : ndarray of shape (m, n, K)
        Log probabilities of the labels, without weights.
    r, W, one_minus_2p : ndarray of shape (m, n, K)
    mean_r, mean_W : ndarray of shape (m, n)
    """

    log_p: Array
    share: Array
    log_label: Array
    r: Array
    W: Array
    one_minus_2p: Array
    mean_r: Array
    mean_W: Array

    @classmethod
    def of(cls, block: PaddedRows, odds: Array, nodes: PlacedNodes) -> NodeSums:
        """Return them for log-odds (m, n, K) at the nodes."""
        w = block.w[:, :, None]
        sign = np.where(block.y > 0, 1.0, -1.0)[:, :, None]
        margin = sign * odds
        # With e = exp(-|margin|), log p and 1 - p of the label, and p (1 - p), without
        # cancellation.
        e = np.exp(-np.abs(margin))
        log_label = np.minimum(margin, 0.0) - np.log1p(e)
        inverse = 1 / (1 + e)
        wrong = np.where(margin > 0, e, 1.0) * inverse
        terms = nodes.log_weight + (w * log_label).sum(axis=1)
        largest = terms.max(axis=1, keepdims=True)
        share = np.exp(terms - largest)
        total = share.sum(axis=1, keepdims=True)
        share /= total
        log_p = (largest + np.log(total))[:, 0]
        r = (w * sign) * wrong
        W = w * (e * np.square(inverse))
        return cls(
            log_p=log_p,
            share=share,
            log_label=log_label,
            r=r,
            W=W,
            one_minus_2p=sign * (2 * wrong - 1),
            mean_r=mean_over_nodes(r, share),
            mean_W=mean_over_nodes(W, share),
        )

    def information(self, X: Array) -> Array:
        """Return X' [E W - Cov r] X for rows X (m or 1, n, p), (m, p, p)."""
        turned = X.transpose(0, 2, 1)
        scatter = turned @ (self.mean_W[:, :, None] * X)
        centered = self.r - self.mean_r[:, :, None]
        moved = turned @ centered
        weighted = self.share[:, None, :] * moved
        return np.asarray(scatter - weighted @ moved.transpose(0, 2, 1))


def mean_over_nodes(values: Array, share: Array) -> Array:
    """Return the mean of values (m, n, K) over the nodes, (m, n)."""
    return np.asarray((values @ share[:, :, None])[:, :, 0])


class Quadrature(Laplace):
    """The criterion D at nodes that are held.

    Parameters
    ----------
    m : Laplace
        The criterion of the same rows and columns.
    mu, Theta : ndarray
        Where the nodes are placed.
    start : ndarray of shape (T, q)
        Where the search for the modes starts.

    Attributes
    ----------
    nodes : list of PlacedNodes
        Nodes of each block.
    """

    def __init__(self, m: Laplace, mu: Array, Theta: Array, start: Array) -> None:
        n_nodes = len(standard_nodes(len(m.random))[0])
        super().__init__(_split(m.blocks, n_nodes), m.T, m.random, m.prices)
        self.n_evaluations = m.n_evaluations
        S = root(Theta)
        self.nodes = []
        for block, Z in zip(self.blocks, self._Z, strict=True):
            E = Z @ S
            mode, *_, M = find_modes(block, E, block.X @ mu, start[block.tasks])
            self.nodes.append(PlacedNodes.at(mode, M))

    def _sums(self, index: int, mu: Array, S: Array) -> NodeSums:
        """Return the sums of a block over its nodes."""
        block = self.blocks[index]
        nodes = self.nodes[index]
        E = self._Z[index] @ S
        base = block.X @ mu
        odds = base[:, :, None] + E @ nodes.v.transpose(0, 2, 1)
        return NodeSums.of(block, odds, nodes)

    def task_sums(
        self, index: int, mu: Array, S: Array, v: Array, rooted: bool = False
    ) -> TaskSums:
        return self._part_of(index, self._sums(index, mu, S), mu, S, rooted)

    def _part_of(
        self, index: int, sums: NodeSums, mu: Array, S: Array, rooted: bool = False
    ) -> TaskSums:
        """Return means over the nodes in the form of Laplace's modes."""
        X = self.blocks[index].X
        mean_v = (sums.share[:, None, :] @ self.nodes[index].v)[:, 0]
        B = sums.information(X)
        F = np.zeros((len(B), 0, B.shape[2]))
        if rooted and X.shape[1] < X.shape[2]:
            F = root_of(sums.information(np.eye(X.shape[1])[None])) @ X
        elif rooted:
            F = root_of(B)
        E = self._Z[index] @ S
        eta = X @ mu + (E @ mean_v[:, :, None])[:, :, 0]
        h = (sums.mean_r[:, None, :] @ X)[:, 0]
        D = float(-2 * sums.log_p.sum())
        return TaskSums(mean_v, D, h, np.zeros_like(h), B, eta, F)

    def __call__(self, mu: Array, Theta: Array, W: Array | None = None) -> LaplaceValue:
        """Return D and its gradient at the nodes; `W` is not used.

        `v` of the result are the posterior means.
        """
        self.n_evaluations += 1
        S = root(Theta)
        q = len(self.random)
        price_of_mean = self.prices.mean
        price_of_variance = self.prices.variance[self.random]
        means = np.zeros((self.T, q))
        likelihood = 0.0
        of_root = np.zeros((q, q))
        of_integral = np.zeros((q, q))
        squares = np.zeros((q, q))
        g_mu = 2 * price_of_mean * mu
        information = np.diag(price_of_mean)
        for index, block in enumerate(self.blocks):
            sums = self._sums(index, mu, S)
            part = self._part_of(index, sums, mu, S)
            means[block.tasks] = part.v
            likelihood += part.D
            h = part.h[:, self.random]
            B = part.B[:, self.random][:, :, self.random]
            of_integral += B.sum(axis=0) - h.T @ h
            weighted_v = sums.share[:, :, None] * self.nodes[index].v
            crossed = self._Z[index].transpose(0, 2, 1) @ sums.r @ weighted_v
            of_root -= 2 * crossed.sum(axis=0)
            squares += np.square(B).sum(axis=0)
            g_mu = g_mu - 2 * part.h.sum(axis=0)
            information += part.B.sum(axis=0)
        G = gradient_in_covariance(Theta, of_root, of_integral)
        G = G + np.diag(price_of_variance)
        variances = np.square(S).sum(axis=1)
        penalty = price_of_mean @ np.square(mu) + price_of_variance @ variances
        criterion = likelihood + float(penalty)
        return LaplaceValue(
            criterion, likelihood, mu, Theta, means, G, g_mu, information, squares
        )

    def posterior(self, value: LaplaceValue) -> LabelPosterior:
        """Return the posterior of all tasks, with their nodes."""
        normal = super().posterior(value)
        S = root(value.Theta)
        nodes = []
        for index, block in enumerate(self.blocks):
            share = self._sums(index, value.mu, S).share
            moved = self.nodes[index].v @ S
            mean = share[:, None, :] @ moved
            nodes.append(TaskNodes(block.tasks, moved - mean, share))
        return NodePosterior(
            normal.Theta, normal.mean_covariance, normal.roots, self.random, nodes
        )

    def leave_one_out(self, value: LaplaceValue) -> Array:
        """Return weighted sums of leave-one-out log losses by task, (T,).

        Mean and covariance are not estimated again. Of a row of weight k, one of k
        copies is taken out.
        """
        S = root(value.Theta)
        losses = np.zeros(self.T)
        for index, block in enumerate(self.blocks):
            sums = self._sums(index, value.mu, S)
            copies = np.minimum(block.w, 1.0)[:, :, None]
            log_share = np.log(np.maximum(sums.share, 1e-300))[:, None, :]
            without = logsumexp(log_share - copies * sums.log_label, axis=2)
            again = logsumexp(log_share + (1 - copies) * sums.log_label, axis=2)
            losses[block.tasks] = (block.w * (without - again)).sum(axis=1)
        return losses


def gradient_in_covariance(Theta: Array, of_root: Array, of_integral: Array) -> Array:
    """Return dD/dTheta, given dD/dS for the root S of Theta.

    Parameters
    ----------
    Theta : ndarray of shape (q, q), or (q,) for a diagonal
    of_root : ndarray of shape (q, q)
        dD/dS, not symmetric, of the sum over the nodes.
    of_integral : ndarray of shape (q, q)
        dD/dTheta of the integral, which is needed where variances are zero.
    """
    # Theta = S S, so that dTheta = dS S + S dS. In the axes of Theta S is diagonal.
    if Theta.ndim == 1:
        variances = Theta
        axes = np.eye(len(Theta))
    else:
        variances, axes = np.linalg.eigh(Theta)
    stds = np.sqrt(np.maximum(variances, 0.0))
    sums_of_stds = stds[:, None] + stds
    symmetric = axes.T @ (0.5 * (of_root + of_root.T)) @ axes
    gradient = axes.T @ of_integral @ axes
    has_variance = sums_of_stds > ZERO_STD
    gradient[has_variance] = symmetric[has_variance] / sums_of_stds[has_variance]
    return np.asarray(axes @ gradient @ axes.T)


def _split(blocks: list[PaddedRows], n_nodes: int) -> list[PaddedRows]:
    """Return smaller blocks, whose arrays over rows and nodes fit into a cache."""
    parts = []
    for block in blocks:
        step = max(1, MAX_BLOCK_SIZE // (block.y.shape[1] * n_nodes))
        for start in range(0, len(block.tasks), step):
            part = slice(start, start + step)
            X = block.X
            if len(X) > 1:
                X = X[part]
            parts.append(PaddedRows(block.tasks[part], X, block.y[part], block.w[part]))
    return parts


# ---------------------------------------------------------------------- fits


def fit_labels(problem: LogisticProblem, name: str) -> LaplaceFit:
    """Fit a model of one covariance structure, or choose one ("auto").

    Laplace's approximation is kept where a check by quadrature finds nothing to gain.

    Parameters
    ----------
    problem : LogisticProblem
    name : str
        As of `fit_logistic`.
    """
    if name != "auto":
        fit = fit_logistic(problem, name)
        if can_integrate(fit) and not is_laplace_optimal(problem, fit):
            return fit_by_quadrature(problem, fit)
        return fit
    base = pooled(problem)
    if problem.m.T == 1 or not len(problem.m.random):
        return base
    tried = candidates(problem, base)
    choice = select(tried, tried[0])
    smallest = tried[0]
    if not can_integrate(smallest):
        return choice
    needs_check = {id(fit): fit for fit in (smallest, choice) if can_integrate(fit)}
    if all(is_laplace_optimal(problem, fit) for fit in needs_check.values()):
        return choice
    smallest = fit_by_quadrature(problem, smallest)
    fits = [smallest]
    larger = tried[1:]
    if not all(can_integrate(fit) for fit in larger):
        # The criteria of these structures are Laplace's. One slope can be integrated.
        fits += [fit for fit in larger if not can_integrate(fit)]
        larger = []
        columns = np.setdiff1d(problem.m.random, smallest.m.random)
        if len(smallest.m.random) < MAX_COLUMNS and len(columns):
            # The column whose variance lowers D most, by Laplace's approximation
            falls = [slope_reductions(smallest, np.array([j]))[0] for j in columns]
            best = columns[int(np.argmax(falls))]
            random = np.append(smallest.m.random, best)
            pair = replace(problem, m=problem.m.with_random(random))
            larger = [grown(pair, smallest, "diagonal")]
    for fit in larger:
        if slope_reductions(smallest, fit.m.random).sum() > covariance.AIC:
            fits.append(fit_by_quadrature(problem, fit, smallest))
    return select(fits, smallest)


def compared(
    problem: LogisticProblem, small: LaplaceFit, large: LaplaceFit
) -> tuple[LaplaceFit, LaplaceFit]:
    """Return nested fits by the same criterion, by quadrature if one needs it."""
    fits = (small, large)
    if not all(can_integrate(fit) for fit in fits):
        return fits
    if all(is_laplace_optimal(problem, fit) for fit in fits):
        return fits
    small = fit_by_quadrature(problem, small)
    return small, fit_by_quadrature(problem, large, small)


def can_integrate(fit: LaplaceFit) -> bool:
    """Return whether a fit has so few random columns that quadrature is possible."""
    return len(fit.m.random) <= MAX_COLUMNS


def is_laplace_optimal(problem: LogisticProblem, fit: LaplaceFit) -> bool:
    """Return whether D by quadrature gains next to nothing from another point.

    Where both criteria are nearly the same, a step from the optimum of Laplace's
    approximation says so. Where they differ, other standard deviations are looked at,
    too, because D is flat where these are large.
    """
    if not len(fit.m.random):
        return True
    here = _placed(fit, fit.fit.value.mu, fit.fit.x)
    if predicted_reduction(here.fit.value) >= MAX_REDUCTION:
        return False
    if abs(here.criterion - fit.criterion) < MAX_DIFFERENCE:
        return True
    lowest = min(point.criterion for point in _profile(problem, fit, None))
    return here.criterion - lowest < MAX_REDUCTION


def predicted_reduction(value: LaplaceValue) -> float:
    """Return by how much a Newton step of mean and variances would lower D."""
    _, reduction = mean_step(value)
    slopes = np.diag(value.G)
    curvatures = np.maximum(np.diag(value.squares), 1e-300)
    # A variance cannot fall below zero.
    variances = np.diag(as_matrix(value.Theta))
    steps = np.maximum(-slopes / curvatures, -variances)
    falls = -(slopes * steps + 0.5 * curvatures * np.square(steps))
    return reduction + float(falls.sum())


def slope_reductions(fit: LaplaceFit, columns: Array) -> Array:
    """Return by how much a variance of each further column would lower D.

    It is the reduction by a Newton step from zero. Columns that are random already have
    none.
    """
    added = np.setdiff1d(columns, fit.m.random)
    value = fit.fit.value
    S = root(value.Theta)
    slopes = fit.m.prices.variance[added].copy()
    curvatures = np.zeros(len(added))
    for index in range(len(fit.m.blocks)):
        part = fit.m.task_sums(index, value.mu, S, value.v)
        B = part.B[:, added, added]
        slopes += (B - np.square(part.h[:, added])).sum(axis=0)
        curvatures += np.square(B).sum(axis=0)
    falls = np.square(np.minimum(slopes, 0.0)) / np.maximum(2 * curvatures, 1e-300)
    return np.asarray(falls)


def fit_by_quadrature(
    problem: LogisticProblem,
    laplace: LaplaceFit,
    smaller: LaplaceFit | None = None,
) -> LaplaceFit:
    """Minimize D by quadrature from several starts.

    The starts are the minima of D along the standard deviation, with the mean of one
    model of all rows. D of Laplace's approximation can have several minima, none of
    which need be near the minimum of D by quadrature. With two random columns, D is
    minimized from the lowest of these points only.

    Parameters
    ----------
    problem : LogisticProblem
    laplace : LaplaceFit
        The fit by Laplace's approximation.
    smaller : LaplaceFit, optional
        A fit by quadrature of one of the random columns. Default: the first column is
        fitted.
    """
    if not len(laplace.m.random):
        return laplace
    m = laplace.m
    prices = m.prices
    if problem.intercept:
        variance = problem.m.prices.variance.copy()
        variance[0] *= LEVEL_PRICE_SHARE
        prices = Prices(prices.mean, variance)
    priced = Laplace(m.blocks, m.T, m.random, prices)
    laplace = LaplaceFit(laplace.name, priced, laplace.structure, laplace.fit)
    if len(m.random) == 1:
        points = _profile(problem, laplace, None)
        values = np.array([point.criterion for point in points])
        padded = np.concatenate([[np.inf], values, [np.inf]])
        is_minimum = (values <= padded[:-2]) & (values <= padded[2:])
        minima = np.flatnonzero(is_minimum)
        fits = [_minimize_from(problem, points[position]) for position in minima]
        return min(fits, key=lambda fit: fit.criterion)
    if smaller is None:
        first = replace(problem, m=problem.m.with_random(m.random[:1]))
        smaller = fit_by_quadrature(first, grown(first, pooled(first), "scalar"))
    points = _profile(problem, laplace, smaller)
    start = min(points, key=lambda point: point.criterion)
    return _minimize_from(problem, start)


def _profile(
    problem: LogisticProblem, laplace: LaplaceFit, smaller: LaplaceFit | None
) -> list[LaplaceFit]:
    """Return D at multiples of the standard deviations, in ascending order of these.

    Among them is the optimum by Laplace's approximation. With the optimum of a smaller
    fit, the points are near that.
    """
    x = laplace.fit.x
    points = [_placed(laplace, laplace.fit.value.mu, x)]
    if smaller is not None:
        return points + _enlarged(laplace, smaller)
    mean = pooled(problem).fit.value.mu
    direction = np.ones_like(x)
    largest = np.abs(x).max()
    if largest > 0:
        direction = x / largest
    for std in PROFILE_STDS:
        # Probabilities that are averaged over tasks are nearer to 1/2: so the mean that
        # gives the rows the same labels is larger than the one of a model of all rows.
        Theta = laplace.m.covariance(laplace.structure.theta(std * direction))
        variance = float((laplace.m.moments() * Theta).sum())
        factor = np.sqrt(1 + ATTENUATION * variance)
        points.append(_placed(laplace, mean * factor, std * direction))
    points.sort(key=lambda point: float(np.abs(point.fit.x).max()))
    return points


def _enlarged(laplace: LaplaceFit, smaller: LaplaceFit) -> list[LaplaceFit]:
    """Return D where a smaller fit ended, with some variance of the other column."""
    structure = laplace.structure
    variances = np.diag(smaller.m.covariance(smaller.fit.value.Theta))
    variances = variances[laplace.m.random]
    points = []
    for std in ADDED_STDS:
        stds = np.sqrt(np.where(variances > 0, variances, std**2))
        if isinstance(structure, GroupedVariances):
            x = np.zeros(structure.n_parameters)
            x[structure.groups] = stds
        elif isinstance(structure, FullCovariance):
            x = structure.from_covariance(np.square(stds))
        else:
            loadings = np.full((len(stds), structure.rank), 0.5 * std)
            x = np.concatenate([loadings.ravel(), stds])
            x = x[: structure.n_parameters]
        points.append(_placed(laplace, smaller.fit.value.mu, x))
    return points


def _placed(fit: LaplaceFit, mu: Array, x: Array) -> LaplaceFit:
    """Return a fit moved to mean and parameters, with nodes placed there."""
    Theta = fit.structure.theta(x)
    m = Quadrature(fit.m, mu, Theta, fit.fit.value.v)
    value = m(mu, Theta)
    return LaplaceFit(fit.name, m, fit.structure, replace(fit.fit, value=value, x=x))


def _minimize_from(problem: LogisticProblem, start: LaplaceFit) -> LaplaceFit:
    """Minimize D and place the nodes again, until that changes D no more."""
    draft = replace(problem, tol=max(problem.tol, DRAFT_TOL), max_iter=DRAFT_STEPS)
    options = draft
    for _ in range(MAX_PLACEMENTS):
        fit = minimized(
            options, start.m, start.name, start.structure, start.fit.x, start
        )
        start = _placed(fit, fit.fit.value.mu, fit.fit.x)
        change = abs(start.criterion - fit.criterion)
        if options is problem and change < PLACEMENT_TOL:
            return fit
        if change < DRAFT_TOL:
            options = problem
    return minimized(problem, start.m, start.name, start.structure, start.fit.x, start)
