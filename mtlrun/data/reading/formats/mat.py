"""MATLAB files of version 5 to 7: numeric arrays and cells of them.

scipy trusts the tags of the elements: an unknown data type in a damaged file ends the
process with a segmentation fault. The structure of a file is therefore checked before
scipy reads it.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.names import TrainingColumns
from mtlrun.data.reading.table import TARGET, TASK, Table, numeric_frame
from mtlrun.errors import DataError, counted, shorten
from mtlrun.utils.sizes import CELLS, CELLS_PER_BYTE, SPARSE_COLUMNS, allow, expansion

#: Besides its own `MatReadError`, scipy raises many errors for damage: each of these was
#: seen on cut or altered files.
_DAMAGE = (
    ValueError,
    TypeError,
    OSError,
    EOFError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    zlib.error,
)
_HDF5 = b"\x89HDF\r\n\x1a\n"
_NUMERIC_ONLY = "Numeric arrays and cells of them are read."

#: Variables of files of users: features and targets.
_USER_NAMES = (("X", "Y"), ("feature", "label"))

#: Bytes per value of the data types that numbers may have.
SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
INT8 = 1
INT32 = 5
UINT32 = 6
MATRIX = 14
COMPRESSED = 15
CELL = 1
SPARSE = 5
CLASSES = {
    1: "cell",
    2: "struct",
    3: "object",
    4: "char",
    5: "sparse",
    16: "function",
    17: "opaque",
}
NUMERIC = range(6, 16)


def read_mat(
    stream: IO[bytes], name: str, variables: Iterable[str]
) -> dict[str, np.ndarray | list[np.ndarray]]:
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
        A numeric variable is its array (2-D at least, as MATLAB keeps it); a cell array
        is the list of its cells in column-major order, each a numeric array.

    Raises
    ------
    DataError
        If the file is damaged or not a MATLAB file of version 5 to 7, a variable is
        missing, or it is neither numeric nor a cell of numeric arrays (structures,
        functions and Java or MATLAB objects are refused).
    """
    content = stream.read()
    if (
        content[:8] == _HDF5
        or content[512:520] == _HDF5
        or content[:19] == b"MATLAB 7.3 MAT-file"
    ):
        raise DataError(
            f"{name}: a MATLAB 7.3 file (HDF5), which is not read here",
            "In MATLAB: load it and save it again with save(..., '-v7').",
        )
    # Imported here because other tables do not need it.
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

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
                    f"{name}: {key} is a MATLAB {present[key]}, not a numeric array",
                    _NUMERIC_ONLY,
                )
        loaded = loadmat(
            io.BytesIO(content),
            variable_names=wanted,
            verify_compressed_data_integrity=True,
        )
    except (MatReadError, *_DAMAGE) as error:
        raise DataError(
            f"{name}: not a readable MATLAB file ({shorten(str(error), 200)})",
            "The file is damaged or in another format; fetch it again or save it from "
            "MATLAB with save(..., '-v7').",
        ) from None
    return {key: _plain(loaded[key], name, key) for key in wanted}


def mat_table(file: DataFile, like: TrainingColumns | None = None) -> Table:
    """Return the matrices, or the cells with a matrix per task, of a MATLAB file.

    Raises
    ------
    DataError
        For what `read_mat` and `task_cells` refuse, and matrices of unequal length.
    """
    raw = file.read_bytes()
    name = file.where()
    try:
        present = set(list_variables(raw, ()))
    except (ValueError, LookupError, zlib.error):
        present = set()  # reading it says what is wrong
    # A complete pair, or features alone.
    pairs = [pair for pair in _USER_NAMES if present.issuperset(pair)]
    pairs += [pair for pair in _USER_NAMES if pair[0] in present]
    x, y = [*pairs, _USER_NAMES[0]][0]
    variables = [x]
    if y in present:
        variables.append(y)
    content = read_mat(io.BytesIO(raw), name, variables)
    X, Y, notes = split_tasks(content[x], content.get(y), x)
    if isinstance(X, list) or isinstance(Y, list):
        # Cells with the rows of a task each.
        has_targets = Y is not None
        if not has_targets:
            Y = [np.zeros(len(cell)) for cell in X]
        tasks, targets = task_cells(X, Y, name, x, y)
        frame = numeric_frame(np.vstack(tasks), name)
        if has_targets:
            frame[TARGET] = np.concatenate(targets)
        sizes = [len(task) for task in tasks]
        frame[TASK] = np.repeat(np.arange(1, len(tasks) + 1), sizes)
        return Table(
            name,
            frame,
            default_targets=[TARGET] * has_targets,
            default_task=TASK,
            named=False,
            numbered_tasks=True,
            notes=notes,
        )
    frame = numeric_frame(X, name)
    if Y is None:
        return Table(name, frame, named=False)
    if X.shape[0] != Y.shape[0]:
        raise DataError(
            f"{name}: X has {counted(X.shape[0], 'row')}, Y has {Y.shape[0]}",
            "One row of Y per row of X.",
        )
    allow(name, Y.shape[1], SPARSE_COLUMNS, "targets", "Use fewer.")
    names = [f"{TARGET} {t}" for t in range(Y.shape[1])]
    targets = numeric_frame(Y, name, names)
    frame = pd.concat([frame, targets], axis=1)
    return Table(name, frame, default_targets=names, named=False)


