"""Sentences about the parts of a fitted smooth model: what explains the target?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.engine.evaluation import innermost
from mtlrun.errors import counted, listed
from mtlrun.estimators.summary import summary_lines
from mtlrun.model.curves import variances_line
from mtlrun.model.explanation import method_name, prediction_lines
from mtlrun.model.files import Model, load_model, read_facts

#: Targets on the same rows whose parts are tested; of more, the first ones.
MAX_TESTED_TARGETS = 3


def part_lines(model: Model) -> list[str]:
    """Return the shares of the parts in the variance, and a likelihood-ratio test each.

    What limits the fit follows. Empty for a model without parts.
    """
    shares = variances_line(model)
    if shares is None:
        return []
    estimator = innermost(model.estimator)
    lines = [shares]
    mixture = getattr(estimator, "mixture_", None)
    if mixture is not None:
        texts = [f"{name} {np.mean(weight):.0%}" for name, weight in mixture.items()]
        lines.append(f"mixed predictions, mean weights: {', '.join(texts)}")
    if not hasattr(estimator, "part_tests"):
        return lines
    names = dict(
        zip(estimator.tasks_.tolist(), map(str, model.about["tasks"]), strict=True)
    )
    tested = list(names)[:MAX_TESTED_TARGETS]
    for test in estimator.part_tests():
        if test.task is None:
            lines.append(test.sentence)
        elif test.task in tested:
            lines.append(f"{names[test.task]}: {test.sentence}")
    return [*lines, *estimator.notes()]


def saved_part_lines(folder: Path) -> list[str]:
    """Return `part_lines` of the model in a folder, which is loaded if it has parts."""
    if "Smooth" not in json.dumps(read_facts(folder)["estimator"]):
        return []
    return part_lines(load_model(folder))


def model_lines(model: Model) -> list[str]:
    """Return what a model is, what it was trained on, and how it predicts."""
    facts = model.about
    inputs: Mapping[str, Any] = facts["input"]
    tasks = list(map(str, facts["tasks"]))
    names = list(map(str, inputs.get("names") or []))
    lines: list[str] = []
    config: Mapping[str, Any] = facts.get("config") or {}
    if config.get("title"):
        lines.append(str(config["title"]))
    lines += [
        f"method: {method_name(model)} ({facts['task_type']})",
        f"tasks: {counted(len(tasks), 'task')} ({listed(tasks)})",
    ]
    features = counted(int(inputs["n_features"]), "feature")
    if names:
        features += f" ({listed(names)})"
    lines.append(f"features: {features}")
    lines += [*prediction_lines(model), *part_lines(model)]
    estimator = innermost(model.estimator)
    if hasattr(estimator, "summary"):
        columns = model.step.get_feature_names_out(names or None)
        positions = map(str, range(len(columns)))
        summary = estimator.summary().rename(
            index=dict(zip(positions, map(str, columns), strict=True)), level="name"
        )
        title = "summary, for columns as they are prepared"
        scale = np.unique(getattr(model.estimator, "scale_", [1.0]))
        if len(scale) == 1 and scale[0] != 1:
            title += f" and the target in units of {scale[0]:.4g}"
        lines += [f"{title}:", *summary_lines(summary)]
    return lines
