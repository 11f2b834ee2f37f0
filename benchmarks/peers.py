"""Hierarchical and smooth models beside other packages on tables with groups.

Every table is split inside its tasks: half of the rows of each task for training (at
most 1,500 rows), as in `smooth.py`. All methods get the same encoded columns, rows and
splits, one thread each, and none sees the test targets. The output has the root mean
squared error of the test rows, processor seconds, and memory.

* *GPBoost*: random levels, random slopes of up to four columns; 2 or 8 leaves and the
  number of rounds by cross-validation inside the tasks.
* *MERF*: the same random effects, a forest of 100 trees (300), 20 iterations.
* *LightGBM, default* and *CatBoost, default*: the task as a category.
* *LightGBM, small tasks*: ``min_data_per_group=1`` (100 by default), ``cat_smooth=1``
  (10), ``cat_l2=1`` (10); 4 or 16 leaves, of at least 2 or 10 rows (20), and the
  number of rounds by cross-validation inside the tasks.
* *CatBoost, small tasks*: ``one_hot_max_size`` above the number of tasks (levels of
  tasks instead of target statistics); depth 3 or 6 (6) and the number of trees by a
  third of the training rows of each task.
* *lme4*, *mgcv* and *mgcv, curves* (a curve per task): see `peers.R`; they need R with
  these packages.

Fits run in a process per table and method. Before the first measured fit it imports the
package and fits a small simulated table, so that neither loading nor compiling counts.
Memory is what the peak of the process grew by in all fits of a table, from Linux'
/proc.

The packages are no dependencies of mtlrun. Install them beside it, in an environment
for this purpose; those that are missing are reported as not installed::

    pip install gpboost==1.8.0 merf==1.0 lightgbm==4.7.0 catboost==1.2.10
    apt-get install r-base-core r-cran-lme4 r-cran-mgcv
    python benchmarks/peers.py FOLDER [--tables Exam bdf] [--output peers.jsonl]

FOLDER holds grouped/ with the files of `datasets/`; tables that the output file already
holds are not run again.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from shutil import which
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parent))
import smooth
from compare_tables import collected
from smooth import Array, Split

from mtlrun.estimators import HierarchicalMTL, SmoothMTL

#: Tables of `smooth.py`. Our models were developed on the first five and the simulated
#: one; no choice was based on chickweight and bdf.
TABLES = (
    "sleepstudy",
    "Orthodont",
    "Machines",
    "radon",
    "Exam",
    "chickweight",
    "bdf",
    "simulated mixed",
)
R_SCRIPT = Path(__file__).with_suffix(".R")
#: Random slopes are given to GPBoost, MERF, lme4 and mgcv for at most this many columns.
MAX_SLOPES = smooth.MAX_GPBOOST_SLOPES
MAX_ROUNDS = 2000


def inner_parts(data: Split) -> list[tuple[Array, Array]]:
    """Return training and validation rows of three folds inside the tasks."""
    fold = smooth.inner_folds(data.task_train)
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]


def predict_merf(data: Split) -> Array:
    """Fit a mixed-effects random forest to standardized targets."""
    from merf import MERF
    from sklearn.ensemble import RandomForestRegressor

    def effects(X: Array) -> Array:
        n_slopes = X.shape[1] if X.shape[1] <= MAX_SLOPES else 0
        return np.column_stack([np.ones(len(X)), X[:, :n_slopes]])

    center = data.y_train.mean()
    unit = data.y_train.std()
    model = MERF(RandomForestRegressor(n_estimators=100, n_jobs=1, random_state=0))
    model.fit(
        data.X_train,
        effects(data.X_train),
        pd.Series(data.task_train),
        (data.y_train - center) / unit,
    )
    tasks = pd.Series(data.task_test)
    predicted = model.predict(data.X_test, effects(data.X_test), tasks)
    return np.asarray(center + unit * predicted)


def predict_lightgbm(data: Split) -> Array:
    """Fit LightGBM with its defaults and the task as a category."""
    import lightgbm

    train = smooth.with_task(data.X_train, data.task_train)
    model = lightgbm.LGBMRegressor(n_jobs=1, verbose=-1, random_state=0)
    model.fit(train, data.y_train, categorical_feature=[train.shape[1] - 1])
    return np.asarray(model.predict(smooth.with_task(data.X_test, data.task_test)))


def predict_lightgbm_small(data: Split) -> Array:
    """Fit LightGBM with settings for small tasks; leaves and rounds by folds."""
    import lightgbm

    train = smooth.with_task(data.X_train, data.task_train)
    params = {
        "min_data_per_group": 1,
        "cat_smooth": 1.0,
        "cat_l2": 1.0,
        # By default, categories of fewer than three rows have no bin.
        "min_data_in_bin": 1,
        "num_threads": 1,
        "verbose": -1,
        "seed": 0,
    }

    def rows() -> Any:
        category = [train.shape[1] - 1]
        return lightgbm.Dataset(train, data.y_train, categorical_feature=category)

    best_error = np.inf
    best_params: dict[str, Any] = {}
    n_rounds = 1
    for n_leaves, min_rows in product((4, 16), (2, 10)):
        candidate = params | {"num_leaves": n_leaves, "min_data_in_leaf": min_rows}
        scores = lightgbm.cv(
            candidate | {"metric": "l2"},
            rows(),
            num_boost_round=MAX_ROUNDS,
            folds=inner_parts(data),
            callbacks=[lightgbm.early_stopping(10, verbose=False)],
        )
        errors = scores["valid l2-mean"]
        if min(errors) < best_error:
            best_error = min(errors)
            best_params = candidate
            n_rounds = int(np.argmin(errors)) + 1
    booster = lightgbm.train(best_params, rows(), num_boost_round=n_rounds)
    return np.asarray(booster.predict(smooth.with_task(data.X_test, data.task_test)))


def catboost_frame(X: Array, task: Array) -> pd.DataFrame:
    """Return X with the task as a column of texts."""
    columns = pd.DataFrame(X).rename(columns=str)
    return columns.assign(task=pd.Series(task).astype(str))


def make_catboost(**params: Any) -> Any:
    """Return a model that knows the column of the task."""
    import catboost

    return catboost.CatBoostRegressor(
        verbose=0,
        thread_count=1,
        random_seed=0,
        allow_writing_files=False,
        cat_features=["task"],
        **params,
    )


def predict_catboost(data: Split) -> Array:
    """Fit CatBoost with its defaults and the task as a category."""
    model = make_catboost()
    model.fit(catboost_frame(data.X_train, data.task_train), data.y_train)
    return np.asarray(model.predict(catboost_frame(data.X_test, data.task_test)))


def predict_catboost_small(data: Split) -> Array:
    """Fit CatBoost with a level per task; the number of trees by a validation part."""
    train = catboost_frame(data.X_train, data.task_train)
    n_tasks = len(np.unique(data.task_train))
    fit_rows, validation_rows = inner_parts(data)[0]
    best_error = np.inf
    best_params: dict[str, Any] = {}
    for depth in (3, 6):
        params = {"depth": depth, "one_hot_max_size": n_tasks + 1}
        search = make_catboost(early_stopping_rounds=20, **params)
        search.fit(
            train.iloc[fit_rows],
            data.y_train[fit_rows],
            eval_set=(train.iloc[validation_rows], data.y_train[validation_rows]),
        )
        error = search.best_score_["validation"]["RMSE"]
        if error < best_error:
            best_error = error
            best_params = params | {
                "iterations": search.tree_count_,
                "learning_rate": search.learning_rate_,
            }
    model = make_catboost(**best_params)
    model.fit(train, data.y_train)
    return np.asarray(model.predict(catboost_frame(data.X_test, data.task_test)))


#: Method -> package and its fit and prediction, None for those of R.
METHODS: dict[str, tuple[str, Callable[[Split], Array] | None]] = {
    "HierarchicalMTL": (
        "mtlrun",
        lambda data: smooth.predict_by_task(HierarchicalMTL(), data),
    ),
    "SmoothMTL": ("mtlrun", lambda data: smooth.predict_by_task(SmoothMTL(), data)),
    "lme4": ("lme4", None),
    "mgcv": ("mgcv", None),
    "mgcv, curves": ("mgcv", None),
    "GPBoost": (
        "gpboost",
        lambda data: smooth.predict_gpboost(data, (2, 8), MAX_ROUNDS),
    ),
    "MERF": ("merf", predict_merf),
    "LightGBM, default": ("lightgbm", predict_lightgbm),
    "LightGBM, small tasks": ("lightgbm", predict_lightgbm_small),
    "CatBoost, default": ("catboost", predict_catboost),
    "CatBoost, small tasks": ("catboost", predict_catboost_small),
}


def is_installed(method: str) -> bool:
    """Return whether the package of a method is there."""
    package, predict = METHODS[method]
    if predict is not None:
        return importlib.util.find_spec(package) is not None
    if which("Rscript") is None:
        return False
    question = f"quit(status = !requireNamespace('{package}', quietly = TRUE))"
    return subprocess.run(["Rscript", "-e", question], check=False).returncode == 0


# ------------------------------------------------------------------- a method's process


def write_split(folder: Path, number: int, data: Split) -> None:
    """Write the training rows, and the test rows without their targets."""
    names = [f"x{i + 1}" for i in range(data.X_train.shape[1])]
    train = pd.DataFrame(data.X_train, columns=names)
    train = train.assign(y=data.y_train, task=data.task_train)
    train.to_csv(folder / f"train-{number}.csv", index=False)
    test = pd.DataFrame(data.X_test, columns=names).assign(task=data.task_test)
    test.to_csv(folder / f"test-{number}.csv", index=False)


def read_split(folder: Path, number: int) -> Split:
    """Read the rows of `write_split`; the test targets are NaN."""
    train, test = (
        pd.read_csv(folder / f"{part}-{number}.csv") for part in ("train", "test")
    )
    names = [name for name in train if name not in ("y", "task")]
    return Split(
        train[names].to_numpy(float),
        train["y"].to_numpy(float),
        train["task"].to_numpy(),
        test[names].to_numpy(float),
        np.full(len(test), np.nan),
        test["task"].to_numpy(),
    )


def peak_megabytes() -> float:
    """Return the peak memory of this process so far."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def small_split() -> Split:
    """Return eight simulated tasks of ten rows, for a first fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1))
    y = rng.normal(size=80)
    task = np.repeat(np.arange(8), 10)
    return Split(X, y, task, X, y, task)


def predict_in_process(method: str, folder: Path) -> None:
    """Write the predictions and costs of a method for all splits of a folder."""
    package, predict = METHODS[method]
    assert predict is not None
    predict(small_split())
    before = peak_megabytes()
    seconds = []
    for number in range(len(list(folder.glob("train-*.csv")))):
        data = read_split(folder, number)
        started = process_time()
        predicted = predict(data)
        seconds.append(process_time() - started)
        frame = pd.DataFrame({"predicted": predicted})
        frame.to_csv(folder / f"predicted-{number}.csv", index=False)
    costs = pd.DataFrame({"seconds": seconds})
    costs["before"] = before
    costs["after"] = peak_megabytes()
    costs["version"] = importlib.import_module(package).__version__
    costs.to_csv(folder / "costs.csv", index=False)


# ------------------------------------------------------------------------- measurement


def measure(name: str, folder: Path, methods: list[str], n_splits: int) -> Any:
    """Return a record per method of a table."""
    table = smooth.read_table(name, folder)
    splits = [smooth.make_split(table, "half", seed) for seed in range(n_splits)]
    records = []
    for method in methods:
        record: dict[str, Any] = {
            "table": name,
            "method": method,
            "rows": len(splits[0].y_train),
            "tasks": len(np.unique(splits[0].task_train)),
            "columns": splits[0].X_train.shape[1],
        }
        if is_installed(method):
            record |= run_method(method, splits)
        else:
            record["problem"] = "not installed"
        records.append(record)
    return records


def run_method(method: str, splits: list[Split]) -> dict[str, Any]:
    """Return the errors, costs and version of a method, from a process of its own."""
    predict = METHODS[method][1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, data in enumerate(splits):
            write_split(folder, number, data)
        command = [sys.executable, __file__, name, "--process", method]
        if predict is None:
            command = ["Rscript", str(R_SCRIPT), name, method, str(MAX_SLOPES)]
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        finished = subprocess.run(
            command,
            env=os.environ | threads,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if finished.returncode:
            print(finished.stderr, file=sys.stderr)
            return {"problem": "failed"}
        errors = []
        for number, data in enumerate(splits):
            frame = pd.read_csv(folder / f"predicted-{number}.csv")
            residual = frame.iloc[:, 0].to_numpy(float) - data.y_test
            errors.append(float(np.sqrt(np.mean(np.square(residual)))))
        costs = pd.read_csv(folder / "costs.csv", dtype={"version": str})
    return {
        "rmse": errors,
        "cpu_seconds": costs["seconds"].tolist(),
        "added_megabytes": float((costs["after"] - costs["before"]).iloc[0]),
        "version": costs["version"].iloc[0],
    }


def summary(records: list[dict[str, Any]]) -> str:
    """Return Markdown: a row per method with errors, their ratio to the best, costs."""
    tables = list(dict.fromkeys(record["table"] for record in records))
    methods = list(dict.fromkeys(record["method"] for record in records))
    by_key = {(record["table"], record["method"]): record for record in records}
    measured = [record for record in records if "rmse" in record]
    best: dict[str, float] = {}
    for record in measured:
        rmse = float(np.mean(record["rmse"]))
        best[record["table"]] = min(rmse, best.get(record["table"], np.inf))
    lines = [
        "| method | " + " | ".join(tables) + " | above best, mean (worst) "
        "| CPU s, median (max) | MB, max |",
        "|---|" + "--:|" * (len(tables) + 3),
    ]
    for method in methods:
        cells = []
        ratios = []
        seconds = []
        megabytes = []
        for name in tables:
            record = by_key.get((name, method), {"problem": ""})
            if "rmse" not in record:
                cells.append(record["problem"])
                continue
            rmse = float(np.mean(record["rmse"]))
            cells.append(f"{rmse:.4g}")
            ratios.append(100 * (rmse / best[name] - 1))
            seconds.append(float(np.mean(record["cpu_seconds"])))
            megabytes.append(record["added_megabytes"])
        costs = ["", "", ""]
        if ratios:
            costs = [
                f"{np.mean(ratios):.1f}% ({max(ratios):.1f}%)",
                f"{np.median(seconds):.2f} ({max(seconds):.2f})",
                f"{max(megabytes):.0f}",
            ]
        lines.append("| " + " | ".join([method, *cells, *costs]) + " |")
    versions = {METHODS[r["method"]][0]: r["version"] for r in measured}
    sizes = {
        r["table"]: f"{r['rows']} x {r['columns']} in {r['tasks']}" for r in records
    }
    lines += [
        "",
        "Versions: " + ", ".join(" ".join(pair) for pair in versions.items()),
        "Training rows x columns in tasks: "
        + ", ".join(f"{name} {size}" for name, size in sizes.items()),
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure the tables that the output lacks, and print all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of the data sets")
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("peers.jsonl"))
    parser.add_argument("--process", choices=METHODS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.process:
        predict_in_process(options.process, options.folder)
        return
    records = collected(
        options.tables,
        options.output,
        lambda name: measure(name, options.folder, options.methods, options.splits),
    )
    print(summary(records))


if __name__ == "__main__":
    main()
