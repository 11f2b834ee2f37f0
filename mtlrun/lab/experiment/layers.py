"""Layers of an experiment: files, a profile, an interpretation and overrides.

A file lies over the files that it extends, and below a profile, an interpretation and
overrides. The position of each value is kept, so that problems are shown where the
value was written.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

from mtlrun.catalog.methods import has_parameter, is_nested
from mtlrun.errors import ConfigError, UserError, suggest
from mtlrun.lab.experiment.checks import (
    Entry,
    Sections,
    path_in_file,
    read_sections,
)
from mtlrun.lab.experiment.claims import Claim
from mtlrun.lab.experiment.spec import FULL, TRAIN, as_experiment
from mtlrun.utils.io import as_list
from mtlrun.utils.yaml import (
    Document,
    Finding,
    KeyPath,
    Position,
    Positions,
    YamlProblem,
    load_text,
    nearest,
)

#: Keys that a file does not inherit from the file that it extends.
NOT_INHERITED = ("id", "title", "kind", "default_for", "extends")
#: Keys that identify the experiment, which no profile or override may change.
FIXED = ("schema", "paper", "profiles", "readings", *NOT_INHERITED)
#: Lists whose entries have a label or an id.
_NAMED_LISTS = ("datasets", "methods", "claims")
#: Section of a training file -> key whose value may be written in place of the section.
_SHORT_FORMS = {"method": "estimator", "dataset": "id", "features": "kind"}


class Layers:
    """Merged plain data of an experiment, with the position of each value.

    At first, the data are the file merged into the files that it extends: mappings are
    merged, lists are replaced, and methods are merged by label and new methods
    appended.

    Parameters
    ----------
    document : Document
        The file.
    bases : sequence of Document, default=()
        The files that it extends, the lowest layer first.

    Attributes
    ----------
    data : dict
        Merged data.
    positions : dict
        Position of each value, by path.
    problems : list of YamlProblem
        Problems so far.
    warnings : list of str
        A line for each value of the file that a profile of an extended file replaces.
    is_training : bool
        Whether it is a training file.

    Raises
    ------
    ConfigError
        If the file is empty or not a mapping.
    """

    def __init__(self, document: Document, bases: Sequence[Document] = ()) -> None:
        if document.data is None:
            raise ConfigError(f"{document.name}: an experiment file is empty")
        if not isinstance(document.data, dict):
            raise ConfigError(
                f"{document.name}: an experiment file must be a mapping with keys such "
                "as 'id' and 'methods'"
            )
        self.document = document
        self.bases = bases
        self.sources = [*bases, document]
        self.data: dict[str, Any] = {}
        self.positions: Positions = {}
        self.problems: list[YamlProblem] = []
        self.warnings: list[str] = []
        # Files may add methods. Profiles and interpretations only change methods.
        self._can_add_methods = True
        for source in self.sources:
            for key, value in source.data.items():
                if source is document or key not in NOT_INHERITED:
                    self._merge(value, (key,), (key,), source)
        self._can_add_methods = False
        # A missing key is reported for the file, not for the files that it extends.
        self.positions[()] = nearest(document.places, ())
        self.is_training = read_sections(Sections, self.data).kind == TRAIN

    @property
    def paper_datasets(self) -> list[Any]:
        """Ids of the data sets of the paper, before a profile changes them.

        A file that extends the experiment of a paper has the same ids as the
        experiment.
        """
        data = self.data
        if self.bases and "paper" not in self.document.data:
            data = Layers(self.bases[-1], self.bases[:-1]).data
        # Invalid if a profile or an override replaces it, which is not applied here.
        entries = read_sections(Sections, data).datasets
        if not isinstance(entries, list):
            return []
        ids = []
        for entry in entries:
            if isinstance(entry, dict):
                entry = read_sections(Entry, entry).id
            ids.append(entry)
        return ids

    @property
    def profiles(self) -> list[str]:
        """Names of the profiles of all files, and of the file as it stands."""
        names: list[str] = []
        for source in self.sources:
            names += map(str, read_sections(Sections, source.data).profiles)
        return list(dict.fromkeys([*names, FULL]))

    @property
    def dataset_names(self) -> list[str]:
        """Ids and labels of the data sets of all files, profiles and interpretations.

        Claims and published numbers may be about a data set that only some of them
        have.
        """
        layers = [self.data]
        for source in self.sources:
            sections = read_sections(Sections, source.data)
            layers.append(source.data)
            layers += sections.profiles.values()
            for interpretation in sections.readings.values():
                layers += [interpretation, _value_at(interpretation, ("changes",))]
        names: list[str] = []
        for layer in layers:
            for entry in as_list(read_sections(Sections, layer).datasets):
                fields = [entry]
                if isinstance(entry, dict):
                    dataset = read_sections(Entry, entry)
                    fields = [dataset.id, dataset.label]
                names += [field for field in fields if isinstance(field, str)]
        return list(dict.fromkeys(names))

    # ------------------------------------------------------------- problems

    def problem(
        self,
        position: Position,
        message: str,
        hint: str = "",
        *,
        at_key: bool = False,
    ) -> None:
        """Note a problem of a value, or of its key."""
        mark = position.value
        if at_key:
            mark = position.key
        self.problems.append(YamlProblem(mark, message, hint, position.where))

    def report(self, finding: Finding) -> None:
        """Note a problem of a value of the experiment or training file."""
        position = self.position(finding.path)
        self.problem(position, finding.message, finding.hint, at_key=finding.at_key)

    def position(self, path: KeyPath) -> Position:
        """Return the position of a value, or of its nearest parent.

        Parameters
        ----------
        path : tuple
            Path in the experiment, also for training files.
        """
        return nearest(self.positions, path_in_file(path, self.data))

    def _no_entry(
        self,
        position: Position,
        name: object,
        valid_names: Sequence[str],
        *,
        at_key: bool = False,
    ) -> None:
        """Note that a list has no entry with a name."""
        hint = f"known: {', '.join(valid_names)}"
        near = suggest(str(name), valid_names, 1)
        if near:
            hint = f"did you mean {near[0]!r}?"
        message = f"no entry {str(name)!r} in this list"
        self.problem(position, message, hint, at_key=at_key)

    # ------------------------------------------------------------- layers

    def as_experiment(self) -> dict[str, Any]:
        """Return the data, of a training file as an experiment.

        Without a section `paper`, claims are our own unless they say otherwise.
        """
        if not self.is_training:
            if "paper" not in self.data:
                for claim in as_list(read_sections(Sections, self.data).claims):
                    if isinstance(claim, dict):
                        claim.setdefault("source", "ours")
            return self.data
        self._expand_short_forms()
        return as_experiment(self.data)

    def apply_profile(self, name: str) -> None:
        """Merge a profile into the data.

        Mappings are merged, lists are replaced, and methods are merged by label.
        """
        layer_path = ("profiles", name)
        self.apply("profile", layer_path)
        for base in self.bases:
            changes = _value_at(base.data, layer_path)
            for path in common_paths(changes, self.document.data):
                source_path = (*layer_path, *path)
                # The profile of the file itself has the last word.
                if _value_at(self.document.data, source_path) is not None:
                    continue
                inherited = nearest(base.places, source_path)
                replaced = nearest(self.document.places, path)
                key = ".".join(map(str, path))
                self.warnings.append(
                    f"{position_text(replaced, self.document)}: {key!r} is replaced "
                    f"by the inherited profile {name!r} "
                    f"({position_text(inherited, base)}); to keep it, say it under "
                    f"profiles: {name}: as well"
                )
        if self.bases:
            self._mark_claims(name)

    def apply_override(self, text: str) -> None:
        """Apply an override ``a.b=c``.

        The value is YAML. Entries of lists are named by their label, id or index:
        ``methods.APG-RMTL.params.tol=1e-6``.
        """
        position = Position(where=f"--set {text}")
        self._expand_short_forms()
        name, equals, value = text.partition("=")
        rest = name.strip()
        path: KeyPath = ()
        while rest:
            current = _value_at(self.data, path)
            step: str | int
            if isinstance(current, list):
                step, rest = _split_list_step(current, rest)
            else:
                step, _, rest = rest.partition(".")
            path = (*path, step)
        if not equals or not path:
            message = "must be key=value, for instance split.trials=3"
            self.problem(position, message)
        elif path[0] in FIXED:
            self.problem(position, f"{path[0]!r} cannot be changed")
        else:
            try:
                self.put(path, load_text(value, position.where).data, position)
            except ConfigError as error:
                # The message begins with the name, which the position has, too.
                self.problem(position, error.message.partition(": ")[2])

    def put(self, path: KeyPath, value: object, position: Position) -> None:
        """Set a value, and add missing mappings around it."""
        target: Any = self.data
        for i, step in enumerate(path):
            is_list = isinstance(target, list)
            if is_list and not (isinstance(step, int) and step < len(target)):
                names = [(_names(entry) or [str(entry)])[0] for entry in target]
                self._no_entry(position, step, names)
                return
            if not isinstance(target, dict | list):
                self.problem(position, f"{path[i - 1]!r} is not a mapping")
                return
            if i == len(path) - 1:
                target[step] = value  # type: ignore[index]
            elif isinstance(target, dict) and target.get(step) is None:
                target[step] = {}
                self.positions[path[: i + 1]] = position
            target = target[step]
        self._replace_positions(path, {(): position})

    def apply(self, layer: str, layer_path: KeyPath) -> None:
        """Merge the mapping at a path of each source into the data.

        Parameters
        ----------
        layer : str
            Name of the kind of layer in messages.
        layer_path : tuple
            Path of the mapping in the sources.
        """
        for source in self.sources:
            changes = _value_at(source.data, layer_path)
            if not isinstance(changes, dict):
                continue
            for key, value in changes.items():
                source_path = (*layer_path, key)
                if key in FIXED:
                    position = nearest(source.places, source_path)
                    message = f"a {layer} cannot change {key!r}"
                    self.problem(position, message, at_key=True)
                else:
                    self._merge(value, (key,), source_path, source)

    def _mark_claims(self, profile: str) -> None:
        """Mark inherited claims if the file changes the data or protocol of the paper.

        A file with a section `paper` of its own is an item of the paper, so its claims
        are claims of the paper. Without a paper, there are none.
        """
        if "paper" in self.document.data or "paper" not in self.data:
            return
        base = Layers(self.bases[-1], self.bases[:-1])
        base.apply_profile(profile)
        if not has_other_setting(base.data, self.data):
            return
        inherited = set()
        for content in as_list(read_sections(Sections, base.data).claims):
            claim = read_sections(Entry, content)
            if isinstance(content, dict) and claim.source == "paper":
                inherited.add(claim.id)
        for content in as_list(read_sections(Sections, self.data).claims):
            claim = read_sections(Entry, content)
            if isinstance(content, dict) and claim.id in inherited:
                content["source"] = "other data"

    def _expand_short_forms(self) -> None:
        """Make mappings of the short forms in a training file.

        Overrides can then change single keys of them.
        """
        if not self.is_training:
            return
        for section, key in _SHORT_FORMS.items():
            value = self.data.get(section)
            if isinstance(value, str):
                self.data[section] = {key: value}
                self.positions[section, key] = self.position((section,))

    # ------------------------------------------------------------- merging

    def _merge(
        self, value: object, path: KeyPath, source_path: KeyPath, source: Document
    ) -> None:
        """Merge a value of a source into the data.

        Parameters
        ----------
        value : object
        path : tuple
            Path in the data.
        source_path : tuple
            Path of the value in the source.
        source : Document
        """
        current = _value_at(self.data, path)
        is_named_list = isinstance(current, list) and path[0] in _NAMED_LISTS
        are_methods = isinstance(current, list) and path == ("methods",)
        if isinstance(value, dict) and isinstance(current, dict):
            for key, item in value.items():
                self._merge(item, (*path, key), (*source_path, key), source)
        elif isinstance(value, dict) and is_named_list:
            for name, item in value.items():
                item_path = (*source_path, name)
                self._change_entries(name, item, path, item_path, source)
        elif isinstance(value, list) and are_methods:
            for i, item in enumerate(value):
                self._merge_method(item, (*source_path, i), source)
        else:
            self._replace(value, path, source_path, source)

    def _replace(
        self, value: object, path: KeyPath, source_path: KeyPath, source: Document
    ) -> None:
        """Replace the value at a path by a value of a source."""
        current = _value_at(self.data, path)
        parent = _value_at(self.data, path[:-1])
        if isinstance(parent, dict | list):
            parent[path[-1]] = copy.deepcopy(value)  # type: ignore[index]
        if isinstance(current, dict | list) or isinstance(value, dict | list):
            positions = _positions_below(source.places, source_path)
            self._replace_positions(path, positions)
        else:
            self.positions[path] = nearest(source.places, source_path)

    def _merge_method(
        self, method: object, source_path: KeyPath, source: Document
    ) -> None:
        """Merge a method into the method with its label, or add it if allowed."""
        label = read_sections(Entry, method).label
        methods = read_sections(Sections, self.data).methods
        indices = [i for i, entry in enumerate(methods) if label in _names(entry)]
        for i in indices:
            self._expand_entry(("methods", i))
            self._merge(method, ("methods", i), source_path, source)
        if indices:
            return
        if self._can_add_methods:
            methods.append(copy.deepcopy(method))
            positions = _positions_below(source.places, source_path)
            self._replace_positions(("methods", len(methods) - 1), positions)
            return
        labels = []
        for entry in methods:
            labels += _names(entry)
        position = nearest(source.places, (*source_path, "label"))
        self._no_entry(position, label, labels)

    def _change_entries(
        self,
        name: object,
        changes: object,
        path: KeyPath,
        source_path: KeyPath,
        source: Document,
    ) -> None:
        """Merge changes into the entries of a list that a name or pattern matches.

        Parameters
        ----------
        name : object
            Label or id of entries, or a pattern; ``"*"`` for all entries.
        changes : object
        path : tuple
            Path of the list.
        source_path : tuple
            Path of the changes in the source.
        source : Document
        """
        entries = _value_at(self.data, path)
        indices = [i for i, entry in enumerate(entries) if name in _names(entry)]
        if not indices:
            for i, entry in enumerate(entries):
                if name == "*" or _matches(_names(entry), name):
                    indices.append(i)
        for i in indices:
            self._expand_entry((*path, i))
            # Merging may change what the next target would depend on.
            for entry_path, change_path in list(_targets(entries[i], changes, path)):
                change = _value_at(changes, change_path)
                target_path = (*path, i, *entry_path)
                self._merge(change, target_path, (*source_path, *change_path), source)
        if indices or name == "*":
            return
        # The change may be meant for another profile that has an entry with this name.
        names: list[str] = []
        for document in self.sources:
            profiles = read_sections(Sections, document.data).profiles
            for layer in (document.data, *profiles.values()):
                section = _value_at(layer, path[:1])
                if isinstance(section, list):
                    names += chain.from_iterable(map(_names, section))
        names = list(dict.fromkeys(names))
        if not _matches(names, name):
            position = nearest(source.places, source_path)
            self._no_entry(position, name, names, at_key=True)

    def _expand_entry(self, path: KeyPath) -> None:
        """Make a mapping of the short form of a data set, which is its id alone."""
        entries = _value_at(self.data, path[:-1])
        entry = entries[path[-1]]
        if isinstance(entry, str):
            self.positions[*path, "id"] = self.position(path)
            entries[path[-1]] = {"id": entry}

    def _replace_positions(self, path: KeyPath, below: Positions) -> None:
        """Replace the positions of a value and of everything in it.

        Parameters
        ----------
        path : tuple
            Path of the value.
        below : dict
            New positions, by path from the value on.
        """
        self.positions = {
            other_path: position
            for other_path, position in self.positions.items()
            if other_path[: len(path)] != path
        }
        for rest, position in below.items():
            self.positions[*path, *rest] = position


def position_text(position: Position, document: Document) -> str:
    """Return a position for messages."""
    if position.where:
        return position.where
    mark = position.value
    if mark is None:
        return document.name
    return f"{document.name}:{mark.line}:{mark.column}"


def _positions_below(positions: Positions, path: KeyPath) -> Positions:
    """Return the positions at and below a path, by path from there on."""
    return {
        other_path[len(path) :]: position
        for other_path, position in positions.items()
        if other_path[: len(path)] == path
    }


def _value_at(value: Any, path: KeyPath) -> Any:
    """Return the value at a path; None if there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


