"""MATLAB files of version 5 to 7: numeric arrays and cells of numeric arrays, through scipy."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np
from scipy.io import loadmat, whosmat
from scipy.io.matlab import MatReadError

from mtlrun.core.errors import DataError

_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_mat(stream: BinaryIO, name: str, variables: Iterable[str]) -> dict[str, np.ndarray | list[np.ndarray]]:
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
        present = {key: (shape, kind) for key, shape, kind in whosmat(io.BytesIO(content))}
        missing = [v for v in wanted if v not in present]
        if missing:
            raise DataError(
                f"{name}: no variable {', '.join(map(repr, missing))}",
                f"Variables: {', '.join(sorted(present)) or 'none'}.",
            )
        loaded = loadmat(io.BytesIO(content), variable_names=wanted, verify_compressed_data_integrity=True)
    except DataError:
        raise
    # scipy has no error class of its own for damage: each of these was seen on cut or altered files.
    except (MatReadError, ValueError, TypeError, OSError, EOFError, KeyError, IndexError, NotImplementedError) as error:
        raise DataError(
            f"{name}: not a readable MATLAB file ({_short(error)})",
            "The file is damaged or in another format; fetch it again or save it from MATLAB with save(..., '-v7').",
        ) from None
    return {key: _plain(loaded[key], name, key) for key in wanted}


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
    if hasattr(value, "toarray"):  # MATLAB's sparse matrices
        value = value.toarray()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [
            _numeric(cell, name, f"cell {k} of {variable}") for k, cell in enumerate(value.ravel(order="F"), start=1)
        ]
    return _numeric(value, name, variable)


def _numeric(value: object, name: str, what: str) -> np.ndarray:
    if hasattr(value, "toarray"):
        value = value.toarray()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "buif":
        kind = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise DataError(
            f"{name}: {what} is no numeric array ({kind})", "Only numeric arrays and cells of them are read."
        )
    return value


def _short(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0][:120] if text else type(error).__name__
