"""ARFF: values are read exactly, quickly or one by one; errors name line and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from all_cases import all_cases
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import mtlrun
from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.formats.arff import ArffTable, read_arff
from mtlrun.data.reading.names import MISSING, Names
from mtlrun.data.reading.read import read_table
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import Schema, read_rows
from mtlrun.errors import DataError
from mtlrun.utils.text import normalized

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
    rows = write_rows(X, as_sparse=as_sparse)
    if not quick:
        # Rows with words are read one by one.
        head = head.replace("@data", "@attribute word {u,v}\n@data")
        if not as_sparse:
            rows = "".join(f"{row},u\n" for row in rows.split("\n"))
    table = parse(folder, head + rows)
    assert sparse.issparse(table.X) == as_sparse
    np.testing.assert_array_equal(dense(table)[:, : X.shape[1]], X)


@pytest.mark.parametrize(
    "rows", ["1,0,2\n3,1,-4.5e1", "{0 1,2 2}\n{0 3,1 1,2 -45}", "{0 1,2 2}\n3,1,-45"]
)
def test_dense_sparse_and_mixed_rows_agree(tmp_path: Path, rows: str) -> None:
    np.testing.assert_array_equal(
        dense(parse(tmp_path, HEAD + rows)), [[1, 0, 2], [3, 1, -45]]
    )


@pytest.mark.parametrize("as_sparse", [False, True])
def test_files_of_several_megabytes_lose_no_row(
    tmp_path: Path, as_sparse: bool
) -> None:
    period = np.array([[0, 1, 1.25], [7, 0, 0], [0, 0, 0.5]])
    n_periods = 40_000  # More than the million characters of a block.
    rows = write_rows(period, as_sparse=as_sparse) + "\n"
    X = dense(parse(tmp_path, HEAD + rows * n_periods))
    np.testing.assert_array_equal(X, np.tile(period, (n_periods, 1)))


@pytest.mark.parametrize("word", ["", "@attribute word {u,v}\n"])
def test_blanks_comments_empty_rows_and_upper_case_are_accepted(
    tmp_path: Path, word: str
) -> None:
    text = (
        "\ufeff% made by hand\n\n@RELATION 'a b'\n@Attribute  a   NUMERIC\n"
        "% in between\n@ATTRIBUTE b\t{0, 1}\n@attribute c Integer\n"
        f"{word}@DATA  % none yet\n"
        "\n% first\n  { 0 1 , 2 5 }  \n{ }\n{}\n{1 1}\r\n"
    )
    table = parse(tmp_path, text)
    assert table.relation == "a b"
    np.testing.assert_array_equal(
        dense(table)[:, :3], [[1, 0, 5], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
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


@all_cases(
    ("text", "words"),
    [
        ("", ["t.arff: ", "@data"]),
        ("@relation r\n@attribute a numeric\n", ["t.arff: ", "@data"]),
        ("@relation r\n@data\n1", ["t.arff:2:1: ", "@attribute"]),
        ("hello\n", ["t.arff:1:1: ", "@relation", "'hello'"]),
        (
            "@relation r\n@attribute a relational\n@data\n",
            ["t.arff:2:14: ", "'a'", "'relational'", "numeric", "{nominal}", "date"],
        ),
        ("@relation r\n@attribute\n@data\n", ["t.arff:2:1: ", "'@attribute'"]),
        ("@relation r\n@attribute 'a numeric\n@data\n", ["t.arff:2:1: ", "'a numeric"]),
        ("@relation r\n@attribute a {0,,1}\n@data\n", ["t.arff:2:17: ", "',1'"]),
        (HEAD + "1,0,2\n\n1,0\n", ["t.arff:8:1: ", "2 values", "3"]),
        (HEAD + "1,0,2,3\n", ["t.arff:6:1: ", "4 values", "3"]),
        (HEAD + "1,0,x\n", ["t.arff:6:5: ", "'c'", "finite number", "'x'"]),
        (HEAD + "none,0,1\n", ["t.arff:6:1: ", "'a'", "finite number", "'none'"]),
        (HEAD + "1,0,1e999\n", ["t.arff:6:5: ", "'c'", "finite number", "'1e999'"]),
        (HEAD + "1,2,3\n", ["t.arff:6:3: ", "'2'", "'b' (0, 1)"]),
        (HEAD + "1,,3\n", ["t.arff:6:3: ", "',3'"]),
        (HEAD + "1,0,\n", ["t.arff:6:5: ", "''"]),
        (HEAD + "{0 1,3 1}\n", ["t.arff:6:6: ", "column 3", "3 columns"]),
        (HEAD + "{0 1,0 2}\n", ["t.arff:6:6: ", "column 0", "twice"]),
        (HEAD + "{0 1,1 3}\n", ["t.arff:6:8: ", "'3'", "'b' (0, 1)"]),
        (HEAD + "{0 1,2}\n", ["t.arff:6:6: ", "'column value'", "'2'"]),
        (HEAD + "{0 9 10,2}\n", ["t.arff:6:6: ", "'column value'", "'10,2'"]),
        (HEAD + "{0 -,2 1}\n", ["t.arff:6:4: ", "'a'", "finite number", "'-'"]),
        (HEAD + "{0 1}\n{0 1", ["t.arff:7:4: ", "'}'"]),
        (HEAD + "{0 1}, {5}", ["t.arff:6:"]),
        (
            HEAD.replace("{0,1}", "{1,0}") + "{0 1}\n",
            ["t.arff:3:1: ", "sparse", "'b'", "'1'"],
        ),
        (HEAD.encode() + b"1,0,\xff\n", ["t.arff:6:5: ", "0xff", "UTF-8"]),
    ],
)
def test_errors_are_located(
    tmp_path: Path, lacking: Any, text: str | bytes, words: list[str]
) -> None:
    message = complaint(tmp_path, text)
    assert message.startswith(words[0])
    assert not lacking(message, *words)


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


# ------------------------------------ declared values, comments and separators

MARKED_HEAD = (
    "@relation r\n@attribute x numeric\n@attribute c {NA, x, '?'}\n"
    "@attribute g {a, b}\n@attribute y numeric\n@data\n"
)
MARKED_VALUES = ["NA", "x", "'?'"]


def marked_rows(n_rows: int) -> str:
    """Return rows whose target depends on a value that looks missing elsewhere."""
    lines = []
    for i in range(n_rows):
        value = MARKED_VALUES[i % 3]
        lines.append(f"{i % 7},{value},{'ab'[i // 3 % 2]},{i % 7 + 10 * (i % 3)}\n")
    return "".join(lines)


def test_declared_values_are_values_whatever_they_look_like(tmp_path: Path) -> None:
    rows = "1,NA,a,1\n2,'?',a,1\n3,?,a,1\n4,x,a,1\n"
    (tmp_path / "t.arff").write_text(MARKED_HEAD + rows)
    table = read_table(tmp_path / "t.arff")
    column = table.column("c")
    assert column.isna().tolist() == [False, False, True, False]
    assert column.dropna().tolist() == ["NA", "?", "x"]
    assert table.notes == []


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the comparison of one method on rows with values that look missing."""
    path = tmp_path_factory.mktemp("marked") / "t.arff"
    path.write_text(MARKED_HEAD + marked_rows(84))
    return mtlrun.compare(
        path,
        target="y",
        task="g",
        methods=["IndependentRidge"],
        splits=2,
        repeats=1,
        folds=2,
    )


