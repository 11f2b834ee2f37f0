"""A run with the records of its cells, all results as one tidy table, and what the cells of a method say."""

from __future__ import annotations

import dataclasses
import io
import math
import os
import statistics
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Any, get_type_hints

import pandas as pd
from pydantic import BaseModel, ConfigDict, create_model

from mtlrun.engine.averages import std
from mtlrun.engine.packed import is_search, name_candidates
from mtlrun.engine.record import (
    DIVERGED,
    DONE,
    FAILED,
    NOT_CONVERGED,
    OK,
    TIMEOUT,
    JobKind,
    Record,
    Records,
    ResultKey,
)
from mtlrun.engine.stored import (
    AGAIN,
    COMPARED,
    PROVENANCE,
    RUN_FILE,
    TRAINED,
    VERIFIED,
)
from mtlrun.errors import DataError, UserError, with_arguments
from mtlrun.lab.report.checks import MEDIAN_QUANTITIES
from mtlrun.lab.stored import StoredPlan, read_json, read_plan, read_sound
from mtlrun.stats import PairedTest
from mtlrun.tables.quantities import PARALLEL
from mtlrun.utils.io import DIGEST, as_list, canonical_json, jsonable, sealed
from mtlrun.utils.outputs import write_output
from mtlrun.utils.sizes import LARGEST
from mtlrun.utils.text import cleaned, with_present_options

#: Label of the place of measurements that need no data set.
PUBLISHED = "published"
#: Status of a cell that is not computed.
MISSING = "missing"
#: What became of other cells than missing and failed ones.
COMPLETE, STOPPED = "done", "stopped"


class _StoredSearch(BaseModel, strict=True):
    """The search of a fit."""

    key: str
    metric: str
    means: list[float | None]
    scores: list[list[Any]]
    grid: dict[str, list[Any]]
    names: list[str] = []


class _PackedSearch(BaseModel, strict=True):
    """The search of a fit as packed records keep it."""

    key: str
    metric: str
    n_candidates: int
    n_fits: int
    grid: dict[str, list[Any]]
    best: dict[str, list[float | None]] = {}


#: The fields of a record with their types.
_TYPES: dict[str, Any] = {
    name: (kind, ...) for name, kind in get_type_hints(Record).items()
}
_Fields = create_model("_Fields", __config__=ConfigDict(strict=True), **_TYPES)


#: What decides a paired test on the test scores of two records.
TestKey = tuple[str, str, str, float]


