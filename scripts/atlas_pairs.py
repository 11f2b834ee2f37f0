"""Make the csv files that ``atlas/sharing`` reads from runs of ``atlas/pairs`` and
``atlas/verdicts``.

``python scripts/atlas_pairs.py results/atlas/pairs/quick`` writes
``configs/atlas/pairs.csv``, with a line per table, seed, learner, number of rows and
method, and ``configs/atlas/similar.csv``, with the gains that `compare` shows for tables
like the user's. A run of ``atlas/verdicts`` makes ``configs/atlas/verdicts.csv``, with a
line per table and seed; bounds and verdicts of an earlier version are computed anew
(`atlas_bounds`). Unfinished runs make shorter files. Kind, family and source of the
tables stand in ``configs/atlas/tables.csv``; simulated tables are described in each
line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from atlas_bounds import numbers_of

from mtlrun.comparison.differences import SIMILAR
from mtlrun.engine.record import Record
from mtlrun.lab.report.run import Run, read_run, results_of
from mtlrun.papers.atlas.files import last_day, write_lines
from mtlrun.papers.atlas.pairs import COLUMNS, DECISIONS
from mtlrun.papers.atlas.sharing import (
    DESCRIPTION,
    KEYS,
    PAIRS,
    VERDICTS,
    gains_as_in_compare,
    read_pairs,
    read_tables,
)
from mtlrun.utils.io import configs_dir

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


def is_of_listed_tables(run: Run) -> bool:
    """Return whether `TABLES` describes the tables of a run; else they are simulated."""
    return set(run.datasets) <= set(read_tables().index)


def head_of(run: Run) -> list[str]:
    """Return the first columns of the lines of a run."""
    return ["table"] if is_of_listed_tables(run) else ["table", *DESCRIPTION]


def described_records(run: Run) -> Iterator[tuple[list[Any], Record]]:
    """Yield the values of `head_of` and the record of every finished cell."""
    is_simulated = not is_of_listed_tables(run)
    for label in run.datasets:
        first: list[Any] = [label]
        if is_simulated:
            # Every simulated table is a source of its own.
            first += ["simulated", "simulated", label, 0]
        for method in run.methods:
            for record in results_of(run, label, method):
                yield first, record


def pair_lines(run: Run) -> Iterator[list[Any]]:
    """Yield the lines of `PAIRS`, the names of the columns first."""
    yield [*head_of(run), "seed", "test", "learner", *COLUMNS]
    for description, record in described_records(run):
        params = record.params
        test = "new tasks" if params.get("new_tasks") else "rows"
        seed = record.inputs["split"]["trial"]
        for row in record.result["tables"]["errors"]["rows"]:
            numbers = ["" if value is None else value for value in row]
            yield [*description, seed, test, params["learner"], *numbers]


def verdict_lines(run: Run) -> Iterator[list[Any]]:
    """Yield the lines of `VERDICTS`, the names of the columns first."""
    yield [*head_of(run), "seed", "rows", "decision", "gain", "low", "high", "seconds"]
    kinds = read_tables()["kind"]
    for description, record in described_records(run):
        metrics = record.metrics
        kind = kinds.get(description[0], "simulated")
        verdict = numbers_of(record, kind, DECISIONS[int(metrics["decision"])])
        seconds = metrics["processor_seconds"]
        values = (verdict.gain, verdict.low, verdict.high, seconds)
        numbers = [f"{value:.5g}" for value in values]
        seed = record.inputs["split"]["trial"]
        yield [*description, seed, record.params["rows"], verdict.decision, *numbers]


def similar_lines(run: Run, pairs_file: Path) -> Iterator[list[Any]]:
    """Yield the lines of `SIMILAR`, the names of the columns first.

    Parameters
    ----------
    run : Run
    pairs_file : Path
        File with the lines of the run.
    """
    counts = {}
    for description, record in described_records(run):
        counts[description[0]] = record.counts
    lines = read_pairs(str(pairs_file), (), KEYS)
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
    made_by = f"{run.spec.id}, profile {run.experiment.profile}; scripts/atlas_pairs.py"
    if run.spec.id == "atlas/verdicts":
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
