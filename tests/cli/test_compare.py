"""``mtlrun compare``: results on a small table, and errors for invalid input."""

import contextlib
import html
import io
import json
import threading

import numpy as np
import pandas as pd
import pytest
import yaml

from mtlrun.cli.compare import CompareProgress, brief_grid
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.gain import RowIndex
from mtlrun.comparison.leaderboard import Leaderboard
from mtlrun.comparison.schedule import BoardProgress
from mtlrun.comparison.verdict import INDEPENDENT, MULTITASK, POOLED
from mtlrun.engine.record import Record
from mtlrun.lab.plan import unused_jobs
from mtlrun.show.quantities import NMSE

FAST = (
    *("--methods", "JointFeatureMTL", "--splits", "3"),
    *("--repeats", "1", "--folds", "2"),
)

TABLE = """\
school,hours,club,grade
a,1,chess,2.0
a,2,none,3.5
a,3,chess,4.5
a,4,none,5.0
b,1,none,1.0
b,2,chess,2.5
b,3,,3.0
b,,none,4.5
"""

ARFF = """\
@relation labels
@attribute size numeric
@attribute red {0,1}
@attribute blue {0,1}
@data
1,0,1
2,1,0
3,0,1
4,1,1
"""


@pytest.fixture
def grades(tmp_path):
    """Write a table of ten schools with a text column and empty cells."""
    rng = np.random.default_rng(0)
    frames = []
    for k in range(10):
        hours, age = rng.normal(size=(2, 16))
        club = rng.choice(["chess", "choir", ""], 16)
        grade = (
            2 * hours + 0.1 * k * age + (club == "chess") + 0.5 * rng.normal(size=16)
        )
        frames.append(
            pd.DataFrame(
                {
                    "school": f"s{k}",
                    "hours": hours,
                    "age": age,
                    "club": club,
                    "grade": grade,
                }
            )
        )
    table = pd.concat(frames)
    table.loc[table.index == 3, "age"] = np.nan
    table.to_csv(tmp_path / "grades.csv", index=False)
    return tmp_path / "grades.csv"


def test_compare_prints_the_leaderboard_and_the_verdict_and_writes_its_files(
    mtlrun, grades, tmp_path, lacking
):
    result = mtlrun(
        "compare", "grades.csv", "--target", "grade", "--task", "school", *FAST
    )
    assert result.exit_code == 0, result.output
    folder = tmp_path / "results/runs/compare/grades"
    report = json.loads((folder / "leaderboard.json").read_text())
    headline, best, sentence, blank, header, *lines = result.stdout.splitlines()
    assert headline == f"{report['answer']['headline']}."
    first_method = report["methods"][0]
    score = f"{first_method['score']:.4f}"
    assert best == f"Best: {first_method['method']} {score} (rmse)"
    assert sentence == report["verdict"]
    assert blank == ""
    columns = ["rank", "method", "kind", "rmse", "gain", "low", "high"]
    assert header.split() == columns
    names = {
        "JointFeatureMTL",
        "IndependentRidge",
        "IndependentRidgeCV",
        "PooledRidge",
        "TaskMean",
    }
    assert {line.split()[1] for line in lines[:5]} == names
    assert [m["method"] for m in report["methods"]] == [
        line.split()[1] for line in lines[:5]
    ]
    assert "the task type is inferred from the targets: regression" in result.stderr
    assert "15 of 15 fits done (100%)" in result.stderr
    assert report["answer"]["margin"] == 0.02
    assert "leaderboard.html" in result.stdout
    for explanation in ("p = ", "mean over the tasks", "p is not corrected"):
        assert explanation not in result.stdout
    assert "independent: IndependentRidge" not in result.stderr
    text = (folder / "leaderboard.md").read_text()
    assert not lacking(
        text,
        report["verdict"],
        "Nadeau-Bengio, c = 1.41",
        "squared error of IndependentRidge",
    )
    assert "one-hot encoded (club)" in text
    page = (folder / "leaderboard.html").read_text()
    assert html.escape(report["verdict"]).replace("&#x27;", "&#39;") in page
    assert page.count('<svg role="img"') >= 10
    coefficients = pd.read_csv(folder / "coefficients.csv", index_col="task")
    assert list(coefficients.index) == [f"s{k}" for k in range(10)]
    assert {"intercept", "hours", "age is missing", "club=chess"} <= set(
        coefficients.columns
    )


