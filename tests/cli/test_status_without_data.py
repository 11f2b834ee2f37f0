"""``mtlrun status`` looks up stored results without the files of the data."""

import json
import os
from pathlib import Path

import pytest

from mtlrun.data.sets.load import dataset_fingerprint
from mtlrun.errors import DataError

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.slow
def test_stored_runs_are_done_without_files_of_data(mtlrun, tmp_path, monkeypatch):
    monkeypatch.setenv("MTLRUN_DATA", str(tmp_path))
    words = ("status", "table2", "--profile", "real", "--output", str(RESULTS))
    status = mtlrun(*words, "--json")
    assert status.exit_code == 0, status.output
    assert json.loads(status.stdout)["counts"] == {"done": 110}


def test_missing_files_count_with_the_digests_in_their_card(tmp_path):
    with pytest.raises(DataError):
        dataset_fingerprint("enron", data_dir=tmp_path)
    fingerprint = dataset_fingerprint("enron", data_dir=tmp_path, needs_files=False)
    other = dataset_fingerprint(
        "enron", data_dir=tmp_path, needs_files=False, coding="0/1"
    )
    assert len(fingerprint) == len(other) == 64
    assert fingerprint != other


@pytest.mark.data
def test_the_fingerprint_does_not_depend_on_whether_files_are_there(tmp_path):
    if not os.environ.get("MTLRUN_DATA"):
        pytest.skip("MTLRUN_DATA is not set")
    without = dataset_fingerprint("enron", data_dir=tmp_path, needs_files=False)
    assert without == dataset_fingerprint("enron")


def test_a_card_without_digests_needs_its_files(tmp_path):
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "mine.yaml").write_text(
        "schema: 1\nid: mine\ntitle: mine\ntask_type: regression\ndesign: ragged\n"
        "reader: {name: table, options: {data: rows.csv, targets: [y], task: t}}\n"
        "folder: mine\nfiles: [{name: rows.csv}]\nlicence: none\ncitation: none\n"
    )
    with pytest.raises(DataError, match=r"rows\.csv"):
        dataset_fingerprint("mine", data_dir=tmp_path, needs_files=False)
