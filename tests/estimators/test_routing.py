"""Task ids through scikit-learn: routing, columns of X, splitters, scorers."""

import pickle
import warnings
from inspect import signature

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metadata_routing import get_routing_for_object

import mtlrun.estimators
from mtlrun.data import TaskStratifiedKFold
from mtlrun.estimators.penalized import TraceNormMTL, TraceNormMTLClassifier
from mtlrun.metrics import task_scorer

RNG = np.random.default_rng(0)
TASKS = np.repeat(["north", "south", "west"], 30)
X = RNG.normal(size=(90, 3))
Y = X @ RNG.normal(size=(3, 3)) + RNG.normal(size=(90, 3))
y = Y[np.arange(90), np.unique(TASKS, return_inverse=True)[1]]
FOLDS = TaskStratifiedKFold(3, random_state=0)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# Estimators of `mtlrun.estimators.tuned` learn a single task; `PerTask` passes them the
# rows of each.
PUBLIC_CLASSES = [
    getattr(mtlrun.estimators, name)
    for name in mtlrun.estimators.__all__
    if not name.endswith("Warning")
]


METHODS_OF_ROWS = ("fit", "predict", "score", "decision_function", "predict_proba")


def test_every_estimator_requests_task_ids(routing):
    for cls in PUBLIC_CLASSES:
        if "task_id" not in signature(cls.fit).parameters:
            continue
        requests = get_routing_for_object(cls.__new__(cls))
        for method in METHODS_OF_ROWS:
            is_requested = requests.consumes(method, ["task_id"]) == {"task_id"}
            assert is_requested or not hasattr(cls, method), f"{cls}.{method}"


@pytest.mark.parametrize("metric", ["rmse", "r2"])
def test_a_search_passes_the_ids_to_model_splitter_and_scorer(routing, metric):
    search = GridSearchCV(
        TraceNormMTL(), {"alpha": [0.1, 100.0]}, scoring=task_scorer(metric), cv=FOLDS
    )
    search.fit(X, y, task_id=TASKS)
    train, test = next(FOLDS.split(X, groups=TASKS))
    model = TraceNormMTL(alpha=0.1).fit(X[train], y[train], task_id=TASKS[train])
    predicted = model.predict(X[test], task_id=TASKS[test])
    rmse = [
        root_mean_squared_error(y[test][rows], predicted[rows])
        for rows in (TASKS[test] == t for t in model.tasks_)
    ]
    if metric == "rmse":
        assert_allclose(search.cv_results_["split0_test_score"][0], -np.mean(rmse))
    assert search.best_params_ == {"alpha": 0.1}
    assert (
        GridSearchCV(TraceNormMTL(), {"alpha": [0.1]}, cv=FOLDS)
        .fit(X, y, task_id=TASKS)
        .best_score_
        > 0
    )


def test_several_scorers_and_steps_work_together(routing):
    labels = np.where(y > 0, "yes", "no")
    scoring = {name: task_scorer(name) for name in ("auc", "accuracy", "log_loss")}
    pipeline = make_pipeline(StandardScaler(), TraceNormMTLClassifier())
    results = cross_validate(
        pipeline, X, labels, cv=FOLDS, scoring=scoring, params={"task_id": TASKS}
    )
    train, test = next(FOLDS.split(X, groups=TASKS))
    pipeline.fit(X[train], labels[train], task_id=TASKS[train])
    scores = pipeline.decision_function(X[test], task_id=TASKS[test])
    auc = [
        roc_auc_score(labels[test][rows] == "yes", scores[rows])
        for rows in (TASKS[test] == t for t in set(TASKS))
    ]
    assert_allclose(results["test_auc"][0], np.mean(auc))
    assert (results["test_log_loss"] < 0).all()