@pytest.mark.parametrize("suffix", ["arff", "csv"])
def test_a_model_predicts_with_declared_values_that_look_missing(
    tmp_path: Path, comparison: Any, suffix: str
) -> None:
    new = {
        "arff": MARKED_HEAD + "1,NA,a,?\n1,x,a,?\n1,'?',a,?\n",
        "csv": "x,c,g\n1,NA,a\n1,x,a\n1,?,a\n",
    }
    path = tmp_path / f"new.{suffix}"
    path.write_text(new[suffix])
    predicted = comparison.predict(read_table(path, like=comparison.model.schema))
    np.testing.assert_allclose(predicted, [1, 11, 21], atol=1)


def test_a_declared_value_that_training_rows_lack_is_a_new_word(tmp_path: Path) -> None:
    schema = Schema(1, ("c",), table=True, categories={"c": ["x"]})
    (tmp_path / "t.arff").write_text(MARKED_HEAD + "1,NA,a,1\n1,?,a,1\n")
    rows = read_rows(tmp_path / "t.arff", schema)
    np.testing.assert_array_equal(rows.X[:, 0], [1, np.nan])
    assert rows.new_words == {"c": {"NA": 1}}


def test_test_rows_in_a_csv_know_the_values_that_the_table_declares(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.arff").write_text(MARKED_HEAD + "1,x,a,1\n2,x,b,1\n")
    (tmp_path / "t.csv").write_text("x,c,g,y\n1,NA,a,2\n1,,a,2\n")
    table = read_table(tmp_path / "t.arff")
    test = read_table(tmp_path / "t.csv", like=table)
    assert test.column("c").isna().tolist() == [False, True]


def test_a_declared_class_may_look_missing(tmp_path: Path) -> None:
    head = MARKED_HEAD.replace("@attribute y numeric", "@attribute y {NA,'?'}")
    rows = "".join(
        f"{i},x,{'ab'[i % 2]},{('NA', chr(39) + '?' + chr(39))[i // 2 % 2]}\n"
        for i in range(24)
    )
    (tmp_path / "t.arff").write_text(head + rows + "1,x,a,?\n")
    roles = Roles(targets="y", task="g")
    data = make_dataset(read_table(tmp_path / "t.arff"), roles)
    assert data.labels == {"a": ["?", "NA"], "b": ["?", "NA"]}
    assert data.n_samples == 24


def test_declared_values_may_mix_numbers_and_words(tmp_path: Path) -> None:
    head = MARKED_HEAD.replace("{NA, x, '?'}", "{1, 2, NA}")
    rows = "".join(f"{i % 5},{'12N'[i % 3]},{'ab'[i % 2]},{i % 5}\n" for i in range(24))
    (tmp_path / "t.arff").write_text(head + rows.replace("N", "NA"))
    roles = Roles(targets="y", task="g")
    data = make_dataset(read_table(tmp_path / "t.arff"), roles)
    assert data.categories == {"c": ["1", "2", "NA"]}


@pytest.mark.parametrize(
    "comment", [" % b, 'c", "% x", "\t%{north,south}", " %", "%%%y"]
)
def test_comments_may_stand_behind_declarations_and_rows(
    tmp_path: Path, comment: str
) -> None:
    lines = [
        "@relation r",
        "@attribute a numeric",
        "@attribute b {no, '50% off', '7%'}",
        "@attribute 'c % d' real",
        "@data",
        "1,'50% off',2",
        "2,'7%',-3",
        "{0 3,1 '50% off'}",
    ]
    plain = parse(tmp_path, "\n".join(lines))
    table = parse(tmp_path, "\n".join(line + comment for line in lines))
    assert [a.name for a in table.attributes] == ["a", "b", "c % d"]
    assert table.attributes[1].codes == plain.attributes[1].codes
    np.testing.assert_array_equal(dense(table), dense(plain))
    np.testing.assert_array_equal(dense(table), [[1, 1, 2], [2, 2, -3], [3, 1, 0]])


@pytest.mark.parametrize("separator", [" ", "\t", "  \t ", " , ", "\t,", ", "])
def test_blanks_separate_values_as_commas_do(tmp_path: Path, separator: str) -> None:
    declared = separator.join(["no", "'light blue'", '"it\'s"'])
    lines = [
        "@relation r",
        "@attribute a numeric",
        f"@attribute b {{{declared}}}",
        "@attribute c real",
        "@data",
        separator.join(["1", "'light blue'", "2"]),
        separator.join(["?", '"it\'s"', "-3e1"]),
        "{" + separator.join(["0\t4", '1 "it\'s"']) + "}",
    ]
    table = parse(tmp_path, "\n".join(lines))
    assert list(table.attributes[1].codes or {}) == ["no", "light blue", "it's"]
    np.testing.assert_array_equal(
        dense(table), [[1, 1, 2], [np.nan, 2, -30], [4, 2, 0]]
    )


def test_a_row_with_a_gap_is_not_read_as_a_shorter_one(tmp_path: Path) -> None:
    for row in ("1,,0 2", "1 , , 0,2", ",1 0,2", "1 0 50%"):
        assert complaint(tmp_path, HEAD + row).startswith("t.arff:6:")


#: Characters and texts that mean something in an ARFF file.
AWKWARD = st.one_of(
    st.sampled_from(MISSING[1:]),
    st.text(st.sampled_from("ab 5%{},'\"\\?\t"), min_size=1, max_size=6),
).filter(lambda text: normalized(text) != "")


@given(
    values=st.lists(AWKWARD, min_size=1, max_size=6, unique_by=normalized),
    separator=st.sampled_from([",", " ", "\t", " , "]),
    comment=st.sampled_from(["", " % it's", "%{x}"]),
)
def test_quoted_values_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[str],
    separator: str,
    comment: str,
) -> None:
    quoted = []
    for value in values:
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t")
        quoted.append(f"'{escaped}'")
    lines = [
        "@relation r",
        f"@attribute c {{{separator.join(quoted)}}}",
        "@attribute x string",
        "@data",
        *[f"{text}{separator}{text}" for text in quoted],
    ]
    path = tmp_path_factory.mktemp("arff") / "t.arff"
    path.write_text("\n".join(line + comment for line in lines))
    table = read_table(path)
    expected = [normalized(value) for value in values]
    assert Names.of(table.text("c").astype(str)).names == expected


def test_sparse_rows_have_the_order_of_the_features_of_a_dense_model(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.arff").write_text(
        "@relation r\n@attribute a numeric\n@attribute word {u,v}\n"
        "@attribute b numeric\n@data\n{0 1,1 v,2 3}\n{2 5}\n"
    )
    schema = Schema(
        n_features=3,
        features=("b", "word", "a"),
        table=True,
        categories={"word": ["u", "v"]},
    )
    rows = read_rows(tmp_path / "t.arff", schema)
    assert rows.X.toarray().tolist() == [[3, 1, 1], [5, 0, 0]]
