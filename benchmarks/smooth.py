"""Smooth hierarchical models and their rivals on tables with groups.

Every table is split inside its tasks in two settings: "half" trains on half of the rows
of each task (at most 1,500 rows), "few" on 3 to 9 rows of each. All methods run in one
process on the same encoded columns. The output has the mean gain in squared error over
`HierarchicalMTL()`; CatBoost, LightGBM and GPBoost take part where they are installed.

Run with: python benchmarks/smooth.py FOLDER [--tables Milk Exam] [--methods ...]
[--splits 4] [--output smooth.jsonl]. FOLDER holds grouped/, school/ and sarcos/. Fits
that the output file already holds are not run again. --reference-python names the
interpreter of an environment with another version of mtlrun, whose `HierarchicalMTL`
becomes the reference.

With --held-out, the tables come from `datasets/`. They have groups, and no choice for the
smooth models was based on them.

With --coverage the script prints how many new targets the 95% intervals hold, with
--centers N how much the test error depends on the seed of the centers (N seeds), with
--later the gains where the last third of each task's rows is held out, with --labels
the log loss on tables with groups and labels, with --targets the gains over ridge on
tables with several targets on the same rows (mulan-small/), half of the rows for
training.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy.io import loadmat
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import log_loss

from mtlrun.data.reading.read import read_table as read_data
from mtlrun.estimators import (
    HierarchicalMTL,
    HierarchicalMTLClassifier,
    SmoothIndependent,
    SmoothMTL,
    SmoothMTLClassifier,
    SmoothPooled,
)

Array = np.ndarray[Any, np.dtype[Any]]

#: Table -> file, target, task, columns that are dropped, tasks at most.
GROUPED: dict[str, tuple[str, str, str, list[str], int]] = {
    "Milk": ("Milk", "protein", "Cow", [], 79),
    "egsingle by child": ("egsingle", "math", "childid", ["schoolid"], 250),
    "ScotsSec": ("ScotsSec", "attain", "primary", ["second"], 80),
    "egsingle by school": ("egsingle", "math", "schoolid", ["childid"], 60),
    "Socatt": ("Socatt", "numpos", "district", ["respond"], 54),
    "sleepstudy": ("sleepstudy", "Reaction", "Subject", [], 18),
    "Exam": ("Exam", "normexam", "school", ["student"], 40),
    "Hsb82": ("Hsb82", "mAch", "school", [], 60),
    "radon": ("radon", "log.radon", "county", ["county.name"], 85),
    "Machines": ("Machines", "score", "Worker", [], 6),
    "Orthodont": ("Orthodont", "distance", "Subject", [], 27),
    "cake": ("cake", "angle", "replicate", [], 15),
}
#: Descriptions of data sets: file, target, task, columns that are dropped.
CARDS = Path(__file__).parents[1] / "datasets"
#: Data sets with groups and numeric targets that no choice was based on.
HELD_OUT = (
    "arabidopsis",
    "bdf",
    "caschools",
    "chem97",
    "chickweight",
    "chile",
    "cigar",
    "diamonds",
    "dietox",
    "dnase",
    "fatigue",
    "gcsemv",
    "grouseticks",
    "gssvocab",
    "guns",
    "insteval",
    "ovary",
    "produc",
    "remifentanil",
    "soybean",
    "spruce",
    "star",
    "teachingratings",
    "wafer",
)
#: Data sets with groups and labels; the last four are held out.
LABELS = ("contraception", "toenail", "arrests", "guimmun", "migraine", "verbagg")
#: Table -> column of time, for which the last rows of each task are held out.
TIME_COLUMNS = {
    "Milk": "Time",
    "sleepstudy": "Days",
    "Orthodont": "age",
    "egsingle by child": "year",
    "chickweight": "Time",
    "cigar": "year",
    "dietox": "Time",
    "dnase": "conc",
    "fatigue": "cycles",
    "guns": "year",
    "ovary": "Time",
    "produc": "year",
    "remifentanil": "Time",
    "soybean": "Time",
    "spruce": "days",
    "wafer": "voltage",
}
#: Table with several targets on the same rows -> number of targets, its last columns.
TARGETS = {
    "andro": 6,
    "atp7d": 6,
    "edm": 2,
    "enb": 2,
    "jura": 3,
    "oes10": 16,
    "scpf": 3,
    "slump": 3,
}
#: Data sets with several targets on the same rows that are held out.
HELD_OUT_TARGETS = ("atp1d", "meats", "oes97", "osales", "sf1", "wq")
SIMULATED = ("simulated mixed", "simulated smooth", "simulated unrelated")
TABLES = [*GROUPED, "School", "SARCOS", *SIMULATED]
SETTINGS = ("half", "few")
#: Rows of training at most.
MAX_TRAIN_ROWS = 1500
#: Tasks need so many rows.
MIN_TASK_ROWS = 4
#: One-hot columns of a text column at most.
MAX_CATEGORIES = 50
#: Groups of tasks of which one at a time is left out for intervals of new tasks.
N_COVERAGE_FOLDS = 5
STRENGTHS = np.logspace(-2, 4, 13)
#: GPBoost gets random slopes for all columns of tables with at most this many columns.
MAX_GPBOOST_SLOPES = 4


@dataclass(frozen=True)
class Table:
    """Columns, targets, and the number of the task of every row."""

    columns: pd.DataFrame
    y: Array
    task: Array


@dataclass(frozen=True)
class Split:
    """Encoded rows of training and test."""

    X_train: Array
    y_train: Array
    task_train: Array
    X_test: Array
    y_test: Array
    task_test: Array


def read_table(name: str, folder: Path) -> Table:
    """Return a table by name."""
    if name in SIMULATED:
        return simulate(name)
    if name in HELD_OUT or name in LABELS:
        return read_card(name, folder)
    if name == "SARCOS":
        values = pd.read_csv(folder / "sarcos" / "sub_sarcos.csv.gz", header=None)
        data = values.to_numpy()
        return Table(pd.DataFrame(data[:, :21]), data[:, 21], data[:, 22].astype(int))
    if name == "School":
        cells = loadmat(folder / "school" / "school.mat")
        designs = [design.astype(float) for design in cells["X"].ravel()]
        targets = [target.ravel().astype(float) for target in cells["Y"].ravel()]
        task = np.repeat(np.arange(len(designs)), [len(y) for y in targets])
        columns = pd.DataFrame(np.vstack(designs)[:, :-1])
        return keep_tasks(Table(columns, np.concatenate(targets), task), 60)
    file, target, group, dropped, n_tasks = GROUPED[name]
    frame = pd.read_csv(folder / "grouped" / f"{file}.csv.gz")
    frame = frame.drop(columns=["rownames", *dropped])
    frame = frame[frame[target].notna() & frame[group].notna()]
    task = pd.factorize(frame[group])[0]
    columns = frame.drop(columns=[target, group])
    return keep_tasks(Table(columns, frame[target].to_numpy(float), task), n_tasks)


def read_card(name: str, folder: Path) -> Table:
    """Return the table that a data set's description defines; labels are 0 and 1."""
    card = yaml.safe_load((CARDS / f"{name}.yaml").read_text(encoding="utf-8"))
    options = card["reader"]["options"]
    frame = pd.read_csv(folder / "grouped" / options["data"])
    target = options["targets"][0]
    group = options["task"]
    frame = frame.drop(columns=options["drop"])
    frame = frame[frame[target].notna() & frame[group].notna()]
    for column in options.get("categorical", []):
        frame[column] = frame[column].astype(str)
    y = frame[target]
    if name in LABELS:
        y = pd.Series(pd.factorize(y, sort=True)[0])
    columns = frame.drop(columns=[target, group])
    task = pd.factorize(frame[group])[0]
    return keep_tasks(Table(columns, y.to_numpy(float), task), len(frame))


