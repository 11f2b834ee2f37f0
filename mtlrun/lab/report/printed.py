"""The tables of a run: as a paper prints them, for machines, along the axis of a sweep, and those of measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from mtlrun.engine.record import NOT_CONVERGED, TIMEOUT
from mtlrun.lab.report.cells import MISSING, PARTIAL, ROBUST_PARTS, MethodResult, Run
from mtlrun.lab.report.checks import ALL_DATA, AVERAGE_RANK, QUANTITIES
from mtlrun.lab.report.interpretations import JudgedRun, ReferenceVerdict
from mtlrun.lab.report.statistics import direction
from mtlrun.tables.quantities import PARALLEL, spoken
from mtlrun.tables.report_table import (
    Column,
    ReportTable,
    Section,
    Styled,
    number,
    show,
)
from mtlrun.utils.io import as_list

#: Counted cell by cell: tasks whose training part has one class only.
ONE_CLASS = "one_class_train"
#: What rows and columns may stand for. What is left over makes a table of its own for each of its values.
AXES = ("quantity", "value", "dataset", "method", "task")
#: Quantities that have columns where methods or data sets have rows; more have rows, unless there are more of these.
FEW = {"method": 6, "dataset": 8}
#: Marks a number behind which not all fits converged.
UNCONVERGED = "*"
#: The head of the row with the numbers that the paper prints, under ours.
PRINTED = "printed"


# ---------------------------------------------------------------- as a paper prints them


@dataclass(frozen=True)
class PrintedNumber(Styled):
    """A number of ours in a table, bold where no method is better in the digits shown, and that of the paper.

    Attributes
    ----------
    value : float or None
        With all digits.
    quantity : str
    place : (str, str)
        Data set and method.
    printed : str or None
        As the paper prints it.
    verdict : str
        Whether the two agree; "" without a printed number.
    published : float or None
        The number that the paper prints, in the units of `value`.
    std : float or None
        Standard deviation of ours.
    """

    value: float | None = None
    quantity: str = ""
    place: tuple[str, str] = ("", "")
    printed: str | None = None
    verdict: str = ""
    published: float | None = None
    std: float | None = None


def printed_axes(judged: JudgedRun) -> tuple[str, str]:
    """Return what the rows and the columns of the printed tables stand for."""
    layout = _Layout.of(judged)
    return layout._axis_name(layout.rows), layout._axis_name(layout.columns)


def printed_tables(judged: JudgedRun) -> list[Section]:
    """Return the tables of a run under one reading, laid out as its experiment says (`table`), else by its kind.

    Each has a title, notes, and a grid of `PrintedNumber`.
    """
    layout = _Layout.of(judged)
    rest = [axis for axis in AXES if axis not in (layout.rows, layout.columns)]
    blocks = (
        dict(zip(rest, values, strict=True))
        for values in product(*(layout.values[axis] for axis in rest))
    )
    return [table for table in map(layout.table, blocks) if table.grids[0].rows]


def with_printed(grid: ReportTable, *, exact: bool = False) -> ReportTable:
    """Return a printed table as text: the numbers of the paper, where there are any, in a row under each row of ours.

    With `exact`, ours are the means alone, with all digits.
    """
    rows = []
    for head, *cells in grid.rows:
        rows.append(
            [head, *((cell and cell.value) if exact else cell for cell in cells)]
        )
        if any(cell and cell.printed for cell in cells):
            theirs = (
                cell and cell.printed and Styled(cell.printed, tone=cell.verdict)
                for cell in cells
            )
            rows.append([PRINTED, *theirs])
    return ReportTable(grid.columns, rows)


def transposed(grid: ReportTable, head: str) -> ReportTable:
    """Return a printed table with rows and columns in each other's place.

    Parameters
    ----------
    grid : ReportTable
        With a head in the first column of every row.
    head : str
        Name of the new first column.
    """
    columns = [Column(head)]
    columns += [Column(str(row[0]), "score") for row in grid.rows]
    rows = []
    for place, column in enumerate(grid.columns):
        if place == 0:
            continue
        cells = [row[place] for row in grid.rows]
        rows.append([column.name, *cells])
    return ReportTable(columns, rows)


def quantities_in(grid: ReportTable) -> set[str]:
    """Return the names of the quantities in a printed table."""
    names = set()
    for row in grid.rows:
        for cell in row:
            if isinstance(cell, PrintedNumber):
                names.add(cell.quantity)
    return names


def only_quantities(grid: ReportTable, names: Sequence[str]) -> ReportTable:
    """Return a printed table with the numbers of some quantities alone.

    Rows and columns without any of them are left out.
    """
    rows = []
    for head, *cells in grid.rows:
        kept: list[PrintedNumber | None] = []
        for cell in cells:
            if cell is None or cell.quantity not in names:
                kept.append(None)
            else:
                kept.append(cell)
        if any(kept):
            rows.append([head, *kept])
    places = [0]
    for place in range(1, len(grid.columns)):
        if any(row[place] for row in rows):
            places.append(place)
    return ReportTable(grid.columns, rows).part(places)


def _quantities(judged: JudgedRun) -> list[str]:
    """Return what is shown by default: the metrics, and seconds where they are measured."""
    run, found = judged.run, sweep_quantities(judged.run)
    if run.measures or run.sweep.get("quantities"):
        return found
    if run.config.get("timing"):
        blocks = any(PARALLEL in row.samples for row in judged.rows)
        found += ["seconds", PARALLEL, "speedup"] if blocks else ["seconds", "speedup"]
    return list(dict.fromkeys(found))


def _spoken(judged: JudgedRun, quantity: str) -> str:
    """Return the name of a quantity; of seconds how blocks were timed, and of a speed-up its baseline."""
    if quantity not in ("seconds", "speedup"):
        return spoken(quantity)
    if quantity == "speedup":
        return f"times faster than {judged.run.baseline or 'the baseline'}"
    blocks = any(PARALLEL in row.samples for row in judged.rows)
    return f"{spoken(quantity)}, blocks in turn" if blocks else spoken(quantity)


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
    judged : JudgedRun
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

    judged: JudgedRun
    rows: str
    columns: str
    percent: bool
    foot: bool
    values: dict[str, list[Any]]
    settings: dict[str, list[tuple[str, Any]]]
    printed: dict[tuple[str, str, str], ReferenceVerdict]

    @classmethod
    def of(cls, judged: JudgedRun) -> _Layout:
        """Return the layout of a run."""
        run = judged.run
        kind, given = run.info.get("kind"), dict(run.config.get("table") or {})
        quantities = as_list(given.get("show")) or _quantities(judged)
        rows, columns = "dataset", "quantity" if kind == "inspect" else "method"
        if run.sweep:
            rows = "value"
        elif kind in ("trace", "audit") or (
            len(run.datasets) == 1 and len(run.methods) > 1
        ):
            rows, columns = (
                "method",
                "quantity",
            )  # a list of the methods is easier to read than one line
        heads = run.methods if rows == "method" else run.datasets
        if (
            columns == "quantity"
            and not run.sweep
            and len(quantities) > max(FEW[rows], len(heads))
        ):
            rows, columns = columns, rows
        rows, columns = given.get("rows", rows), given.get("columns", columns)
        values: dict[str, list[Any]] = {
            "dataset": list(dict.fromkeys(map(run.axis_of, run.datasets))),
            "method": run.methods,
            "quantity": quantities,
            "value": as_list(run.sweep.get("values")) or [None],
            "task": list(
                dict.fromkeys(t for row in judged.rows for t in row.task_names)
            )
            or [None],
        }
        if "task" not in (rows, columns):
            values["task"] = [None]
        printed = {(r.dataset, r.method, r.quantity): r for r in judged.references}
        percent, foot = bool(given.get("percent")), bool(given.get("foot"))
        return cls(
            judged, rows, columns, percent, foot, values, sweep_settings(run), printed
        )

    def table(self, block: Mapping[str, Any]) -> Section:
        """Return the table of a block; rows and columns without any number are left out."""
        heads, columns = self.values[self.rows], self.values[self.columns]
        matrix = [
            [self._cell({**block, self.rows: r, self.columns: c}) for c in columns]
            for r in heads
        ]
        kept = [j for j in range(len(columns)) if any(row[j] for row in matrix)]
        first = block.get("quantity") in (None, *self.values["quantity"][:1])
        lines = []
        for head, row in zip(heads, matrix, strict=True):
            if any(
                cell and (first or cell.printed or cell.value is not None)
                for cell in row
            ):
                lines.append((self._name(self.rows, head), [row[j] for j in kept]))
        if self.foot and first and lines:
            ranks = [self._rank(block, columns[j]) for j in kept]
            if any(ranks):
                lines.append(("average rank", ranks))
        best = self._best([cells for _, cells in lines])
        grid = ReportTable([Column(self._axis_name(self.rows))])
        grid.columns += [
            Column(self._name(self.columns, columns[j]), "score") for j in kept
        ]
        grid.rows = [
            [head, *(cell and replace(cell, bold=id(cell) in best) for cell in cells)]
            for head, cells in lines
        ]
        starred = any(
            cell and UNCONVERGED in cell.text for _, cells in lines for cell in cells
        )
        return Section(
            self._title(block),
            [f"{UNCONVERGED} not all fits converged"] if starred else [],
            [grid],
        )

    def _cell(self, at: Mapping[str, Any]) -> PrintedNumber | None:
        row = self._row(at)
        if row is None:
            return None
        quantity, place = at["quantity"], (row.dataset, row.method)
        value, printed = row.value(quantity), self.printed.get((*place, quantity))
        if value is None and printed is None and row.n:
            return None
        cell = PrintedNumber(
            self._text(row, quantity), value=value, quantity=quantity, place=place
        )
        if printed is None:
            return cell
        text = (
            _percent(printed.value)
            if self._in_percent(quantity)
            else number(printed.value, 5)
        )
        std = None if quantity in row.medians else row.std(quantity)
        return replace(
            cell,
            printed=text,
            verdict=printed.verdict,
            published=printed.value,
            std=std,
        )

    def _row(self, at: Mapping[str, Any]) -> MethodResult | None:
        run, name = self.judged.run, at["dataset"]
        settings = self.settings.get(name, ())
        label = (
            next((label for label, value in settings if value == at["value"]), None)
            if run.sweep
            else name
        )
        row = (
            self.judged.table.get((label, at["method"])) if label is not None else None
        )
        return (
            row.of_task(at["task"])
            if row is not None and at["task"] is not None
            else row
        )

    def _text(self, row: MethodResult, quantity: str) -> str:
        """Write mean and deviation; a row without a number says why, and one with too few splits how many."""
        run, value, spread = self.judged.run, row.value(quantity), row.std(quantity)
        late = limit_text(run, row)
        if value is None:
            return late or (
                "-" if row.status in (MISSING, PARTIAL, "ok") else row.status
            )
        if run.measures:
            text = f"{number_text(row, quantity)}" + (
                f" ({row.affected} of {row.planned} {late})" if late else ""
            )
        elif self._in_percent(quantity):
            text = _percent(value) + (
                f" ± {_percent(spread)}" if spread is not None else ""
            )
        elif quantity in QUANTITIES and quantity not in ("truth_error", *ROBUST_PARTS):
            text = show(value, "ratio" if quantity == "speedup" else "seconds")
        else:
            text = mean_std(row, quantity)
        short = f" ({row.n}/{row.planned})" if row.n < row.planned and not late else ""
        return text + short + UNCONVERGED * (row.status == NOT_CONVERGED)

    def _in_percent(self, quantity: str) -> bool:
        return self.percent and quantity in self.judged.run.metrics

    def _rank(self, block: Mapping[str, Any], method: str) -> PrintedNumber | None:
        """Return the average rank of a method over the group of data sets that a table shows."""
        run = self.judged.run
        place = (
            f"{run.sweep['name']} {show(block['value'])}"
            if block.get("value") is not None
            else ALL_DATA,
            method,
        )
        row, printed = (
            self.judged.table.get(place),
            self.printed.get((*place, AVERAGE_RANK)),
        )
        value = row.value(AVERAGE_RANK) if row else None
        if value is None:
            return None
        cell = PrintedNumber(
            f"{value:.2f}", value=value, quantity=AVERAGE_RANK, place=place
        )
        return (
            replace(
                cell,
                printed=f"{printed.value:.2f}",
                verdict=printed.verdict,
                published=printed.value,
            )
            if printed
            else cell
        )

    def _best(self, lines: Sequence[Sequence[PrintedNumber | None]]) -> set[int]:
        """Return the ids of the best of every group of cells that differ by method only."""
        best: set[int] = set()
        if self.judged.run.info.get("kind") in ("inspect", "audit") or "method" not in (
            self.rows,
            self.columns,
        ):
            return best
        for group in lines if self.columns == "method" else zip(*lines, strict=True):
            found = [
                cell for cell in group if cell is not None and cell.value is not None
            ]
            high = (
                direction(found[0].quantity, self.judged.run)
                if len(found) > 1
                else None
            )
            if high is not None:
                first = (max if high else min)(
                    found, key=lambda cell: cell.value or 0.0
                )
                best.update(
                    id(cell)
                    for cell in found
                    if _number(cell.text) == _number(first.text)
                )
        return best

    def _name(self, axis: str, value: object) -> str:
        if axis == "dataset":
            return self.judged.run.title_of(str(value))
        return _spoken(self.judged, str(value)) if axis == "quantity" else show(value)

    def _axis_name(self, axis: str) -> str:
        return {
            "value": str(self.judged.run.sweep.get("name", "value")),
            "dataset": "data set",
        }.get(axis, axis)

    def _title(self, block: Mapping[str, Any]) -> str:
        """Say what distinguishes the table from the others, and in which unit its numbers are."""
        parts = []
        for axis, value in block.items():
            if axis == "quantity":
                name = _spoken(self.judged, str(value))
                parts.append(f"{name} (%)" if self._in_percent(value) else name)
            elif axis == "value" and value is not None:
                parts.append(f"{self._axis_name('value')} {show(value)}")
            elif value is not None and (
                self.judged.run.has_data(value)
                if axis == "dataset"
                else len(self.values[axis]) > 1
            ):
                parts.append(self._name(axis, value))
        return ", ".join(parts)


def table_notes(
    run: Run,
    rows: Sequence[MethodResult],
    tables: Sequence[Section],
    *,
    bold: bool = True,
) -> list[str]:
    """Say once, in one line, how the tables are to be read, where the best numbers are in bold or cannot be."""
    cells = [
        cell
        for table in tables
        for row in table.grids[0].rows
        for cell in row[1:]
        if cell
    ]
    notes = (
        ["The best number is in bold."]
        if bold and any(cell.bold for cell in cells)
        else []
    )
    if any("±" in cell.text for cell in cells):
        notes.append(
            f"±: standard deviation over the {'repeats' if run.measures else 'splits'}."
        )
    if any(PARALLEL in row.samples for row in rows) and any(
        cell.quantity == "speedup" for cell in cells
    ):
        notes.append("Times faster: by the seconds with the blocks one after another.")
    if any(cell.printed for cell in cells):
        notes.append("Below ours: the paper's values.")
    notes += [
        f"{note}."
        for note in dict.fromkeys(note for table in tables for note in table.lines)
    ]
    return [" ".join(notes)] if notes else []


# ---------------------------------------------------------------- results


def result_grid(run: Run, rows: list[MethodResult]) -> ReportTable:
    """Return the machine-readable table: the documented columns first, further facts after `status`."""
    grid, kind = (
        ReportTable([], [[] for _ in rows]),
        "number" if run.measures else "score",
    )
    grid.add("dataset", [row.dataset for row in rows])
    grid.add("method", [row.method for row in rows])
    for m in run.metrics:
        grid.add(Column(f"{m}_mean", kind), [row.value(m) for row in rows])
        grid.add(Column(f"{m}_std", kind), [row.std(m) for row in rows])
    if not run.measures:
        grid.add("seconds_median:seconds", [row.value("seconds") for row in rows])
        grid.add("speedup:ratio", [row.speedup for row in rows])
    grid.add("n:count", [row.n for row in rows])
    grid.add("status", [row.status for row in rows])
    grid.add("planned:count", [row.planned for row in rows])
    if not run.measures:
        for name in (ONE_CLASS, *(f"undefined_{m}" for m in run.metrics)):
            grid.add(Column(name), [range_text(row.counts(name)) for row in rows])
        parallel = [
            row.value(PARALLEL) if PARALLEL in row.samples else None for row in rows
        ]
        if any(value is not None for value in parallel):
            grid.add("seconds_parallel_median:seconds", parallel)
    return grid


def number_text(row: MethodResult, quantity: str) -> str | None:
    """Write what a measure returned: four digits or an integer, with the standard deviation over several repeats."""
    value, spread = row.value(quantity), row.std(quantity)
    if value is None:
        return None
    return (
        f"{show(value, 'number')} ± {number(spread, 2)}"
        if spread
        else show(value, "number")
    )


def limit_text(run: Run, row: MethodResult) -> str | None:
    """Write ``> 120 s`` for a row with cells that ran into the limit, None for others."""
    seconds = (run.config.get("limits") or {}).get("seconds")
    if not row.statuses[TIMEOUT]:
        return None
    return f"> {number(float(seconds))} s" if seconds else "timeout"


def mean_std(row: MethodResult, quantity: str) -> str:
    """Write ``mean ± std``, only the mean with one split, a dash without any."""
    value, spread = row.value(quantity), row.std(quantity)
    text = show(value, "score")
    if spread is None:
        return text
    # The same decimals as the mean, where that has a fixed number of them.
    return f"{text} ± {show(spread, 'score') if 'e' in text else format(spread, '.4f')}"


def result_notes(run: Run, rows: list[MethodResult]) -> list[str]:
    """Say what measured quantities are, and what `task_note` says, once for all data sets with the same note."""
    about = [
        f"{spoken(name)}: {text}"
        for name in run.metrics
        if (text := run.quantities.get(name, {}).get("text"))
    ]
    told = [f"{'; '.join(about)}."] if about else []
    where: dict[str, list[str]] = {}
    for dataset in run.datasets:
        if note := task_note(run, [row for row in rows if row.dataset == dataset]):
            where.setdefault(note, []).append(dataset)
    everywhere = [*run.datasets] if len(run.datasets) > 3 else None
    return told + [
        f"{'Everywhere' if names == everywhere else ', '.join(names)}: {note}."
        for note, names in where.items()
    ]


def task_note(run: Run, rows: list[MethodResult]) -> str | None:
    """Say for the rows of a data set how many tasks had one class only in training or no defined metric.

    None when there was no such task.
    """
    names = {ONE_CLASS: "only one class in the training part"}
    names.update({f"undefined_{m}": f"{spoken(m)} undefined" for m in run.metrics})
    counts = {
        name: [count for row in rows for count in row.counts(name)]
        for name in (*names, "n_tasks")
    }
    parts = [
        f"{text} for {range_text(counts[name])}"
        for name, text in names.items()
        if any(counts[name])
    ]
    if not parts:
        return None
    return f"{', '.join(parts)} of {range_text(counts['n_tasks'])} tasks in each split"


def range_text(values: Sequence[int] | None) -> str | None:
    """Write the smallest and the largest of counts, one number when they are equal; None without any."""
    if not values:
        return None
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"


# ---------------------------------------------------------------- sweeps


def sweep_settings(run: Run) -> dict[str, list[tuple[str, Any]]]:
    """Return, by data set of a sweep, its label at every value of the axis and the value."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for label, facts in run.datasets.items():
        if facts.get("axis"):
            found.setdefault(run.axis_of(label), []).append(
                (label, facts["axis"]["value"])
            )
    return found


