"""Support vector machines of tasks that are coupled by a graph."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from mtlrun.estimators.base import COMMON_RULES, BaseMTL, ClassifierMTL
from mtlrun.estimators.inputs import check_task_id, refuse_list_of_arrays, split_task_column
from mtlrun.estimators.params import BOOLEAN, NONE, Rule, choice, instance, integer, real
from mtlrun.estimators.single import count_one_class
from mtlrun.features.dna import StringDesign, WeightedDegree
from mtlrun.penalties.graph import TaskCoupling, couple_graph
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.svm.dcd import MAX_FREE, solve_block_dcd
from mtlrun.solvers.svm.newton import SMALL_FREE, solve_svm_newton

Array = np.ndarray[Any, np.dtype[Any]]

#: Form and step of the coordinate ascent for every variant.
VARIANTS = {
    "block": ("block", "exact"),
    "block-printed": ("block", "printed"),
    "corrected": ("example", "exact"),
    "paper": ("example", "printed"),
}
# What the second-order method may cost: coefficients in all, features, and products per iteration.
_SMALL_SYSTEM, _FEW_FEATURES, _CHEAP = 500, 64, 1e8


class GraphModel(ClassifierMTL, BaseMTL):
    """What SVMs on a graph of tasks share: the graph, and DNA strings as input.

    With ``features`` set, X holds strings (1-D, or 2-D with one column beside the task column).
    """

    _rules: ClassVar[dict[str, Rule]] = {
        **COMMON_RULES,
        "C": real(0, closed="neither"),
        "coupling": real(0),
        "tol": real(0),
        "max_iter": integer(1),
        "features": instance("a WeightedDegree", WeightedDegree) | NONE,
    }
    features: WeightedDegree | None
    graph: Any
    coupling: float

    def _couple(self) -> TaskCoupling:
        return couple_graph(self.graph, self.tasks_, self.coupling)

    def _bytes(self, data: TaskData) -> float:
        return 0.0 if isinstance(self.graph, str) else 8.0 * 8 * data.n_tasks**2

    def _read_X(self, X: Any, task_id: Any, *, reset: bool) -> tuple[Any, Array | None]:
        if self.features is None:
            if isinstance(X, list | np.ndarray) and len(X) and isinstance(X[0], str | bytes):
                raise ValueError(
                    "X is an array of strings: say what to make of them, for example features=WeightedDegree(degree=8)"
                )
            return super()._read_X(X, task_id, reset=reset)
        refuse_list_of_arrays(X)
        if self.task_column is not None and task_id is not None:
            raise ValueError(f"give the tasks either as task_id or in the column task_column={self.task_column!r}")
        X, ids = split_task_column(X, self.task_column)
        if reset:
            self.features_ = WeightedDegree(**self.features.get_params())
            design = self.features_.fit_design(X)
            self.n_features_in_ = design.shape[1]
        else:
            design = self.features_.design(X)
        ids = task_id if ids is None else ids
        return design, None if ids is None else check_task_id(ids, len(design))

    def _task_data(
        self, X: Any, y: Array, ids: Array | None, weights: Array | None, names: list[Any] | None
    ) -> TaskData:
        if not isinstance(X, StringDesign):
            return super()._task_data(X, y, ids, weights, names)
        # The container sorts rows by task and checks the rest; a column of zeros stands in for the strings.
        data = super()._task_data(np.zeros((len(X), 1)), y, ids, weights, names)
        return data.with_design(X if data.order is None else X[data.order])


class GraphSVC(GraphModel):
    """Linear SVMs of several tasks whose coefficients a graph pulls together (graph-regularised multi-task SVM).

    Minimises::

        1/2 sum_t ||w_t||^2 + coupling/2 sum_st L_st w_s'w_t + C sum_i weight_i l(y_i w_t(i)'x_i)

    L = diag(A 1) - A is the Laplacian of the task similarity A, so that the second term is ``coupling/4`` times the
    sum over s and t of ``A_st ||w_s - w_t||^2``. l(z) is max(0, 1 - z), its square, or log(1 + exp(-z)). Without
    coupling the tasks are independent; with a strong one, and a connected graph, they share one SVM with ``C / T``.

    Parameters
    ----------
    C : float, default 1.0
    graph : "all", array-like or sparse of shape (n_tasks, n_tasks), or DataFrame, default "all"
        Similarity A of the tasks in the order of `tasks_` (sorted labels, or the columns of a 2-D y); a DataFrame
        named by the tasks may have any order. Symmetric and not negative; its diagonal has no effect. "all" is ones
        plus the identity, as in the published runs. A task that is similar to no other is refused (`coupling=0`
        makes all tasks independent); several groups of connected tasks are allowed.
    coupling : float, default 1.0
        Strength of the graph.
    loss : {"hinge", "squared_hinge", "logistic"}, default "hinge"
        "logistic" adds `predict_proba`.
    fit_intercept : bool, default False
        Adds a constant feature 1 to X: the intercept is penalised and coupled like a coefficient, as in LIBLINEAR.
    tol : float, default 1e-4
        Relative duality gap at which the solver may stop.
    max_iter : int, default 10000
        Iterations; for coordinate ascent each is as much work as a visit of all rows.
    solver : {"auto", "dcd", "newton"}, default "auto"
        "dcd" is block-wise dual coordinate ascent. "newton" is a second-order method for few coefficients, which goes
        far below `tol`; "auto" takes it where it is cheap.
    variant : {"block", "paper", "corrected", "block-printed"}, default "block"
        "paper" visits examples one by one and divides by ||x||^2 as printed, which leaves out M_tt; "corrected" has
        the right step, "block-printed" the printed step in block form. All converge to the same solution. Anything
        but "block" is coordinate ascent.
    features : WeightedDegree, optional
        Makes features of DNA strings on the fly; X is then an array of strings, and `n_features_in_` the number of
        features.
    warm_start : bool, default False
        Start from the dual variables of the last fit, scaled with C. The data must be the same.
    random_state : int, RandomState or None, default 0
        Order of tasks and rows.
    task_column, unseen
        As of `IndependentRidge`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    intercept_ : ndarray of shape (n_tasks,)
    classes_, tasks_, n_iter_, converged_, n_features_in_
    objective_ : list of float
        Objective at the certificates.
    gap_ : float
        Relative duality gap, (P - D) / max(1, P).
    dual_coef_ : ndarray of the shape of y
        Dual variables, at least 0 (without the sign of y).
    features_ : WeightedDegree
        Fitted `features`.
    n_one_class_ : int
        Tasks with one class only; they are fitted like the others, the graph carries them.

    References
    ----------
    Widmer, Kloft, Görnitz and Rätsch, Efficient training of graph-regularized multitask SVMs, ECML PKDD 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators.graph_svm import GraphSVC
    >>> X = np.array([[1.0], [-1.0], [2.0], [3.0]])
    >>> model = GraphSVC(coupling=100).fit(X, [1, -1, 1, 1], task_id=["a", "a", "b", "b"])
    >>> model.predict(X, task_id=["b"] * 4).tolist()
    [1, -1, 1, 1]
    """

    _rules: ClassVar[dict[str, Rule]] = {
        **GraphModel._rules,
        "loss": choice("hinge", "squared_hinge", "logistic"),
        "fit_intercept": BOOLEAN,
        "solver": choice("auto", "dcd", "newton"),
        "variant": choice(*VARIANTS),
        "warm_start": BOOLEAN,
    }

    def __init__(
        self,
        C: float = 1.0,
        graph: Any = "all",
        coupling: float = 1.0,
        loss: str = "hinge",
        fit_intercept: bool = False,
        tol: float = 1e-4,
        max_iter: int = 10000,
        *,
        solver: str = "auto",
        variant: str = "block",
        features: WeightedDegree | None = None,
        warm_start: bool = False,
        random_state: Any = 0,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.C = C
        self.graph = graph
        self.coupling = coupling
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.variant = variant
        self.features = features
        self.warm_start = warm_start
        self.random_state = random_state
        self.task_column = task_column
        self.unseen = unseen

    def _fit_data(self, data: TaskData) -> SolverResult:
        coupling = self._couple()
        self.n_one_class_ = count_one_class(data)
        common: dict[str, Any] = {
            "loss": self.loss,
            "C": self.C,
            "fit_intercept": bool(self.fit_intercept),
            "start": self._start(data),
            "tol": self.tol,
            "max_iter": self.max_iter,
        }
        if self._second_order(data):
            result = solve_svm_newton(data, coupling, **common)
        else:
            form, step = VARIANTS[self.variant]
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            result = solve_block_dcd(data, coupling, seed=seed, form=form, step=step, **common)
        dual = data.unsort(result.info["alpha"])
        self.dual_coef_ = dual[:, 0] if self._layout == "single" else dual
        self._fitted_C = float(self.C)
        return result

    def _bytes(self, data: TaskData) -> float:
        strings, size = isinstance(data.X, StringDesign), data.targets.size
        width = 1 + (self.n_features_in_ if strings else data.n_features)
        if self._second_order(data):
            design = data.n_rows * data.n_features + 3 * size * width
            together = 4 * (width * data.n_tasks) ** 2 + 4 * min(SMALL_FREE, size) ** 2
        else:
            design = 0 if data.sparse or strings else 2 * data.n_rows * data.n_features
            together = 4 * min(MAX_FREE, size) ** 2
        return super()._bytes(data) + 8.0 * (6 * width * data.n_tasks + 12 * size + design + together)

    def _start(self, data: TaskData) -> Array | None:
        """Return the dual variables of the last fit for the present C, in the order of `data`."""
        if not (self.warm_start and hasattr(self, "dual_coef_")):
            return None
        dual = self.dual_coef_[:, np.newaxis] if self._layout == "single" else self.dual_coef_
        if dual.shape != data.targets.shape:
            raise ValueError(
                f"warm_start=True needs the data of the last fit: it had targets of shape {dual.shape}, these have "
                f"{data.targets.shape}; set warm_start=False"
            )
        return (dual if data.order is None else dual[data.order]) * (self.C / self._fitted_C)

    def _second_order(self, data: TaskData) -> bool:
        """Return whether to use the second-order method."""
        strings = isinstance(data.X, StringDesign)
        if self.solver == "newton":
            if strings or self.variant != "block":
                raise ValueError("solver='newton' works neither on strings nor with a variant of coordinate ascent")
            return True
        if self.solver == "dcd" or self.variant != "block" or strings:
            return False
        width = data.n_features + bool(self.fit_intercept)
        products = float(data.targets.size) * width**2
        return data.n_tasks * width <= _SMALL_SYSTEM and (width <= _FEW_FEATURES or products <= _CHEAP)
