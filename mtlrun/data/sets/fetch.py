"""Files of a card from the network or from the user.

Downloads try every address in turn and are verified before use. Files of the user are
recognized by their content, whatever their name and container.

The downloads are our own code. `pooch.retrieve` (1.9) follows redirects to http, takes
any number of bytes, and hashes the bytes that were sent. A card has the hash of the
decompressed content, which servers send in several containers.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin, urlsplit

from mtlrun.data.reading.files import (
    OPENERS,
    SUFFIXES,
    DataFile,
    container_of,
    digest,
    is_zip,
    open_tar,
    open_zip,
    reading,
)
from mtlrun.data.sets.files import (
    data_directory,
    missing_files,
    verify_file,
    verify_files,
)
from mtlrun.errors import DataError, shorten
from mtlrun.utils.io import make_folder, open_regular, replacing, writing
from mtlrun.utils.sizes import MEMBERS, allow, allow_members
from mtlrun.utils.temporary import temporary_folder, tidy_folders
from mtlrun.utils.text import hidden, sanitize

if TYPE_CHECKING:
    from requests import Response, Session

    from mtlrun.data.sets.cards import Card, FileSpec

#: Remedy if the data directory cannot be written.
WRITABLE = (
    "Make room and the folder writable, or choose another data directory (--data-dir "
    "or MTLRUN_DATA)."
)

#: Characters of the name of a host, and of an address in a message.
MAX_HOST_LENGTH = 253
MAX_SHOWN_URL = 300

#: Called with the name of the file, the bytes so far, and all bytes (None = not known).
Report = Callable[[str, int, int | None], None]

#: Redirects that are followed.
MAX_REDIRECTS = 10
#: Bytes that are read at a time.
PIECE_BYTES = 1 << 14

T = TypeVar("T")

_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]%]*)(:\d*)?")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ARCHIVE_LIMIT = 4 << 30


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
        Use this address instead of the addresses of the card; its content (a file,
        compressed or not, or an archive of several) is recognized by its content. Only
        here ``http://127.0.0.1`` is allowed, else https only.
    report : callable, optional
        Told about the progress.
    timeout : float, default=30
        Seconds to wait for a connection, and for every next 16 kB of the body.

    Returns
    -------
    list of DataFile
        The verified files of the variant (with `url`: the files found there).

    Raises
    ------
    DataError
        If no address gives the right content (says which file to put where), or a file
        that is there already is wrong.
    UserError
        If the data directory cannot be written.
    """
    if url is not None:
        check_address(url)
        name = PurePosixPath(urlsplit(url).path).name
        options = {"limit": _ARCHIVE_LIMIT, "report": report, "timeout": timeout}
        with _downloaded(card, name or "download", url, data_dir, **options) as part:
            return add_file(card, part, data_dir, name=name)
    for spec in missing_files(card, variant, data_dir):
        fetch_file(
            card,
            spec,
            [u.url for u in spec.urls],
            data_dir=data_dir,
            report=report,
            timeout=timeout,
        )
    return list(verify_files(card, variant, data_dir).values())


def fetch_file(
    card: Card,
    spec: FileSpec,
    urls: Iterable[str],
    *,
    data_dir: str | Path | None = None,
    report: Report | None = None,
    timeout: float = 30.0,
) -> DataFile:
    """Download one file from the first address with the right content.

    It is stored in the data directory.

    Parameters are as in `fetch_dataset`.

    Raises
    ------
    DataError
        If every address fails; lists why, and says what to do without a network.
    UserError
        If the data directory cannot be written.
    """
    if spec.archives or spec.bytes is None:
        limit = _ARCHIVE_LIMIT
    else:
        limit = spec.bytes + (1 << 16)
    failures = []
    name = PurePosixPath(spec.name).name
    for url in urls:
        try:
            with _downloaded(
                card, name, url, data_dir, limit=limit, report=report, timeout=timeout
            ) as part:
                file = recognize(part, [spec], name).get(spec.name)
                if file is not None:
                    return store(card, spec, file, data_dir)
                with open_regular(part) as stream:
                    start = stream.read(200).lstrip().lower()
                content = "wrong content"
                if start.startswith((b"<!doctype html", b"<html")):
                    content = "a web page instead of the file"
                elif start.startswith(b"version https://git-lfs"):
                    content = "a Git LFS pointer instead of the file"
                sha256, _ = digest(DataFile(part.name, part, "plain"))
                failures.append(
                    f"  {shown_address(url)}: {content}; expected sha256 {spec.sha256}, "
                    f"found {sha256}"
                )
        except DataError as error:
            failures.append(f"  {error.message}")
    raise _failure(card, spec, failures, data_dir)


