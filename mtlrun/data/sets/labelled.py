"""Card readers of tables with targets and tasks or with classes, and of MATLAB files."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mtlrun.data.dataset import Dataset, signs
from mtlrun.data.reading.files import SHEET, DataFile
from mtlrun.data.reading.formats.mat import read_mat, task_cells
from mtlrun.data.reading.formats.text import text_table
from mtlrun.data.reading.named_columns import matching
from mtlrun.data.reading.read import read_table_file
from mtlrun.data.reading.table import Table
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.sets.files import file_called
from mtlrun.data.splits import TaskStratifiedKFold
from mtlrun.data.tasks import make_tasks
from mtlrun.errors import DataError, listed

if TYPE_CHECKING:
    from mtlrun.data.sets.cards import Card


def read_csv(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    target: str | Sequence[str],
    task: str | None = None,
    drop: str | Sequence[str] = (),
    positive: str | None = None,
    delimiter: str | None = ",",
) -> Dataset:
    """Read the first file, a text table with a header, as targets and tasks.

    With a task column the data set is ragged; with several targets it is shared.

    Parameters
    ----------
    target : str or list of str
        Column of the targets; several columns are the tasks of a shared design, in
        which values may be missing. ``v_*`` stands for all columns that match.
    task : str, optional
        Column that names the task of each row.
    drop : str or list of str
        Columns that are not features, or patterns of them.
    positive : str, optional
        The label that means +1, if binary labels are neither 0/1 nor -1/+1.
    delimiter : str or None, default=","
        None stands for any run of blanks.

    Raises
    ------
    DataError
        As `mtlrun.data.roles.make.make_dataset`.
    """
    table = text_table(next(iter(files.values())), delimiter=delimiter, header=True)
    roles = Roles(
        targets=target,
        task=task,
        task_type=card.task_type,
        positive=positive,
        drop=drop,
        keep=("*",),
        min_rows=1,
    )
    return make_dataset(table, _matched(roles, table))


def _matched(roles: Roles, table: Table) -> Roles:
    """Return roles in which patterns such as ``v_*`` are the columns that match."""
    return replace(
        roles,
        targets=matching(roles.targets, table),
        drop=matching(roles.drop, table),
        categorical=matching(roles.categorical, table),
    )


def read_uci(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    label: int,
    delimiter: str | None = ",",
    header: bool = False,
    skip: int = 0,
    classes: Sequence[str | Sequence[str]] = (),
    features: Sequence[str] = (),
    split: str | None = None,
    tasks: str | Mapping[str, Any] | None = None,
) -> Dataset:
    """Read text tables with a class column as a multi-class data set.

    The tables are stacked in the order of the card.

    Parameters
    ----------
    label : int
        Position of the class column; negative ones count from the end.
    delimiter : str or None, default=","
        None stands for any run of blanks.
    header : bool, default=False
        Whether the first line names the columns.
    skip : int, default=0
        Lines to skip at the start of each file.
    classes : list of str or of (str, str), optional
        The labels that may occur in the order of the class numbers, each alone or with
        the name to use; default: all labels that occur, sorted.
    features : list of str, optional
        Names of the other columns, if there is no header.
    split : str, optional
        Name for the published split: all files but the last for training, the last one
        for test.
    tasks : str or mapping, optional
        See `mtlrun.data.tasks.make_tasks`.

    Raises
    ------
    DataError
        With file, line and column of a cell that is not a number; for files of unequal
        width, and labels outside `classes`.
    """
    # Names of classes by the words that stand for them in the file.
    name_of_word = {}
    for item in classes:
        if isinstance(item, str):
            name_of_word[item] = item
        else:
            name_of_word[str(item[0])] = str(item[-1])
    tables = [
        text_table(f, delimiter=delimiter, header=header, skip=skip, text=[label])
        for f in files.values()
    ]
    columns = tables[0].columns
    rest = [name for name in columns if name != columns[label]]
    for table in tables:
        if table.columns != columns:
            raise DataError(
                f"{table.name}: {len(table.columns)} columns "
                f"where the first file has {len(columns)}"
            )
        cells = table.frame[columns[label]]
        is_wrong = cells == ""
        if name_of_word:
            is_wrong = ~cells.isin(list(name_of_word))
        if is_wrong.any():
            row = int(np.argmax(is_wrong))
            problem = "is empty"
            if cells[row]:
                problem = f"{cells[row]!r} is none of {listed(list(name_of_word), 20)}"
            raise DataError(
                f"{table.where(row)}: the class {problem}",
                "Is it the file on the card?",
            )
    if features and len(features) != len(rest):
        raise DataError(
            f"{card.path}: {len(features)} feature names for {len(rest)} columns"
        )
    X = np.vstack([table.numbers(rest) for table in tables])
    words = pd.concat([table.frame[columns[label]] for table in tables])
    order = list(name_of_word) or sorted(set(words))
    numbers = dict(zip(order, range(len(order)), strict=True))
    feature_names = list(features)
    if header and not features:
        feature_names = rest
    splits = {}
    if split:
        # The last file holds the test rows.
        start = len(X) - len(tables[-1].frame)
        splits[split] = [(np.arange(start), np.arange(start, len(X)))]
    data = Dataset(
        X=X,
        y=words.map(numbers).to_numpy(dtype=np.int64),
        task_type="multiclass",
        tasks=[name_of_word.get(word, word) for word in order],
        features=feature_names,
        splits=splits,
    )
    return make_tasks(data, tasks)


# --- MATLAB files ---


def read_cells(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    X: str = "X",
    Y: str = "Y",
    n_features: int | None = None,
    drop_bias: bool = False,
) -> Dataset:
    """Read ragged data from two cell arrays in the first file.

    One has a cell of features per task, the other a cell of targets.

    Parameters
    ----------
    X, Y : str
        Names of the variables.
    n_features : int, optional
        Columns that every cell of X must have (before `drop_bias`).
    drop_bias : bool, default=False
        Leave out the last column, which must be 1 everywhere.

    Raises
    ------
    DataError
        For what `read_mat` and `task_cells` refuse, empty cells, NaN, and a last column
        that is not constant.
    """
    file = next(iter(files.values()))
    name = file.where()
    with file.open() as stream:
        content = read_mat(stream, name, (X, Y))
    tasks, targets = task_cells(content[X], content[Y], name, X, Y, n_features)
    sizes = [len(task) for task in tasks]
    if 0 in sizes:
        raise DataError(f"{name}: task {sizes.index(0) + 1} has no rows")
    stacked = np.vstack(tasks)
    y = np.concatenate(targets)
    for variable, values in ((X, stacked), (Y, y[:, None])):
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            text = (
                f"{name}: {variable} contains {values[tuple(bad[0])]} at row "
                f"{bad[0][0] + 1}, column {bad[0][1] + 1}"
            )
            raise DataError(text, "Replace or drop missing values first.")
    if drop_bias:
        if (stacked[:, -1] != 1).any():
            raise DataError(f"{name}: the last column of {X} is not 1 everywhere")
        stacked = np.ascontiguousarray(stacked[:, :-1])
    if card.task_type == "binary":
        y = signs(y, f"{name}: {Y}")
    return Dataset(
        X=stacked,
        y=y,
        task_type=card.task_type,
        task_id=np.repeat(np.arange(len(tasks)), sizes),
        tasks=[str(t + 1) for t in range(len(tasks))],
    )


def read_school(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    data: str = "school.mat",
    argyriou: Sequence[str] = (),
    bias: bool = False,
    folds: int = 10,
    seed: int = 0,
) -> Dataset:
    """Read the 139 schools of MALSAR, with our ten folds and published splits.

    The published splits are by Argyriou et al.

    Parameters
    ----------
    data : str
        The file with the cells X (27 features and a column of ones) and Y.
    argyriou : list of str
        Files with the variables ``tr`` and ``tst``, 1-based rows; they become
        ``splits["argyriou"]``.
    bias : bool, default=False
        Keep the column of ones as a 28th feature (papers whose models have no intercept
        do).
    folds : int, default=10
        Folds of ``splits["folds"]``, each with its share of each school
        (`TaskStratifiedKFold`). The paper that uses ten folds does not say how it drew
        them.
    seed : int, default=0
        Seed of the folds.

    Raises
    ------
    DataError
        For wrong files.
    """
    dataset = read_cells(
        {data: file_called(files, data, card)}, card, n_features=28, drop_bias=not bias
    )
    dataset.features = [f"x{j + 1}" for j in range(27)]
    if bias:
        dataset.features.append("bias")
    splitter = TaskStratifiedKFold(folds, random_state=seed)
    dataset.splits["folds"] = list(splitter.split(dataset.X, groups=dataset.task_id))
    published = []
    for name in argyriou:
        file = file_called(files, name, card)
        with file.open() as stream:
            content = read_mat(stream, file.where(), ("tr", "tst"))
        # Stored in the smallest integer type that holds them: subtracting 1 needs a
        # wider one.
        train, test = (
            np.sort(np.asarray(content[key]).ravel().astype(np.int64)) - 1
            for key in ("tr", "tst")
        )
        published.append((train, test))
    if published:
        dataset.splits["argyriou"] = published
    return dataset


def matrix(file: DataFile, variable: str, shape: tuple[int, int]) -> np.ndarray:
    """Return a matrix of a file as float64.

    Raises
    ------
    DataError
        For what `read_mat` refuses, and another shape.
    """
    with file.open() as stream:
        value = read_mat(stream, file.where(), (variable,))[variable]
    if np.shape(value) != shape or isinstance(value, list):
        wanted, got = (
            " x ".join(map(str, sizes)) for sizes in (shape, np.shape(value))
        )
        text = f"{file.where()}: {variable} is {got} where {wanted} is expected"
        raise DataError(text, "Is it the file that the card names?")
    return value.astype(np.float64)


# ---------------------------------------------------------- SARCOS inverse dynamics
# 21 joint positions, velocities and accelerations against 7 torques, on a shared
# design. 4446 of the 4449 test rows of this benchmark are also training rows. The full
# variant keeps them unless `clean` is set, the partial one is free of them.

N_INPUTS = 21
N_TORQUES = 7
SARCOS_FEATURES = [
    f"{kind}{j}"
    for kind in ("position", "velocity", "acceleration")
    for j in range(1, 8)
]
SARCOS_TASKS = [f"torque{j}" for j in range(1, 8)]
TRAIN_ROWS = 44484
TEST_ROWS = 4449
#: `source_bits` of the rebuilt file: 8 marks rows that somebody drew uniformly from the
#: full training file.
UNIFORM_DRAW = 8


def read_sarcos(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    train: str,
    test: str = "sarcos_inv_test.mat",
    full: bool = False,
    blob: str | None = None,
    clean: bool = False,
    unbiased: bool = False,
    leaked: bool = False,
) -> Dataset:
    """Read training and test rows.

    Parameters
    ----------
    files : mapping of str to DataFile
    card : Card
    train, test : str
        Their files. Partial: the table of the training rows that could be rebuilt, of
        which those in the test file are always left out. Full: the original
        ``sarcos_inv.mat``.
    full : bool, default=False
        Which of the two `train` is.
    blob : str, optional
        Git's id of the full training file (what ``git hash-object`` prints); its sha256
        is not known to us.
    clean : bool, default=False
        Full: leave out the training rows that are in the test file.
    unbiased : bool, default=False
        Partial: keep only the training rows that are a uniform sample of the full file
        (1345 of 2253); the others favor large torques.
    leaked : bool, default=False
        Partial: also train on the rebuilt rows that are in the test file (4446 of its
        4449). Errors are then errors on training rows, which show how far the leak can
        lower them and nothing else.

    Returns
    -------
    Dataset
        ``splits["fixed"]`` is training against test rows; `notes` report the leak.

    Raises
    ------
    DataError
        If a file has another shape, the full file is not the one of that id, or a row
        of the partial file is in the test file after all.
    """
    if (full and (unbiased or leaked)) or (clean and not full):
        text = (
            "'clean' requires the full training file, 'unbiased' and 'leaked' the "
            "partial one"
        )
        raise DataError(f"data set {card.id}: {text}")
    tests = matrix(
        file_called(files, test, card),
        "sarcos_inv_test",
        (TEST_ROWS, N_INPUTS + N_TORQUES),
    )
    source = file_called(files, train, card)
    if full:
        digest = None
        if blob is not None:
            digest = git_blob_id(source.read_bytes())
        if digest != blob:
            raise DataError(
                f"{source.where()}: the content is not that of the original "
                f"{source.name}\n"
                f"  expected git blob {blob}\n  found    git blob {digest}",
                "Replace it by the file of http://www.gaussianprocess.org/gpml/data/.",
            )
        rows = matrix(source, "sarcos_inv", (TRAIN_ROWS, N_INPUTS + N_TORQUES))
        note = (
            f"leak: {int(_occurs(tests, rows).sum())} of the {len(tests)} test rows are "
            "also rows of the training file"
        )
        if clean:
            keep = ~_occurs(rows, tests)
            note += f"; the {int((~keep).sum())} training rows concerned were left out"
            rows = rows[keep]
    else:
        table = text_table(source, delimiter=",", header=True)
        inputs = [f"x{j}" for j in range(1, N_INPUTS + 1)]
        rows = table.numbers(inputs + SARCOS_TASKS)
        marked, bits = table.numbers(["in_test_file", "source_bits"]).astype(np.int64).T
        in_test = marked != 0
        keep = ~in_test
        if unbiased:
            keep &= (bits & UNIFORM_DRAW) > 0
        if _occurs(rows[keep], tests).any():
            raise DataError(
                f"{source.where()}: rows marked as not in the test file are in it"
            )
        note = f"partial: {keep.sum()} of the {TRAIN_ROWS} training rows"
        if leaked:
            note += (
                f", and {in_test.sum()} that are in the test file as well: "
                "errors are those of training rows"
            )
            keep |= in_test
        else:
            note += (
                f", none of them in the test file ({in_test.sum()} rebuilt rows that "
                "are in it were left out)"
            )
        rows = rows[keep]
    both = np.vstack((rows, tests))
    order = np.arange(len(both))
    return Dataset(
        X=np.ascontiguousarray(both[:, :N_INPUTS]),
        y=np.ascontiguousarray(both[:, N_INPUTS:]),
        task_type="regression",
        tasks=list(SARCOS_TASKS),
        features=list(SARCOS_FEATURES),
        notes=note,
        splits={"fixed": [(order[: len(rows)], order[len(rows) :])]},
    )


def git_blob_id(content: bytes) -> str:
    """Return Git's id of a file with this content.

    It is the SHA-1 of a header and the content.
    """
    return hashlib.sha1(
        b"blob %d\0" % len(content) + content, usedforsecurity=False
    ).hexdigest()


def _occurs(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Tell which rows occur among the others; all files print six decimals."""
    other_keys = set(_row_keys(others))
    return np.array([key in other_keys for key in _row_keys(rows)], dtype=bool)


