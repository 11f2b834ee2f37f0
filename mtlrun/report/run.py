"""A run as the report sees it: its plan, and the records of its cells."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from mtlrun.errors import DataError
from mtlrun.record import FAILED, MEASURE, PACKED, TIMEOUT, Place, Record, Records
from mtlrun.report.stored import (
    AGAIN,
    PROVENANCE,
    RUN_FILE,
    VERIFIED,
    StoredPlan,
    read_json,
    read_raw,
    read_sound,
)
from mtlrun.utils.io import DIGEST, as_list, sealed
from mtlrun.utils.sizes import LARGEST
from mtlrun.utils.text import cleaned

#: Label of the place of measurements that need no data set.
PUBLISHED = "published"
#: Status of a cell that is not computed.
MISSING = "missing"
#: What became of other cells than missing and failed ones.
DONE, STOPPED = "done", "stopped"


class _StoredSearch(BaseModel, strict=True):
    """The search of a fit."""

    key: str
    metric: str
    means: list[Any]
    scores: list[list[Any]]
    grid: dict[str, list[Any]]


#: The fields of a record with their types.
_TYPES: dict[str, Any] = {name: (kind, ...) for name, kind in get_type_hints(Record).items()}
_Fields = create_model("_Fields", __config__=ConfigDict(strict=True), **_TYPES)


@dataclass
class Run:
    """What a run folder holds.

    Attributes
    ----------
    folder : Path
    info : dict
        Content of run.json.
    planned : list of Place
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
    """

    folder: Path
    info: dict[str, Any]
    planned: list[Place]
    cells: dict[str, Record] = field(default_factory=dict)
    selections: dict[str, Record] = field(default_factory=dict)
    provenance: list[dict[str, Any]] = field(default_factory=list)
    verified: dict[str, Any] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    reading: str = ""
    others: list[Run] = field(default_factory=list)
    altered: bool = False

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
        return [m if isinstance(m, str) else str(m["name"]) for m in as_list(self.config.get("metrics"))]

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
        ids = {str(facts.get("id", label)): label for label, facts in reversed(self.datasets.items())}
        return name if name in self.datasets else ids.get(name)

    def has_data(self, label: str) -> bool:
        """Whether a label is that of a data set, and not of the one place of measures of published numbers."""
        return self.datasets.get(label, {}).get("id") != PUBLISHED and label != PUBLISHED

    def title_of(self, label: str) -> str:
        """Label of a data set, in a sweep also without the value of the axis; simulated ones are marked."""
        facts = (about for name, about in self.datasets.items() if label in (name, self.axis_of(name)))
        return mark_simulated(label, next(facts, {}))

    @cached_property
    def methods(self) -> list[str]:
        """Labels of the methods in the order of the experiment."""
        return list(dict.fromkeys([*as_list(self.info.get("methods")), *(c.method for c in self.planned)]))

    @property
    def all_planned(self) -> list[Place]:
        """The plan under all readings."""
        return [*self.planned, *(cell for other in self.others for cell in other.planned)]

    def unshared_cells(self, other: Run) -> list[Place]:
        """Return the planned cells of another reading that this one does not share."""
        shared = {cell.key for cell in self.planned}
        return [cell for cell in other.planned if cell.key not in shared]

    def has_results(self, other: Run) -> bool:
        """Whether another reading has cells of its own that were computed, or needs none beside those of this one."""
        own = self.unshared_cells(other)
        return any(cell.key in self.cells for cell in own or other.planned)

    def outcome(self, cell: Place) -> str:
        """Return what became of a cell: done, missing, failed, or stopped: a measurement at its limit of seconds."""
        record = self.cells.get(cell.key)
        if record is None:
            return MISSING
        if record.done:
            return DONE
        return STOPPED if (record.family, record.status) == (MEASURE, TIMEOUT) else FAILED

    @property
    def missing(self) -> list[Place]:
        """Planned cells without a readable record."""
        return [cell for cell in self.planned if self.outcome(cell) == MISSING]

    @property
    def failed(self) -> list[Place]:
        """Planned cells whose record tells of a failure."""
        return [cell for cell in self.planned if self.outcome(cell) == FAILED]

    @cached_property
    def measures(self) -> bool:
        """Whether the cells are measurements: calls of a measure instead of fits that are scored."""
        return any(cell.get("family") == MEASURE for cell in as_list(self.info.get("cells")))

    @property
    def quantities(self) -> dict[str, dict[str, Any]]:
        """Facts on what the measures return: `text` and `greater_is_better` by name."""
        return dict(self.info.get("quantities") or {})

    @property
    def published(self) -> list[dict[str, Any]]:
        """Curves of the paper: ``dataset, method, name, x, y, source``."""
        return as_list((self.info.get("published") or {}).get("curves"))

    def cells_of(self, dataset: str, method: str) -> list[Place]:
        """Return the planned cells of a method on a data set, in the order of the trials."""
        return self._by_row.get((dataset, method), [])

    @cached_property
    def _by_row(self) -> dict[tuple[str, str], list[Place]]:
        found: dict[tuple[str, str], list[Place]] = {}
        for cell in self.planned:
            found.setdefault((cell.dataset, cell.method), []).append(cell)
        return found

    def results_of(self, dataset: str, method: str) -> list[Record]:
        """Return the finished records of a method on a data set, in the order of the trials."""
        return [r for c in self.cells_of(dataset, method) if (r := self.cells.get(c.key)) is not None and r.done]


def mark_simulated(name: str, facts: dict[str, Any]) -> str:
    """Add "(simulated)" to the name or title of a simulated data set that does not say so itself."""
    return f"{name} (simulated)" if facts.get("simulated") and "simulated" not in name.lower() else name


def std(values: Iterable[float]) -> float | None:
    """Return the sample standard deviation, None below two values."""
    values = list(values)
    return statistics.stdev(values) if len(values) > 1 else None


# ---------------------------------------------------------------- reading


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Parameters
    ----------
    folder : Path
        ``<output>/<paper>/<artefact>/<profile>`` with run.json, and perhaps cells.jsonl.gz and provenance.json.

    Raises
    ------
    DataError
        If there is no run.json or it is damaged. A damaged cell is only noted: it will be computed again.
    """
    folder = Path(folder)
    raw = read_raw(folder / RUN_FILE)
    if raw is None:
        raise DataError(
            f"{folder}: no {RUN_FILE} here, so this is not the folder of a run",
            "Run the experiment first (mtlrun reproduce TARGET), or give <output>/<paper>/<artefact>/<profile>.",
        )
    info = cleaned(raw)
    plan = StoredPlan.model_validate(info)
    run = Run(folder, info, [cell for cell in plan.cells if not cell.reading])
    run.altered = sealed({k: v for k, v in raw.items() if k != DIGEST}) != raw
    run.reading = str(info.get("reading") or "")
    computed = [name for name, about in (plan.readings or {}).items() if about.config is not None]
    run.others = [_under(run, name, plan) for name in computed if name != run.reading]
    run.provenance = as_list((read_json(folder / PROVENANCE) or {}).get("runs"))
    run.verified = read_sound(folder / VERIFIED)
    stored = Records.of_run(folder)
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
    if stored.damage is not None and run.missing:  # else the cells lie in cells/, and nothing is lost
        if not run.cells:
            raise DataError(f"{folder / PACKED}: {stored.damage}", AGAIN)
        run.unreadable.append(PACKED)
    for key in sorted(run.cells):
        if run.cells[key].selection.get("key") and run.cells[key].selection.get("means"):
            run.selections.setdefault(str(run.cells[key].selection["key"]), run.cells[key])
    return run


def _under(run: Run, reading: str, plan: StoredPlan) -> Run:
    """Return a run under another reading; it shares the records."""
    about = run.info["readings"][reading]
    info = {**run.info, "config": {**run.config, **about["config"]}, "reading": reading}
    info |= {name: about[name] for name in ("datasets", "methods") if name in about}
    planned = [cell for cell in plan.cells if cell.reading == reading]
    return dataclasses.replace(run, info=info, planned=planned, reading=reading, others=[])


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
    if not all(isinstance(end, str) for end in dict(record.selection.get("edges") or {}).values()):
        raise ValueError("the edges of the selection are no texts")
    if any(abs(number) > LARGEST for number in _numbers([record.metrics, record.per_task, record.seconds])):
        raise ValueError(f"a number beyond {LARGEST:g}")
    return Record(**cleaned(vars(record)))


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield value
