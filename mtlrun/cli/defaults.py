"""Defaults of options from ``mtlrun.toml``, ``[tool.mtlrun]`` of ``pyproject.toml`` and variables ``MTLRUN_*``.

An option on the command line takes precedence over a variable, a variable over the file.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlrun.errors import ConfigError, UnknownNameError

FILE, PROJECT, SECTION = "mtlrun.toml", "pyproject.toml", "tool.mtlrun"
#: Key of the file -> environment variable, and the parameter of the commands.
KEYS = {
    "jobs": ("MTLRUN_JOBS", "jobs"),
    "output": ("MTLRUN_OUTPUT", "output_dir"),
    "data-dir": ("MTLRUN_DATA", "data_dir"),
    "profile": ("MTLRUN_PROFILE", "profile"),
}
#: Commands that delete are never narrowed or widened by a default.
WITHOUT_PROFILE = "clean"


@dataclass(frozen=True)
class Default:
    """The value of an option that is not given, and where it comes from."""

    value: Any
    origin: str


def defaults() -> dict[str, Default]:
    """Return the defaults that were set, by key.

    Raises
    ------
    ConfigError, UnknownNameError
        If the file is not TOML, or a key or value in it or in a variable is wrong; names the file and the key.
    """
    found = _from_file()
    for key, (variable, _) in KEYS.items():
        if text := os.environ.get(variable):
            found[key] = Default(_checked(text, key, f"{variable}={text}"), variable)
    return found


def default_map(command: Any, values: dict[str, Default] | None = None, name: str = "") -> dict[str, Any]:
    """Return the defaults of a command or, by name, of those of a group, as Click takes them."""
    values = defaults() if values is None else values
    if hasattr(command, "commands"):
        return {part: default_map(inner, values, part) for part, inner in command.commands.items()}
    known = {parameter.name for parameter in command.params}
    chosen = {KEYS[key][1]: default.value for key, default in values.items()}
    if name == WITHOUT_PROFILE:
        chosen.pop("profile", None)
    return {parameter: value for parameter, value in chosen.items() if parameter in known}


def _from_file() -> dict[str, Default]:
    """Return what the nearest file says, of the current folder or one above it."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        for name in (FILE, PROJECT):
            path = folder / name
            if not path.is_file():
                continue
            shown = name if folder == here else str(path)
            content = _section(path, shown)
            if content is not None:
                where = shown if name == FILE else f"{shown} [{SECTION}]"
                return {key: _read(key, value, where, folder) for key, value in content.items()}
    return {}


def _section(path: Path, shown: str) -> dict[str, Any] | None:
    """Return the settings in a file, None in a project that has none."""
    try:
        content: Any = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        if path.name == PROJECT:
            return None  # another program's file: none of our business
        raise ConfigError(f"{shown}: cannot be read: {error}", "It must be TOML: lines such as jobs = 2.") from None
    if path.name == FILE:
        return dict(content)
    for part in SECTION.split("."):
        content = content.get(part) if isinstance(content, dict) else None
    if content is not None and not isinstance(content, dict):
        raise ConfigError(f"{shown}: {SECTION} is not a table", f"Write [{SECTION}] and lines such as jobs = 2 below.")
    return content


def _read(key: str, value: Any, where: str, folder: Path) -> Default:
    if key not in KEYS:
        raise UnknownNameError(f"key in {where}:", key, KEYS)
    value = _checked(value, key, f"{where}: {key}")
    if key in ("output", "data-dir"):  # paths are relative to the file
        place = folder / Path(value).expanduser()
        value = str(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place)
    return Default(value, where)


def _checked(value: Any, key: str, where: str) -> Any:
    """Return a value of the type of its key; `where` names it in messages."""
    if key == "jobs":
        number = int(value) if isinstance(value, str) and value.lstrip("-").isdecimal() else value
        if type(number) is not int or number == 0 or number < -1:
            raise ConfigError(
                f"{where}: {value!r} is not a number of processes", "Give 1 or more, or -1 for all cores."
            )
        return number
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: {value!r} is not a string", f'Write {key} = "..." with a name or a path.')
    return value
