"""The squared loss as a quadratic form of the coefficients.

`Gram` keeps X'X and X'y, whose products cost d^2 instead of n d per task; `rotation`
has the form in eigenbases. Both are condensed from the rows, and lose small
contributions in the rounding of large ones. `row_primal` and `row_dual` certify by the
rows themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import eigsh

from mtlrun.problem import memory
from mtlrun.problem.losses import SquaredLoss, is_dust, is_graded
from mtlrun.problem.objective import (
    Centred,
    centre,
    dual_value,
    feasible_scale,
    gap_scale,
    null_objective,
    primal_value,
    relative_gap,
)
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import Array, TaskData, quotient

# Eigenvalues of a Gram matrix below this, relative to the largest and times its size,
# are rounding.
ROUNDING = 4.0 * np.finfo(np.float64).eps
# Making and using Gram matrices takes this many times their memory.
GRAM_COPIES = 3
# Gradients of the form and of the rows that differ by this part of a tolerance,
# relative to their size, are equal.
_AGREEMENT = 1e-2
# Values of the form are off by about this many eps of the energy.
_CANCELLED = 1e3
# Where the largest eigenvalue is that many times the least, it matters what is lost in
# its rounding.
CONDITION = 1e10
# A dense product runs about this many times as fast per multiplication as one with a
# sparse matrix.
_DENSE_ADVANTAGE = 50
# Up to this size the largest eigenvalue of a Gram matrix is computed exactly.
EXACT_SIZE = 2000


class Quadratic(ABC):
    """The squared loss ``1/2 sum_t ||y_t - X_t w_t||^2`` as a quadratic form.

    Rows are weighted. Tasks are centered where intercepts are fitted.

    Coordinates of the coefficients are (r, T) arrays: the (d, T) coefficients
    themselves for a `Gram`.

    Attributes
    ----------
    data : TaskData
    fit_intercept : bool
        Whether an unpenalized intercept is fitted, by centering.
    operator : TaskOperator
        Products with the (centered) designs.
    cross : ndarray of shape (r, T)
        X'y in coordinates.
    energy, explained : ndarray of shape (T,)
        Squared norms of the (centered, weighted) targets and of their projections on
        the range of X.
    """

    cross: Array

    def __init__(self, data: TaskData, fit_intercept: bool = False) -> None:
        self.fit_intercept = fit_intercept
        self._use(data, centre(data) if fit_intercept else None)

    def _use(self, data: TaskData, centred: Centred | None) -> None:
        self.data = data
        self._centred = centred
        if centred is None:
            self._moved = data
            self.operator = TaskOperator(data)
        else:
            self._moved = centred.data
            self.operator = centred.operator

    @cached_property
    def energy(self) -> Array:
        return self.data.sum_by_task(self._moved.targets * self._weighted_targets)

    @cached_property
    def null(self) -> float:
        """Value of the null model, see `null_objective`."""
        if self._centred is not None:
            return 0.5 * float(self.energy.sum())
        return null_objective(self.data, SquaredLoss())

    @property
    @abstractmethod
    def explained(self) -> Array:
        """Squared norms (T,) of the projections of the targets on the range of X."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """Largest eigenvalue of the Hessian."""

    @property
    def unexplained(self) -> float:
        """Sum of squares that no coefficients can fit, ||Y_perp||^2."""
        return float(np.sum(self.energy - self.explained))

    @abstractmethod
    def image(self, Q: Array) -> Array:
        """Return X'X w_t of coordinates Q, in coordinates.

        The gradient is ``image(Q) - cross``.
        """

    def lift(self, Q: Array) -> Array:
        """Return the coefficients (d, T) of coordinates Q."""
        return Q

    def value(self, Q: Array, image: Array | None = None) -> float:
        """Return the loss at coordinates Q."""
        linear, square = self._moments(Q, image)
        return max(0.0, 0.5 * float(np.sum(self.energy - 2.0 * linear + square)))

    def dual_fit(
        self,
        Q: Array,
        scale: Array | float,
        image: Array | None = None,
    ) -> float:
        """Return minus the conjugate of the loss at the scaled residual of Q.

        Only the part of the residual in the range of X must be scaled, task by task, to
        become feasible. The other part is not constrained.
        """
        linear, square = self._moments(Q, image)
        residual_squares = self.explained - 2.0 * linear + square
        value = scale * (self.explained - linear) - 0.5 * scale**2 * residual_squares
        return float(value.sum()) + 0.5 * self.unexplained

    def dual(
        self,
        Q: Array,
        penalties: Sequence[Penalty],
        scale: float = 1.0,
        *,
        image: Array | None = None,
        lifted: bool = False,
    ) -> float:
        """Return a dual value of `scale` times this loss plus penalties.

        The dual point is made from the residual of Q.

        Parameters
        ----------
        Q : ndarray of shape (r, T)
        penalties : sequence of Penalty
        scale : float, default 1.0
        image : ndarray of shape (r, T), optional
            Image of Q, if it is known.
        lifted : bool, default False
            Whether the penalties are on coefficients, not on coordinates.
        """
        if any(p.is_zero for p in penalties):
            return 0.5 * scale * self.unexplained
        if image is None:
            image = self.image(Q)
        Z = scale * (self.cross - image)
        if lifted:
            Z = self.lift(Z)
        c = feasible_scale(Z, penalties)
        conjugates = sum(p.conjugate(Z * c) for p in penalties if not p.is_norm)
        return max(0.0, scale * self.dual_fit(Q, c, image) - conjugates)

    @property
    @abstractmethod
    def doubtful(self) -> bool:
        """Whether directions of X may be lost in the rounding of the form.

        The part of the targets that they explain is then lost, too.
        """

    @property
    def graded(self) -> bool:
        """Whether the form allows for columns that differ much in scale.

        Its dual values are then computed from the rows.
        """
        return False

    def agrees(self, W: Array, tol: float) -> bool:
        """Whether the gradient at W (d, T) is accurate enough for the tolerance."""
        slope = self.slope(W)
        residual = self._moved.targets - self.operator.forward(W)
        row_slope = self.operator.adjoint(self.data.weighted(residual))
        distance = np.linalg.norm(row_slope - slope)
        return bool(distance <= _AGREEMENT * tol * np.linalg.norm(slope))

    @abstractmethod
    def slope(self, W: Array) -> Array:
        """Return minus the gradient of the form at W (d, T)."""

    def row_primal(
        self,
        parts: Sequence[Array] | Array,
        penalties: Sequence[Penalty],
        scale: float = 1.0,
    ) -> float:
        """Return `scale` times this loss + penalties at parts (d, T), from the rows."""
        return primal_value(
            self._moved,
            SquaredLoss(scale),
            penalties,
            parts,
            operator=self.operator,
        )

    def row_dual(
        self,
        W: Array,
        penalties: Sequence[Penalty],
        scale: float,
        *,
        sharp: bool = False,
    ) -> float:
        """Return the dual value at the feasible residual of W (d, T), from the rows.

        It is valid even if the form is inaccurate. With `sharp`, only the part that
        coefficients can fit is scaled, as in `dual_fit`, which takes two more products.
        """
        data = self._moved
        operator = self.operator
        loss = SquaredLoss(scale)
        theta = -loss.gradient(
            operator.forward(W), data.targets, data.effective_weights()
        )
        if sharp:
            Z = operator.adjoint(theta)
            fit = data.weighted(operator.forward(self.solve(Z)))
            excess = 1.0 - feasible_scale(Z, penalties)
            theta = theta - data.spread(excess) * fit
        return dual_value(theta, data, loss, penalties, operator=operator)

    @abstractmethod
    def solve(self, Z: Array) -> Array:
        """Return V (d, T) with X'X v_t = z_t for Z (d, T) in the range of the adjoint.

        It is as accurate as the form.
        """

    def intercept(self, W: Array) -> Array:
        """Return the optimal intercepts (T,) of W (d, T); zeros without intercept."""
        if self._centred is None:
            return np.zeros(self.data.n_tasks)
        return self._centred.intercept(W)

    def _are_graded(self, squares: Array) -> Array:
        """Return whether a Gram matrix loses columns of these squared norms.

        They have the shape (d,), or (T, d) by task.
        """
        # The usual case, at little cost.
        if self._centred is None or not is_graded(squares, squares).any():
            return is_graded(squares, squares)
        return is_graded(
            squares,
            self._before_centring(squares),
            sums=self.operator.shift is not None,
        )

    def are_varying(self, squares: Array) -> Array:
        """Return which columns vary, given their squared norms (T, d).

        Centering leaves only rounding of constant columns.
        """
        if self._centred is None:
            return squares > 0
        return ~is_dust(
            squares,
            self._before_centring(squares),
            sums=self.operator.shift is not None,
        )

    def _before_centring(self, squares: Array) -> Array:
        assert self._centred is not None
        total = self.data.sum_by_task(self.data.full_weights())
        if squares.ndim == 1:
            total = total[0]
        else:
            total = total[:, None]
        return np.asarray(squares + total * np.square(self._centred.x_mean.T))

    def _moments(self, Q: Array, image: Array | None) -> tuple[Array, Array]:
        """Return y'Xw and ||Xw||^2 per task."""
        if image is None:
            image = self.image(Q)
        return np.einsum("ij,ij->j", self.cross, Q), np.einsum("ij,ij->j", Q, image)

    @property
    def _weighted_targets(self) -> Array:
        return self.data.weighted(self._moved.targets)


