"""Results of smooth hierarchical models about their parts and their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

Array = np.ndarray[Any, np.dtype[Any]]

#: Variance that the centers miss, in units of the noise, beyond which a note says so. Of
#: twelve tables only one has more, whose test error changes by up to 16% (mean of two
#: splits) with another seed, and of six further tables four.
MAX_CENTER_ERROR = 0.1

#: Meaning of a part that is needed; {function} stands for the common function.
PART_STATEMENTS = {
    "linear": "{function} has a linear part",
    "additive": "{function} has curves of single columns",
    "wide": "{function} varies slowly with several columns together",
    "narrow": "{function} varies fast with several columns together",
    "task level": "tasks differ in their level",
    "task slopes": "tasks differ in their slopes",
    "task smooth": "tasks differ in a smooth function of all columns together",
    "task additive": "tasks differ in their curves of single columns",
}


@dataclass(frozen=True)
class PartTest:
    """A likelihood-ratio test of the hypothesis that the variance of a part is zero.

    Attributes
    ----------
    part : str
        Its name in `variances_`.
    statistic : float
        By how much minus twice the log-likelihood rises without the part, all other
        variances estimated again.
    p_value : float
        Under half a chi-square of one degree of freedom; 1 for a variance of zero. The
        prior of curves makes it rather too large.
    share : float
        Expected share of the part in the variance of the targets.
    sentence : str
    task : object
        The target that was tested, None for a model of tasks with rows of their own.
    """

    part: str
    statistic: float
    p_value: float
    share: float
    sentence: str
    task: Any = None


@dataclass(frozen=True)
class PartialDependence:
    """How the function depends on one column, averaged over rows of training.

    Attributes
    ----------
    column : str
    task : object
        The task, None for the function that all tasks share.
    values : ndarray of shape (n_values,)
        Values of the column.
    mean : ndarray of shape (n_values,)
        In units of the targets; log-odds of labels.
    std : ndarray of shape (n_values,)
        Posterior standard deviation, without noise.
    """

    column: str
    task: Any
    values: Array
    mean: Array
    std: Array

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of pointwise intervals of this probability."""
        width = float(norm.ppf(0.5 + level / 2)) * self.std
        return self.mean - width, self.mean + width


def format_part_test(
    part: str, statistic: float, p_value: float, share: float, function: str
) -> str:
    """Return a sentence about the test of a part.

    A p-value of 1 is a variance of zero.
    """
    if part in PART_STATEMENTS:
        statement = PART_STATEMENTS[part].format(function=function)
    else:
        column = part.partition("levels of ")[2]
        statement = f"groups of {column} differ in their level"
    if p_value == 1:
        return f"There is no sign that {statement}: the variance of this part is zero."
    p_text = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
    start = statement[0].upper() + statement[1:]
    if p_value > 0.05:
        start = f"It is not clear whether {statement}"
    return (
        f"{start} ({p_text}): without this part minus twice the log-likelihood "
        f"rises by {statistic:.1f}. It explains {share:.0%} of the variance."
    )


def format_center_note(n_centers: int, error: float, n_distinct: int) -> str:
    """Return a sentence about functions of several columns that the centers miss."""
    return (
        f"Predictions depend on which {n_centers} rows are centers (random_state): the "
        "centers miss functions of several columns, with "
        f"{error:.2g} times the variance of the noise. A larger n_centers helps; with "
        f"n_centers={n_distinct} every row is a center."
    )
