"""How often the verdict of `mtlrun compare` is right, on simulated tables whose truth is known.

Runs the statistics of the comparison (`mtlrun.comparison.verdict`) on models of mtlrun, fitted and chosen by inner
cross-validation on the folds of the comparison, without the files of the pipeline. Every seed draws coefficients and
rows. Rows are Gaussian, so the error of a fitted model on new rows is known exactly: the true gain of a table is that
of the strategies as they were fitted on its folds, which its interval should cover.

Run with: python benchmarks/compare_verdict.py --seeds 100 --output verdict.jsonl; several regimes by --regime.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from mtlrun.comparison.candidates import Candidate, named_candidates
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.verdict import MULTITASK, ComparedMethod, Strategy, judge
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import fold_rows
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.job import with_params
from mtlrun.engine.record import candidates
from mtlrun.estimators.registry import build

METHODS = ("HierarchicalMTL", "GraphMTL", "TraceNormMTL")
FEATURES, NOISE = 12, 1.0
#: Tasks, rows of each, and how their coefficients are drawn.
REGIMES = {
    "unrelated": (20, 30, "unrelated"),
    "unrelated, many rows": (20, 200, "unrelated"),
    "orthogonal": (12, 30, "orthogonal"),
    "shared low rank": (60, 30, "low rank"),
    "equal": (20, 30, "equal"),
    "groups": (20, 30, "groups"),
}


def truth(kind: str, n_tasks: int, seed: int) -> np.ndarray:
    """Return coefficients of a regime, one row per task, with about the variance of the noise."""
    rng = np.random.default_rng([2026, seed])
    if kind == "low rank":
        made = rng.normal(size=(n_tasks, 2)) @ rng.normal(size=(2, FEATURES))
    elif kind == "equal":
        made = np.tile(rng.normal(size=FEATURES), (n_tasks, 1))
    elif (
        kind == "orthogonal"
    ):  # no direction and no singular value of the matrix is more than another
        made = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0][:n_tasks]
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


def fitted(
    candidate: Candidate, part: TrainTestData, data: Dataset, seed: int
) -> tuple[object, float]:
    """Return a method fitted with the parameters that three folds of its training rows choose, and its inner score."""
    grid = candidates(candidate.grid)
    scores = np.zeros(len(grid))
    for train, test in fold_rows(part.train, 3, seed):
        inner = TrainTestData.of(part.train, train, test)
        for k, values in enumerate(grid):
            model = inner.fit(_made(candidate, values, candidate.select_with))
            scores[k] += (
                inner.score(model, inner.predict(model), ["rmse"], "task")["rmse"].mean
                / 3
            )
    best = int(np.argmin(scores))
    return part.fit(_made(candidate, grid[best], {})), float(scores[best])


def _made(candidate: Candidate, values: dict, fast: dict) -> object:
    params = with_params(with_params(candidate.params, fast), values)
    return build({"estimator": candidate.estimator, "params": params})


def one(regime: str, seed: int) -> dict:
    """Return the verdict on one table, and the exact errors of the strategies on new rows."""
    n_tasks, rows, kind = REGIMES[regime]
    weights = truth(kind, n_tasks, seed)
    data = table(weights, rows, seed)
    protocol = Protocol.of(data, CompareOptions(seed=seed, metric="rmse"))
    evaluation = protocol.evaluation(data)
    tried = [
        c
        for c in named_candidates(METHODS, data, protocol.train)
        if c.family != "trivial"
    ]
    entries = [ComparedMethod(c.label, c.family) for c in tried]
    exact: dict[tuple[str, int], float] = {}
    scale = (weights**2).sum(axis=1) + NOISE**2
    scale = (rows * scale + 10 * scale.mean()) / (rows + 10)
    started = time.process_time()
    for split in range(protocol.n_splits):
        part = TrainTestData.of(data, *protocol.rows(data, split))
        for candidate, entry in zip(tried, entries, strict=True):
            model, entry.inner[split] = fitted(candidate, part, data, seed + split)
            entry.losses[split] = evaluation.losses(split, part.predict(model))
            risk = (
                ((model.coef_ - weights) ** 2).sum(axis=1)
                + model.intercept_**2
                + NOISE**2
            )
            exact[entry.label, split] = float(np.mean(risk / scale))
    found = judge(entries, evaluation)
    splits = range(protocol.n_splits)
    families = {"joint": (MULTITASK,), "without": ("independent", "pooled")}
    sides = {
        name: Strategy.of([e for e in entries if e.family in some], splits)
        for name, some in families.items()
    }
    risks = {
        name: float(np.mean([exact[side.picked[s], s] for s in splits]))
        for name, side in sides.items()
    }
    gain = found.gain
    return {
        "regime": regime,
        "seed": seed,
        "kind": found.kind,
        "gain": gain.value,
        "low": gain.low,
        "high": gain.high,
        **risks,
        "seconds": time.process_time() - started,
    }


def summary(lines: list[dict]) -> str:
    """Return the table of the regimes, in Markdown."""
    rows = [
        "| tasks | tables | mean true gain | helps | of these, true gain above 0 | no difference | worse |"
    ]
    rows[0] += " cannot tell | interval covers |"
    rows.append("| --- |" + " --: |" * 8)
    for regime in REGIMES:
        mine = [line for line in lines if line["regime"] == regime]
        if not mine:
            continue
        gains = [1 - line["joint"] / line["without"] for line in mine]
        kinds = Counter(line["kind"] for line in mine)
        covers = sum(
            line["low"] <= gain <= line["high"]
            for line, gain in zip(mine, gains, strict=True)
        )
        counts = [
            kinds[kind]
            for kind in ("helps", "no difference that matters", "worse", "cannot tell")
        ]
        right = sum(
            line["kind"] == "helps" and gain > 0
            for line, gain in zip(mine, gains, strict=True)
        )
        counts.insert(1, right)
        n_tasks, n, _ = REGIMES[regime]
        mean = sum(gains) / len(gains)
        cells = [
            f"{regime}, {n_tasks} x {n} rows",
            len(mine),
            f"{mean:.1%}",
            *counts,
            covers,
        ]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def main() -> None:
    """Run the seeds that the output lacks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed to begin with")
    parser.add_argument("--regime", action="append", choices=list(REGIMES))
    parser.add_argument("--output", type=Path, default=Path("verdict.jsonl"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = (
        [json.loads(line) for line in given.output.read_text().splitlines()]
        if given.output.exists()
        else []
    )
    done = {(line["regime"], line["seed"]) for line in known}
    with given.output.open("a") as file:
        for seed in range(given.first, given.seeds):
            for regime in given.regime or ["unrelated", "shared low rank"]:
                if (regime, seed) not in done:
                    known.append(one(regime, seed))
                    file.write(json.dumps(known[-1]) + "\n")
                    file.flush()
    print(summary(known))


if __name__ == "__main__":
    main()
