"""Commands that compute and write nothing.

``mtlrun show``, ``status`` and ``validate`` inspect an experiment, ``list`` prints what
is available, and ``env`` describes the system.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import json
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import complain, say, say_columns, say_json, say_prose
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import UnknownNameError, UserError, counted, listed

if TYPE_CHECKING:
    from mtlrun.engine.plan import JobState, PlannedJob
    from mtlrun.lab.experiment.spec import Experiment
    from mtlrun.lab.plan import Plan


def show(
    target: options.Target,
    profile: options.Profile = None,
    overrides: options.Overrides = None,
    seed: options.Seed = None,
    data_dir: options.DataDir = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    as_yaml: Annotated[
        bool,
        options.option(
            options.OUT, None, "Print every setting and printed number.", "--yaml"
        ),
    ] = False,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Show an experiment: its data, methods and claims.

    For the folder of a model, show the method, the tasks, and how a prediction is made:
    coefficients, means of tasks, or what explains the target (models with curves).
    """
    from mtlrun.model.files import FACTS, model_folder

    if (model_folder(Path(target)) / FACTS).is_file():
        if profile or overrides or seed is not None:
            raise UserError(
                f"{target} is a model; --profile, --set and --seed go with experiments",
                f"Run: mtlrun show {shlex.quote(target)}",
            )
        from mtlrun.model.explanation import model_lines
        from mtlrun.model.files import load_model

        model = load_model(Path(target))
        lines = model_lines(model)
        if as_json:
            about = {
                name: model.about[name] for name in ("estimator", "tasks", "input")
            }
            say_json({**about, "lines": lines})
            return
        for line in lines:
            say_prose(line)
        return

    from mtlrun.lab.experiment.catalogue import same_name
    from mtlrun.lab.experiment.load import load_experiment

    experiment = load_experiment(
        target, profile=profile, overrides=overrides or (), seed=seed, data_dir=data_dir
    )
    for text in experiment.warnings:
        say(f"warning: {text}", error=True)
    if as_json:
        say_json(
            {
                "id": experiment.id,
                "profile": experiment.profile,
                "profiles": experiment.profiles,
                "config": experiment.config,
                "title": experiment.spec.title,
                "folder": experiment.folder(output_dir),
            }
        )
        return
    others = same_name(target, experiment.id)
    if others:
        say(
            f"{target} means {experiment.id} here; there are also {listed(others)}",
            error=True,
        )
    say_prose(f"{experiment.id}: {experiment.spec.title}")
    paper = experiment.spec.paper
    if paper is not None:
        source = (paper.cite, paper.artefact, paper.doi, paper.url)
        say_prose(", ".join(filter(None, source)))
    names = [name for name in experiment.profiles if name != experiment.profile]
    say_prose(f"profile: {experiment.profile} (others: {', '.join(names)})")
    say_prose(f"run folder: {experiment.folder(output_dir)}")
    if as_yaml:
        import yaml

        # YAML would write a list that two methods share as an anchor and a reference.
        # The detour through JSON copies it.
        text = yaml.safe_dump(
            json.loads(json.dumps(experiment.config)),
            sort_keys=False,
            allow_unicode=True,
            width=100,
            default_flow_style=None,
        )
        say("")
        typer.echo(text, nl=False)
    else:
        _show_experiment(experiment)


def _show_experiment(experiment: Experiment) -> None:
    """Print what an experiment computes, its claims, and where its methods are from."""
    from mtlrun.catalog.methods import declared
    from mtlrun.catalog.registry import METHODS
    from mtlrun.lab.experiment.claims import Reference

    spec = experiment.spec
    methods = []
    sources: dict[str, str] = {}
    analyses: dict[str, str] = {}
    for entry in spec.methods:
        text = entry.estimator or entry.measure
        if entry.grid:
            text += f"; searched: {', '.join(entry.grid)}"
        methods.append((entry.label, text))
        if entry.estimator in METHODS:
            sources[entry.estimator] = METHODS[entry.estimator].source
        declaration = declared(entry.measure) if entry.measure else None
        if declaration:
            analyses[entry.measure] = declaration[0]
    claims = []
    for claim in spec.claims:
        text = claim.text
        if claim.without_test is not None:
            verdict, reason = claim.without_test
            text += f" ({verdict.label}: {reason})"
        claims.append((claim.id, text))
    numbers: Counter[str] = Counter()
    for reference in spec.reference:
        # Published tables are replaced by their numbers when an experiment is loaded.
        assert isinstance(reference, Reference)
        numbers[reference.quantity] += 1
    facts = [
        ("data sets", ", ".join(data.id for data in spec.datasets)),
        ("scores", ", ".join(spec.metrics)),
        ("printed numbers", ", ".join(f"{numbers[name]} {name}" for name in numbers)),
    ]
    say("")
    say_columns([(f"{name}:", text) for name, text in facts if text])
    sections = {
        "Methods": methods,
        "Claims": claims,
        "References of the methods": [*sources.items(), *analyses.items()],
    }
    for title, rows in sections.items():
        if rows:
            say(f"\n{title}")
            say_columns([(f"  {name}", text) for name, text in rows])
    say_prose(f"\nEvery setting and printed number: mtlrun show {experiment.id} --yaml")


