"""Bounds that decide a verdict, and what is said where it stays open."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import mtlrun
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.gain import Gain, RowIndex, SmallestGain
from mtlrun.comparison.gallery import pictures_of
from mtlrun.comparison.leaderboard import Leaderboard, leaderboard_json
from mtlrun.comparison.options import CompareOptions
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.verdict import (
    CANNOT_TELL,
    CARRIED,
    HELPS,
    INDEPENDENT,
    MULTITASK,
    POOLED,
    SAFE,
    judge,
)
from mtlrun.data.dataset import Dataset
from mtlrun.errors import ConfigError
from mtlrun.show.quantities import AUC, NMSE

N_TASKS = 4
N_FOLDS = 5
N = 400
TASK_ID = np.arange(N) % N_TASKS
RNG = np.random.default_rng(8)
#: Losses that all methods share, and noise that one method has alone.
COMMON = RNG.gamma(2.0, size=N)
OWN_NOISE = RNG.normal(size=N)
for task in range(N_TASKS):
    OWN_NOISE[task == TASK_ID] -= OWN_NOISE[task == TASK_ID].mean()


def make_evaluation(*, shared=False, **more):
    fold_of_row = np.arange(N) // N_TASKS % N_FOLDS
    rows = [np.flatnonzero(fold_of_row == k) for k in range(N_FOLDS)]
    return Evaluation(
        y=np.ones((N, 1)) if shared else np.ones(N),
        row_index=RowIndex(1) if shared else RowIndex(N_TASKS, TASK_ID),
        rows=rows,
        new=[np.zeros(len(part), dtype=bool) for part in rows],
        n_folds=N_FOLDS,
        n_repeats=1,
        measure=NMSE,
        smallest=0.01,
        margin=0.02,
        **more,
    )


def compared(family, level, evaluation, noise=0.0):
    """Return a method of mean loss `level`, with some noise of its own."""
    losses = level * COMMON + noise * OWN_NOISE
    if evaluation.has_shared_rows:
        losses = losses[:, np.newaxis]
    method = ComparedMethod(family, family)
    for split, rows in enumerate(evaluation.rows):
        method.losses[split] = losses[rows]
        method.inner[split] = level
        method.scores[split] = float(losses[rows].mean())
        method.tasks[split] = [1.0] * evaluation.row_index.n_tasks
        method.seconds.append(1.0)
    return method


def verdict_on(separate, pooled, *, noise, last_value=None, **design):
    """Judge a multi-task method of mean loss 1 against alternatives."""
    evaluation = make_evaluation(**design)
    methods = [
        compared(INDEPENDENT, separate, evaluation),
        compared(POOLED, pooled, evaluation),
        compared(MULTITASK, 1.0, evaluation, noise),
    ]
    if last_value is not None:
        methods.append(compared(CARRIED, last_value, evaluation))
    return judge(methods, evaluation)


def gain_of(value, error, df=30):
    return Gain(value, error, df, df + 4, 1 - value, 1.0, np.full(4, value))


# --- the factor of the standard error ---


@pytest.mark.parametrize("n_folds", [3, 5, 10])
@pytest.mark.parametrize("n_repeats", [1, 3])
def test_the_factor_of_cross_validation_is_the_root_of_two(n_folds, n_repeats):
    data = table_of_groups()
    options = CompareOptions(splits=n_folds, repeats=n_repeats)
    evaluation = Protocol.of(data, options).evaluation(data)
    assert evaluation.correction(n_repeats) == pytest.approx(math.sqrt(2))


def test_the_factor_grows_where_fewer_rows_are_trained_on():
    data = table_of_groups()
    protocol = Protocol.of(data, CompareOptions(splits=5)).with_train_share(0.25)
    evaluation = protocol.evaluation(data)
    n_train = len(protocol.rows(data, 0)[0])
    # Of 20 rows of a task, 4 are tested and a quarter of the other 16 is trained on.
    assert n_train == 4 * data.n_tasks
    assert evaluation.correction(1) == pytest.approx(math.sqrt(1 + 4 * 4 / 4))


def test_the_factor_of_a_test_file_is_one():
    data = table_of_groups()
    train, test = np.arange(60), np.arange(60, 100)
    data = dataclasses.replace(data, splits={"test": [(train, test)]})
    evaluation = Protocol.of(data, CompareOptions()).evaluation(data)
    assert evaluation.correction(1) == 1


def table_of_groups():
    task_id = np.repeat(np.arange(5), 20)
    rng = np.random.default_rng(0)
    return Dataset(
        id="table",
        X=rng.normal(size=(100, 2)),
        y=rng.normal(size=100),
        task_id=task_id,
        tasks=list("abcde"),
        task_type="regression",
    )


@pytest.mark.slow
def test_the_curve_uses_the_sizes_of_its_training_parts(monkeypatch):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=240), "task": list("abcdef") * 40})
    frame["y"] = frame["x"] + 0.5 * rng.normal(size=240)
    factors = []

    def record_factor(entries, evaluation):
        factors.append(evaluation.correction(1))
        return judge(entries, evaluation)

    monkeypatch.setattr("mtlrun.comparison.compare.judge", record_factor)
    options = {"methods": "GraphMTL", "curve": True, "repeats": 1, "folds": 2}
    mtlrun.compare(frame, target="y", task="task", **options)
    # 8 rows of a task are tested, and 4, 6 and 16 of the other 32 are trained on.
    expected = [math.sqrt(1 + 4 * 8 / n_train) for n_train in (4, 6, 16)]
    assert factors == pytest.approx(expected)


# --- levels ---


def test_each_lower_bound_has_five_percent_and_the_upper_ones_share_five_percent():
    both = SmallestGain({"a": gain_of(0.10, 0.03), "b": gain_of(0.05, 0.02, df=12)})
    # Quantiles of t with 30 and 12 degrees of freedom.
    assert both.gains["a"].low == pytest.approx(0.10 - 1.6973 * 0.03, abs=1e-5)
    assert both.gains["a"].high == pytest.approx(0.10 + 2.0423 * 0.03, abs=1e-5)
    assert both.gains["b"].low == pytest.approx(0.05 - 1.7823 * 0.02, abs=1e-5)
    assert both.gains["b"].high == pytest.approx(0.05 + 2.1788 * 0.02, abs=1e-5)
    assert both.low == both.gains["b"].low
    assert both.high == both.gains["b"].high


@pytest.mark.parametrize("n_alternatives", [1, 2, 3])
def test_upper_bounds_share_their_error(n_alternatives):
    gains = {str(k): gain_of(-0.1, 0.05) for k in range(n_alternatives)}
    smallest = SmallestGain(gains)
    error = student.sf((smallest.high + 0.1) / 0.05, 30)
    assert n_alternatives * error == pytest.approx(0.05)
    assert student.cdf((smallest.low + 0.1) / 0.05, 30) == pytest.approx(0.05)


def test_a_task_counts_if_it_is_compared_with_each_alternative():
    tasks = {"a": [0.1, np.nan, 0.3, -0.1], "b": [0.2, 0.2, np.nan, 0.1]}
    gains = {
        name: dataclasses.replace(gain_of(0.1, 0.03), tasks=np.array(values))
        for name, values in tasks.items()
    }
    smallest = SmallestGain(gains)
    np.testing.assert_array_equal(smallest.tasks, [0.1, np.nan, np.nan, -0.1])
    assert smallest.better == (1, 2)
    assert smallest.n_undefined == 2


def test_targets_on_the_same_rows_have_no_chance():
    assert verdict_on(1.1, 1.2, noise=0.1).chance > 0.5
    assert verdict_on(1.1, 1.2, noise=0.1, shared=True).chance is None


def test_intervals_of_single_methods_stay_two_sided():
    gain = gain_of(0.1, 0.05)
    half = student.ppf(0.975, 30) * 0.05
    assert (gain.low, gain.high) == pytest.approx((0.1 - half, 0.1 + half))


@pytest.mark.parametrize("error", [0.02, 0.03, 0.04])
def test_the_p_value_is_below_five_percent_exactly_if_the_lower_bound_is_positive(
    error,
):
    smallest = SmallestGain({"a": gain_of(0.05, error), "b": gain_of(0.2, error)})
    assert (smallest.pvalue < 0.05) == (smallest.low > 0)


def test_the_chance_is_the_smallest_probability_of_a_gain():
    gains = {"a": gain_of(0.10, 0.05), "b": gain_of(0.01, 0.04, df=12)}
    # T(0.25) with 12 degrees of freedom.
    assert SmallestGain(gains).chance == pytest.approx(0.59659, abs=1e-5)
    assert SmallestGain({"a": gains["a"]}).chance == pytest.approx(student.cdf(2, 30))


# --- verdicts that stay open ---


def test_a_small_possible_loss_is_safe_and_the_margin_is_named():
    verdict = verdict_on(1.03, 1.2, noise=0.65)
    assert verdict.decision == SAFE
    assert -0.02 < verdict.gain.low < 0
    assert "Use multi-task" in verdict.headline
    assert "at most 2% more error" in verdict.headline
    assert "best bet" not in verdict.sentence
    assert f"at worst {100 * verdict.at_worst:.1f}% more error" in verdict.sentence


@pytest.mark.parametrize(
    ("separate", "pooled", "open_family", "data"),
    [(1.03, 2.0, INDEPENDENT, "tasks"), (2.0, 1.03, POOLED, "rows")],
)
def test_more_tasks_or_more_rows_decide(separate, pooled, open_family, data):
    verdict = verdict_on(separate, pooled, noise=1.2)
    assert verdict.decision == CANNOT_TELL
    assert verdict.open_alternatives == [open_family]
    assert verdict.what_decides.startswith(f"More {data}")
    assert verdict.what_decides in verdict.sentence


def test_groups_decide_where_rows_of_a_group_are_kept_together():
    verdict = verdict_on(2.0, 1.03, noise=1.2, unit="group")
    assert verdict.decision == CANNOT_TELL
    assert verdict.what_decides.startswith("More groups")


def test_nothing_more_is_asked_for_once_it_is_decided():
    verdict = verdict_on(1.3, 1.4, noise=0.1)
    assert verdict.decision == HELPS
    assert verdict.open_alternatives == []
    assert verdict.what_decides == ""
    assert verdict.at_worst == 0


@pytest.mark.parametrize(
    ("separate", "pooled", "best"),
    [(1.02, 1.2, MULTITASK), (0.98, 1.2, INDEPENDENT), (1.2, 0.98, POOLED)],
)
def test_the_best_bet_has_the_smallest_error(separate, pooled, best):
    verdict = verdict_on(separate, pooled, noise=1.5)
    assert verdict.decision == CANNOT_TELL
    assert verdict.best_bet == best
    names = {
        MULTITASK: "multi-task",
        INDEPENDENT: "separate models",
        POOLED: "one model for all tasks",
    }
    assert verdict.headline.endswith(f"best bet: {names[best]}")
    assert verdict.advises_multitask == (best == MULTITASK)
    assert f"best bet, with the smallest cross-validated error, is {names[best]}" in (
        verdict.sentence
    )


def test_chance_and_price_are_printed_where_rows_belong_to_tasks():
    verdict = verdict_on(1.02, 1.2, noise=1.5)
    gain = verdict.versus_separate
    expected = student.cdf(gain.value / gain.error, gain.df)
    assert verdict.chance == pytest.approx(expected)
    assert verdict.at_worst == pytest.approx(-gain.low)
    assert f"a chance of {verdict.chance:.0%}" in verdict.sentence
    assert f"at worst {100 * verdict.at_worst:.2g}% more error" in verdict.sentence


def test_no_chance_is_printed_as_certain():
    verdict = verdict_on(3.0, 3.0, noise=0.1)
    chances = [text for text in verdict.details if "chance" in text]
    assert len(chances) == 2
    assert all("99% chance" in text and " 1% of" in text for text in chances)


def test_the_other_folds_decide_where_folds_are_unfinished():
    evaluation = make_evaluation()
    methods = [
        compared(INDEPENDENT, 1.02, evaluation),
        compared(POOLED, 1.2, evaluation),
        compared(MULTITASK, 1.0, evaluation, 1.5),
    ]
    for method in methods:
        method.losses = {split: method.losses[split] for split in (0, 1)}
    verdict = judge(methods, evaluation)
    assert verdict.decision == CANNOT_TELL
    n_left = evaluation.n_folds - 2
    assert f"other {n_left} folds" in verdict.what_decides
    assert verdict.what_decides in verdict.sentence


def test_no_chance_is_printed_where_tasks_share_rows():
    verdict = verdict_on(1.02, 1.2, noise=1.5, shared=True)
    assert verdict.decision == CANNOT_TELL
    assert verdict.chance is None
    texts = [verdict.sentence, verdict.headline, *verdict.details, *verdict.brief]
    assert not any("chance" in text for text in texts)
    assert "at worst" in verdict.sentence


def test_the_price_of_the_auc_is_in_points():
    evaluation = make_evaluation()
    labels = np.where(OWN_NOISE > 0, 1.0, -1.0)
    evaluation = dataclasses.replace(
        evaluation, y=labels, measure=AUC, smallest=0.005, margin=0.0
    )
    methods = []
    for family, noise in ((INDEPENDENT, 1.1), (POOLED, 3.0), (MULTITASK, 1.0)):
        method = ComparedMethod(family, family)
        for split, rows in enumerate(evaluation.rows):
            rng = np.random.default_rng([split, len(family)])
            scores = labels[rows] + noise * rng.normal(size=len(rows))
            method.losses[split] = evaluation.losses(split, scores)
            method.inner[split] = noise
        methods.append(method)
    verdict = judge(methods, evaluation)
    assert verdict.decision == CANNOT_TELL
    assert f"at worst an AUC lower by {verdict.at_worst:.3f}" in verdict.sentence
    safe = judge(methods, dataclasses.replace(evaluation, margin=0.5))
    assert safe.decision == SAFE
    assert safe.headline.endswith("AUC at most 0.500 lower than either alternative")


def test_the_last_value_is_a_third_alternative_in_text_picture_and_file():
    verdict = verdict_on(1.3, 1.4, last_value=1.02, noise=1.2)
    assert list(verdict.gains) == [INDEPENDENT, POOLED, CARRIED]
    assert verdict.decision == CANNOT_TELL
    assert "last value" in verdict.sentence
    assert "all alternatives" in verdict.sentence
    assert verdict.gain.high == pytest.approx(
        verdict.versus_last_value.value
        + student.ppf(1 - 0.05 / 3, N - N_TASKS) * verdict.versus_last_value.error
    )


def test_the_picture_and_the_file_have_the_bounds_that_decide():
    evaluation = make_evaluation()
    methods = [
        compared(INDEPENDENT, 1.3, evaluation),
        compared(POOLED, 1.4, evaluation),
        compared(CARRIED, 1.1, evaluation),
        compared(MULTITASK, 1.0, evaluation, 0.5),
    ]
    board = Leaderboard(
        "t", "rmse", False, list("abcd"), [100] * 4, methods, evaluation, INDEPENDENT
    )
    gains = [*board.answer.gains.values(), board.answer.gain]
    expected = [(gain.value, gain.low, gain.high) for gain in gains]
    picture = pictures_of(board, None).verdict()
    drawn = [(i.value, i.low, i.high) for i in picture.intervals]
    # The smallest gain is one of the others, which is drawn in bold.
    assert drawn == expected[:-1]
    assert "last value" in picture.intervals[2].name
    answer = json.loads(leaderboard_json(board))["answer"]
    names = ("over_independent", "over_pooled", "over_last_value", "gain")
    for name, (value, low, high) in zip(names, expected, strict=True):
        numbers = answer[name]
        assert [numbers[n] for n in ("value", "low", "high")] == pytest.approx(
            [value, low, high], rel=1e-6
        )
    assert answer["gain"]["pvalue"] == pytest.approx(board.answer.gain.pvalue)
    assert answer["best_bet"] == board.answer.best_bet


# --- options ---


def test_one_repeat_is_the_default():
    data = table_of_groups()
    assert CompareOptions().repeats == 1
    assert Protocol.of(data, CompareOptions()).n_splits == 5


@pytest.mark.parametrize(
    ("metric", "margin", "expected"),
    [("rmse", None, 0.02), ("auc", None, 0.01), ("rmse", 0.05, 0.05), ("auc", 0.0, 0)],
)
def test_the_margin_depends_on_the_metric_and_is_an_option(metric, margin, expected):
    data = table_of_groups()
    if metric == "auc":
        labels = np.where(data.y > 0, 1.0, -1.0)
        data = dataclasses.replace(data, y=labels, task_type="binary")
    protocol = Protocol.of(data, CompareOptions(metric=metric, margin=margin))
    assert protocol.evaluation(data).margin == expected


@pytest.mark.parametrize("margin", [-0.1, 1.0, math.nan])
def test_an_impossible_margin_is_an_error(margin):
    with pytest.raises(ConfigError, match="--margin"):
        CompareOptions(margin=margin)
