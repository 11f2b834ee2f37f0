"""Figures of a saved model: how similar its tasks are, its coefficients, and the search that chose its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.errors import DataError, UserError
from mtlrun.models import COEFFICIENTS, Model, finished, load_model, read_facts
from mtlrun.report.drawing import check_drawing, write_drawing
from mtlrun.report.figures import Curve, Figure, HeatMap, Panel, best_scores, path_panel
from mtlrun.report.frames import TRAINED
from mtlrun.report.stored import read_json
from mtlrun.utils.arrays import Archive
from mtlrun.utils.outputs import write_output

#: Features in the figure of the coefficients: those with the largest mean absolute coefficient.
MOST_FEATURES = 40
KINDS = ("tasks", "coefficients", "path")


def plot_model(folder: Path, kind: str, out: Path, *, trust: Iterable[str] = ()) -> Path:
    """Draw a figure of a model into a file, and return the file.

    Parameters
    ----------
    folder : Path
        Of the model.
    kind : {"tasks", "coefficients", "path"}
        The similarities of the tasks (`mtlrun.estimators.similarity.task_similarity`), the coefficients, or the scores
        along the grid of the search that chose the parameters.
    out : Path
        Its ending says the format.
    trust : iterable of str
        For ``tasks``: types that may be loaded, see `load_model`.

    Raises
    ------
    UnknownNameError
        If there is no such kind.
    UserError
        If the model has nothing of the kind, or the format is unknown.
    """
    check_drawing("kind of figure of a model", kind, KINDS, out)
    folder = finished(folder)
    panels: list[Panel | HeatMap]
    if kind == "path":
        panels = [*_paths(folder)]
    else:
        panels = [_tasks(folder, load_model(folder, trust)) if kind == "tasks" else _coefficients(folder)]
    facts = read_facts(folder)
    estimator, data = facts["estimator"] or {}, facts["dataset"] or {}
    title = " on ".join(str(text) for text in (estimator.get("name"), data.get("id")) if text)
    write_drawing(Figure(kind, title, panels), out, write_output)
    return out


def _tasks(folder: Path, model: Model) -> HeatMap:
    estimator, tasks = model.estimator, (model.facts or {})["tasks"]
    while hasattr(estimator, "estimator_"):  # of scaled targets or calibrated scores
        estimator = estimator.estimator_
    try:
        similarity = estimator.task_similarity_
    except AttributeError as error:
        remedy = "FETR, MTFRL, MTRL, GraphMTL, ClusteredMTL, Whom and MT-MKL have one; try --kind coefficients."
        raise UserError(f"{folder}: {error}", remedy) from None
    return HeatMap("similarity of tasks", similarity.tolist(), tasks, tasks, centre=0.0)


def _coefficients(folder: Path) -> HeatMap:
    file = folder / COEFFICIENTS
    if not file.is_file():
        raise UserError(f"{folder}: this model is not linear: it has no coefficients", "Try --kind tasks or path.")
    try:
        with Archive(file, str(file)) as stored:
            coef, tasks, features = (stored.read(name) for name in ("coef", "tasks", "features"))
    except (OSError, ValueError) as error:
        raise DataError(str(error), "Train the model again.") from None
    fitting = coef.ndim == 2 and tasks.shape == coef.shape[:1] and features.shape in ((0,), coef.shape[1:])
    if not fitting or coef.dtype.kind != "f":
        raise DataError(f"{file}: its arrays do not fit together", "Train the model again.")
    order = np.sort(np.argsort(-np.abs(coef).mean(axis=0), kind="stable")[:MOST_FEATURES])
    left_out = coef.shape[1] - len(order)
    title = "coefficients" + f" ({len(order)} largest of {coef.shape[1]} features)" * bool(left_out)
    names = [str(features[j]) if features.size else str(j) for j in order]
    return HeatMap(title, coef[:, order].T.tolist(), names, tasks.tolist(), centre=0.0)


def _paths(folder: Path) -> list[Panel]:
    """Return a panel per parameter: at every value the best mean score over the folds."""
    found: Mapping[str, Any] = (read_json(folder / TRAINED) or {}).get("selection") or {}
    grid = {name: values for name, values in (found.get("grid") or {}).items() if len(values) > 1}
    if not grid:
        raise UserError(f"{folder}: no search over the values of a parameter chose this model", "Give it a grid.")
    panels = []
    for name in grid:
        scores = best_scores(found, name)
        if len(scores) > 1:
            curve = Curve("cross-validated", list(scores), list(scores.values()))
            panels.append(path_panel(str(found["metric"]), name, [curve]))
    if not panels:
        raise UserError(f"{folder}: the values of the search are not numbers", "Try --kind tasks or coefficients.")
    return panels
