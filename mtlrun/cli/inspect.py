"""Commands that only look: ``mtlrun show``, ``status`` and ``validate`` at an experiment, ``list`` and ``env`` at what
there is."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlrun.cli import options
from mtlrun.cli.console import complain, interactive, output, say, say_columns, say_json
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import UserError, counted, listed

if TYPE_CHECKING:
    from mtlrun.engine.plan import JobState
    from mtlrun.lab.plan import Plan
    from mtlrun.lab.spec import Experiment


def show(
    target: options.Target,
    profile: options.Profile = None,
    overrides: options.Overrides = None,
    seed: options.Seed = None,
    data_dir: options.DataDir = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Show an experiment in full: every setting, the paper's numbers and claims.

    Of the folder of a model it shows the method, the tasks, and how a prediction comes about:
    coefficients, means of tasks, or what explains the target (models with curves).
    """
    import yaml

    if is_model(Path(target)):
        if profile or overrides or seed is not None:
            raise UserError(
                f"{target} is a model; --profile, --set and --seed go with experiments",
                f"Run: mtlrun show {shlex.quote(target)}",
            )
        _show_model(Path(target), as_json)
        return

    from mtlrun.lab.catalogue import same_name
    from mtlrun.lab.load import load_experiment

    experiment = load_experiment(
        target, profile=profile, overrides=overrides or (), seed=seed, data_dir=data_dir
    )
    for text in experiment.warnings:
        say(f"warning: {text}", error=True)
    if as_json:
        facts = {
            name: getattr(experiment, name)
            for name in ("id", "profile", "profiles", "config")
        }
        say_json(
            {
                **facts,
                "title": experiment.spec.title,
                "folder": experiment.folder(output_dir),
            }
        )
        return
    if others := same_name(target, experiment.id):
        say(
            f"{target} means {experiment.id} here; there are also {listed(others)}",
            error=True,
        )
    for line in _head(experiment):
        say(line)
    say(f"run folder: {experiment.folder(output_dir)}")
    say("")
    config = json.loads(
        json.dumps(experiment.config)
    )  # a list that two methods share is written twice
    text = yaml.safe_dump(
        config, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None
    )
    typer.echo(text, nl=False)
    for title, lines in (
        ("Claims", _claims(experiment.config)),
        ("Numbers in the paper", _numbers(experiment.config)),
        ("References of the methods", _sources(experiment)),
    ):
        if lines:
            say(f"\n{title}")
            for line in lines:
                say(f"  {line}")


def is_model(path: Path) -> bool:
    """Whether a path is the folder of a model, a file in it, or of a comparison."""
    from mtlrun.model.files import FACTS, model_folder

    return (model_folder(path) / FACTS).is_file()


def _show_model(path: Path, as_json: bool) -> None:
    """Print what a model is, and what explains its target."""
    from mtlrun.model.files import load_model
    from mtlrun.model.parts import model_lines

    model = load_model(path)
    if as_json:
        about = {name: model.about[name] for name in ("estimator", "tasks", "input")}
        say_json({**about, "lines": model_lines(model)})
        return
    for line in model_lines(model):
        say(line)


def _head(experiment: Experiment) -> list[str]:
    paper = experiment.config.get("paper") or {}
    others = ", ".join(
        name for name in experiment.profiles if name != experiment.profile
    )
    lines = [f"{experiment.id}: {experiment.spec.title}"]
    if paper:
        lines.append(
            ", ".join(
                str(paper[k])
                for k in ("cite", "artefact", "doi", "url")
                if paper.get(k)
            )
        )
    return [*lines, f"profile: {experiment.profile} (others: {others})"]


def _claims(config: dict[str, Any]) -> list[str]:
    lines = []
    for claim in config.get("claims") or ():
        how = (
            claim.get("not_testable")
            or "; ".join(map(_check, claim.get("checks") or ()))
            or "no check"
        )
        lines.append(f"{claim['id']}: {claim['text']} [{how}]")
    return lines


def _check(check: dict[str, Any]) -> str:
    from mtlrun.lab.report.sections import facts

    return facts(
        {"": check["kind"], **{k: v for k, v in check.items() if k != "kind"}}
    ).strip()


