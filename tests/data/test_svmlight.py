from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import dump_svmlight_file

from mtlrun.data.formats.svmlight import read_svmlight
from mtlrun.errors import DataError

TEXT = b"1 1:0.5 3:2 # comment\n-1 2:1\n"


def refused(content: bytes, **options) -> str:
    with pytest.raises(DataError) as caught:
        read_svmlight(content, "t.svm", **options)
    return str(caught.value)


def test_one_task():
    X, y, qid = read_svmlight(TEXT, "t.svm")
    assert X.toarray().tolist() == [[0.5, 0, 2], [0, 1, 0]]
    assert y.tolist() == [1, -1]
    assert qid.tolist() == [0, 0]


def test_width_and_base():
    assert read_svmlight(TEXT, "t.svm", n_features=7)[0].shape == (2, 7)
    assert read_svmlight(TEXT, "t.svm", zero_based=True)[0].shape == (2, 4)


@given(arrays(np.float64, (4, 3), elements=st.floats(-1e6, 1e6)))
def test_what_is_written_is_read(X):
    stream = io.BytesIO()
    dump_svmlight_file(X, np.arange(4), stream, zero_based=False)
    again, y, _ = read_svmlight(stream.getvalue(), "t.svm", n_features=3)
    np.testing.assert_allclose(again.toarray(), X, rtol=1e-14)
    assert y.tolist() == [0, 1, 2, 3]


GOLDEN = {
    "target": (b"1 1:1\nx 1:1\n", "t.svm:2:1: the target 'x' is not a finite number"),
    "nan target": (b"nan 1:1\n", "t.svm:1:1: the target 'nan' is not a finite number"),
    "value": (b"1 1:1\n1 1:2 2:abc\n", "t.svm:2:7: '2:abc' is not a pair index:value with a finite value"),
    "nan": (b"1 1:1\n1  2:nan\n", "t.svm:2:4: '2:nan' is not a pair index:value with a finite value"),
    "no colon": (b"1 17\n", "t.svm:1:3: '17' is not a pair index:value with a finite value"),
    "order": (
        b"1 2:1 1:1\n",
        "t.svm:1:7: the index 1 is not larger than the one before\nSort the indices within every row.",
    ),
    "index zero": (b"1 0:1\n", "t.svm:1:3: the index 0 is below 1\nSet zero_based if the first is 0."),
    "encoding": (b"1 1:1\n1 \xe9:1\n", "t.svm:2:3: byte 0xe9 is not UTF-8 text"),
    "empty": (b"", "t.svm: no rows\nCheck that the file was saved completely."),
    "some qid": (b"1 qid:1 1:1\n1 1:1\n", "t.svm: 1 of 2 rows have a qid\nGive every row its qid, or none."),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_bad_files(case):
    content, text = GOLDEN[case]
    assert refused(content) == text


def test_too_few_features():
    assert refused(TEXT, n_features=2) == "t.svm:1:9: the index 3 is beyond n_features=2"


def test_tasks_by_qid(own_set):
    content = b"1 qid:7 1:1\n0 qid:3 2:1\n1 qid:7 1:2\n"
    data = own_set.write("svmlight", {"t.svm": content}, {"dense": True}, "binary", "ragged")()
    assert data.tasks == ["3", "7"]
    assert data.task_id.tolist() == [1, 0, 1]
    assert data.y.tolist() == [1, -1, 1]
    assert data.X.tolist() == [[1, 0], [0, 1], [2, 0]]


def test_classes_and_numbers(own_set):
    content = b"3 1:1\n5 1:2\n3 1:3\n"
    classes = own_set.write("svmlight", {"t.svm": content})()
    assert classes.tasks == ["3", "5"]
    assert classes.y.tolist() == [0, 1, 0]
    assert own_set.write("svmlight", {"t.svm": content}, None, "regression")().y.tolist() == [3, 5, 3]
    assert own_set.error("svmlight", {"t.svm": content}, None, task_type="binary") == (
        "t.svm: column 'target': binary labels must be 0/1 or -1/+1, found 3, 5\nRecode them first."
    )


def test_a_file_that_the_card_does_not_have(own_set):
    assert own_set.error("svmlight", {"t.svm": TEXT}, {"file": "u.svm"}) == (
        "unknown file of mine 'u.svm'\nDid you mean 't.svm'?"
    )
