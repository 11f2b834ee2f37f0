"""Readers of corrupted files and arbitrary bytes: a clear error or a right result, in
bounded time and memory.
"""

from __future__ import annotations

import io

import numpy as np
import pytest
from fuzztargets import READERS, check, memory_file
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mutation import VALID, mutated

from mtlrun.data.reading import named_columns
from mtlrun.data.reading.formats import arff, mat, svmlight
from mtlrun.data.reading.formats import sequences as strings
from mtlrun.data.reading.formats.text import text_table
from mtlrun.data.reading.read import read_table_file
from mtlrun.data.sets import images


def quiet(examples: int, **more: object) -> settings:
    """Return Hypothesis settings; fewer than 1000 examples are the same in every run,
    so no change fails by chance.
    """
    always = {
        "deadline": None,
        "suppress_health_check": list(HealthCheck),
        "database": None,
    }
    return settings(
        max_examples=examples, derandomize=examples < 1000, **always, **more
    )


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize("name", READERS)
def test_corrupted_files_cause_clear_errors_or_right_results(
    name: str, fuzz_examples: int, pytestconfig: pytest.Config
) -> None:
    refused = 0
    n_examples = max(20, fuzz_examples)

    @quiet(n_examples, phases=[Phase.generate, Phase.shrink])
    @given(mutated(name))
    def try_one(content: bytes) -> None:
        nonlocal refused
        refused += check(name, content) is not None

    try_one()
    assert refused > n_examples / 10, (
        "too few files are refused: they are not spoiled enough"
    )


@pytest.mark.parametrize("name", READERS)
def test_arbitrary_bytes_cause_clear_errors(name: str, fuzz_examples: int) -> None:
    @quiet(max(10, fuzz_examples // 5))
    @given(st.binary(max_size=300))
    def try_one(content: bytes) -> None:
        check(name, content)

    try_one()


@pytest.mark.parametrize("name", READERS)
def test_valid_files_are_read(name: str, fuzz_examples: int) -> None:
    @quiet(max(10, fuzz_examples // 5))
    @given(VALID[name])
    def try_one(valid: tuple[bytes, object]) -> None:
        content, value = valid
        if name in READ_BACK:
            READ_BACK[name](content, value)
        else:
            assert check(name, content) is None

    try_one()


def _arff(content, found):
    names, X = found
    read = arff.read_arff(memory_file(content))
    assert [a.name for a in read.attributes] == names
    np.testing.assert_array_equal(
        read.X.toarray() if hasattr(read.X, "toarray") else read.X, X
    )


def _xml(content, found):
    assert named_columns.read_labels(memory_file(content)) == found


def _fasta(content, found):
    sequences, labels = strings.read_fasta(
        io.BytesIO(content), "f", label=r"label=(\S+)"
    )
    assert [s.decode() for s in sequences] == found[0]
    assert labels.tolist() == found[1]


def _idx(content, found):
    array = images.read_idx(io.BytesIO(content), "f")
    assert array.dtype == found.dtype.newbyteorder("=")
    np.testing.assert_array_equal(array, found)


def _csv(content, found):
    read = text_table(memory_file(content))
    np.testing.assert_array_equal(read.numbers(read.columns), found)


def _user_csv(content, found):
    read = read_table_file(memory_file(content), ".csv")
    assert read.frame["b"].tolist() == found


def _mat(content, found):
    read = mat.read_mat(io.BytesIO(content), "f", ("X", "Y"))
    for name, expected in zip("XY", found, strict=True):
        cells = read[name] if isinstance(read[name], list) else [read[name]]
        for cell, value in zip(cells, expected, strict=True):
            np.testing.assert_array_equal(cell, value)


def _svmlight(content, found):
    X, y, qid = svmlight.read_svmlight(content, "f")
    np.testing.assert_allclose(X.toarray(), found[0], rtol=1e-14)
    np.testing.assert_allclose(y, found[1], rtol=1e-14)
    assert qid.tolist() == list(range(len(y)))


READ_BACK = {
    "arff": _arff,
    "xml": _xml,
    "fasta": _fasta,
    "idx": _idx,
    "csv": _csv,
    "user-csv": _user_csv,
    "mat": _mat,
    "svmlight": _svmlight,
}
