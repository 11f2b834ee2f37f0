"""`mtlrun compare` on twelve tables, and the best of some scikit-learn models on the
same folds.

Nine tables are real, three are simulated with tasks that are equal, unrelated or in
groups. The files are in a folder: ``school.mat`` and ``LandmineData.mat`` (cells),
``yeast.arff`` ... with their ``.xml``, ``wq.arff`` ... Each table has the default
methods; the models of scikit-learn are linear models with their own cross-validation
per task, boosted trees per task, and extra trees with several outputs (shared rows) or
one-hot tasks (ragged).

Run with: python benchmarks/compare_tables.py FOLDER --output tables.jsonl; finished
tables are not recomputed.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib.externals.loky import get_reusable_executor
from scipy.io import loadmat
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.preprocessing import StandardScaler

import mtlrun
from mtlrun.data.dataset import Dataset
from mtlrun.data.reading.named_columns import label_list, target_columns
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.metrics import average, get_metric


def alike(kind: str) -> np.ndarray:
    """Return which of 15 simulated tasks have the same coefficients: all, none, or
    three groups of them.
    """
    return {
        "equal": np.zeros(15, int),
        "unrelated": np.arange(15),
        "groups": np.arange(15) % 3,
    }[kind]


def simulated(kind: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return 15 tasks of 30 rows whose coefficients are equal, unrelated or equal in
    three groups.
    """
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(15, 10))[alike(kind)]
    ids = np.repeat(np.arange(15), 30)
    X = rng.normal(size=(450, 10))
    y = (X * weights[ids]).sum(axis=1) + 3 * rng.normal(size=450)
    return pd.DataFrame(X).add_prefix("x").assign(task=[f"t{t}" for t in ids], y=y), {
        "target": "y",
        "task": "task",
    }


