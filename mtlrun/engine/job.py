"""Jobs: everything that a number in a table depends on, and nothing else.

There are three kinds of jobs (`JobKind`). A *fit* trains a method on the training rows
of one split, with the parameters that a search selected, and scores the test rows. A
*fold* scores all candidates of such a search on one fold within the training rows. An
*analysis* calls a function. `JobBuilder` derives the jobs of experiments, comparisons
and trained models, and `mtlrun.engine.fit` computes them.

The key of a job is the digest of its content and of the versions of the code that
computes it. Results are stored under this key, and a stored job is not recomputed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from mtlrun.catalog.methods import (
    Method,
    Versions,
    complete,
    method_paths,
    resolved_method,
    versions_of,
    with_seed,
    without_empty,
)
from mtlrun.engine.environment import made_by
from mtlrun.engine.record import (
    JobKind,
    Record,
    SearchResult,
    candidates,
    search_key,
)
from mtlrun.utils.io import (
    derive_seed,
    is_json_number,
    jsonable,
    read_fields,
    sha256_plain,
    stored_fields,
)

#: Version of the content of a job. Raise it when the meaning of the content changes.
SCHEMA = 3
#: Prefix of the id of a data set that is a table of the user; titles omit it.
OWN_TABLE = "own-"
#: Id of a data frame of the user. The seeds of all their tables contain this id.
OWN_FRAME = f"{OWN_TABLE}data-frame"
#: Stands for the id of a data set in the seeds of analyses of published numbers.
PUBLISHED = "published"


@dataclass(frozen=True)
class DatasetRef:
    """Reference to a data set.

    Attributes
    ----------
    id : str
    options : dict
        Options of its reader.
    fingerprint : str
        sha256 of everything that determines the loaded data.
    """

    id: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    @cached_property
    def plain(self) -> dict[str, Any]:
        """Fields that are not empty."""
        fields = {
            "id": self.id,
            "options": self.options,
            "fingerprint": self.fingerprint,
        }
        return dict(jsonable(without_empty(fields)))


@dataclass(frozen=True)
class Split:
    """Split of the rows into training and test rows.

    Attributes
    ----------
    kind : str
    trial : int
        Number of the trial, from 0.
    seed : int
    train : float or None
        Share of the rows to train on; for k folds, of the training rows of each fold.
    folds : int or None
        Number of folds of cross-validation.
    name : str or None
        Name of a split that the data set has.
    validation : float or None
        Share of the rows that a search scores its candidates on.

    A field is None if the kind of split does not use it, see
    `mtlrun.data.splits.split_rows`.
    """

    kind: str
    trial: int = 0
    seed: int = 0
    train: float | None = None
    folds: int | None = None
    name: str | None = None
    validation: float | None = None

    @property
    def of_all_trials(self) -> dict[str, Any]:
        """Fields that are set, without the trial and its seed."""
        fields = stored_fields(self).items()
        return {name: value for name, value in fields if name not in ("trial", "seed")}


#: Kinds of the feature step of a table. The second one adds columns of further groups,
#: the third one the time since the first row of the task.
TABLE = "table"
TABLE_WITH_LEVELS = "table+levels"
TABLE_WITH_ELAPSED = "table+elapsed"
TABLE_KINDS = (TABLE, TABLE_WITH_LEVELS, TABLE_WITH_ELAPSED)


@dataclass(frozen=True)
class Features:
    """Feature step: a transformation of X that is learned on the training rows."""

    kind: str
    degree: int | None = None
    normalize: bool | None = None
    hash_bits: int | None = None


#: Value of `Search.on`: only the better half of the candidates goes on after each fold.
HALVING = "halving"


@dataclass(frozen=True)
class Search:
    """Search for the best parameters within the training rows.

    Attributes
    ----------
    grid : dict of str to list
    folds : int
        Number of folds of the cross-validation.
    metric : str
    seed : int
    method : Method
        Fitted in the search; may be a faster solver of the same objective.
    on : {"folds", "validation", "halving"}
        ``validation``: candidates are scored on the validation rows of the split.
        ``halving``: only the better half of the candidates goes on after each fold, so
        all folds are one job.
    versions : dict of str to int or str
        Versions of the code that computes the search.
    visited : int or None
        Number of folds that are computed, starting with the first; None: all.
    n_first : int or None
        Number of first folds on which all candidates are scored; None: all.
    survivors : list of int or None
        Positions of the candidates that are scored on the other folds; None: all.
    """

    grid: dict[str, list[Any]]
    folds: int
    metric: str
    seed: int
    method: Method
    on: str = "folds"
    versions: dict[str, int | str] = field(default_factory=dict)
    visited: int | None = None
    n_first: int | None = None
    survivors: list[int] | None = None

    @property
    def n_visited(self) -> int:
        """Number of folds that are computed."""
        if self.visited is None:
            return self.folds
        return self.visited

    @cached_property
    def plain(self) -> dict[str, Any]:
        """Fields that are not empty, without the method and the versions."""
        fields = {
            "grid": self.grid,
            "folds": self.folds,
            "metric": self.metric,
            "seed": self.seed,
            "on": self.on,
            "visited": self.visited,
            "n_first": self.n_first,
            "survivors": self.survivors,
        }
        return dict(jsonable(without_empty(fields)))


@dataclass(frozen=True)
class Timing:
    """How the seconds of a fit are measured.

    Attributes
    ----------
    repeats : int
        Number of timed fits; the median counts.
    threads : int
    warmup : bool
        Whether an untimed fit comes first, unless this process is warm already.
    """

    repeats: int = 1
    threads: int = 1
    warmup: bool = True


@dataclass(frozen=True)
class Scoring:
    """Results of a fit that are recorded.

    Attributes
    ----------
    metrics : tuple of str
    average : {"task", "sample"}
    keep : tuple of str
        ``predictions``: the scores of the test rows are stored.
    timing : Timing or None
        None: the fit is not timed.
    """

    metrics: tuple[str, ...] = ()
    average: str = "task"
    keep: tuple[str, ...] = ()
    timing: Timing | None = None

    @cached_property
    def plain(self) -> dict[str, Any]:
        """Fields that are not empty."""
        fields = {
            "metrics": list(self.metrics),
            "average": self.average,
            "keep": list(self.keep),
            "timing": self.timing and stored_fields(self.timing),
        }
        return without_empty(fields)


@dataclass(frozen=True)
class Job:
    """Everything that a number depends on.

    Attributes
    ----------
    dataset : DatasetRef or None
        None for analyses of published numbers.
    split : Split
    method : Method
    scoring : Scoring
    features : Features or None
    search : Search or None
    fold : int or None
        Number of the fold; None unless the job is a fold.
    versions : dict of str to int or str
        Versions of the code that computes the job, see
        `mtlrun.catalog.methods.versions_of`.
    """

    dataset: DatasetRef | None
    split: Split
    method: Method
    scoring: Scoring
    features: Features | None = None
    search: Search | None = None
    fold: int | None = None
    versions: dict[str, int | str] = field(default_factory=dict)

    @property
    def kind(self) -> JobKind:
        """Kind of the job: a fit, a fold of a search, or an analysis."""
        if self.fold is not None:
            return JobKind.FOLD
        if self.method.measure:
            return JobKind.ANALYSIS
        return JobKind.FIT

    @property
    def timed(self) -> bool:
        """Whether the seconds of the fit are a result."""
        return self.scoring.timing is not None

    def content(self) -> dict[str, Any]:
        """Return everything that the number depends on, except the versions.

        The keys of all stored results depend on this dictionary, but not on its order.
        """
        search: dict[str, Any] = {}
        if self.search is not None:
            search = dict(self.search.plain)
            # A fold fits the method of the search, which is the method of the job.
            if self.fold is None:
                keys = [fold.key for fold in self.folds]
                search |= {"method": self.search.method.plain, "keys": keys}
        fields = {
            "dataset": self.dataset and self.dataset.plain,
            "split": stored_fields(self.split),
            "method": self.method.plain,
            "scoring": self.scoring.plain,
            "features": self.features and stored_fields(self.features),
            "search": search,
            "fold": self.fold,
        }
        return {"schema": SCHEMA, "family": self.kind.value, **without_empty(fields)}

    @cached_property
    def key(self) -> str:
        """sha256 of the content and the versions."""
        return sha256_plain([self.content(), self.versions])

    def record(self, **results: Any) -> Record:
        """Return a record of the job.

        Parameters
        ----------
        **results
            Fields of the `Record` that hold results.
        """
        return Record(
            self.key,
            self.kind.value,
            self.content(),
            dict(self.versions),
            made_by(),
            **results,
        )

    @cached_property
    def folds(self) -> tuple[Job, ...]:
        """Jobs of the search before this fit.

        Methods whose searches are equal share these jobs.
        """
        if self.search is None or self.fold is not None:
            return ()
        search = self.search
        scoring = Scoring((search.metric,), self.scoring.average)
        fold = replace(
            self, method=search.method, scoring=scoring, versions=search.versions
        )
        if search.on == HALVING:
            return (replace(fold, fold=0),)
        # A fold does not depend on how many other folds are visited, so that a search
        # of the first folds can be continued.
        first_search = replace(search, visited=None, n_first=None, survivors=None)
        later_search = replace(first_search, survivors=search.survivors)
        n_first = search.n_visited if search.n_first is None else search.n_first
        folds = []
        for number in range(search.n_visited):
            fold_search = first_search if number < n_first else later_search
            folds.append(replace(fold, search=fold_search, fold=number))
        return tuple(folds)

    def fitted_once(self) -> Job:
        """Return the job without an untimed first fit and without repeats.

        These change seconds, but no predictions.
        """
        if self.scoring.timing is None:
            return self
        timing = replace(self.scoring.timing, repeats=1, warmup=False)
        return replace(self, scoring=replace(self.scoring, timing=timing))

    def of_first_folds(self, n_folds: int) -> Job:
        """Return the job whose search visits only the first folds."""
        assert self.search is not None
        return replace(self, search=replace(self.search, visited=n_folds))

    def with_survivors(self, n_first: int, survivors: Sequence[int]) -> Job:
        """Return the job whose search drops candidates after the first folds.

        Parameters
        ----------
        n_first : int
            Number of first folds, on which all candidates are scored.
        survivors : sequence of int
            Positions of the candidates that are scored on the other folds.
        """
        assert self.search is not None
        search = replace(self.search, n_first=n_first, survivors=list(survivors))
        return replace(self, search=search)


def job_from(
    content: Mapping[str, Any],
    versions: Mapping[str, int | str],
    search_versions: Mapping[str, int | str],
) -> Job:
    """Return the job with a given content, the inverse of `Job.content`.

    Parameters
    ----------
    content : mapping
        As stored in the inputs of a record.
    versions : mapping
        Versions of the code that computes the job.
    search_versions : mapping
        Versions of the code that computes its search; ignored without a search.
    """
    search = content.get("search")
    if search:
        # A fold is computed by the method and the versions of its search.
        if content.get("fold") is not None:
            search_versions = versions
        search = {"method": content["method"], **search, "versions": search_versions}
    fields = {"dataset": None, "scoring": {}, **content}
    return read_fields(Job, {**fields, "search": search, "versions": versions})


def with_params(
    params: Mapping[str, Any], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a copy of parameters with some of them replaced.

    Parameters
    ----------
    params : mapping
    changes : mapping
        New values. ``base__alpha`` is the parameter `alpha` of the estimator that is
        the value of `base`.
    """
    result = copy.deepcopy(dict(params))
    for name, value in changes.items():
        first, _, rest = name.partition("__")
        if rest:
            nested = result[first]
            nested_params = with_params(nested.get("params") or {}, {rest: value})
            result[first] = {**nested, "params": nested_params}
        else:
            result[name] = copy.deepcopy(value)
    return result


