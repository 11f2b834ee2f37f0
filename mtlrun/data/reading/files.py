"""Data files: open their containers, and read them safely and within limits."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import hashlib
import io
import lzma
import os
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from mtlrun.errors import MEMORY_REMEDY, DataError, suggest
from mtlrun.problem.memory import free_bytes
from mtlrun.utils.io import IrregularFileError, open_regular, require_regular, writing
from mtlrun.utils.sizes import allow_expansion

CHUNK = 1 << 20
#: How a compressed file is opened, by container.
OPENERS: dict[str, Callable[..., Any]] = {
    "plain": open,
    "gz": gzip.open,
    "bz2": bz2.open,
    "xz": lzma.open,
}
_DAMAGE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
)
#: Errors, their messages, and the remedy.
_TOLD = (
    (
        IsADirectoryError,
        "is a directory, expected a file",
        "Remove the directory and put the file in its place.",
    ),
    (FileNotFoundError, "the file does not exist (a dangling link?)", ""),
    (
        IrregularFileError,
        "is a pipe, a socket or a device, not a regular file",
        "Store the data in a file.",
    ),
    (PermissionError, "permission denied", "Make the file readable for you."),
    (MemoryError, "the content does not fit into memory", MEMORY_REMEDY),
    (EOFError, "the file is truncated (the compressed data end too early)", ""),
)
#: Further errors of the modules of archives for damaged, forged and encrypted files.
_SURPRISES = (ValueError, OverflowError, RuntimeError, TypeError, struct.error)
#: Bytes of a snapshot that are kept in memory; a larger one is a temporary file without
#: a name.
_IN_MEMORY = 64 << 20

#: Endings of containers of one file, and these containers by their ending.
#: Between the path of a workbook and the name of its sheet.
SHEET = "#"
SUFFIXES = {"plain": "", "gz": ".gz", "bz2": ".bz2", "xz": ".xz"}
CONTAINERS = {suffix: container for container, suffix in SUFFIXES.items() if suffix}
_MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00"}

#: Digests seen by this process, by what would change with the content: path, member,
#: size, time and inode.
_SEEN: dict[tuple[Any, ...], tuple[str, int]] = {}


@dataclass(frozen=True)
class DataFile:
    """A file found on disk, its content verified.

    Attributes
    ----------
    name : str
        Its name on the card.
    path : Path
        The container on disk.
    container : str
        ``plain``, ``gz``, ``bz2``, ``xz`` or ``archive``.
    member : str or None
        Its name inside an archive.
    sha256 : str
        Of the decompressed content.
    size : int
        Bytes of the decompressed content.
    sheet : str
        Sheet of a workbook; "" for the first one.
    """

    name: str
    path: Path
    container: str
    member: str | None = None
    sha256: str = ""
    size: int = 0
    sheet: str = ""

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the decompressed content for reading, as a buffered binary stream.

        Raises
        ------
        DataError
            If the container is damaged, also while it is being read, or the content
            does not fit into memory. Writing elsewhere meanwhile takes
            `mtlrun.utils.io.writing`: another error of the disk would count as one of
            this file.
        """
        with (
            reading(self.path),
            open_content(self.path, self.container, self.member) as stream,
        ):
            yield stream

    def read_bytes(self) -> bytes:
        """Return the whole decompressed content."""
        with self.open() as stream:
            return stream.read()

    def lines(self) -> Iterator[str]:
        """Yield the decoded lines without their ends, one at a time.

        Raises
        ------
        DataError
            With line and column where the bytes are not UTF-8.
        """
        with self.open() as stream:
            for number, raw in enumerate(stream, start=1):
                try:
                    text = raw.decode()
                except UnicodeDecodeError as error:
                    location = self.where(number, error.start + 1)
                    text = f"{location}: byte {raw[error.start]:#04x} is not UTF-8 text"
                    raise DataError(text, "Save the file as UTF-8.") from None
                yield text.rstrip("\r\n")

    def where(self, line: int | None = None, column: int | None = None) -> str:
        """Return ``file:line:column`` for a message."""
        location = str(self.path)
        if self.member is not None:
            location += f"({self.member})"
        if self.sheet:
            location += f"#{self.sheet}"
        return ":".join([location, *(str(n) for n in (line, column) if n is not None)])


