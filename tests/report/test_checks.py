"""Validation of checks as plain data."""

from __future__ import annotations

import pytest

from mtlrun.report.checks import CHECKS, as_list, check_problems

GOOD = [
    {"kind": "ratio", "quantity": "seconds", "of": "A", "over": "B", "at_least": 2},
    {"kind": "difference", "quantity": "auc", "of": ["A", "C"], "over": "B", "at_most": 0, "dataset": "enron"},
    {"kind": "value", "quantity": "speedup", "of": "A", "at_least": 1, "at_most": 2},
    {"kind": "paired", "quantity": "auc", "of": "A", "over": "B", "at_least": 0.05, "unit": "task", "test": "t"},
    {"kind": "order", "quantity": "seconds", "methods": ["A", "B"], "direction": "decreasing"},
    {"kind": "rejections", "control": "A", "at_least": 3, "dataset": "train 0.1"},
]
OTHER_GOOD = [
    {"kind": "paired", "of": "A", "over": "B", "unit": "prediction", "at_least": 0.3},
    {"kind": "value", "quantity": "average_rank", "of": "A", "at_most": 2},
    {"kind": "value", "quantity": "auc", "of": "A", "task": ["t1", "t2"], "at_most": 2},
]


@pytest.mark.parametrize("check", [*GOOD, *OTHER_GOOD], ids=lambda c: c["kind"])
def test_good_checks(check):
    assert check_problems(check, ("auc",)) == []


def test_every_kind_is_covered():
    assert {c["kind"] for c in GOOD} == set(CHECKS)


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"kind": "ration"}, "kind", "known: ratio, difference"),
        ({"over": None}, "over", "needs 'over'"),
        ({"atleast": 3}, "atleast", "has no 'atleast'; it may have: kind, quantity"),
        ({"at_least": None}, "kind", "needs 'at_least' or 'at_most'"),
        ({"quantity": "ouc"}, "quantity", "unknown quantity 'ouc'; known: auc, seconds"),
        ({"kind": "paired", "unit": "row"}, "unit", "one of trial, task, prediction, not 'row'"),
        ({"kind": "paired", "unit": "task", "quantity": None}, "quantity", "needs 'quantity'"),
        ({"kind": "paired", "unit": "prediction", "test": "corrected_t"}, "test", "split by split"),
        ({"kind": "paired", "task": "t1"}, "task", "has no 'task'"),
        ({"stopped": {"quantity": "auc"}}, "stopped", "one of 'at_least' (a parameter) and 'below' (a method)"),
        ({"stopped": {"quantity": "rows", "below": "B"}}, "stopped", "unknown quantity 'rows'; known: auc"),
    ],
)
def test_bad_checks(change, field, words):
    problems = check_problems({**GOOD[0], **change}, ("auc",))
    assert [f for f, _ in problems] == [field]
    assert words in problems[0][1]


def test_order_needs_two_methods():
    check = {"kind": "order", "quantity": "auc", "methods": ["A"]}
    assert check_problems(check) == [("methods", "an order check needs at least two methods")]


def test_as_list():
    assert (as_list(None), as_list("a"), as_list([1]), as_list((1, 2))) == ([], ["a"], [1], [1, 2])
