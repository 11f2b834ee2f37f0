"""What a comparison found, as DataFrames and as files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from mtlrun.comparison.coefficients import coefficient_arrows
from mtlrun.comparison.gallery import (
    PICTURES_FILE,
    PREDICTIONS_FILE,
    ComparisonPictures,
    pictures_of,
)
from mtlrun.comparison.leaderboard import (
    Leaderboard,
    curve_grid,
    curve_text,
    leaderboard_grid,
    leaderboard_json,
    markdown,
    sections,
    task_grid,
)
from mtlrun.comparison.pictures import (
    Interval,
    Picture,
    PictureError,
    ShrinkagePicture,
)
from mtlrun.comparison.predictions import HeldOutPredictions
from mtlrun.comparison.verdict import NMSE
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import data_file, digest, suffix_of
from mtlrun.data.frames import dump_frame
from mtlrun.data.names import class_task, distinct
from mtlrun.data.roles import Roles
from mtlrun.data.table import Table
from mtlrun.data.weights import weights_of
from mtlrun.engine.record import CELLS
from mtlrun.engine.stored import COMPARED, read_sound
from mtlrun.errors import DataError, UserError, with_arguments
from mtlrun.model.files import COEFFICIENTS as MODEL_COEFFICIENTS
from mtlrun.model.fitted import Model
from mtlrun.model.prediction_tables import scores_table, to_csv
from mtlrun.model.train import Trained, save_training
from mtlrun.tables.figures import Figure, Panel
from mtlrun.tables.report_table import (
    Column,
    ReportTable,
    Section,
    csv_grid,
    html_block,
    text_lines,
)
from mtlrun.utils.io import file_json, jsonable, write_atomic, writing
from mtlrun.utils.outputs import publish
from mtlrun.utils.text import sanitize

CHOSEN, DATA, MODEL = "chosen.yaml", "data", "model"
COEFFICIENTS, CURVE = "coefficients.csv", "curve.csv"
#: What lies beside earlier results while a comparison runs, and after one that was interrupted.
UNFINISHED = ("unfinished.md", "unfinished.json")
#: What lies in the folder of a comparison, but for the copy of the table.
WRITTEN = frozenset(
    {
        *(f"leaderboard.{ending}" for ending in ("md", "html", "json", "csv")),
        "tasks.csv",
        COEFFICIENTS,
        CURVE,
        PICTURES_FILE,
        PREDICTIONS_FILE,
    }
    | {COMPARED, CHOSEN, *UNFINISHED, MODEL, CELLS}
)
#: Lines of the leaderboard that a result shows of itself.
TOP = 7
#: Columns whose coefficients have arrows on the page.
MAX_ARROW_COLUMNS = 2
#: Features of the table of coefficients on the page.
MOST_SHOWN = 12


@dataclass(repr=False, kw_only=True)
class Comparison:
    """Result of `mtlrun.compare`. In a notebook it shows verdict and leaderboard.

    Attributes
    ----------
    board : Leaderboard
        Everything that was measured.
    trained : Trained
        The best method, fitted on all rows; within a budget the best one that there was time for.
    coefficients : DataFrame or None
        A row per task, a column per feature and ``intercept``; of the best method, if that is not linear of the best
        multi-task one (`coefficients_of`). A feature of the name ``intercept`` or ``task`` is ``intercept (2)`` here.
    coefficients_of : str
    cells : dict
        Options, metric and split, and the key of the cell of every method on every split.
    curve : DataFrame or None
        The gain against the rows per task (`mtlrun.comparison.leaderboard.curve_of`), where it was asked for.
    saved : str
        Name of the method of the model.
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
        grid = leaderboard_grid(self.board)
        return html_block(
            self.board.title, [self.verdict], [Section("", self.board.left_out, [grid])]
        )

    @property
    def verdict(self) -> str:
        """What to do, and the gains behind it; `board.answer` has the numbers."""
        return self.board.answer.text

    @property
    def leaderboard(self) -> pd.DataFrame:
        """One row per method, the best first: score, gain over one fixed method with its interval and p, seconds."""
        return _frame(leaderboard_grid(self.board))

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per task, a column per method."""
        return _frame(task_grid(self.board)).set_index("task")

    @property
    def model(self) -> Model:
        """The best method, fitted on all rows: a scikit-learn estimator of frames with the columns of the table."""
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
        """Predict new rows and flag those that differ from the training rows.

        See `Model.predict_table`.
        """
        return self.model.predict_table(
            frame, probabilities=probabilities, interval=interval
        )

    @with_arguments
    def predict_proba(self, frame: Any) -> pd.DataFrame:
        """Return the probability of every label: columns ``LABEL``, or ``TARGET=LABEL`` if there are several targets.

        Parameters and errors are those of `predict`.

        Raises
        ------
        UserError
            If the best method has no probabilities; ``calibrate=True`` gives it some.
        """
        model = self.model
        parts, names = model.chances(*model.read(frame)), model.target_names
        classes = [model.classes_] if len(parts) == 1 else model.classes_
        columns = [
            str(label) if len(parts) == 1 else class_task(name, str(label))
            for name, labels in zip(names, classes, strict=True)
            for label in labels
        ]
        index = frame.index if isinstance(frame, pd.DataFrame) else None
        return pd.DataFrame(np.hstack(parts), index, columns)

    @with_arguments
    def decision_function(self, frame: Any) -> pd.DataFrame:
        """Return the scores of labels, which order rows also where there are no probabilities.

        A column ``score`` for a target with two labels, of the label of the greater
        scores (``yes:score``) unless the labels are 0/1 or -1/+1; several targets have a
        column each. They are those of ``mtlrun predict``.

        Raises
        ------
        UserError
            If the targets are numbers.
        DataError, UnknownNameError
            As `predict`.
        """
        if self.model.about["task_type"] == "regression":
            raise UserError("the model predicts numbers, not labels", "Use predict.")
        table = scores_table(self.model, *self.model.read(frame))
        return table.set_axis(frame.index) if isinstance(frame, pd.DataFrame) else table

    def __repr__(self) -> str:
        lines = text_lines(leaderboard_grid(self.board))
        rest = len(lines) - TOP
        return "\n".join(
            [
                self.verdict,
                "",
                *lines[:TOP],
                *([f"... and {rest} more"] if rest > 0 else []),
            ]
        )

    @property
    def config(self) -> dict[str, Any]:
        """The best method as a training file."""
        return self.model.about["config"]

    @property
    def predictions(self) -> pd.DataFrame:
        """Targets of the tested rows and what each strategy predicted for them.

        A row per target with ``row`` (its position among the rows that are used),
        ``task``, ``observed`` and the predictions ``separate``, ``pooled`` and ``multi-task`` of
        the method that each strategy chose in that training part. Labels are -1 and +1,
        and their predictions are scores: log-odds where the method has probabilities.

        Raises
        ------
        PictureError
            For a table in chunks, whose rows are not at hand.
        """
        return self.pictures.require_held_out().frame(self.board.tasks)

    @cached_property
    def pictures(self) -> ComparisonPictures:
        """The numbers of all pictures."""
        pictures = pictures_of(self.board, self.held_out)
        return replace(pictures, curve_gains=self._curve_gains())

    def _curve_gains(self) -> list[Interval]:
        """Return the gains of the curve, named after the rows per task."""
        if self.curve is None:
            return []
        intervals = []
        for row in self.curve.dropna(subset=["gain"]).to_dict("records"):
            name = f"{row['rows per task']:g} rows ({row['part']:.0%})"
            intervals.append(Interval(name, row["gain"], row["low"], row["high"]))
        return intervals

    def plot_curve(self, ax: Any = None) -> Any:
        """Draw the smaller gain after training on parts of the rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: those of a new figure.

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
            Default: those of a new figure.

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

        The smaller gain decides. The gray band is the region of no practical
        difference.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: those of a new figure.

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

        The multi-task methods chosen in each training part are compared with the
        separate models chosen there. Tasks to the left of zero are hurt (negative
        transfer).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: those of a new figure.
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
            Default: those of a new figure.

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
            Default: those of a new figure.
        tasks : sequence of str, optional
            Default: all tasks; of more than 40, those of `plot_tasks`.

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
            For a table in chunks, whose rows are not at hand.
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
            Default: those of a new figure.
        column : str, optional
            Column whose coefficient is drawn, or ``level`` for the level of the tasks.
            Default: predictions.
        tasks : sequence of str, optional
            Default: all tasks; of more than 40, those with the longest arrows.

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
            arrows = self._coefficient_arrows(column)
            if not arrows:
                raise PictureError(
                    f"{self.saved} does not shrink coefficients towards a mean",
                    "HierarchicalMTL does; leave out the column for predictions.",
                )
            return _drawn(arrows[0], ax)
        return _drawn(self.pictures.shrinkage(tasks), ax)

    def plot_calibration(self, ax: Any = None) -> Any:
        """Draw the share of positive labels against the predicted probability.

        Bars below show the number of tested rows in each tenth of the probability.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: those of a new figure.

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
        """Return ``leaderboard.html``: verdict, pictures and tables in one file that loads nothing."""
        from mtlrun.comparison.page import comparison_page

        _, *others = sections(self.board)
        if self.curve is not None:
            text = [curve_text(self.board.evaluation)]
            others.insert(
                1, Section("Gain against rows per task", text, [curve_grid(self.curve)])
            )
        section, figure = self._coefficient_parts()
        others.insert(1, section)
        shown = [part for part in others if not part.empty]
        arrows = self._coefficient_arrows()[:MAX_ARROW_COLUMNS]
        return comparison_page(self.board, self.pictures, shown, figure, arrows)

    def _coefficient_parts(self) -> tuple[Section, Figure | None]:
        """Return the coefficients of every task as a table, and with intervals also as a figure where there are any."""
        title = f"Coefficients of {self.coefficients_of}"
        if self.coefficients is None:
            return Section(title), None
        from mtlrun.model.plots import interval_grid

        panels = self._interval_panels()
        numbers = self.board.evaluation.measure == NMSE
        unit = "for preprocessed features" + ", in the units of the targets" * numbers
        more = f"All of them: {COEFFICIENTS}."
        if panels:
            text = f"Coefficient of each task and its 95% interval, {unit}; the columns in which tasks differ most. {more}"
            grid = interval_grid(self.model, list(map(str, self.coefficients.index)))
            return Section(title, [text], [grid]), Figure("coefficients", title, panels)
        sizes = (
            self.coefficients.drop(columns="intercept")
            .abs()
            .mean()
            .sort_values(ascending=False, kind="stable")
        )
        names = ["intercept", *sizes.index[:MOST_SHOWN]]
        rows = (
            [sanitize(str(task)), *map(float, values)]
            for task, values in self.coefficients[names].iterrows()
        )
        grid = ReportTable.of(
            "task", *(Column(sanitize(name), "number") for name in names), rows=rows
        )
        return Section(
            title,
            [
                f"Coefficient of each task, {unit}; at most {MOST_SHOWN} features. {more}"
            ],
            [grid],
        ), None

    def save(self, folder: str | Path) -> Path:
        """Write everything into a folder.

        ``leaderboard.html``, ``leaderboard.md``, ``.json``, ``.csv``, ``tasks.csv``, ``coefficients.csv`` (task by
        feature), ``pictures.json`` and ``predictions.npz`` (for ``mtlrun plot``),
        ``chosen.yaml`` (for ``mtlrun train chosen.yaml --data-dir data``), ``data`` (the table and its card),
        ``model`` (for ``mtlrun predict model NEW``) and ``compare.json`` (options and keys of the cells).

        Raises
        ------
        UserError
            If the folder cannot be written, or the table lies there under the name of a result.
        """
        folder = Path(folder)
        refuse_tables(folder, self._places())
        gone = [
            *UNFINISHED,
            COEFFICIENTS,
            CURVE,
            PREDICTIONS_FILE,
            f"{MODEL}/{MODEL_COEFFICIENTS}",
        ]
        with (
            writing(folder, "Free some space, or choose another folder."),
            publish(folder, gone) as new,
        ):
            self._write(new, folder)
        return folder

    def replaced(self, folder: Path) -> str | None:
        """Return which other comparison a folder holds.

        None where it holds none, or one that asked the same about the same files.
        """
        content = read_sound(folder / COMPARED)
        data = content.get("dataset")
        now = self._files()
        before = content.get("files")
        if not before and isinstance(data, dict):
            before = data.get("files")
        if not isinstance(before, dict) or not before:
            return None
        names = ", ".join(before)
        if before != now:
            return names + " with other content" * (list(before) == list(now))
        question = content.get("question")
        if question is None or question == self.cells.get("question"):
            return None
        return f"{names} that asked about {question}"

    def write_board(self, folder: Path) -> None:
        """Write the leaderboard in all formats, and tables of tasks and coefficients."""
        write_atomic(folder / "leaderboard.md", markdown(self.board))
        write_atomic(folder / "leaderboard.html", self.page())
        write_atomic(folder / "leaderboard.json", leaderboard_json(self.board))
        write_atomic(folder / "leaderboard.csv", csv_grid(leaderboard_grid(self.board)))
        write_atomic(folder / "tasks.csv", csv_grid(task_grid(self.board)))
        if self.coefficients is not None:
            write_atomic(folder / COEFFICIENTS, to_csv(self.coefficients.reset_index()))
        if self.curve is not None:
            write_atomic(folder / CURVE, csv_grid(curve_grid(self.curve)))
        write_atomic(folder / PICTURES_FILE, self.pictures.json())
        if self.held_out is not None:
            write_atomic(folder / PREDICTIONS_FILE, self.held_out.dump())

    def _write(self, folder: Path, home: Path) -> None:
        """Write all files into a folder; in `home` they will lie."""
        self.write_board(folder)
        write_atomic(folder / COMPARED, file_json(self._planned()))
        save_training(self.trained, folder / MODEL)

    def _planned(self) -> dict[str, Any]:
        """Return the content of ``compare.json``."""
        return self.cells

    def _files(self) -> dict[str, str]:
        """Return what identifies the tables, by their names without folders."""
        return dict(self.cells["files"])

    def _places(self) -> list[Path]:
        """Return where the tables were read."""
        return []

    def _coefficient_arrows(self, column: str | None = None) -> list[ShrinkagePicture]:
        """Return the shrinkage of coefficients of a hierarchical model, if it is one."""
        return []

    def _interval_panels(self) -> list[Panel]:
        """Return the coefficients of the model with intervals, if they are known."""
        return []


@dataclass(repr=False, kw_only=True)
class TableComparison(Comparison):
    """Result of `mtlrun.compare` on a table whose rows are at hand.

    Attributes
    ----------
    dataset : Dataset
        What the table became.
    source : TableSource
        Where the data set came from.
    """

    dataset: Dataset
    source: TableSource

    def _write(self, folder: Path, home: Path) -> None:
        """Write all files into a folder; in `home` they will lie."""
        super()._write(folder, home)
        store_table(folder / DATA, home / DATA, self.source, self.dataset)
        write_atomic(folder / CHOSEN, self._yaml())

    def _planned(self) -> dict[str, Any]:
        """Return the content of ``compare.json``."""
        data = {
            "id": self.dataset.id,
            "fingerprint": self.dataset.fingerprint,
            "files": self._files(),
        }
        return {"schema": 1, "title": self.board.title, "dataset": data, **self.cells}

    def _files(self) -> dict[str, str]:
        """Return the digests of the tables by name, without their folders, which are the user's own."""
        sources = [
            table.source
            for table in (self.source.table, self.source.test_table)
            if table and table.source
        ]
        return dict(
            zip(
                distinct(one.name for one in sources),
                [one.sha256 for one in sources],
                strict=True,
            )
        )

    def _places(self) -> list[Path]:
        """Return where the tables were read."""
        return [
            table.source.path
            for table in (self.source.table, self.source.test_table)
            if table and table.source
        ]

    def _interval_panels(self) -> list[Panel]:
        if self.saved != self.coefficients_of:
            return []
        from mtlrun.model.plots import interval_panels

        return interval_panels(self.model)

    def _coefficient_arrows(self, column: str | None = None) -> list[ShrinkagePicture]:
        return coefficient_arrows(self.model, self.board.tasks, column)

    def _yaml(self) -> str:
        config = {
            key: value
            for key, value in self.config.items()
            if value not in (None, "", {}, [])
        }
        config["dataset"] = config["dataset"]["id"]
        text = yaml.safe_dump(
            jsonable(config),
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=None,
            width=120,
        )
        head = (
            f"# The best method of a comparison on {self.dataset.title}. Tunes it on the "
            "first split and fits it again.\n"
        )
        return (
            f"{head}# Run it here with: mtlrun train {CHOSEN} --data-dir {DATA}\n{text}"
        )


