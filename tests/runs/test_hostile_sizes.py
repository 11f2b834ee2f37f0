"""Files and paths that are too large are refused before they are read or made."""

import os
from pathlib import Path

import pytest

from mtlrun.errors import DataError, UserError
from mtlrun.models import _read_checked
from mtlrun.runs.store import MAX_FOLDER_BYTES, MAX_FOLDER_DEPTH, refuse_file


def test_a_sparse_model_larger_than_the_memory_is_not_read(tmp_path):
    file = tmp_path / "model.skops"
    file.touch()
    os.truncate(file, 1 << 41)
    with pytest.raises(DataError, match=r"model\.skops"):
        _read_checked(file)


@pytest.mark.parametrize("part", ["b", "b" * 100])
def test_a_folder_of_results_leaves_room_for_its_files(part):
    n_parts = max(MAX_FOLDER_BYTES // (len(part) + 1), MAX_FOLDER_DEPTH) + 1
    with pytest.raises(UserError) as error:
        refuse_file(Path(*[part] * n_parts))
    assert "--output" in error.value.remedy