def job_seed(base: int, dataset_id: str, *purpose: object) -> int:
    """Derive a seed from the base seed, the data set and the purpose.

    The id of a user's table comes from the name of its file. A copy under another name
    must give the same results, so this id is not part of the seed.
    """
    if dataset_id.startswith(OWN_TABLE):
        dataset_id = OWN_FRAME
    return derive_seed(base, dataset_id, *purpose)


def split_seed(
    base: int, dataset_id: str, *, kind: str, folds: int | None, trial: int
) -> int:
    """Return the seed of a split.

    The trials of k-fold cross-validation are the folds of one partition, then the folds
    of the next partition, and so on. All folds of a partition share a seed.
    """
    if kind != "kfold":
        return job_seed(base, dataset_id, trial)
    repeat = trial // (folds or 1)
    if repeat == 0:
        return job_seed(base, dataset_id)
    return job_seed(base, dataset_id, "repeat", repeat)


@dataclass(frozen=True)
class JobBuilder:
    """Creation of jobs on a data set, for experiments, comparisons and trained models.

    Equal methods, splits and searches have equal jobs, wherever they come from.

    Attributes
    ----------
    dataset : DatasetRef or None
        None for analyses of published numbers.
    source : str
        Name of the reader or generator of the data; empty without a data set.
    seed : int
        Base of the seeds of splits, searches and estimators.
    known_versions : dict
        Versions by source and paths of the code; grows. Finding them takes long, and
        many jobs have the same, so builders can share it.
    """

    dataset: DatasetRef | None
    source: str
    seed: int
    known_versions: dict[tuple[str, ...], Versions] = field(default_factory=dict)

    def jobs(
        self,
        method: Method,
        splits: Iterable[Split],
        scoring: Scoring,
        *,
        features: Features | None = None,
        search: Search | None = None,
    ) -> list[Job]:
        """Return the jobs of a method, one for each split.

        Parameters
        ----------
        method : Method
            As files name it: default parameters and random states are added.
        splits : iterable of Split
            Their seeds are derived here.
        scoring : Scoring
        features : Features, optional
        search : Search, optional
            Its seed and versions, and the parameters of its method, are completed here.
        """
        dataset_id = PUBLISHED if self.dataset is None else self.dataset.id
        completed = resolved_method(method)
        versions = self._versions(completed)
        if search is not None:
            searched = resolved_method(search.method)
            search = replace(search, method=searched, versions=self._versions(searched))
        jobs = []
        for split in splits:
            trial = split.trial
            seed = job_seed(self.seed, dataset_id, trial, "estimator")
            split_search = search
            if search is not None:
                split_search = replace(
                    search,
                    method=with_seed(search.method, seed),
                    seed=job_seed(self.seed, dataset_id, trial, "selection"),
                )
            job = Job(
                dataset=self.dataset,
                split=replace(
                    split,
                    seed=split_seed(
                        self.seed,
                        dataset_id,
                        kind=split.kind,
                        folds=split.folds,
                        trial=trial,
                    ),
                ),
                method=with_seed(completed, seed),
                scoring=scoring,
                features=features,
                search=split_search,
                versions=versions,
            )
            jobs.append(job)
        return jobs

    def _versions(self, method: Method) -> Versions:
        """Return the versions of everything that computes a job of a method."""
        paths = method_paths(method)
        if (self.source, *paths) not in self.known_versions:
            versions = versions_of(paths, self.source)
            self.known_versions[self.source, *paths] = versions
        return self.known_versions[self.source, *paths]


