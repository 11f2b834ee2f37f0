"""Clusters of tasks: co-clusters with features, tasks pulled together in pairs, groups that share a subspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from mtlrun.penalties.norms import trace_norm
from mtlrun.problem.losses import Loss
from mtlrun.problem.objective import gap_scale, relative_gap
from mtlrun.problem.quadratic import BADLY_SCALED
from mtlrun.problem.result import SolverResult
from mtlrun.problem.rotation import Rotation, RowSpace
from mtlrun.problem.taskdata import TaskData, quotient
from mtlrun.solvers.pairwise import Flows, TaskTerm, fuse, pair_distances

# ---------------------------------------------------------------------- co-clusters of tasks and features
#
# A part near the mean of the tasks plus a part of low rank, not convex.

# The equations for W are solved to this share of their residual at the last W, within
# this many steps.
_INNER = 1e-1
_INNER_STEPS = 50
# How often parts and subspace are matched to one W.
_MATCHES = 5
# On columns of mixed scales: a step that still gains this part of the objective was not
# made, for rounding.
_STALLED = 1e-3
# Eigenvalues of a (T, T) matrix below this, relative to the largest, are zero.
_ROUNDING = 1e-12


def penalty_values(P: np.ndarray, Q: np.ndarray, k: int) -> tuple[float, float]:
    """Return sum_t ||p_t - mean||^2 and sum_{i>k} sigma_i(Q)^2 of P, Q (d, T)."""
    deviations = P - P.mean(axis=1, keepdims=True)
    squares = np.sort(
        np.linalg.eigvalsh(Q.T @ Q if Q.shape[1] <= Q.shape[0] else Q @ Q.T)
    )[::-1]
    return float(np.vdot(deviations, deviations)), float(
        np.maximum(squares[k:], 0.0).sum()
    )


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
    """Minimize loss(P + Q) + shared sum_t ||p_t - mean||^2 + low_rank sum_{i>k} sigma_i(Q)^2 + ridge ||P + Q||^2.

    With S the subspace of tasks spanned by the k leading right singular vectors of Q,
    the last term is the smallest
    ||Q (I - S)||^2 over subspaces. For a given S the best parts of W = P + Q are linear in W and leave a quadratic
    tr(W A W'), A a (T, T) matrix. So rounds of two steps, none of which raises the
    objective: W by conjugate gradients (preconditioned with the eigenbases of the
    tasks), then P, Q and S in closed form. A loss other than the squared one is
    replaced by its quadratic upper bound at the last W. The first S is nothing: all of
    Q is penalized.

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
        Decrease of the objective in one round, relative to the objective at zero, to
        stop at.
    max_iter : int, default 500
        Rounds.
    space : RowSpace, optional
        That of these data with this `fit_intercept`; made if it is not given.

    Returns
    -------
    SolverResult
        parts (P, Q); `gap` is None (the problem is not convex), `stop_crit` the last
        relative decrease.
    """
    if space is None:
        space = RowSpace.of(data, fit_intercept)
    data = space.data
    equations = _Equations(space.rotation, loss)
    tasks = _TaskSpace(data.n_tasks, shared, low_rank, k, ridge)
    W = np.zeros((data.n_features, data.n_tasks))
    b = np.zeros(data.n_tasks)
    subspace = np.zeros((data.n_tasks, data.n_tasks))
    objective = [equations.value(W, b)]
    crit = np.inf
    share = np.zeros_like(subspace)
    for _ in range(max_iter):
        new, new_b = equations.solve(W, b, tasks.coupling(subspace))
        if not np.isfinite(new).all():
            break
        W = new
        b = new_b
        subspace, share = tasks.match(W, subspace)
        objective.append(equations.value(W, b) + tasks.value(W, share))
        crit = (objective[-2] - objective[-1]) / (objective[0] or 1.0)
        if crit <= tol:
            break
    Q = W @ share
    parts = np.stack([W - Q, Q])
    stalls = (
        space.rotation.graded
        and equations.gain(W, b, tasks.coupling(subspace)) > _STALLED * objective[-1]
    )
    message = f"relative decrease {crit:.2e} against tol {tol:g}"
    return SolverResult(
        parts=space.lift(parts),
        intercept=equations.intercept(W, b),
        converged=bool(crit <= tol) and not stalls,
        n_iter=max(1, len(objective) - 1),
        objective=objective,
        stop_crit=float(crit),
        message=f"{message}, but steps stall: X is too badly scaled"
        if stalls
        else message,
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

    def match(
        self, W: np.ndarray, subspace: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
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
        return (
            self.shared * of_P
            + self.low_rank * of_Q
            + self.ridge * float(np.vdot(W, W))
        )


class _Equations:
    """loss(W, b) + tr(W A W') in W and b, the loss replaced by a quadratic above it at the last W and b."""

    def __init__(self, rotation: Rotation, loss: Loss) -> None:
        self.rotation = rotation
        self.loss = loss
        self.data = rotation.data
        self.weights = self.data.effective_weights()
        self.total = self.data.sum_by_task(self.data.full_weights())

    def value(self, W: np.ndarray, b: np.ndarray) -> float:
        """Return the loss; b are the intercepts for the centred designs."""
        return self.loss.value(self._scores(W, b), self.data.targets, self.weights)

    def solve(
        self, W: np.ndarray, b: np.ndarray, A: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return W and b after the conjugate gradients have lowered the quadratic from there."""
        c = float(self.loss.curvature)
        rotation = self.rotation
        slope, residual = self._slopes(W, b, A)
        if rotation.fit_intercept:
            b = b - self.data.sum_by_task(slope) / (c * self.total)

        def apply(v: np.ndarray) -> np.ndarray:
            V = v.reshape(W.shape)
            return np.ravel(
                c * rotation.lift(rotation.squares * rotation.rotate(V)) + 2.0 * (V @ A)
            )

        def precondition(v: np.ndarray) -> np.ndarray:
            return np.ravel(self._alone(v.reshape(W.shape), A))

        hessian, center = (
            LinearOperator((W.size, W.size), f, dtype=np.float64)
            for f in (apply, precondition)
        )
        move, _ = cg(
            hessian, residual.ravel(), rtol=_INNER, maxiter=_INNER_STEPS, M=center
        )
        return W + move.reshape(W.shape), b

    def gain(self, W: np.ndarray, b: np.ndarray, A: np.ndarray) -> float:
        """Return about how much a step for each task separately would lower the quadratic, by residuals of the rows."""
        residual = self._slopes(W, b, A)[1]
        return 0.5 * float(np.vdot(residual, self._alone(residual, A)))

    def _slopes(
        self, W: np.ndarray, b: np.ndarray, A: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient in the predictions, and minus the gradient in W."""
        slope = self.loss.gradient(self._scores(W, b), self.data.targets, self.weights)
        return slope, -self.rotation.operator.adjoint(slope) - 2.0 * (W @ A)

    def _alone(self, V: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Return the solution for the right-hand side V if the tasks were not coupled."""
        below = float(self.loss.curvature) * self.rotation.squares
        diagonal = 2.0 * np.diag(A)
        with np.errstate(divide="ignore"):
            inverse = np.where(below + diagonal > 0, 1.0 / (below + diagonal), 0.0)
            outside = np.where(diagonal > 0, 1.0 / diagonal, 0.0)
        seen = self.rotation.rotate(V)
        return np.asarray(
            self.rotation.lift(inverse * seen)
            + outside * (V - self.rotation.lift(seen))
        )

    def intercept(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the intercepts for the designs as given."""
        return self.rotation.uncentred(W, b)

    def _scores(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.rotation.operator.forward(W, b)


# ---------------------------------------------------------------------- tasks pulled together in pairs
#
# Least squares by the iteration of `mtlrun.solvers.pairwise`.

# The first step of the flows is this part of the typical curvature. These multiples of
# the last step are tried in the order given, until one of them solves the problem; the
# best one goes on.
_FIRST = 0.3
_TRIALS = (1.0, 0.1, 10.0)
_TRIAL_LENGTH = 30
# Iterations between trials.
_ROUND = 300


class LeastSquares(TaskTerm):
    """1/2 sum_t ||y_t - X_t w_t||^2 + ridge/2 ||W||_F^2 (centred where intercepts are fitted, rows weighted).

    Parameters
    ----------
    space : RowSpace
    ridge : float, default 0.0
    """

    def __init__(self, space: RowSpace, ridge: float = 0.0) -> None:
        self.space = space
        self.rotation = space.rotation
        self.ridge = ridge

    @property
    def null(self) -> float:
        """Value of the null model, see `null_objective`."""
        return self.rotation.null

    def prox(self, V: np.ndarray, weight: float) -> np.ndarray:
        V = (weight / (weight + self.ridge)) * V
        weight = weight + self.ridge
        q = self.rotation.rotate(V.T)
        moved = (self.rotation.cross - self.rotation.squares * q) / (
            self.rotation.squares + weight
        )
        return V + self.rotation.lift(moved).T

    def value(self, W: np.ndarray) -> float:
        return self.rotation.value(
            self.rotation.rotate(W.T)
        ) + 0.5 * self.ridge * float(np.vdot(W, W))

    def bound(self, W: np.ndarray, flows: Flows, lam: float) -> float:
        if self.ridge > 0:
            return self._conjugate(flows)
        return self._dual(W, flows, lam)

    def _conjugate(self, flows: Flows) -> float:
        """Return the minimum over W of the loss, the ridge and <div p, W>, in closed form."""
        pull = flows.divergence().T
        inside = self.rotation.rotate(pull)
        outside = float(np.sum(pull * pull)) - float(np.sum(inside * inside))
        gain = np.square(self.rotation.cross - inside) / (
            self.rotation.squares + self.ridge
        )
        return (
            0.5 * float(self.rotation.energy.sum() - gain.sum())
            - 0.5 * max(outside, 0.0) / self.ridge
        )

    def _dual(self, W: np.ndarray, flows: Flows, lam: float) -> float:
        """Return the dual value at the residuals of W, shifted and scaled to be feasible.

        A dual point theta needs X_t'theta_t = div p_t with flows of norm at most lam.
        Moving all tasks by one vector (a pooled least-squares fit) makes sum_t
        X_t'theta_t = 0; what is left between X'theta and div p is spread evenly over
        the pairs; then everything is scaled.
        """
        rotation = self.rotation
        W = self.centre(W)
        slope = self._negative_gradient(W)
        rest = (slope - flows.divergence()) / len(W)
        first, second = np.triu_indices(len(W), 1)
        peak = float(
            np.linalg.norm(flows.values + rest[first] - rest[second], axis=1).max(
                initial=0.0
            )
        )
        c = 1.0 if peak <= lam else lam / peak
        return max(0.0, rotation.dual_fit(rotation.rotate(W.T), c))

    def centre(self, W: np.ndarray) -> np.ndarray:
        """Return W with all tasks moved by the vector that lowers the loss and the ridge most; differences stay."""
        values, vectors = self.space.pooled
        slope = self._negative_gradient(W).sum(axis=0)
        along = vectors.T @ slope
        move = vectors @ (along / (values + len(W) * self.ridge))
        if self.ridge > 0:  # what no task sees
            move += (slope - vectors @ along) / (len(W) * self.ridge)
        return W + move

    def alone(self) -> np.ndarray:
        """Return the solution of each task, of smallest norm, (T, d)."""
        return self.rotation.lift(
            quotient(self.rotation.cross, self.rotation.squares + self.ridge)
        ).T

    def flows(self, W: np.ndarray) -> Flows:
        """Return the flows that hold W in place, whatever their length: for equal coefficients the best ones."""
        slope = self._negative_gradient(W) / len(W)
        flows = Flows(*W.shape)
        first, second = np.triu_indices(len(W), 1)
        flows.values[:] = slope[first] - slope[second]
        return flows

    def _negative_gradient(self, W: np.ndarray) -> np.ndarray:
        """Return minus the gradient of the loss and the ridge, (T, r)."""
        q = self.rotation.rotate(W.T)
        return (
            self.rotation.lift(self.rotation.cross - self.rotation.squares * q).T
            - self.ridge * W
        )


def solve_metag(
    data: TaskData,
    lam: float,
    *,
    ridge: float = 0.0,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 5000,
    space: RowSpace | None = None,
    start: SolverResult | None = None,
) -> SolverResult:
    """Minimize 1/2 sum_t ||y_t - X_t w_t - b_t||^2 + lam sum_{s<t} ||w_s - w_t||_2 + ridge/2 ||W||_F^2.

    Parameters
    ----------
    data : TaskData
    lam : float
        Not negative; 0 gives the solution of each task, of smallest norm.
    ridge : float, default 0.0
        Not negative.
    fit_intercept : bool, default True
    tol : float, default 1e-4
        Relative duality gap to stop at.
    max_iter : int, default 5000
    space : RowSpace, optional
        That of these data with this `fit_intercept`; made if it is not given.
    start : SolverResult, optional
        Of the same data and `space` with other strengths: begin there.

    Returns
    -------
    SolverResult
        One part; `info` holds where another run can start.
    """
    if space is None:
        space = RowSpace.of(data, fit_intercept)
    term = LeastSquares(space, ridge)
    gaps: list[tuple[int, float, float]] = []
    if lam == 0 or data.n_tasks == 1:
        W = term.alone()
        at = Node(W, Flows(*W.shape))
        gaps.append((1, term.value(W), term.bound(*at, 0.0)))
    else:
        if start is None:
            places = [_equal(term)]
        else:
            places = [_equal(term), start.info["at"]]
        at = min(
            places,
            key=lambda point: term.value(point.W) + lam * pair_distances(point.W),
        )
        at = _descend(term, at, lam, tol, max_iter, gaps)
    it, primal, dual = gaps[-1]
    gap = relative_gap(primal, dual, null=term.null)
    return SolverResult(
        parts=space.lift(np.ascontiguousarray(at.W.T)[None]),
        intercept=space.rotation.intercept(at.W.T),
        converged=gap <= tol,
        n_iter=it,
        objective=[value for _, value, _ in gaps],
        gap=gap,
        gaps=gaps,
        stop_crit=gap,
        message=f"relative duality gap {gap:.2e} against tol {tol:g}",
        info={"at": at},
    )


class Node(NamedTuple):
    """Coefficients (T, r) in coordinates, and flows."""

    W: np.ndarray
    flows: Flows


def _equal(term: LeastSquares) -> Node:
    """Return the best place where all tasks have equal coefficients: the solution if no flow is longer than lam."""
    W = term.centre(
        np.zeros((term.rotation.data.n_tasks, term.rotation.data.n_features))
    )
    return Node(W, term.flows(W))


def _descend(
    term: LeastSquares,
    at: Node,
    lam: float,
    tol: float,
    max_iter: int,
    gaps: list[tuple[int, float, float]],
) -> Node:
    """Run `fuse` in rounds, each beginning with short trials of the step of the flows; append to `gaps`."""

    def value(W: np.ndarray) -> float:
        return term.value(W) + lam * pair_distances(W)

    W, flows = at.W, at.flows.copy()
    flows.shrink_to(lam)
    squares = term.rotation.squares
    sigma = 1.0
    if np.any(squares > 0):
        sigma = _FIRST * float(squares[squares > 0].mean()) / len(W)
    done = 0
    best = value(W)
    bound = term.bound(W, flows, lam)
    gaps.append((1, best, bound))
    while done < max_iter and relative_gap(best, bound, null=term.null) > tol:
        goal = tol * gap_scale(best, bound, term.null)
        trials = []
        for factor in _TRIALS:
            own_flows = flows.copy()
            length = min(_TRIAL_LENGTH, max_iter - done)
            trials.append(
                (
                    fuse(
                        W,
                        term,
                        lam,
                        own_flows,
                        sigma=factor * sigma,
                        tol=goal,
                        max_iter=length,
                    ),
                    own_flows,
                    factor * sigma,
                )
            )
            if trials[-1][0].converged:
                break
        candidate, flows, sigma = min(
            trials, key=lambda trial: trial[0].primal - trial[0].bound
        )
        done += candidate.n_iter
        bound = max(bound, candidate.bound)
        if not candidate.converged:
            length = min(_ROUND, max(max_iter - done, 1))
            candidate = fuse(
                candidate.W, term, lam, flows, sigma=sigma, tol=goal, max_iter=length
            )
            done += candidate.n_iter
            bound = max(bound, candidate.bound)
        if candidate.primal < best:
            W = term.centre(candidate.W)
            best = min(candidate.primal, value(W))
        gaps.append((done, best, bound))
    return Node(W, flows)


# ---------------------------------------------------------------------- groups that share a subspace

Groups = list[list[int]]

# A move must gain more than this, relative to the total.
_GAIN = 1e-9


def _price(root: np.ndarray, group: list[int]) -> float:
    """Return ||W_g||_*^2 of the columns of a group."""
    return trace_norm(root[:, group]) ** 2


def _root(W: np.ndarray) -> np.ndarray:
    """Return R of W = QR: a small matrix with the singular values of W, to full precision."""
    return np.linalg.qr(W).R


def random_groups(n_tasks: int, n_groups: int, rng: np.random.RandomState) -> Groups:
    """Return random groups, none of them empty."""
    order = rng.permutation(n_tasks)
    owner = np.append(
        np.arange(n_groups), rng.randint(n_groups, size=n_tasks - n_groups)
    )
    return sorted(sorted(order[owner == g].tolist()) for g in range(n_groups))


def merge_tasks(W: np.ndarray, n_groups: int) -> Groups:
    """Start with each task by itself and merge, again and again, the two groups that raise sum_g ||W_g||_*^2 least.

    Parameters
    ----------
    W : ndarray of shape (d, T)
    n_groups : int
        At most T.
    """
    root = _root(W)
    groups: Groups = [[t] for t in range(root.shape[1])]
    price = [_price(root, g) for g in groups]
    rise = np.full((len(groups), len(groups)), np.inf)
    for a in range(len(groups)):
        for b in range(a):
            rise[a, b] = _price(root, [a, b]) - price[a] - price[b]
    while len(groups) > n_groups:
        a, b = divmod(int(np.argmin(rise)), len(groups))  # b < a
        groups[b] = sorted(groups[b] + groups.pop(a))
        price.pop(a)
        rise = np.delete(np.delete(rise, a, axis=0), a, axis=1)
        price[b] = _price(root, groups[b])
        for c in range(len(groups)):
            if c != b:
                both = groups[b] + groups[c]
                rise[max(b, c), min(b, c)] = _price(root, both) - price[b] - price[c]
    return sorted(groups)


def move_tasks(W: np.ndarray, groups: Groups) -> Groups:
    """Move single tasks to other groups as long as that lowers sum_g ||W_g||_*^2; no group becomes empty."""
    root = _root(W)
    groups = [list(g) for g in groups]
    price = [_price(root, g) for g in groups]
    improved = True
    while improved:
        improved = False
        for t in range(root.shape[1]):
            home = next(k for k, g in enumerate(groups) if t in g)
            rest = [s for s in groups[home] if s != t]
            if not rest:
                continue
            left = _price(root, rest)
            joined = [_price(root, [*g, t]) for g in groups]
            change = [
                joined[k] - price[k] + left - price[home] for k in range(len(groups))
            ]
            change[home] = 0.0
            best = int(np.argmin(change))
            if change[best] < -_GAIN * sum(price):
                groups[home], groups[best] = rest, sorted([*groups[best], t])
                price[home], price[best] = left, joined[best]
                improved = True
    return sorted(groups)
