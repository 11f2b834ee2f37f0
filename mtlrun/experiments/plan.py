"""The cells of an experiment, and which of them are done. Loads no solver and no data."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mtlrun.core.errors import ConfigError, UnknownNameError, suggest
from mtlrun.experiments.axis import Setting, settings
from mtlrun.experiments.cells import SCHEMA, SELECTION, Cell, CellMaker, State, settled
from mtlrun.experiments.keys import explain
from mtlrun.experiments.load import Experiment
from mtlrun.experiments.measures.lookup import quantities_of
from mtlrun.experiments.measures.published import published_hash
from mtlrun.experiments.published import read_curves
from mtlrun.experiments.schema import PUBLISHED
from mtlrun.experiments.store import Store

OUTPUT = Path("results/runs")


class OnlyError(ConfigError):
    """What `only` cannot mean, whatever the experiment."""


class NoMatchError(ConfigError):
    """A pattern of `only` that matches nothing of the experiment."""


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
        The cells of the table, measurements included, in its order: data sets, methods, trials. Two of them may have
        the same key.
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
        """The cells of the table inside `only`."""
        return tuple(cell for cell in self.evaluations if cell.wanted)

    @property
    def timed(self) -> bool:
        """Whether the cells of the table measure seconds, and therefore run one after the other."""
        return self.experiment.spec.timed

    def todo(self, *, force: bool = False) -> tuple[list[Cell], list[Cell]]:
        """Return the (selection, evaluation) cells to compute, every key once.

        A search whose file is damaged is done again although its evaluations are done: the report shows it.
        """
        evaluations = {c.key: c for c in self.wanted if force or c.state != "done"}
        needed = {c.needs for c in evaluations.values()}
        shown = {c.needs for c in self.wanted}
        selections = [
            c
            for c in self.selections
            if (c.key in needed and (force or c.state != "done")) or (c.key in shown and c.state == "damaged")
        ]
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
            "command": rerun_command(experiment, self.data_dir),
            **self._published(),
            **self._quantities(),
        }

    def _published(self) -> dict[str, Any]:
        name = self.experiment.spec.published
        return {} if name is None else {"published": read_curves(name)}

    def _quantities(self) -> dict[str, Any]:
        """Return what the report must know about the quantities of measures: it does not see the registry."""
        spec = self.experiment.spec
        if not spec.measures:
            return {}
        known = quantities_of(method.measure for method in spec.methods) or {}
        return {"quantities": {name: asdict(quantity) for name, quantity in known.items() if name in spec.metrics}}


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
    readers = {place.name: _reader(place, directory) for place in places}
    evaluations: list[Cell] = []
    selections: dict[str, Cell] = {}
    prints: dict[tuple[str, ...], dict[str, str]] = {}
    for place in places:
        for method in place.methods:
            for trial in range(place.trials):
                fingerprint, reader = facts[place.name].get("fingerprint", ""), readers[place.name]
                maker = CellMaker(experiment, place, fingerprint, reader, method, trial, prints)
                if method.measure:
                    evaluations.append(maker.measurement())
                    continue
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
        try:
            record = store.read(cell.key)
        except ValueError as error:
            return replace(cell, state="damaged", reason=str(error))
        if record is not None:
            good = settled(record, plan.experiment.spec.limits)
            state: State = "done" if good else "failed"
            return replace(cell, state=state, reason="" if good else f"{record.status}: {record.error}")
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


def rerun_reasons(cells: Iterable[Cell]) -> list[str]:
    """Return one line per (data set, method, reason) for cells that had a result before."""
    grouped: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for cell in cells:
        if cell.state == "damaged" or (cell.kind != SELECTION and cell.state in ("stale", "failed")):
            grouped[cell.dataset, cell.method, cell.reason].append(cell.trial)
    lines = []
    for (dataset, method, reason), trials in grouped.items():
        which = f"trial {trials[0]}" if len(trials) == 1 else f"{len(trials)} trials"
        lines.append(f"rerun {dataset}/{method}/{which}: {reason}")
    return lines


def rerun_command(experiment: Experiment, data_dir: Path | None = None) -> str:
    """Return one line that runs the experiment again, on the data of the same folder where one was given."""
    shipped = experiment.source == f"configs/{experiment.id}.yaml"
    words = ["mtlrun", "reproduce", experiment.id if shipped else experiment.source, "--profile", experiment.profile]
    for override in experiment.overrides:
        words += ["--set", override]
    if data_dir is not None:
        words += ["--data-dir", str(data_dir)]
    return shlex.join(words)


def _dataset_facts(experiment: Experiment, setting: Setting, data_dir: Path | None) -> dict[str, Any]:
    from mtlrun.data.cards import load_card
    from mtlrun.data.files import data_directory
    from mtlrun.data.load import dataset_fingerprint

    spec = setting.dataset
    if spec is None:
        files = {name: digest for m in setting.methods for name, digest in published_hash(m.params).items()}
        about: dict[str, Any] = {"id": PUBLISHED, "title": "Published numbers", "files": files, "axis": setting.axis}
        return {name: value for name, value in about.items() if value}
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


def _reader(setting: Setting, data_dir: Path | None) -> str:
    """Return ``module:function`` of what reads or generates the data set, "" without one."""
    from mtlrun.data.cards import load_card
    from mtlrun.data.files import data_directory
    from mtlrun.data.load import source_path

    return source_path(load_card(setting.dataset.id, data_directory(data_dir))) if setting.dataset else ""


def _patterns(only: Mapping[str, Sequence[str]] | Iterable[str] | None) -> dict[str, list[str]]:
    if only is None:
        return {}
    if isinstance(only, Mapping):
        return {key: [str(v) for v in values] for key, values in only.items()}
    found: dict[str, list[str]] = {}
    for part in (p for text in only for p in text.split(",")):
        key, equals, pattern = part.partition("=")
        if not equals:
            raise OnlyError(f"--only {part}: must be key=pattern", "for instance --only method=LADM*,dataset=enron")
        found.setdefault(key.strip(), []).append(pattern.strip())
    return found


def _select(cells: list[Cell], patterns: Mapping[str, list[str]]) -> list[Cell]:
    """Mark the cells that match one pattern of every key; a pattern without a match is an error."""
    values = {"dataset": lambda c: c.dataset, "method": lambda c: c.method, "trial": lambda c: str(c.trial)}
    for key, wanted in patterns.items():
        if key not in values:
            raise OnlyError(f"--only {key}=...: unknown key {key!r}", f"Known: {', '.join(values)}.")
        known = list(dict.fromkeys(values[key](cell) for cell in cells))
        for pattern in wanted:
            if not any(fnmatchcase(name.lower(), pattern.lower()) for name in known):
                near = suggest(pattern, known)
                hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"Known: {', '.join(known)}."
                raise NoMatchError(f"--only {key}={pattern}: matches no {key}", hint)
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
