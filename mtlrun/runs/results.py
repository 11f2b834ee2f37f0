"""From Python: reproduce an experiment, or read a run that is there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mtlrun.report.build import Report, build_report
from mtlrun.report.writers import write_report
from mtlrun.runs.load import load_experiment
from mtlrun.runs.plan import Plan, plan
from mtlrun.runs.progress import Progress
from mtlrun.runs.run import NO_ROOM, run
from mtlrun.utils.io import writing


def reproduce(
    target: str | Path,
    *,
    profile: str | None = None,
    overrides: Iterable[str] = (),
    reading: str | None = None,
    seed: int | None = None,
    only: Iterable[str] | None = None,
    data_dir: str | Path | None = None,
    output: str | Path = "results/runs",
    jobs: int | None = None,
    force: bool = False,
    retries: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Reproduce a published table or figure, as ``mtlrun reproduce`` does, and return its report.

    Only missing cells are computed. The report is written into the folder of the run.

    Parameters
    ----------
    target : str or path
        Experiment: ``<paper>/<artefact>``, a short name such as ``table2``, or a YAML file.
    profile, reading : str, optional
        Default: ``quick`` where there is one; the main reading.
    overrides, only : iterable of str, optional
        As ``--set`` and ``--only``: ``["split.trials=3"]``, ``["method=APG-RMTL"]``.
    seed : int, optional
    data_dir, output : path, optional
        Data directory, and root folder of the results.
    jobs : int, optional
    force : bool, default False
        Compute finished cells again.
    retries : int, default 0
        Compute a cell that fails so many times again.
    progress : Progress, optional
        Default: silent.

    Returns
    -------
    Report
        Shows itself in notebooks; ``report.frame()`` has every cell, ``report.run.folder`` the files.

    Raises
    ------
    UserError
        If the experiment, an option or its data are wrong or missing.
    KeyboardInterrupt
        After Ctrl-C; the finished cells are kept and reported.

    Examples
    --------
    >>> import mtlrun
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = mtlrun.reproduce("table2", profile="smoke", output=folder)
    >>> report
    <Report dcrmtl/table2, profile smoke: 10 of 10 cells done>
    """
    folder = None if data_dir is None else Path(data_dir)
    experiment = load_experiment(target, profile=profile, overrides=overrides, seed=seed, data_dir=folder)
    made = plan(experiment, data_dir=folder, only=only, reading=reading, output=Path(output))
    with writing(made.folder, NO_ROOM):
        summary = run(made, jobs=jobs, force=force, retries=retries, progress=progress)
    report = write_results(made)
    if summary.interrupted:
        raise KeyboardInterrupt
    return report


def write_results(made: Plan) -> Report:
    """Build the report of a plan, write it with all its records into the folder of the run, and return it."""
    report = build_report(made.folder)
    with writing(made.folder, NO_ROOM):
        made.store().pack(row.cell.key for row in made.rows)
        write_report(report, made.folder)  # last: a run with an up-to-date report is not written again
    return report


def load_run(folder: str | Path) -> Report:
    """Return the report of a run that is there, built from its stored records; nothing is computed or written.

    Parameters
    ----------
    folder : path
        ``<output>/<paper>/<artefact>/<profile>``.

    Raises
    ------
    DataError
        If the folder is not one of a run.
    """
    return build_report(Path(folder))
