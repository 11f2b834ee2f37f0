"""Make the csv files that ``atlas/sharing`` reads from runs of ``atlas/pairs`` and
``atlas/verdicts``.

``python scripts/atlas_pairs.py results/atlas/pairs/quick`` writes
``configs/atlas/pairs.csv``, with a line per table, seed, learner, number of rows and
method. A run of ``atlas/verdicts`` makes ``configs/atlas/verdicts.csv``, with a line
per table and seed. Unfinished runs make shorter files. Kind, family and source of the
tables are those of ``configs/atlas/tables.csv``; simulated tables are a kind of their
own.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtlrun.engine.analysis import published_path
from mtlrun.engine.record import Record
from mtlrun.lab.papers.atlas.pairs import COLUMNS, DECISIONS
from mtlrun.lab.papers.atlas.sharing import PAIRS, VERDICTS
from mtlrun.lab.report.run import Run, read_run, results_of
from mtlrun.utils.io import configs_dir

#: What is known of every table before anything is computed.
TABLES = "atlas/tables.csv"
#: The same for simulated tables.
SIMULATED = {"kind": "simulated", "family": "simulated", "source": "", "fresh": "0"}
#: Columns that say what a table is.
DESCRIPTION = ("table", "kind", "family", "source", "fresh")


def read_tables() -> dict[str, dict[str, str]]:
    """Return the lines of the list of tables, by table."""
    with published_path(TABLES).open(encoding="utf-8", newline="") as file:
        return {line["table"]: line for line in csv.DictReader(file)}


def described_records(run: Run) -> Iterator[tuple[list[str], str, Record]]:
    """Yield the description of the table, the method and the record of finished
    cells.
    """
    known = read_tables()
    for label in run.datasets:
        # A simulated table is a source of its own.
        line = known.get(label, {**SIMULATED, "source": label})
        description = [label, *(line[name] for name in DESCRIPTION[1:])]
        for method in run.methods:
            for record in results_of(run, label, method):
                yield description, method, record


def pair_lines(run: Run) -> Iterator[list[Any]]:
    """Yield the lines of `PAIRS`, the names of the columns first."""
    yield [*DESCRIPTION, "seed", "test", "learner", *COLUMNS]
    for description, _, record in described_records(run):
        params = record.params
        test = "new tasks" if params.get("new_tasks") else "rows"
        seed = record.inputs["split"]["trial"]
        for row in record.result["tables"]["errors"]["rows"]:
            numbers = ["" if value is None else value for value in row]
            yield [*description, seed, test, params["learner"], *numbers]


def verdict_lines(run: Run) -> Iterator[list[Any]]:
    """Yield the lines of `VERDICTS`, the names of the columns first."""
    yield [*DESCRIPTION, "seed", "rows", "decision", "gain", "low", "high", "seconds"]
    for description, _, record in described_records(run):
        metrics = record.metrics
        names = ("gain", "low", "high", "processor_seconds")
        numbers = [f"{metrics[name]:.5g}" for name in names]
        decision = DECISIONS[int(metrics["decision"])]
        seed = record.inputs["split"]["trial"]
        yield [*description, seed, record.params["rows"], decision, *numbers]


def main() -> None:
    """Write the file of a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", type=Path, help="file; default: that of the analyses")
    options = parser.parse_args()
    run = read_run(options.folder)
    is_verdicts = run.info["id"] == "atlas/verdicts"
    name = VERDICTS if is_verdicts else PAIRS
    lines = list(verdict_lines(run) if is_verdicts else pair_lines(run))
    path = options.to or configs_dir() / name
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(
            f"# {run.info['id']}, profile {run.profile}; scripts/atlas_pairs.py\n"
        )
        csv.writer(file, lineterminator="\n").writerows(lines)
    sys.stdout.write(f"{path}: {len(lines) - 1} lines\n")


if __name__ == "__main__":
    main()
