from __future__ import annotations

import gzip

import numpy as np
import pytest

NAMES = ["dog", ["cat", "feline"]]


def test_files_are_stacked_and_classes_have_the_given_order(own_set):
    files = {"a.dat": b"1 2 cat \n3 4 dog \n", "b.dat": b"5 6 cat \n"}
    load = own_set.write(
        "uci",
        files,
        {
            "label": -1,
            "delimiter": None,
            "classes": NAMES,
            "split": "half",
            "features": ["u", "v"],
        },
    )
    data = load()
    assert data.tasks == ["dog", "feline"]
    assert data.y.tolist() == [1, 0, 1]
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.features == ["u", "v"]
    ((train, test),) = data.splits["half"]
    assert train.tolist() == [0, 1]
    assert test.tolist() == [2]


def test_headers_and_lines_before_them_are_skipped(own_set):
    data = own_set.write(
        "uci",
        {"a.csv": b"; made by hand\nu,v,kind\n1,2,x\n3,4,w\n"},
        {"label": 2, "header": True, "skip": 1},
    )()
    assert data.features == ["u", "v"]
    assert data.tasks == ["w", "x"]
    assert data.y.tolist() == [1, 0]


def test_tasks_are_created(own_set):
    data = own_set.write("uci", {"a.csv": b"1,a\n2,b\n3,a\n"}, {"label": 1})(
        tasks="one-vs-rest"
    )
    assert data.y.tolist() == [[1, -1], [-1, 1], [1, -1]]


REFUSED = {
    "not a number": (
        {"a.csv": b"1,2,cat\n1,x,dog\n"},
        "a.csv:2: column 'x2' contains 'x', which is",
    ),
    "ragged": (
        {"a.csv": b"1,2,cat\n1,dog\n"},
        "a.csv:2: 2 cells where the first line has 3\nEvery row needs",
    ),
    "class": (
        {"a.csv": b"1,2,cat\n1,2,cow\n"},
        "a.csv:2: the class 'cow' is none of dog, cat\nIs it the file",
    ),
    "no class": ({"a.csv": b"1,2,cat\n1,2,\n"}, "a.csv:2: the class is empty"),
    "width": (
        {"a.csv": b"1,2,cat\n", "b.csv": b"1,2,3,cat\n"},
        "b.csv: 4 columns where the first file has 3",
    ),
    "encoding": (
        {"a.csv": b"1,2,ch\xe4t\n"},
        "a.csv:1:7: byte 0xe4 is not UTF-8 text\nSave the file as UTF-8",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_files_are_rejected(own_set, case):
    files, text = REFUSED[case]
    assert own_set.error("uci", files, {"label": -1, "classes": NAMES}).startswith(text)


def test_a_wrong_number_of_feature_names_is_rejected(own_set):
    text = own_set.error(
        "uci", {"a.csv": b"1,2,cat\n"}, {"label": -1, "features": ["u"]}
    )
    assert text == "mine.yaml: 1 feature names for 2 columns"


def test_a_truncated_gzip_file_is_rejected(own_set):
    rows = b"".join(b"%d,%d,cat\n" % (k, k * k) for k in range(500))
    text = own_set.error("uci", {"a.csv.gz": gzip.compress(rows)[:-5]}, {"label": -1})
    assert text.startswith(
        "a.csv.gz: the file is truncated (the compressed data end too early)"
    )


SPLICE = b"EI,  FIRST-1,   ACGTN\nIE,SECOND,acgtr\n\nN, A-B, GGGGG\nN, A-C, GGGGG\n"


def test_splice_is_read(own_set):
    data = own_set.write("uci:splice", {"s.data": SPLICE})()
    assert data.X.tolist() == [b"ACGTN", b"ACGTR", b"GGGGG", b"GGGGG"]
    assert data.tasks == ["EI", "IE", "N"]
    assert data.y.tolist() == [0, 1, 2, 2]


def test_splice_may_be_reduced_to_distinct_rows_and_has_tasks(own_set):
    load = own_set.write("uci:splice", {"s.data": SPLICE})
    data = load(distinct=True, tasks="one-vs-one")
    assert data.notes == "1 repeated sequences dropped"
    assert data.tasks == ["EI/IE", "EI/N", "IE/N"]
    assert data.X.tolist() == [
        b"ACGTN",
        b"ACGTR",
        b"ACGTN",
        b"GGGGG",
        b"ACGTR",
        b"GGGGG",
    ]
    np.testing.assert_array_equal(data.source["row"], [0, 1, 0, 2, 1, 2])


BAD_SPLICE = {
    "letter": (
        b"EI, A, ACGTN\nIE,  B,  ACG.T\n",
        "s.data:2:13: '.' is not an IUPAC letter of DNA",
    ),
    "fields": (b"EI, A, ACGT\nEI, ACGT\n", "s.data:2: not a line of class"),
    "class": (b"EJ, A, ACGT\n", "s.data:1: not a line of class (EI, IE, N)"),
    "length": (
        b"EI, A, ACGT\nEI, A,  ACG\n",
        "s.data:2: a sequence of 3 bases where the first has 4",
    ),
    "empty": (b"\n", "s.data: no rows"),
}


@pytest.mark.parametrize("case", BAD_SPLICE)
def test_invalid_splice_files_are_rejected(own_set, case):
    content, text = BAD_SPLICE[case]
    assert own_set.error("uci:splice", {"s.data": content}).startswith(text)
