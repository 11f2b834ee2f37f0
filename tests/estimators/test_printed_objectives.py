"""The objective in the docstring of a method is the one that the method minimizes.

`OBJECTIVES` repeats every printed objective next to a function that evaluates it at the
fitted model. docs/methods.md and the pages of the classes show the same texts, so a
changed docstring fails here until the function has been changed, too.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq, minimize

from mtlrun.catalog.registry import METHODS, load_class
from mtlrun.solvers.mkl.kernels import make_kernels

pytestmark = pytest.mark.usefixtures("few_trees")

N_TASKS = 4
N_FEATURES = 5
ROWS_PER_TASK = 15
#: Kernels of the kernel methods.
KERNELS = ["linear", "polynomial(2)"]


class Problem(NamedTuple):
    """Return a small problem with different coefficients in each task."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray

    def scores(self, model) -> np.ndarray:
        """Return x_ti' w_t + b_t for every row."""
        products = (self.X * model.coef_[self.task]).sum(axis=1)
        return products + model.intercept_[self.task]

    def squared_errors(self, model) -> float:
        """Return sum_t ||y_t - X_t w_t - b_t||^2."""
        return float(((self.y - self.scores(model)) ** 2).sum())

    def half_squares(self, model) -> float:
        """Return sum_t 1/2 ||y_t - X_t w_t - b_t||^2."""
        return self.squared_errors(model) / 2

    def logistic(self, model) -> float:
        """Return sum_t sum_i log(1 + exp(-y_ti (x_ti' w_t + b_t)))."""
        return float(np.logaddexp(0, -self.y * self.scores(model)).sum())

    def hinge(self, model) -> float:
        """Return sum_t sum_i max(0, 1 - y_ti (x_ti' w_t + b_t))."""
        return float(np.maximum(0, 1 - self.y * self.scores(model)).sum())


def problem(*, labels: bool) -> Problem:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(N_TASKS), ROWS_PER_TASK)
    X = rng.normal(size=(task.size, N_FEATURES))
    W = rng.normal(size=N_FEATURES) + 0.5 * rng.normal(size=(N_TASKS, N_FEATURES))
    noise = 2 * rng.normal(size=task.size)
    y = (X * W[task]).sum(axis=1) + task + noise
    if labels:
        y = np.where(y > np.median(y), 1.0, -1.0)
    return Problem(X, y, task)


def squares(W: np.ndarray) -> float:
    return float((W**2).sum())


def absolute(W: np.ndarray) -> float:
    return float(np.abs(W).sum())


def feature_norms(W: np.ndarray) -> float:
    """Return the sum over features of the norm over tasks; W has a row per task."""
    return float(np.linalg.norm(W, axis=0).sum())


def task_norms(W: np.ndarray) -> float:
    return float(np.linalg.norm(W, axis=1).sum())


def trace_norm(W: np.ndarray) -> float:
    return float(np.linalg.svd(W, compute_uv=False).sum())


def pairs(W: np.ndarray) -> np.ndarray:
    """Return w_s - w_t of all pairs s < t, a row per pair."""
    first, second = np.triu_indices(len(W), 1)
    return W[first] - W[second]


def smallest_trace(
    W: np.ndarray, *, low: float, high: float, total: float, shift: float = 0.0
) -> float:
    """Return the smallest tr(W (shift I + S)^-1 W') over low I <= S <= high I, tr S =
    total.

    The best S has the eigenvectors of W'W. For singular values sigma_k its eigenvalues
    are clip(c sigma_k - shift, low, high), with the constant c that gives the sum.
    """
    sigma = np.maximum(np.linalg.svd(W, compute_uv=False), 1e-12)

    def eigenvalues(log_c: float) -> np.ndarray:
        return np.clip(np.exp(log_c) * sigma - shift, low, high)

    log_c = brentq(lambda x: eigenvalues(x).sum() - total, -60, 60, xtol=1e-14)
    return float((sigma**2 / (shift + eigenvalues(log_c))).sum())


def spectral(model, n_preferred: int) -> float:
    trace = smallest_trace(
        model.coef_, low=0, high=1, total=n_preferred, shift=model.eta
    )
    return model.alpha * model.eta * (1 + model.eta) * trace


