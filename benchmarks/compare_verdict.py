"""How often the verdict of `mtlrun compare` is right, on simulated tables whose truth
is known.

Runs `mtlrun.compare` with its default methods, which race in each training part, or
with some of them. Every seed draws coefficients and rows. The error of each strategy on
new rows is estimated from noiseless targets of many rows, the same for all strategies:
in each split, the selected method is fitted again with the selected parameters. The
true gain of a table is the smaller of the gains over separate models and over one model
for all tasks, of the strategies as they were fitted on the folds of this table; the
interval should cover it.

The verdict that `compare` gave before it asked for both alternatives is recorded, too:
the gain over the better of the independent and pooled methods by inner scores.

Run with: python benchmarks/compare_verdict.py --seeds 100 --output verdict.jsonl;
several regimes by --regime, methods by --methods A,B. No table starts after --minutes.
An interrupted run resumes: each table is stored when it is finished, and the summary
covers all tables of the file. All regimes advance together, a seed of each in turn.
``--methods closed-form`` has three ridge regressions instead, one per strategy, each
with four strengths: per task, pooled, and shrunken towards the mean of the tasks. They
are solved in closed form, so that hundreds of tables take minutes, and their errors on
new rows are exact.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mtlrun
from mtlrun.comparison.candidates import named_candidates, with_levels
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.jobs import ComparisonJobs
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.verdict import (
    CANNOT_TELL,
    HELPS,
    INDEPENDENT,
    MULTITASK,
    NO_DIFFERENCE,
    POOLED,
    WORSE,
    Strategy,
    judge,
)
from mtlrun.data.dataset import Dataset
from mtlrun.engine.fit import fit_job, with_last_columns
from mtlrun.estimators.baselines import predict_scores

FEATURES, NOISE = 12, 1.0
METRIC = "rmse"
#: Families of the three strategies.
FAMILIES = (MULTITASK, INDEPENDENT, POOLED)
#: New rows of each task.
N_NEW_ROWS = 300
#: Tasks, rows of each, and how their coefficients are drawn.
REGIMES = {
    "unrelated": (20, 30, "unrelated"),
    "unrelated, many rows": (20, 200, "unrelated"),
    "orthogonal": (12, 30, "orthogonal"),
    "low rank, 14 tasks": (14, 30, "low rank"),
    "shared low rank": (60, 30, "low rank"),
    "equal": (20, 30, "equal"),
    "groups": (20, 30, "groups"),
    "similar": (20, 30, "similar"),
    "equal, small": (8, 25, "equal"),
    "similar, small": (8, 25, "similar"),
}
#: Name of the methods that are solved in closed form, and their strengths.
CLOSED_FORM = "closed-form"
STRENGTHS = (1.0, 5.0, 25.0, 125.0)
#: True gains that count as about 10% where power is reported.
POWER_RANGE = (0.08, 0.12)


def truth(kind: str, n_tasks: int, seed: int) -> np.ndarray:
    """Return coefficients of a regime, one row per task, with about the variance of
    the noise.
    """
    rng = np.random.default_rng([2026, seed])
    if kind == "low rank":
        made = rng.normal(size=(n_tasks, 2)) @ rng.normal(size=(2, FEATURES))
    elif kind == "equal":
        made = np.tile(rng.normal(size=FEATURES), (n_tasks, 1))
    elif (
        kind == "orthogonal"
    ):  # no direction and no singular value of the matrix is more than another
        made = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0][:n_tasks]
    elif kind == "similar":
        common = rng.normal(size=FEATURES)
        made = common + 0.7 * rng.normal(size=(n_tasks, FEATURES))
    elif kind == "groups":
        made = rng.normal(size=(4, FEATURES))[np.arange(n_tasks) % 4]
    else:
        made = rng.normal(size=(n_tasks, FEATURES))
    return made * NOISE / np.sqrt((made**2).sum(axis=1).mean())


def table(weights: np.ndarray, rows: int, seed: int) -> Dataset:
    """Return a data set drawn from a truth."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(len(weights)), rows)
    X = rng.normal(size=(len(ids), FEATURES))
    y = (X * weights[ids]).sum(axis=1) + NOISE * rng.normal(size=len(ids))
    names = [f"task {t:02d}" for t in range(len(weights))]
    return Dataset(
        id="own-simulated",
        title="simulated",
        X=X,
        y=y,
        task_id=ids,
        tasks=names,
        task_type="regression",
    )


