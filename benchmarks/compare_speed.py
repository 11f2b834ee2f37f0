"""Time of `mtlrun compare`, its parts, and the time of a handwritten scikit-learn
script.

The tables are simulated ones of 40 tasks, sleepstudy, School, and the multilabel tables
emotions and scene. Each uses the default methods and folds. The first column is the
command; the next columns are `mtlrun.compare` in Python, which writes no intermediate
leaderboards. CPU seconds are summed over all processes; the share of fits is the time
inside `fit` of the models (solvers, trees) in a run of one process. The script by hand
has the same folds: ridge and Lasso per task with their own cross-validation, boosted
trees per task, extra trees on one-hot tasks (ragged) or several outputs (shared).

Run with: python benchmarks/compare_speed.py FOLDER [TABLE ...] [--repeats 3] [--jobs
2]; FOLDER holds the data.

``--beside ROOT`` compares the CPU seconds of this version with another one in one
sitting instead: ROOT is a worktree of it with an environment in ``.venv``. Runs of one
process alternate; the present version is run with the methods of the other one and its
number of inner folds, with these methods and the present default folds, and with the
present defaults. ``--runs before folds`` measures some of these only. Each run is shown
on the standard error as soon as it ends.

``--without PREFIX ...`` compares the CPU seconds with and without the default methods
whose names begin like that, in runs of one process that alternate.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parent))
from compare_grouped import table as grouped

TABLES = ("forty", "sleepstudy", "School", "emotions", "scene")
#: Tables that are compared with another version, beside which the time is measured.
TABLES_BESIDE = ("forty", "emotions", "scene", "oes10", "atp7d")
#: Targets of the tables with several numbers on the same rows.
N_TARGETS = {"oes10": 16, "atp7d": 6}
#: Methods of the default list that the version before racing (167ff538) did not have,
#: by the beginning of their names, and its number of inner folds.
NEW_METHODS = ("Smooth", "KernelRidge", "IndependentExtraTrees", "LastValue")
OLD_FOLDS = 3


def forty() -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return 1,008 rows of 6 features in 40 tasks, simulated."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(40), [26] * 8 + [25] * 32)
    X, W = (
        rng.normal(size=(1008, 6)),
        rng.normal(size=6) + 0.5 * rng.normal(size=(40, 6)),
    )
    y = (
        (X * W[ids]).sum(axis=1)
        + rng.normal(size=40)[ids]
        + 1.5 * rng.normal(size=1008)
    )
    return pd.DataFrame(X).add_prefix("x").assign(task=[f"t{t}" for t in ids], y=y), {
        "target": "y",
        "task": "task",
    }


def table(name: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return a table and the options that name its targets."""
    if name == "forty":
        return forty()
    if name in N_TARGETS:
        file = folder / "mulan-small" / f"{name}.arff.gz"
        return file, {"targets_last": N_TARGETS[name]}
    if name in ("emotions", "scene"):
        file = (
            folder
            / "mulan-small"
            / (f"{name}.arff.gz" if name == "emotions" else f"{name}-train.arff.gz")
        )
        return (file, folder / "mulan-small" / f"{name}.xml"), {}
    return grouped(name, folder)


def one(name: str, folder: Path, jobs: int, *, by_hand: bool) -> dict[str, float]:
    """Compare the default methods on a table in this process, or run the handwritten
    script; return its times.
    """
    import mtlrun

    warnings.simplefilter("ignore")
    data, options = table(name, folder)
    started, inside = time.monotonic(), _fits()
    with tempfile.TemporaryDirectory() as output:
        first: list[float] = []
        if by_hand:
            _script(data, options)
        else:
            told = {"finished": lambda _: first.append(time.monotonic() - started)}
            mtlrun.compare(
                data, **options, min_rows=4, jobs=jobs, output=output, **told
            ).save(Path(output) / "saved")
    wall = time.monotonic() - started
    used = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    cpu = sum(usage.ru_utime + usage.ru_stime for usage in used)
    return {
        "wall": wall,
        "cpu": cpu,
        "fits": sum(inside),
        "first": first[0] if first else wall,
    }