def test_missing_targets_do_not_count():
    masked = np.where(RNG.random(Y.shape) < 0.3, np.nan, Y)
    search = GridSearchCV(
        TraceNormMTL(), {"alpha": [1.0]}, scoring=task_scorer("mse"), cv=KFold(2)
    ).fit(X, masked)
    model = TraceNormMTL(alpha=1.0).fit(X[45:], masked[45:])
    expected = np.nanmean((masked[:45] - model.predict(X[:45])) ** 2, axis=0).mean()
    assert_allclose(search.cv_results_["split0_test_score"], -expected)


def tables():
    """Return rows with ids as a column, and the column's name, by table type."""
    codes = np.unique(TASKS, return_inverse=True)[1]
    frame = pd.DataFrame({"a": X[:, 0], "town": TASKS, "b": X[:, 1], "c": X[:, 2]})
    step = ColumnTransformer(
        [("scale", StandardScaler(), ["a", "b", "c"])], remainder="passthrough"
    )
    named = ColumnTransformer(
        step.transformers, remainder="passthrough", verbose_feature_names_out=False
    )
    return {
        "array": (np.column_stack([X[:, 0], codes, X[:, 1:]]), 1),
        "pandas": (frame, "town"),
        "polars": (pl.from_pandas(frame), "town"),
        "output of ColumnTransformer": (step.fit_transform(frame), -1),
        "frame of ColumnTransformer": (
            named.set_output(transform="pandas").fit_transform(frame),
            "town",
        ),
        "polars of ColumnTransformer": (
            named.set_output(transform="polars").fit_transform(frame),
            "town",
        ),
    }


@pytest.mark.parametrize("kind", tables())
def test_ids_may_be_a_column_of_any_table(kind):
    table, column = tables()[kind]
    search = GridSearchCV(
        TraceNormMTL(task_column=column),
        {"alpha": [0.1, 100.0]},
        scoring=task_scorer("rmse"),
        cv=TaskStratifiedKFold(3, task_column=column, random_state=0),
    ).fit(table, y)
    assert search.best_params_ == {"alpha": 0.1}
    plain = TraceNormMTL(alpha=0.1).fit(X, y, task_id=TASKS)
    if "Transformer" not in kind:
        assert_allclose(search.predict(table), plain.predict(X, task_id=TASKS))


