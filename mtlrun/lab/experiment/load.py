"""Load experiment and training files, validated with all problems reported at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mtlrun.catalog.analysis import KEYS, read_printed
from mtlrun.errors import ConfigError, UnknownNameError, counted, shorten
from mtlrun.lab.experiment.catalogue import find, name_of, shown_path
from mtlrun.lab.experiment.checks import (
    Sections,
    context_of,
    crosscheck,
    path_in_file,
    read_sections,
)
from mtlrun.lab.experiment.claims import Reference, rule_of
from mtlrun.lab.experiment.layers import Layers, position_text
from mtlrun.lab.experiment.spec import (
    FULL,
    TRAIN,
    TRAIN_KEYS,
    TRAIN_METHOD_KEYS,
    ChunkTraining,
    Experiment,
    ReferenceFile,
    Spec,
    experiment_id,
    plain,
)
from mtlrun.utils.io import as_list
from mtlrun.utils.yaml import (
    Document,
    Finding,
    KeyPath,
    Position,
    Positions,
    load_file,
    nearest,
    render,
    schema_findings,
    unknown_key,
)

DEFAULT_PROFILE = "quick"
#: Splits below which a standard error is too uncertain to decide a claim.
MIN_SPLITS = 3


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
        ``<paper>/<artefact>``, a short name that is unique or has a default, or the
        path of a YAML file.
    profile : str, default=None
        None for ``quick`` if the file has it, else for ``full``, which is the file as
        it stands.
    overrides : iterable of str, default=()
        ``a.b=c``. They take precedence over the profile, and the profile over the file.
    seed : int, default=None
        Base seed, which takes precedence over everything else.
    data_dir : Path or str, default=None
        Data directory, whose data sets may be used, too.

    Raises
    ------
    UnknownNameError
        For an unknown experiment or profile.
    ConfigError
        With all problems of the file and the overrides, each with its position.
    """
    layers = _experiment_layers(target)
    load = partial(
        _load,
        profile=_choose_profile(layers, profile),
        overrides=_checked_overrides(overrides),
        seed=seed,
        data_dir=data_dir,
    )
    main_name, *other_names = _interpretations(layers)
    main = load(layers, main_name)
    others = []
    for name in other_names:
        # `_load` changes the data of its layers, so each interpretation needs new ones.
        other_layers = Layers(layers.document, layers.bases)
        other = load(other_layers, name)
        if other.config != main.config:
            others.append(other)
    return replace(main, others=tuple(others))


def load_training(
    target: str | Path,
    *,
    overrides: Iterable[str] = (),
    seed: int | None = None,
    data_dir: Path | str | None = None,
) -> Experiment:
    """Load and validate a training file (``kind: train``).

    Parameters
    ----------
    target : str or Path
        A name such as ``train/school``, or the path of a YAML file.
    overrides, seed, data_dir
        As for `load_experiment`.

    Returns
    -------
    Experiment
        With one data set and one method.

    Raises
    ------
    UnknownNameError
        For an unknown name.
    ConfigError
        With all problems of the file and the overrides, each with its position.
    """
    _, document = _find_and_read(target)
    layers = Layers(document)
    if not layers.is_training:
        raise ConfigError(
            f"{document.name}: not a training file (kind: train)",
            f"mtlrun reproduce {target} runs it.",
        )
    return _load(
        layers,
        overrides=_checked_overrides(overrides),
        seed=seed,
        data_dir=data_dir,
    )


def _checked_overrides(overrides: Iterable[str]) -> list[str]:
    """Return overrides if none of them conflicts with another one.

    Raises
    ------
    ConfigError
        If a key is set to two values, or together with a section that contains it.
    """
    texts = list(overrides)
    values: dict[str, str] = {}
    for text in texts:
        key, _, value = text.partition("=")
        key = key.strip()
        first = values.setdefault(key, value)
        if first != value:
            raise ConfigError(
                f"--set {key} is given twice: {first} and {value}",
                "Leave one of them out.",
            )
    for key in values:
        sections = [other for other in values if key.startswith(f"{other}.")]
        if sections:
            raise ConfigError(
                f"--set {key} and --set {sections[0]}, which contains it",
                "Leave one of them out, or set all keys one by one.",
            )
    return texts


