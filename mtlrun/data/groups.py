"""Folds and splits that keep the rows of a group together.

Groups are dealt one after the other, large ones first, each to the part that so far has
the smallest share of the rows of the group. With ``n[g, c]`` the rows of group g in
column c (a task, or a label of a task), ``N[c]`` their number, ``R[k, c]`` the rows
that part k has received and ``s[k]`` the share of the rows that it is to receive, group
g goes to the part with the smallest

    sum over c of n[g, c] / N[c] * R[k, c] / (N[c] s[k]),

which is the gradient of the squared shares; ties go to the part with the fewest rows.
So the groups of a task are spread over all parts, whether a group lies within one task
(patients in clinics) or reaches over several (days on which all stores were open).

The result depends on the seed and on the content of the groups. It does not depend on
the order of the rows or the names of groups and tasks, except where two groups hold the
same targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from mtlrun.errors import DataError

Array = np.ndarray

Rows = Array


def group_folds(
    groups: Any, strata: Any, y: Any, n_folds: int, seed: int
) -> Iterator[tuple[Rows, Rows]]:
    """Yield the (train, test) rows of folds that keep groups together.

    Parameters
    ----------
    groups : array-like of shape (n,)
        Group of each row.
    strata : array-like of shape (n, C) or sparse matrix
        Columns whose sums are spread over the folds, see `strata_of`.
    y : ndarray of shape (n,) or (n, T)
        Targets. They only decide the order of groups of about the same size.
    n_folds : int
        With fewer groups there are as many folds as groups.
    seed : int

    Raises
    ------
    DataError
        If all rows belong to one group.
    """
    codes = _codes(groups)
    n_groups = int(codes.max(initial=-1)) + 1
    if n_groups < 2:
        raise DataError(
            "all rows belong to one group, so no part of them can be held out",
            "Use at least two groups.",
        )
    n_folds = min(n_folds, n_groups)
    shares = np.full(n_folds, 1 / n_folds)
    part_of_row = _deal(codes, strata, y, shares, seed)
    for fold in range(n_folds):
        is_test = part_of_row == fold
        yield np.flatnonzero(~is_test), np.flatnonzero(is_test)


def group_split(
    groups: Any, strata: Any, y: Any, train: float, seed: int
) -> tuple[Rows, Rows]:
    """Split groups: about a part `train` of the rows, and the others.

    Every column of `strata` has rows in the first part. See `group_folds` for the
    parameters.

    Raises
    ------
    DataError
        If one of the parts would be empty.
    """
    codes = _codes(groups)
    shares = np.array([train, 1 - train])
    part_of_row = _deal(codes, strata, y, shares, seed, complete=0)
    if not (part_of_row == 1).any():
        raise DataError(
            f"a training part of {train:g} leaves no group for the other part",
            "Use a smaller training part, or more groups.",
        )
    return np.flatnonzero(part_of_row == 0), np.flatnonzero(part_of_row == 1)


def strata_of(y: Array, tasks: Array | None, *, labels: bool) -> sparse.csr_matrix:
    """Return 0/1 columns, of shape (n, C), of which each part is to get its share.

    They mark the tasks of the rows, or the observed targets of tasks that share their
    rows. For class labels, they also mark the rows of each label of each task.
    """
    n = len(y)
    if tasks is not None:
        columns = [_indicators(tasks)]
        if labels:
            pairs = np.column_stack([_codes(tasks), _codes(y)])
            _, pair_of_row = np.unique(pairs, axis=0, return_inverse=True)
            columns.append(_indicators(pair_of_row))
        return sparse.hstack(columns, format="csr")
    Y = np.asarray(y).reshape(n, -1)
    if Y.dtype.kind != "f":
        return _indicators(Y[:, 0])
    observed = ~np.isnan(Y)
    columns = [sparse.csr_matrix(observed, dtype=np.float64)]
    if labels:
        is_positive = observed & (Y > 0)
        is_negative = observed & ~(Y > 0)
        columns.append(sparse.csr_matrix(is_positive, dtype=np.float64))
        columns.append(sparse.csr_matrix(is_negative, dtype=np.float64))
    return sparse.hstack(columns, format="csr")


def _indicators(values: Array) -> sparse.csr_matrix:
    """Return one 0/1 column per distinct value."""
    codes = _codes(values)
    n = len(codes)
    return sparse.csr_matrix((np.ones(n), (np.arange(n), codes)))


def _codes(values: Any) -> Array:
    """Return the positions of values among the distinct ones."""
    _, codes = np.unique(np.asarray(values), return_inverse=True)
    # Some versions of NumPy keep the shape of the values.
    return codes.reshape(-1)


def _deal(
    groups: Array,
    strata: Any,
    y: Array,
    shares: Array,
    seed: int,
    complete: int | None = None,
) -> Array:
    """Return the part of each row, see the module docstring.

    Part `complete` receives every group with a column of which the part has no rows.
    """
    n_rows = len(groups)
    n_groups = int(groups.max()) + 1
    entries = (np.ones(n_rows), (groups, np.arange(n_rows)))
    member = sparse.csr_matrix(entries, shape=(n_groups, n_rows))
    # n[g, c]. A group has rows in few columns: only these are looked at.
    counts = (member @ sparse.csr_matrix(strata)).tocsr()
    counts.eliminate_zeros()
    totals = np.asarray(counts.sum(axis=0)).ravel()
    sizes = np.bincount(groups)
    received = np.zeros((len(shares), counts.shape[1]))
    rows_received = np.zeros(len(shares))
    part_of_group = np.empty(n_groups, dtype=np.int64)
    # Larger groups come first, so that small ones can even out what they leave. Groups
    # whose sizes lie between the same powers of two come in random order: with an order
    # by size alone, all repeats of a cross-validation would have the same folds.
    shuffled = np.random.default_rng(seed).permutation(_order_by_content(groups, y))
    size_class = np.frexp(sizes)[1]
    for group in shuffled[np.argsort(-size_class[shuffled], kind="stable")]:
        positions = slice(counts.indptr[group], counts.indptr[group + 1])
        columns = counts.indices[positions]
        rows = counts.data[positions]
        share_of_group = rows / totals[columns]
        share_of_part = received[:, columns] / totals[columns]
        cost = (share_of_part @ share_of_group) / shares
        if complete is not None and (received[complete, columns] == 0).any():
            part = complete
        else:
            # Equal costs may differ by rounding, and ties must not depend on it.
            ties = np.flatnonzero(cost <= cost.min() + 1e-12)
            load = (rows_received / shares)[ties]
            part = int(ties[np.argmin(load)])
        part_of_group[group] = part
        received[part, columns] += rows
        rows_received[part] += sizes[group]
    return part_of_group[groups]


def _order_by_content(groups: Array, y: Array) -> Array:
    """Return the groups sorted by their sorted targets.

    Folds then depend on neither the names of the groups nor the order of the rows.
    """
    Y = np.asarray(y).reshape(len(groups), -1)
    if Y.dtype.kind == "f":
        # A missing target comes before all others.
        Y = np.where(np.isnan(Y), -np.inf, Y)
    _, inverse = np.unique(Y, axis=0, return_inverse=True)
    ranks = inverse.reshape(-1)
    order = np.lexsort((ranks, groups))
    sizes = np.bincount(groups)
    bounds = np.cumsum(sizes)[:-1]
    # Big-endian bytes sort like the numbers that they hold.
    sorted_ranks = ranks[order].astype(">i8")
    contents = np.split(sorted_ranks, bounds)
    keys = [content.tobytes() for content in contents]
    by_content = sorted(range(len(keys)), key=keys.__getitem__)
    return np.array(by_content, dtype=np.int64)
