"""The tables of a run under all interpretations of its paper: each table once, a column per interpretation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mtlrun.errors import listed
from mtlrun.lab.report.printed import PrintedNumber
from mtlrun.tables.report_table import Column, ReportTable, Section

#: The column with the numbers of the paper.
PAPER = "paper"
#: Place of a number in a printed table: the head of its row and the name of its column.
_Place = tuple[str, str]
_Numbers = Mapping[_Place, PrintedNumber]


def side_by_side(
    tables: Mapping[str, Sequence[Section]], axes: tuple[str, str]
) -> list[Section]:
    """Return one table per title that occurs under other interpretations.

    Interpretations with the same numbers throughout a table share a column, so that no
    number is shown twice. Where all of them have the same numbers, the table keeps its
    printed form, and a line names the interpretations.

    Parameters
    ----------
    tables : mapping of str to sequence of Section
        Interpretation -> its printed tables; the main interpretation comes first.
    axes : (str, str)
        What the rows and the columns of the printed tables stand for.
    """
    by_title: dict[str, dict[str, ReportTable]] = {}
    for name, sections in tables.items():
        for section in sections:
            by_title.setdefault(section.title, {})[name] = section.grids[0]
    main = next(iter(tables), "")
    found = []
    for title, grids in by_title.items():
        if set(grids) == {main}:
            continue
        cells = {name: _cells(grid) for name, grid in grids.items()}
        groups = _same_numbers(cells)
        if len(groups) > 1:
            found.append(Section(title, grids=[_joined(cells, groups, main, axes)]))
        elif main not in grids:
            names = groups[0]
            word = "interpretation" if len(names) == 1 else "interpretations"
            line = f"Under the {word} {listed([repr(name) for name in names])}."
            found.append(Section(title, [line], [grids[names[0]]]))
    return found


def _same_numbers(cells: Mapping[str, _Numbers]) -> list[list[str]]:
    """Return the interpretations in groups that have the same texts in all places."""
    groups: dict[frozenset[tuple[_Place, str]], list[str]] = {}
    for name, numbers in cells.items():
        texts = frozenset((place, str(cell)) for place, cell in numbers.items())
        groups.setdefault(texts, []).append(name)
    return list(groups.values())


def _joined(
    cells: Mapping[str, _Numbers],
    groups: Sequence[Sequence[str]],
    main: str,
    axes: tuple[str, str],
) -> ReportTable:
    """Return a row per place of the printed table and a column per group of interpretations."""
    # Some interpretations leave rows out: the places of all of them, in their order.
    places = list(
        dict.fromkeys(place for numbers in cells.values() for place in numbers)
    )
    columns_vary = len({column for _, column in places}) > 1
    heads = axes if columns_vary else axes[:1]
    joined = ReportTable([Column(head) for head in heads])
    joined.rows = [list(place[: len(heads)]) for place in places]
    published = [_published(cells.values(), place) for place in places]
    if any(published):
        joined.add(Column(PAPER, "score"), published)
    for names in groups:
        labels = [f"{name} (main)" if name == main else name for name in names]
        numbers = cells[names[0]]
        values = [_plain(numbers.get(place)) for place in places]
        joined.add(Column("; ".join(labels), "score"), values)
    return joined


def _cells(grid: ReportTable) -> _Numbers:
    """Return the numbers of a printed table by their places."""
    columns = [column.name for column in grid.columns[1:]]
    return {
        (str(head), column): cell
        for head, *row in grid.rows
        for column, cell in zip(columns, row, strict=True)
        if cell is not None
    }


def _published(tables: Iterable[_Numbers], place: _Place) -> str | None:
    """Return the number of the paper at a place, None where it has none."""
    for table in tables:
        cell = table.get(place)
        if cell is not None and cell.printed is not None:
            return cell.printed
    return None


def _plain(cell: PrintedNumber | None) -> PrintedNumber | None:
    """Return a number without its mark and its published partner, which has a column."""
    if cell is None:
        return None
    return replace(cell, bold=False, printed=None, verdict="", published=None)
