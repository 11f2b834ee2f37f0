"""``mtlrun verify``: its output, files and exit codes."""

import json
from dataclasses import replace

import pytest

from mtlrun.engine.record import Record

FOLDER = "results/runs/made/table1/full"


@pytest.fixture
def finished(mtlrun, write_experiment):
    write_experiment()
    assert mtlrun("reproduce", "table.yaml").exit_code == 0


def test_a_run_that_agrees_exits_with_0_and_its_report_says_so(
    mtlrun, finished, tmp_path
):
    result = mtlrun("verify", "table.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"{FOLDER}: 4 of 4 results agree"
    assert (
        "4 of 4 results computed again" in (tmp_path / FOLDER / "report.md").read_text()
    )
    assert "4 of 4 results computed again" in mtlrun("status", "table.yaml").stdout
    quiet = mtlrun("verify", FOLDER, "--sample", "1", "-q")
    assert quiet.stdout == f"{FOLDER}: 1 of 1 result agree\n"


def test_all_runs_of_a_folder_are_verified(mtlrun, finished):
    assert (
        mtlrun("verify", "results/runs", "--all", "-q").stdout
        == f"{FOLDER}: 4 of 4 results agree\n"
    )
    assert (
        mtlrun("verify", "all", "--seconds", "0").stdout
        == f"{FOLDER}: no result tried\n"
    )


def test_a_job_that_disagrees_is_named_and_the_exit_code_is_1(
    mtlrun, finished, tmp_path
):
    for path in (tmp_path / "results/runs/cells").glob("*.json"):
        record = Record.from_line(path.read_text())
        metrics = {"mse": 1.001 * record.metrics["mse"]}
        path.write_text(replace(record, metrics=metrics).line())
    result = mtlrun("verify", "table.yaml", "--sample", "1")
    assert result.exit_code == 1
    assert "DOES NOT AGREE" in result.stdout
    content = json.loads((tmp_path / FOLDER / "verified.json").read_text())
    (job,) = content["cells"]
    assert job["digits"] == pytest.approx(3.0, abs=0.01)
    assert not job["agrees"]


@pytest.mark.parametrize(
    "words", [("--sample", "2", "--all"), ("--seconds", "3", "--sample", "2")]
)
def test_the_number_of_jobs_can_be_given_in_only_one_way(mtlrun, finished, words):
    result = mtlrun("verify", "table.yaml", *words)
    assert result.exit_code == 2
    assert "--sample, --seconds and --all" in result.stderr


def test_a_path_without_a_run_is_rejected(mtlrun, tmp_path):
    (tmp_path / "empty").mkdir()
    assert mtlrun("verify", "empty").exit_code == 2
    assert mtlrun("verify", "no/such").exit_code == 2


def test_an_interrupt_keeps_the_computed_jobs(mtlrun, write_experiment, tmp_path):
    path = write_experiment()
    method = "'made_methods:Interrupted', params: {alpha: 2.0}"
    text = path.read_text().replace("PooledRidge, params: {alpha: 1.0}", method)
    path.write_text(text.replace("IndependentRidge", "'made_methods:Interrupted'"))
    assert mtlrun("reproduce", "table.yaml").exit_code == 0
    (tmp_path / "remaining").write_text("2")
    result = mtlrun("verify", "table.yaml")
    assert result.exit_code == 130
    content = json.loads((tmp_path / FOLDER / "verified.json").read_text())
    assert [job["agrees"] for job in content["cells"]] == [True, True]


def test_an_unwritable_result_is_reported_before_computing(
    mtlrun, write_experiment, tmp_path
):
    fits = tmp_path / "fits"
    fits.write_text("xx")
    write_experiment("Flaky")
    assert mtlrun("reproduce", "table.yaml").exit_code == 0
    before = fits.read_text()
    (tmp_path / FOLDER / "verified.json").mkdir()
    result = mtlrun("verify", "table.yaml")
    assert result.exit_code == 2
    assert "verified.json" in result.stderr
    assert fits.read_text() == before
