"""Student's prior of `HierarchicalMTL` against the normal one on the tables of the atlas.

Takes the tables with groups and numeric targets from ``configs/atlas/tables.csv``. Folds
and training rows (10, 20 and 50 per task) are those of ``atlas/pairs``, and both priors
see the same rows. A gain is the relative reduction of the error (mean over the tasks of
the squared error in units of the variance of the task):

* student: Student's prior against the normal one;
* searched: `compare`'s search among all priors against the normal prior (--search);
* in search: that search against one that leaves Student's prior out (--search).

The output has a line per table and number of rows (means over the seeds), and the
median, the extremes and the number of gains above 1% of all lines.

Run with: python benchmarks/students_prior.py [--tables milk radon] [--rows 10 20 50]
[--seeds 2] [--folds 5] [--search] [--output students_prior.jsonl]. MTLRUN_DATA names the
data directory. Settings that the output file already holds are not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from mtlrun.comparison.candidates import Candidate, default_candidates
from mtlrun.comparison.jobs import ComparisonJobs
from mtlrun.data.dataset import Dataset
from mtlrun.data.load import load_dataset
from mtlrun.engine.fit import fit_job, score_candidates
from mtlrun.engine.job import choice_of
from mtlrun.errors import DataError
from mtlrun.lab.papers.atlas.pairs import Setting, make_setting

TABLES = Path(__file__).parents[1] / "configs" / "atlas" / "tables.csv"
#: Variants of data sets in the experiments of the atlas.
VARIANTS = {"school": "plain"}
METHOD = "HierarchicalMTL"
PRIOR = "estimator__prior"
#: Inner folds of the search, as in ``atlas/pairs``.
SEARCH_FOLDS = 3
PRIORS = ("normal", "student", "clusters")
#: Name of a search -> the priors among which it chooses.
SEARCH = "search"
SEARCHES = {SEARCH: PRIORS, "search without student": ("normal", "clusters")}
#: Name of a gain -> the two models or searches that it compares.
GAINS = {
    "student": ("student", "normal"),
    "searched": (SEARCH, "normal"),
    "in search": (SEARCH, "search without student"),
}
#: Gains above this share of the error would be a reason to keep the prior.
LARGE_GAIN = 0.01


def grouped_tables() -> list[str]:
    """Return the tables of the atlas with groups, with numeric targets or labels."""
    tables = pd.read_csv(TABLES)
    return list(tables.loc[tables["kind"] == "groups", "table"])


def hierarchical_model(setting: Setting, grid: dict[str, Any]) -> Candidate:
    """Return the hierarchical model of `compare` with a grid of its parameters."""
    defaults = default_candidates(setting.data, setting.train_share)
    model = next(candidate for candidate in defaults if candidate.label == METHOD)
    return replace(model, grid=grid)


def measure(
    dataset: Dataset, rows: int, folds: int, seed: int, search: bool
) -> dict[str, Any]:
    """Return gains and CPU seconds of one table, number of rows and seed.

    The clusters prior is fitted for the search alone.

    Raises
    ------
    DataError
        If less than half of the tasks have so many rows.
    """
    setting = make_setting(dataset, rows, folds, SEARCH_FOLDS, seed, new_tasks=False)
    jobs = ComparisonJobs(setting.protocol, setting.data)
    fixed = hierarchical_model(setting, {})
    searched = hierarchical_model(setting, {PRIOR: list(PRIORS)})
    priors = PRIORS if search else PRIORS[:2]
    losses: dict[str, dict[int, Any]] = {name: {} for name in (*priors, *SEARCHES)}
    seconds = dict.fromkeys((*priors, SEARCH), 0.0)
    for split in range(setting.protocol.n_splits):
        for prior in priors:
            start = time.process_time()
            fitted = fit_job(jobs.job(fixed, split), setting.data, {PRIOR: prior})
            losses[prior][split] = setting.evaluation.losses(split, fitted.scores)
            seconds[prior] += time.process_time() - start
        if not search:
            continue
        start = time.process_time()
        job = jobs.job(searched, split)
        records = [score_candidates(fold, setting.data) for fold in job.folds]
        means = choice_of(job, records)["means"]
        inner_errors = dict(zip(PRIORS, means, strict=True))
        seconds[SEARCH] += time.process_time() - start
        for name, allowed in SEARCHES.items():
            best = min(allowed, key=inner_errors.__getitem__)
            losses[name][split] = losses[best][split]
    gains = {}
    for name, (first, second) in GAINS.items():
        if not losses[first]:
            continue
        gain = setting.evaluation.gain(losses[first], losses[second], 1)
        if gain is None:
            raise DataError(f"{dataset.id}: too few rows are tested", "Leave it out.")
        gains[name] = [gain.value, gain.low, gain.high]
    return {"gains": gains, "seconds": seconds}


def compute(tables: list[str], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the results of all settings; new ones are added to the output file."""
    results = []
    if arguments.output.is_file():
        text = arguments.output.read_text(encoding="utf-8")
        results = [json.loads(line) for line in text.splitlines()]
    finished = {(line["table"], line["rows"], line["seed"]) for line in results}
    for table in tables:
        dataset = load_dataset(table, variant=VARIANTS.get(table))
        if dataset.task_type != "regression":
            continue
        for rows in arguments.rows:
            for seed in range(arguments.seeds):
                if (table, rows, seed) in finished:
                    continue
                try:
                    measured = measure(
                        dataset, rows, arguments.folds, seed, arguments.search
                    )
                except DataError:
                    # The table has too few rows per task for this setting.
                    continue
                line = {"table": table, "rows": rows, "seed": seed, **measured}
                results.append(line)
                with arguments.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    return results


