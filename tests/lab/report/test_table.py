"""Rows of the table: means, standard deviations, medians, speedups, statuses."""

from __future__ import annotations

import pytest

from mtlrun.engine.record import Seconds
from mtlrun.errors import DataError
from mtlrun.lab.report.method_results import MethodResult, method_results
from mtlrun.lab.report.printed import mean_std, range_text, result_grid, task_note
from mtlrun.lab.report.run import MISSING, jobs_with_outcome, read_run
from mtlrun.stats import std

DC = "LADM-DC-RMTL-10%"


def rows_of(maker) -> dict[tuple[str, str], MethodResult]:
    return {(r.dataset, r.method): r for r in method_results(read_run(maker.write()))}


def test_rows_have_mean_std_median_and_speedup(maker):
    for trial, (auc, fit) in enumerate([(0.6, 9.0), (0.7, 1.0), (0.8, 2.0)]):
        maker.cell("alpha", "APG-RMTL", trial, auc=auc, fit=fit)
        maker.cell("alpha", DC, trial, auc=auc, fit=fit / 4)
    row = rows_of(maker)["alpha", DC]
    assert row.value("auc") == pytest.approx(0.7)
    assert row.std("auc") == pytest.approx(0.1)
    assert row.value("seconds") == 0.5
    assert row.speedup == 4.0
    assert (row.n, row.status) == (3, "ok")


def test_the_quantities_of_a_method_are_its_metrics_and_costs(maker):
    seconds = Seconds(fit=2.0, predict=0.5, search=9.0)
    selection = {"chosen": {"alpha": 0.1}}
    metrics = {"auc": 0.6, "trial": 7}
    maker.cell("alpha", DC, 0, seconds=seconds, selection=selection, metrics=metrics)
    assert rows_of(maker)["alpha", DC].samples == {
        "auc": {0: 0.6},
        "trial": {0: 7.0},
        "seconds": {0: 2.0},
        "seconds_predict": {0: 0.5},
        "n_iter": {0: 10.0},
        "gap": {0: 1e-5},
        "objective": {0: 3.5},
    }


def test_a_single_split_has_no_standard_deviation(maker):
    maker.cell("alpha", "APG-RMTL", 0)
    row = rows_of(maker)["alpha", "APG-RMTL"]
    assert row.std("auc") is None
    assert mean_std(row, "auc") == "0.7000"
    assert std([1.0]) is None


def test_the_standard_deviation_has_the_decimals_of_the_mean(maker):
    maker.cell("alpha", "APG-RMTL", 0, auc=0.7)
    maker.cell("alpha", "APG-RMTL", 1, auc=0.7002)
    assert mean_std(rows_of(maker)["alpha", "APG-RMTL"], "auc") == "0.7001 ± 0.0001"


def test_an_undefined_metric_is_left_out_and_counted(maker):
    maker.cell("alpha", "APG-RMTL", 0, auc=None)
    maker.cell("alpha", "APG-RMTL", 1, auc=0.9)
    row = rows_of(maker)["alpha", "APG-RMTL"]
    assert row.value("auc") == 0.9
    assert row.n == 2
    assert range_text(row.counts("one_class_train")) == "1-2"
    assert range_text(row.counts("undefined_auc")) == "1"


def test_tasks_of_a_single_class_are_reported(maker):
    run = read_run(maker.fill().write())
    rows = method_results(run)
    note = "only one class in the training part for 1-2, AUC undefined for 1 of 3 tasks in each split"
    assert task_note(run, rows) == note
    for record in maker.records.values():
        record.counts = {"n_tasks": 3, "one_class_train": 0, "undefined_auc": 0}
    run = read_run(maker.write())
    assert task_note(run, method_results(run)) is None


@pytest.mark.parametrize("status", ["failed", "timeout", "diverged"])
def test_failures_are_rows(maker, status):
    maker.fill()
    maker.fail("alpha", "One Norm", 1, status=status)
    row = rows_of(maker)["alpha", "One Norm"]
    assert (row.status, row.status_text, row.n) == (status, f"{status} 1/2", 1)


