"""All artefacts of all papers: which there are, their plans, and an order in which they share cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from mtlrun.errors import ConfigError, UserError
from mtlrun.runs.catalogue import Entry, catalogue
from mtlrun.runs.load import load_experiment
from mtlrun.runs.only import NoMatchError, OnlyError
from mtlrun.runs.plan import Plan, plan
from mtlrun.runs.run import todo
from mtlrun.runs.spec import TRAIN, Experiment

#: Key of `--only` that chooses artefacts, beside those that choose cells.
ARTEFACT = "artefact"


@dataclass
class Everything:
    """What can be run, in its order, and what cannot.

    Attributes
    ----------
    plans : list of Plan
        Artefacts that share cells with others stand first in their paper, the largest before the others.
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
        told = {name: f"{e.message.splitlines()[0]}. {e.remedy or ''}".strip() for name, e in self.refused.items()}
        return {**self.skipped, **told}


def artefacts(folder: Path | None = None) -> list[Entry]:
    """Return the experiments that belong to a paper, without the training files."""
    return [entry for entry in catalogue(folder) if entry.kind != TRAIN]


def gather(
    *,
    profile: str | None = None,
    seed: int | None = None,
    data_dir: Path | None = None,
    only: Iterable[str] | None = None,
    output: Path | str,
    prepare: Callable[[Experiment], None] | None = None,
    folder: Path | None = None,
) -> Everything:
    """Plan every artefact that has a profile.

    Parameters
    ----------
    profile : str, optional
        Default: that of each artefact (``quick`` where there is one).
    seed, data_dir, output
        As for `load_experiment` and `plan`.
    only : iterable of str, optional
        As for `plan`; ``artefact=fetr/*`` chooses artefacts.
    prepare : callable, optional
        Gets every experiment before it is planned, to fetch its data for instance; a `UserError` refuses the artefact.
    folder : Path, optional
        Where the experiments lie; default: the shipped ones.

    Raises
    ------
    ConfigError
        If no artefact has the profile or what `only` names, or `only` cannot be read.
    """
    wanted, cells = _split(only)
    found = Everything()
    for entry in artefacts(folder):
        if wanted and not any(fnmatchcase(entry.id, pattern) for pattern in wanted):
            continue
        try:
            experiment = _load(entry, profile, seed, data_dir, found)
            if experiment is not None:
                if prepare is not None:
                    prepare(experiment)
                found.plans.append(plan(experiment, data_dir=data_dir, only=cells or None, output=output))
        except OnlyError:
            raise
        except NoMatchError:
            found.skipped[entry.id] = f"nothing in it that --only {','.join(cells)} names"
        except UserError as error:
            found.refused[entry.id] = error
    if not found.plans and not found.refused:
        what = f"artefact has the profile {profile!r}" if not only else f"cell is named by --only {','.join(only)}"
        raise ConfigError(f"no {what}", "mtlrun list names the artefacts, mtlrun show NAME one with its profiles.")
    found.plans = in_order(found.plans)
    return found


def in_order(plans: Sequence[Plan]) -> list[Plan]:
    """Return plans paper by paper, those first whose cells others have as well, of them the largest first."""
    keys = {made.experiment.id: set(made.names) for made in plans}
    count = Counter(key for own in keys.values() for key in own)

    def place(made: Plan) -> tuple[str, int, int, str]:
        name = made.experiment.id
        shared = sum(count[key] > 1 for key in keys[name])
        return name.partition("/")[0], -shared, -len(keys[name]) if shared else 0, name

    return sorted(plans, key=place)


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


def _load(
    entry: Entry, profile: str | None, seed: int | None, data_dir: Path | None, found: Everything
) -> Experiment | None:
    """Load an experiment with the profile; note the one that has none of that name."""
    experiment = load_experiment(str(entry.path), seed=seed, data_dir=data_dir)
    if profile is None or profile == experiment.profile:
        return experiment
    if profile not in experiment.profiles:
        found.skipped[entry.id] = f"no profile {profile!r}; it has {', '.join(experiment.profiles)}"
        return None
    return load_experiment(str(entry.path), profile=profile, seed=seed, data_dir=data_dir)


def _split(only: Iterable[str] | None) -> tuple[list[str], list[str]]:
    """Return the patterns of artefacts and the other parts of `only`."""
    parts = [part.strip() for text in only or () for part in text.split(",")]
    mine = [part for part in parts if part.partition("=")[0].strip() == ARTEFACT]
    return [part.partition("=")[2].strip() for part in mine], [part for part in parts if part not in mine]
