"""``mtlrun reproduce`` on small experiments: the requirements of the runner, tested
from the shell.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import render

RUN = Path("results/runs/made/table1/full")
CLAIM = """\
claims:
  - id: made-1
    text: {text}
    checks: [{{kind: order, quantity: mse, methods: [{order}], dataset: simulated-rmtl, effect: 0}}]
"""
REFERENCE = """\
reference:
  - {{dataset: simulated-rmtl, method: Ridge, quantity: mse, value: {value}, source: stored}}
tolerance: {{quantity: mse, absolute: 0.01}}
"""


def rows_of(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / RUN / "table.csv").open(newline="") as lines:
        return {row["method"]: row for row in csv.DictReader(lines)}


def test_reproduce_prints_table_claims_and_report_and_sets_the_exit_code(
    mtlrun, write_experiment, tmp_path
):
    write_experiment(extra=CLAIM.format(text="Ridge errs less", order="Ridge, Pooled"))
    result = mtlrun("reproduce", "table.yaml")
    assert result.exit_code == 0, result.output
    assert (
        "profile full: 1 data set x 2 methods x 2 splits; data: simulated-rmtl"
        in result.stderr
    )
    assert (
        len(
            re.findall(
                r"^\[\d/4\] simulated-rmtl/(Ridge|Pooled)/trial [01]  ok",
                result.stderr,
                re.M,
            )
        )
        == 4
    )
    assert "holds: made-1: Ridge errs less." in result.stdout
    assert result.stdout.splitlines()[-1].startswith(f"report: {RUN / 'report.html'} (")
    assert {name: row["status"] for name, row in rows_of(tmp_path).items()} == {
        "Ridge": "ok",
        "Pooled": "ok",
    }
    file_names = {path.name for path in (tmp_path / RUN).iterdir()}
    assert file_names == {
        "cells.json.xz",
        "run.json",
        "provenance.json",
        "table.csv",
        "report.md",
        "report.html",
    }


def test_a_method_that_raises_gets_a_row(mtlrun, write_experiment, tmp_path):
    write_experiment("Broken")
    result = mtlrun("reproduce", "table.yaml")
    assert result.exit_code == 1
    rows = rows_of(tmp_path)
    assert (
        rows["Broken"]["status"],
        rows["Broken"]["n"],
        rows["Broken"]["mse_mean"],
    ) == ("failed", "0", "")
    assert rows["Ridge"]["status"] == "ok"
    (failure,) = [
        line for line in result.stdout.splitlines() if line.startswith("failed: ")
    ]
    assert (
        "simulated-rmtl / Broken / trials 0, 1: ValueError: broken on purpose [cells/"
        in failure
    )
    assert result.stdout.index(failure) > result.stdout.index("Pooled")
    assert "Traceback" not in result.output


def test_failed_jobs_are_retried_and_finished_ones_are_not(
    mtlrun, write_experiment, tmp_path
):
    write_experiment("Broken")
    mtlrun("reproduce", "table.yaml")
    before = {
        p.name: p.stat().st_mtime_ns
        for p in (tmp_path / "results" / "runs" / "cells").glob("*.json")
    }
    result = mtlrun("reproduce", "table.yaml")
    assert (
        "rerun simulated-rmtl/Broken/2 trials: failed: ValueError: broken on purpose"
        in result.stderr
    )
    after = {
        p.name: p.stat().st_mtime_ns
        for p in (tmp_path / "results" / "runs" / "cells").glob("*.json")
    }
    assert sum(before[name] != after[name] for name in before) == 2


def test_records_left_unpacked_by_a_killed_run_are_packed_by_the_next_run(
    mtlrun, write_experiment, tmp_path, monkeypatch
):
    write_experiment()

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lzma.compress", killed)
        mtlrun("reproduce", "table.yaml")
    assert not (tmp_path / RUN / "cells.json.xz").exists()
    assert mtlrun("reproduce", "table.yaml").exit_code == 0
    assert (tmp_path / RUN / "cells.json.xz").exists()
    assert (tmp_path / RUN / "report.md").exists()


def test_a_second_run_is_up_to_date_and_writes_only_missing_files(
    mtlrun, write_experiment, tmp_path
):
    write_experiment()
    first = mtlrun("reproduce", "table.yaml")
    assert first.exit_code == 0, first.stderr
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / RUN).rglob("*")}
    second = mtlrun("reproduce", "table.yaml")
    assert second.stderr.splitlines()[-1].endswith("up to date")
    assert second.stdout == first.stdout
    assert {
        path: path.stat().st_mtime_ns for path in (tmp_path / RUN).rglob("*")
    } == before
    report = tmp_path / RUN / "report.md"
    text = report.read_text()
    report.write_text("of another version")
    assert mtlrun("reproduce", "table.yaml").exit_code == 0
    assert report.read_text() == text


@pytest.mark.slow
def test_status_starts_no_solver(write_experiment, tmp_path, environment, begin):
    write_experiment()
    # Computes, in an empty cache, what `status` then reads without importing the
    # methods.
    assert begin("reproduce", "table.yaml", "-q").wait() == 0
    code = (
        "import sys\nsys.argv = ['mtlrun', 'status', 'table.yaml']\nfrom mtlrun.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code or 0\n"
        "heavy = 'mtlrun.solvers mtlrun.estimators.base mtlrun.estimators.independent mtlrun.engine.evaluation'\n"
        "heavy += ' mtlrun.engine.fit numpy sklearn scipy pandas numba joblib matplotlib'\n"
        "heavy = [name for name in heavy.split() if name in sys.modules]\n"
        "print('HEAVY', heavy, file=sys.stderr)\nsys.exit(code)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0
    assert "HEAVY []" in run.stderr
    assert run.stdout.endswith("4 results: 4 done\n")


def test_output_outside_a_terminal_has_plain_lines(
    begin, write_experiment, environment
):
    write_experiment("Broken")
    environment["FORCE_COLOR"] = "1"
    out, err = begin("reproduce", "table.yaml").communicate()
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", out + err)
    assert len(re.findall(r"^\[\d/6\] ", err, re.M)) == 6


def test_quiet_prints_only_results_and_errors(mtlrun, write_experiment):
    write_experiment()
    result = mtlrun("reproduce", "table.yaml", "--quiet")
    assert result.stderr == ""
    assert "Ridge" in result.stdout


def test_dry_run_computes_nothing(mtlrun, write_experiment, tmp_path):
    write_experiment()
    result = mtlrun("reproduce", "table.yaml", "--dry-run")
    assert result.exit_code == 0
    assert (
        result.stdout.splitlines()[-1] == "4 of 4 results to compute; nothing was run"
    )
    assert not (tmp_path / "results").exists()
    mtlrun("reproduce", "table.yaml")
    assert (
        mtlrun("reproduce", "table.yaml", "-n").stdout == "all 4 results up to date\n"
    )


def test_a_partial_run_can_be_completed(mtlrun, write_experiment, tmp_path):
    write_experiment()
    result = mtlrun("reproduce", "table.yaml", "--only", "method=Rid*")
    assert result.exit_code == 0
    assert "PARTIAL RUN: 2 of 4 results done, 2 not computed yet." in result.stdout
    assert rows_of(tmp_path)["Pooled"]["status"] == "missing"
    result = mtlrun("reproduce", "table.yaml")
    assert "2 of 4 results to compute" in result.stderr
    assert rows_of(tmp_path)["Pooled"]["status"] == "ok"


def test_a_single_trial_has_no_standard_deviation(mtlrun, write_experiment, tmp_path):
    write_experiment()
    result = mtlrun("reproduce", "table.yaml", "--set", "split.trials=1")
    assert "±" not in result.stdout
    assert rows_of(tmp_path)["Ridge"]["mse_std"] == ""
    assert "p = " not in (tmp_path / RUN / "report.md").read_text()


def test_set_overrides_the_file_and_the_plan_shows_it(
    mtlrun, write_experiment, tmp_path
):
    write_experiment()
    mtlrun("reproduce", "table.yaml", "--set", "split.trials=1", "--seed", "7")
    plan = json.loads((tmp_path / RUN / "run.json").read_text())
    assert plan["overrides"] == ["split.trials=1", "seed=7"]
    assert (plan["config"]["split"]["trials"], plan["config"]["seed"]) == (1, 7)
    result = mtlrun(
        "show", "table.yaml", "--yaml", "--set", "split.trials=1", "--seed", "7"
    ).stdout
    assert {"seed: 7", "trials: 1"} <= {
        line.strip().strip("{}") for line in re.split(r"[\n,]", result)
    }


def test_small_numbers_survive_show(mtlrun, write_experiment):
    """YAML 1.1 parses 1e-05 as a string; only 1.0e-05 is a number."""
    write_experiment()
    result = mtlrun(
        "show", "table.yaml", "--yaml", "--set", "methods.Ridge.params.alpha=1e-05"
    ).stdout
    assert "1.0e-05" in result


def test_check_reports_job_numbers_and_tolerance(mtlrun, write_experiment, tmp_path):
    write_experiment()
    mtlrun("reproduce", "table.yaml")
    mse = float(rows_of(tmp_path)["Ridge"]["mse_mean"])
    write_experiment(extra=REFERENCE.format(value=round(mse, 4)))
    result = mtlrun("reproduce", "table.yaml", "--check")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        0,
        "check: all numbers are within tolerance and no claim is contradicted",
    )
    write_experiment(extra=REFERENCE.format(value=round(mse + 0.5, 4)))
    assert (
        mtlrun("reproduce", "table.yaml").exit_code == 0
    )  # Verdicts alone never change the exit code.
    result = mtlrun("reproduce", "table.yaml", "--check")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        f"check: simulated-rmtl / Ridge: mse is {mse:.6g}, the stored says {round(mse + 0.5, 4):.6g}; "
        "the difference -0.5 exceeds the tolerance 0.01 (absolute)"
    )


def test_check_rejects_a_contradicted_claim(mtlrun, write_experiment, lacking):
    write_experiment(extra=CLAIM.format(text="Pooled errs less", order="Pooled, Ridge"))
    assert mtlrun("reproduce", "table.yaml").exit_code == 0
    result = mtlrun("reproduce", "table.yaml", "--check")
    assert result.exit_code == 1
    assert not lacking(
        result.stderr,
        "claim made-1: not confirmed",
        "mse of Pooled, Ridge on simulated-rmtl",
    )


@pytest.mark.parametrize("form", ["md", "json", "csv", "tex"])
def test_format_prints_only_the_file(mtlrun, write_experiment, tmp_path, form):
    write_experiment()
    result = mtlrun("reproduce", "table.yaml", "--format", form)
    assert result.stdout == render(build_report(tmp_path / RUN), form)
    if form in ("md", "csv"):
        assert (
            result.stdout
            == (
                tmp_path / RUN / ("table.csv" if form == "csv" else "report.md")
            ).read_text()
        )


def test_an_invalid_format_is_rejected_before_anything_runs(
    mtlrun, write_experiment, tmp_path, lacking
):
    write_experiment()
    result = mtlrun("reproduce", "table.yaml", "--format", "markdown")
    assert result.exit_code == 2
    assert not lacking(result.stderr, "'markdown'", "csv, html, json, md, parquet, tex")
    assert not (tmp_path / "results").exists()


def test_an_interrupt_writes_a_partial_report(write_experiment, tmp_path, begin, until):
    write_experiment("Slow")
    process = begin("reproduce", "table.yaml")
    until((tmp_path / "begun").exists)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert "PARTIAL RUN: 4 of 6 results done, 2 not computed yet." in out
    assert (
        "interrupted with 2 results left; finished results are kept: run the same command to continue"
        in err
    )
    assert "Traceback" not in err
    assert {name: row["status"] for name, row in rows_of(tmp_path).items()} == {
        "Ridge": "ok",
        "Pooled": "ok",
        "Slow": "missing",
    }


def test_missing_data_end_the_run_with_the_remedy_and_the_demo(
    mtlrun, write_experiment, tmp_path
):
    write_experiment(datasets="datasets: [enron]", metrics="metrics: [auc]")
    result = mtlrun("reproduce", "table.yaml", "--data-dir", "empty")
    assert result.exit_code == 2
    lines = result.stderr.splitlines()[2:]
    assert re.fullmatch(
        r"data set enron is not in empty: enron\.arff.* \(\d files?, \d+\.\d MB unpacked\); license: .+",
        lines[0],
    )
    assert lines[1:] == [
        "error: nothing was downloaded: there is no terminal to ask for confirmation",
        "Add --yes to go ahead.",
        "To run without any download: mtlrun reproduce table.yaml --profile demo --data-dir empty",
    ]
    assert not (tmp_path / "results").exists()
    dry = mtlrun("reproduce", "table.yaml", "--data-dir", "empty", "--dry-run")
    assert (dry.exit_code, dry.stdout) == (
        0,
        "to be downloaded first: enron; then all results would be computed\n",
    )


ARFF = (
    b"@relation 'x: -C 1'\n@attribute a {0,1}\n@attribute c numeric\n@data\n"
    + b"1,5\n0,6\n1,7\n0,4\n" * 6
)
CARD = f"""\
id: mine
title: My set
task_type: binary
design: shared
reader: {{name: mulan, options: {{arff: [t.arff]}}}}
folder: mine
files:
  - name: t.arff
    sha256: {hashlib.sha256(ARFF).hexdigest()}
    bytes: {len(ARFF)}
    urls: [{{url: "https://example.org/t.arff"}}]
