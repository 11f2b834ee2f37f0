"""The model of a comparison is a scikit-learn estimator of the user's frames."""

import inspect
import io
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import cross_val_score
from sklearn.utils.validation import check_is_fitted

import mtlrun
from mtlrun.cli.compare import compare as command
from mtlrun.comparison.options import CompareOptions, TargetColumns
from mtlrun.data.roles.roles import Roles
from mtlrun.data.sets.labelled import read
from mtlrun.errors import DataError, UnknownNameError, UserError
from mtlrun.model.fitted import answers_table

RNG = np.random.default_rng(0)
FAST = {"splits": 2, "repeats": 1, "folds": 2}


@pytest.fixture(scope="module")
def frame():
    X = pd.DataFrame(RNG.normal(size=(90, 3)), columns=list("abc"))
    X["colour"] = RNG.choice(["red", "blue"], 90)
    X["school"] = np.repeat(["north", "south", "west"], 30)
    X["grade"] = 2 * X.a - X.b + 0.3 * RNG.normal(size=90)
    X["passed"] = np.where(X.grade > 0, "yes", "no")
    X["level"] = pd.cut(X.grade, [-99, -1, 1, 99], labels=["low", "mid", "top"]).astype(
        str
    )
    has_top = (X.school == "north") & (X.level == "top")
    X["rank"] = X.level.mask(has_top, "mid")
    X["points"] = (X.a + X.c > 0).astype(int)
    return X


def compared(frame, columns, **options):
    roles = {"grade", "passed", "level", "points", "rank", "school"} - set(columns)
    method = "GraphMTL" if "grade" in columns else "PooledLogistic"
    return mtlrun.compare(
        frame, methods=[method], drop=sorted(roles), **FAST, **options
    )


CASES = {
    "numbers": (["grade", "school"], {"target": "grade", "task": "school"}),
    "labels": (["passed", "school"], {"target": "passed", "task": "school"}),
    "shared": (["passed", "points"], {"targets": ["passed", "points"]}),
    # The best method of these two has no probabilities of its own.
    "classes": (["level"], {"target": "level", "calibrate": True}),
    "classes of tasks": (
        ["rank", "school"],
        {"target": "rank", "task": "school", "calibrate": True},
    ),
    "classes and labels": (["level", "passed"], {"targets": ["level", "passed"]}),
}


#: The cases; the first test runs use two of them, because each comparison takes
#: seconds.
FEW = [
    case
    if case in ("numbers", "classes of tasks")
    else pytest.param(case, marks=pytest.mark.slow)
    for case in CASES
]


class Results(dict):
    """Return the comparison of each case, computed on first use."""

    def __init__(self, frame):
        self.frame = frame

    def __missing__(self, case):
        columns, options = CASES[case]
        self[case] = compared(self.frame, columns, **options)
        return self[case]


@pytest.fixture(scope="module")
def results(frame):
    return Results(frame)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_predictions_of_test_rows_are_written_with_the_names_of_the_table(
    frame, results, case
):
    result, options = results[case], CASES[case][1]
    predictions = pd.read_csv(io.StringIO(result.trained.predictions))
    rows = frame.iloc[predictions["row"]]
    if "task" in options:
        assert predictions["task"].tolist() == rows[options["task"]].tolist()
    if case == "labels":
        assert predictions["target"].tolist() == rows["passed"].tolist()
    if case != "numbers":
        targets = options.get("targets", ["label"])
        truth = rows[options.get("targets", [options.get("target")])]
        assert (predictions[targets].to_numpy() == truth.to_numpy()).mean() > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("case", FEW)