def cmtl(data: Problem, model) -> float:
    mean = model.coef_.mean(axis=0)
    total = (model.n_task_clusters_ - 1) / model.between
    total += (N_TASKS - model.n_task_clusters_) / model.within
    # Deviations from the mean sum to zero: S acts on the other T - 1 directions.
    others = np.linalg.svd(np.ones((1, N_TASKS)))[2][1:]
    trace = smallest_trace(
        others @ model.coef_, low=1 / model.within, high=1 / model.between, total=total
    )
    penalty = model.mean * N_TASKS * squares(mean) + trace
    return data.half_squares(model) + model.alpha * penalty


def flex_clus(data: Problem, model) -> float:
    clusters = model.alpha * absolute(pairs(model.shared_))
    norms = model.ridge * squares(model.shared_) + model.own * squares(model.own_)
    return data.half_squares(model) + clusters + norms


def co_clus(data: Problem, model) -> float:
    common = squares(model.shared_ - model.shared_.mean(axis=0))
    sigma = np.linalg.svd(model.own_, compute_uv=False)
    rest = squares(sigma[model.n_task_clusters_ :])
    penalty = model.shared * common + model.low_rank * rest
    return data.half_squares(model) + penalty + model.ridge * squares(model.coef_)


def whom(data: Problem, model) -> float:
    groups = [trace_norm(model.coef_[group]) ** 2 for group in model.groups_]
    return data.logistic(model) + model.alpha * sum(groups)


def metag(data: Problem, model) -> float:
    differences = task_norms(pairs(model.coef_))
    ridge = model.ridge / 2 * squares(model.coef_)
    return data.half_squares(model) + model.alpha * differences + ridge


def graph(loss: float, model) -> float:
    """The default graph links all tasks with weight 1 / T."""
    coupling = model.alpha / 2 * squares(pairs(model.coef_)) / N_TASKS
    sizes = model.ridge / 2 * squares(model.coef_)
    return loss + coupling + sizes + model.sparsity * absolute(model.coef_)


def temporal(loss: float, model) -> float:
    features = model.alpha * feature_norms(model.coef_)
    steps = model.smoothness / 2 * squares(np.diff(model.coef_, axis=0))
    return loss + features + steps + model.ridge / 2 * squares(model.coef_)


def fused(loss: float, model) -> float:
    features = model.alpha * feature_norms(model.coef_)
    steps = model.fusion * absolute(np.diff(model.coef_, axis=0))
    return loss + features + steps + model.sparsity * absolute(model.coef_)


def robust_features(loss: float, model) -> float:
    outliers = model.lam * task_norms(model.own_)
    return loss + model.alpha * (feature_norms(model.shared_) + outliers)


def sparse_low_rank(loss: float, model) -> float:
    entries = model.lam * absolute(model.own_)
    return loss + model.alpha * (trace_norm(model.shared_) + entries)


def dirty(loss: float, model) -> float:
    rows = np.abs(model.shared_).max(axis=0).sum()
    return loss + model.alpha * (rows + model.lam * absolute(model.own_))


def robust(loss: float, model) -> float:
    outliers = model.lam * task_norms(model.outlier_)
    return trace_norm(model.low_rank_) + outliers + model.beta * loss


def matrix_normal(data: Problem, model) -> float:
    W = model.coef_.T
    S1 = model.feature_precision_
    S2 = model.task_precision_
    coupling = np.trace(S1 @ W @ S2 @ W.T)
    volumes = N_TASKS * np.linalg.slogdet(S1)[1] + N_FEATURES * np.linalg.slogdet(S2)[1]
    penalty = model.eta * squares(W) + model.rho * (coupling - volumes)
    return data.squared_errors(model) + penalty


def matrix_normal_with_fudge(data: Problem, model) -> float:
    S1 = model.feature_precision_
    S2 = model.task_precision_
    traces = N_TASKS * np.trace(S1) + N_FEATURES * np.trace(S2)
    return matrix_normal(data, model) + model.rho * model.fudge * traces


def features_learned(data: Problem, model) -> float:
    # D is singular if W does not have full rank; it stands for the generalized inverse.
    inverse = np.linalg.pinv(model.feature_covariance_, rcond=1e-9, hermitian=True)
    trace = np.trace(model.coef_ @ inverse @ model.coef_.T)
    return data.half_squares(model) + model.gamma * trace


