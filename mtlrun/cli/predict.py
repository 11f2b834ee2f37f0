"""``mtlrun predict``: apply a trained model to new rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say, write_or_print
from mtlrun.errors import DataError, UnknownNameError, UserError, counted, listed
from mtlrun.utils import io
from mtlrun.utils.io import sha256_json
from mtlrun.utils.outputs import check_ending, refuse_inputs
from mtlrun.utils.text import folder_name, stem_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from mtlrun.data.roles.schema import NewRows, Schema
    from mtlrun.model.fitted import Model


option = partial(options.option, None)

#: Significant digits of numbers on a terminal.
DIGITS_ON_TERMINAL = 6
#: Scores and probabilities in files have these digits. Predictions of numbers are rounded
#: by their intervals: next to a large offset, few digits would make them equal.
DIGITS_OF_SCORES = 8
#: Behind a sentence about unknown tasks, if the model cannot predict them.
_NO_PREDICTIONS = (
    "No predictions are written for them. A model that was compared with --new-tasks "
    "or --unseen mean predicts new tasks, too."
)


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Folder that `mtlrun train` or `mtlrun compare` wrote, or of its "
            "model.",
        ),
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="New rows (.csv, .tsv, .txt, .xlsx, .parquet, .arff, .mat, .npz, "
            ".svm, .fa, also .gz), or the name of a data set. A folder or a pattern of "
            ".parquet or .csv files may be larger than memory.",
        ),
    ],
    task: Annotated[
        str | None,
        option(
            "COLUMN",
            "Column that names the task of each row. Default: the one used in "
            "training, otherwise 'task'.",
            "--task",
            "--task-column",
        ),
    ] = None,
    task_name: Annotated[
        str | None, option("NAME", "Task of all rows, if the file has no task column.")
    ] = None,
    sheet: options.Sheet = None,
    labels: Annotated[
        bool,
        option(None, "Write only the predicted labels, without scores.", "--labels"),
    ] = False,
    probabilities: Annotated[
        bool,
        option(None, "Also write the probability of the positive class.", "--proba"),
    ] = False,
    interval: Annotated[
        float | None,
        option(
            "P",
            "Write the ends of intervals that contain a new target with this probability. "
            "Default: 0.95 for numbers predicted with a model of `mtlrun compare`.",
        ),
    ] = None,
    mean: Annotated[
        bool,
        option(
            None,
            "Predict means of transformed targets (--transform), not medians.",
            "--mean",
        ),
    ] = False,
    trust: options.Trust = None,
    data_dir: options.DataDir = None,
    output: Annotated[
        Path | None,
        options.option(
            options.OUT,
            "FILE",
            "CSV file to write, - for the terminal, or a folder for the files of a "
            "folder. Default: <DATA>-predictions.csv in the current folder, or the "
            "folder <DATA>-predictions.",
            "--out",
            "--output",
            "-o",
        ),
    ] = None,
    safe_csv: Annotated[
        bool,
        option(
            None,
            "Write texts so that spreadsheets take none for a formula: '=A1 for =A1, "
            "'- for -.",
            "--safe-csv",
        ),
    ] = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Predict new rows with a saved model and write the predictions as CSV.

    The column row numbers the rows as in the file; task, times and identifiers follow.
    A classifier gives the column label, in the words of its table, and score; a
    regressor the column prediction, and lower and upper where the model has intervals.
    Where all tasks share the same rows, there is one column per target, and for
    classifiers also TARGET:score. Flags say what is unlike the training rows:
    is_known_task, similar_task (the same task, written differently?), and the columns
    of unknown_categories, missing cells and numbers beyond_range.

    Rows of tasks that the model cannot predict have empty cells. Exit code: 0, and 2 if
    no row can be predicted (the file is written) or for an error (it is not).
    """
    import numpy as np

    from mtlrun.chunks.table import chunk_files
    from mtlrun.model.files import files_of, load_model, used
    from mtlrun.model.fitted import to_csv
    from mtlrun.model.intervals import LEVEL

    workbook = Path(data)
    data = str(options.with_sheet(workbook, sheet))
    chunks = chunk_files(data)
    output_file = output or Path(f"{stem_of(data)}-predictions.csv")
    if output is None and chunks != [workbook] and chunks:
        stem = folder_name(data) if has_magic(data) else stem_of(data)
        output_file = Path(f"{stem}-predictions")
    remedy = "Choose another file with --output (- prints to the terminal)."
    check_ending(output_file, [".csv", ".txt"], remedy)
    inputs = [workbook, *chunks, *files_of(model)]
    refuse_inputs(output_file, inputs)
    fitted = load_model(model, trust or ())
    is_regression = fitted.is_regression
    if labels and is_regression:
        raise UserError("the model predicts numbers, not labels", "Leave out --labels.")
    if interval is None and fitted.has_intervals:
        interval = LEVEL
    elif interval is not None and not is_regression:
        raise UserError(
            "the model predicts labels, which have no intervals",
            "Leave out --interval, or use --proba.",
        )
    elif interval is not None and not 0 < interval < 1:
        raise UserError(
            f"--interval {interval:g} is not a probability",
            "Give a number between 0 and 1, such as 0.95.",
        )
    is_shown = str(output_file) == "-" and sys.stdout.isatty()
    digits = DIGITS_OF_SCORES
    if is_regression:
        digits = 15
    if is_shown:
        digits = DIGITS_ON_TERMINAL
    settings = _Settings(
        fitted,
        task,
        task_name,
        answers={
            "with_scores": not labels,
            "with_probabilities": probabilities,
            "interval": interval,
            "means": mean,
        },
        csv={
            "safe": safe_csv or is_shown,
            "digits": digits,
        },
    )
    if chunks:
        with used(model), io.writing(output_file, f"Free some space, or: {remedy}"):
            _predict_chunks(settings, chunks, output_file, model, quiet)
        return
    with used(model):
        rows = _rows(settings, data, data_dir, quiet)
        table = settings.table(rows, data)
    is_written = write_or_print(
        to_csv(table, **settings.csv),
        output_file,
        f"Free some space, or: {remedy}",
        inputs,
    )
    has_predictions = bool(np.any(rows.is_predicted))
    if is_written and has_predictions and not quiet:
        say(f"predictions of {counted(len(table), 'row')}: {output_file}")
    if has_predictions:
        return
    # The rows were written first, so that a program finds as many as it sent. The exit
    # code still tells that all are empty: most often, the tasks are in another column
    # or written differently.
    try:
        fitted.codes(rows.new.tasks, data)
    except UnknownNameError as error:
        if str(output_file) != "-":
            name = str(output_file)
            error.remedy = f"{error.remedy} {name} has the rows without predictions."
        raise
    raise DataError(f"{data}: no row names its task", "Fill the column of tasks.")


