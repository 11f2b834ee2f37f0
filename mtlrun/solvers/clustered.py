"""Solvers for clusters of tasks.

Clusters are co-clusters of tasks and features (`solve_coclus`), tasks pulled together
in pairs (`solve_metag`), or groups of tasks that share a subspace (`merge_tasks`,
`move_tasks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from mtlrun.penalties.norms import small_gram, trace_norm
from mtlrun.problem.losses import Loss
from mtlrun.problem.objective import gap_scale, relative_gap
from mtlrun.problem.quadratic import BADLY_SCALED
from mtlrun.problem.result import RemainingDecrease, SolverResult
from mtlrun.problem.rotation import Rotation, RowSpace
from mtlrun.problem.taskdata import Array, TaskData, quotient
from mtlrun.solvers.pairwise import Flows, Fused, TaskTerm, fuse, pair_distances

# ------------------------------------------------ co-clusters of tasks and features
#
# A part near the mean of the tasks plus a part of low rank, not convex.

# The equations for W are solved to this share of their residual at the last W, within
# this many steps: the next round changes the equations, so that more is wasted.
_INNER = 1e-1
_INNER_STEPS = 50
# How often parts and subspace are matched to one W.
_MATCHES = 5
# On columns of mixed scales, rounding can stop the steps early. They have stalled if a
# step for each task separately would still gain this part of the objective.
_STALLED = 1e-3
# Eigenvalues of a (T, T) matrix below this, relative to the largest, are zero.
_ROUNDING = 1e-12


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
    """Fit a part P near the mean of the tasks plus a part Q of low rank.

    The objective is ``loss(P + Q) + shared sum_t ||p_t - mean||^2 + low_rank sum_{i>k}
    sigma_i(Q)^2 + ridge ||P + Q||^2``.

    Let S be the projector on the subspace of tasks that the k leading right singular
    vectors of Q span. Then the term of `low_rank` is the smallest ||Q (I - S)||^2 over
    subspaces. For a given S, the best parts of W = P + Q are linear in W and leave a
    quadratic form tr(W A W') with a (T, T) matrix A. The solver therefore alternates
    two steps, none of which raises the objective: it updates W by conjugate gradients
    (preconditioned with the eigenbases of the tasks), then P, Q and S in closed form. A
    loss other than the squared one is replaced by its quadratic upper bound at the last
    W. At first S is zero, so that all of Q is penalized.

    Parameters
    ----------
    data : TaskData
    loss : Loss
        Smooth.
    shared, low_rank : float
        Non-negative.
    k : int
        Rank that is not penalized, at least 1.
    ridge : float, default 0.0
        Non-negative.
    fit_intercept : bool, default True
    tol : float, default 1e-5
        Stop when further rounds would lower the objective by at most this fraction of
        the objective at zero, as the rate of the last rounds predicts: see
        `RemainingDecrease`.
    max_iter : int, default 500
        Rounds.
    space : RowSpace, optional
        Row space of these data with this `fit_intercept`; computed if it is not given.

    Returns
    -------
    SolverResult
        parts (P, Q); `gap` is None (the problem is not convex), `stop_crit` the
        fraction that `tol` bounds.
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
    null = objective[0]
    stop = RemainingDecrease()
    converged = False
    share = np.zeros_like(subspace)
    for _ in range(max_iter):
        A = tasks.coupling(subspace)
        new, new_b = equations.solve(W, b, A)
        if not np.isfinite(new).all():
            break
        W = new
        b = new_b
        subspace, share = tasks.match(W, subspace)
        objective.append(equations.value(W, b) + tasks.value(W, share))
        stop.add(objective[-1], unit=null or 1.0, size=null)
        if stop.remaining <= tol:
            converged = True
            break
    Q = W @ share
    parts = np.stack([W - Q, Q])
    message = f"a fraction of {stop.remaining:.1e} is left, against tol {tol:g}"
    stalls = False
    if space.rotation.graded:
        gain = equations.gain(W, b, tasks.coupling(subspace))
        stalls = gain > _STALLED * objective[-1]
    if stalls:
        message += ", but steps stall: X is too badly scaled"
    return SolverResult(
        parts=space.lift(parts),
        intercept=equations.intercept(W, b),
        converged=converged and not stalls,
        n_iter=max(1, len(objective) - 1),
        objective=objective,
        stop_crit=stop.remaining,
        message=message,
        info={BADLY_SCALED: stalls},
    )


@dataclass(frozen=True)
class _TaskSpace:
    """The penalty as a function of W and of a projector (T, T) of tasks."""

    n_tasks: int
    shared: float
    low_rank: float
    k: int
    ridge: float

    def _mixing(self, subspace: Array) -> tuple[Array, Array]:
        """Return the matrix of the best Q = W share, and low_rank (I - subspace).

        For a fixed W, Q minimizes tr(P of_P P') + tr(Q of_Q Q') with P = W - Q: the
        gradient vanishes for Q (of_P + of_Q) = W of_P.
        """
        eye = np.eye(self.n_tasks)
        of_P = self.shared * (eye - 1.0 / self.n_tasks)
        of_Q = self.low_rank * (eye - subspace)
        inverse = np.linalg.pinv(of_P + of_Q, rcond=_ROUNDING, hermitian=True)
        return of_P @ inverse, of_Q

    def coupling(self, subspace: Array) -> Array:
        """Return A: the penalty of the best parts of W is tr(W A W')."""
        share, of_Q = self._mixing(subspace)
        A = share @ of_Q
        # Symmetric but for rounding.
        symmetric = np.asarray(0.5 * (A + A.T))
        return symmetric + self.ridge * np.eye(self.n_tasks)

    def match(self, W: Array, subspace: Array) -> tuple[Array, Array]:
        """Alternate subspace and parts a few times, which never raises the penalty.

        Return the subspace and the matrix of the best Q = W share.
        """
        gram = W.T @ W
        for _ in range(_MATCHES):
            share, _ = self._mixing(subspace)
            # Leading right singular vectors of Q = W share.
            _, vectors = np.linalg.eigh(share.T @ gram @ share)
            leading = vectors[:, -self.k :]
            subspace = leading @ leading.T
        share, _ = self._mixing(subspace)
        return subspace, share

    def value(self, W: Array, share: Array) -> float:
        """Return the penalty of the parts P = W - W share and Q = W share."""
        Q = W @ share
        P = W - Q
        deviations = P - P.mean(axis=1, keepdims=True)
        of_P = float(np.vdot(deviations, deviations))
        eigenvalues = np.linalg.eigvalsh(small_gram(Q))
        # Eigenvalues that are zero can be negative by rounding.
        of_Q = float(np.maximum(np.sort(eigenvalues)[::-1][self.k :], 0.0).sum())
        of_W = float(np.vdot(W, W))
        return self.shared * of_P + self.low_rank * of_Q + self.ridge * of_W


class _Equations:
    """Equations for W and b that minimize a quadratic bound of loss(W, b) + tr(W A W').

    The bound replaces the loss by a quadratic function that touches it from above at
    the last W and b. The intercepts b belong to centered designs.
    """

    def __init__(self, rotation: Rotation, loss: Loss) -> None:
        self.rotation = rotation
        self.loss = loss
        self.data = rotation.data
        self.weights = self.data.effective_weights()
        self.total = self.data.sum_by_task(self.data.full_weights())

    def value(self, W: Array, b: Array) -> float:
        """Return the loss."""
        scores = self._scores(W, b)
        return self.loss.value(scores, self.data.targets, self.weights)

    def solve(self, W: Array, b: Array, A: Array) -> tuple[Array, Array]:
        """Return W and b after some steps of conjugate gradients from W and b."""
        c = float(self.loss.curvature)
        rotation = self.rotation
        slope, residual = self._slopes(W, b, A)
        if rotation.fit_intercept:
            # Centered designs: the step of b does not depend on the step of W.
            b = b - self.data.sum_by_task(slope) / (c * self.total)

        def apply(v: Array) -> Array:
            V = v.reshape(W.shape)
            in_basis = rotation.squares * rotation.rotate(V)
            loss_part = c * rotation.lift(in_basis)
            return np.ravel(loss_part + 2.0 * (V @ A))

        def precondition(v: Array) -> Array:
            V = v.reshape(W.shape)
            return np.ravel(self._solve_uncoupled(V, A))

        shape = (W.size, W.size)
        hessian = LinearOperator(shape, apply, dtype=np.float64)
        preconditioner = LinearOperator(shape, precondition, dtype=np.float64)
        move, _ = cg(
            hessian,
            residual.ravel(),
            rtol=_INNER,
            maxiter=_INNER_STEPS,
            M=preconditioner,
        )
        return W + move.reshape(W.shape), b

    def gain(self, W: Array, b: Array, A: Array) -> float:
        """Estimate how much a step for each task separately would lower the bound."""
        _, residual = self._slopes(W, b, A)
        step = self._solve_uncoupled(residual, A)
        return 0.5 * float(np.vdot(residual, step))

    def _slopes(self, W: Array, b: Array, A: Array) -> tuple[Array, Array]:
        """Return the gradient in the predictions, and minus the gradient in W."""
        scores = self._scores(W, b)
        slope = self.loss.gradient(scores, self.data.targets, self.weights)
        of_loss = self.rotation.operator.adjoint(slope)
        return slope, -of_loss - 2.0 * (W @ A)

    def _solve_uncoupled(self, V: Array, A: Array) -> Array:
        """Return the solution for the right-hand side V if only diag(A) mattered.

        In the eigenbasis of a task the equations are diagonal. Outside the row space of
        the task, only A is left of them.
        """
        curvature = float(self.loss.curvature) * self.rotation.squares
        diagonal = 2.0 * np.diag(A)
        total = curvature + diagonal
        with np.errstate(divide="ignore"):
            inverse = np.where(total > 0, 1.0 / total, 0.0)
            outer_inverse = np.where(diagonal > 0, 1.0 / diagonal, 0.0)
        in_basis = self.rotation.rotate(V)
        outside = V - self.rotation.lift(in_basis)
        inside = self.rotation.lift(inverse * in_basis)
        return np.asarray(inside + outer_inverse * outside)

    def intercept(self, W: Array, b: Array) -> Array:
        """Return the intercepts of designs that are not centered."""
        return self.rotation.uncentred(W, b)

    def _scores(self, W: Array, b: Array) -> Array:
        return self.rotation.operator.forward(W, b)


# ------------------------------------------------ tasks pulled together in pairs
#
# Least squares by the iteration of `mtlrun.solvers.pairwise`.

# The first step of the flows is this part of the typical curvature.
_FIRST = 0.3
# No step is best for all data: these multiples of the last step are tried for some
# iterations, in this order, until one solves the problem. The best one goes on.
_TRIALS = (1.0, 0.1, 10.0)
_TRIAL_LENGTH = 30
# Iterations between trials.
_ROUND = 300


class LeastSquares(TaskTerm):
    """Squared loss with ridge, 1/2 sum_t ||y_t - X_t w_t||^2 + ridge/2 ||W||_F^2.

    Rows are weighted, and centered where intercepts are fitted.

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

    def prox(self, V: Array, weight: float) -> Array:
        # With the ridge, the prox is the one of the loss at a shrunken V, with a larger
        # weight.
        V = (weight / (weight + self.ridge)) * V
        weight = weight + self.ridge
        rotation = self.rotation
        q = rotation.rotate(V.T)
        slope = rotation.cross - rotation.squares * q
        moved = slope / (rotation.squares + weight)
        return V + rotation.lift(moved).T

    def value(self, W: Array) -> float:
        loss = self.rotation.value(self.rotation.rotate(W.T))
        square = float(np.vdot(W, W))
        return loss + 0.5 * self.ridge * square

    def bound(self, W: Array, flows: Flows, lam: float) -> float:
        if not self.ridge > 0:
            return self._dual(W, flows, lam)
        # The minimum over W of the loss, the ridge and <div p, W>
        rotation = self.rotation
        pull = flows.divergence().T
        inside = rotation.rotate(pull)
        # Squares of the part outside the row spaces, which only the ridge holds.
        total_square = float(np.sum(pull * pull))
        inside_square = float(np.sum(inside * inside))
        outside = total_square - inside_square
        curvature = rotation.squares + self.ridge
        gain = np.square(rotation.cross - inside) / curvature
        loss_part = 0.5 * float(rotation.energy.sum() - gain.sum())
        return loss_part - 0.5 * max(outside, 0.0) / self.ridge

    def _dual(self, W: Array, flows: Flows, lam: float) -> float:
        """Return the dual value at the residuals of W, made feasible.

        A dual point theta needs X_t'theta_t = div p_t with flows of norm at most lam.
        Moving all tasks by one vector (a pooled least-squares fit) makes sum_t
        X_t'theta_t = 0. The remaining difference between X'theta and div p is spread
        evenly over the pairs. Then everything is scaled.
        """
        rotation = self.rotation
        n_tasks = len(W)
        W = self.center(W)
        slope = self._negative_gradient(W)
        rest = (slope - flows.divergence()) / n_tasks
        first, second = np.triu_indices(n_tasks, 1)
        balanced = flows.values + rest[first] - rest[second]
        lengths = np.linalg.norm(balanced, axis=1)
        longest = float(lengths.max(initial=0.0))
        scale = 1.0
        if not longest <= lam:
            scale = lam / longest
        q = rotation.rotate(W.T)
        return max(0.0, rotation.dual_fit(q, scale))

    def center(self, W: Array) -> Array:
        """Return W with all tasks moved by the vector that lowers loss and ridge most.

        Differences between tasks, and with them the penalty, stay the same.
        """
        values, vectors = self.space.pooled
        slope = self._negative_gradient(W).sum(axis=0)
        along = vectors.T @ slope
        # All tasks together: their ridge terms add up.
        ridge = len(W) * self.ridge
        move = vectors @ (along / (values + ridge))
        if self.ridge > 0:
            outside = slope - vectors @ along
            move += outside / ridge
        return W + move

    def separate_solutions(self) -> Array:
        """Return the solution of each task for lam = 0, of smallest norm, (T, d)."""
        curvature = self.rotation.squares + self.ridge
        q = quotient(self.rotation.cross, curvature)
        return self.rotation.lift(q).T

    def flows(self, W: Array) -> Flows:
        """Return flows of any length that hold W in place.

        For equal coefficients they are the best ones.
        """
        slope = self._negative_gradient(W) / len(W)
        flows = Flows(*W.shape)
        first, second = np.triu_indices(len(W), 1)
        flows.values[:] = slope[first] - slope[second]
        return flows

    def _negative_gradient(self, W: Array) -> Array:
        """Return minus the gradient of the loss and the ridge, (T, r)."""
        rotation = self.rotation
        slope = rotation.cross - rotation.squares * rotation.rotate(W.T)
        return rotation.lift(slope).T - self.ridge * W


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
    """Fit least squares with tasks pulled together in pairs.

    The objective is ``1/2 sum_t ||y_t - X_t w_t - b_t||^2 + lam sum_{s<t} ||w_s -
    w_t||_2 + ridge/2 ||W||_F^2``.

    Parameters
    ----------
    data : TaskData
    lam : float
        Non-negative; 0 gives the solution of each task, of smallest norm.
    ridge : float, default 0.0
        Non-negative.
    fit_intercept : bool, default True
    tol : float, default 1e-4
        Relative duality gap to stop at.
    max_iter : int, default 5000
    space : RowSpace, optional
        Row space of these data with this `fit_intercept`; computed if it is not given.
    start : SolverResult, optional
        Solution with other strengths for the same data and `space`, to start from.

    Returns
    -------
    SolverResult
        One part; `info` holds the start of another run.
    """
    if space is None:
        space = RowSpace.of(data, fit_intercept)
    term = LeastSquares(space, ridge)
    gaps: list[tuple[int, float, float]] = []
    if lam == 0 or data.n_tasks == 1:
        W = term.separate_solutions()
        end = Node(W, Flows(*W.shape))
        gaps.append((1, term.value(W), term.bound(*end, 0.0)))
    else:
        # Equal in all tasks: the solution if no flow is longer than lam.
        W = term.center(np.zeros((data.n_tasks, term.rotation.data.n_features)))
        starts = [Node(W, term.flows(W))]
        if start is not None:
            starts.append(start.info["at"])

        def objective(node: Node) -> float:
            return term.value(node.W) + lam * pair_distances(node.W)

        best = min(starts, key=objective)
        end = _descend(term, best, lam, tol, max_iter, gaps)
    it, primal, dual = gaps[-1]
    gap = relative_gap(primal, dual, null=term.null)
    return SolverResult(
        parts=space.lift(np.ascontiguousarray(end.W.T)[None]),
        intercept=space.rotation.intercept(end.W.T),
        converged=gap <= tol,
        n_iter=it,
        objective=[value for _, value, _ in gaps],
        gap=gap,
        gaps=gaps,
        stop_crit=gap,
        message=f"relative duality gap {gap:.2e} against tol {tol:g}",
        info={"at": end},
    )


class Node(NamedTuple):
    """Coefficients (T, r) in coordinates, and flows."""

    W: Array
    flows: Flows


class _Trial(NamedTuple):
    """Iterations with one step of the flows."""

    result: Fused
    flows: Flows
    sigma: float


def _descend(
    term: LeastSquares,
    start: Node,
    lam: float,
    tol: float,
    max_iter: int,
    gaps: list[tuple[int, float, float]],
) -> Node:
    """Run `fuse` in rounds, and append to `gaps` after each.

    Each round starts with short trials of the step of the flows.
    """

    def value(W: Array) -> float:
        return term.value(W) + lam * pair_distances(W)

    W = start.W
    flows = start.flows.copy()
    flows.shrink_to(lam)
    squares = term.rotation.squares
    sigma = 1.0
    if np.any(squares > 0):
        typical_curvature = float(squares[squares > 0].mean())
        sigma = _FIRST * typical_curvature / len(W)
    done = 0
    best = value(W)
    bound = term.bound(W, flows, lam)
    gaps.append((1, best, bound))
    while done < max_iter and relative_gap(best, bound, null=term.null) > tol:
        goal = tol * gap_scale(best, bound, term.null)
        trials: list[_Trial] = []
        for factor in _TRIALS:
            trial_flows = flows.copy()
            trial_sigma = factor * sigma
            result = fuse(
                W,
                term,
                lam,
                trial_flows,
                sigma=trial_sigma,
                tol=goal,
                max_iter=min(_TRIAL_LENGTH, max_iter - done),
            )
            trials.append(_Trial(result, trial_flows, trial_sigma))
            if result.converged:
                break
        candidate, flows, sigma = min(
            trials, key=lambda trial: trial.result.primal - trial.result.bound
        )
        done += candidate.n_iter
        bound = max(bound, candidate.bound)
        if not candidate.converged:
            length = min(_ROUND, max(max_iter - done, 1))
            candidate = fuse(
                candidate.W,
                term,
                lam,
                flows,
                sigma=sigma,
                tol=goal,
                max_iter=length,
            )
            done += candidate.n_iter
            bound = max(bound, candidate.bound)
        if candidate.primal < best:
            W = term.center(candidate.W)
            best = min(candidate.primal, value(W))
        gaps.append((done, best, bound))
    return Node(W, flows)


# -------------------------------------------------------- groups that share a subspace

Groups = list[list[int]]

# A move must gain more than this, relative to the total: rounding cannot cause cycles.
_GAIN = 1e-9


def _price(root: Array, group: list[int]) -> float:
    """Return ||W_g||_*^2 of the columns of a group."""
    return trace_norm(root[:, group]) ** 2


def _root(W: Array) -> Array:
    """Return R of W = QR, a small matrix with the singular values of W.

    They have full precision, which the eigenvalues of W'W have not.
    """
    return np.linalg.qr(W).R


def random_groups(n_tasks: int, n_groups: int, rng: np.random.RandomState) -> Groups:
    """Return random groups, none of them empty."""
    order = rng.permutation(n_tasks)
    # The first tasks of the order go to different groups.
    random_labels = rng.randint(n_groups, size=n_tasks - n_groups)
    labels = np.append(np.arange(n_groups), random_labels)
    groups = [sorted(order[labels == g].tolist()) for g in range(n_groups)]
    return sorted(groups)


def merge_tasks(W: Array, n_groups: int) -> Groups:
    """Cluster tasks bottom-up by sum_g ||W_g||_*^2.

    Each task starts in a group of its own. The two groups whose union raises the sum
    least are merged until `n_groups` are left.

    Parameters
    ----------
    W : ndarray of shape (d, T)
    n_groups : int
        At most T.
    """
    root = _root(W)
    n_tasks = root.shape[1]
    groups: Groups = [[t] for t in range(n_tasks)]
    price = [_price(root, g) for g in groups]
    # Only the triangle with b < a is finite.
    rise = np.full((n_tasks, n_tasks), np.inf)
    for a in range(n_tasks):
        for b in range(a):
            rise[a, b] = _price(root, [a, b]) - price[a] - price[b]
    while len(groups) > n_groups:
        smallest = int(np.argmin(rise))
        a, b = divmod(smallest, len(groups))
        groups[b] = sorted(groups[b] + groups.pop(a))
        price.pop(a)
        rise = np.delete(rise, a, axis=0)
        rise = np.delete(rise, a, axis=1)
        price[b] = _price(root, groups[b])
        for c in range(len(groups)):
            if c == b:
                continue
            union = groups[b] + groups[c]
            row = max(b, c)
            column = min(b, c)
            rise[row, column] = _price(root, union) - price[b] - price[c]
    return sorted(groups)


def move_tasks(W: Array, groups: Groups) -> Groups:
    """Move single tasks to other groups while that lowers sum_g ||W_g||_*^2.

    No group becomes empty.
    """
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
            rest_price = _price(root, rest)
            joined_prices = [_price(root, [*group, t]) for group in groups]
            changes = []
            for joined_price, old_price in zip(joined_prices, price, strict=True):
                change = joined_price - old_price + rest_price - price[home]
                changes.append(change)
            # The task may stay where it is.
            changes[home] = 0.0
            best = int(np.argmin(changes))
            if changes[best] < -_GAIN * sum(price):
                groups[home] = rest
                groups[best] = sorted([*groups[best], t])
                price[home] = rest_price
                price[best] = joined_prices[best]
                improved = True
    return sorted(groups)