def one(regime: str, seed: int, methods: list[str]) -> dict[str, Any]:
    """Return the verdict on one table, and the errors of the strategies on new rows."""
    n_tasks, rows, kind = REGIMES[regime]
    weights = truth(kind, n_tasks, seed)
    data = table(weights, rows, seed)
    started = time.process_time()
    if methods == [CLOSED_FORM]:
        protocol = Protocol.of(data, CompareOptions(seed=seed, metric=METRIC))
        evaluation = protocol.evaluation(data)
        entries, risks = fit_ridges(data, protocol, evaluation, weights)
    else:
        entries, evaluation, risks = compare_methods(data, methods, seed, weights)
    verdict = judge(entries, evaluation)
    splits = range(len(evaluation.rows))
    line: dict[str, Any] = {"regime": regime, "seed": seed, "methods": methods}
    for family in FAMILIES:
        members = [entry for entry in entries if entry.family == family]
        line[family] = risk_of(Strategy.of(members, splits), risks)
    gain = verdict.gain
    assert gain is not None
    line["kind"] = verdict.decision
    line["gain"] = [gain.value, gain.low, gain.high]
    line["before"] = before(entries, evaluation, evaluation.n_repeats)
    line["seconds"] = time.process_time() - started
    return line


def compare_methods(
    data: Dataset, methods: list[str], seed: int, weights: np.ndarray
) -> tuple[list[ComparedMethod], Evaluation, dict[tuple[str, int], float]]:
    """Compare methods; return their results, and errors of selected ones on new rows."""
    names = np.asarray(data.tasks)
    frame = pd.DataFrame(data.X).add_prefix("x")
    frame = frame.assign(task=names[data.task_id], y=data.y)
    named = [] if methods == ["default"] else methods
    result = mtlrun.compare(
        frame, target="y", task="task", methods=named, metric=METRIC, seed=seed
    )
    # The same table and tasks, in the order in which the comparison has read them.
    dataset = result.dataset
    order = [data.tasks.index(name) for name in dataset.tasks]
    entries = [e for e in result.board.entries if e.family in FAMILIES]
    risks = new_errors(dataset, entries, result.board.evaluation, seed, weights[order])
    return entries, result.board.evaluation, risks


def new_errors(
    dataset: Dataset,
    entries: list[ComparedMethod],
    evaluation: Evaluation,
    seed: int,
    weights: np.ndarray,
) -> dict[tuple[str, int], float]:
    """Fit the methods that are selected, and return their errors on new rows."""
    task_id = np.repeat(np.arange(len(weights)), N_NEW_ROWS)
    X = np.random.default_rng(7).normal(size=(len(task_id), FEATURES))
    expected = (X * weights[task_id]).sum(axis=1)
    new = replace(dataset, X=X, y=expected, task_id=task_id, source={})
    protocol = Protocol.of(dataset, CompareOptions(seed=seed, metric=METRIC))
    jobs = ComparisonJobs(protocol, dataset)
    labels = [entry.label for entry in entries]
    candidates = {}
    for candidate in named_candidates(labels, dataset, protocol.train):
        candidates[candidate.label] = with_levels(candidate, dataset)
    chosen = {entry.label: entry.chosen for entry in entries}
    splits = range(len(evaluation.rows))
    risks: dict[tuple[str, int], float] = {}
    for family in FAMILIES:
        members = [entry for entry in entries if entry.family == family]
        strategy = Strategy.of(members, splits)
        assert strategy is not None
        for split, label in strategy.selected.items():
            job = jobs.job(candidates[label], split)
            fitted = fit_job(job, dataset, chosen[label][split])
            rows = fitted.step.transform(with_last_columns(new, job.features).X)
            predicted = predict_scores(fitted.model, rows, task_id)
            squared = (predicted - expected) ** 2 + NOISE**2
            scaled = squared / evaluation.scales[task_id]
            risks[label, split] = float(scaled.mean())
    return risks


