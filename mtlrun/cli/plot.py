"""``mtlrun plot``: draw a figure of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.cli.report import run_folder


def plot(
    target: Annotated[str, typer.Argument(metavar="TARGET|FOLDER", help="Experiment, or the folder of a run.")],
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="trace, scaling, heatmap, cd-diagram (average ranks) or path (scores along a parameter grid).",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write: .svg, .png or .pdf.")],
    dataset: Annotated[str | None, typer.Option("--dataset", metavar="NAME", help="Draw only this data set.")] = None,
    parameter: Annotated[
        str | None, typer.Option("--parameter", metavar="NAME", help="For --kind path: draw only this parameter.")
    ] = None,
    profile: options.Profile = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    debug: options.Debug = False,
) -> None:
    """Draw a figure from the stored results of a run.

    Where the figure shows one data set and the run has several, each one gets a file of its own, named after it.
    """
    from mtlrun.report.drawing import plot as draw
    from mtlrun.utils.io import writing

    with writing(out, "Choose another --out."):
        paths = draw(run_folder(target, profile, output_dir), kind, out, dataset=dataset, parameter=parameter)
    for path in paths:
        say(str(path))