def command(name: str, folder: Path, jobs: int) -> float:
    """Return the wall seconds of the command, including unfinished leaderboards and the
    page.
    """
    data, options = table(name, folder)
    words = [
        sys.executable,
        "-m",
        "mtlrun",
        "compare",
        "--min-rows",
        "4",
        "--jobs",
        str(jobs),
    ]
    for option, value in options.items():
        words += (
            [f"--{option}", ",".join(value) if isinstance(value, list) else value]
            if value
            else []
        )
    with tempfile.TemporaryDirectory() as output:
        if isinstance(data, pd.DataFrame):
            data.to_csv(Path(output) / "table.csv", index=False)
            files = ["table.csv"]
        else:
            files = [str(data[0]), "--labels", str(data[1])]
        started = time.monotonic()
        subprocess.run([*words, *files], cwd=output, check=True, capture_output=True)
        return time.monotonic() - started


def cpu_beside(
    root: Path,
    name: str,
    folder: Path,
    kind: str,
    left_out: tuple[str, ...] = NEW_METHODS,
) -> float:
    """Return the CPU seconds of a comparison in a process of its own.

    Parameters
    ----------
    root : Path
        Worktree of the version, with an environment.
    name : str
        Name of the table.
    folder : Path
        Folder of the data.
    kind : {"default", "old methods", "old methods and folds"}
    left_out : tuple of str
        Beginnings of the names of methods that the old ones lack.
    """
    words = [str(root / ".venv" / "bin" / "python"), "-c", _CPU_SCRIPT]
    words += [str(root), name, str(folder), kind, json.dumps(left_out)]
    words += [str(OLD_FOLDS), str(N_TARGETS.get(name, 0))]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


#: Compares in the environment of another version, whose own benchmarks lack some
#: tables.
_CPU_SCRIPT = """
import json, resource, sys, tempfile, warnings
root, name, folder, kind, new_methods, folds, n_targets = sys.argv[1:]
sys.path[:0] = [root, root + "/benchmarks"]
warnings.simplefilter("ignore")
from pathlib import Path
import mtlrun
from compare_speed import table
options = {}
if kind != "default":
    from mtlrun.comparison import candidates, racing
    every = candidates.default_candidates
    def without_new(dataset, train):
        new = tuple(json.loads(new_methods))
        return [c for c in every(dataset, train) if not c.label.startswith(new)]
    candidates.default_candidates = racing.default_candidates = without_new
if kind == "old methods and folds":
    options["folds"] = int(folds)
if int(n_targets):
    data = Path(folder) / "mulan-small" / (name + ".arff.gz")
    roles = {"targets_last": int(n_targets)}
else:
    data, roles = table(name, Path(folder))
with tempfile.TemporaryDirectory() as output:
    mtlrun.compare(data, **roles, **options, min_rows=4, output=output)
used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(usage.ru_utime + usage.ru_stime for usage in used))
"""


#: Runs of ``--beside``: title of the column, and kind of `cpu_beside`.
RUNS_BESIDE = {
    "before": ("before", "default"),
    "folds": ("same methods and folds", "old methods and folds"),
    "methods": ("same methods, present folds", "old methods"),
    "default": ("present defaults", "default"),
}


def beside(
    root: Path, names: list[str], folder: Path, repeats: int, chosen: list[str]
) -> None:
    """Print the CPU seconds of another version and of this one."""
    here = Path(__file__).resolve().parents[1]
    runs = {}
    for name in chosen:
        title, kind = RUNS_BESIDE[name]
        runs[title] = (root if name == "before" else here, kind)
    print(f"CPU seconds of one process, medians of {repeats}")
    print(f"| table | {' | '.join(runs)} |")
    print(f"|---|{'--:|' * len(runs)}", flush=True)
    for name in names:
        seconds: dict[str, list[float]] = {title: [] for title in runs}
        for _ in range(repeats):
            for title, (version, kind) in runs.items():
                seconds[title].append(cpu_beside(version, name, folder, kind))
                progress = f"{name}, {title}: {seconds[title][-1]:.1f} CPU s"
                print(progress, file=sys.stderr, flush=True)
        cells = [f"{statistics.median(values):.1f}" for values in seconds.values()]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def without_methods(
    names: list[str], folder: Path, repeats: int, prefixes: tuple[str, ...]
) -> None:
    """Print the CPU seconds without some of the default methods, and with all."""
    here = Path(__file__).resolve().parents[1]
    print(f"CPU seconds of one process, medians of {repeats}")
    print(
        f"| table | without {' '.join(prefixes)} | with | ratios |\n|---|--:|--:|---|"
    )
    for name in names:
        without = []
        complete = []
        for _ in range(repeats):
            without.append(cpu_beside(here, name, folder, "old methods", prefixes))
            complete.append(cpu_beside(here, name, folder, "default"))
        pairs = zip(complete, without, strict=True)
        ratios = ", ".join(f"{after / before:.2f}" for after, before in pairs)
        medians = (statistics.median(without), statistics.median(complete))
        print(
            f"| {name} | {medians[0]:.1f} | {medians[1]:.1f} | {ratios} |", flush=True
        )


