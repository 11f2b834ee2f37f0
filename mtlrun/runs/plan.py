"""The cells of an experiment, and which of them are done. Loads no solver and no data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.runs.axis import Setting, settings
from mtlrun.runs.cell import Cell, DatasetRef, Features, Method, Scoring, Search, Split, Timing, with_params
from mtlrun.runs.code import code_of, remembering
from mtlrun.runs.code import facts as code_facts
from mtlrun.runs.layers import resolved_yaml
from mtlrun.runs.methods import class_paths, complete, measure_path, published_hash, quantities_of, resolved
from mtlrun.runs.only import matching, read_patterns
from mtlrun.runs.spec import PUBLISHED, Experiment, read_curves
from mtlrun.runs.spec import Method as MethodSpec
from mtlrun.runs.store import Store
from mtlrun.utils.io import jsonable, write_atomic
from mtlrun.utils.seeds import derive_seed

OUTPUT = Path("results/runs")
RUN_FILE = "run.json"
RESOLVED_FILE = "config.resolved.yaml"
SCHEMA = 2
#: Modules that compute the families of cells, and the one that loads their data.
FIT_MODULE, MEASURE_MODULE, LOAD_MODULE = "mtlrun.runs.fit", "mtlrun.runs.measure", "mtlrun.data.load"


@dataclass(frozen=True)
class Row:
    """A place in the table: the labels under which the number of a cell is shown. Several places may share a cell.

    Attributes
    ----------
    dataset, method : str
        Labels; in a sweep the first is that of the setting (`Setting.name`).
    trial : int
        From 0.
    cell : Cell
    value : object
        Of the axis of a sweep.
    was : str or None
        Key of the cell that stood at this place in an earlier plan of the run.
    wanted : bool
        False outside `only`.
    """

    dataset: str
    method: str
    trial: int
    cell: Cell
    value: Any = None
    was: str | None = None
    wanted: bool = True

    @property
    def name(self) -> str:
        """Name for people: ``enron/APG-RMTL/trial 0``."""
        return f"{self.dataset}/{self.method}/trial {self.trial}"


@dataclass(frozen=True)
class Plan:
    """All cells of an experiment.

    Attributes
    ----------
    experiment : Experiment
    folder : Path
        Run folder.
    output : Path
        Folder of all runs.
    data_dir : Path or None
    rows : tuple of Row
        In the order of the table: data sets, methods, trials.
    datasets : dict
        Label -> facts for `run.json`.
    """

    experiment: Experiment
    folder: Path
    output: Path
    data_dir: Path | None
    rows: tuple[Row, ...]
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def wanted(self) -> tuple[Row, ...]:
        """The rows inside `only`."""
        return tuple(row for row in self.rows if row.wanted)

    @property
    def limit(self) -> float | None:
        """Seconds that a cell may take."""
        limits = self.experiment.spec.limits
        return limits.seconds if limits else None

    @property
    def timed(self) -> bool:
        """Whether the cells of the table measure seconds, and therefore run one after the other."""
        return self.experiment.spec.timed

    @cached_property
    def names(self) -> dict[str, str]:
        """Key of a cell or of a fold -> name for people, that of the first row with it."""
        found: dict[str, str] = {}
        for row in self.rows:
            found.setdefault(row.cell.key, row.name)
            for fold in row.cell.folds:
                part = f"fold {(fold.fold or 0) + 1} of {len(row.cell.folds)}"
                what = "search" if len(row.cell.folds) == 1 else f"search, {part}"
                found.setdefault(fold.key, f"{row.name} ({what})")
        return found

    def store(self) -> Store:
        """Return where the records lie."""
        return Store(self.output, self.folder)

    def run_json(self) -> dict[str, Any]:
        """Return the content of `run.json` (described in docs/architecture.md)."""
        experiment, spec = self.experiment, self.experiment.spec
        return {
            "schema": SCHEMA,
            "id": spec.id,
            "title": spec.title,
            "kind": spec.kind,
            "profile": experiment.profile,
            "paper": experiment.config.get("paper"),
            "seed": spec.seed,
            "config": experiment.config,
            "overrides": list(experiment.overrides),
            "paper_datasets": list(experiment.paper_datasets),
            "methods": [m.label for m in spec.methods],
            "datasets": self.datasets,
            "cells": [_planned(row) for row in self.rows],
            "command": rerun_command(experiment, self.data_dir),
            **({} if spec.published is None else {"published": read_curves(spec.published)}),
            **self._quantities(),
        }

    def _quantities(self) -> dict[str, Any]:
        """Return what the report must know about the quantities of measures: it reads records only."""
        spec = self.experiment.spec
        if not spec.measures:
            return {}
        known = quantities_of(method.measure for method in spec.methods) or {}
        return {"quantities": {name: about for name, about in known.items() if name in spec.metrics}}


@remembering()
def plan(
    experiment: Experiment,
    *,
    data_dir: Path | str | None = None,
    only: Mapping[str, Sequence[str]] | Iterable[str] | None = None,
    output: Path | str = OUTPUT,
) -> Plan:
    """List the cells of an experiment.

    Parameters
    ----------
    experiment : Experiment
    data_dir : path, optional
        Data directory; default as for `load_dataset`.
    only : mapping or iterable of str, optional
        Patterns such as ``method=LADM*,dataset=enron`` or ``{"method": ["LADM*"]}``; other cells stay as they are.
    output : path
        Folder of the runs.

    Raises
    ------
    ConfigError
        If `only` matches nothing, or an option of a data set is unknown.
    DataError
        If a file of a data set is missing or does not match its card.
    """
    folder = experiment.folder(output)
    directory = None if data_dir is None else Path(data_dir)
    patterns = read_patterns(only)
    before = _earlier_keys(folder, Store(Path(output), folder))
    facts: dict[str, dict[str, Any]] = {}
    rows: list[Row] = []
    codes: dict[tuple[str, ...], dict[str, str]] = {}
    for place in settings(experiment.spec):
        facts[place.name], reader = _dataset_facts(experiment, place, directory)
        maker = _CellMaker(experiment, place, str(facts[place.name].get("fingerprint", "")), reader, codes)
        for method in place.methods:
            for trial in range(place.trials):
                cell = maker.measure(method, trial) if method.measure else maker.fit(method, trial)
                key, was = before.get((place.name, method.label, trial), (None, None))
                was = was if key == cell.key else key
                rows.append(Row(place.name, method.label, trial, cell, place.axis.get("value"), was))
    names = [{"dataset": row.dataset, "method": row.method, "trial": str(row.trial)} for row in rows]
    chosen = [replace(row, wanted=wanted) for row, wanted in zip(rows, matching(names, patterns), strict=True)]
    return Plan(experiment, folder, Path(output), directory, tuple(chosen), facts)


@dataclass(frozen=True)
class _CellMaker:
    """Makes the cells of one place; `reader` is the module that reads its data, `codes` the digests found so far."""

    experiment: Experiment
    place: Setting
    fingerprint: str
    reader: str
    codes: dict[tuple[str, ...], dict[str, str]]

    def fit(self, method: MethodSpec, trial: int) -> Cell:
        """Return the cell that fits, times and scores."""
        spec, place = self.experiment.spec, self.place
        timing = Timing(spec.timing.repeats, spec.timing.threads, spec.timing.warmup) if spec.timing else None
        assert place.split is not None  # only measures have none
        kfold = place.split.kind == "kfold"  # the trials are the folds of one partition
        split = place.split.model_dump(exclude={"trials"})
        estimator = self._estimator(method, method.params, trial)
        return Cell(
            self._dataset(),
            Split(**split, trial=trial, seed=self._seed() if kfold else self._seed(trial)),
            estimator,
            Scoring(
                tuple(place.metrics),
                spec.average,
                tuple(sorted(set(spec.keep))),
                timing,
            ),
            self._features(),
            self._search(method, trial),
            code=self._code(estimator),
        )

    def measure(self, method: MethodSpec, trial: int) -> Cell:
        """Return the cell that calls a measure."""
        spec = self.experiment.spec
        made = Method(
            measure=measure_path(method.measure), params=dict(method.params), published=published_hash(method.params)
        )
        timing = Timing(1, spec.timing.threads if spec.timing else 1, False) if spec.timed else None
        dataset = self._dataset() if self.place.dataset else None
        return Cell(
            dataset,
            Split("repeat", trial, self._seed(trial)),
            made,
            Scoring(timing=timing),
            self._features(),
            code=self._code(made),
        )

    def _search(self, method: MethodSpec, trial: int) -> Search | None:
        spec, selection = self.experiment.spec, self.experiment.spec.selection
        if not method.grid or selection is None:
            return None
        fast = with_params(complete(method.estimator, method.params), method.select_with)
        searched = self._estimator(method, fast, trial)
        return Search(
            {k: list(spec.grids[v]) if isinstance(v, str) else list(v) for k, v in method.grid.items()},
            1 if selection.on == "validation" else selection.folds,
            selection.metric or self.place.metrics[0],
            self._seed(trial, "selection"),
            searched,
            selection.on,
            self._code(searched),
        )

    def _estimator(self, method: MethodSpec, params: Mapping[str, Any], trial: int) -> Method:
        found = resolved(method.estimator, params, self._seed(trial, "estimator"))
        return Method(found["estimator"], params=found["params"])

    def _dataset(self) -> DatasetRef:
        dataset = self.place.dataset
        assert dataset is not None
        return DatasetRef(dataset.id, dataset.options, self.fingerprint)

    def _features(self) -> Features | None:
        step = self.place.features
        return None if step.kind == "none" else Features(**step.model_dump())

    def _code(self, method: Method) -> dict[str, str]:
        classes = tuple(class_paths({"estimator": method.estimator, "params": method.params}))
        starts = (MEASURE_MODULE, method.measure) if method.measure else (FIT_MODULE, *classes)
        starts += (LOAD_MODULE, self.reader) if self.reader else ()
        if starts not in self.codes:
            self.codes[starts] = code_of(starts)
        return self.codes[starts]

    def _seed(self, *purpose: object) -> int:
        place = self.place.dataset.id if self.place.dataset else PUBLISHED
        return derive_seed(self.experiment.spec.seed, place, *purpose)


def write_plan(plan: Plan) -> None:
    """Write `run.json` and `config.resolved.yaml`, where they differ from what is there.

    Raises
    ------
    OSError
        If the run folder cannot be written.
    """
    texts = {
        RUN_FILE: json.dumps(jsonable(plan.run_json()), indent=1, ensure_ascii=False) + "\n",
        RESOLVED_FILE: resolved_yaml(plan.experiment),
    }
    for name, text in texts.items():
        path = plan.folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_atomic(path, text)


def other_settings(plan: Plan) -> str | None:
    """Return the settings with which `run.json` was written, None when they are those of the plan."""
    before = _read_run(plan.folder).get("overrides")
    if not isinstance(before, list) or before == list(plan.experiment.overrides):
        return None  # there is none, or it is damaged and will be written anew
    return settings_text(before)


def settings_text(overrides: Iterable[str]) -> str:
    """Write settings as they are given on the command line."""
    return " ".join(f"--set {text}" for text in overrides) or "no --set"


def rerun_command(experiment: Experiment, data_dir: Path | None = None) -> str:
    """Return one line that runs the experiment again, on the data of the same folder where one was given."""
    shipped = experiment.source == f"configs/{experiment.id}.yaml"
    words = ["mtlrun", "reproduce", experiment.id if shipped else experiment.source, "--profile", experiment.profile]
    for override in experiment.overrides:
        words += ["--set", override]
    if data_dir is not None:
        words += ["--data-dir", str(data_dir)]
    return shlex.join(words)


def _planned(row: Row) -> dict[str, Any]:
    """Return a row as `run.json` has it."""
    entry = {"key": row.cell.key, "family": row.cell.family, "dataset": row.dataset, "method": row.method}
    more = {"trial": row.trial, "value": row.value, "was": row.was}
    return {**entry, **{name: value for name, value in more.items() if value is not None}}


def _read_run(folder: Path) -> dict[str, Any]:
    """Return the plan of an earlier start, {} where there is none or it is damaged."""
    try:
        found = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _earlier_keys(folder: Path, store: Store) -> dict[tuple[str, str, int], tuple[str, str | None]]:
    """Return (key, the key before it) of the rows of an earlier plan, by data set, method and trial."""
    cells = _read_run(folder).get("cells")
    found = {}
    for entry in cells if isinstance(cells, list) else ():
        key, was = (_key(entry, "key"), _key(entry, "was")) if isinstance(entry, dict) else (None, None)
        if key is not None:
            if was is not None and not store.has(key):
                key = was  # planned and never computed: what was there before is still what there is
            place = str(entry.get("dataset")), str(entry.get("method")), int(entry.get("trial") or 0)
            found[place] = (key, was)
    return found


def _key(entry: Mapping[str, Any], name: str) -> str | None:
    text = entry.get(name)
    return text if isinstance(text, str) and len(text) == 64 and set(text) <= set("0123456789abcdef") else None


def _dataset_facts(experiment: Experiment, setting: Setting, data_dir: Path | None) -> tuple[dict[str, Any], str]:
    """Return what `run.json` says of the data set of a place, and the module of its reader."""
    from mtlrun.data.cards import load_card
    from mtlrun.data.files import data_directory
    from mtlrun.data.load import check_options, dataset_fingerprint, source_path

    spec = setting.dataset
    if spec is None:
        files = {name: digest for m in setting.methods for name, digest in published_hash(m.params).items()}
        about: dict[str, Any] = {"id": PUBLISHED, "title": "Published numbers", "files": files, "axis": setting.axis}
        return {name: value for name, value in about.items() if value}, ""
    card = load_card(spec.id, data_directory(data_dir))
    reader = source_path(card)
    try:
        variant = card.variant(spec.options.get("variant"))
        check_options(spec.id, {**variant.options, **spec.options}, code_facts(reader).keyword_only)
        fingerprint = dataset_fingerprint(spec.id, data_dir=data_dir, **spec.options)
    except (UnknownNameError, TypeError) as error:
        place = f"{experiment.source}, {experiment.origin(('datasets', setting.index))}"
        remedy = error.remedy if isinstance(error, UnknownNameError) else None
        message = error.message if isinstance(error, UnknownNameError) else str(error)
        raise ConfigError(f"{place}: {message}", remedy) from None
    facts = {
        "id": spec.id,
        "title": card.title,
        "simulated": card.simulated,
        "fingerprint": fingerprint,
        "options": spec.options,
        "statistics": variant.statistics,
        "files": {file.name: file.sha256 for file in card.needed(variant.name or None) if file.sha256},
        "licence": card.licence,
        "citation": card.citation,
        "notes": variant.notes,
        "axis": setting.axis,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", {})}, reader