def keeps_digits(energy: float, primal: float, tol: float, null: float) -> bool:
    """Return whether values are accurate enough for a relative gap of `tol`.

    The values are differences of numbers of the size of the energy; `null` is the null
    objective.
    """
    rounding = _CANCELLED * float(np.finfo(np.float64).eps) * energy
    return rounding <= tol * gap_scale(primal, 0.0, null)


class Gram(Quadratic):
    """Gram matrices: one (d, d) for a shared design, else one per task, (T, d, d).

    Parameters
    ----------
    data : TaskData
    fit_intercept : bool, default False
    sharp : bool, default True
        Do not scale the part of dual points that no coefficients can fit. This takes
        the eigenvectors of the Gram matrices (once). Without it, dual values are valid
        but lower.

    Raises
    ------
    MemoryLimitError
        If the matrices would not fit into memory.
    """

    def __init__(
        self,
        data: TaskData,
        fit_intercept: bool = False,
        *,
        sharp: bool = True,
    ) -> None:
        sizes = f"{data.n_features} features and {data.n_tasks} tasks"
        memory.require(
            GRAM_COPIES * gram_bytes(data),
            f"Gram matrices of {sizes}",
            "Use fewer features.",
        )
        super().__init__(data, fit_intercept)
        self.sharp = sharp
        self.gram = self.operator.gram(data.weights)
        self.cross = self.operator.adjoint(self._weighted_targets)

    @cached_property
    def largest(self) -> float:
        if self.gram.ndim == 3 or "_eigen" in self.__dict__:
            return float(self._eigen[0].max())
        last = len(self.gram) - 1
        if not self.gram.any():
            return 0.0
        if last < EXACT_SIZE:
            top = scipy.linalg.eigvalsh(self.gram, subset_by_index=[last, last])[0]
        else:  # Lanczos comes from below
            top = eigsh(
                self.gram,
                k=1,
                v0=np.ones(last + 1),
                return_eigenvectors=False,
            )[0] * (1.0 + 1e-6)
        return max(float(top), 0.0)

    @cached_property
    def explained(self) -> Array:
        """All of the energy if not sharp."""
        if not self.sharp:
            return self.energy
        values, vectors, cross = *self._eigen, self.cross.T
        if self._loses_columns:
            # The range of X does not change with the scale of its columns.
            values, vectors = np.linalg.eigh(
                self.gram * self._scales[..., None, :] * self._scales[..., None]
            )
            cross = cross * self._scales
        inverse = _inverse(values)
        if self.gram.ndim == 2:
            part = inverse @ np.square(vectors.T @ cross.T)
        else:
            part = np.sum(
                inverse * np.square(np.matmul(cross[:, None, :], vectors)[:, 0]), axis=1
            )
        return np.minimum(part, self.energy)

    def slope(self, W: Array) -> Array:
        return self.cross - self.image(W)

    def solve(self, Z: Array) -> Array:
        if not self.sharp:  # nothing is known of the range of X
            return np.zeros_like(Z)
        values, vectors = self._eigen
        inverse = _inverse(values)
        if self.gram.ndim == 2:
            return np.asarray(vectors @ (inverse[:, None] * (vectors.T @ Z)))
        q = np.matmul(Z.T[:, None, :], vectors)[:, 0] * inverse
        return np.asarray(np.matmul(vectors, q[:, :, None])[:, :, 0].T)

    @property
    def doubtful(self) -> bool:
        """Whether directions may be lost; True without the eigenvalues of `sharp`."""
        if self._loses_columns or not self.sharp:
            return True
        values = self._eigen[0]
        return bool(np.any(values[..., :1] * CONDITION <= values[..., -1:]))

    @cached_property
    def _loses_columns(self) -> bool:
        """Whether rounding loses small columns of the design."""
        return bool(np.any(self._are_graded(np.einsum("...ii->...i", self.gram))))

    @property
    def _scales(self) -> Array:
        """Inverse norms of the columns, (d,) or (T, d)."""
        squares = np.einsum("...ii->...i", self.gram)
        return 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0))

    def image(self, Q: Array) -> Array:
        return times_gram(self.gram, Q)

    @cached_property
    def _eigen(self) -> tuple[Array, Array]:
        return np.linalg.eigh(self.gram)