@dataclass
class Run:
    """What a run folder holds.

    Attributes
    ----------
    folder : Path
    info : dict
        Content of run.json.
    planned : list of ResultKey
    cells : dict of str to Record
        Readable records by key, finished or failed.
    selections : dict of str to Record
        Key of a parameter search -> record of a cell that it chose the parameters of.
    provenance : list of dict
        One entry per invocation that computed something, the newest last.
    unreadable : list of str
        Names of planned cells whose file could not be read.
    unsound : list of str
        Names of cells whose test scores are missing or not as they were written: no test uses them.
    reading : str
        Name of the reading of the paper; "" without readings.
    others : list of Run
        The same run under the other readings, with the same records.
    altered : bool
        Whether run.json was modified after it was written.
    paired : dict
        Paired tests on kept test scores, by the keys of both records, the kind of the test and the difference up to
        which scores are equal: those that the packed records have, and those that claims asked for since.
    """

    folder: Path
    info: dict[str, Any]
    planned: list[ResultKey]
    cells: dict[str, Record] = field(default_factory=dict)
    selections: dict[str, Record] = field(default_factory=dict)
    provenance: list[dict[str, Any]] = field(default_factory=list)
    verified: dict[str, Any] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    reading: str = ""
    others: list[Run] = field(default_factory=list)
    altered: bool = False
    paired: dict[TestKey, PairedTest] = field(default_factory=dict)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The resolved experiment."""
        return dict(self.info.get("config") or {})

    @property
    def profile(self) -> str:
        """Profile of the run."""
        return str(self.info.get("profile", ""))

    @cached_property
    def metrics(self) -> list[str]:
        """Names of the metrics, the first one is the main one."""
        return [
            m if isinstance(m, str) else str(m["name"])
            for m in as_list(self.config.get("metrics"))
        ]

    @property
    def baseline(self) -> str | None:
        """Label of the method that speed-ups refer to."""
        return (self.config.get("timing") or {}).get("baseline")

    @cached_property
    def sweep(self) -> dict[str, Any]:
        """Section `sweep` of the experiment, {} without one."""
        return dict(self.config.get("sweep") or {})

    @cached_property
    def datasets(self) -> dict[str, dict[str, Any]]:
        """Facts about the data sets by label, in the order of the experiment."""
        facts = self.info.get("datasets") or {}
        labels = dict.fromkeys([*facts, *(c.dataset for c in self.planned)])
        return {label: dict(facts.get(label) or {}) for label in labels}

    def axis_of(self, label: str) -> str:
        """Label of a data set without the value of the axis of a sweep."""
        return str((self.datasets.get(label, {}).get("axis") or {}).get("of", label))

    @property
    def names_of_data(self) -> str:
        """Labels of the data sets in one line, each once whatever the values of an axis."""
        return ", ".join(dict.fromkeys(map(self.axis_of, self.datasets))) or "nothing"

    def label_of(self, name: str) -> str | None:
        """Return the label of a data set named by label or id, None when the run does not have it."""
        ids = {
            str(facts.get("id", label)): label
            for label, facts in reversed(self.datasets.items())
        }
        return name if name in self.datasets else ids.get(name)

    def has_data(self, label: str) -> bool:
        """Whether a label is that of a data set, and not of the one place of measures of published numbers."""
        return (
            self.datasets.get(label, {}).get("id") != PUBLISHED and label != PUBLISHED
        )

    def title_of(self, label: str) -> str:
        """Label of a data set, in a sweep also without the value of the axis; simulated ones are marked."""
        facts = (
            about
            for name, about in self.datasets.items()
            if label in (name, self.axis_of(name))
        )
        return mark_simulated(label, next(facts, {}))

    @cached_property
    def methods(self) -> list[str]:
        """Labels of the methods in the order of the experiment."""
        return list(
            dict.fromkeys(
                [*as_list(self.info.get("methods")), *(c.method for c in self.planned)]
            )
        )

    @property
    def all_planned(self) -> list[ResultKey]:
        """The plan under all readings."""
        return [
            *self.planned,
            *(cell for other in self.others for cell in other.planned),
        ]

    @cached_property
    def begun(self) -> list[tuple[Run, list[ResultKey]]]:
        """Other readings, each with the planned cells that none before has, if one was computed or there are none."""
        found, shared = [], {cell.key for cell in self.planned}
        for other in self.others:
            own = [cell for cell in other.planned if cell.key not in shared]
            if any(cell.key in self.cells for cell in own or other.planned):
                found.append((other, own))
                shared |= {cell.key for cell in own}
        return found

    def outcome(self, cell: ResultKey) -> str:
        """Return what became of a cell: done, missing, failed, or stopped: a measurement at its limit of seconds."""
        record = self.cells.get(cell.key)
        if record is None:
            return MISSING
        if record.done:
            return COMPLETE
        return (
            STOPPED
            if (record.family, record.status) == (JobKind.ANALYSIS, TIMEOUT)
            else FAILED
        )

    @property
    def missing(self) -> list[ResultKey]:
        """Planned cells without a readable record."""
        return [cell for cell in self.planned if self.outcome(cell) == MISSING]

    @property
    def failed(self) -> list[ResultKey]:
        """Planned cells whose record tells of a failure."""
        return [cell for cell in self.planned if self.outcome(cell) == FAILED]

    @cached_property
    def measures(self) -> bool:
        """Whether the cells are measurements: calls of a measure instead of fits that are scored."""
        return any(
            cell.get("family") == JobKind.ANALYSIS
            for cell in as_list(self.info.get("cells"))
        )

    @property
    def quantities(self) -> dict[str, dict[str, Any]]:
        """Facts on what the measures return: `text` and `greater_is_better` by name."""
        return dict(self.info.get("quantities") or {})

    @property
    def published(self) -> list[dict[str, Any]]:
        """Curves of the paper: ``dataset, method, name, x, y, source``."""
        return as_list((self.info.get("published") or {}).get("curves"))

    def cells_of(self, dataset: str, method: str) -> list[ResultKey]:
        """Return the planned cells of a method on a data set, in the order of the trials."""
        return self._by_row.get((dataset, method), [])

    @cached_property
    def _by_row(self) -> dict[tuple[str, str], list[ResultKey]]:
        found: dict[tuple[str, str], list[ResultKey]] = {}
        for cell in self.planned:
            found.setdefault((cell.dataset, cell.method), []).append(cell)
        return found

    def first_results(self, name: str) -> Iterator[tuple[str, str, Any]]:
        """Yield data set, method, and what the first finished repeat that has it says under a name."""
        for dataset, method in product(self.datasets, self.methods):
            found = (
                r.result[name]
                for r in self.results_of(dataset, method)
                if r.result.get(name)
            )
            yield from ((dataset, method, content) for content in islice(found, 1))

    def results_of(self, dataset: str, method: str) -> list[Record]:
        """Return the finished records of a method on a data set, in the order of the trials."""
        return [
            r
            for c in self.cells_of(dataset, method)
            if (r := self.cells.get(c.key)) is not None and r.done
        ]


def mark_simulated(name: str, facts: dict[str, Any]) -> str:
    """Add "(simulated)" to the name or title of a simulated data set that does not say so itself."""
    return (
        f"{name} (simulated)"
        if facts.get("simulated") and "simulated" not in name.lower()
        else name
    )


# ---------------------------------------------------------------- reading


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Parameters
    ----------
    folder : Path
        ``<output>/<paper>/<artefact>/<profile>`` with run.json, and perhaps packed records and provenance.json.

    Raises
    ------
    DataError
        If there is no run.json or it is damaged. A damaged cell is only noted: it will be computed again.
    """
    folder = Path(folder)
    stored = Records.of_run(folder)
    raw = read_plan(folder, stored)
    if raw is None:
        raise DataError(
            f"{folder}: no {RUN_FILE} here, so this is not the folder of a run",
            "Run the experiment first (mtlrun reproduce TARGET), or give <output>/<paper>/<artefact>/<profile>.",
        )
    info = cleaned(raw)
    if info.get("command"):
        info["command"] = with_present_options(str(info["command"]))
    plan = StoredPlan.model_validate(info)
    run = Run(folder, info, [cell for cell in plan.cells if not cell.reading])
    run.altered = sealed({k: v for k, v in raw.items() if k != DIGEST}) != raw
    run.reading = str(info.get("reading") or "")
    computed = [
        name
        for name, about in (plan.readings or {}).items()
        if about.config is not None
    ]
    run.others = [_under(run, name, plan) for name in computed if name != run.reading]
    run.provenance = as_list((read_json(folder / PROVENANCE) or {}).get("runs"))
    run.verified = read_sound(folder / VERIFIED)
    # The runs under other interpretations share this dictionary.
    run.paired.update(stored_tests(stored.packed.paired))
    for cell in run.all_planned:
        if cell.key in run.cells:
            continue
        try:
            record = stored.read(cell.key)
            if record is not None:
                run.cells[cell.key] = checked(record)
        except ValueError:
            if stored.damage is None or stored.path(cell.key).is_file():
                run.unreadable.append(cell.name)
            continue
        try:
            if record is not None:
                stored.scores(record)
        except ValueError:
            run.unsound.append(cell.name)
    if (
        stored.damage is not None and run.missing
    ):  # else the cells lie in cells/, and nothing is lost
        if not run.cells:
            raise DataError(f"{folder / stored.pack_name}: {stored.damage}", AGAIN)
        run.unreadable.append(stored.pack_name)
    for key in sorted(run.cells):
        if is_search(run.cells[key].selection):
            run.selections.setdefault(
                str(run.cells[key].selection["key"]), run.cells[key]
            )
    name_candidates(record.selection for record in run.selections.values())
    return run


