"""Support vector machines of tasks that are coupled by a graph: linear ones, and
their baseline with a kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from mtlrun.estimators.base import BaseMTL, ClassifierMTL, usual_bytes
from mtlrun.estimators.inputs import fill_unweighted
from mtlrun.estimators.metadata import POWERS, MethodMetadata
from mtlrun.estimators.params import (
    NONE,
    Count,
    NonNegative,
    Positive,
    TaskColumn,
    Unseen,
    integer,
    satisfies,
)
from mtlrun.features.dna import StringDesign, WeightedDegree
from mtlrun.penalties.graph import TaskCoupling, couple_graph
from mtlrun.problem import memory
from mtlrun.problem.objective import relative_gap
from mtlrun.problem.quadratic import BADLY_SCALED
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import Array, TaskData
from mtlrun.solvers.svm.kernel import (
    KernelPoint,
    augmented_features,
    certify_kernel,
    greedy_bytes,
    kernel_bytes,
    kernel_matrix,
    matrix_pays,
    polish,
    run_libsvm,
    solve_without_intercept,
    stored,
)
from mtlrun.solvers.svm.linear import (
    MAX_FREE,
    SMALL_FREE,
    solve_block_dcd,
    solve_svm_newton,
)

#: Form and step of the coordinate ascent for every variant.
VARIANTS = {
    "block": ("block", "exact"),
    "block-printed": ("block", "printed"),
    "corrected": ("example", "exact"),
    "paper": ("example", "printed"),
}
# Limits of the second-order method: coefficients in all, features, and products per
# iteration.
_SMALL_SYSTEM = 500
_FEW_FEATURES = 64
_CHEAP = 1e8
# With the hinge loss, coordinate ascent is tried first where an iteration of the
# second-order method has more operations than this. An entry counts as that many
# operations besides its products.
_QUICK_ITERATION = 1e6
_ENTRY_OPERATIONS = 100
# Iterations of this trial. They take about as long as the second-order method.
_TRIAL_ITERATIONS = 100
# Steps at least, of LIBSVM and without intercept; there are more of them for many rows.
_LIBSVM_STEPS = 1_000_000
_GREEDY_STEPS = 10_000_000
# A solution whose gap is above the tolerance is improved with this share of the
# tolerance, with at most so many rows, and so many support vectors off their bounds.
_REFINED_TOL = 0.01
_MAX_REFINED = 5000
_MAX_POLISHED = 500
# Copies of the kernel matrix that centering it takes at a time.
_CENTERED_COPIES = 4


class _GraphModel(ClassifierMTL, BaseMTL):
    """Common part of SVMs on a graph of tasks: the graph, and DNA strings as input.

    Parameters
    ----------
    C : float, default 1.0
        Cost of margin violations; multiplied by the sample weights.
    graph : "all", array-like or sparse of shape (n_tasks, n_tasks), or DataFrame, default "all"
        Similarity A of the tasks in the order of `tasks_` (sorted labels, or the
        columns of a 2-D y); a DataFrame named by the tasks may have any order.
        Symmetric and not negative; its diagonal has no effect. "all" is ones plus the
        identity, as in the published runs. A task that is similar to no other is
        refused (`coupling=0` makes all tasks independent); several groups of connected
        tasks are allowed.
    coupling : float, default 1.0
        Strength of the graph.
    features : WeightedDegree, default None
        Makes features of DNA strings on the fly. X is then an array of strings (1-D, or
        2-D with one column besides the task column), and `n_features_in_` the number of
        features.

    Attributes
    ----------
    dual_coef_ : ndarray of the shape of y
        Dual variables, at least 0 (without the sign of y).
    features_ : WeightedDegree
        Fitted `features`.
    """

    C: Positive = 1.0
    graph: Any = "all"
    coupling: NonNegative = 1.0
    _: KW_ONLY
    features: WeightedDegree | None = None

    def _bytes(self, data: TaskData) -> float:
        if isinstance(self.graph, str):
            return 0.0
        return 8.0 * 8 * data.n_tasks**2

    def _ignore_unweighted(
        self, X: Any, y: Any, task_id: Any, sample_weight: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Return the arguments of `fit`, with other cells in the rows of weight 0.

        These rows stay, because `dual_coef_` has an entry for every row, here 0.
        """
        X, y = fill_unweighted(
            X, y, task_id, sample_weight, task_column=self.task_column
        )
        return X, y, task_id, sample_weight

    def _read_design(self, X: Any, *, reset: bool) -> Any:
        if self.features is None:
            if (
                isinstance(X, list | np.ndarray)
                and len(X)
                and isinstance(X[0], str | bytes)
            ):
                raise ValueError(
                    "X is an array of strings: say what to make of them, for example "
                    "features=WeightedDegree(degree=8)"
                )
            return super()._read_design(X, reset=reset)
        if reset:
            self.features_ = WeightedDegree(**self.features.get_params())
            design = self.features_.fit_design(X)
            self.n_features_in_ = design.shape[1]
            return design
        return self.features_.design(X)

    def _task_data(
        self,
        X: Any,
        y: Array,
        ids: Array | None,
        weights: Array | None,
        names: list[Any] | None,
    ) -> TaskData:
        if not isinstance(X, StringDesign):
            return super()._task_data(X, y, ids, weights, names)
        # The container sorts rows by task and checks the rest; a column of zeros stands
        # in for the strings.
        data = super()._task_data(np.zeros((len(X), 1)), y, ids, weights, names)
        return data.with_design(X if data.order is None else X[data.order])


