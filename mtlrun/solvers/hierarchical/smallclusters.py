"""EM of clusters of tasks in compiled loops, for few columns: there numpy's calls take longer than the sums."""

from __future__ import annotations

import numpy as np

from mtlrun.solvers.hierarchical.compress import Compressed
from mtlrun.utils.jit import summing as compiled

#: Columns up to which compiled loops are faster than LAPACK for all tasks at once.
FEW_COLUMNS = 10


def stacked(data: Compressed) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of all tasks padded with zeros to one length, (T, k, p), their targets (T, k), rest and n."""
    k = max(block.R.shape[1] for block in data.blocks)
    R, z = np.zeros((data.T, k, data.p)), np.zeros((data.T, k))
    for block in data.blocks:
        R[block.tasks, : block.R.shape[1]], z[block.tasks, : block.R.shape[1]] = block.R, block.z
    return R, z, np.asarray(data.rest, dtype=np.float64), np.asarray(data.n, dtype=np.float64)


@compiled
def steps(
    R: np.ndarray,
    z: np.ndarray,
    rest: np.ndarray,
    n: np.ndarray,
    unit: np.ndarray,
    mean: np.ndarray,
    numbers: np.ndarray,
    theta: np.ndarray,
    responsibility: np.ndarray,
    mu: np.ndarray,
    pi: np.ndarray,
    most: int,
) -> None:
    """Step until the criterion falls by little: means given responsibilities; responsibilities; variances.

    Parameters
    ----------
    R, z, rest, n : ndarray
        From `stacked`.
    unit, mean : ndarray of shape (p,)
        The least variances, times 1e10, and the mean towards which those of clusters are drawn.
    numbers : ndarray of shape (6,)
        Variance of the targets, ridge of the means, and the fall that ends the steps; s2 at the last criterion, s2, and
        the criterion, which change.
    theta : ndarray of shape (2, p)
        Variances of the coefficients at the last criterion, and now; changed.
    responsibility : ndarray of shape (T, K)
        Changed.
    mu, pi : ndarray of shape (K, p) and (K,)
        Filled in.
    most : int
    """
    T, k, p = R.shape
    K = len(mu)
    variance, share, fall = numbers[0], numbers[1], numbers[2]
    q, v, C, logdet = np.empty((T, k, p)), np.empty((T, k)), np.empty((k, k)), np.empty(T)
    diagonal, G, A, M, a = np.empty(p), np.empty(p), np.empty((p, p)), np.empty((K, p, p)), np.empty((K, p))
    quadratic, density, h, now = np.empty(K), np.empty(K), np.empty((K, p)), np.empty(p)
    rows = 0.0
    for t in range(T):
        rows += n[t]
    for step in range(most):
        before, s2 = numbers[5], numbers[4]
        for c in range(p):
            now[c], diagonal[c] = theta[1, c], 0.0
        for g in range(K):
            pi[g] = 1e-12
            for c in range(p):
                a[g, c] = 0.0
                for b in range(c + 1):
                    M[g, c, b] = 0.0
        for t in range(T):
            trace = 0.0
            for i in range(k):
                for j in range(i + 1):
                    total = 0.0
                    for c in range(p):
                        total += R[t, i, c] * now[c] * R[t, j, c]
                    C[i, j] = total
                trace += C[i, i]
            one = 1.0 + 1e-15 * k * trace
            logdet[t] = 0.0
            for i in range(k):
                C[i, i] += one
                for j in range(i + 1):
                    total = C[i, j]
                    for m in range(j):
                        total -= C[i, m] * C[j, m]
                    C[i, j] = np.sqrt(total) if i == j else total / C[j, j]
                logdet[t] += 2.0 * np.log(C[i, i])
                for c in range(p):
                    total = R[t, i, c]
                    for m in range(i):
                        total -= C[i, m] * q[t, m, c]
                    q[t, i, c] = total / C[i, i]
                    diagonal[c] += q[t, i, c] * q[t, i, c]
                total = z[t, i]
                for m in range(i):
                    total -= C[i, m] * v[t, m]
                v[t, i] = total / C[i, i]
            for c in range(p):
                for b in range(c + 1):
                    total = 0.0
                    for i in range(k):
                        total += q[t, i, c] * q[t, i, b]
                    A[c, b] = total
            for g in range(K):
                r = responsibility[t, g]
                pi[g] += r / T
                for c in range(p):
                    total = 0.0
                    for i in range(k):
                        total += v[t, i] * q[t, i, c]
                    a[g, c] += r * total
                    for b in range(c + 1):
                        M[g, c, b] += r * A[c, b]
        for g in range(K):
            for c in range(p):
                ridge = share * diagonal[c] / T + 1e-12
                M[g, c, c] += ridge
                total = a[g, c] + ridge * mean[c]
                for b in range(c + 1):
                    entry = M[g, c, b]
                    for m in range(b):
                        entry -= M[g, c, m] * M[g, b, m]
                    M[g, c, b] = np.sqrt(entry) if b == c else entry / M[g, b, b]
                for b in range(c):
                    total -= M[g, c, b] * mu[g, b]
                mu[g, c] = total / M[g, c, c]
            for i in range(p):
                c = p - 1 - i
                total = mu[g, c]
                for b in range(c + 1, p):
                    total -= M[g, b, c] * mu[g, b]
                mu[g, c] = total / M[g, c, c]
        criterion, noise = 0.0, 0.0
        for c in range(p):
            G[c] = diagonal[c]
        for t in range(T):
            largest = -np.inf
            for g in range(K):
                quadratic[g] = rest[t]
                for c in range(p):
                    h[g, c] = 0.0
                for i in range(k):
                    e = v[t, i]
                    for c in range(p):
                        e -= mu[g, c] * q[t, i, c]
                    quadratic[g] += e * e
                    for c in range(p):
                        h[g, c] += e * q[t, i, c]
                density[g] = -0.5 * (logdet[t] + quadratic[g] / s2 + n[t] * np.log(2.0 * np.pi * s2)) + np.log(pi[g])
                largest = max(largest, density[g])
            total = 0.0
            for g in range(K):
                total += np.exp(density[g] - largest)
            total = largest + np.log(total)
            criterion -= 2.0 * total
            for g in range(K):
                r = np.exp(density[g] - total)
                responsibility[t, g] = r
                noise += r * quadratic[g]
                for c in range(p):
                    G[c] -= r * h[g, c] * h[g, c] / s2
        numbers[3], numbers[5] = s2, criterion
        for c in range(p):
            theta[0, c] = now[c]
            theta[1, c] = max(now[c] - now[c] * G[c] * now[c] / T, 1e-10 * unit[c])
        numbers[4] = max(noise / rows, 1e-9 * variance, 1e-200)
        if step > 5 and before - criterion < fall:
            return