@dataclass(frozen=True)
class Snapshot(DataFile):
    """The decompressed content of a file at one moment.

    It does not change with the file.
    """

    content: Any = None

    @classmethod
    def of(cls, file: DataFile) -> Snapshot:
        """Copy a file and take its digest on the way.

        Raises
        ------
        DataError
            If the file cannot be read.
        UserError
            If there is no room for the copy.
        """
        # Closed with the object.
        content = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        sha = hashlib.sha256()
        _refuse_larger_than_memory(file.path)
        with file.open() as stream:
            while piece := stream.read(CHUNK):
                sha.update(piece)
                with writing(
                    tempfile.gettempdir(),
                    "Make room there, or name another folder in TMPDIR.",
                ):
                    content.write(piece)
        return cls(
            file.name,
            file.path,
            file.container,
            file.member,
            sha.hexdigest(),
            content.tell(),
            file.sheet,
            content,
        )

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the content from its beginning, one reader at a time."""
        self.content.seek(0)
        yield self.content


def _refuse_larger_than_memory(path: Path) -> None:
    """Refuse a file of one table that could not be held in memory.

    A sparse file may claim terabytes without taking up any space, and reading it to its
    end would take hours.
    """
    size = path.stat().st_size
    if size > free_bytes():
        raise DataError(
            f"{path}: {size:,} bytes are more than the free memory",
            "Split it into a folder of Parquet or csv files, which is read in parts.",
        )


def digest(file: DataFile, limit: int | None = None) -> tuple[str, int]:
    """Return the sha256 and the size of the decompressed content, reading it in pieces.

    Parameters
    ----------
    limit : int, optional
        Stop one piece after this many bytes: a wrong (or malicious) archive is not
        unpacked to its end.

    Raises
    ------
    DataError
        If the file is a directory, cannot be read, or its container is damaged.
    """
    with reading(file.path):
        state = file.path.stat()
        require_regular(state, file.path)
        _refuse_larger_than_memory(file.path)
        key = (
            str(file.path),
            file.container,
            file.member,
            state.st_size,
            state.st_mtime_ns,
            state.st_ino,
            limit,
        )
        if key not in _SEEN:
            sha = hashlib.sha256()
            size = 0
            with open_content(file.path, file.container, file.member) as stream:
                while piece := stream.read(CHUNK):
                    sha.update(piece)
                    size += len(piece)
                    if limit is not None and size > limit + CHUNK:
                        break
            _SEEN[key] = (sha.hexdigest(), size)
        return _SEEN[key]


@contextmanager
def open_content(
    path: Path, container: str, member: str | None = None
) -> Iterator[IO[bytes]]:
    """Open the decompressed content of a container.

    Errors come from the standard library and `_Bounded`.
    """
    with ExitStack() as stack:
        inner: Any
        if container != "archive":
            inner = stack.enter_context(_opened(path, container))
        elif is_zip(path):
            archive = stack.enter_context(open_zip(path))
            inner = stack.enter_context(_member(path, member, archive.open))
        else:
            tar = stack.enter_context(open_tar(path))
            inner = stack.enter_context(_member(path, member, tar.extractfile))
        if container != "plain":
            inner = stack.enter_context(_bounded(inner, path))
        yield inner


def _member(path: Path, member: str | None, opener: Callable[[str], Any]) -> IO[bytes]:
    with _surprises(), contextlib.suppress(KeyError):
        if (stream := opener(member or "")) is not None:
            return stream
    raise DataError(
        f"{path}: has no regular file {member}",
        "This archive does not match the data card.",
    )


@contextmanager
def _opened(path: Path, container: str) -> Iterator[IO[bytes]]:
    """Open the decompressed content of a regular file."""
    with open_regular(path) as raw:
        if container == "plain":
            yield raw
        else:
            with OPENERS[container](raw, "rb") as inner:
                yield inner


def is_zip(path: Path) -> bool:
    """Whether a regular file is a zip archive."""
    with open_regular(path) as raw:
        return zipfile.is_zipfile(raw)


@contextmanager
def open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar archive, compressed or not."""
    container = container_of(path)
    with _opened(path, container) as inner, _bounded(inner, path) as bounded:
        with _surprises():
            # Closed below.
            tar = tarfile.open(fileobj=bounded, mode="r:")  # noqa: SIM115
        with tar:
            yield tar


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive."""
    with open_regular(path) as raw:
        with _surprises():
            archive = zipfile.ZipFile(raw)
        with archive:
            yield archive


@contextmanager
def _surprises() -> Iterator[None]:
    try:
        yield
    except _SURPRISES as error:
        raise zipfile.BadZipFile(str(error) or type(error).__name__) from None


def container_of(path: Path) -> str:
    """Return how a file is compressed, by its first bytes.

    It is ``gz``, ``bz2``, ``xz`` or ``plain``.
    """
    with open_regular(path) as stream:
        start = stream.read(8)
    for name, magic in _MAGIC.items():
        if start.startswith(magic):
            return name
    return "plain"


class _Bounded(io.RawIOBase):
    """Decompressed content that raises an error when it is out of proportion.

    It must not be too large for its container.
    """

    def __init__(self, inner: IO[bytes], path: Path) -> None:
        self.inner = inner
        self.path = path
        self.size = path.stat().st_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.inner.tell()

    def readinto(self, buffer: Any) -> int:
        with _surprises():
            data = self.inner.read(len(buffer))
        buffer[: len(data)] = data
        allow_expansion(self.path, self.inner.tell(), self.size)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET:  # going forward decompresses all that is skipped
            allow_expansion(self.path, offset, self.size)
        return self.inner.seek(offset, whence)


def _bounded(inner: IO[bytes], path: Path) -> io.BufferedReader:
    return io.BufferedReader(_Bounded(inner, path), CHUNK >> 2)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the operating system and of decompressors into a DataError.

    The DataError names `path` and a remedy.

    Nothing may be written inside: an error of writing would be reported as one of this
    file.
    """
    try:
        yield
    except (*_DAMAGE, OSError, MemoryError) as error:
        again = (
            "Put a good copy in its place; a file that `mtlrun data fetch` downloaded "
            "may be deleted and fetched again."
        )
        for kind, text, remedy in _TOLD:
            if isinstance(error, kind):
                raise DataError(f"{path}: {text}", remedy or again) from None
        # bz2 tells of damage by an OSError without a number, zipfile by a place in
        # front of the file.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise DataError(
                f"{path}: cannot be read: {error.strerror}",
                "Check the disk on which it lies.",
            ) from None
        raise DataError(f"{path}: the file is damaged ({error})", again) from None


