"""Do tasks differ at all, only in their level, in which slopes? Tests on compressed tasks, and of logistic models.

score      An exact Monte Carlo test of the score of a common variance of the tested columns, after what tasks may
           differ in was projected out task by task. Its null distribution has no
           unknown parameter, so draws of normal numbers give an exact p-value whatever
           the sizes of the tasks; nothing is fitted.
f          The classical exact F test; it needs tasks with more rows than columns.
lrt        The restricted likelihood ratio of a single variance, against half a chi-square of one degree.
bootstrap  The same statistic against tasks simulated from the model without the tested variances.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2
from scipy.stats import f as f_distribution

from mtlrun.solvers.hierarchical.compress import Block, Compressed
from mtlrun.solvers.hierarchical.covariance import newton
from mtlrun.solvers.hierarchical.fit import HierarchicalProblem, Result, fit_covariance
from mtlrun.solvers.hierarchical.logistic import (
    LaplaceFit,
    LogisticProblem,
    fit_logistic,
    grown,
    pooled,
    without,
)

Array = np.ndarray[Any, np.dtype[Any]]

# Numbers drawn at a time; singular values below this, relative to the largest, are
# zero.
_DRAWN = 1 << 23
_ZERO = 1e-9


class SignificanceTest(NamedTuple):
    """A test of whether tasks differ.

    Attributes
    ----------
    statistic : float
    p_value : float
        NaN where the rows do not suffice for the test.
    """

    statistic: float
    p_value: float


# ---------------------------------------------------------------------- without any fit


class _Projected:
    """Rows without what the columns `own` explain task by task; pooled columns that are left are fixed effects."""

    def __init__(self, data: Compressed, untested: Array) -> None:
        self.data = data
        self.bases = [_basis(block.R[:, :, untested]) for block in data.blocks]
        rest = np.setdiff1d(np.arange(data.p), untested)
        X = [self.inside(k, block.R[:, :, rest]) for k, block in enumerate(data.blocks)]
        S = sum(
            block.copies * np.tensordot(x, x, ([0, 1], [0, 1]))
            for block, x in zip(data.blocks, X, strict=True)
        )
        values, vectors = np.linalg.eigh(np.asarray(S))
        if len(values):
            kept = values > _ZERO * max(values[-1], 1e-300)
        else:
            kept = np.zeros(0, dtype=bool)
        self.fixed = [x @ (vectors[:, kept] / np.sqrt(values[kept])) for x in X]

    def inside(self, k: int, B: Array) -> Array:
        """Take off what the own columns explain of (m, rows, any) in block k."""
        U = self.bases[k]
        return B - U @ (U.transpose(0, 2, 1) @ B)

    def residuals(self, Z: list[Array]) -> list[Array]:
        """Return targets (m, rows, any) of each block without own and fixed effects."""
        inner = [self.inside(k, z) for k, z in enumerate(Z)]
        seen = sum(
            np.tensordot(_all(x, z), z, ([0, 1], [0, 1]))
            for x, z in zip(self.fixed, inner, strict=True)
        )
        return [z - x @ seen for x, z in zip(self.fixed, inner, strict=True)]

    def rank(self) -> float:
        """Return how many numbers own and fixed effects take."""
        task_rank = sum(
            block.copies * float((np.square(U).sum(axis=1) > 0.5).sum())
            for block, U in zip(self.data.blocks, self.bases, strict=True)
        )
        return task_rank + self.fixed[0].shape[2]


def _all(x: Array, z: Array) -> Array:
    return np.broadcast_to(x, (len(z), *x.shape[1:]))


def _basis(R: Array) -> Array:
    """Return orthonormal columns of (m, k, q), zeros where they are dependent."""
    if not R.shape[2]:
        return np.zeros((len(R), R.shape[1], 0))
    U, s, _ = np.linalg.svd(R, full_matrices=False)
    return np.asarray(
        U * (s > _ZERO * np.maximum(s.max(axis=1, keepdims=True), 1e-300))[:, None, :]
    )


def score_test(
    data: Compressed, tested: Array, untested: Array, draws: int = 999, seed: int = 0
) -> SignificanceTest:
    """Test whether the columns `tested` have one coefficient for all tasks, while those in `untested` may differ."""
    projected = _Projected(data, untested)
    Z = [
        projected.inside(k, block.R[:, :, tested])
        for k, block in enumerate(data.blocks)
    ]
    unit = np.asarray(
        sum(
            b.copies * np.square(z).sum(axis=(0, 1))
            for b, z in zip(data.blocks, Z, strict=True)
        )
    )
    Z = [z / np.sqrt(np.where(unit > 0, unit, 1.0)) for z in Z]
    real = [_real(block) for block in data.blocks]
    rows = sum(
        float(mask.sum()) * len(block.z) / len(mask)
        for mask, block in zip(real, data.blocks, strict=True)
    )
    left = max(data.N - rows, 0.0)

    def statistic(targets: list[Array], rest: Array) -> Array:
        e = projected.residuals(targets)
        score = sum(
            np.square(z.transpose(0, 2, 1) @ r).sum(axis=(0, 1))
            for z, r in zip(Z, e, strict=True)
        )
        return np.asarray(
            score / (sum(np.square(r).sum(axis=(0, 1)) for r in e) + rest)
        )

    seen = float(
        statistic([block.z[:, :, None] for block in data.blocks], data.rest.sum())[0]
    )
    rng = np.random.default_rng(seed)
    above = 0
    done = 0
    size = max(
        1, min(draws, int(_DRAWN / max(sum(block.z.size for block in data.blocks), 1)))
    )
    while done < draws:
        m = min(size, draws - done)
        drawn = [
            rng.normal(size=(*b.z.shape, m)) * mask[:, :, None]
            for b, mask in zip(data.blocks, real, strict=True)
        ]
        above += int(
            (
                statistic(drawn, rng.chisquare(left, m) if left > 0 else np.zeros(m))
                >= seen
            ).sum()
        )
        done += m
    if np.isfinite(seen):
        return SignificanceTest(seen, (1 + above) / (draws + 1))
    return SignificanceTest(seen, np.nan)


def _real(block: Block) -> Array:
    """Return which rows are not padding, (m, k) or (1, k)."""
    return np.square(block.R).sum(axis=2) > 0


def f_test(data: Compressed, tested: Array, untested: Array) -> SignificanceTest:
    """Test the same hypothesis by sums of squares with and without a coefficient per task for the columns `tested`."""
    (small, d0), (large, d1) = (
        _left(data, columns) for columns in (untested, np.union1d(untested, tested))
    )
    if d1 <= 0 or d0 <= d1 or large <= 0:
        return SignificanceTest(np.nan, np.nan)
    F = (small - large) / (d0 - d1) / (large / d1)
    return SignificanceTest(float(F), float(f_distribution.sf(F, d0 - d1, d1)))


def _left(data: Compressed, untested: Array) -> tuple[float, float]:
    projected = _Projected(data, untested)
    e = projected.residuals([block.z[:, :, None] for block in data.blocks])
    return float(
        data.rest.sum() + sum(np.square(r).sum() for r in e)
    ), data.N - projected.rank()


# ---------------------------------------------------------------------- likelihood ratios


def ratio_test(
    problem: HierarchicalProblem, tested: Array, draws: int = 0, seed: int = 0
) -> SignificanceTest:
    """Test the variances of the columns `tested` in a diagonal covariance by the restricted likelihood ratio.

    Against half a chi-square, for a single variance; with `draws` against as many
    simulated tables.
    """
    large = fit_covariance(problem, "diagonal")
    small = _without(problem, large, tested)
    statistic = max(small.criterion - large.criterion, 0.0)
    if not draws:
        return SignificanceTest(statistic, half_chi2(statistic))
    rng = np.random.default_rng(seed)
    n_larger = 0
    for _ in range(draws):
        table = _simulated(small, rng)
        again = HierarchicalProblem(
            table,
            problem.random,
            problem.intercept,
            problem.method,
            problem.shrink,
            1e-6,
        )
        alternative = fit_covariance(again, "diagonal")
        n_larger += (
            max(
                _without(again, alternative, tested).criterion - alternative.criterion,
                0.0,
            )
            >= statistic
        )
    return SignificanceTest(statistic, (1 + n_larger) / (draws + 1))


def ratio_tests(problem: HierarchicalProblem, columns: Array) -> list[SignificanceTest]:
    """Test every one of the columns alone, the others being free; p-values are not adjusted."""
    large = fit_covariance(problem, "diagonal")
    ratios = [
        max(_without(problem, large, np.array([j])).criterion - large.criterion, 0.0)
        for j in columns
    ]
    return [SignificanceTest(r, half_chi2(r)) for r in ratios]


def half_chi2(statistic: float) -> float:
    """Return the p-value of a likelihood ratio of one variance, which may not be negative."""
    if statistic > 0:
        return float(0.5 * chi2.sf(statistic, 1))
    return 1.0


def holm(p: list[float], family: int | None = None) -> list[float]:
    """Return p-values adjusted by Holm's method.

    `family` is the number of tests that they belong to, by default their own.
    Tests without a p-value (NaN) are not counted and have none.
    """
    values = np.array(p, dtype=float)
    n_tests = int(np.isfinite(values).sum())
    size = max(family or 0, n_tests)
    out = np.full(len(values), np.nan)
    last = 0.0
    for rank, i in enumerate(np.argsort(values, kind="stable")[:n_tests]):
        last = max(last, min(1.0, values[i] * (size - rank)))
        out[i] = last
    return [float(value) for value in out]


def _without(problem: HierarchicalProblem, large: Result, tested: Array) -> Result:
    """Fit the diagonal without the variances of some columns, from the fit with them."""
    stay = np.flatnonzero(~np.isin(problem.random, tested))
    m = problem.marginal(problem.random[stay])
    structure = problem.grouped_variances(m, "diagonal")
    start = np.maximum(large.fit.x[stay], 1e-3)
    kappa = large.fit.value.kappa
    fit = newton(
        m,
        structure,
        start=start,
        kappa=kappa,
        tol=problem.tol,
        max_iter=problem.max_iter,
    )
    return Result("diagonal", m, structure, fit)


def _simulated(result: Result, rng: np.random.Generator) -> Compressed:
    """Draw compressed tasks of the same designs from a fitted model with a diagonal covariance."""
    data = result.m.data
    v = result.fit.value
    m = result.m
    W = np.repeat(v.mu[None], data.T, axis=0)
    W[:, m.random] += rng.normal(size=(data.T, len(m.random))) * np.sqrt(v.s2 * v.Theta)
    blocks = []
    rest = np.zeros(data.T)
    for block in data.blocks:
        real = np.broadcast_to(_real(block), block.z.shape)
        mean = np.matmul(
            np.broadcast_to(block.R, (len(block.z), *block.R.shape[1:])),
            W[block.tasks, :, None],
        )[:, :, 0]
        blocks.append(
            Block(
                block.tasks,
                block.R,
                mean + np.sqrt(v.s2) * rng.normal(size=real.shape) * real,
            )
        )
        left = np.maximum(data.n[block.tasks] - real.sum(axis=1), 0.0)
        rest[block.tasks] = v.s2 * np.where(
            left > 0, rng.chisquare(np.where(left > 0, left, 1.0)), 0.0
        )
    return Compressed(blocks, rest, data.n, data.rows, data.variance)


# ---------------------------------------------------------------------- likelihood ratios of logistic models
#
# A variance of zero lies on the boundary of its range. The ratio of one variance
# therefore follows half a chi-square of one degree, and the ratio of two variances a
# mixture of chi-squares of 0, 1 and 2 degrees with weights 1/4, 1/2 and 1/4. Laplace's
# approximation underestimates variances where tasks have few rows, so that the tests
# reject too rarely there.


def test_of_all(problem: LogisticProblem) -> SignificanceTest:
    """Test whether tasks differ at all: a model of all rows against one variance of levels and one of slopes."""
    small = pooled(problem)
    return _judged(small, grown(problem, small, "scalar"))


def test_of_slopes(problem: LogisticProblem) -> SignificanceTest:
    """Test whether slopes differ when levels may: variances of levels and slopes against one of levels."""
    small = pooled(problem)
    if problem.intercept and 0 in problem.m.random:
        small = grown(problem, small, "intercept")
    return _judged(small, grown(problem, small, "scalar"))


def tests_of_columns(
    problem: LogisticProblem, columns: Array
) -> list[SignificanceTest]:
    """Test the variance of each random column alone, while the others are free.

    The p-values are not adjusted for the number of columns.
    """
    large = fit_logistic(problem, "diagonal")
    return [_judged(without(problem, large, int(j)), large) for j in columns]


def _judged(small: LaplaceFit, large: LaplaceFit) -> SignificanceTest:
    """Compare a model with a larger one, with one or two more variances."""
    if large.m.T == 1:
        return SignificanceTest(
            np.nan, np.nan
        )  # a single task does not differ from its mean
    ratio = max(small.criterion - large.criterion, 0.0)
    if large.structure.n_parameters - small.structure.n_parameters != 2 or ratio == 0:
        return SignificanceTest(ratio, half_chi2(ratio))
    return SignificanceTest(
        ratio, float(0.5 * chi2.sf(ratio, 1) + 0.25 * chi2.sf(ratio, 2))
    )