@pytest.mark.slow
def test_train_refits_the_selected_method_and_predict_loads_the_model(
    mtlrun, grades, tmp_path
):
    options = (
        "--methods",
        "JointFeatureMTL",
        "--splits",
        "2",
        "--repeats",
        "1",
        "--folds",
        "2",
        "--unseen",
        "mean",
        "-q",
    )
    result = mtlrun(
        "compare", "grades.csv", "--target", "grade", "--task", "school", *options
    )
    assert result.exit_code == 0, result.output
    folder = tmp_path / "results/runs/compare/grades"
    report = json.loads((folder / "leaderboard.json").read_text())
    trained = mtlrun(
        "train", str(folder / "chosen.yaml"), "--data-dir", str(folder / "data")
    )
    assert trained.exit_code == 0, trained.output
    assert f"rmse  {report['methods'][0]['scores']['0']:.4f}" in trained.stdout
    again = json.loads(
        (tmp_path / "results/runs/compare/own-grades/metrics.json").read_text()
    )
    assert again["selection"]["chosen"] == report["methods"][0]["chosen"]["0"]
    new = pd.DataFrame(
        {
            "age": [0.5, None],
            "hours": [1.0, 1.0],
            "club": ["golf", ""],
            "school": ["s1", "new"],
        }
    )
    new.to_csv(tmp_path / "new.csv", index=False)
    predicted = mtlrun("predict", str(folder / "model"), "new.csv", "-o", "-", "-q")
    assert predicted.exit_code == 0, predicted.output
    rows = [line.split(",") for line in predicted.stdout.splitlines()]
    assert [row[1] for row in rows] == ["task", "s1", "new"]
    assert all(np.isfinite(float(row[2])) for row in rows[1:])


@pytest.mark.parametrize(
    ("options", "ending"),
    [
        ((), ""),
        (("--time", "hours"), "-by-time"),
        (("--time", "hours", "--time-blocks"), "-time-blocks"),
        (("--new-tasks",), "-new-tasks"),
    ],
)
def test_each_question_has_its_own_results_folder(mtlrun, tmp_path, options, ending):
    # A table where the results would be written is refused before it is read.
    folder = tmp_path / f"compare/leaderboard{ending}"
    folder.mkdir(parents=True)
    table = folder / "leaderboard.csv"
    table.write_text(TABLE)
    roles = ("--target", "grade", "--task", "school", *options)
    result = mtlrun("compare", str(table), *roles, "-o", str(tmp_path))
    assert result.exit_code == 2
    assert "--output" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--group", "team"), ("--time", "day")])
