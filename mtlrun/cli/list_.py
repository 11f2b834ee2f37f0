"""``mtlrun list``: experiments, methods, data sets and measures."""

from __future__ import annotations

import dataclasses
import enum
import sys
from typing import Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import interactive, output, say_columns, say_json
from mtlrun.errors import UserError


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
    kind: Annotated[
        Kind, typer.Argument(metavar="KIND", help="What to list: experiments, methods, datasets or measures.")
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
        remedy = "Use mtlrun show EXPERIMENT or mtlrun data info DATASET for the others."
        raise UserError("only methods take names and --format: mtlrun list methods [NAME]... --format json", remedy)
    if as_json and kind is Kind.METHODS:
        form = Format.JSON
    if names or form is not Format.TEXT:
        _details(names or [], form)
        return
    rows = {Kind.EXPERIMENTS: _experiments, Kind.METHODS: _methods, Kind.DATASETS: _datasets, Kind.MEASURES: _measures}[
        kind
    ]()
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
    from mtlrun.estimators.facts import references
    from mtlrun.estimators.registry import METHODS, get_method

    methods = [get_method(name) for name in names] or list(METHODS.values())
    if form is Format.JSON:
        say_json([{**dataclasses.asdict(info), "bibtex": info.bibtex} for info in methods])
    elif form is Format.BIBTEX:
        keys = sorted({key for info in methods for key in info.cite})
        typer.echo("\n".join(references()[key] for key in keys))
    else:
        blocks = []
        for info in methods:
            lines = [f"{key.lower():13}  {text}" for key, text in info.described(METHODS.get(f"{info.name}Classifier"))]
            blocks.append("\n".join([f"{info.name}: {info.summary}", *lines, info.bibtex]))
        typer.echo("\n\n".join(blocks))


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
    rows = [[(name, found[0]), ("", ", ".join(found[1].quantities))] for name, found in known.items() if found]
    return [line for pair in rows for line in pair]


def _datasets() -> list[tuple[str, str]]:
    from mtlrun.data.cards import card_paths, read_card
    from mtlrun.data.files import data_directory

    cards = [read_card(path) for path in card_paths(data_directory()).values()]
    return [
        (card.id, f"{card.title}{' (simulated)' * (card.simulated and 'imulated' not in card.title)}") for card in cards
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
