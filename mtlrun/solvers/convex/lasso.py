"""Squared loss with norms of rows or entries on a shared design.

Coordinate descent solves it, or ADMM where that is faster.

Coordinate descent works on growing sets of features: those in use and those nearest to
entering, as the dual point ranks them; features that the gap proves to be zero are left
out (Ndiaye et al., "Gap safe screening rules for sparsity enforcing penalties", JMLR
2017; Massias, Gramfort and Salmon, "Celer", ICML 2018). The problem of a set is solved
by coordinate descent with Anderson acceleration (Bertrand and Massias, AISTATS 2021),
through its Gram matrix or, where a column has few entries for the size of the set,
through the residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mtlrun.penalties.norms import L1, L21
from mtlrun.problem import memory
from mtlrun.problem.losses import Loss, SquaredLoss, is_dust, is_graded
from mtlrun.problem.objective import (
    NULL_SHARE,
    centre,
    duality_gap,
    gap_scale,
    null_objective,
)
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import keeps_digits, mark_unconverged
from mtlrun.problem.result import (
    Callback,
    SolverResult,
    Tracker,
    start_info,
    start_parts,
)
from mtlrun.problem.rotation import rotation_bytes
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import Array, TaskData
from mtlrun.problem.taskdata import Design as DesignMatrix
from mtlrun.solvers.convex.admm import AdmmState, solve_admm
from mtlrun.solvers.convex.cd import (
    Descent,
    DesignColumns,
    descend,
    descend_residual,
)

#: Features of the first set of a group.
_FIRST = 64
#: Sets and gradients that a run is expected to need. If they cost more than the Gram
#: matrix of all features, that matrix is computed at once, else as soon as they have
#: cost as much.
_SETS = 3
_GRADIENTS = 4
#: Largest number of features for which that matrix is computed: it then takes 1 GB.
_LARGEST = 11_000
#: Sets with this many times more features than a column has entries are solved through
#: residuals.
_WIDE = 4
#: Up to this many features, all are worked on at once.
_SMALL = 128
#: Epochs on a set that are done in any case.
_AT_LEAST = 10
#: A set is solved until its gap is at most `_PROGRESS` times its present gap, or
#: `_BEYOND` times the gap at which the run ends, whichever is larger.
_PROGRESS = 0.1
_BEYOND = 0.3
#: Why a run ends before its gap is small enough.
_NOTHING_MOVES = "no coefficient moves any more: the gap is as small as floats make it"


def cd_applies(data: TaskData, loss: Loss, penalties: Sequence[Penalty]) -> bool:
    """Whether `solve_block_cd` can solve the problem."""
    kinds = [type(p) for p in penalties if not p.is_zero]
    return (
        data.uniform
        and isinstance(loss, SquaredLoss)
        and len(penalties) == 1
        and kinds in ([L1], [L21])
    )


def solve_block_cd(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | Array | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 5000,
    max_work: float = np.inf,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimize squared loss and one penalty by block coordinate descent.

    Rows are weighted if the data have weights::

        scale/2 sum_t ||y_t - X w_t - b_t||^2 + penalty(W)

    Parameters
    ----------
    data : TaskData
        A shared design without missing targets; weights by row.
    loss : SquaredLoss
    penalties : sequence of one Penalty
        `L21` (all tasks at once, row by row) or `L1` (task by task), of positive
        strength.
    start : SolverResult or ndarray of shape (1, d, T), optional
        Warm start; the result of an earlier run on the same data brings what was
        computed from the data too.
    fit_intercept : bool, default False
        Unpenalized intercepts, by centring (implicit for a sparse design).
    tol : float, default 1e-4
        Relative duality gap to stop at.
    max_iter : int, default 5000
        Epochs, over the features of the set at hand.
    max_work : float, optional
        Multiplications in the epochs to stop after, about.
    callback : callable, optional
        Called with (iteration, best primal, best dual) whenever a set has been solved;
        a true answer stops.

    Returns
    -------
    SolverResult
        `info` has ``design``, for warm starts.

    Raises
    ------
    ValueError
        If the problem is another one, or `start` has a wrong shape.
    """
    if not cd_applies(data, loss, penalties):
        raise ValueError(
            "coordinate descent needs the squared loss, one L1 or L21 penalty of "
            "positive strength and a shared design without missing targets or weights "
            "by task; choose another solver"
        )
    rows = isinstance(penalties[0], L21)
    design = start_info(start, "design")
    # The products of a warm start serve again only for the same data.
    if not (
        isinstance(design, Design)
        and design.data is data
        and design.fit_intercept == fit_intercept
    ):
        n_groups = 1 if rows else data.n_tasks
        design = Design(data, fit_intercept, n_groups)
    parts = start_parts(start, 1, (data.n_features, data.n_tasks))
    W = np.zeros((data.n_features, data.n_tasks))
    if parts is not None:
        W[:] = parts[0]
    energy = loss.scale * float(design.energy.sum())
    null = loss.scale * design.null
    tracker = Tracker(tol, max_iter, callback, null=null)
    # The iteration is for a loss of scale 1; the tracker gets objectives scaled back.
    iteration = _LassoIteration(
        design,
        W,
        alpha=penalties[0].alpha / loss.scale,
        scale=loss.scale,
        rows=rows,
        max_work=max_work,
    )
    iteration.until(tracker)
    result = tracker.result(
        tracker.best[np.newaxis],
        design.y_mean - design.x_mean @ tracker.best,
        design=design,
    )
    # Sums of products lose the digits of a small objective: confirm it by the rows.
    if result.converged and not keeps_digits(energy, tracker.gap.primal, tol, null):
        gap = design.row_gap(loss, penalties, tracker.best)
        mark_unconverged(result, gap, tol)
    return result