def test_the_selected_method_has_the_same_scores_in_compare_train_and_reproduce(
    mtlrun, grades, tmp_path, more
):
    """`reproduce` even shares the job of the comparison."""
    table = pd.read_csv(grades)
    table.assign(team=np.arange(160) % 7, day=np.tile(np.arange(16), 10)).to_csv(
        grades, index=False
    )
    options = (
        "--methods",
        "PooledRidge",
        "--splits",
        "2",
        "--repeats",
        "1",
        "--folds",
        "2",
        "--seed",
        "3",
        "-q",
    )
    result = mtlrun("compare", "grades.csv", *RAGGED, *options, *more)
    assert result.exit_code == 0, result.output
    name = "grades-by-time" if "--time" in more else "grades"
    folder = tmp_path / "results/runs/compare" / name
    best = json.loads((folder / "leaderboard.json").read_text())["methods"][0]
    jobs = json.loads((folder / "compare.json").read_text())["cells"]
    (key,) = [
        job["key"]
        for job in jobs
        if (job["method"], job["trial"]) == (best["method"], 0)
    ]
    where = ("--data-dir", str(folder / "data"))
    for output in (folder, tmp_path / "elsewhere"):
        trained = mtlrun(
            "train", str(folder / "chosen.yaml"), *where, "-o", str(output)
        )
        assert trained.exit_code == 0, trained.output
        content = json.loads((output / "compare/own-grades/metrics.json").read_text())
        assert content["cell"] == key
        assert content["metrics"]["rmse"] == pytest.approx(
            best["scores"]["0"], rel=1e-9
        )  # The file has rounded numbers
        assert content["per_task"]["rmse"] == pytest.approx(
            best["tasks"]["0"], rel=1e-9
        )
        compared = Record.from_line((folder / f"cells/{key}.json").read_text())
        assert content["per_task"] == compared.per_task
        assert content["selection"].get("chosen", {}) == best["chosen"]["0"]
    training = yaml.safe_load((folder / "chosen.yaml").read_text())
    method, dataset = (
        {"label": "Chosen", **training.pop("method")},
        training.pop("dataset"),
    )
    experiment = {
        **training,
        "kind": "evaluate",
        "id": "own/again",
        "methods": [method],
        "datasets": [dataset],
    }
    del experiment["refit"]
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(experiment))
    cells = sorted(
        (path, path.stat().st_mtime_ns) for path in (folder / "cells").glob("*.json")
    )
    done = mtlrun("reproduce", "again.yaml", *where, "-o", str(folder))
    assert done.exit_code == 0, done.output
    assert "up to date" in done.stderr
    assert cells == sorted(
        (path, path.stat().st_mtime_ns) for path in (folder / "cells").glob("*.json")
    )
    run = json.loads((folder / "own/again/full/run.json").read_text())
    assert run["cells"][0]["key"] == key
    assert unused_jobs(folder) == []  # Columns that the comparison needs


@pytest.mark.slow
def test_a_comparison_with_test_rows_can_be_repeated_from_its_folder(
    mtlrun, grades, tmp_path, lacking
):
    """The folder holds both tables; ``train chosen.yaml`` keeps them apart."""
    table = pd.read_csv(grades)
    table.iloc[::4].to_csv(tmp_path / "later.csv", index=False)
    options = ("--test", "later.csv", "--methods", "PooledRidge", "-q")
    result = mtlrun(
        "compare", "grades.csv", "--target", "grade", "--task", "school", *options
    )
    assert result.exit_code == 0, result.output
    folder = tmp_path / "results/runs/compare/grades"
    report = json.loads((folder / "leaderboard.json").read_text())
    trained = mtlrun(
        "train", str(folder / "chosen.yaml"), "--data-dir", str(folder / "data")
    )
    assert trained.exit_code == 0, trained.output
    assert not lacking(
        trained.stderr, "own-grades: 200 rows", "160 for training", "40 for test"
    )
    assert f"rmse  {report['methods'][0]['score']:.4f}" in trained.stdout
    chosen = (folder / "chosen.yaml").read_text().splitlines()
    (folder / "chosen.yaml").write_text(
        "\n".join(line for line in chosen if not line.startswith("features:"))
    )
    refused = mtlrun(
        "train",
        str(folder / "chosen.yaml"),
        "--data-dir",
        str(folder / "data"),
        "--force",
    )
    assert refused.exit_code == 2
    assert refused.stderr.endswith(
        "own-grades has text or missing values\nAdd the line: features: table\n"
    )
    refused = mtlrun(
        "predict", str(folder / "model"), "later.csv", "--proba", "-o", "-", "-q"
    )
    assert refused.exit_code == 2
    assert not lacking(refused.stderr, "error:", "probabilities", "--proba")