def task_cells(
    inputs: Any, targets: Any, name: str, X: str, Y: str, n_features: int | None = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the features and the targets of each task, float64, from two cell arrays.

    Raises
    ------
    DataError
        If a variable is not a cell array, or cells do not fit together.
    """
    for variable, cells in ((X, inputs), (Y, targets)):
        if not isinstance(cells, list) or not cells:
            shape = getattr(cells, "shape", (0, 0))
            text = (
                f"{name}: {variable} is an array of shape {shape}, not a cell array "
                "with one cell per task"
            )
            raise DataError(
                text, f"{X} and {Y} must both be cell arrays, or both be one matrix."
            )
    width = n_features or inputs[0].shape[-1]
    misfits = []
    if len(inputs) != len(targets):
        misfits.append(f"{counted(len(inputs), 'cell')} in {X}, {len(targets)} in {Y}")
    for t, (a, b) in enumerate(zip(inputs, targets, strict=False), start=1):
        if a.ndim != 2 or a.shape[1] != width:
            misfits.append(
                f"cell {t} of {X} has shape {a.shape} where (n, {width}) is expected"
            )
        # The targets of a task may lie along either direction.
        if b.size not in (0, max(b.shape)):
            misfits.append(
                f"cell {t} of {Y} has shape {b.shape} where (n, 1) is expected"
            )
        if len(a) != b.size:
            n_rows = counted(len(a), "row")
            misfits.append(f"task {t} has {n_rows} in {X}, {b.size} in {Y}")
    if misfits:
        raise DataError(
            f"{name}: {misfits[0]}",
            "Every task is one cell of both, with the same features.",
        )
    features = [cell.astype(np.float64) for cell in inputs]
    return features, [cell.astype(np.float64).ravel() for cell in targets]


def split_tasks(inputs: Any, targets: Any, variable: str) -> tuple[Any, Any, list[str]]:
    """Return arrays whose first axis is the task as lists with an array per task.

    That is how `scipy.io.savemat` writes lists of arrays of equal shape; a cell array
    needs an array of objects. Other variables stay as they are.

    Parameters
    ----------
    inputs, targets : ndarray or list of ndarray
        As returned by `read_mat`. Features are stacked if the array has shape
        (n_tasks, n_rows, n_features), targets if it has shape (n_tasks, n_rows),
        (n_tasks, n_rows, 1) or (n_tasks, 1, n_rows) beside features of tasks.
    variable : str
        Name of the features.

    Returns
    -------
    inputs, targets : as passed, or lists of ndarray
    notes : list of str
        A sentence about features that were split.
    """
    notes = []
    if getattr(inputs, "ndim", 2) == 3:
        n_tasks, n_rows, n_features = inputs.shape
        notes.append(
            f"{variable} is an array of three dimensions, read as "
            f"{counted(n_tasks, 'task')} of {counted(n_rows, 'row')} and "
            f"{counted(n_features, 'feature')}: its first dimension is the task, as "
            "scipy.io.savemat writes a list of arrays"
        )
        inputs = list(inputs)
    if (
        isinstance(inputs, list)
        and getattr(targets, "ndim", 0) in (2, 3)
        and len(targets) == len(inputs)
    ):
        targets = list(targets)
    return inputs, targets, notes


def _plain(value: object, name: str, variable: str) -> np.ndarray | list[np.ndarray]:
    if isinstance(value, np.ndarray) and value.dtype == object:
        cells = enumerate(value.ravel(order="F"), start=1)
        return [_numeric(cell, name, f"cell {k} of {variable}") for k, cell in cells]
    return _numeric(value, name, variable)


def _numeric(value: Any, name: str, requirement: str) -> np.ndarray:
    if sparse.issparse(value):
        cells = math.prod(value.shape)
        allow(
            name,
            cells,
            max(CELLS, CELLS_PER_BYTE * value.nnz),
            f"cells in {requirement}, a sparse matrix",
            "Use .npz.",
        )
        try:
            value.check_format(full_check=True)
            value = value.toarray()
        except ValueError as error:
            raise DataError(
                f"{name}: {requirement} is a damaged sparse matrix ({error})"
            ) from None
        except MemoryError:
            size = " x ".join(map(str, value.shape))
            raise DataError(
                f"{name}: {requirement} is sparse and too large as a dense array "
                f"({size})"
            ) from None
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "buif":
        if isinstance(value, np.ndarray):
            kind = value.dtype
        else:
            kind = type(value).__name__
        raise DataError(
            f"{name}: {requirement} is not an array of real numbers ({kind})",
            _NUMERIC_ONLY,
        )
    return value


# --- the structure of a file ---


class Element(NamedTuple):
    """One tagged element: its type, its bytes and where the next one starts."""

    type: int
    data: memoryview
    end: int


def list_variables(content: bytes, wanted: Collection[str]) -> dict[str, str]:
    """Return the class of each variable and check the wanted ones.

    Parameters
    ----------
    content : bytes
        The whole file.
    wanted : collection of str
        Variables whose data are checked down to the last element.

    Returns
    -------
    dict of str to str
        ``numeric``, ``cell``, ``sparse``, ``char``, ``struct`` ...; ``cell of char``
        and the like for a wanted cell array in which not all cells are numeric or
        sparse.

    Raises
    ------
    ValueError
        If an element does not fit into the file or has a type that its place does not
        allow.
    zlib.error
        If a compressed element is damaged.
    """
    # A zero among the first four bytes makes scipy read the file as one of version 4.
    if (
        len(content) < 128
        or 0 in content[:4]
        or content[124:128] not in (b"\x00\x01IM", b"\x01\x00MI")
    ):
        raise ValueError("not the header of a MATLAB file of version 5 to 7")
    order = ">"
    if content[126:128] == b"IM":
        order = "<"
    variables: dict[str, str] = {}
    start = 128
    view = memoryview(content)
    while start < len(view):
        element = _element(view, start, order, padded=False)
        start = element.end
        if element.type == COMPRESSED:
            limit = expansion(len(content))
            tool = zlib.decompressobj()
            expanded = tool.decompress(element.data, limit)
            _expect(
                tool.eof or len(expanded) < limit,
                f"a variable that expands to more than {limit} bytes",
            )
            _expect(tool.eof, "compressed data that end too early")
            element = _element(memoryview(expanded), 0, order)
        _expect(element.type == MATRIX, "an element that is not an array")
        name, kind = _check_array(element.data, order, wanted)
        variables[name] = kind
    return variables


def _element(data: memoryview, start: int, order: str, padded: bool = True) -> Element:
    _expect(start + 8 <= len(data), "an incomplete tag")
    (first,) = struct.unpack_from(order + "I", data, start)
    if first >> 16:  # up to four bytes of data inside the tag
        kind = first & 0xFFFF
        size = first >> 16
        begin = start + 4
        _expect(size <= 4, "a small element of more than four bytes")
        end = start + 8
    else:
        kind = first
        begin = start + 8
        (size,) = struct.unpack_from(order + "I", data, start + 4)
        end = begin + size
        if padded:
            end = min(end + -size % 8, len(data))
    _expect(begin + size <= len(data), "an element that ends behind the file")
    return Element(kind, data[begin : begin + size], end)


def _check_array(
    data: memoryview, order: str, wanted: Collection[str] | None
) -> tuple[str, str]:
    """Check an array, and return its name and class.

    `name` is the wanted name; it is None for a cell.
    """
    flags = _element(data, 0, order)
    _expect(flags.type == UINT32 and len(flags.data) == 8, "wrong array flags")
    (word,) = struct.unpack_from(order + "I", flags.data)
    shape = _element(data, flags.end, order)
    _expect(
        shape.type == INT32 and len(shape.data) >= 8 and len(shape.data) % 4 == 0,
        "wrong dimensions",
    )
    sizes = struct.unpack(f"{order}{len(shape.data) // 4}i", shape.data)
    _expect(len(sizes) <= 32 and min(sizes) >= 0, "wrong dimensions")
    label = _element(data, shape.end, order)
    _expect(label.type == INT8, "a name that is not text")
    name = bytes(label.data).decode("latin-1")
    number = word & 0xFF
    if number in NUMERIC:
        kind = "numeric"
    else:
        kind = CLASSES.get(number, "unknown")
    # real, imaginary
    parts = 1
    if word >> 11 & 1:
        parts = 2
    if wanted is not None and name not in wanted:
        return name, kind
    if number in NUMERIC:
        _check_values(data, label.end, order, [math.prod(sizes)] * parts)
    elif number == SPARSE:
        # Row indices, starts of columns, values.
        _check_values(
            data, label.end, order, [None, sizes[1] + 1] + [None] * parts, indices=2
        )
    elif number == CELL and wanted is not None:
        start = label.end
        kinds = []
        for _ in range(math.prod(sizes)):
            cell = _element(data, start, order)
            start = cell.end
            _expect(cell.type == MATRIX, "a cell that is not an array")
            # An empty cell may have no content at all.
            if cell.data:
                kinds.append(_check_array(cell.data, order, None)[1])
            if kinds and kinds[-1] not in ("numeric", "sparse"):
                return name, f"cell of {kinds[-1]}"
    return name, kind


def _check_values(
    data: memoryview,
    start: int,
    order: str,
    counts: Sequence[int | None],
    indices: int = 0,
) -> None:
    for k, count in enumerate(counts):
        values = _element(data, start, order)
        start = values.end
        _expect(
            values.type in SIZES and (k >= indices or values.type == INT32),
            "values of an unknown type",
        )
        n_values, rest = divmod(len(values.data), SIZES[values.type])
        _expect(
            rest == 0 and count in (None, n_values), "values that do not fill the array"
        )


def _expect(fine: bool, otherwise: str) -> None:
    if not fine:
        raise ValueError(otherwise)