def stored_tests(entries: Iterable[dict[str, Any]]) -> dict[TestKey, PairedTest]:
    """Return the paired tests that packed records have; those of another form are left out."""
    tests = {}
    for entry in entries:
        try:
            key = (entry["of"], entry["over"], entry["test"], float(entry["equal_to"]))
            tests[key] = PairedTest(**entry["result"])
        except (LookupError, TypeError, ValueError):
            continue
    return tests


def storable_tests(tests: dict[TestKey, PairedTest]) -> list[dict[str, Any]]:
    """Return paired tests in the form that `stored_tests` reads."""
    return [
        {
            "of": of,
            "over": over,
            "test": test,
            "equal_to": equal_to,
            "result": jsonable(dataclasses.asdict(result)),
        }
        for (of, over, test, equal_to), result in tests.items()
    ]


def _under(run: Run, reading: str, plan: StoredPlan) -> Run:
    """Return a run under another reading; it shares the records."""
    about = run.info["readings"][reading]
    info = {**run.info, "config": {**run.config, **about["config"]}, "reading": reading}
    info |= {name: about[name] for name in ("datasets", "methods") if name in about}
    planned = [cell for cell in plan.cells if cell.reading == reading]
    return dataclasses.replace(
        run, info=info, planned=planned, reading=reading, others=[]
    )


