"""Catalog of the experiment files.

`mtlrun list` and completion in the shell must be fast: this module imports only the
standard library and PyYAML, and parses only the first keys of each file.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.utils.io import configs_dir, read_text_file

#: Lines of a file that the catalog reads.
_HEAD = re.compile(r"^(id|title|kind|default_for):(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class CatalogueEntry:
    """Experiment file that comes with mtlrun.

    Attributes
    ----------
    id : str
        ``<paper>/<artefact>``, also the path below the folder of experiments.
    title, kind : str
    default_for : tuple of str
        Short names that mean this experiment even if other ids end with them.
    path : Path
    """

    id: str
    title: str
    kind: str
    default_for: tuple[str, ...]
    path: Path

    @property
    def artefact(self) -> str:
        """Last part of the id."""
        return self.id.rpartition("/")[2]


def catalogue(folder: Path | None = None) -> list[CatalogueEntry]:
    """Return the experiments of a folder, sorted by id.

    The keys `id`, `title`, `kind` and `default_for` of a file must each be written on
    one line, without indentation.

    Parameters
    ----------
    folder : Path, default=None
        None for the experiments that come with mtlrun.
    """
    root = folder or configs_dir()
    entries = []
    for path in sorted(root.glob("*/*.yaml")):
        head: dict[str, Any] = {}
        for key, text in _HEAD.findall(read_text_file(path, errors="replace")):
            # The first line with a key counts.
            head.setdefault(key, _value(text))
        default_id = path.relative_to(root).with_suffix("").as_posix()
        default_for = head.get("default_for") or []
        if not isinstance(default_for, list):
            default_for = [str(default_for)]
        entry = CatalogueEntry(
            id=str(head.get("id") or default_id),
            title=str(head.get("title") or ""),
            kind=str(head.get("kind") or "evaluate"),
            default_for=tuple(default_for),
            path=path,
        )
        entries.append(entry)
    return entries


def find(target: str, folder: Path | None = None) -> Path:
    """Return the file of an experiment.

    Parameters
    ----------
    target : str
        ``<paper>/<artefact>``, its last part alone, or the path of a YAML file.
    folder : Path, default=None
        Folder of experiments; None for the experiments that come with mtlrun.

    Raises
    ------
    UnknownNameError
        If no experiment has this name. The remedy suggests similar names.
    ConfigError
        If the file does not exist, or if a short name is ambiguous.
    """
    path = Path(target)
    if path.suffix in (".yaml", ".yml"):
        if not path.exists():
            raise ConfigError(
                f"{target}: no such file",
                "mtlrun list shows the experiments that come with mtlrun.",
            )
        return path
    entries = catalogue(folder)
    same_id = []
    defaults = []
    same_last_part = []
    for entry in entries:
        if entry.id == target:
            same_id.append(entry)
        if target in entry.default_for:
            defaults.append(entry)
        if entry.artefact == target:
            same_last_part.append(entry)
    matches = same_id or defaults or same_last_part
    if not matches:
        raise _unknown(target, entries)
    if len(matches) > 1:
        names = ", ".join(entry.id for entry in matches)
        raise ConfigError(
            f"{target!r} is the name of several experiments: {names}",
            "Give the paper too.",
        )
    return matches[0].path


def name_of(source: str) -> str:
    """Return the name of an experiment for messages.

    It is the id of an experiment that comes with mtlrun, and the file of any other.
    """
    is_shipped = source.startswith("configs/") and source.endswith(".yaml")
    if not is_shipped:
        return source
    return source.removeprefix("configs/").removesuffix(".yaml")


def same_name(target: str, id: str) -> list[str]:
    """Return the ids of the other experiments that a short name could mean."""
    ids = []
    for entry in catalogue():
        if entry.artefact == target and entry.id != id:
            ids.append(entry.id)
    return ids


def _unknown(target: str, entries: list[CatalogueEntry]) -> UnknownNameError:
    """Create the error for an unknown target, which says what the target is instead."""
    items = [e.id for e in entries if e.id.startswith(f"{target.rstrip('/')}/")]
    if items:
        return _no_experiment(
            target,
            f"{target!r} is a paper, not one of its artifacts",
            f"Name one: {', '.join(items)}.",
        )
    path = Path(target)
    if path.is_file():
        return _no_experiment(
            target,
            f"{target}: not an experiment, which is a .yaml file",
            f"If it is a table: mtlrun compare {target} --target COLUMN --task COLUMN",
        )
    if target.count("/") > 1 or path.is_absolute() or path.is_dir():
        kind = "no folder, and no experiment"
        if path.is_dir():
            kind = "a folder, not an experiment"
        return _no_experiment(
            target,
            f"{target}: {kind}",
            "Experiments: mtlrun list. The report of a run: "
            "mtlrun report <output>/<paper>/<artifact>/<profile>.",
        )
    # Importing the registry takes long, and other targets do not need it.
    from mtlrun.catalog.registry import BASELINES, METHODS

    if target in METHODS | BASELINES:
        return _no_experiment(
            target,
            f"{target!r} is a method, not an experiment",
            f"Describe it: mtlrun list methods {target}. Experiments: mtlrun list.",
        )
    names = set()
    for entry in entries:
        names |= {entry.id, entry.artefact}
    return UnknownNameError("experiment", target, names)


def _no_experiment(target: str, message: str, remedy: str) -> UnknownNameError:
    error = UnknownNameError("experiment", target, (), message)
    error.remedy = remedy
    return error


def shown_path(path: Path) -> str:
    """Return the path of a file for messages.

    It is relative to the current folder if the file is below it. Files that come with
    mtlrun never show where it is installed.
    """
    absolute = Path(os.path.realpath(path))
    configs = Path(os.path.realpath(configs_dir()))
    if absolute.is_relative_to(configs):
        return f"configs/{absolute.relative_to(configs).as_posix()}"
    relative = os.path.relpath(absolute)
    if relative.startswith(".."):
        return str(path)
    return relative


@lru_cache(maxsize=1024)
def _value(text: str) -> Any:
    """Parse the value of a key; the same files are read for each target."""
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError:
        return text.strip()
