"""``mtlrun predict``: apply a trained model to new rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say
from mtlrun.errors import DataError, UnknownNameError, UserError, counted

if TYPE_CHECKING:
    from mtlrun.models import Model


def predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="Folder of a model, as written by `mtlrun train` and `mtlrun compare`."),
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="New rows (.csv, .tsv, .txt, .arff, .mat, .npz, .svm, .fa, also .gz), or the name of a data set.",
        ),
    ],
    task_column: Annotated[
        str | None,
        typer.Option(
            "--task-column",
            metavar="NAME",
            help="Column that names the task of each row. Default: the one used in training, otherwise 'task'.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="NAME", help="Task of all rows, if the file has no task column."),
    ] = None,
    labels: Annotated[
        bool,
        typer.Option("--labels", help="Write only the predicted labels, without scores."),
    ] = False,
    probabilities: Annotated[
        bool,
        typer.Option("--proba", help="Also write the probability of the positive class."),
    ] = False,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            metavar="TYPE",
            help="Allow this type from outside mtlrun and scikit-learn in the model; its code is run. Repeatable.",
        ),
    ] = None,
    data_dir: options.DataDir = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "--output",
            "-o",
            metavar="FILE",
            help="CSV file to write, - for the terminal. Default: <DATA>-predictions.csv in the current folder.",
            rich_help_panel=options.OUT,
        ),
    ] = None,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Predict new rows with a saved model and write the predictions as CSV.

    A classifier gives the columns label and score (above 0 means +1), a regressor the column prediction. Where all
    tasks share the same rows, there is one column per task, and for classifiers also TASK:score.
    """
    from mtlrun.models import load_model
    from mtlrun.predictions import predictions_table, to_csv

    fitted = load_model(model, trust or ())
    X, codes = _rows(fitted, data, task_column, task, data_dir, quiet)
    task_type = fitted.facts["task_type"]
    if labels and task_type == "regression":
        raise UserError("the model predicts numbers, not labels", "Leave out --labels.")
    try:
        guessed = None if task_type == "regression" else fitted.labels(X, codes)
        scores = fitted.scores(X, codes)
        chances = fitted.probabilities(X, codes) if probabilities else None
    except ValueError as error:
        remedy = "Columns and tasks must match those of the training data, which model.json describes."
        raise UserError(f"{data}: {error}", remedy) from error
    facts = {"task_type": task_type, "tasks": fitted.facts["tasks"], "task_id": codes}
    table = predictions_table(scores, labels=guessed, probabilities=chances, with_scores=not labels, **facts)
    _write(to_csv(table), output or Path(f"{_stem(data)}-predictions.csv"), len(table), quiet)


def _rows(
    fitted: Model, data: str, task_column: str | None, task: str | None, data_dir: Path | None, quiet: bool
) -> tuple[Any, Any]:
    """Return X and the task codes (None for a shared design) of new rows or of a whole data set."""
    from mtlrun.data.schema import Schema, read_rows

    facts = fitted.facts
    path = Path(data)
    if path.suffix or path.exists():
        columns = facts["input"]
        task_column = task_column or columns.get("task_column") or "task"
        schema = Schema(
            columns["n_features"],
            tuple(columns["names"]),
            columns["strings"],
            task_column if fitted.ragged else None,
            columns.get("table", False),
            columns.get("categories", {}),
        )
        rows = read_rows(path, schema)
        if rows.ignored and not quiet:
            say(f"{data}: ignored {', '.join(rows.ignored)} (not used by the model)", error=True)
        X, names = rows.X, rows.tasks
    else:
        X, names = _dataset(fitted, data, data_dir)
    if not fitted.ragged:
        return X, None
    if task is not None:
        names = [task] * X.shape[0]
    if names is None:
        raise DataError(
            f"{data}: no column says which of the {len(facts['tasks'])} tasks each row belongs to",
            f"Add a column {task_column or 'task'!r}, name another one with --task-column, or use --task NAME for all "
            "rows.",
        )
    try:
        return X, fitted.task_codes(names)
    except UnknownNameError as error:
        raise UserError(f"{data if task is None else '--task'}: {error.message}", error.remedy) from None


def _dataset(fitted: Model, id: str, data_dir: Path | None) -> tuple[Any, Any]:
    """Return X and task names of a data set; with the options of the training, where it is the same set."""
    from mtlrun.data.load import load_dataset

    facts = fitted.facts
    options = facts["dataset"]["options"] if id == facts["dataset"]["id"] else {}
    dataset = load_dataset(id, data_dir=data_dir, **options)
    wanted = facts["input"]
    if dataset.n_features != wanted["n_features"] or dataset.strings != wanted["strings"]:
        raise DataError(
            f"data set {id} has {counted(dataset.n_features, 'feature')}, but the model needs {wanted['n_features']}",
            f"The model was trained on {facts['dataset']['id']}; new rows for it can also come from a file.",
        )
    names = None if dataset.task_id is None else [dataset.tasks[t] for t in dataset.task_id]
    return dataset.X, names


def _stem(data: str) -> str:
    return Path(data).name.partition(".")[0]


def _write(text: str, output: Path, n_rows: int, quiet: bool) -> None:
    if str(output) == "-":
        sys.stdout.write(text)
        return
    from mtlrun.utils.io import write_atomic, writing

    with writing(output, "Free some space, or choose another file with --output (- prints to the terminal)."):
        write_atomic(output, text)
    if not quiet:
        say(f"predictions of {counted(n_rows, 'row')}: {output}")