class GraphSVC(_GraphModel):
    """Linear support vector machines whose coefficients a graph of tasks pulls
    together.

    Minimizes::

        1/2 sum_t ||w_t||^2 + coupling/2 sum_st L_st w_s'w_t + C sum_i weight_i l(y_i w_t(i)'x_i)

    L = diag(A 1) - A is the Laplacian of the task similarity A, so that the second term
    is ``coupling/4`` times the sum over s and t of ``A_st ||w_s - w_t||^2``. l(z) is
    max(0, 1 - z), its square, or log(1 + exp(-z)). Without coupling the tasks are
    independent; with a strong one, and a connected graph, they share one SVM with ``C /
    T``.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "logistic"}, default "hinge"
        Loss of the margin; "logistic" adds `predict_proba`.
    fit_intercept : bool, default False
        Adds a constant feature 1 to X: the intercept is penalized and coupled like a
        coefficient, as in LIBLINEAR.
    tol : float, default 1e-4
        The solver stops at this relative duality gap, (P - D) / max(|P|, |D|, P0 /
        1000), where P0 is the objective of zero coefficients.
    max_iter : int, default 10000
        Largest number of iterations; for coordinate ascent each is as much work as a
        visit of all rows.
    solver : {"auto", "dcd", "newton"}, default "auto"
        "dcd" is block-wise dual coordinate ascent. "newton" is a second-order method
        for few coefficients. "auto" takes it where it is cheap; with the hinge loss and
        many rows or tasks, only after 100 iterations of "dcd" that did not reach `tol`.
    variant : {"block", "block-printed", "corrected", "paper"}, default "block"
        "paper" visits examples one by one and divides by ||x||^2 as printed, which
        leaves out M_tt; "corrected" has the right step, "block-printed" the printed
        step in block form. All converge to the same solution. Anything but "block" is
        coordinate ascent.
    warm_start : bool, default False
        Start from the dual variables of the last fit, scaled with C. The data must be
        the same.
    random_state : int, RandomState or None, default 0
        For the order of tasks and rows.

    References
    ----------
    C. Widmer, M. Kloft, N. Görnitz and G. Rätsch, "Efficient training of
    graph-regularized multitask SVMs", ECML PKDD 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import GraphSVC
    >>> X = np.array([[1.0], [-1.0], [2.0], [3.0]])
    >>> tasks = ["a", "a", "b", "b"]
    >>> model = GraphSVC(coupling=100).fit(X, [1, -1, 1, 1], task_id=tasks)
    >>> model.predict(X, task_id=["b"] * 4).tolist()
    [1, -1, 1, 1]
    """

    metadata = MethodMetadata(
        cite=("widmer2012",),
        complexity=(
            "O(nnz + T d) per epoch when all tasks are equally similar, else O(nnz + "
            "T^2 d)"
        ),
        default_grid={"C": POWERS, "coupling": (0.01, 0.1, 1.0, 10.0)},
        changes=(
            "solver='auto' and solver='newton' stop at the gap tol, and 'auto' tries "
            "coordinate ascent first with the hinge loss.",
        ),
    )

    def __init__(
        self,
        C: Positive = 1.0,
        graph: Any = "all",
        coupling: NonNegative = 1.0,
        loss: Literal["hinge", "squared_hinge", "logistic"] = "hinge",
        fit_intercept: bool = False,
        tol: NonNegative = 1e-4,
        max_iter: Count = 10000,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        features: WeightedDegree | None = None,
        solver: Literal["auto", "dcd", "newton"] = "auto",
        variant: Literal["block", "block-printed", "corrected", "paper"] = "block",
        warm_start: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.graph = graph
        self.coupling = coupling
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen
        self.features = features
        self.solver = solver
        self.variant = variant
        self.warm_start = warm_start
        self.random_state = random_state

    def _fit_data(self, data: TaskData) -> SolverResult:
        coupling = couple_graph(self.graph, self.tasks_, self.coupling)
        common: dict[str, Any] = {
            "loss": self.loss,
            "C": self.C,
            "fit_intercept": bool(self.fit_intercept),
            "start": self._start(data),
            "tol": self.tol,
        }
        uses_newton = self._second_order(data)
        uses_dcd = not uses_newton
        if uses_newton and self.solver != "newton" and self.loss == "hinge":
            # Try coordinate ascent first, unless an iteration of Newton's method is
            # quick.
            width = data.n_features + bool(self.fit_intercept)
            entries = data.targets.size * (_ENTRY_OPERATIONS + width**2)
            uses_dcd = entries + (data.n_tasks * width) ** 3 / 3 > _QUICK_ITERATION
        is_solved = False
        if uses_dcd:
            form, step = VARIANTS[self.variant]
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            max_iter = self.max_iter
            if uses_newton:
                max_iter = min(max_iter, _TRIAL_ITERATIONS)
            result = solve_block_dcd(
                data,
                coupling,
                seed=seed,
                form=form,
                step=step,
                max_iter=max_iter,
                **common,
            )
            is_solved = result.converged
        if uses_newton and not is_solved:
            result = solve_svm_newton(data, coupling, max_iter=self.max_iter, **common)
        dual = data.unsort(result.info["alpha"])
        if self._layout == "single":
            self.dual_coef_ = dual[:, 0]
        else:
            self.dual_coef_ = dual
        self._fitted_C = float(self.C)
        return result

    def _bytes(self, data: TaskData) -> float:
        strings = isinstance(data.X, StringDesign)
        size = data.targets.size
        width = 1 + (self.n_features_in_ if strings else data.n_features)
        if self._second_order(data):
            design = data.n_rows * data.n_features + 3 * size * width
            together = 4 * (width * data.n_tasks) ** 2 + 4 * min(SMALL_FREE, size) ** 2
        else:
            if data.sparse or strings:
                design = 0
            else:
                design = 2 * data.n_rows * data.n_features
            together = 4 * min(MAX_FREE, size) ** 2
        return super()._bytes(data) + 8.0 * (
            6 * width * data.n_tasks + 12 * size + design + together
        )

    def _start(self, data: TaskData) -> Array | None:
        """Return the dual variables of the last fit for the present C, in the order
        of `data`.
        """
        if not (self.warm_start and hasattr(self, "dual_coef_")):
            return None
        if self._layout == "single":
            dual = self.dual_coef_[:, np.newaxis]
        else:
            dual = self.dual_coef_
        if dual.shape != data.targets.shape:
            raise ValueError(
                "warm_start=True needs the data of the last fit: it had targets of "
                f"shape {dual.shape}, these have {data.targets.shape}; set "
                "warm_start=False"
            )
        return (dual if data.order is None else dual[data.order]) * (
            self.C / self._fitted_C
        )

    def _second_order(self, data: TaskData) -> bool:
        """Return whether to use the second-order method."""
        strings = isinstance(data.X, StringDesign)
        if self.solver == "newton":
            if strings or self.variant != "block":
                raise ValueError(
                    "solver='newton' works neither on strings nor with a variant of "
                    "coordinate ascent"
                )
            return True
        if self.solver == "dcd" or self.variant != "block" or strings:
            return False
        width = data.n_features + bool(self.fit_intercept)
        products = float(data.targets.size) * width**2
        return data.n_tasks * width <= _SMALL_SYSTEM and (
            width <= _FEW_FEATURES or products <= _CHEAP
        )


class MultiTaskKernelSVC(_GraphModel):
    """Support vector machine with the multi-task kernel of a graph of tasks (MTK).

    Minimizes the objective of `GraphSVC` with the hinge loss and an intercept, one b
    for all tasks and not penalized::

        1/2 sum_t ||w_t||^2 + coupling/2 sum_st L_st w_s'w_t + C sum_i weight_i max(0, 1 - y_i (w_t(i)'x_i + b))

    The kernel is ``k((s, x), (t, x')) = M_st x'x`` with ``M = (I + coupling *
    L)^{-1}``. With the intercept its optimum is not above the one of `GraphSVC`:
    compare each with its own.

    Parameters
    ----------
    tol : float, default 1e-3
        Largest violation of the optimality conditions, as LIBSVM has it, and largest
        relative duality gap. Where the first run ends with a larger gap, a second one
        on the centered kernel, and equations for the support vectors, follow.
    max_iter : int or None, default None
        Steps, -1 for no limit; on features of a huge scale (1e8) they may then go on
        without end. None stands for a million, or 100 per row if that is more; without
        intercept, where steps are cheaper, for ten times as many.
    fit_intercept : bool, default True
        Fits by LIBSVM, which always has an intercept. False solves the very problem of
        `GraphSVC`, by greedy steps on one dual variable at a time, which takes about as
        long.
    gram : {"auto", "precomputed", "on_the_fly"}, default "auto"
        "precomputed" makes the kernel matrix of all rows beforehand; "on_the_fly" makes
        rows of it when they are needed: LIBSVM gets the features ``F_t x`` with F F' =
        M and its linear kernel. "auto" takes the faster: the first for rows with more
        than 32 non-zeros, as long as the matrix has at most 2 GiB.

    Attributes
    ----------
    intercept_ : ndarray of shape (n_tasks,)
        All entries are equal. A problem with one class only gets the score of that
        class.
    gap_ : float
        Relative duality gap. Features far from zero hide what differs between rows from
        LIBSVM: `converged_` is False where the gap stays above `tol`. Center them.

    References
    ----------
    T. Evgeniou, C. A. Micchelli and M. Pontil, "Learning multiple tasks with kernel
    methods", Journal of Machine Learning Research, 2005. The comparison follows Widmer
    et al., ECML PKDD 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import MultiTaskKernelSVC
    >>> rng = np.random.default_rng(0)
    >>> X, town = rng.normal(size=(60, 2)), np.repeat(["A", "B", "C"], 20)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> model = MultiTaskKernelSVC(C=10.0, coupling=0.5).fit(X, y, task_id=town)
    >>> float(model.score(X, y, task_id=town)) > 0.95
    True
    """

    metadata = MethodMetadata(
        cite=("evgeniou2005",),
        complexity="O(N^2 d) to O(N^3)",
        default_grid={"C": POWERS, "coupling": (0.01, 0.1, 1.0, 10.0)},
        losses=("hinge",),
        changes=(
            "Without intercept our own solver takes the place of LIBSVM on mirrored "
            "rows.",
            "Fits whose duality gap is above the tolerance are improved.",
        ),
    )
    _remedy = (
        "Use gram='on_the_fly', which keeps no kernel matrix, or fewer rows, features "
        "or tasks."
    )

    def __init__(
        self,
        C: Positive = 1.0,
        graph: Any = "all",
        coupling: NonNegative = 1.0,
        tol: Positive = 1e-3,
        max_iter: Annotated[
            int | None,
            satisfies("-1", lambda value: isinstance(value, int) and value == -1)
            | integer(1)
            | NONE,
        ] = None,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        features: WeightedDegree | None = None,
        fit_intercept: bool = True,
        gram: Literal["auto", "precomputed", "on_the_fly"] = "auto",
    ) -> None:
        self.C = C
        self.graph = graph
        self.coupling = coupling
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen
        self.features = features
        self.fit_intercept = fit_intercept
        self.gram = gram

    def _fit_data(self, data: TaskData) -> SolverResult:
        coupling = couple_graph(self.graph, self.tasks_, self.coupling)
        designs, targets, weights = zip(
            *(data.task(t) for t in range(data.n_tasks)), strict=True
        )
        y = np.concatenate(targets)
        sizes = [X.shape[0] for X in designs]
        full_weights = []
        for n_rows, task_weights in zip(sizes, weights, strict=True):
            if task_weights is None:
                full_weights.append(np.ones(n_rows))
            else:
                full_weights.append(task_weights)
        cost = self.C * np.concatenate(full_weights)
        used = cost > 0
        if not self.fit_intercept:
            n = int(used.sum())
            for tol in (self.tol, _REFINED_TOL * self.tol):
                result = solve_without_intercept(
                    designs,
                    coupling,
                    y,
                    cost,
                    tol=tol,
                    max_iter=self._limit(_GREEDY_STEPS, 1000 * n),
                    precompute=self._precomputes(data, n),
                )
                is_certified = result.gap is not None and result.gap <= self.tol
                if is_certified or not result.converged:
                    break
            result.info[BADLY_SCALED] = not is_certified
            result.converged = is_certified
            self.dual_coef_ = self._dual(
                data, result.info["alpha"], np.cumsum(sizes)[:-1]
            )
            return result
        if np.all(y[used] == y[used][0]):
            alpha = np.zeros(len(y))
            b = float(y[used][0])
            n_iter = 1
            done = True
        else:
            alpha, b, n_iter, done = self._libsvm(
                data, designs, coupling, y, cost, used
            )
        null = float(cost.sum())
        rows = [stored(X) for X in designs]
        point = certify_kernel(rows, coupling, y, cost, alpha, b)
        if _gap(point, null) > self.tol:
            for better in self._refine(rows, coupling, y, cost, point):
                if abs(better.gap) < abs(point.gap):
                    point = better
                if _gap(point, null) <= self.tol:
                    break
        gap = _gap(point, null)
        converged = gap <= self.tol
        self.dual_coef_ = self._dual(data, point.alpha, np.cumsum(sizes)[:-1])
        message = ""
        if not converged:
            message = "rounding stops LIBSVM, X is badly scaled or far from zero"
        if not done:
            message = "LIBSVM was stopped; scaled features help"
        return SolverResult(
            parts=point.W.T[np.newaxis],
            intercept=np.full(len(designs), point.intercept),
            converged=converged,
            n_iter=max(1, n_iter),
            objective=[point.primal],
            gap=gap,
            message=message,
            info={BADLY_SCALED: done and not converged},
        )

    def _refine(
        self,
        rows: Sequence[Any],
        coupling: TaskCoupling,
        y: Array,
        cost: Array,
        point: KernelPoint,
    ) -> Iterator[KernelPoint]:
        """Yield points that may have a smaller gap, the cheaper one first.

        LIBSVM keeps the kernel in single precision: of features far from zero, little
        of what differs between rows is left. The centered kernel has the same optimum.
        """
        used = cost > 0
        n = int(used.sum())
        if self._can_center(n):
            K = kernel_matrix(rows, coupling)[np.ix_(used, used)]
            shift = 0.5 * K.mean() - K.mean(axis=1)
            K += shift
            K += shift[:, np.newaxis]
            alpha = np.zeros(len(y))
            alpha[used], b, _, _ = run_libsvm(
                K,
                y[used],
                cost[used],
                tol=_REFINED_TOL * self.tol,
                max_iter=self._limit(_LIBSVM_STEPS, 100 * n),
            )
            # The sum of alpha over the labels is 0: the shifts of rows move b only.
            b += float(shift @ (alpha * y)[used])
            point = certify_kernel(rows, coupling, y, cost, alpha, b)
            yield point
        polished = polish(rows, coupling, y, cost, point.alpha, max_free=_MAX_POLISHED)
        if polished is not None:
            yield polished

    def _bytes(self, data: TaskData) -> float:
        if isinstance(self.graph, str):
            copies = 2
        else:
            copies = data.n_tasks
        rows = data.targets.size / data.n_rows
        features = usual_bytes(
            data, coefficients=4, fields=10
        ) + 12.0 * 4 * copies * rows * _entries(data)
        if data.observed is None:
            n = data.targets.size
        else:
            n = int(data.observed.sum())
        total = super()._bytes(data) + features
        if self._precomputes(data, n):
            total += kernel_bytes(n)
        if not self.fit_intercept:
            total += greedy_bytes(n)
        elif self._can_center(n):
            total += _CENTERED_COPIES * kernel_bytes(n)
        return total

    def _can_center(self, n: int) -> bool:
        """Return whether `_refine` may center the kernel matrix of n rows."""
        return n <= _MAX_REFINED and memory.fits(_CENTERED_COPIES * kernel_bytes(n))

    def _limit(self, least: int, likely: int) -> int:
        """Return the steps allowed."""
        if self.max_iter is None:
            return max(least, likely)
        if self.max_iter == -1:
            return sys.maxsize
        return self.max_iter

    def _precomputes(self, data: TaskData, n: int) -> bool:
        """Return whether the kernel matrix of n rows is made beforehand."""
        fast = matrix_pays(_entries(data) / data.n_rows) and memory.fits(
            kernel_bytes(n)
        )
        return self.gram == "precomputed" or (self.gram == "auto" and fast)

    def _libsvm(
        self,
        data: TaskData,
        designs: Sequence[Any],
        coupling: TaskCoupling,
        y: Array,
        cost: Array,
        used: Array,
    ) -> tuple[Array, float, int, bool]:
        """Return dual variables, intercept, iterations and whether LIBSVM converged."""
        n = int(used.sum())
        precomputes = self._precomputes(data, n)
        if precomputes:
            Z = kernel_matrix(designs, coupling)
        else:
            Z = augmented_features(designs, coupling)
        if n < len(used):
            if precomputes:
                Z = Z[np.ix_(used, used)]
            else:
                Z = Z[used]
        if self.max_iter == -1:
            limit = -1
        else:
            limit = self._limit(_LIBSVM_STEPS, 100 * n)
        used_alpha, b, n_iter, done = run_libsvm(
            Z,
            y[used],
            cost[used],
            tol=self.tol,
            max_iter=limit,
        )
        alpha = np.zeros(len(y))
        alpha[used] = used_alpha
        return alpha, b, n_iter, done

    def _dual(self, data: TaskData, alpha: Array, cuts: Array) -> Array:
        """Put dual variables, task by task, into the shape of y."""
        if not data.shared:
            return data.unsort(alpha)
        field = np.zeros(data.targets.shape)
        for t, part in enumerate(np.split(alpha, cuts)):
            if data.observed is None:
                field[:, t] = part
            else:
                field[data.observed[:, t], t] = part
        if self._layout == "single":
            return field[:, 0]
        return field


def _gap(point: KernelPoint, null: float) -> float:
    """Return the relative duality gap."""
    return relative_gap(point.primal, point.dual, null=null, gap=point.gap)


def _entries(data: TaskData) -> float:
    """Return the non-zeros of all rows."""
    if isinstance(data.X, StringDesign):
        return float(data.n_rows) * (len(data.X.start) - 1) * (len(data.X.level) - 1)
    return float(data.X.nnz if data.sparse else data.n_rows * data.n_features)
