from __future__ import annotations

import gzip
import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mtlrun.data.sets.images import TYPES, read_idx
from mtlrun.errors import DataError

CODES = {np.dtype(text).newbyteorder("=").name: code for code, text in TYPES.items()}


def packed(array: np.ndarray) -> bytes:
    """Write an array as IDX, following the specification of the format."""
    head = struct.pack(
        ">BBBB", 0, 0, CODES[array.dtype.name], array.ndim
    ) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def images(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size=(n, 3, 2), dtype=np.uint8)


@given(
    st.sampled_from(["uint8", "int8", "int16", "int32", "float32", "float64"]).flatmap(
        lambda t: arrays(
            t,
            array_shapes(max_dims=3, max_side=4),
            elements={"allow_nan": False} if "float" in t else None,
        )
    )
)
def test_written_files_are_read_exactly(array):
    again = read_idx(io.BytesIO(packed(array)), "f")
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)


GOOD = packed(images(4))
BAD = {
    "magic": (b"\x1f\x8b\x08\x00rest", "magic number 0x1f8b0800"),
    "type": (b"\0\0\x07\x01" + b"\0" * 8, "magic number 0x00000701"),
    "empty": (b"", "magic number"),
    "header": (GOOD[:9], "9 bytes where the header"),
    "cut": (GOOD[:-1], "39 bytes where the header (4 x 3 x 2) requires 40"),
    "appended": (GOOD + b"\n", "41 bytes where the header (4 x 3 x 2) requires 40"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_files_are_rejected(case):
    content, text = BAD[case]
    with pytest.raises(DataError) as caught:
        read_idx(io.BytesIO(content), "f")
    assert str(caught.value).startswith("f: ")
    assert text in str(caught.value)


def test_labels_in_place_of_images_are_rejected():
    with pytest.raises(DataError, match=r"^f: 1 dimension[^\0]*3[^\0]*swapped"):
        read_idx(io.BytesIO(packed(np.zeros(3, dtype=np.uint8))), "f", ndim=3)


LABELS = np.array([7, 1, 7, 9], dtype=np.uint8)
PARTS = {"parts": [["a", "la"], ["b", "lb"]]}


def files(**changed: bytes) -> dict[str, bytes]:
    content = {
        "a": GOOD,
        "la": packed(LABELS),
        "b": packed(images(2, 1)),
        "lb": packed(LABELS[:2]),
    }
    return {**content, **changed}


def test_two_files_are_stacked_row_by_row(own_set):
    data = own_set.write("idx", files(), PARTS)()
    assert data.tasks == ["1", "7", "9"]
    assert data.y.tolist() == [1, 0, 1, 2, 1, 0]
    np.testing.assert_array_equal(data.X[0], images(4)[0].ravel())
    assert data.X.dtype == np.float64
    ((train, test),) = data.splits["original"]
    assert train.tolist() == [0, 1, 2, 3]
    assert test.tolist() == [4, 5]


def test_images_are_scaled_and_get_tasks(own_set):
    load = own_set.write("idx", files(), PARTS)
    data = load(scale=255, tasks={"pairs": [[1, 7]]})
    assert data.tasks == ["1/7"]
    assert data.y.tolist() == [-1, 1, -1, -1, 1]
    np.testing.assert_array_equal(data.X[0], images(4)[0].ravel() / 255)
    assert data.splits["original"][0][1].tolist() == [3, 4]


def test_errors_of_a_data_set_are_located(own_set):
    assert (
        own_set.error("idx", files(la=packed(LABELS[:3])), PARTS)
        == "la: 3 labels for the 4 images of a"
    )
    wide = np.zeros((2, 3, 3), dtype=np.uint8)
    assert (
        own_set.error("idx", files(b=packed(wide)), PARTS)
        == "b: 9 pixels where a has 6"
    )


def test_a_truncated_gzip_file_is_rejected(own_set):
    content = files()
    content["a.gz"] = gzip.compress(content.pop("a"))[:-9]
    assert own_set.error("idx", content, PARTS).startswith(
        "a.gz: the file is truncated"
    )
