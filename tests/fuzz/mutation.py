"""Hypothesis strategies: valid files of every format, and ways to corrupt them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from alteration import alter_bytes, alter_json
from fuzztargets import CONTENT
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.io import savemat
from sklearn.datasets import dump_svmlight_file

from mtlrun.utils.io import configs_dir, datasets_dir

#: A valid file and its content
Valid = tuple[bytes, Any]

NUMBERS = [
    *(
        b"0",
        b"-1",
        b"1e999",
        b"-1e-999",
        b"nan",
        b"inf",
        b"99999999999999999999",
        b"2147483648",
        b"4294967295",
    ),
    *(
        b"1_000",
        b"0x10",
        b"1e",
        b"+-1",
        b".",
        b"1,5",
        b"1" * 5000,
        b"9" * 400,
        b"1e5",
        "٣".encode(),
        "１２".encode(),
    ),
]
WORDS = [
    *(
        b"",
        b" ",
        b"\t",
        b"\0",
        b"\r",
        b"\r\n",
        b"\n",
        b"\n\n",
        b",",
        b";",
        b":",
        b"?",
        b"'",
        b'"',
        b'""',
        b"\\",
        b"%",
    ),
    *(
        b"#",
        b"&",
        b"*",
        b"!",
        b"|",
        b"<<",
        b">",
        b"{",
        b"}",
        b"[",
        b"]",
        b"(",
        b")",
        b"\x1b[31m",
        b"\xff",
        b"\xc3",
    ),
    *(
        "é".encode(),
        "\u202e".encode(),
        "\u2028".encode(),
        b"\xef\xbb\xbf",
        b"\xef\xbf\xbe",
        b"../../x",
        b"/etc/passwd",
    ),
    *(
        b"@attribute",
        b"@data",
        b"@relation 'x: -C 3'",
        b"@ATTRIBUTE x {a,b}",
        b"<label name='a'/>",
        b"</labels>",
    ),
    *(
        b"<!DOCTYPE x>",
        b"<!ENTITY a 'b'>",
        b"&a;",
        b"<?xml version='1.0' encoding='rot13'?>",
        b"<![CDATA[",
        b"qid:1",
    ),
    *(
        b"? ",
        b"- ",
        b"&a [*a]",
        b"!!python/object:os.system",
        b"---",
        b"...",
        b"{0 1, 0 2}",
        b">seq",
        b"label=1",
        b"-C",
    ),
]
SIZES = [0, 1, 2, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1]
_FINITE = st.floats(-1e12, 1e12).map(lambda value: float(f"{value:.6g}"))
_ZONES = st.sampled_from([None, "UTC", "Europe/Berlin"])
_NAMES = st.text(
    st.sampled_from("abzAZ09_-. é'\"\\,%{}"), min_size=1, max_size=6
).filter(lambda s: s.strip() == s)


@st.composite
def mutated(draw: st.DrawFn, name: str) -> bytes:
    """Draw a valid file of a format and corrupt it a few times.

    A Parquet file whose bytes are changed is mostly refused at once, so half of them
    get other metadata of pandas instead.
    """
    content = draw(VALID[name])[0]
    if name == "parquet" and draw(st.booleans()):
        return _other_metadata(draw, content)
    for spoil in draw(st.lists(st.sampled_from(_SPOILERS), min_size=1, max_size=5)):
        content = spoil(draw, content)
    return content


def _place(draw: st.DrawFn, content: bytes) -> int:
    return draw(st.integers(0, len(content)))


def _flip(draw: st.DrawFn, content: bytes) -> bytes:
    if not content:
        return b"\0"
    position = _place(draw, content[:-1])
    return (
        content[:position]
        + bytes([content[position] ^ draw(st.integers(1, 255))])
        + content[position + 1 :]
    )


def _insert(draw: st.DrawFn, content: bytes) -> bytes:
    position = _place(draw, content)
    return (
        content[:position] + draw(st.sampled_from(WORDS + NUMBERS)) + content[position:]
    )


def _cut(draw: st.DrawFn, content: bytes) -> bytes:
    position = _place(draw, content)
    return content[:position] + content[position + draw(st.integers(1, 40)) :]


def _truncate(draw: st.DrawFn, content: bytes) -> bytes:
    return content[: _place(draw, content)]


def _lines(draw: st.DrawFn, content: bytes) -> bytes:
    """Drop, repeat or swap lines."""
    lines = content.split(b"\n")
    first, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    how = draw(st.sampled_from(["drop", "repeat", "exchange"]))
    if how == "drop":
        del lines[first]
    elif how == "repeat":
        lines.insert(other, lines[first])
    else:
        lines[first], lines[other] = lines[other], lines[first]
    return b"\n".join(lines)


def _number(draw: st.DrawFn, content: bytes) -> bytes:
    items = list(re.finditer(rb"\d+", content))
    if not items:
        return content
    match = items[draw(st.integers(0, len(items) - 1))]
    return (
        content[: match.start()]
        + draw(st.sampled_from(NUMBERS))
        + content[match.end() :]
    )


def _binary_number(draw: st.DrawFn, content: bytes) -> bytes:
    position = _place(draw, content)
    number = struct.pack(
        draw(st.sampled_from("<>")) + "I", draw(st.sampled_from(SIZES))
    )
    return content[:position] + number + content[position + 4 :]


def _repeat(draw: st.DrawFn, content: bytes) -> bytes:
    """Repeat a piece so often that lines or nesting become very long."""
    position = _place(draw, content)
    piece = content[position : position + draw(st.integers(1, 12))] or b"["
    return (
        content[:position]
        + piece * draw(st.sampled_from([2, 50, 1000, 20_000]))
        + content[position:]
    )


def _nest(draw: st.DrawFn, content: bytes) -> bytes:
    position = _place(draw, content)
    opening = draw(
        st.sampled_from(
            [b"[", b"{", b"<label name='n'>", b"'", b'"', b"(", b"- ", b"? ", b"a: {"]
        )
    )
    return (
        content[:position]
        + opening * draw(st.sampled_from([1, 41, 500, 20_000]))
        + content[position:]
    )


def _line_ends(draw: st.DrawFn, content: bytes) -> bytes:
    return content.replace(
        b"\n", draw(st.sampled_from([b"\r\n", b"\r", b"", "\u2028".encode(), b"\x0b"]))
    )


def _encoding(draw: st.DrawFn, content: bytes) -> bytes:
    text = content.decode("utf-8", errors="replace")
    return text.encode(
        draw(st.sampled_from(["utf-8-sig", "utf-16", "latin-1", "utf-7"])),
        errors="replace",
    )


def _end(draw: st.DrawFn, content: bytes) -> bytes:
    return content.rstrip(b"\n") + draw(
        st.sampled_from([b"", b"\0" * 100, b"\n" * 50, b"\x1a", b"x"])
    )


_SPOILERS: list[Callable[[st.DrawFn, bytes], bytes]] = [
    *(
        _flip,
        _insert,
        _cut,
        _truncate,
        _lines,
        _number,
        _binary_number,
        _repeat,
        _nest,
        _line_ends,
        _encoding,
        _end,
    ),
    *(_flip, _insert, _lines, _number),
]


@st.composite
def arff_files(draw: st.DrawFn) -> Valid:
    """Draw a dense or sparse ARFF file; its content is names and values."""
    names = draw(st.lists(_NAMES, min_size=1, max_size=4, unique=True))
    words = [
        draw(st.none() | st.lists(_NAMES, min_size=2, max_size=3, unique=True))
        for _ in names
    ]
    words = [None if w is None or all(_is_number(v) for v in w) else w for w in words]
    values = [st.sampled_from(range(len(w))) if w else _FINITE for w in words]
    X = np.array(draw(st.lists(st.tuples(*values), max_size=4)), dtype=float).reshape(
        -1, len(names)
    )
    rows = []
    is_sparse = draw(st.booleans())
    separator = draw(st.sampled_from([",", ", ", " ", "\t"]))
    comment = draw(st.sampled_from(["", " % it's", "\t%{no}"]))
    for row in X:
        cells = [
            _quoted(w[int(v)]) if w else repr(float(v))
            for w, v in zip(words, row, strict=True)
        ]
        if is_sparse:
            rows.append(
                "{"
                + separator.join(
                    f"{j} {cell}" for j, cell in enumerate(cells) if row[j] != 0
                )
                + "}"
            )
        else:
            rows.append(separator.join(cells))
    kinds = [
        "numeric" if w is None else "{" + separator.join(map(_quoted, w)) + "}"
        for w in words
    ]
    head = [
        f"@attribute {_quoted(name)} {kind}"
        for name, kind in zip(names, kinds, strict=True)
    ]
    lines = ["@relation 'x: -C 1'", "% comment", *head, "", "@data", *rows]
    lines = [line + comment for line in lines]
    return "\n".join(lines).encode() + draw(st.sampled_from([b"", b"\n"])), (names, X)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


@st.composite
def xml_files(draw: st.DrawFn) -> Valid:
    """Draw a list of labels; its content is their names."""
    names = draw(st.lists(_NAMES, min_size=1, max_size=6, unique=True))
    labels = "\n".join(f"<label name={quoteattr(name)}></label>" for name in names)
    return (
        f'<?xml version="1.0"?>\n<labels xmlns="http://mulan">\n{labels}\n</labels>\n'.encode(),
        names,
    )


@st.composite
def fasta_files(draw: st.DrawFn) -> Valid:
    """Draw sequences of one length; the content is sequences and header labels."""
    length, wide = draw(st.integers(1, 30)), draw(st.integers(1, 30))
    sequences = draw(
        st.lists(
            st.text("ACGTN", min_size=length, max_size=length), min_size=1, max_size=5
        )
    )
    labels = [draw(st.sampled_from([1, -1])) for _ in sequences]
    lines = []
    for number, (sequence, label) in enumerate(zip(sequences, labels, strict=True)):
        lines += [f">seq{number} label={label}"]
        lines += [sequence[start : start + wide] for start in range(0, length, wide)]
    return "\n".join(lines).encode() + b"\n", (sequences, labels)


@st.composite
def idx_files(draw: st.DrawFn) -> Valid:
    """Draw an array in the format of MNIST."""
    codes = {
        0x08: ">u1",
        0x09: ">i1",
        0x0B: ">i2",
        0x0C: ">i4",
        0x0D: ">f4",
        0x0E: ">f8",
    }
    code = draw(st.sampled_from(sorted(codes)))
    array = draw(
        hnp.arrays(
            codes[code],
            hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
        )
    )
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, code, array.ndim]) + sizes + array.tobytes(), array


@st.composite
def csv_files(draw: st.DrawFn) -> Valid:
    """Draw a table of numbers with a header."""
    n_columns = draw(st.integers(1, 4))
    table = draw(
        st.lists(
            st.lists(_FINITE, min_size=n_columns, max_size=n_columns),
            min_size=1,
            max_size=5,
        )
    )
    lines = [",".join("abcd"[:n_columns]), *(",".join(map(repr, row)) for row in table)]
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines).encode() + b"\n", np.array(
        table
    )


@st.composite
def user_csv_files(draw: st.DrawFn) -> Valid:
    """Draw a table with a task column and a text column; its content is the text."""
    words = draw(
        st.lists(
            st.text(st.characters(categories=["L", "Zs", "P"]), max_size=5),
            min_size=1,
            max_size=5,
        )
    )
    words = [f"w{word}w" for word in words]
    rows = [
        f'{k}.5,t{k % 2},"{word.replace(chr(34), chr(34) * 2)}"'
        for k, word in enumerate(words)
    ]
    return "\n".join(["a,task,b", *rows, ""]).encode(), words


@st.composite
def mat_files(draw: st.DrawFn) -> Valid:
    """Draw two cell arrays, or two matrices."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    X = [draw(hnp.arrays(float, (n, 2), elements=_FINITE)) for n in sizes]
    Y = [draw(hnp.arrays(float, (n, 1), elements=_FINITE)) for n in sizes]
    stream = io.BytesIO()
    if draw(st.booleans()):
        X, Y = X[:1], Y[:1]
        content: dict[str, Any] = {"X": X[0], "Y": Y[0]}
    else:
        content = {name: np.empty((1, len(sizes)), dtype=object) for name in "XY"}
        for t, cells in enumerate(zip(X, Y, strict=True)):
            content["X"][0, t], content["Y"][0, t] = cells
    savemat(stream, content, do_compression=draw(st.booleans()))
    return b"MATLAB 5.0 MAT-file".ljust(116) + stream.getvalue()[116:], (
        X,
        Y,
    )  # Without the time


