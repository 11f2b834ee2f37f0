"""How often the verdict of `mtlrun compare` is right, on simulated tables whose truth
is known.

Each regime has some designs, and each table draws coefficients and rows anew. The bounds
and the verdict are those of `mtlrun.comparison`; only tables and fits are made here.

``--methods closed-form`` has three ridge regressions, one per strategy: per task, pooled,
and per task with shrinkage towards the mean of the tasks. Their strengths are selected in
each training part, and their errors on new rows are exact. The inner folds are the other
outer folds: the model without folds j and k tests fold k for outer fold j, and fold j
for outer fold k.

``--methods default`` runs `mtlrun.compare` with its default methods, or others by name.
The error of a strategy on new rows is then estimated from noiseless targets of many
rows, the same for all strategies: in each split, the selected method is fitted again
with the selected parameters.

The true gain of a table is the smallest of the gains over each alternative, of the
strategies as they were fitted on the folds of this table. A verdict is wrong if it is
"helps" and the true gain is at most 0, "worse" and the true gain is at least 0, or
"safe" and the true gain is below minus the margin. Tables within the margin of the
boundary (2% of the error, .01 of the AUC) are counted on their own, since far from it
errors hardly occur.

The verdict of an earlier version stands beside it: two repeats, two-sided 95% intervals
of both gains, and standard errors times 1.5.

Run with: python benchmarks/compare_verdict.py --tables 1500 --output verdict.jsonl;
several regimes by --regime. No table starts after --minutes. An interrupted run resumes:
each table is stored when it is finished, and the summary covers all tables of the file.
All regimes advance together, a table of each in turn.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mtlrun
from mtlrun.comparison.candidates import named_candidates, with_levels
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.schedule import ComparisonJobs
from mtlrun.comparison.verdict import (
    CANNOT_TELL,
    HELPS,
    INDEPENDENT,
    MULTITASK,
    NO_DIFFERENCE,
    POOLED,
    SAFE,
    WORSE,
    Strategy,
    judge,
)
from mtlrun.data.dataset import Dataset
from mtlrun.engine.fit import fit_job, with_last_columns
from mtlrun.estimators.baselines import predict_scores

#: Families of the three strategies.
FAMILIES = (MULTITASK, INDEPENDENT, POOLED)
#: New rows of each task.
N_NEW_ROWS = 300
#: Name of the methods that are solved in closed form, and their strengths.
CLOSED_FORM = "closed-form"
STRENGTHS = (0.3, 2.0, 10.0, 50.0, 250.0)
#: Factor of standard errors and number of repeats of the earlier version.
EARLIER_FACTOR = 1.5
EARLIER_REPEATS = 2
#: First number of all seeds.
SEED = 75


@dataclass(frozen=True)
class Design:
    """How tables are drawn.

    Attributes
    ----------
    n_tasks, n_rows, n_features : int
        Number of tasks, of rows of each task, and of features. The first feature of
        numbers is constant.
    spread : float or None
        Standard deviation of the coefficients of tasks around their common mean, whose
        coefficients have standard deviation 1. None if there is no common mean.
    shared : bool
        Whether tasks share their rows.
    signal : float
        Variance of the signal; the noise has variance 1.
    heavy_tails : bool
        Whether features and noise have t distributions, with 5 and 3 degrees of
        freedom.
    noise_spread, size_spread : float
        Standard deviations of the logarithms of noise and rows of the tasks.
    correlation : float
        Correlation of the noise of two targets of the same row.
    has_labels : bool
        Whether targets are the signs of numbers.
    """

    n_tasks: int
    n_rows: int
    n_features: int
    spread: float | None
    shared: bool = False
    signal: float = 1.0
    heavy_tails: bool = False
    noise_spread: float = 0.0
    size_spread: float = 0.0
    correlation: float = 0.5
    has_labels: bool = False


SPREADS = (0.0, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, None)
#: Spreads for which the best alternative is about as good as multi-task learning.
SPREADS_AT_BOUNDARY = (0.0, 0.05, 1.2, 1.7, 2.5, None)


def designs(
    *sizes: tuple[int, int, int],
    spreads: Sequence[float | None] = SPREADS,
    **options: Any,
) -> list[Design]:
    """Return a design for each size (tasks, rows, features) and each spread."""
    pairs = itertools.product(sizes, spreads)
    return [Design(*size, spread, **options) for size, spread in pairs]


#: Regime -> designs, which its tables take in turn.
REGIMES = {
    "ordinary": designs((20, 30, 6), (10, 16, 4), (8, 50, 6), (40, 10, 4)),
    "near the boundary": designs((15, 20, 5), (30, 12, 4), spreads=SPREADS_AT_BOUNDARY),
    "heavy tails": designs((16, 24, 5), heavy_tails=True),
    "unequal noise": designs((18, 20, 5), noise_spread=0.7),
    "unequal sizes": designs((18, 20, 5), size_spread=0.8),
    "few tasks": designs((3, 24, 5), (4, 32, 6)),
    "many features": [
        *designs((25, 14, 9), signal=0.5),
        *designs((12, 40, 15)),
    ],
    "shared rows": [
        *designs((6, 90, 8), (14, 35, 6), shared=True),
        *designs((3, 110, 22), shared=True, correlation=0.7),
        *designs((20, 40, 8), shared=True, correlation=0.1),
    ],
    "labels": [
        *designs((10, 40, 5), has_labels=True, signal=2.0),
        *designs((6, 100, 8), has_labels=True, signal=2.0, shared=True),
    ],
}
#: Regimes that `mtlrun.compare` is run on: numbers, and rows that belong to tasks.
DEFAULT_REGIMES = tuple(
    name
    for name, members in REGIMES.items()
    if not members[0].shared and not members[0].has_labels
)


@dataclass(frozen=True)
class Truth:
    """Coefficients of the tasks and standard deviations of their noise.

    Attributes
    ----------
    coef : ndarray of shape (n_tasks, n_features)
    noise_std : ndarray of shape (n_tasks,)
    """

    coef: np.ndarray
    noise_std: np.ndarray

    @classmethod
    def draw(cls, design: Design, rng: np.random.Generator) -> Truth:
        """Draw the coefficients and the noise of a table."""
        coef = rng.normal(size=(design.n_tasks, design.n_features))
        if design.spread is not None:
            coef = rng.normal(size=design.n_features) + design.spread * coef
        coef *= np.sqrt(design.signal / (coef**2).sum(axis=1).mean())
        noise_std = np.exp(design.noise_spread * rng.normal(size=design.n_tasks))
        return cls(coef, noise_std / np.sqrt((noise_std**2).mean()))

    def risk(self, coef: np.ndarray, evaluation: Evaluation, design: Design) -> float:
        """Return the mean loss of some coefficients on new rows (the AUC for labels).

        Features are uncorrelated with mean 0 and variance 1, apart from the constant
        one. For labels, the score and the number behind the label are normal, and the
        AUC follows from their correlation r: 1/2 + 2/pi asin(r / sqrt(2)).
        """
        if design.has_labels:
            number_std = np.sqrt((self.coef**2).sum(axis=1) + self.noise_std**2)
            norms = np.sqrt((coef**2).sum(axis=1)) * number_std
            correlation = (coef * self.coef).sum(axis=1) / np.maximum(norms, 1e-300)
            auc = 0.5 + 2 / np.pi * np.arcsin(correlation / np.sqrt(2))
            return float(auc.mean())
        squared = self.noise_std**2 + ((coef - self.coef) ** 2).sum(axis=1)
        return float(np.mean(squared / evaluation.scales))


def draw_features(design: Design, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return features of mean 0 and variance 1; the first one of numbers is 1."""
    shape = (n_rows, design.n_features)
    if design.heavy_tails:
        X = rng.standard_t(5, size=shape) / np.sqrt(5 / 3)
    else:
        X = rng.normal(size=shape)
    if not design.has_labels:
        X[:, 0] = 1.0
    return X


