"""Locally optimal subspace descent for a low-rank part plus outlier tasks.

It is for wide shared designs, and needs no eigendecomposition of the design. Each step
minimizes the objective exactly over a small subspace for the low-rank part L. The
column of E of each outlier task may move in that subspace and in three more directions,
as in locally optimal conjugate gradient methods for eigenvectors. New directions are
gradients and a few conjugate gradient steps on the Hessian, from which its largest
eigenvalues are deflated. The large matrices are in single precision where the tolerance
allows. Sums and the certificate at the end are in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from mtlrun.penalties.norms import L12, TraceNorm
from mtlrun.problem.losses import Loss, SquaredLoss
from mtlrun.problem.objective import gap_scale, null_objective, relative_gap
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import (
    Callback,
    SolverResult,
    Tracker,
    start_info,
    start_parts,
)
from mtlrun.problem.taskdata import Array, TaskData
from mtlrun.solvers.convex.wide import Certificate, WideProblem, column_products

#: Below this tolerance the large matrices are in double precision, whose products take
#: twice as long.
SINGLE = 1e-5
# Conjugate gradient steps for two kinds of directions of L.
_STEPS_L = (3, 9)
# Conjugate gradient steps for directions of E, if at least this part of the tasks has a
# column that is not zero. For fewer columns, one step does.
_STEPS_E = 4
_MANY = 0.25
# Largest number of steps of the small problem.
_SMALL_STEPS = 300
# Largest number of new singular vectors that enter L in one step.
_NEW = 3
# New directions with less than this part outside of the others are dropped: for bases
# and for columns of E.
_FRESH = 2e-3
_PARALLEL = 1e-2
# The model of the time, measured on one core with documents of the size of EUR-Lex:
# seconds of an eigendecomposition per cube of the size, products X'XW of a run,
# operations per second in such products, and seconds of the rest.
_EIGEN = 1.6e-10
_PRODUCTS = 30
_SPARSE_RATE = 3e10
_DENSE_RATE = 1.5e11
_SETUP = 2.0
# Rounding of the single-precision objective.
_NOISE = 1e-6
# Steps without progress after which the precision is doubled.
_PATIENCE = 3


def subspace_applies(data: TaskData, loss: Loss, penalties: Sequence[Penalty]) -> bool:
    """Whether `solve_subspace` takes a problem.

    It takes the squared loss on one design, with at most one weight per row, and the
    trace norm with or without the l1,2 norm.
    """
    kinds = sorted(type(penalty).__name__ for penalty in penalties)
    if kinds not in (["TraceNorm"], ["L12", "TraceNorm"]):
        return False
    is_penalized = all(penalty.alpha > 0 for penalty in penalties)
    return isinstance(loss, SquaredLoss) and data.uniform and is_penalized


def subspace_pays(data: TaskData) -> bool:
    """Whether `solve_subspace` is faster than an eigendecomposition of the design.

    A model of the time of both decides.
    """
    if data.sparse:
        entries = data.X.nnz
        rate = _SPARSE_RATE
    else:
        entries = data.n_rows * data.n_features
        rate = _DENSE_RATE
    seconds = 4.0 * _PRODUCTS * entries * data.n_tasks / rate + _SETUP
    size = min(data.n_rows, data.n_features)
    return _EIGEN * size**3 > seconds


def subspace_bytes(data: TaskData) -> float:
    """Return the bytes of the design and its transpose in both precisions."""
    if data.sparse:
        return 36.0 * data.X.nnz
    return 12.0 * data.n_rows * data.n_features


def solve_subspace(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | Array | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 500,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimize squared loss, trace norm of L and norms of the columns of E.

    All tasks have the same design, whose rows may have weights::

        scale/2 sum_t ||y_t - X (l_t + e_t) - b_t||^2
            + alpha ||L||_* + lam sum_t ||e_t||_2

    Best where the design has thousands of rows and of features, and L has a low rank. A
    step that would raise the objective is undone and repeated with more care, at last
    in double precision.

    Parameters
    ----------
    data : TaskData
        Shared, without missing targets.
    loss : SquaredLoss
    penalties : sequence of Penalty
        `TraceNorm`, or `TraceNorm` and `L12` in any order.
    start : SolverResult or ndarray of shape (n_parts, d, T), optional
        Warm start.
    fit_intercept : bool, default False
        Unpenalized intercepts.
    tol : float, default 1e-4
        Relative duality gap to stop at, in double precision.
    max_iter : int, default 500
    callback : callable, optional
        Called with (iteration, best primal, best dual) at every certificate in double
        precision.

    Returns
    -------
    SolverResult
        `info` has ``rank``, ``outliers`` (the number of columns of E that are not zero)
        and ``state``, which a warm start takes in place of the parts.

    Raises
    ------
    ValueError
        If the solver does not apply to the problem.
    """
    if not subspace_applies(data, loss, penalties):
        raise ValueError(
            "solve_subspace needs SquaredLoss, one design without missing targets, "
            "TraceNorm and L12"
        )
    outlier_index = None
    for k, penalty in enumerate(penalties):
        if isinstance(penalty, TraceNorm):
            low_rank_index = k
        elif isinstance(penalty, L12):
            outlier_index = k
    null = null_objective(data, loss)
    # Coefficients are divided by the size of the targets where these have unusual
    # units, and the objective by the strength of the trace norm. Division by a power of
    # two is exact.
    half_squares = null / loss.scale
    spread = np.sqrt(2.0 * half_squares / data.full_weights().sum())
    size = 1.0
    if not (spread == 0 or 1e-3 <= spread <= 1e3):
        size = float(2.0 ** np.round(np.log2(spread)))
    data = data.with_targets(data.targets / size)
    unit = size * penalties[low_rank_index].alpha
    scale = loss.scale * size / penalties[low_rank_index].alpha
    if outlier_index is None:
        lam = np.inf
    else:
        lam = penalties[outlier_index].alpha / penalties[low_rank_index].alpha
    exact = WideProblem.of(data, scale, lam, fit_intercept)
    work = exact
    if tol >= SINGLE:
        work = exact.astype(np.float32)
    parts = start_parts(start, len(penalties), (data.n_features, data.n_tasks))
    if parts is not None:
        parts = parts / size
    state = start_info(start)
    if not isinstance(state, _Point):
        state = _Point.of(parts, low_rank_index, outlier_index, work.shape)
    tracker = Tracker(tol, max_iter, callback, null=null)
    point = _descend(work, exact, state.in_precision_of(work), unit, tracker)
    parts = np.zeros((len(penalties), data.n_features, data.n_tasks))
    parts[low_rank_index] = point.low_rank()
    if outlier_index is not None:
        parts[outlier_index][:, point.active] = point.E
    intercept = size * exact.intercept(parts.sum(axis=0))
    return tracker.result(
        size * parts,
        intercept,
        rank=point.U.shape[1],
        outliers=len(point.active),
        state=point,
    )