class ColumnProducts(NamedTuple):
    """Products of the columns of a shared design A and of targets B.

    Rows of both are centered where intercepts are fitted, and multiplied by the root
    of their weights.

    Attributes
    ----------
    gram : ndarray of shape (d, d)
        A'A.
    cross : ndarray of shape (T, d)
        B'A.
    energy : ndarray of shape (T,)
        Squared norms of the columns of B.
    null : float
        The null objective of a loss of scale 1.
    x_mean, y_mean : ndarray of shape (d,) and (T,)
        Means subtracted from the rows.
    """

    gram: Array
    cross: Array
    energy: Array
    null: float
    x_mean: Array
    y_mean: Array

    @classmethod
    def of_statistics(cls, statistics: TaskStatistics) -> ColumnProducts | None:
        """Return centered products; None for tasks with different rows or weights, and
        for columns whose scales differ so much that products lose digits.
        """
        s = statistics
        if not s.shared or len(s.weight) > 1:
            return None
        x_mean = s.x[0] / s.weight
        y_mean = s.y / s.weight
        gram = s.xx[0] - np.outer(s.x[0], x_mean)
        cross = s.xy.T - np.outer(y_mean, s.x[0])
        squares = np.diag(gram)
        totals = squares + s.weight * np.square(x_mean)
        if is_graded(squares, totals, sums=True):
            return None
        constant = is_dust(squares, totals, sums=True)
        if constant.any():
            # Centering leaves only rounding.
            gram[constant] = 0.0
            gram[:, constant] = 0.0
            cross[:, constant] = 0.0
        energy = s.yy - s.y * y_mean
        return cls(
            gram,
            cross,
            energy,
            0.5 * float(energy.sum()),
            s.x_shift + x_mean,
            s.y_shift + y_mean,
        )

    def descend(
        self,
        alphas: Sequence[float] | Array,
        *,
        rows: bool,
        tol: float,
        max_epochs: int,
        start: Array | None = None,
    ) -> Descent:
        """Solve the problem of all features and tasks for each strength.

        Parameters
        ----------
        alphas, max_epochs, start
            As of `descend`, for a loss of scale 1.
        rows : bool
            Whether the penalty is on rows, not on entries.
        tol : float
            Relative duality gap to stop at.
        """
        # With half of both, the gaps of single tasks add up to at most what is allowed.
        part = tol if rows else 0.5 * tol
        n_groups = 1 if rows else len(self.energy)
        return descend(
            self.gram,
            self.cross,
            self.energy,
            alphas,
            absolute=part * NULL_SHARE * self.null / n_groups,
            relative=part,
            max_epochs=max_epochs,
            by_task=not rows,
            start=start,
        )


