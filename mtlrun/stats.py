"""Means over splits, and tests that compare methods over splits or data sets.

Tables have one row per block (data set, or split of one data set) and one column per
method. Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7
(2006), is the source of methods that cite no other source.

Tail probabilities come from `scipy.special`, since importing `scipy.stats` takes longer
than making a report. It is imported where it is needed: reports without tests do not
wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

#: Largest number of pairs for which the signed-rank distribution is enumerated.
EXACT_LIMIT = 50


def std(values: Iterable[float]) -> float | None:
    """Return the sample standard deviation; None for fewer than two values."""
    values = list(values)
    if len(values) < 2:
        return None
    return stdev(values)


def standard_error_factor(n: int | None = None) -> float:
    """Return by how many standard errors a mean is significant (two-sided, 5%).

    Parameters
    ----------
    n : int, optional
        Number of values of which the standard error was estimated, at least 2, for
        Student's factor. Default: the standard error is known.
    """
    from scipy import special

    if n is None:
        return float(special.ndtri(0.975))
    return float(special.stdtrit(n - 1, 0.975))


def task_means(
    values_by_split: Sequence[Sequence[float | None]],
) -> list[float | None]:
    """Average the values of each task over the splits in which they are defined.

    Parameters
    ----------
    values_by_split : sequence of sequences
        By split, the values of all tasks; None or NaN if undefined.

    Returns
    -------
    list of float or None
        None for tasks without a defined value. Empty if the splits have different
        numbers of tasks.
    """
    n_tasks = {len(values) for values in values_by_split}
    if len(n_tasks) != 1:
        return []
    means: list[float | None] = []
    for task_values in zip(*values_by_split, strict=True):
        defined = []
        for value in task_values:
            if value is not None and not math.isnan(value):
                defined.append(value)
        mean = None
        if defined:
            mean = fmean(defined)
        means.append(mean)
    return means


@dataclass(frozen=True)
class PairedTest:
    """Result of a paired test of a against b.

    Attributes
    ----------
    kind : {"wilcoxon", "t", "corrected_t"}
    n : int
        Pairs used; pairs with a NaN are dropped.
    mean_difference : float
        Mean of a - b, NaN without pairs.
    statistic : float or None
        Sum of the positive ranks (wilcoxon) or t; None where there is none.
    pvalue : float or None
        Two-sided; None when fewer than two pairs are left.
    wins, losses, ties : int
        Pairs with a > b, a < b, a = b.
    """

    kind: str
    n: int
    mean_difference: float
    statistic: float | None
    pvalue: float | None
    wins: int
    losses: int
    ties: int


def paired_test(
    a: ArrayLike,
    b: ArrayLike,
    kind: Literal["wilcoxon", "t", "corrected_t"] = "wilcoxon",
    *,
    test_over_train: float | None = None,
) -> PairedTest:
    """Test two-sidedly whether paired values differ.

    Parameters
    ----------
    a, b : array-like of shape (n,)
        Values of two methods on the same blocks.
    kind : {"wilcoxon", "t", "corrected_t"}
        Wilcoxon signed rank (zero differences dropped; exact up to 50 pairs, also with
        ties, else the normal approximation), Student's t, or the resampled t of Nadeau
        and Bengio (Machine Learning 52, 2003), whose variance 1/n is replaced by 1/n +
        test_over_train since training parts overlap.
    test_over_train : float, optional
        Test rows over training rows of a split; needed by ``corrected_t``.

    Returns
    -------
    PairedTest
        Without a p-value for n < 2; with p = 1 when all differences are zero.

    Raises
    ------
    ValueError
        If the shapes differ, the kind is unknown or `test_over_train` is missing.

    Examples
    --------
    >>> from mtlrun.stats import paired_test
    >>> a = [0.9, 0.8, 0.85, 0.95, 0.7, 0.9]
    >>> b = [0.7, 0.75, 0.7, 0.85, 0.65, 0.65]
    >>> test = paired_test(a, b)
    >>> round(test.pvalue, 3)
    0.031
    """
    if kind not in ("wilcoxon", "t", "corrected_t"):
        raise ValueError(f"kind must be wilcoxon, t or corrected_t, got {kind!r}")
    overlap: float | None = 0.0
    if kind == "corrected_t":
        overlap = test_over_train
    if overlap is None or overlap < 0:
        raise ValueError(
            "corrected_t needs test_over_train, the test rows over the training rows "
            "of a split"
        )
    first = np.asarray(a, dtype=float)
    second = np.asarray(b, dtype=float)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(
            "a and b must be 1-D of the same length, got "
            f"{first.shape} and {second.shape}"
        )
    difference = first - second
    difference = difference[~np.isnan(difference)]
    n = len(difference)
    statistic: float | None
    pvalue: float | None
    if n < 2:
        statistic = None
        pvalue = None
    elif not difference.any():
        statistic = 0.0
        pvalue = 1.0
    elif kind == "wilcoxon":
        statistic, pvalue = _wilcoxon(difference)
    else:
        statistic, pvalue = _t(difference, 1 / n + overlap)
    if n:
        mean = float(difference.mean())
    else:
        mean = np.nan
    signs = np.sign(difference)
    wins = int((signs > 0).sum())
    losses = int((signs < 0).sum())
    ties = n - wins - losses
    return PairedTest(kind, n, mean, statistic, pvalue, wins, losses, ties)


def _wilcoxon(difference: np.ndarray) -> tuple[float, float]:
    nonzero = difference[difference != 0]
    ranks = _mid_ranks(np.abs(nonzero))
    positive = float(ranks[nonzero > 0].sum())
    if len(nonzero) > EXACT_LIMIT:
        # The normal distribution is close enough.
        from scipy.special import ndtr

        n = len(ranks)
        mean = n * (n + 1) / 4
        _, counts = np.unique(ranks, return_counts=True)
        ties = float((counts**3 - counts).sum())
        # n (n + 1) (2 n + 1) is six times the sum of the squares of the ranks 1 to n.
        variance = (n * (n + 1) * (2 * n + 1) - ties / 2) / 24
        z = (positive - mean) / np.sqrt(variance)
        return positive, float(2 * ndtr(-abs(z)))
    # Mid-ranks are multiples of one half, so twice the sum of ranks is an integer:
    # count the sign patterns for each.
    doubled = np.rint(2 * ranks).astype(int)
    largest = doubled.sum()
    ways = np.zeros(largest + 1)
    ways[0] = 1.0
    for rank in doubled:
        # A sum is reached without this rank, or with it from a sum that is lower.
        ways[rank:] += ways[:-rank].copy()
    # The distribution is symmetric: the shorter tail counts twice.
    tail = min(2 * positive, largest - 2 * positive)
    n_ways_in_tail = ways[: int(tail) + 1].sum()
    pvalue = 2 * n_ways_in_tail / ways.sum()
    # Both tails include the middle, so that twice one of them may exceed 1.
    return positive, float(min(1.0, pvalue))


def _mid_ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of values from 1; equal values share the mean of their ranks."""
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(counts)
    mean_ranks = last_ranks - (counts - 1) / 2
    return np.asarray(mean_ranks[codes])


