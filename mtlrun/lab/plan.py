"""The cells of an experiment: one row per place of the table, method and trial, and what is known of each.

Loads no solver and no data.
"""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from mtlrun.data.cards import load_card
from mtlrun.data.files import data_directory
from mtlrun.data.load import (
    check_options,
    dataset_fingerprint,
    source_name,
    source_path,
)
from mtlrun.engine.analysis import measure_name
from mtlrun.engine.interfaces import interface
from mtlrun.engine.job import (
    HALVING,
    Cell,
    DatasetRef,
    Features,
    Method,
    Scoring,
    Search,
    Split,
    Timing,
    with_params,
)
from mtlrun.engine.methods import (
    OWN_CODE,
    Versions,
    complete,
    has_parameter,
    measure_parameters,
    measure_path,
    method_paths,
    published_hash,
    quantities_of,
    reason_of,
    resolved,
    versions_of,
)
from mtlrun.engine.record import FAILED, PROTOCOL, Place, Record, Records, private_path
from mtlrun.engine.store import Store, settled, write_new
from mtlrun.engine.stored import COMPARED, MODEL_FILE, RUN_FILE
from mtlrun.errors import ConfigError, UnknownNameError, counted, suggest
from mtlrun.lab.catalogue import name_of
from mtlrun.lab.checks import read_curves
from mtlrun.lab.spec import (
    PUBLISHED,
    DatasetSpec,
    Experiment,
    FeatureStep,
    MethodSpec,
    Spec,
    SplitSpec,
    Sweep,
)
from mtlrun.lab.stored import read_sound
from mtlrun.tables.report_table import show
from mtlrun.utils.io import derive_seed, file_json, jsonable, sealed
from mtlrun.utils.sizes import PLANNED, allow

OUTPUT = Path("results/runs")
#: In the place of the name of a reading.
ALL_READINGS = "all"
SCHEMA = 2


@dataclass(frozen=True)
class Setting:
    """What the methods are compared on: one table of the report.

    Attributes
    ----------
    index : int
        Of the data set in the file.
    name : str
        Label in tables: that of the data set, with the value of the axis for a sweep.
    dataset : DatasetSpec or None
        None for measures of published numbers.
    split : SplitSpec or None
        None for measurements.
    trials : int
        Splits, or repeats of a measurement.
    metrics : list of str
    features : FeatureStep
        Step that is learned on the training rows (on all rows, for measurements).
    methods : tuple of MethodSpec
    axis : dict
        ``{"of": label of the data set, "value": value of the axis}``; empty without a sweep.
    """

    index: int
    name: str
    dataset: DatasetSpec | None
    split: SplitSpec | None
    trials: int
    metrics: list[str]
    features: FeatureStep
    methods: tuple[MethodSpec, ...]
    axis: dict[str, Any]


def settings(spec: Spec) -> list[Setting]:
    """Return the data sets, for a sweep each of them at every value of the axis, in the order of the tables."""
    found = []
    datasets: list[DatasetSpec | None] = list(spec.datasets) or [None]
    for index, dataset in enumerate(datasets):
        split = (dataset.split if dataset else None) or spec.split
        setting = Setting(
            index,
            dataset.name if dataset else PUBLISHED,
            dataset,
            split,
            split.n_trials if split else spec.repeats,
            (dataset.metrics if dataset else None) or spec.metrics,
            (dataset.features if dataset else None) or spec.features,
            tuple(
                method
                for method in spec.methods
                if dataset is None or method.takes(dataset)
            ),
            {},
        )
        if spec.sweep is None:
            found.append(setting)
            continue
        without = spec.sweep.leave_out.get(setting.name, [])
        found += [
            _at(setting, spec.sweep, value)
            for value in spec.sweep.values
            if value not in without
        ]
    return found