def draw_noise(
    design: Design, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Return noise of variance 1."""
    if design.heavy_tails:
        return rng.standard_t(3, size=shape) / np.sqrt(3)
    return rng.normal(size=shape)


def draw_table(design: Design, truth: Truth, rng: np.random.Generator) -> Dataset:
    """Return a data set drawn from a truth."""
    n_tasks = design.n_tasks
    if design.shared:
        task_id = None
        X = draw_features(design, design.n_rows, rng)
        shape = (design.n_rows, n_tasks)
        alone = draw_noise(design, shape, rng)
        common = draw_noise(design, (design.n_rows, 1), rng)
        weight = design.correlation
        noise = np.sqrt(1 - weight) * alone + np.sqrt(weight) * common
        y = X @ truth.coef.T + truth.noise_std * noise
    else:
        factors = np.exp(design.size_spread * rng.normal(size=n_tasks))
        sizes = np.maximum(np.round(design.n_rows * factors), 6).astype(int)
        task_id = np.repeat(np.arange(n_tasks), sizes)
        X = draw_features(design, len(task_id), rng)
        noise = draw_noise(design, (len(task_id),), rng)
        y = (X * truth.coef[task_id]).sum(axis=1) + truth.noise_std[task_id] * noise
    if design.has_labels:
        y = np.where(y > 0, 1.0, -1.0)
    return Dataset(
        id="own-simulated",
        title="simulated",
        X=X,
        y=y,
        task_id=task_id,
        tasks=[f"task {t:02d}" for t in range(n_tasks)],
        task_type="binary" if design.has_labels else "regression",
    )


# ---------------------------------------------------------------- one table


@dataclass(frozen=True)
class Outcome:
    """Verdict on a table, and what is true.

    Attributes
    ----------
    regime, methods : str
    table : int
        Number of the table in its regime.
    decision, earlier_decision : str
    low, value, high : float
        Bounds and value of the smallest gain.
    chance : float or None
        Stated chance that multi-task learning beats both alternatives.
    true_gain, margin : float
    seconds : float
        Processor seconds.
    """

    regime: str
    methods: str
    table: int
    decision: str
    earlier_decision: str
    low: float
    value: float
    high: float
    chance: float | None
    true_gain: float
    margin: float
    seconds: float

    @property
    def is_wrong(self) -> bool:
        """Whether the truth contradicts the decision."""
        if self.decision == HELPS:
            return self.true_gain <= 0
        if self.decision == WORSE:
            return self.true_gain >= 0
        if self.decision == SAFE:
            return self.true_gain < -self.margin
        return False


def judge_table(regime: str, table: int, methods: str) -> Outcome:
    """Return the verdict on a table, and its true gain."""
    started = time.process_time()
    regime_number = list(REGIMES).index(regime)
    rng = np.random.default_rng([SEED, regime_number, table])
    members = REGIMES[regime]
    design = members[table % len(members)]
    truth = Truth.draw(design, rng)
    data = draw_table(design, truth, rng)
    if methods == CLOSED_FORM:
        entries, evaluation, risks = fit_ridges(data, design, truth, table)
    else:
        entries, evaluation, risks = compare_methods(
            data, design, truth, methods, table
        )
    verdict = judge(entries, first_repeat(evaluation))
    gain = verdict.gain
    assert gain is not None
    return Outcome(
        regime=regime,
        methods=methods,
        table=table,
        decision=verdict.decision,
        earlier_decision=earlier_decision(entries, evaluation),
        low=gain.low,
        value=gain.value,
        high=gain.high,
        chance=verdict.chance,
        true_gain=true_gain(risks, design),
        margin=evaluation.margin,
        seconds=time.process_time() - started,
    )


def first_repeat(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation of the first repeat."""
    n_folds = evaluation.n_folds
    return replace(
        evaluation,
        rows=evaluation.rows[:n_folds],
        new=evaluation.new[:n_folds],
        n_train=evaluation.n_train[:n_folds],
        is_single_class=evaluation.is_single_class[:n_folds],
        n_repeats=1,
    )


def earlier_decision(entries: Sequence[ComparedMethod], evaluation: Evaluation) -> str:
    """Return whether the earlier version says "helps" or "worse"; else cannot tell."""
    repeats = evaluation.n_repeats
    splits = range(evaluation.n_folds * repeats)
    losses = {}
    for family in FAMILIES:
        strategy = Strategy.of([e for e in entries if e.family == family], splits)
        assert strategy is not None
        losses[family] = strategy.losses
    lows = []
    highs = []
    for family in (INDEPENDENT, POOLED):
        gain = evaluation.gain(losses[MULTITASK], losses[family], repeats)
        assert gain is not None
        factor = EARLIER_FACTOR / evaluation.correction(repeats)
        gain = replace(gain, error=factor * gain.error)
        lows.append(gain.low)
        highs.append(gain.high)
    if min(highs) < 0:
        return WORSE
    if min(lows) > 0:
        return HELPS
    return CANNOT_TELL


def true_gain(risks: dict[str, float], design: Design) -> float:
    """Return the smallest gain of multi-task learning on new rows."""
    alternatives = [risks[INDEPENDENT], risks[POOLED]]
    if design.has_labels:
        return risks[MULTITASK] - max(alternatives)
    return 1 - risks[MULTITASK] / min(alternatives)


# ---------------------------------------------------------------- closed form


def ridge(family: str, X: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    """Return the coefficients (..., T, d) of ridge regressions.

    Parameters
    ----------
    family : str
        Independent, pooled, or multi-task: ``alpha |w_t - mean|^2`` for each task.
    X : ndarray of shape (..., T, n, d)
        Rows of zeros do not count.
    y : ndarray of shape (..., T, n)
    alpha : float
        Strength.
    """
    transposed = X.swapaxes(-1, -2)
    gram = transposed @ X
    moments = transposed @ y[..., np.newaxis]
    eye = np.eye(X.shape[-1])
    if family == POOLED:
        pooled = np.linalg.solve(gram.sum(axis=-3) + alpha * eye, moments.sum(axis=-3))
        return np.broadcast_to(pooled[..., np.newaxis, :, 0], moments.shape[:-1])
    inverse = np.linalg.inv(gram + alpha * eye)
    alone = inverse @ moments
    if family == INDEPENDENT:
        return alone[..., 0]
    # The mean of w_t = alone_t + alpha inverse_t mean, with a little ridge of its own.
    system = eye * (1 + 1e-6) - alpha * inverse.mean(axis=-3)
    mean = np.linalg.solve(system, alone.mean(axis=-3))
    return (alone + alpha * inverse @ mean[..., np.newaxis, :, :])[..., 0]


@dataclass(frozen=True)
class TaskRows:
    """Rows of each task, padded with rows of zeros to the same number.

    Attributes
    ----------
    positions : ndarray of shape (T, n)
        Row of the table, -1 for padding.
    X : ndarray of shape (T, n, d)
    y : ndarray of shape (T, n)
    """

    positions: np.ndarray
    X: np.ndarray
    y: np.ndarray

    @classmethod
    def of(cls, data: Dataset) -> TaskRows:
        """Return the rows of a table by task."""
        n_tasks = data.n_tasks
        if data.task_id is None:
            positions = np.tile(np.arange(len(data.X)), (n_tasks, 1))
            return cls(positions, data.X[positions], data.y.T)
        sizes = np.bincount(data.task_id, minlength=n_tasks)
        positions = np.full((n_tasks, sizes.max()), -1)
        for task in range(n_tasks):
            positions[task, : sizes[task]] = np.flatnonzero(data.task_id == task)
        is_row = positions >= 0
        X = np.where(is_row[..., np.newaxis], data.X[positions], 0.0)
        return cls(positions, X, np.where(is_row, data.y[positions], 0.0))

    def as_targets(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return values of shape (T, n) in the shape of the targets of the table."""
        if len(shape) == 2:
            return values.T
        targets = np.empty(shape)
        is_row = self.positions >= 0
        targets[self.positions[is_row]] = values[is_row]
        return targets


def fit_ridges(
    data: Dataset, design: Design, truth: Truth, seed: int
) -> tuple[list[ComparedMethod], Evaluation, dict[str, float]]:
    """Fit the ridge regressions on all splits.

    Returns
    -------
    entries : list of ComparedMethod
        One per strategy.
    evaluation : Evaluation
    risks : dict of str to float
        Mean loss of each strategy on new rows, over the splits of the first repeat.
    """
    metric = "auc" if design.has_labels else "nmse"
    options = CompareOptions(seed=seed, metric=metric, repeats=EARLIER_REPEATS)
    evaluation = Protocol.of(data, options).evaluation(data)
    table = TaskRows.of(data)
    entries = [ComparedMethod(family, family) for family in FAMILIES]
    risks: dict[str, list[float]] = {family: [] for family in FAMILIES}
    for repeat in range(evaluation.n_repeats):
        for entry in entries:
            coefs = _fit_repeat(entry, table, evaluation, repeat)
            for coef in coefs:
                risks[entry.family].append(truth.risk(coef, evaluation, design))
    n_folds = evaluation.n_folds
    means = {}
    for family, values in risks.items():
        means[family] = float(np.mean(values[:n_folds]))
    return entries, evaluation, means


def _fit_repeat(
    entry: ComparedMethod, table: TaskRows, evaluation: Evaluation, repeat: int
) -> list[np.ndarray]:
    """Fit a strategy on the splits of a repeat; return its coefficients by fold."""
    n_folds = evaluation.n_folds
    first = repeat * n_folds
    fold_of_row = np.zeros(len(evaluation.y), dtype=int)
    for fold in range(n_folds):
        fold_of_row[evaluation.rows[first + fold]] = fold
    # Padding is in no fold.
    folds = np.where(table.positions >= 0, fold_of_row[table.positions], -1)
    held_out = [(fold,) for fold in range(n_folds)]
    held_out += itertools.combinations(range(n_folds), 2)
    is_used = np.stack([~np.isin(folds, [-1, *part]) for part in held_out])
    X = table.X * is_used[..., np.newaxis]
    y = table.y * is_used
    coefs = []
    scores = np.zeros((len(STRENGTHS), n_folds))
    for index, alpha in enumerate(STRENGTHS):
        coef = ridge(entry.family, X, y, alpha)
        coefs.append(coef)
        predicted = (table.X @ coef[..., np.newaxis])[..., 0]
        squared = (predicted - table.y) ** 2
        for part, held in enumerate(held_out[n_folds:], start=n_folds):
            for outer, inner in (held, held[::-1]):
                scores[index, outer] += squared[part][folds == inner].mean()
    selected_coefs = []
    for fold in range(n_folds):
        best = int(scores[:, fold].argmin())
        split = first + fold
        entry.inner[split] = float(scores[best, fold]) / (n_folds - 1)
        coef = coefs[best][fold]
        predicted = (table.X @ coef[..., np.newaxis])[..., 0]
        targets = table.as_targets(predicted, evaluation.y.shape)
        rows = evaluation.rows[split]
        entry.losses[split] = evaluation.losses(split, targets[rows])
        selected_coefs.append(coef)
    return selected_coefs


# ---------------------------------------------------------------- methods of mtlrun


def compare_methods(
    data: Dataset, design: Design, truth: Truth, methods: str, seed: int
) -> tuple[list[ComparedMethod], Evaluation, dict[str, float]]:
    """Compare methods with `mtlrun.compare`; returns as `fit_ridges`."""
    names = np.asarray(data.tasks)
    # The methods have an intercept instead of the constant feature.
    frame = pd.DataFrame(data.X[:, 1:]).add_prefix("x")
    frame = frame.assign(task=names[data.task_id], y=data.y)
    named = [] if methods == "default" else methods.split(",")
    result = mtlrun.compare(
        frame, target="y", task="task", methods=named, metric="rmse", seed=seed
    )
    # The same table and tasks, in the order in which the comparison has read them.
    dataset = result.dataset
    order = [data.tasks.index(name) for name in dataset.tasks]
    truth = Truth(truth.coef[order], truth.noise_std[order])
    entries = [entry for entry in result.board.entries if entry.family in FAMILIES]
    evaluation = result.board.evaluation
    risks = new_errors(dataset, entries, evaluation, design, truth, seed)
    return entries, evaluation, risks


def new_errors(
    dataset: Dataset,
    entries: list[ComparedMethod],
    evaluation: Evaluation,
    design: Design,
    truth: Truth,
    seed: int,
) -> dict[str, float]:
    """Fit the selected methods again, and return the errors of strategies on new rows.

    Each is a mean over the splits.
    """
    task_id = np.repeat(np.arange(design.n_tasks), N_NEW_ROWS)
    X = draw_features(design, len(task_id), np.random.default_rng(7))
    expected = (X * truth.coef[task_id]).sum(axis=1)
    noise_variance = truth.noise_std[task_id] ** 2
    new = replace(dataset, X=X[:, 1:], y=expected, task_id=task_id, source={})
    protocol = Protocol.of(dataset, CompareOptions(seed=seed, metric="rmse"))
    jobs = ComparisonJobs(protocol, dataset)
    labels = [entry.label for entry in entries]
    candidates = {}
    for candidate in named_candidates(labels, dataset, protocol.train):
        candidates[candidate.label] = with_levels(candidate, dataset)
    chosen = {entry.label: entry.chosen for entry in entries}
    splits = range(len(evaluation.rows))
    risks = {}
    for family in FAMILIES:
        members = [entry for entry in entries if entry.family == family]
        strategy = Strategy.of(members, splits)
        assert strategy is not None
        errors = []
        for split, label in strategy.selected.items():
            job = jobs.job(candidates[label], split)
            fitted = fit_job(job, dataset, chosen[label][split])
            rows = fitted.step.transform(with_last_columns(new, job.features).X)
            predicted = predict_scores(fitted.model, rows, task_id)
            squared = (predicted - expected) ** 2 + noise_variance
            errors.append(float((squared / evaluation.scales[task_id]).mean()))
        risks[family] = float(np.mean(errors))
    return risks


# ---------------------------------------------------------------- summary


@dataclass(frozen=True)
class Share:
    """Share of some tables, with its standard error."""

    n: int
    of: int

    @classmethod
    def count(
        cls, lines: Iterable[Outcome], is_counted: Callable[[Outcome], bool]
    ) -> Share:
        """Count the tables for which something holds."""
        members = list(lines)
        return cls(sum(map(is_counted, members)), len(members))

    def __str__(self) -> str:
        if not self.of:
            return "-"
        share = self.n / self.of
        error = math.sqrt(share * (1 - share) / self.of)
        return f"{100 * share:.1f} ± {100 * error:.1f}% of {self.of:,}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; all columns but the first are numbers."""
    lines = [f"| {' | '.join(header)} |", "| --- |" + " --: |" * (len(header) - 1)]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join(lines)


def by_regime(lines: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the tables of each regime, and of all of them."""
    groups: dict[str, list[Outcome]] = {}
    for line in lines:
        groups.setdefault(line.regime, []).append(line)
    return {**groups, "all": list(lines)}


def decisions_table(lines: Sequence[Outcome]) -> str:
    """Return how often each verdict is said."""
    decisions = (WORSE, NO_DIFFERENCE, HELPS, SAFE, CANNOT_TELL)
    rows = []
    for regime, members in by_regime(lines).items():
        counts = [sum(line.decision == d for line in members) for d in decisions]
        rows.append([regime, f"{len(members):,}", *counts])
    return markdown(["regime", "tables", *decisions], rows)


def errors_table(lines: Sequence[Outcome]) -> str:
    """Return how often verdicts and bounds are wrong."""
    rows = []
    for regime, members in by_regime(lines).items():
        nulls = [m for m in members if -m.margin < m.true_gain <= 0]
        gains = [m for m in members if 0 <= m.true_gain < m.margin]
        safe = [m for m in members if m.decision == SAFE]
        rows.append(
            [
                regime,
                Share.count(nulls, lambda m: m.decision == HELPS),
                Share.count(gains, lambda m: m.decision == WORSE),
                Share.count(safe, lambda m: m.is_wrong),
                Share.count(members, lambda m: m.low > m.true_gain),
                Share.count(members, lambda m: m.high < m.true_gain),
            ]
        )
    header = [
        "regime",
        '"helps", true gain -2% to 0',
        '"worse", true gain 0 to 2%',
        '"safe" is wrong',
        "lower bound above the true gain",
        "upper bound below it",
    ]
    return markdown(header, rows)


def power_table(lines: Sequence[Outcome]) -> str:
    """Return how often gains of some size get the verdict "helps"; without the AUC."""
    members = [line for line in lines if line.regime != "labels"]
    rows = []
    for low, high in ((0.03, 0.07), (0.08, 0.12), (0.15, 0.25)):
        some = [line for line in members if low <= line.true_gain < high]
        rows.append(
            [
                f"{low:.0%} to {high:.0%}",
                Share.count(some, lambda m: m.decision == HELPS),
                Share.count(some, lambda m: m.earlier_decision == HELPS),
            ]
        )
    return markdown(["true gain", "helps", "helps, earlier version"], rows)


def chances_table(lines: Sequence[Outcome]) -> str:
    """Return how often multi-task learning is better, by the stated chance."""
    rows = []
    for low, high in itertools.pairwise((0, 0.05, 0.2, 0.5, 0.8, 0.9, 0.95, 1.001)):
        some = []
        for line in lines:
            if line.chance is not None and low <= line.chance < high:
                some.append(line)
        share = Share.count(some, lambda m: m.true_gain > 0)
        rows.append([f"{low:.2f} to {min(high, 1):.2f}", share])
    return markdown(["stated chance", "true gain above 0"], rows)


def summary(lines: Sequence[Outcome]) -> str:
    """Return all tables in Markdown."""
    tables = [
        decisions_table(lines),
        errors_table(lines),
        power_table(lines),
        chances_table(lines),
    ]
    return "\n\n".join(tables)


def main() -> None:
    """Judge the tables that the output lacks, and print the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=1000, help="of each regime")
    parser.add_argument("--regime", action="append", choices=list(REGIMES))
    parser.add_argument("--methods", default=CLOSED_FORM, help="labels, with commas")
    parser.add_argument("--output", type=Path, default=Path("verdict.jsonl"))
    parser.add_argument("--minutes", type=float, help="no table starts after this time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    if options.output.exists():
        for text in options.output.read_text().splitlines():
            lines.append(Outcome(**json.loads(text)))
    lines = [line for line in lines if line.methods == options.methods]
    finished = {(line.regime, line.table) for line in lines}
    regimes = options.regime or list(REGIMES)
    if options.methods != CLOSED_FORM:
        regimes = options.regime or list(DEFAULT_REGIMES)
        if not set(regimes) <= set(DEFAULT_REGIMES):
            parser.error(
                f"--methods goes with the regimes {', '.join(DEFAULT_REGIMES)}"
            )
    deadline = math.inf
    if options.minutes is not None:
        deadline = time.monotonic() + 60 * options.minutes
    with options.output.open("a") as file:
        for table, regime in itertools.product(range(options.tables), regimes):
            if (regime, table) in finished or time.monotonic() > deadline:
                continue
            lines.append(judge_table(regime, table, options.methods))
            file.write(json.dumps(asdict(lines[-1])) + "\n")
            file.flush()
    print(summary(lines))
    print(f"\nCPU seconds per table: {np.mean([line.seconds for line in lines]):.2f}")


if __name__ == "__main__":
    main()
