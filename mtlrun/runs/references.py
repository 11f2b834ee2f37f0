"""Reference numbers that stand in a printed table, put in the place of the entry of an experiment that names it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mtlrun.papers.printed import KEYS, read_printed
from mtlrun.report.checks import as_list
from mtlrun.runs.spec import ReferenceFile
from mtlrun.utils.yaml import Document, KeyPath, Mark

#: Fields of an entry that all its numbers take over.
_SHARED = ("n", "profile", "source", "absolute", "relative", "sigmas")


def expand_references(document: Document, folder: Path, name: str) -> None:
    """Put the numbers of printed tables into an experiment and its profiles, each with the mark of its file.

    Entries that the schema refuses stay as they are, for it to say why.

    Parameters
    ----------
    document : Document
        Changed in place.
    folder : Path
        Of the experiment file; tables are named from there on.
    name : str
        How messages call the folder.

    Raises
    ------
    ConfigError
        If a table cannot be read, with the line and column of its cells.
    """
    data = document.data if isinstance(document.data, dict) else {}
    profiles = data.get("profiles")
    sections: dict[KeyPath, Any] = {(): data}
    sections |= {("profiles", key): section for key, section in profiles.items()} if isinstance(profiles, dict) else {}
    axis = data["sweep"].get("name") if isinstance(data.get("sweep"), dict) else None
    for path, section in sections.items():
        if isinstance(section, dict) and any(_is_file(entry) for entry in as_list(section.get("reference"))):
            _expand(document, section, (*path, "reference"), folder, name, axis)


def _is_file(entry: Any) -> bool:
    return isinstance(entry, dict) and "file" in entry


def _expand(document: Document, section: dict[str, Any], here: KeyPath, folder: Path, name: str, axis: Any) -> None:
    """Replace the entries of one section; each number then stands where the table is named."""
    listed = isinstance(section["reference"], list)
    entries: list[Any] = []
    marks: list[Mark | None] = []
    for i, entry in enumerate(as_list(section["reference"])):
        source: KeyPath = (*here, i) if listed else here
        numbers = _numbers(entry, folder, name, axis) if _is_file(entry) else None
        entries += [entry] if numbers is None else numbers
        mark = document.value_mark(source if numbers is None else (*source, "file"))
        marks += [mark] * (1 if numbers is None else len(numbers))
    for known in (document.keys, document.values):
        for path in [path for path in known if path[: len(here)] == here and len(path) > len(here)]:
            del known[path]
    document.values |= {(*here, k): mark for k, mark in enumerate(marks) if mark is not None}
    section["reference"] = entries


def _numbers(entry: dict[str, Any], folder: Path, name: str, axis: Any) -> list[dict[str, Any]] | None:
    """Return the numbers of a printed table as entries of their own; None if the schema refuses the entry."""
    try:
        spec = ReferenceFile.model_validate(entry)
    except ValidationError:
        return None
    keys = [*KEYS, *[axis] * isinstance(axis, str)]
    table = read_printed(folder / spec.file, f"{name}/{spec.file}", keys)
    shared = {field: entry[field] for field in _SHARED if entry.get(field) is not None}
    found = []
    for number in table:
        place = number.where.get("data set", "")
        if place in spec.leave_out:
            continue
        if axis in number.where:
            place = f"{place} ({axis} {number.where[axis]})"
        quantity = number.where.get("quantity") or spec.quantity or number.head
        new: dict[str, Any] = {"dataset": place, "method": spec.method or number.head, "quantity": quantity}
        if number.where.get("task"):
            new["task"] = number.where["task"]
        unit = Decimal(100 if spec.percent else 1)
        new |= {"value": float(number.value / unit), "decimals": number.decimals + 2 * spec.percent}
        if number.std is not None:
            new["std"] = float(number.std / unit)
        found.append({**new, **shared})
    return found