def test_predictions_have_the_names_of_the_table_and_agree_everywhere(
    frame, results, case, tmp_path
):
    result, options = results[case], CASES[case][1]
    targets = [options["target"]] if "target" in options else options["targets"]
    predicted = result.predict(frame)
    if case == "numbers":
        assert np.corrcoef(predicted, frame.grade)[0, 1] > 0.9
    else:
        assert set(np.ravel(predicted)) <= set(np.ravel(frame[targets]))
        assert (
            np.asarray(predicted).reshape(90, -1) == frame[targets].to_numpy()
        ).mean() > 0.75
    assert list(predicted.columns if len(targets) > 1 else [predicted.name]) == targets
    # With or without targets, with rows and columns in another order and another index.
    other = frame.drop(columns=targets)[::-1].set_index(np.arange(90) + 7)[
        sorted(set(frame) - set(targets))
    ]
    again = result.predict(other)
    assert again.index.tolist() == other.index.tolist()
    np.testing.assert_array_equal(np.asarray(again)[::-1], np.asarray(predicted))
    result.save(tmp_path / "out")
    for path in (tmp_path / "out" / "model", str(tmp_path / "out" / "model")):
        np.testing.assert_array_equal(
            mtlrun.load_model(path).predict(frame), np.asarray(predicted)
        )
    table = answers_table(result.model, *result.model.read(frame))
    np.testing.assert_array_equal(
        table[
            targets
            if len(targets) > 1
            else ["prediction" if case == "numbers" else "label"]
        ]
        .to_numpy()
        .ravel(),
        np.ravel(predicted),
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", FEW[1:])
def test_probabilities_refer_to_the_labels_and_sum_to_one(frame, results, case):
    result = results[case]
    probabilities = result.predict_proba(frame)
    targets = CASES[case][1].get("targets") or [""]
    for target in targets:
        mine = (
            probabilities[[c for c in probabilities if c.startswith(f"{target}=")]]
            if target
            else probabilities
        )
        np.testing.assert_allclose(mine.sum(axis=1), 1)
        best = mine.idxmax(axis=1).str.removeprefix(f"{target}=")
        labels = result.predict(frame) if not target else result.predict(frame)[target]
        assert (best.to_numpy() == labels.astype(str).to_numpy()).mean() > 0.9
    raw = result.model.predict_proba(frame)
    np.testing.assert_array_equal(
        np.hstack(raw) if isinstance(raw, list) else raw, probabilities
    )


@pytest.mark.parametrize("case", FEW)
def test_the_model_is_an_estimator_that_can_be_cloned_fitted_and_stored(
    frame, results, case, tmp_path
):
    model, options = results[case].model, CASES[case][1]
    targets = [options["target"]] if "target" in options else options["targets"]
    columns = [
        "a",
        "b",
        "c",
        "colour",
        *([options["task"]] if "task" in options else []),
    ]
    assert model.feature_names_in_.tolist() == columns
    assert model.n_features_in_ == len(columns)
    assert (is_regressor(model), is_classifier(model)) == (
        case == "numbers",
        case != "numbers",
    )
    check_is_fitted(model)
    assert "estimator" in model.get_params()
    expected = model.predict(frame)
    np.testing.assert_array_equal(model.predict(frame[columns]), expected)
    joblib.dump(model, tmp_path / "m.joblib")
    for stored in (
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "m.joblib"),
    ):
        np.testing.assert_array_equal(stored.predict(frame), expected)
    copy = clone(model)
    assert not copy.__sklearn_is_fitted__()
    assert not hasattr(copy, "n_features_in_")
    y = frame[targets] if len(targets) > 1 else frame[targets[0]]
    copy.fit(frame.drop(columns=targets), y)  # The same rows give the same model.
    if case == "numbers":
        np.testing.assert_allclose(copy.predict(frame), expected, rtol=1e-3, atol=1e-3)
    else:
        assert np.mean(copy.predict(frame) == expected) > 0.95
    assert copy.score(frame, y) > 0.75


def test_scikit_learn_can_cross_validate_the_model(frame, results):
    mixed = frame.sample(frac=1, random_state=0)
    scores = cross_val_score(
        results["numbers"].model, mixed.drop(columns="grade"), mixed.grade, cv=3
    )
    assert scores.min() > 0.8


