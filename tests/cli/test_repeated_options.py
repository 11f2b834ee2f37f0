"""List options accumulate; other options are rejected if they are repeated."""

import importlib

import numpy as np
import pandas as pd
import pytest

from mtlrun.errors import UserError
from mtlrun.lab.plan import matching
from mtlrun.utils.text import column_name, several

COMPARE = importlib.import_module("mtlrun.api")


@pytest.fixture
def arguments(monkeypatch, tmp_path):
    """Return the arguments that the command would pass to `compare`."""
    (tmp_path / "t.csv").write_text("x,y,t\n1,2,a\n")
    options = {}

    def record(data, columns, roles, compare_options, **given):
        options.update(vars(roles) | vars(columns) | vars(compare_options) | given)
        raise UserError("stop")

    monkeypatch.setattr(COMPARE, "run_comparison", record)
    return options


@pytest.mark.parametrize(
    "name", ["targets", "drop", "categorical", "keep", "task-order"]
)
def test_lists_of_columns_accumulate_and_keep_their_spelling(mtlrun, arguments, name):
    words = (f"--{name}", "a,b", f"--{name}", '"c, d",e', f"--{name}", "")
    assert mtlrun("compare", "t.csv", *words).exit_code == 2
    assert arguments[name.replace("-", "_")] == ("a,b", '"c, d",e')


def test_lists_of_methods_accumulate(mtlrun, arguments):
    family = "pooled=own:A"
    methods = ("--methods", "A, B", "--methods", "C")
    mtlrun("compare", "t.csv", *methods, "--family", family)
    assert arguments["methods"] == ("A", "B", "C")
    assert arguments["family"] == (family,)


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "t.csv", "--target", "y", "-t", "x"),
        ("compare", "t.csv", "--metric", "auc", "--metric", "rmse"),
        ("compare", "t.csv", "--group", "x", "--group", "t"),
        ("compare", "t.csv", "--output", "a", "-o", "b"),
        ("predict", "model", "t.csv", "--task", "a", "--task-column", "b"),
        ("train", "c.yaml", "--seed", "1", "--seed", "2"),
        ("init", "school", "-m", "A", "--method", "B"),
        ("data", "fetch", "school", "--url", "a", "--url", "b"),
        ("reproduce", "table2", "--profile", "demo", "--profile", "full"),
    ],
    ids=" ".join,
)
def test_other_options_are_rejected_if_repeated(mtlrun, words):
    result = mtlrun(*words)
    assert result.exit_code == 2
    assert "twice" in result.output


def test_a_setting_and_its_section_cannot_both_be_set(mtlrun):
    words = ["--set", "split={kind: random, train: 0.5}", "--set", "split.trials=3"]
    for order in (words, words[2:] + words[:2]):
        result = mtlrun("reproduce", "table2", "--profile", "smoke", *order)
        assert result.exit_code == 2
        assert "split.trials" in result.stderr


def test_a_name_with_a_line_break_matches_the_column_of_the_table():
    assert several(["a\nb"]) == (column_name("a\nb"),)


def test_a_setting_has_one_value(mtlrun):
    words = ["--set", "split.trials=3", "--set"]
    for command in (("reproduce", "table2", "--dry-run"), ("train", "train/school")):
        result = mtlrun(*command, *words, "split.trials=4")
        assert result.exit_code == 2
        assert "split.trials is given twice" in result.output
    again = mtlrun("show", "table2", *words, "split.trials=3")
    assert again.exit_code == 0, again.output


def test_flags_may_be_repeated(mtlrun, arguments):
    mtlrun("compare", "t.csv", "--curve", "--curve", "-q", "-q")
    assert arguments["curve"] is True


def test_only_filters_accumulate_and_may_contain_commas():
    class Row:
        def __init__(self, method):
            self.method = method
            self.dataset = "d"
            self.trial = 0

    rows = [Row("A"), Row("B"), Row("C=1, D=2")]
    assert matching(rows, ["method=A", "method=B"]) == [True, True, False]
    assert matching(rows, ["method=A,method=B"]) == [True, True, False]
    assert matching(rows, ["method=C=1, D=2"]) == [False, False, True]


@pytest.mark.slow
def test_every_column_can_be_named_on_the_command_line(mtlrun, tmp_path):
    """Column names with commas, colons, equals signs or quotes work everywhere."""
    rng = np.random.default_rng(0)
    names = ["a, b", "c:d", "e=f", 'g "h"', "*", "bad, col", "x"]
    frame = pd.DataFrame(rng.normal(size=(40, 7)), columns=names)
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = [word for name in names[:5] for word in ("--targets", name)]
    words += ["--drop", '"bad, col"', "--methods", "TraceNormMTL"]
    words += ["--splits", "2", "--repeats", "1", "-o", "out"]
    result = mtlrun("compare", "t.csv", *words)
    assert result.exit_code == 0, result.output
    result = mtlrun("predict", "out/compare/t/model", "t.csv", "--out", "p.csv")
    assert result.exit_code == 0, result.output
    columns = list(pd.read_csv(tmp_path / "p.csv").columns)
    assert [name for name in columns if ":" not in name or name == "c:d"] == [
        "row",
        *names[:5],
        *("unknown_categories", "missing", "beyond_range"),
    ]
    # Intervals follow the predictions by default.
    for name in names[:5]:
        assert {f"{name}:lower", f"{name}:upper"} <= set(columns)


@pytest.mark.slow
def test_predict_reports_missing_values_of_new_rows(mtlrun, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=40), "t": ["a", "b"] * 20})
    frame.assign(y=frame.x).to_csv(tmp_path / "t.csv", index=False)
    words = ["--target", "y", "--task", "t", "--methods", "TraceNormMTL"]
    words += ["--splits", "2", "--repeats", "1", "-o", "out"]
    assert mtlrun("compare", "t.csv", *words).exit_code == 0
    frame.loc[:2, "x"] = np.nan
    frame.to_csv(tmp_path / "n.csv", index=False)
    result = mtlrun("predict", "out/compare/t/model", "n.csv", "--out", "p.csv")
    assert result.exit_code == 0
    assert "'x' (3)" in result.output
