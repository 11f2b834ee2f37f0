"""Numbers of all pictures of a comparison, from its leaderboard and its predictions."""

from __future__ import annotations

import math

import numpy as np

from mtlrun.comparison.evaluation import NMSE
from mtlrun.comparison.gain import Gain, SmallestGain
from mtlrun.comparison.gallery import ComparisonPictures
from mtlrun.comparison.leaderboard import Leaderboard
from mtlrun.comparison.pictures import Interval
from mtlrun.comparison.predictions import STRATEGY_NAMES, HeldOutPredictions
from mtlrun.comparison.verdict import (
    CARRIED,
    INDEPENDENT,
    MULTITASK,
    POOLED,
    strategies_of,
)
from mtlrun.estimators.registry import METHODS, build
from mtlrun.utils.text import sanitize

#: Names of the alternatives in the picture of the verdict.
ALTERNATIVE_NAMES = {
    INDEPENDENT: "vs. separate models",
    POOLED: "vs. one model for all",
    CARRIED: "vs. the last value",
}


def pictures_of(
    board: Leaderboard, held_out: HeldOutPredictions | None
) -> ComparisonPictures:
    """Take the numbers of all pictures from a leaderboard.

    Parameters
    ----------
    board : Leaderboard
    held_out : HeldOutPredictions or None
        None for a table in chunks, whose rows are not at hand.
    """
    evaluation = board.evaluation
    baseline, task_gains = _task_gains(board)
    gains = _gains_over_reference(board)
    method_gains = [_interval(label, gain) for label, gain in gains.items()]
    matrix = []
    if gains:
        matrix = np.column_stack([gain.tasks for gain in gains.values()]).tolist()
    has_labels = evaluation.measure != NMSE
    without_probabilities = []
    if has_labels and held_out is not None:
        without_probabilities = _without_log_odds(held_out)
    return ComparisonPictures(
        title=board.title,
        measure=evaluation.measure,
        metric=board.metric,
        smallest=evaluation.smallest,
        gains=_verdict_gains(board),
        baseline=baseline,
        task_gains=task_gains,
        tasks=[sanitize(task) for task in board.tasks],
        sizes=list(board.sizes),
        methods=list(gains),
        reference=board.against,
        method_gains=sorted(method_gains, key=lambda interval: -interval.value),
        matrix=matrix,
        has_labels=has_labels,
        has_shared_rows=evaluation.has_shared_rows,
        without_probabilities=without_probabilities,
        held_out=held_out,
    )


def _verdict_gains(board: Leaderboard) -> list[Interval]:
    """Return the gains over the alternatives, and the smallest of several."""
    verdict = board.answer
    intervals = []
    for family, gain in verdict.gains.items():
        if math.isfinite(gain.low):
            intervals.append(_interval(ALTERNATIVE_NAMES[family], gain))
    has_all = len(intervals) == len(verdict.gains)
    if verdict.gain is not None and has_all and len(intervals) > 1:
        names = {2: "both: the smaller gain", 3: "all three: the smallest gain"}
        intervals.append(_interval(names[len(intervals)], verdict.gain))
    return intervals


def _gains_over_reference(board: Leaderboard) -> dict[str, Gain]:
    """Return the gain of each method over the reference by label, best method first."""
    reference = board.reference
    if reference is None:
        return {}
    gains = {}
    for entry in board.ranked():
        if entry is reference or not entry.losses:
            continue
        gain = board.gain(entry, reference)
        if gain is not None:
            gains[entry.label] = gain
    return gains


def _interval(name: str, gain: Gain | SmallestGain) -> Interval:
    return Interval(name, gain.value, gain.low, gain.high)


def _task_gains(board: Leaderboard) -> tuple[str, list[Interval | None]]:
    """Return the strategy that tasks are compared with, and the gain of each task.

    Separate models if there are any, otherwise one model for all: what a task loses
    against separate models is what it pays for sharing.
    """
    strategies, repeats = strategies_of(board.entries, board.evaluation)
    multitask = strategies.get(MULTITASK)
    alternatives = [f for f in (INDEPENDENT, POOLED) if f in strategies]
    if multitask is None or not alternatives:
        return "", [None] * len(board.tasks)
    family = alternatives[0]
    gains = board.evaluation.task_gains(
        multitask.losses, strategies[family].losses, repeats
    )
    intervals: list[Interval | None] = []
    for name, gain in zip(board.tasks, gains, strict=True):
        if gain is None or not math.isfinite(gain.value + gain.error):
            intervals.append(None)
        else:
            intervals.append(_interval(sanitize(name), gain))
    return STRATEGY_NAMES[family], intervals


def _without_log_odds(held_out: HeldOutPredictions) -> list[str]:
    """Return the chosen methods whose scores are not log-odds, each once."""
    labels: list[str] = []
    for chosen in held_out.methods.values():
        labels += chosen
    return [label for label in dict.fromkeys(labels) if not _has_log_odds(label)]


def _has_log_odds(label: str) -> bool:
    """Whether the scores of a method are log-odds.

    Trees and classes of the user have log-odds or their own decision function.
    """
    name = label.removesuffix("+Task")
    if name not in METHODS:
        return True
    return hasattr(build(name), "predict_proba")
