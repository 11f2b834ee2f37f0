"""All pictures of a comparison: which numbers they show, and of which tasks.

`ComparisonPictures` holds the numbers, also in files, and its methods return one
picture each. Tables with many tasks show a selection; the caption says which tasks and
why. `pictures_of` takes the numbers from a comparison.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.catalog.registry import METHODS, build
from mtlrun.comparison.gain import Gain, SmallestGain
from mtlrun.comparison.leaderboard import Leaderboard
from mtlrun.comparison.predictions import STRATEGY_NAMES, HeldOutPredictions
from mtlrun.comparison.verdict import (
    CARRIED,
    INDEPENDENT,
    MULTITASK,
    POOLED,
    strategies_of,
)
from mtlrun.data.reading.names import separated
from mtlrun.engine.stored import read_json
from mtlrun.errors import DataError, UnknownNameError, UserError, counted, listed
from mtlrun.model.files import refuse_incomplete
from mtlrun.show.pictures import (
    MAX_NAMES_IN_TEXT,
    PICTURES,
    CalibrationPicture,
    GainsPicture,
    HeatMapPicture,
    Interval,
    ListPicture,
    PanelsPicture,
    Picture,
    PictureError,
    Shrinkage,
    ShrinkagePicture,
    TaskPanel,
    VerdictPicture,
    clip_name,
    format_gain,
    names_of,
)
from mtlrun.show.quantities import AUC, NMSE
from mtlrun.utils.io import jsonable, read_fields, stored_fields
from mtlrun.utils.text import sanitize

Array = np.ndarray

#: Files of a comparison: the numbers of its pictures, and predictions of tested rows.
PICTURES_FILE = "pictures.json"
PREDICTIONS_FILE = "predictions.npz"

SEPARATE_NAME = STRATEGY_NAMES[INDEPENDENT]
POOLED_NAME = STRATEGY_NAMES[POOLED]
MULTITASK_NAME = STRATEGY_NAMES[MULTITASK]
#: Trivial method, which predicts the mean of a task.
TASK_MEAN = "TaskMean"
#: Largest number of tasks in pictures with a line per task, and of small panels. With
#: more tasks, pictures show the clearest gains and losses.
MAX_TASK_LINES = 40
MAX_PANELS = 12
#: Of many tasks, those with fewer rows get no small panel: a few points show nothing.
MIN_PANEL_ROWS = 8
#: Points of a small panel; of more rows, evenly spaced ones are shown.
MAX_POINTS = 150
#: Rows that a line through the points of a panel needs.
MIN_ROWS_OF_LINE = 8
#: Bins of predicted probabilities: of equal width over all tasks, and of equal numbers
#: of rows in the panel of one task, each with at least `MIN_ROWS_OF_BIN` rows.
N_PROBABILITY_BINS = 10
N_PANEL_BINS = 5
MIN_ROWS_OF_BIN = 5


@dataclass(frozen=True)
class ComparisonPictures:
    """The numbers that all pictures of a comparison show.

    Attributes
    ----------
    title, measure, metric : str
    smallest : float
        Smallest gain of interest.
    gains : list of Interval
        Gains of multi-task learning over each alternative, and over all.
    baseline : str
        Strategy that the tasks are compared with, empty if there is none.
    task_gains : list of Interval or None
        Gain of each task over that strategy; None if it is undefined.
    tasks : list of str
    sizes : list of int
    methods : list of str
        Methods in the columns of `matrix`, best first.
    reference : str
        Method that the columns are compared with.
    method_gains : list of Interval
        Gain of each method over the reference, largest first.
    matrix : list of list of float
        Gain of each method on each task, a row per task.
    has_labels : bool
        Whether targets are labels.
    has_shared_rows : bool
        Whether tasks share their rows.
    without_probabilities : list of str
        Chosen methods whose scores are not log-odds.
    held_out : HeldOutPredictions or None
    curve_gains : list of Interval
        Smallest gain after training on parts of the rows, smallest part first; empty
        without ``--curve``.
    """

    title: str
    measure: str
    metric: str
    smallest: float
    gains: list[Interval]
    baseline: str
    task_gains: list[Interval | None]
    tasks: list[str]
    sizes: list[int]
    methods: list[str]
    reference: str
    method_gains: list[Interval]
    matrix: list[list[Any]]
    has_labels: bool = False
    has_shared_rows: bool = False
    without_probabilities: list[str] = field(default_factory=list)
    held_out: HeldOutPredictions | None = None
    curve_gains: list[Interval] = field(default_factory=list)

    # -- the verdict and its tasks

    def verdict(self) -> VerdictPicture:
        """Return the gains over all alternatives.

        Raises
        ------
        PictureError
            If nothing could be compared.
        """
        if not self.gains:
            raise PictureError(
                "no multi-task method, or no method to compare it with, was fitted on "
                "the same rows",
                "Compare at least one of each: --methods default.",
            )
        gains = self.gains
        if len(gains) > 2:
            # The last one is the smallest of the others.
            gains = gains[:-1]
        title = "Gain of multi-task learning"
        return VerdictPicture(
            title, self._gain_axis(), self.measure, gains, self.smallest
        )

    def curve(self) -> ListPicture:
        """Return the smallest gain after training on parts of the rows.

        Raises
        ------
        PictureError
            If the comparison was made without parts of the rows.
        """
        if not self.curve_gains:
            raise PictureError(
                "the comparison was not repeated with fewer training rows",
                "Repeat it with --curve (curve=True).",
            )
        return ListPicture(
            "Gain by training rows per task",
            self._gain_axis(),
            self.measure,
            self.curve_gains,
            self.smallest,
            ends="the bounds of the verdict",
        )

    def method_intervals(self) -> ListPicture:
        """Return the gain of each method over the reference.

        Raises
        ------
        PictureError
            If no method could be compared with the reference.
        """
        self._check_methods()
        return ListPicture(
            f"Gain of each method over {self.reference}",
            self._gain_axis(),
            self.measure,
            self.method_gains,
            self.smallest,
        )

    def task_intervals(self, tasks: Sequence[str] = ()) -> ListPicture:
        """Return who gains and who loses.

        Parameters
        ----------
        tasks : sequence of str, optional
            Default: all; of more than 40 tasks, the 20 clearest gains and losses.

        Raises
        ------
        PictureError
            If no multi-task method was compared, or the gain of a task is undefined.
        UnknownNameError
            If there is no such task.
        """
        intervals = self._defined_gains()
        selection = ""
        if tasks:
            intervals = []
            for position in self._positions(tasks):
                interval = self.task_gains[position]
                if interval is None:
                    raise PictureError(
                        f"the gain of task {self.tasks[position]!r} is undefined",
                        "Leave it out of --tasks.",
                    )
                intervals.append(interval)
        elif len(intervals) > MAX_TASK_LINES:
            half = MAX_TASK_LINES // 2
            ordered = sorted(intervals, key=lambda i: i.clearness)
            selection = (
                f"Shown are the {half} clearest losses and the {half} clearest gains "
                f"of {len(intervals)} tasks."
            )
            intervals = ordered[:half] + ordered[-half:]
        intervals = sorted(intervals, key=lambda i: -i.value)
        return ListPicture(
            f"Gain of each task over {self._baseline_text()}",
            self._gain_axis(),
            self.measure,
            intervals,
            self.smallest,
            selection,
        )

    def gains_by_rows(self) -> GainsPicture:
        """Return the gain of each task against its number of rows.

        Raises
        ------
        PictureError
            If no multi-task method was compared, or all tasks have the same number of
            rows.
        """
        intervals = self._defined_gains()
        sizes = dict(zip(self.tasks, self.sizes, strict=True))
        if len(set(self.sizes)) == 1:
            raise PictureError(
                f"all tasks have {counted(self.sizes[0], 'row')}",
                "Use the picture of the tasks: --kind tasks, plot_tasks.",
            )
        return GainsPicture(
            f"Gain over {self._baseline_text()} by number of rows",
            self._gain_axis(),
            self.measure,
            intervals,
            [sizes[interval.name] for interval in intervals],
            self.smallest,
        )

    def heat_map(self, tasks: Sequence[str] = ()) -> HeatMapPicture:
        """Return the gain of each method on each task.

        Parameters
        ----------
        tasks : sequence of str, optional
            Default: all; of more than 40 tasks, the tasks of `task_intervals`.

        Raises
        ------
        PictureError
            If no method could be compared with the reference.
        """
        self._check_methods()
        positions = list(range(len(self.tasks)))
        selection = ""
        if tasks:
            positions = self._positions(tasks)
        elif len(positions) > MAX_TASK_LINES and self._compared_tasks():
            picture = self.task_intervals()
            positions = self._positions(names_of(picture.intervals))
            selection = picture.selection
        elif len(positions) > MAX_TASK_LINES:
            by_size = np.argsort(-np.array(self.sizes), kind="stable")
            positions = by_size[:MAX_TASK_LINES].tolist()
            selection = (
                f"Shown are the {MAX_TASK_LINES} largest of {len(self.tasks)} tasks."
            )
        # The trivial method is far behind and would only need a color.
        columns = [name for name in self.methods if name != TASK_MEAN]
        columns = columns or self.methods
        multitask = []
        for name in columns:
            if name in METHODS and METHODS[name].multitask:
                multitask.append(name)
        indices = [self.methods.index(name) for name in columns]
        values = []
        for t in positions:
            values.append([self.matrix[t][index] for index in indices])
        return HeatMapPicture(
            f"Gain over {self.reference} by task and method",
            self.measure,
            [self.tasks[t] for t in positions],
            columns,
            values,
            selection,
            multitask,
        )

    def losers(self) -> list[Interval]:
        """Return the tasks that are clearly worse, worst first."""
        losers = []
        for interval in self._compared_tasks():
            if interval.high < 0:
                losers.append(interval)
        return _by_value(losers)

    def task_sentences(self) -> list[str]:
        """Return in one or two sentences which tasks lose.

        The list is empty if tasks were not compared.
        """
        intervals = self._compared_tasks()
        if not intervals:
            return []
        change = "have less error than"
        if self.measure == AUC:
            change = "have a higher AUC than"
        n_better = sum(interval.value > 0 for interval in intervals)
        text = (
            f"{n_better} of {counted(len(intervals), 'task')} {change} with "
            f"{self._baseline_text()}"
        )
        losers = self.losers()
        if losers:
            names = _clipped_names(losers, 2 * MAX_NAMES_IN_TEXT)
            return [f"{text}.", f"Tasks that lose (95% interval below 0): {names}."]
        worse = []
        for interval in _by_value(intervals):
            if interval.value < 0:
                worse.append(interval)
        if not worse:
            return [f"{text}; no task loses."]
        names = _clipped_names(worse, MAX_NAMES_IN_TEXT)
        return [
            f"{text}. No task clearly loses. Slightly worse, within their intervals: "
            f"{names}."
        ]

    # -- predictions of tested rows

    def predictions(self, tasks: Sequence[str] = ()) -> PanelsPicture:
        """Return observed against predicted, a panel per task.

        For labels the panels show the share of positive labels against the predicted
        probability.

        Parameters
        ----------
        tasks : sequence of str, optional
            Default: all; of more than 12 tasks, the clearest gains, the clearest losses
            and the largest others.

        Raises
        ------
        PictureError
            If the predictions of the tested rows are not at hand.
        UnknownNameError
            If there is no such task.
        """
        held_out = self.require_held_out()
        present = set(np.unique(held_out.tasks).tolist())
        positions = [t for t in range(len(self.tasks)) if t in present]
        selection = ""
        if tasks:
            positions = self._positions(tasks)
        elif len(positions) > MAX_PANELS:
            positions = self._panel_positions(positions)
            selection = (
                f" Shown are {len(positions)} of {len(present)} tasks: the clearest "
                "gains, the clearest losses and the largest others."
            )
            smallest = min(self.sizes[t] for t in present)
            smallest_shown = min(self.sizes[t] for t in positions)
            if smallest < MIN_PANEL_ROWS <= smallest_shown:
                selection += (
                    f" Tasks with fewer than {MIN_PANEL_ROWS} rows are left out."
                )
        panels = [self._panel(held_out, t) for t in positions]
        points_of = _strategy_of_points(held_out)
        if self.has_labels:
            return PanelsPicture(
                "Observed share against predicted probability",
                "predicted probability",
                "observed share",
                panels,
                "Each point is a fifth of the tested rows of a task: the observed "
                "share of positive labels against the predicted probability. Thin line: "
                f"equal.{selection}{self._probability_note()}",
                points_of,
                has_diagonal=True,
                is_probability=True,
            )
        return PanelsPicture(
            "Observed against predicted",
            "predicted",
            "observed",
            panels,
            f"Tested rows of each task: points are predictions of the {points_of} "
            f"models (evenly spaced ones, if there are more than {MAX_POINTS}). "
            "Lines: observed on predicted values by least squares; the closer to the "
            "thin diagonal, the better the predictions are scaled."
            f"{selection}",
            points_of,
            has_diagonal=True,
        )

    def shrinkage(self, tasks: Sequence[str] = ()) -> ShrinkagePicture:
        """Return arrows from the separate to the multi-task estimate of each task.

        The estimate is the mean prediction of the tested rows of the task (for labels,
        the mean probability). Tasks that share their rows have nearly equal means, so
        there it is the standard deviation of the predictions in units of the observed
        one (for labels, of the probabilities).

        Parameters
        ----------
        tasks : sequence of str, optional
            Default: all; of more than 60 tasks, the highest and the lowest ones.

        Raises
        ------
        PictureError
            If the predictions are not at hand or a strategy is missing.
        UnknownNameError
            If there is no such task.
        """
        held_out = self.require_held_out()
        if {SEPARATE_NAME, MULTITASK_NAME} - set(held_out.predicted):
            raise PictureError(
                "shrinkage needs separate and multi-task models of the same rows",
                "Compare methods of both kinds: --methods default.",
            )
        arrows = []
        for t in np.unique(held_out.tasks).tolist():
            is_task = held_out.tasks == t
            observed = held_out.observed[is_task]
            estimates: dict[str, float] = {}
            for name, scores in held_out.predicted.items():
                predicted = scores
                if self.has_labels:
                    predicted = held_out.probabilities(name)
                estimates[name] = self._estimate(predicted[is_task], observed)
            if not all(map(math.isfinite, estimates.values())):
                continue
            arrows.append(
                Shrinkage(
                    name=self.tasks[t],
                    separate=estimates[SEPARATE_NAME],
                    multitask=estimates[MULTITASK_NAME],
                    pooled=estimates.get(POOLED_NAME),
                )
            )
        if tasks:
            names = self._checked_names(tasks)
            arrows = [arrow for arrow in arrows if arrow.name in names]
        if self.has_shared_rows:
            title = "Spread of the predictions"
            axis = "standard deviation, share of the observed one"
            estimate = "the spread of the predictions of the tested rows"
            if self.has_labels:
                axis = "standard deviation of the probability"
        else:
            title = "Mean prediction of each task"
            axis = "mean probability" if self.has_labels else "mean prediction"
            estimate = f"the {axis} of the tested rows"
        if not arrows:
            raise PictureError(
                "no task has an estimate of each strategy", "Leave out --tasks."
            )
        explanation = (
            f"Arrows lead from {estimate} by separate models (open) to that by "
            "multi-task learning (filled); cross: pooled model."
        )
        return ShrinkagePicture(title, axis, arrows, explanation)

    def calibration(self) -> CalibrationPicture:
        """Return the reliability diagram of labels, over all tasks.

        Raises
        ------
        PictureError
            If the targets are numbers or the predictions are not at hand.
        """
        if not self.has_labels:
            raise PictureError(
                "calibration is of labels, and the targets are numbers",
                "Use the picture of the predictions.",
            )
        held_out = self.require_held_out()
        is_positive = held_out.observed > 0
        edges = np.linspace(0, 1, N_PROBABILITY_BINS + 1)[1:-1]
        curves = {}
        for name in held_out.predicted:
            probability = held_out.probabilities(name)
            bins = np.digitize(probability, edges)
            curves[name] = _binned(probability, is_positive, bins)
        return CalibrationPicture(
            "Calibration of the labels",
            curves,
            "Reliability over all tasks, in tenths of the predicted probability: on "
            "the thin diagonal, the observed share equals the predicted one. Bars "
            f"below: tested rows in each tenth.{self._probability_note()}",
        )

    def of_kind(self, kind: str, tasks: Sequence[str] = ()) -> Picture:
        """Return a picture by its kind.

        Parameters
        ----------
        kind : str
            One of `PICTURES`.
        tasks : sequence of str, optional
            Tasks to show, for the kinds with a line or a panel per task.

        Raises
        ------
        PictureError
            If the comparison lacks the numbers.
        UnknownNameError
            If there is no such kind or task.
        UserError
            For tasks with a kind that shows none or all.
        """
        with_tasks: dict[str, Callable[[Sequence[str]], Picture]] = {
            "predictions": self.predictions,
            "shrinkage": self.shrinkage,
            "tasks": self.task_intervals,
            "heatmap": self.heat_map,
        }
        without_tasks: dict[str, Callable[[], Picture]] = {
            "verdict": self.verdict,
            "methods": self.method_intervals,
            "gains": self.gains_by_rows,
            "calibration": self.calibration,
            "curve": self.curve,
        }
        if kind in with_tasks:
            return with_tasks[kind](tasks)
        if kind not in without_tasks:
            raise UnknownNameError("kind of picture of a comparison", kind, PICTURES)
        if tasks:
            raise UserError(
                f"--tasks does not go with --kind {kind}",
                f"It is for {', '.join(with_tasks)}.",
            )
        return without_tasks[kind]()

    # -- files

    def json(self) -> str:
        """Return the content of ``pictures.json``.

        Predictions are in a file of their own.
        """
        methods = None
        if self.held_out is not None:
            methods = self.held_out.methods
        content = {
            "schema": 1,
            "title": self.title,
            "measure": self.measure,
            "metric": self.metric,
            "smallest_gain": self.smallest,
            "gains": _as_json(self.gains),
            "baseline": self.baseline,
            "task_gains": _as_json(self.task_gains),
            "tasks": self.tasks,
            "rows": self.sizes,
            "methods": self.methods,
            "reference": self.reference,
            "method_gains": _as_json(self.method_gains),
            # JSON lacks NaN: undefined gains become null.
            "matrix": jsonable(self.matrix),
            "has_labels": self.has_labels,
            "has_shared_rows": self.has_shared_rows,
            "without_probabilities": self.without_probabilities,
            "strategies": methods,
            "curve_gains": _as_json(self.curve_gains),
        }
        return json.dumps(content, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, content: Mapping[str, Any], predictions: Path) -> ComparisonPictures:
        """Make the pictures of ``pictures.json`` and the file of the predictions.

        Raises
        ------
        OSError, ValueError, KeyError, TypeError
            If a file is missing or damaged.
        """
        renamed = {"smallest": content["smallest_gain"], "sizes": content["rows"]}
        stored = read_fields(cls, {**content, **renamed})
        # JSON lacks NaN: undefined gains are null.
        matrix = np.array(stored.matrix, dtype=float).tolist()
        lengths = {len(stored.sizes), len(stored.task_gains)}
        if matrix:
            lengths.add(len(matrix))
        n_tasks = len(stored.tasks)
        if lengths != {n_tasks}:
            raise ValueError("its lists of tasks differ in length")
        methods = content["strategies"]
        held_out = None
        if methods is not None:
            held_out = HeldOutPredictions.read(predictions, methods)
            if not held_out.is_of_tasks(n_tasks):
                raise ValueError(f"{predictions.name} has other tasks")
        return replace(stored, matrix=matrix, held_out=held_out)

    # -- parts

    def _gain_axis(self) -> str:
        """Return the title of an axis of gains."""
        if self.measure == AUC:
            return "difference of the AUC"
        error = self.measure
        if self.measure == NMSE:
            error = "squared error"
        return f"share of the {error} removed"

    def _baseline_text(self) -> str:
        if self.baseline == POOLED_NAME:
            return "one model for all"
        return "separate models"

    def _check_methods(self) -> None:
        if not self.methods:
            raise PictureError(
                "no method could be compared with another one on the same rows",
                "Compare more methods: --methods default.",
            )

    def _compared_tasks(self) -> list[Interval]:
        """Return the gains of the tasks where they are defined."""
        return [interval for interval in self.task_gains if interval is not None]

    def _defined_gains(self) -> list[Interval]:
        """Return the gains of the tasks where they are defined, at least one."""
        intervals = self._compared_tasks()
        if not intervals:
            raise PictureError(
                "no multi-task method, or no method to compare it with, was fitted on "
                "the same rows",
                "Compare at least one of each: --methods default.",
            )
        return intervals

    def _checked_names(self, tasks: Sequence[str]) -> list[str]:
        """Return task names, named one by one or separated by commas, as a list.

        Raises
        ------
        UnknownNameError
            If there is no such task.
        """
        names: list[str] = []
        for text in [tasks] if isinstance(tasks, str) else map(str, tasks):
            names += separated(text, self.tasks)
        for name in names:
            if name not in self.tasks:
                raise UnknownNameError("task", name, self.tasks)
        return names

    def _positions(self, tasks: Sequence[str]) -> list[int]:
        return [self.tasks.index(name) for name in self._checked_names(tasks)]

    def require_held_out(self) -> HeldOutPredictions:
        """Return the predictions of the tested rows.

        Raises
        ------
        PictureError
            If they are not at hand.
        """
        if self.held_out is None:
            raise PictureError(
                "there are no predictions of tested rows: the table is in chunks and "
                "compared by sums over its rows, or no strategy has a method in "
                "all training parts",
                "Compare a sample of the rows as one file, or look at what failed.",
            )
        return self.held_out

    def _panel_positions(self, positions: Sequence[int]) -> list[int]:
        """Choose the tasks of the small panels, in the order of their gains.

        Tasks with fewer than `MIN_PANEL_ROWS` rows are left out if there are enough
        others.
        """
        third = MAX_PANELS // 3
        large = [t for t in positions if self.sizes[t] >= MIN_PANEL_ROWS]
        if len(large) >= MAX_PANELS:
            positions = large
        clearness = {}
        for t in positions:
            interval = self.task_gains[t] if self.task_gains else None
            clearness[t] = 0.0 if interval is None else interval.clearness
        by_clearness = sorted(positions, key=lambda t: -clearness[t])
        chosen = by_clearness[:third] + by_clearness[-third:]
        others = [t for t in by_clearness if t not in chosen]
        largest = sorted(others, key=lambda t: -self.sizes[t])[:third]
        return [t for t in by_clearness if t in chosen or t in largest]

    def _panel(self, held_out: HeldOutPredictions, task: int) -> TaskPanel:
        is_task = held_out.tasks == task
        observed = held_out.observed[is_task]
        note = f"{len(observed)} rows"
        interval = self.task_gains[task] if self.task_gains else None
        if interval is not None:
            note += f", gain {format_gain(interval.value, self.measure)}"
        name = self.tasks[task]
        lines = {}
        if self.has_labels:
            for strategy in held_out.predicted:
                probability = held_out.probabilities(strategy)[is_task]
                n_bins = min(N_PANEL_BINS, max(1, len(probability) // MIN_ROWS_OF_BIN))
                ranks = np.argsort(
                    np.argsort(probability, kind="stable"), kind="stable"
                )
                # Fifths of the rows, or fewer bins of few rows.
                bins = np.asarray(ranks * n_bins // len(probability))
                points = _binned(probability, observed > 0, bins)
                lines[strategy] = [(p, share) for p, share, _ in points]
            return TaskPanel(name, note, [], [], lines)
        for strategy, predicted in held_out.predicted.items():
            x = predicted[is_task]
            low = float(x.min())
            high = float(x.max())
            lines[strategy] = []
            has_range = high - low > 1e-9 * max(abs(low), abs(high))
            if len(x) >= MIN_ROWS_OF_LINE and has_range:
                slope, intercept = np.polyfit(x, observed, 1).tolist()
                lines[strategy] = [
                    (low, intercept + slope * low),
                    (high, intercept + slope * high),
                ]
        # Of many rows, evenly spaced ones are shown.
        step = -(-len(observed) // MAX_POINTS) or 1
        points = held_out.predicted[_strategy_of_points(held_out)][is_task]
        return TaskPanel(
            name, note, points[::step].tolist(), observed[::step].tolist(), lines
        )

    def _estimate(self, predicted: Array, observed: Array) -> float:
        """Return the estimate that `shrinkage` shows; NaN if it is undefined."""
        if not self.has_shared_rows:
            return float(predicted.mean())
        unit = 1.0
        if not self.has_labels:
            unit = float(observed.std())
        if not unit > 0:
            return math.nan
        return float(predicted.std()) / unit

    def _probability_note(self) -> str:
        if not self.without_probabilities:
            return ""
        return (
            f" {listed(self.without_probabilities)}: scores without probabilities, "
            "put through the logistic function."
        )


def read_pictures(folder: Path) -> ComparisonPictures:
    """Read the pictures of a comparison that was saved in a folder.

    Raises
    ------
    DataError
        If a file of them is missing or damaged, or a killed process has replaced only
        some of them.
    """
    refuse_incomplete(folder)
    path = folder / PICTURES_FILE
    try:
        content = read_json(path)
        if content is None:
            raise ValueError("there is no such file")
        return ComparisonPictures.read(content, folder / PREDICTIONS_FILE)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: the numbers of the pictures are missing or damaged: {error}",
            "Repeat the comparison in the same folder: finished fits are kept.",
        ) from None


def _strategy_of_points(held_out: HeldOutPredictions) -> str:
    """Return the strategy whose predictions are drawn as points: multi-task, if any."""
    if MULTITASK_NAME in held_out.predicted:
        return MULTITASK_NAME
    return next(iter(held_out.predicted))


def _binned(
    probability: Array, is_positive: Array, bins: Array
) -> list[tuple[float, float, int]]:
    """Return mean probability, share of positives and rows of each bin with rows."""
    points = []
    for number in np.unique(bins).tolist():
        is_in_bin = bins == number
        points.append(
            (
                float(probability[is_in_bin].mean()),
                float(is_positive[is_in_bin].mean()),
                int(is_in_bin.sum()),
            )
        )
    return points


def _clipped_names(intervals: Iterable[Interval], limit: int) -> str:
    """Return the first names of some intervals as text."""
    return listed([clip_name(name) for name in names_of(intervals)], limit)


def _by_value(intervals: Iterable[Interval]) -> list[Interval]:
    return sorted(intervals, key=lambda interval: interval.value)


def _as_json(intervals: Iterable[Interval | None]) -> list[dict[str, Any] | None]:
    items = []
    for interval in intervals:
        items.append(None if interval is None else stored_fields(interval))
    return items


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
    method_gains = []
    gains_of_tasks = []
    reference = board.reference
    if reference is not None:
        for entry in board.ranked():
            if entry is reference or not entry.losses:
                continue
            gain_of_method = board.gain(entry, reference)
            if gain_of_method is not None:
                method_gains.append(_interval(entry.label, gain_of_method))
                gains_of_tasks.append(gain_of_method.tasks)
    matrix = []
    if gains_of_tasks:
        matrix = np.column_stack(gains_of_tasks).tolist()
    has_labels = evaluation.measure != NMSE
    without_probabilities = []
    if has_labels and held_out is not None:
        labels: list[str] = []
        for chosen in held_out.methods.values():
            labels += chosen
        for label in dict.fromkeys(labels):
            # Scores of trees and classes of the user are log-odds, or their own
            # decision function.
            name = label.removesuffix("+Task")
            if name in METHODS and not hasattr(build(name), "predict_proba"):
                without_probabilities.append(label)
    verdict = board.answer
    intervals = []
    for family, gain in verdict.gains.items():
        if math.isfinite(gain.low):
            intervals.append(_interval(ALTERNATIVE_NAMES[family], gain))
    has_all = len(intervals) == len(verdict.gains)
    if verdict.gain is not None and has_all and len(intervals) > 1:
        names = {2: "both: the smaller gain", 3: "all three: the smallest gain"}
        intervals.append(_interval(names[len(intervals)], verdict.gain))
    return ComparisonPictures(
        title=board.title,
        measure=evaluation.measure,
        metric=board.metric,
        smallest=evaluation.smallest,
        gains=intervals,
        baseline=baseline,
        task_gains=task_gains,
        tasks=[sanitize(task) for task in board.tasks],
        sizes=list(board.sizes),
        methods=names_of(method_gains),
        reference=board.against,
        method_gains=sorted(method_gains, key=lambda interval: -interval.value),
        matrix=matrix,
        has_labels=has_labels,
        has_shared_rows=evaluation.has_shared_rows,
        without_probabilities=without_probabilities,
        held_out=held_out,
    )


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
