"""Reproduce an experiment or all of them, read a run that is there, and take in the jobs of another machine."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from mtlrun.engine.packed import (
    PACKED,
    TASK_DIGITS,
    is_without_plan,
    needed_plan,
    without_plan,
)
from mtlrun.engine.progress import Progress
from mtlrun.engine.record import CELLS, EARLIER_PACKED, PREDICTIONS, Record, Records
from mtlrun.engine.run import CANNOT_WRITE_REMEDY, missing_jobs, run
from mtlrun.engine.store import Store, write_new
from mtlrun.engine.stored import AGAIN, PROVENANCE, RUN_FILE
from mtlrun.errors import ConfigError, DataError, UserError, counted, with_arguments
from mtlrun.lab.catalogue import CatalogueEntry, catalogue
from mtlrun.lab.load import load_experiment
from mtlrun.lab.plan import NoMatchError, OnlyError, Plan, plan
from mtlrun.lab.report.build import Report, build_report
from mtlrun.lab.report.cells import (
    Run,
    checked,
    read_run,
    storable_tests,
    stored_tests,
)
from mtlrun.lab.report.figures import FIGURES
from mtlrun.lab.report.formats import FORMATS, write_report
from mtlrun.lab.scales import scale_warnings
from mtlrun.lab.spec import TRAIN, Experiment
from mtlrun.lab.stored import read_json, read_plan, read_raw
from mtlrun.utils.io import DIGEST, file_json, read_file, writing
from mtlrun.utils.processes import exclusive_lock


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
    """Reproduce a published table or figure, as ``mtlrun reproduce`` does, and return its report.

    Only missing jobs are computed. The report is written into the folder of the run.

    Parameters
    ----------
    target : str or path
        Experiment: ``<paper>/<artefact>``, a short name such as ``table2``, or a YAML file.
    profile, interpretation : str, optional
        Default: ``quick`` where there is one; the main interpretation.
    overrides, only : iterable of str, optional
        As ``--set`` and ``--only``: ``["split.trials=3"]``, ``["method=APG-RMTL"]``.
    seed : int, optional
    data_dir, output : path, optional
        Data directory, and root folder of the results.
    jobs : int, optional
    force : bool, default False
        Compute finished jobs again.
    retries : int, default 0
        Compute a job that fails so many times again.
    progress : Progress, optional
        Default: silent.

    Returns
    -------
    Report
        Shows itself in notebooks; ``report.frame()`` has every job, ``report.run.folder`` the files.

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
    <Report dcrmtl/table2, profile smoke: 10 of 10 cells done>
    """
    folder = None if data_dir is None else Path(data_dir)
    experiment = load_experiment(
        target, profile=profile, overrides=overrides, seed=seed, data_dir=folder
    )
    for text in experiment.warnings:
        # Of the caller of `reproduce`, which has a wrapper.
        warnings.warn(text, UserWarning, stacklevel=3)
    made = plan(
        experiment,
        data_dir=folder,
        only=only,
        interpretation=interpretation,
        output=Path(output),
    )
    for text in scale_warnings(made):
        warnings.warn(text, UserWarning, stacklevel=3)
    with writing(made.folder, CANNOT_WRITE_REMEDY):
        summary = run(
            made, n_jobs=jobs, force=force, retries=retries, progress=progress
        )
    report = write_results(made)
    if summary.interrupted:
        raise KeyboardInterrupt
    return report


def write_results(made: Plan) -> Report:
    """Build the report of a plan, write it with all its records into the folder of the run, and return it."""
    report = build_report(made.folder)
    with writing(made.folder, CANNOT_WRITE_REMEDY):
        made.store().pack(
            (row.job.key for row in made.rows),
            paired=storable_tests(report.run.paired),
            with_curves=not report.run.sweep,
        )
        write_report(
            report, made.folder
        )  # last: a run with an up-to-date report is not written again
    return report


@with_arguments
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


def compact_run(folder: Path) -> None:
    """Rewrite the files of a finished run so that they take as little space as they can.

    The plan moves from ``run.json`` to the packed records, scores of single tasks are
    rounded as far as no report shows it, and figures of earlier reports go. Nothing is
    computed. A folder that is compact already stays as it is.

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
    is_earlier = any(
        (folder / name).is_file() for name in (EARLIER_PACKED, PREDICTIONS)
    )
    if is_without_plan(raw) and not is_earlier:
        return
    report = build_report(folder)
    run = report.run
    damaged = [*run.unreadable, *run.unsound]
    if damaged:
        raise DataError(f"{folder}: {damaged[0]} is damaged", AGAIN)
    with tempfile.TemporaryDirectory() as temporary:
        trial = Path(temporary, *folder.absolute().parts[-3:])
        shutil.copytree(folder, trial)
        texts = {name: writer(report) for name, writer in FORMATS.items()}
        for task_digits in (*TASK_DIGITS, None):
            _pack_with_plan(trial, folder, run, task_digits)
            again = build_report(trial)
            if all(FORMATS[name](again) == text for name, text in texts.items()):
                break
        else:
            raise DataError(f"{folder}: its report would change", AGAIN)
        with writing(folder, CANNOT_WRITE_REMEDY):
            # First the records with the plan: until run.json says so, they do not count.
            for name in (PACKED, RUN_FILE):
                write_new(folder / name, read_file(trial / name))
            for name in (EARLIER_PACKED, PREDICTIONS):
                (folder / name).unlink(missing_ok=True)
            drawn = {f"{figure.name}.svg" for figure in report.figures}
            for path in (folder / FIGURES).glob("*.svg"):
                if path.name not in drawn:
                    path.unlink()


