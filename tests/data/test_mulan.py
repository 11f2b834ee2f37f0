"""Multi-label sets: labels come from the XML file or MEKA's convention, in the right
order, or are rejected.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from all_cases import all_cases
from scipy import sparse

from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.named_columns import read_labels
from mtlrun.errors import DataError

ARFF = (
    b"@relation 'bags: -C 2'\n@attribute L1 {0,1}\n@attribute m\\'usica {0,1}\n"
    b"@attribute w1 numeric\n@attribute w2 numeric\n@data\n{0 1,2 5}\n{1 1,3 2}\n{}\n"
)
XML = (
    b'<?xml version="1.0" encoding="utf-8"?>\n'
    b'<labels xmlns="http://mulan.sourceforge.net/labels">\n'
    b'<label name="m\\\'usica"></label>\n<label name="L1"></label>\n</labels>\n'
)
OPTIONS = {"arff": ["t.arff"], "xml": "t.xml"}


def test_labels_have_the_order_of_the_xml_file(own_set: Any) -> None:
    data = own_set.write(
        "mulan", {"t.arff.gz": gzip.compress(ARFF), "t.xml": XML}, OPTIONS, "binary"
    )()
    assert (data.tasks, data.features) == (["m'usica", "L1"], ["w1", "w2"])
    np.testing.assert_array_equal(data.y, [[-1, 1], [1, -1], [-1, -1]])
    assert sparse.issparse(data.X)
    np.testing.assert_array_equal(data.X.toarray(), [[5, 0], [0, 2], [0, 0]])
    assert data.shared
    assert data.task_id is None


@pytest.mark.parametrize(
    ("relation", "tasks"),
    [(b"-C 2", ["L1", "m'usica"]), (b"-C -1", ["w2"]), (b"-C 1", ["L1"])],
)
def test_the_convention_of_meka_is_supported(
    own_set: Any, relation: bytes, tasks: list[str]
) -> None:
    text = (
        ARFF.replace(b"-C 2", relation).replace(b"5}", b"1}").replace(b"3 2}", b"3 1}")
    )
    load = own_set.write("mulan", {"t.arff": text}, {"arff": ["t.arff"]}, "binary")
    assert load().tasks == tasks


def test_dense_rows_stay_dense_and_files_are_stacked(own_set: Any) -> None:
    head = ARFF[: ARFF.index(b"{0 1,2 5}")]
    files = {
        "a.arff": head + b"1,0,5,6\n",
        "b.arff": head + b"0,1,7,8\n0,0,1,1\n",
        "t.xml": XML,
    }
    options = {"arff": ["a.arff", "b.arff"], "xml": "t.xml", "split_rows": {"paper": 1}}
    data = own_set.write("mulan", files, options, "binary")()
    np.testing.assert_array_equal(data.X, [[5, 6], [7, 8], [1, 1]])
    ((train, test),) = data.splits["paper"]
    assert (train.tolist(), test.tolist()) == ([0], [1, 2])
    files["b.arff"] = ARFF
    np.testing.assert_array_equal(
        own_set.write("mulan", files, options, "binary")().X.toarray()[1], [5, 0]
    )


def test_missing_labels_are_masked(own_set: Any) -> None:
    files = {"t.arff": ARFF.replace(b"{0 1,2 5}", b"{0 ?,2 5}"), "t.xml": XML}
    load = own_set.write("mulan", files, OPTIONS, "binary")
    np.testing.assert_array_equal(load().y[0], [-1, np.nan])
    assert load().statistics()["missing"] == 1


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ({"t.xml": XML.replace(b'"L1"', b'"L9"')}, {}, ["t.arff: ", "'L9'"]),
        ({"t.arff": ARFF.replace(b"w1", b"L1")}, {}, ["t.arff: ", "2 columns", "'L1'"]),
        (
            {
                "t.arff": ARFF.replace(b"L1 {0,1}", b"L1 {0,2}").replace(
                    b"{0 1", b"{0 2"
                )
            },
            {},
            ["t.arff:2: ", "'L1'", "0 and 1"],
        ),
        (
            {"t.arff": ARFF.replace(b"-C 2", b"")},
            {"xml": None},
            ["t.arff: ", "-C n", "XML file"],
        ),
        (
            {"t.arff": ARFF.replace(b"-C 2", b"-C 4")},
            {"xml": None},
            ["t.arff: ", "-C n", "XML file"],
        ),
        (
            {"b.arff": ARFF.replace(b"w2", b"w3")},
            {"arff": ["t.arff", "b.arff"]},
            ["b.arff: ", "t.arff", "attributes"],
        ),
        ({"t.arff": ARFF.replace(b"{}", b"{0 1")}, {}, ["t.arff:9:4: "]),
    ],
)
def test_invalid_sets_are_rejected(
    own_set: Any,
    lacking: Any,
    files: dict[str, bytes],
    options: dict[str, Any],
    words: list[str],
) -> None:
    all_files = {"t.arff": ARFF, "t.xml": XML, **files}
    text = own_set.error("mulan", all_files, {**OPTIONS, **options}, task_type="binary")
    assert text.startswith(words[0])
    assert not lacking(text, *words)


def labels_of(folder: Path, text: bytes) -> list[str]:
    (folder / "t.xml").write_bytes(text)
    return read_labels(DataFile("t.xml", folder / "t.xml", "plain"))


def test_nested_labels_are_flattened(tmp_path: Path) -> None:
    text = (
        b'<labels><label name="a"><label name="b"/></label><label '
        b'name="&lt;c&gt;"/></labels>'
    )
    assert labels_of(tmp_path, text) == ["a", "b", "<c>"]


BOMB = (
    b'<!DOCTYPE labels [<!ENTITY a "aaaaaaaaaa"><!ENTITY b '
    b'"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n<labels><label name="&b;"/></labels>'
)


@all_cases(
    ("text", "words"),
    [
        (b"", ["t.xml:1:1: ", "XML"]),
        (b"<labels>\n<label name='a'>\n</labels>", ["t.xml:3:3: ", "mismatched tag"]),
        (b"<labels></labels>", ["t.xml: ", "empty"]),
        (b"<other/>", ["t.xml:1:1: ", "<labels>", "<label name=...>", "<other>"]),
        (b"<labels>\n <label/></labels>", ["t.xml:2:2: ", "<label name=...>"]),
        (
            b"<labels>\n<label name='a'/><label name='a'/></labels>",
            ["t.xml:2:18: ", "'a'", "twice"],
        ),
        # Where expat stops in the document type depends on its version.
        (BOMB, ["t.xml:1:", "DOCTYPE", "entities"]),
        (
            b'<!DOCTYPE x SYSTEM "file:///etc/hostname"><labels/>',
            ["t.xml:1:", "DOCTYPE", "entities"],
        ),
        (b"<labels><label name='caf\xe9'/></labels>", ["t.xml:1:25: ", "XML"]),
        (b"plain text", ["t.xml:1:1: ", "XML"]),
    ],
)
def test_invalid_xml_is_rejected(
    tmp_path: Path, lacking: Any, text: bytes, words: list[str]
) -> None:
    with pytest.raises(DataError) as caught:
        labels_of(tmp_path, text)
    message = str(caught.value).replace(f"{tmp_path}/", "")
    assert message.startswith(words[0])
    assert not lacking(message, *words)


WORDS = (
    b"@relation 'w: -C 1'\n@attribute y {0,1}\n@attribute c {red,green,blue}\n"
    b"@attribute n {3,5}\n@data\n1,green,3\n0,blue,5\n1,red,5\n"
)


def test_features_of_words_are_categories(own_set: Any) -> None:
    load = own_set.write("mulan", {"t.arff": WORDS}, {"arff": ["t.arff"]}, "binary")
    data = load()
    assert data.categories == {"c": ["red", "green", "blue"]}
    np.testing.assert_array_equal(data.X, [[1, 3], [2, 5], [0, 5]])


def test_files_with_words_in_another_order_are_rejected(own_set: Any) -> None:
    files = {"t.arff": WORDS, "u.arff": WORDS.replace(b"{red,green", b"{green,red")}
    load = own_set.write("mulan", files, {"arff": ["t.arff", "u.arff"]}, "binary")
    with pytest.raises(DataError, match=r"u\.arff"):
        load()
