"""Compiled sweeps in the form of the paper, example by example: each computes w_t'x from all v_s, O(T nnz)."""

from __future__ import annotations

import numpy as np

from mtlrun.features.rows import STRINGS, bounds, dense_add, dense_dot, expand, sparse_add, sparse_dot, storage
from mtlrun.solvers.svm.dcd_kernels import Problem, State, dual_step, is_stuck, projected, random_below, set_limits
from mtlrun.utils.jit import compiled


@compiled
def example_sweeps(p: Problem, s: State, eps: float, max_work: float) -> tuple[float, float, float]:
    """Sweep over the active entries of all tasks in one random order; arguments and results as of `block_sweeps`."""
    columns, values = storage(p.rows)
    kind, bias, dense, _, _, indptr, letters, unknown, scale, level, start, buckets = p.rows
    _, loss, offsets, shifts, ys, caps, curvatures, matrix, _, _, _, _ = p
    alphas, V, total, _, _, active, n_active, limits, random = s
    n_tasks = len(shifts)
    flat, task = np.empty(n_active.sum(), dtype=np.int32), np.empty(n_active.sum(), dtype=np.int32)
    n = 0
    for t in range(n_tasks):
        for k in range(n_active[t]):
            flat[n], task[n] = active[offsets[t] + k], t
            n += 1
    spread, visits, changes = -np.inf if n == 0 else np.inf, 0.0, 0.0
    while visits < max_work and n > 0:
        visits += n
        top, bottom, k = -np.inf, np.inf, 0
        while k < n:
            j = k + random_below(random, n - k)
            e, t = flat[j], task[j]
            flat[j], task[j] = flat[k], task[k]
            flat[k], task[k] = e, t
            i = e - shifts[t]
            low, high = bounds(kind, indptr, i)
            if kind == STRINGS:
                high = expand(letters, unknown, scale, level, start, buckets, i, columns, values)
            z = 0.0
            for other in range(n_tasks):
                if matrix[other, t] != 0.0:
                    part = dense_dot(dense, i, V, other) + sparse_dot(columns, values, low, high, V, other)
                    z += matrix[other, t] * (part + bias * V[other, -1])
            z *= ys[e]
            alpha, cap = alphas[e], caps[e]
            new, g = dual_step(loss, alpha, cap, z, curvatures[e])
            if is_stuck(loss, alpha, cap, g, limits[0], limits[1]):
                n -= 1
                flat[k], task[k] = flat[n], task[n]
                flat[n], task[n] = e, t
                continue
            g = projected(loss, alpha, cap, g)
            top, bottom = max(top, g), min(bottom, g)
            if new != alpha:
                alphas[e] = new
                step = (new - alpha) * ys[e]
                dense_add(dense, i, step, V, t)
                sparse_add(columns, values, low, high, step, V, t)
                V[t, -1] += step * bias
                changes += 1
            k += 1
        spread = top - bottom
        set_limits(s, top, bottom)
        if spread <= eps:
            break
    total[:] = 0.0
    for other in range(n_tasks):
        for column in range(len(total)):
            total[column] += V[other, column]
    return spread, visits, changes