class LassoPath(NamedTuple):
    """Certified solutions for some strengths.

    Attributes
    ----------
    coef : ndarray of shape (n_alphas, T, d)
    intercept : ndarray of shape (n_alphas, T)
    gap : ndarray of shape (n_alphas,)
        Relative duality gaps.
    n_iter : ndarray of shape (n_alphas,)
    """

    coef: Array
    intercept: Array
    gap: Array
    n_iter: Array


def solve_lasso_path(
    data: TaskData | TaskStatistics,
    loss: Loss,
    penalty: Penalty,
    alphas: Array,
    *,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 5000,
) -> LassoPath | None:
    """Solve a problem of few features for many strengths, in one compiled loop.

    Parameters
    ----------
    data : TaskData or TaskStatistics
        Rows, or sums over them for a model with intercepts.
    loss, fit_intercept, tol, max_iter
        As of `solve_block_cd`; `max_iter` is for each strength.
    penalty : Penalty
        An `L1` or `L21`. Its strength is multiplied by each of `alphas`.
    alphas : ndarray of shape (n_alphas,)
        Best in decreasing order: each strength starts from the solution of the one
        before.

    Returns
    -------
    LassoPath or None
        None where strengths are better solved one by one: for many features, if one of
        them takes more epochs than it would take ADMM to solve it, or if the products
        of the columns lose digits.
    """
    if data.n_features > _SMALL or type(penalty) not in (L1, L21):
        return None
    rows = isinstance(penalty, L21)
    products = None
    if isinstance(data, TaskStatistics):
        if fit_intercept:
            products = ColumnProducts.of_statistics(data)
    elif cd_applies(data, loss, [penalty]):
        products = Design(data, fit_intercept, 1 if rows else data.n_tasks).products
    if products is None or not products.null > 0:
        return None
    T, d = products.cross.shape
    max_epochs = int(_work_of_admm(d, d, T) / (d * d * T))
    descent = products.descend(
        penalty.alpha * alphas / loss.scale,
        rows=rows,
        tol=tol,
        max_epochs=min(max_iter, max_epochs),
    )
    # Relative gaps do not depend on the scale of the loss.
    sizes = np.maximum(descent.primal, NULL_SHARE * products.null)
    gap = np.maximum(descent.primal - np.maximum(descent.dual, 0.0), 0.0) / sizes
    energy = float(products.energy.sum())
    if not (gap <= tol).all() or not keeps_digits(energy, sizes.min(), tol, 0.0):
        return None
    intercept = products.y_mean - descent.coef @ products.x_mean
    return LassoPath(descent.coef, intercept, gap, descent.epochs)


