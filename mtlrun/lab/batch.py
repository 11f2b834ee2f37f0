"""Plan all experiments of the papers at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from mtlrun.engine.run import missing_jobs
from mtlrun.errors import ConfigError, UserError
from mtlrun.lab.experiment.catalogue import CatalogueEntry, catalogue
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.experiment.spec import TRAIN, Experiment
from mtlrun.lab.plan import NoMatchError, OnlyError, Plan, plan

#: Key of `--only` that selects artefacts; the other keys select jobs.
ARTEFACT = "artefact"


@dataclass
class Batch:
    """Plans of artefacts, and the artefacts that cannot be run.

    Attributes
    ----------
    plans : list of Plan
        Paper by paper.
    skipped : dict of str to str
        Artefact -> reason why it is not requested: it lacks the profile, or `only`
        matches nothing in it.
    refused : dict of str to UserError
        Artefact -> reason why it cannot be run: its file is wrong, or its data are
        missing.
    """

    plans: list[Plan] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    refused: dict[str, UserError] = field(default_factory=dict)

    @property
    def left_out(self) -> dict[str, str]:
        """Artefact -> reason why it is not run, with the skipped ones first."""
        reasons = dict(self.skipped)
        for name, error in self.refused.items():
            first_line = error.message.splitlines()[0]
            reasons[name] = f"{first_line}. {error.remedy or ''}".strip()
        return reasons


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
    profile : str, default=None
        None for the default of each artefact, which is ``quick`` if it has it.
    seed, data_dir
        As for `load_experiment`.
    only : iterable of str, default=None
        As for `plan`. In addition, ``artefact=fetr/*`` selects artefacts.
    interpretation, output
        As for `plan`.
    prepare : callable, optional
        Called with each experiment before it is planned, for example to fetch its data.
        If it raises a `UserError`, the artefact is refused.

    Raises
    ------
    ConfigError
        If no artefact has the profile or matches `only`, or if `only` cannot be parsed.
    """
    only = list(only or ())
    # Separate parts of `only` that select artefacts from parts that select jobs.
    patterns: list[str] = []
    only_jobs: list[str] = []
    for text in only:
        for part in text.split(","):
            key, _, pattern = part.partition("=")
            if key.strip() == ARTEFACT:
                patterns.append(pattern.strip())
            else:
                only_jobs.append(part.strip())
    batch = Batch()
    for entry in artefacts():
        if patterns and not any(fnmatchcase(entry.id, text) for text in patterns):
            continue
        try:
            experiment = load_experiment(entry.path, seed=seed, data_dir=data_dir)
            if profile is not None and profile not in experiment.profiles:
                profiles = ", ".join(experiment.profiles)
                batch.skipped[entry.id] = f"no profile {profile!r}; it has {profiles}"
                continue
            if profile not in (None, experiment.profile):
                experiment = load_experiment(
                    entry.path, profile=profile, seed=seed, data_dir=data_dir
                )
            prepare(experiment)
            batch.plans.append(
                plan(
                    experiment,
                    data_dir=data_dir,
                    only=only_jobs,
                    interpretation=interpretation,
                    output=output,
                )
            )
        except OnlyError:
            raise
        except NoMatchError:
            job_patterns = ",".join(only_jobs)
            batch.skipped[entry.id] = f"nothing in it that --only {job_patterns} names"
        except UserError as error:
            batch.refused[entry.id] = error
    if not batch.plans and not batch.refused:
        reason = f"artifact has the profile {profile!r}"
        if only:
            reason = f"result is named by --only {','.join(only)}"
        raise ConfigError(
            f"no {reason}",
            "`mtlrun list` shows the artifacts, `mtlrun show NAME` the profiles of "
            "one.",
        )
    return batch


class WorkCount(NamedTuple):
    """Numbers of jobs to compute for a plan.

    Attributes
    ----------
    n_jobs, n_folds : int
        Jobs of the table, and folds of searches, that the plan computes.
    n_shared : int
        Jobs and folds that an earlier plan computes for this one.
    """

    n_jobs: int
    n_folds: int
    n_shared: int


def to_compute(plans: Sequence[Plan], *, force: bool = False) -> list[WorkCount]:
    """Count the work of plans that are computed in this order.

    Parameters
    ----------
    plans : sequence of Plan
    force : bool, default=False
        Whether finished jobs are computed again.
    """
    planned_keys: set[str] = set()
    counts = []
    for planned in plans:
        jobs, folds = missing_jobs(planned, planned.store(), force=force)
        # The keys of a plan are added after both counts: within a plan nothing is
        # shared.
        new_jobs = [job.key for job in jobs if job.key not in planned_keys]
        new_folds = [fold.key for fold in folds if fold.key not in planned_keys]
        n_shared = len(jobs) + len(folds) - len(new_jobs) - len(new_folds)
        counts.append(WorkCount(len(new_jobs), len(new_folds), n_shared))
        planned_keys.update(new_jobs, new_folds)
    return counts