def _numbers(config: dict[str, Any]) -> list[str]:
    lines = []
    for entry in config.get("reference") or ():
        spread = f" ± {entry['std']:g}" if entry.get("std") is not None else ""
        source = f" ({entry['source']})" if entry.get("source") else ""
        name = f"{entry['dataset']} / {entry['method']}: {entry['quantity']}"
        lines.append(f"{name} {entry['value']:g}{spread}{source}")
    return lines


def _sources(experiment: Experiment) -> list[str]:
    from mtlrun.engine.methods import declared
    from mtlrun.estimators.registry import METHODS

    names = {
        m.estimator: None for m in experiment.spec.methods if m.estimator in METHODS
    }
    known = {
        m.measure: declared(m.measure) for m in experiment.spec.methods if m.measure
    }
    measures = [f"{name}: {found[0]}" for name, found in known.items() if found]
    return [f"{name}: {METHODS[name].source}" for name in names] + measures


# ---------------------------------------------------------------------- status

STATES = ("done", "failed", "damaged", "outdated", "missing")


def status(
    target: options.Target,
    profile: options.Profile = None,
    overrides: options.Overrides = None,
    interpretation: options.Interpretation = None,
    seed: options.Seed = None,
    only: options.Only = None,
    data_dir: options.DataDir = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Show how many cells of an experiment are done, failed, out of date or missing, and why."""
    from mtlrun.engine.plan import other_versions, rerun_reasons, survey
    from mtlrun.lab.load import load_experiment
    from mtlrun.lab.plan import plan, unused_jobs

    experiment = load_experiment(
        target, profile=profile, overrides=overrides or (), seed=seed, data_dir=data_dir
    )
    for text in experiment.warnings:
        say(f"warning: {text}", error=True)
    made = plan(
        experiment,
        data_dir=data_dir,
        only=only,
        interpretation=interpretation,
        output=output_dir,
    )
    states = survey(made)
    if as_json:
        cells = [
            {
                name: getattr(row, name)
                for name in ("reading", "dataset", "method", "trial")
            }
            | {"key": row.job.key, "state": state.name, "reason": state.reason}
            for row, state in zip(made.rows, states, strict=True)
            if row.wanted
        ]
        facts = {
            "id": experiment.id,
            "profile": experiment.profile,
            "folder": str(made.folder),
        }
        say_json(
            {
                **facts,
                "counts": Counter(job["state"] for job in cells),
                "cells": cells,
            }
        )
        return
    say(f"{experiment.id}, profile {experiment.profile}: {made.folder}")
    _table(made, states)
    for line in rerun_reasons(made, states):
        say(line)
    for line in [
        *filter(None, [other_versions(made, states)]),
        *_made(made, states),
        *_own_code(made),
    ]:
        say(line)
    unused = unused_jobs(made.output)
    if unused:
        say(
            f"no run, comparison or model needs {counted(len(unused), 'cell')} of {made.output}: they may be deleted"
        )
    say(totals(made, states))


def _made(plan: Plan, states: Sequence[JobState]) -> list[str]:
    """Say which commits made the finished cells, and whether the present code still gives the same."""
    from mtlrun.engine.record import commits_since
    from mtlrun.engine.stored import VERIFIED
    from mtlrun.lab.stored import made_and_verified, read_sound

    def age(commit: str) -> str:
        number = commits_since(commit)
        return (
            ""
            if number is None
            else f", {counted(number, 'commit')} ago"
            if number
            else ", the present commit"
        )

    commits = [
        state.commit for row, state in zip(plan.rows, states, strict=True) if row.wanted
    ]
    return made_and_verified(commits, read_sound(plan.folder / VERIFIED), age)


def _own_code(plan: Plan) -> list[str]:
    """Say how far the code of classes and measures of the user's own counts."""
    from mtlrun.engine.methods import OWN_CODE

    names = {
        name
        for row in plan.wanted
        for name in row.job.versions
        if name.endswith(OWN_CODE)
    }
    if not names:
        return []
    return [
        f"own code, followed as far as it is imported by name: {', '.join(sorted(names))}"
    ]


def totals(plan: Plan, states: Sequence[JobState]) -> str:
    """Return one line on the cells: ``12 cells: 10 done, 2 missing``."""
    counts = Counter[str](
        state.name for row, state in zip(plan.rows, states, strict=True) if row.wanted
    )
    shown = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return f"{counted(len(plan.wanted), 'cell')}: {shown}"


def _table(plan: Plan, states: Sequence[JobState]) -> None:
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for row, state in zip(plan.rows, states, strict=True):
        if row.wanted:
            counts.setdefault((row.reading, row.dataset, row.method), Counter())[
                state.name
            ] += 1
    shown = [
        state for state in STATES if any(count[state] for count in counts.values())
    ]
    first = 0 if any(reading for reading, *_ in counts) else 1
    rows = [
        [*names[first:], *(count[state] or "" for state in shown)]
        for names, count in counts.items()
    ]
    say_columns([["reading", "data set", "method"][first:] + shown, *rows])


# ---------------------------------------------------------------------- validate


def validate(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...",
            help="Files or names of experiments. Default: all that come with mtlrun.",
            autocompletion=options.targets,
        ),
    ] = None,
    data_dir: options.DataDir = None,
    debug: options.Debug = False,
) -> None:
    """Check experiment and training files, with all profiles, without running them.

    All problems are listed at once, each with file, line and column.
    """
    from mtlrun.lab.catalogue import catalogue
    from mtlrun.lab.load import replaced_values, validate_file

    targets = paths or [str(entry.path) for entry in catalogue()]
    bad = 0
    for target in targets:
        try:
            document = validate_file(target, data_dir=data_dir)
        except UserError as error:
            bad += 1
            complain(error.message, error.remedy)
        else:
            say(f"{document.name}: ok")
            for text in replaced_values(target):
                say(f"warning: {text}", error=True)
    if bad and len(targets) > 1:
        say(f"problems in {bad} of {len(targets)} files", error=True)
    if bad:
        raise typer.Exit(2)