@st.composite
def npz_files(draw: st.DrawFn) -> Valid:
    """Draw rows and their tasks."""
    X = draw(hnp.arrays(float, (draw(st.integers(1, 4)), 3), elements=_FINITE))
    stream = io.BytesIO()
    save = draw(st.sampled_from([np.savez, np.savez_compressed]))
    save(stream, X=X, task_id=np.arange(len(X)))
    return stream.getvalue(), X


@st.composite
def parquet_files(draw: st.DrawFn) -> Valid:
    """Draw a table of numbers, words and days, as pandas and pyarrow write it."""
    n_rows = draw(st.integers(1, 4))
    frame = pd.DataFrame(
        {
            "a": draw(hnp.arrays(float, n_rows, elements=_FINITE)),
            "b": draw(hnp.arrays("int32", n_rows)),
            "task": [f"s{row % 2}" for row in range(n_rows)],
            "day": pd.date_range("2024-01-01", periods=n_rows, tz=draw(_ZONES)),
            "kind": pd.Categorical(["x"] * n_rows),
        }
    )
    if draw(st.booleans()):
        frame = frame.set_index(draw(st.sampled_from(["task", "b"])))
    stream = io.BytesIO()
    frame.to_parquet(stream)
    return stream.getvalue(), None


def _other_metadata(draw: st.DrawFn, content: bytes) -> bytes:
    """Alter the JSON, or the bytes, of the metadata of pandas in a Parquet file."""
    rows = pq.read_table(io.BytesIO(content))
    metadata = dict(rows.schema.metadata)
    rng = draw(st.randoms(use_true_random=False))
    if draw(st.integers(0, 5)):
        info = alter_json(rng, json.loads(metadata[b"pandas"]))
        metadata[b"pandas"] = json.dumps(info).encode()
    else:
        metadata[b"pandas"] = alter_bytes(rng, metadata[b"pandas"])
    stream = io.BytesIO()
    pq.write_table(rows.replace_schema_metadata(metadata), stream)
    return stream.getvalue()


