"""Graph-regularized SVM solvers against cvxpy, LIBLINEAR and LIBSVM, in all layouts,
with valid gaps.
"""

import contextlib
import io
import os
import subprocess
import sys

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import xlogy
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from mtlrun.features import WeightedDegree
from mtlrun.penalties.graph import check_similarity, couple_tasks
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.svm.linear import solve_block_dcd, solve_svm_newton

LOSSES = ["hinge", "squared_hinge", "logistic"]
SOLVERS = [solve_block_dcd, solve_svm_newton]
ALONE = couple_tasks(np.ones((1, 1)))


def ragged(seed=0, sizes=(30, 8, 20), d=5):
    rng = np.random.default_rng(seed)
    Xs = [rng.normal(size=(n, d)) * (rng.uniform(size=(n, d)) < 0.7) for n in sizes]
    common = rng.normal(size=d)
    ys = [
        np.sign(X @ (common + 0.5 * rng.normal(size=d)) + rng.normal(size=len(X)) + 0.1)
        for X in Xs
    ]
    return TaskData.from_list(Xs, ys)


def graph(n_tasks=3, seed=0, strength=0.8):
    A = np.random.default_rng(seed).uniform(0.1, 1, size=(n_tasks, n_tasks))
    return couple_tasks(A + A.T, strength)


def losses(name, z):
    h = np.maximum(0, 1 - z)
    return {"hinge": h, "squared_hinge": h**2, "logistic": np.logaddexp(0, -z)}[name]


def primal_and_dual(data, coupling, loss, C, result, intercept=False):
    """Compute both objectives from coefficients and dual variables, directly."""
    W, alpha = (
        np.vstack([result.W, result.intercept]) if intercept else result.W,
        result.info["alpha"],
    )
    weights = data.effective_weights()
    cost = C * (np.ones(data.targets.shape) if weights is None else weights)
    primal, V = 0.5 * np.trace(W @ coupling.inverse @ W.T), np.zeros_like(W)
    dual = 0.0
    for t in range(data.n_tasks):
        rows = (
            slice(None) if data.shared else slice(data.offsets[t], data.offsets[t + 1])
        )
        pick = (rows, t) if data.shared else rows
        X = data.X[rows].toarray() if data.sparse else data.X[rows]
        X = np.column_stack([X, np.ones(len(X))]) if intercept else X
        y, a, c = data.targets[pick], alpha[pick], cost[pick]
        primal += c @ losses(loss, y * (X @ W[:, t]))
        V[:, t] = X.T @ (a * y)
        used = c > 0
        assert np.all(a >= 0)
        assert np.all(a[~used] == 0)
        a, c = a[used], c[used]
        if loss == "squared_hinge":
            dual += np.sum(a - a**2 / (4 * c))
        else:
            assert np.all(a <= c * (1 + 1e-15))
            dual += (
                np.sum(a)
                if loss == "hinge"
                else -np.sum(xlogy(a, a / c) + xlogy(c - a, 1 - a / c))
            )
    return primal, dual - 0.5 * np.trace(V @ coupling.matrix @ V.T)


# ---------------------------------------------------------------- oracles


@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_matches_cvxpy(loss):
    data, coupling, C = ragged(), graph(), 0.7
    W = cp.Variable((5, 3))
    root = np.linalg.cholesky(coupling.inverse)
    objective = 0.5 * cp.sum_squares(W @ root)
    for t in range(3):
        X, y, _ = data.task(t)
        z = cp.multiply(y, X @ W[:, t])
        parts = {
            "hinge": cp.pos(1 - z),
            "squared_hinge": cp.square(cp.pos(1 - z)),
            "logistic": cp.logistic(-z),
        }
        objective += C * cp.sum(parts[loss])
    best = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    for solver in SOLVERS:
        result = solver(data, coupling, loss=loss, C=C, tol=1e-8)
        assert result.converged
        assert result.objective[-1] == pytest.approx(best, rel=1e-6)
        assert_allclose(result.W, W.value, atol=2e-3)


