"""MATLAB files of version 5 to 7: numeric arrays and cells of numeric arrays, through scipy."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Mapping
from typing import IO

import numpy as np
from scipy import sparse
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile
from mtlrun.data.readers.csv import signs
from mtlrun.data.readers.mattags import list_variables
from mtlrun.errors import DataError, counted

#: scipy has no error class of its own for damage: each of these was seen on cut or altered files.
_DAMAGE = (
    MatReadError,
    ValueError,
    TypeError,
    OSError,
    EOFError,
    LookupError,
    OverflowError,
    NotImplementedError,
    zlib.error,
)
_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_mat(stream: IO[bytes], name: str, variables: Iterable[str]) -> dict[str, np.ndarray | list[np.ndarray]]:
    """Read the named variables, and nothing else, of a .mat file.

    Parameters
    ----------
    stream : binary file
    name : str
        File name for messages.
    variables : iterable of str

    Returns
    -------
    dict
        A numeric variable is its array (2-D at least, as MATLAB keeps it); a cell array is the list of its cells in
        column-major order, each a numeric array.

    Raises
    ------
    DataError
        If the file is no MATLAB file of version 5 to 7 or damaged, a variable is missing, or it is neither numeric nor
        a cell of numeric arrays (structures, functions and Java or MATLAB objects are refused).
    """
    content = stream.read()
    _refuse_hdf5(content, name)
    wanted = list(variables)
    try:
        present = list_variables(content, wanted)
        missing = [v for v in wanted if v not in present]
        if missing:
            raise DataError(
                f"{name}: no variable {', '.join(map(repr, missing))}",
                f"Variables: {', '.join(sorted(filter(None, present))) or 'none'}.",
            )
        for key in wanted:
            if present[key] not in ("numeric", "cell", "sparse"):
                raise DataError(
                    f"{name}: {key} is a MATLAB {present[key]}, no numeric array",
                    "Numeric arrays and cells of them are read.",
                )
        loaded = loadmat(io.BytesIO(content), variable_names=wanted, verify_compressed_data_integrity=True)
    except _DAMAGE as error:
        raise DataError(
            f"{name}: not a readable MATLAB file ({_short(error)})",
            "The file is damaged or in another format; fetch it again or save it from MATLAB with save(..., '-v7').",
        ) from None
    return {key: _plain(loaded[key], name, key) for key in wanted}


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    X: str = "X",
    Y: str = "Y",
    n_features: int | None = None,
    drop_bias: bool = False,
    samples_in_columns: bool = False,
) -> Dataset:
    """Read a ragged set: two cell arrays, one cell of features and one of targets per task.

    Parameters
    ----------
    files : mapping of str to DataFile
        The first one is read.
    card : Card
        Its ``task_type`` (binary or regression) says what the targets are; binary 0/1 and -1/+1 become -1/+1.
    X, Y : str
        Names of the variables.
    n_features : int, optional
        Columns that every cell of X must have (before `drop_bias`).
    drop_bias : bool, default=False
        Leave out the last column, which must be 1 everywhere.
    samples_in_columns : bool, default=False
        Cells of X are (features, samples), as some toolboxes have them.

    Raises
    ------
    DataError
        For what `read_mat` refuses, cells of other shapes, NaN, and a last column that is not constant.
    """
    file = next(iter(files.values()))
    name = file.where()
    with file.open() as stream:
        content = read_mat(stream, name, (X, Y))
    inputs = content[X]
    if samples_in_columns and isinstance(inputs, list):
        inputs = [cell.T for cell in inputs]
    tasks = as_tasks(inputs, name, X, n_columns=n_features)
    targets = content[Y]
    if isinstance(targets, list):
        # A task's targets may lie along either direction.
        targets = [cell.reshape(-1, 1) if 1 in cell.shape else cell for cell in targets]
    columns = as_tasks(targets, name, Y, n_columns=1)
    sizes = check_sizes(tasks, columns, name, X, Y)
    stacked, y = np.vstack(tasks), np.concatenate(columns)[:, 0]
    if drop_bias:
        stacked = without_bias(stacked, name, X)
    return Dataset(
        X=stacked,
        y=signs(y, f"{name}: {Y}") if card.task_type == "binary" else y,
        task_type=card.task_type,
        task_id=np.repeat(np.arange(len(sizes)), sizes),
        tasks=[str(t + 1) for t in range(len(sizes))],
    )


def check_sizes(tasks: list[np.ndarray], targets: list[np.ndarray], name: str, X: str, Y: str) -> list[int]:
    """Return the rows of every task; raises DataError where features and targets differ in number."""
    if len(tasks) != len(targets):
        raise DataError(f"{name}: {counted(len(tasks), 'cell')} in {X}, {len(targets)} in {Y}")
    for t, (a, b) in enumerate(zip(tasks, targets, strict=True), start=1):
        if len(a) != len(b):
            raise DataError(f"{name}: task {t} has {counted(len(a), 'row')} in {X}, {len(b)} in {Y}")
        if len(a) == 0:
            raise DataError(f"{name}: task {t} has no rows")
    return [len(a) for a in tasks]


def without_bias(X: np.ndarray, name: str, variable: str) -> np.ndarray:
    """Return X without its last column; raises DataError if that is not 1 everywhere."""
    wrong = np.flatnonzero(X[:, -1] != 1)
    if wrong.size:
        raise DataError(f"{name}: the last column of {variable} is {X[wrong[0], -1]:g}, not 1, in row {wrong[0] + 1}")
    return np.ascontiguousarray(X[:, :-1])


def as_tasks(
    cells: np.ndarray | list[np.ndarray], name: str, variable: str, *, n_columns: int | None = None
) -> list[np.ndarray]:
    """Return cells as float64 matrices of one number of columns.

    Raises
    ------
    DataError
        If the variable is no cell array, a cell has another shape, or holds NaN or infinity.
    """
    if not isinstance(cells, list):
        raise DataError(
            f"{name}: {variable} is an array of shape {cells.shape}, not a cell array with one cell per task"
        )
    width = n_columns if n_columns is not None else (cells[0].shape[1] if cells and cells[0].ndim == 2 else None)
    tasks = []
    for t, cell in enumerate(cells, start=1):
        if cell.ndim != 2 or cell.shape[1] != width:
            raise DataError(f"{name}: cell {t} of {variable} has shape {cell.shape} where (n, {width}) is expected")
        tasks.append(finite(cell, name, f"cell {t} of {variable}"))
    return tasks


def finite(array: np.ndarray, name: str, what: str) -> np.ndarray:
    """Return `array` as float64 (integer types would overflow in arithmetic).

    Raises
    ------
    DataError
        If it holds NaN or infinity; names the first one's row and column.
    """
    values = np.asarray(array, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        where = ", ".join(f"{axis} {i + 1}" for axis, i in zip(("row", "column", "layer"), bad[0], strict=False))
        raise DataError(
            f"{name}: {what} holds {values[tuple(bad[0])]} at {where}", "Replace or drop missing values first."
        )
    return values


def expect_shape(
    array: np.ndarray | list[np.ndarray], shape: tuple[int | None, ...], name: str, variable: str
) -> np.ndarray:
    """Return `array` if it has the shape (None: any size along that axis).

    Raises
    ------
    DataError
        Naming both shapes.
    """
    wanted = " x ".join("n" if k is None else str(k) for k in shape)
    if isinstance(array, list):
        raise DataError(f"{name}: {variable} is a cell array where a {wanted} array is expected")
    fits = array.ndim == len(shape) and all(k is None or k == s for k, s in zip(shape, array.shape, strict=True))
    if not fits:
        found = " x ".join(map(str, array.shape))
        raise DataError(
            f"{name}: {variable} is {found} where {wanted} is expected", "Is it the file that the card names?"
        )
    return array


def _refuse_hdf5(content: bytes, name: str) -> None:
    if content[:8] == _HDF5 or content[512:520] == _HDF5 or content[:19] == b"MATLAB 7.3 MAT-file":
        raise DataError(
            f"{name}: a MATLAB 7.3 file (HDF5), which is not read here",
            "In MATLAB: load it and save it again with save(..., '-v7').",
        )


def _plain(value: object, name: str, variable: str) -> np.ndarray | list[np.ndarray]:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [
            _numeric(cell, name, f"cell {k} of {variable}") for k, cell in enumerate(value.ravel(order="F"), start=1)
        ]
    return _numeric(value, name, variable)


def _numeric(value: object, name: str, what: str) -> np.ndarray:
    if sparse.issparse(value):
        try:
            value.check_format(full_check=True)  # type: ignore[attr-defined]
        except ValueError as error:
            raise DataError(f"{name}: {what} is a damaged sparse matrix ({error})") from None
        try:
            value = value.toarray()  # type: ignore[attr-defined]
        except MemoryError:
            size = " x ".join(map(str, value.shape))  # type: ignore[attr-defined]
            raise DataError(f"{name}: {what} is sparse and too large as a dense array ({size})") from None
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "buif":
        kind = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise DataError(
            f"{name}: {what} is no array of real numbers ({kind})", "Numeric arrays and cells of them are read."
        )
    return value


def _short(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0][:120] if text else type(error).__name__
