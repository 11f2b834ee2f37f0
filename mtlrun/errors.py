"""Errors that a user can fix, and the texts that they are made of.

Only the standard library is imported, so that the command line starts fast.
"""

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

#: Largest number of characters of a message, and of a name in a list of names.
MAX_MESSAGE = 8000
MAX_NAME = 80
#: Up to this number, an unknown name is answered by all known names. With more of them,
#: the message has the first `N_FIRST_NAMES`.
MAX_LISTED_NAMES = 60
N_FIRST_NAMES = 8

#: Options of the command line without a counterpart in Python, without the dashes.
SHELL_ONLY = set(
    """all check column debug dry-run fail-fast files-only format json kind merge
    nthreads nworkers open out proba quiet safe-csv sample schema search seconds set
    task-name tasks url yes""".split()  # noqa: SIM905
)
#: Options that are switches: they have no value.
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
        # Subclasses have constructors with other parameters. Without this method,
        # worker processes could not send their errors back.
        return (_rebuild, (type(self), self.message, self.remedy))


class ConfigError(UserError):
    """An experiment file, an override or an option is wrong."""


class DataError(UserError):
    """A data file is missing, damaged or not what its card says."""


#: Remedy where the memory does not suffice.
MEMORY_REMEDY = (
    "Take part of the rows, or a machine with more memory. `mtlrun compare` reads a "
    "folder of .parquet or .csv files in chunks, even if it contains a single file."
)


class MemoryLimitError(UserError, ValueError):
    """A computation would need more memory than there is.

    It is a ValueError as well, which callers expect from scikit-learn.
    """


class UnknownNameError(UserError):
    """A name that does not exist.

    The remedy suggests the names nearest to it, or lists the known names.

    Parameters
    ----------
    kind : str
        Kind of thing that was named, such as ``"method"``.
    name : str
    known_names : iterable of str
    message : str, optional
        Default: ``unknown {kind} {name}``.
    """

    def __init__(
        self, kind: str, name: str, known_names: Iterable[str], message: str = ""
    ) -> None:
        names = sorted(known_names)
        near = suggest(name, names)
        if near:
            quoted = [repr(near_name) for near_name in near]
            remedy = f"Did you mean {' or '.join(quoted)}?"
        elif len(names) > MAX_LISTED_NAMES:
            remedy = f"Known: {listed(names, N_FIRST_NAMES)}."
        else:
            remedy = f"Known: {listed(names, MAX_LISTED_NAMES)}."
        super().__init__(message or f"unknown {kind} {name!r}", remedy)


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
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            values.append(value[1:-1] if is_quoted else value)
        # `--trust A --trust B` is one argument with a list, so the argument of the
        # first option is replaced.
        parts[-1] = _argument(name, values)
        previous = name
    return "".join([*parts, text[end:]])


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


def suggest(name: str, known_names: Iterable[str], n: int = 3) -> list[str]:
    """Return the known names nearest to a name, whatever their case.

    Parameters
    ----------
    name : str
        May have a group before a slash; names with its last part come first.
    known_names : iterable of str
    n : int, default=3
        Largest number of names.
    """
    names_by_lower = {other.lower(): other for other in known_names}
    near = difflib.get_close_matches(
        name.lower(),
        list(names_by_lower),
        n=max(len(names_by_lower), 1),
        cutoff=0.6,
    )
    if "/" in name:
        # Users mistake the group more often than the name in it.
        last_part = _after_slash(name.lower())
        near.sort(key=lambda lower: _after_slash(lower) != last_part)
    return [names_by_lower[lower] for lower in near[:n]]


def _after_slash(name: str) -> str:
    return name.rpartition("/")[2]


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as ``1 task`` or ``2 tasks``.

    Parameters
    ----------
    count : int
    noun : str
    plural : str, optional
        Default: the noun with an ``s``.
    """
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {plural or noun + 's'}"


def listed(names: Sequence[str], limit: int = 5) -> str:
    """Return names as text, such as ``a, b, c and 1182 more``; ``none`` without names.

    Parameters
    ----------
    names : sequence of str
    limit : int, default=5
        Number of names that are written out. One more is, too, instead of "1 more".
    """
    n_others = len(names) - limit
    if n_others <= 1:
        return ", ".join(_shortened_names(names)) or "none"
    return f"{', '.join(_shortened_names(names[:limit]))} and {n_others} more"


def _shortened_names(names: Sequence[str]) -> list[str]:
    return [shorten(name, MAX_NAME) for name in names]


def shorten(text: str, limit: int = MAX_MESSAGE) -> str:
    """Return a text of about `limit` characters at most; its middle is left out.

    Messages quote names and cells of a user's table, which may have any length.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    n_left_out = len(text) - 2 * half
    return f"{text[:half]} [... {n_left_out} characters ...] {text[-half:]}"


def one_line(error: BaseException, limit: int = 500) -> str:
    """Return the type, message and remedy of an error in one line.

    Parameters
    ----------
    error : Exception
    limit : int, default=500
        Largest number of characters of type and message. The remedy follows in full.
    """
    message = str(error)
    remedy = ""
    if isinstance(error, UserError):
        message = error.message
        remedy = _one_spaced(error.remedy or "")
    text = _one_spaced(f"{type(error).__name__}: {message}")[:limit]
    if not remedy:
        return text
    return f"{text.rstrip('.')}. {remedy}"


def _one_spaced(text: str) -> str:
    """Return a text without line breaks and repeated spaces."""
    return " ".join(text.split())


def _rebuild(cls: type[UserError], message: str, remedy: str | None) -> UserError:
    """Create an error that was pickled."""
    error = cls.__new__(cls)
    UserError.__init__(error, message, remedy)
    return error


def check_choice(name: str, value: str, *choices: str) -> None:
    """Refuse a value that is none of the choices.

    Raises
    ------
    ValueError
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
