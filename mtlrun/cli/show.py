"""``mtlrun show``: an experiment with all its settings, its claims and the numbers of its paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say, say_json
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import listed

if TYPE_CHECKING:
    from mtlrun.runs.spec import Experiment


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
    """Show an experiment in full: every setting, the paper's numbers and claims."""
    import json

    import yaml

    from mtlrun.runs.catalogue import same_name
    from mtlrun.runs.load import load_experiment

    experiment = load_experiment(target, profile=profile, overrides=overrides or (), seed=seed, data_dir=data_dir)
    if as_json:
        facts = {name: getattr(experiment, name) for name in ("id", "profile", "profiles", "config")}
        say_json({**facts, "title": experiment.spec.title, "folder": experiment.folder(output_dir)})
        return
    if others := same_name(target, experiment.id):
        say(f"{target} means {experiment.id} here; there are also {listed(others)}", error=True)
    for line in _head(experiment):
        say(line)
    say(f"run folder: {experiment.folder(output_dir)}")
    say("")
    config = json.loads(json.dumps(experiment.config))  # a list that two methods share is written twice
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None)
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


def _head(experiment: Experiment) -> list[str]:
    paper = experiment.config.get("paper") or {}
    others = ", ".join(name for name in experiment.profiles if name != experiment.profile)
    lines = [f"{experiment.id}: {experiment.spec.title}"]
    lines += [", ".join(str(paper[k]) for k in ("cite", "artefact", "doi", "url") if paper.get(k))] * bool(paper)
    return [*lines, f"profile: {experiment.profile} (others: {others})"]


def _claims(config: dict[str, Any]) -> list[str]:
    lines = []
    for claim in config.get("claims") or ():
        how = claim.get("not_testable") or "; ".join(map(_check, claim.get("checks") or ())) or "no check"
        lines.append(f"{claim['id']}: {claim['text']} [{how}]")
    return lines


def _check(check: dict[str, Any]) -> str:
    from mtlrun.report.sections import facts

    return facts({"": check["kind"], **{k: v for k, v in check.items() if k != "kind"}}).strip()


def _numbers(config: dict[str, Any]) -> list[str]:
    lines = []
    for entry in config.get("reference") or ():
        spread = f" ± {entry['std']:g}" if entry.get("std") is not None else ""
        source = f" ({entry['source']})" if entry.get("source") else ""
        name = f"{entry['dataset']} / {entry['method']}: {entry['quantity']}"
        lines.append(f"{name} {entry['value']:g}{spread}{source}")
    return lines


def _sources(experiment: Experiment) -> list[str]:
    from mtlrun.estimators.registry import METHODS
    from mtlrun.runs.methods import declared

    names = {m.estimator: None for m in experiment.spec.methods if m.estimator in METHODS}
    known = {m.measure: declared(m.measure) for m in experiment.spec.methods if m.measure}
    measures = [f"{name}: {found[0]}" for name, found in known.items() if found]
    return [f"{name}: {METHODS[name].source}" for name in names] + measures
