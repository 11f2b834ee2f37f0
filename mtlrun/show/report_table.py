"""Tables of raw values, and their text in Markdown, CSV, JSON, HTML and LaTeX.

A `ReportTable` holds raw values. The functions of this module format it for one kind of
output; equal tables give the same bytes on every machine.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Any

from mtlrun.utils.text import table_text

#: Text of a missing value.
MISSING = "-"


@dataclass(frozen=True)
class Column:
    """Column of a table.

    Attributes
    ----------
    name : str
        Header.
    kind : {"text", "score", "seconds", "duration", "number", "ratio", "count", \
            "small", "gain", "pvalue", "fixed-0" to "fixed-9"}
        How values are formatted (see `show`). Text is aligned to the left, other kinds
        are aligned to the right.
    """

    name: str
    kind: str = "text"


@dataclass(frozen=True)
class Styled:
    """Text with a style.

    Attributes
    ----------
    text : str
    bold : bool
    tone : str
        Verdict whose color the text takes on pages; empty for none.
    address : str
        Target of a link; empty for none. It is not escaped, so it must not contain text
        from users.
    """

    text: str
    bold: bool = False
    tone: str = ""
    address: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass
class ReportTable:
    """Table of raw values.

    Attributes
    ----------
    columns : list of Column
    rows : list of list
        One value per column: str, int, float, Styled, or None where it is missing.
    """

    columns: list[Column]
    rows: list[list[Any]] = field(default_factory=list)

    @classmethod
    def of(
        cls, *columns: str | Column, rows: Iterable[Sequence[Any]] = ()
    ) -> ReportTable:
        """Create a table from short descriptions of its columns.

        Parameters
        ----------
        *columns : str or Column
            ``"name"`` is a column of text and ``"name:kind"`` one of that kind. A name
            that may contain a colon must be given as `Column`.
        rows : iterable of sequence
            One value per column.
        """
        return cls(list(map(_parse_column, columns)), list(map(list, rows)))

    @property
    def names(self) -> list[str]:
        """Headers of the columns."""
        return [column.name for column in self.columns]

    def _format_cells(self, format_cell: Callable[[Any, str], str]) -> list[list[str]]:
        """Format each value, given the kind of its column."""
        table = []
        for row in self.rows:
            texts = []
            for value, column in zip(row, self.columns, strict=True):
                texts.append(format_cell(value, column.kind))
            table.append(texts)
        return table

    def texts(self) -> list[list[str]]:
        """Return the rows as formatted text."""
        return self._format_cells(show)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries of raw values; styled values become text."""
        records = []
        for row in self.rows:
            values = map(_without_style, row)
            records.append(dict(zip(self.names, values, strict=True)))
        return records

    def add(self, column: str | Column, values: Sequence[Any]) -> None:
        """Add a column, described as for `of`, with its values."""
        self.columns.append(_parse_column(column))
        for row, value in zip(self.rows, values, strict=True):
            row.append(value)

    def part(self, indices: Sequence[int]) -> ReportTable:
        """Return a table of the columns with these indices, in this order."""
        columns = [self.columns[index] for index in indices]
        rows = []
        for row in self.rows:
            rows.append([row[index] for index in indices])
        return ReportTable(columns, rows)

    def within(self, width: int) -> list[ReportTable]:
        """Split the table into tables that fit into `width` characters.

        Each of them repeats the first column. A column that is too wide on its own gets
        a table of its own, which exceeds the width.
        """
        gap = 2
        columns = zip(*text_rows(self), strict=True)
        widths = [max(map(len, texts)) + gap for texts in columns]
        groups = [[0]]
        group_width = widths[0]
        for index in range(1, len(widths)):
            # The last column of a line needs no gap behind it.
            is_full = group_width + widths[index] > width + gap
            if len(groups[-1]) > 1 and is_full:
                groups.append([0])
                group_width = widths[0]
            groups[-1].append(index)
            group_width += widths[index]
        return list(map(self.part, groups))