def _descend(
    work: WideProblem,
    exact: WideProblem,
    point: _Point,
    unit: float,
    tracker: Tracker,
) -> _Point:
    """Step until the gap in double precision is small enough.

    Return the point with the best objective.
    """
    primal = np.inf
    dual = -np.inf
    n_undone = 0
    stalled = 0
    goal = tracker.tol
    at = point.certify(work)
    for iteration in range(1, tracker.max_iter + 1):
        # The best values so far, in the precision of the work.
        primal = min(primal, at.primal)
        dual = max(dual, at.dual)
        gap = relative_gap(primal, dual, null=tracker.null / unit)
        ends = gap <= goal or stalled == _PATIENCE or iteration == tracker.max_iter
        if work is not exact and ends:
            exact_point = point.in_precision_of(exact)
            exact_at = exact_point.certify(exact)
            if tracker.check(
                iteration, unit * exact_at.primal, unit * exact_at.dual, None
            ):
                break
            goal /= 2
            if stalled == _PATIENCE or goal < _NOISE:
                work = exact
                point = exact_point
                at = exact_at
                primal = exact_at.primal
                dual = exact_at.dual
        elif work is exact and tracker.check(
            iteration,
            unit * at.primal,
            unit * at.dual,
            None,
        ):
            break
        new = _step(work, point, at, gap, n_undone)
        after = new.certify(work)
        noise = 0.0
        if work is not exact:
            noise = _NOISE * gap_scale(at.primal, 0.0, tracker.null / unit)
        if after.primal > at.primal - noise:
            stalled += 1
        else:
            stalled = 0
        if after.primal <= at.primal + noise:
            point = new
            at = after
            n_undone = 0
        elif n_undone < _PATIENCE - 1:
            n_undone += 1
            # Without the directions of earlier steps
            none = point.before[:, :0]
            point = replace(
                point, P=0 * point.P, HP=0 * point.HP, before=none, rho=None
            )
        elif work is exact:
            tracker.exhausted = True
    return point


