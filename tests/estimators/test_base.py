"""Behavior of all estimators: layouts, ids, unseen tasks, labels, routing."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from all_cases import all_cases
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mtlrun.estimators import base, inputs
from mtlrun.estimators.clustered import CMTL, MeTaG
from mtlrun.estimators.independent import (
    IndependentLogistic,
    IndependentRidge,
    PooledRidge,
)
from mtlrun.estimators.mkl import GroupMKLClassifier


@pytest.fixture
def ragged():
    """Return three tasks with different models, rows in random order and string ids."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    ids = np.array(["b", "a", "c"])[rng.integers(0, 3, size=60)]
    slopes = {"a": 1.0, "b": -2.0, "c": 5.0}
    y = X[:, 0] * np.array([slopes[i] for i in ids]) + 0.01 * rng.normal(size=60)
    return X, y, ids


# ---------------------------------------------------------------- layouts


def test_tasks_are_sorted_and_rows_keep_their_order(ragged):
    X, y, ids = ragged
    model = IndependentRidge(alpha=1e-6).fit(X, y, task_id=ids)
    assert model.tasks_.tolist() == ["a", "b", "c"]
    assert_allclose(model.coef_[:, 0], [1, -2, 5], atol=0.05)
    assert_allclose(model.predict(X, task_id=ids), y, atol=0.1)
    shuffled = np.random.default_rng(1).permutation(60)
    again = IndependentRidge(alpha=1e-6).fit(
        X[shuffled], y[shuffled], task_id=ids[shuffled]
    )
    assert_allclose(again.coef_, model.coef_, atol=1e-10)


def test_a_target_without_ids_is_a_single_task(ragged):
    X, y, _ = ragged
    model = IndependentRidge().fit(X, y)
    assert model.coef_.shape == (1, 4)
    assert model.predict(X).shape == (60,)
    with pytest.raises(ValueError, match="without ids"):
        model.predict(X, task_id=np.zeros(60))


def test_a_shared_design_equals_the_same_rows_repeated_per_task(ragged):
    X, y, _ = ragged
    Y = np.column_stack([y, X[:, 1] + 1])
    shared = IndependentRidge().fit(X, Y)
    stacked = IndependentRidge().fit(
        np.vstack([X, X]), Y.T.ravel(), task_id=np.repeat([0, 1], 60)
    )
    assert_allclose(shared.coef_, stacked.coef_, atol=1e-10)
    assert_allclose(shared.intercept_, stacked.intercept_, atol=1e-10)
    assert shared.predict(X).shape == (60, 2)


def test_a_shared_model_predicts_one_task_per_row_on_request(ragged):
    X, y, _ = ragged
    model = IndependentRidge().fit(X, pd.DataFrame({"x": y, "z": -y}))
    assert model.tasks_.tolist() == ["x", "z"]
    picked = np.array(["z", "x"] * 30)
    assert_allclose(
        model.predict(X, task_id=picked),
        model.predict(X)[np.arange(60), (picked == "z").astype(int)],
    )


def test_missing_targets_are_left_out(ragged):
    X, y, _ = ragged
    Y = np.column_stack([y, 2 * y])
    Y[::3, 1] = np.nan
    model = IndependentRidge().fit(X, Y)
    kept = ~np.isnan(Y[:, 1])
    alone = IndependentRidge().fit(X[kept], Y[kept, 1])
    assert_allclose(model.coef_[1], alone.coef_[0], atol=1e-10)
    expected = (
        r2_score(Y[:, 0], model.predict(X)[:, 0])
        + r2_score(Y[kept, 1], model.predict(X)[kept, 1])
    ) / 2
    assert model.score(X, Y) == pytest.approx(expected)


def test_missing_labels_are_left_out(ragged):
    X, y, _ = ragged
    Y = np.column_stack([np.sign(y), np.sign(X[:, 1])])
    Y[:5, 0] = np.nan
    model = IndependentLogistic().fit(X, Y)
    assert model.classes_.tolist() == [[-1, 1]] * 2
    predicted = model.predict(X)
    expected = (
        accuracy_score(Y[5:, 0], predicted[5:, 0])
        + accuracy_score(Y[:, 1], predicted[:, 1])
    ) / 2
    assert model.score(X, Y) == pytest.approx(expected)


