"""A trained model beside a baseline, the mean of each task: scores, warnings, tables, and its search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import WEIGHT
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.interfaces import METRIC_FACTS
from mtlrun.engine.job import Scoring
from mtlrun.estimators.baselines import TaskMean
from mtlrun.tables.figures import Line, Panel, best_scores, path_panel
from mtlrun.tables.quantities import spoken
from mtlrun.tables.report_table import Column, ReportTable

#: What every score is compared with.
BASELINE = "mean of the task"
#: Scores of the mean of the task by definition; others depend on the data.
BASELINE_SCORES = {
    **dict.fromkeys(("nmse", "nmse_all"), 1.0),
    **dict.fromkeys(("r2", "explained_variance"), 0.0),
    **dict.fromkeys(("auc", "auc_frequent", "balanced_accuracy"), 0.5),
}
#: Shares of a class are at least that far from 0 and 1, so that odds are finite.
SMALLEST_SHARE = 1e-6
#: Words of the comparison with the baseline, and their CSS classes.
BETTER, EQUAL, WORSE = "better", "equal", "worse"
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
    """Return the weighted mean target of each task, (n_tasks,); that of all rows for tasks without any."""
    y = np.asarray(train.y, dtype=float)
    weights = np.asarray(train.source.get(WEIGHT, np.ones(len(y))), dtype=float)
    if y.ndim == 2:
        tasks = np.broadcast_to(np.arange(y.shape[1]), y.shape)
        weights = np.broadcast_to(weights.reshape(len(y), -1), y.shape)
    elif train.task_id is not None:
        tasks = np.asarray(train.task_id)
    else:
        tasks = np.zeros(len(y), dtype=int)
    known = ~np.isnan(y)
    tasks, weights, y = tasks[known], weights[known], y[known]
    totals = np.bincount(tasks, weights, train.n_tasks)
    sums = np.bincount(tasks, weights * y, train.n_tasks)
    overall = sums.sum() / totals.sum()
    return np.divide(sums, totals, out=np.full(len(sums), overall), where=totals > 0)


def compare_with_baseline(name: str, score: float, baseline: float) -> str:
    """Return whether a score is better than that of a baseline, equal or worse; "" if one is not a number."""
    if not (math.isfinite(score) and math.isfinite(baseline)):
        return ""
    if math.isclose(score, baseline, rel_tol=1e-9, abs_tol=1e-12):
        return EQUAL
    is_better = (score > baseline) == METRIC_FACTS[name].greater_is_better
    return BETTER if is_better else WORSE


def baseline_warnings(result: Mapping[str, Any]) -> list[str]:
    """Return a line per score that is worse than predicting the mean of the task."""
    lines = []
    selection = result["selection"] or {}
    metric = selection.get("metric")
    if metric in BASELINE_SCORES:
        score, baseline = selection["score"], BASELINE_SCORES[metric]
        if compare_with_baseline(metric, score, baseline) == WORSE:
            lines.append(
                f"cross-validated {spoken(metric)} {score:.4g}: worse than the "
                f"{BASELINE} ({baseline:g})"
            )
    baselines = (result.get("baseline") or {}).get("metrics") or {}
    for name, score in result["metrics"].items():
        baseline = baselines.get(name, BASELINE_SCORES.get(name))
        if baseline is None:
            continue
        if compare_with_baseline(name, score, baseline) == WORSE:
            lines.append(
                f"{spoken(name)} of the test rows {score:.4g}: worse than the "
                f"{BASELINE} ({baseline:.4g})"
            )
    return lines


def score_table(result: Mapping[str, Any]) -> ReportTable:
    """Return the scores beside those of the baseline, the cross-validated one first."""
    table = ReportTable.of("score", "model:score", Column(BASELINE, "score"), "verdict")
    selection = result["selection"] or {}
    metric = selection.get("metric")
    if metric is not None:
        baseline = BASELINE_SCORES.get(metric)
        verdict = (
            ""
            if baseline is None
            else compare_with_baseline(metric, selection["score"], baseline)
        )
        head = f"cross-validated {spoken(metric)}"
        table.rows.append([head, selection["score"], baseline, verdict or None])
    baselines = (result.get("baseline") or {}).get("metrics") or {}
    for name, score in result["metrics"].items():
        baseline = baselines.get(name, BASELINE_SCORES.get(name))
        verdict = (
            "" if baseline is None else compare_with_baseline(name, score, baseline)
        )
        table.rows.append(
            [f"{spoken(name)} of the test rows", score, baseline, verdict or None]
        )
    return table


def task_table(result: Mapping[str, Any], tested: Tested) -> ReportTable:
    """Return the scores of every task beside those of the baseline; the verdict is that of the first metric."""
    metrics = list(result["metrics"])
    baseline = (result.get("baseline") or {}).get("per_task") or {}
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
            first, its_baseline = row[2], row[3]
            both = first is not None and its_baseline is not None
            verdict = (
                compare_with_baseline(metrics[0], first, its_baseline) if both else ""
            )
            row.append(verdict or None)
        table.rows.append(row)
    return table


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
