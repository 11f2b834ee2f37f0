"""Folders with a model of each type, a run and a comparison (`test_stored.py`)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from mtlrun.catalog.registry import METHODS, build
from mtlrun.cli.app import app
from mtlrun.estimators.baselines import PerTask
from mtlrun.features import FourierFeatures
from mtlrun.model.files import Model, save_model

N_ROWS, N_FEATURES, N_TASKS = 40, 4, 4
NAMES = ["v", "w", "x", "z"]
TASKS = ["a", "b", "c", "d"]
EXPERIMENT = """\
schema: 1
id: mine/rows
title: Rows
kind: evaluate
datasets:
  - {id: simulated-rmtl, label: low rank, n: 40, d: 4, m: 3}
split: {kind: random, train: 0.5, trials: 2}
metrics: [auc]
keep: [predictions]
selection: {folds: 2}
methods:
  - {label: ridge, estimator: IndependentRidge, params: {alpha: 1.0}}
  - label: searched
    estimator: IndependentRidge
    grid: {alpha: [0.1, 1.0]}
"""
#: Options of the comparisons
COMPARED = ("--methods", "PooledRidge", "--splits", 2, "--repeats", 1, "--folds", 2)


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, labels of all tasks, and the task of each row."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    noise = 0.3 * rng.standard_normal((N_ROWS, N_TASKS))
    Y = X @ rng.standard_normal((N_FEATURES, N_TASKS)) + noise
    return X, np.where(Y > 0, 1.0, -1.0), np.repeat(np.arange(N_TASKS), N_ROWS // 4)


def _facts(design: str, task_type: str) -> dict[str, Any]:
    described = {
        "n_features": N_FEATURES,
        "names": NAMES,
        "strings": False,
        "task_column": "task" if design == "ragged" else None,
    }
    return {
        "task_type": task_type,
        "design": design,
        "tasks": TASKS,
        "input": described,
        "estimator": {"name": "R"},
        "dataset": {"id": "d", "options": {}},
    }


def _params(name: str) -> dict[str, Any]:
    if name.startswith("Divide"):
        base = {"estimator": "RobustMTL", "params": {"lam": 0.8}}
        return {"base": base, "n_blocks": 2}
    return {"lam": 0.8} if name.startswith("Robust") else {}


def estimators() -> Iterator[tuple[str, Any, Any]]:
    """Yield a name, an unfitted estimator and a feature step for each type of model
    that can be saved.
    """
    for name, info in METHODS.items():
        if info.extra == "nn":
            try:
                import torch  # noqa: F401
            except ImportError:
                continue
        yield name, build({"estimator": name, "params": _params(name)}), None
    for inner in (
        DecisionTreeClassifier(max_depth=3),
        GaussianNB(),
        GradientBoostingRegressor(n_estimators=3),
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2),
        KNeighborsRegressor(3, algorithm="brute"),  # Trees must be trusted by name.
        LogisticRegression(),
        RandomForestClassifier(3, max_depth=3),
        Ridge(),
        SVC(),
    ):
        yield type(inner).__name__, PerTask(inner), None
    yield "fourier", build("IndependentRidge"), FourierFeatures(6)
    yield "scaled", build("IndependentRidge"), StandardScaler()


def write_models(root: Path, step: int) -> Iterator[tuple[Path, Path]]:
    """Write a model of every ``step``-th type; yield its folder and new rows."""
    X, Y, task_id = rows()
    table = pd.DataFrame(X[:6], columns=NAMES)
    table.to_csv(root / "shared.csv", index=False)
    table.assign(task=TASKS[0]).to_csv(root / "ragged.csv", index=False)
    y = Y[np.arange(N_ROWS), task_id]
    for name, estimator, features in islice(estimators(), 0, None, step):
        for design in ("shared", "ragged"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Z = X if features is None else features.fit(X).transform(X)
                if design == "shared":
                    model = estimator.fit(Z, Y)
                else:
                    model = estimator.fit(Z, y, task_id=task_id)
                task_type = "regression"
                if hasattr(model, "classes_") or hasattr(model, "predict_proba"):
                    task_type = "binary"
                folder = root / f"{name}-{design}"
                save_model(folder, Model(model, features, _facts(design, task_type)))
            yield folder, root / f"{design}.csv"


def _mixed_table(labels: bool) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    n = 64
    frame = pd.DataFrame(
        {
            "u": rng.standard_normal(n),
            "gaps": np.where(rng.random(n) < 0.1, np.nan, rng.standard_normal(n)),
            "town": rng.choice(["north", "south", "Ä b"], n),
            "task": [TASKS[k % 4] for k in range(n)],
        }
    )
    y = frame.u + (frame.town == "north") + 0.3 * rng.standard_normal(n)
    frame["y"] = np.where(y > 0.3, "yes", "no") if labels else y
    return frame


def run_command(*words: object) -> tuple[int, str]:
    """Run a command in this process; return its exit code and output."""
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="mtlrun")
    return result.exit_code, result.output


def write_comparisons(root: Path) -> Iterator[tuple[Path, Path]]:
    """Write comparisons with categories and missing values; yield the folder of each
    and its table.
    """
    for kind in ("numbers", "labels"):
        table = root / f"{kind}.csv"
        _mixed_table(kind == "labels").to_csv(table, index=False)
        code, text = run_command(
            *("compare", table, "--target", "y", "--task", "task", "-o", root / "out"),
            *COMPARED,
        )
        assert code == 0, text
        yield root / "out" / "compare" / kind, table


def write_run(root: Path) -> Path:
    """Compute a small experiment and return the folder of its run."""
    (root / "e.yaml").write_text(EXPERIMENT)
    words = ("reproduce", root / "e.yaml", "--profile", "full", "-o", root / "runs")
    code, text = run_command(*words, "--quiet")
    assert code == 0, text
    run_command("verify", root / "runs" / "mine" / "rows" / "full", "--all")
    return root / "runs" / "mine" / "rows" / "full"


def write_data(folder: Path) -> None:
    """Write a data directory with a card and its file."""
    (folder / "cards").mkdir(parents=True)
    (folder / "mine").mkdir()
    _mixed_table(labels=False)[["u", "y"]].to_csv(
        folder / "mine" / "a.csv", index=False
    )
    (folder / "cards" / "mine.yaml").write_text(
        "id: mine\ntitle: Mine\ntask_type: regression\ndesign: shared\n"
        "reader: {name: csv, options: {target: y}}\nfolder: mine\n"
        "files: [{name: a.csv, sha256: unknown}]\nlicence: none\ncitation: none\n"
    )
