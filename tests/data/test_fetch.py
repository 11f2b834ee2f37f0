"""Downloads from a local server: its possible faults, and files that must never reach
the data directory.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from all_cases import all_cases

from mtlrun.data.sets.cards import Card, FileSpec, Source, Url
from mtlrun.data.sets.fetch import (
    MAX_REDIRECTS,
    add_file,
    download,
    fetch_dataset,
    fetch_file,
    shown_address,
)
from mtlrun.data.sets.files import missing_files
from mtlrun.errors import DataError, UserError

CONTENT = bytes(range(256)) * 400
SHA = hashlib.sha256(CONTENT).hexdigest()
NAMES: Any = {
    "id": "mine",
    "title": "Mine",
    "licence": "l",
    "citation": "c",
    "task_type": "binary",
    "design": "shared",
}

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """Answers each path with a function and records the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.stop = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append((self.path, self.headers.get("Range")))
                outer.answers.get(self.path, status(404))(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.httpd.daemon_threads = True
        self.thread = threading.Thread(
            target=self.httpd.serve_forever, args=(0.01,), daemon=True
        )
        self.thread.start()

    def url(self, path: str, answer: Answer) -> str:
        self.answers[path] = answer
        return f"http://127.0.0.1:{self.httpd.server_address[1]}{path}"

    def close(self) -> None:
        self.stop.set()
        self.httpd.shutdown()
        self.httpd.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "*")
    running = Server()
    yield running
    running.close()


def send(
    handler: BaseHTTPRequestHandler,
    code: int,
    body: bytes = b"",
    length: int | None = None,
    **headers: str,
) -> None:
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)


def status(code: int) -> Answer:
    return lambda handler: send(handler, code)


def serve(body: bytes, code: int = 200, **headers: str) -> Answer:
    return lambda handler: send(handler, code, body, **headers)


def redirect(to: str, code: int = 302) -> Answer:
    return lambda handler: send(handler, code, Location=to)


def cut(body: bytes, at: int) -> Answer:
    """Promise the complete body and close the connection after `at` bytes."""
    return lambda handler: send(handler, 200, body[:at], length=len(body))


def make_card(*names: str, **changes: Any) -> Card:
    specs = tuple(
        FileSpec(**{"name": name, "sha256": SHA, "bytes": len(CONTENT), **changes})
        for name in names or ("a.bin",)
    )
    return Card(**NAMES, reader=Source(name="x"), folder="f", files=list(specs))


def fetch(folder: Path, *urls: str, card: Card | None = None, **options: Any) -> Path:
    card = card or make_card()
    return fetch_file(card, card.files[0], urls, data_dir=folder, **options).path


def failure(folder: Path, *urls: str, card: Card | None = None, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        fetch(folder, *urls, card=card, **options)
    return re.sub(r":\d{4,5}/", ":PORT/", str(caught.value)).replace(f"{folder}/", "")


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in (folder / "f").iterdir())


@pytest.mark.parametrize(
    ("body", "name"),
    [(CONTENT, "a.bin"), (gzip.compress(CONTENT), "a.bin.gz")],
    ids=["plain", "gz"],
)
def test_plain_and_compressed_files_are_downloaded(
    tmp_path: Path, server: Server, body: bytes, name: str
) -> None:
    path = fetch(tmp_path, server.url("/x", serve(body)))
    assert path.read_bytes() == body
    assert left(tmp_path) == [name]


def test_a_member_of_an_archive_is_downloaded(tmp_path: Path, server: Server) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("folder/other", b"other")
        archive.writestr("folder/it", CONTENT)
    assert (
        fetch(tmp_path, server.url("/x.zip", serve(buffer.getvalue()))).read_bytes()
        == CONTENT
    )
    assert left(tmp_path) == ["a.bin"]


