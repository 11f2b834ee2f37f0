"""Multi-task MKL: kernel weights of the tasks, the printed algorithm beside the corrected one, audit of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.core.errors import DataError
from mtlrun.core.kernels import make_kernels
from mtlrun.data.dataset import Dataset
from mtlrun.data.makers import paper_partition
from mtlrun.estimators.group_mkl import GroupMKLClassifier
from mtlrun.experiments.measures.measurement import Curve, Matrix, Measurement
from mtlrun.experiments.measures.mtmkl_protocols import CACHE_BYTES, by_task
from mtlrun.experiments.measures.published import published_path
from mtlrun.experiments.trial import Part
from mtlrun.report.audit_mtmkl import audit, audit_tables, finding_line, read_published, verdict_lines
from mtlrun.solvers.mkl import solve_alternating, solve_group_mkl
from mtlrun.solvers.svms import GramStore, SvmTasks

_SOLVERS = {"paper": solve_alternating, "corrected": solve_group_mkl}
#: Kernel weights of two tasks count as the same up to this distance.
SAME = 0.02
#: Tasks whose weights are the same at a training part of 10%, by the text of the paper.
CLAIMED_GROUP = ("a/g", "a/o", "g/y")


def kernel_weights(
    dataset: Dataset | None,
    *,
    seed: int,
    train: float = 0.1,
    kernels: Sequence[str] = ("gaussian(2)", "gaussian(256)"),
    C: Sequence[float] = (1.0,),
    lam: Sequence[float] = (1.0,),
    tol: float = 1e-4,
) -> Measurement:
    """Learn the kernel weights of all tasks, C and lam chosen on the validation part.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Of the split.
    train : float, default 0.1
        Training part; the rest is halved into validation and test.
    kernels : sequence of str
    C, lam : sequence of float
        Candidates; the first best one in this order is taken, lam varying fastest.
    tol : float, default 1e-4
        Certified relative gap.
    """
    dataset = _needed(dataset)
    rows, validation, test = paper_partition(dataset, train, seed)
    part = Part.of(dataset, rows, validation)
    scores, groups = {}, {}
    for c in C:
        model = GroupMKLClassifier(C=c, kernels=list(kernels), tol=tol, warm_start=True)
        for strength in sorted(lam, reverse=True):
            part.fit(model.set_params(lam=strength))
            scores[c, strength] = _accuracy(part, model)
            groups[c, strength] = count_groups(model.theta_)
    order = [(c, strength) for c in C for strength in lam]
    best = max(order, key=lambda key: (scores[key], -order.index(key)))
    final = Part.of(dataset, rows, test)
    model = final.fit(GroupMKLClassifier(C=best[0], lam=best[1], kernels=list(kernels), tol=tol))
    theta = model.theta_
    apart = np.linalg.norm(theta[:, None] - theta[None], axis=2)
    claimed = [dataset.tasks.index(name) for name in CLAIMED_GROUP if name in dataset.tasks]
    values = {
        "accuracy": _accuracy(final, model),
        "chosen_C": float(best[0]),
        "chosen_lam": float(best[1]),
        "groups": float(count_groups(theta)),
        "smallest_distance": float(apart[np.triu_indices(len(theta), 1)].min()),
        "claimed_distance": float(apart[np.ix_(claimed, claimed)].max()) if len(claimed) == 3 else np.nan,
        "off_line": float(np.abs(1.0 - theta.sum(axis=1)).max()),
        "ties": float(sum(score == scores[best] for score in scores.values()) - 1),
    }
    path = [float(groups[best[0], strength]) for strength in sorted(lam)]
    return Measurement(
        values,
        curves={
            "groups": Curve(sorted(map(float, lam)), path, "lam", "groups of tasks", log="x", marks={"chosen": best[1]})
        },
        matrices={"kernel weights": Matrix(theta.tolist(), list(dataset.tasks), list(kernels))},
        lines=[_group_line(theta, dataset.tasks), _tie_line(values)],
        solver=_facts(model),
    )


def algorithm(
    dataset: Dataset | None,
    *,
    seed: int,
    variant: str = "paper",
    train: float = 0.1,
    C: float = 1.0,
    lam: float = 0.1,
    kernels: Sequence[str] | None = None,
    tol: float = 1e-3,
    max_iter: int = 100,
) -> Measurement:
    """Follow the objective of one fit over the iterations, for the printed algorithm or the corrected one.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Of the split.
    variant : {"paper", "corrected"}, default "paper"
    train : float, default 0.1
        Training part.
    C, lam, kernels, tol, max_iter
        As of `GroupMKLClassifier`.
    """
    if variant not in _SOLVERS:
        raise ValueError(f"variant must be one of {', '.join(map(repr, _SOLVERS))}, got {variant!r}")
    dataset = _needed(dataset)
    rows, _, _ = paper_partition(dataset, train, seed)
    designs, labels = by_task(dataset.subset(rows))
    store = GramStore(make_kernels(kernels), designs, CACHE_BYTES)
    machines = SvmTasks(store, labels, [np.full(len(y), C) for y in labels], 0.1 * tol)
    result = _SOLVERS[variant](machines, lam, tol=tol, max_iter=max_iter)
    values = {it: float(primal) for it, primal, _ in result.gaps}
    bounds = {it: float(bound) for it, _, bound in result.gaps}
    cycle = result.info.get("cycle", [])
    marks = {"returns": float(max(values) - len(cycle) + 1)} if cycle else {}
    return Measurement(
        {
            "gap": float(result.gap),
            "objective": values[max(values)],
            "best_objective": min(values.values()),
            "cycle_length": float(len(cycle)),
            "cycle_spread": (max(cycle) - min(cycle)) / min(cycle) if cycle else 0.0,
            "n_iter": float(max(values)),
            "svm_fits": float(result.info["n_fits"]),
        },
        curves={
            "objective": _along(values, "objective", marks),
            "lower bound": _along(bounds, "certified lower bound", {}),
        },
        lines=[result.message] if cycle else [],
        # That it does not converge is the measurement.
        solver={"n_iter": max(values), "converged": True, "gap": float(result.gap)},
    )


def _along(values: dict[int, float], name: str, marks: dict[str, float]) -> Curve:
    return Curve([float(it) for it in values], list(values.values()), "iteration", name, marks=marks)


def table_audit(dataset: Dataset | None, *, seed: int, size: int = 10, published: str = "") -> Measurement:
    """Recompute ranks, Friedman's and Holm's tests from the published accuracies for one training size.

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    size : int, default 10
        Per cent.
    published : str
        File below configs/; by default the tables of the paper.

    Raises
    ------
    ValueError
        If there is no table for the size.
    """
    path: Path | None = published_path(published) if published else None
    found = {a.size: a for a in audit(read_published(path))}
    if size not in found:
        raise ValueError(f"no published table for {size}%; there are {', '.join(map(str, found))}")
    a = found[size]
    return Measurement(
        {
            "comparisons": float(len(a.rows)),
            "reproduced": float(len(a.reproduced)),
            "not_reproduced": float(len(a.rows) - len(a.reproduced)),
            "claimed_rejections": float(a.claimed),
            "rejections": float(len(a.rejected)),
            "printed_rejections": float(len(a.rejected_as_printed)),
            "findings": float(len(a.findings)),
            "friedman_p": a.friedman.chi2_pvalue,
            "iman_davenport_p": a.friedman.f_pvalue,
        },
        lines=[*verdict_lines(a), *(finding_line(f) for f in a.findings)],
        tables=audit_tables(a),
    )


def count_groups(theta: np.ndarray) -> int:
    """Return how many groups of tasks with the same weights there are (T, M); nearness is passed on within a group."""
    return len(_groups(theta))


def _groups(theta: np.ndarray) -> list[list[int]]:
    near = np.linalg.norm(theta[:, None] - theta[None], axis=2) <= SAME
    left, found = set(range(len(theta))), []
    while left:
        group, open_ = set(), {min(left)}
        while open_:
            t = open_.pop()
            group.add(t)
            open_ |= {int(s) for s in np.flatnonzero(near[t])} - group
        left -= group
        found.append(sorted(group))
    return found


def _group_line(theta: np.ndarray, tasks: Sequence[str]) -> str:
    shared = [", ".join(tasks[t] for t in group) for group in _groups(theta) if len(group) > 1]
    if not shared:
        return f"every task has its own kernel weights (no two within {SAME:g} of each other)"
    return f"tasks with the same kernel weights (within {SAME:g}): {'; '.join(f'{{{names}}}' for names in shared)}"


def _tie_line(values: dict[str, float]) -> str:
    return (
        f"chosen on the validation part: C = {values['chosen_C']:g}, lam = {values['chosen_lam']:g}; "
        f"{values['ties']:.0f} other candidates are as good there"
    )


def _accuracy(part: Part, model: Any) -> float:
    return part.score(model, part.predict(model), ["accuracy"], "task")["accuracy"].mean


def _facts(model: Any) -> dict[str, Any]:
    return {"n_iter": model.n_iter_, "converged": bool(model.converged_), "gap": _gap(model)}


def _needed(dataset: Dataset | None) -> Dataset:
    if dataset is None:
        raise DataError("this measure needs a data set", "Name it under datasets.")
    return dataset


def _gap(model: Any) -> float:
    return float(model.gap_)