def _inverse(values: Array) -> Array:
    """Return inverse eigenvalues, with zeros for eigenvalues within rounding error."""
    limit = ROUNDING * values.shape[-1] * values.max(axis=-1, keepdims=True)
    return quotient(1.0, np.where(values > limit, values, 0.0))


def times_gram(gram: Array, W: Array) -> Array:
    """Multiply the columns of W (d, T) by one Gram matrix, or by one per task."""
    if gram.ndim == 2:
        return gram @ W
    return np.matmul(W.T[:, None, :], gram)[:, 0].T


def gram_bytes(data: TaskData) -> int:
    """Return the size of the matrices of a `Gram`."""
    n_matrices = data.n_tasks
    if data.uniform:
        n_matrices = 1
    return 8 * data.n_features**2 * n_matrices


def gram_pays(data: TaskData) -> bool:
    """Whether Gram matrices fit into memory, and products with them are cheaper."""
    d = data.n_features
    T = data.n_tasks
    if not memory.fits(gram_bytes(data)):
        return False
    # All tasks need the rows of a shared design.
    n_uses = 1
    if data.shared:
        n_uses = T
    if data.sparse:
        direct = 2.0 * _DENSE_ADVANTAGE * data.X.nnz * n_uses
        return d * d * T < direct and min(data.sizes.mean(), data.n_rows) >= d
    return d * d * T < 2.0 * d * (data.n_rows * n_uses)


