"""Co-clusters of tasks and features: a part near the mean of the tasks plus a part of low rank, not convex."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from mtlrun.problem.losses import Loss
from mtlrun.problem.quadratic import BADLY_SCALED
from mtlrun.problem.result import SolverResult
from mtlrun.problem.rotation import Rotation, RowSpace
from mtlrun.problem.taskdata import TaskData

# The equations for W are solved to this part of their residual at the last W, in at most so many steps.
_INNER, _INNER_STEPS = 1e-1, 50
# How often parts and subspace are matched to one W.
_MATCHES = 5
# On columns of mixed scales: a step that still gains this part of the objective was not made, for rounding.
_STALLED = 1e-3
# Eigenvalues of a (T, T) matrix below this, relative to the largest, are zero.
_ROUNDING = 1e-12


def penalty_values(P: np.ndarray, Q: np.ndarray, k: int) -> tuple[float, float]:
    """Return sum_t ||p_t - mean||^2 and sum_{i>k} sigma_i(Q)^2 of P, Q (d, T)."""
    deviations = P - P.mean(axis=1, keepdims=True)
    squares = np.sort(np.linalg.eigvalsh(Q.T @ Q if Q.shape[1] <= Q.shape[0] else Q @ Q.T))[::-1]
    return float(np.vdot(deviations, deviations)), float(np.maximum(squares[k:], 0.0).sum())


def solve_coclus(
    data: TaskData,
    loss: Loss,
    shared: float,
    low_rank: float,
    k: int,
    *,
    ridge: float = 0.0,
    fit_intercept: bool = True,
    tol: float = 1e-5,
    max_iter: int = 500,
    space: RowSpace | None = None,
) -> SolverResult:
    """Minimise loss(P + Q) + shared sum_t ||p_t - mean||^2 + low_rank sum_{i>k} sigma_i(Q)^2 + ridge ||P + Q||^2.

    With S the subspace of tasks spanned by the k leading right singular vectors of Q, the last term is the smallest
    ||Q (I - S)||^2 over subspaces. For a given S the best parts of W = P + Q are linear in W and leave a quadratic
    tr(W A W'), A a (T, T) matrix. So rounds of two steps, none of which raises the objective: W by conjugate gradients
    (preconditioned with the eigenbases of the tasks), then P, Q and S in closed form. A loss other than the squared one
    is replaced by its quadratic upper bound at the last W. The first S is nothing: all of Q is penalised.

    Parameters
    ----------
    data : TaskData
    loss : Loss
        Smooth.
    shared, low_rank : float
        Non-negative.
    k : int
        Rank that costs nothing, at least 1.
    ridge : float, default 0.0
        Non-negative.
    fit_intercept : bool, default True
    tol : float, default 1e-5
        Decrease of the objective in one round, relative to the objective at zero, to stop at.
    max_iter : int, default 500
        Rounds.
    space : RowSpace, optional
        That of these data with this `fit_intercept`; made if it is not given.

    Returns
    -------
    SolverResult
        parts (P, Q); `gap` is None (the problem is not convex), `stop_crit` the last relative decrease.
    """
    space = RowSpace.of(data, fit_intercept) if space is None else space
    data = space.data
    equations = _Equations(space.rotation, loss)
    tasks = _TaskSpace(data.n_tasks, shared, low_rank, k, ridge)
    W, b = np.zeros((data.n_features, data.n_tasks)), np.zeros(data.n_tasks)
    subspace = np.zeros((data.n_tasks, data.n_tasks))
    objective = [equations.value(W, b)]
    crit, share = np.inf, np.zeros_like(subspace)
    for _ in range(max_iter):
        new, new_b = equations.solve(W, b, tasks.coupling(subspace))
        if not np.isfinite(new).all():
            break
        W, b = new, new_b
        subspace, share = tasks.match(W, subspace)
        objective.append(equations.value(W, b) + tasks.value(W, share))
        crit = (objective[-2] - objective[-1]) / (objective[0] or 1.0)
        if crit <= tol:
            break
    Q = W @ share
    parts = np.stack([W - Q, Q])
    stalls = space.rotation.graded and equations.gain(W, b, tasks.coupling(subspace)) > _STALLED * objective[-1]
    message = f"relative decrease {crit:.2e} against tol {tol:g}"
    return SolverResult(
        parts=space.lift(parts),
        intercept=equations.intercept(W, b),
        converged=bool(crit <= tol) and not stalls,
        n_iter=max(1, len(objective) - 1),
        objective=objective,
        stop_crit=float(crit),
        message=f"{message}, but steps stall: X is too badly scaled" if stalls else message,
        info={BADLY_SCALED: stalls},
    )


@dataclass(frozen=True)
class _TaskSpace:
    """The penalty as a function of W and a subspace of tasks, given as a projector (T, T)."""

    n_tasks: int
    shared: float
    low_rank: float
    k: int
    ridge: float

    def _mixing(self, subspace: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the share S with Q = W S best for the subspace, and low_rank (I - subspace)."""
        eye = np.eye(self.n_tasks)
        of_P = self.shared * (eye - 1.0 / self.n_tasks)
        of_Q = self.low_rank * (eye - subspace)
        return of_P @ np.linalg.pinv(of_P + of_Q, rcond=_ROUNDING, hermitian=True), of_Q

    def coupling(self, subspace: np.ndarray) -> np.ndarray:
        """Return A: the penalty of the best parts of W is tr(W A W')."""
        share, of_Q = self._mixing(subspace)
        A = share @ of_Q
        return np.asarray(0.5 * (A + A.T)) + self.ridge * np.eye(self.n_tasks)

    def match(self, W: np.ndarray, subspace: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the subspace and share that a few alternations lead to; the penalty does not rise."""
        gram = W.T @ W
        for _ in range(_MATCHES):
            share, _ = self._mixing(subspace)
            vectors = np.linalg.eigh(share.T @ gram @ share)[1][:, -self.k :]
            subspace = vectors @ vectors.T
        return subspace, self._mixing(subspace)[0]

    def value(self, W: np.ndarray, share: np.ndarray) -> float:
        """Return the penalty of the parts W - W S and W S."""
        Q = W @ share
        of_P, of_Q = penalty_values(W - Q, Q, self.k)
        return self.shared * of_P + self.low_rank * of_Q + self.ridge * float(np.vdot(W, W))


class _Equations:
    """loss(W, b) + tr(W A W') in W and b, the loss replaced by a quadratic above it at the last W and b."""

    def __init__(self, rotation: Rotation, loss: Loss) -> None:
        self.rotation, self.loss, self.data = rotation, loss, rotation.data
        self.weights = self.data.effective_weights()
        ones = np.ones_like(self.data.targets)
        self.total = self.data.sum_by_task(ones if self.weights is None else self.weights)

    def value(self, W: np.ndarray, b: np.ndarray) -> float:
        """Return the loss; b are the intercepts for the centred designs."""
        return self.loss.value(self._scores(W, b), self.data.targets, self.weights)

    def solve(self, W: np.ndarray, b: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return W and b after the conjugate gradients have lowered the quadratic from there."""
        c, rotation = float(self.loss.curvature), self.rotation
        slope, residual = self._slopes(W, b, A)
        if rotation.fit_intercept:
            b = b - self.data.sum_by_task(slope) / (c * self.total)

        def apply(v: np.ndarray) -> np.ndarray:
            V = v.reshape(W.shape)
            return np.ravel(c * rotation.lift(rotation.squares * rotation.rotate(V)) + 2.0 * (V @ A))

        def precondition(v: np.ndarray) -> np.ndarray:
            return np.ravel(self._alone(v.reshape(W.shape), A))

        hessian, about = (LinearOperator((W.size, W.size), f, dtype=np.float64) for f in (apply, precondition))
        move, _ = cg(hessian, residual.ravel(), rtol=_INNER, maxiter=_INNER_STEPS, M=about)
        return W + move.reshape(W.shape), b

    def gain(self, W: np.ndarray, b: np.ndarray, A: np.ndarray) -> float:
        """Return about how much a step for each task separately would lower the quadratic, by residuals of the rows."""
        residual = self._slopes(W, b, A)[1]
        return 0.5 * float(np.vdot(residual, self._alone(residual, A)))

    def _slopes(self, W: np.ndarray, b: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient in the predictions, and minus the gradient in W."""
        slope = self.loss.gradient(self._scores(W, b), self.data.targets, self.weights)
        return slope, -self.rotation.operator.adjoint(slope) - 2.0 * (W @ A)

    def _alone(self, V: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Return the solution for the right-hand side V if the tasks were not coupled."""
        below, own = float(self.loss.curvature) * self.rotation.squares, 2.0 * np.diag(A)
        with np.errstate(divide="ignore"):
            inverse = np.where(below + own > 0, 1.0 / (below + own), 0.0)
            outside = np.where(own > 0, 1.0 / own, 0.0)
        seen = self.rotation.rotate(V)
        return np.asarray(self.rotation.lift(inverse * seen) + outside * (V - self.rotation.lift(seen)))

    def intercept(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the intercepts for the designs as given."""
        return self.rotation.uncentred(W, b)

    def _scores(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.rotation.operator.forward(W, b)