def checked(record: Record) -> Record:
    """Return a record with its texts cleaned of control characters.

    Raises
    ------
    ValueError
        If its fields are not of the types that a record has, or a number is beyond `LARGEST`.
    """
    _Fields.model_validate(vars(record))
    if record.selection.get("means"):  # not that of a fold
        _StoredSearch.model_validate(record.selection)
    elif "n_candidates" in record.selection:
        _PackedSearch.model_validate(record.selection)
    if not all(
        isinstance(end, str)
        for end in dict(record.selection.get("edges") or {}).values()
    ):
        raise ValueError("the edges of the selection are no texts")
    if any(
        abs(number) > LARGEST
        for number in _all_numbers([record.metrics, record.per_task, record.seconds])
    ):
        raise ValueError(f"a number beyond {LARGEST:g}")
    return Record(**cleaned(vars(record)))


def _all_numbers(value: object) -> Iterator[float]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _all_numbers(item)
    elif isinstance(value, int | float):
        yield value


# ---------------------------------------------------------------------- cells

#: Columns that say what a row is, and what the solver said; metrics and chosen parameters (`param_...`) stand beside.
HEAD = (
    "kind",
    "experiment",
    "profile",
    "reading",
    "dataset",
    "value",
    "method",
    "trial",
    "status",
)
#: Recorded of robust models L + E.
ROBUST_PARTS = ("rank", "n_outliers", "low_rank_error")
COST = (
    "seconds",
    PARALLEL,
    "seconds_predict",
    "seconds_search",
    "n_iter",
    "gap",
    "objective",
    "truth_error",
    *ROBUST_PARTS,
)
OBJECTS = ("place", "tasks", "counts")
#: Status of a method that has not all of its cells.
PARTIAL = "partial"
#: A method takes the worst status of its cells.
WORST_FIRST = (FAILED, DIVERGED, TIMEOUT, MISSING, NOT_CONVERGED, OK)
PARQUET = "results.parquet"
_Row = dict[str, Any]


@with_arguments
def load_results(folder: str | Path) -> pd.DataFrame:
    """Read results into a tidy table, one row per cell.

    Parameters
    ----------
    folder : path
        Folder of a run, of a comparison, of a training, or one with any number of them below it, such as
        ``results/runs``.

    Returns
    -------
    DataFrame
        ``kind`` (reproduce, compare, train), ``experiment``, ``profile``, ``reading`` (empty without readings),
        ``dataset``, ``value`` (of the axis of a sweep), ``method``, ``trial``, ``status`` (``missing``: planned, not
        computed); a column per metric; ``seconds`` of the fit, ``seconds_parallel``, ``seconds_predict``,
        ``seconds_search``, ``n_iter``, ``gap``, ``objective``, ``truth_error``, ``rank``, ``n_outliers``,
        ``low_rank_error`` (of robust models); a column ``param_NAME`` per parameter that a search chose;
        ``key`` of the cell and ``folder``. A cell that several tables share stands in each of
        them; readings that were not begun are left out. Measurements have their quantities in place of metrics.

    Raises
    ------
    DataError
        If there are no results in the folder, or the files of a folder that was named itself are damaged.

    Warns
    -----
    UserWarning
        For a damaged folder below the one that was named; it is left out.

    Examples
    --------
    >>> import mtlrun
    >>> results = mtlrun.load_results("results/runs")  # doctest: +SKIP
    >>> results.groupby(["dataset", "method"])["auc"].mean()  # doctest: +SKIP
    """
    root = Path(folder)
    rows: list[_Row] = []
    for place, read in _found(root):
        try:
            shown = place.relative_to(root).as_posix()
            rows += [{**row, "folder": shown} for row in read(place)]
        except DataError as error:
            if place == root:
                raise
            warnings.warn(f"left out: {error.message}", UserWarning, stacklevel=2)
    if not rows:
        remedy = "Name the folder of a run, a comparison or a model, or one that holds some, as results/runs does."
        raise DataError(f"{root}: no results here", remedy)
    return _frame(rows)


