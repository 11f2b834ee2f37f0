"""All artefacts of all papers: which there are, and their plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from mtlrun.errors import ConfigError, UserError
from mtlrun.runs.catalogue import CatalogueEntry, catalogue
from mtlrun.runs.experiment import Experiment
from mtlrun.runs.load import load_experiment
from mtlrun.runs.plan import NoMatchError, OnlyError, Plan, plan
from mtlrun.runs.run import todo
from mtlrun.runs.spec import TRAIN

#: Key of `--only` that chooses artefacts, beside those that choose cells.
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
        refused = {name: f"{e.message.splitlines()[0]}. {e.remedy or ''}".strip() for name, e in self.refused.items()}
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
    reading: str | None = None,
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
    reading : str, optional
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
                found.skipped[entry.id] = f"no profile {profile!r}; it has {', '.join(experiment.profiles)}"
                continue
            if profile not in (None, experiment.profile):
                experiment = load_experiment(entry.path, profile=profile, seed=seed, data_dir=data_dir)
            prepare(experiment)
            found.plans.append(plan(experiment, data_dir=data_dir, only=cells, reading=reading, output=output))
        except OnlyError:
            raise
        except NoMatchError:
            found.skipped[entry.id] = f"nothing in it that --only {','.join(cells)} names"
        except UserError as error:
            found.refused[entry.id] = error
    if not found.plans and not found.refused:
        what = f"artefact has the profile {profile!r}" if not only else f"cell is named by --only {','.join(only)}"
        raise ConfigError(f"no {what}", "`mtlrun list` shows the artefacts, `mtlrun show NAME` the profiles of one.")
    return found


def to_compute(plans: Sequence[Plan], *, force: bool = False) -> list[tuple[int, int, int]]:
    """Return for every plan how many cells and folds it computes, and how many a plan before it computes for it."""
    seen: set[str] = set()
    found: list[tuple[int, int, int]] = []
    for made in plans:
        cells, folds = ([cell.key for cell in part] for part in todo(made, made.store(), force=force))
        new = [sum(key not in seen for key in part) for part in (cells, folds)]
        found.append((new[0], new[1], len(cells) + len(folds) - sum(new)))
        seen.update(cells, folds)
    return found