@contextlib.contextmanager
def _downloaded(
    card: Card, name: str, url: str, data_dir: str | Path | None, **options: Any
) -> Iterator[Path]:
    """Download an address into a temporary folder next to the files of a card.

    Options are as in `download`.
    """
    root = data_directory(data_dir)
    folder = root / card.folder
    with contextlib.ExitStack() as stack:
        with writing(folder, WRITABLE):
            make_folder(folder, root)
            staging = stack.enter_context(temporary_folder(folder))
        part = staging / name
        download(url, part, **options)
        yield part


def download(
    url: str,
    part: Path,
    *,
    limit: int,
    report: Report | None = None,
    timeout: float = 30.0,
) -> None:
    """Download an address into a file.

    Parameters
    ----------
    url : str
    part : Path
    limit : int
        Bytes at which the download is given up.
    report, timeout
        See `fetch_dataset`.

    Raises
    ------
    DataError
        Names the address and what went wrong.
    UserError
        If `part` cannot be written.
    """
    import requests
    import urllib3

    shown = shown_address(url)

    class Session(requests.Session):
        def get_redirect_target(self, resp: Response) -> None:
            """Return None: `requests` reads the complete body before it follows a
            redirect, or refuses to.
            """

    with Session() as session:
        try:
            response = _final_response(session, url, timeout)
            if not 200 <= response.status_code < 300:
                # The words of the standard: those of the server may be anything.
                text = f"the server answered {response.status_code}"
                with contextlib.suppress(ValueError):
                    text += f" ({HTTPStatus(response.status_code).phrase})"
                raise DataError(f"{shown}: {text}")
            _write_body(response, part, shown, limit, report, timeout)
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            TimeoutError,
            ValueError,
        ) as error:
            # An address that `requests` cannot take apart raises an error of urllib3,
            # or a ValueError. Their texts contain the address.
            raise DataError(f"{shown}: {_reason(error)}") from None


def _final_response(session: Session, url: str, timeout: float) -> Response:
    """Follow the redirects of an address without reading what comes with them."""
    target = url
    for _ in range(MAX_REDIRECTS + 1):
        check_address(target, url)
        response = _within(
            2 * timeout,
            partial(
                session.get,
                target,
                # Without compression, the length header is the size of the file.
                headers={"Accept-Encoding": "identity"},
                timeout=timeout,
                stream=True,
                allow_redirects=False,
            ),
        )
        if not response.is_redirect:
            return response
        # Closing it leaves the body unread, which may have no end.
        response.close()
        location = response.headers["location"]
        try:
            # It may be relative.
            target = urljoin(target, location)
        except ValueError:
            raise _no_address(location) from None
    raise DataError(
        f"{shown_address(url)}: too many redirects, the last one to "
        f"{shown_address(target)}"
    )


def _no_address(url: str) -> DataError:
    return DataError(
        f"{shown_address(url)!r}: no address such as https://host/file, without blanks, "
        "backslashes and control characters"
    )


def _write_body(
    response: Response,
    part: Path,
    shown: str,
    limit: int,
    report: Report | None,
    timeout: float,
) -> None:
    """Write the body of a response into a file; see `download`."""
    length = response.headers.get("content-length", "")
    total = None
    if length.isdecimal() and len(length) < 20:
        total = int(length)
    # Not `iter_content`: it reads the size of a chunk up to the end of the line, which
    # may never come.
    read_piece = partial(response.raw.read, PIECE_BYTES, decode_content=True)
    done = 0
    with writing(part, WRITABLE):
        stream = part.open("wb")
    with stream:
        while piece := _within(timeout, read_piece):
            done += len(piece)
            if done > limit:
                response.close()
                raise DataError(
                    f"{shown}: the download is longer than the {limit} bytes it may "
                    "have"
                )
            with writing(part, WRITABLE):
                stream.write(piece)
            if report is not None:
                report(part.name, done, total)


