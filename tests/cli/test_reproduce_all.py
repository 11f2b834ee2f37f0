"""``mtlrun reproduce all`` and the summary of many runs, on small papers and some
shipped paper items.
"""

from __future__ import annotations

import json
import lzma
import shutil
import signal
from pathlib import Path

import pytest

from mtlrun.lab.batch import artefacts, gather, to_compute

RUNS = Path("results/runs")
PROFILES = "profiles:\n  demo: {}\n"


@pytest.fixture
def papers(tmp_path, write_experiment, monkeypatch):
    """Write shipped experiments: `papers("name", *methods, extra=..., **lines)`."""
    monkeypatch.setattr(
        "mtlrun.lab.experiment.catalogue.configs_dir", lambda: tmp_path / "configs"
    )

    def write(name: str, *methods: str, **changes: str) -> Path:
        target = tmp_path / "configs" / f"{name}.yaml"
        target.parent.mkdir(parents=True, exist_ok=True)
        path = write_experiment(*methods, id=f"id: {name}", **changes)
        target.write_text(path.read_text())
        path.unlink()
        return target

    return write


@pytest.fixture
def all_kinds(papers, tmp_path):
    """Write five paper items: one works, one has an error, and three cannot start."""
    claim = "{id: c1, text: Ridge errs less, checks: [{kind: order, quantity: mse, methods: [Pooled, Ridge], effect: 0}]}"
    papers("alpha/good", extra=f"claims: [{claim}]\n")
    papers(
        "alpha/raises", "Broken", split="split: {kind: random, train: 0.5, trials: 1}"
    )
    papers("beta/lacks", datasets="datasets: [enron]", metrics="metrics: [auc]")
    papers("beta/wrong").write_text(
        "schema: 1\nid: beta/wrong\ntitel: Nothing\nprofiles: {demo: {}}\n"
    )
    other = papers("beta/other")
    other.write_text(other.read_text().replace(PROFILES, "profiles:\n  quick: {}\n"))
    (tmp_path / "empty").mkdir()


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """Return a folder for the results of `all_kinds`, and a list for the output."""
    return tmp_path_factory.mktemp("first") / "results", []


@pytest.fixture
def reproduced(mtlrun, all_kinds, tmp_path, first_run):
    """Write the results of the five items, and return the output of the command.

    They are computed once.
    """
    folder, outputs = first_run
    if outputs:
        shutil.copytree(folder, tmp_path / "results")
    else:
        command = ["reproduce", "all", "--profile", "demo", "--data-dir", "empty"]
        outputs.append(mtlrun(*command))
        shutil.copytree(tmp_path / "results", folder)
    return outputs[0]


def summary(tmp_path: Path, profile: str = "demo") -> dict:
    return json.loads((tmp_path / RUNS / f"summary-{profile}.json").read_text())


def test_an_item_that_cannot_start_does_not_stop_the_others(
    reproduced, tmp_path, lacking
):
    result = reproduced
    assert result.exit_code == 2, "data and a file are wrong"
    content = summary(tmp_path)
    assert [(run["run"], run["done"], run["failed"]) for run in content["runs"]] == [
        ("alpha/good/demo", 4, 0),
        ("alpha/raises/demo", 2, 1),
    ]
    assert content["left_out"]["beta/other"] == "no profile 'demo'; it has quick, full"
    assert "nothing was downloaded" in content["left_out"]["beta/lacks"]
    assert content["left_out"]["beta/wrong"].startswith(
        "configs/beta/wrong.yaml:1:1: missing key"
    )
    assert content["total"]["not confirmed"] == 1
    assert (
        content["summary"][0]
        == "2 artifacts, 6 of 7 results done, 1 failed; 3 left out."
    )
    assert "alpha/good/demo: c1: Ridge errs less: does not hold" in result.stdout
    rows = [
        line.split()
        for line in result.stdout.splitlines()
        if line.startswith("alpha/raises/demo ")
    ]
    assert " ".join(word for row in rows for word in row[1:]).startswith("2 of 3 ")
    assert any("1 failed" in " ".join(row) for row in rows)
    assert "error: beta/lacks: " in result.stderr
    assert "Traceback" not in result.output
    assert all(
        len(line) <= 80 for line in result.stdout.splitlines() if ":" not in line
    )
    page = (tmp_path / RUNS / "summary-demo.html").read_text()
    assert 'href="alpha/good/demo/report.html"' in page
    run = tmp_path / RUNS / "alpha/good/demo"
    assert (run / "report.html").is_file()
    assert (run / "cells.json.xz").is_file(), (
        "the folder of a run has its records in it"
    )
    text = (tmp_path / RUNS / "summary-demo.md").read_text()
    assert "[alpha/good/demo](alpha/good/demo/report.md)" in text
    assert "* Ridge errs less: does not hold" in text
    assert "Made with `mtlrun reproduce all --profile demo`." in text


