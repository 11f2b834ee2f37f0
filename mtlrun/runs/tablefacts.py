"""What a comparison says of its table and of what is done to it, in sentences."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from mtlrun.data.dataset import Dataset
from mtlrun.data.roles import GROUP_SPLIT, TEST_SPLIT, TIME_SPLIT, Roles
from mtlrun.errors import counted
from mtlrun.runs.candidates import MAX_TREE_ROWS, TREES, Candidate
from mtlrun.runs.waves import Protocol


def facts_of(dataset: Dataset, protocol: Protocol, roles: Roles, candidates: list[Candidate]) -> list[str]:
    """Return what is compared on what, in sentences."""
    design = "all tasks share the same rows" if dataset.task_id is None else "rows belong to tasks"
    sizes = sizes_of(dataset)
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
    return [*found, *_tree_fact(dataset, candidates)]


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
    words = f"{counted(len(dataset.categories), 'text column')} one-hot encoded ({', '.join(dataset.categories)})"
    gaps = [n for n, bad in zip(dataset.features, np.isnan(dataset.X).any(axis=0), strict=True) if bad]
    numeric = [name for name in gaps if name not in dataset.categories]
    steps = [
        f"missing values in {counted(len(numeric), 'column')} imputed (median) and flagged ({', '.join(numeric[:5])})"
    ] * bool(numeric)
    steps += ["numeric columns standardised"] + [words] * bool(dataset.categories)
    return f"features, learned on training rows only by scikit-learn: {', '.join(steps)}"


def _range(sizes: list[int]) -> str:
    low, high = min(sizes), max(sizes)
    return counted(high, "target") if low == high else f"{low} to {high} targets"


def sizes_of(dataset: Dataset) -> list[int]:
    """Return the targets of every task."""
    if dataset.task_id is not None:
        return [int(n) for n in np.bincount(dataset.task_id, minlength=dataset.n_tasks)]
    return [int(n) for n in (~np.isnan(dataset.y)).sum(axis=0)]
