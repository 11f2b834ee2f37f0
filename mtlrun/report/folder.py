"""Read a run folder: the plan, the finished cells, where they were computed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtlrun.errors import DataError
from mtlrun.record import MEASURE, PACKED, TIMEOUT, Record, Records
from mtlrun.report.checks import as_list
from mtlrun.utils.text import cleaned

RUN_FILE = "run.json"
PROVENANCE = "provenance.json"
#: Fields of a record that must be mappings, and those that must be texts.
_MAPPINGS = (
    *("inputs", "params", "selection", "metrics", "per_task", "counts", "seconds", "solver", "environment", "result"),
)
_TEXTS = ("key", "family", "status")
#: Fields of the search of a fit.
_SELECTION: dict[str, type] = {"key": str, "metric": str, "means": list, "scores": list, "grid": dict}
#: Numbers of a record; squares of larger ones would overflow.
LARGEST = 1e150
#: Label of the place of measurements that need no data set.
PUBLISHED = "published"


@dataclass(frozen=True)
class PlannedCell:
    """One number of the plan, computed or not; several of them may share a cell.

    Attributes
    ----------
    key : str
        Of the cell.
    dataset, method : str
        Labels.
    trial : int
        Number of the split, from 0.
    """

    key: str
    dataset: str
    method: str
    trial: int

    @property
    def name(self) -> str:
        """Name for people: ``enron / APG-RMTL / trial 0``."""
        return f"{self.dataset} / {self.method} / trial {self.trial}"


@dataclass
class Run:
    """What a run folder holds.

    Attributes
    ----------
    folder : Path
    info : dict
        Content of run.json.
    planned : list of PlannedCell
    cells : dict of str to Record
        Readable records by key, finished or failed.
    selections : dict of str to Record
        Key of a parameter search -> record of a cell that it chose the parameters of.
    provenance : list of dict
        One entry per invocation that computed something, the newest last.
    unreadable : list of str
        Names of planned cells whose file could not be read.
    """

    folder: Path
    info: dict[str, Any]
    planned: list[PlannedCell]
    cells: dict[str, Record] = field(default_factory=dict)
    selections: dict[str, Record] = field(default_factory=dict)
    provenance: list[dict[str, Any]] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def config(self) -> dict[str, Any]:
        """The resolved experiment."""
        return dict(self.info.get("config") or {})

    @property
    def profile(self) -> str:
        """Profile of the run."""
        return str(self.info.get("profile", ""))

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, the first one is the main one."""
        return [m if isinstance(m, str) else str(m["name"]) for m in as_list(self.config.get("metrics"))]

    @property
    def baseline(self) -> str | None:
        """Label of the method that speed-ups refer to."""
        return (self.config.get("timing") or {}).get("baseline")

    @property
    def datasets(self) -> dict[str, dict[str, Any]]:
        """Facts about the data sets by label, in the order of the experiment."""
        facts = self.info.get("datasets") or {}
        labels = dict.fromkeys([*facts, *(c.dataset for c in self.planned)])
        return {label: dict(facts.get(label) or {}) for label in labels}

    @property
    def names_of_data(self) -> str:
        """Labels of the data sets in one line, each once whatever the values of an axis."""
        labels = [str((facts.get("axis") or {}).get("of", label)) for label, facts in self.datasets.items()]
        return ", ".join(dict.fromkeys(labels)) or "nothing"

    def has_data(self, label: str) -> bool:
        """Whether a label is that of a data set, and not of the one place of measures of published numbers."""
        return self.datasets.get(label, {}).get("id") != PUBLISHED and label != PUBLISHED

    def title_of(self, label: str) -> str:
        """Label of a data set; simulated ones are marked."""
        return mark_simulated(label, self.datasets.get(label, {}))

    @property
    def methods(self) -> list[str]:
        """Labels of the methods in the order of the experiment."""
        return list(dict.fromkeys([*as_list(self.info.get("methods")), *(c.method for c in self.planned)]))

    @property
    def missing(self) -> list[PlannedCell]:
        """Planned cells without a readable record."""
        return [c for c in self.planned if c.key not in self.cells]

    @property
    def failed(self) -> list[PlannedCell]:
        """Planned cells whose record tells of a failure."""
        stopped = set(self.stopped)
        return [c for c in self.planned if c.key in self.cells and not self.cells[c.key].done and c not in stopped]

    @property
    def stopped(self) -> list[PlannedCell]:
        """Planned measurements that ran into the limit of seconds: a result, not a failure."""
        late = {key for key, r in self.cells.items() if (r.family, r.status) == (MEASURE, TIMEOUT)}
        return [c for c in self.planned if c.key in late]

    @property
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

    def record(self, cell: PlannedCell) -> Record | None:
        """Return the record of a planned cell, None when it was not computed."""
        return self.cells.get(cell.key)

    def results_of(self, dataset: str, method: str) -> list[Record]:
        """Return the finished records of a method on a data set, in the order of the trials."""
        cells = [c for c in self.planned if (c.dataset, c.method) == (dataset, method)]
        return [r for c in cells if (r := self.record(c)) is not None and r.done]


