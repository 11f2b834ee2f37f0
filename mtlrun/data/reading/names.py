"""Names in tables: of tasks, groups, categories and labels.

A cell of text is its name, without blanks at the ends and with composed letters (the
normal form NFC): é is one letter, whether a file writes it as one or as e with an
accent. A typed cell (of a data frame, Parquet, Excel, MATLAB) is named as it would be
written: ``7`` for 7.0, ``True``, ``2024-01-31``. New rows are read by the names that
the training rows had, so that ``01`` stays ``01`` whatever else stands in the column.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
import re
import shlex
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd

from mtlrun.errors import DataError, listed
from mtlrun.utils.text import normalized

Array = np.ndarray

#: Texts that stand for a missing value in every container: what R, pandas, databases,
#: Weka and C libraries write, and Excel's #N/A in the languages that rename it.
MISSING = (
    *("", "?", "NA", "N/A", "n/a", "<NA>", "NULL", "null", "NaT"),
    *("nan", "NaN", "NAN", "-nan", "-NaN"),
    *("1.#QNAN", "-1.#QNAN", "1.#IND", "-1.#IND"),
    *("#N/A", "#NA", "#N/A N/A", "#NV", "#N/D", "#N/D!", "#\u041d/\u0414"),
)
_MISSING = frozenset(MISSING)
#: Texts that spreadsheets show where a formula failed, in any language: #DIV/0!, #REF!,
#: #NAME?, and the numbered errors of LibreOffice.
_ERROR = re.compile(
    r"#[¡¿]?[^\W\d_][^\W_]*(/0)?[!?]|#GETTING_DATA|#ERR\d{3}!|ERR:\d{3}"
)
_WHOLE = re.compile(r"([-+]?[0-9]+)\.0")
_DIGITS = re.compile(r"([0-9]+)")
#: Zeros behind the point of a whole number, and zeros in front of other digits.
_ZERO_DECIMALS = re.compile(r"(?<=[0-9])\.0+$")
_LEADING_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")


class TrainingColumns(Protocol):
    """Names and texts of training rows, by which other rows are read.

    A `Table` has them, and so does the schema of a model.

    Attributes
    ----------
    columns : sequence of str
        Names of the columns.
    texts : mapping of str to collection of str
        Columns of names, and the names in them.
    """

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def texts(self) -> Mapping[str, Collection[str]]: ...


def texts_of(like: TrainingColumns | None) -> Mapping[str, Collection[str]]:
    """Return the texts of the training rows by column; none without training rows."""
    if like is None:
        return {}
    return like.texts


@dataclass(frozen=True)
class Names:
    """A column of names.

    Attributes
    ----------
    codes : ndarray of shape (n,), int64
        Position of the name of each cell, -1 where it is missing.
    names : list of str
        Different names in the order in which they occur.
    merged : list of str
        Names that are written in several ways, which differ by blanks at the ends, by
        type (1 and the text 1) or by the normal form of their letters.
    """

    codes: Array
    names: list[str]
    merged: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, column: pd.Series) -> Names:
        """Name the cells of a column; missing cells and blank ones have none.

        Texts such as ``NA`` are names here: the reader of a table has made those
        missing that are none (`without_markers`).

        Raises
        ------
        DataError
            For cells that are not names: lists, and floats so large that different
            integers are the same.
        """
        codes, values = _factorized(column)
        texts = []
        spellings: Counter[str] = Counter()
        for value in values:
            text = _name(value, column.name)
            texts.append(text)
            if text:
                spellings[text] += 1
        names = list(spellings)
        if len(names) == len(texts):
            return cls(codes, texts)
        merged = [text for text, count in spellings.items() if count > 1]
        return cls(_recoded(codes, texts, names), names, merged)

    def sorted(self, first: Sequence[str] = ()) -> Names:
        """Return the same names: `first`, then the others as in `name_order`."""
        rest = set(self.names) - set(first)
        names = [*first, *name_order(rest)]
        return Names(_recoded(self.codes, self.names, names), names, self.merged)


def _recoded(codes: Array, texts: Sequence[str], names: Sequence[str]) -> Array:
    """Return the positions among the names of cells that are coded by their texts.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Position of the text of each cell, -1 where it is missing.
    texts : sequence of str
    names : sequence of str
        A text that is not among them is missing.
    """
    position = {name: k for k, name in enumerate(names)}
    new_codes = [position.get(text, -1) for text in texts]
    # Code -1 takes the last entry, so that missing cells stay missing.
    new_codes.append(-1)
    return np.array(new_codes, dtype=np.int64)[codes]


class Known:
    """The names of training rows, among which the names of new rows are looked up.

    Parameters
    ----------
    names : sequence of str
    column_name : str
        The column, for messages.
    """

    def __init__(self, names: Sequence[str], column_name: str) -> None:
        self.column_name = column_name
        self.n_names = len(names)
        self.positions: dict[str, int] = {}
        for position, name in enumerate(names):
            # A model of an earlier version may hold names that are not normalized.
            self.positions.setdefault(normalized(name), position)
        self.numbers: defaultdict[float, list[str]] = defaultdict(list)
        for name in names:
            if is_number(name):
                self.numbers[float(name)].append(name)

    def find(self, value: Any) -> str:
        """Return the name of a cell: the training name that it matches, if any.

        Text has to be the same, but for ``.0`` that is written behind whole numbers
        where cells are empty. Typed numbers are compared as numbers, dates as dates.

        Raises
        ------
        DataError
            If a number may be one of several names, such as 07 and 7.
        """
        name = _name(value, self.column_name)
        if isinstance(value, str):
            match = _WHOLE.fullmatch(name)
            if name in self.positions or not match or match[1] not in self.positions:
                return name
            return match[1]
        # Booleans are integers to Python, so they come first.
        if isinstance(value, bool | np.bool_):
            # One training name may differ by capitals: TRUE, true.
            alike = [text for text in self.positions if text.lower() == name.lower()]
            if len(alike) == 1:
                return alike[0]
            return name
        if isinstance(value, int | float | np.number):
            equal = self.numbers.get(float(value), [])
            if len(equal) > 1:
                raise DataError(
                    f"column {self.column_name!r} holds the number {name}, "
                    f"which may be any of the names {listed(equal)}",
                    "Store the column as text, written as in the training rows.",
                )
            if equal:
                return equal[0]
            return name
        if isinstance(value, dt.date):
            with_blank = f"{name} 00:00:00"
            with_letter = f"{name}T00:00:00"
            for text in (name, with_blank, with_letter, name.replace(" ", "T")):
                if text in self.positions:
                    return text
        return name

    def codes(self, column: pd.Series) -> tuple[Array, dict[str, int]]:
        """Return the position of each cell among the names, and how often others occur.

        Positions are floats: NaN where missing or blank, one beyond the last for
        another name.
        """
        codes, values = _factorized(column)
        counts = np.bincount(codes[codes >= 0], minlength=len(values))
        unknown: dict[str, int] = {}
        positions: list[float] = []
        for value, count in zip(values, counts, strict=True):
            name = self.find(value)
            if name in self.positions:
                positions.append(self.positions[name])
            elif not name:
                positions.append(np.nan)
            else:
                positions.append(self.n_names)
                if count:
                    unknown[name] = int(count)
        # Code -1 takes the last entry: a missing cell has no position.
        positions.append(np.nan)
        return np.array(positions, dtype=float)[codes], unknown


def _factorized(column: pd.Series) -> tuple[Array, list[Any]]:
    """Return codes (-1 for missing) and the different cells.

    Texts of any kind of column become Python's.
    """
    try:
        codes, values = pd.factorize(column)
    except TypeError:
        types = {
            type(cell).__name__
            for cell in column
            if not isinstance(cell, str | int | float)
        }
        raise DataError(
            f"column {column.name!r} has cells that are no names: "
            f"{listed(sorted(types))}",
            "Leave the column out (drop), or store one text or number per cell.",
        ) from None
    array = np.asarray(values)
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        # A short float is named by its own digits: 0.1, not 0.10000000149.
        return codes.astype(np.int64), [float(str(value)) for value in array]
    return codes.astype(np.int64), pd.Index(values).tolist()


def _name(value: Any, column: Any) -> str:
    if isinstance(value, float):
        if abs(value) >= EXACT_INTEGERS:
            raise DataError(
                f"column {column!r} has numbers as names "
                f"that are too long to be distinguished ({value:.0f})",
                "Put a letter in front of them, or fill the empty cells of the column.",
            )
        if np.isfinite(value):
            return number_name(value)
        return str(value)
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        if value.time() == dt.time():
            return str(value.date())
        return str(value)
    return normalized(str(value))


def similar_names(unknown: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Return the first name that each unknown name resembles, where there is one.

    Names resemble each other if they differ only in capitals, blanks, the width of
    letters, leading zeros or ``.0`` behind a whole number.

    Examples
    --------
    >>> similar_names(["00095", "p 7", "8"], ["P07", "95"])
    {'00095': '95', 'p 7': 'P07'}
    """
    key_of_unknown = {name: _similarity_key(name) for name in unknown}
    keys = set(key_of_unknown.values())
    name_of_key: dict[str, str] = {}
    for name in names:
        key = _similarity_key(name)
        if key in keys:
            name_of_key.setdefault(key, name)
    similar = {}
    for name, key in key_of_unknown.items():
        if key in name_of_key:
            similar[name] = name_of_key[key]
    return similar


