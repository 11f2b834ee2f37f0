"""What racing changes: methods that are selected with and without it.

Each table is compared twice, with one process: with racing, then with complete searches
(``racing=False``), which share the records of the first run. The table shows, over all
strategies (separate models, one model for all, multi-task learning) and splits, how
many selections of a method and how many parameters of a selected method differ, how
much the score of each strategy on the test rows changes, and both gains. Where the
first inner folds have fewer than 100 targets, the limits of the race are wide, else
they are narrow.

Run with: python benchmarks/racing.py FOLDER [TABLE ...] --output racing.jsonl; FOLDER
holds the data. A table is stored when it is finished, and no table starts after
--minutes. An interrupted run resumes.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mtlrun
from mtlrun.comparison.racing import MIN_TARGETS, n_first_folds
from mtlrun.comparison.verdict import INDEPENDENT, MULTITASK, POOLED, strategies_of

sys.path.append(str(Path(__file__).parent))
from compare_speed import table as speed_table

#: Columns at the end of tables with several targets.
TARGETS = {"edm": 2, "enb": 2, "slump": 3, "jura": 3, "andro": 6, "sf1": 3}
LABELS = ("flags", "emotions", "yeast")
#: From fast to slow.
TABLES = (
    "forty",
    "similar",
    "Milk",
    "radon",
    "cake",
    "slump",
    "flags",
    "jura",
    "Socatt",
    "Exam",
    "enb",
    "emotions",
    "Contraception",
)
TITLES = {INDEPENDENT: "separate", POOLED: "one model", MULTITASK: "multi-task"}


def similar() -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return 20 simulated tasks of 60 rows with similar coefficients."""
    rng = np.random.default_rng(5)
    ids = np.repeat(np.arange(20), 60)
    X = rng.normal(size=(len(ids), 12))
    weights = rng.normal(size=12) + 0.7 * rng.normal(size=(20, 12))
    y = (X * weights[ids]).sum(axis=1) + 4 * rng.normal(size=len(ids))
    frame = pd.DataFrame(X).add_prefix("x")
    names = [f"t{t:02d}" for t in ids]
    return frame.assign(task=names, y=y), {"target": "y", "task": "task"}


def table(name: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return a table and the options that name its targets."""
    files = folder / "mulan-small"
    if name == "similar":
        return similar()
    if name in TARGETS:
        return files / f"{name}.arff.gz", {"targets_last": TARGETS[name]}
    if name in LABELS:
        file = files / f"{name}.arff.gz"
        if not file.exists():
            file = files / f"{name}.arff"
        return file, {"labels": files / f"{name}.xml"}
    return speed_table(name, folder)


def one(name: str, folder: Path) -> dict[str, Any]:
    """Compare the default methods on a table with and without racing."""
    data, options = table(name, folder)
    line: dict[str, Any] = {"table": name}
    with tempfile.TemporaryDirectory() as output:
        for kind, racing in (("raced", True), ("complete", False)):
            started = time.process_time()
            result = mtlrun.compare(
                data, **options, min_rows=4, racing=racing, output=output
            )
            line[kind] = summary_of(result)
            line[kind]["seconds"] = time.process_time() - started
    evaluation = result.board.evaluation
    n_targets = np.count_nonzero(~np.isnan(evaluation.y))
    n_inner = len(next(iter(result.board.entries[1].fold_losses.values())))
    share = (evaluation.n_folds - 1) / evaluation.n_folds
    line["n_targets"] = int(n_targets * share * n_first_folds(n_inner) / n_inner)
    line["metric"] = result.board.metric
    return line


def summary_of(result: Any) -> dict[str, Any]:
    """Return the selected methods with parameters and scores, and the gain."""
    entries = {entry.label: entry for entry in result.board.entries}
    strategies, _ = strategies_of(result.board.entries, result.board.evaluation)
    selected = {}
    for family, strategy in strategies.items():
        selected[family] = [
            [label, entries[label].chosen[split], entries[label].scores[split]]
            for split, label in strategy.selected.items()
        ]
    gain = result.board.answer.gain
    return {"selected": selected, "gain": [gain.value, gain.low, gain.high]}


def row(line: dict[str, Any]) -> str:
    """Return a line of the table in Markdown."""
    n_selections = 0
    n_methods = 0
    n_params = 0
    changes = []
    for family in TITLES:
        raced = line["raced"]["selected"][family]
        complete = line["complete"]["selected"][family]
        n_selections += len(raced)
        for one_raced, one_complete in zip(raced, complete, strict=True):
            if one_raced[0] != one_complete[0]:
                n_methods += 1
            elif one_raced[1] != one_complete[1]:
                n_params += 1
        score = np.mean([selection[2] for selection in raced])
        other = np.mean([selection[2] for selection in complete])
        if line["metric"] == "auc":
            changes.append(f"{score - other:+.4f}")
        else:
            changes.append(f"{score / other - 1:+.2%}")
    gains = []
    for kind in ("raced", "complete"):
        value, low, high = line[kind]["gain"]
        gains.append(f"{value:.2%} ({low:.2%} to {high:.2%})")
    limits = "narrow" if line["n_targets"] >= MIN_TARGETS else "wide"
    seconds = line["raced"]["seconds"]
    total = seconds + line["complete"]["seconds"]
    cells = [
        line["table"],
        f"{line['n_targets']}, {limits}",
        f"{seconds:.0f}, {total:.0f}",
        f"{n_methods}, {n_params} of {n_selections}",
        ", ".join(changes),
        *gains,
    ]
    return f"| {' | '.join(cells)} |"


def summary(lines: list[dict[str, Any]]) -> str:
    """Return the table in Markdown."""
    header = [
        "table",
        "targets in the first folds, limits",
        "CPU s raced, and of both runs",
        "other methods, other parameters",
        f"change of the score ({', '.join(TITLES.values())})",
        "gain, raced",
        "gain, complete",
    ]
    rows = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join([*rows, *map(row, lines)])


def main() -> None:
    """Compare the tables that the output lacks and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--output", type=Path, default=Path("racing.jsonl"))
    parser.add_argument("--minutes", type=float, help="no table starts after this time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    deadline = math.inf
    if options.minutes is not None:
        deadline = time.monotonic() + 60 * options.minutes
    lines = []
    if options.output.exists():
        lines = [json.loads(text) for text in options.output.read_text().splitlines()]
    done = {line["table"] for line in lines}
    with options.output.open("a") as file:
        for name in options.tables or TABLES:
            if name in done or time.monotonic() > deadline:
                continue
            line = one(name, options.folder)
            lines.append(line)
            file.write(json.dumps(line, default=float) + "\n")
            file.flush()
            print(row(line), file=sys.stderr, flush=True)
    print(summary(lines))


if __name__ == "__main__":
    main()
