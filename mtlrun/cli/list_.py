"""``mtlrun list``: what there is to run."""

from __future__ import annotations

import enum
import sys
from typing import Annotated

import typer

from mtlrun.cli.console import interactive, output


class Kind(enum.StrEnum):
    """What can be listed."""

    EXPERIMENTS = "experiments"
    METHODS = "methods"
    DATASETS = "datasets"


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")] = Kind.EXPERIMENTS,
) -> None:
    """List experiments, methods or data sets."""
    rows = {Kind.EXPERIMENTS: _experiments, Kind.METHODS: _methods, Kind.DATASETS: _datasets}[kind]()
    _print(rows)
    if kind is Kind.EXPERIMENTS:
        hint = (
            "mtlrun show NAME: one in detail; mtlrun reproduce NAME: run it (train/...: mtlrun train NAME). "
            "Also: mtlrun list methods|datasets"
        )
        typer.echo(hint, err=True)


def _experiments() -> list[tuple[str, str]]:
    from mtlrun.experiments.catalogue import catalogue

    return [(e.id, f"{e.title} [mtlrun train]" if e.kind == "train" else e.title) for e in catalogue()]


def _methods() -> list[tuple[str, str]]:
    from mtlrun.estimators.registry import METHODS

    return [(info.name, info.summary) for info in METHODS.values()]


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
