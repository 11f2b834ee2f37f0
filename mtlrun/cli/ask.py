"""Questions before something is downloaded or deleted."""

from __future__ import annotations

import sys

import typer

from mtlrun.errors import UserError


def has_terminal() -> bool:
    """Whether somebody can answer."""
    return sys.stdin.isatty()


def confirm(question: str, *, yes: bool, doing: str) -> None:
    """Ask on a terminal; elsewhere only --yes counts.

    Parameters
    ----------
    question : str
    yes : bool
        Whether --yes was given.
    doing : str
        What is not done without an answer, as in "nothing is deleted".

    Raises
    ------
    UserError
        Without a terminal and without --yes, or if the answer is no.
    """
    if yes:
        return
    if not has_terminal():
        raise UserError(f"without a terminal to ask on, nothing is {doing}", "Say --yes to go ahead.")
    if not typer.confirm(question):
        raise UserError(f"nothing is {doing}")