@pytest.mark.slow
def test_mulan_labels_have_probabilities(mtlrun, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    Y = (X @ rng.normal(size=(3, 2)) + rng.normal(size=(60, 2)) > 0).astype(int)
    rows = "\n".join(
        ",".join(map(str, [*x.round(3), *y])) for x, y in zip(X, Y, strict=True)
    )
    head = (
        "".join(f"@attribute x{j} numeric\n" for j in range(3))
        + "@attribute A {0,1}\n@attribute B {0,1}\n"
    )
    (tmp_path / "set.arff").write_text(f"@relation set\n{head}@data\n{rows}\n")
    (tmp_path / "set.xml").write_text(
        '<labels><label name="A"></label><label name="B"></label></labels>'
    )
    result = mtlrun(
        "compare", "set.arff", "--labels", "set.xml", *FAST, "--calibrate", "-q"
    )
    assert result.exit_code == 0, result.output
    assert "JointFeatureMTLClassifier" in result.stdout
    predicted = mtlrun(
        "predict", "results/runs/compare/set", "set.arff", "--proba", "-o", "-", "-q"
    )
    assert predicted.exit_code == 0, predicted.output
    table = pd.read_csv(io.StringIO(predicted.stdout))
    assert list(table.columns) == [
        "row",
        "A",
        "B",
        "A:score",
        "B:score",
        "A:probability",
        "B:probability",
        "unknown_categories",
        "missing",
        "beyond_range",
    ]
    chances = table[["A:probability", "B:probability"]].to_numpy()
    assert ((chances > 0.5) == table[["A", "B"]]).mean(axis=None) > 0.9
    assert ((chances > 0) & (chances < 1)).all()
    assert ((chances > 0.5) == Y).mean() > 0.6


#: Three schools; the last one has only later rows.
DAYS = "school,day,early,grade\n" + "".join(
    f"{school},{day},{int(day > 15)},{(7 * day) % 5}\n"
    for day in range(18)
    for school in ("ab" if day < 12 else "abc")
)

RAGGED = ("--target", "grade", "--task", "school")
BAD = {
    "unknown column": (
        TABLE,
        ("--target", "grades", "--task", "school"),
        ["t.csv", "'grades'", "'grade'?"],
    ),
    "target with one value": (
        "a,b,y\n1,2,7\n1,3,7\n",
        ("--target", "y", "--task", "a"),
        ["t.csv: ", "target 'y'", "single value (7)"],
    ),
    "mixed types": (
        TABLE.replace("b,1,", "b,one,"),
        RAGGED,
        ["t.csv:6: column 'hours'", "'one'", "--categorical hours"],
    ),
    "duplicated header": (
        TABLE.replace("club", "hours", 1),
        RAGGED,
        ["t.csv:1: ", "'hours' twice", "columns 2 and 3"],
    ),
    "empty file": ("", RAGGED, ["t.csv: no rows"]),
    "header alone": ("school,grade\n", RAGGED, ["t.csv: no rows below the header"]),
    "wrong encoding": (
        TABLE.replace("chess", "schäch").encode("latin-1"),
        RAGGED,
        ["t.csv:2:8: byte 0xe4", "Save the file as UTF-8"],
    ),
    "short row": (
        TABLE.replace("a,2,none,3.5", "a,2,none"),
        RAGGED,
        ["t.csv:3: 3 cells", "quote cells"],
    ),
    "no task": (
        TABLE,
        ("--target", "grade"),
        ["'grade'", "--task COLUMN", "--targets"],
    ),
    "one class in every task": (
        "school,x,size\n" + "".join(f"{s},{k},{s}\n" for s in "abc" for k in range(4)),
        ("--target", "size", "--task", "school"),
        ["t.csv", "more than one class", "another task column"],
    ),
    "budget of nothing": (
        TABLE,
        (*RAGGED, "--budget", "0"),
        ["budget must be more than 0 minutes, not 0"],
    ),
    "metric of labels": (
        TABLE,
        (*RAGGED, "--metric", "auc"),
        ["metric 'auc'", "mse, rmse, nmse"],
    ),
    "calibrated numbers": (
        TABLE,
        (*RAGGED, "--calibrate"),
        ["--calibrate needs", "Leave it out"],
    ),
    "targets named twice": (
        TABLE,
        (*RAGGED, "--targets", "grade,hours"),
        ["named more than once", "--target, --targets, --targets-last and --labels"],
    ),
    "training rows of one day": (
        DAYS,
        (*RAGGED, "--time", "early"),
        ["another column with --time."],
    ),
    "training rows of one group": (
        DAYS,
        (*RAGGED, "--group", "early"),
        ["one group", "another column with --group."],
    ),
    "no target": (TABLE, (), ["no target", "--target COLUMN", "school", "grade"]),
    "no task, with an example": (
        TABLE,
        ("--target", "grade"),
        ["single task, 'grade'", "--task club", "--targets A,B,C"],
    ),
    "target and task swapped": (
        TABLE,
        ("--target", "school", "--task", "grade"),
        ["swapped?"],
    ),
    "a label of numbers": (
        TABLE,
        (*RAGGED, "--positive", "yes"),
        ["'grade'", "Leave out --positive"],
    ),
    "labels of numbers": (
        TABLE,
        (*RAGGED, "--task-type", "binary"),
        ["'grade'", "Leave out --task-type"],
    ),
    "no fraction": (
        TABLE,
        (*RAGGED, "--smallest-gain", "7"),
        ["--smallest-gain", "0.07"],
    ),
    "a margin of 2%": (TABLE, (*RAGGED, "--margin", "2"), ["--margin", "0.07"]),
    "a method of another name": (
        TABLE,
        (*RAGGED, "--methods", "RidgeMTL"),
        ["method 'RidgeMTL'", "'IndependentRidge'", "mtlrun list methods"],
    ),
    "unseen": (TABLE, (*RAGGED, "--unseen", "maen"), ["--unseen 'maen'", "'mean'"]),
    "unknown method": (
        TABLE,
        (*RAGGED, "--methods", "JointFeatureMLT"),
        ["method 'JointFeatureMLT'", "Did you mean 'JointFeatureMTL'"],
    ),
}


@pytest.mark.slow
def test_the_printed_predict_command_works_for_trees(mtlrun, tmp_path):
    """The command lists the types that must be trusted."""
    rng = np.random.default_rng(0)
    hours, age = rng.normal(size=(2, 240))
    frame = pd.DataFrame(
        {
            "school": np.arange(240) % 3,
            "hours": hours,
            "age": age,
            "grade": np.sign(hours * age),
        }
    )
    frame.to_csv(tmp_path / "grades.csv", index=False)
    trees = "sklearn.tree:DecisionTreeRegressor"
    words = (
        "--target",
        "grade",
        "--task",
        "school",
        "--methods",
        trees,
        "--splits",
        "2",
        "--repeats",
        "1",
        "--folds",
        "2",
        "-q",
    )
    result = mtlrun("compare", "grades.csv", *words)
    assert result.exit_code == 0, result.output
    assert (
        "DecisionTree"
        in (tmp_path / "results/runs/compare/grades/chosen.yaml").read_text()
    ), result.output
    (line,) = [line for line in result.stdout.splitlines() if "mtlrun predict" in line]
    command = line[line.index("mtlrun predict") :].replace("FILE", "grades.csv").split()
    predicted = mtlrun(*command[1:], "-o", "-", "-q")
    assert predicted.exit_code == 0, predicted.output


@pytest.mark.every(3, others="slow")
@pytest.mark.parametrize("case", BAD)
def test_errors_about_bad_input_name_its_remedy(mtlrun, tmp_path, case, lacking):
    content, arguments, words = BAD[case]
    (tmp_path / "t.csv").write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    result = mtlrun("compare", "t.csv", *arguments, "-q")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert not lacking(result.stderr, *words), result.stderr
    assert "Traceback" not in result.output


def test_a_label_list_with_a_missing_column_is_rejected(mtlrun, tmp_path, lacking):
    (tmp_path / "set.arff").write_text(ARFF)
    (tmp_path / "set.xml").write_text(
        '<labels><label name="red"></label><label name="bleu"></label></labels>'
    )
    result = mtlrun("compare", "set.arff", "--labels", "set.xml")
    assert result.exit_code == 2
    assert not lacking(result.stderr, "set.xml", "set.arff", "bleu", "'blue'?")


@pytest.mark.slow
def test_the_smallest_gain_the_margin_and_families_are_options(
    mtlrun, grades, tmp_path
):
    estimator = "sklearn.linear_model:Ridge"
    words = (
        "--methods",
        estimator,
        "--family",
        f"multi-task={estimator}",
        "--smallest-gain",
        "0.5",
        "--margin",
        "0.1",
        "--splits",
        "3",
        "--repeats",
        "1",
        "--folds",
        "2",
        "-q",
    )
    result = mtlrun("compare", "grades.csv", *RAGGED, *words)
    assert result.exit_code == 0, result.output
    report = json.loads(
        (tmp_path / "results/runs/compare/grades/leaderboard.json").read_text()
    )
    assert report["answer"]["smallest_gain"] == 0.5
    assert report["answer"]["margin"] == 0.1
    # One repeat of three folds.
    assert report["answer"]["chosen"]["multi-task"] == {"Ridge": 3}


def test_a_tiny_budget_still_produces_a_leaderboard(mtlrun, grades, tmp_path):
    result = mtlrun("compare", "grades.csv", *RAGGED, "--budget", "0.00001", "-q")
    assert result.exit_code == 0, result.output
    assert "TaskMean" in result.stdout
    assert result.stdout.startswith("No verdict.\nBest: TaskMean ")
    assert "No multi-task method is finished" in result.stdout
    # Methods that have not run have no row of dashes.
    assert "IndependentRidgeCV" not in result.stdout
    report = tmp_path / "results/runs/compare/grades/leaderboard.md"
    assert "no time was left for 5 of 5 splits of IndependentRidge" in (
        report.read_text()
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--budget", "nan"), ("budget", "nan")),
        (("--jobs", "0", "--budget", "1"), ("--jobs", "not 0", "-1")),
        (("--jobs", "-2"), ("--jobs", "not -2")),
        (("--methods", "Nope"), ("Nope", "mtlrun list methods", "TaskMean, ")),
        (
            ("--methods", "nowhere.at_all:Model"),
            ("'nowhere.at_all'", "'nowhere.at_all:Model'"),
        ),
        (
            ("--methods", "json.decoder:JSONDecoder"),
            ("'json.decoder:JSONDecoder'", "fit"),
        ),
        (("-o", "grades.csv"), ("grades.csv", "folder")),
        (("-o", "grades.csv/below"), ("grades.csv", "folder")),
        (("-o", "taken"), ("taken/compare", "folder")),
    ],
)
def test_unusable_options_are_rejected_before_any_fit(
    mtlrun, grades, tmp_path, lacking, more, words
):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/compare").touch()
    result = mtlrun(
        "compare", "grades.csv", "--target", "grade", "--task", "school", *more
    )
    assert result.exit_code == 2, result.output
    assert not lacking(result.stderr, *words)
    assert "TaskMean: rmse" not in result.stderr


