"""What ``--only`` chooses of a plan: patterns of data sets, methods and trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from mtlrun.errors import ConfigError, suggest


class OnlyError(ConfigError):
    """What `only` cannot mean, whatever the experiment."""


class NoMatchError(ConfigError):
    """A pattern of `only` that matches nothing of the experiment."""


def read_patterns(only: Mapping[str, Sequence[str]] | Iterable[str] | None) -> dict[str, list[str]]:
    """Return the patterns of ``method=LADM*,dataset=enron`` by key.

    Raises
    ------
    OnlyError
        If a part is not ``key=pattern``.
    """
    if only is None:
        return {}
    if isinstance(only, Mapping):
        return {key: [str(v) for v in values] for key, values in only.items()}
    found: dict[str, list[str]] = {}
    for part in (p for text in only for p in text.split(",")):
        key, equals, pattern = part.partition("=")
        if not equals:
            raise OnlyError(f"--only {part}: must be key=pattern", "for instance --only method=LADM*,dataset=enron")
        found.setdefault(key.strip(), []).append(pattern.strip())
    return found


def matching(rows: Sequence[Mapping[str, str]], patterns: Mapping[str, list[str]]) -> list[bool]:
    """Return whether each row, given by its names, matches one pattern of every key.

    Raises
    ------
    OnlyError, NoMatchError
        For an unknown key, and for a pattern that matches no row.
    """
    known = {key: list(dict.fromkeys(row[key] for row in rows)) for key in (rows[0] if rows else ())}
    for key, wanted in patterns.items():
        if key not in known:
            raise OnlyError(f"--only {key}=...: unknown key {key!r}", f"Known: {', '.join(known)}.")
        for pattern in wanted:
            if not any(_matches(name, pattern) for name in known[key]):
                near = suggest(pattern, known[key])
                hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"Known: {', '.join(known[key])}."
                raise NoMatchError(f"--only {key}={pattern}: matches no {key}", hint)
    return [all(any(_matches(row[key], p) for p in wanted) for key, wanted in patterns.items()) for row in rows]


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())