# ------------------------------------------------------------- entries of lists


def _names(entry: object) -> list[str]:
    """Return the label and id of an entry of a list; of a text, the text."""
    names = [entry]
    if isinstance(entry, dict):
        names = [entry.get(key) for key in ("label", "id")]
    return [name for name in names if isinstance(name, str)]


def _matches(names: list[str], pattern: object) -> bool:
    """Whether a pattern such as ``*RMTL*`` equals or matches one of some names."""
    return any(name == pattern or fnmatchcase(name, str(pattern)) for name in names)


def _split_list_step(entries: list[Any], text: str) -> tuple[str | int, str]:
    """Split a dotted path into its first step, an entry of a list, and the rest.

    Labels may contain dots.
    """
    for i, entry in enumerate(entries):
        for name in _names(entry):
            if text == name or text.startswith(f"{name}."):
                return i, text[len(name) + 1 :]
    first, _, rest = text.partition(".")
    if first.isdecimal():
        return int(first), rest
    return first, rest


def _targets(
    entry: Any, changes: Any, path: KeyPath
) -> Iterator[tuple[KeyPath, KeyPath]]:
    """Yield where in an entry of a list its changes belong.

    A parameter that a method does not have belongs to the nested estimator that has it,
    and a field that claims do not have belongs to all checks of the claim.

    Parameters
    ----------
    entry, changes : object
    path : tuple
        Path of the list.

    Yields
    ------
    entry_path, change_path : tuple
        Paths in the entry, and in the changes.
    """
    are_mappings = isinstance(changes, dict) and isinstance(entry, dict)
    if are_mappings and path == ("methods",):
        for key, value in changes.items():
            has_params = bool(_value_at(entry, ("params",)))
            if key == "params" and isinstance(value, dict) and has_params:
                for name in value:
                    owner_path = _parameter_path(entry, name) or (key, name)
                    yield (owner_path, (key, name))
            else:
                yield ((key,), (key,))
    elif are_mappings and path == ("claims",):
        checks = read_sections(Entry, entry).checks
        if not isinstance(checks, list):
            checks = []
        for key in changes:
            if key not in Claim.model_fields and checks:
                for k in range(len(checks)):
                    yield (("checks", k, key), (key,))
            else:
                yield ((key,), (key,))
    else:
        yield ((), ())


