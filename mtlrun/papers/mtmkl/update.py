"""Updates of the kernel weights in multi-task MKL, by the authors of the paper.

Two of them minimize ``lam sum_{s<t} ||theta_s - theta_t|| + sum_t <slopes_t, theta_t>``
over weights in the simplex, by alternating directions with scaled dual variables:
Algorithm 2, as printed or corrected, and the iteration of the authors' MATLAB code. The
third is the step of block descent on the primal problem. The weights theta have shape
(T, M), for T tasks and M kernels.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from mtlrun.solvers.mkl.machines import SvmTasks
from mtlrun.solvers.mkl.mkl import Coupling, MklResult, solve_alternating
from mtlrun.solvers.pairwise import project_simplex_ball

Array = np.ndarray

#: Penalty parameter of the authors' code.
RHO = 10.0
#: Iterations of the authors' code.
MAX_ITER = 1000
#: Tolerances of the stopping rule of the authors' code.
ABSOLUTE_TOLERANCE = 1e-4
RELATIVE_TOLERANCE = 1e-2
#: Rounds of a step of block descent at most, and the change of the weights at its end.
PRIMAL_ROUNDS = 200
PRIMAL_CHANGE = 1e-5
#: A weight as large as this will not come back.
_DIVERGED_WEIGHT = 1e9
#: Vectors shorter than this have no direction.
_TINY_LENGTH = 1e-300


# ---------------------------------------------------------------- the authors' code


def repaired_update(theta: Array, slopes: Array, mu: float) -> tuple[Array, int]:
    """Run the iteration of the authors' code, repaired.

    Its objective is ``mu sum_{s<t} ||theta_s - theta_t|| + sum_t <slopes_t, theta_t>``.

    The code as published does not run: the function that shrinks the difference of a
    pair never assigns its results, and a stale index zeroes the first of two tasks.
    Here the function returns the proximal operator of both tasks. Also, the copies of a
    task in its pairs are averaged, since with the sum of the code the iteration
    diverges. All else is as in the code: the denominators T - 1, the sum of weights of
    exactly 1, and the penalty that mu changes through the slopes. It does not minimize
    the objective: with a large mu the weights approach 1/M, whatever the slopes,
    instead of approaching each other at the best common weights.

    Parameters
    ----------
    theta : ndarray of shape (T, M)
        Initial weights; T at least 2.
    slopes : ndarray of shape (T, M)
        Slopes of the objective of each task.
    mu : float
        Positive.

    Returns
    -------
    theta : ndarray of shape (T, M)
        Negative entries are set to 0.
    n_iter : int
        `MAX_ITER` if the stopping rule was not met.

    References
    ----------
    The authors' MATLAB code (read for its facts); Yousefi, Georgiopoulos and
    Anagnostopoulos, ECML PKDD 2015, Algorithm 2.
    """
    n_tasks, n_kernels = theta.shape
    n_others = n_tasks - 1
    first, second = np.triu_indices(n_tasks, 1)
    pull = slopes / (RHO * mu)
    absolute = ABSOLUTE_TOLERANCE * np.sqrt(n_tasks)
    zeros = np.zeros_like(theta)
    # Each pair has copies of the weights of its two tasks. Two other copies of all
    # weights are constrained: `positive` to be nonnegative, `summed` to sum to 1.
    positive = zeros
    summed = zeros
    dual_first = np.zeros((len(first), n_kernels))
    dual_second = np.zeros((len(first), n_kernels))
    dual_copies = zeros
    dual_positive = zeros
    dual_summed = zeros
    for n_iter in range(1, MAX_ITER + 1):
        copy_first, copy_second = _shrink_differences(
            theta[first] - dual_first, theta[second] - dual_second, 1 / RHO
        )
        copies = zeros.copy()
        np.add.at(copies, first, copy_first / n_others)
        np.add.at(copies, second, copy_second / n_others)
        old_theta = theta
        old_positive = positive
        old_summed = summed
        theta = (copies + dual_copies + positive + dual_positive - pull) / n_others
        positive = np.maximum(theta - dual_positive + summed - dual_summed, 0) / 2
        summed = _project_sums(positive + dual_summed)
        dual_first = dual_first + copy_first - theta[first]
        dual_second = dual_second + copy_second - theta[second]
        dual_copies = (pull - old_positive - dual_positive) / n_others
        dual_positive = dual_positive + positive - theta
        dual_summed = dual_summed + positive - summed
        size_copies = RHO * _sum_of_lengths(dual_copies)
        size_positive = RHO * _sum_of_lengths(dual_positive)
        size_summed = RHO * _sum_of_lengths(dual_summed)
        #: Each residual with the size to which it is relative.
        residuals = [
            (
                _sum_of_lengths(copies - theta),
                max(_sum_of_lengths(copies), _sum_of_lengths(theta)),
            ),
            (
                _sum_of_lengths(positive - theta),
                max(_sum_of_lengths(positive), _sum_of_lengths(theta)),
            ),
            (
                _sum_of_lengths(positive - summed),
                max(_sum_of_lengths(positive), _sum_of_lengths(summed)),
            ),
            (RHO * _sum_of_lengths(old_theta - theta), size_copies),
            (
                RHO * _sum_of_lengths(positive - old_positive),
                size_copies + size_positive,
            ),
            (RHO * _sum_of_lengths(summed - old_summed), size_positive + size_summed),
        ]
        if all(
            residual < absolute + RELATIVE_TOLERANCE * size
            for residual, size in residuals
        ):
            return np.maximum(theta, 0), n_iter
    return np.maximum(theta, 0), MAX_ITER


def _shrink_differences(a: Array, b: Array, strength: float) -> tuple[Array, Array]:
    """Return the proximal operator of ``strength ||a - b||``, row by row."""
    difference = a - b
    lengths = np.linalg.norm(difference, axis=1, keepdims=True)
    share = np.minimum(strength / np.maximum(lengths, _TINY_LENGTH), 0.5)
    step = difference * share
    return a - step, b + step


def _project_sums(points: Array) -> Array:
    """Return the nearest points whose entries sum to 1, row by row."""
    return points + (1 - points.sum(axis=1, keepdims=True)) / points.shape[1]


def _sum_of_lengths(points: Array) -> float:
    """Return the sum of the Euclidean lengths of the rows."""
    return float(np.linalg.norm(points, axis=1).sum())


# ---------------------------------------------------------------- Algorithm 2

#: Updates of Algorithm 2 that can be corrected: equation (12), equation (14), equations
#: (16) to (18).
FIXES = ("pair", "theta", "projection")


@dataclass(frozen=True)
class Consensus:
    """Result of Algorithm 2.

    Attributes
    ----------
    theta : ndarray of shape (T, M)
    n_iter : int
        Iterations until the stopping rule was met or the weights diverged (1e9), or
        all.
    stopped : bool
        Whether the stopping rule was met.
    residual : float
        Distance of all copies from the weights, relative to their length.
    sizes : list of float
        Largest absolute weight after each iteration.
    """

    theta: Array
    n_iter: int
    stopped: bool
    residual: float
    sizes: list[float]


def consensus(
    theta: Array,
    slopes: Array,
    lam: float,
    fixes: Collection[str] = (),
    *,
    max_iter: int = 1000,
    stop: bool = True,
) -> Consensus:
    """Run Algorithm 2, as printed or corrected.

    The names follow the paper: s are the copies of the weights in the pairs, z is the
    copy in the simplex, u and v are their scaled dual variables; y and beta belong to
    the printed projection.

    Parameters
    ----------
    theta : ndarray of shape (T, M)
        Initial weights.
    slopes : ndarray of shape (T, M)
    lam : float
    fixes : collection of {"pair", "theta", "projection"}, default ()
        Updates that are corrected. "pair": the copies of a pair approach each other
        instead of zero. "theta": a task averages all of its T copies. "projection":
        weights are projected on the simplex ball.
    max_iter : int, default 1000
    stop : bool, default True
        Whether to stop when residuals are small, as the authors' code does.
    """
    n_tasks = len(theta)
    pairs = np.column_stack(np.triu_indices(n_tasks, 1))
    s = theta[pairs]
    z = theta.copy()
    u = np.zeros_like(s)
    v = np.zeros_like(theta)
    beta = np.zeros_like(theta)
    # A task has T copies, T - 1 in its pairs and one in z; equation (14) divides by
    # T - 1.
    n_copies = n_tasks if "theta" in fixes else n_tasks - 1
    sizes: list[float] = []
    residual = np.inf
    stopped = False
    for _ in range(max_iter):
        old_s = s
        old_z = z
        if "pair" in fixes:
            first, second = _shrink_differences(
                theta[pairs[:, 0]] - u[:, 0], theta[pairs[:, 1]] - u[:, 1], lam / RHO
            )
            s = np.stack([first, second], axis=1)
        else:
            s = _shrink_pairs(theta[pairs] + u, lam / RHO)
        total = np.zeros_like(theta)
        np.add.at(total, pairs, s + u)
        theta = (total + z + v - slopes / RHO) / n_copies
        if "projection" in fixes:
            z = project_simplex_ball(theta - v)
        else:
            y = np.maximum(theta + v - beta, 0.0) / 2.0
            z = _project_sums(y + beta)
            beta = beta + y - z
        distance = _length(s - theta[pairs], z - theta)
        change = RHO * _length(s - old_s, z - old_z)
        u = u + s - theta[pairs]
        v = v + z - theta
        sizes.append(float(np.abs(theta).max()))
        size = max(_length(s, z), _length(theta[pairs], theta))
        residual = distance / size
        absolute = ABSOLUTE_TOLERANCE * np.sqrt(s.size + z.size)
        stopped = (
            distance < absolute + RELATIVE_TOLERANCE * size
            and change < absolute + RELATIVE_TOLERANCE * RHO * _length(u, v)
        )
        if (stop and stopped) or sizes[-1] > _DIVERGED_WEIGHT:
            break
    return Consensus(theta, len(sizes), stopped, float(residual), sizes)


def _shrink_pairs(pairs: Array, strength: float) -> Array:
    """Shrink each pair towards zero as one vector, as in equation (13).

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2, M)
    strength : float
    """
    lengths = np.linalg.norm(pairs.reshape(len(pairs), -1), axis=1)
    factors = np.maximum(0.0, 1.0 - strength / np.maximum(lengths, _TINY_LENGTH))
    return factors[:, None, None] * pairs


def _length(*parts: Array) -> float:
    """Return the Euclidean length of all parts together."""
    total = sum(np.sum(part**2) for part in parts)
    return float(np.sqrt(total))


# ---------------------------------------------------------------- block descent


@dataclass
class PrimalStep:
    """Step of block descent: the weights that are best for fixed coefficients w.

    They minimize the primal problem (2) of the paper::

        sum_tm ||w_tm||^2 / (2 theta_tm) + lam sum_{s<t} ||theta_s - theta_t||_2

    With the machines at fixed weights this is block descent: no step raises the
    objective by more than the accuracy of the steps. ADMM has two copies of the
    weights: x with the terms ||w||^2 / (2 x), z with the coupling and the simplex
    balls.

    Attributes
    ----------
    coupling : Coupling
    multipliers : ndarray of shape (T, M)
        Scaled multipliers of x = z, kept from step to step.
    """

    coupling: Coupling
    multipliers: Array

    def __call__(self, theta: Array, slopes: Array) -> Array:
        """Return the new weights from the old ones and the slopes of their machines."""
        # ||w_tm||^2 = theta_tm^2 alpha'Y K^m Y alpha, and the slope is half of -alpha'Y
        # K^m Y alpha.
        squares = -2.0 * slopes * theta**2
        rho = float(np.mean(-2.0 * slopes)) * theta.shape[1]
        if rho == 0.0:
            return theta
        curvature = np.full((len(theta), 1), rho)
        accuracy = rho * PRIMAL_CHANGE**2
        z = theta
        for _ in range(PRIMAL_ROUNDS):
            x = _best_copies(z - self.multipliers, squares / (2.0 * rho))
            moved = rho * (z - x - self.multipliers)
            new, _ = self.coupling.step(z, moved, curvature, accuracy)
            self.multipliers = self.multipliers + x - new
            change = max(np.abs(x - new).max(), np.abs(new - z).max())
            z = new
            if change <= PRIMAL_CHANGE:
                break
        return z


def block_descent(
    tasks: SvmTasks, lam: float, *, tol: float = 1e-3, max_iter: int = 500
) -> MklResult:
    """Alternate between the machines and the weights at fixed coefficients.

    Parameters and return value are as in `solve_alternating`.
    """
    shape = (tasks.n_tasks, tasks.n_kernels)
    step = PrimalStep(Coupling(lam, *shape), np.zeros(shape))
    return solve_alternating(tasks, lam, tol=tol, max_iter=max_iter, step=step)


def _best_copies(v: Array, b: Array) -> Array:
    """Return the minimizers x >= 0 of b / x + (x - v)^2 / 2, where b >= 0.

    They are the largest roots of x^3 - v x^2 - b, which Newton's method reaches from
    above.
    """
    x = np.maximum(v, 0.0) + np.cbrt(b)
    for _ in range(PRIMAL_ROUNDS):
        slope = x * (3.0 * x - 2.0 * v)
        step = np.divide(
            x * x * (x - v) - b, slope, out=np.zeros_like(x), where=slope > 0.0
        )
        x = x - step
        if np.all(np.abs(step) <= np.finfo(np.float64).eps):
            break
    return np.maximum(x, 0.0)
