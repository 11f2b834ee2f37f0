"""Cards name columns by patterns, as `mtlrun compare` does."""

import numpy as np
import pandas as pd
import pytest

from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import UserError

CARD = """\
schema: 1
id: shops
title: Shops
task_type: regression
design: shared
reader: {READER}
folder: shops
files: [{name: shops.csv, sha256: null}]
licence: CC0
citation: none
"""


def load(folder, reader):
    """Return the data set of a card with a reader and its options."""
    rng = np.random.default_rng(0)
    names = ["x", "id_1", "v_1", "v_2", "w"]
    table = pd.DataFrame(rng.normal(size=(20, 5)), columns=names)
    for name in ("shops", "cards"):
        (folder / name).mkdir()
    table.to_csv(folder / "shops" / "shops.csv", index=False)
    (folder / "cards" / "shops.yaml").write_text(CARD.replace("{READER}", reader))
    return load_dataset("shops", data_dir=folder)


@pytest.mark.parametrize(
    "reader",
    [
        "{name: table, options: {data: shops.csv, targets: 'v_*', drop: 'id_*'}}",
        "{name: table, options: {data: shops.csv, targets: [v_1, v_2], drop: [id_1]}}",
        "{name: csv, options: {target: 'v_*', drop: 'id_*'}}",
        "{name: csv, options: {target: [v_1, v_2], drop: [id_1]}}",
    ],
)
def test_a_pattern_selects_all_matching_columns(tmp_path, reader):
    dataset = load(tmp_path, reader)
    assert dataset.tasks == ["v_1", "v_2"]
    assert dataset.features == ["x", "w"]


@pytest.mark.parametrize("option", ["targets: 'u_*'", "targets: v_1, drop: 'u_*'"])
def test_a_pattern_without_a_match_is_rejected(tmp_path, option):
    with pytest.raises(UserError, match=r"u_\*"):
        load(tmp_path, f"{{name: table, options: {{data: shops.csv, {option}}}}}")
