"""``mtlrun predict``: apply a trained model to new rows."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say, write_or_print
from mtlrun.errors import DataError, UnknownNameError, UserError, counted, listed
from mtlrun.utils.outputs import check_ending, refuse_inputs
from mtlrun.utils.text import stem_of

if TYPE_CHECKING:
    from mtlrun.model.fitted import Model


option = partial(options.option, None)


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Folder that `mtlrun train` or `mtlrun compare` wrote, or of its model.",
        ),
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="New rows (.csv, .tsv, .txt, .xlsx, .parquet, .arff, .mat, .npz, .svm, .fa, also .gz), or the name "
            "of a data set.",
        ),
    ],
    task: Annotated[
        str | None,
        option(
            "COLUMN",
            "Column that names the task of each row. Default: the one used in training, otherwise 'task'.",
            "--task",
            "--task-column",
        ),
    ] = None,
    task_name: Annotated[
        str | None, option("NAME", "Task of all rows, if the file has no task column.")
    ] = None,
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
            "Write the ends of intervals that hold a new target with this probability. "
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
            "CSV file to write, - for the terminal. Default: <DATA>-predictions.csv in the current folder.",
            "--out",
            "--output",
            "-o",
        ),
    ] = None,
    safe_csv: Annotated[
        bool,
        option(
            None,
            "Write texts so that spreadsheets take none for a formula: '=A1 for =A1, '- for -.",
            "--safe-csv",
        ),
    ] = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Predict new rows with a saved model and write the predictions as CSV.

    A classifier gives the column label, in the words of its table, and score; a
    regressor the column prediction, and lower and upper where the model has intervals.
    is_known_task says whether the training rows had the task. Rows of tasks that the
    model cannot predict have empty cells; if no row can be predicted, the exit code is 2
    although the file is written. Where all tasks share the
    same rows, there is one column per target, and for classifiers also TARGET:score.
    """
    import numpy as np

    from mtlrun.model.files import files_of, load_model, used
    from mtlrun.model.intervals import LEVEL
    from mtlrun.model.prediction_tables import answers_table, to_csv

    place = output or Path(f"{stem_of(data)}-predictions.csv")
    remedy = "Choose another file with --output (- prints to the terminal)."
    check_ending(place, [".csv", ".txt"], remedy)
    inputs = [Path(data), *files_of(model)]
    refuse_inputs(place, inputs)
    fitted = load_model(model, trust or ())
    with used(model):
        X, codes, names, is_predicted = _rows(
            fitted, data, task, task_name, data_dir, quiet
        )
    if labels and fitted.about["task_type"] == "regression":
        raise UserError("the model predicts numbers, not labels", "Leave out --labels.")
    if interval is not None and fitted.about["task_type"] != "regression":
        raise UserError(
            "the model predicts labels, which have no intervals",
            "Leave out --interval, or use --proba.",
        )
    if interval is not None and not 0 < interval < 1:
        raise UserError(
            f"--interval {interval:g} is no probability",
            "Give a number between 0 and 1, such as 0.95.",
        )
    if interval is None and fitted.has_intervals:
        interval = LEVEL
    with used(model):
        try:
            table = answers_table(
                fitted,
                X,
                codes,
                with_scores=not labels,
                with_probabilities=probabilities,
                interval=interval,
                means=mean,
                names=names,
                is_predicted=is_predicted,
            )
        except ValueError as error:  # of scikit-learn, about the new rows
            columns = "Columns and tasks must match those of the training data, which model.json describes."
            raise UserError(f"{data}: {error}", columns) from error
    if codes is not None and fitted.schema.table:
        table["is_known_task"] = (codes >= 0) & is_predicted
    text = to_csv(table, safe=safe_csv or (str(place) == "-" and sys.stdout.isatty()))
    is_written = write_or_print(text, place, f"Free some space, or: {remedy}", inputs)
    has_predictions = bool(np.any(is_predicted))
    if is_written and has_predictions and not quiet:
        say(f"predictions of {counted(len(table), 'row')}: {place}")
    if not has_predictions:
        _refuse_unknown_tasks(fitted, data, names, place)