def relations(data: Problem, model) -> float:
    inverse = np.linalg.pinv(model.task_covariance_, rcond=1e-9, hermitian=True)
    trace = np.trace(model.coef_.T @ inverse @ model.coef_)
    ridge = model.lam1 / 2 * squares(model.coef_)
    return data.half_squares(model) + ridge + model.lam2 / 2 * trace


def coupled_machines(data: Problem, model) -> float:
    """The default graph of kernel machines links all tasks with weight 1."""
    A = np.ones((N_TASKS, N_TASKS))
    L = np.diag(A.sum(axis=1)) - A
    coupling = (L * (model.coef_ @ model.coef_.T)).sum()
    size = squares(model.coef_) / 2 + model.coupling / 2 * coupling
    return size + model.C * data.hinge(model)


def kernel_machines(data: Problem, model) -> float:
    """Evaluate with w_t^m = theta_t^m sum_i a_i phi_m(x_i), a_i dual coefficients."""
    value = 0.0
    for t in range(N_TASKS):
        support = model.support_vectors_[t]
        duals = model.dual_coef_[t]
        rows = data.X[data.task == t]
        scores = np.full(len(rows), model.intercept_[t])
        for theta, kernel in zip(model.theta_[t], make_kernels(KERNELS), strict=True):
            value += theta * duals @ kernel(support, support) @ duals / 2
            scores += theta * kernel(rows, support) @ duals
        value += model.C * np.maximum(0, 1 - data.y[data.task == t] * scores).sum()
    return float(value)


def coupled_kernels(data: Problem, model) -> float:
    coupling = model.lam * task_norms(pairs(model.theta_))
    return kernel_machines(data, model) + coupling


def standardized(data: Problem, model) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns 1 and standardized X, and Sigma in their units."""
    scale = data.X.std(axis=0)
    Z = np.column_stack([np.ones(len(data.y)), (data.X - data.X.mean(axis=0)) / scale])
    units = np.append(1.0, scale)
    return Z, model.covariance_ * np.outer(units, units)


def restricted_likelihood(data: Problem, model) -> float:
    Z, Sigma = standardized(data, model)
    same_task = data.task[:, np.newaxis] == data.task
    V = same_task * (Z @ Sigma @ Z.T) + model.noise_variance_ * np.eye(len(data.y))
    inverse = np.linalg.inv(V)
    information = Z.T @ inverse @ Z
    mu = np.linalg.solve(information, Z.T @ inverse @ data.y)
    residuals = data.y - Z @ mu
    volumes = np.linalg.slogdet(V)[1] + np.linalg.slogdet(information)[1]
    constant = (len(data.y) - Z.shape[1]) * np.log(2 * np.pi)
    return float(constant + volumes + residuals @ inverse @ residuals)


def likelihood_of_labels(data: Problem, model) -> float:
    """Integrate over the differences of each task by Laplace's approximation."""
    Z, Sigma = standardized(data, model)
    means = data.X.mean(axis=0)
    level = model.mean_intercept_ + model.mean_coef_ @ means
    mu = np.append(level, model.mean_coef_ * data.X.std(axis=0))
    # Directions without variance need no integration.
    values, vectors = np.linalg.eigh(Sigma)
    root = vectors * np.sqrt(np.maximum(values, 0))
    total = 0.0
    for t in range(N_TASKS):
        rows = data.task == t
        y = data.y[rows]
        fixed = Z[rows] @ mu
        random = Z[rows] @ root

        def minus_log_density(u, y=y, fixed=fixed, random=random):
            return np.logaddexp(0, -y * (fixed + random @ u)).sum() + u @ u / 2

        start = np.zeros(random.shape[1])
        mode = minimize(minus_log_density, start, method="BFGS", tol=1e-10).x
        chance = 1 / (1 + np.exp(-(fixed + random @ mode)))
        weighted = random * (chance * (1 - chance))[:, np.newaxis]
        curvature = np.eye(len(mode)) + random.T @ weighted
        total += 2 * minus_log_density(mode) + np.linalg.slogdet(curvature)[1]
    variances = np.diag(Sigma)
    prior = mu[0] ** 2 / 50 + variances[0] / 5 + squares(mu[1:]) + variances[1:].sum()
    return float(total + model.ridge * prior)