def chunk_training(
    target: str, overrides: Iterable[str] = (), seed: int | None = None
) -> ChunkTraining | None:
    """Load a training file whose data come in chunks.

    Parameters
    ----------
    target, overrides, seed
        As for `load_training`.

    Returns
    -------
    ChunkTraining or None
        None for any other file.

    Raises
    ------
    ConfigError
        With all problems of the file, each with its position.
    """
    path = find(target)
    layers = Layers(load_file(path, shown_path(path)))
    data = layers.data
    if not layers.is_training or "data" not in data:
        return None
    texts = _checked_overrides(overrides)
    if seed is not None:
        texts.append(f"seed={seed}")
    for text in texts:
        layers.apply_override(text)
    method = read_sections(Sections, data).method
    if isinstance(method, str):
        data["method"] = {"estimator": method}
    training = None
    try:
        training = ChunkTraining.model_validate(data)
    except ValidationError as error:
        for finding in schema_findings(error, data, ChunkTraining):
            layers.report(finding)
    if training is None or layers.problems:
        raise ConfigError(render(layers.problems, layers.document))
    training._folder = path.parent
    return training


def run_of(target: str | Path, *, profile: str | None = None) -> Path:
    """Return the run folder of an experiment, relative to the output folder.

    The data sets of the experiment need not be there.

    Parameters
    ----------
    target, profile
        As for `load_experiment`.

    Raises
    ------
    UnknownNameError
        For an unknown experiment or profile.
    ConfigError
        If the file has no valid id.
    """
    layers = _experiment_layers(target)
    profile = _choose_profile(layers, profile)
    try:
        id = experiment_id(str(read_sections(Sections, layers.document.data).id))
    except ValueError as error:
        name = layers.document.name
        raise ConfigError(
            f"{name}: id: {error}", f"See all problems: mtlrun validate {target}"
        ) from None
    return Path(id, profile)


def validate_file(
    target: str | Path, *, data_dir: Path | str | None = None
) -> Document:
    """Check a file with each of its profiles and interpretations.

    Parameters
    ----------
    target, data_dir
        As for `load_experiment` or `load_training`.

    Returns
    -------
    Document
        The file, if it is valid.

    Raises
    ------
    UnknownNameError
        For an unknown name.
    ConfigError
        With all problems of the file, each with its position. A problem that several
        profiles share is reported once.
    """
    path, document = _find_and_read(target)
    if chunk_training(str(target)) is not None:
        return document
    bases = []
    if not _is_training(document):
        bases = bases_of(document, path)
    layers = Layers(document, bases)
    problems = []
    for profile in layers.profiles:
        for name in _interpretations(layers):
            trial = Layers(document, bases)
            trial.apply_profile(profile)
            trial.apply("reading", ("readings", name, "changes"))
            _validate(trial, data_dir)
            problems += trial.problems
    if problems:
        raise ConfigError(render(problems, document))
    return document


def file_warnings(target: str | Path) -> list[str]:
    """Return a line for each setting of a valid file that acts otherwise than it seems.

    These are values that an inherited profile replaces, and, in the default profile,
    tolerances without deviations and claims with too few splits.
    """
    path, document = _find_and_read(target)
    if _is_training(document):
        return []
    bases = bases_of(document, path)
    lines = []
    for profile in Layers(document, bases).profiles:
        layers = Layers(document, bases)
        layers.apply_profile(profile)
        lines += layers.warnings
    layers = Layers(document, bases)
    profile = _choose_profile(layers, None)
    layers.apply_profile(profile)
    spec = Spec.model_validate(layers.as_experiment())
    for finding in _ineffective_settings(spec, profile):
        position = position_text(layers.position(finding.path), document)
        lines.append(f"{position}: {finding.message}; {finding.hint}")
    return list(dict.fromkeys(lines))