def ridge(family: str, X: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    """Return the coefficients (T, d) of a ridge regression of equally large tasks.

    Parameters
    ----------
    family : str
        Independent, pooled, or multi-task: ``alpha |w_t - mean|^2`` for each task.
    X : ndarray of shape (T, n, d)
    y : ndarray of shape (T, n)
    alpha : float
        Strength.
    """
    gram = np.einsum("tni,tnj->tij", X, X)
    moments = np.einsum("tni,tn->ti", X, y)
    eye = np.eye(X.shape[2])
    if family == POOLED:
        pooled = np.linalg.solve(gram.sum(axis=0) + alpha * eye, moments.sum(axis=0))
        return np.tile(pooled, (len(X), 1))
    inverse = np.linalg.inv(gram + alpha * eye)
    alone = np.einsum("tij,tj->ti", inverse, moments)
    if family == INDEPENDENT:
        return alone
    # The mean of w_t = alone_t + alpha inverse_t mean, with a little ridge of its own.
    system = eye * (1 + 1e-6) - alpha * inverse.mean(axis=0)
    mean = np.linalg.solve(system, alone.mean(axis=0))
    return alone + alpha * np.einsum("tij,j->ti", inverse, mean)


def fit_ridges(
    data: Dataset, protocol: Protocol, evaluation: Evaluation, weights: np.ndarray
) -> tuple[list[ComparedMethod], dict[tuple[str, int], float]]:
    """Fit the ridge regressions on all splits; return them, and their exact errors."""
    n_tasks = len(weights)
    entries = [ComparedMethod(family, family) for family in FAMILIES]
    risks: dict[tuple[str, int], float] = {}
    for split in range(protocol.n_splits):
        train, test = protocol.rows(data, split)
        inner = np.arange(len(train)) % protocol.n_inner_folds
        for entry in entries:
            losses = np.zeros((len(STRENGTHS), protocol.n_inner_folds))
            for fold in range(protocol.n_inner_folds):
                used = train[inner != fold]
                held = train[inner == fold]
                for place, alpha in enumerate(STRENGTHS):
                    coef = fit_rows(entry.family, data, used, n_tasks, alpha)
                    errors = data.y[held] - predicted_by(coef, data, held)
                    losses[place, fold] = np.sqrt(np.mean(errors**2))
            best = int(np.argmin(losses.mean(axis=1)))
            entry.inner[split] = float(losses[best].mean())
            entry.fold_losses[split] = losses[best].tolist()
            coef = fit_rows(entry.family, data, train, n_tasks, STRENGTHS[best])
            predicted = predicted_by(coef, data, test)
            entry.losses[split] = evaluation.losses(split, predicted)
            squared = ((coef - weights) ** 2).sum(axis=1) + NOISE**2
            risks[entry.label, split] = float(np.mean(squared / evaluation.scales))
    return entries, risks


def fit_rows(
    family: str, data: Dataset, rows: np.ndarray, n_tasks: int, alpha: float
) -> np.ndarray:
    """Fit ridge regression to some rows; short tasks are padded with zero rows."""
    task_id = np.asarray(data.task_id)[rows]
    order = np.argsort(task_id, kind="stable")
    sizes = np.bincount(task_id, minlength=n_tasks)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    X = np.zeros((n_tasks, sizes.max(), FEATURES))
    y = np.zeros((n_tasks, sizes.max()))
    X[task_id[order], place] = data.X[rows[order]]
    y[task_id[order], place] = data.y[rows[order]]
    return ridge(family, X, y, alpha)


def predicted_by(coef: np.ndarray, data: Dataset, rows: np.ndarray) -> np.ndarray:
    """Return the predictions of some rows, each by the coefficients of its task."""
    return (data.X[rows] * coef[np.asarray(data.task_id)[rows]]).sum(axis=1)


def risk_of(strategy: Strategy | None, risks: dict[tuple[str, int], float]) -> float:
    """Return the error of a strategy on new rows, a mean over the splits."""
    assert strategy is not None
    return float(np.mean([risks[name, s] for s, name in strategy.selected.items()]))


def before(
    entries: list[ComparedMethod], evaluation: Evaluation, repeats: int
) -> dict[str, Any]:
    """Return the verdict over the better alternative by inner scores, without pairs."""
    plain = [
        ComparedMethod(
            e.label, e.family, inner=e.inner, losses=e.losses, stopped=e.stopped
        )
        for e in entries
    ]
    splits = range(evaluation.n_folds * repeats)

    def strategy(*families: str) -> Strategy:
        selected = Strategy.of([e for e in plain if e.family in families], splits)
        assert selected is not None
        return selected

    multitask = strategy(MULTITASK)
    gain = evaluation.gain(
        multitask.losses, strategy(INDEPENDENT, POOLED).losses, repeats
    )
    assert gain is not None
    points = []
    for family in (INDEPENDENT, POOLED):
        other = evaluation.gain(multitask.losses, strategy(family).losses, repeats)
        assert other is not None
        points.append(other.value)
    decision = CANNOT_TELL
    if gain.high < 0:
        decision = WORSE
    elif gain.high < evaluation.smallest:
        decision = NO_DIFFERENCE
    elif gain.low > 0 and min(points) > 0:
        decision = HELPS
    return {"kind": decision, "gain": [gain.value, gain.low, gain.high]}


def true_gain(line: dict[str, Any]) -> float:
    """Return the gain over the better alternative on new rows."""
    return 1 - line[MULTITASK] / min(line[INDEPENDENT], line[POOLED])


def summary(lines: list[dict[str, Any]]) -> str:
    """Return the table of the regimes, in Markdown."""
    header = [
        "tasks",
        "tables",
        "mean true gain",
        "helps",
        "of these, true gain at most 0",
        "worse",
        "of these, true gain at least 0",
        "no practical difference",
        "cannot tell",
        "interval covers",
        "helps before",
        "of these, true gain at most 0",
    ]
    rows = [f"| {' | '.join(header)} |", "| --- |" + " --: |" * (len(header) - 1)]
    for regime, (n_tasks, n_rows, _) in REGIMES.items():
        mine = [line for line in lines if line["regime"] == regime]
        if not mine:
            continue
        gains = [true_gain(line) for line in mine]
        pairs = list(zip(mine, gains, strict=True))
        helps = [gain for line, gain in pairs if line["kind"] == HELPS]
        worse = [gain for line, gain in pairs if line["kind"] == WORSE]
        earlier = [gain for line, gain in pairs if line["before"]["kind"] == HELPS]
        covers = [line["gain"][1] <= gain <= line["gain"][2] for line, gain in pairs]
        kinds = [line["kind"] for line in mine]
        cells = [
            f"{regime}, {n_tasks} x {n_rows} rows",
            len(mine),
            f"{np.mean(gains):.1%}",
            len(helps),
            sum(gain <= 0 for gain in helps),
            len(worse),
            sum(gain >= 0 for gain in worse),
            kinds.count(NO_DIFFERENCE),
            kinds.count(CANNOT_TELL),
            sum(covers),
            len(earlier),
            sum(gain <= 0 for gain in earlier),
        ]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*rows, "", power(lines)])


