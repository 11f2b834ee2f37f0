"""How similar a fitted model takes its tasks to be: one matrix, whatever the model learned it as."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def task_similarity(model: Any) -> Array:
    """Return the similarities of the tasks of a fitted model, in the order of `tasks_`.

    ============================================  ==========================================================
    model                                         similarity of tasks s and t
    ============================================  ==========================================================
    with a task covariance Omega (FETR, MTFRL,    Omega_st / sqrt(Omega_ss Omega_tt): the learned correlation
    MTRL)
    with clusters (ClusteredMTL)                  M_st / sqrt(M_ss M_tt), M the relaxed matrix of clusters
    with groups (Whom)                            1 in one group, else 0
    with a graph of tasks (GraphMTL)              the correlation under the covariance (alpha L + ridge I)^-1
                                                  that the penalty stands for; given with the graph, not learned
    with kernel weights theta (multi-task MKL)    theta_s . theta_t / (|theta_s| |theta_t|)
    ============================================  ==========================================================

    The diagonal is 1. A task whose row is zero, with all its coefficients zero for instance, is similar to no other.

    Raises
    ------
    AttributeError
        If the model is not fitted, or says nothing about the tasks' similarity.
    """
    if hasattr(model, "task_covariance_"):
        return _correlation(model.task_covariance_)
    if hasattr(model, "theta_"):
        return _correlation(np.asarray(model.theta_) @ np.asarray(model.theta_).T)
    if hasattr(model, "groups_"):
        group = np.empty(len(model.tasks_), dtype=int)
        for number, members in enumerate(model.groups_):
            group[members] = number
        return np.equal.outer(group, group).astype(float)
    if hasattr(model, "task_relation") and hasattr(model, "coef_"):
        return _correlation(model.task_relation())
    raise AttributeError(f"this {type(model).__name__} is not fitted yet, or has no similarity of tasks")


def _correlation(covariance: Array) -> Array:
    """Return a matrix scaled to a diagonal of ones; rows of tasks without a variance are those of the identity."""
    covariance = np.asarray(covariance, dtype=float)
    scale = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    scale[scale <= 1e-12 * max(scale.max(), 1e-300)] = np.inf
    found = covariance / np.outer(scale, scale)
    np.fill_diagonal(found, 1.0)
    return found
