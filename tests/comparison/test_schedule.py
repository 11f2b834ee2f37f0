"""Comparisons with a budget, groups, times and weights; reports of failures."""

import contextlib
import re
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.catalog.methods import Method
from mtlrun.comparison import compare as compare_module
from mtlrun.comparison.candidates import Candidate, core
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.gain import RowIndex
from mtlrun.comparison.leaderboard import markdown
from mtlrun.comparison.schedule import CompareSchedule, remaining_seconds
from mtlrun.comparison.verdict import (
    INDEPENDENT,
    MULTITASK,
    NO_VERDICT,
    POOLED,
    TRIVIAL,
    judge,
)
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.splits import fold_rows
from mtlrun.engine.job import DatasetRef, Job, Scoring, Search, Split
from mtlrun.engine.record import Record, SearchResult
from mtlrun.errors import ConfigError
from mtlrun.parallel.pool import Pool
from mtlrun.show.quantities import NMSE
from mtlrun.utils.processes import is_locked

USER_DEFINED = """
import time

from mtlrun.estimators.independent import IndependentRidge, PooledRidge
from mtlrun.utils.processes import is_locked


class Broken(IndependentRidge):
    def fit(self, X, y, *, task_id=None, sample_weight=None):
        raise ValueError("broken on purpose")


class Square(PooledRidge):
    def fit(self, X, y, *, task_id=None, sample_weight=None):
        time.sleep(0.1)
        return super().fit(X**2, y, task_id=task_id)

    def predict(self, X, *, task_id=None):
        return super().predict(X**2, task_id=task_id)


class Asleep(IndependentRidge):
    def fit(self, X, y, *, task_id=None, sample_weight=None):
        time.sleep(600)
"""


def schools(n_tasks=3, n=16):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n_tasks * n, 3)), columns=list("abc"))
    frame["y"] = frame.a + 0.1 * rng.normal(size=len(frame))
    return frame.assign(school=np.repeat([f"s{t}" for t in range(n_tasks)], n))


@pytest.fixture
def own_methods(tmp_path, monkeypatch):
    (tmp_path / "own_methods.py").write_text(USER_DEFINED)
    monkeypatch.syspath_prepend(tmp_path)


QUICK = {"target": "y", "task": "school", "splits": 3, "repeats": 1, "folds": 2}


METHODS = [
    Candidate(label, family, "x")
    for label, family in (
        ("Mean", TRIVIAL),
        ("Alone", INDEPENDENT),
        ("One", POOLED),
        ("Tuned", INDEPENDENT),
        ("Joint", MULTITASK),
        ("Other", MULTITASK),
        ("Lasso", INDEPENDENT),
    )
]
USUAL = {"Joint": 5.0, "Other": 1.0, "Lasso": 2.0}
#: A deadline that is never reached.
FAR = time.monotonic() + 1e6


class Recorder:
    """A runner that notes the jobs which it is to compute, in order, and returns."""

    def __init__(self, means=1.0):
        self.pool = Pool(1)
        self.means = means
        self.choices = {}
        self.computed = set()
        self.searched = []
        self.waves = []
        self.store = SimpleNamespace(load=lambda key: None)

    def working(self):
        return contextlib.nullcontext()

    def search(self, jobs, pool):
        self.searched += jobs
        for job in jobs:
            mean = self.means
            if isinstance(mean, dict):
                mean = mean[job.method.estimator]
            means = mean if isinstance(mean, list) else [mean]
            self.choices[job.key] = SearchResult(means=means)

    def compute_fits(self, jobs, pool):
        if jobs:
            self.waves.append([(job.method.estimator, job.split.trial) for job in jobs])


def job_of(label, split, on="folds", n_candidates=1):
    """Return a job whose search tries some candidates on five folds."""
    method = Method(label)
    grid = {"alpha": list(range(n_candidates))}
    search = Search(grid, 5, "nmse", 0, method, on)
    return Job(
        DatasetRef("toy", {}, "0"),
        Split("kfold", split, 0, folds=3),
        method,
        Scoring(("nmse",)),
        search=search,
    )


