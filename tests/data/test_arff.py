"""ARFF: values are read exactly, quickly or one by one; errors name line and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from mtlrun.data.files import DataFile
from mtlrun.data.formats import arff
from mtlrun.data.formats.arff import ArffTable, read_arff
from mtlrun.errors import DataError

HEAD = (
    "@relation r\n@attribute a numeric\n@attribute b {0,1}\n@attribute c real\n@data\n"
)


def parse(folder: Path, text: str | bytes) -> ArffTable:
    path = folder / "t.arff"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_arff(DataFile("t.arff", path, "plain"))


def complaint(folder: Path, text: str | bytes) -> str:
    with pytest.raises(DataError) as caught:
        parse(folder, text)
    return caught.value.message.replace(f"{folder}/", "")


def dense(table: ArffTable) -> np.ndarray:
    return table.X.toarray() if sparse.issparse(table.X) else table.X


def write_rows(X: np.ndarray, *, as_sparse: bool) -> str:
    if not as_sparse:
        return "\n".join(",".join(repr(float(v)) for v in row) for row in X)
    return "\n".join(
        "{" + ",".join(f"{j} {float(row[j])!r}" for j in np.flatnonzero(row)) + "}"
        for row in X
    )


@given(
    X=arrays(
        float,
        st.tuples(st.integers(1, 8), st.integers(1, 5)),
        elements=st.one_of(st.just(0.0), st.floats(-1e300, 1e300, allow_nan=False)),
    ),
    as_sparse=st.booleans(),
    quick=st.booleans(),
)
def test_numbers_are_read_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    X: np.ndarray,
    as_sparse: bool,
    quick: bool,
) -> None:
    head = (
        "@relation r\n"
        + "".join(f"@attribute x{j} numeric\n" for j in range(X.shape[1]))
        + "@data\n"
    )
    folder = tmp_path_factory.mktemp("arff")
    with pytest.MonkeyPatch.context() as patch:
        if not quick:
            patch.setattr(arff, "_numbers", lambda *_: None)
        table = parse(folder, head + write_rows(X, as_sparse=as_sparse))
    assert sparse.issparse(table.X) == as_sparse
    np.testing.assert_array_equal(dense(table), X)


@pytest.mark.parametrize(
    "rows", ["1,0,2\n3,1,-4.5e1", "{0 1,2 2}\n{0 3,1 1,2 -45}", "{0 1,2 2}\n3,1,-45"]
)
def test_dense_sparse_and_mixed_rows_agree(tmp_path: Path, rows: str) -> None:
    np.testing.assert_array_equal(
        dense(parse(tmp_path, HEAD + rows)), [[1, 0, 2], [3, 1, -45]]
    )


def test_the_block_size_does_not_change_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((50, 3)) * (rng.random((50, 3)) < 0.5)
    X[:, 1] = X[:, 1] > 0
    for as_sparse in (False, True):
        text = HEAD + write_rows(X, as_sparse=as_sparse)
        in_one_block = dense(parse(tmp_path, text))
        monkeypatch.setattr(arff, "_BLOCK", 40)
        np.testing.assert_array_equal(dense(parse(tmp_path, text)), in_one_block)
        np.testing.assert_array_equal(in_one_block, X)
        monkeypatch.undo()


@pytest.mark.parametrize("quick", [True, False])
def test_blanks_comments_empty_rows_and_upper_case_are_accepted(
    tmp_path: Path, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not quick:
        monkeypatch.setattr(arff, "_numbers", lambda *_: None)
    text = (
        "\ufeff% made by hand\n\n@RELATION 'a b'\n@Attribute  a   NUMERIC\n"
        "% in between\n@ATTRIBUTE b\t{0, 1}\n@attribute c Integer\n@DATA  % none yet\n"
        "\n% first\n  { 0 1 , 2 5 }  \n{ }\n{}\n{1 1}\r\n"
    )
    table = parse(tmp_path, text)
    assert table.relation == "a b"
    np.testing.assert_array_equal(
        dense(table), [[1, 0, 5], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
    )
    assert table.X.nnz == 3


def test_names_may_contain_quotes_and_escapes(tmp_path: Path) -> None:
    text = (
        "@relation r\n@attribute TAG_m\\'usica {0,1}\n@attribute 'with space' numeric\n"
        "@attribute \"it's\" numeric\n@attribute 'don\\'t' numeric\n"
        "@attribute 50%,off numeric\n@data\n1,2,3,4,5\n"
    )
    table = parse(tmp_path, text)
    assert [a.name for a in table.attributes] == [
        "TAG_m'usica",
        "with space",
        "it's",
        "don't",
        "50%,off",
    ]
    assert table.attributes[0].raw == "TAG_m\\'usica"
    np.testing.assert_array_equal(table.X, [[1, 2, 3, 4, 5]])


def test_nominal_values_are_read_as_their_positions(tmp_path: Path) -> None:
    head = (
        "@relation r\n@attribute colour {red, 'light blue', \"green,ish\"}\n"
        "@attribute n {5,7}\n@data\n"
    )
    np.testing.assert_array_equal(
        parse(tmp_path, head + "'light blue',7\nred,5\n\"green,ish\", 5").X,
        [[1, 7], [0, 5], [2, 5]],
    )
    sparse_head = head.replace("{5,7}", "{0,7}")
    np.testing.assert_array_equal(
        dense(parse(tmp_path, sparse_head + "{0 'light blue',1 7}\n{}")),
        [[1, 7], [0, 0]],
    )


def test_missing_values_are_read_as_nan(tmp_path: Path) -> None:
    rows = "1,?,2\n?,1,?"
    np.testing.assert_array_equal(
        parse(tmp_path, HEAD + rows).X, [[1, np.nan, 2], [np.nan, 1, np.nan]]
    )
    X = parse(tmp_path, HEAD + "{0 ?, 1 1}").X
    np.testing.assert_array_equal(X.toarray(), [[np.nan, 1, 0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.arff: there is no @data line"),
        ("@relation r\n@attribute a numeric\n", "t.arff: there is no @data line"),
        ("@relation r\n@data\n1", "t.arff:2:1: @data comes before any @attribute"),
        (
            "hello\n",
            "t.arff:1:1: expected @relation, @attribute or @data, found 'hello'",
        ),
        (
            "@relation r\n@attribute a relational\n@data\n",
            "t.arff:2:14: attribute 'a' is of type 'relational'; wanted numeric, "
            "{nominal}, string or date",
        ),
        (
            "@relation r\n@attribute\n@data\n",
            "t.arff:2:1: cannot read the attribute '@attribute'",
        ),
        (
            "@relation r\n@attribute 'a numeric\n@data\n",
            't.arff:2:1: cannot read the attribute "@attribute \'a numeric"',
        ),
        (
            "@relation r\n@attribute a {0,,1}\n@data\n",
            "t.arff:2:17: cannot read a value at ',1'",
        ),
        (HEAD + "1,0,2\n\n1,0\n", "t.arff:8:1: the row has 2 values, expected 3"),
        (HEAD + "1,0,2,3\n", "t.arff:6:1: the row has 4 values, expected 3"),
        (
            HEAD + "1,0,x\n",
            "t.arff:6:5: the value of 'c' must be a finite number, not 'x'",
        ),
        (
            HEAD + "none,0,1\n",
            "t.arff:6:1: the value of 'a' must be a finite number, not 'none'",
        ),
        (
            HEAD + "1,0,1e999\n",
            "t.arff:6:5: the value of 'c' must be a finite number, not '1e999'",
        ),
        (HEAD + "1,2,3\n", "t.arff:6:3: '2' is not a value of 'b' (0, 1)"),
        (HEAD + "1,,3\n", "t.arff:6:3: cannot read a value at ',3'"),
        (HEAD + "1,0,\n", "t.arff:6:5: cannot read a value at ''"),
        (HEAD + "{0 1,3 1}\n", "t.arff:6:6: column 3: there are 3 columns"),
        (HEAD + "{0 1,0 2}\n", "t.arff:6:6: column 0: it is given twice"),
        (HEAD + "{0 1,1 3}\n", "t.arff:6:8: '3' is not a value of 'b' (0, 1)"),
        (HEAD + "{0 1,2}\n", "t.arff:6:6: expected 'column value', found '2'"),
        (
            HEAD + "{0 9 10,2}\n",
            "t.arff:6:2: expected 'column value', found '0 9 10,2'",
        ),
        (
            HEAD + "{0 -,2 1}\n",
            "t.arff:6:4: the value of 'a' must be a finite number, not '-'",
        ),
        (
            HEAD + "{0 1}\n{0 1",
            "t.arff:7:4: the row does not end with '}' (truncated, or an instance "
            "weight)",
        ),
        (HEAD + "{0 1}, {5}", None),
        (
            HEAD.replace("{0,1}", "{1,0}") + "{0 1}\n",
            "t.arff:3:1: rows are sparse, so an omitted 'b' would mean '1', not zero",
        ),
        (HEAD.encode() + b"1,0,\xff\n", "t.arff:6:5: byte 0xff is not UTF-8 text"),
    ],
)
def test_errors_are_located(
    tmp_path: Path, text: str | bytes, message: str | None
) -> None:
    actual = complaint(tmp_path, text)
    assert actual == message if message else actual.startswith("t.arff:6:")


def test_unsorted_sparse_rows_are_sorted(tmp_path: Path) -> None:
    X = parse(tmp_path, HEAD + "{2 7,0 1}").X
    assert X.has_sorted_indices
    np.testing.assert_array_equal(X.toarray(), [[1, 0, 7]])


def test_other_encodings_are_recognized(tmp_path: Path) -> None:
    text = "@relation r\n@attribute café numeric\n@data\n1\n".encode("latin-1")
    assert "not UTF-8 text" in complaint(tmp_path, text)


def test_a_file_without_rows_is_rejected(tmp_path: Path) -> None:
    assert parse(tmp_path, HEAD).X.shape == (0, 3)


def test_a_card_of_the_reader_table_names_target_and_tasks(own_set: Any) -> None:
    rows = b"".join(
        b"%d,%s,%d,%s\n"
        % (k, (b"south", b"north")[k % 2], 5 + k, (b"cat", b"dog")[k % 3 > 1])
        for k in range(8)
    )
    head = (
        b"@relation r\n@attribute x numeric\n@attribute school {north,south}\n"
        b"@attribute mark numeric\n@attribute kind {dog,cat}\n@data\n"
    )
    options = {"data": "t.arff", "targets": ["mark"], "task": "school"}
    data = own_set.write(
        "table", {"t.arff": head + rows}, options, "regression", "ragged"
    )()
    assert (data.tasks, data.features) == (["north", "south"], ["x", "kind"])
    np.testing.assert_array_equal(data.task_id, 1 - np.arange(8) % 2)
    np.testing.assert_array_equal(data.y, np.arange(8) + 5)
    assert data.categories == {"kind": ["cat", "dog"]}


def test_a_quoted_question_mark_is_the_value_of_that_name(tmp_path: Path) -> None:
    """Unquoted, or if no value has that name, it is a missing value."""
    head = (
        "@relation r\n@attribute c {'?',a}\n@attribute d {a,b}\n@attribute x numeric\n"
        "@data\n"
    )
    dense_rows = dense(parse(tmp_path, head + "'?',a,1\n?,'?','?'\na,b,?\n"))
    np.testing.assert_array_equal(
        dense_rows, [[0, 0, 1], [np.nan, np.nan, np.nan], [1, 1, np.nan]]
    )
    sparse_rows = dense(
        parse(tmp_path, head + "{0 '?', 2 1}\n{0 ?, 1 '?', 2 '?'}\n{0 a, 1 b, 2 ?}\n")
    )
    np.testing.assert_array_equal(sparse_rows, dense_rows)
