"""Which tasks share a subspace: groups of columns that make the sum of squared trace norms small."""

from __future__ import annotations

import numpy as np

Groups = list[list[int]]

# A move must gain more than this, relative to the total.
_GAIN = 1e-9


def squared_trace_norm(gram: np.ndarray) -> float:
    """Return ||W||_*^2 from W'W."""
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0.0)).sum()) ** 2


def merge_tasks(W: np.ndarray, n_groups: int) -> Groups:
    """Start with every task alone and merge, again and again, the two groups that raise sum_g ||W_g||_*^2 least.

    Parameters
    ----------
    W : ndarray of shape (d, T)
    n_groups : int
        At most T.
    """
    gram = W.T @ W
    groups: Groups = [[t] for t in range(len(gram))]
    price = [squared_trace_norm(gram[np.ix_(g, g)]) for g in groups]
    rise = np.full((len(groups), len(groups)), np.inf)
    for a in range(len(groups)):
        for b in range(a):
            rise[a, b] = squared_trace_norm(gram[np.ix_([a, b], [a, b])]) - price[a] - price[b]
    while len(groups) > n_groups:
        a, b = divmod(int(np.argmin(rise)), len(groups))  # b < a
        groups[b] = sorted(groups[b] + groups.pop(a))
        price.pop(a)
        rise = np.delete(np.delete(rise, a, axis=0), a, axis=1)
        price[b] = squared_trace_norm(gram[np.ix_(groups[b], groups[b])])
        for c in range(len(groups)):
            if c != b:
                both = groups[b] + groups[c]
                rise[max(b, c), min(b, c)] = squared_trace_norm(gram[np.ix_(both, both)]) - price[b] - price[c]
    return sorted(groups)


def move_tasks(W: np.ndarray, groups: Groups) -> Groups:
    """Move single tasks to other groups as long as that lowers sum_g ||W_g||_*^2; no group becomes empty."""
    gram = W.T @ W
    groups = [list(g) for g in groups]
    price = [squared_trace_norm(gram[np.ix_(g, g)]) for g in groups]
    improved = True
    while improved:
        improved = False
        for t in range(len(gram)):
            home = next(k for k, g in enumerate(groups) if t in g)
            rest = [s for s in groups[home] if s != t]
            if not rest:
                continue
            left = squared_trace_norm(gram[np.ix_(rest, rest)])
            joined = [squared_trace_norm(gram[np.ix_([*g, t], [*g, t])]) for g in groups]
            change = [joined[k] - price[k] + left - price[home] for k in range(len(groups))]
            change[home] = 0.0
            best = int(np.argmin(change))
            if change[best] < -_GAIN * sum(price):
                groups[home], groups[best] = rest, sorted([*groups[best], t])
                price[home], price[best] = left, joined[best]
                improved = True
    return sorted(groups)
