"""Checks of the tables in loaded models, which compiled code follows without looking.

scikit-learn checks none of them when it predicts: a damaged or forged file would make it
read memory that belongs to something else. Some tables have no public names. This module
alone reads these, as scikit-learn 1.7 to 1.9 name them; what lacks a name it reads is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from mtlrun.errors import DataError

Array = np.ndarray[Any, np.dtype[Any]]

#: Entries of a row of bits that stands for the categories of a column of bytes.
_WORDS = 8


class _WrongError(Exception):
    """An array is no table of what it should be."""


def check_indices(content: Any, name: str, remedy: str) -> None:
    """Refuse objects of a model file whose tables lead outside of themselves, or in a circle.

    Trees and forests, boosted trees, nearest neighbours and support vectors of scikit-learn, and sparse matrices.

    Parameters
    ----------
    content : object
        What was read: objects in dicts, lists, tuples, arrays and attributes are looked at.
    name, remedy : str
        The file and what to do, for messages.

    Raises
    ------
    DataError
        With the type of the object and what is wrong.
    """
    for value in objects_within(content):
        for kind in type(value).__mro__:
            check = _CHECKS.get(f"{kind.__module__}.{kind.__name__}")
            if check is None:
                continue
            try:
                check(value)
            except (
                _WrongError,
                AttributeError,
                TypeError,
                ValueError,
                IndexError,
            ) as error:
                what = f"{name}: a {type(value).__name__} in it is damaged or forged ({error})"
                raise DataError(what, remedy) from None


def objects_within(content: Any) -> Iterator[Any]:
    """Yield everything that is reached from an object, once."""
    waiting, seen = [content], {}
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(
            value, str | bytes | int | float | complex | type | None
        ):
            continue
        seen[id(value)] = value  # kept, so that no other object gets its id
        yield value
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
            waiting.append(getattr(value, "default_factory", None))
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif isinstance(value, np.ndarray):
            waiting += value.ravel().tolist() if value.dtype.kind == "O" else []
        elif isinstance(value, partial):
            waiting += [value.func, value.args, value.keywords, value.__dict__]
        else:
            waiting += getattr(value, "__dict__", {}).values()


def _require(holds: Any, problem: str) -> None:
    if not np.all(holds):
        raise _WrongError(problem)


def _check_children(
    inner: Array, left: Array, right: Array, features: Array, n_features: int
) -> None:
    """Check a table of nodes, the root first: scikit-learn puts children behind their parents."""
    _require(len(inner) > 0, "a tree without nodes")
    place = np.arange(len(inner))[inner]
    children = [left[inner].astype(np.int64), right[inner].astype(np.int64)]
    for child in children:
        _require(
            (child > place) & (child < len(inner)),
            f"a child is no later node of the {len(inner)}",
        )
    # Code that visits all nodes has room for each of them once.
    n_parents = np.bincount(np.concatenate(children), minlength=len(inner))
    _require(n_parents <= 1, "a node is the child of two others")
    _require(
        (features[inner] >= 0) & (features[inner] < n_features),
        f"a split is on none of {n_features} features",
    )


def _check_tree(tree: Any) -> None:
    _require(
        0 < tree.node_count <= tree.capacity,
        f"{tree.node_count} nodes in a table of {tree.capacity}",
    )
    _require(
        tree.n_outputs > 0 and tree.max_n_classes > 0, "a tree that predicts nothing"
    )
    left = tree.children_left
    _check_children(
        left != -1, left, tree.children_right, tree.feature, tree.n_features
    )
    _require(
        _depth(left, tree.children_right) <= tree.max_depth,
        f"nodes deeper than {tree.max_depth}",
    )


def _depth(left: Array, right: Array) -> int:
    """Return the depth of a checked tree, 0 for a root without children."""
    depth = 0
    level = np.zeros(1, dtype=np.int64)
    while True:
        inner = level[left[level] != -1]
        if not len(inner):
            return depth
        level = np.concatenate([left[inner], right[inner]])
        depth += 1


def _check_decision_tree(model: Any) -> None:
    if hasattr(model, "tree_"):
        _require(model.tree_.n_features == model.n_features_in_, "a tree of other data")


def _check_ensemble(model: Any) -> None:
    """Check that trees have the features of their forest, which does not ask them whether rows fit."""
    trees = getattr(model, "estimators_", [])
    trees = trees.ravel() if isinstance(trees, np.ndarray) else trees
    chosen = getattr(model, "estimators_features_", None)
    for k, tree in enumerate(trees):
        width = model.n_features_in_ if chosen is None else len(chosen[k])
        # Gradient boosting hands its rows to the tables of the trees themselves.
        table = getattr(tree, "tree_", None)
        widths = {
            getattr(tree, "n_features_in_", width),
            getattr(table, "n_features", width),
        }
        _require(widths == {width}, "a part of it was fitted on other features")


def _check_boosting(model: Any) -> None:
    """Check boosted trees.

    scikit-learn (1.7 to 1.9) has no public name for the trees and the bins. A model with
    one of the two only is refused, and so is a fitted one without any.
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
    _require(
        categorical.shape == (model.n_features_in_,), "categories of other features"
    )
    for trees in model._predictors:
        for tree in trees:
            _check_predictor(tree, categorical)


