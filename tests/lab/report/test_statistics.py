"""Average ranks and paired tests between methods."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from mtlrun.lab.report.method_results import MethodResult, method_results
from mtlrun.lab.report.run import read_run
from mtlrun.lab.report.statistics import comparison_section, paired, rank_methods
from mtlrun.show.ranking import Ranking

DC = "LADM-DC-RMTL-10%"


def result(method, seconds, scores=None, base=None, n_train=80, n_test=20):
    """Return a method with seconds and scores by split."""
    scores = scores or dict.fromkeys(seconds, 0.5)
    trials = sorted(scores)
    jobs = [
        {
            "trial": trial,
            "status": "ok",
            "seconds": seconds.get(trial),
            "auc": scores[trial],
            "tasks": {"auc": [scores[trial], scores[trial] + 0.1]},
            "counts": {"n_train": n_train, "n_test": n_test},
        }
        for trial in trials
    ]
    return MethodResult("alpha", method, jobs, base=base)


def test_a_speedup_is_computed_over_splits_that_both_methods_finished():
    base = result("Slow", {0: 10.0, 1: 20.0, 2: 1000.0, 3: 3000.0})
    fast = result("Fast", {0: 1.0, 1: 4.0, 7: 0.001, 8: 0.001}, base=base)
    assert fast.speedup == pytest.approx(15.0 / 2.5)
    assert result("Alone", {5: 1.0}, base=base).speedup is None
    assert result("No base", {0: 1.0}).speedup is None


def test_the_corrected_t_test_uses_the_ratio_of_test_to_training_rows():
    differences = np.array([0.05, 0.02, 0.07, -0.01, 0.03])
    ours = {t: 0.8 + float(d) for t, d in enumerate(differences)}
    theirs = dict.fromkeys(range(5), 0.8)
    seconds = dict.fromkeys(range(5), 1.0)
    pair = (result("A", seconds, ours), result("B", seconds, theirs))
    comparison = paired(*pair, "auc", test="corrected_t")
    variance = (1 / 5 + 20 / 80) * differences.var(ddof=1)
    statistic = differences.mean() / np.sqrt(variance)
    assert comparison.statistic == pytest.approx(statistic)
    assert comparison.pvalue == pytest.approx(2 * student.sf(statistic, 4))


def test_pairs_use_the_splits_that_both_have_and_ties_count_as_equal():
    seconds = dict.fromkeys(range(6), 1.0)
    ours = result("A", seconds, {0: 0.9, 1: 0.8, 2: 0.7, 3: 0.5})
    theirs = result("B", seconds, {1: 0.6, 2: 0.7 + 2**-12, 3: 0.6, 4: 0.1})
    # A difference as large as allowed is a tie, too.
    comparison = paired(ours, theirs, "auc", ties=0.7 + 2**-12 - 0.7)
    assert (
        comparison.n,
        comparison.wins,
        comparison.losses,
        comparison.ties,
    ) == (3, 1, 1, 1)
    assert comparison.mean_difference == pytest.approx((0.2 + 0.0 - 0.1) / 3)
    by_task = paired(ours, theirs, "auc", "task")
    means = np.mean([0.8, 0.7, 0.5]) - np.mean([0.6, 0.7 + 2**-12, 0.6])
    assert (by_task.n, by_task.wins) == (2, 2)
    assert by_task.mean_difference == pytest.approx(means)


def test_only_methods_with_worse_ranks_are_reported_as_worse():
    rng = np.random.default_rng(0)
    values = np.array([0.9, 0.5, 0.1]) + 0.01 * rng.normal(size=(20, 3))
    has_time_blocks = [f"d{k}" for k in range(20)]
    ranking = Ranking(
        "x",
        "auc",
        has_time_blocks,
        ["best", "control", "worst"],
        values.tolist(),
        True,
        "control",
    )
    assert ranking.worse == ["worst"]
    assert [test.rejected for _, test in ranking.tests] == [True, True]
    assert ranking.standard_error == pytest.approx(np.sqrt(3 * 4 / (6 * 20)))
    assert ranking.average == {"best": 1.0, "control": 2.0, "worst": 3.0}


def ranking_of(maker):
    run = read_run(maker.write())
    rows = method_results(run)
    return rank_methods(run, rows), comparison_section(run, rows)


def test_ranks_over_data_sets_match_the_definition(maker):
    ranking, _ = ranking_of(maker.fill(("alpha", "beta", "gamma")))
    assert ranking.average == {"One Norm": 3, "APG-RMTL": 2, DC: 1}
    assert ranking.label == "3 data sets"
    assert ranking.friedman.chi2 == pytest.approx(
        6.0
    )  # n (k - 1) if all rankings agree


def test_lower_is_better_for_errors(maker):
    maker.config["metrics"] = ["mse"]
    maker.fill()
    for record in maker.records.values():
        record.metrics = {"mse": record.metrics["auc"]}
    ranking, _ = ranking_of(maker)
    assert ranking.average["One Norm"] == 1


def test_a_single_data_set_is_ranked_over_its_splits(maker):
    ranking, section = ranking_of(maker.fill())
    assert ranking.label == "2 splits of alpha"
    assert "splits are optimistic" in section.lines[0]


def test_a_single_split_gives_ranks_but_no_test(maker):
    maker.trials = 1
    ranking, section = ranking_of(maker.fill())
    assert list(ranking.average.values()) == [3, 2, 1]
    assert ranking.friedman is None
    assert len(section.grids) == 1


def test_methods_without_a_value_everywhere_are_left_out(maker):
    maker.fill(("alpha", "beta"))
    for trial in range(2):
        maker.fail("beta", DC, trial)
    ranking, section = ranking_of(maker)
    assert ranking is None  # Two methods remain: nothing to rank.
    assert section.empty


def test_pairs_are_compared_with_the_baseline_by_holms_method(maker):
    maker.trials = 6
    _, section = ranking_of(maker.fill())
    grid = section.grids[1]
    by_trial = [row for row in grid.rows if row[2] == "trial"]
    assert [row[1] for row in by_trial] == ["One Norm", DC]
    for row, difference in zip(by_trial, (-0.01, 0.01), strict=True):
        assert row[3] == pytest.approx(difference)
        assert row[6] == pytest.approx(2 / 64)
        assert row[7] == pytest.approx(4 / 64)
    assert by_trial[0][4] == "0-6-0"


def test_without_a_baseline_pairs_are_compared_with_the_best_method(maker):
    maker.config["timing"] = None
    maker.trials = 6
    _, section = ranking_of(maker.fill())
    assert {row[1] for row in section.grids[1].rows} == {"One Norm", "APG-RMTL"}


def test_tasks_without_a_value_in_any_split_do_not_count(maker):
    for trial in range(2):
        maker.cell("alpha", "One Norm", trial, per_task={"auc": [0.5, None, 0.6, 0.7]})
        maker.cell(
            "alpha",
            DC,
            trial,
            per_task={"auc": [0.6, 0.9, None if trial else 0.7, 0.8]},
        )
    rows = method_results(read_run(maker.write()))
    test = paired(rows[1], rows[0], "auc", "task")
    assert (test.n, test.wins) == (3, 3)
    assert test.mean_difference == pytest.approx(0.1)


def test_unmatched_tasks_are_not_compared(maker):
    for trial in range(2):
        maker.cell("alpha", "One Norm", trial, per_task={"auc": [0.5, 0.6]})
        maker.cell("alpha", DC, trial, per_task={"auc": [0.5, 0.6, 0.7]})
    rows = method_results(read_run(maker.write()))
    assert paired(rows[1], rows[0], "auc", "task") is None