# ---------------------------------------------------------------- task columns


@pytest.mark.parametrize("position", [0, 2, -1])
def test_the_task_column_is_not_a_feature(ragged, position):
    X, y, ids = ragged
    codes = np.unique(ids, return_inverse=True)[1]
    column = position % 5
    with_ids = np.insert(X, column, codes, axis=1)
    expected = IndependentRidge().fit(X, y, task_id=codes)
    model = IndependentRidge(task_column=position).fit(with_ids, y)
    assert model.n_features_in_ == 4
    assert model.tasks_.tolist() == [0, 1, 2]
    assert_allclose(model.coef_, expected.coef_)
    assert_allclose(model.predict(with_ids), expected.predict(X, task_id=codes))
    assert model.score(with_ids, y) == pytest.approx(
        expected.score(X, y, task_id=codes)
    )
    sparse = IndependentRidge(task_column=position).fit(sp.csr_matrix(with_ids), y)
    assert_allclose(sparse.coef_, expected.coef_, atol=1e-10)
    assert_allclose(
        sparse.predict(sp.coo_array(with_ids)),
        expected.predict(X, task_id=codes),
        atol=1e-10,
    )


@pytest.mark.parametrize("column", ["school", 4])
def test_the_task_column_of_a_frame_is_given_by_name_or_position(ragged, column):
    X, y, ids = ragged
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(school=ids)
    model = IndependentRidge(task_column=column).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("pqrs")
    assert_allclose(
        model.predict(frame),
        IndependentRidge().fit(X, y, task_id=ids).predict(X, task_id=ids),
    )
    with pytest.raises(ValueError, match="names should match"):
        model.predict(frame.rename(columns={"p": "w"}))


@pytest.mark.parametrize("column", ["school", 4, -1])
def test_the_task_column_of_a_polars_frame_is_given_by_name_or_position(ragged, column):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    X, y, ids = ragged
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(school=ids)
    data = polars.DataFrame(frame.to_dict("list"))
    model = IndependentRidge(task_column=column).fit(data, polars.Series(y))
    assert model.feature_names_in_.tolist() == list("pqrs")
    assert model.tasks_.tolist() == sorted(set(ids))
    assert_array_equal(
        model.predict(data),
        IndependentRidge(task_column=column).fit(frame, y).predict(frame),
    )
    for wrong, message in (
        ("town", r"no column 'town' .* its columns are \['p', "),
        (5, "X has only 5 columns"),
    ):
        with pytest.raises(ValueError, match=message):
            IndependentRidge(task_column=wrong).fit(data, y)


def test_column_names_may_equal_attribute_names_of_the_frame(ragged):
    X, y, ids = ragged
    frame = pd.DataFrame(
        X, columns=["columns", "column_names", "shape", "iloc"]
    ).assign(school=ids)
    model = IndependentRidge(task_column="school").fit(frame, y)
    assert_allclose(model.coef_, IndependentRidge().fit(X, y, task_id=ids).coef_)


def test_nested_lists_with_a_string_column_work():
    model = IndependentRidge(alpha=0, task_column=0).fit(
        [["u", 0.0], ["u", 1.0], ["v", 0.0], ["v", 1.0]], [0, 1, 1, 0]
    )
    assert_allclose(model.coef_.ravel(), [1, -1], atol=1e-10)


# ---------------------------------------------------------------- messages


def test_a_list_of_arrays_is_rejected_with_the_remedy(ragged):
    X, y, _ = ragged
    with pytest.raises(ValueError, match=r"list of 2 arrays.*task_id=np\.repeat"):
        IndependentRidge().fit([X, X], [y, y])
    with pytest.raises(ValueError, match="list of 2 arrays"):
        IndependentRidge().fit(X, y).predict([X, X])


def test_ids_with_a_two_dimensional_target_are_rejected(ragged):
    X, y, ids = ragged
    with pytest.raises(ValueError, match="one column per task"):
        IndependentRidge().fit(X, np.column_stack([y, y]), task_id=ids)


def test_ids_are_required_after_a_fit_with_ids(ragged):
    X, y, ids = ragged
    model = IndependentRidge().fit(X, y, task_id=ids)
    with pytest.raises(ValueError, match=r"task_id.*3"):
        model.predict(X)