HALF_SQUARES = "sum_t 1/2 ||y_t - X_t w_t - b_t||^2"
HALF_SQUARES_OF_PARTS = "sum_t 1/2 ||y_t - X_t (p_t + q_t) - b_t||^2"
LOSSES = "sum_t sum_i l(y_ti (x_ti'w_t + b_t))"
FEATURE_NORMS = "alpha sum_j ||(w_1j, ..., w_Tj)||_2"
GRAPH = (
    " + alpha/2 sum_{s<t} A_st ||w_s - w_t||^2"
    " + ridge/2 sum_t ||w_t||^2 + sparsity sum_tj |w_tj|"
)
TEMPORAL = (
    f" + {FEATURE_NORMS} + smoothness/2 sum_t ||w_{{t+1}} - w_t||^2"
    " + ridge/2 sum_t ||w_t||^2"
)
FUSED = (
    f" + {FEATURE_NORMS} + fusion sum_t ||w_{{t+1}} - w_t||_1 + sparsity sum_tj |w_tj|"
)
ROBUST_FEATURES = " + alpha (sum_j ||p^j||_2 + lam sum_t ||q_t||_2)"
SPARSE_LOW_RANK = " + alpha (||P||_* + lam sum_tj |q_tj|)"
DIRTY = " + alpha (sum_j max_t |p_tj| + lam sum_tj |q_tj|)"
CLUSTERS = (
    " + alpha eta (1 + eta) tr(W (eta I + M)^{-1} W')"
    " subject to 0 <= M <= I, tr(M) = n_clusters"
)
SUBSPACE = (
    " + alpha eta (1 + eta) tr(W' (eta I + M)^{-1} W)"
    " subject to 0 <= M <= I, tr(M) = n_components"
)
ROBUST = "||L||_* + lam sum_t ||e_t||_2 + beta "
BLOCKS = " then L <- U U'L, U the left singular vectors of L_k for one block k"
MATRIX_NORMAL = (
    "sum_t ||y_t - X_t w_t - b_t||^2 + eta ||W||_F^2"
    " + rho [tr(S1 W S2 W') - T log|S1| - d log|S2|]"
)
MACHINES = (
    "sum_t sum_m ||w_t^m||^2 / (2 theta_t^m) + C sum_t sum_i max(0, 1 - y_ti f_t(x_ti))"
)
COUPLED = "1/2 sum_t ||w_t||^2 + coupling/2 sum_st L_st w_s'w_t + C sum_i weight_i "
#: The squared loss of classifiers is 1/2 (y - z)^2.
CLASSIFIERS_OF_PAPERS = {"tol": 1e-9, "max_iter": 20_000}

