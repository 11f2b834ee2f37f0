"""Plan the jobs of an experiment: one for each scenario, method and trial.

Planning loads no solver and no data.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mtlrun.catalog.interfaces import interface
from mtlrun.catalog.methods import (
    Method,
    Versions,
    analysis_parameters,
    complete,
    has_parameter,
    published_hash,
    quantities_of,
    without_empty,
)
from mtlrun.data.sets.cards import load_card
from mtlrun.data.sets.files import data_directory
from mtlrun.data.sets.load import (
    check_options,
    dataset_fingerprint,
    source_name,
    source_path,
)
from mtlrun.engine.environment import private_path
from mtlrun.engine.job import (
    HALVING,
    DatasetRef,
    Features,
    Job,
    JobBuilder,
    Scoring,
    Search,
    Split,
    Timing,
    searched_method,
    with_params,
)
from mtlrun.engine.packed import needed_plan
from mtlrun.engine.plan import JobPlan, PlannedJob
from mtlrun.engine.record import DIGEST_LENGTH, ResultKey
from mtlrun.engine.run import loaded
from mtlrun.engine.store import Store, write_new
from mtlrun.engine.stored import COMPARED, MODEL_FILE, RUN_FILE, read_sound
from mtlrun.errors import ConfigError, UnknownNameError, suggest
from mtlrun.lab.experiment.catalogue import name_of
from mtlrun.lab.experiment.checks import read_curves
from mtlrun.lab.experiment.spec import (
    PUBLISHED,
    DatasetSpec,
    Experiment,
    FeatureStep,
    MethodSpec,
    Spec,
    SplitSpec,
    Sweep,
    plain_grid,
)
from mtlrun.lab.stored import read_sound_plan
from mtlrun.show.report_table import show
from mtlrun.utils.io import as_list, canonical_json, file_json, jsonable, sealed
from mtlrun.utils.sizes import PLANNED, allow

OUTPUT = Path("results/runs")
#: Version of the format of ``run.json``.
SCHEMA = 2


@dataclass(frozen=True)
class Plan(JobPlan):
    """All jobs of an experiment, in the order of the table: data sets, methods, trials.

    Attributes
    ----------
    experiment : Experiment
    datasets : dict
        Interpretation -> label of a data set -> its metadata in ``run.json``.
    """

    experiment: Experiment
    datasets: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def write(self) -> None:
        """Write ``run.json``, unless the same content is there.

        Raises
        ------
        OSError
            If the run folder cannot be written.
        """
        content = self.run_json()
        store = self.store()
        before = read_sound_plan(self.folder, store)
        keys = {row.key for row in self.rows if store.has(row.key)}
        # A packed plan has what a finished run needs. It has no full keys of jobs
        # without a record, so it would not find them once they are computed.
        is_finished = all(row.key in keys for row in self.wanted)
        if is_finished and before and before == needed_plan(content, keys):
            return
        write_new(self.folder / RUN_FILE, file_json(content).encode())

    def taken_over(self) -> str | None:
        """Return the settings of another run that wrote ``run.json`` in the meantime.

        None if ``run.json`` has the settings of this run, or if it is missing or
        damaged.
        """
        overrides = read_sound(self.folder / RUN_FILE).get("overrides")
        if not isinstance(overrides, list):
            return None
        if overrides == list(self.experiment.overrides):
            return None
        return settings_text(overrides)

    def run_json(self) -> dict[str, Any]:
        """Return the content of ``run.json``, which docs/formats.md describes."""
        experiment = self.experiment
        spec = experiment.spec
        command = rerun_command(experiment, self.data_dir, path_text=private_path)
        content = {
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
            "methods": [method.label for method in spec.methods],
            "datasets": self.datasets[experiment.interpretation],
            "cells": [row.plain for row in self.rows],
            "command": command,
        }
        if spec.published is not None:
            content["published"] = read_curves(spec.published)
        if spec.is_analysis:
            quantities = quantities_of([method.measure for method in spec.methods])
            content["quantities"] = {
                name: metadata
                for name, metadata in (quantities or {}).items()
                if name in spec.metrics
            }
        if spec.readings:
            readings = {name: self._interpretation_json(name) for name in spec.readings}
            content |= {"reading": experiment.interpretation, "readings": readings}
        return sealed(jsonable(content))

    def _interpretation_json(self, name: str) -> dict[str, Any]:
        """Return the entry of an interpretation in ``run.json``.

        It has the sentences of the interpretation, and what differs from the main one.
        """
        main = self.experiment
        interpretation = main.spec.readings[name]
        entry = interpretation.model_dump(exclude={"changes"}, exclude_unset=True)
        for other in main.others:
            if other.interpretation == name:
                config = {
                    key: value
                    for key, value in other.config.items()
                    if main.config.get(key) != value
                }
                entry |= {
                    "config": config,
                    "datasets": self.datasets[name],
                    "methods": [method.label for method in other.spec.methods],
                }
        return entry


def plan(
    experiment: Experiment,
    *,
    data_dir: Path | str | None = None,
    only: Iterable[str] | None = None,
    interpretation: str | None = None,
    output: Path | str = OUTPUT,
    needs_files: bool = True,
) -> Plan:
    """Plan the jobs of an experiment.

    Parameters
    ----------
    experiment : Experiment
    data_dir : Path or str, default=None
        Data directory; None for the default of `load_dataset`.
    only : iterable of str, default=None
        Patterns such as ``method=LADM*,dataset=enron``; None for all jobs. Other jobs
        are part of the plan, but are not computed.
    interpretation : str, default=None
        Name of the interpretation to compute, or ``all``; None for the main one.
    output : Path or str, default="results/runs"
        Folder of all runs.
    needs_files : bool, default=True
        Whether the files of the data sets must exist. To look up stored results, the
        digests in their cards suffice.

    Raises
    ------
    ConfigError
        If `only` matches nothing, or if the interpretation or an option of a data set
        is unknown.
    DataError
        If a file of a data set is missing or does not match its card.
    """
    output = Path(output)
    folder = experiment.folder(output)
    directory = None
    if data_dir is not None:
        directory = Path(data_dir)
    earlier_keys = _earlier_keys(folder, Store(output, folder))
    # Finding versions takes long, and many jobs have the same.
    versions: dict[tuple[str, ...], Versions] = {}
    datasets: dict[str, dict[str, dict[str, Any]]] = {}
    rows: list[PlannedJob] = []
    # The experiment under its main interpretation, then under each other one.
    for interpreted in (experiment, *experiment.others):
        # Rows of the main interpretation do not name it.
        name = ""
        if interpreted is not experiment:
            name = interpreted.interpretation
        all_scenarios = scenarios(interpreted.spec)
        n_jobs = sum(s.trials * len(s.methods) for s in all_scenarios)
        n_folds = 0
        if interpreted.spec.selection:
            n_folds = interpreted.spec.selection.folds
        allow(
            interpreted.source,
            n_jobs * (1 + n_folds),
            PLANNED,
            "results and folds",
            "Lower trials, folds or values.",
        )
        metadata = datasets.setdefault(interpreted.interpretation, {})
        for scenario in all_scenarios:
            data = _dataset_info(interpreted, scenario, directory, needs_files)
            metadata[scenario.name] = data.metadata
            dataset_ref = None
            if scenario.dataset is not None:
                dataset_ref = DatasetRef(
                    id=scenario.dataset.id,
                    options=scenario.dataset.options,
                    fingerprint=data.fingerprint,
                )
            builder = JobBuilder(
                dataset_ref, data.source, interpreted.spec.seed, versions
            )
            for row in _rows_of(interpreted.spec, scenario, builder, name):
                others = [
                    key for key in earlier_keys.get(row.name, ()) if key != row.key
                ]
                rows.append(replace(row, was=others[0] if others else None))
    check_interpretation(experiment, interpretation)
    # Rows of the main interpretation do not name it.
    selected = interpretation
    if interpretation in (None, experiment.interpretation):
        selected = ""
    are_matching = matching(rows, only or ())
    spec = experiment.spec
    limit = None
    if spec.limits:
        limit = spec.limits.seconds
    threads = 1
    if spec.timing:
        threads = spec.timing.threads
    return Plan(
        id=experiment.id,
        rows=tuple(
            replace(
                row,
                wanted=is_matching and selected in (ALL_INTERPRETATIONS, row.reading),
            )
            for row, is_matching in zip(rows, are_matching, strict=True)
        ),
        folder=folder,
        output=output,
        data_dir=directory,
        limit=limit,
        timed=spec.is_timed,
        threads=threads,
        settings=settings_text(experiment.overrides),
        experiment=experiment,
        datasets=datasets,
    )


# ------------------------------------------------------------- data sets


@dataclass(frozen=True)
class DatasetInfo:
    """Data set of a scenario.

    Attributes
    ----------
    metadata : dict
        Its entry in ``run.json``.
    fingerprint : str
        Fingerprint of the data; "" without a data set.
    source : str
        Name of its reader or generator; "" without a data set.
    """

    metadata: dict[str, Any]
    fingerprint: str = ""
    source: str = ""


def _dataset_info(
    experiment: Experiment,
    scenario: Scenario,
    data_dir: Path | None,
    needs_files: bool,
) -> DatasetInfo:
    """Return the metadata of the data set of a scenario.

    Raises
    ------
    ConfigError
        If an option of the data set is unknown.
    DataError
        If a file of the data set is missing or does not match its card.
    """
    dataset = scenario.dataset
    if dataset is None:
        # Analyses read published numbers.
        published_files: dict[str, str] = {}
        for method in scenario.methods:
            published_files |= published_hash(method.params)
        published = {
            "id": PUBLISHED,
            "title": "Published numbers",
            "files": published_files,
            "axis": scenario.axis,
        }
        return DatasetInfo(without_empty(published))
    card = load_card(dataset.id, data_directory(data_dir))
    try:
        variant = card.variant(dataset.options.get("variant"))
        valid_options = interface(source_path(card)).keyword_only
        options = {**variant.options, **dataset.options}
        check_options(f"data set {dataset.id}", options, valid_options)
        fingerprint = dataset_fingerprint(
            dataset.id, data_dir=data_dir, needs_files=needs_files, **dataset.options
        )
    except UnknownNameError as error:
        position = _dataset_position(experiment, scenario)
        raise ConfigError(f"{position}: {error.message}", error.remedy) from None
    except TypeError as error:
        position = _dataset_position(experiment, scenario)
        raise ConfigError(f"{position}: {error}") from None
    files = card.needed(variant.name or None)
    metadata = {
        "id": dataset.id,
        "title": card.title,
        "simulated": card.simulated,
        "fingerprint": fingerprint,
        "options": dataset.options,
        "statistics": variant.statistics,
        "files": {file.name: file.sha256 for file in files if file.sha256},
        "licence": card.license,
        "citation": card.citation,
        "notes": variant.notes,
        "axis": scenario.axis,
    }
    return DatasetInfo(without_empty(metadata), fingerprint, source_name(card))


def _dataset_position(experiment: Experiment, scenario: Scenario) -> str:
    """Return the position of a data set for messages; the file if it is unknown."""
    if scenario.index < len(experiment.places):
        return experiment.places[scenario.index]
    return experiment.source


# ------------------------------------------------------------- jobs of a scenario


def _rows_of(
    spec: Spec, scenario: Scenario, builder: JobBuilder, interpretation: str
) -> Iterator[PlannedJob]:
    """Yield the rows of the table of a scenario: methods, and trials of each method.

    Parameters
    ----------
    spec : Spec
    scenario : Scenario
    builder : JobBuilder
    interpretation : str
        Name in the rows; "" for the main interpretation.
    """
    for method in scenario.methods:
        make_jobs = _fit_jobs
        if method.measure:
            make_jobs = _analysis_jobs
        for job in make_jobs(spec, scenario, builder, method):
            yield PlannedJob(
                reading=interpretation,
                dataset=scenario.name,
                value=scenario.axis.get("value"),
                method=method.label,
                trial=job.split.trial,
                key=job.key,
                job=job,
            )


def _fit_jobs(
    spec: Spec, scenario: Scenario, builder: JobBuilder, method: MethodSpec
) -> list[Job]:
    """Return the jobs that fit, time and score a method."""
    timing = None
    if spec.timing:
        timing = Timing(
            repeats=spec.timing.repeats,
            threads=spec.timing.threads,
            warmup=spec.timing.warmup,
        )
    scoring = Scoring(
        metrics=tuple(scenario.metrics),
        average=spec.average,
        keep=tuple(sorted(set(spec.keep))),
        timing=timing,
    )
    # Only analyses have no split.
    assert scenario.split is not None
    first_split = Split(
        kind=scenario.split.kind,
        trial=0,
        train=scenario.split.train,
        folds=scenario.split.folds,
        name=scenario.split.name,
        validation=scenario.split.validation,
    )
    return builder.jobs(
        Method(method.estimator, params=method.params),
        [replace(first_split, trial=trial) for trial in range(scenario.trials)],
        scoring,
        features=_features(method.features or scenario.features),
        search=_search(spec, scenario, method),
    )


def _analysis_jobs(
    spec: Spec, scenario: Scenario, builder: JobBuilder, method: MethodSpec
) -> list[Job]:
    """Return the jobs that call an analysis."""
    timing = None
    if spec.is_timed:
        threads = 1
        if spec.timing:
            threads = spec.timing.threads
        # An analysis repeats its measurements itself.
        timing = Timing(repeats=1, threads=threads, warmup=False)
    return builder.jobs(
        Method(measure=method.measure, params=dict(method.params)),
        [Split(kind="repeat", trial=trial) for trial in range(scenario.trials)],
        Scoring(timing=timing),
        features=_features(scenario.features),
    )


def _search(spec: Spec, scenario: Scenario, method: MethodSpec) -> Search | None:
    """Return the search for the parameters of a method; None if there is none."""
    selection = spec.selection
    # A method without a grid has a search only if its folds are to be scored, too.
    if selection is None or not (method.grid or method.scored):
        return None
    grid = plain_grid(spec, method)
    n_folds = selection.folds
    if selection.on == "validation":
        n_folds = 1
    on: str = selection.on
    if method.halving:
        on = HALVING
    return Search(
        grid={name: list(values) for name, values in grid.items()},
        folds=n_folds,
        metric=selection.metric or scenario.metrics[0],
        seed=0,
        method=searched_method(method.estimator, method.params, method.select_with),
        on=on,
    )


def _features(step: FeatureStep) -> Features | None:
    """Return the features of a job; None without preprocessing."""
    if step.kind == "none":
        return None
    return Features(
        kind=step.kind,
        degree=step.degree,
        normalize=step.normalize,
        hash_bits=step.hash_bits,
    )


# ------------------------------------------------------------- the run folder


def settings_text(overrides: Iterable[str]) -> str:
    """Return overrides as on the command line."""
    return " ".join(f"--set {text}" for text in overrides) or "no --set"


def rerun_command(
    experiment: Experiment,
    data_dir: Path | None = None,
    *,
    path_text: Callable[[str], str] = str,
) -> str:
    """Return a command that runs the experiment again.

    Parameters
    ----------
    experiment : Experiment
    data_dir : Path, default=None
        Data directory of the run. The command names it unless it comes from the
        environment, because the environment belongs to the machine and not to the run.
    path_text : callable, default=str
        Returns the text for a path. Files that are kept leave out folders of the user
        (see `mtlrun.engine.environment.private_path`).
    """
    source = path_text(experiment.source)
    if experiment.source == f"configs/{experiment.id}.yaml":
        source = experiment.id
    words = ["mtlrun", "reproduce", source, "--profile", experiment.profile]
    for override in experiment.overrides:
        words += ["--set", override]
    if experiment.others:
        words += ["--interpretation", ALL_INTERPRETATIONS]
    if data_dir is not None and str(data_dir) != os.environ.get("MTLRUN_DATA"):
        words += ["--data-dir", path_text(str(data_dir))]
    return shlex.join(words)


def _earlier_keys(folder: Path, store: Store) -> dict[str, list[str]]:
    """Return the keys that each row had in an earlier plan of a run, the last first.

    Rows are known by their names. Damaged entries are left out.
    """
    keys_by_row = {}
    for entry in as_list(read_sound_plan(folder, store).get("cells")):
        try:
            row = ResultKey.read(entry)
        except ValueError:
            continue
        keys = [row.key]
        was = entry.get("was")
        if isinstance(was, str):
            if not store.has(row.key):
                # The job was planned and never computed, so the result before it still
                # holds.
                keys = []
            keys.append(was)
        # The keys of jobs without a record are shortened in packed plans.
        keys_by_row[row.name] = [key for key in keys if len(key) == DIGEST_LENGTH]
    return keys_by_row


def unused_jobs(output: Path) -> list[str]:
    """Return the keys of jobs that nothing in an output folder refers to.

    Such jobs may be deleted: they belong to no run, comparison or model.
    """
    records = Store(output)
    keys = {path.stem for path in records.cells_folder.glob("*.json")}
    plans = [read_sound(path) for path in output.rglob(COMPARED)]
    for path in output.glob(f"*/*/*/{RUN_FILE}"):
        plans.append(read_sound_plan(path.parent, Store(output, path.parent)))
    used = set()
    for plan_json in plans:
        for entry in plan_json.get("cells") or []:
            if isinstance(entry, dict):
                used.add(str(entry.get("key")))
    for path in output.rglob(MODEL_FILE):
        used.add(str(read_sound(path).get("cell")))
    folds = set()
    for key in used & keys:
        record = records.load(key)
        if record is not None:
            search = record.inputs.get("search") or {}
            folds |= {str(fold) for fold in search.get("keys") or ()}
    return sorted(keys - used - folds)


# ------------------------------------------------------------- scenarios


@dataclass(frozen=True)
class Scenario:
    """Data and protocol on which methods are compared: one table of the report.

    Attributes
    ----------
    index : int
        Position of the data set in the file.
    name : str
        Label in tables: the label of the data set, in a sweep with the value of the
        axis.
    dataset : DatasetSpec or None
        None for analyses of published numbers.
    split : SplitSpec or None
        None for analyses.
    trials : int
        Number of splits, or of repeats of an analysis.
    metrics : list of str
    features : FeatureStep
        Step that is learned on the training rows (on all rows, for analyses).
    methods : tuple of MethodSpec
    axis : dict
        ``{"of": label of the data set, "value": value of the axis}``; empty without a
        sweep.
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


