"""Mappings of a YAML file whose keys are asked for one by one, for cards: what is wrong is collected with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mtlrun.errors import DataError, suggest
from mtlrun.utils.yaml import Document, KeyPath, Problem, load_file, render

_MISSING = object()
_SHOWN = 60
_KINDS = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    dict: "a mapping",
    list: "a list",
    float: "a number",
}


class Problems:
    """A file and everything wrong with it, reported together."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[Problem] = []

    def value(self, path: KeyPath) -> Any:
        """Return the value at a path."""
        value = self.document.data
        for step in path:
            value = value[step]
        return value

    def add(self, path: KeyPath, text: str) -> None:
        """Note a problem at the place of a value."""
        self.found.append(Problem(self.document.value_mark(path), text))

    def add_key(self, path: KeyPath, text: str) -> None:
        """Note a problem at the place of a key."""
        self.found.append(Problem(self.document.key_mark(path), text))

    def raise_any(self) -> None:
        """Raise a DataError with all problems in the order of their lines, if there are any."""
        if self.found:
            text = render(self.found, self.document)
            raise DataError(text, "The keys of a card are described in mtlrun/data/cards.py.")


class Section:
    """One mapping of the file; every key must be asked for before `close`, which refuses the others."""

    def __init__(self, path: KeyPath, problems: Problems, what: str) -> None:
        self.path, self.problems, self.what = path, problems, what
        self.entries: dict[str, Any] = {}
        self.asked: list[str] = []
        content = problems.value(path)
        if isinstance(content, dict):
            self.entries = content
        else:
            problems.add(path, f"{what} must be a mapping")

    def value(
        self,
        key: str,
        kind: type | tuple[type, ...],
        default: Any = _MISSING,
        check: Callable[[Any], str | None] = lambda _: None,
    ) -> Any:
        """Return the value of `key`, of type `kind`; `check` returns what is wrong with it, or None."""
        fallback = None if default is _MISSING else default
        if not self._has(key, required=default is _MISSING):
            return fallback
        value = self.entries[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(_KINDS[k] for k in kinds)
            self.fail(key, f"{key} must be {wanted}, not {shown(value)}")
            return fallback
        wrong = check(value)
        if wrong:
            self.fail(key, f"{key} {wrong}")
        return value

    def section(self, key: str) -> Section | None:
        """Return the mapping under `key`, or None."""
        return Section((*self.path, key), self.problems, key) if self._has(key) else None

    def items(self, key: str) -> list[KeyPath]:
        """Return the paths of the items of the list under `key` (none when absent)."""
        if not self._has(key):
            return []
        if not isinstance(self.entries[key], list):
            self.fail(key, f"{key} must be a list")
            return []
        return [(*self.path, key, i) for i in range(len(self.entries[key]))]

    def names(self) -> list[str]:
        """Return all keys, and count them as asked for."""
        self.asked.extend(self.entries)
        return list(self.entries)

    def fail(self, key: str, text: str) -> None:
        """Note a problem at the value of `key`, or at the section when it is absent."""
        self.problems.add((*self.path, key), text)

    def close(self) -> None:
        """Refuse every key that was never asked for."""
        for name in self.entries:
            if name not in self.asked:
                near = suggest(name, self.asked, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(self.asked))}"
                self.problems.add_key((*self.path, name), f"unknown key {name!r} in {self.what}: {hint}")

    def _has(self, key: str, *, required: bool = False) -> bool:
        self.asked.append(key)
        if key not in self.entries and required:
            self.problems.add(self.path, f"{self.what} lacks the key {key!r}")
        return key in self.entries


def read_mapping(path: Path) -> Section:
    """Parse a YAML file whose top level is a mapping.

    Raises
    ------
    DataError
        If the file cannot be read or is no acceptable YAML, with its line and column.
    """
    document = load_file(path, error=DataError)
    if document.data is None:
        raise DataError(f"{path}: the card is empty")
    problems = Problems(document)
    section = Section((), problems, "the card")
    problems.raise_any()
    return section


def shown(value: Any) -> str:
    """Return a value for a message, cut when it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
