"""``mtlrun predict`` reads files and data sets and writes the CSV of the library."""

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.data import load_dataset
from mtlrun.model.files import load_model

SHARED = """\
schema: 1
kind: train
id: train/shared
dataset: {id: simulated-rmtl, n: 60, d: 5, m: 3}
method: IndependentRidge
split: {kind: random, train: 0.5}
metrics: [auc]
"""
RAGGED = """\
schema: 1
kind: train
id: train/ragged
dataset: {id: simulated-splice, n: 400}
features: one-hot
method: IndependentLogistic
split: {kind: random, train: 0.5}
metrics: [accuracy]
"""
MODEL = "results/runs/train/shared"
STRINGS = "results/runs/train/ragged"


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    """Return a folder with the results of two trainings."""
    root = tmp_path_factory.mktemp("trainings")
    with contextlib.chdir(root):
        for name, text in (("shared", SHARED), ("ragged", RAGGED)):
            Path(f"{name}.yaml").write_text(text, encoding="utf-8")
            result = CliRunner().invoke(app, ["train", f"{name}.yaml", "-q"])
            assert result.exit_code == 0, result.output
    return root


@pytest.fixture
def trained(mtlrun, trainings, tmp_path):
    """Return the command line, in a folder with a copy of the trainings."""
    shutil.copytree(trainings, tmp_path, dirs_exist_ok=True)
    return mtlrun


def test_predictions_of_new_rows_are_written_as_csv(trained, tmp_path):
    X = np.random.default_rng(0).standard_normal((4, 5)).round(4)
    pd.DataFrame(X).to_csv("new.csv", index=False, header=False)
    result = trained("predict", MODEL, "new.csv")
    assert result.exit_code == 0, result.output
    assert "predictions of 4 rows: new-predictions.csv" in result.output
    table = pd.read_csv("new-predictions.csv")
    model = load_model(tmp_path / MODEL)
    tasks = model.facts["tasks"]
    assert list(table.columns) == ["row", *tasks, *(f"{task}:score" for task in tasks)]
    np.testing.assert_array_equal(table[tasks], model.labels(X))
    assert set(np.unique(table[tasks])) <= {-1, 1}
    np.testing.assert_allclose(
        table[[f"{task}:score" for task in tasks]], model.scores(X), rtol=1e-6
    )
    predictions = pd.read_csv(tmp_path / MODEL / "predictions.csv")
    assert list(predictions.columns) == list(table.columns)
    assert (
        np.sign(predictions.to_numpy()[:, 4:]) == predictions.to_numpy()[:, 1:4]
    ).all()


def test_labels_are_written_and_a_terminal_shows_a_table(trained, tmp_path):
    X = np.random.default_rng(0).standard_normal((4, 5)).round(4)
    np.savez("new.npz", X=X)
    result = trained("predict", MODEL, "new.npz", "--labels", "-o", "-")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split(",") == ["row", *load_model(tmp_path / MODEL).facts["tasks"]]
    labels = load_model(tmp_path / MODEL).labels(X)
    assert [line.split(",")[1:] for line in lines[1:]] == [
        [f"{v:.15g}" for v in row] for row in labels
    ]


def test_a_complete_data_set_is_predicted_with_the_options_of_its_training(
    trained, tmp_path
):
    result = trained("predict", MODEL, "simulated-rmtl", "-q")
    assert result.exit_code == 0, result.output
    assert result.output == ""
    data = load_dataset("simulated-rmtl", n=60, d=5, m=3)
    table = pd.read_csv("simulated-rmtl-predictions.csv")
    scores = table[[f"{task}:score" for task in data.tasks]]
    np.testing.assert_allclose(
        scores, load_model(tmp_path / MODEL).scores(data.X), rtol=1e-6
    )


