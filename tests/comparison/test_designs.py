"""The three questions of a comparison: new rows, next rows, new tasks."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol, check_parts
from mtlrun.comparison.verdict import HELPS
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.splits import fold_rows, next_row_folds
from mtlrun.errors import DataError
from mtlrun.estimators.baselines import LastValue
from mtlrun.model.files import load_model


def cohort(n_patients=18, seed=0):
    """Return 1 to 8 visits of each patient, with staggered entry; dates are strings."""
    rng = np.random.default_rng(seed)
    parts = []
    for patient in range(n_patients):
        n_visits = 1 if patient % 6 == 0 else int(rng.integers(2, 9))
        days = np.cumsum(rng.integers(1, 400, n_visits)) + rng.integers(0, 4000)
        dates = pd.Timestamp("1974-01-01") + pd.to_timedelta(days, "D")
        value = rng.normal() + np.cumsum(rng.normal(size=n_visits))
        part = {
            "patient": f"P-{patient:03d}",
            "visit": dates.strftime("%Y-%m-%d"),
            "dose": rng.normal(size=n_visits).round(2),
            "value": value.round(3),
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def dataset_of(frame, **roles):
    return make_dataset(
        table_of_frame(frame), Roles(targets=("value",), task="patient", **roles)
    )


def test_each_task_is_tested_on_rows_after_its_training_rows():
    order = np.array([3, 1, 2, 4, 1, 2, 7, 5, 5])
    tasks = np.array([0, 0, 0, 0, 1, 1, 2, 3, 3])
    folds = [(a.tolist(), b.tolist()) for a, b in next_row_folds(order, tasks, 5)]
    # The last rows are tested first. A task with one time is only in training; ties
    # stay together.
    assert folds[0] == ([0, 1, 2, 4, 6, 7, 8], [3, 5])
    assert folds[1] == ([1, 2, 4, 6, 7, 8], [0])
    assert folds[2] == ([1, 4, 6, 7, 8], [2])
    assert len(folds) == 3


def test_at_least_half_of_the_rows_of_a_long_task_are_training_rows():
    order = np.arange(100)
    folds = list(next_row_folds(order, np.zeros(100, dtype=int), 5))
    assert [len(test) for _, test in folds] == [10] * 5
    assert min(len(train) for train, _ in folds) == 50


def test_folds_do_not_depend_on_the_order_of_rows():
    frame = cohort()
    mixed = frame.sample(frac=1, random_state=1)

    def tested(table):
        data = dataset_of(table, time="visit")
        rows = next(iter(fold_rows(data, 3, 0)))[1]
        return sorted(zip(data.task_id[rows], data.y[rows], strict=True))

    assert tested(frame) == tested(mixed.reset_index(drop=True))


def test_complete_tasks_are_held_out():
    data = dataset_of(cohort(), new_tasks=True)
    folds = list(fold_rows(data, 5, 0))
    assert len(folds) == 5
    for train, test in folds:
        assert not set(data.task_id[train]) & set(data.task_id[test])


def test_rows_of_tasks_without_training_rows_are_not_tested():
    data = dataset_of(cohort())
    sizes = np.bincount(data.task_id)
    tested = np.concatenate([test for _, test in fold_rows(data, 5, 0)])
    assert (sizes[data.task_id[tested]] > 1).all()
    assert len(tested) == (sizes[data.task_id] > 1).sum()


def test_a_table_with_one_row_per_task_supports_only_the_question_about_new_tasks():
    frame = cohort().groupby("patient", as_index=False).first()
    data = dataset_of(frame)
    with pytest.raises(DataError) as caught:
        check_parts(data, Protocol.of(data, CompareOptions()))
    assert "--new-tasks" in caught.value.remedy
    data = dataset_of(frame, new_tasks=True)
    check_parts(data, Protocol.of(data, CompareOptions()))


@pytest.mark.parametrize("n_rows", [2, 3])
def test_tables_of_fewer_rows_than_folds_are_refused_with_a_remedy(n_rows):
    frame = cohort().iloc[:n_rows]
    patients = list("abab")[:n_rows]
    data = dataset_of(frame.assign(patient=patients, value=np.arange(n_rows) ** 2))
    with pytest.raises(DataError) as caught:
        check_parts(data, Protocol.of(data, CompareOptions()))
    assert "--new-tasks" in caught.value.remedy


def test_tasks_of_a_single_group_each_are_refused_because_of_their_groups():
    frame = cohort().assign(clinic=lambda visits: visits["patient"])
    data = dataset_of(frame, group="clinic")
    with pytest.raises(DataError) as caught:
        check_parts(data, Protocol.of(data, CompareOptions()))
    assert "--group" in caught.value.remedy


@pytest.mark.parametrize(
    ("roles", "option"),
    [
        ({"time": "visit", "new_tasks": True}, "--time"),
        ({"group": "dose", "new_tasks": True}, "--group"),
        ({"time_blocks": True}, "--time COLUMN"),
    ],
)
def test_contradictory_designs_are_rejected(roles, option):
    with pytest.raises(DataError) as caught:
        dataset_of(cohort(), **roles)
    assert option in str(caught.value)


def test_the_last_value_is_carried_forward_with_and_without_drift():
    X = np.array([[9.0, 0.0], [9.0, 2.0], [9.0, 4.0], [9.0, 1.0]])
    y = [1.0, 2.0, 5.0, 7.0]
    tasks = ["a", "a", "a", "b"]
    new = np.array([[0.0, 6.0], [0.0, 8.0]])
    carried = LastValue().fit(X, y, task_id=tasks)
    assert carried.predict(new, task_id=["a", "b"]).tolist() == [5.0, 7.0]
    drifting = LastValue(drift=True, unseen="mean").fit(X, y, task_id=tasks)
    assert drifting.predict(new, task_id=["a", "b"]).tolist() == [7.0, 7.0]
    assert drifting.predict(new[:1], task_id=["c"]).tolist() == [6.0]


def test_last_values_of_targets_on_the_same_rows_skip_missing_values():
    Y = np.array([[1.0, 4.0], [2.0, np.nan]])
    model = LastValue().fit(np.array([[0.0], [1.0]]), Y)
    assert model.predict(np.array([[2.0]])).tolist() == [[2.0, 4.0]]


OPTIONS = {
    "target": "value",
    "task": "patient",
    "methods": ["GraphMTL"],
    "repeats": 1,
    "folds": 2,
}


@pytest.fixture(scope="module")
def compared():
    """Return a function that compares methods once, and its texts of warnings."""
    done = {}

    def compare(**design):
        key = tuple(design)
        if key not in done:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = mtlrun.compare(cohort(), **OPTIONS, **design, splits=3)
            done[key] = result, [str(warning.message) for warning in caught]
        return done[key]

    return compare


@pytest.mark.slow
@pytest.mark.parametrize(
    "design",
    [
        {},
        {"time": "visit"},
        {"time": "visit", "time_blocks": True},
        {"time": "visit", "since_first": "visit"},
        {"new_tasks": True},
        {"new_tasks": True, "since_first": "visit"},
    ],
)
def test_questions_about_a_cohort_are_accepted(compared, design):
    result, _ = compared(**design)
    labels = set(result.leaderboard["method"])
    assert ("LastValue+Drift" in labels) == ("time" in design)
    assert not any(entry.failures for entry in result.board.entries)
    questions = [line for line in result.board.facts if line.startswith("the question")]
    assert len(questions) == 1
    predicted = result.predict(cohort().drop(columns="value"))
    assert np.isfinite(predicted).all()


@pytest.mark.slow
@pytest.mark.parametrize("design", [{}, {"time": "visit"}])
def test_each_line_is_printed_once_and_the_counts_of_tasks_add_up(compared, design):
    frame = cohort()
    result, texts = compared(**design)
    assert len(set(texts)) == len(texts)
    facts = result.board.facts
    assert len(set(facts)) == len(facts)
    (line,) = [line for line in facts if " are tested of " in line]
    n_tested, n_rows, n_tasks, n_other = map(int, re.findall(r"\d+", line))
    assert n_tested < n_rows == len(frame)
    assert n_tasks + n_other == frame.patient.nunique()
    assert n_tasks == result.tasks["PooledRidge"].notna().sum()


@pytest.mark.slow
def test_a_saved_model_of_next_rows_stores_the_last_rows(compared, tmp_path):
    frame = cohort()
    result, _ = compared(time="visit")
    # A random walk: no method beats its last value.
    assert result.saved.startswith("LastValue")
    assert result.board.answer.decision != HELPS
    assert "last value" in result.verdict
    result.save(tmp_path / "saved")
    model = load_model(tmp_path / "saved" / "model")
    last = frame.sort_values("visit").groupby("patient").tail(1)
    later = last.assign(visit=last["visit"])
    np.testing.assert_allclose(model.predict(later), last["value"], atol=1e-9)


def protocol_of(frame, splits, repeats, **roles):
    dataset = make_dataset(table_of_frame(frame), Roles(**roles))
    return Protocol.of(dataset, CompareOptions(splits=splits, repeats=repeats))


@pytest.mark.parametrize(
    ("roles", "n_units"),
    [
        ({"targets": "value", "task": "patient", "new_tasks": True}, 6),
        ({"targets": "value", "task": "dose", "group": "patient"}, 6),
        ({"targets": ["value", "x"], "drop": ["patient", "dose"]}, 24),
    ],
    ids=["tasks", "groups", "rows"],
)
def test_a_repeat_that_cannot_differ_is_not_made(roles, n_units):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(24, 3)), columns=["value", "x", "z"])
    frame["patient"] = [f"p{k}" for k in np.arange(24) % 6]
    frame["dose"] = [f"d{k}" for k in np.arange(24) // 2 % 2]
    for splits in (n_units, n_units + 4):
        protocol = protocol_of(frame, splits=splits, repeats=3, **roles)
        assert (protocol.n_repeats, protocol.n_splits) == (1, n_units)
    fewer = protocol_of(frame, splits=n_units - 1, repeats=3, **roles)
    assert (fewer.n_repeats, fewer.n_splits) == (3, 3 * (n_units - 1))