def scenarios(spec: Spec) -> list[Scenario]:
    """Return the scenarios of an experiment in the order of its tables.

    There is one for each data set. In a sweep, there is one for each data set and value
    of the axis.
    """
    all_scenarios = []
    for index, dataset in enumerate(spec.datasets or [None]):
        name = PUBLISHED
        split = spec.split
        metrics = spec.metrics
        features = spec.features
        methods = spec.methods
        if dataset is not None:
            name = dataset.name
            split = dataset.split or split
            metrics = dataset.metrics or metrics
            features = dataset.features or features
            names = {dataset.id, dataset.name}
            methods = [
                method
                for method in methods
                if method.datasets is None or names & set(method.datasets)
            ]
        trials = spec.repeats
        if split is not None:
            trials = split.n_trials
        scenario = Scenario(
            index=index,
            name=name,
            dataset=dataset,
            split=split,
            trials=trials,
            metrics=metrics,
            features=features,
            methods=tuple(methods),
            axis={},
        )
        if spec.sweep is None:
            all_scenarios.append(scenario)
            continue
        left_out = spec.sweep.leave_out.get(name, [])
        for value in spec.sweep.values:
            if value not in left_out:
                all_scenarios.append(_at_value(scenario, spec.sweep, value))
    return all_scenarios


