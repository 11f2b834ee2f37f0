"""Average ranks and paired tests between methods."""

from __future__ import annotations

import pytest

from mtlrun.report.cells import method_results, read_run
from mtlrun.report.statistics import comparison_section, paired, rank_methods

DC = "LADM-DC-RMTL-10%"


def ranking_of(maker):
    run = read_run(maker.write())
    rows = method_results(run)
    return rank_methods(run, rows), comparison_section(run, rows)


def test_ranks_over_data_sets(maker):
    ranking, _ = ranking_of(maker.fill(("alpha", "beta", "gamma")))
    assert ranking.average == {"One Norm": 3, "APG-RMTL": 2, DC: 1}
    assert ranking.label == "3 data sets"
    assert ranking.friedman.chi2 == pytest.approx(
        6.0
    )  # n (k - 1) when all rankings agree


def test_lower_is_better_for_errors(maker):
    maker.config["metrics"] = ["mse"]
    maker.fill()
    for record in maker.records.values():
        record.metrics = {"mse": record.metrics["auc"]}
    ranking, _ = ranking_of(maker)
    assert ranking.average["One Norm"] == 1


def test_one_data_set_is_ranked_over_its_splits(maker):
    ranking, section = ranking_of(maker.fill())
    assert ranking.label == "2 splits of alpha"
    assert "tests over splits are optimistic" in section.lines[0]


def test_one_split_gives_ranks_but_no_test(maker):
    maker.trials = 1
    ranking, section = ranking_of(maker.fill())
    assert list(ranking.average.values()) == [3, 2, 1]
    assert ranking.friedman is None
    assert len(section.grids) == 1


def test_methods_without_a_number_everywhere_are_left_out(maker):
    maker.fill(("alpha", "beta"))
    for trial in range(2):
        maker.fail("beta", DC, trial)
    ranking, section = ranking_of(maker)
    assert ranking is None  # two methods are left: nothing to rank
    assert section.empty


def test_pairs_are_against_the_baseline_with_holm(maker):
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


def test_tasks_that_do_not_match_are_not_compared(maker):
    for trial in range(2):
        maker.cell("alpha", "One Norm", trial, per_task={"auc": [0.5, 0.6]})
        maker.cell("alpha", DC, trial, per_task={"auc": [0.5, 0.6, 0.7]})
    rows = method_results(read_run(maker.write()))
    assert paired(rows[1], rows[0], "auc", "task") is None
