"""How long the rest of a comparison takes: what methods have taken so far, and what those to come usually take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from statistics import fmean

from mtlrun.comparison.candidates import TREES, Candidate
from mtlrun.comparison.verdict import NATIVE, POOLED, TRIVIAL, Entry
from mtlrun.data.dataset import Dataset

#: A fit of a convex model to labels takes so many times as long as one to numbers.
_LABELS = 10.0
#: Models of two penalties, which take half as long again.
_TWO_PARTS = ("Dirty", "SparseLowRank", "Robust")


def usual_seconds(candidates: Iterable[Candidate], dataset: Dataset, folds: int, train: float) -> dict[str, float]:
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
        searched = prod(map(len, candidate.grid.values())) * folds if candidate.family not in (TRIVIAL, NATIVE) else 0
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
    entries: Mapping[str, Entry], usual: Mapping[str, float], splits: int, elapsed: float, computed: float
) -> float | None:
    """Return the seconds until all splits of all methods are done, None while nothing is known.

    Parameters
    ----------
    entries : mapping of str to Entry
    usual : mapping of str to float
        From `usual_seconds`.
    splits : int
    elapsed : float
        Seconds since the start.
    computed : float
        Seconds of all processes, of the fits computed since then.
    """
    known = {label: fmean(entry.seconds) for label, entry in entries.items() if entry.seconds}
    if not known or not usual or computed <= 0:
        return None
    slower = sum(known.values()) / sum(usual[label] for label in known)
    left = 0.0
    for label, entry in entries.items():
        missing = splits - len(entry.scores) - len(entry.failures)
        left += missing * known.get(label, slower * usual[label])
    return elapsed * left / computed