def test_unknown_tasks_are_listed_or_get_the_mean(ragged):
    X, y, ids = ragged
    model = IndependentRidge().fit(X, y, task_id=ids)
    odd = np.array(["a", "z", "y"])
    with pytest.raises(ValueError, match=r"2.*'y'.*'z'.*3"):
        model.predict(X[:3], task_id=odd)
    model.set_params(unseen="mean")
    mean = X[1:3] @ model.coef_.mean(axis=0) + model.intercept_.mean()
    assert_allclose(model.predict(X[:3], task_id=odd)[1:], mean)
    with pytest.raises(ValueError, match="texts"):
        model.set_params(unseen="error").predict(X[:1], task_id=[7])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.zeros(59), r"one entry per row of X \(60\), got an array of shape \(59,\)"),
        (np.zeros((60, 1)), r"got an array of shape \(60, 1\)"),
        ([None] + ["a"] * 59, "missing for 1 rows, the first is row 0"),
        ([0.0, np.nan] * 30, "missing for 30 rows, the first is row 1"),
        (["a", 1] * 30, None),
        (np.array(["a", 1] * 30, dtype=object), "mixes strings with other types"),
    ],
)
def test_invalid_task_ids_are_reported(ragged, ids, message):
    X, y, _ = ragged
    if message is None:  # NumPy converts such a list to strings.
        assert IndependentRidge().fit(X, y, task_id=ids).tasks_.tolist() == ["1", "a"]
        return
    with pytest.raises(ValueError, match=message):
        IndependentRidge().fit(X, y, task_id=ids)


def test_objects_that_are_numbers_are_ids_as_well(ragged):
    X, y, ids = ragged
    codes = np.unique(ids, return_inverse=True)[1]
    model = IndependentRidge().fit(X, y, task_id=codes.astype(object))
    assert_allclose(
        model.predict(X, task_id=codes.astype(float)), model.predict(X, task_id=codes)
    )


@all_cases(
    ("column", "X", "message"),
    [
        ("school", np.ones((4, 2)), "'school' is a name, but X has no column names"),
        (2, np.ones((4, 2)), "task_column=2, but X has only 2 columns"),
        (-3, np.ones((4, 2)), "task_column=-3, but X has only 2 columns"),
        (
            "school",
            pd.DataFrame({"a": [1, 2, 3, 4]}),
            r"no column 'school' \(task_column\); its columns are \['a'\]",
        ),
        (5, pd.DataFrame({"a": [1, 2, 3, 4]}), "X has only 1 columns"),
        ("a", pd.DataFrame(np.ones((4, 2)), columns=["a", "a"]), "2 columns named 'a'"),
        (0, np.ones(4), "X must have two dimensions, got 1"),
    ],
)
def test_an_invalid_task_column_is_reported(column, X, message):
    with pytest.raises(ValueError, match=message):
        IndependentRidge(task_column=column).fit(X, [0, 1, 2, 3])


def test_task_ids_and_a_task_column_together_are_rejected(ragged):
    X, y, ids = ragged
    with pytest.raises(ValueError, match=r"task_id.*task_column=0"):
        IndependentRidge(task_column=0).fit(X, y, task_id=ids)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(59), r"sample_weight must have shape \(60,\), got \(59,\)"),
        (-np.ones(60), "sample_weight"),
        (np.full(60, np.nan), "sample_weight"),
        (np.zeros(60), "zero everywhere"),
    ],
)
def test_invalid_weights_are_reported(ragged, weights, message):
    X, y, _ = ragged
    with pytest.raises(ValueError, match=message):
        IndependentRidge().fit(X, y, sample_weight=weights)


