"""Grids of raw values and their text in Markdown, CSV, JSON and LaTeX: the same bytes on every machine."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from mtlrun.utils.text import table_text

MISSING = "-"


@dataclass(frozen=True)
class Column:
    """A column: its name and how its values are written.

    Attributes
    ----------
    name : str
        Header.
    kind : {"text", "score", "seconds", "duration", "number", "ratio", "count", "small", "gain"}
        Key of the formats below; everything but text is set to the right.
    """

    name: str
    kind: str = "text"


@dataclass(frozen=True)
class Styled:
    """A text that is more than its letters.

    Attributes
    ----------
    text : str
    bold : bool
    tone : str
        Verdict in whose colour it is set.
    address : str
        Where it leads; one that we made ourselves.
    """

    text: str
    bold: bool = False
    tone: str = ""
    address: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass
class ReportTable:
    """Columns and rows of raw values (str, int, float, Styled or None)."""

    columns: list[Column]
    rows: list[list[Any]] = field(default_factory=list)

    @classmethod
    def of(
        cls, *columns: str | Column, rows: Iterable[Sequence[Any]] = ()
    ) -> ReportTable:
        """Return a grid; names of our own may stand for columns: ``name``, or ``name:kind``."""
        made = [
            column if isinstance(column, Column) else Column(*column.split(":"))
            for column in columns
        ]
        return cls(made, [list(row) for row in rows])

    def texts(self) -> list[list[str]]:
        """Return the rows as formatted text."""
        return [
            [show(value, c.kind) for value, c in zip(row, self.columns, strict=True)]
            for row in self.rows
        ]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as raw values by the names of the columns; what has a style is text."""
        names = [c.name for c in self.columns]
        rows = (
            [str(v) if isinstance(v, Styled) else v for v in row] for row in self.rows
        )
        return [dict(zip(names, row, strict=True)) for row in rows]

    def add(self, column: str | Column, values: Sequence[Any]) -> None:
        """Add a column, named as for `of`, with its values."""
        self.columns += ReportTable.of(column).columns
        for row, value in zip(self.rows, values, strict=True):
            row.append(value)

    def part(self, places: Sequence[int]) -> ReportTable:
        """Return the grid of some columns, by their places."""
        return ReportTable(
            [self.columns[i] for i in places],
            [[row[i] for i in places] for row in self.rows],
        )

    def within(self, width: int) -> list[ReportTable]:
        """Return the first column beside as many others as keep to a width as text, then beside the next ones."""
        widths, groups = (
            [max(map(len, texts)) + 2 for texts in zip(*text_rows(self), strict=True)],
            [[0]],
        )
        for i in range(1, len(widths)):
            if (
                len(groups[-1]) > 1
                and sum(widths[j] for j in (*groups[-1], i)) > width + 2
            ):
                groups.append([0])
            groups[-1].append(i)
        return [self.part(places) for places in groups]


@dataclass
class Section:
    """A titled piece of the report: sentences, then grids, which a page may show folded."""

    title: str
    lines: list[str] = field(default_factory=list)
    grids: list[ReportTable] = field(default_factory=list)
    fold: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to print."""
        return not self.lines and not any(grid.rows for grid in self.grids)


def score(value: float) -> str:
    """Four decimals; large or tiny values with four significant digits."""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.3e}"


def significant(value: float, digits: int = 3) -> str:
    """`digits` significant digits, without an exponent from 1e-4 to 1e6."""
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


def duration(seconds: float) -> str:
    """Write a time: seconds below two minutes, then minutes, from two hours on hours."""
    if seconds < 120:
        return (
            f"{significant(seconds)} s"
            if seconds >= 0.1 or seconds == 0
            else "below 0.1 s"
        )
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def number(value: float, digits: int = 4) -> str:
    """An integer as such, anything else with at most `digits` significant digits."""
    if value == int(value) and abs(value) < 1e12:
        return f"{value:.0f}"
    text = significant(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


_FORMATS: dict[str, Callable[[float], str]] = {
    "score": score,
    "seconds": significant,
    "duration": duration,
    "number": number,
    "ratio": lambda value: f"{significant(value)}x",
    "count": lambda value: f"{value:.0f}",
    "small": lambda value: f"{value:.2g}",
    # Shares such as gains: the same decimals in a whole column, the smallest ones too.
    "gain": lambda value: f"{value:.4f}",
}


def show(value: object, kind: str = "text") -> str:
    """Format one value; None and NaN become a dash, text stays as it is."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    return _FORMATS[kind](value) if kind in _FORMATS else plain(value)


def plain(value: float) -> str:
    """Write a number for machines: ten significant digits, an integer as such."""
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def rounded(value: object) -> Any:
    """Round the floats of a JSON value to ten significant digits, below the noise of another processor or library."""
    if isinstance(value, dict):
        return {str(k): rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    return value


def json_text(content: object) -> str:
    """Return plain data as JSON, numbers rounded by `rounded`."""
    return (
        json.dumps(rounded(content), indent=1, ensure_ascii=False, allow_nan=False)
        + "\n"
    )


def markdown_grid(grid: ReportTable) -> str:
    """Return an aligned Markdown table."""
    headers = [escape_markdown(c.name) for c in grid.columns]
    body = [
        [_markdown_cell(v, c.kind) for v, c in zip(row, grid.columns, strict=True)]
        for row in grid.rows
    ]
    head, *rows = padded([headers, *body], grid.columns, 3)
    rule = [
        "-" * len(text) if c.kind == "text" else "-" * (len(text) - 1) + ":"
        for text, c in zip(head, grid.columns, strict=True)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])