@dataclass(frozen=True)
class _Settings:
    """A model, and how its predictions are written.

    Attributes
    ----------
    fitted : Model
    task : str or None
        Column of tasks, if it is another than in training.
    task_name : str or None
        Task of all rows.
    answers, csv : dict
        Options of `answers_table` and `to_csv`.
    """

    fitted: Model
    task: str | None
    task_name: str | None
    answers: dict[str, Any]
    csv: dict[str, Any]

    @property
    def schema(self) -> Schema:
        """Columns that new rows need."""
        if self.fitted.by_task and self.task:
            return replace(self.fitted.schema, task_column=self.task)
        return self.fitted.schema

    def with_tasks(self, new: NewRows, data: str) -> _RowsToPredict:
        """Return new rows with the positions of their tasks.

        Raises
        ------
        UnknownNameError
            If the model cannot predict the task `task_name`.
        """
        fitted = self.fitted
        if self.task_name is None:
            substitutes, is_predicted = fitted.predictable(new.tasks)
            return _RowsToPredict(new, fitted.codes(substitutes, data), is_predicted)
        # Nothing is written for a name that was mistyped in the command itself.
        if fitted.by_task:
            new = replace(new, tasks=[self.task_name] * new.X.shape[0])
        codes = fitted.codes(new.tasks, "--task-name")
        return _RowsToPredict(new, codes, fitted.predictable(new.tasks)[1])

    def table(self, rows: _RowsToPredict, data: str) -> pd.DataFrame:
        """Return the predictions of rows, with flags and identifiers."""
        from mtlrun.model.fitted import answers_table, with_flags

        try:
            table = answers_table(
                self.fitted,
                rows.new.X,
                rows.codes,
                names=rows.new.tasks,
                is_predicted=rows.is_predicted,
                **self.answers,
            )
        except ValueError as error:
            # scikit-learn rejects the new rows.
            raise UserError(
                f"{data}: {error}",
                "Columns and tasks must match those of the training data, which "
                "model.json describes.",
            ) from error
        fitted = self.fitted
        _round_by_intervals(table, fitted.target_names)
        if fitted.schema.table:
            table = with_flags(
                table, fitted, rows.new, rows.codes, rows.is_predicted, as_text=True
            )
        return _as_in_file(table, fitted, rows.new)


def _round_by_intervals(table: pd.DataFrame, targets: Iterable[str]) -> None:
    """Round predictions and their limits to a 100,000th of the length of the interval."""
    import numpy as np

    groups = [("prediction", "lower", "upper")]
    groups += [(name, f"{name}:lower", f"{name}:upper") for name in targets]
    for columns in groups:
        if not {*columns} <= {*table.columns}:
            continue
        values = table[list(columns)].to_numpy(float)
        length = values[:, 2] - values[:, 1]
        has_length = np.isfinite(length) & (length > 0)
        scale = 10.0 ** (5 - np.floor(np.log10(np.where(has_length, length, 1.0))))
        rounded = np.round(values * scale[:, None]) / scale[:, None]
        table[list(columns)] = np.where(has_length[:, None], rounded, values)