def test_invalid_data_are_reported():
    for X, y, message in [
        (np.ones((3, 2)), [1.0, np.nan, 2.0], "Input y contains NaN"),
        (np.ones((3, 2)), [1.0, np.inf, 2.0], "Input y contains infinity"),
        (np.ones((3, 2)), np.full((3, 2), np.inf), "Input y contains infinity"),
        ([[np.nan, 1.0]], [1.0], "Input X contains NaN"),
        (np.ones((3, 2)), np.ones((3, 2, 2)), "dim"),
        (np.ones((3, 2)), [1.0, 2.0], "inconsistent numbers of samples"),
        (np.ones((3, 2)), None, "requires y to be passed"),
        (np.ones((3, 2)), np.column_stack([np.ones(3), np.full(3, np.nan)]), "no rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            IndependentRidge().fit(X, y)


def test_parameters_are_checked_in_fit(ragged):
    X, y, _ = ragged
    with pytest.raises(ValueError, match=r"alpha.*\[0.*-1"):
        IndependentRidge(alpha=-1).fit(X, y)
    with pytest.raises(ValueError, match=r"unseen.*'error'.*'mean'.*'maen'.*'mean'"):
        IndependentRidge(unseen="maen").fit(X, y)


def test_predict_before_fit_is_rejected(ragged):
    with pytest.raises(NotFittedError):
        IndependentRidge().predict(ragged[0])


# ---------------------------------------------------------------- weights


def test_weights_per_entry_equal_weights_per_task(ragged):
    X, y, _ = ragged
    Y = np.column_stack([y, -y])
    w = np.random.default_rng(2).integers(0, 3, size=(60, 2))
    model = IndependentRidge().fit(X, Y, sample_weight=w)
    for t in range(2):
        rows = np.repeat(np.arange(60), w[:, t])
        assert_allclose(
            model.coef_[t],
            IndependentRidge().fit(X[rows], Y[rows, t]).coef_[0],
            atol=1e-9,
        )


def test_a_row_weight_applies_to_all_tasks_and_to_missing_targets(ragged):
    X, y, _ = ragged
    Y = np.column_stack([y, -y])
    Y[0, 0] = np.nan
    w = np.random.default_rng(3).integers(1, 3, size=60)
    rows = np.repeat(np.arange(60), w)
    assert_allclose(
        IndependentRidge().fit(X, Y, sample_weight=w).coef_,
        IndependentRidge().fit(X[rows], Y[rows]).coef_,
        atol=1e-9,
    )


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize(
    "labels", [(-1, 1), (0, 1), ("no", "yes"), (False, True), (3.0, 7.0)]
)
def test_labels_of_any_kind_are_predicted(ragged, labels):
    X, _, ids = ragged
    positive = (X[:, 0] > 0).astype(int)
    y = np.array(labels)[positive]
    model = IndependentLogistic().fit(X, y, task_id=ids)
    assert_array_equal(model.classes_, np.array(labels))
    assert model.predict(X, task_id=ids).dtype == y.dtype
    assert model.score(X, y, task_id=ids) > 0.9
    assert_array_equal(
        model.decision_function(X, task_id=ids) > 0,
        model.predict(X, task_id=ids) == labels[1],
    )
    probability = model.predict_proba(X, task_id=ids)
    assert_allclose(probability.sum(axis=1), 1)
    assert_array_equal(
        probability[:, 1] > 0.5, model.predict(X, task_id=ids) == labels[1]
    )


@pytest.mark.parametrize(("label", "sign"), [(1, 1), (0, -1), (-1, -1), ("yes", 1)])
def test_a_single_class_is_fitted(ragged, label, sign):
    X, _, ids = ragged
    model = IndependentLogistic().fit(X, np.full(60, label), task_id=ids)
    assert set(model.predict(X, task_id=ids).tolist()) == {label}
    assert_array_equal(
        np.sign(model.decision_function(X, task_id=ids)), np.full(60, sign)
    )


OBJECTS = {
    "strings": ("no", "yes"),
    "ints": (0, 1),
    "bools": (False, True),
    "floats": (1.0, 2.0),
}


@pytest.mark.parametrize("labels", OBJECTS.values(), ids=OBJECTS)
def test_labels_may_be_objects(ragged, labels):
    X, _, ids = ragged
    plain = np.array(labels)[(X[:, 0] > 0).astype(int)]
    y = plain.astype(object)
    expected = IndependentLogistic().fit(X, plain, task_id=ids)
    model = IndependentLogistic().fit(X, y, task_id=ids)
    assert model.classes_.tolist() == list(labels)
    assert_array_equal(model.predict(X, task_id=ids), expected.predict(X, task_id=ids))
    assert model.score(X, y, task_id=ids) == expected.score(X, plain, task_id=ids)


@pytest.mark.cover
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=["None", "NaN", "NA"])
@pytest.mark.parametrize("labels", OBJECTS.values(), ids=OBJECTS)
def test_two_dimensional_object_labels_may_be_missing(ragged, labels, missing):
    X = ragged[0]
    signs = (X[:, :2] > 0).astype(int)
    masked = signs.astype(float)
    masked[::5, 0] = np.nan
    expected = IndependentLogistic().fit(X, masked)
    Y = np.array(labels, dtype=object)[signs]
    Y[::5, 0] = missing
    model = IndependentLogistic().fit(X, Y)
    assert model.classes_.tolist() == [list(labels)] * 2
    assert_array_equal(model.coef_, expected.coef_)
    assert model.score(X, Y) == expected.score(X, masked)
    with pytest.raises(ValueError, match="contains NaN"):
        IndependentLogistic().fit(X, Y[:, 0])


def test_nullable_columns_are_labels_and_targets(ragged):
    X = ragged[0]
    Y = pd.DataFrame((X[:, :2] > 0).astype(int), columns=["a", "b"])
    masked = Y.mask(X[:, :2] > 1)
    nullable = masked.astype("Int64")
    for model in (IndependentLogistic(), IndependentRidge()):
        assert_array_equal(
            clone(model).fit(X, nullable.astype(object)).coef_,
            model.fit(X, masked).coef_,
        )
        assert_array_equal(clone(model).fit(X, nullable).coef_, model.coef_)


def test_labels_of_mixed_types_are_rejected(ragged):
    with pytest.raises(ValueError, match="mixes strings"):
        IndependentLogistic().fit(ragged[0], np.array(["yes", 0] * 30, dtype=object))


def test_several_classes_and_continuous_labels_are_rejected(ragged):
    X, y, _ = ragged
    with pytest.raises(
        ValueError, match=r"Only binary classification is supported\..*3 classes"
    ):
        IndependentLogistic().fit(X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="Unknown label type"):
        IndependentLogistic().fit(X, y)


def test_regressors_accept_signs_and_return_scores(ragged):
    X, y, ids = ragged
    scores = IndependentRidge().fit(X, np.sign(y), task_id=ids).predict(X, task_id=ids)
    assert ((scores > 0) == (y > 0)).mean() > 0.9
    assert len(np.unique(scores)) > 2


# ---------------------------------------------------------------- scikit-learn tools


def test_the_task_column_works_with_scikit_learn_tools(ragged):
    X, y, ids = ragged
    with_ids = np.column_stack([np.unique(ids, return_inverse=True)[1], X])
    scale = ColumnTransformer([("id", "passthrough", [0])], remainder=StandardScaler())
    pipeline = make_pipeline(scale, IndependentRidge(task_column=0))
    folds = KFold(3, shuffle=True, random_state=0)
    assert cross_val_score(pipeline, with_ids, y, cv=folds).min() > 0.95
    assert (
        cross_val_score(
            pipeline, with_ids, y, cv=folds, scoring="neg_mean_squared_error"
        ).max()
        < 0
    )
    assert cross_val_predict(pipeline, with_ids, y, cv=folds).shape == (60,)
    search = GridSearchCV(
        pipeline, {"independentridge__alpha": [0.1, 1000]}, cv=folds
    ).fit(with_ids, y)
    assert search.best_params_ == {"independentridge__alpha": 0.1}
    assert search.predict(with_ids).shape == (60,)


def test_task_ids_work_with_metadata_routing(ragged):
    X, y, ids = ragged
    folds = KFold(3, shuffle=True, random_state=0)
    with config_context(enable_metadata_routing=True):
        model = (
            IndependentRidge()
            .set_fit_request(task_id=True)
            .set_score_request(task_id=True)
        )
        assert (
            cross_val_score(model, X, y, cv=folds, params={"task_id": ids}).min() > 0.95
        )
        search = GridSearchCV(model, {"alpha": [0.1, 1000]}, cv=folds).fit(
            X, y, task_id=ids
        )
        assert search.best_params_ == {"alpha": 0.1}
        pipeline = make_pipeline(
            StandardScaler(), model.set_predict_request(task_id=True)
        ).fit(X, y, task_id=ids)
        assert pipeline.predict(X, task_id=ids).shape == (60,)
        assert pipeline.score(X, y, task_id=ids) > 0.95


def test_a_pipeline_scores_with_weights(ragged):
    X, y, _ = ragged
    w = np.random.default_rng(0).uniform(size=60)
    model = make_pipeline(StandardScaler(), PooledRidge()).fit(X, y)
    assert model.score(X, y, sample_weight=w) == pytest.approx(
        r2_score(y, model.predict(X), sample_weight=w)
    )


@pytest.mark.parametrize("kind", [np.float32, int, bool])
def test_other_number_types_are_converted_and_inputs_are_not_modified(kind):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(20, 3)) > 0).astype(kind)
    y = rng.normal(size=20)
    X.setflags(write=False)
    y.setflags(write=False)
    model = IndependentRidge().fit(X, y)
    assert model.coef_.dtype == np.float64
    assert_allclose(model.coef_, IndependentRidge().fit(X.astype(float), y).coef_)


