"""``mtlrun init`` writes valid, commented files and never overwrites others."""

import json
import os
import re

import numpy as np
import pandas as pd
import pytest

from mtlrun import load_run
from mtlrun.catalog.registry import METHODS
from mtlrun.cli.train import STRING_SOURCES, training_file
from mtlrun.data.sets.cards import read_card
from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import DataError
from mtlrun.lab.experiment.claims import Verdict
from mtlrun.lab.experiment.load import validate_file
from mtlrun.lab.experiment.schema import config_schema
from mtlrun.utils.io import datasets_dir

CARDS = sorted(datasets_dir().glob("*.yaml"))


@pytest.mark.slow
def test_every_data_set_gets_a_valid_file(tmp_path):
    for path in CARDS:
        text = training_file(read_card(path), None, "a.yaml")
        (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
        assert validate_file(tmp_path / "a.yaml"), path.name
        assert sum(line.startswith("#") for line in text.splitlines()) > 8, path.name
        assert max(len(line) for line in text.splitlines()) <= 160, path.name


def test_every_method_gets_a_valid_file(tmp_path):
    card = read_card(datasets_dir() / "digits.yaml")
    for name, info in METHODS.items():
        text = training_file(card, name, "a.yaml")
        (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
        assert validate_file(tmp_path / "a.yaml"), name
        assert info.objective in text, name


@pytest.mark.slow
def test_a_written_file_can_be_trained(mtlrun):
    result = mtlrun("init", "simulated-rmtl", "--method", "PooledRidge")
    assert result.exit_code == 0, result.output
    assert (
        "written: simulated-rmtl.yaml\nnext: mtlrun train simulated-rmtl.yaml"
        in result.output
    )
    result = mtlrun("train", "simulated-rmtl.yaml", "-q")
    assert result.exit_code == 0, result.output


def test_init_accepts_an_estimator_of_the_user(mtlrun):
    result = mtlrun(
        "init", "simulated-fetr", "-m", "sklearn.linear_model:Lasso", "-o", "-"
    )
    assert result.exit_code == 0, result.output
    assert "  estimator: sklearn.linear_model:Lasso\n" in result.stdout


def test_nothing_is_overwritten_without_force(mtlrun, tmp_path):
    (tmp_path / "digits.yaml").write_text("mine")
    result = mtlrun("init", "digits")
    assert result.exit_code == 2
    assert "digits.yaml already exists" in result.output
    assert (tmp_path / "digits.yaml").read_text() == "mine"
    assert mtlrun("init", "digits", "--force").exit_code == 0
    assert mtlrun("init", "digits", "-o", "other.yaml").exit_code == 0


def test_files_for_the_same_data_set_have_separate_results(mtlrun, tmp_path):
    assert mtlrun("init", "simulated-rmtl", "-o", "first try.yaml").exit_code == 0
    text = (tmp_path / "first try.yaml").read_text()
    name = re.search(
        r"id: train/(first-try-[0-9a-f]{6})    # results are written to results/runs/train/(.*)\n",
        text,
    )
    assert name[1] == name[2], "the hash tells it from first-try.yaml"
    assert "id: train/simulated-rmtl " in training_file(
        read_card(datasets_dir() / "simulated-rmtl.yaml"), None, "simulated-rmtl.yaml"
    )
    result = mtlrun(
        "init", "simulated-rmtl", "-m", "sklearn.linear_model:Lasso", "-o", "-"
    ).stdout
    assert "id: train/simulated-rmtl-Lasso " in result


def test_features_are_standardized_unless_they_are_strings(mtlrun):
    assert "\nfeatures: standardize\n" in mtlrun("init", "school", "-o", "-").stdout
    assert (
        "\nfeatures: one-hot\n" in mtlrun("init", "simulated-splice", "-o", "-").stdout
    )


@pytest.mark.slow
def test_the_table_of_a_comparison_with_categories_can_be_trained(mtlrun, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"task": np.repeat(["a", "b"], 30), "x": rng.normal(size=60)})
    table["color"] = np.resize(["red", "blue", "green"], 60)
    table["y"] = table["x"] + rng.normal(size=60)
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ["--target", "y", "--task", "task", "--methods", "GraphMTL"]
    options += ["--splits", "2", "--repeats", "1", "--folds", "2", "-o", "runs"]
    assert mtlrun("compare", "t.csv", *options).exit_code == 0
    data = ["--data-dir", "runs/compare/t/data"]
    assert mtlrun("init", "own-t", "-m", "GraphMTL", *data).exit_code == 0
    result = mtlrun("train", "own-t.yaml", *data)
    assert result.exit_code == 0, result.output


def test_files_name_their_schema_for_editors(mtlrun, tmp_path):
    result = mtlrun("init", "--schema")
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "config.schema.json").read_text()) == config_schema()


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["init"], "no data set named"),
        (["init", "digist"], "Did you mean 'digits'"),
        (["init", "digits", "-m", "RobustMLT"], "Did you mean 'RobustMTL'"),
        (
            ["init", "school", "-m", "IndependentSVC"],
            "IndependentSVC is a classifier, but the targets of school are numbers",
        ),
        (["init", "digits", "-o", "nowhere.yaml/a.yaml"], ""),
    ],
)
def test_errors_exit_with_2(mtlrun, tmp_path, args, text):
    (tmp_path / "nowhere.yaml").touch()
    result = mtlrun(*args)
    assert result.exit_code == 2, result.output
    assert text in result.output


