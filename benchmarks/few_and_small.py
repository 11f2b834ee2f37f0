"""Mixed models where tasks have few rows, or tasks are few.

Each section is one function, which prints a table:

labels-simulated
    Pairs of rows of 1,000 tasks, with the standard deviation of the level as drawn and
    as estimated.
labels-held-out
    Simulated and public tables of labels. The last row of each task with two rows or
    more is left out, or a fifth of the tasks (new tasks).

Labels are predicted by `HierarchicalMTLClassifier` and `SmoothMTLClassifier`, by both
with Laplace's approximation only, by the exact maximum likelihood of a random intercept
(a dense sum over 401 nodes), by one logistic regression for all rows, and by one for
each task.

Run with: python benchmarks/few_and_small.py [--section NAME] [--data DIR] [--seeds N];
DIR holds public tables as NAME.csv.gz. CPU seconds are those of the fit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.metrics import log_loss, roc_auc_score

from mtlrun.estimators import (
    HierarchicalMTLClassifier,
    IndependentLogistic,
    SmoothMTLClassifier,
    hierarchical_labels,
)
from mtlrun.solvers.hierarchical import smooth_levels
from mtlrun.solvers.hierarchical.logistic import fit_logistic

#: Nodes of the exact integral over the level.
NODES = np.linspace(-8.0, 8.0, 401)
LOG_PRIOR = -0.5 * NODES**2 - np.log(np.exp(-0.5 * NODES**2).sum())


@dataclass(frozen=True)
class Table:
    """Labels of tasks.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n, p)
    y : ndarray of shape (n,)
        0 or 1.
    task : ndarray of int, shape (n,)
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    task: np.ndarray

    def take(self, rows: np.ndarray) -> Table:
        """Return some of the rows."""
        return Table(self.name, self.X[rows], self.y[rows], self.task[rows])