@dataclass
class _Point:
    """A point L + E with images under the Hessian H = A'A.

    Attributes
    ----------
    U, HU : ndarray of shape (d, r)
        Orthonormal basis of L = U B, and its image.
    B : ndarray of shape (r, T)
    active : ndarray of shape (a,)
        Tasks whose column of E is not zero.
    E, HE : ndarray of shape (d, a)
        These columns, and their images.
    P, HP : ndarray of shape (d, a)
        Last changes of these columns, and their images.
    before : ndarray of shape (d, r)
        U before the last step.
    rho : float or None
        Penalty parameter at the end of the last small problem.
    """

    U: Array
    HU: Array
    B: Array
    active: Array
    E: Array
    HE: Array
    P: Array
    HP: Array
    before: Array
    rho: float | None = None

    @classmethod
    def of(
        cls,
        parts: Array | None,
        low_rank_index: int,
        outlier_index: int | None,
        shape: tuple[int, int],
    ) -> _Point:
        """Return the point of a warm start, or zero, in double precision.

        `in_precision_of` computes its images.
        """
        d, T = shape
        U = np.zeros((d, 0))
        B = np.zeros((0, T))
        active = np.zeros(0, dtype=int)
        E = U
        if parts is not None:
            U, B = _factors(parts[low_rank_index])
            if outlier_index is not None:
                active = np.flatnonzero(np.any(parts[outlier_index], axis=0))
                E = parts[outlier_index][:, active]
        return cls(U, U, B, active, E, E, 0 * E, E, U[:, :0])

    def low_rank(self) -> Array:
        """Return L (d, T) in double precision."""
        return self.U.astype(np.float64) @ self.B

    def total(self) -> Array:
        """Return L + E in the precision of the work."""
        W = self.U @ self.B.astype(self.U.dtype)
        W[:, self.active] += self.E
        return W

    def certify(self, problem: WideProblem) -> Certificate:
        """Return the certificate of the point for a problem in its precision."""
        penalty = 0.0
        if len(self.B):
            penalty = float(np.linalg.svd(self.B, compute_uv=False).sum())
        if len(self.active):
            norms = np.sqrt(column_products(self.E, self.E))
            penalty += problem.lam * float(norms.sum())
        return problem.certify(self.total(), penalty)

    def in_precision_of(self, problem: WideProblem) -> _Point:
        """Return the point in the precision of a problem.

        Its images are computed, and U is orthonormal, in that precision.
        """
        U, R = np.linalg.qr(self.U.astype(problem.dtype))
        E = np.ascontiguousarray(self.E, problem.dtype)
        P = np.ascontiguousarray(self.P, problem.dtype)
        return replace(
            self,
            U=U,
            HU=problem.hessian(U),
            B=R.astype(np.float64) @ self.B,
            E=E,
            HE=problem.hessian(E),
            P=P,
            HP=problem.hessian(P),
            before=np.ascontiguousarray(self.before, problem.dtype),
        )


# ---------------------------------------------------------------- one step


def _step(
    problem: WideProblem,
    point: _Point,
    at: Certificate,
    gap: float,
    n_undone: int,
) -> _Point:
    """Minimize the objective over new directions.

    `n_undone` is the number of times that this step was undone.
    """
    U, HU = _basis(problem, point, at, n_undone)
    directions = _directions(problem, point, at, U, HU, n_undone)
    small = _Small.of(problem, point, at, U, HU, directions)
    steps = _SMALL_STEPS * 3**n_undone
    tol = min(1e-5, 0.05 * gap) * 0.1**n_undone
    B, b, g, rho = small.minimize(point.rho, steps, tol)
    turn, B = _factors(B)
    turn = turn.astype(problem.dtype)
    new = replace(
        point,
        U=np.ascontiguousarray(U @ turn),
        HU=np.ascontiguousarray(HU @ turn),
        B=B,
        before=point.U,
        rho=rho,
    )
    return directions.moved(new, U, HU, b, g)


def _factors(W: Array) -> tuple[Array, Array]:
    """Return orthonormal U and B with W = U B; U has as many columns as W has rank."""
    left, sigma, right = np.linalg.svd(W, full_matrices=False)
    largest = max(float(sigma.max(initial=0.0)), 1e-300)
    kept = sigma > 1e-10 * largest
    return left[:, kept], sigma[kept][:, None] * right[kept]


