"""Linear systems of coupled ridge regressions, by five solvers.

The equations are (G_t + eta I) w_t + rho (S1 W S2)_t = c_t.

With one Gram matrix for all tasks this is a (generalized) Sylvester equation; with one
per task it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg import LinAlgError, eigh
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dormqr, dpotrf, dsygst, dsytrd, dsytrd_lwork
from scipy.sparse.linalg import LinearOperator, cg

from mtlrun.problem.memory import require
from mtlrun.problem.quadratic import times_gram

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class CoupledSystem:
    """The optimality condition in W of half of

    ``sum_t ||y_t - X_t w_t||^2 + eta ||W||_F^2 + rho tr(S1 W S2 W')``.

    Attributes
    ----------
    gram : ndarray of shape (d, d) or (T, d, d)
        X'X of a shared design, else X_t'X_t of each task.
    cross : ndarray of shape (d, T)
        X_t'y_t.
    feature_precision : ndarray of shape (d, d)
        S1, positive definite.
    task_precision : ndarray of shape (T, T)
        S2, positive definite.
    eta, rho : float
        Non-negative.
    task_spectrum : (ndarray of shape (T,), ndarray of shape (T, T)), optional
        Eigenvalues and eigenvectors (in columns) of S2 where they are known: a step
        saved.
    """

    gram: Array
    cross: Array
    feature_precision: Array
    task_precision: Array
    eta: float
    rho: float
    task_spectrum: tuple[Array, Array] | None = None

    @property
    def shared(self) -> bool:
        """Whether all tasks have one Gram matrix."""
        return self.gram.ndim == 2

    def apply(self, W: Array) -> Array:
        """Return the left-hand side at W (d, T)."""
        return (
            times_gram(self.gram, W)
            + self.eta * W
            + self.rho * (self.feature_precision @ W @ self.task_precision)
        )

    def residual(self, W: Array) -> Array:
        """Return cross - apply(W), half of the negative gradient."""
        return self.cross - self.apply(W)

    def relative(self, residual: Array) -> float:
        """Return the norm of a residual relative to the norm of `cross`.

        It is 0 if both are zero.
        """
        size = float(np.linalg.norm(residual))
        scale = float(np.linalg.norm(self.cross))
        if scale > 0:
            return size / scale
        return size

    @cached_property
    def spectrum(self) -> tuple[float, float]:
        """Bounds of the eigenvalues.

        They follow from the eigenvalues of the Gram matrices (of all tasks), S1 and S2.
        """
        values = np.linalg.eigvalsh(self.gram)
        s1 = np.linalg.eigvalsh(self.feature_precision)
        s2 = np.linalg.eigvalsh(self.task_precision)
        # The eigenvalues of W -> S1 W S2 are the products of those of S1 and S2.
        smallest = max(float(values.min()), 0.0)
        largest = float(values.max())
        low = smallest + self.eta + self.rho * float(s1[0] * s2[0])
        high = largest + self.eta + self.rho * float(s1[-1] * s2[-1])
        return low, high


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of a solver of a `CoupledSystem`.

    Attributes
    ----------
    system : CoupledSystem
    W : ndarray of shape (d, T)
    n_iter : int
        1 for the direct solvers.
    """

    system: CoupledSystem
    W: Array
    n_iter: int

    @cached_property
    def residual(self) -> float:
        """||cross - apply(W)||_F / ||cross||_F, computed on access."""
        return self.system.relative(self.system.residual(self.W))


def closed_form_bytes(d: int, n_tasks: int) -> int:
    """Return the size of the matrix that `solve_closed` factorizes."""
    return 8 * (d * n_tasks) ** 2


def solve_closed(system: CoupledSystem) -> Solution:
    """Solve the d T equations as one dense system, in O(d^3 T^3).

    For small problems of any layout.

    Raises
    ------
    MemoryLimitError
        If the matrix would not fit into memory.
    """
    d, T = system.cross.shape
    matrix_name = f"the matrix of the closed form for {d} features and {T} tasks"
    require(closed_form_bytes(d, T), matrix_name, "Use w_solver='auto'.")
    # Entry (t, i, s, j) couples feature i of task t with feature j of task s.
    matrix = system.rho * np.einsum(
        "ts,ij->tisj", system.task_precision, system.feature_precision
    )
    tasks = np.arange(T)
    matrix[tasks, :, tasks, :] += system.gram + system.eta * np.eye(d)
    right = system.cross.T.reshape(-1)
    vector = scipy.linalg.solve(
        matrix.reshape(d * T, d * T).T,
        right,
        assume_a="pos",
        overwrite_a=True,
    )
    return Solution(system, vector.reshape(T, d).T, 1)


def solve_gradient(
    system: CoupledSystem,
    *,
    start: Array | None = None,
    tol: float = 1e-10,
    max_iter: int = 100_000,
    spectrum: tuple[float, float] | None = None,
) -> Solution:
    """Descend along half the gradient.

    The step is 2 / (largest + smallest eigenvalue). For any layout.

    The iteration converges linearly, by (k - 1) / (k + 1) per step for the condition
    number k. (The paper's step belongs to half the gradient; with the full gradient it
    diverges.)

    Parameters
    ----------
    system : CoupledSystem
    start : ndarray of shape (d, T), optional
        Default zeros.
    tol : float, default 1e-10
        Relative residual to stop at.
    max_iter : int, default 100000
    spectrum : (float, float), optional
        Bounds of the eigenvalues; default: `system.spectrum`, from the actual S1 and
        S2. The paper has ``box_spectrum``, which knows only the box that contains them.
    """
    low, high = system.spectrum if spectrum is None else spectrum
    step = 2.0 / (low + high)
    if start is None:
        W = np.zeros_like(system.cross)
    else:
        W = start.copy()
    for it in range(max_iter + 1):
        R = system.residual(W)
        if system.relative(R) <= tol or it == max_iter:
            break
        W += step * R
    return Solution(system, W, it)


def box_spectrum(
    system: CoupledSystem,
    lower: float,
    upper: float,
) -> tuple[float, float]:
    """Return the paper's bounds of the eigenvalues.

    They are the eigenvalues of the Gram matrices + eta + rho {lower, upper}^2.
    """
    values = np.linalg.eigvalsh(system.gram)
    smallest = max(float(values.min()), 0.0)
    largest = float(values.max())
    low = smallest + system.eta + system.rho * lower**2
    high = largest + system.eta + system.rho * upper**2
    return low, high


def solve_cg(
    system: CoupledSystem,
    *,
    start: Array | None = None,
    tol: float = 1e-10,
    max_iter: int = 10_000,
) -> Solution:
    """Solve by conjugate gradients. Any layout.

    With one Gram matrix per task they are preconditioned by the exact solver of the
    system with their mean. With one for all tasks that would be the solution, so the
    plain iteration is used.

    Parameters
    ----------
    system : CoupledSystem
    start : ndarray of shape (d, T), optional
        Default zeros.
    tol : float, default 1e-10
        Relative residual to stop at.
    max_iter : int, default 10000
    """
    shape = system.cross.shape

    def on_vectors(function: Callable[[Array], Array]) -> LinearOperator:
        size = system.cross.size
        return LinearOperator(
            (size, size),
            matvec=lambda v: function(v.reshape(shape)).ravel(),
            dtype=np.float64,
        )

    inverse = None
    if not system.shared:
        mean_gram = system.gram.mean(axis=0)
        inverse = on_vectors(_inverse(system, mean_gram))
    first = None
    if start is not None:
        first = start.ravel()
    # SciPy tells the number of steps to a callback only.
    steps: list[None] = []
    W, _ = cg(
        on_vectors(system.apply),
        system.cross.ravel(),
        first,
        rtol=tol,
        maxiter=max_iter,
        M=inverse,
        callback=lambda _: steps.append(None),
    )
    return Solution(system, W.reshape(shape), len(steps))


def solve_sylvester(system: CoupledSystem) -> Solution:
    """Solve a Sylvester equation by the algorithm of Bartels and Stewart.

    It is S1^{-1}(G + eta I) W + W (rho S2) = S1^{-1} C, for a shared design only.

    Raises
    ------
    ValueError
        If the tasks have different Gram matrices.
    """
    _require_shared(system, "sylvester")
    shifted = system.gram + system.eta * np.eye(len(system.gram))
    factor = scipy.linalg.cho_factor(system.feature_precision)
    left = scipy.linalg.cho_solve(factor, shifted)
    right = scipy.linalg.cho_solve(factor, system.cross)
    scaled_precision = system.rho * system.task_precision
    W = scipy.linalg.solve_sylvester(left, scaled_precision, right)
    return Solution(system, W, 1)


def solve_eigen(system: CoupledSystem) -> Solution:
    """Solve by diagonalizing one side and tridiagonalizing the other.

    Both are symmetric. For a shared design only.

    With S1 = L L', M = L^{-1} (G + eta I) L^{-T} and S2 = Q diag(b) Q', the columns of
    Z = L' W Q solve (M + rho b_j I) z_j = (L^{-1} C Q)_j, for which a tridiagonal form
    of M is enough. Of M and S2 the smaller one is diagonalized (S2 where
    `task_spectrum` has done it already), so that no eigenvectors of the larger one are
    needed.

    Raises
    ------
    ValueError
        If the tasks have different Gram matrices.
    """
    _require_shared(system, "eigen")
    inverse = _inverse(system, system.gram)
    return Solution(system, inverse(system.cross), 1)


#: Names that estimators accept, "auto" aside; direct ones take no start.
ITERATIVE: dict[str, Callable[..., Solution]] = {
    "gradient": solve_gradient,
    "cg": solve_cg,
}
DIRECT: dict[str, Callable[[CoupledSystem], Solution]] = {
    "closed": solve_closed,
    "sylvester": solve_sylvester,
    "eigen": solve_eigen,
}


def solve_w(
    system: CoupledSystem,
    method: str = "auto",
    *,
    start: Array | None = None,
    tol: float = 1e-10,
    max_iter: int = 10_000,
) -> Solution:
    """Solve a coupled system by name.

    Parameters
    ----------
    system : CoupledSystem
    method : {"auto", "eigen", "cg", "gradient", "sylvester", "closed"}, default "auto"
        "auto" is "eigen" for a shared design, else "cg". "eigen" and "sylvester" need a
        shared design.
    start : ndarray of shape (d, T), optional
    tol : float, default 1e-10
        Relative residual at which the iterative ones stop.
    max_iter : int, default 10000

    Raises
    ------
    ValueError
        If the method is unknown, needs a shared design that is not there, or too much
        memory.
    """
    if method == "auto":
        method = "eigen" if system.shared else "cg"
    if method in DIRECT:
        return DIRECT[method](system)
    if method not in ITERATIVE:
        raise ValueError(
            f"method must be one of {['auto', *DIRECT, *ITERATIVE]}, got {method!r}"
        )
    return ITERATIVE[method](system, start=start, tol=tol, max_iter=max_iter)


def _require_shared(system: CoupledSystem, method: str) -> None:
    if not system.shared:
        raise ValueError(
            f"w_solver={method!r} needs one design for all tasks, without missing "
            "targets and with at most one weight per row: with a Gram matrix per task "
            "there is no Sylvester equation; use 'auto', 'cg' or 'gradient'"
        )


def _inverse(system: CoupledSystem, gram: Array) -> Callable[[Array], Array]:
    """Return the inverse of W -> (gram + eta I) W + rho S1 W S2."""
    d, n_tasks = system.cross.shape
    shifted = np.array(gram)
    # The diagonal, in place. The transpose of a symmetric matrix is in Fortran order.
    shifted.flat[:: d + 1] += system.eta
    L, M = reduce_pencil(shifted.T, system.feature_precision)
    # The smaller side is diagonalized, or the one that has been already.
    if system.task_spectrum is None and n_tasks >= d:
        # M = U diag(a) U': each row of U'L'W has a separate system with the matrix
        # rho S2 + a_i I.
        a, U = eigh(M, lower=True, driver="evd", overwrite_a=True, check_finite=False)
        # V = L^-T U turns C into U'L^-1 C, and the solutions of the rows into W.
        V = dtrsm(1.0, L, U, lower=1, trans_a=1, overwrite_b=1)
        # A copy: the reduction overwrites its argument.
        precision = np.array(system.task_precision.T, order="F")
        right = Tridiagonal.reduce(precision)

        def solve_rows(R: Array) -> Array:
            rows = np.ascontiguousarray(R.T @ V)
            return V @ right.solve(a, rows, factor=system.rho).T

        return solve_rows
    # S2 = Q diag(b) Q': each column of L'W Q has a separate system with the matrix
    # M + rho b_j I.
    left = Tridiagonal.reduce(M)
    b, Q = system.task_spectrum or eigh(
        system.task_precision.T,
        driver="evd",
        check_finite=False,
    )

    def solve_columns(R: Array) -> Array:
        # Z = L^-1 R Q, one system per column of Z, and W = L^-T Z Q'. All matrices are
        # transposed: they are then in Fortran order, and L stands on the right.
        columns = dtrsm(1.0, L, (R @ Q).T, side=1, lower=1, trans_a=1, overwrite_b=1)
        left.solve(system.rho * b, columns.T)
        columns = dtrsm(1.0, L, columns, side=1, lower=1, overwrite_b=1)
        return columns.T @ Q.T

    return solve_columns


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """A symmetric matrix P T P' of size n.

    Attributes
    ----------
    diagonal : ndarray of shape (n,)
    off : ndarray of shape (n - 1,)
        The entries of T.
    reflectors : ndarray of shape (n - 1, n - 1)
        Fortran order; LAPACK's elementary reflectors of P, which leaves the first
        coordinate as it is.
    scales : ndarray of shape (n - 1,)
        Their factors.
    """

    diagonal: Array
    off: Array
    reflectors: Array
    scales: Array

    @classmethod
    def reduce(cls, A: Array) -> Tridiagonal:
        """Reduce a symmetric matrix in Fortran order.

        It is overwritten; only its lower triangle counts.
        """
        workspace, _ = dsytrd_lwork(len(A), lower=1)
        packed, diagonal, off, scales, _ = dsytrd(
            A,
            lower=1,
            lwork=int(workspace),
            overwrite_a=1,
        )
        # The reflectors lie below the entries of T.
        reflectors = np.asfortranarray(packed[1:, :-1])
        return cls(diagonal, off, reflectors, scales)

    def solve(self, shifts: Array, R: Array, *, factor: float = 1.0) -> Array:
        """Return X with (factor A + shifts_j I) x_j = r_j.

        The matrix must be positive definite for every column.

        Parameters
        ----------
        shifts : ndarray of shape (k,)
        R : ndarray of shape (n, k)
            C order; overwritten by the solution.
        factor : float, default 1.0
        """
        self._rotate(R, "N")
        off = factor * self.off
        # L D L' factors of all columns.
        pivots = (factor * self.diagonal)[:, np.newaxis] + shifts
        work = np.empty_like(shifts)
        # Small systems spend their time on such lookups.
        multiply = np.multiply
        subtract = np.subtract
        divide = np.divide
        # D: d_i = t_i + shift - off_{i-1}^2 / d_{i-1}, for all shifts at once.
        pivot = pivots[0]
        squares = (off * off).tolist()
        for square, below in zip(squares, pivots[1:], strict=True):
            divide(square, pivot, work)
            subtract(below, work, below)
            pivot = below
        # L is 1 on its diagonal and `ratios` below it: forward, then backward
        # substitution.
        ratios = off[:, np.newaxis] / pivots[:-1]
        row = R[0]
        for ratio, below in zip(ratios, R[1:], strict=True):
            multiply(ratio, row, work)
            subtract(below, work, below)
            row = below
        R /= pivots
        row = R[-1]
        for ratio, above in zip(ratios[::-1], R[-2::-1], strict=True):
            multiply(ratio, row, work)
            subtract(above, work, above)
            row = above
        self._rotate(R, "T")
        return R

    def _rotate(self, R: Array, trans: str) -> None:
        """Replace R by P'R ("N") or P R ("T").

        R is in Fortran order: its transpose is multiplied from the right.
        """
        if len(self.diagonal) < 2:
            return
        rows = R.T[:, 1:]
        # For LAPACK's largest block.
        workspace = 64 * (R.shape[1] + 65)
        product, _, _ = dormqr(
            "R",
            trans,
            self.reflectors,
            self.scales,
            rows,
            workspace,
            overwrite_c=1,
        )
        # LAPACK worked on a copy if R was not contiguous.
        if not np.shares_memory(product, rows):
            rows[...] = product


def reduce_pencil(A: Array, B: Array) -> tuple[Array, Array]:
    """Return L and M = L^{-1} A L^{-T} (lower triangles, Fortran order) with B = L L'.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric, Fortran order; overwritten by M.
    B : ndarray of shape (n, n)
        Positive definite; left as it is.

    Raises
    ------
    scipy.linalg.LinAlgError
        If B is not positive definite.
    """
    L, info = dpotrf(B.T, lower=1, clean=0)
    if info != 0:
        raise LinAlgError(
            f"the matrix is not positive definite: pivot {info} of its Cholesky factor "
            "vanishes"
        )
    M, _ = dsygst(A, L, lower=1, overwrite_a=1)
    return L, M
