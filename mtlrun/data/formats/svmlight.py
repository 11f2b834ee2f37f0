"""The svmlight / LIBSVM format, through scikit-learn: one task, a task per ``qid``, or several labels per row."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from mtlrun.data.numbers import is_number, whole
from mtlrun.errors import DataError

_DIGITS = re.compile("[0-9]+")
_ZERO, _SEVERAL = re.compile(rb"^[^#\n]*[ \t]0+:", re.MULTILINE), re.compile(rb"^[^#\n:]*,", re.MULTILINE)


def counts_from_zero(content: bytes) -> bool:
    """Whether the first feature is 0, as ``sklearn.datasets.dump_svmlight_file`` writes by default."""
    return _ZERO.search(content) is not None


def has_several_labels(content: bytes) -> bool:
    """Whether a row has several labels, separated by commas."""
    return _SEVERAL.search(content) is not None


def read_svmlight(
    content: bytes, name: str, *, n_features: int | None = None, zero_based: bool = False, multilabel: bool = False
) -> tuple[sparse.csr_matrix, Any, np.ndarray]:
    """Parse ``<target> [qid:<q>] <index>:<value> ...`` lines.

    Parameters
    ----------
    content : bytes
    name : str
        File name for messages.
    n_features : int, optional
        Columns of X; by default the largest index that occurs (a file of test rows may need more).
    zero_based : bool, default=False
        Whether the first feature is 0 rather than 1, as the format says.
    multilabel : bool, default=False
        Whether the target is a list of labels, ``3,7`` or nothing.

    Returns
    -------
    X : csr_matrix of shape (n, d)
    y : ndarray of shape (n,), or with `multilabel` a list of n tuples of float
    qid : ndarray of shape (n,), int64
        Zeros when there are none.

    Raises
    ------
    DataError
        With line and column of what is not a target, a pair ``index:value`` or a finite number.
    """
    try:
        X, y, qid = load_svmlight_file(
            io.BytesIO(content),
            n_features=n_features,
            query_id=True,
            zero_based=zero_based,
            multilabel=multilabel,
            dtype=np.float64,
        )
        if not (np.isfinite(X.data).all() and np.isfinite(np.concatenate(y) if multilabel else y).all()):
            raise ValueError("it contains NaN or infinity")
    except (ValueError, OverflowError) as error:
        _locate(content, name, zero_based, n_features, multilabel)
        raise DataError(f"{name}: not an svmlight file ({error})") from None
    if len(y) == 0:
        raise DataError(f"{name}: no rows", "Check that the file was saved completely.")
    if len(qid) not in (0, len(y)):
        raise DataError(f"{name}: {len(qid)} of {len(y)} rows have a qid", "Give every row its qid, or none.")
    return X, y, np.asarray(qid, dtype=np.int64) if len(qid) else np.zeros(len(y), dtype=np.int64)


def _locate(content: bytes, name: str, zero_based: bool, n_features: int | None, multilabel: bool) -> None:
    """Raise a DataError with line and column of the first bad item; return when there is none."""
    first = 0 if zero_based else 1
    for number, raw in enumerate(content.split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}:{number}:{error.start + 1}: byte 0x{raw[error.start]:02x} is not UTF-8 text"
            ) from None
        line = line.split("#", 1)[0]
        column, previous = 0, -1
        for k, item in enumerate(line.split()):
            column = line.index(item, column)
            place = f"{name}:{number}:{column + 1}"
            column += len(item)
            if k == 0 and not (multilabel and ":" in item):
                if not all(map(is_number, item.split(",") if multilabel else [item])):
                    raise DataError(f"{place}: the target {item!r} is not a finite number")
                continue
            index, colon, value = item.partition(":")
            if k == 1 and index == "qid" and _DIGITS.fullmatch(value.removeprefix("-")):
                continue
            if not colon or not _DIGITS.fullmatch(index) or not is_number(value):
                raise DataError(f"{place}: {item!r} is not a pair index:value with a finite value")
            at = whole(index)
            if at < first:
                raise DataError(f"{place}: the index {index} is below {first}", "Set zero_based if the first is 0.")
            if at <= previous:
                raise DataError(
                    f"{place}: the index {index} is not larger than the one before",
                    "Sort the indices within every row.",
                )
            if n_features is not None and at - first >= n_features:
                raise DataError(f"{place}: the index {index} is beyond n_features={n_features}")
            previous = at
