"""From the name of an experiment to a validated `Experiment`, all problems reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mtlrun.errors import ConfigError, UnknownNameError, shorten
from mtlrun.runs.catalogue import find, shown_path
from mtlrun.runs.code import remembering
from mtlrun.runs.crosscheck import FIXED, crosscheck
from mtlrun.runs.findings import describe_problems
from mtlrun.runs.layers import Layers, Origin
from mtlrun.runs.schema import ExperimentSpec, Method, Selection, experiment_id
from mtlrun.runs.spec import FULL, Experiment
from mtlrun.runs.trainspec import KIND as TRAIN
from mtlrun.runs.trainspec import validate_training
from mtlrun.utils.yaml import Document, Problem, load_file, render

DEFAULT_PROFILE = "quick"


@remembering()
def load_experiment(
    target: str | Path,
    *,
    profile: str | None = None,
    overrides: Iterable[str] = (),
    seed: int | None = None,
    data_dir: Path | str | None = None,
) -> Experiment:
    """Load, merge and validate an experiment.

    Parameters
    ----------
    target : str or Path
        ``<paper>/<artefact>``, a bare name that is unique or has a default, or the path of a YAML file.
    profile : str, optional
        Default: ``quick`` where the file has it, else ``full`` (the file as it stands).
    overrides : iterable of str
        ``a.b=c``, later ones win; they win over the profile, the profile wins over the file.
    seed : int, optional
        Base seed, wins over everything.
    data_dir : path, optional
        Data directory whose own cards count as known data sets.

    Raises
    ------
    UnknownNameError
        For an unknown experiment or profile.
    ConfigError
        With all problems of the file and of the overrides, each at its place.
    """
    document, bases = _experiment_document(target)
    chosen = _choose_profile(Layers.of(document, bases), profile)
    given = list(overrides)
    layers = _layers(document, bases, chosen, given)
    if seed is not None:
        layers.put(("seed",), seed, Origin("--seed", where=f"--seed {seed}"))
        given.append(f"seed={seed}")
    spec, problems = _validate(layers, _path(data_dir))
    if problems or spec is None:
        raise ConfigError(render(problems, document))
    return Experiment(
        spec,
        _plain(spec),
        chosen,
        tuple(dict.fromkeys([*spec.profiles, FULL])),
        tuple(given),
        {path: origin.text for path, origin in layers.origins.items()},
        document.name,
        _dataset_ids(Layers.of(document, bases).data),
    )


def run_of(target: str | Path, *, profile: str | None = None) -> Path:
    """Return the run folder of an experiment below an output folder, whether or not its data are there.

    Raises
    ------
    UnknownNameError, ConfigError
        For an unknown experiment or profile, or a file that names none.
    """
    document, bases = _experiment_document(target)
    chosen = _choose_profile(Layers.of(document, bases), profile)
    try:
        return Path(experiment_id(str(document.data["id"])), chosen)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{document.name}: id: {error}", f"See all problems: mtlrun validate {target}") from None


def _experiment_document(target: str | Path) -> tuple[Document, list[Document]]:
    """Return the file of an experiment and those that it extends."""
    path = find(str(target))
    document = load_file(path, shown_path(path))
    if _is_training(document):
        raise ConfigError(f"{document.name}: a training file, not an experiment", f"Run it with: mtlrun train {target}")
    return document, bases_of(document, path)


@remembering()
def validate_file(target: str | Path, *, data_dir: Path | str | None = None) -> Document:
    """Check a file with every one of its profiles.

    Returns
    -------
    Document
        The file, when all is well.

    Raises
    ------
    UnknownNameError, ConfigError
        As `load_experiment`; a problem that several profiles share is named once.
    """
    path = find(str(target))
    document = load_file(path, shown_path(path))
    problems: list[Problem] = []
    if _is_training(document):
        problems += validate_training(Layers.of(document), _path(data_dir))[1]
    else:
        bases = bases_of(document, path)
        for name in _profiles(Layers.of(document, bases)):
            problems += _validate(_layers(document, bases, name, []), _path(data_dir))[1]
    if problems:
        raise ConfigError(render(dict.fromkeys(problems), document))
    return document


def _is_training(document: Document) -> bool:
    return isinstance(document.data, dict) and document.data.get("kind") == TRAIN


def bases_of(document: Document, path: Path) -> list[Document]:
    """Return the files that an experiment extends, the lowest first.

    Raises
    ------
    ConfigError
        If there is no such experiment, files extend each other in a circle, or one of them is no experiment file.
    """
    bases: list[Document] = []
    seen = [path.resolve()]
    while isinstance(document.data, dict) and isinstance(document.data.get("extends"), str):
        name = document.data["extends"]
        path = _extended(document, path, name)
        if path.resolve() in seen:
            raise ConfigError(f"{document.name}: extends {name!r}, which extends this file")
        seen.append(path.resolve())
        document = load_file(path, shown_path(path))
        if not isinstance(document.data, dict) or _is_training(document):
            raise ConfigError(f"{document.name}: no experiment, so that none can extend it")
        bases.insert(0, document)
    return bases


def _extended(document: Document, path: Path, name: str) -> Path:
    """Return the file that a document at `path` extends."""
    if not name.endswith((".yaml", ".yml")):
        try:
            return find(name)
        except UnknownNameError as error:
            raise ConfigError(f"{document.name}: extends an {error.message}", error.remedy) from None
    try:
        there = (path.parent / name).is_file()
    except OSError:  # too long a name
        there = False
    if not there:
        raise ConfigError(f"{document.name}: there is no file {shorten(name, 100)} to extend")
    return path.parent / name


def _layers(document: Document, bases: list[Document], profile: str, overrides: list[str]) -> Layers:
    layers = Layers.of(document, bases)
    layers.apply_profile(profile, FIXED)
    for text in overrides:
        layers.apply_override(text, FIXED)
    return layers


def _validate(layers: Layers, data_dir: Path | None) -> tuple[ExperimentSpec | None, list[Problem]]:
    problems = list(layers.problems)
    spec = None
    findings = list(crosscheck(layers.data, data_dir))
    try:
        spec = ExperimentSpec.model_validate(layers.data)
    except ValidationError as error:
        findings += describe_problems(error, layers.data)
    for path, at_key, message, hint in findings:
        origin = layers.origin(path)
        mark = origin.key if at_key else origin.value
        problems.append(Problem(mark, message, hint, origin.where))
    return spec, problems


def _profiles(layers: Layers) -> list[str]:
    return list(dict.fromkeys([*layers.profiles, FULL]))


def _choose_profile(layers: Layers, profile: str | None) -> str:
    known = _profiles(layers)
    if profile is None:
        return DEFAULT_PROFILE if DEFAULT_PROFILE in known else FULL
    if profile not in known:
        raise UnknownNameError(f"profile of {layers.document.name}:", profile, known)
    return profile


def _dataset_ids(data: Mapping[str, Any]) -> tuple[str, ...]:
    entries = data.get("datasets")  # may be wrong, or missing, where a profile or an override replaces it
    ids = (e.get("id") if isinstance(e, dict) else e for e in (entries if isinstance(entries, list) else ()))
    return tuple(dict.fromkeys(name for name in ids if isinstance(name, str)))


def _plain(spec: ExperimentSpec) -> dict[str, Any]:
    """Return the experiment as plain data without empty optional fields; values of `params` are kept as they are."""
    config = spec.model_dump(by_alias=True, exclude={"profiles", "grids", "extends"}, exclude_unset=True)
    config = {name: value for name, value in config.items() if value is not None}
    config["seed"] = spec.seed
    config["methods"] = [_plain_method(spec, method) for method in spec.methods]
    if "features" in config:
        config["features"] = spec.features.plain
    if not spec.measures:
        config["average"] = spec.average
    config["datasets"] = [
        {"id": d.id, **({"label": d.label} if d.label else {}), **d.own, **d.options} for d in spec.datasets
    ]
    if spec.selection is not None:
        config["selection"] = _plain_selection(spec, spec.selection)
    config["metrics"] = spec.all_metrics
    for name in ("timing", "limits", "statistics"):
        section = getattr(spec, name)
        if section is not None:
            config[name] = {k: v for k, v in section.model_dump().items() if v is not None}
    if spec.measures:
        config["repeats"] = spec.repeats
    if spec.split is None:
        return config
    config["split"] = {k: v for k, v in {**spec.split.model_dump(), "trials": None}.items() if v is not None}
    if spec.split.kind != "kfold":
        config["split"]["trials"] = spec.split.n_trials
    return config


def _plain_selection(spec: ExperimentSpec, selection: Selection) -> dict[str, Any]:
    how = {"on": selection.on} if selection.on == "validation" else {"folds": selection.folds}
    one = all(dataset.metrics is None for dataset in spec.datasets)
    metric = selection.metric or (spec.metrics[0] if one else None)  # else it is the first of each data set
    return {**how, **({"metric": metric} if metric else {})}


def _plain_method(spec: ExperimentSpec, method: Method) -> dict[str, Any]:
    where = {"datasets": method.datasets} if method.datasets else {}
    if method.measure:
        return {"label": method.label, "measure": method.measure, "params": method.params, **where}
    return {
        "label": method.label,
        "estimator": method.estimator,
        "params": method.params,
        "grid": {k: spec.grids[v] if isinstance(v, str) else v for k, v in method.grid.items()},
        "select_with": method.select_with,
        **where,
    }


def _path(folder: Path | str | None) -> Path | None:
    return None if folder is None else Path(folder)
