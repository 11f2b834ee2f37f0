"""The line of compare about the most similar tables of the atlas."""

import numpy as np
import pytest

from mtlrun.comparison import differences
from mtlrun.comparison.differences import MIN_TABLES
from mtlrun.data.dataset import Dataset

HEAD = (
    "table",
    "kind",
    "rows",
    "seed",
    "over_pooled",
    "rows_per_task",
    "tasks",
    "features",
)


@pytest.fixture
def atlas():
    """Return tables of increasing size with 10 and 100 rows per task and two seeds; the
    larger ones lose.
    """
    lines = [
        dict(
            zip(
                HEAD,
                map(
                    str,
                    (
                        f"t{k}",
                        kind,
                        rows,
                        seed,
                        0.1 - 0.02 * k + 0.1 * seed,
                        rows,
                        2 * 2**k,
                        5,
                    ),
                ),
                strict=True,
            )
        )
        for kind in ("groups", "labels")
        for k in range(8)
        for rows in (10, 100)
        for seed in (0, 1)
    ]
    for line in lines:
        # The smaller gain counts, and this one is always larger.
        line["over_independent"] = "0.9"

    return lines


@pytest.fixture
def tables_like(atlas, install, tmp_path):
    """Return `differences.tables_like` for the present lines of the atlas."""
    file = install(tmp_path) / "_configs" / differences.SIMILAR
    file.parent.mkdir(parents=True)

    def in_atlas(dataset, train):
        rows = [",".join(line.values()) for line in atlas]
        head = [*HEAD, "over_independent"]
        text = "\n".join(["# made 2026-11-25", ",".join(head), *rows, ""])
        file.write_text(text, "utf-8")
        return differences.tables_like(dataset, train)

    return in_atlas


def ragged(tasks, rows):
    ids = np.repeat(np.arange(tasks), rows)
    return Dataset(
        X=np.zeros((len(ids), 5)),
        y=np.zeros(len(ids)),
        task_type="regression",
        task_id=ids,
    )


def test_the_most_similar_tables_are_named_with_the_mean_gain_over_seeds(
    atlas, tables_like
):
    similar_tables = tables_like(ragged(2, 10), 1.0)
    assert "2026-11-25" in similar_tables
    assert similar_tables.endswith("t0, t1, t2, t3, t4")
    assert "in 5 of 5 (gain 7 to 15%)" in similar_tables
    assert tables_like(ragged(256, 10), 1.0).endswith("t7, t6, t5, t4, t3")


def test_for_each_table_the_closest_number_of_rows_counts(atlas, tables_like):
    for line in atlas:
        line["over_pooled"] = "0.5" if line["rows"] == "100" else "-0.5"
    assert "in 0 of 5 (gain -50 to -50%)" in tables_like(ragged(8, 20), 0.8)
    assert "in 5 of 5 (gain 50 to 50%)" in tables_like(ragged(8, 100), 0.8)


def test_a_gain_without_practical_difference_does_not_count(atlas, tables_like):
    for line in atlas:
        line["over_pooled"] = "0.009" if line["table"] < "t3" else "0.011"
    assert "2 of 5 (gain 1 to 1%)" in tables_like(ragged(2, 10), 1.0)


def test_a_loss_at_which_the_atlas_cuts_is_a_bound(atlas, tables_like):
    for line in atlas:
        line["over_pooled"] = "-1"
    assert "(gain -100 or less" in tables_like(ragged(2, 10), 1.0)


def test_without_enough_tables_of_the_layout_there_is_no_line(atlas, tables_like):
    shared = Dataset(X=np.zeros((20, 5)), y=np.zeros((20, 3)), task_type="regression")
    assert tables_like(shared, 0.8) is None
    atlas[:] = [line for line in atlas if int(line["table"][1:]) < MIN_TABLES - 1]
    assert tables_like(ragged(8, 20), 0.8) is None


@pytest.mark.parametrize(("train", "gain"), [(1.0, "-30"), (0.25, "30")])
def test_the_rows_of_a_task_are_its_training_rows(atlas, tables_like, train, gain):
    for line in atlas:
        line["over_pooled"] = "0.3" if line["rows"] == "10" else "-0.3"
    # For 60 rows per task, 100 is closer than 10; for 15 rows it is 10.
    assert f"(gain {gain} to {gain}%)" in tables_like(ragged(2, 60), train)


def test_a_table_gains_only_if_it_beats_both_alternatives(atlas, tables_like):
    for line in atlas:
        line["over_pooled"] = "0.9"
        line["over_independent"] = "-0.2"
    assert "in 0 of 5 (gain -20 to -20%)" in tables_like(ragged(2, 10), 1.0)


def test_an_installation_without_the_atlas_has_no_line(install, tmp_path):
    (install(tmp_path) / "_configs").mkdir()
    assert differences.tables_like(ragged(8, 20), 0.8) is None