def _parse_column(column: str | Column) -> Column:
    if isinstance(column, Column):
        return column
    return Column(*column.split(":"))


def _without_style(value: Any) -> Any:
    if isinstance(value, Styled):
        return value.text
    return value


@dataclass
class Section:
    """Section of a report.

    Attributes
    ----------
    title : str
    lines : list of str
        Sentences above the tables; lines that start with ``"* "`` are bullets.
    grids : list of ReportTable
    fold : bool
        Whether a page shows the section folded.
    """

    title: str
    lines: list[str] = field(default_factory=list)
    grids: list[ReportTable] = field(default_factory=list)
    fold: bool = False

    @property
    def empty(self) -> bool:
        """Whether the section has neither sentences nor rows."""
        return not self.lines and not any(grid.rows for grid in self.grids)


def score(value: float) -> str:
    """Format with four decimals; large or tiny values with four significant digits."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return _fixed(value, 4)
    return f"{value:.3e}"


def significant(value: float, digits: int = 3) -> str:
    """Format with `digits` significant digits, without an exponent from 1e-4 to 1e6."""
    if value == 0:
        return "0"
    scientific = f"{value:.{digits - 1}e}"
    if not 1e-4 <= abs(value) < 1e6:
        return scientific
    # Rounding may have raised the exponent: 9.999 has three significant digits as 10.0.
    exponent = math.floor(math.log10(abs(float(scientific))))
    n_decimals = max(0, digits - 1 - exponent)
    return f"{value:.{n_decimals}f}"


def duration(seconds: float) -> str:
    """Format a time in seconds, in minutes from 2 minutes, in hours from 2 hours."""
    if 0 < seconds < 0.1:
        return "below 0.1 s"
    if seconds < 120:
        return f"{significant(seconds)} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def number(value: float, digits: int = 4) -> str:
    """Format a whole number without decimals, others with up to `digits` digits."""
    if value == int(value) and abs(value) < 1e12:
        return _fixed(value, 0)
    text = significant(value, digits)
    has_decimals = "." in text and "e" not in text
    if has_decimals:
        return text.rstrip("0").rstrip(".")
    return text


def pvalue(value: float) -> str:
    """Format a p-value with three decimals, or as below 0.001."""
    if 0 <= value < 5e-4:
        return "<0.001"
    return f"{value:.3f}"


def _ratio(value: float) -> str:
    return f"{significant(value)}x"


def _fixed(value: float, decimals: int) -> str:
    """Format with this number of decimals; a rounded zero has no sign."""
    return f"{value:z.{decimals}f}"


_FORMATS: dict[str, Callable[[float], str]] = {
    "score": score,
    "seconds": significant,
    "duration": duration,
    "number": number,
    "ratio": _ratio,
    "count": partial(_fixed, decimals=0),
    "small": "{:.2g}".format,
    # Gains are shares: small and large ones of a column have the same decimals.
    "gain": partial(_fixed, decimals=4),
    "pvalue": pvalue,
}
#: Most decimals of a column whose numbers all have the same number of decimals.
MAX_DECIMALS = 9
for _decimals in range(MAX_DECIMALS + 1):
    _FORMATS[f"fixed-{_decimals}"] = partial(_fixed, decimals=_decimals)


def fixed_kind(values: Iterable[float], digits: int = 4) -> str:
    """Return the kind of a column whose numbers all have the same number of decimals.

    The largest number has `digits` significant digits. Columns of very large or very
    small numbers are of kind "number".
    """
    sizes = [abs(value) for value in values if math.isfinite(value)]
    largest = max(sizes, default=0.0)
    if largest == 0:
        return "fixed-0"
    # The exponent of the rounded number: 9.9996 is shown as 10.00.
    exponent = int(f"{largest:.{digits - 1}e}".partition("e")[2])
    n_decimals = max(digits - 1 - exponent, 0)
    if largest >= 1e6 or n_decimals > MAX_DECIMALS:
        return "number"
    return f"fixed-{n_decimals}"


def show(value: object, kind: str = "text") -> str:
    """Format a value for a column of this kind.

    None and NaN become a dash. Text, booleans and infinities are converted by `str`.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    format_number = _FORMATS.get(kind, plain)
    return format_number(value)


