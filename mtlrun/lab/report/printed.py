"""Tables of a run.

There are four kinds: tables in the layout of the paper, one table for other programs,
tables along the axis of a sweep, and tables that analyses return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from mtlrun.lab.experiment.claims import (
    ALL_DATA,
    AVERAGE_RANK,
    QUANTITIES,
    TableLayout,
)
from mtlrun.lab.report.claims import JudgedRun
from mtlrun.lab.report.frames import ROBUST_PARTS
from mtlrun.lab.report.method_results import PARTIAL, MethodResult
from mtlrun.lab.report.references import ReferenceVerdict
from mtlrun.lab.report.run import MISSING, Run, axis_of, has_data, results_of, title_of
from mtlrun.lab.report.statistics import direction
from mtlrun.parallel.status import NOT_CONVERGED, TIMEOUT
from mtlrun.show.quantities import PARALLEL, spoken
from mtlrun.show.report_table import (
    Column,
    ReportTable,
    Section,
    Styled,
    number,
    show,
)

#: Count of the tasks whose training part has a single class, stored for each cell.
ONE_CLASS = "one_class_train"
#: Axes of the results. Two of them are the rows and columns of a table; each
#: combination of values of the others makes a table of its own.
AXES = ("quantity", "value", "dataset", "method", "task")
#: Greatest number of quantities that are columns, if methods or data sets are rows.
#: More quantities become rows, unless there are even more methods or data sets.
MAX_QUANTITY_COLUMNS = {"method": 6, "dataset": 8}
#: Mark of a number for which some fits did not converge.
UNCONVERGED = "*"
#: First entry of the row of published numbers below ours.
PRINTED = "printed"


# ------------------------------------------------------------ layout of the paper


@dataclass(frozen=True)
class PrintedNumber(Styled):
    """Computed number of a table, next to the published one.

    It is bold if no method is better in the digits shown.

    Attributes
    ----------
    value : float or None
        Computed number with all digits.
    quantity : str
    place : (str, str)
        Data set and method.
    printed : str or None
        Published number as text.
    verdict : str
        Whether the two numbers agree; empty without a published number.
    published : float or None
        Published number, in the unit of `value`.
    std : float or None
        Standard deviation of the computed number.
    """

    value: float | None = None
    quantity: str = ""
    place: tuple[str, str] = ("", "")
    printed: str | None = None
    verdict: str = ""
    published: float | None = None
    std: float | None = None


def printed_axes(judged: JudgedRun) -> tuple[str, str]:
    """Return the names of the axes that are the rows and columns of the tables."""
    layout = _Layout.of(judged)
    return layout.axis_name(layout.rows), layout.axis_name(layout.columns)


def printed_tables(judged: JudgedRun) -> list[Section]:
    """Return the tables of a run under one interpretation.

    The section `table` of the experiment determines the layout; without one the kind of
    the experiment does. Each table has a title, notes and `PrintedNumber` entries.
    """
    layout = _Layout.of(judged)
    other_axes = [axis for axis in AXES if axis not in (layout.rows, layout.columns)]
    tables = []
    for values in product(*(layout.values[axis] for axis in other_axes)):
        table = layout.table(dict(zip(other_axes, values, strict=True)))
        if table.grids[0].rows:
            tables.append(table)
    return tables


def with_printed(grid: ReportTable, *, exact: bool = False) -> ReportTable:
    """Return a table with the published numbers in rows of their own, below ours.

    Parameters
    ----------
    grid : ReportTable
        Table of `PrintedNumber` entries.
    exact : bool, default=False
        Whether to return the means of our numbers alone, with all digits.
    """
    rows: list[list[Any]] = []
    for head, *cells in grid.rows:
        ours = [head]
        published: list[Any] = [PRINTED]
        for cell in cells:
            if cell and exact:
                ours.append(cell.value)
            else:
                ours.append(cell)
            text = None
            if cell and cell.printed:
                text = Styled(cell.printed, tone=cell.verdict)
            published.append(text)
        rows.append(ours)
        if any(published[1:]):
            rows.append(published)
    return ReportTable(grid.columns, rows)


def transposed(grid: ReportTable, head: str) -> ReportTable:
    """Exchange the rows and columns of a table.

    Parameters
    ----------
    grid : ReportTable
        The first column names the rows.
    head : str
        Name of the new first column.
    """
    columns = [Column(head)]
    columns += [Column(str(row[0]), "score") for row in grid.rows]
    rows = []
    for index in range(1, len(grid.columns)):
        cells = [row[index] for row in grid.rows]
        rows.append([grid.columns[index].name, *cells])
    return ReportTable(columns, rows)


def quantities_in(grid: ReportTable) -> set[str]:
    """Return the names of the quantities in a table."""
    names = set()
    for row in grid.rows:
        for cell in row:
            if isinstance(cell, PrintedNumber):
                names.add(cell.quantity)
    return names


def only_quantities(grid: ReportTable, names: Sequence[str]) -> ReportTable:
    """Return the part of a table with these quantities.

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
    indices = [0]
    for index in range(1, len(grid.columns)):
        if any(row[index] for row in rows):
            indices.append(index)
    return ReportTable(grid.columns, rows).part(indices)


