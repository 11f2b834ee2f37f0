"""Parsers of file formats, one per module; see `mtlrun.data.cards` for the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mtlrun.core.errors import UnknownNameError

if TYPE_CHECKING:
    from mtlrun.data.cards import Card
    from mtlrun.data.files import DataFile


def file_called(files: Mapping[str, DataFile], name: str, card: Card) -> DataFile:
    """Return the file that an option names.

    Raises
    ------
    UnknownNameError
        If the card, or the variant, has no file of that name.
    """
    if name not in files:
        raise UnknownNameError(f"file of {card.id}", name, files)
    return files[name]