def _at_value(scenario: Scenario, sweep: Sweep, value: object) -> Scenario:
    """Return a scenario at one value of the axis of a sweep.

    Methods take the value for the parameters of the axis that they have.
    """
    dataset = scenario.dataset
    if dataset is not None and sweep.option is not None:
        fields = {**dataset.model_dump(), sweep.option: value}
        dataset = DatasetSpec.model_validate(fields)
    split = scenario.split
    if split is not None and sweep.split is not None:
        split = split.model_copy(update={sweep.split: value})
    names = sweep.params or []
    methods = []
    for method in scenario.methods:
        params = method.params
        if method.measure:
            valid_names = analysis_parameters(method.measure)
            # None means that the analysis accepts any parameter.
            values = {
                n: value for n in names if valid_names is None or n in valid_names
            }
            params = {**params, **values}
        else:
            complete_params = complete(method.estimator, params)
            values = {}
            for name in names:
                if has_parameter(method.estimator, complete_params, name):
                    values[name] = value
            if values:
                # ``base__alpha`` may belong to an estimator that is a default.
                params = with_params(complete_params, values)
        methods.append(method.model_copy(update={"params": params}))
    return replace(
        scenario,
        name=f"{scenario.name} ({sweep.name} {show(value)})",
        dataset=dataset,
        split=split,
        methods=tuple(methods),
        axis={"of": scenario.name, "value": value},
    )