# ---------------------------------------------------------------------- status

#: States of results, in the order of the columns.
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
    """Show how many results of an experiment are done, failed, outdated or missing."""
    from mtlrun.catalog.methods import CODE_SUFFIXES
    from mtlrun.engine.plan import job_states, other_versions, rerun_reasons
    from mtlrun.lab.experiment.load import load_experiment
    from mtlrun.lab.plan import plan, unused_jobs
    from mtlrun.lab.stored import made_and_verified, read_verified

    experiment = load_experiment(
        target, profile=profile, overrides=overrides or (), seed=seed, data_dir=data_dir
    )
    for text in experiment.warnings:
        say(f"warning: {text}", error=True)
    run_plan = plan(
        experiment,
        data_dir=data_dir,
        only=only,
        interpretation=interpretation,
        output=output_dir,
        needs_files=False,
    )
    states = job_states(run_plan)
    wanted = _wanted(run_plan, states)
    if as_json:
        cells = []
        for row, state in wanted:
            cells.append(
                {
                    "reading": row.reading,
                    "dataset": row.dataset,
                    "method": row.method,
                    "trial": row.trial,
                    "key": row.job.key,
                    "state": state.name,
                    "reason": state.reason,
                }
            )
        say_json(
            {
                "id": experiment.id,
                "profile": experiment.profile,
                "folder": str(run_plan.folder),
                "counts": Counter(state.name for _, state in wanted),
                "cells": cells,
            }
        )
        return
    say(f"{experiment.id}, profile {experiment.profile}: {run_plan.folder}")
    _print_counts(run_plan, states)
    lines = list(rerun_reasons(run_plan, states))
    versions = other_versions(run_plan, states)
    if versions:
        lines.append(versions)
    commits = [state.commit for _, state in wanted]
    lines += made_and_verified(commits, read_verified(run_plan.folder), _commit_age)
    # Code of the user determines, too, whether a result is up to date.
    names: set[str] = set()
    for row in run_plan.wanted:
        names |= {name for name in row.job.versions if name.endswith(CODE_SUFFIXES)}
    if names:
        lines.append(
            "own code, followed as far as it is imported by name: "
            f"{', '.join(sorted(names))}"
        )
    for line in lines:
        say(line)
    unused = unused_jobs(run_plan.output)
    if unused:
        n_results = counted(len(unused), "result")
        say(
            f"no run, comparison or model needs {n_results} of {run_plan.output}: "
            "they may be deleted"
        )
    say(totals(run_plan, states))


def _wanted(
    run_plan: Plan, states: Sequence[JobState]
) -> list[tuple[PlannedJob, JobState]]:
    """Return the selected rows of a plan with the states of their jobs."""
    pairs = zip(run_plan.rows, states, strict=True)
    return [(row, state) for row, state in pairs if row.wanted]


def _commit_age(commit: str) -> str:
    from mtlrun.engine.environment import commits_since

    n_commits = commits_since(commit)
    if n_commits is None:
        return ""
    if n_commits == 0:
        return ", the present commit"
    return f", {counted(n_commits, 'commit')} ago"


def totals(run_plan: Plan, states: Sequence[JobState]) -> str:
    """Return one line on the results, such as ``12 results: 10 done, 2 missing``."""
    counts = Counter[str](state.name for _, state in _wanted(run_plan, states))
    parts = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    return f"{counted(len(run_plan.wanted), 'result')}: {', '.join(parts)}"


