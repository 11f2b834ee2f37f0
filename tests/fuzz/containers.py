"""Tables in every container, also with unusual names, types, gaps and orders."""

from __future__ import annotations

import csv
import datetime as dt
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from mtlrun.data.reading.frames import dump_frame, typed

#: Texts that look like numbers, dates, booleans, formulas or missing values
LOOKALIKES = [
    "01",
    "1",
    "07",
    "7",
    "1.1",
    "1.10",
    "1E1",
    "10",
    "+1",
    "-1",
    "+",
    "-",
    "a=",
    "True",
    "TRUE",
    "2024-01-02",
]
GAPS = ["NA", "N/A", "nan", "null", "?"]
_LETTERS = (
    st.text("abÄé01. -'\",;%{}\\/#", min_size=1, max_size=6).map(str.strip).filter(bool)
)
WORDS = st.sampled_from(LOOKALIKES) | _LETTERS


def _arff(frame: pd.DataFrame, path: Path, *, sparse: bool) -> Path:
    """Write words as nominal attributes; sparse rows omit zeros and first words."""

    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    heads, words = [], {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind in "fi":
            heads.append(f"@attribute {quoted(name)} numeric")
            continue
        words[name] = list(dict.fromkeys(_text(cell) for cell in column.dropna()))
        words[name] = ["first"] * sparse + words[name]
        heads.append(
            f"@attribute {quoted(name)} {{{','.join(map(quoted, words[name]))}}}"
        )
    rows = []
    for _, row in frame.iterrows():
        cells = [
            "?" if pd.isna(v) else quoted(_text(v)) if name in words else repr(float(v))
            for name, v in row.items()
        ]
        filled = [
            f"{j} {cell}" for j, cell in enumerate(cells) if float_or_none(cell) != 0
        ]
        rows.append("{" + ",".join(filled) + "}" if sparse else ",".join(cells))
    path.write_text(
        "\n".join(["@relation r", *heads, "@data", *rows, ""]), encoding="utf-8"
    )
    return path


def float_or_none(cell: str) -> float | None:
    """Return a number that is not quoted."""
    return None if cell[:1] in ("'", "?") else float(cell)


def _text(cell: Any) -> str:
    return str(cell.date()) if isinstance(cell, dt.datetime) else str(cell)


def _written(method: str, **options: Any) -> Callable[[pd.DataFrame, Path], Path]:
    def write(frame: pd.DataFrame, path: Path) -> Path:
        getattr(frame, method)(path, index=False, **options)
        return path

    return write


def _indexed(frame: pd.DataFrame, path: Path) -> Path:
    frame.set_index(
        [name for name in frame if name in ("task", "word", "gaps")]
    ).to_parquet(path)
    return path


def _stored(frame: pd.DataFrame, path: Path) -> Path:
    path.write_bytes(dump_frame(frame.apply(typed)))
    return path


def _polars(frame: pd.DataFrame, path: Path) -> Any:
    import polars as pl

    return pl.DataFrame(
        {
            name: [None if pd.isna(v) else v for v in frame[name].tolist()]
            for name in frame
        }
    )


def _arrow(frame: pd.DataFrame, path: Path) -> Any:
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False)