def read_targets(name: str, folder: Path) -> tuple[pd.DataFrame, Array]:
    """Return the columns and the targets of a table with several targets."""
    if name in TARGETS:
        frame = read_data(folder / "mulan-small" / f"{name}.arff.gz").frame
        targets = list(frame.columns[-TARGETS[name] :])
    else:
        card = yaml.safe_load((CARDS / f"{name}.yaml").read_text(encoding="utf-8"))
        options = card["reader"]["options"]
        file = folder / card["folder"] / options["data"]
        if not file.exists():
            file = file.with_name(f"{file.name}.gz")
        frame = read_data(file).frame
        frame = frame.drop(columns=options.get("drop", []))
        targets = options["targets"]
    frame = frame.dropna(subset=targets)
    return frame.drop(columns=targets), frame[targets].to_numpy(float)


def keep_tasks(table: Table, n_tasks: int) -> Table:
    """Return the rows of at most so many tasks that have enough rows."""
    codes, counts = np.unique(table.task, return_counts=True)
    codes = np.random.default_rng(0).permutation(codes[counts >= MIN_TASK_ROWS])
    rows = np.isin(table.task, codes[:n_tasks])
    task = np.unique(table.task[rows], return_inverse=True)[1]
    return Table(table.columns[rows].reset_index(drop=True), table.y[rows], task)