licence: free
citation: nobody
"""


@pytest.fixture
def files(tmp_path, write_experiment, internet):
    """Write an experiment on a missing data set; return the files of the internet."""
    (tmp_path / "data" / "cards").mkdir(parents=True)
    (tmp_path / "data" / "cards" / "mine.yaml").write_text(CARD)
    write_experiment(datasets="datasets: [mine]", metrics="metrics: [auc]")
    return internet.files


def test_missing_data_are_fetched_if_allowed(mtlrun, files, tmp_path):
    files["https://example.org/t.arff"] = ARFF
    result = mtlrun("reproduce", "table.yaml", "--data-dir", "data", "--yes")
    assert result.exit_code == 0, result.output
    assert "downloaded and verified" in result.stderr
    assert (tmp_path / "data" / "mine" / "t.arff").read_bytes() == ARFF
    assert rows_of(tmp_path)["Ridge"]["status"] == "ok"


@pytest.mark.parametrize(
    ("served", "words"),
    [
        ({}, "no connection"),
        ({"https://example.org/t.arff": b"@relation other"}, "expected sha256"),
    ],
)
def test_if_fetching_fails_the_message_has_the_remedy(
    mtlrun, files, tmp_path, served, words
):
    files.update(served)
    result = mtlrun("reproduce", "table.yaml", "--data-dir", "data", "--yes")
    assert result.exit_code == 2
    assert words in result.stderr
    assert "mtlrun data add mine FILE" in result.stderr
    assert (
        result.stderr.splitlines()[-1]
        == "To run without any download: mtlrun reproduce table.yaml --profile demo --data-dir data"
    )
    assert not (tmp_path / "results").exists()


def test_data_without_an_address_must_be_added_by_hand(
    mtlrun, files, tmp_path, lacking
):
    lines = [
        line for line in CARD.splitlines() if "urls" not in line and "bytes" not in line
    ]
    (tmp_path / "data" / "cards" / "mine.yaml").write_text("\n".join(lines) + "\n")
    result = mtlrun("reproduce", "table.yaml", "--data-dir", "data", "--yes")
    assert result.exit_code == 2
    assert not lacking(
        result.stderr, "mine", "t.arff", "license: free", "mtlrun data add mine FILE"
    )
    (tmp_path / "mine.arff").write_bytes(ARFF)
    assert (
        mtlrun("data", "add", "mine", "mine.arff", "--data-dir", "data").exit_code == 0
    )
    assert mtlrun("reproduce", "table.yaml", "--data-dir", "data").exit_code == 0


def test_a_flipped_byte_is_rejected_with_both_hashes(mtlrun, files, tmp_path):
    wrong = ARFF.replace(b"1,5", b"1,4", 1)
    (tmp_path / "data" / "mine").mkdir()
    (tmp_path / "data" / "mine" / "t.arff").write_bytes(wrong)
    result = mtlrun("reproduce", "table.yaml", "--data-dir", "data")
    assert result.exit_code == 2
    assert hashlib.sha256(ARFF).hexdigest() in result.stderr
    assert hashlib.sha256(wrong).hexdigest() in result.stderr
    assert not (tmp_path / "results").exists()


def test_an_unwritable_output_folder_is_an_error(mtlrun, write_experiment, tmp_path):
    write_experiment()
    (tmp_path / "file").write_text("")
    result = mtlrun("reproduce", "table.yaml", "--output", "file")
    assert result.exit_code == 2
    assert (
        result.stderr.splitlines()[-2]
        == "error: file is a file, but results need a folder"
    )
    assert "--output" in result.stderr.splitlines()[-1]


def test_a_paper_file_rebuilt_elsewhere_has_the_same_bytes(
    mtlrun, write_experiment, tmp_path
):
    write_experiment("Broken")
    mtlrun("reproduce", "table.yaml")
    folder = tmp_path / RUN
    names = ["table.csv", "report.md", "report.html"]
    before = {name: (folder / name).read_bytes() for name in names}
    moved = tmp_path / "other"
    folder.rename(moved)
    (tmp_path / "table.yaml").unlink()
    for name in names:
        (moved / name).unlink()
    result = mtlrun("report", "other")
    assert result.exit_code == 1  # One job failed.
    assert {name: (moved / name).read_bytes() for name in names} == before
    assert (
        json.loads(mtlrun("report", "other", "--format", "json").stdout)["cells"][
            "failed"
        ]
        == 2
    )