def write_parquet(frame: pd.DataFrame, path: Path) -> Path:
    """Write a table of results as Parquet; the file appears whole or not at all.

    Raises
    ------
    UserError
        Without pyarrow.
    """
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, engine="pyarrow", index=False)
    except ImportError:
        raise UserError(
            "writing parquet needs pyarrow", "pip install '.[parquet]'"
        ) from None
    write_output(path, buffer.getvalue())
    return path


def _found(root: Path) -> Iterator[tuple[Path, Callable[[Path], Iterable[_Row]]]]:
    """Yield the folders with results and what reads them; what lies inside one of them belongs to it."""
    readers = {
        RUN_FILE: lambda folder: _of_readings(read_run(folder)),
        COMPARED: _of_comparison,
        TRAINED: _of_training,
    }
    for place, folders, files in os.walk(root):
        name = next((name for name in readers if name in files), None)
        if name is not None:
            yield Path(place), readers[name]
        folders[:] = (
            sorted(folder for folder in folders if folder != "cells")
            if name is None
            else []
        )


def cells_frame(run: Run) -> pd.DataFrame:
    """Return the cells of a run, one row each, without those that only other readings have.

    Returns
    -------
    DataFrame
        As of `load_results`, but for ``folder``, with ``place`` (the label of the data set, in a sweep with the value),
        ``tasks`` (per metric the values of the tasks) and ``counts`` of what is finished.
    """
    return _frame(list(_places(run, run.planned)), OBJECTS)


def _of_readings(run: Run) -> Iterator[_Row]:
    yield from _places(run, run.planned)
    for other, own in run.begun:
        yield from _places(other, own)


def _places(run: Run, planned: Iterable[ResultKey]) -> Iterator[_Row]:
    head = {
        "kind": "reproduce",
        "experiment": run.info.get("id"),
        "profile": run.profile,
        "reading": run.reading,
    }
    datasets = run.datasets
    for cell in planned:
        axis = datasets[cell.dataset].get("axis") or {}
        place = {
            "dataset": axis.get("of", cell.dataset),
            "value": axis.get("value"),
            "method": cell.method,
        }
        row = {
            **head,
            **place,
            "place": cell.dataset,
            "trial": cell.trial,
            "key": cell.key,
        }
        yield {**row, **_numbers(run.cells.get(cell.key))}


def tidy_frame(run: Run) -> pd.DataFrame:
    """Return the cells of a run, those of the readings that were begun included, as of `load_results`."""
    return _frame(list(_of_readings(run)), ())


def _of_comparison(folder: Path) -> Iterator[_Row]:
    about = read_json(folder / COMPARED) or {}
    records, data = Records(folder), about.get("dataset") or {}
    for cell in about.get("cells") or ():
        key = str(cell.get("key"))
        try:
            record = records.read(key)
        except ValueError as error:
            raise DataError(
                f"{folder}: {error}", "Compare again: only what is missing is computed."
            ) from None
        head = {
            "kind": "compare",
            "experiment": f"compare/{folder.name}",
            "dataset": data.get("id"),
            "key": key,
        }
        yield {
            **head,
            "method": cell.get("method"),
            "trial": cell.get("trial"),
            **_numbers(record),
        }


def _of_training(folder: Path) -> Iterator[_Row]:
    found = read_json(folder / TRAINED) or {}
    if not {"id", "metrics", "status"} <= found.keys():
        return  # another program's file of this name
    record = Record(
        "", "fit", {}, status=str(found["status"]), metrics=found["metrics"]
    )
    record.seconds, record.solver, record.selection = (
        found.get(n) or {} for n in ("seconds", "solver", "selection")
    )
    head = {
        "kind": "train",
        "experiment": found["id"],
        "dataset": found.get("dataset"),
        "method": found.get("method"),
    }
    yield {**head, "trial": 0, **_numbers(record)}


def _numbers(record: Record | None) -> _Row:
    """Return status, metrics, cost and chosen parameters of a record."""
    if record is None:
        return {"status": MISSING}
    names = {"seconds": "fit", "seconds_predict": "predict", "seconds_search": "search"}
    cost = {name: record.seconds.get(key) for name, key in names.items()}
    cost |= {PARALLEL: _parallel_seconds(record.seconds)}
    cost |= {
        name: record.solver.get(name)
        for name in ("n_iter", "gap", "objective", "truth_error", *ROBUST_PARTS)
    }
    search = record.selection.get("chosen")
    chosen = (
        {f"param_{name}": value for name, value in search.items()}
        if isinstance(search, dict)
        else {}
    )
    # A measure may return a quantity of the name of a column: the number is what the table is about.
    metrics = {_column(name): value for name, value in record.metrics.items()}
    found = {"tasks": record.per_task, "counts": record.counts} if record.done else {}
    return {"status": record.status, **found, **cost, **metrics, **chosen}


