"""Wrong command lines in plain words: what is wrong with which argument, and what helps."""

from __future__ import annotations

from typing import Any

#: What an option that is not there, or lacks its value, is answered with.
_HELP = "See all options: {} --help"


def usage_error(error: Any) -> tuple[str, str] | None:
    """Return what is wrong and the remedy for an error of Typer; None for any other exception.

    Parameters
    ----------
    error : Exception
        Of Typer: it has a context and knows how to say what is wrong, in words that the terminal's user may not know.
    """
    kind, context = type(error).__name__, getattr(error, "ctx", None)
    if kind == "BadOptionUsage":
        return f"{error.option_name} needs a value", _HELP.format("the command with")
    if context is None or kind == "NoArgsIsHelpError" or not hasattr(error, "format_message"):
        return None
    command, param = context.command_path, getattr(error, "param", None)
    if kind == "NoSuchOption":
        return f"{command} has no option {error.option_name}", _other_option(error, command)
    if param is None:
        text, _, near = str(error.format_message()).partition(" Did you mean ")
        text = text.replace("Got unexpected extra argument(s)", "takes no further argument").rstrip(".")
        return f"{command}: {text[:1].lower()}{text[1:]}", f"Did you mean {near}" if near else _HELP.format(command)
    name = _name(param)
    source = getattr(context.get_parameter_source(param.name), "name", "")
    if source == "ENVIRONMENT" and param.envvar:  # nobody typed the option
        name = f"{param.envvar if isinstance(param.envvar, str) else param.envvar[0]} ({name})"
    about = " ".join(str(getattr(param, "help", None) or "").split())
    if about and param.param_type_name == "option":
        about = f"{_name(param)} {param.metavar or ''}".strip() + f": {about}"
    if kind == "MissingParameter":
        return f"{command} needs {name}", about or _HELP.format(command)
    from pydantic import ValidationError

    cause = error.__cause__
    if isinstance(cause, ValidationError):
        from mtlrun.utils.yaml import reworded

        finding = cause.errors(include_url=False)[0]
        value, choice, choices = reworded(finding).rstrip(".").partition(" is not one of ")
        wrong = f"must be one of {choices}, not {value}" if choice else value
        return f"{name} {wrong}", _share(finding) or about or _HELP.format(command)
    return f"{name}: {error.message}", about or _HELP.format(command)


def _name(param: Any) -> str:
    """Return how a parameter is typed: its longest option, or its place in the usage line."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name).strip("[].").upper()


def _other_option(error: Any, command: str) -> str:
    """Return the options that come close, or else the commands that have this one."""
    from mtlrun.errors import suggest

    commands = getattr(error.ctx.find_root().command, "commands", {})
    have = [name for name, one in commands.items() if any(error.option_name in p.opts for p in one.params)]
    if have:
        return f"{', '.join(f'mtlrun {name}' for name in have)} {'has' if len(have) == 1 else 'have'} it."
    near = suggest(error.option_name, [name for param in error.ctx.command.params for name in param.opts])
    return f"Did you mean {' or '.join(near)}?" if near else _HELP.format(command)


def _share(finding: Any) -> str:
    """Say how a percentage is written, where one was given for a number."""
    text = str(finding.get("input", ""))
    if not str(finding["type"]).startswith("float") or not text.endswith("%"):
        return ""
    try:
        return f"Write it as a share: {float(text[:-1]) / 100:g}"
    except ValueError:
        return ""
