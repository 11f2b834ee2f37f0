"""Results of a method on a data set, over all its splits."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from mtlrun.lab.experiment.claims import MEDIAN_QUANTITIES
from mtlrun.lab.report.frames import (
    METRIC_PREFIX,
    NO_QUANTITIES,
    PARAM_PREFIX,
    job_rows,
)
from mtlrun.lab.report.run import MISSING, Run, jobs_of, results_of
from mtlrun.parallel.status import DIVERGED, DONE, FAILED, NOT_CONVERGED, OK, TIMEOUT
from mtlrun.show.quantities import PARALLEL
from mtlrun.stats import std
from mtlrun.utils.io import is_json_number

#: Status of a method of which some jobs still have to be computed.
PARTIAL = "partial"
#: Between the names of tasks whose mean is judged.
MEAN_OF_TASKS = " + "
#: A method has the first status in this list that one of its jobs has.
WORST_FIRST = (FAILED, DIVERGED, TIMEOUT, MISSING, NOT_CONVERGED, OK)


@dataclass
class MethodResult:
    """Results of a method on a data set.

    Attributes
    ----------
    dataset : str
        Label of the data set; in a sweep it includes the value of the axis.
    method : str
        Label of the method.
    jobs : list of dict
        Row of each of its planned jobs (`mtlrun.lab.report.frames`).
    task_names : list of str
        Names of the tasks; empty if they are unknown.
    medians : tuple of str
        Quantities whose number is the median over the splits, not the mean.
    base : MethodResult or None
        Result of the baseline, to which `speedup` refers.
    task : str or None
        Task to which the result is restricted.
    planned, n : int
        Number of planned jobs, and of finished ones.
    done : list of dict
        Rows of the finished jobs.
    statuses : Counter of str
        Number of jobs with each status.
    worst : str
        Worst status of the jobs.
    affected : int
        Number of jobs with the worst status.
    status : str
        Worst status of the jobs: ``missing`` if all jobs still have to be computed, and
        ``partial`` if some.
    status_text : str
        Status with the share of the jobs that have it, for example ``failed 1/5``.
    """

    dataset: str
    method: str
    jobs: Sequence[Mapping[str, Any]]
    task_names: Sequence[str] = ()
    medians: tuple[str, ...] = MEDIAN_QUANTITIES
    base: MethodResult | None = None
    task: str | None = None
    #: Results of `of_task`, whose samples are needed again and again.
    _task_results: dict[str, MethodResult] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    planned: int = field(init=False)
    n: int = field(init=False)
    done: list[Mapping[str, Any]] = field(init=False)
    statuses: Counter[str] = field(init=False)
    worst: str = field(init=False)
    affected: int = field(init=False)
    status: str = field(init=False)
    status_text: str = field(init=False)

    def __post_init__(self) -> None:
        self.planned = len(self.jobs)
        self.done = [job for job in self.jobs if job["status"] in DONE]
        self.n = len(self.done)
        self.statuses = Counter(job["status"] for job in self.jobs)
        self.worst = FAILED
        for status in reversed(WORST_FIRST):
            if status in self.statuses:
                self.worst = status
        self.affected = self.statuses[self.worst]
        self.status = self.worst
        if self.worst == MISSING and self.affected < self.planned:
            self.status = PARTIAL
        self.status_text = self.status
        if self.status != OK and self.affected != self.planned:
            self.status_text = f"{self.status} {self.affected}/{self.planned}"

    # -------------------------------------------------------- numbers

    @cached_property
    def samples(self) -> dict[str, dict[int, float]]:
        """Quantity -> trial -> value, where it is a number."""
        if self.task is not None:
            return self._task_samples(self.task)
        samples: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for job in self.done:
            for name, value in job.items():
                if name in NO_QUANTITIES or name.startswith(PARAM_PREFIX):
                    continue
                if is_json_number(value):
                    quantity = name.removeprefix(METRIC_PREFIX)
                    samples[quantity][job["trial"]] = float(value)
        return samples

    def _task_samples(self, task: str) -> dict[str, dict[int, float]]:
        """Return the values of a task, or means of tasks, by metric and trial."""
        indices = [self.task_names.index(name) for name in task.split(MEAN_OF_TASKS)]
        metrics = dict.fromkeys(name for job in self.done for name in job["tasks"])
        samples = {}
        for metric in metrics:
            by_trial = {}
            for trial, values in self.tasks(metric).items():
                if max(indices) < len(values):
                    of_tasks = [values[index] for index in indices]
                    numbers = [value for value in of_tasks if value is not None]
                    if len(numbers) == len(indices):
                        by_trial[trial] = statistics.fmean(numbers)
            samples[metric] = by_trial
        return samples

    def by_trial(self, quantity: str) -> dict[int, float]:
        """Return the values of the splits.

        The seconds with a worker per block are the seconds for methods without blocks.
        """
        values = self.samples.get(quantity, {})
        if quantity == PARALLEL and not values:
            return self.samples.get("seconds", {})
        return values

    def value(self, quantity: str) -> float | None:
        """Return the number of a table: the mean or median over the splits, or None."""
        if quantity == "speedup":
            return self.speedup
        values = list(self.by_trial(quantity).values())
        if not values:
            return None
        if quantity in self.medians:
            return statistics.median(values)
        return statistics.fmean(values)

    def std(self, quantity: str) -> float | None:
        """Return the standard deviation over the splits (n - 1); None below two
        splits.
        """
        return std(self.by_trial(quantity).values())

    @cached_property
    def speedup(self) -> float | None:
        """Median seconds of the baseline divided by the median of the method.

        The medians are over the splits that both finished. None without such splits.
        """
        if self.base is None:
            return None
        seconds = self.by_trial("seconds")
        base_seconds = self.base.by_trial("seconds")
        common = [trial for trial in seconds if trial in base_seconds]
        if not common:
            return None
        median = statistics.median(seconds[trial] for trial in common)
        base_median = statistics.median(base_seconds[trial] for trial in common)
        if median > 0:
            return base_median / median
        return None

    def counts(self, name: str) -> list[int]:
        """Return a count of the finished jobs that have it."""
        counts = (job["counts"] for job in self.done)
        return [of_job[name] for of_job in counts if name in of_job]

    # -------------------------------------------------------- tasks

    def tasks(self, metric: str) -> dict[int, list[float | None]]:
        """Return the values of the tasks by trial."""
        values_by_trial = {}
        for job in self.done:
            values = job["tasks"].get(metric)
            if values is not None:
                values_by_trial[job["trial"]] = list(values)
        return values_by_trial

    def of_task(self, task: str) -> MethodResult | None:
        """Return the result restricted to a task; None if its name is unknown.

        Names joined by " + " stand for the mean of these tasks.
        """
        if not set(task.split(MEAN_OF_TASKS)) <= set(self.task_names):
            return None
        if task not in self._task_results:
            name = f"{self.dataset}, {task}"
            self._task_results[task] = replace(self, dataset=name, task=task, base=None)
        return self._task_results[task]


def method_results(run: Run) -> list[MethodResult]:
    """Return the results of each method on each data set, in their order.

    Methods with failed or missing jobs are included.
    """
    medians: tuple[str, ...] = MEDIAN_QUANTITIES
    if run.spec.is_analysis:
        # Analyses may measure seconds, of which each repeat counts.
        medians = ()
    results = []
    for dataset, method in product(run.datasets, run.methods):
        jobs = list(job_rows(run, jobs_of(run, dataset, method)))
        if not jobs:
            continue
        tasks = run.datasets[dataset].tasks
        for record in results_of(run, dataset, method):
            # The last record that has names counts.
            tasks = record.result.get("tasks") or tasks
        names = list(map(str, tasks))
        results.append(MethodResult(dataset, method, jobs, names, medians))
    baselines = {r.dataset: r for r in results if r.method == run.baseline}
    for result in results:
        result.base = baselines.get(result.dataset)
    return results
