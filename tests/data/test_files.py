"""Files in containers are found, decompressed and verified; errors are clear."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mtlrun.data.reading.files import DataFile
from mtlrun.data.sets.cards import Archive, Card, FileSpec, Source
from mtlrun.data.sets.fetch import add_file
from mtlrun.data.sets.files import data_directory, verify_file, verify_files
from mtlrun.errors import DataError, UserError

CONTENT = b"line one\nline two\n" * 50
SHA = hashlib.sha256(CONTENT).hexdigest()
NAMES: Any = {
    "id": "mine",
    "title": "Mine",
    "licence": "l",
    "citation": "c",
    "task_type": "binary",
    "design": "shared",
}
PACK = {
    "": lambda b: b,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def make_card(**changes: Any) -> Card:
    spec = FileSpec(
        **{"name": "a.txt", "sha256": SHA, "bytes": len(CONTENT), **changes}
    )
    return Card(**NAMES, reader=Source(name="x"), folder="f", files=[spec])


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / "f" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def verify(folder: Path, card: Card | None = None) -> DataFile:
    card = card or make_card()
    return verify_file(card, card.files[0], folder)


def complaint(folder: Path, card: Card | None = None) -> str:
    with pytest.raises(DataError) as caught:
        verify(folder, card)
    return str(caught.value).replace(f"{folder}/", "")


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


def tarred(mode: str, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{mode}") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name.replace("_", "."))
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("suffix", PACK)
def test_all_containers_are_read(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path, "a.txt" + suffix, PACK[suffix](CONTENT))
    report = verify(tmp_path)
    assert (report.path, report.sha256, report.size) == (path, SHA, len(CONTENT))
    assert report.read_bytes() == CONTENT
    assert list(report.lines())[:3] == ["line one", "line two", "line one"]


@pytest.mark.parametrize(
    "pack", [zipped, lambda **m: tarred("", **m), lambda **m: tarred("gz", **m)]
)
def test_members_of_archives_are_read(tmp_path: Path, pack: Any) -> None:
    put(tmp_path, "all.bin", pack(b_txt=b"other", a_txt=CONTENT))
    card = make_card(
        containers=[
            "plain",
            "gz",
            "bz2",
            "xz",
            Archive(archive="all.bin", member="a.txt"),
        ]
    )
    report = verify(tmp_path, card)
    assert report.read_bytes() == CONTENT
    assert report.where(3) == f"{tmp_path}/f/all.bin(a.txt):3"
    absent = make_card(
        containers=[
            "plain",
            "gz",
            "bz2",
            "xz",
            Archive(archive="all.bin", member="c.txt"),
        ]
    )
    assert "c.txt" in complaint(tmp_path, absent)
    assert "archive" in complaint(tmp_path, absent)


def test_restricted_containers_are_rejected(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", CONTENT)
    assert "looked for f/a.txt.gz\n" in complaint(
        tmp_path, make_card(containers=["gz"])
    )


def test_missing_files_are_reported(tmp_path: Path) -> None:
    assert complaint(tmp_path) == (
        "data set mine: the file a.txt is missing; looked for f/a.txt, f/a.txt.gz, "
        "f/a.txt.bz2, f/a.txt.xz\n"
        "There is no download address for a.txt. Give a file that you have: mtlrun "
        "data add mine FILE"
    )


def test_a_flipped_byte_is_reported_with_both_hashes(tmp_path: Path) -> None:
    flipped = b"L" + CONTENT[1:]
    put(tmp_path, "a.txt.gz", gzip.compress(flipped))
    assert complaint(tmp_path) == (
        "f/a.txt.gz: the content is not that of mine/a.txt\n"
        f"  expected sha256 {SHA} (900 bytes)\n"
        f"  found    sha256 {hashlib.sha256(flipped).hexdigest()} (900 bytes)\n"
        "Delete it and run `mtlrun data fetch mine`, or add a good copy with `mtlrun "
        "data add mine FILE`."
    )


AGAIN = (
    "\n"
    "Put a good copy in its place; a file that `mtlrun data fetch` downloaded may be "
    "deleted and fetched again."
)


@pytest.mark.parametrize(
    ("suffix", "damage", "message"),
    [
        (
            ".gz",
            lambda b: b[:-20],
            "the file is truncated (the compressed data end too early)",
        ),
        (
            ".bz2",
            lambda b: b[:-20],
            "the file is truncated (the compressed data end too early)",
        ),
        (
            ".xz",
            lambda b: b[:-20],
            "the file is truncated (the compressed data end too early)",
        ),
        (
            ".gz",
            lambda b: b"no gzip at all",
            "the file is damaged (Not a gzipped file (b'no'))",
        ),
        (
            ".bz2",
            lambda b: b"no bzip at all",
            "the file is damaged (Invalid data stream)",
        ),
        (
            ".xz",
            lambda b: b"no xz at all",
            "the file is damaged (Input format not supported by decoder)",
        ),
        (".gz", lambda b: b[:-8] + b"\0" * 8, "the file is damaged (CRC check failed"),
    ],
)
def test_damaged_containers_are_rejected(
    tmp_path: Path, suffix: str, damage: Any, message: str
) -> None:
    put(tmp_path, "a.txt" + suffix, damage(PACK[suffix](CONTENT)))
    text = complaint(tmp_path)
    assert text.startswith(f"f/a.txt{suffix}: {message}")
    assert text.endswith(AGAIN)


def test_a_directory_in_place_of_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "f" / "a.txt").mkdir(parents=True)
    assert complaint(tmp_path) == (
        "f/a.txt: is a directory, expected a file\n"
        "Remove the directory and put the file in its place."
    )


def test_a_dangling_link_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a.txt").symlink_to(tmp_path / "nowhere")
    assert (
        complaint(tmp_path)
        == f"f/a.txt: the file does not exist (a dangling link?){AGAIN}"
    )


def test_denied_permission_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    put(tmp_path, "a.txt", CONTENT)
    monkeypatch.setattr(os, "open", refuse)
    assert (
        complaint(tmp_path)
        == "f/a.txt: permission denied\nMake the file readable for you."
    )


def test_a_stale_copy_does_not_hide_the_right_file(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", b"old")
    put(tmp_path, "a.txt.gz", gzip.compress(CONTENT))
    assert verify(tmp_path).container == "gz"


def test_a_decompression_bomb_is_not_unpacked_to_its_end(tmp_path: Path) -> None:
    put(tmp_path, "a.txt.gz", gzip.compress(b"\0" * 50_000_000))
    assert "(more than " in complaint(tmp_path)
    size = int(complaint(tmp_path).split("(more than ")[1].split()[0])
    assert size < 5_000_000


def test_changed_files_are_hashed_again(tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", CONTENT)
    assert verify(tmp_path).sha256 == SHA
    path.write_bytes(CONTENT.replace(b"one", b"two"))
    assert "that of mine/a.txt" in complaint(tmp_path)


def test_an_unknown_hash_accepts_any_content(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", b"anything")
    assert (
        verify(tmp_path, make_card(sha256=None, bytes=None)).sha256
        == hashlib.sha256(b"anything").hexdigest()
    )


def test_damage_found_while_reading_is_a_data_error(tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt.gz", gzip.compress(CONTENT)[:-12])
    with pytest.raises(DataError, match="truncated"):
        DataFile("a.txt", path, "gz").read_bytes()


def test_errors_about_encodings_name_line_and_column(
    tmp_path: Path, lacking: Any
) -> None:
    path = put(tmp_path, "a.txt", "one\ncafé\n".encode("latin-1"))
    with pytest.raises(DataError) as caught:
        list(DataFile("a.txt", path, "plain").lines())
    assert not lacking(caught.value, f"{path}:2:4: ", "0xe9", "UTF-8")


def test_the_data_directory_is_chosen_by_option_variable_or_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MTLRUN_DATA", str(tmp_path / "env"))
    assert data_directory(tmp_path) == tmp_path
    assert data_directory() == tmp_path / "env"
    monkeypatch.delenv("MTLRUN_DATA")
    assert data_directory().name == "data"
    assert data_directory("~/x") == Path.home() / "x"
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="directory is a file"):
        data_directory(tmp_path / "file")


@pytest.mark.parametrize("suffix", PACK)
def test_add_recognizes_content_under_any_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "download(1)"
    path.write_bytes(PACK[suffix](CONTENT))
    (stored,) = add_file(make_card(), path, tmp_path / "data")
    assert stored.path == tmp_path / "data" / "f" / f"a.txt{suffix}"
    assert stored.read_bytes() == CONTENT
    assert (
        path.read_bytes() == PACK[suffix](CONTENT) if suffix != ".gz" else path.exists()
    )
    assert [p.name for p in stored.path.parent.iterdir()] == [stored.path.name]


@pytest.mark.parametrize("pack", [zipped, lambda **m: tarred("gz", **m)])
def test_add_unpacks_archives(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "everything"
    path.write_bytes(pack(readme=b"read me", x_dat=CONTENT))
    (stored,) = add_file(make_card(), path, tmp_path)
    assert stored.path == tmp_path / "f" / "a.txt"
    assert stored.read_bytes() == CONTENT


def test_add_compresses_if_the_card_requires_it(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(CONTENT)
    (stored,) = add_file(make_card(containers=["xz"]), path, tmp_path)
    assert lzma.decompress(stored.path.read_bytes()) == CONTENT


def test_add_rejects_other_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"else")
    with pytest.raises(DataError) as caught:
        add_file(make_card(), path, tmp_path / "data")
    assert str(caught.value).replace(f"{tmp_path}/", "") == (
        "a.txt: the content is not a file of mine\n"
        f"expected one of\n  a.txt: sha256 {SHA}\n"
        f"found sha256 {hashlib.sha256(b'else').hexdigest()} (4 bytes)\n"
        "Get the version of the file that the card names, or write a card of your own "
        "for this one."
    )
    assert not (tmp_path / "data").exists()


def test_add_goes_by_name_if_the_hash_is_unknown(tmp_path: Path) -> None:
    card = make_card(sha256=None, bytes=None)
    (tmp_path / "b.txt").write_bytes(b"mine")
    with pytest.raises(DataError, match="file of mine") as caught:
        add_file(card, tmp_path / "b.txt", tmp_path)
    assert caught.value.remedy is not None
    assert caught.value.remedy.endswith("rename yours to a.txt.")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"mine"))
    (stored,) = add_file(card, tmp_path / "a.txt.gz", tmp_path)
    assert stored.path.name == "a.txt.gz"
    assert verify_files(card, data_dir=tmp_path)["a.txt"].read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("kind", "message"),
    [("absent", "there is no such file"), ("folder", "is a directory")],
)
def test_add_of_nothing_is_rejected(tmp_path: Path, kind: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=message) as caught:
        add_file(make_card(), tmp_path / kind, tmp_path)
    assert caught.value.remedy == "Give the path of a file that you have."


def test_add_reports_an_unwritable_directory(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("in the way")
    path = tmp_path / "a.txt"
    path.write_bytes(CONTENT)
    with pytest.raises(UserError, match="cannot write"):
        add_file(make_card(), path, tmp_path)


def test_a_failed_copy_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.txt"
    path.write_bytes(CONTENT)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        add_file(make_card(), path, tmp_path)
    assert list((tmp_path / "f").iterdir()) == []
