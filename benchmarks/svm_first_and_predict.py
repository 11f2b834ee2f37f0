"""GraphSVC and `predict`: CPU seconds of the installed version, one BLAS thread.

* svm: ``GraphSVC(C=0.1)`` on Landmine, standardized, best of five.
* first: the first ``GraphSVC(solver="dcd")`` with an empty folder of machine code.
* predict: 300,000 rows, 10 features, 1,000 tasks, as arrays and as a data frame with
  text ids; rows per second over those of LinearRegression, medians of seven.

To compare with another version, run both in turn, with PYTHONPATH set to the other. The
data of Landmine must be in MTLRUN_DATA.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from mtlrun.data.sets.load import load_dataset
from mtlrun.estimators import GraphSVC, IndependentRidge

ROWS = 300_000
FEATURES = 10
TASKS = 1000


def seconds(call: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    """Print the three parts."""
    landmine = load_dataset("landmine")
    X = StandardScaler().fit_transform(landmine.X)
    y = landmine.y
    ids = landmine.task_id
    GraphSVC(solver="newton").fit(X[:500], y[:500], task_id=ids[:500])
    dcd = GraphSVC(solver="dcd")
    first = seconds(lambda: dcd.fit(X[:500], y[:500], task_id=ids[:500]))
    print(f"first dcd: {first:.2f} s")
    model = GraphSVC(C=0.1)
    times = [seconds(lambda: model.fit(X, y, task_id=ids)) for _ in range(5)]
    print(f"svm: {1000 * min(times):.1f} ms, gap {model.gap_:.1e}")

    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    codes = rng.integers(0, TASKS, ROWS)
    y = X[:, 0] + rng.normal(size=ROWS)
    frame = pd.DataFrame(X).rename(columns=str)
    frame["task"] = np.array([f"task {k}" for k in range(TASKS)])[codes]
    arrays = IndependentRidge().fit(X, y, task_id=codes)
    texts = IndependentRidge(task_column="task").fit(frame, y)
    linear = LinearRegression().fit(X, y)
    calls = {
        "arrays": lambda: arrays.predict(X, task_id=codes),
        "frame": lambda: texts.predict(frame),
        "linear": lambda: linear.predict(X),
    }
    rounds = [{name: seconds(call) for name, call in calls.items()} for _ in range(7)]
    base = np.median([times_of["linear"] for times_of in rounds])
    for name in ("arrays", "frame"):
        ratio = base / np.median([times_of[name] for times_of in rounds])
        print(f"predict, {name}: {ratio:.3f} of LinearRegression")


if __name__ == "__main__":
    main()