def _at(setting: Setting, sweep: Sweep, value: object) -> Setting:
    """Return a setting at one value of the axis."""
    dataset, split = setting.dataset, setting.split
    if sweep.option is not None and dataset is not None:
        dataset = DatasetSpec.model_validate(
            {**dataset.model_dump(), sweep.option: value}
        )
    if sweep.split is not None and split is not None:
        split = split.model_copy(update={sweep.split: value})
    return replace(
        setting,
        name=f"{setting.name} ({sweep.name} {show(value)})",
        dataset=dataset,
        split=split,
        methods=tuple(
            _changed(method, sweep.params or [], value) for method in setting.methods
        ),
        axis={"of": setting.name, "value": value},
    )


def _changed(method: MethodSpec, names: list[str], value: object) -> MethodSpec:
    """Return a method with the value in those of the parameters that it has."""
    if method.measure:
        known = measure_parameters(method.measure)
        params = {
            **method.params,
            **{name: value for name in names if known is None or name in known},
        }
    else:
        params = complete(method.estimator, method.params)
        changes = {
            name: value
            for name in names
            if has_parameter(method.estimator, params, name)
        }
        params = with_params(params, changes) if changes else method.params
    return method.model_copy(update={"params": params})


@dataclass(frozen=True)
class PlannedCell(Place):
    """A place in the table with its cell.

    Attributes
    ----------
    cell : Cell
    was : str or None
        Key of the cell that stood at this place in an earlier plan of the run.
    wanted : bool
        False outside `only` and the readings asked for.
    """

    cell: Cell
    was: str | None = None
    wanted: bool = True

    @property
    def plain(self) -> dict[str, Any]:
        """The entry of `run.json`, which `Place.read` reads."""
        entry = {
            "key": self.key,
            "family": self.cell.family,
            "dataset": self.dataset,
            "method": self.method,
        }
        more = {
            "trial": self.trial,
            "value": self.value,
            "was": self.was,
            "reading": self.reading or None,
        }
        return {
            **entry,
            **{name: value for name, value in more.items() if value is not None},
        }


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
    rows : tuple of PlannedCell
        In the order of the table: data sets, methods, trials.
    datasets : dict
        Reading -> label -> facts for `run.json`.
    """

    experiment: Experiment
    folder: Path
    output: Path
    data_dir: Path | None
    rows: tuple[PlannedCell, ...]
    datasets: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    @property
    def wanted(self) -> tuple[PlannedCell, ...]:
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
        """Return the content of `run.json` (described in docs/formats.md)."""
        experiment, spec = self.experiment, self.experiment.spec
        about = {
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
            "datasets": self.datasets[experiment.reading],
            "cells": [row.plain for row in self.rows],
            "command": rerun_command(experiment, self.data_dir, shown=private_path),
        }
        if spec.published is not None:
            about["published"] = read_curves(spec.published)
        if spec.measures:  # the report reads records only
            known = quantities_of(method.measure for method in spec.methods) or {}
            about["quantities"] = {
                name: facts for name, facts in known.items() if name in spec.metrics
            }
        if spec.readings:
            about["reading"] = experiment.reading
            about["readings"] = {
                name: self._reading_json(name) for name in spec.readings
            }
        return sealed(jsonable(about))

    def _reading_json(self, name: str) -> dict[str, Any]:
        """Return what `run.json` says of a reading: its sentences, and what it has instead of the main one."""
        main, spec = self.experiment, self.experiment.spec
        about = spec.readings[name].model_dump(exclude={"changes"}, exclude_unset=True)
        other = next((other for other in main.others if other.reading == name), None)
        if other is not None:
            about["config"] = {
                k: v for k, v in other.config.items() if main.config.get(k) != v
            }
            about["datasets"] = self.datasets[name]
            about["methods"] = [m.label for m in other.spec.methods]
        return about


def plan(
    experiment: Experiment,
    *,
    data_dir: Path | str | None = None,
    only: Iterable[str] | None = None,
    reading: str | None = None,
    output: Path | str = OUTPUT,
) -> Plan:
    """List the cells of an experiment.

    Parameters
    ----------
    experiment : Experiment
    data_dir : path, optional
        Data directory; default as for `load_dataset`.
    only : iterable of str, optional
        Patterns such as ``method=LADM*,dataset=enron``; other cells stay as they are.
    reading : str, optional
        Name of the reading to compute, or ``all``; default: the main one.
    output : path
        Folder of the runs.

    Raises
    ------
    ConfigError
        If `only` matches nothing, or an option of a data set or the reading is unknown.
    DataError
        If a file of a data set is missing or does not match its card.
    """
    folder = experiment.folder(output)
    directory = None if data_dir is None else Path(data_dir)
    before = _earlier_keys(folder, Store(Path(output), folder))
    about: dict[str, dict[str, dict[str, Any]]] = {}
    rows: list[PlannedCell] = []
    known: dict[tuple[str, ...], Versions] = {}
    for one in (experiment, *experiment.others):
        facts_of = about.setdefault(one.reading, {})
        name = "" if one is experiment else one.reading
        found = settings(one.spec)
        cells = sum(setting.trials * len(setting.methods) for setting in found)
        folds = one.spec.selection.folds if one.spec.selection else 0
        allow(
            experiment.source,
            cells * (1 + folds),
            PLANNED,
            "cells and folds",
            "Lower trials, folds or values.",
        )
        for setting in found:
            facts_of[setting.name], source = _dataset_facts(one, setting, directory)
            maker = CellMaker(
                one.spec,
                setting,
                facts_of[setting.name].get("fingerprint", ""),
                source,
                known,
            )
            for method in setting.methods:
                for trial in range(setting.trials):
                    cell = (
                        maker.measure(method, trial)
                        if method.measure
                        else maker.fit(method, trial)
                    )
                    key, was = before.get(
                        (name, setting.name, method.label, trial), (None, None)
                    )
                    was = was if key == cell.key else key
                    value = setting.axis.get("value")
                    rows.append(
                        PlannedCell(
                            name,
                            setting.name,
                            value,
                            method.label,
                            trial,
                            cell.key,
                            cell,
                            was,
                        )
                    )
    chosen = zip(
        rows,
        _of_reading(experiment, rows, reading),
        _matching(rows, only or ()),
        strict=True,
    )
    rows = [replace(row, wanted=asked and matching) for row, asked, matching in chosen]
    return Plan(experiment, folder, Path(output), directory, tuple(rows), about)


@dataclass(frozen=True)
class CellMaker:
    """Makes the cells of one setting; `source` names what reads its data, `known` has the versions found so far."""

    spec: Spec
    setting: Setting
    fingerprint: str
    source: str
    known: dict[tuple[str, ...], Versions]

    def fit(self, method: MethodSpec, trial: int) -> Cell:
        """Return the cell that fits, times and scores."""
        spec, given = self.spec, self.setting.split
        assert given is not None  # only measures have none
        seed = self._seed(*purpose_of(given.kind, given.folds, trial))
        split = Split(**given.model_dump(exclude={"trials"}), trial=trial, seed=seed)
        timing = (
            Timing(spec.timing.repeats, spec.timing.threads, spec.timing.warmup)
            if spec.timing
            else None
        )
        scoring = Scoring(
            tuple(self.setting.metrics),
            spec.average,
            tuple(sorted(set(spec.keep))),
            timing,
        )
        return self._cell(
            split,
            self._estimator(method, method.params, trial),
            scoring,
            search=self._search(method, trial),
            step=method.features,
        )

    def measure(self, method: MethodSpec, trial: int) -> Cell:
        """Return the cell that calls a measure."""
        path, params = measure_path(method.measure), dict(method.params)
        threads = self.spec.timing.threads if self.spec.timing else 1
        return self._cell(
            Split("repeat", trial, self._seed(trial)),
            Method(
                measure=measure_name(path),
                params=params,
                published=published_hash(params),
            ),
            Scoring(timing=Timing(1, threads, False) if self.spec.timed else None),
        )

    def _cell(
        self,
        split: Split,
        method: Method,
        scoring: Scoring,
        search: Search | None = None,
        step: FeatureStep | None = None,
    ) -> Cell:
        dataset = self.setting.dataset
        if step is None:
            step = self.setting.features
        ref = (
            DatasetRef(dataset.id, dataset.options, self.fingerprint)
            if dataset
            else None
        )
        features = None if step.kind == "none" else Features(**step.model_dump())
        return Cell(
            ref,
            split,
            method,
            scoring,
            features,
            search,
            versions=self._versions(method),
        )

    def _search(self, method: MethodSpec, trial: int) -> Search | None:
        selection = self.spec.selection
        if selection is None or not (method.grid or method.scored):
            return None
        fast = with_params(
            complete(method.estimator, method.params), method.select_with
        )
        searched = self._estimator(method, fast, trial)
        return Search(
            {
                k: list(self.spec.grids[v]) if isinstance(v, str) else list(v)
                for k, v in method.grid.items()
            },
            1 if selection.on == "validation" else selection.folds,
            selection.metric or self.setting.metrics[0],
            self._seed(trial, "selection"),
            searched,
            HALVING if method.halving else selection.on,
            self._versions(searched),
        )

    def _estimator(
        self, method: MethodSpec, params: Mapping[str, Any], trial: int
    ) -> Method:
        return Method(
            **resolved(method.estimator, params, self._seed(trial, "estimator"))
        )

    def _versions(self, method: Method) -> Versions:
        paths = method_paths(method)
        if (self.source, *paths) not in self.known:
            self.known[self.source, *paths] = versions_of(paths, self.source)
        return self.known[self.source, *paths]

    def _seed(self, *purpose: object) -> int:
        place = self.setting.dataset.id if self.setting.dataset else PUBLISHED
        return derive_seed(self.spec.seed, place, *purpose)


def purpose_of(kind: str, folds: int | None, trial: int) -> tuple[object, ...]:
    """Return what the seed of a split is for: k-fold trials are the folds of one partition, then of the next one."""
    if kind != "kfold":
        return (trial,)
    repeat = trial // (folds or 1)
    return ("repeat", repeat) if repeat else ()


def _dataset_facts(
    experiment: Experiment, setting: Setting, data_dir: Path | None
) -> tuple[dict[str, Any], str]:
    """Return what `run.json` says of the data set of a setting, and the name of its reader or generator."""
    spec = setting.dataset
    if spec is None:
        files = {
            name: digest
            for m in setting.methods
            for name, digest in published_hash(m.params).items()
        }
        return _given(
            id=PUBLISHED, title="Published numbers", files=files, axis=setting.axis
        ), ""
    card = load_card(spec.id, data_directory(data_dir))
    try:
        variant = card.variant(spec.options.get("variant"))
        check_options(
            spec.id,
            {**variant.options, **spec.options},
            interface(source_path(card)).keyword_only,
        )
        fingerprint = dataset_fingerprint(spec.id, data_dir=data_dir, **spec.options)
    except (UnknownNameError, TypeError) as error:
        place, *_ = (
            *experiment.places[setting.index : setting.index + 1],
            experiment.source,
        )
        message, remedy = (
            (error.message, error.remedy)
            if isinstance(error, UnknownNameError)
            else (str(error), None)
        )
        raise ConfigError(f"{place}: {message}", remedy) from None
    about = _given(
        id=spec.id,
        title=card.title,
        simulated=card.simulated,
        fingerprint=fingerprint,
        options=spec.options,
        statistics=variant.statistics,
        files={
            file.name: file.sha256
            for file in card.needed(variant.name or None)
            if file.sha256
        },
        licence=card.licence,
        citation=card.citation,
        notes=variant.notes,
        axis=setting.axis,
    )
    return about, source_name(card)


def _given(**fields: object) -> dict[str, Any]:
    return {
        name: value for name, value in fields.items() if value not in (None, "", {})
    }


# --- what `reading` and `only` choose


def _of_reading(
    experiment: Experiment, rows: Sequence[PlannedCell], reading: str | None
) -> list[bool]:
    """Return whether each row is one of the reading asked for; raises what `check_reading` does."""
    check_reading(experiment, reading)
    name = "" if reading in (None, experiment.reading) else reading
    return [reading == ALL_READINGS or row.reading == name for row in rows]


def check_reading(experiment: Experiment, reading: str | None) -> None:
    """Refuse a reading that an experiment does not have, before its data are asked for.

    Raises
    ------
    ConfigError
        If the experiment has no such reading, or no readings at all.
    """
    if reading not in (None, ALL_READINGS) and not experiment.spec.readings:
        raise ConfigError(
            f"{name_of(experiment.source)}: has no readings",
            "Run it without --reading.",
        )
    if reading is not None and reading not in (ALL_READINGS, *experiment.spec.readings):
        raise UnknownNameError(
            f"reading of {name_of(experiment.source)}:",
            reading,
            [*experiment.spec.readings, ALL_READINGS],
        )


class OnlyError(ConfigError):
    """An `only` that is wrong for every experiment."""


class NoMatchError(ConfigError):
    """A pattern of `only` that matches nothing of the experiment."""


def _matching(rows: Sequence[PlannedCell], only: Iterable[str]) -> list[bool]:
    """Return whether each row matches one of the patterns of every key in ``method=LADM*,dataset=enron``.

    Raises
    ------
    OnlyError, NoMatchError
        For a part that is not ``key=pattern`` or has an unknown key, and for a pattern that matches no row.
    """
    names = [
        {"dataset": row.dataset, "method": row.method, "trial": str(row.trial)}
        for row in rows
    ]
    wanted: dict[str, list[str]] = {}
    for part in (p for text in only for p in _parts(text, names)):
        key, equals, pattern = (text.strip() for text in part.partition("="))
        if not equals:
            raise OnlyError(
                f"--only {part}: must be key=pattern",
                "for instance --only method=LADM*,dataset=enron",
            )
        if names and key not in names[0]:
            raise OnlyError(
                f"--only {key}=...: unknown key {key!r}",
                f"Known: {', '.join(names[0])}.",
            )
        known = list(dict.fromkeys(row[key] for row in names))
        if not any(_matches(name, pattern) for name in known):
            near = suggest(pattern, known)
            hint = (
                f"Did you mean {' or '.join(map(repr, near))}?"
                if near
                else f"Known: {', '.join(known)}."
            )
            raise NoMatchError(f"--only {key}={pattern}: matches no {key}", hint)
        wanted.setdefault(key, []).append(pattern)
    return [
        all(any(_matches(row[key], p) for p in some) for key, some in wanted.items())
        for row in names
    ]


def _parts(text: str, names: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the parts of ``method=A,dataset=B``; a name with commas is one part."""
    key, _, name = (part.strip() for part in text.partition("="))
    if any(row.get(key) == name for row in names):
        return [text]
    return text.split(",")


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())


