"""Racing: stop methods that are far behind after the first inner folds.

A search scores each candidate on all inner folds. Most methods of the default list are
far behind the best one after the first of these folds already. Therefore all methods of
a strategy (separate models, pooled models, multi-task learning) are first searched on
the first inner folds of a training part. There, a method is stopped if its error
exceeds the error of the best method of its strategy by more than 5%: it is not searched
further, and cannot be selected in this training part. Areas under the ROC curve and
other scores that are at most 1 are compared by their difference: a method is stopped if
it is more than 0.01 behind.

Lists run from simple to complex, and of methods with about the same error the first one
is selected. If the better method comes first in the list, a method is therefore stopped
at a fifth of these distances: 1% of the error, or 0.002 of the AUC.

Methods that are not stopped drop the values of their parameters that are more than 5%
or 0.01 behind their best value. Where the first folds have fewer than 100 targets,
differences of a few percent are noise: there the simpler methods have no advantage, and
values are kept up to twice the distance.

Each training part decides alone, from its own rows. All methods of a strategy are
compared on the same folds, whatever the order in which they were computed, so the
decision does not depend on the number of processes.

Methods that the user names are never stopped, nor are the baselines that each
comparison has. They take part in the race as rivals of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mtlrun.metrics.registry import get_metric

#: Largest share by which the error of a method may exceed the least error.
MAX_EXCESS_ERROR = 0.05
#: Largest distance to the best score, for scores that are at most 1, such as the AUC.
MAX_SCORE_DEFICIT = 0.01
#: A method after a better one in the list would have to be better by one standard error
#: to be selected. It is therefore stopped at this share of the distance.
LATER_METHOD_SHARE = 0.2
#: Fewest targets in the first inner folds for small differences to count. On sleepstudy
#: (29 targets) a race with small differences raised the error of a strategy by 7%.
MIN_TARGETS = 100
#: With fewer targets, values of parameters are dropped at this multiple of the limit.
FEW_TARGETS_TOLERANCE = 2.0
#: A third of the inner folds (rounded down, at least one) is visited before the race.
FOLDS_PER_FIRST_FOLD = 3


def n_first_folds(n_folds: int) -> int:
    """Return the number of inner folds that are visited before methods are stopped."""
    return max(1, n_folds // FOLDS_PER_FIRST_FOLD)


@dataclass(frozen=True)
class RaceResult:
    """Decisions in one training part after its first inner folds.

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
        Label -> mean score of each candidate on the first inner folds; None if it has
        none. The order is the one of the list of methods. Methods without any score are
        not stopped: their failures show in the full search.
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
    limit = largest_deficit(metric)
    best = max if get_metric(metric).greater_is_better else min
    best_scores: dict[str, float] = {}
    for label, scores in means.items():
        for score in scores:
            if score is not None:
                best_scores[label] = best(best_scores.get(label, score), score)
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
        max_deficit = tolerance * limit
        result.survivors[label] = [
            position
            for position, score in enumerate(means[label])
            if score is not None
            and deficit(metric, score, best_scores[label]) <= max_deficit
        ]
    return result


def _distance(
    metric: str, scores: Mapping[str, float], label: str, rivals: Sequence[str]
) -> float:
    """Return how far a method is behind the best of its rivals, 0 without rivals."""
    distances = [deficit(metric, scores[label], scores[other]) for other in rivals]
    return max(distances, default=0.0)


def deficit(metric: str, score: float, best: float) -> float:
    """Return how far a score is behind the best one; 0 for the best one itself.

    Errors are compared as shares of the smallest error, and the RMSE by its square, in
    which gains are measured. Scores that are at most 1 are compared by difference.
    """
    if _is_bounded_score(metric):
        return best - score
    error = score
    min_error = best
    if get_metric(metric).greater_is_better:
        # A share of explained variance, which has no lower bound.
        error = 1 - score
        min_error = 1 - best
    elif metric == "rmse":
        error = score**2
        min_error = best**2
    if error <= min_error:
        return 0.0
    if min_error > 0:
        return error / min_error - 1
    return math.inf


def _is_bounded_score(metric: str) -> bool:
    """Whether a metric is a score that is at most 1, such as the AUC."""
    info = get_metric(metric)
    return info.greater_is_better and info.needs != "value"


def largest_deficit(metric: str) -> float:
    """Return the distance to the best method up to which a method is searched on."""
    if _is_bounded_score(metric):
        return MAX_SCORE_DEFICIT
    return MAX_EXCESS_ERROR


def format_deficit(metric: str, distance: float) -> str:
    """Return a distance to the best method in words, such as ``12%`` or ``0.03``."""
    if largest_deficit(metric) == MAX_SCORE_DEFICIT:
        return f"{distance:.2g}"
    if distance < 10:
        return f"{distance:.0%}"
    return "more than 10 times its error"
