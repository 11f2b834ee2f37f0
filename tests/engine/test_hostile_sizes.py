"""Oversized files and paths are rejected before they are read or created."""

import errno
import os
from pathlib import Path

import pytest

from mtlrun.data.reading.files import DataFile, Snapshot, digest
from mtlrun.engine.store import refuse_file
from mtlrun.errors import DataError, UserError
from mtlrun.model.files import read_if_it_fits
from mtlrun.utils.io import write_atomic


def test_a_sparse_model_larger_than_the_memory_is_not_read(tmp_path):
    file = tmp_path / "model.skops"
    file.touch()
    os.truncate(file, 1 << 41)
    with pytest.raises(DataError, match=r"model\.skops"):
        read_if_it_fits(file)


def test_a_sparse_table_larger_than_the_memory_is_not_read(tmp_path):
    file = tmp_path / "table.csv"
    file.touch()
    os.truncate(file, 1 << 41)
    with pytest.raises(DataError, match=r"table\.csv"):
        digest(DataFile(file.name, file, "plain"))
    with pytest.raises(DataError, match=r"table\.csv"):
        Snapshot.of(DataFile(file.name, file, "plain"))


def test_a_path_with_too_many_folders_is_an_operating_system_error(tmp_path):
    with pytest.raises(OSError, match="b/b/b") as error:
        write_atomic(TOO_DEEP / "file.txt", b"")
    assert error.value.errno == errno.ENAMETOOLONG


TOO_LONG = Path(*["b" * 200] * 20)
TOO_DEEP = Path(*["b"] * 1000)


@pytest.mark.parametrize("folder", [TOO_LONG, TOO_DEEP], ids=["long", "deep"])
def test_a_results_folder_leaves_room_for_the_names_of_its_files(folder):
    with pytest.raises(UserError) as error:
        refuse_file(folder)
    assert "--output" in error.value.remedy