def test_addresses_are_tried_in_order_and_all_failures_are_reported(
    tmp_path: Path, server: Server, lacking: Any
) -> None:
    bad = [
        server.url("/gone", status(404)),
        server.url("/broken", status(500)),
        server.url("/wrong", serve(b"something else")),
        server.url("/page", serve(b"<!DOCTYPE html><html>Sign in</html>")),
        server.url(
            "/pointer", serve(b"version https://git-lfs.github.com/spec/v1\noid ...")
        ),
        server.url("/cut", cut(CONTENT, 70_000)),
        server.url("/long", serve(CONTENT * 2)),
        "http://127.0.0.1:9/nobody-listens",
    ]
    wrong_sha = hashlib.sha256(b"something else").hexdigest()
    text = failure(tmp_path, *bad)
    for line in [
        "data set mine: could not download a.bin",
        "  http://127.0.0.1:PORT/gone: the server answered 404 (Not Found)",
        "  http://127.0.0.1:PORT/broken: the server answered 500 (Internal Server "
        "Error)",
        f"  http://127.0.0.1:PORT/wrong: wrong content; expected sha256 {SHA}, found "
        f"{wrong_sha}",
        "  http://127.0.0.1:PORT/cut: the connection broke before the end of the file",
        "  http://127.0.0.1:9/nobody-listens: no connection",
        "Without a network: get the file on another machine and run",
        "  mtlrun data add mine FILE",
        "or put it (as it is, .gz, .bz2, .xz) at f/a.bin",
        f"Its content must have sha256 {SHA}, {len(CONTENT)} bytes.",
    ]:
        assert line in text.splitlines()
    assert "/page: a web page" in text
    assert not lacking(text, "/pointer", "Git LFS")
    assert f"{len(CONTENT) + (1 << 16)} bytes" in text
    assert left(tmp_path) == []
    assert (
        fetch(tmp_path, *bad, server.url("/good", serve(CONTENT))).read_bytes()
        == CONTENT
    )


def test_data_without_an_address_are_reported(tmp_path: Path) -> None:
    assert failure(tmp_path).startswith(
        "data set mine: could not download a.bin: the card knows no address for it\n"
        "Without a network:"
    )


def test_a_file_with_a_wrong_hash_never_reaches_the_data_directory(
    tmp_path: Path, server: Server
) -> None:
    text = failure(tmp_path, server.url("/x", serve(b"x" + CONTENT[1:])))
    assert f"expected sha256 {SHA}, found" in text
    assert left(tmp_path) == []


def test_an_interrupted_download_leaves_nothing_and_can_be_restarted(
    tmp_path: Path, server: Server
) -> None:
    url = server.url("/x", cut(CONTENT, 70_000))
    assert "the connection broke" in failure(tmp_path, url)
    assert left(tmp_path) == []
    server.url("/x", serve(CONTENT))
    seen: list[tuple[str, int, int | None]] = []
    assert (
        fetch(tmp_path, url, report=lambda *facts: seen.append(facts)).read_bytes()
        == CONTENT
    )
    assert seen[-1] == ("a.bin", len(CONTENT), len(CONTENT))
    assert left(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("when", ["before the answer", "within the body"])
def test_a_slow_server_times_out(tmp_path: Path, server: Server, when: str) -> None:
    def slow(handler: BaseHTTPRequestHandler) -> None:
        if when == "within the body":
            send(handler, 200, CONTENT[:50], length=len(CONTENT))
            handler.wfile.flush()
        server.stop.wait(20)

    text = failure(tmp_path, server.url("/slow", slow), timeout=0.2)
    assert "http://127.0.0.1:PORT/slow: timed out" in text.splitlines()[1]


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_followed(tmp_path: Path, server: Server, code: int) -> None:
    server.url("/there", serve(CONTENT))
    hop = server.url("/hop", redirect("/there", code))
    assert fetch(tmp_path, server.url("/x", redirect(hop))).read_bytes() == CONTENT


def test_redirects_to_other_schemes_are_not_followed(
    tmp_path: Path, server: Server, lacking: Any
) -> None:
    text = failure(tmp_path, server.url("/x", redirect("http://mirror.invalid/a.bin")))
    assert not lacking(text, "http://mirror.invalid/a.bin", "https")
    text = failure(tmp_path, server.url("/y", redirect("file:///etc/hostname")))
    assert not lacking(text, "file:///etc/hostname", "https")


def test_redirects_are_followed_up_to_a_limit(tmp_path: Path, server: Server) -> None:
    url = server.url("/0", serve(CONTENT))
    for n in range(1, MAX_REDIRECTS + 1):
        url = server.url(f"/{n}", redirect(f"/{n - 1}"))
    assert fetch(tmp_path, url).read_bytes() == CONTENT
    text = failure(tmp_path, server.url("/x", redirect(url)))
    assert "too many redirects" in text


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_the_body_of_a_redirect_is_not_read(
    tmp_path: Path, server: Server, code: int
) -> None:
    sent = []

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        handler.send_header("Location", "/there")
        handler.end_headers()
        with contextlib.suppress(OSError):
            # Far more than the buffers of both sides; without an end for the client.
            while sum(sent) < 1 << 27 and not server.stop.is_set():
                sent.append(handler.wfile.write(bytes(1 << 16)))

    server.url("/there", serve(CONTENT))
    path = fetch(tmp_path, server.url("/x", endless))
    assert path.read_bytes() == CONTENT
    assert sum(sent) < 1 << 26


def test_the_size_of_a_chunk_is_not_read_without_limit(
    tmp_path: Path, server: Server
) -> None:
    sent = []

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):
            while sum(sent) < 1 << 27 and not server.stop.is_set():
                sent.append(handler.wfile.write(b"0" * (1 << 16)))

    assert "connection broke" in failure(tmp_path, server.url("/x", endless))
    assert sum(sent) < 1 << 26