# ------------------------------------------------------------- selected rows

#: In place of the name of an interpretation.
ALL_INTERPRETATIONS = "all"


class OnlyError(ConfigError):
    """An `only` that is wrong for every experiment."""


class NoMatchError(ConfigError):
    """A pattern of `only` that matches nothing in the experiment."""


def check_interpretation(experiment: Experiment, interpretation: str | None) -> None:
    """Refuse an interpretation that an experiment does not have.

    Parameters
    ----------
    experiment : Experiment
    interpretation : str or None
        Name of an interpretation, or ``all``; None for the main one.

    Raises
    ------
    ConfigError
        If the experiment has no such interpretation, or none at all.
    """
    if interpretation is None:
        return
    names = experiment.spec.readings
    experiment_name = name_of(experiment.source)
    if not names and interpretation != ALL_INTERPRETATIONS:
        raise ConfigError(
            f"{experiment_name}: has no interpretations",
            "Run it without --interpretation.",
        )
    valid_names = [*names, ALL_INTERPRETATIONS]
    if interpretation not in valid_names:
        raise UnknownNameError(
            f"interpretation of {experiment_name}:", interpretation, valid_names
        )


def matching(rows: Sequence[PlannedJob], only: Iterable[str]) -> list[bool]:
    """Return for each row whether it matches `only`.

    A row matches if, for each key in `only`, it matches one of the patterns.

    Parameters
    ----------
    rows : sequence of PlannedJob
    only : iterable of str
        Texts such as ``method=LADM*,dataset=enron``.

    Raises
    ------
    OnlyError
        For a part that is not ``key=pattern``, or has an unknown key.
    NoMatchError
        For a pattern that matches no row.
    """
    labels = []
    for row in rows:
        labels.append(
            {"dataset": row.dataset, "method": row.method, "trial": str(row.trial)}
        )
    patterns: dict[str, list[str]] = {}
    for text in only:
        key, _, label = text.partition("=")
        key = key.strip()
        label = label.strip()
        parts = text.split(",")
        if any(row_labels.get(key) == label for row_labels in labels):
            # This comma is a part of a label.
            parts = [text]
        for part in parts:
            key, pattern = _parse(part, labels)
            patterns.setdefault(key, []).append(pattern)
    are_matching = []
    for row_labels in labels:
        is_matching = True
        for key, alternatives in patterns.items():
            label = row_labels[key]
            is_matching &= any(_matches(label, pattern) for pattern in alternatives)
        are_matching.append(is_matching)
    return are_matching


