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
#: Modules that all commands need.
NEEDED = (
    "joblib",
    "json",
    "random",
    "statistics",
    "numpy",
    "pandas",
    "sklearn",
    "loky",
    "queue",
)
SCRIPT = Path(sys.executable).with_name("mtlrun")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a table, and files named like packages that leave a mark if run."""
    folder = tmp_path_factory.mktemp("folder")
    rng = np.random.default_rng(0)
    hours = rng.normal(size=60)
    frame = pd.DataFrame(
        {
            "school": np.arange(60) % 3,
            "hours": hours,
            "grade": hours + rng.normal(size=60),
        }
    )
    frame.to_csv(folder / "grades.csv", index=False)
    for name in (*OPTIONAL, *NEEDED):
        end = "raise ImportError\n" if name in NEEDED else ""
        (folder / f"{name}.py").write_text(f"open('ran-{name}', 'w').close()\n{end}")
    (folder / "mine.py").write_text(MINE)
    (folder / "helpers.py").write_text("ALPHA = 1.0\n")
    return folder


def run(folder, start, *words):
    """Run a command in the folder, in a new Python process."""
    done = subprocess.run(
        [*start, *words, "-q"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def compared(folder):
    """Compare methods in two workers: reads and writes tables, draws figures."""
    columns = ("--target", "grade", "--task", "school", "--methods", "mine:Mine")
    sizes = ("--splits", "2", "--repeats", "1", "--folds", "2", "--jobs", "2")
    module = (sys.executable, "-m", "mtlrun")
    run(folder, module, "compare", "grades.csv", *columns, *sizes)
    return folder


def marks(folder):
    return sorted(path.name for path in folder.glob("ran-*"))


@pytest.mark.slow
def test_workers_do_not_execute_files_named_like_modules(compared):
    assert marks(compared) == []


@pytest.mark.slow
@pytest.mark.skipif(
    not SCRIPT.exists(), reason="the script mtlrun is not installed beside this Python"
)
def test_a_named_class_is_imported_and_trusted_at_prediction(compared):
    model = "results/runs/compare/grades/model"
    columns = ("--task-column", "school", "--trust", "mine.Mine")
    run(compared, (SCRIPT,), "predict", model, "grades.csv", *columns)
    assert marks(compared) == []
