"""Penalty parameters of the ADMM solvers: a first guess and residual balancing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from mtlrun.problem.penalty import Penalty
from mtlrun.solvers.convex.rotation import Rotation

# Over-relaxation, schedule and limits were found by trial on school, enron and simulated data, from 0.01 to 100 times
# the best rho; balancing for ever need not converge.
RELAXATION = 1.6
_UNTIL = 300
_DEAD_ZONE = 1.3
_LARGEST_CHANGE = 10.0
_TINY = float(np.finfo(np.float64).tiny)


def next_balance(iteration: int) -> int:
    """Return the iteration at which to balance next, 0 for never."""
    if iteration >= _UNTIL:
        return 0
    return iteration + (3 if iteration < 60 else 10)


def balance(
    W: Sequence[np.ndarray],
    before: Sequence[np.ndarray],
    Z: Sequence[np.ndarray],
    U: Sequence[np.ndarray],
    bias: float = 1.0,
) -> float:
    """Return the factor for rho that brings the relative primal and dual residuals together (1.0: leave rho).

    Parameters
    ----------
    W, before, Z, U : sequences of ndarray
        Data-step variables, prox copies before and after the iteration, scaled multipliers.
    bias : float, default 1.0
        Below one rho ends lower, where the primal residual is 1 / bias^2 times the dual one.
    """
    primal = _distance(W, Z) / max(_norm(W), _norm(Z), _TINY)
    dual = _distance(Z, before) / max(_norm(U), _TINY)
    if primal == dual:
        return 1.0
    factor = bias * float(np.sqrt(primal / max(dual, _TINY)))
    factor = min(max(factor, 1.0 / _LARGEST_CHANGE), _LARGEST_CHANGE)
    return 1.0 if 1.0 / _DEAD_ZONE < factor < _DEAD_ZONE else factor


def guess_rho(penalties: Sequence[Penalty], rotation: Rotation, shape: tuple[int, int], scale: float = 1.0) -> float:
    """Guess rho as (size of the multipliers) / (size of a ridge solution).

    Parameters
    ----------
    penalties : sequence of Penalty
    rotation : Rotation
    shape : (int, int)
        Of the matrices of the iteration.
    scale : float, default 1.0
        Of the loss.
    """
    alpha = max((p.alpha for p in penalties), default=0.0)
    squares, cross = rotation.squares, rotation.cross
    ridge = float(squares.mean())
    size = float(np.linalg.norm(cross / (squares + ridge))) if ridge > 0 else 0.0
    if alpha > 0 and size > 0:
        return float(alpha * min(shape) ** 0.25 / size)
    return max(scale * ridge, 1.0)


def total(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum of the arrays; a single one is not copied."""
    return reduce(np.add, arrays)


def _norm(arrays: Sequence[np.ndarray]) -> float:
    return float(np.sqrt(sum(float(np.vdot(A, A)) for A in arrays)))


def _distance(A: Sequence[np.ndarray], B: Sequence[np.ndarray]) -> float:
    return _norm([a - b for a, b in zip(A, B, strict=True)])
