"""The verdict of a comparison and its leaderboard: wording by gain, and invariances."""

import dataclasses
import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import skops.io

from mtlrun.cli.compare import show_files
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.gain import RowIndex, SmallestGain
from mtlrun.comparison.leaderboard import (
    Leaderboard,
    leaderboard_grid,
    leaderboard_json,
    markdown,
    next_steps,
    sections,
    task_grid,
)
from mtlrun.comparison.schedule import BoardProgress
from mtlrun.comparison.verdict import (
    ALTERNATIVES,
    CANNOT_TELL,
    HELPS,
    INDEPENDENT,
    MULTITASK,
    NATIVE,
    NO_DIFFERENCE,
    NO_VERDICT,
    POOLED,
    SAFE,
    TRIVIAL,
    USER_DEFINED,
    WORSE,
    Strategy,
    VerdictText,
    decide,
    judge,
)
from mtlrun.show.quantities import AUC, NMSE

N, TASKS, FOLDS = 240, 12, 5
IDS = np.arange(N) % TASKS
NOISE = np.random.default_rng(0).normal(size=N)


def make_evaluation(repeats=2, n=N, **more):
    places = np.arange(n) // TASKS  # Each fold has the same share of each task.
    folds = [
        np.random.default_rng(r).permutation(places.max() + 1)[places] % FOLDS
        for r in range(repeats)
    ]
    rows = [np.flatnonzero(fold == k) for fold in folds for k in range(FOLDS)]
    return Evaluation(
        y=NOISE[:n],
        row_index=RowIndex(TASKS, IDS[:n]),
        rows=rows,
        new=[np.zeros(len(part), dtype=bool) for part in rows],
        n_folds=FOLDS,
        n_repeats=repeats,
        measure=NMSE,
        smallest=0.01,
        **more,
    )


def entry(label, family, level, where, *, inner=None, spread=0.3, seed=0, failed=()):
    """Return a method with losses of mean `level` and mostly common variation."""
    rng = np.random.default_rng(seed)
    losses = level * (
        1 + spread * NOISE[: len(where.y)] ** 2 + 0.02 * rng.normal(size=len(where.y))
    )
    method = ComparedMethod(label, family)
    for split, rows in enumerate(where.rows):
        if split in failed:
            method.failures[split] = "ValueError: broken"
            continue
        method.losses[split] = losses[rows]
        method.inner[split] = level if inner is None else inner
        method.scores[split] = float(np.mean(losses[rows]))
        method.tasks[split] = [
            float(losses[rows][IDS[rows] == t].mean()) for t in range(TASKS)
        ]
        method.seconds.append(1.0)
    return method


