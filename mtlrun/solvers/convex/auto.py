"""The solvers of the convex models, loss + one penalty per part, and their choice.

``solver="auto"`` takes the first solver of this list that applies:

"lasso"
    Coordinate descent, and ADMM once that would be faster. For the squared loss with
    one L1 or L21 penalty on one design, with at most one weight per row.
"fista"
    Accelerated proximal gradient. For the logistic and the squared hinge loss with at
    most 2000 labels. It takes a weight of k exactly as k repetitions.
"subspace"
    Locally optimal subspace descent, without an eigenbasis. For the squared loss with a
    trace norm, with or without L12, on one design without missing targets, if its
    eigenbasis takes more time than 30 products X'XW.
"admm"
    ADMM, if the eigenbases of the designs take at most 2 GB
    (`mtlrun.problem.memory.KEPT`). It splits off the predictions for losses on labels.
"fista"
    For all other problems, through Gram matrices for the squared loss where these are
    cheaper than the rows.

"cd" is coordinate descent alone, for the problems of "lasso".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mtlrun.problem import memory
from mtlrun.problem.losses import Loss
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import GRAM_COPIES, gram_bytes, gram_pays
from mtlrun.problem.result import SolverResult
from mtlrun.problem.rotation import Rotation, preparation_bytes, rotation_bytes
from mtlrun.problem.taskdata import TaskData, without_weights
from mtlrun.solvers.convex.admm import solve_admm, solve_split
from mtlrun.solvers.convex.fista import solve_fista
from mtlrun.solvers.convex.lasso import cd_applies, solve_block_cd, solve_lasso
from mtlrun.solvers.convex.subspace import (
    solve_subspace,
    subspace_applies,
    subspace_bytes,
    subspace_pays,
)

#: Up to this many labels, any solver takes milliseconds for a classification.
SMALL_LABELS = 2000

_WITHOUT_BASES = {
    "fista": solve_fista,
    "cd": solve_block_cd,
    "lasso": solve_lasso,
    "subspace": solve_subspace,
}


def choose_solver(data: TaskData, loss: Loss, penalties: Sequence[Penalty]) -> str:
    """Return the solver that "auto" stands for, see the module docstring."""
    if cd_applies(data, loss, penalties):
        return "lasso"
    if loss.labels and data.targets.size <= SMALL_LABELS:
        return "fista"
    if subspace_applies(data, loss, penalties) and subspace_pays(data):
        return "subspace"
    bases = rotation_bytes(decomposed(data, loss), invariant=_invariant(penalties))
    if memory.fits(bases):
        return "admm"
    return "fista"


def solve_convex(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    solver: str = "auto",
    *,
    rotation: Rotation | None = None,
    **options: Any,
) -> SolverResult:
    """Minimize loss + penalties over parts (and intercepts) by a solver given by name.

    Parameters
    ----------
    data, loss, penalties
        The problem.
    solver : {"auto", "lasso", "cd", "subspace", "admm", "fista"}, default "auto"
    rotation : Rotation, optional
        From `prepare` with `decomposed(data, loss)` and the same `fit_intercept`; only
        "admm" uses it.
    **options
        `start`, `fit_intercept`, `tol`, `max_iter`, as for each solver.

    Raises
    ------
    ValueError
        If the solver does not apply to the problem.
    """
    if solver == "auto":
        solver = choose_solver(data, loss, penalties)
    if solver != "admm":
        return _WITHOUT_BASES[solver](data, loss, penalties, **options)
    solve = solve_split if loss.labels else solve_admm
    return solve(data, loss, penalties, rotation=rotation, **options)


def decomposed(data: TaskData, loss: Loss) -> TaskData:
    """Return the data whose eigenbases "admm" uses.

    For losses on labels, they are without weights and mask.
    """
    return without_weights(data) if loss.labels else data


def solver_bytes(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    solver: str,
) -> float:
    """Return the bytes that a solver takes in addition to coefficients and fields.

    These are for making eigenbases, copies of X, or Gram matrices.
    """
    if solver == "admm":
        return preparation_bytes(
            decomposed(data, loss), invariant=_invariant(penalties)
        )
    if solver == "subspace":
        return subspace_bytes(data)
    if gram_pays(data) and not loss.labels:
        return GRAM_COPIES * gram_bytes(data)
    return 0.0


def _invariant(penalties: Sequence[Penalty]) -> bool:
    return all(p.rotation_invariant for p in penalties)
