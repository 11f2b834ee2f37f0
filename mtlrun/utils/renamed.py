"""Earlier names of command-line options. Standard library only."""

from __future__ import annotations

#: Earlier names of options with their present names. They are still understood, but not
#: shown, and runs computed in the past have stored them in their commands.
FORMER_OPTIONS = {"--reading": "--interpretation"}


def with_present_options(command: str) -> str:
    """Return a command line with the present names of options in place of earlier ones.

    Parameters
    ----------
    command : str
        A command line as it was typed, for example one stored in a run.

    Returns
    -------
    str
        The same command line; only names of options change.
    """
    words = command.split(" ")
    return " ".join(present_name(word) for word in words)


def present_name(word: str) -> str:
    """Return an argument with the present name of an option in place of an earlier one."""
    name, equals, value = word.partition("=")
    return FORMER_OPTIONS.get(name, name) + equals + value
