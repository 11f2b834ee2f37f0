"""Data frames as numpy archives without pickle: what is read back has the types and the words of what was written."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

COLUMNS = "columns"


def whole_frame(stored: pd.DataFrame) -> pd.DataFrame:
    """Return the frame of a Parquet file with all columns of the file: pandas makes an index of some of them."""
    levels = [name for name in stored.index.names if name is not None and name not in stored.columns]
    if not levels or isinstance(stored.index, pd.RangeIndex):  # a range is not stored as a column
        return stored
    return pd.concat([stored.index.to_frame(index=False)[levels], stored.reset_index(drop=True)], axis=1)


def is_frame(arrays: Mapping[str, Any]) -> bool:
    """Whether the arrays of an archive are a data frame."""
    return COLUMNS in arrays


def dump_frame(frame: pd.DataFrame) -> bytes:
    """Return a data frame with the columns of `mtlrun.data.table.typed` as an archive; equal frames give equal bytes.

    ``columns`` has the names. Column j is ``j.values`` (with ``j.missing``, where integers or booleans have gaps), or
    ``j.codes`` (-1 for missing) into ``j.words``, which are numbers in a column of categories; what is neither number
    nor date is stored as text.
    """
    arrays: dict[str, Any] = {COLUMNS: np.array([str(name) for name in frame.columns], dtype=str)}
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        kind = column.dtype.kind if isinstance(column.dtype, np.dtype) else ""
        if kind and kind in "fiubM":
            arrays[f"{j}.values"] = column.to_numpy()
        elif pd.api.types.is_numeric_dtype(column.dtype):
            missing = column.isna().to_numpy()
            standard = bool if pd.api.types.is_bool_dtype(column.dtype) else np.int64
            arrays[f"{j}.values"] = column.fillna(standard(0)).to_numpy(dtype=standard)
            arrays[f"{j}.missing"] = missing
        else:
            codes, values = pd.factorize(column)
            words = pd.Index(np.asarray(values))  # of a column of categories: those that occur, with their type
            numbers = isinstance(words.dtype, np.dtype) and words.dtype.kind in "fiub"
            if not numbers:
                words = pd.Index([str(word) for word in words], dtype=object)
                again, words = pd.factorize(words)
                codes = np.append(again, -1)[codes]
            arrays[f"{j}.codes"] = codes.astype(np.int32)
            arrays[f"{j}.words"] = np.asarray(words) if numbers else np.array([_closed(w) for w in words], dtype=str)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def load_frame(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return the data frame of an archive.

    Raises
    ------
    ValueError, LookupError, TypeError
        If it is damaged.
    """
    columns = []
    for j in range(len(arrays[COLUMNS])):
        if f"{j}.codes" in arrays:
            found = arrays[f"{j}.words"]
            words = pd.Index([str(word)[:-1] for word in found], dtype=object) if found.dtype.kind == "U" else found
            columns.append(pd.Series(pd.Categorical.from_codes(arrays[f"{j}.codes"], words)))
            continue
        column = pd.Series(arrays[f"{j}.values"])
        if f"{j}.missing" in arrays:
            nullable = "boolean" if column.dtype == bool else "Int64"
            column = column.astype(nullable).mask(arrays[f"{j}.missing"])
        columns.append(column)
    frame = pd.concat(columns, axis=1)
    return frame.set_axis([str(name) for name in arrays[COLUMNS]], axis=1)


def _closed(word: str) -> str:
    """Return a text that ends with a mark: numpy's texts lose NUL characters at their end."""
    return f"{word}."
