"""Smooth models of labels whose levels of tasks are integrated by quadrature.

The log-odds of the rows of task t are o + b_t, with the level b_t ~ N(0, theta_L) and o
all other parts, whose covariance is K. The likelihood of o has the levels integrated
out, by the nodes of `quadrature`::

    p_t(o) = integral of N(b; 0, theta_L) prod p(y | o + b)^w db
    r = E w (y - p),   W = E w p (1 - p),   h_t = sum of r over task t

with expectations over the posterior of b_t. Laplace's approximation remains for o only::

    D = -2 sum_t log p_t(o) + r'o + log|I + K H| at the mode of o, where r = K^-1 o
    H = (W^-1 + theta_L 1 1')^-1 within tasks

H has the form of the second derivative for normal levels, so that the blocks of
`smooth_marginal` serve with the noise W^-1 and the targets o + H^-1 r. With V = H^-1 +
K, P = V^-1, the exact second derivative H_e = diag(W) - cov(r) within tasks, and q the
derivative of log|I + K H| in o::

    x = (K^-1 + H_e)^-1 q
    dD/dtheta_i = tr(P V_i) - r'V_i r + (q - H_e x)'V_i r             other parts
    dD/dtheta_L = -2 sum_t d log p_t / dtheta_L + d log|I + K H| / dtheta_L
                  + x'dr/dtheta_L

The terms with x are due to the mode, which moves with theta. The nodes are placed at
one theta and then held, so that the gradient is that of the sums.

The mean of b_t is theta_L h_t, by Stein's identity: predictions have the same mean as
in the normal model of `smooth_posterior`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from mtlrun.solvers.hierarchical.compress import by_length
from mtlrun.solvers.hierarchical.label_posterior import TaskNodes
from mtlrun.solvers.hierarchical.logistic import (
    Laplace,
    LogisticProblem,
    PaddedRows,
    Prices,
    find_modes,
    grown,
    pooled,
)
from mtlrun.solvers.hierarchical.quadrature import (
    MAX_BLOCK_SIZE,
    MAX_DIFFERENCE,
    MAX_REDUCTION,
    N_NODES,
    NodeSums,
    PlacedNodes,
    fit_by_quadrature,
    mean_over_nodes,
)
from mtlrun.solvers.hierarchical.smooth import (
    SmoothFit,
    SmoothOptions,
    estimation_rows,
)
from mtlrun.solvers.hierarchical.smooth_blocks import SmoothData
from mtlrun.solvers.hierarchical.smooth_fit import (
    VarianceFit,
    VariancePrior,
    fit_variances,
)
from mtlrun.solvers.hierarchical.smooth_labels import (
    MIN_INFORMATION,
    PRIOR_STD,
    LabelMarginal,
    LabelSolution,
    label_prior,
)
from mtlrun.solvers.hierarchical.smooth_marginal import SmoothSolution, SmoothValue
from mtlrun.solvers.hierarchical.smooth_posterior import SmoothPosterior

Array = np.ndarray

#: Price of the variance of the levels where a fit by quadrature starts.
START_PRICE = 0.05
#: Largest variance of the levels where a fit by quadrature starts.
MAX_START_VARIANCE = 40.0
#: Times that the variances are fitted with nodes placed anew.
MAX_LEVEL_PLACEMENTS = 8
#: Largest variance of the level over the one for which its nodes are placed.
MAX_LEVEL_GROWTH = 2.0
#: Change of D by the last of them that is small.
LEVEL_PLACEMENT_TOL = 0.3
#: Steps for the mode, which converge linearly.
MAX_LEVEL_STEPS = 40
#: Times that nodes are placed at one theta.
N_PLACEMENTS = 2
#: Smallest standard deviation of levels.
MIN_STD = 1e-4
#: Relative change of the variance for a derivative by differences.
DIFFERENCE = 0.02
#: Smallest unit of log-odds, and smallest variance of levels that has a logarithm.
MIN_UNIT = 1e-6
#: Ratio of two variances of the levels, as a logarithm, that is not worth a second fit.
MAX_LOG_RATIO = 0.1
#: Range of the factor of the other parts where a fit by quadrature starts.
FACTOR_RANGE = (0.2, 5.0)
#: Iterations for x, and the relative change that ends them.
MAX_SENSITIVITY_STEPS = 50
SENSITIVITY_TOL = 1e-8


def level_std(variance: float) -> float:
    """Return the standard deviation of levels, which is not quite zero.

    Derivatives in the variance divide by it.
    """
    return max(float(np.sqrt(variance)), MIN_STD)


@dataclass(frozen=True)
class LevelSums:
    """The integrals over the levels of all tasks.

    Attributes
    ----------
    log_likelihood : float
        sum_t log p_t.
    r, W : ndarray of shape (N,)
    slope : float
        d log_likelihood / d theta_L.
    """

    log_likelihood: float
    r: Array
    W: Array
    slope: float


class TaskLevels:
    """Integrals over the levels of tasks at nodes that are held.

    Parameters
    ----------
    labels, weights : ndarray of shape (N,)
        Labels 0 and 1.
    codes : ndarray of int, shape (N,)
        Position of the task of each row, in ascending order.
    """

    def __init__(self, labels: Array, weights: Array, codes: Array) -> None:
        self.codes = codes
        sizes = np.bincount(codes)
        starts = np.cumsum(sizes) - sizes
        self.blocks: list[PaddedRows] = []
        self.positions: list[Array] = []
        for tasks, n in by_length(sizes, N_NODES[0], MAX_BLOCK_SIZE):
            within = np.arange(n)
            is_row = within < sizes[tasks, None]
            index = np.where(is_row, starts[tasks, None] + within, -1)
            y = np.where(is_row, labels[index], 0.0)
            w = np.where(is_row, weights[index], 0.0)
            self.blocks.append(PaddedRows(tasks, np.zeros((1, n, 0)), y, w))
            self.positions.append(index)
        self.nodes: list[PlacedNodes] = []

    def place(self, odds: Array, std: float) -> float:
        """Place the nodes for log-odds (N,) without the levels.

        Return Laplace's approximation of -2 log_likelihood.
        """
        self.nodes = []
        laplace = 0.0
        for block, index in zip(self.blocks, self.positions, strict=True):
            E = np.full((*index.shape, 1), std)
            start = np.zeros((len(index), 1))
            mode, _, log_p, _, _, M = find_modes(block, E, odds[index], start)
            laplace += float(np.square(mode).sum() - 2 * log_p.sum())
            laplace += float(np.log(M).sum())
            self.nodes.append(PlacedNodes.at(mode, M))
        return laplace

    def laplace_error(self, odds: Array, std: float) -> float:
        """Return how much -2 log_likelihood by quadrature exceeds Laplace's."""
        laplace = self.place(odds, std)
        return -2 * self.sums(odds, std).log_likelihood - laplace

    def fit_scale(self, odds: Array) -> tuple[float, float]:
        """Return factor of the log-odds and variance of the levels by quadrature.

        The model is b_t + a + f odds.
        """
        unit = max(float(np.std(odds)), MIN_UNIT)
        blocks = []
        for block, index in zip(self.blocks, self.positions, strict=True):
            X = np.ones((*index.shape, 2))
            X[:, :, 1] = odds[index] / unit
            blocks.append(replace(block, X=X))
        n_tasks = int(self.codes[-1]) + 1
        prices = Prices(np.full(2, 1 / PRIOR_STD**2), np.full(2, START_PRICE))
        m = Laplace(blocks, n_tasks, np.zeros(1, dtype=int), prices)
        problem = LogisticProblem(m, intercept=False)
        laplace = grown(problem, pooled(problem), "scalar")
        value = fit_by_quadrature(problem, laplace).fit.value
        return float(value.mu[1]) / unit, float(value.Theta[0])

    def _node_sums(self, position: int, odds: Array, std: float) -> NodeSums:
        index = self.positions[position]
        nodes = self.nodes[position]
        levels = std * nodes.v[:, :, 0]
        at_nodes = odds[index][:, :, None] + levels[:, None, :]
        return NodeSums.of(self.blocks[position], at_nodes, nodes)

    def sums(self, odds: Array, std: float) -> LevelSums:
        """Return the integrals for log-odds (N,) without the levels."""
        log_likelihood = 0.0
        slope = 0.0
        r = np.empty(len(self.codes))
        W = np.empty(len(self.codes))
        for position, index in enumerate(self.positions):
            sums = self._node_sums(position, odds, std)
            is_row = index >= 0
            r[index[is_row]] = sums.mean_r[is_row]
            W[index[is_row]] = sums.mean_W[is_row]
            log_likelihood += float(sums.log_p.sum())
            h = sums.r.sum(axis=1)
            v = self.nodes[position].v[:, :, 0]
            slope += float((sums.share * h * v).sum()) / (2 * std)
        return LevelSums(log_likelihood, r, W, slope)

    def changes(
        self, odds: Array, std: float, weights: Array
    ) -> tuple[Array, float, Array]:
        """Return derivatives of c'W for weights c, and those of r.

        Returns
        -------
        in_odds : ndarray of shape (N,)
            Derivative of c'W in the log-odds of each row.
        in_variance : float
            Derivative of c'W in theta_L.
        r_in_variance : ndarray of shape (N,)
            Derivative of r in theta_L.
        """
        in_odds = np.empty(len(self.codes))
        r_in_variance = np.empty(len(self.codes))
        in_variance = 0.0
        for position, index in enumerate(self.positions):
            sums = self._node_sums(position, odds, std)
            is_row = index >= 0
            share = sums.share
            c = np.where(is_row, weights[index], 0.0)[:, :, None]
            # W and its derivative in the log-odds, w p (1 - p) (1 - 2 p).
            slope_W = sums.W * sums.one_minus_2p
            total = (c * sums.W).sum(axis=1)
            centered = total - (share * total).sum(axis=1, keepdims=True)
            weighted = (share * centered)[:, :, None]
            changes = (c[:, :, 0] * mean_over_nodes(slope_W, share)) + (
                sums.r @ weighted
            )[:, :, 0]
            in_odds[index[is_row]] = changes[is_row]
            v = self.nodes[position].v[:, :, 0]
            h = sums.r.sum(axis=1)
            # The density of v changes by h v, and the log-odds by v, per std.
            density = h * v
            density -= (share * density).sum(axis=1, keepdims=True)
            moved = (c * slope_W).sum(axis=1) * v + total * density
            in_variance += float((share * moved).sum()) / (2 * std)
            moved_r = sums.r * density[:, None, :] - sums.W * v[:, None, :]
            of_r = mean_over_nodes(moved_r, share) / (2 * std)
            r_in_variance[index[is_row]] = of_r[is_row]
        return in_odds, in_variance, r_in_variance

    def curvature_product(self, odds: Array, std: float, x: Array) -> Array:
        """Return H_e x, (N,)."""
        out = np.empty(len(self.codes))
        for position, index in enumerate(self.positions):
            sums = self._node_sums(position, odds, std)
            is_row = index >= 0
            values = np.where(is_row, x[index], 0.0)
            along = (sums.r * values[:, :, None]).sum(axis=1)
            along -= (sums.share * along).sum(axis=1, keepdims=True)
            product = sums.mean_W * values - mean_over_nodes(
                sums.r * along[:, None, :], sums.share
            )
            out[index[is_row]] = product[is_row]
        return out

    def by_task(self, values: Array) -> Array:
        """Return sums of values (N,) over the rows of each task, (T,)."""
        return np.bincount(self.codes, values)

    def posterior(self, odds: Array, std: float) -> list[TaskNodes]:
        """Return the posteriors of the levels at the nodes."""
        nodes = []
        for position, block in enumerate(self.blocks):
            share = self._node_sums(position, odds, std).share
            level = std * self.nodes[position].v
            mean = share[:, None, :] @ level
            nodes.append(TaskNodes(block.tasks, level - mean, share))
        return nodes


