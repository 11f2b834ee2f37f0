"""Every number that `compare` prints or saves, computed independently."""

import json
import math
import re
import statistics
import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import mtlrun
from mtlrun.comparison import compare as compare_module
from mtlrun.comparison.candidates import Candidate, default_candidates
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.gain import Gain, RowIndex
from mtlrun.comparison.leaderboard import (
    Leaderboard,
    curve_of,
    leaderboard_grid,
    leaderboard_json,
    rows_per_task,
    sections,
    task_grid,
)
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol, facts_of, sizes_of
from mtlrun.comparison.schedule import BoardProgress, CompareSchedule, usual_seconds
from mtlrun.comparison.verdict import (
    CANNOT_TELL,
    HELPS,
    INDEPENDENT,
    MULTITASK,
    NATIVE,
    NO_DIFFERENCE,
    NO_VERDICT,
    POOLED,
    TRIVIAL,
    ComparisonVerdict,
    VerdictText,
    decide,
    judge,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.splits import GROUP
from mtlrun.engine.record import Record, SearchResult, Seconds
from mtlrun.show.quantities import AUC, NMSE

N_TASKS = 4
N_FOLDS = 5
N = 160
IDS = np.arange(N) % N_TASKS
RNG = np.random.default_rng(3)
Y = RNG.normal(size=N) * (1 + IDS)


def make_evaluation(n_repeats=2, measure=NMSE, metric="rmse", y=Y, units=None, **more):
    rows = []
    for repeat in range(n_repeats):
        order = np.random.default_rng(repeat).permutation(N // N_TASKS)
        fold_of_row = order[np.arange(N) // N_TASKS] % N_FOLDS
        rows += [np.flatnonzero(fold_of_row == k) for k in range(N_FOLDS)]
    return Evaluation(
        y=y,
        row_index=RowIndex(N_TASKS, IDS, units),
        rows=rows,
        new=[np.zeros(len(part), dtype=bool) for part in rows],
        n_folds=N_FOLDS,
        n_repeats=n_repeats,
        measure=measure,
        smallest=more.pop("smallest", 0.01),
        metric=metric,
        **more,
    )


def method(label, family, losses, evaluation, inner=1.0, seconds=1.0):
    """Return a method with one loss per row, the same in each repeat."""
    entry = ComparedMethod(label, family)
    for split, rows in enumerate(evaluation.rows):
        part = losses[rows]
        entry.losses[split] = part
        entry.inner[split] = inner
        entry.tasks[split] = [
            float(part[IDS[rows] == task].mean()) for task in range(N_TASKS)
        ]
        entry.scores[split] = float(np.mean(entry.tasks[split]))
        entry.seconds.append(seconds * (1 + split))
        entry.fit_seconds.append(seconds)
    return entry


NOISE = RNG.gamma(2.0, size=(3, N))


def methods(evaluation, joint=0.8, spread=0.1):
    alone = 1 + NOISE[0]
    pooled = 1.3 * (1 + NOISE[0]) + spread * NOISE[1]
    multitask = joint * (1 + NOISE[0]) + spread * (NOISE[2] - 2)
    return [
        method("Alone", INDEPENDENT, alone, evaluation, 2.0),
        method("One", POOLED, pooled, evaluation, 3.0),
        method("Joint", MULTITASK, multitask, evaluation, 1.0),
    ]


def numbers(text):
    """Return the numbers in a text in order."""
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", text)]


def board_of(evaluation, entries, greater=False):
    names = ["a", "b", "c", "d"]
    sizes = [40, 40, 40, 40]
    return Leaderboard(
        "t", evaluation.metric, greater, names, sizes, entries, evaluation, "Alone"
    )


# --- the verdict ---


@pytest.mark.parametrize(("metric", "has_rmse"), [("rmse", True), ("nmse", False)])
def test_a_gain_of_36_percent_of_the_error_is_20_percent_of_the_rmse(metric, has_rmse):
    evaluation = make_evaluation(metric=metric)
    verdict = judge(methods(evaluation, joint=0.64, spread=0.0), evaluation)
    assert verdict.decision == HELPS
    assert verdict.gain.value == pytest.approx(0.36)
    assert ("20% of the RMSE" in verdict.brief[0]) == has_rmse
    assert "RMSE" not in verdict.sentence


def test_the_printed_statistics_are_those_of_the_gain():
    evaluation = make_evaluation()
    verdict = judge(methods(evaluation), evaluation)
    lines = [text for text in verdict.details if "G = " in text]
    gains = [verdict.versus_separate, verdict.versus_pooled, verdict.gain]
    for line, gain in zip(lines, gains, strict=True):
        described = line.partition("G = ")[2].partition("(")[0]
        value, low, high = (round(v, 3) for v in (gain.value, gain.low, gain.high))
        expected = [value, low, high]
        assert numbers(described)[:3] == pytest.approx(expected)
    assert f"df = {N - N_TASKS}" in lines[0]
    assert "5-fold x2" in lines[-1]
    assert "row-level" in lines[-1]
    assert "c = 1.41" in lines[-1]
    # Two upper bounds share 5%.
    assert "2.5%" in lines[-1]


def test_a_verdict_on_one_of_two_repeats_counts_the_splits_of_that_repeat():
    evaluation = make_evaluation(n_train=[128] * 5 + [64] * 5)
    entries = methods(evaluation)
    lasso = method("Lasso", INDEPENDENT, 3 + NOISE[0], evaluation, inner=9.0)
    for split in (0, 7):
        del lasso.losses[split]
        lasso.failures[split] = "ValueError: broken"
    both = " ".join(judge([*entries, lasso], evaluation).details)
    for split in range(5, 10):
        del entries[2].losses[split]
    first = " ".join(judge([*entries, lasso], evaluation).details)
    # 320 rows are tested by models of 5 * 128 + 5 * 64 rows, 160 by those of 5 * 128.
    assert "5-fold x2" in both
    assert f"c = {math.sqrt(1 + 4 * 320 / 960):.3g}" in both
    assert "in 2 of 10" in both
    assert "5-fold x1" in first
    assert f"c = {math.sqrt(2):.3g}" in first
    assert "in 1 of 5" in first


@pytest.mark.parametrize("n_repeats", [1, 2, 3])
def test_the_p_value_is_that_of_the_corrected_t_test(n_repeats):
    evaluation = make_evaluation(n_repeats)
    result = judge(methods(evaluation), evaluation).versus_separate
    joint = methods(evaluation)[2].losses
    alone = methods(evaluation)[0].losses
    first = np.zeros(N)
    second = np.zeros(N)
    for split, rows in enumerate(evaluation.rows):
        first[rows] += joint[split] / n_repeats
        second[rows] += alone[split] / n_repeats
    means = [np.mean([x[t == IDS].mean() for t in range(4)]) for x in (first, second)]
    ratio = means[0] / means[1]
    variance = 0.0
    for task in range(N_TASKS):
        mine = task == IDS
        part = (ratio * second[mine] - first[mine]) / (means[1] * N_TASKS * mine.sum())
        variance += mine.sum() * part.var(ddof=1)
    statistic = (1 - ratio) / math.sqrt(2 * variance)
    expected = 2 * student.sf(abs(statistic), N - N_TASKS)
    assert result.value / result.error == pytest.approx(statistic)
    assert result.pvalue == pytest.approx(expected)
    assert result.one_sided_pvalue == pytest.approx(expected / 2)
    assert (result.first, result.second) == pytest.approx(means)


def test_the_printed_probabilities_refer_to_the_smallest_gain():
    evaluation = make_evaluation(smallest=0.15)
    verdict = judge(methods(evaluation, joint=0.85), evaluation)
    gain = verdict.versus_separate
    scaled = student(gain.df, gain.value, gain.error)
    above = scaled.sf(0.15)
    below = scaled.cdf(-0.15)
    line, _ = [text for text in verdict.details if "chance" in text]
    # No chance is printed as certain.
    assert 100 * below < 1
    assert numbers(line) == pytest.approx([100 * above, 15, 1, 15], abs=0.51)
    assert 10 < 100 * above < 90


def test_the_sentence_has_the_gains_over_both_alternatives_with_their_intervals():
    evaluation = make_evaluation()
    verdict = judge(methods(evaluation), evaluation)
    expected = []
    for gain in (verdict.versus_separate, verdict.versus_pooled):
        expected += [100 * gain.value, 100 * gain.low, 100 * gain.high]
    assert numbers(verdict.sentence) == pytest.approx(expected, abs=0.51)
    assert verdict.versus_separate.value != pytest.approx(verdict.versus_pooled.value)
    assert f"p = {verdict.gain.pvalue:.2g}" in verdict.brief[0]


def test_tasks_count_as_better_if_they_gain_over_both_alternatives():
    evaluation = make_evaluation()
    entries = methods(evaluation)
    hurt = IDS == 2
    for split, rows in enumerate(evaluation.rows):
        entries[2].losses[split] = np.where(
            hurt[rows], 2 * entries[0].losses[split], entries[2].losses[split]
        )
    verdict = judge(entries, evaluation)
    assert "in 3 of 4 tasks" in verdict.brief[0]
    assert verdict.gain.better == (3, 4)


def test_a_loss_is_printed_from_smaller_to_larger():
    evaluation = make_evaluation()
    verdict = judge(methods(evaluation, joint=1.1), evaluation)
    amount, low, high = numbers(verdict.sentence.partition(":")[2])[:3]
    assert low < amount < high
    gain = verdict.gain
    expected = [-100 * gain.value, -100 * gain.high, -100 * gain.low]
    assert [amount, low, high] == pytest.approx(expected, abs=0.51)


def test_a_gain_above_the_smallest_gain_of_interest_matters():
    assert decide(-0.021, 0.015, 0.01, 0.02) == CANNOT_TELL
    assert decide(0.001, 0.015, 0.01, 0.02) == HELPS
    assert decide(0.001, 0.009, 0.01, 0.02) == NO_DIFFERENCE


def test_rows_of_all_repeats_are_counted_once():
    evaluation = make_evaluation()
    assert evaluation.n_rows == N
    loud = methods(evaluation, joint=0.95, spread=5.0)
    verdict = judge(loud, evaluation)
    assert verdict.decision == CANNOT_TELL
    assert f"({N} rows)" in verdict.sentence


def test_losses_are_means_over_the_repeats():
    evaluation = make_evaluation()
    entries = methods(evaluation)
    second_repeat = range(N_FOLDS, 2 * N_FOLDS)
    for split in second_repeat:
        entries[2].losses[split] = 3 * entries[2].losses[split]
    gain = judge(entries, evaluation).gain
    once = judge(methods(make_evaluation(1)), make_evaluation(1)).gain
    assert gain.first == pytest.approx(2 * once.first)
    assert gain.second == pytest.approx(once.second)


@pytest.mark.parametrize(("n_units", "has_verdict"), [(19, False), (20, True)])
def test_a_verdict_needs_twenty_groups(n_units, has_verdict):
    evaluation = make_evaluation(units=np.arange(N) % n_units)
    verdict = judge(methods(evaluation), evaluation)
    assert (verdict.decision != NO_VERDICT) == has_verdict


def test_half_of_the_tasks_must_be_comparable():
    evaluation = make_evaluation()
    for n_lost, has_verdict in ((2, True), (3, False)):
        entries = methods(evaluation)
        for entry in entries:
            for split, rows in enumerate(evaluation.rows):
                is_lost = IDS[rows] < n_lost
                entry.losses[split] = np.where(is_lost, np.nan, entry.losses[split])
        assert (judge(entries, evaluation).decision != NO_VERDICT) == has_verdict


def test_a_forest_that_beats_only_one_alternative_is_not_named():
    evaluation = make_evaluation()
    entries = methods(evaluation, joint=1.2, spread=0.0)
    forest = method("Forest", NATIVE, 1.1 * (1 + NOISE[0]), evaluation)
    assert "Forest" not in judge([*entries, forest], evaluation).sentence
    forest = method("Forest", NATIVE, 0.9 * (1 + NOISE[0]), evaluation)
    sentence = judge([*entries, forest], evaluation).sentence
    assert "Forest beats all of these by at least 10%" in sentence


def test_a_forest_that_is_better_by_chance_does_not_beat_the_strategies():
    evaluation = make_evaluation()
    entries = methods(evaluation, joint=1.2, spread=0.0)
    noise = np.random.default_rng(0).normal(size=N)
    noise -= noise.mean()
    forest = method("Forest", NATIVE, 0.9 * (1 + NOISE[0]) + 5 * noise, evaluation)
    sentence = judge([*entries, forest], evaluation).sentence
    assert "chance" in sentence
    assert "Forest beats" not in sentence


@pytest.mark.parametrize(("mean", "is_beaten"), [(1.3, True), (0.8, False)])
def test_the_verdict_says_when_no_strategy_beats_the_mean_of_each_task(mean, is_beaten):
    evaluation = make_evaluation()
    entries = methods(evaluation, joint=0.9, spread=0.0)
    trivial = method("TaskMean", TRIVIAL, mean * (1 + NOISE[0]), evaluation)
    sentence = judge([*entries, trivial], evaluation).sentence
    assert ("TaskMean" not in sentence) == is_beaten


def test_many_tasks_with_few_rows_cause_a_remark():
    ids = np.arange(800) % 100
    for n, is_remarked in ((800, True), (1000, False)):
        ids = np.arange(n) % 100
        folds = [np.flatnonzero(np.arange(n) // 100 % 4 == k) for k in range(4)]
        evaluation = Evaluation(
            y=np.zeros(n),
            row_index=RowIndex(100, ids),
            rows=folds,
            new=[np.zeros(len(part), dtype=bool) for part in folds],
            n_folds=4,
            n_repeats=1,
            measure=NMSE,
            smallest=0.01,
        )
        entries = []
        for index, family in enumerate((INDEPENDENT, POOLED, MULTITASK)):
            entry = ComparedMethod(family, family)
            losses = np.random.default_rng(index).gamma(2.0, size=n)
            entry.losses = {s: losses[rows] for s, rows in enumerate(folds)}
            entry.inner = dict.fromkeys(range(4), 1.0)
            entries.append(entry)
        details = judge(entries, evaluation).details
        assert any("too narrow" in line for line in details) == is_remarked


# --- the leaderboard ---


def test_the_leaderboard_has_means_standard_deviations_gains_and_seconds():
    evaluation = make_evaluation()
    board = board_of(evaluation, methods(evaluation, joint=0.97, spread=1.0))
    grid = leaderboard_grid(board)
    names = [column.name for column in grid.columns]
    rows = {row[1]: dict(zip(names, row, strict=True)) for row in grid.rows}
    for entry in board.entries:
        row = rows[entry.label]
        scores = list(entry.scores.values())
        assert row["rmse"] == pytest.approx(np.mean(scores))
        assert row["std"] == pytest.approx(statistics.stdev(scores))
        assert row["splits"] == 10
        assert row["seconds"] == pytest.approx(5.5)
    gain = evaluation.gain(board.entries[2].losses, board.entries[0].losses, 2)
    joint = rows["Joint"]
    numbers_of_gain = [joint[name] for name in ("gain", "low", "high")]
    assert numbers_of_gain == pytest.approx([gain.value, gain.low, gain.high])
    # Far from the tolerance of a comparison.
    assert gain.pvalue > 1e-6
    assert joint["p (exploratory)"] == pytest.approx(gain.pvalue)
    assert joint["better in"] == f"{gain.better[0]} of {gain.better[1]}"
    assert rows["Alone"]["better in"] == "reference"
    assert [rows[name]["rank"] for name in ("Joint", "Alone", "One")] == [1, 2, 3]


def test_the_table_of_tasks_has_means_over_the_splits():
    evaluation = make_evaluation()
    board = board_of(evaluation, methods(evaluation))
    grid = task_grid(board)
    best = board.ranked()[0]
    by_hand = np.mean(list(best.tasks.values()), axis=0)
    assert [row[2] for row in grid.rows] == pytest.approx(by_hand.tolist())
    assert [row[:2] for row in grid.rows] == [[n, 40] for n in "abcd"]


def gain_error(gain):
    """Return the standard error of a gain over one alternative, or of the closest."""
    if isinstance(gain, Gain):
        return gain.error
    return gain.gains[gain.closest].error


def test_the_json_file_has_the_numbers_of_the_gains():
    evaluation = make_evaluation()
    board = board_of(evaluation, methods(evaluation, joint=0.97, spread=1.0))
    content = json.loads(leaderboard_json(board))
    stated = content["answer"]
    for name, gain in (
        ("gain", board.answer.gain),
        ("over_independent", board.answer.versus_separate),
        ("over_pooled", board.answer.versus_pooled),
    ):
        for key in ("value", "low", "high", "df", "first", "second"):
            assert stated[name][key] == pytest.approx(getattr(gain, key), rel=1e-4)
        one_sided = student.sf(gain.value / gain_error(gain), gain.df)
        assert stated[name]["pvalue"] == pytest.approx(one_sided, rel=1e-4)
        assert (stated[name]["better"], stated[name]["of"]) == gain.better
    assert stated["over_pooled"]["value"] != pytest.approx(stated["gain"]["value"])
    assert (content["splits"], content["folds"], content["repeats"]) == (10, 5, 2)
    assert stated["smallest_gain"] == evaluation.smallest
    joint = next(m for m in content["methods"] if m["method"] == "Joint")
    deviation = statistics.stdev(board.entries[2].scores.values())
    assert joint["std"] == pytest.approx(deviation, rel=1e-4)
    assert joint["seconds"] == pytest.approx(board.entries[2].seconds)
    assert joint["fit_seconds"] == pytest.approx(board.entries[2].fit_seconds)


@pytest.mark.parametrize("greater", [False, True])
def test_tasks_that_lose_are_listed_with_their_loss_and_whether_it_occurs_in_every_split(
    greater,
):
    evaluation = make_evaluation()
    alone = ComparedMethod("Alone", INDEPENDENT)
    joint = ComparedMethod("Joint", MULTITASK)
    sign = -1 if greater else 1
    for split in range(4):
        alone.tasks[split] = [1.0, 1.0, 1.0, 1.0]
        joint.tasks[split] = [
            1.0 + sign * 0.3,
            1.0 - sign * 0.5,
            1.0 + sign * (0.5 if split else -0.1),
            1.0,
        ]
        for entry in (alone, joint):
            entry.scores[split] = float(np.mean(entry.tasks[split]))
            entry.losses[split] = np.ones(len(evaluation.rows[split]))
    board = board_of(evaluation, [alone, joint], greater)
    losing_tasks = board.hurt(joint)
    assert [name for name, _, _ in losing_tasks] == ["c", "a"]
    assert [loss for _, loss, _ in losing_tasks] == pytest.approx([0.35, 0.3])
    assert [is_every_split for _, _, is_every_split in losing_tasks] == [False, True]


def test_parameters_of_all_splits_are_listed_once():
    evaluation = make_evaluation()
    entries = methods(evaluation)
    chosen = {0: {"estimator__alpha": 1.0}, 1: {"estimator__alpha": 3.0}}
    entries[2].chosen = chosen | {2: {"estimator__alpha": 1.0}}
    (section,) = [
        s for s in sections(board_of(evaluation, entries)) if s.title == "Parameters"
    ]
    rows = {row[0]: row[1] for row in section.grids[0].rows}
    assert rows["Joint"] == "alpha=1.0; alpha=3.0"


# --- the gain curve ---


def test_the_curve_has_losses_of_both_sides_and_the_median_rows_per_task():
    ids = np.repeat([0, 1, 2], [4, 10, 40])
    data = Dataset(
        X=np.zeros((54, 1)), y=np.zeros(54), task_type="regression", task_id=ids
    )
    gain = Gain(0.2, 0.01, 30, 40, 0.8, 1.0, np.full(3, 0.2))
    verdict = ComparisonVerdict(HELPS, "", "", versus_separate=gain)
    rows = {0.5: np.arange(54), 0.1: np.arange(0, 54, 2)}
    curve = curve_of({0.5: verdict, 0.1: verdict}, data, rows.get)
    assert curve["rows per task"].tolist() == [5, 10]
    row = curve.iloc[-1]
    # One alternative: both bounds at one-sided 5%.
    width = student.ppf(0.95, 30) * 0.01
    assert row["rows per task"] == 10
    assert (row["multi-task"], row["best alternative"], row["gain"]) == (0.8, 1.0, 0.2)
    assert (row["low"], row["high"]) == pytest.approx((0.2 - width, 0.2 + width))
    shared = Dataset(
        X=np.zeros((6, 1)),
        y=np.where(np.arange(18).reshape(6, 3) < 4, np.nan, 1.0),
        task_type="regression",
    )
    assert rows_per_task(shared, np.arange(6)) == 5


# --- numbers from the records ---


def schedule_of(metric, selection, seconds, computed=()):
    """Return the schedule of a method after the record of its first split."""
    greater = metric == "auc"
    y = np.where(Y > 0, 1.0, -1.0) if greater else Y
    measure = AUC if greater else NMSE
    evaluation = make_evaluation(1, measure, metric, y)
    candidate = Candidate("M", MULTITASK, "x")
    cells = {("M", 0): SimpleNamespace(key="k")}
    scores = np.zeros(len(evaluation.rows[0]))
    store = SimpleNamespace(read_scores=lambda _: scores)
    runner = SimpleNamespace(finished=None, store=store, computed=computed)
    schedule = CompareSchedule([candidate], cells, runner, evaluation)
    record = Record("k", "fit", {}, {}, {})
    record.status = "ok"
    record.metrics = {metric: 0.5}
    record.per_task = {metric: [0.5] * N_TASKS}
    record.selection = SearchResult(**selection)
    record.seconds = Seconds(**seconds)
    runner.on_finished(record)
    return schedule


def scheduled(metric, selection, seconds):
    """Return the metadata of a method after the record of its first split."""
    return schedule_of(metric, selection, seconds).entries["M"]


@pytest.mark.parametrize(("metric", "sign"), [("rmse", 1), ("auc", -1)])
def test_seconds_of_a_method_include_its_search_and_inner_scores_are_losses(
    metric, sign
):
    selection = {"score": 0.4, "means": [0.3, None, 0.4], "chosen": {"alpha": 2.0}}
    seconds = {"total": 3.0, "search": 40.0, "fit": 2.0}
    entry = scheduled(metric, selection, seconds)
    assert entry.seconds == [43.0]
    assert entry.fit_seconds == [2.0]
    assert entry.inner == {0: sign * 0.4}
    assert entry.grid_losses == {0: [sign * 0.3, None, sign * 0.4]}
    assert entry.chosen == {0: {"alpha": 2.0}}


def test_scores_of_the_inner_folds_are_those_of_the_selected_parameters():
    scores = [[0.3, 0.5], [0.1, 0.2], None]
    means = [0.4, 0.15, None]
    selection = {"score": 0.15, "means": means, "scores": scores, "chosen": {}}
    entry = scheduled("rmse", selection, {"total": 1.0, "fit": 1.0})
    assert entry.fold_losses == {0: [0.1, 0.2]}


@pytest.mark.parametrize(("computed", "expected"), [(["k"], 43.0), ([], 0.0)])
def test_worked_seconds_include_only_the_searches_of_this_run(computed, expected):
    seconds = {"total": 3.0, "search": 40.0, "fit": 2.0}
    schedule = schedule_of("rmse", {}, seconds, computed)
    assert schedule.worked == expected


def test_seconds_of_a_search_are_summed_over_its_folds(tmp_path):
    frame = table()
    options = {"methods": ["GraphMTL"], "splits": 2, "repeats": 1, "folds": 2}
    result = mtlrun.compare(frame, target="y", task="task", output=tmp_path, **options)
    cells = tmp_path / "cells"
    records = {}
    for path in cells.glob("*.json"):
        record = Record.from_line(path.read_text())
        records[record.key] = record
    (entry,) = [e for e in result.board.entries if e.label == "GraphMTL"]
    keys = [c["key"] for c in result.cells["cells"] if c["method"] == "GraphMTL"]
    for split, key in enumerate(keys):
        fit = records[key]
        folds = [records[k].seconds.total for k in fit.inputs["search"]["keys"]]
        assert len(folds) == 2
        expected = fit.seconds.total + math.fsum(folds)
        assert entry.seconds[split] == pytest.approx(expected)


def test_searches_with_halving_are_expected_to_be_shorter():
    data = Dataset(X=np.zeros((40, 2)), y=np.zeros(40), task_type="regression")
    grid = {"alpha": [1, 2, 3, 4]}
    unhalved = Candidate("PooledRidge", POOLED, "x", grid=grid)
    halved = Candidate("PooledRidge", POOLED, "x", grid=grid, halving=True)
    data.task_id = np.arange(40) % 2
    seconds = [
        usual_seconds([c], data, 3, 0.8)["PooledRidge"] for c in (unhalved, halved)
    ]
    assert seconds[0] / seconds[1] == pytest.approx((3 * 4 + 1) / (4 + 2 + 1 + 1))


def test_a_final_model_must_fit_into_the_remaining_budget(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    entry = ComparedMethod("M", MULTITASK, scores={0: 1.0}, fit_seconds=[1.0, 10.0])
    for is_calibrated, fits in ((False, 3), (True, 12)):
        session = SimpleNamespace(
            options=CompareOptions(calibrate=is_calibrated),
            protocol=SimpleNamespace(train_share=1.0),
        )
        first = partial(compare_module._Session._first_in_budget, session, [entry])
        assert first(100.0 + fits * 10.0) is entry
        assert first(100.0 + fits * 10.0 - 0.1) is None
        assert first(None) is entry
        # Fits to a fifth of the rows: a fit to all takes five times as long.
        session.protocol.train_share = 0.2
        assert first(100.0 + 4.9 * fits * 10.0) is None
        assert first(100.0 + 5 * fits * 10.0) is entry


# --- the protocol ---


def table(n_rows=24):
    rng = np.random.default_rng(1)
    n = 3 * n_rows
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    frame["task"] = np.repeat(["r", "s", "t"], n_rows)
    frame["y"] = frame.a + rng.normal(size=n)
    return frame


def ragged(n=60, **more):
    rng = np.random.default_rng(2)
    return Dataset(
        X=rng.normal(size=(n, 2)),
        y=rng.normal(size=n),
        task_type="regression",
        task_id=np.arange(n) % 3,
        tasks=["r", "s", "t"],
        features=["a", "b"],
        **more,
    )


def test_the_training_fraction_is_that_of_the_folds():
    data = ragged()
    protocol = Protocol.of(data, CompareOptions(splits=4, repeats=3))
    assert protocol.train == 0.75
    for split in range(protocol.n_splits):
        train, test = protocol.rows(data, split)
        assert (len(train), len(test)) == (45, 15)
    evaluation = protocol.evaluation(data)
    assert (evaluation.n_folds, evaluation.n_repeats, len(evaluation.rows)) == (
        4,
        3,
        12,
    )


@pytest.mark.parametrize(
    ("kind", "option", "expected"),
    [
        ("regression", None, 0.01),
        ("binary", None, 0.005),
        ("binary", 0.03, 0.03),
        ("regression", 0.0, 0.0),
    ],
)
def test_the_smallest_gain_of_interest_depends_on_the_metric(kind, option, expected):
    data = ragged()
    if kind == "binary":
        data.y = np.where(data.y > 0, 1.0, -1.0)
        data.task_type = "binary"
    protocol = Protocol.of(data, CompareOptions(smallest_gain=option))
    assert protocol.evaluation(data).smallest == expected


def test_tasks_without_training_rows_or_with_a_single_class_there_do_not_count():
    data = ragged(
        source={GROUP: np.where(np.arange(60) % 3 == 2, 9, np.arange(60) % 6)}
    )
    evaluation = Protocol.of(data, CompareOptions(splits=4, repeats=1)).evaluation(data)
    # All rows of task 2 are in one group: it is never tested, and no fold is lost.
    assert len(evaluation.rows) == 4
    for rows in evaluation.rows:
        assert rows.size
        assert 2 not in data.task_id[rows]
    label_data = ragged()
    label_data.y = np.where(
        np.arange(60) < 40, np.where(label_data.y > 0, 1.0, -1.0), 1.0
    )
    label_data.y[label_data.task_id == 1] = 1.0
    label_data.y[1] = -1.0
    label_data.task_type = "binary"
    protocol = Protocol.of(label_data, CompareOptions(splits=4, repeats=1))
    evaluation = protocol.evaluation(label_data)
    for split, is_single_class in enumerate(evaluation.is_single_class):
        train, test = protocol.rows(label_data, split)
        values = [
            np.unique(label_data.y[train[label_data.task_id[train] == t]])
            for t in range(3)
        ]
        assert is_single_class.tolist() == [len(v) == 1 for v in values]
        assert is_single_class[1] == (1 in test)
        losses = evaluation.losses(split, np.zeros(len(test)))
        is_counted = ~is_single_class[label_data.task_id[test]]
        np.testing.assert_array_equal(~np.isnan(losses), is_counted)


def test_sizes_count_the_targets_of_each_task():
    assert sizes_of(ragged()) == [20, 20, 20]
    y = np.ones((10, 3))
    y[:4, 1] = np.nan
    assert sizes_of(Dataset(X=np.zeros((10, 1)), y=y, task_type="regression")) == [
        10,
        6,
        10,
    ]


def test_strengths_refer_to_the_training_rows_of_a_task():
    data = ragged(90)
    grids = {}
    for train in (0.4, 0.8):
        by_label = {c.label: c for c in default_candidates(data, train)}
        grids[train] = by_label["IndependentRidge"].grid["estimator__alpha"]
    ratios = np.array(grids[0.8]) / np.array(grids[0.4])
    np.testing.assert_allclose(ratios, 2.0)
    by_hand = np.array(grids[0.8]) / (0.8 * 90 / 3)
    np.testing.assert_allclose(np.log10(by_hand), np.round(np.log10(by_hand)))


def test_the_metadata_have_the_sizes_of_the_table():
    data = ragged(title="grades.csv")
    protocol = Protocol.of(data, CompareOptions(splits=4, repeats=3, folds=6))
    facts = facts_of(data, protocol, Roles(targets=("y",), task="task"), [])
    assert numbers(facts[0].partition(":")[2])[:4] == [60, 2, 3, 20]
    assert any(numbers(fact)[:1] == [6] and "chosen" in fact for fact in facts)
    assert any(numbers(fact) == [-4, 3] or numbers(fact) == [4, 3] for fact in facts)


@pytest.mark.parametrize("metric", ["nmse", "nmse_all", "r2"])
def test_variances_of_tasks_with_few_rows_are_shrunken_in_scores(metric):
    options = CompareOptions(metric=metric)
    assert Protocol.of(ragged(), options).metric.endswith("_shrunken")
    shared = replace(ragged(), y=np.ones((60, 2)), task_id=None, tasks=["r", "s"])
    assert Protocol.of(shared, options).metric == metric


@pytest.mark.parametrize(("metric", "greater"), [("rmse", False), ("r2", True)])
def test_metrics_of_squared_errors_rank_by_the_gain(metric, greater):
    evaluation = make_evaluation(1, metric=metric)
    low, high = np.full(N, 0.5), np.full(N, 0.8)
    better = method("Better", POOLED, low, evaluation)
    alone = method("Alone", INDEPENDENT, high, evaluation)
    # The scores disagree with the gain, as those of a task in other units do.
    better.scores = dict.fromkeys(better.losses, 0.1 if greater else 0.9)
    alone.scores = dict.fromkeys(alone.losses, 0.9 if greater else 0.1)
    board = board_of(evaluation, [alone, better], greater)
    assert board.best().label == "Better"


@pytest.mark.parametrize(("greater", "first"), [(True, "High"), (False, "Low")])
def test_the_best_method_has_the_best_score_of_the_metric(greater, first):
    evaluation = make_evaluation(1)
    low = ComparedMethod("Low", POOLED, scores={0: 0.1})
    high = ComparedMethod("High", POOLED, scores={0: 0.9})
    board = board_of(evaluation, [low, high], greater)
    assert board.best().label == first


def test_a_method_without_a_second_repeat_is_compared_on_the_first():
    evaluation = make_evaluation()
    entries = methods(evaluation)
    for split in range(5, 10):
        del entries[2].losses[split]
    gain = board_of(evaluation, entries).gain(entries[2], entries[0])
    once = evaluation.gain(entries[2].losses, entries[0].losses, 1)
    assert (gain.value, gain.error) == (once.value, once.error)


def _words():
    evaluation = SimpleNamespace(measure=NMSE, metric="rmse")
    return VerdictText(evaluation)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-2e-5, 4e-5, "between 0.002% worse and 0.004% better"),
        (-3e-4, 0.27, "up to 27% better"),
        (-0.05, 3e-4, "up to 5% worse"),
        (1e-5, 3e-5, "0.001 to 0.003% better"),
        (-0.03, 0.09, "between 3% worse and 9% better"),
        (0.0, 0.0, "no difference"),
    ],
)
def test_a_narrow_interval_is_not_written_as_two_zeros(low, high, words):
    gain = SimpleNamespace(low=low, high=high, value=(low + high) / 2)
    assert _words().reach(gain) == words


def test_an_interval_whose_ends_round_to_the_same_number_has_more_digits():
    assert _words().span(0.319, 0.3213) == "31.9 to 32.1%"
    assert _words().span(0.32, 0.32) == "32%"


def test_a_gain_of_almost_nothing_is_about_the_same_error(lacking):
    gain = SimpleNamespace(low=1e-5, high=3e-5, value=2e-5)
    words = _words().change(gain, "separate models")
    assert lacking(words, "about the same", "as separate", "0.001 to 0.003%") == []


def test_time_passes_while_a_long_fit_runs():
    progress = BoardProgress(
        n_done=12,
        n_jobs=15,
        elapsed_seconds=60.0,
        remaining_seconds=18.4,
        running="GraphSVC",
    )
    assert "about 9 s left" in progress.later(10).text
    # The estimate is used up.
    assert "after 2 min" in progress.later(60).text