def _print_counts(run_plan: Plan, states: Sequence[JobState]) -> None:
    """Print the number of results in each state, for each data set and method."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for row, state in _wanted(run_plan, states):
        group = (row.reading, row.dataset, row.method)
        counts.setdefault(group, Counter())[state.name] += 1
    totals_by_state = sum(counts.values(), Counter[str]())
    columns = [state for state in STATES if totals_by_state[state]]
    header = ["reading", "data set", "method"]
    first = 0
    if not any(reading for reading, _, _ in counts):
        # Without interpretations the first column would be empty.
        first = 1
    rows = []
    for group, count in counts.items():
        numbers = [count[state] or "" for state in columns]
        rows.append([*group[first:], *numbers])
    say_columns([header[first:] + columns, *rows])


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
    from mtlrun.lab.experiment.catalogue import catalogue
    from mtlrun.lab.experiment.load import file_warnings, validate_file

    targets = paths or [str(entry.path) for entry in catalogue()]
    n_invalid = 0
    for target in targets:
        try:
            document = validate_file(target, data_dir=data_dir)
        except UserError as error:
            n_invalid += 1
            complain(error.message, error.remedy)
        else:
            say(f"{document.name}: ok")
            for text in file_warnings(target):
                say(f"warning: {text}", error=True)
    if n_invalid and len(targets) > 1:
        say(f"problems in {n_invalid} of {len(targets)} files", error=True)
    if n_invalid:
        raise typer.Exit(2)


# ---------------------------------------------------------------------- list


class Kind(enum.StrEnum):
    """Kinds of things that can be listed."""

    EXPERIMENTS = "experiments"
    METHODS = "methods"
    DATASETS = "datasets"
    ANALYSES = "measures"


class Format(enum.StrEnum):
    """Formats of descriptions of methods."""

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
            help="Methods to describe in full (objective, losses, cost, reference), or "
            "measures with their quantities.",
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
    ] = Format.TEXT,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """List experiments, methods, data sets or measures, or describe methods in full."""
    takes_names = kind in (Kind.METHODS, Kind.ANALYSES)
    if (names and not takes_names) or (
        form is not Format.TEXT and kind is not Kind.METHODS
    ):
        raise UserError(
            "only methods and measures take names, and only methods --format: "
            "mtlrun list methods [NAME]... --format json",
            "Use mtlrun show EXPERIMENT or mtlrun data info DATASET for the others.",
        )
    if names and kind is Kind.ANALYSES:
        from mtlrun.catalog.analysis import ANALYSES
        from mtlrun.catalog.methods import declared

        for index, name in enumerate(names):
            declaration = declared(name)
            if declaration is None:
                raise UnknownNameError("measure", name, ANALYSES)
            summary, analysis = declaration
            if index:
                say("")
            say_prose(f"{name}: {summary}")
            say_columns(list(analysis.quantities.items()))
        return
    if as_json and kind is Kind.METHODS:
        form = Format.JSON
    if names or form is not Format.TEXT:
        _describe_methods(names or [], form)
        return
    functions = {
        Kind.EXPERIMENTS: _experiments,
        Kind.METHODS: _methods,
        Kind.DATASETS: _datasets,
        Kind.ANALYSES: _analyses,
    }
    rows = functions[kind]()
    if as_json:
        say_json([{"name": name, "title": text} for name, text in rows if name])
        return
    say_columns(rows, style="bold")
    if kind in HINTS:
        typer.echo(HINTS[kind], err=True)


#: Commands to try next, printed below a list.
HINTS = {
    Kind.EXPERIMENTS: (
        "Details: mtlrun show NAME. "
        "Run: mtlrun reproduce NAME (mtlrun train NAME for train/...). "
        "See also: mtlrun list methods, datasets or measures"
    ),
    Kind.METHODS: (
        "Details of a method: mtlrun list methods NAME. "
        "All facts: --format json, --format bibtex"
    ),
    Kind.ANALYSES: "Quantities of a measure: mtlrun list measures NAME",
}


def _describe_methods(names: list[str], form: Format) -> None:
    """Print full descriptions of some methods, or of all without names."""
    from mtlrun.catalog.registry import BASELINES, METHODS, get_method
    from mtlrun.estimators.metadata import references

    methods = [*METHODS.values(), *BASELINES.values()]
    if names:
        methods = [get_method(name) for name in names]
    if form is Format.JSON:
        descriptions = []
        for info in methods:
            descriptions.append({**dataclasses.asdict(info), "bibtex": info.bibtex})
        say_json(descriptions)
    elif form is Format.BIBTEX:
        keys = sorted({key for info in methods for key in info.cite})
        typer.echo("\n".join(references()[key] for key in keys))
    else:
        for index, info in enumerate(methods):
            if index:
                say("")
            say_prose(f"{info.name}: {info.summary}")
            facts = info.described(METHODS.get(f"{info.name}Classifier"))
            say_columns([(key.lower(), text) for key, text in facts])


def _experiments() -> list[tuple[str, str]]:
    from mtlrun.lab.experiment.catalogue import catalogue

    rows = []
    for entry in catalogue():
        suffix = " [mtlrun train]" if entry.kind == "train" else ""
        rows.append((entry.id, f"{entry.title}{suffix}"))
    return rows


def _methods() -> list[tuple[str, str]]:
    from mtlrun.catalog.registry import BASELINES, METHODS

    methods = [*METHODS.values(), *BASELINES.values()]
    return [(info.name, info.summary) for info in methods]


def _analyses() -> list[tuple[str, str]]:
    """Return the name and summary of each analysis."""
    from mtlrun.catalog.analysis import ANALYSES
    from mtlrun.catalog.methods import declared

    rows = []
    for name, path in ANALYSES.items():
        declaration = declared(path)
        if declaration:
            rows.append((name, declaration[0]))
    return rows


def _datasets() -> list[tuple[str, str]]:
    from mtlrun.data.sets.cards import card_paths, read_card
    from mtlrun.data.sets.files import data_directory

    rows = []
    for path in card_paths(data_directory()).values():
        card = read_card(path)
        title = card.title
        if card.simulated and "imulated" not in title:
            title += " (simulated)"
        rows.append((card.id, title))
    return rows


# ---------------------------------------------------------------------- env

#: Environment variables that limit the threads of numerical libraries.
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
    """Show versions, hardware, folders and defaults, for example for a bug report.

    Each default is shown with its origin.
    """
    from mtlrun.data.sets.files import data_directory
    from mtlrun.engine.environment import host_info, source_info
    from mtlrun.utils.io import configs_dir, datasets_dir
    from mtlrun.utils.plugins import DATASETS_GROUP, METHODS_GROUP, plugins

    # The kind of BLAS can be determined only once it is loaded.
    for name in ("numpy", "scipy.linalg"):
        importlib.import_module(name)
    host = host_info()
    found_plugins = [*plugins(METHODS_GROUP), *plugins(DATASETS_GROUP)]
    plugin_texts = [f"{plugin.name} ({plugin.source})" for plugin in found_plugins]
    source = source_info()
    commit = None
    if source.commit:
        commit = source.commit[:12]
        if source.dirty:
            commit += " (changed)"
    rows = {
        "mtlrun": source.mtlrun,
        "commit": commit,
        "python": host.python,
        **host.packages,
        "blas": ", ".join(host.blas) or None,
        "os": host.os,
        "cpu": host.cpu,
        "cores": host.cores,
        "memory (GB)": host.ram_gb,
        **{name: os.environ.get(name) for name in THREAD_VARIABLES},
        "experiments": configs_dir(),
        "data cards": datasets_dir(),
        "plug-ins": ", ".join(plugin_texts) or None,
    }
    directory = data_directory(data_dir)
    data_dir_source = ctx.get_parameter_source("data_dir")
    is_named = data_dir_source is not None and data_dir_source.name == "COMMANDLINE"
    built_in = {
        "jobs": 1,
        "output": options.OUTPUT_DEFAULT,
        "profile": "quick",
        "data-dir": directory,
    }
    defaults = {}
    texts_of_defaults: dict[str, object] = {"data directory": directory}
    for key, value in built_in.items():
        variable = options.VARIABLES[key]
        origin = "built in"
        if key == "data-dir" and is_named:
            origin = "--data-dir"
        elif os.environ.get(variable):
            value = os.environ[variable]
            origin = variable
        defaults[key] = {"value": value, "origin": origin}
        texts_of_defaults[f"--{key}"] = f"{value} ({origin})"
    if as_json:
        say_json({**rows, "defaults": defaults})
        return
    texts = []
    for name, value in {**rows, **texts_of_defaults}.items():
        text = "-" if value is None else str(value)
        texts.append((name, text))
    say_columns(texts)