def cells(path: Path, x: str, y: str, most: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the first `most` tasks of a file with a cell per task."""
    found = loadmat(path)
    frames = [
        pd.DataFrame(np.asarray(a, dtype=float))
        .add_prefix("x")
        .assign(task=f"t{t}", y=np.ravel(b).astype(float))
        for t, (a, b) in enumerate(
            zip(np.ravel(found[x])[:most], np.ravel(found[y])[:most], strict=True)
        )
    ]
    return pd.concat(frames, ignore_index=True), {"target": "y", "task": "task"}


#: Multi-target tables and their last columns that are targets.
TARGETS = {"jura": 3, "edm": 2, "enb": 2, "slump": 3, "wq": 14, "andro": 6}
LABELS = ("yeast", "emotions", "flags")
TABLES = [
    "equal",
    "unrelated",
    "groups",
    *TARGETS,
    "emotions",
    "school",
    "landmine",
    "flags",
    "yeast",
]


def table(name: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return a table and the options that name its targets."""
    if name in ("equal", "unrelated", "groups"):
        return simulated(name)
    if name == "school":
        return cells(folder / "school.mat", "X", "Y", 40)
    if name == "landmine":
        return cells(folder / "LandmineData.mat", "feature", "label", 10)
    if name in LABELS:
        return folder / f"{name}.arff", {"labels": folder / f"{name}.xml"}
    lines = (folder / f"{name}.arff").read_text(errors="replace").splitlines()
    heads = [
        line.split()[1].strip("'\"")
        for line in lines
        if line.lower().startswith("@attribute")
    ]
    return folder / f"{name}.arff", {"targets": heads[-TARGETS[name] :]}


def dataset_of(data: Any, options: dict[str, Any]) -> Dataset:
    """Return a table with its options as `compare` reads it; tasks with fewer than four
    rows are left out.
    """
    data, labels = label_list(data, None, other=bool(options))
    rows = table_of_frame(data) if isinstance(data, pd.DataFrame) else read_table(data)
    targets = target_columns(
        rows, options.get("target"), options.get("targets", ()), None, labels, ()
    )
    roles = Roles(
        targets=targets,
        task=options.get("task"),
        categorical=options.get("categorical", ()),
        min_rows=4,
    )
    return make_dataset(rows, roles)


def collected(
    tables: Iterable[str], output: Path, measure: Callable[[str], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Measure the tables that a file of results lacks; return all of its lines."""
    lines = (
        [json.loads(line) for line in output.read_text().splitlines()]
        if output.exists()
        else []
    )
    with output.open("a") as file:
        for name in tables:
            if name not in {line["table"] for line in lines}:
                lines += (new := measure(name))
                file.write("".join(json.dumps(line) + "\n" for line in new))
                file.flush()
    return lines


def by_hand(result: Any) -> tuple[str, float]:
    """Return the best of some kinds of scikit-learn models on the folds of a
    comparison, and its score.
    """
    data, evaluation = result.dataset, result.board.evaluation
    binary, metric = data.task_type == "binary", get_metric(evaluation.metric)
    scores: dict[str, list[float]] = {}
    for test in evaluation.rows:
        train = np.setdiff1d(np.arange(data.n_samples), test)
        part = TrainTestData.of(data, train, test)
        step = StandardScaler().fit(part.train.X)
        X, Z = step.transform(part.train.X), step.transform(part.test.X)
        found = {
            "linear": per_task(_linear(binary), part, X, Z),
            "boosting": per_task(_boosted(binary), part, X, Z),
        }
        found["extra trees"] = _forest(part, X, Z)
        if not binary:
            found["lasso"] = per_task(LassoCV(cv=3), part, X, Z)
        for name, values in found.items():
            row_index = (
                {}
                if data.task_id is None
                else {"task_id": part.test.task_id, "tasks": range(data.n_tasks)}
            )
            scores.setdefault(name, []).append(
                average(metric(part.test.y, values, **row_index))[0]
            )
    means = {name: float(np.mean(values)) for name, values in scores.items()}
    best = (max if metric.greater_is_better else min)(
        means, key=lambda name: means[name]
    )
    return best, means[best]


def per_task(
    model: Any, part: TrainTestData, X: np.ndarray, Z: np.ndarray
) -> np.ndarray:
    """Fit a model to every task and return its predictions."""
    found = np.zeros(part.test.y.shape)
    for t in range(part.train.n_tasks):
        ids = part.train.task_id
        mine = slice(None) if ids is None else ids == t
        rows = slice(None) if ids is None else part.test.task_id == t
        y = part.train.y[:, t] if ids is None else part.train.y[mine]
        place = (rows, t) if ids is None else rows
        if len(np.unique(y)) < 2 or (
            min(np.unique(y, return_counts=True)[1]) < 3 and hasattr(model, "Cs")
        ):
            found[place] = y.mean()
            continue
        fitted = model.fit(X[mine], y)
        found[place] = getattr(fitted, "decision_function", fitted.predict)(Z[rows])
    return found


def _linear(binary: bool) -> Any:
    return (
        LogisticRegressionCV(Cs=5, cv=3, max_iter=300)
        if binary
        else RidgeCV(np.logspace(-3, 4, 8))
    )


def _boosted(binary: bool) -> Any:
    kind = HistGradientBoostingClassifier if binary else HistGradientBoostingRegressor
    return kind(max_iter=100, max_leaf_nodes=8, min_samples_leaf=5, random_state=0)


def _forest(part: TrainTestData, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    if part.train.task_id is not None:
        ones = np.eye(part.train.n_tasks)
        X, Z = (
            np.hstack([X, ones[part.train.task_id]]),
            np.hstack([Z, ones[part.test.task_id]]),
        )
    return (
        ExtraTreesRegressor(200, min_samples_leaf=2, random_state=0)
        .fit(X, part.train.y)
        .predict(Z)
    )


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its child processes, which are
    ended first.
    """
    get_reusable_executor().shutdown(wait=True)
    used = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(one.ru_utime + one.ru_stime for one in used)


def one(
    name: str, folder: Path, budget: float | None, jobs: int, methods: list[str]
) -> dict[str, Any]:
    """Compare the methods on a table."""
    data, options = table(name, folder)
    started, cpu = time.monotonic(), cpu_seconds()
    result = mtlrun.compare(data, **options, budget=budget, methods=methods, jobs=jobs)
    seconds, used = time.monotonic() - started, cpu_seconds() - cpu
    board = result.board
    found, best = board.answer, board.ranked()[0]
    hand, score = by_hand(result)
    shape = result.dataset
    return {
        "table": name,
        "rows": shape.n_samples,
        "features": shape.n_features,
        "tasks": shape.n_tasks,
        "kind": found.kind,
        "gain": found.gain and [found.gain.value, found.gain.low, found.gain.high],
        "metric": board.metric,
        "best": [best.label, best.score],
        "sklearn": [hand, score],
        "seconds": round(seconds),
        "cpu": round(used),
        "left_out": board.left_out,
        "methods": len(board.ranked()),
    }


def summary(lines: list[dict[str, Any]]) -> str:
    """Return the table in Markdown."""
    heads = [
        "table",
        "rows x features x tasks",
        "verdict",
        "gain (95% interval)",
        "best method",
        "best by hand",
        "seconds",
        "CPU seconds",
        "methods",
    ]
    rows = [
        "| " + " | ".join(heads) + " |",
        "| --- | --- | --- | --- | --- | --- | --: | --: | --: |",
    ]
    for line in lines:
        gain = (
            "-"
            if line["gain"] is None
            else "{:.3f} ({:.3f} to {:.3f})".format(*line["gain"])
        )
        best, hand = (
            f"{name} ({score:.3f})" for name, score in (line["best"], line["sklearn"])
        )
        size = f"{line['rows']:,} x {line['features']} x {line['tasks']}"
        spent = f"{line['seconds']} | {line['cpu']} | {line['methods']}"
        rows.append(
            f"| {line['table']} | {size} | {line['kind']} | {gain} | {best} | {hand} | {spent} |"
        )
    return "\n".join(rows)


def main() -> None:
    """Compare on the tables that the output lacks, and print all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, default=Path("tables.jsonl"))
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--methods", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--budget", type=float, help="minutes for a table; default: no limit"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    own = (given.folder, given.budget, given.jobs, given.methods)
    print(
        summary(collected(given.tables, given.output, lambda name: [one(name, *own)]))
    )


if __name__ == "__main__":
    main()
