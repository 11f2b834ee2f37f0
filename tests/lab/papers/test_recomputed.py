"""Numbers behind verdicts, recomputed with public packages on one split each."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import DataError
from mtlrun.estimators import GraphSVC, IndependentMKLClassifier, RobustMTL
from mtlrun.lab.experiment.claims import Verdict
from mtlrun.lab.report.claims import JudgedRun
from mtlrun.lab.report.run import jobs_of, read_run
from mtlrun.metrics import accuracy_per_task
from mtlrun.papers.fetr.seconds import fetr_convergence

RESULTS = Path(__file__).parents[3] / "results"


def loaded(name, **options):
    try:
        return load_dataset(name, **options)
    except DataError:
        pytest.skip(f"MTLRUN_DATA does not hold {name}")


def rows_of(n, train, seed=0):
    order = np.random.default_rng(seed).permutation(n)
    return order[: int(train * n)], order[int(train * n) :]


# ------------------------------------------------------------ LADM against APG on Enron


# X is diagonal here, given by its singular values s of shape (rank, 1).
def shrink_both(L, E, step, lam):
    U, s, Vt = np.linalg.svd(L, full_matrices=False)
    lengths = np.linalg.norm(E, axis=0)
    return (U * np.maximum(s - step, 0)) @ Vt, E * np.maximum(
        0, 1 - lam * step / np.maximum(lengths, 1e-300)
    )


def primal(L, E, residual, lam, beta):
    return (
        np.linalg.norm(L, "nuc")
        + lam * np.linalg.norm(E, axis=0).sum()
        + beta * np.sum(residual**2)
    )


def dual(point, s, Y, lam, beta):
    """Return the value at the best feasible multiple of a point: <Q, Y> - ||Q||^2 / (4
    beta), X'Q of norms up to 1 and lam.
    """
    image = s * point
    longest = min(
        1 / np.linalg.norm(image, 2), lam / np.linalg.norm(image, axis=0).max()
    )
    best = 2 * beta * np.vdot(point, Y) / np.vdot(point, point)
    point = min(longest, best) * point
    return np.vdot(point, Y) - np.vdot(point, point) / (4 * beta)


def iterations_of_apg(s, Y, lam, beta, tol, every=5):
    curvature = 4 * beta * s.max() ** 2
    old = now = np.zeros((2, *Y.shape))
    t, best = 1.0, -np.inf
    for it in range(1, 5000):
        t_new = (1 + np.sqrt(1 + 4 * t**2)) / 2
        at = now + (t - 1) / t_new * (now - old)
        gradient = -2 * beta * s * (Y - s * at.sum(axis=0))
        old, now, t = (
            now,
            np.stack(shrink_both(*(at - gradient / curvature), 1 / curvature, lam)),
            t_new,
        )
        if it % every == 0:
            residual = Y - s * now.sum(axis=0)
            best = max(best, dual(2 * beta * residual, s, Y, lam, beta))
            value = primal(*now, residual, lam, beta)
            if value - best <= tol * value:
                return it
    return 5000


def iterations_of_ladm(s, Y, lam, beta, tol, every=5):
    """Update both parts in one step of half the length, the loss exactly, the penalty
    parameter from 2 beta downwards.
    """
    tau = 1 / (1.02 * s.max() ** 2)
    mu = 2 * beta
    W = np.zeros((2, *Y.shape))
    image, best = np.zeros_like(Y), -np.inf
    M = 2 * beta * Y / (2 * beta + mu)
    C = mu * (image - M)
    for it in range(1, 5000):
        gradient = s * (image - M + C / mu)
        W = np.stack(shrink_both(*(W - tau / 2 * gradient), tau / 2 / mu, lam))
        image = s * W.sum(axis=0)
        at = 1.6 * image - 0.6 * M + C / mu
        M = (mu * at + 2 * beta * Y) / (mu + 2 * beta)
        C = mu * (at - M)
        if it % every == 0:
            best = max(best, dual(-C, s, Y, lam, beta))
            value = primal(*W, Y - image, lam, beta)
            if value - best <= tol * value:
                return it
        mu /= np.sqrt(1 + 2 * mu / (2 * beta))
    return 5000


@pytest.mark.data
@pytest.mark.slow
def test_ladm_takes_fewer_iterations_than_apg_on_enron():
    data = loaded("enron", coding="0/1")
    train, _ = rows_of(data.n_samples, 0.1)
    X, Y = data.X[train].toarray(), data.y[train]
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    assert np.sum(Y**2) - np.sum((U.T @ Y) ** 2) < 1e-8 * np.sum(
        Y**2
    )  # The rows are independent.
    # In the bases of the singular vectors X is diagonal; norms and products do not
    # change.
    lam, beta, tol = 1.0, 0.02, 1e-3
    ladm = iterations_of_ladm(s[:, None], U.T @ Y, lam, beta, tol)
    apg = iterations_of_apg(s[:, None], U.T @ Y, lam, beta, tol)
    how = {"stop": "gap", "tol": tol, "fit_intercept": False, "max_iter": 5000}
    ours = (
        RobustMTL(lam, beta, solver="ladm", variant="accelerated", **how)
        .fit(X, Y)
        .n_iter_
    )
    theirs = (
        RobustMTL(lam, beta, solver="apg", variant="paper", **how).fit(X, Y).n_iter_
    )
    assert ladm < apg
    assert ours < theirs
    assert ours == pytest.approx(ladm, rel=0.1, abs=10)
    assert theirs == pytest.approx(apg, rel=0.1, abs=10)


# --------------------------------------------- single-task learning at C = 1 on Vehicle


@pytest.mark.data
def test_single_tasks_with_equal_weights_and_c_1_match_scikit_learn_on_vehicle():
    data = loaded("vehicle", tasks={"make": "one-vs-one"})
    actual, expected = [], []
    for task in range(data.n_tasks):
        task_rows = (
            np.flatnonzero(data.task_id == task)
            if data.task_id is not None
            else np.arange(data.n_samples)
        )
        train, test = rows_of(len(task_rows), 0.1, seed=task)
        X = data.X[task_rows]
        X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
        y = data.y[task_rows] if data.task_id is not None else data.y[task_rows, task]

        def unit(K, X, Z, of):
            left, right = (np.sqrt(np.diag(of(A, A))) for A in (X, Z))
            return K / np.outer(left, right)

        def mean(X, Z):
            kernels = [
                lambda A, B: A @ B.T,
                lambda A, B: polynomial_kernel(A, B, degree=2, gamma=1, coef0=0),
            ]
            kernels += [
                lambda A, B, k=k: rbf_kernel(A, B, gamma=0.5 / 4.0**k) for k in range(8)
            ]
            return np.mean([unit(of(X, Z), X, Z, of) for of in kernels], axis=0)

        reference = SVC(C=1.0, kernel="precomputed", tol=1e-6).fit(
            mean(X[train], X[train]), y[train]
        )
        expected.append(np.mean(reference.predict(mean(X[test], X[train])) == y[test]))
        ours = IndependentMKLClassifier(C=1.0, kernels=["mean"], tol=1e-6).fit(
            X[train], y[train][:, None]
        )
        actual.append(
            accuracy_per_task(y[test], np.asarray(ours.predict(X[test])).ravel())[0]
        )
    assert actual == pytest.approx(expected, abs=0.01)
    assert (
        0.72 < np.mean(actual) < 0.83
    )  # As published: 79.7 for single tasks; with selected parameters 84.


# -------------------------------- the kernel solver against coordinate ascent, Landmine

C, TOL = 10.0, 1e-3


def similarity(T):
    """Return (I + L)^-1 of the complete graph."""
    return np.linalg.inv((T + 1) * np.eye(T) - np.ones((T, T)))


def steps_of_kernel_solver(X, y, task, M):
    """Take single steps along the dual variable with the largest gain: one row of the
    kernel matrix and one of the gradient each.
    """
    K = (X @ X.T) * M[np.ix_(task, task)] * np.outer(y, y)
    alpha, gradient, diagonal = np.zeros(len(y)), np.ones(len(y)), np.diag(K)
    for step in range(1, 10**6):
        d = np.clip(alpha + gradient / diagonal, 0, C) - alpha
        i = np.argmax(d * (gradient - d * diagonal / 2))
        alpha[i] += d[i]
        gradient -= d[i] * K[i]
        if step % 50 == 0:
            quadratic = alpha @ (1 - gradient) / 2
            primal, dual = (
                quadratic + C * np.maximum(gradient, 0).sum(),
                alpha.sum() - quadratic,
            )
            if primal - dual <= TOL * primal:
                return step, primal, dual
    raise AssertionError("not converged")


def sweeps_of_ascent(X, y, task, M, exact):
    """Run Algorithm 1: random sweeps over the rows; the printed step lacks M_tt."""
    Z, rng = X * y[:, None], np.random.default_rng(0)
    alpha, V = np.zeros(len(y)), np.zeros((len(M), X.shape[1]))
    curvature = np.sum(X**2, axis=1) * (np.diag(M)[task] if exact else 1.0)
    for sweep in range(1, 3000):
        for i in rng.permutation(len(y)):
            new = min(
                C, max(0.0, alpha[i] + (1 - Z[i] @ (M[task[i]] @ V)) / curvature[i])
            )
            if new != alpha[i]:
                V[task[i]] += (new - alpha[i]) * Z[i]
                alpha[i] = new
        if sweep % 10 == 0:
            W = M @ V
            quadratic = np.vdot(V, W) / 2
            losses = np.maximum(1 - np.sum(Z * W[task], axis=1), 0)
            primal, dual = quadratic + C * losses.sum(), alpha.sum() - quadratic
            if primal - dual <= TOL * primal:
                return sweep, primal, dual
    raise AssertionError("not converged")


@pytest.mark.data
def test_the_kernel_solver_needs_less_work_than_the_printed_ascent_on_landmine():
    data = loaded("landmine")
    rows_by_task = [np.flatnonzero(data.task_id == t) for t in range(data.n_tasks)]
    rows = np.concatenate(
        [
            r[np.random.default_rng(t).permutation(len(r))[: len(r) // 50]]
            for t, r in enumerate(rows_by_task)
        ]
    )
    X, y, task = data.X[rows], data.y[rows], data.task_id[rows]
    (n, d), T = X.shape, data.n_tasks
    M = similarity(T)
    kernel, printed, exact = (
        steps_of_kernel_solver(X, y, task, M),
        sweeps_of_ascent(X, y, task, M, exact=False),
        sweeps_of_ascent(X, y, task, M, exact=True),
    )
    optimum = (
        GraphSVC(C=C, fit_intercept=False, tol=1e-8, max_iter=10_000)
        .fit(X, y, task_id=task)
        .objective_[-1]
    )
    for _, primal, dual in (kernel, printed, exact):
        assert dual <= optimum * (1 + 1e-8)
        assert optimum <= primal * (1 + 1e-8)
    # Multiplications: a row of the kernel and of the gradient, against T weights and d
    # features per row of a sweep.
    ratio = kernel[0] * n * (d + 1) / (printed[0] * n * T * d)
    assert 0.05 < ratio < 0.5  # In seconds, on 1483 to 14,820 rows: 0.22 to 0.34
    # The printed reason, a large T, is incomplete: with M_tt = 1/15 in the step the
    # same method needs far fewer sweeps.
    assert M[0, 0] == pytest.approx(1 / 15)
    assert printed[0] > 5 * exact[0]


def test_the_recorded_ratio_on_landmine_follows_from_its_job_and_decides_the_claim():
    run = read_run(RESULTS / "mtsvm" / "fig2" / "quick")
    # LIBSVM, the competitor in the paper
    (key,) = jobs_of(run, "landmine", "MTK with intercept")
    record = run.records[key.key]
    ratio = record.metrics["times_paper"]
    curve = record.result["curves"]["seconds to precision"]
    assert curve["x"][-1] == 14820
    assert curve["y"][-1] == record.metrics["seconds_to_precision"]
    assert (
        f"mtk-intercept, 14820 rows: {ratio:.3g} times the seconds of paper."
        in record.result["lines"]
    )

    def verdict(ratio):
        job = replace(record, metrics={**record.metrics, "times_paper": ratio})
        claims = JudgedRun.of(
            replace(run, records={**run.records, key.key: job}, others=[])
        ).claims
        return next(claim.verdict for claim in claims if claim.id == "mtsvm-4-landmine")

    # A factor within 0.3 of one is too small to decide.
    assert abs(ratio - 1) < 0.3
    assert verdict(ratio) == Verdict.UNDECIDED
    assert verdict(0.4) == Verdict.CONFIRMED
    assert verdict(2.5) == Verdict.NOT_CONFIRMED


# --------------------------------------------------------- iterations of FETR on SARCOS


def clipped(moment, count):
    """Minimize tr(S A) - count log|S|, eigenvalues in [0.01, 100]; return S, log|S|."""
    values, vectors = np.linalg.eigh(moment)
    best = np.clip(count / np.maximum(values, 1e-300), 0.01, 100)
    return (vectors * best) @ vectors.T, np.log(best).sum()


def objectives_of_fetr(G, R, yy, eta, rho, rounds):
    """Minimize in turn over W, S1 and S2; return objectives and the last fit."""
    d, m = R.shape
    S1, S2, objectives = np.eye(d), np.eye(m), []
    for _ in range(rounds):
        W = np.linalg.solve(
            np.kron(np.eye(m), G + eta * np.eye(d)) + rho * np.kron(S2, S1), R.T.ravel()
        )
        W = W.reshape(m, d).T
        S1, log1 = clipped(W @ S2 @ W.T, m)
        S2, log2 = clipped(W.T @ S1 @ W, d)
        fit = yy - 2 * np.vdot(W, R) + np.vdot(W, G @ W) + eta * np.vdot(W, W)
        objectives.append(fit + rho * (np.vdot(S1, W @ S2 @ W.T) - m * log1 - d * log2))
    return np.array(objectives), fit


@pytest.mark.data
@pytest.mark.parametrize(("rows", "few"), [(44_484, True), (1345, False)])
def test_fetr_needs_fewer_than_ten_iterations_at_the_size_of_the_paper(rows, few):
    data = loaded("sarcos", variant="unbiased")
    train = data.splits["fixed"][0][0]
    X, Y = data.X[train], data.y[train]
    assert len(X) == 1345
    X, Y = (X - X.mean(axis=0)) / X.std(axis=0), Y - Y.mean(axis=0)
    scale = rows / len(X)  # As if there were this many rows of this kind
    objectives, fit = objectives_of_fetr(
        scale * X.T @ X,
        scale * X.T @ Y,
        scale * np.sum(Y**2),
        scale,
        1.0,
        40 if few else 400,
    )
    iterations = 1 + int(np.argmax(objectives - objectives.min() <= 1e-6 * fit))
    ours = fetr_convergence(data, seed=0, rho=1 / scale, seconds=30).values
    assert iterations == ours["iterations_to_1e-6"]
    assert (iterations < 10) == few