def plain(value: float) -> str:
    """Format a number for programs: an integer exactly, a float with ten digits."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.10g}"


def rounded(value: object) -> Any:
    """Round the floats of a JSON value to ten significant digits.

    Another processor or library changes later digits. NaN and infinities become None,
    because JSON has no such numbers.
    """
    if isinstance(value, dict):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(rounded, value))
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return float(f"{value:.10g}")


def json_text(content: object) -> str:
    """Return plain data as JSON, with numbers rounded by `rounded`."""
    text = json.dumps(rounded(content), indent=1, ensure_ascii=False, allow_nan=False)
    return f"{text}\n"


def markdown_grid(grid: ReportTable) -> str:
    """Return an aligned Markdown table."""
    names = list(map(escape_markdown, grid.names))
    body = grid._format_cells(_markdown_cell)
    # Markdown needs three dashes in the rule below the header.
    header, *rows = padded([names, *body], grid.columns, min_width=3)
    rule = []
    for text, column in zip(header, grid.columns, strict=True):
        if column.kind == "text":
            rule.append("-" * len(text))
        else:
            rule.append("-" * (len(text) - 1) + ":")
    lines = map(" | ".join, [header, rule, *rows])
    return "\n".join(f"| {line} |" for line in lines)


def _markdown_cell(value: object, kind: str) -> str:
    text = escape_markdown(show(value, kind))
    if not isinstance(value, Styled):
        return text
    if value.address:
        return f"[{text}]({value.address})"
    if value.bold:
        return f"**{text}**"
    return text


#: Style of the cells in `html_block`: notebooks set none.
_CELL_STYLE = "padding:.2em .6em;text-align:left"


def html_block(title: str, lines: Sequence[str], sections: Sequence[Section]) -> str:
    """Return title, sentences and tables as HTML without a style sheet, for
    notebooks.
    """
    parts = [f"<p><b>{escape(title)}</b></p>"]
    parts += [f"<p>{escape(line)}</p>" for line in lines]
    for section in sections:
        if section.title:
            parts.append(f"<p>{escape(section.title)}</p>")
        for table in section.grids:
            rows = [_html_row("th", table.names)]
            rows += [_html_row("td", texts) for texts in table.texts()]
            parts.append(
                f'<div style="overflow-x:auto"><table>{"".join(rows)}</table></div>'
            )
    return "\n".join(parts)


def _html_row(tag: str, texts: Sequence[str]) -> str:
    cells = [f'<{tag} style="{_CELL_STYLE}">{escape(text)}</{tag}>' for text in texts]
    return f"<tr>{''.join(cells)}</tr>"


def markdown_section(section: Section) -> str:
    """Return a section as Markdown: heading, sentences or a list of bullets, tables."""
    parts = [f"## {section.title}"]
    if section.lines:
        separator = "\n\n"
        if are_bullets(section.lines):
            separator = "\n"
        parts.append(separator.join(section.lines))
    parts += [markdown_grid(table) for table in section.grids if table.rows]
    # A section may consist of empty lines only.
    return "\n\n".join(filter(None, parts))


def are_bullets(lines: Sequence[str]) -> bool:
    """Return whether all lines are bullets of a list."""
    return all(line.startswith("* ") for line in lines)


def csv_grid(grid: ReportTable, *, safe: bool = True) -> str:
    """Return a table as CSV with raw numbers; missing values are empty.

    Parameters
    ----------
    grid : ReportTable
    safe : bool, default=True
        For reports whose texts may come from others: put an apostrophe in front of
        texts that a spreadsheet takes for formulas. Otherwise texts stay as they are,
        so that names in different files are equal.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in (grid.names, *grid.rows):
        cells = []
        for value in row:
            if not isinstance(value, str):
                cells.append(rounded(value))
            elif safe:
                cells.append(table_text(value))
            else:
                cells.append(value)
        writer.writerow(cells)
    return stream.getvalue()


