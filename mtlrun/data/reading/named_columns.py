"""Columns of a table as a user names them: names, patterns, and files with labels."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from xml.parsers import expat

from mtlrun.data.reading.files import DataFile, data_file
from mtlrun.data.reading.names import quoted_list, separated
from mtlrun.data.reading.table import Table
from mtlrun.errors import DataError, UnknownNameError, counted
from mtlrun.utils.text import column_name, several


def target_columns(
    table: Table,
    target: str | None = None,
    targets: str | Sequence[str] = (),
    last: int | None = None,
    labels: Path | None = None,
    drop: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the columns to predict, which may be named in one of four ways.

    Parameters
    ----------
    table : Table
    target : str, optional
        One column.
    targets : str or sequence of str
        Columns; ``y*`` stands for all columns that match.
    last : int, optional
        Number of columns, at the end of the table.
    labels : Path, optional
        Mulan's list of labels.
    drop : sequence of str
        Columns that are not targets, although a list of labels, a pattern or the format
        of the file names them.

    Raises
    ------
    UnknownNameError
        For a name or pattern without a column.
    DataError
        For more than one way, a number that leaves no feature, or a list of labels of
        another table.
    """
    named = several(targets)
    if sum(map(bool, (target, named, last, labels))) > 1:
        raise DataError(
            "the targets are named more than once",
            "Give only one of --target, --targets, --targets-last and --labels.",
        )
    if last is not None:
        if not 0 < last < len(table.columns):
            text = (
                f"{table.name}: {last} targets of "
                f"{counted(len(table.columns), 'column')}"
            )
            raise DataError(
                text, "--targets-last takes a number that leaves columns as features."
            )
        return _without(table.columns[-last:], drop)
    if labels is not None:
        names = several(read_labels(data_file(labels)[0]))
        available = set(table.columns)
        for name in names:
            if name not in available:
                kind = f"label of {labels}, as a column of {table.name},"
                raise UnknownNameError(kind, name, table.columns)
        return _without(names, drop)
    if target:
        return (column_name(target),)
    columns = []
    for name in matching(named, table):
        if name not in drop or name in named:
            columns.append(name)
    if drop and not named:
        # Without a choice of the user the format names the targets.
        columns = [name for name in table.default_targets if name not in drop]
    return tuple(columns)


def _without(names: Sequence[str], drop: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in drop)


def label_list(
    data: Any, labels: str | Path | None, *, other: bool
) -> tuple[Any, Path | None]:
    """Return a table and Mulan's list of its labels.

    They are a pair, or files of the same name.

    Parameters
    ----------
    data : data frame, path, or pair of paths in any order
    labels : path, optional
    other : bool
        Whether the targets are named in another way, so that no list is looked for.

    Raises
    ------
    DataError
        For a pair without an .xml file, or with a second list.
    """
    if isinstance(data, list | tuple) and all(
        isinstance(item, str | Path) for item in data
    ):
        lists = []
        tables = []
        for item in data:
            if Path(item).suffix.lower() == ".xml":
                lists.append(Path(item))
            else:
                tables.append(item)
        if len(tables) != 1 or len(lists) > 1 or (lists and labels):
            n_lists = counted(len(lists) + bool(labels), "list")
            raise DataError(
                f"{counted(len(tables), 'table')} and {n_lists} of labels",
                "Give one table, and for Mulan's format one .xml file of its labels.",
            )
        data = tables[0]
        if lists:
            labels = lists[0]
    if labels is None and not other and isinstance(data, str | Path):
        # Mulan publishes its sets as emotions.arff with emotions.xml; an ARFF file may
        # be compressed.
        path = Path(data)
        stem, arff, _ = path.name.partition(".arff")
        same_name = path.with_name(f"{stem}.xml")
        if arff and same_name.is_file():
            labels = same_name
    if labels is None:
        return data, None
    return data, Path(labels)


def read_labels(file: DataFile) -> list[str]:
    """Return the names in Mulan's XML list of labels, in document order.

    Nested labels are included.

    Document types are refused, so that no entity is ever expanded.

    Raises
    ------
    DataError
        With line and column if it is not a well-formed list of labels.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    names: dict[str, None] = {}  # a set that keeps the order

    def fail(text: str) -> None:
        raise DataError(
            f"{file.where(parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)}: "
            f"{text}"
        )

    def start(tag: str, attributes: dict[str, str]) -> None:
        kind = tag.rpartition(" ")[2]
        if kind == "labels" and not names:
            return
        if kind != "label" or "name" not in attributes:
            fail(f"expected <labels> with <label name=...> in it, found <{kind}>")
        if attributes["name"] in names:
            fail(f"the label {attributes['name']!r} is listed twice")
        names[attributes["name"]] = None

    def refuse_doctype(*_: Any) -> None:
        fail("a DOCTYPE is refused (it could define entities)")

    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse_doctype
    try:
        parser.Parse(file.read_bytes(), True)
    except expat.ExpatError as error:
        location = file.where(error.lineno, error.offset + 1)
        raise DataError(
            f"{location}: not well-formed XML: {expat.ErrorString(error.code)}"
        ) from None
    except (LookupError, ValueError) as error:  # of the codec that the first line names
        raise DataError(
            f"{file.where(1)}: not an encoding of XML: {error}",
            "Save the file as UTF-8.",
        ) from None
    if not names:
        raise DataError(f"{file.where()}: the list of labels is empty")
    return list(names)


def matching(names: Sequence[str], table: Table) -> tuple[str, ...]:
    """Return the columns that are named, each once.

    A text is the name of a column, else a pattern (``y*``, ``y?`` and ``y[12]`` stand
    for the columns that match), else several of these with commas between them. Names
    that contain commas are quoted there: ``"Oil, kg",x``.

    Raises
    ------
    UnknownNameError
        For a pattern, or a part of a list, that matches nothing. A plain name is
        returned as it is.
    """
    result: dict[str, None] = {}
    for text in names:
        parts = separated(text, table.columns)
        if parts == [text]:
            result |= dict.fromkeys(_matching(text, table))
            continue
        for part in parts:
            columns = _matching(part, table)
            if columns == [part] and part not in table.columns:
                raise _no_column(part, table)
            result |= dict.fromkeys(columns)
    return tuple(result)


def _matching(name: str, table: Table) -> list[str]:
    if name in table.columns or not set(name) & set("*?["):
        return [name]
    columns = [column for column in table.columns if fnmatchcase(column, name)]
    if not columns:
        raise _no_column(name, table)
    return columns


def _no_column(name: str, table: Table) -> UnknownNameError:
    error = UnknownNameError(
        "column",
        name,
        table.columns,
        f"{table.name}{table.part} has no column {name!r}",
    )
    with_commas = [column for column in table.columns if "," in column]
    if with_commas:
        example = quoted_list(with_commas[:1])
        error.remedy = f"{error.remedy} Quote names with commas: {example}"
    return error