def _pack_with_plan(
    trial: Path, folder: Path, run: Run, task_digits: int | None
) -> None:
    """Pack the records of a folder and its plan into another folder."""
    records = Records.of_run(folder)
    info = read_plan(folder, records) or {}
    plan = needed_plan(info, run.cells)
    if run.altered:
        # The report goes on saying so.
        plan[DIGEST] = info.get(DIGEST)
    store = Store(records.cells_folder.parent, folder)
    store.run_folder = trial
    store.pack(
        [entry["key"] for entry in plan["cells"]],
        paired=storable_tests(run.paired),
        plan=plan,
        with_curves=not run.sweep,
        task_digits=task_digits,
    )
    write_new(trial / RUN_FILE, file_json(without_plan(plan)).encode())


# ---------------------------------------------------------------------- all artefacts at once

#: Key of `--only` that chooses artefacts, beside those that choose jobs.
ARTEFACT = "artefact"


@dataclass
class Batch:
    """What can be run and what cannot.

    Attributes
    ----------
    plans : list of Plan
        Paper by paper.
    skipped : dict of str to str
        Artefact -> why it is not asked for: no such profile, nothing that `only` names.
    refused : dict of str to UserError
        Artefact -> why it cannot be run: its file is wrong, its data are not here.
    """

    plans: list[Plan] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    refused: dict[str, UserError] = field(default_factory=dict)

    @property
    def left_out(self) -> dict[str, str]:
        """Artefact -> why it is not run, the skipped ones first."""
        refused = {
            name: f"{e.message.splitlines()[0]}. {e.remedy or ''}".strip()
            for name, e in self.refused.items()
        }
        return {**self.skipped, **refused}


def artefacts() -> list[CatalogueEntry]:
    """Return the experiments that belong to a paper, without the training files."""
    return [entry for entry in catalogue() if entry.kind != TRAIN]


def gather(
    *,
    profile: str | None = None,
    seed: int | None = None,
    data_dir: Path | None = None,
    only: Iterable[str] | None = None,
    interpretation: str | None = None,
    output: Path | str,
    prepare: Callable[[Experiment], None] = lambda _: None,
) -> Batch:
    """Plan every artefact that has a profile.

    Parameters
    ----------
    profile : str, optional
        Default: that of each artefact (``quick`` where there is one).
    seed, data_dir, output
        As for `load_experiment` and `plan`.
    only : iterable of str, optional
        As for `plan`; ``artefact=fetr/*`` chooses artefacts.
    interpretation : str, optional
        As for `plan`.
    prepare : callable, optional
        Gets every experiment before it is planned, to fetch its data for instance; a `UserError` refuses the artefact.

    Raises
    ------
    ConfigError
        If no artefact has the profile or what `only` names, or `only` cannot be read.
    """
    parts = [part.strip() for text in only or () for part in text.split(",")]
    chosen = [part for part in parts if part.partition("=")[0].strip() == ARTEFACT]
    wanted = [part.partition("=")[2].strip() for part in chosen]
    cells = [part for part in parts if part not in chosen]
    found = Batch()
    for entry in artefacts():
        if wanted and not any(fnmatchcase(entry.id, pattern) for pattern in wanted):
            continue
        try:
            experiment = load_experiment(entry.path, seed=seed, data_dir=data_dir)
            if profile is not None and profile not in experiment.profiles:
                found.skipped[entry.id] = (
                    f"no profile {profile!r}; it has {', '.join(experiment.profiles)}"
                )
                continue
            if profile not in (None, experiment.profile):
                experiment = load_experiment(
                    entry.path, profile=profile, seed=seed, data_dir=data_dir
                )
            prepare(experiment)
            found.plans.append(
                plan(
                    experiment,
                    data_dir=data_dir,
                    only=cells,
                    interpretation=interpretation,
                    output=output,
                )
            )
        except OnlyError:
            raise
        except NoMatchError:
            found.skipped[entry.id] = (
                f"nothing in it that --only {','.join(cells)} names"
            )
        except UserError as error:
            found.refused[entry.id] = error
    if not found.plans and not found.refused:
        what = (
            f"artefact has the profile {profile!r}"
            if not only
            else f"cell is named by --only {','.join(only)}"
        )
        raise ConfigError(
            f"no {what}",
            "`mtlrun list` shows the artefacts, `mtlrun show NAME` the profiles of one.",
        )
    return found


