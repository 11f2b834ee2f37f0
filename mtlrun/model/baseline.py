"""Compare a trained model with the mean of each task: scores, warnings, tables, and its search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import WEIGHT
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.interfaces import METRIC_INFO
from mtlrun.engine.job import Scoring
from mtlrun.estimators.baselines import TaskMean
from mtlrun.tables.figures import Line, Panel, best_scores, path_panel
from mtlrun.tables.quantities import spoken
from mtlrun.tables.report_table import Column, ReportTable

#: The baseline of every score.
BASELINE = "mean of the task"
#: Scores of the mean of the task by definition; others depend on the data.
BASELINE_SCORES = {
    **dict.fromkeys(("nmse", "nmse_all", "nmse_shrunken"), 1.0),
    **dict.fromkeys(("r2", "r2_shrunken", "explained_variance"), 0.0),
    **dict.fromkeys(("auc", "auc_frequent", "balanced_accuracy"), 0.5),
}
#: Shares of a class are at least that far from 0 and 1, so that odds are finite.
SMALLEST_SHARE = 1e-6
#: Words of the comparison with the baseline, and their CSS classes.
BETTER = "better"
EQUAL = "equal"
WORSE = "worse"
COMPARISON_TONES = {BETTER: "good", EQUAL: "none", WORSE: "bad"}
BASELINE_LINE = (
    f"The baseline predicts the {BASELINE} in the training rows, for labels the share "
    "of each class. A model that is worse than it has learned nothing of use."
)
#: Test rows of a task: its name, the true values, and predictions or decision values.
Tested = Sequence[tuple[str, np.ndarray, np.ndarray]]


def baseline_scores(part: TrainTestData, scoring: Scoring) -> dict[str, Any]:
    """Return the scores of a model that predicts the mean of the training rows of each task.

    Of labels, the mean is the share of each class: all rows of a task get the same
    score, and the label of the larger class.

    Parameters
    ----------
    part : TrainTestData
    scoring : Scoring
        Metrics, and how they are averaged over tasks.

    Returns
    -------
    dict
        ``metrics`` and ``per_task``, as in ``metrics.json``; empty for data with more
        than two classes per task.
    """
    train, test = part.train, part.test
    if train.task_type == "multiclass":
        return {}
    means = _task_means(train)
    if train.task_type != "regression" and not train.zero_one:
        # Labels are -1 and +1, and scores are logarithms of odds.
        share = np.clip((means + 1) / 2, SMALLEST_SHARE, 1 - SMALLEST_SHARE)
        means = np.log(share / (1 - share))
    if test.task_id is not None:
        predicted = means[test.task_id]
    elif test.y.ndim == 2:
        predicted = np.tile(means, (len(test.y), 1))
    else:
        predicted = np.full(len(test.y), means[0])
    # The estimator is only asked whether it has labels of its own.
    scores = part.score(TaskMean(), predicted, list(scoring.metrics), scoring.average)
    return {
        "metrics": {name: score.mean for name, score in scores.items()},
        "per_task": {name: score.per_task.tolist() for name, score in scores.items()},
    }


def _task_means(train: Dataset) -> np.ndarray:
    """Return the weighted mean target of each task, (n_tasks,).

    Tasks without rows get the mean of all rows.
    """
    y = np.asarray(train.y, dtype=float)
    weights = np.asarray(train.source.get(WEIGHT, np.ones(len(y))), dtype=float)
    if y.ndim == 2:
        tasks = np.broadcast_to(np.arange(y.shape[1]), y.shape)
        weights = np.broadcast_to(weights.reshape(len(y), -1), y.shape)
    elif train.task_id is not None:
        tasks = np.asarray(train.task_id)
    else:
        tasks = np.zeros(len(y), dtype=int)
    is_known = ~np.isnan(y)
    tasks = tasks[is_known]
    weights = weights[is_known]
    totals = np.bincount(tasks, weights, train.n_tasks)
    sums = np.bincount(tasks, weights * y[is_known], train.n_tasks)
    overall = sums.sum() / totals.sum()
    return np.divide(sums, totals, out=np.full(len(sums), overall), where=totals > 0)


def compare_with_baseline(name: str, score: float, baseline: float) -> str:
    """Return whether a score is better than a baseline, equal or worse; "" without two numbers."""
    if not (math.isfinite(score) and math.isfinite(baseline)):
        return ""
    if math.isclose(score, baseline, rel_tol=1e-9, abs_tol=1e-12):
        return EQUAL
    is_better = (score > baseline) == METRIC_INFO[name].greater_is_better
    return BETTER if is_better else WORSE


@dataclass(frozen=True)
class ComparedScore:
    """A score of a trained model and the score of its baseline.

    Attributes
    ----------
    name : str
        Metric and rows in words.
    score : float
    baseline : float or None
        None where it is unknown.
    verdict : str
        `BETTER`, `EQUAL`, `WORSE`, or "" without a baseline.
    """

    name: str
    score: float
    baseline: float | None
    verdict: str

    @classmethod
    def of(
        cls, name: str, metric: str, score: float, baseline: float | None
    ) -> ComparedScore:
        """Compare a score with its baseline."""
        verdict = ""
        if baseline is not None:
            verdict = compare_with_baseline(metric, score, baseline)
        return cls(name, score, baseline, verdict)


def compared_scores(result: Mapping[str, Any]) -> list[ComparedScore]:
    """Return the cross-validated score of a training, then the scores of its test rows."""
    compared = []
    selection = result["selection"]
    if selection:
        metric = selection["metric"]
        compared.append(
            ComparedScore.of(
                f"cross-validated {spoken(metric)}",
                metric,
                selection["score"],
                BASELINE_SCORES.get(metric),
            )
        )
    baselines = _baseline_of(result, "metrics")
    for metric, score in result["metrics"].items():
        compared.append(
            ComparedScore.of(
                f"{spoken(metric)} of the test rows",
                metric,
                score,
                baselines.get(metric, BASELINE_SCORES.get(metric)),
            )
        )
    return compared


def _baseline_of(result: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the ``metrics`` or ``per_task`` of the baseline; results of earlier versions have none."""
    baseline = result.get("baseline") or {}
    scores: Mapping[str, Any] = baseline.get(key) or {}
    return scores