def _renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return column names and words in another Unicode normal form."""

    def other(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        return unicodedata.normalize("NFD", text).replace(" ", "\u00a0")

    cells = frame.map(other)
    columns = [f" {other(name)}\u00a0" for name in frame.columns]
    return cells.set_axis(columns, axis=1)


def _with_markers(frame: pd.DataFrame, marker: str) -> pd.DataFrame:
    """Return a frame with markers in place of missing numbers and words."""
    marked = frame.copy()
    for name in frame.columns:
        missing = frame[name].isna()
        if missing.any() and name not in ("y", "z"):
            marked[name] = frame[name].astype(object).mask(missing, marker)
    return marked


def _arff_with_markers(frame: pd.DataFrame, path: Path) -> Path:
    _arff(frame, path, sparse=False)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(",?", ",NA").replace("\n?", "\nNA"), encoding="utf-8")
    return path


def _with_words_of_markers(frame: pd.DataFrame, path: Path) -> Path:
    """Write a Parquet file in which missing words, not numbers, are "NULL"."""
    words = frame.word.astype(object)
    if frame.word.isna().any():
        words = words.mask(frame.word.isna(), "NULL")
    frame.assign(word=words).to_parquet(path, index=False)
    return path


#: Containers by file suffix; each returns the path to read.
CONTAINERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    ".csv": _written("to_csv"),
    ".tsv": _written("to_csv", sep="\t"),
    ".marked.csv": _written(
        "to_csv",
        encoding="utf-8-sig",
        quoting=csv.QUOTE_NONNUMERIC,
        lineterminator="\r\n",
    ),
    ".comma.csv": _written("to_csv", sep=";", decimal=","),
    ".csv.gz": _written("to_csv"),
    ".parquet": _written("to_parquet"),
    ".indexed.parquet": lambda frame, path: _indexed(frame, path),
    ".xlsx": _written("to_excel"),
    ".arff": lambda frame, path: _arff(frame, path, sparse=False),
    ".sparse.arff": lambda frame, path: _arff(frame, path, sparse=True),
    ".npz": _stored,
    ".frame": lambda frame, path: frame,
    ".objects": lambda frame, path: frame.astype(object),
    ".categories": lambda frame, path: frame.astype(
        {name: "category" for name in frame if frame[name].dtype == object}
    ),
    ".nullable": lambda frame, path: frame.convert_dtypes(),
    ".polars": _polars,
    ".arrow": _arrow,
    ".errors.csv": _written("to_csv", na_rep="#N/A"),
    ".null.csv": _written("to_csv", na_rep=" NULL "),
    ".errors.xlsx": _written("to_excel", na_rep="#N/A"),
    ".markers.arff": lambda frame, path: _arff_with_markers(frame, path),
    ".words.parquet": _with_words_of_markers,
    ".markers": lambda frame, path: _with_markers(frame, "<NA>"),
    ".index": lambda frame, path: frame.set_index("temp\u00e9rature"),
    ".levels": lambda frame, path: frame.set_index(["task", "word"]),
    ".odd.csv": lambda frame, path: _written("to_csv")(_renamed(frame), path),
    ".odd.parquet": lambda frame, path: _written("to_parquet")(_renamed(frame), path),
    ".odd.xlsx": lambda frame, path: _written("to_excel")(_renamed(frame), path),
    ".odd": lambda frame, path: _renamed(frame),
}


@st.composite
def names(draw: st.DrawFn, rows: int, words: st.SearchStrategy[str]) -> pd.Series:
    """Return names of one type: texts, integers, floats, booleans or dates."""
    kind = draw(
        st.sampled_from(["text", "text", "text", "integer", "float", "bool", "day"])
    )
    days = st.dates(dt.date(2000, 1, 1), dt.date(2030, 1, 1)).map(pd.Timestamp)
    cells = {
        "text": words,
        "integer": st.integers(-(10**6), 10**6),
        "float": st.integers(-400, 400).map(lambda k: k / 4),
        "bool": st.booleans(),
        "day": days,
    }[kind]
    some = draw(st.lists(cells, min_size=2, max_size=4, unique=True))
    column = pd.Series(
        [some[k % len(some)] for k in draw(st.permutations(range(rows)))]
    )
    return column.astype(object) if kind == "text" else column


#: Kinds of targets: the number or label of each row of a task, or several columns.
KINDS = {
    "numbers": "regression",
    "labels": "binary",
    "classes": "multiclass",
    "targets": "regression",
    "label targets": "multiclass",
}
_LABELS = [
    ("yes", "no"),
    ("+", "-"),
    ("a=", "Ä"),
    (-1, 1),
    (0, 1),
    (7, 3),
    (2, 1),
    (0.5, 1.5),
    (False, True),
]
_CLASSES = [
    ("red", "green", "blue"),
    ("low", "mid-1", "10 high"),
    (1, 2, 3),
    (-1, 0, 1),
    (0.5, 1.5, 10.0),
]


@st.composite
def targets(draw: st.DrawFn, kind: str, scores: np.ndarray) -> dict[str, pd.Series]:
    """Return targets computed from scores; labels have one type, and some of several
    targets are missing.
    """
    if kind in ("numbers", "targets"):
        columns = {
            "y": pd.Series(scores.round(6)),
            "z": pd.Series((-2 * scores).round(6)),
        }
    else:
        ranks = scores.argsort().argsort()
        columns = {}
        for name, some in zip(
            "yz", (_CLASSES if kind == "classes" else _LABELS, _CLASSES), strict=True
        ):
            words = draw(st.sampled_from(some))
            columns[name] = pd.Series([words[rank % len(words)] for rank in ranks])
    if "targets" not in kind:
        return {"y": columns["y"]}
    if draw(st.booleans()):
        index = draw(st.integers(0, len(scores) - 2))
        columns = {
            "y": columns["y"].where(columns["y"].index != index),
            "z": columns["z"].where(columns["z"].index != index + 1),
        }
    return columns


@st.composite
def tables(
    draw: st.DrawFn, words: st.SearchStrategy[str] = WORDS, kind: str = "numbers"
) -> pd.DataFrame:
    """Return a table with targets ``y`` (and ``z``), tasks, groups, categories, and
    numbers with gaps.
    """
    rows = draw(st.integers(16, 24))
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=rows).round(6),
            "gaps": rng.integers(0, 5, rows).astype(float),
            "temp\u00e9rature": rng.integers(0, 9, rows) + 0.5,
        }
    )
    frame.loc[rng.random(rows) < draw(st.sampled_from([0.0, 0.2])), "gaps"] = np.nan
    for name in ("task", "word", "group"):
        frame[name] = draw(names(rows, words))
    if frame.word.dtype == object and draw(st.booleans()):
        frame.loc[rng.random(rows) < 0.2, "word"] = None
    scores = frame.x + pd.factorize(frame.task)[0] * 3 - pd.factorize(frame.word)[0] * 5
    frame = frame.assign(**draw(targets(kind, scores.to_numpy())))
    return frame[draw(st.permutations(list(frame.columns)))]
