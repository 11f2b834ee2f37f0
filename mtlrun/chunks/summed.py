"""Cross-validate methods from sums over chunks, and compare their losses.

`Training` fits a method to the statistics of a training part. `FoldSearch` fits all
methods with all their parameters without each pair of folds, from which it selects the
parameters. `SummedEvaluation` estimates gains from sums of the losses of tested rows.

Notation: d features, T tasks, M methods; W is a coefficient matrix of shape (d, T) and
b are the intercepts, of shape (T,). `Losses` in `mtlrun.chunks.sums` defines V V'.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

from mtlrun.catalog.registry import build
from mtlrun.chunks.stored import stored_folds, uses_files
from mtlrun.chunks.sums import (
    PROGRESS_SECONDS,
    Array,
    Folds,
    KeptStatistics,
    run_in_order,
    target_moments,
)
from mtlrun.comparison.candidates import Candidate
from mtlrun.comparison.evaluation import Evaluation
from mtlrun.comparison.gain import Gain
from mtlrun.comparison.schedule import ignore
from mtlrun.comparison.verdict import POOLED, TRIVIAL
from mtlrun.parallel.pool import Pool
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.utils.io import replacing, sha256_json

#: Label of the ridge whose strength is chosen for each task.
TUNED = "IndependentRidgeCV"
#: A standard deviation below this share of the mean is taken for rounding.
_MIN_RELATIVE_STD = 1e-10


class LinearFit(NamedTuple):
    """Fitted method, in the units of the rows.

    Attributes
    ----------
    coef : ndarray of shape (d, T)
    intercept : ndarray of shape (T,)
    converged : bool
    seconds : float
    model : estimator
        Fitted to standardized features and targets. For `TUNED`, one of its ridges.
        None from a worker, which does not send it.
    """

    coef: Array
    intercept: Array
    converged: bool
    seconds: float
    model: Any


@dataclass(frozen=True)
class Training:
    """Statistics of training rows, from which a method of a comparison can be fitted.

    Features and targets are standardized, targets as by `ScaledTargets`.

    Attributes
    ----------
    statistics : KeptStatistics
    factors : ndarray of shape (d,)
        Factors that the features were multiplied by.
    center, scale : ndarray of shape (T,)
        Mean and standard deviation of the targets.
    ridges : dict of float to estimator
        Ridge models of single tasks by their strength. `IndependentRidge` and `TUNED`
        share them.
    """

    statistics: KeptStatistics
    factors: Array
    center: Array
    scale: Array
    ridges: dict[float, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, statistics: TaskStatistics) -> Self:
        """Standardize statistics."""
        min_std = _MIN_RELATIVE_STD * np.abs(statistics.mean)
        std = np.where(statistics.std > min_std, statistics.std, 0.0)
        means, variances = target_moments(statistics)
        if not statistics.shared:
            # The targets of all tasks have one unit, and so one mean and one variance.
            weights = statistics.weight / statistics.weight.sum()
            center = np.sum(weights * means)
            squares = variances + np.square(means - center)
            variance = np.sum(weights * squares)
            variances = np.full_like(means, variance)
            means = np.full_like(means, center)
        factors = _inverse(std)
        target_factors = _inverse(np.sqrt(variances))
        scaled = statistics.scaled(factors, target_factors, means)
        return cls(KeptStatistics(**vars(scaled)), factors, means, 1 / target_factors)

    @cached_property
    def pooled(self) -> KeptStatistics:
        """Statistics of the same rows with a single task."""
        values = vars(self.statistics.pooled())
        # The condensed rows of several tasks do not fit a single task.
        return KeptStatistics(**{**values, "condensed": {}})

    def release(self) -> None:
        """Forget the models and decompositions that fits have shared."""
        self.ridges.clear()
        self.statistics.release()
        self.pooled.release()

    def fit(self, candidate: Candidate, params: Mapping[str, Any]) -> LinearFit:
        """Fit a method.

        Parameters
        ----------
        candidate : Candidate
        params : mapping
            Parameters to set; for `TUNED` a strength per task.
        """
        started = time.perf_counter()
        with warnings.catch_warnings():
            # The leaderboard notes which methods did not converge.
            warnings.simplefilter("ignore", ConvergenceWarning)
            n_tasks = self.statistics.n_tasks
            if candidate.label == TUNED:
                strength_by_task = np.broadcast_to(params["alpha"], n_tasks)
                W = np.empty((self.statistics.n_features, n_tasks))
                b = np.empty(n_tasks)
                for alpha in np.unique(strength_by_task):
                    model = self._ridge(float(alpha))
                    is_task = strength_by_task == alpha
                    W[:, is_task] = model.coef_.T[:, is_task]
                    b[is_task] = model.intercept_[is_task]
            else:
                name = candidate.estimator
                if candidate.family in (POOLED, TRIVIAL):
                    # One ridge of all rows is the ridge of a single task. Means need no
                    # model, but are saved as one whose coefficients are set to 0.
                    name = "IndependentRidge"
                values = {**candidate.params, **params}
                is_ridge = candidate.label == name == "IndependentRidge"
                if is_ridge and values.keys() == {"alpha"}:
                    model = self._ridge(float(values["alpha"]))
                else:
                    statistics = self.statistics
                    if candidate.family == POOLED:
                        statistics = self.pooled
                    model = build({"estimator": name, "params": values})
                    model.fit_statistics(statistics)
                shape = (self.statistics.n_features, n_tasks)
                W = np.broadcast_to(model.coef_.T, shape)
                b = np.broadcast_to(model.intercept_, n_tasks)
        if candidate.family == TRIVIAL:
            W = np.zeros_like(W)
            b = target_moments(self.statistics)[0]
        return LinearFit(
            coef=W * self.factors[:, None] * self.scale,
            intercept=b * self.scale + self.center,
            # Models with an exact solution do not say whether they converged.
            converged=bool(getattr(model, "converged_", True)),
            seconds=time.perf_counter() - started,
            model=model,
        )

    def _ridge(self, alpha: float) -> Any:
        """Return the ridge model of single tasks."""
        if alpha not in self.ridges:
            model = build({"estimator": "IndependentRidge", "params": {"alpha": alpha}})
            self.ridges[alpha] = model.fit_statistics(self.statistics)
        return self.ridges[alpha]


def _inverse(std: Array) -> Array:
    """Return 1 / std, and 1 for what is constant."""
    is_positive = std > 0
    # Both branches of `np.where` are computed: the first must not divide by 0.
    divisor = np.where(is_positive, std, 1.0)
    return np.where(is_positive, 1 / divisor, 1.0)


@dataclass(frozen=True)
class PartErrors:
    """Errors of one method on the folds that a training part lacks.

    Attributes
    ----------
    errors : list of ndarray of shape (n_values, T)
        By fold left out, the sum of squared errors for each combination of parameters.
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
        errors_by_fold: list[list[Array]] = [[] for _ in left_out]
        for params in values_of(candidate):
            fit = training.fit(candidate, {**params, **candidate.select_with})
            for fold, errors in zip(left_out, errors_by_fold, strict=True):
                part = folds.parts[fold]
                errors.append(part.squared_errors(fit.coef, fit.intercept))
        arrays = [np.array(errors) for errors in errors_by_fold]
        results.append(PartErrors(arrays, time.perf_counter() - started))
    training.release()
    return results


