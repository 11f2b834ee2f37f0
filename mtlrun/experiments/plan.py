"""The cells of an experiment, and which of them are done. Loads no solver and no data."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from mtlrun.core.errors import ConfigError, UnknownNameError, suggest
from mtlrun.experiments.axis import Setting, settings
from mtlrun.experiments.fingerprint import code_fingerprint
from mtlrun.experiments.keys import PROTOCOL, SHARED_CODE, cell_key, derive_seed, explain
from mtlrun.experiments.load import Experiment
from mtlrun.experiments.methods import class_paths, complete, metric_path, resolved, with_params
from mtlrun.experiments.schema import Method
from mtlrun.experiments.store import Names, Store

SCHEMA = 1
OUTPUT = Path("results/runs")
EVALUATION, SELECTION = "evaluation", "selection"
State = Literal["done", "missing", "stale", "failed"]


@dataclass(frozen=True)
class Cell:
    """One piece of work.

    Attributes
    ----------
    key : str
    kind : {"evaluation", "selection"}
    dataset, method : str
        Labels; a selection that several methods share has the name of the first. In a sweep the first is that of the
        setting (`axis.Setting`).
    trial : int
        From 0.
    inputs : dict
        Everything that changes the number; its sha256 is the key.
    needs : str or None
        Key of the selection cell that an evaluation starts from.
    state : {"done", "missing", "stale", "failed"}
        `stale`: an older record of the same names exists, under another key.
    reason : str
        Why it is stale or failed.
    wanted : bool
        False for cells outside `only`.
    """

    key: str
    kind: str
    dataset: str
    method: str
    trial: int
    inputs: Mapping[str, Any]
    needs: str | None = None
    state: State = "missing"
    reason: str = ""
    wanted: bool = True

    @property
    def name(self) -> str:
        """Name for people: ``enron/APG-RMTL/trial 0``."""
        note = " (selection)" if self.kind == SELECTION else ""
        return f"{self.dataset}/{self.method}/trial {self.trial}{note}"

    @property
    def names(self) -> Names:
        """Names under which records are looked up."""
        return self.kind, self.dataset, self.method, self.trial


@dataclass(frozen=True)
class Plan:
    """All cells of an experiment.

    Attributes
    ----------
    experiment : Experiment
    folder : Path
        Run folder.
    data_dir : Path or None
    evaluations : tuple of Cell
        In the order of the table: data sets, methods, trials. Two of them may have the same key.
    selections : tuple of Cell
        Every key once.
    datasets : dict
        Label -> facts for `run.json`.
    """

    experiment: Experiment
    folder: Path
    data_dir: Path | None
    evaluations: tuple[Cell, ...]
    selections: tuple[Cell, ...]
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Selection cells, then evaluation cells."""
        return self.selections + self.evaluations

    @property
    def wanted(self) -> tuple[Cell, ...]:
        """The evaluation cells inside `only`."""
        return tuple(cell for cell in self.evaluations if cell.wanted)

    @property
    def timed(self) -> bool:
        """Whether evaluation cells measure seconds, and therefore run one after the other."""
        return self.experiment.spec.timing is not None

    def todo(self, *, force: bool = False) -> tuple[list[Cell], list[Cell]]:
        """Return the (selection, evaluation) cells to compute, every key once."""
        evaluations = {c.key: c for c in self.wanted if force or c.state != "done"}
        needed = {c.needs for c in evaluations.values()}
        selections = [c for c in self.selections if c.key in needed and (force or c.state != "done")]
        return selections, list(evaluations.values())

    def run_json(self) -> dict[str, Any]:
        """Return the content of `run.json` (described in docs/architecture.md)."""
        experiment = self.experiment
        spec = experiment.spec
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
            "cells": [
                {
                    "key": c.key,
                    "kind": c.kind,
                    "dataset": c.dataset,
                    "method": c.method,
                    "trial": c.trial,
                    "split": c.inputs["split"],
                    **({"value": self.datasets[c.dataset]["axis"]["value"]} if spec.sweep else {}),
                }
                for c in self.evaluations
            ],
            "command": rerun_command(experiment),
        }