def _ineffective_settings(spec: Spec, profile: str) -> Iterator[Finding]:
    """Yield settings that decide nothing.

    These are tolerances in standard errors of numbers without a deviation, and claims
    about averages over too few splits.
    """
    n_numbers = 0
    for reference in spec.reference:
        if isinstance(reference, Reference) and reference.std is None:
            rule = rule_of(spec.tolerance, reference.quantity)
            n_numbers += reference.sigmas is None and rule.sigmas is not None
    if n_numbers:
        message = (
            f"'sigmas' has no effect on {counted(n_numbers, 'published number')} "
            "without standard deviation"
        )
        hint = "write 0.81±0.02 in the table, or add 'absolute' or 'relative'"
        yield Finding(("tolerance",), message, hint)
    for dataset in spec.datasets:
        split = dataset.split or spec.split
        if split is None or split.n_trials >= MIN_SPLITS:
            continue
        for i, claim in enumerate(spec.claims):
            names: list[str] = []
            for check in claim.checks:
                if check.needs_splits:
                    names += check.dataset or [dataset.name]
            if any(name.startswith((dataset.id, dataset.name)) for name in names):
                message = (
                    f"the default profile {profile!r} has "
                    f"{counted(split.n_trials, 'split')} of {dataset.name}, too few to "
                    f"decide the claim {claim.id!r}"
                )
                hint = f"give it {MIN_SPLITS} or more, or its checks an 'effect'"
                yield Finding(("claims", i), message, hint)


# ------------------------------------------------------------- files and their bases


def bases_of(document: Document, path: Path) -> list[Document]:
    """Return the files that an experiment extends, the lowest layer first.

    Parameters
    ----------
    document : Document
        Experiment.
    path : Path
        Its file.

    Raises
    ------
    ConfigError
        If an extended file does not exist or is not an experiment, or if files extend
        each other in a circle.
    """
    bases: list[Document] = []
    seen = [os.path.realpath(path)]
    extended = _extended_name(document)
    while extended is not None:
        path = _extended_path(document, path, extended)
        real_path = os.path.realpath(path)
        if real_path in seen:
            raise ConfigError(
                f"{document.name}: extends {extended!r}, which extends this file"
            )
        seen.append(real_path)
        document = _read(path)
        if not isinstance(document.data, dict) or _is_training(document):
            raise ConfigError(
                f"{document.name}: not an experiment, so none can extend it"
            )
        bases.insert(0, document)
        extended = _extended_name(document)
    for base in bases:
        # A problem is shown with the name of the extended file, not as a line of the
        # extending file.
        base.places = {
            key_path: Position(where=position_text(position, base))
            for key_path, position in base.places.items()
        }
    return bases


def _extended_name(document: Document) -> str | None:
    """Return the name of the file that a document extends; None if it extends none."""
    name = read_sections(Sections, document.data).extends
    # The schema refuses other values.
    if not isinstance(name, str):
        return None
    return name


def _extended_path(document: Document, path: Path, name: str) -> Path:
    """Return the path of the file that a document extends.

    Parameters
    ----------
    document : Document
    path : Path
        Its file.
    name : str
        Id of an experiment, or path relative to the folder of the document.
    """
    if not name.endswith((".yaml", ".yml")):
        try:
            return find(name)
        except UnknownNameError as error:
            raise ConfigError(
                f"{document.name}: extends an {error.message}", error.remedy
            ) from None
    extended = path.parent / name
    try:
        exists = extended.is_file()
    except OSError:
        # The name is too long for the file system.
        exists = False
    if not exists:
        raise ConfigError(
            f"{document.name}: there is no file {shorten(name, 100)} to extend"
        )
    return extended


def _find_and_read(target: str | Path) -> tuple[Path, Document]:
    path = find(str(target))
    return path, _read(path)


def _read(path: Path) -> Document:
    """Read a file, with the numbers of the printed tables that it names."""
    document = load_file(path, shown_path(path))
    expand_references(document, path.parent, shown_path(path.parent))
    return document


def _is_training(document: Document) -> bool:
    return read_sections(Sections, document.data).kind == TRAIN