def test_a_table_with_a_single_task_is_rejected(mtlrun, grades, tmp_path, lacking):
    pd.read_csv(grades).assign(school="only").to_csv(tmp_path / "one.csv", index=False)
    result = mtlrun("compare", "one.csv", "--target", "grade", "--task", "school")
    assert result.exit_code == 2
    assert not lacking(result.stderr, "one.csv", "'only'")
    assert "--task," in result.stderr


@pytest.mark.slow
def test_classes_with_the_same_name_get_separate_rows(mtlrun, grades, tmp_path):
    code = "import sklearn.linear_model\nclass Ridge(sklearn.linear_model.Ridge): ...\n"
    (tmp_path / "made_methods.py").write_text(code)
    options = (
        "--methods",
        "made_methods:Ridge,sklearn.linear_model:Ridge",
        "--splits",
        "2",
        "--repeats",
        "1",
        "--folds",
        "2",
        "-q",
    )
    result = mtlrun(
        "compare", "grades.csv", "--target", "grade", "--task", "school", *options
    )
    assert result.exit_code == 0, result.output
    board = pd.read_csv(tmp_path / "results/runs/compare/grades/leaderboard.csv")
    assert {"Ridge", "sklearn.linear_model:Ridge"} <= set(board["method"])


@pytest.mark.slow
def test_explanations_are_printed_with_explain(mtlrun, grades, lacking):
    words = ("compare", "grades.csv", *RAGGED, *FAST, "--explain")
    result = mtlrun(*words)
    assert result.exit_code == 0, result.output
    assert not lacking(
        result.stdout,
        "p is not corrected for multiple tests",
        "overlapping training rows",
        "chosen.yaml",
    )
    assert "Nadeau-Bengio" not in result.stdout
    assert "independent: IndependentRidge, IndependentRidgeCV" in result.stderr
    assert "TaskMean: rmse" in result.stderr