def alike_names(names: Iterable[str]) -> list[list[str]]:
    """Return the names that resemble each other as in `similar_names`, in groups.

    Examples
    --------
    >>> alike_names(["P07", "95", "p 7", "8"])
    [['P07', 'p 7']]
    """
    names_of_key: dict[str, list[str]] = defaultdict(list)
    for name in names:
        names_of_key[_similarity_key(name)].append(name)
    return [alike for alike in names_of_key.values() if len(alike) > 1]


def _similarity_key(name: str) -> str:
    """Return a text that is equal for names that resemble each other."""
    text = name
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = "".join(text.casefold().split())
    if "0" in text:
        text = _ZERO_DECIMALS.sub("", text)
        text = _LEADING_ZEROS.sub("", text)
    return text


def is_missing(value: Any, model_names: Collection[str] = ()) -> bool:
    """Whether a text stands for a missing value; the names of a model do not."""
    if not isinstance(value, str):
        return False
    text = normalized(value)
    return text in _MISSING and (not text or text not in model_names)


def is_spreadsheet_error(value: Any) -> bool:
    """Whether a text is what a spreadsheet shows for a failed formula: #DIV/0!."""
    if not isinstance(value, str):
        return False
    text = normalized(value)
    if text.startswith("Err:"):  # LibreOffice
        return _ERROR.fullmatch(text.upper()) is not None
    # Hashtags such as #wow! are words.
    return text == text.upper() and _ERROR.fullmatch(text) is not None


