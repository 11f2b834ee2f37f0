"""One split of a data set: rows, scores, tasks without both classes."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge

from mtlrun.comparison.gain import RowIndex, task_scales
from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.load import load_dataset
from mtlrun.data.splits import NEW_TASK, WEIGHT, fold_rows, split_rows
from mtlrun.engine.evaluation import Diverged, TrainTestData
from mtlrun.engine.fit import collect_warnings
from mtlrun.engine.run import loaded
from mtlrun.errors import DataError

RAGGED = Dataset(
    X=np.arange(40.0).reshape(20, 2),
    y=np.tile([-1.0, 1.0], 10),
    task_type="binary",
    task_id=np.repeat([0, 1], [14, 6]),
    id="ragged",
)


def test_a_random_split_of_a_shared_design_follows_the_papers():
    dataset = load_dataset("simulated-rmtl", n=50, d=4, m=3, rank=2)
    train, _, test = split_rows(dataset, "random", train=0.4, trial=0, seed=7)
    order = np.random.default_rng(7).permutation(50)
    assert (train == order[:20]).all()
    assert (test == order[20:]).all()


def test_a_random_split_of_a_ragged_set_samples_each_task():
    train, validation, test = split_rows(RAGGED, "random", train=0.5, trial=0, seed=7)
    assert not len(validation)
    assert np.bincount(RAGGED.task_id[train]).tolist() == [7, 3]
    assert sorted([*train, *test]) == list(range(20))


def test_kfold_trials_are_the_folds_of_one_partition():
    tests = [split_rows(RAGGED, "kfold", folds=4, trial=k, seed=3)[2] for k in range(4)]
    assert sorted(np.concatenate(tests)) == list(range(20))


def test_published_splits_are_used():
    rows = (np.arange(5), np.arange(5, 20))
    dataset = Dataset(**{**RAGGED.__dict__, "splits": {"ten": [rows]}})
    train, _, test = split_rows(dataset, "published", name="ten", trial=0, seed=0)
    assert train is rows[0]
    assert test is rows[1]
    with pytest.raises(DataError, match=r"ragged.*'ten' number 1.*ten \(1\)"):
        split_rows(dataset, "published", name="ten", trial=1, seed=0)
    with pytest.raises(DataError, match=r"'five'.*0"):
        split_rows(dataset, "published", name="five", trial=0, seed=0)


def test_folds_inside_a_ragged_set_contain_every_task_and_label():
    for _, test in fold_rows(RAGGED, 3, seed=0):
        assert set(RAGGED.task_id[test]) == {0, 1}
        assert set(RAGGED.y[test]) == {-1.0, 1.0}


@pytest.mark.parametrize("ragged", [False, True])
def test_nmse_may_be_relative_to_the_variance_of_all_rows_of_a_task(ragged):
    rng = np.random.default_rng(0)
    y = rng.normal(size=(30, 2)) * [1.0, 5.0]
    codes = np.tile([0, 1], 30) if ragged else None
    X = np.repeat(rng.normal(size=(30, 3)), 2 if ragged else 1, axis=0)
    dataset = Dataset(
        X=X,
        y=y.ravel() if ragged else y,
        task_type="regression",
        task_id=codes,
        id="two",
    )
    rows = rng.permutation(len(X))
    part = TrainTestData.of(dataset, rows[: len(X) // 2], rows[len(X) // 2 :])
    if ragged:
        expected = [
            np.mean(part.test.y[part.test.task_id == t] ** 2) for t in (0, 1)
        ] / y.var(axis=0)
    else:
        expected = (part.test.y**2).mean(axis=0) / y.var(axis=0)
    score = part.score(None, np.zeros(part.test.y.shape), ["nmse_all"], "task")[
        "nmse_all"
    ]
    np.testing.assert_allclose(score.per_task, expected)


@pytest.mark.parametrize("ragged", [False, True])
def test_a_weight_of_two_in_scores_is_a_row_that_occurs_twice(ragged):
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 3, size=40)
    y = rng.normal(size=40 if ragged else (40, 2))
    codes = np.repeat([0, 1], [14, 26]) if ragged else None
    X = np.zeros((40, 1))

    def score(rows, is_test, weight=None):
        dataset = Dataset(
            X=X[rows],
            y=y[rows],
            task_type="regression",
            task_id=codes[rows] if ragged else None,
            id="two",
            source={} if weight is None else {WEIGHT: weight},
        )
        parts = np.flatnonzero(~is_test), np.flatnonzero(is_test)
        part = TrainTestData.of(dataset, *parts)
        zeros = np.zeros(part.test.y.shape)
        names = ["nmse_all", "nmse_shrunken", "mse"]
        return part.score(None, zeros, names, "sample")

    is_test = rng.random(40) < 0.5
    weighted = score(np.arange(40), is_test, weights.astype(float))
    again = np.repeat(np.arange(40), weights)
    repeated = score(again, is_test[again])
    for name, scores in repeated.items():
        np.testing.assert_allclose(weighted[name].per_task, scores.per_task)
        assert weighted[name].mean == pytest.approx(scores.mean)


def test_shrunken_metrics_divide_by_the_scales_of_the_gain():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [2, 8, 20])
    y = rng.normal(size=30) * np.array([0.01, 1.0, 5.0])[codes]
    X = rng.normal(size=(30, 3))
    tasks = ["a", "b", "c"]
    dataset = Dataset(
        X=X, y=y, task_type="regression", task_id=codes, tasks=tasks, id="three"
    )
    test = np.arange(1, 30, 2)
    part = TrainTestData.of(dataset, np.arange(0, 30, 2), test)
    names = ["nmse_shrunken", "r2_shrunken"]
    scores = part.score(None, np.zeros(len(test)), names, "task")
    scales = task_scales(y, RowIndex(3, codes))
    squares = [np.mean(y[test][codes[test] == t] ** 2) for t in range(3)]
    np.testing.assert_allclose(scores["nmse_shrunken"].per_task, squares / scales)
    np.testing.assert_allclose(scores["r2_shrunken"].per_task, 1 - squares / scales)


def shared(y_train, y_test):
    y = np.vstack([y_train, y_test])
    dataset = Dataset(
        X=np.random.default_rng(0).normal(size=(len(y), 3)), y=y, task_type="binary"
    )
    return TrainTestData.of(
        dataset, np.arange(len(y_train)), np.arange(len(y_train), len(y))
    )


def test_a_task_with_a_single_class_is_fitted_but_has_no_auc():
    part = shared(
        [[1, 1, 1], [-1, 1, -1], [1, 1, 1], [-1, 1, 1]],
        [[1, 1, 1], [-1, -1, 1], [1, -1, 1]],
    )
    assert part.one_class.tolist() == [False, True, False]
    model = part.fit(Ridge())
    scores = part.score(model, part.predict(model), ["auc", "f1"], "task")
    # The second task has one class in training, the third in the test rows.
    assert np.isnan(scores["auc"].per_task).tolist() == [False, True, True]
    assert scores["auc"].undefined == 2
    assert scores["auc"].mean == scores["auc"].per_task[0]
    assert not np.isnan(scores["f1"].per_task[1])


def test_a_new_task_that_others_predict_has_an_auc():
    dataset = replace(RAGGED, source={NEW_TASK: RAGGED.task_id})
    part = TrainTestData.of(dataset, np.arange(14), np.arange(14, 20))
    auc = part.score(None, part.test.y, ["auc"], "task")["auc"]
    np.testing.assert_array_equal(auc.per_task, [np.nan, 1.0])


def test_missing_labels_belong_to_no_class_and_do_not_count_in_averages_over_rows():
    part = shared([[1, np.nan], [-1, 1], [1, np.nan]], [[1, 1], [-1, np.nan]])
    assert part.one_class.tolist() == [False, True]
    scores = np.array([[0, 3], [0, 3]])
    mse = part.score(None, scores, ["mse"], "sample")["mse"]
    assert mse.per_task.tolist() == [1.0, 4.0]
    assert mse.mean == (2 * 1.0 + 1 * 4.0) / 3


def test_tasks_of_a_ragged_set_are_scored_separately():
    class Constant:
        def fit(self, X, y, *, task_id):
            self.seen = task_id
            return self

        def predict(self, X, *, task_id):
            return X[:, 0] * np.where(task_id == 0, 1, -1)

    part = TrainTestData.of(RAGGED, np.arange(0, 20, 2), np.arange(20))
    model = part.fit(Constant())
    assert set(model.seen) == {0, 1}
    assert part.one_class.tolist() == [True, True]
    part = TrainTestData.of(RAGGED, np.arange(20), np.arange(20))
    scores = part.score(model, part.predict(model), ["mse", "auc"], "sample")
    assert scores["mse"].per_task.shape == (2,)
    sizes = np.array([14, 6])
    assert scores["auc"].mean == pytest.approx(scores["auc"].per_task @ sizes / 20)


def test_metrics_of_labels_use_the_labels_of_the_classifier():
    dataset = Dataset(
        X=np.array([[-2.0], [-1.0], [1.0], [2.0]]),
        y=np.array([-1.0, -1.0, 1.0, 1.0]),
        task_type="binary",
    )
    part = TrainTestData.of(dataset, np.arange(4), np.arange(4))
    for model in (LogisticRegression(), Ridge()):
        part.fit(model)
        assert (
            part.score(model, part.predict(model), ["accuracy"], "task")[
                "accuracy"
            ].mean
            == 1.0
        )


def test_labels_coded_as_zero_and_one_are_separated_at_one_half():
    X, y = np.arange(8.0)[:, None], np.array([[0.0], [0], [0], [1], [0], [0], [1], [1]])
    part = TrainTestData.of(Dataset(X, y, "binary"), np.arange(4), np.arange(4, 8))
    assert part.one_class.tolist() == [False]

    class Half(BaseEstimator):
        def predict(self, X):
            return (0.1 * X[:, :1]) - 0.05  # .35 .45 .55 .65

    scores = part.score(Half(), part.predict(Half()), ["accuracy", "auc"], "task")
    assert (scores["accuracy"].mean, scores["auc"].mean) == (1.0, 1.0)


def test_infinite_predictions_count_as_divergence():
    class Diverging(Ridge):
        def predict(self, X):
            return np.full((len(X), 2), np.nan)

    part = shared([[1, 1], [-1, -1]], [[1, 1], [-1, -1]])
    with pytest.raises(Diverged, match="are not finite"):
        part.predict(part.fit(Diverging()))


def test_data_that_changed_after_planning_are_rejected():
    options = '{"d":4,"m":3,"n":50,"rank":2}'
    dataset = load_dataset("simulated-rmtl", n=50, d=4, m=3, rank=2)
    assert loaded("simulated-rmtl", options, dataset.fingerprint, None).n_samples == 50
    with pytest.raises(DataError, match="simulated-rmtl changed"):
        loaded("simulated-rmtl", options, "0" * 64, None)


def test_warnings_are_collected_and_those_about_convergence_are_marked():
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with collect_warnings() as texts:
        warnings.warn("one", UserWarning, stacklevel=1)
        warnings.warn("two", ConvergenceWarning, stacklevel=1)
    assert texts == ["one", "not converged: two"]
