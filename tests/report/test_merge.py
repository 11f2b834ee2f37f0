"""Cells of two machines in one report."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from mtlrun.cli.app import app
from mtlrun.core.errors import DataError
from mtlrun.core.records import CellRecord
from mtlrun.report.build import build_report
from mtlrun.report.writers import FILES
from mtlrun.runs.merge import Merged, merge

DC = "LADM-DC-RMTL-10%"


@pytest.fixture
def halves(maker, tmp_path):
    """The whole run, and two copies with a part of its cells each; the second part has a search and kept scores."""
    search = CellRecord("search", "selection", "made/table1", "quick", "alpha", "One Norm", {}, {})
    search.selection = {"candidates": [{"params": {"alpha": 1}, "mean": 0.5}], "metric": "auc"}
    maker.fill()
    maker.extra.append(search)
    maker.records["alpha", "One Norm", 1].selection = {"key": "search", "chosen": {"alpha": 1}}
    maker.provenance["runs"] = [{"started": "2026-01-02T00:00:00+00:00", "cpu": "first"}]
    whole = maker.write()
    key = maker.records["alpha", "One Norm", 1].key
    np.savez(whole / "cells" / f"{key}.npz", scores=np.zeros(3, dtype=np.float32))
    first, second = tmp_path / "first", tmp_path / "second"
    for place, folder in enumerate((first, second)):
        shutil.copytree(whole, folder)
        for path in (folder / "cells").iterdir():
            if (path.stem.endswith("-1") or path.stem == "search") == (place == 0):
                path.unlink()
    runs = [{"started": "2026-01-01T00:00:00+00:00", "cpu": "second"}, *maker.provenance["runs"]]
    (second / "provenance.json").write_text(json.dumps({"schema": 1, "runs": runs}))
    return whole, first, second


def test_a_merged_report_is_that_of_one_machine(halves):
    whole, first, second = halves
    assert merge(first, second) == Merged(copied=4)
    assert {p.name for p in (first / "cells").iterdir()} == {p.name for p in (whole / "cells").iterdir()}
    runs = json.loads((first / "provenance.json").read_text())["runs"]
    assert [entry["cpu"] for entry in runs] == ["second", "first"], "in the order of time, each once"
    (whole / "provenance.json").write_text((first / "provenance.json").read_text())
    ours, theirs = build_report(first), build_report(whole)
    assert all(writer(ours) == writer(theirs) for writer in FILES.values())


def test_what_is_not_taken_is_counted(halves):
    _, first, second = halves
    foreign = CellRecord("foreign", "evaluation", "other/table", "quick", "alpha", "One Norm", {}, {})
    (second / "cells" / "foreign.json").write_text(foreign.to_json())
    (second / "cells" / "damaged.json").write_text("{")
    failed = second / "cells" / f"alpha-{DC}-1.json"
    failed.write_text(failed.read_text().replace('"status": "ok"', '"status": "failed"'))
    shutil.copy(first / "cells" / "alpha-APG-RMTL-0.json", second / "cells")
    merged = merge(first, second)
    assert merged == Merged(copied=3, known=1, foreign=1, unfinished=2)
    assert str(merged) == (
        "3 cells taken (1 finished here already, 1 of other experiments, settings or versions, 2 not finished there)"
    )


def test_a_failed_cell_is_replaced_by_a_finished_one(halves):
    whole, first, _ = halves
    path = first / "cells" / "alpha-APG-RMTL-0.json"
    path.write_text(path.read_text().replace('"status": "ok"', '"status": "failed"'))
    merge(first, whole)
    assert build_report(first).run.failed == []


def test_nothing_is_written_twice(halves):
    _, first, second = halves
    merge(first, second)
    before = (first / "provenance.json").read_bytes()
    assert merge(first, second).copied == 0
    assert (first / "provenance.json").read_bytes() == before


def test_only_folders_of_runs_are_merged(halves, tmp_path):
    with pytest.raises(DataError, match="no cells/ here"):
        merge(halves[1], tmp_path)


def test_other_numbers_of_a_cell_are_a_conflict_and_ours_are_kept(halves):
    whole, first, _ = halves
    path = whole / "cells" / "alpha-APG-RMTL-0.json"
    record = CellRecord.from_json(path.read_text())
    record.metrics["auc"] += 0.01
    record.seconds["fit"] *= 2
    path.write_text(record.to_json())
    before = (first / "cells" / path.name).read_bytes()
    done = CliRunner().invoke(app, ["report", str(first), "--merge", str(whole)])
    assert "conflict: alpha / APG-RMTL / trial 0: auc is 0.71 here and 0.72 there; ours is kept" in done.stderr
    assert done.stderr.count("conflict: ") == 1
    assert (first / "cells" / path.name).read_bytes() == before


def test_a_cell_of_another_version_is_named_with_what_changed(halves):
    _, first, second = halves
    for folder, code in ((first, "a"), (second, "b")):
        for path in sorted((folder / "cells").glob("alpha-APG*.json")):
            record = CellRecord.from_json(path.read_text())
            record.inputs = {"code": {"mtlrun/solvers/apg.py": code}, "dataset": {"id": "alpha"}}
            path.write_text(record.to_json())
            if code == "b":
                record.key = "other-version"
                path.unlink()
                (folder / "cells" / "other-version.json").write_text(record.to_json())
    done = CliRunner().invoke(app, ["report", str(first), "--merge", str(second)])
    line = "alpha / APG-RMTL / trial 1: computed there in another way, not taken: code changed (mtlrun/solvers/apg.py)"
    assert f"conflict: {line}" in done.stderr
    assert "PARTIAL RUN: 5 of 6 cells done" in done.stdout


def test_the_command(halves):
    _, first, second = halves
    done = CliRunner().invoke(app, ["report", str(first), "--merge", str(second)])
    assert done.exit_code == 0, done.stderr
    assert f"{second}: 4 cells taken" in done.stderr
    assert "6 of 6 cells done." in done.stdout
    assert "6 of 6 cells done." in (first / "report.md").read_text()
