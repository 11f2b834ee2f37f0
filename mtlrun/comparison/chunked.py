"""`compare` and `train` on tables larger than memory: statistics of the folds in one pass, all fits from them."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.chunks.stored import read_folds, uses_files
from mtlrun.chunks.sums import (
    Folds,
    Losses,
    Products,
    add_up,
    check_tasks,
    statistics_of,
    target_moments,
)
from mtlrun.chunks.table import ChunkedTable
from mtlrun.comparison.candidates import (
    FIT_TOL,
    SEARCH_TOL,
    Candidate,
    grid_of,
    registered,
)
from mtlrun.comparison.evaluation import NMSE, ComparedMethod
from mtlrun.comparison.gain import RowIndex
from mtlrun.comparison.leaderboard import Leaderboard
from mtlrun.comparison.options import CompareOptions, TargetColumns
from mtlrun.comparison.result import Comparison
from mtlrun.comparison.summed import (
    TUNED,
    FoldSearch,
    SummedEvaluation,
    Training,
    fit_part,
    run_parts,
)
from mtlrun.comparison.verdict import INDEPENDENT, SMALLEST, TRIVIAL
from mtlrun.engine.pool import Pool
from mtlrun.errors import ConfigError, counted
from mtlrun.estimators.baselines import ScaledTargets
from mtlrun.estimators.hierarchical import HierarchicalMTL
from mtlrun.estimators.metadata import Scale
from mtlrun.estimators.registry import METHODS, build, load_class
from mtlrun.model.fitted import Model
from mtlrun.model.train import Trained

Array = np.ndarray[Any, np.dtype[Any]]

#: Compared where no methods are named, beside the baselines.
METHODS_BY_DEFAULT = ("IndependentLasso", "GraphMTL", "JointFeatureMTL", "TraceNormMTL")
#: Options of `compare` that data in chunks have; the others need the rows at hand.
OPTIONS = (
    "methods",
    "splits",
    "seed",
    "jobs",
    "smallest_gain",
    "repeats",
    "weight",
    "drop",
)
_SAMPLE = "Leave it out, or compare a sample of the rows as one file."


@dataclass(frozen=True)
class Chunked:
    """A table in chunks after its first pass."""

    table: ChunkedTable
    folds: Folds
    tasks: list[str]
    pool: Pool
    seed: int
    say: Callable[[str], None]

    @classmethod
    def read(
        cls,
        table: ChunkedTable,
        pool: Pool,
        folds: int,
        seed: int,
        say: Callable[[str], None],
        folder: Path | None = None,
    ) -> Chunked:
        """Read the files once.

        Several processes of this machine keep their sums in `folder`, if it is given.
        """
        if folder is not None and uses_files(pool):
            table, kept, tasks = read_folds(table, folder, pool, folds, seed, say)
            _check_sizes(kept, tasks)
            return cls(table, kept, tasks, pool, seed, say)
        sums = add_up(Products(), table, pool, folds, seed, say)
        if table.weight is not None and sums.rows:
            # The second pass divides the weights by their mean as well.
            mean = sums.mean_weight()
            sums.divide(mean)
            table = replace(table, weight_unit=table.weight_unit * mean)
        parts, tasks = statistics_of(table, sums, folds)
        kept = Folds(parts)
        _check_sizes(kept, tasks)
        return cls(table, kept, tasks, pool, seed, say)

    @property
    def design(self) -> str:
        """Whether rows belong to tasks."""
        return "shared" if self.table.task is None else "ragged"

    @property
    def n_rows(self) -> int:
        """Rows with a target."""
        sizes = self.folds.whole.n_rows
        return int(sizes.max() if self.table.task is None else sizes.sum())

    def scale(self, part: float) -> Scale:
        """Return the scale of strengths for a part of the rows."""
        return Scale(
            max(part * float(self.folds.whole.n_rows.mean()), 1.0), len(self.tasks)
        )

    def scores(self, fold: int, W: Array, b: Array) -> dict[str, Array]:
        """Return metrics of every task on a fold."""
        part = self.folds.parts[fold]
        weight = np.where(
            self.folds.weights[fold] > 0, self.folds.weights[fold], np.nan
        )
        mse, variance = part.squared_errors(W, b) / weight, target_moments(part)[1]
        nmse = mse / np.where(variance > 0, variance, np.nan)
        return {"rmse": np.sqrt(mse), "nmse": nmse, "r2": 1 - nmse}

    def losses(
        self, coef: Array, intercept: Array
    ) -> dict[tuple[int, int | None], Array]:
        """Read the files again, and return the sums of the losses of methods (K, M, d, T), (K, M, T)."""
        x_shift, y_shift = np.split(self.table.shift, [len(self.table.features)])
        intercept = intercept + np.einsum("d,kmdt->kmt", x_shift, coef) - y_shift
        place = {name: t for t, name in enumerate(self.tasks)}
        work = Losses(
            coef,
            intercept,
            self.folds.scales,
            self.folds.weights.sum(axis=0),
            place,
            self.folds.folder,
        )
        found = add_up(
            work, self.table, self.pool, len(self.folds.parts), self.seed, self.say
        )
        return {
            (k, place[t] if isinstance(t, str) else t): S
            for (k, t), S in found.products.items()
        }

    def model(
        self,
        name: str,
        training: Training,
        fitted: tuple[Array, Array, Any],
        facts: Mapping[str, Any],
    ) -> Model:
        """Return a fitted method as a model of the columns of the files."""
        W, b, estimator = fitted
        if (
            len(estimator.coef_) != len(self.tasks) or estimator._layout != self.design
        ):  # one model for all tasks
            estimator = build("IndependentRidge").fit_statistics(training.statistics)
        vars(estimator).pop(
            "feature_names_in_", None
        )  # `Model` takes the columns by their names
        if isinstance(estimator, HierarchicalMTL):
            estimator = _unscaled(estimator, training)
        else:
            estimator.coef_, estimator.intercept_ = (
                np.ascontiguousarray(W.T),
                np.array(b),
            )
        about = {
            "task_type": "regression",
            "design": self.design,
            "tasks": self.tasks,
            "input": {
                "n_features": len(self.table.features),
                "names": list(self.table.features),
                "strings": False,
                "categories": {},
                "task_column": self.table.task,
                "table": False,
            },
            "targets": list(self.table.targets),
            "labels": {},
            "estimator": {
                "name": name,
                "class": type(estimator).__name__,
                "per_task": False,
            },
            "dataset": {"id": self.table.files[0].parent.name, "simulated": False},
            "cell": None,
            **facts,
        }
        return Model(estimator, None, about)


def _check_sizes(folds: Folds, tasks: Sequence[str]) -> None:
    """Refuse tasks of which a training part, all rows but two folds, has no row."""
    rows = np.array([part.n_rows for part in folds.parts])
    largest_folds = np.sort(rows, axis=0)[-2:].sum(axis=0)
    check_tasks(rows.sum(axis=0) - largest_folds, tasks, len(rows))


def _unscaled(estimator: HierarchicalMTL, training: Training) -> ScaledTargets:
    """Return a model of scaled features and targets as one of the rows: intervals need more than coefficients."""
    model = ScaledTargets(estimator.with_columns_of(training.factors))
    shared = training.statistics.shared
    model.estimator_, model.tasks_, model._layout = (
        model.estimator,
        estimator.tasks_,
        "shared" if shared else "flat",
    )
    model.center_, model.scale_ = (
        values if shared else values[:1] for values in (training.center, training.scale)
    )
    model.n_features_in_ = estimator.n_features_in_
    return model


def candidate_of(name: str, scale: Scale) -> Candidate:
    """Return a method with the values searched for its parameters.

    Raises
    ------
    UnknownNameError
        For a name that is not in the registry.
    ConfigError
        For a method that needs rows; names those that do not.
    """
    if name == TUNED:
        return Candidate(
            TUNED,
            INDEPENDENT,
            "IndependentRidge",
            {},
            grid_of("IndependentRidge", scale),
        )
    if name == "TaskMean":
        return Candidate(name, TRIVIAL, "IndependentRidge")
    estimator = "IndependentRidge" if name == "PooledRidge" else name
    if not hasattr(build(estimator), "fit_statistics"):
        able = [
            other
            for other, info in METHODS.items()
            if getattr(load_class(other), "_by_sums", False)
        ]
        regressor = name.removesuffix("Classifier")
        near = (
            f"Use {regressor} (squared loss on labels -1 and +1)"
            if regressor != name and regressor in able
            else "Use another one"
        )
        text = f"{name} needs the rows: only the squared loss can be computed from sums over chunks"
        raise ConfigError(
            text,
            f"{near}, or a sample of the rows as one file. From chunks: {', '.join(able)}.",
        )
    return registered(name, scale, SEARCH_TOL, FIT_TOL)


@dataclass(repr=False, kw_only=True)
class ChunkComparison(Comparison):
    """Result of `mtlrun.compare` on files in chunks.

    Attributes
    ----------
    tables : tuple of Path
    """

    tables: tuple[Path, ...]

    def _table_paths(self) -> list[Path]:
        return list(self.tables)


def compare_chunks(
    files: Sequence[Path],
    columns: TargetColumns,
    options: CompareOptions,
    *,
    say: Callable[[str], None],
) -> ChunkComparison:
    """Compare methods on a table in chunks; see `mtlrun.comparison.compare.compare`.

    Raises
    ------
    ConfigError
        For options and methods that need the rows.
    """
    changed = _changed_options(options)
    table = ChunkedTable.of(
        files,
        target=columns.target,
        task=columns.task,
        targets=columns.targets,
        targets_last=columns.targets_last,
        weight=options.weight,
        drop=options.drop,
    )
    K, seed = options.splits, options.seed
    candidate_names = dict.fromkeys(
        [
            "TaskMean",
            "IndependentRidge",
            "PooledRidge",
            TUNED,
            *_named(options.methods),
        ]
    )
    for name in candidate_names:
        # A method that needs the rows is refused before the files are read.
        candidate_of(name, Scale(1, 2))
    pool = Pool(options.jobs, options.backend, options.scheduler)
    with ExitStack() as stack:
        folder = None
        if uses_files(pool):
            pool = stack.enter_context(pool.keep_workers())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data = Chunked.read(table, pool, K, seed, say, folder)
        return _compare(data, candidate_names, options, changed, files)


def _compare(
    data: Chunked,
    candidate_names: Iterable[str],
    options: CompareOptions,
    changed: dict[str, Any],
    files: Sequence[Path],
) -> ChunkComparison:
    """Compare methods on a table whose files have been read once."""
    K = options.splits
    seed = options.seed
    table = data.table
    say = data.say
    candidates = [candidate_of(name, data.scale(1 - 1 / K)) for name in candidate_names]
    search = FoldSearch(data.folds, candidates, pool=data.pool)
    say(f"fitting {counted(len(candidates), 'method')} to all pairs of training folds")
    search.run(combinations(range(K), 2))
    entries, coef, intercept = _entries(data, search)
    say("second pass: losses of the rows left out")
    evaluation = SummedEvaluation(
        y=np.broadcast_to(
            np.nan,
            (data.n_rows, len(data.tasks)) if table.task is None else (data.n_rows,),
        ),
        row_index=RowIndex(len(data.tasks)),
        rows=[],
        new=[],
        n_folds=K,
        n_repeats=1,
        measure=NMSE,
        smallest=SMALLEST if options.smallest_gain is None else options.smallest_gain,
        metric="nmse" if table.task is None else "rmse",
        sums=data.losses(coef, intercept),
    )
    name = table.files[0].parent.name or "files"
    sizes = [int(n) for n in data.folds.whole.n_rows]
    facts = _facts(data)
    board = Leaderboard(
        f"Does multi-task learning help on {name}?", evaluation.metric, False, data.tasks, sizes, entries, evaluation,
        "IndependentRidge", facts,
    )  # fmt: skip
    best = next(c for c in candidates if c.label == board.ranked()[0].label)
    trained = _final(data, best)
    about = {
        "schema": 1,
        "options": changed,
        "files": named_files(files),
        "folds": K,
        "seed": seed,
    }
    return ChunkComparison(
        board=board,
        trained=trained,
        coefficients=_coefficients(trained, data),
        coefficients_of=best.label,
        cells=about,
        saved=best.label,
        tables=table.files,
    )


def _changed_options(options: CompareOptions) -> dict[str, Any]:
    """Return the options that differ from their defaults, and check that they apply.

    Raises
    ------
    ConfigError
        For an option that needs the rows, and for fewer than three folds.
    """
    standard = vars(CompareOptions(task_type="regression"))
    changed = {
        name: value
        for name, value in vars(options).items()
        if value and value != standard[name] and name not in ("backend", "scheduler")
    }
    for name in changed:
        if name not in OPTIONS:
            raise ConfigError(
                f"--{name.replace('_', '-')} cannot be used with data in chunks",
                _SAMPLE,
            )
    if options.splits < 3:
        raise ConfigError(
            "data in chunks need at least 3 folds: the inner folds are the other ones",
            "--splits 5",
        )
    return changed


def _coefficients(trained: Trained, data: Chunked) -> pd.DataFrame:
    """Return intercept and coefficients of each task."""
    estimator = trained.model.estimator
    return pd.DataFrame(
        np.column_stack([estimator.intercept_, estimator.coef_]),
        index=pd.Index(data.tasks, name="task"),
        columns=["intercept", *data.table.features],
    )


def named_files(files: Sequence[Path]) -> dict[str, str]:
    """Return the sizes of files by name inside their common folder, which itself is the user's own."""
    places = [file.absolute() for file in files]
    root = Path(os.path.commonpath([place.parent for place in places]))
    return {
        place.relative_to(root).as_posix(): f"{place.stat().st_size} bytes"
        for place in places
    }