def sweep_quantities(run: Run) -> list[str]:
    """Return what the experiment wants shown along the axis: by default the metrics, and measured seconds."""
    asked = as_list(run.sweep.get("quantities"))
    return list(map(str, asked)) or run.metrics + (
        ["seconds"] if run.config.get("timing") else []
    )


# ---------------------------------------------------------------- measurements


def measurement_sections(run: Run) -> list[Section]:
    """Return what the first finished repeat of every method says on every data set: its sentences, then its tables."""
    sections = []
    for dataset in run.datasets:
        for method in run.methods:
            content = next(
                (r.result for r in run.results_of(dataset, method) if r.result), {}
            )
            title = (
                f"{method} on {run.title_of(dataset)}"
                if run.has_data(dataset)
                else method
            )
            lines = [str(line) for line in content.get("lines") or ()]
            if lines:
                sections.append(Section(title, [f"* {line}" for line in lines]))
            for name, table in (content.get("tables") or {}).items():
                sections.append(
                    Section(
                        f"{title}: {name}",
                        grids=[_stored_grid(table["columns"], table["rows"])],
                    )
                )
    return sections


def _stored_grid(columns: Sequence[Any], rows: Sequence[Sequence[Any]]) -> ReportTable:
    """Return a stored table; a column without any text is one of numbers."""
    kinds = [
        "text" if any(isinstance(row[i], str) for row in rows) else "number"
        for i in range(len(columns))
    ]
    return ReportTable(
        [Column(str(c), k) for c, k in zip(columns, kinds, strict=True)],
        [list(row) for row in rows],
    )