def without_markers(column: pd.Series, model_names: Collection[str] = ()) -> pd.Series:
    """Return a column in which texts that stand for a missing value are missing.

    Parameters
    ----------
    column : Series
        Of any type; a column that holds no such text is returned as it is.
    model_names : collection of str
        Names of a model: such a text is a name where it is one of them.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = column.cat.categories
        marked = [value for value in categories if is_missing(value, model_names)]
        if marked:
            return column.cat.remove_categories(marked)
        return column
    if not (
        pd.api.types.is_object_dtype(column.dtype)
        or isinstance(column.dtype, pd.StringDtype)
    ):
        return column
    try:
        values = column.unique()
    except TypeError:  # lists and mappings, which are refused where they are used
        return column
    texts = {value for value in values if is_missing(value, model_names)}
    if texts:
        return column.mask(column.isin(texts))
    return column


def distinct(names: Iterable[Any], taken: Iterable[str] = ()) -> list[str]:
    """Return names that differ from each other and from the names in use.

    A second ``age`` becomes ``age (2)``.
    """
    wanted = [str(name) for name in names]
    used = set(taken)
    requested = set(wanted)
    result = []
    for name in wanted:
        new = name
        count = 1
        while new in used or (count > 1 and new in requested):
            count += 1
            new = f"{name} ({count})"
        used.add(new)
        result.append(new)
    return result


def separated(text: str, names: Collection[str]) -> list[str]:
    """Return the names in a text: itself if it is one of `names`, else its parts.

    The parts stand between commas; parts that contain commas are in double quotes, as
    in csv files.
    """
    name = normalized(text)
    if name in names or not {",", '"'} & set(name):
        return [name]
    parts = next(csv.reader([name], skipinitialspace=True), [])
    return list(filter(None, map(normalized, parts)))


def quoted_list(names: Iterable[str]) -> str:
    """Return names with commas between them, as `separated` reads them."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(list(names))
    return stream.getvalue()


def class_task(name: str, label: str) -> str:
    """Return the name of the task of one class: ``color=red``.

    A part that contains an equals sign is quoted, so that the class ``b=c`` of ``a``
    and the class ``c`` of ``a=b`` have different names: ``a='b=c'`` and ``'a=b'=c``.
    """
    return f"{_quoted_part(name)}={_quoted_part(label)}"


def _quoted_part(part: str) -> str:
    if "=" in part:
        return repr(part)
    return part


def name_order(names: Iterable[str]) -> list[str]:
    """Return names in order: by value if all are numbers, else as texts.

    Digits in texts count as numbers: w2 comes before w10.
    """
    unique_names = sorted(set(names))
    if all(map(is_number, unique_names)):
        return sorted(unique_names, key=float)

    def natural_key(name: str) -> list[tuple[bool, int, str]]:
        # Digits by their length and value, before all other texts.
        key = []
        for part in filter(None, _DIGITS.split(name)):
            digits = part.lstrip("0")
            if _DIGITS.fullmatch(part):
                key.append((False, len(digits), digits))
            else:
                key.append((True, 0, part))
        return key

    return sorted(unique_names, key=natural_key)


