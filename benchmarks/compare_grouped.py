"""`mtlrun compare` on published tables with groups: when hierarchical models are best.

The thirteen tables of the folder ``grouped`` (a csv.gz each), School with its 139
schools and Landmine with its 29 fields. Each table uses the default methods and folds
of `compare`; row numbers, identifiers and tasks with fewer than four rows are dropped
first.

Run with: python benchmarks/compare_grouped.py FOLDER --output grouped.jsonl; finished
tables are not recomputed.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mtlrun
from mtlrun.data.sets.load import load_dataset

sys.path.append(str(Path(__file__).parent))
from compare_tables import cells, collected, cpu_seconds

#: Table -> target, task, columns that are dropped beside the row number.
GROUPED: dict[str, tuple[str, str, list[str]]] = {
    "sleepstudy": ("Reaction", "Subject", []),
    "Orthodont": ("distance", "Subject", []),
    "Machines": ("score", "Worker", []),
    "cake": ("angle", "replicate", []),
    "radon": ("log.radon", "county", ["county.name"]),
    "Milk": ("protein", "Cow", []),
    "Exam": ("normexam", "school", ["student"]),
    "ScotsSec": ("attain", "second", ["primary"]),
    "Socatt": ("numpos", "district", ["respond"]),
    "Hsb82": ("mAch", "school", []),
    "egsingle": ("math", "schoolid", ["childid"]),
    "Contraception": ("use", "district", ["woman"]),
    "toenail": ("outcome", "patientID", []),
}
#: Table -> columns of numbers and words that are names.
NAMES = {"Contraception": ["livch"]}
TABLES = [*GROUPED, "School", "Landmine"]


def table(name: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return a table and the options that name its target and task."""
    if name == "School":
        return _school()
    if name == "Landmine":
        return cells(folder / "landmine" / "LandmineData.mat", "feature", "label", 29)
    target, task, dropped = GROUPED[name]
    frame = pd.read_csv(folder / "grouped" / f"{name}.csv.gz")
    frame = frame.drop(
        columns=[column for column in ["rownames", *dropped] if column in frame]
    )
    return frame.astype({task: str}), {
        "target": target,
        "task": task,
        "categorical": NAMES.get(name, []),
    }


def _school() -> tuple[pd.DataFrame, dict[str, Any]]:
    data = load_dataset("school")
    frame = pd.DataFrame(np.asarray(data.X)).add_prefix("x")
    return frame.assign(task=[data.tasks[t] for t in data.task_id], y=data.y), {
        "target": "y",
        "task": "task",
    }


def one(name: str, folder: Path, jobs: int) -> dict[str, Any]:
    """Compare the default methods on a table."""
    data, options = table(name, folder)
    started, cpu = time.monotonic(), cpu_seconds()
    result = mtlrun.compare(data, **options, min_rows=4, jobs=jobs)
    board = result.board
    ranked = [(entry.label, entry.score) for entry in board.ranked()]
    hierarchical = [
        place
        for place, (label, _) in enumerate(ranked)
        if label.startswith("Hierarchical")
    ]
    multitask = [
        entry
        for entry in board.ranked()
        if entry.family == "multi-task" and not entry.label.startswith("Hierarchical")
    ]
    found = board.answer
    return {
        "table": name,
        "size": f"{result.dataset.n_samples:,} x {result.dataset.n_features} x {result.dataset.n_tasks}",
        "kind": found.kind,
        "gain": found.gain and [found.gain.value, found.gain.low, found.gain.high],
        "metric": board.metric,
        "hierarchical": [hierarchical[0] + 1, len(ranked), ranked[hierarchical[0]][1]]
        if hierarchical
        else None,
        "first": ranked[0],
        "best other multi-task": (multitask[0].label, multitask[0].score)
        if multitask
        else None,
        "seconds": round(time.monotonic() - started),
        "cpu": round(cpu_seconds() - cpu),
    }


def summary(lines: list[dict[str, Any]]) -> str:
    """Return the table in Markdown."""
    rows = [
        "| table | rows x features x tasks | verdict | gain (95% interval) | metric | hierarchical: rank, score "
        "| first | best other multi-task | CPU seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --: |",
    ]
    for line in lines:
        gain = (
            "-"
            if line["gain"] is None
            else "{:.3f} ({:.3f} to {:.3f})".format(*line["gain"])
        )
        place = line["hierarchical"]
        ours = "-" if place is None else f"{place[0]} of {place[1]}, {place[2]:.4f}"
        first, other = (
            f"{label} {score:.4f}"
            for label, score in (line["first"], line["best other multi-task"])
        )
        spent = f"{line['metric']} | {ours} | {first} | {other} | {line['cpu']} |"
        rows.append(
            f"| {line['table']} | {line['size']} | {line['kind']} | {gain} | {spent}"
        )
    return "\n".join(rows)


def main() -> None:
    """Compare on the tables that the output lacks, and print all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=Path, help="data directory, with grouped/, school/ and landmine/"
    )
    parser.add_argument("--output", type=Path, default=Path("grouped.jsonl"))
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        summary(
            collected(
                given.tables,
                given.output,
                lambda name: [one(name, given.folder, given.jobs)],
            )
        )
    )


if __name__ == "__main__":
    main()
