"""Verdicts and tables of comparisons, from scores made by hand."""

import math

import pytest

from mtlrun.report.leaderboard import INDEPENDENT, MULTITASK, TRIVIAL, Board, Entry, leaderboard_grid, verdict


def entry(label, family, *splits):
    """Return a method with the values of its tasks in every split; None where it failed."""
    tasks = {s: values for s, values in enumerate(splits) if values is not None}
    return Entry(label, family, {s: sum(v) / len(v) for s, v in tasks.items()}, tasks, [1.0] * len(tasks))


def board(*entries, greater=False):
    names = [f"t{k}" for k in range(len(next(iter(entries[0].tasks.values()))))]
    n_splits = max(len(e.scores) for e in entries)
    return Board("title", "rmse", greater, names, [10] * len(names), list(entries), n_splits, 0.4)


ALONE = entry("Alone", INDEPENDENT, [float(k) for k in range(12)], [float(k) for k in range(12)])


def moved(label, by, splits=2, family=MULTITASK):
    return entry(label, family, *[[k + by + k / 100 for k in range(12)]] * splits)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (board(ALONE, moved("Joint", -0.5)), "Multi-task learning helped: Joint has rmse "),
        (board(ALONE, moved("Joint", 0.5)), "Multi-task learning hurt: Joint has rmse "),
        (board(ALONE, moved("Joint", -0.5), greater=True), "Multi-task learning hurt: Joint has rmse "),
        (
            board(ALONE, moved("Joint", -0.5), moved("Pooled", -1, family="pooled")),
            "Multi-task learning helped against independent learning (Joint has rmse ",
        ),
        (
            board(entry("Alone", INDEPENDENT, [2.0, 2.0]), entry("Joint", MULTITASK, [1.0, 2.5])),
            "Multi-task learning made no clear difference: Joint has rmse 1.7500 against 2.0000 of Alone, better on 1 "
            "of 2 tasks (one split: no test). It hurt 1 task: t1.",
        ),
    ],
)
def test_the_verdict_follows_the_tasks(made, said):
    assert verdict(made).startswith(said), verdict(made)


def test_the_verdict_on_a_loss_names_the_tasks():
    text = verdict(board(ALONE, moved("Joint", 0.5)))
    assert "better on 0 of 12 tasks (p = 0.00049, paired over tasks, Holm)" in text
    assert text.endswith(" It hurt 12 tasks, in every split: t11, t10, t9, t8, t7, t6, t5, t4 and 4 more.")


def test_methods_that_failed_come_last_without_a_rank():
    failed = Entry("Broken", MULTITASK, errors=["ValueError: broken"])
    nothing = entry("Empty", MULTITASK, [math.nan, math.nan])
    made = board(entry("Mean", TRIVIAL, [3.0, 3.0]), failed, nothing)
    assert [row[:2] for row in leaderboard_grid(made).rows] == [[1, "Mean"], [None, "Broken"], [None, "Empty"]]
    assert [row[7] for row in leaderboard_grid(made).rows] == ["reference", "failed", "failed"]
    assert verdict(made).startswith("No multi-task method finished")
    assert Board("title", "rmse", False, ["t0"], [9], [failed], 1, 0.4).against_reference() == {}


def test_average_ranks_are_those_of_methods_with_all_scores():
    """A split in which every method fails counts for nobody, one in which some fail leaves those out."""
    first = entry("First", INDEPENDENT, [1.0, 1.0], None, [3.0, 3.0])
    second = entry("Second", MULTITASK, [2.0, 2.0], None, [2.0, 2.0])
    partly = entry("Partly", MULTITASK, [0.0, 0.0])
    assert board(first, second, partly).average_ranks() == {"First": 1.5, "Second": 1.5}
    assert board(entry("A", INDEPENDENT, [1.0, 1.0]), entry("B", MULTITASK, None, [1.0, 1.0])).average_ranks() == {}
