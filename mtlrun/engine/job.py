"""A job: one number of a table, as everything that it depends on and nothing else.

There are three families. A *fit* trains a method on the training rows of one split, with the parameters that a search
chose, and scores the test rows. A *fold* scores every candidate of such a search on one fold inside the training rows.
A *measure* calls a function. `mtlrun.engine.fit` says what each of them does.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeGuard

from mtlrun.engine.packed import search_key
from mtlrun.engine.record import JobKind, Record, candidates, made_by
from mtlrun.utils.io import sha256_json

#: Of the content of a job. Raise it when its meaning changes.
SCHEMA = 3
#: Why splits, features, searches, scores or timings changed, a line for each time: the version of the protocol is one
#: more than their number. All stored results of earlier versions are then out of date.
PROTOCOL_CHANGES: tuple[str, ...] = ()


@dataclass(frozen=True)
class DatasetRef:
    """A data set: its id, the options of its reader, and the sha256 of everything that decides the loaded data."""

    id: str
    options: dict[str, Any]
    fingerprint: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not empty."""
        fields = {
            "id": self.id,
            "options": self.options,
            "fingerprint": self.fingerprint,
        }
        return _without_empty(fields)


@dataclass(frozen=True)
class Split:
    """One division of the rows: the fields of the split in the experiment file, number of the trial, seed."""

    kind: str
    trial: int
    seed: int
    train: float | None = None
    folds: int | None = None
    name: str | None = None
    validation: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are given."""
        fields = {
            "kind": self.kind,
            "trial": self.trial,
            "seed": self.seed,
            "train": self.train,
            "folds": self.folds,
            "name": self.name,
            "validation": self.validation,
        }
        return _without_empty(fields)


#: The step of a table, and the same with columns of further groups.
TABLE = "table"
TABLE_WITH_LEVELS = "table+levels"
TABLE_WITH_ELAPSED = "table+elapsed"
TABLE_KINDS = (TABLE, TABLE_WITH_LEVELS, TABLE_WITH_ELAPSED)


@dataclass(frozen=True)
class Features:
    """What is done to X first, learned on the training rows."""

    kind: str
    degree: int | None = None
    normalize: bool | None = None
    hash_bits: int | None = None

    @property
    def is_table(self) -> bool:
        """Whether the data are columns of a table: numbers, words and empty cells."""
        return self.kind in TABLE_KINDS

    @property
    def has_levels(self) -> bool:
        """Whether columns of further groups follow the features."""
        return self.kind == TABLE_WITH_LEVELS

    @property
    def has_elapsed(self) -> bool:
        """Whether the time since the first row of the task follows the features."""
        return self.kind == TABLE_WITH_ELAPSED

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are given."""
        fields = {
            "kind": self.kind,
            "degree": self.degree,
            "normalize": self.normalize,
            "hash_bits": self.hash_bits,
        }
        return _without_empty(fields)


@dataclass(frozen=True)
class Method:
    """An estimator with its parameters, nested ones and random states included, or a measure with its parameters.

    Classes and measures of mtlrun go by their names, others by ``package.module:name``.

    `published` holds the sha256 of the file of published numbers that a measure reads.
    """

    estimator: str = ""
    measure: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not empty."""
        fields = {
            "estimator": self.estimator,
            "measure": self.measure,
            "params": self.params,
            "published": self.published,
        }
        return _without_empty(fields)


HALVING = "halving"


@dataclass(frozen=True)
class Search:
    """The choice of parameters inside the training rows: a grid, scored by cross-validation or on the validation part.

    `method` is what is fitted in the search; it may be a faster solver of the same objective. `on` is "folds",
    "validation", or "halving": after every fold the better half of the candidates goes on, so all folds are one job.
    `visited` is the number of folds that are computed, from the first one on; by default, all of them.
    `survivors` are the positions of the candidates that are scored after the first
    `n_first` folds; by default, all of them.
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
        return self.folds if self.visited is None else self.visited

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not empty, without the versions."""
        fields = {
            "grid": self.grid,
            "folds": self.folds,
            "metric": self.metric,
            "seed": self.seed,
            "method": self.method.to_dict(),
            "on": self.on,
            "visited": self.visited,
            "n_first": self.n_first,
            "survivors": self.survivors,
        }
        return _without_empty(fields)


@dataclass(frozen=True)
class Timing:
    """How seconds are measured."""

    repeats: int = 1
    threads: int = 1
    warmup: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return all fields."""
        return {
            "repeats": self.repeats,
            "threads": self.threads,
            "warmup": self.warmup,
        }


