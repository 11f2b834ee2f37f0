"""How the kernel weights of tasks are tied (not at all, in pairs, all the same): one step and its certificate each."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from mtlrun.solvers.pairwise import Flows, SimplexQuadratic, fuse, minimise_on_simplex_ball, pair_distances

# The step of the flows, relative to the spread of the slopes over the tasks.
_SPREAD = 0.2


class Coupling(ABC):
    """lam * sum_{s<t} ||theta_s - theta_t|| on the simplex balls theta_t >= 0, sum(theta_t) <= 1."""

    lam: float

    @abstractmethod
    def step(
        self, theta: np.ndarray, slopes: np.ndarray, curvature: np.ndarray, tol: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Minimise sum_t <slopes_t, new_t> + c_t/2 ||new_t - theta_t||^2 + coupling(new).

        Parameters
        ----------
        theta, slopes : ndarray of shape (T, M)
        curvature : ndarray of shape (T, 1)
            c_t: all positive, or all 0 for the linear problem.
        tol : float
            Absolute accuracy.

        Returns
        -------
        new : ndarray of shape (T, M)
        pull : ndarray of shape (T, M)
            With <pull, theta> <= coupling(theta) for all theta: what makes the lower bound.
        """

    @abstractmethod
    def value(self, theta: np.ndarray) -> float:
        """Return lam * sum of the distances."""

    def start(self, theta: np.ndarray) -> np.ndarray:
        """Return the admissible weights to begin with."""
        return theta


class Apart(Coupling):
    """lam = 0: every task has its own weights."""

    lam = 0.0

    def step(
        self, theta: np.ndarray, slopes: np.ndarray, curvature: np.ndarray, tol: float
    ) -> tuple[np.ndarray, np.ndarray]:
        return minimise_on_simplex_ball(slopes - curvature * theta, curvature), np.zeros_like(theta)

    def value(self, theta: np.ndarray) -> float:
        return 0.0


class Together(Coupling):
    """lam = infinity: one vector of weights for all tasks."""

    lam = np.inf

    def step(
        self, theta: np.ndarray, slopes: np.ndarray, curvature: np.ndarray, tol: float
    ) -> tuple[np.ndarray, np.ndarray]:
        mean = slopes.mean(axis=0)
        c = curvature.mean(axis=0, keepdims=True)
        new = minimise_on_simplex_ball(mean[None] - c * theta[:1], c)
        return np.repeat(new, len(theta), axis=0), mean - slopes

    def value(self, theta: np.ndarray) -> float:
        return 0.0

    def start(self, theta: np.ndarray) -> np.ndarray:
        return np.repeat(theta.mean(axis=0, keepdims=True), len(theta), axis=0)


class Pairs(Coupling):
    """0 < lam < infinity.

    Parameters
    ----------
    lam : float
    flows : Flows
        Multipliers to begin with; kept up to date by every step.
    """

    def __init__(self, lam: float, flows: Flows) -> None:
        self.lam = lam
        self.flows = flows
        self.n_iter = 0

    def step(
        self, theta: np.ndarray, slopes: np.ndarray, curvature: np.ndarray, tol: float
    ) -> tuple[np.ndarray, np.ndarray]:
        spread = np.sqrt(np.mean(np.sum((slopes - slopes.mean(axis=0)) ** 2, axis=1)))
        sigma = max(_SPREAD * float(spread), float(curvature.mean()), np.finfo(np.float64).eps) / len(theta)
        term = SimplexQuadratic(slopes - curvature * theta, curvature)
        fused = fuse(theta, term, self.lam, self.flows, sigma=sigma, tol=tol)
        self.n_iter += fused.n_iter
        return fused.W, self.flows.divergence()

    def value(self, theta: np.ndarray) -> float:
        return self.lam * pair_distances(theta)
