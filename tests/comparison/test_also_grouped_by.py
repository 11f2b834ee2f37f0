"""Additional groups of a table (`also_grouped_by`): which methods use them, and what
new rows need.
"""

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.base import clone

import mtlrun
from mtlrun.comparison.candidates import (
    check_levels,
    default_candidates,
    named_candidates,
    nested_levels,
    with_levels,
)
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.errors import ConfigError, DataError, UnknownNameError
from mtlrun.lab.experiment.load import load_training
from mtlrun.lab.training import train
from mtlrun.model.files import load_model

#: These tests run complete comparisons, some of them in subprocesses.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_trees")]

N_SCHOOLS = 6
N_PUPILS = 8
N_ROWS = 5
FEW = {
    "methods": ["SmoothMTL", "SmoothPooled"],
    "splits": 2,
    "repeats": 1,
    "folds": 2,
}


def pupils(is_nested, has_labels=False, seed=0, n_pupils=N_PUPILS):
    """Return rows of pupils in schools; the levels of pupils differ a lot.

    Nested: each pupil is in one school. Crossed: the same pupils are in all schools.
    """
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(N_SCHOOLS), n_pupils * N_ROWS)
    pupil = np.tile(np.repeat(np.arange(n_pupils), N_ROWS), N_SCHOOLS)
    if is_nested:
        pupil = pupil + n_pupils * school
    level = 2 * rng.normal(size=pupil.max() + 1)
    n = len(school)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    frame["school"] = [f"s{t}" for t in school]
    frame["pupil"] = [f"p{k}" for k in pupil]
    frame["y"] = frame.a + level[pupil] + 0.5 * rng.normal(size=n)
    if has_labels:
        frame["y"] = np.where(frame.y > 0, "yes", "no")
    return frame


def dataset_of(frame, **roles):
    return make_dataset(
        table_of_frame(frame), Roles(targets=("y",), task="school", **roles)
    )


def compared(frame, **options):
    return mtlrun.compare(frame, **{"target": "y", "task": "school", **FEW, **options})


@pytest.fixture(scope="module", params=[True, False], ids=["nested", "crossed"])
def both(request):
    """Return a table and its comparison with pupils as additional groups."""
    frame = pupils(request.param)
    # Three splits, for a verdict.
    return frame, compared(frame, also_grouped_by="pupil", splits=3)


def score(result, label):
    (entry,) = [entry for entry in result.board.entries if entry.label == label]
    return entry.score


def test_levels_of_pupils_reduce_the_error_of_smooth_models(both):
    frame, with_groups = both
    # The target is linear in the features, and other methods ignore the column.
    options = {"methods": ["PooledRidge"], "splits": 3}
    without = compared(frame.drop(columns="pupil"), **options)
    for label in ("PooledRidge", "IndependentRidge"):
        assert score(with_groups, label) == score(without, label)
        assert score(with_groups, "SmoothMTL") < 0.5 * score(without, label)


def test_levels_of_pupils_improve_the_prediction_of_labels():
    frame = pupils(True, has_labels=True, n_pupils=4)
    result = compared(frame, also_grouped_by="pupil", methods=["SmoothMTL"])
    smooth = score(result, "SmoothMTLClassifier")
    assert smooth > score(result, "IndependentLogistic") + 0.1


def test_the_verdict_does_not_attribute_levels_of_pupils_to_sharing_between_schools(
    both,
):
    _, result = both
    # The model of all schools with one function also has levels of pupils.
    assert result.board.answer.gain.value < 0.1
    unshared = [entry.label for entry in result.board.entries]
    assert {"SmoothPooled", "SmoothIndependent"} <= set(unshared)
    assert score(result, "SmoothPooled") < 1.1 * score(result, "SmoothMTL")


def test_the_saved_model_uses_levels_of_pupils_and_accepts_new_pupils(both, tmp_path):
    frame, result = both
    assert result.saved in ("SmoothMTL", "SmoothPooled")
    model = load_model(result.save(tmp_path))
    assert "pupil" in model.feature_names_in_
    predicted = model.predict(frame)
    np.testing.assert_allclose(predicted, result.predict(frame).to_numpy().ravel())
    assert np.mean((predicted - frame.y) ** 2) < 1
    with pytest.warns(UserWarning, match="pupil"):
        X, tasks = model.read(frame.assign(pupil="new"))
    assert np.mean((model.scores(X, tasks) - frame.y) ** 2) > 1
    known_X, known_tasks = model.read(frame)
    known_std = model.deviations(known_X, known_tasks)
    assert (model.deviations(X, tasks) > 1.5 * known_std).all()


def test_a_missing_column_of_pupils_is_named(both):
    frame, result = both
    with pytest.raises(DataError, match="pupil"):
        result.model.predict(frame.drop(columns="pupil"))


def test_the_order_of_columns_and_the_type_of_names_do_not_matter(both):
    frame, result = both
    again = frame[["y", "pupil", "b", "school", "a"]]
    expected = result.model.predict(frame)
    np.testing.assert_array_equal(result.model.predict(again), expected)


def test_the_saved_model_can_be_refitted_to_other_rows(both):
    frame, result = both
    other = frame.iloc[::2].assign(y=lambda rows: rows.y + 10)
    model = clone(result.model).fit(other)
    assert np.mean((model.predict(other) - other.y) ** 2) < 1


def test_the_training_file_reproduces_the_model(both, tmp_path):
    frame, result = both
    folder = result.save(tmp_path)
    config = yaml.safe_load((folder / "chosen.yaml").read_text())
    assert config["features"] == "table+levels"
    training = load_training(folder / "chosen.yaml", data_dir=folder / "data")
    done = train(training, output=tmp_path / "again", data_dir=folder / "data")
    expected = result.model.predict(frame)
    np.testing.assert_array_equal(load_model(done.folder).predict(frame), expected)