def searched_method(
    estimator: str, params: Mapping[str, Any], changes: Mapping[str, Any]
) -> Method:
    """Return the method that a search fits.

    Parameters
    ----------
    estimator : str
    params : mapping
        Parameters of the method that is searched.
    changes : mapping
        Parameters of the search alone, such as a faster solver.
    """
    return Method(estimator, params=with_params(complete(estimator, params), changes))


# -------------------------------------------------------------- selection of parameters

#: Parameters that weaken the regularization as they grow. All others are taken for its
#: strength. Warm starts go from the most to the least regularized candidate: the first
#: solution is cheap, and consecutive solutions are close.
WEAKENING = ("C", "beta")


def strong_to_weak(candidate_params: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the positions of candidates from the most to the least regularized.

    The first parameter takes precedence, then the second, and so on. Values that are
    not numbers, such as names of kernels, keep the order of the file.
    """
    values_by_name: dict[str, list[Any]] = {}
    for params in candidate_params:
        for name, value in params.items():
            values = values_by_name.setdefault(name, [])
            if value not in values:
                values.append(value)

    def weakness(name: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return values_by_name[name].index(value)
        if name.rpartition("__")[2] in WEAKENING:
            return value
        return -value

    def sort_key(position: int) -> tuple[float, ...]:
        params = candidate_params[position]
        return tuple(weakness(name, value) for name, value in params.items())

    return sorted(range(len(candidate_params)), key=sort_key)


def choice_of(job: Job, folds: Iterable[Record]) -> SearchResult:
    """Return the result of the search of a job, computed from the records of its
    folds.
    """
    from mtlrun.metrics.registry import get_metric

    assert job.search is not None
    records = list(folds)
    metric = get_metric(job.search.metric)
    choice = choose(
        job.search.grid,
        metric.name,
        metric.greater_is_better,
        [(record.key, record.selection) for record in records],
        job.search.survivors,
    )
    choice.seconds = sum(record.seconds.total or 0.0 for record in records)
    return choice


def choose(
    grid: Mapping[str, Sequence[Any]],
    metric: str,
    greater_is_better: bool,
    folds: Sequence[tuple[str, SearchResult]],
    survivors: Sequence[int] | None = None,
) -> SearchResult:
    """Select the best candidate of a search.

    The score of a candidate is its mean over the folds in which the metric is defined.
    A candidate that failed in any fold has no score. The first of several equally good
    candidates, in the order of the file, is selected.

    Parameters
    ----------
    grid : mapping
    metric : str
    greater_is_better : bool
    folds : sequence of (key, selection)
        Key and `Record.selection` of each fold.
    survivors : sequence of int, optional
        Positions of the candidates that were scored on all folds; the others have no
        score. Default: all.

    Returns
    -------
    SearchResult
    """
    all_params = candidates(grid)
    selections = [selection for _, selection in folds]
    means: list[float | None] = []
    scores = []
    undefined = []
    not_converged = []
    errors: dict[str, list[str]] = {}
    for position in range(len(all_params)):
        fold_scores = [selection.scores[position] for selection in selections]
        messages = []
        for number, selection in enumerate(selections):
            message = selection.errors[position]
            if message:
                messages.append(f"fold {number}: {message}")
        if messages:
            errors[str(position)] = messages
        mean = None
        is_survivor = survivors is None or position in survivors
        if is_survivor and not messages:
            mean = mean_score(fold_scores)
        means.append(mean)
        scores.append(fold_scores)
        undefined.append([selection.undefined[position] for selection in selections])
        flags = [bool(selection.not_converged[position]) for selection in selections]
        not_converged.append(sum(flags))

    best_score = None
    defined_means = [mean for mean in means if mean is not None]
    if defined_means:
        best_score = (max if greater_is_better else min)(defined_means)
    best_candidates = []
    for params, mean in zip(all_params, means, strict=True):
        if best_score is not None and mean == best_score:
            best_candidates.append(params)
    fold_keys = [key for key, _ in folds]
    best_params = None
    edges: dict[str, str] = {}
    if best_candidates:
        best_params = best_candidates[0]
        edges = grid_edges(grid, best_params)
    return SearchResult(
        key=search_key(fold_keys),
        chosen=best_params,
        score=best_score,
        metric=metric,
        ties=best_candidates[1:],
        edges=edges,
        grid={name: list(values) for name, values in grid.items()},
        names=list(grid),
        warm_started=all(selection.warm_started for selection in selections),
        means=means,
        scores=scores,
        undefined=undefined,
        not_converged=not_converged,
        errors=errors,
    )


def choose_over_splits(
    grid: Mapping[str, Sequence[Any]], losses: Sequence[Sequence[float | None]]
) -> dict[str, Any]:
    """Select the parameters of one model from the searches of several splits.

    The candidate with the smallest sum of losses is selected. A candidate has no loss
    in a split where it failed, or where halving dropped it, so a sum over fewer splits
    would be smaller for no good reason. Therefore only the candidates with losses in
    the most splits compete, and only splits in which all of them have a loss count. The
    first of several candidates with equal sums is selected. After halving of two
    candidates there may be no such split: then all sums are 0.

    Parameters
    ----------
    grid : mapping
    losses : sequence of sequences
        By split, the mean inner loss of each candidate, lower is better; None for a
        candidate without one.

    Returns
    -------
    dict
        Empty if no candidate has a loss in any split.
    """
    all_params = candidates(grid)
    n_losses = []
    for position in range(len(all_params)):
        n_losses.append(sum(split[position] is not None for split in losses))
    max_losses = max(n_losses, default=0)
    if max_losses == 0:
        return {}
    competing = [i for i, count in enumerate(n_losses) if count == max_losses]
    shared_splits = []
    for split in losses:
        if all(split[position] is not None for position in competing):
            shared_splits.append(split)
    sums = {}
    for position in competing:
        sums[position] = math.fsum(split[position] or 0.0 for split in shared_splits)
    # `min` returns the first of equal candidates.
    best = min(competing, key=sums.__getitem__)
    return all_params[best]


def mean_score(scores: Sequence[float | None]) -> float | None:
    """Return the mean of the defined scores; None if no score is defined."""
    defined = [score for score in scores if score is not None]
    if not defined:
        return None
    return math.fsum(defined) / len(defined)


def grid_edges(
    grid: Mapping[str, Sequence[Any]], best_params: Mapping[str, Any]
) -> dict[str, str]:
    """Return the numeric parameters that were selected at an end of their grid.

    The best value of such a parameter may lie outside the grid.

    Returns
    -------
    dict
        Name of the parameter -> ``low`` or ``high``.
    """
    edges = {}
    for name, values in grid.items():
        if len(values) < 2 or not all(map(is_json_number, values)):
            continue
        if best_params[name] == min(values):
            edges[name] = "low"
        elif best_params[name] == max(values):
            edges[name] = "high"
    return edges