@pytest.mark.cover(2)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_single_task_matches_liblinear(solver, loss, intercept):
    data = ragged(sizes=(60,), seed=3)
    result = solver(data, ALONE, loss=loss, C=0.5, fit_intercept=intercept, tol=1e-12)
    options = {
        "C": 0.5,
        "fit_intercept": intercept,
        "tol": 1e-10,
        "max_iter": 10**6,
        "random_state": 0,
    }
    if loss == "logistic":
        oracle = LogisticRegression(solver="liblinear", **options)
    else:
        oracle = LinearSVC(loss=loss, dual=True, **options)
    oracle.fit(data.X, data.y)
    assert_allclose(result.W[:, 0], oracle.coef_[0], atol=1e-4)
    assert_allclose(result.intercept, np.ravel(oracle.intercept_), atol=1e-4)


def test_the_hinge_matches_libsvm_with_the_multi_task_kernel():
    data, coupling = ragged(sizes=(20, 15, 10)), graph()
    result = solve_block_dcd(data, coupling, C=2.0, tol=1e-10)
    # Each example is repeated with both signs flipped, at half the cost each: the
    # intercept is 0 by symmetry.
    task = np.repeat([0, 1, 2], data.sizes)
    X, y, task = (
        np.vstack([data.X, -data.X]),
        np.concatenate([data.y, -data.y]),
        np.tile(task, 2),
    )
    K = coupling.matrix[np.ix_(task, task)] * (X @ X.T)
    oracle = SVC(kernel="precomputed", C=1.0, tol=1e-8).fit(K, y)
    assert oracle.intercept_[0] == pytest.approx(0, abs=1e-6)
    mirrored = TaskData.from_stacked(X, y, task)
    half = solve_block_dcd(mirrored, coupling, C=1.0, tol=1e-10)
    assert_allclose(half.W, result.W, atol=1e-5)
    scores = np.concatenate([data.task(t)[0] @ result.W[:, t] for t in range(3)])
    assert_allclose(oracle.decision_function(K)[: len(scores)], scores, atol=1e-4)


@pytest.mark.data
def test_the_landmine_optimum_is_reached():
    from mtlrun.data.sets.load import load_dataset

    if not os.path.isfile(
        os.path.join(os.environ.get("MTLRUN_DATA", ""), "landmine", "LandmineData.mat")
    ):
        pytest.skip("MTLRUN_DATA has no landmine/LandmineData.mat")
    data = load_dataset("landmine").taskdata()
    coupling = couple_tasks(check_similarity("all", data.tasks))
    best = 96345.857984233
    fast = solve_block_dcd(data, coupling, C=10.0, tol=1e-6)
    assert abs(fast.objective[-1] / best - 1) <= 1e-6
    exact = solve_svm_newton(data, coupling, C=10.0, tol=1e-9)
    assert exact.objective[-1] == pytest.approx(best, abs=1e-4)
    with_start = solve_block_dcd(
        data, coupling, C=10.0, tol=1e-11, start=exact.info["alpha"]
    )
    assert with_start.gap <= 1e-11
    assert with_start.objective[-1] == pytest.approx(best, abs=3e-6)


# ---------------------------------------------------------------- certificates


@pytest.mark.cover(2)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("tol", [1e-1, 1e-7])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_gap_is_valid(solver, loss, tol, intercept):
    data, coupling = ragged(), graph()
    result = solver(data, coupling, loss=loss, C=3.0, tol=tol, fit_intercept=intercept)
    primal, dual = primal_and_dual(data, coupling, loss, 3.0, result, intercept)
    assert result.objective[-1] == pytest.approx(primal, rel=1e-12)
    if solver is solve_block_dcd or loss == "hinge":
        # Coefficients match the dual variables.
        assert result.gap == pytest.approx((primal - dual) / max(1, primal), abs=1e-12)
    else:
        assert (primal - dual) / max(1, primal) <= result.gap + 1e-12
    assert 0 <= result.gap <= tol
    assert result.gaps[-1] == pytest.approx((result.n_iter, primal, dual), rel=1e-6)
    assert len(result.info["seconds"]) == len(result.gaps)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_dual_never_decreases(loss):
    result = solve_block_dcd(ragged(), graph(), loss=loss, C=5.0, tol=1e-9)
    duals = [dual for _, _, dual in result.gaps]
    assert np.all(np.diff(duals) >= -1e-9 * duals[-1])


