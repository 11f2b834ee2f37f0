"""Do tasks differ at all, beyond their level, in which slopes? Likelihood ratios of hierarchical logistic models.

A variance that is zero lies on the boundary of what is possible, so that the ratio of one variance follows half a
chi-square of one degree, that of two the mixture of 0, 1 and 2 degrees by 1/4, 1/2 and 1/4. Laplace's approximation
finds variances that are rather too small where tasks have few rows, and with them tests that reject rather too rarely.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import chi2

from mtlrun.solvers.hierarchical.inference import SignificanceTest, half_chi2
from mtlrun.solvers.hierarchical.logistic import LaplaceFit, LogisticProblem, fit_logistic, grown, pooled, without

Array = np.ndarray[Any, np.dtype[Any]]


def test_of_all(problem: LogisticProblem) -> SignificanceTest:
    """Test whether tasks differ at all: a model of all rows against one variance of levels and one of slopes."""
    small = pooled(problem)
    return _judged(small, grown(problem, small, "scalar"))


def test_of_slopes(problem: LogisticProblem) -> SignificanceTest:
    """Test whether slopes differ, while levels may: a variance of levels against one of slopes beside it."""
    small = pooled(problem)
    if problem.intercept and 0 in problem.m.random:
        small = grown(problem, small, "intercept")
    return _judged(small, grown(problem, small, "scalar"))


def tests_of_columns(problem: LogisticProblem, columns: Array) -> list[SignificanceTest]:
    """Test the variance of every one of the random columns alone, the others being free; not adjusted."""
    large = fit_logistic(problem, "diagonal")
    return [_judged(without(problem, large, int(j)), large) for j in columns]


def _judged(small: LaplaceFit, large: LaplaceFit) -> SignificanceTest:
    """Compare a model with one that has one or two variances more."""
    if large.m.T == 1:
        return SignificanceTest(np.nan, np.nan)  # a single task does not differ from its mean
    ratio = max(small.value.criterion - large.value.criterion, 0.0)
    if large.structure.size - small.structure.size != 2 or ratio == 0:
        return SignificanceTest(ratio, half_chi2(ratio))
    return SignificanceTest(ratio, float(0.5 * chi2.sf(ratio, 1) + 0.25 * chi2.sf(ratio, 2)))