def simulate(name: str) -> Table:
    """Return 40 tasks that share curves, have curves of their own, or share nothing."""
    rng = np.random.default_rng(7)
    task = np.repeat(np.arange(40), 40)
    X = rng.uniform(-1.7, 1.7, (1600, 6))
    if name == "simulated smooth":
        common = 2 * np.sin(1.5 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] * X[:, 3]
        level = rng.normal(size=40)[task]
        slopes = 0.5 * rng.normal(size=(40, 2))[task]
        y = common + level + (slopes * X[:, 4:6]).sum(axis=1)
    elif name == "simulated mixed":
        phase = rng.normal(size=40)[task]
        y = 2 * np.sin(1.5 * X[:, 0] + 0.6 * phase) + X[:, 1]
        y = y + rng.normal(size=40)[task]
    else:
        y = (rng.normal(size=(40, 6))[task] * X).sum(axis=1)
    return Table(pd.DataFrame(X), y + rng.normal(size=1600), task)


def split_rows(task: Array, setting: str, seed: int) -> tuple[Array, Array]:
    """Return rows of training and of test, some of each from every task."""
    rng = np.random.default_rng([seed, 11])
    train, test = [], []
    for code in np.unique(task):
        rows = rng.permutation(np.flatnonzero(task == code))
        if setting == "half":
            n_train = (len(rows) + int(rng.integers(2))) // 2
        else:
            n_train = int(rng.integers(3, 10))
        n_train = max(1, min(n_train, len(rows) - 1))
        train.append(rows[:n_train])
        test.append(rows[n_train:])
    train_rows = np.concatenate(train)
    test_rows = np.concatenate(test)
    if len(train_rows) > MAX_TRAIN_ROWS:
        train_rows = rng.permutation(train_rows)[:MAX_TRAIN_ROWS]
        seen = np.unique(task[train_rows])
        test_rows = test_rows[np.isin(task[test_rows], seen)]
    if len(test_rows) > 2 * MAX_TRAIN_ROWS:
        test_rows = rng.permutation(test_rows)[: 2 * MAX_TRAIN_ROWS]
    return np.sort(train_rows), np.sort(test_rows)


def encode(train: pd.DataFrame, test: pd.DataFrame) -> tuple[Array, Array]:
    """Return standardized numbers (missing: median and flag) and one-hot texts."""
    columns: list[tuple[Array, Array]] = []
    for name in train.columns:
        if pd.api.types.is_numeric_dtype(train[name]):
            values = [part[name].to_numpy(float) for part in (train, test)]
            median = np.nanmedian(values[0])
            filled = [np.where(np.isnan(part), median, part) for part in values]
            columns.append((filled[0], filled[1]))
            if np.isnan(values[0]).any():
                flags = [np.isnan(part).astype(float) for part in values]
                columns.append((flags[0], flags[1]))
            continue
        words = [part[name].astype(str) for part in (train, test)]
        levels = words[0].value_counts().index[:MAX_CATEGORIES].tolist()
        if len(levels) == 2:
            levels = levels[1:]
        for level in levels:
            columns.append(
                (
                    (words[0] == level).to_numpy(float),
                    (words[1] == level).to_numpy(float),
                )
            )
    X_train, X_test = (np.column_stack(part) for part in zip(*columns, strict=True))
    mean = X_train.mean(axis=0)
    std = X_train.std(axis=0)
    varies = std > 1e-9
    mean = mean[varies]
    std = std[varies]
    return (X_train[:, varies] - mean) / std, (X_test[:, varies] - mean) / std


def make_split(table: Table, setting: str, seed: int) -> Split:
    """Split and encode a table."""
    train, test = split_rows(table.task, setting, seed)
    X_train, X_test = encode(table.columns.iloc[train], table.columns.iloc[test])
    return Split(
        X_train,
        table.y[train],
        table.task[train],
        X_test,
        table.y[test],
        table.task[test],
    )


# ---------------------------------------------------------------------- methods


