"""Check the tables of indices in loaded models before compiled code uses them.

scikit-learn and scipy do not check these tables when they predict. With a damaged or
forged table they would read memory outside the table, or never end if a node of a tree
is its own ancestor.

Some tables have no public names. Only this module reads them, under their names in
scikit-learn 1.7 to 1.9. An object without an expected name is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from mtlrun.errors import DataError

Array = np.ndarray[Any, np.dtype[Any]]

#: Number of words of 32 bits that encode a set of categories in a column of bytes.
_N_WORDS = 8


def check_indices(content: Any, name: str, remedy: str) -> None:
    """Refuse objects of a model file whose tables contain invalid indices.

    Checked are trees, forests, boosted trees, nearest neighbors and support vectors of
    scikit-learn, and sparse matrices.

    Parameters
    ----------
    content : object
        Objects of the file, which may be nested in dicts, lists, tuples, arrays and
        attributes.
    name, remedy : str
        Name of the file and remedy in messages.

    Raises
    ------
    DataError
        With the type of the object and the problem.
    """
    for value in objects_within(content):
        for kind in type(value).__mro__:
            check = _CHECKS.get(f"{kind.__module__}.{kind.__name__}")
            if check is None:
                continue
            try:
                check(value)
            except (AttributeError, TypeError, ValueError, IndexError) as error:
                type_name = type(value).__name__
                raise DataError(
                    f"{name}: a {type_name} in it is damaged or forged ({error})",
                    remedy,
                ) from None


#: Types whose values contain no other objects.
_SIMPLE_TYPES = str | bytes | int | float | complex | type | None


def objects_within(content: Any) -> Iterator[Any]:
    """Yield each object that is reached from an object, including itself, once."""
    pending = [content]
    # Objects are stored, so that the id of none of them is used again.
    visited = {}
    while pending:
        value = pending.pop()
        if id(value) in visited or isinstance(value, _SIMPLE_TYPES):
            continue
        visited[id(value)] = value
        yield value
        if isinstance(value, dict):
            pending += [*value.keys(), *value.values()]
            pending.append(getattr(value, "default_factory", None))
        elif isinstance(value, list | tuple | set | frozenset):
            pending += value
        elif isinstance(value, np.ndarray):
            # Other arrays hold numbers or texts only.
            if value.dtype.kind == "O":
                pending += value.ravel().tolist()
        elif isinstance(value, partial):
            pending += [value.func, value.args, value.keywords, value.__dict__]
        else:
            pending += getattr(value, "__dict__", {}).values()


def _require(condition: Any, problem: str) -> None:
    """Raise an error unless a condition holds for all entries."""
    if not np.all(condition):
        raise ValueError(problem)


def _check_children(
    is_inner: Array, left: Array, right: Array, features: Array, n_features: int
) -> None:
    """Check a table of nodes, whose first node is the root.

    scikit-learn stores children after their parents.

    Parameters
    ----------
    is_inner : ndarray of bool, shape (n_nodes,)
        Nodes with children. The values of other nodes are not used.
    left, right : ndarray of shape (n_nodes,)
        Positions of the children.
    features : ndarray of shape (n_nodes,)
        Position of the feature that splits a node.
    n_features : int
    """
    n_nodes = len(is_inner)
    _require(n_nodes > 0, "a tree without nodes")
    parents = np.flatnonzero(is_inner)
    left_children = left[is_inner].astype(np.int64)
    right_children = right[is_inner].astype(np.int64)
    children = [left_children, right_children]
    for child in children:
        # Without this order, a node could be its own descendant: predicting would not
        # end.
        is_later = (child > parents) & (child < n_nodes)
        _require(is_later, f"a child is not a later one of {n_nodes} nodes")
    # Code that visits all nodes has memory for each of them once.
    n_parents = np.bincount(np.concatenate(children), minlength=n_nodes)
    _require(n_parents <= 1, "a node is the child of two others")
    used_features = features[is_inner]
    is_feature = (used_features >= 0) & (used_features < n_features)
    _require(is_feature, f"a split is not on one of {n_features} features")


def _check_tree(tree: Any) -> None:
    _require(
        0 < tree.node_count <= tree.capacity,
        f"{tree.node_count} nodes in a table of {tree.capacity}",
    )
    _require(
        tree.n_outputs > 0 and tree.max_n_classes > 0, "a tree that predicts nothing"
    )
    left = tree.children_left
    right = tree.children_right
    _check_children(left != -1, left, right, tree.feature, tree.n_features)
    # Code that follows the paths of a tree has memory for `max_depth` nodes.
    depth = 0
    level = np.zeros(1, dtype=np.int64)
    while True:
        parents = level[left[level] != -1]
        if not len(parents):
            break
        level = np.concatenate([left[parents], right[parents]])
        depth += 1
    _require(depth <= tree.max_depth, f"nodes deeper than {tree.max_depth}")


def _check_decision_tree(model: Any) -> None:
    if hasattr(model, "tree_"):
        _require(model.tree_.n_features == model.n_features_in_, "a tree of other data")


def _check_ensemble(model: Any) -> None:
    """Check that trees have the features of their ensemble.

    An ensemble checks only that rows have its own number of features.
    """
    trees = getattr(model, "estimators_", [])
    if isinstance(trees, np.ndarray):
        trees = trees.ravel()
    features_by_tree = getattr(model, "estimators_features_", None)
    for position, tree in enumerate(trees):
        n_features = model.n_features_in_
        if features_by_tree is not None:
            n_features = len(features_by_tree[position])
        # Gradient boosting passes rows to the table of a tree, not to the tree.
        table = getattr(tree, "tree_", None)
        n_features_in_parts = {
            getattr(tree, "n_features_in_", n_features),
            getattr(table, "n_features", n_features),
        }
        is_equal = n_features_in_parts == {n_features}
        _require(is_equal, "a part of it was fitted on other features")


def _check_boosting(model: Any) -> None:
    """Check boosted trees.

    scikit-learn (1.7 to 1.9) has no public names for the trees and the bins. A model
    that has only one of them is refused, and a fitted model that has neither.
    """
    has_bins = hasattr(model, "_bin_mapper")
    has_trees = hasattr(model, "_predictors")
    _require(has_bins == has_trees, "trees without their bins")
    if not has_trees:
        _require(not hasattr(model, "n_features_in_"), "no trees that can be checked")
        return
    bins = model._bin_mapper
    if bins is None:
        categorical = np.zeros(model.n_features_in_, dtype=bool)
    else:
        categorical = np.asarray(bins.is_categorical_, dtype=bool)
    has_all_features = categorical.shape == (model.n_features_in_,)
    _require(has_all_features, "categories of other features")
    for tree in chain.from_iterable(model._predictors):
        nodes = tree.nodes
        bitsets = tree.raw_left_cat_bitsets
        _require(nodes.ndim == 1, "a table of nodes with more than one dimension")
        is_inner = nodes["is_leaf"] == 0
        features = nodes["feature_idx"]
        _check_children(
            is_inner, nodes["left"], nodes["right"], features, len(categorical)
        )
        is_categorical = is_inner & (nodes["is_categorical"] != 0)
        has_words = bitsets.ndim == 2 and bitsets.shape[1] == _N_WORDS
        needs_words = is_categorical.any()
        _require(
            bitsets.ndim == 2 and (has_words or not needs_words),
            "sets of categories of a wrong size",
        )
        has_bitset = nodes["bitset_idx"][is_categorical] < len(bitsets)
        _require(has_bitset, f"a node has none of {len(bitsets)} sets of categories")
        splits_categories = categorical[features[is_categorical]]
        _require(splits_categories, "a split by categories of a number")


def _check_neighbors(tree: Any) -> None:
    """Check a tree of nearest neighbors, which is a complete binary tree."""
    data, order, nodes, bounds = map(np.asarray, tree.get_arrays())
    n_rows = len(data)
    n_nodes = len(nodes)
    has_nodes = n_nodes > 0 and bounds.shape[1] >= n_nodes
    _require(order.shape == (n_rows,) and has_nodes, "tables of different sizes")
    is_row = (order >= 0) & (order < n_rows)
    _require(is_row, f"a neighbor is not one of {n_rows} rows")
    start = nodes["idx_start"]
    end = nodes["idx_end"]
    is_range = (start >= 0) & (start <= end) & (end <= n_rows)
    _require(is_range, f"a node has other rows than the {n_rows}")
    # The children of node i are nodes 2 i + 1 and 2 i + 2.
    lacks_children = np.arange(n_nodes) * 2 + 2 >= n_nodes
    is_leaf = nodes["is_leaf"][lacks_children] != 0
    _require(is_leaf, f"a child is not one of {n_nodes} nodes")


def _check_support(model: Any) -> None:
    """Check support vector machines.

    The compiled code of scikit-learn (1.7 to 1.9) reads attributes without a public
    name. A forged file may give them other values than the public ones.
    """
    if not hasattr(model, "support_vectors_"):
        return
    counts = np.asarray(model.n_support_)
    n_vectors = len(model.support_)
    n_rows, n_features = model.support_vectors_.shape
    n_classes = max(2, len(model._n_support))
    is_complete = counts.min() >= 0 and counts.sum() == n_vectors == n_rows
    _require(is_complete, f"not {n_vectors} support vectors")
    # Vectors of a precomputed kernel have no features.
    has_features = n_features == model.n_features_in_
    _require(
        model.kernel == "precomputed" or has_features,
        "support vectors of other features",
    )
    shapes = {model._dual_coef_.shape, model.dual_coef_.shape}
    has_coefficients = shapes == {(n_classes - 1, n_vectors)}
    _require(has_coefficients, "coefficients of other support vectors")
    n_pairs = n_classes * (n_classes - 1) // 2
    _require(len(model._intercept_) == n_pairs, f"not {n_pairs} intercepts")
    for probabilities in (model._probA, model._probB):
        has_pairs = len(probabilities) in (0, n_pairs)
        _require(has_pairs, "probabilities of other classes")


def _check_sparse(matrix: Any) -> None:
    if matrix.format in ("csr", "csc", "bsr"):
        matrix.check_format(full_check=True)
    elif matrix.format == "coo":
        for indices, size in zip(matrix.coords, matrix.shape, strict=True):
            is_integer = np.issubdtype(indices.dtype, np.integer)
            _require(is_integer, "positions that are not integers")
            _require(len(indices) == len(matrix.data), "tables of different sizes")
            is_position = (indices >= 0) & (indices < size)
            _require(is_position, f"a position is not one of {size}")


_BOOSTING = "ensemble._hist_gradient_boosting.gradient_boosting"
#: Name of a class -> its check. Names instead of classes, so that the modules of
#: scikit-learn are not imported for models that do not need them.
_SKLEARN_CHECKS: dict[str, Callable[[Any], None]] = {
    "tree._tree.Tree": _check_tree,
    "tree._classes.BaseDecisionTree": _check_decision_tree,
    "ensemble._base.BaseEnsemble": _check_ensemble,
    f"{_BOOSTING}.BaseHistGradientBoosting": _check_boosting,
    "neighbors._kd_tree.BinaryTree64": _check_neighbors,
    "neighbors._kd_tree.BinaryTree32": _check_neighbors,
    "neighbors._ball_tree.BinaryTree64": _check_neighbors,
    "neighbors._ball_tree.BinaryTree32": _check_neighbors,
    "svm._base.BaseLibSVM": _check_support,
}
_CHECKS = {f"sklearn.{name}": check for name, check in _SKLEARN_CHECKS.items()}
for _sparse_type in (sparse.sparray, sparse.spmatrix):
    _CHECKS[f"{_sparse_type.__module__}.{_sparse_type.__name__}"] = _check_sparse