def test_class_weights_match_scikit_learn_and_explicit_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = np.where(X[:, 0] + rng.normal(size=90) > 0.8, 1.0, -1.0)
    for weights in ("balanced", {1.0: 3.0}):
        ours = CMTL(
            0.5,
            loss="logistic",
            mean=1.0,
            between=1.0,
            within=1.0,
            class_weight=weights,
            tol=1e-7,
        ).fit(X, y)
        theirs = LogisticRegression(C=1.0, class_weight=weights, tol=1e-9).fit(X, y)
        assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    ids = np.repeat([0, 1, 2], 30)
    y[ids == 2] = -1.0  # One class: its weights stay.
    weights = np.ones(90)
    for task in (0, 1):
        for sign in (-1, 1):
            rows = (ids == task) & (y == sign)
            weights[rows] = 15 / rows.sum()
    for model in (MeTaG(), CMTL(), GroupMKLClassifier(kernels=["linear"])):
        balanced = (
            clone(model).set_params(class_weight="balanced").fit(X, y, task_id=ids)
        )
        by_hand = model.fit(X, y, task_id=ids, sample_weight=weights)
        assert_allclose(
            balanced.decision_function(X, task_id=ids),
            by_hand.decision_function(X, task_id=ids),
            atol=1e-9,
        )
    # Missing values of a shared design belong to no class.
    Y = np.column_stack([y, y])
    Y[:20, 1] = np.nan
    explicit = [
        CMTL(class_weight="balanced", alpha=0.0).fit(X[rows], y[rows])
        for rows in (np.s_[:], np.s_[20:])
    ]
    both = CMTL(class_weight="balanced", alpha=0.0, tol=1e-9).fit(X, Y)
    assert_allclose(
        both.coef_, np.vstack([model.coef_ for model in explicit]), atol=1e-3
    )