class Design:
    """A shared design A (centred, rows times the root of their weights) with targets B.

    Attributes
    ----------
    data : TaskData
    fit_intercept : bool
    x_mean, y_mean : ndarray of shape (d,) and (T,)
        Means subtracted from the rows; zeros without intercepts.
    norms : ndarray of shape (d,)
        Of the columns of A.
    energy : ndarray of shape (T,)
        Squared norms of the columns of B.
    """

    def __init__(self, data: TaskData, fit_intercept: bool, n_groups: int) -> None:
        self.data = data
        self.fit_intercept = fit_intercept
        self._centred = centre(data) if fit_intercept else None
        moved = data
        self.x_mean = np.zeros(data.n_features)
        self.y_mean = np.zeros(data.n_tasks)
        if self._centred is not None:
            moved = self._centred.data
            self.x_mean = self._centred.x_mean
            self.y_mean = self._centred.y_mean
        self._ones = np.ones(data.n_rows)
        self._B = moved.targets
        self._X: Any = moved.X
        if data.weights is not None:
            self._ones = np.sqrt(data.weights)
            self._B = self._ones[:, None] * moved.targets
            if data.sparse:
                self._X = sp.csr_array(sp.diags_array(self._ones) @ moved.X)
            else:
                self._X = self._ones[:, None] * moved.X
        # A = X - ones means' where the means are not subtracted from X itself; ones are
        # the roots of the weights.
        self._means = None
        if self._centred is not None and self._centred.operator.shift is not None:
            self._means = self.x_mean
        self.energy = np.einsum("ij,ij->j", self._B, self._B)
        self._cross = self._adjoint(self._B)
        self._full: Array | None = None
        self._work = 0.0
        work_of_sets = _SETS * n_groups * _FIRST**2
        work_of_gradients = _GRADIENTS * data.n_features * data.n_tasks
        self._spend(work_of_sets + work_of_gradients)
        if self._full is None:
            # Expected work does not count; work that is done will.
            self._work = 0.0
            if sp.issparse(self._X):
                self._X = sp.csc_array(self._X)
        self._n_taken = 0
        if self._full is not None:
            squares = np.diag(self._full)
        elif not sp.issparse(self._X):
            squares = np.einsum("ij,ij->j", self._X, self._X)
        else:
            squares = self._X.power(2).sum(axis=0)
            if self._means is not None:
                sums = self._X.T @ self._ones
                total = self._ones @ self._ones
                # The diagonal of the matrix in `_gram`.
                squares = squares + self._means * (total * self._means - 2.0 * sums)
        self.norms = np.sqrt(np.maximum(squares, 0.0))

    def solve(
        self,
        chosen: Array,
        tasks: slice,
        W: Array,
        Q: Array,
        square: float,
        alpha: float,
        target: float,
        max_epochs: int,
        max_work: float,
    ) -> tuple[int, float]:
        """Solve the problem of some features and tasks.

        Parameters
        ----------
        chosen : ndarray of shape (k,)
        tasks : slice
        W : ndarray of shape (d, T)
            All coefficients; those chosen change in place.
        Q : ndarray of shape (d, T)
            A'(B - AW).
        square : float
            ||B - AW||^2 of these tasks.
        alpha, target, max_epochs
            As of `descend`.
        max_work : float
            Multiplications to stop after.

        Returns
        -------
        (int, float)
            Epochs, and about how many multiplications they took.
        """
        part = np.ascontiguousarray(W[chosen, tasks])
        # Whether the residual is cheaper than the Gram matrix of a set of features.
        residuals = self._full is None and len(chosen) > min(
            _WIDE * self._entries, _LARGEST
        )
        # Multiplications to visit one coefficient.
        width = self._entries if residuals else len(chosen)
        work_per_epoch = max(1.0, width * part.size)
        affordable = max(_AT_LEAST, max_work / work_per_epoch)
        max_epochs = int(min(max_epochs, affordable))
        if residuals:
            F = self._residual(W, tasks)
            X = self._take(chosen)
            # The layouts of `descend_residual`: by row only for several tasks on
            # compressed columns.
            is_by_row = sp.issparse(X) and F.shape[1] > 1
            if not is_by_row:
                F = np.ascontiguousarray(F.T)
            epochs = descend_residual(
                self._columns(chosen, X),
                X,
                part,
                F,
                alpha,
                target,
                max_epochs,
            )
        else:
            if self._full is None:
                self._spend(len(chosen) ** 2)
            if self._full is None:
                G = self._gram(chosen)
            elif len(chosen) == len(self._full):
                G = self._full
            else:
                G = self._full[np.ix_(chosen, chosen)]
            gradient = Q[chosen, tasks]
            used = np.flatnonzero(part.any(axis=1))
            cross = gradient + G[:, used] @ part[used]
            # |B|^2 = |R|^2 + <W, Q> + <W, c> for the residual R = B - A W.
            energy = square + np.vdot(part, gradient + cross)
            descent = descend(
                G,
                cross.T,
                np.atleast_1d(energy),
                [alpha],
                absolute=target,
                max_epochs=max_epochs,
                start=part.T,
            )
            epochs = int(descent.epochs[0])
            part = descent.coef[0].T
        W[chosen, tasks] = part
        # Coefficients that stay zero cost next to nothing.
        return epochs, float(epochs) * np.count_nonzero(part) * width

    @property
    def complete(self) -> bool:
        """Whether the Gram matrix of all features is there."""
        return self._full is not None

    @cached_property
    def null(self) -> float:
        """The null objective of a loss of scale 1."""
        if self._centred is None:
            return null_objective(self.data, SquaredLoss())
        return 0.5 * float(self.energy.sum())

    @property
    def products(self) -> ColumnProducts | None:
        """Products of all features; None while the Gram matrix is missing."""
        if self._full is None:
            return None
        return ColumnProducts(
            self._full,
            self._cross.T,
            self.energy,
            self.null,
            self.x_mean,
            self.y_mean,
        )

    def gradient(self, W: Array) -> tuple[Array, Array, Array]:
        """Return A'R (d, T), and by task ||R||^2 and <B, R>, for R = B - AW."""
        if self._full is not None:
            used = np.flatnonzero(W.any(axis=1))
            used_W = W[used]
            Z = self._cross - self._full[:, used] @ used_W
            # <B, R> = ||B||^2 - <A W, B> and ||R||^2 = <B, R> - <A W, R>.
            along = self.energy - np.einsum("ij,ij->j", used_W, self._cross[used])
            square = along - np.einsum("ij,ij->j", used_W, Z[used])
            return Z, np.maximum(square, 0.0), along
        R = self._residual(W, slice(None))
        self._spend(self.data.n_features * W.shape[1])
        square = np.einsum("ij,ij->j", R, R)
        along = np.einsum("ij,ij->j", self._B, R)
        return self._adjoint(R), square, along

    def row_gap(self, loss: Loss, penalties: Sequence[Penalty], W: Array) -> float:
        """Return the relative duality gap, computed from the rows."""
        data = self.data
        operator = None
        if self._centred is not None:
            data = self._centred.data
            operator = self._centred.operator
        gap = duality_gap(data, loss, penalties, [W], operator=operator)
        return gap.relative

    @property
    def _entries(self) -> float:
        """Mean number of entries of a column."""
        n, d = self._X.shape
        if sp.issparse(self._X):
            return self._X.nnz / d
        return n

    def _spend(self, work: float) -> None:
        """Count products of columns.

        Once they would have paid for it, compute the complete Gram matrix.
        """
        self._work += work
        d = self.data.n_features
        if self._full is None and self._work > d**2 and d <= _LARGEST:
            self._full = self._gram(slice(None))

    def _residual(self, W: Array, tasks: slice) -> Array:
        """Return B - A W of some tasks, A = X - ones means'."""
        W = W[:, tasks]
        used = np.flatnonzero(W.any(axis=1))
        if len(used) == 0:
            return self._B[:, tasks].copy()
        R = self._take(used) @ W[used]
        if self._means is not None:
            R -= np.outer(self._ones, self._means[used] @ W[used])
        return self._B[:, tasks] - R

    def _columns(self, chosen: Array, X: DesignMatrix) -> DesignColumns:
        if self._means is None:
            means = np.zeros(len(chosen))
        else:
            means = self._means[chosen]
        dense = np.empty((0, 0))
        values = np.empty(0)
        rows = np.empty(0, dtype=np.int32)
        indptr = np.empty(0, dtype=np.int64)
        if sp.issparse(X):
            values = X.data
            rows = X.indices.astype(np.int32, copy=False)
            indptr = X.indptr.astype(np.int64)
        else:
            dense = np.ascontiguousarray(X.T)
        total = float(self._ones @ self._ones)
        squares = self.norms[chosen] ** 2
        return DesignColumns(dense, values, rows, indptr, means, total, squares)

    def _adjoint(self, R: Array) -> Array:
        """Return A'R."""
        Z = self._X.T @ R
        if self._means is None:
            return Z
        return Z - np.outer(self._means, self._ones @ R)

    def _take(self, columns: Array | slice) -> DesignMatrix:
        """Return columns of X; a dense X is copied by column once that pays."""
        if isinstance(columns, np.ndarray) and not sp.issparse(self._X):
            self._n_taken += len(columns)
            if self._n_taken > self._X.shape[1] and not self._X.flags.f_contiguous:
                self._X = np.asfortranarray(self._X)
        return self._X[:, columns]

    def _gram(self, chosen: Array | slice) -> Array:
        X = self._take(chosen)
        G = X.T @ X
        if sp.issparse(G):
            G = G.toarray()
        if self._means is not None:
            # (X - 1 m')'(X - 1 m') = X'X - s m' - m s' + |1|^2 m m' for s = X'1
            means = self._means[chosen]
            sums = X.T @ self._ones
            total = self._ones @ self._ones
            correction = np.outer(sums, means) + np.outer(means, sums)
            correction -= total * np.outer(means, means)
            G -= correction
        return np.ascontiguousarray(G)


