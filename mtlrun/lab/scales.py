"""Warnings about columns of a data set that differ widely in scale.

Iterative solvers need many more iterations on such columns, so that fits take long and
stop before they converge, and a penalty means something else for each column.
"""

from __future__ import annotations

from typing import Any

from mtlrun.engine.compute import loaded
from mtlrun.engine.job import Job
from mtlrun.lab.plan import Plan
from mtlrun.utils.io import (
    canonical_json,
)

#: Ratio of standard deviations of two columns from which on a run warns.
MAX_SCALE_RATIO = 1000.0


def scale_ratio(X: Any) -> float:
    """Return the largest standard deviation of a column over the smallest one.

    Constant columns do not count; without other columns, the ratio is 1.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n, d)
    """
    # A run without missing jobs looks at no data, and need not wait for these.
    import numpy as np
    from scipy import sparse

    means = np.asarray(X.mean(axis=0), dtype=float).ravel()
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).mean(axis=0), dtype=float).ravel()
        stds = np.sqrt(np.maximum(squares - means**2, 0.0))
    else:
        stds = np.asarray(X, dtype=float).std(axis=0)
    # The standard deviation of a constant column is rounding error, not always 0.
    varies = stds > 1e-9 * np.abs(means)
    if not varies.any():
        return 1.0
    return float(stds[varies].max() / stds[varies].min())


def scale_warnings(plan: Plan) -> list[str]:
    """Return a line per data set whose columns differ widely and are used as they are.

    Only files of users are looked at, and only data sets of jobs that are not finished:
    an experiment of a paper uses its data as the paper did.
    """
    experiment = plan.experiment
    if experiment.source == f"configs/{experiment.id}.yaml":
        return []
    store = plan.store()
    jobs: dict[str, Job] = {}
    for row in plan.wanted:
        job = row.job
        is_scaled = job.features is not None
        if job.dataset is None or is_scaled or store.has(row.key):
            continue
        jobs.setdefault(job.dataset.id, job)
    data_dir = None
    if plan.data_dir is not None:
        data_dir = str(plan.data_dir)
    lines = []
    for name, job in jobs.items():
        reference = job.dataset
        assert reference is not None
        options = canonical_json(reference.options)
        data = loaded(name, options, reference.fingerprint, data_dir)
        if data.strings:
            continue
        ratio = scale_ratio(data.X)
        if ratio > MAX_SCALE_RATIO:
            lines.append(
                f"columns of {name} differ in scale by a factor of {ratio:.0e}, so "
                "solvers converge slowly or not at all; 'features: standardize' in "
                "the file scales them"
            )
    return lines
