"""From the name of an experiment or training file to a validated `Experiment`, all problems reported at once.

At the end: how a file is laid over those that it extends, and a profile, a reading and overrides over it.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mtlrun.engine.analysis import KEYS, read_printed
from mtlrun.engine.job import is_nested
from mtlrun.engine.methods import has_parameter
from mtlrun.errors import ConfigError, UnknownNameError, UserError, shorten, suggest
from mtlrun.lab.catalogue import find, name_of, shown_path
from mtlrun.lab.checks import crosscheck, shown
from mtlrun.lab.extension import common_paths, has_other_setting
from mtlrun.lab.report.checks import Claim
from mtlrun.lab.spec import (
    FULL,
    TRAIN,
    TRAIN_KEYS,
    TRAIN_METHOD_KEYS,
    ChunkTraining,
    Experiment,
    ReferenceFile,
    Spec,
    as_experiment,
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
    YamlProblem,
    load_file,
    load_text,
    nearest,
    render,
    schema_findings,
    unknown_key,
)

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
    chosen = _choose_profile(layers, profile)
    given = _checked_overrides(overrides)
    names = _readings(layers)
    main = _load(layers, chosen, given, seed, data_dir, names[0])
    documents = layers.document, layers.bases
    others = (
        _load(Layers(*documents), chosen, given, seed, data_dir, name)
        for name in names[1:]
    )
    return replace(
        main, others=tuple(other for other in others if other.config != main.config)
    )


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
        raise ConfigError(
            f"{name}: not a training file (kind: train)",
            f"mtlrun reproduce {target} runs it.",
        )
    return _load(layers, FULL, _checked_overrides(overrides), seed, data_dir)


def _checked_overrides(overrides: Iterable[str]) -> list[str]:
    """Return overrides, none of which takes back another one.

    Raises
    ------
    ConfigError
        If a key is set to two values, or together with a section that contains it.
    """
    texts = list(overrides)
    values: dict[str, str] = {}
    for text in texts:
        key, _, value = text.partition("=")
        first = values.setdefault(key.strip(), value)
        if first != value:
            raise ConfigError(
                f"--set {key.strip()} is given twice: {first} and {value}",
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
    """Return a training file whose data come in chunks; None for any other file.

    Raises
    ------
    ConfigError
        With all problems of the file, each at its place.
    """
    path = find(target)
    layers = Layers(load_file(path, shown_path(path)))
    if not layers.training or "data" not in layers.data:
        return None
    given = _checked_overrides(overrides)
    for text in [*given, *([] if seed is None else [f"seed={seed}"])]:
        layers.apply_override(text)
    if isinstance(layers.data.get("method"), str):
        layers.data["method"] = {"estimator": layers.data["method"]}
    spec = None
    try:
        spec = ChunkTraining.model_validate(layers.data)
    except ValidationError as error:
        for place, at_key, message, hint in schema_findings(
            error, layers.data, ChunkTraining
        ):
            layers.problem(layers.place(place), message, hint, at_key=at_key)
    if spec is None or layers.problems:
        raise ConfigError(render(layers.problems, layers.document))
    spec._folder = path.parent
    return spec


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
        raise ConfigError(
            f"{name}: id: {error}", f"See all problems: mtlrun validate {target}"
        ) from None


def validate_file(
    target: str | Path, *, data_dir: Path | str | None = None
) -> Document:
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
    for profile in Layers(document, bases).profiles:
        for reading in _readings(Layers(document, bases)):
            layers = Layers(document, bases)
            layers.apply_profile(profile)
            layers.apply_reading(reading)
            _validate(layers, data_dir)
            problems += layers.problems
    if problems:
        raise ConfigError(render(problems, document))
    return document


def replaced_values(target: str | Path) -> list[str]:
    """Return the values of a valid file that inherited profiles replace, a line each."""
    path, document = _document(target)
    if chunk_training(str(target)) is not None or _is_training(document):
        return []
    bases = bases_of(document, path)
    lines = []
    for profile in Layers(document, bases).profiles:
        layers = Layers(document, bases)
        layers.apply_profile(profile)
        lines += layers.warnings
    return list(dict.fromkeys(lines))


def bases_of(document: Document, path: Path) -> list[Document]:
    """Return the files that an experiment extends, the lowest first.

    Raises
    ------
    ConfigError
        If there is no such experiment, files extend each other in a circle, or one of them is not an experiment.
    """
    bases: list[Document] = []
    seen = [os.path.realpath(path)]
    while isinstance(document.data, dict) and isinstance(
        document.data.get("extends"), str
    ):
        name = document.data["extends"]
        path = _extended(document, path, name)
        if os.path.realpath(path) in seen:
            raise ConfigError(
                f"{document.name}: extends {name!r}, which extends this file"
            )
        seen.append(os.path.realpath(path))
        document = _read(path)
        if not isinstance(document.data, dict) or _is_training(document):
            raise ConfigError(
                f"{document.name}: not an experiment, so none can extend it"
            )
        bases.insert(0, document)
    for base in bases:  # problems are shown in the file itself
        base.places = {
            path: Position(where=shown_place(place, base))
            for path, place in base.places.items()
        }
    return bases


def shown_place(place: Position, document: Document) -> str:
    """Return how messages call a place."""
    mark = f":{place.value.line}:{place.value.column}" if place.value else ""
    return place.where or f"{document.name}{mark}"


def _extended(document: Document, path: Path, name: str) -> Path:
    """Return the file that a document at `path` extends."""
    if not name.endswith((".yaml", ".yml")):
        try:
            return find(name)
        except UnknownNameError as error:
            raise ConfigError(
                f"{document.name}: extends an {error.message}", error.remedy
            ) from None
    try:
        there = (path.parent / name).is_file()
    except OSError:  # too long a name
        there = False
    if not there:
        raise ConfigError(
            f"{document.name}: there is no file {shorten(name, 100)} to extend"
        )
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
        raise ConfigError(
            f"{document.name}: a training file, not an experiment",
            f"Run it with: mtlrun train {target}",
        )
    return Layers(document, bases_of(document, path))


def _choose_profile(layers: Layers, profile: str | None) -> str:
    known = layers.profiles
    if profile is None:
        return DEFAULT_PROFILE if DEFAULT_PROFILE in known else FULL
    if profile not in known:
        raise UnknownNameError(
            f"profile of {name_of(layers.document.name)}:", profile, known
        )
    return profile


def _readings(layers: Layers) -> list[str]:
    """Return the names of the readings, that of the main one first; one without a name where there are none."""
    readings = layers.data.get("readings")
    if not isinstance(readings, dict) or not readings:
        return [""]
    return sorted(
        map(str, readings),
        key=lambda name: (
            not (isinstance(readings[name], dict) and "main" in readings[name])
        ),
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
    ids = layers.paper_datasets
    given = list(overrides)
    layers.apply_profile(profile)
    layers.apply_reading(reading)
    for text in given:
        layers.apply_override(text)
    if seed is not None:
        layers.put(("seed",), seed, Position(where=f"--seed {seed}"))
        given.append(f"seed={seed}")
    spec = _validate(layers, data_dir)
    if layers.problems or spec is None:
        # What is wrong with an option comes first: the rest of the file may only look wrong because of it.
        of_options = [
            problem for problem in layers.problems if problem.where.startswith("--")
        ]
        raise ConfigError(render(of_options or layers.problems, layers.document))
    return Experiment(
        spec,
        plain(spec),
        layers.document.name,
        profile,
        tuple(dict.fromkeys([*spec.profiles, FULL])),
        tuple(given),
        tuple(
            shown_place(layers.place(("datasets", i)), layers.document)
            for i in range(len(spec.datasets))
        ),
        tuple(dict.fromkeys(name for name in ids if isinstance(name, str))),
        reading,
        warnings=tuple(dict.fromkeys(layers.warnings)),
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
        layers.problem(layers.place(path), message, hint, at_key=at_key)
    return spec


def _unknown_in_training(layers: Layers) -> Iterator[Finding]:
    """Yield the keys that training files do not have, and take them out."""
    sections: dict[KeyPath, Any] = {
        (): layers.data,
        ("method",): layers.data.get("method"),
    }
    for path, section in sections.items():
        known = TRAIN_METHOD_KEYS if path else TRAIN_KEYS
        for name in (
            [key for key in section if key not in known]
            if isinstance(section, dict)
            else ()
        ):
            yield unknown_key(
                (*path, name), known, lambda path: shown(path, layers.data)
            )
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
    sections |= (
        {("profiles", key): section for key, section in profiles.items()}
        if isinstance(profiles, dict)
        else {}
    )
    sweep = data.get("sweep")
    axis = sweep.get("name") if isinstance(sweep, dict) else None
    if not isinstance(axis, str):
        # The schema refuses other names later.
        axis = None
    for path, section in sections.items():
        if isinstance(section, dict) and any(
            _is_file(entry) for entry in as_list(section.get("reference"))
        ):
            _expand(document, section, (*path, "reference"), folder, name, axis)


def _is_file(entry: object) -> bool:
    return isinstance(entry, dict) and "file" in entry


def _expand(
    document: Document,
    section: dict[str, Any],
    here: KeyPath,
    folder: Path,
    name: str,
    axis: str | None,
) -> None:
    """Replace the entries of one section; each number then stands where the table is named."""
    listed = isinstance(section["reference"], list)
    entries: list[Any] = []
    places: Positions = {}
    for i, entry in enumerate(as_list(section["reference"])):
        source: KeyPath = (*here, i) if listed else here
        numbers = _numbers(entry, folder, name, axis) if _is_file(entry) else None
        place = nearest(
            document.places, source if numbers is None else (*source, "file")
        )
        for number in [entry] if numbers is None else numbers:
            places[(*here, len(entries))] = Position(place.value, place.value)
            entries.append(number)
    outside = {
        path: place
        for path, place in document.places.items()
        if path[: len(here)] != here or path == here
    }
    document.places = outside | places
    section["reference"] = entries


def _numbers(
    entry: dict[str, Any], folder: Path, name: str, axis: str | None
) -> list[dict[str, Any]] | None:
    """Return the numbers of a printed table as entries of their own; None if the schema refuses the entry."""
    try:
        spec = ReferenceFile.model_validate(entry)
    except ValidationError:
        return None
    keys = [*KEYS] if axis is None else [*KEYS, axis]
    table = read_printed(folder / spec.file, f"{name}/{spec.file}", keys)
    shared = {field: entry[field] for field in _SHARED if entry.get(field) is not None}
    found = []
    for number in table:
        place = number.where.get("data set", "")
        if place in spec.leave_out:
            continue
        if axis is not None and axis in number.where:
            place = f"{place} ({axis} {number.where[axis]})"
        quantity = number.where.get("quantity") or spec.quantity or number.head
        new: dict[str, Any] = {
            "dataset": place,
            "method": spec.method or number.head,
            "quantity": quantity,
        }
        if number.where.get("task"):
            new["task"] = number.where["task"]
        unit = Decimal(100 if spec.percent else 1)
        new |= {
            "value": float(number.value / unit),
            "decimals": number.decimals + 2 * spec.percent,
        }
        if number.std is not None:
            new["std"] = float(number.std / unit)
        found.append({**new, **shared})
    return found


# ---------------------------------------------------------------------- layers
# A file lies over those that it extends, below a profile and overrides; every value knows where it comes from.

#: What a file that extends another one does not take from it.
OWN = ("id", "title", "kind", "default_for", "extends")
#: Keys that a profile or an override may not change: they say what the experiment is.
FIXED = ("schema", "paper", "profiles", "readings", *OWN)
#: Lists whose entries have a label or an id.
_NAMED = ("datasets", "methods", "claims")
#: Sections of a training file that may be given as one text, and the key that it stands for.
_SHORT = {"method": "estimator", "dataset": "id", "features": "kind"}


class Layers:
    """Plain data, the places of everything in it, and what went wrong while it was put together.

    It starts with the file itself, merged into the files that it extends: mappings are merged, lists are replaced,
    methods are merged by label and new ones added.

    Attributes
    ----------
    warnings : list of str
        Values of the file that a profile of a file below it replaces, a line each.

    Parameters
    ----------
    document : Document
    bases : sequence of Document
        The files that it extends, the lowest first.

    Raises
    ------
    ConfigError
        If the file is empty or not a mapping.
    """

    def __init__(self, document: Document, bases: Sequence[Document] = ()) -> None:
        if not isinstance(document.data, dict):
            what = (
                "is empty"
                if document.data is None
                else "must be a mapping with keys such as 'id' and 'methods'"
            )
            raise ConfigError(f"{document.name}: an experiment file {what}")
        self.document, self.bases = document, bases
        self.sources = [*bases, document]
        self.data: dict[str, Any] = {}
        self.places: Positions = {}
        self.problems: list[YamlProblem] = []
        self.warnings: list[str] = []
        self.new_methods = True  # those of profiles and readings are no new ones
        for source in self.sources:
            for key, value in source.data.items():
                if source is document or key not in OWN:
                    self._merge(value, (key,), (key,), source)
        self.places[()] = nearest(
            document.places, ()
        )  # what is missing is missing in the file that was given
        self.new_methods = False
        self.training = self.data.get("kind") == TRAIN

    @property
    def paper_datasets(self) -> list[Any]:
        """Ids of the data sets of the paper, before a profile changes them.

        Of a file that extends the experiment of a paper they are those of the paper.
        """
        data = self.data
        if self.bases and "paper" not in self.document.data:
            data = Layers(self.bases[-1], self.bases[:-1]).data
        # May be wrong, or missing, where a profile or an override replaces it.
        entries = data.get("datasets")
        if not isinstance(entries, list):
            return []
        return [e.get("id") if isinstance(e, dict) else e for e in entries]

    @property
    def profiles(self) -> list[str]:
        """Names of the profiles of all files, and of the file as it stands."""
        found = [source.data.get("profiles") for source in self.sources]
        names = [
            str(name)
            for section in found
            if isinstance(section, dict)
            for name in section
        ]
        return list(dict.fromkeys([*names, FULL]))

    def problem(
        self, place: Position, message: str, hint: str = "", *, at_key: bool = False
    ) -> None:
        """Note a problem of a value, or of its key."""
        self.problems.append(
            YamlProblem(
                place.key if at_key else place.value, message, hint, place.where
            )
        )

    def apply_profile(self, name: str) -> None:
        """Merge a profile into the data: mappings are merged, lists replaced, methods merged by label."""
        self._apply("profile", ("profiles", name))
        self._warn_of_replaced(name)
        self._mark_claims(name)

    def _warn_of_replaced(self, profile: str) -> None:
        """Note values of the file that an inherited profile has replaced."""
        place = ("profiles", profile)
        if not isinstance(self.document.data, dict):
            return
        for base in self.bases:
            changes = _at(base.data, place)
            for path in common_paths(changes, self.document.data):
                # The profile of the file itself has the last word.
                if _at(self.document.data, (*place, *path)) is not None:
                    continue
                inherited = nearest(base.places, (*place, *path))
                replaced = nearest(self.document.places, path)
                name = ".".join(map(str, path))
                self.warnings.append(
                    f"{shown_place(replaced, self.document)}: {name!r} is replaced by "
                    f"the inherited profile {profile!r} "
                    f"({shown_place(inherited, base)}); to keep it, say it under "
                    f"profiles: {profile}: as well"
                )

    def _mark_claims(self, profile: str) -> None:
        """Mark inherited claims of the paper where the file changes what they rest on.

        A file with a section `paper` of its own is an item of the paper.
        """
        if not self.bases or "paper" in self.document.data:
            return
        base = Layers(self.bases[-1], self.bases[:-1])
        base.apply_profile(profile)
        if not has_other_setting(base.data, self.data):
            return
        inherited = set()
        for claim in as_list(base.data.get("claims")):
            if isinstance(claim, dict) and claim.get("source", "paper") == "paper":
                inherited.add(claim.get("id"))
        for claim in as_list(self.data.get("claims")):
            if isinstance(claim, dict) and claim.get("id") in inherited:
                claim["source"] = "other data"

    def apply_reading(self, name: str) -> None:
        """Merge the changes of a reading into the data, as those of a profile."""
        self._apply("reading", ("readings", name, "changes"))

    def _apply(self, what: str, place: KeyPath) -> None:
        for source in self.sources:
            changes = _at(source.data, place)
            if not isinstance(changes, dict):
                continue
            for key, value in changes.items():
                if key in FIXED:
                    at = nearest(source.places, (*place, key))
                    self.problem(at, f"a {what} cannot change {key!r}", at_key=True)
                else:
                    self._merge(value, (key,), (*place, key), source)

    def apply_override(self, text: str) -> None:
        """Apply one ``a.b=c``; the value is YAML, a method is named by its label."""
        place = Position(where=f"--set {text}")
        self._lengthen()
        name, equals, value = text.partition("=")
        path = self._path_of(name.strip())
        if not equals or not path:
            self.problem(place, "must be key=value, for instance split.trials=3")
        elif path[0] in FIXED:
            self.problem(place, f"{path[0]!r} cannot be changed")
        else:
            try:
                self.put(path, load_text(value, place.where).data, place)
            except ConfigError as error:
                self.problem(place, error.message.partition(": ")[2])

    def _no_entry(
        self,
        place: Position,
        name: object,
        known: Sequence[str],
        *,
        at_key: bool = False,
    ) -> None:
        """Note that a list has no entry of a name, with the nearest one."""
        near = suggest(str(name), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        self.problem(place, f"no entry {str(name)!r} in this list", hint, at_key=at_key)

    def put(self, path: KeyPath, value: object, place: Position) -> None:
        """Set one value; mappings around it that are missing are added."""
        target: Any = self.data
        for i, step in enumerate(path):
            if isinstance(target, list) and not (
                isinstance(step, int) and step < len(target)
            ):
                known = [
                    str(e.get("label") or e.get("id"))
                    if isinstance(e, dict)
                    else str(e)
                    for e in target
                ]
                self._no_entry(place, step, known)
                return
            if not isinstance(target, dict | list):
                self.problem(place, f"{path[i - 1]!r} is not a mapping")
                return
            if i == len(path) - 1:
                target[step] = value  # type: ignore[index]
            elif isinstance(target, dict) and target.get(step) is None:
                target[step] = {}
                self.places[path[: i + 1]] = place
            target = target[step]
        self._note(path, {(): place})

    def as_experiment(self) -> dict[str, Any]:
        """Return the data of an experiment; a training file is mapped to one."""
        if not self.training:
            return self.data
        self._lengthen()
        return as_experiment(self.data)

    def place(self, path: KeyPath) -> Position:
        """Return the place of the value at a path of the experiment or training file, or of its nearest parent."""
        return nearest(self.places, shown(path, self.data))

    def _lengthen(self) -> None:
        """Make mappings of the short forms in a training file, so that overrides reach into them."""
        for section, key in _SHORT.items() if self.training else ():
            if isinstance(value := self.data.get(section), str):
                self.data[section] = {key: value}
                self.places[(section, key)] = self.place((section,))

    def _merge(
        self, value: object, path: KeyPath, place: KeyPath, source: Document
    ) -> None:
        """Merge a value, which stands at `place` of a source, into the data at `path`."""
        current = self._get(path)
        if isinstance(current, dict) and isinstance(value, dict):
            for key, item in value.items():
                self._merge(item, (*path, key), (*place, key), source)
        elif (
            isinstance(current, list) and path[0] in _NAMED and isinstance(value, dict)
        ):
            for name, item in value.items():
                self._merge_entry(name, item, path, (*place, name), source)
        elif (
            isinstance(current, list)
            and path == ("methods",)
            and isinstance(value, list)
        ):
            for i, item in enumerate(value):
                label = item.get("label") if isinstance(item, dict) else None
                self._merge_entry(label, item, path, (*place, i), source, listed=True)
        else:
            target = self._get(path[:-1])
            if isinstance(target, dict | list):
                target[path[-1]] = copy.deepcopy(value)  # type: ignore[index]
            if isinstance(current, dict | list) or isinstance(value, dict | list):
                self._note(path, _below(source.places, place))
            else:
                self.places[path] = nearest(source.places, place)

    def _merge_entry(
        self,
        name: object,
        item: object,
        path: KeyPath,
        place: KeyPath,
        source: Document,
        *,
        listed: bool = False,
    ) -> None:
        """Merge a value into the entries of a list with this label or id, or whose label or id a pattern matches.

        A name that only another profile has is no problem: the change waits for that profile. An entry of a list of
        methods is added where that is allowed.
        """
        entries = self._get(path)
        found = [i for i, entry in enumerate(entries) if name in _names(entry)]
        if not found and not listed:
            found = [
                i
                for i, entry in enumerate(entries)
                if name == "*" or _matches(_names(entry), name)
            ]
        for i in found:
            if isinstance(entries[i], str):  # the short form of a data set
                self.places[(*path, i, "id")] = self.place((*path, i))
                entries[i] = {"id": entries[i]}
            for target, below in (
                [((), ())] if listed else _targets(entries[i], item, path)
            ):
                self._merge(
                    _at(item, below), (*path, i, *target), (*place, *below), source
                )
        if found or (
            not listed and (name == "*" or _matches(self._known(str(path[0])), name))
        ):
            return
        if listed and self.new_methods:
            entries.append(copy.deepcopy(item))
            self._note((*path, len(entries) - 1), _below(source.places, place))
            return
        known = (
            [name for entry in entries for name in _names(entry)]
            if listed
            else self._known(str(path[0]))
        )
        at = nearest(source.places, (*place, "label") if listed else place)
        self._no_entry(at, name, known, at_key=not listed)

    def _known(self, section: str) -> list[str]:
        """Return the names of the entries of a section, in the files and in all their profiles."""
        found: dict[str, None] = {}
        for source in self.sources:
            profiles = source.data.get("profiles")
            for layer in (
                source.data,
                *(profiles.values() if isinstance(profiles, dict) else ()),
            ):
                entries = layer.get(section) if isinstance(layer, dict) else None
                for entry in entries if isinstance(entries, list) else ():
                    found |= dict.fromkeys(_names(entry))
        return list(found)

    def _path_of(self, name: str) -> KeyPath:
        """Split ``methods.APG-RMTL.params.tol``; entries of lists are named by label, id or number."""
        path: list[str | int] = []
        while name:
            current = self._get(tuple(path))
            step: str | int
            if isinstance(current, list):
                step, name = _list_step(current, name)
            else:
                step, _, name = name.partition(".")
            path.append(step)
        return tuple(path)

    def _get(self, path: KeyPath) -> Any:
        return _at(self.data, path)

    def _note(self, path: KeyPath, below: Positions) -> None:
        """Note the places of a value and of everything in it, forgetting what stood there."""
        self.places = {
            known: place
            for known, place in self.places.items()
            if known[: len(path)] != path
        }
        self.places |= {(*path, *rest): place for rest, place in below.items()}


def _below(places: Positions, path: KeyPath) -> Positions:
    """Return the places of what stands at a path, by path from there on."""
    return {
        known[len(path) :]: place
        for known, place in places.items()
        if known[: len(path)] == path
    }


def _at(value: Any, path: KeyPath) -> Any:
    """Return what stands at a path, None when there is nothing."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _names(entry: object) -> list[str]:
    """Return the label and the id of an entry of a list, or its text."""
    names = (
        (entry.get("label"), entry.get("id")) if isinstance(entry, dict) else (entry,)
    )
    return [name for name in names if isinstance(name, str)]


