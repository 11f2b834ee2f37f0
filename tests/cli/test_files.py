"""``validate``, ``show``, ``status``: golden texts of what can be wrong in a file or on the command line."""

from __future__ import annotations

import re

import pytest

#: Name -> (lines that replace those of the good file, the whole of stderr).
BROKEN = {
    "unknown key": (
        {"title": "titel: A small table"},
        """
error: table.yaml:1:1: missing key 'title'
  1 | schema: 1
      ^
table.yaml:3:1: unknown key 'titel'
  2 | id: made/table1
  3 | titel: A small table
      ^^^^^ did you mean 'title'?   valid keys: schema, id, title, kind, extends, description, default_for, paper, \
datasets, split, repeats, metrics, average, features, keep, seed, selection, timing, limits, sweep, grids, methods, \
statistics, claims, reference, published, tolerance, deviations, profiles
""",
    ),
    "wrong type": (
        {"split": "split: {kind: random, train: half, trials: 2}"},
        """
error: table.yaml:6:30: 'train' must be a number, not 'half'
  5 | datasets: [{id: simulated-rmtl, n: 40, d: 5, m: 3}]
  6 | split: {kind: random, train: half, trials: 2}
                                   ^^^^
""",
    ),
    "unknown data set": (
        {"datasets": "datasets: [enorn]"},
        """
error: table.yaml:5:12: unknown data set 'enorn'
  4 | paper: {cite: "Nobody, Nothing, 2015", artefact: Table I}
  5 | datasets: [enorn]
                 ^^^^^ did you mean 'enron'?
""",
    ),
    "duplicate key": (
        {"title": "title: A\ntitle: B"},
        """
error: table.yaml:4:1: duplicate key 'title'
  3 | title: A
  4 | title: B
      ^^^^^ first given in line 3
""",
    ),
    "tab": (
        {"split": "split:\n\tkind: random"},
        """
error: table.yaml:7:1: a tab where blanks are needed
  6 | split:
  7 |  kind: random
      ^ indent with blanks
""",
    ),
    "several problems": (
        {"metrics": "metrics: [mes]", "timing": "timing: {repeats: 0, baseline: Rigde}"},
        """
error: table.yaml:7:11: unknown metric 'mes'
  6 | split: {kind: random, train: 0.5, trials: 2}
  7 | metrics: [mes]
                ^^^ did you mean 'mse'?
table.yaml:8:19: 'repeats' must be greater than or equal to 1, not 0
  7 | metrics: [mes]
  8 | timing: {repeats: 0, baseline: Rigde}
                        ^
table.yaml:8:32: unknown method 'Rigde'
  7 | metrics: [mes]
  8 | timing: {repeats: 0, baseline: Rigde}
                                     ^^^^^ did you mean 'Ridge'?
""",
    ),
}


@pytest.mark.parametrize("command", ["validate", "reproduce", "show", "status"])
@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(mtlrun, write_experiment, tmp_path, name, command):
    changes, expected = BROKEN[name]
    write_experiment(**changes)
    result = mtlrun(command, "table.yaml")
    assert (result.exit_code, result.stderr, result.stdout) == (2, expected.lstrip("\n"), "")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["absent.yaml"], "absent.yaml: no such file\nmtlrun list shows the experiments that come with mtlrun.\n"),
        (["tabel2"], "unknown experiment 'tabel2'\nDid you mean 'table2' or 'table3' or 'table1'?\n"),
        (["table.yaml", "--profile", "dmeo"], "unknown profile of table.yaml: 'dmeo'\nDid you mean 'demo'?\n"),
    ],
)
def test_wrong_names(mtlrun, write_experiment, args, expected):
    write_experiment()
    result = mtlrun("show", *args)
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"error: {expected}", "")


def test_wrong_overrides_are_all_named(mtlrun, write_experiment, lacking):
    write_experiment()
    result = mtlrun("show", "table.yaml", "--set", "split.trails=3", "--set", "nonsense")
    assert result.exit_code == 2
    assert "--set split.trails=3" in result.stderr
    assert "trials" in result.stderr
    assert not lacking(result.stderr, "--set nonsense", "split.trials=3")


def test_only_without_a_match(mtlrun, write_experiment):
    write_experiment()
    result = mtlrun("status", "table.yaml", "--only", "method=Rigde")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: --only method=Rigde: matches no method\nDid you mean 'Ridge'?\n",
    )


def test_validate_names_every_file(mtlrun, write_experiment, tmp_path):
    path = write_experiment(title="title: [")
    (tmp_path / "bad.yaml").write_text(path.read_text())
    write_experiment()
    result = mtlrun("validate", "table.yaml", "bad.yaml", "none.yaml")
    assert result.exit_code == 2
    assert result.stdout == "table.yaml: ok\n"
    assert "error: bad.yaml:" in result.stderr
    assert "error: none.yaml: no such file" in result.stderr
    assert result.stderr.splitlines()[-1] == "2 of 3 files have problems"


def test_shipped_experiments_are_valid(mtlrun):
    result = mtlrun("validate")
    assert result.exit_code == 0, result.stderr
    assert "configs/dcrmtl/table2.yaml: ok" in result.stdout.splitlines()


def test_show_says_where_values_come_from(mtlrun, write_experiment, tmp_path):
    claim = "claims:\n  - {id: made-1, text: it is so, not_testable: no figures}\n"
    number = "reference:\n  - {dataset: simulated-rmtl, method: Ridge, quantity: mse, value: 0.25, std: 0.5}\n"
    write_experiment(extra=claim + number)
    result = mtlrun("show", "table.yaml", "--set", "split.trials=9", "--seed", "3")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "made/table1: A small table",
        "Nobody, Nothing, 2015, Table I",
        "profile: full (others: demo)",
        "run folder: results/runs/made/table1/full",
    ]
    origins = {m[1].strip(): m[2] for line in lines if (m := re.fullmatch(r"(.*?) +# (.+)", line))}
    assert origins["trials: 9"] == "--set"
    assert origins["seed: 3"] == "--seed"
    assert origins["train: 0.5"] == "line 6"
    assert origins["average: task"] == "default"
    assert "  made-1: it is so [no figures]" in lines
    assert "  simulated-rmtl / Ridge: mse 0.25 ± 0.5" in lines
    assert not (tmp_path / "results").exists()


def test_status_counts_and_explains(mtlrun, write_experiment):
    write_experiment("Broken")
    assert mtlrun("status", "table.yaml").stdout.splitlines()[-1] == "6 cells: 6 missing"
    mtlrun("reproduce", "table.yaml")
    write_experiment("Broken", timing="timing: {repeats: 2, warmup: false, baseline: Ridge}")
    result = mtlrun("status", "table.yaml", "--only", "method=Ridge,method=Broken")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "made/table1, profile full: results/runs/made/table1/full"
    assert any(line.startswith("rerun simulated-rmtl/Ridge/2 trials: scoring.timing.repeats 1 -> 2") for line in lines)
    assert lines[-1] == "4 cells: 4 stale"