def test_a_method_without_levels_needs_no_column_of_pupils():
    frame = pupils(True, n_pupils=3)
    frame["y"] = frame.a + 0.1 * np.random.default_rng(1).normal(size=len(frame))
    methods = ["SmoothMTL", "PooledRidge"]
    result = compared(frame, also_grouped_by="pupil", methods=methods)
    model = result.model
    if result.saved.startswith("Smooth"):
        pytest.skip("a smooth model is the best one")
    assert "pupil" not in model.feature_names_in_
    assert np.isfinite(model.predict(frame.drop(columns="pupil"))).all()


# --- which methods use the groups ---


@pytest.mark.parametrize("is_nested", [True, False])
def test_a_single_task_model_takes_only_nested_groups(is_nested):
    data = dataset_of(pupils(is_nested), also_grouped_by=("pupil",))
    assert nested_levels(data) == (["pupil"] if is_nested else [])
    candidates = [with_levels(c, data) for c in default_candidates(data, 0.8)]
    users = {c.label for c in candidates if c.features}
    expected = {"SmoothMTL", "SmoothPooled"}
    if is_nested:
        expected.add("SmoothIndependent")
    assert users == expected


def test_the_column_of_groups_is_not_a_feature():
    data = dataset_of(pupils(True), also_grouped_by=("pupil",))
    assert data.features == ["a", "b"]
    assert data.with_levels().features == ["a", "b", "pupil"]
    names = [data.level_names["pupil"][code] for code in data.levels["pupil"]]
    assert names == pupils(True).pupil.tolist()


def test_rows_of_levels_follow_a_subset():
    data = dataset_of(pupils(True), also_grouped_by=("pupil",))
    rows = np.array([7, 3, 100])
    part = data.subset(rows)
    np.testing.assert_array_equal(part.levels["pupil"], data.levels["pupil"][rows])


def test_two_columns_of_groups_are_two_factors():
    frame = pupils(True).assign(day=lambda rows: np.arange(len(rows)) % 7)
    data = dataset_of(frame, also_grouped_by=("pupil", "day"))
    assert nested_levels(data) == ["pupil"]
    (smooth,) = [c for c in default_candidates(data, 0.8) if c.label == "SmoothMTL"]
    inner = with_levels(smooth, data).params["estimator"]["params"]
    assert inner["levels"] == [-2, -1]


def test_rows_of_a_group_may_also_be_kept_together():
    frame = pupils(True, n_pupils=3)
    result = compared(frame, also_grouped_by="pupil", group="pupil")
    # Every tested pupil is new, so the level of the pupil is unknown.
    assert score(result, "SmoothMTL") > 1.5
    assert any("without training rows" in fact for fact in result.board.facts)


# --- errors ---


def test_an_unknown_column_is_reported_with_the_closest_name():
    with pytest.raises(UnknownNameError, match="pupil"):
        compared(pupils(True), also_grouped_by="pupils")


@pytest.mark.parametrize(
    "options",
    [
        {"drop": "pupil"},
        {"categorical": "pupil"},
        {"keep": "pupil"},
        {"weight": "pupil"},
        {"time": "pupil"},
    ],
)
def test_a_column_with_another_role_is_rejected(options):
    frame = pupils(True).assign(pupil=lambda rows: np.arange(len(rows)) // 5)
    with pytest.raises(DataError, match="pupil"):
        compared(frame, also_grouped_by="pupil", **options)


@pytest.mark.parametrize("name", ["school", "y"])
def test_the_task_and_the_target_cannot_be_additional_groups(name):
    with pytest.raises(DataError, match=name):
        compared(pupils(True), also_grouped_by=name)


def test_an_empty_cell_is_rejected():
    frame = pupils(True)
    frame.loc[3, "pupil"] = None
    with pytest.raises(DataError, match="row 4"):
        compared(frame, also_grouped_by="pupil")


def test_methods_that_cannot_use_the_groups_are_rejected():
    with pytest.raises(ConfigError) as caught:
        compared(pupils(True), also_grouped_by="pupil", methods=["GraphMTL"])
    assert "SmoothMTL" in caught.value.remedy


def test_tasks_on_the_same_rows_cannot_have_additional_groups():
    frame = pupils(True).assign(z=1.0).drop(columns="school")
    frame["z"] = frame.b
    with pytest.raises(ConfigError):
        mtlrun.compare(frame, targets=["y", "z"], also_grouped_by="pupil", **FEW)


def test_more_crossed_groups_than_the_limit_are_rejected():
    for is_nested in (True, False):
        frame = pupils(is_nested, n_pupils=2001)
        frame = frame[frame.school < "s2"].drop_duplicates(["school", "pupil"])
        data = dataset_of(frame, also_grouped_by=("pupil",))
        plain_candidates = named_candidates(["SmoothMTL"], data, 0.8)
        candidates = [with_levels(candidate, data) for candidate in plain_candidates]
        if is_nested:
            check_levels(data, candidates)
            continue
        with pytest.raises(ConfigError, match="pupil") as caught:
            check_levels(data, candidates)
        assert "--task pupil" in caught.value.remedy


def test_data_in_chunks_cannot_have_additional_groups(tmp_path):
    frame = pupils(True)
    for k in range(2):
        frame.iloc[k::2].to_csv(tmp_path / f"{k}.csv", index=False)
    with pytest.raises(ConfigError, match="also"):
        mtlrun.compare(tmp_path, target="y", task="school", also_grouped_by="pupil")
