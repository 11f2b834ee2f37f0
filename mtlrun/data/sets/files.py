"""Files of data sets: where they lie, and whether they are the published ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mtlrun.data.reading.files import CHUNK, SUFFIXES, DataFile, digest
from mtlrun.errors import DataError, UnknownNameError

if TYPE_CHECKING:
    from mtlrun.data.sets.cards import Card, FileSpec


def data_directory(data_dir: str | Path | None = None) -> Path:
    """Return the data directory.

    It is the argument, else ``$MTLRUN_DATA``, else the platform's cache folder.

    Raises
    ------
    DataError
        If it is not a directory.
    """
    if data_dir is None:
        data_dir = os.environ.get("MTLRUN_DATA") or None
    if data_dir is not None:
        folder = Path(os.path.expanduser(data_dir))
    else:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir("mtlrun")) / "data"
    if folder.exists() and not folder.is_dir():
        remedy = (
            "Name a folder with --data-dir or in the environment variable MTLRUN_DATA."
        )
        raise DataError(f"{folder}: the data directory is a file", remedy)
    return folder


def candidates(card: Card, spec: FileSpec, folder: Path) -> list[DataFile]:
    """Return where a file may be, in the order in which places are tried."""
    plain = [
        DataFile(spec.name, folder / card.folder / (spec.name + SUFFIXES[c]), c)
        for c in spec.compressions
    ]
    packed = [
        DataFile(spec.name, folder / card.folder / a.archive, "archive", a.member)
        for a in spec.archives
    ]
    return plain + packed


def find_file(
    card: Card, spec: FileSpec, data_dir: str | Path | None = None
) -> DataFile | None:
    """Return the first place that exists, unverified, or None."""
    for candidate in candidates(card, spec, data_directory(data_dir)):
        if os.path.lexists(candidate.path):
            return candidate
    return None


def missing_files(
    card: Card, variant: str | None = None, data_dir: str | Path | None = None
) -> list[FileSpec]:
    """Return the files of a variant that are not in the data directory.

    Their content is not checked.
    """
    return [
        spec for spec in card.needed(variant) if find_file(card, spec, data_dir) is None
    ]


def get_it(card: Card, files: Iterable[FileSpec], extra: str = "") -> str:
    """Return how to get missing files of a card.

    `extra` are further options of the commands.
    """
    add = f"mtlrun data add {card.id} FILE{extra}"
    without_address = dict.fromkeys(spec.name for spec in files if not spec.urls)
    if without_address:
        return (
            f"There is no download address for {', '.join(without_address)}. "
            f"Give a file that you have: {add}"
        )
    return (
        f"Download it: mtlrun data fetch {card.id}{extra}\n"
        f"Or give a file that you have: {add}"
    )


def verify_file(
    card: Card, spec: FileSpec, data_dir: str | Path | None = None
) -> DataFile:
    """Find a file and check its content.

    Of several containers, the first right one is used.

    Returns
    -------
    DataFile
        With `sha256` and `size` of the decompressed content.

    Raises
    ------
    DataError
        If it is missing, a directory, unreadable, damaged, or its content is not what
        the card says.
    """
    possible = candidates(card, spec, data_directory(data_dir))
    places = [candidate for candidate in possible if os.path.lexists(candidate.path)]
    if not places:
        raise DataError(
            f"data set {card.id}: the file {spec.name} is missing; looked for "
            f"{', '.join(p.where() for p in possible)}",
            get_it(card, [spec, *card.needed()]),
        )
    errors = []
    for candidate in places:
        try:
            sha256, size = digest(candidate, limit=spec.bytes)
            if spec.sha256 in (None, sha256):
                return replace(candidate, sha256=sha256, size=size)
            expected = str(spec.sha256)
            cut = ""
            if spec.bytes is not None:
                expected += f" ({spec.bytes} bytes)"
                if size > spec.bytes + CHUNK:
                    cut = "more than "
            raise DataError(
                f"{candidate.where()}: the content is not that of "
                f"{card.id}/{spec.name}\n"
                f"  expected sha256 {expected}\n"
                f"  found    sha256 {sha256} ({cut}{size} bytes)",
                f"Delete it and run `mtlrun data fetch {card.id}`, or add a good copy "
                f"with `mtlrun data add {card.id} FILE`.",
            )
        except DataError as error:
            errors.append(error)
    raise errors[0]


def verify_files(
    card: Card, variant: str | None = None, data_dir: str | Path | None = None
) -> dict[str, DataFile]:
    """Return all files that a variant reads, verified, by name."""
    return {
        spec.name: verify_file(card, spec, data_dir) for spec in card.needed(variant)
    }


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