def data_file(path: Path) -> tuple[DataFile, str]:
    """Return a file, its container (``.gz``, ``.bz2``, ``.xz``) and its suffix.

    The suffix determines its format. ``book.xlsx#Visits`` is a sheet of a workbook.

    Raises
    ------
    DataError
        If there is no such file.
    """
    container = CONTAINERS.get(path.suffix.lower(), "plain")
    if not path.is_file():
        book, mark, sheet = str(path).rpartition(SHEET)
        if mark and Path(book).is_file():
            file, suffix = data_file(Path(book))
            if suffix != ".xlsx":
                raise DataError(
                    f"{book}: no workbook with sheets", "Leave out --sheet."
                )
            return replace(file, sheet=sheet), suffix
        if path.is_dir():
            remedy = "Name a file."
            if next(path.glob("*=*"), None) is not None:
                remedy = (
                    "It is partitioned: read it with pandas.read_parquet, and pass the "
                    "frame or write it as one file. Names of folders such as 01 are "
                    "the number 1 there."
                )
            raise DataError(f"{path}: is a folder", remedy)
        if path.exists():
            with reading(path):
                require_regular(path.stat(), path)
        remedy = "Check the path; a relative one starts at the current folder."
        neighbors = {}
        for other in path.parent.glob("*"):
            if other.is_file():
                neighbors[other.name.partition(".")[0]] = other.name
        near = suggest(path.name.partition(".")[0], neighbors, 1)
        if near:
            remedy = f"Did you mean {neighbors[near[0]]!r}?"
        raise DataError(f"{path}: no such file", remedy)
    return DataFile(path.name, path, container), suffix_of(path)


def suffix_of(path: Path) -> str:
    """Return the suffix that determines the format of a file.

    Suffixes of compression do not count.
    """
    name = path.name
    if path.suffix.lower() in CONTAINERS:
        name = path.stem
    return Path(name).suffix.lower()
