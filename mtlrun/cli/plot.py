"""``mtlrun plot``: figures of runs, comparisons and saved models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say, writing
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.cli.report import run_folder
from mtlrun.errors import UserError


def plot(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET|FOLDER",
            help="Experiment, or the folder of a run, a comparison, a training or a model.",
            autocompletion=options.targets,
        ),
    ],
    kind: Annotated[
        str | None,
        options.option(
            None,
            "KIND",
            "Of a run: trace, scaling, heatmap, cd-diagram (average ranks) or path (scores along a parameter grid); of a "
            "model: task (rows of tasks over a column, with the lines of all strategies), coefficients, shrinkage "
            "(hierarchical models), curve (smooth models), tasks (their similarity) or path; of a comparison: verdict, "
            "methods, tasks, gains (against rows), heatmap, predictions, shrinkage, calibration, curve (with --curve), "
            "or task and coefficients of its model. Default: coefficients of a linear model, curve of a smooth one, "
            "verdict of a comparison, the first that fits a run.",
            autocompletion=options.words(
                "trace",
                "scaling",
                "heatmap",
                "cd-diagram",
                "path",
                "task",
                "tasks",
                "coefficients",
                "shrinkage",
                "curve",
                "verdict",
                "methods",
                "gains",
                "predictions",
                "calibration",
            ),
        ),
    ] = None,
    column: Annotated[
        str | None,
        options.option(
            None, "NAME", "Column on the horizontal axis (--kind task, --kind curve)."
        ),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        options.option(
            None,
            "A,B",
            "Tasks with a panel of their own (--kind task, at most 24, default six; --kind curve, default three), or "
            "tasks of the picture of a comparison; repeatable.",
        ),
    ] = None,
    trust: options.Trust = None,
    data_dir: options.DataDir = None,
    profile: options.Profile = None,
    out: options.Out = None,
    output_dir: options.OutputOrFile = OUTPUT_DEFAULT,
    debug: options.Debug = False,
) -> None:
    """Draw a figure from the stored results of a run, of a comparison, or of a saved
    model.

    Where the figure shows one data set and the run has several, each one gets a file of
    its own, named after it.
    """
    from mtlrun.lab.report import figures
    from mtlrun.show.canvas import FORMATS
    from mtlrun.show.drawing import check_drawing

    output_dir, out = options.file_or_folder(output_dir, out, FORMATS)
    folder = Path(target)
    is_comparison = (folder / "pictures.json").is_file()
    if is_comparison and (column is not None or kind in ("task", "coefficients")):
        # The model of a comparison lies in its folder.
        folder = folder / "model"
    if (folder / "model.json").is_file():
        from mtlrun.model.files import used
        from mtlrun.model.plots import default_kind, fitting_kinds, plot_model

        chosen = kind or default_kind(folder, column)
        out = out or _figure_file(folder, chosen)
        with writing(out, remedy="Choose another --out."), used(folder):
            lines = plot_model(
                folder,
                chosen,
                out,
                trust=trust or (),
                column=column,
                tasks=tasks,
                data_dir=data_dir,
            )
        for line in lines:
            say(line)
        if kind is None:
            _say_other_kinds(chosen, fitting_kinds(folder))
        return
    if is_comparison:
        from mtlrun.comparison.gallery import read_pictures
        from mtlrun.show.drawing import write_drawing
        from mtlrun.show.pictures import PICTURES
        from mtlrun.utils.outputs import write_output

        chosen = kind or PICTURES[0]
        out = out or _figure_file(folder, chosen)
        with writing(out, remedy="Choose another --out."):
            check_drawing("kind of picture of a comparison", chosen, PICTURES, out)
            picture = read_pictures(folder).of_kind(chosen, tasks or ())
            write_drawing(picture, out, write_output)
        say(str(out))
        if kind is None:
            _say_other_kinds(chosen, PICTURES)
        return
    if column is not None or tasks:
        raise UserError(
            f"{target} is a run; --column and --tasks are for saved models",
            "Name the folder of a model, or leave them out.",
        )
    if kind is not None:
        out = out or _figure_file(folder, kind)
        check_drawing("kind of figure of a run", kind, figures.KINDS, out)
    folder = run_folder(target, profile, output_dir)
    fitting: list[str] = []
    if kind is None:
        fitting = figures.fitting_kinds(folder)
    if kind is None and not fitting:
        needs = "; ".join(
            f"{name} needs {text}" for name, text in figures.KINDS.items()
        )
        raise UserError(f"{folder}: there is nothing to draw", f"{needs}.")
    chosen = kind or fitting[0]
    out = out or _figure_file(folder, chosen)
    with writing(out, remedy="Choose another --out."):
        paths = figures.plot(folder, chosen, out)
    for path in paths:
        say(str(path))
    if kind is None:
        _say_other_kinds(chosen, fitting)


def _figure_file(folder: Path, kind: str) -> Path:
    """Return the file in the current folder for a figure without --out."""
    return Path(f"{folder.resolve().name}-{kind}.svg")


def _say_other_kinds(drawn: str, kinds: Iterable[str]) -> None:
    """Say which figures --kind would have drawn instead of the default one."""
    others = [kind for kind in kinds if kind != drawn]
    if others:
        text = f"drawn by default: {drawn}; other kinds (--kind): {', '.join(others)}"
        say(text, error=True)