@pytest.mark.parametrize("part", ["head", "redirect", "body"])
def test_a_server_that_sends_a_byte_now_and_then_times_out(
    tmp_path: Path, server: Server, part: str
) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        head = b"HTTP/1.1 302 Found\r\nLocation: /" if part == "redirect" else b""
        if part == "body":
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
        handler.wfile.write(head)
        with contextlib.suppress(OSError):
            while not server.stop.wait(0.02):
                handler.wfile.write(b"x")

    text = failure(tmp_path, server.url("/slow", drip), timeout=0.1)
    assert "/slow: timed out" in text


@pytest.mark.parametrize("code", [300, 304])
def test_a_redirect_without_an_address_is_an_error(
    tmp_path: Path, server: Server, code: int
) -> None:
    text = failure(tmp_path, server.url("/x", status(code)))
    assert f"the server answered {code}" in text


@pytest.mark.parametrize(
    "location", ["https://[::1", "https://host:99999/x", "https://a b/", "//[", "ftp:x"]
)
def test_a_redirect_to_a_malformed_address_is_an_error(
    tmp_path: Path, server: Server, location: str
) -> None:
    assert "address" in failure(tmp_path, server.url("/x", redirect(location)))


@all_cases(
    "url",
    [
        "https://",
        "https://[::1",
        "https://[::1]]/x",
        "https://host:port/x",
        "https://host:99999/x",
        "https://.../x",
        "https://a..b/x",
        "https://exa mple.org/x",
        "https://xn--/x",
        "https://\u00e4" + "\u00f6" * 80 + ".org/x",
        "https:///x",
        "//host/x",
        "",
        "https://user:pa[ss@host/x",
    ],
)
def test_a_malformed_address_is_one_error(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError) as caught:
        download(url, tmp_path / "x.part", limit=10, timeout=2)
    assert "\n" not in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_addresses_are_shown_without_passwords_and_queries() -> None:
    for url, shown in [
        ("https://host/a.csv", "https://host/a.csv"),
        ("https://host/@scope/a.csv", "https://...@scope/a.csv"),
        ("https://me:secret@host/a", "https://...@host/a"),
        ("https://me:sec/ret@host/a", "https://...@host/a"),
        ("https://me:sec@ret@host/a", "https://...@host/a"),
        ("https://me:sec?ret@host/a", "https://...?..."),
        ("https://me:sec#ret@host/a", "https://...#..."),
        ("https://me:sec/re?t@host/a", "https://...?..."),
        ("https://me:secret%40host/a", "https://..."),
        ("https://[::1]:80/a", "https://[::1]:80/a"),
        ("https://host:80/a;sig=secret", "https://host:80/a;..."),
        ("https://host/a&token=secret", "https://host/a&..."),
        ("https://host/a?X-Amz-Signature=secret", "https://host/a?..."),
        ("https://host/a?sig=secret&to=x@y", "https://host/a?..."),
        ("https://host/a#token=secret", "https://host/a#..."),
        ("me:secret@host", "...@host"),
        ("https://[me:secret@host", "https://...@host"),
    ]:
        assert shown_address(url) == shown


@pytest.mark.parametrize("kind", ["missing", "wrong", "long", "loop", "downgrade"])
def test_no_message_of_a_download_contains_a_password_or_a_signature(
    tmp_path: Path, server: Server, kind: str
) -> None:
    answers = {
        "missing": status(404),
        "wrong": serve(b"else"),
        "long": serve(bytes(1 << 20)),
        "loop": redirect("/x?token=secret"),
        "downgrade": redirect("http://me:secret@mirror.invalid/a?sig=secret"),
    }
    query = "?X-Amz-Signature=secret"
    server.answers[f"/x{query}"] = answers[kind]
    server.answers["/x?token=secret"] = answers[kind]
    url = server.url("/x", answers[kind]).replace("http://", "http://me:secret@")
    text = failure(tmp_path, url + query)
    assert "...@" in text
    assert "secret" not in text