@pytest.mark.parametrize("form", ["block", "example"])
@pytest.mark.parametrize("step", ["exact", "printed"])
def test_all_variants_reach_the_same_optimum(form, step):
    data, coupling = ragged(), graph()
    best = solve_svm_newton(data, coupling, C=2.0, tol=1e-10)
    result = solve_block_dcd(data, coupling, C=2.0, tol=1e-7, form=form, step=step)
    assert result.converged
    assert_allclose(result.W, best.W, atol=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", [False, True])
def test_exact_steps_for_free_support_vectors_reach_machine_precision(loss, intercept):
    data, coupling = ragged(sizes=(60, 40, 80)), graph()
    options = {"loss": loss, "C": 10.0, "fit_intercept": intercept}
    with_steps = solve_block_dcd(data, coupling, tol=1e-13, **options)
    assert with_steps.converged
    primal, dual = primal_and_dual(data, coupling, loss, 10.0, with_steps, intercept)
    assert primal - dual <= 2e-12 * primal
    without = solve_block_dcd(data, coupling, tol=1e-13, fast=False, **options)
    assert with_steps.n_iter < without.n_iter
    assert_allclose(with_steps.W, without.W, atol=1e-4)
    sparse = solve_block_dcd(
        data.with_design(sp.csr_array(data.X)), coupling, tol=1e-13, **options
    )
    assert_allclose(sparse.W, with_steps.W, atol=1e-5)


def test_exact_steps_handle_equal_rows():
    data = ragged(sizes=(30, 20))
    double = TaskData.from_list(
        [np.vstack([data.task(t)[0]] * 3) for t in range(2)],
        [np.tile(data.task(t)[1], 3) for t in range(2)],
    )
    result = solve_block_dcd(double, graph(2), C=1.0, tol=1e-12)
    once = solve_block_dcd(data, graph(2), C=3.0, tol=1e-12)
    assert result.converged
    assert_allclose(result.W, once.W, atol=1e-5)


def test_the_printed_step_is_shorter():
    data = ragged(sizes=(20,) * 10)
    coupling = couple_tasks(check_similarity("all", data.tasks))
    work = {
        s: solve_block_dcd(data, coupling, C=10.0, tol=1e-4, step=s, fast=False).n_iter
        for s in ("exact", "printed")
    }
    assert work["printed"] > 2 * work["exact"]


# ---------------------------------------------------------------- layouts


@pytest.mark.cover(2)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("form", ["block", "example"])
@pytest.mark.parametrize(
    "coupling", [graph(2), couple_tasks(np.ones((2, 2)))], ids=["general", "complete"]
)
def test_dense_csr_and_strings_are_the_same(loss, form, coupling):
    rng = np.random.default_rng(5)
    words = np.array(["".join(rng.choice(list("ACGTN"), 7)) for _ in range(40)])
    y = np.where(rng.uniform(size=40) < 0.5, 1.0, -1.0)
    task = np.repeat([0, 1], [25, 15])
    transformer = WeightedDegree(degree=3, normalize=True).fit(words)
    csr = TaskData.from_stacked(transformer.transform(words), y, task)
    designs = [csr.X.toarray(), csr.X, transformer.design(words)]
    results = [
        solve_block_dcd(
            csr.with_design(X),
            coupling,
            loss=loss,
            C=2.0,
            tol=1e-12,
            form=form,
            fit_intercept=True,
        )
        for X in designs
    ]
    for result in results[1:]:
        assert_allclose(result.W, results[0].W, atol=1e-5)
        assert_allclose(result.intercept, results[0].intercept, atol=1e-5)
        assert result.objective[-1] == pytest.approx(
            results[0].objective[-1], rel=1e-11
        )


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_shared_design_equals_the_stacked_one(solver, loss):
    rng = np.random.default_rng(1)
    X, Y = (
        rng.normal(size=(25, 4)),
        np.where(rng.uniform(size=(25, 3)) < 0.4, 1.0, -1.0),
    )
    weights = rng.integers(0, 3, size=(25, 3)).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.2] = np.nan
    shared = TaskData.from_matrix(X, Y, weights=weights)
    kept = [~np.isnan(column) for column in Y.T]
    stacked = TaskData.from_list(
        [X[k] for k in kept],
        [Y[k, t] for t, k in enumerate(kept)],
        weights=[weights[k, t] for t, k in enumerate(kept)],
    )
    results = [
        solver(data, graph(), loss=loss, tol=1e-10) for data in (shared, stacked)
    ]
    assert_allclose(results[0].W, results[1].W, atol=1e-4)
    assert results[0].info["alpha"].shape == (25, 3)
    primal, dual = primal_and_dual(shared, graph(), loss, 1.0, results[0])
    assert 0 <= primal - dual + 1e-12 <= 1e-9 * max(1, primal)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repetitions(solver, loss):
    data = ragged(sizes=(12, 10, 8))
    counts = np.random.default_rng(2).integers(0, 3, size=30)
    counts[[0, 12, 22]] = 1
    task = np.repeat([0, 1, 2], data.sizes)
    weighted = TaskData.from_stacked(data.X, data.y, task, weights=counts)
    rows = np.repeat(np.arange(30), counts)
    repeated = TaskData.from_stacked(data.X[rows], data.y[rows], task[rows])
    first, second = (
        solver(x, graph(), loss=loss, C=2.0, tol=1e-11) for x in (weighted, repeated)
    )
    assert_allclose(first.W, second.W, atol=1e-4)
    assert first.objective[-1] == pytest.approx(second.objective[-1], rel=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_rows_of_zeros_and_equal_rows_are_handled(solver, loss):
    X = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    data = TaskData.from_list([X], [np.array([1.0, 1, -1, 1, -1])])
    result = solver(data, ALONE, loss=loss, C=1.0, tol=1e-6)
    assert result.converged
    at_zero = {"hinge": 1.0, "squared_hinge": 2.0, "logistic": 0.5}[loss]
    assert_allclose(result.info["alpha"][[0, 4]], at_zero, atol=1e-3)


def test_read_only_data_are_not_changed():
    data = ragged()
    for X in (data.X, sp.csr_array(data.X)):
        for array in (
            (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
        ):
            array.flags.writeable = False
        assert solve_block_dcd(data.with_design(X), graph(), tol=1e-3).converged


# ---------------------------------------------------------------- starts, stops, seeds


@pytest.mark.parametrize("loss", LOSSES)
def test_a_warm_start_along_C_saves_work(loss):
    data, coupling = ragged(sizes=(200, 100, 50)), graph()
    first = solve_block_dcd(data, coupling, loss=loss, C=1.0, tol=1e-6)
    cold = solve_block_dcd(data, coupling, loss=loss, C=1.02, tol=1e-4)
    warm = solve_block_dcd(
        data, coupling, loss=loss, C=1.02, tol=1e-4, start=1.02 * first.info["alpha"]
    )
    assert warm.objective[0] < cold.objective[0] / 2 + warm.objective[-1] / 2
    assert warm.n_iter < cold.n_iter
    again = solve_block_dcd(
        data, coupling, loss=loss, C=1.0, tol=1e-5, start=first.info["alpha"]
    )
    assert again.gaps[-1][0] == 0


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_start_outside_the_bounds_is_projected(solver):
    data = ragged()
    result = solver(data, graph(), loss="logistic", start=np.full(58, 7.0), tol=1e-6)
    assert result.converged


def test_runs_are_repeatable_and_seeds_matter():
    data = ragged()
    runs = [
        solve_block_dcd(data, graph(), C=10.0, tol=1e-3, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(runs[0].W, runs[1].W)
    assert not np.array_equal(runs[0].W, runs[2].W)


@pytest.mark.parametrize("solver", SOLVERS)
def test_runs_stop_at_each_limit(solver):
    data = ragged()
    short = solver(data, graph(), C=100.0, tol=0, max_iter=2)
    assert not short.converged
    assert short.n_iter <= 3
    assert "max_iter=2" in short.message
    seen = []
    stopped = solver(
        data,
        graph(),
        C=100.0,
        tol=0,
        callback=lambda *values: seen.append(values) or len(seen) == 2,
    )
    assert stopped.message == "stopped by the callback"
    assert seen == stopped.gaps
    assert len(seen) == 2


@pytest.mark.parametrize("solver", SOLVERS)
def test_rounding_ends_a_run_with_an_unreachable_tolerance(solver):
    result = solver(
        ragged(), graph(), loss="squared_hinge", C=1.0, tol=0, max_iter=100000
    )
    assert result.gap < 1e-13
    assert result.converged or "accuracy of floats" in result.message


@pytest.mark.cover
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0}, "C must be positive"),
        ({"C": np.nan}, "C must be positive"),
        ({"loss": "squared"}, "loss must be one of hinge, squared_hinge, logistic"),
        ({"tol": -1}, "tol must be non-negative"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"coupling": ALONE}, "the coupling is of 1 tasks, the data have 3"),
        ({"data": ragged().with_targets(np.arange(58.0))}, "must be -1 or \\+1"),
        (
            {"start": np.zeros(3), "loss": "logistic"},
            r"dual variables of shape \(58,\), got shape \(3,\)",
        ),
        ({"start": np.full(58, np.nan), "loss": "logistic"}, "finite dual variables"),
    ],
)
@pytest.mark.parametrize("solver", SOLVERS)
def test_invalid_arguments_are_rejected(solver, change, message):
    arguments = {"data": ragged(), "coupling": graph(), **change}
    with pytest.raises(ValueError, match=message):
        solver(arguments.pop("data"), arguments.pop("coupling"), **arguments)


