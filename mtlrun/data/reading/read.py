"""The one reader of a user's table: a file of any format, or a data frame.

`mtlrun compare` and the card reader ``table`` make a `Dataset` of it
(`mtlrun.data.roles.make`), `mtlrun predict` takes the columns that a model needs
(`mtlrun.data.roles.schema`).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from scipy import sparse

from mtlrun.data.reading.files import DataFile, Snapshot, data_file
from mtlrun.data.reading.formats.arff import arff_table
from mtlrun.data.reading.formats.mat import mat_table
from mtlrun.data.reading.formats.sequences import fasta_table
from mtlrun.data.reading.formats.svmlight import svmlight_table
from mtlrun.data.reading.formats.text import COMPLETE, text_table
from mtlrun.data.reading.formats.xlsx import xlsx_table
from mtlrun.data.reading.frames import (
    is_frame,
    load_frame,
    reading_parquet,
)
from mtlrun.data.reading.names import TrainingColumns
from mtlrun.data.reading.table import (
    DAMAGE,
    SEQUENCE,
    TASK,
    Table,
    default_names,
    numeric_frame,
    optional_module,
    table_of_frame,
    unmark,
)
from mtlrun.errors import DataError, counted, listed
from mtlrun.problem import memory
from mtlrun.utils.arrays import NpzArchive
from mtlrun.utils.io import read_fields
from mtlrun.utils.sizes import SizeError, allow_cells, allow_members


def read_table(source: Path | str | Any, like: TrainingColumns | None = None) -> Table:
    """Read a table from a file or a data frame.

    The suffix of a file determines its format, after a suffix of compression (.gz,
    .bz2, .xz).

    * ``.csv``, ``.tsv``, ``.txt``: separated by commas, semicolons, tabs or blanks,
      with or without a header.
    * ``.parquet`` (needs pyarrow), ``.xlsx`` (needs openpyxl): the first sheet,
      or ``book.xlsx#Visits``.
    * ``.arff``: dense or sparse; nominal values that are not numbers are words.
    * ``.mat``: `X` and `Y` (or `feature` and `label`), cells with a matrix per task, or
      one matrix each; `Y` may be absent.
    * ``.svm``, ``.svmlight``, ``.libsvm``: the target and one task per ``qid``, or
      several labels, each a target.
    * ``.npz``: `X` (and `task_id`), or what ``scipy.sparse.save_npz`` writes.
    * ``.fa``, ``.fasta``: one sequence per row.

    Parameters
    ----------
    source : path or data frame
        Frames of pandas, polars, pyarrow, or anything that pandas turns into one.
    like : TrainingColumns, optional
        Columns of the training rows, when other rows are read: zeros at the end of
        sparse rows are not written.

    Raises
    ------
    DataError
        If the file is absent, damaged, empty, of another format or not in UTF-8, with
        line and column where known; if the data frame is empty or repeats a name.
    """
    if not isinstance(source, str | Path):
        return table_of_frame(source, like=like)
    file, suffix = data_file(Path(source))
    snapshot = Snapshot.of(file)
    return replace(read_table_file(snapshot, suffix, like), source=snapshot)


def read_table_file(
    file: DataFile, suffix: str, like: TrainingColumns | None = None
) -> Table:
    """Read a table from a file whose format is known; see `read_table`."""
    if suffix not in _READERS:
        other = ""
        if suffix in (".xls", ".xlsm", ".ods"):
            other = "Save it as .xlsx or .csv."
        formats = f"Known suffixes: {', '.join(_READERS)}, also with .gz."
        raise DataError(f"{file.where()}: unknown format", other or formats)
    with memory.reading_table(file.where()):
        table = _READERS[suffix](file, like)
    if table.sparse is None and table.frame.shape[0] == 0:
        raise DataError(f"{file.where()}: no rows", COMPLETE)
    unmark(table, like)
    return table


def read_parquet(file: DataFile, like: TrainingColumns | None = None) -> Table:
    """Return a Parquet file as a table."""
    parquet = optional_module("pyarrow.parquet", "parquet", file.where())
    raw = file.read_bytes()
    with reading_parquet(file.where()):
        stored = parquet.ParquetFile(io.BytesIO(raw))
        # The size from the footer, before anything is unpacked: a small file may hold
        # billions of equal cells.
        info = stored.metadata
        shape = (info.num_rows, info.num_columns)
        allow_cells(file.where(), *shape, len(raw))
        memory.require_table(file.where(), *shape)
        frame = stored.read().to_pandas()
        # Parquet keeps categories of texts only; categories of numbers become numbers.
        description = stored.schema_arrow.pandas_metadata or {}
        for column in description.get("columns", []):
            name = column["name"]
            if column["pandas_type"] == "categorical" and name in frame.columns:
                frame = frame.astype({name: "category"})
    return table_of_frame(frame, file.where(), like)


@dataclass(frozen=True)
class _Arrays:
    """Arrays of a table in an archive: X and tasks, or the parts of a sparse X."""

    X: Any = None
    task_id: Any = None
    data: Any = None
    indices: Any = None
    indptr: Any = None
    shape: Any = None


def read_npz(file: DataFile, like: TrainingColumns | None = None) -> Table:
    """Return `X` and `task_id` of an archive, or a matrix of ``save_npz``.

    SciPy's ``scipy.sparse.save_npz`` writes the latter.
    """
    name = file.where()
    remedy = "numpy.savez(FILE, X=..., task_id=...) makes one."
    try:
        content = file.read_bytes()
        with NpzArchive(content, name) as archive:
            allow_members(name, archive.infolist(), len(content))
            arrays = archive.arrays()
        if is_frame(arrays):
            return Table(name, load_frame(arrays))
        stored = read_fields(_Arrays, arrays)
        if {"data", "indices", "indptr", "shape"} <= set(arrays):
            X: Any = sparse.csr_matrix(
                (stored.data, stored.indices, stored.indptr), shape=tuple(stored.shape)
            )
            X.check_format(full_check=True)
            table = Table(
                name,
                pd.DataFrame(index=range(X.shape[0])),
                X.astype(float),
                default_names(X.shape[1], name),
            )
        elif stored.X is None:
            raise DataError(f"{name}: no array 'X'", f"Arrays: {listed(list(arrays))}.")
        elif stored.X.dtype.kind == "S":
            table = Table(name, pd.DataFrame({SEQUENCE: stored.X.astype(str)}))
        else:
            table = Table(name, numeric_frame(stored.X, name))
        table.named = SEQUENCE in table.frame
        tasks = stored.task_id
        if tasks is not None:
            if tasks.shape != (len(table.frame),):
                n_rows = counted(len(table.frame), "row")
                raise DataError(
                    f"{name}: task_id has shape {tasks.shape}, X has {n_rows}",
                    "One task per row.",
                )
            table.frame[TASK] = tasks
            table.default_task = TASK
    except MemoryError:
        raise DataError(f"{name}: its arrays do not fit into memory", remedy) from None
    except SizeError:
        raise
    except DAMAGE as error:
        raise DataError(
            f"{name}: not an .npz archive of plain arrays ({error})", remedy
        ) from None
    return table


#: A reader takes a file, and the columns of the training rows where new rows are read.
_READERS: dict[str, Callable[[DataFile, TrainingColumns | None], Table]] = {
    ".csv": text_table,
    ".tsv": text_table,
    ".txt": text_table,
    ".parquet": read_parquet,
    ".xlsx": xlsx_table,
    ".arff": arff_table,
    ".mat": mat_table,
    ".svm": svmlight_table,
    ".svmlight": svmlight_table,
    ".libsvm": svmlight_table,
    ".npz": read_npz,
    ".fa": fasta_table,
    ".fasta": fasta_table,
}
