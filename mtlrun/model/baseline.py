"""Compare a trained model with the mean of each task.

The functions return scores, warnings, tables and the panels of the search for
parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mtlrun.catalog.interfaces import METRIC_INFO
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import WEIGHT
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.job import Scoring
from mtlrun.engine.record import SearchResult, Seconds, SolverOutcome
from mtlrun.estimators.baselines import TaskMean
from mtlrun.parallel.status import OK
from mtlrun.show.figures import Line, Panel, path_panel
from mtlrun.show.quantities import spoken
from mtlrun.show.report_table import Column, ReportTable, Styled

#: Baseline of all scores.
BASELINE = "mean of the task"
#: Scores of the mean of the task by definition; others depend on the data.
BASELINE_SCORES = {
    **dict.fromkeys(("nmse", "nmse_all", "nmse_shrunken"), 1.0),
    **dict.fromkeys(("r2", "r2_shrunken", "explained_variance"), 0.0),
    **dict.fromkeys(("auc", "auc_frequent", "balanced_accuracy"), 0.5),
}
#: Shares of a class are at least this far from 0 and 1, so that odds are finite.
SMALLEST_SHARE = 1e-6
#: Words of the comparison with the baseline, and their CSS classes.
BETTER = "better"
EQUAL = "equal"
WORSE = "worse"
COMPARISON_TONES = {BETTER: "good", EQUAL: "none", WORSE: "bad"}
BASELINE_LINE = (
    f"The baseline predicts the {BASELINE} in the training rows, for labels the share "
    "of each class. A model that is worse than the baseline has learned nothing useful."
)
#: Test rows of a task: its name, the true values, and predictions or decision values.
Tested = Sequence[tuple[str, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class TrainingResult:
    """Results of a training, as ``metrics.json`` has them.

    Attributes
    ----------
    method : str
    dataset : str
    id, status : str
    params : dict
        Parameters of the model.
    metrics, per_task : dict
        Scores of the test rows: averages, and the scores of each task.
    counts : dict of str to int
    seconds : Seconds
    solver : SolverOutcome
    selection : SearchResult
        Result of the search.
    refit : bool or dict
        Parameters that changed for the fit to all rows.
    edits : list of str
        What was changed in the table.
    baseline : dict
        Scores of the baseline, see `baseline_scores`.
    """

    method: str
    dataset: str
    metrics: dict[str, Any]
    id: str = ""
    status: str = OK
    params: dict[str, Any] = field(default_factory=dict)
    per_task: dict[str, list[Any]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: Seconds = field(default_factory=Seconds)
    solver: SolverOutcome = field(default_factory=SolverOutcome)
    selection: SearchResult = field(default_factory=SearchResult)
    refit: bool | dict[str, Any] = False
    # Results of earlier versions have neither of these.
    edits: list[str] = field(default_factory=list)
    baseline: dict[str, Any] = field(default_factory=dict)


def baseline_scores(part: TrainTestData, scoring: Scoring) -> dict[str, Any]:
    """Return the scores of a model that predicts the mean of each task.

    For labels, the mean is the share of each class: all rows of a task get the same
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
    train = part.train
    test = part.test
    if train.task_type == "multiclass":
        return {}
    means = _task_means(train)
    if train.task_type != "regression" and not train.zero_one:
        # Labels are -1 and +1, and scores are logarithms of odds.
        share = (means + 1) / 2
        share = np.clip(share, SMALLEST_SHARE, 1 - SMALLEST_SHARE)
        means = np.log(share / (1 - share))
    if test.task_id is not None:
        predicted = means[test.task_id]
    elif test.y.ndim == 2:
        predicted = np.tile(means, (len(test.y), 1))
    else:
        predicted = np.full(len(test.y), means[0])
    # The estimator only shows that the scores are not the scores of a classifier.
    estimator = TaskMean()
    names = list(scoring.metrics)
    scores = part.score(estimator, predicted, names, scoring.average)
    metrics = {}
    per_task = {}
    for name, score in scores.items():
        metrics[name] = score.mean
        per_task[name] = score.per_task.tolist()
    return {"metrics": metrics, "per_task": per_task}


def _task_means(train: Dataset) -> np.ndarray:
    """Return the weighted mean target of each task, (n_tasks,).

    Tasks without rows get the mean of all rows.
    """
    y = np.asarray(train.y, dtype=float)
    n_rows = len(y)
    weights = train.source.get(WEIGHT, np.ones(n_rows))
    weights = np.asarray(weights, dtype=float)
    if y.ndim == 2:
        # A column per task. Weights are of rows or of entries.
        n_tasks = y.shape[1]
        tasks = np.broadcast_to(np.arange(n_tasks), y.shape)
        weights = weights.reshape(n_rows, -1)
        weights = np.broadcast_to(weights, y.shape)
    elif train.task_id is not None:
        tasks = np.asarray(train.task_id)
    else:
        tasks = np.zeros(n_rows, dtype=int)
    is_known = ~np.isnan(y)
    tasks = tasks[is_known]
    weights = weights[is_known]
    weighted = weights * y[is_known]
    totals = np.bincount(tasks, weights, train.n_tasks)
    sums = np.bincount(tasks, weighted, train.n_tasks)
    overall = sums.sum() / totals.sum()
    means = np.full(len(sums), overall)
    return np.divide(sums, totals, out=means, where=totals > 0)