def _basis(
    problem: WideProblem,
    point: _Point,
    at: Certificate,
    n_undone: int,
) -> tuple[Array, Array]:
    """Return an orthonormal basis for L, and its image.

    It contains the basis of the point.
    """
    dtype = problem.dtype
    # The rank can grow along singular vectors of the gradient beyond the dual norm, 1.
    leading_sigma = at.sigma[::-1][:_NEW]
    leading = at.right[:, ::-1][:, :_NEW]
    new = leading[:, leading_sigma > 0.9].astype(dtype)
    columns = [point.before]
    if point.U.shape[1]:
        # The gradient of the objective at fixed rank, in the singular basis of L, and
        # Newton-like directions: the trace norm adds 1 / s to the Hessian.
        left, s, Vt = np.linalg.svd(point.B, full_matrices=False)
        loss_part = at.gradient @ Vt.T.astype(dtype)
        residual = loss_part - point.U @ left.astype(dtype)
        mu = 1.0 / np.maximum(s, 1e-12) / problem.scale
        columns += [residual, problem.precondition(residual, mu)]
        for steps in _STEPS_L:
            direction, _ = problem.solve(residual, mu, steps * (1 + n_undone))
            columns.append(direction)
    if new.shape[1]:
        g = at.gradient @ new
        columns += [g, problem.precondition(g, np.ones(new.shape[1]))]
    N = np.concatenate([*columns, problem.vectors], axis=1)
    lengths = np.linalg.norm(N, axis=0)
    N /= np.maximum(lengths, 1e-30)
    # Twice is enough to be orthogonal to U up to rounding.
    for _ in range(2):
        N -= point.U @ (point.U.T @ N)
        lengths = np.linalg.norm(N, axis=0)
        N = N[:, lengths > _FRESH]
    Q, R, _ = scipy.linalg.qr(
        N,
        mode="economic",
        pivoting=True,
        check_finite=False,
    )
    size = np.abs(np.diag(R))
    is_new = size > _FRESH * size.max(initial=1e-30)
    N = Q[:, : len(size)][:, is_new]
    N -= point.U @ (point.U.T @ N)
    r = point.U.shape[1]
    U, R = np.linalg.qr(np.concatenate([point.U, N], axis=1))
    # The first columns are the columns of the point, up to their signs.
    signs = np.sign(np.diag(R)[:r])
    U[:, :r] *= signs
    U = np.ascontiguousarray(U)
    return U, problem.hessian(U)


@dataclass
class _OutlierDirections:
    """Orthonormal directions of the columns of E, outside of U.

    They combine the column itself, a new direction and the last change.

    Attributes
    ----------
    active : ndarray of shape (a,)
        Tasks.
    along, images : lists of 3 ndarrays of shape (d, a)
        The combined arrays, with zeros where one is not needed, and their images.
    mix : ndarray of shape (a, 3, 3)
        Combinations: direction k of task j is ``sum_i along[i][:, j] mix[j, i, k]``.
    M, gradient, K : ndarrays of shape (a, 3, 3), (a, 3), (a, p, 3)
        Hessian of the directions, minus the slopes of the loss along them, and their
        products with the images of U.
    b, g : ndarrays of shape (p, a), (a, 3)
        The columns of E in terms of U and of the directions.
    """

    active: Array
    along: list[Array]
    images: list[Array]
    mix: Array
    M: Array
    gradient: Array
    K: Array
    b: Array
    g: Array

    def moved(self, point: _Point, U: Array, HU: Array, b: Array, g: Array) -> _Point:
        """Return a point whose columns of E are ``U b + directions g``."""
        dtype = U.dtype
        weights = np.einsum("mia,ma->mi", self.mix, g).astype(dtype)
        column, new, last = self.along
        column_image, new_image, last_image = self.images
        change = (b - self.b * weights[:, 0]).astype(dtype)
        P = new * weights[:, 1] + last * weights[:, 2] + U @ change
        HP = new_image * weights[:, 1] + last_image * weights[:, 2] + HU @ change
        # A multiple of the column as it was, in terms of U and outside of it.
        inside = self.b.astype(dtype) * weights[:, 0]
        E = column * weights[:, 0] + U @ inside + P
        HE = column_image * weights[:, 0] + HU @ inside + HP
        kept = np.any(g != 0, axis=1) | np.any(b != 0, axis=0)
        return replace(
            point,
            active=self.active[kept],
            E=np.ascontiguousarray(E[:, kept]),
            HE=np.ascontiguousarray(HE[:, kept]),
            P=np.ascontiguousarray(P[:, kept]),
            HP=np.ascontiguousarray(HP[:, kept]),
        )


