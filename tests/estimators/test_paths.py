"""Regularization paths, and models with cross-validation, match grid searches."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import MultiTaskLasso
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import estimator_checks_generator

from mtlrun.catalog.registry import METHODS
from mtlrun.data import TaskStratifiedKFold
from mtlrun.estimators import paths
from mtlrun.estimators.convex import PathMTL
from mtlrun.estimators.paths import PathCV
from mtlrun.metrics import task_scorer

CLASSES = [
    cls
    for name, cls in vars(paths).items()
    if isinstance(cls, type) and issubclass(cls, PathCV) and name[:-2] in METHODS
]
TIGHT = {"tol": 1e-7, "max_iter": 20_000}
LAYOUTS = ["shared", "ragged", "masked"]


def rows(layout, cls, n=90):
    """Return arguments of `fit` and folds with all tasks on both sides."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) + np.array([0, 1, 0, -2])
    Y = X @ rng.normal(size=(4, 3)) + np.array([5, 0, -1]) + rng.normal(size=(n, 3))
    ids = rng.permutation(np.repeat(["a", "b", "c"], n // 3))
    y = Y[np.arange(n), np.unique(ids, return_inverse=True)[1]]
    if "Classifier" in cls.__name__:
        Y, y = (
            np.where(targets > np.median(targets), "yes", "no") for targets in (Y, y)
        )
    if layout == "ragged":
        return {"X": X, "y": y, "task_id": ids}, list(
            TaskStratifiedKFold(3, random_state=1).split(X, groups=ids)
        )
    if layout == "masked":
        Y = np.where(Y == "yes", 1.0, 0.0) if Y.dtype.kind == "U" else Y
        Y = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    return {"X": X, "y": Y}, list(KFold(3, shuffle=True, random_state=1).split(X))


def searched(model, data, folds, weights=None):
    """Return scores of separate fits at each strength of the path and fold."""
    base = next(
        cls
        for cls in type(model).__mro__
        if issubclass(cls, PathMTL) and not issubclass(cls, PathCV)
    )
    shared = {
        name: value
        for name, value in model.get_params().items()
        if name in base().get_params()
    }
    metric = model.scoring or ("accuracy" if "Classifier" in base.__name__ else "mse")
    scores = np.empty((len(model.alphas_), len(folds)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, (train, test) in enumerate(folds):
            part = {key: value[train] for key, value in data.items()}
            held = {key: value[test] for key, value in data.items()}
            for a, alpha in enumerate(model.alphas_):
                strength = (
                    {"beta": 1 / alpha} if hasattr(model, "beta_") else {"alpha": alpha}
                )
                fitted = base(**shared, **strength).fit(
                    **part, sample_weight=None if weights is None else weights[train]
                )
                scores[a, k] = task_scorer(metric)(fitted, **held)
    return scores if metric not in ("mse", "rmse") else -scores


@pytest.mark.every(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("cls", "layout"), [(cls, LAYOUTS[k % 3]) for k, cls in enumerate(CLASSES)]
)
def test_scores_match_separate_fits(cls, layout):
    data, folds = rows(layout, cls)
    folds = folds[:2]
    model = cls(alphas=3, min_ratio=0.05, cv=folds, **TIGHT).fit(**data)
    expected = searched(model, data, folds)
    assert_allclose(model.scores_path_, expected, rtol=1e-2)
    means = expected.mean(axis=1) * (1 if "Classifier" in cls.__name__ else -1)
    assert (
        means[model.alphas_.tolist().index(model.alpha_)]
        >= means.max() - 1e-3 * abs(means).max()
    )
    assert model.converged_


def test_targets_may_be_columns_in_any_order():
    data, _ = rows("shared", paths.JointFeatureMTLCV)
    frame = pd.DataFrame(data["y"], columns=["slump", "flow", "strength"])
    model = paths.JointFeatureMTLCV(alphas=4)
    expected = clone(model).fit(**data).scores_path_
    named = model.fit(**{**data, "y": frame})
    assert_allclose(named.scores_path_, expected)


def test_folds_shrink_intercepts_like_the_model():
    data, folds = rows("ragged", paths.TraceNormMTLCV)
    options = {"intercepts": "shrunken", "cv": folds[:2], **TIGHT}
    model = paths.TraceNormMTLCV(alphas=3, min_ratio=0.05, **options).fit(**data)
    expected = searched(model, data, folds[:2])
    assert_allclose(model.scores_path_, expected, rtol=1e-4)


@pytest.mark.parametrize("layout", ["ragged", "masked"])
def test_classes_are_balanced_in_the_training_rows_of_each_fold(layout):
    data, folds = rows(layout, paths.TraceNormMTLClassifierCV)
    folds = folds[:2]
    weights = np.random.default_rng(2).random(90) + 0.1
    options = {"class_weight": "balanced", "loss": "squared", **TIGHT}
    model = paths.TraceNormMTLClassifierCV(
        alphas=[6.0, 3.0], cv=folds, scoring="log_loss", **options
    )
    model.fit(**data, sample_weight=weights)
    expected = searched(model, data, folds, weights)
    assert_allclose(model.scores_path_, -expected, rtol=1e-3)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "options", [{}, {"fit_intercept": False}, {"solver": "fista"}, {"scoring": "r2"}]
)
@pytest.mark.parametrize("layout", ["shared", "ragged", "masked"])
def test_weights_and_options_are_used(layout, options):
    data, folds = rows(layout, paths.TraceNormMTLCV)
    weights = np.random.default_rng(2).random(90) + 0.1
    model = paths.TraceNormMTLCV(alphas=[3.0, 30.0, 0.3], cv=folds, **options, **TIGHT)
    model.fit(**data, sample_weight=weights)
    assert model.alphas_.tolist() == [30.0, 3.0, 0.3]
    assert_allclose(
        model.scores_path_, searched(model, data, folds, weights), rtol=1e-4
    )


def test_sparse_and_wide_designs_work_without_statistics():
    data, folds = rows("shared", paths.JointFeatureMTLCV)
    dense = paths.JointFeatureMTLCV(alphas=4, cv=folds, **TIGHT).fit(**data)
    sparse = paths.JointFeatureMTLCV(alphas=4, cv=folds, **TIGHT).fit(
        sp.csr_array(data["X"]), data["y"]
    )
    assert_allclose(sparse.scores_path_, dense.scores_path_, rtol=1e-5)
    wide = np.random.default_rng(0).normal(size=(90, 70))
    model = paths.JointFeatureMTLCV(alphas=4, cv=folds, **TIGHT).fit(wide, data["y"])
    assert_allclose(
        model.scores_path_,
        searched(model, {"X": wide, "y": data["y"]}, folds),
        rtol=1e-4,
    )


def test_large_means_do_not_cancel():
    data, folds = rows("shared", paths.TraceNormMTLCV)
    plain = paths.TraceNormMTLCV(alphas=4, cv=folds, **TIGHT).fit(**data)
    moved = paths.TraceNormMTLCV(alphas=4, cv=folds, **TIGHT).fit(
        data["X"] + 1e6, data["y"] - 1e5
    )
    assert_allclose(moved.scores_path_, plain.scores_path_, rtol=1e-5)


def test_a_search_of_scikit_learn_selects_the_same():
    data, folds = rows("shared", paths.JointFeatureMTLCV)
    model = paths.JointFeatureMTLCV(cv=folds, **TIGHT).fit(**data)
    base = paths.JointFeatureMTL(**TIGHT)
    search = GridSearchCV(
        base, {"alpha": model.alphas_}, cv=folds, scoring=task_scorer("mse")
    ).fit(**data)
    assert search.best_params_["alpha"] == model.alpha_
    assert_allclose(search.best_estimator_.coef_, model.coef_, rtol=1e-5)


@pytest.mark.parametrize(
    "base", [paths.JointFeatureMTL(**TIGHT), paths.RobustMTL(**TIGHT)]
)
def test_a_path_ends_at_zero_and_equals_single_fits(base):
    data, _ = rows("shared", type(base))
    path = base.path(**data, alphas=6)
    assert_allclose(path.alphas, path.alphas[0] * np.geomspace(1, 1e-3, 6))
    assert abs(path.coef[0]).max() < 1e-4 < abs(path.coef[1]).max()
    for alpha, coef in zip(path.alphas[1:], path.coef[1:], strict=True):
        strength = (
            {"beta": 1 / alpha} if "beta" in base.get_params() else {"alpha": alpha}
        )
        assert_allclose(
            base.set_params(**strength).fit(**data).coef_,
            coef,
            atol=1e-3 * abs(coef).max(),
        )
        if "beta" not in strength:
            oracle = MultiTaskLasso(alpha / 90, tol=1e-10, max_iter=10_000).fit(
                data["X"], data["y"]
            )
            assert_allclose(oracle.coef_, coef, atol=1e-4 * abs(coef).max())
    assert (path.gap <= 1e-7).all()


def test_tasks_without_training_rows_are_left_out_of_a_fold():
    data, _ = rows("ragged", paths.SparseMTLCV)
    first = data["task_id"] == "a"
    folds = [(np.flatnonzero(~first), np.arange(90)), (np.arange(90), np.arange(90))]
    with pytest.warns(UserWarning, match="TaskStratifiedKFold"):
        model = paths.SparseMTLCV(alphas=3, cv=folds).fit(**data)
    assert model.coef_.shape == (3, 4)
    assert np.isfinite(model.scores_path_).all()


def test_invalid_input_is_rejected_and_weak_grids_cause_warnings():
    data, folds = rows("shared", paths.TraceNormMTLCV)
    for options in (
        {"alphas": 0},
        {"alphas": [-1.0]},
        {"cv": 1},
        {"scoring": "rsme"},
        {"min_ratio": 2.0},
    ):
        with pytest.raises(ValueError, match=next(iter(options))):
            paths.TraceNormMTLCV(**options).fit(**data)
    with pytest.warns(ConvergenceWarning, match="cross-validation"):
        paths.TraceNormMTLCV(alphas=3, cv=folds, max_iter=1, tol=1e-12).fit(**data)
    with pytest.raises(TypeError, match="alpha"):
        paths.TraceNormMTLCV(alpha=1.0)


CLASSIFIERS = [name for name in vars(paths) if name.endswith("ClassifierCV")]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_path_of_a_classifier_counts_the_predicted_labels(name):
    """At the first strength all scores are 0, for which `predict` returns the label -1.

    The labels are balanced, so that the intercepts are 0 as well.
    """
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1, 2], 20)
    y = np.tile([1, -1], 30)
    X = y[:, None] + 0.3 * rng.normal(size=(60, 3))
    settings = {"lam": 0.8} if "Robust" in name else {}
    model = getattr(paths, name)(alphas=2, min_ratio=0.05, cv=2, **settings)
    model.fit(X, y, task_id=task)
    assert np.isfinite(model.scores_path_).all()
    assert model.score(X, y, task_id=task) > 0.8


CHECKED = [
    paths.TraceNormMTLCV(alphas=2, cv=2),
    paths.JointFeatureMTLCV(alphas=2, cv=2),
    paths.RobustMTLCV(alphas=2, cv=2),
    paths.SparseMTLClassifierCV(alphas=2, cv=2),
]


@pytest.mark.every(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(
            *pair, id=f"{type(estimator).__name__}-{k}-{pair[1].func.__name__}"
        )
        for k, estimator in enumerate(CHECKED)
        for j, pair in enumerate(estimator_checks_generator(estimator, mark=None))
        if j % len(CHECKED) == k
    ],
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)