def _named(names: Iterable[str]) -> list[str]:
    found = list(names) or ["default"]
    return [
        one
        for name in found
        for one in (METHODS_BY_DEFAULT if name == "default" else [name])
    ]


def _facts(data: Chunked) -> list[str]:
    table, K = data.table, len(data.folds.parts)
    design = (
        "all tasks share the same rows"
        if table.task is None
        else "every row belongs to one task"
    )
    weighted = []
    if table.weight is not None:
        weighted.append(
            f"rows are weighted by {table.weight!r}, normalized to mean 1, in fits and "
            "scores"
        )
    return [
        f"{counted(len(table.files), 'file')}: {counted(data.n_rows, 'row')}, "
        f"{counted(len(table.features), 'feature')}, {counted(len(data.tasks), 'task')} (regression; {design})",
        "all fits are made from sums of products over the rows, which one pass over the files adds up; a second pass "
        "takes the losses of the rows left out",
        f"{K}-fold cross-validation, 1 repeat; the fold of a row is a hash of seed ({data.seed}), file and row",
        f"parameters are chosen on the {K - 1} other folds, each left out in turn; of "
        "methods within one standard error of the best, the first one is selected",
        "features and targets are standardized inside every fit; scores and coefficients are in original units",
        *weighted,
    ]