class ExactIntercept:
    """Maximum likelihood of a logistic model with a random intercept per task."""

    def fit(self, table: Table) -> ExactIntercept:
        """Estimate mean, slopes and standard deviation from two starts."""
        order = np.argsort(table.task, kind="stable")
        X = table.X[order]
        sign = np.where(table.y[order] > 0, 1.0, -1.0)[:, None]
        self.tasks, starts, position = np.unique(
            table.task[order], return_index=True, return_inverse=True
        )

        def joint(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            odds = (x[0] + X @ x[2:])[:, None] + np.exp(x[1]) * NODES
            by_task = np.add.reduceat(log_expit(sign * odds), starts, axis=0)
            return odds, by_task + LOG_PRIOR

        def cost(x: np.ndarray) -> tuple[float, np.ndarray]:
            odds, terms = joint(x)
            top = terms.max(axis=1, keepdims=True)
            density = np.exp(terms - top)
            total = density.sum(axis=1, keepdims=True)
            share = (density / total)[position]
            residual = sign * expit(-sign * odds) * share
            by_row = residual.sum(axis=1)
            of_std = float((residual * NODES).sum()) * np.exp(x[1])
            gradient = np.concatenate([[by_row.sum(), of_std], by_row @ X])
            return -float((top + np.log(total)).sum()), -gradient

        fits = []
        for std in (1.0, 4.0):
            x = np.concatenate([[0.0, np.log(std)], np.zeros(X.shape[1])])
            fits.append(minimize(cost, x, jac=True, method="BFGS"))
        self.x = min(fits, key=lambda fit: fit.fun).x
        terms = joint(self.x)[1]
        density = np.exp(terms - terms.max(axis=1, keepdims=True))
        self.share = density / density.sum(axis=1, keepdims=True)
        self.std = float(np.exp(self.x[1]))
        return self

    def predict(self, table: Table) -> np.ndarray:
        """Return probabilities, averaged over the posterior of the level."""
        share = np.tile(np.exp(LOG_PRIOR), (len(table.y), 1))
        position = np.searchsorted(self.tasks, table.task)
        position = np.minimum(position, len(self.tasks) - 1)
        is_known = self.tasks[position] == table.task
        share[is_known] = self.share[position[is_known]]
        odds = self.x[0] + table.X @ self.x[2:]
        at_nodes = expit(odds[:, None] + self.std * NODES)
        return np.asarray((at_nodes * share).sum(axis=1))


@dataclass(frozen=True)
class Score:
    """A method on a table: estimated std of the level, losses, and CPU seconds."""

    std: float
    log_loss: float
    auc: float
    seconds: float


def score_exact(train: Table, test: Table) -> Score:
    """Score the exact maximum likelihood."""
    start = time.process_time()
    model = ExactIntercept().fit(train)
    seconds = time.process_time() - start
    return _score(model.std, test, model.predict(test), seconds)


def score_model(model: Any, train: Table, test: Table) -> Score:
    """Score an estimator; a task of its own for all rows if it is pooled."""
    start = time.process_time()
    model.fit(train.X, train.y, task_id=train.task)
    seconds = time.process_time() - start
    std = np.nan
    if isinstance(model, HierarchicalMTLClassifier):
        std = float(np.sqrt(model.covariance_[0, 0]))
    elif isinstance(model, SmoothMTLClassifier):
        std = float(np.sqrt(model.variances_["task level"]))
    p = model.predict_proba(test.X, task_id=test.task)[:, 1]
    return _score(std, test, p, seconds)


def _score(std: float, test: Table, p: np.ndarray, seconds: float) -> Score:
    auc = np.nan
    if len(np.unique(test.y)) == 2:
        auc = float(roc_auc_score(test.y, p))
    return Score(std, float(log_loss(test.y, p, labels=[0, 1])), auc, seconds)


def score_laplace(model: Any, train: Table, test: Table) -> Score:
    """Score a model with Laplace's approximation only."""
    with (
        patch.object(hierarchical_labels, "fit_labels", fit_logistic),
        patch.object(smooth_levels, "_level_start", lambda *_: None),
    ):
        return score_model(model, train, test)


def score_pooled(train: Table, test: Table) -> Score:
    """Score one logistic regression for all rows."""
    one_train = Table(train.name, train.X, train.y, np.zeros_like(train.task))
    one_test = Table(test.name, test.X, test.y, np.zeros_like(test.task))
    score = score_model(HierarchicalMTLClassifier(), one_train, one_test)
    return Score(np.nan, score.log_loss, score.auc, score.seconds)


LABEL_METHODS: dict[str, Callable[[Table, Table], Score]] = {
    "exact intercept": score_exact,
    "hierarchical": lambda train, test: score_model(
        HierarchicalMTLClassifier(unseen="mean"), train, test
    ),
    "hierarchical, intercept": lambda train, test: score_model(
        HierarchicalMTLClassifier("intercept", unseen="mean"), train, test
    ),
    "hierarchical, Laplace": lambda train, test: score_laplace(
        HierarchicalMTLClassifier(unseen="mean"), train, test
    ),
    "smooth": lambda train, test: score_model(
        SmoothMTLClassifier(unseen="mean"), train, test
    ),
    "smooth, Laplace": lambda train, test: score_laplace(
        SmoothMTLClassifier(unseen="mean"), train, test
    ),
    "pooled logistic": score_pooled,
    "independent logistic": lambda train, test: score_model(
        IndependentLogistic(unseen="mean"), train, test
    ),
}


# ---------------------------------------------------------------------- tables


def simulate(
    seed: int, n_tasks: int, rows: tuple[int, int], std: float, mean: float
) -> Table:
    """Draw labels of tasks with `rows` (from, to) rows each; one slope is 1."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(rows[0], rows[1] + 1, size=n_tasks)
    task = np.repeat(np.arange(n_tasks), sizes)
    X = rng.normal(size=(len(task), 1))
    odds = mean + std * rng.normal(size=n_tasks)[task] + X[:, 0]
    y = (rng.random(len(task)) < expit(odds)).astype(int)
    return Table(f"sd {std:g}", X, y, task)


def read_public(folder: Path) -> list[Table]:
    """Return the public tables of labels that the folder holds."""
    tables = []
    path = folder / "toenail.csv.gz"
    if path.is_file():
        frame = pd.read_csv(path)
        treated = (frame["treatment"] == "terbinafine").to_numpy(float)
        time_ = frame["time"].to_numpy(float)
        X = np.column_stack([treated, time_])
        y = (frame["outcome"] == "moderate or severe").to_numpy(int)
        tables.append(Table("toenail", X, y, frame["patientID"].to_numpy()))
    path = folder / "Contraception.csv.gz"
    if path.is_file():
        frame = pd.read_csv(path)
        age = frame["age"].to_numpy(float)
        columns = [age, age**2, (frame["urban"] == "Y").to_numpy(float)]
        for level in ("1", "2", "3+"):
            columns.append((frame["livch"].astype(str) == level).to_numpy(float))
        y = (frame["use"] == "Y").to_numpy(int)
        task = frame["district"].to_numpy()
        table = Table("Contraception", np.column_stack(columns), y, task)
        tables.append(table)
        # The same with at most four rows per district and urban or rural part.
        part = task * 2 + columns[2].astype(int)
        rank = pd.Series(part).groupby(part).cumcount().to_numpy()
        few = Table("Contraception, 4 rows", table.X, y, part)
        tables.append(few.take(rank < 4))
    path = folder / "Socatt.csv.gz"
    if path.is_file():
        frame = pd.read_csv(path)
        columns = [
            (frame["year"] - 1983).to_numpy(float),
            frame["age"].to_numpy(float),
            (frame["gender"] == "male").to_numpy(float),
            (frame["religion"] == "Roman Catholic").to_numpy(float),
        ]
        y = (frame["numpos"] >= 4).to_numpy(int)
        task = pd.factorize(frame["respond"])[0]
        tables.append(Table("Socatt", np.column_stack(columns), y, task))
    return tables


def hold_out(table: Table, design: str, seed: int) -> tuple[Table, Table]:
    """Return training and test rows: one row per task, or a fifth of the tasks."""
    rng = np.random.default_rng(seed)
    if design == "new tasks":
        tasks = np.unique(table.task)
        chosen = rng.choice(tasks, len(tasks) // 5, replace=False)
        is_test = np.isin(table.task, chosen)
    else:
        groups = pd.Series(rng.random(len(table.y))).groupby(table.task)
        rank = groups.rank(method="first").to_numpy()
        sizes = groups.transform("size").to_numpy()
        is_test = (rank == 1) & (sizes > 1)
    return table.take(~is_test), table.take(is_test)


# ---------------------------------------------------------------------- sections


def labels_simulated(folder: Path | None, n_seeds: int) -> None:
    """Print estimates of the standard deviation from pairs of rows."""
    print("| true sd | seed | method | estimate | of exact | CPU s |")
    print("|---|---|---|--:|--:|--:|")
    for std in (1.0, 2.0, 3.0, 4.0, 6.0):
        for seed in range(n_seeds):
            table = simulate(seed, 1000, (2, 2), std, mean=-0.75 * std)
            exact = score_exact(table, table).std
            print(f"| {std:g} | {seed} | exact intercept | {exact:.2f} | | |")
            for name in list(LABEL_METHODS)[1:6]:
                score = LABEL_METHODS[name](table, table)
                ratio = score.std / exact
                print(
                    f"| {std:g} | {seed} | {name} | {score.std:.2f} | {ratio:.2f} | "
                    f"{score.seconds:.2f} |",
                    flush=True,
                )


def labels_held_out(folder: Path | None, n_seeds: int) -> None:
    """Print losses of held-out labels, means over the seeds."""
    print("| table | test rows | method | sd of level | log loss | AUC | CPU s |")
    print("|---|---|---|--:|--:|--:|--:|")
    tables = [
        simulate(0, 1600, (1, 3), 2.7, mean=-0.4),
        simulate(0, 1600, (1, 3), 7.0, mean=-7.0),
    ]
    if folder is not None:
        tables += read_public(folder)
    for table in tables:
        for design in ("known tasks", "new tasks"):
            splits = [hold_out(table, design, seed) for seed in range(n_seeds)]
            for name, method in LABEL_METHODS.items():
                scores = [method(train, test) for train, test in splits]
                std = np.mean([score.std for score in scores])
                loss = np.mean([score.log_loss for score in scores])
                auc = np.mean([score.auc for score in scores])
                seconds = np.mean([score.seconds for score in scores])
                print(
                    f"| {table.name} | {design} | {name} | {std:.2f} | {loss:.4f} | "
                    f"{auc:.4f} | {seconds:.2f} |",
                    flush=True,
                )


SECTIONS: dict[str, Callable[[Path | None, int], None]] = {
    "labels-simulated": labels_simulated,
    "labels-held-out": labels_held_out,
}


def main() -> None:
    """Run one section or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--section", choices=SECTIONS, help="default: all sections")
    parser.add_argument("--data", type=Path, help="folder with NAME.csv.gz")
    parser.add_argument("--seeds", type=int, default=2, help="default: 2")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, section in SECTIONS.items():
        if arguments.section in (None, name):
            print(f"\n## {name}\n", flush=True)
            section(arguments.data, arguments.seeds)


if __name__ == "__main__":
    main()
