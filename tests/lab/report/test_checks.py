"""Valid and invalid checks of claims."""

from __future__ import annotations

import json

import pytest
from all_cases import all_cases
from pydantic import ValidationError

from mtlrun.estimators import declarations
from mtlrun.lab.experiment.claims import CHECKS, Check
from mtlrun.show.quantities import spoken
from mtlrun.utils.io import as_list

GOOD = [
    {"kind": "ratio", "quantity": "seconds", "of": "A", "over": "B", "at_least": 2},
    {
        "kind": "difference",
        "quantity": "auc",
        "of": ["A", "C"],
        "over": "B",
        "at_most": 0,
        "dataset": "enron",
    },
    {"kind": "value", "quantity": "speedup", "of": "A", "at_least": 1, "at_most": 2},
    {
        "kind": "paired",
        "quantity": "auc",
        "of": "A",
        "over": "B",
        "at_least": 0.05,
        "unit": "task",
        "test": "t",
    },
    {
        "kind": "order",
        "quantity": "seconds",
        "methods": ["A", "B"],
        "direction": "decreasing",
    },
    {"kind": "rejections", "control": "A", "at_least": 3, "dataset": "train 0.1"},
]
OTHER_GOOD = [
    {"kind": "paired", "of": "A", "over": "B", "unit": "prediction", "at_least": 0.3},
    {"kind": "value", "quantity": "average_rank", "of": "A", "at_most": 2},
    {"kind": "value", "quantity": "auc", "of": "A", "task": ["t1", "t2"], "at_most": 2},
]


@all_cases("check", [*GOOD, *OTHER_GOOD])
def test_valid_checks_are_accepted(check):
    assert Check(**check).kind == check["kind"]


def test_every_kind_is_tested():
    assert {c["kind"] for c in GOOD} == set(CHECKS)


def test_invalid_checks_are_rejected():
    for change, field, words in [
        ({"kind": "ration"}, "kind", "'ratio', 'difference'"),
        ({"over": None}, "", "needs 'over'"),
        ({"atleast": 3}, "atleast", "not permitted"),
        ({"at_least": None}, "", "needs 'at_least' or 'at_most'"),
        ({"at_least": True}, "at_least", "number"),
        ({"effect": -1}, "effect", "greater than or equal to 0"),
        ({"about": 3}, "", "one of 'about', 'orders' and bounds"),
        ({"kind": "paired", "unit": "row"}, "unit", "'trial', 'task' or 'prediction'"),
        ({"kind": "paired", "unit": "task", "quantity": None}, "", "needs 'quantity'"),
        (
            {"kind": "paired", "unit": "prediction", "test": "corrected_t"},
            "",
            "split by split",
        ),
        ({"kind": "paired", "task": "t1"}, "", "has no 'task'"),
        (
            {"stopped": {"quantity": "auc"}},
            "stopped",
            "one of 'at_least' (a parameter) and 'below' (a method)",
        ),
    ]:
        with pytest.raises(ValidationError) as caught:
            Check(**{**GOOD[0], **change})
        problems = caught.value.errors()
        assert {error["loc"][0] if error["loc"] else "" for error in problems} == {
            field
        }
        assert words in problems[0]["msg"]


def test_order_needs_two_methods():
    with pytest.raises(ValidationError, match="two methods"):
        Check(kind="order", quantity="auc", methods=["A"])


def test_a_size_is_met_within_a_factor_of_two():
    assert Check(kind="value", quantity="auc", of="A", about=3).bounds == (1.5, 6)
    assert Check(kind="value", quantity="auc", of="A", at_most=3).bounds == (
        float("-inf"),
        3,
    )


def test_checks_convert_to_a_list():
    assert (as_list(None), as_list("a"), as_list([1]), as_list((1, 2))) == (
        [],
        ["a"],
        [1],
        [1, 2],
    )


def test_a_quantity_with_a_phrase_has_one_meaning_in_all_analyses():
    """`spoken` uses only the name, so it has one meaning in all analyses."""
    stored = json.loads(declarations.INTERFACES)
    meanings: dict[str, set[str]] = {}
    declared = [entry.get("declaration") for entry in stored.values()]
    for declaration in filter(None, declared):
        for quantity, text in declaration.get("quantities", {}).items():
            meanings.setdefault(quantity, set()).add(text)
    ambiguous = {name for name, texts in meanings.items() if len(texts) > 1}
    assert "residual" in ambiguous  # Of the solver in FETR, of the copies in MT-MKL
    # "Lower end of the interval" fits the intervals of gains and of verdicts.
    ambiguous -= {"low", "high"}
    plain = {name: name.replace("_", " ") for name in ambiguous}
    assert {name: spoken(name) for name in ambiguous} == plain


def test_acronyms_in_names_of_quantities_have_capitals():
    assert spoken("auc_of_rows") == "AUC of rows"
    assert spoken("mean_gap") == "mean gap"