def test_a_second_run_computes_only_failed_jobs(mtlrun, all_kinds, tmp_path):
    first = mtlrun("reproduce", "all", "--profile", "demo", "--data-dir", "empty")
    pages = {
        name: (tmp_path / RUNS / f"summary-demo.{name}").read_bytes()
        for name in ("md", "html")
    }
    again = mtlrun("reproduce", "all", "--profile", "demo", "--data-dir", "empty")
    assert "all 4 results up to date" in again.stderr
    assert "alpha/raises: 1 of 3 results to compute" in again.stderr
    assert again.exit_code == first.exit_code
    assert {
        name: (tmp_path / RUNS / f"summary-demo.{name}").read_bytes() for name in pages
    } == pages


@pytest.mark.slow
def test_exit_codes_match_those_of_single_experiments(mtlrun, papers, tmp_path):
    papers("alpha/good")
    assert mtlrun("reproduce", "all", "--profile", "demo").exit_code == 0
    assert mtlrun("reproduce", "all", "--profile", "demo", "--check").exit_code == 0
    papers("alpha/raises", "Broken")
    assert mtlrun("reproduce", "all", "--profile", "demo").exit_code == 1
    reference = "reference: [{dataset: simulated-rmtl, method: Ridge, quantity: mse, value: 1e9, source: stored}]\n"
    papers("alpha/raises", extra=reference)
    assert mtlrun("reproduce", "all", "--profile", "demo").exit_code == 0
    result = mtlrun("reproduce", "all", "--profile", "demo", "--check")
    assert result.exit_code == 1
    assert "check: alpha/raises/demo: simulated-rmtl / Ridge: mse is" in result.stderr


def test_an_internal_error_in_one_item_does_not_end_the_run(
    mtlrun, papers, tmp_path, monkeypatch
):
    papers("alpha/bad")
    papers("beta/good")
    compress = lzma.compress

    def fail_once(*args, **options):
        monkeypatch.setattr(lzma, "compress", compress)
        raise RuntimeError("no one expected this")

    monkeypatch.setattr(lzma, "compress", fail_once)
    result = mtlrun("reproduce", "all", "--profile", "demo")
    assert result.exit_code == 1
    assert summary(tmp_path)["left_out"] == {
        "alpha/bad": "RuntimeError: no one expected this"
    }
    assert [run["run"] for run in summary(tmp_path)["runs"]] == ["beta/good/demo"]


def test_fail_fast_stops_the_remaining_items_and_names_them(mtlrun, papers, tmp_path):
    papers(
        "alpha/raises", "Broken", split="split: {kind: random, train: 0.5, trials: 1}"
    )
    papers("beta/never")
    result = mtlrun("reproduce", "all", "--profile", "demo", "--fail-fast", "--quiet")
    assert result.exit_code == 1
    assert summary(tmp_path)["left_out"] == {"beta/never": "not started: --fail-fast"}
    assert "== " not in result.stderr
    assert not (tmp_path / RUNS / "beta").exists()


def test_an_unwritable_folder_is_reported_and_the_other_items_are_completed(
    mtlrun, papers, tmp_path
):
    papers("alpha/blocked")
    papers("beta/good")
    (tmp_path / RUNS).mkdir(parents=True)
    (tmp_path / RUNS / "alpha").write_text("a file where the folder of a paper belongs")
    result = mtlrun("reproduce", "all", "--profile", "demo")
    assert result.exit_code == 2
    assert "error: alpha/blocked: " in result.stderr
    assert str(RUNS / "alpha") in result.stderr
    assert "Traceback" not in result.output
    assert [run["run"] for run in summary(tmp_path)["runs"]] == ["beta/good/demo"]


