"""Which tasks share a subspace: groups of columns that make the sum of squared trace norms small."""

from __future__ import annotations

import numpy as np

from mtlrun.penalties.spectral import trace_norm

Groups = list[list[int]]

# A move must gain more than this, relative to the total.
_GAIN = 1e-9


def _price(root: np.ndarray, group: list[int]) -> float:
    """Return ||W_g||_*^2 of the columns of a group."""
    return trace_norm(root[:, group]) ** 2


def _root(W: np.ndarray) -> np.ndarray:
    """Return the R of W = QR: small, and its columns have the same singular values as those of W, to full precision."""
    return np.linalg.qr(W).R


def random_groups(n_tasks: int, n_groups: int, rng: np.random.RandomState) -> Groups:
    """Return random groups, none of them empty."""
    order = rng.permutation(n_tasks)
    owner = np.append(np.arange(n_groups), rng.randint(n_groups, size=n_tasks - n_groups))
    return sorted(sorted(order[owner == g].tolist()) for g in range(n_groups))


def merge_tasks(W: np.ndarray, n_groups: int) -> Groups:
    """Start with each task by itself and merge, again and again, the two groups that raise sum_g ||W_g||_*^2 least.

    Parameters
    ----------
    W : ndarray of shape (d, T)
    n_groups : int
        At most T.
    """
    root = _root(W)
    groups: Groups = [[t] for t in range(root.shape[1])]
    price = [_price(root, g) for g in groups]
    rise = np.full((len(groups), len(groups)), np.inf)
    for a in range(len(groups)):
        for b in range(a):
            rise[a, b] = _price(root, [a, b]) - price[a] - price[b]
    while len(groups) > n_groups:
        a, b = divmod(int(np.argmin(rise)), len(groups))  # b < a
        groups[b] = sorted(groups[b] + groups.pop(a))
        price.pop(a)
        rise = np.delete(np.delete(rise, a, axis=0), a, axis=1)
        price[b] = _price(root, groups[b])
        for c in range(len(groups)):
            if c != b:
                both = groups[b] + groups[c]
                rise[max(b, c), min(b, c)] = _price(root, both) - price[b] - price[c]
    return sorted(groups)


def move_tasks(W: np.ndarray, groups: Groups) -> Groups:
    """Move single tasks to other groups as long as that lowers sum_g ||W_g||_*^2; no group becomes empty."""
    root = _root(W)
    groups = [list(g) for g in groups]
    price = [_price(root, g) for g in groups]
    improved = True
    while improved:
        improved = False
        for t in range(root.shape[1]):
            home = next(k for k, g in enumerate(groups) if t in g)
            rest = [s for s in groups[home] if s != t]
            if not rest:
                continue
            left = _price(root, rest)
            joined = [_price(root, [*g, t]) for g in groups]
            change = [joined[k] - price[k] + left - price[home] for k in range(len(groups))]
            change[home] = 0.0
            best = int(np.argmin(change))
            if change[best] < -_GAIN * sum(price):
                groups[home], groups[best] = rest, sorted([*groups[best], t])
                price[home], price[best] = left, joined[best]
                improved = True
    return sorted(groups)
