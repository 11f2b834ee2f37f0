"""Jobs of a comparison: each method on each split, and the final model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mtlrun.catalog.methods import Method
from mtlrun.comparison.candidates import Candidate
from mtlrun.comparison.protocol import Protocol
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
from mtlrun.model.train import TrainingJob
from mtlrun.utils.sizes import PLANNED, allow

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
            "grid": _copy_grid(candidate),
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
            grid=_copy_grid(candidate),
            folds=self.protocol.n_inner_folds,
            metric=self.protocol.metric,
            seed=0,
            method=searched_method(
                candidate.estimator, candidate.params, candidate.select_with
            ),
            on=HALVING if candidate.halving else "folds",
        )


def _copy_grid(candidate: Candidate) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in candidate.grid.items()}
