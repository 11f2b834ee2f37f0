"""Download the files of a card: every address in turn, resumed where possible, verified before use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

from mtlrun.data.cards import SUFFIXES, Card, FileSpec
from mtlrun.data.files import DataFile, data_directory, digest, find_file, verify_file
from mtlrun.data.intake import WRITABLE, add_file, recognise, store
from mtlrun.errors import DataError
from mtlrun.utils.io import unwritable
from mtlrun.utils.text import hidden

#: Called with the name of the file, the bytes so far, and all bytes (None = not known).
Report = Callable[[str, int, int | None], None]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ARCHIVE_LIMIT = 4 << 30


def missing_files(card: Card, variant: str | None = None, data_dir: str | Path | None = None) -> list[FileSpec]:
    """Return the files that a variant needs and that are not in the data directory (their content is not checked)."""
    return [spec for spec in card.needed(variant) if find_file(card, spec, data_dir) is None]


def fetch_dataset(
    card: Card,
    *,
    variant: str | None = None,
    data_dir: str | Path | None = None,
    url: str | None = None,
    report: Report | None = None,
    timeout: float = 30.0,
) -> list[DataFile]:
    """Download what is missing of a data set, and verify all of it.

    Parameters
    ----------
    card : Card
    variant : str, optional
        Fetch what this variant needs; default: what the card needs without a variant.
    data_dir : path, optional
    url : str, optional
        Use this address instead of those of the card; what it holds (a file, compressed or not, or an archive of
        several) is recognised by its content. Only here ``http://127.0.0.1`` is allowed, else https only.
    report : callable, optional
        Told about the progress.
    timeout : float, default=30
        Seconds to wait for a connection, and for every next piece of the body.

    Returns
    -------
    list of DataFile
        The verified files of the variant (with `url`: those that it held).

    Raises
    ------
    DataError
        If no address gives the right content (says which file to put where), or a file that is there already is wrong.
    UserError
        If the data directory cannot be written.
    """
    if url is not None:
        _check_address(url, loopback=True)
        with_hint = PurePosixPath(urlsplit(url).path).name
        part = _part_path(card, with_hint or "download", url, data_dir)
        if any(spec.sha256 is None for spec in card.files):
            part.unlink(missing_ok=True)  # nothing could tell whether the old piece fits
        download(url, part, limit=_ARCHIVE_LIMIT, report=report, timeout=timeout, loopback=True)
        try:
            return add_file(card, part, data_dir, name=with_hint)
        finally:
            part.unlink(missing_ok=True)
    absent = {spec.name for spec in missing_files(card, variant, data_dir)}
    return [
        fetch_file(card, spec, [u.url for u in spec.urls], data_dir=data_dir, report=report, timeout=timeout)
        if spec.name in absent
        else verify_file(card, spec, data_dir)
        for spec in card.needed(variant)
    ]


def fetch_file(
    card: Card,
    spec: FileSpec,
    urls: Iterable[str],
    *,
    data_dir: str | Path | None = None,
    report: Report | None = None,
    timeout: float = 30.0,
    loopback: bool = False,
) -> DataFile:
    """Download one file from the first address that has the right content, and store it.

    Parameters are those of `fetch_dataset`; `loopback` allows ``http://127.0.0.1``.

    Raises
    ------
    DataError
        If every address fails; lists why, and says what to do without a network.
    UserError
        If the data directory cannot be written.
    """
    failures = []
    for url in urls:
        part = _part_path(card, spec.name, url, data_dir)
        if spec.sha256 is None:
            part.unlink(missing_ok=True)  # nothing could tell whether the old piece fits
        fresh = not part.exists()
        try:
            found = _download_one(spec, url, part, report, timeout, loopback)
            if found is None and not fresh:  # perhaps the old piece did not fit what is served now
                part.unlink()
                found = _download_one(spec, url, part, report, timeout, loopback)
        except DataError as error:
            failures.append(f"  {error.message}")
            continue
        try:
            if found is not None:
                return store(card, spec, found, data_dir)
            failures.append(f"  {url}: {_wrong_content(part, spec)}")
        finally:
            part.unlink()
    raise DataError(_failure(card, spec, failures), _offline_remedy(card, spec, data_dir))


def _download_one(
    spec: FileSpec, url: str, part: Path, report: Report | None, timeout: float, loopback: bool
) -> DataFile | None:
    limit = _ARCHIVE_LIMIT if spec.archives or spec.bytes is None else spec.bytes + (1 << 16)
    download(url, part, limit=limit, report=report, timeout=timeout, loopback=loopback)
    return recognise(part, [spec], PurePosixPath(spec.name).name).get(spec.name)


def download(
    url: str, part: Path, *, limit: int, report: Report | None = None, timeout: float = 30.0, loopback: bool = False
) -> None:
    """Download an address into a file; an interrupted download goes on where it stopped.

    Parameters
    ----------
    url : str
    part : Path
        The file; what it holds already is taken for the beginning, when the server can go on from there.
    limit : int
        Bytes at which the download is given up.
    report, timeout, loopback
        See `fetch_dataset` and `fetch_file`.

    Raises
    ------
    DataError
        Names the address and what went wrong; the piece that came stays in `part` unless it is useless.
    UserError
        If `part` cannot be written.
    """
    import pooch
    import requests

    _check_address(url, loopback)
    before = part.stat().st_size if part.exists() else 0
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as stream:
            transfer = _Transfer(stream, part.name, limit, loopback, report, before)
            headers = {"Accept-Encoding": "identity"}  # ranges would count the encoded bytes
            if before:
                headers["Range"] = f"bytes={before}-"
            hooks = {"response": transfer.on_response}
            fetcher = pooch.HTTPDownloader(timeout=timeout, headers=headers, hooks=hooks, chunk_size=1 << 14)
            fetcher(url, transfer, None)
    except requests.RequestException as error:
        status = getattr(error.response, "status_code", None)
        if status == 416 and before:  # the piece is as long as the file, or longer
            part.unlink()
            return download(url, part, limit=limit, report=report, timeout=timeout, loopback=loopback)
        _drop_if_empty(part)
        raise DataError(f"{url}: {_reason(error, status)}") from None
    except OSError as error:
        raise unwritable(part, error, WRITABLE) from None
    except DataError:
        part.unlink()
        raise


@dataclass
class _Transfer:
    """The file that pooch writes into; watches redirects, answers and length."""

    stream: IO[bytes]
    name: str
    limit: int
    loopback: bool
    report: Report | None
    done: int
    total: int | None = field(default=None)

    def write(self, data: bytes) -> None:
        self.done += len(data)
        if self.done > self.limit:
            raise DataError(f"{self.name}: the download is longer than the {self.limit} bytes it may have")
        self.stream.write(data)
        if self.report is not None:
            self.report(self.name, self.done, self.total)

    def flush(self) -> None:
        self.stream.flush()

    def on_response(self, response: Any, *args: Any, **kwargs: Any) -> None:
        if response.is_redirect:
            _check_address(urljoin(response.url, response.headers["location"]), self.loopback)
            return
        if not response.ok:
            return
        resumed = response.status_code == 206 and _range_start(response) == self.done
        if self.done and not resumed:
            self.stream.truncate(0)
            self.done = 0
        length = response.headers.get("content-length", "")
        self.total = self.done + int(length) if length.isdecimal() and len(length) < 20 else None


def _range_start(response: Any) -> int:
    start = response.headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdecimal() and len(start) < 20 else -1


def _check_address(url: str, loopback: bool) -> None:
    if re.search(r"[\s\\]", url) or hidden(url):  # not every library agrees which host such an address names
        raise DataError(f"{url!r}: no address", "Addresses have no blanks, backslashes or control characters.")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise DataError(f"{url}: no address ({error})", "Give an address that starts with https://.") from None
    if parts.scheme == "https" or (loopback and parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return
    raise DataError(f"{url}: only https addresses are fetched", "Download the file yourself and use `mtlrun data add`.")


def _part_path(card: Card, name: str, url: str, data_dir: str | Path | None) -> Path:
    """Return where a download is collected: one file per address, so that a later start can go on with it."""
    tag = hashlib.sha256(url.encode()).hexdigest()[:12]
    return data_directory(data_dir) / card.folder / f".{PurePosixPath(name).name}.{tag}.part"


def _drop_if_empty(part: Path) -> None:
    if part.exists() and not part.stat().st_size:
        part.unlink()


def _reason(error: Exception, status: int | None) -> str:
    import requests

    if isinstance(error, requests.TooManyRedirects):
        return "too many redirects"
    if status is not None:
        return f"the server answered {status} ({getattr(getattr(error, 'response', None), 'reason', '')})"
    if isinstance(error, requests.Timeout) or "timed out" in str(error).lower():
        return "timed out"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke before the end of the file"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return f"{type(error).__name__}: {error}"


def _wrong_content(part: Path, spec: FileSpec) -> str:
    with part.open("rb") as stream:
        start = stream.read(200).lstrip().lower()
    sha256, _ = digest(DataFile(part.name, part, "plain"))
    what = "wrong content"
    if start.startswith((b"<!doctype html", b"<html")):
        what = "a web page instead of the file"
    elif start.startswith(b"version https://git-lfs"):
        what = "a Git LFS pointer instead of the file"
    return f"{what}; expected sha256 {spec.sha256}, found {sha256}"


def _failure(card: Card, spec: FileSpec, failures: list[str]) -> str:
    head = f"data set {card.id}: could not download {spec.name}"
    return "\n".join([head, *failures]) if failures else f"{head}: the card knows no address for it"


def _offline_remedy(card: Card, spec: FileSpec, data_dir: str | Path | None) -> str:
    size = f", {spec.bytes} bytes" if spec.bytes is not None else ""
    kinds = ", ".join(SUFFIXES[c] or "as it is" for c in spec.containers)
    content = f"\nIts content must have sha256 {spec.sha256}{size}." if spec.sha256 is not None else ""
    return (
        f"Without a network: get the file on another machine and run\n"
        f"  mtlrun data add {card.id} FILE\n"
        f"or put it ({kinds}) at {data_directory(data_dir) / card.folder / spec.name}{content}"
    )
