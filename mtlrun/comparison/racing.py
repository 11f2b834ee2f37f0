"""Racing: which methods are not searched further in a training part.

A search scores every candidate on all inner folds. Most methods of the default list are
far behind the best one after the first of these folds already. Therefore all methods of
a strategy (separate models, pooled models, multi-task learning) are first searched on
the first inner folds of a training part. A method whose error there is more than 5%
above the error of the best method of its strategy is stopped in this training part: it
is not searched further, and cannot be chosen there. For areas under the ROC curve and
other scores that are at most 1, it is stopped when it is more than 0.01 behind. Lists
run from simple to complex, and of methods with about the same error the first one is
selected. A method is therefore stopped at a fifth of these distances (1% of the error,
0.002 of the AUC) if the better method stands before it in the list. Of the other
methods, values of parameters that are more than 5% or 0.01 behind the best value are
not tried further. Where the first folds have fewer than 100 targets, differences of a
few percent are noise: there the simpler methods have no advantage, and values are kept
up to twice the distance.

Every training part decides alone, from its own rows. All methods of a strategy are
compared on the same folds, whatever the order in which they were computed, so that the
decision does not depend on the number of processes.

Methods that are named are never stopped, nor are the baselines of every comparison.
They take part in the race as those that others are compared with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mtlrun.comparison.candidates import Candidate, core
from mtlrun.comparison.verdict import VERDICT_FAMILIES
from mtlrun.metrics import get_metric

#: Largest share by which the error of a method may exceed the least error.
MAX_EXCESS_ERROR = 0.05
#: Largest distance to the best score, for scores that are at most 1, such as the AUC.
MAX_SCORE_DEFICIT = 0.01
#: A method that stands behind a better one in the list would have to be better by one
#: standard error to be selected, so that it is stopped at this share of the distance.
LATER_METHOD_SHARE = 0.2
#: Targets in the first inner folds from which on small differences count. With fewer,
#: values of parameters are dropped at this multiple of the distance. On sleepstudy (29
#: targets) a race with small differences raised the error of a strategy by 7%.
MIN_TARGETS = 100
FEW_TARGETS_TOLERANCE = 2.0
#: Inner folds that are visited before methods are stopped, of so many in all.
FOLDS_PER_FIRST_FOLD = 3
#: Metrics of explained variance, which have no lower bound: one minus them is an error.
_EXPLAINED = ("r2", "r2_shrunken", "explained_variance")


def n_first_folds(n_folds: int) -> int:
    """Return the number of inner folds that are visited before methods are stopped."""
    return max(1, n_folds // FOLDS_PER_FIRST_FOLD)


def raced_labels(
    candidates: Sequence[Candidate], default: Iterable[str], names: Sequence[str]
) -> list[str]:
    """Return the methods that may be stopped.

    Parameters
    ----------
    candidates : sequence of Candidate
        All methods of the comparison.
    default : iterable of str
        Labels of the default methods.
    names : sequence of str
        What the user asked for with ``--methods``; empty for the default methods.
    """
    named = {name.removesuffix("Classifier") for name in names}
    kept = {candidate.label for candidate in core(candidates)}
    defaults = set(default)
    return [
        candidate.label
        for candidate in candidates
        if candidate.family in VERDICT_FAMILIES
        and candidate.label in defaults
        and candidate.label not in kept
        and candidate.label.removesuffix("Classifier") not in named
    ]


def deficit(metric: str, score: float, best: float) -> float:
    """Return how far a score is behind the best one; 0 for the best one itself.

    Errors are compared as shares of the least error, and the RMSE by its square, in
    which gains are measured. Scores that are at most 1 are compared by their distance.
    """
    if metric in _EXPLAINED:
        error, least = 1 - score, 1 - best
    elif get_metric(metric).greater_is_better:
        return best - score
    elif metric == "rmse":
        error, least = score**2, best**2
    else:
        error, least = score, best
    if error <= least:
        return 0.0
    return error / least - 1 if least > 0 else math.inf


def largest_deficit(metric: str) -> float:
    """Return the distance to the best method up to which a method is searched on."""
    is_score = get_metric(metric).greater_is_better and metric not in _EXPLAINED
    return MAX_SCORE_DEFICIT if is_score else MAX_EXCESS_ERROR


@dataclass(frozen=True)
class RaceResult:
    """What one training part decides after its first inner folds.

    Attributes
    ----------
    stopped : dict of str to float
        Methods that are not searched further, with their distance to the best one.
    survivors : dict of str to list of int
        Positions of the candidates that are searched further, of the other methods.
    """

    stopped: dict[str, float]
    survivors: dict[str, list[int]]


def race(
    metric: str,
    means: Mapping[str, Sequence[float | None]],
    families: Mapping[str, str],
    raced: Iterable[str],
    n_targets: float = math.inf,
) -> RaceResult:
    """Decide which methods, and which of their candidates, are searched further.

    Parameters
    ----------
    metric : str
    means : mapping of str to sequence
        Label -> mean score of every candidate on the first inner folds, in the order of
        the list of methods; None where it has none. Methods without any score are not
        stopped: their failures show in the full search.
    families : mapping of str to str
        Label -> family.
    raced : iterable of str
        Labels of the methods that may be stopped.
    n_targets : float, optional
        Number of targets in the first inner folds. Default: enough for small
        differences to count.
    """
    later_share = LATER_METHOD_SHARE
    tolerance = 1.0
    if n_targets < MIN_TARGETS:
        later_share = 1.0
        tolerance = FEW_TARGETS_TOLERANCE
    greater = get_metric(metric).greater_is_better
    limit = largest_deficit(metric)
    best_scores = {}
    for label, scores in means.items():
        defined = [score for score in scores if score is not None]
        if defined:
            best_scores[label] = max(defined) if greater else min(defined)
    positions = {label: position for position, label in enumerate(best_scores)}
    result = RaceResult({}, {})
    for label in raced:
        if label not in best_scores:
            continue
        rivals = [other for other in best_scores if families[other] == families[label]]
        earlier = [other for other in rivals if positions[other] < positions[label]]
        distance = _distance(metric, best_scores, label, rivals)
        earlier_distance = _distance(metric, best_scores, label, earlier)
        if distance > limit or earlier_distance > later_share * limit:
            result.stopped[label] = distance
            continue
        result.survivors[label] = [
            position
            for position, score in enumerate(means[label])
            if score is not None
            and deficit(metric, score, best_scores[label]) <= tolerance * limit
        ]
    return result


def _distance(
    metric: str, scores: Mapping[str, float], label: str, rivals: Sequence[str]
) -> float:
    """Return how far a method is behind the best of some rivals, 0 without any."""
    distances = [deficit(metric, scores[label], scores[other]) for other in rivals]
    return max(distances, default=0.0)


def format_deficit(metric: str, distance: float) -> str:
    """Return a distance to the best method in words, such as ``12%`` or ``0.03``."""
    if largest_deficit(metric) == MAX_SCORE_DEFICIT:
        return f"{distance:.2g}"
    return f"{distance:.0%}" if distance < 10 else "more than 10 times its error"
