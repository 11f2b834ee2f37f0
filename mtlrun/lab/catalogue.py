"""Which experiments exist. Standard library and PyYAML only, parsing no more than the head lines of every file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.utils.io import configs_dir, read_text_file

_HEAD = re.compile(r"^(id|title|kind|default_for):(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class CatalogueEntry:
    """One shipped experiment file.

    Attributes
    ----------
    id : str
        ``<paper>/<artefact>``, which is also where the file lies below the folder of experiments.
    title, kind : str
    default_for : tuple of str
        Bare names that mean this experiment although others end with them too.
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
    """Return all experiments of a folder (default: the shipped ones), sorted by id.

    `id`, `title`, `kind` and `default_for` must stand on one line each, at the left margin.
    """
    root = folder or configs_dir()
    return [_entry(path, root) for path in sorted(root.glob("*/*.yaml"))]


def find(target: str, folder: Path | None = None) -> Path:
    """Return the file of an experiment.

    Parameters
    ----------
    target : str
        ``<paper>/<artefact>``, a bare artefact name, or the path of a YAML file.
    folder : Path, optional
        Where the named experiments lie; default: the shipped ones.

    Raises
    ------
    UnknownNameError
        If no experiment has that name; near names are suggested.
    ConfigError
        If the path does not exist, or several experiments have that bare name and none is the default.
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
    exact = [e for e in entries if e.id == target]
    defaults = [e for e in entries if target in e.default_for]
    bare = [e for e in entries if e.artefact == target]
    found = exact or defaults or bare
    if not found:
        raise _unknown(target, entries)
    if len(found) > 1:
        names = ", ".join(e.id for e in found)
        raise ConfigError(
            f"{target!r} is the name of several experiments: {names}",
            "Give the paper too.",
        )
    return found[0].path


def name_of(source: str) -> str:
    """Return how messages call an experiment: one that comes with mtlrun by its id, others by their file."""
    shipped = source.startswith("configs/") and source.endswith(".yaml")
    return source.removeprefix("configs/").removesuffix(".yaml") if shipped else source


def same_name(target: str, id: str) -> list[str]:
    """Return the other experiments that a bare name could mean."""
    return [
        entry.id for entry in catalogue() if entry.artefact == target and entry.id != id
    ]


def _unknown(target: str, entries: list[CatalogueEntry]) -> UnknownNameError:
    """Return the error for a target that is no experiment, with what it is instead where that is known."""
    error = UnknownNameError(
        "experiment", target, {e.id for e in entries} | {e.artefact for e in entries}
    )
    if artefacts := [
        e.id for e in entries if e.id.startswith(f"{target.rstrip('/')}/")
    ]:
        error = UnknownNameError(
            "experiment", target, (), f"{target!r} is a paper, not one of its artefacts"
        )
        error.remedy = f"Name one: {', '.join(artefacts)}."
    elif Path(target).is_file():
        error = UnknownNameError(
            "experiment",
            target,
            (),
            f"{target}: not an experiment, which is a .yaml file",
        )
        error.remedy = (
            f"If it is a table: mtlrun compare {target} --target COLUMN --task COLUMN"
        )
    elif target.count("/") > 1 or Path(target).is_absolute() or Path(target).is_dir():
        what = (
            "a folder, not an experiment"
            if Path(target).is_dir()
            else "no folder, and no experiment"
        )
        error = UnknownNameError("experiment", target, (), f"{target}: {what}")
        error.remedy = "Experiments: mtlrun list. The report of a run: mtlrun report <output>/<paper>/<artefact>/<profile>."
    else:
        from mtlrun.estimators.registry import (
            METHODS,
        )  # only here: it loads the estimators

        if target in METHODS:
            error = UnknownNameError(
                "experiment", target, (), f"{target!r} is a method, not an experiment"
            )
            error.remedy = (
                f"Describe it: mtlrun list methods {target}. Experiments: mtlrun list."
            )
    return error


def shown_path(path: Path) -> str:
    """Return how messages call a file: never an absolute path of a shipped one."""
    absolute = Path(os.path.realpath(path))
    shipped = Path(os.path.realpath(configs_dir()))
    if absolute.is_relative_to(shipped):
        return f"configs/{absolute.relative_to(shipped).as_posix()}"
    shown = os.path.relpath(absolute)
    return str(path) if shown.startswith("..") else shown


def _entry(path: Path, root: Path) -> CatalogueEntry:
    lines = _HEAD.findall(read_text_file(path, errors="replace"))
    head = {key: _value(text) for key, text in reversed(lines)}
    names = head.get("default_for") or []
    place = path.relative_to(root).with_suffix("").as_posix()
    return CatalogueEntry(
        str(head.get("id") or place),
        str(head.get("title") or ""),
        str(head.get("kind") or "evaluate"),
        tuple(names if isinstance(names, list) else [str(names)]),
        path,
    )


def _value(text: str) -> Any:
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError:
        return text.strip()