def _parse(part: str, labels: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    """Return the key and pattern of ``key=pattern``; raise as `matching`."""
    key, equals, pattern = part.partition("=")
    key = key.strip()
    pattern = pattern.strip()
    if not equals:
        raise OnlyError(
            f"--only {part}: must be key=pattern",
            "for instance --only method=LADM*,dataset=enron",
        )
    if labels and key not in labels[0]:
        raise OnlyError(
            f"--only {key}=...: unknown key {key!r}", f"Known: {', '.join(labels[0])}."
        )
    candidates = list(dict.fromkeys(row_labels[key] for row_labels in labels))
    if not any(_matches(label, pattern) for label in candidates):
        near = suggest(pattern, candidates)
        hint = f"Known: {', '.join(candidates)}."
        if near:
            hint = f"Did you mean {' or '.join(map(repr, near))}?"
        raise NoMatchError(f"--only {key}={pattern}: matches no {key}", hint)
    return key, pattern


def _matches(label: str, pattern: str) -> bool:
    return fnmatchcase(label.lower(), pattern.lower())


# ------------------------------------------------------------- scales of columns
# Iterative solvers converge slowly on columns that differ widely in scale.

#: Ratio of standard deviations of two columns from which on a run warns.
MAX_SCALE_RATIO = 1000.0


def scale_ratio(X: Any) -> float:
    """Return the largest standard deviation of a column over the smallest one.

    Constant columns do not count; without other columns, the ratio is 1.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n, d)
    """
    # A run without missing jobs looks at no data, and need not wait for these.
    import numpy as np
    from scipy import sparse

    means = np.asarray(X.mean(axis=0), dtype=float).ravel()
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).mean(axis=0), dtype=float).ravel()
        stds = np.sqrt(np.maximum(squares - means**2, 0.0))
    else:
        stds = np.asarray(X, dtype=float).std(axis=0)
    # The standard deviation of a constant column is rounding error, not always 0.
    varies = stds > 1e-9 * np.abs(means)
    if not varies.any():
        return 1.0
    return float(stds[varies].max() / stds[varies].min())


def scale_warnings(plan: Plan) -> list[str]:
    """Return a line per data set whose columns differ widely and are used as they are.

    Only files of users are looked at, and only data sets of jobs that are not finished:
    an experiment of a paper uses its data as the paper did.
    """
    experiment = plan.experiment
    if experiment.source == f"configs/{experiment.id}.yaml":
        return []
    store = plan.store()
    jobs: dict[str, Job] = {}
    for row in plan.wanted:
        job = row.job
        # Features are scaled already.
        if job.dataset is None or job.features is not None or store.has(row.key):
            continue
        jobs.setdefault(job.dataset.id, job)
    data_dir = None
    if plan.data_dir is not None:
        data_dir = str(plan.data_dir)
    lines = []
    for name, job in jobs.items():
        reference = job.dataset
        assert reference is not None
        options = canonical_json(reference.options)
        data = loaded(name, options, reference.fingerprint, data_dir)
        if data.strings:
            continue
        ratio = scale_ratio(data.X)
        if ratio > MAX_SCALE_RATIO:
            lines.append(
                f"columns of {name} differ in scale by a factor of {ratio:.0e}, so "
                "solvers converge slowly or not at all; 'features: standardize' in "
                "the file scales them"
            )
    return lines
