"""Data sets of Mulan and Meka: ARFF files whose label columns an XML file names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mtlrun.data.dataset import Dataset
from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.formats.arff import (
    ArffTable,
    columns_of,
    meka_labels,
    read_arff,
)
from mtlrun.data.reading.named_columns import read_labels
from mtlrun.errors import DataError

if TYPE_CHECKING:
    from mtlrun.data.sets.cards import Card


def read(
    files: dict[str, DataFile],
    card: Card,
    *,
    arff: list[str],
    xml: str | None = None,
    split_rows: dict[str, int] | None = None,
) -> Dataset:
    """Read a multi-label set: one shared X, one -1/+1 column per label.

    Parameters
    ----------
    arff : list of str
        Files whose rows follow each other; all have the same columns.
    xml : str, optional
        File with Mulan's list of labels; their order there is the order of the tasks.
        Without it the first columns are labels (the last ones if negative), as many as
        MEKA writes into the relation as ``-C n``.
    split_rows : dict of str to int, optional
        Published splits by name: this many first rows are the training part, the others
        the test part.

    Returns
    -------
    Dataset
        X is CSR when the rows of the files are sparse, else dense; NaN stands for
        ``?``.

    Raises
    ------
    DataError
        With ``file:line:column`` of the error, a label that is not a column, or files
        that do not fit together.
    """
    tables = [read_arff(files[name]) for name in arff]
    first = tables[0]
    file = files[arff[0]]
    names = [attribute.name for attribute in first.attributes]
    for name, table in zip(arff, tables, strict=True):
        if _declarations(table) != _declarations(first):
            raise DataError(
                f"{files[name].where()}: its columns differ from those of "
                f"{file.where()}",
                "Both need the same attributes, with the same values in one order.",
            )
    n_labels = meka_labels(first.relation) or 0
    if xml is not None:
        columns = columns_of(first, read_labels(files[xml]), file)
    elif not 0 < abs(n_labels) < len(names):
        raise DataError(
            f"{file.where()}: no list of labels: neither an XML file nor '-C n' in the "
            "relation for some of its columns",
            "Name the XML file.",
        )
    elif n_labels > 0:
        columns = list(range(n_labels))
    else:
        columns = list(range(len(names) + n_labels, len(names)))
    for attribute in first.attributes:
        if attribute.open:
            text = (
                f"{file.where(attribute.line)}: the attribute {attribute.name!r} holds "
                "texts"
            )
            raise DataError(
                text,
                "Use `mtlrun compare`, which may drop it, or take it out of the file.",
            )
    blocks = [table.X for table in tables]
    if any(map(sparse.issparse, blocks)):
        X = sparse.vstack(blocks, format="csr")
    else:
        X = np.concatenate(blocks)
    keep = np.setdiff1d(np.arange(len(names)), columns)
    # Published splits take the first rows for training.
    splits = {}
    for split, n_train in (split_rows or {}).items():
        splits[split] = [(np.arange(n_train), np.arange(n_train, X.shape[0]))]
    tasks = [names[j] for j in columns]
    categories = {}
    for j in keep:
        attribute = first.attributes[j]
        if attribute.textual:
            categories[attribute.name] = list(attribute.codes or ())
    return Dataset(
        X=X[:, keep],
        y=_targets(X, columns, first, file),
        task_type="binary",
        tasks=tasks,
        features=[names[j] for j in keep],
        splits=splits,
        categories=categories,
    )


def _declarations(table: ArffTable) -> list[tuple[str, dict[str, float] | None]]:
    """Return the names of the columns, and the numbers of words where they hold words."""
    declarations = []
    for attribute in table.attributes:
        codes = None
        if attribute.textual and not attribute.open:
            codes = attribute.codes
        declarations.append((attribute.name, codes))
    return declarations


def _targets(
    X: Any, columns: list[int], table: ArffTable, file: DataFile
) -> np.ndarray:
    part = X[:, columns]
    Y = part
    if sparse.issparse(part):
        Y = part.toarray()
    wrong = ((Y != 0) & (Y != 1) & ~np.isnan(Y)).any(axis=0)
    if wrong.any():
        label = table.attributes[columns[int(np.argmax(wrong))]]
        raise DataError(
            f"{file.where(label.line)}: the label {label.name!r} has values other than "
            "0 and 1"
        )
    return 2.0 * Y - 1.0
