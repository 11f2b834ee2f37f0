"""The jobs of an experiment: one row per place of the table, method and trial, and what is known of each.

Loads no solver and no data.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mtlrun.data.cards import load_card
from mtlrun.data.files import data_directory
from mtlrun.data.load import (
    check_options,
    dataset_fingerprint,
    source_name,
    source_path,
)
from mtlrun.engine.analysis import analysis_name
from mtlrun.engine.interfaces import interface
from mtlrun.engine.job import (
    HALVING,
    DatasetRef,
    Features,
    Job,
    Method,
    Scoring,
    Search,
    Split,
    Timing,
    purpose_of,
    with_params,
)
from mtlrun.engine.methods import (
    Versions,
    analysis_parameters,
    analysis_path,
    complete,
    has_parameter,
    method_paths,
    published_hash,
    quantities_of,
    resolved,
    versions_of,
)
from mtlrun.engine.packed import needed_plan
from mtlrun.engine.plan import JobPlan, PlannedJob
from mtlrun.engine.record import Records, private_path
from mtlrun.engine.store import Store, write_new
from mtlrun.engine.stored import COMPARED, MODEL_FILE, RUN_FILE
from mtlrun.errors import ConfigError, UnknownNameError, suggest
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
from mtlrun.lab.stored import read_sound, read_sound_plan
from mtlrun.tables.report_table import show
from mtlrun.utils.io import derive_seed, file_json, jsonable, sealed
from mtlrun.utils.sizes import PLANNED, allow

OUTPUT = Path("results/runs")
#: In the place of the name of a reading.
ALL_INTERPRETATIONS = "all"
SCHEMA = 2


@dataclass(frozen=True)
class Scenario:
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


def settings(spec: Spec) -> list[Scenario]:
    """Return the data sets, for a sweep each of them at every value of the axis, in the order of the tables."""
    found = []
    datasets: list[DatasetSpec | None] = list(spec.datasets) or [None]
    for index, dataset in enumerate(datasets):
        split = (dataset.split if dataset else None) or spec.split
        setting = Scenario(
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


def _at(setting: Scenario, sweep: Sweep, value: object) -> Scenario:
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
        known = analysis_parameters(method.measure)
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
class Plan(JobPlan):
    """All jobs of an experiment, in the order of the table: data sets, methods, trials.

    Attributes
    ----------
    experiment : Experiment
    datasets : dict
        Reading -> label -> facts for `run.json`.
    """

    experiment: Experiment
    datasets: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def write(self) -> None:
        """Write `run.json`, unless the same content is there.

        Raises
        ------
        OSError
            If the run folder cannot be written.
        """
        content = self.run_json()
        store = self.store()
        before = read_sound_plan(self.folder, store)
        keys = {row.key for row in self.rows if store.has(row.key)}
        # A packed plan has what a finished run needs. It has no full keys of jobs without
        # a record, so it would not find them once they are computed.
        is_finished = all(row.key in keys for row in self.wanted)
        if is_finished and before and before == needed_plan(content, keys):
            return
        write_new(self.folder / RUN_FILE, file_json(content).encode())

    def taken_over(self) -> str | None:
        """Return the settings of another run that has written `run.json` meanwhile."""
        before = read_sound(self.folder / RUN_FILE).get("overrides")
        if not isinstance(before, list) or before == list(self.experiment.overrides):
            return None  # there is none, or it is damaged and will be written anew
        return settings_text(before)

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
                name: self._interpretation_json(name) for name in spec.readings
            }
        return sealed(jsonable(about))

    def _interpretation_json(self, name: str) -> dict[str, Any]:
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
    interpretation: str | None = None,
    output: Path | str = OUTPUT,
) -> Plan:
    """List the jobs of an experiment.

    Parameters
    ----------
    experiment : Experiment
    data_dir : path, optional
        Data directory; default as for `load_dataset`.
    only : iterable of str, optional
        Patterns such as ``method=LADM*,dataset=enron``; other jobs stay as they are.
    interpretation : str, optional
        Name of the interpretation to compute, or ``all``; default: the main one.
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
    rows: list[PlannedJob] = []
    known: dict[tuple[str, ...], Versions] = {}
    for one in (experiment, *experiment.others):
        facts_of = about.setdefault(one.reading, {})
        name = "" if one is experiment else one.reading
        found = settings(one.spec)
        jobs = sum(setting.trials * len(setting.methods) for setting in found)
        folds = one.spec.selection.folds if one.spec.selection else 0
        allow(
            experiment.source,
            jobs * (1 + folds),
            PLANNED,
            "cells and folds",
            "Lower trials, folds or values.",
        )
        for setting in found:
            facts_of[setting.name], source = _dataset_facts(one, setting, directory)
            maker = ScenarioJobs(
                one.spec,
                setting,
                facts_of[setting.name].get("fingerprint", ""),
                source,
                known,
            )
            for method in setting.methods:
                for trial in range(setting.trials):
                    job = (
                        maker.measure(method, trial)
                        if method.measure
                        else maker.fit(method, trial)
                    )
                    key, was = before.get(
                        (name, setting.name, method.label, trial), (None, None)
                    )
                    was = was if key == job.key else key
                    value = setting.axis.get("value")
                    rows.append(
                        PlannedJob(
                            name,
                            setting.name,
                            value,
                            method.label,
                            trial,
                            job.key,
                            job,
                            was,
                        )
                    )
    chosen = zip(
        rows,
        _of_interpretation(experiment, rows, interpretation),
        _matching(rows, only or ()),
        strict=True,
    )
    rows = [replace(row, wanted=asked and matching) for row, asked, matching in chosen]
    spec = experiment.spec
    return Plan(
        id=experiment.id,
        rows=tuple(rows),
        folder=folder,
        output=Path(output),
        data_dir=directory,
        limit=spec.limits.seconds if spec.limits else None,
        timed=spec.timed,
        threads=spec.timing.threads if spec.timing else 1,
        settings=settings_text(experiment.overrides),
        experiment=experiment,
        datasets=about,
    )