def padded(
    rows: Sequence[Sequence[str]], columns: Sequence[Column], min_width: int = 0
) -> list[list[str]]:
    """Pad texts to the widths of their columns; align all but text to the right."""
    aligned_columns = []
    for column, texts in zip(columns, zip(*rows, strict=True), strict=True):
        width = max(min_width, *map(len, texts))
        if column.kind == "text":
            aligned_columns.append([text.ljust(width) for text in texts])
        else:
            aligned_columns.append([text.rjust(width) for text in texts])
    return list(map(list, zip(*aligned_columns, strict=True)))


def text_rows(grid: ReportTable) -> list[list[str]]:
    """Return the names of the columns and the rows as padded text."""
    return padded([grid.names, *grid.texts()], grid.columns)


def text_lines(
    grid: ReportTable, width: int | None = None, drop_first: Sequence[str] = ()
) -> list[str]:
    """Return the lines of a table as text.

    Parameters
    ----------
    grid : ReportTable
    width : int, default=None
        Greatest number of characters of a line; None for no limit.
    drop_first : sequence of str
        Names of columns to drop, one after the other, while the table is wider than
        `width`. A table that is still too wide without them is returned as it is.
    """
    lines = _join_columns(grid)
    for name in drop_first:
        if width is None or max(map(len, lines)) <= width:
            break
        names = enumerate(grid.names)
        grid = grid.part([index for index, other in names if other != name])
        lines = _join_columns(grid)
    return lines


def _join_columns(table: ReportTable) -> list[str]:
    return ["  ".join(row).rstrip() for row in text_rows(table)]


def escape_markdown(text: str) -> str:
    """Escape text for a cell of a Markdown table: line breaks, bars, links, tags."""
    line = " ".join(text.split())
    line = line.replace("|", "\\|").replace("](", "]\\(")
    return escape_html(line)


def escape_html(markdown: str) -> str:
    """Escape HTML tags in Markdown."""
    return _TAG.sub("&lt;", markdown)


#: Start of an HTML tag; ``a < b`` has none.
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
#: Characters that LaTeX interprets or lacks, with their replacements.
_TEX = str.maketrans(
    {
        "{": r"\{",
        "}": r"\}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "≤": r"$\le$",
        "≥": r"$\ge$",
        "–": "--",
        "—": "---",
        "’": "'",
    }
)


def escape_tex(text: str) -> str:
    """Escape the characters that LaTeX interprets.

    Characters that are neither Latin letters nor in `_TEX` become question marks,
    because the usual fonts lack them.
    """
    characters = []
    for character in " ".join(text.split()):
        is_printable = character < "\u0180" or ord(character) in _TEX
        if not is_printable:
            character = "?"
        characters.append(character)
    return "".join(characters).translate(_TEX)


def tex_grid(
    grid: ReportTable, align: str | None = None, caption: str | None = None
) -> str:
    """Return a table as a LaTeX tabular with the rules of booktabs.

    Parameters
    ----------
    grid : ReportTable
    align : str, default=None
        Column specification; by default ``l`` for text and ``r`` for numbers.
    caption : str, default=None
        LaTeX text of the caption; a table with a caption floats.
    """
    # Importing pandas takes long; `mtlrun status` and `mtlrun list` need no LaTeX.
    import pandas as pd

    names = list(map(escape_tex, grid.names))
    cells = pd.DataFrame(grid._format_cells(_tex_cell), columns=names)
    if align is None:
        align = ""
        for column in grid.columns:
            align += "l" if column.kind == "text" else "r"
    latex = cells.to_latex(
        index=False, escape=False, column_format=align, caption=caption
    )
    text = str(latex).rstrip("\n")
    return text.replace("\\begin{table}\n", "\\begin{table}\n\\centering\n", 1)


def _tex_cell(value: object, kind: str) -> str:
    text = escape_tex(show(value, kind))
    if isinstance(value, Styled) and value.bold:
        return rf"\textbf{{{text}}}"
    return text