# --- the run folder


def write_plan(plan: Plan) -> None:
    """Write `run.json`, where it differs from what is there.

    Raises
    ------
    OSError
        If the run folder cannot be written.
    """
    write_new(plan.folder / RUN_FILE, file_json(plan.run_json()).encode())


def other_settings(plan: Plan) -> str | None:
    """Return the settings with which `run.json` was written, None when they are those of the plan."""
    before = read_sound(plan.folder / RUN_FILE).get("overrides")
    if not isinstance(before, list) or before == list(plan.experiment.overrides):
        return None  # there is none, or it is damaged and will be written anew
    return settings_text(before)


def settings_text(overrides: Iterable[str]) -> str:
    """Write settings as they are given on the command line."""
    return " ".join(f"--set {text}" for text in overrides) or "no --set"


def rerun_command(
    experiment: Experiment,
    data_dir: Path | None = None,
    *,
    shown: Callable[[str], str] = lambda path: path,
) -> str:
    """Return one line that runs the experiment again, on the data of the same folder if an option named it.

    A folder that the environment names is that of this machine, not of whoever reads the report. `shown` writes paths;
    what is kept leaves out folders of the user (`mtlrun.engine.record.private_path`).
    """
    shipped = experiment.source == f"configs/{experiment.id}.yaml"
    source = experiment.id if shipped else shown(experiment.source)
    words = ["mtlrun", "reproduce", source, "--profile", experiment.profile]
    for override in experiment.overrides:
        words += ["--set", override]
    if experiment.others:
        words += ["--reading", ALL_READINGS]
    if data_dir is not None and str(data_dir) != os.environ.get("MTLRUN_DATA"):
        words += ["--data-dir", shown(str(data_dir))]
    return shlex.join(words)


