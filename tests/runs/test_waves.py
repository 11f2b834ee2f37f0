"""Comparisons within a budget, with groups, times and weights, and what is said when methods fail."""

import dataclasses
import re
import time

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.data.roles import Roles, make_dataset
from mtlrun.data.splits import fold_rows
from mtlrun.data.table import table_of_frame
from mtlrun.errors import ConfigError
from mtlrun.record import Record
from mtlrun.report.leaderboard import markdown
from mtlrun.runs.candidates import MULTITASK, TRIVIAL, Candidate, default_candidates
from mtlrun.runs.settings import Protocol
from mtlrun.runs.waves import Schedule, make_schedule

OWN = """
from mtlrun.estimators.independent import IndependentRidge


class Broken(IndependentRidge):
    def fit(self, X, y, *, task_id=None, sample_weight=None):
        raise ValueError("broken on purpose")


class Asleep(IndependentRidge):
    def fit(self, X, y, *, task_id=None, sample_weight=None):
        import time

        time.sleep(600)
"""


def schools(n_tasks=3, n=16):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n_tasks * n, 3)), columns=list("abc"))
    frame["y"] = frame.a + 0.1 * rng.normal(size=len(frame))
    return frame.assign(school=np.repeat([f"s{t}" for t in range(n_tasks)], n))


@pytest.fixture
def data():
    made = make_dataset(table_of_frame(schools()), Roles(targets=("y",), task="school"))
    return dataclasses.replace(made, id="own-schools")


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_methods.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


def trivial(data):
    return [candidate for candidate in default_candidates(data, 0.7) if candidate.family == TRIVIAL]


PROTOCOL = Protocol({"kind": "random", "train": 0.7}, 2, 3, "rmse", 0)


@pytest.fixture
def planned(monkeypatch):
    """Put a schedule in the place of that which a budget would lead to."""

    def put(*candidates, n_splits=1, **fields):
        made = Schedule(list(candidates), n_splits, **fields)
        monkeypatch.setattr("mtlrun.runs.compare.make_schedule", lambda *_, **__: made)

    return put


def test_what_the_deadline_leaves_no_time_for_is_named(data, own, planned):
    (mean,) = trivial(data)
    dear = Candidate("Dear", MULTITASK, "own_methods:Broken")
    planned(mean, dear, n_splits=3, seconds={"TaskMean": 0.1, "Dear": 1e6}, shrunk={"TaskMean": "1 of 5 combinations"})
    result = mtlrun.compare(schools(), target="y", task="school", splits=2, budget=1e4)
    entries = {e.label: e for e in result.board.entries}
    assert list(entries["TaskMean"].scores) == [0]
    assert entries["TaskMean"].searched == "1 of 5 combinations"
    assert entries["Dear"].scores == {}
    assert result.board.left_out == ["Dear, split 1: no time was left", "1 of 2 splits: the budget was spent"]


def test_a_fit_that_takes_too_long_is_stopped_at_the_deadline_and_leaves_no_record(
    data, own, planned, monkeypatch, tmp_path
):
    (mean,) = trivial(data)
    monkeypatch.setattr("mtlrun.runs.waves.CHEAP", 0.0)
    planned(mean, Candidate("Asleep", MULTITASK, "own_methods:Asleep"), seconds={"TaskMean": 0.0, "Asleep": 0.1})
    options = {"target": "y", "task": "school", "budget": 0.2, "output": tmp_path / "out"}
    result = mtlrun.compare(schools(), **options)
    assert [e.label for e in result.board.ranked()] == ["TaskMean"]
    assert result.board.left_out == ["Asleep, split 1: no time was left"]
    records = [Record.from_line(path.read_text()) for path in (tmp_path / "out/cells").glob("*.json")]
    assert {record.status for record in records} == {"ok"}
    assert not list((tmp_path / "out/cells").glob("*.lock"))


def test_what_was_computed_before_costs_nothing_of_a_budget(tmp_path, monkeypatch):
    options = {"target": "y", "task": "school", "splits": 1, "methods": ["GraphMTL"], "output": tmp_path / "out"}
    before = mtlrun.compare(schools(), **options)
    monkeypatch.setattr("mtlrun.runs.waves._pilot", lambda *_: 1e9)
    monkeypatch.setattr("mtlrun.runs.waves.MAX_SPLITS", 1)
    again = mtlrun.compare(schools(), **options, budget=0.5)
    assert not again.board.reduced()
    assert {e.label: e.scores for e in again.board.entries} == {e.label: e.scores for e in before.board.entries}
    with pytest.raises(ConfigError, match="too small"):
        mtlrun.compare(schools(), **{**options, "output": tmp_path / "new"}, budget=0.5)


def test_a_method_that_fails_is_in_the_report_and_hides_no_other(own):
    lines = []
    options = {"target": "y", "task": "school", "splits": 1, "say": lines.append}
    result = mtlrun.compare(schools(), methods=["own_methods:Broken"], **options)
    assert any(line.startswith("split 1/1  Broken: ValueError: broken on purpose") for line in lines)
    assert [row[1] for row in result.leaderboard.itertuples(index=False)] == ["IndependentRidge", "TaskMean", "Broken"]
    assert result.leaderboard.iloc[-1].tolist()[-3:] == ["failed", None, None]
    assert result.verdict == "No multi-task method finished, so nothing can be said about multi-task learning here."
    assert re.search(r"\| Broken +\| - +\| ValueError: broken on purpose", markdown(result.board))
    with pytest.raises(ValueError, match="no multi-task method"):
        result.plot_tasks()


def test_a_budget_for_methods_that_fail_says_why(own):
    options = {"target": "y", "task": "school", "budget": 5}
    with pytest.raises(ConfigError, match=r"Broken: .*broken on purpose"):
        mtlrun.compare(schools(), methods=["own_methods:Broken"], **options)


def test_a_budget_for_baselines_needs_no_multi_task_method(data, monkeypatch):
    monkeypatch.setattr("mtlrun.runs.waves._pilot", lambda candidate, *_: 1.0)
    baselines = [c for c in default_candidates(data, 0.7) if c.family != MULTITASK]
    plan = make_schedule(baselines, data, PROTOCOL, budget=1e6, started=time.monotonic(), jobs=1)
    assert {c.label for c in plan.candidates} == {c.label for c in baselines}
    with pytest.raises(ConfigError, match=r"too small[^\0]*--budget .*TaskMean, "):
        make_schedule(baselines, data, PROTOCOL, budget=0.5, started=time.monotonic(), jobs=1)


def test_folds_of_the_search_keep_groups_together_and_go_forward_in_time():
    frame = schools().assign(g=np.arange(48) % 7, day=np.arange(48) % 11)
    grouped = make_dataset(table_of_frame(frame), Roles(targets=("y",), task="school", group="g", drop=("day",)))
    folds = list(fold_rows(grouped, 3, 0))
    assert len(folds) == 3
    for train, test in folds:
        assert not set(grouped.source["group"][train]) & set(grouped.source["group"][test])
    timed = make_dataset(table_of_frame(frame), Roles(targets=("y",), task="school", time="day", drop=("g",)))
    folds = list(fold_rows(timed, 3, 0))
    assert len(folds) == 3
    for train, test in folds:
        assert timed.source["time"][train].max() < timed.source["time"][test].min()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": 1.0}, "train must be a fraction between 0 and 1, not 1"),
        ({"folds": 1}, "folds must be at least 2, not 1"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
    ],
)
def test_settings_out_of_range(options, message):
    with pytest.raises(ConfigError, match=message):
        mtlrun.compare(schools(), target="y", task="school", **options)