def evaluation_of(y, n_repeats=1):
    rows = np.array_split(np.arange(len(y)), 3) * n_repeats
    return Evaluation(
        y=y,
        row_index=RowIndex(y.shape[1]),
        rows=rows,
        new=[np.zeros(len(part), dtype=bool) for part in rows],
        n_folds=3,
        n_repeats=n_repeats,
        measure=NMSE,
        smallest=0.01,
        metric="nmse",
    )


def planned(n_repeats=1, y=None, runner=None, methods=METHODS, search=None, **more):
    """Return the schedule of methods whose jobs are noted, but not computed."""
    y = np.zeros((9, 2)) if y is None else y
    jobs = {
        (c.label, split): job_of(c.label, split, **(search or {}))
        for c in methods
        for split in range(3 * n_repeats)
    }
    runner = runner or Recorder()
    evaluation = evaluation_of(y, n_repeats)
    more = {"usual": USUAL, **more}
    return CompareSchedule(methods, jobs, runner, evaluation, **more)


def order_of(schedule):
    """Return the methods and splits that are computed together, in their order."""
    schedule.run()
    return schedule.runner.waves


def test_methods_that_every_verdict_needs_are_fitted_first_on_all_splits():
    waves = order_of(planned(n_repeats=2))
    first = ["Mean", "Alone", "One", "Tuned", "Joint"]
    assert [c.label for c in core(METHODS)] == first
    assert waves[:5] == [[(label, s) for s in range(3)] for label in first]
    assert waves[5] == [("Mean", 3), ("Mean", 4), ("Mean", 5)]
    assert waves[10:] == [
        [(label, s) for s in range(6)] for label in ("Other", "Lasso")
    ]


def test_with_a_deadline_baselines_and_the_fastest_multi_task_method_begin_each_split():
    waves = order_of(planned(deadline=FAR))
    assert waves[0] == [("Mean", 0), ("Mean", 1), ("Mean", 2)]
    labels = ["Alone", "One", "Tuned", "Other"]
    assert waves[1:13] == [[(label, s)] for s in range(3) for label in labels]
    # The others follow, cheap ones first.
    later = ["Lasso", "Joint"]
    assert waves[13:] == [[(label, s) for s in range(3)] for label in later]


def test_with_a_deadline_all_repeats_of_all_methods_are_computed_once():
    waves = order_of(planned(n_repeats=2, deadline=FAR))
    keys = [key for wave in waves for key in wave]
    assert len(keys) == len(set(keys)) == len(METHODS) * 6


def test_smooth_models_follow_their_baselines_whatever_these_cost():
    smooth = [
        Candidate("SmoothIndependent", INDEPENDENT, "x"),
        Candidate("SmoothMTL", MULTITASK, "x"),
    ]
    usual = {**USUAL, "SmoothIndependent": 9.0, "SmoothMTL": 3.0, "Lasso": 5.0}
    methods = [*METHODS, *smooth]
    waves = order_of(planned(methods=methods, deadline=FAR, usual=usual))
    labels = list(dict.fromkeys(label for wave in waves for label, _ in wave))
    assert labels[-4:] == ["Joint", "Lasso", "SmoothIndependent", "SmoothMTL"]


@pytest.mark.parametrize(("seconds_left", "is_raced"), [(100.0, True), (10.0, False)])
def test_a_race_that_would_take_most_of_the_time_is_left_out(
    monkeypatch, seconds_left, is_raced
):
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    raced = ["Other", "Lasso"]
    schedule = planned(deadline=seconds_left, raced=raced, search={"on": "halving"})
    assert schedule.raced == ["Lasso"]
    # All searches take 100 seconds, the first of five folds a fifth of them.
    monkeypatch.setattr(schedule, "remaining", lambda min_share: 100.0)
    schedule.run()
    assert bool(schedule.runner.searched) == is_raced
    # Searches that are not raced are as they were planned.
    kinds = {schedule.jobs["Lasso", split].search.on for split in range(3)}
    assert kinds == {"folds" if is_raced else "halving"}


