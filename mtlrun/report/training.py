"""The page of a training: scores per task, what was chosen, predictions against the truth, the largest coefficients."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtlrun.errors import counted
from mtlrun.report.figures import Figure, Line, Panel
from mtlrun.report.grid import Column, Grid, Section, show
from mtlrun.report.writers import html_page

#: Tasks with a colour of their own, points of a scatter plot, and rows of the table of coefficients.
MOST_COLOURS, MOST_POINTS, MOST_FEATURES = 7, 1500, 20
#: Features of its own that are shown for a task.
MOST_OWN = 5
OWN_LINE = "A task's own weight of a feature is its coefficient less the mean of all tasks, which they share."
TOGETHER = "rows of all tasks"
#: Test rows of a task: its name, the true values, and predictions or decision values.
Tested = Sequence[tuple[str, np.ndarray, np.ndarray]]


def training_page(
    result: Mapping[str, Any],
    config: Mapping[str, Any],
    tested: Tested,
    coefficients: tuple[np.ndarray, Sequence[str]] | None,
    *,
    regression: bool,
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    result : mapping
        Content of ``metrics.json``.
    config : mapping
        The training file with all its defaults.
    tested : sequence of (str, ndarray, ndarray)
    coefficients : (ndarray of shape (n_tasks, n_features), sequence of str) or None
        With the names of the features, which may be empty; None for a model that has none.
    regression : bool
    """
    tasks = Grid([Column("task"), Column("test rows", "count"), *(Column(m, "score") for m in result["metrics"])])
    for place, (name, truth, _) in enumerate(tested):
        scores = [values[place] if place < len(values) else None for values in result["per_task"].values()]
        tasks.rows.append([name, len(truth), *scores])
    params = Grid([Column("parameter"), Column("value")], [[k, json.dumps(v)] for k, v in result["params"].items()])
    settings = Grid([Column("setting"), Column("value")], [[k, json.dumps(v)] for k, v in config.items()])
    sections = [
        Section("Parameters", grids=[params]),
        Section("Largest coefficients", *_largest(coefficients, tested)),
        Section("Scores per task", grids=[tasks]),
        Section("Settings", grids=[settings]),
    ]
    draw = prediction_figure if regression else roc_figure
    figures = [draw(tested)] if any(len(np.unique(truth)) > 1 for _, truth, _ in tested) else []
    title = f"{result['id']}: {result['method']} on {result['dataset']}"
    return html_page(title, training_lines(result), [s for s in sections if not s.empty], figures)


def training_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the lines that say how a training went."""
    lines = []
    found = result["selection"]
    if found:
        chosen = ", ".join(f"{name}={value}" for name, value in found["chosen"].items())
        lines.append(f"chosen: {chosen} (cross-validated {found['metric']} {found['score']:.4g})")
        for name, end in found["edges"].items():
            lines.append(f"  {name} is at the {end} end of its grid: consider widening it")
    width = max(len(name) for name in result["metrics"])
    for name, mean in result["metrics"].items():
        undefined = result["counts"][f"undefined_{name}"]
        note = f"  (undefined for {undefined} of {counted(result['counts']['n_tasks'], 'task')})" if undefined else ""
        lines.append(f"{name:{width}}  {'undefined' if mean != mean else f'{mean:.4f}'}{note}")
    lines.append(f"fitted in {result['seconds']['fit']:.3g} s")
    return lines


def prediction_figure(tested: Tested) -> Figure:
    """Return predictions over true values, a colour per task where they are few."""
    step = -(-sum(len(truth) for _, truth, _ in tested) // MOST_POINTS)
    curves = []
    for name, truth, predicted in _groups(tested):
        x, y = (np.asarray(values, dtype=float)[::step].tolist() for values in (truth, predicted))
        curves.append(Line(name, x, y, points="filled"))
    panel = Panel("predicted", False, curves, axis="true", x_log=False, diagonal=True)
    title = "Predictions of the test rows" + f" (one of {step})" * (step > 1)
    return Figure("predictions", title, [panel])


def roc_figure(tested: Tested) -> Figure:
    """Return ROC curves, one per task where they are few, else one over the rows of all tasks."""
    from sklearn.metrics import roc_curve  # slow to load

    curves = []
    for name, truth, scores in _groups(tested):
        if len(np.unique(truth)) == 2:
            x, y, _ = roc_curve(truth, scores)
            curves.append(Line(name, x.tolist(), y.tolist()))
    panel = Panel("true positive rate", False, curves, axis="false positive rate", x_log=False, diagonal=True)
    return Figure("roc", "ROC curves of the test rows", [panel])


def _groups(tested: Tested) -> Tested:
    """Return the tasks, those that cannot all have a colour as one."""
    if len(tested) <= MOST_COLOURS:
        return tested
    _, truths, scores = zip(*tested, strict=True)
    return [(TOGETHER, np.concatenate(truths), np.concatenate(scores))]


def _largest(coefficients: tuple[np.ndarray, Sequence[str]] | None, tested: Tested) -> tuple[list[str], list[Grid]]:
    """Return the features with the largest coefficients, shared and own.

    What tasks share of a feature is the mean of its coefficients, what is a task's own is the difference from it.
    """
    if coefficients is None:
        return [], []
    matrix, names = np.atleast_2d(coefficients[0]), coefficients[1]
    tasks = [name for name, *_ in tested] if len(tested) == len(matrix) else [str(t) for t in range(len(matrix))]
    size = np.abs(matrix).mean(axis=0)
    order = [int(j) for j in np.argsort(-size, kind="stable")[:MOST_FEATURES]]
    heads = ("mean absolute value", "shared (mean)", "smallest", "largest")
    grid = Grid([Column("feature"), *(Column(n, "score") for n in heads)])
    found = np.stack([size, matrix.mean(axis=0), matrix.min(axis=0), matrix.max(axis=0)])
    grid.rows = [[names[j] if len(names) else show(j), *found[:, j].tolist()] for j in order]
    lines = [f"Over {counted(len(matrix), 'task')}, of features as the model gets them."]
    return [*lines, OWN_LINE] if len(tasks) > 1 else lines, [grid, _own(matrix, names, tasks)][: len(tasks)]


def _own(matrix: np.ndarray, names: Sequence[str], tasks: Sequence[str]) -> Grid:
    """Return for every task the features with the largest coefficients of its own."""
    grid = Grid([Column("task"), Column("largest weights of its own")])
    for task, own in zip(tasks, matrix - matrix.mean(axis=0), strict=True):
        order = [int(j) for j in np.argsort(-np.abs(own), kind="stable")[:MOST_OWN] if own[j]]
        texts = [f"{names[j] if len(names) else show(j)} {own[j]:+.3g}" for j in order]
        grid.rows.append([task, ", ".join(texts) or "none"])
    return grid
