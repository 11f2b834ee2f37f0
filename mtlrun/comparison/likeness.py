"""One line before anything is tuned: what multi-task learning gained on the tables of the atlas that are most alike."""

from __future__ import annotations

import math

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.errors import ConfigError
from mtlrun.papers.atlas import read_lines

#: So many tables are named; with fewer than the second, nothing is said.
NEAREST, FEWEST = 5, 3
#: What makes tables alike, as logarithms: all of it is known without a fit.
SIZES = ("rows_per_task", "tasks", "features")


def tables_like(dataset: Dataset, train: float) -> str | None:
    """Return what multi-task learning gained on real tables of the same layout and nearest size.

    Of every table of the atlas, the number of training rows per task that is nearest counts; its gain is the mean over
    the seeds.

    Parameters
    ----------
    dataset : Dataset
    train : float
        Part of the rows that is trained on.

    Returns
    -------
    str or None
        None where the atlas has no such tables.
    """
    if dataset.task_id is not None:
        kind = "groups"
    else:
        kind = "targets" if dataset.task_type == "regression" else "labels"
    try:
        lines, day = read_lines()
    except ConfigError:  # the shipped file is not there
        return None
    known = float((dataset.y == dataset.y).sum()) * train / dataset.n_tasks
    mine = np.log([max(known, 1.0), dataset.n_tasks, max(dataset.n_features, 1)])
    gains: dict[tuple[str, str], list[float]] = {}
    distances: dict[tuple[str, str], float] = {}
    for line in lines:
        if line["kind"] == kind:
            place = line["table"], line["rows"]
            gains.setdefault(place, []).append(float(line["gain"]))
            distances[place] = float(np.linalg.norm(np.log([float(line[name]) for name in SIZES]) - mine))
    return _text(gains, distances, day)


def _text(gains: dict[tuple[str, str], list[float]], distances: dict[tuple[str, str], float], day: str) -> str | None:
    found: dict[str, float] = {}
    for place in sorted(distances, key=lambda place: (distances[place], place)):
        found.setdefault(place[0], math.fsum(gains[place]) / len(gains[place]))
    chosen = dict(list(found.items())[:NEAREST])
    if len(chosen) < FEWEST:
        return None
    helped = sum(value > 0 for value in chosen.values())
    low, high = (f"{100 * end:.0f}" for end in (min(chosen.values()), max(chosen.values())))
    return (
        f"tables like yours in the atlas of {day}: multi-task learning helped in {helped} of {len(chosen)} "
        f"(gain {low} to {high}%): {', '.join(chosen)}"
    )