def gain_table(results: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the mean gains over the seeds: a line per table and number of rows."""
    lines = []
    for line in results:
        values = {name: gain[0] for name, gain in line["gains"].items()}
        lines.append({"table": line["table"], "rows": line["rows"], **values})
    return pd.DataFrame(lines).groupby(["table", "rows"], sort=False).mean()


def significant(results: list[dict[str, Any]], name: str) -> tuple[int, int]:
    """Return how many 95% intervals of a gain lie above 0, and how many below."""
    gains = [line["gains"][name] for line in results]
    above = sum(low > 0 for _, low, _ in gains)
    below = sum(high < 0 for _, _, high in gains)
    return above, below


def report(results: list[dict[str, Any]]) -> str:
    """Return both tables in Markdown."""
    gains = gain_table(results)
    lines = [
        f"| table | rows | {' | '.join(gains.columns)} |",
        f"| --- | --: |{' --: |' * len(gains.columns)}",
    ]
    for (table, rows), row in gains.iterrows():
        cells = " | ".join(f"{value:+.2%}" for value in row)
        lines.append(f"| {table} | {rows} | {cells} |")
    lines += [
        "",
        "| gain | settings | median | mean | largest loss | largest gain | above 1% | "
        "below -1% | intervals above 0 | below 0 |",
        "| --- | --: | --: | --: | --- | --- | --: | --: | --: | --: |",
    ]
    for name in gains.columns:
        values = gains[name]
        above, below = significant(results, name)
        n_large = int((values > LARGE_GAIN).sum())
        n_losses = int((values < -LARGE_GAIN).sum())
        lines.append(
            f"| {name} | {len(values)} | {values.median():+.3%} | {values.mean():+.3%} "
            f"| {_extreme(values, values.idxmin())} "
            f"| {_extreme(values, values.idxmax())} "
            f"| {n_large} | {n_losses} | {above} | {below} |"
        )
    lines += ["", "| fits | CPU seconds |", "| --- | --: |"]
    seconds = pd.DataFrame([line["seconds"] for line in results]).sum()
    for name, total in seconds.items():
        lines.append(f"| {name} | {total:.0f} |")
    return "\n".join(lines)


def _extreme(values: pd.Series[float], setting: Any) -> str:
    """Return the gain of a setting with its table and number of rows."""
    table, rows = setting
    return f"{values[setting]:+.2%} ({table}, {rows})"


def main() -> None:
    """Compute the settings that the output lacks, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="*", default=grouped_tables())
    parser.add_argument("--rows", nargs="*", type=int, default=[10, 20, 50])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("students_prior.jsonl"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(report(compute(arguments.tables, arguments)))


if __name__ == "__main__":
    main()
