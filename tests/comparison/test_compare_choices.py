"""Parameters and scores of the default methods of `compare` on six tables stay the
same.

``python tests/comparison/test_compare_choices.py --write`` stores the results of the
present code; MTLRUN_DATA must contain the data. Strengths and scores are stored with
six digits, because reorganized computations add in another order. One repeat has two
splits, and a search two folds; more would take longer and run the same code.
"""

import json
import math
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mtlrun

STORED = Path(__file__).with_name("compare_choices.json")
TABLES = ("Machines", "labels", "targets")
SIMULATED = ("labels", "targets")


def table(name, folder):
    """Return a table and the options that name its targets: published or simulated."""
    if name == "Machines":
        frame = pd.read_csv(folder / "grouped" / "Machines.csv.gz")
        frame = frame.drop(columns="rownames", errors="ignore")
        return frame.astype({"Worker": str}), {"target": "score", "task": "Worker"}
    rng = np.random.default_rng(4)
    if name == "targets":
        frame = pd.DataFrame(rng.normal(size=(32, 4)), columns=list("abcd"))
        for target in ("y1", "y2"):
            frame[target] = frame.a + 0.5 * frame.b**2 + rng.normal(size=32)
        return frame, {"targets": ["y1", "y2"]}
    n_tasks, n_rows = 3, 24
    X = rng.normal(size=(n_tasks * n_rows, 5))
    task = np.repeat(np.arange(n_tasks), n_rows)
    W = rng.normal(size=5) + 0.6 * rng.normal(size=(n_tasks, 5))
    levels = rng.normal(size=n_tasks)[task]
    noise = rng.normal(size=len(task))
    y = (X * W[task]).sum(axis=1) + 0.5 * X[:, 0] ** 2 + levels + noise
    frame = pd.DataFrame(X).add_prefix("x")
    frame = frame.assign(task=[f"t{t}" for t in task], y=y > 0)
    return frame, {"target": "y", "task": "task"}


def digits(value):
    """Return a number with six digits, or None if it is not a number."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


def found(name, folder):
    """Return the parameters and scores of each method in each split."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, options = table(name, folder)
        result = mtlrun.compare(
            data,
            **options,
            splits=2,
            repeats=1,
            folds=2,
            racing=False,
            min_rows=4,
            jobs=1,
        )
    return {
        entry.label: {
            "scores": [digits(entry.scores[split]) for split in sorted(entry.scores)],
            "chosen": [
                {
                    parameter.removeprefix("estimator__"): digits(value)
                    for parameter, value in chosen.items()
                }
                for _, chosen in sorted(entry.chosen.items())
            ],
        }
        for entry in result.board.entries
    }


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_the_default_methods_have_the_stored_parameters_and_scores(name):
    if name not in SIMULATED and not os.environ.get("MTLRUN_DATA"):
        pytest.skip("MTLRUN_DATA is not set")
    folder = Path(os.environ.get("MTLRUN_DATA", "absent"))
    stored, now = json.loads(STORED.read_text())[name], found(name, folder)
    assert list(now) == list(stored)
    for label, was in stored.items():
        assert now[label]["chosen"] == was["chosen"], label
        np.testing.assert_allclose(
            np.array(now[label]["scores"], dtype=float),
            np.array(was["scores"], dtype=float),
            rtol=2e-5,  # Two units of the last digit: processors round differently
            err_msg=label,
        )


if __name__ == "__main__" and "--write" in sys.argv:
    results = {name: found(name, Path(os.environ["MTLRUN_DATA"])) for name in TABLES}
    STORED.write_text(
        json.dumps(results, sort_keys=False, separators=(",", ":")).replace(
            '},"', '},\n"'
        )
        + "\n"
    )