@st.composite
def svmlight_files(draw: st.DrawFn) -> Valid:
    """Draw sparse rows with targets and tasks."""
    X = draw(hnp.arrays(float, (draw(st.integers(1, 4)), 3), elements=_FINITE))
    X[:, -1] = 1.0
    y = draw(hnp.arrays(float, len(X), elements=_FINITE))
    stream = io.BytesIO()
    dump_svmlight_file(X, y, stream, zero_based=False, query_id=np.arange(len(X)))
    return stream.getvalue(), (X, y)


@st.composite
def splice_files(draw: st.DrawFn) -> Valid:
    """Draw labelled sequences in lines."""
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["EI", "IE", "N"]),
                st.text("ACGT", min_size=6, max_size=6),
            ),
            min_size=1,
        )
    )
    return "\n".join(
        f"{label}, name-{k},   {text}" for k, (label, text) in enumerate(rows)
    ).encode(), rows


@st.composite
def archive_files(draw: st.DrawFn) -> Valid:
    """Draw a file that contains `CONTENT`: compressed, or in an archive with others."""
    kind = draw(
        st.sampled_from(
            ["plain", "gz", "bz2", "xz", "zip", "tar", "tar.gz", "tar.bz2", "tar.xz"]
        )
    )
    if kind in _PACKERS:
        return _PACKERS[kind](CONTENT), None
    names = draw(
        st.lists(
            st.sampled_from(["known.txt", "../x", "/etc/x", "a/../../x", "any.txt"]),
            min_size=1,
        )
    )
    stream = io.BytesIO()
    if kind == "zip":
        with (
            warnings.catch_warnings(),
            zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed,
        ):
            warnings.simplefilter("ignore")
            for name in names:
                packed.writestr(zipfile.ZipInfo(name), CONTENT)
        return stream.getvalue(), None
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in [*names, "known.txt"]:
            info = tarfile.TarInfo(name)
            kinds = [tarfile.REGTYPE] * 3 + [tarfile.SYMTYPE, tarfile.LNKTYPE] * (
                name != "known.txt"
            )
            info.type = draw(st.sampled_from(kinds))
            info.linkname = draw(st.sampled_from(["/etc/passwd", "../x", "known.txt"]))
            info.size = len(CONTENT) if info.isfile() else 0
            tar.addfile(info, io.BytesIO(CONTENT))
    return _PACKERS[kind.partition(".")[2] or "plain"](stream.getvalue()), None


