"""An integer weight equals repeated rows, and a weight of 0 an absent row: in scores,
gains, verdicts and lines.
"""

import dataclasses

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mtlrun.comparison.differences import differences
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.gain import (
    RowIndex,
    auc_gain,
    concordances,
    relative_gain,
)
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.verdict import INDEPENDENT, MULTITASK, POOLED, judge
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import GROUP, WEIGHT
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.estimators.baselines import TaskMean
from mtlrun.estimators.independent import IndependentRidge
from mtlrun.estimators.tuned import TunedKernelRidge, TunedLogistic, TunedRidge
from mtlrun.metrics import METRICS
from mtlrun.show.quantities import AUC, NMSE

N = 60
N_TASKS = 3
RNG = np.random.default_rng(0)
IDS = np.arange(N) % N_TASKS
GROUPS = np.arange(N) // 2
WEIGHTS = RNG.integers(1, 4, N)
AGAIN = np.repeat(np.arange(N), WEIGHTS)


def gains(joint, without, ids, weights, positive=None, pairs=None):
    row_index = RowIndex(N_TASKS, ids, weights=weights)
    if positive is None:
        return relative_gain(joint, without, row_index, 1.5)
    return auc_gain(joint, without, pairs, positive, row_index, 1.5)


def assert_same_gain(actual, expected, *, with_error):
    for name in ("value", "first", "second"):
        assert getattr(actual, name) == pytest.approx(getattr(expected, name))
    np.testing.assert_allclose(actual.tasks, expected.tasks)
    if with_error:
        assert actual.error == pytest.approx(expected.error)
        assert (actual.df, actual.units) == (expected.df, expected.units)


@pytest.mark.parametrize("is_ragged", [True, False])
def test_integer_weights_equal_repeated_rows_in_a_relative_gain(is_ragged):
    shape = (N,) if is_ragged else (N, N_TASKS)
    joint = RNG.gamma(1.0, size=shape)
    without = RNG.gamma(1.2, size=shape)
    ids = IDS if is_ragged else None
    again = IDS[AGAIN] if is_ragged else None
    weighted = gains(joint, without, ids, WEIGHTS.astype(float))
    repeated = gains(joint[AGAIN], without[AGAIN], again, None)
    assert_same_gain(weighted, repeated, with_error=False)
    groups = RowIndex(N_TASKS, ids, GROUPS, WEIGHTS.astype(float))
    repeats = RowIndex(N_TASKS, again, GROUPS[AGAIN])
    assert_same_gain(
        relative_gain(joint, without, groups, 1.5),
        relative_gain(joint[AGAIN], without[AGAIN], repeats, 1.5),
        with_error=True,
    )


@pytest.mark.parametrize("is_ragged", [True, False])
def test_integer_weights_equal_repeated_rows_in_a_gain_of_the_auc(is_ragged):
    shape = (N,) if is_ragged else (N, N_TASKS)
    y = np.where(RNG.random(shape) < 0.4, 1.0, -1.0)
    scores = [y + 2 * RNG.normal(size=shape), np.round(y + 3 * RNG.normal(size=shape))]
    auc_gains = []
    for rows, weights in ((np.arange(N), WEIGHTS.astype(float)), (AGAIN, None)):
        ids = IDS[rows] if is_ragged else None
        row_index = RowIndex(N_TASKS, ids, GROUPS[rows], weights)
        all_rows = np.arange(len(rows))
        fields = [concordances(y[rows], s[rows], row_index, all_rows) for s in scores]
        joint, pairs = fields[0]
        auc_gains.append(
            auc_gain(joint, fields[1][0], pairs, y[rows] > 0, row_index, 1.5)
        )
    assert_same_gain(*auc_gains, with_error=True)
    for task in range(N_TASKS):
        task_index = task == IDS if is_ragged else (slice(None), task)
        weights = WEIGHTS[task == IDS] if is_ragged else WEIGHTS
        by_hand = [
            roc_auc_score(y[task_index], s[task_index], sample_weight=weights)
            for s in scores
        ]
        assert auc_gains[0].tasks[task] == pytest.approx(by_hand[0] - by_hand[1])


