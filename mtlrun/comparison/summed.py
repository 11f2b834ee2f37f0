"""Cross-validate methods from sums over chunks, and compare their losses."""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

from mtlrun.chunks.stored import run_in_order, stored_folds, uses_files
from mtlrun.chunks.sums import Array, Folds, ScaledStatistics, target_moments
from mtlrun.comparison.candidates import Candidate
from mtlrun.comparison.evaluation import Evaluation
from mtlrun.comparison.gain import Gain, correction
from mtlrun.comparison.verdict import POOLED, TRIVIAL
from mtlrun.engine.pool import Pool
from mtlrun.estimators.registry import build

#: Label of the ridge whose strength is chosen for each task.
TUNED = "IndependentRidgeCV"


@dataclass(frozen=True)
class Training(ScaledStatistics):
    """Statistics of training rows, from which a method of a comparison can be fitted.

    Attributes
    ----------
    ridges : dict of float to estimator
        Ridge models of single tasks by their strength, which two methods share.
    """

    ridges: dict[float, Any] = field(default_factory=dict)

    def release(self) -> None:
        """Forget the models and decompositions that fits have shared."""
        self.ridges.clear()
        self.statistics.release()
        self.pooled.release()

    def _ridge(self, alpha: float) -> Any:
        """Return the ridge model of single tasks."""
        if alpha not in self.ridges:
            model = build({"estimator": "IndependentRidge", "params": {"alpha": alpha}})
            self.ridges[alpha] = model.fit_statistics(self.statistics)
        return self.ridges[alpha]

    def fit(
        self, candidate: Candidate, params: Mapping[str, Any]
    ) -> tuple[Array, Array, Any]:
        """Return coefficients (d, T) and intercepts (T,) in the units of the rows, and the fitted model.

        `params` of `TUNED` have a strength per task.
        """
        T, d = self.statistics.n_tasks, self.statistics.n_features
        name = (
            "IndependentRidge"
            if candidate.family in (POOLED, TRIVIAL)
            else candidate.estimator
        )
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # noted in the leaderboard
            if candidate.label == TUNED:
                strengths = np.broadcast_to(params["alpha"], T)
                W, b = np.empty((d, T)), np.empty(T)
                for alpha in np.unique(strengths):
                    model = self._ridge(float(alpha))
                    mine = strengths == alpha
                    W[:, mine], b[mine] = model.coef_.T[:, mine], model.intercept_[mine]
            else:
                values = {**candidate.params, **params}
                statistics = self.statistics
                if candidate.family == POOLED:
                    statistics = self.pooled
                is_plain = candidate.label == "IndependentRidge" == name
                if is_plain and values.keys() == {"alpha"}:
                    model = self._ridge(float(values["alpha"]))
                else:
                    model = build({"estimator": name, "params": values})
                    model.fit_statistics(statistics)
                W, b = (
                    np.broadcast_to(model.coef_.T, (d, T)),
                    np.broadcast_to(model.intercept_, T),
                )
        if candidate.family == TRIVIAL:
            W, b = np.zeros((d, T)), target_moments(self.statistics)[0]
        return (
            W * self.factors[:, None] * self.scale,
            b * self.scale + self.center,
            model,
        )


@dataclass(frozen=True)
class PartErrors:
    """Errors of one method on the folds that a training part lacks.

    Attributes
    ----------
    errors : list of ndarray of shape (n_values, T)
        By fold left out, the sum of squared errors for every combination of parameters.
    seconds : float
    """

    errors: list[Array]
    seconds: float


def search_part(
    folds: Folds, candidates: Sequence[Candidate], left_out: Sequence[int]
) -> list[PartErrors]:
    """Fit all candidates with all their parameters without some folds."""
    training = Training.of(folds.without(*left_out))
    results = []
    for candidate in candidates:
        started = time.perf_counter()
        errors_by_value = []
        for params in values_of(candidate):
            W, b, _ = training.fit(candidate, {**params, **candidate.select_with})
            errors_by_value.append(
                [folds.parts[fold].squared_errors(W, b) for fold in left_out]
            )
        errors = [
            np.array([row[place] for row in errors_by_value])
            for place in range(len(left_out))
        ]
        results.append(PartErrors(errors, time.perf_counter() - started))
    training.release()
    return results


@dataclass(frozen=True)
class PartFit:
    """One method fitted without a fold, with the parameters that the others selected.

    Attributes
    ----------
    coef : ndarray of shape (d, T)
    intercept : ndarray of shape (T,)
    converged : bool
    seconds : float
    """

    coef: Array
    intercept: Array
    converged: bool
    seconds: float


