"""Does multi-task learning help on the user's own data: leaderboard, verdict, chosen configuration, fitted model."""

from __future__ import annotations

import math
import tempfile
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from glob import has_magic
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.chunks.table import chunk_files
from mtlrun.comparison.candidates import (
    INNER,
    Candidate,
    calibrated,
    check_levels,
    chosen_candidate,
    default_candidates,
    has_coefficients,
    named_candidates,
    read_families,
    with_levels,
    with_unseen,
)
from mtlrun.comparison.chunked import compare_chunks
from mtlrun.comparison.differences import differences, tables_like
from mtlrun.comparison.interval_errors import (
    errors_of_folds,
    errors_of_refits,
    interval_facts,
    transform_advice,
)
from mtlrun.comparison.jobs import ComparisonJobs
from mtlrun.comparison.leaderboard import PARTS, Leaderboard, curve_of
from mtlrun.comparison.options import (
    FOLDS,
    REPEATS,
    SPLITS,
    CompareOptions,
    TargetColumns,
)
from mtlrun.comparison.predictions import HeldOutPredictions, held_out_predictions
from mtlrun.comparison.protocol import (
    Protocol,
    check_parts,
    design_of,
    facts_of,
    sizes_of,
)
from mtlrun.comparison.racing import raced_labels
from mtlrun.comparison.result import (
    MODEL,
    Comparison,
    TableComparison,
    TableSource,
    refuse_tables,
    store_table,
)
from mtlrun.comparison.schedule import CompareSchedule, usual_seconds
from mtlrun.comparison.verdict import (
    INDEPENDENT,
    MULTITASK,
    VERDICT_FAMILIES,
    ComparedMethod,
    Evaluation,
    judge,
    strategies_of,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.load import dataset_fingerprint
from mtlrun.data.named_columns import label_list, matching, target_columns
from mtlrun.data.names import distinct
from mtlrun.data.roles import make_dataset
from mtlrun.data.splits import NEW_TASK
from mtlrun.data.table import Table, read_table, table_of_frame
from mtlrun.engine.compute import loaded
from mtlrun.engine.evaluation import has_std
from mtlrun.engine.job import choose_over_splits
from mtlrun.engine.pool import Pool
from mtlrun.engine.progress import Progress
from mtlrun.engine.run import Runner
from mtlrun.errors import ConfigError, DataError, with_arguments
from mtlrun.metrics import get_metric
from mtlrun.model.train import Trained, fit_training, load_trained
from mtlrun.tables.report_table import duration
from mtlrun.utils.io import canonical_json, temporary, writing
from mtlrun.utils.text import folder_name, hidden, id_of, stem_of

#: Part of the budget that the fits of the comparison may take; the rest is for the final model.
FILL = 0.9
#: Seconds of a split of a method up to which its final model is fitted without further processes.
SHORT = 5.0
#: How many times as long as the slowest fit of a method its final model may take: it is fitted to the training rows of
#: the first split and to all rows, and calibration fits three more models for each.
FINAL, CALIBRATED = 3, 12


@with_arguments
def compare(
    data: Any,
    *,
    target: str | None = None,
    task: str | None = None,
    targets: str | Sequence[str] = (),
    targets_last: int | None = None,
    labels: str | Path | None = None,
    test: Any = None,
    task_type: str | None = None,
    positive: str | None = None,
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    time_blocks: bool = False,
    new_tasks: bool = False,
    since_first: str | None = None,
    transform: str | None = None,
    drop: str | Sequence[str] = (),
    categorical: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    mixed: str = "error",
    min_rows: int | None = None,
    unseen: str = "error",
    task_order: str | Sequence[str] = (),
    also_grouped_by: str | Sequence[str] = (),
    methods: str | Sequence[str] = (),
    metric: str | None = None,
    budget: float | None = None,
    splits: int = SPLITS,
    repeats: int = REPEATS,
    folds: int = FOLDS,
    seed: int = 0,
    jobs: int = 1,
    retries: int = 0,
    calibrate: bool = False,
    smallest_gain: float | None = None,
    family: str | Sequence[str] = (),
    curve: bool = False,
    racing: bool = True,
    backend: str | None = None,
    scheduler: str | None = None,
    output: str | Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    finished: Callable[[Leaderboard], None] = lambda _: None,
) -> Comparison:
    """Compare multi-task methods and baselines on a table.

    Parameters
    ----------
    data : DataFrame, or path of a file
        csv, Excel, parquet, ARFF, MATLAB or svmlight; see `mtlrun.data.table.read_table`.
        A pair of paths is an ARFF file and Mulan's list of its labels. A folder, a
        pattern or a list of csv or Parquet files is read in chunks, with the options
        ``target, task, targets, weight, drop, methods, splits, smallest_gain, seed,
        jobs``, and ``backend="dask", scheduler=ADDRESS`` for a cluster.
    target, task : str
        Column to predict, and column that names the task of every row (ragged tasks).
    targets : str or sequence of str
        Columns to predict, each a task, on the same rows (shared tasks). Patterns such
        as ``y*`` stand for all columns that match.
    targets_last : int, optional
        The last columns of the table, so many, are the targets.
    labels : path, optional
        Mulan's XML list of labels: the targets. Not needed if it lies beside the table
        with the same name.
    test : DataFrame or path, optional
        Test rows; by default, the rows are tested by repeated cross-validation.
    time : str, optional
        Column of a number or a date: the last rows of each task are tested after its
        earlier ones. With ``time_blocks=True`` blocks of time over all tasks are tested.
    new_tasks : bool, default False
        Whether whole tasks are tested, after training on the other tasks.
    since_first : str, optional
        Column of a time; the time since the first row of the task becomes a feature.
    transform : {"log", "sqrt", "logit"}, optional
        Function of the targets on whose scale methods are fitted and compared.
        Predictions and intervals are in the units of the targets.
    task_type, positive, weight, group, drop, categorical, keep, mixed, min_rows
        Roles of the columns; see `mtlrun.comparison.options.CompareOptions`, which has
        all further options.
    unseen, task_order, also_grouped_by
        Roles of the tasks and of further groups.
    methods, metric, budget, splits, repeats, folds, seed, jobs, retries, calibrate
        How methods are compared.
    smallest_gain, family, curve
        What the verdict is about.
    racing : bool
        Whether default methods far behind are stopped after the first inner folds.
    backend, scheduler : str, optional
        Only for tables in chunks.
    output : path, optional
        Folder that keeps finished fits, in ``cells``: comparing the same table there
        again computes only what is new.
    say : callable
        Called with progress messages, one line at a time.
    finished : callable
        Called after every fit with the leaderboard so far, which can be kept if the
        rest is interrupted.

    Returns
    -------
    Comparison
        With DataFrames `leaderboard`, `tasks` and `coefficients`, the sentence
        `verdict`, ``predict(frame)`` and ``predict_proba(frame)`` of the best method,
        that `model` itself, ``save(folder)`` and ``plot()``.

    Raises
    ------
    DataError, ConfigError, UnknownNameError
        For data, columns, methods or a budget with which nothing can be compared; names
        the remedy.
    UserError
        If a table lies in `output` under the name of a result.

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
    ...     table, target="grade", task="school", methods=["GraphMTL"], splits=3, repeats=1, folds=2
    ... )
    >>> sorted(result.leaderboard["method"])
    ['GraphMTL', 'IndependentRidge', 'IndependentRidgeCV', 'PooledRidge', 'TaskMean']
    """
    columns = TargetColumns(
        target=target,
        task=task,
        targets=targets,
        targets_last=targets_last,
        labels=labels,
    )
    options = CompareOptions(
        task_type=task_type,
        positive=positive,
        weight=weight,
        group=group,
        time=time,
        time_blocks=time_blocks,
        new_tasks=new_tasks,
        since_first=since_first,
        transform=transform,
        drop=drop,
        categorical=categorical,
        keep=keep,
        mixed=mixed,
        min_rows=min_rows,
        unseen=unseen,
        task_order=task_order,
        also_grouped_by=also_grouped_by,
        methods=methods,
        metric=metric,
        budget=budget,
        splits=splits,
        repeats=repeats,
        folds=folds,
        seed=seed,
        jobs=jobs,
        retries=retries,
        calibrate=calibrate,
        smallest_gain=smallest_gain,
        family=family,
        curve=curve,
        racing=racing,
        backend=backend,
        scheduler=scheduler,
    )
    return run_comparison(
        data,
        columns,
        options,
        test=test,
        output=output,
        say=say,
        finished=finished,
    )


def run_comparison(
    data: Any,
    columns: TargetColumns,
    options: CompareOptions,
    *,
    test: Any = None,
    output: str | Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    finished: Callable[[Leaderboard], None] = lambda _: None,
) -> Comparison:
    """Compare methods on a table; see `compare` for the other parameters and errors.

    Parameters
    ----------
    data : DataFrame, or path of a file
    columns : TargetColumns
    options : CompareOptions
    """
    started = clock.monotonic()
    files = chunk_files(data)
    if output is not None:
        tables = files or (data if isinstance(data, list | tuple) else [data])
        named = [one for one in (*tables, test) if isinstance(one, str | Path)]
        refuse_tables(Path(output), [Path(one) for one in named])
    if files:
        if columns.labels or test is not None:
            raise ConfigError(
                "--labels and --test cannot be used with data in chunks",
                "Leave them out.",
            )
        return compare_chunks(files, columns, options, say=say)
    for name, value in (
        ("backend", options.backend),
        ("scheduler", options.scheduler),
    ):
        if value:
            raise ConfigError(
                f"--{name} is for data in chunks: a folder of files", "Use --jobs."
            )
    has_targets = bool(columns.target or columns.targets or columns.targets_last)
    data, labels = label_list(data, columns.labels, other=has_targets)
    table = _table(data, None)
    test_table = None if test is None else _table(test, table)
    options = replace(
        options,
        drop=matching(options.drop, table),
        categorical=matching(options.categorical, table),
        keep=matching(options.keep, table),
        also_grouped_by=matching(options.also_grouped_by, table),
    )
    names = target_columns(
        table,
        columns.target,
        columns.targets,
        columns.targets_last,
        labels,
        options.drop,
    )
    source = TableSource(table, test_table, options.roles(names, columns.task))
    dataset = replace(
        make_dataset(table, source.roles, test_table),
        id=_id(table),
        title=_title(table),
    )
    if options.calibrate and dataset.task_type == "regression":
        raise ConfigError(
            "--calibrate needs targets that are labels", "Leave it out for regression."
        )
    protocol = Protocol.of(dataset, options)
    if options.curve and protocol.split["kind"] != "kfold":
        raise ConfigError(
            "--curve needs cross-validation, not a file of test rows",
            "Leave out --curve or --test.",
        )
    check_parts(dataset, protocol)
    candidates = _candidates(options, dataset, protocol, source.roles.unseen)
    facts = facts_of(dataset, protocol, source.roles, candidates)
    facts += [
        line
        for line in (differences(dataset), tables_like(dataset, protocol.train))
        if line
    ]
    for line in facts:
        say(line)
    with _session(output, source, dataset, protocol, options, say) as session:
        return session.run(candidates, facts, started, finished)


@dataclass(frozen=True)
class _Session:
    """Where a comparison computes: the table as a stored data set, and the folder of the jobs."""

    source: TableSource
    folder: Path
    data: Path
    dataset: Dataset
    protocol: Protocol
    options: CompareOptions
    say: Callable[[str], None]

    def run(
        self,
        candidates: list[Candidate],
        facts: list[str],
        started: float,
        finished: Callable[[Leaderboard], None],
    ) -> Comparison:
        """Compute all fits, and from the best method the rest of the result."""
        end = (
            None if self.options.budget is None else started + self.options.budget * 60
        )
        deadline = None if end is None else started + FILL * (end - started)
        evaluation = self.protocol.evaluation(self.dataset)
        waves = self._waves(self.protocol, candidates, evaluation, deadline)
        jobs = waves.jobs

        def so_far(entries: list[ComparedMethod]) -> None:
            if any(entry.score is not None for entry in entries):
                done = sum(len(entry.scores) + len(entry.failures) for entry in entries)
                done += sum(
                    len(entry.stopped.keys() - entry.scores.keys()) for entry in entries
                )
                left = waves.remaining()
                text = "" if left is None else f", about {duration(left)} left"
                board = self._board(
                    entries,
                    evaluation,
                    facts,
                    [f"unfinished: {done} of {len(jobs)} fits are done{text}"],
                )
                finished(replace(board, title=f"Unfinished: {board.title}"))

        waves.finished = so_far
        board = self._board(waves.run(), evaluation, facts, waves.left_out)
        keys = [
            {"method": label, "trial": trial, "key": job.key}
            for (label, trial), job in waves.computed_jobs().items()
        ]
        planned = {
            "options": self.options.protocol_options(),
            "metric": self.protocol.metric,
            "split": self.protocol.split,
            "question": self._question(),
            "cells": keys,
        }
        curve = self._curve(board, deadline) if self.options.curve else None
        held_out = self._held_out(board, waves)
        saved, trained, label, linear = self._final(
            board, {c.label: c for c in candidates}, end
        )
        self._add_intervals(board, waves, trained, saved)
        coefficients = _coefficients(linear)
        return TableComparison(
            board=board,
            dataset=self.dataset,
            trained=trained,
            source=self.source,
            coefficients=coefficients,
            coefficients_of=label,
            cells=planned,
            curve=curve,
            saved=saved,
            held_out=held_out,
        )

    def _held_out(
        self, board: Leaderboard, waves: CompareSchedule
    ) -> HeldOutPredictions | None:
        """Read the predictions of the methods that were chosen from their records."""
        strategies, _ = strategies_of(board.entries, board.evaluation)
        return held_out_predictions(board.evaluation, strategies, waves.read_scores)

    def _question(self) -> str:
        """Return what is predicted, for which tasks and on which rows."""
        roles = self.source.roles
        targets = ", ".join(self.dataset.targets)
        tasks = "" if roles.task is None else f" by {roles.task}"
        columns = [roles.time, roles.group, roles.transform]
        details = "".join(f", {name}" for name in columns if name)
        return f"{design_of(self.dataset)}: {targets}{tasks}{details}"

    def _add_intervals(
        self, board: Leaderboard, waves: CompareSchedule, trained: Trained, label: str
    ) -> None:
        """Give the saved model intervals, and say which share of the test rows they hold."""
        if self.dataset.task_type != "regression":
            return
        evaluation = board.evaluation
        predicted = {}
        for split in range(evaluation.folds):
            scores = waves.read_scores(label, split)
            if scores is not None:
                predicted[split] = scores
        if not predicted:
            return
        is_new = NEW_TASK in self.dataset.source
        kind, other_kind = ("new", "known") if is_new else ("known", "new")
        job = waves.jobs[label, 0]
        params = trained.model.about["estimator"]["params"]
        errors = {kind: errors_of_folds(evaluation, predicted)}
        has_deviations = has_std(trained.model.estimator)
        predicts_new_tasks = self.source.roles.unseen == "mean"
        if has_deviations:
            errors[kind] = errors_of_refits(job, self.dataset, params, new_tasks=is_new)
        if self.dataset.task_id is not None and predicts_new_tasks:
            errors[other_kind] = errors_of_refits(
                job, self.dataset, params, new_tasks=not is_new
            )
        facts, lines = interval_facts(errors, self.dataset)
        trained.model.about["intervals"] = facts
        lines = [f"{label}: {line}" for line in lines]
        lines += transform_advice(errors, self.dataset)
        board.facts += lines
        board.interval_lines = lines

    def _curve(self, board: Leaderboard, deadline: float | None) -> pd.DataFrame:
        """Repeat the comparison after training on parts of the rows; its jobs are kept like all others."""

        def fewer(part: float) -> Protocol:
            return replace(
                self.protocol,
                split={**self.protocol.split, **({} if part == 1 else {"train": part})},
            )

        answers = {1.0: board.answer}
        for part in PARTS[:-1]:
            self.say(f"training on {part:.0%} of the rows of every task")
            found = _candidates(
                self.options, self.dataset, fewer(part), self.source.roles.unseen
            )
            candidates = [
                candidate for candidate in found if candidate.family in VERDICT_FAMILIES
            ]
            entries = self._waves(
                fewer(part), candidates, board.evaluation, deadline
            ).run()
            answers[part] = judge(entries, board.evaluation)
        return curve_of(
            answers, self.dataset, lambda part: fewer(part).rows(self.dataset, 0)[0]
        )

    def _waves(
        self,
        protocol: Protocol,
        candidates: list[Candidate],
        evaluation: Evaluation,
        deadline: float | None,
    ) -> CompareSchedule:
        """Return what computes methods on all splits."""
        made = ComparisonJobs(protocol, self.dataset).plan(
            candidates, self.folder, self.data
        )
        jobs = {(row.method, row.trial): row.job for row in made.rows}
        runner = Runner(
            made,
            Pool(self.options.jobs),
            Progress(self.say),
            retries=self.options.retries,
        )
        usual = usual_seconds(
            candidates, self.dataset, self.options.folds, protocol.train
        )
        return CompareSchedule(
            candidates,
            jobs,
            runner,
            evaluation,
            deadline,
            self.say,
            usual=usual,
            raced=self._raced(protocol, candidates),
        )

    def _raced(self, protocol: Protocol, candidates: list[Candidate]) -> list[str]:
        """Return the methods that may be stopped in a training part."""
        if not self.options.racing:
            return []
        default = default_candidates(self.dataset, protocol.train)
        labels = [candidate.label for candidate in default]
        return raced_labels(candidates, labels, self.options.methods)

    def _board(
        self,
        entries: list[ComparedMethod],
        evaluation: Evaluation,
        facts: list[str],
        left_out: list[str],
    ) -> Leaderboard:
        board = Leaderboard(
            title=f"Does multi-task learning help on {self.dataset.title}?",
            metric=self.protocol.metric,
            greater=get_metric(self.protocol.metric).greater_is_better,
            tasks=self.dataset.tasks,
            sizes=sizes_of(self.dataset),
            entries=entries,
            evaluation=evaluation,
            against=next(
                entry.label for entry in entries if entry.family == INDEPENDENT
            ),
            facts=facts,
            left_out=left_out,
        )
        if not board.ranked():
            failed = [
                f"{entry.label}: {entry.errors[0]}"
                for entry in entries
                if not entry.scores and entry.errors
            ]
            raise ConfigError(
                "no method could be fitted: " + "; ".join(failed[:3]),
                "See the messages above.",
            )
        return board

    def _final(
        self, board: Leaderboard, candidates: dict[str, Candidate], end: float | None
    ) -> tuple[str, Trained, str, Trained]:
        """Return the best method fitted on all rows, and the model whose coefficients are shown, each after its label.

        Within a budget, methods that take too long for the rest of it are passed over.
        """
        ranked = board.ranked()
        best = next((entry for entry in ranked if self._in_time(entry, end)), None)
        if best is None:
            best = min(ranked, key=lambda entry: max(entry.fit_seconds))
        if best is not ranked[0]:
            text = f"no time was left to fit {ranked[0].label} on all rows: the saved model is {best.label}"
            board.left_out.append(text)
        candidate = candidates[best.label]
        params = choose_over_splits(candidate.grid, list(best.grid_losses.values()))
        if self.options.calibrate:
            candidate = calibrated(chosen_candidate(candidate, best.chosen.get(0, {})))
            params = {f"{INNER}{name}": value for name, value in params.items()}
        trained = self._fit(candidate, best, params)
        joint = next(
            (
                entry
                for entry in ranked
                if entry.family == MULTITASK
                and has_coefficients(candidates[entry.label])
                and self._in_time(entry, end)
            ),
            None,
        )
        if joint is None or hasattr(trained.model.estimator, "coef_"):
            return best.label, trained, best.label, trained
        candidate = candidates[joint.label]
        params = choose_over_splits(candidate.grid, list(joint.grid_losses.values()))
        linear = self._fit(candidate, joint, params)
        return best.label, trained, joint.label, linear

    def _in_time(self, entry: ComparedMethod, end: float | None) -> bool:
        """Whether a method can be fitted on all rows before the end of the budget, as far as its fits tell."""
        if end is None:
            return True
        fits = CALIBRATED if self.options.calibrate else FINAL
        return (
            0 in entry.scores
            and fits * max(entry.fit_seconds) <= end - clock.monotonic()
        )

    def _fit(
        self, candidate: Candidate, entry: ComparedMethod, params: Mapping[str, Any]
    ) -> Trained:
        """Fit a method on all rows, unless the folder holds that model already.

        `params` are those that the searches of all splits chose.
        """
        maker = ComparisonJobs(self.protocol, self.dataset)
        training = maker.training(candidate, params)
        stored = load_trained(self.folder / MODEL, training)
        if stored is not None:
            return stored
        self.say(f"fitting {candidate.label} on all rows")
        # Starting processes takes longer than what they would save on a method that took seconds per split.
        jobs = 1 if max(entry.seconds, default=math.inf) < SHORT else self.options.jobs
        made = maker.plan_of(training.job, candidate.label, self.folder, self.data)
        return fit_training(training, self.dataset, Runner(made, Pool(jobs)))


@contextmanager
def _session(
    output: str | Path | None,
    source: TableSource,
    dataset: Dataset,
    protocol: Protocol,
    options: CompareOptions,
    say: Callable[[str], None],
) -> Iterator[_Session]:
    """Store the table beside a card and read it back, so that its jobs are those of ``mtlrun train chosen.yaml``."""
    with ExitStack() as stack:
        folder = (
            Path(output)
            if output is not None
            else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        )
        stack.enter_context(
            writing(folder, "Free some space, or choose another folder.")
        )
        folder.mkdir(parents=True, exist_ok=True)
        data = Path(
            stack.enter_context(tempfile.TemporaryDirectory(**temporary(folder)))
        )
        source = source.as_stored(dataset)
        store_table(data, data, source, dataset)
        stored = loaded(
            dataset.id,
            canonical_json({}),
            dataset_fingerprint(dataset.id, data_dir=data),
            str(data),
        )
        source.check(dataset, stored)
        yield _Session(source, folder, data, stored, protocol, options, say)


def _table(data: Any, like: Table | None) -> Table:
    if isinstance(data, str | Path):
        return read_table(data, like)
    return table_of_frame(
        data, "data frame" if like is None else "data frame of the test rows", like
    )


def short_name(file: str | Path) -> str:
    """Return what the folder of a comparison of a file, a folder or a pattern is called: its name without endings."""
    return folder_name(str(file) if has_magic(str(file)) else stem_of(file))


def _title(table: Table) -> str:
    """Return the name of a table's file without its folder.

    Raises
    ------
    DataError
        If the name has invisible characters. They are refused in cards of data, and the
        results have one with this title.
    """
    name = Path(table.name).name
    # Bytes that cannot be decoded, as in a Latin-1 name on a UTF-8 system, are no
    # choice of the user: they are written as escapes.
    title = name.encode("utf-8", "backslashreplace").decode("utf-8")
    mark = hidden(title)
    if mark is not None:
        raise DataError(
            f"{table.name}: the name of this file has the invisible character {mark}",
            "Rename the file.",
        )
    return title


def _id(table: Table) -> str:
    return (
        "own-data-frame"
        if table.source is None
        else f"own-{id_of(stem_of(table.name))}"
    )


def _candidates(
    options: CompareOptions, dataset: Dataset, protocol: Protocol, unseen: str
) -> list[Candidate]:
    found = named_candidates(
        options.methods, dataset, protocol.train, read_families(options.family)
    )
    found = [with_levels(candidate, dataset) for candidate in found]
    check_levels(dataset, found)
    return [with_unseen(candidate, unseen) for candidate in found]


def _coefficients(trained: Trained) -> pd.DataFrame | None:
    """Return tasks x features (as the feature step made them) with the intercept, None for a model without."""
    model = trained.model
    coef = getattr(model.estimator, "coef_", None)
    if coef is None:
        return None
    names = model.step.get_feature_names_out(model.about["input"]["names"])
    # An estimator of several outputs has no names of tasks: its rows are in their order.
    order = getattr(model.estimator, "tasks_", range(len(coef)))
    tasks = [model.about["tasks"][t] for t in np.asarray(order, dtype=int)]
    own = ("task", "intercept")
    columns = [own[1], *distinct(names, own)]
    values = np.column_stack(
        [np.broadcast_to(model.estimator.intercept_, len(coef)), coef]
    )
    return pd.DataFrame(values, index=pd.Index(tasks, name=own[0]), columns=columns)