@pytest.mark.parametrize(
    ("seconds", "expected"), [(None, 30.0), (900.0, 30.0), (4.0, 4.0)]
)
def test_the_remaining_time_ends_at_the_deadline(monkeypatch, seconds, expected):
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    schedule = planned(deadline=30.0)
    monkeypatch.setattr(schedule, "remaining", lambda: seconds)
    assert schedule.progress().remaining_seconds == expected


@pytest.mark.parametrize(("n_missing", "is_stopped"), [(0, True), (1, False)])
def test_the_first_folds_count_the_training_rows_that_have_a_target(
    n_missing, is_stopped
):
    # The training rows of split 0 have 500 targets, a fifth of them in the first of
    # five inner folds: 100, the fewest that stop a method 2% behind. Its 125 test rows
    # have 100 targets.
    y = np.zeros((375, 2))
    y[:125, 0] = np.nan
    y[:25, 1] = np.nan
    y[125 : 125 + n_missing, 1] = np.nan
    means = {c.label: 1.0 for c in METHODS} | {"Other": 1.02}
    schedule = planned(y=y, runner=Recorder(means), raced=["Other"])
    schedule.run()
    assert (0 in schedule.entries["Other"].stopped) == is_stopped


def test_halving_keeps_half_of_all_candidates_after_the_race():
    means = [1.0, 1.02, 1.01, 9.0, 9.0, 9.0]
    schedule = planned(
        runner=Recorder(means),
        raced=["Lasso"],
        search={"on": "halving", "n_candidates": 6},
    )
    schedule.run()
    assert schedule.jobs["Lasso", 0].search.survivors == [0, 1, 2]


class Clock:
    """Ends the time of a comparison after a number of started jobs."""

    def __init__(self, n_jobs):
        self.n_jobs = n_jobs

    def is_over(self, pool):
        self.n_jobs -= 1
        return pool.deadline is not None and self.n_jobs < 0


def stopped_after(n_jobs, monkeypatch, frame=None, **options):
    """Return a comparison whose budget ends after a number of started jobs."""
    frame = schools() if frame is None else frame
    clock = Clock(n_jobs)
    monkeypatch.setattr(Pool, "is_past_deadline", property(clock.is_over))
    return mtlrun.compare(
        frame, methods=["GraphMTL"], budget=100, **{**QUICK, **options}
    )


@pytest.mark.slow
def test_a_budget_that_ends_early_gives_a_verdict_from_the_finished_folds(monkeypatch):
    # Each fold has three searches of two inner folds, and four fits.
    result = stopped_after(40, monkeypatch, splits=5)
    answer = result.board.answer
    multitask = next(e for e in result.board.entries if e.label == "GraphMTL")
    n_finished = len(multitask.losses)
    assert 0 < n_finished < 5
    assert answer.decision != NO_VERDICT
    assert f"{n_finished} of 5 folds" in answer.sentence
    assert any(f"({n_finished} of 5 folds, " in line for line in answer.details)
    assert result.board.ranked()[0].label != "TaskMean"
    assert "<svg" in result.page()


@pytest.mark.slow
def test_the_leaderboard_is_updated_after_each_fit():
    updates = []

    def tell(board):
        updates.append(
            ([e.label for e in board.ranked()], board.left_out, board.answer.decision)
        )

    mtlrun.compare(schools(), methods=["GraphMTL"], finished=tell, **QUICK)
    # Slow searches report more often.
    assert len(updates) >= 15
    assert updates[0][0] == ["TaskMean"]
    assert re.fullmatch(
        r"unfinished: 1 of 15 fits done \(7%\), .*now TaskMean", updates[0][1][0]
    )
    assert updates[-1][2] != "no verdict"


