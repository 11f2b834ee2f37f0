"""Choice of parameters by cross-validation inside the training part of a split, or on its validation part."""

from __future__ import annotations

import inspect
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mtlrun.core.errors import one_line

#: Parameters that weaken the regularisation as they grow; all others are taken for its strength. Warm starts go from
#: the most to the least regularised candidate, where neighbouring solutions are close and the first one is cheap.
WEAKENING = ("C", "beta")


def candidates(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of a grid, the last parameter varying fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def fit_fold(inputs: Mapping[str, Any], data_dir: str | None, fold: int) -> dict[str, Any]:
    """Fit and score every candidate on one fold, or on the validation part of the split.

    Parameters
    ----------
    inputs : mapping
        Of the selection cell.
    data_dir : str or None
    fold : int

    Returns
    -------
    dict
        Lists with one entry per candidate: `scores` (None where undefined or failed), `undefined` (tasks left out),
        `errors` (text or None), `not_converged` (bool); `warm_started`; `seconds`.

    Raises
    ------
    DataError, ValueError
        If the data cannot be loaded or split. A candidate that fails is an entry of `errors`.
    """
    from mtlrun.experiments.featuresteps import cell_part
    from mtlrun.experiments.trial import fold_rows, load_data, split_three

    dataset = load_data(inputs, data_dir)
    train, _, validation = split_three(dataset, inputs["split"])
    search = inputs["search"]
    if search.get("on") == "validation":
        return search_part(inputs, cell_part(inputs, dataset, train, validation))
    inside = dataset.subset(train)
    rows = list(fold_rows(inside, search["folds"], search["seed"]))[fold]
    return search_part(inputs, cell_part(inputs, inside, *rows))


def search_part(inputs: Mapping[str, Any], part: Any) -> dict[str, Any]:
    """Fit every candidate on the training rows of a `Part` and score it on the others; see `fit_fold`."""
    from threadpoolctl import threadpool_limits

    started = time.perf_counter()
    walk = _Walk(inputs)
    results: list[dict[str, Any]] = [{} for _ in walk.candidates]
    with threadpool_limits(limits=1):
        for index in walk.order():
            results[index] = walk.visit(index, part)
    columns = {name: [result[name] for result in results] for name in ("score", "undefined", "error", "not_converged")}
    return {
        "scores": columns["score"],
        "undefined": columns["undefined"],
        "errors": columns["error"],
        "not_converged": columns["not_converged"],
        "warm_started": walk.warm,
        "seconds": time.perf_counter() - started,
    }


def combine(inputs: Mapping[str, Any], folds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Choose the best candidate from the results of all folds.

    The score of a candidate is its mean over the folds where the metric is defined; a candidate that failed in a fold
    is out. Of equal candidates the first in the order of the file wins.

    Returns
    -------
    dict
        Content of `CellRecord.selection`; `chosen` is None when no candidate has a score.
    """
    from mtlrun.core.metrics import get_metric

    metric = get_metric(inputs["search"]["metric"])
    rows = [_row(i, params, folds) for i, params in enumerate(candidates(inputs["grid"]))]
    means = [row["mean"] for row in rows if row["mean"] is not None]
    best = (max if metric.greater_is_better else min)(means) if means else None
    equal = [row["params"] for row in rows if best is not None and row["mean"] == best]
    return {
        "candidates": rows,
        "chosen": equal[0] if equal else None,
        "score": best,
        "metric": metric.name,
        "ties": equal[1:],
        "edges": _edges(inputs["grid"], equal[0]) if equal else {},
        "warm_started": all(fold["warm_started"] for fold in folds),
    }


def _row(i: int, params: dict[str, Any], folds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all folds say about candidate i."""
    scores = [fold["scores"][i] for fold in folds]
    errors = [f"fold {k}: {fold['errors'][i]}" for k, fold in enumerate(folds) if fold["errors"][i]]
    defined = [score for score in scores if score is not None]
    return {
        "params": params,
        "mean": math.fsum(defined) / len(defined) if defined and not errors else None,
        "folds": scores,
        "undefined": [fold["undefined"][i] for fold in folds],
        "undefined_folds": len(folds) - len(defined) - len(errors),
        "not_converged": sum(bool(fold["not_converged"][i]) for fold in folds),
        "errors": errors,
    }


class _Walk:
    """Visits the candidates of a grid, with a warm start from one to the next where the estimator offers it."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self.inputs = inputs
        self.spec = inputs["estimator"]
        self.candidates = candidates(inputs["grid"])
        self.warm = len(self.candidates) > 1 and _starts_warm(self.spec["estimator"])
        self.model: Any = None

    def order(self) -> list[int]:
        """Return the candidates from the most to the least regularised one, in every parameter."""
        if not self.warm:
            return list(range(len(self.candidates)))

        def rank(index: int) -> tuple[float, ...]:
            return tuple(_strength(name, value) for name, value in self.candidates[index].items())

        return sorted(range(len(self.candidates)), key=rank)

    def visit(self, index: int, part: Any) -> dict[str, Any]:
        """Fit and score one candidate; what goes wrong is its result."""
        from mtlrun.experiments.trial import NOT_CONVERGED_MARK, noted_warnings

        search = self.inputs["search"]
        result: dict[str, Any] = {"score": None, "undefined": None, "error": None, "not_converged": False}
        with noted_warnings() as texts:
            try:
                estimator = self._next(self.candidates[index])
                model = part.fit(estimator)
                scores = part.score(model, part.predict(model), [search["metric"]], self.inputs["average"])
                found = scores[search["metric"]]
                result["score"] = None if math.isnan(found.mean) else found.mean
                result["undefined"] = found.undefined
                self.warm = self.warm and model is estimator  # fitted per task, every clone starts from nothing
                self.model = model if self.warm else None
            except Exception as error:  # a candidate may be impossible; the record says so and the search goes on
                result["error"] = one_line(error)
                self.model = None
        result["not_converged"] = any(text.startswith(NOT_CONVERGED_MARK) for text in texts)
        return result

    def _next(self, values: Mapping[str, Any]) -> Any:
        from mtlrun.estimators.registry import build
        from mtlrun.experiments.params import with_params

        if self.model is not None:
            return self.model.set_params(**values)
        params = with_params(self.spec["params"], values)
        if self.warm:
            params["warm_start"] = True
        return build({"estimator": self.spec["estimator"], "params": params})


def _starts_warm(class_path: str) -> bool:
    """Whether `fit` of a class can start from the solution for other parameters.

    Ensembles and networks cannot: with `warm_start` they add to the model that they have, whatever the parameters are.
    """
    from mtlrun.estimators.registry import load_class

    names = inspect.signature(load_class(class_path)).parameters
    grows = "n_estimators" in names or class_path.startswith(("sklearn.ensemble", "sklearn.neural_network"))
    return "warm_start" in names and not grows


def _strength(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return value if name.rpartition("__")[2] in WEAKENING else -value


def _edges(grid: Mapping[str, Sequence[Any]], chosen: Mapping[str, Any]) -> dict[str, str]:
    """Return which numeric parameters were chosen at an end of their grid: the best value may lie outside."""
    found = {}
    for name, values in grid.items():
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        if numeric and len(values) > 1 and chosen[name] in (min(values), max(values)):
            found[name] = "low" if chosen[name] == min(values) else "high"
    return found