# Each line of code is warned once, and scikit-learn's has been in other tests.
@pytest.mark.parametrize(
    "scorer",
    [
        lambda model, X, y: model.score(X, y),
        lambda model, X, y: task_scorer("rmse")(model, X, y),
    ],
    ids=["score", "rmse"],
)
def test_folds_that_ignore_tasks_cause_one_warning(scorer):
    table = np.column_stack([X, np.unique(TASKS, return_inverse=True)[1]])
    search = GridSearchCV(
        TraceNormMTL(task_column=-1),
        {"alpha": [0.1, 1, 10]},
        cv=KFold(3),
        scoring=scorer,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        search.fit(table, y)
    texts = [str(warning.message) for warning in caught]
    assert sum("TaskStratifiedKFold" in text for text in texts) == 1
    assert (
        len(texts) <= 2
    )  # The other warning is scikit-learn's, about scores that are not finite.


def test_the_score_ignores_rows_of_some_unseen_tasks():
    model = TraceNormMTL(alpha=0.1).fit(X[:60], y[:60], task_id=TASKS[:60])
    with pytest.warns(UserWarning, match="TaskStratifiedKFold"):
        part = model.score(X, y, task_id=TASKS)
    assert part == model.score(X[:60], y[:60], task_id=TASKS[:60])
    with pytest.raises(ValueError, match="west"):
        model.predict(X, task_id=TASKS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(unseen="mean").score(X, y, task_id=TASKS)


# ------------------------------------ weights routed to the scorer

WEIGHTS = RNG.integers(1, 20, 90).astype(float)
WEIGHTED = {"task_id": TASKS, "sample_weight": WEIGHTS}


def weighted_model(alpha=1.0):
    return TraceNormMTL(alpha=alpha).set_fit_request(sample_weight=True)


def expected_mse(alpha=1.0, rows=None):
    """Return minus the weighted MSE of each fold among some rows."""
    if rows is None:
        rows = np.arange(len(y))
    scores = []
    for train, test in FOLDS.split(X[rows], groups=TASKS[rows]):
        model = TraceNormMTL(alpha=alpha).fit(
            X[rows[train]],
            y[rows[train]],
            task_id=TASKS[rows[train]],
            sample_weight=WEIGHTS[rows[train]],
        )
        test = rows[test]
        square = (y[test] - model.predict(X[test], task_id=TASKS[test])) ** 2
        of_tasks = [
            np.average(
                square[TASKS[test] == t], weights=WEIGHTS[test][TASKS[test] == t]
            )
            for t in model.tasks_
        ]
        scores.append(-np.mean(of_tasks))
    return scores


def test_routed_weights_reach_the_scorer(routing):
    scorer = task_scorer("mse").set_score_request(sample_weight=True)
    scores = cross_val_score(
        weighted_model(), X, y, params=WEIGHTED, cv=FOLDS, scoring=scorer
    )
    assert_allclose(scores, expected_mse())


def test_routed_weights_reach_the_scorer_of_a_nested_search(routing):
    scorer = task_scorer("mse").set_score_request(sample_weight=True)
    search = GridSearchCV(
        weighted_model(), {"alpha": [0.1, 100.0]}, scoring=scorer, cv=FOLDS
    )
    results = cross_validate(
        search,
        X,
        y,
        params=WEIGHTED,
        cv=FOLDS,
        scoring={
            "mse": scorer,
            "rmse": task_scorer("rmse", how="sample").set_score_request(
                sample_weight=False
            ),
        },
        return_estimator=True,
    )
    train, _ = next(FOLDS.split(X, groups=TASKS))
    inner = results["estimator"][0].cv_results_
    assert_allclose(inner["mean_test_score"][0], np.mean(expected_mse(0.1, train)))
    assert_allclose(results["test_mse"], expected_mse(0.1))


def test_routed_weights_are_refused_unless_the_scorer_requests_or_declines_them(
    routing,
):
    scorer = task_scorer("mse")
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        cross_validate(
            weighted_model(), X, y, params=WEIGHTED, cv=FOLDS, scoring=scorer
        )
    scorer.set_score_request(sample_weight=False)
    scores = cross_val_score(
        weighted_model(), X, y, params=WEIGHTED, cv=FOLDS, scoring=scorer
    )
    assert not np.allclose(scores, expected_mse())


def test_a_scorer_takes_weights_under_another_name(routing):
    scorer = task_scorer("mse").set_score_request(sample_weight="importance")
    params = {"task_id": TASKS, "importance": WEIGHTS}
    model = TraceNormMTL().set_fit_request(sample_weight="importance")
    scores = cross_val_score(model, X, y, params=params, cv=FOLDS, scoring=scorer)
    assert_allclose(scores, expected_mse())


@pytest.mark.parametrize(
    "copied", [clone, lambda scorer: pickle.loads(pickle.dumps(scorer))]
)
def test_copies_of_a_scorer_keep_its_requests(copied, routing):
    original = task_scorer("mse").set_score_request(sample_weight="importance")
    scorer = copied(original)
    original.set_score_request(sample_weight=False)
    requests = get_routing_for_object(scorer).score.requests
    assert requests == {"task_id": True, "sample_weight": "importance"}


def test_the_text_of_a_scorer_makes_it_again():
    for text in (
        "task_scorer('auc')",
        "task_scorer('mse', task_column=2, how='sample')",
    ):
        assert repr(eval(text)) == text


def test_a_request_without_routing_does_not_give_unweighted_scores():
    scorer = task_scorer("mse").set_score_request(sample_weight=True)
    model = TraceNormMTL().fit(X, y, task_id=TASKS)
    with pytest.raises(RuntimeError, match="enable_metadata_routing"):
        scorer(model, X, y, task_id=TASKS)
    weighted = scorer(model, X, y, task_id=TASKS, sample_weight=WEIGHTS)
    assert weighted != task_scorer("mse")(model, X, y, task_id=TASKS)
