"""Which parameters a search chooses, from the scores of its candidates. Standard library only."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mtlrun.record import Record, candidates
from mtlrun.runs.cell import Cell

#: Parameters that weaken the regularisation as they grow; all others are taken for its strength. Warm starts go from
#: the most to the least regularised candidate, where neighbouring solutions are close and the first one is cheap.
WEAKENING = ("C", "beta")


def strong_to_weak(found: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the positions of candidates from the most to the least regularised one, in every parameter.

    Values that are no numbers, such as kernels, stay together in the order of the file.
    """
    places: dict[str, list[Any]] = {}
    for name, value in ((name, value) for params in found for name, value in params.items()):
        if value not in places.setdefault(name, []):
            places[name].append(value)

    def strength(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return places[name].index(value)
        return value if name.rpartition("__")[2] in WEAKENING else -value

    return sorted(range(len(found)), key=lambda i: tuple(strength(name, value) for name, value in found[i].items()))


def choose(
    grid: Mapping[str, Sequence[Any]],
    metric: str,
    greater_is_better: bool,
    folds: Sequence[tuple[str, Mapping[str, Any]]],
) -> dict[str, Any]:
    """Choose the best candidate of a search.

    The score of a candidate is its mean over the folds where the metric is defined; a candidate that failed in a fold
    is out. Of equal candidates the first in the order of the file wins.

    Parameters
    ----------
    grid : mapping
    metric : str
    greater_is_better : bool
    folds : sequence of (key, selection)
        Key and `Record.selection` of every fold.

    Returns
    -------
    dict
        ``key`` (of the search), ``chosen`` (None when no candidate has a score), ``score``, ``metric``, ``ties``,
        ``edges`` (parameters chosen at an end of their grid), ``grid``, ``warm_started``, and by candidate ``means``,
        ``scores`` (by fold), ``undefined`` (tasks left out, by fold), ``not_converged`` (number of folds) and
        ``errors`` (position -> texts).
    """
    found = candidates(grid)
    columns = [selection for _, selection in folds]
    scores = [[column["scores"][i] for column in columns] for i in range(len(found))]
    errors = {
        str(i): [f"fold {k}: {column['errors'][i]}" for k, column in enumerate(columns) if column["errors"][i]]
        for i in range(len(found))
    }
    means = [None if errors[str(i)] else _mean(scores[i]) for i in range(len(found))]
    defined = [mean for mean in means if mean is not None]
    best = (max if greater_is_better else min)(defined) if defined else None
    equal = [params for params, mean in zip(found, means, strict=True) if best is not None and mean == best]
    return {
        "key": search_key(key for key, _ in folds),
        "chosen": equal[0] if equal else None,
        "score": best,
        "metric": metric,
        "ties": equal[1:],
        "edges": _edges(grid, equal[0]) if equal else {},
        "grid": {name: list(values) for name, values in grid.items()},
        "warm_started": all(column["warm_started"] for column in columns),
        "means": means,
        "scores": scores,
        "undefined": [[column["undefined"][i] for column in columns] for i in range(len(found))],
        "not_converged": [sum(bool(column["not_converged"][i]) for column in columns) for i in range(len(found))],
        "errors": {i: texts for i, texts in errors.items() if texts},
    }


def search_key(folds: Iterable[str]) -> str:
    """Return the key of a search from those of its folds."""
    return hashlib.sha256("".join(folds).encode()).hexdigest()


def choice_of(cell: Cell, folds: Iterable[Record]) -> dict[str, Any]:
    """Return what the search of a cell found, from the records of its folds; see `mtlrun.runs.selection.choose`.

    ``seconds`` is what all folds took.
    """
    from mtlrun.metrics import get_metric

    assert cell.search is not None
    records = list(folds)
    metric = get_metric(cell.search.metric)
    found = choose(
        cell.search.grid, metric.name, metric.greater_is_better, [(record.key, record.selection) for record in records]
    )
    return {**found, "seconds": sum(record.seconds["total"] for record in records)}


def _mean(scores: Sequence[float | None]) -> float | None:
    defined = [score for score in scores if score is not None]
    return math.fsum(defined) / len(defined) if defined else None


def _edges(grid: Mapping[str, Sequence[Any]], chosen: Mapping[str, Any]) -> dict[str, str]:
    """Return which numeric parameters were chosen at an end of their grid: the best value may lie outside."""
    found = {}
    for name, values in grid.items():
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        if numeric and len(values) > 1 and chosen[name] in (min(values), max(values)):
            found[name] = "low" if chosen[name] == min(values) else "high"
    return found