def _check_predictor(tree: Any, categorical: Array) -> None:
    nodes, bits = tree.nodes, tree.raw_left_cat_bitsets
    _require(nodes.ndim == 1, "a table of nodes with more than one dimension")
    inner = nodes["is_leaf"] == 0
    _check_children(
        inner, nodes["left"], nodes["right"], nodes["feature_idx"], len(categorical)
    )
    words = inner & (nodes["is_categorical"] != 0)
    _require(
        bits.ndim == 2 and (bits.shape[1] == _WORDS or not words.any()),
        "categories in no rows of bits",
    )
    _require(
        nodes["bitset_idx"][words] < len(bits),
        f"a node has none of {len(bits)} sets of categories",
    )
    _require(
        categorical[nodes["feature_idx"][words]], "a split by categories of a number"
    )


def _check_neighbours(tree: Any) -> None:
    data, order, nodes, bounds = (np.asarray(values) for values in tree.get_arrays())
    n, last = len(data), len(nodes)
    _require(
        order.shape == (n,) and last > 0 and bounds.shape[1] >= last,
        "tables of different sizes",
    )
    _require((order >= 0) & (order < n), f"a neighbour is none of {n} rows")
    begin, end = nodes["idx_start"], nodes["idx_end"]
    _require(
        (begin >= 0) & (begin <= end) & (end <= n),
        f"a node has other rows than the {n}",
    )
    _require(
        nodes["is_leaf"][np.arange(last) * 2 + 2 >= last] != 0,
        f"a child is none of {last} nodes",
    )


def _check_support(model: Any) -> None:
    """Check support vector machines.

    The compiled code of scikit-learn (1.7 to 1.9) reads attributes that have no public
    name beside the public ones, which a forged file may set to something else.
    """
    if not hasattr(model, "support_vectors_"):
        return
    counts = np.asarray(model.n_support_)
    n = len(model.support_)
    n_classes = max(2, len(model._n_support))
    _require(
        counts.min() >= 0 and counts.sum() == n == model.support_vectors_.shape[0],
        f"not {n} support vectors",
    )
    dense = (
        model.kernel == "precomputed"
        or model.support_vectors_.shape[1] == model.n_features_in_
    )
    _require(dense, "support vectors of other features")
    coefficients = {model._dual_coef_.shape, model.dual_coef_.shape}
    _require(
        coefficients == {(n_classes - 1, n)}, "coefficients of other support vectors"
    )
    n_pairs = n_classes * (n_classes - 1) // 2
    _require(len(model._intercept_) == n_pairs, f"not {n_pairs} intercepts")
    _require(
        len(model._probA) in (0, n_pairs) and len(model._probB) in (0, n_pairs),
        "probabilities of other classes",
    )


def _check_sparse(matrix: Any) -> None:
    if matrix.format in ("csr", "csc", "bsr"):
        matrix.check_format(full_check=True)
    elif matrix.format == "coo":
        for indices, size in zip(matrix.coords, matrix.shape, strict=True):
            _require(
                np.issubdtype(indices.dtype, np.integer), "positions of no integers"
            )
            _require(len(indices) == len(matrix.data), "tables of different sizes")
            _require((indices >= 0) & (indices < size), f"a position is none of {size}")


_SKLEARN: dict[str, Callable[[Any], None]] = {
    "tree._tree.Tree": _check_tree,
    "tree._classes.BaseDecisionTree": _check_decision_tree,
    "ensemble._base.BaseEnsemble": _check_ensemble,
    "ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": _check_boosting,
    "neighbors._kd_tree.BinaryTree64": _check_neighbours,
    "neighbors._kd_tree.BinaryTree32": _check_neighbours,
    "neighbors._ball_tree.BinaryTree64": _check_neighbours,
    "neighbors._ball_tree.BinaryTree32": _check_neighbours,
    "svm._base.BaseLibSVM": _check_support,
}
# By names: a model without such objects does not wait for their modules.
_CHECKS = {f"sklearn.{name}": check for name, check in _SKLEARN.items()}
_CHECKS |= {
    f"{kind.__module__}.{kind.__name__}": _check_sparse
    for kind in (sparse.sparray, sparse.spmatrix)
}