def _directions(
    problem: WideProblem,
    point: _Point,
    at: Certificate,
    U: Array,
    HU: Array,
    n_undone: int,
) -> _OutlierDirections:
    """Return the directions of the columns of E that are not zero, or will not be."""
    # A column leaves zero when its gradient is longer than lam.
    entering = np.flatnonzero(at.columns > problem.lam * (1 - 1e-3))
    entering = np.setdiff1d(entering, point.active)
    active = np.concatenate([point.active, entering]).astype(int)
    zeros = np.zeros((problem.shape[0], len(entering)), problem.dtype)

    def extended(A: Array) -> Array:
        return np.ascontiguousarray(np.concatenate([A, zeros], axis=1))

    E = extended(point.E)
    gradient = np.ascontiguousarray(at.gradient[:, active])
    D, HD = _new_directions(problem, E, gradient, n_undone)
    along = [E, D, extended(point.P)]
    images = [extended(point.HE), HD, extended(point.HP)]
    # The columns of E in terms of U.
    b = (U.T @ E).astype(np.float64)
    for i in range(3):
        # The parts outside of U. Columns that lie in U but for rounding become zero.
        lengths = np.sqrt(column_products(along[i], along[i]))
        h = U.T @ along[i]
        outside = along[i] - U @ h
        image = images[i] - HU @ h
        outside_lengths = np.sqrt(column_products(outside, outside))
        is_inside = outside_lengths <= _FRESH * np.maximum(lengths, 1e-30)
        outside[:, is_inside] = 0
        image[:, is_inside] = 0
        along[i] = outside
        images[i] = image
    N = np.zeros((len(active), 3, 3))
    M = np.zeros((len(active), 3, 3))
    for i in range(3):
        for j in range(i + 1):
            inner = column_products(along[i], along[j])
            N[:, i, j] = inner
            N[:, j, i] = inner
            # The average of two numbers that are equal but for rounding.
            upper = column_products(along[i], images[j])
            lower = column_products(along[j], images[i])
            curvature = 0.5 * (upper + lower)
            M[:, i, j] = curvature
            M[:, j, i] = curvature
    slopes = np.stack([column_products(A, gradient) for A in along], axis=1)
    products = []
    for A, H in zip(along, images, strict=True):
        product = HU.T @ A + U.T @ H
        products.append(0.5 * product.T.astype(np.float64))
    K = np.stack(products, axis=2)
    mix, g = _orthonormal(N)
    return _OutlierDirections(
        active=active,
        along=along,
        images=images,
        mix=mix,
        M=mix.transpose(0, 2, 1) @ M @ mix,
        gradient=np.einsum("mia,mi->ma", mix, slopes),
        K=K @ mix,
        b=b,
        g=g,
    )


def _new_directions(
    problem: WideProblem,
    E: Array,
    gradient: Array,
    n_undone: int,
) -> tuple[Array, Array]:
    """Return a new direction of unit length for each column of E, and their images."""
    norms = np.sqrt(column_products(E, E))
    # The norm lam ||e|| has the gradient pull * e, and about the Hessian pull.
    pull = np.divide(problem.lam, norms, out=np.zeros_like(norms), where=norms > 0)
    largest_mu = 1e4 * problem.level
    mu = np.minimum(pull / problem.scale, largest_mu)
    mu = np.where(norms > 0, mu, largest_mu)
    residual = gradient - E * pull.astype(problem.dtype)
    steps = 1
    if E.shape[1] > _MANY * problem.shape[1]:
        steps = _STEPS_E
    D, HD = problem.solve(residual, mu, steps * (1 + n_undone))
    lengths = np.sqrt(column_products(D, D))
    unit = (1.0 / np.maximum(lengths, 1e-300)).astype(problem.dtype)
    return D * unit, HD * unit