def test_a_dry_run_lists_the_items_that_would_be_skipped(mtlrun, all_kinds, tmp_path):
    result = mtlrun(
        "reproduce", "all", "--profile", "demo", "--data-dir", "empty", "--dry-run"
    )
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert lines["beta/lacks"].endswith("left out: to be downloaded first: enron.")
    assert lines["beta/other"].endswith(
        "left out: no profile 'demo'; it has quick, full"
    )
    assert "configs/beta/wrong.yaml:1:1: missing key" in lines["beta/wrong"]
    assert result.stdout.splitlines()[-1].startswith(
        "2 artifacts: 5 of 7 results and 0 search folds to compute"
    )
    assert not (tmp_path / RUNS).exists()


def test_debug_shows_the_traceback_of_an_internal_error(mtlrun, papers, monkeypatch):
    papers("alpha/bad")
    papers("beta/never")
    monkeypatch.setattr(lzma, "compress", lambda *_, **__: {}["no one expected this"])
    result = mtlrun("reproduce", "all", "--profile", "demo", "--debug")
    assert isinstance(result.exception, KeyError)
    assert "beta/never" not in result.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--set", "seed=1"), "error: --set "),
        (("--format", "csv"), "unknown format of a summary 'csv'"),
        (("--profile", "dema"), "no artifact has the profile 'dema'"),
        (
            ("--profile", "demo", "--only", "method=Nobody"),
            "no result is named by --only method=Nobody",
        ),
        (("--profile", "demo", "--only", "metod=Ridge"), "unknown key"),
    ],
)
def test_invalid_arguments_are_rejected_before_anything_runs(
    mtlrun, papers, tmp_path, args, words
):
    papers("alpha/good")
    result = mtlrun("reproduce", "all", *args)
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / RUNS).exists()


def test_a_subset_can_be_reproduced(mtlrun, papers, tmp_path):
    papers("alpha/good")
    papers("beta/good")
    papers("beta/more", "Broken")
    result = mtlrun(
        "reproduce",
        "all",
        "--profile",
        "demo",
        "--only",
        "artefact=b*,method=Broken",
        "--only",
        "trial=0",
    )
    assert result.exit_code == 1
    content = summary(tmp_path)
    assert [
        (run["run"], run["done"], run["failed"], run["missing"])
        for run in content["runs"]
    ] == [("beta/more/demo", 0, 1, 5)]
    assert content["left_out"] == {
        "beta/good": "nothing in it that --only method=Broken,trial=0 names"
    }


def test_items_that_share_jobs_compute_them_once(mtlrun, papers, tmp_path):
    papers("alpha/alone", split="split: {kind: random, train: 0.4, trials: 1}")
    papers("alpha/first")
    papers("alpha/second", "Broken")
    plans = gather(profile="demo", output=tmp_path / RUNS).plans
    assert [result.experiment.id for result in plans] == [
        "alpha/alone",
        "alpha/first",
        "alpha/second",
    ]
    assert to_compute(plans) == [(2, 0, 0), (4, 0, 0), (2, 0, 4)]
    dry = mtlrun("reproduce", "all", "--profile", "demo", "--dry-run")
    assert dry.exit_code == 0
    assert (
        "alpha/second  demo  2 of 6 results; 4 shared with artifacts above"
        in dry.stdout
    )
    assert (
        dry.stdout.splitlines()[-1]
        == "3 artifacts: 8 of 12 results and 0 search folds to compute; nothing was run"
    )
    assert not (tmp_path / RUNS).exists()
    done = mtlrun("reproduce", "all", "--profile", "demo")
    assert "alpha/second: 2 of 6 results to compute" in done.stderr
    result = summary(tmp_path)
    runs = {run["id"]: run["seconds"] for run in result["runs"]}
    assert 0 < runs["alpha/first"] <= runs["alpha/second"]
    total = sum(paper["seconds"] for paper in result["papers"].values())
    assert total == pytest.approx(
        runs["alpha/second"] + runs["alpha/alone"]
    )  # Shared jobs count once.


