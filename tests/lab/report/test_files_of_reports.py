"""Files of a report are reproducible, complete and escaped."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path

import pytest

from mtlrun.engine.record import Record, SearchResult, Seconds
from mtlrun.errors import UnknownNameError
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import (
    FILES,
    FORMATS,
    csv_table,
    json_report,
    latex,
    markdown,
    render,
    write_report,
)
from mtlrun.lab.report.method_results import method_results
from mtlrun.lab.report.run import read_run
from mtlrun.lab.report.sections import (
    computing_seconds,
    cost_section,
    data_section,
    job_table,
    selected_text,
    solver_section,
)

DC = "LADM-DC-RMTL-10%"


def table_of(text: str) -> str:
    results = text.split("## Results\n\n")[1].split("\n## ")[0]
    return next(
        block for block in results.split("\n\n") if block.startswith("|")
    ).strip()


@pytest.fixture
def full(maker):
    """Return a run with a failure, a search, claims, references and two machines."""
    maker.fill(("alpha", "beta"))
    maker.fail(
        "beta",
        "One Norm",
        1,
        error="LinAlgError: SVD did not converge\nsecond line | with a bar",
    )
    for trial in range(2):
        scores = [0.5, 0.6, 0.7] if trial else [0.5, 0.7, 0.6]
        maker.search(
            "alpha", "One Norm", trial, {"alpha": [0.1, 1, 10]}, scores, scores, scores
        )
    check = {
        "kind": "ratio",
        "quantity": "seconds",
        "of": "APG-RMTL",
        "over": DC,
        "at_least": 2.5,
    }
    maker.config["claims"] = [
        {
            "id": "made-1",
            "text": "DC is 2.5x faster_",
            "where": "Table I",
            "checks": [check],
        }
    ]
    maker.config["reference"] = [
        {"dataset": "alpha", "method": "APG-RMTL", "quantity": "auc", "value": 0.75}
    ]
    entry = {
        "started": "2026-01-02T03:04:05+00:00",
        "finished": "2026-01-02T03:05:05+00:00",
        "mtlrun": "0.1.0",
    }
    maker.provenance["runs"] = [
        {
            **entry,
            "commit": "c" * 40,
            "dirty": True,
            "packages": {"numpy": "2.4.6"},
            "jobs": 2,
        }
    ]
    return maker


def test_claims_are_counted_by_source(maker):
    maker.fill(("alpha",))
    check = {"kind": "value", "quantity": "auc", "of": "One Norm", "at_least": 0.0}
    sources = {
        "a": {},
        "b": {"source": "other data"},
        "c": {"source": "ours"},
        "d": {"source": "ours"},
    }
    maker.config["claims"] = [
        {"id": name, "text": "so", "checks": [check], **fields}
        for name, fields in sources.items()
    ]
    report = build_report(maker.write())
    assert report.summary[-4:-1] == [
        "1 claim of the paper: 1 holds.",
        "1 claim of the paper, tested on other data: 1 holds.",
        "2 claims of our own: 2 hold.",
    ]
    text = markdown(report)
    assert "* **holds**: b (tested on other data): so." in text
    assert "* **holds**: c (our own claim): so." in text


def test_files_have_unix_line_ends(full):
    folder = full.write()
    for path in write_report(build_report(folder), folder):
        text = path.read_bytes()
        assert b"\r" not in text
        assert text.endswith(b"\n")


def test_the_report_contains_no_path_of_the_machine(full):
    folder = full.write()
    report = build_report(folder)
    assert not [
        name for name, writer in FILES.items() if str(folder.parent) in writer(report)
    ]


def test_markdown_has_all_sections_in_order(full):
    text = markdown(build_report(full.write()))
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "Outcome",
        "Results",
        "Figures",
        "Claims",
        "What the verdicts rest on",
        "Printed numbers and ours",
        "Comparison of methods",
        "Protocol",
        "Parameter search",
        "Data",
        "Solvers",
        "Timing",
        "Environment",
        "Deviations",
        "Failures",
        "Cost",
        "How to rerun",
    ]


def test_markdown_names_its_source_and_findings(full):
    lines = [
        "Nobody: Nothing & more, 2015. Table I",
        "* 11 of 12 results done, 1 failed.",
        "* 1 claim of the paper: 1 holds.",
        "* 1 printed number: 1 out of tolerance.",
        "alpha, beta: only one class in the training part for 1-2, AUC undefined for 1 of 3 tasks in each split.",
        "* **holds**: made-1 (Table I): DC is 2.5x faster_. Found: 2 of 2 comparisons hold.",
        "In 1 of 1 row the best value was at an end of the grid at least once, so a better one may lie outside: "
        "widen the grid.",
        "Wall clock of 1 invocation: 60.0 s.",
        "Packages: numpy 2.4.6.",
        "AUC is averaged over the labels where it is defined.",
    ]
    text = markdown(build_report(full.write()))
    assert [line for line in lines if line not in text.splitlines()] == []


def test_a_search_has_a_row(full):
    report = build_report(full.write())
    section = next(s for s in report.sections if s.title == "Parameter search")
    assert section.grids[0].rows == [
        [
            "alpha",
            "One Norm",
            3,
            18,
            "alpha 1 (1); alpha 10 (1)",
            "alpha hit its maximum in 1 of 2 splits",
        ]
    ]


def test_rare_choices_of_a_search_are_only_counted():
    chosen = [1, 1, 1, 2, 2, 3, 4, 5]
    records = []
    for split, value in enumerate(chosen):
        selection = SearchResult(chosen={"alpha": value})
        records.append(Record(str(split), "fit", {}, selection=selection))
    text = "alpha 1 (3); alpha 2 (2); alpha 3 (1); 2 other choices"
    assert selected_text(records) == text
    assert selected_text(records[:7]).endswith("; 1 other choice")
    assert selected_text(records[:6]).endswith("; alpha 3 (1)")
    assert selected_text(records[:3]) == "alpha 1"


def test_errors_stay_on_one_line(full):
    report = build_report(full.write())
    section = next(s for s in report.sections if s.title == "Failures")
    (line,) = section.lines
    assert line.startswith(
        "failed: beta / One Norm / trial 1: LinAlgError: SVD did not converge [cells/"
    )
    assert line in markdown(report).splitlines()


def test_columns_are_aligned(full):
    text = markdown(build_report(full.write()))
    table = table_of(text).splitlines()
    assert len({len(line) for line in table}) == 1


def test_a_single_split_has_no_p_values_and_no_standard_deviation(maker):
    maker.trials = 1
    text = markdown(build_report(maker.fill().write()))
    table = table_of(text)
    assert "±" not in table
    assert "p (Holm)" not in text
    assert "Friedman" not in text
    rows = list(csv.DictReader(io.StringIO(csv_table(build_report(maker.folder)))))
    assert [row["auc_std"] for row in rows] == ["", "", ""]


def test_a_partial_run_is_marked_as_partial(maker):
    maker.fill()
    maker.skip("alpha", DC, 0)
    maker.skip("alpha", DC, 1)
    report = build_report(maker.write())
    assert report.summary[0] == "PARTIAL RUN: 4 of 6 results done, 2 not computed yet."
    assert json.loads(json_report(report))["partial"] is True
    section = next(s for s in report.sections if s.title == "Not computed yet")
    assert section.grids[0].rows == [["alpha", 2, DC]]


def test_sections_have_the_numbers_of_the_records(maker):
    maker.trials = 3
    for trial, (n_iter, has_converged) in enumerate(
        [(1, True), (2, False), (30, True)]
    ):
        record = maker.cell("alpha", "APG-RMTL", trial)
        record.solver |= {"n_iter": n_iter, "converged": has_converged}
        record.seconds = Seconds(fit=1.0, fit_all=[1.0, 1.0, 4.0], total=10.0)
    run = read_run(maker.write())
    (row,) = method_results(run)
    (line,) = solver_section(run, [row]).grids[0].records()
    assert (line["iterations"], line["converged"]) == (2, "2/3")
    # Results, their seconds, and those of timed fits
    (line,) = cost_section(run).lines
    assert re.findall(r"[\d.]*\d", line) == ["3", "30.0", "18.0"]
    (line,) = data_section(run).grids[0].records()
    assert line["used"] == "4 + 6 rows, 3 tasks"
    jobs, _ = job_table(run, row)
    assert [job["seconds"] for job in jobs.records()] == [1.0, 1.0, 1.0]
    assert computing_seconds([run, run]) == 30.0


def test_a_failed_job_is_listed_as_failed(maker):
    maker.fail("alpha", "APG-RMTL", 0)
    maker.skip("alpha", "APG-RMTL", 1)
    run = read_run(maker.write())
    jobs, logs = job_table(run, method_results(run)[0])
    assert [job["status"] for job in jobs.records()] == ["failed", "missing"]
    assert list(logs) == ["ValueError: no"]


def test_an_empty_run_has_a_report(maker):
    for method in maker.info["methods"]:
        maker.skip("alpha", method, 0)
    report = build_report(maker.write())
    for form in FORMATS:
        assert render(report, form)
    assert {row.status for row in report.rows} == {"missing"}


def test_csv_can_be_read_back(full):
    rows = list(csv.DictReader(io.StringIO(csv_table(build_report(full.write())))))
    assert len(rows) == 6
    assert rows[0] == {
        "dataset": "alpha",
        "method": "One Norm",
        "auc_mean": "0.7005",
        "auc_std": "0.0007071067812",
        "seconds_median": "8.0",
        "speedup": "0.25",
        "n": "2",
        "status": "ok",
        "planned": "2",
        "one_class_train": "1-2",
        "undefined_auc": "1",
    }


def test_json_is_strict_and_contains_the_trials(full):
    full.records["alpha", "APG-RMTL", 0].solver["objective"] = float("inf")
    content = json.loads(
        json_report(build_report(full.write())),
        parse_constant=lambda name: pytest.fail(name),
    )
    assert content["cells"] == {"planned": 12, "done": 11, "failed": 1, "missing": 0}
    assert content["trials"][0]["values"]["auc"] == {"0": 0.7, "1": 0.701}
    assert content["claims"][0]["results"][0]["found"] == 4.0
    assert content["reference"][0]["verdict"] == "outside"


def test_latex_is_escaped(full):
    text = latex(build_report(full.write()))
    assert r"& LADM-DC-RMTL-10\% \\" in text
    assert r"DC is 2.5x faster\_" in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 5
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len({line.count(" & ") for line in body}) == 1


def test_latex_of_a_metric_has_its_tables_only(full):
    report = build_report(full.write())
    assert latex(report, metrics=["auc"]).count(r"\begin{table}") == 1
    with pytest.raises(UnknownNameError, match="auc"):
        latex(report, metrics=["rmse"])


def test_simulated_data_are_marked(maker):
    maker.info["datasets"]["alpha"]["simulated"] = True
    assert "**alpha (simulated)**" in markdown(build_report(maker.fill().write()))


def test_an_unknown_format_is_rejected(maker):
    with pytest.raises(UnknownNameError, match="unknown format 'mdd'"):
        render(build_report(maker.fill().write()), "mdd")


def test_a_full_disk_leaves_no_partial_file(maker, monkeypatch):
    folder = maker.fill().write()

    def full_disk(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_report(build_report(folder), folder)
    assert not [
        p for p in Path(folder).iterdir() if p.name.startswith((".", "table", "report"))
    ]


def test_the_report_says_that_seconds_are_not_at_equal_accuracy(maker):
    maker.fill()
    maker.records["alpha", "One Norm", 1].solver["gap"] = 2e-3
    for trial in range(2):
        maker.records["alpha", "APG-RMTL", trial].solver.pop("gap")
    report = build_report(maker.write())
    assert "at equal accuracy" in markdown(report)
    (solvers,) = next(
        section for section in report.sections if section.title == "Solvers"
    ).grids
    assert {row["method"]: row["largest gap"] for row in solvers.records()} == {
        "One Norm": 2e-3,
        "APG-RMTL": None,
        "LADM-DC-RMTL-10%": 1e-5,
    }