def _shipped(*paths: str) -> st.SearchStrategy[Valid]:
    return st.sampled_from(
        [
            (path.read_bytes(), None)
            for pattern in paths
            for path in sorted(_glob(pattern))
        ]
    )


def _glob(pattern: str) -> list[Any]:
    root, _, rest = pattern.partition("/")
    folder = configs_dir() if root == "configs" else datasets_dir()
    return [path for path in folder.glob(rest) if path.stat().st_size < 6000]


_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": partial(gzip.compress, mtime=0),  # Drawn files must be reproducible.
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
VALID: dict[str, st.SearchStrategy[Valid]] = {
    "arff": arff_files(),
    "xml": xml_files(),
    "fasta": fasta_files(),
    "idx": idx_files(),
    "csv": csv_files(),
    "user-csv": user_csv_files(),
    "mat": mat_files(),
    "npz": npz_files(),
    "parquet": parquet_files(),
    "svmlight": svmlight_files(),
    "splice": splice_files(),
    "archive": archive_files(),
    "yaml": _shipped("configs/*/*.yaml", "datasets/*.yaml"),
    "experiment": _shipped("configs/*/*.yaml").filter(
        lambda file: b"kind: train" not in file[0]
    ),
    "training": _shipped("configs/train/*.yaml"),
    "card": _shipped("datasets/*.yaml"),
}