class LevelMarginal(LabelMarginal):
    """D as a function of theta, with integrated levels.

    Parameters
    ----------
    data : SmoothData
        Targets are 0 and 1; noise is 1 / weight. The tasks have levels.
    holds_nodes : bool
        Whether nodes stay where `place` puts them; else they are placed at every theta,
        and the gradient is not exact.
    """

    #: Far from their nodes integrals are wrong, and the mode takes many steps.
    max_growth: float | None = 2.0
    max_mode_steps = MAX_LEVEL_STEPS

    def __init__(self, data: SmoothData, *, holds_nodes: bool = True) -> None:
        super().__init__(data)
        self.levels = TaskLevels(self.labels, self.weights, data.codes)
        self.level = data.design.names.index("task level")
        self.holds_nodes = holds_nodes

    def place(self, theta: Array) -> None:
        """Place the nodes at the mode for theta."""
        std = level_std(float(theta[self.level]))
        for _ in range(N_PLACEMENTS):
            self.levels.place(self._mode, std)
            super().find_mode(theta)
        self.levels.place(self._mode, std)

    def _log_likelihood(self, eta: Array, theta: Array) -> float:
        return self.levels.sums(eta, level_std(float(theta[self.level]))).log_likelihood

    def _linearize(self, eta: Array, theta: Array) -> None:
        """Give the blocks targets and noise at eta, the log-odds without levels."""
        variance = float(theta[self.level])
        sums = self.levels.sums(eta, level_std(variance))
        noise = 1 / np.maximum(sums.W, MIN_INFORMATION * self.weights)
        target = eta + self._inverse_curvature(variance, noise, sums.r)
        self.blocks.set_target(target, noise)

    def _full_step(self, theta: Array) -> tuple[Array, Array, SmoothSolution]:
        odds, a, solution = super()._full_step(theta)
        variance = float(theta[self.level])
        levels = variance * self.levels.by_task(a)[self.levels.codes]
        return odds - levels, a, solution

    def _inverse_curvature(self, variance: float, noise: Array, x: Array) -> Array:
        """Return H^-1 x = W^-1 x + theta_L 1 1'x within tasks."""
        sums = self.levels.by_task(x)[self.levels.codes]
        return noise * x + variance * sums

    def find_mode(self, theta: Array) -> SmoothSolution:
        """Leave the blocks at the mode of the other parts.

        The steps converge linearly: only with the a of the mode is the objective at its
        minimum to second order.
        """
        if not self.holds_nodes:
            self.place(theta)
        return super().find_mode(theta)

    def _terms_of_rows(self, theta: Array, a: Array) -> tuple[float, float]:
        # Tasks have 1 + theta_L 1'W 1 in |H|.
        noise = self.blocks.data.noise
        information = self.levels.by_task(1 / noise)
        variance = float(theta[self.level])
        logdet = -np.log(noise).sum() - np.log1p(variance * information).sum()
        return self._objective, logdet

    def _gradient_at(self, solution: LabelSolution, gaussian: SmoothValue) -> Array:
        """Return the gradient for held nodes."""
        _, diagonal = self.marginal.weights_of_rows(gaussian)
        variance = float(solution.theta[self.level])
        std = level_std(variance)
        sums = self.levels.sums(self._mode, std)
        noise = self.blocks.data.noise
        information = self.levels.by_task(1 / noise)
        shrinkage = 1 / (1 + variance * information)
        squares = np.square(self.levels.by_task(solution.a)).sum()
        gradient = gaussian.gradient.copy()
        gradient[self.level] += squares - 2 * sums.slope
        gradient[self.level] -= (information * shrinkage).sum()
        # log|I + K H| depends on the information W of the rows.
        H_diagonal = 1 / noise - variance * shrinkage[self.levels.codes] / noise**2
        of_W = (H_diagonal - diagonal) * noise**2
        of_W[noise * sums.W < 1 - 1e-9] = 0.0
        q, of_variance, r_change = self.levels.changes(self._mode, std, of_W)
        # x = (K^-1 + H_e)^-1 q by (K^-1 + H) x = q + (H - H_e) x, and
        # (K^-1 + H)^-1 = H^-1 - H^-1 P H^-1.
        x = np.zeros_like(q)
        product = np.zeros_like(q)
        for _ in range(MAX_SENSITIVITY_STEPS):
            inside = self._inverse_curvature(variance, noise, q - product)
            projected = self.marginal.apply_projection(gaussian, inside + x)
            new = inside + x - self._inverse_curvature(variance, noise, projected)
            change = np.abs(new - x).max()
            x = new
            product = self.levels.curvature_product(self._mode, std, x)
            if change <= SENSITIVITY_TOL * (1 + np.abs(x).max()):
                break
        rest = q - product
        of_parts = self.marginal.bilinear(rest, solution.a)
        of_parts[self.level] = of_variance + x @ r_change
        return gradient + of_parts

    def level_posterior(self, theta: Array) -> list[TaskNodes]:
        """Return the posteriors of the levels where the mode was found last."""
        return self.levels.posterior(self._mode, level_std(float(theta[self.level])))