def predict_by_task(model: Any, data: Split) -> Array:
    """Fit a model of mtlrun, and predict."""
    model.fit(data.X_train, data.y_train, task_id=data.task_train)
    return np.asarray(model.predict(data.X_test, task_id=data.task_test))


def predict_ridge(data: Split) -> Array:
    """Fit a ridge regression per task, its strength by leave-one-out errors."""
    predicted = np.full(len(data.y_test), data.y_train.mean())
    for task in np.unique(data.task_train):
        rows = data.task_train == task
        test = data.task_test == task
        if not test.any():
            continue
        if rows.sum() < 2:
            predicted[test] = data.y_train[rows].mean()
            continue
        model = RidgeCV(STRENGTHS).fit(data.X_train[rows], data.y_train[rows])
        predicted[test] = model.predict(data.X_test[test])
    return predicted


def with_task(X: Array, task: Array) -> Array:
    """Return X with the task as the last column."""
    return np.column_stack([X, task])


def inner_folds(task: Array, n_folds: int = 3) -> Array:
    """Return the fold of every row, with a share of every task in each fold."""
    rng = np.random.default_rng(0)
    fold = np.empty(len(task), dtype=int)
    for number, code in enumerate(np.unique(task)):
        rows = rng.permutation(np.flatnonzero(task == code))
        fold[rows] = (np.arange(len(rows)) + number) % n_folds
    return fold


def choose_leaves(make: Callable[[int], Any], X: Array, y: Array, task: Array) -> Any:
    """Return a model with 4 or 16 leaves, chosen by cross-validation, fitted to all."""
    fold = inner_folds(task)
    errors = {}
    for n_leaves in (4, 16):
        errors[n_leaves] = 0.0
        for k in range(3):
            model = make(n_leaves).fit(X[fold != k], y[fold != k])
            residual = model.predict(X[fold == k]) - y[fold == k]
            errors[n_leaves] += float(residual @ residual)
    best = min(errors, key=lambda n_leaves: errors[n_leaves])
    return make(best).fit(X, y)


def predict_trees(data: Split) -> Array:
    """Fit boosted trees with the task as a category; leaves by cross-validation."""
    codes = np.unique(np.concatenate([data.task_train, data.task_test]))
    train = with_task(data.X_train, np.searchsorted(codes, data.task_train))
    test = with_task(data.X_test, np.searchsorted(codes, data.task_test))
    # Boosted trees take at most 255 categories; more tasks are a number.
    is_category = len(codes) <= 255

    def make(n_leaves: int) -> HistGradientBoostingRegressor:
        return HistGradientBoostingRegressor(
            max_leaf_nodes=n_leaves,
            min_samples_leaf=5,
            categorical_features=[train.shape[1] - 1] if is_category else None,
        )

    model = choose_leaves(make, train, data.y_train, data.task_train)
    return np.asarray(model.predict(test))


def predict_lightgbm(data: Split) -> Array:
    """Fit LightGBM with the task as a category; leaves by cross-validation."""
    import lightgbm

    train = with_task(data.X_train, data.task_train)
    task_column = [train.shape[1] - 1]

    class Model(lightgbm.LGBMRegressor):  # type: ignore[misc]
        """LightGBM that knows which column is the task."""

        def fit(self, X: Array, y: Array) -> Any:
            return super().fit(X, y, categorical_feature=task_column)

    def make(n_leaves: int) -> Any:
        return Model(num_leaves=n_leaves, min_child_samples=5, verbose=-1, n_jobs=1)

    model = choose_leaves(make, train, data.y_train, data.task_train)
    return np.asarray(model.predict(with_task(data.X_test, data.task_test)))


def predict_catboost(data: Split) -> Array:
    """Fit CatBoost with the task as a category."""
    import catboost

    def frame(X: Array, task: Array) -> pd.DataFrame:
        columns = pd.DataFrame(X).rename(columns=str)
        return columns.assign(task=pd.Series(task).astype(str))

    model = catboost.CatBoostRegressor(
        iterations=300,
        verbose=0,
        thread_count=1,
        allow_writing_files=False,
        cat_features=["task"],
    )
    model.fit(frame(data.X_train, data.task_train), data.y_train)
    return np.asarray(model.predict(frame(data.X_test, data.task_test)))