def _orthonormal(N: Array) -> tuple[Array, Array]:
    """Orthonormalize three vectors per task by Gram-Schmidt, given their Gram matrices.

    Vectors that are zero, or nearly parallel to earlier ones, are left out.

    Parameters
    ----------
    N : ndarray of shape (a, 3, 3)

    Returns
    -------
    mix : ndarray of shape (a, 3, 3)
        Combinations: new vector k is ``sum_i mix[:, i, k]`` times vector i.
    first : ndarray of shape (a, 3)
        The first vector in terms of the new ones.
    """
    size = np.sqrt(np.maximum(np.einsum("mii->mi", N), 0.0))
    largest = max(float(size.max(initial=0.0)), 1e-30)
    is_nonzero = size > 1e-12 * largest
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=is_nonzero)
    mix = np.zeros_like(N)
    for k in range(3):
        v = np.zeros(size.shape)
        v[:, k] = inverse[:, k]
        # Twice, because rounding leaves a part of nearly parallel vectors.
        for _ in range(2):
            for i in range(k):
                earlier = mix[:, :, i]
                product = np.einsum("mi,mij,mj->m", earlier, N, v)
                v -= earlier * product[:, None]
        left = np.sqrt(np.maximum(np.einsum("mi,mij,mj->m", v, N, v), 0.0))
        is_new = left > _PARALLEL
        factors = np.divide(1.0, left, out=np.zeros_like(left), where=is_new)
        mix[:, :, k] = v * factors[:, None]
    first = np.zeros(size.shape)
    first[:, 0] = np.where(inverse[:, 0] > 0, size[:, 0], 0.0)
    return mix, first


# ---------------------------------------------------------------- the small problem


