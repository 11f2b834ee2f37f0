"""Divide and conquer: robust MTL on blocks of tasks, joined by a projection of the low-rank parts."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from mtlrun.estimators.base import COMMON_RULES, BaseMTL, ClassifierMTL, RegressorMTL
from mtlrun.estimators.convex import ConvexMTL
from mtlrun.estimators.params import NONE, Rule, check_params, choice, instance, integer
from mtlrun.estimators.partition import choose_block, column_space, make_blocks
from mtlrun.estimators.robust import RobustMTL
from mtlrun.problem.objective import optimal_intercept
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.quadratic import Rotation, SharedRotation
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]


class Block(NamedTuple):
    """What comes back from the fit of one block."""

    result: SolverResult
    seconds: float
    warnings: list[tuple[type[Warning], str]]


class _Divide(BaseMTL):
    """Blocks, their fits and the projection."""

    _rules: ClassVar[dict[str, Rule]] = {
        **COMMON_RULES,
        "base": instance("an estimator with a convex objective, as RobustMTL", ConvexMTL) | NONE,
        "n_blocks": integer(1),
        "partition": choice("random", "contiguous", "clustered"),
        "projection": choice("first", "best", "none"),
        "variant": choice("corrected", "paper"),
        "n_jobs": instance("an int", int, np.integer) | NONE,
    }
    base: ConvexMTL | None
    n_blocks: int
    partition: str
    projection: str
    variant: str
    n_jobs: int | None
    random_state: Any

    def _fit_data(self, data: TaskData) -> SolverResult:
        base = RobustMTL() if self.base is None else clone(self.base)
        check_params(base, base._rules)
        loss = base._loss()
        loss.check_targets(data.targets, data.effective_weights())
        self.blocks_ = make_blocks(data, self.n_blocks, self.partition, self.random_state)
        fits = self._fit_blocks(base, data)
        parts = np.empty((len(fits[0].result.parts), data.n_features, data.n_tasks))
        intercept = np.empty(data.n_tasks)
        for tasks, fit in zip(self.blocks_, fits, strict=True):
            parts[:, :, tasks] = fit.result.parts
            intercept[tasks] = fit.result.intercept
        parts[0] = self._project(parts[0])
        if base.fit_intercept and self.block_used_ is not None:
            scores = TaskOperator(data).forward(parts.sum(axis=0))
            intercept = optimal_intercept(data, loss, scores, start=intercept)
        return SolverResult(
            parts,
            intercept,
            converged=all(fit.result.converged for fit in fits),
            n_iter=max(fit.result.n_iter for fit in fits),
            objective=[base._objective(data, parts, intercept)],
            stop_crit=max(np.inf if fit.result.stop_crit is None else fit.result.stop_crit for fit in fits),
            message=f"{sum(not fit.result.converged for fit in fits)} of {len(fits)} blocks did not converge",
        )

    def _fit_blocks(self, base: ConvexMTL, data: TaskData) -> list[Block]:
        """Fit all blocks, in parallel with `n_jobs`; a shared design is decomposed once for all of them."""
        begin = time.perf_counter()
        whole = base._decompose(data) if data.shared else None
        self.setup_seconds_ = time.perf_counter() - begin
        blocks = [data.subset_tasks(tasks) for tasks in self.blocks_]
        calls = (delayed(_fit_block)(base, block, _rotation(base, whole, block)) for block in blocks)
        fits: list[Block] = list(Parallel(n_jobs=self.n_jobs)(calls))
        self.block_seconds_ = np.array([fit.seconds for fit in fits])
        said = Counter(warning for fit in fits for warning in set(fit.warnings))
        for (category, message), count in said.items():
            warnings.warn(f"{count} of {len(fits)} blocks: {message}", category, stacklevel=4)
        return fits

    def _project(self, low_rank: Array) -> Array:
        """Project all low-rank parts onto the column space of one block."""
        self.block_used_: int | None = None
        self.projection_rank_: int | None = None
        if self.projection == "none":
            return low_rank
        by_block = [low_rank[:, tasks] for tasks in self.blocks_]
        self.block_used_ = choose_block(by_block, self.projection, skip_zero=self.variant == "corrected")
        U = column_space(by_block[self.block_used_])
        self.projection_rank_ = U.shape[1]
        return np.asarray(U @ (U.T @ low_rank))

    def _publish(self, result: SolverResult) -> None:
        self.low_rank_ = np.ascontiguousarray(result.parts[0].T)
        self.outlier_ = np.ascontiguousarray(result.parts[1:].sum(axis=0).T)
        super()._publish(result)

    def _convergence_message(self, result: SolverResult) -> str:
        return (
            f"{type(self).__name__}: {result.message} (worst stopping criterion {result.stop_crit:.2g}, at most "
            f"{result.n_iter} iterations). Increase base__max_iter, or accept a larger base__tol."
        )


def _rotation(base: ConvexMTL, whole: Rotation | None, block: TaskData) -> Rotation | None:
    """Return the decomposition of a block as part of that of all tasks, None where it must be made anew."""
    if not isinstance(whole, SharedRotation) or base._solver_for(block) == "fista":
        return None
    return whole.retarget(base._designs(block))


def _fit_block(base: ConvexMTL, data: TaskData, rotation: Rotation | None) -> Block:
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = base._solve(data, rotation=rotation)
    result.info.clear()  # the state of the solver need not travel between processes
    return Block(result, time.perf_counter() - begin, [(w.category, str(w.message)) for w in caught])


class DivideAndConquerRMTL(RegressorMTL, _Divide):
    """Divide-and-conquer robust multi-task learning (DC-RMTL).

    The tasks are cut into `n_blocks` blocks of floor(n_tasks / n_blocks) tasks (a remainder forms one more block); the
    `base` model is solved on every block by itself, in parallel with `n_jobs`; the coefficients are put side by side;
    then the low-rank parts are projected on the column space of one block, ``L <- U U'L`` with U the left singular
    vectors of its low-rank part. Outlier parts are put side by side only. The paper's "25%" is ``n_blocks=4``, its
    "10%" ``n_blocks=10``.

    In a block of l tasks robust MTL is a true mixture for ``1/sqrt(l) < lam < 1``.

    Parameters
    ----------
    base : RobustMTL or another convex model, optional
        What is solved on the blocks, its part 0 is projected. Default ``RobustMTL()``. Nested parameters are set as
        ``base__lam`` and so on; its intercepts are fitted again after the projection.
    n_blocks : int, default 10
        With fewer tasks than that, every task is a block.
    partition : {"random", "contiguous", "clustered"}, default "random"
        How tasks are put into blocks: shuffled (the paper's), as they come, or similar tasks together (k-means on the
        directions of X_t'y_t). The blocks have the same sizes in all three.
    projection : {"first", "best", "none"}, default "first"
        The block that gives U: the first as printed, or the one whose U keeps most of ``sum ||L_k||_F^2``.
    variant : {"corrected", "paper"}, default "corrected"
        When the low-rank part of the first block is zero: use the first block where it is not, or as printed project
        everything to zero.
    n_jobs : int, optional
        Processes (joblib, hence also a Dask backend chosen around the call); None is 1 outside of such a context.
    random_state : int, RandomState or None, default 0
        Of the shuffle and of k-means.
    task_column : int or str, optional
        Column of X (position, or name in a DataFrame) that holds the task ids and is no feature.
    unseen : {"error", "mean"}, default "error"
        What `predict` does with a task that was not in the training data: refuse, or use the mean of all tasks.

    Attributes
    ----------
    coef_, low_rank_, outlier_ : ndarray of shape (n_tasks, n_features)
        Together, and the two parts.
    intercept_ : ndarray of shape (n_tasks,)
    blocks_ : list of ndarray
        Positions (in `tasks_`) of the tasks of every block.
    block_used_ : int or None
        The block whose low-rank part gave U.
    projection_rank_ : int or None
        Columns of U.
    block_seconds_ : ndarray of shape (number of blocks,)
        Seconds of every block; the sum is the work, the maximum the time on enough processors.
    setup_seconds_ : float
        Seconds of the decomposition that the blocks of a shared design have in common; it counts once, in addition to
        `block_seconds_`.
    objective_ : list of one float
        Objective of `base` on all tasks at the joined solution.
    gap_ : None
        The joined solution is not certified; `stop_crit_` is the worst of the blocks.
    n_iter_ : int
        Largest number of iterations of a block.
    converged_ : bool
        Whether all blocks converged.
    tasks_, n_features_in_
        As of `RobustMTL`.

    References
    ----------
    Pan, Xia, Yin and Liu, A divide-and-conquer method for scalable robust multitask learning, IEEE TNNLS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators.divide import DivideAndConquerRMTL
    >>> from mtlrun.estimators.robust import RobustMTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 5))
    >>> Y = X @ np.outer([1, 2, 3, 0, 0], np.arange(1, 13))
    >>> model = DivideAndConquerRMTL(RobustMTL(lam=0.7), n_blocks=3).fit(X, Y)
    >>> [len(block) for block in model.blocks_], model.projection_rank_
    ([4, 4, 4], 1)
    """

    def __init__(
        self,
        base: ConvexMTL | None = None,
        n_blocks: int = 10,
        *,
        partition: str = "random",
        projection: str = "first",
        variant: str = "corrected",
        n_jobs: int | None = None,
        random_state: Any = 0,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.base = base
        self.n_blocks = n_blocks
        self.partition = partition
        self.projection = projection
        self.variant = variant
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.task_column = task_column
        self.unseen = unseen


class DivideAndConquerRMTLClassifier(ClassifierMTL, _Divide):
    """Divide-and-conquer robust multi-task learning for classification.

    As `DivideAndConquerRMTL`, on labels of two classes; `base` is usually a `RobustMTLClassifier`, whose loss is used.

    Parameters
    ----------
    base : RobustMTLClassifier or another convex model, optional
        Default ``RobustMTL()``, the squared loss on labels -1/+1.
    n_blocks, partition, projection, variant, n_jobs, random_state, task_column, unseen
        As of `DivideAndConquerRMTL`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The same two for all tasks; a positive score means the second.
    coef_, low_rank_, outlier_, intercept_, blocks_, block_used_, projection_rank_, block_seconds_, setup_seconds_
        As of `DivideAndConquerRMTL`, as are all others.
    """

    def __init__(
        self,
        base: ConvexMTL | None = None,
        n_blocks: int = 10,
        *,
        partition: str = "random",
        projection: str = "first",
        variant: str = "corrected",
        n_jobs: int | None = None,
        random_state: Any = 0,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.base = base
        self.n_blocks = n_blocks
        self.partition = partition
        self.projection = projection
        self.variant = variant
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.task_column = task_column
        self.unseen = unseen

    def _is_logistic(self) -> bool:
        return self.base is not None and getattr(self.base, "loss", None) == "logistic"