def leaderboard_of(n_methods):
    """Return a leaderboard whose first method is the best one."""
    evaluation = Evaluation(
        y=np.arange(4.0),
        row_index=RowIndex(2, np.array([0, 1, 0, 1])),
        rows=[np.arange(4)],
        new=[np.zeros(4, dtype=bool)],
        n_folds=1,
        n_repeats=1,
        measure=NMSE,
        smallest=0.01,
    )
    families = [MULTITASK] * (n_methods - 2) + [INDEPENDENT, POOLED]
    entries = []
    for k, family in enumerate(families):
        entry = ComparedMethod(f"method{k}", family, scores={0: k}, tasks={0: [k, k]})
        entry.seconds.append(1.0)
        entries.append(entry)
    label = entries[-1].label
    return Leaderboard(
        "t", "mse", False, ["a", "b"], [2, 2], entries, evaluation, label
    )


def test_the_best_method_of_each_strategy_is_among_the_rows_that_are_printed():
    grid = brief_grid(leaderboard_of(20), max_rows=5)
    ranks = [row[0] for row in grid.rows]
    assert ranks == [1, 2, 3, 19, 20]


class Clock:
    """Time that passes only when it is set."""

    now = 0.0


@pytest.fixture
def time(monkeypatch):
    """Return the clock of this process."""
    clock = Clock()
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    return clock


