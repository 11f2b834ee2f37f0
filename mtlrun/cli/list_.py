"""``mtlrun list``: what there is to run."""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlrun.cli import options
from mtlrun.cli.console import interactive, output
from mtlrun.errors import UserError

if TYPE_CHECKING:
    from mtlrun.estimators.registry import MethodInfo


class Kind(enum.StrEnum):
    """What can be listed."""

    EXPERIMENTS = "experiments"
    METHODS = "methods"
    DATASETS = "datasets"
    MEASURES = "measures"


class Format(enum.StrEnum):
    """How methods can be written."""

    TEXT = "text"
    JSON = "json"
    BIBTEX = "bibtex"


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")] = Kind.EXPERIMENTS,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Methods to show with objective, losses, designs, cost and source."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="For methods: everything about them, or their sources.")] = (
        Format.TEXT
    ),
    debug: options.Debug = False,
) -> None:
    """List experiments, methods, data sets or measures; `mtlrun list methods NAME` shows all about a method."""
    if kind is not Kind.METHODS and (names or form is not Format.TEXT):
        remedy = "Others: mtlrun show EXPERIMENT, mtlrun data info DATASET."
        raise UserError("names and --format go with methods only: mtlrun list methods [NAME]... --format json", remedy)
    if names or form is not Format.TEXT:
        _details(names or [], form)
        return
    rows = {Kind.EXPERIMENTS: _experiments, Kind.METHODS: _methods, Kind.DATASETS: _datasets, Kind.MEASURES: _measures}[
        kind
    ]()
    _print(rows)
    hints = {
        Kind.EXPERIMENTS: "mtlrun show NAME: one in detail; mtlrun reproduce NAME: run it (train/...: mtlrun train "
        "NAME). Also: mtlrun list methods|datasets|measures",
        Kind.METHODS: "mtlrun list methods NAME: objective, losses, designs, cost, source; --format json|bibtex",
    }
    if kind in hints:
        typer.echo(hints[kind], err=True)


def _details(names: list[str], form: Format) -> None:
    """Print all about some methods, or about all."""
    from mtlrun.estimators.facts import references
    from mtlrun.estimators.registry import METHODS, get_method

    methods = [get_method(name) for name in names] or list(METHODS.values())
    if form is Format.JSON:
        typer.echo(json.dumps([_record(info) for info in methods], indent=1, ensure_ascii=False))
    elif form is Format.BIBTEX:
        keys = sorted({key for info in methods for key in info.cite})
        typer.echo("\n".join(references()[key] for key in keys))
    else:
        blocks = []
        for info in methods:
            lines = [f"{key.lower():13}  {text}" for key, text in info.described(METHODS.get(f"{info.name}Classifier"))]
            blocks.append("\n".join([f"{info.name}: {info.summary}", *lines, info.bibtex]))
        typer.echo("\n\n".join(blocks))


def _record(info: MethodInfo) -> dict[str, Any]:
    return {**dataclasses.asdict(info), "bibtex": info.bibtex}


def _experiments() -> list[tuple[str, str]]:
    from mtlrun.runs.catalogue import catalogue

    return [(e.id, f"{e.title} [mtlrun train]" if e.kind == "train" else e.title) for e in catalogue()]


def _methods() -> list[tuple[str, str]]:
    from mtlrun.estimators.registry import METHODS

    return [(info.name, info.summary) for info in METHODS.values()]


def _measures() -> list[tuple[str, str]]:
    from mtlrun.papers.measure import MEASURES
    from mtlrun.runs.methods import declared

    known = {name: declared(path) for name, path in MEASURES.items()}
    return [(name, f"{found[0]}: {', '.join(found[1].quantities)}") for name, found in known.items() if found]


def _datasets() -> list[tuple[str, str]]:
    from mtlrun.data.cards import card_paths, read_card
    from mtlrun.data.files import data_directory

    cards = [read_card(path) for path in card_paths(data_directory()).values()]
    return [
        (card.id, f"{card.title}{' (simulated)' * (card.simulated and 'imulated' not in card.title)}") for card in cards
    ]


def _print(rows: list[tuple[str, str]]) -> None:
    """Print names and descriptions in two columns; on a terminal long descriptions are folded in theirs."""
    if not interactive(sys.stdout):
        width = max((len(name) for name, _ in rows), default=0)
        for name, text in rows:
            typer.echo(f"{name:{width}}  {text}")
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for name, text in rows:
        table.add_row(name, text)
    output().print(table)
