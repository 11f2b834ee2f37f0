from __future__ import annotations

import bz2
import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.data.reading.formats.sequences import (
    IUPAC,
    drop_repeats,
    iterate_fasta,
    read_fasta,
)
from mtlrun.errors import DataError


def parse(content: bytes, **options):
    return read_fasta(io.BytesIO(content), "t.fa", **options)


def refused(content: bytes, **options) -> str:
    with pytest.raises(DataError) as caught:
        parse(content, **options)
    return str(caught.value)


def test_sequences_may_span_several_lines():
    sequences, labels = parse(b"\n>one\nACG\nTAC\n\n>two\r\nGGG\r\nTTT\r\n")
    assert sequences.tolist() == [b"ACGTAC", b"GGGTTT"]
    assert sequences.dtype == "S6"
    assert labels is None


def test_letters_are_normalized():
    sequences, _ = parse(b">x\nacgtun\n>y\nRYSWKM\n")
    assert sequences.tolist() == [b"ACGTTN", b"RYSWKM"]


def test_a_window_of_each_sequence_is_read():
    assert parse(b">x\nAACCGGTT\n>y\nTTGGCCAA\n", window=(2, 6))[0].tolist() == [
        b"CCGG",
        b"GGCC",
    ]


def test_labels_are_read_from_headers():
    content = b"> chr=1, label=-1\nAC\n> label=1\nGT\n"
    sequences, labels = parse(content, label="label=([+-]?1)")
    assert sequences.tolist() == [b"AC", b"GT"]
    assert labels.tolist() == [-1, 1]


def test_records_are_read_one_at_a_time():
    def lines():
        yield b">a\n"
        yield b"AC\n"
        yield b">b\n"
        raise AssertionError("read ahead of the first record")

    records = iterate_fasta(lines(), "t.fa")
    assert next(records) == (b"a", b"AC", 1)


letters = st.text(IUPAC.decode().replace("U", ""), min_size=1, max_size=12)


@given(st.lists(letters, min_size=1, max_size=8), st.integers(1, 5))
def test_written_files_are_read_exactly(sequences, width):
    length = min(map(len, sequences))
    sequences = [s[:length].encode() for s in sequences]
    text = b""
    for k, s in enumerate(sequences):
        text += (
            b">%d\n" % k
            + b"\n".join(s[i : i + width] for i in range(0, length, width))
            + b"\n"
        )
    assert parse(text)[0].tolist() == sequences


GOLDEN = {
    "digit": (
        b">a\nACGT\n>b\nAC1T\n",
        "t.fa:4:3: '1' is not an IUPAC letter of DNA\nAllowed: ACGTURYSWKMBDHVN "
        "in upper or lower case; gaps and stops are not.",
    ),
    "gap": (
        b">a\nAC\nG-\n",
        "t.fa:3:2: '-' is not an IUPAC letter of DNA\nAllowed: ACGTURYSWKMBDHVN "
        "in upper or lower case; gaps and stops are not.",
    ),
    "wrong encoding": (
        b">a\nAC\xe9T\n",
        "t.fa:2:3: byte 0xe9 is not an IUPAC letter of DNA\n"
        "Allowed: ACGTURYSWKMBDHVN in upper or lower case; gaps and stops are not.",
    ),
    "unequal": (
        b">a\nACGT\n>b\nAC\nG\n",
        "t.fa:4: a sequence of 3 bases where the first has 4\n"
        "All sequences must have the same length; cut windows of equal length first.",
    ),
    "no header": (
        b"ACGT\n>a\nACGT\n",
        "t.fa:1:1: sequence before the first header\nA FASTA record starts with '>'.",
    ),
    "cut": (
        b">a\nACGT\n>b\n",
        "t.fa:3: a header without a sequence\n"
        "The file may be truncated; fetch it again.",
    ),
    "hole": (
        b">a\n>b\nACGT\n",
        "t.fa:1: a header without a sequence\n"
        "The file may be truncated; fetch it again.",
    ),
    "empty": (b"\n", "t.fa: contains no FASTA record\nA FASTA record starts with '>'."),
}


def test_invalid_files_are_rejected():
    for case in GOLDEN:
        content, text = GOLDEN[case]
        assert refused(content) == text


def test_invalid_windows_and_labels_are_rejected():
    assert refused(b">a\nACGT\n", window=(2, 6)) == (
        "t.fa: the window 2:6 does not fit into sequences of 4 bases"
    )
    remedy = "The option 'label' of the card says how labels are written."
    assert (
        refused(b">label=1\nAC\n>a\nAC\n", label="label=(.*)")
        == f"t.fa:3: the header has no label\n{remedy}"
    )
    assert (
        refused(b">label=2\nAC\n", label="label=(.*)")
        == f"t.fa:1: the label '2' is not +1 or -1\n{remedy}"
    )


