"""A file over those that it extends, below a profile and overrides; every value knows where it comes from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from mtlrun.errors import ConfigError, UserError, suggest
from mtlrun.report.checks import Claim
from mtlrun.runs.cell import is_nested
from mtlrun.runs.methods import has_parameter
from mtlrun.runs.spec import ONE_OF, TRAIN, as_experiment
from mtlrun.utils.yaml import Document, KeyPath, Mark, YamlProblem, load_text

#: What a file that extends another one does not take from it.
OWN = ("id", "title", "kind", "default_for", "extends")
#: Keys that a profile or an override may not change: they say what the experiment is.
FIXED = ("schema", "paper", "profiles", "readings", *OWN)
#: Lists whose entries have a label or an id.
_NAMED = ("datasets", "methods", "claims")
#: Sections of a training file that may be given as one text, and the key that it stands for.
_SHORT = {"method": "estimator", "dataset": "id", "features": "kind"}


@dataclass(frozen=True)
class Origin:
    """Where a value came from.

    Attributes
    ----------
    key, value : Mark or None
        Its place in the file.
    where : str
        What messages name instead of a place, for values of other files and from the command line.
    """

    key: Mark | None = None
    value: Mark | None = None
    where: str = ""


@dataclass(frozen=True)
class _Source:
    """What is merged into the data: a file, or a profile of it.

    Attributes
    ----------
    document : Document
    foreign : bool
        Whether it is another file than the one that problems are shown in.
    new_methods : bool
        Whether methods with new labels are added.
    """

    document: Document
    foreign: bool = False
    new_methods: bool = True

    def origin(self, path: KeyPath) -> Origin:
        """Return the origin of the value at a path of the file."""
        value, key = self.document.value_mark(path), self.document.key_mark(path)
        if not self.foreign:
            return Origin(key, value)
        return Origin(where=f"{self.document.name}:{value.line}:{value.column}" if value else self.document.name)


class Layers:
    """Plain data, the origin of everything in it, and what went wrong while it was put together.

    It starts with the file itself, merged into the files that it extends: mappings are merged, lists are replaced,
    methods are merged by label and new ones added.

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
            what = "is empty" if document.data is None else "must be a mapping with keys such as 'id' and 'methods'"
            raise ConfigError(f"{document.name}: an experiment file {what}")
        self.document, self.bases = document, bases
        self.data: dict[str, Any] = {}
        self.origins: dict[KeyPath, Origin] = {}
        self.problems: list[YamlProblem] = []
        for source in self._sources():
            for key, value in source.document.data.items():
                if not (source.foreign and key in OWN):
                    self._merge(value, (key,), (key,), source)
            self.origins[()] = source.origin(())  # what is missing is missing in the file that was given
        self.training = self.data.get("kind") == TRAIN

    def _sources(self) -> list[_Source]:
        """Return all files from the lowest to that of the experiment."""
        return [*(_Source(base, foreign=True) for base in self.bases), _Source(self.document)]

    @property
    def profiles(self) -> list[str]:
        """Names of the profiles of all files."""
        found = [source.document.data.get("profiles") for source in self._sources()]
        return list(dict.fromkeys(str(name) for names in found if isinstance(names, dict) for name in names))

    def problem(self, origin: Origin, message: str, hint: str = "", *, at_key: bool = False) -> None:
        """Note a problem of a value, or of its key."""
        self.problems.append(YamlProblem(origin.key if at_key else origin.value, message, hint, origin.where))

    def apply_profile(self, name: str) -> None:
        """Merge a profile into the data: mappings are merged, lists replaced, methods merged by label."""
        self._apply("profile", ("profiles", name))

    def apply_reading(self, name: str) -> None:
        """Merge the changes of a reading into the data, as those of a profile."""
        self._apply("reading", ("readings", name, "changes"))

    def _apply(self, what: str, place: KeyPath) -> None:
        for source in self._sources():
            changes = _at(source.document.data, place)
            for key, value in changes.items() if isinstance(changes, dict) else ():
                if key in FIXED:
                    self.problem(source.origin((*place, key)), f"a {what} cannot change {key!r}", at_key=True)
                else:
                    self._merge(value, (key,), (*place, key), replace(source, new_methods=False))

    def apply_override(self, text: str) -> None:
        """Apply one ``a.b=c``; the value is YAML, a method is named by its label."""
        origin = Origin(where=f"--set {text}")
        self._lengthen()
        name, equals, value = text.partition("=")
        path = self._path_of(name.strip())
        if not equals or not path:
            self.problem(origin, "must be key=value, for instance split.trials=3")
        elif path[0] in FIXED:
            self.problem(origin, f"{path[0]!r} cannot be changed")
        else:
            try:
                self.put(path, load_text(value, origin.where).data, origin)
            except ConfigError as error:
                self.problem(origin, error.message.partition(": ")[2])

    def _no_entry(self, origin: Origin, name: Any, known: Sequence[str], *, at_key: bool = False) -> None:
        """Note that a list has no entry of a name, with the nearest one."""
        near = suggest(str(name), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        self.problem(origin, f"no entry {str(name)!r} in this list", hint, at_key=at_key)

    def put(self, path: KeyPath, value: Any, origin: Origin) -> None:
        """Set one value; mappings around it that are missing are added."""
        target: Any = self.data
        for i, step in enumerate(path):
            if isinstance(target, list) and not (isinstance(step, int) and step < len(target)):
                known = [str(e.get("label") or e.get("id")) if isinstance(e, dict) else str(e) for e in target]
                self._no_entry(origin, step, known)
                return
            if not isinstance(target, dict | list):
                self.problem(origin, f"{path[i - 1]!r} is not a mapping")
                return
            if i == len(path) - 1:
                target[step] = value  # type: ignore[index]
            elif isinstance(target, dict) and target.get(step) is None:
                target[step] = {}
                self.origins[path[: i + 1]] = origin
            target = target[step]
        self._record(path, value, lambda _: origin)

    def as_experiment(self) -> dict[str, Any]:
        """Return the data of an experiment; a training file is mapped to one, with the origins of its values."""
        if not self.training:
            return self.data
        self._lengthen()
        for several, one in ONE_OF.items():
            moved = {path: origin for path, origin in self.origins.items() if path[:1] == (one,)}
            self.origins |= {(several, 0, *path[1:]): origin for path, origin in moved.items()}
            self.origins[(several,)] = self.origin((one,))
        return as_experiment(self.data)

    def origin(self, path: KeyPath) -> Origin:
        """Return the origin of the value at a path, or of its nearest parent."""
        while path and path not in self.origins:
            path = path[:-1]
        return self.origins.get(path, Origin())

    def place(self, path: KeyPath) -> str:
        """Return how messages call the place of a value."""
        origin = self.origin(path)
        mark = f":{origin.value.line}:{origin.value.column}" if origin.value else ""
        return origin.where or f"{self.document.name}{mark}"

    def _lengthen(self) -> None:
        """Make mappings of the short forms in a training file, so that overrides reach into them."""
        for section, key in _SHORT.items() if self.training else ():
            if isinstance(value := self.data.get(section), str):
                self.data[section] = {key: value}
                self.origins[(section, key)] = self.origin((section,))

    def _merge(self, value: Any, path: KeyPath, place: KeyPath, source: _Source) -> None:
        """Merge a value, which stands at `place` of a source, into the data at `path`."""
        current = self._get(path)
        if isinstance(current, dict) and isinstance(value, dict):
            for key, item in value.items():
                self._merge(item, (*path, key), (*place, key), source)
        elif isinstance(current, list) and path[0] in _NAMED and isinstance(value, dict):
            for name, item in value.items():
                self._merge_entry(name, item, path, (*place, name), source)
        elif isinstance(current, list) and path == ("methods",) and isinstance(value, list):
            for i, item in enumerate(value):
                label = item.get("label") if isinstance(item, dict) else None
                self._merge_entry(label, item, path, (*place, i), source, listed=True)
        else:
            target = self._get(path[:-1])
            if isinstance(target, dict | list):
                target[path[-1]] = copy.deepcopy(value)  # type: ignore[index]
            self._record(path, value, lambda below: source.origin((*place, *below)))

    def _merge_entry(
        self, name: Any, item: Any, path: KeyPath, place: KeyPath, source: _Source, *, listed: bool = False
    ) -> None:
        """Merge a value into the entries of a list with this label or id, or whose label or id a pattern matches.

        A name that only another profile has is no problem: the change waits for that profile. An entry of a list of
        methods is added where that is allowed.
        """
        entries = self._get(path)
        found = [i for i, entry in enumerate(entries) if name in _names(entry)]
        if not found and not listed:
            found = [i for i, entry in enumerate(entries) if name == "*" or _matches(_names(entry), name)]
        for i in found:
            if isinstance(entries[i], str):  # the short form of a data set
                self.origins[(*path, i, "id")] = self.origin((*path, i))
                entries[i] = {"id": entries[i]}
            for target, below in [((), ())] if listed else _targets(entries[i], item, path):
                self._merge(_at(item, below), (*path, i, *target), (*place, *below), source)
        if found or (not listed and (name == "*" or _matches(self._known(str(path[0])), name))):
            return
        if listed and source.new_methods:
            entries.append(copy.deepcopy(item))
            self._record((*path, len(entries) - 1), item, lambda below: source.origin((*place, *below)))
            return
        known = [name for entry in entries for name in _names(entry)] if listed else self._known(str(path[0]))
        self._no_entry(source.origin((*place, "label") if listed else place), name, known, at_key=not listed)

    def _known(self, section: str) -> list[str]:
        """Return the names of the entries of a section, in the files and in all their profiles."""
        found: dict[str, None] = {}
        for source in self._sources():
            data = source.document.data
            profiles = data.get("profiles")
            for layer in (data, *(profiles.values() if isinstance(profiles, dict) else ())):
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

    def _record(self, path: KeyPath, value: Any, origin: Callable[[KeyPath], Origin]) -> None:
        """Note the origin of a value and of everything in it, forgetting what stood there."""
        self.origins = {p: o for p, o in self.origins.items() if p[: len(path)] != path}
        for below in _paths(value):
            self.origins[(*path, *below)] = origin(below)


def _at(value: Any, path: KeyPath) -> Any:
    """Return what stands at a path, None when there is nothing."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _names(entry: Any) -> list[str]:
    """Return the label and the id of an entry of a list, or its text."""
    names = (entry.get("label"), entry.get("id")) if isinstance(entry, dict) else (entry,)
    return [name for name in names if isinstance(name, str)]


def _matches(names: list[str], pattern: Any) -> bool:
    """Whether one of some names is the pattern, or is matched by it (``*RMTL*``)."""
    return any(name == pattern or fnmatchcase(name, str(pattern)) for name in names)


def _targets(entry: Any, changes: Any, path: KeyPath) -> list[tuple[KeyPath, KeyPath]]:
    """Return where in an entry of a list its changes belong, each with its place in the changes.

    A parameter that a method does not have goes to the estimator inside it that has it; a field that a claim does not
    have goes to all of its checks.
    """
    if not isinstance(changes, dict) or not isinstance(entry, dict) or path not in (("methods",), ("claims",)):
        return [((), ())]
    found: list[tuple[KeyPath, KeyPath]] = []
    checks = entry.get("checks")
    for key, value in changes.items():
        if path == ("claims",) and key not in Claim.model_fields and isinstance(checks, list) and checks:
            found += [(("checks", k, key), (key,)) for k in range(len(checks))]
        elif path == ("methods",) and key == "params" and isinstance(value, dict) and entry.get("params"):
            found += [(_home(entry, name) or (key, name), (key, name)) for name in value]
        else:
            found.append(((key,), (key,)))
    return found


def _home(method: Any, name: Any) -> KeyPath | None:
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


def _paths(value: Any) -> list[KeyPath]:
    found: list[KeyPath] = [()]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        found += [(step, *below) for below in _paths(item)]
    return found