def to_compute(
    plans: Sequence[Plan], *, force: bool = False
) -> list[tuple[int, int, int]]:
    """Return for every plan how many jobs and folds it computes, and how many a plan before it computes for it."""
    seen: set[str] = set()
    found: list[tuple[int, int, int]] = []
    for made in plans:
        cells, folds = (
            [job.key for job in part]
            for part in missing_jobs(made, made.store(), force=force)
        )
        new = [sum(key not in seen for key in part) for part in (cells, folds)]
        found.append((new[0], new[1], len(cells) + len(folds) - sum(new)))
        seen.update(cells, folds)
    return found


# ---------------------------------------------------------------------- jobs of another machine


@dataclass
class Merged:
    """What became of the jobs of another folder.

    Attributes
    ----------
    copied : int
        Taken: finished there, and not here.
    known : int
        Finished here already.
    foreign : int
        Of no job of the plan here.
    unfinished : int
        Failed there, or unreadable.
    """

    copied: int = 0
    known: int = 0
    foreign: int = 0
    unfinished: int = 0

    def __str__(self) -> str:
        counts = {
            "already finished here": self.known,
            "of other experiments, settings or versions": self.foreign,
            "not finished there": self.unfinished,
        }
        rest = [f"{count} {what}" for what, count in counts.items() if count]
        copied = f"{counted(self.copied, 'cell')} copied"
        return f"{copied} ({', '.join(rest)})" if rest else copied


def merge(folder: Path, other: Path, wait: Callable[[], None] = lambda: None) -> Merged:
    """Copy the finished jobs of another folder that the plan of a run lacks, and note where they were computed.

    Parameters
    ----------
    folder : Path
        Of the run: its plan decides what is taken. A key says everything that a number depends on: jobs of one key are
        the same job, whichever machine computed them.
    other : Path
        The folder of a run, with its packed records or the ``cells/`` of its output folder, or a folder of runs.
    wait : callable
        Called before a process is waited for that computes the run.

    Raises
    ------
    DataError
        If one of the folders is not one of a run, or is of a run with another plan. Nothing is copied then.
    OSError
        If the folder cannot be written.
    """
    run, other = read_run(folder), Path(other)
    if is_without_plan(read_raw(folder / RUN_FILE) or {}) and run.missing:
        raise DataError(
            f"{folder} is compact: it does not say which jobs are missing",
            f"Start the run, which writes its plan: {run.info.get('command')}",
        )
    is_run = (other / "run.json").is_file()
    if is_run:
        _refuse_other_plan(run, read_run(other), other)
    theirs = Records.of_run(other) if is_run else Records(other)
    if not (other / theirs.pack_name).is_file() and not theirs.cells_folder.is_dir():
        raise DataError(
            f"{other} is not the folder of a run: there is no {PACKED} and no {CELLS}/ in it",
            "Give <output>/<paper>/<artefact>/<profile>.",
        )
    wanted = dict.fromkeys(job.key for job in run.all_planned)
    store, merged = Store(Records.of_run(folder).cells_folder.parent, folder), Merged()
    if not is_run:
        merged.foreign = sum(
            path.stem not in wanted for path in theirs.cells_folder.glob("*.json")
        )
    store.cells_folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(store.lock, wait):
        for key in wanted:
            if (
                not theirs.has(key)
                or (theirs.cells_folder / f"{key}.json").is_symlink()
            ):  # a link may lead out of the folder
                continue
            record = _finished(theirs, key)
            if record is None:
                merged.unfinished += 1
            elif key in run.cells and run.cells[key].done:
                merged.known += 1
            else:
                if (scores := theirs.scores(record)) is not None:
                    store.copy_scores(key, scores)
                store.save(record)
                merged.copied += 1
        if merged.copied:
            ours = build_report(folder).run.paired
            tests = {**stored_tests(theirs.packed.paired), **ours}
            store.pack(wanted, paired=storable_tests(tests))
            store.add_provenance(
                (read_json(other / PROVENANCE) or {}).get("runs") or []
            )
    return merged


def _finished(stored: Records, key: str) -> Record | None:
    """Return a finished record whose test scores, if it keeps some, are sound; None for others."""
    try:
        record = stored.read(key)
        if record is None or not record.done:
            return None
        stored.scores(record)  # raises where they are damaged
        return checked(record)
    except ValueError:
        return None


def _refuse_other_plan(run: Run, there: Run, other: Path) -> None:
    """Refuse a run of another experiment, or one that has a job of ours under another key."""
    if (theirs := there.info.get("id")) != (ours := run.info.get("id")):
        raise DataError(
            f"{other} is a run of {theirs}, not of {ours}",
            "Merge runs of one experiment.",
        )
    here = {
        (one.reading, job.name): job.key
        for one in (run, *run.others)
        for job in one.planned
    }
    for reading, job in (
        (one.reading, job) for one in (there, *there.others) for job in one.planned
    ):
        # A compact run has short keys of jobs that were never computed.
        if not here.get((reading, job.name), job.key).startswith(job.key):
            raise DataError(
                f"{other} has another plan: {job.name} was planned there with other settings or another version",
                "Run both with the same file, options and version of mtlrun.",
            )
