"""Model files with invalid or circular references are rejected before predicting."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR

from mtlrun.catalog.registry import build
from mtlrun.errors import DataError
from mtlrun.estimators.baselines import PerTask
from mtlrun.features import WeightedDegree
from mtlrun.model.checks import check_indices
from mtlrun.model.files import Model, load_model, save_model

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.standard_normal((80, 3)), RNG.integers(0, 5, 80)])
Y = X @ RNG.standard_normal((4, 2)) + (X[:, 3:] == 2)
FACTS = {
    "name": "train/a",
    "task_type": "regression",
    "design": "shared",
    "tasks": ["a", "b"],
    "input": {"n_features": 4, "names": ["v", "w", "x", "y"], "strings": False},
    "estimator": {"name": "R"},
    "dataset": {"id": "d"},
}
#: Types needed by sparse matrices
TRUSTED = ["scipy.sparse._csr.csr_array"]
REMEDY = "get it from somebody you trust"
BOOSTED = HistGradientBoostingRegressor(
    max_iter=3, categorical_features=[3], min_samples_leaf=5
)


def _loaded(folder, model):
    save_model(folder, Model(model, None, FACTS))
    return load_model(folder, TRUSTED)


def _set(field, value, where=None):
    """Return a function that changes one field of the first node of a boosted tree for
    which `where` holds.
    """

    def change(model):
        nodes = model._predictors[0][0].nodes
        index = 0 if where is None else np.flatnonzero(nodes[where])[0]
        nodes[field][index] = value

    return change


def _no_categories(model):
    model._bin_mapper.is_categorical_ = np.zeros(4, dtype=np.uint8)


def _no_nodes(model):
    model._predictors[0][0].nodes = model._predictors[0][0].nodes[:0]


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "change",
    [
        _set("left", 10_000),
        _set("right", 0),
        _set("left", 0),
        _set("left", 2),
        _set("feature_idx", 4),
        _set("feature_idx", -1),
        _set("bitset_idx", 1000, "is_categorical"),
        _set("is_leaf", 0, "is_leaf"),
        _no_categories,
        _no_nodes,
    ],
)
def test_indices_of_boosted_trees_stay_inside_their_tables(tmp_path, change):
    model = PerTask(BOOSTED).fit(X, Y)
    np.testing.assert_array_equal(
        _loaded(tmp_path / "whole", model).scores(X), model.predict(X)
    )
    change(model.estimators_[1])
    with pytest.raises(
        DataError, match=r"model\.skops: a \w+ in it is damaged or forged"
    ) as caught:
        _loaded(tmp_path / "changed", model)
    assert REMEDY in caught.value.remedy


def _state(tree, field, place, value):
    state = tree.__getstate__()
    state["nodes"] = state["nodes"].copy()
    state["nodes"][field][place] = value
    tree.__setstate__(state)


@pytest.mark.cover
@pytest.mark.parametrize(
    "kind", [ExtraTreesRegressor, RandomForestRegressor, GradientBoostingRegressor]
)
@pytest.mark.parametrize(
    ("field", "value"),
    [("left_child", 10_000), ("right_child", 0), ("left_child", -7), ("feature", 4)],
)
def test_indices_of_trees_stay_inside_their_tables(kind, field, value):
    forest = kind(n_estimators=3, random_state=0).fit(X, Y[:, 0])
    check_indices({"estimator": forest}, "model.skops", REMEDY)
    _state(np.ravel(forest.estimators_).tolist()[1].tree_, field, 0, value)
    with pytest.raises(
        DataError, match=r"model\.skops: a \w*Tree\w* in it is damaged or forged"
    ):
        check_indices({"estimator": [forest]}, "model.skops", REMEDY)


def test_trees_have_the_features_of_their_forest():
    forest, other = (
        ExtraTreesRegressor(2, random_state=0).fit(x, Y) for x in (X[:, :2], X)
    )
    forest.estimators_ = other.estimators_
    with pytest.raises(DataError, match="ExtraTreesRegressor"):
        check_indices(forest, "model.skops", REMEDY)


@pytest.mark.parametrize(
    ("name", "value"),
    [("node_count", 0), ("node_count", 1 << 40), ("max_depth", 2), ("max_depth", -1)],
)
def test_trees_have_the_stated_size(name, value):
    tree = ExtraTreesRegressor(1, random_state=0).fit(X, Y).estimators_[0]
    setattr(tree.tree_, name, value)
    with pytest.raises(DataError):
        check_indices(tree, "model.skops", REMEDY)


def test_a_tree_node_has_one_parent():
    tree = ExtraTreesRegressor(1, random_state=0).fit(X, Y).estimators_[0].tree_
    _state(tree, "left_child", 0, tree.children_right[0])
    with pytest.raises(DataError):
        check_indices(tree, "model.skops", REMEDY)


def test_a_nested_forest_cannot_hide_the_features_of_its_tree():
    boosted, other = (
        GradientBoostingRegressor(n_estimators=2, random_state=0).fit(x, Y[:, 0])
        for x in (X[:, :2], X)
    )
    stand_in = Ridge()
    stand_in.tree_ = other.estimators_[0, 0].tree_
    boosted.estimators_[0, 0] = stand_in
    with pytest.raises(DataError):
        check_indices(boosted, "model.skops", REMEDY)


@pytest.mark.cover
@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree"])
@pytest.mark.parametrize(
    ("table", "change"),
    [
        (1, lambda order: order + 1),
        (2, lambda nodes: nodes[:2]),
        (1, lambda order: order[:-1]),
    ],
)
def test_neighbors_are_rows(algorithm, table, change):
    model = KNeighborsRegressor(3, algorithm=algorithm, leaf_size=3).fit(X, Y)
    check_indices(model, "model.skops", REMEDY)
    state = list(model._tree.__getstate__())
    state[table] = change(np.asarray(state[table]))
    model._tree.__setstate__(tuple(state))
    with pytest.raises(
        DataError, match=r"model\.skops: a (KD|Ball)Tree in it is damaged"
    ):
        check_indices(model, "model.skops", REMEDY)


@pytest.mark.parametrize(
    "name", ["support_", "support_vectors_", "_dual_coef_", "_intercept_"]
)
def test_support_vectors_have_coefficients(tmp_path, name):
    model = SVR().fit(X, Y[:, 0])
    check_indices(model, "model.skops", REMEDY)
    setattr(model, name, getattr(model, name)[..., :-1])
    with pytest.raises(DataError, match="SVR"):
        check_indices(model, "model.skops", REMEDY)


def test_indices_of_sparse_matrices_are_columns(tmp_path):
    model = build("GraphSVC").fit(X, np.sign(Y))
    model.graph = sp.csr_array(np.eye(2))
    assert _loaded(tmp_path / "whole", model).estimator.graph.shape == (2, 2)
    model.graph.indices[:] = 1000
    with pytest.raises(DataError, match=r"model\.skops.*csr_array"):
        _loaded(tmp_path / "changed", model)


def test_a_forged_degree_of_string_features_is_refused():
    strings = np.array([b"ACGTA", b"CCGTA", b"ACGAA"])
    step = WeightedDegree(3).fit(strings)
    step.degree = 60
    with pytest.raises(ValueError, match=r"degree.*1.*31"):
        step.transform(strings)


def test_string_features_need_a_matching_number_of_coefficients():
    strings = np.array([b"ACGTA", b"CCGTA", b"ACGAA"])
    model = build(
        {"estimator": "GraphSVC", "params": {"features": WeightedDegree(3)}}
    ).fit(strings, [1, -1, 1])
    model.coef_ = model.coef_[:, :5]
    with pytest.raises(ValueError, match="5 coefficients for"):
        model.decision_function(strings)
