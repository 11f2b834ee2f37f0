"""Coverage of the intervals of `mtlrun compare`, on grouped tables.

A fifth of the rows of each task (known tasks), or a fifth of the tasks (new tasks), is
left out of the comparison. The saved model then predicts it with 95% intervals.

Run with: python benchmarks/intervals.py DIR, which holds the tables as NAME.csv.gz.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import mtlrun

#: Table -> target, task and columns that are no features.
TABLES = {
    "sleepstudy": ("Reaction", "Subject", []),
    "Milk": ("protein", "Cow", []),
    "Orthodont": ("distance", "Subject", []),
    "Machines": ("score", "Worker", []),
    "radon": ("log.radon", "county", ["county.name"]),
    "Exam": ("normexam", "school", ["student"]),
}


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


def run(
    folder: Path, name: str, design: str, methods: str, seed: int
) -> tuple[int, int, str]:
    """Return the left-out rows inside their intervals, their number, and the method."""
    target, task, drop = TABLES[name]
    frame = pd.read_csv(folder / f"{name}.csv.gz").drop(columns=["rownames", *drop])
    test = held_out(frame, task, design, seed)
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
    found = result.model.predict_table(rows, interval=0.95)
    inside = (rows[target] >= found["lower"]) & (rows[target] <= found["upper"])
    return int(inside.sum()), len(rows), result.saved


def main() -> None:
    """Print the coverage of each table and design, over several seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default="HierarchicalMTL")
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.tables:
        for design in ("known", "new"):
            n_inside = 0
            n_rows = 0
            winners = []
            for seed in range(options.seeds):
                inside, rows, winner = run(
                    options.folder, name, design, options.methods, seed
                )
                n_inside += inside
                n_rows += rows
                winners.append(winner)
            share = n_inside / n_rows
            names = ", ".join(sorted(set(winners)))
            print(f"{name:12} {design:6} {share:6.1%} of {n_rows:5} rows  {names}")


if __name__ == "__main__":
    main()
