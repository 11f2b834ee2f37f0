"""Errors about wrong names and paths state the problem and its remedy."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("words", "message", "remedy"),
    [
        (
            ["data", "fetch", "sarcos", "--yes"],
            "sarcos",
            "mtlrun data add sarcos FILE --data-dir empty",
        ),
        (["show", "fetr"], "'fetr' is a paper", "fetr/table1"),
        (["reproduce", "mtsvm/"], "'mtsvm/' is a paper", "mtsvm/fig1"),
        (
            ["show", "TraceNormMTL"],
            "'TraceNormMTL' is a method",
            "mtlrun list methods TraceNormMTL",
        ),
        (
            ["report", "no/such/folder"],
            "no/such/folder: no folder",
            "mtlrun report <output>",
        ),
        (["reproduce", "empty"], "empty: a folder", "mtlrun report <output>"),
        (["show", "fetr/table2"], "unknown experiment", "'mtmkl/table2'"),
        (["train", "none.yaml"], "none.yaml: no such file", "mtlrun init DATASET"),
        (["predict", "empty", "rows.csv"], "empty: no model here", "mtlrun compare"),
        (["report", "empty"], "empty: no run.json", "mtlrun reproduce TARGET"),
        (
            ["reproduce", "fetr/fig2b", "--interpretation", "foo"],
            "interpretation of fetr/fig2b: 'foo'",
            "all",
        ),
        (
            ["reproduce", "fetr/fig2b", "--profile", "foo"],
            "profile of fetr/fig2b: 'foo'",
            "quick",
        ),
        (
            ["plot", "empty", "--kind", "line", "--out", "x.svg"],
            "kind of figure of a run 'line'",
            "scaling",
        ),
        (["report", "table2", "--format", "foo"], "unknown format 'foo'", "parquet"),
    ],
)
def test_a_wrong_name_is_reported_with_a_suggestion(
    mtlrun, tmp_path, monkeypatch, words, message, remedy
):
    (tmp_path / "empty").mkdir()
    where = ["--data-dir", "empty"] if words[0] in ("data", "reproduce") else []
    result = mtlrun(*words, *where)
    assert result.exit_code == 2
    error = result.stderr[result.stderr.index("error: ") :]
    assert message in error.splitlines()[0]
    assert remedy in "\n".join(error.splitlines()[1:])


@pytest.mark.parametrize(
    ("line", "location", "remedy"),
    [
        (
            "compare t.csv --target grade --task school --smallest-gain 7%",
            "--smallest-gain must be a number",
            "0.07",
        ),
        (
            "compare t.csv --target grade --task school --budget ten",
            "--budget must be a number, not 'ten'",
            "Time limit",
        ),
        (
            "compare t.csv --target grade --task school --repeats 0",
            "--repeats must be at least 1",
            "folds are drawn",
        ),
        (
            "compare t.csv --target grade,age --task school",
            "t.csv has no column 'grade,age'",
            "--targets grade,age",
        ),
        (
            "compare t.csv --target grades --task school",
            "t.csv has no column 'grades'",
            "'grade'",
        ),
        (
            "compare t.csv --targt grade",
            "mtlrun compare has no option --targt",
            "--target",
        ),
        ("compare t.csv --target", "--target needs a value", "--help"),
        ("compare", "mtlrun compare needs DATA", ".csv"),
        ("comapre t.csv", "no such command 'comapre'", "'compare'"),
        ("data ftch", "mtlrun data: no such command 'ftch'", "'fetch'"),
        (
            "train t.csv --target grade",
            "mtlrun train has no option --target",
            "mtlrun compare, mtlrun data check have it",
        ),
        (
            "list datasets --data-dir .",
            "mtlrun list has no option --data-dir",
            "mtlrun data list has it",
        ),
        ("validate t.csv", "t.csv: not an experiment", "mtlrun compare t.csv"),
        ("list method", "KIND must be one of 'experiments', 'methods'", "methods"),
        ("plot table2", "no run.json here", "mtlrun reproduce"),
        ("predict", "mtlrun predict needs MODEL", "mtlrun compare"),
        (
            "reproduce table2 again",
            "takes no further argument (again)",
            "mtlrun reproduce --help",
        ),
        (
            "reproduce table2 --jobs two",
            "--jobs must be a whole number, not 'two'",
            "all cores",
        ),
        (
            "reproduce table2 --profile demo --set metrics=AUC",
            "--set metrics=AUC: unknown metric 'AUC'",
            "[AUC]",
        ),
    ],
)
def test_a_command_line_mistake_is_located_and_has_a_remedy(
    mtlrun, tmp_path, line, location, remedy
):
    (tmp_path / "t.csv").write_text("school,age,grade\n" + "a,1,2.5\nb,2,3.5\n" * 10)
    result = mtlrun(*line.split())
    assert result.exit_code == 2
    first, *rest = result.stderr[result.stderr.index("error: ") :].splitlines()
    assert location in first
    assert remedy in "\n".join(rest)
    output = result.stdout + result.stderr
    assert "Traceback" not in output
    assert "configs/" not in output, "the file is right, only the option is wrong"


def test_help_does_not_show_python_types(mtlrun):
    for words in (["compare"], ["list"], ["data"], ["data", "fetch"], ["reproduce"]):
        text = mtlrun(*words, "--help").stdout
        assert "--help" in text
        assert not {
            mark
            for mark in ("<str>", "<bool>", "<list[", "{DATA}", "{TARGET}")
            if mark in text
        }


def test_if_data_are_missing_the_suggested_command_repeats_the_options(
    mtlrun, tmp_path
):
    options = ["--interpretation", "60 epochs", "--output", "my runs", "--jobs", "2"]
    result = mtlrun("reproduce", "fetr/table1", "--data-dir", str(tmp_path), *options)
    assert result.exit_code == 2
    assert "mtlrun data add sarcos FILE" in result.stderr
    (line,) = (
        line
        for line in result.stderr.splitlines()
        if line.startswith("To run without any download")
    )
    assert "--profile demo" in line
    assert line.endswith("--interpretation '60 epochs' --jobs 2 --output 'my runs'")


def test_a_folder_of_runs_or_a_comparison_is_reported_with_the_command_for_its_report(
    mtlrun, write_experiment, tmp_path
):
    write_experiment()
    assert mtlrun("reproduce", "table.yaml").exit_code == 0
    above = mtlrun("report", "results/runs/made/table1")
    assert above.exit_code == 2
    assert "mtlrun report results/runs/made/table1/full" in above.stderr
    board = tmp_path / "results/runs/compare/mine"
    board.mkdir(parents=True)
    (board / "compare.json").write_text(json.dumps({}))
    comparison = mtlrun("report", "results/runs/compare/mine")
    assert comparison.exit_code == 2
    assert "results/runs/compare/mine/leaderboard.html" in comparison.stderr


def test_an_unqualified_name_lists_all_matches(mtlrun):
    result = mtlrun("show", "table2")
    assert result.exit_code == 0
    assert "mtmkl/table2" in result.stderr


def test_an_option_of_earlier_development_versions_is_refused(mtlrun):
    former = mtlrun("reproduce", "fetr/fig2b", "--reading", "foo")
    assert former.exit_code == 2
    assert "--reading" in former.stderr
