"""Replace the printed tables that an experiment names by their numbers.

An entry ``{file: table1.csv}`` of the section `reference` becomes one entry for each
number of the table.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mtlrun.catalog.analysis import KEYS, read_printed
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
    for layer_path, layer in layers.items():
        references = read_sections(Sections, layer).reference
        if not any(_is_file(entry) for entry in as_list(references)):
            continue
        path = (*layer_path, "reference")
        entries: list[Any] = []
        positions: Positions = {}
        for i, entry in enumerate(as_list(references)):
            entry_path: KeyPath = path
            if isinstance(references, list):
                entry_path = (*path, i)
            numbers = None
            if _is_file(entry):
                numbers = _numbers_of(entry, folder, folder_name, axis)
            if numbers is None:
                numbers = [entry]
                position = nearest(document.places, entry_path)
            else:
                position = nearest(document.places, (*entry_path, "file"))
            # Problems are shown at the value, even if they concern the key.
            position = Position(position.value, position.value)
            for number in numbers:
                positions[*path, len(entries)] = position
                entries.append(number)
        outside = {
            other_path: position
            for other_path, position in document.places.items()
            if other_path == path or other_path[: len(path)] != path
        }
        document.places = outside | positions
        layer["reference"] = entries


def _is_file(entry: object) -> bool:
    return isinstance(entry, dict) and "file" in entry


def _numbers_of(
    table_entry: dict[str, Any], folder: Path, folder_name: str, axis: str | None
) -> list[dict[str, Any]] | None:
    """Return the entries for the numbers of a printed table.

    Parameters
    ----------
    table_entry : dict
        Entry that names the file of the table.
    folder : Path
        Folder of the file.
    folder_name : str
        Name of the folder in messages.
    axis : str or None
        Name of the axis of a sweep, which a column of the table may have.

    Returns
    -------
    list of dict or None
        None if the schema refuses the entry of the table.
    """
    try:
        spec = ReferenceFile.model_validate(table_entry)
    except ValidationError:
        return None
    keys = list(KEYS)
    if axis is not None:
        keys.append(axis)
    table = read_printed(folder / spec.file, f"{folder_name}/{spec.file}", keys)
    unit = Decimal(1)
    if spec.percent:
        unit = Decimal(100)
    entries = []
    for number in table:
        if number.dataset in spec.leave_out:
            continue
        dataset = number.dataset
        if axis is not None and axis in number.where:
            dataset = f"{dataset} ({axis} {number.where[axis]})"
        std = None
        if number.std is not None:
            std = float(number.std / unit)
        entry = {
            "dataset": dataset,
            "method": spec.method or number.head,
            "quantity": number.quantity or spec.quantity or number.head,
            "task": number.task or None,
            "value": float(number.value / unit),
            # A number in percent has two decimals more as a share.
            "decimals": number.decimals + 2 * spec.percent,
            "std": std,
        }
        entry |= {field: table_entry.get(field) for field in _INHERITED_FIELDS}
        entries.append(
            {name: value for name, value in entry.items() if value is not None}
        )
    return entries