def _rows(
    fitted: Model,
    data: str,
    task: str | None,
    task_name: str | None,
    data_dir: Path | None,
    quiet: bool,
) -> tuple[Any, Any, list[str] | None, Any]:
    """Return X, task codes and task names of new rows or of a whole data set.

    Codes are None for a model without tasks of rows, names also for positions. The last
    value says which rows have tasks that the model predicts: an array, or True.

    Raises
    ------
    UnknownNameError
        If the model cannot predict the task `task_name`.
    """
    import numpy as np

    from mtlrun.data.schema import count_gaps, gap_warning, read_rows

    path = Path(data)
    schema = fitted.schema
    if path.suffix or path.exists():
        if fitted.by_task and task:
            schema = replace(schema, task_column=task)
        rows = read_rows(path, schema)
        ignored = [
            name
            for name in rows.ignored
            if name not in set(fitted.about.get("targets", ()))
        ]
        if ignored and not quiet:
            say(
                f"{data}: ignored {listed(ignored)} (not used by the model)", error=True
            )
        for text in rows.said():
            say(f"{data}: {text}", error=True)
        X, names = rows.X, rows.tasks
    else:
        X, names = _dataset(fitted, data, data_dir)
        for text in gap_warning(count_gaps(X, schema)):
            say(f"{data}: {text}", error=True)
    if fitted.by_task and task_name is not None:
        names = [task_name] * X.shape[0]
    substitutes, is_predicted = fitted.predictable(names)
    if task_name is not None:
        # Nothing is written for a name that was mistyped in the command itself.
        substitutes = names
    codes = fitted.codes(substitutes, data if task_name is None else "--task-name")
    if isinstance(names, list) and np.any(is_predicted) and not np.all(is_predicted):
        _warn_of_unknown_tasks(data, names, is_predicted)
    if isinstance(names, list):
        return X, codes, names, is_predicted
    return X, codes, None, is_predicted


def _refuse_unknown_tasks(
    fitted: Model, data: str, names: list[str] | None, output: Path
) -> None:
    """Raise the error of a file without any task that the model can predict.

    The rows are written first, so that a program finds as many as it sent. The exit code
    still tells it that all are empty: most often, the tasks stand in another column or
    are written differently.
    """
    try:
        fitted.codes(names, data)
    except UnknownNameError as error:
        if str(output) != "-":
            error.remedy = f"{error.remedy} {output} has the rows without predictions."
        raise


def _warn_of_unknown_tasks(data: str, names: list[str], is_predicted: Any) -> None:
    """Say which tasks the model cannot predict; their rows are written without numbers."""
    pairs = zip(names, is_predicted, strict=True)
    unknown = [name for name, is_shown in pairs if not is_shown]
    tasks = list(dict.fromkeys(unknown))
    say(
        f"{data}: {counted(len(unknown), 'row')} of "
        f"{counted(len(tasks), 'task')} that the model does not know: "
        f"{listed(tasks)}; no predictions are written for them. A model that was "
        "compared with --new-tasks or --unseen mean predicts new tasks, too.",
        error=True,
    )


def _dataset(fitted: Model, id: str, data_dir: Path | None) -> tuple[Any, Any]:
    """Return X and task names of a data set; with the options of the training, where it is the same set."""
    from mtlrun.data.load import load_dataset

    facts = fitted.about
    options = facts["dataset"]["options"] if id == facts["dataset"]["id"] else {}
    dataset = load_dataset(id, data_dir=data_dir, **options)
    wanted = facts["input"]
    if wanted.get("levels"):
        dataset = dataset.with_levels()
    elif dataset.clock and dataset.clock.last_column in wanted["names"]:
        dataset = dataset.with_elapsed()
    if (
        dataset.n_features != wanted["n_features"]
        or dataset.strings != wanted["strings"]
    ):
        raise DataError(
            f"data set {id} has {counted(dataset.n_features, 'feature')}, but the model needs {wanted['n_features']}",
            f"The model was trained on {facts['dataset']['id']}; new rows for it can also come from a file.",
        )
    names = (
        None if dataset.task_id is None else [dataset.tasks[t] for t in dataset.task_id]
    )
    return dataset.X, names