@dataclass(frozen=True)
class Scoring:
    """What is asked of a fit: metrics, how they are averaged, what is kept, whether it is timed."""

    metrics: tuple[str, ...] = ()
    average: str = "task"
    keep: tuple[str, ...] = ()
    timing: Timing | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not empty."""
        fields = {
            "metrics": list(self.metrics),
            "average": self.average,
            "keep": list(self.keep),
            "timing": _dict_of(self.timing),
        }
        return _without_empty(fields)


@dataclass(frozen=True)
class Job:
    """What one number depends on.

    Attributes
    ----------
    dataset : DatasetRef or None
        None for measures of published numbers.
    split : Split
    method : Method
    scoring : Scoring
    features : Features or None
    search : Search or None
    fold : int or None
        Of a fold: its number.
    versions : dict of str to int or str
        Of what computes it (`mtlrun.engine.methods.versions_of`).
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
        """Whether it is a fit, a fold of a search, or an analysis."""
        if self.fold is not None:
            return JobKind.FOLD
        return JobKind.ANALYSIS if self.method.measure else JobKind.FIT

    @property
    def timed(self) -> bool:
        """Whether seconds are a result."""
        return self.scoring.timing is not None

    def content(self) -> dict[str, Any]:
        """Return everything that the number depends on except the versions.

        The keys of all stored results depend on this dictionary, but not on its order.
        """
        fields = {
            "dataset": _dict_of(self.dataset),
            "split": self.split.to_dict(),
            "method": self.method.to_dict(),
            "scoring": self.scoring.to_dict(),
            "features": _dict_of(self.features),
            "search": self._search_dict(),
            "fold": self.fold,
        }
        return {"schema": SCHEMA, "family": self.kind.value, **_without_empty(fields)}

    def _search_dict(self) -> dict[str, Any] | None:
        if self.search is None:
            return None
        fields = self.search.to_dict()
        if self.fold is None:
            fields["keys"] = [fold.key for fold in self.folds]
        else:
            # A fold fits the method of the search: it is the method of the job.
            del fields["method"]
        return fields

    @cached_property
    def key(self) -> str:
        """sha256 of content and versions."""
        return sha256_json([self.content(), self.versions])

    def record(self, **results: Any) -> Record:
        """Return the record of the job with these results."""
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
        """The jobs of the search; those of methods that search the same way are the same."""
        if self.search is None or self.fold is not None:
            return ()
        search = self.search
        scoring = Scoring((search.metric,), self.scoring.average)
        fold = replace(
            self, method=search.method, scoring=scoring, versions=search.versions
        )
        if search.on == HALVING:
            return (replace(fold, fold=0),)
        # A fold is the same job whether the others are visited or not, so that a search
        # of the first folds can be continued.
        full = replace(search, visited=None, n_first=None, survivors=None)
        later = replace(full, survivors=search.survivors)
        n_first = search.n_visited if search.n_first is None else search.n_first
        return tuple(
            replace(fold, search=full if k < n_first else later, fold=k)
            for k in range(search.n_visited)
        )

    def of_first_folds(self, n_folds: int) -> Job:
        """Return the job whose search visits only the first folds."""
        assert self.search is not None
        return replace(self, search=replace(self.search, visited=n_folds))

    def with_survivors(self, n_first: int, survivors: Sequence[int]) -> Job:
        """Return the job whose search scores only some candidates after the first folds.

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
    searched: Mapping[str, int | str],
) -> Job:
    """Return the job that has this content (`Job.content`), as a record keeps it.

    Parameters
    ----------
    content : mapping
    versions : mapping
        Of what computes the job.
    searched : mapping
        Of what its search fits; counts for nothing without one.
    """
    dataset, features, fold = (
        content.get(name) for name in ("dataset", "features", "fold")
    )
    method = Method(**content["method"])
    search = {
        key: value
        for key, value in (content.get("search") or {}).items()
        if key != "keys"
    }
    if search:
        inside = method if fold is not None else Method(**search.pop("method"))
        search = {
            **search,
            "method": inside,
            "versions": dict(versions if fold is not None else searched),
        }
    given = dict(content.get("scoring") or {})
    timing = given.pop("timing", None)
    scoring: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in given.items()
    }
    return Job(
        DatasetRef(dataset["id"], dataset.get("options", {}), dataset["fingerprint"])
        if dataset
        else None,
        Split(**content["split"]),
        method,
        Scoring(**scoring, timing=Timing(**timing) if timing else None),
        Features(**features) if features else None,
        Search(**search) if search else None,
        fold,
        dict(versions),
    )


def is_nested(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a parameter value stands for an estimator."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("estimator"), str)
        and set(value) <= {"estimator", "params"}
    )


def with_params(
    params: Mapping[str, Any], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a copy of parameters with some replaced; ``base__alpha`` reaches into the estimator given as `base`."""
    result = copy.deepcopy(dict(params))
    for name, value in changes.items():
        first, _, rest = name.partition("__")
        if rest:
            inner = result[first]
            result[first] = {
                **inner,
                "params": with_params(inner.get("params") or {}, {rest: value}),
            }
        else:
            result[name] = copy.deepcopy(value)
    return result


