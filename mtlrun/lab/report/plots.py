"""Draw figures of a run into files, for the command ``mtlrun plot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mtlrun.errors import UserError
from mtlrun.lab.report.figures import (
    matrix_figures,
    measured_ranks,
    path_figures,
    rank_diagrams,
    sweep_figures,
    trace_figures,
)
from mtlrun.lab.report.method_results import MethodResult, method_results
from mtlrun.lab.report.run import Run, read_run
from mtlrun.show.drawing import check_drawing, write_drawing
from mtlrun.show.figures import Figure, RankDiagram
from mtlrun.utils.outputs import write_output

Figures = Sequence[Figure | RankDiagram]


#: Kinds of figures by the names of the option --kind, with the results that they need.
KINDS = {
    "trace": "curves of measurements (kind: trace)",
    "scaling": "the axis of a sweep (section: sweep)",
    "heatmap": "matrices of measurements",
    "cd-diagram": (
        "three methods with a number on each of at least two data sets or splits, or "
        "rankings of measurements"
    ),
    "path": "a parameter search over at least two values of a parameter",
}


def figures_of(kind: str, run: Run, rows: list[MethodResult]) -> Figures:
    """Return the figures of one of `KINDS`; none if the run has no such results."""
    match kind:
        case "trace":
            return trace_figures(run)
        case "scaling":
            return sweep_figures(run, rows)
        case "heatmap":
            return matrix_figures(run)
        case "cd-diagram":
            return [*rank_diagrams(run, rows), *measured_ranks(run)]
    return path_figures(run)


def plot(folder: Path, kind: str, out: Path) -> list[Path]:
    """Draw figures of a run into files.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    kind : str
        One of `KINDS`.
    out : Path
        Its suffix determines the format. The names of several figures are inserted
        before it.

    Returns
    -------
    list of Path
        Files of the figures.

    Raises
    ------
    UnknownNameError
        If there is no such kind.
    UserError
        If the run has no results for this kind, or if the format is unknown.
    """
    check_drawing("kind of figure", kind, KINDS, out)
    run = read_run(folder)
    rows = method_results(run)
    figures = figures_of(kind, run, rows)
    if not figures:
        remedy = f"It needs {KINDS[kind]}."
        other_kinds = _fitting_kinds(run, rows)
        if other_kinds:
            names = ", ".join(other_kinds)
            remedy += f" This run has something for --kind {names}."
        raise UserError(f"{folder}: nothing to draw for --kind {kind}", remedy)
    paths = []
    for figure in figures:
        path = out
        if len(figures) > 1:
            path = out.with_name(f"{out.stem}-{figure.name}{out.suffix}")
        write_drawing(figure, path, write_output)
        paths.append(path)
    return paths


def fitting_kinds(folder: Path) -> list[str]:
    """Return the kinds of figures for which a run has results."""
    run = read_run(folder)
    return _fitting_kinds(run, method_results(run))


def _fitting_kinds(run: Run, rows: list[MethodResult]) -> list[str]:
    return [kind for kind in KINDS if figures_of(kind, run, rows)]
