"""Intervals from errors on other rows, transformed targets, tables of predictions."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f_oneway, norm
from scipy.stats import t as student

import mtlrun
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.errors import DataError, UnknownNameError, UserError
from mtlrun.model.files import load_model
from mtlrun.model.intervals import (
    Errors,
    Intervals,
    StoredIntervals,
    TaskCoverage,
    advice,
    is_covered,
    n_independent,
    shrinkage_rows,
)
from mtlrun.utils.io import read_fields

RNG = np.random.default_rng(0)


def errors_of(values, tasks, predicted=None):
    values = np.asarray(values, dtype=float)
    if predicted is None:
        predicted = np.zeros(len(values))
    return Errors(values, predicted, np.asarray(tasks), np.arange(len(values)) % 5)


def test_intervals_cover_new_values_of_tasks_with_different_noise():
    covered = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        noise = np.exp(rng.normal(size=40))
        tasks = np.repeat(np.arange(40), 30)
        errors = errors_of(rng.normal(size=1200) * noise[tasks], tasks)
        intervals = Intervals.of(errors, 40, is_shared=False)
        below, above = intervals.ends(np.arange(40), None, 0.95)
        covered.append(norm.cdf(above / noise) - norm.cdf(below / noise))
        # Tasks with more noise have wider intervals.
        assert np.corrcoef(above - below, noise)[0, 1] > 0.9
    assert 0.94 <= np.mean(covered) <= 0.96


def test_coverage_is_measured_on_other_folds():
    tasks = RNG.integers(0, 20, 400)
    errors = errors_of(RNG.normal(size=400), tasks)
    share = is_covered(errors, 20, is_shared=False).mean()
    assert 0.92 <= share <= 0.98


def test_coverage_counts_a_fold_with_larger_errors_as_missed():
    # Errors of +-1 in fold 0 and of +-10 in fold 1. Intervals from the other fold hold
    # all errors of fold 0 and none of fold 1; intervals from all folds hold all.
    signs = np.tile([-1.0, 1.0], 100)
    folds = np.repeat([0, 1], 100)
    values = np.where(folds == 0, 1.0, 10.0) * signs
    errors = Errors(values, np.zeros(200), np.zeros(200, int), folds, np.ones(200))
    assert is_covered(errors, 1, is_shared=False).mean() == 0.5


def test_scaled_errors_equal_those_of_a_leave_one_out_loop():
    tasks = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 2])
    values = np.array([10.0, -20.0, 5.0, 3.0, -1.0, 0.1, 0.2, -0.3, 0.1, 0.04])
    average = np.mean(values**2)
    squares = np.bincount(tasks, values**2)
    shrinkage = shrinkage_rows(squares, np.bincount(tasks))
    assert np.isfinite(shrinkage)
    scaled = []
    for position, value in enumerate(values):
        others = (tasks == tasks[position]) & (np.arange(len(values)) != position)
        total = np.sum(values[others] ** 2) + shrinkage * average
        variance = total / (others.sum() + shrinkage)
        scaled.append(value / np.sqrt(variance))
    intervals = Intervals.of(errors_of(values, tasks), 3, is_shared=False)
    np.testing.assert_allclose(intervals.groups[0], np.sort(scaled))


@pytest.mark.parametrize("has_std", [False, True])
def test_noisy_and_quiet_tasks_have_their_coverage(has_std):
    noise = np.where(np.arange(20) < 5, 4.0, 1.0)
    tasks = np.repeat(np.arange(20), 30)
    std = None
    if has_std:
        # A model that takes the noise for a common one.
        std = np.full(600, np.sqrt(np.mean(noise**2)))
    covered = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=600) * noise[tasks]
        errors = Errors(values, np.zeros(600), tasks, np.zeros(600), std)
        intervals = Intervals.of(errors, 20, is_shared=False)
        task_std = None if std is None else std[:20]
        below, above = intervals.ends(np.arange(20), task_std, 0.95)
        covered.append(norm.cdf(above / noise) - norm.cdf(below / noise))
    noisy, quiet = np.split(np.mean(covered, axis=0), [5])
    assert noisy.mean() >= 0.91
    assert quiet.mean() <= 0.98


@pytest.mark.parametrize("degrees", [2.0, 5.0, np.inf])
def test_shrinkage_recovers_the_spread_of_the_variances(degrees):
    rng = np.random.default_rng(0)
    variances = np.ones(2000)
    if np.isfinite(degrees):
        variances = degrees / rng.chisquare(degrees, size=2000)
    counts = rng.integers(5, 40, 2000)
    squares = variances * rng.chisquare(counts)
    estimated = shrinkage_rows(squares, counts)
    if np.isfinite(degrees):
        assert estimated == pytest.approx(degrees, rel=0.2)
    else:
        assert estimated > 100


def test_a_new_task_has_the_average_scale_of_the_tasks():
    errors = errors_of(RNG.normal(size=300), RNG.integers(0, 3, 300))
    relative = Errors(
        errors.values, errors.predicted, errors.tasks, errors.folds, np.full(300, 2.0)
    )
    plain = Intervals.of(errors, 3, is_shared=False)
    scaled = Intervals.of(relative, 3, is_shared=False)
    new = np.array([-1])
    np.testing.assert_allclose(
        scaled.ends(new, np.array([2.0]), 0.9), plain.ends(new, None, 0.9), rtol=1e-6
    )


def test_the_coverage_of_tasks_counts_those_with_enough_targets():
    tasks = np.repeat([0, 1, 2, 3], [20, 20, 40, 19])
    is_inside = np.ones(99, dtype=bool)
    is_inside[:4] = False  # 80% of task 0
    is_inside[40:42] = False  # 95% of task 2
    is_inside[-19:] = False  # task 3 has too few
    assert TaskCoverage.of(is_inside, tasks) == TaskCoverage(3, 0.8, 1.0, 2)
    assert TaskCoverage.of(is_inside[-19:], tasks[-19:]).n_tasks == 0


def test_intervals_of_earlier_files_use_the_scale_that_they_have():
    of_model = Intervals.read(StoredIntervals([[-1.0, 0.0, 1.0]]))
    of_tasks = Intervals.read(StoredIntervals([[-1.0, 0.0, 1.0]], [3.0]))
    task = np.array([0])
    std = np.array([3.0])
    assert of_model.ends(task, std, 0.5) == of_tasks.ends(task, None, 0.5)


def test_means_of_a_target_use_the_errors_of_that_target():
    narrow = np.log([0.5, 2.0])
    wide = np.log([0.1, 10.0])
    intervals = Intervals(np.ones(2), [narrow, wide])
    means = intervals.means(np.zeros(2), np.array([1, 0]), None, np.exp)
    np.testing.assert_allclose(means, [(0.1 + 10) / 2, (0.5 + 2) / 2])


def test_few_errors_give_wide_intervals_and_none_an_infinite_one():
    few = Intervals.of(errors_of([1.0, -1.0, 0.5], [0, 0, 0]), 1, is_shared=False)
    below, above = few.ends(np.array([0]), None, 0.95)
    assert below[0] < -1
    assert above[0] > 1
    none = Intervals(np.ones(1), [np.array([])])
    assert np.isinf(none.ends(np.array([0]), None, 0.95)).all()


def test_the_interval_of_few_errors_is_that_of_normal_ones():
    group = np.array([-1.0, 0.5, 2.0])
    below, above = Intervals(np.ones(1), [group]).ends(np.array([0]), None, 0.95)
    half = student.ppf(0.975, 2) * np.sqrt(np.mean(group**2) * (1 + 1 / 3))
    assert (below[0], above[0]) == (pytest.approx(-half), pytest.approx(half))


def test_the_quantiles_of_dependent_errors_count_the_independent_ones():
    group = np.arange(1000.0)
    intervals = Intervals(np.ones(1), [group], n_independent=79)
    below, above = intervals.ends(np.array([0]), None, 0.95)
    # Beyond the second of 79 independent errors lie 2.5% of 80; it is the 25th of all.
    assert (below[0], above[0]) == (24.0, 975.0)


def test_a_new_task_has_the_mean_variance_of_the_known_ones():
    intervals = Intervals(np.array([3.0, 5.0]), [np.arange(-50.0, 51.0)])
    _, above = intervals.ends(np.array([0, 1, -1]), None, 0.95)
    np.testing.assert_allclose(above / above[0] * 3, [3, 5, np.sqrt(17)])


def test_each_target_takes_the_quantiles_of_its_own_errors():
    groups = [np.arange(-50.0, 51.0), 10 * np.arange(-50.0, 51.0)]
    _, above = Intervals(np.ones(2), groups).ends(np.array([1, 0]), None, 0.95)
    assert above[0] == 10 * above[1]


def test_the_correlation_of_errors_is_that_of_an_analysis_of_variance():
    rng = np.random.default_rng(2)
    errors = rng.normal(size=(12, 3)) + rng.normal(size=(12, 1))
    ratio = f_oneway(*errors).statistic
    correlation = (ratio - 1) / (ratio + 2)
    expected = round(36 / (1 + 2 * correlation**2))
    assert n_independent(errors.ravel(), np.repeat(np.arange(12), 3)) == expected


def test_equal_errors_of_a_task_count_once_on_average_over_tasks_of_any_size():
    sizes = np.array([2, 4, 12])
    tasks = np.repeat([0, 1, 2], sizes)
    rows_of_average_task = (18 - np.sum(sizes**2) / 18) / 2
    expected = round(18 / rows_of_average_task)
    assert n_independent(np.array([-1.0, 0.0, 1.0])[tasks], tasks) == expected == 4


def test_scales_of_targets_on_the_same_rows_are_not_shrunken():
    tasks = np.tile([0, 1], 5)
    errors = errors_of(np.tile([1.0, -100.0], 5), tasks)
    intervals = Intervals.of(errors, 2, is_shared=True)
    np.testing.assert_allclose(intervals.scales, [1.0, 100.0])


def test_coverage_of_a_single_fold_comes_from_fifths_of_its_rows():
    values = np.random.default_rng(3).normal(size=201)
    zeros = np.zeros(201, dtype=int)
    errors = Errors(values, np.zeros(201), zeros, zeros, np.ones(201))
    order = np.random.default_rng(0).permutation(201) % 5
    inside = 0
    for part in range(5):
        learnt = Intervals.of(errors.taken(order != part), 1, is_shared=False)
        held = errors.taken(order == part)
        below, above = learnt.ends(held.tasks, held.deviations, 0.95)
        inside += np.sum((below <= held.values) & (held.values <= above))
    assert is_covered(errors, 1, is_shared=False).mean() == inside / 201


def test_targets_on_the_same_rows_have_separate_quantiles():
    tasks = np.tile([0, 1], 200)
    errors = errors_of(np.tile([1.0, 100.0], 200) * RNG.normal(size=400), tasks)
    intervals = Intervals.of(errors, 2, is_shared=True)
    below, above = intervals.ends(np.array([0, 1]), None, 0.95)
    assert 30 < (above[1] - below[1]) / (above[0] - below[0]) < 300


def test_stored_intervals_equal_the_learned_ones():
    errors = errors_of(RNG.normal(size=3000), RNG.integers(0, 3, 3000))
    learnt = Intervals.of(errors, 3, is_shared=False)
    content = json.loads(json.dumps(learnt.to_dict()))
    read = Intervals.read(read_fields(StoredIntervals, content))
    tasks = np.array([0, 1, 2, -1])
    for first, second in zip(
        learnt.ends(tasks, None, 0.9), read.ends(tasks, None, 0.9), strict=True
    ):
        np.testing.assert_allclose(first, second, rtol=0.02)


def test_errors_that_grow_with_the_prediction_suggest_a_transformation():
    predicted = RNG.uniform(1, 10, 300)
    growing = errors_of(
        predicted * RNG.normal(size=300) / 5, np.zeros(300, int), predicted
    )
    even = errors_of(RNG.normal(size=300), np.zeros(300, int), predicted)
    assert advice(growing, predicted) == "log"
    assert advice(growing, predicted / 20) == "logit"
    assert not advice(growing, predicted - 5)
    assert not advice(even, predicted)


def patients(n=24, n_rows=8):
    """Return rows of patients with a positive, skewed target."""
    rng = np.random.default_rng(1)
    patient = np.repeat(np.arange(n), n_rows)
    level = rng.normal(size=n)[patient]
    x = rng.normal(size=len(patient))
    value = np.exp(level + 0.5 * x + 0.4 * rng.normal(size=len(patient)))
    names = [f"P-{k}" for k in patient]
    return pd.DataFrame({"patient": names, "x": x, "value": value})


OPTIONS = {
    "target": "value",
    "task": "patient",
    "methods": "GraphMTL",
    "splits": 3,
    "repeats": 1,
    "folds": 2,
}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    frame = patients()
    result = mtlrun.compare(frame, **OPTIONS, transform="log", unseen="mean")
    result.save(folder)
    return frame, result, load_model(folder / "model")


def test_predictions_of_a_transformed_target_have_its_units(compared):
    frame, result, model = compared
    table = model.predict_table(frame, interval=0.95)
    assert (table["lower"] > 0).all()
    assert (table["lower"] < table["prediction"]).all()
    assert (table["prediction"] < table["upper"]).all()
    inside = frame["value"].between(table["lower"], table["upper"])
    assert inside.mean() > 0.9
    np.testing.assert_allclose(model.predict(frame), table["prediction"])
    np.testing.assert_allclose(result.predict(frame), table["prediction"])


def test_means_of_a_transformed_target_exceed_its_medians(compared):
    frame, _, model = compared
    X, tasks = model.read(frame)
    assert (model.means(X, tasks) > model.answers(X, tasks)).mean() > 0.9


def test_new_tasks_keep_their_names_and_have_wider_intervals(compared):
    frame, _, model = compared
    known_rows = frame.head(5)
    new = known_rows.assign(patient="P-999")
    table = model.predict_table(
        pd.concat([known_rows, new], ignore_index=True), interval=0.95
    )
    assert table["task"].tolist() == ["P-0"] * 5 + ["P-999"] * 5
    assert table["is_known_task"].tolist() == [True] * 5 + [False] * 5
    log_width = np.log(table["upper"] / table["lower"])
    assert log_width[5:].mean() > log_width[:5].mean()


def test_the_measured_coverage_is_stored_and_printed(compared):
    _, result, model = compared
    shares = model.about["intervals"]["coverage"]
    assert set(shares) == {"known", "new"}
    assert all(0.85 <= share <= 1 for share in shares.values())
    assert len(result.board.interval_lines) == 2


def test_a_refitted_model_keeps_the_transformation(compared):
    frame, _, model = compared
    again = load_again(model).fit(frame)
    np.testing.assert_allclose(again.predict(frame), model.predict(frame), rtol=1e-6)


def load_again(model):
    return type(model)(model.estimator, model.step, model.facts)


def test_an_unknown_id_does_not_count_as_a_misspelled_one():
    frame = patients(6)
    options = {**OPTIONS, "methods": "IndependentRidge", "splits": 2}
    model = mtlrun.compare(frame, **options).model
    with pytest.raises(UnknownNameError) as caught:
        model.predict(frame.assign(patient="P-11"))
    assert "Did you mean" not in str(caught.value)
    assert "--new-tasks" in caught.value.remedy


@pytest.mark.parametrize(
    ("transform", "value"), [("log", 0.0), ("sqrt", -1.0), ("logit", 1.0)]
)
def test_targets_outside_the_domain_of_the_transformation_are_rejected(
    transform, value
):
    frame = patients(3).assign(value=RNG.uniform(0.1, 0.9, 24))
    frame.loc[4, "value"] = value
    roles = Roles(targets=("value",), task="patient", transform=transform)
    with pytest.raises(DataError) as caught:
        make_dataset(table_of_frame(frame), roles)
    assert f"--transform {transform}" in caught.value.remedy


def test_labels_cannot_be_transformed():
    frame = patients(3).assign(value=np.tile(["a", "b"], 12))
    with pytest.raises(DataError):
        make_dataset(
            table_of_frame(frame),
            Roles(targets=("value",), task="patient", transform="log"),
        )


def test_means_need_a_transformed_target():
    frame = patients(6)
    model = mtlrun.compare(frame, **OPTIONS).model
    X, tasks = model.read(frame)
    with pytest.raises(UserError) as caught:
        model.means(X, tasks)
    assert "--mean" in caught.value.remedy


@pytest.mark.parametrize("correlation", [0.0, 0.6, 1.0])
def test_errors_of_a_task_count_as_often_as_they_are_independent(correlation):
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(400), 9)
    shared = rng.normal(size=400)[tasks]
    errors = np.sqrt(correlation) * shared
    errors = errors + np.sqrt(1 - correlation) * rng.normal(size=3600)
    expected = 3600 / (1 + 8 * correlation**2)
    assert n_independent(errors, tasks) == pytest.approx(expected, rel=0.1)


def test_intervals_of_new_tasks_have_their_coverage_with_few_tasks():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(5), 8)
    inside = []
    for _ in range(300):
        values = 0.8 * rng.normal(size=5)[tasks] + 0.6 * rng.normal(size=40)
        errors = Errors(values, np.zeros(40), tasks, np.zeros(40))
        learnt = Intervals.of(errors, 5, is_shared=False, is_new=True)
        below, above = learnt.ends(np.array([-1]), None, 0.95)
        new = 0.8 * rng.normal(size=50) + 0.6 * rng.normal(size=50)
        inside.append(np.mean((new >= below) & (new <= above)))
    assert 0.93 < np.mean(inside) < 0.98