def test_an_interrupt_keeps_all_finished_jobs(papers, tmp_path, begin, until):
    papers("alpha/first")
    papers("alpha/slow", "Slow", split="split: {kind: random, train: 0.5, trials: 1}")
    papers("beta/never")
    process = begin("reproduce", "all", "--profile", "demo")
    until((tmp_path / "begun").exists)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert (
        "interrupted; finished results are kept: run the same command to continue"
        in err
    )
    assert "Traceback" not in err
    result = summary(tmp_path)
    assert {run["id"]: (run["done"], run["missing"]) for run in result["runs"]} == {
        "alpha/first": (4, 0),
        "alpha/slow": (2, 1),
    }
    assert result["left_out"] == {"beta/never": "not started: interrupted"}


def test_the_summary_is_rebuilt_from_the_runs(mtlrun, reproduced, tmp_path, lacking):
    before = {path: path.read_bytes() for path in (tmp_path / RUNS).rglob("report.*")}
    for form, claim in (
        ("md", "* Ridge errs less: does not hold"),
        ("json", '"id": "c1"'),
    ):
        result = mtlrun("report", str(RUNS), "--format", form, "--profile", "demo")
        assert result.exit_code == 1, "a cell failed"
        assert claim in result.stdout
    assert json.loads(result.stdout)["left_out"] == {}
    out = mtlrun("report", "all", "--format", "html", "--out", "all.html")
    assert out.stdout == "summary: all.html\n"
    assert not (tmp_path / RUNS / "index.html").exists()
    assert mtlrun("report", "all").stdout.splitlines()[-1].startswith("summary: ")
    assert (tmp_path / RUNS / "index.html").is_file()
    assert {path: path.read_bytes() for path in before} == before
    refused = mtlrun("report", str(RUNS), "--profile", "quick")
    assert refused.exit_code == 2
    assert not lacking(
        refused.stderr, f"{RUNS}: ", "'quick'", "mtlrun reproduce all --profile quick"
    )
    assert mtlrun("report", str(RUNS), "--merge", "empty").exit_code == 2


def test_a_claim_of_several_runs_counts_once(mtlrun, papers, tmp_path):
    claim = "{id: c1, text: All hold, checks: [{kind: value, quantity: mse, of: [Ridge, Pooled], at_least: 0, effect: 0}]}"
    papers("alpha/good", extra=f"claims: [{claim}]\n")
    mtlrun(
        "reproduce", "all", "--profile", "demo", "--only", "method=Ridge", "--seed", "1"
    )
    mtlrun("reproduce", "all", "--profile", "full")
    content = json.loads(mtlrun("report", "all", "--format", "json").stdout)
    assert (
        content["summary"][0]
        == "1 artifact in 2 runs, 6 of 8 results done, 2 not computed yet."
    )
    assert [(claim["run"], claim["verdict"]) for claim in content["claims"]] == [
        ("alpha/good/full", "confirmed")
    ]
    assert [run["confirmed"] + run["partly"] for run in content["runs"]] == [1, 1]
    assert content["left_out"] == {}
    papers("alpha/more")
    papers("beta/other")
    content = json.loads(mtlrun("report", "all", "--format", "json").stdout)
    assert content["left_out"] == {"alpha/more": "no run here"}, (
        "of the papers that are here"
    )


def test_shipped_items_that_need_no_data_can_be_reproduced(mtlrun, tmp_path):
    names = ["dcrmtl/table1", "fetr/audit", "mtmkl/audit"]
    only = ",".join(f"artefact={name}" for name in names)
    result = mtlrun(
        "reproduce", "all", "--profile", "smoke", "--only", only, "--format", "json"
    )
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert [run["id"] for run in content["runs"]] == names
    assert content["left_out"] == {}
    assert len(content["claims"]) == 6


def test_training_files_are_not_paper_items():
    assert {entry.id.partition("/")[0] for entry in artefacts()} == {
        "atlas",
        "dcrmtl",
        "fetr",
        "mtmkl",
        "mtsvm",
    }
