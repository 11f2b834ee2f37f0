"""Verdicts and tables of comparisons, from scores made by hand."""

import dataclasses
import json
import math

import pytest

from mtlrun.report.leaderboard import (
    INDEPENDENT,
    MULTITASK,
    TRIVIAL,
    Board,
    Entry,
    leaderboard_grid,
    leaderboard_json,
    markdown,
    verdict,
)


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


@pytest.mark.parametrize("noise", [0.0, 1e-13, 1e-5])
def test_a_tie_is_no_loss(noise):
    alone = entry("Alone", INDEPENDENT, [1.0, 1.0], [1.0, 1.0])
    joint = entry("Joint", MULTITASK, [1.0, 1.0 - noise], [1.0, 1.0 - noise])
    made = board(alone, joint, greater=True)
    assert "made no clear difference: Joint has rmse 1.0000 against 1.0000 of Alone" in verdict(made)
    assert "does better without it" not in verdict(made)


def test_rounding_errors_are_ties():
    alone = entry("Alone", INDEPENDENT, [1.0, 0.3], [1.0, 0.3])
    joint = entry("Joint", MULTITASK, [1.0, 0.1 + 0.2], [1.0, 0.1 + 0.2])
    made = board(alone, joint)
    assert vars(made.against_reference()["Joint"])["ties"] == 2
    assert made.hurt(joint) == []
    assert [row[0] for row in leaderboard_grid(made).rows] == [1, 1]


def test_a_baseline_that_reads_better_still_is_better():
    made = board(ALONE, moved("Joint", -0.5), moved("Pooled", -0.6, family="pooled"))
    assert "but Pooled (" in verdict(made)


def reduced(made):
    return dataclasses.replace(made, searched="1 of 5 combinations")


def test_a_reduced_search_is_marked_and_takes_no_part_in_the_verdict():
    made = board(ALONE, moved("Joint", 0.5), reduced(moved("Dear", 2.0)), reduced(moved("Best", -3.0)))
    grid = leaderboard_grid(made)
    assert grid.columns[-1].name == "searched"
    marks = {row[1]: row[-1] for row in grid.rows}
    assert marks == {"Best": "1 of 5 combinations", "Alone": "all", "Joint": "all", "Dear": "1 of 5 combinations"}
    assert next(row for row in grid.rows if row[1] == "Best")[7:10] == [None, None, None]
    assert verdict(made).startswith("Multi-task learning hurt: Joint ")
    assert verdict(made).endswith("Best, Dear.")
    alone = verdict(board(ALONE, moved("Joint", 0.5)))
    assert verdict(made).startswith(alone), "the methods with a reduced search change the verdict"
    content = json.loads(leaderboard_json(made))
    assert {m["method"]: m["searched"] for m in content["methods"]} == marks
    assert "1 of 5 combinations" in markdown(made)


@pytest.mark.parametrize(
    "made",
    [
        board(ALONE, reduced(moved("Joint", -0.5))),
        board(reduced(ALONE), moved("Joint", -0.5), moved("Mean", 3.0, family=TRIVIAL)),
    ],
)
def test_no_verdict_where_a_side_has_reduced_searches_alone(made):
    text = verdict(made)
    assert text.startswith("No verdict on multi-task learning")
    assert made.reduced()[0].label in text
    assert "reference" not in [row[7] for row in leaderboard_grid(made).rows if row[1] == made.reduced()[0].label]
    assert json.loads(leaderboard_json(made))["verdict"] == text


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
