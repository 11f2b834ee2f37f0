"""How often verdicts are right where tasks have 2 to 15 rows, some nearly constant.

Tables are simulated, so the error of a fitted model on new rows is known exactly. Ridge
regressions in closed form stand for the three strategies: a model per task, one model
for all tasks, and models per task that are shrunken towards a common one. The
statistics are those of `mtlrun compare`: folds, scales, gains and verdicts.

The output has a line per design, regime and shrinkage of the variances of tasks: false
verdicts, coverage of the true gain, and the widths of the intervals.

Run with: python benchmarks/small_tasks.py --seeds 200
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from mtlrun.comparison.evaluation import ComparedMethod
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.verdict import (
    HELPS,
    INDEPENDENT,
    MULTITASK,
    NO_DIFFERENCE,
    POOLED,
    WORSE,
    judge,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import NEW_TASK, fold_rows
from mtlrun.engine import evaluation as averages

N_TASKS = 60
N_FEATURES = 3
MIN_ROWS = 2
MAX_ROWS = 15
STRENGTHS = (0.1, 1.0, 10.0, 100.0)
#: Standard deviation of coefficients between tasks, and share of nearly constant tasks.
REGIMES = {
    "alike": (0.0, 0.0),
    "alike, some constant": (0.0, 0.2),
    "different": (1.0, 0.0),
    "different, some constant": (1.0, 0.2),
    "unrelated": (None, 0.0),
    "unrelated, some constant": (None, 0.2),
}


@dataclass(frozen=True)
class Truth:
    """Coefficients with the level first, (n_tasks, 1 + d), and noise of each task."""

    coef: np.ndarray
    noise: np.ndarray


def draw_truth(regime: str, rng: np.random.Generator) -> Truth:
    """Return the coefficients and the noise of the tasks of a table."""
    spread, constant_share = REGIMES[regime]
    common = rng.normal(size=1 + N_FEATURES)
    own = rng.normal(size=(N_TASKS, 1 + N_FEATURES))
    coef = own if spread is None else common + spread * own
    noise = np.exp(0.5 * rng.normal(size=N_TASKS))
    is_constant = rng.random(N_TASKS) < constant_share
    coef[is_constant, 1:] *= 0.01
    noise[is_constant] = 0.01
    return Truth(coef, noise)


def draw_table(truth: Truth, design: str, rng: np.random.Generator) -> Dataset:
    """Return a table of small tasks."""
    sizes = rng.integers(MIN_ROWS, MAX_ROWS + 1, N_TASKS)
    task_id = np.repeat(np.arange(N_TASKS), sizes)
    X = rng.normal(size=(len(task_id), N_FEATURES))
    level = truth.coef[task_id, 0]
    slopes = (X * truth.coef[task_id, 1:]).sum(axis=1)
    y = level + slopes + truth.noise[task_id] * rng.normal(size=len(task_id))
    source = {NEW_TASK: task_id} if design == "tasks" else {}
    return Dataset(
        id="own-small",
        title="small tasks",
        X=X,
        y=y,
        task_id=task_id,
        tasks=[f"task {t}" for t in range(N_TASKS)],
        task_type="regression",
        source=source,
    )


class Sums:
    """What ridge regressions of a set of rows need, per task and over all tasks.

    Attributes
    ----------
    sizes : ndarray of shape (n_tasks,)
    gram : ndarray of shape (n_tasks, 1 + d, 1 + d)
        Sums of products of features, the first of which is 1.
    products : ndarray of shape (n_tasks, 1 + d)
        Sums of products of features and targets.
    """

    def __init__(self, data: Dataset, rows: np.ndarray) -> None:
        design = np.column_stack([np.ones(len(rows)), data.X[rows]])
        tasks = data.task_id[rows]
        self.sizes = np.bincount(tasks, minlength=N_TASKS)
        width = 1 + N_FEATURES
        self.gram = np.zeros((N_TASKS, width, width))
        np.add.at(self.gram, tasks, design[:, :, None] * design[:, None, :])
        self.products = np.zeros((N_TASKS, width))
        np.add.at(self.products, tasks, design * data.y[rows, None])


def fit_centered(gram: np.ndarray, products: np.ndarray, strength: float) -> np.ndarray:
    """Return the coefficients of ridge regressions with free levels, the level
    first.
    """
    penalty = strength * np.diag([0.0] + [1.0] * N_FEATURES)
    return np.linalg.solve(gram + penalty, products[..., None])[..., 0]


def fit_all(sums: Sums, strength: float) -> dict[str, np.ndarray]:
    """Return the coefficients of each strategy, (n_tasks, 1 + d)."""
    pooled = fit_centered(sums.gram.sum(axis=0), sums.products.sum(axis=0), strength)
    has_rows = sums.sizes > 0
    gram = sums.gram[has_rows]
    products = sums.products[has_rows]
    alone = np.empty((N_TASKS, 1 + N_FEATURES))
    alone[has_rows] = fit_centered(gram, products, strength)
    # Tasks without training rows are predicted with the mean of all models.
    alone[~has_rows] = alone[has_rows].mean(axis=0)
    shared = np.tile(pooled, (N_TASKS, 1))
    residual = products - gram @ pooled
    penalty = strength * np.eye(1 + N_FEATURES)
    shared[has_rows] += np.linalg.solve(gram + penalty, residual[..., None])[..., 0]
    return {
        INDEPENDENT: alone,
        POOLED: np.tile(pooled, (N_TASKS, 1)),
        MULTITASK: shared,
    }


def predict(coef: np.ndarray, data: Dataset, rows: np.ndarray) -> np.ndarray:
    """Return predictions of rows."""
    tasks = data.task_id[rows]
    return coef[tasks, 0] + (data.X[rows] * coef[tasks, 1:]).sum(axis=1)


def inner_errors(
    data: Dataset, train: np.ndarray, protocol: Protocol, seed: int
) -> dict[str, list[np.ndarray]]:
    """Return the mean squared inner error of each task, by strategy and strength.

    The mean over the folds is taken of errors in units of the scales, later.
    """
    inside = data.subset(train)
    errors: dict[str, list[np.ndarray]] = {}
    for fit_rows, held_out in fold_rows(inside, protocol.n_inner_folds, seed):
        sums = Sums(inside, fit_rows)
        tasks = inside.task_id[held_out]
        for place, strength in enumerate(STRENGTHS):
            for family, coef in fit_all(sums, strength).items():
                error = (inside.y[held_out] - predict(coef, inside, held_out)) ** 2
                by_task = np.bincount(tasks, error, N_TASKS) / len(held_out)
                folds = errors.setdefault(family, [])
                if place == len(folds):
                    folds.append(np.zeros(N_TASKS))
                folds[place] += by_task
    return errors


def run(
    design: str, regime: str, seed: int, shrinkages: list[float]
) -> list[dict[str, float | str]]:
    """Return the verdict on one table and the true gain, for each shrinkage."""
    rng = np.random.default_rng([2026, seed])
    truth = draw_truth(regime, rng)
    data = draw_table(truth, design, rng)
    protocol = Protocol.of(data, CompareOptions(seed=seed, metric="rmse"))
    evaluations = []
    for shrinkage in shrinkages:
        averages.VARIANCE_SHRINKAGE_ROWS = shrinkage
        evaluation = protocol.evaluation(data)
        assert evaluation.scales is not None
        evaluations.append(evaluation)
    entries = [
        {f: ComparedMethod(f, f) for f in (MULTITASK, INDEPENDENT, POOLED)}
        for _ in shrinkages
    ]
    risks = [{family: [] for family in entries[0]} for _ in shrinkages]
    for split in range(protocol.n_splits):
        train, test = protocol.rows(data, split)
        errors = inner_errors(data, train, protocol, seed + split)
        sums = Sums(data, train)
        fits = [fit_all(sums, strength) for strength in STRENGTHS]
        tested = np.unique(data.task_id[test])
        for place, evaluation in enumerate(evaluations):
            scales = evaluation.scales
            for family, by_strength in errors.items():
                losses = [float(np.nansum(e / scales)) for e in by_strength]
                chosen = int(np.argmin(losses))
                coef = fits[chosen][family]
                entry = entries[place][family]
                entry.inner[split] = losses[chosen]
                scores = predict(coef, data, test)
                entry.losses[split] = evaluation.losses(split, scores)
                error = ((coef - truth.coef) ** 2).sum(axis=1) + truth.noise**2
                risk = float(np.nanmean((error / scales)[tested]))
                risks[place][family].append(risk)
    results = []
    for place, evaluation in enumerate(evaluations):
        verdict = judge(list(entries[place].values()), evaluation)
        mean = {family: np.mean(values) for family, values in risks[place].items()}
        # The smaller of the two gains, as in the verdict.
        baseline = min(mean[INDEPENDENT], mean[POOLED])
        gain = verdict.gain
        assert gain is not None
        results.append(
            {
                "kind": verdict.decision,
                "true": float(1 - mean[MULTITASK] / baseline),
                "low": gain.low,
                "high": gain.high,
            }
        )
    return results


def summarize(results: list[dict[str, float | str]]) -> str:
    """Return false verdicts and coverage in percent, the true gain and the width."""
    n = len(results)
    false_helps = sum(r["kind"] == HELPS and r["true"] <= 0 for r in results)
    false_worse = sum(r["kind"] == WORSE and r["true"] >= 0 for r in results)
    missed = sum(r["kind"] == NO_DIFFERENCE and r["true"] > 0.01 for r in results)
    covered = sum(r["low"] <= r["true"] <= r["high"] for r in results)
    helps = sum(r["kind"] == HELPS for r in results)
    width = float(np.median([r["high"] - r["low"] for r in results]))
    true_gain = float(np.mean([r["true"] for r in results]))
    return (
        f"helps {helps / n:5.0%}  false helps {false_helps / n:5.1%}  "
        f"false worse {false_worse / n:5.1%}  missed {missed / n:5.1%}  "
        f"coverage {covered / n:6.1%}  true gain {true_gain:6.1%}  width {width:5.2f}"
    )


def main() -> None:
    """Print a line for each design, regime and shrinkage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--shrinkage", type=float, nargs="*", default=[10.0])
    parser.add_argument("--design", nargs="*", default=["rows", "tasks"])
    parser.add_argument("--regime", nargs="*", default=list(REGIMES))
    options = parser.parse_args()
    for design in options.design:
        for regime in options.regime:
            runs = [
                run(design, regime, seed, options.shrinkage)
                for seed in range(options.seeds)
            ]
            for shrinkage, results in zip(
                options.shrinkage, zip(*runs, strict=True), strict=True
            ):
                line = summarize(list(results))
                print(f"{design:5} {regime:24} {shrinkage:4g}  {line}", flush=True)


if __name__ == "__main__":
    main()
