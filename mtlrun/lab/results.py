"""Reproduce an experiment, or read a run."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path

from mtlrun.engine.packed import (
    PACKED,
    PLAN_FIELDS,
    TASK_DIGITS,
    is_without_plan,
    needed_plan,
)
from mtlrun.engine.run import CANNOT_WRITE_REMEDY, run
from mtlrun.engine.store import Store, write_new
from mtlrun.engine.stored import AGAIN, RUN_FILE, read_raw
from mtlrun.errors import DataError, with_arguments
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import Plan, plan, scale_warnings
from mtlrun.lab.report.build import Report, build_report
from mtlrun.lab.report.figures import FIGURES
from mtlrun.lab.report.formats import FORMATS, write_report
from mtlrun.lab.report.run import Run, storable_tests
from mtlrun.lab.stored import read_plan
from mtlrun.parallel.progress import Progress
from mtlrun.utils.io import (
    DIGEST,
    file_json,
    read_file,
    refuse_links,
    writing,
)


@with_arguments
def reproduce(
    target: str | Path,
    *,
    profile: str | None = None,
    overrides: Iterable[str] = (),
    interpretation: str | None = None,
    seed: int | None = None,
    only: Iterable[str] | None = None,
    data_dir: str | Path | None = None,
    output: str | Path = "results/runs",
    jobs: int | None = None,
    force: bool = False,
    retries: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Reproduce a published table or figure, and return its report.

    Only missing jobs are computed. The report is written into the folder of the run, as
    by ``mtlrun reproduce``.

    Parameters
    ----------
    target : str or Path
        Experiment: ``<paper>/<artefact>``, a short name such as ``table2``, or a YAML
        file.
    profile : str, default=None
        None for ``quick`` if the experiment has it, else ``full``.
    overrides : iterable of str, default=()
        Changes of the file, as with ``--set``: ``["split.trials=3"]``.
    interpretation : str, default=None
        Name of an interpretation, or ``all``; None for the main one.
    seed : int, default=None
        Base seed; None for the seed of the file.
    only : iterable of str, default=None
        Jobs to compute, as with ``--only``: ``["method=APG-RMTL"]``. None for all.
    data_dir : str or Path, default=None
        Data directory.
    output : str or Path, default="results/runs"
        Root folder of the results.
    jobs : int, default=None
        Number of worker processes.
    force : bool, default=False
        Whether finished jobs are computed again.
    retries : int, default=0
        Number of times that a failed job is computed again.
    progress : Progress, default=None
        Display of the progress; None for none.

    Returns
    -------
    Report
        Shows itself in notebooks. ``report.frame()`` has every job, and
        ``report.run.folder`` the files.

    Raises
    ------
    UserError
        If the experiment, an option or its data are wrong or missing.
    KeyboardInterrupt
        After Ctrl-C; the finished jobs are kept and reported.

    Examples
    --------
    >>> import mtlrun
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = mtlrun.reproduce("table2", profile="smoke", output=folder)
    >>> report
    <Report dcrmtl/table2, profile smoke: 10 of 10 results done>
    """
    if data_dir is not None:
        data_dir = Path(data_dir)
    experiment = load_experiment(
        target, profile=profile, overrides=overrides, seed=seed, data_dir=data_dir
    )
    for text in experiment.warnings:
        # The decorator is a level of the stack between this function and its caller.
        warnings.warn(text, UserWarning, stacklevel=3)
    planned = plan(
        experiment,
        data_dir=data_dir,
        only=only,
        interpretation=interpretation,
        output=Path(output),
    )
    for text in scale_warnings(planned):
        warnings.warn(text, UserWarning, stacklevel=3)
    with writing(planned.folder, CANNOT_WRITE_REMEDY):
        summary = run(
            planned, n_jobs=jobs, force=force, retries=retries, progress=progress
        )
    report = write_results(planned)
    if summary.interrupted:
        raise KeyboardInterrupt
    return report