def predict_gpboost(
    data: Split, leaf_counts: tuple[int, ...] = (8,), max_rounds: int = 150
) -> Array:
    """Fit GPBoost with random levels, and slopes of up to four columns.

    Its targets are standardized; the numbers of rounds and of leaves are chosen by
    cross-validation on folds that hold rows of every task.
    """
    import gpboost

    center = data.y_train.mean()
    unit = data.y_train.std()
    y = (data.y_train - center) / unit
    params = {"learning_rate": 0.1, "min_data_in_leaf": 5}
    params |= {"verbose": -1, "num_threads": 1}
    n_columns = data.X_train.shape[1]
    slopes: dict[str, Any] = {}
    new_slopes: dict[str, Any] = {}
    if n_columns <= MAX_GPBOOST_SLOPES:
        slopes["group_rand_coef_data"] = data.X_train
        slopes["ind_effect_group_rand_coef"] = [1] * n_columns
        new_slopes["group_rand_coef_data_pred"] = data.X_test

    def effects() -> Any:
        return gpboost.GPModel(
            group_data=data.task_train.astype(str),
            likelihood="gaussian",
            num_parallel_threads=1,
            # Its default for several random effects, conjugate gradients, can fail.
            matrix_inversion_method="cholesky",
            **slopes,
        )

    fold = inner_folds(data.task_train)
    parts = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    best_error = np.inf
    best_leaves = leaf_counts[0]
    n_rounds = 1
    for n_leaves in leaf_counts:
        scores = gpboost.cv(
            params | {"num_leaves": n_leaves},
            gpboost.Dataset(data.X_train, y),
            gp_model=effects(),
            num_boost_round=max_rounds,
            folds=parts,
            early_stopping_rounds=10,
            metric="mse",
            verbose_eval=False,
            use_gp_model_for_validation=True,
        )
        errors = next(iter(scores.values()))
        if min(errors) < best_error:
            best_error = min(errors)
            best_leaves = n_leaves
            n_rounds = int(np.argmin(errors)) + 1
    booster = gpboost.train(
        params | {"num_leaves": best_leaves},
        gpboost.Dataset(data.X_train, y),
        gp_model=effects(),
        num_boost_round=n_rounds,
    )
    predicted = booster.predict(
        data.X_test,
        group_data_pred=data.task_test.astype(str),
        predict_var=False,
        pred_latent=False,
        **new_slopes,
    )
    return np.asarray(center + unit * predicted["response_mean"])


#: Program of an environment with another version. For every folder that it is sent, it
#: reads a split and writes predictions.
OTHER_VERSION = """
import sys, warnings
import numpy as np
from mtlrun.estimators import HierarchicalMTL
warnings.filterwarnings("ignore")
for line in sys.stdin:
    folder = line.rstrip()
    data = np.load(folder + "/split.npz")
    model = HierarchicalMTL().fit(data["X"], data["y"], task_id=data["task"])
    predicted = model.predict(data["X_test"], task_id=data["task_test"])
    np.save(folder + "/predicted.npy", predicted)
    print("done", flush=True)
"""


