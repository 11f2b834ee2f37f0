"""Hierarchical models: optima and seconds beside statsmodels, local minima, size,
accuracy, coverage, size of tests.

``python benchmarks/hierarchical.py`` prints all tables; names of parts (``optima random
seconds accuracy intervals tests``) print some. Real tables are those in ``grouped/``
below MTLRUN_DATA, and the data set school. Seconds are CPU seconds of one thread.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from mtlrun.data.sets.load import load_dataset
from mtlrun.data.splits import split_rows
from mtlrun.estimators import HierarchicalMTL
from mtlrun.lab.report.run import read_run
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical.compress import of_data
from mtlrun.solvers.hierarchical.covariance import newton
from mtlrun.solvers.hierarchical.fit import HierarchicalProblem, fit_covariance
from mtlrun.solvers.hierarchical.inference import score_test

#: Table -> target, column of the tasks, features (text becomes 0/1 columns).
TABLES = {
    "sleepstudy": ("Reaction", "Subject", ["Days"]),
    "Exam": ("normexam", "school", ["standLRT", "schavg", "sex"]),
    "Hsb82": ("mAch", "school", ["cses", "minrty", "sx"]),
    "egsingle": (
        "math",
        "schoolid",
        ["year", "grade", "size", "lowinc", "mobility", "female", "retained"],
    ),
    "Machines": ("score", "Worker", ["Machine"]),
    "Milk": ("protein", "Cow", ["Time", "Diet"]),
}
#: Rows of `TABLES` that statsmodels needs more than a minute for, with a full
#: covariance.
SLOW = ("egsingle",)
OURS = "HierarchicalMTL"


def tables() -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield name, features, targets and tasks of the real tables that are there."""
    folder = Path(os.environ.get("MTLRUN_DATA", "")) / "grouped"
    for name, (target, task, columns) in TABLES.items():
        if not (folder / f"{name}.csv.gz").is_file():
            continue
        frame = pd.read_csv(folder / f"{name}.csv.gz").dropna(
            subset=[target, task, *columns]
        )
        X = pd.get_dummies(frame[columns], drop_first=True).astype(float)
        yield name, X.to_numpy(), frame[target].to_numpy(float), frame[task].to_numpy()


def school() -> tuple[Any, Any, Any]:
    """Return features, targets and tasks of the data set school."""
    data = load_dataset("school")
    return data.X, data.y, data.task_id


