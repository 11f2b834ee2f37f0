"""ARFF files, and multi-label sets of them.

Rows may be dense or sparse, names quoted, values nominal or missing. As in Weka, a
percent sign that starts a word begins a comment, and blanks separate values as commas
do.

The rows are parsed in blocks of bounded size. A block whose rows are plain numbers goes
to numpy at once; any other block is read value by value, which also finds the line and
column of errors. `read` takes the multi-label sets as Mulan (an XML list of labels next
to the file) and MEKA (``-C n`` in the relation) write them.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.names import TrainingColumns, is_missing, is_number, whole
from mtlrun.data.reading.table import Table, refuse_equal_names
from mtlrun.errors import DataError, counted, shorten
from mtlrun.utils.text import column_name

_BLOCK = 1 << 20  # characters
_SHOWN = 40  # characters of a wrong value
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(
    rf"@attribute\s+({_QUOTED}|[^\s{{'\"][^\s{{]*)\s*(.*)", re.IGNORECASE
)
_FIELD = re.compile(rf"\s*({_QUOTED}|[^,'\"\s](?:[^,]*[^,\s])?)\s*(,|$)")
_ENTRY = re.compile(rf"\s*([0-9]+)\s+({_QUOTED}|[^,'\"\s]+)(?:\s*(?:,|$)|\s+)")
#: A value between blanks or commas, as Weka splits rows.
_WORD = re.compile(rf"\s*({_QUOTED}|[^,'\"\s][^,\s]*)(?:\s*(,|$)|\s+)")
#: Pieces of a line; a comment starts where a piece is a percent sign.
_PIECE = re.compile(rf"{_QUOTED}|[^\s,{{}}'\"%][^\s,{{}}]*|[\s,]+|.")
_NUMERIC_ENTRIES = re.compile(r"(?:[0-9]++ [-+.0-9eE]++(?:, ?+|$))*+")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass
class Attribute:
    """One column of an ARFF file.

    Attributes
    ----------
    name : str
        Without quotes and escapes.
    raw : str
        As written, without quotes.
    codes : dict of str to float, or None
        Number of each nominal value: itself where all values are different numbers,
        else its position. None = numeric column.
    line : int
        Where it is declared.
    open : bool
        Whether values are texts that are not declared (string, date): they are numbered
        from 1 as they come.
    """

    name: str
    raw: str
    codes: dict[str, float] | None
    line: int
    open: bool = False

    @property
    def textual(self) -> bool:
        """Whether values are words, so that rows cannot be parsed as numbers."""
        if self.codes is None or self.open:
            return self.open
        return any(
            not is_number(value) or float(value) != code
            for value, code in self.codes.items()
        )


@dataclass
class ArffTable:
    """An ARFF file: the name of the relation, the columns and the values.

    The values are CSR if the rows are sparse.
    """

    relation: str
    attributes: list[Attribute]
    X: Any


def read_arff(file: DataFile) -> ArffTable:
    """Read an ARFF file; ``?`` is NaN, but for a nominal value of that name in quotes.

    NA and the like (`mtlrun.data.reading.names.MISSING`) are NaN as well, unless the attribute
    declares them as values. In attributes without declared values (string, date) they
    are texts.

    Raises
    ------
    DataError
        With ``file:line:column`` of the error.
    """
    lines = enumerate(file.lines(), start=1)
    relation = ""
    attributes: list[Attribute] = []
    for number, line in lines:
        text = _without_comment(line.strip().lstrip("\ufeff"))
        if not text:
            continue
        word = _keyword(text)
        if word == "@relation":
            relation = _unquote(text[len(word) :].strip())[0]
        elif word == "@attribute":
            attributes.append(_read_attribute(text, number, file))
        elif word == "@data":
            if not attributes:
                raise _wrong(file, number, 1, "@data comes before any @attribute")
            break
        else:
            raise _wrong(
                file,
                number,
                1,
                f"expected @relation, @attribute or @data, found {text[:40]!r}",
            )
    else:
        raise DataError(
            f"{file.where()}: there is no @data line",
            "The file is not an ARFF file, or its end is missing.",
        )
    parser = _RowParser(file, attributes)
    blocks: list[Any] = []
    for block in _blocks(lines):
        if block[0][1].startswith("{"):
            blocks.append(parser.sparse_rows(block))
        else:
            blocks.append(parser.dense_rows(block))
    if any(map(sparse.issparse, blocks)):
        X = sparse.vstack([sparse.csr_matrix(b) for b in blocks], format="csr")
        X.eliminate_zeros()
    else:
        X = np.concatenate([np.empty((0, len(attributes))), *blocks])
    return ArffTable(relation, attributes, X)


def arff_table(file: DataFile, like: TrainingColumns | None = None) -> Table:
    """Return an ARFF file as a table; the labels of MEKA are its targets."""
    table = read_arff(file)
    names = [column_name(attribute.name) for attribute in table.attributes]
    if not table.X.shape[0]:
        raise DataError(
            f"{file.where()}: no rows", "Check that the file was saved completely."
        )
    refuse_equal_names(names, file.where())
    # MEKA counts the labels from the end if the number is negative.
    n_labels = meka_labels(table.relation) or 0
    targets: list[str] = []
    if n_labels > 0:
        targets = names[:n_labels]
    elif n_labels < 0:
        targets = names[len(names) + n_labels :]
    words = {}
    textual_columns = {}
    numeric_positions = []
    for position, attribute in enumerate(table.attributes):
        name = names[position]
        if not attribute.textual:
            numeric_positions.append(position)
            continue
        textual_columns[name] = words_of(table, position)
        if not attribute.open:
            words[name] = list(attribute.codes or ())

    def written(name: str) -> pd.Series:
        return words_of(table, names.index(name))

    if sparse.issparse(table.X):
        return Table(
            file.where(),
            pd.DataFrame(textual_columns, index=range(table.X.shape[0])),
            table.X.tocsc()[:, numeric_positions].tocsr(),
            [names[position] for position in numeric_positions],
            targets,
            words=words,
            order=names,
            written=written,
        )
    columns: dict[str, Any] = {}
    for position, name in enumerate(names):
        if name in textual_columns:
            columns[name] = textual_columns[name]
        else:
            columns[name] = table.X[:, position]
    frame = pd.DataFrame(columns)
    return Table(
        file.where(), frame, default_targets=targets, words=words, written=written
    )


def columns_of(table: ArffTable, names: Sequence[str], file: DataFile) -> list[int]:
    """Return the positions of the columns of these names (as written, or unescaped).

    Raises
    ------
    DataError
        If no column or more than one has a name.
    """
    places: dict[str, list[int]] = {}
    for j, attribute in enumerate(table.attributes):
        for name in {attribute.name, attribute.raw}:
            places.setdefault(name, []).append(j)
    for name in names:
        count = len(places.get(name, ()))
        if count != 1:
            raise DataError(
                f"{file.where()}: {count or 'no'} columns are named {name!r}, expected "
                "one"
            )
    return [places[name][0] for name in names]


def words_of(table: ArffTable, j: int) -> pd.Series:
    """Return a nominal column in its words, a numeric one as numbers."""
    attribute = table.attributes[j]
    values = table.X[:, [j]]
    if sparse.issparse(values):
        values = values.toarray()
    values = values.ravel()
    if attribute.codes is None:
        return pd.Series(values, name=attribute.name)
    words = list(attribute.codes)
    codes_of_words = list(attribute.codes.values())
    order = np.argsort(codes_of_words)
    sorted_codes = np.array(codes_of_words)[order]
    if len(sorted_codes):
        last = len(sorted_codes) - 1
        positions = np.searchsorted(sorted_codes, values)
        positions = np.minimum(positions, last)
        # A value without a code, such as NaN, is missing.
        has_code = sorted_codes[positions] == values
        codes = np.where(has_code, order[positions], -1)
    else:
        codes = np.full(len(values), -1)
    categories = pd.Categorical.from_codes(codes, pd.Index(words, dtype=object))
    return pd.Series(categories, name=attribute.name)


def meka_labels(relation: str) -> int | None:
    """Return the number of labels that MEKA names by ``-C n`` in a relation.

    They are the first n columns, or the last -n.
    """
    match = re.search(r"-C\s+(-?)([0-9]+)", relation)
    if match is None:
        return None
    return int(f"{match[1]}{whole(match[2])}")


def _keyword(text: str) -> str:
    """Return the first word in lower case, without a comment directly behind it."""
    return re.split(r"[\s%]", text.lower(), maxsplit=1)[0]


def _read_attribute(text: str, number: int, file: DataFile) -> Attribute:
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        raise _wrong(file, number, 1, f"cannot read the attribute {text[:60]!r}")
    name, raw = _unquote(match[1])
    kind = match[2].strip()
    word = _keyword(kind)
    if word in ("numeric", "real", "integer"):
        return Attribute(name, raw, None, number)
    if word in ("string", "date"):
        return Attribute(name, raw, {}, number, open=True)
    if kind.startswith("{") and kind.endswith("}"):
        body = kind[1:-1]
        offset = match.start(2) + 2
        words = _words(body, offset)
        try:
            fields = list(_fields(body, file, number, offset))
        except DataError:
            if words is None:
                raise
            fields = words
        # Without commas, blanks separate the values.
        if len(fields) == 1 and words is not None:
            fields = words
        values = [_unquote(text)[0] for text, _ in fields]
        codes = {value: float(position) for position, value in enumerate(values)}
        if all(map(is_number, values)):
            numbers = {value: float(value) for value in values}
            # Texts such as 1 and 1.0 are different values with the same number.
            if len(set(numbers.values())) == len(numbers):
                codes = numbers
        return Attribute(name, raw, codes, number)
    raise _wrong(
        file,
        number,
        match.start(2) + 1,
        f"attribute {name!r} is of type {kind[:30]!r}; wanted numeric, {{nominal}}, "
        "string or date",
    )


class _RowParser:
    """Turns blocks of rows into arrays, the quick way where it applies."""

    def __init__(self, file: DataFile, attributes: list[Attribute]) -> None:
        self.file = file
        self.attributes = attributes
        self.width = len(attributes)
        self.numeric = not any(a.textual for a in attributes)
        self.allowed: dict[tuple[float, ...], np.ndarray] = {}
        for j, attribute in enumerate(attributes):
            if attribute.codes is not None:
                values = tuple(sorted(attribute.codes.values()))
                no_columns = np.zeros(self.width, dtype=bool)
                self.allowed.setdefault(values, no_columns)[j] = True

    def dense_rows(self, block: list[tuple[int, str]]) -> np.ndarray:
        X = self._dense_numbers([text for _, text in block])
        if X is not None:
            return X
        # Row by row: words, quotes and gaps, or an error that names its line.
        rows = []
        for number, text in block:
            try:
                fields = list(_fields(text, self.file, number, 1))
                rows.append(self._row_values(fields, number))
            except DataError:
                # Perhaps blanks separate the values, or a comment touches the last one.
                words = _words(_without_comment(text, touching=True), 1)
                if words is None or len(words) != self.width:
                    raise
                rows.append(self._row_values(words, number))
        return np.array(rows)

    def _dense_numbers(self, texts: list[str]) -> np.ndarray | None:
        """Return a matrix if the rows hold nothing but valid numbers, else None."""
        n_commas = self.width - 1
        if not self.numeric or any(text.count(",") != n_commas for text in texts):
            return None
        values = _numbers(",".join(texts), ",")
        if values is None or values.size != len(texts) * self.width:
            return None
        X = values.reshape(len(texts), self.width)
        for code_set, columns in self.allowed.items():
            if not np.isin(X[:, columns], code_set).all():
                return None
        return X

    def sparse_rows(self, block: list[tuple[int, str]]) -> sparse.csr_matrix:
        for attribute in self.attributes:
            if attribute.codes and not attribute.open:
                first, code = next(iter(attribute.codes.items()))
                if code != 0:
                    text = (
                        f"rows are sparse, so an omitted {attribute.name!r} would mean "
                        f"{first!r}, not zero"
                    )
                    raise _wrong(self.file, attribute.line, 1, text)
        bodies = []
        for number, text in block:
            if not text.startswith("{"):
                raise _wrong(self.file, number, 1, "a dense row among sparse ones")
            if not text.endswith("}"):
                raise _wrong(
                    self.file,
                    number,
                    len(text),
                    "the row does not end with '}' (truncated, or an instance weight)",
                )
            bodies.append(text[1:-1].strip())
        if self.numeric and all(map(_NUMERIC_ENTRIES.fullmatch, bodies)):
            X = self._sparse_numbers(bodies)
            if X is not None:
                return X
        X = sparse.lil_matrix((len(block), self.width))
        for i, body in enumerate(bodies):
            number, text = block[i]
            first_column = text.index("{") + 2
            entries = self._sparse_row(number, body, first_column)
            columns = sorted(entries)
            X.rows[i] = columns
            X.data[i] = [entries[j] for j in columns]
        return X.tocsr()

    def _sparse_numbers(self, bodies: list[str]) -> sparse.csr_matrix | None:
        # An entry is a column and a value: "0 1.5, 3 2".
        pairs = _numbers(" ".join(bodies).replace(",", " "), " ")
        counts = np.array([body.count(",") + (body != "") for body in bodies])
        if pairs is None or pairs.size != 2 * counts.sum():
            return None
        columns = pairs[::2].astype(np.int64)
        values = pairs[1::2]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        # Columns must rise within a row. The first entry of a row has none before it.
        first_entries = indptr[:-1][counts > 0]
        is_within = np.ones(columns.size, dtype=bool)
        is_within[first_entries] = False
        steps = np.diff(columns, prepend=-1)
        is_rising = steps[is_within] > 0
        if not is_rising.all() or (columns.size and columns.max() >= self.width):
            return None
        for code_set, is_nominal in self.allowed.items():
            codes = values[is_nominal[columns]]
            if not np.isin(codes, code_set).all():
                return None
        shape = (len(bodies), self.width)
        return sparse.csr_matrix((values, columns, indptr), shape=shape)

    def _row_values(self, fields: list[tuple[str, int]], number: int) -> list[float]:
        """Return the values of a dense row from their texts and columns."""
        if len(fields) != self.width:
            raise _wrong(
                self.file,
                number,
                1,
                f"the row has {counted(len(fields), 'value')}, expected {self.width}",
            )
        return [
            self._value(a, v, number, c)
            for a, (v, c) in zip(self.attributes, fields, strict=True)
        ]

    def _sparse_row(self, number: int, body: str, offset: int) -> dict[int, float]:
        entries: dict[int, float] = {}
        position = 0
        while position < len(body):
            match = _ENTRY.match(body, position)
            if match is None:
                raise _wrong(
                    self.file,
                    number,
                    offset + position,
                    f"expected 'column value', found {body[position:][:30]!r}",
                )
            column = whole(match[1])
            if column >= self.width or column in entries:
                why = "it is given twice"
                if column >= self.width:
                    why = f"there are {counted(self.width, 'column')}"
                raise _wrong(
                    self.file,
                    number,
                    offset + match.start(1),
                    f"column {shorten(match[1], _SHOWN)}: {why}",
                )
            entries[column] = self._value(
                self.attributes[column], match[2], number, offset + match.start(2)
            )
            position = match.end()
        return entries

    def _value(
        self, attribute: Attribute, text: str, number: int, column: int
    ) -> float:
        value = _unquote(text)[0]
        if value == "?" and (
            text == value or value not in (attribute.codes or ())
        ):  # in quotes it may be a value
            return float("nan")
        codes = attribute.codes
        value_text = repr(shorten(value, _SHOWN))
        if codes is None:
            if is_number(value):
                return float(value)
            if is_missing(value):
                return math.nan
            text = (
                f"the value of {attribute.name!r} must be a finite number, not "
                f"{value_text}"
            )
            raise _wrong(self.file, number, column, text)
        if attribute.open:
            return codes.setdefault(value, len(codes) + 1.0)
        if value in codes:
            return codes[value]
        if (
            not attribute.textual
            and is_number(value)
            and float(value) in codes.values()
        ):
            return float(value)
        if is_missing(value):  # not declared, so it is missing
            return math.nan
        categories = shorten(", ".join(list(codes)[:8]), 4 * _SHOWN)
        raise _wrong(
            self.file,
            number,
            column,
            f"{value_text} is not a value of {attribute.name!r} ({categories})",
        )


def _blocks(lines: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yield rows in blocks of one kind and about `_BLOCK` characters.

    Blank lines and comments are left out.
    """
    block: list[tuple[int, str]] = []
    size = 0
    kind = False
    for number, line in lines:
        text = _without_comment(line.strip())
        if not text:
            continue
        if block and (size > _BLOCK or text.startswith("{") != kind):
            yield block
            block = []
            size = 0
        kind = text.startswith("{")
        block.append((number, text))
        size += len(text)
    if block:
        yield block