def plan(
    experiment: Experiment,
    *,
    data_dir: Path | str | None = None,
    only: Mapping[str, Sequence[str]] | Iterable[str] | None = None,
    output: Path | str = OUTPUT,
) -> Plan:
    """List the cells of an experiment and find out which are done.

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
    patterns = _patterns(only)
    places = settings(experiment.spec)
    facts = {place.name: _dataset_facts(experiment, place, directory) for place in places}
    evaluations: list[Cell] = []
    selections: dict[str, Cell] = {}
    prints: dict[tuple[str, ...], dict[str, str]] = {}
    for place in places:
        for method in place.methods:
            for trial in range(place.split.n_trials):
                maker = _CellMaker(experiment, place, facts[place.name]["fingerprint"], method, trial, prints)
                selection = maker.selection()
                if selection is not None:
                    selections.setdefault(selection.key, selection)
                evaluations.append(maker.evaluation(selection.key if selection else None))
    wanted = _select(evaluations, patterns)
    made = Plan(experiment, folder, directory, tuple(wanted), tuple(selections.values()), facts)
    return survey(made)


def survey(plan: Plan) -> Plan:
    """Return the plan with the state of every cell as the run folder has it now."""
    store = Store(plan.folder)
    keys = {cell.key for cell in plan.cells}
    old = store.old_records(keys)
    new_selections = {cell.key: cell for cell in plan.selections}

    def examine(cell: Cell) -> Cell:
        record = store.load(cell.key)
        if record is not None:
            state: State = "done" if record.done else "failed"
            return replace(cell, state=state, reason="" if record.done else f"{record.status}: {record.error}")
        if store.path(cell.key).exists():
            return replace(cell, state="failed", reason="its file cannot be read")
        before = old.get(cell.names)
        if before is None:
            return replace(cell, state="missing", reason="")
        reason = explain(before.inputs, cell.inputs)
        if not reason and cell.needs != before.inputs.get("selection"):
            searched = store.load(str(before.inputs.get("selection")))
            now = new_selections.get(cell.needs or "")
            detail = explain(searched.inputs, now.inputs) if searched and now else ""
            reason = f"selection: {detail}" if detail else "selection changed"
        return replace(cell, state="stale", reason=reason or "inputs changed")

    evaluations = tuple(examine(cell) for cell in plan.evaluations)
    return replace(plan, evaluations=evaluations, selections=tuple(examine(cell) for cell in plan.selections))


def rerun_command(experiment: Experiment) -> str:
    """Return one line that runs the experiment again."""
    shipped = experiment.source == f"configs/{experiment.id}.yaml"
    words = ["mtlrun", "reproduce", experiment.id if shipped else experiment.source, "--profile", experiment.profile]
    for override in experiment.overrides:
        words += ["--set", override]
    return shlex.join(words)


@dataclass(frozen=True)
class _CellMaker:
    """Builds the cells of one (setting, method, trial); `prints` holds the code fingerprints found so far."""

    experiment: Experiment
    place: Setting
    fingerprint: str
    method: Method
    trial: int
    prints: dict[tuple[str, ...], dict[str, str]]

    def selection(self) -> Cell | None:
        """Return the search for the parameters, None without a grid."""
        spec, method = self.experiment.spec, self.method
        if not method.grid or spec.selection is None:
            return None
        params = with_params(complete(method.estimator, method.params), method.select_with)
        grid = {k: list(spec.grids[v]) if isinstance(v, str) else list(v) for k, v in method.grid.items()}
        inputs = {
            **self._common(SELECTION, params, [spec.selection_metric]),
            "grid": grid,
            "search": {"folds": spec.selection.folds, "metric": spec.selection_metric, "seed": self._seed("selection")},
        }
        return Cell(cell_key(inputs), SELECTION, self.place.name, method.label, self.trial, inputs)

    def evaluation(self, needs: str | None) -> Cell:
        """Return the cell that fits, times and scores."""
        spec, timing = self.experiment.spec, self.experiment.spec.timing
        inputs = {
            **self._common(EVALUATION, self.method.params, spec.metrics),
            "selection": needs,
            "metrics": list(spec.metrics),
            "timing": timing and {"repeats": timing.repeats, "threads": timing.threads, "warmup": timing.warmup},
        }
        return Cell(cell_key(inputs), EVALUATION, self.place.name, self.method.label, self.trial, inputs, needs)

    def _common(self, kind: str, params: Mapping[str, Any], metrics: list[str]) -> dict[str, Any]:
        spec = self.experiment.spec
        dataset = self.place.dataset
        split = {k: v for k, v in self.place.split.model_dump(exclude={"trials"}).items() if v is not None}
        estimator = resolved(self.method.estimator, params, self._seed("estimator"))
        code = (*class_paths(estimator), *(metric_path(name) for name in metrics), *SHARED_CODE)
        if code not in self.prints:
            self.prints[code] = code_fingerprint(code)
        return {
            "schema": SCHEMA,
            "protocol": PROTOCOL,
            "kind": kind,
            "profile": self.experiment.profile,
            "dataset": {"id": dataset.id, "options": dataset.options, "fingerprint": self.fingerprint},
            "split": {**split, "trial": self.trial, "seed": self._split_seed()},
            "estimator": estimator,
            "average": spec.average,
            "code": self.prints[code],
        }

    def _split_seed(self) -> int:
        if self.experiment.spec.split.kind == "kfold":  # the trials are the folds of one partition
            return derive_seed(self.experiment.spec.seed, self.place.dataset.id)
        return self._seed()

    def _seed(self, *purpose: str) -> int:
        return derive_seed(self.experiment.spec.seed, self.place.dataset.id, self.trial, *purpose)


def _dataset_facts(experiment: Experiment, setting: Setting, data_dir: Path | None) -> dict[str, Any]:
    from mtlrun.data.cards import load_card
    from mtlrun.data.files import data_directory
    from mtlrun.data.load import dataset_fingerprint

    spec = setting.dataset
    card = load_card(spec.id, data_directory(data_dir))
    try:
        variant = card.variant(spec.options.get("variant"))
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
    return {name: value for name, value in facts.items() if value not in (None, "", {})}


def _patterns(only: Mapping[str, Sequence[str]] | Iterable[str] | None) -> dict[str, list[str]]:
    if only is None:
        return {}
    if isinstance(only, Mapping):
        return {key: [str(v) for v in values] for key, values in only.items()}
    found: dict[str, list[str]] = {}
    for part in (p for text in only for p in text.split(",")):
        key, equals, pattern = part.partition("=")
        if not equals:
            raise ConfigError(f"--only {part}: must be key=pattern", "for instance --only method=LADM*,dataset=enron")
        found.setdefault(key.strip(), []).append(pattern.strip())
    return found


def _select(cells: list[Cell], patterns: Mapping[str, list[str]]) -> list[Cell]:
    """Mark the cells that match one pattern of every key; a pattern without a match is an error."""
    values = {"dataset": lambda c: c.dataset, "method": lambda c: c.method, "trial": lambda c: str(c.trial)}
    for key, wanted in patterns.items():
        if key not in values:
            raise ConfigError(f"--only {key}=...: unknown key {key!r}", f"Known: {', '.join(values)}.")
        known = list(dict.fromkeys(values[key](cell) for cell in cells))
        for pattern in wanted:
            if not any(fnmatchcase(name.lower(), pattern.lower()) for name in known):
                near = suggest(pattern, known)
                hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"Known: {', '.join(known)}."
                raise ConfigError(f"--only {key}={pattern}: matches no {key}", hint)
    return [
        replace(
            cell,
            wanted=all(
                any(fnmatchcase(values[key](cell).lower(), p.lower()) for p in wanted)
                for key, wanted in patterns.items()
            ),
        )
        for cell in cells
    ]