def _earlier_keys(
    folder: Path, store: Store
) -> dict[tuple[str, str, str, int], tuple[str, str | None]]:
    """Return (key, the key before it) of the rows of an earlier plan, by reading, data set, method and trial."""
    cells = read_sound(folder / RUN_FILE).get("cells")
    found = {}
    for entry in cells if isinstance(cells, list) else ():
        key, was = (
            (_key(entry, "key"), _key(entry, "was"))
            if isinstance(entry, dict)
            else (None, None)
        )
        if key is not None:
            if was is not None and not store.has(key):
                key = was  # planned and never computed: what was there before is still what there is
            reading, dataset, method = (
                str(entry.get(name) or "") for name in ("reading", "dataset", "method")
            )
            found[reading, dataset, method, int(entry.get("trial") or 0)] = (key, was)
    return found


def _key(entry: Mapping[str, Any], name: str) -> str | None:
    text = entry.get(name)
    return (
        text
        if isinstance(text, str)
        and len(text) == 64
        and set(text) <= set("0123456789abcdef")
        else None
    )


# ---------------------------------------------------------------------- the state of its cells

#: Packages whose versions may change a number in its last digits; they are recorded and compared, and change no key.
NUMERICAL_PACKAGES = ("numpy", "scipy", "scikit-learn")

