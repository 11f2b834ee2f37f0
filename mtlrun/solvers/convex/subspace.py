"""Locally optimal subspace descent for a low-rank part plus outlier tasks on a wide shared design.

No eigendecomposition of the design is needed: every step minimizes the objective
exactly over a small subspace for the low-rank part L, and over that subspace and three
directions of its own for every outlier task (column of E), as locally optimal conjugate
gradient methods do for eigenvectors. New directions are gradients and a few conjugate
gradient steps on the Hessian, from which its largest eigenvalues are deflated. The
large matrices are in single precision where the tolerance allows; sums and the
certificate at the end are in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import DTypeLike

from mtlrun.penalties.norms import L12, TraceNorm
from mtlrun.problem.losses import Loss, SquaredLoss
from mtlrun.problem.objective import gap_scale, null_objective, relative_gap
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import Callback, SolverResult, Tracker, start_parts
from mtlrun.problem.taskdata import Design, TaskData
from mtlrun.utils.jit import summing

# Eigenvalues of the Hessian this many times above its mean are deflated, at most this
# many.
_OUTLIER = 4.0
_DEFLATED = 6


@dataclass
class Certificate:
    """Objective and dual value at a point, minus the gradient of the loss, the norms of its columns, and its singular
    values with the vectors on the side of the tasks, in ascending order."""

    primal: float
    dual: float
    gradient: Array
    columns: Array
    sigma: Array
    right: Array


@summing
def _sparse_product(
    indptr: Array, indices: Array, values: Array, B: Array, out: Array
) -> None:
    """Write a CSR matrix times a dense one into `out`; eight entries of a row at a time, so that rows stay in cache."""
    for i in range(len(indptr) - 1):
        row = out[i]
        row[:] = 0
        p = indptr[i]
        end = indptr[i + 1]
        while p + 8 <= end:
            v0 = values[p]
            v1 = values[p + 1]
            v2 = values[p + 2]
            v3 = values[p + 3]
            v4 = values[p + 4]
            v5 = values[p + 5]
            v6 = values[p + 6]
            v7 = values[p + 7]
            b0 = B[indices[p]]
            b1 = B[indices[p + 1]]
            b2 = B[indices[p + 2]]
            b3 = B[indices[p + 3]]
            b4 = B[indices[p + 4]]
            b5 = B[indices[p + 5]]
            b6 = B[indices[p + 6]]
            b7 = B[indices[p + 7]]
            for k in range(len(row)):
                row[k] += (v0 * b0[k] + v1 * b1[k] + v2 * b2[k] + v3 * b3[k]) + (
                    v4 * b4[k] + v5 * b5[k] + v6 * b6[k] + v7 * b7[k]
                )
            p += 8
        while p < end:
            v0 = values[p]
            b0 = B[indices[p]]
            for k in range(len(row)):
                row[k] += v0 * b0[k]
            p += 1


def column_products(A: Array, B: Array) -> Array:
    """Return the inner products of the columns of two matrices; blocks of rows are added in double precision."""
    blocks = (slice(i, i + 128) for i in range(0, len(A), 128))
    return sum(
        (np.einsum("ij,ij->j", A[block], B[block]) for block in blocks),
        np.zeros(A.shape[1]),
    )


@dataclass
class WideProblem:
    """Squared loss with rows weighted and centred, in one precision: ``scale/2 ||Y - A W||^2 + ||L||_* + lam ||E||``.

    ``A = diag(root) (X - 1 mean')``; `mean` is None without intercepts. `vectors` are
    eigenvectors of A'A with the largest eigenvalues, `level` the mean of the others.
    """

    A: Any
    At: Any
    Y: Array
    root: Array
    mean: Array | None
    y_mean: Array
    scale: float
    lam: float
    values: Array = field(default_factory=lambda: np.zeros(0))
    vectors: Array = field(default_factory=lambda: np.zeros((0, 0)))
    level: float = 1.0

    @classmethod
    def of(
        cls, data: TaskData, scale: float, lam: float, fit_intercept: bool
    ) -> WideProblem:
        """Return the problem in double precision."""
        if data.weights is None:
            weights = np.ones(data.n_rows)
        else:
            weights = data.weights
        root = np.sqrt(weights)
        mean = None
        y_mean = np.zeros(data.n_tasks)
        if fit_intercept:
            mean = (data.X.T @ weights) / weights.sum()
            y_mean = (weights @ data.targets) / weights.sum()
        plain = data.weights is None
        if data.sparse:
            if plain:
                A = sp.csr_array(data.X)
            else:
                A = sp.csr_array(sp.diags_array(root) @ data.X)
            At = sp.csr_array(A.T)
        else:
            A = data.X if plain else root[:, None] * data.X
            At = A.T
        Y = root[:, None] * (data.targets - y_mean)
        return cls(A, At, Y, root, mean, y_mean, scale, lam)._prepared()

    @property
    def dtype(self) -> Any:
        return self.Y.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Features and tasks."""
        return self.A.shape[1], self.Y.shape[1]

    def astype(self, dtype: DTypeLike) -> WideProblem:
        """Return the problem in another precision."""
        A = self.A.astype(dtype)
        if self.mean is None:
            mean = None
        else:
            mean = self.mean.astype(dtype)
        At = self.At.astype(dtype) if sp.issparse(A) else A.T
        return replace(
            self,
            A=A,
            At=At,
            Y=self.Y.astype(dtype),
            root=self.root.astype(dtype),
            mean=mean,
            vectors=self.vectors.astype(dtype),
        )

    def forward(self, W: Array) -> Array:
        """Return A W."""
        R = _product(self.A, W)
        if self.mean is None:
            return R
        return R - self.root[:, None] * (self.mean @ W)

    def adjoint(self, R: Array) -> Array:
        """Return A'R."""
        Q = _product(self.At, R)
        if self.mean is None:
            return Q
        return Q - self.mean[:, None] * (self.root @ R)

    def hessian(self, W: Array) -> Array:
        """Return A'A W."""
        return self.adjoint(self.forward(W))

    def intercept(self, W: Array) -> Array:
        """Return the best intercepts (T,) for coefficients."""
        if self.mean is None:
            return self.y_mean
        return self.y_mean - self.mean @ W

    def _prepared(self) -> WideProblem:
        """Find the eigenvalues of A'A that stand out, by subspace iteration."""
        d = self.shape[0]
        size = min(_DEFLATED + 2, d)
        Q = np.linalg.qr(np.random.default_rng(0).normal(size=(d, size)))[0]
        for _ in range(6):
            Q = np.linalg.qr(self.hessian(np.ascontiguousarray(Q)))[0]
        Q = np.ascontiguousarray(Q)
        values, V = np.linalg.eigh(Q.T @ self.hessian(Q))
        trace = _squares(self.A) - (
            0.0
            if self.mean is None
            else float(self.root @ self.root * (self.mean @ self.mean))
        )
        level = max(trace, 1e-300) / max(min(self.A.shape), 1)
        for _ in range(2):  # the mean of the others
            out = values > _OUTLIER * level
            out[: max(0, size - _DEFLATED)] = False
            level = max(
                trace - float(values[out].sum()), 1e-12 * max(trace, 1e-300)
            ) / max(min(self.A.shape), 1)
        self.values = values[out]
        self.vectors = np.ascontiguousarray(Q @ V[:, out])
        self.level = level
        return self

    def precondition(self, R: Array, mu: Array) -> Array:
        """Return (A'A + mu)^-1 R, but for a factor by column, if all eigenvalues that do not stand out were equal."""
        factors = (self.level + mu) / (self.values[:, None] + mu) - 1.0
        return R + self.vectors @ ((self.vectors.T @ R) * factors.astype(self.dtype))

    def solve(self, R: Array, mu: Array, steps: int) -> tuple[Array, Array]:
        """Return conjugate gradient iterates D of (A'A + mu) D = R, column by column, and A'A D."""
        narrow = mu.astype(self.dtype)
        residual = R.copy()
        z = self.precondition(residual, mu)
        p = z
        rz = column_products(residual, z)
        D = np.zeros_like(R)
        HD = np.zeros_like(R)
        for i in range(steps):
            Hp = self.hessian(p)
            curve = column_products(p, Hp) + mu * column_products(p, p)
            a = (rz / np.maximum(curve, 1e-300)).astype(self.dtype)
            D += p * a
            HD += Hp * a
            if i == steps - 1:
                break
            residual -= Hp * a
            residual -= p * (narrow * a)
            z = self.precondition(residual, mu)
            new = column_products(residual, z)
            p = z + p * (new / np.maximum(rz, 1e-300)).astype(self.dtype)
            rz = new
        return D, HD

    def certify(self, W: Array, penalty: float) -> Certificate:
        """Return the objective at coefficients with this penalty, and the dual value of the residuals made feasible.

        Columns of X'theta are scaled down to `lam`; then its singular values are
        clipped at 1 on the side of the tasks, theta V diag(min(1, 1/sigma)) V', which
        lets no column grow and only changes the directions that are too long.
        """
        theta = self.forward(W)
        np.subtract(self.Y, theta, out=theta)
        primal = 0.5 * self.scale * float(column_products(theta, theta).sum()) + penalty
        theta *= self.scale
        gradient = self.adjoint(theta)
        gram = (gradient.T @ gradient).astype(np.float64)
        columns = np.sqrt(np.maximum(np.diag(gram), 0.0))
        squared, right = np.linalg.eigh(gram)
        sigma = np.sqrt(np.maximum(squared, 0.0))
        c = np.minimum(1.0, self.lam / np.maximum(columns, 1e-300))
        capped, V = (
            (squared, right)
            if np.all(c == 1.0)
            else np.linalg.eigh(gram * c[:, None] * c)
        )
        capped = np.sqrt(np.maximum(capped, 0.0)) * (1.0 + 4 * np.finfo(self.dtype).eps)
        long = capped > 1.0
        theta *= c.astype(self.dtype)
        if long.any():
            Z = V[:, long].astype(self.dtype)
            theta -= (theta @ Z) @ (Z * (1.0 - 1.0 / capped[long]).astype(self.dtype)).T
        value = column_products(theta, self.Y) - column_products(theta, theta) / (
            2.0 * self.scale
        )
        return Certificate(
            primal, max(float(value.sum()), 0.0), gradient, columns, sigma, right
        )


def _product(A: Design, B: Array) -> Array:
    if not sp.issparse(A):
        return A @ B
    B = np.ascontiguousarray(B)
    out = np.empty((A.shape[0], B.shape[1]), A.dtype)
    _sparse_product(A.indptr, A.indices, A.data, B, out)
    return out


def _squares(A: Design) -> float:
    values = A.data if sp.issparse(A) else A.ravel()
    return float(np.vdot(values, values))


# ---------------------------------------------------------------------- descent over subspaces

Array = np.ndarray[Any, np.dtype[Any]]

#: Below this tolerance the large matrices are in double precision, whose products take
#: twice as long.
SINGLE = 1e-5
# Conjugate gradient steps for directions of L, and for directions of E where at least
# this part of the tasks are in it.
_STEPS_L = (3, 9)
_STEPS_E = 4
_MANY = 0.25
# Largest number of steps of the small problem, and of new singular vectors that enter L
# in one step.
_SMALL_STEPS = 300
_NEW = 3
# New directions with less than this part outside of the others are dropped: for bases
# and for columns of E.
_FRESH = 2e-3
_PARALLEL = 1e-2
# Seconds of an eigendecomposition per cube of the size, products X'XW of a run,
# operations per second in such products and seconds of the rest: one core, measured on
# documents of the size of EUR-Lex.
_EIGEN = 1.6e-10
_PRODUCTS = 30
_SPARSE_RATE = 3e10
_DENSE_RATE = 1.5e11
_SETUP = 2.0
# Rounding of the single-precision objective, and steps without progress after which the
# precision is doubled.
_NOISE = 1e-6
_PATIENCE = 3


def subspace_applies(data: TaskData, loss: Loss, penalties: Sequence[Penalty]) -> bool:
    """Whether `solve_subspace` takes a problem: squared loss, one design, weights by row at most, these penalties."""
    kinds = sorted(type(p).__name__ for p in penalties)
    is_supported = kinds in (["TraceNorm"], ["L12", "TraceNorm"]) and all(
        p.alpha > 0 for p in penalties
    )
    return isinstance(loss, SquaredLoss) and data.uniform and is_supported


def subspace_pays(data: TaskData) -> bool:
    """Whether `solve_subspace` is faster than the eigendecomposition that it does without, by a model of both."""
    if data.sparse:
        entries = data.X.nnz
    else:
        entries = data.n_rows * data.n_features
    rate = _SPARSE_RATE if data.sparse else _DENSE_RATE
    seconds = 4.0 * _PRODUCTS * entries * data.n_tasks / rate + _SETUP
    return _EIGEN * min(data.n_rows, data.n_features) ** 3 > seconds


def subspace_bytes(data: TaskData) -> float:
    """Return the bytes that `solve_subspace` takes for the design in both orders and both precisions."""
    if data.sparse:
        return 36.0 * data.X.nnz
    return 12.0 * data.n_rows * data.n_features


def solve_subspace(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | np.ndarray | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 500,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimize squared loss + trace norm of L + norms of the columns of E, on one design for all tasks.

    ::

        scale/2 sum_t ||y_t - X (l_t + e_t) - b_t||^2 + alpha ||L||_* + lam sum_t ||e_t||_2      (rows weighted)

    Best where the design is wide in both directions (thousands of rows and of features)
    and L has a low rank. A step that would raise the objective is taken back and made
    again with more care, in the end in double precision.

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
            "solve_subspace needs SquaredLoss, one design without missing targets, TraceNorm and L12"
        )
    low = next(k for k, p in enumerate(penalties) if isinstance(p, TraceNorm))
    out = next((k for k, p in enumerate(penalties) if isinstance(p, L12)), None)
    null = null_objective(data, loss)
    # Coefficients are divided by the size of the targets where these have unusual
    # units, and the objective by the strength of the trace norm.
    size = _unusual_size(data, null / loss.scale)
    data = data.with_targets(data.targets / size)
    unit = size * penalties[low].alpha
    scale = loss.scale * size / penalties[low].alpha
    if out is None:
        lam = np.inf
    else:
        lam = penalties[out].alpha / penalties[low].alpha
    exact = WideProblem.of(data, scale, lam, fit_intercept)
    work = exact if tol < SINGLE else exact.astype(np.float32)
    parts = start_parts(start, len(penalties), (data.n_features, data.n_tasks))
    parts = None if parts is None else parts / size
    state = None
    if isinstance(start, SolverResult):
        state = start.info.get("state")
    point = (
        state if isinstance(state, _Point) else _Point.of(parts, low, out, work.shape)
    ).seen_by(work)
    tracker = Tracker(tol, max_iter, callback, null=null)
    point = _descend(work, exact, point, unit, tracker)
    parts = np.zeros((len(penalties), data.n_features, data.n_tasks))
    parts[low] = point.low_rank()
    if out is not None:
        parts[out][:, point.active] = point.E
    intercept = size * exact.intercept(parts.sum(axis=0))
    return tracker.result(
        size * parts,
        intercept,
        rank=point.U.shape[1],
        outliers=len(point.active),
        state=point,
    )


def _unusual_size(data: TaskData, null: float) -> float:
    """Return a power of two near the spread of the targets, 1 if that is 1e-3 to 1e3.

    `null` is half of the sum of the squared deviations. A division by a power of two is
    exact.
    """
    spread = np.sqrt(2.0 * null / data.full_weights().sum())
    if spread == 0 or 1e-3 <= spread <= 1e3:
        return 1.0
    return float(2.0 ** np.round(np.log2(spread)))


def _descend(
    work: WideProblem, exact: WideProblem, point: _Point, unit: float, tracker: Tracker
) -> _Point:
    """Step until the gap in double precision is small enough; return the point of the best objective."""
    primal = np.inf
    dual = -np.inf
    careful = 0
    stalled = 0
    goal = tracker.tol
    at = point.certify(work)
    for iteration in range(1, tracker.max_iter + 1):
        # the best so far, in the precision of the work
        primal = min(primal, at.primal)
        dual = max(dual, at.dual)
        gap = relative_gap(primal, dual, null=tracker.null / unit)
        if work is not exact and (
            gap <= goal or stalled == _PATIENCE or iteration == tracker.max_iter
        ):
            double = point.seen_by(exact)
            sure = double.certify(exact)
            if tracker.check(iteration, unit * sure.primal, unit * sure.dual, None):
                break
            goal /= 2
            if stalled == _PATIENCE or goal < _NOISE:
                work = exact
                point = double
                at = sure
                primal = sure.primal
                dual = sure.dual
        elif work is exact and tracker.check(
            iteration, unit * at.primal, unit * at.dual, None
        ):
            break
        new = _step(work, point, at, gap, careful)
        after = new.certify(work)
        if work is exact:
            noise = 0.0
        else:
            noise = _NOISE * gap_scale(at.primal, 0.0, tracker.null / unit)
        if after.primal > at.primal - noise:
            stalled = stalled + 1
        else:
            stalled = 0
        if after.primal <= at.primal + noise:
            point = new
            at = after
            careful = 0
        elif careful < _PATIENCE - 1:
            careful += 1
            point = point.without_history()
        elif work is exact:
            tracker.exhausted = True
    return point


@dataclass
class _Point:
    """``L = U B`` with orthonormal U, the columns of E that are not zero, and what is known of their images.

    `H` is the Hessian X'X; `P` are the last changes of the columns of E, `before` the U
    of the last step.
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
        cls, parts: Array | None, low: int, out: int | None, shape: tuple[int, int]
    ) -> _Point:
        """Return the point of a warm start, or zero, in double precision; `seen_by` makes its images."""
        d, T = shape
        U = np.zeros((d, 0))
        B = np.zeros((0, T))
        active = np.zeros(0, dtype=int)
        E = U
        if parts is not None:
            U, B = _factors(parts[low])
            if out is not None:
                active = np.flatnonzero(np.any(parts[out], axis=0))
                E = parts[out][:, active]
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
            penalty += problem.lam * float(
                np.sqrt(column_products(self.E, self.E)).sum()
            )
        return problem.certify(self.total(), penalty)

    def seen_by(self, problem: WideProblem) -> _Point:
        """Return the point in the precision of a problem, with images and an orthonormal U of that precision."""
        U, R = np.linalg.qr(self.U.astype(problem.dtype))
        E, P, before = (
            np.ascontiguousarray(A, problem.dtype)
            for A in (self.E, self.P, self.before)
        )
        B = R.astype(np.float64) @ self.B
        HU, HE, HP = (problem.hessian(A) for A in (U, E, P))
        return replace(self, U=U, HU=HU, B=B, E=E, HE=HE, P=P, HP=HP, before=before)

    def without_history(self) -> _Point:
        """Return the point without the directions of earlier steps."""
        return replace(
            self, P=0 * self.P, HP=0 * self.HP, before=self.before[:, :0], rho=None
        )


# ---------------------------------------------------------------- one step


def _step(
    problem: WideProblem, point: _Point, at: Certificate, gap: float, careful: int
) -> _Point:
    """Minimize the objective over new directions; `careful` is how often this step was taken back."""
    U, HU = _basis(problem, point, at, careful)
    directions = _directions(problem, point, at, U, HU, careful)
    small = _Small.of(problem, point, at, U, HU, directions)
    steps = _SMALL_STEPS * 3**careful
    B, b, g, rho = small.minimise(
        point.rho, steps, min(1e-5, 0.05 * gap) * 0.1**careful
    )
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
    """Return orthonormal U and B with W = U B, as many columns as W has rank."""
    left, sigma, right = np.linalg.svd(W, full_matrices=False)
    kept = sigma > 1e-10 * max(float(sigma.max(initial=0.0)), 1e-300)
    return left[:, kept], sigma[kept][:, None] * right[kept]


def _basis(
    problem: WideProblem, point: _Point, at: Certificate, careful: int
) -> tuple[Array, Array]:
    """Return an orthonormal basis for L that contains the basis of the point, and its image."""
    sigma = at.sigma[::-1]
    right = at.right[:, ::-1]
    new = right[:, :_NEW][:, sigma[:_NEW] > 0.9].astype(problem.dtype)
    columns = [point.before]
    if point.U.shape[1]:
        left, s, Vt = np.linalg.svd(point.B, full_matrices=False)
        residual = at.gradient @ Vt.T.astype(problem.dtype) - point.U @ left.astype(
            problem.dtype
        )
        mu = 1.0 / np.maximum(s, 1e-12) / problem.scale
        columns += [residual, problem.precondition(residual, mu)]
        columns += [
            problem.solve(residual, mu, steps * (1 + careful))[0] for steps in _STEPS_L
        ]
    if new.shape[1]:
        g = at.gradient @ new
        columns += [g, problem.precondition(g, np.ones(new.shape[1]))]
    N = np.concatenate([*columns, problem.vectors], axis=1)
    N /= np.maximum(np.linalg.norm(N, axis=0), 1e-30)
    for _ in range(2):
        N -= point.U @ (point.U.T @ N)
        N = N[:, np.linalg.norm(N, axis=0) > _FRESH]
    Q, R, _ = scipy.linalg.qr(N, mode="economic", pivoting=True, check_finite=False)
    size = np.abs(np.diag(R))
    N = Q[:, : len(size)][:, size > _FRESH * size.max(initial=1e-30)]
    N -= point.U @ (point.U.T @ N)
    r = point.U.shape[1]
    U, R = np.linalg.qr(np.concatenate([point.U, N], axis=1))
    # The first columns are the columns of the point.
    U[:, :r] *= np.sign(np.diag(R)[:r])
    U = np.ascontiguousarray(U)
    return U, problem.hessian(U)


@dataclass
class _Own:
    """Orthonormal directions of the columns of E outside of U: combinations of the column, a new one, the last change.

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
        change = (b - self.b * weights[:, 0]).astype(dtype)
        P = self.along[1] * weights[:, 1] + self.along[2] * weights[:, 2] + U @ change
        HP = (
            self.images[1] * weights[:, 1]
            + self.images[2] * weights[:, 2]
            + HU @ change
        )
        shared = self.b.astype(dtype) * weights[:, 0]
        E = self.along[0] * weights[:, 0] + U @ shared + P
        HE = self.images[0] * weights[:, 0] + HU @ shared + HP
        kept = np.any(g != 0, axis=1) | np.any(b != 0, axis=0)
        E, HE, P, HP = (np.ascontiguousarray(A[:, kept]) for A in (E, HE, P, HP))
        return replace(point, active=self.active[kept], E=E, HE=HE, P=P, HP=HP)


def _directions(
    problem: WideProblem,
    point: _Point,
    at: Certificate,
    U: Array,
    HU: Array,
    careful: int,
) -> _Own:
    """Return the directions of the columns of E that are not zero, or will not be."""
    fresh = np.setdiff1d(
        np.flatnonzero(at.columns > problem.lam * (1 - 1e-3)), point.active
    )
    active = np.concatenate([point.active, fresh]).astype(int)
    nothing = np.zeros((problem.shape[0], len(fresh)), problem.dtype)
    E, HE, P, HP = (
        np.ascontiguousarray(np.concatenate([A, nothing], axis=1))
        for A in (point.E, point.HE, point.P, point.HP)
    )
    norms = np.sqrt(column_products(E, E))
    pull = np.divide(problem.lam, norms, out=np.zeros_like(norms), where=norms > 0)
    mu = np.where(
        norms > 0,
        np.minimum(pull / problem.scale, 1e4 * problem.level),
        1e4 * problem.level,
    )
    gradient = np.ascontiguousarray(at.gradient[:, active])
    residual = gradient - E * pull.astype(problem.dtype)
    steps = (_STEPS_E if len(active) > _MANY * problem.shape[1] else 1) * (1 + careful)
    D, HD = problem.solve(residual, mu, steps)
    unit = (1.0 / np.maximum(np.sqrt(column_products(D, D)), 1e-300)).astype(
        problem.dtype
    )
    along = [E, D * unit, P]
    images = [HE, HD * unit, HP]
    b = np.zeros((U.shape[1], len(active)))
    for i, A in enumerate(along):
        raw = np.sqrt(column_products(A, A))
        h = U.T @ A
        along[i], images[i] = A - U @ h, images[i] - HU @ h
        if i == 0:
            b = h.astype(np.float64)
        gone = np.sqrt(column_products(along[i], along[i])) <= _FRESH * np.maximum(
            raw, 1e-30
        )
        along[i][:, gone] = 0
        images[i][:, gone] = 0
    N = np.zeros((len(active), 3, 3))
    M = np.zeros((len(active), 3, 3))
    for i in range(3):
        for j in range(i + 1):
            N[:, i, j] = N[:, j, i] = column_products(along[i], along[j])
            M[:, i, j] = M[:, j, i] = 0.5 * (
                column_products(along[i], images[j])
                + column_products(along[j], images[i])
            )
    slopes = np.stack([column_products(A, gradient) for A in along], axis=1)
    K = np.stack(
        [
            0.5 * (HU.T @ A + U.T @ H).T.astype(np.float64)
            for A, H in zip(along, images, strict=True)
        ],
        axis=2,
    )
    mix, g = _orthonormal(N)
    M = mix.transpose(0, 2, 1) @ M @ mix
    return _Own(
        active,
        along,
        images,
        mix,
        M,
        np.einsum("mia,mi->ma", mix, slopes),
        K @ mix,
        b,
        g,
    )


def _orthonormal(N: Array) -> tuple[Array, Array]:
    """Return combinations (a, 3, 3) that make three vectors with Gram matrices N orthonormal, in their order.

    Vectors that are zero, or nearly parallel to earlier ones, are left out. Also
    returns the first vector in the new ones.
    """
    size = np.sqrt(np.maximum(np.einsum("mii->mi", N), 0.0))
    inverse = np.divide(
        1.0,
        size,
        out=np.zeros_like(size),
        where=size > 1e-12 * max(float(size.max(initial=0.0)), 1e-30),
    )
    mix = np.zeros_like(N)
    for k in range(3):
        v = np.zeros(size.shape)
        v[:, k] = inverse[:, k]
        for _ in range(2):
            for i in range(k):
                v -= (
                    mix[:, :, i]
                    * np.einsum("mi,mij,mj->m", mix[:, :, i], N, v)[:, None]
                )
        left = np.sqrt(np.maximum(np.einsum("mi,mij,mj->m", v, N, v), 0.0))
        mix[:, :, k] = (
            v
            * np.divide(1.0, left, out=np.zeros_like(left), where=left > _PARALLEL)[
                :, None
            ]
        )
    first = np.zeros(size.shape)
    first[:, 0] = np.where(inverse[:, 0] > 0, size[:, 0], 0.0)
    return mix, first


# ---------------------------------------------------------------- the small problem


@dataclass
class _Small:
    """``||B||_* + lam sum_j |(b_j, g_j)| + scale/2 (quadratic)`` in coordinates in which the Hessian of U is diagonal.

    Column t of the coefficients is B_t, for active tasks B_j + b_j in terms of U and
    g_j in terms of its directions. The linear terms R and C follow from the gradient at
    the point of departure, whose products with U and with the directions are `gradient`
    and `slopes`: products with the data alone would lose it in their rounding.
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
        unshared: _Own,
    ) -> _Small:
        H = (U.T @ HU).astype(np.float64)
        w, turn = np.linalg.eigh(0.5 * (H + H.T))
        w = np.maximum(w, 1e-9 * max(float(w.max(initial=0.0)), 1e-300))
        B = np.zeros((len(w), problem.shape[1]))
        B[: len(point.B)] = point.B
        K = turn.T @ unshared.K
        M = unshared.M
        inside = np.einsum("mpa,p,mpb->mab", K, 1.0 / w, K)
        e, F = np.linalg.eigh(M - inside)
        M = inside + (F * np.maximum(e, 0.0)[:, None, :]) @ F.transpose(
            0, 2, 1
        )  # not indefinite by rounding
        B = turn.T @ B
        b = turn.T @ unshared.b
        g = unshared.g
        gradient = turn.T @ (U.T @ at.gradient).astype(np.float64)
        R = gradient / problem.scale + w[:, None] * B
        R[:, unshared.active] += w[:, None] * b + (K @ g[:, :, None])[:, :, 0].T
        C = (
            unshared.gradient / problem.scale
            + _times(K, (B[:, unshared.active] + b).T)
            + np.einsum("mab,mb->ma", M, g)
        )
        return cls(
            problem.scale,
            problem.lam,
            unshared.active,
            turn,
            w,
            K,
            M,
            R,
            C,
            B,
            b,
            g,
            gradient,
            unshared.gradient,
        )

    def minimise(
        self, rho: float | None, steps: int, tol: float
    ) -> tuple[Array, Array, Array, float]:
        """Return B, b, g by relaxed ADMM, and its rho; it begins with the multipliers of the large problem."""
        act = self.active
        scale = self.scale
        usual = 1.0 / max(_size(self.B, self.b, self.g), 1e-2)
        if rho is None:
            rho = usual
        else:
            rho = min(max(rho, 1e-3 * usual), 1e3 * usual)
        free = np.ones(self.B.shape[1])
        free[act] = 0.5
        ZB = self.B
        Zb = self.b
        Zg = self.g
        UB = self.gradient / rho
        Ub = self.gradient[:, act] / rho
        Ug = self.slopes / rho
        A, S = self._factors(rho, free)
        for it in range(1, steps + 1):
            aB = ZB - UB
            ab = Zb - Ub
            ag = Zg - Ug
            right = scale * self.R + rho * aB
            both = aB[:, act] + ab
            right[:, act] = scale * self.R[:, act] + 0.5 * rho * both
            x = A * right
            g = (
                S
                @ (scale * (self.C - _times(self.K, x[:, act].T)) + rho * ag)[
                    :, :, None
                ]
            )[:, :, 0]
            x[:, act] -= A[:, act] * (scale * (self.K @ g[:, :, None])[:, :, 0].T)
            shift = 0.5 * (x[:, act] - both)
            xb = ab + shift
            x[:, act] = aB[:, act] + shift
            oB = ZB
            ob = Zb
            og = Zg
            TB, tb, tg = (
                1.6 * new - 0.6 * Z + u
                for new, Z, u in ((x, ZB, UB), (xb, Zb, Ub), (g, Zg, Ug))
            )
            ZB = _shrink_rows(TB, 1.0 / rho)
            norms = np.sqrt(np.sum(tb * tb, axis=0) + np.sum(tg * tg, axis=1))
            factor = np.maximum(0.0, 1.0 - self.lam / rho / np.maximum(norms, 1e-300))
            Zb = tb * factor
            Zg = tg * factor[:, None]
            UB = TB - ZB
            Ub = tb - Zb
            Ug = tg - Zg
            if it % 5 == 0:
                primal = _size(x - ZB, xb - Zb, g - Zg) / max(_size(x, xb, g), 1e-300)
                dual = _size(ZB - oB, Zb - ob, Zg - og) / max(_size(UB, Ub, Ug), 1e-300)
                if max(primal, dual) < tol:
                    break
                if it in (5, 10, 20, 30, 50, 80, 120, 180):
                    change = min(
                        max(np.sqrt(max(primal, 1e-12) / max(dual, 1e-12)), 0.2), 5.0
                    )
                    change = min(max(rho * change, 1e-4 * usual), 1e4 * usual) / rho
                    if not 1 / 1.5 < change < 1.5:
                        rho *= change
                        UB = UB / change
                        Ub = Ub / change
                        Ug = Ug / change
                        A, S = self._factors(rho, free)
        return self.turn @ ZB, self.turn @ Zb, Zg, rho

    def _factors(self, rho: float, free: Array) -> tuple[Array, Array]:
        """Return what inverts the Hessian plus rho: of U by task, and the Schur complements of the directions."""
        A = 1.0 / (self.scale * self.w[:, None] + rho * free)
        inside = np.einsum("mpa,pm,mpb->mab", self.K, A[:, self.active], self.K)
        return A, np.linalg.inv(
            self.scale * self.M + rho * np.eye(3) - self.scale**2 * inside
        )


def _times(K: Array, x: Array) -> Array:
    """Return K_j'x_j (a, 3) for K (a, p, 3) and x (a, p)."""
    return np.asarray((x[:, None, :] @ K)[:, 0])


def _shrink_rows(T: Array, threshold: float) -> Array:
    """Return T (p, T) with its singular values soft-thresholded, through the Gram matrix of its few rows."""
    e, F = np.linalg.eigh(T @ T.T)
    s = np.sqrt(np.maximum(e, 0.0))
    factors = np.where(s > threshold, 1.0 - threshold / np.maximum(s, 1e-300), 0.0)
    return np.asarray((F * factors) @ (F.T @ T))


def _size(*arrays: Array) -> float:
    return float(np.sqrt(sum(float(np.vdot(A, A)) for A in arrays)))