def fit_part(
    folds: Folds,
    candidates: Sequence[Candidate],
    params: Sequence[Mapping[str, Any]],
    fold: int,
) -> list[LinearFit]:
    """Fit all candidates without a fold, each with its parameters."""
    training = Training.of(folds.without(fold))
    fits = []
    for candidate, values in zip(candidates, params, strict=True):
        fits.append(training.fit(candidate, values)._replace(model=None))
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
    """Search of the parameters of all candidates on inner folds.

    The inner folds of a training part are its own folds: a model without folds i and j
    is tested on i for the part without j, and on j for the part without i.

    Attributes
    ----------
    folds : Folds
    candidates : sequence of Candidate
    errors : dict of (label, left out fold) to ndarray of shape (n_values, T)
        Sums of squared errors over the inner folds. The fold is None for all rows.
    fold_errors : dict of (label, left out fold) to dict of int to ndarray
        The same by inner fold.
    seconds : dict of str to float
        Time of the fits of each method, by label.
    pool : Pool
    say : callable
        Takes a line of progress, at most every few seconds.
    """

    folds: Folds
    candidates: Sequence[Candidate]
    errors: dict[tuple[str, int | None], Array] = field(default_factory=dict)
    fold_errors: dict[tuple[str, int | None], dict[int, Array]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    pool: Pool = field(default_factory=Pool)
    say: Callable[[str], None] = ignore

    def run(
        self, left_out: Iterable[tuple[int, ...]], kept: Path | None = None
    ) -> None:
        """Fit all candidates without some folds, and add their errors there.

        Parameters
        ----------
        left_out : iterable of tuple of int
            Two folds for the search in a training part, where each of them is the inner
            fold of the other. One fold for the search in all rows.
        kept : Path, optional
            Folder that keeps the errors, so that an interrupted search goes on.
        """
        parts = list(left_out)
        paths: dict[tuple[int, ...], Path] = {}
        if kept is not None and kept.is_dir():
            key = sha256_json([repr(candidate) for candidate in self.candidates])
            for folds in parts:
                name = "-".join(map(str, folds))
                paths[folds] = kept / f"part-{key[:12]}-{name}.npz"
        n_candidates = len(self.candidates)
        missing = []
        for folds in parts:
            if folds not in paths or not paths[folds].is_file():
                missing.append(folds)
        items = [(self.candidates, folds) for folds in missing]
        fitted = run_parts(search_part, self.folds, self.pool, items)
        n_fits = sum(len(values_of(candidate)) for candidate in self.candidates)
        last_line = time.monotonic()
        for position, folds in enumerate(parts, start=1):
            if folds not in missing:
                results = _load_errors(paths[folds], n_candidates, len(folds))
            else:
                results = next(fitted)
            if folds in missing and folds in paths:
                # Write the errors of all candidates on the folds that a training part
                # lacks.
                arrays = {"seconds": np.array([part.seconds for part in results])}
                for index, part in enumerate(results):
                    for number, errors in enumerate(part.errors):
                        arrays[f"{index}-{number}"] = errors
                with replacing(paths[folds]) as file, file.open("wb") as stream:
                    np.savez(stream, **arrays)  # type: ignore[arg-type]
            if time.monotonic() - last_line > PROGRESS_SECONDS:
                last_line = time.monotonic()
                total = n_fits * len(parts)
                self.say(f"{n_fits * position:,} of {total:,} fits done")
            for candidate, part in zip(self.candidates, results, strict=True):
                self._add(candidate.label, folds, part)

    def _add(self, label: str, left_out: tuple[int, ...], part: PartErrors) -> None:
        """Add the errors of one method on the folds that it was fitted without."""
        for fold, errors in zip(left_out, part.errors, strict=True):
            outer = next((other for other in left_out if other != fold), None)
            key = (label, outer)
            self.errors[key] = self.errors.get(key, 0.0) + errors
            self.fold_errors[key][fold] = errors
        self.seconds[label] += part.seconds

    def best(
        self, candidate: Candidate, outer: int | None
    ) -> tuple[dict[str, Any], float]:
        """Return the parameters with the smallest mean loss, and that loss.

        The loss is the mean over the tasks of squared error over variance.

        Parameters
        ----------
        candidate : Candidate
        outer : int or None
            Fold that the training part lacks; None for the search in all rows.
        """
        weights = self.folds.weights
        if outer is not None:
            weights = np.delete(weights, outer, axis=0)
        total = weights.sum(axis=0)
        mean_errors = self.errors[candidate.label, outer] / np.where(
            total > 0, total, np.nan
        )
        losses = mean_errors / self.folds.scales
        values = values_of(candidate)
        if candidate.label == TUNED:
            best = np.argmin(np.nan_to_num(losses, nan=math.inf), axis=0)
            strengths = [values[index]["alpha"] for index in best]
            return {"alpha": strengths}, float(np.nanmean(losses.min(axis=0)))
        means = np.nanmean(losses, axis=1)
        return values[int(np.argmin(means))], float(means.min())

    def fold_losses(
        self, candidate: Candidate, outer: int, params: Mapping[str, Any]
    ) -> list[float | None]:
        """Return the loss on each inner fold of a training part, in units of `best`.

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
            indices = [strengths.index(alpha) for alpha in params["alpha"]]
        else:
            indices = [values.index(dict(params))] * len(self.folds.scales)
        tasks = np.arange(len(indices))
        errors_by_fold = self.fold_errors[candidate.label, outer]
        losses: list[float | None] = []
        for fold in sorted(errors_by_fold):
            errors = errors_by_fold[fold][indices, tasks]
            weight = self.folds.weights[fold]
            has_rows = weight > 0
            if not has_rows.any():
                losses.append(None)
                continue
            means = errors[has_rows] / weight[has_rows]
            scaled = means / self.folds.scales[has_rows]
            losses.append(float(np.nanmean(scaled)))
        return losses


def _load_errors(path: Path, n_candidates: int, n_folds: int) -> list[PartErrors]:
    """Return the errors that `FoldSearch` wrote."""
    results = []
    with np.load(path, allow_pickle=False) as arrays:
        for index in range(n_candidates):
            errors = [arrays[f"{index}-{position}"] for position in range(n_folds)]
            results.append(PartErrors(errors, float(arrays["seconds"][index])))
    return results


def values_of(candidate: Candidate) -> list[dict[str, Any]]:
    """Return the combinations of parameters that are searched."""
    return list(ParameterGrid(candidate.grid))


@dataclass(frozen=True)
class SummedEvaluation(Evaluation):
    """Evaluation whose losses of tested rows are known by their sums only.

    In place of losses, `losses[split]` of a method is its position in these sums.

    Attributes
    ----------
    sums : mapping of (fold, task) to ndarray of shape (2 + M, 2 + M)
        V V' of `Losses`. The task None has the sum over the tasks of each row.
    """

    sums: Mapping[tuple[int, int | None], Array] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows that were tested."""
        return len(self.y)

    def gain(
        self, first: Mapping[int, Any], second: Mapping[int, Any], repeats: int
    ) -> Gain | None:
        """Return the gain of a method over another one, estimated from the sums.

        Parameters
        ----------
        first, second : mapping of int to int
            Position of the methods in the sums, by fold.
        repeats : int
            Not used: data in chunks have one repeat.
        """
        return self._gain(first, second, range(self.row_index.n_tasks), None)

    def task_gains(
        self, first: Mapping[int, Any], second: Mapping[int, Any], repeats: int
    ) -> list[Gain | None]:
        """Return the gain on each task; parameters as of `gain`."""
        return [
            self._gain(first, second, [t], t) for t in range(self.row_index.n_tasks)
        ]

    def _gain(
        self,
        first: Mapping[int, Any],
        second: Mapping[int, Any],
        tasks: Iterable[int],
        key: int | None,
    ) -> Gain | None:
        """Return the mean gain over some tasks, whose joint sums have the key."""
        n_tasks = self.row_index.n_tasks
        weight = np.zeros(n_tasks)
        first_losses = np.full(n_tasks, np.nan)
        second_losses = np.full(n_tasks, np.nan)
        for t in tasks:
            sums = self._sums_by_fold(first, t)
            weight[t] = sum(S[0, 1] for S in sums.values())
            if weight[t] > 0:
                first_losses[t] = _total_loss(sums, first) / weight[t]
                second_losses[t] = _total_loss(sums, second) / weight[t]
        is_compared = ~np.isnan(first_losses) & ~np.isnan(second_losses)
        n_compared = int(is_compared.sum())
        first_mean = float(np.nanmean(first_losses))
        second_mean = float(np.nanmean(second_losses))
        if not n_compared or not second_mean > 0:
            return None
        ratio = first_mean / second_mean

        def row_sums(task: int | None, total: float) -> Array:
            """Return sums over the rows of a task, or of all tasks.

            The part of a row is its contribution to the difference of the methods. The
            share of a row is its weight over the total weight. Summed are the squared
            part, the part, part times share, the squared share, and the number of rows.
            """
            unit = total * second_mean * n_compared
            totals = np.zeros(5)
            for fold, S in self._sums_by_fold(first, task).items():
                u = np.zeros(len(S))
                u[2 + second[fold]] += ratio / unit
                u[2 + first[fold]] -= 1 / unit
                totals += (
                    u @ S @ u,
                    S[0] @ u,
                    S[1] @ u / total,
                    S[1, 1] / total**2,
                    S[0, 0],
                )
            return totals

        if self.y.ndim == 1:
            variances = []
            n_rows = 0
            for t in np.flatnonzero(is_compared).tolist():
                square, part, part_share, share_squared, count = row_sums(t, weight[t])
                n_rows_of_task = round(count)
                n_rows += n_rows_of_task
                if n_rows_of_task > 1:
                    square = square - 2 * part * part_share + part**2 * share_squared
                correction_of_mean = n_rows_of_task / max(n_rows_of_task - 1, 1)
                variances.append(correction_of_mean * max(square, 0.0))
            error = math.sqrt(sum(variances))
            df = n_rows - len(variances)
        else:
            total = 1.0 if key is None else weight[key]
            # Rows are independent of each other, but the tasks of a row are not.
            squared, part, _, _, count = row_sums(key, total)
            n_rows = round(count)
            df = n_rows - 1
            error = math.inf
            if n_rows > 1:
                square = n_rows * squared - part**2
                error = math.sqrt(max(square, 0.0) / (n_rows - 1))
        return Gain(
            value=1 - ratio,
            error=self.correction(self.n_repeats) * error,
            df=df,
            units=n_rows,
            first=first_mean,
            second=second_mean,
            tasks=1 - first_losses / np.where(second_losses > 0, second_losses, np.nan),
        )

    def _sums_by_fold(self, folds: Iterable[int], task: int | None) -> dict[int, Array]:
        """Return the sums of the folds that have rows of a task."""
        sums = {}
        for fold in folds:
            S = self.sums.get((fold, task))
            if S is not None:
                sums[fold] = S
        return sums


def _total_loss(sums: Mapping[int, Array], positions: Mapping[int, Any]) -> float:
    """Return the weighted sum of the losses of a method over folds."""
    total: float = sum(S[0, 2 + positions[fold]] for fold, S in sums.items())
    return total
