"""How often verdicts are right where tasks have 2 to 15 rows, some nearly constant.

Tables are simulated, so the error of a fitted model on new rows is known exactly. Ridge
regressions in closed form stand for the three strategies: a model per task, one model
for all tasks, and models per task that are shrunken towards a common one. The statistics
are those of `mtlrun compare`: folds, scales, gains and verdicts.

The output has a line per design, regime and shrinkage of the variances of tasks: false
verdicts, coverage of the true gain, and the widths of the intervals.

Run with: python benchmarks/small_tasks.py --seeds 200
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass

import numpy as np

from mtlrun.comparison import gain as gains
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.verdict import (
    HELPS,
    INDEPENDENT,
    MULTITASK,
    NO_DIFFERENCE,
    POOLED,
    WORSE,
    ComparedMethod,
    judge,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import NEW_TASK, fold_rows

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


def fit_pooled(X: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    """Return the coefficients of one ridge regression, the level first."""
    center = X.mean(axis=0)
    gram = (X - center).T @ (X - center) + strength * np.eye(X.shape[1])
    slopes = np.linalg.solve(gram, (X - center).T @ (y - y.mean()))
    return np.append(y.mean() - center @ slopes, slopes)


def fit_all(data: Dataset, rows: np.ndarray, strength: float) -> dict[str, np.ndarray]:
    """Return the coefficients of each strategy, (n_tasks, 1 + d)."""
    X = data.X[rows]
    y = data.y[rows]
    tasks = data.task_id[rows]
    pooled = fit_pooled(X, y, strength)
    alone = np.full((N_TASKS, 1 + N_FEATURES), np.nan)
    shared = np.tile(pooled, (N_TASKS, 1))
    design = np.column_stack([np.ones(len(X)), X])
    residual = y - design @ pooled
    for t in np.unique(tasks):
        mine = tasks == t
        alone[t] = fit_pooled(X[mine], y[mine], strength)
        A = design[mine]
        gram = A.T @ A + strength * np.eye(1 + N_FEATURES)
        shared[t] = pooled + np.linalg.solve(gram, A.T @ residual[mine])
    alone[np.isnan(alone[:, 0])] = np.nanmean(alone, axis=0)
    return {
        INDEPENDENT: alone,
        POOLED: np.tile(pooled, (N_TASKS, 1)),
        MULTITASK: shared,
    }


def predict(coef: np.ndarray, data: Dataset, rows: np.ndarray) -> np.ndarray:
    """Return predictions of rows."""
    tasks = data.task_id[rows]
    return coef[tasks, 0] + (data.X[rows] * coef[tasks, 1:]).sum(axis=1)


def select(
    data: Dataset, train: np.ndarray, scales: np.ndarray, protocol: Protocol, seed: int
) -> dict[str, tuple[float, float]]:
    """Return the best strength of each strategy and its inner loss."""
    inside = data.subset(train)
    losses: dict[str, list[float]] = {}
    for strength in STRENGTHS:
        total: Counter[str] = Counter()
        for fit_rows, held_out in fold_rows(inside, protocol.folds, seed):
            coefs = fit_all(inside, fit_rows, strength)
            for family, coef in coefs.items():
                error = (inside.y[held_out] - predict(coef, inside, held_out)) ** 2
                total[family] += float(
                    np.mean(error / scales[inside.task_id[held_out]])
                )
        for family, loss in total.items():
            losses.setdefault(family, []).append(loss)
    return {
        family: (STRENGTHS[int(np.argmin(values))], min(values))
        for family, values in losses.items()
    }


def run(design: str, regime: str, seed: int) -> dict[str, float | str]:
    """Return the verdict on one table, and the true smaller gain of its strategies."""
    rng = np.random.default_rng([2026, seed])
    truth = draw_truth(regime, rng)
    data = draw_table(truth, design, rng)
    protocol = Protocol.of(data, CompareOptions(seed=seed, metric="rmse"))
    evaluation = protocol.evaluation(data)
    scales = evaluation.scales
    entries = {f: ComparedMethod(f, f) for f in (MULTITASK, INDEPENDENT, POOLED)}
    risks: dict[str, list[float]] = {family: [] for family in entries}
    for split in range(protocol.n_splits):
        train, test = protocol.rows(data, split)
        chosen = select(data, train, scales, protocol, seed + split)
        tested = np.unique(data.task_id[test])
        for family, (strength, loss) in chosen.items():
            coef = fit_all(data, train, strength)[family]
            entry = entries[family]
            entry.inner[split] = loss
            entry.losses[split] = evaluation.losses(split, predict(coef, data, test))
            error = ((coef - truth.coef) ** 2).sum(axis=1) + truth.noise**2
            risks[family].append(float(np.mean((error / scales)[tested])))
    found = judge(list(entries.values()), evaluation)
    mean = {family: np.array(values) for family, values in risks.items()}
    # The smaller of the two gains, as in the verdict.
    baseline = min(mean[INDEPENDENT].mean(), mean[POOLED].mean())
    true_gain = 1 - mean[MULTITASK].mean() / baseline
    assert found.gain is not None
    return {
        "kind": found.decision,
        "true": float(true_gain),
        "low": found.gain.low,
        "high": found.gain.high,
    }


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
    options = parser.parse_args()
    for shrinkage in options.shrinkage:
        gains.VARIANCE_SHRINKAGE_ROWS = shrinkage
        for design in options.design:
            for regime in REGIMES:
                results = [run(design, regime, seed) for seed in range(options.seeds)]
                line = summarize(results)
                print(f"{design:5} {regime:24} {shrinkage:4g}  {line}", flush=True)


if __name__ == "__main__":
    main()