def _entries(
    data: Chunked, search: FoldSearch
) -> tuple[list[ComparedMethod], Array, Array]:
    """Fit every candidate without every fold; return what is known of them, and the coefficients of all."""
    K, metric = len(data.folds.parts), "nmse" if data.table.task is None else "rmse"
    entries = [
        ComparedMethod(candidate.label, candidate.family)
        for candidate in search.candidates
    ]
    d, T = len(data.table.features), len(data.tasks)
    coef, intercept = np.empty((K, len(entries), d, T)), np.empty((K, len(entries), T))
    # `best` returns the parameters and their inner score.
    selected = [
        [search.best(candidate, fold) for candidate in search.candidates]
        for fold in range(K)
    ]
    items = [
        (search.candidates, [params for params, _ in selected[fold]], fold)
        for fold in range(K)
    ]
    parts = run_parts(fit_part, data.folds, data.pool, items)
    for fold, fits in enumerate(parts):
        for place, (candidate, entry, fit) in enumerate(
            zip(search.candidates, entries, fits, strict=True)
        ):
            started = time.perf_counter()
            params, entry.inner[fold] = selected[fold][place]
            entry.fold_losses[fold] = search.fold_losses(candidate, fold, params)
            coef[fold, place] = fit.coef
            intercept[fold, place] = fit.intercept
            found = data.scores(fold, fit.coef, fit.intercept)[metric]
            entry.tasks[fold] = [
                None if math.isnan(value) else float(value) for value in found
            ]
            entry.scores[fold] = float(np.nanmean(found))
            # Losses are sums: this is the position of the method in them.
            entry.losses[fold] = np.array(place)
            entry.chosen[fold] = {} if candidate.label == TUNED else params
            scoring_seconds = time.perf_counter() - started
            entry.fit_seconds.append(fit.seconds + scoring_seconds)
            entry.seconds.append(
                search.seconds[candidate.label] / K + entry.fit_seconds[-1]
            )
            if not fit.converged:
                entry.notes = ["not converged"]
    return entries, coef, intercept


def _final(data: Chunked, candidate: Candidate) -> Trained:
    """Return the best method, tuned by cross-validation over all folds and fitted to all rows."""
    data.say(f"fitting {candidate.label} on all rows")
    search = FoldSearch(data.folds, [candidate], pool=data.pool)
    search.run((fold,) for fold in range(len(data.folds.parts)))
    params, score = search.best(candidate, None)
    training = Training.of(data.folds.whole)
    started = time.perf_counter()
    fitted = training.fit(candidate, params)
    result = {
        "method": candidate.label,
        "params": params,
        "metrics": {"nmse": score},
        "chosen on": "all folds",
    }
    result["seconds"] = {"fit": time.perf_counter() - started}
    facts = {
        "name": candidate.label,
        "refit": True,
        "metrics": result["metrics"],
        "config": {"method": candidate.label},
    }
    return Trained(data.model(candidate.label, training, fitted, facts), result, "")
