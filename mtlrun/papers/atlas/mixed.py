r"""Mean of measurements that come in tables, and tables that come from sources.

The model of measurement :math:`i` of table :math:`t` from source :math:`s` is

.. math:: y_i = \mu + u_s + v_t + e_i,

with independent normal effects of variances :math:`\sigma_s^2`, :math:`\sigma_t^2` and
:math:`\sigma^2`. Restricted maximum likelihood estimates the variances, and generalized
least squares the mean. The interval of the mean uses Student's distribution with one
degree of freedom less than there are sources: the tables of one source, and the numbers
of rows of one table, are not independent evidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as student

Array = np.ndarray[Any, np.dtype[Any]]

#: Coverage of the intervals.
COVERAGE = 0.95
#: Starting points of the ratios of standard deviations, and their upper bound.
STARTS = (0.1, 1.0, 5.0)
MAX_RATIO = 1e3


@dataclass(frozen=True)
class MixedMean:
    """Mean over tables, with its interval.

    Attributes
    ----------
    mean, error : float
        Estimate and standard error.
    df : int
        Degrees of freedom.
    source_std, table_std, residual_std : float
        Standard deviations of the effects.
    n_sources, n_tables, n_values : int
    """

    mean: float
    error: float
    df: int
    source_std: float
    table_std: float
    residual_std: float
    n_sources: int
    n_tables: int
    n_values: int

    @property
    def low(self) -> float:
        """Lower end of the 95% interval; NaN with a single source."""
        return self.mean - self._half

    @property
    def high(self) -> float:
        """Upper end of the 95% interval; NaN with a single source."""
        return self.mean + self._half

    @property
    def _half(self) -> float:
        if self.df < 1:
            return math.nan
        return float(student.ppf(0.5 + COVERAGE / 2, self.df)) * self.error


@dataclass(frozen=True)
class _Block:
    """Values of a source.

    Attributes
    ----------
    values : ndarray of shape (n,)
        Centered and scaled.
    same_table : ndarray of shape (n, n)
        1 for two values of one table, otherwise 0.
    """

    values: Array
    same_table: Array


@dataclass(frozen=True)
class _Fit:
    """Generalized least squares at given ratios of standard deviations.

    Attributes
    ----------
    mean, precision : float
        Estimate, and its precision in units of the residual variance.
    residual_sum : float
        Weighted sum of squared residuals.
    criterion : float
        -2 log restricted likelihood, up to a constant.
    """

    mean: float
    precision: float
    residual_sum: float
    criterion: float


def mixed_mean(
    values: Sequence[float], tables: Sequence[str], sources: Sequence[str]
) -> MixedMean:
    """Estimate the mean over tables.

    Parameters
    ----------
    values : sequence of float
    tables, sources : sequence of str
        Table and source of each value. A table has one source.

    Raises
    ------
    ValueError
        If there are no values, or not all of them are finite.

    Examples
    --------
    >>> found = mixed_mean([1.0, 1.2, 0.0, 0.2], ["a", "a", "b", "b"], ["a", "a", "b", "b"])
    >>> round(found.mean, 3), found.n_tables
    (0.6, 2)
    """
    y = np.asarray(values, dtype=np.float64)
    if not y.size or not np.isfinite(y).all():
        raise ValueError("values must be finite, and at least one is needed")
    table_of_value = np.asarray(tables)
    source_of_value = np.asarray(sources)
    # Differences from a value near the mean keep the digits of large means.
    center = float(y.mean())
    scale = float(y.std())
    n_tables = len(np.unique(table_of_value))
    n_sources = len(np.unique(source_of_value))
    if scale == 0.0:
        return MixedMean(
            center, 0.0, n_sources - 1, 0.0, 0.0, 0.0, n_sources, n_tables, len(y)
        )
    blocks = []
    for source in np.unique(source_of_value):
        rows = source_of_value == source
        tables_here = table_of_value[rows]
        same_table = (tables_here[:, np.newaxis] == tables_here).astype(float)
        blocks.append(_Block((y[rows] - center) / scale, same_table))
    ratios = _best_ratios(blocks)
    fit = _fit(blocks, ratios)
    # Without a degree of freedom there is no residual variance either.
    residual_variance = fit.residual_sum / max(len(y) - 1, 1)
    residual_std = scale * math.sqrt(residual_variance)
    return MixedMean(
        mean=center + scale * fit.mean,
        error=residual_std / math.sqrt(fit.precision),
        df=n_sources - 1,
        source_std=float(ratios[0]) * residual_std,
        table_std=float(ratios[1]) * residual_std,
        residual_std=residual_std,
        n_sources=n_sources,
        n_tables=n_tables,
        n_values=len(y),
    )


def _best_ratios(blocks: Sequence[_Block]) -> Array:
    """Return the ratios of standard deviations with the largest likelihood.

    The ratios are sources over residuals, and tables over residuals.
    """

    def criterion(ratios: Array) -> float:
        return _fit(blocks, ratios).criterion

    bounds = [(0.0, MAX_RATIO)] * 2
    fits = [
        minimize(criterion, [start, start], method="L-BFGS-B", bounds=bounds)
        for start in STARTS
    ]
    return np.asarray(min(fits, key=lambda fit: float(fit.fun)).x)


def _fit(blocks: Sequence[_Block], ratios: Array) -> _Fit:
    """Fit the mean, given the ratios of standard deviations."""
    source_variance, table_variance = np.square(ratios)
    precision = 0.0
    product = 0.0
    square = 0.0
    log_det = 0.0
    n_values = 0
    for block in blocks:
        n = len(block.values)
        # In units of the residual variance.
        covariance = np.eye(n) + source_variance + table_variance * block.same_table
        root = np.linalg.cholesky(covariance)
        ones = np.linalg.solve(root, np.ones(n))
        values = np.linalg.solve(root, block.values)
        precision += float(ones @ ones)
        product += float(ones @ values)
        square += float(values @ values)
        log_det += 2 * float(np.log(np.diag(root)).sum())
        n_values += n
    mean = product / precision
    residual_sum = max(square - mean * product, np.finfo(float).tiny)
    criterion = log_det + math.log(precision) + (n_values - 1) * math.log(residual_sum)
    return _Fit(mean, precision, residual_sum, criterion)