@dataclass(frozen=True)
class TableSource:
    """Where a data set comes from: its table, test rows if they are a table of their own, and the parts of columns."""

    table: Table
    test_table: Table | None
    roles: Roles

    def as_stored(self, dataset: Dataset) -> TableSource:
        """Return the parts of columns that make the same data set of the stored file.

        The format's own task column is named. Columns of a data frame that were left out
        stay out, and so do rows of weight 0: what stands in their cells would decide how
        a column is stored.
        """
        roles = self.roles
        if not roles.targets:
            roles = replace(roles, task=roles.task or self.table.default_task)
        if self.table.source is None:
            taken = {
                *roles.targets,
                roles.task,
                roles.weight,
                roles.group,
                roles.time,
                *roles.also_grouped_by,
                *dataset.features,
            }
            out = [
                name for name in self.table.columns if name not in {*taken, *roles.drop}
            ]
            roles = replace(roles, drop=(*roles.drop, *out))
        table = _stored_rows(self.table, roles)
        test_table = (
            None if self.test_table is None else _stored_rows(self.test_table, roles)
        )
        return TableSource(table, test_table, roles)

    def check(self, made: Dataset, stored: Dataset) -> None:
        """Refuse a data frame whose tasks or targets change when it is stored and read again.

        Raises
        ------
        DataError
        """
        same = (
            made.tasks == stored.tasks
            and made.task_type == stored.task_type
            and made.y.shape == stored.y.shape
        )
        if not same or not np.array_equal(made.y, stored.y, equal_nan=True):
            raise DataError(
                f"{self.table.name}: its tasks or targets change when it is stored and read back",
                "Save the table as csv or parquet, and compare that file.",
            )


