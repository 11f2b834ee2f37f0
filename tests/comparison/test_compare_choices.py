"""Parameters and scores of the default methods of `compare` on six tables stay the
same.

``python tests/comparison/test_compare_choices.py --write`` stores the results of the
present code; MTLRUN_DATA must contain the data. Strengths and scores are stored with
six digits, because reorganized computations add in another order. One repeat has five
splits; a second one would take as long and run the same code.
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
TABLES = ("sleepstudy", "Machines", "slump", "flags", "tasks", "labels")
SIMULATED = ("tasks", "labels")


def table(name, folder):
    """Return a table and the options that name its targets: published or simulated."""
    if name in ("sleepstudy", "Machines"):
        target, task = {
            "sleepstudy": ("Reaction", "Subject"),
            "Machines": ("score", "Worker"),
        }[name]
        frame = pd.read_csv(folder / "grouped" / f"{name}.csv.gz").drop(
            columns="rownames", errors="ignore"
        )
        return frame.astype({task: str}), {"target": target, "task": task}
    small = folder / "mulan-small"
    if name == "slump":
        return small / "slump.arff.gz", {"targets_last": 3}
    if name == "flags":
        return (small / "flags.arff.gz", small / "flags.xml"), {}
    tasks, rows, labels = (5, 40, False) if name == "tasks" else (4, 45, True)
    rng = np.random.default_rng(tasks)
    X, ids = rng.normal(size=(tasks * rows, 5)), np.repeat(np.arange(tasks), rows)
    W = rng.normal(size=5) + 0.6 * rng.normal(size=(tasks, 5))
    y = (
        (X * W[ids]).sum(axis=1)
        + 0.5 * X[:, 0] ** 2
        + rng.normal(size=tasks)[ids]
        + rng.normal(size=len(ids))
    )
    frame = (
        pd.DataFrame(X)
        .add_prefix("x")
        .assign(task=[f"t{t}" for t in ids], y=y > 0 if labels else y)
    )
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
            data, **options, repeats=1, racing=False, min_rows=4, jobs=1
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
            rtol=2e-6,
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
