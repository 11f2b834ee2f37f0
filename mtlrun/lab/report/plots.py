"""Draw figures of a run into files: the command ``mtlrun plot``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mtlrun.errors import UserError
from mtlrun.lab.report.cells import MethodResult, Run, method_results, read_run
from mtlrun.lab.report.figures import (
    matrix_figures,
    measured_ranks,
    path_figures,
    rank_diagrams,
    sweep_figures,
    trace_figures,
)
from mtlrun.tables.drawing import check_drawing, write_drawing
from mtlrun.tables.figures import Figure, RankDiagram
from mtlrun.utils.outputs import write_output

#: What can be drawn of a run, and what it needs for it.
KINDS: dict[
    str, tuple[str, Callable[[Run, list[MethodResult]], Sequence[Figure | RankDiagram]]]
] = {
    "trace": (
        "curves of measurements (kind: trace)",
        lambda run, rows: trace_figures(run),
    ),
    "scaling": ("the axis of a sweep (section: sweep)", sweep_figures),
    "heatmap": ("matrices of measurements", lambda run, rows: matrix_figures(run)),
    "cd-diagram": (
        "three methods with a number on each of at least two data sets or splits, or rankings of measurements",
        lambda run, rows: [*rank_diagrams(run, rows), *measured_ranks(run)],
    ),
    "path": (
        "a parameter search over at least two values of a parameter",
        lambda run, rows: path_figures(run),
    ),
}


def plot(folder: Path, kind: str, out: Path) -> list[Path]:
    """Draw figures of a run into files.

    Parameters
    ----------
    folder : Path
        Of the run.
    kind : str
        One of `KINDS`.
    out : Path
        Its ending says the format; with several figures their names are put before it.

    Returns
    -------
    list of Path

    Raises
    ------
    UnknownNameError
        If there is no such kind.
    UserError
        If the run has nothing of the kind, or the format is unknown.
    """
    check_drawing("kind of figure", kind, KINDS, out)
    run = read_run(folder)
    rows = method_results(run)
    figures = KINDS[kind][1](run, rows)
    if not figures:
        fitting = _fitting_kinds(run, rows)
        others = (
            f" This run has something for --kind {', '.join(fitting)}."
            if fitting
            else ""
        )
        raise UserError(
            f"{folder}: nothing to draw for --kind {kind}",
            f"It needs {KINDS[kind][0]}.{others}",
        )
    paths = []
    for figure in figures:
        path = (
            out
            if len(figures) == 1
            else out.with_name(f"{out.stem}-{figure.name}{out.suffix}")
        )
        write_drawing(figure, path, write_output)
        paths.append(path)
    return paths


def fitting_kinds(folder: Path) -> list[str]:
    """Return the kinds of figures that the results of a run have numbers for."""
    run = read_run(folder)
    return _fitting_kinds(run, method_results(run))


def _fitting_kinds(run: Run, rows: list[MethodResult]) -> list[str]:
    return [name for name, (_, make) in KINDS.items() if make(run, rows)]