def compare_with_baseline(name: str, score: float, baseline: float) -> str:
    """Return whether a score is better than a baseline, equal or worse.

    Returns
    -------
    str
        `BETTER`, `EQUAL` or `WORSE`; empty if one of them is not finite.
    """
    if not (math.isfinite(score) and math.isfinite(baseline)):
        return ""
    if math.isclose(score, baseline, rel_tol=1e-9, abs_tol=1e-12):
        return EQUAL
    is_greater = score > baseline
    if is_greater == METRIC_INFO[name].greater_is_better:
        return BETTER
    return WORSE


@dataclass(frozen=True)
class ComparedScore:
    """A score of a trained model and the score of its baseline.

    Attributes
    ----------
    name : str
        Description of the metric and the rows.
    score : float
    baseline : float or None
        None if it is unknown.
    verdict : str
        `BETTER`, `EQUAL`, `WORSE`, or "" without a baseline.
    """

    name: str
    score: float
    baseline: float | None
    verdict: str


def compared_scores(result: TrainingResult) -> list[ComparedScore]:
    """Return the cross-validated score of a training and the scores of test rows."""
    scores = []
    selection = result.selection
    if selection.metric is not None and selection.score is not None:
        metric = selection.metric
        name = f"cross-validated {spoken(metric)}"
        baseline = BASELINE_SCORES.get(metric)
        scores.append((name, metric, selection.score, baseline))
    baselines = result.baseline.get("metrics", {})
    for metric, score in result.metrics.items():
        name = f"{spoken(metric)} of the test rows"
        baseline = baselines.get(metric, BASELINE_SCORES.get(metric))
        scores.append((name, metric, score, baseline))
    compared = []
    for name, metric, score, baseline in scores:
        verdict = ""
        if baseline is not None:
            verdict = compare_with_baseline(metric, score, baseline)
        compared.append(ComparedScore(name, score, baseline, verdict))
    return compared


def baseline_warnings(result: TrainingResult) -> list[str]:
    """Return a line for each score that is worse than the mean of the task."""
    lines = []
    for compared in compared_scores(result):
        if compared.verdict == WORSE:
            lines.append(
                f"{compared.name} {compared.score:.4g}: worse than the {BASELINE} "
                f"({compared.baseline:.4g})"
            )
    return lines


def headline(result: TrainingResult) -> Styled | None:
    """Return the first score of the test rows next to its baseline, in words.

    None without a baseline.
    """
    metric = next(iter(result.metrics))
    n_metrics = len(result.metrics)
    compared = compared_scores(result)[-n_metrics]
    if not compared.verdict or compared.baseline is None:
        return None
    relation = f"as good as the {BASELINE}"
    if compared.verdict != EQUAL:
        relation = f"{compared.verdict} than the {BASELINE}"
    share = ""
    if not METRIC_INFO[metric].greater_is_better and compared.baseline > 0:
        change = compared.score / compared.baseline - 1
        word = "less" if change < 0 else "more"
        share = f", {abs(change):.0%} {word}"
    return Styled(
        f"{relation}: {compared.name} {compared.score:.4g} against "
        f"{compared.baseline:.4g}{share}",
        tone=compared.verdict,
    )


def score_table(result: TrainingResult) -> ReportTable:
    """Return a table of the scores with their baselines."""
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


def task_table(result: TrainingResult, tested: Tested) -> ReportTable:
    """Return a table of the scores of each task with their baselines.

    The verdict is about the first metric.
    """
    metrics = list(result.metrics)
    baseline = result.baseline.get("per_task", {})
    table = ReportTable.of("task", "test rows:count")
    for name in metrics:
        table.columns.append(Column(name, "score"))
        if name in baseline:
            table.columns.append(Column(f"{name}, {BASELINE}", "score"))
    if metrics[0] in baseline:
        table.columns.append(Column("verdict"))
    for index, (task, truth, _) in enumerate(tested):
        row: list[Any] = [task, len(truth)]
        for name in metrics:
            score = _score_of_task(result.per_task.get(name, ()), index)
            row.append(score)
            if name in baseline:
                row.append(_score_of_task(baseline[name], index))
        if metrics[0] in baseline:
            score, baseline_score = row[2:4]
            verdict = None
            if score is not None and baseline_score is not None:
                verdict = compare_with_baseline(metrics[0], score, baseline_score)
            row.append(verdict or None)
        table.rows.append(row)
    return table


def _score_of_task(scores: Sequence[float | None], index: int) -> float | None:
    """Return the score of a task; None if the metric has fewer scores."""
    if index < len(scores):
        return scores[index]
    return None


def search_panels(selection: SearchResult) -> list[Panel]:
    """Return a panel for each parameter of a search.

    It shows the best mean score at each value, and the selected value.

    Parameters
    ----------
    selection : SearchResult
        Empty without a search.
    """
    panels = []
    for name, values in (selection.grid or {}).items():
        if len(values) < 2:
            continue
        scores = selection.best_scores(name)
        if len(scores) < 2:
            continue
        metric = str(selection.metric)
        curves = [Line("cross-validated", list(scores), list(scores.values()))]
        if metric in BASELINE_SCORES:
            # A horizontal line from the smallest value to the largest
            ends = [min(scores), max(scores)]
            level = BASELINE_SCORES[metric]
            line = Line(BASELINE, ends, [level, level], place=4, smooth=True)
            curves.append(line)
        selected = (selection.chosen or {}).get(name)
        if selected in scores:
            point = Line("selected", [selected], [scores[selected]], place=3)
            point.points = "filled"
            curves.append(point)
        panels.append(path_panel(spoken(metric), name, curves))
    return panels
