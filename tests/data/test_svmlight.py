from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import dump_svmlight_file

from mtlrun.data.reading.formats.svmlight import read_svmlight
from mtlrun.data.reading.read import read_table
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.errors import DataError

TEXT = b"1 1:0.5 3:2 # comment\n-1 2:1\n"


def refused(content: bytes) -> str:
    with pytest.raises(DataError) as caught:
        read_svmlight(content, "t.svm")
    return str(caught.value)


def test_a_single_task_is_read():
    X, y, qid = read_svmlight(TEXT, "t.svm")
    assert X.toarray().tolist() == [[0.5, 0, 2], [0, 1, 0]]
    assert y.tolist() == [1, -1]
    assert qid.tolist() == [0, 0]


def test_the_index_base_may_be_zero():
    assert read_svmlight(TEXT, "t.svm", zero_based=True)[0].shape == (2, 4)


@given(arrays(np.float64, (4, 3), elements=st.floats(-1e6, 1e6)))
def test_written_files_are_read_exactly(X):
    stream = io.BytesIO()
    dump_svmlight_file(X, np.arange(4), stream, zero_based=False)
    again, y, _ = read_svmlight(stream.getvalue(), "t.svm")
    np.testing.assert_allclose(again.toarray(), X[:, : again.shape[1]], rtol=1e-14)
    assert not X[:, again.shape[1] :].any()
    assert y.tolist() == [0, 1, 2, 3]


BAD = {
    "target": (b"1 1:1\nx 1:1\n", 2),
    "nan target": (b"nan 1:1\n", 1),
    "value": (b"1 1:1\n1 1:2 2:abc\n1 1:1\n1 1:x\n", 2),
    "nan": (b"1 1:1\n" * 50 + b"1  2:nan\n" + b"1 1:1\n" * 50, 51),
    "no colon": (b"1 17\n", 1),
    "order": (b"1 2:1 1:1\n", 1),
    "index zero": (b"1 1:1\n1 0:1\n", 2),
    "encoding": (b"1 1:1\n1 \xe9:1\n", 2),
}


def test_the_first_unreadable_line_is_named():
    for case in BAD:
        content, line = BAD[case]
        assert refused(content).startswith(f"t.svm:{line}: ")


def test_files_without_rows_or_with_incomplete_tasks_are_rejected():
    assert "no rows" in refused(b"")
    assert "have a qid" in refused(b"1 qid:1 1:1\n1 1:1\n")


def test_a_sparse_table_without_features_is_refused_as_a_dense_one(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text("1 qid:1 1:2 2:1\n0 qid:1 1:3\n1 qid:2 2:5\n0 qid:2 1:1\n")
    table = read_table(path)
    with pytest.raises(DataError) as caught:
        make_dataset(table, Roles(drop=("x1", "x2")))
    assert "t.svm" in caught.value.message
    assert "--categorical" in caught.value.remedy
