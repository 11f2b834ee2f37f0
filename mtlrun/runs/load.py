"""From the name of an experiment or training file to a validated `Experiment`, all problems reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mtlrun.errors import ConfigError, UnknownNameError, shorten
from mtlrun.papers.printed import KEYS, read_printed
from mtlrun.runs.catalogue import find, name_of, shown_path
from mtlrun.runs.checks import crosscheck, shown
from mtlrun.runs.chunkspec import chunk_training
from mtlrun.runs.layers import Layers, Origin
from mtlrun.runs.spec import (
    FULL,
    TRAIN,
    TRAIN_KEYS,
    TRAIN_METHOD_KEYS,
    Experiment,
    ReferenceFile,
    Spec,
    experiment_id,
    plain,
)
from mtlrun.utils.io import as_list
from mtlrun.utils.yaml import Document, Finding, KeyPath, Mark, load_file, render, schema_findings, unknown_key

DEFAULT_PROFILE = "quick"
#: Fields of an entry that all its numbers take over.
_SHARED = ("n", "profile", "source", "absolute", "relative", "sigmas", "error_rate")


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
    layers = _experiment_layers(target)
    chosen, given = _choose_profile(layers, profile), list(overrides)
    names = _readings(layers)
    main = _load(layers, chosen, given, seed, data_dir, names[0])
    documents = layers.document, layers.bases
    others = (_load(Layers(*documents), chosen, given, seed, data_dir, name) for name in names[1:])
    return replace(main, others=tuple(other for other in others if other.config != main.config))


def load_training(
    target: str | Path,
    *,
    overrides: Iterable[str] = (),
    seed: int | None = None,
    data_dir: Path | str | None = None,
) -> Experiment:
    """Load and validate a training file (``kind: train``): an experiment with one data set and one method.

    Parameters and errors are those of `load_experiment`; names are such as ``train/school``.
    """
    layers = Layers(_document(target)[1])
    if not layers.training:
        name = layers.document.name
        raise ConfigError(f"{name}: not a training file (kind: train)", f"mtlrun reproduce {target} runs it.")
    return _load(layers, FULL, overrides, seed, data_dir)


def run_of(target: str | Path, *, profile: str | None = None) -> Path:
    """Return the run folder of an experiment below an output folder, whether or not its data are there.

    Raises
    ------
    UnknownNameError, ConfigError
        For an unknown experiment or profile, or a file that names none.
    """
    layers = _experiment_layers(target)
    chosen = _choose_profile(layers, profile)
    try:
        return Path(experiment_id(str(layers.document.data["id"])), chosen)
    except (KeyError, TypeError, ValueError) as error:
        name = layers.document.name
        raise ConfigError(f"{name}: id: {error}", f"See all problems: mtlrun validate {target}") from None


def validate_file(target: str | Path, *, data_dir: Path | str | None = None) -> Document:
    """Check a file with every one of its profiles, and return it when all is well.

    Raises
    ------
    UnknownNameError, ConfigError
        As `load_experiment`; a problem that several profiles share is named once.
    """
    path, document = _document(target)
    if chunk_training(str(target)) is not None:
        return document
    bases = [] if _is_training(document) else bases_of(document, path)
    problems = []
    for profile in _profiles(Layers(document, bases)):
        for reading in _readings(Layers(document, bases)):
            layers = Layers(document, bases)
            layers.apply_profile(profile)
            layers.apply_reading(reading)
            _validate(layers, data_dir)
            problems += layers.problems
    if problems:
        raise ConfigError(render(problems, document))
    return document


def bases_of(document: Document, path: Path) -> list[Document]:
    """Return the files that an experiment extends, the lowest first.

    Raises
    ------
    ConfigError
        If there is no such experiment, files extend each other in a circle, or one of them is not an experiment.
    """
    bases: list[Document] = []
    seen = [path.resolve()]
    while isinstance(document.data, dict) and isinstance(document.data.get("extends"), str):
        name = document.data["extends"]
        path = _extended(document, path, name)
        if path.resolve() in seen:
            raise ConfigError(f"{document.name}: extends {name!r}, which extends this file")
        seen.append(path.resolve())
        document = _read(path)
        if not isinstance(document.data, dict) or _is_training(document):
            raise ConfigError(f"{document.name}: not an experiment, so none can extend it")
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


def _document(target: str | Path) -> tuple[Path, Document]:
    path = find(str(target))
    return path, _read(path)


def _read(path: Path) -> Document:
    """Read a file, with the numbers of the printed tables that it names."""
    document = load_file(path, shown_path(path))
    _expand_references(document, path.parent, shown_path(path.parent))
    return document


def _is_training(document: Document) -> bool:
    return isinstance(document.data, dict) and document.data.get("kind") == TRAIN


def _experiment_layers(target: str | Path) -> Layers:
    path, document = _document(target)
    if _is_training(document):
        raise ConfigError(f"{document.name}: a training file, not an experiment", f"Run it with: mtlrun train {target}")
    return Layers(document, bases_of(document, path))


def _profiles(layers: Layers) -> list[str]:
    return list(dict.fromkeys([*layers.profiles, FULL]))


def _choose_profile(layers: Layers, profile: str | None) -> str:
    known = _profiles(layers)
    if profile is None:
        return DEFAULT_PROFILE if DEFAULT_PROFILE in known else FULL
    if profile not in known:
        raise UnknownNameError(f"profile of {name_of(layers.document.name)}:", profile, known)
    return profile


def _readings(layers: Layers) -> list[str]:
    """Return the names of the readings, that of the main one first; one without a name where there are none."""
    readings = layers.data.get("readings")
    if not isinstance(readings, dict) or not readings:
        return [""]
    return sorted(
        map(str, readings), key=lambda name: not (isinstance(readings[name], dict) and "main" in readings[name])
    )


def _load(
    layers: Layers,
    profile: str,
    overrides: Iterable[str],
    seed: int | None,
    data_dir: Path | str | None,
    reading: str = "",
) -> Experiment:
    """Apply a profile, a reading, overrides and the seed, and validate what comes out."""
    entries = layers.data.get("datasets")  # may be wrong, or missing, where a profile or an override replaces it
    ids = [e.get("id") if isinstance(e, dict) else e for e in (entries if isinstance(entries, list) else ())]
    given = list(overrides)
    layers.apply_profile(profile)
    layers.apply_reading(reading)
    for text in given:
        layers.apply_override(text)
    if seed is not None:
        layers.put(("seed",), seed, Origin(where=f"--seed {seed}"))
        given.append(f"seed={seed}")
    spec = _validate(layers, data_dir)
    if layers.problems or spec is None:
        # What is wrong with an option comes first: the rest of the file may only look wrong because of it.
        of_options = [problem for problem in layers.problems if problem.where.startswith("--")]
        raise ConfigError(render(of_options or layers.problems, layers.document))
    return Experiment(
        spec,
        plain(spec),
        layers.document.name,
        profile,
        tuple(dict.fromkeys([*spec.profiles, FULL])),
        tuple(given),
        tuple(layers.place(("datasets", i)) for i in range(len(spec.datasets))),
        tuple(dict.fromkeys(name for name in ids if isinstance(name, str))),
        reading,
    )


def _validate(layers: Layers, data_dir: Path | str | None) -> Spec | None:
    """Return the specification, None if it is none; all problems are noted in the layers."""
    found = list(_unknown_in_training(layers)) if layers.training else []
    data = layers.as_experiment()
    found += crosscheck(data, None if data_dir is None else Path(data_dir))
    spec = None
    try:
        spec = Spec.model_validate(data)
    except ValidationError as error:
        found += schema_findings(error, data, Spec, lambda path: shown(path, data))
    for path, at_key, message, hint in found:
        layers.problem(layers.origin(path), message, hint, at_key=at_key)
    return spec


def _unknown_in_training(layers: Layers) -> Iterator[Finding]:
    """Yield the keys that training files do not have, and take them out."""
    sections: dict[KeyPath, Any] = {(): layers.data, ("method",): layers.data.get("method")}
    for path, section in sections.items():
        known = TRAIN_METHOD_KEYS if path else TRAIN_KEYS
        for name in [key for key in section if key not in known] if isinstance(section, dict) else ():
            yield unknown_key((*path, name), known, lambda path: shown(path, layers.data))
            del section[name]


# --- numbers that stand in printed tables


def _expand_references(document: Document, folder: Path, name: str) -> None:
    """Put the numbers of printed tables into an experiment and its profiles, each with the mark of its file.

    Entries that the schema refuses stay as they are, for it to say why.

    Parameters
    ----------
    document : Document
        Changed in place.
    folder : Path
        Of the experiment file; tables are named from there on.
    name : str
        How messages call the folder.

    Raises
    ------
    ConfigError
        If a table cannot be read, with the line and column of its cells.
    """
    data = document.data if isinstance(document.data, dict) else {}
    profiles = data.get("profiles")
    sections: dict[KeyPath, Any] = {(): data}
    sections |= {("profiles", key): section for key, section in profiles.items()} if isinstance(profiles, dict) else {}
    axis = data["sweep"].get("name") if isinstance(data.get("sweep"), dict) else None
    for path, section in sections.items():
        if isinstance(section, dict) and any(_is_file(entry) for entry in as_list(section.get("reference"))):
            _expand(document, section, (*path, "reference"), folder, name, axis)


def _is_file(entry: Any) -> bool:
    return isinstance(entry, dict) and "file" in entry


def _expand(document: Document, section: dict[str, Any], here: KeyPath, folder: Path, name: str, axis: Any) -> None:
    """Replace the entries of one section; each number then stands where the table is named."""
    listed = isinstance(section["reference"], list)
    entries: list[Any] = []
    marks: list[Mark | None] = []
    for i, entry in enumerate(as_list(section["reference"])):
        source: KeyPath = (*here, i) if listed else here
        numbers = _numbers(entry, folder, name, axis) if _is_file(entry) else None
        entries += [entry] if numbers is None else numbers
        mark = document.value_mark(source if numbers is None else (*source, "file"))
        marks += [mark] * (1 if numbers is None else len(numbers))
    for known in (document.keys, document.values):
        for path in [path for path in known if path[: len(here)] == here and len(path) > len(here)]:
            del known[path]
    document.values |= {(*here, k): mark for k, mark in enumerate(marks) if mark is not None}
    section["reference"] = entries


def _numbers(entry: dict[str, Any], folder: Path, name: str, axis: Any) -> list[dict[str, Any]] | None:
    """Return the numbers of a printed table as entries of their own; None if the schema refuses the entry."""
    try:
        spec = ReferenceFile.model_validate(entry)
    except ValidationError:
        return None
    keys = [*KEYS, *[axis] * isinstance(axis, str)]
    table = read_printed(folder / spec.file, f"{name}/{spec.file}", keys)
    shared = {field: entry[field] for field in _SHARED if entry.get(field) is not None}
    found = []
    for number in table:
        place = number.where.get("data set", "")
        if place in spec.leave_out:
            continue
        if axis in number.where:
            place = f"{place} ({axis} {number.where[axis]})"
        quantity = number.where.get("quantity") or spec.quantity or number.head
        new: dict[str, Any] = {"dataset": place, "method": spec.method or number.head, "quantity": quantity}
        if number.where.get("task"):
            new["task"] = number.where["task"]
        unit = Decimal(100 if spec.percent else 1)
        new |= {"value": float(number.value / unit), "decimals": number.decimals + 2 * spec.percent}
        if number.std is not None:
            new["std"] = float(number.std / unit)
        found.append({**new, **shared})
    return found