def power(lines: list[dict[str, Any]]) -> str:
    """Say how often a true gain of about 10% gets the verdict "helps"."""
    low, high = POWER_RANGE
    mine = [line for line in lines if low <= true_gain(line) <= high]
    now = sum(line["kind"] == HELPS for line in mine)
    earlier = sum(line["before"]["kind"] == HELPS for line in mine)
    return (
        f"True gain of {low:.0%} to {high:.0%}: {len(mine)} tables; helps {now}, "
        f"before {earlier}."
    )


def main() -> None:
    """Run the seeds that the output lacks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed to begin with")
    parser.add_argument("--regime", action="append", choices=list(REGIMES))
    parser.add_argument("--methods", default="default", help="labels, with commas")
    parser.add_argument("--output", type=Path, default=Path("verdict.jsonl"))
    parser.add_argument("--minutes", type=float, help="no table starts after this time")
    options = parser.parse_args()
    methods = options.methods.split(",")
    warnings.simplefilter("ignore")
    lines = []
    if options.output.exists():
        lines = [json.loads(text) for text in options.output.read_text().splitlines()]
    lines = [line for line in lines if line["methods"] == methods]
    done = {(line["regime"], line["seed"]) for line in lines}
    deadline = math.inf
    if options.minutes is not None:
        deadline = time.monotonic() + 60 * options.minutes
    with options.output.open("a") as file:
        for seed in range(options.first, options.seeds):
            for regime in options.regime or ["unrelated", "orthogonal"]:
                if (regime, seed) in done or time.monotonic() > deadline:
                    continue
                lines.append(one(regime, seed, methods))
                file.write(json.dumps(lines[-1]) + "\n")
                file.flush()
    print(summary(lines))
    print(f"CPU seconds per table: {np.mean([line['seconds'] for line in lines]):.1f}")


if __name__ == "__main__":
    main()