def test_drop_repeats_keeps_the_first_occurrence_per_label():
    strings = np.array([b"B", b"A", b"B", b"C", b"A"])
    assert drop_repeats(strings, np.ones(5)).tolist() == [0, 1, 3]
    assert drop_repeats(strings, np.array([1, 1, -1, 1, 1])).tolist() == [0, 1, 2, 3]


FILES = {
    "p1.fa": b">1\nAAAA\n>2\nACGT\n>3\nAAAA\n",
    "n1.fa": b">1\nAAAA\n>2\nTTTT\n",
    "p2.txt": b"> seq 1\nGGACGTGG\n",
    "n2.txt": b"> seq 1\nGGTTTTGG\n> seq 2\nCCTTTTCC\n",
}
TASKS = [
    {"name": "one", "positive": ["p1.fa"], "negative": ["n1.fa"]},
    {"name": "two", "positive": ["p2.txt"], "negative": ["n2.txt"], "window": [2, 6]},
]
OPTIONS = {"tasks": TASKS}
KIND = {"task_type": "binary", "design": "ragged"}


def test_organisms_are_tasks(own_set):
    load = own_set.write("fasta", FILES, OPTIONS, **KIND)
    data = load(distinct=False)
    assert data.X.tolist() == [
        b"AAAA",
        b"ACGT",
        b"AAAA",
        b"AAAA",
        b"TTTT",
        b"ACGT",
        b"TTTT",
        b"TTTT",
    ]
    assert data.X.dtype == "S4"
    assert data.y.tolist() == [1, 1, 1, -1, -1, 1, -1, -1]
    assert data.task_id.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert data.tasks == ["one", "two"]
    assert data.statistics() == {
        "n": 8,
        "d": 4,
        "tasks": 2,
        "task_min": 3,
        "task_max": 5,
        "positives": 4,
    }


def test_repeats_are_dropped_within_task_and_label(own_set):
    data = own_set.write("fasta", FILES, OPTIONS, **KIND)()
    assert data.X.tolist() == [b"AAAA", b"ACGT", b"AAAA", b"TTTT", b"ACGT", b"TTTT"]
    assert data.y.tolist() == [1, 1, -1, -1, 1, -1]
    assert (
        data.notes
        == "one: 1 repeated sequences dropped; two: 1 repeated sequences dropped"
    )


def test_compressed_files_and_header_labels_are_read(own_set):
    files = {"a.fa.bz2": bz2.compress(b">label=1\nAC\n>label=-1\nGG\n")}
    options = {"tasks": [{"name": "all", "labelled": ["a.fa"]}], "label": "label=(.+)"}
    data = own_set.write("fasta", files, options, **KIND)()
    assert data.y.tolist() == [1, -1]


def test_errors_of_a_data_set_are_located(own_set):
    same_windows = [TASKS[0], {**TASKS[1], "window": [0, 8]}]
    assert own_set.error("fasta", FILES, {"tasks": same_windows}, **KIND) == (
        "data set mine: its files have sequences of 4, 8 bases\n"
        "Give windows of the same length."
    )
    mixed = [{"name": "both", "positive": ["p1.fa"], "negative": ["n2.txt"]}]
    assert own_set.error("fasta", FILES, {"tasks": mixed}, **KIND) == (
        "data set mine, task both: its files have sequences of 4, 8 bases\n"
        "Give windows of the same length."
    )
    assert own_set.error("fasta", FILES, {"tasks": [{"name": "x"}]}, **KIND) == (
        "mine.yaml: every task needs a name and files under positive, negative, "
        "labelled"
    )
    assert own_set.error(
        "fasta", FILES, {"tasks": [{"name": "x", "positve": []}]}, **KIND
    ) == ("unknown key of a task 'positve'\nDid you mean 'positive'?")
    wrong = [{"name": "one", "positive": ["p1.fa"], "negative": ["absent.fa"]}]
    assert own_set.error("fasta", FILES, {"tasks": wrong}, **KIND) == (
        "unknown file of mine 'absent.fa'\nKnown: n1.fa, n2.txt, p1.fa, p2.txt."
    )


def test_a_truncated_gzip_file_is_rejected(own_set):
    generator = np.random.default_rng(0)
    rows = b"".join(
        b">s\n" + bytes(generator.choice(list(b"ACGT"), 50)) + b"\n" for _ in range(200)
    )
    files = {"p1.fa.gz": gzip.compress(rows)[:-900], "n1.fa": rows}
    text = own_set.error("fasta", files, {"tasks": TASKS[:1]}, **KIND)
    assert text.startswith(
        "p1.fa.gz: the file is truncated (the compressed data end too early)"
    )