@dataclass
class _LassoIteration:
    """The outer iteration.

    A *group* is a set of tasks that one penalty couples: all of them, or each alone.
    """

    design: Design
    W: Array
    alpha: float
    scale: float
    rows: bool
    max_work: float

    @property
    def groups(self) -> list[slice]:
        """The tasks of each group."""
        if self.rows:
            return [slice(None)]
        return [slice(t, t + 1) for t in range(self.W.shape[1])]

    def until(self, tracker: Tracker) -> None:
        """Iterate until the tracker says stop."""
        if self.design.complete and len(self.W) <= _SMALL and not tracker.watched:
            self._at_once(tracker)
            return
        groups = self.groups
        epochs = 0
        work = 0.0
        while True:
            Z, square, along = self.design.gradient(self.W)
            if self.rows:
                square = square.sum(keepdims=True)
                along = along.sum(keepdims=True)
            sizes = self._norms(Z)
            used = self._norms(self.W)
            # The dual point of a group is its residual, scaled until it is feasible.
            largest = np.maximum(sizes.max(axis=0), self.alpha)
            shrink = np.minimum(1.0, self.alpha / largest)
            primal = 0.5 * square + self.alpha * used.sum(axis=0)
            dual = np.maximum(shrink * along - 0.5 * shrink**2 * square, 0.0)
            P = self.scale * float(primal.sum())
            D = self.scale * float(dual.sum())
            before = self.W.copy()
            if tracker.check(epochs, P, D, before):
                return
            if work > self.max_work:
                tracker.message = f"stopped after {work:.1e} multiplications"
                return
            gaps = primal - dual
            # Groups within an equal share of the allowed gap are left alone.
            allowed_gap = tracker.tol * gap_scale(P, D, tracker.null)
            share = allowed_gap / (self.scale * len(groups))
            max_done = 0
            open_groups = np.flatnonzero(gaps > share)
            allowed = (self.max_work - work) / max(1, len(open_groups))
            for g in open_groups:
                chosen, target = self._plan(
                    sizes[:, g] / self.alpha,
                    shrink[g],
                    used[:, g] > 0,
                    gaps[g],
                    share,
                )
                left = tracker.max_iter - epochs
                done, cost = self.design.solve(
                    chosen,
                    groups[g],
                    self.W,
                    Z,
                    square[g],
                    self.alpha,
                    target,
                    left,
                    allowed,
                )
                max_done = max(max_done, done)
                work = work + cost
            epochs += max_done
            if np.array_equal(before, self.W):
                tracker.message = _NOTHING_MOVES
                return

    def _at_once(self, tracker: Tracker) -> None:
        """Solve with all features from the start.

        It is for problems in which selecting features would cost more than it saves.
        """
        size = float(len(self.W) * self.W.size)
        affordable = max(_AT_LEAST, self.max_work / size)
        max_epochs = int(min(tracker.max_iter, affordable))
        products = self.design.products
        assert products is not None
        descent = products.descend(
            [self.alpha],
            rows=self.rows,
            tol=tracker.tol,
            max_epochs=max_epochs,
            start=self.W.T,
        )
        self.W = descent.coef[0].T
        epochs = int(descent.epochs[0])
        primal = self.scale * float(descent.primal[0])
        dual = self.scale * max(float(descent.dual[0]), 0.0)
        if tracker.check(epochs, primal, dual, self.W):
            return
        tracker.message = f"stopped after {epochs * size:.1e} multiplications"
        if epochs < max_epochs:
            tracker.message = _NOTHING_MOVES

    def _plan(
        self,
        tightness: Array,
        shrink: float,
        used: Array,
        gap: float,
        share: float,
    ) -> tuple[Array, float]:
        """Return the features of a group to work on and the gap to get to.

        The features are those in use, and those whose dual constraints are nearest.
        """
        norms = self.design.norms
        # How far the dual point is from the constraint |a_j'theta| <= 1 of a feature.
        # The dual optimum is within sqrt(2 gap) / alpha of it: features whose
        # constraint is farther away are zero in every solution (the gap safe sphere).
        with np.errstate(divide="ignore", invalid="ignore"):
            slack = 1.0 - shrink * tightness
            distance = np.where(norms > 0, slack / norms, np.inf)
        distance[used] = -1.0
        radius = np.sqrt(2.0 * gap) / self.alpha
        possible = np.flatnonzero(distance <= radius)
        n_used = int(used.sum())
        # The set at most doubles, and grows little when few constraints are violated.
        n_waiting = int(np.sum(tightness[~used] > 1.0))
        size = max(_FIRST, n_used + min(n_used, 2 * n_waiting))
        chosen = possible
        if len(possible) > size:
            nearest = np.argpartition(distance[possible], size)[:size]
            chosen = np.sort(possible[nearest])
        # With the Gram matrix of all features, a task whose coefficients do not move
        # costs nothing: keep all to the end.
        if self.design.complete and (not self.rows or 2 * len(chosen) > len(used)):
            return np.arange(len(used)), _BEYOND * share
        return chosen, max(_BEYOND * share, _PROGRESS * gap)

    def _norms(self, A: Array) -> Array:
        """Return the norms of the rows (d, 1), or the absolute values (d, T)."""
        if self.rows:
            return np.sqrt(np.einsum("ij,ij->i", A, A))[:, None]
        return np.abs(A)