#: Files and differences that are named before the rest is counted.
NAMED = 3

StateName = Literal["done", "missing", "outdated", "failed", "damaged"]


@dataclass(frozen=True)
class CellState:
    """What is known of the cell of a row.

    Attributes
    ----------
    name : {"done", "missing", "outdated", "failed", "damaged"}
        `outdated`: the place had another cell before. `damaged`: a file is not as it was written.
    reason : str
        Why it is outdated, failed or damaged.
    versions : dict of str to str
        Numerical packages whose version was another one when the cell was computed.
    commit : str or None
        That made the record of the cell, as far as it is known.
    """

    name: StateName
    reason: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None


def survey(plan: Plan, store: Store | None = None) -> list[CellState]:
    """Return the state of every row as the folders have it now."""
    store = store or plan.store()
    here = _versions()
    return [_state(row, store, plan.limit, here) for row in plan.rows]


def _state(
    row: PlannedCell, store: Store, limit: float | None, here: Mapping[str, str]
) -> CellState:
    try:
        record = store.read(row.cell.key)
    except ValueError as error:
        return CellState("damaged", str(error))
    if record is not None:
        good = settled(record, limit)
        packages = record.environment.get("packages") or {}
        other = {
            name: str(packages[name])
            for name in here
            if packages.get(name) not in (None, here[name])
        }
        reason, commit = (
            "" if good else f"{record.status}: {record.error}",
            record.made_by.get("commit"),
        )
        return CellState("done" if good else "failed", reason, other, commit)
    before = store.load(row.was) if row.was else None
    if before is None:
        return CellState("missing")
    if before.protocol != PROTOCOL:
        return CellState("outdated", "made by an earlier version of mtlrun")
    return CellState("outdated", explain(before, row.cell.record()) or "inputs changed")


