"""Errors that a user can fix. Standard library only, so that the command line starts fast."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

#: Characters of a message.
LONGEST = 8000
#: Characters of a name in a list of names.
LONGEST_NAME = 80
#: Known names of which all are listed.
MOST_NAMES = 60


class MtlrunError(Exception):
    """Root of all errors raised on purpose by mtlrun."""

    exit_code = 1


class UserError(MtlrunError):
    """Something the user can fix.

    Parameters
    ----------
    message : str
        What is wrong; names the file, line or argument.
    remedy : str, optional
        What to do about it.
    """

    exit_code = 2

    def __init__(self, message: str, remedy: str | None = None) -> None:
        message = shorten(message)
        super().__init__(message)
        self.message = message
        self.remedy = None if remedy is None else shorten(remedy)

    def __str__(self) -> str:
        return self.message if self.remedy is None else f"{self.message}\n{self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        # Subclasses have other constructors; worker processes must still be able to send them back.
        return (_rebuild, (type(self), self.message, self.remedy))


class ConfigError(UserError):
    """An experiment file, an override or an option is wrong."""


class DataError(UserError):
    """A data file is missing, damaged or not what its card says."""


class MemoryLimitError(UserError, ValueError):
    """A computation would need more memory than there is; a ValueError as well, for callers that know scikit-learn."""


class UnknownNameError(UserError):
    """A name that does not exist; the nearest known names are suggested."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], message: str = ""
    ) -> None:
        names = sorted(known)
        near = suggest(name, names)
        hint = (
            f"Did you mean {' or '.join(repr(n) for n in near)}?"
            if near
            else f"Known: {listed(names, 8 if len(names) > MOST_NAMES else MOST_NAMES)}."
        )
        super().__init__(message or f"unknown {kind} {name!r}", hint)


def suggest(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Return at most n known names near to `name`, those with its last part and then the nearest first."""
    table = {k.lower(): k for k in known}
    near = difflib.get_close_matches(
        name.lower(), list(table), n=max(len(table), 1), cutoff=0.6
    )
    if "/" in name:  # the part before the slash is more easily taken for another one
        last = name.lower().rpartition("/")[2]
        near.sort(key=lambda k: k.rpartition("/")[2] != last)
    return [table[k] for k in near[:n]]


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 task``, ``2 tasks``; a plural other than with an ``s`` is given."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return names in a row, of many the first ones and how many more there are: ``a, b, c and 1182 more``."""
    rest = len(names) - most
    shown = ", ".join(
        shorten(name, LONGEST_NAME) for name in (names if rest <= 1 else names[:most])
    )
    return f"{shown} and {rest} more" if rest > 1 else shown or "none"


def shorten(text: str, limit: int = LONGEST) -> str:
    """Return a text of at most about `limit` characters, its middle left out: what it quotes may be of any length."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"


def one_line(error: BaseException, limit: int = 500) -> str:
    """Return the type of an error and its message of at most `limit` characters; the remedy follows uncut."""
    message, remedy = (
        (error.message, error.remedy or "")
        if isinstance(error, UserError)
        else (str(error), "")
    )
    text = " ".join(f"{type(error).__name__}: {message}".split())[:limit]
    return f"{text.rstrip('.')}. {' '.join(remedy.split())}" if remedy else text


def _rebuild(cls: type[UserError], message: str, remedy: str | None) -> UserError:
    error = cls.__new__(cls)
    UserError.__init__(error, message, remedy)
    return error
