"""Mappings of a YAML file that remember their lines, for cards. Needs PyYAML only, so that listing cards is fast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from mtlrun.core.errors import DataError, suggest

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MISSING = object()


class Problems:
    """Everything wrong with one file, reported together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[tuple[int, str]] = []

    def add(self, node: yaml.Node, text: str) -> None:
        """Note a problem at the place of `node`."""
        mark = node.start_mark
        self.lines.append((mark.line + 1, f"{self.path}:{mark.line + 1}:{mark.column + 1}: {text}"))

    def raise_any(self) -> None:
        """Raise a DataError with all problems in the order of their lines, if there are any."""
        if self.lines:
            text = "\n".join(line for _, line in sorted(self.lines))
            raise DataError(text, "The keys of a card are described in mtlrun/data/cards.py.")


class Section:
    """One mapping of the file; every key must be asked for before `close`, which refuses the others."""

    def __init__(self, node: yaml.Node, problems: Problems, what: str) -> None:
        self.node, self.problems, self.what = node, problems, what
        self.entries: dict[str, yaml.Node] = {}
        self.keys: dict[str, yaml.Node] = {}
        self.asked: list[str] = []
        if not isinstance(node, yaml.MappingNode):
            problems.add(node, f"{what} must be a mapping")
            return
        for key, value in node.value:
            name = str(key.value)
            if name in self.entries:
                problems.add(key, f"{name!r} is given twice")
            self.entries[name], self.keys[name] = value, key

    def value(
        self,
        key: str,
        kind: type | tuple[type, ...],
        default: Any = _MISSING,
        check: Callable[[Any], str | None] = lambda _: None,
    ) -> Any:
        """Return the plain value of `key`, of type `kind`; `check` returns what is wrong with it, or None."""
        node = self._node(key, required=default is _MISSING)
        if node is None:
            return None if default is _MISSING else default
        value = plain(node)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            self.problems.add(node, f"{key} must be {_kind_name(kind)}, not {value!r}")
            return None if default is _MISSING else default
        wrong = check(value)
        if wrong:
            self.problems.add(node, f"{key} {wrong}")
        return value

    def section(self, key: str) -> Section | None:
        """Return the mapping under `key`, or None."""
        node = self._node(key, required=False)
        return None if node is None else Section(node, self.problems, key)

    def items(self, key: str) -> list[yaml.Node]:
        """Return the nodes of the list under `key` (none when absent)."""
        node = self._node(key, required=False)
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode):
            self.problems.add(node, f"{key} must be a list")
            return []
        return list(node.value)

    def names(self) -> list[str]:
        """Return all keys, and count them as asked for."""
        self.asked.extend(self.entries)
        return list(self.entries)

    def fail(self, key: str, text: str) -> None:
        """Note a problem at the value of `key`, or at the section when it is absent."""
        self.problems.add(self.entries.get(key, self.node), text)

    def close(self) -> None:
        """Refuse every key that was never asked for."""
        for name, key in self.keys.items():
            if name not in self.asked:
                near = suggest(name, self.asked, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(self.asked))}"
                self.problems.add(key, f"unknown key {name!r} in {self.what}: {hint}")

    def _node(self, key: str, *, required: bool) -> yaml.Node | None:
        self.asked.append(key)
        node = self.entries.get(key)
        if node is None and required:
            self.problems.add(self.node, f"{self.what} lacks the key {key!r}")
        return node


def read_mapping(path: Path) -> Section:
    """Parse a YAML file whose top level is a mapping.

    Raises
    ------
    DataError
        If the file cannot be read or is no YAML, with its line and column.
    """
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the card: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise DataError(f"{place}: {getattr(error, 'problem', None) or error}", "The card is no valid YAML.") from None
    problems = Problems(path)
    if node is None:
        raise DataError(f"{path}: the card is empty")
    section = Section(node, problems, "the card")
    problems.raise_any()
    return section


def plain(node: yaml.Node) -> Any:
    """Return the Python value of a node."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    finally:
        loader.dispose()


def _kind_name(kind: type | tuple[type, ...]) -> str:
    names = {
        str: "a text",
        int: "a whole number",
        bool: "true or false",
        dict: "a mapping",
        list: "a list",
        float: "a number",
    }
    return " or ".join(names[k] for k in (kind if isinstance(kind, tuple) else (kind,)))