# ---------------------------------------------------------------------- fits


def fit_smooth_labels(data: SmoothData, options: SmoothOptions) -> SmoothFit:
    """Estimate the variances and the functions of a model of labels.

    Levels of tasks are integrated by quadrature where Laplace's approximation of their
    integrals is wrong.

    Parameters
    ----------
    data : SmoothData
        Targets are 0 and 1; noise is 1 / weight.
    options : SmoothOptions
    """
    index = estimation_rows(data, options)
    subset = data if len(index) == len(data.codes) else data.take(index)
    criterion = LabelMarginal(subset)
    prior = label_prior(data, options)
    fit: VarianceFit = fit_variances(
        criterion,
        prior,
        tol=options.tol,
        max_iter=options.max_iter,
    )
    n_evaluations = criterion.n_evaluations
    start = _level_start(criterion, fit)
    has_nodes = start is not None
    if start is not None:
        criterion = LevelMarginal(subset)
        fit = _fit_levels(criterion, prior, options, start)
        n_evaluations += criterion.n_evaluations
    # The functions are made of the parts that have a variance.
    is_active = fit.theta > 0
    if has_nodes:
        is_active[data.design.names.index("task level")] = True
    active_theta = fit.theta[is_active]
    active = type(criterion)(data.select_parts(is_active))
    if subset is data:
        active.start_mode_from(criterion)
    # The blocks of the search are released before others are made.
    del criterion
    nodes = None
    if isinstance(active, LevelMarginal):
        active.place(active_theta)
    active.find_mode(active_theta)
    solution = active.marginal.solve(active_theta)
    if isinstance(active, LevelMarginal):
        nodes = active.level_posterior(active_theta)
    # The rows have the targets and the noise of the model of numbers at the mode.
    rows = replace(active.blocks.data, design=data.design)
    posterior, diagonal = SmoothPosterior.fit(
        rows,
        fit.theta,
        active.marginal,
        solution,
    )
    target = rows.target
    diagonal = np.maximum(diagonal, 1e-12)
    return SmoothFit(
        variances=fit,
        posterior=posterior,
        part_variances=posterior.part_variances(active.blocks),
        leave_one_out=target - posterior.a / diagonal,
        leave_one_out_std=1 / np.sqrt(diagonal),
        estimation_rows=index,
        n_evaluations=n_evaluations,
        level_nodes=nodes,
    )


