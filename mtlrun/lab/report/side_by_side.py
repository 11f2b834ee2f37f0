"""Tables of a run under all interpretations, with a column per interpretation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mtlrun.errors import listed
from mtlrun.lab.report.printed import PrintedNumber
from mtlrun.show.report_table import Column, ReportTable, Section

#: Header of the column with the numbers of the paper.
PAPER = "paper"
#: Row header and column header of a number in a printed table.
_Position = tuple[str, str]
_Numbers = Mapping[_Position, PrintedNumber]


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
    joined_sections = []
    for title, grids in by_title.items():
        if set(grids) == {main}:
            continue
        numbers = {name: _numbers_of(grid) for name, grid in grids.items()}
        groups = _same_numbers(numbers)
        if len(groups) > 1:
            table = _joined(numbers, groups, main, axes)
            joined_sections.append(Section(title, grids=[table]))
        elif main not in grids:
            names = groups[0]
            word = "interpretations"
            if len(names) == 1:
                word = "interpretation"
            line = f"Under the {word} {listed(list(map(repr, names)))}."
            joined_sections.append(Section(title, [line], [grids[names[0]]]))
    return joined_sections


def _numbers_of(grid: ReportTable) -> _Numbers:
    """Return the numbers of a printed table by their positions."""
    columns = [column.name for column in grid.columns[1:]]
    numbers = {}
    for header, *row in grid.rows:
        for column, number in zip(columns, row, strict=True):
            if number is not None:
                numbers[str(header), column] = number
    return numbers


def _same_numbers(numbers: Mapping[str, _Numbers]) -> list[list[str]]:
    """Return groups of interpretations that have the same texts in all positions."""
    groups: dict[frozenset[tuple[_Position, str]], list[str]] = {}
    for name, by_position in numbers.items():
        texts = []
        for position, number in by_position.items():
            texts.append((position, str(number)))
        # Tables that are equal may list their positions in different orders.
        groups.setdefault(frozenset(texts), []).append(name)
    return list(groups.values())


def _joined(
    numbers: Mapping[str, _Numbers],
    groups: Sequence[Sequence[str]],
    main: str,
    axes: tuple[str, str],
) -> ReportTable:
    """Return a row per position of the printed table and a column per group."""
    # Some interpretations leave rows out, so the positions of all of them are joined.
    positions: list[_Position] = []
    for by_position in numbers.values():
        positions += by_position
    positions = list(dict.fromkeys(positions))
    headers: tuple[str, ...] = axes
    if len({column for _, column in positions}) <= 1:
        # The only column needs no name.
        headers = axes[:1]
    joined = ReportTable(list(map(Column, headers)))
    for position in positions:
        joined.rows.append(list(position[: len(headers)]))
    published = [_published(numbers.values(), position) for position in positions]
    if any(published):
        joined.add(Column(PAPER, "score"), published)
    for names in groups:
        labels = []
        for name in names:
            label = name
            if name == main:
                label += " (main)"
            labels.append(label)
        of_group = numbers[names[0]]
        values = [_plain(of_group.get(position)) for position in positions]
        joined.add(Column("; ".join(labels), "score"), values)
    return joined


def _published(tables: Iterable[_Numbers], position: _Position) -> str | None:
    """Return the number of the paper at a position; None if there is none."""
    for table in tables:
        number = table.get(position)
        if number is not None and number.printed is not None:
            return number.printed
    return None


def _plain(number: PrintedNumber | None) -> PrintedNumber | None:
    """Return a number without its mark, and without the published one next to it."""
    if number is None:
        return None
    return replace(number, bold=False, printed=None, verdict="", published=None)