def timed(call: Callable[[], Any], repeats: int = 3) -> tuple[Any, float]:
    """Return what a call returns, and the least CPU seconds of some calls."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        found = call()
        seconds.append(time.process_time() - started)
    return found, min(seconds)


# ---------------------------------------------------------------------- optima


def optima() -> None:
    """Print minus twice the restricted log-likelihood of both packages on the same
    standardized columns.
    """
    print(
        f"{'table':12}{'covariance':12}{'ours':>16}{'statsmodels':>16}{'evals':>7}{'reduction':>10}"
        f"{'s':>9}{'s theirs':>10}{'ratio':>7}"
    )
    for name, X, y, ids in [*tables(), ("school", *school())]:
        for covariance in ("intercept", "diagonal", "full"):
            if name == "school" and covariance == "full":
                continue
            found, seconds = timed(lambda: _ours(X, y, ids, covariance))  # noqa: B023
            theirs, slow = (np.nan, np.nan)
            if not (name == "school" and covariance != "intercept") and not (
                name in SLOW and covariance != "intercept"
            ):
                theirs, slow = timed(lambda: _theirs(X, y, ids, covariance), 1)  # noqa: B023
            fit = found.fit
            print(
                f"{name:12}{covariance:12}{found.criterion:16.6f}{theirs:16.6f}{fit.n_evaluations:7d}{fit.predicted_reduction:10.1e}"
                f"{seconds:9.4f}{slow:10.3f}{slow / seconds:7.0f}"
            )


def _ours(X: Any, y: Any, ids: Any, covariance: str) -> Any:
    data = of_data(TaskData.from_stacked(X, y, ids))[0]
    return fit_covariance(HierarchicalProblem(data, np.arange(data.p)), covariance)


def _theirs(X: Any, y: Any, ids: Any, covariance: str) -> float:
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    std = X.std(axis=0)
    A = np.column_stack([np.ones(len(y)), ((X - X.mean(axis=0)) / std)[:, std > 0]])
    q, free = (1 if covariance == "intercept" else A.shape[1]), None
    if covariance == "diagonal":
        free = MixedLMParams.from_components(np.ones(A.shape[1]), np.eye(q))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(
                -2 * MixedLM(y, A, ids, exog_re=A[:, :q]).fit(reml=True, free=free).llf
            )
    except (np.linalg.LinAlgError, ValueError):
        return np.nan


# ---------------------------------------------------------------------- local minima


def random() -> None:
    """Print how often Newton ends within 1e-4 of the best of three starts, on 280
    random tables.
    """
    good = 0
    rises = 0
    converged = 0
    evaluations: list[int] = []
    for seed in range(280):
        rng = np.random.default_rng(seed)
        T, d, low = (
            int(rng.integers(5, 60)),
            int(rng.integers(1, 9)),
            int(rng.integers(2, 6)),
        )
        ids = np.repeat(
            np.arange(T), rng.integers(low, low + int(rng.integers(1, 20)), size=T)
        )
        X = rng.normal(size=(len(ids), d)) * 10 ** rng.uniform(
            -2, 2, size=d
        ) + 3 * rng.normal(size=d)
        spread = np.where(rng.random(d) < 0.5, 0, 2 * rng.random(d)) / X.std(axis=0)
        W = rng.normal(size=d) / X.std(axis=0) + rng.normal(size=(T, d)) * spread
        level = (rng.random() < 0.7) * rng.normal(size=T)
        y = (
            (X * W[ids]).sum(axis=1)
            + level[ids]
            + rng.normal(size=len(ids)) * 10 ** rng.uniform(-1.5, 0.5)
        )
        data = of_data(TaskData.from_stacked(X, y, ids))[0]
        made = HierarchicalProblem(data, np.arange(data.p))
        m = made.marginal()
        structure = made.grouped_variances(m, "diagonal")
        fit = newton(m, structure)
        others = [
            newton(m, structure, start=np.full(data.p, x)).value.criterion
            for x in (0.05, 8.0)
        ]
        good += fit.value.criterion <= min(others) + 1e-4
        evaluations.append(fit.n_evaluations)
        rises += bool((np.diff(fit.path) > 0).any())
        converged += fit.converged
    print(
        f"280 random tables: {good} within 1e-4 of the best of three starts, {converged} converged, {rises} rises;"
    )
    print(
        f"evaluations: median {np.median(evaluations):.0f}, 90% below {np.quantile(evaluations, 0.9):.0f}"
    )


# ---------------------------------------------------------------------- seconds


def seconds() -> None:
    """Print CPU seconds of whole fits, from rows and from sums, and the memory of
    the largest.
    """
    rng = np.random.default_rng(0)
    for T, d, low, high in ((5000, 5, 3, 12), (10_000, 10, 90, 111)):
        ids = np.repeat(np.arange(T), rng.integers(low, high, size=T))
        X = rng.normal(size=(len(ids), d))
        W = 1 + 0.5 * rng.normal(size=(T, d))
        y = (
            np.einsum("nd,nd->n", X, W[ids])
            + rng.normal(size=T)[ids]
            + rng.normal(size=len(ids))
        )
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        fit, took = timed(lambda: HierarchicalMTL("diagonal").fit(X, y, task_id=ids), 2)  # noqa: B023
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{len(y)} rows x {d}, {T} tasks: {took:.2f} s, {fit.n_iter_} evaluations, "
            f"{(peak - before) / 2**20:.2f} GiB more"
        )
    X, y, ids = school()
    for covariance in ("intercept", "scalar", "diagonal", "auto"):
        model, took = timed(lambda: HierarchicalMTL(covariance).fit(X, y, task_id=ids))  # noqa: B023
        print(f"school, {covariance}: {took:.3f} s, {model.structure_}")
    ids, X = np.repeat(np.arange(200), 150), rng.normal(size=(30_000, 100))
    y = np.einsum(
        "nd,nd->n", X, (1 + 0.2 * rng.normal(size=(200, 100)))[ids]
    ) + rng.normal(size=30_000)
    sums = TaskStatistics.of(X, y, ids)
    for covariance in ("scalar", "diagonal"):
        model, took = timed(lambda: HierarchicalMTL(covariance).fit_statistics(sums), 2)  # noqa: B023
        print(
            f"200 tasks x 100 features from sums, {covariance}: {took:.2f} s, {model.n_iter_} evaluations"
        )
    rows = HierarchicalMTL("diagonal").fit(X, y, task_id=ids)
    halves = TaskStatistics.of(X[::2], y[::2], ids[::2]) + TaskStatistics.of(
        X[1::2], y[1::2], ids[1::2]
    )
    both = HierarchicalMTL("diagonal").fit_statistics(halves)
    print(
        f"rows and halves of sums: {abs(rows.objective_[-1] / both.objective_[-1] - 1):.1e} apart, relatively"
    )


# ---------------------------------------------------------------------- accuracy


def accuracy() -> None:
    """Print explained variance on the ten published splits of School, and simulated
    settings in which it leads.
    """
    data = load_dataset("school")
    for covariance in ("intercept", "scalar", "diagonal", "auto"):
        found = []
        for trial in range(10):
            train, _, test = split_rows(
                data, "published", name="argyriou", trial=trial, seed=0
            )
            scaler = StandardScaler().fit(data.X[train])
            X, ids = scaler.transform(data.X), data.task_id
            model = HierarchicalMTL(covariance, unseen="mean").fit(
                X[train], data.y[train], task_id=ids[train]
            )
            miss = data.y[test] - model.predict(X[test], task_id=ids[test])
            found.append(1 - np.mean(miss**2) / np.var(data.y[test]))
        print(
            f"school, {covariance}: explained variance {np.mean(found):.4f} +- {np.std(found, ddof=1):.4f}"
        )
    ahead: dict[str, list[bool]] = {}
    for name, errors in atlas():
        others = [
            error
            for (method, family), error in errors.items()
            if family == "multi-task" and method != OURS
        ]
        ahead.setdefault(name, []).append(errors[OURS, "multi-task"] <= min(others))
    for name, wins in sorted(ahead.items()):
        print(
            f"{name}: ahead of the best other multi-task method in {sum(wins)} of {len(wins)} settings"
        )


def atlas() -> Iterator[tuple[str, dict[tuple[str, str], float]]]:
    """Yield the data and the errors by method and family of each setting of
    atlas/gain with a hierarchical model.
    """
    run = read_run(Path(__file__).parents[1] / "results/atlas/gain/quick")
    for _, record in sorted(run.records.items()):
        dataset = record.inputs["dataset"]
        table = record.result.get("tables", {}).get("methods")
        if table is None:
            continue
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        errors = {(row["method"], row["family"]): row["error"] for row in rows}
        if (OURS, "multi-task") in errors:
            name = (
                dataset["id"]
                if dataset["id"] != "simulated-families"
                else "simulated, all families"
            )
            yield name, errors


# ---------------------------------------------------------------------- intervals


def intervals() -> None:
    """Print the coverage of 95% intervals: left-out rows and left-out tasks of real
    tables, and simulated tasks.
    """
    for name, X, y, ids in [*tables(), ("school", *school())]:
        tasks = np.unique(ids)
        if len(tasks) < 10:
            continue
        seen, new = [], []
        for fold in range(5):
            rng = np.random.default_rng(fold)
            rows = rng.permutation(len(y)) % 5 == 0
            seen.append(_covered(X, y, ids, ~rows, rows & np.isin(ids, ids[~rows])))
            left = np.isin(ids, rng.permutation(tasks)[: len(tasks) // 5])
            new.append(_covered(X, y, ids, ~left, left))
        print(
            f"{name:12} tasks seen {np.mean(np.concatenate(seen)):.3f}, never seen {np.mean(np.concatenate(new)):.3f}"
        )
    for T in (5, 10, 30):
        found = np.array([_simulated(seed, T) for seed in range(200)]).mean(axis=0)
        print(
            f"simulated, {T} tasks of 8 rows: coefficients {found[0]:.3f}, new rows {found[1]:.3f}, "
            f"new tasks {found[2]:.3f}"
        )


def _covered(X: Any, y: Any, ids: Any, train: Any, test: Any) -> Any:
    model = HierarchicalMTL(unseen="mean").fit(X[train], y[train], task_id=ids[train])
    mean, std = model.predict(X[test], task_id=ids[test], return_std=True)
    return np.abs(y[test] - mean) < 1.96 * std


def _simulated(seed: int, T: int) -> tuple[float, float, float]:
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T + 10), 16)
    X, W = (
        rng.normal(size=(len(ids), 3)),
        rng.normal(size=4) + rng.normal(size=(T + 10, 4)) * [1.0, 0.6, 0.6, 0.6],
    )
    y = W[ids, 0] + (X * W[ids, 1:]).sum(axis=1) + rng.normal(size=len(ids))
    first = np.arange(len(ids)) % 16 < 8
    train = (ids < T) & first
    model = HierarchicalMTL("scalar", unseen="mean").fit(
        X[train], y[train], task_id=ids[train]
    )
    hits = []
    for rows in ((ids < T) & ~first, ids >= T):
        mean, std = model.predict(X[rows], task_id=ids[rows], return_std=True)
        hits.append(float(np.mean(np.abs(y[rows] - mean) < 1.96 * std)))
    return (
        float(np.mean(np.abs(W[:T, 1:] - model.coef_) < 1.96 * model.coef_std_)),
        hits[0],
        hits[1],
    )


# ---------------------------------------------------------------------- tests


def tests() -> None:
    """Print how often the score test of the slopes rejects at 5%: nothing differs,
    and slopes of sd 0.5 do.
    """
    for T, n, spread in ((30, 5, 0.0), (10, 5, 0.0), (30, 5, 0.5), (10, 5, 0.5)):
        rejected = []
        for seed in range(1000):
            rng = np.random.default_rng(seed)
            ids, X = np.repeat(np.arange(T), n), rng.normal(size=(T * n, 4))
            W = 1 + spread * rng.normal(size=(T, 4))
            y = (
                (X * W[ids]).sum(axis=1)
                + rng.normal(size=T)[ids]
                + rng.normal(size=T * n)
            )
            data = of_data(TaskData.from_stacked(X, y, ids))[0]
            rejected.append(
                score_test(data, np.arange(1, 5), np.arange(1), 199, seed).p_value
                <= 0.05
            )
        what = "size" if spread == 0 else "power"
        print(
            f"score test, {T} tasks of {n} rows: {what} {np.mean(rejected):.3f} in 1,000 draws"
        )


def main() -> None:
    """Print the parts that are asked for."""
    parts = {
        part.__name__: part
        for part in (optima, random, seconds, accuracy, intervals, tests)
    }
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sys.argv[1:] or parts:
            parts[name]()


if __name__ == "__main__":
    main()
