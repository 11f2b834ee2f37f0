"""Untrusted archives, containers and arrays: no files outside the data directory, no
bombs, no pickle.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import pickle
import re
import tarfile
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from mtlrun.data.reading import files
from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.formats.mat import read_mat
from mtlrun.data.reading.read import read_table
from mtlrun.data.roles.schema import Schema, read_rows
from mtlrun.data.sets.cards import Card, FileSpec, Source
from mtlrun.data.sets.fetch import add_file
from mtlrun.data.sets.files import verify_file
from mtlrun.errors import DataError
from mtlrun.utils import sizes

CONTENT = b"the content that the card knows\n"
SHA = hashlib.sha256(CONTENT).hexdigest()
NAMES: Any = {
    "id": "mine",
    "title": "Mine",
    "licence": "l",
    "citation": "c",
    "task_type": "binary",
    "design": "shared",
}


class Escapes:
    """Creates a file when unpickled."""

    def __init__(self, marker: Path) -> None:
        self.place = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (self.place, "unpickled"))


def make_card(**changes: Any) -> Card:
    spec = FileSpec(name="a.txt", sha256=changes.pop("sha256", SHA), **changes)
    return Card(**NAMES, reader=Source(name="x"), folder="f", files=[spec])


def zipped(entries: Iterable[tuple[str, bytes]]) -> bytes:
    stream = io.BytesIO()
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        warnings.simplefilter("ignore")
        for name, content in entries:
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(*entries: tuple[str, bytes, bytes, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, kind, content, link in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def add(
    folder: Path, content: bytes, name: str = "given.bin", card: Card | None = None
) -> list[str]:
    """Add a file to a data directory; return all new files below the test folder."""
    given = folder / name
    given.write_bytes(content)
    add_file(card or make_card(), given, folder / "data")
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path != given
    )


PATHS = [
    "../../a.txt",
    "/tmp/a.txt",
    "x/../../../a.txt",
    "..\\..\\a.txt",
    "C:\\a.txt",
    "a\0b",
    "\x1b[2J",
    ".",
    "a.txt/",
]


@pytest.mark.parametrize("path", PATHS)
def test_member_names_do_not_determine_paths(tmp_path: Path, path: str) -> None:
    entries = (
        [("before", b"x"), (path, CONTENT)]
        if path != "a.txt/"
        else [("dir/", b""), ("y", CONTENT)]
    )
    assert add(tmp_path, zipped(entries)) == ["data/f/a.txt"]
    assert (tmp_path / "data" / "f" / "a.txt").read_bytes() == CONTENT


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_tar_members_that_point_elsewhere_are_rejected(
    tmp_path: Path, pack: Any
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    reg, sym, hard = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
    links = [
        *(
            ("link", sym, b"", str(secret)),
            ("hard", hard, b"", str(secret)),
            ("../up", sym, b"", ".."),
        ),
        *(
            ("device", tarfile.CHRTYPE, b"", ""),
            ("fifo", tarfile.FIFOTYPE, b"", ""),
            ("folder", tarfile.DIRTYPE, b"", ""),
        ),
    ]
    with pytest.raises(DataError, match="a file of mine"):
        add(tmp_path, pack(tarred(*links)))
    assert not (tmp_path / "data").exists()
    assert add(tmp_path, pack(tarred(*links, ("../../good", reg, CONTENT, "")))) == [
        "data/f/a.txt",
        "secret",
    ]


def test_the_last_of_several_members_with_the_same_name_counts(tmp_path: Path) -> None:
    reg, sym = tarfile.REGTYPE, tarfile.SYMTYPE
    with pytest.raises(DataError, match="file of mine"):
        add(tmp_path, tarred(("a", reg, CONTENT, ""), ("a", sym, b"", "/etc/passwd")))
    with pytest.raises(DataError, match="file of mine"):
        add(tmp_path, zipped([("a", CONTENT), ("a", b"other")]))
    assert add(tmp_path, zipped([("a", b"other"), ("A", b"more"), ("a", CONTENT)])) == [
        "data/f/a.txt"
    ]


def test_a_link_in_the_data_directory_is_replaced_and_not_followed(
    tmp_path: Path,
) -> None:
    (tmp_path / "data" / "f").mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "data" / "f" / "a.txt").symlink_to(victim)
    add(tmp_path, CONTENT)
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "data" / "f" / "a.txt").is_symlink()


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "EXPANDED_BYTES", 1 << 20)


@pytest.mark.slow
@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zip", "tar.gz", "nested"])
def test_files_that_expand_out_of_proportion_are_rejected(
    tmp_path: Path, kind: str
) -> None:
    zeros = bytes(20 << 20)
    bomb = {
        "gz": lambda: gzip.compress(zeros),
        "bz2": lambda: bz2.compress(zeros),
        "xz": lambda: lzma.compress(zeros),
        "zip": lambda: zipped([("a.txt", zeros)]),
        "tar.gz": lambda: gzip.compress(tarred(("a.txt", tarfile.REGTYPE, zeros, ""))),
        "nested": lambda: zipped([(f"{k}.txt", zeros[: 2 << 20]) for k in range(20)]),
    }[kind]()
    for card in (make_card(), make_card(sha256=None)):
        with pytest.raises(DataError, match="the limit is"):
            add(tmp_path, bomb, f"a.txt.{kind}", card)
        assert not list(tmp_path.rglob("data/f/*"))


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress])
def test_tables_of_users_are_checked_for_expansion_too(
    tmp_path: Path, packed: Any
) -> None:
    path = (
        tmp_path
        / {
            gzip.compress: "a.csv.gz",
            bz2.compress: "a.csv.bz2",
            lzma.compress: "a.csv.xz",
        }[packed]
    )
    path.write_bytes(packed(b"a,b\n" + b"0,0\n" * (1 << 19)))
    for read in (lambda: read_table(path), lambda: read_rows(path, Schema(2))):
        with pytest.raises(DataError, match="the limit is"):
            read()


def test_a_valid_file_that_compresses_well_is_accepted(tmp_path: Path) -> None:
    content = bytes(1 << 20)
    card = make_card(sha256=hashlib.sha256(content).hexdigest())
    assert add(tmp_path, gzip.compress(content), card=card) == ["data/f/a.txt.gz"]


def test_archives_with_very_many_files_are_rejected(tmp_path: Path) -> None:
    many = [(str(k), b"") for k in range(sizes.MEMBERS + 1)]
    for content in (
        zipped(many),
        tarred(*((name, tarfile.REGTYPE, b"", "") for name, _ in many)),
    ):
        with pytest.raises(DataError, match="the limit is 2,000"):
            add(tmp_path, content)


def test_an_encrypted_zip_is_rejected(tmp_path: Path) -> None:
    content = bytearray(zipped([("a.txt", CONTENT)]))
    content[6] |= (
        1  # The encryption flag is in the member's header and in the directory.
    )
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(DataError, match=r"the file is damaged \(.*encrypted"):
        add(tmp_path, bytes(content))


@pytest.mark.parametrize("name", ["a.npz", "a.npy.npz", "pickle.npz"])
def test_object_arrays_are_not_unpickled(tmp_path: Path, name: str) -> None:
    marker = tmp_path / "unpickled"
    path = tmp_path / name
    if name == "pickle.npz":
        path.write_bytes(pickle.dumps(Escapes(marker)))
    else:
        with path.open("wb") as stream:
            np.savez(stream, X=np.array([[Escapes(marker)]], dtype=object))
    with pytest.raises(DataError, match=r"\.npz") as caught:
        read_rows(path, Schema(1))
    assert "numpy.savez" in str(caught.value.remedy)
    assert not marker.exists()


def test_an_npz_file_that_claims_more_data_than_it_has_is_rejected(
    tmp_path: Path,
) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 1 << 20)}
    )
    (tmp_path / "a.npz").write_bytes(zipped([("X.npy", header.getvalue() + bytes(80))]))
    with pytest.raises(DataError, match=r"a\.npz"):
        read_rows(tmp_path / "a.npz", Schema(1))


@pytest.mark.usefixtures("small_limits")
def test_an_npz_file_of_the_user_is_checked_for_expansion_too(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(
        path, X=np.zeros((1 << 19, 1)), task_id=np.zeros(1 << 19, dtype=int)
    )
    with pytest.raises(DataError, match=r"a\.npz.*the limit is"):
        read_rows(path, Schema(1))
    np.savez_compressed(
        path, **{f"a{k}": np.zeros(1) for k in range(sizes.MEMBERS)}, X=np.zeros((3, 1))
    )
    with pytest.raises(DataError, match=r"a\.npz.*the limit is 2,000"):
        read_rows(path, Schema(1))


@pytest.mark.parametrize(
    "value", ["text", {"a": 1.0}, np.array([{"a": 1}], dtype=object)]
)
def test_texts_and_structures_in_matlab_files_are_rejected(
    tmp_path: Path, value: Any
) -> None:
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"X": value})
    with pytest.raises(
        DataError, match=r"not a numeric array|not an array of real numbers"
    ):
        read_mat(io.BytesIO(stream.getvalue()), "f.mat", ("X",))


@pytest.mark.usefixtures("small_limits")
def test_a_compressed_matlab_variable_cannot_be_a_bomb() -> None:
    stream = io.BytesIO()
    scipy.io.savemat(
        stream, {"X": np.zeros((1000, 1000)), "Y": np.zeros(3)}, do_compression=True
    )
    with pytest.raises(DataError, match="expand"):
        read_mat(io.BytesIO(stream.getvalue()), "f.mat", ("Y",))


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib", ".npy", ".exe"])
def test_other_suffixes_are_rejected(tmp_path: Path, suffix: str) -> None:
    marker = tmp_path / "unpickled"
    path = tmp_path / f"a{suffix}"
    path.write_bytes(pickle.dumps(Escapes(marker)))
    for read in (lambda: read_table(path), lambda: read_rows(path, Schema(1))):
        with pytest.raises(DataError, match="unknown format"):
            read()
    assert not marker.exists()


def test_nothing_in_the_package_unpickles_files() -> None:
    package = Path(files.__file__).parents[2]
    words = [
        "import pickle\n",
        "joblib.load",
        "allow_pickle=True",
        "yaml.unsafe",
        "yaml.Loader",
        "yaml.full_load",
    ]
    # Messages between processes of a run, through private pipes and sockets.
    between_processes = {"worker.py"}
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.parent.name == "parallel" and path.name in between_processes:
            assert not re.search(r"(?<![.\w])open\(", text)
            continue
        assert [word for word in words if word in text] == [], path
        assert text.count("np.load(") + text.count(".read_array(") == text.count(
            "allow_pickle=False"
        ), path


def test_a_flipped_byte_is_rejected_with_both_hashes(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    wrong = bytes([CONTENT[0] ^ 1]) + CONTENT[1:]
    (tmp_path / "f" / "a.txt").write_bytes(wrong)
    with pytest.raises(DataError) as caught:
        verify_file(make_card(), make_card().files[0], tmp_path)
    assert SHA in caught.value.message
    assert hashlib.sha256(wrong).hexdigest() in caught.value.message
    assert DataFile("a", tmp_path / "f" / "a.txt", "plain").read_bytes() == wrong
