"""An experiment file over what it extends, below a profile and overrides; values know where they come from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mtlrun.errors import ConfigError, suggest
from mtlrun.utils.yaml import Document, KeyPath, Mark, Problem, load_text


@dataclass(frozen=True)
class Origin:
    """Where a value came from.

    Attributes
    ----------
    text : str
        For people: ``line 14``, ``profile smoke, line 60``, ``--set``.
    key, value : Mark or None
        Its place in the file.
    where : str
        What messages name instead of a place, for values from the command line.
    """

    text: str
    key: Mark | None = None
    value: Mark | None = None
    where: str = ""


#: What a file that extends another one does not take from it.
OWN = ("id", "title", "kind", "default_for", "extends")


@dataclass(frozen=True)
class _Source:
    """What is laid over the data: a file, or a profile of it.

    Attributes
    ----------
    document : Document
    text : str
        Before the line in the texts of origins.
    foreign : bool
        Whether it is another file than the one that problems are shown in.
    new_methods : bool
        Whether methods with labels that are not there yet are added.
    """

    document: Document
    text: str = ""
    foreign: bool = False
    new_methods: bool = False

    def origin(self, path: KeyPath) -> Origin:
        """Return the origin of the value at a path of the file."""
        value, key = self.document.value_mark(path), self.document.key_mark(path)
        line = f"{self.text}line {value.line}" if value else self.text
        if not self.foreign:
            return Origin(line, key, value)
        place = f":{value.line}:{value.column}" if value else ""
        return Origin(f"{self.document.name}, {line}", where=f"{self.document.name}{place}")


@dataclass
class Layers:
    """Plain data, the origin of everything in it, and what went wrong while it was put together.

    `bases` are the files that the document extends, the lowest first.
    """

    document: Document
    data: dict[str, Any]
    origins: dict[KeyPath, Origin]
    problems: list[Problem] = field(default_factory=list)
    bases: tuple[Document, ...] = ()

    @classmethod
    def of(cls, document: Document, bases: Sequence[Document] = ()) -> Layers:
        """Start with the file itself, laid over the files that it extends: mappings are merged, lists are replaced,
        methods are merged by label and new ones added.

        Raises
        ------
        ConfigError
            If the file is empty or no mapping.
        """
        if not isinstance(document.data, dict):
            what = "is empty" if document.data is None else "must be a mapping with keys such as 'id' and 'methods'"
            raise ConfigError(f"{document.name}: an experiment file {what}")
        layers = cls(document, {}, {}, bases=tuple(bases))
        for i, source in enumerate(layers._sources()):
            inherited = OWN if source.foreign else ()
            content = {key: value for key, value in source.document.data.items() if key not in inherited}
            if i == 0:
                layers.data = copy.deepcopy(content)
                kept = [p for p in source.document.values if not p or p[0] not in inherited]
                layers.origins = {path: source.origin(path) for path in kept}
                continue
            for key, value in content.items():
                layers._merge(value, (key,), (key,), source)
            layers.origins[()] = source.origin(())  # what is missing is missing in the file that was given
        return layers

    def _sources(self, text: str = "") -> list[_Source]:
        """Return all files from the lowest to that of the experiment."""
        below = [_Source(base, text, foreign=True, new_methods=True) for base in self.bases]
        return [*below, _Source(self.document, text, new_methods=True)]

    @property
    def profiles(self) -> list[str]:
        """Names of the profiles of all files."""
        found = [source.document.data.get("profiles") for source in self._sources()]
        return list(dict.fromkeys(str(name) for names in found if isinstance(names, dict) for name in names))

    def apply_profile(self, name: str, fixed: tuple[str, ...]) -> None:
        """Lay a profile over the data: mappings are merged, lists replaced, methods merged by label."""
        for source in self._sources(f"profile {name}, "):
            profiles = source.document.data.get("profiles")
            overrides = profiles.get(name) if isinstance(profiles, dict) else None
            for key, value in overrides.items() if isinstance(overrides, dict) else ():
                path: KeyPath = ("profiles", name, key)
                if key in fixed:
                    origin = source.origin(path)
                    self.problems.append(Problem(origin.key, f"a profile cannot change {key!r}", where=origin.where))
                else:
                    self._merge(value, (key,), path, replace(source, new_methods=False))

    def apply_override(self, text: str, fixed: tuple[str, ...]) -> None:
        """Lay one ``a.b=c`` over the data; the value is YAML, a method is named by its label."""
        where = f"--set {text}"
        name, equals, value = text.partition("=")
        path = self._path_of(name.strip())
        if not equals or not path:
            self.problems.append(Problem(None, "must be key=value, for instance split.trials=3", where=where))
            return
        if path[0] in fixed:
            self.problems.append(Problem(None, f"{path[0]!r} cannot be changed", where=where))
            return
        try:
            parsed = load_text(value, where).data
        except ConfigError as error:
            self.problems.append(Problem(None, error.message.partition(": ")[2], where=where))
            return
        self.put(path, parsed, Origin("--set", where=where))

    def put(self, path: KeyPath, value: Any, origin: Origin) -> None:
        """Set one value, making the mappings on the way."""
        target: Any = self.data
        for i, step in enumerate(path):
            if isinstance(target, list) and not (isinstance(step, int) and step < len(target)):
                self.problems.append(_no_entry(target, step, origin))
                return
            if not isinstance(target, dict | list):
                self.problems.append(Problem(None, f"{path[i - 1]!r} is no mapping", where=origin.where))
                return
            if i == len(path) - 1:
                target[step] = value  # type: ignore[index]
            elif isinstance(target, dict) and target.get(step) is None:
                target[step] = {}
                self.origins[path[: i + 1]] = origin
            target = target[step]
        self._record(path, value, lambda _: origin)

    def origin(self, path: KeyPath) -> Origin:
        """Return the origin of the value at a path, or of its nearest parent."""
        while path and path not in self.origins:
            path = path[:-1]
        return self.origins.get(path, Origin("default"))

    def _merge(self, value: Any, path: KeyPath, place: KeyPath, source: _Source) -> None:
        """Lay a value, which stands at `place` of a source, over the data at `path`."""
        current = self._get(path)
        if isinstance(current, dict) and isinstance(value, dict):
            for key, item in value.items():
                self._merge(item, (*path, key), (*place, key), source)
        elif path == ("methods",) and isinstance(current, list) and isinstance(value, list):
            for i, item in enumerate(value):
                self._merge_method(item, current, (*place, i), source)
        else:
            self._set(path, copy.deepcopy(value))
            self._record(path, value, lambda below: source.origin((*place, *below)))

    def _merge_method(self, item: Any, current: list[Any], place: KeyPath, source: _Source) -> None:
        labels = [m.get("label") if isinstance(m, dict) else None for m in current]
        label = item.get("label") if isinstance(item, dict) else None
        if label is not None and label in labels:
            self._merge(item, ("methods", labels.index(label)), place, source)
            return
        if source.new_methods:
            current.append(copy.deepcopy(item))
            self._record(("methods", len(labels)), item, lambda below: source.origin((*place, *below)))
            return
        origin = source.origin((*place, "label"))
        near = suggest(str(label), [str(name) for name in labels], 1)
        hint = f"did you mean {near[0]!r}?" if near else "a profile changes methods of the file, named by their label"
        self.problems.append(Problem(origin.value, f"unknown method {label!r}", hint, origin.where))

    def _path_of(self, name: str) -> KeyPath:
        """Split ``methods.APG-RMTL.params.tol``; entries of lists are named by label, id or number."""
        path: list[str | int] = []
        current: Any = self.data
        while name:
            step: str | int
            if isinstance(current, list):
                step, name = _list_step(current, name)
            else:
                step, _, name = name.partition(".")
            path.append(step)
            current = self._get(tuple(path))
        return tuple(path)

    def _get(self, path: KeyPath) -> Any:
        value: Any = self.data
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def _set(self, path: KeyPath, value: Any) -> None:
        target = self._get(path[:-1])
        if isinstance(target, dict | list):
            target[path[-1]] = value  # type: ignore[index]

    def _record(self, path: KeyPath, value: Any, origin: Callable[[KeyPath], Origin]) -> None:
        """Note the origin of a value and of everything in it, forgetting what stood there."""
        self.origins = {p: o for p, o in self.origins.items() if p[: len(path)] != path}
        for below in _paths(value):
            self.origins[(*path, *below)] = origin(below)


def _list_step(entries: list[Any], name: str) -> tuple[str | int, str]:
    for i, entry in enumerate(entries):
        for label in (entry.get("label"), entry.get("id")) if isinstance(entry, dict) else (entry,):
            if isinstance(label, str) and (name == label or name.startswith(f"{label}.")):
                return i, name[len(label) + 1 :]
    first, _, rest = name.partition(".")
    return (int(first) if first.isdecimal() else first), rest


def _no_entry(entries: list[Any], step: str | int, origin: Origin) -> Problem:
    known = [str(e.get("label") or e.get("id")) if isinstance(e, dict) else str(e) for e in entries]
    near = suggest(str(step), known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return Problem(None, f"no entry {str(step)!r} in this list", hint, where=origin.where)


def _paths(value: Any) -> list[KeyPath]:
    found: list[KeyPath] = [()]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        found += [(step, *below) for below in _paths(item)]
    return found
