"""Figures of a run on demand: ``mtlrun plot``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mtlrun.errors import UnknownNameError, UserError
from mtlrun.report.axis import sweep_figures
from mtlrun.report.comparison import rank_methods
from mtlrun.report.curves import trace_figures
from mtlrun.report.folder import Run, read_run
from mtlrun.report.matrices import matrix_figures
from mtlrun.report.panels import Figure, Panel, Ranks, file_name
from mtlrun.report.paths import path_figures
from mtlrun.report.ranking import rank_groups
from mtlrun.report.table import Row, build_rows

#: What can be drawn, and what a run needs for it.
KINDS = {
    "trace": "curves of measurements (kind: trace)",
    "scaling": "the axis of a sweep (section: sweep)",
    "heatmap": "matrices of measurements",
    "cd-diagram": "three methods with a number on each of at least two data sets or splits",
    "path": "a parameter search over at least two values of a parameter",
}
FORMATS = (".svg", ".png", ".pdf")


def plot(folder: Path, kind: str, out: Path, *, dataset: str | None = None, parameter: str | None = None) -> list[Path]:
    """Draw figures of a run into files.

    Parameters
    ----------
    folder : Path
        Of the run.
    kind : str
        One of `KINDS`.
    out : Path
        Its ending says the format; with several figures their names are put before it.
    dataset : str, optional
        Label of a data set (in a sweep also without the value of the axis) or of a group of them.
    parameter : str, optional
        For ``path``: the parameter along which to go.

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
    if kind not in KINDS:
        raise UnknownNameError("kind of figure", kind, KINDS)
    if out.suffix.lower() not in FORMATS:
        raise UserError(f"{out}: unknown format {out.suffix!r}", f"End the name with one of {', '.join(FORMATS)}.")
    run = read_run(folder)
    rows = build_rows(run)
    makers: dict[str, Callable[[], Sequence[Figure | Ranks]]] = {
        "trace": lambda: trace_figures(run),
        "scaling": lambda: sweep_figures(run, rows),
        "heatmap": lambda: matrix_figures(run),
        "cd-diagram": lambda: rank_diagrams(run, rows),
        "path": lambda: path_figures(run, parameter),
    }
    figures = makers[kind]()
    if not figures:
        raise _nothing(folder, kind, parameter, [name for name, make in makers.items() if make()], run)
    if dataset is not None:
        chosen = [f for f in figures if f.name == file_name(dataset) or f.name.startswith(f"{file_name(dataset)}-")]
        if not chosen:
            raise UnknownNameError("figure", file_name(dataset), [f.name for f in figures])
        figures = chosen
    from mtlrun.report.figures import write_drawing

    paths = []
    for figure in figures:
        path = out if len(figures) == 1 else out.with_name(f"{out.stem}-{figure.name}{out.suffix}")
        write_drawing(figure, path)
        paths.append(path)
    return paths


def _nothing(folder: Path, kind: str, parameter: str | None, fitting: Sequence[str], run: Run) -> UserError:
    """Say why there is nothing to draw, and what there is."""
    if kind == "path" and parameter is not None and (figures := path_figures(run)):
        names = {panel.axis or "" for figure in figures for panel in figure.panels if isinstance(panel, Panel)}
        return UnknownNameError("parameter of the searches", parameter, names)
    others = f" This run has something for --kind {', '.join(fitting)}." if fitting else ""
    return UserError(f"{folder}: nothing to draw for --kind {kind}", f"It needs {KINDS[kind]}.{others}")


def rank_diagrams(run: Run, rows: list[Row]) -> list[Ranks]:
    """Return the average ranks of every group of data sets, or of the comparison of an experiment without groups."""
    groups = [g for g in rank_groups(run, rows) if len(g.methods) > 2]
    found = [Ranks(file_name(g.label), f"{g.metric}, {g.label}", g.methods, g.values, g.better) for g in groups]
    ranking = None if found else rank_methods(run, rows)
    if ranking is not None and ranking.test is not None:
        title = f"{ranking.metric}, {ranking.blocks}"
        found.append(Ranks(file_name(ranking.blocks), title, ranking.methods, ranking.values, ranking.better))
    return found
