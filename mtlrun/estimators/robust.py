"""Robust multi-task learning: a low-rank part shared by the tasks plus outlier
tasks, whole or on blocks of tasks.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY, replace
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import scipy.linalg
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from mtlrun.estimators.base import BaseMTL, ClassifierMTL, RegressorMTL
from mtlrun.estimators.convex import (
    ClassLoss,
    ConvexClassifierMTL,
    ConvexMTL,
    Intercepts,
    PathMTL,
)
from mtlrun.estimators.metadata import SPECTRAL_COST, MethodMetadata
from mtlrun.estimators.mixtures import warn_if_degenerate
from mtlrun.estimators.params import (
    NONE,
    ClassWeight,
    Count,
    NonNegative,
    Positive,
    TaskColumn,
    Unseen,
    check_params,
    choice,
    instance,
)
from mtlrun.penalties.norms import L12, TraceNorm
from mtlrun.problem.losses import LOSSES, Loss
from mtlrun.problem.objective import optimal_intercept, primal_value
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.rotation import Rotation, SharedRotation, find_basis
from mtlrun.problem.taskdata import Array, TaskData
from mtlrun.solvers.robust import solve_apg, solve_ladm

#: Solvers of the paper, which have its variant and its stopping rules.
_PAPER_SOLVERS = ("apg", "ladm")

RobustSolver = Annotated[
    str, choice("auto", "admm", "subspace", "fista", "apg", "ladm")
]
RobustVariant = Literal[
    "corrected",
    "accelerated",
    "balanced",
    "sequential",
    "paper",
    "paper-past-zero",
    "backtracking",
]
RobustStop = Literal["auto", "gap", "paper"]
RobustForm = Literal["eigenbasis", "paper"]
Partition = Literal["random", "contiguous", "clustered"]
Projection = Literal["first", "best", "none"]
#: Model that is fitted to the blocks of tasks.
ConvexBase = Annotated[
    ConvexMTL | None,
    instance("an estimator with a convex objective, as RobustMTL", ConvexMTL) | NONE,
]


class _Robust(PathMTL):
    """||L||_* + lam ||E||_{1,2} + beta * loss.

    Parameters
    ----------
    lam : float, default 0.5
        Price of an outlier task relative to the trace norm.
    beta : float, default 1.0
        Weight of the loss; larger values mean less regularization.
    solver : {"auto", "admm", "subspace", "fista", "apg", "ladm"}, default "auto"
        "admm": two-block ADMM in eigenbases of the designs, which is "auto" unless the
        bases would take more than 2 GB, or for classification (but by the squared loss)
        with at most 2000 labels; then "auto" is "fista". "subspace": descent over small
        subspaces without an eigenbasis, which is "auto" for the squared loss on a
        shared design of thousands of rows and features without missing targets. "apg":
        the accelerated gradient method of Chen et al. "ladm": the linearized
        alternating direction method of Pan et al.
    variant : str, default "corrected"
        For "apg" and "ladm": as printed ("paper"), or what must have been meant
        ("corrected"). APG as printed takes a full SVD in every iteration; corrected it
        restarts and uses the smaller Gram matrix; "backtracking" (with
        ``form="paper"``) doubles a first curvature and forgets every product, as a
        public implementation does. LADM as printed for least squares solves ``min
        ||L||_* + lam sum_t ||e_t||_2`` subject to ``y_t = X_t w_t``, in which `beta`
        has no part (`objective_` still is the value of the objective above), and its
        penalty parameter starts so small that it often stops at zero ("paper-past-zero"
        is the same, but does not stop there). The others solve the objective above:
        "corrected" in both parts at once, with a penalty parameter that grows from the
        printed start; "sequential" with the printed order and length of the steps, one
        part after the other; "accelerated" as "corrected", but with a penalty parameter
        that falls from the curvature of the loss on, which reaches a small duality gap
        in the fewest iterations; "balanced" lets it fall no further than the parts can
        follow, which saves most iterations where there is little regularization.
    stop : {"auto", "gap", "paper"}, default "auto"
        Relative duality gap `tol`, or the paper's relative changes (25)/(26) with `eps`
        (for "apg" and "ladm", for the latter together with a test of feasibility).
        "auto" is "gap", but "paper" for APG as printed and for LADM that is neither
        accelerated nor balanced.
    form : {"eigenbasis", "paper"}, default "eigenbasis"
        For "apg" and "ladm": with the squared loss on a shared design in an eigenbasis
        of it, which changes no iterate; or as in the paper with products of `X` itself
        and the full SVD of each iterate, which takes longer.
    eps : float, default 1e-5
        For the paper's stopping rules.

    Attributes
    ----------
    low_rank_, outlier_ : ndarray of shape (n_tasks, n_features)
        The two parts L' and E'; their sum is `coef_`.
    stop_crit_ : float
        Last value of the stopping rule: the duality gap, or the paper's relative
        change.

    Notes
    -----
    The scaling is the paper's: the loss carries `beta`, without 1/2, and the trace norm
    carries no factor.

    Both parts can be non-zero only for ``1/sqrt(n_tasks) < lam < 1``: for ``lam >= 1``
    E is zero and the model is the trace norm; for ``lam <= 1/sqrt(n_tasks)`` L is zero
    and the tasks are separate. Outside of this interval `fit` gives a
    `DegenerateModelWarning`. The paper has no intercepts.

    References
    ----------
    J. Chen, J. Zhou and J. Ye, "Integrating low-rank and group-sparse structures for
    robust multi-task learning", KDD 2011. Y. Pan, R. Xia, J. Yin and N. Liu, "A
    divide-and-conquer method for scalable robust multitask learning", IEEE Transactions
    on Neural Networks and Learning Systems, 2015.
    """

    metadata = MethodMetadata(
        cite=("chen2011", "pan2015"),
        elsewhere={
            "MALSAR `Least_RMTL` (no 1/2)": "lam = rho2 / rho1, beta = 1 / rho1"
        },
        complexity=SPECTRAL_COST,
        default_grid={
            "lam": (0.2, 0.3, 0.5, 0.7),
            "beta": (0.001, 0.01, 0.1, 1.0, 10.0),
        },
        search=lambda scale: {
            "lam": scale.ratios(),
            "beta": scale.inverse((0.4, 0.1, 0.02, 0.005, 0.001), 0.5, 2),
        },
        fast={"solver": "auto", "variant": "corrected"},
    )
    _part_names = ("low_rank_", "outlier_")

    lam: Positive = 0.5
    beta: Positive = 1.0
    _: KW_ONLY
    solver: RobustSolver = "auto"
    variant: RobustVariant = "corrected"
    stop: RobustStop = "auto"
    form: RobustForm = "eigenbasis"
    eps: Positive = 1e-5

    def _penalties(self) -> list[Penalty]:
        return [TraceNorm(1.0), L12(float(self.lam))]

    def _at(self, alpha: float) -> Self:
        model = copy(self)
        # The objective is then that of strength alpha, divided by alpha.
        model.beta = 1.0 / alpha
        return model

    def _loss(self) -> Loss:
        name = getattr(self, "loss", "squared")
        # beta multiplies whole squares, the losses of the core carry 1/2; the logistic
        # loss has no such factor.
        return LOSSES[name](self.beta if name == "logistic" else 2.0 * self.beta)

    def _solve(
        self,
        data: TaskData,
        *,
        start: SolverResult | None = None,
        rotation: Rotation | None = None,
    ) -> SolverResult:
        if self.solver not in _PAPER_SOLVERS:
            for name, default in (
                ("variant", "corrected"),
                ("stop", "auto"),
                ("form", "eigenbasis"),
            ):
                value = getattr(self, name)
                if value not in (default, "gap"):
                    raise ValueError(
                        f"{name}={value!r} needs solver='apg' or 'ladm', got "
                        f"solver={self.solver!r}"
                    )
            return super()._solve(data, start=start, rotation=rotation)
        self._warn_of(data)
        options: dict[str, Any] = {
            "eps": self.eps,
            "form": self.form,
            "stop": self._stop(),
            "tol": self.tol,
            "start": start,
            "rotation": rotation,
            "fit_intercept": self._solves_intercepts,
            "max_iter": self.max_iter,
        }
        if self.solver == "apg":
            if self.variant in (
                "sequential",
                "accelerated",
                "balanced",
                "paper-past-zero",
            ):
                raise ValueError(
                    f"variant={self.variant!r} needs solver='ladm', got solver='apg'"
                )
            options["variant"] = "fast" if self.variant == "corrected" else self.variant
            return solve_apg(data, self._loss(), self._penalties(), **options)
        if self.variant == "backtracking":
            raise ValueError(
                "variant='backtracking' needs solver='apg', got solver='ladm'"
            )
        result = solve_ladm(
            data, self._loss(), self._penalties(), variant=self.variant, **options
        )
        if (
            result.info["objective"] == "constrained"
        ):  # as printed for least squares, in place of the loss
            value = primal_value(
                data, self._loss(), self._penalties(), result.parts, result.intercept
            )
            result.objective = [value]
        return result

    def _warn_of(self, data: TaskData) -> None:
        warn_if_degenerate(self, data)

    def _decompose(self, data: TaskData) -> Rotation | None:
        if self.solver not in _PAPER_SOLVERS:
            return super()._decompose(data)
        if self.form == "paper":
            return None
        return find_basis(
            data,
            self._loss(),
            self._penalties(),
            self._solves_intercepts,
            weighted=self.solver == "apg",
        )

    def _stop(self) -> str:
        if self.stop != "auto":
            return self.stop
        grows = self.solver == "ladm" and self.variant not in (
            "accelerated",
            "balanced",
        )
        if self.variant == "paper" or grows:
            return "paper"
        return "gap"

    def _knob(self) -> str:
        if self._stop() == "paper":
            return "eps"
        return "tol"


class RobustMTL(RegressorMTL, _Robust):
    """Multi-task regression with low rank plus outlier tasks (robust multi-task
    learning, RMTL).

    The coefficients W = L + E (one column per task) minimize::

        ||L||_* + lam sum_t ||e_t||_2 + beta sum_t ||y_t - X_t (l_t + e_t) - b_t||^2

    The tasks share the low-rank part L; a task whose column of E is not zero is an
    outlier with a model of its own.

    Examples
    --------
    Nine tasks with one common direction, and one task of its own:

    >>> import numpy as np
    >>> from mtlrun.estimators import RobustMTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 5))
    >>> W = np.outer([1, 2, 3, 0, 0], np.arange(1, 11)).astype(float)
    >>> W[:, 9] = [0, 0, 0, 50, -50]
    >>> model = RobustMTL(lam=0.6, beta=1.0).fit(X, X @ W)
    >>> np.flatnonzero(np.linalg.norm(model.outlier_, axis=1) > 1).tolist()
    [9]
    """

    def __init__(
        self,
        lam: Positive = 0.5,
        beta: Positive = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: RobustSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        warm_start: bool = False,
        variant: RobustVariant = "corrected",
        stop: RobustStop = "auto",
        form: RobustForm = "eigenbasis",
        eps: Positive = 1e-5,
    ) -> None:
        self.lam = lam
        self.beta = beta
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.variant = variant
        self.stop = stop
        self.form = form
        self.eps = eps


class RobustMTLClassifier(ConvexClassifierMTL, _Robust):
    """Multi-task classification with low rank plus outlier tasks (robust multi-task
    learning, RMTL).

    The coefficients W = L + E minimize::

        ||L||_* + lam sum_t ||e_t||_2 + beta sum_t sum_i l(y_ti (x_ti'w_t + b_t))

    Parameters
    ----------
    loss : {"logistic", "squared_hinge", "squared"}, default "squared"
        Loss of the margin: log(1 + exp(-m)), max(0, 1 - m)^2, or (1 - m)^2. The squares
        have no factor 1/2 here.
    """

    def __init__(
        self,
        lam: Positive = 0.5,
        beta: Positive = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: RobustSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        warm_start: bool = False,
        variant: RobustVariant = "corrected",
        stop: RobustStop = "auto",
        form: RobustForm = "eigenbasis",
        eps: Positive = 1e-5,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "squared",
    ) -> None:
        self.lam = lam
        self.beta = beta
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.variant = variant
        self.stop = stop
        self.form = form
        self.eps = eps
        self.class_weight = class_weight
        self.loss = loss


class BlockFit(NamedTuple):
    """The result of the fit of one block."""

    result: SolverResult
    seconds: float
    warnings: list[tuple[type[Warning], str]]


class _Divide(BaseMTL):
    """Blocks, their fits and the projection.

    Parameters
    ----------
    base : RobustMTL or another convex model, default None
        The model fitted on the blocks; its part 0 is projected, and its intercepts are
        fitted again after the projection. None is ``RobustMTL()``. Nested parameters
        are set as ``base__lam`` and so on.
    n_blocks : int, default 10
        With fewer tasks than that, every task is a block.
    partition : {"random", "contiguous", "clustered"}, default "random"
        How tasks are put into blocks: shuffled (as in the paper), in their order, or
        similar tasks together (k-means on the directions of X_t'y_t). The blocks have
        the same sizes in all three.
    projection : {"first", "best", "none"}, default "first"
        The block that gives U: the first one as printed, or the one whose U keeps most
        of ``sum ||L_k||_F^2``.
    variant : {"corrected", "paper"}, default "corrected"
        When the low-rank part of the first block is zero: use the first block where it
        is not, or as printed project everything to zero.
    n_jobs : int or None, default None
        Number of processes (joblib, hence also a Dask backend chosen around the call);
        None is 1 outside of such a context.
    random_state : int, RandomState or None, default 0
        For the shuffle and k-means.

    Attributes
    ----------
    low_rank_, outlier_ : ndarray of shape (n_tasks, n_features)
        The two parts of `coef_`.
    blocks_ : list of ndarray
        Positions in `tasks_` of the tasks of each block.
    block_used_ : int or None
        The block whose low-rank part gave U.
    projection_rank_ : int or None
        Number of columns of U.
    block_seconds_ : ndarray of shape (number of blocks,)
        Seconds of each block: their sum is the work, their maximum the time on enough
        processors.
    setup_seconds_ : float
        Seconds of the decomposition that the blocks of a shared design have in common;
        not part of `block_seconds_`.
    objective_ : list of one float
        Objective of `base` on all tasks at the joined solution.
    gap_ : None
        The joined solution is not certified.
    stop_crit_ : float
        The worst of the blocks.
    n_iter_ : int
        Largest number of iterations of a block.
    converged_ : bool
        Whether all blocks converged.

    Notes
    -----
    A remainder of tasks forms one more block. Outlier parts are put side by side
    without a projection. In a block of l tasks robust multi-task learning mixes both
    parts for ``1/sqrt(l) < lam < 1``. The paper's "25%" is ``n_blocks=4``, its "10%"
    ``n_blocks=10``.

    References
    ----------
    Y. Pan, R. Xia, J. Yin and N. Liu, "A divide-and-conquer method for scalable robust
    multitask learning", IEEE Transactions on Neural Networks and Learning Systems,
    2015.
    """

    metadata = MethodMetadata(
        cite=("pan2015",),
        complexity=(
            "that of the base estimator with T / n_blocks tasks, n_blocks times, in "
            "parallel"
        ),
        default_params={"base": {"estimator": "RobustMTL"}},
        default_grid={
            "base__lam": (0.3, 0.5, 0.7),
            "base__beta": (0.001, 0.01, 0.1, 1.0, 10.0),
        },
        fast={"base__solver": "auto", "base__variant": "corrected"},
    )

    base: ConvexBase = None
    n_blocks: Count = 10
    _: KW_ONLY
    partition: Partition = "random"
    projection: Projection = "first"
    variant: Literal["corrected", "paper"] = "corrected"
    n_jobs: int | None = None
    random_state: Any = 0

    def _fit_data(self, data: TaskData) -> SolverResult:
        if self.base is None:
            base = RobustMTL()
        else:
            base = clone(self.base)
        check_params(base, base._rules)
        base._layout = self._layout
        if base._shrinks_intercepts:
            raise ValueError(
                "intercepts='shrunken' needs all tasks, and a block has some of them. "
                "Use a base with intercepts='free'"
            )
        loss = base._loss()
        loss.check_targets(data.targets, data.effective_weights())
        self.blocks_ = make_blocks(
            data, self.n_blocks, self.partition, self.random_state
        )
        # A shared design is decomposed once for all blocks.
        begin = time.perf_counter()
        rotation = None
        if data.shared:
            rotation = base._decompose(data)
        self.setup_seconds_ = time.perf_counter() - begin

        def calls() -> Iterator[Any]:
            # One block after the other, so that not all of them are in memory.
            for tasks in self.blocks_:
                block = data.subset_tasks(tasks)
                block_rotation = None
                if (
                    isinstance(rotation, SharedRotation)
                    and base._solver_for(block) != "fista"
                ):
                    block_rotation = rotation.retarget(base._designs(block))
                yield delayed(_fit_block)(base, block, block_rotation)

        fits: list[BlockFit] = list(Parallel(n_jobs=self.n_jobs)(calls()))
        self.block_seconds_ = np.array([fit.seconds for fit in fits])
        counts = Counter(warning for fit in fits for warning in set(fit.warnings))
        for (category, message), count in counts.items():
            warnings.warn(
                f"{count} of {len(fits)} blocks: {message}", category, stacklevel=3
            )
        parts = np.empty((len(fits[0].result.parts), data.n_features, data.n_tasks))
        intercept = np.empty(data.n_tasks)
        for tasks, fit in zip(self.blocks_, fits, strict=True):
            parts[:, :, tasks] = fit.result.parts
            intercept[tasks] = fit.result.intercept
        parts[0] = self._project(parts[0])
        if base.fit_intercept and self.block_used_ is not None:
            scores = TaskOperator(data).forward(parts.sum(axis=0))
            intercept = optimal_intercept(data, loss, scores, start=intercept)
        stop_crits = []
        for fit in fits:
            if fit.result.stop_crit is None:
                stop_crits.append(np.inf)
            else:
                stop_crits.append(fit.result.stop_crit)
        n_unconverged = sum(not fit.result.converged for fit in fits)
        return SolverResult(
            parts,
            intercept,
            converged=n_unconverged == 0,
            n_iter=max(fit.result.n_iter for fit in fits),
            objective=[primal_value(data, loss, base._penalties(), parts, intercept)],
            stop_crit=max(stop_crits),
            message=f"{n_unconverged} of {len(fits)} blocks did not converge",
        )

    def _project(self, low_rank: Array) -> Array:
        """Project all low-rank parts onto the column space of one block."""
        self.block_used_: int | None = None
        self.projection_rank_: int | None = None
        if self.projection == "none":
            return low_rank
        by_block = [low_rank[:, tasks] for tasks in self.blocks_]
        self.block_used_ = choose_block(
            by_block, self.projection, skip_zero=self.variant == "corrected"
        )
        U = column_space(by_block[self.block_used_])
        self.projection_rank_ = U.shape[1]
        return np.asarray(U @ (U.T @ low_rank))

    def _publish(self, result: SolverResult) -> None:
        self.low_rank_ = np.ascontiguousarray(result.parts[0].T)
        self.outlier_ = np.ascontiguousarray(result.parts[1:].sum(axis=0).T)
        super()._publish(result)

    def _convergence_message(self, result: SolverResult) -> str:
        return (
            f"{type(self).__name__}: {result.message} (worst stopping criterion "
            f"{result.stop_crit:.2g}, at most {result.n_iter} iterations). Increase "
            "base__max_iter, or accept a larger base__tol."
        )


def _fit_block(base: ConvexMTL, data: TaskData, rotation: Rotation | None) -> BlockFit:
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = base._solve(data, rotation=rotation)
    result.info.clear()  # the state of the solver need not travel between processes
    return BlockFit(
        result,
        time.perf_counter() - begin,
        [(w.category, str(w.message)) for w in caught],
    )


class DivideAndConquerRMTL(RegressorMTL, _Divide):
    """Robust multi-task regression on blocks of tasks, with the low-rank parts
    projected (DC-RMTL).

    The tasks are divided into `n_blocks` blocks of floor(n_tasks / n_blocks) tasks; the
    `base` model is solved on every block by itself, in parallel with `n_jobs`; the
    coefficients are put side by side, and the low-rank parts are projected on the
    column space of one block::

        for every block k:  min ||L_k||_* + lam sum_t ||e_t||_2 + beta sum_t ||y_t - X_t (l_t + e_t) - b_t||^2
        then  L <- U U'L,  U the left singular vectors of L_k for one block k

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import DivideAndConquerRMTL, RobustMTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 5))
    >>> Y = X @ np.outer([1, 2, 3, 0, 0], np.arange(1, 13))
    >>> model = DivideAndConquerRMTL(RobustMTL(lam=0.7), n_blocks=3).fit(X, Y)
    >>> [len(block) for block in model.blocks_], model.projection_rank_
    ([4, 4, 4], 1)
    """

    def __init__(
        self,
        base: ConvexBase = None,
        n_blocks: Count = 10,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        partition: Partition = "random",
        projection: Projection = "first",
        variant: Literal["corrected", "paper"] = "corrected",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.base = base
        self.n_blocks = n_blocks
        self.task_column = task_column
        self.unseen = unseen
        self.partition = partition
        self.projection = projection
        self.variant = variant
        self.n_jobs = n_jobs
        self.random_state = random_state


class DivideAndConquerRMTLClassifier(ClassifierMTL, _Divide):
    """Robust multi-task classification on blocks of tasks, with the low-rank parts
    projected (DC-RMTL).

    As `DivideAndConquerRMTL`, with the loss of `base`, which usually is a
    `RobustMTLClassifier`::

        for every block k:  min ||L_k||_* + lam sum_t ||e_t||_2 + beta sum_t sum_i l(y_ti (x_ti'w_t + b_t))
        then  L <- U U'L,  U the left singular vectors of L_k for one block k

    Without a `base` the squared loss on labels -1/+1 is used.
    """

    metadata = replace(
        _Divide.metadata,
        default_params={"base": {"estimator": "RobustMTLClassifier"}},
        losses=("logistic", "squared_hinge", "squared"),
    )

    def __init__(
        self,
        base: ConvexBase = None,
        n_blocks: Count = 10,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        partition: Partition = "random",
        projection: Projection = "first",
        variant: Literal["corrected", "paper"] = "corrected",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.base = base
        self.n_blocks = n_blocks
        self.task_column = task_column
        self.unseen = unseen
        self.partition = partition
        self.projection = projection
        self.variant = variant
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _is_logistic(self) -> bool:
        return self.base is not None and getattr(self.base, "loss", None) == "logistic"


def make_blocks(
    data: TaskData, n_blocks: int, partition: str, random_state: Any
) -> list[Array]:
    """Split the tasks into `n_blocks` blocks of floor(T / n_blocks); a remainder forms
    one more block.

    Parameters
    ----------
    data : TaskData
    n_blocks : int
        With fewer tasks than that, every task is a block.
    partition : {"random", "contiguous", "clustered"}
        Order in which the tasks are cut: shuffled, as they come, or sorted by the
        k-means cluster (k = `n_blocks`) of the direction of X_t'y_t, so that a block
        holds similar tasks. All give blocks of the same sizes.
    random_state : int, RandomState or None

    Returns
    -------
    list of ndarray
        Positions of the tasks of each block.
    """
    T = data.n_tasks
    n_blocks = min(n_blocks, T)
    random = check_random_state(random_state)
    if partition == "random":
        order = random.permutation(T)
    elif partition == "contiguous":
        order = np.arange(T)
    else:
        clusters = KMeans(n_blocks, n_init=3, random_state=random).fit_predict(
            _directions(data)
        )
        order = np.argsort(clusters, kind="stable")
    size = T // n_blocks
    return [order[start : start + size] for start in range(0, T, size)]


def _directions(data: TaskData) -> Array:
    """Return X_t'(y_t - mean) of each task with length one, shape (T, d)."""
    w = data.full_weights()
    centred = data.targets - data.spread(
        data.sum_by_task(w * data.targets) / data.sum_by_task(w)
    )
    directions = TaskOperator(data).adjoint(w * centred).T
    norms = np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions / np.where(norms > 0, norms, 1.0))


def column_space(L: Array) -> Array:
    """Return the left singular vectors of the compact SVD, shape (d, rank); none for
    a zero matrix.
    """
    U, s, _ = scipy.linalg.svd(L, full_matrices=False, check_finite=False)
    rank = 0
    if s.size and s[0] > 0:
        rank = int(np.sum(s > s[0] * max(L.shape) * np.finfo(np.float64).eps))
    return np.asarray(U[:, :rank])


def choose_block(low_rank: Sequence[Array], projection: str, *, skip_zero: bool) -> int:
    """Choose the block onto whose column space all low-rank parts are projected.

    Parameters
    ----------
    low_rank : sequence of ndarray of shape (d, size of the block)
    projection : {"first", "best"}
        Best: the space that keeps most of sum ||L_k||_F^2.
    skip_zero : bool
        With "first", take the first block that is not zero (when all are, block 0).
    """
    if projection == "best":
        stacked = np.hstack(list(low_rank))
        kept = [np.linalg.norm(column_space(L).T @ stacked) for L in low_rank]
        return int(np.argmax(kept))
    if not skip_zero:
        return 0
    return next((k for k, L in enumerate(low_rank) if np.any(L)), 0)