def as_written(column: pd.Series, decimal: str = ".") -> pd.Series:
    """Return a column of texts as names.

    Whole numbers that pandas wrote as floats, ``7.0``, lose their ``.0``.

    That holds for columns of which every cell is a number as Python writes it, but for
    a decimal comma if the file has it, so that different cells stay different.
    """
    column = column.astype("category")
    texts = [str(name).strip().replace(decimal, ".") for name in column.cat.categories]
    if not texts or not all(map(_canonical, texts)):
        return column
    for position, text in enumerate(texts):
        # Integers keep all their digits.
        if "." in text:
            texts[position] = number_name(float(text))
    return column.cat.rename_categories(texts)


def with_point(text: str, model_names: Collection[str]) -> str:
    """Return a cell of a file with decimal commas: numbers with a point.

    A number that a model has as a name stays as it is written.
    """
    pointed = text.strip().replace(",", ".")
    if text.strip() not in model_names and _canonical(pointed):
        return pointed
    return text


def _canonical(text: str) -> bool:
    """Whether a text is a number in the one way in which Python writes it."""
    if not is_number(text):
        return False
    value = float(text)
    return text == repr(value) or (
        abs(value) < EXACT_INTEGERS and text == str(int(value))
    )


def is_plain(names: Iterable[str]) -> bool:
    """Whether names mean no more than the numbers that they are.

    Each number must be written in one way, except for a plus sign.
    """
    texts = [name.removeprefix("+") for name in names]
    return len(set(texts)) == len(texts) and all(map(_canonical, texts))


# ------------------------------------ numbers as text and as names

#: Up to here, floats represent every integer exactly.
EXACT_INTEGERS = 2.0**53
#: A number of this many digits exceeds every index.
_INDEX_DIGITS = 18

#: A number with a decimal comma, groups of thousands, a currency or a percent sign.
_MARK = "[%‰°]|[^\\W\\d_]{0,3}[$€£¥₹₽]|[A-Z]{3}|Fr\\.?|kr\\.?|zł|Kč"
_AMOUNT = r"(?:\d{1,3}(?:[\s,.'’_]\d{3})+|\d+)(?:[.,]\d+)?(?:[eE][-+]?\d+)?"
#: Times and durations, such as 12:30 and 1 days 00:00:30.5.
_TIME = r"[-+−]?(?:\d+ days?,? )?[-+]?\d{1,3}:\d\d(?::\d\d(?:[.,]\d+)?)?"
_WRITTEN_NUMBER = re.compile(
    rf"{_TIME}|\(?(?:{_MARK})?\s?[-+−–]?\s?(?:{_MARK})?\s?{_AMOUNT}\s?-?(?:{_MARK})?\)?"
)
#: The same with a unit behind it, as in 12 kg.
_WITH_UNIT = re.compile(rf"[-+−–]?\s?{_AMOUNT}\s*(?P<unit>[^\W\d_].{{0,11}})")


def is_number(text: str) -> bool:
    """Whether a text is a finite number.

    Python's 1_000 and digits of other scripts do not count.
    """
    try:
        return text.isascii() and "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False


def number_name(value: float) -> str:
    """Return a number that names a task, class or category as text.

    It is ``7`` for 7.0; all digits are kept.
    """
    if abs(value) < EXACT_INTEGERS and value == int(value):
        return f"{value + 0.0:.0f}"
    return str(float(value))


def whole(digits: str) -> int:
    """Return the integer that a text of digits stands for.

    Python itself converts at most a few thousand digits.
    """
    if len(digits) < _INDEX_DIGITS:
        return int(digits)
    return sys.maxsize


def written_numbers(names: Sequence[str], many: int) -> bool:
    """Whether names look like measured numbers.

    They are numbers with marks, such as 1 234,5 or $3, or more than `many` numbers with
    one unit.
    """
    if all(map(_WRITTEN_NUMBER.fullmatch, names)):
        return True
    if len(names) <= many:
        return False
    units = set()
    for name in names:
        match = _WITH_UNIT.fullmatch(name)
        if match is None:
            return False
        units.add(match["unit"])
    return len(units) == 1


def drop_option(names: Sequence[str]) -> str:
    """Return an option that leaves columns out, ready to paste into a shell."""
    return f"--drop {shlex.quote(quoted_list(names))}"
