"""Compare methods on tables larger than memory.

A first pass over the files adds up the statistics of each fold, from which all methods
are fitted (`mtlrun.chunks.summed`). A second pass takes the losses of the rows left
out. `mtlrun train` reads such tables with `Chunked`, too.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.catalog.registry import METHODS, build, load_class
from mtlrun.chunks.stored import (
    keep_state,
    kept_folder,
    kept_state,
    read_folds,
    uses_files,
)
from mtlrun.chunks.summed import (
    TUNED,
    FoldSearch,
    LinearFit,
    SummedEvaluation,
    Training,
    fit_part,
    run_parts,
    values_of,
)
from mtlrun.chunks.sums import (
    Folds,
    Losses,
    add_up,
    rows_of,
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
from mtlrun.comparison.evaluation import ComparedMethod
from mtlrun.comparison.gain import RowIndex
from mtlrun.comparison.leaderboard import Leaderboard
from mtlrun.comparison.options import CompareOptions, TargetColumns
from mtlrun.comparison.result import Comparison, coefficient_frame
from mtlrun.comparison.verdict import INDEPENDENT, MARGIN, SMALLEST, TRIVIAL
from mtlrun.data.roles.roles import Roles
from mtlrun.errors import ConfigError, DataError, counted, listed
from mtlrun.estimators.baselines import ScaledTargets
from mtlrun.estimators.hierarchical import HierarchicalMTL
from mtlrun.estimators.metadata import Scale
from mtlrun.model.fitted import Model
from mtlrun.model.train import Trained
from mtlrun.parallel.pool import Pool
from mtlrun.show.quantities import NMSE

Array = np.ndarray[Any, np.dtype[Any]]

#: Methods compared by default, in addition to the baselines.
METHODS_BY_DEFAULT = ("IndependentLasso", "GraphMTL", "JointFeatureMTL", "TraceNormMTL")
#: HierarchicalMTL is compared by default up to this many features: with 200 tasks, a fit
#: takes 0.2 CPU seconds for 10 features, and about a minute for 100.
MAX_HIERARCHICAL_FEATURES = 20
#: Options of `compare` for data in chunks. All others need the rows in memory.
OPTIONS = (
    "methods",
    "splits",
    "seed",
    "jobs",
    "smallest_gain",
    "margin",
    "weight",
    "drop",
)
#: Remedy for options that need the rows.
_SAMPLE = "Leave it out, or compare a sample of the rows as one file."


@dataclass(frozen=True)
class Chunked:
    """A table in chunks after its first pass.

    Attributes
    ----------
    table : ChunkedTable
    folds : Folds
    tasks : list of str
        Names of the tasks.
    pool : Pool
    say : callable
        Takes a line of progress.
    notes : list of str
        Notes on rows of weight 0.
    """

    table: ChunkedTable
    folds: Folds
    tasks: list[str]
    pool: Pool
    say: Callable[[str], None]
    notes: list[str]

    @classmethod
    def read(
        cls,
        table: ChunkedTable,
        pool: Pool,
        say: Callable[[str], None],
        folder: Path | None = None,
        kept: Path | None = None,
    ) -> Chunked:
        """Read the files once.

        Parameters
        ----------
        table : ChunkedTable
        pool : Pool
        say : callable
        folder : Path, optional
            Folder where several processes of this machine keep their sums.
        kept : Path, optional
            Folder that keeps the sums for a later run, or has kept them.

        Raises
        ------
        DataError
            If a file is damaged, or a training part has no rows of some task.
        """
        earlier = None
        if kept is not None:
            earlier = kept_state(kept, table)
        if earlier is not None:
            table, statistics, tasks = earlier
            say(f"the sums of an interrupted run are used: {kept}")
        elif folder is not None and uses_files(pool):
            table, statistics, tasks = read_folds(table, folder, pool, say)
        else:
            sums = add_up(rows_of, table, pool, say)
            if table.weight is not None and sums.rows:
                # The second pass divides the weights by their mean as well.
                unit = table.weight_unit * sums.normalize_weights()
                table = replace(table, weight_unit=unit)
            parts, tasks = statistics_of(table, sums)
            statistics = Folds(parts)
        if kept is not None and earlier is None:
            keep_state(kept, table, statistics, tasks)
        rows = np.array([part.n_rows for part in statistics.parts])
        largest_folds = np.sort(rows, axis=0)[-2:].sum(axis=0)
        # The smallest number of rows of each task in a training part.
        min_rows = rows.sum(axis=0) - largest_folds
        small = [name for name, n in zip(tasks, min_rows, strict=True) if n < 1]
        if small:
            raise DataError(
                f"{counted(len(small), 'task')} of so few rows that some training "
                f"parts have none: {listed(small)}",
                f"Take their rows out, or take fewer folds than {table.n_folds}.",
            )
        notes = table.notes_on_weights(tasks)
        for note in notes:
            say(note)
        return cls(table, statistics, tasks, pool, say, notes)

    @property
    def design(self) -> str:
        """Whether tasks share their rows ("shared") or have their own ("ragged")."""
        return "shared" if self.table.task is None else "ragged"

    @property
    def n_rows(self) -> int:
        """Number of rows with a target."""
        sizes = self.folds.whole.n_rows
        if self.table.task is None:
            return int(sizes.max())
        return int(sizes.sum())

    @property
    def metric(self) -> str:
        """Metric of the leaderboard."""
        return "nmse" if self.table.task is None else "rmse"

    def scale(self, part: float) -> Scale:
        """Return the scale of regularization strengths for a part of the rows."""
        rows_per_task = part * float(self.folds.whole.n_rows.mean())
        return Scale(max(rows_per_task, 1.0), len(self.tasks))

    def scores(self, fold: int, W: Array, b: Array) -> dict[str, Array]:
        """Return the metrics of each task on a fold, NaN for tasks without rows there.

        Parameters
        ----------
        fold : int
        W : ndarray of shape (d, T)
            Coefficients.
        b : ndarray of shape (T,)
            Intercepts.
        """
        part = self.folds.parts[fold]
        weights = self.folds.weights[fold]
        mse = part.squared_errors(W, b) / np.where(weights > 0, weights, np.nan)
        variance = target_moments(part)[1]
        nmse = mse / np.where(variance > 0, variance, np.nan)
        return {"rmse": np.sqrt(mse), "nmse": nmse, "r2": 1 - nmse}

    def losses(
        self, coef: Array, intercept: Array
    ) -> dict[tuple[int, int | None], Array]:
        """Read the files again, and return the sums of the losses of M methods.

        Parameters
        ----------
        coef : ndarray of shape (n_folds, M, d, T)
        intercept : ndarray of shape (n_folds, M, T)

        Returns
        -------
        dict of (fold, task) to ndarray of shape (2 + M, 2 + M)
            V V' of `Losses`. The task is its number, or None for the sum over all tasks
            of a row.
        """
        x_shift, y_shift = np.split(self.table.shift, [len(self.table.features)])
        intercept = intercept + np.einsum("d,kmdt->kmt", x_shift, coef) - y_shift
        number_of_task = {name: t for t, name in enumerate(self.tasks)}
        losses = Losses(
            coef,
            intercept,
            self.folds.scales,
            self.folds.weights.sum(axis=0),
            number_of_task,
            self.folds.folder,
        )
        sums = add_up(losses.groups, self.table, self.pool, self.say)
        products = {}
        for (fold, task), product in sums.products.items():
            number = number_of_task[task] if isinstance(task, str) else task
            products[fold, number] = product
        return products

    def model(
        self,
        name: str,
        training: Training,
        fitted: LinearFit,
        facts: Mapping[str, Any],
    ) -> Model:
        """Return a fitted method as a model of the columns of the files.

        Parameters
        ----------
        name : str
            Name of the method.
        training : Training
            Rows that it was fitted to.
        fitted : LinearFit
        facts : mapping
            Further entries of ``model.json``.
        """
        estimator = fitted.model
        is_of_tasks = len(estimator.coef_) == len(self.tasks)
        if not is_of_tasks or estimator._layout != self.design:
            # A model for all tasks is saved as a ridge per task with equal
            # coefficients.
            ridge = build("IndependentRidge")
            estimator = ridge.fit_statistics(training.statistics)
        # `Model` takes the columns by their names.
        vars(estimator).pop("feature_names_in_", None)
        if isinstance(estimator, HierarchicalMTL):
            # Replacing its coefficients is not enough: its intervals need its
            # variances.
            model = ScaledTargets(estimator.with_columns_of(training.factors))
            model.estimator_ = model.estimator
            model.tasks_ = estimator.tasks_
            model.n_features_in_ = estimator.n_features_in_
            model._layout = "shared"
            model.center_ = training.center
            model.scale_ = training.scale
            if not training.statistics.shared:
                # The targets of all tasks have one unit.
                model._layout = "flat"
                model.center_ = training.center[:1]
                model.scale_ = training.scale[:1]
            estimator = model
        else:
            estimator.coef_ = np.ascontiguousarray(fitted.coef.T)
            estimator.intercept_ = np.array(fitted.intercept)
        description = {
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
        return Model(estimator, None, description)


def candidate_of(name: str, scale: Scale) -> Candidate:
    """Return a method with the values searched for its parameters.

    Parameters
    ----------
    name : str
        Name in the registry, or one of the baselines TaskMean, PooledRidge and
        IndependentRidgeCV.
    scale : Scale

    Raises
    ------
    UnknownNameError
        For a name that is not in the registry.
    ConfigError
        For a method that needs rows; it names the methods that do not.
    """
    if name == TUNED:
        grid = grid_of("IndependentRidge", scale)
        return Candidate(TUNED, INDEPENDENT, "IndependentRidge", {}, grid)
    if name == "TaskMean":
        return Candidate(name, TRIVIAL, "IndependentRidge")
    estimator = "IndependentRidge" if name == "PooledRidge" else name
    if not hasattr(build(estimator), "fit_statistics"):
        able = []
        for other in METHODS:
            if getattr(load_class(other), "_by_sums", False):
                able.append(other)
        regressor = name.removesuffix("Classifier")
        remedy = "Use another one"
        if regressor != name and regressor in able:
            remedy = f"Use {regressor} (squared loss on labels -1 and +1)"
        raise ConfigError(
            f"{name} needs the rows: only the squared loss can be computed from sums "
            "over chunks",
            f"{remedy}, or a sample of the rows as one file. From chunks: "
            f"{', '.join(able)}.",
        )
    return registered(name, scale, SEARCH_TOL, FIT_TOL)


@dataclass(repr=False, kw_only=True)
class ChunkComparison(Comparison):
    """Result of `mtlrun.compare` on files in chunks.

    Attributes
    ----------
    tables : tuple of Path
        Files of the table, in order.
    """

    tables: tuple[Path, ...]

    def _table_paths(self) -> list[Path]:
        return list(self.tables)


def compare_chunks(
    files: Sequence[Path],
    columns: TargetColumns,
    roles: Roles,
    options: CompareOptions,
    *,
    say: Callable[[str], None],
    output: Path | None = None,
) -> ChunkComparison:
    """Compare methods on a table in chunks; see `mtlrun.api.compare`.

    Parameters
    ----------
    files, columns, roles, options, say
        As of `mtlrun.api.run_comparison`.
    output : Path, optional
        Folder that keeps the sums of the first pass and the finished fits until the
        comparison is complete, so that an interrupted one goes on.

    Raises
    ------
    ConfigError
        For options and methods that need the rows.
    """
    changed = _changed_options(roles, options)
    table = ChunkedTable.of(
        files,
        target=columns.target,
        task=roles.task,
        targets=columns.targets,
        targets_last=columns.targets_last,
        weight=roles.weight,
        drop=roles.drop,
        n_folds=options.splits,
        seed=options.seed,
    )
    names = ["TaskMean", "IndependentRidge", "PooledRidge", TUNED]
    for name in list(options.methods) or ["default"]:
        if name == "default":
            names += METHODS_BY_DEFAULT
            if len(table.features) <= MAX_HIERARCHICAL_FEATURES:
                names.append("HierarchicalMTL")
        else:
            names.append(name)
    candidate_names = list(dict.fromkeys(names))
    for name in candidate_names:
        # A method that needs the rows is refused before the files are read. The scale
        # is only known afterwards.
        candidate_of(name, Scale(1, 2))
    pool = Pool(options.jobs, options.backend, options.scheduler)
    kept = None
    if output is not None:
        kept = kept_folder(output, table)
    with ExitStack() as stack:
        folder = None
        if uses_files(pool):
            pool = stack.enter_context(pool.keep_workers())
            folder = kept
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.mkdir(parents=True, exist_ok=True)
        try:
            data = Chunked.read(table, pool, say, folder, kept)
            result = _compare(data, candidate_names, options, changed, files, kept)
        except KeyboardInterrupt:
            if kept is not None and kept_state(kept, table) is not None:
                n_parts = len(list(kept.glob("part-*.npz")))
                say(
                    f"interrupted: {kept} keeps the sums of all rows and the fits of "
                    f"{n_parts} of {math.comb(table.n_folds, 2)} pairs of folds; the "
                    "same command goes on there"
                )
            else:
                say("interrupted in the first pass over the files: nothing is kept")
            raise
        if kept is not None:
            shutil.rmtree(kept, ignore_errors=True)
        return result


def _compare(
    data: Chunked,
    candidate_names: Iterable[str],
    options: CompareOptions,
    changed: dict[str, Any],
    files: Sequence[Path],
    kept: Path | None,
) -> ChunkComparison:
    """Compare methods on a table whose files have been read once."""
    n_folds = options.splits
    table = data.table
    scale = data.scale(1 - 1 / n_folds)
    candidates = [candidate_of(name, scale) for name in candidate_names]
    search = FoldSearch(data.folds, candidates, pool=data.pool, say=data.say)
    n_methods = counted(len(candidates), "method")
    n_values = sum(len(values_of(candidate)) for candidate in candidates)
    n_fits = n_values * math.comb(n_folds, 2)
    data.say(f"{n_fits:,} fits of {n_methods} to all pairs of training folds")
    search.run(combinations(range(n_folds), 2), kept)
    entries, coef, intercept = _fit_without_folds(data, search)
    data.say("second pass: losses of the rows left out")
    n_tasks = len(data.tasks)
    shape: tuple[int, ...] = (data.n_rows,)
    if data.table.task is None:
        shape = (data.n_rows, n_tasks)
    smallest = SMALLEST
    if options.smallest_gain is not None:
        smallest = options.smallest_gain
    margin = MARGIN
    if options.margin is not None:
        margin = options.margin
    evaluation = SummedEvaluation(
        # Only the shape of the targets matters: a view of one number takes no memory.
        y=np.broadcast_to(np.nan, shape),
        row_index=RowIndex(n_tasks),
        rows=[],
        new=[],
        n_folds=options.splits,
        n_repeats=1,
        measure=NMSE,
        smallest=smallest,
        margin=margin,
        metric=data.metric,
        sums=data.losses(coef, intercept),
    )
    name = table.files[0].parent.name or "files"
    board = Leaderboard(
        title=f"Does multi-task learning help on {name}?",
        metric=evaluation.metric,
        greater=False,
        tasks=data.tasks,
        sizes=[int(n) for n in data.folds.whole.n_rows],
        entries=entries,
        evaluation=evaluation,
        against="IndependentRidge",
        facts=_facts(data),
    )
    best_label = board.ranked()[0].label
    best = next(c for c in candidates if c.label == best_label)
    trained = _fit_to_all_rows(data, best)
    estimator = trained.model.estimator
    return ChunkComparison(
        board=board,
        trained=trained,
        coefficients=coefficient_frame(
            data.tasks, estimator.intercept_, estimator.coef_, table.features
        ),
        coefficients_of=best_label,
        cells={
            "schema": 1,
            "options": changed,
            "files": named_files(files),
            "folds": n_folds,
            "seed": options.seed,
        },
        saved=best_label,
        tables=table.files,
    )


def _changed_options(roles: Roles, options: CompareOptions) -> dict[str, Any]:
    """Return the options that differ from their defaults, and check that they apply.

    Raises
    ------
    ConfigError
        For an option that needs the rows, and for fewer than three folds.
    """
    standard = vars(Roles(task_type="regression")) | vars(CompareOptions())
    # The column of tasks is not optional; how processes are started is not stored.
    ignored = ("task", "backend", "scheduler")
    changed = {}
    for name, value in (vars(roles) | vars(options)).items():
        if value and value != standard[name] and name not in ignored:
            changed[name] = value
    for name in changed:
        if name not in OPTIONS:
            option = name.replace("_", "-")
            raise ConfigError(f"--{option} cannot be used with data in chunks", _SAMPLE)
    if options.splits < 3:
        raise ConfigError(
            "data in chunks need at least 3 folds: the inner folds are the other ones",
            "--splits 5",
        )
    return changed


def named_files(files: Sequence[Path]) -> dict[str, str]:
    """Return the sizes of files by their path below the folder common to all.

    The path of that folder is private to the user, so it is left out.
    """
    paths = [file.absolute() for file in files]
    root = Path(os.path.commonpath([path.parent for path in paths]))
    sizes = {}
    for path in paths:
        sizes[path.relative_to(root).as_posix()] = f"{path.stat().st_size} bytes"
    return sizes


def _facts(data: Chunked) -> list[str]:
    """Return data, split and search in sentences."""
    table = data.table
    n_folds = len(data.folds.parts)
    design = "every row belongs to one task"
    if table.task is None:
        design = "all tasks share the same rows"
    n_files = counted(len(table.files), "file")
    n_rows = counted(data.n_rows, "row")
    n_features = counted(len(table.features), "feature")
    n_tasks = counted(len(data.tasks), "task")
    facts = [
        f"{n_files}: {n_rows}, {n_features}, {n_tasks} (regression; {design})",
        "all fits are made from sums of products over the rows, which one pass over "
        "the files adds up; a second pass takes the losses of the rows left out",
        f"{n_folds}-fold cross-validation, 1 repeat; the fold of a row is a hash of "
        f"seed ({table.seed}), position of the file and row",
        f"parameters are chosen on the {n_folds - 1} other folds, each left out in "
        "turn; of methods within one standard error of the best, the first one is "
        "selected",
        "features and targets are standardized inside every fit; scores and "
        "coefficients are in original units",
    ]
    if table.weight is not None:
        facts.append(
            f"rows are weighted by {table.weight!r}, normalized to mean 1, in fits and "
            "scores"
        )
    return [*facts, *data.notes]


def _fit_without_folds(
    data: Chunked, search: FoldSearch
) -> tuple[list[ComparedMethod], Array, Array]:
    """Fit all candidates without each fold, with the parameters of the search.

    Returns
    -------
    entries : list of ComparedMethod
    coef : ndarray of shape (n_folds, M, d, T)
    intercept : ndarray of shape (n_folds, M, T)
    """
    candidates = search.candidates
    n_folds = len(data.folds.parts)
    n_tasks = len(data.tasks)
    entries = []
    for candidate in candidates:
        entries.append(ComparedMethod(candidate.label, candidate.family))
    intercept = np.empty((n_folds, len(entries), n_tasks))
    coef = np.empty((n_folds, len(entries), len(data.table.features), n_tasks))
    items = []
    for fold in range(n_folds):
        params = []
        for candidate, entry in zip(candidates, entries, strict=True):
            best_params, entry.inner[fold] = search.best(candidate, fold)
            params.append(best_params)
        items.append((candidates, params, fold))
    fits_by_fold = run_parts(fit_part, data.folds, data.pool, items)
    for fold, fits in enumerate(fits_by_fold):
        for index, entry in enumerate(entries):
            started = time.perf_counter()
            chosen = items[fold][1][index]
            candidate = candidates[index]
            fit = fits[index]
            coef[fold, index] = fit.coef
            intercept[fold, index] = fit.intercept
            entry.fold_losses[fold] = search.fold_losses(candidate, fold, chosen)
            scores = data.scores(fold, fit.coef, fit.intercept)[data.metric]
            tasks: list[float | None] = scores.tolist()
            for t in np.flatnonzero(np.isnan(scores)).tolist():
                tasks[t] = None
            entry.tasks[fold] = tasks
            entry.scores[fold] = float(np.nanmean(scores))
            entry.chosen[fold] = chosen
            if candidate.label == TUNED:
                # The strengths of single tasks are not listed.
                entry.chosen[fold] = {}
            if not fit.converged:
                entry.notes = ["not converged"]
            fit_seconds = fit.seconds + time.perf_counter() - started
            search_seconds = search.seconds[candidate.label] / n_folds
            entry.fit_seconds.append(fit_seconds)
            entry.seconds.append(search_seconds + fit_seconds)
            # The losses are sums: this is the position of the method in them.
            entry.losses[fold] = np.array(index)
    return entries, coef, intercept


def _fit_to_all_rows(data: Chunked, candidate: Candidate) -> Trained:
    """Tune a method by cross-validation over all folds, and fit it to all rows."""
    data.say(f"fitting {candidate.label} on all rows")
    search = FoldSearch(data.folds, [candidate], pool=data.pool, say=data.say)
    search.run((fold,) for fold in range(len(data.folds.parts)))
    params, score = search.best(candidate, None)
    training = Training.of(data.folds.whole)
    fitted = training.fit(candidate, params)
    metrics = {"nmse": score}
    result = {
        "method": candidate.label,
        "params": params,
        "metrics": metrics,
        "chosen on": "all folds",
        "seconds": {"fit": fitted.seconds},
    }
    facts = {
        "name": candidate.label,
        "refit": True,
        "metrics": metrics,
        "config": {"method": candidate.label},
    }
    return Trained(data.model(candidate.label, training, fitted, facts), result, "")