def _dict_of(part: DatasetRef | Features | Timing | None) -> dict[str, Any] | None:
    return None if part is None else part.to_dict()


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dictionary without None and without empty texts, lists and mappings."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value not in ("", (), [], {})
    }


def purpose_of(kind: str, folds: int | None, trial: int) -> tuple[object, ...]:
    """Return what the seed of a split is for: k-fold trials are the folds of one partition, then of the next one."""
    if kind != "kfold":
        return (trial,)
    repeat = trial // (folds or 1)
    return ("repeat", repeat) if repeat else ()


# ---------------------------------------------------------------------- the choice of a search

#: Parameters that weaken the regularisation as they grow; all others are taken for its strength. Warm starts go from
#: the most to the least regularised candidate, where neighbouring solutions are close and the first one is cheap.
WEAKENING = ("C", "beta")


def strong_to_weak(found: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the positions of candidates from the most to the least regularised one, in every parameter.

    Values that are no numbers, such as kernels, stay together in the order of the file.
    """
    places: dict[str, list[Any]] = {}
    for name, value in (
        (name, value) for params in found for name, value in params.items()
    ):
        if value not in places.setdefault(name, []):
            places[name].append(value)

    def strength(name: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return places[name].index(value)
        return value if name.rpartition("__")[2] in WEAKENING else -value

    return sorted(
        range(len(found)),
        key=lambda i: tuple(strength(name, value) for name, value in found[i].items()),
    )


def choose(
    grid: Mapping[str, Sequence[Any]],
    metric: str,
    greater_is_better: bool,
    folds: Sequence[tuple[str, Mapping[str, Any]]],
    survivors: Sequence[int] | None = None,
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
    survivors : sequence of int, optional
        Positions of the candidates that were scored on all folds; default: all. Others
        have no mean.

    Returns
    -------
    dict
        ``key`` (of the search), ``chosen`` (None when no candidate has a score), ``score``, ``metric``, ``ties``,
        ``edges`` (parameters chosen at an end of their grid), ``grid``, ``names`` (its parameters in the order in which
        candidates are listed, the last one varying fastest), ``warm_started``, and by candidate ``means``,
        ``scores`` (by fold), ``undefined`` (tasks left out, by fold), ``not_converged`` (number of folds) and
        ``errors`` (position -> texts).
    """
    found = candidates(grid)
    columns = [selection for _, selection in folds]
    scores = [[column["scores"][i] for column in columns] for i in range(len(found))]
    errors = {
        str(i): [
            f"fold {k}: {column['errors'][i]}"
            for k, column in enumerate(columns)
            if column["errors"][i]
        ]
        for i in range(len(found))
    }
    competing = set(range(len(found)) if survivors is None else survivors)
    means = [
        None if errors[str(i)] or i not in competing else mean_score(scores[i])
        for i in range(len(found))
    ]
    defined = [mean for mean in means if mean is not None]
    best = (max if greater_is_better else min)(defined) if defined else None
    equal = [
        params
        for params, mean in zip(found, means, strict=True)
        if best is not None and mean == best
    ]
    return {
        "key": search_key(key for key, _ in folds),
        "chosen": equal[0] if equal else None,
        "score": best,
        "metric": metric,
        "ties": equal[1:],
        "edges": edges_of(grid, equal[0]) if equal else {},
        "grid": {name: list(values) for name, values in grid.items()},
        "names": list(grid),
        "warm_started": all(column["warm_started"] for column in columns),
        "means": means,
        "scores": scores,
        "undefined": [
            [column["undefined"][i] for column in columns] for i in range(len(found))
        ],
        "not_converged": [
            sum(bool(column["not_converged"][i]) for column in columns)
            for i in range(len(found))
        ],
        "errors": {i: texts for i, texts in errors.items() if texts},
    }


def choose_over_splits(
    grid: Mapping[str, Sequence[Any]], losses: Sequence[Sequence[float | None]]
) -> dict[str, Any]:
    """Choose the parameters of one model from the searches of several splits.

    The candidate with the smallest sum of losses wins. A candidate has no loss in a
    split where it failed, or where halving dropped it, so a sum over fewer splits would
    be smaller for no good reason. Therefore only the candidates with losses in the most
    splits compete, and they do so on the splits where all of them have one. Halving of
    two candidates leaves no such split: then the first in the list wins a tie. Equal
    sums go to the first in the list, too.

    Parameters
    ----------
    grid : mapping
    losses : sequence of sequences
        By split, the mean inner loss of every candidate, lower is better; None for a
        candidate without one.

    Returns
    -------
    dict
        Empty if no candidate has a loss in any split.
    """
    params = candidates(grid)
    counts = [sum(split[i] is not None for split in losses) for i in range(len(params))]
    most = max(counts, default=0)
    if most == 0:
        return {}
    competing = [i for i, count in enumerate(counts) if count == most]
    sums = dict.fromkeys(competing, 0.0)
    for i in competing:
        sums[i] = math.fsum(
            float(split[i] or 0.0)
            for split in losses
            if all(split[j] is not None for j in competing)
        )
    return params[min(competing, key=lambda i: sums[i])]


def choice_of(job: Job, folds: Iterable[Record]) -> dict[str, Any]:
    """Return what the search of a job found, from the records of its folds; see `mtlrun.engine.job.choose`.

    ``seconds`` is what all folds took.
    """
    from mtlrun.metrics import get_metric

    assert job.search is not None
    records = list(folds)
    metric = get_metric(job.search.metric)
    found = choose(
        job.search.grid,
        metric.name,
        metric.greater_is_better,
        [(record.key, record.selection) for record in records],
        job.search.survivors,
    )
    return {**found, "seconds": sum(record.seconds["total"] for record in records)}


def mean_score(scores: Sequence[float | None]) -> float | None:
    """Return the mean of the scores that are defined, None without any."""
    defined = [score for score in scores if score is not None]
    return math.fsum(defined) / len(defined) if defined else None


def edges_of(
    grid: Mapping[str, Sequence[Any]], chosen: Mapping[str, Any]
) -> dict[str, str]:
    """Return which numeric parameters were chosen at an end of their grid: the best value may lie outside."""
    found = {}
    for name, values in grid.items():
        numeric = all(
            isinstance(v, int | float) and not isinstance(v, bool) for v in values
        )
        if numeric and len(values) > 1 and chosen[name] in (min(values), max(values)):
            found[name] = "low" if chosen[name] == min(values) else "high"
    return found
