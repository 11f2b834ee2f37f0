"""Tables of DNA strings: one window per line with its label and, if wanted, its task. Read line by line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import IO

import numpy as np

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile
from mtlrun.data.readers.fasta import clean_sequence
from mtlrun.errors import DataError, UnknownNameError, counted

_SIGNS = {"1": 1.0, "+1": 1.0, "-1": -1.0, "0": -1.0}


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    sequence: str = "sequence",
    label: str = "label",
    task: str | None = None,
    positive: str | None = None,
    delimiter: str = ",",
) -> Dataset:
    r"""Read tables of DNA strings of one length; several files with the same columns follow each other.

    Only the packed strings, labels and tasks are kept in memory, never a file or its table.

    Parameters
    ----------
    files : mapping of str to DataFile
    card : Card
    sequence, label : str
        Columns of the strings (letters as in `mtlrun.data.readers.fasta`) and of the labels: 1, +1 or -1, 0.
    task : str, optional
        Column that names the task of every row; without it there is one task.
    positive : str, optional
        The label that means +1, any other means -1.
    delimiter : str, default=","
        One character, ``"\t"`` for tabs.

    Returns
    -------
    Dataset
        Ragged and binary; tasks in the order in which they appear.

    Raises
    ------
    DataError
        With file, line and column, for lines with another number of cells than the header, letters outside IUPAC,
        strings of another length than the first, labels of another kind, and files without rows.
    UnknownNameError
        For a column that is not there.
    """
    buffer, signs, owner = bytearray(), [], []
    tasks: dict[str, int] = {}
    length = 0
    for file in files.values():
        with file.open() as stream:
            columns = [name for name in (sequence, label, task) if name is not None]
            for number, line, cells in _rows(stream, file.where(), columns, delimiter):
                string = clean_sequence(cells[0].encode("utf-8"), file.where(), number, max(0, line.find(cells[0])))
                length = length or len(string)
                if len(string) != length or not string:
                    raise DataError(
                        f"{file.where(number)}: a sequence of {len(string)} bases where the first has {length}",
                        "All sequences must have one length; cut windows of equal length first.",
                    )
                buffer += string
                signs.append(_sign(cells[1], positive, file.where(number)))
                owner.append(tasks.setdefault(cells[2], len(tasks)) if task is not None else 0)
    return Dataset(
        X=np.frombuffer(bytes(buffer), dtype=f"S{length}"),
        y=np.array(signs),
        task_type="binary",
        task_id=np.array(owner),
        tasks=list(tasks) or ["all"],
    )


def _rows(stream: IO[bytes], name: str, wanted: list[str], delimiter: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield (line number, line, wanted cells); empty lines are skipped, the first other line names the columns."""
    header: list[str] = []
    places: list[int] = []
    found = False
    for number, raw in enumerate(stream, start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}:{number}:{error.start + 1}: byte 0x{raw[error.start]:02x} is no UTF-8 text",
                "Save the file as UTF-8, or decompress it if it is an archive.",
            ) from None
        if not line.strip():
            continue
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]
        if not header:
            header = cells
            for column in wanted:
                if column not in header:
                    raise UnknownNameError(f"column of {name}", column, header)
            places = [header.index(column) for column in wanted]
            continue
        if len(cells) != len(header):
            there, named = counted(len(cells), "cell"), counted(len(header), "column")
            raise DataError(f"{name}:{number}: {there} where the header names {named}")
        found = True
        yield number, line, [cells[place] for place in places]
    if not found:
        raise DataError(f"{name}: no rows below the header", "Check that the file was saved completely.")


def _sign(text: str, positive: str | None, where: str) -> float:
    if positive is not None:
        return 1.0 if text == positive else -1.0
    if text not in _SIGNS:
        raise DataError(
            f"{where}: the label {text!r} is none of 1, +1, -1, 0",
            "The option 'positive' names the label that means +1.",
        )
    return _SIGNS[text]