def test_tasks_are_taken_from_a_column_an_option_or_the_data_set(trained, tmp_path):
    data = load_dataset("simulated-splice", n=400)
    model = load_model(tmp_path / STRINGS)
    rows = np.arange(0, 400, 40)
    text = [row.decode() for row in data.X[rows]]
    names = [data.tasks[t] for t in data.task_id[rows]]
    pd.DataFrame({"sequence": text, "organism": names}).to_csv("new.csv", index=False)
    result = trained("predict", STRINGS, "new.csv", "--task", "organism")
    assert result.exit_code == 0, result.output
    table = pd.read_csv("new-predictions.csv")
    assert list(table.columns) == ["row", "task", "label", "score"]
    assert table["task"].tolist() == names
    np.testing.assert_allclose(
        table["score"], model.scores(data.X[rows], data.task_id[rows]), rtol=1e-6
    )
    (tmp_path / "new.fa").write_text(
        "".join(f">{i}\n{row}\n" for i, row in enumerate(text))
    )
    result = trained(
        "predict", STRINGS, "new.fa", "--task-name", data.tasks[1], "-o", "one.csv"
    )
    assert result.exit_code == 0, result.output
    assert set(pd.read_csv("one.csv")["task"]) == {data.tasks[1]}
    result = trained(
        "predict",
        STRINGS,
        "new.csv",
        "--task-column",
        "organism",
        "--labels",
        "-o",
        "labels.csv",
    )
    assert result.exit_code == 0, result.output
    assert pd.read_csv("labels.csv").equals(table[["row", "task", "label"]])
    result = trained("predict", STRINGS, "simulated-splice", "-o", "all.csv")
    assert result.exit_code == 0, result.output
    assert len(pd.read_csv("all.csv")) == 400


def test_rows_of_unknown_tasks_are_left_empty_with_one_warning(trained, tmp_path):
    letters = "ACGT" * 10 + "AC"
    tasks = list(load_model(tmp_path / STRINGS).task_names[:2])
    lines = [f"{letters},{task}" for task in ("horse", *tasks, "horse", "goat")]
    (tmp_path / "mixed.csv").write_text("sequence,task\n" + "\n".join(lines))
    result = trained("predict", STRINGS, "mixed.csv", "-o", "out.csv")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("horse") == 1
    assert "3 rows of 2 tasks" in result.stderr
    table = pd.read_csv("out.csv")
    assert table.label.isna().tolist() == [True, False, False, True, True]
    assert table.score.isna().tolist() == [True, False, False, True, True]
    assert table.task.tolist() == ["horse", *tasks, "horse", "goat"]


def test_a_row_without_a_task_does_not_refuse_the_others(trained, tmp_path):
    letters = "ACGT" * 10 + "AC"
    task = load_model(tmp_path / STRINGS).task_names[0]
    lines = [f"{letters},{name}" for name in (task, "", task)]
    (tmp_path / "new.csv").write_text("sequence,task\n" + "\n".join(lines))
    result = trained("predict", STRINGS, "new.csv", "-o", "out.csv")
    assert result.exit_code == 0, result.output
    assert "new.csv:3: " in result.stderr
    table = pd.read_csv("out.csv")
    assert table.label.isna().tolist() == [False, True, False]


def test_if_all_tasks_are_unknown_all_rows_are_empty_and_the_exit_code_is_2(
    trained, tmp_path
):
    letters = "ACGT" * 10 + "AC"
    lines = [f"{letters},{task}" for task in ("horse", "goat", "horse")]
    (tmp_path / "new.csv").write_text("sequence,task\n" + "\n".join(lines))
    result = trained("predict", STRINGS, "new.csv", "-o", "out.csv")
    assert result.exit_code == 2, result.output
    assert result.stderr.count("horse") == 1
    table = pd.read_csv("out.csv")
    assert table.task.tolist() == ["horse", "goat", "horse"]
    assert table[["label", "score"]].isna().all(axis=None)


def test_nothing_is_written_if_the_task_option_is_unknown(trained, tmp_path):
    (tmp_path / "new.fa").write_text(">1\n" + "ACGT" * 10 + "AC\n")
    result = trained(
        "predict", STRINGS, "new.fa", "--task-name", "horse", "-o", "out.csv"
    )
    assert result.exit_code == 2
    assert "horse" in result.stderr
    assert not (tmp_path / "out.csv").exists()


