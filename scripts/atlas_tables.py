"""Make the small tables of the atlas from a run of ``atlas/gain``: the gains, and those
of every method.

``python scripts/atlas_tables.py results/atlas/gain/quick`` writes
``configs/atlas/gains.csv``, which `mtlrun compare` and the artefact ``atlas/methods``
read, and ``configs/atlas/methods.csv``. The day is that on which the run ended.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from mtlrun.comparison.differences import GAINS
from mtlrun.data.sets.cards import load_card
from mtlrun.engine.record import Record
from mtlrun.lab.report.run import Run, read_run, results_of
from mtlrun.papers.atlas.analyses import METHODS
from mtlrun.papers.atlas.files import last_day, write_lines
from mtlrun.utils.io import configs_dir

#: Quantities of a line of the gains.
QUANTITIES = (
    *(
        "gain",
        "low",
        "high",
        "over_independent",
        "over_pooled",
        "over_linear",
        "helps",
        "worse",
        "error",
    ),
    *(
        "better_tasks",
        "rows_per_task",
        "tasks",
        "features",
        "tasks_share",
        "mean_share",
        "noise",
        "rank",
    ),
)
#: Columns of the table of methods in a record that are kept.
KEPT = ("error", "gain", "over alone")


def kind_of(run: Run, label: str) -> str:
    """Return what kind of table a data set is."""
    card = load_card(run.datasets[label].id)
    if card.simulated:
        return "simulated"
    if card.design == "ragged":
        return "groups"
    return "targets" if card.task_type == "regression" else "labels"


def found(run: Run) -> Iterator[tuple[str, str, int, Record]]:
    """Yield label and kind of the table, number of rows and record of every finished
    cell.
    """
    for label in run.datasets:
        kind = kind_of(run, label)
        for method in run.methods:
            for record in results_of(run, label, method):
                yield label, kind, int(method.split()[0]), record


def gains(run: Run) -> Iterator[list[Any]]:
    """Yield the lines of the gains."""
    yield ["table", "kind", "rows", "seed", *QUANTITIES]
    for label, kind, rows, record in found(run):
        numbers = [record.metrics[name] for name in QUANTITIES]
        yield [
            label,
            kind,
            rows,
            record.inputs["split"]["trial"],
            *(_short(v) for v in numbers),
        ]


def methods(run: Run) -> Iterator[list[Any]]:
    """Yield the lines of the methods, means over the seeds."""
    yield [
        "table",
        "kind",
        "rows",
        "method",
        "family",
        "error",
        "over_best",
        "over_alone",
    ]
    together: dict[tuple[Any, ...], list[list[float]]] = {}
    for label, kind, rows, record in found(run):
        table = record.result["tables"]["methods"]
        for row in table["rows"]:
            cells = dict(zip(table["columns"], row, strict=True))
            name = str(cells["method"]).removesuffix("Classifier")
            numbers = [cells[column] for column in KEPT]
            if None not in numbers:
                together.setdefault(
                    (label, kind, rows, name, cells["family"]), []
                ).append(numbers)
    for place, numbers in together.items():
        yield [
            *place,
            *(_short(fmean(column)) for column in zip(*numbers, strict=True)),
        ]


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--to",
        type=Path,
        default=configs_dir(),
        help="default: the shipped experiments",
    )
    given = parser.parse_args()
    run = read_run(given.folder)
    comment = (
        f"atlas/gain, profile {run.experiment.profile}, computed until {last_day(run)}; made by "
        "scripts/atlas_tables.py"
    )
    for name, lines in ((GAINS, gains(run)), (METHODS, methods(run))):
        write_lines(given.to / name, comment, lines)
        sys.stdout.write(f"{given.to / name}\n")


if __name__ == "__main__":
    main()
