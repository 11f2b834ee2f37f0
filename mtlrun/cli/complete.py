"""Completion of values in the shell. Called at every press of TAB: nothing here imports NumPy, and nothing may fail."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import typer

Found = Iterable[tuple[str, str]]
#: Profiles of an experiment that cannot be read, or is not named yet.
PROFILES = {"smoke": "seconds", "demo": "no download", "quick": "minutes", "full": "the paper's protocol"}


def completer(find: Callable[[typer.Context], Found]) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Return a callback of Typer: the values, with help, that begin like the word; after a comma, the last part."""

    @functools.wraps(find)
    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        before, comma, word = incomplete.rpartition(",")
        try:
            found = dict(find(ctx))
        except Exception:  # a damaged file or an option half written: there is nothing to offer
            return []
        return [(f"{before}{comma}{value}", about) for value, about in found.items() if value.startswith(word)]

    # Typer looks at the annotations of the callback; those of the wrapped function are others.
    del complete.__wrapped__
    complete.__annotations__ = {"ctx": typer.Context, "incomplete": str, "return": list}
    return complete


def _files(ending: str) -> Found:
    return [(str(path), "file") for path in sorted(Path().glob(f"*{ending}"))]


def _experiments(*kinds: str) -> Found:
    """Return experiments by id and, where that is enough, by the last part of it."""
    from mtlrun.runs.catalogue import catalogue

    entries = [entry for entry in catalogue() if (entry.kind == "train") == ("train" in kinds)]
    bare = [entry.artefact for entry in entries]
    for entry in entries:
        if entry.kind != "train" and (bare.count(entry.artefact) == 1 or entry.artefact in entry.default_for):
            yield entry.artefact, entry.title
        yield entry.id, entry.title
    yield from _files(".yaml")


def _methods() -> Found:
    from mtlrun.estimators.registry import METHODS

    return [(name, info.summary) for name, info in METHODS.items()]


#: What is offered for arguments and options.
targets = completer(lambda ctx: _experiments())
targets_and_all = completer(lambda ctx: [("all", "every artefact of every paper"), *_experiments()])
trainings = completer(lambda ctx: _experiments("train"))
methods = completer(lambda ctx: _methods())
names = completer(lambda ctx: _methods() if ctx.params.get("kind") == "methods" else [])  # of `list methods`


@completer
def datasets(ctx: typer.Context) -> Found:
    """Data sets: shipped, of other packages, and of the user's data directory."""
    from mtlrun.data.cards import card_paths
    from mtlrun.data.files import data_directory

    return [(id, "") for id in card_paths(data_directory(ctx.params.get("data_dir")))]


@completer
def metrics(ctx: typer.Context) -> Found:
    """Metrics."""
    from mtlrun.interfaces import METRIC_FACTS

    return [(name, "greater" if m.greater_is_better else "smaller") for name, m in METRIC_FACTS.items()]


@completer
def profiles(ctx: typer.Context) -> Found:
    """Profiles of the experiment."""
    own = [name for layer in _layers(ctx) for name in layer.get("profiles") or ()]
    return [(name, PROFILES.get(name, "")) for name in ([*own, "full"] if own else PROFILES)]


@completer
def readings(ctx: typer.Context) -> Found:
    """Readings of the experiment."""
    own = {name: about for layer in _layers(ctx) for name, about in (layer.get("readings") or {}).items()}
    return [*((name, str((about or {}).get("why", ""))) for name, about in own.items()), ("all", "all of them")]


def _layers(ctx: typer.Context) -> list[dict[str, Any]]:
    """Return the content of the file of the experiment and of those that it extends."""
    import yaml

    from mtlrun.runs.catalogue import find

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    found: list[dict[str, Any]] = []
    # Where the word to complete is the value of an option, the parser has stopped and left the arguments as they are.
    name, folder = ctx.params.get("target") or next(iter(ctx.args), None), Path()
    while name and name != "all" and len(found) < len(PROFILES):
        beside = folder / name
        path = beside if beside.is_file() else find(name)
        found.append(yaml.load(path.read_text(encoding="utf-8"), Loader=loader))
        name, folder = found[-1].get("extends"), path.parent
    return found


def words(*choices: str) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Return a callback that offers some words."""
    return completer(lambda ctx: [(choice, "") for choice in choices])
