"""Which default methods of `mtlrun compare` justify their cost: CPU seconds against
error.

Reads a stored run of ``atlas/gain``, which has the error and the seconds (search and
fits of five folds) of every method on every real table with several numbers of training
rows. For each method the table has the median of its error relative to the best method
of the same setting, how often it is within 1% of the best, and its seconds. A method is
on the Pareto front of its kind of tables if no method is both faster and closer to the
best.

Run with: python benchmarks/method_costs.py [results/atlas/gain/quick]
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

from mtlrun.data.sets.cards import load_card
from mtlrun.lab.report.run import read_run, results_of

RUN = Path(__file__).parents[1] / "results" / "atlas" / "gain" / "quick"
#: Errors up to this share above the best one count as close to it.
CLOSE = 0.01
KINDS = ("groups", "targets", "labels")


def kind_of(dataset_id: str) -> str | None:
    """Return what kind of table a data set is, None for simulated ones."""
    card = load_card(dataset_id)
    if card.simulated:
        return None
    if card.design == "ragged":
        return "groups"
    return "targets" if card.task_type == "regression" else "labels"


def read_costs(folder: Path) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return kind and method -> relative error and seconds, one pair per setting."""
    run = read_run(folder)
    costs: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for label, dataset in run.datasets.items():
        kind = kind_of(str(dataset["id"]))
        if kind is None:
            continue
        for method in run.methods:
            for record in results_of(run, label, method):
                table = record.result["tables"]["methods"]
                rows = [
                    dict(zip(table["columns"], row, strict=True))
                    for row in table["rows"]
                ]
                rows = [row for row in rows if row["error"] is not None]
                best = min(row["error"] for row in rows)
                for row in rows:
                    name = str(row["method"]).removesuffix("Classifier")
                    relative = row["error"] / max(best, 1e-12) - 1
                    costs[kind, name].append((relative, float(row["seconds"])))
    return costs


def pareto(points: dict[str, tuple[float, float]]) -> set[str]:
    """Return the methods that no other one beats in both error and seconds."""
    front = set()
    for name, (error, seconds) in points.items():
        is_beaten = any(
            other_error <= error and other_seconds < seconds
            for other, (other_error, other_seconds) in points.items()
            if other != name
        )
        if not is_beaten:
            front.add(name)
    return front


def table(costs: dict[tuple[str, str], list[tuple[float, float]]]) -> str:
    """Return the table in Markdown, the fastest methods of each kind first."""
    lines = [
        "| tables | method | settings | error above the best, median | within 1% of the "
        "best | CPU seconds, median | Pareto |",
        "| --- | --- | --: | --: | --: | --: | --- |",
    ]
    for kind in KINDS:
        rows = {name: np.array(v) for (k, name), v in costs.items() if k == kind}
        points = {
            name: (float(np.median(v[:, 0])), float(np.median(v[:, 1])))
            for name, v in rows.items()
        }
        front = pareto(points)
        for name in sorted(points, key=lambda name: points[name][1]):
            error, seconds = points[name]
            share = float(np.mean(rows[name][:, 0] <= CLOSE))
            mark = "yes" if name in front else ""
            lines.append(
                f"| {kind} | {name} | {len(rows[name])} | {error:.1%} | {share:.0%} | "
                f"{seconds:.2f} | {mark} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Print the table of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?", default=RUN)
    print(table(read_costs(parser.parse_args().run)))


if __name__ == "__main__":
    main()
