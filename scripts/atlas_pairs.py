"""Make the csv files that ``atlas/sharing`` reads from runs of ``atlas/pairs`` and
``atlas/verdicts``.

``python scripts/atlas_pairs.py results/atlas/pairs/quick`` writes
``configs/atlas/pairs.csv``, with a line per table, seed, learner, number of rows and
method, and ``configs/atlas/similar.csv``, with the gains that `compare` shows for tables
like the user's. A run of ``atlas/verdicts`` makes ``configs/atlas/verdicts.csv``, with a
line per table and seed. Unfinished runs make shorter files. Kind, family and source of
the tables are those of ``configs/atlas/tables.csv``; simulated tables are a kind of their
own.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from mtlrun.comparison.atlas import SIMILAR
from mtlrun.engine.analysis import published_path
from mtlrun.engine.record import Record
from mtlrun.lab.papers.atlas.files import last_day, write_lines
from mtlrun.lab.papers.atlas.pairs import COLUMNS, DECISIONS
from mtlrun.lab.papers.atlas.sharing import PAIRS, VERDICTS, gains_as_in_compare
from mtlrun.lab.report.run import Run, read_run, results_of
from mtlrun.utils.io import configs_dir

#: What is known of every table before anything is computed.
TABLES = "atlas/tables.csv"
#: The same for simulated tables.
SIMULATED = {"kind": "simulated", "family": "simulated", "source": "", "fresh": "0"}
#: Columns of the file of gains that `compare` reads.
GAIN_COLUMNS = (
    "table",
    "kind",
    "rows",
    "seed",
    "over_independent",
    "over_pooled",
    "rows_per_task",
    "tasks",
    "features",
)
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


def similar_lines(run: Run, pairs_file: Path) -> Iterator[list[Any]]:
    """Yield the lines of `SIMILAR`, the names of the columns first.

    Parameters
    ----------
    run : Run
    pairs_file : Path
        File with the lines of the run.
    """
    counts = {}
    for description, _, record in described_records(run):
        counts[description[0]] = record.counts
    lines = pd.read_csv(pairs_file, comment="#", dtype={"table": str})
    yield [*GAIN_COLUMNS]
    for row in gains_as_in_compare(lines).to_dict("records"):
        gains = []
        for name in ("over_independent", "over_pooled"):
            gains.append("" if row[name] != row[name] else f"{row[name]:.4g}")
        sizes = counts[row["table"]]
        yield [
            *(row[name] for name in ("table", "kind", "rows", "seed")),
            *gains,
            row["rows"],
            sizes["n_tasks"],
            sizes["n_features"],
        ]


def main() -> None:
    """Write the files of a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", type=Path, help="file; default: that of the analyses")
    options = parser.parse_args()
    run = read_run(options.folder)
    made_by = f"{run.info['id']}, profile {run.profile}; scripts/atlas_pairs.py"
    if run.info["id"] == "atlas/verdicts":
        path = options.to or configs_dir() / VERDICTS
        write_lines(path, made_by, verdict_lines(run))
        sys.stdout.write(f"{path}\n")
        return
    path = options.to or configs_dir() / PAIRS
    write_lines(path, made_by, pair_lines(run))
    sys.stdout.write(f"{path}\n")
    if options.to is None:
        similar = configs_dir() / SIMILAR
        computed = f"computed until {last_day(run)}; {made_by}"
        write_lines(similar, computed, similar_lines(run, path))
        sys.stdout.write(f"{similar}\n")


if __name__ == "__main__":
    main()
