"""Result of a comparison: DataFrames, pictures, the fitted model, and files.

`Comparison` is what `mtlrun.compare` returns. `TableComparison` adds the table itself,
which is stored with the results so that others can reproduce them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from mtlrun.comparison.gallery import (
    PICTURES_FILE,
    PREDICTIONS_FILE,
    ComparisonPictures,
    pictures_of,
)
from mtlrun.comparison.leaderboard import (
    Leaderboard,
    curve_grid,
    leaderboard_grid,
    leaderboard_json,
    markdown,
    sections,
    task_grid,
)
from mtlrun.comparison.predictions import HeldOutPredictions
from mtlrun.data.dataset import Dataset
from mtlrun.data.reading.files import (
    SHEET,
    Snapshot,
    data_file,
    digest,
    suffix_of,
)
from mtlrun.data.reading.frames import dump_frame
from mtlrun.data.reading.names import class_task, distinct
from mtlrun.data.reading.table import Table
from mtlrun.data.roles.check import tidy
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.weights import weights_of
from mtlrun.data.sets.load import fingerprint_of, load_dataset
from mtlrun.engine.record import CELLS
from mtlrun.engine.stored import COMPARED, ComparedPlan, read_sound
from mtlrun.errors import DataError, UserError, with_arguments
from mtlrun.model.files import COEFFICIENTS as MODEL_COEFFICIENTS
from mtlrun.model.fitted import Model, scores_table, to_csv
from mtlrun.model.train import Trained, save_training
from mtlrun.show.pictures import Interval, Picture, PictureError, ShrinkagePicture
from mtlrun.show.quantities import NMSE
from mtlrun.show.report_table import (
    Column,
    ReportTable,
    Section,
    csv_grid,
    fixed_kind,
    html_block,
    text_lines,
)
from mtlrun.utils.io import (
    FieldError,
    file_json,
    jsonable,
    read_fields,
    write_atomic,
    writing,
)
from mtlrun.utils.outputs import publish
from mtlrun.utils.text import sanitize

#: Names of files and folders in the folder of a comparison.
CHOSEN = "chosen.yaml"
DATA = "data"
MODEL = "model"
COEFFICIENTS = "coefficients.csv"
CURVE = "curve.csv"
#: Leaderboard of an unfinished comparison. Earlier results stay until it is finished.
UNFINISHED_MARKDOWN = "unfinished.md"
UNFINISHED_JSON = "unfinished.json"
#: Reader of the cards of stored tables.
READER = "table"
#: All of these names except the copy of the table.
RESULT_FILES = frozenset(
    {
        "leaderboard.md",
        "leaderboard.html",
        "leaderboard.json",
        "leaderboard.csv",
        "tasks.csv",
        COEFFICIENTS,
        CURVE,
        PICTURES_FILE,
        PREDICTIONS_FILE,
        COMPARED,
        CHOSEN,
        UNFINISHED_MARKDOWN,
        UNFINISHED_JSON,
        MODEL,
        CELLS,
    }
)
#: Lines of the leaderboard in the text of a result.
MAX_REPR_LINES = 7


@dataclass(repr=False, kw_only=True)
class Comparison:
    """Result of `mtlrun.compare`. In a notebook it shows verdict and leaderboard.

    Attributes
    ----------
    board : Leaderboard
        Scores, gains and verdict of all methods.
    trained : Trained
        The best method, fitted on all rows; within a budget, the best method that could
        be fitted in time.
    coefficients : DataFrame or None
        A row per task, a column per feature and ``intercept``, of the best method; of
        the best multi-task method with coefficients (`coefficients_of`) if that one has
        none. A feature of the name ``intercept`` or ``task`` is ``intercept (2)`` here.
    coefficients_of : str
        Method of the coefficients.
    cells : dict
        Content of ``compare.json`` apart from the table: options, metric and split, and
        the key of the job of each method on each split.
    curve : DataFrame or None
        Gain against rows per task (`mtlrun.comparison.leaderboard.curve_of`); None
        without ``curve=True``.
    saved : str
        Method of the saved model.
    held_out : HeldOutPredictions or None
        Predictions of the tested rows (`predictions` has them as a data frame); None
        for a table in chunks.
    """

    board: Leaderboard
    trained: Trained
    coefficients: pd.DataFrame | None
    coefficients_of: str
    cells: dict[str, Any]
    curve: pd.DataFrame | None = None
    saved: str = ""
    held_out: HeldOutPredictions | None = None

    def _repr_html_(self) -> str:
        table = leaderboard_grid(self.board)
        section = Section("", self.board.left_out, [table])
        return html_block(self.board.title, [self.verdict], [section])

    @property
    def verdict(self) -> str:
        """Recommendation and the gains behind it; `board.answer` has the numbers."""
        return self.board.answer.text

    @property
    def leaderboard(self) -> pd.DataFrame:
        """One row per method, the best first.

        Columns are the score, the gain over one fixed method with its interval and
        p-value, and the time in seconds.
        """
        return _frame(leaderboard_grid(self.board))

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per task, a column per method."""
        return _frame(task_grid(self.board)).set_index("task")

    @property
    def model(self) -> Model:
        """The best method, fitted on all rows.

        A scikit-learn estimator for data frames with the columns of the table.
        """
        return self.trained.model

    def predict(self, frame: Any) -> np.ndarray | pd.Series | pd.DataFrame:
        """Predict new rows with the best method, in the units or words of the table.

        Parameters
        ----------
        frame : data frame or array
            A frame with the columns of the table; the targets are optional. An array
            only if the table has no column of tasks.

        Returns
        -------
        Series, DataFrame or ndarray
            A prediction per row, or a column per target: what `Model.predict` returns,
            also after the model was saved and loaded. For a frame a Series or DataFrame
            with its index, for an array an array.

        Raises
        ------
        DataError
            If columns are missing, or a cell does not fit.
        UnknownNameError
            For a task that the table did not have.
        """
        return self.model.predict(frame)

    def predict_table(
        self, frame: Any, *, probabilities: bool = False, interval: float | None = None
    ) -> pd.DataFrame:
        """Predict new rows and flag rows that differ from the training rows.

        See `Model.predict_table`.
        """
        return self.model.predict_table(
            frame, probabilities=probabilities, interval=interval
        )

    @with_arguments
    def predict_proba(self, frame: Any) -> pd.DataFrame:
        """Return the probability of each label.

        Parameters and errors are the same as of `predict`.

        Returns
        -------
        DataFrame
            Columns ``LABEL``, or ``TARGET=LABEL`` if there are several targets.

        Raises
        ------
        UserError
            If the best method has no probabilities; ``calibrate=True`` gives it some.
        """
        model = self.model
        parts = model.chances(*model.read(frame))
        if len(parts) == 1:
            columns = [str(label) for label in model.classes_]
        else:
            columns = []
            for name, labels in zip(model.target_names, model.classes_, strict=True):
                columns += [class_task(name, str(label)) for label in labels]
        index = frame.index if isinstance(frame, pd.DataFrame) else None
        return pd.DataFrame(np.hstack(parts), index, columns)

    @with_arguments
    def decision_function(self, frame: Any) -> pd.DataFrame:
        """Return the scores of labels, by which rows can be ranked.

        They exist also where there are no probabilities, and are equal to the scores of
        ``mtlrun predict``. A target with two labels has a column ``score``, or
        ``yes:score`` with the label of the greater scores unless the labels are 0/1 or
        -1/+1. Several targets have a column each.

        Raises
        ------
        UserError
            If the targets are numbers.
        DataError, UnknownNameError
            As `predict`.
        """
        if self.model.is_regression:
            raise UserError("the model predicts numbers, not labels", "Use predict.")
        table = scores_table(self.model, *self.model.read(frame))
        if isinstance(frame, pd.DataFrame):
            return table.set_axis(frame.index)
        return table

    def __repr__(self) -> str:
        lines = text_lines(leaderboard_grid(self.board))
        n_hidden = len(lines) - MAX_REPR_LINES
        text = [self.verdict, "", *lines[:MAX_REPR_LINES]]
        if n_hidden > 0:
            text.append(f"... and {n_hidden} more")
        return "\n".join(text)

    @property
    def config(self) -> dict[str, Any]:
        """The best method as a training file."""
        return self.model.description.config

    @property
    def predictions(self) -> pd.DataFrame:
        """Targets of the tested rows and what each strategy predicted for them.

        A row per target with ``row`` (its position among the rows that are used),
        ``task``, ``observed`` and the predictions ``separate``, ``pooled`` and
        ``multi-task`` of the method that each strategy selected in that training part.
        Labels are -1 and +1, and their predictions are scores: log-odds where the
        method has probabilities.

        Raises
        ------
        PictureError
            For a table in chunks, whose rows are not in memory.
        """
        return self.pictures.require_held_out().frame(self.board.tasks)

    @cached_property
    def pictures(self) -> ComparisonPictures:
        """Numbers of all pictures."""
        pictures = pictures_of(self.board, self.held_out)
        if self.curve is None:
            return pictures
        intervals = []
        curve = self.curve.rename(columns={"rows per task": "n_rows"})
        for row in curve.dropna(subset=["gain"]).itertuples():
            name = f"{row.n_rows:g} rows ({row.part:.0%})"
            intervals.append(Interval(name, row.gain, row.low, row.high))
        return replace(pictures, curve_gains=intervals)

    def plot_curve(self, ax: Any = None) -> Any:
        """Draw the smallest gain after training on parts of the rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.

        Returns
        -------
        Axes

        Raises
        ------
        PictureError
            If the comparison was made without ``curve=True``.
        """
        return _drawn(self.pictures.curve(), ax)

    def plot(self, ax: Any = None) -> Any:
        """Draw how much better each method is than the reference, with 95% intervals.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.

        Returns
        -------
        Axes

        Raises
        ------
        PictureError
            If nothing can be compared.
        """
        return _drawn(self.pictures.method_intervals(), ax)

    def plot_verdict(self, ax: Any = None) -> Any:
        """Draw the gains over separate models and over one model for all tasks.

        For next rows, also over the last value of each task. The ends of each line are
        the bounds that decide, and the smallest gain decides. The gray band is the region of no practical
        difference.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.

        Returns
        -------
        Axes

        Raises
        ------
        PictureError
            If no multi-task method, or nothing to compare it with, was fitted.
        """
        return _drawn(self.pictures.verdict(), ax)

    def plot_tasks(self, ax: Any = None, *, tasks: Sequence[str] = ()) -> Any:
        """Draw who gains and who loses: the gain of each task with its interval.

        The multi-task methods selected in each training part are compared with the
        separate models selected there. Tasks to the left of zero are hurt (negative
        transfer).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.
        tasks : sequence of str, optional
            Default: all tasks; of more than 40, the 20 clearest gains and losses.

        Returns
        -------
        Axes

        Raises
        ------
        PictureError
            If no multi-task method was fitted.
        UnknownNameError
            If there is no such task.
        """
        return _drawn(self.pictures.task_intervals(tasks), ax)

    def plot_gains(self, ax: Any = None) -> Any:
        """Draw the gain of each task against its number of rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.

        Returns
        -------
        Axes

        Raises
        ------
        PictureError
            If no multi-task method was fitted.
        """
        return _drawn(self.pictures.gains_by_rows(), ax)

    def plot_heatmap(self, ax: Any = None, *, tasks: Sequence[str] = ()) -> Any:
        """Draw the gain of each method on each task over the reference, as colors.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.
        tasks : sequence of str, optional
            Default: all tasks; of more than 40, the same as in `plot_tasks`.

        Returns
        -------
        Axes

        Raises
        ------
        PictureError
            If nothing can be compared.
        UnknownNameError
            If there is no such task.
        """
        return _drawn(self.pictures.heat_map(tasks), ax)

    def plot_predictions(self, ax: Any = None, *, tasks: Sequence[str] = ()) -> Any:
        """Draw observed against predicted targets of the tested rows, task by task.

        Points are the predictions of multi-task learning. Lines show the observed
        values by least squares on the predictions of separate, pooled and multi-task
        models. For labels, lines show the share of positive labels against the
        predicted probability.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Its area is filled with the panels. Default: a new figure.
        tasks : sequence of str, optional
            Default: all tasks; of more than 12, the clearest gains, the clearest
            losses and the largest others.

        Returns
        -------
        ndarray of Axes
            One per task.

        Raises
        ------
        PictureError
            For a table in chunks, whose rows are not in memory.
        UnknownNameError
            If there is no such task.
        """
        return _drawn(self.pictures.predictions(tasks), ax)

    def plot_shrinkage(
        self,
        ax: Any = None,
        *,
        column: str | None = None,
        tasks: Sequence[str] = (),
    ) -> Any:
        """Draw arrows from the separate to the multi-task estimate of each task.

        The estimate is the mean prediction of the tested rows of the task; where tasks
        share their rows, the spread of these predictions. Of a hierarchical model it
        can be a coefficient.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.
        column : str, optional
            Column whose coefficient is drawn, or ``intercept``. Default: predictions.
        tasks : sequence of str, optional
            Default: all tasks; of more than 60, the highest and the lowest ones below
            a histogram of all.

        Returns
        -------
        Axes

        Raises
        ------
        PictureError
            Without separate or multi-task models, for a table in chunks, or with a
            column for a model that is not hierarchical.
        UnknownNameError
            If there is no such task or column.
        """
        if column is not None:
            from mtlrun.model.plots import estimate_pictures

            pictures = estimate_pictures(self.model, column)
            if not pictures:
                raise PictureError(
                    f"{self.saved} does not shrink coefficients towards a mean",
                    "HierarchicalMTL does (methods=['HierarchicalMTL']); leave out the column "
                    "for predictions.",
                )
            return _drawn(pictures[0], ax)
        return _drawn(self.pictures.shrinkage(tasks), ax)

    def plot_calibration(self, ax: Any = None) -> Any:
        """Draw the share of positive labels against the predicted probability.

        Bars below show the number of tested rows in each tenth of the probability.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.

        Returns
        -------
        Axes

        Raises
        ------
        PictureError
            If the targets are numbers.
        """
        return _drawn(self.pictures.calibration(), ax)

    def page(self) -> str:
        """Return ``leaderboard.html``: verdict, pictures and tables in one file.

        The page loads no other files.
        """
        # The templates of the page are not needed by other commands.
        from mtlrun.comparison.page import (
            FoldedPart,
            comparison_page,
            page_figure,
        )

        _, leaderboard, *others = sections(self.board)
        pictures = self._coefficient_pictures()
        section = self._coefficient_section(has_intervals=bool(pictures))
        figures = []
        for index, picture in enumerate(pictures):
            figures.append(page_figure(picture, f"coefficients-{index}"))
        folded = [FoldedPart(section, figures)]
        if self.curve is not None:
            text = (
                "Multi-task learning and the best alternative, trained on parts of the "
                "rows of every task and tested on the same rows. Multi-task and best "
                "alternative: mean over the tasks of the "
                f"{self.board.evaluation.measure}; gain, low and high: as in the "
                "verdict."
            )
            table = curve_grid(self.curve)
            curve = Section("Gain against rows per task", [text], [table])
            folded.insert(0, FoldedPart(curve))
        folded += map(FoldedPart, others)
        return comparison_page(self.board, self.pictures, leaderboard, folded)

    def _coefficient_section(self, *, has_intervals: bool) -> Section:
        """Return the coefficients as a table."""
        title = f"Coefficients of {self.coefficients_of}"
        if self.coefficients is None:
            return Section(title)
        unit = "for preprocessed features"
        if self.board.evaluation.measure == NMSE:
            unit += ", in the units of the targets"
        pointer = f"All of them: {COEFFICIENTS}."
        if has_intervals:
            from mtlrun.model.plots import interval_grid

            text = (
                f"Coefficient of each task and its 95% interval, {unit}; the columns "
                f"in which tasks differ most. {pointer}"
            )
            table = interval_grid(self.model, list(map(str, self.coefficients.index)))
            return Section(title, [text], [table])
        whose = "Coefficient of each task"
        if is_common(self.coefficients):
            whose = "Coefficients, which are the same for all tasks"
        text = f"{whose}, {unit}; at most {MAX_SHOWN_FEATURES} features. {pointer}"
        return Section(title, [text], [coefficient_table(self.coefficients)])

    def save(self, folder: str | Path) -> Path:
        """Write all results into a folder.

        ``leaderboard.html``, ``leaderboard.md``, ``.json``, ``.csv``, ``tasks.csv``,
        ``coefficients.csv`` (task by feature), ``pictures.json`` and
        ``predictions.npz`` (for ``mtlrun plot``), ``chosen.yaml`` (for ``mtlrun train
        chosen.yaml --data-dir data``), ``data`` (the table and its card), ``model``
        (for ``mtlrun predict model NEW``) and ``compare.json`` (options and keys of the
        jobs).

        Raises
        ------
        UserError
            If the folder cannot be written, or the table has the name of a result
            there.
        """
        folder = Path(folder)
        refuse_tables(folder, self._table_paths())
        # Files that this result may not have, but an earlier one in the folder.
        outdated = [
            UNFINISHED_MARKDOWN,
            UNFINISHED_JSON,
            COEFFICIENTS,
            CURVE,
            PREDICTIONS_FILE,
            f"{MODEL}/{MODEL_COEFFICIENTS}",
        ]
        with (
            writing(folder, "Free some space, or choose another folder."),
            publish(folder, outdated) as new,
        ):
            self._write(new, folder)
        return folder

    def replaced(self, folder: Path) -> str | None:
        """Return which other comparison a folder holds.

        None if it holds none, or one with the same question and the same files.
        """
        if not (folder / COMPARED).is_file():
            return None
        try:
            plan = read_fields(ComparedPlan, read_sound(folder / COMPARED))
        except FieldError:
            return None
        files = plan.files or plan.dataset.files
        if not isinstance(files, dict) or not files:
            return None
        names = ", ".join(files)
        new_files = self._files()
        if files != new_files:
            has_same_names = list(files) == list(new_files)
            return f"{names} with other content" if has_same_names else names
        question = plan.question
        if question is None or question == self.cells.get("question"):
            return None
        return f"{names} that asked about {question}"

    def write_board(self, folder: Path) -> None:
        """Write the leaderboard in all formats, and the tables beneath it."""
        write_atomic(folder / "leaderboard.md", markdown(self.board))
        write_atomic(folder / "leaderboard.html", self.page())
        write_atomic(folder / "leaderboard.json", leaderboard_json(self.board))
        grids = {
            "leaderboard.csv": leaderboard_grid(self.board),
            "tasks.csv": task_grid(self.board),
        }
        if self.curve is not None:
            grids[CURVE] = curve_grid(self.curve)
        for name, grid in grids.items():
            write_atomic(folder / name, csv_grid(grid, safe=False))
        if self.coefficients is not None:
            coefficients = self.coefficients.rename(index=sanitize, columns=sanitize)
            content = to_csv(coefficients.reset_index(), safe=False)
            write_atomic(folder / COEFFICIENTS, content)
        write_atomic(folder / PICTURES_FILE, self.pictures.json())
        if self.held_out is not None:
            write_atomic(folder / PREDICTIONS_FILE, self.held_out.dump())

    def _write(self, folder: Path, home: Path) -> None:
        """Write all files into a folder, which will be moved to `home`."""
        self.write_board(folder)
        write_atomic(folder / COMPARED, file_json(jsonable(self._plan())))
        save_training(self.trained, folder / MODEL)

    def _plan(self) -> dict[str, Any]:
        """Return the content of ``compare.json``."""
        return self.cells

    def _files(self) -> dict[str, str]:
        """Return what identifies each table: its name without folders -> a digest."""
        return dict(self.cells["files"])

    def _table_paths(self) -> list[Path]:
        """Return the paths of the tables that are files."""
        return []

    def _coefficient_pictures(self) -> list[ShrinkagePicture]:
        """Return the coefficients of the model with intervals, if it has any."""
        return []