def test_a_method_that_always_failed_is_still_a_row(maker):
    maker.fill()
    for trial in range(2):
        maker.fail("alpha", "APG-RMTL", trial)
    rows = rows_of(maker)
    assert rows["alpha", "APG-RMTL"].status_text == "failed"
    assert rows["alpha", "APG-RMTL"].value("auc") is None
    assert rows["alpha", DC].speedup is None


def test_missing_jobs_make_a_row_partial_or_missing(maker):
    maker.fill()
    maker.skip("alpha", "APG-RMTL", 1)
    maker.skip("alpha", DC, 0)
    maker.skip("alpha", DC, 1)
    rows = rows_of(maker)
    assert rows["alpha", "APG-RMTL"].status_text == "partial 1/2"
    assert rows["alpha", DC].status_text == "missing"


def test_a_job_that_did_not_converge_has_a_number(maker):
    maker.fill()
    maker.cell("alpha", DC, 0, status="not_converged")
    row = rows_of(maker)["alpha", DC]
    assert (row.status_text, row.n) == ("not_converged 1/2", 2)


def test_a_speedup_uses_only_common_splits(maker):
    maker.cell("alpha", "APG-RMTL", 0, fit=8.0)
    maker.fail("alpha", "APG-RMTL", 1)
    maker.cell("alpha", DC, 0, fit=2.0)
    maker.cell("alpha", DC, 1, fit=100.0)
    assert rows_of(maker)["alpha", DC].speedup == 4.0


def test_blocks_give_parallel_seconds(maker):
    record = maker.cell("alpha", DC, 0, fit=10.0)
    record.seconds.blocks_sum, record.seconds.blocks_max = 9.0, 2.0
    run = read_run(maker.write())
    rows = method_results(run)
    assert rows[0].value("seconds_parallel") == 3.0
    assert result_grid(run, rows).columns[-1].name == "seconds_parallel_median"


def test_without_blocks_the_number_of_workers_makes_no_difference(maker):
    maker.cell("alpha", "APG-RMTL", 0, fit=8.0)
    run = read_run(maker.write())
    rows = [row for row in method_results(run) if row.n]
    assert [row.value("seconds_parallel") for row in rows] == [8.0]
    assert rows[0].by_trial("seconds_parallel") == {0: 8.0}
    assert "seconds_parallel_median" not in [
        c.name for c in result_grid(run, rows).columns
    ]


def test_the_csv_has_the_documented_columns(maker):
    run = read_run(maker.fill().write())
    names = [c.name for c in result_grid(run, method_results(run)).columns]
    assert names[:8] == [
        "dataset",
        "method",
        "auc_mean",
        "auc_std",
        "seconds_median",
        "speedup",
        "n",
        "status",
    ]


def test_rows_have_the_order_of_the_experiment(maker):
    maker.info["methods"] = [DC, "APG-RMTL", "One Norm"]
    maker.fill(("alpha",))
    assert [m for _, m in rows_of(maker)] == [DC, "APG-RMTL", "One Norm"]


def test_two_methods_may_share_a_job(maker):
    record = maker.cell("alpha", "APG-RMTL", 0)
    maker.records["alpha", "One Norm", 0] = record
    rows = rows_of(maker)
    assert (
        rows["alpha", "One Norm"].value("auc")
        == rows["alpha", "APG-RMTL"].value("auc")
        == 0.7
    )


def test_stale_files_are_ignored_and_damaged_ones_noted(maker):
    maker.fill()
    folder = maker.write()
    (maker.cells / "old.json").write_text("{}")
    victim = maker.file("alpha", "APG-RMTL", 1)
    victim.write_text(victim.read_text()[:50])
    run = read_run(folder)
    assert run.unreadable == ["alpha/APG-RMTL/trial 1"]
    assert [c.name for c in jobs_with_outcome(run, MISSING)] == [
        "alpha/APG-RMTL/trial 1"
    ]


def test_other_folders_are_rejected(tmp_path):
    with pytest.raises(DataError, match=r"no run\.json here"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("[1, 2")
    with pytest.raises(DataError, match="cannot be read"):
        read_run(tmp_path)