def _fits() -> list[float]:
    """Return a list to which every fit of a model adds its CPU seconds, those of
    nested ones once.
    """
    from mtlrun.engine.evaluation import TaskRows

    taken: list[float] = []
    fit, depth = TaskRows.fit, [0]

    def timed(rows: TaskRows, estimator: Any) -> Any:
        started = time.process_time()
        depth[0] += 1
        try:
            return fit(rows, estimator)
        finally:
            depth[0] -= 1
            if not depth[0]:
                taken.append(time.process_time() - started)

    TaskRows.fit = timed  # type: ignore[method-assign]
    return taken


def _script(data: Any, options: dict[str, Any]) -> None:
    """Fit what a user of scikit-learn would write: every model on the folds of
    `compare`, scored on the test rows.
    """
    from compare_tables import by_hand, dataset_of

    from mtlrun.comparison.options import CompareOptions
    from mtlrun.comparison.protocol import Protocol

    dataset = dataset_of(data, options)
    evaluation = Protocol.of(dataset, CompareOptions()).evaluation(dataset)
    by_hand(
        SimpleNamespace(dataset=dataset, board=SimpleNamespace(evaluation=evaluation))
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--beside", type=Path, metavar="ROOT")
    parser.add_argument("--runs", nargs="+", choices=RUNS_BESIDE)
    parser.add_argument("--without", nargs="+", metavar="PREFIX")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(
            json.dumps(
                one(
                    asked.tables[0],
                    asked.folder,
                    asked.jobs,
                    by_hand=asked.one == "hand",
                )
            )
        )
        return
    if asked.beside is not None:
        names = asked.tables or list(TABLES_BESIDE)
        runs = asked.runs or list(RUNS_BESIDE)
        beside(asked.beside.resolve(), names, asked.folder, asked.repeats, runs)
        return
    if asked.without:
        names = asked.tables or ["forty"]
        without_methods(names, asked.folder, asked.repeats, tuple(asked.without))
        return
    print(
        f"medians of {asked.repeats}; wall with {asked.jobs} processes, CPU and shares with one"
    )
    print(
        "| table | command, wall s | wall s | first line s | CPU s | in fits | script by hand, CPU s |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in asked.tables or TABLES:
        print(_line(name, asked.folder, asked.repeats, asked.jobs), flush=True)


def _line(name: str, folder: Path, repeats: int, jobs: int) -> str:
    """Measure a table in processes of their own, one after the other."""

    def run(kind: str, jobs: int) -> dict[str, float]:
        words = [
            sys.executable,
            __file__,
            str(folder),
            name,
            "--one",
            kind,
            "--jobs",
            str(jobs),
        ]
        found = [
            json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
            for _ in range(repeats)
        ]
        return {
            key: statistics.median(result[key] for result in found) for key in found[0]
        }

    many, single, hand = run("compare", jobs), run("compare", 1), run("hand", 1)
    share = single["fits"] / single["cpu"]
    typed = statistics.median(command(name, folder, jobs) for _ in range(repeats))
    seconds = (typed, many["wall"], many["first"], single["cpu"])
    return f"| {name} | {' | '.join(f'{s:.1f}' for s in seconds)} | {share:.0%} | {hand['cpu']:.1f} |"


if __name__ == "__main__":
    main()
