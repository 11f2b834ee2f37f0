"""``validate``, ``show``, ``status``: messages for errors in files and options."""

from __future__ import annotations

import pytest
import yaml

#: Name -> (lines that replace those of the valid file, expected parts of stderr:
#: locations, excerpts and remedies).
BROKEN = {
    "unknown key": (
        {"title": "titel: A small table"},
        (
            "table.yaml:1:1: ",
            "'title'",
            "table.yaml:3:1: ",
            "\n  3 | titel: A small table\n      ^^^^^ ",
            "'title'?",
        ),
    ),
    "wrong type": (
        {"split": "split: {kind: random, train: half, trials: 2}"},
        (
            "table.yaml:6:30: 'train'",
            "number",
            "'half'",
            "\n                                   ^^^^\n",
        ),
    ),
    "unknown data set": (
        {"datasets": "datasets: [enorn]"},
        (
            "table.yaml:5:12: ",
            "'enorn'",
            "\n  5 | datasets: [enorn]\n                 ^^^^^ ",
            "'enron'?",
        ),
    ),
    "duplicate key": (
        {"title": "title: A\ntitle: B"},
        ("table.yaml:4:1: ", "'title'", "\n  4 | title: B\n      ^^^^^ ", "line 3"),
    ),
    "tab": (
        {"split": "split:\n\tkind: random"},
        ("table.yaml:7:1: ", "tab", "\n  7 |  kind: random\n      ^ "),
    ),
    "several problems": (
        {
            "metrics": "metrics: [mes]",
            "timing": "timing: {repeats: 0, baseline: Rigde}",
        },
        (
            "table.yaml:7:11: ",
            "'mse'?",
            "table.yaml:8:19: 'repeats'",
            "table.yaml:8:32: ",
            "'Ridge'?",
        ),
    ),
}


@pytest.mark.cover
@pytest.mark.parametrize("command", ["validate", "reproduce", "show", "status"])
@pytest.mark.parametrize("name", BROKEN)
def test_errors_in_files_are_located(
    mtlrun, write_experiment, tmp_path, lacking, name, command
):
    changes, words = BROKEN[name]
    write_experiment(**changes)
    result = mtlrun(command, "table.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert not lacking(result.stderr, *words)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["absent.yaml"], ("absent.yaml", "mtlrun list")),
        (["tabel2"], ("experiment 'tabel2'", "'table2' or 'table3' or 'table1'?")),
        (["table.yaml", "--profile", "dmeo"], ("table.yaml", "'dmeo'", "'demo'?")),
    ],
)
def test_unknown_names_are_reported_with_suggestions(
    mtlrun, write_experiment, lacking, args, words
):
    write_experiment()
    result = mtlrun("show", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert not lacking(result.stderr, "error: ", *words)


def test_all_wrong_overrides_are_reported(mtlrun, write_experiment, lacking):
    write_experiment()
    result = mtlrun(
        "show", "table.yaml", "--set", "split.trails=3", "--set", "nonsense"
    )
    assert result.exit_code == 2
    assert "--set split.trails=3" in result.stderr
    assert "trials" in result.stderr
    assert not lacking(result.stderr, "--set nonsense", "split.trials=3")


def test_an_only_filter_without_a_match_is_an_error(mtlrun, write_experiment):
    write_experiment()
    result = mtlrun("status", "table.yaml", "--only", "method=Rigde")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: --only method=Rigde: matches no method\nDid you mean 'Ridge'?\n",
    )


def test_validate_names_each_file(mtlrun, write_experiment, tmp_path):
    path = write_experiment(title="title: [")
    (tmp_path / "bad.yaml").write_text(path.read_text())
    write_experiment()
    result = mtlrun("validate", "table.yaml", "bad.yaml", "none.yaml")
    assert result.exit_code == 2
    assert result.stdout == "table.yaml: ok\n"
    assert "error: bad.yaml:" in result.stderr
    assert "error: none.yaml: " in result.stderr
    assert "2 of 3 files" in result.stderr.splitlines()[-1]


@pytest.mark.slow
def test_shipped_experiments_are_valid(mtlrun):
    result = mtlrun("validate")
    assert result.exit_code == 0, result.stderr
    assert "configs/dcrmtl/table2.yaml: ok" in result.stdout.splitlines()


def test_show_prints_every_setting(mtlrun, write_experiment, tmp_path):
    claim = "claims:\n  - {id: made-1, text: it is so, not_testable: no figures}\n"
    number = "reference:\n  - {dataset: simulated-rmtl, method: Ridge, quantity: mse, value: 0.25, std: 0.5}\n"
    write_experiment(extra=claim + number)
    words = ("show", "table.yaml", "--set", "split.trials=9", "--seed", "3")
    result = mtlrun(*words, "--yaml")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "made/table1: A small table",
        "Nobody, Nothing, 2015, Table I",
        "profile: full (others: demo)",
        "run folder: results/runs/made/table1/full",
    ]
    settings = yaml.safe_load("\n".join(lines[5:]))
    assert (settings["split"]["trials"], settings["seed"], settings["average"]) == (
        9,
        3,
        "task",
    )
    assert settings["reference"][0]["value"] == 0.25
    page = mtlrun(*words).stdout
    assert "  made-1  it is so (not testable: no figures)\n" in page
    assert "printed numbers:  1 mse\n" in page
    assert "trials" not in page
    assert not (tmp_path / "results").exists()


def test_status_counts_jobs_and_explains_their_states(mtlrun, write_experiment):
    write_experiment("Broken")
    assert (
        mtlrun("status", "table.yaml").stdout.splitlines()[-1] == "6 results: 6 missing"
    )
    mtlrun("reproduce", "table.yaml")
    write_experiment(
        "Broken", timing="timing: {repeats: 2, warmup: false, baseline: Ridge}"
    )
    result = mtlrun("status", "table.yaml", "--only", "method=Ridge,method=Broken")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "made/table1, profile full: results/runs/made/table1/full"
    assert any(
        line.startswith(
            "rerun simulated-rmtl/Ridge/2 trials: scoring.timing.repeats 1 -> 2"
        )
        for line in lines
    )
    assert lines[-1] == "4 results: 4 outdated"
    # The experiment has no interpretations, so the table has no column for them.
    assert ["data", "set", "method", "outdated"] in [line.split() for line in lines]


def test_option_o_is_an_output_file_where_a_command_writes_one(
    mtlrun, write_experiment, tmp_path
):
    write_experiment()
    assert mtlrun("reproduce", "table.yaml", "-o", "runs").exit_code == 0
    folder = "runs/made/table1/full"
    for name in ("page.html", "table.csv", "report.json"):
        result = mtlrun("report", folder, "-o", name)
        assert result.exit_code == 0, result.output
        assert (tmp_path / name).stat().st_size > 0
    # The folder "runs" remains the root of the results.
    assert mtlrun("report", "table.yaml", "-o", "runs").exit_code == 0
    assert mtlrun("plot", folder, "--kind", "path").exit_code == 2
    for command in ("predict", "init"):
        assert "--out" in mtlrun(command, "--help").output