# ---------------------------------------------------------------------- list


class Kind(enum.StrEnum):
    """What can be listed."""

    EXPERIMENTS = "experiments"
    METHODS = "methods"
    DATASETS = "datasets"
    ANALYSES = "measures"


class Format(enum.StrEnum):
    """How methods can be written."""

    TEXT = "text"
    JSON = "json"
    BIBTEX = "bibtex"


def list_(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="What to list: experiments, methods, datasets or measures.",
        ),
    ] = Kind.EXPERIMENTS,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Methods to describe in full: objective, losses, cost, reference.",
            autocompletion=options.names,
        ),
    ] = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            metavar="text|json|bibtex",
            help="For methods: all facts as json, or their references as bibtex.",
        ),
    ] = (Format.TEXT),
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """List experiments, methods, data sets or measures, or describe methods in full."""
    if kind is not Kind.METHODS and (names or form is not Format.TEXT):
        remedy = (
            "Use mtlrun show EXPERIMENT or mtlrun data info DATASET for the others."
        )
        raise UserError(
            "only methods take names and --format: mtlrun list methods [NAME]... --format json",
            remedy,
        )
    if as_json and kind is Kind.METHODS:
        form = Format.JSON
    if names or form is not Format.TEXT:
        _details(names or [], form)
        return
    rows = {
        Kind.EXPERIMENTS: _experiments,
        Kind.METHODS: _methods,
        Kind.DATASETS: _datasets,
        Kind.ANALYSES: _measures,
    }[kind]()
    if as_json:
        say_json([{"name": name, "title": text} for name, text in rows if name])
        return
    _print(rows)
    hints = {
        Kind.EXPERIMENTS: "Details: mtlrun show NAME. Run: mtlrun reproduce NAME (mtlrun train NAME for train/...). "
        "See also: mtlrun list methods, datasets or measures",
        Kind.METHODS: "Details of a method: mtlrun list methods NAME. All facts: --format json, --format bibtex",
    }
    if kind in hints:
        typer.echo(hints[kind], err=True)


def _details(names: list[str], form: Format) -> None:
    """Describe some methods in full, or all."""
    from mtlrun.estimators.metadata import references
    from mtlrun.estimators.registry import METHODS, get_method

    methods = [get_method(name) for name in names] or list(METHODS.values())
    if form is Format.JSON:
        say_json(
            [{**dataclasses.asdict(info), "bibtex": info.bibtex} for info in methods]
        )
    elif form is Format.BIBTEX:
        keys = sorted({key for info in methods for key in info.cite})
        typer.echo("\n".join(references()[key] for key in keys))
    else:
        blocks = []
        for info in methods:
            lines = [
                f"{key.lower():13}  {text}"
                for key, text in info.described(METHODS.get(f"{info.name}Classifier"))
            ]
            blocks.append(
                "\n".join([f"{info.name}: {info.summary}", *lines, info.bibtex])
            )
        typer.echo("\n\n".join(blocks))