def _has_parallel_times(rows: Sequence[MethodResult]) -> bool:
    """Return whether some method was also timed with one worker per block."""
    return any(PARALLEL in row.samples for row in rows)


def _quantity_name(judged: JudgedRun, quantity: str) -> str:
    """Return the name of a quantity for readers.

    Seconds say how blocks were timed, and a speed-up names its baseline.
    """
    if quantity == "speedup":
        return f"times faster than {judged.run.baseline or 'the baseline'}"
    name = spoken(quantity)
    if quantity == "seconds" and _has_parallel_times(judged.rows):
        name += ", blocks in turn"
    return name


def _format_percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _mean_text(text: str) -> str:
    """Return the mean in a text such as ``0.71 ± 0.01``."""
    return text.partition(" ")[0].rstrip(UNCONVERGED)


@dataclass(frozen=True)
class _Layout:
    """Layout of the tables of a run.

    Attributes
    ----------
    judged : JudgedRun
    rows, columns : str
        Axes that are the rows and columns.
    percent : bool
        Whether scores are shown in percent.
    foot : bool
        Whether average ranks are shown below the methods.
    values : dict of str to list
        Values of each axis, in order.
    settings : dict of str to list of (str, value)
        For each data set of a sweep, its label at each value of the axis.
    printed : dict
        Published numbers by data set, method and quantity.
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
        layout = run.spec.table or TableLayout()
        sweep = run.spec.sweep
        quantities = layout.show
        if not quantities:
            quantities = sweep_quantities(run)
            is_fixed = run.spec.is_analysis or (sweep and sweep.quantities)
            if run.spec.timing and not is_fixed:
                quantities.append("seconds")
                if _has_parallel_times(judged.rows):
                    quantities.append(PARALLEL)
                quantities.append("speedup")
                quantities = list(dict.fromkeys(quantities))
        rows, columns = _default_axes(run, len(quantities))
        rows = layout.rows or rows
        columns = layout.columns or columns
        tasks: list[Any] = [None]
        if "task" in (rows, columns):
            names = [task for row in judged.rows for task in row.task_names]
            tasks = list(dict.fromkeys(names)) or [None]
        axis_values: list[Any] = [None]
        if sweep:
            axis_values = sweep.values
        datasets = [axis_of(run, label) for label in run.datasets]
        references = judged.references
        return cls(
            judged=judged,
            rows=rows,
            columns=columns,
            percent=layout.percent,
            foot=layout.foot,
            values={
                "dataset": list(dict.fromkeys(datasets)),
                "method": run.methods,
                "quantity": quantities,
                "value": axis_values,
                "task": tasks,
            },
            settings=sweep_settings(run),
            printed={(r.dataset, r.method, r.quantity): r for r in references},
        )

    def table(self, block: Mapping[str, Any]) -> Section:
        """Return the table at some values of the other axes.

        Rows and columns without any number are left out. Published numbers without one
        of ours are shown in the table of the first quantity.
        """
        columns = self.values[self.columns]
        matrix = []
        for head in self.values[self.rows]:
            row = []
            for column in columns:
                row.append(self._cell({**block, self.rows: head, self.columns: column}))
            matrix.append(row)
        kept = []
        for index in range(len(columns)):
            if any(row[index] for row in matrix):
                kept.append(index)
        is_first = block.get("quantity") in (None, *self.values["quantity"][:1])
        lines: list[tuple[str, list[PrintedNumber | None]]] = []
        for head, row in zip(self.values[self.rows], matrix, strict=True):
            present = [cell for cell in row if cell is not None]
            if not is_first:
                present = [c for c in present if c.printed or c.value is not None]
            if present:
                name = self._value_name(self.rows, head)
                lines.append((name, [row[index] for index in kept]))
        if self.foot and is_first and lines:
            ranks = [self._rank(block, columns[index]) for index in kept]
            if any(ranks):
                lines.append(("average rank", ranks))
        best = self._best([cells for _, cells in lines])
        table = ReportTable([Column(self.axis_name(self.rows))])
        for index in kept:
            name = self._value_name(self.columns, columns[index])
            table.columns.append(Column(name, "score"))
        has_mark = False
        for head, cells in lines:
            entries: list[Any] = [head]
            for cell in cells:
                if cell is not None:
                    has_mark |= UNCONVERGED in cell.text
                    cell = replace(cell, bold=id(cell) in best)
                entries.append(cell)
            table.rows.append(entries)
        notes = []
        if has_mark:
            notes.append(f"{UNCONVERGED} not all fits converged")
        return Section(self._title(block), notes, [table])

    def _cell(self, position: Mapping[str, Any]) -> PrintedNumber | None:
        """Return the entry at a value of each axis; None without any number."""
        row = self._row(position)
        if row is None:
            return None
        quantity = position["quantity"]
        row_key = (row.dataset, row.method)
        value = row.value(quantity)
        published = self.printed.get((*row_key, quantity))
        if value is None and published is None and row.n:
            return None
        cell = PrintedNumber(
            self._text(row, quantity), value=value, quantity=quantity, place=row_key
        )
        if published is None:
            return cell
        text = number(published.value, 5)
        if self._is_percent(quantity):
            text = _format_percent(published.value)
        std = None
        # The standard deviation belongs to a mean, not to a median.
        if quantity not in row.medians:
            std = row.std(quantity)
        return replace(
            cell,
            printed=text,
            verdict=published.verdict,
            published=published.value,
            std=std,
        )

    def _row(self, position: Mapping[str, Any]) -> MethodResult | None:
        """Return the results of a method on a data set, or on one of its tasks."""
        label = position["dataset"]
        if self.judged.run.spec.sweep:
            labels = []
            for setting_label, value in self.settings.get(label, ()):
                if value == position["value"]:
                    labels.append(setting_label)
            if not labels:
                return None
            label = labels[0]
        row = self.judged.table.get((label, position["method"]))
        if row is None or position["task"] is None:
            return row
        return row.of_task(position["task"])

    def _text(self, row: MethodResult, quantity: str) -> str:
        """Return the mean and standard deviation as text.

        Without a number the text gives the reason; with too few splits it gives their
        number.
        """
        run = self.judged.run
        value = row.value(quantity)
        time_limit = None
        if row.statuses[TIMEOUT]:
            time_limit = "timeout"
            if run.spec.limits is not None:
                time_limit = f"> {number(run.spec.limits.seconds)} s"
        if value is None:
            if time_limit:
                return time_limit
            if row.status in (MISSING, PARTIAL, "ok"):
                return "-"
            return row.status
        if run.spec.is_analysis:
            text = f"{number_text(row, quantity)}"
            if time_limit:
                text += f" ({row.affected} of {row.planned} {time_limit})"
        elif self._is_percent(quantity):
            text = _format_percent(value)
            std = row.std(quantity)
            if std is not None:
                text += f" ± {_format_percent(std)}"
        elif quantity in QUANTITIES and quantity not in ("truth_error", *ROBUST_PARTS):
            kind = "seconds"
            if quantity == "speedup":
                kind = "ratio"
            text = show(value, kind)
        else:
            text = mean_std(row, quantity)
        if row.n < row.planned and not time_limit:
            text += f" ({row.n}/{row.planned})"
        if row.status == NOT_CONVERGED:
            text += UNCONVERGED
        return text

    def _is_percent(self, quantity: str) -> bool:
        return self.percent and quantity in self.judged.run.spec.metrics

    def _rank(self, block: Mapping[str, Any], method: str) -> PrintedNumber | None:
        """Return the average rank of a method over the data sets of a table."""
        group = ALL_DATA
        if block.get("value") is not None:
            group = f"{self.axis_name('value')} {show(block['value'])}"
        row_key = (group, method)
        row = self.judged.table.get(row_key)
        if row is None:
            return None
        value = row.value(AVERAGE_RANK)
        if value is None:
            return None
        cell = PrintedNumber(
            f"{value:.2f}", value=value, quantity=AVERAGE_RANK, place=row_key
        )
        published = self.printed.get((*row_key, AVERAGE_RANK))
        if not published:
            return cell
        return replace(
            cell,
            printed=f"{published.value:.2f}",
            verdict=published.verdict,
            published=published.value,
        )

    def _best(self, lines: Sequence[Sequence[PrintedNumber | None]]) -> set[int]:
        """Return the ids of the best entries among entries that differ by method only.

        Entries with the same mean in the digits shown are equally good.
        """
        best: set[int] = set()
        if self.judged.run.spec.kind in ("inspect", "audit"):
            return best
        if self.columns == "method":
            groups = list(map(list, lines))
        elif self.rows == "method":
            groups = list(map(list, zip(*lines, strict=True)))
        else:
            return best
        for group in groups:
            cells = [c for c in group if c is not None and c.value is not None]
            if len(cells) < 2:
                continue
            greater = direction(cells[0].quantity, self.judged.run)
            if greater is None:
                continue
            select = max if greater else min
            winner = select(cells, key=lambda cell: cell.value or 0.0)
            for cell in cells:
                if _mean_text(cell.text) == _mean_text(winner.text):
                    best.add(id(cell))
        return best

    def axis_name(self, axis: str) -> str:
        """Return the name of an axis for readers."""
        sweep = self.judged.run.spec.sweep
        if axis == "value" and sweep:
            return sweep.name
        if axis == "dataset":
            return "data set"
        return axis

    def _value_name(self, axis: str, value: object) -> str:
        if axis == "dataset":
            return title_of(self.judged.run, str(value))
        if axis == "quantity":
            return _quantity_name(self.judged, str(value))
        return show(value)

    def _title(self, block: Mapping[str, Any]) -> str:
        """Return what distinguishes a table from the others, and the unit of
        percents.
        """
        parts = []
        for axis, value in block.items():
            if axis == "quantity":
                name = _quantity_name(self.judged, str(value))
                if self._is_percent(value):
                    name += " (%)"
                parts.append(name)
            elif value is None:
                continue
            elif axis == "value":
                parts.append(f"{self.axis_name('value')} {show(value)}")
            elif axis == "dataset":
                if has_data(self.judged.run, value):
                    parts.append(title_of(self.judged.run, str(value)))
            elif len(self.values[axis]) > 1:
                parts.append(show(value))
        return ", ".join(parts)


def _default_axes(run: Run, n_quantities: int) -> tuple[str, str]:
    """Return the axes of the rows and columns if the experiment does not name them."""
    kind = run.spec.kind
    columns = "method"
    if kind == "inspect":
        columns = "quantity"
    if run.spec.sweep:
        return "value", columns
    rows = "dataset"
    has_one_dataset = len(run.datasets) == 1 and len(run.methods) > 1
    if kind in ("trace", "audit") or has_one_dataset:
        # A list of the methods is easier to read than a single line.
        rows = "method"
        columns = "quantity"
    if columns == "quantity":
        n_rows = len(run.datasets)
        if rows == "method":
            n_rows = len(run.methods)
        if n_quantities > max(MAX_QUANTITY_COLUMNS[rows], n_rows):
            return columns, rows
    return rows, columns


def table_notes(
    run: Run,
    rows: Sequence[MethodResult],
    tables: Sequence[Section],
    *,
    bold: bool = True,
    has_paper_values: bool = True,
) -> list[str]:
    """Return one line that explains how to read the tables.

    Parameters
    ----------
    run : Run
    rows : sequence of MethodResult
    tables : sequence of Section
    bold : bool, default=True
        Whether the output can show bold numbers.
    has_paper_values : bool, default=True
        Whether the paper prints the numbers below ours.
    """
    cells: list[PrintedNumber] = []
    for table in tables:
        for row in table.grids[0].rows:
            cells += [cell for cell in row[1:] if cell]
    notes = []
    if bold and any(cell.bold for cell in cells):
        notes.append("The best number is in bold.")
    if any("±" in cell.text for cell in cells):
        unit = "splits"
        if run.spec.is_analysis:
            unit = "repeats"
        notes.append(f"±: standard deviation over the {unit}.")
    has_speedup = any(cell.quantity == "speedup" for cell in cells)
    if has_speedup and _has_parallel_times(rows):
        notes.append("Times faster: by the seconds with the blocks one after another.")
    if any(cell.printed for cell in cells):
        if has_paper_values:
            notes.append("Below ours: the paper's values.")
        else:
            notes.append("Below ours: values published elsewhere, see Deviations.")
    table_lines: dict[str, None] = {}
    for table in tables:
        table_lines |= dict.fromkeys(table.lines)
    notes += [f"{line}." for line in table_lines]
    if not notes:
        return []
    return [" ".join(notes)]


# ----------------------------------------------------------------------- results


def result_grid(run: Run, rows: list[MethodResult]) -> ReportTable:
    """Return the table for other programs.

    The documented columns come first, further ones after `status`.
    """
    kind = "score"
    count_names: list[str] = []
    metrics = run.spec.metrics
    is_analysis = run.spec.is_analysis
    if is_analysis:
        kind = "number"
    else:
        count_names = [ONE_CLASS, *(f"undefined_{metric}" for metric in metrics)]
    table = ReportTable.of("dataset", "method")
    for metric in metrics:
        table.columns += [Column(f"{metric}_mean", kind), Column(f"{metric}_std", kind)]
    if not is_analysis:
        table.columns += [
            Column("seconds_median", "seconds"),
            Column("speedup", "ratio"),
        ]
    table.columns += [
        Column("n", "count"),
        Column("status"),
        Column("planned", "count"),
    ]
    table.columns += map(Column, count_names)
    for row in rows:
        entries: list[Any] = [row.dataset, row.method]
        for metric in metrics:
            entries += [row.value(metric), row.std(metric)]
        if not is_analysis:
            entries += [row.value("seconds"), row.speedup]
        entries += [row.n, row.status, row.planned]
        entries += [range_text(row.counts(name)) for name in count_names]
        table.rows.append(entries)
    if _has_parallel_times(rows) and not is_analysis:
        times = []
        for row in rows:
            time = None
            # `row.value` would return the plain seconds of methods without blocks.
            if PARALLEL in row.samples:
                time = row.value(PARALLEL)
            times.append(time)
        if any(time is not None for time in times):
            table.add("seconds_parallel_median:seconds", times)
    return table


def number_text(row: MethodResult, quantity: str) -> str | None:
    """Format the number of an analysis, with its standard deviation over repeats."""
    value = row.value(quantity)
    if value is None:
        return None
    text = show(value, "number")
    std = row.std(quantity)
    if std:
        text += f" ± {number(std, 2)}"
    return text


def mean_std(row: MethodResult, quantity: str) -> str:
    """Return ``mean ± std``, the mean alone with one split, a dash without any."""
    text = show(row.value(quantity), "score")
    std = row.std(quantity)
    if std is None:
        return text
    # A mean without an exponent has four decimals, and so has its deviation.
    std_text = f"{std:.4f}"
    if "e" in text:
        std_text = show(std, "score")
    return f"{text} ± {std_text}"


def result_notes(run: Run, rows: list[MethodResult]) -> list[str]:
    """Return explanations of quantities, and the notes on tasks of each data set.

    A note that several data sets share is given once.
    """
    explanations = []
    for name in run.spec.metrics:
        quantity = run.experiment.quantities.get(name)
        if quantity and quantity.text:
            explanations.append(f"{spoken(name)}: {quantity.text}")
    notes = []
    if explanations:
        notes.append(f"{'; '.join(explanations)}.")
    datasets_by_note: dict[str, list[str]] = {}
    for dataset in run.datasets:
        note = task_note(run, [row for row in rows if row.dataset == dataset])
        if note:
            datasets_by_note.setdefault(note, []).append(dataset)
    for note, datasets in datasets_by_note.items():
        subject = ", ".join(datasets)
        if len(run.datasets) > 3 and datasets == list(run.datasets):
            subject = "Everywhere"
        notes.append(f"{subject}: {note}.")
    return notes


def task_note(run: Run, rows: list[MethodResult]) -> str | None:
    """Count the tasks of a data set with a single class or an undefined metric.

    Returns
    -------
    str or None
        None if there is no such task.
    """
    reasons = {ONE_CLASS: "only one class in the training part"}
    for metric in run.spec.metrics:
        reasons[f"undefined_{metric}"] = f"{spoken(metric)} undefined"
    parts = []
    for name, text in reasons.items():
        counts = _all_counts(rows, name)
        if any(counts):
            parts.append(f"{text} for {range_text(counts)}")
    if not parts:
        return None
    n_tasks = range_text(_all_counts(rows, "n_tasks"))
    return f"{', '.join(parts)} of {n_tasks} tasks in each split"


def _all_counts(rows: Sequence[MethodResult], name: str) -> list[int]:
    counts: list[int] = []
    for row in rows:
        counts += row.counts(name)
    return counts


def range_text(values: Sequence[int] | None) -> str | None:
    """Return the smallest and largest count, or one number if they are equal.

    Returns
    -------
    str or None
        None without any count.
    """
    if not values:
        return None
    low = min(values)
    high = max(values)
    if low == high:
        return str(low)
    return f"{low}-{high}"


# ------------------------------------------------------------------------ sweeps


def sweep_settings(run: Run) -> dict[str, list[tuple[str, Any]]]:
    """Return for each data set of a sweep its labels with the values of the axis."""
    settings: dict[str, list[tuple[str, Any]]] = {}
    for label, dataset in run.datasets.items():
        axis = dataset.axis
        if axis:
            settings.setdefault(axis.of, []).append((label, axis.value))
    return settings


def sweep_quantities(run: Run) -> list[str]:
    """Return the quantities along the axis: by default metrics, and measured
    seconds.
    """
    if run.spec.sweep and run.spec.sweep.quantities:
        return run.spec.sweep.quantities
    if run.spec.timing:
        return [*run.spec.metrics, "seconds"]
    return list(run.spec.metrics)


# ---------------------------------------------------------------------- analyses


#: A report shows the tables of analyses if there are at most this many of them.
MAX_STORED_TABLES = 100


def measurement_sections(run: Run) -> list[Section]:
    """Return the sentences and tables that analyses returned.

    For each method and data set, the first finished repeat counts. If there are more
    than `MAX_STORED_TABLES` tables, a sentence says where they are instead.
    """
    titled: list[tuple[str, Mapping[str, Any]]] = []
    for dataset in run.datasets:
        for method in run.methods:
            content: Mapping[str, Any] = {}
            for record in results_of(run, dataset, method):
                if record.result:
                    content = record.result
                    break
            title = method
            if has_data(run, dataset):
                title += f" on {title_of(run, dataset)}"
            titled.append((title, content))
    n_tables = sum(len(content.get("tables") or {}) for _, content in titled)
    sections = []
    for title, content in titled:
        lines = [f"* {line}" for line in content.get("lines") or ()]
        if lines:
            sections.append(Section(title, lines))
        if n_tables > MAX_STORED_TABLES:
            continue
        for name, stored in (content.get("tables") or {}).items():
            rows = stored["rows"]
            table = ReportTable([], [list(row) for row in rows])
            for index, column in enumerate(stored["columns"]):
                kind = "number"
                if any(isinstance(row[index], str) for row in rows):
                    kind = "text"
                table.columns.append(Column(str(column), kind))
            sections.append(Section(f"{title}: {name}", grids=[table]))
    if n_tables > MAX_STORED_TABLES:
        sentence = (
            f"The {n_tables:,} tables of single jobs are left out here. They are in "
            "the records of the run."
        )
        sections.append(Section("Tables of the analyses", [sentence]))
    return sections
