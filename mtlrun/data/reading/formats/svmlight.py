"""The svmlight / LIBSVM format, read by scikit-learn.

A file has one task, a task per ``qid``, or several labels per row.
"""

from __future__ import annotations

import codecs
import io
import re
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.names import TrainingColumns, number_name
from mtlrun.data.reading.table import TARGET, TASK, Table, default_names
from mtlrun.errors import DataError, shorten

#: Starts the names of the targets of files with several labels per row.
_LABEL = "label "
_ZERO, _SEVERAL = (
    re.compile(rb"^[^#\n]*[ \t]0+:", re.MULTILINE),
    re.compile(rb"^[^#\n:]*,", re.MULTILINE),
)


def svmlight_table(file: DataFile, like: TrainingColumns | None = None) -> Table:
    """Return an svmlight file as a table: its targets, tasks and sparse features.

    New rows have the features of the training rows: zeros at the end of a row are not
    written.
    """
    content = file.read_bytes().removeprefix(codecs.BOM_UTF8)
    name = file.where()
    model_columns: list[str] = []
    if like is not None:
        model_columns = list(like.columns)
    indices = []
    for column in model_columns:
        if re.fullmatch("x(0|[1-9][0-9]{0,8})", column):
            indices.append(int(column[1:]))
    if indices:
        is_zero_based = 0 in indices
        if not is_zero_based:
            # Nobody can tell whether the rows have one more feature, or all are numbered
            # from 0 that the training rows number from 1.
            match = _ZERO.search(content)
            if match is not None:
                line = content.count(b"\n", 0, match.start()) + 1
                raise DataError(
                    f"{name}:{line}: a feature has number 0, which no feature of the "
                    "training rows has",
                    "Number the features as in the training rows: add 1 to all numbers "
                    "if these rows count from 0, or leave out feature 0 if it is new.",
                )
    else:
        # As `sklearn.datasets.dump_svmlight_file` writes files by default.
        is_zero_based = _ZERO.search(content) is not None
    several = _SEVERAL.search(content) is not None
    if any(column.startswith(_LABEL) for column in model_columns):
        several = True
    X, y, qid = read_svmlight(
        content, name, zero_based=is_zero_based, multilabel=several
    )
    if indices:
        # Zeros at the end of rows are not written, so that X may be too narrow.
        X.resize(X.shape[0], max(X.shape[1], max(indices) + is_zero_based))
    columns = default_names(X.shape[1], name, first=int(not is_zero_based))
    if several:
        binarizer = MultiLabelBinarizer()
        values = 2.0 * binarizer.fit_transform(y) - 1.0
        labels = [f"{_LABEL}{number_name(label)}" for label in binarizer.classes_]
        targets = pd.DataFrame(values, columns=labels)
        return Table(
            name,
            targets,
            X,
            columns,
            default_targets=list(targets.columns),
            named=False,
        )
    task = None
    frame = pd.DataFrame({TARGET: y})
    if len(np.unique(qid)) > 1 or like is not None:
        task = TASK
        frame[TASK] = qid
    return Table(
        name,
        frame,
        X,
        columns,
        default_targets=[TARGET],
        default_task=task,
        named=False,
    )


def read_svmlight(
    content: bytes, name: str, *, zero_based: bool = False, multilabel: bool = False
) -> tuple[sparse.csr_matrix, Any, np.ndarray]:
    """Parse ``<target> [qid:<q>] <index>:<value> ...`` lines.

    Parameters
    ----------
    content : bytes
    name : str
        File name for messages.
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
        With the first line that is not of this form, or has a number that is not
        finite.
    """
    try:
        X, y, qid = _parsed(content, zero_based, multilabel)
    except (ValueError, OverflowError):
        lines = content.splitlines(keepends=True)
        # The first `good` lines can be read, the first `bad` lines cannot.
        good = 0
        bad = len(lines)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                _parsed(b"".join(lines[:middle]), zero_based, multilabel)
                good = middle
            except (ValueError, OverflowError):
                bad = middle
        line = shorten(lines[bad - 1].decode(errors="backslashreplace").strip(), 60)
        raise DataError(
            f"{name}:{bad}: {line!r} is not a row of svmlight",
            "Write <target> <index>:<value> ... with finite numbers and rising "
            "indices.",
        ) from None
    if len(y) == 0:
        raise DataError(f"{name}: no rows", "Check that the file was saved completely.")
    if len(qid) not in (0, len(y)):
        raise DataError(
            f"{name}: {len(qid)} of {len(y)} rows have a qid",
            "Give every row its qid, or none.",
        )
    if not len(qid):
        qid = np.zeros(len(y))
    return X, y, np.asarray(qid, dtype=np.int64)


def _parsed(
    content: bytes, zero_based: bool, multilabel: bool
) -> tuple[sparse.csr_matrix, Any, Any]:
    # Imported here because other tables do not need scikit-learn's data sets.
    from sklearn.datasets import load_svmlight_file

    X, y, qid = load_svmlight_file(
        io.BytesIO(content),
        query_id=True,
        zero_based=zero_based,
        multilabel=multilabel,
        dtype=np.float64,
    )
    targets = y
    if multilabel and y:
        targets = np.concatenate(y)
    if not np.isfinite(X.data).all() or not np.isfinite(targets).all():
        raise ValueError("it contains NaN or infinity")
    return X, y, qid
