"""Jobs of a comparison, the order in which they are computed, and their results.

Methods that each verdict needs come first, on all splits, then the others in the order
of their list. Methods of the default list race in each training part
(`mtlrun.comparison.racing`): most of them are stopped there after the first inner folds
of their search.

With a deadline, the methods that each verdict needs are computed split by split, so
that there is a verdict from the first split on. Their multi-task method is then the one
that is usually the fastest, and the others come by increasing cost. The race is left
out if it would take too much of the time.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from mtlrun.catalog.methods import Method
from mtlrun.comparison.candidates import (
    POOLED_TREES,
    SINGLE_KERNEL_RIDGE,
    SINGLE_TREES,
    Candidate,
    core,
    is_smooth,
)
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.racing import format_deficit, n_first_folds, race
from mtlrun.comparison.verdict import (
    MULTITASK,
    NATIVE,
    POOLED,
    TRIVIAL,
    VERDICT_FAMILIES,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.load import table_source_name
from mtlrun.engine.job import (
    HALVING,
    TABLE,
    DatasetRef,
    Features,
    Job,
    JobBuilder,
    Scoring,
    Search,
    searched_method,
)
from mtlrun.engine.plan import JobPlan, PlannedJob
from mtlrun.engine.record import Record
from mtlrun.engine.run import Runner
from mtlrun.metrics.registry import get_metric
from mtlrun.model.train import TrainingJob
from mtlrun.parallel.pool import Pool
from mtlrun.parallel.status import NOT_CONVERGED
from mtlrun.show.report_table import duration, show
from mtlrun.utils.sizes import PLANNED, allow

#: The race is left out if its searches would take more than this share of the time
#: until the deadline.
MAX_RACE_SHARE = 0.5
#: Seconds after which the results so far are reported again while searches run.
REPORT_SECONDS = 1.0
#: A fit of a convex model to labels takes this many times as long as one to numbers.
LABELS_FACTOR = 10.0
#: Models with two penalties take about half as long again.
TWO_PENALTIES = ("Dirty", "SparseLowRank", "Robust")
#: The remaining time is estimated once the finished methods usually take this share of
#: the time of all methods. The first one takes 2 ms, and the program starts meanwhile.
MIN_FINISHED_SHARE = 0.02
#: Label of a method, and number of a split.
MethodSplit = tuple[str, int]
#: Receives all results so far, after each fit.
Finished = Callable[[list[ComparedMethod]], None]


#: Records keep the scores of the test rows, from which verdicts are computed.
KEEP = "predictions"


@dataclass(frozen=True)
class ComparisonJobs:
    """Creation of the jobs of a comparison.

    They have the keys of an experiment on the same table, so that ``mtlrun train`` with
    the training file of the best method finds them.

    Attributes
    ----------
    protocol : Protocol
    dataset : Dataset
        The table, with the fingerprint of its stored copy.
    """

    protocol: Protocol
    dataset: Dataset

    @cached_property
    def _builder(self) -> JobBuilder:
        return JobBuilder(
            dataset=DatasetRef(self.dataset.id, {}, self.dataset.fingerprint),
            source=table_source_name(self.dataset.options),
            seed=self.protocol.seed,
        )

    def job(self, candidate: Candidate, trial: int) -> Job:
        """Return the job that fits and scores a method on a split."""
        (job,) = self._jobs(candidate, [trial])
        return job

    def _jobs(self, candidate: Candidate, trials: Iterable[int]) -> list[Job]:
        return self._builder.jobs(
            Method(candidate.estimator, params=candidate.params),
            [replace(self.protocol.split, trial=trial) for trial in trials],
            Scoring((self.protocol.metric,), keep=(KEEP,)),
            features=Features(candidate.features or TABLE),
            search=self._search(candidate),
        )

    def plan(
        self, candidates: Sequence[Candidate], folder: Path, data_dir: Path | None
    ) -> JobPlan:
        """Return the jobs of some methods on all splits, stored below a folder.

        Worker processes load the table from `data_dir`.
        """
        n_splits = self.protocol.n_splits
        n_jobs = len(candidates) * n_splits * (1 + self.protocol.n_inner_folds)
        name = self.dataset.title
        allow(name, n_jobs, PLANNED, "results and folds", "Lower splits or folds.")
        jobs = []
        for candidate in candidates:
            for job in self._jobs(candidate, range(n_splits)):
                jobs.append((candidate.label, job))
        return self.plan_of(jobs, folder, data_dir)

    def plan_of(
        self,
        jobs: Iterable[tuple[str, Job]],
        folder: Path,
        data_dir: Path | None,
    ) -> JobPlan:
        """Return the plan of some jobs and their labels, stored below a folder."""
        rows = []
        for label, job in jobs:
            row = PlannedJob(
                reading="",
                dataset=self.dataset.id,
                value=None,
                method=label,
                trial=job.split.trial,
                key=job.key,
                job=job,
            )
            rows.append(row)
        return JobPlan(
            id=self._id,
            rows=tuple(rows),
            folder=folder,
            output=folder,
            data_dir=data_dir,
            dataset=self.dataset,
        )

    def training(
        self, candidate: Candidate, params: Mapping[str, Any] | None = None
    ) -> TrainingJob:
        """Return a method as a model to train, with the job of the first split.

        Parameters
        ----------
        candidate : Candidate
        params : mapping, optional
            Parameters of the model that is fitted to all rows. Default: the parameters
            that the search of the first split selects.
        """
        refit: bool | dict[str, Any] = dict(params) if params else True
        method: dict[str, Any] = {
            "estimator": candidate.estimator,
            "params": dict(candidate.params),
            "grid": copy.deepcopy(candidate.grid),
            "select_with": dict(candidate.select_with),
        }
        if candidate.halving:
            method["halving"] = True
        if candidate.is_scored:
            method["scored"] = True
        config = {
            "schema": 1,
            "id": self._id,
            "title": f"{candidate.label} on {self.dataset.title}",
            "kind": "train",
            "split": self.protocol.split.of_all_trials,
            "metrics": [self.protocol.metric],
            "features": candidate.features or TABLE,
            "keep": [KEEP],
            "seed": self.protocol.seed,
            "selection": {
                "folds": self.protocol.n_inner_folds,
                "metric": self.protocol.metric,
            },
            "refit": refit,
            "average": "task",
            "dataset": {"id": self.dataset.id},
            "method": method,
        }
        return TrainingJob(
            job=self.job(candidate, 0),
            id=self._id,
            source=self.dataset.title,
            dataset_name=self.dataset.id,
            dataset_options={},
            estimator=candidate.estimator,
            refit=refit,
            config=config,
        )

    @property
    def _id(self) -> str:
        return f"compare/{self.dataset.id}"

    def _search(self, candidate: Candidate) -> Search | None:
        """Return the search of a method, None if it needs none."""
        if not candidate.grid and not candidate.is_scored:
            return None
        return Search(
            grid=copy.deepcopy(candidate.grid),
            folds=self.protocol.n_inner_folds,
            metric=self.protocol.metric,
            seed=0,
            method=searched_method(
                candidate.estimator, candidate.params, candidate.select_with
            ),
            on=HALVING if candidate.halving else "folds",
        )


# ---------------------------------------------------------------- their computation


def ignore(_: object) -> None:
    """Do nothing with a message or with results."""


@dataclass
class CompareSchedule:
    """Computation of the jobs of a comparison, which collects their records.

    Attributes
    ----------
    candidates : sequence of Candidate
        In the order of the list, which decides between equal methods.
    jobs : dict of (label, split) to Job
    runner : Runner
    evaluation : Evaluation
    deadline : float or None
        By `time.monotonic`: no job starts after it, and running ones are stopped. No
        number depends on it.
    say : callable
        Receives messages.
    finished : callable
        Receives all results so far after each fit, and every few seconds of searches.
    left_out : list of str
        Sentences about methods that were stopped or not finished in time.
    usual : mapping of str to float
        Label -> usual seconds of a split, from `usual_seconds`.
    raced : sequence of str
        Labels of the methods that may be stopped after the first inner folds of a
        training part, from `mtlrun.comparison.candidates.raced_labels`.
    is_probe : bool
        Whether only the first split of the methods that each verdict needs is computed,
        to see how long it takes.
    first : list of str
        Labels of the methods that each verdict needs: baselines and one multi-task
        method.
    entries : dict of str to ComparedMethod
        Results by label.
    halved : dict of (label, split) to Job
        Searches that halve their candidates after the race, as they were planned.
    keys_by_job : dict of str to list of (label, split)
        Key of a job -> methods and splits whose result it is. Methods may share a job.
    pending : set of (label, split)
        Results that are missing.
    raced_splits : set of int
        Splits in which the race is over.
    started : float
        Start of the computation by `time.monotonic`.
    worked : float
        Seconds of all processes since then.
    running : str
        Method that is being computed.
    reported : float
        Time of the last report by `time.monotonic`.
    """

    candidates: Sequence[Candidate]
    jobs: dict[MethodSplit, Job]
    runner: Runner
    evaluation: Evaluation
    deadline: float | None = None
    say: Callable[[str], None] = ignore
    finished: Finished = ignore
    left_out: list[str] = field(default_factory=list)
    usual: Mapping[str, float] = field(default_factory=dict)
    raced: Sequence[str] = ()
    is_probe: bool = False

    def __post_init__(self) -> None:
        self.entries = {
            c.label: ComparedMethod(c.label, c.family) for c in self.candidates
        }
        self.jobs = dict(self.jobs)
        # Baselines and one multi-task method come first. With a deadline, it is the one
        # that is usually the fastest.
        self.first = [candidate.label for candidate in core(self.candidates)]
        multitask = [c.label for c in self.candidates if c.family == MULTITASK]
        if self.deadline is not None and multitask:
            self.first[-1] = min(multitask, key=self._place_by_cost)
        self.raced = [label for label in self.raced if label not in self.first]
        # Raced methods visit all inner folds: the race halves their candidates itself.
        self.halved: dict[MethodSplit, Job] = {}
        for key, job in self.jobs.items():
            label, _ = key
            if label not in self.raced or job.search is None:
                continue
            if job.search.on == HALVING:
                search = replace(job.search, on="folds")
                self.jobs[key] = replace(job, search=search)
                self.halved[key] = job
        self.keys_by_job: dict[str, list[MethodSplit]] = {}
        for key, job in self.jobs.items():
            self.keys_by_job.setdefault(job.key, []).append(key)
        self.pending = set(self.jobs)
        self.raced_splits: set[int] = set()
        self.runner.on_finished = self._add
        self.started = time.monotonic()
        self.worked = 0.0
        self.running = ""
        self.reported = -math.inf

    def run(self) -> list[ComparedMethod]:
        """Compute all jobs, or as many as the deadline allows.

        Returns
        -------
        list of ComparedMethod
            Results of all methods.
        """
        self.started = time.monotonic()
        original_pool = self.runner.pool
        # Set before `working`: a serial pool without a deadline keeps no workers.
        self.runner.pool = replace(
            original_pool,
            deadline=self.deadline,
            stop_at_deadline=self.deadline is not None,
        )
        try:
            with self.runner.working():
                for number, wave in enumerate(self._waves()):
                    self.running = wave[0][0]
                    self._race(wave, self.runner.pool)
                    self._compute_wave(wave, self.runner.pool, is_first=number == 0)
                if self.raced_splits:
                    self._fit_stopped(self.runner.pool)
                    self._report_stopped()
        finally:
            # With a deadline that has passed, the runner would compute nothing more.
            self.runner.pool = original_pool
        if self.pending:
            labels_by_number: dict[int, list[str]] = {}
            for label in self.entries:
                n_missing = sum(key[0] == label for key in self.pending)
                if n_missing:
                    labels_by_number.setdefault(n_missing, []).append(label)
            n_splits = len(self.evaluation.rows)
            for n_missing, labels in labels_by_number.items():
                self.left_out.append(
                    f"no time was left for {n_missing} of {n_splits} splits of "
                    f"{', '.join(labels)}"
                )
        return list(self.entries.values())

    def _waves(self) -> Iterator[list[MethodSplit]]:
        """Yield the jobs that are computed together: a method on some splits.

        Methods that come first are computed repeat by repeat, the others on all splits
        at once. With a deadline these are computed repeat by repeat, too: half of the
        splits are better than half of the folds of all searches. In the first repeat,
        the methods that come first are then computed split by split.
        """
        if self.is_probe:
            for label in self.first:
                yield [(label, 0)]
            return
        n_folds = self.evaluation.n_folds
        others = [c.label for c in self.candidates if c.label not in self.first]
        parts = [
            range(repeat * n_folds, (repeat + 1) * n_folds)
            for repeat in range(self.evaluation.n_repeats)
        ]
        later_parts = parts
        if self.deadline is not None and parts:
            trivial, *labels = self.first
            yield [(trivial, split) for split in parts[0]]
            for split in parts[0]:
                for label in labels:
                    yield [(label, split)]
            later_parts = parts[1:]
            others.sort(key=self._place_by_cost)
        for splits in later_parts:
            for label in self.first:
                yield [(label, split) for split in splits]
        if self.deadline is None and parts:
            parts = [range(parts[-1].stop)]
        for label in others:
            for splits in parts:
                yield [(label, split) for split in splits]

    def _place_by_cost(self, label: str) -> float:
        """Return the usual seconds of a method, for smooth ones those of the slowest.

        They keep their order: without its baselines, a smooth model would credit curves
        to sharing.
        """
        if not is_smooth(label):
            return self.usual.get(label, 0.0)
        return max(
            self.usual.get(other, 0.0) for other in self.entries if is_smooth(other)
        )

    def _race(self, wave: Sequence[MethodSplit], pool: Pool) -> None:
        """Search all methods on the first inner folds, and stop those far behind.

        Nothing happens for methods that are not raced, and in splits where the race is
        over. Methods that are not raced are rivals of the others.
        """
        wave_splits = {split for label, split in wave if label in self.raced}
        splits = sorted(wave_splits - self.raced_splits)
        if splits and not self._has_time_to_race():
            # All methods are searched in full, as they were planned.
            self.raced = []
            for key, job in self.halved.items():
                _, split = key
                if split not in self.raced_splits:
                    self._replace_job(key, job)
            return
        families = {}
        for candidate in self.candidates:
            if candidate.family in VERDICT_FAMILIES:
                families[candidate.label] = candidate.family
        jobs = {}
        for label in families:
            for split in splits:
                job = self.jobs[label, split]
                if job.search is not None:
                    jobs[label, split] = self._first_folds(job)
        if not jobs:
            return
        self.runner.search(list(jobs.values()), pool)
        if pool.is_past_deadline:
            # Nothing starts any more, and some searches are missing.
            return
        self.raced_splits.update(splits)
        for split in splits:
            means = {}
            for label in families:
                if (label, split) not in jobs:
                    continue
                choice = self.runner.choices.get(jobs[label, split].key)
                if choice is not None:
                    means[label] = choice.means or []
            # Approximate number of targets in the first inner folds.
            is_defined = ~np.isnan(self.evaluation.y)
            tested = self.evaluation.rows[split]
            n_training = np.count_nonzero(is_defined)
            n_training -= np.count_nonzero(is_defined[tested])
            n_folds = self._n_inner_folds()
            n_first_targets = n_training * n_first_folds(n_folds) / n_folds
            result = race(
                self.evaluation.metric,
                means,
                families,
                self.raced,
                n_first_targets,
            )
            for label, distance in result.stopped.items():
                self.entries[label].stopped[split] = distance
            for label, survivors in result.survivors.items():
                self._drop_candidates((label, split), means[label], survivors)

    def _has_time_to_race(self) -> bool:
        """Whether the searches of the race leave enough time until the deadline."""
        seconds = self.remaining(min_share=0.0)
        if self.deadline is None or seconds is None:
            return True
        n_folds = self._n_inner_folds()
        race_seconds = seconds * n_first_folds(n_folds) / n_folds
        return race_seconds <= MAX_RACE_SHARE * (self.deadline - time.monotonic())

    def _n_inner_folds(self) -> int:
        searches = (job.search for job in self.jobs.values())
        return next(search.folds for search in searches if search is not None)

    def _drop_candidates(
        self,
        key: MethodSplit,
        means: Sequence[float | None],
        survivors: Sequence[int],
    ) -> None:
        """Restrict the search of a method to the survivors among its candidates.

        After halving, they are among the better half of all candidates.
        """
        if key in self.halved:
            greater = get_metric(self.evaluation.metric).greater_is_better
            scored = []
            for position in survivors:
                score = means[position]
                if score is not None:
                    scored.append((score, position))
            scored.sort(reverse=greater)
            n_kept = math.ceil(len(means) / 2)
            survivors = sorted(position for _, position in scored[:n_kept])
        job = self.jobs[key]
        assert job.search is not None
        n_candidates = math.prod(len(values) for values in job.search.grid.values())
        if len(survivors) == n_candidates:
            return
        n_first = n_first_folds(job.search.folds)
        self._replace_job(key, job.with_survivors(n_first, survivors))

    def _replace_job(self, key: MethodSplit, job: Job) -> None:
        """Compute another job for the result of a method in a split."""
        self.keys_by_job[self.jobs[key].key].remove(key)
        self.keys_by_job.setdefault(job.key, []).append(key)
        self.jobs[key] = job

    def _compute_wave(
        self, wave: Sequence[MethodSplit], pool: Pool, *, is_first: bool
    ) -> None:
        """Compute the jobs of a wave that were not stopped by the race."""
        searched = []
        for label, split in wave:
            if split not in self.entries[label].stopped:
                searched.append((label, split))
        self._take_stored([self.jobs[key] for key in searched])
        if is_first or not pool.has_started:
            # In this process, while the processes of the pool start. The first wave
            # ignores the deadline: there is a leaderboard whatever the budget.
            pool = replace(
                pool,
                n_jobs=1,
                deadline=None if is_first else self.deadline,
                stop_at_deadline=False,
                workers=(),
            )
        jobs = [self.jobs[key] for key in searched if key in self.pending]
        self.runner.compute_fits(jobs, pool)

    def _fit_stopped(self, pool: Pool) -> None:
        """Fit methods where they were stopped, unless that was in most splits.

        The leaderboard compares means over all splits. Such a fit has no inner score,
        so it cannot be selected. Methods that were stopped in most splits are not
        fitted: they are seldom selected, and fits of trees and curves take as long as
        half of their search.
        """
        jobs = []
        for label, entry in self.entries.items():
            if len(entry.stopped) > len(self.evaluation.rows) / 2:
                self.pending -= {(label, split) for split in entry.stopped}
                continue
            for split in entry.stopped:
                job = self._first_folds(self.jobs[label, split])
                self.keys_by_job.setdefault(job.key, []).append((label, split))
                jobs.append(job)
        self._take_stored(jobs)
        missing = [job for job in jobs if self._is_pending(job)]
        self.runner.compute_fits(missing, pool)

    def _report_stopped(self) -> None:
        """Say which methods were stopped, and how far they were behind."""
        n_splits = len(self.evaluation.rows)
        everywhere = []
        mostly = []
        for entry in self.entries.values():
            if not entry.stopped:
                continue
            distance = median(entry.stopped.values())
            text = format_deficit(self.evaluation.metric, distance)
            if len(entry.stopped) == n_splits:
                everywhere.append(f"{entry.label} ({text})")
                continue
            share = f"{len(entry.stopped)} of {n_splits} splits"
            note = f"stopped early in {share}"
            if len(entry.stopped) > n_splits / 2:
                note += f" ({text} behind), tested in the others"
                mostly.append(f"{entry.label} ({share}, {text})")
            entry.notes.append(note)
        if everywhere:
            self.left_out.append(
                "stopped in all splits after the first inner folds, and not tested, "
                "because they were too far behind the best method of their kind "
                f"(median distance): {', '.join(everywhere)}"
            )
        if mostly:
            self.left_out.append(
                "stopped in most splits after the first inner folds, and tested and "
                f"ranked on the others alone (median distance): {', '.join(mostly)}"
            )

    def _first_folds(self, job: Job) -> Job:
        """Return the job that searches the first inner folds alone."""
        assert job.search is not None
        return job.of_first_folds(n_first_folds(job.search.folds))

    def _is_pending(self, job: Job) -> bool:
        """Whether a result of a job is missing."""
        return not self.pending.isdisjoint(self.keys_by_job[job.key])

    def _take_stored(self, jobs: list[Job]) -> None:
        """Take the results of jobs that were computed before."""
        for job in jobs:
            if not self._is_pending(job):
                continue
            record = self.runner.store.load(job.key)
            if record is not None and record.done:
                self._add(record)

    def _add(self, record: Record) -> None:
        """Add a record to the results of its methods, and report it."""
        if record.key in self.runner.computed:
            seconds = record.seconds
            self.worked += (seconds.total or 0.0) + (seconds.search or 0.0)
        for label, split in self.keys_by_job.get(record.key, ()):
            if (label, split) not in self.pending:
                continue
            self.pending.remove((label, split))
            entry = self.entries[label]
            self._enter(entry, split, record)
            if not any(key[0] == label for key in self.pending):
                self.say(self._line(label, record))
            self._report()
        if time.monotonic() - self.reported > REPORT_SECONDS:
            # The fold of a search.
            self._report()

    def _enter(self, entry: ComparedMethod, split: int, record: Record) -> None:
        """Enter the record of a split into the results of a method."""
        test_scores = None
        if record.done:
            test_scores = self.runner.store.read_scores(record)
        if test_scores is None:
            entry.failures[split] = record.error or record.status
            return
        metric = self.evaluation.metric
        score = record.metrics[metric]
        entry.scores[split] = math.nan if score is None else score
        values: list[float | None] = []
        for value in record.per_task[metric]:
            is_missing = value is None or math.isnan(value)
            values.append(None if is_missing else value)
        entry.tasks[split] = values
        entry.losses[split] = self.evaluation.losses(split, test_scores)
        seconds = record.seconds
        selection = record.selection
        entry.seconds.append((seconds.total or 0.0) + (seconds.search or 0.0))
        entry.fit_seconds.append(seconds.fit or 0.0)
        entry.chosen[split] = selection.chosen or {}
        # The search of a method that was stopped is not finished. Its score cannot be
        # compared with the scores of other methods.
        if split not in entry.stopped:
            # Lower is better in the scores of the entry.
            sign = 1.0
            if get_metric(self.evaluation.metric).greater_is_better:
                sign = -1.0
            inner = selection.score
            means = selection.means or []
            fold_scores = selection.scores or []
            if inner is not None:
                entry.inner[split] = sign * inner
            if inner in means and len(fold_scores) == len(means):
                selected_scores = fold_scores[means.index(inner)]
                entry.fold_losses[split] = _signed(selected_scores, sign)
            if means:
                entry.grid_losses[split] = _signed(means, sign)
            notes = []
            if record.status == NOT_CONVERGED:
                notes.append("not converged")
            for name, end in (selection.edges or {}).items():
                parameter = name.rpartition("__")[2]
                notes.append(f"{parameter} at the {end} end of its grid")
            entry.notes += [note for note in notes if note not in entry.notes]

    def _report(self) -> None:
        """Report the results so far."""
        self.finished(list(self.entries.values()))
        self.reported = time.monotonic()

    def _line(self, label: str, record: Record) -> str:
        """Return a message about a method that is finished on all splits."""
        entry = self.entries[label]
        if entry.score is None:
            error = entry.errors[0] if entry.errors else "no score"
            return f"{label}: {error}"
        line = (
            f"{label}: {self.evaluation.metric} {show(entry.score, 'score')} in "
            f"{len(entry.scores)} splits"
        )
        if entry.failures:
            line += f", failed in {len(entry.failures)} splits ({entry.errors[0]})"
        line += f", {sum(entry.seconds):.2f} s"
        if record.key not in self.runner.computed:
            line += ", computed before"
        return line

    def remaining(self, min_share: float = MIN_FINISHED_SHARE) -> float | None:
        """Return the seconds until all is computed, None while too little is known."""
        return remaining_seconds(
            self.entries,
            self.usual,
            splits=len(self.evaluation.rows),
            elapsed=time.monotonic() - self.started,
            computed=self.worked,
            min_share=min_share,
        )

    def progress(self) -> BoardProgress:
        """Return how far the computation is."""
        n_done = 0
        for entry in self.entries.values():
            untested = entry.stopped.keys() - entry.scores.keys()
            n_done += len(entry.scores) + len(entry.failures) + len(untested)
        now = time.monotonic()
        seconds = self.remaining()
        if self.deadline is not None:
            until_deadline = max(self.deadline - now, 0.0)
            seconds = (
                until_deadline if seconds is None else min(seconds, until_deadline)
            )
        return BoardProgress(
            n_done=n_done,
            n_jobs=len(self.jobs),
            elapsed_seconds=now - self.started,
            remaining_seconds=seconds,
            running=self.running,
        )

    def computed_jobs(self) -> dict[MethodSplit, Job]:
        """Return the jobs of the methods on the splits in which they were not stopped.

        A method that was stopped in a few splits has been fitted there with the
        parameters that its first inner folds selected.
        """
        jobs = {}
        for key, job in self.jobs.items():
            label, split = key
            entry = self.entries[label]
            if split not in entry.stopped:
                jobs[key] = job
            elif split in entry.scores:
                jobs[key] = self._first_folds(job)
        return jobs

    def read_scores(self, label: str, split: int) -> np.ndarray | None:
        """Return the stored scores of a method on the test rows of a split.

        None where it has no record, it failed, or its scores are damaged.
        """
        record = self.runner.store.load(self.jobs[label, split].key)
        if record is None or not record.done:
            return None
        return self.runner.store.read_scores(record)


def _signed(scores: Iterable[float | None], sign: float) -> list[float | None]:
    """Return scores times a sign, None where there is none."""
    signed: list[float | None] = []
    for score in scores:
        signed.append(None if score is None else sign * score)
    return signed


@dataclass(frozen=True)
class BoardProgress:
    """How far a comparison is.

    Attributes
    ----------
    n_done, n_jobs : int
        Methods times splits: finished ones, and all.
    elapsed_seconds : float
    remaining_seconds : float or None
        None while too little is known.
    running : str
        Method that is being computed.
    """

    n_done: int
    n_jobs: int
    elapsed_seconds: float
    remaining_seconds: float | None
    running: str

    @property
    def text(self) -> str:
        """One line: ``12 of 60 fits done (20%), about 40 s left, now GraphMTL``."""
        percent = f"{self.n_done / self.n_jobs:.0%}"
        text = f"{self.n_done} of {self.n_jobs} fits done ({percent})"
        if self.n_done == self.n_jobs:
            return text
        time = f"after {_whole_seconds(self.elapsed_seconds)}"
        if self.remaining_seconds is not None:
            time = f"about {_whole_seconds(self.remaining_seconds)} left"
        return f"{text}, {time}, now {self.running}"

    def later(self, seconds: float) -> BoardProgress:
        """Return the progress after some seconds in which no fit was finished.

        No time is left to show once the estimate is used up.
        """
        remaining = self.remaining_seconds
        if remaining is not None:
            remaining -= seconds
            if remaining < 1:
                remaining = None
        elapsed = self.elapsed_seconds + seconds
        return replace(self, elapsed_seconds=elapsed, remaining_seconds=remaining)


def _whole_seconds(seconds: float) -> str:
    """Return a time like `duration`, without fractions of seconds."""
    if seconds < 120:
        return f"{math.ceil(seconds)} s"
    return duration(seconds)


def usual_seconds(
    candidates: Iterable[Candidate], dataset: Dataset, folds: int, train: float
) -> dict[str, float]:
    """Return the usual time of methods for a split with its search, on one core.

    Parameters
    ----------
    candidates : iterable of Candidate
    dataset : Dataset
    folds : int
        Number of folds of a search.
    train : float
        Share of the rows that is trained on.

    Returns
    -------
    dict
        Label -> seconds, as measured on three tables of 180 to 15,362 rows. Only their
        ratios are used.
    """
    seconds = {}
    for candidate in candidates:
        n_fits = 1
        if candidate.family not in (TRIVIAL, NATIVE):
            n_values = math.prod(map(len, candidate.grid.values()))
            if not candidate.halving:
                n_fits += folds * n_values
            else:
                n_fits += sum(math.ceil(n_values / 2**fold) for fold in range(folds))
        seconds[candidate.label] = n_fits * _fit_seconds(candidate, dataset, train)
    return seconds


def _fit_seconds(candidate: Candidate, dataset: Dataset, train: float) -> float:
    """Return the usual seconds of a fit to n rows, d features and T tasks."""
    label = candidate.label
    n, d = dataset.X.shape
    T = dataset.n_tasks
    # Targets, which are T times as many as the rows if tasks share their rows.
    rows = train * n
    if dataset.task_id is None:
        rows *= T
    slow = 1.0
    if dataset.task_type == "binary":
        slow = LABELS_FACTOR
    if candidate.family == TRIVIAL:
        return 2e-3
    if candidate.family == NATIVE:
        return 0.1 + 2e-6 * n * d
    if label == POOLED_TREES:
        return 0.02 + 4e-7 * rows * d
    if label == SINGLE_TREES:
        return 0.009 * T + 1e-7 * rows * d
    if label == SINGLE_KERNEL_RIDGE:
        return 5e-4 * T
    if is_smooth(label):
        is_single = "Independent" in label
        if dataset.task_id is None:
            # Every target is fitted twice, with up to 300 features and curves.
            n_features = min(d, n) + 9 * d * (d <= 40) + 300
            n_forests = T if is_single else 1
            return n_forests * (0.3 + 4e-6 * n * d) + T * 1.5e-9 * n_features**3
        # Evaluations cost rows x features^2, and the variances need 4,000 rows at most.
        n_features = 9 * min(d, 40)
        n_features += 50 if is_single else 350
        return slow / 4 * (0.02 + 7e-9 * min(rows, 4000.0) * n_features**2)
    if label.startswith("Hierarchical"):
        return slow * (0.015 + 1.5e-7 * T * min(d + 1.0, rows / T) ** 3)
    if label == "IndependentLasso":
        return T * (1e-4 + 1.2e-5 * d)
    if label.startswith("Independent"):
        seconds = 4e-4 if label.endswith("CV") else 1e-4
        return slow * seconds * T
    if candidate.family == POOLED:
        seconds = 1.5e-3 if label.endswith("+Task") else 2e-4
        return slow * seconds
    seconds = 1.5e-3 if label.startswith(TWO_PENALTIES) else 9e-4
    return slow * seconds * (1 + T * d / 900)


def remaining_seconds(
    entries: Mapping[str, ComparedMethod],
    usual: Mapping[str, float],
    splits: int,
    elapsed: float,
    computed: float,
    min_share: float = MIN_FINISHED_SHARE,
) -> float | None:
    """Return the seconds until all splits of all methods are done.

    Parameters
    ----------
    entries : mapping of str to ComparedMethod
    usual : mapping of str to float
        From `usual_seconds`.
    splits : int
        Number of splits.
    elapsed : float
        Seconds since the start.
    computed : float
        Seconds of all processes, of the fits computed since then.
    min_share : float
        Share of the usual time of all methods that finished methods must usually take.

    Returns
    -------
    float or None
        None while too little is known.
    """
    mean_seconds = {
        label: fmean(entry.seconds) for label, entry in entries.items() if entry.seconds
    }
    expected = sum(usual.get(label, 0.0) for label in mean_seconds)
    if not expected or computed <= 0:
        return None
    if expected < min_share * sum(usual.values()):
        return None
    # This computer on these data, in comparison with the usual seconds.
    slowdown = sum(mean_seconds.values()) / expected
    work = 0.0
    for label, entry in entries.items():
        untested = entry.stopped.keys() - entry.scores.keys()
        n_done = len(entry.scores) + len(entry.failures) + len(untested)
        n_missing = splits - n_done
        work += n_missing * mean_seconds.get(label, slowdown * usual[label])
    # Processes work at the same time: `computed` seconds took `elapsed` seconds.
    return elapsed * work / computed
