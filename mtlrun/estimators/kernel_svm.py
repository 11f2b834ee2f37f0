"""The baseline that graph-regularised SVMs are compared with: a kernel SVM with a multi-task kernel, by LIBSVM."""

from __future__ import annotations

import time
import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from mtlrun.estimators.base import usual_bytes
from mtlrun.estimators.graph_svm import GraphModel
from mtlrun.estimators.params import NONE, Rule, choice, real, satisfies
from mtlrun.estimators.single import count_one_class
from mtlrun.features.dna import StringDesign, WeightedDegree
from mtlrun.penalties.graph import TaskCoupling
from mtlrun.problem import memory
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]

# A kernel matrix that is computed beforehand takes so many times its memory, since its factors are sparse.
_COPIES = 2.5
_LIBSVM_STEPS = 1_000_000


class MultiTaskKernelSVC(GraphModel):
    """SVM with the multi-task kernel ``k((s, x), (t, x')) = M_st x'x``, M = (I + coupling * L)^{-1}, by LIBSVM (MTK).

    Minimises the objective of `GraphSVC` with the hinge loss, except that LIBSVM always has an intercept: one b for
    all tasks, not penalised::

        1/2 sum_t ||w_t||^2 + coupling/2 sum_st L_st w_s'w_t + C sum_i weight_i max(0, 1 - y_i (w_t(i)'x_i + b))

    Its optimum is therefore not above that of `GraphSVC`; compare each with its own.

    Parameters
    ----------
    C, graph, coupling
        As of `GraphSVC`.
    tol : float, default 1e-3
        LIBSVM's: largest violation of the optimality conditions.
    max_iter : int or None, default None
        Steps of LIBSVM, -1 for no limit; on features of a huge scale (1e8) it may then run without end. None stands for
        a million, or 100 per row if that is more.
    gram : {"auto", "precomputed", "on_the_fly"}, default "auto"
        "precomputed" makes the kernel matrix of all rows beforehand; "on_the_fly" gives LIBSVM the features
        ``F_t x`` with F F' = M and its linear kernel, of which it keeps `cache_size`. "auto" takes the first up to
        about 10,000 rows.
    cache_size : float, default 200
        MB for rows of the kernel matrix.
    features, task_column, unseen
        As of `GraphSVC`.

    Attributes
    ----------
    coef_, intercept_, classes_, tasks_, n_iter_, converged_, objective_, n_features_in_, n_one_class_
        As of `GraphSVC`; the intercepts are equal. A problem with one class only gets the score of that class.
    gap_ : float
        Relative duality gap of LIBSVM's solution.
    dual_coef_ : ndarray of the shape of y
    fit_seconds_ : dict of str to float
        ``gram`` (making the kernel matrix or the features) and ``libsvm``.

    References
    ----------
    Evgeniou, Micchelli and Pontil, Learning multiple tasks with kernel methods, JMLR 2005; the comparison is that of
    Widmer et al., ECML PKDD 2012.

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

    _remedy = "Use gram='on_the_fly', which keeps no kernel matrix, or fewer rows, features or tasks."
    _rules: ClassVar[dict[str, Rule]] = {
        **GraphModel._rules,
        "tol": real(0, closed="neither"),
        "max_iter": satisfies(
            "-1 or an int in [1, inf)", lambda value: isinstance(value, int) and (value == -1 or value > 0)
        )
        | NONE,
        "gram": choice("auto", "precomputed", "on_the_fly"),
        "cache_size": real(0, closed="neither"),
    }

    def __init__(
        self,
        C: float = 1.0,
        graph: Any = "all",
        coupling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int | None = None,
        *,
        gram: str = "auto",
        cache_size: float = 200,
        features: WeightedDegree | None = None,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.C = C
        self.graph = graph
        self.coupling = coupling
        self.tol = tol
        self.max_iter = max_iter
        self.gram = gram
        self.cache_size = cache_size
        self.features = features
        self.task_column = task_column
        self.unseen = unseen

    def _prepare(self, X: Any, y: Any, *, task_id: Any, sample_weight: Any) -> TaskData:
        data = super()._prepare(X, y, task_id=task_id, sample_weight=sample_weight)
        return data.with_design(data.X.tocsr()) if isinstance(data.X, StringDesign) else data

    def _fit_data(self, data: TaskData) -> SolverResult:
        coupling = self._couple()
        self.n_one_class_ = count_one_class(data)
        designs = [data.task(t)[0] for t in range(data.n_tasks)]
        y = np.concatenate([data.task(t)[1] for t in range(data.n_tasks)])
        weights = [data.task(t)[2] for t in range(data.n_tasks)]
        sizes = [X.shape[0] for X in designs]
        cost = self.C * np.concatenate([np.ones(n) if w is None else w for n, w in zip(sizes, weights, strict=True)])
        used = cost > 0
        if np.all(y[used] == y[used][0]):
            alpha, b, n_iter, done = np.zeros(len(y)), float(y[used][0]), 1, True
            self.fit_seconds_ = {"gram": 0.0, "libsvm": 0.0}
        else:
            alpha, b, n_iter, done = self._libsvm(designs, coupling, y, cost, used)
        return self._certified(data, designs, coupling, y, cost, alpha, b, n_iter, done)

    def _bytes(self, data: TaskData) -> float:
        entries = data.X.nnz if data.sparse else data.n_rows * data.n_features
        copies = 2 if isinstance(self.graph, str) else data.n_tasks
        rows = data.targets.size / data.n_rows
        features = usual_bytes(data, coefficients=4, fields=10) + 12.0 * 4 * copies * rows * entries
        n = data.targets.size if data.observed is None else int(data.observed.sum())
        return super()._bytes(data) + features + (_kernel_bytes(n) if self._precomputes(n) else 0.0)

    def _precomputes(self, n: int) -> bool:
        """Return whether the kernel matrix of n rows is kept."""
        return self.gram == "precomputed" or (self.gram == "auto" and memory.fits(_kernel_bytes(n)))

    def _libsvm(
        self, designs: list[Any], coupling: TaskCoupling, y: Array, cost: Array, used: Array
    ) -> tuple[Array, float, int, bool]:
        """Return dual variables, intercept, iterations and whether LIBSVM converged."""
        began = time.perf_counter()
        n = int(used.sum())
        precomputed = self._precomputes(n)
        Z = augmented_features(designs, coupling)
        Z = Z if used.all() else Z[used]
        if precomputed:
            Z = (Z @ Z.T).toarray()
        middle = time.perf_counter()
        limit = max(_LIBSVM_STEPS, 100 * n) if self.max_iter is None else self.max_iter
        model = SVC(
            C=1.0,
            kernel="precomputed" if precomputed else "linear",
            tol=self.tol,
            max_iter=limit,
            cache_size=self.cache_size,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # ours says more
            model.fit(Z, y[used], sample_weight=cost[used])
        self.fit_seconds_ = {"gram": middle - began, "libsvm": time.perf_counter() - middle}
        alpha = np.zeros(len(y))
        dual = model.dual_coef_
        dual = dual.toarray() if sp.issparse(dual) else dual
        alpha[np.flatnonzero(used)[model.support_]] = np.abs(dual.ravel())
        return alpha, float(model.intercept_[0]), int(np.max(model.n_iter_)), model.fit_status_ == 0

    def _certified(
        self,
        data: TaskData,
        designs: list[Any],
        coupling: TaskCoupling,
        y: Array,
        cost: Array,
        alpha: Array,
        b: float,
        n_iter: int,
        done: bool,
    ) -> SolverResult:
        """Return the result with coefficients, objective and duality gap of dual variables that sum to 0 over y."""
        cuts = np.cumsum([X.shape[0] for X in designs])[:-1]
        V = np.stack([X.T @ a for X, a in zip(designs, np.split(alpha * y, cuts), strict=True)])
        W = coupling.apply(V)
        z = y * (np.concatenate([X @ w for X, w in zip(designs, W, strict=True)]) + b)
        h = np.maximum(0.0, 1.0 - z)
        primal = 0.5 * float(np.sum(V * W)) + float(cost @ h)
        gap = float(np.sum(np.where(h > 0, (cost - alpha) * h, alpha * (z - 1.0)))) - b * float(alpha @ y)
        self.dual_coef_ = self._dual(data, alpha, cuts)
        return SolverResult(
            parts=W.T[np.newaxis],
            intercept=np.full(len(designs), b),
            converged=done,
            n_iter=max(1, n_iter),
            objective=[primal],
            gap=gap / max(1.0, abs(primal), abs(primal - gap)),
            message="" if done else "LIBSVM was stopped; scaled features help",
        )

    def _dual(self, data: TaskData, alpha: Array, cuts: Array) -> Array:
        """Put dual variables, task by task, into the shape of y."""
        if not data.shared:
            return data.unsort(alpha)
        field = np.zeros(data.targets.shape)
        for t, part in enumerate(np.split(alpha, cuts)):
            rows = slice(None) if data.observed is None else data.observed[:, t]
            field[rows, t] = part
        return field[:, 0] if self._layout == "single" else field


def _kernel_bytes(n: int) -> float:
    return _COPIES * 8 * float(n) ** 2


def augmented_features(designs: list[Any], coupling: TaskCoupling) -> Any:
    """Return rows F_t x (a Kronecker product) with F F' = M: their linear kernel is the multi-task kernel.

    Parameters
    ----------
    designs : list of ndarray or csr_array of shape (n_t, d)
    coupling : TaskCoupling

    Returns
    -------
    csr_array of shape (N, r * d), or of the columns that have entries where these are too many
        With two copies of every row when all tasks are equally similar.
    """
    F = coupling.factor()
    blocks = [sp.kron(F[[t]], sp.csr_array(X), format="csr") for t, X in enumerate(designs)]
    Z = sp.csr_array(sp.vstack(blocks, format="csr"))
    if Z.shape[1] > np.iinfo(np.int32).max:  # LIBSVM counts in 32 bits, and columns without entries change no product
        used, columns = np.unique(Z.indices, return_inverse=True)
        Z = sp.csr_array((Z.data, columns, Z.indptr), shape=(Z.shape[0], len(used)))
    Z.indices, Z.indptr = Z.indices.astype(np.int32), Z.indptr.astype(np.int32)
    return Z
