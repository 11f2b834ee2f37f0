"""Curves of the graph-regularized SVM paper: what the stored files say, without fits.

Curves of Figure 1 have the difference ``|obj* - obj|`` over the seconds, curves of
Figure 2 the seconds over the rows. The pace of a curve of Figure 1 is in orders of
magnitude of the difference per tenfold time, as the figure shows it. Its mean is taken
over the run until its smallest difference, its largest value between two neighbors of
the stored points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mtlrun.catalog.analysis import (
    AnalysisResult,
    analysis,
)
from mtlrun.data.dataset import Dataset
from mtlrun.utils.io import published_path, read_text_file
from mtlrun.utils.yaml import load_text

Array = np.ndarray[Any, np.dtype[Any]]

#: Curves of Figure 1 in our run, made by ``scripts/mtsvm_curves.py``.
OUR_CURVES = "mtsvm/curves/fig1.yaml"
#: Curves of Figures 1 and 2, read from the authors' files.
PUBLISHED = ("mtsvm/published/fig1.yaml", "mtsvm/published/fig2.yaml")
#: Name of the curve of the printed algorithm.
DCD = "DCD as printed"
#: Name of the curve of the authors' kernel solver.
KERNEL = "MTK"
#: The first phase of a curve lasts this many times as long as until its first point.
_FIRST_PHASE = 10.0
#: A solution is of use from this difference from the optimum on, relative to it.
_USEFUL_DIFFERENCE = 1e-2


class StoredCurve(NamedTuple):
    """Curve in a file.

    Attributes
    ----------
    x : ndarray
        Ascending.
    y : ndarray
    """

    x: Array
    y: Array


@analysis(
    {
        "dcd_difference": "smallest |obj* - obj| of DCD in Figure 1",
        "kernel_difference": "smallest |obj* - obj| of the kernel solver in Figure 1",
        "orders_at_one_time": "most orders of magnitude by which DCD is more precise "
        "at one time",
        "times_more_precise": "share of the stored times at which DCD is more precise",
        "speed_up": "largest ratio of the seconds to a difference that both reach",
        "speed_up_precision": "that difference, relative to obj*",
        "speed_up_useful": "largest ratio of the seconds to a difference of at most "
        "1e-2, relative to obj*",
        "speed_up_rows": "largest ratio of the seconds for the same rows in Figure 2",
        "speed_up_all_rows": "ratio of the seconds for all rows in Figure 2",
        "dcd_first_pace": "orders of magnitude that DCD gains in its first tenfold "
        "time, divided by its mean",
        "kernel_first_pace": "the same of the kernel solver",
        "first_pace": "the larger of the two",
        "first_tenth": "the same in plain time: ten times the share that the first "
        "tenth of a run gains",
        "mean_steepness": "mean orders of magnitude in a tenfold time, the kernel "
        "solver's divided by DCD's",
        "steepness": "most orders of magnitude in a tenfold time, the kernel solver's "
        "divided by DCD's",
        "exponent_difference": "b of seconds ~ rows^b in Figure 2, the kernel solver's "
        "minus DCD's",
        "kernel_rows": "most rows that the kernel solver was given in Figure 2",
    },
    name="svm-audit",
    labels={
        "dcd_difference": "distance of DCD from the optimum",
        "kernel_difference": "distance of the kernel solver from the optimum",
        "orders_at_one_time": "orders of magnitude at one time",
        "times_more_precise": "share of times at which DCD is more precise",
        "speed_up": "largest speed-up",
        "speed_up_rows": "largest speed-up at equal rows",
        "speed_up_all_rows": "speed-up with all rows",
        "speed_up_precision": "difference at the largest speed-up, relative to obj*",
        "speed_up_useful": "largest speed-up to at most 1e-2 of obj*",
        "exponent_difference": "difference of the exponents of seconds in rows",
        "kernel_rows": "rows of the kernel solver",
    },
    needs_data=False,
    changes=[
        "paces, steepness, the growth with the rows and the most rows are read off, "
        "too",
        "the paces of both solvers together, in logarithmic and in plain time, and "
        "mean steepness",
    ],
)
def stored_runs(
    dataset: Dataset,
    *,
    seed: int,
    data_set: str,
    optimum: float,
    published: Sequence[str] = PUBLISHED,
) -> AnalysisResult:
    """Read speed-ups and precisions off the curves that the authors stored.

    The solvers are DCD and the kernel solver. At a time, the last known value counts,
    as long as the kernel solver was followed; DCD was followed until it had converged.
    Seconds are compared at each difference that one of the curves has and both reach.

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    data_set : str
        Data set of the curves.
    optimum : float
        obj* of the data set, from the same files.
    published : (str, str)
        Files of the curves of Figures 1 and 2, relative to the folder of the
        experiments.

    Raises
    ------
    ConfigError
        If a file is missing.
    ValueError
        If a file does not have two curves of the data set.
    """
    figure1, figure2 = published
    dcd, kernel = _two_curves(figure1, data_set)
    dcd_by_rows, kernel_by_rows = _two_curves(figure2, data_set)
    # Only sizes that both solvers were given are compared.
    n, dcd_index, kernel_index = np.intersect1d(
        dcd_by_rows.x, kernel_by_rows.x, return_indices=True
    )
    dcd_seconds = dcd_by_rows.y[dcd_index]
    kernel_seconds = kernel_by_rows.y[kernel_index]
    levels = np.unique(np.concatenate([dcd.y, kernel.y]))
    levels = levels[levels >= max(dcd.y.min(), kernel.y.min())]
    speed_ups = np.array(
        [_first_time(kernel, level) / _first_time(dcd, level) for level in levels]
    )
    times = np.unique(np.concatenate([dcd.x, kernel.x]))
    is_compared = (times >= max(dcd.x[0], kernel.x[0])) & (times <= kernel.x[-1])
    times = times[is_compared]
    orders = np.array(
        [np.log10(_value_at(kernel, time) / _value_at(dcd, time)) for time in times]
    )
    is_useful = levels <= _USEFUL_DIFFERENCE * optimum
    speed_up_useful = speed_ups[is_useful].max() if is_useful.any() else np.nan
    exponent_difference = np.nan
    if len(n) > 1:
        ratios = np.log(kernel_seconds / dcd_seconds)
        exponent_difference = np.polyfit(np.log(n), ratios, 1)[0]
    best_level = int(np.argmax(speed_ups))
    best_time = int(np.argmax(orders))
    best_size = int(np.argmax(kernel_seconds / dcd_seconds))
    speed_up_rows = kernel_seconds[best_size] / dcd_seconds[best_size]
    values = {
        "dcd_difference": dcd.y.min(),
        "kernel_difference": kernel.y.min(),
        "orders_at_one_time": orders[best_time],
        "times_more_precise": np.mean(orders > 0),
        "speed_up": speed_ups[best_level],
        "speed_up_precision": levels[best_level] / optimum,
        "speed_up_useful": speed_up_useful,
        "speed_up_rows": speed_up_rows,
        "speed_up_all_rows": kernel_seconds[-1] / dcd_seconds[-1],
        **_phases(dcd, kernel),
        "exponent_difference": exponent_difference,
        "kernel_rows": n[-1],
    }
    line = (
        f"DCD is at most {speed_ups[best_level]:.3g} times as fast in Figure 1, to a "
        f"difference of {levels[best_level] / optimum:.2g} of obj*, and "
        f"{speed_up_rows:.3g} times in Figure 2, with {n[best_size]:.0f} rows. At "
        f"{times[best_time]:.3g} s it is more precise by {orders[best_time]:.1f} orders "
        "of magnitude."
    )
    return AnalysisResult(
        {name: float(value) for name, value in values.items()}, lines=[line]
    )


@analysis(
    {
        "dcd_first_pace": "orders of magnitude that DCD gains in its first tenfold "
        "time, divided by its mean",
        "kernel_first_pace": "the same of the kernel solver",
        "first_pace": "the larger of the two",
        "dcd_first_tenth": "the same of DCD in plain time: ten times the share that "
        "its first tenth gains",
        "kernel_first_tenth": "the same of the kernel solver",
        "first_tenth": "the same in plain time: ten times the share that the first "
        "tenth of a run gains",
        "mean_steepness": "mean orders of magnitude in a tenfold time, the kernel "
        "solver's divided by DCD's",
        "steepness": "most orders of magnitude in a tenfold time, the kernel solver's "
        "divided by DCD's",
    },
    name="svm-phases",
    labels={
        "dcd_first_pace": "first pace of DCD over its mean pace",
        "kernel_first_pace": "first pace of the kernel solver over its mean pace",
        "first_pace": "larger first pace of both solvers, over its mean pace",
        "dcd_first_tenth": "gain of DCD in its first tenth over the mean",
        "kernel_first_tenth": "gain of the kernel solver in its first tenth over the mean",
        "first_tenth": "larger gain of both solvers in the first tenth, over the mean",
        "steepness": "ratio of the steepest slopes",
        "mean_steepness": "ratio of the mean slopes",
    },
    needs_data=False,
)
def curve_phases(
    dataset: Dataset,
    *,
    seed: int,
    data_set: str,
    kernel: str = "MTK with intercept",
    published: str = OUR_CURVES,
) -> AnalysisResult:
    """Read slow phases and steepness off our curves of Figure 1.

    `stored_runs` reads them off the authors' curves. The curve of LIBSVM is made of
    separate runs; at a time, the best value of the runs until then counts. A curve that
    takes less than ten times as long as until its first point has no first phase: its
    first pace is NaN.

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    data_set : str
        Label of the data set of the curves.
    kernel : {"MTK with intercept", "MTK"}, default "MTK with intercept"
        LIBSVM, or our kernel solver without an intercept.
    published : str
        File of the curves, relative to the folder of the experiments.

    Raises
    ------
    ValueError
        If the file does not have both curves.
    """
    curves = _read_curves(published, data_set)
    missing = {DCD, kernel} - curves.keys()
    if missing:
        raise ValueError(
            f"configs/{published} has no curve of {', '.join(sorted(missing))} on "
            f"{data_set!r}: make it with scripts/mtsvm_curves.py"
        )
    dcd = _lower_envelope(curves[DCD])
    other = _lower_envelope(curves[kernel])
    values = {
        **_phases(dcd, other),
        "dcd_first_tenth": _first_tenth(dcd),
        "kernel_first_tenth": _first_tenth(other),
    }
    for name, curve in (("dcd_first_pace", dcd), ("kernel_first_pace", other)):
        end_time = curve.x[np.argmin(curve.y)]
        if end_time < _FIRST_PHASE * curve.x[0]:
            values[name] = np.nan
            values["first_pace"] = np.nan
    return AnalysisResult({name: float(value) for name, value in values.items()})


# ---------------------------------------------------------------- files


def _read_curves(name: str, data_set: str) -> dict[str, StoredCurve]:
    """Return the curves of a data set in a file, by solver."""
    document = load_text(read_text_file(published_path(name)), f"configs/{name}")
    curves = {}
    for entry in document.data["curves"]:
        if entry["dataset"] == data_set:
            curve = StoredCurve(np.array(entry["x"]), np.array(entry["y"]))
            curves[entry["method"]] = curve
    return curves


def _two_curves(name: str, data_set: str) -> tuple[StoredCurve, StoredCurve]:
    """Return the curves of DCD and of the kernel solver in a file."""
    curves = _read_curves(name, data_set)
    if len(curves) != 2:
        raise ValueError(
            f"configs/{name} has {len(curves)} curves of {data_set!r}, need those of "
            "two solvers"
        )
    return curves[DCD], curves[KERNEL]


# ---------------------------------------------------------------- shapes of curves


def _phases(dcd: StoredCurve, kernel: StoredCurve) -> dict[str, float]:
    """Return paces and steepness of the curves of DCD and of a kernel solver."""
    return {
        "dcd_first_pace": _first_pace(dcd),
        "kernel_first_pace": _first_pace(kernel),
        "first_pace": max(_first_pace(dcd), _first_pace(kernel)),
        "first_tenth": max(_first_tenth(dcd), _first_tenth(kernel)),
        "mean_steepness": _mean_pace(kernel) / _mean_pace(dcd),
        "steepness": _largest_pace(kernel) / _largest_pace(dcd),
    }


def _lower_envelope(curve: StoredCurve) -> StoredCurve:
    """Return a curve with the smallest value so far, one point for each moment."""
    lowest = np.minimum.accumulate(curve.y)
    is_last_of_moment = np.append(np.diff(curve.x) > 0, True)
    return StoredCurve(curve.x[is_last_of_moment], lowest[is_last_of_moment])


def _first_time(curve: StoredCurve, level: float) -> float:
    """Return when a curve reaches a level."""
    return float(curve.x[np.argmax(curve.y <= level)])


def _value_at(curve: StoredCurve, time: float) -> float:
    """Return the last value of a curve at a time."""
    return float(curve.y[np.searchsorted(curve.x, time, side="right") - 1])


def _first_pace(curve: StoredCurve) -> float:
    """Return the pace in the first tenfold time, divided by the mean pace.

    A shorter run counts as a whole.
    """
    times, differences = curve
    phase = min(_FIRST_PHASE, times[np.argmin(differences)] / times[0])
    gained_orders = np.log10(differences[0] / _value_at(curve, phase * times[0]))
    return float(gained_orders / np.log10(phase) / _mean_pace(curve))


def _mean_pace(curve: StoredCurve) -> float:
    """Return the orders of magnitude per tenfold time until the smallest difference."""
    times, differences = curve
    end = int(np.argmin(differences))
    gained_orders = np.log10(differences[0] / differences[end])
    return float(gained_orders / np.log10(times[end] / times[0]))


def _first_tenth(curve: StoredCurve) -> float:
    """Return ten times the share of orders that a run gains in its first tenth."""
    times, differences = curve
    end = int(np.argmin(differences))
    value = _value_at(curve, max(times[0], times[end] / 10))
    all_orders = np.log10(differences[0] / differences[end])
    return float(10 * np.log10(differences[0] / value) / all_orders)


def _largest_pace(curve: StoredCurve) -> float:
    """Return the most orders of magnitude per tenfold time between two neighbors."""
    gained_orders = -np.diff(np.log10(curve.y))
    return float(np.max(gained_orders / np.diff(np.log10(curve.x))))