def _experiments() -> list[tuple[str, str]]:
    from mtlrun.lab.catalogue import catalogue

    return [
        (e.id, f"{e.title} [mtlrun train]" if e.kind == "train" else e.title)
        for e in catalogue()
    ]


def _methods() -> list[tuple[str, str]]:
    from mtlrun.estimators.registry import METHODS

    return [(info.name, info.summary) for info in METHODS.values()]


def _measures() -> list[tuple[str, str]]:
    from mtlrun.engine.analysis import ANALYSES
    from mtlrun.engine.methods import declared

    known = {name: declared(path) for name, path in ANALYSES.items()}
    rows = [
        [(name, found[0]), ("", ", ".join(found[1].quantities))]
        for name, found in known.items()
        if found
    ]
    return [line for pair in rows for line in pair]


def _datasets() -> list[tuple[str, str]]:
    from mtlrun.data.cards import card_paths, read_card
    from mtlrun.data.files import data_directory

    cards = [read_card(path) for path in card_paths(data_directory()).values()]
    return [
        (
            card.id,
            f"{card.title}{' (simulated)' * (card.simulated and 'imulated' not in card.title)}",
        )
        for card in cards
    ]


def _print(rows: list[tuple[str, str]]) -> None:
    """Print names and descriptions in two columns; on a terminal long descriptions are wrapped."""
    if not interactive(sys.stdout):
        say_columns(rows)
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for name, text in rows:
        table.add_row(name, text)
    output().print(table)


# ---------------------------------------------------------------------- env

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def env(
    ctx: typer.Context,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Show versions, BLAS, processor, threads, folders and defaults with their origin, for example for a bug report."""
    from mtlrun.data.files import data_directory
    from mtlrun.engine.record import host_facts, source_facts
    from mtlrun.utils.io import configs_dir, datasets_dir
    from mtlrun.utils.plugins import DATASETS_GROUP, METHODS_GROUP, plugins

    for name in ("numpy", "scipy.linalg"):
        importlib.import_module(
            name
        )  # a BLAS can be asked for its kind only once it is loaded
    source, host = source_facts(), host_facts()
    found = [
        plugin for group in (METHODS_GROUP, DATASETS_GROUP) for plugin in plugins(group)
    ]
    commit = (
        f"{source['commit'][:12]}{' (changed)' if source['dirty'] else ''}"
        if source["commit"]
        else None
    )
    rows = {
        "mtlrun": source["mtlrun"],
        "commit": commit,
        "python": host["python"],
        **host["packages"],
        "blas": ", ".join(host["blas"]) or None,
        "os": host["os"],
        "cpu": host["cpu"],
        "cores": host["cores"],
        "memory (GB)": host["ram_gb"],
        **{name: os.environ.get(name) for name in THREAD_VARIABLES},
        "experiments": configs_dir(),
        "data cards": datasets_dir(),
        "plug-ins": ", ".join(f"{plugin.name} ({plugin.source})" for plugin in found)
        or None,
    }
    built_in = {
        "jobs": 1,
        "output": options.OUTPUT_DEFAULT,
        "profile": "quick",
        "data-dir": data_directory(data_dir),
    }
    chosen = {
        key: {"value": value, "origin": "built in"} for key, value in built_in.items()
    }
    for key, variable in options.VARIABLES.items():
        if os.environ.get(variable):
            chosen[key] = {"value": os.environ[variable], "origin": variable}
    asked = ctx.get_parameter_source("data_dir")
    if asked is not None and asked.name == "COMMANDLINE":
        chosen["data-dir"] = {"value": data_directory(data_dir), "origin": "--data-dir"}
    if as_json:
        say_json({**rows, "defaults": chosen})
        return
    rows["data directory"] = chosen["data-dir"]["value"]
    rows |= {
        f"--{key}": f"{default['value']} ({default['origin']})"
        for key, default in chosen.items()
    }
    say_columns(
        [(name, "-" if value is None else str(value)) for name, value in rows.items()]
    )