@dataclass(repr=False, kw_only=True)
class TableComparison(Comparison):
    """Result of `mtlrun.compare` on a table in memory.

    Attributes
    ----------
    dataset : Dataset
        Features, targets and tasks of the table.
    source : TableSource
        The table itself.
    """

    dataset: Dataset
    source: TableSource

    def _write(self, folder: Path, home: Path) -> None:
        """Write all files into a folder, which will be moved to `home`."""
        super()._write(folder, home)
        store_table(self.source, self.dataset, folder / DATA, home / DATA)
        config = {}
        for key, value in self.config.items():
            if value not in (None, "", {}, []):
                config[key] = value
        config["dataset"] = config["dataset"]["id"]
        content = yaml.safe_dump(
            jsonable(config),
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=None,
            width=120,
        )
        text = (
            f"# The best method of a comparison on {self.dataset.title}. Tunes it on "
            "the first split and fits it again.\n"
            f"# Run it here with: mtlrun train {CHOSEN} --data-dir {DATA}\n"
            f"{content}"
        )
        write_atomic(folder / CHOSEN, text)

    def _plan(self) -> dict[str, Any]:
        """Return the content of ``compare.json``."""
        data = {
            "id": self.dataset.id,
            "fingerprint": self.dataset.fingerprint,
            "files": self._files(),
        }
        return {"schema": 1, "title": self.board.title, "dataset": data, **self.cells}

    def _files(self) -> dict[str, str]:
        """Return the digest of each table by its name without folders.

        Folders are left out because they are a private matter of the user.
        """
        names = distinct(file.name for file in self.source.files)
        digests = [file.sha256 for file in self.source.files]
        return dict(zip(names, digests, strict=True))

    def _table_paths(self) -> list[Path]:
        """Return the paths of the tables that are files."""
        return [file.path for file in self.source.files]

    def _coefficient_pictures(self) -> list[ShrinkagePicture]:
        if self.saved != self.coefficients_of:
            return []
        from mtlrun.model.plots import estimate_pictures

        return estimate_pictures(self.model)

    def plot_task(
        self,
        tasks: Sequence[str] | None = None,
        *,
        column: str | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw the rows of tasks over a column, with the lines of all strategies.

        `mtlrun.plot_task` with the best method and the rows of the comparison.

        Parameters
        ----------
        tasks, column, ax
            As of `mtlrun.plot_task`.

        Returns
        -------
        ndarray of Axes
            One per task.

        Raises
        ------
        UnknownNameError, UserError
            As by `mtlrun.plot_task`.
        """
        from mtlrun.model.task_lines import task_picture

        return _drawn(task_picture(self.model, self.dataset, column, tasks), ax)


@dataclass
class TableSource:
    """Table of a comparison, from which its data set is made.

    Attributes
    ----------
    table : Table
    test_table : Table or None
        Test rows, if they are a table of their own.
    roles : Roles
        Roles of the columns.
    tables : list of Table
        The table, and the one of the test rows if there is one.
    files : list of Snapshot
        The files of the tables; data frames have none.
    has_frames : bool
        Whether a table is a data frame.
    """

    table: Table
    test_table: Table | None
    roles: Roles
    tables: list[Table] = field(init=False)
    files: list[Snapshot] = field(init=False)
    has_frames: bool = field(init=False)

    def __post_init__(self) -> None:
        self.tables = [self.table]
        if self.test_table is not None:
            self.tables.append(self.test_table)
        self.files = [table.source for table in self.tables if table.source]
        self.has_frames = len(self.files) < len(self.tables)

    def as_stored(self, dataset: Dataset) -> TableSource:
        """Return the source whose stored table gives the same data set.

        The task column of the file format is named. Columns of a data frame that are
        not used are dropped, and so are rows of weight 0: their values would influence
        the types with which columns are stored.
        """
        roles = self.roles
        if not roles.targets:
            roles = replace(roles, task=roles.task or self.table.default_task)
        table = self.table
        test_table = self.test_table
        if table.source is None:
            # Far cells of columns that are not used count, too.
            table = _stored_rows(table, roles)
            table, _, _ = tidy(table, len(table.frame), roles)
            roles = replace(roles, drop_rows=False, clip=False)
            used = {
                *roles.targets,
                roles.task,
                roles.weight,
                roles.group,
                roles.time,
                *roles.also_grouped_by,
                *dataset.features,
                *roles.drop,
            }
            unused = [name for name in self.table.columns if name not in used]
            roles = replace(roles, drop=(*roles.drop, *unused))
        if test_table is not None:
            test_table = _stored_rows(test_table, roles)
        return TableSource(table, test_table, roles)


def _stored_rows(table: Table, roles: Roles) -> Table:
    """Return a file unchanged, and a data frame without its rows of weight 0."""
    if table.source is not None or roles.weight is None:
        return table
    weighted = np.flatnonzero(weights_of(table, roles.weight) > 0)
    if len(weighted) == len(table.frame):
        return table
    return table.taken(weighted)


def refuse_tables(folder: Path, tables: Iterable[Path]) -> None:
    """Refuse tables that the results of their comparison would overwrite.

    Raises
    ------
    UserError
    """
    # Links are resolved, so that a table is recognized by any of its paths.
    output = Path(os.path.realpath(folder))
    for path in tables:
        table = Path(os.path.realpath(path))
        if output not in table.parents:
            continue
        if table.relative_to(output).parts[0] in RESULT_FILES:
            raise UserError(
                f"{path} lies where the results are written",
                "Choose another folder with --output.",
            )


@dataclass(frozen=True)
class StoredFile:
    """File of a table in a data directory.

    Attributes
    ----------
    name : str
    sha256 : str
        Digest of the decompressed content.
    n_bytes : int
        Size of the decompressed content.
    """

    name: str
    sha256: str
    n_bytes: int


def store_table(
    source: TableSource,
    dataset: Dataset,
    folder: Path | None = None,
    home: Path | None = None,
) -> Dataset:
    """Store a table with a card that describes its columns.

    Parameters
    ----------
    source : TableSource
    dataset : Dataset
        Gives the card its id, title, type and design.
    folder : Path, optional
        Folder to write, which becomes a data directory. Default: nothing is written.
    home : Path, optional
        Folder to which it will be moved. A file of the user there is not overwritten.
        Default: `folder`.

    Returns
    -------
    Dataset
        With the options and the fingerprint of the stored table. They decide the keys
        of jobs, which are then those of ``mtlrun train chosen.yaml``.

    Raises
    ------
    DataError
        If a data frame is written that changes when it is read back.
    OSError
        If the folder cannot be written.
    """
    data_folder = None
    data_home = None
    if folder is not None:
        data_folder = folder / dataset.id
        data_home = (home or folder) / dataset.id
    rows = _store(source.table, "rows", data_folder, data_home)
    files = [rows]
    options: dict[str, Any] = {"data": _with_sheet(rows.name, source.table)}
    if source.test_table is not None:
        test = _store(source.test_table, "test", data_folder, data_home)
        files.append(test)
        options["test"] = _with_sheet(test.name, source.test_table)
    # The options of the reader "table" are the attributes of `Roles`.
    defaults = asdict(Roles())
    for key, value in asdict(source.roles).items():
        if value != defaults[key]:
            # YAML has lists only.
            if isinstance(value, tuple):
                value = list(value)
            options[key] = value
    if folder is not None:
        entries = []
        for file in files:
            entries.append(
                {"name": file.name, "sha256": file.sha256, "bytes": file.n_bytes}
            )
        card = {
            "schema": 1,
            "id": dataset.id,
            "title": dataset.title,
            "task_type": dataset.task_type,
            "design": "shared" if dataset.task_id is None else "ragged",
            "reader": {"name": READER, "options": options},
            "folder": dataset.id,
            "files": entries,
            "license": "that of the user's data",
            "citation": "none",
        }
        text = yaml.safe_dump(jsonable(card), sort_keys=False, allow_unicode=True)
        write_atomic(folder / "cards" / f"{dataset.id}.yaml", text)
        if source.has_frames:
            stored = load_dataset(dataset.id, data_dir=folder)
            is_same = (
                dataset.tasks == stored.tasks
                and dataset.task_type == stored.task_type
                and np.array_equal(dataset.y, stored.y, equal_nan=True)
            )
            if not is_same:
                raise DataError(
                    f"{dataset.title}: its tasks or targets change when it is stored and "
                    "read back",
                    "Save the table as csv or parquet, and compare that file.",
                )
    digests: dict[str, str | None] = {}
    for file in files:
        digests[file.name] = file.sha256
    fingerprint = fingerprint_of(READER, options, digests)
    return replace(dataset, options=options, fingerprint=fingerprint)


def _with_sheet(name: str, table: Table) -> str:
    """Return the name of a stored file, with the sheet that was read."""
    if table.source is None or not table.source.sheet:
        return name
    return f"{name}{SHEET}{table.source.sheet}"


def _store(
    table: Table, stem: str, folder: Path | None, home: Path | None
) -> StoredFile:
    """Write a table into a folder, if there is one, and describe its file.

    A file is copied, and a data frame is written with its types.
    """
    source = table.source
    if source is None:
        content = dump_frame(table.frame)
        sha256 = hashlib.sha256(content).hexdigest()
        file = StoredFile(f"{stem}.npz", sha256, len(content))
        if folder is not None:
            write_atomic(folder / file.name, content)
        return file
    name = f"{stem}{suffix_of(source.path)}"
    file = StoredFile(name, source.sha256, source.size)
    if folder is None or home is None:
        return file
    path = home / name
    if path.exists() and source.path.exists() and path.samefile(source.path):
        # The table is the stored table of an earlier comparison.
        if digest(data_file(path)[0]) == (source.sha256, source.size):
            return file
        # The user has changed it since it was read. Keep both.
        file = replace(file, name=path.with_stem(f"{stem}-as-read").name)
    write_atomic(folder / file.name, source.read_bytes())
    return file


def save_unfinished(folder: Path, board: Leaderboard) -> Path:
    """Write the leaderboard of an unfinished comparison and return its file.

    Earlier results stay in the folder.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    path = folder / UNFINISHED_MARKDOWN
    write_atomic(path, markdown(board), durable=False)
    write_atomic(folder / UNFINISHED_JSON, leaderboard_json(board), durable=False)
    return path


def _drawn(picture: Picture, ax: Any) -> Any:
    # matplotlib takes long to import.
    from mtlrun.show.drawing import draw_in_notebook

    return draw_in_notebook(picture, ax)


def _frame(table: ReportTable) -> pd.DataFrame:
    """Return a table of a report as a data frame."""
    return pd.DataFrame(table.rows, columns=[column.name for column in table.columns])


# ---------------------------------------------------------------- coefficients

#: Features in the table of coefficients on the page.
MAX_SHOWN_FEATURES = 12


def coefficient_frame(
    tasks: Sequence[str],
    intercepts: np.ndarray,
    coef: np.ndarray,
    features: Sequence[str],
) -> pd.DataFrame:
    """Return a row per task with its intercept and coefficients.

    A feature that is called "task" or "intercept" gets another name.
    """
    return pd.DataFrame(
        np.column_stack([intercepts, coef]),
        index=pd.Index(tasks, name="task"),
        columns=["intercept", *distinct(features, ("task", "intercept"))],
    )


def is_common(coefficients: pd.DataFrame) -> bool:
    """Whether several tasks have the same intercept and coefficients."""
    is_equal = coefficients == coefficients.iloc[0]
    return len(coefficients) > 1 and bool(is_equal.all(axis=None))


def coefficient_table(coefficients: pd.DataFrame) -> ReportTable:
    """Return the intercept and the features with the largest coefficients.

    A model that is the same for all tasks has a single row.
    """
    if is_common(coefficients):
        coefficients = coefficients.iloc[:1].set_axis(["all tasks"])
    features = coefficients.drop(columns="intercept")
    sizes = features.abs().mean().sort_values(ascending=False, kind="stable")
    names = ["intercept", *sizes.index[:MAX_SHOWN_FEATURES]]
    columns = []
    for name in names:
        columns.append(Column(sanitize(name), fixed_kind(coefficients[name])))
    rows = []
    for task, values in coefficients[names].iterrows():
        rows.append([sanitize(str(task)), *map(float, values)])
    return ReportTable.of("task", *columns, rows=rows)