def mark_simulated(name: str, facts: dict[str, Any]) -> str:
    """Add "(simulated)" to the name or title of a simulated data set that does not say so itself."""
    return f"{name} (simulated)" if facts.get("simulated") and "simulated" not in name.lower() else name


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
    info = read_json(folder / RUN_FILE)
    if info is None:
        raise DataError(
            f"{folder}: no {RUN_FILE} here, so this is not the folder of a run",
            "Run the experiment first (mtlrun reproduce TARGET), or give <output>/<paper>/<artefact>/<profile>.",
        )
    planned = _planned(folder, info)
    run = Run(folder, info, planned)
    run.provenance = as_list((read_json(folder / PROVENANCE) or {}).get("runs"))
    stored = Records.of_run(folder)
    try:
        stored.packed  # noqa: B018 (read once, before the cells are asked for)
    except ValueError as error:
        raise DataError(f"{folder / PACKED}: {error}", "Delete the file and run the experiment again.") from None
    for cell in planned:
        if cell.key in run.cells:
            continue
        try:
            record = stored.read(cell.key)
            if record is not None:
                run.cells[cell.key] = checked(record)
        except ValueError:
            run.unreadable.append(cell.name)
    for key in sorted(run.cells):
        if run.cells[key].selection.get("key") and run.cells[key].selection.get("means"):
            run.selections.setdefault(str(run.cells[key].selection["key"]), run.cells[key])
    return run


def _planned(folder: Path, info: dict[str, Any]) -> list[PlannedCell]:
    """Return the plan; what cannot be one is refused before anything is made of it."""
    shapes = {"cells": list, "methods": list, "datasets": dict, "config": dict, "paper": dict, "quantities": dict}
    for name, kind in shapes.items():
        if info.get(name) is not None and not isinstance(info[name], kind):
            raise _no_run(folder, f"{name!r} is no {kind.__name__}")
    planned = []
    for place, cell in enumerate(info.get("cells") or []):
        facts: dict[str, Any] = {"trial": 0, **cell} if isinstance(cell, dict) else {}
        texts = [text for name in ("key", "dataset", "method") if isinstance(text := facts.get(name), str)]
        if len(texts) < 3 or type(facts["trial"]) is not int:
            raise _no_run(folder, f"cell {place} lacks its key, dataset, method or trial")
        key, dataset, method = texts
        planned.append(PlannedCell(_file_name(folder, key), dataset, method, facts["trial"]))
    return planned


def _file_name(folder: Path, key: str) -> str:
    """Return the key of a cell; one that names a file elsewhere is refused."""
    if not key or key.startswith(".") or set(key) & set("/\\:\0"):
        raise _no_run(folder, f"{key!r} is no key of a cell")
    return key


def _no_run(folder: Path, what: str) -> DataError:
    return DataError(
        f"{folder / RUN_FILE}: not the plan of a run: {what}", "Delete the file and run the experiment again."
    )


def checked(record: Record) -> Record:
    """Return a record with its texts cleaned of control characters.

    Raises
    ------
    ValueError
        If its fields are not of the types that a record has, or a number is beyond `LARGEST`.
    """
    values = dataclasses.asdict(record)
    for name in _MAPPINGS:
        if not isinstance(values[name], dict):
            raise ValueError(f"{name} is not a mapping")
    if not all(isinstance(values[name], str) for name in _TEXTS):
        raise ValueError("a name is not a text")
    for number in record.metrics.values():
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
            raise ValueError("a metric is not a number")
    _check_selection(record.selection)
    if any(abs(number) > LARGEST for number in _numbers([record.metrics, record.per_task, record.seconds])):
        raise ValueError(f"a number beyond {LARGEST:g}")
    return Record(**cleaned(values))


def _check_selection(selection: dict[str, Any]) -> None:
    edges = selection.get("edges") or {}
    if not isinstance(edges, dict) or not all(isinstance(end, str) for end in edges.values()):
        raise ValueError("the edges of the selection are no texts")
    if not selection.get("means"):  # that of a fold, or none
        return
    for name, kind in _SELECTION.items():
        if not isinstance(selection.get(name), kind):
            raise ValueError(f"{name} of the selection is no {kind.__name__}")
    if not all(isinstance(values, list) for values in [*selection["scores"], *selection["grid"].values()]):
        raise ValueError("the scores or the grid of the selection are no lists")


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object, None where there is no file; raises DataError when it is damaged."""
    try:
        value = cleaned(json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error})", "Delete the file and run the experiment again.") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: a JSON object is expected", "Delete the file and run the experiment again.")
    return value