def _stored_rows(table: Table, roles: Roles) -> Table:
    """Return a file as it is, and a data frame without its rows of weight 0."""
    if table.source is not None or roles.weight is None:
        return table
    weighted = np.flatnonzero(weights_of(table, roles.weight) > 0)
    if len(weighted) == len(table.frame):
        return table
    return table.taken(weighted)


def refuse_tables(folder: Path, tables: Iterable[Path]) -> None:
    """Refuse tables that the results of their comparison would be written over.

    Raises
    ------
    UserError
    """
    home = Path(os.path.realpath(folder))
    for path in tables:
        place = Path(os.path.realpath(path))
        if home in place.parents and place.relative_to(home).parts[0] in WRITTEN:
            raise UserError(
                f"{path} lies where the results are written",
                "Choose another folder with --output.",
            )


def store_table(
    folder: Path, home: Path, source: TableSource, dataset: Dataset
) -> None:
    """Store a table beside a card that says what its columns are.

    Parameters
    ----------
    folder : Path
        Is written into; a data directory afterwards.
    home : Path
        Where it will lie in the end; a file of the user's that is there is not written over.
    source : TableSource
    dataset : Dataset
        Gives the card its id, title, type and design.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    files = [_store(source.table, folder / dataset.id, home / dataset.id, "rows")]
    options: dict[str, Any] = {"data": files[0]["name"]}
    if source.test_table is not None:
        files.append(
            _store(source.test_table, folder / dataset.id, home / dataset.id, "test")
        )
        options["test"] = files[1]["name"]
    standard = asdict(Roles())
    for key, value in asdict(source.roles).items():
        if value != standard[key]:
            options[key] = list(value) if isinstance(value, tuple) else value
    card = {
        "schema": 1,
        "id": dataset.id,
        "title": dataset.title,
        "task_type": dataset.task_type,
        "design": "shared" if dataset.task_id is None else "ragged",
        "reader": {"name": "table", "options": options},
        "folder": dataset.id,
        "files": files,
        "licence": "that of the user's data",
        "citation": "none",
    }
    text = yaml.safe_dump(jsonable(card), sort_keys=False, allow_unicode=True)
    write_atomic(folder / "cards" / f"{dataset.id}.yaml", text)


def _store(table: Table, folder: Path, home: Path, part: str) -> dict[str, Any]:
    """Write a table into a folder, a file as it was read and a frame with its types; return its entry in the card."""
    source = table.source
    if source is None:
        content = dump_frame(table.frame)
        write_atomic(folder / f"{part}.npz", content)
        return _entry(f"{part}.npz", hashlib.sha256(content).hexdigest(), len(content))
    place = home / f"{part}{suffix_of(source.path)}"
    if place.exists() and source.path.exists() and place.samefile(source.path):
        if digest(data_file(place)[0]) == (source.sha256, source.size):
            return _entry(place.name, source.sha256, source.size)
        place = place.with_stem(
            f"{part}-as-read"
        )  # the user has changed the file: it stays as it is
    write_atomic(folder / place.name, source.read_bytes())
    return _entry(place.name, source.sha256, source.size)


def save_unfinished(folder: Path, board: Leaderboard) -> Path:
    """Write the leaderboard of a comparison that goes on and return its file; earlier results stay as they are.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    for name, text in zip(
        UNFINISHED, (markdown(board), leaderboard_json(board)), strict=True
    ):
        write_atomic(folder / name, text, durable=False)
    return folder / UNFINISHED[0]


def _entry(name: str, sha256: str, size: int) -> dict[str, Any]:
    return {"name": name, "sha256": sha256, "bytes": size}


def _drawn(picture: Picture, ax: Any) -> Any:
    """Draw a picture for the user and return its axes.

    New figures are those of pyplot, which notebooks show.
    """
    import matplotlib.pyplot as plt

    from mtlrun.comparison.drawing import draw

    return draw(picture, ax, plt.figure)


def _frame(grid: ReportTable) -> pd.DataFrame:
    return pd.DataFrame(grid.rows, columns=[column.name for column in grid.columns])
