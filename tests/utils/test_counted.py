"""Numbers with their nouns, and sentences that contain them."""

import numpy as np
import pandas as pd
import pytest

from mtlrun.errors import counted


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((1, "task"), "1 task"),
        ((0, "task"), "0 tasks"),
        ((2, "search", "searches"), "2 searches"),
    ],
)
def test_a_number_with_its_noun(args, text):
    assert counted(*args) == text


def test_a_comparison_of_one_feature_on_one_split(tmp_path):
    from mtlrun import compare

    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "school": np.repeat(["a", "b"], 20),
            "x": rng.normal(size=40),
            "y": rng.normal(size=40),
        }
    )
    lines = []
    compare(
        table,
        target="y",
        task="school",
        methods=["PooledRidge"],
        splits=2,
        repeats=1,
        folds=2,
        say=lines.append,
    )
    text = "\n".join(lines)
    assert "40 rows, 1 feature, 2 tasks" in text
    assert "20 targets per task" in text
    assert "2-fold cross-validation, 1 repeat," in text
