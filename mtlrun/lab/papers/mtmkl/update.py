"""Updates of the kernel weights of multi-task MKL that others wrote: Algorithm 2 as printed, and the authors' code."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from mtlrun.solvers.pairwise import project_simplex_ball

Array = np.ndarray

#: Penalty and iterations of the authors' code, and the absolute and relative tolerances of its stopping rule.
RHO, MAX_ITER, ABSOLUTE, RELATIVE = 10.0, 1000, 1e-4, 1e-2
# A weight as large as this will not come back.
_DIVERGED = 1e9
# Lengths below this are no direction.
_TINY = 1e-300


def repaired_update(theta: Array, slopes: Array, mu: float) -> tuple[Array, int]:
    """Run the iteration of the authors' code on ``mu sum_{s<t} ||theta_s - theta_t|| + sum_t <slopes_t, theta_t>``.

    The code as published does not run: the function that shrinks the difference of a pair never assigns its results,
    and a stale index zeroes the first of two tasks. Here it returns the proximal operator of both; and what a task has
    in its pairs is averaged, since with the sum of the code the iteration diverges. All else is as there: the
    denominators T - 1, the sum of weights of exactly 1, and the penalty that mu changes through the slopes. It does not
    minimize the objective: with a large mu the weights come near 1/M, whatever the slopes, not near each other at the
    best common weights.

    Parameters
    ----------
    theta : ndarray of shape (T, M)
        Weights to begin with; T at least 2.
    slopes : ndarray of shape (T, M)
        Of every task's objective.
    mu : float
        Positive.

    Returns
    -------
    theta : ndarray of shape (T, M)
        Negative entries set to 0.
    n_iter : int
        `MAX_ITER` where the stopping rule was not met.

    References
    ----------
    The authors' MATLAB code (read for its facts); Yousefi, Georgiopoulos and Anagnostopoulos, ECML PKDD 2015,
    Algorithm 2.
    """
    n_tasks, n_kernels = theta.shape
    first, second = np.triu_indices(n_tasks, 1)
    pull, others = slopes / (RHO * mu), n_tasks - 1
    one, two = np.zeros((2, len(first), n_kernels))
    zeros = np.zeros_like(theta)
    of_copies = of_simplex = of_sum = positive = summed = zeros
    for done in range(MAX_ITER):
        left, right = _drawn_together(theta[first] - one, theta[second] - two, 1 / RHO)
        copies = zeros.copy()
        np.add.at(copies, first, left / others)
        np.add.at(copies, second, right / others)
        old, old_positive, old_summed = theta, positive, summed
        theta = (copies + of_copies + positive + of_simplex - pull) / others
        positive = np.maximum(theta - of_simplex + summed - of_sum, 0) / 2
        summed = _of_sum_one(positive + of_sum)
        one, two = one + left - theta[first], two + right - theta[second]
        of_copies = (pull - old_positive - of_simplex) / others
        of_simplex = of_simplex + positive - theta
        of_sum = of_sum + positive - summed
        on_copies, on_simplex, on_sum = (
            RHO * _length(a) for a in (of_copies, of_simplex, of_sum)
        )
        left_over = [  # a residual, and what it is small against
            (_length(copies - theta), max(_length(copies), _length(theta))),
            (_length(positive - theta), max(_length(positive), _length(theta))),
            (_length(positive - summed), max(_length(positive), _length(summed))),
            (RHO * _length(old - theta), on_copies),
            (RHO * _length(positive - old_positive), on_copies + on_simplex),
            (RHO * _length(summed - old_summed), on_simplex + on_sum),
        ]
        if all(
            r < ABSOLUTE * np.sqrt(n_tasks) + RELATIVE * scale for r, scale in left_over
        ):
            return np.maximum(theta, 0), done + 1
    return np.maximum(theta, 0), MAX_ITER


def _drawn_together(one: Array, two: Array, strength: float) -> tuple[Array, Array]:
    """Return the proximal operator of ``strength ||a - b||`` at pairs of points."""
    apart = one - two
    length = np.linalg.norm(apart, axis=1, keepdims=True)
    step = apart * np.minimum(strength / np.maximum(length, _TINY), 0.5)
    return one - step, two + step


def _of_sum_one(points: Array) -> Array:
    """Return the nearest points whose entries add up to 1."""
    return points + (1 - points.sum(axis=1, keepdims=True)) / points.shape[1]


def _length(points: Array) -> float:
    return float(np.linalg.norm(points, axis=1).sum())


#: Updates of Algorithm 2 that can be corrected: equation (12), equation (14), equations (16) to (18).
FIXES = ("pair", "theta", "projection")


@dataclass(frozen=True)
class Consensus:
    """A run of Algorithm 2.

    Attributes
    ----------
    theta : ndarray of shape (T, M)
    n_iter : int
        Iterations until the stopping rule was met or the weights diverged (1e9), or all.
    stopped : bool
        Whether it was met.
    residual : float
        Distance of all copies from the weights, relative to their length.
    sizes : list of float
        Largest absolute weight after every iteration.
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
    """Run Algorithm 2 on ``lam sum_{s<t} ||theta_s - theta_t|| + sum_t <slopes_t, theta_t>``, as printed or corrected.

    Parameters
    ----------
    theta : ndarray of shape (T, M)
        Weights to begin with.
    slopes : ndarray of shape (T, M)
    lam : float
    fixes : collection of {"pair", "theta", "projection"}
        Updates that are corrected: the copies of a pair come nearer to each other and not to zero; what a task has is
        averaged over all of its T copies; weights are projected on the simplex ball.
    max_iter : int, default 1000
    stop : bool, default True
        Whether to stop when residuals are small, as the authors' code does.
    """
    pairs = np.column_stack(np.triu_indices(len(theta), 1))
    s, z = theta[pairs], theta.copy()
    u, v, beta = np.zeros_like(s), np.zeros_like(theta), np.zeros_like(theta)
    sizes: list[float] = []
    residual, stopped = np.inf, False
    for _ in range(max_iter):
        before = s, z
        if "pair" in fixes:
            s = np.stack(
                _drawn_together(
                    theta[pairs[:, 0]] - u[:, 0],
                    theta[pairs[:, 1]] - u[:, 1],
                    lam / RHO,
                ),
                axis=1,
            )
        else:
            s = _shrunk(theta[pairs] + u, lam / RHO)
        total = np.zeros_like(theta)
        np.add.at(total, pairs, s + u)
        theta = (total + z + v - slopes / RHO) / (
            len(theta) if "theta" in fixes else len(theta) - 1
        )
        if "projection" in fixes:
            z = project_simplex_ball(theta - v)
        else:
            y = np.maximum(theta + v - beta, 0.0) / 2.0
            z = _of_sum_one(y + beta)
            beta = beta + y - z
        apart, moved = (
            _length_of(s - theta[pairs], z - theta),
            RHO * _length_of(s - before[0], z - before[1]),
        )
        u, v = u + s - theta[pairs], v + z - theta
        sizes.append(float(np.abs(theta).max()))
        scale = max(_length_of(s, z), _length_of(theta[pairs], theta))
        residual, floor = apart / scale, ABSOLUTE * np.sqrt(s.size + z.size)
        stopped = (
            apart < floor + RELATIVE * scale
            and moved < floor + RELATIVE * RHO * _length_of(u, v)
        )
        if (stop and stopped) or sizes[-1] > _DIVERGED:
            break
    return Consensus(theta, len(sizes), stopped, float(residual), sizes)


def _shrunk(pairs: Array, strength: float) -> Array:
    """Return pairs, (N, 2, M), each shrunk as a whole, as equation (13) has it."""
    lengths = np.linalg.norm(pairs.reshape(len(pairs), -1), axis=1)
    return (
        np.maximum(0.0, 1.0 - strength / np.maximum(lengths, _TINY))[:, None, None]
        * pairs
    )


def _length_of(*parts: Array) -> float:
    return float(np.sqrt(sum(np.sum(part**2) for part in parts)))