def _parameter_path(content: Mapping[str, Any], name: str) -> KeyPath | None:
    """Return the path of a parameter in a method, or in an estimator nested in it.

    None if no estimator has the parameter. Missing `params` of nested estimators are
    added, so that the parameter can be set there.
    """
    method = read_sections(Entry, content)
    params = method.params
    try:
        if has_parameter(str(method.estimator), params, str(name)):
            return ("params", name)
    except UserError:
        # The checks report what is wrong with the method.
        return None
    for key, nested in params.items():
        if not is_nested(nested):
            continue
        path = _parameter_path(nested, name)
        if path is not None:
            nested_params = read_sections(Entry, nested).params
            params[key] = {**nested, "params": nested_params}
            return ("params", key, *path)
    return None


#: Sections that a claim of the paper is about. If a file that extends the experiment of
#: the paper changes one of them, the claims are tested on other data.
SETTING = (
    "split",
    "metrics",
    "average",
    "features",
    "selection",
    "grids",
    "sweep",
)


def common_paths(first: object, second: object, path: KeyPath = ()) -> list[KeyPath]:
    """Return the paths of the values that two mappings both contain.

    Mappings inside are compared key by key, everything else is a value. Lists of
    methods are left out, because their entries are merged by label.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        paths = []
        for key in first:
            if key in second:
                paths += common_paths(first[key], second[key], (*path, key))
        return paths
    is_merged = path[:1] == ("methods",) or isinstance(first, dict)
    if is_merged or not path:
        return []
    return [path]


def has_other_setting(base: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    """Whether an experiment changes what it extends; additions change nothing.

    Parameters
    ----------
    base, data : mapping
        The extended and the extending experiment, with the same profile.
    """
    for key in SETTING:
        if base.get(key) != data.get(key):
            return True
    for section in ("datasets", "methods"):
        entries = as_list(data.get(section))
        for entry in as_list(base.get(section)):
            if entry not in entries:
                return True
    return False