def rerun_reasons(plan: Plan, states: Sequence[CellState]) -> list[str]:
    """Return one line per (data set, method, reason) for wanted cells that had a result before."""
    grouped: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row, state in zip(plan.rows, states, strict=True):
        if row.wanted and state.name in ("outdated", FAILED, "damaged"):
            grouped[row.dataset, row.method, state.reason].append(row.trial)
    lines = []
    for (dataset, method, reason), trials in grouped.items():
        which = f"trial {trials[0]}" if len(trials) == 1 else f"{len(trials)} trials"
        lines.append(f"rerun {dataset}/{method}/{which}: {reason}")
    return lines


def other_versions(plan: Plan, states: Sequence[CellState]) -> str | None:
    """Say which cells were computed with other versions of the numerical packages, None when none was."""
    found = [
        state.versions
        for row, state in zip(plan.rows, states, strict=True)
        if row.wanted and state.versions
    ]
    if not found:
        return None
    here = _versions()
    names = sorted(
        {
            f"{name} {version}"
            for versions in found
            for name, version in versions.items()
        }
    )
    now = ", ".join(
        f"{name} {here[name]}"
        for name in here
        if any(name in versions for versions in found)
    )
    return f"{counted(len(found), 'cell')} computed with {', '.join(names)} (here: {now}); --force computes them again"


