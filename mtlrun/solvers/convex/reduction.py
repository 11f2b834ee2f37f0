"""A least-squares problem in the eigenbasis of its shared design, for methods whose iterates know no basis.

With X = U S V' and penalties that do not change under rotations, iterates that start in the row space of X stay there:
W = V Q, and every norm, inner product and prox of W is that of Q. So a method may work on Q (rank x T), where X is
diagonal, and make the iterations that it would make on W.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from mtlrun.problem import memory
from mtlrun.problem.losses import Loss, SquaredLoss
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.rotation import Rotation, SharedRotation, prepare, rotation_bytes


def find_basis(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    fit_intercept: bool,
    rotation: Rotation | None = None,
    *,
    weighted: bool = True,
) -> SharedRotation | None:
    """Return the basis in which a first-order method can do what it does, None where there is none.

    Parameters
    ----------
    data, loss, penalties, fit_intercept
        The problem.
    rotation : Rotation, optional
        From `prepare` with the same data and `fit_intercept`; made if not given.
    weighted : bool, default True
        Whether the method allows row weights.

    Raises
    ------
    ValueError
        If the rotation belongs to other data or another `fit_intercept`.
    """
    if rotation is not None and (rotation.data is not data or rotation.fit_intercept != fit_intercept):
        raise ValueError("the rotation was prepared from other data or with another fit_intercept")
    one_design = data.shared and not data.masked and (data.weights is None or (weighted and data.weights.ndim == 1))
    invariant = isinstance(loss, SquaredLoss) and all(p.rotation_invariant for p in penalties)
    if not (one_design and invariant) or not memory.fits(rotation_bytes(data)):
        return None
    basis = prepare(data, fit_intercept) if rotation is None else rotation
    return basis if isinstance(basis, SharedRotation) else None


def reduced_data(rotation: SharedRotation) -> TaskData:
    """Return data with a diagonal design that have the least-squares problem of `rotation`, for unweighted rows.

    One row per coordinate, diag(s) against U'y_t, and a row of zeros against the length of what no coefficients can
    fit: for every task an orthogonal transformation of the rows of the (centred) design and targets.
    """
    s = np.sqrt(rotation.squares[:, 0])
    targets = np.divide(rotation.cross, s[:, None], out=np.zeros_like(rotation.cross), where=s[:, None] > 0)
    rest = np.sqrt(np.maximum(rotation.energy - rotation.explained, 0.0))
    design = sp.csr_array(sp.vstack([sp.diags_array(s), sp.csr_array((1, len(s)))]))
    return TaskData.from_matrix(design, np.vstack([targets, rest]), tasks=rotation.data.tasks)


def rotate_parts(rotation: Rotation, parts: np.ndarray) -> np.ndarray:
    """Return the coordinates (K, r, T) of parts (K, d, T)."""
    return np.stack([rotation.rotate(W) for W in parts])


def lift_parts(rotation: Rotation, parts: np.ndarray) -> np.ndarray:
    """Return the coefficients (K, d, T) of parts in coordinates (K, r, T)."""
    lifted = np.zeros((len(parts), rotation.data.n_features, rotation.data.n_tasks))
    for k, Q in enumerate(parts):
        if np.any(Q):
            lifted[k] = rotation.lift(Q)
    return lifted