def write_results(planned: Plan) -> Report:
    """Write the report of a plan and all its records into the folder of the run.

    Returns
    -------
    Report
    """
    folder = planned.folder
    report = build_report(folder)
    with writing(folder, CANNOT_WRITE_REMEDY):
        planned.store().pack(
            (row.job.key for row in planned.rows),
            paired=storable_tests(report.run.paired),
            with_curves=report.run.spec.sweep is None,
        )
        # The report comes last: a run whose report is current is not written again.
        write_report(report, folder)
    return report


@with_arguments
def load_run(folder: str | Path) -> Report:
    """Return the report of a run from its stored records.

    Nothing is computed or written.

    Parameters
    ----------
    folder : str or Path
        ``<output>/<paper>/<artefact>/<profile>``.

    Raises
    ------
    DataError
        If it is not the folder of a run.
    """
    return build_report(Path(folder))


def compact_run(folder: Path) -> None:
    """Rewrite the files of a finished run so that they take little space.

    The plan moves from ``run.json`` to the packed records. Scores of single tasks are
    rounded as long as the report stays the same. Figures of earlier reports are
    removed. Nothing is computed, and a compact folder is left alone.

    Parameters
    ----------
    folder : Path
        ``<output>/<paper>/<artefact>/<profile>``.

    Raises
    ------
    DataError
        If it is not the folder of a run, or some of its records cannot be read.
    """
    raw = read_raw(folder / RUN_FILE) or {}
    if is_without_plan(raw):
        return
    report = build_report(folder)
    damaged = [*report.run.unreadable, *report.run.unsound]
    if damaged:
        raise DataError(f"{folder}: {damaged[0]} is damaged", AGAIN)
    texts = {name: write(report) for name, write in FORMATS.items()}
    with tempfile.TemporaryDirectory() as temporary:
        # A report contains the last parts of the path of its run.
        trial = Path(temporary, *folder.absolute().parts[-3:])
        shutil.copytree(folder, trial)
        # As few digits as the report allows.
        for task_digits in (*TASK_DIGITS, None):
            pack_with_plan(trial, folder, report.run, task_digits)
            packed = build_report(trial)
            if all(FORMATS[name](packed) == text for name, text in texts.items()):
                break
        else:
            raise DataError(f"{folder}: its report would change", AGAIN)
        with writing(folder, CANNOT_WRITE_REMEDY):
            # First the records with the plan: until run.json says so, they do not
            # count.
            for name in (PACKED, RUN_FILE):
                write_new(folder / name, read_file(trial / name))
            refuse_links(folder, folder / FIGURES)
            current = {f"{figure.name}.svg" for figure in report.figures}
            for path in (folder / FIGURES).glob("*.svg"):
                if path.name not in current:
                    path.unlink()


def pack_with_plan(
    trial: Path, folder: Path, run: Run, task_digits: int | None
) -> None:
    """Pack the records of a run and its plan into another folder.

    Parameters
    ----------
    trial : Path
        Folder into which the files are written.
    folder : Path
        Folder of the run.
    run : Run
    task_digits : int or None
        Number of digits of the scores of single tasks; None for all.
    """
    records = Store.of_run(folder)
    info = read_plan(folder, records) or {}
    plan_json = needed_plan(info, run.records)
    if run.altered:
        # The old digest shows that someone changed the file, which the report mentions.
        plan_json[DIGEST] = info.get(DIGEST)
    output = records.cells_folder.parent
    store = Store(output, folder, checks_scores=True)
    store.pack(
        [entry["key"] for entry in plan_json["cells"]],
        paired=storable_tests(run.paired),
        plan=plan_json,
        with_curves=run.spec.sweep is None,
        task_digits=task_digits,
        into=trial,
    )
    # The digest in it remains the digest of all fields.
    rest = {name: value for name, value in plan_json.items() if name not in PLAN_FIELDS}
    content = file_json({**rest, "plan": PACKED})
    write_new(trial / RUN_FILE, content.encode())
