"""Tests of differences between tasks: of any, of levels only, and of which slopes.

They use compressed tasks, or logistic models.

score
    An exact Monte Carlo test of the score of a common variance of the tested columns.
    Everything else in which tasks may differ is projected out task by task. The null
    distribution then has no unknown parameter, so that draws of normal numbers give an
    exact p-value for any sizes of the tasks, without a fit.
f
    The classical exact F test, which needs tasks with more rows than columns.
lrt
    The restricted likelihood ratio of a single variance, against half a chi-square of
    one degree of freedom.
bootstrap
    The same statistic against tasks simulated from the model without the tested
    variances.
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
from mtlrun.solvers.hierarchical.quadrature import compared

Array = np.ndarray

# Numbers drawn at a time.
_DRAWN = 1 << 23
# Singular values below this, relative to the largest, are zero.
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
    """Tasks with untested effects projected out.

    The coefficients of untested columns differ between tasks. The other columns have a
    coefficient in common for all tasks, a fixed effect.
    """

    def __init__(self, data: Compressed, untested: Array) -> None:
        self.data = data
        self.bases = [_basis(block.R[:, :, untested]) for block in data.blocks]
        common = np.setdiff1d(np.arange(data.p), untested)
        X = []
        products: Any = 0
        for k, block in enumerate(data.blocks):
            x = self.within(k, block.R[:, :, common])
            X.append(x)
            # Summed over tasks and their rows.
            gram = np.tensordot(x, x, ([0, 1], [0, 1]))
            products = products + block.copies * gram
        values, vectors = np.linalg.eigh(np.asarray(products))
        kept = np.zeros(0, dtype=bool)
        if len(values):
            kept = values > _ZERO * max(values[-1], 1e-300)
        # Orthonormal columns, over all tasks, that span the fixed effects.
        basis = vectors[:, kept] / np.sqrt(values[kept])
        self.fixed = [x @ basis for x in X]

    def within(self, k: int, B: Array) -> Array:
        """Return B (m, rows, any) of block k without the effects of tasks."""
        U = self.bases[k]
        coefficients = U.transpose(0, 2, 1) @ B
        return B - U @ coefficients

    def residuals(self, Z: list[Array]) -> list[Array]:
        """Return targets (m, rows, any) of each block without any untested effect."""
        without_tasks = [self.within(k, z) for k, z in enumerate(Z)]
        pairs = list(zip(self.fixed, without_tasks, strict=True))
        coefficients: Any = 0
        for x, z in pairs:
            design = _repeated(x, len(z))
            coefficients = coefficients + np.tensordot(design, z, ([0, 1], [0, 1]))
        return [z - x @ coefficients for x, z in pairs]

    def rank(self) -> float:
        """Return the number of dimensions that untested effects take."""
        task_rank = 0.0
        for block, U in zip(self.data.blocks, self.bases, strict=True):
            # Columns of a basis have length 1, or 0 where they are dependent.
            lengths = np.square(U).sum(axis=1)
            task_rank += block.copies * float((lengths > 0.5).sum())
        return task_rank + self.fixed[0].shape[2]


def _repeated(x: Array, m: int) -> Array:
    """Return a design (m or 1, rows, columns) for each of m tasks, without a copy."""
    return np.broadcast_to(x, (m, *x.shape[1:]))


def _basis(R: Array) -> Array:
    """Return orthonormal columns of (m, k, q), zeros where they are dependent."""
    m, k, q = R.shape
    if q == 0:
        return np.zeros((m, k, 0))
    U, s, _ = np.linalg.svd(R, full_matrices=False)
    largest = np.maximum(s.max(axis=1, keepdims=True), 1e-300)
    is_independent = s > _ZERO * largest
    return np.asarray(U * is_independent[:, None, :])


def score_test(
    data: Compressed,
    tested: Array,
    untested: Array,
    draws: int = 999,
    seed: int = 0,
    *,
    noise_differs: bool = False,
) -> SignificanceTest:
    """Test whether tested columns have the same coefficient in all tasks.

    Parameters
    ----------
    data : Compressed
    tested, untested : ndarray of int
        Columns. The coefficients of untested ones may differ between tasks.
    draws : int, default 999
        Tables drawn under the hypothesis.
    seed : int, default 0
    noise_differs : bool, default False
        Whether the variance of the noise differs between tasks. Each task then keeps
        its residual squares in all draws, and only their direction is drawn (a rotation
        test, Langsrud 2005).
    """
    score = _Score(data, tested, untested)
    masks = [is_row(block) for block in data.blocks]
    # The squares that compression took from the rows have a chi-square distribution.
    n_other_rows = data.n.astype(float)
    for mask, block in zip(masks, data.blocks, strict=True):
        n_other_rows[block.tasks] -= mask.sum(axis=1)
    targets = [block.z[:, :, None] for block in data.blocks]
    observed_statistics = score.statistics(targets, data.rest.sum())
    observed = float(observed_statistics[0])
    squares = score.squares_by_task(targets, data.rest[:, None])
    if noise_differs and squares.sum() <= _ZERO * data.variance * data.N:
        # The untested effects leave rounding.
        observed = np.nan
    rng = np.random.default_rng(seed)
    n_above = 0
    n_done = 0
    table_size = sum(block.z.size for block in data.blocks)
    n_fitting = int(_DRAWN / max(table_size, 1))
    tables_at_a_time = max(1, min(draws, n_fitting))
    while n_done < draws:
        m = min(tables_at_a_time, draws - n_done)
        drawn = []
        for block, mask in zip(data.blocks, masks, strict=True):
            normal = rng.normal(size=(*block.z.shape, m))
            drawn.append(normal * mask[:, :, None])
        rest = np.zeros(m)
        if noise_differs:
            # A gamma distribution with shape 0 is zero.
            by_task = 2 * rng.gamma(
                np.maximum(n_other_rows, 0.0)[:, None] / 2, size=(data.T, m)
            )
            scale = np.sqrt(
                squares / np.maximum(score.squares_by_task(drawn, by_task), 1e-300)
            )
            drawn = [
                z * scale[block.tasks, None]
                for z, block in zip(drawn, data.blocks, strict=True)
            ]
            rest = (by_task * np.square(scale)).sum(axis=0)
        elif n_other_rows.sum() > 0:
            rest = rng.chisquare(n_other_rows.sum(), m)
        statistics = score.statistics(drawn, rest)
        n_above += int((statistics >= observed).sum())
        n_done += m
    p_value = np.nan
    if np.isfinite(observed):
        # The observed table counts as a draw, so that the test is exact.
        p_value = (1 + n_above) / (draws + 1)
    return SignificanceTest(observed, p_value)


class _Score:
    """The score of a common variance of tested columns, over the residual squares."""

    def __init__(self, data: Compressed, tested: Array, untested: Array) -> None:
        self.projected = _Projected(data, untested)
        Z = []
        squares: Any = 0
        for k, block in enumerate(data.blocks):
            z = self.projected.within(k, block.R[:, :, tested])
            Z.append(z)
            squares = squares + block.copies * np.square(z).sum(axis=(0, 1))
        unit = np.asarray(squares)
        # All columns count the same, whatever their units.
        positive = np.where(unit > 0, unit, 1.0)
        scale = np.sqrt(positive)
        self.Z = [z / scale for z in Z]

    def squares_by_task(self, targets: list[Array], rest: Array) -> Array:
        """Return the squares of each task without untested effects, (T, tables).

        Parameters
        ----------
        targets : list of ndarray of shape (m, rows, tables)
        rest : ndarray of shape (T, tables)
            Squares of rows that compression left out.
        """
        squares = np.array(rest, dtype=float)
        residuals = self.projected.residuals(targets)
        for block, r in zip(self.projected.data.blocks, residuals, strict=True):
            squares[block.tasks] += np.square(r).sum(axis=1)
        return squares

    def statistics(self, targets: list[Array], rest: Array) -> Array:
        """Return the statistic of each table of targets.

        They are blocks of shape (m, rows, tables).
        """
        residuals = self.projected.residuals(targets)
        score: Any = 0
        squares: Any = 0
        for z, r in zip(self.Z, residuals, strict=True):
            products = z.transpose(0, 2, 1) @ r
            score = score + np.square(products).sum(axis=(0, 1))
            squares = squares + np.square(r).sum(axis=(0, 1))
        return np.asarray(score / (squares + rest))


def is_row(block: Block) -> Array:
    """Return which rows are not padding, (m, k) or (1, k)."""
    return np.square(block.R).sum(axis=2) > 0


def f_test(data: Compressed, tested: Array, untested: Array) -> SignificanceTest:
    """Test the hypothesis of `score_test` by sums of squares.

    They are the residual squares with and without a coefficient per task of the tested
    columns.
    """
    small, small_df = _residual_squares(data, untested)
    large, large_df = _residual_squares(data, np.union1d(untested, tested))
    if large_df <= 0 or small_df <= large_df or large <= 0:
        return SignificanceTest(np.nan, np.nan)
    n_tested = small_df - large_df
    explained = (small - large) / n_tested
    noise = large / large_df
    F = explained / noise
    p_value = f_distribution.sf(F, n_tested, large_df)
    return SignificanceTest(float(F), float(p_value))


def _residual_squares(data: Compressed, untested: Array) -> tuple[float, float]:
    """Return the residual sum of squares and its degrees of freedom."""
    projected = _Projected(data, untested)
    targets = [block.z[:, :, None] for block in data.blocks]
    residuals = projected.residuals(targets)
    squares = sum(np.square(r).sum() for r in residuals)
    total = float(data.rest.sum() + squares)
    return total, data.N - projected.rank()


# ------------------------------------------------ likelihood ratios


def ratio_test(
    problem: HierarchicalProblem,
    tested: Array,
    draws: int = 0,
    seed: int = 0,
) -> SignificanceTest:
    """Test variances of a diagonal covariance by the restricted likelihood ratio.

    Parameters
    ----------
    problem : HierarchicalProblem
    tested : ndarray of int
        Columns.
    draws : int, default 0
        Simulated tables to compare the ratio with. With 0, compare it with half a
        chi-square, which is right for a single variance.
    seed : int, default 0
    """
    large = fit_covariance(problem, "diagonal")
    small = _without(problem, large, tested)
    statistic = _ratio(small, large)
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
        large_again = fit_covariance(again, "diagonal")
        small_again = _without(again, large_again, tested)
        n_larger += _ratio(small_again, large_again) >= statistic
    p_value = (1 + n_larger) / (draws + 1)
    return SignificanceTest(statistic, p_value)


def _ratio(small: Result | LaplaceFit, large: Result | LaplaceFit) -> float:
    """Return the likelihood ratio of nested models; rounding may not make it negative.

    A criterion is minus twice the logarithm of a likelihood. For labels it includes the
    price of the weak priors.
    """
    return max(small.criterion - large.criterion, 0.0)


def ratio_tests(
    problem: HierarchicalProblem,
    columns: Array,
) -> list[SignificanceTest]:
    """Test the variance of each column alone, while the others are free.

    The p-values are not adjusted for the number of columns; they are NaN for columns
    that vary within too few tasks.
    """
    large = fit_covariance(problem, "diagonal")
    can_differ = problem.data.can_differ(problem.intercept)
    tests = []
    for j in columns:
        test = SignificanceTest(np.nan, np.nan)
        if can_differ[j]:
            ratio = _ratio(_without(problem, large, np.array([j])), large)
            test = SignificanceTest(ratio, half_chi2(ratio))
        tests.append(test)
    return tests


def half_chi2(statistic: float) -> float:
    """Return the p-value of the likelihood ratio of one variance.

    A variance cannot be negative: under the hypothesis, the ratio is 0 half of the
    time.
    """
    if statistic > 0:
        return float(0.5 * chi2.sf(statistic, 1))
    return 1.0


def _without(
    problem: HierarchicalProblem,
    large: Result,
    tested: Array,
) -> Result:
    """Fit the diagonal without some variances, starting from the fit with them."""
    is_tested = np.isin(problem.random, tested)
    stay = np.flatnonzero(~is_tested)
    m = problem.marginal(problem.random[stay])
    # At a root of zero the gradient vanishes, and Newton's steps would stay there.
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
    """Draw tasks of the same designs from a model with diagonal covariance."""
    data = result.m.data
    v = result.fit.value
    m = result.m
    W = np.repeat(v.mu[None], data.T, axis=0)
    std = np.sqrt(v.s2 * v.Theta)
    deviations = rng.normal(size=(data.T, len(m.random)))
    W[:, m.random] += deviations * std
    noise_std = np.sqrt(v.s2)
    blocks = []
    rest = np.zeros(data.T)
    for block in data.blocks:
        mask = np.broadcast_to(is_row(block), block.z.shape)
        R = _repeated(block.R, len(block.z))
        mean = np.matmul(R, W[block.tasks, :, None])[:, :, 0]
        noise = noise_std * rng.normal(size=mask.shape) * mask
        blocks.append(Block(block.tasks, block.R, mean + noise))
        # The squares that compression took from the rows.
        n_other_rows = np.maximum(data.n[block.tasks] - mask.sum(axis=1), 0.0)
        has_others = n_other_rows > 0
        drawn = rng.chisquare(np.where(has_others, n_other_rows, 1.0))
        rest[block.tasks] = v.s2 * np.where(has_others, drawn, 0.0)
    return Compressed(blocks, rest, data.n, data.rows, data.variance)


# ------------------------------------------------ likelihood ratios of logistic models
#
# A variance of zero lies on the boundary of its range. The ratio of one variance
# therefore follows half a chi-square of one degree, and the ratio of two variances a
# mixture of chi-squares of 0, 1 and 2 degrees with weights 1/4, 1/2 and 1/4. One or two
# random columns are integrated by quadrature where Laplace's approximation is wrong.
# With more of them and few rows per task it remains, and the tests reject too rarely.


def test_of_tasks(problem: LogisticProblem, tested: str) -> SignificanceTest:
    """Test whether tasks differ at all ("all"), or their "slopes", while levels may.

    Compare one model of all rows, or a variance of levels, with variances of levels and
    of slopes.
    """
    small = pooled(problem)
    if tested == "slopes" and problem.intercept and 0 in problem.m.random:
        small = grown(problem, small, "intercept")
    large = grown(problem, small, "scalar")
    return _judged(problem, small, large)


def tests_of_columns(
    problem: LogisticProblem, columns: Array
) -> list[SignificanceTest]:
    """Test the variance of each random column alone, while the others are free.

    The p-values are not adjusted for the number of columns; they are NaN for columns
    that vary within too few tasks.
    """
    large = fit_logistic(problem, "diagonal")
    tests = []
    for j in columns.tolist():
        test = SignificanceTest(np.nan, np.nan)
        if j in problem.m.random:
            test = _judged(problem, without(problem, large, j), large)
        tests.append(test)
    return tests


def _judged(
    problem: LogisticProblem, small: LaplaceFit, large: LaplaceFit
) -> SignificanceTest:
    """Compare a model with a larger one, with one or two more variances."""
    if large.m.T == 1:
        # A single task does not differ from its mean.
        return SignificanceTest(np.nan, np.nan)
    small, large = compared(problem, small, large)
    ratio = _ratio(small, large)
    n_variances = large.structure.n_parameters - small.structure.n_parameters
    if n_variances != 2 or ratio == 0:
        return SignificanceTest(ratio, half_chi2(ratio))
    p_value = 0.5 * chi2.sf(ratio, 1) + 0.25 * chi2.sf(ratio, 2)
    return SignificanceTest(ratio, float(p_value))
