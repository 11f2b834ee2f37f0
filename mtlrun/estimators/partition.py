"""Blocks of tasks for divide and conquer, and the projection that joins their low-rank parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]


def make_blocks(data: TaskData, n_blocks: int, partition: str, random_state: Any) -> list[Array]:
    """Split the tasks into `n_blocks` blocks of floor(T / n_blocks); a remainder forms one more block.

    Parameters
    ----------
    data : TaskData
    n_blocks : int
        With fewer tasks than that, every task is a block.
    partition : {"random", "contiguous", "clustered"}
        Order in which the tasks are cut: shuffled, as they come, or sorted by the k-means cluster (k = `n_blocks`) of
        the direction of X_t'y_t, so that a block holds similar tasks. All give blocks of the same sizes.
    random_state : int, RandomState or None

    Returns
    -------
    list of ndarray
        Positions of the tasks of every block.
    """
    T = data.n_tasks
    n_blocks = min(n_blocks, T)
    random = check_random_state(random_state)
    if partition == "random":
        order = random.permutation(T)
    elif partition == "contiguous":
        order = np.arange(T)
    else:
        clusters = KMeans(n_blocks, n_init=3, random_state=random).fit_predict(_directions(data))
        order = np.argsort(clusters, kind="stable")
    size = T // n_blocks
    return [order[start : start + size] for start in range(0, T, size)]


def _directions(data: TaskData) -> Array:
    """Return X_t'(y_t - mean) of every task with length one, shape (T, d)."""
    w = data.effective_weights()
    w = np.ones(data.targets.shape) if w is None else w
    centred = data.targets - data.spread(data.sum_by_task(w * data.targets) / data.sum_by_task(w))
    directions = TaskOperator(data).adjoint(w * centred).T
    norms = np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions / np.where(norms > 0, norms, 1.0))


def column_space(L: Array) -> Array:
    """Return the left singular vectors of the compact SVD, shape (d, rank); none for a zero matrix."""
    U, s, _ = scipy.linalg.svd(L, full_matrices=False, check_finite=False)
    rank = int(np.sum(s > s[0] * max(L.shape) * np.finfo(np.float64).eps)) if s.size and s[0] > 0 else 0
    return np.asarray(U[:, :rank])


def choose_block(low_rank: Sequence[Array], projection: str, *, skip_zero: bool) -> int:
    """Choose the block onto whose column space all low-rank parts are projected.

    Parameters
    ----------
    low_rank : sequence of ndarray of shape (d, size of the block)
    projection : {"first", "best"}
        Best: the space that keeps most of sum ||L_k||_F^2.
    skip_zero : bool
        With "first", take the first block that is not zero (when all are, block 0).
    """
    if projection == "best":
        whole = np.hstack(list(low_rank))
        kept = [np.linalg.norm(column_space(L).T @ whole) for L in low_rank]
        return int(np.argmax(kept))
    if not skip_zero:
        return 0
    return next((k for k, L in enumerate(low_rank) if np.any(L)), 0)