@pytest.mark.parametrize("measure", [NMSE, AUC])
def test_integer_weights_equal_repeated_rows_in_the_verdict(measure):
    y = RNG.normal(size=N) + IDS
    if measure == AUC:
        y = np.where(y > 1, 1.0, -1.0)
    noise = RNG.normal(size=(3, N))
    verdicts = []
    for rows, weights in ((np.arange(N), WEIGHTS.astype(float)), (AGAIN, None)):
        folds = [np.flatnonzero(GROUPS[rows] % 5 == k) for k in range(5)]
        evaluation = Evaluation(
            y=y[rows],
            row_index=RowIndex(N_TASKS, IDS[rows], GROUPS[rows], weights),
            rows=folds,
            new=[np.zeros(len(part), dtype=bool) for part in folds],
            n_folds=5,
            n_repeats=1,
            measure=measure,
            smallest=0.01,
        )
        entries = []
        names = (("A", INDEPENDENT, 1.0), ("P", POOLED, 1.4), ("J", MULTITASK, 0.7))
        for index, (label, family, size) in enumerate(names):
            entry = ComparedMethod(label, family)
            scores = (y + size * noise[index])[rows]
            for split, part in enumerate(folds):
                entry.losses[split] = evaluation.losses(split, scores[part])
                entry.inner[split] = size
            entries.append(entry)
        verdicts.append(judge(entries, evaluation))
    weighted, repeated = verdicts
    assert_same_gain(
        weighted.versus_separate, repeated.versus_separate, with_error=True
    )
    assert_same_gain(weighted.versus_pooled, repeated.versus_pooled, with_error=True)
    assert (weighted.decision, weighted.gain.pvalue) == (
        repeated.decision,
        pytest.approx(repeated.gain.pvalue),
    )


@pytest.mark.parametrize("is_ragged", [True, False])
def test_a_weight_of_0_removes_a_row_from_a_gain(is_ragged):
    shape = (N,) if is_ragged else (N, N_TASKS)
    joint = RNG.gamma(1.0, size=shape)
    without = RNG.gamma(1.2, size=shape)
    weights = np.where(np.arange(N) % 4 == 0, 0.0, 1.0 + np.arange(N) % 3)
    kept = np.flatnonzero(weights)
    frame = gains(joint, without, IDS if is_ragged else None, weights)
    expected = gains(
        joint[kept], without[kept], IDS[kept] if is_ragged else None, weights[kept]
    )
    assert_same_gain(frame, expected, with_error=True)


@pytest.mark.parametrize("is_ragged", [True, False])
def test_a_weight_of_0_removes_a_row_from_a_gain_of_the_auc(is_ragged):
    shape = (N,) if is_ragged else (N, N_TASKS)
    y = np.where(RNG.random(shape) < 0.4, 1.0, -1.0)
    scores = [y + 2 * RNG.normal(size=shape), y + 3 * RNG.normal(size=shape)]
    weights = np.where(np.arange(N) % 4 == 0, 0.0, 1.0 + np.arange(N) % 3)
    auc_gains = []
    for rows in (np.arange(N), np.flatnonzero(weights)):
        row_index = RowIndex(
            N_TASKS, IDS[rows] if is_ragged else None, None, weights[rows]
        )
        all_rows = np.arange(len(rows))
        fields = [concordances(y[rows], s[rows], row_index, all_rows) for s in scores]
        joint, pairs = fields[0]
        auc_gains.append(
            auc_gain(joint, fields[1][0], pairs, y[rows] > 0, row_index, 1.5)
        )
    assert_same_gain(*auc_gains, with_error=True)


# --- scores ---


def dataset(y, weights, task_id=IDS, rows=None, **more):
    rows = np.arange(len(y)) if rows is None else rows
    is_label = set(np.unique(y[~np.isnan(y)])) == {-1.0, 1.0}
    return Dataset(
        X=np.linspace(-1, 1, len(y))[rows, np.newaxis] + np.zeros((1, 2)),
        y=y[rows],
        task_type="binary" if is_label else "regression",
        task_id=None if task_id is None else task_id[rows],
        tasks=["a", "b", "c"],
        features=["u", "v"],
        source={WEIGHT: np.asarray(weights, dtype=float)} | more,
    )


def scored(data, scores, names):
    rows = np.arange(data.n_samples)
    part = TrainTestData.of(data, rows, rows)
    model = part.fit(TaskMean())
    return part.score(model, scores, names, "task")


@pytest.mark.parametrize("needs", ["value", "score", "label"])
@pytest.mark.parametrize("is_ragged", [True, False])
def test_integer_weights_equal_repeated_rows_in_all_scores(needs, is_ragged):
    shape = (N,) if is_ragged else (N, N_TASKS)
    ids = IDS if is_ragged else None
    y = RNG.normal(size=shape) + 1
    if needs != "value":
        y = np.where(y > 1, 1.0, -1.0)
    scores = y + 2 * RNG.normal(size=shape)
    names = [m.name for m in METRICS.values() if m.needs == needs]
    # Means over the rows of all targets have no weights per task.
    names = [name for name in names if name not in ("auc_samples", "nmse_all")]
    weighted = scored(dataset(y, WEIGHTS, ids), scores, names)
    repeated = scored(dataset(y, np.ones(len(AGAIN)), ids, AGAIN), scores[AGAIN], names)
    for name in names:
        assert weighted[name].mean == pytest.approx(repeated[name].mean), name
        np.testing.assert_allclose(weighted[name].per_task, repeated[name].per_task)


