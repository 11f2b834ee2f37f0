"""Runs the methods of a comparison on repeated splits, within a budget of time where one is given."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mtlrun.core.errors import ConfigError, DataError, counted, one_line
from mtlrun.core.records import OK
from mtlrun.data.dataset import Dataset
from mtlrun.data.splitters import GROUP, TIME
from mtlrun.experiments.compare_methods import INDEPENDENT, MULTITASK, TRIVIAL, Candidate
from mtlrun.experiments.pool import Outcome, Pool, Unit
from mtlrun.experiments.seeds import derive_seed
from mtlrun.experiments.training import fit_split
from mtlrun.experiments.trainspec import TrainSpec
from mtlrun.experiments.trial import fold_rows, split_rows
from mtlrun.report.board import Entry

#: Rows that a pilot fit takes to estimate what a method costs.
PILOT_ROWS = 2000
#: Part of the budget that the plan may fill; the rest is for the last fit, and for estimates that are too low.
FILL = 0.75
#: Part of the budget that the estimates themselves may take.
PILOT_PART = 0.2
MAX_SPLITS = 10
#: A method whose split is estimated to take at most so many seconds is not worth a process of its own.
CHEAP = 10.0


@dataclass(frozen=True)
class Protocol:
    """How methods are compared.

    Attributes
    ----------
    split : dict
        As of a training file: ``{"kind": "random", "train": 0.7}`` or ``{"kind": "published", "name": ...}``.
    n_splits, folds : int
        Repeated splits, and folds of the search inside the training part.
    metric : str
    seed : int
    """

    split: dict[str, Any]
    n_splits: int
    folds: int
    metric: str
    seed: int

    def spec(self, candidate: Candidate, dataset: Dataset) -> dict[str, Any]:
        """Return a method as a training file."""
        method: dict[str, Any] = {"estimator": candidate.estimator}
        for name in ("params", "grid", "select_with"):
            if getattr(candidate, name):
                method[name] = getattr(candidate, name)
        config: dict[str, Any] = {
            "schema": 1,
            "kind": "train",
            "id": f"compare/{dataset.id}",
            "title": f"{candidate.label} on {dataset.title}",
            "dataset": {"id": dataset.id},
            "features": "table",
            "method": method,
            "split": self.split,
            "metrics": [self.metric],
            "seed": self.seed,
        }
        if candidate.grid:
            config["selection"] = {"folds": self.folds, "metric": self.metric}
        return config

    def rows(self, dataset: Dataset, trial: int) -> tuple[np.ndarray, np.ndarray]:
        """Return training and test rows of a split."""
        return split_rows(dataset, {**self.split, "trial": trial, "seed": derive_seed(self.seed, dataset.id, trial)})


def check_parts(dataset: Dataset, protocol: Protocol, unseen: str) -> None:
    """Refuse tasks, groups or times with which no method could be searched, fitted or tested.

    Raises
    ------
    DataError
        With a single task, where training rows make no folds, or, unless `unseen` is ``"mean"``, where a task is tested
        without training rows.
    """
    if dataset.n_tasks < 2:
        raise DataError(
            f"{dataset.title}: all rows belong to one task, {dataset.tasks[0]!r}: there is nothing to share",
            "Name another column with --task-column, bring rows of more tasks, or train one model with scikit-learn.",
        )
    if not dataset.source.keys() & {GROUP, TIME}:
        return
    splits = [protocol.rows(dataset, trial) for trial in range(protocol.n_splits)]
    for train in [train for train, _ in splits] + [np.arange(dataset.n_samples)]:
        inside = dataset.subset(train)
        if len(np.unique(inside.source.get(GROUP, [0, 1]))) < 2:
            text = "the training rows have one group only, so that parameters cannot be chosen on another one"
            raise DataError(text, "Choose another column with --split-group.")
        folds = [(train[a], train[b]) for a, b in fold_rows(inside, protocol.folds, protocol.seed)]
        if not folds:
            text = "the training rows have one time only, so that parameters cannot be chosen on later ones"
            raise DataError(text, "Choose another column with --time.")
        splits += folds
    if dataset.task_id is None or unseen == "mean":
        return
    new = [np.setdiff1d(dataset.task_id[test], dataset.task_id[train]) for train, test in splits]
    names = [dataset.tasks[t] for t in sorted(set(np.concatenate(new).tolist()))]
    if names:
        raise DataError(
            f"{len(names)} of {dataset.n_tasks} tasks are tested without training rows in a split or a fold of the "
            f"search: {', '.join(names[:5])}",
            "Say --unseen mean to predict them with the mean of all tasks' models.",
        )


@dataclass
class Plan:
    """What is run: methods (some with smaller grids), number of splits, estimates, and what is left out."""

    candidates: list[Candidate]
    n_splits: int
    seconds: dict[str, float] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    shrunk: dict[str, str] = field(default_factory=dict)


def run_unit(dataset: Dataset, config: dict[str, Any], rows: Any, trial: int) -> dict[str, Any]:
    """Fit one method on one split; what `Entry` needs of it."""
    started = time.perf_counter()
    spec = TrainSpec.model_validate(config)
    fitted = fit_split(spec, dataset, rows, trial=trial, threads=1)
    metric = spec.metrics[0]
    return {
        "score": fitted.fields["metrics"][metric],
        "tasks": [None if value != value else value for value in fitted.fields["per_task"][metric]],
        "converged": fitted.fields["status"] == OK,
        "chosen": fitted.selection.get("chosen", {}),
        "edges": fitted.selection.get("edges", {}),
        "fit": fitted.fields["seconds"]["fit"],
        "seconds": time.perf_counter() - started,
    }


def run_plan(
    plan: Plan,
    dataset: Dataset,
    protocol: Protocol,
    *,
    jobs: int,
    deadline: float | None = None,
    say: Callable[[str], None] = lambda _: None,
    finished: Callable[[list[Entry]], None] = lambda _: None,
) -> list[Entry]:
    """Run all methods on all splits, split by split; `finished` is told all results after every piece.

    With a deadline (of `time.monotonic`) a piece that would not be done in time is not started, and one that takes too
    long is stopped; the numbers of finished pieces do not depend on it, nor on `jobs`.
    """
    entries = {c.label: Entry(c.label, c.family) for c in plan.candidates}
    for label, note in plan.shrunk.items():
        entries[label].searched = note
    for pool, units in _work(plan, dataset, protocol, jobs, deadline):
        for (label, trial), outcome in pool.run(run_unit, units):
            _record(entries[label], trial, outcome)
            if outcome.status == OK:
                plan.seconds[label] = outcome.value["seconds"]  # estimates are no longer needed
            say(_line(label, trial, plan.n_splits, protocol.metric, outcome))
            finished(list(entries.values()))
    for entry in entries.values():
        entry.scores = dict(sorted(entry.scores.items()))
        entry.tasks = dict(sorted(entry.tasks.items()))
        entry.chosen = dict(sorted(entry.chosen.items()))
        entry.notes = list(dict.fromkeys(entry.notes))
        entry.errors = list(dict.fromkeys(entry.errors))
    return list(entries.values())


def _work(
    plan: Plan, dataset: Dataset, protocol: Protocol, jobs: int, deadline: float | None
) -> Iterator[tuple[Pool, Iterator[Unit]]]:
    """Yield who does what: within a deadline split by split, and the dear methods in processes that can be stopped."""
    if deadline is None:
        parts = (_units(plan, plan.candidates, dataset, protocol, trial, None) for trial in range(plan.n_splits))
        yield Pool(jobs=jobs), itertools.chain.from_iterable(parts)
        return
    for trial in range(plan.n_splits):
        if trial and time.monotonic() + sum(plan.seconds.values()) / jobs > deadline:
            if trial < protocol.n_splits:
                plan.left_out.append(f"{protocol.n_splits - trial} of {protocol.n_splits} splits: the budget was spent")
            return
        cheap = [c for c in plan.candidates if plan.seconds.get(c.label, 0.0) <= CHEAP]
        dear = [c for c in plan.candidates if c not in cheap]
        if cheap:
            yield Pool(jobs=jobs), _units(plan, cheap, dataset, protocol, trial, deadline)
        if dear:
            limit = max(deadline - time.monotonic(), 1.0)
            yield Pool(jobs=jobs, seconds=limit), _units(plan, dear, dataset, protocol, trial, deadline)


def _units(
    plan: Plan, candidates: list[Candidate], dataset: Dataset, protocol: Protocol, trial: int, deadline: float | None
) -> Iterator[Unit]:
    rows = protocol.rows(dataset, trial)
    # Long pieces first would balance better, but cheap methods first leave a result whatever happens.
    for candidate in candidates:
        if deadline is not None and time.monotonic() + plan.seconds.get(candidate.label, 0.0) > deadline:
            plan.left_out.append(f"{candidate.label}, split {trial + 1}: no time was left")
            continue
        yield (candidate.label, trial), (dataset, protocol.spec(candidate, dataset), rows, trial)


def _record(entry: Entry, trial: int, outcome: Outcome) -> None:
    if outcome.status != OK:
        entry.errors.append(outcome.error or outcome.status)
        return
    value = outcome.value
    entry.scores[trial] = value["score"]
    entry.tasks[trial] = value["tasks"]
    entry.seconds.append(value["seconds"])
    entry.fit_seconds.append(value["fit"])
    entry.chosen[trial] = value["chosen"]
    if not value["converged"]:
        entry.notes.append("not converged")
    for name, end in value["edges"].items():
        entry.notes.append(f"{name.rpartition('__')[2]} at the {end} end of its grid")


def _line(label: str, trial: int, n_splits: int, metric: str, outcome: Outcome) -> str:
    if outcome.status != OK:
        return f"split {trial + 1}/{n_splits}  {label}: {outcome.error}"
    value = outcome.value
    return f"split {trial + 1}/{n_splits}  {label}: {metric} {value['score']:.4g}, {value['seconds']:.3g} s"


def make_plan(
    candidates: list[Candidate],
    dataset: Dataset,
    protocol: Protocol,
    *,
    budget: float | None,
    started: float,
    jobs: int,
    say: Callable[[str], None] = lambda _: None,
) -> Plan:
    """Decide what is run.

    Without a budget everything. With one, a pilot fit on at most 2000 rows estimates what every method costs; the
    trivial and an independent baseline come first, then other baselines and multi-task methods in turn. Where the whole
    grid is too dear a smaller one is taken, and what does not fit even then is left out. Time left buys more splits.

    Parameters
    ----------
    budget : float or None
        Seconds.
    started : float
        When the budget began to be spent, by `time.monotonic`.
    jobs : int
        Processes (not -1).

    Raises
    ------
    ConfigError
        If the budget does not suffice for a baseline and a multi-task method on one split; says what would do.
    """
    if budget is None:
        return Plan(candidates, protocol.n_splits)
    pilots = time.monotonic()
    rows = protocol.rows(dataset, 0)[0]
    whole: dict[str, float] = {}
    order: list[Candidate] = []
    left_out = []
    for candidate in _in_turn(candidates):
        if order and time.monotonic() - pilots > PILOT_PART * budget and len(order) >= 3:
            left_out.append(f"{candidate.label}: no time to estimate what it costs")
            continue
        try:
            seconds = _pilot(candidate, dataset, rows, protocol)
        except Exception as error:  # a method that cannot be fitted here is left out, and the report says so
            left_out.append(f"{candidate.label}: fails on a part of the rows ({one_line(error)})")
            continue
        whole[candidate.label] = seconds
        order.append(candidate)
    capacity = max(budget - (time.monotonic() - started), 0.0) * FILL * jobs
    plan = _fill(order, whole, capacity, protocol)
    plan.left_out += left_out
    families = {c.family for c in plan.candidates}
    wanted = {c.family for c in candidates} & {MULTITASK}  # none, when only baselines are compared
    if not wanted <= families or not families & {INDEPENDENT, TRIVIAL}:
        if not wanted <= {c.family for c in order}:
            remedy = "Choose other --methods, or mend what the message says."
            raise ConfigError(f"no multi-task method could be tried: {'; '.join(left_out[:3])}", remedy)
        _too_small(order, whole, budget, jobs, time.monotonic() - started)
    # The splits after the first are planned by what the first one took.
    plan.n_splits = protocol.n_splits if protocol.split["kind"] == "published" else max(protocol.n_splits, MAX_SPLITS)
    spent = sum(plan.seconds.values()) / jobs
    say(
        f"estimated: {counted(len(plan.candidates), 'method')}, at most {spent:.3g} s for one split, "
        f"budget {budget:.3g} s"
    )
    return plan


def _in_turn(candidates: list[Candidate]) -> list[Candidate]:
    """Return trivial and independent methods, then baselines and multi-task methods in turn."""
    first = [c for c in candidates if c.family == TRIVIAL][:1] + [c for c in candidates if c.family == INDEPENDENT][:1]
    joint = [c for c in candidates if c.family == MULTITASK]
    rest = [c for c in candidates if c not in first and c not in joint]
    for k in range(max(len(joint), len(rest))):
        first += joint[k : k + 1] + rest[k : k + 1]
    return first


def _pilot(candidate: Candidate, dataset: Dataset, rows: np.ndarray, protocol: Protocol) -> float:
    """Return the seconds of one fit on the training rows, extrapolated from a part of them."""
    part = rows if len(rows) <= PILOT_ROWS else np.sort(np.random.default_rng(0).permutation(rows)[:PILOT_ROWS])
    if dataset.task_id is not None:  # every task needs rows, of both sides
        part = np.union1d(part, np.concatenate([rows[dataset.task_id[rows] == t][:2] for t in range(dataset.n_tasks)]))
    started = time.perf_counter()
    run_unit(dataset, protocol.spec(candidate.shrunk(1), dataset), (part, part[: max(len(part) // 10, 2)]), 0)
    return (time.perf_counter() - started) * max(len(rows) / len(part), 1.0)


def _unit_seconds(candidate: Candidate, fit: float, folds: int) -> float:
    """Return the seconds of search and fit, from those of one fit; a fold trains on its part of the rows."""
    if not candidate.grid:
        return fit
    return fit * (1 + candidate.n_candidates * (folds - 1))


def _fill(order: list[Candidate], fit: dict[str, float], capacity: float, protocol: Protocol) -> Plan:
    """Take methods in their order while they fit, with smaller grids where that helps."""
    plan = Plan([], 1)
    share = capacity / max(len(order), 1)
    for candidate in order:
        options = [candidate, candidate.shrunk(max(candidate.n_candidates // 3, 2)), candidate.shrunk(1)]
        left = capacity - sum(plan.seconds.values())
        for option in options:
            seconds = _unit_seconds(option, fit[candidate.label], protocol.folds)
            # Beyond its share a method may not take what the ones behind it need.
            if seconds <= min(left, max(share * 2, left / 3)):
                plan.candidates.append(option)
                plan.seconds[candidate.label] = seconds
                if option.n_candidates < candidate.n_candidates:
                    plan.shrunk[candidate.label] = f"{option.n_candidates} of {candidate.n_candidates} combinations"
                break
        else:
            plan.left_out.append(f"{candidate.label}: one split takes about {seconds:.3g} s without any search")
    return plan


def _too_small(order: list[Candidate], fit: dict[str, float], budget: float, jobs: int, spent: float) -> None:
    """Refuse the budget and say what would do."""
    joint = [c for c in order if c.family == MULTITASK]
    least = [c for c in order if c.family in (TRIVIAL, INDEPENDENT)]
    least += sorted(joint, key=lambda c: fit[c.label])[:1]
    need = spent + sum(fit[c.label] for c in least) / FILL / jobs
    minutes = float(f"{1.3 * need / 60 + 0.05:.1g}")
    what = "a baseline and a multi-task method on one split do not fit" if joint else "no baseline fits on one split"
    raise ConfigError(
        f"--budget {budget / 60:g} minutes is too small: {what}",
        f"--budget {minutes:g} would run {', '.join(c.label for c in least)} on one split.",
    )
