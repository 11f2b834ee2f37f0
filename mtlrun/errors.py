"""Errors that a user can fix. Standard library only, so that the command line starts fast."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterable, Sequence

# Only for type checkers: importing `typing` delays the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

#: Characters of a message.
LONGEST = 8000
#: Characters of a name in a list of names.
LONGEST_NAME = 80
#: Known names of which all are listed.
MOST_NAMES = 60

#: Options of the command line without a counterpart in Python, without the dashes.
SHELL_ONLY = set(
    """all check column debug dry-run fail-fast files-only format json kind merge
    nthreads nworkers open out proba quiet safe-csv sample schema search seconds set
    task-name tasks timeout url yes""".split()  # noqa: SIM905
)
#: Options without a value.
_FLAGS = {"calibrate", "curve", "force", "new-tasks", "time-blocks"}
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
#: Words that may follow an option in a sentence, but are not its value.
_PROSE = set(
    """and another as cannot compares computes do does for has have in is leaves must
    names needs of once or out says shows splits swapped takes to twice
    with""".split()  # noqa: SIM905
)
# A command stays as it is, up to the end of its sentence or its closing backtick.
_COMMAND_OR_OPTION = re.compile(
    r"(?P<command>\bmtlrun [a-z]+[^`;\n]*?(?=`|;|\n|\. |\.$|$))"
    r"|(?<![\w-])--(?P<name>[a-z][a-z-]*[a-z])"
    r"(?P<value>[ =](?:'[^']*'|\"[^\"]*\"|[\w*/][^\s()`]*?(?=[.,;:?!)]*(?:[\s`]|$))))?"
)


class MtlrunError(Exception):
    """Root of all errors raised on purpose by mtlrun."""

    exit_code = 1


class UserError(MtlrunError):
    """Something the user can fix.

    `message` and `remedy` name options of the command line. Once the error has left a
    public function (`with_arguments`), the text that Python prints names the arguments
    of the same meaning instead.

    Parameters
    ----------
    message : str
        What is wrong; names the file, line or argument.
    remedy : str, optional
        What to do about it.
    """

    exit_code = 2
    #: Whether the error has left a function that users call from Python.
    names_arguments = False

    def __init__(self, message: str, remedy: str | None = None) -> None:
        message = shorten(message)
        super().__init__(message)
        self.message = message
        self.remedy = None if remedy is None else shorten(remedy)

    def __str__(self) -> str:
        if self.names_arguments:
            return in_python(self.shell_text)
        return self.shell_text

    @property
    def shell_text(self) -> str:
        """Message and remedy, with the options of the command line."""
        if self.remedy is None:
            return self.message
        return f"{self.message}\n{self.remedy}"

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


def with_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Let the errors of a public function name its arguments instead of options."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            error.names_arguments = True
            raise

    return wrapper


def in_python(text: str) -> str:
    """Write options of a message as arguments of Python.

    ``--unseen mean`` becomes ``unseen='mean'``. Whole commands (``mtlrun predict ...``)
    and options that Python does not have stay.
    """
    parts: list[str] = []
    end = 0
    previous = ""
    values: list[str] = []
    for match in _COMMAND_OR_OPTION.finditer(text):
        name = match["name"]
        if name is None or name in SHELL_ONLY:
            continue
        between = text[end : match.start()]
        end = match.end("name")
        value = (match["value"] or "")[1:]
        if name in _FLAGS or value in _PROSE:
            value = ""
        if value:
            end = match.end()
        if not (value and name == previous and between == " "):
            values = []
            parts += [between, ""]
        if value:
            values.append(_unquoted(value))
        # `--trust A --trust B` is one argument with a list: it is written again.
        parts[-1] = _argument(name, values)
        previous = name
    return "".join([*parts, text[end:]])


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def _argument(name: str, values: Sequence[str]) -> str:
    """Return an argument with its values; its name alone where it has none."""
    argument = name.replace("-", "_")
    if name in _FLAGS:
        return f"{argument}=True"
    if not values:
        return argument
    if len(values) > 1:
        return f"{argument}={list(values)!r}"
    if _NUMBER.fullmatch(values[0]):
        return f"{argument}={values[0]}"
    return f"{argument}={values[0]!r}"


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
