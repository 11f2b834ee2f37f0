"""Data of several tasks: designs, targets and weights, checked once at the door.

Everything becomes float64 in C order, or CSR; arrays that are so already are not
copied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

Array = np.ndarray

# A float64 C-ordered ndarray or a csr_array; their common operations have no common
# static type.
Design = Any


#: Name of the eigenvalues and eigenvectors of the Gram matrices in
#: `TaskData.decompositions`, for centered rows.
EIGENVECTORS = "eigenvectors"


def without_weights(data: TaskData) -> TaskData:
    """Return data without weights and mask, as losses on labels need them."""
    if data.weights is None and data.observed is None:
        return data
    return dataclasses.replace(data, weights=None, observed=None)


def is_sparse(X: object) -> bool:
    """Return whether X is a sparse array or matrix.

    SciPy's own function would narrow the static type of X too far.
    """
    return bool(sp.issparse(X))


def dense(X: Design) -> Any:
    """Return a design as an array."""
    if is_sparse(X):
        return X.toarray()
    return X


def quotient(a: Array | float, b: Array) -> Array:
    """Return a / b, and 0 where b is not positive."""
    positive = b > 0
    return np.where(positive, a / np.where(positive, b, 1.0), 0.0)


def as_design(X: Design, name: str = "X") -> Design:
    """Return a design as C-ordered float64 or canonical float64 CSR.

    It is not copied if it has this form already.

    Raises
    ------
    ValueError
        If it is not two-dimensional and numeric, has no features, or holds values that
        are not finite.
    """
    if is_sparse(X):
        if X.ndim != 2:
            raise ValueError(f"{name} must have two dimensions, got {X.ndim}")
        design: Design = sp.csr_array(X)
        if design.dtype != np.float64:
            design = design.astype(np.float64)
        if not design.has_canonical_format:
            # The caller's matrix stays as it is.
            design = design.copy()
            design.sum_duplicates()
        fits_int32 = max(design.nnz, *design.shape) <= np.iinfo(np.int32).max
        if design.indices.dtype != np.int32 and fits_int32:
            # scikit-learn's solvers need 32-bit indices.
            indices = design.indices.astype(np.int32)
            indptr = design.indptr.astype(np.int32)
            design = sp.csr_array((design.data, indices, indptr), shape=design.shape)
        check_finite(design.data, name)
    else:
        design = as_array(X, name, ndim=2)
        check_finite(design, name)
    if design.shape[1] == 0:
        raise ValueError(f"{name} has no features")
    return design


def row_slice(X: Design, a: int, b: int) -> Design:
    """Return rows a..b-1; values and indices of a CSR array stay views."""
    if not is_sparse(X):
        return X[a:b]
    # Slicing by SciPy would copy the entries.
    i = X.indptr[a]
    j = X.indptr[b]
    return sp.csr_array(
        (X.data[i:j], X.indices[i:j], X.indptr[a : b + 1] - i),
        shape=(b - a, X.shape[1]),
    )


def stack_designs(designs: list[Design]) -> Design:
    """Put designs below each other; CSR when any of them is."""
    if any(is_sparse(X) for X in designs):
        return sp.csr_array(sp.vstack([sp.csr_array(X) for X in designs], format="csr"))
    return np.concatenate(designs, axis=0)


def as_array(values: ArrayLike, name: str, ndim: int) -> Array:
    """Return a dense float64 array of `ndim` dimensions in C order.

    Raises
    ------
    ValueError
        If that is not possible; the message names the argument.
    """
    if is_sparse(values):
        raise ValueError(f"{name} must be dense")
    array = np.asarray(values)
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} must be numeric, got dtype {array.dtype}")
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got {array.ndim}")
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric: {error}") from None


def check_finite(array: Array, name: str) -> None:
    """Raise an error that names the argument if an array has NaN or infinite values."""
    with np.errstate(over="ignore", invalid="ignore"):
        # One pass without a temporary array; only a failure needs the exact test.
        if np.isfinite(array.sum()):
            return
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinite values")


def as_weights(
    weights: ArrayLike,
    shapes: list[tuple[int, ...]],
    name: str = "weights",
) -> Array:
    """Return finite, non-negative float64 weights of one of the shapes.

    Raises
    ------
    ValueError
        If that is not possible; the message names the argument.
    """
    ndim = np.ndim(weights)
    array = as_array(weights, name, ndim=ndim)
    if array.shape not in shapes:
        raise ValueError(
            f"{name} must have shape {' or '.join(map(str, shapes))}, got {array.shape}"
        )
    check_finite(array, name)
    if np.any(array < 0):
        raise ValueError(f"{name} must not be negative")
    return array


def _label_array(labels: list[Any]) -> Array:
    """Return labels as a one-dimensional array.

    Tuples stay tuples, and numbers next to strings stay numbers.
    """
    kinds = set(map(type, labels))
    has_tuples = tuple in kinds
    mixes_strings = str in kinds and len(kinds) > 1
    if not has_tuples and not mixes_strings:
        return np.asarray(labels)
    # `asarray` would make a matrix of tuples, and strings of numbers.
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def as_labels(tasks: Iterable[Any] | None, n_tasks: int) -> Array:
    """Return distinct task labels as a one-dimensional array; 0..T-1 when None."""
    if tasks is None:
        return np.arange(n_tasks)
    labels = list(tasks)
    if len(labels) != n_tasks:
        raise ValueError(f"tasks has {len(labels)} labels for {n_tasks} tasks")
    if len(set(labels)) != n_tasks:
        raise ValueError("tasks has repeated labels")
    return _label_array(labels)


def unique_labels(task_id: object) -> tuple[Array, Array]:
    """Return the sorted labels, and for each row the position of its label."""
    if isinstance(task_id, list | tuple):
        labels = _label_array(list(task_id))
    else:
        labels = np.asarray(task_id)
    if labels.ndim != 1:
        raise ValueError(f"task_id must have 1 dimension, got {labels.ndim}")
    # Only labels of these types can be NaN, which differs from itself.
    if labels.dtype.kind in "fO" and any(label != label for label in labels):
        raise ValueError("task_id contains missing labels")
    try:
        tasks, index = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"task_id has labels that cannot be sorted: {error}") from None
    return tasks, index.ravel()


# ---------------------------------------------------------------------- tasks


@dataclass(frozen=True, eq=False)
class TaskData:
    """T tasks with d features, in one of two layouts.

    Use the ``from_*`` constructors.

    *Ragged*: every task has its own rows; `X` is (N, d) with rows sorted by task,
    `targets` is (N,). *Shared*: one `X` of shape (n, d) serves all tasks, `targets` is
    (n, T). An array of the shape of `targets` is called a *field*. All floats are
    float64; nothing here is ever modified.

    Attributes
    ----------
    X : ndarray (C order) or csr_array
        Design; the caller's own memory where it already has this form.
    targets : ndarray of shape (N,) or (n, T)
        Targets; 0 where masked.
    tasks : ndarray of shape (T,)
        Labels of the tasks.
    offsets : ndarray of shape (T + 1,) or None
        Ragged: task t has the rows ``offsets[t]:offsets[t + 1]``. Shared: None.
    weights : ndarray of shape (N,), (n,) or (n, T), or None
        Non-negative; a weight of k counts as k repetitions. With masked targets it is
        (n, T) and 0 where masked.
    observed : ndarray of bool, shape (n, T), or None
        Where targets are known; None when all are.
    order : ndarray of shape (N,) or None
        Row ``order[i]`` of the caller's array became row i; None when rows were not
        moved.

    Examples
    --------
    >>> from mtlrun.problem.taskdata import TaskData
    >>> X = [[1.0], [2.0], [3.0]]
    >>> data = TaskData.from_stacked(X, [1.0, 2.0, 3.0], task_id=["b", "a", "b"])
    >>> data.tasks.tolist(), data.sizes.tolist()
    (['a', 'b'], [1, 2])
    >>> X, y, weights = data.task(1)
    >>> X.ravel().tolist(), y.tolist()
    ([1.0, 3.0], [1.0, 3.0])
    """

    X: Design
    targets: Array
    tasks: Array
    offsets: Array | None = None
    weights: Array | None = None
    observed: Array | None = None
    order: Array | None = None

    @cached_property
    def digest(self) -> str:
        """Of everything but the names of the tasks."""
        if self.sparse:
            X = [self.X.shape, self.X.data, self.X.indices, self.X.indptr]
        else:
            X = self.X
        content = [X, self.targets, self.offsets, self.weights, self.observed]
        return str(joblib.hash(content, hash_name="sha1"))

    @cached_property
    def decompositions(self) -> dict[Any, Any]:
        """Intermediate results that several fits to these data share, by name.

        The results refer to the data. Clear the dictionary to free the memory at once.
        """
        return {}

    def share_decompositions(self) -> None:
        """Make fits to these data store their eigenbases in `decompositions`."""
        self.decompositions.setdefault("shared", True)

    @property
    def shares_decompositions(self) -> bool:
        """Whether eigenbases of these data are stored."""
        return "decompositions" in self.__dict__ and "shared" in self.decompositions

    @cached_property
    def _lengths(self) -> Array:
        """Rows of each task of ragged data."""
        return np.diff(np.asarray(self.offsets))

    # ------------------------------------------------------------------ constructors

    @classmethod
    def from_matrix(
        cls,
        X: Design,
        Y: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        tasks: Iterable[Any] | None = None,
    ) -> TaskData:
        """Build shared data: one design for all tasks.

        Parameters
        ----------
        X : array-like or sparse of shape (n, d)
        Y : array-like of shape (n, T)
            Column t holds the targets of task t; NaN marks a missing one.
        weights : array-like of shape (n,) or (n, T), optional
        tasks : iterable, optional
            Labels of the columns; default 0..T-1.

        Raises
        ------
        ValueError
            On wrong shapes, infinite values, negative weights, or a task without any
            observed row of positive weight.
        """
        design = as_design(X)
        Y = as_array(Y, "Y", ndim=2)
        if Y.shape[0] != design.shape[0]:
            raise ValueError(f"Y has {Y.shape[0]} rows but X has {design.shape[0]}")
        observed = ~np.isnan(Y)
        labels = as_labels(tasks, Y.shape[1])
        if weights is not None:
            weights = as_weights(weights, [(Y.shape[0],), Y.shape])
        if observed.all():
            check_finite(Y, "Y")
            return cls(design, Y, labels, weights=weights)._checked()
        # Missing targets are 0 and have a weight of 0: sums over rows need no mask.
        Y = np.where(observed, Y, 0.0)
        check_finite(Y, "Y")
        full = observed.astype(np.float64)
        if weights is not None:
            full *= weights if weights.ndim == 2 else weights[:, None]
        return cls(design, Y, labels, weights=full, observed=observed)._checked()

    @classmethod
    def from_stacked(
        cls,
        X: Design,
        y: ArrayLike,
        task_id: ArrayLike,
        *,
        weights: ArrayLike | None = None,
    ) -> TaskData:
        """Build ragged data from stacked rows and a task label per row.

        Rows are sorted stably by task (`order` remembers how); nothing is copied when
        they are sorted already.

        Parameters
        ----------
        X : array-like or sparse of shape (N, d)
        y : array-like of shape (N,)
        task_id : array-like of shape (N,)
            Labels of any one sortable type.
        weights : array-like of shape (N,), optional

        Raises
        ------
        ValueError
            On wrong shapes, values that are not finite, labels that are missing or
            cannot be sorted, negative weights, or a task without positive weight.
        """
        design = as_design(X)
        y = as_array(y, "y", ndim=1)
        check_finite(y, "y")
        tasks, index = unique_labels(task_id)
        for name, values in (("y", y), ("task_id", index)):
            if len(values) != design.shape[0]:
                raise ValueError(
                    f"{name} has {len(values)} entries but X has {design.shape[0]} rows"
                )
        if weights is not None:
            weights = as_weights(weights, [y.shape])
        sizes = np.bincount(index, minlength=len(tasks))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        order = None
        # Rows that are sorted already stay views of the caller's memory.
        if np.any(index[1:] < index[:-1]):
            order = np.argsort(index, kind="stable")
            design = design[order]
            y = y[order]
            if weights is not None:
                weights = weights[order]
        return cls(
            design,
            y,
            tasks,
            offsets=offsets,
            weights=weights,
            order=order,
        )._checked()

    @classmethod
    def from_list(
        cls,
        Xs: Sequence[Any],
        ys: Sequence[Any],
        *,
        tasks: Iterable[Any] | None = None,
        weights: Sequence[Any] | None = None,
    ) -> TaskData:
        """Build ragged data from one design and one target vector per task.

        Parameters
        ----------
        Xs : sequence of array-like or sparse, shapes (n_t, d)
            All become sparse if one is.
        ys : sequence of array-like of shape (n_t,)
        tasks : iterable, optional
            Labels of the tasks in the given order; default 0..T-1.
        weights : sequence of array-like of shape (n_t,), optional
            An entry may be None (all ones).

        Raises
        ------
        ValueError
            On lists of different lengths, an empty task, or what the other constructors
            refuse.
        """
        task_weights = [None] * len(ys) if weights is None else weights
        if not len(Xs) == len(ys) == len(task_weights) > 0:
            raise ValueError(
                "Xs, ys and weights must have one entry per task, and at least one"
            )
        designs = [as_design(X, f"Xs[{t}]") for t, X in enumerate(Xs)]
        targets = [as_array(y, f"ys[{t}]", ndim=1) for t, y in enumerate(ys)]
        n_features = designs[0].shape[1]
        weights_per_task = []
        rows_by_task = zip(designs, targets, task_weights, strict=True)
        for t, (X, y, w) in enumerate(rows_by_task):
            check_finite(y, f"ys[{t}]")
            need = (len(y), n_features)
            if X.shape != need:
                raise ValueError(
                    f"Xs[{t}] has shape {X.shape}, but Xs[0] and ys[{t}] need {need}"
                )
            if w is None:
                w = np.ones(len(y))
            weights_per_task.append(as_weights(w, [y.shape], f"weights[{t}]"))
        sizes = [len(y) for y in targets]
        stacked_weights = None
        if weights is not None:
            stacked_weights = np.concatenate(weights_per_task)
        return cls(
            stack_designs(designs),
            np.concatenate(targets),
            as_labels(tasks, len(designs)),
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            weights=stacked_weights,
        )._checked()

    # ------------------------------------------------------------------ facts

    @property
    def n_tasks(self) -> int:
        """Number of tasks T."""
        return len(self.tasks)

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.X.shape[1]

    @property
    def n_rows(self) -> int:
        """Rows of `X`: N (ragged) or n (shared)."""
        return self.X.shape[0]

    @property
    def shared(self) -> bool:
        """Whether one design serves all tasks."""
        return self.offsets is None

    @property
    def uniform(self) -> bool:
        """Whether all tasks have one design and one weight per row.

        They then have one Gram matrix.
        """
        return self.shared and (self.weights is None or self.weights.ndim == 1)

    @property
    def masked(self) -> bool:
        """Whether some targets of a shared design are missing."""
        return self.observed is not None

    @property
    def sparse(self) -> bool:
        """Whether the design is a CSR array."""
        return is_sparse(self.X)

    @property
    def Y(self) -> Array:
        """Targets of shared data, shape (n, T)."""
        if not self.shared:
            raise AttributeError("ragged data have y, not Y")
        return self.targets

    @property
    def y(self) -> Array:
        """Targets of ragged data, shape (N,)."""
        if self.shared:
            raise AttributeError("shared data have Y, not y")
        return self.targets

    @property
    def sizes(self) -> Array:
        """Observed rows of each task, shape (T,)."""
        if self.offsets is not None:
            return self._lengths
        if self.observed is not None:
            return self.observed.sum(axis=0)
        return np.full(self.n_tasks, self.n_rows)

    def effective_weights(self) -> Array | None:
        """Return weights, 0 where masked, as a field; None if all are one.

        It may be a read-only view.
        """
        if self.weights is None or self.weights.shape == self.targets.shape:
            return self.weights
        return np.broadcast_to(self.weights[:, None], self.targets.shape)

    def full_weights(self) -> Array:
        """Return weights, 0 where masked, as a field; ones if there are none.

        It may be a read-only view.
        """
        weights = self.effective_weights()
        if weights is None:
            return np.ones_like(self.targets)
        return weights

    def row_weights(self) -> Array:
        """Return the weights of rows, which no task has of its own; default ones."""
        if self.weights is None:
            return np.ones(self.n_rows)
        return self.weights

    # ------------------------------------------------------------------ fields

    def weighted(self, field: Array) -> Array:
        """Return a field times the weights; itself where there are none."""
        weights = self.effective_weights()
        if weights is None:
            return field
        return weights * field

    def sum_by_task(self, field: Array) -> Array:
        """Sum a field over the rows of each task, shape (T,)."""
        if self.offsets is None:
            return field.sum(axis=0)
        return np.add.reduceat(field, self.offsets[:-1])

    def spread(self, per_task: Array) -> Array:
        """Repeat a (T,) vector over a field; may be a read-only view."""
        if self.offsets is None:
            return np.broadcast_to(per_task, self.targets.shape)
        return np.repeat(per_task, self._lengths)

    def shifted(self, field: Array, per_task: Array) -> Array:
        """Return a field plus a (T,) vector in all rows of each task."""
        return field + (per_task if self.offsets is None else self.spread(per_task))

    def unsort(self, field: Array) -> Array:
        """Put the rows of a field back into the order in which the caller gave them."""
        if self.order is None:
            return field
        out = np.empty_like(field)
        out[self.order] = field
        return out

    # ------------------------------------------------------------------ parts

    def task(self, t: int) -> tuple[Design, Array, Array | None]:
        """Return design, targets and weights (or None) of task t.

        They are views unless rows are missing.

        Rows with a missing target are left out, so that algorithms that work task by
        task can ignore masks.
        """
        # Negative positions count from the end, and others raise an IndexError.
        t = range(self.n_tasks)[t]
        if self.offsets is not None:
            a = self.offsets[t]
            b = self.offsets[t + 1]
            w = self.weights
            if w is not None:
                w = w[a:b]
            return row_slice(self.X, a, b), self.targets[a:b], w
        w = self.weights
        if w is not None and w.ndim == 2:
            w = w[:, t]
        y = self.targets[:, t]
        if self.observed is None or w is None:
            return self.X, y, w
        rows = np.flatnonzero(self.observed[:, t])
        w = w[rows]
        if np.all(w == 1.0):
            # The weights only marked missing targets.
            w = None
        return self.X[rows], y[rows], w

    def subset_tasks(self, indices: Sequence[int] | Array) -> TaskData:
        """Return the data of some tasks, in the given order.

        A shared design stays the same object.

        Parameters
        ----------
        indices : array-like of int
            Positions in `tasks`, not labels; at least one, each once.
        """
        indices = np.asarray(indices, dtype=np.intp)
        tasks = self.tasks[indices]
        if self.offsets is None:
            if self.weights is None or self.weights.ndim == 1:
                w = self.weights
            else:
                w = self.weights[:, indices]
            if self.observed is None:
                observed = None
            else:
                observed = self.observed[:, indices]
            return self._shared_part(
                self.X,
                self.targets[:, indices],
                tasks,
                w,
                observed,
            )
        sizes = np.diff(self.offsets)[indices]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        # Row i of the result comes from row i + move of its task.
        moves = self.offsets[indices] - offsets[:-1]
        rows = np.arange(offsets[-1]) + np.repeat(moves, sizes)
        w = self.weights
        if w is not None:
            w = w[rows]
        return TaskData(
            self.X[rows],
            self.targets[rows],
            tasks,
            offsets=offsets,
            weights=w,
        )

    def select_rows(self, rows: Array, *, complete: bool = True) -> TaskData:
        """Return data with some of the rows.

        Ragged tasks that have none of them are left out.

        Parameters
        ----------
        rows : array-like of int, shape (k,)
            Of `X`; their order counts for a shared design only.
        complete : bool, default True
            Refuse to leave a task of a shared design without observed rows of positive
            weight.

        Raises
        ------
        ValueError
            If a task has no observed row of positive weight left.
        """
        rows = np.asarray(rows)
        if self.offsets is not None:
            # Ragged rows are sorted by task.
            rows = np.sort(rows)
            task_of_row = np.searchsorted(self.offsets, rows, side="right") - 1
            sizes = np.bincount(task_of_row, minlength=self.n_tasks)
            has_rows = sizes > 0
            if self.weights is None:
                weights = None
            else:
                weights = self.weights[rows]
            offsets = np.concatenate([[0], np.cumsum(sizes[has_rows])])
            part = TaskData(
                self.X[rows],
                self.targets[rows],
                self.tasks[has_rows],
                offsets=offsets,
                weights=weights,
            )
        else:
            w = self.weights
            if w is not None:
                w = w[rows]
            observed = self.observed
            if observed is not None:
                observed = observed[rows]
            part = self._shared_part(
                self.X[rows],
                self.targets[rows],
                self.tasks,
                w,
                observed,
            )
        if complete:
            return part._checked()
        return part

    @staticmethod
    def _shared_part(
        X: Design,
        Y: Array,
        tasks: Array,
        w: Array | None,
        observed: Array | None,
    ) -> TaskData:
        """Return a part of shared data.

        It is not masked if no target of the part is missing.
        """
        if observed is not None and observed.all():
            observed = None
            if w is not None and np.all(w == 1.0):
                w = None
        if w is not None:
            w = np.ascontiguousarray(w)
        return TaskData(X, np.ascontiguousarray(Y), tasks, weights=w, observed=observed)

    def with_targets(self, targets: Array) -> TaskData:
        """Return the same data with another field of targets (not checked)."""
        return dataclasses.replace(self, targets=targets)

    def with_design(self, X: Design) -> TaskData:
        """Return the same data with another design of as many rows (not checked)."""
        return dataclasses.replace(self, X=X)

    def _checked(self) -> TaskData:
        """Raise an error if a task has no observed row of positive weight."""
        # Sums over the rows of a task need at least one (see `sum_by_task`).
        tasks = self.tasks.tolist()
        if self.n_rows == 0 or np.any(self.sizes == 0):
            name = "X"
            if self.n_rows > 0:
                name = f"task {tasks[np.argmin(self.sizes)]!r}"
            raise ValueError(
                f"{name} has no rows; every task needs at least one observed row"
            )
        if self.weights is not None:
            total = self.sum_by_task(np.asarray(self.effective_weights()))
            if np.any(total <= 0):
                label = tasks[np.argmin(total)]
                raise ValueError(
                    f"weights: task {label!r} has no row of positive weight"
                )
        return self
