"""Columns that are probably not what they seem: mixed cells, numbers, persons."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from mtlrun.data.reading.names import Names, drop_option, written_numbers
from mtlrun.errors import listed

#: A target of up to this many different texts holds categories.
MIN_TEXTS = 20
#: Words for what has several rows, as names of columns or parts of them.
_PERSONS = (
    "person|pupil|student|patient|teacher|doctor|subject|subj|participant|respondent"
    "|resp|child|customer|client|user|employee|worker|member|player|case|household|hh"
    "|animal"
)
#: Words of `_PERSONS` that mean something else when they stand alone.
_NOT_ALONE = "resp|case|hh"
#: Names of columns that number persons.
_ID_NAME = re.compile(
    rf"(?i:(^|.*[^a-z])(id|uid|pid|nr)|id(no|nr|num)|id[ _.-].+)|.*[a-z]I[dD]"
    rf"|(?i:(?!({_NOT_ALONE})$)({_PERSONS}))"
    rf"|(?i:({_PERSONS})[ _.-]?(id|nr|no|num|number|code))"
)
#: Columns with fewer different values do not number persons.
MIN_PERSONS = 10
#: Filled cells from which on a column of whole numbers may be an identifier.
MIN_NUMBERED = 20
#: Numbers of rows leave at most this many times as many numbers free as there are rows.
MAX_GAPS = 2
#: Whole numbers of this many digits, all of the same length, are identifiers.
ID_DIGITS = 8
#: Numbers that are names have at most this many decimals.
NAME_DECIMALS = 4
#: Names of columns that number the rows.
_ROW_NAMES = ("rownames", "row", "index", "number", "no", "nr", "unnamed: 0")


@dataclass(frozen=True)
class OddCell:
    """A cell that does not go with the others of its column."""

    row: int
    odd: str
    others: str = ""


def mixed_cell(cells: Names) -> OddCell | None:
    """Return the rarer kind of cell of a column of numbers and words, else None."""
    texts = pd.Series(cells.names, dtype=object)
    numbers = pd.to_numeric(texts, errors="coerce").notna().to_numpy()
    if numbers.all() or not numbers.any():
        return None
    codes = cells.codes
    # Code -1 of a missing cell takes the last entry.
    is_a_number = np.append(numbers, False)[codes]
    is_a_word = (codes >= 0) & ~is_a_number
    odd = is_a_number
    common = is_a_word
    if is_a_word.sum() <= is_a_number.sum():
        odd = is_a_word
        common = is_a_number
    row = int(np.argmax(odd))
    other_row = int(np.argmax(common))
    other = cells.names[codes[other_row]]
    return OddCell(row, cells.names[codes[row]], f" beside {other!r}")


def written_number(cells: Names) -> OddCell | None:
    """Return a number written as text, such as 1,5 or 12% or $3, else None."""
    texts = cells.names
    # Two texts are the labels of a binary target, whatever they look like.
    if len(texts) <= 2 or not written_numbers(texts, MIN_TEXTS):
        return None
    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce")
    if numbers.notna().all():
        return None
    row = int(np.argmax(cells.codes >= 0))
    return OddCell(row, texts[cells.codes[row]])


def is_numbering(column: pd.Series) -> bool:
    """Whether a column numbers the rows: another whole number in every filled cell.

    Counts and amounts differ in every row, too. So the column must be called like an
    identifier, or the numbers must be consecutive for the most part, in the order of
    the rows, or long and of the same length.
    """
    if not is_numeric_dtype(column) or is_bool_dtype(column):
        return False
    values = column.dropna().to_numpy(dtype=float)
    if len(values) < MIN_NUMBERED or not (values == np.round(values)).all():
        return False
    if len(np.unique(values)) < len(values):
        return False
    name = str(column.name)
    if _ID_NAME.fullmatch(name) or name.casefold() in _ROW_NAMES:
        return True
    n_possible = values.max() - values.min() + 1
    is_dense = n_possible <= MAX_GAPS * len(values)
    steps = np.diff(values)
    is_sorted = bool((steps > 0).all() or (steps < 0).all())
    digits = np.abs(values).astype(np.int64).astype(str)
    lengths = np.unique(np.char.str_len(digits))
    is_long = len(lengths) == 1 and lengths[0] >= ID_DIGITS
    return bool(is_dense or is_sorted or is_long)


def is_identifier(column: pd.Series) -> bool:
    """Whether a column identifies rows: by its name, or as no cell repeats.

    Numbers with decimals identify nothing.
    """
    name = str(column.name)
    if _ID_NAME.fullmatch(name) or name.casefold() in _ROW_NAMES:
        return True
    cells = column.dropna()
    if is_bool_dtype(cells) or not len(cells):
        return False
    if is_numeric_dtype(cells) and (cells.astype(float) % 1 != 0).any():
        return False
    return bool(cells.is_unique)


def repeated_ids(columns: Iterable[pd.Series]) -> list[str]:
    """Return a line about columns that seem to number persons with several rows.

    Their rows are split between training and test, so that scores would be too good.
    """
    names = []
    for whole_column in columns:
        name = str(whole_column.name)
        if not _ID_NAME.fullmatch(name):
            continue
        column = whole_column.dropna()
        if is_numeric_dtype(column) and (column.astype(float) % 1 != 0).any():
            continue
        n_values = column.nunique()
        if MIN_PERSONS <= n_values < len(column):
            names.append(name)
    if not names:
        return []
    question = "are these columns of persons"
    ignored = "ignores them"
    if len(names) == 1:
        question = "is it a column of persons"
        ignored = "ignores it"
    example = shlex.quote(names[0])
    return [
        f"values repeat in {listed([repr(name) for name in names])}; {question}? "
        f"--group {example} keeps the rows of a person together, "
        f"--also-grouped-by {example} gives each a level (SmoothMTL), "
        f"{drop_option(names)} {ignored}"
    ]


def decimal_tasks(column: pd.Series) -> list[str]:
    """Return a line about tasks that are numbers with many decimals.

    A target encoder turns the names of tasks into such numbers.
    """
    if not is_numeric_dtype(column) or is_bool_dtype(column):
        return []
    # In the type of the column: 0.1 of 32 bits has many decimals in 64.
    numbers = column.dropna().to_numpy()
    has_many = np.round(numbers, NAME_DECIMALS) != numbers
    if not has_many.any():
        return []
    return [
        f"tasks in {str(column.name)!r} are numbers with many decimals, such as "
        f"{numbers[has_many][0]:.8g}: if they are means of a target (target encoding), use the "
        "column of names instead"
    ]


def constant_within_tasks(
    X: np.ndarray, codes: np.ndarray, features: Sequence[str]
) -> list[str]:
    """Return a line about features that differ between tasks but not within them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        NaN where a value is missing.
    codes : ndarray of shape (n,)
        Task of each row, from 0.
    features : sequence of str
    """
    order = np.argsort(codes, kind="stable")
    sorted_rows = X[order]
    # Missing values are a value of their own here: NaN would differ from itself.
    sorted_rows = np.where(np.isnan(sorted_rows), np.inf, sorted_rows)
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    largest = np.maximum.reduceat(sorted_rows, starts)
    smallest = np.minimum.reduceat(sorted_rows, starts)
    is_constant_within = (largest == smallest).all(axis=0)
    differs_between = np.ptp(np.nan_to_num(largest), axis=0) > 0
    shifting = is_constant_within & differs_between
    names = [name for name, shifts in zip(features, shifting, strict=True) if shifts]
    if not names:
        return []
    line = "constant within every task, so it can only shift a task as a whole"
    return [f"{line}: {listed(names)}"]
