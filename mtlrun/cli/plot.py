"""``mtlrun plot``: draw a figure of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtlrun.cli import complete, options
from mtlrun.cli.console import say
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.cli.report import run_folder
from mtlrun.errors import UserError


def plot(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET|FOLDER",
            help="Experiment, or the folder of a run, a training or a model.",
            autocompletion=complete.targets,
        ),
    ],
    kind: Annotated[
        str,
        options.option(
            None,
            "KIND",
            "trace, scaling, heatmap, cd-diagram (average ranks) or path (scores along a parameter grid); of a model: "
            "tasks (their similarity), coefficients, path, or shrinkage (hierarchical models).",
            autocompletion=complete.words(
                "trace", "scaling", "heatmap", "cd-diagram", "path", "tasks", "coefficients", "shrinkage"
            ),
        ),
    ],
    trust: options.Trust = None,
    profile: options.Profile = None,
    out: options.Out = None,
    output_dir: options.OutputOrFile = OUTPUT_DEFAULT,
    debug: options.Debug = False,
) -> None:
    """Draw a figure from the stored results of a run, or of a saved model.

    Where the figure shows one data set and the run has several, each one gets a file of its own, named after it.
    """
    from mtlrun.report.drawing import FORMATS, KINDS, check_drawing
    from mtlrun.report.drawing import plot as draw
    from mtlrun.utils.io import writing

    output_dir, out = options.file_or_folder(output_dir, out, FORMATS)
    if out is None:
        raise UserError("no file to draw into", f"Add --out FILE, with one of the endings {', '.join(FORMATS)}.")
    folder = Path(target)
    if (folder / "model.json").is_file():
        from mtlrun.report.modelplots import plot_model

        with writing(out, "Choose another --out."):
            say(str(plot_model(folder, kind, out, trust=trust or ())))
        return
    check_drawing("kind of figure of a run", kind, KINDS, out)
    with writing(out, "Choose another --out."):
        paths = draw(run_folder(target, profile, output_dir), kind, out)
    for path in paths:
        say(str(path))