def _versions() -> dict[str, str]:
    return {name: version(name) for name in NUMERICAL_PACKAGES}


def unused_cells(output: Path) -> list[str]:
    """Return the keys of cells that no run, comparison or model of an output folder names: they may be deleted."""
    records = Records(output)
    found = {path.stem for path in records.cells.glob("*.json")}
    plans = [*output.glob(f"*/*/*/{RUN_FILE}"), *output.rglob(COMPARED)]
    entries = [
        entry
        for plan in plans
        for entry in read_sound(plan).get("cells") or []
        if isinstance(entry, dict)
    ]
    named = {str(entry.get("key")) for entry in entries}
    named |= {str(read_sound(path).get("cell")) for path in output.rglob(MODEL_FILE)}
    for key in named & found:
        record = records.load(key)
        search = record.inputs.get("search") if record is not None else None
        named = named | {str(fold) for fold in (search or {}).get("keys") or ()}
    return sorted(found - named)


def explain(old: Record, new: Record) -> str:
    """Say in a few words why two cells at the same place of a table have different keys."""
    reasons = [
        text
        for name in sorted({*old.versions, *new.versions})
        if (text := _raised(name, old, new))
    ]
    differences = _differences("", old.inputs, new.inputs)
    reasons += differences[:NAMED]
    if len(differences) > NAMED:
        reasons.append(f"{len(differences) - NAMED} more")
    return "; ".join(reasons)


def _raised(name: str, old: Record, new: Record) -> str:
    """Describe a version that is another one now, empty where it is not."""
    before, now = old.versions.get(name), new.versions.get(name)
    if before is None and "+" in name:
        # Roles of columns stand in the name of the reader since they have own changes.
        before = old.versions.get(name.partition("+")[0])
    if isinstance(before, int) and isinstance(now, int) and before != now:
        why = reason_of(name, before, now)
        return f"{name} {before} -> {now}" + (f": {why}" if why else "")
    if name.endswith(OWN_CODE) and before != now:
        return f"{name} changed"
    packages = before is not None and now is not None and before != now
    return (
        f"{name} {before} -> {now}" if packages else ""
    )  # else another method or reader: the inputs say so


def _differences(path: str, old: object, new: object) -> list[str]:
    """Describe the values that differ; the keys of folds are left out."""
    if old == new or path in ("schema", "search.keys"):
        return []
    if path == "dataset.fingerprint":
        return ["data changed"]
    if not all(value is None or isinstance(value, Mapping) for value in (old, new)):
        return [f"{path} {_short(old)} -> {_short(new)}"]
    before: Mapping[str, object] = old if isinstance(old, Mapping) else {}
    after: Mapping[str, object] = new if isinstance(new, Mapping) else {}
    names = sorted({*before, *after})
    return [
        d
        for n in names
        for d in _differences(f"{path}.{n}".lstrip("."), before.get(n), after.get(n))
    ]


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
