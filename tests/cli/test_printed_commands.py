"""Reports need only the results folder, and printed commands run exactly as printed."""

import re
import shlex
import shutil

import numpy as np
import pandas as pd
import pytest

CARD = """\
schema: 1
id: plants
title: Plants
task_type: regression
design: ragged
reader: {name: csv, options: {target: height, task: garden}}
folder: plants
files: [{name: plants.csv, sha256: unknown}]
licence: CC0
citation: none
"""
EXPERIMENT = """\
schema: 1
id: made/own
title: On data of one's own
datasets: [plants]
split: {kind: random, train: 0.5, trials: 1}
metrics: [mse]
selection: {folds: 2}
methods:
  - {label: "Ridge, [searched]", estimator: IndependentRidge, grid: {alpha: [0.1, 1.0]}}
  - {label: Pooled, estimator: PooledRidge}
profiles:
  quick: {}
"""


@pytest.fixture
def own_experiment(tmp_path):
    """Write a data set into a folder with a space in its name, and an experiment."""
    data = tmp_path / "my data"
    for name in ("cards", "plants"):
        (data / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"sun": rng.normal(size=60), "garden": np.repeat(list("abc"), 20)}
    )
    frame["height"] = frame.sun + 0.1 * rng.normal(size=60)
    frame.to_csv(data / "plants/plants.csv", index=False)
    (data / "cards/plants.yaml").write_text(CARD)
    (tmp_path / "mine.yaml").write_text(EXPERIMENT)
    return data


def printed(mtlrun, line):
    words = shlex.split(line)
    assert words[0] == "mtlrun"
    return mtlrun(*words[1:])


@pytest.mark.slow
def test_report_and_plot_need_no_data(mtlrun, own_experiment, tmp_path):
    assert (
        mtlrun("reproduce", "mine.yaml", "--data-dir", str(own_experiment)).exit_code
        == 0
    )
    shutil.rmtree(own_experiment)
    for form in ("md", "csv", "json", "html"):
        result = mtlrun("report", "mine.yaml", "--format", form)
        assert result.exit_code == 0, result.output
    assert mtlrun("report", "mine.yaml", "--profile", "quick").exit_code == 0
    result = mtlrun("plot", "mine.yaml", "--kind", "path", "--out", "path.svg")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "path.svg").is_file()


def test_an_unknown_profile_is_rejected_with_a_list_of_profiles(mtlrun, own_experiment):
    result = mtlrun("report", "mine.yaml", "--profile", "quik")
    assert result.exit_code == 2
    assert "quick" in result.stderr


@pytest.mark.parametrize(
    "text", ["schema: 1\n", "id: ../../else\n", "id: [1]\n", "- 1\n"]
)
def test_report_rejects_a_file_that_has_no_run(mtlrun, tmp_path, text):
    (tmp_path / "bad.yaml").write_text(text)
    result = mtlrun("report", "bad.yaml")
    assert result.exit_code == 2
    assert "bad.yaml" in result.stderr


def test_the_printed_commands_to_rerun_work(mtlrun, own_experiment):
    words = (
        "reproduce",
        "mine.yaml",
        "--data-dir",
        "my data",
        "--set",
        "split.train=0.6",
    )
    assert mtlrun(*words).exit_code == 0
    page = mtlrun("report", "mine.yaml", "--format", "md").stdout
    lines = re.findall(r"mtlrun reproduce [^`|\n]+", page.partition("How to rerun")[2])
    assert len(lines) == 3  # All runs, and one for each method
    for line in lines:
        result = printed(mtlrun, line.replace("\\", "").strip())
        assert result.exit_code == 0, result.output
        assert re.search(r"all (1 result|\d+ results) up to date", result.output)


@pytest.mark.slow
def test_the_next_step_printed_by_init_works(mtlrun, own_experiment):
    init = mtlrun(
        "init",
        "plants",
        "--data-dir",
        str(own_experiment),
        "--output",
        "my plants.yaml",
    )
    assert init.exit_code == 0, init.output
    (line,) = [line for line in init.stdout.splitlines() if line.startswith("next: ")]
    result = printed(mtlrun, line.removeprefix("next: "))
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_the_next_step_printed_by_compare_works(mtlrun, own_experiment, tmp_path):
    shutil.copy(own_experiment / "plants/plants.csv", "new.csv")
    words = (
        "-t",
        "height",
        "--task",
        "garden",
        "--methods",
        "GraphMTL",
        "--splits",
        "2",
        "--repeats",
        "1",
        "-o",
        "my runs",
    )
    comparison = mtlrun("compare", "new.csv", *words)
    assert comparison.exit_code == 0, comparison.output
    (line,) = [
        line for line in comparison.stdout.splitlines() if "predict new rows: " in line
    ]
    result = printed(
        mtlrun, line.partition("predict new rows: ")[2].replace("FILE", "new.csv")
    )
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", ["reproduce", "info"])
def test_the_printed_command_to_add_missing_data_works(
    mtlrun, own_experiment, tmp_path, command
):
    file = own_experiment / "plants/plants.csv"
    file.rename(tmp_path / "plants.csv")
    words = (
        ("data", "info", "plants") if command == "info" else ("reproduce", "mine.yaml")
    )
    result = mtlrun(*words, "--data-dir", str(own_experiment))
    (line,) = re.findall(r"mtlrun data add [^\n]+", result.output)
    assert (
        printed(mtlrun, line.replace("FILE", "plants.csv").rstrip(".")).exit_code == 0
    )
    assert file.is_file()
