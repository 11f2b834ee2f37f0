"""What the authors' stored result files of the graph-regularised SVM say of its speed and precision; no fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.papers.measure import Measurement, measure, published_path
from mtlrun.utils.yaml import load_text

Array = np.ndarray[Any, np.dtype[Any]]

#: Curves of Figures 1 and 2, read from the authors' files.
PUBLISHED = ("mtsvm/published/fig1.yaml", "mtsvm/published/fig2.yaml")
# A difference from the optimum, relative to it, from which on a solution is of use.
_USEFUL = 1e-2


@measure(
    {
        "dcd_difference": "smallest |obj* - obj| of DCD in Figure 1",
        "kernel_difference": "smallest |obj* - obj| of the kernel solver in Figure 1",
        "orders_at_one_time": "most orders of magnitude by which DCD is more precise at one time",
        "times_more_precise": "share of the stored times at which DCD is more precise",
        "speed_up": "largest ratio of the seconds to a difference that both reach",
        "speed_up_precision": "that difference, relative to obj*",
        "speed_up_useful": "largest ratio of the seconds to a difference of at most 1e-2, relative to obj*",
        "speed_up_rows": "largest ratio of the seconds for the same rows in Figure 2",
        "speed_up_all_rows": "ratio of the seconds for all rows in Figure 2",
        "dcd_first_pace": "orders of magnitude that DCD gains in its first tenfold time, divided by its mean",
        "kernel_first_pace": "the same of the kernel solver",
        "first_pace": "the larger of the two",
        "first_tenth": "the same in plain time: ten times the share that the first tenth of a run gains",
        "mean_steepness": "mean orders of magnitude in a tenfold time, the kernel solver's divided by DCD's",
        "steepness": "most orders of magnitude in a tenfold time, the kernel solver's divided by DCD's",
        "exponent_difference": "b of seconds ~ rows^b in Figure 2, the kernel solver's minus DCD's",
        "kernel_rows": "most rows that the kernel solver was given in Figure 2",
    },
    needs_data=False,
    changes=[
        "paces, steepness, the growth with the rows and the most rows are read off, too",
        "the paces of both solvers together, in logarithmic and in plain time, and mean steepness",
    ],
)
def stored_runs(
    dataset: Dataset,
    *,
    seed: int,
    data_set: str,
    optimum: float,
    published: Sequence[str] = PUBLISHED,
) -> Measurement:
    """Read speed-ups and precisions off the curves of DCD and the kernel solver that the authors stored.

    At a time the last value known counts, as long as the kernel solver was followed; DCD was until it had converged.
    Seconds are compared at every difference that one of the curves has and both come to. The pace of a curve is in
    orders of magnitude of the difference per tenfold time, as the figure shows it; its mean is that of the run until
    its smallest difference, its largest that between two neighbours of the stored points.

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    data_set : str
        Whose curves.
    optimum : float
        Its obj*, of the same files.
    published : (str, str)
        Files of the curves of Figures 1 and 2 below the folder of the experiments.
    """
    ours, theirs = _curves(published[0], data_set)
    n, few, many = _same_rows(*_curves(published[1], data_set))
    levels = np.unique(np.concatenate([ours[1], theirs[1]]))
    levels = levels[levels >= max(ours[1].min(), theirs[1].min())]
    ratios = np.array([_first(theirs, level) / _first(ours, level) for level in levels])
    at = np.unique(np.concatenate([ours[0], theirs[0]]))
    at = at[(at >= max(ours[0][0], theirs[0][0])) & (at <= theirs[0][-1])]
    orders = np.array([np.log10(_known(theirs, time) / _known(ours, time)) for time in at])
    useful = levels <= _USEFUL * optimum
    best, most, rows = int(np.argmax(ratios)), int(np.argmax(orders)), int(np.argmax(many / few))
    values = {
        "dcd_difference": ours[1].min(),
        "kernel_difference": theirs[1].min(),
        "orders_at_one_time": orders[most],
        "times_more_precise": np.mean(orders > 0),
        "speed_up": ratios[best],
        "speed_up_precision": levels[best] / optimum,
        "speed_up_useful": ratios[useful].max() if useful.any() else np.nan,
        "speed_up_rows": many[rows] / few[rows],
        "speed_up_all_rows": many[-1] / few[-1],
        "dcd_first_pace": _first_pace(ours),
        "kernel_first_pace": _first_pace(theirs),
        "first_pace": max(_first_pace(ours), _first_pace(theirs)),
        "first_tenth": max(_first_tenth(ours), _first_tenth(theirs)),
        "mean_steepness": _mean_pace(theirs) / _mean_pace(ours),
        "steepness": _steepest(theirs) / _steepest(ours),
        "exponent_difference": np.polyfit(np.log(n), np.log(many / few), 1)[0] if len(n) > 1 else np.nan,
        "kernel_rows": n[-1],
    }
    return Measurement(
        {name: float(value) for name, value in values.items()},
        lines=[
            f"DCD is at most {ratios[best]:.3g} times as fast in Figure 1, to a difference of "
            f"{levels[best] / optimum:.2g} of obj*, and {many[rows] / few[rows]:.3g} times in Figure 2, with "
            f"{n[rows]:.0f} rows. At {at[most]:.3g} s it is more precise by {orders[most]:.1f} orders of magnitude."
        ],
    )


def _curves(name: str, data_set: str) -> list[tuple[Array, Array]]:
    """Return x and y of DCD and of the kernel solver."""
    curves = load_text(published_path(name).read_text(encoding="utf-8"), f"configs/{name}").data["curves"]
    found = {
        curve["method"]: (np.array(curve["x"]), np.array(curve["y"]))
        for curve in curves
        if curve["dataset"] == data_set
    }
    if len(found) != 2:
        raise ValueError(f"configs/{name} has {len(found)} curves of {data_set!r}, need those of two solvers")
    return [found["DCD as printed"], found["MTK"]]


def _same_rows(ours: tuple[Array, Array], theirs: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """Return the numbers of rows that both were given, and the seconds of both."""
    n, mine, other = np.intersect1d(ours[0], theirs[0], return_indices=True)
    return n, ours[1][mine], theirs[1][other]


def _first(curve: tuple[Array, Array], level: float) -> float:
    """Return when a curve comes to a level."""
    return float(curve[0][np.argmax(curve[1] <= level)])


def _known(curve: tuple[Array, Array], time: float) -> float:
    """Return the last value of a curve at a time."""
    return float(curve[1][np.searchsorted(curve[0], time, side="right") - 1])


def _first_pace(curve: tuple[Array, Array]) -> float:
    """Return the pace in the first tenfold time, or of the whole run if it is shorter, divided by the mean pace."""
    at, difference = curve
    tenfold = min(10.0, at[np.argmin(difference)] / at[0])
    gained = np.log10(difference[0] / _known(curve, tenfold * at[0]))
    return float(gained / np.log10(tenfold) / _mean_pace(curve))


def _mean_pace(curve: tuple[Array, Array]) -> float:
    """Return the orders of magnitude per tenfold time until the smallest difference."""
    at, difference = curve
    end = int(np.argmin(difference))
    return float(np.log10(difference[0] / difference[end]) / np.log10(at[end] / at[0]))


def _first_tenth(curve: tuple[Array, Array]) -> float:
    """Return the share of its orders of magnitude that a run gains in the first tenth of its time, times ten."""
    at, difference = curve
    end = int(np.argmin(difference))
    known = _known(curve, max(at[0], at[end] / 10))
    return float(10 * np.log10(difference[0] / known) / np.log10(difference[0] / difference[end]))


def _steepest(curve: tuple[Array, Array]) -> float:
    """Return the most orders of magnitude per tenfold time between two neighbours."""
    return float(np.max(-np.diff(np.log10(curve[1])) / np.diff(np.log10(curve[0]))))