@pytest.mark.parametrize("change", [{"form": "blocks"}, {"step": "long"}])
def test_invalid_variants_are_rejected(change):
    with pytest.raises(ValueError, match=r"form.*'block'.*'example'"):
        solve_block_dcd(ragged(), graph(), **change)


@pytest.mark.slow
def test_uncompiled_python_gives_the_same_numbers():
    code = """
import numpy as np
from mtlrun.penalties.graph import couple_tasks
from mtlrun.problem.taskdata import TaskData
from mtlrun.features import WeightedDegree
from mtlrun.solvers.svm.linear import solve_block_dcd
rng = np.random.default_rng(0)
words = np.array(["".join(rng.choice(list("ACGT"), 5)) for _ in range(10)])
y, task = np.where(rng.uniform(size=10) < 0.5, 1.0, -1.0), np.repeat([0, 1], 5)
coupling = couple_tasks(np.ones((2, 2)))
for options in ({}, {"hash_bits": 5}):
    transformer = WeightedDegree(degree=2, **options).fit(words)
    data = TaskData.from_stacked(transformer.transform(words), y, task)
    for X in (data.X, data.X.toarray(), transformer.design(words)):
        for loss, form in (
            ("hinge", "block"),
            ("hinge", "example"),
            ("squared_hinge", "block"),
            ("logistic", "block"),
        ):
            result = solve_block_dcd(
                data.with_design(X),
                coupling,
                loss=loss,
                form=form,
                tol=1e-2,
            )
            print(loss, form, result.converged, f"{result.objective[-1]:.8f}")
"""
    environment = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONWARNINGS": "error::RuntimeWarning",
    }
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert run.returncode == 0, run.stderr
    compiled = io.StringIO()
    with contextlib.redirect_stdout(compiled):
        exec(code, {})
    assert run.stdout == compiled.getvalue()
    assert run.stdout.count("\n") == 24