@dataclass(frozen=True)
class ScenarioJobs:
    """Makes the jobs of one setting; `source` names what reads its data, `known` has the versions found so far."""

    spec: Spec
    setting: Scenario
    fingerprint: str
    source: str
    known: dict[tuple[str, ...], Versions]

    def fit(self, method: MethodSpec, trial: int) -> Job:
        """Return the job that fits, times and scores."""
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

    def measure(self, method: MethodSpec, trial: int) -> Job:
        """Return the job that calls a measure."""
        path, params = analysis_path(method.measure), dict(method.params)
        threads = self.spec.timing.threads if self.spec.timing else 1
        return self._cell(
            Split("repeat", trial, self._seed(trial)),
            Method(
                measure=analysis_name(path),
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
    ) -> Job:
        dataset = self.setting.dataset
        if step is None:
            step = self.setting.features
        ref = (
            DatasetRef(dataset.id, dataset.options, self.fingerprint)
            if dataset
            else None
        )
        features = None if step.kind == "none" else Features(**step.model_dump())
        return Job(
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


def _dataset_facts(
    experiment: Experiment, setting: Scenario, data_dir: Path | None
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


def _of_interpretation(
    experiment: Experiment, rows: Sequence[PlannedJob], interpretation: str | None
) -> list[bool]:
    """Return whether each row is wanted; raises as `check_interpretation`."""
    check_interpretation(experiment, interpretation)
    name = "" if interpretation in (None, experiment.reading) else interpretation
    return [
        interpretation == ALL_INTERPRETATIONS or row.reading == name for row in rows
    ]


def check_interpretation(experiment: Experiment, interpretation: str | None) -> None:
    """Refuse an interpretation that an experiment does not have, before its data are asked for.

    Raises
    ------
    ConfigError
        If the experiment has no such interpretation, or none at all.
    """
    if (
        interpretation not in (None, ALL_INTERPRETATIONS)
        and not experiment.spec.readings
    ):
        raise ConfigError(
            f"{name_of(experiment.source)}: has no interpretations",
            "Run it without --interpretation.",
        )
    if interpretation is not None and interpretation not in (
        ALL_INTERPRETATIONS,
        *experiment.spec.readings,
    ):
        raise UnknownNameError(
            f"interpretation of {name_of(experiment.source)}:",
            interpretation,
            [*experiment.spec.readings, ALL_INTERPRETATIONS],
        )


class OnlyError(ConfigError):
    """An `only` that is wrong for every experiment."""


class NoMatchError(ConfigError):
    """A pattern of `only` that matches nothing of the experiment."""


def _matching(rows: Sequence[PlannedJob], only: Iterable[str]) -> list[bool]:
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
        words += ["--interpretation", ALL_INTERPRETATIONS]
    if data_dir is not None and str(data_dir) != os.environ.get("MTLRUN_DATA"):
        words += ["--data-dir", shown(str(data_dir))]
    return shlex.join(words)


def _earlier_keys(
    folder: Path, store: Store
) -> dict[tuple[str, str, str, int], tuple[str, str | None]]:
    """Return (key, the key before it) of the rows of an earlier plan, by reading, data set, method and trial."""
    jobs = read_sound_plan(folder, store).get("cells")
    found = {}
    for entry in jobs if isinstance(jobs, list) else ():
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


def unused_jobs(output: Path) -> list[str]:
    """Return the keys of jobs that no run, comparison or model of an output folder names: they may be deleted."""
    records = Records(output)
    found = {path.stem for path in records.cells_folder.glob("*.json")}
    runs = [path.parent for path in output.glob(f"*/*/*/{RUN_FILE}")]
    plans = [read_sound_plan(folder, Records(output, folder)) for folder in runs]
    plans += [read_sound(path) for path in output.rglob(COMPARED)]
    entries = [
        entry
        for plan in plans
        for entry in plan.get("cells") or []
        if isinstance(entry, dict)
    ]
    named = {str(entry.get("key")) for entry in entries}
    named |= {str(read_sound(path).get("cell")) for path in output.rglob(MODEL_FILE)}
    for key in named & found:
        record = records.load(key)
        search = record.inputs.get("search") if record is not None else None
        named = named | {str(fold) for fold in (search or {}).get("keys") or ()}
    return sorted(found - named)