def _numbers(text: str, separator: str) -> np.ndarray | None:
    """Return the finite numbers of a text, or None when anything else is in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy 1 warns where numpy 2 raises
        try:
            if text:
                values = np.fromstring(text, sep=separator)
            else:
                values = np.empty(0)
        except (ValueError, DeprecationWarning):
            return None
    if np.isfinite(values).all():
        return values
    return None


def _fields(
    text: str, file: DataFile, number: int, offset: int
) -> Iterator[tuple[str, int]]:
    """Yield the comma-separated values, as written, and their columns."""
    position = 0
    has_more = True
    while has_more:
        match = _FIELD.match(text, position)
        if match is None:
            raise _wrong(
                file,
                number,
                offset + position,
                f"cannot read a value at {text[position:][:30]!r}",
            )
        yield match[1], offset + match.start(1)
        position = match.end()
        has_more = match[2] == ","


def _words(text: str, offset: int) -> list[tuple[str, int]] | None:
    """Return values between blanks or single commas, as written, and their columns.

    Return None where values cannot be distinguished.
    """
    words = []
    position = 0
    has_more = True
    while has_more:
        match = _WORD.match(text, position)
        if match is None:
            return None
        words.append((match[1], offset + match.start(1)))
        position = match.end()
        has_more = match[2] == "," or position < len(text)
    return words


def _without_comment(text: str, *, touching: bool = False) -> str:
    """Return a line without its comment.

    A comment starts with a percent sign outside of quotes and braces, in front of a
    word, or with `touching` inside of it. A percent sign at the end of the line starts
    no comment inside a word: 50%.
    """
    if "%" not in text:
        return text
    depth = 0
    for match in _PIECE.finditer(text):
        piece = match[0]
        start = match.start()
        if piece == "{":
            depth += 1
        elif piece == "}":
            depth -= 1
        elif piece == "%" and depth <= 0:
            return text[:start].rstrip()
        elif touching and "%" in piece and piece[0] not in "'\"":
            start += piece.index("%")
            if start + 1 < len(text):
                return text[:start]
    return text


def _unquote(text: str) -> tuple[str, str]:
    """Return a name without quotes: (escapes resolved, escapes kept)."""
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        raw = text[1:-1]
    else:
        raw = text
    return re.sub(r"\\(.)", lambda char: _ESCAPES.get(char[1], char[1]), raw), raw


def _wrong(file: DataFile, line: int, column: int, text: str) -> DataError:
    return DataError(f"{file.where(line, column)}: {text}")


# ------------------------------------ multi-label sets of Mulan and MEKA
