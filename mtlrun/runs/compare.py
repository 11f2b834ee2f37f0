"""Which multi-task method helps on data of one's own: leaderboard, verdict, chosen configuration, fitted model."""

from __future__ import annotations

import hashlib
import os
import re
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mtlrun.core.errors import ConfigError, DataError, counted, suggest
from mtlrun.core.metrics import METRICS, get_metric
from mtlrun.data.dataset import Dataset
from mtlrun.data.readers.mulan import read_labels
from mtlrun.data.roles import GROUP_SPLIT, TEST_SPLIT, TIME_SPLIT, Roles, make_dataset
from mtlrun.data.tables import Table, data_file, read_user_table, table_of_frame
from mtlrun.experiments.compare_methods import (
    MAX_TREE_ROWS,
    TREES,
    Candidate,
    calibrated,
    chosen_candidate,
    default_candidates,
    named_candidates,
    with_unseen,
)
from mtlrun.experiments.compare_result import Comparison
from mtlrun.experiments.compare_run import Plan, Protocol, check_parts, make_plan, run_plan
from mtlrun.experiments.pool import Pool
from mtlrun.experiments.predictions import distinct
from mtlrun.experiments.training import Trained, fit_training
from mtlrun.experiments.trainspec import training_of
from mtlrun.report.board import MULTITASK, Board, Entry

#: Numbers in X times tasks up to which there are five splits, and up to which there are three; beyond, two.
MANY_SPLITS, SOME_SPLITS = 1_000_000, 5_000_000
FOLDS = 3


@dataclass(frozen=True)
class Settings:
    """What `compare` is asked for beside the parts of the columns.

    Attributes
    ----------
    methods : tuple of str
        Empty: the default methods.
    metric : str or None
        Default: AUC for labels, RMSE for one target in many tasks, normalised MSE for several targets.
    budget : float or None
        Minutes.
    splits, folds : int or None
        Repeated splits (default by the size of the data) and folds of the search.
    train : float
        Part of the rows of every task to train on.
    seed, jobs : int
    calibrate : bool
        Whether the saved classifier gives probabilities.
    """

    methods: tuple[str, ...] = ()
    metric: str | None = None
    budget: float | None = None
    splits: int | None = None
    folds: int = FOLDS
    train: float = 0.7
    seed: int = 0
    jobs: int = 1
    calibrate: bool = False


def compare(
    data: Any,
    *,
    target: str | None = None,
    task: str | None = None,
    targets: Sequence[str] = (),
    labels: str | Path | None = None,
    test: Any = None,
    say: Callable[[str], None] = lambda _: None,
    finished: Callable[[Board], None] = lambda _: None,
    **options: Any,
) -> Comparison:
    """Compare multi-task methods and baselines on a table.

    Parameters
    ----------
    data : DataFrame, or path of a file
        csv, parquet, ARFF, MATLAB or svmlight; see `mtlrun.data.tables.read_user_table`.
    target, task : str
        Column to predict, and column that names the task of every row (ragged tasks).
    targets : sequence of str
        Columns to predict, each a task, on the same rows (shared tasks).
    labels : path, optional
        Mulan's XML list of labels: the targets.
    test : DataFrame or path, optional
        Rows to test on; otherwise repeated random splits.
    say : callable
        Told what happens, one line at a time.
    finished : callable
        Given the leaderboard of all that is finished, after every fit: it can be kept if the rest is interrupted.
    **options
        Fields of `mtlrun.data.roles.Roles` (``task_type, positive, weight, group, time, drop, categorical, min_rows,
        unseen``) and of `Settings` (``methods, metric, budget, splits, folds, train, seed, jobs, calibrate``).

    Returns
    -------
    Comparison
        With DataFrames `leaderboard`, `tasks` and `coefficients`, the sentence `verdict`, the fitted `model`,
        ``save(folder)`` and ``plot()``.

    Raises
    ------
    DataError, ConfigError, UnknownNameError
        For data, columns, methods or a budget with which nothing can be compared; names the remedy.

    Examples
    --------
    >>> import mtlrun
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.normal(size=(90, 5)), columns=list("abcde"))
    >>> table["school"] = np.repeat(["north", "south", "west"], 30)
    >>> table["grade"] = 2 * table.a - table.b + rng.normal(size=90)
    >>> result = mtlrun.compare(
    ...     table, target="grade", task="school", methods=["GraphMTL", "PooledRidge"], splits=2, folds=2
    ... )
    >>> list(result.leaderboard["method"])
    ['PooledRidge', 'GraphMTL', 'IndependentRidge', 'TaskMean']
    """
    started = clock.monotonic()
    settings, given = _settings(options)
    table, more = _table(data, None), None
    if test is not None:
        more = _table(test, table)
    names = _several(targets if target is None else target)
    if labels is not None:
        names = tuple(_label_names(Path(labels), table))
    if sum(bool(x) for x in (target, targets, labels)) > 1:
        raise ConfigError("the targets are named twice", "Give one of target, targets and labels.")
    shared: dict[str, Any] = {"train": settings.train, "seed": settings.seed, "splits": settings.splits or 3}
    roles = Roles(targets=names, task=task, **shared, **given)
    dataset = _named(make_dataset(table, roles, more), table)
    dataset.options = {"task": task or table.default_task}
    metric = _metric(settings.metric, dataset)
    if settings.calibrate and dataset.task_type == "regression":
        raise ConfigError("--calibrate needs targets that are labels", "Leave it out for a regression.")
    protocol = Protocol(_split(dataset, settings), _n_splits(dataset, settings), settings.folds, metric, settings.seed)
    check_parts(dataset, protocol, roles.unseen)
    candidates = _candidates(settings, dataset, roles.unseen)
    jobs = os.cpu_count() or 1 if settings.jobs == -1 else settings.jobs
    facts = [*_facts(dataset, protocol, roles), *_tree_fact(dataset, candidates)]
    for line in facts:
        say(line)
    budget = None if settings.budget is None else settings.budget * 60
    plan = make_plan(candidates, dataset, protocol, budget=budget, started=started, jobs=jobs, say=say)
    deadline = None if budget is None else started + 0.9 * budget

    def so_far(entries: list[Entry]) -> None:
        if any(entry.score is not None for entry in entries):
            finished(_unfinished(dataset, protocol, entries, facts, plan))

    entries = run_plan(plan, dataset, protocol, jobs=jobs, deadline=deadline, say=say, finished=so_far)
    protocol = replace(protocol, n_splits=max((len(e.scores) for e in entries), default=0))
    board = _board(dataset, protocol, entries, facts, plan.left_out)
    final = _Final(
        dataset, protocol, {c.label: c for c in plan.candidates}, budget=settings.budget is not None, say=say
    )
    return final.comparison(board, roles, table, more, settings.calibrate)