Evaluate = Callable[[Problem, object], float]
#: Printed objective, parameters of a fit, and the value of the objective.
OBJECTIVES: dict[str, tuple[str, dict[str, object], Evaluate]] = {
    "IndependentRidge": (
        "sum_t (1/2 ||y_t - X_t w_t - b_t||^2 + alpha/2 ||w_t||^2)",
        {"alpha": 3.0},
        lambda data, m: data.half_squares(m) + m.alpha / 2 * squares(m.coef_),
    ),
    "PooledRidge": (
        "sum_t 1/2 ||y_t - X_t w - b||^2 + alpha/2 ||w||^2",
        {"alpha": 3.0},
        lambda data, m: data.half_squares(m) + m.alpha / 2 * squares(m.coef_[0]),
    ),
    "IndependentLasso": (
        "sum_t (1/2 ||y_t - X_t w_t - b_t||^2 + alpha ||w_t||_1)",
        {"alpha": 3.0},
        lambda data, m: data.half_squares(m) + m.alpha * absolute(m.coef_),
    ),
    "PooledLasso": (
        "sum_t 1/2 ||y_t - X_t w - b||^2 + alpha ||w||_1",
        {"alpha": 3.0},
        lambda data, m: data.half_squares(m) + m.alpha * absolute(m.coef_[0]),
    ),
    "IndependentLogistic": (
        "sum_t (sum_i log(1 + exp(-y_ti (x_ti'w_t + b_t))) + alpha/2 ||w_t||^2)",
        {"alpha": 0.5},
        lambda data, m: data.logistic(m) + m.alpha / 2 * squares(m.coef_),
    ),
    "PooledLogistic": (
        "sum_t sum_i log(1 + exp(-y_ti (x_ti'w + b))) + alpha/2 ||w||^2",
        {"alpha": 0.5},
        lambda data, m: data.logistic(m) + m.alpha / 2 * squares(m.coef_[0]),
    ),
    "IndependentSVC": (
        "sum_t (1/2 ||w_t||^2 + C sum_i max(0, 1 - y_ti (x_ti'w_t + b_t)))",
        {"C": 0.5},
        lambda data, m: squares(m.coef_) / 2 + m.C * data.hinge(m),
    ),
    "PooledSVC": (
        "1/2 ||w||^2 + C sum_t sum_i max(0, 1 - y_ti (x_ti'w + b))",
        {"C": 0.5},
        lambda data, m: squares(m.coef_[0]) / 2 + m.C * data.hinge(m),
    ),
    "CMTL": (
        "loss + alpha (mean T ||w_mean||^2 + min_S tr(D S^{-1} D'))"
        " subject to I/within <= S <= I/between,"
        " tr(S) = (r - 1)/between + (T - r)/within",
        CLASSIFIERS_OF_PAPERS | {"alpha": 2.0},
        cmtl,
    ),
    "FlexClus": (
        "loss + alpha sum_features sum_{s<t} |u_s - u_t| + ridge ||U||_F^2"
        " + own ||V||_F^2",
        CLASSIFIERS_OF_PAPERS | {"alpha": 0.3},
        flex_clus,
    ),
    "CoClus": (
        "loss + shared sum_t ||p_t - mean(p)||^2 + low_rank sum_{i>k} sigma_i(Q)^2"
        " + ridge ||W||_F^2",
        {"shared": 2.0, "low_rank": 0.7, "ridge": 0.1, "tol": 1e-9},
        co_clus,
    ),
    "Whom": ("loss + alpha sum_g ||W_g||_*^2", {"alpha": 0.3, "tol": 1e-9}, whom),
    "MeTaG": (
        "1/2 sum_t sum_i (y_ti - x_ti'w_t - b_t)^2 + alpha sum_{s<t} ||w_s - w_t||_2"
        " + ridge/2 ||W||_F^2",
        {"alpha": 0.5, "ridge": 0.2, "tol": 1e-9, "max_iter": 20_000},
        metag,
    ),
    "GraphMTL": (
        HALF_SQUARES + GRAPH,
        {"alpha": 3.0, "ridge": 0.5, "sparsity": 1.0, "tol": 1e-9},
        lambda data, m: graph(data.half_squares(m), m),
    ),
    "GraphMTLClassifier": (
        LOSSES + GRAPH,
        {"alpha": 0.5, "ridge": 0.2, "sparsity": 0.1, "tol": 1e-9},
        lambda data, m: graph(data.logistic(m), m),
    ),
    "HierarchicalMTL": (
        "-2 log p(y | Sigma, s2), where y_t = X_t w_t + e_t, w_t ~ N(mu, Sigma),"
        " e_t ~ N(0, s2)",
        {"covariance": "diagonal"},
        restricted_likelihood,
    ),
    "HierarchicalMTLClassifier": (
        "-2 log p(y | mu, Sigma) + ridge R(mu, Sigma), where log-odds of"
        " y_t = X_t w_t, w_t ~ N(mu, Sigma)"
        " R = mu_0^2 / 50 + Sigma_00 / 5 + sum_j (mu_j^2 + Sigma_jj)",
        {"covariance": "diagonal"},
        likelihood_of_labels,
    ),
    "RobustFeatureMTL": (
        HALF_SQUARES_OF_PARTS + ROBUST_FEATURES,
        {"alpha": 4.0, "lam": 0.8, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: robust_features(data.half_squares(m), m),
    ),
    "RobustFeatureMTLClassifier": (
        LOSSES + ROBUST_FEATURES,
        {"alpha": 0.5, "lam": 0.8, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: robust_features(data.logistic(m), m),
    ),
    "SparseLowRankMTL": (
        HALF_SQUARES_OF_PARTS + SPARSE_LOW_RANK,
        {"alpha": 4.0, "lam": 0.4, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: sparse_low_rank(data.half_squares(m), m),
    ),
    "SparseLowRankMTLClassifier": (
        LOSSES + SPARSE_LOW_RANK,
        {"alpha": 0.5, "lam": 0.4, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: sparse_low_rank(data.logistic(m), m),
    ),
    "DirtyMTL": (
        HALF_SQUARES_OF_PARTS + DIRTY,
        {"alpha": 8.0, "lam": 0.6, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: dirty(data.half_squares(m), m),
    ),
    "DirtyMTLClassifier": (
        LOSSES + DIRTY,
        {"alpha": 1.0, "lam": 0.6, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: dirty(data.logistic(m), m),
    ),
    "IndependentMKLClassifier": (
        f"{MACHINES} subject to theta_t >= 0, sum_m theta_t^m <= 1",
        {"C": 0.5, "kernels": KERNELS, "tol": 1e-4},
        kernel_machines,
    ),
    "GroupMKLClassifier": (
        f"{MACHINES} + lam sum_{{s<t}} ||theta_s - theta_t||_2,"
        " theta_t >= 0, sum_m theta_t^m <= 1",
        {"C": 0.5, "lam": 0.3, "kernels": KERNELS, "tol": 1e-4},
        coupled_kernels,
    ),
    "SharedMKLClassifier": (
        "sum_t sum_m ||w_t^m||^2 / (2 theta^m)"
        " + C sum_t sum_i max(0, 1 - y_ti f_t(x_ti))"
        " subject to theta >= 0, sum_m theta^m <= 1",
        {"C": 0.5, "kernels": KERNELS, "tol": 1e-4},
        kernel_machines,
    ),
    "SparseMTL": (
        f"{HALF_SQUARES} + alpha sum_tj |w_tj|",
        {"alpha": 3.0, "tol": 1e-9},
        lambda data, m: data.half_squares(m) + m.alpha * absolute(m.coef_),
    ),
    "SparseMTLClassifier": (
        f"{LOSSES} + alpha sum_tj |w_tj|",
        {"alpha": 0.5, "tol": 1e-9},
        lambda data, m: data.logistic(m) + m.alpha * absolute(m.coef_),
    ),
    "JointFeatureMTL": (
        f"{HALF_SQUARES} + {FEATURE_NORMS}",
        {"alpha": 4.0, "tol": 1e-9},
        lambda data, m: data.half_squares(m) + m.alpha * feature_norms(m.coef_),
    ),
    "JointFeatureMTLClassifier": (
        f"{LOSSES} + {FEATURE_NORMS}",
        {"alpha": 0.5, "tol": 1e-9},
        lambda data, m: data.logistic(m) + m.alpha * feature_norms(m.coef_),
    ),
    "TraceNormMTL": (
        f"{HALF_SQUARES} + alpha ||W||_*",
        {"alpha": 4.0, "tol": 1e-9},
        lambda data, m: data.half_squares(m) + m.alpha * trace_norm(m.coef_),
    ),
    "TraceNormMTLClassifier": (
        f"{LOSSES} + alpha ||W||_*",
        {"alpha": 0.5, "tol": 1e-9},
        lambda data, m: data.logistic(m) + m.alpha * trace_norm(m.coef_),
    ),
    "FETR": (MATRIX_NORMAL, {"eta": 0.7, "rho": 0.5, "tol": 1e-9}, matrix_normal),
    "MTFRL": (
        "sum_t ||y_t - X_t w_t - b_t||^2 + eta ||W||_F^2"
        " + rho [tr(S1 W S2 W') + T r(S1) + d r(S2)]",
        {"eta": 0.7, "rho": 0.5, "tol": 1e-9},
        matrix_normal_with_fudge,
    ),
    "MTFL": (
        f"{HALF_SQUARES} + gamma tr(W' D^{{-1}} W)",
        {"gamma": 0.6, "tol": 1e-10},
        features_learned,
    ),
    "MTRL": (
        f"{HALF_SQUARES} + lam1/2 ||W||_F^2 + lam2/2 tr(W Omega^{{-1}} W')",
        {"lam1": 0.3, "lam2": 2.0, "tol": 1e-10},
        relations,
    ),
    "ClusteredMTL": (
        HALF_SQUARES + CLUSTERS,
        {"alpha": 2.0, "eta": 0.5, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: data.half_squares(m) + spectral(m, m.n_clusters),
    ),
    "ClusteredMTLClassifier": (
        LOSSES + CLUSTERS,
        {"alpha": 0.5, "eta": 0.5, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: data.logistic(m) + spectral(m, m.n_clusters),
    ),
    "ConvexASO": (
        HALF_SQUARES + SUBSPACE,
        {"alpha": 2.0, "eta": 0.5, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: data.half_squares(m) + spectral(m, m.n_components),
    ),
    "ConvexASOClassifier": (
        LOSSES + SUBSPACE,
        {"alpha": 0.5, "eta": 0.5, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: data.logistic(m) + spectral(m, m.n_components),
    ),
    "RobustMTL": (
        f"{ROBUST}sum_t ||y_t - X_t (l_t + e_t) - b_t||^2",
        {"lam": 0.7, "beta": 0.1, "tol": 1e-9, "max_iter": 50_000},
        lambda data, m: robust(data.squared_errors(m), m),
    ),
    "RobustMTLClassifier": (
        f"{ROBUST}sum_t sum_i l(y_ti (x_ti'w_t + b_t))",
        {"lam": 0.7, "beta": 1.0, "tol": 1e-9, "max_iter": 50_000},
        # The default loss for labels is squared, here without the factor 1/2.
        lambda data, m: robust(data.squared_errors(m), m),
    ),
    "GraphSVC": (
        f"{COUPLED}l(y_i w_t(i)'x_i)",
        {"C": 0.3, "coupling": 0.7, "tol": 1e-9},
        coupled_machines,
    ),
    "MultiTaskKernelSVC": (
        f"{COUPLED}max(0, 1 - y_i (w_t(i)'x_i + b))",
        {"C": 0.3, "coupling": 0.7, "tol": 1e-9},
        coupled_machines,
    ),
    "TemporalGroupLasso": (
        HALF_SQUARES + TEMPORAL,
        {"alpha": 3.0, "smoothness": 2.0, "ridge": 0.5, "tol": 1e-9},
        lambda data, m: temporal(data.half_squares(m), m),
    ),
    "TemporalGroupLassoClassifier": (
        LOSSES + TEMPORAL,
        {"alpha": 0.5, "smoothness": 0.5, "ridge": 0.2, "tol": 1e-9},
        lambda data, m: temporal(data.logistic(m), m),
    ),
    "FusedMTL": (
        HALF_SQUARES + FUSED,
        {"alpha": 2.0, "fusion": 1.0, "sparsity": 0.5, "tol": 1e-9},
        lambda data, m: fused(data.half_squares(m), m),
    ),
    "FusedMTLClassifier": (
        LOSSES + FUSED,
        {"alpha": 0.3, "fusion": 0.2, "sparsity": 0.1, "tol": 1e-9},
        lambda data, m: fused(data.logistic(m), m),
    ),
}
#: Methods whose objectives are checked in another test, with its name
ELSEWHERE = {
    "DivideAndConquerRMTL": "tests/estimators/test_divide.py",
    "DivideAndConquerRMTLClassifier": "tests/estimators/test_divide.py",
    "MTNetwork": "tests/estimators/test_network.py",
    "SmoothMTL": "tests/test_guide_formulas.py",
    "SmoothMTLClassifier": "tests/estimators/test_smooth.py",
    "SmoothPooled": "tests/estimators/test_smooth.py",
    "SmoothPooledClassifier": "tests/estimators/test_smooth.py",
    "SmoothIndependent": "tests/estimators/test_smooth.py",
    "SmoothIndependentClassifier": "tests/estimators/test_smooth.py",
}
OURS = {name: info for name, info in METHODS.items() if not info.foreign}


@pytest.mark.every(3, others="slow")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_printed_objective_is_the_one_that_is_minimized(name):
    printed, parameters, evaluate = OBJECTIVES[name]
    info = OURS[name]
    assert info.objective == printed
    data = problem(labels=info.kind == "classifier")
    model = load_class(name)(**parameters)
    model.fit(data.X, data.y, task_id=data.task)
    objective = np.atleast_1d(model.objective_)[-1]
    # Predictions of kernel machines use rounded dual variables.
    digits = 1e-3 if "kernels" in parameters else 1e-6
    assert_allclose(evaluate(data, model), objective, rtol=digits)


def test_the_objective_of_every_method_is_checked():
    assert set(OURS) == set(OBJECTIVES) | set(ELSEWHERE)
