"""How often the verdict of `mtlrun compare` is right, on simulated tables whose truth
is known.

Runs the statistics of the comparison (`mtlrun.comparison.verdict`) on its default
methods, or some of them, fitted and selected by inner cross-validation on the folds of
the comparison, without the files of the pipeline. Every seed draws coefficients and
rows. The error of each strategy on new rows is estimated from noiseless targets of many
rows, the same for all strategies. The true gain of a table is the smaller of the gains
over separate models and over one model for all tasks, of the strategies as they were
fitted on the folds of this table; the interval should cover it.

The verdict that `compare` gave before it asked for both alternatives is recorded, too:
the gain over the better of the independent and pooled methods by inner scores.

Run with: python benchmarks/compare_verdict.py --seeds 100 --output verdict.jsonl;
several regimes by --regime, methods by --methods A,B. An interrupted run resumes.
``--methods closed-form`` has three ridge regressions instead, one per strategy, each
with four strengths: per task, pooled, and shrunken towards the mean of the tasks. They
are solved in closed form, so that hundreds of tables take minutes, and their errors on
new rows are exact.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.comparison.candidates import Candidate, named_candidates
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
from mtlrun.engine.fit import Fitted, fit_job, score_candidates
from mtlrun.engine.job import Job, choice_of
from mtlrun.estimators.baselines import predict_scores

FEATURES, NOISE = 12, 1.0
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
    names = [f"task {t}" for t in range(len(weights))]
    return Dataset(
        id="own-simulated",
        title="simulated",
        X=X,
        y=y,
        task_id=ids,
        tasks=names,
        task_type="regression",
    )


def enter(entry: ComparedMethod, split: int, job: Job, data: Dataset) -> Fitted:
    """Search and fit a method on a split, and note its inner scores."""
    chosen: dict[str, Any] = {}
    if job.search is not None:
        folds = [score_candidates(fold, data) for fold in job.folds]
        selection = choice_of(job, folds)
        chosen = selection["chosen"]
        entry.inner[split] = selection["score"]
        place = selection["means"].index(selection["score"])
        entry.fold_losses[split] = selection["scores"][place]
    return fit_job(job, data, chosen)


def one(regime: str, seed: int, methods: list[str]) -> dict[str, Any]:
    """Return the verdict on one table, and the errors of the strategies on new rows."""
    n_tasks, rows, kind = REGIMES[regime]
    weights = truth(kind, n_tasks, seed)
    data = table(weights, rows, seed)
    protocol = Protocol.of(data, CompareOptions(seed=seed, metric="rmse"))
    evaluation = protocol.evaluation(data)
    started = time.process_time()
    tried = [
        candidate
        for candidate in named_candidates(
            [name for name in methods if name != CLOSED_FORM], data, protocol.train
        )
        if candidate.family in FAMILIES
    ]
    if methods == [CLOSED_FORM]:
        entries, risks = fit_ridges(data, protocol, evaluation, weights)
    else:
        entries, risks = fit_all(tried, data, protocol, evaluation, weights)
    verdict = judge(entries, evaluation)
    splits = range(protocol.n_splits)
    line: dict[str, Any] = {"regime": regime, "seed": seed, "methods": methods}
    for family in FAMILIES:
        members = [entry for entry in entries if entry.family == family]
        line[family] = risk_of(Strategy.of(members, splits), risks)
    gain = verdict.gain
    assert gain is not None
    line["kind"] = verdict.decision
    line["gain"] = [gain.value, gain.low, gain.high]
    line["before"] = before(entries, evaluation, protocol.n_repeats)
    line["seconds"] = time.process_time() - started
    return line


def fit_all(
    tried: list[Candidate],
    data: Dataset,
    protocol: Protocol,
    evaluation: Evaluation,
    weights: np.ndarray,
) -> tuple[list[ComparedMethod], dict[tuple[str, int], float]]:
    """Fit all methods on all splits; return them, and their errors on new rows."""
    n_tasks = len(weights)
    new_ids = np.repeat(np.arange(n_tasks), N_NEW_ROWS)
    new_X = np.random.default_rng(7).normal(size=(len(new_ids), FEATURES))
    expected = (new_X * weights[new_ids]).sum(axis=1)
    jobs = ComparisonJobs(protocol, data)
    entries = [ComparedMethod(c.label, c.family) for c in tried]
    risks: dict[tuple[str, int], float] = {}
    for split in range(protocol.n_splits):
        for candidate, entry in zip(tried, entries, strict=True):
            fitted = enter(entry, split, jobs.job(candidate, split), data)
            entry.losses[split] = evaluation.losses(split, fitted.scores)
            predicted = predict_scores(
                fitted.model, fitted.step.transform(new_X), new_ids
            )
            squared = (predicted - expected) ** 2 + NOISE**2
            scaled = squared / evaluation.scales[new_ids]
            risks[entry.label, split] = float(scaled.mean())
    return entries, risks


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
        ComparedMethod(e.label, e.family, inner=e.inner, losses=e.losses)
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
    options = parser.parse_args()
    methods = options.methods.split(",")
    warnings.simplefilter("ignore")
    lines = []
    if options.output.exists():
        lines = [json.loads(text) for text in options.output.read_text().splitlines()]
    lines = [line for line in lines if line["methods"] == methods]
    done = {(line["regime"], line["seed"]) for line in lines}
    with options.output.open("a") as file:
        for seed in range(options.first, options.seeds):
            for regime in options.regime or ["unrelated", "orthogonal"]:
                if (regime, seed) in done:
                    continue
                lines.append(one(regime, seed, methods))
                file.write(json.dumps(lines[-1]) + "\n")
                file.flush()
    print(summary(lines))


if __name__ == "__main__":
    main()