def test_circular_redirects_are_rejected(tmp_path: Path, server: Server) -> None:
    assert "too many redirects" in failure(tmp_path, server.url("/x", redirect("/x")))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/x",
        "ftp://example.org/x",
        "/etc/hostname",
        "file://127.0.0.1/x",
    ],
)
def test_only_https_is_allowed(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match="only https"):
        download(url, tmp_path / "x.part", limit=10)
    assert list(tmp_path.iterdir()) == []


def test_the_loopback_is_allowed_only_for_explicit_addresses(
    tmp_path: Path, server: Server
) -> None:
    url = server.url("/a.bin", serve(CONTENT))
    (path,) = fetch_dataset(make_card(), data_dir=tmp_path, url=url)
    assert path.read_bytes() == CONTENT
    with pytest.raises(DataError, match="only https"):
        fetch_dataset(make_card(), data_dir=tmp_path, url="http://example.org/a.bin")


def test_an_explicit_address_with_other_content_is_rejected(
    tmp_path: Path, server: Server
) -> None:
    with pytest.raises(DataError, match="a file of mine"):
        fetch_dataset(
            make_card(), data_dir=tmp_path, url=server.url("/a.bin", serve(b"else"))
        )
    assert left(tmp_path) == []


def test_an_explicit_archive_may_contain_several_files(
    tmp_path: Path, server: Server
) -> None:
    second_file = b"more"
    specs = (
        FileSpec(name="a.bin", sha256=SHA),
        FileSpec(name="sub/b.bin", sha256=hashlib.sha256(second_file).hexdigest()),
    )
    card = Card(**NAMES, reader=Source(name="x"), folder="f", files=list(specs))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x", CONTENT)
        archive.writestr("y", second_file)
    paths = fetch_dataset(
        card, data_dir=tmp_path, url=server.url("/all.zip", serve(buffer.getvalue()))
    )
    assert {f.name: f.read_bytes() for f in paths} == {
        "a.bin": CONTENT,
        "sub/b.bin": second_file,
    }
    assert missing_files(card, data_dir=tmp_path) == []


def test_existing_files_are_verified_and_not_downloaded(
    tmp_path: Path, server: Server
) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a.bin").write_bytes(CONTENT)
    card = make_card(urls=[Url(url="https://127.0.0.1:9/never-asked")])
    assert [f.name for f in fetch_dataset(card, data_dir=tmp_path)] == ["a.bin"]
    (tmp_path / "f" / "a.bin").write_bytes(b"damaged")
    with pytest.raises(DataError, match="content is not that"):
        fetch_dataset(card, data_dir=tmp_path)


def test_an_interrupt_by_the_user_leaves_no_partial_file(
    tmp_path: Path, server: Server
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    url = server.url("/x", serve(CONTENT))
    with pytest.raises(KeyboardInterrupt):
        fetch(tmp_path, url, report=interrupt)
    assert not (tmp_path / "f" / "a.bin").exists()
    assert fetch(tmp_path, url).read_bytes() == CONTENT


def test_an_unwritable_directory_is_reported(tmp_path: Path, server: Server) -> None:
    (tmp_path / "f").write_text("in the way")
    with pytest.raises(UserError, match=r"(?s)cannot write .*--data-dir"):
        fetch(tmp_path, server.url("/x", serve(CONTENT)))


@pytest.mark.parametrize("link", ["mine", "mine/sub"])
def test_nothing_is_written_through_links_in_the_data_directory(
    tmp_path: Path, server: Server, link: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    path = tmp_path / "data" / link
    path.parent.mkdir(parents=True)
    path.symlink_to(outside)
    spec = FileSpec(name="sub/a.bin", sha256=SHA, bytes=len(CONTENT))
    card = Card(**NAMES, reader=Source(name="x"), folder="mine", files=[spec])
    url = server.url("/a", serve(CONTENT))
    (tmp_path / "a.bin").write_bytes(CONTENT)
    for command in (
        lambda: fetch_dataset(card, data_dir=tmp_path / "data", url=url),
        lambda: add_file(card, tmp_path / "a.bin", tmp_path / "data"),
    ):
        with pytest.raises(UserError, match=f"{link} is a link"):
            command()
    assert list(outside.iterdir()) == []
