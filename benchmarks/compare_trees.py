"""Do the leaves of boosted trees need a search? Errors with a search, a halved search,
and fixed numbers of leaves.

On every table that has enough rows per task for boosted trees, a model per task and a
model of all tasks are fitted with several numbers of leaves on the splits of `compare`,
and on the folds inside their training rows. These give the selection of each rule, and
its error on the test rows:

* *searched*: the smallest mean error of three folds among the leaves at both ends;
* *halved*: the smallest error of the first fold among them;
* a number: always so many leaves.

Run with: python benchmarks/compare_trees.py FOLDER [TABLE ...] [--repeats 1] [--output
trees.jsonl]; FOLDER holds the data; finished tables are not recomputed.
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

sys.path.append(str(Path(__file__).parent))
import compare_grouped
from compare_tables import TARGETS as OTHERS
from compare_tables import alike, collected, dataset_of

from mtlrun.catalog.registry import build
from mtlrun.comparison.candidates import (
    POOLED_TREES,
    SINGLE_TREES,
    Candidate,
    default_candidates,
)
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol
from mtlrun.data.reading.read import read_table
from mtlrun.data.splits import fold_rows
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.fit import with_features
from mtlrun.engine.job import Features, with_params
from mtlrun.metrics import get_metric

#: Leaves that are tried; a search has the first and the last of them.
LEAVES = {POOLED_TREES: (4, 6, 8, 16), SINGLE_TREES: (3, 4, 5, 6, 8)}
#: Multi-target tables and their last columns that are targets.
TARGETS = {**OTHERS, "atp7d": 6, "oes10": 16, "scpf": 3, "sf1": 3}
LABELS = ("emotions", "flags")
SIMULATED = ("equal", "unrelated", "groups")
RAGGED = (
    "School",
    "Landmine",
    "Exam",
    "ScotsSec",
    "Hsb82",
    "radon",
    "Socatt",
    "Machines",
)
TABLES = [*SIMULATED, *sorted(TARGETS.keys() - {"wq"}), *LABELS, *RAGGED]


def steps(kind: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return 15 tasks of 80 rows, simulated: a line and a step per feature, equal,
    unrelated or in three groups.
    """
    rng = np.random.default_rng(2)
    sizes, ids = rng.normal(size=(15, 10))[alike(kind)], np.repeat(np.arange(15), 80)
    X = rng.normal(size=(1200, 10))
    y = (np.where(X > 0, X, -1.0) * sizes[ids]).sum(axis=1) + rng.normal(size=1200)
    return pd.DataFrame(X).add_prefix("x").assign(task=[f"t{t}" for t in ids], y=y), {
        "target": "y",
        "task": "task",
    }


def table(name: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return a table and its roles."""
    if name in SIMULATED:
        return steps(name)
    if name in RAGGED:
        return compare_grouped.table(name, folder)
    file = folder / "mulan-small" / f"{name}.arff.gz"
    if name in LABELS:
        return (file, folder / "mulan-small" / f"{name}.xml"), {}
    heads = read_table(file).columns
    return file, {"targets": heads[-TARGETS[name] :]}


def errors(
    candidate: Candidate, part: TrainTestData, leaves: int, metric: str
) -> float:
    """Return the error of a model on the test rows of a part; for AUC, 1 - AUC."""
    grown = with_params(candidate.params, dict.fromkeys(candidate.grid, leaves))
    model = part.rows.fit(build({"estimator": candidate.estimator, "params": grown}))
    score = part.score(model, part.predict(model, many=True), [metric], "task")[
        metric
    ].mean
    return 1.0 - score if get_metric(metric).greater_is_better else score


def measure(name: str, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Return for every kind of trees and every split the errors of all leaves, on
    test rows and on inner folds.
    """
    data = dataset_of(*table(name, folder))
    settings = CompareOptions(repeats=repeats)
    protocol = Protocol.of(data, settings)
    found = []
    for candidate in default_candidates(data, protocol.train):
        if candidate.label not in LEAVES:
            continue
        for trial in range(protocol.n_splits):
            train, test = protocol.rows(data, trial)
            inside = data.subset(train)
            folds = [
                TrainTestData.of(inside, a, b)
                for a, b in fold_rows(inside, protocol.n_inner_folds, trial)
            ]
            parts = [
                with_features(part, Features("table"))[0]
                for part in [TrainTestData.of(data, train, test), *folds]
            ]
            lines: dict[str, Any] = {
                "table": name,
                "trees": candidate.label,
                "split": trial,
            }
            for leaves in LEAVES[candidate.label]:
                started = time.process_time()
                values = [
                    errors(candidate, part, leaves, protocol.metric) for part in parts
                ]
                seconds = time.process_time() - started
                lines[str(leaves)] = {
                    "test": values[0],
                    "folds": values[1:],
                    "seconds": round(seconds, 3),
                }
            found.append(lines)
    return found


def summary(lines: list[dict[str, Any]]) -> str:
    """Return, per kind of trees, the change of the error by each rule, in percent per
    table.
    """
    rows = []
    for label, leaves in LEAVES.items():
        rules: list[Any] = ["halved", *leaves]
        rows += [
            f"\n{label}: percent of the error of the search",
            "| table | " + " | ".join(map(str, rules)) + " |",
        ]
        rows.append("|---|" + "--:|" * len(rules))
        changes = []
        for name in dict.fromkeys(
            line["table"] for line in lines if line["trees"] == label
        ):
            mine = [
                line
                for line in lines
                if line["trees"] == label and line["table"] == name
            ]
            searched = np.mean([_chosen(line, leaves, 3) for line in mine])
            values = [np.mean([_chosen(line, leaves, 1) for line in mine])]
            values += [
                np.mean([line[str(number)]["test"] for line in mine])
                for number in leaves
            ]
            changes.append(100 * (np.array(values) / searched - 1))
            rows.append(
                f"| {name} | "
                + " | ".join(f"{change:+.1f}" for change in changes[-1])
                + " |"
            )
        for word, of in (("mean", np.mean), ("worst", np.max)):
            rows.append(
                f"| {word} | "
                + " | ".join(f"{change:+.1f}" for change in of(changes, axis=0))
                + " |"
            )
    return "\n".join(rows)


def _chosen(line: dict[str, Any], leaves: tuple[int, ...], folds: int) -> float:
    """Return the test error of the number of leaves that is best on the first folds."""
    ends = [line[str(leaves[0])], line[str(leaves[-1])]]
    return float(min(ends, key=lambda end: np.nanmean(end["folds"][:folds]))["test"])


def main() -> None:
    """Measure the tables that the output lacks, and print all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("trees.jsonl"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = collected(
        given.tables,
        given.output,
        lambda name: measure(name, given.folder, given.repeats),
    )
    print(summary(lines))


if __name__ == "__main__":
    main()
