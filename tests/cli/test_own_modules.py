"""Of the modules in the current folder, only those that the user names are imported."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

#: Installed packages that others import.
OPTIONAL = (
    "pyarrow",
    "polars",
    "numexpr",
    "bottleneck",
    "cupy",
    "jax",
    "xarray",
    "tables",
    "lxml",
    "torch",
    "dask",
)
MINE = """
import helpers
from sklearn.linear_model import Ridge


class Mine(Ridge):
    alpha_of_mine = helpers.ALPHA
"""
COMPARE = (
    "compare",
    "grades.csv",
    "--target",
    "grade",
    "--task",
    "school",
    "--splits",
    "2",
    "--repeats",
    "1",
    "-q",
)


@pytest.fixture
def folder(tmp_path):
    """Write a table, and files named like packages that leave a mark if run."""
    rng = np.random.default_rng(0)
    hours = rng.normal(size=60)
    frame = pd.DataFrame(
        {
            "school": np.arange(60) % 3,
            "hours": hours,
            "grade": hours + rng.normal(size=60),
        }
    )
    frame.to_csv(tmp_path / "grades.csv", index=False)
    for name in OPTIONAL:
        (tmp_path / f"{name}.py").write_text(f"open('ran-{name}', 'w').close()\n")
    return tmp_path


@pytest.fixture
def run(folder, environment):
    """Run a command in the folder, in a new Python process."""

    def run(start, *words):
        done = subprocess.run(
            [*start, *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


MODULE = [sys.executable, "-m", "mtlrun"]
SCRIPT = Path(sys.executable).with_name("mtlrun")


def marks(folder):
    return sorted(path.name for path in folder.glob("ran-*"))


@pytest.mark.slow
def test_files_named_like_optional_packages_are_not_executed(run, folder):
    run(
        MODULE, *COMPARE, "--methods", "PooledRidge"
    )  # These commands read and write tables, draw figures and write pages.
    assert marks(folder) == []


@pytest.mark.slow
@pytest.mark.skipif(
    not SCRIPT.exists(), reason="the script mtlrun is not installed beside this Python"
)
def test_a_named_class_is_imported_and_trusted_at_prediction(run, folder):
    (folder / "mine.py").write_text(MINE)
    (folder / "helpers.py").write_text("ALPHA = 1.0\n")
    (folder / "train.yaml").write_text(
        "schema: 1\nkind: train\nid: train/own\ndataset: {id: simulated-rmtl, n: 60, d: 5, m: 3}\n"
        "method: mine:Mine\nsplit: {kind: random, train: 0.5}\nmetrics: [auc]\n"
    )
    run([SCRIPT], "train", "train.yaml", "-q")
    run(
        MODULE,
        "predict",
        "results/runs/train/own",
        "simulated-rmtl",
        "--trust",
        "mine.Mine",
        "-q",
    )
    assert marks(folder) == []


@pytest.mark.slow
def test_workers_do_not_execute_files_named_like_modules(run, folder):
    names = [
        "joblib",
        "json",
        "random",
        "statistics",
        "numpy",
        "pandas",
        "sklearn",
        "loky",
        "queue",
    ]
    for name in names:
        (folder / f"{name}.py").write_text(
            f"open('ran-{name}', 'w').close()\nraise ImportError\n"
        )
    run([SCRIPT], *COMPARE, "--methods", "TraceNormMTL", "--folds", "2", "--jobs", "2")
    run([SCRIPT], "reproduce", "table2", "--profile", "smoke", "--jobs", "2", "-q")
    assert not list(folder.glob("ran-*"))
