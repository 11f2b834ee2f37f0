"""Cheap cases that one test checks, and all of which it names that fail."""

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

#: Shortens the arguments of a case.
SHORT = reprlib.Repr()
SHORT.maxstring = 70
SHORT.maxother = 70


def all_cases(
    names: str | Sequence[str], values: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Check all cases of a table in one test.

    A replacement of ``pytest.mark.parametrize`` for statements that take less time than
    to set up and report a test. The cases share the fixtures of the test.

    Parameters
    ----------
    names : str or sequence of str
        Arguments of the test that the table contains.
    values : iterable
        Value of the argument for each case; if `names` is a sequence, sequences of
        values.
    """
    if isinstance(names, str):
        argument_names = [names]
        rows = [[value] for value in values]
    else:
        argument_names = list(names)
        rows = list(values)
    cases = [dict(zip(argument_names, row, strict=True)) for row in rows]
    named_cases = {
        f"case {number}, {describe(case)}": case for number, case in enumerate(cases, 1)
    }

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(check)
        fixtures = [
            parameter
            for name, parameter in signature.parameters.items()
            if name not in argument_names
        ]

        @functools.wraps(check)
        def check_all(**arguments: Any) -> None:
            check_each(functools.partial(check, **arguments), named_cases)

        # pytest passes the fixtures in this signature.
        check_all.__signature__ = signature.replace(parameters=fixtures)
        return check_all

    return decorate


def check_each(
    check: Callable[..., None], cases: Mapping[str, Mapping[str, Any]]
) -> None:
    """Check every case, also after others have failed; then name those that failed.

    If none failed, but some were skipped, the test is skipped and names them.

    Parameters
    ----------
    check : callable
        Checks a case, with its arguments.
    cases : mapping of str to mapping
        Arguments of each case, by its name.
    """
    assert cases, "there are no cases"
    failures: dict[str, BaseException] = {}
    skipped: dict[str, BaseException] = {}
    for name, arguments in cases.items():
        try:
            check(**arguments)
        except pytest.skip.Exception as skip:
            skipped[name] = skip
        except (Exception, pytest.fail.Exception) as failure:
            failures[name] = failure
    if failures:
        lines = [
            f"{name}: {type(failure).__name__}: {failure}"
            for name, failure in failures.items()
        ]
        first = next(iter(failures.values()))
        raise AssertionError("\n".join(["", *lines])) from first
    if skipped:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        pytest.skip(f"{len(skipped)} of {len(cases)} cases: {reasons}")


def describe(case: Mapping[str, Any]) -> str:
    """Return the arguments of a case on one line, shortened."""
    texts = [f"{name}={SHORT.repr(value)}" for name, value in case.items()]
    return " ".join(", ".join(texts).split())