def board(where, *entries):
    names = [f"t{k}" for k in range(TASKS)]
    return Leaderboard(
        "title",
        "nmse",
        False,
        names,
        [N // TASKS] * TASKS,
        list(entries),
        where,
        "Alone",
    )


WHERE = make_evaluation()


def three(level, where=WHERE, **more):
    return [
        entry("Alone", INDEPENDENT, 1.0, where),
        entry("One", POOLED, 1.5, where, seed=1),
        entry("Joint", MULTITASK, level, where, seed=2, **more),
    ]


@pytest.mark.parametrize(
    ("level", "kind", "words"),
    [
        (
            0.9,
            HELPS,
            ["reduces the error by 10%", "separate models", "one model for all"],
        ),
        (1.1, WORSE, ["does worse", "10% more error", "separate models"]),
        (0.998, NO_DIFFERENCE, ["no practical difference", "1%"]),
    ],
)
def test_the_verdict_follows_the_gain(level, kind, words, lacking):
    verdict = judge(three(level), WHERE)
    assert verdict.decision == kind
    assert not lacking(verdict.sentence, *words)
    assert verdict.gain.value == pytest.approx(1 - level, abs=0.01)
    assert verdict.versus_separate.value == verdict.gain.value
    assert verdict.versus_pooled.value == pytest.approx(1 - level / 1.5, abs=0.02)
    assert verdict.times_selected[INDEPENDENT] == {"Alone": 10}
    assert verdict.times_selected[POOLED] == {"One": 10}


def test_noise_gives_no_verdict_and_names_the_remedy():
    loud = three(0.95)
    for split, rows in enumerate(WHERE.rows):
        loud[2].losses[split] = (
            loud[2].losses[split]
            * np.exp(2 * np.random.default_rng(5).normal(size=N) - 2)[rows]
        )
    verdict = judge(loud, WHERE)
    assert verdict.decision == CANNOT_TELL
    assert "240 rows" in verdict.sentence
    assert verdict.open_alternatives == [INDEPENDENT]
    assert "More tasks" in verdict.what_decides
    assert verdict.what_decides in verdict.sentence


def test_the_decision_follows_the_bounds_in_the_order_of_the_rule():
    for low, high, decision in [
        (-0.5, -0.001, WORSE),
        (-0.005, -0.001, WORSE),
        (-0.0099, 0.0099, NO_DIFFERENCE),
        (0.001, 0.0099, NO_DIFFERENCE),
        (0.0, 0.0, NO_DIFFERENCE),
        (0.001, 0.02, HELPS),
        (0.0, 0.02, SAFE),
        (-0.0199, 0.5, SAFE),
        (-0.02, 0.5, CANNOT_TELL),
        (-0.5, 0.0099, CANNOT_TELL),
    ]:
        assert decide(low, high, smallest=0.01, margin=0.02) == decision


@pytest.mark.parametrize(
    ("margin", "decision"), [(0.0, CANNOT_TELL), (0.05, SAFE), (0.02, CANNOT_TELL)]
)
def test_a_loss_up_to_the_margin_is_safe(margin, decision):
    assert decide(-0.03, 0.2, smallest=0.01, margin=margin) == decision


@pytest.mark.parametrize(
    ("pooled_level", "decision"), [(0.8, WORSE), (0.97, HELPS), (1.5, HELPS)]
)
def test_the_gain_is_the_smaller_of_two_and_its_p_value_the_larger(
    pooled_level, decision
):
    alone, _, joint = three(0.95)
    pooled = entry("One", POOLED, pooled_level, WHERE, seed=1)
    verdict = judge([alone, pooled, joint], WHERE)
    both = [verdict.versus_separate, verdict.versus_pooled]
    for name in ("value", "low", "high"):
        expected = min(getattr(gain, name) for gain in both)
        assert getattr(verdict.gain, name) == expected
    assert verdict.gain.pvalue == max(gain.one_sided_pvalue for gain in both)
    assert verdict.decision == decision


def test_adding_an_alternative_never_increases_the_gain():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        level = rng.uniform(0.7, 1.3)
        entries = three(level, spread=1.0)
        joint = entries[2]
        gains = {}
        before = None
        for name in ("first", "second", "third"):
            other = entry(name, POOLED, rng.uniform(0.7, 1.5), WHERE, seed=seed + 9)
            gains[name] = WHERE.gain(joint.losses, other.losses, 2)
            now = SmallestGain(dict(gains))
            if before is not None:
                assert now.value <= before.value
                assert now.low <= before.low
                assert now.chance <= before.chance
                assert now.pvalue >= before.pvalue
                assert now.better[0] <= before.better[0]
            before = now


def test_the_first_method_of_a_strategy_never_increases_the_gain():
    alone, pooled, joint = three(0.95)
    single = judge([alone, joint], WHERE)
    both = judge([alone, pooled, joint], WHERE)
    better = judge([alone, entry("One", POOLED, 0.8, WHERE, seed=1), joint], WHERE)
    assert both.gain.value <= single.gain.value
    assert better.gain.value < single.gain.value
    assert better.versus_separate.value == single.versus_separate.value


@pytest.mark.parametrize("family", [INDEPENDENT, POOLED])
@pytest.mark.parametrize("level", [0.5, 0.93, 2.0])
def test_a_method_of_one_strategy_does_not_affect_the_other(family, level):
    few = three(0.9)
    before = judge(few, WHERE)
    after = judge([*few, entry("More", family, level, WHERE, seed=8)], WHERE)
    other = "versus_pooled" if family == INDEPENDENT else "versus_separate"
    for number in ("value", "low", "high", "pvalue"):
        kept_gain = getattr(getattr(after, other), number)
        assert kept_gain == getattr(getattr(before, other), number)
    kept = POOLED if family == INDEPENDENT else INDEPENDENT
    assert after.times_selected[kept] == before.times_selected[kept]


@pytest.mark.parametrize(
    ("missing", "present"), [(POOLED, INDEPENDENT), (INDEPENDENT, POOLED)]
)
def test_a_missing_alternative_is_named_and_not_judged(missing, present, lacking):
    entries = [e for e in three(0.9) if e.family != missing]
    verdict = judge(entries, WHERE)
    assert verdict.decision == HELPS
    assert list(verdict.gain.gains) == [present]
    assert not lacking(verdict.sentence, "does not cover", ALTERNATIVES[missing])
    assert "both" not in verdict.brief[0]


def test_a_missing_second_repeat_of_one_alternative_does_not_remove_it():
    alone, pooled, joint = three(0.9)
    pooled.losses = {s: losses for s, losses in pooled.losses.items() if s < FOLDS}
    verdict = judge([alone, pooled, joint], WHERE)
    assert set(verdict.gain.gains) == {INDEPENDENT, POOLED}


@pytest.mark.parametrize(
    ("level", "pooled_level", "headline"),
    [
        (0.9, 1.5, "Use Joint"),
        (1.1, 1.5, "Use separate models"),
        (0.9, 0.7, "Use one model for all tasks"),
        (0.999, 1.5, "Use separate models"),
    ],
)
def test_the_headline_gives_a_recommendation(level, pooled_level, headline):
    alone, _, joint = three(level)
    pooled = entry("One", POOLED, pooled_level, WHERE, seed=1)
    verdict = judge([alone, pooled, joint], WHERE)
    assert verdict.headline == headline


def test_a_method_that_is_never_selected_changes_nothing():
    few = three(0.9)
    for family in (MULTITASK, INDEPENDENT, POOLED):
        better_in_the_test = entry("Lucky", family, 0.5, WHERE, inner=9.0, seed=7)
        assert (
            judge([*few, better_in_the_test], WHERE).sentence
            == judge(few, WHERE).sentence
        )
    for family in (TRIVIAL, USER_DEFINED, NATIVE):
        bad = entry("Other", family, 3.0, WHERE, inner=0.0, seed=7)
        assert judge([*few, bad], WHERE).sentence == judge(few, WHERE).sentence


def test_the_p_value_of_a_pair_does_not_depend_on_the_list_of_methods():
    few, many = board(WHERE, *three(0.9)), board(WHERE, *three(0.9))
    many.entries += [
        entry(f"More{k}", MULTITASK, 0.5 + k / 10, WHERE, seed=k) for k in range(9)
    ]

    def row(made):
        return next(row for row in leaderboard_grid(made).rows if row[1] == "Joint")

    assert row(few)[3:10] == row(many)[3:10]
    assert leaderboard_grid(few).columns[8].name == "p (exploratory)"


def test_strategies_are_selected_by_inner_scores_in_each_split():
    first, second = entry("A", MULTITASK, 1.0, WHERE), entry("B", MULTITASK, 2.0, WHERE)
    first.inner = {s: float(s) for s in range(10)}
    second.inner = dict.fromkeys(range(10), 4.5)
    strategy = Strategy.of([first, second], range(10))
    assert [strategy.selected[s] for s in range(10)] == ["A"] * 5 + ["B"] * 5
    np.testing.assert_array_equal(strategy.losses[7], second.losses[7])


def test_a_forest_with_several_outputs_never_counts_as_multi_task_learning():
    forest = entry("Forest", NATIVE, 0.5, WHERE)
    verdict = judge([*three(1.1), forest], WHERE)
    assert verdict.decision == WORSE
    assert "by at least 50%" in verdict.sentence
    alone = judge([e for e in [*three(1.1), forest] if e.family != MULTITASK], WHERE)
    assert alone.decision == NO_VERDICT
    assert "No multi-task method" in alone.sentence


def test_a_pooled_model_is_recommended_if_it_is_best():
    alone, pooled, joint = three(0.9)
    pooled = entry("One", POOLED, 0.8, WHERE, seed=1)
    verdict = judge([alone, pooled, joint], WHERE)
    assert verdict.decision == WORSE
    assert verdict.headline == "Use one model for all tasks"
    assert "One model for all tasks has 20% less error" in verdict.sentence


def test_failures_are_counted_and_a_fold_without_methods_gives_no_verdict():
    alone, pooled, _ = three(0.9)
    joint, second = (
        entry(n, MULTITASK, 0.9, WHERE, seed=2, failed=f)
        for n, f in (("J", (3,)), ("K", ()))
    )
    verdict = judge([alone, pooled, joint, second], WHERE)
    assert verdict.decision == HELPS
    assert any("J failed in 1 of 10 training parts" in line for line in verdict.details)
    assert verdict.times_selected["multi-task"] == {"J": 9, "K": 1}
    assert (
        judge([alone, pooled, joint], dataclasses.replace(WHERE, n_repeats=1)).decision
        == NO_VERDICT
    )


def test_a_single_repeat_is_a_full_verdict():
    where = make_evaluation(repeats=1)
    once = judge(three(0.9, where), where)
    assert once.decision == HELPS
    assert once.headline == "Use Joint"
    twice = judge(three(0.9), WHERE)
    # The same losses, so the same standard error.
    assert once.versus_separate.error == pytest.approx(twice.versus_separate.error)


def test_an_unfinished_method_is_not_part_of_the_verdict():
    late = entry("Late", MULTITASK, 0.1, WHERE)
    late.losses.pop(9)
    verdict = judge([*three(0.9), late], WHERE)
    assert verdict.sentence == judge(three(0.9), WHERE).sentence
    assert any("unfinished: Late" in line for line in verdict.details)


def test_too_few_rows_folds_or_tasks_give_no_verdict():
    small = make_evaluation(n=15)
    assert "15 rows" in judge(three(0.9, small), small).sentence
    two = dataclasses.replace(WHERE, n_folds=2, n_repeats=5)
    assert "Two folds" in judge(three(0.9), two).sentence
    has_time_blocks = np.full(N, -1)
    for k in range(FOLDS):
        has_time_blocks[WHERE.rows[k]] = k
    when = make_evaluation(repeats=1)
    timed = dataclasses.replace(
        when, row_index=RowIndex(TASKS, IDS, has_time_blocks), has_time_blocks=True
    )
    verdict = judge(three(0.9, when), timed)
    assert (verdict.gain.units, verdict.gain.df) == (5, 4)


def test_a_test_file_is_evaluated_separately():
    rows = [np.arange(N)]
    where = dataclasses.replace(
        WHERE,
        rows=rows,
        new=[np.zeros(N, dtype=bool)],
        n_folds=1,
        n_repeats=1,
        has_test_file=True,
    )
    verdict = judge(three(0.9, where), where)
    assert verdict.decision == HELPS
    assert any("these fitted models" in line for line in verdict.details)
    assert any("c = 1;" in line for line in verdict.details)


def test_rows_of_new_tasks_do_not_count():
    new = [IDS[rows] == 3 for rows in WHERE.rows]
    where = dataclasses.replace(WHERE, new=new)
    assert np.isnan(where.losses(0, NOISE[where.rows[0]])[new[0]]).all()
    assert where.n_new == 1


def test_a_gain_of_the_auc_is_in_points():
    y = np.where(NOISE > 0, 1.0, -1.0)
    where = dataclasses.replace(WHERE, y=y, measure=AUC, smallest=0.005)
    methods = []
    for label, family, noise in (
        ("Alone", INDEPENDENT, 2.0),
        ("One", POOLED, 2.5),
        ("Joint", MULTITASK, 0.5),
    ):
        methods.append(ComparedMethod(label, family))
        for split, rows in enumerate(where.rows):
            scores = y[rows] + noise * np.random.default_rng(split).normal(
                size=len(rows)
            )
            methods[-1].losses[split] = where.losses(split, scores)
            methods[-1].inner[split] = noise
    verdict = judge(methods, where)
    assert verdict.decision == HELPS
    assert "the AUC by 0." in verdict.sentence
    assert verdict.gain.first - verdict.gain.second == pytest.approx(verdict.gain.value)


def test_the_report_has_numbers_and_sentences():
    leaderboard = board(WHERE, *three(0.9), entry("Mean", TRIVIAL, 3.0, WHERE, seed=3))
    leaderboard.sizes = list(range(TASKS, 0, -1))
    sizes = {f"t{k}": TASKS - k for k in range(TASKS)}
    assert {name: size for name, size, *_ in task_grid(leaderboard).rows} == sizes
    content = json.loads(leaderboard_json(leaderboard))
    assert {task["task"]: task["rows"] for task in content["tasks"]} == sizes
    assert content["verdict"] == leaderboard.answer.sentence
    assert content["answer"]["kind"] == HELPS
    assert content["answer"]["gain"]["low"] == pytest.approx(
        leaderboard.answer.gain.low, rel=1e-6
    )
    assert {m["method"]: m["gain"] is None for m in content["methods"]}["Alone"]
    text = markdown(leaderboard)
    assert "not corrected" in text
    assert "5-fold x2" in text
    assert leaderboard.answer.sentence in text
    assert leaderboard.hurt(leaderboard.best(MULTITASK)) == []
    assert {
        name
        for name, _, is_in_every_split in leaderboard.hurt(leaderboard.best(TRIVIAL))
        if is_in_every_split
    } == set(leaderboard.tasks)


def test_a_ranked_method_that_was_stopped_in_some_splits_is_not_called_left_out():
    leaderboard = board(WHERE, *three(0.9))
    leaderboard.left_out.append("stopped in most splits: Joint")
    titles = [section.title for section in sections(leaderboard)]
    assert "Stopped or left out" in titles
    assert "Left out" not in titles


def test_a_gain_that_is_rounded_to_zero_has_no_sign():
    methods = [
        entry("Alone", INDEPENDENT, 1.0, WHERE),
        entry("One", POOLED, 1.5, WHERE, seed=1),
        entry("Joint", MULTITASK, 1.00001, WHERE),
    ]
    verdict = judge(methods, WHERE)
    assert -1e-4 < verdict.gain.value < 0
    text = " ".join([verdict.sentence, *verdict.details])
    assert not re.search(r"-0\.?0*(?![\d.])", text)
    # Neither more nor less error: "0% more" would say nothing.
    assert "about the same error as separate models (0% worse)" in text


def test_gains_from_ten_percent_on_have_no_decimals():
    text = VerdictText(WHERE)
    assert (text.size(0.0994), text.size(0.0996)) == ("9.9%", "10%")


def test_without_a_multi_task_method_the_next_step_is_to_name_one():
    leaderboard = board(WHERE, *three(0.9)[:2])
    (text,) = next_steps(leaderboard)
    assert "--methods" in text
    assert "Alone" in text
    assert "--methods" not in " ".join(next_steps(board(WHERE, *three(0.9))))


def test_a_best_method_that_was_not_selected_is_explained(tmp_path, capsys):
    # "Late" has the least error on the test rows, but not by inner cross-validation.
    late = entry("Late", MULTITASK, 0.85, WHERE, inner=0.95, seed=3)
    leaderboard = board(WHERE, *three(0.9), late)
    assert leaderboard.answer.headline == "Use Joint"
    (text,) = next_steps(leaderboard)
    assert text.startswith("Joint was selected most often")
    # The model is read for the types that its user must trust.
    (tmp_path / "model").mkdir()
    skops.io.dump({}, tmp_path / "model/model.skops")
    show_files(
        SimpleNamespace(board=leaderboard, saved="Late"), tmp_path, explain=False
    )
    assert "Joint was selected most often" in capsys.readouterr().out
    assert "Late has the best score of the multi-task methods" in text
    selected = board(WHERE, *three(0.9))
    assert next_steps(selected)[0].startswith("Joint has the best score")
    # A multi-task model may be saved where the verdict advises separate models.
    for saved, is_named in [("Joint", True), ("Alone", False)]:
        harmful = SimpleNamespace(board=board(WHERE, *three(1.1)), saved=saved)
        show_files(harmful, tmp_path, explain=False)
        assert ("Alone has the best score" in capsys.readouterr().out) == is_named


def test_failed_methods_come_last_without_a_rank():
    failed = ComparedMethod(
        "Broken", MULTITASK, failures=dict.fromkeys(range(10), "ValueError: broken")
    )
    leaderboard = board(WHERE, entry("Mean", TRIVIAL, 3.0, WHERE), failed)
    assert [row[:2] for row in leaderboard_grid(leaderboard).rows] == [
        [1, "Mean"],
        [None, "Broken"],
    ]
    assert leaderboard_grid(leaderboard).rows[1][9] == "failed"
    assert "Every multi-task method failed" in leaderboard.answer.sentence
    assert leaderboard.reference is None


def test_rounding_errors_are_ties():
    alone, joint = (
        entry("Alone", INDEPENDENT, 1.0, WHERE),
        entry("Joint", MULTITASK, 1.0, WHERE),
    )
    joint.scores = {s: value * (1 + 1e-13) for s, value in alone.scores.items()}
    joint.tasks = {
        s: [v * (1 + 1e-13) for v in values] for s, values in alone.tasks.items()
    }
    leaderboard = board(WHERE, alone, joint)
    assert [row[0] for row in leaderboard_grid(leaderboard).rows] == [1, 1]
    assert leaderboard.hurt(joint) == []
    assert math.isclose(leaderboard.answer.gain.pvalue, 0.5)


def with_folds(method, *fold_losses):
    method.fold_losses = {split: list(fold_losses) for split in range(10)}
    method.inner = dict.fromkeys(range(10), float(np.mean(fold_losses)))
    return method


@pytest.mark.parametrize(
    ("complex_losses", "selected"),
    [
        # Better by 0.02 in each fold, with hardly any variation of the difference.
        ([0.98, 1.98, 2.98, 3.98, 4.97], "Complex"),
        # Better by 0.02 on average, but only by chance.
        ([0.5, 2.4, 2.6, 4.5, 4.9], "Simple"),
        ([1.1, 2.1, 3.1, 4.1, 5.1], "Simple"),
        # Mean .02, standard deviation .03: standard error .013.
        ([0.95, 1.95, 3.0, 4.0, 5.0], "Complex"),
    ],
)
def test_the_first_method_within_one_standard_error_is_selected(
    complex_losses, selected
):
    simple = with_folds(entry("Simple", MULTITASK, 1.0, WHERE), 1, 2, 3, 4, 5)
    other = with_folds(entry("Complex", MULTITASK, 1.0, WHERE), *complex_losses)
    assert set(Strategy.of([simple, other], range(10)).selected.values()) == {selected}
    if selected == "Complex":
        swapped = Strategy.of([other, simple], range(10))
        assert set(swapped.selected.values()) == {"Complex"}


def finished(method, splits):
    """Return a method that has finished some splits only."""
    part = ComparedMethod(method.label, method.family)
    for split in splits:
        part.losses[split] = method.losses[split]
        part.inner[split] = method.inner[split]
        part.scores[split] = method.scores[split]
        part.tasks[split] = method.tasks[split]
    part.seconds = [1.0] * len(splits)
    return part


def test_finished_folds_give_a_verdict_that_names_their_number():
    alone, pooled, joint = three(0.8)
    parts = [finished(alone, range(5)), finished(pooled, range(4))]
    answer = judge([*parts, finished(joint, range(3))], WHERE)
    assert answer.decision == HELPS
    assert "3 of 5 folds" in answer.sentence
    all_folds = judge([alone, pooled, finished(joint, range(5))], WHERE)
    assert "of 5 folds" not in all_folds.sentence


def test_folds_in_which_an_alternative_has_no_method_yet_do_not_count():
    alone, pooled, joint = three(0.8)
    parts = [finished(alone, range(4)), finished(joint, range(4))]
    answer = judge([*parts, finished(pooled, range(2))], WHERE)
    assert "2 of 5 folds" in answer.sentence
    nothing = judge([*parts, ComparedMethod("One", POOLED)], WHERE)
    assert nothing.decision == NO_VERDICT


def test_a_repeat_counts_in_a_gain_once_both_methods_have_finished_it():
    alone, _, joint = three(0.9)
    result = board(WHERE, alone, joint)
    assert (
        result.gain(joint, alone).value
        == WHERE.gain(joint.losses, alone.losses, 2).value
    )
    one_repeat = WHERE.gain(joint.losses, alone.losses, 1).value
    assert result.gain(finished(joint, range(9)), alone).value == one_repeat


def test_a_method_that_has_not_run_has_no_row():
    result = board(WHERE, *three(0.9), ComparedMethod("Later", MULTITASK))
    assert "Later" not in [row[1] for row in leaderboard_grid(result).rows]


def test_a_running_comparison_is_ordered_by_gain_whatever_the_number_of_splits():
    alone, pooled, joint = three(0.8)
    begun = finished(joint, [0])
    result = board(WHERE, pooled, alone, begun)
    running = BoardProgress(1, 3, 2.0, None, "Joint")
    unfinished = dataclasses.replace(result, progress=running)
    assert [e.label for e in unfinished.ranked()] == ["Joint", "Alone", "One"]
    assert [e.label for e in result.ranked()] == ["Joint", "Alone", "One"]
    begun.losses[1] = 9.0 * joint.losses[1]
    assert [e.label for e in unfinished.ranked()] == ["Alone", "One", "Joint"]
    # Two folds are compared, so that a method with one fold is not among the first.
    other = finished(entry("Other", MULTITASK, 0.9, WHERE), range(2))
    result = board(WHERE, pooled, alone, finished(joint, [0]), other)
    assert [e.label for e in result.ranked()] == ["Other", "Alone", "One", "Joint"]


def test_progress_tells_jobs_share_and_remaining_time():
    begun = BoardProgress(3, 60, 1.2, None, "TaskMean")
    assert begun.text == "3 of 60 fits done (5%), after 2 s, now TaskMean"
    later = BoardProgress(30, 60, 40.0, 300.0, "MTRL")
    assert later.text == "30 of 60 fits done (50%), about 5 min left, now MTRL"
    assert BoardProgress(60, 60, 40.0, 0.0, "MTRL").text == "60 of 60 fits done (100%)"
