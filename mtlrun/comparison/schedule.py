"""In which order a comparison is computed: what every verdict needs first, on all splits, then the rest by its cost.

Methods of the default list race in every training part (`mtlrun.comparison.racing`): most
of them are stopped there after the first inner folds of their search.

At the end: how long the rest takes, from what methods have taken so far and what those to come usually take.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

import numpy as np

from mtlrun.comparison.candidates import TREES, Candidate, core, is_smooth
from mtlrun.comparison.racing import format_deficit, n_first_folds, race
from mtlrun.comparison.verdict import (
    NATIVE,
    POOLED,
    TRIVIAL,
    VERDICT_FAMILIES,
    ComparedMethod,
    Evaluation,
)
from mtlrun.data.dataset import Dataset
from mtlrun.engine.job import HALVING, Job
from mtlrun.engine.pool import Pool
from mtlrun.engine.record import NOT_CONVERGED, Record
from mtlrun.engine.run import Runner
from mtlrun.metrics import get_metric

ResultKey = tuple[str, int]
#: What a comparison tells after every fit: all results so far.
Finished = Callable[[list[ComparedMethod]], None]


@dataclass
class CompareSchedule:
    """Computes the jobs of a comparison and collects their records.

    Attributes
    ----------
    candidates : sequence of Candidate
        Cheap ones first.
    jobs : mapping of (label, split) to Job
    runner : Runner
    evaluation : Evaluation
    deadline : float or None
        Of `time.monotonic`: nothing is begun after it, and what runs is stopped. No number depends on it.
    say, finished : callable
    left_out : list of str
        What there was no time for.
    usual : mapping of str to float
        Label -> the seconds of a split, from `usual_seconds`.
    raced : sequence of str
        Labels of the methods that may be stopped after the first inner folds of a
        training part, from `mtlrun.comparison.racing.raced_labels`.
    """

    candidates: Sequence[Candidate]
    jobs: dict[ResultKey, Job]
    runner: Runner
    evaluation: Evaluation
    deadline: float | None = None
    say: Callable[[str], None] = lambda _: None
    finished: Finished = lambda _: None
    left_out: list[str] = field(default_factory=list)
    usual: Mapping[str, float] = field(default_factory=dict)
    raced: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.entries = {
            c.label: ComparedMethod(c.label, c.family) for c in self.candidates
        }
        # The race changes searches. It halves the values itself, so that no fold is
        # visited twice.
        self.jobs = dict(self.jobs)
        self.halved: set[ResultKey] = set()
        for key, job in self.jobs.items():
            label, _ = key
            if label not in self.raced or job.search is None:
                continue
            if job.search.on == HALVING:
                search = replace(job.search, on="folds")
                self.jobs[key] = replace(job, search=search)
                self.halved.add(key)
        self.places: dict[str, list[ResultKey]] = {}
        for place, job in self.jobs.items():
            self.places.setdefault(job.key, []).append(place)
        self.open = set(self.jobs)
        #: Splits in which the race is over.
        self.decided: set[int] = set()
        self.runner.on_finished = self._add
        self.started, self.worked = time.monotonic(), 0.0

    def remaining(self) -> float | None:
        """Return the seconds until all is computed, None while nothing is known."""
        elapsed = time.monotonic() - self.started
        return remaining_seconds(
            self.entries, self.usual, len(self.evaluation.rows), elapsed, self.worked
        )

    def run(self) -> list[ComparedMethod]:
        """Compute everything, or what there is time for; return the results by method."""
        self.started = time.monotonic()
        with self.runner.working():
            pool = replace(
                self.runner.pool,
                deadline=self.deadline,
                stop_at_deadline=self.deadline is not None,
            )
            for number, wave in enumerate(self._waves()):
                self._race(wave, pool)
                searched = [key for key in wave if not self._is_stopped(key)]
                jobs = [self.jobs[place] for place in searched]
                self._known(jobs)
                # The first is computed in any case, so that there is a board whatever the budget, and in this process,
                # as are others while those of the pool start.
                here = replace(
                    pool,
                    n_jobs=1,
                    deadline=self.deadline if number else None,
                    stop_at_deadline=False,
                    workers=(),
                )
                here = here if number == 0 or not pool.has_started else pool
                self.runner.compute_fits(
                    [self.jobs[place] for place in searched if place in self.open],
                    here,
                )
            self._fit_stopped(pool)
        self._report_stopped()
        late: dict[int, list[str]] = {}
        for label in self.entries:
            late.setdefault(sum(place[0] == label for place in self.open), []).append(
                label
            )
        for missing, labels in late.items():
            if missing:
                of = f"{missing} of {len(self.evaluation.rows)} splits"
                self.left_out.append(
                    f"no time was left for {of} of {', '.join(labels)}"
                )
        return list(self.entries.values())

    def _waves(self) -> Iterator[list[ResultKey]]:
        """Yield what is computed together: a method on the splits of a repeat, those that come later on all splits.

        Before a deadline every repeat of these is computed for itself, too: half of the splits are better than half of
        the folds of all searches.
        """
        folds = self.evaluation.folds
        first = [candidate.label for candidate in core(self.candidates)]
        rest = [
            candidate.label
            for candidate in self.candidates
            if candidate.label not in first
        ]
        repeats = [
            range(r * folds, (r + 1) * folds) for r in range(self.evaluation.repeats)
        ]
        for splits in repeats:
            yield from ([(label, split) for split in splits] for label in first)
        if self.deadline is None and repeats:
            repeats = [range(repeats[-1].stop)]
        for label in rest:
            yield from ([(label, split) for split in splits] for splits in repeats)

    def computed_jobs(self) -> dict[ResultKey, Job]:
        """Return the job of every method on every split that was not stopped.

        A method that was stopped in some splits only has been fitted there with the
        parameters that its first inner folds selected.
        """
        jobs = {}
        for (label, split), job in self.jobs.items():
            if not self._is_stopped((label, split)):
                jobs[label, split] = job
            elif split in self.entries[label].scores:
                jobs[label, split] = self._first_folds(job)
        return jobs

    def read_scores(self, label: str, split: int) -> np.ndarray | None:
        """Return the stored scores of a method on the test rows of a split.

        None where it has no record, it failed, or its scores are damaged.
        """
        record = self.runner.store.load(self.jobs[label, split].key)
        if record is None or not record.done:
            return None
        return self.runner.store.read_scores(record)

    def _is_stopped(self, key: ResultKey) -> bool:
        label, split = key
        return split in self.entries[label].stopped

    def _first_folds(self, job: Job) -> Job:
        """Return the job that searches the first inner folds alone."""
        assert job.search is not None
        return job.of_first_folds(n_first_folds(job.search.folds))

    def _race(self, wave: Sequence[ResultKey], pool: Pool) -> None:
        """Search all methods on the first inner folds, and stop those far behind.

        Nothing happens for methods that are not raced, and in splits where the race is
        over. Methods that are not raced are rivals of the others.
        """
        raced_splits = {split for label, split in wave if label in self.raced}
        splits = sorted(raced_splits - self.decided)
        families = {
            candidate.label: candidate.family
            for candidate in self.candidates
            if candidate.family in VERDICT_FAMILIES
        }
        jobs = {
            (label, split): self._first_folds(self.jobs[label, split])
            for label in families
            for split in splits
            if self.jobs[label, split].search is not None
        }
        if not jobs:
            return
        self.runner.search(list(jobs.values()), pool)
        if pool.is_past_deadline:
            # Nothing starts any more, and some searches are missing.
            return
        self.decided.update(splits)
        for split in splits:
            means = {}
            for label in families:
                job = jobs.get((label, split))
                choice = self.runner.choices.get(job.key) if job is not None else None
                if choice is not None:
                    means[label] = choice["means"]
            n_targets = self._n_first_targets(split)
            result = race(
                self.evaluation.metric, means, families, self.raced, n_targets
            )
            for label, distance in result.stopped.items():
                self.entries[label].stopped[split] = distance
            for label, survivors in result.survivors.items():
                if (label, split) in self.halved:
                    survivors = self._better_half(means[label], survivors)
                self._drop_candidates((label, split), survivors)

    def _n_first_targets(self, split: int) -> float:
        """Return about how many targets the first inner folds of a split have."""
        is_known = ~np.isnan(self.evaluation.y)
        tested = self.evaluation.rows[split]
        n_training = np.count_nonzero(is_known)
        n_training -= np.count_nonzero(is_known[tested])
        searches = (job.search for job in self.jobs.values())
        n_folds = next(search.folds for search in searches if search is not None)
        return n_training * n_first_folds(n_folds) / n_folds

    def _better_half(
        self, means: Sequence[float | None], survivors: Sequence[int]
    ) -> list[int]:
        """Return the better half of all candidates, of those that survive."""
        greater = get_metric(self.evaluation.metric).greater_is_better
        scored = []
        for position in survivors:
            score = means[position]
            if score is not None:
                scored.append((score, position))
        scored.sort(reverse=greater)
        n_kept = math.ceil(len(means) / 2)
        return sorted(position for _, position in scored[:n_kept])

    def _drop_candidates(self, key: ResultKey, survivors: Sequence[int]) -> None:
        """Search a method further with some of its candidates only."""
        job = self.jobs[key]
        assert job.search is not None
        n_candidates = math.prod(len(values) for values in job.search.grid.values())
        if len(survivors) == n_candidates:
            return
        n_first = n_first_folds(job.search.folds)
        self.jobs[key] = job.with_survivors(n_first, survivors)
        self.places[job.key].remove(key)
        self.places.setdefault(self.jobs[key].key, []).append(key)

    def _fit_stopped(self, pool: Pool) -> None:
        """Fit methods where they were stopped, unless that was in most splits.

        The leaderboard compares means over all splits. A fit has no inner score there,
        so that it cannot be chosen. Methods that were stopped in most splits are seldom
        chosen, and fits of trees and curves take as long as half of their search.
        """
        jobs = []
        for label, entry in self.entries.items():
            if len(entry.stopped) > len(self.evaluation.rows) / 2:
                self.open -= {(label, split) for split in entry.stopped}
                continue
            for split in entry.stopped:
                job = self._first_folds(self.jobs[label, split])
                self.places.setdefault(job.key, []).append((label, split))
                jobs.append(job)
        self._known(jobs)
        open_keys = {
            key for key, places in self.places.items() if self.open.intersection(places)
        }
        self.runner.compute_fits([job for job in jobs if job.key in open_keys], pool)

    def _report_stopped(self) -> None:
        """Say which methods were stopped, and how far they were behind."""
        n_splits = len(self.evaluation.rows)
        everywhere = []
        for entry in self.entries.values():
            if not entry.stopped:
                continue
            distance = median(entry.stopped.values())
            text = format_deficit(self.evaluation.metric, distance)
            if len(entry.stopped) == n_splits:
                everywhere.append(f"{entry.label} ({text})")
                continue
            note = f"stopped early in {len(entry.stopped)} of {n_splits} splits"
            if len(entry.stopped) > n_splits / 2:
                note += f" ({text} behind), tested in the others"
            entry.notes.append(note)
        if everywhere:
            self.left_out.append(
                "stopped in all splits after the first inner folds, and not tested, "
                "because they were too far behind the best method of their kind "
                f"(median distance): {', '.join(everywhere)}"
            )

    def _known(self, jobs: list[Job]) -> None:
        """Take over what is done already."""
        for job in jobs:
            if self.open.intersection(self.places[job.key]):
                record = self.runner.store.load(job.key)
                if record is not None and record.done:
                    self._add(record)

    def _add(self, record: Record) -> None:
        """Take over the record of a row, and tell it."""
        if record.key in self.runner.computed:
            self.worked += sum(
                record.seconds.get(part, 0.0) for part in ("total", "search")
            )
        for label, split in self.places.get(record.key, ()):
            if (label, split) in self.open:
                self.open.remove((label, split))
                self._enter(self.entries[label], split, record)
                if not any(place[0] == label for place in self.open):
                    self.say(self._line(label, record))
                self.finished(list(self.entries.values()))

    def _line(self, label: str, record: Record) -> str:
        """Say what a method has done on all splits."""
        entry = self.entries[label]
        if entry.score is None:
            return f"{label}: {entry.errors[0] if entry.errors else 'no score'}"
        failed = (
            f", failed in {len(entry.failures)} splits ({entry.errors[0]})"
            if entry.failures
            else ""
        )
        before = "" if record.key in self.runner.computed else ", computed before"
        text = f"{label}: {self.evaluation.metric} {entry.score:.4g} in {len(entry.scores)} splits{failed}"
        return f"{text}, {sum(entry.seconds):.3g} s{before}"

    def _enter(self, entry: ComparedMethod, split: int, record: Record) -> None:
        scores = self.runner.store.read_scores(record) if record.done else None
        if scores is None:
            entry.failures[split] = record.error or record.status
            return
        metric = self.evaluation.metric
        score = record.metrics[metric]
        entry.scores[split] = math.nan if score is None else score
        entry.tasks[split] = [
            None if v is None or math.isnan(v) else v for v in record.per_task[metric]
        ]
        entry.losses[split] = self.evaluation.losses(split, scores)
        entry.seconds.append(
            record.seconds["total"] + record.seconds.get("search", 0.0)
        )
        entry.fit_seconds.append(record.seconds["fit"])
        entry.chosen[split] = record.selection.get("chosen") or {}
        if split in entry.stopped:
            # The search was not finished: its score is not that of the other methods.
            return
        inner = record.selection.get("score")
        sign = -1.0 if get_metric(metric).greater_is_better else 1.0
        means = record.selection.get("means") or []
        fold_scores = record.selection.get("scores") or []
        if inner is not None:
            entry.inner[split] = sign * inner
        if inner in means and len(fold_scores) == len(means):
            chosen_scores = fold_scores[means.index(inner)]
            entry.fold_losses[split] = [
                None if score is None else sign * score for score in chosen_scores
            ]
        if means:
            entry.grid_losses[split] = [
                None if mean is None else sign * mean for mean in means
            ]
        notes = ["not converged"] * (record.status == NOT_CONVERGED)
        edges = record.selection.get("edges", {}).items()
        notes += [
            f"{name.rpartition('__')[2]} at the {end} end of its grid"
            for name, end in edges
        ]
        entry.notes += [note for note in notes if note not in entry.notes]


# ---------------------------------------------------------------------- how long the rest takes

#: A fit of a convex model to labels takes so many times as long as one to numbers.
_LABELS = 10.0
#: Models of two penalties, which take half as long again.
_TWO_PARTS = ("Dirty", "SparseLowRank", "Robust")
#: What is left is said once methods are known that usually take this share of the time of all: the first one takes
#: 2 ms, and the start of the program with it.
ENOUGH = 0.02


def usual_seconds(
    candidates: Iterable[Candidate], dataset: Dataset, folds: int, train: float
) -> dict[str, float]:
    """Return what the methods usually take for a split with its search, in seconds of one core.

    Parameters
    ----------
    candidates : iterable of Candidate
    dataset : Dataset
    folds : int
        Of a search.
    train : float
        Part of the rows that is trained on.

    Returns
    -------
    dict
        Label -> seconds, as measured on three tables of 180 to 15,362 rows. Only their ratios are used.
    """
    found = {}
    for candidate in candidates:
        values = math.prod(map(len, candidate.grid.values()))
        visits = sum(
            math.ceil(values / 2**k) if candidate.halving else values
            for k in range(folds)
        )
        searched = 0 if candidate.family in (TRIVIAL, NATIVE) else visits
        found[candidate.label] = (searched + 1) * _of_a_fit(candidate, dataset, train)
    return found


def _of_a_fit(candidate: Candidate, dataset: Dataset, train: float) -> float:
    label, (n, d), T = candidate.label, dataset.X.shape, dataset.n_tasks
    rows = train * n * (1 if dataset.task_id is not None else T)
    slow = _LABELS if dataset.task_type == "binary" else 1.0
    if candidate.family == TRIVIAL:
        return 2e-3
    if candidate.family == NATIVE:
        return 0.1 + 2e-6 * n * d
    if label == TREES[0]:
        return 0.02 + 4e-7 * rows * d
    if label == TREES[1]:
        return 0.009 * T + 1e-7 * rows * d
    if label == "IndependentKernelRidge":
        return 5e-4 * T
    if is_smooth(label):
        if dataset.task_id is None:
            # Every target is fitted twice, with up to 300 features and curves.
            n_features = min(d, n) + 9 * d * (d <= 40) + 300
            forests = (T if "Independent" in label else 1) * (0.3 + 4e-6 * n * d)
            return forests + T * 1.5e-9 * n_features**3
        # Evaluations cost rows x features^2, and the variances need 4,000 rows at most.
        n_features = 9 * min(d, 40) + (50 if "Independent" in label else 350)
        return slow / 4 * (0.02 + 7e-9 * min(rows, 4000.0) * n_features**2)
    if label.startswith("Hierarchical"):
        return slow * (0.015 + 1.5e-7 * T * min(d + 1.0, rows / T) ** 3)
    if label == "IndependentLasso":
        return T * (1e-4 + 1.2e-5 * d)
    if label.startswith("Independent"):
        return slow * (4e-4 if label.endswith("CV") else 1e-4) * T
    if candidate.family == POOLED:
        return slow * (1.5e-3 if label.endswith("+Task") else 2e-4)
    return slow * (1.5e-3 if label.startswith(_TWO_PARTS) else 9e-4) * (1 + T * d / 900)


def remaining_seconds(
    entries: Mapping[str, ComparedMethod],
    usual: Mapping[str, float],
    splits: int,
    elapsed: float,
    computed: float,
) -> float | None:
    """Return the seconds until all splits of all methods are done, None while too little is known.

    Parameters
    ----------
    entries : mapping of str to ComparedMethod
    usual : mapping of str to float
        From `usual_seconds`.
    splits : int
    elapsed : float
        Seconds since the start.
    computed : float
        Seconds of all processes, of the fits computed since then.
    """
    known = {
        label: fmean(entry.seconds) for label, entry in entries.items() if entry.seconds
    }
    expected = sum(usual.get(label, 0.0) for label in known)
    if not expected or expected < ENOUGH * sum(usual.values()) or computed <= 0:
        return None
    slower = sum(known.values()) / expected
    left = 0.0
    for label, entry in entries.items():
        missing = splits - len(entry.scores) - len(entry.failures)
        missing -= len(entry.stopped.keys() - entry.scores.keys())
        left += missing * known.get(label, slower * usual[label])
    return elapsed * left / computed
