"""What MeTaG and CoClus make of the data before they begin, once for all fits on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mtlrun.problem.losses import right_singular
from mtlrun.problem.rotation import Rotation, SharedRotation, TaskRotation, in_row_space, prepare
from mtlrun.problem.taskdata import TaskData

# Eigenvalues below this, relative to the largest and times their number, are rounding.
_ROUNDING = 4.0 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class RowSpace:
    """The designs in a basis of their rows, where that is shorter, and decomposed.

    Attributes
    ----------
    basis : ndarray of shape (d, r) or None
        None where coordinates are the features themselves.
    rotation : Rotation
        Of the designs in these coordinates.
    """

    basis: np.ndarray | None
    rotation: Rotation

    @classmethod
    def of(cls, data: TaskData, fit_intercept: bool) -> RowSpace:
        """Return the row space of data; `fit_intercept` centres every task."""
        data, basis = in_row_space(data)
        return cls(basis, prepare(data, fit_intercept))

    @property
    def data(self) -> TaskData:
        """The data in coordinates."""
        return self.rotation.data

    @cached_property
    def pooled(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (k,) and eigenvectors (r, k) of the sum of the tasks' Gram matrices, those of zero left out."""
        rotation, d = self.rotation, self.data.n_features
        if isinstance(rotation, SharedRotation):
            values, vectors = self.data.n_tasks * rotation.squares[:, 0], rotation.basis
        else:
            assert isinstance(rotation, TaskRotation)
            roots = rotation.bases * np.sqrt(rotation.squares).T[:, None, :]
            root = roots.transpose(1, 0, 2).reshape(d, -1)  # its product with its transpose is the sum
            if rotation.graded:
                return right_singular(root.T, np.linalg.norm(root, axis=1))
            if d <= root.shape[1]:
                values, vectors = np.linalg.eigh(root @ root.T)
            else:
                vectors, singular, _ = np.linalg.svd(root, full_matrices=False)
                values = np.square(singular)
        kept = values > _ROUNDING * len(values) * values.max(initial=0.0)
        return values[kept], vectors[:, kept]

    def lift(self, parts: np.ndarray) -> np.ndarray:
        """Return coefficients (n_parts, d, T) of coordinates (n_parts, r, T)."""
        return parts if self.basis is None else self.basis @ parts
