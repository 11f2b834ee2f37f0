"""Compute a job in a worker: load its data, then fit, score or analyze."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mtlrun.engine.job import Job
from mtlrun.engine.record import JobKind, Record
from mtlrun.errors import DataError
from mtlrun.parallel.outcome import Outcome, attempt
from mtlrun.utils.io import canonical_json

if TYPE_CHECKING:
    import numpy as np

    from mtlrun.data.dataset import Dataset


def compute_jobs(
    jobs: Sequence[tuple[Job, dict[str, Any] | None]],
    data_dir: str | None,
    dataset: Dataset | None = None,
) -> list[Outcome]:
    """Compute jobs one after the other.

    Parameters
    ----------
    jobs : sequence of (Job, dict or None)
        Each job with the parameters that its search selected.
    data_dir : str or None
        Folder of the data sets.
    dataset : Dataset, optional
        Data set of all jobs, if it is in memory.
    """
    return [
        attempt(compute_job, job, best_params, data_dir, dataset)
        for job, best_params in jobs
    ]


def compute_job(
    job: Job,
    best_params: dict[str, Any] | None,
    data_dir: str | None,
    dataset: Dataset | None = None,
) -> tuple[Record, np.ndarray | None]:
    """Compute a job.

    Parameters
    ----------
    job : Job
    best_params : dict or None
        Parameters that the search of the job selected.
    data_dir : str or None
        Folder of the data sets.
    dataset : Dataset, optional
        Data set of the job, if it is in memory.

    Returns
    -------
    record : Record
    scores : ndarray or None
        Scores of the test rows, if the job keeps them.
    """
    data = dataset
    if data is None and job.dataset is not None:
        options = canonical_json(job.dataset.options)
        data = loaded(job.dataset.id, options, job.dataset.fingerprint, data_dir)
    # Imported here because it takes seconds: it loads scikit-learn.
    from mtlrun.engine.fit import fit_job, run_analysis, score_candidates

    if job.kind == JobKind.ANALYSIS:
        return run_analysis(job, data), None
    assert data is not None
    if job.kind == JobKind.FOLD:
        return score_candidates(job, data), None
    fitted = fit_job(job, data, best_params)
    if "predictions" in job.scoring.keep:
        return fitted.record, fitted.scores
    return fitted.record, None


@lru_cache(maxsize=2)
def loaded(name: str, options: str, fingerprint: str, data_dir: str | None) -> Dataset:
    """Return a data set, and keep it in memory until two others have been loaded.

    Parameters
    ----------
    name : str
    options : str
        Options of the data set as canonical JSON, which is hashable.
    fingerprint : str
        Fingerprint that the data had when the jobs were planned.
    data_dir : str or None

    Raises
    ------
    DataError
        If the data now have another fingerprint.
    """
    from mtlrun.data.sets.load import load_dataset

    dataset = load_dataset(name, data_dir=data_dir, **json.loads(options))
    if dataset.fingerprint != fingerprint:
        raise DataError(
            f"the files of {name} changed since the results were planned",
            "Run the command again.",
        )
    return dataset
