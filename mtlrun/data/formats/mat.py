"""MATLAB files of version 5 to 7: numeric arrays, dense or sparse, and cells of them.

They are read here, not by scipy, which trusts the tags of the elements: an unknown data type in a damaged file ends the
process with a segmentation fault.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
from scipy import sparse

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset, signs
from mtlrun.data.files import DataFile, file_called
from mtlrun.data.splits import TaskStratifiedKFold
from mtlrun.errors import DataError, counted, shorten
from mtlrun.utils.sizes import CELLS, CELLS_PER_BYTE, allow, expansion

_HDF5 = b"\x89HDF\r\n\x1a\n"
_NUMERIC_ONLY = "Numeric arrays and cells of them are read."

#: numpy's types of the data types that numbers may have.
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
INT8, INT32, UINT32, MATRIX, COMPRESSED = 1, 5, 6, 14, 15
CLASSES = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 16: "function", 17: "opaque"}
CLASSES |= dict.fromkeys(range(6, 16), "numeric")


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
        If the file is damaged or not a MATLAB file of version 5 to 7, a variable is missing, or it is neither numeric
        nor a cell of numeric arrays (structures, functions and Java or MATLAB objects are refused).
    """
    content = stream.read()
    if content[:8] == _HDF5 or content[512:520] == _HDF5 or content[:19] == b"MATLAB 7.3 MAT-file":
        raise DataError(
            f"{name}: a MATLAB 7.3 file (HDF5), which is not read here",
            "In MATLAB: load it and save it again with save(..., '-v7').",
        )
    wanted = list(variables)
    try:
        present = list_variables(content)
        missing = [v for v in wanted if v not in present]
        if missing:
            raise DataError(
                f"{name}: no variable {', '.join(map(repr, missing))}",
                f"Variables: {', '.join(sorted(filter(None, present))) or 'none'}.",
            )
        return {key: present[key].read(name, key) for key in wanted}
    except DataError:
        raise
    except (ValueError, zlib.error) as error:
        raise DataError(
            f"{name}: not a readable MATLAB file ({shorten(str(error), 200)})",
            "The file is damaged or in another format; fetch it again or save it from MATLAB with save(..., '-v7').",
        ) from None


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    X: str = "X",
    Y: str = "Y",
    n_features: int | None = None,
    drop_bias: bool = False,
) -> Dataset:
    """Read ragged data: two cell arrays in the first file, one cell of features and one of targets per task.

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
        For what `read_mat` and `task_cells` refuse, empty cells, NaN, and a last column that is not constant.
    """
    file = next(iter(files.values()))
    name = file.where()
    with file.open() as stream:
        content = read_mat(stream, name, (X, Y))
    tasks, targets = task_cells(content[X], content[Y], name, X, Y, n_features)
    sizes = [len(task) for task in tasks]
    if 0 in sizes:
        raise DataError(f"{name}: task {sizes.index(0) + 1} has no rows")
    stacked, y = np.vstack(tasks), np.concatenate(targets)
    for variable, values in ((X, stacked), (Y, y[:, None])):
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            text = f"{name}: {variable} contains {values[tuple(bad[0])]} at row {bad[0][0] + 1}, column {bad[0][1] + 1}"
            raise DataError(text, "Replace or drop missing values first.")
    if drop_bias:
        if (stacked[:, -1] != 1).any():
            raise DataError(f"{name}: the last column of {X} is not 1 everywhere")
        stacked = np.ascontiguousarray(stacked[:, :-1])
    return Dataset(
        X=stacked,
        y=signs(y, f"{name}: {Y}") if card.task_type == "binary" else y,
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
    """Read the 139 schools of MALSAR, with ten folds of ours and the published splits of Argyriou et al.

    Parameters
    ----------
    data : str
        The file with the cells X (27 features and a column of ones) and Y.
    argyriou : list of str
        Files with the variables ``tr`` and ``tst``, 1-based rows; they become ``splits["argyriou"]``.
    bias : bool, default=False
        Keep the column of ones as a 28th feature (papers whose models have no intercept do).
    folds : int, default=10
        Folds of ``splits["folds"]``, each with its share of every school (`TaskStratifiedKFold`). The paper that uses
        ten folds does not say how it drew them.
    seed : int, default=0
        Seed of the folds.

    Raises
    ------
    DataError
        For wrong files.
    """
    dataset = read({data: file_called(files, data, card)}, card, n_features=28, drop_bias=not bias)
    dataset.features = [f"x{j + 1}" for j in range(27)] + (["bias"] if bias else [])
    splitter = TaskStratifiedKFold(folds, random_state=seed)
    dataset.splits["folds"] = list(splitter.split(dataset.X, groups=dataset.task_id))
    published = []
    for file in (file_called(files, name, card) for name in argyriou):
        with file.open() as stream:
            content = read_mat(stream, file.where(), ("tr", "tst"))
        # Stored in the smallest integer type that holds them: subtracting 1 needs a wider one.
        train, test = (np.sort(np.asarray(content[key]).ravel().astype(np.int64)) - 1 for key in ("tr", "tst"))
        published.append((train, test))
    if published:
        dataset.splits["argyriou"] = published
    return dataset


def task_cells(
    inputs: Any, targets: Any, name: str, X: str, Y: str, n_features: int | None = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the features and the targets of every task, float64, from two cell arrays.

    Raises
    ------
    DataError
        If a variable is not a cell array, or cells do not fit together.
    """
    for variable, cells in ((X, inputs), (Y, targets)):
        if not isinstance(cells, list) or not cells:
            shape = getattr(cells, "shape", (0, 0))
            text = f"{name}: {variable} is an array of shape {shape}, not a cell array with one cell per task"
            raise DataError(text, f"{X} and {Y} must both be cell arrays, or both be one matrix.")
    misfit = next(_misfits(inputs, targets, X, Y, n_features or inputs[0].shape[-1]), None)
    if misfit is not None:
        raise DataError(f"{name}: {misfit}", "Every task is one cell of both, with the same features.")
    return [cell.astype(np.float64) for cell in inputs], [cell.astype(np.float64).ravel() for cell in targets]


def _misfits(inputs: list[Any], targets: list[Any], X: str, Y: str, width: int) -> Iterator[str]:
    if len(inputs) != len(targets):
        yield f"{counted(len(inputs), 'cell')} in {X}, {len(targets)} in {Y}"
    for t, (a, b) in enumerate(zip(inputs, targets, strict=False), start=1):
        if a.ndim != 2 or a.shape[1] != width:
            yield f"cell {t} of {X} has shape {a.shape} where (n, {width}) is expected"
        if b.size not in (0, max(b.shape)):  # the targets of a task may lie along either direction
            yield f"cell {t} of {Y} has shape {b.shape} where (n, 1) is expected"
        if len(a) != b.size:
            yield f"task {t} has {counted(len(a), 'row')} in {X}, {b.size} in {Y}"


def matrix(file: DataFile, variable: str, shape: tuple[int, int]) -> np.ndarray:
    """Return a matrix of a file as float64.

    Raises
    ------
    DataError
        For what `read_mat` refuses, and another shape.
    """
    with file.open() as stream:
        found = read_mat(stream, file.where(), (variable,))[variable]
    if np.shape(found) != shape or isinstance(found, list):
        wanted, got = (" x ".join(map(str, sizes)) for sizes in (shape, np.shape(found)))
        text = f"{file.where()}: {variable} is {got} where {wanted} is expected"
        raise DataError(text, "Is it the file that the card names?")
    return found.astype(np.float64)


# --- the structure of a file ---


class Element(NamedTuple):
    """One tagged element: its type, its bytes and where the next one starts."""

    type: int
    data: memoryview
    end: int


class Variable(NamedTuple):
    """An array of a file: its name, kind, dimensions, whether it is complex, and where in `data` its values start."""

    name: str
    kind: str
    sizes: tuple[int, ...]
    imaginary: bool
    data: memoryview
    start: int
    order: str

    @classmethod
    def of(cls, data: memoryview, order: str) -> Variable:
        """Read what stands in front of the values."""
        flags = _element(data, 0, order)
        _expect(flags.type == UINT32 and len(flags.data) == 8, "wrong array flags")
        (word,) = struct.unpack_from(order + "I", flags.data)
        shape = _element(data, flags.end, order)
        _expect(shape.type == INT32 and len(shape.data) >= 8 and len(shape.data) % 4 == 0, "wrong dimensions")
        sizes = struct.unpack(f"{order}{len(shape.data) // 4}i", shape.data)
        _expect(len(sizes) <= 32 and min(sizes) >= 0, "wrong dimensions")
        label = _element(data, shape.end, order)
        _expect(label.type == INT8, "a name that is not text")
        kind = CLASSES.get(word & 0xFF, "unknown")
        return cls(bytes(label.data).decode("latin-1"), kind, sizes, bool(word >> 11 & 1), data, label.end, order)

    def read(self, where: str, what: str) -> np.ndarray | list[np.ndarray]:
        """Return the numbers of an array, or those of the cells of a cell array, in the types that they are stored in.

        Raises
        ------
        DataError
            For other kinds of arrays; `where` and `what` name the file and the array.
        ValueError
            For damage.
        """
        if self.kind != "cell":
            return self._numbers(where, what)
        found, start = [], self.start
        for k in range(1, math.prod(self.sizes) + 1):
            cell = _element(self.data, start, self.order)
            start = cell.end
            _expect(cell.type == MATRIX, "a cell that is not an array")
            # An empty cell may have no content at all.
            inner = Variable.of(cell.data, self.order)._numbers(where, f"cell {k} of {what}") if cell.data else None
            found.append(np.empty((0, 0)) if inner is None else inner)
        return found

    def _numbers(self, where: str, what: str) -> np.ndarray:
        if self.kind not in ("numeric", "sparse"):
            raise DataError(f"{where}: {what} is a MATLAB {self.kind}, not a numeric array", _NUMERIC_ONLY)
        if self.imaginary:
            raise DataError(f"{where}: {what} is not an array of real numbers (complex128)", _NUMERIC_ONLY)
        first, start = self._values(self.start)
        if self.kind == "numeric":
            _expect(len(first) == math.prod(self.sizes), "values that do not fill the array")
            return first.reshape(self.sizes, order="F")
        starts, start = self._values(start)
        values, _ = self._values(start)
        cells = math.prod(self.sizes)
        allow(where, cells, max(CELLS, CELLS_PER_BYTE * len(values)), f"cells in {what}, a sparse matrix", "Use .npz.")
        try:
            _expect(len(starts) == self.sizes[1] + 1 and 0 <= starts[-1] <= min(len(first), len(values)), "its columns")
            matrix = sparse.csc_matrix((values[: starts[-1]], first[: starts[-1]], starts), shape=self.sizes)
            matrix.check_format(full_check=True)
            return np.asarray(matrix.toarray())
        except ValueError as error:
            raise DataError(f"{where}: {what} is a damaged sparse matrix ({error})") from None
        except MemoryError:
            size = " x ".join(map(str, self.sizes))
            raise DataError(f"{where}: {what} is sparse and too large as a dense array ({size})") from None

    def _values(self, start: int) -> tuple[np.ndarray, int]:
        """Return the numbers of the element at a place, and where the next one starts."""
        element = _element(self.data, start, self.order)
        _expect(element.type in TYPES, "values of an unknown type")
        stored = np.dtype(self.order + TYPES[element.type])
        _expect(len(element.data) % stored.itemsize == 0, "values that do not fill the array")
        return np.frombuffer(element.data, stored).astype(stored.newbyteorder("=")), element.end


def list_variables(content: bytes) -> dict[str, Variable]:
    """Return the variables of a whole file by name; their values are not looked at.

    Raises
    ------
    ValueError
        If an element does not fit into the file or has a type that its place does not allow.
    zlib.error
        If a compressed element is damaged.
    """
    # A zero among the first four bytes is the sign of version 4.
    if len(content) < 128 or 0 in content[:4] or content[124:128] not in (b"\x00\x01IM", b"\x01\x00MI"):
        raise ValueError("not the header of a MATLAB file of version 5 to 7")
    order = "<" if content[126:128] == b"IM" else ">"
    found: dict[str, Variable] = {}
    start, whole = 128, memoryview(content)
    while start < len(whole):
        element = _element(whole, start, order, padded=False)
        start = element.end
        if element.type == COMPRESSED:
            element = _element(memoryview(_decompressed(element.data, len(content))), 0, order)
        _expect(element.type == MATRIX, "an element that is not an array")
        variable = Variable.of(element.data, order)
        found[variable.name] = variable
    return found


def _decompressed(data: memoryview, size: int) -> bytes:
    """Return a compressed element of a file of `size` bytes, unless it is out of all proportion."""
    limit = expansion(size)
    tool = zlib.decompressobj()
    found = tool.decompress(data, limit)
    _expect(tool.eof or len(found) < limit, f"a variable that expands to more than {limit} bytes")
    _expect(tool.eof, "compressed data that end too early")
    return found


def _element(data: memoryview, start: int, order: str, padded: bool = True) -> Element:
    _expect(start + 8 <= len(data), "an incomplete tag")
    (first,) = struct.unpack_from(order + "I", data, start)
    if first >> 16:  # up to four bytes of data inside the tag
        kind, size, begin = first & 0xFFFF, first >> 16, start + 4
        _expect(size <= 4, "a small element of more than four bytes")
        end = start + 8
    else:
        kind, begin = first, start + 8
        (size,) = struct.unpack_from(order + "I", data, start + 4)
        end = begin + size
        if padded:
            end = min(end + -size % 8, len(data))
    _expect(begin + size <= len(data), "an element that ends behind the file")
    return Element(kind, data[begin : begin + size], end)


def _expect(fine: bool, otherwise: str) -> None:
    if not fine:
        raise ValueError(otherwise)