def _matches(names: list[str], pattern: object) -> bool:
    """Whether one of some names is the pattern, or is matched by it (``*RMTL*``)."""
    return any(name == pattern or fnmatchcase(name, str(pattern)) for name in names)


def _targets(
    entry: object, changes: object, path: KeyPath
) -> list[tuple[KeyPath, KeyPath]]:
    """Return where in an entry of a list its changes belong, each with its place in the changes.

    A parameter that a method does not have goes to the estimator inside it that has it; a field that a claim does not
    have goes to all of its checks.
    """
    if (
        not isinstance(changes, dict)
        or not isinstance(entry, dict)
        or path not in (("methods",), ("claims",))
    ):
        return [((), ())]
    found: list[tuple[KeyPath, KeyPath]] = []
    checks = entry.get("checks")
    for key, value in changes.items():
        if (
            path == ("claims",)
            and key not in Claim.model_fields
            and isinstance(checks, list)
            and checks
        ):
            found += [(("checks", k, key), (key,)) for k in range(len(checks))]
        elif (
            path == ("methods",)
            and key == "params"
            and isinstance(value, dict)
            and entry.get("params")
        ):
            found += [
                (_home(entry, name) or (key, name), (key, name)) for name in value
            ]
        else:
            found.append(((key,), (key,)))
    return found


def _home(method: Mapping[str, Any], name: str) -> KeyPath | None:
    """Return the path of a parameter in a method, or in an estimator inside it; None where nothing has it."""
    params = method.get("params") or {}
    try:
        if has_parameter(str(method.get("estimator")), params, str(name)):
            return ("params", name)
    except UserError:  # the checks say what is wrong with it
        return None
    inside: dict[str, Any] = params if isinstance(params, dict) else {}
    for key, inner in inside.items():
        if is_nested(inner) and (below := _home(inner, name)) is not None:
            inside[key] = {**inner, "params": inner.get("params") or {}}
            return ("params", key, *below)
    return None


def _list_step(entries: list[Any], name: str) -> tuple[str | int, str]:
    for i, entry in enumerate(entries):
        for label in _names(entry):
            if name == label or name.startswith(f"{label}."):
                return i, name[len(label) + 1 :]
    first, _, rest = name.partition(".")
    return (int(first) if first.isdecimal() else first), rest