def _within(seconds: float, action: Callable[[], T]) -> T:
    """Return the result of an action on the network.

    Time limits of sockets start anew with each byte, so a server that sends one now and
    then would never exceed them. The action runs in a thread, which is left behind if
    it takes too long: nothing can interrupt it.

    Raises
    ------
    TimeoutError
        If it takes longer.
    """
    outcomes: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcomes.put((True, action()))
        except Exception as error:
            outcomes.put((False, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        is_result, outcome = outcomes.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if not is_result:
        raise outcome
    result: T = outcome
    return result


def shown_address(url: str) -> str:
    """Return an address for messages, without what may give access to the file.

    Names and passwords before the host, and the query or parameters, which may hold a
    signature or a token, are replaced by dots.
    """
    head = re.split(r"[?#;&]", url, maxsplit=1)[0]
    tail = url[len(head) :]
    scheme = re.match(r"[a-zA-Z][\w+.-]*://", head)
    start = scheme[0] if scheme else ""
    rest = head[len(start) :]
    host = rest.partition("/")[0]
    if "@" in rest:
        rest = f"...@{rest.rpartition('@')[2]}"
    elif not _HOST_AND_PORT.fullmatch(host) or ("@" in tail and host == rest):
        # It may be a name and a password that holds one of the characters above.
        rest = "..."
    if tail:
        rest += f"{tail[0]}..."
    return shorten(sanitize(start + rest), MAX_SHOWN_URL)


def check_address(url: str, first: str | None = None) -> None:
    """Refuse addresses other than https, and malformed ones.

    Parameters
    ----------
    url : str
    first : str, optional
        Address that was redirected to `url`. ``http`` is allowed for a server on this
        machine, if the first address is there, too. Default: `url`.

    Raises
    ------
    DataError
    """
    # Not every library agrees which host an address with such characters names.
    if re.search(r"[\s\\]", url) or hidden(url):
        raise _no_address(url)
    try:
        parts = urlsplit(url)
        is_local = _is_local(url) and _is_local(first or url)
        is_fetched = parts.scheme == "https" or is_local
        if is_fetched:
            _ = parts.port
            host = parts.hostname or ""
            if not host.isascii():
                host = host.encode("idna").decode()
            labels = host.removesuffix(".").split(".")
            if len(host) > MAX_HOST_LENGTH or not all(0 < len(x) < 64 for x in labels):
                # No network can look it up.
                raise _no_address(url)
    except ValueError:
        raise _no_address(url) from None
    if not is_fetched:
        remedy = "Download the file yourself and use `mtlrun data add`."
        raise DataError(
            f"{shown_address(url)}: only https addresses are fetched", remedy
        )


def _is_local(url: str) -> bool:
    """Return whether an address is one of a server on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname in _LOOPBACK


def _reason(error: Exception) -> str:
    """Return why a download failed, without the address."""
    import requests
    import urllib3

    if isinstance(error, requests.Timeout | TimeoutError) or "timed out" in str(error):
        return "timed out"
    if isinstance(error, requests.exceptions.SSLError):
        return "the certificate of the server was rejected"
    if isinstance(error, urllib3.exceptions.ProtocolError):
        return "the connection broke before the end of the file"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return f"cannot be fetched ({type(error).__name__})"


def _failure(
    card: Card, spec: FileSpec, failures: list[str], data_dir: str | Path | None
) -> DataError:
    size = ""
    if spec.bytes is not None:
        size = f", {spec.bytes} bytes"
    kinds = ", ".join(SUFFIXES[c] or "as it is" for c in spec.compressions)
    content = ""
    if spec.sha256 is not None:
        content = f"\nIts content must have sha256 {spec.sha256}{size}."
    reasons = ": the card knows no address for it"
    if failures:
        reasons = "\n".join(["", *failures])
    return DataError(
        f"data set {card.id}: could not download {spec.name}{reasons}",
        f"Without a network: get the file on another machine and run\n"
        f"  mtlrun data add {card.id} FILE\n"
        f"or put it ({kinds}) at "
        f"{data_directory(data_dir) / card.folder / spec.name}{content}",
    )


# --- files of the user ---


def add_file(
    card: Card,
    path: str | Path,
    data_dir: str | Path | None = None,
    name: str | None = None,
) -> list[DataFile]:
    """Store a file of the user, or members of an archive, as files of a data set.

    Parameters
    ----------
    card : Card
    path : path
        The file; plain, .gz, .bz2, .xz, or a zip or tar archive. It is copied, never
        changed.
    data_dir : path, optional
    name : str, optional
        Name of the file, if it is not the name of `path`; only needed where a card has
        no hash.

    Returns
    -------
    list of DataFile
        The files as they now lie in the data directory, verified.

    Raises
    ------
    DataError
        If the card has no files, the file cannot be read, or its content is none of the
        card's.
    UserError
        If it cannot be stored.
    """
    path = Path(os.path.expanduser(path))
    if not card.files:
        raise DataError(f"data set {card.id} needs no files", "Nothing is to be added.")
    if not path.is_file():
        problem = "there is no such file"
        if path.is_dir():
            problem = "is a directory, expected a file"
        if path.exists() and not path.is_dir():
            problem = "is not a regular file"
        raise DataError(f"{path}: {problem}", "Give the path of a file that you have.")
    matches = recognize(path, card.files, name)
    if not matches:
        unknown = [
            PurePosixPath(spec.name).name for spec in card.files if spec.sha256 is None
        ]
        remedy = (
            "Get the version of the file that the card names, or write a card of your "
            "own for this one."
        )
        if unknown:
            remedy = (
                "Without a known hash, a file is recognized by its name: rename yours "
                f"to {' or '.join(unknown)}."
            )
        expected = "\n".join(
            f"  {spec.name}: sha256 {spec.sha256 or 'unknown'}" for spec in card.files
        )
        sha256, size = digest(DataFile(path.name, path, "plain"))
        raise DataError(
            f"{path}: the content is not a file of {card.id}\nexpected one of\n"
            f"{expected}\nfound sha256 {sha256} ({size} bytes)",
            remedy,
        )
    return [
        store(card, card.file(spec_name), file, data_dir)
        for spec_name, file in matches.items()
    ]


def recognize(
    path: Path, specs: Iterable[FileSpec], name: str | None = None
) -> dict[str, DataFile]:
    """Return which files of a card a file contains.

    It can be a file itself, decompressed, or an archive with such members.

    Files whose hash the card does not know are recognized by their name.

    Raises
    ------
    DataError
        If the file cannot be read or its container is damaged.
    """
    specs = list(specs)
    by_hash = {spec.sha256: spec for spec in specs if spec.sha256 is not None}
    by_name = {
        PurePosixPath(spec.name).name: spec for spec in specs if spec.sha256 is None
    }
    sizes = {spec.bytes for spec in specs}
    if None in sizes:
        limit = None
    else:
        limit = max(size for size in sizes if size is not None)
    name = name or path.name
    contents = [DataFile(name, path, "plain")]
    with reading(path):
        members = _members(path)
        container = container_of(path)
    for member, size in members:
        if size in sizes or None in sizes:
            file_name = PurePosixPath(member).name
            contents.append(DataFile(file_name, path, "archive", member))
    if container != "plain" and not members:
        plain_name = name.removesuffix(SUFFIXES[container])
        contents.append(DataFile(plain_name, path, container))
    matches: dict[str, DataFile] = {}
    for content in contents:
        sha256, size = digest(content, limit)
        spec = by_hash.get(sha256) or by_name.get(content.name)
        if spec is not None:
            matches.setdefault(
                spec.name, replace(content, name=spec.name, sha256=sha256, size=size)
            )
    return matches


def store(
    card: Card, spec: FileSpec, file: DataFile, data_dir: str | Path | None = None
) -> DataFile:
    """Copy recognized content to its place in the data directory, whole or not at all.

    Compressed files stay compressed where the card takes that container; members of
    archives are unpacked.

    Raises
    ------
    DataError
        If the copy turns out wrong.
    UserError
        If the place cannot be written.
    """
    root = data_directory(data_dir)
    if file.container in spec.compressions:
        container = file.container
    else:
        container = spec.compressions[0]
    target = root / card.folder / (spec.name + SUFFIXES[container])
    as_it_is = file.container == container
    writer = OPENERS["plain" if as_it_is else container]
    if as_it_is:
        source = DataFile(file.name, file.path, "plain")
    else:
        source = file
    with writing(target, WRITABLE):
        make_folder(target.parent, root)
    with (
        source.open() as content,
        writing(target, WRITABLE),
        replacing(target) as new_file,
        writer(new_file, "wb") as sink,
    ):
        shutil.copyfileobj(content, sink, 1 << 20)
    tidy_folders(target.parent)
    return verify_file(card, spec, data_dir)


def _members(path: Path) -> list[tuple[str, int]]:
    """Return names and sizes of the regular files of an archive.

    They are empty for other files.
    """
    if is_zip(path):
        with open_zip(path) as archive:
            infos = archive.infolist()
            allow_members(path, infos, path.stat().st_size)
            # A name that begins with NUL is read as an empty one.
            return [
                (info.filename, info.file_size)
                for info in infos
                if info.filename and not info.is_dir()
            ]
    n_by_name: dict[str, int] = {}
    with contextlib.suppress(tarfile.ReadError), open_tar(path) as tar:
        for number, info in enumerate(tar, start=1):
            allow(
                path,
                number,
                MEMBERS,
                "files in one archive",
                "Unpack what is needed of it.",
            )
            n_by_name.pop(
                info.name, None
            )  # of several members of one name the last one counts
            if info.isfile():
                n_by_name[info.name] = info.size
    return list(n_by_name.items())