@cache
def start_other_version(python: Path) -> subprocess.Popen[str]:
    """Start the program with this interpreter; it ends with the benchmark."""
    return subprocess.Popen(
        [str(python), "-c", OTHER_VERSION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # From another folder, so that the other environment's mtlrun is imported.
        cwd=tempfile.gettempdir(),
    )


def predict_by_other_version(python: Path, data: Split) -> Array:
    """Fit `HierarchicalMTL` of the mtlrun that this interpreter imports."""
    process = start_other_version(python)
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        np.savez(
            Path(folder, "split.npz"),
            X=data.X_train,
            y=data.y_train,
            task=data.task_train,
            X_test=data.X_test,
            task_test=data.task_test,
        )
        process.stdin.write(f"{folder}\n")
        process.stdin.flush()
        process.stdout.readline()
        return np.asarray(np.load(Path(folder, "predicted.npy")))


REFERENCE = "HierarchicalMTL"
OTHER_REFERENCE = "HierarchicalMTL, other version"
METHODS: dict[str, Callable[[Split], Array]] = {
    REFERENCE: lambda data: predict_by_task(HierarchicalMTL(), data),
    "SmoothMTL": lambda data: predict_by_task(SmoothMTL(), data),
    "SmoothMTL, other centers": lambda data: predict_by_task(
        SmoothMTL(random_state=1), data
    ),
    "SmoothPooled": lambda data: predict_by_task(SmoothPooled(), data),
    "SmoothIndependent": lambda data: predict_by_task(SmoothIndependent(), data),
    "ridge per task": predict_ridge,
    "boosted trees + task": predict_trees,
    "LightGBM": predict_lightgbm,
    "CatBoost": predict_catboost,
    "GPBoost": predict_gpboost,
}
#: Methods of packages that need not be there.
PACKAGES = {"LightGBM": "lightgbm", "CatBoost": "catboost", "GPBoost": "gpboost"}


def installed_methods() -> list[str]:
    """Return the methods whose packages are installed."""
    return [
        name
        for name in METHODS
        if name not in PACKAGES or importlib.util.find_spec(PACKAGES[name])
    ]


# ---------------------------------------------------------------------- measurement


def measure(name: str, data: Split) -> dict[str, float]:
    """Return mean squared error, and processor seconds of fit and prediction."""
    started = time.process_time()
    predicted = METHODS[name](data)
    seconds = time.process_time() - started
    error = float(np.mean(np.square(predicted - data.y_test)))
    return {"mse": error, "cpu_seconds": round(seconds, 3)}


def peak_megabytes(name: str, data: Split) -> float:
    """Return the peak memory of a method, from a run of its own."""
    tracemalloc.start()
    METHODS[name](data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(peak / 1e6, 1)


def record_key(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells a fit from the others."""
    return tuple(record[name] for name in ("table", "setting", "split", "method"))


def run(
    folder: Path,
    tables: list[str],
    methods: list[str],
    splits: range,
    finished: set[tuple[Any, ...]],
    *,
    traces_memory: bool = True,
) -> Any:
    """Yield a record per table, setting, split and method that is not finished."""
    for seed in splits:
        for name in tables:
            table = read_table(name, folder)
            for setting in SETTINGS:
                data = make_split(table, setting, seed)
                for method in methods:
                    record: dict[str, Any] = {
                        "table": name,
                        "setting": setting,
                        "split": seed,
                        "method": method,
                        "rows": len(data.y_train),
                        "tasks": len(np.unique(data.task_train)),
                        "columns": data.X_train.shape[1],
                    }
                    if record_key(record) in finished:
                        continue
                    record |= measure(method, data)
                    is_traced = seed == splits[0] and method != OTHER_REFERENCE
                    if traces_memory and is_traced:
                        record["peak_megabytes"] = peak_megabytes(method, data)
                    yield record


def coverage(folder: Path, tables: list[str], splits: range) -> Any:
    """Yield the share of new targets inside 95% intervals, for known and new tasks.

    Five splits in a row leave out every task once.
    """
    for name in tables:
        table = read_table(name, folder)
        shares: dict[str, list[float]] = {}
        for seed in splits:
            data = make_split(table, "half", seed)
            codes = np.unique(table.task)
            fold = seed % N_COVERAGE_FOLDS
            shuffled = np.random.default_rng(seed - fold).permutation(codes)
            left_out = shuffled[fold::N_COVERAGE_FOLDS]
            is_new = np.isin(data.task_test, left_out)
            for model in (SmoothMTL(unseen="mean"), HierarchicalMTL(unseen="mean")):
                is_inside = covered_rows(model, data, left_out)
                label = type(model).__name__
                for kind, rows in (("known", ~is_new), ("new", is_new)):
                    key = f"{label}, {kind} tasks"
                    shares.setdefault(key, []).append(float(is_inside[rows].mean()))
        means = {key: round(float(np.mean(part)), 3) for key, part in shares.items()}
        yield {"table": name, **means}


def covered_rows(model: Any, data: Split, left_out: Array) -> Array:
    """Return which test targets are inside the intervals of a model without tasks."""
    kept = ~np.isin(data.task_train, left_out)
    model.fit(data.X_train[kept], data.y_train[kept], task_id=data.task_train[kept])
    mean, std = model.predict(data.X_test, task_id=data.task_test, return_std=True)
    return np.asarray(np.abs(mean - data.y_test) < 1.96 * std)


def center_changes(folder: Path, tables: list[str], splits: range, n_seeds: int) -> Any:
    """Yield changes of the test error in % where another seed draws the centers.

    "mean" is the largest change of the mean over the splits, "split" the largest one of
    a single split, in absolute value, both against the first seed.
    """
    for name in tables:
        table = read_table(name, folder)
        record: dict[str, Any] = {"table": name}
        for setting in SETTINGS:
            errors = np.empty((len(splits), n_seeds))
            for i, seed in enumerate(splits):
                data = make_split(table, setting, seed)
                for center_seed in range(n_seeds):
                    model = SmoothMTL(random_state=center_seed)
                    residual = predict_by_task(model, data) - data.y_test
                    errors[i, center_seed] = np.mean(np.square(residual))
            changes = 100 * np.abs(errors / errors[:, :1] - 1)
            means = errors.mean(axis=0)
            record[f"{setting}, mean"] = round(
                float(100 * np.abs(means / means[0] - 1).max()), 2
            )
            record[f"{setting}, split"] = round(float(changes.max()), 2)
        yield record


def label_losses(folder: Path, tables: list[str], splits: range) -> Any:
    """Yield log losses in units of `HierarchicalMTLClassifier("intercept")`."""
    for name in tables:
        table = read_table(name, folder)
        record: dict[str, Any] = {"table": name}
        for setting in SETTINGS:
            ratios = []
            for seed in splits:
                data = make_split(table, setting, seed)
                reference = log_loss_of(HierarchicalMTLClassifier("intercept"), data)
                ratios.append(log_loss_of(SmoothMTLClassifier(), data) / reference)
            record[setting] = round(float(np.mean(ratios)), 3)
            record[f"{setting}, worst split"] = round(float(np.max(ratios)), 3)
        yield record


def log_loss_of(model: Any, data: Split) -> float:
    """Return the mean log loss of labels 0 and 1 on the test rows."""
    model.fit(data.X_train, data.y_train, task_id=data.task_train)
    probability = model.predict_proba(data.X_test, task_id=data.task_test)
    return float(log_loss(data.y_test, probability, labels=[0, 1]))


def later_gains(folder: Path, tables: list[str], splits: range) -> Any:
    """Yield gains in %, a third of each task's rows held out: any rows, or the last.

    The models see the column of time only. The last rows are the same in all splits.
    """
    for name in tables:
        table = read_table(name, folder)
        times = table.columns[TIME_COLUMNS[name]].to_numpy(float)
        random_gains = []
        for seed in splits:
            order = np.random.default_rng(seed).permutation(len(times))
            random_gains.append(gain_of_held_out(table, times, order))
        last = gain_of_held_out(table, times, np.argsort(times, kind="stable"))
        yield {
            "table": name,
            "any rows": round(float(np.mean(random_gains)), 1),
            "last rows": round(last, 1),
        }


def gain_of_held_out(table: Table, times: Array, order: Array) -> float:
    """Return the gain in % where the last third of each task in `order` is held out."""
    is_test = np.zeros(len(order), dtype=bool)
    for code in np.unique(table.task):
        rows = order[table.task[order] == code]
        is_test[rows[len(rows) - len(rows) // 3 :]] = True
    errors = []
    for model in (HierarchicalMTL(), SmoothMTL()):
        columns = times[:, None]
        train = ~is_test
        model.fit(columns[train], table.y[train], task_id=table.task[train])
        predicted = model.predict(columns[is_test], task_id=table.task[is_test])
        errors.append(float(np.mean(np.square(predicted - table.y[is_test]))))
    return 100 * (1 - errors[1] / errors[0])


def predict_targets(data: Split) -> dict[str, Array]:
    """Return predictions of several targets by all methods."""
    ridge = RidgeCV(STRENGTHS, alpha_per_target=True)
    models = {
        "ridge per target": ridge,
        "HierarchicalMTL": HierarchicalMTL(),
        "forest of all targets": RandomForestRegressor(
            150, min_samples_leaf=3, max_features=0.5, random_state=0
        ),
        "SmoothIndependent": SmoothIndependent(),
        "targets": SmoothMTL(target_parts=("targets",)),
        "targets, components": SmoothMTL(target_parts=("targets", "components")),
        "SmoothMTL": SmoothMTL(),
    }
    return {
        name: np.asarray(model.fit(data.X_train, data.y_train).predict(data.X_test))
        for name, model in models.items()
    }


def target_gains(folder: Path, tables: list[str], splits: range) -> Any:
    """Yield gains over ridge in %, of squared errors in units of every target."""
    for name in tables:
        columns, Y = read_targets(name, folder)
        errors: dict[str, list[float]] = {}
        seconds = []
        for seed in splits:
            order = np.random.default_rng(seed).permutation(len(Y))
            train = order[: len(Y) // 2]
            test = order[len(Y) // 2 :]
            X_train, X_test = encode(columns.iloc[train], columns.iloc[test])
            none = np.zeros(0)
            data = Split(X_train, Y[train], none, X_test, Y[test], none)
            started = time.process_time()
            SmoothMTL().fit(data.X_train, data.y_train)
            seconds.append(time.process_time() - started)
            variance = np.maximum(data.y_train.var(axis=0), 1e-300)
            for method, predicted in predict_targets(data).items():
                squared = np.square(predicted - data.y_test).mean(axis=0) / variance
                errors.setdefault(method, []).append(float(squared.mean()))
        reference = np.array(errors.pop("ridge per target"))
        gains = {
            method: round(100 * float(np.mean(1 - np.array(values) / reference)), 1)
            for method, values in errors.items()
        }
        shape = {"rows": len(train), "columns": X_train.shape[1]}
        seconds_of_fit = round(float(np.mean(seconds)), 2)
        yield {"table": name, **shape, **gains, "cpu_seconds": seconds_of_fit}


def summary(records: list[dict[str, Any]], reference_method: str) -> str:
    """Return tables of mean gains, processor seconds and peak memory."""
    frame = pd.DataFrame(records)
    keys = ["table", "setting", "split"]
    reference = frame[frame["method"] == reference_method].set_index(keys)["mse"]
    frame["gain"] = 100 * (
        1 - frame["mse"] / frame.set_index(keys).index.map(reference)
    )
    parts = []
    for value, title, digits in (
        ("gain", f"Gain in squared error over {reference_method} in %", 1),
        ("cpu_seconds", "Processor seconds of fit and prediction", 2),
        ("peak_megabytes", "Peak memory in MB", 0),
    ):
        if value not in frame:
            continue
        wide = frame.pivot_table(
            index=["table", "setting"], columns="method", values=value, sort=False
        )
        parts.append(f"{title}\n{wide.round(digits).to_string()}")
    return "\n\n".join(parts) + "\n"


def choose_analysis(
    options: argparse.Namespace,
) -> tuple[Callable[[Path, list[str], range], Any] | None, list[str]]:
    """Return what to measure instead of gains (None: gains), and the tables."""
    analysis: Callable[[Path, list[str], range], Any] | None = None
    tables = list(HELD_OUT) if options.held_out else TABLES
    if options.targets:
        analysis = target_gains
        tables = list(HELD_OUT_TARGETS if options.held_out else TARGETS)
    elif options.labels:
        analysis = label_losses
        tables = list(LABELS)
    elif options.later:
        analysis = later_gains
        tables = list(TIME_COLUMNS)
    elif options.centers:
        analysis = partial(center_changes, n_seeds=options.centers)
    elif options.coverage:
        analysis = coverage
    return analysis, options.tables or tables


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the data sets")
    choices = [*TABLES, *HELD_OUT, *LABELS, *TARGETS, *HELD_OUT_TARGETS]
    parser.add_argument("--tables", nargs="+", choices=choices)
    parser.add_argument("--methods", nargs="+", default=installed_methods())
    parser.add_argument("--splits", type=int, default=4, help="splits of every table")
    parser.add_argument("--output", type=Path, help="file for a JSON line per fit")
    parser.add_argument("--reference-python", type=Path)
    parser.add_argument("--held-out", action="store_true", help="tables held out")
    parser.add_argument("--no-memory", action="store_true", help="skip peak memory")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--centers", type=int, metavar="N", help="seeds of centers")
    parser.add_argument("--later", action="store_true")
    parser.add_argument("--labels", action="store_true")
    parser.add_argument("--targets", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    splits = range(options.splits)
    analysis, tables = choose_analysis(options)
    if analysis is not None:
        for record in analysis(options.folder, tables, splits):
            sys.stdout.write(json.dumps(record) + "\n")
            sys.stdout.flush()
        return
    reference = REFERENCE
    if options.reference_python:
        reference = OTHER_REFERENCE
        python = options.reference_python.absolute()
        METHODS[OTHER_REFERENCE] = lambda data: predict_by_other_version(python, data)
    methods = list(dict.fromkeys([reference, *options.methods]))
    records = []
    if options.output and options.output.exists():
        lines = options.output.read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
    finished = {record_key(record) for record in records}
    new_records = run(
        options.folder,
        tables,
        methods,
        splits,
        finished,
        traces_memory=not options.no_memory,
    )
    for record in new_records:
        records.append(record)
        if options.output:
            with options.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
    sys.stdout.write(summary(records, reference))


if __name__ == "__main__":
    main()
