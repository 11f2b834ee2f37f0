"""Hierarchical regression where tasks are few, or differ in their noise.

Sections, each a table:

* new: 95% intervals (1.96 standard deviations) of a target of a new task;
* mean: t intervals of the mean slope, by `mean_coef_df_`;
* shares: variance that tasks explain in tables of three to six tasks, with the
  profile-likelihood interval;
* noise: intervals of tasks whose noise differs by a factor of four, of the saved model;
* choice: how often ``noise="auto"`` gives tasks their own noise.

Run with: python benchmarks/few_and_small_numbers.py [SECTION ...]; shares needs the
tables grouped/NAME.csv.gz in the folder $MTLRUN_DATA.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm, t

import mtlrun
from mtlrun.estimators import HierarchicalMTL

N_ROWS = 8


def tasks_with_levels(
    seed: int, n_tasks: int, n_rows: int, std: float, slope_std: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and tasks that differ in their level and in the slope of a column."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(n_tasks), n_rows)
    x = rng.normal(size=n_tasks * n_rows)
    level = std * rng.normal(size=n_tasks)
    slope = 1 + slope_std * rng.normal(size=n_tasks)
    y = level[ids] + slope[ids] * x + rng.normal(size=n_tasks * n_rows)
    return x[:, None], y, ids


def new_tasks(n_repeats: int = 1000) -> None:
    """Print coverage and width of the intervals of new tasks, by number of tasks."""
    print("level std | tasks | coverage | median width / with known variances")
    for std in (0.5, 2.0):
        for n_tasks in (2, 3, 4, 5, 7, 10, 11, 12, 15, 20):
            covered = []
            widths = []
            for seed in range(n_repeats):
                X, y, ids = tasks_with_levels(seed, n_tasks, N_ROWS, std)
                model = HierarchicalMTL("intercept", unseen="mean")
                model.fit(X, y, task_id=ids)
                mean, std_new = model.predict([[0.0]], task_id=[-1], return_std=True)
                # A target of a new task is normal around 0.
                ends = (mean + np.array([-1.96, 1.96]) * std_new) / np.hypot(std, 1)
                covered.append(np.diff(norm.cdf(ends))[0])
                widths.append(std_new[0])
            variance = std**2 * (1 + 1 / n_tasks) + 1 + 1 / (n_tasks * N_ROWS)
            width = np.median(widths) / np.sqrt(variance)
            print(f"{std} | {n_tasks} | {np.mean(covered):.3f} | {width:.2f}")


def mean_slopes(n_repeats: int = 1000) -> None:
    """Print the coverage of intervals of the mean slope."""
    print("covariance | tasks | t intervals | 1.96 standard errors")
    for covariance in ("auto", "diagonal"):
        for n_tasks in (4, 8, 12, 20):
            inside = np.zeros((n_repeats, 2), dtype=bool)
            for seed in range(n_repeats):
                X, y, ids = tasks_with_levels(seed, n_tasks, 10, 1.0, slope_std=0.3)
                model = HierarchicalMTL(covariance).fit(X, y, task_id=ids)
                quantiles = np.append(t.ppf(0.975, model.mean_coef_df_), 1.96)
                half = quantiles * model.mean_coef_std_[0]
                inside[seed] = np.abs(model.mean_coef_[0] - 1) < half
            by_t, by_normal = inside.mean(axis=0)
            print(f"{covariance} | {n_tasks} | {by_t:.3f} | {by_normal:.3f}")


def shares() -> None:
    """Print what tasks explain in public tables with few tasks."""
    folder = Path(os.environ["MTLRUN_DATA"]) / "grouped"
    print("table | tasks | common model | tasks explain | 95% interval")
    for name, target, task, column, n_tasks in (
        ("sleepstudy", "Reaction", "Subject", "Days", 3),
        ("Exam", "normexam", "school", "standLRT", 3),
        ("Machines", "score", "Worker", "Machine", 6),
    ):
        frame = pd.read_csv(folder / f"{name}.csv.gz")
        frame = frame[frame[task].isin(frame[task].unique()[:n_tasks])]
        X = pd.get_dummies(frame[[column]], drop_first=True).to_numpy(float)
        model = HierarchicalMTL("diagonal")
        model.fit(X, frame[target].to_numpy(float), task_id=frame[task].to_numpy())
        interval = model.variance_interval()
        print(
            f"{name} | {n_tasks} | {model.variance_shares_['mean']:.0%} | "
            f"{interval.share:.0%} | {interval.share_low:.0%} to "
            f"{interval.share_high:.0%}"
        )


def noisy_tasks(
    rng: np.random.Generator, coefficients: np.ndarray, noise: np.ndarray, n_rows: int
) -> pd.DataFrame:
    """Return a table with rows of each task, whose noise has its own standard
    deviation.
    """
    n_tasks = len(coefficients)
    ids = np.repeat(np.arange(n_tasks), n_rows)
    slopes = rng.normal(size=(len(ids), 3))
    A = np.column_stack([np.ones(len(ids)), slopes])
    frame = pd.DataFrame(slopes, columns=["a", "b", "c"])
    frame["task"] = [f"t{task}" for task in ids]
    frame["y"] = np.sum(coefficients[ids] * A, axis=1)
    frame["y"] += noise[ids] * rng.normal(size=len(ids))
    return frame


def noise_by_task(n_repeats: int = 10) -> None:
    """Print the coverage in 5 noisy and 15 quiet tasks with 30 rows each."""
    noise = np.where(np.arange(20) < 5, 4.0, 1.0)
    print("method | noisy tasks | quiet tasks | CPU seconds per comparison")
    for method in ("HierarchicalMTL", "GraphMTL"):
        covered = []
        start = time.process_time()
        for seed in range(n_repeats):
            rng = np.random.default_rng(seed)
            coefficients = (
                np.array([2.0, 1.0, -1.0, 0.5]) + rng.normal(size=(20, 4)) / 2
            )
            train = noisy_tasks(rng, coefficients, noise, 30)
            test = noisy_tasks(rng, coefficients, noise, 200)
            result = mtlrun.compare(train, target="y", task="task", methods=[method])
            table = result.model.predict_table(test, interval=0.95)
            is_inside = (test["y"] >= table["lower"]) & (test["y"] <= table["upper"])
            covered.append(is_inside.to_numpy().reshape(20, -1).mean(axis=1))
        seconds = (time.process_time() - start) / n_repeats
        noisy, quiet = np.split(np.mean(covered, axis=0), [5])
        print(f"{method} | {noisy.mean():.3f} | {quiet.mean():.3f} | {seconds:.1f}")


def choice(n_repeats: int = 100) -> None:
    """Print how often tasks get a noise of their own, and what the choice costs."""
    print("noise | tasks | rows | own noise | CPU of auto / common")
    for name, spread in (("equal", 0.0), ("differs by e^.5", 0.5)):
        for n_tasks, n_rows in ((10, 30), (40, 10), (300, 3)):
            n_own = 0
            seconds = np.zeros(2)
            for seed in range(n_repeats):
                X, y, ids = tasks_with_levels(seed, n_tasks, n_rows, 1.0)
                rng = np.random.default_rng(seed)
                y = y * np.exp(spread * rng.normal(size=n_tasks))[ids]
                for position, kind in enumerate(("auto", "common")):
                    start = time.process_time()
                    model = HierarchicalMTL(noise=kind).fit(X, y, task_id=ids)
                    seconds[position] += time.process_time() - start
                    n_own += np.isfinite(model.noise_degrees_)
            print(
                f"{name} | {n_tasks} | {n_rows} | {n_own / n_repeats:.0%} | "
                f"{seconds[0] / seconds[1]:.2f}"
            )


SECTIONS: dict[str, Callable[[], None]] = {
    "new": new_tasks,
    "mean": mean_slopes,
    "shares": shares,
    "noise": noise_by_task,
    "choice": choice,
}


def main() -> None:
    """Print the sections that the command line names, by default all."""
    warnings.simplefilter("ignore")
    for section in sys.argv[1:] or SECTIONS:
        print(f"\n{section}")
        SECTIONS[section]()


if __name__ == "__main__":
    main()