def _predict_chunks(
    settings: _Settings, files: list[Path], output: Path, model: Path, quiet: bool
) -> None:
    """Predict files that may be larger than memory, and print what is unusual."""
    import numpy as np

    from mtlrun.chunks.predict import PredictedFiles, predict_files
    from mtlrun.model.fitted import to_csv

    fitted = settings.fitted

    def predict(new: NewRows, counts: PredictedFiles) -> pd.DataFrame:
        rows = settings.with_tasks(new, str(files[0]))
        n_predicted = np.count_nonzero(
            np.broadcast_to(rows.is_predicted, new.X.shape[0])
        )
        counts.add(rows.new, fitted.unknown_tasks(rows.new.tasks), int(n_predicted))
        return settings.table(rows, str(files[0]))

    def progress(line: str) -> None:
        if not quiet:
            say(line, error=True)

    options = [settings.task, settings.task_name, settings.answers, settings.csv]
    counts = predict_files(
        files,
        output,
        settings.schema,
        predict,
        lambda table: to_csv(table, **settings.csv),
        sha256_json([fitted.about, options]),
        progress,
    )
    for text in counts.sentences():
        say(text, error=True)
    if counts.n_rows and not counts.n_predicted:
        raise DataError(
            f"{output}: the model can predict no task of these rows",
            "Write the tasks as in the training rows.",
        )
    if str(output) != "-" and not quiet:
        say(f"predictions of {counts.n_rows:,} rows: {output}")


@dataclass(frozen=True)
class _RowsToPredict:
    """Rows to predict.

    Attributes
    ----------
    new : NewRows
    codes : ndarray of shape (n_rows,) or None
        Task of each row, -1 for an unknown task; None for a model whose tasks share
        their rows.
    is_predicted : ndarray of shape (n_rows,) or True
        Whether the model predicts the task of each row.
    """

    new: NewRows
    codes: Any
    is_predicted: Any


def _as_in_file(table: pd.DataFrame, fitted: Model, new: NewRows) -> pd.DataFrame:
    """Return predictions with the numbers, times and identifiers of their rows."""
    from mtlrun.data.reading.names import distinct
    from mtlrun.data.reading.odd_columns import is_identifier

    if new.table is None:
        return table.assign(row=range(1, len(table) + 1))
    frame = new.table.frame
    extra_columns = dict.fromkeys(fitted.description.input.kept)
    targets = set(fitted.description.targets)
    for name in new.ignored:
        if name in frame and name not in targets and is_identifier(frame[name]):
            extra_columns[name] = None
    names = [name for name in extra_columns if name in frame and name not in targets]
    position = 1 + ("task" in table)
    for name, column in zip(names, distinct(names, table), strict=True):
        table.insert(position, column, frame[name].to_numpy())
        position += 1
    return table.assign(row=new.table.row_numbers())


def _rows(
    settings: _Settings, data: str, data_dir: Path | None, quiet: bool
) -> _RowsToPredict:
    """Read new rows from a file, or take the rows of a data set."""
    import numpy as np

    from mtlrun.data.roles.schema import read_rows

    fitted = settings.fitted
    path = Path(data)
    if path.suffix or path.exists():
        new = read_rows(path, settings.schema)
    else:
        new = _read_dataset(fitted, data, data_dir)
    # Files often have the targets, too, which need no message.
    targets = set(fitted.description.targets)
    ignored = [name for name in new.ignored if name not in targets]
    if ignored and not quiet:
        say(f"{data}: not used by the model: {listed(ignored)}", error=True)
    for text in new.sentences(with_ranges=True):
        say(f"{data}: {text}", error=True)
    rows = settings.with_tasks(new, data)
    if fitted.by_task and new.without_task and settings.task_name is None:
        say(f"{new.without_task}: no predictions", error=True)
    if np.any(rows.is_predicted):
        for text in fitted.unknown_tasks(rows.new.tasks).sentences():
            if fitted.unseen != "mean":
                text += f". {_NO_PREDICTIONS}"
            say(f"{data}: {text}", error=True)
    return rows


def _read_dataset(fitted: Model, id: str, data_dir: Path | None) -> NewRows:
    """Return the rows of a data set.

    If the model was trained on the same data set, the options of the training apply.
    """
    from mtlrun.data.roles.schema import NewRows
    from mtlrun.data.sets.load import load_dataset

    trained_on = fitted.description.dataset
    options = {}
    if id == trained_on.id:
        options = trained_on.options
    dataset = load_dataset(id, data_dir=data_dir, **options)
    needed = fitted.description.input
    if needed.clock and id != trained_on.id:
        raise DataError(
            f"data set {id} counts the time since its own first rows, the model since "
            f"those of {trained_on.id}",
            "Predict the file of the data set instead of its name.",
        )
    if needed.levels:
        dataset = dataset.with_levels()
    elif dataset.clock and dataset.clock.last_column in needed.names:
        dataset = dataset.with_elapsed()
    has_other_size = dataset.n_features != needed.n_features
    if has_other_size or dataset.strings != needed.strings:
        raise DataError(
            f"data set {id} has {counted(dataset.n_features, 'feature')}, but the "
            f"model needs {needed.n_features}",
            f"The model was trained on {trained_on.id}; new rows for it can also "
            "come from a file.",
        )
    tasks = None
    if dataset.task_id is not None:
        tasks = [dataset.tasks[t] for t in dataset.task_id]
    return NewRows(fitted.schema, dataset.X, tasks)
