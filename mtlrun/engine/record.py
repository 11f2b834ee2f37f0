"""Records: the inputs and results of a job, the environment, and how they are stored.

The file of a record, ``<output>/cells/<key>.json``, is one line of JSON,
``{"sha256": "<digest of the rest>", "record": {...}}``. All experiments of an output
folder share the folder ``cells``. `mtlrun.engine.packed` describes the file that holds
all records of a run. This module needs only the standard library.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from mtlrun.parallel.status import DONE, OK
from mtlrun.utils.io import (
    FieldError,
    canonical_json,
    is_json_number,
    plain_json,
    read_fields,
    stored_fields,
    typed_value,
)

#: Version of the inputs of records. The keys of records with an earlier version depend
#: on other things, such as digests of the code.
PROTOCOL = 3
#: Folder of the records, within the output folder.
CELLS = "cells"
#: Keys in the result of a record whose test scores are stored: the name of their file,
#: and the digest of the array.
SCORES = "predictions"
SCORES_DIGEST = "predictions_sha256"

#: Valid keys of jobs. A key is part of a file name and must not lead to another folder.
KEY = re.compile(r"[^./\\:\0][^/\\:\0]{0,199}")
JobKey = Annotated[str, KEY]

#: Types of the selection of a fold, with an entry for each candidate, and of a search.
FOLD_TYPES = {
    "scores": list[float | None],
    "undefined": list[int | None],
    "errors": list[str | None],
    "not_converged": list[Any],
    "warm_started": bool,
}
SEARCH_TYPES = {"key": str, "metric": str, "grid": dict[str, list[Any]]}
#: Types of what the mappings of a record may hold.
PART_TYPES: dict[str, dict[str, Any]] = {
    "made_by": {"commit": str, "dirty": bool, "mtlrun": str, "package": str},
    "environment": {
        "python": str,
        "packages": dict[str, str | None],
        "blas": str | list[str],
        "os": str,
        "cpu": str,
        "cores": int,
        "ram_gb": float,
        "threads": int,
        "serial": bool,
        "repeats": int,
        "warmup": bool,
    },
    "result": {
        SCORES: str,
        SCORES_DIGEST: str,
        "tasks": list[str],
        "lines": list[str],
        "curves": dict,
        "matrices": dict,
        "rankings": dict,
        "tables": dict,
    },
}
#: Characters of a sha256 in hexadecimal digits.
DIGEST_LENGTH = 64
#: Text of a record before and after its digest.
_HEAD = '{"sha256":"'
_MIDDLE = '","record":'


class JobKind(StrEnum):
    """Kind of a job; the values are stored in records.

    A fit trains a method on the training rows of a split and scores the test rows. A
    fold scores all candidates of a search on one fold within the training rows. An
    analysis calls a function.
    """

    FIT = "fit"
    FOLD = "fold"
    ANALYSIS = "measure"


@dataclass(frozen=True)
class ResultKey:
    """Position of a number in the table of an experiment, and the key of its job.

    Several positions may share a job.

    Attributes
    ----------
    reading : str
        Name of the interpretation; empty for the main one.
    dataset : str
        Label of the data set; in a sweep it includes the value of the axis.
    value : object
        Value of the axis of a sweep; None without a sweep.
    method : str
        Label of the method.
    trial : int
        Number of the split or repeat, from 0.
    key : str
        Key of the job.
    """

    reading: str
    dataset: str
    value: Any
    method: str
    trial: int
    key: JobKey

    @property
    def name(self) -> str:
        """Name for messages, such as ``enron/APG-RMTL/trial 0``.

        An interpretation other than the main one follows in brackets.
        """
        name = f"{self.dataset}/{self.method}/trial {self.trial}"
        if self.reading:
            name += f" [{self.reading}]"
        return name

    @classmethod
    def read(cls, entry: Any) -> ResultKey:
        """Return the result key that an entry of ``run.json`` describes.

        Raises
        ------
        ValueError
            If the entry does not describe a result key.
        """
        if not isinstance(entry, dict):
            raise ValueError("a JSON object is expected")
        defaults = {"reading": "", "value": None, "trial": 0}
        return read_fields(cls, {**defaults, **entry})


@dataclass
class Seconds:
    """Seconds that a job took.

    Attributes
    ----------
    fit : float or None
        Median of `fit_all`.
    fit_all : list of float or None
        Of each repeat.
    predict : float or None
    blocks_sum, blocks_max : float or None
        Of all blocks of a divided fit, and of the slowest one.
    total : float or None
    search : float or None
        Of all folds.
    limit : float or None
        Limit that stopped the job.
    """

    fit: float | None = None
    fit_all: list[float] | None = None
    predict: float | None = None
    blocks_sum: float | None = None
    blocks_max: float | None = None
    total: float | None = None
    search: float | None = None
    limit: float | None = None


@dataclass
class SearchResult:
    """Result of a search, or of one of its folds.

    A record of a fit has the result of its search, without its lists of candidates once
    it is packed. A record of a fold has `scores`, `undefined`, `errors`,
    `not_converged` and `warm_started`, with an entry for each candidate.

    Attributes
    ----------
    key : str or None
        Key of the search.
    chosen : dict or None
        Selected parameters; None if no candidate has a score.
    score : float or None
        Their score.
    metric : str or None
    ties : list of dict or None
        Equally good candidates.
    edges : dict of str to str or None
        Parameters selected at an end of their grid.
    grid : dict of str to list or None
    names : list of str or None
        Parameters of the grid in the order in which candidates are listed, the last one
        varying fastest.
    warm_started : bool or None
    means : list of float or None
        Mean score of each candidate.
    scores : list or None
        Scores of each candidate: one, or one per fold.
    undefined : list or None
        Number of tasks left out, of each candidate: one, or one per fold.
    not_converged : list or None
        Of each candidate: whether, or in how many folds.
    errors : list or dict or None
        Message of each candidate on a fold; messages by the position of the candidate.
    seconds : float or None
        Total time of all folds.
    n_candidates, n_fits : int or None
        Numbers in place of the lists of candidates.
    best : dict of str to list or None
        Best score at each value of each parameter, in place of these lists.
    """

    key: str | None = None
    chosen: dict[str, Any] | None = None
    score: float | None = None
    metric: str | None = None
    ties: list[dict[str, Any]] | None = None
    edges: dict[str, str] | None = None
    grid: dict[str, list[Any]] | None = None
    names: list[str] | None = None
    warm_started: bool | None = None
    means: list[float | None] | None = None
    scores: Any = None
    undefined: Any = None
    not_converged: Any = None
    errors: Any = None
    seconds: float | None = None
    n_candidates: int | None = None
    n_fits: int | None = None
    best: dict[str, list[float | None]] | None = None

    @property
    def is_search(self) -> bool:
        """Whether it is the result of a search."""
        has_scores = bool(self.means) or self.n_candidates is not None
        return bool(self.key) and has_scores

    def count_candidates(self) -> int:
        """Return the number of candidates of a search."""
        if self.n_candidates is None:
            return len(self.means or ())
        return self.n_candidates

    def count_fits(self) -> int:
        """Return the number of fits of a search."""
        if self.n_fits is not None:
            return self.n_fits
        return sum(max(1, len(scores)) for scores in self.scores or ())

    def compact(self, *, with_curves: bool = True) -> SearchResult:
        """Return the result of a search without its lists of candidates.

        Parameters
        ----------
        with_curves : bool, default True
            Keep the best score at each value of a parameter.
        """
        best = self.best
        if self.means is not None:
            best = {name: self.best_by_value(name) for name in self.grid or {}}
        return SearchResult(
            key=self.key,
            chosen=self.chosen,
            score=self.score,
            metric=self.metric,
            edges=self.edges,
            grid=self.grid,
            names=self.names,
            seconds=self.seconds,
            n_candidates=self.count_candidates(),
            n_fits=self.count_fits(),
            best=best if with_curves else None,
        )

    def best_by_value(self, name: str) -> list[float | None]:
        """Return the best score of a search at each value of one of its parameters.

        Parameters
        ----------
        name : str
            Parameter of the grid.

        Returns
        -------
        list of float or None
            In the order of the values; None if no candidate has a score.
        """
        grid = self.grid or {}
        if self.means is None:
            stored = self.best or {}
            return list(stored.get(name) or [None] * len(grid[name]))
        names = list(self.names or grid)
        indices = [range(len(grid[parameter])) for parameter in names]
        parameter_position = names.index(name)
        defined = [mean for mean in self.means if mean is not None]
        # The record does not tell whether lower scores are better, but its best score
        # does.
        is_lower_better = bool(defined) and self.score == min(defined)
        best = min if is_lower_better else max
        scores_by_value: list[list[float]] = [[] for _ in grid[name]]
        candidates = itertools.product(*indices)
        for candidate, mean in zip(candidates, self.means, strict=True):
            if mean is not None:
                scores_by_value[candidate[parameter_position]].append(mean)
        # Values without a score have no best one.
        return [best(scores, default=None) for scores in scores_by_value]

    def best_scores(self, name: str) -> dict[float, float]:
        """Return the best score of a search for each value of one parameter.

        Parameters
        ----------
        name : str
            Parameter. Values that are not numbers, or have no score, are left out.

        Returns
        -------
        dict of float to float
            Sorted by value.
        """
        values = (self.grid or {}).get(name)
        if not values:
            return {}
        scores = {}
        for value, score in zip(values, self.best_by_value(name), strict=True):
            if score is not None and is_json_number(value):
                scores[value] = score
        return dict(sorted(scores.items()))

    def _has_order(self, names: Sequence[str]) -> bool:
        """Whether the first best candidate is the selected one in an order."""
        if self.score is None or self.chosen is None:
            return True
        candidate = (self.means or []).index(self.score)
        # The last parameter varies fastest.
        for name in reversed(names):
            values = (self.grid or {})[name]
            candidate, position = divmod(candidate, len(values))
            if self.chosen.get(name) != values[position]:
                return False
        return True


def name_candidates(selections: Iterable[SearchResult]) -> None:
    """Add the order of parameters in which the candidates of searches are listed.

    The names of a stored grid are sorted, but candidates have the order of the
    experiment, which records made before 0.3 do not contain. It is the order in which
    the best candidate of each search is the selected one.

    Parameters
    ----------
    selections : iterable of SearchResult
        Searches of the fits of one run, changed in place: `names` is added if it is
        missing.
    """
    groups: dict[str, list[SearchResult]] = {}
    for selection in selections:
        if selection.means is not None and selection.names is None:
            groups.setdefault(plain_json(selection.grid), []).append(selection)
    for group in groups.values():
        names = list(group[0].grid or {})
        for order in itertools.permutations(names):
            if all(selection._has_order(order) for selection in group):
                names = list(order)
                break
        for selection in group:
            selection.names = names


@dataclass(frozen=True)
class SolverOutcome:
    """How the solver of a fit ended, as far as it reports that.

    Attributes
    ----------
    n_iter : int or None
    converged : bool or None
    gap : float or None
    objective : float or None
    stop_crit : float or None
    message : str or None
    """

    n_iter: int | None = None
    converged: bool | None = None
    gap: float | None = None
    objective: float | None = None
    stop_crit: float | None = None
    message: str | None = None


@dataclass
class Record:
    """Inputs and results of a job.

    Attributes
    ----------
    key : str
        sha256 of `inputs` and `versions`, see `mtlrun.engine.job.Job`.
    family : {"fit", "fold", "measure"}
        Kind of the job, see `JobKind`.
    inputs : dict
        Everything that the number depends on, except the versions.
    versions : dict of str to int or str
        Versions of the method or analysis, of the reader of its data, of the protocol
        and of other packages; digests of modules that are not installed.
    made_by : dict
        ``commit`` and ``dirty`` (None unless mtlrun runs in a checkout), ``mtlrun``
        (version) and ``package`` (digest of its sources).
    status : {"ok", "not_converged", "failed", "timeout", "diverged"}
    error : str or None
        At most 200 characters; the full text is in `log`.
    log : str or None
        Traceback or messages.
    params : dict
        Hyperparameters, including the selected ones.
    selection : SearchResult
        Of a fit: the result of its search (`mtlrun.engine.job.choose`). Of a fold: the
        scores of all candidates (`mtlrun.engine.fit.score_candidates`).
    metrics : dict of str to float or None
        Averages over tasks; None represents NaN.
    per_task : dict of str to list of float or None
    counts : dict of str to int
        ``n_tasks``, ``n_train``, ``n_test``, ``one_class_train``,
        ``undefined_<metric>`` and others.
    seconds : Seconds
    solver : dict
        ``n_iter``, ``converged``, ``gap``, ``objective`` and ``message``, if available.
    environment : dict
        Threads, machine and versions of packages. The key does not depend on them.
    result : dict
        Of an analysis: ``curves``, ``matrices``, ``rankings``, ``lines`` and
        ``tables``. Of a fit: ``tasks`` (names) and, if the test scores are stored,
        ``predictions`` (name of their file) and ``predictions_sha256`` (digest of the
        array).
    protocol : int
        See `PROTOCOL`.
    """

    key: JobKey
    family: str
    inputs: dict[str, Any]
    versions: dict[str, int | str] = field(default_factory=dict)
    made_by: dict[str, Any] = field(default_factory=dict)
    status: str = OK
    error: str | None = None
    log: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    selection: SearchResult = field(default_factory=SearchResult)
    metrics: dict[str, float | None] = field(default_factory=dict)
    per_task: dict[str, list[float | None]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: Seconds = field(default_factory=Seconds)
    solver: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    protocol: int = PROTOCOL

    @property
    def solver_outcome(self) -> SolverOutcome:
        """How the solver ended."""
        return read_fields(SolverOutcome, self.solver)

    @property
    def done(self) -> bool:
        """Whether the job has a result, so that it need not be computed again."""
        return self.status in DONE

    def line(self) -> str:
        """Return the record as one line with the digest of its content.

        NaN becomes null.
        """
        text = self._text()
        digest = hashlib.sha256(text.encode()).hexdigest()
        return f"{_HEAD}{digest}{_MIDDLE}{text}}}\n"

    def content(self) -> dict[str, Any]:
        """Return the fields as JSON represents them, with sorted keys.

        NaN becomes None.
        """
        content: dict[str, Any] = json.loads(self._text())
        return content

    def _text(self) -> str:
        """Return the fields as canonical JSON.

        The keys are part of the file format. They do not depend on the attribute names.
        """
        selection = stored_fields(self.selection)
        if self.selection.key is not None:
            # A search says what it selected, even if no candidate has a score.
            selection |= {
                "chosen": self.selection.chosen,
                "score": self.selection.score,
            }
        return canonical_json(
            {
                "key": self.key,
                "family": self.family,
                "inputs": self.inputs,
                "versions": self.versions,
                "made_by": self.made_by,
                "status": self.status,
                "error": self.error,
                "log": self.log,
                "params": self.params,
                "selection": selection,
                "metrics": self.metrics,
                "per_task": self.per_task,
                "counts": self.counts,
                "seconds": stored_fields(self.seconds),
                "solver": self.solver,
                "environment": self.environment,
                "result": self.result,
                "protocol": self.protocol,
            }
        )

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Record:
        """Return the record with these fields, the inverse of `content`.

        Fields of later versions are ignored.

        Raises
        ------
        ValueError
            If a field is missing or has a wrong type; names it.
        """
        record = read_fields(cls, {"selection": {}, "seconds": {}, **content})
        for part, types in PART_TYPES.items():
            values = getattr(record, part)
            for name in types.keys() & values.keys():
                typed_value(types[name] | None, values[name], f"{part}.{name}")
        selection = record.selection
        is_fold = record.family == JobKind.FOLD and record.done
        required: dict[str, Any] = {}
        if is_fold:
            required = FOLD_TYPES
        elif selection.means is not None:
            required = {**SEARCH_TYPES, "scores": list[list[float | None]]}
        elif selection.n_candidates is not None:
            required = {**SEARCH_TYPES, "n_fits": int}
        for name, hint in required.items():
            typed_value(hint, getattr(selection, name), f"selection.{name}")
        if is_fold:
            typed_value(float, record.seconds.total, "seconds.total")
            n_candidates = len(selection.scores)
            for name in ("undefined", "errors", "not_converged"):
                if len(getattr(selection, name)) != n_candidates:
                    message = f"{n_candidates} items are expected"
                    raise FieldError(f"selection.{name}", message)
        return record

    @classmethod
    def from_line(cls, line: str) -> Record:
        """Return the record in a line, the inverse of `line`.

        Fields of later versions are ignored.

        Raises
        ------
        ValueError
            If the line is not a record, or does not match its digest.
        """
        digest_end = len(_HEAD) + DIGEST_LENGTH
        text_start = digest_end + len(_MIDDLE)
        digest = line[len(_HEAD) : digest_end]
        text = line.rstrip("\n")[text_start:-1]
        if not line.startswith(_HEAD) or line[digest_end:text_start] != _MIDDLE:
            raise ValueError("not a record")
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            raise ValueError("the content does not match its digest")
        try:
            return cls.from_content(json.loads(text))
        except (AttributeError, RecursionError) as error:
            raise ValueError(f"not a record: {error}") from None


def candidates(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of a grid; the last parameter varies fastest."""
    combinations = itertools.product(*grid.values())
    return [dict(zip(grid, values, strict=True)) for values in combinations]


def search_key(folds: Iterable[str]) -> str:
    """Return the key of a search, given the keys of its folds."""
    return hashlib.sha256("".join(folds).encode()).hexdigest()
