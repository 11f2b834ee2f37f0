"""The tables of a run as a paper prints them: data sets down and methods across, the printed number under ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from mtlrun.metricfacts import METRIC_FACTS
from mtlrun.record import NOT_CONVERGED
from mtlrun.report.checks import ALL_DATA, AVERAGE_RANK, PARALLEL, QUANTITIES, as_list
from mtlrun.report.grid import Column, Grid, Section, Styled, number, show
from mtlrun.report.readings import Judged
from mtlrun.report.references import ReferenceVerdict
from mtlrun.report.run import MISSING, PARTIAL, Row, Run, mark_simulated
from mtlrun.report.tables import limit_text, mean_std, measured_grid, number_text, sweep_quantities, sweep_settings

#: What rows and columns may stand for. What is left over makes a table of its own for each of its values.
AXES = ("quantity", "value", "dataset", "method", "task")
#: Marks a number behind which not all fits converged.
UNCONVERGED = "*"
#: The head of the row with the numbers that the paper prints, under ours.
PRINTED = "printed"


@dataclass(frozen=True)
class PrintedCell:
    """A number of ours, and that of the paper.

    Attributes
    ----------
    row : Row
        Where it comes from.
    quantity : str
    text : str
        Mean and standard deviation, or what became of it.
    value : float or None
        With all digits.
    printed : str or None
        As the paper prints it.
    verdict : str
        Whether the two agree; "" without a printed number.
    best : bool
        Whether no method is better, in the digits shown.
    """

    row: Row
    quantity: str
    text: str
    value: float | None
    printed: str | None = None
    verdict: str = ""
    best: bool = False


@dataclass
class PrintedTable:
    """One matrix of numbers.

    Attributes
    ----------
    title : str
        What its numbers are, for instance ``accuracy (%), training part 0.1``.
    corner : str
        What the heads of the rows are.
    columns : list of str
    rows : list of (str, list of PrintedCell or None)
    notes : list of str
    across : str
        What the heads of the columns are.
    """

    title: str
    corner: str
    columns: list[str]
    rows: list[tuple[str, list[PrintedCell | None]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    across: str = ""

    def grid(self, *, exact: bool = False) -> Grid:
        """Return the table as text; where there are printed numbers, a row of them under each row of ours.

        With `exact`, ours are the means alone, with all digits.
        """
        grid = Grid([Column(self.corner), *(Column(name, "score") for name in self.columns)])
        for head, cells in self.rows:
            ours = (cell and (cell.value if exact else Styled(cell.text, cell.best)) for cell in cells)
            grid.rows.append([head, *ours])
            if any(cell and cell.printed for cell in cells):
                grid.rows.append(
                    [PRINTED, *(cell and cell.printed and Styled(cell.printed, tone=cell.verdict) for cell in cells)]
                )
        return grid


def printed_tables(judged: Judged) -> list[PrintedTable]:
    """Return the tables of a run under one reading, laid out as its experiment says (`table`), else by its kind.

    Measurements of curves and audits have none: they are listed by `mtlrun.report.tables`.
    """
    layout = _Layout.of(judged)
    return [] if layout is None else [table for block in layout.blocks() if (table := layout.table(block)).rows]


def table_sections(run: Run, rows: Sequence[Row], tables: Sequence[PrintedTable]) -> list[Section]:
    """Return the tables of a run, a titled section each; measurements without one as a list of the rows."""
    if not tables:
        return [Section("", grids=[measured_grid(run, list(rows))])]
    return [Section(table.title, grids=[table.grid()]) for table in tables]


def _quantities(judged: Judged) -> list[str]:
    """Return what is shown by default: the metrics, and seconds where they are measured."""
    run, found = judged.run, sweep_quantities(judged.run)
    if run.measures or run.sweep.get("quantities"):
        return found
    blocks = any(PARALLEL in row.samples for row in judged.rows)
    timed = ["seconds", *[PARALLEL] * blocks, "speedup"] if run.config.get("timing") else []
    return list(dict.fromkeys([*found, *timed]))


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _number(text: str) -> str:
    """Return the mean in ``0.71 ± 0.01``."""
    return text.partition(" ")[0].rstrip(UNCONVERGED)


@dataclass(frozen=True)
class _Layout:
    """Where the axes of a run stand in its tables.

    Attributes
    ----------
    judged : Judged
    rows, columns : str
        Axes.
    percent : bool
        Whether scores are shown per cent.
    foot : bool
        Whether the average ranks stand below.
    values : dict of str to list
        What the axes take, in order.
    settings : dict
        Data set -> its label at every value of the axis of a sweep, and the value.
    printed : dict
        (data set, method, quantity) -> what the paper prints.
    """

    judged: Judged
    rows: str
    columns: str
    percent: bool
    foot: bool
    values: dict[str, list[Any]]
    settings: dict[str, list[tuple[str, Any]]]
    printed: dict[tuple[str, str, str], ReferenceVerdict]

    @classmethod
    def of(cls, judged: Judged) -> _Layout | None:
        """Return the layout of a run, None when it has no such table."""
        run = judged.run
        kind, given = run.info.get("kind"), dict(run.config.get("table") or {})
        if kind in ("trace", "audit") and not run.sweep and not given:
            return None
        rows, columns = "dataset", "quantity" if kind == "inspect" else "method"
        if run.sweep:
            rows = "value"
        elif len(run.datasets) == 1 and len(run.methods) > 1:  # a list of the methods is easier to read than one line
            rows, columns = "method", "quantity"
        rows, columns = given.get("rows", rows), given.get("columns", columns)
        values = {
            "dataset": list(dict.fromkeys(map(run.axis_of, run.datasets))),
            "method": run.methods,
            "quantity": as_list(given.get("show")) or _quantities(judged),
            "value": as_list(run.sweep.get("values")) or [None],
            "task": list(dict.fromkeys(t for row in judged.rows for t in row.task_names)),
        }
        if "task" not in (rows, columns):
            values["task"] = [None]
        printed = {(r.dataset, r.method, r.quantity): r for r in judged.references}
        percent, foot = bool(given.get("percent")), bool(given.get("foot"))
        return cls(judged, rows, columns, percent, foot, values, sweep_settings(run), printed)

    def blocks(self) -> Iterator[dict[str, Any]]:
        """Yield a value for each axis that is neither rows nor columns."""
        rest = [axis for axis in AXES if axis not in (self.rows, self.columns)]
        for values in product(*(self.values[axis] for axis in rest)):
            yield dict(zip(rest, values, strict=True))

    def table(self, block: Mapping[str, Any]) -> PrintedTable:
        """Return the table of a block; rows and columns without any number are left out."""
        heads, columns = self.values[self.rows], self.values[self.columns]
        matrix = [[self._cell({**block, self.rows: r, self.columns: c}) for c in columns] for r in heads]
        kept = [j for j in range(len(columns)) if any(row[j] for row in matrix)]
        names = [self._name(self.columns, columns[j]) for j in kept]
        table = PrintedTable(self._title(block), self._axis_name(self.rows), names)
        table.across = self._axis_name(self.columns)
        first = block.get("quantity") in (None, self.values["quantity"][0])
        for head, row in zip(heads, matrix, strict=True):
            if any(cell and (first or cell.printed or cell.value is not None) for cell in row):
                table.rows.append((self._name(self.rows, head), [row[j] for j in kept]))
        if self.foot and first and table.rows:
            self._add_ranks(table, block, [columns[j] for j in kept])
        self._mark_best(table)
        if any(cell and UNCONVERGED in cell.text for _, cells in table.rows for cell in cells):
            table.notes.append(f"{UNCONVERGED} not all fits converged")
        return table

    def _cell(self, at: Mapping[str, Any]) -> PrintedCell | None:
        row = self._row(at)
        if row is None:
            return None
        quantity = at["quantity"]
        printed = self.printed.get((row.dataset, row.method, quantity))
        if row.value(quantity) is None and printed is None and row.n:
            return None
        text = self._text(row, quantity)
        if printed is None:
            return PrintedCell(row, quantity, text, row.value(quantity))
        shown = _percent(printed.value) if self._in_percent(quantity) else number(printed.value, 5)
        return PrintedCell(row, quantity, text, row.value(quantity), shown, printed.verdict)

    def _row(self, at: Mapping[str, Any]) -> Row | None:
        run, name = self.judged.run, at["dataset"]
        settings = self.settings.get(name, ())
        label = next((label for label, value in settings if value == at["value"]), None) if run.sweep else name
        row = self.judged.evidence.table.get((label, at["method"])) if label is not None else None
        return row.of_task(at["task"]) if row is not None and at["task"] is not None else row

    def _text(self, row: Row, quantity: str) -> str:
        """Write mean and deviation; a row without a number says why, and one with too few splits how many."""
        run, value, spread = self.judged.run, row.value(quantity), row.std(quantity)
        late = limit_text(run, row)
        if value is None:
            return late or ("-" if row.status in (MISSING, PARTIAL, "ok") else row.status)
        if run.measures:
            text = f"{number_text(row, quantity)}" + (f" ({row.affected} of {row.planned} {late})" if late else "")
        elif self._in_percent(quantity):
            text = _percent(value) + (f" ± {_percent(spread)}" if spread is not None else "")
        elif quantity in QUANTITIES and quantity != "truth_error":
            text = show(value, "ratio" if quantity == "speedup" else "seconds")
        else:
            text = mean_std(row, quantity)
        short = f" ({row.n}/{row.planned})" if row.n < row.planned and not late else ""
        return text + short + UNCONVERGED * (row.status == NOT_CONVERGED)

    def _in_percent(self, quantity: str) -> bool:
        return self.percent and quantity in self.judged.run.metrics

    def _add_ranks(self, table: PrintedTable, block: Mapping[str, Any], methods: Sequence[str]) -> None:
        """Add the average ranks of the group of data sets that the table shows."""
        run = self.judged.run
        label = f"{run.sweep['name']} {show(block['value'])}" if block.get("value") is not None else ALL_DATA
        cells: list[PrintedCell | None] = []
        for method in methods:
            row = self.judged.evidence.table.get((label, method))
            printed = self.printed.get((label, method, AVERAGE_RANK))
            value = row.value(AVERAGE_RANK) if row else None
            if row is None or value is None:
                cells.append(None)
                continue
            shown = f"{printed.value:.2f}" if printed else None
            cells.append(
                PrintedCell(row, AVERAGE_RANK, f"{value:.2f}", value, shown, printed.verdict if printed else "")
            )
        if any(cells):
            table.rows.append(("average rank", cells))

    def _mark_best(self, table: PrintedTable) -> None:
        """Mark the best of every group of cells that differ by method only."""
        if self.judged.run.info.get("kind") == "inspect":
            return
        if self.columns == "method":
            groups = [[(i, j) for j in range(len(cells))] for i, (_, cells) in enumerate(table.rows)]
        elif self.rows == "method":
            groups = [[(i, j) for i in range(len(table.rows))] for j in range(len(table.columns))]
        else:
            return
        for group in groups:
            found = [
                (i, j, cell) for i, j in group if (cell := table.rows[i][1][j]) is not None and cell.value is not None
            ]
            if len(found) < 2:
                continue
            high = self._greater(found[0][2].quantity)
            if high is None:
                continue
            best = (max if high else min)(found, key=lambda entry: entry[2].value or 0.0)[2]
            for i, j, cell in found:
                if _number(cell.text) == _number(best.text):
                    table.rows[i][1][j] = replace(cell, best=True)

    def _greater(self, quantity: str) -> bool | None:
        """Whether large values are good; None when neither is."""
        if quantity in QUANTITIES:
            return {"speedup": True, "gap": None, "objective": None}.get(quantity, False)
        if self.judged.run.measures:
            return self.judged.run.quantities.get(quantity, {}).get("greater_is_better")
        facts = METRIC_FACTS.get(quantity)
        return facts.greater_is_better if facts else None

    def _name(self, axis: str, value: Any) -> str:
        if axis == "dataset":
            run = self.judged.run
            label = next(label for label in run.datasets if run.axis_of(label) == value)
            return mark_simulated(str(value), run.datasets[label])
        return show(value)

    def _axis_name(self, axis: str) -> str:
        return {"value": str(self.judged.run.sweep.get("name", "value")), "dataset": "data set"}.get(axis, axis)

    def _title(self, block: Mapping[str, Any]) -> str:
        """Say what distinguishes the table from the others, and in which unit its numbers are."""
        parts = []
        for axis, value in block.items():
            if axis == "quantity":
                parts.append(f"{value} (%)" if self._in_percent(value) else str(value))
            elif axis == "value" and value is not None:
                parts.append(f"{self._axis_name('value')} {show(value)}")
            elif value is not None and (len(self.values[axis]) > 1 or axis == "dataset"):
                parts.append(self._name(axis, value))
        return ", ".join(parts)


def table_notes(tables: Sequence[PrintedTable]) -> list[str]:
    """Say once, in one line, how the tables are to be read."""
    cells = [cell for table in tables for _, row in table.rows for cell in row if cell]
    notes = ["The best number is in bold."] * any(cell.best for cell in cells)
    notes += ["Below ours is what the paper prints."] * any(cell.printed for cell in cells)
    notes += [f"{note}." for note in dict.fromkeys(note for table in tables for note in table.notes)]
    return [" ".join(notes)] if notes else []