# ------------------------------------------------ is the end of a run true of the rows?

#: A key of `SolverResult.info`: another scale of the data helps, more iterations do
#: not.
BADLY_SCALED = "badly_scaled"
# A gap from the rows has rounding of its own: relative to the tolerance, and absolute.
_SLACK = 1e-2
_FLOATS = 1e-13


def confirm(
    result: SolverResult,
    form: Quadratic,
    penalties: Sequence[Penalty],
    parts: Sequence[Array] | Array,
    *,
    scale: float,
    tol: float,
    at: Callable[[], Array] | None = None,
) -> None:
    """Mark a run as not converged if the gap from the rows is larger than `tol`.

    Nothing is computed where rounding cannot have mattered.

    Parameters
    ----------
    result : SolverResult
        Changed: `converged`, `gap`, `stop_crit`, `message` and `info`.
    form : Quadratic
        The form that the run used in place of the rows.
    penalties : sequence of Penalty
    parts : sequence of ndarray of shape (d, T)
        One per penalty.
    scale : float
        Of the loss.
    tol : float
    at : callable, optional
        Returns the coefficients (d, T) whose residual makes the dual point; default the
        sum of the parts.
    """
    if not result.converged:
        return
    primal = result.objective[-1]
    dual = -np.inf
    if result.gaps:
        _, primal, dual = result.gaps[-1]
    energy = scale * float(form.energy.sum())
    null = scale * form.null
    digits = keeps_digits(energy, primal, tol, null)
    if digits and not form.doubtful and not form.graded:
        return
    if at is None:
        W = np.sum(parts, axis=0)
    else:
        W = at()
    if digits and not form.graded and form.agrees(W, tol):
        return
    if form.graded or not digits:
        primal = form.row_primal(parts, penalties, scale)
    if form.doubtful or not form.graded:
        dual = form.row_dual(W, penalties, scale)
        is_open = relative_gap(primal, dual, null=null) > tol
        if is_open and not any(p.is_zero for p in penalties):
            dual = max(dual, form.row_dual(W, penalties, scale, sharp=True))
    mark_unconverged(result, relative_gap(primal, dual, null=null), tol)


def mark_unconverged(result: SolverResult, gap: float, tol: float) -> None:
    """Note that a run has not converged if the gap computed from the rows says so."""
    if gap <= (1.0 + _SLACK) * tol + _FLOATS:
        return
    result.converged = False
    result.gap = gap
    result.stop_crit = gap
    result.message = (
        f"computed from the rows, the relative duality gap is {gap:.1e}: the data are "
        "too badly scaled"
    )
    result.info[BADLY_SCALED] = True