def _experiment_layers(target: str | Path) -> Layers:
    path, document = _find_and_read(target)
    if _is_training(document):
        raise ConfigError(
            f"{document.name}: a training file, not an experiment",
            f"Run it with: mtlrun train {target}",
        )
    return Layers(document, bases_of(document, path))


def _choose_profile(layers: Layers, profile: str | None) -> str:
    """Return a profile if the experiment has it; the default profile for None."""
    profiles = layers.profiles
    if profile is None:
        if DEFAULT_PROFILE in profiles:
            return DEFAULT_PROFILE
        return FULL
    if profile not in profiles:
        raise UnknownNameError(
            f"profile of {name_of(layers.document.name)}:", profile, profiles
        )
    return profile


def _interpretations(layers: Layers) -> list[str]:
    """Return the names of the interpretations, the main one first.

    Without interpretations, the only name is "". Files call interpretations readings.
    """
    interpretations = read_sections(Sections, layers.data).readings
    if not interpretations:
        return [""]
    main_names: list[str] = []
    other_names: list[str] = []
    for name, interpretation in interpretations.items():
        is_main = isinstance(interpretation, dict) and "main" in interpretation
        names = main_names if is_main else other_names
        names.append(str(name))
    return [*main_names, *other_names]


# ------------------------------------------------------------- validation


def _load(
    layers: Layers,
    interpretation: str = "",
    *,
    profile: str = FULL,
    overrides: Iterable[str],
    seed: int | None,
    data_dir: Path | str | None,
) -> Experiment:
    """Apply a profile, an interpretation and options, and validate the result.

    The data of the layers change.

    Raises
    ------
    ConfigError
        With all problems.
    """
    paper_datasets = layers.paper_datasets
    layers.apply_profile(profile)
    layers.apply("reading", ("readings", interpretation, "changes"))
    overrides = list(overrides)
    for text in overrides:
        layers.apply_override(text)
    if seed is not None:
        position = Position(where=f"--seed {seed}")
        layers.put(("seed",), seed, position)
        overrides.append(f"seed={seed}")
    spec = _validate(layers, data_dir)
    if spec is None or layers.problems:
        # Because of a wrong option, the rest of the file may only seem to be wrong.
        of_options = [p for p in layers.problems if p.where.startswith("--")]
        raise ConfigError(render(of_options or layers.problems, layers.document))
    places = []
    for i in range(len(spec.datasets)):
        position = layers.position(("datasets", i))
        places.append(position_text(position, layers.document))
    names = [name for name in paper_datasets if isinstance(name, str)]
    return Experiment(
        spec,
        config=plain(spec),
        source=layers.document.name,
        profile=profile,
        profiles=tuple(dict.fromkeys([*spec.profiles, FULL])),
        overrides=tuple(overrides),
        places=tuple(places),
        paper_datasets=tuple(dict.fromkeys(names)),
        interpretation=interpretation,
        warnings=tuple(dict.fromkeys(layers.warnings)),
    )


def _validate(layers: Layers, data_dir: Path | str | None) -> Spec | None:
    """Validate merged data, and note all problems in the layers.

    Returns
    -------
    Spec or None
        None if the schema refuses the data.
    """

    def display_path(path: KeyPath) -> KeyPath:
        return path_in_file(path, layers.data)

    findings: list[Finding] = []
    sections: list[tuple[KeyPath, Any, tuple[str, ...]]] = []
    if layers.is_training:
        sections = [
            ((), layers.data, TRAIN_KEYS),
            (
                ("method",),
                read_sections(Sections, layers.data).method,
                TRAIN_METHOD_KEYS,
            ),
        ]
    for path, section, valid_keys in sections:
        if not isinstance(section, dict):
            continue
        for key in [key for key in section if key not in valid_keys]:
            findings.append(unknown_key((*path, key), valid_keys, display_path))
            # The schema would report it again, without the list of valid keys.
            del section[key]
    data = layers.as_experiment()
    findings += crosscheck(data, data_dir)
    context = context_of(data, data_dir, layers.dataset_names)
    spec = None
    try:
        spec = Spec.model_validate(data, context=context)
    except ValidationError as error:
        findings += schema_findings(error, data, Spec, display_path)
    for finding in findings:
        layers.report(finding)
    return spec


