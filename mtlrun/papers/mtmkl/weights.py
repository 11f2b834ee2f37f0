"""Kernel weights that multi-task MKL learns for each task (Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from scipy.sparse.csgraph import connected_components

from mtlrun.catalog.analysis import AnalysisResult, Curve, Matrix, analysis
from mtlrun.data.dataset import Dataset
from mtlrun.estimators.mkl import GroupMKLClassifier, IndependentMKLClassifier
from mtlrun.papers.mtmkl.common import (
    Candidate,
    accuracy,
    fit_candidates,
    named_tasks,
    split_parts,
)

#: Kernel weights of two tasks count as the same up to this distance.
SAME_WEIGHTS_DISTANCE = 0.02
#: A coupling that can be neglected, and the gap to which its weights are compared.
_NEGLIGIBLE = 1e-6


@analysis(
    {
        "accuracy": "test accuracy",
        "chosen_C": "C",
        "chosen_lam": "lam",
        "groups": "groups of tasks with the same kernel weights (within 0.02)",
        "groups_fewest": "fewest groups of all candidates with the best validation "
        "accuracy",
        "groups_most": "most groups of all candidates with the best validation "
        "accuracy",
        "groups_strong": "groups with the largest lam",
        "groups_between": "strengths of lam at which there are fewer groups than "
        "tasks, and more than one",
        "groups_rise": "most groups that there are more at a lam than at the next "
        "smaller one",
        "off_alone": "largest distance of a weight, lam nearly 0, from that of tasks "
        "trained alone",
        "smallest_distance": "smallest distance between the weights of two tasks",
        "claimed_distance": "largest distance between the weights of A/G, A/O and G/Y",
        "others_distance": "smallest distance from the weights of A/G, A/O and G/Y to "
        "those of another task",
        "off_line": "largest distance of the sum of a task's weights from 1",
        "ties": "other candidates with the same validation accuracy",
    },
    name="mtmkl-weights",
    labels={
        "claimed_distance": "largest distance among the three tasks",
        "others_distance": "smallest distance to another task",
        "off_line": "distance of the sum from 1",
        "groups": "groups of tasks with the same weights",
        "groups_fewest": "fewest groups of equally good candidates",
        "groups_most": "most groups of equally good candidates",
        "groups_strong": "groups of tasks at the largest lam",
        "groups_between": "strengths of lam with several groups",
        "groups_rise": "groups that a larger lam adds",
        "off_alone": "distance from the weights of tasks trained alone",
    },
    higher=("accuracy",),
    digits=2,
    varies=("off_line", "off_alone"),
    changes=[
        "the groups at the largest lam are counted, too",
        "so are strengths with several groups and rises from one to the next; the "
        "distance from tasks trained alone",
        "the fewest and the most groups of all candidates that are equally good on the "
        "validation part",
    ],
)
def kernel_weights(
    dataset: Dataset,
    *,
    seed: int,
    train: float = 0.1,
    features: str = "none",
    kernels: Sequence[str] = ("gaussian(2)", "gaussian(256)"),
    C: Sequence[float] = (1.0,),
    lam: Sequence[float] = (1.0,),
    tol: float = 1e-4,
) -> AnalysisResult:
    """Learn the kernel weights of all tasks, C and lam chosen on the validation part.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Seed of the split.
    train : float, default 0.1
        Share of the training part; the rest is halved into validation and test part.
    features : {"none", "standardize", "min-max", "unit-rows"}, default "none"
        Scaling, learned on the training rows.
    kernels : sequence of str
    C, lam : sequence of float
        Candidates. Of equally good ones the first is chosen; lam varies fastest.
    tol : float, default 1e-4
        Certified relative gap.
    """
    on_validation, on_test = split_parts(dataset, train, seed, features)
    scores: dict[Candidate, float] = {}
    n_groups: dict[Candidate, int] = {}
    descending = sorted(lam, reverse=True)
    for candidate, model in fit_candidates(
        on_validation, C, descending, kernels, tol=tol
    ):
        scores[candidate] = accuracy(on_validation, model)
        n_groups[candidate] = count_groups(model.theta_)
    best = max(product(C, lam), key=scores.__getitem__)
    best_C, best_lam = best
    # The validation part cannot tell these candidates apart, so that the number of
    # groups is a range.
    tied_groups = [n_groups[c] for c, score in scores.items() if score == scores[best]]
    model = on_test.fit(
        GroupMKLClassifier(C=best_C, lam=best_lam, kernels=list(kernels), tol=tol)
    )
    theta = model.theta_
    # Weights that are hardly coupled should be the weights of separate tasks.
    coupled = on_test.fit(
        GroupMKLClassifier(
            lam=_NEGLIGIBLE, C=best_C, kernels=list(kernels), tol=_NEGLIGIBLE
        )
    )
    alone = on_test.fit(
        IndependentMKLClassifier(C=best_C, kernels=list(kernels), tol=_NEGLIGIBLE)
    )
    distance_from_alone = float(np.abs(coupled.theta_ - alone.theta_).max())
    strengths = sorted(lam)
    groups_by_strength = [float(n_groups[best_C, strength]) for strength in strengths]
    groups_rise = 0.0
    if len(groups_by_strength) > 1:
        groups_rise = max(0.0, *np.diff(groups_by_strength).tolist())
    has_several_groups = [1 < count < len(theta) for count in groups_by_strength]
    n_ties = len(tied_groups) - 1
    values = {
        "accuracy": accuracy(on_test, model),
        "chosen_C": float(best_C),
        "chosen_lam": float(best_lam),
        "groups": float(count_groups(theta)),
        "groups_fewest": float(min(tied_groups)),
        "groups_most": float(max(tied_groups)),
        "groups_strong": groups_by_strength[-1],
        "groups_between": float(sum(has_several_groups)),
        "groups_rise": groups_rise,
        "off_alone": distance_from_alone,
        **_distances(theta, dataset),
        "off_line": float(np.abs(1.0 - theta.sum(axis=1)).max()),
        "ties": float(n_ties),
    }
    groups_curve = Curve(
        [float(strength) for strength in strengths],
        groups_by_strength,
        "lam",
        "groups of tasks",
        log="x",
        marks={"chosen": best_lam},
    )
    weights = Matrix(theta.tolist(), list(dataset.tasks), list(kernels))
    return AnalysisResult(
        values,
        curves={"groups": groups_curve},
        matrices={"kernel weights": weights},
        lines=[
            _group_line(theta, dataset.tasks),
            f"chosen on the validation part: C = {best_C:g}, lam = {best_lam:g}; "
            f"{n_ties} other candidates are as good there",
        ],
        solver={
            "n_iter": model.n_iter_,
            "converged": bool(model.converged_),
            "gap": float(model.gap_),
        },
    )


def _distances(theta: np.ndarray, dataset: Dataset) -> dict[str, float]:
    """Return distances between the kernel weights of tasks, a row of theta each.

    The distances of the group that the paper names are NaN for data sets without these
    tasks.
    """
    distances = _pairwise_distances(theta)
    claimed_distance = np.nan
    others_distance = np.nan
    claimed = named_tasks(dataset)
    if claimed:
        others = [task for task in range(dataset.n_tasks) if task not in claimed]
        claimed_distance = float(distances[np.ix_(claimed, claimed)].max())
        others_distance = float(distances[np.ix_(claimed, others)].min())
    return {
        "smallest_distance": float(distances[np.triu_indices(len(theta), 1)].min()),
        "claimed_distance": claimed_distance,
        "others_distance": others_distance,
    }


def _pairwise_distances(theta: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(theta[:, None] - theta[None], axis=2))


def count_groups(theta: np.ndarray) -> int:
    """Return the number of groups of tasks with the same kernel weights.

    Two tasks also belong to one group if a chain of tasks with nearly the same weights
    connects them.

    Parameters
    ----------
    theta : ndarray of shape (n_tasks, n_kernels)
    """
    return int(_group_ids(theta).max()) + 1


def _group_ids(theta: np.ndarray) -> np.ndarray:
    """Return the index of the group of each task."""
    is_near = _pairwise_distances(theta) <= SAME_WEIGHTS_DISTANCE
    return np.asarray(connected_components(is_near, directed=False)[1])


def _group_line(theta: np.ndarray, tasks: Sequence[str]) -> str:
    """Return the sentence that names the groups of more than one task."""
    group_ids = _group_ids(theta)
    groups = []
    for group in np.unique(group_ids):
        names = [tasks[task] for task in np.flatnonzero(group_ids == group).tolist()]
        if len(names) > 1:
            groups.append(f"{{{', '.join(names)}}}")
    if not groups:
        return (
            "every task has its own kernel weights (no two within "
            f"{SAME_WEIGHTS_DISTANCE:g} of each other)"
        )
    return (
        f"tasks with the same kernel weights (within {SAME_WEIGHTS_DISTANCE:g}): "
        f"{'; '.join(groups)}"
    )