def fit_part(
    folds: Folds,
    candidates: Sequence[Candidate],
    params: Sequence[Mapping[str, Any]],
    fold: int,
) -> list[PartFit]:
    """Fit all candidates without a fold, each with its parameters."""
    training = Training.of(folds.without(fold))
    fits = []
    for candidate, values in zip(candidates, params, strict=True):
        started = time.perf_counter()
        W, b, model = training.fit(candidate, values)
        converged = bool(getattr(model, "converged_", True))
        seconds = time.perf_counter() - started
        fits.append(PartFit(np.array(W), np.array(b), converged, seconds))
    training.release()
    return fits


def run_parts(
    function: Callable[..., Any],
    folds: Folds,
    pool: Pool,
    parts: Iterable[tuple[Any, ...]],
) -> Iterator[Any]:
    """Yield the results of a function of folds for several training parts, in order.

    The parts are fitted in the processes of the pool where the folds are stored in a
    folder, and one after the other in this process elsewhere.

    Parameters
    ----------
    function : callable
        `search_part` or `fit_part`.
    folds : Folds
    pool : Pool
    parts : iterable of tuple
        The arguments of each call after the folds.
    """
    if folds.folder is None or not uses_files(pool):
        yield from (function(folds, *arguments) for arguments in parts)
        return
    stored = (folds.folder, len(folds.parts), folds.parts[0].shared)
    items = [(function, stored, arguments) for arguments in parts]
    yield from run_in_order(pool, _run_part, items)


def _run_part(
    function: Callable[..., Any],
    stored: tuple[Path, int, bool],
    arguments: tuple[Any, ...],
) -> Any:
    """Call a function of stored folds; a worker runs this."""
    return function(stored_folds(*stored), *arguments)


