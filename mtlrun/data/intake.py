"""Recognise a file by its content, whatever it is called and packed in, and put it where its card wants it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from mtlrun.data.cards import SUFFIXES, Card, FileSpec
from mtlrun.data.files import (
    MEMBERS,
    OPENERS,
    DataFile,
    container_of,
    data_directory,
    digest,
    open_tar,
    open_zip,
    reading,
    refuse_bomb,
    verify_file,
)
from mtlrun.errors import DataError
from mtlrun.utils.io import writing

#: What to do when the data directory cannot be written.
WRITABLE = "Make room and the folder writable, or choose another data directory (--data-dir or MTLRUN_DATA)."


def add_file(
    card: Card, path: str | Path, data_dir: str | Path | None = None, name: str | None = None
) -> list[DataFile]:
    """Store a file that the user has, or the members of an archive, as files of a data set.

    Parameters
    ----------
    card : Card
    path : path
        The file; plain, .gz, .bz2, .xz, or a zip or tar archive. It is copied, never changed.
    data_dir : path, optional
    name : str, optional
        What the file is called, if that is not the name of `path`; only needed where a card knows no hash.

    Returns
    -------
    list of DataFile
        The files as they now lie in the data directory, verified.

    Raises
    ------
    DataError
        If the card has no files, the file cannot be read, or its content is none of the card's.
    UserError
        If it cannot be stored.
    """
    path = Path(path).expanduser()
    if not card.files:
        raise DataError(f"data set {card.id} needs no files", "Nothing is to be added.")
    if not path.is_file():
        what = "is a directory, expected a file" if path.is_dir() else "there is no such file"
        raise DataError(f"{path}: {what}", "Give the path of a file that you have.")
    found = recognise(path, card.files, name)
    if not found:
        unknown = [PurePosixPath(spec.name).name for spec in card.files if spec.sha256 is None]
        by_name = f"Without a known hash, a file is recognised by its name: rename yours to {' or '.join(unknown)}."
        expected = "\n".join(f"  {spec.name}: sha256 {spec.sha256 or 'unknown'}" for spec in card.files)
        sha256, size = digest(DataFile(path.name, path, "plain"))
        raise DataError(
            f"{path}: the content is no file of {card.id}\nexpected one of\n{expected}\n"
            f"found sha256 {sha256} ({size} bytes)",
            by_name
            if unknown
            else "Get the version of the file that the card names, or write a card of your own for this one.",
        )
    return [store(card, card.file(spec_name), file, data_dir) for spec_name, file in found.items()]


def recognise(path: Path, specs: Iterable[FileSpec], name: str | None = None) -> dict[str, DataFile]:
    """Return which files of a card a file holds: itself, decompressed, or as members of an archive.

    Files whose hash the card does not know are recognised by their name.

    Raises
    ------
    DataError
        If the file cannot be read or its container is damaged.
    """
    specs = list(specs)
    by_hash = {spec.sha256: spec for spec in specs if spec.sha256 is not None}
    by_name = {PurePosixPath(spec.name).name: spec for spec in specs if spec.sha256 is None}
    sizes = {spec.bytes for spec in specs}
    limit = None if None in sizes else max(size for size in sizes if size is not None)
    found: dict[str, DataFile] = {}
    for content in _contents(path, name or path.name, sizes):
        sha256, size = digest(content, limit)
        spec = by_hash.get(sha256) or by_name.get(content.name)
        if spec is not None:
            found.setdefault(
                spec.name, DataFile(spec.name, content.path, content.container, content.member, sha256, size)
            )
    return found


def store(card: Card, spec: FileSpec, found: DataFile, data_dir: str | Path | None = None) -> DataFile:
    """Copy recognised content to its place in the data directory, whole or not at all.

    Compressed files stay compressed where the card takes that container; members of archives are unpacked.

    Raises
    ------
    DataError
        If the copy turns out wrong.
    UserError
        If the place cannot be written.
    """
    folder = data_directory(data_dir) / card.folder
    container = found.container if found.container in spec.containers else spec.containers[0]
    target = folder / (spec.name + SUFFIXES[container])
    with writing(target, WRITABLE):
        _copy(found, container, target)
    return verify_file(card, spec, data_dir)


def _copy(found: DataFile, container: str, target: Path) -> None:
    """Write a temporary file beside the target, flush it to the disk, and give it the target's name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    as_it_is = found.container == container
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".tmp")
    os.close(handle)
    try:
        writer = OPENERS["plain" if as_it_is else container]
        source = DataFile(found.name, found.path, "plain") if as_it_is else found
        with source.open() as content, writer(temporary, "wb") as sink:
            shutil.copyfileobj(content, sink, 1 << 20)
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _contents(path: Path, name: str, sizes: Collection[int | None]) -> Iterator[DataFile]:
    """Yield everything that a file may stand for; the name is that without folders and suffixes of compression.

    Members of archives are those of the wanted `sizes` (None: any).
    """
    yield DataFile(name, path, "plain")
    with reading(path):
        members = _members(path)
        container = container_of(path)
    for member, size in members:
        if size in sizes or None in sizes:
            yield DataFile(PurePosixPath(member).name, path, "archive", member)
    if container != "plain" and not members:
        yield DataFile(name.removesuffix(SUFFIXES[container]), path, container)


def _members(path: Path) -> list[tuple[str, int]]:
    """Return the names and sizes of the regular files of an archive, nothing for other files."""
    if zipfile.is_zipfile(path):
        with open_zip(path) as archive:
            infos = archive.infolist()
            refuse_bomb(infos, path.stat().st_size, str(path))
            # A name that begins with NUL is read as an empty one.
            return [(info.filename, info.file_size) for info in infos if info.filename and not info.is_dir()]
    found: dict[str, int] = {}
    with contextlib.suppress(tarfile.ReadError), open_tar(path) as tar:
        for number, info in enumerate(tar, start=1):
            if number > MEMBERS:
                raise DataError(f"{path}: an archive may hold {MEMBERS} files", "Unpack what is needed of it.")
            found.pop(info.name, None)  # of several members of one name the last one counts
            if info.isfile():
                found[info.name] = info.size
    return list(found.items())