@dataclass
class _Small:
    """The objective as a function of a point in the subspace.

    It is ``||B||_* + lam sum_j |(b_j, g_j)| + scale/2 (quadratic)``, in coordinates in
    which the Hessian of U is diagonal. Column t of the coefficients is B_t. For active
    tasks it is B_j + b_j in terms of U, and g_j in terms of the directions of the task.

    The linear terms R and C follow from the gradient at the start, whose products with
    U and with the directions are `gradient` and `slopes`: products with the data would
    lose it in their rounding.
    """

    scale: float
    lam: float
    active: Array
    turn: Array
    w: Array
    K: Array
    M: Array
    R: Array
    C: Array
    B: Array
    b: Array
    g: Array
    gradient: Array
    slopes: Array

    @classmethod
    def of(
        cls,
        problem: WideProblem,
        point: _Point,
        at: Certificate,
        U: Array,
        HU: Array,
        directions: _OutlierDirections,
    ) -> _Small:
        """Return the small problem for a basis U of L and directions of E."""
        H = (U.T @ HU).astype(np.float64)
        symmetric = 0.5 * (H + H.T)
        w, turn = np.linalg.eigh(symmetric)
        largest = max(float(w.max(initial=0.0)), 1e-300)
        w = np.maximum(w, 1e-9 * largest)
        B = np.zeros((len(w), problem.shape[1]))
        B[: len(point.B)] = point.B
        K = turn.T @ directions.K
        # Rounding must not make the Hessian of U and the directions indefinite: its
        # Schur complement gets non-negative eigenvalues.
        inside = np.einsum("mpa,p,mpb->mab", K, 1.0 / w, K)
        e, F = np.linalg.eigh(directions.M - inside)
        positive = np.maximum(e, 0.0)[:, None, :]
        M = inside + (F * positive) @ F.transpose(0, 2, 1)
        B = turn.T @ B
        b = turn.T @ directions.b
        g = directions.g
        gradient = turn.T @ (U.T @ at.gradient).astype(np.float64)
        active = directions.active
        R = gradient / problem.scale + w[:, None] * B
        R[:, active] += w[:, None] * b + (K @ g[:, :, None])[:, :, 0].T
        C = (
            directions.gradient / problem.scale
            + _times(K, (B[:, active] + b).T)
            + np.einsum("mab,mb->ma", M, g)
        )
        return cls(
            scale=problem.scale,
            lam=problem.lam,
            active=active,
            turn=turn,
            w=w,
            K=K,
            M=M,
            R=R,
            C=C,
            B=B,
            b=b,
            g=g,
            gradient=gradient,
            slopes=directions.gradient,
        )

    def minimize(
        self,
        rho: float | None,
        steps: int,
        tol: float,
    ) -> tuple[Array, Array, Array, float]:
        """Return B, b, g by over-relaxed ADMM, and its last rho.

        It starts with the multipliers of the large problem.
        """
        act = self.active
        scale = self.scale
        usual = 1.0 / max(_size(self.B, self.b, self.g), 1e-2)
        if rho is None:
            rho = usual
        else:
            rho = min(max(rho, 1e-3 * usual), 1e3 * usual)
        # The sum B_j + b_j of active tasks is shared by two variables.
        free = np.ones(self.B.shape[1])
        free[act] = 0.5
        ZB = self.B
        Zb = self.b
        Zg = self.g
        UB = self.gradient / rho
        Ub = self.gradient[:, act] / rho
        Ug = self.slopes / rho
        A, S = self._inverses(rho, free)
        for it in range(1, steps + 1):
            aB = ZB - UB
            ab = Zb - Ub
            ag = Zg - Ug
            right = scale * self.R + rho * aB
            both = aB[:, act] + ab
            right[:, act] = scale * self.R[:, act] + 0.5 * rho * both
            x = A * right
            rest = self.C - _times(self.K, x[:, act].T)
            right_g = scale * rest + rho * ag
            g = (S @ right_g[:, :, None])[:, :, 0]
            coupled = scale * (self.K @ g[:, :, None])[:, :, 0].T
            x[:, act] -= A[:, act] * coupled
            shift = 0.5 * (x[:, act] - both)
            xb = ab + shift
            x[:, act] = aB[:, act] + shift
            oB = ZB
            ob = Zb
            og = Zg
            TB = 1.6 * x - 0.6 * ZB + UB
            tb = 1.6 * xb - 0.6 * Zb + Ub
            tg = 1.6 * g - 0.6 * Zg + Ug
            # Soft-threshold the singular values of T (p, T), by the Gram matrix of
            # rows.
            threshold = 1.0 / rho
            e, F = np.linalg.eigh(TB @ TB.T)
            s = np.sqrt(np.maximum(e, 0.0))
            shrunk = 1.0 - threshold / np.maximum(s, 1e-300)
            factors = np.where(s > threshold, shrunk, 0.0)
            ZB = np.asarray((F * factors) @ (F.T @ TB))
            squares = np.sum(tb * tb, axis=0) + np.sum(tg * tg, axis=1)
            norms = np.sqrt(squares)
            shares = self.lam / rho / np.maximum(norms, 1e-300)
            factor = np.maximum(0.0, 1.0 - shares)
            Zb = tb * factor
            Zg = tg * factor[:, None]
            UB = TB - ZB
            Ub = tb - Zb
            Ug = tg - Zg
            if it % 5 == 0:
                primal_size = max(_size(x, xb, g), 1e-300)
                dual_size = max(_size(UB, Ub, Ug), 1e-300)
                primal = _size(x - ZB, xb - Zb, g - Zg) / primal_size
                dual = _size(ZB - oB, Zb - ob, Zg - og) / dual_size
                if max(primal, dual) < tol:
                    break
                # Balance both residuals, less and less often, so that ADMM converges.
                if it in (5, 10, 20, 30, 50, 80, 120, 180):
                    ratio = max(primal, 1e-12) / max(dual, 1e-12)
                    change = min(max(np.sqrt(ratio), 0.2), 5.0)
                    new_rho = max(rho * change, 1e-4 * usual)
                    new_rho = min(new_rho, 1e4 * usual)
                    change = new_rho / rho
                    # Small changes are not worth another factorization.
                    if not 1 / 1.5 < change < 1.5:
                        rho *= change
                        UB = UB / change
                        Ub = Ub / change
                        Ug = Ug / change
                        A, S = self._inverses(rho, free)
        return self.turn @ ZB, self.turn @ Zb, Zg, rho

    def _inverses(self, rho: float, free: Array) -> tuple[Array, Array]:
        """Return inverses that solve with the Hessian plus rho.

        They are the inverses in U by task, and the inverse Schur complements of the
        directions.
        """
        A = 1.0 / (self.scale * self.w[:, None] + rho * free)
        active_A = A[:, self.active]
        inside = np.einsum("mpa,pm,mpb->mab", self.K, active_A, self.K)
        hessian = self.scale * self.M + rho * np.eye(3)
        complement = hessian - self.scale**2 * inside
        return A, np.linalg.inv(complement)


def _times(K: Array, x: Array) -> Array:
    """Return K_j'x_j (a, 3) for K (a, p, 3) and x (a, p)."""
    return np.asarray((x[:, None, :] @ K)[:, 0])


def _size(*arrays: Array) -> float:
    """Return the Frobenius norm of several arrays together."""
    return float(np.sqrt(sum(float(np.vdot(A, A)) for A in arrays)))
