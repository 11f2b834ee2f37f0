"""Parts of a model that can be left out because another part does their work at no higher price."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mtlrun.penalties.norms import L1, L12, L21, TraceNorm
from mtlrun.penalties.rowmax import L1Inf
from mtlrun.problem.penalty import Penalty


def needed_parts(penalties: Sequence[Penalty], shape: tuple[int, int]) -> list[int]:
    """Return the positions of the penalties that an optimal W = sum of parts needs; the other parts are zero there.

    Part k is not needed when some other penalty j has penalty_j(W) <= penalty_k(W) for all W: what is in part k can
    move to part j. In terms of dual norms ||.||_k* <= c ||.||_j* and alpha_k >= c alpha_j, with the best constants c.
    For robust MTL (||L||_* + lam ||E||_{1,2}, m tasks) E is not needed for lam >= 1, nor L for lam <= 1/sqrt(m).

    Parameters
    ----------
    penalties : sequence of Penalty
    shape : (int, int)
        Features d and tasks T.
    """
    kept = list(range(len(penalties)))
    for k in reversed(range(len(penalties))):
        others = (penalties[j] for j in kept if j != k)
        if any(_dominated(penalties[k], other, shape) for other in others):
            kept.remove(k)
    return kept


def mixture_range(first: type[Penalty], second: type[Penalty], shape: tuple[int, int]) -> tuple[float, float]:
    """Return the interval of lam outside of which ``first(P) + lam second(W - P)`` needs one of its parts only.

    Up to its lower end the first part is not needed, from its upper end on the second.

    Raises
    ------
    ValueError
        For a pair of penalties without known constants.
    """
    upper, lower = _dual_ratio(second, first, shape), _dual_ratio(first, second, shape)
    if upper is None or lower is None:
        raise ValueError(f"no constants are known between {first.__name__} and {second.__name__}")
    return 1.0 / lower, upper


def _dominated(p: Penalty, q: Penalty, shape: tuple[int, int]) -> bool:
    """Whether q(W) <= p(W) for all W of this shape."""
    factor = _dual_ratio(type(p), type(q), shape)
    return factor is not None and p.alpha >= factor * q.alpha * (1.0 - 1e-12)


def _dual_ratio(p: type[Penalty], q: type[Penalty], shape: tuple[int, int]) -> float | None:
    """Return sup ||Z||_p* / ||Z||_q* (spectral, largest row, column, entry), None where it is not known."""
    d, T = shape
    if p is q and p in (TraceNorm, L21, L12, L1, L1Inf):
        return 1.0
    ratios = {
        (L12, TraceNorm): 1.0,
        (L21, TraceNorm): 1.0,
        (L1, TraceNorm): 1.0,
        (L1, L12): 1.0,
        (L1, L21): 1.0,
        (TraceNorm, L12): math.sqrt(T),
        (L21, L12): math.sqrt(T),
        (TraceNorm, L21): math.sqrt(d),
        (L12, L21): math.sqrt(d),
        (TraceNorm, L1): math.sqrt(d * T),
        (L12, L1): math.sqrt(d),
        (L21, L1): math.sqrt(T),
        (L1Inf, L1): float(T),
        (L1, L1Inf): 1.0,
    }
    return ratios.get((p, q))