@pytest.fixture(scope="module")
def ended_in_a_fit(tmp_path_factory):
    """Return a comparison whose budget ends in the fit of its last method; its folder.

    Its best method takes too long to be fitted to all rows.
    """
    folder = tmp_path_factory.mktemp("late")
    (folder / "own_methods.py").write_text(USER_DEFINED)
    options = {"methods": ["own_methods:Square", "own_methods:Asleep"], "budget": 0.5}
    frame = schools().assign(y=lambda table: table.a**2)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        # At least 6 s of the 3 that are left, and less for the others.
        patch.setattr("mtlrun.comparison.compare.FINAL_FIT_FACTOR", 60)
        result = mtlrun.compare(frame, output=folder / "out", **options, **QUICK)
        yield result, folder / "out"


@pytest.mark.slow
def test_a_fit_that_takes_too_long_is_stopped_at_the_deadline_and_leaves_no_record(
    ended_in_a_fit,
):
    result, folder = ended_in_a_fit
    # The fit would take 600 s.
    assert "Asleep" not in [e.label for e in result.board.ranked()]
    assert any(
        line.startswith("no time") and "Asleep" in line
        for line in result.board.left_out
    )
    records = [
        Record.from_line(path.read_text()) for path in (folder / "cells").glob("*.json")
    ]
    assert {record.status for record in records} == {"ok"}
    assert not any(map(is_locked, (folder / "cells").glob("*.lock")))


@pytest.mark.slow
def test_the_saved_model_is_the_best_one_that_fits_into_the_budget(ended_in_a_fit):
    late, _ = ended_in_a_fit
    assert late.board.ranked()[0].label == "Square"
    assert late.saved != "Square"
    assert any(
        "Square" in line and f"the saved model is {late.saved}" in line
        for line in late.board.left_out
    )
    assert len(late.predict(schools())) == len(schools())


def test_one_split_in_time_uses_all_training_rows(monkeypatch):
    # Without a limit of usual times, one method is tried on half of the 2,400 rows.
    monkeypatch.setattr(compare_module, "SLOWDOWN", 1e9)
    result = stopped_after(0, monkeypatch, schools(n=800))
    assert result.board.evaluation.train_share == 1
    assert "training rows:" not in result.board.answer.headline


@pytest.mark.slow
def test_a_budget_does_not_change_any_score(monkeypatch):
    monkeypatch.setattr(compare_module, "SLOWDOWN", 1e9)
    unlimited = mtlrun.compare(schools(), methods=["GraphMTL"], **QUICK)
    timed = mtlrun.compare(schools(), methods=["GraphMTL"], budget=100, **QUICK)
    assert unlimited.verdict == timed.verdict
    assert unlimited.saved == timed.saved
    assert not timed.board.left_out
    assert {e.label: e.scores for e in unlimited.board.entries} == {
        e.label: e.scores for e in timed.board.entries
    }


def test_training_rows_are_thinned_where_one_split_with_all_takes_too_long():
    result = mtlrun.compare(schools(n=800), methods=["GraphMTL"], budget=1e-6, **QUICK)
    # Half of 2,400 rows are the smallest part with 1,000 rows.
    evaluation = result.board.evaluation
    assert evaluation.train_share == 0.5
    assert evaluation.n_train == pytest.approx([800, 800, 800], abs=3)
    assert sum(map(len, evaluation.rows)) == 2400
    assert any("50% of the training rows" in fact for fact in result.board.facts)


def test_the_verdict_names_the_share_of_the_training_rows():
    board = mtlrun.compare(schools(), methods=["GraphMTL"], **QUICK).board
    answer = judge(board.entries, replace(board.evaluation, train_share=0.5))
    assert answer.headline.startswith("With 50% of the training rows: ")
    assert "--budget" in answer.sentence


def test_a_tiny_budget_still_gives_a_leaderboard():
    lines = []
    result = mtlrun.compare(schools(), budget=1e-6, say=lines.append, **QUICK)
    assert [e.label for e in result.board.ranked()] == ["TaskMean"]
    assert result.board.answer.decision == "no verdict"
    assert result.board.left_out[0].startswith(
        "no time was left for 3 of 3 splits of IndependentRidge, "
    )
    assert len(result.board.entries) >= 10
    # Methods that have not run are listed, and have no row of dashes.
    assert result.leaderboard["rmse"].notna().all()
    assert all("no time was left" in line for line in result.board.left_out)
    assert max(map(len, lines)) < 600