@pytest.mark.parametrize("weights", ["balance", {1.0: -1.0}, 2.0])
def test_invalid_class_weights_are_rejected(weights):
    with pytest.raises(ValueError, match="class_weight must "):
        CMTL(class_weight=weights).fit([[0.0], [1.0]], [-1.0, 1.0])


# ---------------------------------------------------------------- speed of predictions


def test_dense_and_sparse_rows_have_the_same_predictions():
    rng = np.random.default_rng(0)
    n_tasks, d = 300, 8
    codes = rng.integers(-1, n_tasks, size=20_000)
    X = rng.normal(size=(len(codes), d))
    coef = rng.normal(size=(n_tasks + 1, d))
    intercept = rng.normal(size=n_tasks + 1)
    expected = (X * coef[codes]).sum(axis=1) + intercept[codes]
    for rows in (X, sp.csr_array(X)):
        assert_allclose(base.scores_by_code(rows, codes, coef, intercept), expected)


@pytest.mark.parametrize("kind", [int, float, str, object, "S4"])
def test_task_ids_are_looked_up_without_sorting_them(kind, monkeypatch):
    numbers = np.array([3, 1, 2, 3, 1])
    ids = numbers.astype(str).astype(kind)
    tasks = np.array(["1", "2", "3"]).astype(kind)
    monkeypatch.setattr(np, "unique", lambda values, **options: values[:0])
    assert inputs.task_codes(ids, tasks, "error").tolist() == [2, 0, 1, 2, 0]


def test_unknown_task_ids_are_listed_in_order():
    with pytest.raises(ValueError, match=r"2 task\(s\) .*: 'c', 'd'"):
        inputs.task_codes(np.array(["d", "a", "c", "d"]), np.array(["a"]), "error")