def _settings(options: dict[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Return the settings, and the options that are parts of columns."""
    own = set(Settings.__dataclass_fields__)
    parts = set(Roles.__dataclass_fields__) - {"targets", "task", *own}
    for name in options:
        if name not in own | parts:
            near = suggest(name, own | parts)
            raise TypeError(f"compare has no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    chosen = {name: value for name, value in options.items() if name in own and value is not None}
    if "methods" in chosen:
        chosen["methods"] = _several(chosen["methods"])
    settings = Settings(**chosen)
    for name, low in (("splits", 1), ("folds", 2), ("budget", 0), ("seed", 0)):
        value = getattr(settings, name)
        if value is not None and (not value >= low or (name == "budget" and value == 0)):  # also NaN
            least = "more than 0 minutes" if name == "budget" else f"at least {low}"
            raise ConfigError(f"{name} must be {least}, not {value:g}")
    Pool(settings.jobs)  # refuses a number of processes that is none
    if not 0 < settings.train < 1:
        raise ConfigError(f"train must be a part between 0 and 1, not {settings.train:g}")
    given = {name: value for name, value in options.items() if name in parts and value is not None}
    for name in ("drop", "categorical"):
        if name in given:
            given[name] = _several(given[name])
    return settings, given


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _table(data: Any, like: Table | None) -> Table:
    if isinstance(data, str | Path):
        return read_user_table(Path(data), like=like)
    return table_of_frame(data, "data frame" if like is None else "data frame of the test rows")


def _label_names(path: Path, table: Table) -> list[str]:
    names = read_labels(data_file(path)[0])
    known = set(table.columns)
    missing = [name for name in names if name not in known]
    if missing:
        near = suggest(missing[0], table.columns)
        raise DataError(
            f"{path}: {counted(len(missing), 'label')} without a column in {table.name}: {', '.join(missing[:5])}",
            f"Did you mean {near[0]!r}?" if near else "Is it the list of labels of this file?",
        )
    return names


def short_name(file: str | Path) -> str:
    """Return what a comparison of a file is called: its name in small letters, without suffixes."""
    return re.sub(r"[^a-z0-9]+", "-", Path(file).name.partition(".")[0].lower()).strip("-") or "data"


def _named(dataset: Dataset, table: Table) -> Dataset:
    """Give the data set a name that no card of mtlrun has, and a fingerprint of its content."""
    digest = hashlib.sha256()
    X = [dataset.X.data, dataset.X.indices, dataset.X.indptr] if sparse.issparse(dataset.X) else [dataset.X]
    for array in (*X, dataset.y, *([] if dataset.task_id is None else [dataset.task_id])):
        digest.update(np.ascontiguousarray(array).tobytes())
    return replace(
        dataset, id=f"own-{short_name(table.name)}", title=Path(table.name).name, fingerprint=digest.hexdigest()
    )


def _metric(name: str | None, dataset: Dataset) -> str:
    regression = dataset.task_type == "regression"
    if name is None:
        return "auc" if not regression else "nmse" if dataset.task_id is None else "rmse"
    if (get_metric(name).needs == "value") != regression:
        fit = ", ".join(m.name for m in METRICS.values() if (m.needs == "value") == regression)
        kind = "numbers" if regression else "labels"
        raise ConfigError(f"the metric {name!r} does not go with targets that are {kind}", f"Use one of: {fit}.")
    return name


def _split(dataset: Dataset, settings: Settings) -> dict[str, Any]:
    if dataset.splits:
        return {"kind": "published", "name": next(iter(dataset.splits))}
    return {"kind": "random", "train": settings.train}


def _n_splits(dataset: Dataset, settings: Settings) -> int:
    if dataset.splits:
        return len(next(iter(dataset.splits.values())))
    if settings.splits is not None:
        return settings.splits
    size = dataset.n_samples * dataset.n_features * (dataset.n_tasks if dataset.task_id is None else 1)
    return 5 if size <= MANY_SPLITS else 3 if size <= SOME_SPLITS else 2


def _candidates(settings: Settings, dataset: Dataset, unseen: str) -> list[Candidate]:
    if settings.methods:
        found = named_candidates(settings.methods, dataset, settings.train)
    else:
        found = default_candidates(dataset, settings.train)
    return [with_unseen(candidate, unseen) for candidate in found]


def _facts(dataset: Dataset, protocol: Protocol, roles: Roles) -> list[str]:
    """Return what is compared on what, in sentences."""
    design = "one X for all tasks" if dataset.task_id is None else "rows belong to tasks"
    sizes = _sizes(dataset)
    found = [
        f"{dataset.title}: {counted(dataset.n_samples, 'row')}, {counted(dataset.n_features, 'feature')}, "
        f"{counted(dataset.n_tasks, 'task')} ({dataset.task_type}, {design}, {_range(sizes)} per task)",
        *dataset.notes.splitlines(),
    ]
    missing = int(np.isnan(dataset.y).sum())
    if missing:
        found.append(f"{counted(missing, 'missing target')} masked: left out of fits and of scores")
    found.append(_preprocessing(dataset))
    if dataset.task_type == "regression":
        found.append("targets are standardised inside every fit; scores and coefficients are in their own units")
    if roles.weight:
        found.append(f"rows are weighted by {roles.weight!r} in fits and in scores")
    kinds = {
        TEST_SPLIT: "one split: the rows of the test file are the test part",
        GROUP_SPLIT: f"{counted(protocol.n_splits, 'random split')}, every {roles.group!r} on one side",
        TIME_SPLIT: f"one split: the latest rows by {roles.time!r} are the test part",
    }
    part = f"{counted(protocol.n_splits, 'random split')}, {protocol.split.get('train', 0):.0%} of the rows"
    by_task = " of every task" if dataset.task_id is not None else ""
    found.append(kinds.get(protocol.split.get("name", ""), f"{part}{by_task} to train on"))
    found.append(f"parameters are chosen by {protocol.folds}-fold cross-validation inside the training part")
    if roles.unseen == "mean":
        found.append("tasks without training rows are predicted by the mean of all tasks' models")
    return found


def _tree_fact(dataset: Dataset, candidates: list[Candidate]) -> list[str]:
    """Return what is done to trees on big tables, if any are compared."""
    labels = [c.label for c in candidates if c.label in TREES]
    if not labels or dataset.n_samples <= MAX_TREE_ROWS:
        return []
    text = f"{' and '.join(labels)}: with more than {MAX_TREE_ROWS:,} rows not tuned"
    return [text + (f"; a tree of the forest sees {MAX_TREE_ROWS:,} rows" if TREES[-1] in labels else "")]


def _preprocessing(dataset: Dataset) -> str:
    if sparse.issparse(dataset.X):
        return "features, learned on training rows only: divided by the largest absolute value (sparse, scikit-learn)"
    words = f"{counted(len(dataset.categories), 'column')} of words one-hot ({', '.join(dataset.categories)})"
    gaps = [n for n, bad in zip(dataset.features, np.isnan(dataset.X).any(axis=0), strict=True) if bad]
    numeric = [name for name in gaps if name not in dataset.categories]
    steps = [
        f"gaps of {counted(len(numeric), 'column')} filled by the median and marked ({', '.join(numeric[:5])})"
    ] * bool(numeric)
    steps += ["numbers standardised"] + [words] * bool(dataset.categories)
    return f"features, learned on training rows only by scikit-learn: {', '.join(steps)}"


def _range(sizes: list[int]) -> str:
    low, high = min(sizes), max(sizes)
    return counted(high, "target") if low == high else f"{low} to {high} targets"


def _sizes(dataset: Dataset) -> list[int]:
    if dataset.task_id is not None:
        return [int(n) for n in np.bincount(dataset.task_id, minlength=dataset.n_tasks)]
    return [int(n) for n in (~np.isnan(dataset.y)).sum(axis=0)]


def _board(dataset: Dataset, protocol: Protocol, entries: list[Entry], facts: list[str], left_out: list[str]) -> Board:
    train, test = protocol.rows(dataset, 0)
    failed = [f"{e.label}: {e.errors[0]}" for e in entries if not e.scores and e.errors]
    board = Board(
        title=f"Which multi-task method helps on {dataset.title}",
        metric=protocol.metric,
        greater=get_metric(protocol.metric).greater_is_better,
        tasks=dataset.tasks,
        sizes=_sizes(dataset),
        entries=entries,
        n_splits=protocol.n_splits,
        test_over_train=len(test) / len(train),
        facts=facts,
        left_out=left_out,
    )
    if not board.ranked():
        raise ConfigError("no method could be fitted: " + "; ".join(failed[:3]), "See the messages above.")
    return board


def _unfinished(dataset: Dataset, protocol: Protocol, entries: list[Entry], facts: list[str], plan: Plan) -> Board:
    """Return the leaderboard of what is done so far."""
    done = sum(len(e.scores) + len(e.errors) for e in entries)
    note = f"unfinished: {done} of up to {len(entries) * plan.n_splits} fits are done"
    protocol = replace(protocol, n_splits=max(len(e.scores) for e in entries))
    board = _board(dataset, protocol, entries, facts, [*plan.left_out, note])
    return replace(board, title=f"Unfinished: {board.title}")


@dataclass(frozen=True)
class _Final:
    """Fits what is kept: the best method, and the best linear one for its coefficients."""

    dataset: Dataset
    protocol: Protocol
    candidates: dict[str, Candidate]
    budget: bool
    say: Callable[[str], None]

    def comparison(self, board: Board, roles: Roles, table: Table, more: Table | None, calibrate: bool) -> Comparison:
        """Return the result."""
        best = board.ranked()[0]
        self.say(f"fitting the best method, {best.label}, on all rows")
        trained = self._trained(best)
        if calibrate:
            trained = self._calibrated(best, trained)
        linear = trained
        joint = next((e for e in board.ranked() if e.family == MULTITASK), None)
        if not hasattr(trained.model.estimator, "coef_") and joint is not None:
            self.say(f"fitting {joint.label} on all rows for its coefficients")
            linear = self._trained(joint)
        source = joint.label if joint is not None and linear is not trained else best.label
        return Comparison(board, self.dataset, trained, roles, table, more, _coefficients(linear), source)

    def _candidate(self, entry: Entry) -> Candidate:
        candidate = self.candidates[entry.label]
        # Within a budget the search is not repeated: what the last split chose is taken.
        chosen = entry.chosen[max(entry.chosen)] if entry.chosen else {}
        return chosen_candidate(candidate, chosen) if self.budget and chosen else candidate

    def _trained(self, entry: Entry) -> Trained:
        return self._fit(self._candidate(entry))

    def _calibrated(self, entry: Entry, trained: Trained) -> Trained:
        chosen = trained.result["selection"].get("chosen", {})
        return self._fit(calibrated(chosen_candidate(self._candidate(entry), chosen)))

    def _fit(self, candidate: Candidate) -> Trained:
        config = {**self.protocol.spec(candidate, self.dataset), "refit": True}
        return fit_training(training_of(config, self.dataset.title), self.dataset)


def _coefficients(trained: Trained) -> pd.DataFrame | None:
    """Return tasks x features (as the feature step made them) with the intercept, None for a model without."""
    model = trained.model
    coef = getattr(model.estimator, "coef_", None)
    if coef is None:
        return None
    names = model.step.get_feature_names_out(model.facts["input"]["names"])
    # An estimator of several outputs has no names of tasks: its rows are in their order.
    order = getattr(model.estimator, "tasks_", range(len(coef)))
    tasks = [model.facts["tasks"][t] for t in np.asarray(order, dtype=int)]
    own = ("task", "intercept")
    columns = [own[1], *distinct(names, own)]
    values = np.column_stack([np.broadcast_to(model.estimator.intercept_, len(coef)), coef])
    return pd.DataFrame(values, index=pd.Index(tasks, name=own[0]), columns=columns)