def _level_start(criterion: LabelMarginal, fit: VarianceFit) -> Array | None:
    """Return where to start with integrated levels; None if Laplace's fit is kept.

    It is kept if the derivative of its error predicts next to no gain. Where the error
    is large, the levels must also have about the same variance by quadrature when the
    other parts are multiplied by a factor.
    """
    names = criterion.blocks.data.design.names
    if "task level" not in names:
        return None
    level = names.index("task level")
    variance = float(fit.theta[level])
    if variance == 0:
        return None
    criterion.find_mode(fit.theta)
    data = criterion.blocks.data
    levels = TaskLevels(criterion.labels, criterion.weights, data.codes)
    eta = criterion.eta
    residual = criterion.weights * (criterion.labels - expit(eta))
    odds = eta - variance * levels.by_task(residual)[data.codes]
    std = level_std(variance)
    errors = []
    for sign in (1, -1):
        changed = level_std(variance * (1 + sign * DIFFERENCE))
        errors.append(levels.laplace_error(odds, changed))
    slope = (errors[0] - errors[1]) / (2 * DIFFERENCE * variance)
    information = levels.by_task(1 / data.noise)
    curvature = np.square(information / (1 + variance * information)).sum()
    reduction = 0.5 * slope**2 / max(float(curvature), 1e-300)
    difference = abs(levels.laplace_error(odds, std))
    if reduction < MAX_REDUCTION and difference < MAX_DIFFERENCE:
        return None
    factor, best = levels.fit_scale(odds)
    is_near = abs(np.log(max(best, MIN_UNIT) / variance)) < MAX_LOG_RATIO
    if reduction < MAX_REDUCTION and is_near:
        return None
    theta = fit.theta * np.clip(factor, *FACTOR_RANGE) ** 2
    # Where levels differ by more, the likelihood is flat, and integrals are rough.
    excess = max(best / MAX_START_VARIANCE, 1.0)
    theta = theta / excess
    theta[level] = max(best / excess, MIN_STD)
    return np.asarray(theta)


def _fit_levels(
    criterion: LevelMarginal,
    prior: VariancePrior,
    options: SmoothOptions,
    start: Array,
) -> VarianceFit:
    """Minimize D and place the nodes again, until that changes D no more."""
    level = criterion.blocks.data.design.names.index("task level")
    theta = start
    for _ in range(MAX_LEVEL_PLACEMENTS):
        largest = MAX_LEVEL_GROWTH * theta[level]
        criterion.place(theta)
        fit = fit_variances(
            criterion,
            prior,
            tol=options.tol,
            max_iter=options.max_iter,
            start=theta,
        )
        theta = fit.theta
        if theta[level] > largest:
            # Far from their nodes, integrals are rough, and D may fall without end.
            theta = start.copy()
            theta[level] = largest
            start = theta
            continue
        criterion.place(theta)
        placed = criterion.solve(theta).criterion
        if abs(placed - fit.value.criterion) < LEVEL_PLACEMENT_TOL:
            break
    return fit
