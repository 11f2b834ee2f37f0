"""Compare multi-task methods and baselines on a table of the user.

`compare_table` is the main path: read the table, fix the protocol and the methods, fit
every method on every split (`mtlrun.comparison.schedule`), judge whether multi-task
learning helps (`mtlrun.comparison.verdict`), and fit the best method to all rows.
"""

from __future__ import annotations

import math
import tempfile
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from glob import has_magic
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.comparison.candidates import (
    INNER,
    Candidate,
    calibrated,
    check_levels,
    chosen_candidate,
    has_coefficients,
    named_candidates,
    raced_labels,
    read_families,
    with_levels,
    with_unseen,
)
from mtlrun.comparison.differences import differences, tables_like
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.leaderboard import PARTS, Leaderboard, curve_of
from mtlrun.comparison.options import CompareOptions, TargetColumns
from mtlrun.comparison.predictions import (
    errors_of_folds,
    errors_of_refits,
    held_out_predictions,
    interval_facts,
    transform_advice,
)
from mtlrun.comparison.protocol import (
    Protocol,
    brief_facts,
    check_parts,
    facts_of,
    question_of,
    sizes_of,
)
from mtlrun.comparison.result import (
    MODEL,
    Comparison,
    TableComparison,
    TableSource,
    coefficient_frame,
    refuse_tables,
    store_table,
)
from mtlrun.comparison.schedule import (
    CompareSchedule,
    ComparisonJobs,
    ignore,
    usual_seconds,
)
from mtlrun.comparison.verdict import (
    INDEPENDENT,
    MULTITASK,
    VERDICT_FAMILIES,
    judge,
    strategies_of,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.reading.named_columns import label_list, matching, target_columns
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import Table, table_of_frame
from mtlrun.data.roles.check import alarm_lines, findings
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.splits import NEW_TASK
from mtlrun.engine.evaluation import has_std
from mtlrun.engine.job import OWN_FRAME, OWN_TABLE, choose_over_splits
from mtlrun.engine.run import Runner
from mtlrun.errors import ConfigError, DataError
from mtlrun.metrics.registry import get_metric
from mtlrun.model.train import Trained, fit_training, load_trained
from mtlrun.parallel.pool import Pool
from mtlrun.parallel.progress import Progress
from mtlrun.utils.io import make_folder, writing
from mtlrun.utils.temporary import temporary_folder
from mtlrun.utils.text import folder_name, hidden, id_of, stem_of

#: Share of the budget for the fits of the comparison; the rest is for the final model.
FITS_SHARE_OF_BUDGET = 0.9
#: Seconds per split of a method below which its final model is fitted in one process:
#: starting more takes longer than they would save.
SINGLE_PROCESS_SECONDS = 5.0
#: A final model may take this many times as long as the slowest fit of its method. It
#: is fitted to the training rows of the first split and to all rows.
FINAL_FIT_FACTOR = 3
#: The same with calibration, which fits three more models for each of these fits.
CALIBRATED_FIT_FACTOR = 12
#: Tests of differences between tasks are made if they take this share of the budget;
#: they pass over about so many products of entries of a row in a second.
TESTS_SHARE_OF_BUDGET = 0.05
PRODUCTS_PER_SECOND = 5e6
#: Shares of the training rows with which a budget is tried, where all may be too many.
TRIED_SHARES = (0.05, 0.2, 0.5)
#: Fewer rows than this are never thinned: it is not the rows that take the time.
MIN_THINNED_ROWS = 1000
#: One split of the methods that each verdict needs may take this share of the time
#: until the deadline; with fewer training rows if it would take more.
MAX_SHARE_OF_FIRST_METHODS = 0.5
#: Fits of large tables take up to this many times their usual seconds.
SLOWDOWN = 20


def compare_table(
    data: Any,
    columns: TargetColumns,
    roles: Roles,
    options: CompareOptions,
    *,
    test: Any = None,
    output: str | Path | None = None,
    explain: bool = True,
    say: Callable[[str], None] = ignore,
    finished: Callable[[Leaderboard], None] = ignore,
) -> Comparison:
    """Compare methods on a table in memory; see `mtlrun.compare` for the errors.

    Parameters
    ----------
    data : DataFrame, or path of a file
    columns : TargetColumns
    roles : Roles
        All other roles of columns; `columns` names the targets.
    options : CompareOptions
    explain : bool, default True
        Whether messages describe the protocol. The report does so in any case.
    """
    started = clock.monotonic()
    cluster_options = {"backend": options.backend, "scheduler": options.scheduler}
    for name, value in cluster_options.items():
        if value:
            raise ConfigError(
                f"--{name} is for data in chunks: a folder of files", "Use --jobs."
            )
    read_families(options.family)
    has_targets = bool(columns.target or columns.targets or columns.targets_last)
    data, labels = label_list(data, columns.labels, other=has_targets)
    table = _read_table(data, None)
    test_table = None
    if test is not None:
        test_table = _read_table(test, table)
    # Names of columns may be patterns, which are matched with the table.
    drop = matching(roles.drop, table)
    targets = target_columns(
        table,
        columns.target,
        columns.targets,
        columns.targets_last,
        labels,
        drop,
    )
    unseen = roles.unseen
    if roles.new_tasks:
        # All tested tasks are new.
        unseen = "mean"
    roles = replace(
        roles,
        targets=targets,
        drop=drop,
        categorical=matching(roles.categorical, table),
        keep=matching(roles.keep, table),
        also_grouped_by=matching(roles.also_grouped_by, table),
        unseen=unseen,
    )
    source = TableSource(table, test_table, roles)
    dataset = make_dataset(source.table, source.roles, source.test_table)
    # The data set is named after the file of the table.
    id = OWN_FRAME
    if table.source is not None:
        id = f"{OWN_TABLE}{id_of(stem_of(table.name))}"
    dataset = replace(dataset, id=id, title=_title(table))
    if options.calibrate and dataset.task_type == "regression":
        raise ConfigError(
            "--calibrate needs targets that are labels", "Leave it out for regression."
        )
    protocol = Protocol.of(dataset, options)
    if options.curve and protocol.split.kind != "kfold":
        raise ConfigError(
            "--curve needs cross-validation, not a file of test rows",
            "Leave out --curve or --test.",
        )
    check_parts(dataset, protocol)
    candidates = _candidates(options, dataset, protocol, source.roles.unseen)
    facts = facts_of(dataset, protocol, source.roles, candidates)
    outlooks = [tables_like(dataset, protocol.train)]
    test_seconds = dataset.n_samples * dataset.n_features**2 / PRODUCTS_PER_SECOND
    allowed_seconds = TESTS_SHARE_OF_BUDGET * 60 * (options.budget or math.inf)
    # A comparison of baselines alone is about something else.
    has_multitask = any(candidate.family == MULTITASK for candidate in candidates)
    if has_multitask and test_seconds <= allowed_seconds:
        outlooks.insert(0, differences(dataset))
    remarks = [*dataset.edits, *(line for line in outlooks if line)]
    remarks += alarm_lines(findings(source.table, source.roles))
    facts += remarks
    lines = facts
    if not explain:
        lines = [*brief_facts(dataset, candidates), *remarks]
    for line in lines:
        say(line)
    with _open_session(output, source, dataset, protocol, options, say) as session:
        return session.run(candidates, facts, started, finished)


# ---------------------------------------------------------------- reading the table


def refuse_output(output: Path, data: Any, test: Any) -> None:
    """Refuse an output folder whose results would be written over the tables."""
    tables = list(data) if isinstance(data, list | tuple) else [data]
    tables.append(test)
    paths = [Path(table) for table in tables if isinstance(table, str | Path)]
    refuse_tables(output, paths)


def _read_table(data: Any, train_table: Table | None) -> Table:
    """Read a file or a data frame; test rows are read like their training table."""
    if isinstance(data, str | Path):
        return read_table(data, train_table)
    name = "data frame"
    if train_table is not None:
        name = "data frame of the test rows"
    return table_of_frame(data, name, train_table)


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


def short_name(file: str | Path) -> str:
    """Return the folder name of a comparison: the name of its data without endings.

    Parameters
    ----------
    file : str or Path
        A file, a folder or a pattern.
    """
    if has_magic(str(file)):
        return folder_name(str(file))
    return folder_name(stem_of(file))


def _candidates(
    options: CompareOptions, dataset: Dataset, protocol: Protocol, unseen: str
) -> list[Candidate]:
    """Return the methods to compare, adapted to the groups and the unseen tasks."""
    candidates = named_candidates(
        options.methods, dataset, protocol.train, read_families(options.family)
    )
    if dataset.levels:
        candidates = [with_levels(candidate, dataset) for candidate in candidates]
        check_levels(dataset, candidates)
    return [with_unseen(candidate, unseen) for candidate in candidates]


# ---------------------------------------------------------------- computing


@contextmanager
def _open_session(
    output: str | Path | None,
    source: TableSource,
    dataset: Dataset,
    protocol: Protocol,
    options: CompareOptions,
    say: Callable[[str], None],
) -> Iterator[_Session]:
    """Open the folder of the jobs, and store the table if workers have to load it."""
    with ExitStack() as stack:
        if output is not None:
            folder = Path(output)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(
            writing(folder, "Free some space, or choose another folder.")
        )
        make_folder(folder)
        data_dir = None
        # Jobs with a deadline run in a worker process, too.
        has_workers = not Pool(options.jobs).is_serial or options.budget is not None
        # A data frame that cannot be stored is refused before it is compared.
        if has_workers or (output is not None and source.has_frames):
            data_dir = stack.enter_context(temporary_folder(folder))
        source = source.as_stored(dataset)
        dataset = store_table(source, dataset, data_dir)
        yield _Session(source, folder, data_dir, dataset, protocol, options, say)


@dataclass(frozen=True)
class _FinalModels:
    """Models that are fitted to all rows after the comparison.

    Attributes
    ----------
    label : str
        Method of the saved model.
    trained : Trained
        The saved model.
    linear_label : str
        Method of the model whose coefficients are shown.
    linear : Trained
        That model; the saved one unless it has no coefficients.
    """

    label: str
    trained: Trained
    linear_label: str
    linear: Trained


@dataclass(frozen=True)
class _Session:
    """Computation of a comparison.

    Attributes
    ----------
    source : TableSource
    folder : Path
        Folder of the jobs.
    data_dir : Path or None
        Holds the table as a stored data set, for worker processes.
    dataset : Dataset
        The table, with the fingerprint of its stored copy.
    protocol : Protocol
    options : CompareOptions
    say : callable
    """

    source: TableSource
    folder: Path
    data_dir: Path | None
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
        """Compute all fits, and from the best method the rest of the result.

        Parameters
        ----------
        candidates : list of Candidate
        facts : list of str
            Sentences about the table and the protocol.
        started : float
            When the budget began, by `time.monotonic`.
        finished : callable
            Called after every fit with the leaderboard so far.
        """
        # No fit of the comparison starts after the deadline. The rest of the budget is
        # for the final models.
        session = self
        budget_end = None
        deadline = None
        if self.options.budget is not None:
            budget_end = started + self.options.budget * 60
            deadline = started + FITS_SHARE_OF_BUDGET * (budget_end - started)
            share = self._affordable_share(deadline, facts, finished)
            if share < 1:
                facts.append(
                    f"only {share:.0%} of the training rows of every task are used: "
                    "with all of them, the budget ends before there is a verdict"
                )
                protocol = self.protocol.with_train_share(share)
                session = replace(self, protocol=protocol)
                candidates = self._candidates(protocol)
        return session._compute(candidates, facts, deadline, budget_end, finished)

    def _affordable_share(
        self,
        deadline: float,
        facts: list[str],
        finished: Callable[[Leaderboard], None],
    ) -> float:
        """Return the largest share of training rows that the time allows.

        The methods that each verdict needs are fitted in one split, to more and more
        rows, as long as the time is enough for a split with the next share. One split
        with all rows is better than all splits with a part, which favors pooling.
        """
        if self.options.curve or self.protocol.split.kind != "kfold":
            return 1.0
        n_rows = self.dataset.n_samples
        shares = [share for share in TRIED_SHARES if share * n_rows >= MIN_THINNED_ROWS]
        for share, next_share in pairwise([*shares, 1.0]):
            protocol = self.protocol.with_train_share(share)
            candidates = self._candidates(protocol)
            evaluation = protocol.evaluation(self.dataset)
            schedule = self._schedule(protocol, candidates, evaluation, deadline)
            usual = SLOWDOWN * sum(schedule.usual[label] for label in schedule.first)
            allowed = MAX_SHARE_OF_FIRST_METHODS * (deadline - clock.monotonic())
            if usual / share <= allowed:
                return 1.0
            schedule.is_probe = True
            if finished is not ignore:
                schedule.finished = partial(self._report, schedule, facts, finished)
            entries = schedule.run()
            seconds = sum(sum(entry.seconds) for entry in entries)
            allowed = MAX_SHARE_OF_FIRST_METHODS * (deadline - clock.monotonic())
            if seconds * next_share / share > allowed:
                return share
        return 1.0

    def _compute(
        self,
        candidates: list[Candidate],
        facts: list[str],
        deadline: float | None,
        budget_end: float | None,
        finished: Callable[[Leaderboard], None],
    ) -> Comparison:
        """Compute all fits until the deadline, and the rest of the result."""
        evaluation = self.protocol.evaluation(self.dataset)
        schedule = self._schedule(self.protocol, candidates, evaluation, deadline)
        if finished is not ignore:
            schedule.finished = partial(self._report, schedule, facts, finished)
        entries = schedule.run()
        board = self._board(entries, evaluation, facts, schedule.left_out)
        keys = []
        for (label, trial), job in schedule.computed_jobs().items():
            keys.append({"method": label, "trial": trial, "key": job.key})
        roles = self.source.roles
        question = f"{question_of(self.dataset)}: {', '.join(self.dataset.targets)}"
        if roles.task is not None:
            question += f" by {roles.task}"
        for detail in (roles.time, roles.group, roles.transform):
            if detail:
                question += f", {detail}"
        compare_json = {
            "options": self.options.protocol_options(),
            "metric": self.protocol.metric,
            "split": self.protocol.split.of_all_trials,
            "question": question,
            "cells": keys,
        }
        # The comparisons of the curve have the same deadline and use what is left of it.
        curve = None
        if self.options.curve:
            curve = self._curve(board, deadline)
        strategies, _ = strategies_of(board.entries, evaluation)
        held_out = held_out_predictions(evaluation, strategies, schedule.read_scores)
        candidates_by_label = {candidate.label: candidate for candidate in candidates}
        models = self._final_models(board, candidates_by_label, budget_end)
        self._add_intervals(board, schedule, models)
        return TableComparison(
            board=board,
            dataset=self.dataset,
            trained=models.trained,
            source=self.source,
            coefficients=_coefficients(models.linear),
            coefficients_of=models.linear_label,
            cells=compare_json,
            curve=curve,
            saved=models.label,
            held_out=held_out,
        )

    def _candidates(self, protocol: Protocol) -> list[Candidate]:
        """Return the methods to compare for a share of the training rows."""
        unseen = self.source.roles.unseen
        return _candidates(self.options, self.dataset, protocol, unseen)

    def _report(
        self,
        schedule: CompareSchedule,
        facts: list[str],
        finished: Callable[[Leaderboard], None],
        entries: list[ComparedMethod],
    ) -> None:
        """Hand on the leaderboard of the fits so far."""
        if any(entry.score is not None for entry in entries):
            progress = schedule.progress()
            left_out = [f"unfinished: {progress.text}"]
            board = self._board(entries, schedule.evaluation, facts, left_out)
            title = f"Unfinished: {board.title}"
            finished(replace(board, title=title, progress=progress))

    def _schedule(
        self,
        protocol: Protocol,
        candidates: list[Candidate],
        evaluation: Evaluation,
        deadline: float | None,
    ) -> CompareSchedule:
        """Return the computation of methods on all splits."""
        jobs = ComparisonJobs(protocol, self.dataset)
        plan = jobs.plan(candidates, self.folder, self.data_dir)
        runner = Runner(
            plan,
            Pool(self.options.jobs),
            Progress(self.say),
            retries=self.options.retries,
        )
        raced = []
        if self.options.racing:
            raced = raced_labels(
                candidates, self.options.methods, self.dataset, protocol.train
            )
        return CompareSchedule(
            candidates,
            {(row.method, row.trial): row.job for row in plan.rows},
            runner,
            evaluation,
            deadline,
            self.say,
            usual=usual_seconds(
                candidates, self.dataset, self.options.folds, protocol.train
            ),
            raced=raced,
        )

    # ------------------------------------------------------------ leaderboards

    def _board(
        self,
        entries: list[ComparedMethod],
        evaluation: Evaluation,
        facts: list[str],
        left_out: list[str],
    ) -> Leaderboard:
        """Return the leaderboard; refuse one without any score."""
        independent = [entry for entry in entries if entry.family == INDEPENDENT]
        board = Leaderboard(
            title=f"Does multi-task learning help on {self.dataset.title}?",
            metric=self.protocol.metric,
            greater=get_metric(self.protocol.metric).greater_is_better,
            tasks=self.dataset.tasks,
            sizes=sizes_of(self.dataset),
            entries=entries,
            evaluation=evaluation,
            against=independent[0].label,
            facts=facts,
            left_out=left_out,
        )
        if not board.ranked():
            errors = [
                f"{entry.label}: {entry.errors[0]}"
                for entry in entries
                if not entry.scores and entry.errors
            ]
            raise ConfigError(
                "no method could be fitted: " + "; ".join(errors[:3]),
                "See the messages above.",
            )
        return board

    def _curve(self, board: Leaderboard, deadline: float | None) -> pd.DataFrame:
        """Repeat the comparison after training on parts of the rows.

        The jobs of these comparisons are kept like all others.
        """
        verdicts = {1.0: board.answer}
        # Tasks keep a few rows in each part, so parts of small tasks may be the same
        # rows. Parts are nested: they are the same if they have as many rows.
        shares: dict[tuple[int, ...], float] = {}
        for share in PARTS:
            protocol = self.protocol.with_train_share(share)
            n_train = protocol.evaluation(self.dataset).n_train
            shares[tuple(n_train)] = share
        for sizes, share in shares.items():
            if share in verdicts:
                # The main comparison was trained on all rows.
                continue
            self.say(f"training on {share:.0%} of the rows of every task")
            protocol = self.protocol.with_train_share(share)
            candidates = [
                candidate
                for candidate in self._candidates(protocol)
                if candidate.family in VERDICT_FAMILIES
            ]
            # The same test rows, but fewer training rows.
            evaluation = replace(board.evaluation, n_train=list(sizes))
            schedule = self._schedule(protocol, candidates, evaluation, deadline)
            verdicts[share] = judge(schedule.run(), evaluation)

        def training_rows(share: float) -> np.ndarray:
            train, _ = self.protocol.with_train_share(share).rows(self.dataset, 0)
            return train

        return curve_of(verdicts, self.dataset, training_rows)

    # ------------------------------------------------------------ final models

    def _final_models(
        self,
        board: Leaderboard,
        candidates: dict[str, Candidate],
        budget_end: float | None,
    ) -> _FinalModels:
        """Fit the best method to all rows, and one with coefficients if it has none.

        Within a budget, methods that would take too long are passed over.
        """
        ranked = board.ranked()
        best = self._first_in_budget(ranked, budget_end)
        if best is None:
            best = min(ranked, key=lambda entry: max(entry.fit_seconds))
        if best is not ranked[0]:
            sentence = (
                f"no time was left to fit {ranked[0].label} on all rows: the saved "
                f"model is {best.label}; a larger --budget saves {ranked[0].label}"
            )
            board.left_out.append(sentence)
            self.say(sentence)
        candidate = candidates[best.label]
        params = choose_over_splits(candidate.grid, list(best.grid_losses.values()))
        if self.options.calibrate:
            # The job of the first split has the parameters that were selected there,
            # the final model the parameters that all splits select together.
            candidate = calibrated(chosen_candidate(candidate, best.chosen.get(0, {})))
            # In a calibrated method, they are parameters of its inner estimator.
            params = {f"{INNER}{name}": value for name, value in params.items()}
        trained = self._fit(candidate, best, params)
        if hasattr(trained.model.estimator, "coef_"):
            return _FinalModels(best.label, trained, best.label, trained)
        multitask = [entry for entry in ranked if entry.family == MULTITASK]
        linear = [
            entry for entry in multitask if has_coefficients(candidates[entry.label])
        ]
        best_linear = self._first_in_budget(linear, budget_end)
        if best_linear is None:
            return _FinalModels(best.label, trained, best.label, trained)
        candidate = candidates[best_linear.label]
        losses = list(best_linear.grid_losses.values())
        params = choose_over_splits(candidate.grid, losses)
        linear_trained = self._fit(candidate, best_linear, params)
        return _FinalModels(best.label, trained, best_linear.label, linear_trained)

    def _first_in_budget(
        self, entries: Iterable[ComparedMethod], budget_end: float | None
    ) -> ComparedMethod | None:
        """Return the first method that can be fitted on all rows in time.

        The estimate is based on its slowest fit, and on its share of the rows.
        """
        factor = FINAL_FIT_FACTOR
        if self.options.calibrate:
            factor = CALIBRATED_FIT_FACTOR
        for entry in entries:
            if budget_end is None:
                return entry
            # The final model is also fitted to the training rows of split 0. A method
            # has no score there if it failed or was stopped.
            if 0 not in entry.scores:
                continue
            seconds = max(entry.fit_seconds) / self.protocol.train_share
            if factor * seconds <= budget_end - clock.monotonic():
                return entry
        return None

    def _fit(
        self, candidate: Candidate, entry: ComparedMethod, params: Mapping[str, Any]
    ) -> Trained:
        """Fit a method on all rows, unless the folder already holds that model."""
        jobs = ComparisonJobs(self.protocol, self.dataset)
        training = jobs.training(candidate, params)
        stored = load_trained(self.folder / MODEL, training)
        if stored is not None:
            return stored
        self.say(f"fitting {candidate.label} on all rows")
        n_jobs = self.options.jobs
        if max(entry.seconds, default=math.inf) < SINGLE_PROCESS_SECONDS:
            n_jobs = 1
        plan = jobs.plan_of(
            [(candidate.label, training.job)], self.folder, self.data_dir
        )
        return fit_training(training, self.dataset, Runner(plan, Pool(n_jobs)))

    def _add_intervals(
        self, board: Leaderboard, schedule: CompareSchedule, models: _FinalModels
    ) -> None:
        """Give the saved model prediction intervals, and report their coverage.

        Intervals come from the errors on held-out rows. Tasks of the table ("known")
        and new tasks have different errors: one of them was tested by the comparison,
        and refits without the rows of each fold test the other one.
        """
        if self.dataset.task_type != "regression":
            return
        evaluation = board.evaluation
        predicted = {}
        for split in range(evaluation.n_folds):
            scores = schedule.read_scores(models.label, split)
            if scores is not None:
                predicted[split] = scores
        if not predicted:
            return
        has_new_tasks = NEW_TASK in self.dataset.source
        tested_kind = "known"
        other_kind = "new"
        if has_new_tasks:
            tested_kind = "new"
            other_kind = "known"
        job = schedule.jobs[models.label, 0]
        model = models.trained.model
        params = model.description.estimator.params
        errors = {tested_kind: errors_of_folds(evaluation, predicted)}
        if has_std(model.estimator):
            # Records hold predictions without their standard deviations.
            errors[tested_kind] = errors_of_refits(
                job, self.dataset, params, new_tasks=has_new_tasks
            )
        predicts_new_tasks = self.source.roles.unseen == "mean"
        if self.dataset.task_id is not None and predicts_new_tasks:
            errors[other_kind] = errors_of_refits(
                job, self.dataset, params, new_tasks=not has_new_tasks
            )
        facts, sentences = interval_facts(errors, self.dataset)
        model.facts = {**model.about, "intervals": facts}
        lines = [f"{models.label}: {sentence}" for sentence in sentences]
        lines += transform_advice(errors, self.dataset)
        board.facts += lines
        board.interval_lines = lines


def _coefficients(trained: Trained) -> pd.DataFrame | None:
    """Return the intercept and the coefficients of each task.

    Returns
    -------
    DataFrame of shape (n_tasks, 1 + n_features), or None
        Columns are the features after preprocessing. None for a model without
        coefficients.
    """
    model = trained.model
    coef = getattr(model.estimator, "coef_", None)
    if coef is None:
        return None
    names = model.step.get_feature_names_out(model.description.input.names)
    # The rows of an estimator of several outputs are in the order of the tasks.
    order = getattr(model.estimator, "tasks_", range(len(coef)))
    tasks = [model.description.tasks[t] for t in np.asarray(order, dtype=int)]
    intercepts = np.broadcast_to(model.estimator.intercept_, len(coef))
    return coefficient_frame(tasks, intercepts, coef, names)