@pytest.mark.slow
@pytest.mark.data
def test_data_sets_of_strings_are_recognized_by_their_source():
    # The first data set of each source that can be read, except sequences, whose files
    # are the largest; the next test writes small ones.
    has_strings: dict[str, bool] = {}
    for card in map(read_card, CARDS):
        if card.simulated or card.source.name in {*has_strings, "fasta"}:
            continue
        try:
            dataset = load_dataset(
                card.id, data_dir=os.environ.get("MTLRUN_DATA"), sample=10
            )
        except DataError:
            continue
        has_strings[card.source.name] = dataset.strings
    if not has_strings:
        pytest.skip("MTLRUN_DATA holds no data set of a card")
    assert has_strings == {
        source: source.startswith(STRING_SOURCES) for source in has_strings
    }


def test_sequences_are_recognized_by_their_source(tmp_path):
    tasks = [{"name": "first", "labelled": ["a.fasta"]}]
    content = {
        "id": "sequences",
        "title": "sequences",
        "task_type": "binary",
        "design": "ragged",
        "reader": {"name": "fasta", "options": {"label": "label=(.*)", "tasks": tasks}},
        "folder": "sequences",
        "files": [{"name": "a.fasta", "sha256": "unknown"}],
        "licence": "mine",
        "citation": "mine",
    }
    for folder in ("cards", "sequences"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cards" / "sequences.yaml").write_text(json.dumps(content))
    lines = ">1 label=1\nACGT\n>2 label=-1\nGGTT\n"
    (tmp_path / "sequences" / "a.fasta").write_text(lines)
    assert load_dataset("sequences", data_dir=tmp_path).strings
    card = read_card(tmp_path / "cards" / "sequences.yaml")
    assert card.source.name.startswith(STRING_SOURCES)


def test_simulated_strings_are_recognized_by_their_source():
    assert load_dataset("simulated-splice", n=300).strings
    assert read_card(datasets_dir() / "simulated-splice.yaml").source.name.startswith(
        STRING_SOURCES
    )


@pytest.mark.slow
def test_a_written_experiment_is_reproduced_without_edits(mtlrun, tmp_path):
    assert mtlrun("init", "--experiment", "table1").exit_code == 0
    checked = mtlrun("validate", "table1.yaml")
    assert checked.output == "table1.yaml: ok\n"
    result = mtlrun("reproduce", "table1.yaml", "-q")
    assert result.exit_code == 0, result.output
    report = load_run(tmp_path / "results/runs/mine/table1/quick")
    assert {claim.verdict for claim in report.claims} == {Verdict.CONFIRMED}
    assert {number.verdict for number in report.references} == {Verdict.WITHIN}


def test_profiles_and_interpretations_of_a_written_experiment_run(mtlrun):
    assert mtlrun("init", "-e", "paper/fig2", "-o", "a b.yaml").exit_code == 0
    options = ("--profile", "smoke", "--interpretation", "all")
    result = mtlrun("reproduce", "a b.yaml", "-q", *options)
    assert result.exit_code == 0, result.output


def test_a_written_experiment_has_every_part_with_a_comment(mtlrun):
    text = mtlrun("init", "--experiment", "a/b", "-o", "-").stdout
    for key in ("paper", "reference", "tolerance", "claims", "readings", "profiles"):
        assert f"\n{key}:" in text
    assert max(len(line) for line in text.splitlines()) <= 110
    for key in ("source:", "expect:", "not_testable:", "all:"):
        assert f"\n#   {key}" in text or f"\n    {key}" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ("a b",),
        ("../x",),
        ("table1", "school"),
        ("table1", "-m", "MTFL"),
        ("table1", "-o", "a.csv"),
    ],
)
def test_an_experiment_with_another_request_or_a_wrong_name_is_refused(
    mtlrun, tmp_path, arguments
):
    result = mtlrun("init", "--experiment", *arguments)
    assert result.exit_code == 2
    assert "--experiment" in result.output or ".yaml" in result.output
    assert list(tmp_path.glob("*.*")) == []


def test_the_files_of_an_experiment_are_not_overwritten(mtlrun, tmp_path):
    (tmp_path / "table1.yaml").write_text("mine")
    assert mtlrun("init", "--experiment", "table1").exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["table1.yaml"]