def test_a_failed_method_is_reported_and_does_not_hide_others(own_methods):
    lines = []
    result = mtlrun.compare(
        schools(),
        methods=["own_methods:Broken"],
        family=["multi-task=own_methods:Broken"],
        say=lines.append,
        **QUICK,
    )
    assert any(
        line.startswith("Broken: ") and "ValueError: broken on purpose" in line
        for line in lines
    )
    assert result.leaderboard["method"].iloc[-1] == "Broken"
    assert result.leaderboard["better in"].iloc[-1] == "failed"
    assert "Every multi-task method failed" in result.verdict
    assert re.search(
        r"\| Broken +\| - +\| .*ValueError: broken on purpose", markdown(result.board)
    )
    with pytest.raises(ValueError, match="no multi-task method"):
        result.plot_tasks()


def test_folds_of_the_search_keep_groups_together_and_respect_time():
    frame = schools().assign(g=np.arange(48) % 7, day=np.arange(48) % 11)
    grouped = make_dataset(
        table_of_frame(frame),
        Roles(targets=("y",), task="school", group="g", drop=("day",)),
    )
    folds = list(fold_rows(grouped, 3, 0))
    assert len(folds) == 3
    for train, test in folds:
        assert not set(grouped.source["group"][train]) & set(
            grouped.source["group"][test]
        )
    timed = make_dataset(
        table_of_frame(frame),
        Roles(targets=("y",), task="school", time="day", time_blocks=True, drop=("g",)),
    )
    folds = list(fold_rows(timed, 3, 0))
    assert len(folds) == 3
    for train, test in folds:
        assert timed.source["time"][train].max() < timed.source["time"][test].min()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"splits": 1}, "splits must be at least 2, not 1"),
        ({"repeats": 0}, "repeats must be at least 1, not 0"),
        ({"smallest_gain": 1.5}, "smallest_gain takes a fraction"),
        ({"folds": 1}, "folds must be at least 2, not 1"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
    ],
)
def test_settings_out_of_range_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        mtlrun.compare(schools(), target="y", task="school", **options)


def test_the_remaining_time_is_estimated_from_finished_and_typical_times():
    entries = {
        name: ComparedMethod(name, INDEPENDENT) for name in ("done", "begun", "open")
    }
    entries["done"].scores, entries["done"].seconds = {0: 1.0, 1: 1.0}, [2.0, 2.0]
    entries["begun"].failures, entries["begun"].scores, entries["begun"].seconds = (
        {0: "broken"},
        {1: 1.0},
        [4.0],
    )
    usual = {"done": 1.0, "begun": 2.0, "open": 10.0}
    # Finished work took twice as long as usual, on two processes: 8 seconds of
    # computing in 4.
    assert remaining_seconds(
        entries, usual, 4, elapsed=4.0, computed=8.0
    ) == pytest.approx((2 * 2 + 2 * 4 + 4 * 20) / 2)
    much = usual | {"open": 1000.0}  # The other two have no record.
    assert remaining_seconds(entries, much, 4, elapsed=4.0, computed=8.0) is None
    assert remaining_seconds(entries, {}, 4, elapsed=4.0, computed=8.0) is None
    assert (
        remaining_seconds(
            {"open": entries["open"]}, usual, 4, elapsed=4.0, computed=0.0
        )
        is None
    )


def test_an_unfinished_leaderboard_estimates_the_remaining_time():
    estimates = []
    mtlrun.compare(
        schools(),
        target="y",
        task="school",
        methods=["GraphMTL"],
        splits=2,
        repeats=1,
        folds=2,
        finished=estimates.append,
    )
    assert re.fullmatch(
        r"unfinished: \d+ of 10 fits done \(\d+%\), about \d+ s left, now \w+",
        estimates[0].left_out[0],
    )