# ------------------------------------------------------------- printed tables

#: Fields that the numbers of a table inherit from its entry.
_INHERITED_FIELDS = (
    "n",
    "profile",
    "source",
    "absolute",
    "relative",
    "sigmas",
    "error_rate",
)


def expand_references(document: Document, folder: Path, folder_name: str) -> None:
    """Replace the printed tables of an experiment and its profiles by their numbers.

    Each number takes the position of its file name in the document. Entries that the
    schema refuses are left alone, so that it reports why.

    Parameters
    ----------
    document : Document
        Experiment; modified in place.
    folder : Path
        Folder of the experiment file, to which the file names of tables are relative.
    folder_name : str
        Name of the folder in messages.

    Raises
    ------
    ConfigError
        If a table cannot be read, with the line and column in the table.
    """
    sections = read_sections(Sections, document.data)
    axis = None
    # The schema refuses other names of an axis later.
    if isinstance(sections.sweep.name, str):
        axis = sections.sweep.name
    layers: dict[KeyPath, Any] = {(): document.data}
    for name, profile in sections.profiles.items():
        layers["profiles", name] = profile
    for layer_path, layer in layers.items():
        references = read_sections(Sections, layer).reference
        if not any(_is_file(entry) for entry in as_list(references)):
            continue
        path = (*layer_path, "reference")
        entries: list[Any] = []
        positions: Positions = {}
        for i, entry in enumerate(as_list(references)):
            entry_path: KeyPath = path
            if isinstance(references, list):
                entry_path = (*path, i)
            numbers = None
            if _is_file(entry):
                numbers = _numbers_of(entry, folder, folder_name, axis)
            if numbers is None:
                numbers = [entry]
                position = nearest(document.places, entry_path)
            else:
                position = nearest(document.places, (*entry_path, "file"))
            # Problems are shown at the value, even if they concern the key.
            position = Position(position.value, position.value)
            for number in numbers:
                positions[*path, len(entries)] = position
                entries.append(number)
        outside = {
            other_path: position
            for other_path, position in document.places.items()
            if other_path == path or other_path[: len(path)] != path
        }
        document.places = outside | positions
        layer["reference"] = entries


def _is_file(entry: object) -> bool:
    return isinstance(entry, dict) and "file" in entry


def _numbers_of(
    table_entry: dict[str, Any], folder: Path, folder_name: str, axis: str | None
) -> list[dict[str, Any]] | None:
    """Return the entries for the numbers of a printed table.

    Parameters
    ----------
    table_entry : dict
        Entry that names the file of the table.
    folder : Path
        Folder of the file.
    folder_name : str
        Name of the folder in messages.
    axis : str or None
        Name of the axis of a sweep, which a column of the table may have.

    Returns
    -------
    list of dict or None
        None if the schema refuses the entry of the table.
    """
    try:
        spec = ReferenceFile.model_validate(table_entry)
    except ValidationError:
        return None
    keys = list(KEYS)
    if axis is not None:
        keys.append(axis)
    table = read_printed(folder / spec.file, f"{folder_name}/{spec.file}", keys)
    unit = Decimal(1)
    if spec.percent:
        unit = Decimal(100)
    entries = []
    for number in table:
        if number.dataset in spec.leave_out:
            continue
        dataset = number.dataset
        if axis is not None and axis in number.where:
            dataset = f"{dataset} ({axis} {number.where[axis]})"
        std = None
        if number.std is not None:
            std = float(number.std / unit)
        entry = {
            "dataset": dataset,
            "method": spec.method or number.head,
            "quantity": number.quantity or spec.quantity or number.head,
            "task": number.task or None,
            "value": float(number.value / unit),
            # A number in percent has two decimals more as a share.
            "decimals": number.decimals + 2 * spec.percent,
            "std": std,
        }
        entry |= {field: table_entry.get(field) for field in _INHERITED_FIELDS}
        entries.append(
            {name: value for name, value in entry.items() if value is not None}
        )
    return entries
