"""Gains and standard errors, compared with sums over rows and known cases."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.metrics import log_loss, roc_auc_score

from mtlrun.comparison.evaluation import Evaluation
from mtlrun.comparison.gain import (
    RowIndex,
    SmallestGain,
    auc_gain,
    concordances,
    correction,
    error_losses,
    log_losses,
    relative_gain,
    task_scales,
)
from mtlrun.show.quantities import NMSE

RNG = np.random.default_rng(0)
IDS = np.repeat([0, 1, 2], [5, 9, 14])


def fields(ragged, n=28, n_tasks=3):
    shape = (n,) if ragged else (n, n_tasks)
    return RNG.gamma(1.0, size=shape), RNG.gamma(1.2, size=shape)


def by_hand(joint, without, ids):
    """Compute the formulas of the protocol for ragged tasks, row by row."""
    tasks = sorted(set(ids))
    mine = np.mean([joint[ids == t].mean() for t in tasks])
    other = np.mean([without[ids == t].mean() for t in tasks])
    total = 0.0
    for t in tasks:
        rows = [i for i in range(len(ids)) if ids[i] == t]
        h = [
            (mine / other * without[i] - joint[i]) / (other * len(tasks) * len(rows))
            for i in rows
        ]
        total += (
            len(rows) / (len(rows) - 1) * sum((value - np.mean(h)) ** 2 for value in h)
        )
    return 1 - mine / other, math.sqrt(total)


def test_a_ragged_gain_matches_the_formulas():
    joint, without = fields(True)
    result = relative_gain(joint, without, RowIndex(3, IDS), 1.5)
    gain, error = by_hand(joint, without, IDS)
    assert (result.value, result.error, result.df) == (
        pytest.approx(gain),
        pytest.approx(1.5 * error),
        25,
    )
    half = student.ppf(0.975, 25) * 1.5 * error
    assert (result.low, result.high) == (
        pytest.approx(gain - half),
        pytest.approx(gain + half),
    )
    assert result.pvalue == pytest.approx(2 * student.sf(abs(gain) / (1.5 * error), 25))
    parts = [np.flatnonzero(task == IDS) for task in range(3)]
    np.testing.assert_allclose(
        result.tasks, [1 - joint[part].mean() / without[part].mean() for part in parts]
    )


def test_a_shared_gain_has_rows_as_units_and_ignores_missing_values():
    joint, without = fields(False)
    joint[3, 1] = without[3, 1] = joint[:6, 2] = without[:6, 2] = np.nan
    gain = relative_gain(joint, without, RowIndex(3), 1.0)
    mine, other = np.nanmean(joint, axis=0).mean(), np.nanmean(without, axis=0).mean()
    counts = (~np.isnan(joint)).sum(axis=0)
    h = (mine / other * without - joint) / (other * 3 * counts)
    u = np.nansum(h, axis=1)
    assert gain.value == pytest.approx(1 - mine / other)
    assert gain.error == pytest.approx(math.sqrt(28 / 27 * ((u - u.mean()) ** 2).sum()))
    assert (gain.df, gain.units) == (27, 28)


def test_groups_are_units_and_integer_weights_are_repeated_rows():
    joint, without = fields(True)
    groups = np.arange(28) % 6
    gain = relative_gain(joint, without, RowIndex(3, IDS, groups), 1.0)
    assert (gain.units, gain.df) == (6, 5)
    weights = RNG.integers(1, 4, size=28)
    weighted = relative_gain(
        joint, without, RowIndex(3, IDS, groups, weights.astype(float)), 1.0
    )
    again = np.repeat(np.arange(28), weights)
    repeated = relative_gain(
        joint[again], without[again], RowIndex(3, IDS[again], groups[again]), 1.0
    )
    assert (weighted.value, weighted.error) == (
        pytest.approx(repeated.value),
        pytest.approx(repeated.error),
    )


@pytest.mark.parametrize("ragged", [True, False])
def test_the_standard_error_is_that_of_a_linearized_ratio(ragged):
    """The jackknife over rows is an independent estimate of the standard error."""
    n = 400
    ids = np.arange(n) % 2
    common = RNG.gamma(2.0, size=n)
    joint = common + RNG.gamma(0.5, size=n)
    without = common + RNG.gamma(0.8, size=n)
    if not ragged:
        joint, without = (
            np.column_stack([joint, 2 * joint]),
            np.column_stack([without, without + common]),
        )
    row_index = RowIndex(2, ids if ragged else None)
    gain = relative_gain(joint, without, row_index, 1.0)
    left = []
    for i in range(n):
        keep = np.arange(n) != i
        part = RowIndex(2, ids[keep] if ragged else None)
        left.append(relative_gain(joint[keep], without[keep], part, 1.0).value)
    jackknife = math.sqrt((n - 1) / n * ((np.array(left) - np.mean(left)) ** 2).sum())
    assert gain.error == pytest.approx(jackknife, rel=0.03)


@pytest.mark.parametrize("ragged", [True, False])
def test_equal_models_have_no_gain(ragged):
    joint, _ = fields(ragged)
    gain = relative_gain(joint, joint, RowIndex(3, IDS if ragged else None), 1.5)
    assert (gain.value, gain.error, gain.pvalue, gain.low, gain.high) == (
        0,
        0,
        1,
        0,
        0,
    )
    assert gain.better == (0, 3)
    assert gain.probabilities(0.01) == (0, 1, 0)


def test_a_gain_by_rounding_alone_makes_no_task_better():
    joint, _ = fields(True)
    gain = relative_gain(joint * (1 - 1e-13), joint, RowIndex(3, IDS), 1.5)
    assert min(gain.tasks) > 0
    assert gain.better == (0, 3)


def test_half_the_loss_everywhere_is_a_gain_of_one_half_without_error():
    joint, _ = fields(True)
    gain = relative_gain(joint / 2, joint, RowIndex(3, IDS), 1.5)
    assert gain.value == pytest.approx(0.5)
    assert gain.error == pytest.approx(0, abs=1e-12)


def test_a_loss_is_as_significant_as_a_gain_of_the_same_size():
    joint, without = fields(True)
    gain = relative_gain(joint, without, RowIndex(3, IDS), 1.5)
    opposite = replace(gain, value=-gain.value)
    assert gain.pvalue < 1
    assert opposite.pvalue == pytest.approx(gain.pvalue)


def test_no_upper_bound_exceeds_all_of_the_error():
    joint, without = fields(True)
    gain = relative_gain(joint, without, RowIndex(3, IDS), 1.5)
    assert replace(gain, value=0.9, error=0.5).high == 1


def test_several_gains_have_the_degrees_of_freedom_of_the_smallest_and_fewest_units():
    joint, without = fields(True)
    gain = relative_gain(joint, without, RowIndex(3, IDS), 1.5)
    close = replace(gain, value=0.1, df=10, units=40)
    far = replace(gain, value=0.3, df=20, units=12)
    both = SmallestGain({"close": close, "far": far})
    assert (both.df, both.units) == (10, 12)


def test_a_task_without_any_loss_on_either_side_gains_nothing():
    joint, without = fields(True)
    joint[IDS == 0] = without[IDS == 0] = 0.0
    gain = relative_gain(joint, without, RowIndex(3, IDS), 1.0)
    assert gain.tasks[0] == 0
    assert gain.better.n_compared == 3


def test_the_only_row_of_a_task_counts_with_its_whole_influence():
    ids = np.array([0] * 13 + [1] * 14 + [2])
    joint, without = fields(True)
    gain = relative_gain(joint, without, RowIndex(3, ids), 1.0)
    mine, other = (
        np.mean([x[ids == t].mean() for t in range(3)]) for x in (joint, without)
    )
    influence = (mine / other * without - joint) / (3 * other * np.bincount(ids)[ids])
    squares = influence[27] ** 2
    for task in (0, 1):
        part = influence[ids == task]
        squares += len(part) * part.var(ddof=1)
    assert gain.error == pytest.approx(math.sqrt(squares))
    assert gain.df == 28 - 3


def test_the_auc_counts_pairs_within_a_test_part():
    y = np.where(RNG.random(60) < 0.4, 1.0, -1.0)
    first, second = (
        RNG.normal(size=60) + y,
        np.round(RNG.normal(size=60) + 0.5 * y),
    )  # With ties
    ids, parts = np.arange(60) % 2, np.arange(60) // 20
    row_index = RowIndex(2, ids)
    sums = np.full((3, 60), np.nan)
    for part in range(3):
        rows = np.flatnonzero(parts == part)
        for k, scores in enumerate((first, second)):
            sums[k, rows], sums[2, rows] = concordances(
                y[rows], scores[rows], row_index, rows
            )
    gain = auc_gain(sums[0], sums[1], sums[2], y > 0, row_index, 1.5)
    gains, h = [], np.zeros(60)
    for t in range(2):
        wins, pairs, groups = np.zeros(2), 0, {}
        for i, j in itertools.product(range(60), range(60)):
            if ids[i] == ids[j] == t and parts[i] == parts[j] and y[i] > 0 > y[j]:
                d = [float(s[i] > s[j]) + 0.5 * (s[i] == s[j]) for s in (first, second)]
                wins, pairs = wins + d, pairs + 1
                groups[i, j] = d[0] - d[1]
        gains.append((wins[0] - wins[1]) / pairs)
        for (i, j), d in groups.items():
            h[[i, j]] += (d - gains[t]) / (2 * pairs)
    assert gain.value == pytest.approx(np.mean(gains))
    total = sum(
        30 / 29 * ((h[ids == t] - h[ids == t].mean()) ** 2).sum() for t in range(2)
    )
    assert gain.error == pytest.approx(1.5 * math.sqrt(total))
    index = RowIndex(1, np.zeros(60, dtype=int))
    rows = np.arange(60)
    right, pairs = concordances(y, first, index, rows)
    positive = y > 0
    assert right[positive].sum() / pairs[positive].sum() == pytest.approx(
        roc_auc_score(positive, first)
    )


def test_a_task_of_a_single_class_is_left_out_of_the_auc():
    y = np.array([[1.0, -1], [-1, -1], [1, -1], [-1, -1]])
    right, pairs = concordances(y, RNG.normal(size=y.shape), RowIndex(2), np.arange(4))
    gain = auc_gain(right, right, pairs, y > 0, RowIndex(2), 1.0)
    assert math.isnan(gain.tasks[1])
    assert gain.better == (0, 1)


def test_scales_of_small_tasks_are_shrunken_and_each_column_has_its_own():
    y = np.array([1.0, 3.0, 2.0, 2.0, 2.0, 10.0, 0.0])
    ids = np.array([0, 0, 1, 1, 1, 2, 2])
    variances, sizes = np.array([1.0, 0.0, 25.0]), np.array([2, 3, 2])
    average = (sizes * variances).sum() / 7
    np.testing.assert_allclose(
        task_scales(y, RowIndex(3, ids)),
        (sizes * variances + 10 * average) / (sizes + 10),
    )
    table = np.column_stack([y, 5 * y, np.ones(7)])
    table[0, 0] = np.nan
    np.testing.assert_allclose(
        task_scales(table, RowIndex(3)), [np.var(y[1:]), 25 * np.var(y), np.nan]
    )


def test_losses_match_scikit_learn():
    y, scores = np.array([1.0, -1, -1, 1]), np.array([0.3, 0.1, -2.0, -1.0])
    expected = log_loss(y > 0, 1 / (1 + np.exp(-scores)))
    assert log_losses(y, scores).mean() == pytest.approx(expected)
    assert error_losses(y, scores).tolist() == [0, 1, 0, 1]


def test_squared_errors_are_in_units_of_the_variance_of_the_task():
    y, scores = np.array([1.0, -1, -3, 5]), np.array([0.3, 0.1, -2.0, -1.0])
    ids = np.array([0, 0, 1, 1])
    rows, is_new = np.arange(4), np.zeros(4, dtype=bool)
    evaluation = Evaluation(y, RowIndex(2, ids), [rows], [is_new], 1, 1, NMSE, 0.01)
    variances = task_scales(y, RowIndex(2, ids))
    assert variances[0] != variances[1]
    expected = (y - scores) ** 2 / variances[ids]
    np.testing.assert_allclose(evaluation.losses(0, scores), expected)


def test_the_standard_error_is_corrected_for_overlapping_training_rows():
    assert correction(5, n_test=20, n_train=80) == pytest.approx(math.sqrt(2))
    assert correction(10, n_test=10, n_train=90) == pytest.approx(math.sqrt(2))
    assert correction(5, n_test=20, n_train=8) == pytest.approx(math.sqrt(11))
    assert correction(1, n_test=30, n_train=70) == 1


def test_probabilities_follow_the_t_distribution():
    joint, without = fields(True)
    gain = relative_gain(joint, without, RowIndex(3, IDS), 1.5)
    above, within, below = gain.probabilities(0.01)
    draws = gain.value + gain.error * student.rvs(25, size=200_000, random_state=0)
    assert above == pytest.approx((draws > 0.01).mean(), abs=0.005)
    assert below == pytest.approx((draws < -0.01).mean(), abs=0.005)
    assert above + within + below == pytest.approx(1)
