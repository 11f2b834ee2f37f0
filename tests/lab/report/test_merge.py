"""Jobs of two machines in one report."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack

import numpy as np
import pytest
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.engine.packed import PACKED, pack
from mtlrun.engine.record import SCORES, SCORES_DIGEST, Record
from mtlrun.engine.store import Store
from mtlrun.errors import DataError
from mtlrun.lab.merging import Merged, merge
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import FILES
from mtlrun.lab.report.run import jobs_with_outcome, read_run
from mtlrun.parallel.status import FAILED
from mtlrun.utils.arrays import array_digest
from mtlrun.utils.processes import exclusive_lock

DC = "LADM-DC-RMTL-10%"
RUN = "made/table1/quick"


def rewritten(path, **fields):
    """Write a record with other fields, as if it had been computed with them."""
    record = Record.from_line(path.read_text())
    for name, value in fields.items():
        setattr(record, name, value)
    path.write_text(record.line())
    return record


def packed(output):
    """Keep only the run folder, with its jobs in it; return it."""
    stored = Store(output)
    keys = [path.stem for path in stored.cells_folder.glob("*.json")]
    content = pack(map(stored.load, keys))
    (output / RUN / PACKED).write_bytes(content)
    shutil.rmtree(stored.cells_folder)
    return output / RUN


@pytest.fixture
def halves(maker, tmp_path):
    """Return outputs of the complete run and of two parts, one with a search."""
    maker.fill()
    maker.search("alpha", "One Norm", 1, {"alpha": [1, 2]}, [0.5, 0.4])
    scores = np.arange(3, dtype=np.float32)
    maker.records["alpha", "One Norm", 1].result = {
        SCORES: "made.npz",
        SCORES_DIGEST: array_digest(scores),
    }
    maker.provenance["runs"] = [
        {"started": "2026-01-02T00:00:00+00:00", "cpu": "first"}
    ]
    maker.write()
    key = maker.records["alpha", "One Norm", 1].key
    np.savez(maker.cells / f"{key}.npz", scores=scores)
    first, second = tmp_path / "first", tmp_path / "second"
    for index, output in enumerate((first, second)):
        shutil.copytree(maker.output, output)
        for path in (output / "cells").iterdir():
            if path.stem.endswith("-1") == (index == 0):
                path.unlink()
    runs = [
        {"started": "2026-01-01T00:00:00+00:00", "cpu": "second"},
        *maker.provenance["runs"],
    ]
    (second / RUN / "provenance.json").write_text(
        json.dumps({"schema": 1, "runs": runs})
    )
    return maker.output, first, second


@pytest.mark.parametrize(
    "form", ["the folder of a run", "a published run", "a folder of runs"]
)
def test_a_merged_report_equals_that_of_one_machine(halves, form):
    complete, first, second = halves
    other = (
        packed(second)
        if form == "a published run"
        else second / RUN
        if "of a run" in form
        else second
    )
    assert merge(first / RUN, other) == Merged(copied=3)
    there = {path.name for path in (complete / "cells").glob("*.json")}
    assert {path.name for path in (first / "cells").glob("*.json")} >= there
    scores = [np.load(path)["scores"] for path in (first / "cells").glob("*.npz")]
    # A packed run has digests of its scores, but no scores.
    expected = [] if form == "a published run" else [[0, 1, 2]]
    assert [values.tolist() for values in scores] == expected
    if form != "a folder of runs":
        runs = json.loads((first / RUN / "provenance.json").read_text())["runs"]
        assert [entry["cpu"] for entry in runs] == ["second", "first"], (
            "in the order of time, each once"
        )
    (complete / RUN / "provenance.json").write_text(
        (first / RUN / "provenance.json").read_text()
    )
    ours, theirs = build_report(first / RUN), build_report(complete / RUN)
    assert all(writer(ours) == writer(theirs) for writer in FILES.values())


def test_merged_jobs_are_in_the_run_folder(halves, tmp_path):
    _, first, second = halves
    merge(first / RUN, second / RUN)
    before = {name: writer(build_report(first / RUN)) for name, writer in FILES.items()}
    (first / RUN).rename(tmp_path / "published")
    assert {
        name: writer(build_report(tmp_path / "published"))
        for name, writer in FILES.items()
    } == before


def test_skipped_jobs_are_counted(halves):
    _, first, second = halves
    (second / "cells" / "foreign.json").write_text(Record("foreign", "fit", {}).line())
    (second / "cells" / f"alpha-{DC}-0.json").write_text("{")
    rewritten(second / "cells" / f"alpha-{DC}-1.json", status="failed")
    shutil.copy(first / "cells" / "alpha-APG-RMTL-0.json", second / "cells")
    merged = merge(first / RUN, second)
    assert merged == Merged(copied=2, already_here=1, foreign=1, unfinished=2)
    assert str(merged) == (
        "2 results copied (1 already finished here, 1 of other experiments, settings or versions, 2 not finished there)"
    )


def test_a_failed_job_is_replaced_by_a_finished_one(halves):
    complete, first, _ = halves
    rewritten(first / "cells" / "alpha-APG-RMTL-0.json", status="failed")
    assert len(jobs_with_outcome(read_run(first / RUN), FAILED)) == 1
    merge(first / RUN, complete / RUN)
    assert jobs_with_outcome(build_report(first / RUN).run, FAILED) == []


def test_nothing_is_written_twice(halves):
    _, first, second = halves
    merge(first / RUN, second / RUN)
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    assert merge(first / RUN, second / RUN).copied == 0
    assert {
        path: path.read_bytes() for path in first.rglob("*") if path.is_file()
    } == before


def test_only_run_folders_are_merged(halves, tmp_path, lacking):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError) as refused:
        merge(halves[1] / RUN, empty)
    assert not lacking(
        refused.value,
        str(empty),
        PACKED,
        "cells/",
        "<output>/<paper>/<artifact>/<profile>",
    )
    with pytest.raises(DataError) as refused:
        merge(empty, halves[1] / RUN)
    assert not lacking(
        refused.value, str(empty), "run.json", "<output>/<paper>/<artifact>/<profile>"
    )


def test_an_existing_job_keeps_its_numbers(halves):
    complete, first, _ = halves
    path = complete / "cells" / "alpha-APG-RMTL-0.json"
    rewritten(path, metrics={"auc": 0.99})
    before = (first / "cells" / path.name).read_bytes()
    merge(first / RUN, complete / RUN)
    assert (first / "cells" / path.name).read_bytes() == before


@pytest.mark.parametrize("other", ["version", "experiment"])
def test_a_run_with_another_plan_is_rejected_and_nothing_is_copied(halves, other):
    _, first, second = halves
    path = second / RUN / "run.json"
    plan = json.loads(path.read_text())
    if other == "experiment":
        plan["id"] = "made/table9"
    for cell in plan["cells"] if other == "version" else ():
        cell["key"] = (
            "other-version" if cell["key"] == "alpha-APG-RMTL-1" else cell["key"]
        )
    path.write_text(json.dumps(plan))
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    done = CliRunner().invoke(
        app, ["report", str(first / RUN), "--merge", str(second / RUN)]
    )
    assert done.exit_code == 2
    assert str(second / RUN) in done.stderr
    assert (
        "alpha/APG-RMTL/trial 1" if other == "version" else "made/table9"
    ) in done.stderr
    assert {
        path: path.read_bytes() for path in first.rglob("*") if path.is_file()
    } == before


def test_the_command_merges_folders(halves):
    _, first, second = halves
    done = CliRunner().invoke(
        app, ["report", str(first / RUN), "--merge", str(second / RUN)]
    )
    assert done.exit_code == 0, done.stderr
    assert f"{second / RUN}: 3 results copied" in done.stderr
    assert "6 of 6 results done." in done.stdout
    assert "6 of 6 results done." in (first / RUN / "report.md").read_text()


def test_a_merge_waits_for_the_process_that_computes_the_run_and_reports_it(halves):
    _, first, second = halves
    running = ExitStack()
    running.enter_context(exclusive_lock(Store(first, first / RUN).lock))
    n_waits = []

    def stop_running():
        n_waits.append(1)
        running.close()

    assert merge(first / RUN, second / RUN, stop_running) == Merged(copied=3)
    assert len(n_waits) == 1
