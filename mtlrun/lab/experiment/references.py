"""Replace the printed tables that an experiment names by their numbers.

An entry ``{file: table1.csv}`` of the section `reference` becomes one entry for each
number of the table.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mtlrun.catalog.analysis import KEYS, Printed, read_printed
from mtlrun.lab.experiment.checks import Sections, read_sections
from mtlrun.lab.experiment.spec import ReferenceFile
from mtlrun.utils.io import as_list
from mtlrun.utils.yaml import Document, KeyPath, Position, Positions, nearest

#: Fields that the numbers of a table inherit from its entry.
_INHERITED_FIELDS = (
    "n",
    "profile",
    "source",
    "absolute",
    "relative",
    "sigmas",
    "error_rate",
)


def expand_references(document: Document, folder: Path, folder_name: str) -> None:
    """Replace the printed tables of an experiment and its profiles by their numbers.

    Each number takes the position of its file name in the document. Entries that the
    schema refuses are left alone, so that it reports why.

    Parameters
    ----------
    document : Document
        Experiment; modified in place.
    folder : Path
        Folder of the experiment file, to which the file names of tables are relative.
    folder_name : str
        Name of the folder in messages.

    Raises
    ------
    ConfigError
        If a table cannot be read, with the line and column in the table.
    """
    sections = read_sections(Sections, document.data)
    axis = None
    # The schema refuses other names of an axis later.
    if isinstance(sections.sweep.name, str):
        axis = sections.sweep.name
    layers: dict[KeyPath, Any] = {(): document.data}
    for name, profile in sections.profiles.items():
        layers["profiles", name] = profile
    for path, layer in layers.items():
        references = as_list(read_sections(Sections, layer).reference)
        if any(_is_file(entry) for entry in references):
            tables = _Tables(folder, folder_name, axis)
            _expand_section(document, layer, (*path, "reference"), tables)


class _Tables:
    """Printed tables in a folder.

    Parameters
    ----------
    folder : Path
    folder_name : str
        Name of the folder in messages.
    axis : str or None
        Name of the axis of a sweep, which a column of a table may have.
    """

    def __init__(self, folder: Path, folder_name: str, axis: str | None) -> None:
        self.folder = folder
        self.folder_name = folder_name
        self.axis = axis

    def numbers(self, entry: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Return the entries for the numbers of a table.

        None if the schema refuses the entry of the table.
        """
        try:
            spec = ReferenceFile.model_validate(entry)
        except ValidationError:
            return None
        keys = list(KEYS)
        if self.axis is not None:
            keys.append(self.axis)
        file_name = f"{self.folder_name}/{spec.file}"
        table = read_printed(self.folder / spec.file, file_name, keys)
        inherited = {
            field: entry[field]
            for field in _INHERITED_FIELDS
            if entry.get(field) is not None
        }
        numbers = []
        for number in table:
            if number.dataset not in spec.leave_out:
                numbers.append({**self._entry(number, spec), **inherited})
        return numbers

    def _entry(self, number: Printed, spec: ReferenceFile) -> dict[str, Any]:
        dataset = number.dataset
        if self.axis is not None and self.axis in number.where:
            dataset = f"{dataset} ({self.axis} {number.where[self.axis]})"
        unit = Decimal(1)
        decimals = number.decimals
        if spec.percent:
            unit = Decimal(100)
            decimals += 2
        std = None
        if number.std is not None:
            std = float(number.std / unit)
        entry = {
            "dataset": dataset,
            "method": spec.method or number.head,
            "quantity": number.quantity or spec.quantity or number.head,
            "task": number.task or None,
            "value": float(number.value / unit),
            "decimals": decimals,
            "std": std,
        }
        return {name: value for name, value in entry.items() if value is not None}


def _is_file(entry: object) -> bool:
    return isinstance(entry, dict) and "file" in entry


def _expand_section(
    document: Document, section: dict[str, Any], path: KeyPath, tables: _Tables
) -> None:
    """Replace the tables of one section by their numbers.

    Parameters
    ----------
    document : Document
    section : dict
        Experiment or profile with a key `reference`; modified in place.
    path : tuple
        Path of `reference`.
    tables : _Tables
    """
    references = read_sections(Sections, section).reference
    entries: list[Any] = []
    positions: Positions = {}
    for i, entry in enumerate(as_list(references)):
        entry_path = path
        if isinstance(references, list):
            entry_path = (*path, i)
        numbers = None
        if _is_file(entry):
            numbers = tables.numbers(entry)
        if numbers is None:
            numbers = [entry]
            position = nearest(document.places, entry_path)
        else:
            position = nearest(document.places, (*entry_path, "file"))
        for number in numbers:
            # Problems are shown at the value, even if they concern the key.
            positions[*path, len(entries)] = Position(position.value, position.value)
            entries.append(number)
    outside = {
        other_path: position
        for other_path, position in document.places.items()
        if other_path == path or other_path[: len(path)] != path
    }
    document.places = outside | positions
    section["reference"] = entries