def test_errors_exit_with_2(trained, tmp_path):
    pd.DataFrame(np.ones((2, 4))).to_csv("narrow.csv", index=False, header=False)
    (tmp_path / "new.fa").write_text(">1\n" + "ACGT" * 10 + "AC\n")
    (tmp_path / "other.csv").write_text(f"sequence,task\n{'ACGT' * 10}AC,horse\n")
    cases = [
        (["predict", "nowhere", "narrow.csv"], "no model here"),
        (["predict", MODEL, "absent.csv"], "no such file"),
        (["predict", MODEL, "narow.tsv"], "Did you mean 'narrow.csv'?"),
        (["predict", MODEL, "narrow.csv"], "4 columns, the model has 5 features"),
        (["predict", MODEL, "simulated-rmlt"], "Did you mean 'simulated-rmtl'"),
        (["predict", MODEL, "digits"], "data set digits has 64 features"),
        (["predict", STRINGS, "new.fa"], "--task-name NAME"),
        (
            ["predict", STRINGS, "other.csv"],
            "other.csv: unknown task of the model in row 1: 'horse'",
        ),
        (
            ["predict", MODEL, "simulated-rmtl", "-o", "narrow.csv/x.csv"],
            "cannot write narrow.csv/x.csv",
        ),
    ]
    for args, text in cases:
        result = trained(*args)
        assert result.exit_code == 2, (args, result.output)
        assert text in result.output
        assert len(result.stderr.strip().splitlines()) >= 2, "no remedy"
        assert "Traceback" not in result.output


def test_extra_columns_are_named(trained, mtlrun, tmp_path):
    folder = tmp_path / "data"
    (folder / "cards").mkdir(parents=True)
    (folder / "mine").mkdir()
    table = pd.DataFrame(
        np.random.default_rng(0).standard_normal((40, 3)), columns=["a", "b", "y"]
    )
    table.insert(0, "task", np.repeat(["n", "s"], 20))
    table.to_csv(folder / "mine" / "a.csv", index=False)
    (folder / "cards" / "mine.yaml").write_text(
        "{schema: 1, id: mine, title: Mine, task_type: regression, design: ragged, folder: mine, licence: mine, "
        "citation: mine, reader: {name: csv, options: {target: y, task: task}}, "
        "files: [{name: a.csv, sha256: unknown}]}"
    )
    (tmp_path / "mine.yaml").write_text(
        "schema: 1\nkind: train\nid: train/mine\ndataset: mine\nmethod: IndependentRidge\n"
        "split: {kind: random, train: 0.5}\nmetrics: [mse]\n"
    )
    assert mtlrun("train", "mine.yaml", "-q", "--data-dir", str(folder)).exit_code == 0
    shuffled = table.assign(note=1)[["note", "b", "task", "a"]]
    shuffled.to_csv("new.csv", index=False)
    result = mtlrun("predict", "results/runs/train/mine", "new.csv")
    assert result.exit_code == 0, result.output
    assert "by the model: note" in result.stderr
    model = load_model(tmp_path / "results/runs/train/mine")
    expected = model.scores(table[["a", "b"]].to_numpy(), np.repeat([0, 1], 20))
    np.testing.assert_allclose(
        pd.read_csv("new-predictions.csv")["prediction"], expected, rtol=1e-6
    )
    result = mtlrun("predict", "results/runs/train/mine", "new.csv", "--labels")
    assert result.exit_code == 2
    assert "--labels" in result.stderr


def test_suggested_files_are_chosen_by_name_and_not_by_suffix(trained, tmp_path):
    for name in ("notes.csv", "rows.csv", "pairs.csv", "results.csv"):
        (tmp_path / name).write_text("a\n1\n")
    result = trained("predict", MODEL, "grades.csv")
    assert result.exit_code == 2
    assert "Did you mean" not in result.stderr
    (tmp_path / "grade.csv").write_text("a\n1\n")
    assert "Did you mean 'grade.csv'?" in trained("predict", MODEL, "grades.csv").stderr
    assert (
        "Did you mean 'grade.csv'?"
        in trained("compare", "grade.cvs", "--target", "y").stderr
    )