def _t(difference: np.ndarray, factor: float) -> tuple[float, float]:
    variance = float(difference.var(ddof=1))
    mean = float(difference.mean())
    if variance == 0:  # every pair differs by the same amount: infinitely sure
        return float(np.copysign(np.inf, mean)), 0.0
    t = mean / np.sqrt(factor * variance)
    degrees_of_freedom = len(difference) - 1
    from scipy.special import stdtr

    pvalue = 2 * stdtr(degrees_of_freedom, -abs(t))
    return float(t), float(pvalue)


def rank_table(table: ArrayLike, *, greater_is_better: bool = True) -> np.ndarray:
    """Rank the methods within every row: 1 is best, ties share the mean of their ranks.

    Parameters
    ----------
    table : array-like of shape (n_blocks, n_methods)
    greater_is_better : bool

    Returns
    -------
    ndarray of shape (n_blocks, n_methods)

    Raises
    ------
    ValueError
        If the table is not 2-D or has a NaN: drop the row, or decide what a failed
        method is worth.
    """
    values = np.asarray(table, dtype=float)
    if values.ndim != 2:
        raise ValueError(
            f"a table must have 2 dimensions (blocks, methods), got {values.ndim}"
        )
    if np.isnan(values).any():
        row, column = np.argwhere(np.isnan(values))[0]
        raise ValueError(
            f"the value of method {column} in block {row} is missing; drop the block "
            "or the method"
        )
    ordered = values
    if greater_is_better:
        ordered = -values
    ranks = np.array([_mid_ranks(row) for row in ordered])
    # A table without rows would lose its columns.
    return ranks.reshape(values.shape)


@dataclass(frozen=True)
class FriedmanTest:
    """Friedman's test in both forms.

    Attributes
    ----------
    n_blocks, n_methods : int
    chi2, chi2_pvalue : float
        Friedman's statistic and its chi-square p-value with n_methods - 1 degrees of
        freedom.
    f, f_pvalue : float
        Iman and Davenport's F = (n - 1) chi2 / (n (k - 1) - chi2) with (k - 1) and (k -
        1)(n - 1) degrees of freedom.
    """

    n_blocks: int
    n_methods: int
    chi2: float
    chi2_pvalue: float
    f: float
    f_pvalue: float