def test_unknown_tasks_and_missing_columns_are_reported_with_the_remedy(frame, results):
    result = results["numbers"]
    with pytest.raises(
        UnknownNameError,
        match=r"(?s)row 1: 'norht' \(also unknown: 'est'|est\).*'north'.*unseen='mean'",
    ):
        result.predict(frame.replace({"school": {"north": "norht", "west": "est"}}))
    with pytest.raises(DataError, match=r"(?s)3 tasks.*Add a column 'school'"):
        result.predict(frame.drop(columns="school"))
    with pytest.raises(DataError, match="missing: a, b"):
        result.predict(frame.drop(columns=["a", "b"]))
    with pytest.raises(UserError, match="numbers, not probabilities"):
        result.predict_proba(frame)
    with pytest.raises(UnknownNameError, match="'east'"):
        results["classes of tasks"].predict(frame.assign(school="east"))


@pytest.mark.slow
def test_each_task_predicts_only_its_own_labels(frame, results):
    result = results["classes of tasks"]
    predicted = result.predict(frame)
    assert set(predicted[frame.school == "north"]) <= {"low", "mid"}
    assert (predicted == frame["rank"]).mean() > 0.75
    chances = result.predict_proba(frame)
    assert (chances.loc[frame.school == "north", "top"] == 0).all()
    scores = result.model.decision_function(frame)
    assert result.model.classes_.tolist() == ["low", "mid", "top"]
    assert scores.shape == (90, 3)
    assert (scores[frame.school == "north", 2] == -np.inf).all()
    labels = result.model.classes_[scores.argmax(axis=1)]
    assert (labels == predicted).all()


def test_a_result_is_displayed_in_ten_lines_and_as_a_table(results):
    result = results["numbers"]
    text = repr(result)
    assert result.verdict in text
    assert "IndependentRidge" in text
    assert len(text.splitlines()) <= 12
    assert "<table" in result._repr_html_()
    assert "GraphMTL" in result._repr_html_()
    for table in (result.leaderboard, result.tasks, result.coefficients):
        assert isinstance(table, pd.DataFrame)
        assert all(isinstance(name, str) for name in table.columns)
    assert "north" in result.tasks.index


def test_the_package_lists_its_public_names_and_imports_little():
    assert {"compare", "load_model", "__version__"} <= set(dir(mtlrun))
    code = "import sys, mtlrun; dir(mtlrun); sys.exit('numpy' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_targets_may_be_given_as_a_number_of_last_columns(frame):
    table = frame[["a", "b", "school", "grade"]]
    options = {"task": "school", "methods": "IndependentRidge", **FAST}
    plain = mtlrun.compare(table, target="grade", **options)
    other = mtlrun.compare(table, targets_last=1, **options)
    assert plain.leaderboard["rmse"].tolist() == other.leaderboard["rmse"].tolist()


def parameters_of(function):
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
    }


def test_options_have_the_same_names_in_shell_and_python():
    shell = parameters_of(command).keys()
    # In Python a sheet stands behind the path: "book.xlsx#Visits".
    shell -= {"output_dir", "quiet", "debug", "explain", "sheet"}
    python = parameters_of(mtlrun.compare).keys() - {"say", "finished", "output"}
    assert shell == python


@pytest.mark.parametrize("options", [CompareOptions, Roles, TargetColumns])
def test_the_signature_of_compare_has_all_options_with_their_defaults(options):
    signature = parameters_of(mtlrun.compare)
    for name, default in parameters_of(options).items():
        assert signature[name] == default, name


def test_the_command_has_the_defaults_of_the_roles():
    shell = parameters_of(command)
    for name, default in parameters_of(Roles).items():
        # On the command line, lists are None until a name is given.
        expected = None if default == () else default
        assert shell[name] == expected, name


def test_the_reader_of_cards_has_all_roles_with_their_defaults():
    reader = parameters_of(read)
    for name, default in parameters_of(Roles).items():
        assert reader[name] == default, name
