"""Timings of relationship learning as ratios, in one process with one BLAS thread.

Usage: python benchmarks/fetr.py [--quick] [--data-dir DIR]

Rows: a whole FETR fit against projected gradient (X'X computed once, searched step) to
the same objective; the W-step against scipy.linalg.solve_sylvester; a fit on School.
Seconds are processor time: with one thread, this is the wall time of an idle machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import DataError
from mtlrun.estimators.relationship import FETR
from mtlrun.papers.fetr.seconds import solve_projected_gradient
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.relationship.fetr import solve_fetr
from mtlrun.solvers.relationship.wsystem import (
    CoupledSystem,
    solve_eigen,
    solve_sylvester,
)


def median_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Return the median processor time of some calls, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return float(np.median(times))


def synthetic_sarcos(seed: int = 0) -> TaskData:
    """Return 44,484 rows of 21 correlated features with 7 tasks of rank 3 and noise
    of 0.3 of their deviation.
    """
    rng = np.random.default_rng(seed)
    n, d, m = 44_484, 21, 7
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / np.sqrt(d)
    Y = X @ rng.normal(size=(d, 3)) @ rng.normal(size=(3, m))
    return TaskData.from_matrix(X, Y + 0.3 * Y.std() * rng.normal(size=Y.shape))


def fit_against_projected_gradient(limit: float, repeats: int) -> None:
    """Print the seconds to the objective of the fit, up to a relative 1e-6, of FETR
    and of its found.
    """
    data = synthetic_sarcos()
    options: dict[str, Any] = {"eta": 1.0, "rho": 1.0, "fit_intercept": True}
    target = solve_fetr(data, **options).objective[-1]
    ours = median_seconds(lambda: solve_fetr(data, **options), repeats)
    print(
        f"FETR fit, {data.n_rows} x {data.n_features}, {data.n_tasks} tasks: {ours:.4f} s (X'X included)"
    )
    for w_step in ("gradient", "exact"):
        start = time.process_time()

        def enough(_: int, value: float, __: Any, start: float = start) -> bool:
            return (
                value <= target + 1e-6 * abs(target)
                or time.process_time() - start > limit
            )

        found = solve_projected_gradient(
            data, **options, w_step=w_step, tol=-np.inf, max_iter=10**9, callback=enough
        )
        seconds = time.process_time() - start
        missing = (found.objective[-1] - target) / abs(target)
        reached = (
            "reached"
            if missing <= 1e-6
            else f"NOT reached after {limit:g} s, missing {missing:.1e}"
        )
        bound = "" if missing <= 1e-6 else "> "
        print(
            f"  projected gradient, W by {w_step} steps: {bound}{seconds:.2f} s, {found.n_iter} iterations, {reached}; "
            f"ratio {bound}{seconds / ours:.0f}x (ask: 100x)"
        )


def w_step_against_scipy(sizes: list[int], repeats: int) -> None:
    """Print the ratio of scipy's Bartels-Stewart to our solver, with both residuals.

    `alone`: from the matrices. `in a fit`: with the eigenvectors of S2 that the step
    before has computed.
    """
    rng = np.random.default_rng(0)
    for d in sizes:
        X = rng.uniform(size=(2 * d + 100, d))
        for m in sizes:
            S1, S2 = _box_spd(d, rng), _box_spd(m, rng)
            system = CoupledSystem(
                X.T @ X, X.T @ rng.normal(size=(len(X), m)), S1, S2, 1.0, 1.0
            )
            known = replace(system, task_spectrum=scipy.linalg.eigh(S2))
            calls = [
                partial(solve_sylvester, system),
                partial(solve_eigen, system),
                partial(solve_eigen, known),
            ]
            residuals = [call().residual for call in calls]
            seconds = alternating_seconds(calls, repeats if max(d, m) < 1000 else 3)
            slow, alone, inside = np.median(seconds, axis=0)
            ratios = np.median(seconds[:, :1] / seconds[:, 1:], axis=0)
            print(
                f"W-step d={d:5d} m={m:5d}: scipy {slow:.4f} s (residual {residuals[0]:.1e}); ours alone {alone:.4f} s "
                f"({residuals[1]:.1e}), {ratios[0]:.1f}x; in a fit {inside:.4f} s ({residuals[2]:.1e}), "
                f"{ratios[1]:.1f}x (ask: {8 if d == m == 1000 else 2.5}x)"
            )


def alternating_seconds(calls: list[Callable[[], Any]], repeats: int) -> np.ndarray:
    """Return the seconds of processor time (repeats, calls), in turn: neighbors on
    the machine change little.
    """
    seconds = np.empty((repeats, len(calls)))
    for r in range(repeats):
        for c, call in enumerate(calls):
            start = time.process_time()
            call()
            seconds[r, c] = time.process_time() - start
    return seconds


def _box_spd(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random matrix with eigenvalues log-uniform in [0.01, 100]."""
    Q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    A = (Q * 10 ** rng.uniform(-2, 2, size=size)) @ Q.T
    return (A + A.T) / 2


def school(data_dir: str | None, repeats: int) -> None:
    """Print the seconds of a fit on School, 139 ragged tasks, standardized columns."""
    try:
        data = load_dataset("school", data_dir=data_dir)
    except DataError as error:
        print(f"School: skipped, {error}")
        return
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    for eta, rho in ((1.0, 1.0), (1.0, 10.0), (1.0, 100.0)):
        model = FETR(eta, rho)
        seconds = median_seconds(
            lambda model=model: model.fit(X, data.y, task_id=data.task_id), repeats
        )
        print(
            f"FETR fit, School, eta={eta:g} rho={rho:g}: {seconds:.3f} s, {model.n_iter_} rounds, "
            f"converged {model.converged_} (ask: 1 s)"
        )


def main() -> int:
    """Run all rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="sizes up to 500, 10 s for the competitor"
    )
    parser.add_argument("--data-dir", help="where School lies; default: MTLRUN_DATA")
    arguments = parser.parse_args()
    repeats = 3 if arguments.quick else 5
    with threadpool_limits(1):
        fit_against_projected_gradient(10.0 if arguments.quick else 120.0, repeats)
        w_step_against_scipy(
            [100, 500] if arguments.quick else [100, 500, 1000], repeats
        )
        school(arguments.data_dir, repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
