"""Divide and conquer: blocks, projection, parallel fits, and the base model as the
limit of one block.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from mtlrun.estimators.base import DegenerateModelWarning
from mtlrun.estimators.penalized import TraceNormMTL
from mtlrun.estimators.robust import (
    DivideAndConquerRMTL,
    DivideAndConquerRMTLClassifier,
    RobustMTL,
    RobustMTLClassifier,
    choose_block,
    column_space,
    make_blocks,
)
from mtlrun.problem.taskdata import TaskData


def problem(n=40, d=8, T=11, seed=0, labels=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.3
    W = rng.normal(size=(d, 2)) @ rng.normal(size=(2, T))
    Y = X @ W + 1 + 0.5 * rng.normal(size=(n, T))
    return X, np.where(np.median(Y, axis=0) < Y, 1, -1) if labels else Y


def base(**params):
    return RobustMTL(**{"lam": 0.8, "beta": 0.3, "tol": 1e-6, **params})


# ---------------------------------------------------------------- blocks


@pytest.mark.cover
@pytest.mark.parametrize(
    ("tasks", "blocks", "sizes"),
    [
        (12, 4, [3] * 4),
        (53, 4, [13] * 4 + [1]),
        (53, 10, [5] * 10 + [3]),
        (7, 7, [1] * 7),
        (5, 1, [5]),
    ],
)
@pytest.mark.parametrize("partition", ["random", "contiguous", "clustered"])
def test_blocks_have_floor_m_over_t_tasks_and_a_remainder(
    tasks, blocks, sizes, partition
):
    X, Y = problem(T=tasks)
    tasks_by_block = make_blocks(TaskData.from_matrix(X, Y), blocks, partition, 0)
    assert [len(block) for block in tasks_by_block] == sizes
    assert_array_equal(np.sort(np.concatenate(tasks_by_block)), np.arange(tasks))
    if partition == "contiguous":
        assert_array_equal(np.concatenate(tasks_by_block), np.arange(tasks))


@pytest.mark.parametrize("partition", ["random", "contiguous", "clustered"])
def test_with_fewer_tasks_than_blocks_each_task_is_a_block(partition):
    X, Y = problem(T=3)
    many, three = (
        DivideAndConquerRMTL(n_blocks=n, partition=partition).fit(X, Y) for n in (4, 3)
    )
    assert [len(block) for block in many.blocks_] == [1, 1, 1]
    assert_array_equal(many.coef_, three.coef_)


def test_clusters_group_similar_tasks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    kinds = np.tile([0, 1, 2], 4)
    Y = X @ np.eye(5)[:, :3][:, kinds] * 3 + 0.1 * rng.normal(size=(60, 12))
    for data in (TaskData.from_matrix(X, Y), TaskData.from_list([X] * 12, list(Y.T))):
        blocks = make_blocks(data, 3, "clustered", 0)
        assert all(len(set(kinds[block])) == 1 for block in blocks)


def test_the_shuffle_depends_only_on_the_seed():
    data = TaskData.from_matrix(*problem())
    first, again, other = (
        np.concatenate(make_blocks(data, 3, "random", seed)) for seed in (0, 0, 1)
    )
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# ---------------------------------------------------------------- projection


def test_the_column_space_is_orthonormal_with_the_right_rank():
    rng = np.random.default_rng(0)
    L = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 4))
    U = column_space(L)
    assert U.shape == (6, 2)
    assert_allclose(U.T @ U, np.eye(2), atol=1e-12)
    assert_allclose(U @ (U.T @ L), L, atol=1e-12)
    # In any units.
    assert column_space(1e-9 * L).shape == (6, 2)
    assert column_space(np.zeros((6, 4))).shape == (6, 0)


def test_the_block_that_retains_most_is_the_best_and_zero_blocks_can_be_skipped():
    zero, small, large = (
        np.zeros((3, 2)),
        np.eye(3)[:, :2],
        np.array([[0.0, 0], [0, 5], [5, 0]]),
    )
    assert choose_block([zero, small, large], "first", skip_zero=False) == 0
    assert choose_block([zero, small, large], "first", skip_zero=True) == 1
    assert choose_block([zero, small, large], "best", skip_zero=True) == 2
    assert choose_block([zero, zero], "first", skip_zero=True) == 0


@pytest.mark.parametrize("projection", ["first", "best"])
def test_low_rank_parts_are_projected_and_outlier_parts_are_not(projection):
    X, Y = problem()
    joined = DivideAndConquerRMTL(base(), 3, projection="none").fit(X, Y)
    model = DivideAndConquerRMTL(base(), 3, projection=projection).fit(X, Y)
    U = column_space(joined.low_rank_[model.blocks_[model.block_used_]].T)
    assert model.projection_rank_ == U.shape[1] > 0
    assert_allclose(model.low_rank_.T, U @ U.T @ joined.low_rank_.T, atol=1e-10)
    assert_allclose(model.outlier_, joined.outlier_, atol=1e-12)
    assert_allclose(model.coef_, model.low_rank_ + model.outlier_)
    assert joined.block_used_ is None
    if projection == "first":
        assert model.block_used_ == 0


def test_a_first_block_of_rank_zero_is_skipped_unless_the_variant_is_the_papers():
    """The first tasks are pure noise: their low-rank part is zero."""
    X, Y = problem(T=9)
    Y[:, :3] = 0.01 * np.random.default_rng(1).normal(size=(40, 3))
    options = {"n_blocks": 3, "partition": "contiguous"}
    corrected = DivideAndConquerRMTL(base(), **options).fit(X, Y)
    assert corrected.block_used_ == 1
    assert corrected.low_rank_[3:].any()
    printed = DivideAndConquerRMTL(base(), variant="paper", **options).fit(X, Y)
    assert printed.block_used_ == 0
    assert printed.projection_rank_ == 0
    assert not printed.low_rank_.any()


# ---------------------------------------------------------------- limits and layouts


@pytest.mark.parametrize("solver", ["admm", "fista", "apg"])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_single_block_is_the_base_model(solver, intercept):
    X, Y = problem()
    inner = base(solver=solver, fit_intercept=intercept, max_iter=50000)
    model = DivideAndConquerRMTL(inner, 1, partition="contiguous").fit(X, Y)
    inner.fit(X, Y)
    assert_allclose(model.coef_, inner.coef_, atol=1e-8)
    assert_allclose(model.intercept_, inner.intercept_, atol=1e-8)
    assert model.objective_[-1] == pytest.approx(inner.objective_[-1])
    assert model.n_iter_ == inner.n_iter_


@pytest.mark.parametrize("labels", [False, True])
def test_each_block_is_the_base_model_on_its_tasks(labels):
    """A shared design is decomposed once, without changing the data of blocks."""
    X, Y = problem(labels=labels)
    inner = (
        RobustMTLClassifier(0.8, 0.3, loss="squared_hinge", solver="admm", tol=1e-6)
        if labels
        else base()
    )
    cls = DivideAndConquerRMTLClassifier if labels else DivideAndConquerRMTL
    model = cls(inner, 3, projection="none").fit(X, Y)
    for block in model.blocks_:
        assert_allclose(model.coef_[block], inner.fit(X, Y[:, block]).coef_, atol=1e-4)
        assert_allclose(model.intercept_[block], inner.intercept_, atol=1e-4)


@pytest.mark.parametrize("solver", ["admm", "apg"])
def test_ragged_masked_and_weighted_data_are_fitted(solver):
    X, Y = problem(24, 4, 7)
    w = np.random.default_rng(1).integers(0, 3, size=24)
    inner = base(solver=solver, max_iter=50000, tol=1e-8)
    expected = DivideAndConquerRMTL(inner, 3).fit(X, Y, sample_weight=w)
    ragged = DivideAndConquerRMTL(inner, 3).fit(
        np.vstack([X] * 7),
        Y.T.ravel(),
        task_id=np.repeat(np.arange(7), 24),
        sample_weight=np.tile(w, 7),
    )
    assert_allclose(ragged.coef_, expected.coef_, atol=1e-3)
    masked = DivideAndConquerRMTL(inner, 3).fit(
        X, np.where(w[:, None] > 0, Y, np.nan), sample_weight=w
    )
    assert_allclose(masked.coef_, expected.coef_, atol=1e-3)


def test_intercepts_are_optimal_for_the_projected_coefficients():
    X, Y = problem()
    model = DivideAndConquerRMTL(base(), 3).fit(X, Y)
    assert_allclose((Y - model.predict(X)).mean(axis=0), 0, atol=1e-8)
    labels = np.where(np.median(Y, axis=0) < Y, 1, -1)
    inner = RobustMTLClassifier(0.8, 0.3, loss="logistic")
    logistic = DivideAndConquerRMTLClassifier(inner, 3).fit(X, labels)
    assert_allclose(
        logistic.predict_proba(X).mean(axis=0), (labels > 0).mean(axis=0), atol=1e-6
    )


def test_the_objective_covers_all_tasks_at_the_joined_solution():
    X, Y = problem()
    model = DivideAndConquerRMTL(base(), 3).fit(X, Y)
    value = (
        np.linalg.norm(model.low_rank_, "nuc")
        + 0.8 * np.linalg.norm(model.outlier_, axis=1).sum()
    )
    value += 0.3 * np.sum((Y - model.predict(X)) ** 2)
    assert model.objective_[-1] == pytest.approx(value)
    assert model.objective_[-1] >= base().fit(X, Y).objective_[-1] * (1 - 1e-6)


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes():
    X, Y = problem(T=14)
    expected = DivideAndConquerRMTL(base(), 4).fit(X, Y)
    model = DivideAndConquerRMTL(base(), 4, n_jobs=2).fit(X, Y)
    assert_array_equal(model.coef_, expected.coef_)
    assert model.block_seconds_.shape == (5,)
    assert (model.block_seconds_ > 0).all()
    assert model.setup_seconds_ > 0


def test_the_coefficients_of_another_base_model_are_projected():
    X, Y = problem()
    model = DivideAndConquerRMTL(TraceNormMTL(2.0), 3).fit(X, Y)
    assert not model.outlier_.any()
    assert_array_equal(model.low_rank_, model.coef_)
    assert np.linalg.matrix_rank(model.coef_) <= model.projection_rank_


# ---------------------------------------------------------------- messages


def test_warnings_of_blocks_are_issued_once_with_a_count():
    X, Y = problem(T=12)
    with pytest.warns(DegenerateModelWarning) as record:
        DivideAndConquerRMTL(base(lam=0.4), 4).fit(X, Y)
    (message,) = [str(w.message) for w in record]
    assert message.startswith("4 of 4 blocks: lam=0.4: low_rank_ is zero")


def test_blocks_that_do_not_converge_are_counted():
    X, Y = problem(T=12)
    with pytest.warns(ConvergenceWarning, match="4.*4.*base__max_iter"):
        model = DivideAndConquerRMTL(base(max_iter=2, tol=1e-12), 4).fit(X, Y)
    assert model.converged_ is False
    assert model.gap_ is None


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_blocks": 0}, r"n_blocks must be an int in \[1, inf\), got 0"),
        ({"base": "RobustMTL"}, "base must be an estimator with a convex objective"),
        ({"base": RobustMTL(beta=-1)}, "beta must be"),
        ({"partition": "randm"}, "did you mean 'random'"),
        ({"projection": "last"}, "projection must be one of 'first', 'best', 'none'"),
        ({"n_jobs": 1.5}, "n_jobs must be an int or None"),
    ],
)
def test_invalid_parameters_are_reported(params, message):
    X, Y = problem()
    with pytest.raises(ValueError, match=message):
        DivideAndConquerRMTL(**{"n_blocks": 2, **params}).fit(X, Y)


def test_a_loss_for_labels_rejects_other_targets():
    X, Y = problem()
    with pytest.raises(ValueError, match=r"-1 or \+1"):
        DivideAndConquerRMTL(RobustMTLClassifier(0.8, loss="squared_hinge"), 3).fit(
            X, Y
        )


def test_default_base_and_nested_parameters_can_be_set():
    X, Y = problem(T=12)
    model = DivideAndConquerRMTL(base(), 3).set_params(base__lam=0.9, base__beta=2.0)
    assert model.base.lam == 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateModelWarning)
        assert_allclose(
            DivideAndConquerRMTL(n_blocks=3).fit(X, Y).coef_,
            DivideAndConquerRMTL(RobustMTL(), 3).fit(X, Y).coef_,
        )