def baseline_warnings(result: Mapping[str, Any]) -> list[str]:
    """Return a line per score that is worse than predicting the mean of the task."""
    return [
        f"{compared.name} {compared.score:.4g}: worse than the {BASELINE} "
        f"({compared.baseline:.4g})"
        for compared in compared_scores(result)
        if compared.verdict == WORSE
    ]


def score_table(result: Mapping[str, Any]) -> ReportTable:
    """Return the scores with their baselines, the cross-validated score first."""
    table = ReportTable.of(
        "score",
        "model:score",
        Column(BASELINE, "score"),
        "verdict",
    )
    for compared in compared_scores(result):
        table.rows.append(
            [
                compared.name,
                compared.score,
                compared.baseline,
                compared.verdict or None,
            ]
        )
    return table


def task_table(result: Mapping[str, Any], tested: Tested) -> ReportTable:
    """Return the scores of each task with their baselines; the verdict is about the first metric."""
    metrics = list(result["metrics"])
    baseline = _baseline_of(result, "per_task")
    table = ReportTable.of("task", "test rows:count")
    for name in metrics:
        table.columns.append(Column(name, "score"))
        if name in baseline:
            table.columns.append(Column(f"{name}, {BASELINE}", "score"))
    if metrics[0] in baseline:
        table.columns.append(Column("verdict"))
    for place, (task, truth, _) in enumerate(tested):
        row: list[Any] = [task, len(truth)]
        for name in metrics:
            row.append(_at(result["per_task"].get(name, ()), place))
            if name in baseline:
                row.append(_at(baseline[name], place))
        if metrics[0] in baseline:
            row.append(_verdict_of(metrics[0], row[2], row[3]))
        table.rows.append(row)
    return table


def _verdict_of(metric: str, score: float | None, baseline: float | None) -> str | None:
    """Return the verdict on a task, None where one of the scores is undefined."""
    if score is None or baseline is None:
        return None
    return compare_with_baseline(metric, score, baseline) or None


def _at(values: Sequence[float | None], place: int) -> float | None:
    """Return a score of a task, None where a metric has fewer."""
    return values[place] if place < len(values) else None


def search_panels(selection: Mapping[str, Any]) -> list[Panel]:
    """Return a panel per parameter of a search: the best mean score at each value, and the selected one.

    Parameters
    ----------
    selection : mapping
        What a record says of the search; empty without one.
    """
    panels = []
    grid = selection.get("grid") or {}
    for name, values in grid.items():
        scores = best_scores(selection, name) if len(values) > 1 else {}
        if len(scores) < 2:
            continue
        metric = str(selection["metric"])
        curves = [Line("cross-validated", list(scores), list(scores.values()))]
        if metric in BASELINE_SCORES:
            ends = [min(scores), max(scores)]
            level = [BASELINE_SCORES[metric]] * 2
            curves.append(Line(BASELINE, ends, level, place=4, smooth=True))
        selected = (selection.get("chosen") or {}).get(name)
        if selected in scores:
            point = Line("selected", [selected], [scores[selected]], place=3)
            point.points = "filled"
            curves.append(point)
        panels.append(path_panel(spoken(metric), name, curves))
    return panels
