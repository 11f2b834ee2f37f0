"""Return values of a saved model in a program that predicts with it."""

import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from typer.testing import CliRunner

import mtlrun
from mtlrun.cli.app import app
from mtlrun.errors import UnknownNameError, UserError
from mtlrun.model.files import load_model

FAST = {"splits": 2, "repeats": 1, "folds": 2}


def rows():
    """Return rows of three schools with two targets, every third of them large."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(90, 3)), columns=list("abc"))
    frame["size"] = np.resize(["large", "small", "small"], 90)
    frame["school"] = np.repeat(["north", "south", "west"], 30)
    frame["y"] = frame.a + (frame["size"] == "large") + 0.2 * rng.normal(size=90)
    frame["z"] = frame.b - frame.a + 0.2 * rng.normal(size=90)
    return frame


def compared(folder, frame, method, **roles):
    """Return a comparison with one method, and its model read from files."""
    result = mtlrun.compare(frame, methods=[method], **roles, **FAST)
    return result, load_model(result.save(folder))


@pytest.fixture(scope="module")
def schools(tmp_path_factory):
    frame = rows().drop(columns="z")
    folder = tmp_path_factory.mktemp("schools")
    roles = {"target": "y", "task": "school", "unseen": "mean"}
    return compared(folder, frame, "HierarchicalMTL", **roles)


@pytest.fixture(scope="module")
def two_targets(tmp_path_factory):
    frame = rows().drop(columns=["school", "size"])
    folder = tmp_path_factory.mktemp("targets")
    return compared(folder, frame, "JointFeatureMTL", targets=["y", "z"])


def test_a_frame_gives_a_series_with_its_index_before_and_after_saving(schools):
    result, loaded = schools
    new = rows().drop(columns=["y", "z"]).set_axis(range(100, 190))
    predicted = result.predict(new)
    assert isinstance(predicted, pd.Series)
    assert predicted.name == "y"
    assert predicted.index.equals(new.index)
    pd.testing.assert_series_equal(loaded.predict(new), predicted)


def test_several_targets_give_a_frame_with_their_names(two_targets):
    result, loaded = two_targets
    new = rows()[["a", "b", "c"]].iloc[5:9]
    predicted = result.predict(new)
    assert list(predicted.columns) == ["y", "z"]
    assert list(predicted.index) == [5, 6, 7, 8]
    pd.testing.assert_frame_equal(loaded.predict(new), predicted)


def test_an_array_gives_an_array_before_and_after_saving(two_targets):
    result, loaded = two_targets
    new = rows()[["a", "b", "c"]]
    for model in (result, loaded):
        predicted = model.predict(new.to_numpy())
        assert isinstance(predicted, np.ndarray)
        np.testing.assert_array_equal(predicted, result.predict(new).to_numpy())


def test_scikit_learn_tools_accept_the_model_as_an_estimator(schools):
    _, loaded = schools
    frame = rows().drop(columns="z")
    X = frame.drop(columns="y")
    shuffled = np.random.default_rng(0).permutation(90)
    X, y = X.iloc[shuffled], frame.y.iloc[shuffled]
    assert cross_val_score(loaded, X, y, cv=2).min() > 0.5
    assert cross_val_predict(loaded, X, y, cv=2).shape == (90,)
    assert permutation_importance(loaded, X, y, n_repeats=2).importances_mean[0] > 0.1
    logarithm = TransformedTargetRegressor(
        loaded, func=np.sinh, inverse_func=np.arcsinh
    )
    assert logarithm.fit(X, y).predict(X).shape == (90,)
    values = {"estimator": [loaded.estimator]}
    assert GridSearchCV(loaded, values, cv=2).fit(X, y).best_score_ > 0.5


def test_each_row_is_flagged_without_warnings(schools):
    _, loaded = schools
    new = rows().drop(columns=["y", "z"]).iloc[:4].set_axis(list("pqrs"))
    new.loc["q", "size"] = "huge"
    new.loc["r", "a"] = np.nan
    new.loc["s", "school"] = "east"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = loaded.predict_table(new)
    assert list(table.index) == list("pqrs")
    assert table.unknown_categories.tolist() == [(), ("size",), (), ()]
    assert table.missing.tolist() == [(), (), ("a",), ()]
    assert table.is_known_task.tolist() == [True, True, True, False]
    with pytest.warns(UserWarning, match="size") as caught:
        predicted = loaded.predict(new)
    assert sum("size" in str(warning.message) for warning in caught) == 1
    np.testing.assert_array_equal(table["prediction"], predicted)


def test_a_single_row_is_predicted_as_in_a_batch(schools):
    _, loaded = schools
    new = rows().drop(columns=["y", "z"])
    batch = loaded.predict_table(new)
    for position in (0, 40, 89):
        alone = loaded.predict_table(new.iloc[[position]])
        assert alone["prediction"].iloc[0] == pytest.approx(
            batch["prediction"].iloc[position]
        )


def test_a_table_has_the_limits_of_intervals(schools):
    result, loaded = schools
    new = rows().drop(columns=["y", "z"])
    table = loaded.predict_table(new, interval=0.9)
    assert (table.lower < table["prediction"]).all()
    assert (table["prediction"] < table.upper).all()
    pd.testing.assert_frame_equal(result.predict_table(new, interval=0.9), table)
    with pytest.raises(UserError, match="interval"):
        loaded.predict_table(new, interval=95)


@pytest.mark.slow
def test_labels_have_probabilities_and_flags(tmp_path):
    frame = rows().drop(columns="z").assign(y=lambda rows: rows.y > 0)
    roles = {"target": "y", "task": "school"}
    _, loaded = compared(tmp_path, frame, "IndependentLogistic", **roles)
    new = frame.drop(columns="y").assign(size="huge")
    table = loaded.predict_table(new, probabilities=True)
    assert set(table.unknown_categories) == {("size",)}
    (column,) = [name for name in table.columns if name.endswith("probability")]
    assert table[column].between(0, 1).all()
    with pytest.raises(UnknownNameError, match="unseen='mean'"):
        loaded.predict(new.assign(school="east"))


@pytest.mark.slow
def test_rows_of_tasks_that_cannot_be_predicted_are_empty(tmp_path):
    frame = rows().drop(columns="z")
    _, loaded = compared(tmp_path, frame, "IndependentRidge", target="y", task="school")
    new = frame.drop(columns="y").iloc[[0, 40, 89]]
    expected = loaded.predict_table(new, interval=0.9)
    new = new.assign(school=["north", "east", "west"])
    table = loaded.predict_table(new, interval=0.9)
    assert table.task.tolist() == ["north", "east", "west"]
    assert table.is_known_task.tolist() == [True, False, True]
    numbers = ["prediction", "lower", "upper"]
    assert table[numbers].isna().all(axis=1).tolist() == [False, True, False]
    pd.testing.assert_frame_equal(
        table.loc[[0, 89], numbers], expected.loc[[0, 89], numbers]
    )


@pytest.mark.slow
def test_labels_of_tasks_that_cannot_be_predicted_are_none(tmp_path):
    frame = rows().drop(columns="z").assign(y=lambda rows: rows.y > 0)
    _, loaded = compared(
        tmp_path, frame, "IndependentLogistic", target="y", task="school"
    )
    new = frame.drop(columns="y").iloc[[0, 89]].assign(school=["east", "west"])
    table = loaded.predict_table(new)
    assert table.label.iloc[0] is None
    assert table.label.iloc[1] in (True, False)


def test_rows_outside_the_times_of_the_training_rows_are_flagged(tmp_path):
    frame = rows().drop(columns="z").assign(day=np.tile(np.arange(30), 3))
    roles = {"target": "y", "task": "school", "since_first": "day"}
    _, loaded = compared(tmp_path, frame, "IndependentRidge", **roles)
    new = frame.drop(columns="y").iloc[:3].assign(day=[29, 30, -1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = loaded.predict_table(new)
        loaded.predict(new.iloc[:1])
    assert table.is_beyond_times.tolist() == [False, True, True]
    with pytest.warns(UserWarning, match="2 rows") as caught:
        loaded.predict(new)
    assert len(caught) == 1


@pytest.fixture(scope="module")
def visit_model(tmp_path_factory):
    """Return a table of visits, and the folder of a model that was fitted to it."""
    folder = tmp_path_factory.mktemp("visits")
    frame = rows().drop(columns="z").assign(day=np.tile(np.arange(30), 3))
    frame = frame.assign(visit_id=[f"v{k}" for k in range(90)], note="fine")
    roles = {"target": "y", "task": "school", "time": "day", "drop": ["note"]}
    options = {"methods": ["IndependentRidge"], "splits": 2, "folds": 2}
    mtlrun.compare(frame, **roles, **options).save(folder)
    return frame, folder


def predicted(folder, new, tmp_path, *options):
    """Return the output of the command for new rows, and its messages."""
    source = tmp_path / "new.csv"
    new.to_csv(source, index=False)
    out = tmp_path / "out.csv"
    words = ["predict", str(folder), str(source), "-o", str(out), *options]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return pd.read_csv(out, keep_default_na=False), result.stderr


def test_the_command_flags_what_is_unlike_the_training_rows(visit_model, tmp_path):
    frame, folder = visit_model
    new = frame.iloc[:8].copy()
    new.loc[1, "size"] = "huge"
    new.loc[2, "a"] = np.nan
    new.loc[3, "a"] = 1e6
    new.loc[4, "school"] = "east"
    new.loc[5, "school"] = " NORTH"
    new.loc[6, "school"] = ""
    table, messages = predicted(folder, new, tmp_path)
    assert table.unknown_categories.tolist() == ["", "size", *[""] * 6]
    assert table.missing.tolist() == ["", "", "a", *[""] * 5]
    assert table.beyond_range.tolist() == ["", "", "", "a", *[""] * 4]
    assert table.is_known_task.tolist()[3:] == [True, False, False, False, True]
    assert table.similar_task.tolist() == [*[""] * 5, "north", "", ""]
    assert (table.prediction == "").tolist() == [False] * 4 + [True] * 3 + [False]
    about_columns = [line for line in messages.splitlines() if "training r" in line]
    assert sum("'a' (1" in line for line in about_columns) == 2
    # The same flags as in Python.
    flags = mtlrun.load_model(folder).predict_table(new)
    joined = flags.beyond_range.map("; ".join)
    assert joined.tolist() == table.beyond_range.tolist()


def test_a_target_may_have_the_name_of_a_flag(tmp_path):
    frame = rows().drop(columns="school").rename(columns={"z": "missing"})
    options = {"methods": ["IndependentRidge"], "splits": 2, "folds": 2}
    result = mtlrun.compare(frame, targets=["y", "missing"], **options)
    result.save(tmp_path / "model")
    table, _ = predicted(tmp_path / "model", frame[:3], tmp_path)
    expected = result.predict(frame[:3]).missing
    assert table.missing.tolist() == pytest.approx(expected.tolist(), abs=1e-4)
    assert table["missing (2)"].tolist() == ["", "", ""]


def test_an_empty_task_does_not_claim_that_new_tasks_have_no_predictions(
    schools, tmp_path
):
    result, _ = schools
    new = rows().drop(columns=["y", "z"]).iloc[:3].assign(school=["north", "east", ""])
    folder = result.save(tmp_path / "model")
    table, messages = predicted(folder, new, tmp_path)
    assert (table.prediction == "").tolist() == [False, False, True]
    assert "No predictions" not in messages


def test_the_output_keeps_identifiers_times_and_the_numbers_of_rows(
    visit_model, tmp_path
):
    frame, folder = visit_model
    table, _ = predicted(folder, frame.iloc[[3, 40]], tmp_path)
    # Line 1 has the names of the columns.
    assert table.row.tolist() == [2, 3]
    assert list(table.columns)[:5] == ["row", "task", "day", "visit_id", "prediction"]
    assert table.visit_id.tolist() == ["v3", "v40"]
    assert table.day.tolist() == [3, 10]
    assert not {"note", "y"} & set(table)


def test_rows_of_a_workbook_are_numbered_as_in_its_sheet(visit_model, tmp_path):
    frame, folder = visit_model
    source = tmp_path / "new.xlsx"
    frame.iloc[:3].to_excel(source, index=False, startrow=2)
    out = tmp_path / "out.csv"
    result = CliRunner().invoke(
        app, ["predict", str(folder), str(source), "-o", str(out)]
    )
    assert result.exit_code == 0, result.output
    assert pd.read_csv(out).row.tolist() == [4, 5, 6]


def test_a_model_of_an_earlier_version_has_no_ranges(visit_model, tmp_path):
    frame, folder = visit_model
    model = mtlrun.load_model(folder)
    model.facts = deepcopy(model.facts)
    del model.facts["input"]["ranges"]
    new = frame.iloc[:2].assign(a=1e6)
    assert model.predict_table(new).beyond_range.tolist() == [(), ()]


def patients():
    """Return rows of patients whose numbers have no zeros in front."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(90, 102), 8)
    x = rng.normal(size=96)
    y = x + rng.normal(size=12)[ids - 90] + 0.1 * rng.normal(size=96)
    return pd.DataFrame({"patient": ids.astype(str), "x": x, "y": y})