def friedman(table: ArrayLike) -> FriedmanTest:
    """Test whether all methods rank alike, with correction for ties.

    The direction of the metric does not matter.

    Parameters
    ----------
    table : array-like of shape (n_blocks, n_methods)
        At least two of each.

    Raises
    ------
    ValueError
        If the table is too small or has a NaN.

    Examples
    --------
    >>> from mtlrun.stats import friedman, holm, rank_table
    >>> table = [[0.9, 0.8, 0.7], [0.8, 0.7, 0.6], [0.9, 0.6, 0.7], [0.7, 0.6, 0.5]]
    >>> rank_table(table).mean(axis=0).tolist()
    [1.0, 2.25, 2.75]
    >>> round(friedman(table).f_pvalue, 3)
    0.007
    >>> holm([0.01, 0.04]).tolist()
    [0.02, 0.04]
    """
    ranks = rank_table(table)
    n, k = ranks.shape
    if n < 2 or k < 2:
        raise ValueError(
            f"Friedman's test needs at least 2 blocks and 2 methods, got {n} and {k}"
        )
    mean_rank = (k + 1) / 2
    squares_of_means = (ranks.mean(axis=0) - mean_rank) ** 2
    squares = (ranks - mean_rank) ** 2
    between = n * float(squares_of_means.sum())
    within = float(squares.sum()) / (n * (k - 1))
    # All values tied in every row.
    chi2 = 0.0
    if within > 0:
        chi2 = between / within
    from scipy.special import chdtrc, fdtrc

    chi2_pvalue = float(chdtrc(k - 1, chi2))
    rest = n * (k - 1) - chi2
    # All rows rank the methods in the same order. Then the rest is 0 but for rounding.
    f = np.inf
    f_pvalue = 0.0
    if rest > 1e-12 * n * k:
        f = (n - 1) * chi2 / rest
        within_degrees = (k - 1) * (n - 1)
        f_pvalue = float(fdtrc(k - 1, within_degrees, f))
    return FriedmanTest(n, k, chi2, chi2_pvalue, f, f_pvalue)


def critical_difference(n_methods: int, n_blocks: int, alpha: float = 0.05) -> float:
    """Return the critical difference of average ranks in Nemenyi's test.

    From this difference on, two methods differ.
    """
    from scipy.stats import studentized_range  # no other module has it

    # Demsar's table of q has these quantiles divided by sqrt(2). Here the square root
    # stands in the standard error: 12 n instead of 6 n.
    q = float(studentized_range.ppf(1 - alpha, n_methods, np.inf))
    variance = n_methods * (n_methods + 1) / (12.0 * n_blocks)
    return q * float(np.sqrt(variance))


@dataclass(frozen=True)
class ControlTest:
    """One method against the control, by their average ranks.

    Attributes
    ----------
    column : int
        Of the method in the table.
    z : float
        ``(R - R_control) / sqrt(k (k + 1) / (6 n))``, positive where the method ranks
        worse than the control.
    pvalue, adjusted : float
        Two-sided, by the normal distribution; adjusted by Holm's method.
    alpha : float
        Level that `pvalue` is compared with in Holm's steps.
    rejected : bool
        Whether `adjusted` is at most the level of all tests.
    """

    column: int
    z: float
    pvalue: float
    adjusted: float
    alpha: float
    rejected: bool


def control_tests(
    table: ArrayLike,
    control: int,
    *,
    level: float = 0.05,
    greater_is_better: bool = True,
) -> list[ControlTest]:
    """Test each method against a control by Holm's method.

    The smallest p-value comes first.

    Parameters
    ----------
    table : array-like of shape (n_blocks, n_methods)
    control : int
        Column of the method that the others are compared with.
    level : float
        Of all tests together.
    greater_is_better : bool
    """
    ranks = rank_table(table, greater_is_better=greater_is_better).mean(axis=0)
    n, k = np.shape(table)
    differences = ranks - ranks[control]
    standard_error = np.sqrt(k * (k + 1) / (6.0 * n))
    z = np.delete(differences / standard_error, control)
    columns = np.delete(np.arange(k), control)
    from scipy.special import ndtr

    raw = 2 * ndtr(-np.abs(z))
    adjusted = holm(raw)
    tests = []
    for position, i in enumerate(np.argsort(raw, kind="stable")):
        test = ControlTest(
            column=int(columns[i]),
            z=float(z[i]),
            pvalue=float(raw[i]),
            adjusted=float(adjusted[i]),
            alpha=level / (len(z) - position),
            rejected=bool(adjusted[i] <= level),
        )
        tests.append(test)
    return tests


def holm(pvalues: ArrayLike, family: int = 0) -> np.ndarray:
    """Return p-values adjusted by Holm's step-down method, in the same order.

    NaNs stay NaN and do not count.

    The i-th smallest of m is multiplied by m - i + 1, cut at 1, and made at least as
    large as those before it. The tests may belong to a larger family of m tests, of
    which the others have shown nothing.

    Raises
    ------
    ValueError
        If a p-value is outside [0, 1].
    """
    raw = np.asarray(pvalues, dtype=float)
    present = np.flatnonzero(~np.isnan(raw))
    is_outside = (raw[present] < 0) | (raw[present] > 1)
    if is_outside.any():
        raise ValueError("p-values must lie in [0, 1]")
    order = present[np.argsort(raw[present], kind="stable")]
    size = max(family, len(order))
    products = raw[order] * (size - np.arange(len(order)))
    # A larger p-value must not become smaller than one before it by its smaller factor.
    rising = np.maximum.accumulate(products)
    adjusted = raw.copy()
    adjusted[order] = np.minimum(1.0, rising)
    return adjusted