@dataclass
class FoldSearch:
    """Errors on inner folds, of every candidate with all its parameters.

    The inner folds of a training part are its own folds: a model without folds i and j is tested on i for the part
    without j, and on j for the part without i.

    Attributes
    ----------
    errors : dict of (label, left out fold) to ndarray of shape (n_values, T)
        Sums of squared errors over the inner folds. The fold is None for all rows.
    fold_errors : dict of (label, left out fold) to dict of int to ndarray
        The same by inner fold.
    """

    folds: Folds
    candidates: Sequence[Candidate]
    errors: dict[tuple[str, int | None], Array] = field(default_factory=dict)
    fold_errors: dict[tuple[str, int | None], dict[int, Array]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    pool: Pool = field(default_factory=Pool)

    def run(self, left_out: Iterable[tuple[int, ...]]) -> None:
        """Fit all candidates without some folds, and add their errors there; one fold alone is for the fit to all."""
        parts = list(left_out)
        items = [(self.candidates, out) for out in parts]
        results = run_parts(search_part, self.folds, self.pool, items)
        for out, found in zip(parts, results, strict=True):
            for candidate, part in zip(self.candidates, found, strict=True):
                for place, fold in enumerate(out):
                    outer = next((other for other in out if other != fold), None)
                    key = (candidate.label, outer)
                    self.errors[key] = self.errors.get(key, 0.0) + part.errors[place]
                    self.fold_errors[key][fold] = part.errors[place]
                self.seconds[candidate.label] += part.seconds

    def best(
        self, candidate: Candidate, outer: int | None
    ) -> tuple[dict[str, Any], float]:
        """Return the parameters with the least mean over the tasks of error over variance, and that mean."""
        weights = (
            np.delete(self.folds.weights, outer, axis=0)
            if outer is not None
            else self.folds.weights
        )
        total = weights.sum(axis=0)
        losses = (
            self.errors[candidate.label, outer]
            / np.where(total > 0, total, np.nan)
            / self.folds.scales
        )
        values = values_of(candidate)
        if candidate.label == TUNED:
            chosen = np.argmin(np.nan_to_num(losses, nan=math.inf), axis=0)
            return {"alpha": [values[p]["alpha"] for p in chosen]}, float(
                np.nanmean(losses.min(axis=0))
            )
        means = np.nanmean(losses, axis=1)
        return values[int(np.argmin(means))], float(means.min())

    def fold_losses(
        self, candidate: Candidate, outer: int, params: Mapping[str, Any]
    ) -> list[float | None]:
        """Return the loss of each inner fold of a training part, in units of `best`.

        Parameters
        ----------
        candidate : Candidate
        outer : int
            Fold that the training part lacks.
        params : mapping
            Parameters from `best`.
        """
        values = values_of(candidate)
        if candidate.label == TUNED:
            strengths = [value["alpha"] for value in values]
            positions = [strengths.index(alpha) for alpha in params["alpha"]]
        else:
            positions = [values.index(dict(params))] * len(self.folds.scales)
        tasks = np.arange(len(positions))
        errors_by_fold = self.fold_errors[candidate.label, outer]
        losses: list[float | None] = []
        for fold in sorted(errors_by_fold):
            errors = errors_by_fold[fold][positions, tasks]
            weight = self.folds.weights[fold]
            has_rows = weight > 0
            if not has_rows.any():
                losses.append(None)
                continue
            means = errors[has_rows] / weight[has_rows]
            scaled = means / self.folds.scales[has_rows]
            losses.append(float(np.nanmean(scaled)))
        return losses


def values_of(candidate: Candidate) -> list[dict[str, Any]]:
    """Return the combinations of parameters that are searched."""
    return list(ParameterGrid(candidate.grid))


@dataclass(frozen=True)
class SummedEvaluation(Evaluation):
    """Losses of tested rows by their sums; `losses[split]` of an entry is the place of its method there.

    Attributes
    ----------
    sums : dict
        Fold and task -> V V' of `Losses`; the task None is the sum over those of a row.
    """

    sums: Mapping[tuple[int, int | None], Array] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows that were tested."""
        return len(self.y)

    def gain(
        self, first: Mapping[int, Any], second: Mapping[int, Any], repeats: int
    ) -> Gain | None:
        """Return how much better a method is than another one, from the sums."""
        return self._gain(first, second, list(range(self.row_index.n_tasks)), None)

    def task_gains(
        self, first: Mapping[int, Any], second: Mapping[int, Any], repeats: int
    ) -> list[Gain | None]:
        """Return the same for each task."""
        return [
            self._gain(first, second, [t], t) for t in range(self.row_index.n_tasks)
        ]

    def _gain(
        self,
        first: Mapping[int, Any],
        second: Mapping[int, Any],
        tasks: list[int],
        key: Any,
    ) -> Gain | None:
        T = self.row_index.n_tasks
        weight, mine, other = np.zeros(T), np.full(T, np.nan), np.full(T, np.nan)
        for t in tasks:
            of = {
                fold: S for fold in first if (S := self.sums.get((fold, t))) is not None
            }
            weight[t] = sum(S[0, 1] for S in of.values())
            if weight[t] > 0:
                mine[t] = (
                    sum(S[0, 2 + first[fold]] for fold, S in of.items()) / weight[t]
                )
                other[t] = (
                    sum(S[0, 2 + second[fold]] for fold, S in of.items()) / weight[t]
                )
        known = ~np.isnan(mine) & ~np.isnan(other)
        count, a, b = (
            int(known.sum()),
            float(np.nanmean(mine)),
            float(np.nanmean(other)),
        )
        if not count or not b > 0:
            return None
        ratio = a / b

        def contributions(
            key: int | None, total: float
        ) -> tuple[float, float, float, float, int]:
            """Return sums over rows of part^2, part, part * share and share^2, and the number of rows."""
            out = np.zeros(5)
            for fold in first:
                S = self.sums.get((fold, key))
                if S is not None:
                    u = np.zeros(len(S))
                    u[2 + second[fold]] += ratio / (total * b * count)
                    u[2 + first[fold]] -= 1 / (total * b * count)
                    out += (
                        u @ S @ u,
                        S[0] @ u,
                        S[1] @ u / total,
                        S[1, 1] / total**2,
                        S[0, 0],
                    )
            return out[0], out[1], out[2], out[3], round(out[4])

        if self.y.ndim == 1:
            rows = [contributions(t, weight[t]) for t in np.flatnonzero(known).tolist()]
            squares = [
                p2 - 2 * p * ps + p**2 * s2 if n > 1 else p2
                for p2, p, ps, s2, n in rows
            ]
            found = [
                n / max(n - 1, 1) * max(square, 0.0)
                for square, (*_, n) in zip(squares, rows, strict=True)
            ]
            n = sum(n for *_, n in rows)
            error, df = math.sqrt(sum(found)), n - count
        else:  # rows are independent of each other, the tasks of a row are not
            p2, p, _, _, n = contributions(key, 1.0 if key is None else weight[key])
            error, df = (
                math.sqrt(max(n * p2 - p**2, 0.0) / (n - 1)) if n > 1 else math.inf,
                n - 1,
            )
        gains = 1 - mine / np.where(other > 0, other, np.nan)
        return Gain(
            1 - ratio,
            correction(self.n_folds, self.n_repeats) * error,
            df,
            n,
            a,
            b,
            gains,
        )