@pytest.fixture(scope="module", params=["error", "mean"])
def patient_model(request, tmp_path_factory):
    """Return a model of patients, and whether it predicts unknown ones."""
    folder = tmp_path_factory.mktemp(request.param)
    options = {"methods": ["IndependentRidge"], "splits": 2, "repeats": 1, "folds": 2}
    roles = {"target": "y", "task": "patient", "unseen": request.param}
    mtlrun.compare(patients(), **roles, **options).save(folder)
    return folder, mtlrun.load_model(folder), request.param == "mean"


def padded(n_rows=30):
    """Return new rows whose ids have zeros in front, and one of a new patient."""
    new = patients().drop(columns="y").head(n_rows)
    new["patient"] = new["patient"].str.zfill(5)
    new.loc[0, "patient"] = "someone"
    return new


def test_ids_that_nearly_match_are_named_by_predict(patient_model):
    _, model, predicts_unknown = patient_model
    if predicts_unknown:
        with pytest.warns(UserWarning, match="30 rows of 5 tasks") as caught:
            model.predict(padded())
        text = str(caught[0].message)
    else:
        with pytest.raises(UnknownNameError) as error:
            model.predict(padded())
        text = str(error.value)
    assert "4 resemble tasks" in text
    assert "'00090' ('90')" in text


def test_ids_that_nearly_match_are_flagged_in_each_row(patient_model):
    _, model, _ = patient_model
    table = model.predict_table(padded(3))
    assert table.similar_task.tolist() == [None, "90", "90"]
    assert not table.is_known_task.any()
    known = model.predict_table(patients().head(3))
    assert known.similar_task.tolist() == [None] * 3


def test_ids_that_nearly_match_are_named_by_the_command(patient_model, tmp_path):
    folder, _, predicts_unknown = patient_model
    new = pd.concat([padded(), patients().head(1)])
    new.to_csv(tmp_path / "new.csv", index=False)
    arguments = ["predict", folder, tmp_path / "new.csv", "-o", tmp_path / "out.csv"]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    assert "30 rows of 5 tasks" in result.stderr
    assert "'00090' ('90')" in result.stderr
    is_empty = pd.read_csv(tmp_path / "out.csv").prediction.isna()
    assert is_empty.head(30).all() != predicts_unknown


def test_ids_of_known_patients_cause_no_message(patient_model, recwarn):
    _, model, _ = patient_model
    model.predict(patients())
    assert not recwarn.list
