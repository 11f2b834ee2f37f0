"""Another version beside this one: CPU seconds of the same calls, in turns.

``python benchmarks/two_versions.py OTHER [NAME ...] [--data DIR] [--rounds 5]`` starts
two processes, one with the version in the folder OTHER, which make the same calls in
turns. It prints the medians and the median of OTHER over this version: above 1, this
version is faster. DIR has the real data. Set OMP_NUM_THREADS=1 and
OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[[], Any]
HERE = Path(__file__).resolve().parents[1]
#: Tables of the paths and fits of Lassos, with their numbers of targets.
TARGETS = {"enb": 2, "jura": 3, "edm": 2}


def main() -> None:
    """Print a line per call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    workers = [start(root, options.data) for root in (options.other.resolve(), HERE)]
    for name in options.names or calls(options.data):
        for worker in workers:
            ask(worker, name)
        seconds = [
            [ask(worker, name) for worker in workers] for _ in range(options.rounds)
        ]
        other, ours = (
            statistics.median(column) for column in zip(*seconds, strict=True)
        )
        ratio = statistics.median(before / after for before, after in seconds)
        print(
            f"{name:24s} other {1e3 * other:9.2f} ms, this {1e3 * ours:9.2f} ms, "
            f"other / this {ratio:6.2f}",
            flush=True,
        )
    for worker in workers:
        worker.communicate("\n")


def start(root: Path, data: Path) -> subprocess.Popen[str]:
    """Start a process with the version in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(root), "MTLRUN_DATA": str(data)}
    return subprocess.Popen(
        [sys.executable, __file__, "--serve", str(data)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(worker: subprocess.Popen[str], name: str) -> float:
    """Return the CPU seconds of a call in a process."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{name}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def serve(data: Path) -> None:
    """Make the calls whose names arrive, until an empty line."""
    warnings.simplefilter("ignore")
    makers = calls(data)
    made: dict[str, Call] = {}
    for line in sys.stdin:
        name = line.strip()
        if not name:
            return
        if name not in made:
            made[name] = makers[name]()
        started = time.process_time()
        made[name]()
        print(time.process_time() - started, flush=True)


def calls(data: Path) -> dict[str, Callable[[], Call]]:
    """Return a function for each name that loads the data and returns the call."""
    makers: dict[str, Callable[[], Call]] = {}
    for table in TARGETS:
        for norm in ("L21", "L1"):
            makers[f"path {table} {norm}"] = lambda t=table, n=norm: path(data, t, n)
            makers[f"fit {table} {norm}"] = lambda t=table, n=norm: fit(data, t, n)
    makers["svm landmine"] = lambda: svm(data)
    makers["predict arrays"] = lambda: predict(has_texts=False)
    makers["predict frame"] = lambda: predict(has_texts=True)
    makers["mixed Exam full"] = lambda: groups(
        data, "HierarchicalMTL", covariance="full"
    )
    makers["smooth Exam"] = lambda: groups(data, "SmoothMTL")
    makers["smooth enb"] = lambda: targets(data, "enb", "SmoothMTL")
    return makers


def lasso_table(data: Path, table: str) -> Any:
    """Return the rows and targets of a table."""
    from paths import read_table

    return read_table(data / "mulan-small" / f"{table}.arff.gz", TARGETS[table])


def path(data: Path, table: str, norm: str) -> Call:
    """Return the cross-validation of 50 strengths in 5 folds, and its fit."""
    from paths import FOLDS

    from mtlrun.estimators import JointFeatureMTLCV, SparseMTLCV

    X, Y = lasso_table(data, table)
    model = JointFeatureMTLCV if norm == "L21" else SparseMTLCV
    return lambda: model(cv=FOLDS, scoring="mse").fit(X, Y)


def fit(data: Path, table: str, norm: str) -> Call:
    """Return twenty fits with a tenth of the largest strength, to a gap of 1e-6."""
    from mtlrun.estimators import JointFeatureMTL, SparseMTL

    X, Y = lasso_table(data, table)
    model = JointFeatureMTL if norm == "L21" else SparseMTL
    alpha = 0.1 * model().alpha_max(X, Y)
    return lambda: [model(alpha, tol=1e-6).fit(X, Y) for _ in range(20)]


def svm(data: Path) -> Call:
    """Return a fit of Landmine, standardized."""
    import numpy as np
    from scipy.io import loadmat

    from mtlrun.estimators import GraphSVC

    cells = loadmat(data / "landmine" / "LandmineData.mat")
    tables = list(cells["feature"].ravel())
    X = np.vstack(tables)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    labels = np.vstack(list(cells["label"].ravel())).ravel()
    y = np.where(labels > 0, 1, -1)
    codes = np.repeat(np.arange(len(tables)), [len(rows) for rows in tables])
    model = GraphSVC(C=0.1)
    return lambda: model.fit(X, y, task_id=codes)


def predict(*, has_texts: bool) -> Call:
    """Return predictions of 300,000 rows of 1,000 tasks."""
    import numpy as np
    import pandas as pd

    from mtlrun.estimators import IndependentRidge

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300_000, 10))
    codes = rng.integers(0, 1000, len(X))
    y = X[:, 0] + rng.normal(size=len(X))
    if not has_texts:
        arrays = IndependentRidge().fit(X, y, task_id=codes)
        return lambda: arrays.predict(X, task_id=codes)
    frame = pd.DataFrame(X).rename(columns=str)
    frame["task"] = np.array([f"task {code}" for code in range(1000)])[codes]
    texts = IndependentRidge(task_column="task").fit(frame, y)
    return lambda: texts.predict(frame)


def groups(data: Path, name: str, **params: Any) -> Call:
    """Return a fit of Exam with one column."""
    from beside_r import table

    import mtlrun.estimators

    frame = table(data, "Exam")
    codes = frame["task"].factorize()[0]
    model = getattr(mtlrun.estimators, name)(**params)
    X = frame[["x1"]].to_numpy(float)
    y = frame["y"].to_numpy(float)
    return lambda: model.fit(X, y, task_id=codes)


def targets(data: Path, table: str, name: str) -> Call:
    """Return a fit of targets on the same rows."""
    import mtlrun.estimators

    X, Y = lasso_table(data, table)
    model = getattr(mtlrun.estimators, name)()
    return lambda: model.fit(X, Y)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]))
    else:
        main()
