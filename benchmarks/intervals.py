"""Coverage of the intervals of `mtlrun compare`, on grouped tables.

A fifth of the rows of each task (known tasks), or a fifth of the tasks (new tasks), is
left out. Then it is predicted with 95% intervals

* by the model that the comparison saves, whichever method it is;
* by `HierarchicalMTL`, whose intervals are in units of its own standard deviations.

Rows of one task are alike, and several seeds leave out the same rows. Standard errors
therefore count tasks, not rows: with s_k of the n_k left-out rows of task k inside,
over all seeds, and the share p, the squared standard error is ``G / (G - 1) * sum((s_k
- p * n_k) ** 2) / sum(n_k) ** 2`` for G tasks.

Run with: python benchmarks/intervals.py DIR, which holds the tables as NAME.csv.gz.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

import mtlrun
from mtlrun.estimators import HierarchicalMTL
from mtlrun.model.intervals import Errors, Intervals

#: Table -> target, task and columns that are no features.
TABLES = {
    "sleepstudy": ("Reaction", "Subject", []),
    "Milk": ("protein", "Cow", []),
    "Orthodont": ("distance", "Subject", []),
    "Machines": ("score", "Worker", []),
    "radon": ("log.radon", "county", ["county.name"]),
    "Exam": ("normexam", "school", ["student"]),
}
N_FOLDS = 5
LEVEL = 0.95


def held_out(frame: pd.DataFrame, task: str, design: str, seed: int) -> np.ndarray:
    """Return which rows are left out."""
    rng = np.random.default_rng(seed)
    tasks = frame[task].to_numpy()
    if design == "new":
        names = np.unique(tasks)
        n_chosen = max(2, len(names) // 5)
        return np.isin(tasks, rng.choice(names, n_chosen, replace=False))
    rank = pd.Series(rng.random(len(frame))).groupby(tasks).rank(method="first")
    sizes = pd.Series(tasks).groupby(tasks).transform("size")
    return (rank <= np.maximum(0.2 * sizes, 1) * (sizes > 2)).to_numpy()


def selected_model(
    frame: pd.DataFrame,
    test: np.ndarray,
    name: str,
    design: str,
    methods: str,
    seed: int,
) -> tuple[np.ndarray, str]:
    """Return which left-out rows the saved model's intervals hold, and its method."""
    target, task, _ = TABLES[name]
    result = mtlrun.compare(
        frame[~test],
        target=target,
        task=task,
        methods=methods,
        new_tasks=design == "new",
        repeats=1,
        seed=seed,
    )
    rows = frame[test]
    table = result.model.predict_table(rows, interval=LEVEL)
    is_inside = (rows[target] >= table["lower"]) & (rows[target] <= table["upper"])
    return is_inside.to_numpy(), result.saved


def hierarchical_model(
    frame: pd.DataFrame, test: np.ndarray, name: str, design: str, seed: int
) -> np.ndarray:
    """Return which left-out rows the intervals of `HierarchicalMTL` hold.

    The errors come from five folds of the other rows, as `mtlrun compare` takes them.
    """
    target, task, _ = TABLES[name]
    features = pd.get_dummies(frame.drop(columns=[target, task]), drop_first=True)
    X = features.to_numpy(dtype=float)
    y = frame[target].to_numpy(dtype=float)
    names, tasks = np.unique(frame[task].to_numpy(), return_inverse=True)
    train = np.flatnonzero(~test)
    # Deal the rows of each task (known tasks), or the tasks (new tasks), to the folds.
    rng = np.random.default_rng(seed)
    folds = np.empty(len(frame), dtype=int)
    if design == "new":
        folds = (rng.permutation(len(names)) % N_FOLDS)[tasks]
    else:
        shuffled = rng.permutation(train)
        by_task = shuffled[np.argsort(tasks[shuffled], kind="stable")]
        folds[by_task] = np.arange(len(train)) % N_FOLDS
    values = []
    for fold in range(N_FOLDS):
        rows = train[folds[train] == fold]
        others = train[folds[train] != fold]
        if design == "known":
            rows = rows[np.isin(tasks[rows], tasks[others])]
        if not len(rows):
            continue
        model = HierarchicalMTL(unseen="mean")
        model.fit(X[others], y[others], task_id=tasks[others])
        predicted, std = model.predict(X[rows], task_id=tasks[rows], return_std=True)
        fold_of_row = np.full(len(rows), fold)
        values.append((y[rows] - predicted, predicted, tasks[rows], fold_of_row, std))
    errors = Errors(*[np.concatenate(part) for part in zip(*values, strict=True)])
    intervals = Intervals.of(
        errors, len(names), is_shared=False, is_new=design == "new"
    )
    model = HierarchicalMTL(unseen="mean").fit(X[train], y[train], task_id=tasks[train])
    predicted, std = model.predict(X[test], task_id=tasks[test], return_std=True)
    below, above = intervals.ends(tasks[test], std, LEVEL)
    residuals = y[test] - predicted
    return (residuals >= below) & (residuals <= above)


def share_and_error(is_inside: np.ndarray, tasks: np.ndarray) -> tuple[float, float]:
    """Return the share of rows inside and its standard error, tasks as clusters."""
    _, codes = np.unique(tasks, return_inverse=True)
    share = float(is_inside.mean())
    deviations = np.bincount(codes, is_inside - share)
    n_tasks = len(deviations)
    variance = n_tasks / (n_tasks - 1) * float(np.sum(deviations**2))
    return share, math.sqrt(variance) / len(tasks)


def measure(
    folder: Path, name: str, design: str, methods: str, seeds: int
) -> list[str]:
    """Return a line per kind of model, over several seeds."""
    _, task, drop = TABLES[name]
    frame = pd.read_csv(folder / f"{name}.csv.gz").drop(columns=["rownames", *drop])
    inside: dict[str, list[np.ndarray]] = {"selected": [], "HierarchicalMTL": []}
    tasks = []
    winners: Counter[str] = Counter()
    for seed in range(seeds):
        test = held_out(frame, task, design, seed)
        tasks.append(frame[task].to_numpy()[test])
        is_inside, winner = selected_model(frame, test, name, design, methods, seed)
        inside["selected"].append(is_inside)
        winners[winner] += 1
        is_inside = hierarchical_model(frame, test, name, design, seed)
        inside["HierarchicalMTL"].append(is_inside)
    lines = []
    for kind, parts in inside.items():
        is_inside = np.concatenate(parts)
        share, error = share_and_error(is_inside, np.concatenate(tasks))
        text = f"{name:12} {design:6} {kind:16} {share:6.1%} (se {error:.1%})"
        lines.append(f"{text} of {len(is_inside):5} rows, {seeds} seeds")
    counts = ", ".join(f"{label} {n}" for label, n in winners.most_common())
    lines[0] += f"; saved: {counts}"
    return lines


def main() -> None:
    """Print the coverage of each table and design."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default="HierarchicalMTL")
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.tables:
        for design in ("known", "new"):
            started = time.process_time()
            lines = measure(
                options.folder, name, design, options.methods, options.seeds
            )
            print("\n".join(lines))
            seconds = time.process_time() - started
            print(f"{'':12} {seconds:.0f} processor seconds", flush=True)


if __name__ == "__main__":
    main()