def _row_keys(rows: np.ndarray) -> list[bytes]:
    """Return what is equal for rows that agree in six decimals."""
    rounded = np.round(rows * 1e6).astype(np.int64)
    return [row.tobytes() for row in rounded]


def _takes_roles(reader: Callable[..., Dataset]) -> Callable[..., Dataset]:
    """Show the fields of `Roles` as parameters of a reader that takes ``**roles``.

    The options of a card are checked against the signature of its reader.
    """
    signature = inspect.signature(reader)
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            parameters.append(parameter)
    for parameter in inspect.signature(Roles).parameters.values():
        parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
    visible = signature.replace(parameters=parameters)
    reader.__signature__ = visible  # type: ignore[attr-defined]
    return reader


@_takes_roles
def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    data: str,
    test: str | None = None,
    **roles: Any,
) -> Dataset:
    """Read a table of words, numbers and empty cells.

    `mtlrun compare` writes cards for this reader.

    Parameters
    ----------
    data, test : str
        Files of the card: rows, and rows to test on (the published split ``test``).
        Their suffix determines the format; ``book.xlsx#Visits`` is a sheet.
    **roles
        Fields of `Roles`; in `targets`, `drop` and `categorical`, ``v_*`` stands for all
        columns that match.

    Raises
    ------
    DataError
        As `mtlrun.data.reading.read.read_table` and `make_dataset`.
    """
    rows, matched = read_with_roles(files, card, data=data, **roles)
    test_table = None
    if test is not None:
        test_table = _read_file(files, card, test, rows)
    return make_dataset(rows, matched, test_table)


def _read_file(
    files: Mapping[str, DataFile], card: Card, name: str, like: Table | None = None
) -> Table:
    """Read a file of a card; ``book.xlsx#Visits`` is a sheet of a workbook."""
    sheet = ""
    if name not in files:
        book, _, title = name.rpartition(SHEET)
        if book in files:
            name = book
            sheet = title
    file = replace(file_called(files, name, card), sheet=sheet)
    return read_table_file(file, PurePosixPath(name).suffix.lower(), like)


def read_with_roles(
    files: Mapping[str, DataFile], card: Card, *, data: str, **roles: Any
) -> tuple[Table, Roles]:
    """Return the table of `read` and the roles of its columns."""
    rows = _read_file(files, card, data)
    return rows, _matched(Roles(**roles), rows)