def _markdown_cell(value: object, kind: str) -> str:
    text = escape_markdown(show(value, kind))
    if not isinstance(value, Styled):
        return text
    return (
        f"[{text}]({value.address})"
        if value.address
        else f"**{text}**"
        if value.bold
        else text
    )


#: Notebooks and the pages made of them give cells no room.
_CELL = "padding:.2em .6em;text-align:left"


def html_block(title: str, lines: Sequence[str], sections: Sequence[Section]) -> str:
    """Return title, sentences and tables as plain HTML, to be shown in a notebook."""
    parts = [
        f"<p><b>{escape(title)}</b></p>",
        *(f"<p>{escape(line)}</p>" for line in lines),
    ]
    for section in sections:
        parts.append(f"<p>{escape(section.title)}</p>" if section.title else "")
        for grid in section.grids:
            head = "".join(
                f'<th style="{_CELL}">{escape(column.name)}</th>'
                for column in grid.columns
            )
            rows = (
                "".join(f'<td style="{_CELL}">{escape(text)}</td>' for text in row)
                for row in grid.texts()
            )
            table = f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
            parts.append(f'<div style="overflow-x:auto">{table}</div>')
    return "\n".join(filter(None, parts))


def markdown_section(section: Section) -> str:
    """Return a section as Markdown: heading, sentences (or a list of bullets), tables."""
    bullets = all(line.startswith("* ") for line in section.lines)
    text = ("\n" if bullets else "\n\n").join(section.lines)
    grids = [markdown_grid(grid) for grid in section.grids if grid.rows]
    return "\n\n".join(filter(None, [f"## {section.title}", text, *grids]))


def csv_grid(grid: ReportTable) -> str:
    """Return a table as CSV: raw numbers, empty where unknown."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([table_text(c.name) for c in grid.columns])
    writer.writerows(
        [
            [table_text(v) if isinstance(v, str) else rounded(v) for v in row]
            for row in grid.rows
        ]
    )
    return stream.getvalue()


def padded(
    rows: Sequence[Sequence[str]], columns: Sequence[Column], least: int = 0
) -> list[list[str]]:
    """Pad texts to the widths of their columns, to the left in all that are not text."""
    widths = [max(least, *map(len, texts)) for texts in zip(*rows, strict=True)]
    pads = [str.ljust if column.kind == "text" else str.rjust for column in columns]
    return [
        [pad(text, width) for pad, text, width in zip(pads, row, widths, strict=True)]
        for row in rows
    ]


def text_rows(grid: ReportTable) -> list[list[str]]:
    """Return the names of the columns and the rows as padded text."""
    return padded(
        [[column.name for column in grid.columns], *grid.texts()], grid.columns
    )


def text_lines(
    grid: ReportTable, width: int | None = None, drop_first: Sequence[str] = ()
) -> list[str]:
    """Return the lines of a table, without the columns `drop_first` as long as it would be wider than `width`."""
    lines: list[str] = []
    for drop in ("", *drop_first):
        grid = grid.part(
            [i for i, column in enumerate(grid.columns) if column.name != drop]
        )
        lines = ["  ".join(row).rstrip() for row in text_rows(grid)]
        if width is None or max(map(len, lines)) <= width:
            break
    return lines


def escape_markdown(text: str) -> str:
    """Keep a cell on one line and its bars from ending it."""
    return escape_html(" ".join(text.split()).replace("|", "\\|").replace("](", "]\\("))


def escape_html(markdown: str) -> str:
    """Keep what looks like a tag of HTML from being one."""
    return _TAG.sub("&lt;", markdown)


_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "{}&%$#_"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {
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
    """Escape what LaTeX would interpret; what is neither a sign of these nor a Latin letter becomes a question mark."""
    known = (
        c if c < "\u0180" or ord(c) in _TEX else "?" for c in " ".join(text.split())
    )
    return "".join(known).translate(_TEX)


def tex_grid(
    grid: ReportTable, align: str | None = None, caption: str | None = None
) -> str:
    """Return a booktabs tabular, floating where it has a `caption`, which is LaTeX already.

    `align` is the column specification when the default (l and r) does not do.
    """

    import pandas as pd  # `status` and `list` do without

    def cell(value: object, kind: str) -> str:
        text = escape_tex(show(value, kind))
        return (
            rf"\textbf{{{text}}}" if isinstance(value, Styled) and value.bold else text
        )

    rows = [
        [cell(value, c.kind) for value, c in zip(row, grid.columns, strict=True)]
        for row in grid.rows
    ]
    table = pd.DataFrame(
        rows, columns=[escape_tex(column.name) for column in grid.columns]
    )
    align = align or "".join(
        "l" if column.kind == "text" else "r" for column in grid.columns
    )
    text = table.to_latex(
        index=False, escape=False, column_format=align, caption=caption
    ).rstrip("\n")
    return str(text).replace("\\begin{table}\n", "\\begin{table}\n\\centering\n", 1)
