"""Result of a search and seconds, as records have them. Standard library only."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mtlrun.utils.io import is_json_number, plain_json, stored_fields


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

    def content(self) -> dict[str, Any]:
        """Return the fields that exist, as they are stored."""
        return stored_fields(self)

    @property
    def total_or_fit(self) -> float | None:
        """Seconds of the job; of its fit if they are all that is stored."""
        return self.fit if self.total is None else self.total


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

    def content(self) -> dict[str, Any]:
        """Return the fields that exist; of a search, what it selected in any case."""
        content = stored_fields(self)
        if self.key is not None:
            content = {"chosen": self.chosen, "score": self.score, **content}
        return content

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