#: Number of iterations that ADMM is expected to take, and the multiplications that take
#: as long as the calls of an iteration.
_ITERATIONS = 50
_CALLS = 30_000


def _work_of_admm(side: int, n_features: int, n_tasks: int) -> float:
    """Return the multiplications that a run of ADMM takes, about.

    An eigendecomposition of rank `side` and the iterations count.
    """
    return side**3 + _ITERATIONS * (side * n_features * n_tasks + _CALLS)


def solve_lasso(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | Array | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 5000,
) -> SolverResult:
    """Minimize by `solve_block_cd`, and by `solve_admm` if that takes too long.

    It changes once ADMM would have been cheaper from the start.

    Coordinate descent is the faster one while few features are in use. With weak
    penalties and correlated features it needs thousands of epochs, where ADMM needs
    tens of iterations after an eigendecomposition of the design.

    Parameters
    ----------
    data, loss, penalties, fit_intercept, tol
        As of `solve_block_cd`.
    start : SolverResult or ndarray of shape (1, d, T), optional
        Warm start. After a run on the same data that ended in ADMM, ADMM goes on.
    max_iter : int, default 5000
        Epochs and iterations together.

    Returns
    -------
    SolverResult

    Raises
    ------
    ValueError
        As of `solve_block_cd`.
    """
    options: dict[str, Any] = {"fit_intercept": fit_intercept, "tol": tol}
    state = start_info(start)
    # The decomposition of the data that an earlier run has left.
    if isinstance(state, AdmmState) and state.rotation.belongs_to(data, fit_intercept):
        return solve_admm(
            data,
            loss,
            penalties,
            start=start,
            rotation=state.rotation,
            max_iter=max_iter,
            **options,
        )
    feasible = memory.fits(rotation_bytes(data))
    side = min(data.n_rows, data.n_features)
    work = np.inf
    if feasible:
        work = _work_of_admm(side, data.n_features, data.n_tasks)
    first = solve_block_cd(
        data,
        loss,
        penalties,
        start=start,
        max_iter=max_iter,
        max_work=work,
        **options,
    )
    if first.converged or first.n_iter >= max_iter or not feasible:
        return first
    second = solve_admm(
        data,
        loss,
        penalties,
        start=first.parts,
        max_iter=max_iter - first.n_iter,
        **options,
    )
    second.n_iter += first.n_iter
    second.objective[:0] = first.objective
    return second