def test_integer_weights_equal_repeated_rows_in_the_error_relative_to_the_variance_of_all_rows():
    y = RNG.normal(size=N) * (1 + IDS)
    scores = y + RNG.normal(size=N)
    weighted = scored(dataset(y, WEIGHTS), scores, ["nmse_all"])["nmse_all"]
    again = dataset(y, np.ones(len(AGAIN)), IDS, AGAIN)
    repeated = scored(again, scores[AGAIN], ["nmse_all"])["nmse_all"]
    np.testing.assert_allclose(weighted.per_task, repeated.per_task)


# --- fits ---


@pytest.mark.parametrize("is_many", [False, True])
@pytest.mark.parametrize("is_ragged", [True, False])
def test_integer_weights_equal_repeated_rows_in_the_fits(is_many, is_ragged):
    shape = (N,) if is_ragged else (N, N_TASKS)
    ids = IDS if is_ragged else None
    y = RNG.normal(size=shape)
    X = RNG.normal(size=(N, 2))
    coefficients = []
    weighted = dataset(y, WEIGHTS, ids)
    repeated = dataset(y, np.ones(len(AGAIN)), ids, AGAIN)
    for data, rows in ((weighted, X), (repeated, X[AGAIN])):
        data.X = rows
        all_rows = np.arange(data.n_samples)
        part = TrainTestData.of(data, all_rows, all_rows)
        fit = part.rows.fit if is_many else part.fit
        coefficients.append(fit(IndependentRidge(3.0)).coef_)
    np.testing.assert_allclose(*coefficients)
    unweighted = IndependentRidge(3.0).fit(X, y, task_id=ids).coef_
    assert not np.allclose(coefficients[0], unweighted)


# --- before the fits: the line about differences, and the tested rows ---


def grouped_table(kind):
    """Return tasks that differ in one slope; outliers have weight 0."""
    rng = np.random.default_rng(4)
    n_tasks = 6
    n = 30 * n_tasks
    ids = np.arange(n) % n_tasks
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + X[:, 1] * (1 + rng.normal(size=n_tasks))[ids] + rng.normal(size=n)
    weights = np.where(rng.random(n) < 0.25, 0.0, 1.0)
    wild = weights == 0
    X[wild] *= 20
    y[wild] = 100 * rng.normal(size=wild.sum())
    if kind == "binary":
        y = np.where(y > 0, 1.0, -1.0)
    return Dataset(
        X=X,
        y=y,
        task_type=kind,
        task_id=ids,
        tasks=[f"t{k}" for k in range(n_tasks)],
        features=["price", "promo"],
        source={WEIGHT: weights},
    )


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_a_weight_of_0_removes_a_row_from_the_line_about_differences(kind):
    data = grouped_table(kind)
    kept = data.subset(np.flatnonzero(data.source[WEIGHT]))
    line = differences(data)
    assert line == differences(kept)
    assert line != differences(dataclasses.replace(data, source={}))
    assert "differ in promo" in line


def test_the_weights_and_groups_of_a_table_reach_the_verdict():
    y = RNG.normal(size=N)
    data = dataset(y, WEIGHTS, IDS, **{GROUP: GROUPS})
    evaluation = Protocol.of(data, CompareOptions(splits=3, repeats=1)).evaluation(data)
    np.testing.assert_array_equal(evaluation.row_index.weights, WEIGHTS)
    np.testing.assert_array_equal(evaluation.row_index.units, GROUPS)


# --- baselines that select their strength ---

TUNED = [
    (TunedRidge([0.01, 1.0, 100.0]), False),
    (TunedKernelRidge([0.1, 1.0, 10.0], [0.5, 1.0]), False),
    (TunedLogistic([0.01, 1.0, 100.0], tol=1e-8), True),
]


@pytest.mark.cover
@pytest.mark.parametrize(("model", "is_classifier"), TUNED)
@pytest.mark.parametrize("seed", range(4))
def test_a_weight_of_0_removes_a_row_from_tuned_baselines(model, is_classifier, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    y = X[:, 0] + rng.normal(size=40)
    weights = np.where(np.arange(40) % 4 == 0, 0.0, rng.integers(1, 3, 40))
    X[weights == 0] *= 10
    y[weights == 0] = 50 * rng.normal(size=10)
    if is_classifier:
        y = np.where(y > 0, 1.0, -1.0)
    kept = np.flatnonzero(weights)
    new = rng.normal(size=(5, 3))
    call = "decision_function" if is_classifier else "predict"
    values = getattr(model.fit(X, y, sample_weight=weights), call)(new)
    chosen = model.alpha_
    model.fit(X[kept], y[kept], sample_weight=weights[kept])
    assert model.alpha_ == chosen
    np.testing.assert_allclose(values, getattr(model, call)(new), rtol=1e-5)