def test_no_thread_is_left_by_a_comparison_that_fails(tmp_path):
    threads = threading.enumerate()
    progress = CompareProgress(tmp_path, quiet=False, explain=False)
    assert threading.enumerate() == threads
    with contextlib.suppress(KeyboardInterrupt), progress.shown():
        assert len(threading.enumerate()) == len(threads) + 1
        raise KeyboardInterrupt
    assert threading.enumerate() == threads


def test_lines_about_an_unfinished_comparison_come_at_a_bounded_rate(
    time, tmp_path, capsys
):
    progress = CompareProgress(tmp_path, quiet=False, explain=False)
    board = leaderboard_of(3)
    for n_done in range(100):
        board.progress = BoardProgress(n_done, 100, time.now, None, "method1")
        progress.keep(board)
        time.now += 0.2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("0 of 100 fits done (0%)")
    assert "method0, method1" in lines[-1]


def test_the_last_line_tells_that_all_is_done(time, tmp_path, capsys):
    progress = CompareProgress(tmp_path, quiet=False, explain=False)
    board = leaderboard_of(3)
    for n_done in (1, 2, 3, 3):
        board.progress = BoardProgress(n_done, 3, 0.0, None, "method1")
        progress.keep(board)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "3"]


def test_writing_takes_a_twentieth_of_the_time(time, tmp_path, monkeypatch):
    progress = CompareProgress(tmp_path, quiet=True, explain=False)
    n_written = 0

    def write(board):
        nonlocal n_written
        n_written += 1
        time.now += 0.1

    monkeypatch.setattr(progress, "_write", write)
    for n_methods in range(1, 42):
        # Another method is finished each time.
        progress.keep(leaderboard_of(n_methods))
        time.now += 0.1
    assert n_written == 2
    assert progress.pending is not None
