"""Task intercepts that are shrunken towards their mean, for the squared loss.

Model: ``y_i = x_i' w_t + b_t + e_i`` for the rows i of task t, with levels ``b_t`` of
mean m and variance tau^2, and noise of variance sigma^2. The columns of x are centered
by their weighted means over all rows, so that b_t is the level at the mean row: another
zero of a column changes no prediction. For given w, the levels minimize

    1/2 sum_i v_i (y_i - x_i' w_t - b_t)^2 + rho / 2 sum_t (b_t - m)^2,

where v are weights and ``rho = sigma^2 / tau^2``. With n_t the weight of a task and
bars for its weighted means, the minimum is at

    b_t = m + n_t / (n_t + rho) (ybar_t - m - xbar_t' w_t).

There, the objective is a sum of squares without intercepts, of the rows ``x_i - theta_t
xbar_t`` and ``y_i - m - theta_t (ybar_t - m)`` with ``(1 - theta_t)^2 = rho / (n_t +
rho)``: the quasi-demeaned rows of a random-effects model.

The ratio rho and m come from a model with one coefficient vector for all tasks, by
restricted maximum likelihood (REML), so that there is nothing to tune.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from mtlrun.problem.taskdata import Array, TaskData

#: Ratios of the noise to the variance of the levels that are tried, as logarithms. At
#: the upper end the levels are equal for tasks of any usual size.
MIN_LOG_RATIO = np.log(1e-4)
MAX_LOG_RATIO = np.log(1e6)
#: Ratios at which the likelihood is computed before the best one is refined.
N_RATIOS = 24
#: Accuracy of the logarithm of the ratio.
LOG_RATIO_TOL = 1e-9
#: Eigenvalues below this share of the largest one belong to redundant columns.
RANK_TOL = 1e-10
#: Common coefficients are estimated from this number of rows per column on.
MIN_ROWS_PER_COLUMN = 2
# The levels in `TaskData.decompositions`.
_KEY = "levels"


@dataclass(frozen=True)
class ShrunkenLevels:
    """Quasi-demeaned rows, and the levels as a function of the coefficients.

    Attributes
    ----------
    data : TaskData
        The quasi-demeaned rows, to be fitted without intercepts.
    mean : float
        Mean m of the levels.
    ratio : float
        Strength rho: variance of the noise over the variance of the levels.
    sizes : ndarray of shape (T,)
        Total weight of each task.
    x_means : ndarray of shape (T, d)
        Weighted means of the centered columns, by task.
    y_means : ndarray of shape (T,)
    center : ndarray of shape (d,)
        Weighted means of the columns over all rows.
    """

    data: TaskData
    mean: float
    ratio: float
    sizes: Array
    x_means: Array
    y_means: Array
    center: Array

    @classmethod
    def of(cls, data: TaskData) -> ShrunkenLevels:
        """Return the levels of ragged, dense data, estimated once for all fits to them.

        Raises
        ------
        ValueError
            If the design is sparse: subtracting means would fill it.
        """
        if _KEY in data.decompositions:
            estimated: ShrunkenLevels = data.decompositions[_KEY]
            return estimated
        if data.sparse:
            raise ValueError(
                "intercepts='shrunken' needs a dense X. Use intercepts='free', or "
                "X.toarray() if it fits into memory"
            )
        X = np.asarray(data.X)
        weights = data.full_weights()
        sizes = data.sum_by_task(weights)
        starts = np.asarray(data.offsets)[:-1]
        center = weights @ X / weights.sum()
        X = X - center
        weighted_X = weights[:, np.newaxis] * X
        x_sums = np.add.reduceat(weighted_X, starts, axis=0)
        x_means = x_sums / sizes[:, np.newaxis]
        y_means = data.sum_by_task(weights * data.targets) / sizes
        centered = data.with_design(X)
        mean, ratio = _estimate(centered, weights, sizes, x_means, y_means)
        # theta_t of the module docstring
        shares = 1 - np.sqrt(ratio / (sizes + ratio))
        task_of_row = np.repeat(np.arange(data.n_tasks), data.sizes)
        x_shift = data.spread(shares)[:, np.newaxis] * x_means[task_of_row]
        y_shift = data.spread(shares * (y_means - mean))
        targets = data.targets - mean - y_shift
        levels = cls(
            data=centered.with_design(X - x_shift).with_targets(targets),
            mean=mean,
            ratio=ratio,
            sizes=sizes,
            x_means=x_means,
            y_means=y_means,
            center=center,
        )
        data.decompositions[_KEY] = levels
        return levels

    def intercepts(self, W: Array) -> Array:
        """Return the intercepts (T,), at zero columns, for coefficients W (d, T)."""
        predicted_means = np.sum(self.x_means.T * W, axis=0)
        residual_means = self.y_means - self.mean - predicted_means
        shares = self.sizes / (self.sizes + self.ratio)
        return self.mean + shares * residual_means - self.center @ W


def _estimate(
    data: TaskData,
    weights: Array,
    sizes: Array,
    x_means: Array,
    y_means: Array,
) -> tuple[float, float]:
    """Return mean and ratio by REML of common coefficients and random levels."""
    # Targets are centered before they are squared, or another zero of y loses digits.
    offset = float(sizes @ y_means / sizes.sum())
    y_means = y_means - offset
    # A row of weight k counts as k rows, as in the loss of the penalized models.
    n = float(sizes.sum())
    features = np.asarray(data.X)
    n_features = features.shape[1]
    if n - data.n_tasks < MIN_ROWS_PER_COLUMN * n_features:
        # Too few rows for slopes: only the level is common to all tasks.
        features = features[:, :0]
        x_means = x_means[:, :0]
    task_of_row = np.repeat(np.arange(data.n_tasks), data.sizes)
    columns = np.column_stack([features, data.targets - offset])
    means = np.column_stack([x_means, y_means])
    centered = columns - means[task_of_row]
    weighted = weights[:, np.newaxis] * centered
    within = centered.T @ weighted
    # The column of ones has no variation within tasks.
    within = np.pad(within, ((1, 0), (1, 0)))
    means = np.column_stack([np.ones(data.n_tasks), means])

    def criterion(log_ratio: float) -> tuple[float, float]:
        """Return minus twice the restricted log likelihood, and the mean level."""
        ratio = np.exp(log_ratio)
        # [1 x y]' V^-1 [1 x y]: all variation within tasks, and between tasks as much
        # as the levels leave to the coefficients.
        counts = sizes * ratio / (sizes + ratio)
        between = means.T @ (counts[:, np.newaxis] * means)
        moments = within + between
        gram = moments[:-1, :-1]
        cross = moments[:-1, -1]
        square = moments[-1, -1]
        values, vectors = np.linalg.eigh(gram)
        kept = values > RANK_TOL * values[-1]
        values = values[kept]
        vectors = vectors[:, kept]
        scores = vectors.T @ cross
        # Generalized least squares in the eigenbasis; rounding must not make the
        # residual squares vanish.
        rss = square - float(np.sum(scores**2 / values))
        rss = max(rss, RANK_TOL * square, np.finfo(float).tiny)
        n_free = max(n - len(values), 1.0)
        logdet_levels = float(np.sum(np.log1p(sizes / ratio)))
        logdet_gram = float(np.sum(np.log(values)))
        deviance = logdet_levels + logdet_gram + n_free * np.log(rss)
        coefficients = vectors @ (scores / values)
        return deviance, float(coefficients[0])

    grid = np.linspace(MIN_LOG_RATIO, MAX_LOG_RATIO, N_RATIOS)
    best = int(np.argmin([criterion(value)[0] for value in grid]))
    # The criterion can have several minima: the search stays next to the best value.
    low = grid[max(best - 1, 0)]
    high = grid[min(best + 1, N_RATIOS - 1)]
    refined = minimize_scalar(
        lambda log_ratio: criterion(log_ratio)[0],
        bounds=(low, high),
        method="bounded",
        options={"xatol": LOG_RATIO_TOL},
    )
    _, level = criterion(refined.x)
    return offset + level, float(np.exp(refined.x))