def _is_quantity(column: str) -> bool:
    """Whether a column of numbers is a quantity of the report."""
    return column not in ("trial", "value", "seconds_search") and not column.startswith(
        "param_"
    )


def _column(quantity: str) -> str:
    """Return the column of a quantity."""
    return (
        f"metric_{quantity}"
        if quantity in (*HEAD, *OBJECTS, "key", "folder")
        else quantity
    )


def _parallel_seconds(seconds: dict[str, Any]) -> float | None:
    """Return the seconds with one worker per block: what is not done in blocks, and the slowest block.

    None for methods without blocks.
    """
    total, blocks, slowest = (
        seconds.get(name) for name in ("fit", "blocks_sum", "blocks_max")
    )
    if total is None or blocks is None or slowest is None:
        return None
    return float(slowest + max(0.0, total - blocks))


def _frame(rows: list[_Row], more: Sequence[str] = ("folder",)) -> pd.DataFrame:
    """Return a table with the columns in a fixed order, each of one type."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    own = [
        name for name in names if name not in (*HEAD, *COST, *OBJECTS, "key", "folder")
    ]
    metrics = [name for name in own if not name.startswith("param_")]
    params = sorted(name for name in own if name.startswith("param_"))
    frame = pd.DataFrame(rows, columns=[*HEAD, *metrics, *COST, *params, "key", *more])
    for name in ("kind", "experiment", "profile", "reading", "dataset", "method"):
        frame[name] = pd.Series(
            ["" if pd.isna(value) else str(value) for value in frame[name]],
            dtype=object,
        )
    for name in (*metrics, *COST):
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    for name in ("value", *params):
        frame[name] = _one_type(frame[name])
    return frame


def _one_type(values: pd.Series) -> pd.Series:
    """Return numbers where all values are, else texts; what is neither becomes JSON."""
    numbers = [
        v is None or (isinstance(v, int | float) and not isinstance(v, bool))
        for v in values
    ]
    if all(numbers):
        return values.astype(float)
    texts = [v if isinstance(v, str) else canonical_json(v) for v in values]
    return pd.Series(
        [
            None if v is None or v != v else t
            for v, t in zip(values, texts, strict=True)
        ],
        dtype=object,
    )


# ---------------------------------------------------------------- a method on a data set


@dataclass(frozen=True)
class MethodResult:
    """What the cells of a method on a data set say together.

    Attributes
    ----------
    dataset, method : str
        Labels; in a sweep the first one has the value of the axis.
    cells : DataFrame
        Those rows of `cells_frame`.
    task_names : list of str
        Of the tasks, empty when unknown.
    medians : tuple of str
        Quantities whose number is the median and not the mean.
    base : MethodResult or None
        Of the baseline, which `speedup` is against.
    task : str or None
        Only this one is looked at.
    """

    dataset: str
    method: str
    cells: pd.DataFrame
    task_names: Sequence[str] = ()
    medians: tuple[str, ...] = MEDIAN_QUANTITIES
    base: MethodResult | None = None
    task: str | None = None

    @cached_property
    def speedup(self) -> float | None:
        """Against the baseline, on the splits that both finished."""
        ours, theirs = (
            self.by_trial("seconds"),
            self.base.by_trial("seconds") if self.base else {},
        )
        common = [trial for trial in ours if trial in theirs]
        own = statistics.median(ours[t] for t in common) if common else 0.0
        return statistics.median(theirs[t] for t in common) / own if own > 0 else None

    @property
    def planned(self) -> int:
        """Cells of the plan."""
        return len(self.cells)

    @property
    def n(self) -> int:
        """Cells that gave a number."""
        return len(self.done)

    @cached_property
    def done(self) -> pd.DataFrame:
        """The finished cells."""
        return self.cells[self.cells["status"].isin(DONE)]

    @cached_property
    def statuses(self) -> Counter[str]:
        """How many cells have each status."""
        return Counter(self.cells["status"])

    @cached_property
    def worst(self) -> str:
        """Worst status of the cells."""
        return next(
            (status for status in WORST_FIRST if status in self.statuses), FAILED
        )

    @property
    def status(self) -> str:
        """Worst status of the cells; ``partial`` when some and ``missing`` when all still have to be computed."""
        return (
            PARTIAL
            if self.worst == MISSING and self.affected < self.planned
            else self.worst
        )

    @property
    def affected(self) -> int:
        """Cells that have the status."""
        return self.statuses[self.worst]

    @property
    def status_text(self) -> str:
        """Status with the share of the cells that it concerns: ``failed 1/5``."""
        share = (
            ""
            if self.status == OK or self.affected == self.planned
            else f" {self.affected}/{self.planned}"
        )
        return self.status + share

    @cached_property
    def samples(self) -> dict[str, dict[int, float]]:
        """The values of the splits by quantity and trial, as far as they are defined."""
        if self.task is None:
            columns, trials = (
                self.done.select_dtypes("number"),
                self.done["trial"].tolist(),
            )
            names = [name for name in columns if _is_quantity(name)]
            found = {
                n.removeprefix("metric_"): dict(
                    zip(trials, columns[n].tolist(), strict=True)
                )
                for n in names
            }
        else:
            at, names = (
                self.task_names.index(self.task),
                [name for values in self.done["tasks"] for name in values],
            )
            by_task = {name: self.tasks(name) for name in dict.fromkeys(names)}
            found = {
                n: {t: v[at] for t, v in values.items() if at < len(v)}
                for n, values in by_task.items()
            }
        known = {
            n: {t: v for t, v in values.items() if v is not None and math.isfinite(v)}
            for n, values in found.items()
        }
        return {name: values for name, values in known.items() if values}

    def by_trial(self, quantity: str) -> dict[int, float]:
        """Return the values of the splits; with a worker per block a method without blocks takes its seconds."""
        known = self.samples.get(quantity, {})
        return (
            known or self.samples.get("seconds", {}) if quantity == PARALLEL else known
        )

    def value(self, quantity: str) -> float | None:
        """Return the number of the table: median for `medians`, mean for all else, None when unknown."""
        if quantity == "speedup":
            return self.speedup
        values = list(self.by_trial(quantity).values())
        if not values:
            return None
        return (
            statistics.median(values)
            if quantity in self.medians
            else statistics.fmean(values)
        )

    def std(self, quantity: str) -> float | None:
        """Return the standard deviation over the splits (n - 1), None below two splits."""
        return std(self.by_trial(quantity).values())

    def tasks(self, metric: str) -> dict[int, list[float | None]]:
        """Return the values of the tasks by split."""
        found = zip(
            self.done["trial"].tolist(), self.done["tasks"].tolist(), strict=True
        )
        return {
            trial: list(values[metric]) for trial, values in found if metric in values
        }

    def counts(self, name: str) -> list[int]:
        """Return the counts of a name, one per finished cell."""
        return [counts[name] for counts in self.done["counts"] if name in counts]

    def of_task(self, task: str) -> MethodResult | None:
        """Return the result on a single task: its values in place of the means; None if it is not known."""
        if task not in self.task_names:
            return None
        if task not in self._of_tasks:  # its samples are asked for again and again
            self._of_tasks[task] = replace(
                self, dataset=f"{self.dataset}, {task}", task=task, base=None
            )
        return self._of_tasks[task]

    @cached_property
    def _of_tasks(self) -> dict[str, MethodResult]:
        return {}


def method_results(run: Run) -> list[MethodResult]:
    """Return the results in the order of the experiment, failed and missing ones included."""
    found, medians = [], () if run.measures else MEDIAN_QUANTITIES
    groups = dict(iter(cells_frame(run).groupby(["place", "method"], sort=False)))
    for dataset, method in product(run.datasets, run.methods):
        if (dataset, method) in groups:
            records = (
                r
                for r in reversed(run.results_of(dataset, method))
                if r.result.get("tasks")
            )
            named = (
                next(
                    (r.result["tasks"] for r in records),
                    run.datasets[dataset].get("tasks"),
                )
                or ()
            )
            names = [str(name) for name in named]
            found.append(
                MethodResult(dataset, method, groups[dataset, method], names, medians)
            )
    bases = {one.dataset: one for one in found if one.method == run.baseline}
    return [replace(one, base=bases.get(one.dataset)) for one in found]
